"""§7 `rank`, `prefers` and `similar_items`: queries about items by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.cells import listing, plain, show
from thurbo.errors import SchemaError, SchemaWarning, ThurboError
from thurbo.io import build
from thurbo.io.table import Table, as_table
from thurbo.queries import item_utilities as utilities
from thurbo.queries.features import Features
from thurbo.queries.given_items import given_items, named_items
from thurbo.queries.given_items import utilities as stated_utilities
from thurbo.queries.predict import sites_of
from thurbo.queries.question import Question
from thurbo.rbm import Params
from thurbo.schema import Schema

NONE_HELD = "fit a Ranking column, or a long table (from_long; on the command line --row and --item)"


def column(schema: Schema, name: Any) -> str:
    """The column with the items: the given one, or the only one there is."""
    held = [each for each, kind in schema.items() if kind.has_items]
    if name is not None:
        if name not in held:
            schema[name]  # raises an error for an unknown column
            remedy = f"rankings are {listing(held)}" if held else NONE_HELD
            raise SchemaError("it has no items to rank", column=name, remedy=remedy)
        return str(name)
    if len(held) != 1:
        found = f"the schema has {len(held)} rankings" if held else "the schema has no ranking"
        raise SchemaError(found, remedy=f"name the column: {listing(held)}" if held else NONE_HELD)
    return held[0]


def of_column(
    params: Params, schema: Schema, name: str, found: Features, question: Question | None = None
) -> utilities.Ask:
    """Utilities of a column's items under one model; with `question`, also given what a row says of the item itself."""
    has_levels, where = schema[name].n_cuts > 0, schema.slices[name]
    ask = utilities.of_items(params, found, where, has_levels)
    if question is None:
        return ask
    own = given_items(question.blocks[name])
    zero = np.asarray(params.gauge.cuts, np.float64)[where, 0] if has_levels else np.zeros(len(schema[name].labels))
    known = stated_utilities(question, name) - zero[own.item]

    def with_stated(rows: np.ndarray) -> np.ndarray:
        utility = np.array(ask(rows))
        for place, row in enumerate(rows):
            mine = slice(own.start[row], own.start[row + 1])
            utility[place, own.item[mine]] = known[mine]
        return utility

    return with_stated


def rank(
    schema: Schema,
    name: str,
    asked: Any,
    ask: utilities.Ask,
    top: int,
    items: Any,
    exclude_seen: bool,
    library: str,
) -> Any:
    """The long table of `TBM.rank`."""
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise ThurboError(f"top={top!r} is not a number of items; give a whole number of at least 1")
    labels = np.asarray(schema[name].labels, object)
    rows = _plain_array(schema.row_names(asked.table))
    if isinstance(items, AskedPairs):
        result = utilities.of_pairs(ask, len(rows), *items)
    else:
        allowed = np.ones(len(labels), bool)
        if items is not None:
            allowed[:] = False
            items = list(items)
            allowed[sites_of(schema, name, [items[place] for place in _known(schema, name, items, 4)])] = True
        # A comparison is no use of an item: all items can be ranked for a person who has compared them.
        hides = exclude_seen and not schema[name].has_tasks
        seen = named_items(schema[name], asked.blocks[name])[:2] if hides else None
        result = utilities.best(ask, len(rows), int(top), allowed, seen)
        _warn_of_empty_rows(name, rows, result.row, 4)
    return build.frame(
        library if library in {"pandas", "polars", "pyarrow"} else "dict",
        {
            "row": rows[result.row],
            "item": _plain_array(labels[result.item]),
            "utility": result.utility.astype(np.float64),
            "place": result.place,
        },
    )


def _warn_of_empty_rows(name: str, rows: np.ndarray, found: np.ndarray, stacklevel: int) -> None:
    """Warn of rows that have no item left to rank, since they have rated or ranked all of them."""
    none = np.flatnonzero(np.bincount(found, minlength=len(rows)) == 0)
    if len(none):
        every = "all rows have" if len(none) == len(rows) else f"{len(none)} of {len(rows)} rows have"
        warnings.warn(
            f'column "{name}": {every} rated or ranked all items already, and nothing is recommended to them (first: '
            f"row {rows[none[0]]}); use exclude_seen=False to rank all items",
            SchemaWarning,
            stacklevel=stacklevel,
        )


def _choice(name: str, items: Any) -> Any:
    """The items to rank: a list for all rows (None: every item), or a table of pairs."""
    if items is None or isinstance(items, (list, tuple, set, frozenset, range)):
        return items
    if isinstance(items, str):
        raise SchemaError(f"items={show(items)} is one text", column=name, remedy="give a list of items")
    if len(getattr(items, "shape", ())) == 1:  # an array or a series
        return np.asarray(items).tolist()
    source = as_table(items)
    return source.cells(source.names[0]).values.tolist() if len(source.names) == 1 else source


class AskedPairs(NamedTuple):
    """Rows and items to rank, by number."""

    row: np.ndarray
    item: np.ndarray

    def are_stated(self, block: Block) -> bool:
        """Whether a row says something about an item that is asked for."""
        own, n = given_items(block), int(self.item.max(initial=0)) + 1
        stated = own.row[own.item < n] * n + own.item[own.item < n]
        return bool(np.isin(self.row.astype(np.int64) * n + self.item, stated).any())


