"""Long tables of paired comparisons and of choices from shown sets: one row per person, whose cell lists the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns import BestWorst, Choice, Column, Pairs
from thurbo.columns.cells import BoolArray, Cells, listing, plain, show, suggestion
from thurbo.columns.tasks import truths
from thurbo.errors import SchemaError
from thurbo.io import build
from thurbo.io.long import coded, joined, with_metadata
from thurbo.io.table import Table, as_table


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
    >>> import thurbo as tb
    >>> games = {"day": [1, 1, 2], "winner": ["A", "B", "C"], "loser": ["B", "C", "A"]}
    >>> table = tb.from_pairs(games, row="day")
    >>> table
    Table of 2 rows: day, pairs
    >>> tb.Schema.infer(table)["pairs"].kind
    'pairs'
    """
    source = as_table(frame)
    _check_columns(source, *(each for each in (row, winner, loser, tie) if each is not None))
    better, worse = (_items(source, each) for each in (winner, loser))
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
    >>> import thurbo as tb
    >>> shown = {"who": [1, 1, 1, 2, 2], "task": [1] * 5, "car": ["A", "B", "C", "A", "C"], "pick": [0, 1, 0, 0, 1]}
    >>> tb.from_choices(shown, row="who", task="task", item="car", chosen="pick")
    Table of 2 rows: who, choice
    """
    source = as_table(frame)
    marks = {key: each for key, each in (("chosen", chosen), ("best", best), ("worst", worst)) if each is not None}
    if not marks or ("chosen" in marks and len(marks) > 1):
        raise SchemaError("from_choices needs chosen=, or best= and worst=", remedy="name the columns of the answers")
    if item is None and not attributes:
        raise SchemaError("from_choices needs item= or attributes=", remedy="say what the tasks show")
    _check_columns(source, row, task, *([] if item is None else [item]), *attributes, *marks.values())
    labels, described = _profiles(source, item, attributes)
    first, tasks = _tasks(source, row, task, marks, labels, bool(attributes))
    kind = Choice if "chosen" in marks else BestWorst
    own = not described or (item is not None if constants is None else constants)
    column = kind(noise=noise, attributes=described or None, constants=own)  # type: ignore[arg-type]
    return _table(source, row, columns, name, first, tasks, column)


def _tasks(
    source: Table, row: str, task: str, marks: Mapping[str, str], labels: list[Any], may_repeat: bool
) -> tuple[NDArray[Any], list[Any]]:
    """The tasks of a long table as tiers, and a line of each."""
    said = {key: truths(source.cells(each)) for key, each in marks.items()}
    owner, _ = coded(source, row)
    number, _ = coded(source, task)
    key = owner.astype(np.int64) * (int(number.max(initial=0)) + 1) + number
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    first, tasks = [], []
    for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
        lines = order[begin:end]
        tasks.append(_task(source, lines, labels, said, task, may_repeat))
        first.append(int(lines[0]))
    return np.asarray(first, np.int64), tasks


def _profiles(source: Table, item: str | None, names: Sequence[str]) -> tuple[list[Any], dict[Any, dict[str, Any]]]:
    """The item of each line, and the attributes of each item."""
    values = {name: source.cells(name) for name in names}
    profile = [
        {name: None if cells.missing[line] else plain(cells.values[line]) for name, cells in values.items()}
        for line in range(source.n_rows)
    ]
    labels = [", ".join(f"{key}={value}" for key, value in own.items()) for own in profile]
    if item is not None:
        items = _items(source, item)
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
            problem = (
                f"item {show(labels[line])} occurs twice in one task, also in row {source.rows[seen[labels[line]]]}"
            )
            raise SchemaError(
                problem, row=source.rows[line], column=task, remedy="give each item one line in each task"
            )
        seen[labels[line]] = line
    ends = {key: [line for line in lines.tolist() if yes[line]] for key, yes in said.items()}
    if not any(ends.values()):
        problem = f"no item is marked as {' or '.join(said)}"
        raise SchemaError(problem, row=source.rows[lines[0]], column=task, remedy="mark one, or remove the task")
    top, bottom = ends.get("chosen", ends.get("best", [])), ends.get("worst", [])
    rest = [line for line in lines.tolist() if line not in top and line not in bottom]
    return [[labels[line] for line in tier] for tier in (top, rest, bottom) if tier]


def _check_columns(source: Table, *names: str) -> None:
    for name in names:
        if name not in source:
            remedy = f"{suggestion(name, source.names)}the table has {listing(source.names)}"
            raise SchemaError("the table has no such column", column=name, remedy=remedy)


def _items(source: Table, name: str) -> list[Any]:
    cells: Cells = source.cells(name)
    if cells.missing.any():
        place = int(cells.missing.argmax())
        raise SchemaError("the cell is missing", row=source.rows[place], column=name, remedy="remove the line")
    return [plain(value) for value in cells.values.tolist()]


def _table(
    source: Table, row: str | None, columns: Any, name: str, line: NDArray[Any], tasks: list[Any], column: Column
) -> Table:
    """One row per person with all tasks of that person; `line` is a line of each task in the long table."""
    if row is None:
        owners: Any = np.arange(source.n_rows)
        owner: Any = owners
    else:
        owner, owners = coded(source, row)
    cells = np.full(len(owners), None, object)
    cells[:] = [[] for _ in owners]
    for place, task in zip(owner[line].tolist(), tasks, strict=True):
        cells[place].append(task)
    people = None if columns is None else as_table(columns)
    if people is not None and row is None:
        raise SchemaError("columns= needs row=, the column with the judge", remedy="give row=")
    data: dict[str, Any] = {} if row is None else {row: owners}
    if people is not None and row is not None:
        data |= joined(people, row, owners)
    if name in data:
        raise SchemaError("two columns have this name", column=name, remedy="give the new column another name=")
    data[name] = cells
    made = data if source.kind in {"dict", "numpy"} else build.frame(source.kind, data)
    table = replace(as_table(made), rows=owners, owner=row, declared={name: column})
    return table if people is None else with_metadata(table, people)
