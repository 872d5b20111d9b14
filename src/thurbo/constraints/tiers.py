"""§4.4 The exact probability of a weak order: all of tier j+1 above all of tier j, for independent normal utilities.

F_j(t) = P(tiers 0..j in order, all below t) = ∫_{s<t} F_{j−1}(s) · −∂_s Π_{i in tier j}[Φ(t−μ_i) − Φ(s−μ_i)] ds.
Promises: log F on panels, never F, so nothing underflows; two tiers take one short integral, others a step each.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial.legendre import leggauss

from thurbo import truncnorm
from thurbo._typing import Array, Bool, Float, Int

Items = Float[Array, " item"]
ItemsMask = Bool[Array, " item"]
Points = Float[Array, " point"]
Scalar = Float[Array, ""]
Four = tuple[Array, Array, Array, Array]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Rule(NamedTuple):
    """How finely to integrate; tested against closed forms and a far finer, independent recursion."""

    points: int  # of a single integral
    drop: float  # how many nats below its peak an integrand is cut off
    panels: int  # of the recursion
    nodes: int  # in each panel
    inner: int  # from the left edge of a panel to each of its nodes


def rule(dtype: Any, depth: int = 2, width: int = 1) -> Rule:
    """Enough for 1e-8 in float64 and 1e-4 in float32. Long chains and large ties climb steeply: shorter panels."""
    is_large = width > 16
    if dtype == jnp.float32:
        panels = 12 + depth if width == 1 else 16 if is_large else 10
        return Rule(points=28, drop=20.0, panels=panels, nodes=6, inner=6)
    panels = 24 + 2 * depth if width == 1 else 32 if is_large else 18
    return Rule(points=64, drop=38.0, panels=panels, nodes=8, inner=10)


# ---- Φ and its complement, both in logs, from one polynomial


@jax.custom_jvp
def log_both(z: Array) -> tuple[Array, Array]:
    """log Φ(z) and log Φ(−z), each to full relative precision in its own tail."""
    slopes = truncnorm._SINGLE if z.dtype == jnp.float32 else truncnorm._DOUBLE
    c = jnp.abs(z)
    origin = truncnorm._origin(c, slopes)
    small = jnp.log(origin.y) - origin.partial[-1] - 0.5 * c * c - _HALF_LOG_2PI
    large = jnp.log1p(-jnp.exp(small))
    return jnp.where(z < 0.0, small, large), jnp.where(z < 0.0, large, small)


@log_both.defjvp
def _log_both_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (z,), (dz,) = primals, tangents
    below, above = log_both(z)
    density = log_phi(z)
    return (below, above), (jnp.exp(density - below) * dz, -jnp.exp(density - above) * dz)


def log_phi(z: Array) -> Array:
    return -0.5 * z * z - _HALF_LOG_2PI


def log_between(low: tuple[Array, Array], high: tuple[Array, Array], rightwards: Array) -> tuple[Array, Array]:
    """The larger tail mass b and the gap to the smaller, log[Φ(high) − Φ(low)] = b + log(1 − e^−gap), uncancelled."""
    smaller = jnp.where(rightwards, high[1], low[0])
    larger = jnp.where(rightwards, low[1], high[0])
    return larger, larger - smaller


# ---- Where an integrand lives


class Split(NamedTuple):
    """s lies between two groups of items, and one of `edge` (some of the upper ones) sits exactly at s."""

    mean: Items
    deviation: Items
    lower: ItemsMask
    upper: ItemsMask
    edge: ItemsMask


def split_log_density(split: Split, s: Points) -> Points:
    """log of Π_lower Φ · Π_upper Q · Σ_edge φ/(σ Q) at each s: the density of min(edge) among orders that hold."""
    z = (s[:, None] - split.mean[None, :]) / split.deviation[None, :]
    below, above = log_both(z)
    lower, upper, edge = split.lower[None, :], split.upper[None, :], split.edge[None, :]
    total = jnp.where(lower, below, 0.0).sum(axis=1) + jnp.where(upper, above, 0.0).sum(axis=1)
    hazard = log_phi(z) - above - jnp.log(split.deviation)[None, :]
    return total + _logsumexp(jnp.where(edge, hazard, -jnp.inf), axis=1)


def _logsumexp(value: Array, axis: int) -> Array:
    """log Σ exp, with a finite gradient where all terms are −∞ (the answer is then a very small number)."""
    tiny = jnp.finfo(value.dtype).min / 64
    top = lax.stop_gradient(jnp.maximum(value.max(axis=axis, keepdims=True), tiny))
    safe = jnp.where(value > tiny, value - top, tiny)
    floor = jnp.finfo(value.dtype).tiny
    return jnp.log(jnp.maximum(jnp.exp(safe).sum(axis=axis), floor)) + jnp.squeeze(top, axis)


def _slopes(split: Split, s: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The log-density at s and its first two derivatives; sums over items of hazards and their own derivatives."""
    sd = split.deviation
    z = (s - split.mean) / sd
    below, above = log_both(z)
    left = jnp.where(split.lower, jnp.exp(log_phi(z) - below), 0.0)
    hazard = jnp.exp(log_phi(z) - above)
    right = jnp.where(split.upper, hazard, 0.0)
    # Shares of the edge's hazard in logs: far below all its members the hazard itself underflows in float32.
    rate = jnp.where(split.edge, log_phi(z) - above - jnp.log(sd), -jnp.inf)
    most = rate.max()
    share = jnp.exp(rate - most)
    total = share.sum()
    share = share / total
    excess = (hazard - z) / sd
    first = (share * excess).sum()
    second = (share * (excess * excess + (hazard * (hazard - z) - 1.0) / (sd * sd))).sum() - first * first
    value = jnp.where(split.lower, below, 0.0).sum() + jnp.where(split.upper, above, 0.0).sum()
    value = value + most + jnp.log(total)
    slope = (left / sd).sum() - (right / sd).sum() + first
    bend = -(left * (z + left) / sd**2).sum() - (right * (hazard - z) / sd**2).sum() + second
    return value, slope, bend


