"""Long tables of who scored what, and sparse matrices: many rows that each list few of many items.

Idea: entries are sorted by row once and kept as flat arrays; nothing is ever as large as rows times items.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Listed, listing, show, suggestion
from thurbo.errors import SchemaError
from thurbo.io import frames


def from_long(
    frame: Any, row: str, item: str, score: str | None = None, *, columns: Any = None, name: str | None = None
) -> frames.Table:
    """A table with one row for each value of `row`, which lists its items with their scores (large = best).

    `frame` has one line for each pair; without a `score` its lines stand from best to worst. `columns` is a table of
    ordinary columns, one line for each value of `row`, in which that column has the same name: age and gender join the
    ratings in one model. The list is called `name`, by default as `item`. Give the result to `TBM`.
    """
    source = frames.table(frame)
    for column in (row, item, *(() if score is None else (score,))):
        if column not in source:
            remedy = f"{suggestion(column, source.names)}the table has {listing(source.names)}"
            raise SchemaError("there is no such column", column=column, remedy=remedy)
    owner, owners = _coded(source, row)
    index, items = _coded(source, item)
    value = _order(owner) if score is None else _scores(source, score)
    order = np.argsort(owner.astype(np.int64) * len(items) + index, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(owners)))])
    listed = Listed(start, items, index[order], value[order], score, ordered=score is None)
    data, people = {row: owners}, None if columns is None else frames.table(columns)
    if people is not None:
        data |= _joined(people, row, owners)
    called = item if name is None else name
    if called in data:
        raise SchemaError("two columns have this name", column=called, remedy="say name= for the list of items")
    made = data if source.kind in {"dict", "numpy"} else frames.assemble(source.kind, data)
    made = replace(frames.table(made), rows=owners, owner=row)
    return with_lists(made if people is None else _as_said(made, people), called, listed)


def with_lists(table: frames.Table, name: str, listed: Listed) -> frames.Table:
    """A table with one more column, of lists."""
    n = len(table.names)
    nothing = np.full(table.n_rows, None, object)
    empty = np.diff(listed.start) == 0
    read = table.read
    return replace(
        table,
        names=(*table.names, name),
        read=lambda place: (nothing, empty, None) if place == n else read(place),
        lists={**table.lists, name: listed},
    )


def _as_said(made: frames.Table, people: frames.Table) -> frames.Table:
    """The joined columns with what their own table knew beside the cells: orders of levels, the book of its file."""
    read, names = made.read, made.names

    def read_said(place: int) -> Any:
        values, missing, _ = read(place)
        name = names[place]
        return values, missing, people.cells(name).ordered_levels if name in people else None

    return replace(made, read=read_said, book=people.book)


def from_sparse(matrix: Any) -> frames.Table:
    """A sparse matrix as lists: the stored entries of a row are its scores, its columns the items, from 0."""
    csr = matrix.tocsr(copy=True)
    csr.sort_indices()
    if csr.ndim != 2:
        raise SchemaError(f"the sparse array has {csr.ndim} dimensions", remedy="give rows and items")
    score = np.asarray(csr.data, np.float64)
    start = np.asarray(csr.indptr, np.int64)
    _refuse_bad(score, np.repeat(np.arange(csr.shape[0]), np.diff(start)), "item")
    listed = Listed(start, np.arange(csr.shape[1]), np.asarray(csr.indices), score)
    rows = np.arange(csr.shape[0])
    empty = frames.Table((), csr.shape[0], rows, "dict", {}, lambda place: (rows, rows < 0, None))
    return with_lists(empty, "item", listed)


def _coded(source: frames.Table, name: str) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Which of its distinct values each cell of a column holds, and these values in order."""
    cells = source.cells(name)
    if cells.missing.any():
        place = int(cells.missing.argmax())
        raise SchemaError("the cell is missing", row=source.rows[place], column=name, remedy="leave the line out")
    values = cells.values
    if values.dtype.kind == "f" and np.array_equal(values, np.floor(values)):
        values = values.astype(np.int64)
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + 1000:  # numbers that lie close: no sort
            there = np.zeros(high - low + 1, bool)
            there[values - low] = True
            number = np.cumsum(there, dtype=np.int32) - np.int32(1)
            return number[values - low], np.flatnonzero(there) + low
    if values.dtype.kind == "O":
        seen: dict[Any, int] = {}
        code = np.fromiter((seen.setdefault(value, len(seen)) for value in values.tolist()), np.int32, len(values))
        labels = list(seen)
        try:
            order = sorted(range(len(labels)), key=lambda place: labels[place])
        except TypeError:
            order = sorted(range(len(labels)), key=lambda place: (str(type(labels[place])), str(labels[place])))
        rank = np.empty(len(labels), np.int32)
        rank[order] = np.arange(len(labels), dtype=np.int32)
        return rank[code], np.fromiter((labels[place] for place in order), object, len(labels))
    labels_, code_ = np.unique(values, return_inverse=True)
    return code_.astype(np.int32), labels_


def _scores(source: frames.Table, name: str) -> NDArray[Any]:
    cells = source.cells(name)
    if cells.values.dtype.kind in "iub" and not cells.missing.any():
        return cells.values  # as small as they came
    try:
        value = np.asarray(cells.values, np.float64)
    except (TypeError, ValueError):
        wrong = next(v for v in cells.values.tolist() if not isinstance(v, (int, float)))
        raise SchemaError(f"{show(wrong)} is no number", column=name, remedy="give scores as numbers") from None
    value = np.where(cells.missing, np.nan, value) if cells.missing.any() else value
    _refuse_bad(value, source.rows, name)
    return value


def _refuse_bad(value: NDArray[Any], rows: NDArray[Any], name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(value))
    if len(bad):
        problem = f"the score {value[bad[0]]} is not a finite number"
        raise SchemaError(problem, row=rows[bad[0]], column=name, remedy="correct it, or leave the line out")


def _order(owner: NDArray[np.int32]) -> NDArray[Any]:
    """Scores that fall from line to line: lists from best to worst."""
    return -np.arange(len(owner), dtype=np.float64)


def _joined(source: frames.Table, row: str, owners: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Cells of ordinary columns in the order of `owners`; missing where there is no line."""
    if row not in source:
        remedy = f"{suggestion(row, source.names)}name the rows as the long table does"
        raise SchemaError("the table of columns lacks it", column=row, remedy=remedy)
    code, values = _coded(source, row)
    if len(values) < len(code):
        twice = values[np.bincount(code).argmax()]
        raise SchemaError(f"{show(twice)} has more than one line", column=row, remedy="give one line for each row")
    line = {value: place for place, value in zip(np.argsort(code).tolist(), values.tolist(), strict=True)}
    at = np.asarray([line.get(owner, -1) for owner in owners.tolist()], np.int64)
    found: dict[str, NDArray[Any]] = {}
    for name in source.names:
        if name == row:
            continue
        cells = source.cells(name)
        gone = (at < 0) | cells.missing[at]
        taken = cells.values[at]
        if gone.any():
            taken = np.where(gone, np.nan, taken.astype(float)) if taken.dtype.kind in "iuf" else taken.astype(object)
            if taken.dtype.kind == "O":
                taken[gone] = None
        found[name] = taken
    return found
