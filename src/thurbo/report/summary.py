"""The summary of a fitted model and its data: everything that the report page shows, as plain values.

Scripts and tests can read the same figures as the page.
Guarantees only Python numbers, strings, lists and dictionaries, so that `json.dumps` can store it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from thurbo import __version__
from thurbo.columns.cells import listing, suggestion
from thurbo.errors import SchemaError
from thurbo.io.table import Table, as_table
from thurbo.queries.scaling import scaled
from thurbo.report.embedding import embed
from thurbo.report.missing import missing_kinds
from thurbo.report.responses import Answers, FloatArray, read_answers
from thurbo.report.units import describe_units, percent
from thurbo.schema.question_texts import question_texts
from thurbo.schema.routing import NOT_APPLICABLE, not_applicable

LONG_TEXT = 40  # characters
# Names of the objectives in the report.
_OBJECTIVES = {
    "exact": "exact likelihood",
    "likelihood": "likelihood (stochastic)",
    "multi-prediction": "multi-prediction",
}


def summary(
    model: Any,
    X: Any,
    *,
    title: str = "Report",
    rows_are: str = "rows",
    columns_are: str = "columns",
    source: str | None = None,
    colour_by: Sequence[str] | None = None,
    held_out: Mapping[str, Any] | None = None,
    what_if: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    max_points: int = 3000,
) -> dict[str, Any]:
    """Summarise a fitted model and a table: data, fit, hidden units, map and segments.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows to describe, for example the training data.
    title : str
        Title of the page.
    rows_are, columns_are : str
        What the page calls rows and columns, for example "respondents" and "questions".
    source : str, optional
        Credit for the data, shown at the end of the page.
    colour_by : sequence of str, optional
        Columns (or "column: label") that colour the map; by default those that differ most between hidden units.
    held_out, what_if : optional
        Results of an evaluation and predictions under conditions, as in `thurbo.demo`; shown unchanged.
    seed, max_points : int
        Random seed of the map, and its maximum number of rows; all other figures use all rows.

    Returns
    -------
    dict
        Plain values for `render`. Shares and means, except of missing cells, are weighted by the Weight column.

    Raises
    ------
    SchemaError
        If the model has lists of items, or `colour_by` names an unknown column.
    """
    source_table = as_table(X)
    answers = read_answers(model.schema_, source_table)
    weight = _weights(model.schema_, source_table)
    missing = missing_kinds(model.schema_, source_table)
    data = _data(answers, source_table.n_rows, weight, missing) | _schema(model.schema_, source_table)
    return {
        "title": title,
        "rows_are": rows_are,
        "columns_are": columns_are,
        "source": source,
        "thurbo_version": __version__,
        "data": {**data, "missing": missing},
        "fit": _fit(model),
        "history": _history(model.history_),
        **_structure(model, source_table, answers, weight, colour_by, seed, max_points),
        "segments": _segments(model.segments(X, random_state=seed)),
        "held_out": dict(held_out) if held_out is not None else None,
        "what_if": [dict(each) for each in what_if],
    }


def _structure(
    model: Any,
    source: Table,
    answers: Sequence[Answers],
    weight: FloatArray | None,
    colour_by: Sequence[str] | None,
    seed: int,
    max_points: int,
) -> dict[str, Any]:
    """Hidden units, the map, and the texts of questions."""
    asked = None if colour_by is None else _named(answers, colour_by)
    log_odds = np.asarray(model.transform(source, output="log_odds"), float)
    on = expit(log_odds[:, : model.weights_.shape[1]])
    texts, sites = _texts(answers, model.schema_), list(model.site_names_)
    units = describe_units(answers, on, np.asarray(model.weights_, float), sites, rows=weight, texts=texts)
    chosen = _most_different(answers, units) if asked is None else asked
    points, not_asked = scaled(log_odds, on.shape[1], weight), _not_asked(answers, model.schema_, source)
    return {"units": units, "map": _map(points, on, chosen, not_asked, seed, max_points), "texts": texts}


def _data(
    answers: Sequence[Answers], n_rows: int, weight: FloatArray | None, missing: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Figures of each column; a question that was not asked is not missing."""
    columns: list[dict[str, Any]] = []
    for column in answers:
        not_asked = min(missing.get(column.name, {}).get(NOT_APPLICABLE, 0.0), column.share_missing)
        seen, many = column.values[column.observed], not column.exclusive and column.labels
        rows = None if weight is None else weight[column.observed]
        parts = column.parts if column.labels else ()
        labels = [part.name.removeprefix(f"{column.name}: ") for part in parts] or list(column.labels)
        record: dict[str, Any] = {
            "name": column.name,
            "kind": column.kind,
            "description": column.description,
            "share_missing": column.share_missing - not_asked,
            "share_not_applicable": not_asked,
            "labels": labels,
            "share_interval": column.share_interval,
        }
        if many:  # several options per row, so shares do not sum to one
            record["counts"] = [_count(part.values == 1, weight) for part in column.parts]
            shares = [_share(part, weight) for part in column.parts if part.observed.any()]
            record["words"] = _shares_in_words(labels, shares, len(labels)) if len(shares) == len(labels) else ""
        elif labels:
            record["counts"] = [_count(seen == code, rows) for code in range(len(labels))]
            total = sum(record["counts"])
            if not column.has_order and total:  # unordered labels: shares instead of the two ends
                record["words"] = column.prefix + _shares_in_words(labels, [n / total for n in record["counts"]], 3)
        else:
            record["quantiles"] = [_plain(q) for q in _quantiles(seen, rows, (0.05, 0.25, 0.5, 0.75, 0.95))]
        columns.append(record)
    means = {
        key: float(np.mean([column[key] for column in columns])) if columns else 0.0
        for key in ("share_missing", "share_not_applicable")
    }
    return {"n_rows": n_rows, "n_columns": len(answers), **means, "columns": columns}


