"""§5 From evidence to a fitted model: where to start, what to hold out, how long to train, and where to pick up again.

What `TBM.fit` and `TBM.partial_fit` share, between the table and the training loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import PRNGKey
from thurbo.constraints import Levels
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import Packed, Ragged
from thurbo.learning import course, settings, sizes, trainer
from thurbo.learning import start as initialise
from thurbo.learning.checkpoint import Checkpoint, fingerprint
from thurbo.learning.plan import Plan

if TYPE_CHECKING:
    from thurbo.columns import Block
    from thurbo.schema import Schema


class Data(NamedTuple):
    """A table as a fit sees it."""

    schema: Schema
    blocks: Mapping[str, Block]
    evidence: Packed
    weight: np.ndarray
    item_decay: float = 0.0

    @property
    def n_listed(self) -> int:
        """Entries of all lists, at least one."""
        return max(1, sum(len(block.lists.site) for block in self.blocks.values() if block.lists is not None))

    @property
    def layout(self) -> initialise.Layout:
        """What kind each site is."""
        listed = self.schema.is_listed
        return initialise.Layout(
            jnp.asarray(self.schema.n_cuts),
            jnp.asarray(self.schema.is_measured),
            listed=jnp.asarray(listed, jnp.float32) if listed.any() else None,
            item_decay=jnp.asarray(self.item_decay / self.n_listed, jnp.float32) if listed.any() else None,
        )


class Outcome(NamedTuple):
    """A fit: what it left behind, how it was made, the sizes it chose among, and which rows it learned from."""

    fitted: course.Fitted
    plan: Plan
    tried: list[sizes.Tried]
    rows: np.ndarray


def start(
    key: PRNGKey, data: Data, size: tuple[int, int], n_chains: int, plan: Plan, n_rows: int = 0
) -> trainer.TrainState:
    """Small random weights around the independent model, with cuts and utilities at the answers' own frequencies.

    Hidden units are hardly felt yet, however many sites they hear: their log-odds differ by about 0.3 from row to row.
    The items of lists want a louder start. By likelihood, units begin at their target too.
    """
    key_start, key_chains = jax.random.split(key)
    schema, evidence, weight = data.schema, data.evidence, data.weight
    ordinary = [block for block in data.blocks.values() if block.sites and block.lists is None]
    n_ordinary = sum(len(block.sites) for block in ordinary)
    codes = np.full((len(weight), n_ordinary), -1, np.int8)
    if isinstance(evidence, Evidence):
        codes = next((np.asarray(c.code) for c in evidence.constraints if isinstance(c, Levels)), codes)
    elif ordinary:
        codes = np.concatenate([block.code for block in ordinary], axis=1)
    cuts = initialise.starting_cuts(codes, schema.n_cuts[:n_ordinary], weight)
    bias = np.zeros(0)
    if ordinary:
        tiers = np.concatenate([block.tier for block in ordinary], axis=1)
        bias = initialise.starting_utilities(tiers, schema.site_columns[:n_ordinary], weight)
    quiet: dict[str, Any] = {"weight_scale": float(min(0.1, 0.3 / np.sqrt(max(schema.n_sites, 1))))}
    for block in data.blocks.values():
        if block.lists is not None:
            cuts, bias = _with_items(cuts, bias, block, weight)
            quiet = {"n_presence": sum(size) if plan.presence else 0}
    if plan.objective == "likelihood":
        quiet["hidden_rate"] = plan.sparsity_target if plan.sparsity_weight else 0.5
    learnable, centre = initialise.start(
        key_start, cuts, schema.n_cuts, *size, np.dtype(np.float32), site_bias=bias, **quiet
    )
    if isinstance(evidence, Ragged) and size[1]:  # how generous a row is: a factor that all items share
        shared = learnable.loadings.at[n_ordinary:, 0].set(initialise.GENEROSITY)
        learnable = learnable._replace(loadings=shared)
    if plan.negative_phase == "tempered":
        n_chains = max(1, n_chains // plan.n_temperatures) * plan.n_temperatures
    chains = jax.random.bernoulli(key_chains, centre.hidden[None, :], (n_chains, size[0])).astype(jnp.float32)
    return trainer.initial_state(learnable, centre, chains, plan, n_rows)


def _with_items(cuts: np.ndarray, bias: np.ndarray, block: Block, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starting cuts and biases with those of a list's items after them."""
    assert block.lists is not None
    lists, n_items = block.lists, len(block.sites)
    share = np.repeat(weight, np.diff(lists.start))
    code = lists.code.astype(np.int64)
    found = initialise.starting_lists(lists.site, code, share, n_items, block.n_cuts)
    width = max(cuts.shape[1], found.cuts.shape[1])
    both = [np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=np.inf) for each in (cuts, found.cuts)]
    return np.concatenate(both), np.concatenate([bias, found.bias])


