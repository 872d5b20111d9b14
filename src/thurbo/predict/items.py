"""§7, §8 Queries about items, by name (`rank`, `prefers`, `similar_items`) and by their attributes.

The utility of an item is the mean of its x given the row, minus the item's first cut if scores are levels, in units of
the noise. Items that are in no list of the training table stay at the mean of all items. What a row itself says of an
item is kept. The parameters of a profile f of attributes are B f, so any profile of known levels has utilities, fitted
or not: part-worths, importances and shares of choice are given what each row says, and averaged over a group of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.special import ndtri

from thurbo._typing import Array, Factors, Float, Hidden
from thurbo.errors import SchemaError, SchemaWarning, check_whole
from thurbo.latent.constraints import Gauge
from thurbo.latent.evidence import Buckets, Evidence
from thurbo.latent.inference.posterior import Belief, expectation, summary
from thurbo.latent.rbm import Params, Presence, listed_chances
from thurbo.predict import moments
from thurbo.predict.answers import given_items, named_items, refuse_text, sites_of, stated_utilities
from thurbo.predict.member import MemberQuery, normalised
from thurbo.predict.model import Model, Query
from thurbo.predict.moments import Features, How
from thurbo.table.columns.cells import Block, Entries
from thurbo.table.columns.forms import Lines
from thurbo.table.columns.listed import Design, as_pairs
from thurbo.table.columns.values import listing, plain, show, suggestion
from thurbo.table.io import frames
from thurbo.table.io.frames import as_table
from thurbo.table.schema.schema import Schema

ROWS_AT_ONCE = 512
LEVEL = 0.95  # of intervals of means
PART_WORTHS = ("group", "attribute", "level", "part_worth", "low", "high", "spread", "importance")


Ranked = tuple[np.ndarray, ...]  # for each row and rank: row number, position of the item, utility, and rank from 1


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


def _portions(n_rows: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Start, end and row numbers of portions of equal shape; the last is padded with the last row."""
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        rows = np.minimum(np.arange(begin, begin + ROWS_AT_ONCE), n_rows - 1)
        yield begin, min(begin + ROWS_AT_ONCE, n_rows), rows


_top = jax.jit(jax.lax.top_k, static_argnums=1)


def best(ask: Ask, n_rows: int, top: int, allowed: np.ndarray, seen: Entries | None) -> Ranked:
    """The `top` items of every row among those allowed [item], without those in `seen`."""
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
        parts.append((row + begin, place[row, order], value[row, order], order + 1))
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def of_pairs(ask: Ask, n_rows: int, row: np.ndarray, item: np.ndarray) -> Ranked:
    """Utilities of given pairs, sorted from best to worst within each row; ranks are within the row."""
    utility = np.empty(len(row))
    for begin, end, rows in _portions(n_rows):
        own = np.flatnonzero((row >= begin) & (row < end))
        if len(own):
            utility[own] = ask(rows)[row[own] - begin, item[own]]
    order = np.lexsort((-utility, row))
    row, item, utility = row[order], item[order], utility[order]
    return row, item, utility, np.arange(len(row)) - np.searchsorted(row, row) + 1


NONE_HELD = "fit a Ranking column, or a long table (from_long; on the command line --row and --item)"


def column(schema: Schema, name: Any) -> str:
    """The column with the items: the given one, or the only one there is."""
    held = [each for each, kind in schema.items() if kind.has_items]
    remedy = f"rankings are {listing(held)}" if held else NONE_HELD
    found = f"the schema has {len(held)} rankings" if held else "the schema has no ranking"
    return _only(schema, name, held, ("it has no items to rank", remedy), (found, NONE_HELD))


def column_with_attributes(schema: Schema, name: str | None) -> str:
    """The column whose items have attributes: the given one, or the only one there is."""
    held = [each for each, kind in schema.items() if kind.design is not None]
    found = f"{len(held)} columns have items with attributes" if held else "no column has items with attributes"
    lacks = ("its items have no attributes", "give attributes= to the column")
    return _only(schema, name, held, lacks, (found, "use from_choices(attributes=...), or attributes={...}"))


