"""The summary of a fitted model and its data: everything that the report page shows, as plain values.

Scripts and tests can read the same figures as the page.
Guarantees only Python numbers, strings, lists and dictionaries, so that `json.dumps` can store it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from thurbo import __version__
from thurbo.io.table import Table, as_table
from thurbo.report.accuracy import as_plain
from thurbo.report.catalogue import catalogue
from thurbo.report.cautions import cautions
from thurbo.report.findings import findings, relations
from thurbo.report.missing import missing_kinds
from thurbo.report.question_cards import plain, question_records
from thurbo.report.responses import Answers, FloatArray, read_answers
from thurbo.report.row_map import named, row_map, row_texts, telling
from thurbo.report.segment_cards import Placed, find_segments, placed, segment_records
from thurbo.report.units import describe_factors, describe_units
from thurbo.report.wording import texts_of
from thurbo.schema.routing import not_applicable

DRIVERS = 3  # questions on which a question depends most
# Names of the objectives in the report.
_OBJECTIVES = {
    "exact": "exact likelihood",
    "likelihood": "likelihood (stochastic)",
    "multi-prediction": "multi-prediction",
}


class Names(NamedTuple):
    """How the page is called, and what it calls rows and columns."""

    title: str
    rows_are: str
    columns_are: str
    source: str | None


class _Read(NamedTuple):
    """The table as the page needs it."""

    table: Table
    blocks: Mapping[str, Any]
    answers: list[Answers]
    weight: FloatArray | None  # with mean one
    texts: dict[str, dict[str, str]]


def summary(
    model: Any,
    X: Any,
    *,
    title: str = "Report",
    rows_are: str = "rows",
    columns_are: str = "questions",
    source: str | None = None,
    colour_by: Sequence[str] | None = None,
    held_out: Any = None,
    what_if: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    max_points: int = 3000,
    rows: bool = False,
) -> dict[str, Any]:
    """Summarise a fitted model and a table: findings, warnings, segments, accuracy, questions, relations, map.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows to describe, for example the training data.
    title : str
        Title of the page.
    rows_are, columns_are : str
        What the page calls rows and columns, for example "respondents" and "items".
    source : str, optional
        Credit for the data, shown at the end of the page.
    colour_by : sequence of str, optional
        Columns (or "column: label") that colour the map; by default those that differ most between segments.
    held_out : Evaluation, optional
        Accuracy on hidden answers, from `tb.evaluate` or `model.evaluate`.
    what_if : sequence of dict, optional
        Predictions under conditions, as in `thurbo.demo`; shown unchanged.
    seed, max_points : int
        Random seed of the map, and the maximum number of rows on the map; other figures use all rows.
    rows : bool, default=False
        Whether the map tells the answers of single rows. By default the page has no answers of single people.

    Returns
    -------
    dict
        Plain values for `render`. Shares and means, except of missing cells, are weighted by the Weight column.

    Raises
    ------
    SchemaError
        If `colour_by` names an unknown column.
    """
    read, tested = _reading(model, X), as_plain(held_out)
    coloured = None if colour_by is None else named(read.answers, colour_by)  # raises before any work
    where = placed(model, read.table, read.blocks)
    found = find_segments(model.schema_, where)
    return {
        **Names(title, rows_are, columns_are, source)._asdict(),
        "thurbo_version": __version__,
        **_contents(model, read, found, tested, rows_are),
        "items": catalogue(model, seed),
        **_structure(model, read, where, found, coloured, seed, max_points, rows),
        "what_if": [dict(each) for each in what_if],
        "history": _history(model.history_),
        "texts": read.texts,
    }


def _contents(model: Any, read: _Read, found: Any, tested: dict[str, Any] | None, rows_are: str) -> dict[str, Any]:
    """Findings, warnings, segments, accuracy, questions and relations."""
    schema, missing = model.schema_, missing_kinds(model.schema_, read.table)
    data = _data(read, missing) | _schema(schema, read.table) | {"missing": missing}
    gates = {skip.asked_if for skip in schema.skips}
    segments, fit = segment_records(found, read.texts, gates), _fit(model)
    pairs, dependence = _relations(model, read)
    for record in data["columns"]:
        record["drivers"] = [] if dependence is None else dependence["drivers"].get(record["name"], [])
    labels = {name: list(map(str, schema[name].answer_texts)) for name in schema.modelled}
    return {
        "findings": findings(segments, pairs, tested, read.texts, labels, rows_are),
        "warnings": cautions(schema, read.table, data, read.texts, read.weight, fit, tested),
        "segments": segments,
        "held_out": tested,
        "data": data,
        "relations": pairs,
        "dependence": dependence,
        "fit": fit,
    }


def _reading(model: Any, X: Any) -> _Read:
    table = as_table(X)
    answers = read_answers(model.schema_, table)
    own = model.schema_.weights(table, missing_columns="ignore")
    weight = None if own is None else own / own.mean()
    return _Read(table, model.schema_.compile(table), answers, weight, texts_of(model.schema_, answers))


def _relations(model: Any, read: _Read) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The strongest relations in words, and the shares of uncertainty that questions remove from each other."""
    if model.schema_.listed or len(model.schema_.modelled) < 2:
        return [], None
    found = model.dependence(read.table)
    drivers = {
        name: [{"column": other, "share": share} for other, share in found.drivers(name, DRIVERS) if share >= 0.01]
        for name in found.names
    }
    share = [[plain(value) for value in row] for row in np.round(found.share, 4)]
    pairs = relations(found, model.schema_, read.blocks, read.weight, read.texts)
    return pairs, {"names": list(found.names), "share": share, "drivers": drivers}


