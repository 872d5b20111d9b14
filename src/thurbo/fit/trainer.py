"""§5 The training loop: initial values and batches of evidence in, parameters out.

The optimiser uses centred, unconstrained coordinates (`Learnable`); `fold` converts them to the paper's α, W, γ, θ.
`update` is a pure step `(key, state, batch) → (state, info)`; `epoch` scans it over shuffled batches in one compiled
program, with the table on the device. The loop over epochs on the host is in course.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from thurbo import _runtime, parallel
from thurbo._runtime import Program
from thurbo._typing import Array, Bool, Chains, Float, Hidden, Int, PerRow, PRNGKey
from thurbo.fit import objective
from thurbo.fit.objective import DataPhase, RowChains, TwoPhases
from thurbo.fit.planning import Plan
from thurbo.latent.constraints import Context, Gauge
from thurbo.latent.evidence import Buckets, Coded, CodedSlots, Evidence, batch_rows, widened
from thurbo.latent.inference.meanfield import mean_field
from thurbo.latent.rbm import Params

REPORTED = 10  # one row of so many is enough for what is only reported, where it would need a product of matrices
WARM_UP, SHARE_OF_WARM_UP = 200, 0.1  # first updates of the likelihood, with a rising rate; at most this share of all
SHIFT_DECAY = 0.1  # precision of an item's shift relative to that of its weights
GENEROSITY = 0.5  # initial loading of all items of a list on their common factor


class Learnable(NamedTuple):
    """Coordinates of the optimiser: x and h centred, cuts as a first cut and log-gaps, scales as logs."""

    site_bias: Float[Array, " site"]
    weights: Float[Array, "site hidden"]
    hidden_bias: Float[Array, " hidden"]
    loadings: Float[Array, "site factor"]
    first_cut: Float[Array, " site"]
    log_gaps: Float[Array, "site gap"]
    log_scale: Float[Array, " site"]
    presence: Float[Array, "site unit"]  # no units if presence is off
    effects: Float[Array, "feature unit"]  # B: of the bias, then of weights and loadings; none without attributes
    context: Context  # no items if no ranking has context


class Centre(NamedTuple):
    """Running means c of h and d of x in the data phase: the energy uses h − c and x − d; `fold` removes them."""

    hidden: Float[Array, " hidden"]
    site: Float[Array, " site"]


class Layout(NamedTuple):
    """The type of each site: its number of learned cuts, and whether it is measured, with a learned scale.

    A utility (of a category or a ranked item) has only a bias. The items of one list have the same gaps between cuts
    and the same scale. If `active_*` are given, the other units and factors do not change: models of several sizes in
    one compiled program.
    """

    n_cuts: Int[Array, " site"]
    measured: Bool[Array, " site"]
    active_hidden: Bool[Array, " hidden"] | None = None
    active_factors: Bool[Array, " factor"] | None = None
    utility: Bool[Array, " site"] | None = None  # sites that are utilities; None if there are none
    lists: Float[Array, "list site"] | None = None  # 1 for the items of each listed column, 0 elsewhere
    item_decay: Float[Array, " site"] | None = None  # precision of items around the mean of their list, per cell
    decay: Float[Array, " site"] | None = None  # weight decay of a member, in addition to that of the plan
    design: Float[Array, "site feature"] | None = None  # attributes of items (§8); None where no column has any
    constants: Float[Array, " site"] | None = None  # 1 for sites that have parameters of their own
    effect_decay: Float[Array, " feature"] | None = None  # precision of the effects of attributes, per cell
    context: Context | None = None  # 1 for what is learned of it, 0 elsewhere; None if no ranking has context
    shrinkage: Float[Array, ""] | None = None  # of a member: factor of both precisions, except of the items' biases

    @property
    def listed(self) -> Float[Array, " site"] | None:
        """1 for items of any list."""
        return None if self.lists is None else self.lists.sum(axis=0)


def described(learnable: Learnable, layout: Layout) -> Learnable:
    """With attributes f: a_i + B f_i, and the same for the weights and loadings of a site, Eq. (2) with §8."""
    if layout.design is None or layout.constants is None:
        return learnable
    own, n_hidden = layout.constants, learnable.weights.shape[1]
    added = jnp.matmul(layout.design, learnable.effects, precision=jax.lax.Precision.HIGHEST)
    return learnable._replace(
        site_bias=own * learnable.site_bias + added[:, 0],
        weights=own[:, None] * learnable.weights + added[:, 1 : 1 + n_hidden],
        loadings=own[:, None] * learnable.loadings + added[:, 1 + n_hidden :],
    )


@jax.jit
def fold(learnable: Learnable, centre: Centre, layout: Layout) -> Params:
    """α = a − W c, γ = g − Wᵀ d, θ_l = θ_1 + Σ gaps: the same model in the paper's parameters."""
    effects = None
    if layout.design is not None:
        n_hidden, raw = learnable.weights.shape[1], learnable.effects
        bias = raw[:, 0] - raw[:, 1 : 1 + n_hidden] @ centre.hidden
        effects = jnp.concatenate([bias[:, None], raw[:, 1:]], axis=1)
    learnable = described(learnable, layout)
    scale = jnp.exp(_of_lists(learnable.log_scale[:, None], layout)[:, 0])
    context = None if layout.context is None else learnable.context
    return Params(
        effects=effects,
        site_bias=learnable.site_bias - learnable.weights @ centre.hidden,
        weights=learnable.weights,
        hidden_bias=learnable.hidden_bias - centre.site @ learnable.weights,
        loadings=learnable.loadings,
        gauge=Gauge(_cuts(learnable, layout), scale, context),
        hidden_mean=centre.hidden,
        presence=None if layout.lists is None or not learnable.presence.shape[1] else learnable.presence,
    )