def _only(schema: Schema, name: Any, held: Sequence[str], lacks: tuple[str, str], unclear: tuple[str, str]) -> str:
    """The given column, or the only one of those `held`; problem and remedy if it `lacks` it, or is none of one."""
    if name is not None:
        if name not in held:
            schema[name]  # raises an error for an unknown column
            raise SchemaError(lacks[0], column=name, remedy=lacks[1])
        return str(name)
    if len(held) != 1:
        raise SchemaError(unclear[0], remedy=f"name the column: {listing(held)}" if held else unclear[1])
    return held[0]


def of_column(params: Params, schema: Schema, name: str, found: Features, query: MemberQuery | None = None) -> Ask:
    """Utilities of a column's items under one model given the features of rows; with `query`, given what they say."""
    where, cuts = schema.slices[name], np.asarray(params.gauge.cuts)
    every = (params.site_bias, params.weights, params.loadings)
    bias, weights, loadings = jax.device_put([np.asarray(leaf)[where] for leaf in every])
    items = params._replace(site_bias=bias, weights=weights, loadings=loadings, presence=None, factor_prior=None)
    zero = cuts[where, 0] if schema[name].n_cuts > 0 else np.zeros_like(cuts[where, 0])
    if query is not None:
        own, _ = given_items(query.blocks[name])
        known = stated_utilities(query, name) - zero.astype(np.float64)[own.site]

    def ask(rows: np.ndarray) -> np.ndarray:
        utility = np.array(utilities(items, found.hidden[rows], found.factors[rows], zero))
        for place, row in enumerate(() if query is None else rows):
            mine = slice(own.start[row], own.start[row + 1])
            utility[place, own.site[mine]] = known[mine]
        return utility

    return ask


def are_profiles(items: Any) -> bool:
    """Whether items are given by their attributes: {item: {attribute: value}}."""
    return isinstance(items, Mapping) and bool(items) and all(isinstance(own, Mapping) for own in items.values())


def presence_of(model: Model, name: str, items: Any) -> tuple[Presence, ...]:
    """The members of which items rows have; raises an error if the model has none, or for new items."""
    problem, remedy = "", ""
    if name not in model.presence:
        problem = 'the model does not predict which items a row has, so by="choice" is not available'
        remedy = 'fit it with tb.Ratings(presence="model"), or use by="rating"'
    elif are_profiles(items):
        problem = "items that are given by their attributes have no probability of choice"
        remedy = 'give items of the training table, or use by="rating"'
    if problem:
        raise SchemaError(problem, column=name, remedy=remedy)
    return model.presence[name]


def of_choices(members: Sequence[Presence], block: Block) -> Ask:
    """The mean over members of the probability that a row has each item, given the items that it has; 1 for these."""
    own, _ = given_items(block)
    shape = block.n_rows, len(block.sites)
    listed = sparse.csr_matrix((np.ones(len(own.site), np.float32), own.site, own.start), shape)
    totals, number = [listed @ np.asarray(each.weights) for each in members], np.diff(own.start).astype(np.float32)

    def ask(rows: np.ndarray) -> np.ndarray:
        every = zip(members, totals, strict=True)
        found = np.mean([listed_chances(each, total[rows], number[rows]) for each, total in every], axis=0)
        row, item = listed[rows].nonzero()
        found[row, item] = 1.0
        return found

    return ask


By = Literal["rating", "choice"]
VALUES: dict[By, str] = {"rating": "utility", "choice": "probability"}  # what items are ranked by


def rank(
    schema: Schema, name: str, asked: Any, ask: Ask, top: int, items: Any, exclude_seen: bool, library: str, by: By
) -> Any:
    """The long table of `TBM.rank`."""
    check_whole("top", top, 1, "a number of items")
    labels = np.asarray(schema[name].labels, object)
    rows = _plain_array(schema.row_names(asked.table))
    if isinstance(items, AskedPairs):
        row, item, utility, place = of_pairs(ask, len(rows), *items)
    else:
        allowed = np.ones(len(labels), bool)
        if items is not None:
            items = list(items)
            kept = sites_of(schema, name, [items[place] for place in _known(schema, name, items)])
            allowed = np.isin(np.arange(len(labels)), kept)
        # A comparison is no use of an item: all items can be ranked for a person who has compared them.
        hides = exclude_seen and not schema[name].has_tasks
        seen = named_items(schema[name], asked.blocks[name]) if hides else None
        row, item, utility, place = best(ask, len(rows), int(top), allowed, seen)
        none = np.flatnonzero(np.bincount(row, minlength=len(rows)) == 0)
        if len(none):
            every = "all rows have" if len(none) == len(rows) else f"{len(none)} of {len(rows)} rows have"
            problem = f'column "{name}": {every} rated or ranked all items already, and nothing is recommended to them'
            remedy = "use exclude_seen=False to rank all items"
            warnings.warn(f"{problem} (first: row {rows[none[0]]}); {remedy}", SchemaWarning, stacklevel=3)
    found = {"row": rows[row], "item": _plain_array(labels[item])}
    found |= {VALUES[by]: utility.astype(np.float64), "place": place}
    return frames.frame(library if library in {"pandas", "polars", "pyarrow"} else "dict", found)


