"""§4.4, A.3, §4.2 Rankings: their probabilities under many means at once, ways to break ties, and moves along an order.

Permutations use the trapezoid rule with Euler and Maclaurin's first corrections, a sixth of the time of `orders`: in
float32 log P is good to 1e-4 down to P = e^−20. A weak order with Gumbel noise is a sum over all ways to break its
ties. Moves shift whole blocks of neighbouring tiers, which a sweep does only slowly.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from thurbo._typing import Array, Bool, Float, Int, PRNGKey
from thurbo.latent import truncnorm
from thurbo.latent.masses import boundaries
from thurbo.latent.masses.boundaries import PerOrder, Split, Utilities, in_portions, log_below, times, with_slopes

Placed = Float[Array, "place pair"]  # means from the lowest item to the highest
PerPair = Float[Array, " pair"]
Nodes = Float[Array, "node block pair"]

LEAST = -25.0  # nats
MOST_RANKED = 12  # 12! = e^20: rankings of more are too unlikely, all of them
WORTHWHILE = 2048  # states times rows from which on a second program pays
BLOCK, BLOCKS = 16, 8
DROP = 14.0  # how many nats below its peak the density of an outer item is cut off
PORTION, ON_ACCELERATOR = 128, 256  # pairs at a time, and how many times more where launches are what costs
_SQRT_2PI, _SQRT_HALF = float(np.sqrt(2.0 * np.pi)), float(np.sqrt(0.5))


@lru_cache
def _matrix() -> np.ndarray:
    """[node + 1, before + node + behind]: ∫ up to each node of a block from its left edge on, and its whole sum.

    ∫_{s<t} f = h (Σ f − f(t)/2) − h²/12 f'(t) + h⁴/720 f'''(t) − h⁶/30240 f⁽⁵⁾(t), with differences over three
    neighbours on either side for the derivatives.
    """
    near = -np.array([45, -9, 1]) / 720 + np.array([-13, 8, -1]) / 5760 - np.array([5, -4, 1]) / 60480
    out = np.zeros((BLOCK + 1, BLOCK + 6))
    out[:BLOCK, 3:-3] = np.tri(BLOCK) - 0.5 * np.eye(BLOCK)
    for step, weight in enumerate(near, 1):
        for node in range(BLOCK):
            out[node, 3 + node + step] += weight
            out[node, 3 + node - step] -= weight
    out[BLOCK, 3:-3] = 1.0
    return out


def _cumulate(f: Nodes, unit: PerPair) -> Nodes:
    """∫_{s<t} f(s) ds at every node t."""
    gap = jnp.zeros_like(f[:3, :1])
    before = jnp.concatenate([gap, f[-3:, :-1]], axis=1)
    behind = jnp.concatenate([f[:3, 1:], gap], axis=1)
    every = times(_matrix(), jnp.concatenate([before, f, behind], axis=0))
    earlier = times(np.tri(BLOCKS, k=-1), every[-1])
    return jnp.maximum(every[:-1] + earlier[None], 0.0) * unit[None, None]


def _grid(left: PerPair, right: PerPair) -> tuple[Nodes, PerPair]:
    """Even nodes from end to end, and their distance over √2π: φ is used without its constant."""
    step = (right - left) / (BLOCK * BLOCKS - 1)
    number = np.arange(BLOCK)[:, None] + BLOCK * np.arange(BLOCKS)[None, :]
    t = left[None, None] + step[None, None] * jnp.asarray(number, left.dtype)[:, :, None]
    return t, step / _SQRT_2PI


def _bump(t: Nodes, mean: PerPair) -> Nodes:
    z = t - mean[None, None]
    return jnp.exp(-0.5 * z * z)


def _below(t: Nodes, mean: PerPair) -> Nodes:
    """Φ(t − mean)."""
    return 0.5 * lax.erfc((mean[None, None] - t) * _SQRT_HALF)


def _mass_of_pairs(placed: Placed, left: PerPair, right: PerPair) -> PerPair:
    """log P(x_0 < x_1 < …), x_j ~ N(placed_j, 1); all but the lowest lie between the ends."""
    t, unit = _grid(left, right)
    climb = lambda f, mean: (_cumulate(f * _bump(t, mean), unit), None)  # noqa: E731
    f, _ = lax.scan(climb, _below(t, placed[0]), placed[1:-1])
    return _log_of_last(f, t, placed[-1], unit)


def _log_of_last(f: Nodes, t: Nodes, mean: PerPair, unit: PerPair) -> PerPair:
    """log ∫ of f times the density of the highest item."""
    mass = (f * _bump(t, mean)).sum(axis=(0, 1)) * unit
    return jnp.log(jnp.maximum(mass, jnp.finfo(mass.dtype).tiny))


def slopes_of_pairs(placed: Placed, left: PerPair, right: PerPair) -> tuple[PerPair, Placed]:
    """log P and its slopes, E[x_j − mean_j]: the same recursion from above runs beside it as if it were more pairs.

    A common shift of all means changes nothing, so the slopes sum to zero, which gives the highest item's.
    """
    n = placed.shape[1]
    t, unit = _grid(boundaries.beside(left, -right), boundaries.beside(right, -left))
    both = boundaries.beside(placed, -placed[::-1])

    def climb(f: Nodes, mean: PerPair) -> tuple[Nodes, tuple[Array, Array]]:
        inside = f * _bump(t, mean)
        return _cumulate(inside, unit), (f[..., n:], inside[..., :n])

    f, (above, inside) = lax.scan(climb, _below(t, both[0]), both[1:-1])
    t, unit = t[..., :n], unit[:n]
    value = _log_of_last(f[..., :n], t, placed[-1], unit)
    chance = inside * jnp.flip(above, axis=(0, 1, 2))  # [place, node, block, pair]
    total = jnp.maximum(chance.sum(axis=(1, 2)), jnp.finfo(chance.dtype).tiny)
    middle = (chance * t[None]).sum(axis=(1, 2)) / total - placed[1:-1]
    # ∂Φ/∂mean = −φ in the place of Φ; it occurs only in the step from the lowest item to the next.
    slope = _bump(t, placed[0]) * _bump(t, placed[1]) * jnp.flip(above[-1], axis=(0, 1))
    lowest = -slope.sum(axis=(0, 1)) / (_SQRT_2PI * total[0])
    return value, jnp.concatenate([lowest[None], middle, -(lowest + middle.sum(axis=0))[None]], axis=0)


log_mass_of_pairs = with_slopes(_mass_of_pairs, slopes_of_pairs, slice(0, 1))


def _reaches(means: Float[Array, "state item"]) -> tuple[Float[Array, "state item"], Float[Array, "state item"]]:
    """How far left the second lowest item reaches where this one is the lowest, and how far right the highest."""
    n_states, n = means.shape
    mean = jnp.repeat(means, n, axis=0).T  # [item, state · item]
    own = jnp.asarray(np.tile(np.eye(n, dtype=bool), (1, n_states)))
    deviation = jnp.ones_like(mean)
    first, last = Split(mean, deviation, own, ~own, ~own), Split(mean, deviation, ~own, own, own)
    left, right = boundaries.span_of(first, last, DROP)
    return left.reshape(n_states, n), right.reshape(n_states, n)


def suits(means: Float[Array, "state slot"], n_rows: int, real: np.ndarray) -> bool:
    """Whether so many states and rows are worth compiling this, and whether it supports their dtype and sizes."""
    n_items = real.sum(axis=1)
    is_known = means.dtype == jnp.float32 and n_items.min() >= 3 and n_items.max() <= MOST_RANKED
    return bool(is_known) and means.shape[0] * n_rows >= WORTHWHILE


def log_mass_of_orders(
    means: Float[Array, "state order item"], tier: Int[Array, "row order item"], real: np.ndarray
) -> tuple[Float[Array, "state row"], Bool[Array, ""]]:
    """log P of all informative orders of every row under every state; and whether it is accurate.

    It is where each order is likely enough in its most probable state: other states then hardly matter.
    """
    total, is_sure = jnp.zeros((means.shape[0], tier.shape[0]), means.dtype), jnp.asarray(True)
    for number, here in enumerate(real):
        own = np.flatnonzero(here)
        codes, informative = tier[:, number, own], tier[:, number].max(axis=-1) > 0
        places = jnp.where(informative[:, None], codes, jnp.arange(len(own), dtype=codes.dtype)[None, :])
        mass = jnp.where(informative[None, :], log_mass_of_rankings(means[:, number, own], places), 0.0)
        total, is_sure = total + mass, is_sure & (mass.max(axis=0) > LEAST).all()
    return total, is_sure


def log_mass_of_rankings(
    means: Float[Array, "state item"], places: Int[Array, "row item"]
) -> Float[Array, "state row"]:
    """log P of every row's ranking under every state; `places` are 0 for the lowest item, then 1, 2, …"""
    n_states, (n_rows, n) = means.shape[0], places.shape
    who = jax.nn.one_hot(places, n, axis=1, dtype=means.dtype)  # [row, place, item]
    pick = lambda value, who: jnp.einsum("si,r...i->...sr", value, who, precision=lax.Precision.HIGHEST)  # noqa: E731
    left, right = _reaches(lax.stop_gradient(means))
    parts = (pick(means, who), pick(left, who[:, 0]), pick(right, who[:, -1]))
    flat = [part.reshape(*part.shape[:-2], n_states * n_rows) for part in parts]
    portion = PORTION * (1 if jax.default_backend() == "cpu" else ON_ACCELERATOR)
    return in_portions(log_mass_of_pairs, flat, portion).reshape(n_states, n_rows)


