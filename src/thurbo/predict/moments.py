"""§4.3 What the evidence of a row says: the hidden layer, moments of x at any sites, and functions of these moments.

By mean-field a function is applied to the moments, in NumPy and double precision, which is sooner done than compiled;
by enumeration and by Gibbs sampling the same function is averaged over states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special as on_device
from jax.scipy.special import logsumexp
from scipy import special as on_host

from thurbo import _runtime
from thurbo._runtime import Program
from thurbo._typing import Array, Factors, Float, Hidden, Int, PRNGKey
from thurbo.latent.constraints import Gauge, Order
from thurbo.latent.constraints.grouped import form_of, shape_of
from thurbo.latent.constraints.order import CLOSER_SCALE
from thurbo.latent.evidence import Evidence, Unobserved
from thurbo.latent.inference import posterior
from thurbo.latent.inference.meanfield import mean_field
from thurbo.latent.inference.posterior import Belief, Method, expectation, hidden_probability, summary
from thurbo.latent.packing import comparisons
from thurbo.latent.rbm import Params
from thurbo.table.columns.cells import Tasks

FEW_SITES = 300  # of a small survey
LINES_AT_ONCE = 1024  # larger portions would be padded more
MOST_VALUES = 20_000_000  # values of Φ that `largest` computes on the host: some tenths of a second
REACH, STEP = 7.5, 0.5  # of the nodes of an integral, in deviations: beyond the outermost means, and between nodes
GUMBEL_SCALE = float(np.sqrt(6.0) / np.pi)  # of unit variance

Moments = tuple[Float[Array, "row asked"], Float[Array, "row asked"]]
Items = Int[Array, "row item"]
Function = Callable[..., Any]  # of mean and deviation [row, asked], shared arguments, arguments by row


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
    hidden: Hidden  # P(h_k = 1 | e)
    log_odds: Hidden
    factors: Factors  # their means


class QueryProgram(Program):
    """A program of a query, compiled by how long it runs: this must not depend on the number of rows, or more rows
    would be another program."""

    def __call__(self, *arguments: Any) -> Any:
        params = next(each for each in arguments if isinstance(each, Params))
        is_small = params.site_bias.shape[0] <= FEW_SITES
        return self.for_work(_runtime.LITTLE_WORK if is_small else _runtime.MUCH_WORK)(*arguments)


def features(params: Params, evidence: Evidence, how: How) -> Features:
    """The posterior of the hidden layer given each row."""
    if how.method == "gibbs":
        return _gibbs_features(params, evidence, replace(how, seed=0), how.key())
    found: Features = _features(params, evidence, how)
    return found


def hidden_layer(params: Params, evidence: Evidence, how: How) -> Features:
    """The same, not compiled."""
    if how.method == "mean-field":
        q = mean_field(params, evidence, how.n_steps)
        return Features(q.hidden, q.log_odds, q.factors)
    if how.method == "exact" and params.n_factors == 0:
        states = posterior.hidden_states(params.n_hidden, 0, params.weights.dtype)
        joint, _ = posterior.log_joint(params, evidence, states)
        on = (states.h > 0.5)[:, None, :]
        log_odds = logsumexp(jnp.where(on, joint[:, :, None], -jnp.inf), axis=0) - logsumexp(
            jnp.where(on, -jnp.inf, joint[:, :, None]), axis=0
        )
        return Features(jax.nn.sigmoid(log_odds), log_odds, jnp.zeros((evidence.n_rows, 0), params.weights.dtype))
    return _expected_features(params, evidence, how, how.key())


def _expected_features(params: Params, evidence: Evidence, how: How, key: PRNGKey) -> Features:
    hidden, factors = expectation(hidden_probability, params, evidence, how.method, key=key, n_draws=how.n_draws)
    clipped = jnp.clip(hidden, 1e-6, 1.0 - 1e-6)
    return Features(hidden, jnp.log(clipped) - jnp.log1p(-clipped), factors)


_features = QueryProgram(hidden_layer, outputs=lambda *_: Features(*[0] * 3), static_argnames=("how",))  # type: ignore[arg-type]
_gibbs_features = jax.jit(_expected_features, static_argnames=("how",))  # the key is an argument: all seeds share it


def ends(cuts: np.ndarray) -> np.ndarray:
    """Both ends of every level, [2, level] or [line, 2, level]; both are +∞ after a site's last level."""
    end = np.full((*cuts.shape[:-1], 1), np.inf, cuts.dtype)
    return np.stack([np.concatenate([-end, cuts], -1), np.concatenate([cuts, end], -1)], -2)


