"""§5 The training loop: batches of evidence in, parameters out.

`update` is a pure step `(key, state, batch) → (state, info)`; `epoch` scans it over shuffled batches in one compiled
program with the table on the device. The host's loop around it is in course.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from thurbo._typing import Array, Bool, Chains, Float, Hidden, Int, PerRow, PRNGKey, RowsMask
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import Ragged
from thurbo.inference import tempering
from thurbo.inference.meanfield import mean_field
from thurbo.learning import objective as objectives
from thurbo.learning.phases import Positive, negative, positive
from thurbo.learning.plan import Plan
from thurbo.learning.start import Centre, Layout, Learnable, fold, recentre
from thurbo.rbm import Params

SHIFT_DECAY = 0.1  # precision of an item's own shift over that of its weights


class TrainState(NamedTuple):
    """All that changes while training."""

    learnable: Learnable
    centre: Centre
    optimiser: Any
    chains: Chains  # persistent states of the negative phase
    posteriors: Hidden  # of every row, smoothed while training (A.2.3); of no row where nobody asked
    step: Int[Array, ""]


class Info(NamedTuple):
    """What one update saw: the objective per observed cell, mean activations, the gradient's norm, and how far the
    chains of the negative phase have parted from the data (root mean square over hidden units)."""

    objective: Float[Array, ""]
    activation: Float[Array, " hidden"]
    gradient_norm: Float[Array, ""]
    gap: Float[Array, ""]


class Fall(NamedTuple):
    """The rate is constant until step `first`, then falls in a straight line to zero at step `last`."""

    first: Float[Array, ""]
    last: Float[Array, ""]


def _optimiser(plan: Plan) -> optax.GradientTransformation:
    """Direction of a step; its length is the rate, which the state carries so that a new rate compiles nothing."""
    rule = optax.scale_by_adam() if plan.optimizer == "adam" else optax.trace(decay=0.9)

    def decayed(learnable: Any) -> Any:
        return learnable._replace(**{name: name in {"weights", "loadings"} for name in Learnable._fields})

    return optax.chain(rule, optax.add_decayed_weights(plan.weight_decay, mask=decayed))


def initial_state(learnable: Learnable, centre: Centre, chains: Chains, plan: Plan, n_rows: int = 0) -> TrainState:
    """The state before the first update."""
    kept = n_rows if plan.posterior_smoothing else 0
    posteriors = jnp.tile(centre.hidden, (kept, 1))
    optimiser = _optimiser(plan).init(learnable)
    return TrainState(learnable, centre, optimiser, chains, posteriors, jnp.zeros((), jnp.int32))


class _Batch(NamedTuple):
    """A batch of evidence with the weight of each row and the weighted number of observed cells."""

    evidence: Evidence
    weight: PerRow
    cells: Float[Array, ""]


class _Loss(NamedTuple):
    """What an update needs beside the loss: posteriors used, chains as they moved on, the figure to report."""

    hidden: Hidden
    chains: Chains
    report: Float[Array, ""]
    felt: Float[Array, " slot"]


def _count(weight: PerRow, slots: RowsMask) -> Float[Array, ""]:
    return jnp.maximum((weight * slots.sum(-1).astype(weight.dtype)).sum(), 1.0)


def _loss(
    learnable: Learnable,
    centre: Centre,
    layout: Layout,
    evidence: Evidence,
    weight: PerRow,
    chains: Chains,
    key: PRNGKey,
    plan: Plan,
) -> tuple[Float[Array, ""], _Loss]:
    """Minus the objective per cell."""
    params = fold(learnable, centre, layout)
    batch = _Batch(evidence, weight, _count(weight, evidence.observed))
    key_hide, key_contrast = jax.random.split(key)
    if plan.objective == "likelihood":
        loss, state, chains = _contrast(key_contrast, params, batch, chains, plan)
        report = (weight * objectives.reconstruction(params, evidence, state)).sum() / batch.cells
    else:
        loss, state = (
            _exact(params, batch, plan) if plan.objective == "exact" else _prediction(key_hide, params, batch, plan)
        )
        report = -loss
        if plan.likelihood_weight:
            contrast, _, chains = _contrast(key_contrast, params, batch, chains, plan)
            loss = loss + plan.likelihood_weight * contrast
    if plan.sparsity_weight:
        pull = objectives.sparsity(params, evidence, state, plan.sparsity_target)
        loss = loss - plan.sparsity_weight * (weight * pull).sum() / batch.cells
    return loss, jax.lax.stop_gradient(_Loss(state.hidden, chains, report, state.felt))


def _exact(params: Params, batch: _Batch, plan: Plan) -> tuple[Float[Array, ""], Positive]:
    """Minus log P(e), by enumeration; mean-field only says how active the hidden units are."""
    value = objectives.exact(params, batch.evidence)
    frozen = jax.lax.stop_gradient(params)
    q = mean_field(frozen, batch.evidence, plan.n_mean_field_steps, plan.damping, latent_bound=plan.latent_bound)
    return -(batch.weight * value).sum() / batch.cells, Positive(q.hidden, q.factors, None, q.felt)


def _prediction(key: PRNGKey, params: Params, batch: _Batch, plan: Plan) -> tuple[Float[Array, ""], Positive]:
    """Minus log P(hidden cells | the others), per hidden cell."""
    hidden = plan.hiding(key, batch.evidence)
    value, q = objectives.multi_prediction(params, batch.evidence, hidden, plan)
    state = Positive(jax.lax.stop_gradient(q.hidden), jax.lax.stop_gradient(q.factors), None, q.felt)
    return -(batch.weight * value).sum() / _count(batch.weight, hidden), state


def _contrast(
    key: PRNGKey, params: Params, batch: _Batch, chains: Chains, plan: Plan
) -> tuple[Float[Array, ""], Positive, Chains]:
    """A surrogate of minus log P(e) with the gradient of Eq. (8): positive phase less negative phase."""
    key_positive, key_negative = jax.random.split(key)
    frozen, evidence, weight = jax.lax.stop_gradient(params), batch.evidence, batch.weight
    state = positive(key_positive, frozen, evidence, plan)
    value = objectives.positive_part(params, evidence, state)
    start = state.hidden if plan.negative_phase == "contrastive" else chains
    moved = negative(key_negative, frozen, evidence, start, plan)
    omega = objectives.negative_part(params, evidence, _counted(moved, plan), plan)
    per_chain = weight if plan.negative_phase == "contrastive" else jnp.ones_like(omega)
    model = (per_chain * omega).sum() / jnp.maximum(per_chain.sum(), 1e-12) * weight.sum()
    chains = chains if plan.negative_phase == "contrastive" else moved
    return (model - (weight * value).sum()) / batch.cells, state, chains


def _counted(chains: Chains, plan: Plan) -> Float[Array, "counted hidden"]:
    """The chains whose statistics are the model's own."""
    return tempering.cold(chains, plan.n_temperatures) if plan.negative_phase == "tempered" else chains


