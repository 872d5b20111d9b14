"""§4.3, §4.4, A.1.1 What the evidence of a row says about hidden units and other variables; its probability, exactly.

`expectation` averages a function of the hidden state over P(h, z | e): "exact" sums over all states, "gibbs" averages
over a chain, "mean-field" plugs in q with its variances. Each row's answer is the same whatever its neighbours.

Enumeration also gives log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h), where hidden units are few (annealing.py where
they are not). With one or two Gaussian factors the sum runs over Gauss–Hermite nodes of z as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from thurbo._typing import Array, Factors, Float, Hidden, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent import rbm
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.meanfield import deviation, mean_field
from thurbo.latent.rbm import LOG_2PI, Params, Sites

MAX_ENUMERATED = 20  # hidden units; 2^20 states
MAX_QUADRATURE_FACTORS = 2
_STATES_AT_ONCE = 8  # states mapped together: enough to fill the vector units, few enough to stay in cache

Method = Literal["exact", "gibbs", "mean-field"]


class Belief(NamedTuple):
    """One state of the hidden layer, or a summary of it: what it says about any site of the model.

    hidden    h, or its probabilities
    factors   z, or its mean
    state     h where this is one state; None under mean-field, where `hidden` has a variance
    whitener  U with UᵀU = Cov(z) under mean-field; None for one state, or without factors
    """

    hidden: Hidden
    factors: Factors
    state: Hidden | None = None
    whitener: Float[Array, "row factor factor"] | None = None

    def at(
        self, params: Params, sites: Sites, together: bool = False, present: RowsMask | None = None
    ) -> tuple[Rows, Rows]:
        """Mean and standard deviation of x at some sites, [row, site]: the same for all rows, or each row's own.

        With `together` the sites of a row are compared with each other: values are relative to their mean, which
        leaves the variance of differences. `present` says which of them count.
        """
        tasks = ((0, 1, sites.shape[-1]),) if together else ()
        if together and sites.ndim == 1:
            sites = jnp.broadcast_to(sites, (self.hidden.shape[0], sites.shape[0]))
        own = rbm.gather(params, sites, tasks=tasks, present=present)
        h = self.hidden if self.state is None else self.state
        mean = rbm.latent_mean(own, h) + rbm.factor_shift(own, self.factors)
        return mean, jnp.ones_like(mean) if self.state is not None else deviation(own, h, self.whitener)


Function = Callable[..., Any]  # of a belief, and of what differs between rows
Weights = Float[Array, "state #row"]  # of every enumerated state, such as P(h, z | e)


def expectation(
    function: Function,
    params: Params,
    evidence: Evidence,
    method: Method,
    *,
    n_steps: int = 30,
    key: PRNGKey | None = None,
    n_draws: int = 200,
    weights: Weights | None = None,
    rowwise: tuple[Array, ...] = (),
) -> Any:
    """E[function(belief) | e] for every row, of a function that is itself an expectation given the hidden state.

    The function works row by row on whatever rows it is given, and knows nothing else about them: in a table it is
    asked once per state of the hidden layer, not once per row; unless it takes arguments that differ between
    rows, `rowwise`, each with a row axis. `weights` are `state_weights`, where they are known.
    """
    if method == "mean-field":
        return function(summary(params, evidence, n_steps), *rowwise)
    if method == "exact":
        weights = state_weights(params, evidence) if weights is None else weights
        return _by_enumeration(function, params, evidence, weights, rowwise)
    if key is None:
        raise ValueError("method 'gibbs' needs a key")
    return _by_gibbs(key, function, params, evidence, n_draws, rowwise)


def summary(params: Params, evidence: Evidence, n_steps: int) -> Belief:
    """What the evidence says of the hidden layer, by mean-field."""
    q = mean_field(params, evidence, n_steps)
    return Belief(q.hidden, q.factors, None, q.whitener)


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
    both = np.repeat(h, len(z), axis=0), np.tile(z, (len(h), 1)), np.tile(log_weight, len(h))
    return HiddenStates(*(jnp.asarray(each, dtype) for each in both))


def log_joint(params: Params, evidence: Evidence, states: HiddenStates) -> tuple[Weights, Weights]:
    """log Ω(h) + log P(e | h, z) and log Ω(h), each with its node's weight, for every state and row.

    log Ω(h) is that of all rows, [state, 1], where they share their sites and all of these are present.
    """
    seen = evidence.seen(params)
    if evidence.sites_shared:  # each state has one mean for all rows
        mean = rbm.latent_mean(seen, states.h)
        prior = (states.h @ seen.hidden_bias + states.log_weight)[:, None]
        if evidence.present is None:
            prior = prior + 0.5 * (mean * mean).sum(-1, keepdims=True)
        else:
            prior = prior + 0.5 * (mean * mean) @ evidence.present.astype(mean.dtype).T
        return prior + evidence.log_mass_of_states(mean + rbm.factor_shift(seen, states.z), seen.gauge), prior
    region = evidence.region(seen.gauge)

    def one(state: HiddenStates) -> tuple[PerRow, PerRow]:
        h, z = (jnp.broadcast_to(each, (evidence.n_rows, len(each))) for each in (state.h, state.z))
        z = z if seen.factor_prior is None else z + seen.factor_prior
        prior = rbm.log_omega(seen, h, evidence.present) + state.log_weight
        return prior + region.log_mass(rbm.latent_mean(seen, h) + rbm.factor_shift(seen, z)), prior

    return jax.lax.map(jax.checkpoint(one), states, batch_size=min(_STATES_AT_ONCE, len(states.h)))


def _joint(params: Params, evidence: Evidence) -> tuple[Weights, Weights]:
    """`log_joint` of all states."""
    return log_joint(params, evidence, hidden_states(params.n_hidden, params.n_factors, params.weights.dtype))


def state_weights(params: Params, evidence: Evidence) -> Weights:
    """P(h, z | e) of every enumerated state."""
    joint, _ = _joint(params, evidence)
    return jnp.exp(joint - logsumexp(joint, axis=0, keepdims=True))


def log_evidence_exact(params: Params, evidence: Evidence) -> PerRow:
    """log P(e) = log Σ_h Ω(h) P(e | h) − log Σ_h Ω(h), by enumeration."""
    joint, prior = _joint(params, evidence)
    return logsumexp(joint, axis=0) - logsumexp(prior, axis=0)


def log_partition_exact(params: Params) -> Float[Array, ""]:
    """log Z = (N/2) log 2π + log Σ_h Ω(h), A.1.1."""
    states = hidden_states(params.n_hidden, 0, params.weights.dtype).h
    omega = jax.lax.map(lambda h: rbm.log_omega(params, h[None, :])[0], states, batch_size=min(256, len(states)))
    return logsumexp(omega) + 0.5 * params.site_bias.shape[0] * LOG_2PI


def log_normaliser_exact(params: Params, evidence: Evidence) -> PerRow:
    """log Σ_h Ω(h) over each row's own sites, by enumeration."""
    seen = evidence.seen(params)
    states = hidden_states(params.n_hidden, 0, params.weights.dtype).h

    def one(h: Float[Array, " hidden"]) -> PerRow:
        return rbm.log_omega(seen, jnp.broadcast_to(h, (evidence.n_rows, len(h))), evidence.present)

    return logsumexp(jax.lax.map(one, states, batch_size=min(_STATES_AT_ONCE, len(states))), axis=0)