def _weights(schema: Any, source: Table) -> FloatArray | None:
    """Weights of the rows with mean one, if the table has them."""
    weight = schema.weights(source, missing_columns="ignore")
    return None if weight is None else weight / weight.mean()


def _texts(answers: Sequence[Answers], schema: Any) -> dict[str, dict[str, str]]:
    """The text of every column and of every part of a question, short and in full, by name.

    The short text of a part has the name of the column if the question is long: a label needs the room.
    """
    own = {name: text._asdict() for name, text in question_texts(schema.names, schema.titles).items()}
    parts = {
        part.name: {
            key: part.name
            if len(text) > LONG_TEXT and key == "short"
            else f"{text}: {part.name[len(column.name) + 2 :]}"
            for key, text in own[column.name].items()
        }
        for column in answers
        for part in column.parts
    }
    return own | parts


def _segments(found: Any) -> dict[str, Any]:
    """Segments of the rows: whether they stand apart, their sizes, and their most typical answers."""
    keys = ("segment", "n", "share", "stability")
    profiles = [
        {key: record[key] for key in keys}
        | {side: [{k: e[k] for k in ("column", "words")} for e in record[side]] for side in ("over", "under")}
        for record in found.profiles
    ]
    figures = {name: _plain(getattr(found, name)) for name in ("agreement", "silhouette", "reference_silhouette")}
    return {"n": found.n, "stand_apart": found.stand_apart, "verdict": found.verdict, **figures, "profiles": profiles}


def _count(holds: np.ndarray[Any, Any], weight: FloatArray | None) -> float:
    """Number of rows, weighted (mean weight one) and rounded to one decimal if there are weights."""
    return int(holds.sum()) if weight is None else round(float(weight[holds].sum()), 1)


def _share(part: Answers, weight: FloatArray | None) -> float:
    rows = None if weight is None or not weight[part.observed].any() else weight[part.observed]
    return float(np.average(part.values[part.observed], weights=rows))


def _quantiles(values: FloatArray, weight: FloatArray | None, levels: Sequence[float]) -> FloatArray:
    """Quantiles; with weights, by linear interpolation of the weighted distribution function."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    if not len(values):
        return np.full(len(levels), np.nan)
    if weight is None:
        return np.quantile(values, levels)
    order = np.argsort(values, kind="stable")
    values, weight = values[order], weight[order]
    reached = np.cumsum(weight) - weight / 2
    return np.interp(np.asarray(levels) * weight.sum(), reached, values)


def _schema(schema: Any, source: Table) -> dict[str, Any]:
    """Columns outside the model, reasons, titles, and questions that are not asked of everyone."""
    left_out = [
        {"name": name, "kind": column.kind, "description": column.describe()}
        for name, column in schema.items()
        if not column.sites
    ]
    reasons = {name: why for name, why in schema.reasons.items() if name in schema.modelled}
    titles = {name: title for name, title in schema.titles.items() if title != name}
    weighted_by = next((name for name, column in schema.items() if column.role == "weight" and name in source), None)
    skips = [{"columns": list(skip.columns), "condition": skip.condition} for skip in schema.skips]
    return {"left_out": left_out, "reasons": reasons, "titles": titles, "weighted_by": weighted_by, "skips": skips}


def _shares_in_words(labels: Sequence[str], shares: Sequence[float], most: int) -> str:
    """The labels with the largest shares, largest first."""
    order = sorted(range(len(labels)), key=lambda place: -shares[place])
    words = ", ".join(f"{labels[place]} {percent(shares[place])}" for place in order[:most])
    return words + (", …" if len(order) > most else "")


def _fit(model: Any) -> dict[str, Any]:
    n_sites, n_hidden = np.shape(model.weights_)
    return {
        "objective": _OBJECTIVES.get(model.objective_, str(model.objective_)),
        "method": str(model.method_),
        "n_hidden": int(n_hidden),
        "n_sites": int(n_sites),
        "n_epochs": int(model.n_epochs_),
        "time": (spent := {stage: _plain(seconds) for stage, seconds in model.time_spent_.items()}),
        "seconds": spent.get("total", _seconds(model.history_)),
        "converged": bool(model.converged_),
        "n_factors": int(np.shape(model.loadings_)[1]),
        "unobserved": str(model.unobserved),
    }


def _seconds(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Duration of training in seconds, from its last record, where the whole time is not known."""
    return _plain(history[-1]["seconds"]) if history and "seconds" in history[-1] else None


