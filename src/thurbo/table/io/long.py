"""Long tables and files of lists: scores of items, paired comparisons, choices from shown sets, PrefLib rankings.

Idea: entries are sorted by row once and stored as flat arrays (CSR); no array has the size rows × items. In a PrefLib
file a header names the alternatives, and each line below is an order with its number of voters.
Guarantees that errors name the line, the value and the remedy.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError, ThurboError
from thurbo.table.columns.cells import BoolArray, Listed
from thurbo.table.columns.column import Column
from thurbo.table.columns.tasks import BestWorst, Choice, Pairs, truths
from thurbo.table.columns.values import blanked, listing, plain, show, suggestion
from thurbo.table.io import frames
from thurbo.table.io.files import content, write_atomically
from thurbo.table.io.frames import Table, as_table

MOST_COLUMNS, MOST_LINES = 8, 100_000  # of a table that may be long, for `looks_long`
SEVERAL = (list, tuple, set, frozenset, dict, np.ndarray)  # cells that identify neither rows nor items


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
    >>> ratings = {"user": ["u1", "u1", "u2"], "movie": ["Alien", "Heat", "Heat"], "stars": [5, 3, 4]}
    >>> tb.from_long(ratings, row="user", item="movie", score="stars")
    Table of 2 rows: user, movie (3 entries of 2 items)
    """
    source = _with_columns(frame, row, item, score)
    owner, owners = coded(source, row)
    index, items = coded(source, item)
    # Without scores, the lines of each row are ordered from best to worst.
    value = -np.arange(len(owner), dtype=np.float64) if score is None else _scores(source, score)
    pair = owner.astype(np.int64) * len(items) + index
    order = np.argsort(pair, kind="stable")
    same = np.flatnonzero(np.diff(pair[order]) == 0)
    if len(same):
        first, second = order[same[0] : same[0] + 2].tolist()
        person, what = (source.cells(name).values[first] for name in (row, item))
        problem = f"item {show(what)} of {row} {show(person)} occurs twice, also in row {source.rows[first]}"
        remedy = f"keep one line for each {row} and {item}, for example the last, or the mean of their scores"
        raise SchemaError(problem, row=source.rows[second], column=item, remedy=remedy)
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(owners)))])
    listed = Listed(start, items, index[order], value[order], score, ordered=score is None)
    called = item if name is None else name
    return with_lists(_of_people(source, row, owners, columns, called), called, listed)


def _of_people(
    source: Table, row: str | None, owners: NDArray[Any], columns: Any, name: str, cells: NDArray[Any] | None = None
) -> Table:
    """One row per person: the identifier, the columns of the second table, and the new cells under a new name."""
    people = None if columns is None else as_table(columns)
    if people is not None and row is None:
        raise SchemaError("columns= needs row=, the column with the judge", remedy="give row=")
    data: dict[str, Any] = {} if row is None else {row: owners}
    if people is not None and row is not None:
        data |= joined(people, row, owners)
    if name in data:
        remedy = "give the new column another name with name="
        raise SchemaError("two columns have this name", column=name, remedy=remedy)
    data |= {} if cells is None else {name: cells}
    made = data if source.kind in {"dict", "numpy"} else frames.frame(source.kind, data)
    table = replace(as_table(made), rows=owners, owner=row)
    if people is None:
        return table
    known, read, names = people, table.read, table.names

    def read_with_levels(place: int) -> Any:  # ordered categories are those of the second table
        values, missing, _ = read(place)
        return values, missing, known.cells(names[place]).ordered_levels if names[place] in known else None

    return replace(table, read=read_with_levels, book=people.book)


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
        several = values.dtype.kind == "O" and any(isinstance(value, SEVERAL) for value in values.tolist())
        if values.dtype.kind in "iuOTU" and not cells.missing.any() and not several:
            found, code = np.unique(values.astype(str), return_inverse=True)
            if 2 <= len(found) <= len(values) // 2:
                codes[name] = (len(found), code.astype(np.int64))
    for (row, (n_rows, one)), (item, (n_items, two)) in combinations(codes.items(), 2):
        if len(one) ** 2 > 20 * n_rows * n_items and len(np.unique(one * n_items + two)) == len(one):
            return row, item
    return None