def update(
    key: PRNGKey,
    state: TrainState,
    evidence: Evidence,
    weight: PerRow,
    layout: Layout,
    rate: Float[Array, ""],
    slowing: Float[Array, ""],
    plan: Plan,
    places: Int[Array, " row"] | None = None,
) -> tuple[TrainState, Info]:
    """One stochastic gradient step on a batch; `slowing` falls to zero at the end of training, as the rate does.

    `places` are those of the batch's rows in the whole table, beyond it for rows that only fill the batch up.
    """
    grad, seen = jax.grad(_loss, has_aux=True)(
        state.learnable, state.centre, layout, evidence, weight, state.chains, key, plan
    )
    if layout.listed is not None:
        assert layout.item_decay is not None
        grad = _towards_others(grad, state.learnable, layout.listed, layout.item_decay)
    grad = _held_fixed(grad, layout, plan)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes counts and floats
        direction, optimiser = _optimiser(plan).update(grad, state.optimiser, state.learnable)
    learnable = jax.tree.map(lambda p, d: p - rate * d, state.learnable, direction)
    if plan.max_norm is not None:
        norm = jnp.sqrt((learnable.weights**2).sum(axis=0, keepdims=True))
        learnable = learnable._replace(
            weights=learnable.weights * jnp.minimum(1.0, plan.max_norm / jnp.maximum(norm, 1e-12))
        )
    activation = (weight @ seen.hidden) / jnp.maximum(weight.sum(), 1e-12)
    follow = slowing * plan.centring_rate
    # Where slots are not sites: E[x] is a where E[h] is c, so the centred bias is its own centre.
    site = seen.felt if layout.listed is None else learnable.site_bias * (1.0 - layout.listed)
    rate_of_site = follow if layout.listed is None else 1.0
    centre = Centre(
        state.centre.hidden + follow * (activation - state.centre.hidden),
        state.centre.site + rate_of_site * (site - state.centre.site),
    )
    learnable = recentre(learnable, state.centre, centre)
    gap = jnp.zeros((), weight.dtype)
    if plan.keeps_chains:
        gap = jnp.sqrt(((activation - _counted(seen.chains, plan).mean(axis=0)) ** 2).mean())
    posteriors = state.posteriors
    if plan.posterior_smoothing and places is not None:  # A.2.3
        old = jnp.take(posteriors, places, axis=0, mode="clip")
        posteriors = posteriors.at[places].set(
            old + (1.0 - plan.posterior_smoothing) * (seen.hidden - old), mode="drop"
        )
    info = Info(seen.report, activation, optax.tree_utils.tree_norm(grad), gap)
    return TrainState(learnable, centre, optimiser, seen.chains, posteriors, state.step + 1), info