class AskedPairs(NamedTuple):
    """Rows and items to rank, by number."""

    row: np.ndarray
    item: np.ndarray

    def are_stated(self, block: Block) -> bool:
        """Whether a row says something about an item that is asked for."""
        own, n = given_items(block)[0], len(block.sites)
        return bool(np.isin(self.row.astype(np.int64) * n + self.item, own.row * n + own.site).any())


def wanted(schema: Schema, name: str, asked: Any, items: Any) -> Any:
    """The items to rank: None for all, a list for all rows, or the pairs of a long table, by names of columns."""
    if items is None or isinstance(items, (list, tuple, set, frozenset, range)):
        return items
    refuse_text(name, items)
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
    problem = f"{len(unknown)} {are} not in the training table, and left out: {listing(map(show, unknown))}"
    warnings.warn(f'column "{name}": {problem}', SchemaWarning, stacklevel=4)
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
    (own, tier), tiers = given_items(query.blocks[name]), np.full((2, len(chance)), -1)
    for place, site in enumerate((one, two)):
        mine = own.site == site
        tiers[place, own.row[mine]] = tier[mine]
    stated = (tiers >= 0).all(axis=0) & (tiers[0] != tiers[1])
    return np.where(stated, (tiers[0] > tiers[1]).astype(chance.dtype), chance)