def with_lists(table: Table, name: str, listed: Listed) -> Table:
    """A copy of a table with one more column, whose cells are lists of items."""
    n, read = len(table.names), table.read
    new = np.full(table.n_rows, None, object), np.diff(listed.start) == 0, None
    return replace(
        table,
        names=(*table.names, name),
        read=lambda place: new if place == n else read(place),
        lists={**table.lists, name: listed},
    )


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


def _complete(source: Table, name: str) -> NDArray[Any]:
    """The cells of a column, none of which may be missing."""
    cells = source.cells(name)
    if cells.missing.any():
        place = int(cells.missing.argmax())
        raise SchemaError("the cell is missing", row=source.rows[place], column=name, remedy="remove the line")
    return cells.values


def coded(source: Table, name: str) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """A column as integer codes, and its sorted distinct values."""
    values = _complete(source, name)
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
        labels = list(dict.fromkeys(values.tolist()))
        try:
            labels = sorted(labels)
        except TypeError:
            labels = sorted(labels, key=lambda label: (str(type(label)), str(label)))
        place = {label: number for number, label in enumerate(labels)}
        code = np.fromiter(map(place.__getitem__, values.tolist()), np.int32, len(values))
        return code, np.fromiter(labels, object, len(labels))
    distinct, which = np.unique(values, return_inverse=True)
    return which.astype(np.int32), distinct


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
    others = [source.cells(name) for name in source.names if name != row]
    return {cells.name: blanked(cells.values[at], (at < 0) | cells.missing[at]) for cells in others}


def from_pairs(
    frame: Any,
    row: str | None = None,
    winner: str = "winner",
    loser: str = "loser",
    tie: str | None = None,
    *,
    columns: Any = None,
    name: str = "pairs",
    noise: str = "normal",
    attributes: Mapping[Any, Mapping[str, Any]] | None = None,
) -> Table:
    """Group a long table of paired comparisons into one row per judge, for `TBM`.

    Parameters
    ----------
    frame : table
        One line per comparison: pandas, polars, pyarrow or a dict of columns.
    row : str, optional
        Name of the column that holds the judge. By default each line is a row of its own.
    winner, loser : str
        Names of the columns with the two items. Comparisons may repeat and contradict each other.
    tie : str, optional
        Name of a column that says yes (True, 1, "yes") if there was no preference.
    columns : table, optional
        Other questions, such as age and gender, with one line per judge and a column of the same name as `row`.
    name : str, default="pairs"
        Name of the new column.
    noise : {"normal", "gumbel"}, default="normal"
        As for `Pairs`.
    attributes : dict, optional
        {item: {attribute: value}}, as for `Pairs`.

    Returns
    -------
    Table
        One row per judge, sorted. Pass it to `TBM`; `Schema.infer` reads the column as `Pairs`.

    Raises
    ------
    SchemaError
        If a column does not exist, or a cell is missing; the message names the line.

    Examples
    --------
    >>> games = {"day": [1, 1, 2], "winner": ["A", "B", "C"], "loser": ["B", "C", "A"]}
    >>> table = tb.from_pairs(games, row="day")
    >>> table
    Table of 2 rows: day, pairs
    >>> tb.Schema.infer(table)["pairs"].kind
    'pairs'
    """
    source = _with_columns(frame, row, winner, loser, tie)
    better, worse = ([plain(value) for value in _complete(source, each).tolist()] for each in (winner, loser))
    same = np.flatnonzero([one == two for one, two in zip(better, worse, strict=True)])
    if len(same):
        line = int(same[0])
        problem = f"{show(better[line])} is compared with itself"
        raise SchemaError(problem, row=source.rows[line], column=loser, remedy="remove the line")
    tied = np.zeros(source.n_rows, bool) if tie is None else truths(source.cells(tie))
    tasks = [[[a, b]] if equal else [[a], [b]] for a, b, equal in zip(better, worse, tied.tolist(), strict=True)]
    column: Any = Pairs(noise=noise, attributes=attributes, ties=True if tied.any() else None)  # type: ignore[arg-type]
    return _table(source, row, columns, name, np.arange(source.n_rows), tasks, column)


