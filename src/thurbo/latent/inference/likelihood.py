"""§4.4, A.1.1 Probabilities of evidence by enumeration, where hidden units are few (annealing.py where they are not).

log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h). With one or two Gaussian factors the sum runs over Gauss–Hermite nodes
of z as well.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from thurbo._typing import Array, Float, PerRow
from thurbo.latent import rbm
from thurbo.latent.evidence import Evidence
from thurbo.latent.rbm import LOG_2PI, Params

MAX_ENUMERATED = 20  # hidden units; 2^20 states
MAX_QUADRATURE_FACTORS = 2
_STATES_AT_ONCE = 8  # states mapped together: enough to fill the vector units, few enough to stay in cache


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
    if evidence.sites_shared:  # each state has one mean for all rows
        mean = rbm.latent_mean(seen, states.h)
        linear = (states.h @ seen.hidden_bias + states.log_weight)[:, None]
        if evidence.present is None:
            prior = linear + 0.5 * (mean * mean).sum(-1, keepdims=True)
        else:
            prior = linear + 0.5 * (mean * mean) @ evidence.present.astype(mean.dtype).T
        return prior + evidence.log_mass_of_states(mean + rbm.factor_shift(seen, states.z), seen.gauge), prior
    region = evidence.region(seen.gauge)

    def one(state: HiddenStates) -> tuple[PerRow, PerRow]:
        h = jnp.broadcast_to(state.h, (evidence.n_rows, state.h.shape[0]))
        z = jnp.broadcast_to(state.z, (evidence.n_rows, state.z.shape[0]))
        z = z if seen.factor_prior is None else z + seen.factor_prior
        prior = rbm.log_omega(seen, h, evidence.present) + state.log_weight
        return prior + region.log_mass(rbm.latent_mean(seen, h) + rbm.factor_shift(seen, z)), prior

    return jax.lax.map(jax.checkpoint(one), states, batch_size=min(_STATES_AT_ONCE, states.h.shape[0]))


def log_evidence_exact(params: Params, evidence: Evidence) -> PerRow:
    """log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h), by enumeration."""
    states = hidden_states(params.n_hidden, params.n_factors, params.weights.dtype)
    joint, prior = log_joint(params, evidence, states)
    return logsumexp(joint, axis=0) - logsumexp(prior, axis=0)


def log_partition_exact(params: Params) -> Float[Array, ""]:
    """log Z = (N/2) log 2π + log Σ_h Ω(h), A.1.1."""
    states = hidden_states(params.n_hidden, 0, params.weights.dtype)
    at_once = min(256, states.h.shape[0])
    omega = jax.lax.map(lambda h: rbm.log_omega(params, h[None, :])[0], states.h, batch_size=at_once)
    return logsumexp(omega) + 0.5 * params.site_bias.shape[0] * LOG_2PI


def log_normaliser_exact(params: Params, evidence: Evidence) -> PerRow:
    """log Σ_h Ω(h) over each row's own sites, by enumeration."""
    seen = evidence.seen(params)
    states = hidden_states(params.n_hidden, 0, params.weights.dtype).h

    def one(h: Float[Array, " hidden"]) -> PerRow:
        return rbm.log_omega(seen, jnp.broadcast_to(h, (evidence.n_rows, h.shape[0])), evidence.present)

    return logsumexp(jax.lax.map(one, states, batch_size=min(_STATES_AT_ONCE, states.shape[0])), axis=0)
