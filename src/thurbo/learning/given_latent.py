"""§5.1 Both phases of the likelihood gradient given x, with the hidden units integrated out: `integrate="hidden"`.

Eq. (8) needs E[x hᵀ]. `phases` and `objective` integrate over x given h; here it is E[x P(h | x)ᵀ], as is usual for
RBMs: the chains have x and P(h | x) anyway, so that the mean of x given the next h need not be computed. In a chain at
equilibrium both have the same expectation. Of the data, mean-field is q(x) q(h), and x̂ qᵀ is the gradient of its bound
at the last q(x) and the q(h) that follows from it, where `objective.positive_part` computes q(x) once more.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from thurbo import rbm
from thurbo._typing import Array, Chains, Float, Hidden, PerRow, PRNGKey, Rows, RowsMask
from thurbo.evidence import Evidence
from thurbo.inference import noise
from thurbo.inference.gibbs import clamp
from thurbo.inference.meanfield import LatentMean, factor_variance, latent_mean
from thurbo.learning.phases import Positive, positive
from thurbo.learning.plan import Plan
from thurbo.rbm import Params

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
    return rbm.only(mean + noise.normals(key, mean.shape, mean.dtype), present)


def _drawn(key: PRNGKey, probability: Hidden) -> Hidden:
    return (noise.uniforms(key, probability.shape, probability.dtype) < probability).astype(probability.dtype)


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


class _Sums(NamedTuple):
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
) -> _Sums:
    """x hᵀ, x and h of rows minus chains. A cut has the slope Σ (m(q) − x̂), which complete rows need only in sum."""
    n, n_chains = weight.shape[0], both.shape[0] - weight.shape[0]
    counted = jnp.concatenate([weight, jnp.broadcast_to(-weight.sum() / n_chains, (n_chains,))])
    signed = counted[:, None] * hidden
    of_hidden, own, free = counted @ hidden, hidden[:n], evidence.free

    def complete() -> _Sums:
        usual = weight.sum() * params.site_bias + params.weights @ (weight @ own)
        return _Sums(counted @ both, jnp.einsum("ri,rk->ik", both, signed), of_hidden, usual - weight @ both[:n])

    def incomplete() -> _Sums:
        mean = rbm.latent_mean(params, own)
        x = jnp.concatenate([jnp.where(free, mean, both[:n]), both[n:]])
        spread = jnp.einsum("ri,rk->ik", free.astype(weight.dtype), weight[:, None] * own * (1.0 - own))
        cut = weight @ rbm.only(mean - both[:n], ~free)
        return _Sums(counted @ x, jnp.einsum("ri,rk->ik", x, signed) + params.weights * spread, of_hidden, cut)

    return jax.lax.cond(free.any(), incomplete, complete)