def from_choices(
    frame: Any,
    row: str,
    task: str,
    item: str | None = None,
    chosen: str | None = None,
    *,
    best: str | None = None,
    worst: str | None = None,
    attributes: Sequence[str] = (),
    constants: bool | None = None,
    columns: Any = None,
    name: str = "choice",
    noise: str = "normal",
) -> Table:
    """Group a long table of choices into one row per person, for `TBM`.

    Parameters
    ----------
    frame : table
        One line for each item that a task shows: pandas, polars, pyarrow or a dict of columns.
    row, task : str
        Names of the columns with the person, and with the number of the task.
    item : str, optional
        Name of the column with the item. Without it, items are the profiles of `attributes`.
    chosen : str, optional
        Name of a column that says yes (1, True, "yes") for the chosen item of each task.
    best, worst : str, optional
        The same for the best and the worst item (MaxDiff); one of the two may be left out.
    attributes : list of str, optional
        Columns with attributes of the items (conjoint). Their effects are learned. If an item has other attributes in
        another task, each combination is an item of its own.
    constants : bool, optional
        Whether items have utilities of their own besides their attributes; by default if `item` is given.
    columns : table, optional
        Other questions, with one line per person and a column of the same name as `row`.
    name, noise : str, optional
        Name of the new column; and "normal" or "gumbel", as for `Choice`.

    Returns
    -------
    Table
        One row per person, sorted. Pass it to `TBM`; `Schema.infer` reads the column as `Choice` or `BestWorst`.

    Raises
    ------
    SchemaError
        If a column does not exist, a cell is missing, or a task shows an item twice or has no answer.

    Examples
    --------
    >>> shown = {"who": [1, 1, 1, 2, 2], "task": [1] * 5, "car": ["A", "B", "C", "A", "C"], "pick": [0, 1, 0, 0, 1]}
    >>> tb.from_choices(shown, row="who", task="task", item="car", chosen="pick")
    Table of 2 rows: who, choice
    """
    marks = {key: each for key, each in (("chosen", chosen), ("best", best), ("worst", worst)) if each is not None}
    if not marks or ("chosen" in marks and len(marks) > 1):
        raise SchemaError("from_choices needs chosen=, or best= and worst=", remedy="name the columns of the answers")
    if item is None and not attributes:
        raise SchemaError("from_choices needs item= or attributes=", remedy="say what the tasks show")
    source = _with_columns(frame, row, task, item, *attributes, *marks.values())
    labels, described = _profiles(source, item, attributes)
    said = {key: truths(source.cells(each)) for key, each in marks.items()}
    owner, number = coded(source, row)[0], coded(source, task)[0]
    key = owner.astype(np.int64) * (int(number.max(initial=0)) + 1) + number
    order = np.argsort(key, kind="stable")
    lines = np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []
    tasks = [_task(source, own, labels, said, task, bool(attributes)) for own in lines]
    first = np.asarray([own[0] for own in lines], np.int64)
    kind = Choice if "chosen" in marks else BestWorst
    own = not described or (item is not None if constants is None else constants)
    column = kind(noise=noise, attributes=described or None, constants=own)  # type: ignore[arg-type]
    return _table(source, row, columns, name, first, tasks, column)


def _profiles(source: Table, item: str | None, names: Sequence[str]) -> tuple[list[Any], dict[Any, dict[str, Any]]]:
    """The item of each line, and the attributes of each item."""
    values = {name: source.cells(name) for name in names}
    profile = [
        {name: None if cells.missing[line] else plain(cells.values[line]) for name, cells in values.items()}
        for line in range(source.n_rows)
    ]
    labels = [", ".join(f"{key}={value}" for key, value in own.items()) for own in profile]
    if item is not None:
        items = [plain(value) for value in _complete(source, item).tolist()]
        sets: dict[Any, set[str]] = {}
        for each, label in zip(items, labels, strict=True):
            sets.setdefault(each, set()).add(label)
        varies = any(len(own) > 1 for own in sets.values())
        labels = [f"{each} ({label})" if varies else each for each, label in zip(items, labels, strict=True)]
        if varies:
            profile = [{item: each, **own} for each, own in zip(items, profile, strict=True)]
    return labels, dict(zip(labels, profile, strict=True)) if names else {}


