"""§4.4 One boundary between two sets of normal utilities, and a choice, one item above all others.

P = ∫ φ(u) Π_i Φ(a_i + b_i u) du: Φ in logs, where the integrand peaks and how far it reaches. One pass over Gauss
nodes gives the value and all slopes in closed form. Promises: nothing underflows, however unlikely the choice. Rows
are the last axis, where loops over them are contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial.legendre import leggauss, legvander

from thurbo._typing import Array, Bool, Float, Int
from thurbo.latent import truncnorm
from thurbo.latent.truncnorm import HALF_LOG_2PI

Items = Float[Array, "item *row"]
ItemsCode = Int[Array, "item *row"]
ItemsMask = Bool[Array, "item *row"]
Points = Float[Array, "point *row"]
Scalar = Float[Array, "*row"]
Panelled = Float[Array, "node panel *row"]
Utilities = Float[Array, "row order item"]
PerOrder = Float[Array, "row order"]
_PHI_0 = math.exp(-HALF_LOG_2PI)


class Rule(NamedTuple):
    """How finely to integrate; tested against closed forms and a far finer, independent recursion."""

    points: int  # of a single integral
    drop: float  # how many nats below its peak an integrand is cut off
    panels: int  # of the recursion
    nodes: int  # in each panel
    inner: int  # from the left edge of a panel to each of its nodes; for a chain, from each node to the next


def rule(dtype: Any, depth: int = 2, width: int = 1) -> Rule:
    """Enough for 1e-8 in float64 and 1e-4 in float32. Long chains and large ties climb steeply: shorter panels."""
    is_large = width > 16
    if dtype == jnp.float32:
        if width == 1 and depth > 2:  # a chain
            return Rule(points=28, drop=14.0, panels=4 + -(-4 * depth // 5), nodes=6, inner=4)
        return Rule(points=28, drop=20.0, panels=16 if is_large else 10, nodes=6, inner=6)
    panels = 24 + 2 * depth if width == 1 else 32 if is_large else 18
    return Rule(points=64, drop=38.0, panels=panels, nodes=8, inner=6 if width == 1 else 10)


@jax.custom_jvp
def log_below(z: Array) -> tuple[Array, Array]:
    """log Φ(z) and its slope, the hazard φ/Φ."""
    ratio, square = truncnorm.mills_ratio(jnp.abs(z)), 0.5 * z * z
    bump = _PHI_0 * jnp.exp(-square)
    is_below = z < 0.0
    share = jnp.where(is_below, ratio, 1.0 - bump * ratio)
    rest = jnp.where(is_below, -square - HALF_LOG_2PI, 0.0)
    return jnp.log(share) + rest, jnp.where(is_below, 1.0, bump) / share


@log_below.defjvp
def _log_below_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (z,), (dz,) = primals, tangents
    value, hazard = log_below(z)
    return (value, hazard), (hazard * dz, -bend_below(z, hazard) * dz)


def bend_below(z: Array, hazard: Array) -> Array:
    """−(log Φ)'', between 0 and 1."""
    return jnp.clip(hazard * (z + hazard), 0.0, 1.0)


def log_phi(z: Array) -> Array:
    return -0.5 * z * z - HALF_LOG_2PI


class Split(NamedTuple):
    """s lies between two groups of items, and one of `edge` (some of the upper ones) sits exactly at s."""

    mean: Items
    deviation: Items
    lower: ItemsMask
    upper: ItemsMask
    edge: ItemsMask


def split_log_density(split: Split, s: Points) -> Points:
    """log of Π_lower Φ · Π_upper Q · Σ_edge φ/(σ Q) at each s: the density of min(edge) among orders that hold."""
    side = jnp.where(split.lower, 1.0, -1.0).astype(s.dtype)
    z = (s[:, None] - split.mean[None]) * (side / split.deviation)[None]  # each item as seen from its own side
    value, _ = log_below(z)
    total = jnp.where((split.lower | split.upper)[None], value, 0.0).sum(axis=1)
    hazard = log_phi(z) - value - jnp.log(split.deviation)[None]
    return total + logsumexp(jnp.where(split.edge[None], hazard, -jnp.inf), axis=1)


def added(value: Array, axis: int) -> Array:
    """The sum over an axis, as a product with ones.

    XLA computes what a sum consists of inside the loop of the sum, which on a CPU is not vectorised unless it is over
    the last axis; before a product it is computed for itself. This took half of the time of choices.
    """
    ones = jnp.ones(value.shape[axis], value.dtype)
    return jnp.tensordot(ones, value, (0, axis), precision=lax.Precision.HIGHEST)


def times(matrix: np.ndarray, value: Array) -> Array:
    """A constant matrix times the first axis."""
    return jnp.tensordot(jnp.asarray(matrix, value.dtype), value, 1, precision=lax.Precision.HIGHEST)


def logsumexp(value: Array, axis: int | tuple[int, ...]) -> Array:
    """log Σ exp, with a finite gradient where all terms are −∞ (the answer is then a very small number)."""
    tiny = jnp.finfo(value.dtype).min / 64
    top = lax.stop_gradient(jnp.maximum(value.max(axis=axis, keepdims=True), tiny))
    safe = jnp.where(value > tiny, value - top, tiny)
    floor = jnp.finfo(value.dtype).tiny
    return jnp.log(jnp.maximum(jnp.exp(safe).sum(axis=axis), floor)) + jnp.squeeze(top, axis)


def slopes_of(split: Split, s: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The log-density at s and its first two derivatives; sums over items of hazards and their own derivatives."""
    sd, part = split.deviation, split.lower | split.upper
    side = jnp.where(split.lower, 1.0, -1.0).astype(sd.dtype) / sd
    z = (s[None] - split.mean) * side  # each item as seen from its own side
    value, hazard = log_below(z)
    excess = (hazard + z) / sd
    # Shares of the edge's hazard in logs: far below all its members the hazard itself underflows in float32.
    rate = jnp.where(split.edge, log_phi(z) - value - jnp.log(sd), -jnp.inf)
    most = rate.max(axis=0)
    share = jnp.exp(rate - most[None])
    of_edge = share * excess, share * (excess * excess + hazard * excess / sd - 1.0 / (sd * sd)), share
    of_all = (jnp.where(part, each, 0.0) for each in (value, side * hazard, hazard * excess / sd))
    first, second, total, height, slope, bend = added(jnp.stack([*of_edge, *of_all], axis=1), 0)
    first, second = first / total, second / total
    return height + most + jnp.log(total), slope + first, second - first * first - bend


