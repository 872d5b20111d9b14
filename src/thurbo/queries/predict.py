"""§6 Predictions in the user's units: probabilities of labels, cells of a table, intervals.

Each answer is predicted from all other evidence in its row. For a listed column these are the answers of the given
items, or of the items that each row lists, each predicted from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from thurbo.columns.cells import listing, plain, show, suggestion
from thurbo.columns.forms import Certainty, Lines
from thurbo.errors import SchemaError, ThurboError
from thurbo.queries.question import Question
from thurbo.rbm import Params
from thurbo.schema import Schema

STAGE = "predicting"


def sites_of(schema: Schema, name: str, items: Any) -> np.ndarray:
    """Positions of items in their column; an unknown item is an error."""
    known = {label: place for place, label in enumerate(schema[name].labels)}
    found = []
    for item in items:
        if plain(item) not in known:
            remedy = f"{suggestion(item, known)}use items of the training table"
            raise SchemaError(f"there is no item {show(item)}", column=name, remedy=remedy)
        found.append(known[plain(item)])
    return np.asarray(found, np.int64)


def items_of(name: str, items: Any) -> Any:
    """The given items of one column, {column: items} if there are several; None if there are none."""
    return items.get(name) if isinstance(items, Mapping) else items


def check_items(schema: Schema, items: Any) -> None:
    """Refuse items where no column has any, or where they are given for another column."""
    if items is None:
        return
    held = [name for name, column in schema.items() if column.has_items]
    if not held:
        raise ThurboError("items= is for Ratings and Ranking columns, and this model has none; leave it out")
    for name in items if isinstance(items, Mapping) else ():
        if name not in held:
            remedy = f"{suggestion(name, held)}columns with items: {listing(held)}"
            raise SchemaError("items= names it, but it has no items", column=str(name), remedy=remedy)


def lines_of(question: Question, name: str, items: Any) -> Lines | None:
    """The answers to predict in a listed column: the same items in every row; None for each row's own items."""
    items = items_of(name, items)
    if items is None or not question.schema[name].is_listed:
        return None
    if isinstance(items, str):
        raise SchemaError(f"items={show(items)} is one text", column=name, remedy="give a list of items")
    sites, n_rows = sites_of(question.schema, name, items), question.evidence.n_rows
    return Lines(np.repeat(np.arange(n_rows), len(sites)), np.tile(sites, n_rows))


def _by_row(question: Question, name: str, items: Any, found: np.ndarray, what: str) -> np.ndarray:
    """Answers [line, ...] of a listed column as [row, item, ...]."""
    if not question.schema[name].is_listed:
        return found
    if items_of(name, items) is None:
        problem = f"{what} of a list needs items"
        raise SchemaError(problem, column=name, remedy="use items=[...]; predict works without items")
    return found.reshape(question.evidence.n_rows, -1, *found.shape[1:])


def probabilities(question: Question, name: str, items: Any = None) -> np.ndarray:
    """P(label | all other evidence in the row): [row, label], of lists [row, item, level].

    For levels, bands and categories the rows sum to one; for an order it is P(this item is the best); for options each
    number is P(this option is selected).
    """
    column, lines = question.schema[name], lines_of(question, name, items)
    _by_row(question, name, items, np.zeros((0, 1)), "predict_proba")
    asked = question.about(name, lines)
    try:
        found = column.form.probabilities(column, asked)
    except ThurboError as error:
        raise ThurboError(f'column "{name}": {error}') from None
    return found if column.form.asks_rows else _by_row(question, name, items, found, "predict_proba")


def all_probabilities(question: Question) -> np.ndarray:
    """P(label) of all columns with labels, except lists, in the order of the schema: [row, label]."""
    schema = question.schema
    names = [name for name in schema.modelled if schema[name].labels and not schema[name].is_listed]
    if schema.listed and not names:
        problem = "all columns are lists of items, as in a sparse matrix, so there is no table of labels"
        raise SchemaError(problem, remedy="say column= and items=[...]")
    found = [probabilities(question, name) for name in names]
    return np.concatenate([np.zeros((question.evidence.n_rows, 0)), *found], axis=1)


def cells(
    question: Question, name: str, statistic: str, items: Any = None, rows: np.ndarray | None = None, own: bool = True
) -> dict[str, np.ndarray]:
    """One predicted cell per row, by column of the table that holds the answers; `rows` applies to shared columns."""
    column, where = question.schema[name], question.schema.slices[name]
    if column.is_listed:
        asked = question.about(name, lines_of(question, name, items))
        values = column.form.values(column, asked, statistic)
        return {name: column.list_cells(*asked.lines, values, question.evidence.n_rows)}
    lines = None if rows is None else Lines(rows, np.zeros(len(rows), np.int64))
    cuts = np.asarray(question.params.gauge.cuts, np.float64)[where]
    return column.form.cells(column, name, question.about(name, lines, own), statistic, cuts)


def certainty(question: Question, name: str, values: np.ndarray, rows: np.ndarray, own: bool) -> Certainty:
    """How sure the predicted cells of some rows are, in a shared column."""
    column = question.schema[name]
    return column.form.certainty(column, question.about(name, Lines(rows, np.zeros(len(rows), np.int64)), own), values)


def table(
    question: Question,
    names: Sequence[str],
    statistic: str,
    items: Any,
    on_column: Callable[[dict[str, Any]], None] = lambda record: None,
) -> dict[str, np.ndarray]:
    """Predicted cells of several columns; `on_column` is called after each, with a record for a progress display."""
    found: dict[str, np.ndarray] = {}
    for done, name in enumerate(names, start=1):
        found |= cells(question, name, statistic, items)
        on_column({"stage": STAGE, "done": done, "of": len(names), "figure": name})
    return found


def interval(question: Question, name: str, level: Any, items: Any = None) -> np.ndarray:
    """The two ends [row, 2] of the central interval of each row, of lists [row, item, 2]: units or labels."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ThurboError(f"level={level!r} is not a probability; give a number above 0 and below 1, such as 0.9")
    column, lines = question.schema[name], lines_of(question, name, items)
    _by_row(question, name, items, np.zeros((0, 1)), "predict_interval")
    try:
        found = column.form.interval(column, question.about(name, lines), float(level))
    except ThurboError as error:
        raise ThurboError(f'column "{name}": {error}') from None
    return _by_row(question, name, items, found, "predict_interval")


def from_latent(
    schema: Schema, params: Params, x: np.ndarray, shared: np.ndarray, names: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Cells of shared columns, decoded from latent values [row, slot]; `shared` is the slot of each site."""
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    found: dict[str, np.ndarray] = {}
    for name, where in schema.slices.items():
        column = schema[name]
        if column.sites and not column.is_listed and (names is None or name in names):
            found |= column.decode_columns(name, x[:, shared[where]], cuts[where], scale[where])
    return found
