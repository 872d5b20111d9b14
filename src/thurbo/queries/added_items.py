"""§3.2 Items added to orders that are kept as a table: each new item goes where its utility puts it in the row's order.

Orders of few items have the same sites in every row (see columns/listed.py), so the utility of every item, ranked or
not, is one slot of the row. The given order does not change; rows that already have all the items keep their cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thurbo.columns.cells import Cells, plain
from thurbo.columns.listed import from_table
from thurbo.errors import SchemaError
from thurbo.io.table import Table
from thurbo.queries import predict
from thurbo.queries.given_items import slot_means
from thurbo.queries.question import Question
from thurbo.schema import Schema


def orders_as_tables(schema: Schema, items: Any) -> list[str]:
    """Columns of orders that are kept as a table and for which items are given.

    Items that are not given by column may be those of another column: of the one that knows them.
    """
    held = [name for name in schema.modelled if schema[name].has_items]
    names = [name for name in held if not schema[name].is_listed and predict.items_of(name, items) is not None]
    if isinstance(items, Mapping) or len(held) < 2:
        return names
    return [name for name in names if {plain(item) for item in items} <= set(schema[name].labels)]


def in_orders(question: Question, table: Table, items: Any, x: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The cells of orders that are kept as a table, with the given items added; `x` are utilities [row, shared slot].

    Without `x` they are the means E[x | e], by mean-field.
    """
    found: dict[str, np.ndarray] = {}
    names = orders_as_tables(question.schema, items)
    if names and x is None:
        x = question.evidence.by_chunks(lambda rows: np.asarray(slot_means(question.params, rows, question.how)))
    for name in names:
        column, block = question.schema[name], question.blocks[name]
        if column.source_columns(name) != (name,):
            problem = "items cannot be added to an order in several columns of the table"
            raise SchemaError(problem, column=name, remedy="use rank(), or leave the column out of items=")
        assert x is not None
        own = x[:, question.evidence.shared[question.schema.slices[name]]]
        asked = np.zeros(len(own), bool)[:, None] | np.isin(
            np.arange(own.shape[1]), predict.sites_of(question.schema, name, predict.items_of(name, items))
        )
        row, site = np.nonzero(asked & (block.tier < 0))
        entries, _ = from_table(block.tier)
        old = own[entries.row, entries.site]
        cells = table.cells(name)
        found[name] = column.extended(cells, row, site, own[row, site], entries, old)
        keep_given(found[name], cells, row)
    return found


def keep_given(found: np.ndarray, cells: Cells, row: np.ndarray) -> None:
    """Put the given cells back into rows without a new item; `row` are the rows with new items."""
    if cells.listed is not None:
        return
    for place in np.flatnonzero((np.bincount(row, minlength=len(found)) == 0) & ~cells.missing):
        if type(found[place]) is type(cells.values[place]):  # libraries have several types for lists
            found[place] = cells.values[place]
