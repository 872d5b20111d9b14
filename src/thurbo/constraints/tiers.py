"""§4.4 The exact probability of a weak order: all of tier j+1 above all of tier j, for independent normal utilities.

F_j(t) = P(tiers 0..j in order, all below t) = ∫_{s<t} F_{j−1}(s) · −∂_s Π_{i in tier j}[Φ(t−μ_i) − Φ(s−μ_i)] ds.
Promises: log F on panels, never F, so nothing underflows; two tiers take one short integral, others a step each. A
chain of single items, the common ranking, has its own short steps and its slopes in closed form. Rows stand on the
last axis, where loops over them are contiguous.
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

Items = Float[Array, "item *row"]
ItemsCode = Int[Array, "item *row"]
ItemsMask = Bool[Array, "item *row"]
Points = Float[Array, "point *row"]
Scalar = Float[Array, "*row"]
Panelled = Float[Array, "node panel *row"]
Four = tuple[Array, Array, Array, Array]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


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
        panels = 12 + depth if width == 1 else 16 if is_large else 10
        return Rule(points=28, drop=20.0, panels=panels, nodes=6, inner=3 if width == 1 else 6)
    panels = 24 + 2 * depth if width == 1 else 32 if is_large else 18
    return Rule(points=64, drop=38.0, panels=panels, nodes=8, inner=6 if width == 1 else 10)


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
    z = (s[:, None] - split.mean[None]) / split.deviation[None]
    below, above = log_both(z)
    lower, upper, edge = split.lower[None], split.upper[None], split.edge[None]
    total = jnp.where(lower, below, 0.0).sum(axis=1) + jnp.where(upper, above, 0.0).sum(axis=1)
    hazard = log_phi(z) - above - jnp.log(split.deviation)[None]
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
    z = (s[None] - split.mean) / sd
    below, above = log_both(z)
    left = jnp.where(split.lower, jnp.exp(log_phi(z) - below), 0.0)
    hazard = jnp.exp(log_phi(z) - above)
    right = jnp.where(split.upper, hazard, 0.0)
    # Shares of the edge's hazard in logs: far below all its members the hazard itself underflows in float32.
    rate = jnp.where(split.edge, log_phi(z) - above - jnp.log(sd), -jnp.inf)
    most = rate.max(axis=0)
    share = jnp.exp(rate - most[None])
    total = share.sum(axis=0)
    share = share / total[None]
    excess = (hazard - z) / sd
    first = (share * excess).sum(axis=0)
    second = (share * (excess * excess + (hazard * (hazard - z) - 1.0) / (sd * sd))).sum(axis=0) - first * first
    value = jnp.where(split.lower, below, 0.0).sum(axis=0) + jnp.where(split.upper, above, 0.0).sum(axis=0)
    value = value + most + jnp.log(total)
    slope = (left / sd).sum(axis=0) - (right / sd).sum(axis=0) + first
    bend = -(left * (z + left) / sd**2).sum(axis=0) - (right * (hazard - z) / sd**2).sum(axis=0) + second
    return value, slope, bend


class Peak(NamedTuple):
    """Where a log-density is highest, how high, and the widest deviation at its edge."""

    s: Scalar
    height: Scalar
    widest: Scalar


def peak_of(split: Split) -> Peak:
    """The top of the log-density, which is concave, by Newton's steps. No gradient: nodes are only nodes."""
    split = Split(*(lax.stop_gradient(part) for part in split))
    big = jnp.finfo(split.mean.dtype).max / 8
    edge = jnp.where(split.edge, split.mean, big).min(axis=0)
    top = jnp.where(split.lower, split.mean, -big).max(axis=0)
    widest = jnp.where(split.edge, split.deviation, 0.0).max(axis=0)

    def climb(_: Any, s: Scalar) -> Scalar:
        _, slope, bend = _slopes(split, s)
        # The density of min(edge) falls at least like one edge item's own, so its curvature is at least this.
        return s + slope / jnp.maximum(-bend, 0.25 / widest**2)

    s = lax.fori_loop(0, 7, climb, jnp.maximum(edge, 0.5 * (edge + top)))
    return Peak(s, _slopes(split, s)[0], widest)


