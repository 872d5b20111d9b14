"""Answers about lists of items as long tables: one line per item of a row, as in the files they were read from.

A line has the name of the row, the item under the name of its column, and its score under the name of the scores; of
an order, the place (1 = best). Other columns follow, and repeat on each line of their row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thurbo.cli import rows
from thurbo.cli.lists import columns_of
from thurbo.columns.listed import read_lists, tiers
from thurbo.io.table import Table, as_table


class Lines(NamedTuple):
    """Entries of lists, one line each."""

    row: np.ndarray  # position of the row, ascending
    item: np.ndarray
    value: np.ndarray  # score, or place from 1 of an order


def predicted(model: Any, frame: Any, name: str, given: Sequence[str] | None, items: Any) -> Any:
    """Predicted scores of the items asked about; by default of those that each row lists."""
    found = model.predict(frame, name, "auto", given=given, items=items)
    lines = _lines_of(model.schema_, name, as_table(found).cells(name), items)
    names = rows.identity(model.schema_, frame) or {"row": model.schema_.row_names(frame)}
    return _table(model.schema_, name, lines, names)


def sampled(schema: Any, drawn: Any, items: Any) -> Any:
    """New rows, numbered from 0, as a long table if the schema has one column of lists; otherwise unchanged."""
    lists = columns_of(schema)
    if len(lists) != 1:
        return drawn
    name, source = lists[0], as_table(drawn)
    lines = _lines_of(schema, name, source.cells(name), items)
    row = next((each for each, column in schema.items() if column.role == "id"), "row")
    return _table(schema, name, lines, {row: np.arange(source.n_rows)}, _others(drawn, name))


def imputed(model: Any, frame: Any, items: Any, fill: Sequence[str] = ()) -> Any:
    """A long table with items added and other missing cells filled; column "filled" marks the lines that are new."""
    name = next(iter(as_table(frame).lists))
    return _completed(model.schema_, frame, name, model.impute(frame, items=items, fill=fill))


def imputed_draws(model: Any, frame: Any, items: Any, n: int, seed: int, fill: Sequence[str] = ()) -> Any:
    """The same for multiple imputations, stacked below the incomplete table; items of a row are in one order in all."""
    import thurbo

    schema, name = model.schema_, next(iter(as_table(frame).lists))
    draws = model.impute_draws(frame, n, random_state=seed, items=items, fill=fill)
    completed = [_completed(schema, frame, name, draw, by_item=True) for draw in draws]
    native = as_table(frame).native
    before = _completed(schema, frame, name, draws[0], others=native, by_item=True)
    others = _others(native, *rows.identity(schema, frame))
    score, filled = (_free(each, others) for each in (_value_name(schema[name]), "filled"))
    before[score] = before[score].mask(before[filled])
    return thurbo.stack(completed, before)


def ordinary(schema: Any) -> Any:
    """The columns of a schema without lists of items, for their labels: a long table repeats their cells."""
    return (
        schema
        if not columns_of(schema)
        else {name: column for name, column in schema.items() if column.kind != "ratings"}
    )


def _completed(schema: Any, frame: Any, name: str, done: Any, others: Any = None, by_item: bool = False) -> Any:
    source = as_table(frame)
    full: Table = as_table(done)
    old = _lines(schema[name], source.cells(name))
    lines = _lines(schema[name], full.cells(name)) if name in full else old
    if by_item:
        place = {item: at for at, item in enumerate(schema[name].labels)}
        number = np.asarray([place.get(item, len(place)) for item in lines.item.tolist()], np.int64)
        order = np.lexsort((number, lines.row))
        lines = Lines(*(each[order] for each in lines))
    known = set(zip(old.row.tolist(), old.item.tolist(), strict=True))
    pairs = zip(lines.row.tolist(), lines.item.tolist(), strict=True)
    filled = np.fromiter((pair not in known for pair in pairs), bool, len(lines.row))
    names = rows.identity(schema, frame)
    return _table(schema, name, lines, names, _others(done if others is None else others, name, *names), filled)


def _lines(column: Any, cells: Any) -> Lines:
    """The entries of lists, in the order of their cells."""
    found = read_lists(cells)
    row = np.repeat(np.arange(len(cells)), np.diff(found.start))
    item = _narrow(np.asarray(found.items, object))[found.which]
    score = np.asarray(found.score)
    if column.by == "order":
        tier = tiers(row, score)
        last = np.zeros(len(cells), np.int64)
        np.maximum.at(last, row, tier)
        best_first = np.lexsort((-tier, row))
        return Lines(*(each[best_first] for each in (row, item, last[row] - tier + 1)))
    whole = score.dtype.kind == "f" and bool(np.all(score == np.floor(score)))
    return Lines(row, item, score.astype(np.int64) if whole and column.by == "levels" else score)


def _narrow(values: np.ndarray) -> np.ndarray:
    is_whole = all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values.tolist())
    return values.astype(np.int64) if is_whole and len(values) else values


def _lines_of(schema: Any, name: str, cells: Any, items: Mapping[str, list[Any]] | None) -> Lines:
    """The entries of the items asked about; orders of few items are predicted and drawn with all of them."""
    lines = _lines(schema[name], cells)
    if items is None or name not in items:
        return lines
    wanted = set(items[name])
    keep = np.fromiter((item in wanted for item in lines.item.tolist()), bool, len(lines.item))
    row, item, value = (each[keep] for each in lines)
    return Lines(row, item, tiers(row, value) + 1 if schema[name].by == "order" else value)


def _value_name(column: Any) -> str:
    return "place" if column.by == "order" else column.score or "score"


def _pandas(frame: Any) -> Any:
    import narwhals as nw

    return nw.from_native(frame, eager_only=True).to_pandas()


def _others(frame: Any, *names: str) -> Any:
    return _pandas(frame).drop(columns=list(names), errors="ignore")


def _free(name: str, others: Any) -> str:
    """A name that no other column has."""
    return name if others is None or name not in others else f"item {name}"


def _table(
    schema: Any,
    name: str,
    lines: Lines,
    names: Mapping[str, np.ndarray],
    others: Any = None,
    filled: np.ndarray | None = None,
) -> Any:
    import pandas as pd

    data: dict[str, Any] = {each: np.asarray(values)[lines.row] for each, values in names.items()}
    data |= {name: lines.item, _free(_value_name(schema[name]), others): lines.value}
    if filled is not None:
        data[_free("filled", others)] = filled
    table = pd.DataFrame(data)
    if others is None or not len(others.columns):
        return table
    return pd.concat([table, others.take(lines.row).reset_index(drop=True)], axis=1)
