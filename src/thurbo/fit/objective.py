"""§5 The objectives, as functions whose gradient by JAX is the gradient of the paper.

`likelihood`: a surrogate with the gradient of Eq. (8), §5.2 (cuts), A.2.2 (sparsity), given the states of both phases,
with x or (`integrate="hidden"`) h integrated out. `multi_prediction`: log-probability of masked cells after a few
mean-field steps from the others. `exact`: log P(e).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Chains, Factors, Float, Hidden, PerRow, PRNGKey, Rows, RowsMask
from thurbo.fit.planning import Plan
from thurbo.latent import rbm
from thurbo.latent.constraints import Region
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.gibbs import clamp
from thurbo.latent.inference.likelihood import log_evidence_exact
from thurbo.latent.inference.meanfield import (
    LatentMean,
    MeanField,
    factor_variance,
    latent_mean,
    mean_field,
    predictive,
)
from thurbo.latent.rbm import Params


class Positive(NamedTuple):
    """Data-dependent state: probabilities of h (or a sample of h), z, and the whitener of z if z is a mean.

    `draws` are the inputs x − Vz of the hidden units: in the recent rounds of the chains, or only their average.
    """

    hidden: Hidden
    factors: Factors
    whitener: Float[Array, "row factor factor"] | None
    felt: Float[Array, " slot"]  # mean over rows of the input x − Vz of the hidden units
    draws: Float[Array, "draw row slot"] | None = None
    latent: Rows | None = None  # the last draw of x


def positive(key: PRNGKey, params: Params, evidence: Evidence, plan: Plan) -> Positive:
    """P(h, z | e): by mean-field, or by a short Gibbs run that starts from it."""
    q = mean_field(params, evidence, plan.n_mean_field_steps, plan.damping, latent_bound=plan.latent_bound)
    if plan.positive_phase == "mean-field":
        return Positive(q.hidden, q.factors, q.whitener, q.felt)
    given = gibbs.clamp(params, evidence)
    key_start, key_run = jax.random.split(key)
    state = gibbs.start(key_start, given, q.hidden)
    if not plan.sparsity_weight:
        state = gibbs.run(key_run, state, given, plan.n_positive_steps)
        return Positive(state.h, state.z, None, q.felt, latent=state.x)

    def one(state: gibbs.ChainState, i: Array) -> tuple[gibbs.ChainState, Rows]:
        state = gibbs.step(jax.random.fold_in(key_run, i), state, given)
        return state, state.x - rbm.factor_shift(given.params, state.z)

    state, draws = jax.lax.scan(one, state, jnp.arange(plan.n_positive_steps))
    if plan.sparsity_form == "average":
        draws = draws.mean(axis=0, keepdims=True)
    return Positive(state.h, state.z, None, q.felt, draws, state.x)


def negative(key: PRNGKey, params: Params, evidence: Evidence, start: Chains, plan: Plan) -> Chains:
    """P(h) by `n_negative_steps` rounds without evidence: from the given chains, or from the data (contrastive)."""
    if plan.negative_phase == "persistent":
        return gibbs.prior_run(key, start, params, plan.n_negative_steps)
    if plan.negative_phase == "tempered":
        return gibbs.run_tempered(key, start, params, plan.n_negative_steps, plan.n_temperatures)
    seen = evidence.seen(params)
    key_start, key_run = jax.random.split(key)
    h = (jax.random.uniform(key_start, start.shape, start.dtype) < start).astype(start.dtype)
    return gibbs.prior_run(key_run, h, seen, plan.n_negative_steps, evidence.present)


def positive_part(params: Params, evidence: Evidence, state: Positive) -> PerRow:
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


def negative_part(params: Params, evidence: Evidence, h: Chains, plan: Plan) -> Float[Array, " chain"]:
    """log Ω(h) at the states of the chains: its gradient is the data-independent half of Eq. (8)."""
    if plan.negative_phase != "contrastive":
        return rbm.log_omega(params, h)
    return rbm.log_omega(evidence.seen(params), h, evidence.present)


def sparsity(params: Params, evidence: Evidence, state: Positive, target: float) -> PerRow:
    """Penalty on the log-odds g_k(x) = γ_k + Σ_i W_ik x_i of each unit, with target ρ, in either form of the paper.

    §6: Σ_k (ρ − σ(g_k)) g_k at the mean x̂ of a row, from mean-field or from the recent samples.
    A.2.2: the average of the same over the draws themselves. Its slope in g_k is that of Σ_k ρ log P(h_k) + ….
    """
    seen = evidence.seen(params)
    units = seen
    if state.draws is None:
        mean, shift = rbm.latent_mean(seen, state.hidden), rbm.factor_shift(seen, state.factors)
        x = evidence.region(seen.gauge).mean(mean + shift) - shift
        return _pull(units, rbm.only(x, evidence.present), state.hidden, target)
    pulls = [_pull(units, rbm.only(x, evidence.present), None, target) for x in state.draws]
    return jnp.stack(pulls).mean(axis=0)


def _pull(params: Params, x: Rows, hidden: Hidden | None, target: float) -> PerRow:
    logits = rbm.hidden_logits(params, jax.lax.stop_gradient(x))
    hidden = jax.nn.sigmoid(logits) if hidden is None else hidden
    return ((target - jax.lax.stop_gradient(hidden)) * logits).sum(-1)


def multi_prediction(params: Params, evidence: Evidence, masked: RowsMask, plan: Plan) -> tuple[PerRow, MeanField]:
    """log P(masked cells | the others) of each row at the mean-field prediction, and that mean-field.

    `masked` are the slots that the plan's masking returns.
    """
    region, q = _predict(params, evidence, masked, evidence.n_rows, plan)
    shown = _most_active(params, q, evidence, evidence.n_rows, plan)
    return _of_masked(region, evidence, *predictive(params, shown, evidence), masked, plan), q


def prediction_and_marginal(
    params: Params, evidence: Evidence, masked: RowsMask, plan: Plan
) -> tuple[PerRow, Float[Array, " some"], MeanField]:
    """`multi_prediction` of all rows; and of the first quarter, Σ log P(each cell | no other cell).

    An empty row is the same for all rows, so its mean-field is computed once, as one more row of the batch: one program
    computes both. It needs a row's missing cells to be variables of the model ("marginalize").
    """
    n, some = evidence.n_rows, -(-evidence.n_rows // 4)
    every = evidence.rows(np.r_[:n, :some])
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


def reconstruction(params: Params, evidence: Evidence, state: Positive) -> PerRow:
    """log P(e | q) of each row at its own posteriors (simpler than A.2.4): for monitoring, not maximised."""
    seen = evidence.seen(params)
    mean = rbm.latent_mean(seen, state.hidden) + rbm.factor_shift(seen, state.factors)
    return evidence.region(seen.gauge).log_mass(mean)


Contrast = tuple[Float[Array, ""], Positive, Chains]


def contrast(key: PRNGKey, params: Params, evidence: Evidence, weight: PerRow, chains: Chains, plan: Plan) -> Contrast:
    """A surrogate of Σ weight · log P(e) with the gradient of Eq. (8), the data-dependent state, and the new chains."""
    if _is_yes_or_no(params, evidence, plan):
        return _of_yes_or_no(key, params, evidence, weight, chains, plan)
    key_positive, key_negative, key_start = jax.random.split(key, 3)
    frozen = jax.lax.stop_gradient(params)
    if plan.positive_phase == "gibbs":
        state = positive(key_positive, frozen, evidence, plan)
        value, own = sampled_part(params, evidence, state), state
    else:
        latent = latent_mean(frozen, evidence, plan.n_mean_field_steps, plan.damping, plan.latent_bound)
        own = hidden_given(frozen, evidence, latent, plan)
        value = bound_part(params, evidence, latent, own)
    if plan.negative_phase != "contrastive":
        x, hidden, moved = chain(key_negative, frozen, chains, plan.n_negative_steps)
        model = statistics_of_pair(params, x, hidden).mean() * weight.sum()
        return (weight * value).sum() - model, own, moved
    h = _drawn(key_start, own.hidden)
    x, hidden, _ = chain(key_negative, evidence.seen(frozen), h, plan.n_negative_steps, evidence.present)
    model = (weight * statistics_of_pair(evidence.seen(params), x, hidden)).sum()
    return (weight * value).sum() - model, own, chains


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


def hidden_given(params: Params, evidence: Evidence, latent: LatentMean, plan: Plan) -> Positive:
    """q(h) and q(z) that follow from q(x), each the best for the bound given the others; free slots integrated out."""
    given, z = clamp(params, evidence), latent.factors
    seen, shift = given.params, rbm.factor_shift(given.params, z)
    x, mean = latent.x, latent.origin - shift
    if plan.latent_bound is not None:
        usual = rbm.latent_mean(seen, jnp.clip(params.hidden_mean, 1e-4, 1.0 - 1e-4)[None, :])
        x = jnp.clip(x, usual - plan.latent_bound, usual + plan.latent_bound)
    if given.whitener is not None:
        z = rbm.factor_mean(seen, rbm.only(x - mean, given.observed), given.whitener)
    felt = rbm.only(x - shift, given.present)
    own = (jax.nn.sigmoid(latent.log_odds) - 0.5) * rbm.squared_weights(seen, evidence.free)
    hidden = jax.nn.sigmoid(rbm.hidden_logits(seen, felt) - own)
    return Positive(hidden, z, given.whitener, felt.mean(axis=0))


def bound_part(params: Params, evidence: Evidence, latent: LatentMean, state: Positive) -> PerRow:
    """The bound of mean-field at fixed q(x), q(h) and q(z), as far as it depends on parameters.

    γᵀq + Σ_o {x̂ (m(q) + Vz) − m(q) Vz − ½(Vz)²} + E_q ½‖m_f(h)‖² + what cuts and scales change, o observed, f free.
    q(x) is N(μ, I) within Ω, so its mean and entropy depend on cuts and scales. It moves along with the first cut of a
    site, as it would if the site's bias moved instead.
    """
    seen, observed, region = evidence.seen(params), evidence.observed, evidence.region(evidence.seen(params).gauge)
    hidden, origin = state.hidden, jnp.broadcast_to(latent.origin, observed.shape)
    mean, shift = rbm.latent_mean(seen, hidden), rbm.factor_shift(seen, state.factors)
    value = rbm.prior_of_hidden(seen, hidden)
    value = value + rbm.only(latent.x * (mean + shift) - mean * shift - 0.5 * shift**2, observed).sum(-1)
    value = value + rbm.expected_log_omega(seen, hidden, evidence.free, mean)
    if seen.factor_prior is not None:
        value = value - 0.5 * ((state.factors - seen.factor_prior) ** 2).sum(-1)
    if state.whitener is not None:
        value = value - 0.5 * rbm.only(factor_variance(seen, jax.lax.stop_gradient(state.whitener)), observed).sum(-1)
    first = seen.gauge.cuts[..., 0]
    first = jnp.where(jnp.isfinite(first), first, jnp.zeros_like(first))
    moving = origin + (first - jax.lax.stop_gradient(first)).reshape(-1, origin.shape[1])
    smooth, given = region.smooth(), jax.lax.stop_gradient(mean + shift)
    inside = smooth.mean(moving) * (given - moving) + 0.5 * moving**2
    return value + smooth.log_mass(moving) + rbm.only(inside, observed).sum(-1)


def sampled_part(params: Params, evidence: Evidence, state: Positive) -> PerRow:
    """The data-dependent half of Eq. (8) at a draw of x, h and z given e: x P(h | x)ᵀ for weights and biases.

    Loadings, cuts and scales have the slope of log P(e | h, z), in which x is integrated out.
    """
    assert state.latent is not None
    seen, frozen = evidence.seen(params), jax.lax.stop_gradient(evidence.seen(params))
    x = rbm.only(state.latent - rbm.factor_shift(frozen, state.factors), evidence.present)
    value = statistics_of_pair(seen, x, jax.nn.sigmoid(rbm.hidden_logits(frozen, x)))
    if seen.factor_prior is not None:
        value = value - 0.5 * ((state.factors - seen.factor_prior) ** 2).sum(-1)
    mean = rbm.latent_mean(frozen, state.hidden) + rbm.factor_shift(seen, state.factors)
    return value + evidence.region(seen.gauge).log_mass(mean)


def _is_yes_or_no(params: Params, evidence: Evidence, plan: Plan) -> bool:
    """Whether sums over rows are enough, of which all cuts but the first one need more."""
    is_plain = evidence.sites is None and evidence.present is None and evidence.are_levels and not params.n_factors
    one_cut = params.gauge.cuts.shape[-1] == 1 and plan.latent_bound is None
    return is_plain and one_cut and plan.positive_phase == "mean-field" and plan.negative_phase == "persistent"


class _PhaseSums(NamedTuple):
    """Data minus model, summed over rows: the gradient by α, W, γ, and by the cut of each site."""

    site_bias: Float[Array, " site"]
    weights: Float[Array, "site hidden"]
    hidden_bias: Float[Array, " hidden"]
    cut: Float[Array, " site"]


def _of_yes_or_no(
    key: PRNGKey, params: Params, evidence: Evidence, weight: PerRow, chains: Chains, plan: Plan
) -> Contrast:
    """The same as `contrast` in general, for a table of yes or no: rows and chains share two products of matrices."""
    frozen, n = jax.lax.stop_gradient(params), evidence.n_rows
    latent = latent_mean(frozen, evidence, plan.n_mean_field_steps, plan.damping)
    key_negative = jax.random.split(key, 3)[1]
    key_x, key_h = jax.random.split(jax.random.fold_in(key_negative, plan.n_negative_steps - 1))
    if plan.n_negative_steps > 1:
        chains = chain(key_negative, frozen, chains, plan.n_negative_steps - 1)[2]
    both = jnp.concatenate([latent.x, latent_draw(key_x, frozen, chains)])
    logits = rbm.hidden_logits(frozen, both)
    own = (jax.nn.sigmoid(latent.log_odds) - 0.5) * rbm.squared_weights(frozen, evidence.free)
    hidden = jax.nn.sigmoid(jnp.concatenate([logits[:n] - own, logits[n:]]))
    sums = jax.lax.stop_gradient(_sums(frozen, evidence, weight, both, hidden))
    cut = params.gauge.cuts[:, 0]
    value = (params.weights * sums.weights).sum() + params.site_bias @ sums.site_bias
    value = value + params.hidden_bias @ sums.hidden_bias
    value = value + (jnp.where(jnp.isfinite(cut), cut, jnp.zeros_like(cut)) * sums.cut).sum()
    state = Positive(hidden[:n], latent.factors, None, latent.x.mean(axis=0))
    return value, state, _drawn(key_h, hidden[n:])


def _sums(
    params: Params,
    evidence: Evidence,
    weight: PerRow,
    both: Float[Array, "both slot"],
    hidden: Float[Array, "both hidden"],
) -> _PhaseSums:
    """x hᵀ, x and h of rows minus chains. A cut has the slope Σ (m(q) − x̂), which complete rows need only in sum."""
    n, n_chains = weight.shape[0], both.shape[0] - weight.shape[0]
    counted = jnp.concatenate([weight, jnp.broadcast_to(-weight.sum() / n_chains, (n_chains,))])
    signed = counted[:, None] * hidden
    of_hidden, own, free = counted @ hidden, hidden[:n], evidence.free

    def complete() -> _PhaseSums:
        usual = weight.sum() * params.site_bias + params.weights @ (weight @ own)
        return _PhaseSums(counted @ both, jnp.einsum("ri,rk->ik", both, signed), of_hidden, usual - weight @ both[:n])

    def incomplete() -> _PhaseSums:
        mean = rbm.latent_mean(params, own)
        x = jnp.concatenate([jnp.where(free, mean, both[:n]), both[n:]])
        spread = jnp.einsum("ri,rk->ik", free.astype(weight.dtype), weight[:, None] * own * (1.0 - own))
        cut = weight @ rbm.only(mean - both[:n], ~free)
        return _PhaseSums(counted @ x, jnp.einsum("ri,rk->ik", x, signed) + params.weights * spread, of_hidden, cut)

    return jax.lax.cond(free.any(), incomplete, complete)