def _towards_others(
    grad: Learnable, learnable: Learnable, listed: Float[Array, " site"], decay: Float[Array, ""]
) -> Learnable:
    """The slope of a normal prior on the items of a list around the mean of all of them (of presence, around nothing).

    What all items share (how generous a row is) costs nothing, and an item that few rows list stays near the mean. As
    part of the gradient it is weighed against what the rows say of an item; decay of Adam's steps is not.
    """
    mask, n = listed[:, None], jnp.maximum(listed.sum(), 1.0)

    def pull(values: Float[Array, "site unit"]) -> Float[Array, "site unit"]:
        return decay * mask * (values - (mask * values).sum(axis=0, keepdims=True) / n)

    return grad._replace(
        weights=grad.weights + pull(learnable.weights),
        loadings=grad.loadings + pull(learnable.loadings),
        presence=grad.presence + decay * learnable.presence,
        first_cut=grad.first_cut + SHIFT_DECAY * pull(learnable.first_cut[:, None])[:, 0],
        site_bias=grad.site_bias + SHIFT_DECAY * pull(learnable.site_bias[:, None])[:, 0],
    )


def _held_fixed(grad: Learnable, layout: Layout, plan: Plan) -> Learnable:
    """A level site's bias and cuts say the same thing: move only one of them. Only a measured site has a scale."""
    dtype = grad.site_bias.dtype
    level, measured = (layout.n_cuts > 0).astype(dtype), layout.measured.astype(dtype)
    move_cuts = level * float(plan.learn_cuts)
    if layout.active_hidden is not None and layout.active_factors is not None:
        units, factors = layout.active_hidden.astype(dtype), layout.active_factors.astype(dtype)
        grad = grad._replace(
            weights=grad.weights * units[None, :],
            hidden_bias=grad.hidden_bias * units,
            loadings=grad.loadings * factors[None, :],
        )
    return grad._replace(
        site_bias=grad.site_bias * (1.0 - move_cuts),
        first_cut=grad.first_cut * move_cuts,
        log_gaps=grad.log_gaps * move_cuts[:, None],
        log_scale=grad.log_scale * measured,
        presence=grad.presence if layout.listed is None else grad.presence * layout.listed[:, None],
    )


