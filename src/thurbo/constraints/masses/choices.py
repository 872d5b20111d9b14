"""§4.4 The probability of a choice, one item above all others, with its slopes: P = ∫ φ(u) Π_i Φ(a_i + b_i u) du.

u is the chosen utility in its own units. One pass over Gauss nodes gives the value and all slopes in closed form, so a
gradient costs one pass and stores no node. Promises: nothing underflows, however unlikely the choice. Rows are the last
axis, where loops over them are contiguous.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from numpy.polynomial.legendre import leggauss

from thurbo.constraints.masses.splits import Items, ItemsMask, Points, Scalar, added, bend_below, log_below
from thurbo.normal.mills import HALF_LOG_2PI

FAR = 40.0  # Φ is 1 here: the argument used for an item that takes no part


class Effort(NamedTuple):
    """How finely to integrate: to 1e-4 in float32 and 1e-8 in float64 where deviations differ up to threefold.

    In float32 a chosen item five times as wide as all others costs up to 1e-3.
    """

    points: int
    drop: float  # how many nats below its peak the integrand is cut off
    climbs: int  # Newton's steps to the peak
    inwards: int  # and to either end


def effort(dtype: Any) -> Effort:
    return Effort(16, 10.0, 3, 2) if dtype == jnp.float32 else Effort(64, 38.0, 8, 4)


class Rivals(NamedTuple):
    """The others as seen by the chosen item: each lies below u with probability Φ(a + b u)."""

    a: Items
    b: Items


def _rivals(mean: Items, deviation: Items, top: ItemsMask, rest: ItemsMask) -> Rivals:
    own_mean, own_deviation = (jnp.where(top, value, 0.0).sum(axis=0)[None] for value in (mean, deviation))
    return Rivals(jnp.where(rest, (own_mean - mean) / deviation, FAR), jnp.where(rest, own_deviation / deviation, 0.0))


def _look(rivals: Rivals, u: Points) -> tuple[Points, Points, Points]:
    """The log-density at some points, its slope and minus its second derivative, which is at least 1."""
    b = rivals.b[None]
    z = rivals.a[None] + b * u[:, None]
    value, hazard = log_below(z)
    slope = added(b * hazard, 1) - u
    return added(value, 1) - 0.5 * u * u, slope, 1.0 + added(b * b * bend_below(z, hazard), 1)


class _Grid(NamedTuple):
    """Gauss nodes from end to end, half that distance, and the log-density near its peak."""

    u: Points
    half: Scalar
    height: Scalar


def _grid(rivals: Rivals, how: Effort) -> _Grid:
    """Nodes where the integrand is not negligible. No gradient flows through the nodes."""
    rivals = Rivals(*(lax.stop_gradient(value) for value in rivals))

    def climb(_: Any, u: Points) -> Points:
        _, slope, bend = _look(rivals, u)  # a slope that falls ever less steeply: from 0, Newton comes from the left
        return u + slope / bend

    peak = lax.fori_loop(0, how.climbs, climb, jnp.zeros_like(rivals.a[:1]))
    height, _, bend = _look(rivals, peak)
    side = jnp.asarray([-1.0, 1.0], peak.dtype)[:, None]
    # To the left it falls more steeply than at the peak, to the right at least like the chosen item's own density.
    start = peak + side * math.sqrt(2.0 * how.drop) * jnp.concatenate([lax.rsqrt(bend), jnp.ones_like(bend)])

    def inwards(_: Any, u: Points) -> Points:
        value, slope, _ = _look(rivals, u)
        step = (height - how.drop - value) / slope  # concave: from outside, Newton stays outside
        return jnp.where((side * step < 0.0) & (side * (u + step - peak) > 0.0), u + step, u)

    left, right = lax.fori_loop(0, how.inwards, inwards, start)
    half = 0.5 * (right - left)
    at = jnp.asarray(leggauss(how.points)[0] + 1.0, half.dtype)
    return _Grid(left[None] + half[None] * at[:, None], half, height[0])


class Slopes(NamedTuple):
    """Of log P in every item's mean and deviation."""

    mean: Items
    deviation: Items


@jax.custom_jvp
def log_mass_of_choice(mean: Items, deviation: Items, top: ItemsMask, rest: ItemsMask) -> Scalar:
    """log P(the one item of `top` is above all of `rest`), independent normal utilities."""
    return _integrate(mean, deviation, top, rest)[0]


@log_mass_of_choice.defjvp
def _log_mass_of_choice_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Scalar, Scalar]:
    value, slopes = _integrate(*primals)
    return value, (slopes.mean * tangents[0]).sum(axis=0) + (slopes.deviation * tangents[1]).sum(axis=0)


def slopes_of_choice(mean: Items, deviation: Items, top: ItemsMask, rest: ItemsMask) -> tuple[Scalar, Items, Items]:
    """log P with its slopes by means and deviations."""
    value, slopes = _integrate(mean, deviation, top, rest)
    return value, slopes.mean, slopes.deviation


class _Sums(NamedTuple):
    """∫ over u so far, and of u, u² and the others' hazards beside it; in units of the density's own height."""

    mass: Scalar
    first: Scalar
    second: Scalar
    push: Items
    moment: Items


def _integrate(mean: Items, deviation: Items, top: ItemsMask, rest: ItemsMask) -> tuple[Scalar, Slopes]:
    """log P and its slopes: averages over u given the choice, of u itself and of the others' hazards there."""
    how = effort(mean.dtype)
    rivals = _rivals(mean, deviation, top, rest)
    grid = _grid(rivals, how)

    # Node by node, which took 0.6 of the time of sums over a node axis; XLA on CPU gets one of those wrong for
    # 24 nodes, 8 items and 8,000 rows at once.
    def add(so_far: _Sums, node: tuple[Scalar, Scalar]) -> tuple[_Sums, None]:
        u, weight = node
        z = rivals.a + rivals.b * u[None]
        value, hazard = log_below(z)
        chance = weight * jnp.exp(added(value, 0) - 0.5 * u * u - grid.height)
        pushed = chance[None] * hazard
        fresh = _Sums(chance, chance * u, chance * (u * u), pushed, pushed * z)
        return _Sums(*(old + new for old, new in zip(so_far, fresh, strict=True))), None

    row, item = jnp.zeros_like(grid.half), jnp.zeros_like(mean)
    weights = jnp.broadcast_to(jnp.asarray(leggauss(how.points)[1], mean.dtype)[:, None], grid.u.shape)
    total, _ = lax.scan(add, _Sums(row, row, row, item, item), (grid.u, weights))
    scale = total.mass[None] * deviation
    slope = jnp.where(top, total.first[None], jnp.where(rest, -total.push, 0.0)) / scale
    spread = jnp.where(top, (total.second - total.mass)[None], jnp.where(rest, -total.moment, 0.0)) / scale
    return jnp.log(total.mass * grid.half) + grid.height - HALF_LOG_2PI, Slopes(slope, spread)
