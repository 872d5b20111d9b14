"""A fitted model and its data, summed up as plain numbers and words: the report before it has a look.

Everything the page shows stands in this dictionary, so scripts and tests read the same figures as people do.
Only Python numbers, strings, lists and dictionaries: `json.dumps` takes it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from thurbo import __version__
from thurbo.errors import SchemaError
from thurbo.report.answers import Answers, FloatArray, read_answers
from thurbo.report.embedding import embed
from thurbo.report.units import describe_units, percent

# What a fit maximises, as people say it.
_OBJECTIVES = {
    "exact": "exact likelihood",
    "likelihood": "likelihood by sampling",
    "multi-prediction": "multi-prediction",
}


def summary(
    model: Any,
    X: Any,
    *,
    title: str = "What the answers say",
    rows_are: str = "respondents",
    source: str | None = None,
    colour_by: Sequence[str] | None = None,
    held_out: Mapping[str, Any] | None = None,
    what_if: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    max_points: int = 3000,
) -> dict[str, Any]:
    """Sum up `model`, a fitted TBM, on the rows of X: data, fit, hidden units and map.

    `source` says whose data they are, in the page's last line.
    `colour_by` names the questions that colour the map, or "question: label" of one with several sites; by default
    those that differ most across hidden units. `held_out` is a check and `what_if` are questions asked elsewhere (see
    `thurbo.demo`), shown as given. At most `max_points` rows are mapped.
    """
    answers = read_answers(model.schema_, X)
    n_rows = len(answers[0].values) if answers else 0
    on = np.asarray(model.transform(X, output="probability"), float)[:, : model.weights_.shape[1]]
    log_odds = np.asarray(model.transform(X, output="log_odds"), float)
    units = describe_units(answers, on, np.asarray(model.weights_, float), list(model.site_names_))
    chosen = _map_columns(answers, units, colour_by)
    return {
        "title": title,
        "rows_are": rows_are,
        "source": source,
        "thurbo_version": __version__,
        "data": _data(answers, n_rows),
        "fit": _fit(model),
        "history": _history(model.history_),
        "units": units,
        "map": _map(log_odds, on, chosen, seed, max_points),
        "held_out": dict(held_out) if held_out is not None else None,
        "what_if": [dict(each) for each in what_if],
    }


def _data(answers: Sequence[Answers], n_rows: int) -> dict[str, Any]:
    columns = []
    for column in answers:
        seen, many = column.values[column.observed], column.kind == "multiselect"
        labels = [part.name.removeprefix(f"{column.name}: ") for part in column.parts] or list(column.labels)
        record: dict[str, Any] = {
            "name": column.name,
            "kind": column.kind,
            "description": column.description,
            "share_missing": column.share_missing,
            "labels": labels,
        }
        if many:  # any number of them in a row, so shares do not add up to one
            record["counts"] = [int(np.nansum(part.values)) for part in column.parts]
            shares = [float(np.mean(part.values[part.observed])) for part in column.parts if part.observed.any()]
            record["words"] = _shares_in_words(labels, shares, len(labels)) if len(shares) == len(labels) else ""
        elif labels:
            record["counts"] = [int(np.sum(seen == code)) for code in range(len(labels))]
            if column.parts and len(seen):  # in no order, so the ends of a bar say nothing
                first = "first: " if column.kind == "ranking" else ""
                record["words"] = first + _shares_in_words(labels, [n / len(seen) for n in record["counts"]], 3)
        else:
            quantiles = np.quantile(seen, [0.05, 0.25, 0.5, 0.75, 0.95]) if len(seen) else np.full(5, np.nan)
            record["quantiles"] = [_plain(q) for q in quantiles]
        columns.append(record)
    missing = float(np.mean([c.share_missing for c in answers])) if answers else 0.0
    return {"n_rows": n_rows, "n_columns": len(answers), "share_missing": missing, "columns": columns}


def _shares_in_words(labels: Sequence[str], shares: Sequence[float], most: int) -> str:
    """The labels with the largest shares, largest first."""
    order = sorted(range(len(labels)), key=lambda place: -shares[place])
    words = ", ".join(f"{labels[place]} {percent(shares[place])}" for place in order[:most])
    return words + (", …" if len(order) > most else "")


def _fit(model: Any) -> dict[str, Any]:
    n_sites, n_hidden = np.shape(model.weights_)
    return {
        "objective": _OBJECTIVES.get(model.objective_, str(model.objective_)),
        "n_hidden": int(n_hidden),
        "n_sites": int(n_sites),
        "n_epochs": int(model.n_epochs_),
        "seconds": _seconds(model.history_),
        "converged": bool(model.converged_),
    }


def _seconds(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds since the fit began, as its last record has them."""
    return _plain(history[-1]["seconds"]) if history and "seconds" in history[-1] else None


