"""§4.3 Predictions: features of rows, and the distribution of one variable given the rest of the row.

A level column's answer is a vector of probabilities, a measured column's a distribution function on a grid around its
mean. Both are expectations over the hidden state, by whichever method `How` names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr

from thurbo._typing import Array, Bool, Factors, Float, Hidden, Int, PerRow, PRNGKey
from thurbo.constraints import Linear, Order
from thurbo.evidence import Evidence, Unobserved
from thurbo.evidence.buckets import Packed
from thurbo.evidence.pack import by_chunks
from thurbo.inference.likelihood import hidden_states, log_joint
from thurbo.inference.meanfield import mean_field
from thurbo.inference.posterior import Belief, Function, Method, expectation, hidden_probability, state_weights
from thurbo.normal import truncnorm
from thurbo.rbm import Params

GRID_POINTS = 1025
GRID_REACH = 5.0  # deviations beyond the outermost means


@dataclass(frozen=True)
class How:
    """Which inference answers a query, and how long it works."""

    method: Method = "mean-field"
    n_steps: int = 30
    n_draws: int = 500
    unobserved: Unobserved = "marginalize"
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


class Target(NamedTuple):
    """The site that is asked about, and the slots of its column, whose own cell is not to be used."""

    site: Int[Array, ""]
    own: Bool[Array, " slot"]


def target(site: int, own: np.ndarray) -> Target:
    """A question in the form the compiled programs take: new sites compile nothing."""
    return Target(jnp.asarray(site, jnp.int32), jnp.asarray(own))


Known = Float[Array, "state row"] | Belief | None


@partial(jax.jit, static_argnames=("how",))
def _known(params: Params, evidence: Evidence, own: Bool[Array, " slot"], how: How) -> Known:
    """What all other cells of the row say of the hidden layer: P(h, z | e) of every state, or the mean-field's belief.

    The dear part of an answer, and one program whatever is asked. Gibbs sampling has no such part.
    """
    rest = _others(evidence, own, how)
    if how.method == "exact":
        return state_weights(params, rest)
    return expectation(lambda belief: belief, params, rest, how.method, n_steps=how.n_steps)


def _others(evidence: Evidence, own: Bool[Array, " slot"], how: How) -> Evidence:
    if not evidence.sites_shared:  # sites of ordinary columns are a row's first slots, and its list is not asked about
        n_slots = evidence.observed.shape[1]
        own = jnp.pad(own, (0, max(0, n_slots - own.shape[0])))[:n_slots]
    return evidence.hide(jnp.broadcast_to(own, (evidence.n_rows, own.shape[0])), how.unobserved)


def _learn(params: Params, evidence: Evidence, about: Target, how: How) -> Known:
    return None if how.method == "gibbs" else _known(params, evidence, about.own, how)


def _ask(function: Function, params: Params, evidence: Evidence, known: Known, about: Target, how: How) -> Any:
    """E[function | all other cells of the row]."""
    if isinstance(known, Belief):
        return function(known)
    rest = _others(evidence, about.own, how)
    return expectation(function, params, rest, how.method, key=how.key(), n_draws=how.n_draws, weights=known)


@partial(jax.jit, static_argnames=("how",))
def _level_probabilities(
    params: Params, evidence: Evidence, known: Known, about: Target, how: How
) -> Float[Array, "row level"]:
    cuts, site = params.gauge.cuts[about.site], about.site
    end = jnp.full(1, jnp.inf, cuts.dtype)
    lower, upper = jnp.concatenate([-end, cuts]), jnp.concatenate([cuts, end])
    real = lower < jnp.inf  # beyond a site's last level both ends are +∞

    def function(belief: Belief) -> Float[Array, "row level"]:
        mean, deviation = belief.mean[:, site, None], belief.deviation[:, site, None]
        mass = truncnorm.log_mass(
            mean / deviation,
            jnp.where(real, lower, 0.0)[None, :] / deviation,
            jnp.where(real, upper, 1.0)[None, :] / deviation,
        )
        return jnp.where(real[None, :], jnp.exp(mass), jnp.zeros_like(mass))

    return _ask(function, params, evidence, known, about, how)


@partial(jax.jit, static_argnames=("how",))
def _measured(
    params: Params, evidence: Evidence, known: Known, about: Target, grid: Float[Array, " grid"], how: How
) -> tuple[PerRow, Float[Array, "row grid"]]:
    """E[x] at a site, and P(x ≤ ·) on one grid for all rows."""
    site = about.site

    def function(belief: Belief) -> tuple[PerRow, Float[Array, "row grid"]]:
        mean, deviation = belief.mean[:, site], belief.deviation[:, site]
        return mean, ndtr((grid[None, :] - mean[:, None]) / deviation[:, None])

    return _ask(function, params, evidence, known, about, how)


@partial(jax.jit, static_argnames=("how",))
def _largest(
    params: Params, evidence: Evidence, known: Known, about: Target, sites: Int[Array, " label"], how: How
) -> tuple[Float[Array, "row label"], Float[Array, "row label"]]:
    """P(each of these utilities is the largest), §3.2, and their means."""
    n_labels = sites.shape[0]

    def function(belief: Belief) -> tuple[Float[Array, "row label"], Float[Array, "row label"]]:
        mean, deviation = belief.mean[:, sites], belief.deviation[:, sites]

        def log_chance(best: Array) -> PerRow:
            tier = jnp.broadcast_to((jnp.arange(n_labels) == best).astype(jnp.int32), (mean.shape[0], 1, n_labels))
            order = Order(tier, None, n_labels, 2, 1)
            return order.region(params.gauge).log_mass(mean, deviation)

        return jnp.exp(jax.lax.map(log_chance, jnp.arange(n_labels))).T, mean

    return _ask(function, params, evidence, known, about, how)


def beliefs(params: Params, evidence: Evidence, how: How) -> Belief | None:
    """What all cells of each row say, on the host: the answer to every question about a cell that the row lacks.

    Only of mean-field; and lines may tie a cell that is lacking to others, so that it is not for all to share.
    """
    if how.method != "mean-field" or any(isinstance(constraint, Linear) for constraint in evidence.constraints):
        return None
    nothing = jnp.zeros(params.site_bias.shape[0], bool)
    return by_chunks(lambda rows: _known(params, rows, nothing, how), evidence)


def _answers(
    answer: Callable[[Evidence, Known], Any],
    params: Params,
    evidence: Packed,
    about: Target,
    how: How,
    known: Belief | None,
) -> Any:
    """`answer` of all rows, from what is known of each or else from all its other cells."""
    if known is None:
        return by_chunks(lambda rows: answer(rows, _learn(params, rows, about, how)), evidence)
    return by_chunks(lambda rows, *leaves: answer(rows, Belief(*leaves)), evidence, *known)


def largest_utility(
    params: Params, evidence: Packed, about: Target, sites: np.ndarray, how: How, known: Belief | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """P(label is preferred to all others | all other cells) and mean utilities, [row, label] each."""
    where = jnp.asarray(sites, jnp.int32)
    answer = lambda rows, known: _largest(params, rows, known, about, where, how)  # noqa: E731
    chance, mean = _answers(answer, params, evidence, about, how, known)
    chance = np.asarray(chance, np.float64)
    return chance / chance.sum(axis=1, keepdims=True), np.asarray(mean, np.float64)


def level_probabilities(
    params: Params, evidence: Packed, about: Target, n_levels: int, how: How, known: Belief | None = None
) -> np.ndarray:
    """P(level | all other cells) of one level site for every row: [row, level], each row summing to one."""
    answer = lambda rows, known: _level_probabilities(params, rows, known, about, how)  # noqa: E731
    raw = np.asarray(_answers(answer, params, evidence, about, how, known), np.float64)[:, :n_levels]
    return raw / raw.sum(axis=1, keepdims=True)


def band_probabilities(
    params: Params, evidence: Packed, about: Target, lower: np.ndarray, upper: np.ndarray, how: How
) -> np.ndarray:
    """P(lower ≤ z ≤ upper | all other cells) of one measured site, of all bands together one: [row, band]."""
    ends = jnp.asarray(
        np.concatenate([lower, upper]) / float(params.gauge.scale[int(about.site)]), params.weights.dtype
    )
    _, below = by_chunks(
        lambda rows: _measured(params, rows, _learn(params, rows, about, how), about, ends, how), evidence
    )
    below = np.asarray(below, np.float64)
    mass = np.maximum(below[:, len(lower) :] - below[:, : len(lower)], 1e-30)
    return mass / mass.sum(axis=1, keepdims=True)


class Measured(NamedTuple):
    """The predicted distribution of one measured site in standard units: a grid and P(z ≤ grid) by row."""

    mean: np.ndarray  # [row]
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
        """Where the density is highest: the top of a parabola through the three highest steps of the grid."""
        density = np.diff(self.distribution, axis=1)
        best = density.argmax(axis=1).clip(1, density.shape[1] - 2)
        rows = np.arange(len(self.mean))
        left, top, right = (density[rows, best + step] for step in (-1, 0, 1))
        bend = left - 2.0 * top + right
        shift = np.where(bend < 0, 0.5 * (left - right) / np.where(bend < 0, bend, -1.0), 0.0).clip(-1.0, 1.0)
        width = self.grid[1] - self.grid[0]
        return 0.5 * (self.grid[best] + self.grid[best + 1]) + shift * width

    def average(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """E[function(z)] by the midpoint rule on the grid."""
        steps = np.diff(self.distribution, axis=1)
        return steps @ function(0.5 * (self.grid[1:] + self.grid[:-1])) / steps.sum(axis=1)


def measured(params: Params, evidence: Packed, about: Target, how: How) -> Measured:
    """The distribution of one measured site given all other cells of each row, in standard units.

    The grid holds every value the model can expect there, so it depends on the model and not on the rows asked.
    """
    site = int(about.site)
    weights, bias = np.asarray(params.weights[site], np.float64), float(params.site_bias[site])
    reach = GRID_REACH * np.sqrt(1.0 + float((params.loadings[site] ** 2).sum()))
    grid = np.linspace(bias + weights.clip(max=0).sum() - reach, bias + weights.clip(min=0).sum() + reach, GRID_POINTS)
    points = jnp.asarray(grid, params.weights.dtype)
    mean, distribution = by_chunks(
        lambda rows: _measured(params, rows, _learn(params, rows, about, how), about, points, how), evidence
    )
    distribution = np.maximum.accumulate(np.asarray(distribution, np.float64), axis=1)
    scale = float(params.gauge.scale[site])
    return Measured(scale * mean.astype(np.float64), scale * grid, distribution)