def _task(
    source: Table, lines: NDArray[Any], labels: list[Any], said: Mapping[str, BoolArray], task: str, may_repeat: bool
) -> list[list[Any]]:
    """One task as tiers, best first. Two equal profiles may be shown in one task."""
    seen: dict[Any, int] = {}
    for line in lines.tolist():
        if labels[line] in seen and not may_repeat:
            before, remedy = source.rows[seen[labels[line]]], "give each item one line in each task"
            problem = f"item {show(labels[line])} occurs twice in one task, also in row {before}"
            raise SchemaError(problem, row=source.rows[line], column=task, remedy=remedy)
        seen[labels[line]] = line
    ends = {key: [line for line in lines.tolist() if yes[line]] for key, yes in said.items()}
    if not any(ends.values()):
        problem = f"no item is marked as {' or '.join(said)}"
        raise SchemaError(problem, row=source.rows[lines[0]], column=task, remedy="mark one, or remove the task")
    top, bottom = ends.get("chosen", ends.get("best", [])), ends.get("worst", [])
    rest = [line for line in lines.tolist() if line not in top and line not in bottom]
    return [[labels[line] for line in tier] for tier in (top, rest, bottom) if tier]


def _with_columns(frame: Any, *names: str | None) -> Table:
    """A long table that has these columns."""
    source = as_table(frame)
    for name in names:
        if name is not None and name not in source:
            remedy = f"{suggestion(name, source.names)}the table has {listing(source.names)}"
            raise SchemaError("the table has no such column", column=name, remedy=remedy)
    return source


def _table(
    source: Table, row: str | None, columns: Any, name: str, line: NDArray[Any], tasks: list[Any], column: Column
) -> Table:
    """One row per person with all tasks of that person; `line` is a line of each task in the long table."""
    each = np.arange(source.n_rows)
    owner, owners = (each, each) if row is None else coded(source, row)
    cells = np.fromiter(([] for _ in owners), object, len(owners))
    for place, task in zip(owner[line].tolist(), tasks, strict=True):
        cells[place].append(task)
    return replace(_of_people(source, row, owners, columns, name, cells), declared={name: column})


KINDS = (".soc", ".soi", ".toc", ".toi")
_FIELD = re.compile(r"#\s*(?P<name>[A-Z][A-Z ]*?)(?:\s+(?P<number>\d+))?\s*:\s*(?P<value>.*)")
_PART = re.compile(r"\{[^{}]*\}|[^,{}]+")
# Counts in the header that must agree with the lines below.
_COUNTS = {"NUMBER VOTERS": "voters", "NUMBER UNIQUE ORDERS": "different orders"}


class Preferences(NamedTuple):
    """Alternatives, and rankings of them from best to worst with the number of voters of each."""

    items: tuple[str, ...]
    orders: tuple[tuple[tuple[str, ...], ...], ...]
    counts: tuple[int, ...]
    title: str = ""


def read_orders(path: str | os.PathLike[str]) -> Preferences:
    """Read the rankings of a PrefLib file."""
    from thurbo.table.io.text import decode

    kind, text = kind_of(path), decode(content(path), str(path))[0]
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise ThurboError(f'cannot read "{path}": it is empty; copy it again')
    reader = _Reader(str(path), kind)
    return reader.new(lines) if lines[0][1].startswith("#") else reader.old(lines)


def kind_of(path: str | os.PathLike[str]) -> str:
    """The extension of a path; raises if it is not a PrefLib format of rankings."""
    suffix = Path(path).suffix.lower()
    if suffix not in KINDS:
        is_other_data = suffix in (".cat", ".wmd", ".tog", ".mjg", ".pwg")
        problem = "it has no rankings" if is_other_data else "it is not a PrefLib format of rankings"
        raise ThurboError(f'cannot use "{path}", "{suffix}": {problem}; use one of {" ".join(KINDS)}')
    return suffix


