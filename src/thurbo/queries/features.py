"""§4.3 Features of rows: the hidden units and factors given the evidence of a row, by the method in `How`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from thurbo import _runtime
from thurbo._programs import Program
from thurbo._typing import Factors, Hidden, PRNGKey
from thurbo.evidence import Evidence, Unobserved
from thurbo.inference.likelihood import hidden_states, log_joint
from thurbo.inference.meanfield import mean_field
from thurbo.inference.posterior import Method, expectation, hidden_probability
from thurbo.rbm import Params

FEW_SITES = 300  # of a small survey


@dataclass(frozen=True)
class How:
    """The inference method of a query, and its number of steps and samples."""

    method: Method = "mean-field"
    n_steps: int = 30
    n_draws: int = 500
    unobserved: Unobserved = "marginalize"
    seed: int = 0

    def key(self) -> PRNGKey:
        """The same random numbers for every query: the result for a row depends on that row alone."""
        return jax.random.key(self.seed)


class Features(NamedTuple):
    """P(h_k = 1 | e), its log-odds, and the factor means."""

    hidden: Hidden
    log_odds: Hidden
    factors: Factors


def work(params: Params) -> float:
    """How long a query runs: it must not depend on the number of rows, or more rows would be another program."""
    return _runtime.LITTLE_WORK if params.site_bias.shape[0] <= FEW_SITES else _runtime.MUCH_WORK


def features(params: Params, evidence: Evidence, how: How) -> Features:
    """The posterior of the hidden layer given each row."""
    found: Features = _features.for_work(work(params))(params, evidence, how)
    return found


def _like(*_: Any) -> Any:
    """A tree like the features."""
    leaves: Any = [0] * len(Features._fields)
    return Features(*leaves)


def hidden_layer(params: Params, evidence: Evidence, how: How) -> Features:
    """The same, not compiled."""
    if how.method == "mean-field":
        q = mean_field(params, evidence, how.n_steps)
        return Features(q.hidden, q.log_odds, q.factors)
    if how.method == "exact" and params.n_factors == 0:
        states = hidden_states(params.n_hidden, 0, params.weights.dtype)
        joint, _ = log_joint(params, evidence, states)
        on = (states.h > 0.5)[:, None, :]
        log_odds = logsumexp(jnp.where(on, joint[:, :, None], -jnp.inf), axis=0) - logsumexp(
            jnp.where(on, -jnp.inf, joint[:, :, None]), axis=0
        )
        return Features(jax.nn.sigmoid(log_odds), log_odds, jnp.zeros((evidence.n_rows, 0), params.weights.dtype))
    hidden, factors = expectation(hidden_probability, params, evidence, how.method, key=how.key(), n_draws=how.n_draws)
    clipped = jnp.clip(hidden, 1e-6, 1.0 - 1e-6)
    return Features(hidden, jnp.log(clipped) - jnp.log1p(-clipped), factors)


_features = Program(hidden_layer, outputs=_like, static_argnames=("how",))