def locate(split: Split, drop: float) -> tuple[Scalar, Scalar]:
    """[a, b] outside which the log-density lies more than `drop` below its peak. No gradient: nodes are only nodes."""
    split = Split(*(lax.stop_gradient(part) for part in split))
    big = jnp.finfo(split.mean.dtype).max / 8
    edge = jnp.where(split.edge, split.mean, big).min()
    top = jnp.where(split.lower, split.mean, -big).max()
    widest = jnp.where(split.edge, split.deviation, 0.0).max()

    def climb(_: Any, s: Scalar) -> Scalar:
        _, slope, bend = _slopes(split, s)
        # The density of min(edge) falls at least like one edge item's own, so its curvature is at least this.
        return s + slope / jnp.maximum(-bend, 0.25 / widest**2)

    peak = lax.fori_loop(0, 12, climb, jnp.maximum(edge, 0.5 * (edge + top)))
    height, _, _ = _slopes(split, peak)

    def reach(sign: float) -> Scalar:
        def inwards(_: Any, s: Scalar) -> Scalar:
            value, slope, _ = _slopes(split, s)
            step = (height - drop - value) / slope  # concave: from outside, Newton stays outside
            inside = sign * step < 0.0
            return jnp.where(inside & (sign * (s + step - peak) > 0.0), s + step, s)

        return lax.fori_loop(0, 5, inwards, peak + sign * math.sqrt(2.0 * drop) * widest)

    return reach(-1.0), reach(1.0)


def log_mass_of_two(split: Split) -> Scalar:
    """log P(all of `upper` above all of `lower`) = log ∫ of the density of min(upper); one centred Gauss rule."""
    r = rule(split.mean.dtype)
    left, right = locate(split, r.drop)
    nodes, weights = leggauss(r.points)
    half = 0.5 * (right - left)
    s = left + half * jnp.asarray(nodes + 1.0, half.dtype)
    return _logsumexp(split_log_density(split, s) + jnp.asarray(np.log(weights), half.dtype), axis=0) + jnp.log(half)


