"""§4.4, A.1.1, A.2.4 Probabilities of evidence: exact by enumeration where hidden units are few, estimated beyond.

log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h). With one or two Gaussian factors the sum runs over Gauss–Hermite nodes
of z as well; with more, or with many hidden units, importance sampling from mean-field gives it with a standard error.
Also here: the paper's own estimate (A.2.4), the mean of P(e | h) over samples of the model, which is biased downwards.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from thurbo import rbm
from thurbo._typing import Array, Float, PerRow, PRNGKey
from thurbo.evidence import Evidence
from thurbo.inference.gibbs import clamp
from thurbo.inference.meanfield import MeanField
from thurbo.rbm import LOG_2PI, Params

MAX_ENUMERATED = 20  # hidden units; 2^20 states
MAX_QUADRATURE_FACTORS = 2
_STATES_AT_ONCE = 8  # states mapped together: enough to fill the vector units, few enough to stay in cache
_STATES_IN_PORTION = 64  # samples whose log P(e | h) is held at one time, [portion, row]


class HiddenStates(NamedTuple):
    """Every joint state of the hidden layer, with the log-weight of its quadrature node (0 without factors)."""

    h: Float[Array, "state hidden"]
    z: Float[Array, "state factor"]
    log_weight: Float[Array, " state"]


def hidden_states(n_hidden: int, n_factors: int, dtype: np.dtype, n_nodes: int = 32) -> HiddenStates:
    """All h ∈ {0,1}^K times the Gauss–Hermite nodes of z ~ N(0, I)."""
    if n_hidden > MAX_ENUMERATED or n_factors > MAX_QUADRATURE_FACTORS:
        raise ValueError(f"{n_hidden} hidden units and {n_factors} factors are too many to enumerate")
    h = (np.arange(2**n_hidden)[:, None] >> np.arange(n_hidden)[None, :]) & 1
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    z, log_weight = np.zeros((1, 0)), np.zeros(1)
    for _ in range(n_factors):
        z = np.hstack([np.repeat(z, n_nodes, axis=0), np.tile(nodes[:, None], (len(z), 1))])
        log_weight = np.repeat(log_weight, n_nodes) + np.tile(np.log(weights / weights.sum()), len(log_weight))
    return HiddenStates(
        jnp.asarray(np.repeat(h, len(z), axis=0), dtype),
        jnp.asarray(np.tile(z, (len(h), 1)), dtype),
        jnp.asarray(np.tile(log_weight, len(h)), dtype),
    )


def log_joint(
    params: Params, evidence: Evidence, states: HiddenStates
) -> tuple[Float[Array, "state row"], Float[Array, "state rows_or_one"]]:
    """log Ω(h) + log P(e | h, z) and log Ω(h), each with its node's weight, for every state and row."""
    seen = evidence.seen(params)
    if evidence.sites_shared:
        return _log_joint_of_table(seen, evidence, states)
    region = evidence.region(seen.gauge)

    def one(state: HiddenStates) -> tuple[PerRow, PerRow]:
        h = jnp.broadcast_to(state.h, (evidence.n_rows, state.h.shape[0]))
        z = jnp.broadcast_to(state.z, (evidence.n_rows, state.z.shape[0])) + _prior(seen)
        prior = rbm.log_omega(seen, h, evidence.present) + state.log_weight
        return prior + region.log_mass(rbm.latent_mean(seen, h) + rbm.factor_shift(seen, z)), prior

    return jax.lax.map(jax.checkpoint(one), states, batch_size=min(_STATES_AT_ONCE, states.h.shape[0]))


def _prior(seen: Params) -> Float[Array, "#row factor"]:
    """Mean of z before any evidence."""
    if seen.factor_prior is None:
        return jnp.zeros((1, seen.n_factors), seen.weights.dtype)
    return seen.factor_prior


