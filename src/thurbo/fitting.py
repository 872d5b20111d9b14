"""§5 From evidence to a fitted model: where to start, what to hold out, how long to train, and where to pick up again.

What `TBM.fit` and `TBM.partial_fit` share, between the table and the training loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import PRNGKey
from thurbo.checkpoint import Checkpoint, fingerprint
from thurbo.columns import Block
from thurbo.constraints import Levels
from thurbo.evidence import Evidence
from thurbo.learning import course, initialise, settings, trainer
from thurbo.learning.plan import Plan
from thurbo.schema import Schema


class Data(NamedTuple):
    """A table as a fit sees it."""

    schema: Schema
    blocks: Mapping[str, Block]
    evidence: Evidence
    weight: np.ndarray

    @property
    def layout(self) -> initialise.Layout:
        """What kind each site is."""
        return initialise.Layout(jnp.asarray(self.schema.n_cuts), jnp.asarray(self.schema.is_measured))


def start(key: PRNGKey, data: Data, sizes: tuple[int, int], n_chains: int, plan: Plan) -> trainer.TrainState:
    """Small random weights around the independent model, with cuts and utilities at the answers' own frequencies."""
    key_start, key_chains = jax.random.split(key)
    schema, evidence, weight = data.schema, data.evidence, data.weight
    codes = [np.asarray(c.code) for c in evidence.constraints if isinstance(c, Levels)]
    silent = np.full((evidence.n_rows, schema.n_sites), -1, np.int8)
    cuts = initialise.starting_cuts(codes[0] if codes else silent, schema.n_cuts, weight)
    tiers = np.concatenate([block.tier for block in data.blocks.values() if block.sites], axis=1)
    bias = initialise.starting_utilities(tiers, schema.site_columns, weight)
    learnable, centre = initialise.start(key_start, cuts, schema.n_cuts, *sizes, np.dtype(np.float32), site_bias=bias)
    chains = jax.random.bernoulli(key_chains, 0.5, (n_chains, sizes[0])).astype(jnp.float32)
    return trainer.initial_state(learnable, centre, chains, plan)


def fit(
    chosen: Mapping[str, Any], data: Data, seed: int, on_epoch: Callable[[dict[str, Any]], None]
) -> tuple[course.Fitted, Plan]:
    """Train from the start, or from a checkpoint of the same fit."""
    n_rows = data.evidence.n_rows
    sizes = settings.sizes(chosen, n_rows, data.schema.n_sites)
    plan = settings.plan(chosen, *sizes)
    key_start, key_fit, key_split = jax.random.split(jax.random.key(seed), 3)
    state = start(key_start, data, sizes, int(chosen["n_chains"]), plan)
    batch_size, max_epochs = settings.lengths(chosen, n_rows)
    n_held = settings.held_out(chosen, n_rows)
    order = np.asarray(jax.random.permutation(key_split, n_rows))
    every = course.Rows(data.evidence, jnp.asarray(data.weight, jnp.float32))
    seen, held = (_rows(every, order[n_held:]), _rows(every, order[:n_held])) if n_held else (every, None)
    length = course.Length(min(batch_size, n_rows - n_held), max_epochs, float(chosen["learning_rate"]))
    checkpoint = None
    if chosen["checkpoint"] is not None:
        checkpoint = Checkpoint(chosen["checkpoint"], fingerprint(every, state, data.layout, plan, length, n_held))
    fitted = course.fit(
        key_fit,
        state,
        seen,
        data.layout,
        plan,
        length,
        held_out=held,
        on_epoch=on_epoch,
        resume=checkpoint.load(state) if checkpoint else None,
        on_run=checkpoint.save if checkpoint else None,
    )
    return fitted, plan


def go_on(chosen: Mapping[str, Any], data: Data, state: trainer.TrainState, plan: Plan, seed: int) -> course.Fitted:
    """One more pass over new rows, at the full rate."""
    rows = course.Rows(data.evidence, jnp.asarray(data.weight, jnp.float32))
    batch_size, _ = settings.lengths(chosen, data.evidence.n_rows)
    length = course.Length(batch_size, 1, float(chosen["learning_rate"]), falls=False)
    key = jax.random.fold_in(jax.random.key(seed), state.step)
    return course.fit(key, state, rows, data.layout, plan, length)


def _rows(rows: course.Rows, index: np.ndarray) -> course.Rows:
    return course.Rows(rows.evidence.rows(index), rows.weight[index])