folded = jax.jit(fold, compiler_options=_runtime.RUNS_ONCE)  # outside of other programs


def recentre(learnable: Learnable, old: Centre, new: Centre) -> Learnable:
    """Change the centre without changing the model."""
    effects = learnable.effects
    if effects.shape[0]:
        moved = effects[:, 1 : 1 + learnable.weights.shape[1]] @ (new.hidden - old.hidden)
        effects = effects.at[:, 0].add(moved)
    return learnable._replace(
        effects=effects,
        site_bias=learnable.site_bias + learnable.weights @ (new.hidden - old.hidden),
        hidden_bias=learnable.hidden_bias + (new.site - old.site) @ learnable.weights,
    )


def _of_lists(values: Float[Array, "site column"], layout: Layout) -> Float[Array, "site column"]:
    """Values by site; all items of a list have the values of its first item."""
    if layout.lists is None:
        return values
    first = values[jnp.argmax(layout.lists, axis=1)]  # [list, column]
    return jnp.where(layout.lists.sum(axis=0)[:, None] > 0, layout.lists.T @ first, values)


def _cuts(learnable: Learnable, layout: Layout) -> Float[Array, "site cut"]:
    first, gaps, n_cuts = learnable.first_cut[:, None], learnable.log_gaps, layout.n_cuts
    gaps = _of_lists(gaps, layout)
    width = gaps.shape[1] + 1
    real_gap = jnp.arange(width - 1, dtype=n_cuts.dtype)[None, :] < n_cuts[:, None] - 1
    steps = jnp.where(real_gap, jnp.exp(jnp.where(real_gap, gaps, jnp.zeros_like(gaps))), jnp.zeros_like(gaps))
    # Sums of the gaps below each cut; `cumsum` is several programs to compile.
    below = jnp.asarray(np.tri(width, width - 1, k=-1), steps.dtype).T
    cuts = first + jnp.matmul(steps, below, precision=jax.lax.Precision.HIGHEST)
    return jnp.where(jnp.arange(width, dtype=n_cuts.dtype)[None, :] < n_cuts[:, None], cuts, jnp.inf)


