"""§5 The training loop: batches of evidence in, parameters out.

`update` is a pure step `(key, state, batch) → (state, info)`; `epoch` scans it over shuffled batches in one compiled
program, with the table on the device. The loop over epochs on the host is in course.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from thurbo import parallel
from thurbo._programs import Program
from thurbo._typing import Array, Bool, Chains, Float, Hidden, Int, PerRow, PRNGKey
from thurbo.fit import objective
from thurbo.fit.objective import DataPhase, RowChains
from thurbo.fit.planning import Plan
from thurbo.fit.start import Centre, Layout, Learnable, fold, recentre
from thurbo.latent.evidence import Buckets, Coded, CodedSlots, Evidence, batch_rows, widened
from thurbo.latent.inference.meanfield import mean_field
from thurbo.latent.rbm import Params

REPORTED = 10  # one row of so many is enough for what is only reported, where it would need a product of matrices
WARM_UP, SHARE_OF_WARM_UP = 200, 0.1  # first updates of the likelihood, with a rising rate; at most this share of all
SHIFT_DECAY = 0.1  # precision of an item's shift relative to that of its weights


class TrainState(NamedTuple):
    """Everything that changes during training."""

    learnable: Learnable
    centre: Centre
    optimiser: Any
    chains: Chains  # persistent states of the negative phase
    rows: RowChains  # persistent states of each row; no rows unless the likelihood is maximised
    posteriors: Hidden  # of every row, smoothed during training (A.2.3); no rows if this is off
    step: Int[Array, ""]


class Info(NamedTuple):
    """Statistics of one update: the objective per answer, mean activations given the data and of the chains without
    evidence, the norm of the gradient; for the likelihood also `TwoPhases.gap` and `flips`."""

    objective: Float[Array, ""]
    activation: Float[Array, " hidden"]
    model_activation: Float[Array, " hidden"]
    gradient_norm: Float[Array, ""]
    density_gap: Float[Array, ""]
    flips: Float[Array, ""]


class Fall(NamedTuple):
    """The rate is constant until step `first`, then decays linearly to zero at step `last`."""

    first: Float[Array, ""]
    last: Float[Array, ""]


def _optimiser(plan: Plan) -> optax.GradientTransformation:
    """Direction of a step; its length is the rate, which is in the state so that a new rate does not recompile."""
    rule = optax.scale_by_adam() if plan.optimizer == "adam" else optax.identity()

    def decayed(learnable: Any) -> Any:
        return learnable._replace(**{name: name in {"weights", "loadings", "context"} for name in Learnable._fields})

    return optax.chain(rule, optax.add_decayed_weights(plan.weight_decay, mask=decayed))


@partial(jax.jit, static_argnames=("plan", "n_rows"))
def initial_state(
    learnable: Learnable, centre: Centre, chains: Chains, plan: Plan, n_rows: int = 0, rows: RowChains | None = None
) -> TrainState:
    """The initial state."""
    if rows is None:
        none = jnp.zeros((0, centre.hidden.shape[0]), bool)
        rows = RowChains(none, jnp.zeros((0, learnable.loadings.shape[1])), jnp.zeros((0, 0)), none)
    kept = n_rows if plan.posterior_smoothing else 0
    posteriors = jnp.tile(centre.hidden, (kept, 1))
    optimiser = _optimiser(plan).init(learnable)
    return TrainState(learnable, centre, optimiser, chains, rows, posteriors, jnp.zeros((), jnp.int32))


class _Loss(NamedTuple):
    """Output of the loss: posteriors, new states of the chains, and the objective to report."""

    hidden: Hidden
    chains: Chains
    rows: RowChains
    report: Float[Array, ""]
    felt: Float[Array, " slot"]
    model_hidden: Float[Array, " hidden"]
    density_gap: Float[Array, ""]
    flips: Float[Array, ""]


def _total(weight: PerRow, number: Array) -> Float[Array, ""]:
    """The weighted sum of some numbers of the rows, at least 1."""
    return jnp.maximum((weight * number.astype(weight.dtype)).sum(), 1.0)


def _loss(
    learnable: Learnable,
    centre: Centre,
    layout: Layout,
    evidence: Evidence,
    weight: PerRow,
    chains: Chains,
    rows: RowChains,
    key: PRNGKey,
    plan: Plan,
) -> tuple[Float[Array, ""], _Loss]:
    """Minus the objective per slot, or per row for the likelihood; what is reported is per answer."""
    params = fold(learnable, centre, layout)
    cells, n_answers = _total(weight, evidence.observed.sum(-1)), _total(weight, evidence.n_answers(evidence.observed))
    key_mask, key_contrast = jax.random.split(key)
    gap = flips = jnp.zeros((), weight.dtype)
    if plan.objective == "likelihood":
        cells = jnp.maximum(weight.sum(), 1e-12)  # the rate of plain steps is per row
        value, phases = objective.two_phases(key_contrast, params, evidence, weight, chains, rows, plan)
        loss, state, chains, rows = -value / cells, phases.data, phases.chains, phases.rows
        gap, flips, model_hidden = phases.gap, phases.flips, phases.model_hidden
        # log P(e | q) is only reported, so some rows are enough: the first ones, since their order is random.
        some = slice(-(-evidence.n_rows // REPORTED))
        shown, at = evidence.rows(some), DataPhase(state.hidden[some], state.factors[some], None, state.felt)
        report = (weight[some] * objective.reconstruction(params, shown, at)).sum()
        report = report / _total(weight[some], shown.n_answers(shown.observed))
    else:
        if plan.objective == "exact":
            told = loss = -(weight * objective.exact(params, evidence)).sum() / cells
            # Mean-field only gives the activations of the hidden units.
            frozen = jax.lax.stop_gradient(params)
            q = mean_field(frozen, evidence, plan.n_mean_field_steps, plan.damping, latent_bound=plan.latent_bound)
            state = DataPhase(q.hidden, q.factors, None, q.felt)
        else:
            told, loss, state = _prediction(key_mask, params, evidence, weight, plan)
        report = -told * cells / n_answers  # a masked share of slots is that share of answers, on average
        if plan.likelihood_weight:
            value, chains = objective.share_of_likelihood(key_contrast, params, evidence, weight, chains, plan)
            loss = loss - plan.likelihood_weight * value / cells
        model_hidden = chains.mean(axis=0) if plan.keeps_chains else jnp.zeros_like(params.hidden_bias)
    if plan.sparsity_weight:
        pull = objective.sparsity(params, evidence, state, plan.sparsity_target)
        loss = loss - plan.sparsity_weight * (weight * pull).sum() / cells
    return loss, jax.lax.stop_gradient(_Loss(state.hidden, chains, rows, report, state.felt, model_hidden, gap, flips))


def _prediction(
    key: PRNGKey, params: Params, evidence: Evidence, weight: PerRow, plan: Plan
) -> tuple[Float[Array, ""], Float[Array, ""], DataPhase]:
    """Minus log P(masked cells | the others), per masked cell, without and with minus log P(cell | no other cell).

    The latter is of a quarter of the batch, whose rows are in random order.
    """
    masked = plan.masking(key, evidence)
    if plan.marginal_weight:
        value, alone, q = objective.prediction_and_marginal(params, evidence, masked, plan)
        some = objective.a_quarter(evidence.n_rows, plan)
        marginal = -(weight[some] * alone).sum() / _total(weight[some], evidence.observed[some].sum(-1))
    else:
        value, q = objective.multi_prediction(params, evidence, masked, plan)
        marginal = jnp.zeros((), weight.dtype)
    state = DataPhase(jax.lax.stop_gradient(q.hidden), jax.lax.stop_gradient(q.factors), None, q.felt)
    loss = -(weight * value).sum() / _total(weight, masked.sum(-1))
    return loss, loss + plan.marginal_weight * marginal, state


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
    rows: RowChains | None = None,
) -> tuple[TrainState, Info]:
    """One stochastic gradient step on a batch; `slowing` decays to zero at the end of training, like the rate.

    `places` are the positions of the batch's rows in the table; rows that only pad the batch have positions beyond it.
    `rows` are the chains of the batch's rows, those that pad it included: a chain fits only the evidence of its row.
    """
    evidence = evidence.map_rows(parallel.by_row, evidence.sites_shared)
    weight, own = parallel.by_row((weight, state.rows if rows is None else rows))
    chains = parallel.by_row(state.chains) if plan.uses_chains else state.chains
    grad, seen = jax.grad(_loss, has_aux=True)(
        state.learnable, state.centre, layout, evidence, weight, chains, own, key, plan
    )
    if layout.lists is not None:
        assert layout.item_decay is not None
        grad = _towards_others(grad, state.learnable, layout.lists, layout.item_decay, layout.shrinkage)
    if layout.effect_decay is not None:
        pull, factor = layout.effect_decay[:, None] * state.learnable.effects, layout.shrinkage
        pull = pull if factor is None else pull.at[:, 1:].multiply(factor)
        grad = grad._replace(effects=grad.effects + pull.at[:, 0].multiply(SHIFT_DECAY))
    grad = _held_fixed(grad, layout, plan)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes counts and floats
        direction, optimiser = _optimiser(plan).update(grad, state.optimiser, state.learnable)
    if layout.decay is not None:
        direction = direction._replace(
            weights=direction.weights + layout.decay[:, None] * state.learnable.weights,
            loadings=direction.loadings + layout.decay[:, None] * state.learnable.loadings,
        )
    learnable = jax.tree.map(lambda p, d: p - rate * d, state.learnable, direction)
    if plan.max_norm is not None:
        length = jnp.sqrt((learnable.weights**2).sum(axis=0, keepdims=True))
        shorter = jnp.minimum(1.0, plan.max_norm / jnp.maximum(length, 1e-12))
        learnable = learnable._replace(weights=learnable.weights * shorter)
    activation = (weight @ seen.hidden) / jnp.maximum(weight.sum(), 1e-12)
    follow = slowing * plan.centring_rate
    # E[x] is a where E[h] is c, so the centred bias is its own centre. Utilities are only known by comparisons: in a
    # table their centre is the running mean of the inputs of the hidden units.
    listed = layout.listed
    is_bias = listed is not None or layout.utility is None
    site = learnable.site_bias if is_bias else seen.felt
    site = site if listed is None else site * (1.0 - listed)
    rate_of_site = 1.0 if is_bias else follow
    centre = Centre(
        state.centre.hidden + follow * (activation - state.centre.hidden),
        state.centre.site + rate_of_site * (site - state.centre.site),
    )
    learnable = recentre(learnable, state.centre, centre)
    posteriors = state.posteriors
    if plan.posterior_smoothing and places is not None:  # A.2.3
        old = jnp.take(posteriors, places, axis=0, mode="clip")
        posteriors = posteriors.at[places].set(
            old + (1.0 - plan.posterior_smoothing) * (seen.hidden - old), mode="drop"
        )
    kept = seen.rows if places is None or rows is None else state.rows.put(places, seen.rows)
    # XLA sums the rows of a matrix thrice as fast by a product as by a reduction.
    squares = [(leaf * leaf).reshape(-1, leaf.shape[-1]) for leaf in jax.tree.leaves(grad) if leaf.size]
    norm = jnp.sqrt(sum((each @ jnp.ones(each.shape[-1], each.dtype)).sum() for each in squares))
    info = Info(seen.report, activation, seen.model_hidden, norm, seen.density_gap, seen.flips)
    learnable, centre, optimiser = parallel.same_everywhere((learnable, centre, optimiser))
    return TrainState(learnable, centre, optimiser, seen.chains, kept, posteriors, state.step + 1), info


def _towards_others(
    grad: Learnable,
    learnable: Learnable,
    lists: Float[Array, "list site"],
    decay: Float[Array, " site"],
    factor: Float[Array, ""] | None = None,
) -> Learnable:
    """Gradient of a normal prior on the items of each list around the mean of its items (of presence, around zero).

    What all items have in common (such as a row's mean score) is not penalised; an item in few lists stays near the
    mean. As part of the gradient it is in proportion to the data; weight decay in Adam is not. `factor` multiplies the
    precision of weights and loadings: how far rows may differ from each other.
    """
    n = jnp.maximum(lists.sum(axis=1, keepdims=True), 1.0)

    def pull(values: Float[Array, "site unit"]) -> Float[Array, "site unit"]:
        means = lists.T @ (lists @ values / n)
        return decay[:, None] * (values * lists.sum(axis=0)[:, None] - means)

    by = 1.0 if factor is None else factor
    return grad._replace(
        weights=grad.weights + by * pull(learnable.weights),
        loadings=grad.loadings + by * pull(learnable.loadings),
        presence=grad.presence + decay[:, None] * learnable.presence,
        first_cut=grad.first_cut + SHIFT_DECAY * pull(learnable.first_cut[:, None])[:, 0],
        site_bias=grad.site_bias + SHIFT_DECAY * pull(learnable.site_bias[:, None])[:, 0],
    )


def _held_fixed(grad: Learnable, layout: Layout, plan: Plan) -> Learnable:
    """Learn the bias or the cuts of a level site, which are redundant, and the scale of measured sites only."""
    dtype, listed = grad.site_bias.dtype, layout.listed
    level, measured = (layout.n_cuts > 0).astype(dtype), layout.measured.astype(dtype)
    move_cuts = level * float(plan.learn_cuts)
    if plan.objective == "likelihood":  # of a single cut, the bias has the simpler statistics
        move_cuts = move_cuts * (layout.n_cuts > 1).astype(dtype)
    if layout.active_hidden is not None and layout.active_factors is not None:
        units, factors = layout.active_hidden.astype(dtype), layout.active_factors.astype(dtype)
        grad = grad._replace(
            weights=grad.weights * units[None, :],
            hidden_bias=grad.hidden_bias * units,
            loadings=grad.loadings * factors[None, :],
            effects=grad.effects * jnp.concatenate([jnp.ones(1, dtype), units, factors])[None, :],
        )
    if layout.context is not None:
        grad = grad._replace(context=jax.tree.map(jnp.multiply, grad.context, layout.context))
    return grad._replace(
        site_bias=grad.site_bias * (1.0 - move_cuts),
        first_cut=grad.first_cut * move_cuts,
        log_gaps=grad.log_gaps * move_cuts[:, None],
        log_scale=grad.log_scale * measured,
        presence=grad.presence if listed is None else grad.presence * listed[:, None],
    )


def epoch(
    key: PRNGKey,
    state: TrainState,
    table: Buckets,
    row_weight: PerRow,
    layout: Layout,
    peak_rate: Float[Array, ""],
    fall: Fall,
    plan: Plan,
    cells: int,
    work: float = np.inf,
) -> tuple[TrainState, Info]:
    """One pass over all rows in random order, in batches of about the given number of cells.

    If all rows have one width, one compiled program scans over the batches; otherwise each batch is one call. `work` is
    the number of cells of all epochs: programs that run shortly are compiled with less effort.
    """
    how = (layout, peak_rate, fall, plan)
    if len(table.buckets) == 1:
        (bucket,), (places,) = table.buckets, table.places
        size = batch_rows(bucket, cells, len(places))
        # Rows that only fill up the table come after the others, and are not drawn.
        where = row_weight, np.resize(places, bucket.n_rows).astype(np.int32), np.int32(len(places))
        found: tuple[TrainState, Info] = _epoch_of_one.for_work(work)(key, state, bucket, *where, *how, size)
        return found
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32))
    batches = list(table.batches([rng.permutation(len(place)) for place in table.places], cells))
    infos, state = [], jax.tree.map(jnp.copy, state)  # a copy, since updates overwrite their input
    for number in rng.permutation(len(batches)):
        bucket, index, real = batches[number]
        rows = jnp.asarray(index, jnp.int32), jnp.asarray(real)
        at = jnp.asarray(table.places[bucket][index], jnp.int32)
        own_key = jax.random.fold_in(key, int(number))
        state, info = _one_batch.for_work(work)(own_key, state, table.buckets[bucket], row_weight, *rows, at, *how)
        infos.append(info)
    return state, jax.tree.map(lambda *leaves: jnp.stack(leaves).mean(axis=0), *infos)


@partial(
    Program,
    outputs=lambda key, state, *_: (state, Info(*[state.step] * len(Info._fields))),
    static_argnames=("plan", "batch_size"),
)
def _epoch_of_one(
    key: PRNGKey,
    state: TrainState,
    evidence: Evidence,
    row_weight: PerRow,
    places: Int[Array, " row"],
    n_rows: Int[Array, ""],
    layout: Layout,
    peak_rate: Float[Array, ""],
    fall: Fall,
    plan: Plan,
    batch_size: int,
) -> tuple[TrainState, Info]:
    """All rows have one width; the last batch is padded with rows of weight zero.

    Only the first `n_rows` rows are drawn; their number is no part of the program, so that tables share it.
    """
    key_order, key_step = jax.random.split(key)
    n_batches = (n_rows + batch_size - 1) // batch_size
    dice = jax.random.bits(key_order, (evidence.n_rows,), np.uint32) >> 1
    is_row = jnp.arange(evidence.n_rows, dtype=n_rows.dtype) < n_rows
    order = jnp.argsort(jnp.where(is_row, dice, np.uint32(2**32 - 1)))

    def body(number: Int[Array, ""], so_far: tuple[TrainState, Info]) -> tuple[TrainState, Info]:
        state, total = so_far
        place = number * batch_size + jnp.arange(batch_size, dtype=n_rows.dtype)
        index, key_i = jnp.take(order, place % n_rows), jax.random.fold_in(key_step, number)
        where = index, place < n_rows, jnp.take(places, index)
        state, info = _one_update(key_i, state, evidence, row_weight, *where, layout, peak_rate, fall, plan)
        return state, jax.tree.map(jnp.add, total, info)

    zero = jnp.zeros((), row_weight.dtype)
    none = jnp.zeros_like(state.centre.hidden)
    start = state, Info(zero, none, none, zero, zero, zero)
    state, total = jax.lax.fori_loop(jnp.zeros_like(n_batches), n_batches, body, start)
    return state, jax.tree.map(lambda leaf: leaf / n_batches.astype(leaf.dtype), total)


def _one_update(
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
    """One update on some rows of a bucket at the current rate; rows that only pad the batch have weight zero."""
    weight = jnp.take(row_weight, places) * real.astype(row_weight.dtype)
    rate, slowing = _rates(state, peak_rate, fall, plan)
    kept = jnp.where(real, places, row_weight.shape[0])
    rows = state.rows.at(places) if state.rows.h.shape[0] else None
    return update(key, state, bucket.rows(index), weight, layout, rate, slowing, plan, kept, rows)


def _rates(
    state: TrainState, peak_rate: Float[Array, ""], fall: Fall, plan: Plan
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The current rate, and the share of the peak rate that is left of it at the end of training."""
    left = fall.last - state.step.astype(peak_rate.dtype)
    slowing = jnp.clip(left / (fall.last - fall.first), 0.0, 1.0)
    rate = slowing * peak_rate
    if plan.objective == "likelihood":
        rising = jnp.clip(SHARE_OF_WARM_UP * fall.last, 1.0, WARM_UP)
        rate = rate * jnp.minimum(1.0, (state.step.astype(rate.dtype) + 1.0) / rising)
    return rate, slowing


def _pass_over(
    key: PRNGKey,
    state: TrainState,
    patterns: Evidence,
    rows: Coded,
    n_batches: Int[Array, ""],
    layout: Layout,
    peak_rate: Float[Array, ""],
    fall: Fall,
    plan: Plan,
    slots: CodedSlots,
    n_rows: int | None,
) -> tuple[TrainState, Info]:
    """One pass over rows in few bytes, [batch, row], in their order; batches beyond `n_batches` are empty.

    A batch has `n_rows`, if not all: others make the same number for each device.
    """

    def body(number: Int[Array, ""], so_far: tuple[TrainState, Info]) -> tuple[TrainState, Info]:
        state, total = so_far
        batch: Coded = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, number, 0, False)[:n_rows], rows)
        rate, slowing = _rates(state, peak_rate, fall, plan)
        evidence, own = widened(patterns, batch, slots), jax.random.fold_in(key, number)
        state, info = update(own, state, evidence, batch.weight, layout, rate, slowing, plan)
        return state, jax.tree.map(jnp.add, total, info)

    zero, none = jnp.zeros((), rows.weight.dtype), jnp.zeros_like(state.centre.hidden)
    start = state, Info(zero, none, none, zero, zero, zero)
    state, total = jax.lax.fori_loop(jnp.zeros_like(n_batches), n_batches, body, start)
    return state, jax.tree.map(lambda leaf: leaf / n_batches.astype(leaf.dtype), total)


pass_over = Program(_pass_over, static_argnames=("plan", "slots", "n_rows"))


# The state that it is given is overwritten.
_one_batch = Program(_one_update, static_argnames=("plan",), donate_argnames=("state",))