@partial(jax.jit, static_argnames=("plan", "batch_size"))
def epoch(
    key: PRNGKey,
    state: TrainState,
    evidence: Evidence,
    row_weight: PerRow,
    layout: Layout,
    peak_rate: Float[Array, ""],
    fall: Fall,
    plan: Plan,
    batch_size: int,
) -> tuple[TrainState, Info]:
    """One pass over all rows in random order; a last batch is filled up with rows of weight zero."""
    n_rows = evidence.n_rows
    n_batches = -(-n_rows // batch_size)
    key_order, key_step = jax.random.split(key)
    order = jnp.resize(jax.random.permutation(key_order, n_rows), (n_batches, batch_size))
    fresh = (jnp.arange(n_batches * batch_size) < n_rows).reshape(n_batches, batch_size)

    def body(state: TrainState, item: tuple) -> tuple[TrainState, Info]:
        index, real, i = item
        weight = jnp.take(row_weight, index) * real.astype(row_weight.dtype)
        left = fall.last - state.step.astype(peak_rate.dtype)
        slowing = jnp.clip(left / (fall.last - fall.first), 0.0, 1.0)
        batch, key_i = evidence.rows(index), jax.random.fold_in(key_step, i)
        places = jnp.where(real, index, n_rows)
        return update(key_i, state, batch, weight, layout, slowing * peak_rate, slowing, plan, places)

    state, info = jax.lax.scan(body, state, (order, fresh, jnp.arange(n_batches)))
    return state, jax.tree.map(lambda leaf: leaf.mean(axis=0), info)


@partial(jax.jit, static_argnames=("plan",), donate_argnames=("state",))
def batch_of_lists(
    key: PRNGKey,
    state: TrainState,
    bucket: Evidence,
    row_weight: PerRow,
    index: Int[Array, " batch"],
    real: Bool[Array, " batch"],
    places: Int[Array, " batch"],
    layout: Layout,
    peak_rate: Float[Array, ""],
    fall: Fall,
    plan: Plan,
) -> tuple[TrainState, Info]:
    """One update on some rows of a bucket; those that only fill the batch up have no weight. It uses the state up."""
    weight = jnp.take(row_weight, places) * real.astype(row_weight.dtype)
    left = fall.last - state.step.astype(peak_rate.dtype)
    slowing = jnp.clip(left / (fall.last - fall.first), 0.0, 1.0)
    kept = jnp.where(real, places, row_weight.shape[0])
    return update(key, state, bucket.rows(index), weight, layout, slowing * peak_rate, slowing, plan, kept)


def epoch_of_lists(
    key: PRNGKey,
    state: TrainState,
    ragged: Ragged,
    row_weight: PerRow,
    layout: Layout,
    peak_rate: Float[Array, ""],
    fall: Fall,
    plan: Plan,
    cells: int,
) -> tuple[TrainState, Info]:
    """One pass over all rows in batches of about so many cells, those of all widths in random order."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32))
    batches = list(ragged.batches([rng.permutation(len(place)) for place in ragged.places], cells))
    infos, state = [], jax.tree.map(jnp.copy, state)  # a copy, which the updates may write over
    for number in rng.permutation(len(batches)):
        bucket, index, real = batches[number]
        state, info = batch_of_lists(
            jax.random.fold_in(key, int(number)),
            state,
            ragged.buckets[bucket],
            row_weight,
            jnp.asarray(index, jnp.int32),
            jnp.asarray(real),
            jnp.asarray(ragged.places[bucket][index], jnp.int32),
            layout,
            peak_rate,
            fall,
            plan,
        )
        infos.append(info)
    return state, jax.tree.map(lambda *leaves: jnp.stack(leaves).mean(axis=0), *infos)