def _by_enumeration(
    function: Function, params: Params, evidence: Evidence, weights: Weights, rowwise: tuple[Array, ...]
) -> Any:
    states = hidden_states(params.n_hidden, params.n_factors, params.weights.dtype)
    if evidence.sites_shared and not rowwise:  # a state means the same in every row: ask once per state, then average
        by_state = function(Belief(states.h, states.z, states.h))
        return jax.tree.map(lambda value: jnp.einsum("hr,h...->r...", weights, value), by_state)
    seen, rows = evidence.seen(params), weights.shape[1]
    prior = 0.0 if seen.factor_prior is None else seen.factor_prior

    def of_state(weight: PerRow, h: Float[Array, " hidden"], z: Float[Array, " factor"]) -> Any:
        h = jnp.broadcast_to(h, (rows, h.shape[0]))
        found = function(Belief(h, jnp.broadcast_to(z, (rows, z.shape[0])) + prior, h), *rowwise)
        return jax.tree.map(lambda v: v * weight.reshape(-1, *(1,) * (v.ndim - 1)), found)

    def add(total: Any, item: tuple) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, of_state(*item)), None

    zero = jax.tree.map(jnp.zeros_like, jax.eval_shape(of_state, weights[0], states.h[0], states.z[0]))
    total, _ = jax.lax.scan(add, zero, (weights, states.h, states.z))
    return total


def _by_gibbs(
    key: PRNGKey, function: Function, params: Params, evidence: Evidence, n_draws: int, rowwise: tuple[Array, ...]
) -> Any:
    """Average over one chain per row, after as many burn-in rounds. Every row uses the same random numbers.

    Mapping over rows with one key draws the noise once, for a single row: a row's answer then depends on nothing but
    the row, and the random numbers cost next to nothing.
    """

    def of_row(one: Evidence, *values: Array) -> Any:
        own = [value[None] for value in values]
        given = gibbs.clamp(params, one)
        state = gibbs.start(jax.random.fold_in(key, 0), given, mean_field(params, one, 10).hidden)
        state = gibbs.run(jax.random.fold_in(key, 1), state, given, n_draws)

        def add(carry: tuple, i: Array) -> tuple[tuple, None]:
            state, total = carry
            state = gibbs.step(jax.random.fold_in(key, i), state, given)
            # h given x and z is known in closed form, so its own statistic need not carry the noise of the draw.
            shift = rbm.factor_shift(given.params, state.z)
            h = jax.nn.sigmoid(rbm.hidden_logits(given.params, rbm.only(state.x - shift, given.present)))
            belief = Belief(h, state.z, state.h)
            return (state, jax.tree.map(jnp.add, total, function(belief, *own))), None

        like = jax.eval_shape(lambda: function(Belief(state.h, state.z, state.h), *own))
        zero = jax.tree.map(jnp.zeros_like, like)
        (_, total), _ = jax.lax.scan(add, (state, zero), jnp.arange(2, n_draws + 2))
        return jax.tree.map(lambda v: v[0] / n_draws, total)

    return evidence.by_row(of_row, *rowwise)


def hidden_probability(belief: Belief) -> tuple[Hidden, Factors]:
    """The features of a row: P(h_k = 1 | e) and the factor means."""
    return belief.hidden, belief.factors
