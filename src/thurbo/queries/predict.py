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

GRID_POINTS = 513
GRID_REACH = 5.0  # deviations beyond the outermost means


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
    hidden, factors = expectation(hidden_probability, params, evidence, how.method, key=how.key(), n_draws=how.n_draws)
    clipped = jnp.clip(hidden, 1e-6, 1.0 - 1e-6)
    return Features(hidden, jnp.log(clipped) - jnp.log1p(-clipped), factors)


@partial(jax.jit, static_argnames=("how",))
def _level_probabilities(
    params: Params, evidence: Evidence, site: Int[Array, ""], how: How
) -> Float[Array, "row level"]:
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

    return expectation(function, params, evidence, how.method, n_steps=how.n_steps, key=how.key(), n_draws=how.n_draws)


@partial(jax.jit, static_argnames=("how",))
def _moments(params: Params, evidence: Evidence, site: Int[Array, ""], how: How) -> tuple[PerRow, PerRow]:
    """Mean and deviation of x at a site."""

    def function(belief: Belief) -> tuple[PerRow, PerRow]:
        mean, deviation = belief.mean[:, site], belief.deviation[:, site]
        return mean, deviation**2 + mean**2

    first, second = expectation(
        function, params, evidence, how.method, n_steps=how.n_steps, key=how.key(), n_draws=how.n_draws
    )
    return first, jnp.sqrt(jnp.maximum(second - first**2, 1e-12))


@partial(jax.jit, static_argnames=("how",))
def _distribution(
    params: Params, evidence: Evidence, site: Int[Array, ""], grid: Float[Array, " grid"], how: How
) -> Float[Array, "row grid"]:
    """P(x ≤ ·) at a site, on one grid for all rows."""

    def function(belief: Belief) -> Float[Array, "row grid"]:
        return ndtr((grid[None, :] - belief.mean[:, site, None]) / belief.deviation[:, site, None])

    return expectation(function, params, evidence, how.method, n_steps=how.n_steps, key=how.key(), n_draws=how.n_draws)


def level_probabilities(params: Params, evidence: Evidence, site: int, n_levels: int, how: How) -> np.ndarray:
    """P(level | evidence) of one level site for every row: [row, level], each row summing to one."""
    where = jnp.asarray(site, jnp.int32)
    raw = by_chunks(lambda rows: _level_probabilities(params, rows, where, how), evidence)
    raw = np.asarray(raw, np.float64)[:, :n_levels]
    return raw / raw.sum(axis=1, keepdims=True)


class Measured(NamedTuple):
    """The predicted distribution of one measured site in standard units: a grid and P(z ≤ grid) by row."""

    mean: np.ndarray  # [row]
    deviation: np.ndarray  # [row]
    grid: np.ndarray  # [point]
    distribution: np.ndarray  # [row, point]

    def quantile(self, level: float) -> np.ndarray:
        """z with P(z ≤ ·) = level, by interpolation on the grid."""
        rows = np.arange(len(self.mean))
        above = np.clip((self.distribution < level).sum(axis=1), 1, len(self.grid) - 1)
        low, high = self.distribution[rows, above - 1], self.distribution[rows, above]
        share = np.clip((level - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
        return self.grid[above - 1] + share * (self.grid[above] - self.grid[above - 1])

    def mode(self) -> np.ndarray:
        """Where the density is highest."""
        best = np.diff(self.distribution, axis=1).argmax(axis=1)
        return 0.5 * (self.grid[best] + self.grid[best + 1])


def measured(params: Params, evidence: Evidence, site: int, how: How) -> Measured:
    """The distribution of one measured site given the evidence of each row, in standard units."""
    where = jnp.asarray(site, jnp.int32)
    mean, spread = by_chunks(lambda rows: _moments(params, rows, where, how), evidence)
    grid = np.linspace((mean - GRID_REACH * spread).min(), (mean + GRID_REACH * spread).max(), GRID_POINTS)
    points = jnp.asarray(grid, params.weights.dtype)
    distribution = by_chunks(lambda rows: _distribution(params, rows, where, points, how), evidence)
    distribution = np.maximum.accumulate(np.asarray(distribution, np.float64), axis=1)
    scale = float(params.gauge.scale[site])
    return Measured(scale * mean.astype(np.float64), scale * spread.astype(np.float64), scale * grid, distribution)