class Values(NamedTuple):
    """Initial values of a fit; loadings that are not a number are drawn."""

    site_bias: Float[Array, " site"]
    first_cut: Float[Array, " site"]
    log_gaps: Float[Array, "site gap"]
    hidden_rate: Float[Array, ""]
    weight_scale: Float[Array, ""]
    log_scale: Float[Array, " site"]
    effects: Float[Array, " feature"]
    loadings: Float[Array, "site factor"] | None = None


def initial_values(cuts: np.ndarray, dtype: np.dtype, **given: Any) -> Values:
    """Values of the independent model, on the host; those that are not given are zero, and units at ½."""
    n_sites = len(cuts)
    padded = np.pad(cuts, ((0, 0), (0, max(0, 1 - cuts.shape[1]))), constant_values=np.inf)
    with np.errstate(invalid="ignore"):
        gaps = np.diff(padded, axis=1)
    found: dict[str, Any] = {"site_bias": np.zeros(n_sites), "log_scale": np.zeros(n_sites), "effects": np.zeros(0)}
    found |= {"hidden_rate": 0.5, "weight_scale": 0.1, **given}
    found["first_cut"] = np.where(np.isfinite(padded[:, 0]), padded[:, 0], 0.0)
    found["log_gaps"] = np.log(np.where(np.isfinite(gaps), gaps, 1.0).clip(1e-4))
    arrays: dict[str, Any] = {name: np.asarray(value, dtype) for name, value in found.items()}
    return Values(**arrays)


@partial(jax.jit, static_argnames=("n_hidden", "n_factors", "n_presence", "n_context"))
def initial_coordinates(
    key: PRNGKey, values: Values, n_hidden: int, n_factors: int, n_presence: int = 0, n_context: int = 0
) -> tuple[Learnable, Centre]:
    """Small random weights around the independent model."""
    rate, n_sites, dtype = values.hidden_rate, values.site_bias.shape[0], values.site_bias.dtype
    key_w, key_v = jax.random.split(key)
    key_b = jax.random.fold_in(key, 2)
    own = values.weight_scale * jax.random.normal(key_b, (values.effects.shape[0], n_hidden + n_factors), dtype)
    loadings = values.weight_scale * jax.random.normal(key_v, (n_sites, n_factors), dtype)
    if values.loadings is not None:
        loadings = jnp.where(jnp.isnan(values.loadings), loadings, values.loadings)
    learnable = Learnable(
        site_bias=values.site_bias,
        weights=values.weight_scale * jax.random.normal(key_w, (n_sites, n_hidden), dtype),
        hidden_bias=jnp.broadcast_to(jnp.log(rate) - jnp.log1p(-rate), (n_hidden,)),
        loadings=loadings,
        first_cut=values.first_cut,
        log_gaps=values.log_gaps,
        log_scale=values.log_scale,
        presence=jnp.zeros((n_sites, n_presence), dtype),
        effects=jnp.concatenate([values.effects[:, None], own], axis=1),
        context=Context(jnp.zeros((n_sites, n_context), dtype), jnp.zeros(n_sites if n_context else 0, dtype)),
    )
    return learnable, Centre(jnp.broadcast_to(rate, (n_hidden,)), values.site_bias)


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


class Schedule(NamedTuple):
    """The learning rate: `peak` until step `first`, then it decays linearly to zero at step `last`."""

    peak: Float[Array, ""]
    first: Float[Array, ""]
    last: Float[Array, ""]


def _optimiser(plan: Plan) -> optax.GradientTransformation:
    """Direction of a step; its length is the rate, which is in the state so that a new rate does not recompile."""
    rule = optax.scale_by_adam() if plan.optimizer == "adam" else optax.identity()

    def decayed(learnable: Any) -> Any:
        return learnable._replace(**{name: name in {"weights", "loadings", "context"} for name in Learnable._fields})

    return optax.chain(rule, optax.add_decayed_weights(plan.weight_decay, mask=decayed))