class _Reader:
    """Reads one file; knows its path for messages, its kind, and the names of alternatives by number."""

    def __init__(self, path: str, kind: str):
        self.path, self.kind = path, kind
        self.names: dict[int, str] = {}

    def refuse(self, line: int, problem: str, remedy: str) -> NoReturn:
        raise ThurboError(f'line {line} of "{self.path}": {problem}; {remedy}')

    def new(self, lines: Sequence[tuple[int, str]]) -> Preferences:
        """The current format: header lines "# NAME: value", and orders "count: 1,{2,3},4"."""
        fields: dict[str, tuple[int, str]] = {}
        for line, text in lines:
            match = _FIELD.match(text)
            if match is None:
                continue  # an order, or a comment
            if match["name"] == "ALTERNATIVE NAME" and match["number"]:
                self._name(line, int(match["number"]), match["value"])
            elif not match["number"]:
                fields[match["name"]] = (line, match["value"])
        line, stated = fields.get("DATA TYPE", (1, ""))
        if f".{stated.lower()}" in KINDS and f".{stated.lower()}" != self.kind:
            self.refuse(line, f'the data type "{stated}" does not match the extension {self.kind}', "rename the file")
        if "NUMBER ALTERNATIVES" in fields:
            line, stated = fields["NUMBER ALTERNATIVES"]
            wanted = self._whole(line, stated, "number of alternatives")
            self.names = {number: str(number) for number in range(1, wanted + 1)} | self.names
            if len(self.names) != wanted:
                problem = f"the header says {wanted} alternatives but names {len(self.names)}"
                self.refuse(line, problem, "correct NUMBER ALTERNATIVES")
        if not self.names:
            self.refuse(1, "no alternative is named", 'add lines "# ALTERNATIVE NAME 1: ..."')
        stated_counts = [(*fields[name], what) for name, what in _COUNTS.items() if name in fields]
        body = [each for each in lines if not each[1].startswith("#")]
        return self._body(body, ":", stated_counts, fields.get("TITLE", (1, ""))[1])

    def old(self, lines: Sequence[tuple[int, str]]) -> Preferences:
        """The format before 2022: number of alternatives, names, a line of counts, and orders "count,1,{2,3},4"."""
        n_items = self._whole(*lines[0], "number of alternatives")
        if len(lines) < n_items + 2:
            problem = f"the file ends after {len(lines)} lines, before all {n_items} alternatives are named"
            self.refuse(lines[-1][0], problem, "copy it again")
        for number, line in lines[1 : n_items + 1]:
            alternative, comma, name = line.partition(",")
            if not comma:
                self.refuse(number, f"{show(line)} is not an alternative", 'write its number and name, "1,Name"')
            self._name(number, self._whole(number, alternative, "number of an alternative"), name)
        number, line = lines[n_items + 1]
        counts = line.split(",")
        if len(counts) != 3:
            problem = f"{show(line)} does not hold three counts: voters, sum of votes and different orders"
            self.refuse(number, problem, f"check that the lines above name {n_items} alternatives")
        stated_counts = [(number, counts[1], "voters"), (number, counts[2], "different orders")]
        return self._body(lines[n_items + 2 :], ",", stated_counts)

    def _body(
        self,
        lines: Sequence[tuple[int, str]],
        sign: str,
        stated_counts: Sequence[tuple[int, str, str]],
        title: str = "",
    ) -> Preferences:
        """The orders below a header, checked against the counts that it states."""
        orders, counts = [], []
        held = Counter(self.names.values())  # alternatives with the same name get their number added
        items = {number: name if held[name] == 1 else f"{name} ({number})" for number, name in self.names.items()}
        for number, line in lines:
            count, found, order = line.partition(sign)
            if not found:
                remedy = f'write the number of voters and the order, "3{sign} 1,2"'
                self.refuse(number, f"{show(line)} is not an order", remedy)
            counts.append(self._whole(number, count, "number of voters"))
            orders.append(tuple(tuple(items[each] for each in tier) for tier in self._order(number, order)))
        if not orders:
            self.refuse(lines[-1][0] if lines else 1, "there are no orders below the header", "copy the file again")
        there = {"voters": sum(counts), "different orders": len(orders)}
        for number, stated, what in stated_counts:
            if self._whole(number, stated, f"number of {what}") != there[what]:
                problem = f"the header says {stated.strip()} {what}, but there are {there[what]}"
                self.refuse(number, problem, "copy the file again if it is truncated, or correct the number")
        return Preferences(tuple(items[each] for each in sorted(items)), tuple(orders), tuple(counts), title)

    def _order(self, number: int, text: str) -> list[tuple[int, ...]]:
        """The tiers of one line, checked against the rules of the file format."""
        if _PART.sub("", text).strip(", ") or text.count("{") != text.count("}"):
            self.refuse(number, f"{show(text.strip())} is not an order", "write ties in braces, as in 1,{2,3},4")
        tiers, seen = [], set[int]()
        for part in _PART.findall(text):
            tied = [each for each in part.strip(" {}").split(",") if each.strip()]
            tier = tuple(self._whole(number, each, "number of an alternative") for each in tied)
            for each in tier:
                if each not in self.names:
                    known = f"the alternatives are {listing(sorted(self.names))}"
                    self.refuse(number, f"alternative {each} is not named in the header", known)
                if each in seen:
                    self.refuse(number, f"alternative {each} is ranked twice", "name it once per line")
                seen.add(each)
            if len(tier) > 1 and self.kind in (".soc", ".soi"):
                remedy = f"rename the file to .to{self.kind[-1]}, which allows ties"
                self.refuse(number, f"{part.strip()} is a tie", remedy)
            tiers += [tier] if tier else []
        if not tiers:
            self.refuse(number, "the order is empty", "remove the line")
        if self.kind in (".soc", ".toc") and len(seen) < len(self.names):
            remedy = f"rename the file to {self.kind[:-1]}i, which allows incomplete orders"
            self.refuse(number, f"alternative {listing(sorted(set(self.names) - seen))} is not ranked", remedy)
        return tiers

    def _name(self, line: int, number: int, name: str) -> None:
        if number in self.names:
            self.refuse(line, f"alternative {number} is named twice", "number alternatives from 1 without repeats")
        self.names[number] = " ".join(name.split()) or str(number)

    def _whole(self, line: int, text: str, what: str) -> int:
        if not text.strip().isascii() or not text.strip().isdigit():
            self.refuse(line, f"{show(text.strip())} is not a {what}", "write a whole number")
        return int(text)


