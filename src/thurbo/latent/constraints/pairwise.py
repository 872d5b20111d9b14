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
from thurbo.latent import truncnorm
from thurbo.latent.constraints.base import Bounds, Gauge, Triple, numpy_for, pytree, rescale
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
        known = jnp.asarray(self.informative)
        first, second = jnp.asarray(self.tier[..., 0]), jnp.asarray(self.tier[..., 1])
        limit = jnp.zeros(known.shape, gauge.scale.dtype)
        if self.has_ties:
            scale = gauge.scale if gauge.scale.ndim == 2 else gauge.scale[None, :]
            limit = jnp.broadcast_to(self.to_items(scale)[..., 0], known.shape)
        lower = jnp.where(first > second, limit, -jnp.inf)
        upper = jnp.where(first < second, -limit, jnp.inf)
        tied = first == second
        lower, upper = jnp.where(tied, -limit, lower), jnp.where(tied, limit, upper)
        return PairwiseRegion(self, jnp.where(known, lower, -jnp.inf), jnp.where(known, upper, jnp.inf))


@pytree("order", "lower", "upper")
class PairwiseRegion(GroupRegion):
    """Ω(e) of pairs: lower ≤ x_first − x_second ≤ upper, [row, pair]."""

    lower: Pairs
    upper: Pairs

    @property
    def mass(self) -> str:
        return "exact" if self.order.noise == "normal" else "gumbel"

    @property
    def _known(self) -> Bool[Array, "row pair"]:
        return jnp.asarray(self.order.informative)

    def _two(self, x: Rows) -> tuple[Pairs, Pairs]:
        items = self.order.to_items(x)
        return items[..., 0], items[..., 1]

    def _both(self, first: Pairs, second: Pairs, elsewhere: float) -> Rows:
        return self.order.to_slots(jnp.stack([first, second], axis=-1), elsewhere)

    def bounds(self, x: Rows) -> Bounds:
        first, second = self._two(x)
        lower = self._both(second + self.lower, first - self.upper, -jnp.inf)
        return Bounds(lower, self._both(second + self.upper, first - self.lower, jnp.inf))

    def start(self, mean: Rows) -> Rows:
        """The means of each pair, moved apart or together until their difference is allowed."""
        first, second = self._two(mean)
        width = self.upper - self.lower
        inside = jnp.minimum(1e-2, 0.25 * width)
        gap = jnp.clip(first - second, self.lower + inside, self.upper - inside)
        middle = 0.5 * (first + second)
        return jnp.where(self.held, self._both(middle + 0.5 * gap, middle - 0.5 * gap, 0.0), mean)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """Exact: the difference is a truncated normal of variance 2, and the sum is independent of it."""
        key_gap, key_sum = jax.random.split(key)
        first, second = self._two(mean)
        gap = ROOT_2 * truncnorm.sample(key_gap, (first - second) / ROOT_2, self.lower / ROOT_2, self.upper / ROOT_2)
        total = first + second + ROOT_2 * jax.random.normal(key_sum, gap.shape, gap.dtype)
        return jnp.where(self.held, self._both(0.5 * (total + gap), 0.5 * (total - gap), 0.0), x)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """Σ over pairs of log P(lower ≤ x_first − x_second ≤ upper)."""
        first, second = self._two(jnp.broadcast_to(mean, (self.lower.shape[0], self.order.n_slots)))
        gap, variance = first - second, jnp.full(self.lower.shape, 2.0, first.dtype)
        if deviation is not None:
            one, two = self._two(deviation)
            variance = one**2 + two**2
        if self.mass == "exact":
            unit = jnp.sqrt(variance)
            value = truncnorm.log_mass(gap / unit, rescale(self.lower, unit), rescale(self.upper, unit))
            return jnp.where(self._known, value, 0.0).sum(axis=-1)
        slope = 1.0 / jnp.sqrt(1.0 + PROBIT_OF_LOGIT * jnp.maximum(variance - 2.0, 0.0))
        has_lower, has_upper = jnp.isfinite(self.lower), jnp.isfinite(self.upper)
        lower, upper = jnp.where(has_lower, self.lower, 0.0), jnp.where(has_upper, self.upper, 0.0)
        above, below = jax.nn.log_sigmoid(slope * (gap - lower)), jax.nn.log_sigmoid(slope * (upper - gap))
        value = jnp.where(has_lower, above, below)
        if self.order.has_ties:  # P(tie) = σ(gap + δ) − σ(gap − δ) = σ(gap + δ) σ(δ − gap) (1 − e^−2δ)
            both = has_lower & has_upper
            width = jnp.where(both, upper - lower, 1.0)
            value = jnp.where(both, above + below + jnp.log(-jnp.expm1(-slope * width)), value)
        return jnp.where(self._known, value, 0.0).sum(axis=-1)

    def mean(self, mean: Rows) -> Rows:
        """μ ± g, where g is the slope of the log mass in the difference of the two means."""
        first, second = self._two(mean)
        if self.mass == "exact":
            gap = (first - second) / ROOT_2
            slope = (truncnorm.mean(gap, self.lower / ROOT_2, self.upper / ROOT_2) - gap) / ROOT_2
        else:
            has_lower, has_upper = jnp.isfinite(self.lower), jnp.isfinite(self.upper)
            gap = first - second
            up = jax.nn.sigmoid(jnp.where(has_lower, self.lower, 0.0) - gap)
            down = jax.nn.sigmoid(gap - jnp.where(has_upper, self.upper, 0.0))
            slope = jnp.where(has_lower, up, 0.0) - jnp.where(has_upper, down, 0.0)
        slope = jnp.where(self._known, slope, 0.0)
        return mean + self.order.add_to_slots(jnp.stack([slope, -slope], axis=-1))

    def release(self, slots: RowsMask) -> PairwiseRegion:
        pairs = self.order.release(slots)
        known = jnp.asarray(pairs.informative)
        return PairwiseRegion(pairs, jnp.where(known, self.lower, -jnp.inf), jnp.where(known, self.upper, jnp.inf))

    def stretch(self, by: Float[Array, ""]) -> PairwiseRegion:
        return replace(self, lower=self.lower * by, upper=self.upper * by)

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        first, second = self._two(x)
        inside = (self.lower <= first - second) & (first - second <= self.upper)
        return (inside | ~self._known).all(axis=-1)

    def as_linear(self, row: int) -> Triple:
        """⟨A, b, c⟩: one line x_first − x_second for each pair that says anything."""
        known = np.flatnonzero(np.asarray(self._known[row]))
        A = np.zeros((len(known), self.order.n_slots))
        for line, pair in enumerate(known):
            A[line, list(self.order.slots[pair])] = 1.0, -1.0
        return A, np.asarray(self.lower[row])[known], np.asarray(self.upper[row])[known]
