"""§3.2 PrefLib files (elections and other collections of rankings) as a table with its schema, and back.

Idea: an order is a cell of a Ranking column, and its number of voters is the weight of the row.
Guarantees that the table can be fitted without further steps, and that a round trip changes nothing.
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
from thurbo.io import build
from thurbo.io.preflib import Preferences, kind_of, read_orders, write_orders
from thurbo.io.table import as_table
from thurbo.schema import Schema


def read_preferences(path: str | os.PathLike[str], per: Literal["order", "voter"] = "order") -> tuple[Any, Schema]:
    """Read a PrefLib file of rankings as a table with its schema.

    Parameters
    ----------
    path : str or path
        A .soc, .soi, .toc or .toi file.
    per : {"order", "voter"}, default "order"
        One row per distinct order, with its number of voters in column "weight"; or one row per voter.

    Returns
    -------
    frame : table
        pandas, polars or pyarrow, whichever is installed. Column "order" holds lists from best to worst,
        [["a"], ["b", "c"]]. Alternatives that a voter did not rank are not compared.
    schema : Schema
        A `Ranking`, and a `Weight` with `per="order"`.

    Raises
    ------
    ThurboError
        If the file cannot be read, with the number of the line.

    Examples
    --------
    >>> import tempfile, thurbo as tb
    >>> orders = {"order": [["a", "b", "c"], ["c", "a"]], "voters": [3, 1]}
    >>> schema = {"order": tb.Ranking(["a", "b", "c"]), "voters": tb.Weight()}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tb.write_preferences(orders, f"{folder}/lunch.soi", schema)
    ...     frame, schema = tb.read_preferences(path)
    >>> frame["order"].tolist(), frame["weight"].tolist()
    ([[['a'], ['b'], ['c']], [['c'], ['a']]], [3, 1])
    """
    if per not in ("order", "voter"):
        raise ThurboError(f'per="{per}" is not one of order, voter; use one of them')
    found = read_orders(path)
    counts = np.asarray(found.counts, np.int64)
    cells = np.fromiter(([list(tier) for tier in order] for order in found.orders), object, len(counts))
    columns: dict[str, Column] = {"order": Ranking(found.items, cell_format="lists")}
    titles = {"order": found.title}
    if per == "voter":
        return build.any_frame({"order": np.repeat(cells, counts)}), Schema(columns, titles=titles)
    data = {"order": cells, "weight": counts}
    return build.any_frame(data), Schema(columns | {"weight": Weight()}, titles=titles)


def write_preferences(
    frame: Any, path: str | os.PathLike[str], schema: Mapping[str, Column], *, column: str | None = None
) -> Path:
    """Write the rankings of a table to a PrefLib file.

    Parameters
    ----------
    frame : table
        pandas, polars, pyarrow or a dict of columns.
    path : str or path
        A .soc, .soi, .toc or .toi file; the extension selects the format.
    schema : Schema or mapping of str to Column
        Must have a `Ranking`, in any of its forms; may have a `Weight`, whole numbers of voters.
    column : str, optional
        Name of the Ranking to write, if the schema has more than one.

    Returns
    -------
    pathlib.Path
        The path of the file. Rows without a ranking are not written.

    Raises
    ------
    ThurboError
        If the format cannot hold an order, such as a tie in a .soc file, with the row.

    Examples
    --------
    >>> import tempfile, thurbo as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.write_preferences({"order": ["a > b", "b > a"]}, f"{folder}/x.soc", {"order": tb.Ranking()}).name
    'x.soc'
    """
    kind_of(path)  # raises early for a wrong extension
    source = as_table(frame)
    given = schema if isinstance(schema, Schema) else Schema(schema)
    name = _ranking(given, column)
    only = Schema({each: kind for each, kind in given.items() if each == name or not kind.sites}).fit(source)
    block, rows = only.compile(source)[name], only.row_names(source)
    stated = {each.row for each in block.linear} | set(np.flatnonzero(block.one_of).tolist())
    if stated:
        problem = "the cell is a statement, not an order"
        raise SchemaError(problem, row=rows[min(stated)], column=name, remedy="remove the row, or rank its items")
    weights = only.weights(source)
    counts = _counts(np.ones(source.n_rows) if weights is None else weights, rows)
    labels = [str(label) for label in only[name].labels]
    kept = np.flatnonzero((block.tier >= 0).any(axis=1) & (counts > 0))
    if not len(kept):
        raise SchemaError("no row has a ranking", column=name, remedy="give at least one order")
    orders = []
    for tiers in block.tier[kept]:
        heights = range(int(tiers.max()), -1, -1)
        orders.append(tuple(tuple(labels[place] for place in np.flatnonzero(tiers == height)) for height in heights))
    found = Preferences(tuple(labels), tuple(orders), tuple(counts[kept].tolist()), given.titles.get(name, ""))
    return write_orders(path, found, rows[kept].tolist())


def _ranking(schema: Schema, column: str | None) -> str:
    """The column to write: the requested one, or the only Ranking of the schema."""
    if column is not None and schema[column].is_ranking:
        return column
    held = [name for name, kind in schema.items() if kind.is_ranking]
    if column is not None:
        remedy = f"use one of {', '.join(held)}" if held else 'use schema={"...": Ranking()}'
        raise SchemaError(f"its type is {type(schema[column]).__name__}, not Ranking", column=column, remedy=remedy)
    if len(held) != 1:
        found = f"the schema has {len(held)} Ranking columns" if held else "the schema has no Ranking column"
        remedy = f"give column=, one of {', '.join(held)}" if held else 'use schema={"...": Ranking()}'
        raise SchemaError(found, remedy=remedy)
    return held[0]


def _counts(weights: FloatArray, rows: Any) -> Any:
    """Weights as numbers of voters: [row]."""
    counts = np.rint(weights).astype(np.int64)
    bad = np.flatnonzero(counts != weights)
    if len(bad):
        problem = f"the weight {weights[bad[0]]:g} is not a whole number of voters"
        raise SchemaError(problem, row=rows[bad[0]], remedy="give whole numbers, or remove Weight from the schema")
    return counts