# ---- Middle tiers: panels of Gauss nodes


class Panels(NamedTuple):
    """Nodes of a panel [−1, 1] and all that follows from them, the same for every panel, row and tier."""

    nodes: np.ndarray  # [node]
    log_weights: np.ndarray  # [node]
    inner: np.ndarray  # [node, inner]: nodes of [−1, node]
    log_inner: np.ndarray  # [node, inner]: their weights
    spread: np.ndarray  # [node, inner, node]: values at the nodes → values at the inner nodes


@lru_cache
def panels_of(nodes: int, inner: int) -> Panels:
    x, w = leggauss(nodes)
    y, v = leggauss(inner)
    half = 0.5 * (x + 1.0)
    at = -1.0 + half[:, None] * (y + 1.0)[None, :]
    difference = x[:, None] - x[None, :] + np.eye(nodes)
    barycentric = 1.0 / difference.prod(axis=1)
    gap = at[..., None] - x
    hit = np.abs(gap) < 1e-14
    ratio = barycentric / np.where(hit, 1.0, gap)
    spread = np.where(hit.any(axis=-1, keepdims=True), hit, ratio / ratio.sum(axis=-1, keepdims=True))
    return Panels(x, np.log(w), at, np.log(half[:, None] * v[None, :]), spread)


class Grid(NamedTuple):
    """The panels laid over one row's boundaries."""

    t: Float[Array, "panel node"]
    s: Float[Array, "panel node inner"]  # between the left edge of t's panel and t
    log_half: Scalar


class Tier(NamedTuple):
    """The items of one middle tier."""

    mean: Items
    deviation: Items
    here: ItemsMask


def log_mass_of_tiers(tier: Int[Array, " item"], mean: Items, deviation: Items, depth: int, width: int) -> Scalar:
    """log P of one order: at most `depth` tiers, at most `width` items in any tier but the outer two."""
    last = tier.max()
    outer = Split(mean, deviation, tier == 0, tier > 0, tier == 1)
    inner = Split(mean, deviation, (tier >= 0) & (tier < last), tier == last, tier == last)
    grid, panels = _lay(outer, inner, rule(mean.dtype, depth, width))
    shape = grid.t.shape
    below, _ = log_both((grid.t.reshape(-1, 1) - mean[None, :]) / deviation[None, :])
    log_f = jnp.where(outer.lower[None, :], below, 0.0).sum(axis=1).reshape(shape)
    step = _climb_one if width == 1 else _climb_many

    @jax.checkpoint
    def climb(log_f: Array, items: Tier) -> tuple[Array, None]:
        return jnp.where(items.here.any(), step(log_f, items, grid, panels), log_f), None

    member, here = _members(tier, last, depth, width)
    items = Tier(jnp.take(mean, member), jnp.take(deviation, member), here)
    log_f, _ = lax.scan(climb, log_f, items)

    top = inner._replace(lower=jnp.zeros_like(inner.lower))
    weights = jnp.asarray(panels.log_weights, mean.dtype)[None, :]
    return _logsumexp((split_log_density(top, grid.t.reshape(-1)).reshape(shape) + log_f + weights).reshape(-1), 0) + (
        grid.log_half
    )


@partial(jax.jit, static_argnames=("depth", "width"))
def log_mass(
    tier: Int[Array, "row order item"],
    mean: Float[Array, "row order item"],
    deviation: Float[Array, "row order item"],
    depth: int,
    width: int,
) -> Float[Array, "row order"]:
    """log P of every order of every row; rows in portions that keep the working arrays small."""

    def one(codes: Array, mean: Array, deviation: Array) -> Array:
        if depth == 2:
            return log_mass_of_two(Split(mean, deviation, codes == 0, codes == 1, codes == 1))
        return log_mass_of_tiers(codes, mean, deviation, depth, width)

    flat = [value.reshape(-1, value.shape[-1]) for value in (tier, mean, deviation)]
    portion = 4096 if depth == 2 else 256 if width == 1 else 8
    if flat[0].shape[0] <= portion:
        return jax.vmap(one)(*flat).reshape(tier.shape[:-1])
    every = jax.lax.map(lambda row: jax.checkpoint(one)(*row), tuple(flat), batch_size=portion)
    return every.reshape(tier.shape[:-1])