def in_portions(function: Callable[..., Scalar], values: Sequence[Array], size: int) -> Scalar:
    """A function of arrays […, row], so many rows at a time that the working arrays stay small."""
    n = values[0].shape[-1]
    if n <= size:
        return function(*values)
    n_portions = -(-n // size)

    def cut(value: Array) -> Array:
        """Filled up with the last row, so that one program of one shape does it all."""
        filled = jnp.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, n_portions * size - n)], mode="edge")
        return jnp.moveaxis(filled.reshape(*value.shape[:-1], n_portions, size), -2, 0)

    return lax.map(lambda part: function(*part), tuple(map(cut, values))).reshape(-1)[:n]


def with_slopes(value: Callable[..., Scalar] | None, slopes: Callable[..., Any], of: slice) -> Callable[..., Scalar]:
    """A function whose value `slopes` gives, too, followed by its derivatives by the items of some arguments."""
    function = jax.custom_jvp(value or (lambda *arguments: slopes(*arguments)[0]))

    @function.defjvp
    def of_tangents(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Scalar, Scalar]:
        found, *by_item = slopes(*primals)
        change: Any = sum((slope * tangent).sum(axis=0) for slope, tangent in zip(by_item, tangents[of], strict=True))
        return found, change

    return function


def beside(first: Any, second: Any) -> Any:
    """Two sets of rows as one, so that one loop serves both."""
    return jax.tree.map(lambda one, other: jnp.concatenate([one, other], axis=-1), first, second)


def inwards(
    look: Callable[[Array], Sequence[Array]], lowest: Array, side: Array, peak: Array, start: Array, n: int
) -> Array:
    """`n` steps of Newton from outside, left or right of the peak, to where a concave log-density is `lowest`."""

    def step(_: Any, s: Array) -> Array:
        value, slope, _ = look(s)
        step = (lowest - value) / slope  # concave: from outside, Newton stays outside
        return jnp.where((side * step < 0.0) & (side * (s + step - peak) > 0.0), s + step, s)

    return lax.fori_loop(0, n, step, start)


def span_of(first: Split, second: Split, drop: float) -> tuple[Scalar, Scalar]:
    """From the far left of one boundary to the far right of another one, or of the same.

    Beyond, the log-density, which is concave, lies more than `drop` below its peak. No gradient flows through it.
    """
    n_rows, both = first.mean.shape[-1], lax.stop_gradient(beside(first, second))
    split = lax.stop_gradient(first) if first is second else both
    big = jnp.finfo(split.mean.dtype).max / 8
    edge = jnp.where(split.edge, split.mean, big).min(axis=0)
    top = jnp.where(split.lower, split.mean, -big).max(axis=0)
    widest = jnp.where(split.edge, split.deviation, 0.0).max(axis=0)

    def climb(_: Any, s: Scalar) -> Scalar:
        _, slope, bend = slopes_of(split, s)
        # The density of min(edge) falls at least like one edge item's own, so its curvature is at least this.
        return s + slope / jnp.maximum(-bend, 0.25 / widest**2)

    peak = lax.fori_loop(0, 7, climb, jnp.maximum(edge, 0.5 * (edge + top)))
    height = slopes_of(split, peak)[0]
    if first is second:
        peak, height, widest = (beside(each, each) for each in (peak, height, widest))
    side = jnp.asarray(np.repeat([-1.0, 1.0], n_rows), peak.dtype)
    outside = peak + side * math.sqrt(2.0 * drop) * widest
    at = inwards(partial(slopes_of, both), height - drop, side, peak, outside, 4)
    return at[:n_rows], at[n_rows:]