def _history(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each epoch: the objective, the objective on held-out rows if it was computed, and events."""
    return [
        {
            "epoch": int(entry["epoch"]),
            "objective": _plain(entry["objective"]),
            "held_out": _plain(entry["held_out"]) if "held_out" in entry else None,
            "event": entry.get("event"),
        }
        for entry in history
    ]


def _plain(number: Any) -> float | None:
    """A float for JSON; None if it is not finite."""
    number = float(number)
    return number if np.isfinite(number) else None


def _by_name(answers: Sequence[Answers]) -> dict[str, Answers]:
    return {each.name: each for column in answers for each in (column, *column.parts)}


def _named(answers: Sequence[Answers], names: Sequence[str]) -> list[Answers]:
    """The columns that colour the map; raises early for an unknown name."""
    by_name = _by_name(answers)
    for name in names:
        if name not in by_name:
            remedy = f"{suggestion(name, by_name)}choose among {listing(column.name for column in answers)}"
            raise SchemaError("colour_by names it, but the model does not have it", column=name, remedy=remedy)
    return [by_name[name] for name in names]


def _most_different(answers: Sequence[Answers], units: Sequence[Mapping[str, Any]], most: int = 6) -> list[Answers]:
    """The columns that differ most between hidden units."""
    by_name = _by_name(answers)
    # A choice is one map with all labels; options are independent, so each has its own map.
    home = {part.name: column for column in answers if column.exclusive for part in column.parts}
    # The largest standardised difference, multiplied by the share of answers.
    score: dict[str, float] = {}
    for unit in units:
        for effect in [*unit["up"], *unit["down"]]:
            column = home.get(effect["column"], by_name[effect["column"]])
            gain = abs(effect["standardised"]) * (1 - column.share_missing)
            score[column.name] = max(score.get(column.name, 0.0), gain)
    return [by_name[name] for name in sorted(score, key=lambda name: -score[name])[:most]]


def _not_asked(answers: Sequence[Answers], schema: Any, source: Table) -> dict[str, np.ndarray[Any, Any]]:
    """Rows without an answer because the question was not asked, by the name of the question and of its parts."""
    found = not_applicable(schema, schema.skips, source)
    return {each.name: found[own.name] for own in answers if own.name in found for each in (own, *own.parts)}


def _map(
    points: FloatArray,
    on: FloatArray,
    columns: Sequence[Answers],
    not_asked: Mapping[str, np.ndarray[Any, Any]],
    seed: int,
    max_points: int,
) -> dict[str, Any]:
    n_rows = len(points)
    rows, nobody = np.arange(n_rows), np.zeros(n_rows, bool)
    if n_rows > max_points:
        rows = np.sort(np.random.default_rng(seed).choice(n_rows, max_points, replace=False))
    plane, method = embed(points[rows], seed)
    return {
        "method": method,
        "n_rows": n_rows,
        "n_points": len(rows),
        "x": np.round(plane[:, 0], 4).tolist(),
        "y": np.round(plane[:, 1], 4).tolist(),
        "colourings": [
            {**_colouring(column, rows), "n_not_asked": int(not_asked.get(column.name, nobody)[rows].sum())}
            for column in columns
        ],
        # Column k is the probability that unit k + 1 of "units" is on, for each point.
        "on": np.round(on[rows], 2).tolist(),
    }


def _colouring(column: Answers, rows: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The group of each point: its level, or the fifth (quintile) of a number."""
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