@jax.jit
def log_mass_of_largest(
    mean: Float[Array, "row order item"],
    deviation: Float[Array, "row order item"],
    part: Bool[Array, "row order item"],
    chosen: Bool[Array, "row order item"],
) -> Float[Array, "row order"]:
    """log P(the largest of `part` is one of `chosen`), for every order of every row."""

    def one(mean: Array, deviation: Array, part: Array, chosen: Array) -> Array:
        # Seen from above, the largest is the smallest: all lie above −t, and one of the chosen is at −t.
        return log_mass_of_two(Split(-mean, deviation, jnp.zeros_like(part), part, chosen))

    return jax.vmap(jax.vmap(one))(mean, deviation, part, chosen)


def log_mass_gumbel(
    mean: Float[Array, "row order item"], in_tier: Bool[Array, "row order tier item"]
) -> Float[Array, "row order"]:
    """Plackett–Luce from the best tier down; a tie of n by Efron's n! Π_i e^μ_i / Π_{k<n} [below + (1 − k/n) tie].

    Exact for Gumbel utilities where the members of each tie have one mean, and always for single items: softmax.
    """
    size = in_tier.sum(axis=-1)
    members = _logsumexp(jnp.where(in_tier, mean[:, :, None, :], -jnp.inf), axis=-1)
    below = jax.lax.cumlogsumexp(jnp.where(size > 0, members, jnp.finfo(mean.dtype).min / 128), axis=2)
    below = jnp.concatenate([jnp.full_like(below[..., :1], -jnp.inf), below[..., :-1]], axis=-1)[..., 1:, None]
    picked = in_tier[:, :, 1:, :]  # the lowest tier is what is left over, with probability 1
    count = jnp.maximum(size[:, :, 1:, None], 1).astype(mean.dtype)
    place = (jnp.cumsum(picked, axis=-1) - 1).astype(mean.dtype)
    left = jnp.where(picked, 1.0 - place / count, 1.0)
    stage = jnp.logaddexp(below, members[..., 1:, None] + jnp.log(left))
    gain = jnp.where(picked, mean[:, :, None, :] - stage + jnp.log(jnp.maximum(place, 0.0) + 1.0), 0.0)
    return gain.sum(axis=(-1, -2))


def _lay(outer: Split, inner: Split, r: Rule) -> tuple[Grid, Panels]:
    """Panels from the far left of the lowest boundary to the far right of the highest."""
    dtype = outer.mean.dtype
    panels = panels_of(r.nodes, r.inner)
    left, right = locate(outer, r.drop)[0], locate(inner, r.drop)[1]
    half = (right - left) / (2 * r.panels)
    edges = left + half * jnp.asarray(2 * np.arange(r.panels), dtype)
    t = edges[:, None] + half * jnp.asarray(panels.nodes + 1.0, dtype)[None, :]
    s = edges[:, None, None] + half * jnp.asarray(panels.inner + 1.0, dtype)[None, :, :]
    return Grid(t, s, jnp.log(half)), panels


def _members(tier: Int[Array, " item"], last: Array, depth: int, width: int) -> tuple[Array, Array]:
    """Items by middle tier and place within it, `[tier, place]`, and whether there is one."""
    n = tier.shape[0]
    same = tier[:, None] == tier[None, :]
    place = (same & jnp.asarray(np.tri(n, k=-1, dtype=bool))).sum(axis=1)
    is_middle = (tier > 0) & (tier < last)
    row = jnp.where(is_middle, tier - 1, depth)  # out of range is dropped
    empty = jnp.full((max(depth - 2, 1), width), n, jnp.int32)
    member = empty.at[row, place].set(jnp.arange(n, dtype=jnp.int32), mode="drop")
    return jnp.minimum(member, n - 1), member < n