@partial(jax.jit, static_argnames=("plan", "n_rows"))
def initial_state(learnable: Learnable, centre: Centre, chains: Chains, plan: Plan, n_rows: int = 0) -> TrainState:
    """The initial state, without chains of rows."""
    none = jnp.zeros((0, centre.hidden.shape[0]), bool)
    rows = RowChains(none, jnp.zeros((0, learnable.loadings.shape[1])), jnp.zeros((0, 0)), none)
    posteriors = jnp.tile(centre.hidden, (n_rows if plan.posterior_smoothing else 0, 1))
    optimiser = _optimiser(plan).init(learnable)
    return TrainState(learnable, centre, optimiser, chains, rows, posteriors, jnp.zeros((), jnp.int32))


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
) -> tuple[Float[Array, ""], tuple[TwoPhases, Float[Array, ""]]]:
    """Minus the objective per slot, or per row for the likelihood; both phases, and the objective per answer."""
    params = fold(learnable, centre, layout)
    cells, n_answers = _total(weight, evidence.observed.sum(-1)), _total(weight, evidence.n_answers(evidence.observed))
    key_mask, key_contrast = jax.random.split(key)
    zero = jnp.zeros((), weight.dtype)
    if plan.objective == "likelihood":
        cells = jnp.maximum(weight.sum(), 1e-12)  # the rate of plain steps is per row
        value, phases = objective.two_phases(key_contrast, params, evidence, weight, chains, rows, plan)
        loss, state = -value / cells, phases.data
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
        phases = TwoPhases(state, chains, rows, model_hidden, zero, zero)
    if plan.sparsity_weight:
        pull = objective.sparsity(params, evidence, state, plan.sparsity_target)
        loss = loss - plan.sparsity_weight * (weight * pull).sum() / cells
    return loss, jax.lax.stop_gradient((phases, report))


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
    slope = jax.grad(_loss, has_aux=True)
    grad, (seen, report) = slope(state.learnable, state.centre, layout, evidence, weight, chains, own, key, plan)
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
    activation = (weight @ seen.data.hidden) / jnp.maximum(weight.sum(), 1e-12)
    follow = slowing * plan.centring_rate
    # E[x] is a where E[h] is c, so the centred bias is its own centre. Utilities are only known by comparisons: in a
    # table their centre is the running mean of the inputs of the hidden units.
    listed = layout.listed
    is_bias = listed is not None or layout.utility is None
    site = learnable.site_bias if is_bias else seen.data.felt
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
        new = old + (1.0 - plan.posterior_smoothing) * (seen.data.hidden - old)
        posteriors = posteriors.at[places].set(new, mode="drop")
    kept = seen.rows if places is None or rows is None else state.rows.put(places, seen.rows)
    # XLA sums the rows of a matrix thrice as fast by a product as by a reduction.
    squares = [(leaf * leaf).reshape(-1, leaf.shape[-1]) for leaf in jax.tree.leaves(grad) if leaf.size]
    norm = jnp.sqrt(sum((each @ jnp.ones(each.shape[-1], each.dtype)).sum() for each in squares))
    info = Info(report, activation, seen.model_hidden, norm, seen.gap, seen.flips)
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
    schedule: Schedule,
    plan: Plan,
    cells: int,
    work: float = np.inf,
) -> tuple[TrainState, Info]:
    """One pass over all rows in random order, in batches of about the given number of cells.

    If all rows have one width, one compiled program scans over the batches; otherwise each batch is one call. `work` is
    the number of cells of all epochs: programs that run shortly are compiled with less effort.
    """
    how = (layout, schedule, plan)
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
    schedule: Schedule,
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

    def one(number: Int[Array, ""], state: TrainState) -> tuple[TrainState, Info]:
        place = number * batch_size + jnp.arange(batch_size, dtype=n_rows.dtype)
        index, key_i = jnp.take(order, place % n_rows), jax.random.fold_in(key_step, number)
        where = index, place < n_rows, jnp.take(places, index)
        return _one_update(key_i, state, evidence, row_weight, *where, layout, schedule, plan)

    return _repeated(one, state, n_batches, row_weight.dtype)