def n_ratings(schema: Schema, blocks: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """How many rows rate or rank each item, [item], for each column with items."""
    sizes = {name: len(schema[name].labels) for name in schema.modelled if schema[name].has_items}
    return {name: np.bincount(given_items(blocks[name])[0].site, minlength=n) for name, n in sizes.items()}


def similar_items(
    params: Params, schema: Schema, name: str, item: Any, top: int, min_ratings: int, counts: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The most similar items to one item, and their similarity; only items with enough ratings.

    The correlation between the utilities of two items is the cosine of (W √v, V), with the variance v of each hidden
    unit over the data. The common factor of all items (a row's mean) is excluded.
    """
    check_whole("min_ratings", min_ratings, 0, "a number of ratings")
    check_whole("top", top, 1, "a number of items")
    own = int(sites_of(schema, name, [item])[0])
    where, rate = schema.slices[name], np.asarray(params.hidden_mean, np.float64)
    weights = np.asarray(params.weights[where], np.float64) * np.sqrt(rate * (1.0 - rate))[None, :]
    both = np.concatenate([weights, np.asarray(params.loadings[where], np.float64)], axis=1)
    both = both - both.mean(axis=0, keepdims=True)
    length = np.linalg.norm(both, axis=1)
    value = both @ both[own] / np.maximum(length * length[own], 1e-12)
    allowed = (np.arange(len(value)) != own) & (counts is None or counts >= min_ratings)
    order = np.argsort(-value, kind="stable")
    order = order[allowed[order]][: int(top)]
    return {"item": _plain_array(np.asarray(schema[name].labels, object)[order]), "similarity": value[order]}


def coded(schema: Schema, name: str, given: Any) -> tuple[list[Any], np.ndarray]:
    """Names and features of profiles: {name: {attribute: value}}, or a list of {attribute: value}."""
    design = schema[name].design
    assert design is not None
    if not isinstance(given, Mapping):
        given = dict(enumerate(given, 1))
    pairs, known = as_pairs(given), [each.name for each in design.attributes]
    for item, attribute in ((item, attribute) for item, own in pairs for attribute, _ in own):
        if attribute not in known:
            remedy = f"{suggestion(attribute, known)}the attributes are {listing(known)}"
            raise SchemaError(f"profile {item} has the attribute {attribute}", column=name, remedy=remedy)
    return [item for item, _ in pairs], design.coded(pairs)


def _effects(params: Params, schema: Schema, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B_α, B_W and B_V of the attributes of a column's items, [feature], [feature, hidden] and [feature, factor]."""
    assert params.effects is not None
    own, first = np.asarray(params.effects, np.float64)[schema.effect_slices[name]], 1 + params.n_hidden
    return own[:, 0], own[:, 1:first], own[:, first:]


def with_profiles(params: Params, schema: Schema, name: str, features: np.ndarray) -> Params:
    """The parameters of profiles in the place of sites: B f for each."""
    own = (jnp.asarray(features @ each, jnp.float32) for each in _effects(params, schema, name))
    parts = dict(zip(("site_bias", "weights", "loadings"), own, strict=True))
    scale = np.asarray(params.gauge.scale)[schema.slices[name].start]
    gauge = Gauge(jnp.zeros((len(features), 1), jnp.float32), jnp.full(len(features), scale, jnp.float32))
    return params._replace(effects=None, presence=None, gauge=gauge, **parts)


@partial(jax.jit, static_argnames=("how",))
def _moments(params: Params, evidence: Evidence | None, profiles: Params, how: How) -> moments.Moments:
    """Mean and deviation of utilities of profiles, relative to their mean: given each row, or of an average person."""
    n_factors, dtype = params.n_factors, params.weights.dtype
    whitener = jnp.eye(n_factors, dtype=dtype)[None] if n_factors else None
    belief = Belief(params.hidden_mean[None, :], jnp.zeros((1, n_factors), dtype), None, whitener)
    return _of_profiles(belief if evidence is None else summary(params, evidence, how.n_steps), profiles)


def _of_profiles(belief: Belief, profiles: Params) -> moments.Moments:
    return belief.at(profiles, jnp.arange(profiles.site_bias.shape[0]), together=True)


@partial(jax.jit, static_argnames=("how", "function"))
def _expected(params: Params, evidence: Evidence, profiles: Params, how: How, function: moments.Function) -> Array:
    chance = lambda belief: function(*_of_profiles(belief, profiles))[0]  # noqa: E731
    return expectation(chance, params, evidence, how.method, n_steps=how.n_steps)


def chances(
    params: Params, schema: Schema, name: str, features: np.ndarray, evidence: Buckets | None, how: How
) -> np.ndarray:
    """P(profile is chosen from all of them), [row, profile]: given each row, or of an average person, one row."""
    profiles = with_profiles(params, schema, name, features)
    function = moments.gumbel_choice if getattr(schema[name], "noise", "normal") == "gumbel" else moments.largest
    if evidence is not None and how.method == "exact":
        found = evidence.by_chunks(lambda rows: _expected(params, rows, profiles, how, function))
    else:
        ask = lambda rows: _moments(params, rows, profiles, how)  # noqa: E731
        both = map(np.asarray, ask(None)) if evidence is None else evidence.by_chunks(ask)
        found = moments.at_moments(function, (), *both)[0]
    return normalised(np.asarray(found, np.float64))


def worths(params: Params, schema: Schema, name: str, evidence: Buckets | None, how: How) -> np.ndarray:
    """Part-worths of each row, [row, feature]: B_α + B_W q + B_V z, in units of the noise, per standardised feature."""
    hidden, factors = np.asarray(params.hidden_mean)[None, :], np.zeros((1, params.n_factors))
    if evidence is not None:
        hidden, _, factors = evidence.by_chunks(lambda rows: moments.features(params, rows, how))
    bias, weights, loadings = _effects(params, schema, name)
    return np.asarray(bias[None, :] + hidden @ weights.T + factors @ loadings.T)


def _places(design: Design) -> list[tuple[Any, slice]]:
    """Each attribute, and which features are its own."""
    ends = np.cumsum([len(each.features) for each in design.attributes]).tolist()
    return [(each, slice(end - len(each.features), end)) for each, end in zip(design.attributes, ends, strict=True)]


def _contrasts(design: Design) -> np.ndarray:
    """From effects of features to what is shown, [shown, feature]: levels relative to their mean, numbers per unit."""
    out = np.zeros((design.matrix.shape[1],) * 2)
    for each, own in _places(design):
        out[own, own] = np.eye(len(each.features)) - 1.0 / len(each.features) if each.levels else np.eye(1) / each.scale
    return out


def errors(
    params: Params, schema: Schema, name: str, block: Block, worth: np.ndarray, parts: Iterable[np.ndarray]
) -> list[np.ndarray]:
    """Standard errors of mean effects, [shown] for each group: (Σ_r I_r (1 + S I_r)⁻¹)⁻¹, as in a mixed model.

    I_r is the information of a row's tasks, by the logit approximation at the row's own utilities; S is the covariance
    of the effects over people in the model. Parameters are those of the leading member.
    """
    design = schema[name].design
    assert block.tasks is not None
    assert design is not None
    (_, weights, loadings), rate = _effects(params, schema, name), np.asarray(params.hidden_mean, np.float64)
    spread = (weights * rate * (1.0 - rate)) @ weights.T + loadings @ loadings.T
    size, unit = block.tasks.size, 1.0 if block.tasks.noise == "gumbel" else np.pi / np.sqrt(6.0)
    tier, row = block.tier[:, 0].reshape(-1, size), block.lists.row[::size]
    features = design.matrix[block.lists.site].reshape(len(tier), size, -1)
    utility = np.where(tier >= 0, unit * np.einsum("tsf,tf->ts", features, worth[row]), -np.inf)
    chance = np.exp(utility - utility.max(axis=1, keepdims=True, initial=-1e300))
    chance = chance / np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
    around = features - np.einsum("ts,tsf->tf", chance, features)[:, None, :]
    n_features = features.shape[2]
    own = np.zeros((block.n_rows, n_features, n_features))
    np.add.at(own, row, unit**2 * np.einsum("ts,tsf,tsg->tfg", chance, around, around))
    weight = own @ np.linalg.inv(np.eye(n_features) + spread @ own)
    to_shown, found = _contrasts(design), []
    for rows in parts:
        covariance = np.linalg.pinv(weight[rows].sum(axis=0), rcond=1e-9)
        found.append(np.sqrt(np.maximum(np.diag(to_shown @ covariance @ to_shown.T), 0.0)))
    return found


def groups(by: Any, n_rows: int) -> dict[Any, np.ndarray]:
    """Rows that are averaged together, by label; without labels, all rows."""
    if by is None:
        return {"all": np.arange(n_rows)}
    labels = np.asarray(getattr(by, "labels", by), object)
    if labels.shape != (n_rows,):
        raise SchemaError(f"by= has {labels.shape} labels and the table {n_rows} rows", remedy="give one for each row")
    found = dict.fromkeys(label for label in labels.tolist() if label is not None)
    return {label: np.flatnonzero(labels == label) for label in found}


def summarised(
    schema: Schema, name: str, worth: np.ndarray, parts: Mapping[Any, np.ndarray], errors: Sequence[np.ndarray] | None
) -> dict[str, list[Any]]:
    """The long table of `part_worths`: mean, interval of the mean, spread over rows, importance of each attribute."""
    design = schema[name].design
    assert design is not None
    worth = worth @ _contrasts(design).T
    out: dict[str, list[Any]] = {key: [] for key in PART_WORTHS}
    reach, found = float(ndtri(0.5 + 0.5 * LEVEL)), list[np.ndarray]()
    for each, places in _places(design):  # how far it can move the utility of a profile, [row]
        if each.levels:
            found.append(np.ptp(worth[:, places], axis=1))
        else:  # over the range of the training table, in the user's units
            found.append(np.abs(worth[:, places.start]) * each.scale * np.ptp(design.matrix[:, places.start]))
    ranges = np.stack(found, axis=1)
    for number, (label, rows) in enumerate(parts.items()):
        own = worth[rows]
        mean, spread = own.mean(axis=0), own.std(axis=0, ddof=1 if len(own) > 1 else 0)
        reaches = np.full_like(mean, np.nan) if errors is None else reach * errors[number]
        share = (ranges[rows] / np.maximum(ranges[rows].sum(axis=1, keepdims=True), 1e-12)).mean(axis=0)
        figures = np.stack([mean, mean - reaches, mean + reaches, spread])
        for at, (each, places) in enumerate(_places(design)):
            for place, level in enumerate(each.levels or (None,), places.start):
                values = (label, each.name, level, *figures[:, place], share[at])
                for key, value in zip(PART_WORTHS, values, strict=True):
                    out[key].append(value)
    return out