def in_portions(program: Callable[..., Any], *rowwise: np.ndarray) -> Any:
    """Apply a program to arrays by row, one padded portion at a time."""
    n_rows, parts = len(rowwise[0]), []
    for begin in range(0, max(n_rows, 1), LINES_AT_ONCE):
        count = min(LINES_AT_ONCE, n_rows - begin)
        size = next(size for size in (16, 128, LINES_AT_ONCE) if size >= count)
        index = np.minimum(np.arange(begin, begin + size), max(n_rows - 1, 0))
        padded = (leaf[index] if n_rows else np.zeros((size, *leaf.shape[1:]), leaf.dtype) for leaf in rowwise)
        found = program(*padded)
        parts.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], found))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _ndtr(x: Any) -> Any:
    return (on_host if isinstance(x, np.ndarray) else on_device).ndtr(x)


def _between(lower: Any, upper: Any, mean: Any, deviation: Any) -> Any:
    """P(lower ≤ x ≤ upper): in the upper tail by symmetry, where a small mass is a difference of small numbers."""
    low, high = (lower - mean) / deviation, (upper - mean) / deviation
    flip = low > 0
    where = np.where if isinstance(low, np.ndarray) else jnp.where
    return _ndtr(where(flip, -low, high)) - _ndtr(where(flip, -high, low))


def levels(mean: Any, deviation: Any, ends: Any) -> Any:
    """P(lower ≤ x ≤ upper) of every level, [row, level], from `ends`; 0 after a site's last level."""
    return _between(*((ends[:1], ends[1:]) if ends.ndim == 2 else (ends[:, 0], ends[:, 1])), mean, deviation)


def below(mean: Any, deviation: Any, points: Any) -> Any:
    """P(x ≤ ·) at the same points for all rows, [row, point]."""
    return _ndtr((points[None, :] - mean) / deviation)


def density(mean: Any, deviation: Any, point: Any) -> tuple[Any, Any]:
    """Density and distribution function of x at each row's own point."""
    distance = (point - mean[:, 0]) / deviation[:, 0]
    exp = np.exp if isinstance(distance, np.ndarray) else jnp.exp
    return exp(-0.5 * distance * distance) / (deviation[:, 0] * float(np.sqrt(2 * np.pi))), _ndtr(distance)


def mass(mean: Any, deviation: Any, lower: Any, upper: Any) -> Any:
    """P(lower ≤ x ≤ upper) between each row's own ends."""
    return _between(lower, upper, mean[:, 0], deviation[:, 0])


def two_moments(mean: Any, deviation: Any) -> tuple[Any, Any]:
    """E[x] and E[x²] at the first site."""
    return mean[:, 0], deviation[:, 0] ** 2 + mean[:, 0] ** 2


def pair(mean: Any, deviation: Any, zero: Any) -> Any:
    """P(the first of two utilities is above the second), each counted from its own zero."""
    gap = (mean[:, 0] - zero[:, 0]) - (mean[:, 1] - zero[:, 1])
    return _ndtr(gap / (deviation[:, 0] ** 2 + deviation[:, 1] ** 2) ** 0.5)


def _softmax(x: Any) -> Any:
    return (on_host.softmax if isinstance(x, np.ndarray) else jax.nn.softmax)(x, axis=1)


def first_choice(mean: Any, deviation: Any) -> tuple[Any, Any]:
    """P(each of these items is chosen first) by choices with Gumbel noise, and the mean utilities."""
    return _softmax(mean / (GUMBEL_SCALE * deviation.mean(axis=1, keepdims=True))), mean


def gumbel_choice(mean: Any, deviation: Any) -> tuple[Any, Any]:
    """P(each item is chosen) with Gumbel noise, by a logit whose slope allows for the other variance; the means."""
    other = ((deviation**2 - 1.0).clip(min=0.0)).mean(axis=1, keepdims=True)
    return _softmax(mean / (1.0 + 6.0 / float(np.pi) ** 2 * other) ** 0.5), mean


