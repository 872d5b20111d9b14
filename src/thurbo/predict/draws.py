"""§4.1, A.1.3 New rows (`sample`) and completed tables (`impute_draws`), in the user's units.

By the chain rule over the predictive distribution (chain.py), unless the joint distribution of a single member is
right: then (h, x) is drawn by enumeration or by Gibbs chains, and each column converts x to its cells. "modes" are
representative rows of the leading member, one for each basin of attraction (A.1.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.errors import SchemaError, ThurboError, check_choice, check_whole
from thurbo.latent import rbm
from thurbo.latent.evidence import Buckets
from thurbo.latent.packing import MergeLabels, pack
from thurbo.predict import answers as predicted
from thurbo.predict import chain, joint
from thurbo.predict.answers import OpenCells
from thurbo.predict.model import Model, Query, Rows
from thurbo.predict.predictive import drawn_codes
from thurbo.table.columns.cells import ARRAYS, Block, Entries
from thurbo.table.columns.forms import Lines
from thurbo.table.io import frames
from thurbo.table.io.frames import as_table
from thurbo.table.schema.routing import NOT_APPLICABLE
from thurbo.table.schema.schema import Schema

MOST_ITEMS = 200  # largest number of items of a list that are all drawn by default
SAMPLING = ("auto", "sequential", "gibbs", "modes")
COMPLETING = ("auto", "exact", "gibbs", "sequential")


class Share(NamedTuple):
    """A share of the draws: their number, their seed, and the weight of each row in the refit they come from."""

    n: int
    seed: int
    weight: np.ndarray | None


def shares(n: Any, refits: Any, n_rows: int, rng: np.random.RandomState) -> list[Share]:
    """Spread `n` draws evenly over one fitted model, or over `refits` models of bootstrapped rows."""
    check_whole("n", n, 1)
    check_whole("refits", refits, 0)
    if refits > n:
        raise ThurboError(f"refits={refits} models are more than n={n} draws; use n of at least refits")
    found = []
    for part in np.array_split(np.arange(n), max(refits, 1)):
        seed = int(rng.randint(2**31 - 1))
        # How often a row is in a sample with replacement: its weight in a fit to the resampled table.
        weight = rng.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows)).astype(np.float64) if refits else None
        found.append(Share(len(part), seed, weight))
    return found


def sample(
    model: Model, n: int, given: Mapping[str, Any], method: str, items: Any, seed: int
) -> tuple[dict[str, np.ndarray], str]:
    """Columns of new rows, and the method that was used."""
    check_choice("method", method, SAMPLING)
    nobody = as_table({" ": [None]})  # one row, without any column of the schema
    rows = model.read(nobody, given, "ignorable", "ignore")
    by_chain, schema = _by_chain(model, rows, method), model.schema
    if method == "auto":
        method = "sequential" if by_chain else "gibbs"
    if by_chain:
        found = _sample_chain(model, rows, n, items, np.random.default_rng(seed))
    else:
        found = _sample_joint(model, rows, n, method, items, seed)
    found = predicted.emptied(schema, found, list(given))
    # A list is one cell, also if the table has it in several columns.
    sources = {name: (name,) if schema[name].is_listed else schema.source_columns[name] for name in schema.modelled}
    order = [source for own in sources.values() for source in own]
    return {name: found[name] for name in order if name in found}, method


def _by_chain(model: Model, rows: Rows, method: str) -> bool:
    """Whether answers are drawn one after another."""
    spans_cells = rows.evidence.spans_cells
    if method == "sequential" and spans_cells:
        raise ThurboError('method="sequential" has no inequalities between columns; use method="gibbs"')
    return method == "sequential" or (method == "auto" and not model.is_joint and not spans_cells)


def _sample_chain(model: Model, rows: Rows, n: int, items: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of new rows, answer by answer; conditions come last: they say which values, but not which of these."""
    schema, index = model.schema, np.zeros(max(n, 1), np.int64)
    shared = [name for name in schema.modelled if not schema[name].is_listed]
    found: dict[str, np.ndarray] = {}
    if shared:
        draws = chain.Draws(model, rows, index, {name: np.ones(1, bool) for name in shared})
        draws.draw(rng, last=[name for name in shared if rows.blocks[name].answered[0]])
        found = draws.table()
    if schema.listed:
        table = as_table(found or {" ": np.full(len(index), None, object)})
        given = {name: rows.given[name] for name in schema.listed if name in rows.given}
        told = model.read(table, given, "ignorable", "ignore")
        for name in schema.listed:
            column, sites = schema[name], asked_items(schema, name, items)
            _refuse_tasks(told.blocks[name])
            row, site, values = draw_items(model, told, name, sites, rng)
            found[name] = column.list_cells(row, site, values if len(row) else np.zeros(0), len(index))
    return {name: values[:n] for name, values in found.items()}