def _structure(
    model: Any,
    read: _Read,
    where: Placed,
    found: Any,
    coloured: list[Answers] | None,
    seed: int,
    max_points: int,
    rows: bool,
) -> dict[str, Any]:
    """Hidden units, factors and the map."""
    n_hidden = model.weights_.shape[1]
    on, factors = expit(where.log_odds[:, :n_hidden]), where.log_odds[:, n_hidden:]
    weights, sites = np.asarray(model.weights_, float), list(model.site_names_)
    units = describe_units(read.answers, on, weights, sites, rows=read.weight, texts=read.texts)
    columns = telling(read.answers, found) if coloured is None else coloured
    skipped = not_applicable(model.schema_, model.schema_.skips, read.table)
    out = {each.name: skipped[own.name] for own in read.answers if own.name in skipped for each in (own, *own.parts)}
    place = row_map(where.points, found.labels, columns, out, seed, max_points)
    which = place.pop("rows")
    names = model.schema_.row_names(read.table)
    place["people"] = row_texts(read.answers, read.texts, names, which) if rows else None
    return {"units": units, "factors": describe_factors(read.answers, factors, read.weight, read.texts), "map": place}


def _data(read: _Read, missing: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    columns = question_records(read.answers, read.weight, missing)
    means = {
        key: float(np.mean([column[key] for column in columns])) if columns else 0.0
        for key in ("share_missing", "share_not_applicable")
    }
    return {"n_rows": read.table.n_rows, "n_columns": len(columns), **means, "columns": columns}


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


def _fit(model: Any) -> dict[str, Any]:
    n_sites, n_hidden = np.shape(model.weights_)
    return {
        "objective": _OBJECTIVES.get(model.objective_, str(model.objective_)),
        "method": str(model.method_),
        "n_members": len(model.members_) or 1,
        "n_hidden": int(n_hidden),
        "n_sites": int(n_sites),
        "n_epochs": int(model.n_epochs_),
        "time": (spent := {stage: plain(seconds) for stage, seconds in model.time_spent_.items()}),
        "seconds": spent.get("total", _seconds(model.history_)),
        "converged": bool(model.converged_),
        "n_factors": int(np.shape(model.loadings_)[1]),
        "unobserved": str(model.unobserved),
    }


def _seconds(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Duration of training in seconds, from its last record, where the whole time is not known."""
    return plain(history[-1]["seconds"]) if history and "seconds" in history[-1] else None


def _history(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each epoch: the objective, the objective on held-out rows if it was computed, and events."""
    return [
        {
            "epoch": int(entry["epoch"]),
            "objective": plain(entry["objective"]),
            "held_out": plain(entry["held_out"]) if "held_out" in entry else None,
            "event": entry.get("event"),
        }
        for entry in history
    ]
