"""§7 `rank`, `prefers` and `similar_items`: questions about items, in the user's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from thurbo.columns import Ranking, Ratings
from thurbo.columns.cells import listing, plain, show, suggestion
from thurbo.errors import SchemaError, ThurboError
from thurbo.io import frames
from thurbo.queries import utilities
from thurbo.queries.predict import Features
from thurbo.rbm import Params
from thurbo.schema import Schema


def column(schema: Schema, name: str | None) -> str:
    """The column whose items are asked about: the one named, or the only one there is."""
    held = [each for each, kind in schema.items() if isinstance(kind, (Ratings, Ranking))]
    if name is not None:
        if name not in held:
            schema[name]  # an unknown column is refused here, with the names there are
            remedy = f"rankings are {listing(held)}" if held else "fit a Ranking, or lists from from_long"
            raise SchemaError("it has no items to rank", column=name, remedy=remedy)
        return name
    if len(held) != 1:
        found = f"the schema has {len(held)} rankings" if held else "the schema has no ranking"
        raise SchemaError(found, remedy=f"say column= one of {listing(held)}" if held else "fit a Ranking, or lists")
    return held[0]


def places(schema: Schema, name: str, items: Any) -> np.ndarray:
    """Positions of items in their column."""
    known = {label: place for place, label in enumerate(schema[name].labels)}
    found = []
    for item in items:
        if plain(item) not in known:
            near = suggestion(item, known) if isinstance(item, str) else ""
            raise SchemaError(f"there is no item {show(item)}", column=name, remedy=f"{near}name items of the fit")
        found.append(known[plain(item)])
    return np.asarray(found, np.int64)


def rank(
    params: Params,
    schema: Schema,
    name: str,
    asked: Any,
    found: Features,
    top: int,
    items: Any,
    exclude_seen: bool,
    library: str,
) -> Any:
    """The long table of `TBM.rank`."""
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise ThurboError(f"top={top!r} is not a number of items; give a whole number of at least 1")
    kind, labels = schema[name], np.asarray(schema[name].labels, object)
    ask = utilities.of_items(params, schema.slices[name], kind.n_cuts > 0)
    rows = schema.row_names(asked.table)
    if items is not None and not _is_list(items):
        result = _pairs(schema, name, rows, found, ask, items)
    else:
        allowed = np.ones(len(labels), bool)
        if items is not None:
            allowed[:] = False
            allowed[places(schema, name, items)] = True
        seen = _seen(asked.blocks[name]) if exclude_seen else None
        result = utilities.best(found, ask, int(top), allowed, seen)
    return frames.assemble(
        library if library in {"pandas", "polars", "pyarrow"} else "dict",
        {
            "row": rows[result.row],
            "item": _plain_array(labels[result.item]),
            "utility": result.utility.astype(np.float64),
            "place": result.place,
        },
    )


def _is_list(items: Any) -> bool:
    return isinstance(items, (list, tuple, set, frozenset, range)) or (
        isinstance(items, np.ndarray) and items.ndim == 1
    )


def _pairs(schema: Schema, name: str, rows: np.ndarray, found: Features, ask: Any, items: Any) -> utilities.Ranked:
    """Utilities of the pairs of a long table: its first two columns, or those called as the rows and the items."""
    source = frames.table(items)
    if len(source.names) < 2:
        problem = "the table of items has one column"
        raise SchemaError(problem, remedy="give rows and items, or a list of items for all rows")
    item_name = name if name in source else source.names[1]
    row_name = next(each for each in source.names if each != item_name)
    number = {plain(row): place for place, row in enumerate(rows.tolist())}
    at = []
    for line, row in enumerate(source.cells(row_name).values.tolist()):
        if plain(row) not in number:
            remedy = "name rows of the table that is ranked"
            raise SchemaError(f"there is no row {show(row)}", row=line, column=row_name, remedy=remedy)
        at.append(number[plain(row)])
    return utilities.of_pairs(found, ask, np.asarray(at), places(schema, name, source.cells(item_name).values.tolist()))


def _seen(block: Any) -> tuple[np.ndarray, np.ndarray]:
    """Items that rows speak of: start of each row, and their places."""
    if block.lists is not None:
        return block.lists.start, block.lists.site
    row, item = np.nonzero(block.tier >= 0)
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(block.tier)))]), item


def _plain_array(values: np.ndarray) -> np.ndarray:
    """Labels in the narrowest type that holds them all: numbers stay numbers."""
    kinds = {type(value) for value in values.tolist()}
    return values.astype(kinds.pop()) if kinds in ({int}, {float}, {bool}) else values


def prefers(params: Params, schema: Schema, name: str, found: Features, item: Any, other: Any) -> np.ndarray:
    """P(item above other) of every row: Φ of the mean difference by its deviation, noise and hidden layer together."""
    one, two = places(schema, name, [item, other])
    where = schema.slices[name]
    ask = utilities.of_items(params, where, schema[name].n_cuts > 0)
    parts = []
    for begin in range(0, len(found.hidden), utilities.ROWS_AT_ONCE):
        rows = np.minimum(np.arange(begin, begin + utilities.ROWS_AT_ONCE), len(found.hidden) - 1)
        every = ask(Features(*(leaf[rows] for leaf in found)))
        parts.append(every[:, one] - every[:, two])
    difference = np.concatenate(parts)[: len(found.hidden)]
    weights = np.asarray(params.weights[where], np.float64)
    apart = (weights[one] - weights[two]) ** 2
    q = np.asarray(found.hidden, np.float64)
    return utilities.above(difference, 2.0 + (q * (1.0 - q)) @ apart)


def similar_items(params: Params, schema: Schema, name: str, item: Any, top: int) -> dict[str, np.ndarray]:
    """The items most like one, and how much."""
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise ThurboError(f"top={top!r} is not a number of items; give a whole number of at least 1")
    own = int(places(schema, name, [item])[0])
    value = utilities.similar(params, schema.slices[name], own)
    order = [place for place in np.argsort(-value, kind="stable").tolist() if place != own][: int(top)]
    labels = np.asarray(schema[name].labels, object)
    return {"item": _plain_array(labels[order]), "similarity": value[order]}