def _log_joint_of_table(
    seen: Params, evidence: Evidence, states: HiddenStates
) -> tuple[Float[Array, "state row"], Float[Array, "state rows_or_one"]]:
    """The same where rows share their sites: each state has one mean for all rows."""
    mean = rbm.latent_mean(seen, states.h)
    linear = (states.h @ seen.hidden_bias + states.log_weight)[:, None]
    if evidence.present is None:
        prior = linear + 0.5 * (mean * mean).sum(-1, keepdims=True)
    else:
        prior = linear + 0.5 * (mean * mean) @ evidence.present.astype(mean.dtype).T
    return prior + _log_mass_of_table(seen, evidence, states.h, states.z), prior


def _log_mass_of_table(
    seen: Params, evidence: Evidence, h: Float[Array, "state hidden"], z: Float[Array, "state factor"]
) -> Float[Array, "state row"]:
    """log P(e | h, z) for every state and row, where rows share their sites."""
    mean = rbm.latent_mean(seen, h) + rbm.factor_shift(seen, z)
    return evidence.log_mass_of_states(mean, seen.gauge)


def log_evidence_exact(params: Params, evidence: Evidence) -> PerRow:
    """log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h), by enumeration."""
    states = hidden_states(params.n_hidden, params.n_factors, params.weights.dtype)
    joint, prior = log_joint(params, evidence, states)
    return logsumexp(joint, axis=0) - logsumexp(prior, axis=0)


def log_partition_exact(params: Params) -> Float[Array, ""]:
    """log Z = (N/2) log 2π + log Σ_h Ω(h), A.1.1."""
    states = hidden_states(params.n_hidden, 0, params.weights.dtype)
    omega = jax.lax.map(
        lambda h: rbm.log_omega(params, h[None, :])[0], states.h, batch_size=min(256, states.h.shape[0])
    )
    return logsumexp(omega) + 0.5 * params.site_bias.shape[0] * LOG_2PI


def log_unnormalised_importance(
    key: PRNGKey, params: Params, evidence: Evidence, proposal: MeanField, n_draws: int
) -> tuple[PerRow, PerRow]:
    """log Σ_h Ω(h) P(e | h), by importance sampling from mean-field: estimate and standard error, in nats.

    The proposal's probabilities are kept away from 0 and 1 and its factor covariance widened, so that the weights
    stay bounded. Every row uses the same random numbers: its answer does not depend on its neighbours.
    """
    given = clamp(params, evidence)
    q = jnp.clip(proposal.hidden, 0.02, 0.98)
    n_hidden, n_factors = params.n_hidden, params.n_factors
    wide = jnp.sqrt(jnp.asarray(1.5, q.dtype))

    def one(draw_key: PRNGKey) -> PerRow:
        key_h, key_z = jax.random.split(draw_key)
        h = (jax.random.uniform(key_h, (1, n_hidden), q.dtype) < q).astype(q.dtype)
        log_q = (h * jnp.log(q) + (1.0 - h) * jnp.log1p(-q)).sum(-1)
        log_w = rbm.log_omega(given.params, h, given.present) - log_q
        mean = rbm.latent_mean(given.params, h)
        if given.whitener is not None:
            noise = jnp.broadcast_to(jax.random.normal(key_z, (1, n_factors), q.dtype), (q.shape[0], n_factors))
            z = proposal.factors + wide * rbm.coloured(given.whitener, noise)
            log_det = -jnp.log(jnp.diagonal(given.whitener, axis1=1, axis2=2)).sum(-1)
            log_qz = -0.5 * (noise**2).sum(-1) + log_det - n_factors * jnp.log(wide)
            log_w = log_w - 0.5 * ((z - _prior(given.params)) ** 2).sum(-1) - log_qz
            mean = mean + rbm.factor_shift(given.params, z)
        return log_w + given.region.log_mass(mean)

    log_w = jax.lax.map(one, jax.random.split(key, n_draws), batch_size=min(_STATES_AT_ONCE, n_draws))
    return log_mean_exp(log_w)


def log_mean_exp(log_w: Float[Array, "draw row"]) -> tuple[PerRow, PerRow]:
    """log of the mean weight, and its standard error by the delta method."""
    n = log_w.shape[0]
    top = log_w.max(axis=0)
    w = jnp.exp(log_w - top[None, :])
    mean = w.mean(axis=0)
    return top + jnp.log(mean), w.std(axis=0) / (mean * jnp.sqrt(jnp.asarray(n, w.dtype)))


