"""§4.3, A.1.2 Mean-field: q(h) q(z) q(x), with each region's own structure kept inside q(x).

Slots that are free are integrated out, not clamped to their own mean: then h would depend on itself. Deterministic,
differentiable through a fixed number of damped steps, which is what multi-prediction training needs. Orders take the
slope of the paper's Gumbel mass (A.3) unless the exact one is requested: smooth, and cheap to differentiate again.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from thurbo._typing import Array, Factors, Float, Hidden, Rows
from thurbo.latent import rbm
from thurbo.latent.constraints.base import Region
from thurbo.latent.constraints.order import Mass
from thurbo.latent.evidence import Evidence, clamp
from thurbo.latent.rbm import Params

PREDICTION_STEPS, CONVERGED_STEPS = 5, 30  # for models that are trained by prediction through them, and otherwise

LEAST_CHANCE = 1e-4  # of either value of a hidden unit where the steps start

_State = tuple[Hidden, Factors, Rows]  # log-odds of h, z, and the mean of x given q(h)


class MeanField(NamedTuple):
    """q(h_k = 1), its log-odds, and the mean of z with the whitener of its covariance.

    `felt` is the mean over rows of the input of the hidden units from each slot, x̂ − Vz, in the last step. `mean` is
    m(q), the mean of every slot's x without factors.
    """

    hidden: Hidden
    log_odds: Hidden
    factors: Factors
    whitener: Float[Array, "row factor factor"] | None
    felt: Float[Array, " slot"]
    mean: Rows


def mean_field(
    params: Params,
    evidence: Evidence,
    n_steps: int,
    damping: float = 0.5,
    mass: Mass = "gumbel",
    latent_bound: float | None = None,
    n_felt: int | None = None,
    known: Region | None = None,
) -> MeanField:
    """Iterate q_k ← σ(γ_k + Σ_i W_ik x̂_i), x̂_i the mean of x_i within Ω, with free slots integrated out.

    A free slot's share of the log-odds of h_k is W_ik (μ_i − W_ik (q_k − ½)): ½‖m(h)‖² differenced in h_k. Each step
    keeps a share `damping` of the old log-odds, since all units move at once. `mass` says whose slope gives x̂ of an
    order: training and queries must agree on it, since prediction is trained through these very steps. What the hidden
    units see of an x̂ further than `latent_bound` from its site's mean is cut there (§6). `felt` is of the first
    `n_felt` rows, by default of all. `known` is the region of the evidence, where the caller has it.
    """
    given = clamp(params, evidence, known)
    seen = given.params
    region = given.region if mass == "exact" else given.region.smooth()
    self_coupling = rbm.squared_weights(seen, evidence.free)

    usual = rbm.latent_mean(seen, jnp.clip(params.hidden_mean, LEAST_CHANCE, 1.0 - LEAST_CHANCE)[None, :])

    def one(state: _State, _: None) -> tuple[_State, Float[Array, " slot"]]:
        log_odds, z, mean = state
        q = jax.nn.sigmoid(log_odds)
        shift = rbm.factor_shift(seen, z)
        x = region.mean(mean + shift)
        if latent_bound is not None:
            x = jnp.clip(x, usual - latent_bound, usual + latent_bound)
        if given.whitener is not None:
            z = rbm.factor_mean(seen, rbm.only(x - mean, given.observed), given.whitener)
        seen_of_x = rbm.only(x - shift, given.present)
        fresh = rbm.hidden_logits(seen, seen_of_x) - (q - 0.5) * self_coupling
        log_odds = damping * log_odds + (1.0 - damping) * fresh
        return (log_odds, z, rbm.latent_mean(seen, jax.nn.sigmoid(log_odds))), seen_of_x[:n_felt].mean(axis=0)

    rows, log_odds = evidence.n_rows, rbm.usual_log_odds(params, seen, LEAST_CHANCE)
    mean = jnp.broadcast_to(rbm.latent_mean(seen, jax.nn.sigmoid(log_odds)), evidence.observed.shape)
    z = jnp.zeros((rows, params.n_factors), log_odds.dtype) if seen.factor_prior is None else seen.factor_prior
    start = jnp.broadcast_to(log_odds, (rows, params.n_hidden)), z, mean
    (log_odds, z, mean), felt = jax.lax.scan(one, start, None, length=n_steps)
    return MeanField(jax.nn.sigmoid(log_odds), log_odds, z, given.whitener, jax.lax.stop_gradient(felt[-1]), mean)


def predictive(params: Params, q: MeanField, slots_from: Evidence) -> tuple[Rows, Rows]:
    """Mean and deviation of every slot's x under q: 1 + Σ_k W_ik² q_k (1 − q_k) + V_i Cov(z) V_iᵀ.

    The predictive distribution of a cell, with the uncertainty about h and z that a plug-in mean leaves out.
    """
    seen = slots_from.seen(params)
    # In a task, parameters are relative to the items that are shown: these may be others.
    mean = q.mean if seen.spread is None else rbm.latent_mean(seen, q.hidden)
    return mean + rbm.factor_shift(seen, q.factors), deviation(seen, q.hidden, q.whitener)


def deviation(seen: Params, hidden: Hidden, whitener: Float[Array, "row factor factor"] | None) -> Rows:
    """√(1 + Σ_k W_ik² q_k (1 − q_k) + V_i Cov(z) V_iᵀ) for every slot."""
    added = rbm.to_slots(seen.weights**2, hidden * (1.0 - hidden))
    if whitener is not None:
        added = added + factor_variance(seen, whitener)
    return jnp.sqrt(1.0 + (added if seen.spread is None else added * seen.spread))


def factor_variance(seen: Params, whitener: Float[Array, "row factor factor"]) -> Rows:
    """V_i (I + V_oᵀV_o)⁻¹ V_iᵀ for every slot."""
    v = seen.loadings
    if v.ndim == 3:
        return (jnp.einsum("rfg,rig->rif", whitener, v) ** 2).sum(axis=-1)
    # Where rows share their sites, one product of matrices: [row, pair of factors] by [pair of factors, site].
    covariance = jnp.einsum("rfg,rfh->rgh", whitener, whitener)
    return covariance.reshape(len(covariance), v.shape[1] ** 2) @ rbm.products(v).T