def wanted(schema: Schema, name: str, asked: Any, items: Any) -> Any:
    """The items to rank: None for all, a list for all rows, or the pairs of a long table.

    Its columns are named like the rows and the items, or are its first two.
    """
    source = _choice(name, items)
    if not isinstance(source, Table):
        return source
    rows = _plain_array(schema.row_names(asked.table))
    owner = next((each for each, kind in schema.items() if kind.role == "id"), None)
    item_name = name if name in source else next(each for each in source.names[1:] if each != owner)
    row_name = owner if owner is not None and owner in source else next(n for n in source.names if n != item_name)
    number = {plain(row): place for place, row in enumerate(rows.tolist())}
    at = []
    for line, row in enumerate(source.cells(row_name).values.tolist()):
        if plain(row) not in number:
            remedy = "use rows of the ranked table, or give a list of items for all rows"
            raise SchemaError(f"there is no row {show(row)}", row=line, column=row_name, remedy=remedy)
        at.append(number[plain(row)])
    every = source.cells(item_name).values.tolist()
    kept = _known(schema, name, every, 4)
    item = sites_of(schema, name, [every[place] for place in kept])
    return AskedPairs(np.asarray(at, np.int64)[kept], np.asarray(item, np.int64))


def _known(schema: Schema, name: str, items: Sequence[Any], stacklevel: int) -> list[int]:
    """Positions of the items that the model knows; warns of the others. If it knows none, all are kept: an error."""
    labels = set(schema[name].labels)
    unknown = {plain(item): None for item in items if plain(item) not in labels}
    kept = [place for place, item in enumerate(items) if plain(item) not in unknown]
    if not unknown or not kept:
        return list(range(len(items)))
    are = "item is" if len(unknown) == 1 else "items are"
    warnings.warn(
        f'column "{name}": {len(unknown)} {are} not in the training table, and left out: {listing(map(show, unknown))}',
        SchemaWarning,
        stacklevel=stacklevel,
    )
    return kept


def _plain_array(values: np.ndarray) -> np.ndarray:
    """Labels in the narrowest dtype that can hold them: numbers stay numbers."""
    kinds = {type(value) for value in values.tolist()}
    return values.astype(kinds.pop()) if kinds in ({int}, {float}, {bool}) else values


def prefers(
    params: Params, schema: Schema, name: str, asked: Any, found: Features, item: Any, other: Any
) -> np.ndarray:
    """P(item above other) of every row: Φ(mean difference / standard deviation), including noise and hidden layer.

    A row that ranks one of the two above the other has probability 1 or 0, unless each comparison has its own noise.
    """
    evidence = asked.evidence
    one, two = sites_of(schema, name, [item, other])
    where = schema.slices[name]
    ask = of_column(params, schema, name, found)
    difference = utilities.difference(ask, len(found.hidden), int(one), int(two))
    weights = np.asarray(params.weights[where], np.float64)
    apart = (weights[one] - weights[two]) ** 2
    q = np.asarray(found.hidden, np.float64)
    variance = 2.0 + (q * (1.0 - q)) @ apart
    if params.n_factors:
        between = params.loadings[where.start + int(one)] - params.loadings[where.start + int(two)]
        variance = variance + evidence.by_chunks(lambda rows: utilities.factor_spread(params, rows, between))
    chance = utilities.above(difference, variance)
    if schema[name].has_tasks:  # the next comparison has noise of its own
        return chance
    own = given_items(asked.blocks[name])
    tiers = np.full((2, len(chance)), -1)
    for tier, site in zip(tiers, (one, two), strict=True):
        mine = own.item == site
        tier[own.row[mine]] = own.tier[mine]
    stated = (tiers >= 0).all(axis=0) & (tiers[0] != tiers[1])
    return np.where(stated, (tiers[0] > tiers[1]).astype(chance.dtype), chance)


def n_ratings(schema: Schema, blocks: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """How many rows rate or rank each item, [item], for each column with items."""
    found = {}
    for name in schema.modelled:
        if schema[name].has_items:
            items = given_items(blocks[name]).item
            found[name] = np.bincount(items, minlength=len(schema[name].labels))
    return found


def similar_items(
    params: Params, schema: Schema, name: str, item: Any, top: int, min_ratings: int, counts: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The most similar items to one item, and their similarity; only items with enough ratings."""
    if not isinstance(min_ratings, (int, np.integer)) or min_ratings < 0:
        raise ThurboError(f"min_ratings={min_ratings!r} is not a number of ratings; give a whole number of at least 0")
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise ThurboError(f"top={top!r} is not a number of items; give a whole number of at least 1")
    own = int(sites_of(schema, name, [item])[0])
    value = utilities.similar(params, schema.slices[name], own)
    allowed = np.ones(len(value), bool) if counts is None else counts >= min_ratings
    allowed[own] = False
    order = [place for place in np.argsort(-value, kind="stable").tolist() if allowed[place]][: int(top)]
    labels = np.asarray(schema[name].labels, object)
    return {"item": _plain_array(labels[order]), "similarity": value[order]}