def reach_of(split: Split, peak: Peak, drop: float, sign: np.ndarray) -> Scalar:
    """A point on this side of the peak beyond which the log-density lies more than `drop` below it."""
    split = Split(*(lax.stop_gradient(part) for part in split))
    side = jnp.broadcast_to(jnp.asarray(sign, peak.s.dtype), peak.s.shape)

    def inwards(_: Any, s: Scalar) -> Scalar:
        value, slope, _ = _slopes(split, s)
        step = (peak.height - drop - value) / slope  # concave: from outside, Newton stays outside
        inside = side * step < 0.0
        return jnp.where(inside & (side * (s + step - peak.s) > 0.0), s + step, s)

    return lax.fori_loop(0, 4, inwards, peak.s + side * math.sqrt(2.0 * drop) * peak.widest)


def _beside(first: Any, second: Any) -> Any:
    """Two sets of rows as one, so that one loop serves both."""
    return jax.tree.map(lambda one, other: jnp.concatenate([one, other], axis=-1), first, second)


def _sides(n_rows: int) -> np.ndarray:
    return np.repeat([-1.0, 1.0], n_rows)


def _ends(tier: ItemsCode, mean: Items, deviation: Items, drop: float) -> tuple[Scalar, Scalar]:
    """From the far left of the lowest boundary to the far right of the highest."""
    last, n_rows = tier.max(axis=0)[None], tier.shape[-1]
    outer = Split(mean, deviation, tier == 0, tier > 0, tier == 1)
    inner = Split(mean, deviation, (tier >= 0) & (tier < last), tier == last, tier == last)
    both = _beside(outer, inner)
    at = reach_of(both, peak_of(both), drop, _sides(n_rows))
    return at[:n_rows], at[n_rows:]


def log_mass_of_two(split: Split) -> Scalar:
    """log P(all of `upper` above all of `lower`) = log ∫ of the density of min(upper); one centred Gauss rule."""
    r, n_rows = rule(split.mean.dtype), split.mean.shape[-1]
    peak = peak_of(split)
    at = reach_of(_beside(split, split), _beside(peak, peak), r.drop, _sides(n_rows))
    left, right = at[:n_rows], at[n_rows:]
    nodes, weights = leggauss(r.points)
    half = 0.5 * (right - left)
    s = left[None] + half[None] * jnp.asarray(nodes + 1.0, half.dtype)[:, None]
    value = split_log_density(split, s) + jnp.asarray(np.log(weights), half.dtype)[:, None]
    return _logsumexp(value, axis=0) + jnp.log(half)


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
    return Panels(x, np.log(w), at, np.log(half[:, None] * v[None, :]), _interpolation(x, at))


