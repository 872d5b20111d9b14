"""§4.1, A.1.3 New rows (`sample`) and completed tables (`impute_draws`), in the user's units.

By the chain rule over the predictive distribution (chain.py), unless the joint distribution of a single member is
right: then (h, x) is drawn by enumeration or by Gibbs chains, and each column converts x to its cells. "modes" are
representative rows of the leading member, one for each basin of attraction (A.1.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.errors import SchemaError, ThurboError, check_choice
from thurbo.latent import rbm
from thurbo.latent.evidence import Buckets
from thurbo.latent.packing import MergeLabels, pack
from thurbo.latent.rbm import Params
from thurbo.predict import answers as predicted
from thurbo.predict import chain, joint
from thurbo.predict.answers import OpenCells
from thurbo.predict.joint import Drawn
from thurbo.predict.model import Model, Query, Rows
from thurbo.predict.predictive import drawn_codes
from thurbo.table.columns.cells import ARRAYS, Block, Entries
from thurbo.table.columns.forms import Lines
from thurbo.table.io import frames
from thurbo.table.io.frames import Table, as_table
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
    for name, value, least in (("n", n, 1), ("refits", refits, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
            raise ThurboError(f"{name}={value!r} is not a whole number of at least {least}")
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
    if method == "auto":
        method = "gibbs" if model.is_joint or rows.evidence.spans_cells else "sequential"
    if method == "sequential" and rows.evidence.spans_cells:
        raise ThurboError('method="sequential" has no inequalities between columns; use method="gibbs"')
    if method == "sequential":
        found = _sample_chain(model, rows, n, items, np.random.default_rng(seed))
    else:
        found = _sample_joint(model, rows, n, method, items, seed)
    schema = model.schema
    found = predicted.emptied(schema, found, list(given))
    # A list is one cell, also if the table has it in several columns.
    sources = {name: (name,) if schema[name].is_listed else schema.source_columns[name] for name in schema.modelled}
    order = [source for own in sources.values() for source in own]
    return {name: found[name] for name in order if name in found}, method


def _sample_chain(model: Model, rows: Rows, n: int, items: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of new rows, answer by answer; conditions come last: they say which values, but not which of these."""
    schema, index = model.schema, np.zeros(max(n, 1), np.int64)
    shared = [name for name in schema.modelled if not schema[name].is_listed]
    found: dict[str, np.ndarray] = {}
    if shared:
        draws = chain.Draws(model, rows, index, {name: np.ones(1, bool) for name in shared})
        draws.draw(rng, last=[name for name in shared if rows.blocks[name].answered[0]])
        found = draws.table()
        for name in shared:  # a question that no row was asked
            for source in schema.source_columns[name]:
                found.setdefault(source, np.full(len(index), None, object))
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
    blocks = [dict(own.blocks) for own in model.encoded(rows)]
    is_new = ~longer.observed[:, 0] if column.family == "measured" else longer.code[:, 0] < 0
    entry_row, entry_site = longer.lists.row, longer.lists.site
    turn, new = np.full(len(is_new), -1), np.flatnonzero(is_new)
    order = new[np.lexsort((rng.random(len(new)), entry_row[new]))]
    turn[order] = np.arange(len(order)) - np.searchsorted(entry_row[order], entry_row[order])
    values: np.ndarray = np.full(len(is_new), None, object)
    ask = query.about(name, Lines(entry_row[new], entry_site[new]), own=False)
    bands = ask.bands_at = column.form.draw_bands(ask)
    targets = column.form.outcomes(ask)
    at = np.full(len(is_new), -1)
    at[new] = np.arange(len(new))
    for step in range(int(turn.max(initial=-1)) + 1):
        own = np.flatnonzero(turn == step)
        members = []
        for old, known in zip(query.members, blocks, strict=True):
            known[name] = longer
            members.append(replace(old, blocks=known, evidence=model.packed(old.schema, known).on_host()))
        now = chain.before_entries(replace(query, members=tuple(members)), name, turn >= step, ())
        ask = now.about(name, Lines(entry_row[own], entry_site[own]), own=False)
        ask.bands_at = bands
        chance = column.form.outcomes(ask)
        for each in np.unique(entry_site[own]):
            same = entry_site[own] == each
            chance[same] = chain.with_shares(chance[same], targets[at[own[same]]])
        said = column.form.drawn(name, ask, drawn_codes(chance, rng), rng)[name]
        values[own] = said
        if column.family == "levels":
            codes = {label: code for code, label in enumerate(column.answer_labels)}
            longer.code[own, 0] = longer.code_high[own, 0] = [codes[each] for each in np.asarray(said).tolist()]
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
    shared = np.arange(schema.n_sites) if given is None else given.shared
    found = predicted.from_latent(schema, params, x, shared)
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    for each in () if given is None else given.lists:
        name = schema.site_columns[each.first_site]
        column, where = schema[name], schema.slices[name]
        slots = given.entry_slots(each.first_site)  # type: ignore[union-attr]
        sites = np.tile(np.asarray(own.sites)[0, slots] - each.first_site, n_rows)  # type: ignore[union-attr]
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
    """What is to be filled in: the gaps of a table, items of its lists, and kinds of missing answers."""

    gaps: OpenCells
    items: Any
    kinds: frozenset[str]
    lists: list[str]  # columns whose items are given
    orders: list[str]  # of these, orders that are kept as a table

    def settled(self, rows: Rows, cells: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The drawn cells of gaps that are left once gates are drawn, by column of the table, and where these are."""
        left = predicted.settle(rows.schema, rows.table, self.gaps, self.kinds, cells, {})
        filled = {source: gap for gone in left.values() for source, gap in gone.items()}
        return {source: cells[source] for source in filled}, filled


def complete(
    model: Model, rows: Rows, share: Share, method: str, items_wanted: Any = None, kinds: frozenset[str] = frozenset()
) -> list[Any]:
    """`share.n` copies of the table, each with its gaps filled by one joint draw of every row."""
    check_choice("method", method, COMPLETING)
    schema = model.schema
    lists = [name for name in schema.listed if predicted.items_of(name, items_wanted) is not None]
    orders = predicted.orders_as_tables(schema, items_wanted)
    gaps = predicted.gaps(schema, rows.table, rows.blocks, kinds)
    wanted = _Filling(gaps, items_wanted, kinds, lists, orders)
    by_chain = method == "sequential" or (method == "auto" and not model.is_joint and not rows.evidence.spans_cells)
    if by_chain and rows.evidence.spans_cells:
        raise ThurboError('method="sequential" has no inequalities between columns; use method="gibbs"')
    if method == "sequential" and orders:
        raise _by_gibbs("items are added to an order by Gibbs sampling", column=orders[0])
    if by_chain and not orders:
        return _complete_chain(model, rows, share, wanted)
    return _complete_joint(model, rows, share, method, wanted)


def _by_gibbs(problem: str, **where: Any) -> SchemaError:
    return SchemaError(problem, **where, remedy='use method="gibbs"')


def _complete_chain(model: Model, rows: Rows, share: Share, wanted: _Filling) -> list[Any]:
    """OpenCells filled answer by answer; all draws of all rows together."""
    schema, table, rng = model.schema, rows.table, np.random.default_rng(share.seed)
    missing = {name: np.any(list(gone.values()), axis=0) for name, gone in wanted.gaps.items()}
    some = np.flatnonzero(np.any(list(missing.values()), axis=0)) if missing else np.zeros(0, np.int64)
    cells: dict[str, np.ndarray] = {}
    if len(some):
        # All draws of a row are in one order of answers, so that shares are those of its prediction.
        draws = chain.Draws(model, rows, np.tile(some, share.n), missing, routed=NOT_APPLICABLE not in wanted.kinds)
        draws.draw(rng)
        cells = draws.table()
    place = np.zeros(table.n_rows, np.intp)
    place[some] = np.arange(len(some))
    completed, query = [], model.query(rows) if wanted.lists else None
    for number in range(share.n):
        drawn = {source: own.reshape(share.n, -1)[number][place] for source, own in cells.items()}
        for gone in wanted.gaps.values():  # questions that no row was asked
            for source in gone:
                drawn.setdefault(source, np.full(table.n_rows, None, object))
        drawn, filled = wanted.settled(rows, drawn)
        lists = {}
        for name in wanted.lists:
            assert query is not None
            sites = predicted.sites_of(schema, name, predicted.items_of(name, wanted.items))
            lists[name] = _longer(query, table, name, *draw_items(model, rows, name, sites, rng))
        completed.append(frames.replace_cells(table, drawn, filled, lists))
    return completed


def _longer(query: Query, table: Table, name: str, row: np.ndarray, site: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The cells of a list with items added: (row, site) pairs and their scores."""
    stated = predicted.stated_utilities(query.lead, name)
    return query.schema[name].extended(table.cells(name), row, site, values, query.blocks[name].lists, stated)


def is_exact(params: Params, method: str) -> bool:
    """Whether draws are exact: by enumeration, not by Gibbs chains."""
    possible = params.n_factors == 0 and joint.is_exact(params)
    if method == "exact" and not possible:
        sizes = f"{params.n_hidden} hidden units and {params.n_factors} factors"
        raise ThurboError(f'{sizes} are too many for exact draws; use method="gibbs"')
    return possible and method in ("auto", "exact")


def _complete_joint(model: Model, rows: Rows, share: Share, method: str, wanted: _Filling) -> list[Any]:
    """OpenCells filled by draws of (h, x) of the leading member."""
    params, schema, evidence, table = model.params, model.schema, rows.evidence, rows.table
    exact, problem = is_exact(params, method), None
    if wanted.orders:
        problem = _by_gibbs("items are added to an order by Gibbs sampling", column=wanted.orders[0])
    elif exact and (confined := _confined(schema, evidence, wanted.gaps)):
        where = {"row": table.rows[confined[0]], "column": confined[1]}
        problem = _by_gibbs("an inequality constrains this missing answer", **where)
    if problem is not None and method == "exact":
        raise problem
    exact = exact and problem is None
    every = [gap for gone in wanted.gaps.values() for gap in gone.values()]
    own = np.flatnonzero(np.any(every, axis=0)) if every else np.zeros(0, np.int64)
    own = np.arange(table.n_rows) if wanted.lists or wanted.orders else own
    if not len(own):
        return [frames.replace_cells(table, {}) for _ in range(share.n)]
    rng, tiled, query = np.random.default_rng(share.seed), np.tile(own, share.n), model.query(rows)
    drawn = joint.latent_given_rows(jax.random.key(share.seed), params, evidence.on_host().rows(tiled), exact)
    if params.gauge.context is not None:  # missing rankings that are choices one after another are drawn as such
        mean, shared = rbm.latent_mean(params, jnp.asarray(drawn.h, params.weights.dtype)), evidence.shared
        by_site = np.where(shared[None, :] >= 0, drawn.x[:, np.maximum(shared, 0)], 0.0)
        fresh = joint.with_choices(rng, params, schema, by_site, np.asarray(mean, np.float64))
        drawn = drawn._replace(x=drawn.x.copy())
        drawn.x[:, shared[shared >= 0]] = fresh[:, shared >= 0]
    completed = []
    for number in range(share.n):
        each = Drawn(*(leaf.reshape(share.n, len(own), -1)[number] for leaf in drawn))
        completed.append(_completed(params, query, rows, own, each, wanted, rng))
    return completed


def _completed(
    params: Params, query: Query, rows: Rows, own: np.ndarray, drawn: Drawn, wanted: _Filling, rng: np.random.Generator
) -> Any:
    """The table with one draw of latent variables in the gaps of some rows."""
    schema, table = query.schema, rows.table
    place = np.zeros(table.n_rows, np.intp)  # index of each row among those with gaps
    place[own] = np.arange(len(own))
    cells = predicted.from_latent(schema, params, drawn.x, query.evidence.shared)
    cells, filled = wanted.settled(
        rows, {source: cells[source][place] for gone in wanted.gaps.values() for source in gone}
    )
    lists = predicted.in_orders(query, table, wanted.items, drawn.x)
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    for name in wanted.lists:
        column, lines, where = schema[name], predicted.lines_of(query, name, wanted.items), schema.slices[name]
        assert lines is not None
        new = np.flatnonzero(query.about(name, lines).entry < 0)
        row, site = lines.row[new], lines.site[new]
        x = joint.draw_items(params, drawn.h[row], drawn.z[row], where.start + site, rng)
        values = column.form.from_latent(x, site.astype(np.int32), cuts[where], scale[where])
        lists[name] = _longer(query, table, name, row, site, values)
    return frames.replace_cells(table, cells, filled, lists)


def _confined(schema: Schema, evidence: Buckets, open_cells: OpenCells) -> tuple[int, str] | None:
    """Row and column of a missing answer that is constrained otherwise, such as by an inequality between columns."""
    if not open_cells:
        return None
    first = int((evidence.shared >= 0).sum())
    observed = evidence.by_chunks(lambda rows: np.asarray(_observed(rows))[:, :first])
    for name, gone in open_cells.items():
        both = observed[:, evidence.shared[schema.slices[name]]].any(axis=1) & np.any(list(gone.values()), axis=0)
        if both.any():
            return int(both.argmax()), name
    return None


_observed = jax.jit(lambda evidence: evidence.observed)