def _refuse_tasks(block: Block) -> None:
    if block.tasks is not None and block.answered.any():
        problem = "a condition on comparisons is not supported by sample"
        raise SchemaError(problem, remedy="use predict_proba(given=...), or leave the condition out")


def asked_items(schema: Schema, name: str, items: Any) -> np.ndarray:
    """Positions of the items to draw: the given ones, or all if there are few."""
    items = predicted.items_of(name, items)
    if items is not None:
        return np.unique(predicted.sites_of(schema, name, items))
    n_items = len(schema[name].labels)
    if n_items > MOST_ITEMS:
        problem = f"the column has {n_items:,} items, too many to draw all of their scores"
        raise SchemaError(problem, column=name, remedy="name the items to draw: sample(items=[...])")
    return np.arange(n_items)


def draw_items(
    model: Model, rows: Rows, name: str, sites: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of items that the list of each row lacks, drawn one after another: rows, sites, and values of lines.

    The utilities of an order are drawn at once, by one member of each row.
    """
    column: Any = model.schema[name]
    block = rows.blocks[name]
    n_rows, query = block.n_rows, model.query(rows)
    has = np.zeros((n_rows, len(column.labels)), bool)
    has[block.lists.row, block.lists.site] = block.tasks is None
    row, place = np.nonzero(~has[:, sites])
    site = sites[place]
    if column.family == "utility":  # mean and deviation of a member that is drawn for each row
        weights = query.correction.weights.get(name, query.weights)
        member = rng.choice(len(weights), size=query.evidence.n_rows, p=weights / weights.sum())[row]
        moments = np.stack([each.about(name, Lines(row, site), own=False).utility()[:2] for each in query.members])
        mean, deviation = np.moveaxis(moments, 1, 0)[:, member, np.arange(len(row))]
        return row, site, np.asarray(mean + deviation * rng.standard_normal(len(row)))
    longer = with_free_items(block, row, site)
    blocks = [{**own.blocks, name: longer} for own in model.encoded(rows)]
    is_new = ~longer.observed[:, 0] if column.family == "measured" else longer.code[:, 0] < 0
    entry_row, entry_site = longer.lists.row, longer.lists.site
    turn, new = np.full(len(is_new), -1), np.flatnonzero(is_new)
    order = new[np.lexsort((rng.random(len(new)), entry_row[new]))]
    turn[order] = np.arange(len(order)) - np.searchsorted(entry_row[order], entry_row[order])
    values: np.ndarray = np.full(len(is_new), None, object)
    ask = query.about(name, Lines(entry_row[new], entry_site[new]), own=False)
    bands = ask.bands_at = column.form.draw_bands(ask)
    targets, at = column.form.outcomes(ask), np.cumsum(is_new) - 1
    for step in range(int(turn.max(initial=-1)) + 1):
        own = np.flatnonzero(turn == step)
        now = query.with_members(
            replace(old, blocks=known, evidence=model.packed(old.schema, known).on_host())
            for old, known in zip(query.members, blocks, strict=True)
        )
        now = chain.before(now, (), entries={name: turn >= step})
        ask = now.about(name, Lines(entry_row[own], entry_site[own]), own=False)
        ask.bands_at = bands
        chance = column.form.outcomes(ask)
        for each in np.unique(entry_site[own]):
            same = entry_site[own] == each
            chance[same] = chain.with_shares(chance[same], targets[at[own[same]]])
        codes = drawn_codes(chance, rng)
        values[own] = said = column.form.drawn(name, ask, codes, rng)[name]
        if column.family == "levels":
            longer.code[own, 0] = longer.code_high[own, 0] = codes
        else:
            location, scale = column.standard
            longer.lower[own, 0] = longer.upper[own, 0] = (np.asarray(said, np.float64) - location) / scale
            longer.point[own, 0] = True
    return entry_row[new], entry_site[new], np.asarray(values[new].tolist())


def with_free_items(block: Block, row: np.ndarray, site: np.ndarray) -> Block:
    """A list with more items without scores, which are to be drawn: (row, site) pairs."""
    rows, sites = np.concatenate([block.lists.row, row]), np.concatenate([block.lists.site, site]).astype(np.int32)
    order = np.argsort(rows, kind="stable")
    n_old, n_new = len(block.lists.site), len(row)
    nothing = {"lower": -np.inf, "upper": np.inf, "code": -1, "code_high": -1, "tier": -1}
    parts: dict[str, Any] = {}
    for each, own in ((each, getattr(block, each)) for each in ARRAYS):
        more = np.full((n_new, *own.shape[1:]), nothing.get(each, 0), own.dtype)
        parts[each] = np.concatenate([own[:n_old], more])[order]
    start = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=block.n_rows))])
    return replace(block, **parts, entries=Entries(start, sites[order]))


def _sample_joint(model: Model, rows: Rows, n_rows: int, method: str, items: Any, seed: int) -> dict[str, np.ndarray]:
    """Columns of new rows by the joint distribution of the leading member."""
    key, params, schema = jax.random.key(seed % 2**31), model.params, model.schema
    given = _one_row(model, rows, items) if rows.given or schema.listed else None
    own = None if given is None else given.on_host().buckets[0]
    if method == "modes":
        x = joint.draw_modes(key, params, own, n_rows)
    else:
        x = joint.draw(key, params, n_rows, schema) if own is None else joint.draw_given(key, params, own, n_rows)
    found = predicted.from_latent(schema, params, x, np.arange(schema.n_sites) if given is None else given.shared)
    if given is None or own is None or own.sites is None:
        return found
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    for each in given.lists:
        name = schema.site_columns[each.first_site]
        column, where = schema[name], schema.slices[name]
        slots = given.entry_slots(each.first_site)
        sites = np.tile(np.asarray(own.sites)[0, slots] - each.first_site, n_rows)
        lines, values = np.repeat(np.arange(n_rows), len(slots)), x[:, slots].reshape(-1)
        said = column.form.from_latent(values, sites, cuts[where], scale[where])
        found[name] = column.list_cells(lines, sites, said, n_rows)
    return found


def _one_row(model: Model, rows: Rows, items: Any) -> Buckets:
    """The evidence of one row that says nothing but conditions, with the items to draw in its lists."""
    if not model.schema.listed:
        return rows.evidence.replaced(lambda one: one._replace(present=None))
    blocks = dict(rows.blocks)
    for name in model.schema.listed:
        block, sites = blocks[name], asked_items(model.schema, name, items)
        if block.tasks is not None:  # one order of all items, in place of tasks with noise of their own
            _refuse_tasks(block)
            entries = Entries(np.asarray([0, len(sites)]), np.asarray(sites, np.int32))
            blocks[name] = Block(block.sites, tier=np.full((len(sites), 1), -1, np.int32), entries=entries)
        else:
            new = np.setdiff1d(sites, block.lists.site)
            blocks[name] = with_free_items(block, np.zeros(len(new), np.int64), new)
    cuts = np.asarray(model.params.gauge.cuts, np.float64)
    reading = MergeLabels(model.schema.names, model.schema.site_names, [0], cuts)
    return pack(blocks.values(), "exclude", reading=reading, free_lists=True)


class _Filling(NamedTuple):
    """What is to be filled in: the gaps of a table, and items of its lists."""

    given: Rows
    gaps: OpenCells
    kinds: frozenset[str]  # of missing answers
    items: Any
    lists: list[str]  # columns whose items are given
    orders: list[str]  # orders that are kept as a table and whose items are given

    @property
    def rows(self) -> np.ndarray:
        """Whether a row has any gap, [row]."""
        none = np.zeros(self.given.table.n_rows, bool)
        return np.any([none, *(gap for gone in self.gaps.values() for gap in gone.values())], axis=0)

    def filled(self, cells: dict[str, np.ndarray], lists: Mapping[str, np.ndarray]) -> Any:
        """The table with lists, and drawn cells, by its columns, in the gaps that are left once gates are drawn."""
        where = predicted.settle(self.given, self.gaps, self.kinds, cells, {})
        return frames.replace_cells(self.given.table, {source: cells[source] for source in where}, where, lists)


def complete(
    model: Model, rows: Rows, share: Share, method: str, items_wanted: Any = None, kinds: frozenset[str] = frozenset()
) -> list[Any]:
    """`share.n` copies of the table, each with its gaps filled by one joint draw of every row."""
    check_choice("method", method, COMPLETING)
    schema = model.schema
    lists = [name for name in schema.listed if predicted.items_of(name, items_wanted) is not None]
    orders = predicted.orders_as_tables(schema, items_wanted)
    wanted = _Filling(rows, predicted.gaps(rows, kinds), kinds, items_wanted, lists, orders)
    by_chain = _by_chain(model, rows, method)
    if method == "sequential" and orders:
        raise _by_gibbs("items are added to an order by Gibbs sampling", column=orders[0])
    if by_chain and not orders:
        return _complete_chain(model, rows, share, wanted)
    return _complete_joint(model, rows, share, method, wanted)


def _by_gibbs(problem: str, **where: Any) -> SchemaError:
    return SchemaError(problem, **where, remedy='use method="gibbs"')


def _complete_chain(model: Model, rows: Rows, share: Share, wanted: _Filling) -> list[Any]:
    """Gaps filled answer by answer; all draws of all rows together."""
    rng, some, cells = np.random.default_rng(share.seed), np.flatnonzero(wanted.rows), dict[str, np.ndarray]()
    if len(some):
        missing = {name: np.any(list(gone.values()), axis=0) for name, gone in wanted.gaps.items()}
        # All draws of a row are in one order of answers, so that shares are those of its prediction.
        draws = chain.Draws(model, rows, np.tile(some, share.n), missing, routed=NOT_APPLICABLE not in wanted.kinds)
        draws.draw(rng)
        cells = draws.table()
    place, completed, query = np.cumsum(wanted.rows) - 1, [], model.query(rows) if wanted.lists else None
    for number in range(share.n):
        lists = {}
        for name in wanted.lists:
            assert query is not None
            sites = predicted.sites_of(model.schema, name, predicted.items_of(name, wanted.items))
            row, site, values = draw_items(model, rows, name, sites, rng)
            lists[name] = predicted.longer_list(query, rows.table, name, row, site, values)
        drawn = {source: own.reshape(share.n, -1)[number][place] for source, own in cells.items()}
        completed.append(wanted.filled(drawn, lists))
    return completed


def _complete_joint(model: Model, rows: Rows, share: Share, method: str, wanted: _Filling) -> list[Any]:
    """Gaps filled by draws of (h, x) of the leading member."""
    params, schema, table, shared = model.params, model.schema, rows.table, rows.evidence.shared
    exact, problem, query = params.n_factors == 0 and joint.is_exact(params), None, model.query(rows)
    if method == "exact" and not exact:
        sizes = f"{params.n_hidden} hidden units and {params.n_factors} factors"
        raise ThurboError(f'{sizes} are too many for exact draws; use method="gibbs"')
    exact = exact and method != "gibbs"  # by enumeration, not by chains
    if wanted.orders:
        problem = _by_gibbs("items are added to an order by Gibbs sampling", column=wanted.orders[0])
    elif exact and (confined := _confined(query, wanted.gaps)):
        at = {"row": table.rows[confined[0]], "column": confined[1]}
        problem = _by_gibbs("an inequality constrains this missing answer", **at)
    if problem is not None and method == "exact":
        raise problem
    has_gaps = wanted.rows | bool(wanted.lists or wanted.orders)
    if not has_gaps.any():
        return [frames.replace_cells(table, {}) for _ in range(share.n)]
    rng, tiled = np.random.default_rng(share.seed), np.tile(np.flatnonzero(has_gaps), share.n)
    given, key = rows.evidence.on_host().rows(tiled), jax.random.key(share.seed)
    drawn = joint.latent_given_rows(key, params, given, exact and problem is None)
    if params.gauge.context is not None:  # missing rankings that are choices one after another are drawn as such
        mean = rbm.latent_mean(params, jnp.asarray(drawn.h, params.weights.dtype))
        by_site = np.where(shared[None, :] >= 0, drawn.x[:, np.maximum(shared, 0)], 0.0)
        fresh = joint.with_choices(rng, params, schema, by_site, np.asarray(mean, np.float64))
        drawn = drawn._replace(x=drawn.x.copy())
        drawn.x[:, shared[shared >= 0]] = fresh[:, shared >= 0]
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    place, completed = np.cumsum(has_gaps) - 1, []
    for number in range(share.n):
        x, h, z = (leaf.reshape(share.n, has_gaps.sum(), -1)[number] for leaf in drawn)
        cells = predicted.from_latent(schema, params, x, shared)
        lists = predicted.in_orders(query, table, wanted.items, x)
        for name in wanted.lists:
            lines, where = predicted.lines_of(query, name, wanted.items), schema.slices[name]
            assert lines is not None
            new = np.flatnonzero(query.about(name, lines).entry < 0)
            row, site = lines.row[new], lines.site[new]
            utility = joint.draw_items(params, h[row], z[row], where.start + site, rng)
            values = schema[name].form.from_latent(utility, site.astype(np.int32), cuts[where], scale[where])
            lists[name] = predicted.longer_list(query, table, name, row, site, values)
        completed.append(wanted.filled({source: own[place] for source, own in cells.items()}, lists))
    return completed


def _confined(query: Query, open_cells: OpenCells) -> tuple[int, str] | None:
    """Row and column of a missing answer that is constrained otherwise, such as by an inequality between columns."""
    for name, gone in open_cells.items():
        both = query.is_known(name) & np.any(list(gone.values()), axis=0)
        if both.any():
            return int(both.argmax()), name
    return None