MOST_TIED = 8  # 256 subsets


def log_mass_with_ties(items: Float[Array, "*order item"], tier: Int[Array, "*order item"]) -> Float[Array, "*order"]:
    """log P(every item of a tier above every item of a lower one); items of tier −1 take no part."""
    n = items.shape[-1]
    part = tier >= 0
    top = jnp.where(part, items, -jnp.inf).max(axis=-1, keepdims=True)
    strength = jnp.where(part, jnp.exp(items - jnp.where(jnp.isfinite(top), top, 0.0)), 0.0)
    strength = jnp.maximum(strength, jnp.where(part, jnp.finfo(items.dtype).tiny, 0.0))
    chance = jnp.ones((*items.shape[:-1], 1), items.dtype)  # of the subsets of one size, from none to all items
    place: dict[tuple[int, ...], int] = {(): 0}
    for size in range(1, n + 1):
        members = list(combinations(range(n), size))
        which = np.asarray(members)  # [subset, member]
        rest = np.asarray([[place[own[:k] + own[k + 1 :]] for k in range(size)] for own in members])
        theirs, codes = jnp.take(strength, which, axis=-1), jnp.take(tier, which, axis=-1)
        leaves = (codes == codes.max(axis=-1, keepdims=True)) & (codes >= 0)
        ways = jnp.where(leaves, theirs * jnp.take(chance, rest, axis=-1), 0.0).sum(axis=-1)
        total = theirs.sum(axis=-1)
        found = ways / jnp.where(total > 0, total, jnp.ones_like(total))
        chance = jnp.where(total > 0, found, jnp.ones_like(found))
        place = {own: number for number, own in enumerate(members)}
    return jnp.log(jnp.maximum(chance[..., 0], jnp.finfo(items.dtype).tiny))