def choose_sizes(
    key: PRNGKey, chosen: Mapping[str, Any], data: Data, on_epoch: Callable[[dict[str, Any]], None]
) -> tuple[tuple[int, int], list[sizes.Tried]]:
    """Numbers of hidden units and of factors, and what was tried to find them."""
    if isinstance(data.evidence, Ragged):
        return settings.sizes_of_lists(chosen), []
    found = sizes.candidates(chosen, data.evidence.n_rows, data.schema.n_sites)
    if len(found) == 1:
        return found[0], []
    largest = max(k for k, _ in found), max(f for _, f in found)
    plan = settings.plan({**chosen, "objective": "multi-prediction", "likelihood_weight": 0.0}, *largest)
    key_start, key_search = jax.random.split(key)
    state = start(key_start, data, largest, 1, plan)
    rows = course.Rows(data.evidence, jnp.asarray(data.weight, jnp.float32))
    rate = float(chosen["learning_rate"])
    tried = sizes.search(key_search, state, rows, data.layout, plan, found, rate, on_step=on_epoch)
    begins = f"{tried[0].n_hidden} hidden units and {tried[0].n_factors} factors, compiling"
    on_epoch({"stage": "fitting", "done": 0, "of": lengths(chosen, data.evidence)[1], "figure": begins})
    return (tried[0].n_hidden, tried[0].n_factors), tried


def fit(chosen: Mapping[str, Any], data: Data, seed: int, on_epoch: Callable[[dict[str, Any]], None]) -> Outcome:
    """Train from the start, or from a checkpoint of the same fit."""
    n_rows = data.evidence.n_rows
    key_start, key_fit, key_split = jax.random.split(jax.random.key(seed), 3)
    size, tried = choose_sizes(jax.random.fold_in(key_start, 1), chosen, data, on_epoch)
    plan = settings.plan(chosen, *size)
    n_held = settings.held_out(chosen, n_rows)
    state = start(key_start, data, size, int(chosen["n_chains"]), plan, n_rows - n_held)
    batch_size, max_epochs = lengths(chosen, data.evidence)
    order = np.asarray(jax.random.permutation(key_split, n_rows))
    every = course.Rows(data.evidence, jnp.asarray(data.weight, jnp.float32))
    seen, held = (_rows(every, order[n_held:]), _rows(every, order[:n_held])) if n_held else (every, None)
    if isinstance(seen.evidence, Ragged):
        seen = seen._replace(evidence=seen.evidence.on_device())
    else:
        batch_size = min(batch_size, n_rows - n_held)
    length = course.Length(batch_size, max_epochs, float(chosen["learning_rate"]))
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
    return Outcome(fitted, plan, tried, order[n_held:] if n_held else np.arange(n_rows))


def lengths(chosen: Mapping[str, Any], evidence: Packed) -> tuple[int, int]:
    """Rows (of lists, cells) in a batch, and epochs."""
    if isinstance(evidence, Ragged):
        return settings.lengths_of_lists(chosen, evidence.n_rows, evidence.n_cells)
    return settings.lengths(chosen, evidence.n_rows)


def go_on(chosen: Mapping[str, Any], data: Data, state: trainer.TrainState, plan: Plan, seed: int) -> course.Fitted:
    """One more pass over new rows, at the full rate; smoothed posteriors are of the first rows, and stay out of it."""
    plan = replace(plan, posterior_smoothing=0.0)
    rows = course.Rows(data.evidence, jnp.asarray(data.weight, jnp.float32))
    batch_size, _ = lengths(chosen, data.evidence)
    length = course.Length(batch_size, 1, float(chosen["learning_rate"]), falls=False)
    key = jax.random.fold_in(jax.random.key(seed), state.step)
    return course.fit(key, state, rows, data.layout, plan, length)


def _rows(rows: course.Rows, index: np.ndarray) -> course.Rows:
    return course.Rows(rows.evidence.rows(index), rows.weight[index])