def _history(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"epoch": int(entry["epoch"]), "objective": _plain(entry["objective"])} for entry in history]


def _plain(number: Any) -> float | None:
    """A float that JSON can carry: what is not finite becomes None."""
    number = float(number)
    return number if np.isfinite(number) else None


def _map_columns(
    answers: Sequence[Answers],
    units: Sequence[Mapping[str, Any]],
    colour_by: Sequence[str] | None,
    most: int = 6,
) -> list[Answers]:
    by_name = {each.name: each for column in answers for each in (column, *column.parts)}
    if colour_by is not None:
        for name in colour_by:
            if name not in by_name:
                raise SchemaError(
                    "is not a column of the model, so the map cannot be coloured by it",
                    column=name,
                    remedy=f"choose among {', '.join(column.name for column in answers)}",
                )
        return [by_name[name] for name in colour_by]
    # One map shows every label of a choice; options are ticked independently, so each has its own.
    home = {part.name: column for column in answers if column.kind != "multiselect" for part in column.parts}
    # How much a column matters to the units, discounted where few answered: a grey map tells nothing.
    score: dict[str, float] = {}
    for unit in units:
        for effect in [*unit["up"], *unit["down"]]:
            column = home.get(effect["column"], by_name[effect["column"]])
            gain = abs(effect["standardised"]) * (1 - column.share_missing)
            score[column.name] = max(score.get(column.name, 0.0), gain)
    return [by_name[name] for name in sorted(score, key=lambda name: -score[name])[:most]]


def _map(
    log_odds: FloatArray, on: FloatArray, columns: Sequence[Answers], seed: int, max_points: int
) -> dict[str, Any]:
    n_rows = len(log_odds)
    rows = np.arange(n_rows)
    if n_rows > max_points:
        rows = np.sort(np.random.default_rng(seed).choice(n_rows, max_points, replace=False))
    plane, method = embed(log_odds[rows], seed)
    return {
        "method": method,
        "n_rows": n_rows,
        "n_points": len(rows),
        "x": np.round(plane[:, 0], 4).tolist(),
        "y": np.round(plane[:, 1], 4).tolist(),
        "colourings": [_colouring(column, rows) for column in columns],
        # Unit k + 1 of "units" is column k here: point by point, the probability that it is on.
        "on": np.round(on[rows], 2).tolist(),
    }


def _colouring(column: Answers, rows: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Which of a few groups each point belongs to: the levels themselves, or fifths of a measured column."""
    values, labels = column.values, list(column.labels)
    if not labels:
        seen = values[column.observed]
        edges = np.unique(np.quantile(seen, [0.2, 0.4, 0.6, 0.8])) if len(seen) else np.zeros(0)
        labels = _fifths(edges.tolist())
        values = np.where(column.observed, np.searchsorted(edges, values, side="right"), np.nan)
    groups = [None if np.isnan(v) else int(v) for v in values[rows]]
    return {"column": column.name, "kind": column.kind, "labels": labels, "groups": groups}


def _fifths(edges: Sequence[float]) -> list[str]:
    if not edges:
        return ["all"]
    words = [f"{edge:.4g}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(words)]
    return [f"below {words[0]}", *between, f"{words[-1]} and more"]