Tiered = Float[Array, "row order tier"]


class Blocks(NamedTuple):
    """What a shift needs to know about each block of tiers."""

    lowest: Tiered  # smallest member; +∞ where the block is empty
    highest: Tiered  # largest member; −∞ where the block is empty
    pull: Tiered  # Σ(μ − x)
    size: Tiered

    def shifted(self, by: Tiered) -> Blocks:
        return Blocks(self.lowest + by, self.highest + by, self.pull - self.size * by, self.size)

    def joined(self, n: int) -> Blocks:
        """Blocks of n neighbours."""
        extra = -self.size.shape[-1] % n
        pad = lambda value, fill: jnp.pad(value, ((0, 0), (0, 0), (0, extra)), constant_values=fill)  # noqa: E731
        fold = lambda value, fill: pad(value, fill).reshape(*value.shape[:2], -1, n)  # noqa: E731
        return Blocks(
            fold(self.lowest, jnp.inf).min(axis=-1),
            fold(self.highest, -jnp.inf).max(axis=-1),
            fold(self.pull, 0.0).sum(axis=-1),
            fold(self.size, 0.0).sum(axis=-1),
        )


def scales(n_tiers: int) -> tuple[int, ...]:
    """Block sizes below the whole order, each a quarter of the one before; a short order mixes without any.

    Measured: halves gain as much per step as quarters, and cost more.
    """
    largest = (n_tiers - 1).bit_length() - 2  # as a power of two
    return tuple(2**power for power in range(largest, 0, -2)) if n_tiers > 8 else ()


