"""§4.2 Moves along an order that a sweep makes only slowly: whole blocks of neighbouring tiers shift together.

Given all else, the shift δ of a block of n slots is N(Σ(μ−x)/n, 1/n) between its neighbours: Gibbs along 1-vectors.
Blocks of 2^k tiers at every scale, even then odd ones, cost about two draws a tier and leave N(μ, I) on Ω invariant.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from thurbo._typing import Array, Bool, Float, PRNGKey
from thurbo.constraints.masses import splits
from thurbo.normal import truncnorm

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
    sizes = []
    size = (1 << (n_tiers - 1).bit_length()) // 4
    while size >= 2 and n_tiers > 8:
        sizes.append(size)
        size //= 4
    return tuple(sizes)


def shift_all(
    key: PRNGKey, pull: Float[Array, "row order"], size: Float[Array, "row order"]
) -> Float[Array, "row order"]:
    """The shift of a whole order, which no inequality bounds: δ ~ N(Σ(μ−x)/n, 1/n)."""
    n = jnp.maximum(size, 1.0)
    return pull / n + jax.random.normal(key, n.shape, n.dtype) / jnp.sqrt(n)


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
    key: PRNGKey,
    now: Float[Array, "row order"],
    mean: Float[Array, "row order"],
    rest_mean: Float[Array, "row order item"],
    rest: Bool[Array, "row order item"],
) -> Float[Array, "row order"]:
    """The utility of the one item above `rest`, these integrated out: p(s) ∝ φ(s − μ) Π_rest Φ(s − μ_i).

    An independent Metropolis step. A logistic around the peak has the heavier tails, so the weights are bounded, and a
    rough peak costs acceptance only.
    """

    def log_phi_and_slopes(s: Array) -> tuple[Array, Array, Array]:
        z = jnp.where(rest, s[:, :, None] - rest_mean, 0.0)
        below, _ = splits.log_both(z)
        rate = jnp.where(rest, jnp.exp(splits.log_phi(z) - below), 0.0)
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
