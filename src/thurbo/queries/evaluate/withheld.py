"""§6 A table without some of its answers, to fit a model that has never seen them.

An answer is one line of a column's block. In the shared layout it is hidden by emptying all table columns that hold it;
in a list of `from_long` by removing its entry; in a list that one cell holds, by emptying the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.cells import Listed
from thurbo.io.table import Table, _Column
from thurbo.schema import Schema

Lines = Mapping[str, np.ndarray]  # by column, [line]


def empty_cells(table: Table, schema: Schema, blocks: Mapping[str, Block], masked: Lines) -> dict[str, np.ndarray]:
    """Which cells of the table to empty, by table column: [row] each."""
    found: dict[str, np.ndarray] = {}
    for name, lines in masked.items():
        if name in table.lists or not lines.any():
            continue
        rows = blocks[name].any_in_row(lines)
        for source in {name, *schema.source_columns[name]} & set(table.names):
            found[source] = found.get(source, False) | rows
    return found


def without(table: Table, schema: Schema, blocks: Mapping[str, Block], masked: Lines) -> Table:
    """The table without the masked answers."""
    emptied = empty_cells(table, schema, blocks, masked)

    def read(place: int) -> _Column:
        values, missing, levels = table.read(place)
        hidden = emptied.get(table.names[place])
        return values, missing if hidden is None else missing | hidden, levels

    lists = {name: _shorter(held, masked[name]) if name in masked else held for name, held in table.lists.items()}
    return replace(table, read=read, lists=lists)


def _shorter(held: Listed, masked: np.ndarray) -> Listed:
    """Lists without the masked entries."""
    kept = ~masked
    n_kept = np.concatenate([[0], np.cumsum(kept)])
    return held._replace(start=n_kept[held.start], which=held.which[kept], score=held.score[kept])


def hideable(table: Table, schema: Schema, blocks: Mapping[str, Block], there: Lines) -> dict[str, np.ndarray]:
    """Which of the given answers an empty cell hides: not where a blank is itself an answer ("not selected")."""
    left = schema.compile(without(table, schema, blocks, there))
    return {
        name: lines if name in table.lists else lines & ~_still(blocks[name], left[name])
        for name, lines in there.items()
    }


def _still(whole: Block, left: Block) -> np.ndarray:
    """Lines of rows that still say something, [line]."""
    answered = left.answered
    return answered if whole.entries is None else answered[whole.entries.row]
