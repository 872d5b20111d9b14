"""§7 Queries about items by name: `rank`, `prefers` and `similar_items`.

The utility of an item is the mean of its x given the row, minus the item's first cut if scores are levels, in units of
the noise. Items that are in no list of the training table stay at the mean of all items. What a row itself says of an
item is kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo._typing import Array, Factors, Float, Hidden
from thurbo.errors import SchemaError, SchemaWarning, ThurboError
from thurbo.latent.rbm import Params
from thurbo.predict.answers import given_items, named_items, sites_of, stated_utilities
from thurbo.predict.member import MemberQuery
from thurbo.predict.model import Query
from thurbo.predict.moments import Features
from thurbo.table.columns.cells import Block, listing, plain, show
from thurbo.table.columns.forms import Lines
from thurbo.table.io import frames
from thurbo.table.io.frames import as_table
from thurbo.table.schema.schema import Schema

ROWS_AT_ONCE = 512


class Ranked(NamedTuple):
    """One entry for each row and rank: row numbers, positions of items, utilities, and ranks from 1."""

    row: np.ndarray
    item: np.ndarray
    utility: np.ndarray
    place: np.ndarray


@jax.jit
def utilities(
    params: Params, hidden: Hidden, factors: Factors, zero: Float[Array, " site"]
) -> Float[Array, "row site"]:
    """α + W q + V z of every site, minus the origin of its scale."""
    mean = params.site_bias[None, :] + hidden @ params.weights.T
    if params.n_factors:
        mean = mean + factors @ params.loadings.T
    return mean - zero[None, :]


Ask = Callable[[np.ndarray], np.ndarray]  # row numbers → utilities [row, item]


def together(asks: Sequence[Ask], weights: np.ndarray) -> Ask:
    """Utilities averaged over the members of a model by their weights."""
    return lambda rows: np.asarray(sum(np.float32(w) * ask(rows) for w, ask in zip(weights, asks, strict=True)))


def _portions(n_rows: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Start, end and row numbers of portions of equal shape; the last is padded with the last row."""
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        rows = np.minimum(np.arange(begin, begin + ROWS_AT_ONCE), n_rows - 1)
        yield begin, min(begin + ROWS_AT_ONCE, n_rows), rows


_top = jax.jit(jax.lax.top_k, static_argnums=1)


