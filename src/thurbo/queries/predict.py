"""§4.3 Predictions: features of rows, and the distribution of one variable given the rest of the row.

A level column's answer is a vector of probabilities, a measured column's a distribution function on a grid around its
mean. Both are expectations over the hidden state, by whichever method `How` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr

from thurbo import truncnorm
from thurbo._typing import Array, Factors, Float, Hidden, Int, PerRow, PRNGKey
from thurbo.evidence import Evidence
from thurbo.inference.likelihood import hidden_states, log_joint
from thurbo.inference.meanfield import mean_field
from thurbo.inference.posterior import Belief, Method, expectation, hidden_probability
from thurbo.packing import by_chunks
from thurbo.rbm import Params

GRID_POINTS = 161
GRID_REACH = 5.0  # deviations either side of the mean


@dataclass(frozen=True)
class How:
    """Which inference answers a query, and how long it works."""

    method: Method = "mean-field"
    n_steps: int = 30
    n_draws: int = 500
    seed: int = 0

    def key(self) -> PRNGKey:
        """The same random numbers for every query: an answer depends on the row alone."""
        return jax.random.key(self.seed)


class Features(NamedTuple):
    """P(h_k = 1 | e), its log-odds, and the factor means."""

    hidden: Hidden
    log_odds: Hidden
    factors: Factors


@partial(jax.jit, static_argnames=("how",))
def features(params: Params, evidence: Evidence, how: How) -> Features:
    """What a row says about the hidden layer."""
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
    hidden, factors = expectation(
        hidden_probability, params, evidence, how.method, key=how.key(), n_draws=how.n_draws
    )
    clipped = jnp.clip(hidden, 1e-6, 1.0 - 1e-6)
    return Features(hidden, jnp.log(clipped) - jnp.log1p(-clipped), factors)


@partial(jax.jit, static_argnames=("how",))
def _level_probabilities(params: Params, evidence: Evidence, site: Int[Array, ""], how: How) -> Float[Array, "row level"]:
    cuts = params.gauge.cuts[site]
    lower = jnp.concatenate([jnp.full(1, -jnp.inf, cuts.dtype), cuts])
    upper = jnp.concatenate([cuts, jnp.full(1, jnp.inf, cuts.dtype)])
    real = jnp.isfinite(lower) | (lower == -jnp.inf)  # beyond a site's last level both ends are +∞

    def function(belief: Belief) -> Float[Array, "row level"]:
        mean, deviation = belief.mean[:, site, None], belief.deviation[:, site, None]
        mass = truncnorm.log_mass(
            mean / deviation,
            jnp.where(real, lower, 0.0)[None, :] / deviation,
            jnp.where(real, upper, 1.0)[None, :] / deviation,
        )
        return jnp.where(real[None, :], jnp.exp(mass), jnp.zeros_like(mass))

    return expectation(
        function, params, evidence, how.method, n_steps=how.n_steps, key=how.key(), n_draws=how.n_draws
    )


@partial(jax.jit, static_argnames=("how",))
def _measured(
    params: Params, evidence: Evidence, site: Int[Array, ""], how: How
) -> tuple[PerRow, PerRow, Float[Array, "row grid"]]:
    """Mean and deviation of x at a site, and its distribution function on the grid around them."""
    ask = partial(
        expectation,
        params=params,
        evidence=evidence,
        method=how.method,
        n_steps=how.n_steps,
        key=how.key(),
        n_draws=how.n_draws,
    )

    def moments(belief: Belief) -> tuple[PerRow, PerRow]:
        mean, deviation = belief.mean[:, site], belief.deviation[:, site]
        return mean, deviation**2 + mean**2

    first, second = ask(moments)
    spread = jnp.sqrt(jnp.maximum(second - first**2, 1e-12))
    grid = first[:, None] + spread[:, None] * _grid(spread.dtype)[None, :]

    def distribution(belief: Belief) -> Float[Array, "row grid"]:
        return ndtr((grid - belief.mean[:, site, None]) / belief.deviation[:, site, None])

    return first, spread, ask(distribution)


def _grid(dtype: np.dtype) -> Float[Array, " grid"]:
    return jnp.linspace(-GRID_REACH, GRID_REACH, GRID_POINTS, dtype=dtype)


def level_probabilities(params: Params, evidence: Evidence, site: int, n_levels: int, how: How) -> np.ndarray:
    """P(level | evidence) of one level site for every row: [row, level], each row summing to one."""
    where = jnp.asarray(site, jnp.int32)
    raw = by_chunks(lambda rows: _level_probabilities(params, rows, where, how), evidence)
    raw = np.asarray(raw, np.float64)[:, :n_levels]
    return raw / raw.sum(axis=1, keepdims=True)


class Measured(NamedTuple):
    """The predicted distribution of one measured site in standard units: a grid [row, g] and P(z ≤ grid)."""

    mean: np.ndarray
    deviation: np.ndarray
    grid: np.ndarray
    distribution: np.ndarray

    def quantile(self, level: float) -> np.ndarray:
        """z with P(z ≤ ·) = level, by interpolation on the grid."""
        rows = np.arange(len(self.mean))
        above = np.clip((self.distribution < level).sum(axis=1), 1, self.grid.shape[1] - 1)
        low, high = self.distribution[rows, above - 1], self.distribution[rows, above]
        share = np.clip((level - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
        return self.grid[rows, above - 1] + share * (self.grid[rows, above] - self.grid[rows, above - 1])

    def mode(self) -> np.ndarray:
        """Where the density is highest."""
        steps = np.diff(self.distribution, axis=1)
        best = steps.argmax(axis=1)
        rows = np.arange(len(self.mean))
        return 0.5 * (self.grid[rows, best] + self.grid[rows, best + 1])


def measured(params: Params, evidence: Evidence, site: int, how: How) -> Measured:
    """The distribution of one measured site given the evidence of each row, in standard units."""
    where = jnp.asarray(site, jnp.int32)
    mean, spread, distribution = by_chunks(lambda rows: _measured(params, rows, where, how), evidence)
    scale = float(params.gauge.scale[site])
    mean, spread = scale * np.asarray(mean, np.float64), scale * np.asarray(spread, np.float64)
    grid = mean[:, None] + spread[:, None] * np.linspace(-GRID_REACH, GRID_REACH, GRID_POINTS)
    return Measured(mean, spread, grid, np.maximum.accumulate(distribution, axis=1).astype(np.float64))