def _interpolation(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """[…, node]: values at the nodes x → values of their polynomial at other points, by barycentric weights."""
    difference = x[:, None] - x[None, :] + np.eye(len(x))
    barycentric = 1.0 / difference.prod(axis=1)
    gap = at[..., None] - x
    hit = np.abs(gap) < 1e-14
    ratio = barycentric / np.where(hit, 1.0, gap)
    return np.where(hit.any(axis=-1, keepdims=True), hit, ratio / ratio.sum(axis=-1, keepdims=True))


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


def log_mass_of_tiers(
    tier: Int[Array, " item"],
    mean: Float[Array, " item"],
    deviation: Float[Array, " item"],
    ends: Float[Array, " two"],
    depth: int,
    width: int,
) -> Float[Array, ""]:
    """log P of one order: at most `depth` tiers, at most `width` items in any tier but the outer two."""
    last = tier.max()
    grid, panels = _lay(ends, rule(mean.dtype, depth, width))
    shape = grid.t.shape
    below, _ = log_both((grid.t.reshape(-1, 1) - mean[None, :]) / deviation[None, :])
    log_f = jnp.where((tier == 0)[None, :], below, 0.0).sum(axis=1).reshape(shape)

    @jax.checkpoint
    def climb(log_f: Array, items: Tier) -> tuple[Array, None]:
        return jnp.where(items.here.any(), _climb_many(log_f, items, grid, panels), log_f), None

    member, here = _members(tier, last, depth, width)
    items = Tier(jnp.take(mean, member), jnp.take(deviation, member), here)
    log_f, _ = lax.scan(climb, log_f, items)

    top = Split(mean, deviation, jnp.zeros_like(tier, bool), tier == last, tier == last)
    weights = jnp.asarray(panels.log_weights, mean.dtype)[None, :]
    value = split_log_density(top, grid.t.reshape(-1)).reshape(shape) + log_f + weights
    return _logsumexp(value.reshape(-1), 0) + grid.log_half


@partial(jax.jit, static_argnames=("depth", "width", "is_ranking"))
def log_mass(
    tier: Int[Array, "row order item"],
    mean: Float[Array, "row order item"],
    deviation: Float[Array, "row order item"],
    depth: int,
    width: int,
    is_ranking: bool = False,
) -> Float[Array, "row order"]:
    """log P of every order of every row; rows in portions that keep the working arrays small.

    `is_ranking` promises that the outer tiers are single items too.
    """

    def some(codes: Array, mean: Array, deviation: Array) -> Array:
        if depth == 2:
            return log_mass_of_two(Split(mean, deviation, codes == 0, codes == 1, codes == 1))
        if width == 1:
            return log_mass_of_chain(What(depth, is_ranking), codes, mean, deviation)
        ends = jnp.stack(_ends(codes, mean, deviation, rule(mean.dtype, depth, width).drop))
        one = jax.checkpoint(partial(log_mass_of_tiers, depth=depth, width=width))
        return jax.vmap(one, in_axes=-1)(codes, mean, deviation, ends)

    items = [value.reshape(-1, value.shape[-1]).T for value in (tier, mean, deviation)]
    n, portion = items[0].shape[1], 1024 if depth == 2 else 128 if width == 1 else 8
    if n <= portion:
        return some(*items).reshape(tier.shape[:-1])
    n_portions = -(-n // portion)
    # Filled up with the last row, so that one program of one shape does it all.
    filled = [jnp.pad(value, ((0, 0), (0, n_portions * portion - n)), mode="edge") for value in items]
    parts = [jnp.moveaxis(value.reshape(value.shape[0], n_portions, portion), 1, 0) for value in filled]
    every = lax.map(lambda part: some(*part), tuple(parts))
    return every.reshape(-1)[:n].reshape(tier.shape[:-1])


@jax.jit
def log_mass_of_largest(
    mean: Float[Array, "row order item"],
    deviation: Float[Array, "row order item"],
    part: Bool[Array, "row order item"],
    chosen: Bool[Array, "row order item"],
) -> Float[Array, "row order"]:
    """log P(the largest of `part` is one of `chosen`), for every order of every row."""
    shape = part.shape[:-1]
    mean, deviation, part, chosen = (v.reshape(-1, v.shape[-1]).T for v in (mean, deviation, part, chosen))
    # Seen from above, the largest is the smallest: all lie above −t, and one of the chosen is at −t.
    return log_mass_of_two(Split(-mean, deviation, jnp.zeros_like(part), part, chosen)).reshape(shape)


def log_mass_gumbel(
    mean: Float[Array, "row order item"], in_tier: Bool[Array, "row order tier item"]
) -> Float[Array, "row order"]:
    """Plackett–Luce from the best tier down; a tie of n by Efron's n! Π_i e^μ_i / Π_{k<n} [below + (1 − k/n) tie].

    Exact for Gumbel utilities where the members of each tie have one mean, and always for single items: softmax.
    """
    size = in_tier.sum(axis=-1)
    members = _logsumexp(jnp.where(in_tier, mean[:, :, None, :], -jnp.inf), axis=-1)
    is_below = (jnp.cumsum(in_tier, axis=2) > 0)[:, :, :-1]
    below = _logsumexp(jnp.where(is_below, mean[:, :, None, :], -jnp.inf), axis=-1)[..., None]
    picked = in_tier[:, :, 1:, :]  # the lowest tier is what is left over, with probability 1
    count = jnp.maximum(size[:, :, 1:, None], 1).astype(mean.dtype)
    place = (jnp.cumsum(picked, axis=-1) - 1).astype(mean.dtype)
    left = jnp.where(picked, 1.0 - place / count, 1.0)
    stage = jnp.logaddexp(below, members[..., 1:, None] + jnp.log(left))
    gain = jnp.where(picked, mean[:, :, None, :] - stage + jnp.log(jnp.maximum(place, 0.0) + 1.0), 0.0)
    return gain.sum(axis=(-1, -2))


def _lay(ends: Float[Array, " two"], r: Rule) -> tuple[Grid, Panels]:
    """Panels from end to end."""
    panels, left, dtype = panels_of(r.nodes, r.inner), ends[0], ends.dtype
    half = (ends[1] - left) / (2 * r.panels)
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


# ---- Chains: every middle tier is one item


class Steps(NamedTuple):
    """Nodes of a panel [−1, 1] cut at its nodes into short intervals, each with a Gauss rule of its own."""

    nodes: np.ndarray  # [node]
    log_weights: np.ndarray  # [node]
    spread: np.ndarray  # [inner, node]: values at the nodes → values at all inner points
    log_inner: np.ndarray  # [inner]: their weights
    upto: np.ndarray  # [node + 1, inner]: which of them lie to the left of each node, and of the right edge


@lru_cache
def steps_of(nodes: int, inner: int) -> Steps:
    x, w = leggauss(nodes)
    y, v = leggauss(inner)
    cuts = np.r_[-1.0, x, 1.0]
    half = 0.5 * np.diff(cuts)[:, None]
    at = (cuts[:-1, None] + half * (y + 1.0)[None, :]).reshape(-1)
    upto = np.repeat(np.arange(nodes + 1), inner)[None, :] <= np.arange(nodes + 1)[:, None]
    return Steps(x, np.log(w), _interpolation(x, at), np.log((half * v[None, :]).reshape(-1)), upto.astype(float))


def _cumulate(value: Panelled, log_half: Scalar, steps: Steps) -> Panelled:
    """log ∫_{s<t} exp(value) ds at every node t: whole panels to its left, and the short intervals of its own."""
    dtype, least = value.dtype, jnp.finfo(value.dtype).min / 64
    times = lambda m, v: jnp.tensordot(jnp.asarray(m, dtype), v, 1, precision=lax.Precision.HIGHEST)  # noqa: E731
    at = times(steps.spread, value) + jnp.asarray(steps.log_inner, dtype)[:, None, None]
    top = lax.stop_gradient(jnp.maximum(at.max(axis=0), least))
    upto = times(steps.upto, jnp.exp(at - top[None]))
    whole = jnp.log(upto[-1]) + top
    is_before = jnp.asarray(np.tri(whole.shape[0], k=-1, dtype=bool))[:, :, None]
    before = _logsumexp(jnp.where(is_before, whole[None], -jnp.inf), axis=1)
    most = jnp.maximum(lax.stop_gradient(before), top)
    total = jnp.exp(before - most)[None] + upto[:-1] * jnp.exp(top - most)[None]
    return jnp.log(jnp.maximum(total, jnp.finfo(dtype).tiny)) + (most + log_half[None])[None]


class What(NamedTuple):
    """What is known of all orders: the most tiers, and whether the outer ones are single items too."""

    depth: int
    single: bool


class End(NamedTuple):
    """The items of the lowest tier, or of the highest."""

    mean: Items
    deviation: Items
    here: ItemsMask

    def z(self, t: Panelled) -> Float[Array, "item node panel row"]:
        return (t[None] - _wide(self.mean)) / _wide(self.deviation)


class Chain(NamedTuple):
    """Orders laid on panels, one in each row: all that their masses and slopes are made of."""

    t: Panelled
    log_half: Scalar
    log_weights: Panelled  # of an integral over t
    middle: Tier  # [tier, row]: the items between the ends
    own: Bool[Array, "tier item row"]  # which items those are
    lower: End
    upper: End


def _wide(value: Array) -> Array:
    """`[item, row]` against `[item, node, panel, row]`."""
    return value[:, None, None]


def _end(here: ItemsMask, mean: Items, deviation: Items, single: bool) -> End:
    return End(*_only(here, mean, deviation)) if single else End(mean, deviation, here)


def _lay_chain(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> tuple[Chain, Steps]:
    depth, single = what
    last, r = tier.max(axis=0)[None], rule(mean.dtype, depth, 1)
    steps = steps_of(r.nodes, r.inner)
    left, right = _ends(tier, mean, deviation, r.drop)
    half = (right - left) / (2 * r.panels)
    place = (steps.nodes + 1.0)[:, None] + 2.0 * np.arange(r.panels)[None, :]
    t = left[None, None] + half[None, None] * jnp.asarray(place, mean.dtype)[:, :, None]
    number = jnp.arange(1, depth - 1, dtype=tier.dtype)[:, None]
    own = (tier[None] == number[:, :, None]) & (number < last)[:, None]
    log_half = jnp.log(half)
    log_weights = log_half[None, None] + jnp.asarray(steps.log_weights, t.dtype)[:, None, None]
    middle = _only(own, mean[None], deviation[None])
    return Chain(
        t,
        log_half,
        jnp.broadcast_to(log_weights, t.shape),
        Tier(*(part[:, 0] for part in middle)),
        own,
        _end(tier == 0, mean, deviation, single),
        _end(tier == last, mean, deviation, single),
    ), steps


def _only(mask: Array, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    """Mean and deviation of the one item that is marked, on an axis of length one, and whether there is one."""
    there = mask.any(axis=-2, keepdims=True)
    pick = lambda value: jnp.where(mask, value, 0.0).sum(axis=-2, keepdims=True)  # noqa: E731
    return pick(mean), jnp.where(there, pick(deviation), 1.0), there


def _all_below(end: End, t: Panelled) -> Panelled:
    """log P(every item of the lowest tier is below t)."""
    below, _ = log_both(end.z(t))
    return jnp.where(_wide(end.here), below, 0.0).sum(axis=0)


def _all_above(end: End, t: Panelled) -> Panelled:
    """log P(every item of the highest tier is above t)."""
    _, above = log_both(end.z(t))
    return jnp.where(_wide(end.here), above, 0.0).sum(axis=0)


def _hazards(end: End, t: Panelled) -> tuple[Array, Array]:
    """log Φ(−z) of the highest tier's items, and the log of their hazards φ / (σ Φ(−z))."""
    z = end.z(t)
    _, above = log_both(z)
    return above, jnp.where(_wide(end.here), log_phi(z) - above - _wide(jnp.log(end.deviation)), -jnp.inf)


def _least_of_top(end: End, t: Panelled) -> Panelled:
    """log density of the smallest item of the highest tier."""
    above, hazard = _hazards(end, t)
    return _logsumexp(hazard, axis=0) + jnp.where(_wide(end.here), above, 0.0).sum(axis=0)


def _slopes_below(end: End, t: Panelled, chance: Panelled) -> tuple[Items, Items]:
    """Slopes of E[log P(all below t)] by σ-scaled means and deviations."""
    z = end.z(t)
    slope = jnp.where(_wide(end.here), -chance[None] * jnp.exp(log_phi(z) - log_both(z)[0]), 0.0)
    return slope.sum(axis=(1, 2)), (slope * z).sum(axis=(1, 2))


def _slopes_of_top(end: End, t: Panelled, chance: Panelled) -> tuple[Items, Items]:
    """Slopes of the expected log density of the smallest item, in the same units."""
    z = end.z(t)
    above, log_hazard = _hazards(end, t)
    share = jnp.exp(log_hazard - _logsumexp(log_hazard, axis=0)[None])
    hazard = jnp.exp(log_phi(z) - above)
    slope = jnp.where(_wide(end.here), chance[None] * (hazard + share * (z - hazard)), 0.0)
    return slope.sum(axis=(1, 2)), (slope * z - chance[None] * share).sum(axis=(1, 2))


def _log_density(t: Array, item: Tier) -> Array:
    z = (t - item.mean[None, None]) / item.deviation[None, None]
    return log_phi(z) - jnp.log(item.deviation)[None, None]


def _flat(value: Panelled) -> Points:
    return value.reshape(-1, value.shape[-1])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_mass_of_chain(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> Scalar:
    """log P of orders whose tiers, but for the outer two, are single items: F_j(t) = ∫_{s<t} F_{j−1}(s) φ_j(s) ds."""
    chain, steps = _lay_chain(what, tier, mean, deviation)

    def climb(log_f: Array, item: Tier) -> tuple[Array, None]:
        value = log_f + _log_density(chain.t, item)
        return jnp.where(item.here[None, None], _cumulate(value, chain.log_half, steps), log_f), None

    log_f, _ = lax.scan(climb, _all_below(chain.lower, chain.t), chain.middle)
    return _logsumexp(_flat(_least_of_top(chain.upper, chain.t) + log_f + chain.log_weights), axis=0)


@log_mass_of_chain.defjvp
def _log_mass_of_chain_jvp(
    what: What, primals: tuple[ItemsCode, Items, Items], tangents: tuple[Any, Items, Items]
) -> tuple[Scalar, Scalar]:
    value, by_mean, by_deviation = chain_slopes(what, *primals)
    return value, (by_mean * tangents[1] + by_deviation * tangents[2]).sum(axis=0)


def chain_slopes(what: What, tier: ItemsCode, mean: Items, deviation: Items) -> tuple[Scalar, Items, Items]:
    """log P with its slopes by means and deviations: E[z]/σ and E[z² − 1]/σ for the item of a middle tier.

    P(x_j ∈ dt | order) ∝ F_{j−1}(t) φ_j(t) B_j(t), with B_j(t) the mass of all above j, all beyond t: the recursion
    from the other end, run beside F as if it were further rows. An end's items have slopes of log Φ and of a hazard.
    """
    chain, steps = _lay_chain(what, tier, mean, deviation)
    middle, t, n_rows = chain.middle, chain.t, tier.shape[1]
    mirror = lambda value: jnp.flip(value, axis=(-3, -2))  # noqa: E731
    both_t, log_half = _beside(t, mirror(t)), _beside(chain.log_half, chain.log_half)

    def climb(both: Array, item: Tier) -> tuple[Array, Array]:
        value = both + _log_density(both_t, item)
        return jnp.where(item.here[None, None], _cumulate(value, log_half, steps), both), both

    start = _beside(_all_below(chain.lower, t), mirror(_all_above(chain.upper, t)))
    both, before = lax.scan(climb, start, _beside(middle, jax.tree.map(lambda value: value[::-1], middle)))
    at_top = _least_of_top(chain.upper, t) + both[..., :n_rows] + chain.log_weights
    value = _logsumexp(_flat(at_top), axis=0)
    top_chance = jnp.exp(at_top - value[None, None])

    z = (t[None] - _wide(middle.mean)) / _wide(middle.deviation)
    log_chance = before[..., :n_rows] + mirror(before[::-1, ..., n_rows:]) - value[None, None, None]
    log_chance = log_chance + chain.log_weights[None] + log_phi(z) - _wide(jnp.log(middle.deviation))
    chance = jnp.where(_wide(middle.here), jnp.exp(log_chance), 0.0)
    # One up to the error of the two recursions, which far in the tails is not small in float32.
    chance = chance / jnp.where(_wide(middle.here), chance.sum(axis=(1, 2), keepdims=True), 1.0)
    first_chance = jnp.where(middle.here[0][None, None], chance[0], top_chance)

    place = lambda here, slopes: (jnp.where(here, jnp.broadcast_to(v, here.shape), 0.0) for v in slopes)  # noqa: E731
    first = place(tier == 0, _slopes_below(chain.lower, t, first_chance))
    top = place(tier == tier.max(axis=0)[None], _slopes_of_top(chain.upper, t, top_chance))
    to_items = lambda v: jnp.where(chain.own, v.sum(axis=(1, 2))[:, None], 0.0).sum(axis=0)  # noqa: E731
    between = to_items(chance * z), to_items(chance * (z * z - 1.0))
    by_mean, by_deviation = (sum(parts) / deviation for parts in zip(first, top, between, strict=True))
    return value, by_mean, by_deviation
