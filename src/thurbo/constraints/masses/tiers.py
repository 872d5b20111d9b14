"""§4.4 The exact probability of a weak order: all of tier j+1 above all of tier j, for independent normal utilities.

F_j(t) = P(tiers 0..j in order, all below t) = ∫_{s<t} F_{j−1}(s) · −∂_s Π_{i in tier j}[Φ(t−μ_i) − Φ(s−μ_i)] ds.
Promises: log F on panels, never F, so nothing underflows; two tiers take one short integral, others a step each.
Middle tiers that are single items, as in the common ranking, or small ties go in shorter steps with slopes in closed
form (chains.py). Rows are the last axis, where loops over them are contiguous.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial.legendre import leggauss

from thurbo._typing import Array, Bool, Float, Int
from thurbo.constraints.masses.chains import What, log_mass_of_chain
from thurbo.constraints.masses.choices import log_mass_of_choice
from thurbo.constraints.masses.needed import Portions, log_mass_of_needed
from thurbo.constraints.masses.splits import (
    Four,
    Rule,
    Scalar,
    Split,
    Tier,
    ends_of,
    interpolation,
    log_between,
    log_both,
    log_mass_of_two,
    log_phi,
    logsumexp,
    rule,
    split_log_density,
)

# The widest middle tie whose chains are summed: one of four has 23 edges, of five 70.
WIDEST = 4
# Portions of rows that fit a processor's cache; on an accelerator, where launching costs most, this many times more.
ON_ACCELERATOR = 128
OF_CHOICES, OF_CHAINS = 256, 64  # the same where only some orders are needed: the last portion is partly waste

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
    return Panels(x, np.log(w), at, np.log(half[:, None] * v[None, :]), interpolation(x, at))


class Grid(NamedTuple):
    """The panels laid over one row's boundaries."""

    t: Float[Array, "panel node"]
    s: Float[Array, "panel node inner"]  # between the left edge of t's panel and t
    log_half: Scalar


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
    return logsumexp(value.reshape(-1), 0) + grid.log_half


@partial(jax.jit, static_argnames=("depth", "width", "is_ranking", "is_choice", "has_places"))
def log_mass(
    tier: Int[Array, "row order item"],
    mean: Float[Array, "row order item"],
    deviation: Float[Array, "row order item"],
    depth: int,
    width: int,
    is_ranking: bool = False,
    is_choice: bool = False,
    has_places: bool = False,
    needed: Bool[Array, "row order"] | None = None,
) -> Float[Array, "row order"]:
    """log P of every order of every row; rows in portions that keep the working arrays small.

    Orders that are not `needed` may be left out, with any value; there is one derivative then. `is_ranking` promises
    that the outer tiers are single items too, `has_places` that the highest is, and `is_choice` two tiers of which the
    upper one is.
    """
    # Two items at least are in the outer tiers.
    between = min(tier.shape[-1] - 2, (depth - 2) * width)
    width = min(width, max(between, 1))

    def some(codes: Array, mean: Array, deviation: Array) -> Array:
        if is_choice:
            return log_mass_of_choice(mean, deviation, codes == 1, codes == 0)
        if depth == 2:
            return log_mass_of_two(Split(mean, deviation, codes == 0, codes == 1, codes == 1))
        if width <= WIDEST:
            return log_mass_of_chain(What(between, width, is_ranking, is_ranking or has_places), codes, mean, deviation)
        ends = jnp.stack(ends_of(codes, mean, deviation, rule(mean.dtype, depth, width).drop))
        one = jax.checkpoint(partial(log_mass_of_tiers, depth=depth, width=width))
        return jax.vmap(one, in_axes=-1)(codes, mean, deviation, ends)

    items = [value.reshape(-1, value.shape[-1]).T for value in (tier, mean, deviation)]
    some_only = needed is not None and jax.default_backend() == "cpu" and (is_choice or (depth > 2 and width <= WIDEST))
    if some_only and items[0].shape[1] > (OF_CHOICES if is_choice else OF_CHAINS):
        chain = None if is_choice else What(between, width, is_ranking, is_ranking or has_places)
        how = Portions(OF_CHOICES if is_choice else OF_CHAINS, chain)
        return log_mass_of_needed(how, needed.reshape(-1), *items).reshape(tier.shape[:-1])  # type: ignore[union-attr]
    n, portion = items[0].shape[1], 512 if is_choice else 1024 if depth == 2 else 128 if width <= WIDEST else 8
    portion *= 1 if jax.default_backend() == "cpu" else ON_ACCELERATOR
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
    members = logsumexp(jnp.where(in_tier, mean[:, :, None, :], -jnp.inf), axis=-1)
    is_below = (jnp.cumsum(in_tier, axis=2) > 0)[:, :, :-1]
    below = logsumexp(jnp.where(is_below, mean[:, :, None, :], -jnp.inf), axis=-1)[..., None]
    picked = in_tier[:, :, 1:, :]  # the lowest tier is what is left over, with probability 1
    count = jnp.maximum(size[:, :, 1:, None], 1).astype(mean.dtype)
    place = (jnp.cumsum(picked, axis=-1) - 1).astype(mean.dtype)
    left = jnp.where(picked, 1.0 - place / count, 1.0)
    stage = jnp.logaddexp(below, members[..., 1:, None] + jnp.log(left))
    gain = jnp.where(picked, mean[:, :, None, :] - stage + jnp.log(jnp.maximum(place, 0.0) + 1.0), 0.0)
    return gain.sum(axis=(-1, -2))


def slopes_gumbel(
    mean: Float[Array, "row order item"], tier: Int[Array, "row order item"], depth: int, has_ties: bool = True
) -> Float[Array, "row order item"]:
    """The gradient of `log_mass_gumbel`: for each stage, whether an item was picked minus the chance that it would be.

    `has_ties` says whether a tier other than the lowest may have several items.
    """
    stage, tier = jnp.arange(1, depth, dtype=tier.dtype)[None, None, :, None], tier[:, :, None, :]
    picked, is_left = tier == stage, (tier >= 0) & (tier <= stage)
    top = jnp.where(is_left, mean[:, :, None, :], -jnp.inf).max(axis=-1, keepdims=True)
    top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
    size = jnp.exp(jnp.where(is_left, mean[:, :, None, :] - top, -jnp.inf))
    if not has_ties:
        chance = size / jnp.maximum(size.sum(axis=-1, keepdims=True), jnp.finfo(mean.dtype).tiny)
        chance = jnp.where(picked.any(axis=-1, keepdims=True), chance, 0.0)
        return (picked.astype(mean.dtype) - chance).sum(axis=2)
    tie = jnp.where(picked, size, 0.0)
    rest, both = (size - tie).sum(axis=-1, keepdims=True), tie.sum(axis=-1, keepdims=True)
    count = jnp.maximum(picked.sum(axis=-1, keepdims=True), 1).astype(mean.dtype)
    place = (jnp.cumsum(picked, axis=-1) - 1).astype(mean.dtype)
    left = jnp.where(picked, 1.0 - place / count, 1.0)
    each = jnp.where(picked, 1.0 / jnp.maximum(rest + left * both, jnp.finfo(mean.dtype).tiny), 0.0)
    chance = size * jnp.where(picked, (left * each).sum(axis=-1, keepdims=True), each.sum(axis=-1, keepdims=True))
    return (picked.astype(mean.dtype) - chance).sum(axis=2)


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
    return (logsumexp(both, axis=1) + grid.log_half).reshape(shape)
