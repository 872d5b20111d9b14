"""Long tables (one line per row and item) and sparse matrices: rows that each list few of many items.

Idea: entries are sorted by row once and stored as flat arrays (CSR); no array has the size rows × items.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Listed, listing, show, suggestion
from thurbo.errors import SchemaError
from thurbo.io import build
from thurbo.io.table import Table, as_table

MOST_COLUMNS, MOST_LINES = 8, 100_000  # of a table that may be long, for `looks_long`


def from_long(
    frame: Any, row: str, item: str, score: str | None = None, *, columns: Any = None, name: str | None = None
) -> Table:
    """Group a long table of ratings or rankings into one row per person, for `TBM`.

    Parameters
    ----------
    frame : table
        One line per rating: pandas, polars, pyarrow or a dict of columns.
    row, item : str
        Names of the columns that hold the row identifier (such as the user) and the item.
    score : str, optional
        Name of the column of scores; higher is better. Without it, the lines of each row are an order, best first.
    columns : table, optional
        Other questions, such as age and gender, with one line per row and a column of the same name as `row`.
    name : str, optional
        Name of the new column of lists; the value of `item` by default.

    Returns
    -------
    Table
        One row per value of `row`, sorted. Pass it to `TBM` or `Schema.infer`.

    Raises
    ------
    SchemaError
        If a column does not exist, an identifier or score is missing or not valid, or a row has an item twice.

    Examples
    --------
    >>> import thurbo as tb
    >>> ratings = {"user": ["u1", "u1", "u2"], "movie": ["Alien", "Heat", "Heat"], "stars": [5, 3, 4]}
    >>> tb.from_long(ratings, row="user", item="movie", score="stars")
    Table of 2 rows: user, movie (3 entries of 2 items)
    """
    source = as_table(frame)
    for column in (row, item, *(() if score is None else (score,))):
        if column not in source:
            remedy = f"{suggestion(column, source.names)}the table has {listing(source.names)}"
            raise SchemaError("the table has no such column", column=column, remedy=remedy)
    owner, owners = coded(source, row)
    index, items = coded(source, item)
    value = _order(owner) if score is None else _scores(source, score)
    pair = owner.astype(np.int64) * len(items) + index
    order = np.argsort(pair, kind="stable")
    _refuse_twice(source, row, item, pair, order)
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(owners)))])
    listed = Listed(start, items, index[order], value[order], score, ordered=score is None)
    data, people = {row: owners}, None if columns is None else as_table(columns)
    if people is not None:
        data |= joined(people, row, owners)
    called = item if name is None else name
    if called in data:
        raise SchemaError(
            "two columns have this name", column=called, remedy="give the list of items another name with name="
        )
    made = data if source.kind in {"dict", "numpy"} else build.frame(source.kind, data)
    made = replace(as_table(made), rows=owners, owner=row)
    return with_lists(made if people is None else with_metadata(made, people), called, listed)


def _refuse_twice(source: Table, row: str, item: str, pair: NDArray[np.int64], order: NDArray[Any]) -> None:
    """Refuse two lines about one item of one row; `order` sorts the pairs."""
    same = np.flatnonzero(np.diff(pair[order]) == 0)
    if not len(same):
        return
    first, second = (int(line) for line in order[same[0] : same[0] + 2])
    owner, what = (source.cells(name).values[first] for name in (row, item))
    raise SchemaError(
        f"item {show(what)} of {row} {show(owner)} occurs twice, also in row {source.rows[first]}",
        row=source.rows[second],
        column=item,
        remedy=f"keep one line for each {row} and {item}, for example the last, or the mean of their scores",
    )


def looks_long(table: Table) -> tuple[str, str] | None:
    """Names of the row and item columns of a table that looks long: no pair of values of these columns repeats.

    Of n random pairs of a and b values about n² / 2ab would repeat; this number must be above ten.
    """
    if len(table.names) > MOST_COLUMNS or table.lists or table.declared:
        return None
    codes = {}
    for name in table.names:
        cells = table.cells(name)
        values = cells.values[:MOST_LINES]
        if values.dtype.kind in "iuOTU" and not cells.missing.any() and not _holds_lists(values):
            found, code = np.unique(values.astype(str), return_inverse=True)
            if 2 <= len(found) <= len(values) // 2:
                codes[name] = (len(found), code.astype(np.int64))
    for (row, (n_rows, one)), (item, (n_items, two)) in combinations(codes.items(), 2):
        if len(one) ** 2 > 20 * n_rows * n_items and len(np.unique(one * n_items + two)) == len(one):
            return row, item
    return None


def _holds_lists(values: NDArray[Any]) -> bool:
    """Whether a cell holds several values, so that the column identifies neither rows nor items."""
    several = (list, tuple, set, frozenset, dict, np.ndarray)
    return values.dtype.kind == "O" and any(isinstance(value, several) for value in values.tolist())


def with_lists(table: Table, name: str, listed: Listed) -> Table:
    """A copy of a table with one more column, whose cells are lists of items."""
    n = len(table.names)
    blank = np.full(table.n_rows, None, object)
    empty = np.diff(listed.start) == 0
    read = table.read
    return replace(
        table,
        names=(*table.names, name),
        read=lambda place: (blank, empty, None) if place == n else read(place),
        lists={**table.lists, name: listed},
    )


def with_metadata(made: Table, people: Table) -> Table:
    """The joined columns with the ordered categories and the code book of their own table."""
    read, names = made.read, made.names

    def read_with_levels(place: int) -> Any:
        values, missing, _ = read(place)
        name = names[place]
        return values, missing, people.cells(name).ordered_levels if name in people else None

    return replace(made, read=read_with_levels, book=people.book)


def from_sparse(matrix: Any) -> Table:
    """A sparse matrix as lists: the stored entries of a row are scores, and the items are the column numbers from 0."""
    csr = matrix.tocsr(copy=True)
    csr.sort_indices()
    if csr.ndim != 2:
        raise SchemaError(f"the sparse array has {csr.ndim} dimensions", remedy="give a 2-D matrix of rows and items")
    score = np.asarray(csr.data, np.float64)
    start = np.asarray(csr.indptr, np.int64)
    _refuse_bad(score, np.repeat(np.arange(csr.shape[0]), np.diff(start)), "item")
    listed = Listed(start, np.arange(csr.shape[1]), np.asarray(csr.indices), score)
    rows = np.arange(csr.shape[0])
    empty = Table((), csr.shape[0], rows, "dict", {}, lambda place: (rows, rows < 0, None))
    return with_lists(empty, "item", listed)


def coded(source: Table, name: str) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """A column as integer codes, and its sorted distinct values."""
    cells = source.cells(name)
    if cells.missing.any():
        place = int(cells.missing.argmax())
        raise SchemaError("the cell is missing", row=source.rows[place], column=name, remedy="remove the line")
    values = cells.values
    if values.dtype.kind == "f" and np.array_equal(values, np.floor(values)):
        values = values.astype(np.int64)
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + 1000:  # a narrow range of integers needs no sorting
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


def _scores(source: Table, name: str) -> NDArray[Any]:
    cells = source.cells(name)
    if cells.values.dtype.kind in "iub" and not cells.missing.any():
        return cells.values  # without conversion to float, to save memory
    try:
        value = np.asarray(cells.values, np.float64)
    except (TypeError, ValueError):
        wrong = next(v for v in cells.values.tolist() if not isinstance(v, (int, float)))
        raise SchemaError(f"{show(wrong)} is not a number", column=name, remedy="give scores as numbers") from None
    value = np.where(cells.missing, np.nan, value) if cells.missing.any() else value
    _refuse_bad(value, source.rows, name)
    return value


def _refuse_bad(value: NDArray[Any], rows: NDArray[Any], name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(value))
    if len(bad):
        problem = f"the score {value[bad[0]]} is not a finite number"
        raise SchemaError(problem, row=rows[bad[0]], column=name, remedy="correct it, or remove the line")


def _order(owner: NDArray[np.int32]) -> NDArray[Any]:
    """Decreasing scores: the lines of each row are ordered from best to worst."""
    return -np.arange(len(owner), dtype=np.float64)


def joined(source: Table, row: str, owners: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Cells of the other columns in the order of `owners`; missing for rows without a line."""
    if row not in source:
        remedy = f"{suggestion(row, source.names)}use the same column name as in the long table"
        raise SchemaError("the table given as columns= has no such column", column=row, remedy=remedy)
    code, values = coded(source, row)
    if len(values) < len(code):
        twice = values[np.bincount(code).argmax()]
        raise SchemaError(f"{show(twice)} has more than one line", column=row, remedy="keep one line per row")
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
