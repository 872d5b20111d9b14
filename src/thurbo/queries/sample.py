"""A.1.3 New rows from the model, by one of three methods; each column converts latent values x to its cells.

"gibbs": h from P(h), then x given h: exact if there are few hidden units; otherwise, or given evidence, one long Gibbs
chain for each row. "sequential": cells one after another, for models that were trained by prediction (sequential.py).
"modes": representative rows, one for each basin of attraction, from the tempered sampler (inference/modes.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo import rbm
from thurbo._typing import Hidden, PRNGKey, Rows
from thurbo.columns.block import Block, Entries
from thurbo.constraints import Context
from thurbo.constraints.repeated_choice import draw_orders
from thurbo.errors import SchemaError
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import Buckets
from thurbo.inference import gibbs, modes
from thurbo.inference.likelihood import hidden_states
from thurbo.io.table import as_table
from thurbo.queries import not_asked, predict, sequential
from thurbo.queries.features import How
from thurbo.queries.kept_shares import Offsets
from thurbo.rbm import Params
from thurbo.schema import Schema

EXACT_HIDDEN = 12
SMALLEST_DRAW = 64
MOST_ITEMS = 200  # largest number of items of a list that are all drawn by default


class Condition(NamedTuple):
    """Conditions on new rows: one row that says nothing else."""

    blocks: Mapping[str, Block]
    evidence: Buckets


def draw(key: PRNGKey, params: Params, n_rows: int, schema: Schema | None = None) -> np.ndarray:
    """x ~ P(x), [row, site]; drawn in powers of two, so that other numbers of rows rarely recompile.

    Rankings of the schema that are choices one after another are drawn as such.
    """
    x, mean = (np.asarray(each, np.float64)[:n_rows] for each in latent(key, params, _bucket(n_rows)))
    if schema is None or params.gauge.context is None:
        return x
    seed = np.asarray(jax.random.key_data(jax.random.fold_in(key, 1))).astype(np.uint32)
    return with_choices(np.random.default_rng(seed), params, schema, x, mean)


def with_choices(
    rng: np.random.Generator, params: Params, schema: Schema, x: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """x with the sites of rankings with context replaced by utilities that decode to rankings drawn choice by choice.

    `mean` is that of x given the hidden layer of each row, both [row, site].
    """
    x, context = x.copy(), params.gauge.context
    for name in schema.with_sites:
        where = schema.slices[name]
        if context is not None and schema[name].has_context:
            own = Context(*(np.asarray(each)[where] for each in context))  # type: ignore[arg-type]
            x[:, where] = draw_orders(rng, mean[:, where], own)
    return x


def draw_given(key: PRNGKey, params: Params, evidence: Evidence, n_rows: int) -> np.ndarray:
    """x ~ P(x | e) for the evidence of one row, several draws: [row, slot]."""
    many = evidence.rows(np.zeros(_bucket(n_rows), np.int32))
    return np.asarray(_latent_given(key, params, many), np.float64)[:n_rows]


def draw_modes(key: PRNGKey, params: Params, evidence: Evidence | None, n_rows: int) -> np.ndarray:
    """Representative x, A.1.3, given the evidence of one row if there is any: [row, slot]."""
    bucket = _bucket(n_rows)
    many = None if evidence is None else evidence.rows(np.zeros(bucket, np.int32))
    return np.asarray(_seek(key, params, bucket, many)[0], np.float64)[:n_rows]


def _bucket(n_rows: int) -> int:
    return max(SMALLEST_DRAW, 1 << max(n_rows - 1, 0).bit_length())


def asked_items(schema: Schema, name: str, items: Any) -> np.ndarray:
    """Positions of the items to draw: the given ones, or all if there are few."""
    items = predict.items_of(name, items)
    if items is not None:
        return np.unique(predict.sites_of(schema, name, items))
    n_items = len(schema[name].labels)
    if n_items > MOST_ITEMS:
        problem = f"the column has {n_items:,} items, too many to draw all of their scores"
        raise SchemaError(problem, column=name, remedy="name the items to draw: sample(items=[...])")
    return np.arange(n_items)


def with_free_items(block: Block, sites: np.ndarray) -> Block:
    """The list of one row with more items without scores, which are to be drawn."""
    assert block.entries is not None
    if block.tasks is not None:  # one order of all items, in place of tasks with noise of their own
        if block.answered.any():
            problem = "a condition on comparisons is not supported by sample"
            raise SchemaError(problem, remedy="use predict_proba(given=...), or leave the condition out")
        entries = Entries(np.asarray([0, len(sites)]), np.asarray(sites, np.int32))
        return Block.orders(np.full((len(sites), 1), -1, np.int32), None, block.sites, entries=entries)
    new = np.setdiff1d(sites, block.entries.site)
    n_old, n = len(block.entries.site), len(new)
    entries = Entries(np.asarray([0, n_old + n]), np.concatenate([block.entries.site, new]).astype(np.int32))

    def longer(values: np.ndarray, nothing: Any) -> np.ndarray:
        return np.concatenate([values, np.full((n, 1), nothing, values.dtype)])

    return replace(
        block,
        lower=longer(block.lower, -np.inf),
        upper=longer(block.upper, np.inf),
        point=longer(block.point, False),
        code=longer(block.code, -1),
        code_high=longer(block.code_high, -1),
        tier=longer(block.tier, -1),
        one_of=np.zeros(n_old + n, bool),
        log_jacobian=np.concatenate([block.log_jacobian, np.zeros(n)]),
        entries=entries,
    )


def sequential_table(
    key: PRNGKey,
    params: Params,
    schema: Schema,
    given: Condition | None,
    n_rows: int,
    how: How,
    offsets: Offsets | None = None,
) -> dict[str, np.ndarray]:
    """Columns of new rows, drawn cell by cell.

    Columns in `given` come first, by Gibbs sampling: a condition such as an interval does not say which of its values.
    """
    told: dict[str, np.ndarray] = {}
    if given is not None:
        x = draw_given(key, params, given.evidence.on_host().buckets[0], n_rows)
        told = predict.from_latent(schema, params, x, given.evidence.shared, _named(schema, given))
    seed = np.asarray(jax.random.key_data(key)).astype(np.uint32)
    nobody = {schema.source_columns[schema.modelled[0]][0]: np.full(n_rows, None, object)}
    blocks = schema.compile(as_table(told or nobody), missing_columns="ignore")
    out = not_asked.known(schema, told or nobody)
    missing = {name: ~blocks[name].answered & ~out.get(name, False) for name in schema.modelled}
    x = sequential.draw(np.random.default_rng(seed), params, schema, blocks, missing, how, offsets=offsets)
    found = predict.from_latent(schema, params, x, np.arange(schema.n_sites)) | told
    found = not_asked.emptied(schema, found, _named(schema, given))
    order = [source for name in schema.modelled for source in schema.source_columns[name]]
    return {name: found[name] for name in order if name in found}


def _named(schema: Schema, given: Condition | None) -> list[str]:
    """Columns that conditions speak of."""
    return [] if given is None else [name for name in schema.modelled if given.blocks[name].answered.any()]


def table(
    key: PRNGKey, params: Params, schema: Schema, condition: Condition | None, n_rows: int, method: str
) -> dict[str, np.ndarray]:
    """Columns of new rows; the evidence of one row is used for all of them."""
    given = None if condition is None else condition.evidence
    own = None if given is None else given.on_host().buckets[0]
    if method == "modes":
        x = draw_modes(key, params, own, n_rows)
    else:
        x = draw(key, params, n_rows, schema) if own is None else draw_given(key, params, own, n_rows)
    shared = np.arange(schema.n_sites) if given is None else given.shared
    found = predict.from_latent(schema, params, x, shared)
    cuts, scale = np.asarray(params.gauge.cuts, np.float64), np.asarray(params.gauge.scale, np.float64)
    for each in () if given is None else given.lists:
        name = schema.site_columns[each.first_site]
        column, where = schema[name], schema.slices[name]
        slots = given.entry_slots(each.first_site)  # type: ignore[union-attr]
        assert own is not None
        assert own.sites is not None
        sites = np.tile(np.asarray(own.sites)[0, slots] - each.first_site, n_rows)
        rows, values = np.repeat(np.arange(n_rows), len(slots)), x[:, slots].reshape(-1)
        said = column.form.from_latent(column, values, sites, cuts[where], scale[where])
        found[name] = column.list_cells(rows, sites, said, n_rows)
    found = not_asked.emptied(schema, found, _named(schema, condition))
    # A list is one cell, also if the table has it in several columns.
    sources = {name: (name,) if schema[name].is_listed else schema.source_columns[name] for name in schema.modelled}
    order = [source for own in sources.values() for source in own]
    return {name: found[name] for name in order if name in found}


_seek = jax.jit(modes.seek, static_argnames=("n_rows",))


@partial(jax.jit, static_argnames=("n_steps",))
def _latent_given(key: PRNGKey, params: Params, evidence: Evidence, n_steps: int = 500) -> Rows:
    """One chain per row, starting from the mean probabilities of the hidden units."""
    given = gibbs.clamp(params, evidence)
    rate = jax.numpy.broadcast_to(params.hidden_mean, (evidence.n_rows, params.n_hidden))
    state = gibbs.start(jax.random.fold_in(key, 0), given, rate)
    return gibbs.run(jax.random.fold_in(key, 1), state, given, n_steps).x


@partial(jax.jit, static_argnames=("n_rows", "n_steps"))
def latent(key: PRNGKey, params: Params, n_rows: int, n_steps: int = 500) -> tuple[Rows, Rows]:
    """x ~ P(x) and its mean given h and z: `n_rows` draws of all sites."""
    key_h, key_run, key_x, key_z = jax.random.split(key, 4)
    dtype = params.weights.dtype
    h = hidden(key_h, key_run, params, n_rows, n_steps)
    z = jax.random.normal(key_z, (n_rows, params.n_factors), dtype)
    mean = rbm.latent_mean(params, h) + rbm.factor_shift(params, z)
    return mean + jax.random.normal(key_x, mean.shape, dtype), mean


def hidden(key_h: PRNGKey, key_run: PRNGKey, params: Params, n_rows: int, n_steps: int) -> Hidden:
    """h ~ P(h) ∝ Ω(h), independent draws: exact for few hidden units, otherwise the last states of as many chains."""
    dtype = params.weights.dtype
    if params.n_hidden <= EXACT_HIDDEN:
        states = hidden_states(params.n_hidden, 0, dtype).h
        omega = rbm.log_omega(params, states)
        return states[jax.random.categorical(key_h, omega, shape=(n_rows,))]
    shape = (n_rows, params.n_hidden)
    h = (jax.random.uniform(key_h, shape, dtype) < params.hidden_mean[None, :]).astype(dtype)
    return gibbs.prior_run(key_run, h, params, n_steps)
