"""§6 A table without some of its answers, to fit a model that has never seen them.

An answer is one line of a column's block. In the shared layout it is hidden by emptying all table columns that hold it;
in lists of items with scores by removing its entry; in an order of many items by emptying the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thurbo.table.columns.cells import Block, Listed, plain
from thurbo.table.columns.listed import read_lists
from thurbo.table.io.frames import Table
from thurbo.table.schema import Schema

Lines = Mapping[str, np.ndarray]  # by column, [line]


def with_lists(table: Table, schema: Schema) -> Table:
    """The table with all lists of scores kept as lists, so that single entries can be hidden."""
    cells = {name for name in schema.listed if schema[name].kind == "ratings" and name not in table.lists}
    return replace(table, lists={**table.lists, **{name: read_lists(table.cells(name)) for name in cells}})


def in_cells(schema: Schema, name: str) -> bool:
    """Whether a column has its tasks in one cell of each row, so that single tasks can be hidden."""
    return schema[name].has_tasks and schema.source_columns[name] == (name,)


def empty_cells(table: Table, schema: Schema, blocks: Mapping[str, Block], masked: Lines) -> dict[str, np.ndarray]:
    """Which cells of the table to empty, by table column: [row] each."""
    found: dict[str, np.ndarray] = {}
    for name, lines in masked.items():
        if name in table.lists or in_cells(schema, name) or not lines.any():
            continue
        rows = blocks[name].any_in_row(lines)
        for source in {name, *schema.source_columns[name]} & set(table.names):
            found[source] = found.get(source, False) | rows
    return found


def without(table: Table, schema: Schema, blocks: Mapping[str, Block], masked: Lines) -> Table:
    """The table without the masked answers."""
    emptied = empty_cells(table, schema, blocks, masked)
    shorter = {name: lines for name, lines in masked.items() if in_cells(schema, name) and lines.any()}

    def read(place: int) -> Any:
        values, missing, levels = table.read(place)
        hidden, name = emptied.get(table.names[place]), table.names[place]
        if name in shorter:
            values = schema[name].shortened(table.cells(name), blocks[name], shorter[name])
            return values, np.asarray([value is None for value in values], bool), None
        return values, missing if hidden is None else missing | hidden, levels

    lists = dict(table.lists)
    for name in lists.keys() & masked.keys():
        lists[name] = _shorter(lists[name], schema[name].labels, blocks[name], masked[name])
    return replace(table, read=read, lists=lists)


def _shorter(held: Listed, labels: tuple[Any, ...], block: Block, masked: np.ndarray) -> Listed:
    """Lists without the masked entries: by row and item, since a column may leave out unknown items."""
    row = np.repeat(np.arange(len(held.start) - 1), np.diff(held.start))
    if block.entries is None:
        kept = ~masked[row]
    else:
        place = {label: number for number, label in enumerate(labels)}
        site = np.asarray([place.get(plain(item), -1) for item in np.asarray(held.items).tolist()], np.int64)
        own, hidden = row * len(labels) + site[held.which], block.entries.row * len(labels) + block.entries.site
        kept = ~np.isin(own, hidden[masked]) | (site[held.which] < 0)
    n_kept = np.concatenate([[0], np.cumsum(kept)])
    return held._replace(start=n_kept[held.start], which=held.which[kept], score=held.score[kept])


def hideable(table: Table, schema: Schema, blocks: Mapping[str, Block], there: Lines) -> dict[str, np.ndarray]:
    """Which of the given answers can be hidden: not where an empty cell is itself an answer ("not selected")."""
    left = schema.compile(without(table, schema, blocks, there))
    found = {}
    for name, lines in there.items():
        if name in table.lists:
            found[name] = lines
            continue
        still, entries = left[name].answered, blocks[name].entries
        found[name] = lines & ~(still if entries is None else still[entries.row])
    return found
