"""§3.2 Comparisons that each have noise of their own: pairs, and rankings as choices one after another.

Pairs (Thurstone's Case V) say x_a − x_b ≥ δ, or within ±δ for a tie, where δ is the limit of discernment. The two slots
of a pair belong to no other comparison, so a judge may contradict herself. Masses, means and draws are in closed form:
the difference of two normals is truncated, their sum is free.

In a ranking as choices the best of all items is chosen, then the best of those that are left, and so on. Every choice
has noise of a learned precision, and items that were chosen before may move the utilities of the others (`Context`).
Given the hidden layer, the i-th choice is a softmax of precision · (mean + Σ of the effects of the items before); the
noise is Gumbel with unit variance (A.3). Without context this is Plackett–Luce given h. The evidence confines no single
x: P(e | h) and what follows from it are exact, and Gibbs sampling of x given a ranking does not exist. Items that a row
does not rank were not offered to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsMask
from thurbo.errors import ThurboError
from thurbo.latent.constraints.base import (
    Bounds,
    Context,
    Gauge,
    InUnits,
    Triple,
    log_mass_by_state,
    numpy_for,
    pick,
    pytree,
)
from thurbo.latent.constraints.box import BoxRegion
from thurbo.latent.constraints.grouped import GroupRegion, Groups
from thurbo.latent.constraints.order import CLOSER_SCALE

Noise = Literal["normal", "gumbel"]
Pairs = Float[Array, "row pair"]

ROOT_2 = float(np.sqrt(2.0))
PROBIT_OF_LOGIT = float(np.pi / 8.0)  # a logistic function averaged over a normal of variance v: slope (1 + π v / 8)^-½
STATES_AT_ONCE = 64
NO_CHAIN = (
    "a ranking with context has noise at each choice, so Gibbs sampling cannot draw its utilities; "
    'sample without conditions, predict by method="exact", or use Ranking(context=False)'
)


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
        lower, upper = (np.asarray(end[row])[known] for end in (self.gap.lower, self.gap.upper))
        return unit[first] - unit[second], lower, upper


@pytree("tier")
class RepeatedChoice(Groups):
    """Rankings without ties above the lowest tier, as choices from the best item down.

    tier   place of each item, consecutive from 0 (worst); several items of tier 0 are not compared
    slots  slot of each item: the k-th item of an order is the k-th site of its column, as `Context` counts them
    """

    def region(self, gauge: Gauge) -> RepeatedChoiceRegion:
        """The learned effects of earlier choices, by order and item."""
        context, n = gauge.context, self.tier.shape[-1]
        if context is None:
            none = jnp.zeros((*self.tier.shape[1:], n), gauge.scale.dtype)
            return RepeatedChoiceRegion(self, none, none[..., 0])
        index = np.maximum(np.asarray(self.slots), 0)
        after = pick(context.after, index.reshape(-1), -2)
        after = after.reshape(*after.shape[:-2], *index.shape, after.shape[-1])[..., :n]
        precision = pick(context.log_precision, index.reshape(-1), -1)
        return RepeatedChoiceRegion(self, after, precision.reshape(*precision.shape[:-1], *index.shape))

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """One matrix product for each place: the effects of earlier choices are the same in all states."""
        region = self.region(gauge)
        if region.after.ndim > 3:
            return log_mass_by_state(region, means)  # parameters by row
        choices, items = region.choices(), self.to_items(means) / CLOSER_SCALE
        return jax.lax.map(jax.checkpoint(choices.log_mass_of_state), items, batch_size=min(STATES_AT_ONCE, len(means)))


class _Choices(NamedTuple):
    """What is chosen, what is left and what is added at each place, the best first, [row, order, place, item]."""

    is_choice: Bool[Array, "row order place"]
    chosen: Bool[Array, "row order place item"]
    left: Bool[Array, "row order place item"]
    added: Float[Array, "row order place item"]
    precision: Float[Array, "#row order place"]

    def log_mass(self, items: Float[Array, "#row order item"]) -> PerRow:
        """Σ over choices of log softmax of precision · (utility + what was added), in units of the noise."""
        utility = self.precision[..., None] * (items[:, :, None, :] + self.added)
        own = jnp.where(self.chosen, utility, 0.0).sum(axis=-1)
        # What is no choice is replaced by zeros, to keep values and gradients finite.
        shown = jnp.where(self.left, utility, jnp.where(self.is_choice[..., None], -jnp.inf, 0.0))
        every = jax.scipy.special.logsumexp(shown, axis=-1)
        return jnp.where(self.is_choice, own - every, 0.0).sum(axis=(1, 2))

    def log_mass_of_state(self, items: Float[Array, "order item"]) -> PerRow:
        """The same for one mean of all rows, as products of what depends on the mean and what depends on the row."""
        tiny = jnp.finfo(items.dtype).tiny
        items = items - jax.lax.stop_gradient(items.max(axis=-1, keepdims=True))
        moved = self.precision[..., None] * self.added
        highest = jax.lax.stop_gradient(jnp.where(self.left, moved, -jnp.inf).max(axis=-1, keepdims=True))
        highest = jnp.where(jnp.isfinite(highest), highest, 0.0)
        weight = jnp.where(self.left, jnp.exp(jnp.where(self.left, moved - highest, 0.0)), 0.0)
        size = jnp.exp(self.precision[0][..., None] * items[:, None, :])
        every = jnp.log(jnp.maximum(jnp.einsum("opk,ropk->rop", size, weight, precision="highest"), tiny))
        own = jnp.where(self.chosen, moved - highest, 0.0).sum(axis=-1)
        rest = jnp.where(self.is_choice, own - every, 0.0).sum(axis=(1, 2))
        counted = jnp.where(self.chosen, self.precision[..., None], 0.0).sum(axis=2)
        return rest + jnp.einsum("ok,rok->r", items, counted, precision="highest")


@pytree("order", "after", "log_precision")
class RepeatedChoiceRegion(GroupRegion):
    """Rankings as choices one after another, under the current effects of earlier choices."""

    after: Float[Array, "*row order item earlier"]
    log_precision: Float[Array, "*row order place"]
    mass = "gumbel"
    not_linear = "choices with noise of their own are not one set of inequalities; use Order"

    def choices(self) -> _Choices:
        """What each row's ranking says about its choices."""
        order = self.order
        n = order.tier.shape[-1]
        part, tier = order.takes_part[:, :, None, :], order.tier[:, :, None, :]
        number = np.arange(n - 1).astype(order.tier.dtype)[None, None, :]
        at = (order.tier.max(axis=-1)[:, :, None] - number)[..., None]  # tier of the choice
        is_choice = order.informative[:, :, None] & (at[..., 0] > 0)
        part = part & is_choice[..., None]
        chosen, left, earlier = (part & compared for compared in (tier == at, tier <= at, tier > at))
        shape = "okl" if self.after.ndim == 3 else "rokl"
        before = earlier.astype(self.after.dtype)
        added = jnp.einsum(f"ropl,{shape}->ropk", before, self.after, precision="highest") / CLOSER_SCALE
        precision = jnp.exp(self.log_precision[..., : n - 1])
        return _Choices(is_choice, chosen, left, added, precision if precision.ndim == 3 else precision[None])

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h); the noise is that of the choices, whatever the deviation of x."""
        return self.choices().log_mass(self.order.to_items(mean) / CLOSER_SCALE)

    def stretch(self, by: Float[Array, ""]) -> NoReturn:
        raise ThurboError(NO_CHAIN)

    def bounds(self, x: Rows) -> Bounds:
        """No x is confined."""
        free = jnp.full_like(x, jnp.inf)
        return Bounds(-free, free)

    def start(self, mean: Rows) -> Rows:
        return mean

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> NoReturn:
        raise ThurboError(NO_CHAIN)

    def describe(self, row: int, names: Sequence[str], in_units: InUnits = None) -> tuple[str, ...]:
        """The item of each choice, and those that were left."""
        found = []
        for codes, items in self.order.of_row(row, names):
            for tier in range(int(codes.max(initial=-1)), 0, -1):
                rest = ", ".join(items[i] for i in np.flatnonzero((codes >= 0) & (codes < tier)))
                found.append(f"{items[int((codes == tier).argmax())]} chosen before {rest}")
        return tuple(found)


def draw_orders(rng: np.random.Generator, mean: np.ndarray, context: Context | None) -> np.ndarray:
    """Rankings drawn choice by choice, as utilities [row, item] that decode to them: n − 1 for the best item."""
    n_rows, n = mean.shape
    after = np.zeros((n, n)) if context is None else np.asarray(context.after, np.float64)[:, :n]
    precision = np.ones(n) if context is None else np.exp(np.asarray(context.log_precision, np.float64))
    left, utility = np.ones((n_rows, n), bool), np.zeros((n_rows, n))
    rows = np.arange(n_rows)
    for place in range(n):
        moved = precision[place] * (mean + (~left).astype(float) @ after.T)
        noisy = np.where(left, moved + CLOSER_SCALE * rng.gumbel(size=mean.shape), -np.inf)
        chosen = noisy.argmax(axis=1)
        utility[rows, chosen], left[rows, chosen] = n - 1 - place, False
    return utility