def shift_blocks(key: PRNGKey, tiers: Blocks, scales: tuple[int, ...]) -> Tiered:
    """How far every tier moves in one pass over blocks of each of these sizes."""
    total = jnp.zeros_like(tiers.size)
    n = total.shape[-1]
    for level, scale in enumerate(scales):
        blocks = tiers.joined(scale)
        moved = jnp.zeros_like(blocks.size)
        for parity in range(min(2, blocks.size.shape[-1])):
            step = _shift(jax.random.fold_in(key, 2 * level + parity), blocks)
            turn = (jnp.arange(step.shape[-1]) % 2 == parity)[None, None, :]
            step = jnp.where(turn, step, 0.0)
            blocks, moved = blocks.shifted(step), moved + step
        spread = jnp.repeat(moved, scale, axis=-1)[..., :n]
        tiers, total = tiers.shifted(spread), total + spread
    return total


def _shift(key: PRNGKey, blocks: Blocks) -> Tiered:
    """One Gibbs draw of δ for every block, given its neighbours where they are."""
    end = jnp.full_like(blocks.size[..., :1], jnp.inf)
    below = jnp.concatenate([-end, blocks.highest[..., :-1]], axis=-1)
    above = jnp.concatenate([blocks.lowest[..., 1:], end], axis=-1)
    is_block = blocks.size > 0.0
    root = jnp.sqrt(jnp.maximum(blocks.size, 1.0))
    # Rounding may put a bound slightly beyond the current position of the block.
    lower = jnp.minimum(below - blocks.lowest, 0.0)
    upper = jnp.maximum(above - blocks.highest, 0.0)
    lower, upper = jnp.where(is_block, lower, 0.0), jnp.where(is_block, upper, 0.0)
    step = truncnorm.sample(key, jnp.where(is_block, blocks.pull / root, 0.0), lower * root, upper * root) / root
    return jnp.where(is_block, step, 0.0)


def draw_chosen(
    key: PRNGKey, now: PerOrder, mean: PerOrder, rest_mean: Utilities, rest: Bool[Array, "row order item"]
) -> PerOrder:
    """The utility of the one item above `rest`, these integrated out: p(s) ∝ φ(s − μ) Π_rest Φ(s − μ_i).

    An independent Metropolis step. A logistic around the peak has the heavier tails, so the weights are bounded, and a
    rough peak costs acceptance only.
    """

    def log_phi_and_slopes(s: Array) -> tuple[Array, Array, Array]:
        z = jnp.where(rest, s[:, :, None] - rest_mean, 0.0)
        below, rate = log_below(z)
        rate = jnp.where(rest, rate, 0.0)
        return jnp.where(rest, below, 0.0).sum(axis=-1), rate.sum(axis=-1), (rate * (z + rate)).sum(axis=-1)

    highest = jnp.where(rest, rest_mean, -1e6).max(axis=-1)
    peak = jnp.maximum(mean, 0.5 * (mean + highest)) + 0.5
    bend = jnp.ones_like(peak)
    for _ in range(3):
        _, slope, curve = log_phi_and_slopes(peak)
        bend = 1.0 + curve
        peak = peak + (mean - peak + slope) / bend
    width = 0.65 / jnp.sqrt(bend)
    key_step, key_accept = jax.random.split(key)
    step = jax.random.logistic(key_step, peak.shape, peak.dtype)
    fresh = peak + width * step

    def log_weight(s: Array) -> Array:
        y = (s - peak) / width
        log_proposal = -jnp.abs(y) - 2.0 * jnp.log1p(jnp.exp(-jnp.abs(y)))
        return log_phi_and_slopes(s)[0] - 0.5 * (s - mean) ** 2 - log_proposal

    gain = log_weight(fresh) - log_weight(now)
    return jnp.where(jnp.log(jax.random.uniform(key_accept, gain.shape, gain.dtype)) < gain, fresh, now)