def ends_of(tier: ItemsCode, mean: Items, deviation: Items, drop: float) -> tuple[Scalar, Scalar]:
    """From the far left of the lowest boundary to the far right of the highest."""
    last = tier.max(axis=0)[None]
    lowest = Split(mean, deviation, tier == 0, tier > 0, tier == 1)
    return span_of(lowest, Split(mean, deviation, (tier >= 0) & (tier < last), tier == last, tier == last), drop)


def log_mass_of_two(split: Split) -> Scalar:
    """log P(all of `upper` above all of `lower`) = log ∫ of the density of min(upper); one centred Gauss rule."""
    r = rule(split.mean.dtype)
    left, right = span_of(split, split, r.drop)
    nodes, weights = leggauss(r.points)
    half = 0.5 * (right - left)
    s = left[None] + half[None] * jnp.asarray(nodes + 1.0, half.dtype)[:, None]
    value = split_log_density(split, s) + jnp.asarray(np.log(weights), half.dtype)[:, None]
    return logsumexp(value, axis=0) + jnp.log(half)


def interpolation(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """[…, node]: values at Gauss nodes x → values of their polynomial at other points."""
    return legvander(at, len(x) - 1) @ np.linalg.inv(legvander(x, len(x) - 1))


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


def _grid(a: Items, b: Items, how: Effort) -> tuple[Points, Scalar, Scalar]:
    """Nodes where the integrand is not negligible, half their span, and the log-density near its peak.

    No gradient flows through the nodes.
    """
    a, b = lax.stop_gradient((a[None], b[None]))

    def look(u: Points) -> tuple[Points, Points, Points]:
        """The log-density at some points, its slope and minus its second derivative, which is at least 1."""
        z = a + b * u[:, None]
        value, hazard = log_below(z)
        slope = added(b * hazard, 1) - u
        return added(value, 1) - 0.5 * u * u, slope, 1.0 + added(b * b * bend_below(z, hazard), 1)

    def climb(_: Any, u: Points) -> Points:
        _, slope, bend = look(u)  # a slope that falls ever less steeply: from 0, Newton comes from the left
        return u + slope / bend

    peak = lax.fori_loop(0, how.climbs, climb, jnp.zeros_like(a[:, 0]))
    height, _, bend = look(peak)
    side = jnp.asarray([-1.0, 1.0], peak.dtype)[:, None]
    # To the left it falls more steeply than at the peak, to the right at least like the chosen item's own density.
    start = peak + side * math.sqrt(2.0 * how.drop) * jnp.concatenate([lax.rsqrt(bend), jnp.ones_like(bend)])
    left, right = inwards(look, height - how.drop, side, peak, start, how.inwards)
    half = 0.5 * (right - left)
    at = jnp.asarray(leggauss(how.points)[0] + 1.0, half.dtype)
    return left[None] + half[None] * at[:, None], half, height[0]


def slopes_of_choice(mean: Items, deviation: Items, top: ItemsMask, rest: ItemsMask) -> tuple[Scalar, Items, Items]:
    """log P(the one item of `top` is above all of `rest`), and its slopes by means and deviations.

    They are averages over u given the choice, of u itself and of the hazards of the others there: these lie below u
    with probability Φ(a + b u).
    """
    how = effort(mean.dtype)
    own_mean, own_deviation = (jnp.where(top, value, 0.0).sum(axis=0)[None] for value in (mean, deviation))
    a = jnp.where(rest, (own_mean - mean) / deviation, FAR)
    b = jnp.where(rest, own_deviation / deviation, 0.0)
    nodes, half, height = _grid(a, b, how)

    # Node by node, which took 0.6 of the time of sums over a node axis; XLA on CPU gets one of those wrong for
    # 24 nodes, 8 items and 8,000 rows at once. Sums are in units of the density's own height: its mass, of u and u²,
    # and of the others' hazards and hazard · z.
    def add(so_far: Any, node: tuple[Scalar, Scalar]) -> tuple[Any, None]:
        u, weight = node
        z = a + b * u[None]
        value, hazard = log_below(z)
        chance = weight * jnp.exp(added(value, 0) - 0.5 * u * u - height)
        pushed = chance[None] * hazard
        fresh = chance, chance * u, chance * (u * u), pushed, pushed * z
        return tuple(old + new for old, new in zip(so_far, fresh, strict=True)), None

    row, item = jnp.zeros_like(half), jnp.zeros_like(mean)
    weights = jnp.broadcast_to(jnp.asarray(leggauss(how.points)[1], mean.dtype)[:, None], nodes.shape)
    (mass, first, second, push, moment), _ = lax.scan(add, (row, row, row, item, item), (nodes, weights))
    scale = mass[None] * deviation
    by_mean = jnp.where(top, first[None], jnp.where(rest, -push, 0.0)) / scale
    by_deviation = jnp.where(top, (second - mass)[None], jnp.where(rest, -moment, 0.0)) / scale
    return jnp.log(mass * half) + height - HALF_LOG_2PI, by_mean, by_deviation


log_mass_of_choice = with_slopes(None, slopes_of_choice, slice(0, 2))