def largest(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """P(each of these utilities is the largest), §3.2, and the mean utilities."""
    n_labels = mean.shape[1]
    nothing = Gauge(jnp.zeros((n_labels, 1), mean.dtype), jnp.ones(n_labels, mean.dtype))  # an order has no cuts

    def log_chance(best: Array) -> Array:
        tier = jnp.broadcast_to((jnp.arange(n_labels) == best).astype(jnp.int32), (mean.shape[0], 1, n_labels))
        return Order(tier, None, n_labels, 2, 1).region(nothing).log_mass(mean, deviation)

    return jnp.exp(jax.lax.map(log_chance, jnp.arange(n_labels))).T, mean


def order(tier: np.ndarray, is_listed: bool, as_log: bool) -> Function:
    """P(order of these utilities) or its log, as a function for orders shaped like `tier`, [row, item]."""
    depth, width = shape_of(tier[:, None, :])
    return _order(1 << (max(depth, 2) - 1).bit_length(), width, form_of(tier[:, None, :], None), is_listed, as_log)


@lru_cache
def _order(depth: int, width: int, form: Any, is_listed: bool, as_log: bool) -> Function:
    """Lists have the Gumbel form of training."""
    mass: Any = "gumbel" if is_listed else "exact"

    def function(mean: Array, deviation: Array, tier: Items) -> Array:
        n_items = mean.shape[1]
        nothing = Gauge(jnp.zeros((n_items, 1), mean.dtype), jnp.ones(n_items, mean.dtype))
        scale = CLOSER_SCALE if is_listed else 1.0
        order = Order(tier[:, None, :], None, n_items, depth, width, mass=mass, gumbel_scale=scale, form=form)
        log = order.region(nothing).log_mass(mean, deviation)
        return log if as_log else jnp.exp(log)

    return function


@partial(jax.jit, static_argnames=("how", "about"))
def of_tasks(params: Params, evidence: Evidence, sites: Items, tier: Items, how: How, about: Tasks) -> Array:
    """P(order of some items) of each row, which has one task with noise of its own."""

    def chance(belief: Belief, sites: Array, tier: Array) -> Array:
        present, n_items = tier >= 0, sites.shape[1]
        mean, deviation = belief.at(params, sites, together=True, present=present)
        gauge = Gauge(params.gauge.cuts[sites], params.gauge.scale[sites])
        region = comparisons(tier[:, None, :], (tuple(range(n_items)),), n_items, about).region(gauge)
        deviation = jnp.where(present, deviation, jnp.ones_like(deviation))
        return jnp.exp(region.log_mass(mean, None if belief.state is not None else deviation))

    own, key = (sites, tier), how.key()
    return expectation(
        chance, params, evidence, how.method, n_steps=how.n_steps, key=key, n_draws=how.n_draws, rowwise=own
    )


def quadrature_suits(mean: np.ndarray, deviation: np.ndarray) -> bool:
    """Whether `largest_by_quadrature` is quick: its time grows with the square of the number of labels."""
    return not mean.size or bool(mean.size * _n_nodes(mean, deviation) <= MOST_VALUES)


def _n_nodes(mean: np.ndarray, deviation: np.ndarray) -> int:
    width = np.ptp(mean, axis=1) + 2 * REACH * deviation.max(axis=1)
    return int(np.ceil((width / deviation.min(axis=1)).max() / STEP)) + 1


def largest_by_quadrature(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`largest` on the host: ∫ φ_k(t) Π_{j≠k} Φ_j(t) dt by the trapezoidal rule.

    The error of equal steps falls with exp(−2π² σ² / step²).
    """
    chance = np.zeros(mean.shape)
    for begin in range(0, len(mean), LINES_AT_ONCE):
        m, s = (each[begin : begin + LINES_AT_ONCE] for each in (mean, deviation))
        reach, n = REACH * s.max(axis=1), _n_nodes(m, s)
        low, high = m.min(axis=1) - reach, m.max(axis=1) + reach
        t = low + (high - low) * np.linspace(0.0, 1.0, n)[:, None]  # [node, row]
        z = (t - m.T[:, None, :]) / s.T[:, None, :]  # [label, node, row]
        below, found = on_host.ndtr(z), np.exp(-0.5 * z * z)
        for labels in (range(len(z)), range(len(z) - 1, -1, -1)):  # the product over all other labels: before, after
            product = np.ones_like(t)
            for k in labels:
                found[k] *= product
                product *= below[k]
        step = ((high - low) / (n - 1))[:, None]
        chance[begin : begin + LINES_AT_ONCE] = found.sum(axis=1).T * step / (s * np.sqrt(2 * np.pi))
    return chance, mean


ON_HOST = {each: each for each in (levels, below, density, mass, two_moments, pair, first_choice, gumbel_choice)}
ON_HOST |= {largest: largest_by_quadrature}


def at_moments(function: Function, shared: tuple, mean: np.ndarray, deviation: np.ndarray, *rowwise: np.ndarray) -> Any:
    """A function of known moments: in NumPy, unless it is a large question that is worth compiling."""
    if function not in ON_HOST or (function is largest and not quadrature_suits(mean, deviation)):
        return in_portions(partial(of_moments, function, shared), mean, deviation, *rowwise)
    return ON_HOST[function](*(np.asarray(each, np.float64) for each in (mean, deviation, *shared, *rowwise)))


_observed = jax.jit(lambda evidence: evidence.observed)
_hide = jax.jit(Evidence.hide, static_argnames=("unobserved",))


def observed(evidence: Evidence) -> np.ndarray:
    """Which slots have evidence, [row, slot], of rows on the host."""
    return np.asarray(evidence.observed if evidence.is_on_host else _observed(evidence))


def without_slots(evidence: Evidence, slots: Any, how: How) -> Evidence:
    """Rows on the host without what they say about some slots."""
    own: Any = np.zeros((evidence.n_rows, evidence.constraints[0].n_slots), bool)
    own[:, np.asarray(slots, np.int64)] = True
    return evidence.hide(own, how.unobserved) if evidence.is_on_host else _hide(evidence, own, how.unobserved)


@partial(QueryProgram, outputs=lambda *_: None, static_argnames=("how", "keep"))
def all_moments(params: Params, evidence: Evidence, sites: Int[Array, " asked"], how: How, keep: bool) -> Any:
    """One program for all columns of a table; `keep` adds the posterior of the hidden layer."""
    belief = summary(params, evidence, how.n_steps)
    moments = belief.at(params, sites)
    if not keep:
        return moments
    return (*moments, belief.hidden, belief.factors, *(() if belief.whitener is None else (belief.whitener,)))


@partial(jax.jit, static_argnames=("how",))
def line_moments(params: Params, evidence: Evidence, sites: Int[Array, "row asked"], how: How) -> Moments:
    return summary(params, evidence, how.n_steps).at(params, sites)


@jax.jit
def listed_moments(
    params: Params, sites: Int[Array, "row asked"], hidden: Array, factors: Array, whitener: Array | None = None
) -> Moments:
    return Belief(hidden, factors, None, whitener).at(params, sites)


@partial(jax.jit, static_argnums=0)
def of_moments(function: Function, shared: tuple, mean: Array, deviation: Array, *rowwise: Array) -> Any:
    return function(mean, deviation, *shared, *rowwise)


state_weights = QueryProgram(posterior.state_weights)  # P(state of the hidden units | evidence), [state, row]


@partial(QueryProgram, static_argnums=0)
def of_states(
    function: Function, params: Params, evidence: Evidence, weights: Array, sites: Array, shared: tuple, rowwise: tuple
) -> Any:
    """The expectation of a function of moments over the states of the hidden units."""
    ask = lambda belief, *own: function(*belief.at(params, sites), *shared, *own)  # noqa: E731
    return expectation(ask, params, evidence, "exact", weights=weights, rowwise=rowwise)


def of_evidence(
    function: Function, params: Params, evidence: Evidence, sites: Any, shared: tuple, rowwise: tuple, how: How
) -> Any:
    """E[function of the moments at some sites | evidence]; sites of all rows, [asked], or each row's, [row, asked]."""
    return _of_evidence(function, params, evidence, sites, shared, rowwise, replace(how, seed=0), how.key())


@partial(jax.jit, static_argnames=("function", "how"))
def _of_evidence(
    function: Function,
    params: Params,
    evidence: Evidence,
    sites: Int[Array, "*row asked"],
    shared: tuple,
    rowwise: tuple,
    how: How,
    key: PRNGKey,
) -> Any:
    by_row = sites.ndim == 2

    def ask(belief: Belief, *values: Array) -> Any:
        at, *own = values if by_row else (sites, *values)
        return function(*belief.at(params, at), *shared, *own)

    rowwise = (sites, *rowwise) if by_row else rowwise
    return expectation(ask, params, evidence, how.method, key=key, n_draws=how.n_draws, rowwise=rowwise)
