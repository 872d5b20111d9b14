"""§5.1 The two phases of the likelihood gradient, Eq. (8): statistics under the data, and under the model alone.

Both return states of the hidden layer; x is integrated out, which never increases the variance. Each phase is a hidden
state at which the gradient of log Ω is taken, with evidence and without.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from thurbo import rbm
from thurbo._typing import Array, Chains, Factors, Float, Hidden, PRNGKey, Rows
from thurbo.evidence import Evidence
from thurbo.inference import gibbs, tempering
from thurbo.inference.meanfield import mean_field
from thurbo.learning.plan import Plan
from thurbo.rbm import Params


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
        return tempering.run(key, start, params, plan.n_negative_steps, plan.n_temperatures)
    seen = evidence.seen(params)
    key_start, key_run = jax.random.split(key)
    h = (jax.random.uniform(key_start, start.shape, start.dtype) < start).astype(start.dtype)
    return gibbs.prior_run(key_run, h, seen, plan.n_negative_steps, evidence.present)