def write_orders(path: str | os.PathLike[str], found: Preferences, rows: Sequence[object] | None = None) -> Path:
    """Write rankings in PrefLib's current format; equal ones are merged, the most frequent first.

    `rows` are row labels for messages. An order that the format cannot hold raises before anything is written.
    """
    kind, place = kind_of(path), {item: number for number, item in enumerate(found.items, 1)}
    count: dict[str, int] = {}
    for position, (order, number) in enumerate(zip(found.orders, found.counts, strict=True)):
        row = position if rows is None else rows[position]
        if kind in (".soc", ".soi") and any(len(tier) > 1 for tier in order):
            raise ThurboError(f"row {row}: {kind} files cannot hold ties; write .to{kind[-1]}")
        if kind in (".soc", ".toc") and sum(map(len, order)) < len(place):
            raise ThurboError(f"row {row}: {kind} files hold only complete orders; write {kind[:-1]}i")
        tiers = [",".join(map(str, sorted(place[item] for item in tier))) for tier in order]
        text = ",".join(f"{{{tier}}}" if "," in tier else tier for tier in tiers)
        count[text] = count.get(text, 0) + number
    lines = [
        f"# FILE NAME: {Path(path).name}",
        f"# TITLE: {' '.join(found.title.split())}",
        f"# DATA TYPE: {kind[1:]}",
        f"# NUMBER ALTERNATIVES: {len(place)}",
        f"# NUMBER VOTERS: {sum(count.values())}",
        f"# NUMBER UNIQUE ORDERS: {len(count)}",
        *(f"# ALTERNATIVE NAME {number}: {' '.join(item.split())}" for item, number in place.items()),
        *(f"{number}: {text}" for text, number in sorted(count.items(), key=lambda each: -each[1])),
    ]
    return write_atomically(path, "\n".join(lines) + "\n")
