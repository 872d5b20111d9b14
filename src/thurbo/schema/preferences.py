"""§3.2 Elections and other collections of orders: PrefLib's files as a table and its schema, and back.

Idea: an order is a cell of a Ranking, and the number of voters who gave it is the weight of its row.
Promises that what is read can be fitted as it is, and that what was read is written the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thurbo.columns import Column, Ranking, Weight
from thurbo.columns.cells import FloatArray
from thurbo.errors import SchemaError, ThurboError
from thurbo.io import frames
from thurbo.io.preflib import Preferences, kind_of, read_orders, write_orders
from thurbo.schema import Schema


def read_preferences(path: str | os.PathLike[str], per: Literal["order", "voter"] = "order") -> tuple[Any, Schema]:
    """Read a PrefLib file, .soc .soi .toc .toi, as a table and the schema that `TBM` takes.

    Column "order" holds lists from best to worst, [["a"], ["b", "c"]]; an alternative that a voter did not rank is not
    compared. There is a row for each order with its number of voters in "weight", or for each voter with `per="voter"`.
    """
    if per not in ("order", "voter"):
        raise ThurboError(f'per="{per}" is not one of order, voter')
    found = read_orders(path)
    counts = np.asarray(found.counts, np.int64)
    cells = np.fromiter(([list(tier) for tier in order] for order in found.orders), object, len(counts))
    columns: dict[str, Column] = {"order": Ranking(found.items, form="lists")}
    titles = {"order": found.title}
    if per == "voter":
        return frames.assemble_any({"order": np.repeat(cells, counts)}), Schema(columns, titles=titles)
    data = {"order": cells, "weight": counts}
    return frames.assemble_any(data), Schema(columns | {"weight": Weight()}, titles=titles)


def write_preferences(
    frame: Any, path: str | os.PathLike[str], schema: Mapping[str, Column], *, column: str | None = None
) -> Path:
    """Write the rankings of a table as a PrefLib file, of the kind that its extension names; returns the path.

    `schema` says which `column` is the Ranking, in any of its forms, and which the Weight: whole numbers of voters.
    Rows that rank nothing are left out.
    """
    kind_of(path)  # before any work
    source = frames.table(frame)
    given = schema if isinstance(schema, Schema) else Schema(schema)
    name = _ranking(given, column)
    only = Schema({each: kind for each, kind in given.items() if each == name or not kind.sites}).fit(source)
    block, rows = only.compile(source)[name], only.row_names(source)
    said = {each.row for each in block.linear} | set(np.flatnonzero(block.one_of).tolist())
    if said:
        problem = "the cell is a statement and no order"
        raise SchemaError(problem, row=rows[min(said)], column=name, remedy="leave the row out, or rank its items")
    weights = only.weights(source)
    counts = _counts(np.ones(source.n_rows) if weights is None else weights, rows)
    labels = [str(label) for label in only[name].labels]
    kept = np.flatnonzero((block.tier >= 0).any(axis=1) & (counts > 0))
    if not len(kept):
        raise SchemaError("no row ranks anything", column=name, remedy="give at least one order")
    orders = []
    for tiers in block.tier[kept]:
        heights = range(int(tiers.max()), -1, -1)
        orders.append(tuple(tuple(labels[place] for place in np.flatnonzero(tiers == height)) for height in heights))
    found = Preferences(tuple(labels), tuple(orders), tuple(counts[kept].tolist()), given.titles.get(name, ""))
    return write_orders(path, found, rows[kept].tolist())


def _ranking(schema: Schema, column: str | None) -> str:
    """The column to write: the one asked for, or the only ranking there is."""
    if column is not None and isinstance(schema[column], Ranking):
        return column
    held = [name for name, kind in schema.items() if isinstance(kind, Ranking)]
    if column is not None:
        remedy = f"rankings are {', '.join(held)}" if held else 'say schema={"...": Ranking()}'
        raise SchemaError(f"it is of kind {schema[column].kind} and no ranking", column=column, remedy=remedy)
    if len(held) != 1:
        found = f"the schema has {len(held)} rankings" if held else "the schema has no ranking"
        remedy = f"say column= one of {', '.join(held)}" if held else 'say schema={"...": Ranking()}'
        raise SchemaError(found, remedy=remedy)
    return held[0]


def _counts(weights: FloatArray, rows: Any) -> Any:
    """Weights as numbers of voters: [row]."""
    counts = np.rint(weights).astype(np.int64)
    bad = np.flatnonzero(counts != weights)
    if len(bad):
        problem = f"the weight {weights[bad[0]]:g} is no number of voters"
        raise SchemaError(problem, row=rows[bad[0]], remedy="give whole numbers, or leave Weight out of the schema")
    return counts