def _climb_one(log_f: Array, items: Tier, grid: Grid, panels: Panels) -> Array:
    """F_j(t) = ∫_{s<t} F_{j−1}(s) φ(s − μ) ds: whole panels to the left of t, and the part of its own."""
    dtype = log_f.dtype
    z = (grid.t - items.mean[0]) / items.deviation[0]
    value = log_f + log_phi(z) - jnp.log(items.deviation[0])
    spread = jnp.einsum("pm,kim->pki", value, jnp.asarray(panels.spread, dtype), precision=lax.Precision.HIGHEST)
    part = _logsumexp(spread + jnp.asarray(panels.log_inner, dtype)[None], axis=2)
    whole = _logsumexp(value + jnp.asarray(panels.log_weights, dtype)[None, :], axis=1)
    before = jnp.asarray(np.tri(whole.shape[0], k=-1, dtype=bool))
    before_t = _logsumexp(jnp.where(before, whole[None, :], -jnp.inf), axis=1)
    return jnp.logaddexp(before_t[:, None], part) + grid.log_half


def _climb_many(log_f: Array, items: Tier, grid: Grid, panels: Panels) -> Array:
    """F_j(t) for several items at once: their joint density of min = s with all below t, summed over s as above."""
    dtype, shape = log_f.dtype, grid.t.shape
    n = shape[0] * shape[1]
    t = grid.t.reshape(n)
    inside = grid.s.reshape(n, -1)
    panel = np.repeat(np.arange(shape[0]), shape[1])
    earlier = jnp.asarray(panel[:, None] > panel[None, :])

    @jax.checkpoint
    def pair(mean: Scalar, deviation: Scalar, here: Array) -> Four:
        z, y = (t - mean) / deviation, (inside - mean) / deviation
        at_t, at_s = log_both(z), log_both(y)
        column, row = lambda v: v[:, None], lambda v: v[None, :]
        sides = column(z) + row(z) > 0.0
        larger, gap = log_between(tuple(map(row, at_t)), tuple(map(column, at_t)), sides)
        # Nodes of different panels are well apart: no need of the slower expm1.
        far = jnp.where(earlier, larger + jnp.log(1.0 - jnp.exp(-jnp.where(earlier, gap, 1.0))), 0.0)
        larger, gap = log_between(at_s, tuple(map(column, at_t)), column(z) + y > 0.0)
        near = larger + jnp.log(-jnp.expm1(-gap))
        far_rate = jnp.exp(row(log_phi(z)) - far) / deviation
        near_rate = jnp.exp(log_phi(y) - near) / deviation
        return tuple(jnp.where(here, value, 0.0) for value in (far, far_rate, near, near_rate))  # type: ignore[return-value]

    def add(total: Four, item: Tier) -> tuple[Four, None]:
        return jax.tree.map(jnp.add, total, pair(*item)), None

    square, strip = jnp.zeros((n, n), dtype), jnp.zeros(inside.shape, dtype)
    (far, far_rate, near, near_rate), _ = lax.scan(add, (square, square, strip, strip), items)
    floor = jnp.finfo(dtype).tiny
    weights = jnp.asarray(np.tile(panels.log_weights, shape[0]), dtype)
    far = far + jnp.log(jnp.maximum(far_rate, floor)) + (log_f.reshape(n) + weights)[None, :]
    spread = jnp.einsum("pm,kim->pki", log_f, jnp.asarray(panels.spread, dtype), precision=lax.Precision.HIGHEST)
    inner = jnp.asarray(np.tile(panels.log_inner, (shape[0], 1)), dtype)
    near = near + jnp.log(jnp.maximum(near_rate, floor)) + spread.reshape(inside.shape) + inner
    both = jnp.concatenate([jnp.where(earlier, far, -jnp.inf), near], axis=1)
    return (_logsumexp(both, axis=1) + grid.log_half).reshape(shape)