def best(ask: Ask, n_rows: int, top: int, allowed: np.ndarray, seen: tuple[np.ndarray, np.ndarray] | None) -> Ranked:
    """The `top` items of every row among those allowed [item], without those in `seen` (start of each row, items)."""
    parts: list[Ranked] = []
    for begin, end, rows in _portions(n_rows):
        utility = ask(rows)
        utility[:, ~allowed] = -np.inf
        if seen is not None:
            start, item = seen
            length = start[begin + 1 : end + 1] - start[begin:end]
            utility[np.repeat(np.arange(end - begin), length), item[start[begin] : start[end]]] = -np.inf
        value, place = map(np.asarray, _top(utility, min(top, utility.shape[1])))
        value, place = value[: end - begin], place[: end - begin]
        row, order = np.nonzero(np.isfinite(value))
        parts.append(Ranked(row + begin, place[row, order], value[row, order], order + 1))
    return Ranked(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def of_pairs(ask: Ask, n_rows: int, row: np.ndarray, item: np.ndarray) -> Ranked:
    """Utilities of given pairs, sorted from best to worst within each row; ranks are within the row."""
    utility = np.empty(len(row))
    for begin, end, rows in _portions(n_rows):
        own = np.flatnonzero((row >= begin) & (row < end))
        if len(own):
            utility[own] = ask(rows)[row[own] - begin, item[own]]
    order = np.lexsort((-utility, row))
    row, item, utility = row[order], item[order], utility[order]
    first = np.searchsorted(row, row)
    return Ranked(row, item, utility, np.arange(len(row)) - first + 1)


# ---- rank and prefers


NONE_HELD = "fit a Ranking column, or a long table (from_long; on the command line --row and --item)"


def column(schema: Schema, name: Any) -> str:
    """The column with the items: the given one, or the only one there is."""
    held = [each for each, kind in schema.items() if kind.has_items]
    remedy = f"rankings are {listing(held)}" if held else NONE_HELD
    found = f"the schema has {len(held)} rankings" if held else "the schema has no ranking"
    return only_column(schema, name, held, ("it has no items to rank", remedy), (found, NONE_HELD))


def only_column(
    schema: Schema, name: Any, held: Sequence[str], lacks: tuple[str, str], unclear: tuple[str, str]
) -> str:
    """The given column, or the only one of those `held`.

    Problem and remedy if the given one `lacks` what they have, and where it is `unclear` which is meant (the remedy is
    for none: of several, one is to be named).
    """
    if name is not None:
        if name not in held:
            schema[name]  # raises an error for an unknown column
            raise SchemaError(lacks[0], column=name, remedy=lacks[1])
        return str(name)
    if len(held) != 1:
        raise SchemaError(unclear[0], remedy=f"name the column: {listing(held)}" if held else unclear[1])
    return held[0]


def of_column(params: Params, schema: Schema, name: str, found: Features, query: MemberQuery | None = None) -> Ask:
    """Utilities of a column's items under one model, given the features of all rows.

    With `query`, also given what a row says of the item itself.
    """
    where, has_levels = schema.slices[name], schema[name].n_cuts > 0
    every = (params.site_bias, params.weights, params.loadings, params.gauge.cuts)
    bias, weights, loadings, cuts = jax.device_put([np.asarray(leaf)[where] for leaf in every])
    items = params._replace(site_bias=bias, weights=weights, loadings=loadings, presence=None, factor_prior=None)
    zero = jax.device_put(np.asarray(cuts)[:, 0] if has_levels else np.zeros_like(bias))
    own = known = None
    if query is not None:
        own = given_items(query.blocks[name])
        known = stated_utilities(query, name) - np.asarray(zero, np.float64)[own.item]

    def ask(rows: np.ndarray) -> np.ndarray:
        utility = np.array(utilities(items, found.hidden[rows], found.factors[rows], zero))
        for place, row in enumerate(rows) if own is not None and known is not None else ():
            mine = slice(own.start[row], own.start[row + 1])
            utility[place, own.item[mine]] = known[mine]
        return utility

    return ask


def rank(
    schema: Schema, name: str, asked: Any, ask: Ask, top: int, items: Any, exclude_seen: bool, library: str
) -> Any:
    """The long table of `TBM.rank`."""
    _check_whole("top", top, "items", 1)
    labels = np.asarray(schema[name].labels, object)
    rows = _plain_array(schema.row_names(asked.table))
    if isinstance(items, AskedPairs):
        result = of_pairs(ask, len(rows), *items)
    else:
        allowed = np.ones(len(labels), bool)
        if items is not None:
            allowed[:] = False
            items = list(items)
            allowed[sites_of(schema, name, [items[place] for place in _known(schema, name, items)])] = True
        # A comparison is no use of an item: all items can be ranked for a person who has compared them.
        hides = exclude_seen and not schema[name].has_tasks
        seen = named_items(schema[name], asked.blocks[name])[:2] if hides else None
        result = best(ask, len(rows), int(top), allowed, seen)
        none = np.flatnonzero(np.bincount(result.row, minlength=len(rows)) == 0)
        if len(none):
            every = "all rows have" if len(none) == len(rows) else f"{len(none)} of {len(rows)} rows have"
            problem = f'column "{name}": {every} rated or ranked all items already, and nothing is recommended to them'
            remedy = "use exclude_seen=False to rank all items"
            warnings.warn(f"{problem} (first: row {rows[none[0]]}); {remedy}", SchemaWarning, stacklevel=3)
    found = {"row": rows[result.row], "item": _plain_array(labels[result.item])}
    found |= {"utility": result.utility.astype(np.float64), "place": result.place}
    return frames.frame(library if library in {"pandas", "polars", "pyarrow"} else "dict", found)


def _check_whole(name: str, value: Any, what: str, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or value < least:
        raise ThurboError(f"{name}={value!r} is not a number of {what}; give a whole number of at least {least}")


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
    if items is None or isinstance(items, (list, tuple, set, frozenset, range)):
        return items
    if isinstance(items, str):
        raise SchemaError(f"items={show(items)} is one text", column=name, remedy="give a list of items")
    if len(getattr(items, "shape", ())) == 1:  # an array or a series
        return np.asarray(items).tolist()
    source = as_table(items)
    if len(source.names) == 1:
        return source.cells(source.names[0]).values.tolist()
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
    kept = _known(schema, name, every)
    item = sites_of(schema, name, [every[place] for place in kept])
    return AskedPairs(np.asarray(at, np.int64)[kept], np.asarray(item, np.int64))


def _known(schema: Schema, name: str, items: Sequence[Any]) -> list[int]:
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
        stacklevel=4,
    )
    return kept


def _plain_array(values: np.ndarray) -> np.ndarray:
    """Labels in the narrowest dtype that can hold them: numbers stay numbers."""
    kinds = {type(value) for value in values.tolist()}
    return values.astype(kinds.pop()) if kinds in ({int}, {float}, {bool}) else values


def prefers(query: Query, name: str, item: Any, other: Any) -> np.ndarray:
    """P(item above other) of every row; 1 or 0 if the row itself says it, unless comparisons have their own noise."""
    schema, rows = query.schema, np.arange(query.evidence.n_rows)
    one, two = sites_of(schema, name, [item, other]).tolist()
    chance = query.about(name, Lines(rows, np.zeros_like(rows)), own=False).above(one, two)
    if schema[name].has_tasks:
        return chance
    own = given_items(query.blocks[name])
    tiers = np.full((2, len(chance)), -1)
    for tier, site in zip(tiers, (one, two), strict=True):
        mine = own.item == site
        tier[own.row[mine]] = own.tier[mine]
    stated = (tiers >= 0).all(axis=0) & (tiers[0] != tiers[1])
    return np.where(stated, (tiers[0] > tiers[1]).astype(chance.dtype), chance)


def n_ratings(schema: Schema, blocks: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """How many rows rate or rank each item, [item], for each column with items."""
    return {
        name: np.bincount(given_items(blocks[name]).item, minlength=len(schema[name].labels))
        for name in schema.modelled
        if schema[name].has_items
    }


def similar_items(
    params: Params, schema: Schema, name: str, item: Any, top: int, min_ratings: int, counts: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The most similar items to one item, and their similarity; only items with enough ratings.

    The correlation between the utilities of two items is the cosine of (W √v, V), with the variance v of each hidden
    unit over the data. The common factor of all items (a row's mean) is excluded.
    """
    _check_whole("min_ratings", min_ratings, "ratings", 0)
    _check_whole("top", top, "items", 1)
    own = int(sites_of(schema, name, [item])[0])
    where, rate = schema.slices[name], np.asarray(params.hidden_mean, np.float64)
    weights = np.asarray(params.weights[where], np.float64) * np.sqrt(rate * (1.0 - rate))[None, :]
    both = np.concatenate([weights, np.asarray(params.loadings[where], np.float64)], axis=1)
    both = both - both.mean(axis=0, keepdims=True)
    length = np.linalg.norm(both, axis=1)
    value = both @ both[own] / np.maximum(length * length[own], 1e-12)
    allowed = np.ones(len(value), bool) if counts is None else counts >= min_ratings
    allowed[own] = False
    order = [place for place in np.argsort(-value, kind="stable").tolist() if allowed[place]][: int(top)]
    labels = np.asarray(schema[name].labels, object)
    return {"item": _plain_array(labels[order]), "similarity": value[order]}
