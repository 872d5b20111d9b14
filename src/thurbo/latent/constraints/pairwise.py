"""§3.2 Paired comparisons, each with noise of its own (Thurstone's Case V): x_a − x_b ≥ δ, or within ±δ for a tie.

The two slots of a pair belong to no other comparison, so a judge may contradict herself. Masses, means and draws are in
closed form: the difference of two normals is truncated, their sum is free. δ is the limit of discernment.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent.constraints.base import Bounds, Gauge, Triple, numpy_for, pytree
from thurbo.latent.constraints.box import BoxRegion
from thurbo.latent.constraints.grouped import GroupRegion, Groups

Noise = Literal["normal", "gumbel"]
Pairs = Float[Array, "row pair"]

ROOT_2 = float(np.sqrt(2.0))
PROBIT_OF_LOGIT = float(np.pi / 8.0)  # a logistic function averaged over a normal of variance v: slope (1 + π v / 8)^-½


@pytree("tier")
class Pairwise(Groups):
    """Pairs of slots, `tier` [row, pair, 2]: the slot of tier 1 is above that of tier 0; (0, 0) is a tie.

    noise     "normal": P(a above b) = Φ((μ_a − μ_b − δ) / √2), Thurstone; "gumbel": σ(μ_a − μ_b − δ), Bradley and Terry
    has_ties  whether there is a learned threshold δ, the scale of the sites; without it δ = 0, and a tie says nothing
    """

    noise: Noise = "normal"
    has_ties: bool = False

    @property
    def informative(self) -> Any:
        """Pairs that say anything."""
        return self.tier.min(axis=-1) >= 0 if self.has_ties else self.tier.max(axis=-1) > 0

    def release(self, slots: RowsMask) -> Pairwise:
        """A pair without one of its slots says nothing."""
        gone, numpy = self.to_items(slots).any(axis=-1, keepdims=True), numpy_for(self.tier)
        return replace(self, tier=numpy.where(gone, numpy.full_like(self.tier, -1), self.tier))

    def region(self, gauge: Gauge) -> PairwiseRegion:
        first, second = jnp.asarray(self.tier[..., 0]), jnp.asarray(self.tier[..., 1])
        limit = jnp.zeros(first.shape, gauge.scale.dtype)
        if self.has_ties:
            limit = jnp.broadcast_to(self.to_items(jnp.atleast_2d(gauge.scale))[..., 0], first.shape)
        is_tied = first == second
        lower = jnp.where(first > second, limit, jnp.where(is_tied, -limit, -jnp.inf))
        upper = jnp.where(first < second, -limit, jnp.where(is_tied, limit, jnp.inf))
        gap = BoxRegion(lower, upper, jnp.zeros(first.shape, bool), jnp.zeros_like(lower))
        return PairwiseRegion(self, gap.release(~jnp.asarray(self.informative)))


@pytree("order", "gap")
class PairwiseRegion(GroupRegion):
    """Ω(e) of pairs: a box for the difference x_first − x_second of each, [row, pair]."""

    gap: BoxRegion

    @property
    def mass(self) -> str:
        return "exact" if self.order.noise == "normal" else "gumbel"

    @property
    def _unit_gap(self) -> BoxRegion:
        """The box of the differences in units of their standard deviation."""
        return self.gap.stretch(1.0 / ROOT_2)

    def _two(self, x: Rows) -> tuple[Pairs, Pairs]:
        items = self.order.to_items(x)
        return items[..., 0], items[..., 1]

    def _both(self, first: Pairs, second: Pairs, elsewhere: float) -> Rows:
        return self.order.to_slots(jnp.stack([first, second], axis=-1), elsewhere)

    def bounds(self, x: Rows) -> Bounds:
        (first, second), (lower, upper) = self._two(x), (self.gap.lower, self.gap.upper)
        below = self._both(second + lower, first - upper, -jnp.inf)
        return Bounds(below, self._both(second + upper, first - lower, jnp.inf))

    def start(self, mean: Rows) -> Rows:
        """The means of each pair, moved apart or together until their difference is allowed."""
        first, second = self._two(mean)
        inside = jnp.minimum(1e-2, 0.25 * (self.gap.upper - self.gap.lower))
        gap = jnp.clip(first - second, self.gap.lower + inside, self.gap.upper - inside)
        middle = 0.5 * (first + second)
        return jnp.where(self.held, self._both(middle + 0.5 * gap, middle - 0.5 * gap, 0.0), mean)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """Exact: the difference is a truncated normal of variance 2, and the sum is independent of it."""
        key_gap, key_sum = jax.random.split(key)
        first, second = self._two(mean)
        gap = (first - second) / ROOT_2
        gap = ROOT_2 * self._unit_gap.draw(key_gap, gap, gap)
        total = first + second + ROOT_2 * jax.random.normal(key_sum, gap.shape, gap.dtype)
        return jnp.where(self.held, self._both(0.5 * (total + gap), 0.5 * (total - gap), 0.0), x)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """Σ over pairs of log P(lower ≤ x_first − x_second ≤ upper)."""
        items, spread = self.items_of(mean, deviation)
        gap, variance = items[..., 0] - items[..., 1], (spread**2).sum(axis=-1)
        if self.mass == "exact":
            return self.gap.log_mass(gap, jnp.sqrt(variance))
        slope = 1.0 / jnp.sqrt(1.0 + PROBIT_OF_LOGIT * jnp.maximum(variance - 2.0, 0.0))

        def log_share(end: Pairs, side: float) -> Pairs:
            """log P of one side of a bound; 0 where there is none."""
            distance = side * (gap - jnp.where(jnp.isfinite(end), end, 0.0))
            return jnp.where(jnp.isfinite(end), jax.nn.log_sigmoid(slope * distance), 0.0)

        value = log_share(self.gap.lower, 1.0) + log_share(self.gap.upper, -1.0)
        if self.order.has_ties:  # P(tie) = σ(gap + δ) − σ(gap − δ) = σ(gap + δ) σ(δ − gap) (1 − e^−2δ)
            width = self.gap.upper - self.gap.lower
            is_tie = jnp.isfinite(width)
            value = value + jnp.where(is_tie, jnp.log(-jnp.expm1(-slope * jnp.where(is_tie, width, 1.0))), 0.0)
        return value.sum(axis=-1)

    def mean(self, mean: Rows) -> Rows:
        """μ ± g, where g is the slope of the log mass in the difference of the two means."""
        first, second = self._two(mean)
        gap = first - second
        if self.mass == "exact":
            slope = (self._unit_gap.mean(gap / ROOT_2) - gap / ROOT_2) / ROOT_2
        else:
            slope = jax.nn.sigmoid(self.gap.lower - gap) - jax.nn.sigmoid(gap - self.gap.upper)
        return mean + self.order.add_to_slots(jnp.stack([slope, -slope], axis=-1))

    def release(self, slots: RowsMask) -> PairwiseRegion:
        pairs = self.order.release(slots)
        return PairwiseRegion(pairs, self.gap.release(~jnp.asarray(pairs.informative)))

    def stretch(self, by: Float[Array, ""]) -> PairwiseRegion:
        return replace(self, gap=self.gap.stretch(by))

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        first, second = self._two(x)
        return self.gap.contains(first - second)

    def as_linear(self, row: int) -> Triple:
        """⟨A, b, c⟩: one line x_first − x_second for each pair that says anything."""
        known = np.flatnonzero(np.asarray(self.order.informative[row]))
        first, second = np.asarray(self.order.slots)[known].T
        unit = np.eye(self.order.n_slots)
        return unit[first] - unit[second], *(np.asarray(end[row])[known] for end in (self.gap.lower, self.gap.upper))