def _repeated(
    one: Callable[[Array, TrainState], tuple[TrainState, Info]], state: TrainState, n: Int[Array, ""], dtype: Any
) -> tuple[TrainState, Info]:
    """The state after `n` updates, and the mean of what they say."""

    def body(number: Int[Array, ""], so_far: tuple[TrainState, Info]) -> tuple[TrainState, Info]:
        state, info = one(number, so_far[0])
        return state, jax.tree.map(jnp.add, so_far[1], info)

    zero, none = jnp.zeros((), dtype), jnp.zeros_like(state.centre.hidden)
    start = state, Info(zero, none, none, zero, zero, zero)
    state, total = jax.lax.fori_loop(jnp.zeros_like(n), n, body, start)
    return state, jax.tree.map(lambda leaf: leaf / n.astype(leaf.dtype), total)


def _one_update(
    key: PRNGKey,
    state: TrainState,
    bucket: Evidence,
    row_weight: PerRow,
    index: Int[Array, " batch"],
    real: Bool[Array, " batch"],
    places: Int[Array, " batch"],
    layout: Layout,
    schedule: Schedule,
    plan: Plan,
) -> tuple[TrainState, Info]:
    """One update on some rows of a bucket at the current rate; rows that only pad the batch have weight zero."""
    weight = jnp.take(row_weight, places) * real.astype(row_weight.dtype)
    rate, slowing = _rates(state, schedule, plan)
    kept = jnp.where(real, places, row_weight.shape[0])
    rows = state.rows.at(places) if state.rows.h.shape[0] else None
    return update(key, state, bucket.rows(index), weight, layout, rate, slowing, plan, kept, rows)


def _rates(state: TrainState, schedule: Schedule, plan: Plan) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The current rate, and the share of the peak rate that is left of it at the end of training."""
    peak, first, last = schedule
    slowing = jnp.clip((last - state.step.astype(peak.dtype)) / (last - first), 0.0, 1.0)
    rate = slowing * peak
    if plan.objective == "likelihood":
        rising = jnp.clip(SHARE_OF_WARM_UP * last, 1.0, WARM_UP)
        rate = rate * jnp.minimum(1.0, (state.step.astype(rate.dtype) + 1.0) / rising)
    return rate, slowing


def _pass_over(
    key: PRNGKey,
    state: TrainState,
    patterns: Evidence,
    rows: Coded,
    n_batches: Int[Array, ""],
    layout: Layout,
    schedule: Schedule,
    plan: Plan,
    slots: CodedSlots,
    n_rows: int,
) -> tuple[TrainState, Info]:
    """One pass over rows in few bytes, [batch, row], in their order; batches beyond `n_batches` are empty.

    A batch has `n_rows`; others make the same number for each device.
    """

    def one(number: Int[Array, ""], state: TrainState) -> tuple[TrainState, Info]:
        batch: Coded = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, number, 0, False)[:n_rows], rows)
        rate, slowing = _rates(state, schedule, plan)
        evidence, own = widened(patterns, batch, slots), jax.random.fold_in(key, number)
        return update(own, state, evidence, batch.weight, layout, rate, slowing, plan)

    return _repeated(one, state, n_batches, rows.weight.dtype)


pass_over = Program(_pass_over, static_argnames=("plan", "slots", "n_rows"))


# The state that it is given is overwritten.
_one_batch = Program(_one_update, static_argnames=("plan",), donate_argnames=("state",))