def log_evidence_conservative(
    params: Params,
    evidence: Evidence,
    hidden: Float[Array, "sample hidden"],
    factors: Float[Array, "sample factor"] | None = None,
) -> tuple[PerRow, PerRow]:
    """log P(e) ≈ log (1/S) Σ_s P(e | h⁽ˢ⁾, z⁽ˢ⁾), A.2.4: estimate and standard error, in nats.

    `hidden` are independent samples of P(h) and `factors` of N(0, I), the same for every row. The mean is unbiased for
    P(e), so by Jensen its logarithm is too low in expectation: an estimate on the safe side, and far too low where
    P(e | h) is carried by states that few samples meet. The standard error is then close to 1, that of one sample
    among S, and says no more. Samples are worked through in portions, so memory does not grow with S.
    """
    n_samples = hidden.shape[0]
    if factors is None:
        factors = jnp.zeros((n_samples, 0), hidden.dtype)
    if factors.shape[1] != params.n_factors:
        raise ValueError(f"the model has {params.n_factors} factors, the samples {factors.shape[1]}")
    seen = evidence.seen(params)
    region = None if evidence.sites_shared else evidence.region(seen.gauge)

    def log_mass(h: Float[Array, "state hidden"], z: Float[Array, "state factor"]) -> Float[Array, "state row"]:
        if region is None:
            return _log_mass_of_table(seen, evidence, h, z)
        rows = evidence.n_rows

        def one(state: tuple[Array, Array]) -> PerRow:
            own_h, own_z = (jnp.broadcast_to(each, (rows, each.shape[0])) for each in state)
            return region.log_mass(rbm.latent_mean(seen, own_h) + rbm.factor_shift(seen, own_z + _prior(seen)))

        return jax.lax.map(one, (h, z), batch_size=min(_STATES_AT_ONCE, h.shape[0]))

    def add(total: _Weights, portion: tuple[Array, Array, Array]) -> tuple[_Weights, None]:
        h, z, real = portion
        return total.add(jnp.where(real[:, None], log_mass(h, z), -jnp.inf)), None

    size = min(_STATES_IN_PORTION, n_samples)
    n_portions = -(-n_samples // size)
    place = np.arange(n_portions * size)
    taken = np.minimum(place, n_samples - 1)  # the last portion is filled up, with samples that do not count
    portions = (hidden[taken], factors[taken], jnp.asarray(place < n_samples))
    portions = jax.tree.map(lambda leaf: leaf.reshape(n_portions, size, *leaf.shape[1:]), portions)
    total, _ = jax.lax.scan(add, _Weights.none(evidence.n_rows, params.weights.dtype), portions)
    return total.log_mean(n_samples)


class _Weights(NamedTuple):
    """Σ w and Σ w² of weights that come a portion at a time, in units of exp(top), the largest so far."""

    top: PerRow
    first: PerRow
    second: PerRow

    @classmethod
    def none(cls, n_rows: int, dtype: np.dtype) -> _Weights:
        zero = jnp.zeros(n_rows, dtype)
        return cls(jnp.full(n_rows, -jnp.inf, dtype), zero, zero)

    def add(self, log_w: Float[Array, "state row"]) -> _Weights:
        top = jnp.maximum(self.top, log_w.max(axis=0))
        unit = jnp.where(jnp.isfinite(top), top, jnp.zeros_like(top))  # all weights so far may be zero
        shrink, w = jnp.exp(self.top - unit), jnp.exp(log_w - unit[None, :])
        return _Weights(top, shrink * self.first + w.sum(0), shrink**2 * self.second + (w * w).sum(0))

    def log_mean(self, n: int) -> tuple[PerRow, PerRow]:
        """log of the mean weight, and its standard error by the delta method."""
        some = self.first > 0
        first = jnp.where(some, self.first, jnp.ones_like(self.first))
        # n Σw² / (Σw)² − 1 is the squared coefficient of variation, of n independent weights.
        spread = jnp.maximum(n * self.second / first**2 - 1.0, 0.0) / n
        return jnp.where(some, self.top + jnp.log(first / n), -jnp.inf), jnp.where(some, jnp.sqrt(spread), jnp.inf)
