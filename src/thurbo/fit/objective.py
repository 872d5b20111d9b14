"""§5 The objectives, as functions whose gradient by JAX is the gradient of the paper.

`two_phases`: a surrogate of the likelihood with the gradient of Eq. (8) and §5.2 (cuts) at the states of persistent
chains; `share_of_likelihood` the same by mean-field, beside prediction. `sparsity`: A.2.2. `multi_prediction`:
log-probability of masked cells after a few mean-field steps from the others. `exact`: log P(e).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import parallel
from thurbo._typing import Array, Bool, Chains, Factors, Float, Hidden, Int, PerRow, PRNGKey, Rows, RowsMask
from thurbo.fit.planning import Plan
from thurbo.latent import rbm
from thurbo.latent.constraints import Region
from thurbo.latent.evidence import Clamp, Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.meanfield import MeanField, factor_variance, mean_field, predictive
from thurbo.latent.inference.posterior import log_evidence_exact
from thurbo.latent.rbm import Params


class DataPhase(NamedTuple):
    """State given the evidence: probabilities of h, z, the whitener of z if z is a mean, and the inputs of the units.

    `felt` is the mean over rows of the input x − Vz of the hidden units. `latent` is that input of each row, if x was
    drawn; None if all is by mean-field.
    """

    hidden: Hidden
    factors: Factors
    whitener: Float[Array, "row factor factor"] | None
    felt: Float[Array, " slot"]
    latent: Rows | None = None


def share_of_likelihood(
    key: PRNGKey, params: Params, evidence: Evidence, weight: PerRow, chains: Chains, plan: Plan
) -> tuple[Float[Array, ""], Chains]:
    """A surrogate of Σ weight · log P(e) with the gradient of Eq. (8), beside prediction; and the new chains.

    The data phase is mean-field; the chains without evidence persist, or start at the data where every row has a model
    of its own. x is integrated out of both.
    """
    frozen = jax.lax.stop_gradient(params)
    q = mean_field(frozen, evidence, plan.n_mean_field_steps, plan.damping, latent_bound=plan.latent_bound)
    value = positive_part(params, evidence, DataPhase(q.hidden, q.factors, q.whitener, q.felt))
    if plan.unobserved != "exclude":
        chains = gibbs.prior_run(key, chains, frozen, plan.n_negative_steps)
        model = rbm.log_omega(params, chains).mean() * weight.sum()
        return (weight * value).sum() - model, chains
    key_start, key_run = jax.random.split(key)
    h = gibbs.prior_run(
        key_run, _drawn(key_start, q.hidden), evidence.seen(frozen), plan.n_negative_steps, evidence.present
    )
    return (weight * (value - rbm.log_omega(evidence.seen(params), h, evidence.present))).sum(), chains


def positive_part(params: Params, evidence: Evidence, state: DataPhase) -> PerRow:
    """E[log Ω(h) + log P(e | h, z)] at fixed q: its gradient is the data-dependent half of Eq. (8), and §5.2.

    γᵀq + ½‖m_o(q)‖² + log P(x_o ∈ Ω | m(q) + Vz) + E_q ½‖m_f(h)‖² − ½ Σ_o V_i Cov(z) V_iᵀ, o observed, f free. By the
    envelope theorem this is the gradient of the mean-field bound; for a draw of h it is Eq. (8) with x integrated out.
    """
    seen = evidence.seen(params)
    observed = evidence.observed
    mean = rbm.latent_mean(seen, state.hidden)
    value = rbm.prior_of_hidden(seen, state.hidden)
    value = value + 0.5 * (rbm.only(mean, observed) ** 2).sum(-1)
    value = value + rbm.expected_log_omega(seen, state.hidden, evidence.free, mean)
    region = evidence.region(seen.gauge)
    value = value + region.log_mass(mean + rbm.factor_shift(seen, state.factors))
    if seen.factor_prior is not None:  # the parameters of the prior of z are learned, too
        value = value - 0.5 * ((state.factors - seen.factor_prior) ** 2).sum(-1)
    if state.whitener is not None:
        spread = factor_variance(seen, jax.lax.stop_gradient(state.whitener))
        value = value - 0.5 * rbm.only(spread, observed).sum(-1)
    return value


def sparsity(params: Params, evidence: Evidence, state: DataPhase, target: float) -> PerRow:
    """Penalty on the log-odds g_k(x) = γ_k + Σ_i W_ik x_i of each unit: Σ_k (ρ − σ(g_k)) g_k, with target ρ.

    At the mean x̂ of a row (§6), or at a draw of x, where there is one (A.2.2).
    """
    seen, x = evidence.seen(params), state.latent
    if x is None:
        mean, shift = rbm.latent_mean(seen, state.hidden), rbm.factor_shift(seen, state.factors)
        x = rbm.only(evidence.region(seen.gauge).mean(mean + shift) - shift, evidence.present)
    logits = rbm.hidden_logits(seen, jax.lax.stop_gradient(x))
    return ((target - jax.lax.stop_gradient(state.hidden)) * logits).sum(-1)


def multi_prediction(params: Params, evidence: Evidence, masked: RowsMask, plan: Plan) -> tuple[PerRow, MeanField]:
    """log P(masked cells | the others) of each row at the mean-field prediction, and that mean-field.

    `masked` are the slots that the plan's masking returns.
    """
    region, q = _predict(params, evidence, masked, evidence.n_rows, plan)
    shown = _most_active(params, q, evidence, evidence.n_rows, plan)
    return _of_masked(region, evidence, *predictive(params, shown, evidence), masked, plan), q


def a_quarter(n_rows: int, plan: Plan) -> slice:
    """The rows of a batch whose cells are predicted from no other cell."""
    return slice(0, n_rows, 4) if plan.in_order else slice(-(-n_rows // 4))


def prediction_and_marginal(
    params: Params, evidence: Evidence, masked: RowsMask, plan: Plan
) -> tuple[PerRow, Float[Array, " some"], MeanField]:
    """`multi_prediction` of all rows; and of `a_quarter`, Σ log P(each cell | no other cell).

    An empty row is the same for all rows, so its mean-field is computed once, as one more row of the batch: one program
    computes both. It needs a row's missing cells to be variables of the model ("marginalize").
    """
    if plan.in_order and parallel.n_parts(evidence.n_rows, 4) > 1:  # each device takes every fourth of its own rows

        def own_part(params: Params, evidence: Evidence, masked: RowsMask) -> tuple[PerRow, PerRow, MeanField]:
            value, alone, q = _both(params, evidence, masked, plan)
            return value, alone, q._replace(felt=q.felt[None])

        axes = evidence.row_axes(), 0
        value, alone, q = parallel.in_parts(own_part, params, axes, evidence, masked)
        return value, alone, q._replace(felt=q.felt.mean(axis=0))
    return _both(params, evidence, masked, plan)


def _both(
    params: Params, evidence: Evidence, masked: RowsMask, plan: Plan
) -> tuple[PerRow, Float[Array, " some"], MeanField]:
    n, quarter = evidence.n_rows, np.arange(evidence.n_rows)[a_quarter(evidence.n_rows, plan)]
    some, every = len(quarter), evidence.rows(np.concatenate([np.arange(n), quarter]))
    hidden = jnp.concatenate([masked, jnp.ones((some, masked.shape[1]), bool)])
    region, q = _predict(params, every, hidden, n, plan, n_more=1)
    # The rows of the batch, and the empty row for each of the others.
    some_rows = every.rows(slice(n + 1))
    moments = predictive(params, _most_active(params, q, some_rows, n, plan), some_rows)
    mean, deviation = (jnp.concatenate([each, jnp.tile(each[n:], (some - 1, 1))]) for each in moments)
    value = _of_masked(region, every, mean, deviation, hidden, plan)
    own = MeanField(q.hidden[:n], q.log_odds[:n], q.factors[:n], None, q.felt, q.mean[:n])
    return value[:n], value[n:], own


def _predict(
    params: Params, evidence: Evidence, masked: RowsMask, n_rows: int, plan: Plan, n_more: int = 0
) -> tuple[Region, MeanField]:
    """The region of all rows, and the mean-field of the first ones without what is masked: `n_rows` and `n_more`."""
    region = evidence.region(evidence.seen(params).gauge)
    first = slice(n_rows + n_more)
    shown = evidence.rows(first).hide(masked[first], plan.unobserved)
    known = None  # inequalities between cells without some of them are a region of their own
    if not evidence.spans_cells:
        known = jax.tree.map(lambda leaf: leaf[first], region).release(masked[first])
    steps, bound = (plan.n_mean_field_steps, plan.damping), plan.latent_bound
    return region, mean_field(params, shown, *steps, latent_bound=bound, n_felt=n_rows, known=known)


def _most_active(params: Params, q: MeanField, evidence: Evidence, n_rows: int, plan: Plan) -> MeanField:
    """Each unit is off in the first `n_rows` rows, except for a share of them where it is most probable."""
    if plan.active_share is None or not n_rows:
        return q
    own, n_active = q.hidden[:n_rows], max(1, round(plan.active_share * n_rows))
    least = jax.lax.stop_gradient(jnp.sort(own, axis=0)[n_rows - n_active])
    hidden = jnp.concatenate([jnp.where(own >= least[None, :], own, 0.0), q.hidden[n_rows:]])
    return q._replace(hidden=hidden, mean=rbm.latent_mean(evidence.seen(params), hidden))


def _of_masked(region: Region, evidence: Evidence, mean: Rows, deviation: Rows, masked: RowsMask, plan: Plan) -> PerRow:
    whole = evidence.cells is not None and getattr(plan.masking, "whole_cells", False)
    return region.mass_of_masked(mean, deviation, masked, whole)


def exact(params: Params, evidence: Evidence) -> PerRow:
    """log P(e) of each row, by enumeration of h."""
    return log_evidence_exact(params, evidence)


def reconstruction(params: Params, evidence: Evidence, state: DataPhase) -> PerRow:
    """log P(e | q) of each row at its own posteriors (simpler than A.2.4): for monitoring, not maximised."""
    seen = evidence.seen(params)
    mean = rbm.latent_mean(seen, state.hidden) + rbm.factor_shift(seen, state.factors)
    return evidence.region(seen.gauge).log_mass(mean)


class RowChains(NamedTuple):
    """Persistent chains that belong to rows (§5.1): one given the row's evidence, and one of the row's own model.

    x is kept only where a region couples slots; elsewhere it can be drawn from h and z. `free` is kept only where every
    row has a model of its own ("exclude"); elsewhere all rows share the chains without evidence.
    """

    h: Bool[Array, "row hidden"]
    z: Factors
    x: Rows
    free: Bool[Array, "row hidden"]

    def at(self, places: Int[Array, " batch"]) -> RowChains:
        """The chains of some rows."""
        return RowChains(*(jnp.take(leaf, places, axis=0, mode="clip") for leaf in self))

    def put(self, places: Int[Array, " batch"], moved: RowChains) -> RowChains:
        """With the new states of some rows; places beyond the table are dropped."""
        return RowChains(
            *(old.at[places].set(new.astype(old.dtype), mode="drop") for old, new in zip(self, moved, strict=True))
        )


class TwoPhases(NamedTuple):
    """States of both phases after an update, and for the likelihood how far the chains are from the data.

    `gap` is the mean of log f(x), f the density of x without its constant, of the data phase minus that of the chains
    without evidence, in standard deviations of the latter. `flips` is the share of hidden units of these chains that
    changed in the update.
    """

    data: DataPhase
    chains: Chains
    rows: RowChains
    model_hidden: Float[Array, " hidden"]  # mean of P(h | x) over the chains without evidence
    gap: Float[Array, ""]
    flips: Float[Array, ""]


def two_phases(
    key: PRNGKey, params: Params, evidence: Evidence, weight: PerRow, chains: Chains, rows: RowChains, plan: Plan
) -> tuple[Float[Array, ""], TwoPhases]:
    """A surrogate of Σ weight · log P(e) whose gradient is Eq. (8) and §5.2 at the states of persistent chains.

    The data phase continues the chain of each row: x | h, z, e, then z | x, h, then h | x, z. The other phase continues
    chains without evidence. Weights and biases have the statistics x P(h | x)ᵀ of both; loadings, cuts and scales have
    the slope of log P(e | h, z), in which x is integrated out.
    """
    frozen = jax.lax.stop_gradient(params)
    key_data, key_free = jax.random.split(key)
    given = gibbs.clamp(frozen, evidence)
    seen = given.params
    keeps_x = rows.x.shape[1] > 0

    def one(i: Array, state: gibbs.ChainState) -> gibbs.ChainState:
        key_x, key_z, key_h = jax.random.split(jax.random.fold_in(key_data, i), 3)
        x, z = _latent_given(key_x, key_z, given, state)
        logits = rbm.hidden_logits(seen, rbm.only(x - rbm.factor_shift(seen, z), given.present))
        return gibbs.ChainState(x, _drawn(key_h, jax.nn.sigmoid(logits)), z)

    h = rows.h.astype(frozen.weights.dtype)
    mean = rbm.latent_mean(seen, h)
    first = rows.x if keeps_x else given.region.start(mean)
    state = jax.lax.fori_loop(0, plan.n_positive_steps - 1, one, gibbs.ChainState(first, h, rows.z))
    key_x, key_z, key_h = jax.random.split(jax.random.fold_in(key_data, plan.n_positive_steps), 3)
    x, z = _latent_given(key_x, key_z, given, state)
    u = rbm.only(x - rbm.factor_shift(seen, z), given.present)
    if plan.latent_bound is not None:
        usual = rbm.latent_mean(seen, params.hidden_mean[None, :])
        u = jnp.clip(u, usual - plan.latent_bound, usual + plan.latent_bound)
    hidden = jax.nn.sigmoid(rbm.hidden_logits(seen, u))

    own = evidence.seen(params)
    value = statistics_of_pair(own, u, hidden)
    if own.factor_prior is not None:
        value = value - 0.5 * ((z - own.factor_prior) ** 2).sum(-1)
    if not (evidence.are_levels and params.gauge.cuts.shape[-1] == 1 and not params.n_factors):
        at = rbm.latent_mean(seen, state.h) + rbm.factor_shift(own, z)
        value = value + evidence.region(own.gauge).log_mass(at)

    shown = weight / jnp.maximum(weight.sum(), 1e-12)
    has_own = rows.free.shape[1] > 0
    before = rows.free.astype(frozen.weights.dtype) if has_own else chains
    model, counted = (seen, shown) if has_own else (frozen, jnp.full(len(chains), 1.0 / len(chains), weight.dtype))
    v, free, moved = chain(key_free, model, before, plan.n_negative_steps, evidence.present if has_own else None)
    expected = (counted * statistics_of_pair(own if has_own else params, v, free)).sum() * weight.sum()
    of_chains = _log_density(model, v)
    middle = (counted * of_chains).sum()
    deviation = jnp.sqrt((counted * (of_chains - middle) ** 2).sum())
    gap = ((shown * _log_density(seen, u)).sum() - middle) / jnp.maximum(deviation, 1e-6)
    flips = (counted @ jnp.abs(moved - before)).mean() if before.shape[1] else jnp.zeros((), weight.dtype)
    kept = RowChains(_drawn(key_h, hidden), z, x if keeps_x else rows.x, moved if has_own else rows.free)
    data = DataPhase(hidden, z, None, u.mean(axis=0), u)
    phases = TwoPhases(data, chains if has_own else moved, kept, counted @ free, gap, flips)
    return (weight * value).sum() - expected, jax.lax.stop_gradient(phases)


def _latent_given(key_x: PRNGKey, key_z: PRNGKey, given: Clamp, state: gibbs.ChainState) -> tuple[Rows, Factors]:
    """x | h, z, e, then z | x_o, h."""
    mean = rbm.latent_mean(given.params, state.h)
    x = gibbs.sweep(key_x, state.x, mean + rbm.factor_shift(given.params, state.z), given.region)
    if given.whitener is None:
        return x, state.z
    return x, rbm.sample_factors(key_z, given.params, rbm.only(x - mean, given.observed), given.whitener)


def _log_density(params: Params, x: Rows) -> PerRow:
    """log Σ_h exp{−E(x, h)}, Eq. (2), for x without factors: minus the free energy."""
    bias = params.site_bias if params.site_bias.ndim == 2 else params.site_bias[None, :]
    return (bias * x - 0.5 * x * x).sum(-1) + jax.nn.softplus(rbm.hidden_logits(params, x)).sum(-1)


def chain(
    key: PRNGKey, params: Params, h: Chains, n_steps: int, present: RowsMask | None = None
) -> tuple[Rows, Hidden, Chains]:
    """`n_steps` rounds of x | h, then h | x, without evidence: the last x, P(h | x) and a draw of it."""

    def one(i: Array, h: Chains) -> Chains:
        key_x, key_h = jax.random.split(jax.random.fold_in(key, i))
        return _drawn(key_h, jax.nn.sigmoid(rbm.hidden_logits(params, latent_draw(key_x, params, h, present))))

    h = jax.lax.fori_loop(0, n_steps - 1, one, h)
    key_x, key_h = jax.random.split(jax.random.fold_in(key, n_steps - 1))
    x = latent_draw(key_x, params, h, present)
    hidden = jax.nn.sigmoid(rbm.hidden_logits(params, x))
    return x, hidden, _drawn(key_h, hidden)


def latent_draw(key: PRNGKey, params: Params, h: Chains, present: RowsMask | None = None) -> Rows:
    """x ~ N(m(h), I), Eq. (4); zero where a slot is not part of the row's model."""
    mean = rbm.latent_mean(params, h)
    return rbm.only(mean + gibbs.normals(key, mean.shape, mean.dtype), present)


def _drawn(key: PRNGKey, probability: Hidden) -> Hidden:
    return (gibbs.uniforms(key, probability.shape, probability.dtype) < probability).astype(probability.dtype)


def statistics_of_pair(params: Params, x: Rows, hidden: Hidden) -> PerRow:
    """γᵀh + xᵀm(h) at fixed x and h: minus the energy, Eq. (2), without what depends on x alone."""
    return rbm.prior_of_hidden(params, hidden) + (x * rbm.latent_mean(params, hidden)).sum(-1)
