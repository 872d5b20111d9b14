"""§3.2 Inequalities between slots: weak orders, and sets that hold the best. A category and any ranks are tiers.

`Order` says that all of tier j+1 lie above all of tier j; two colours sweep any order, and masses are exact, or the
paper's Gumbel forms (A.3) on request. `OneOf` says that max over S lies above max over the rest: a union, not convex,
but given all others every slot still has an interval (§4.2), and its mass is one integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsCode, RowsMask
from thurbo.latent import truncnorm
from thurbo.latent.constraints.base import (
    Bounds,
    Gauge,
    InUnits,
    Region,
    log_mass_by_state,
    no_units,
)
from thurbo.latent.constraints.grouped import Form, Groups, Slots, consecutive, form_of, real_items, shape_of
from thurbo.latent.masses import orders, rankings

Mass = Literal["exact", "gumbel"]
Items = Float[Array, "row order item"]

_WITHOUT_SOME: dict[Form, Form] = {"permutation": "ranking", "choice": "places"}  # forms if some items take no part
CLOSER_SCALE = float(np.sqrt(6.0) / np.pi)  # a Gumbel variable of this scale has unit variance


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["tier"],
    meta_fields=["slots", "n_slots", "depth", "width", "halves", "alone", "tasks", "mass", "gumbel_scale", "form"],
)
@dataclass(frozen=True)
class Order(Groups):
    """Weak orders, §3.2: every member of tier j+1 lies above every member of tier j.

    mass   "exact", or the paper's Gumbel form of scale `gumbel_scale` (1 as in A.3; √6/π is closer)
    form   what every informative order is (`form_of`); known on the host, it chooses the fastest algorithm for the mass
    """

    mass: Mass = "exact"
    gumbel_scale: float = 1.0
    form: Form = "any"
    can_move: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        tier: np.ndarray,
        slots: Slots | None = None,
        n_slots: int | None = None,
        mass: Mass = "exact",
        gumbel_scale: float = 1.0,
    ) -> Order:
        """An order from any integer codes `[row, order, item]` (gaps allowed, negative takes no part), on the host."""
        tier = consecutive(tier)
        depth, width = shape_of(tier)
        n_slots = tier.shape[-1] if n_slots is None else n_slots
        odd = ((tier >= 0) & (tier % 2 == 1)).sum(axis=-1)
        halves = int((tier.shape[-1] - odd).max(initial=1)), int(odd.max(initial=1))
        form = form_of(tier, slots)
        return cls(jnp.asarray(tier), slots, n_slots, depth, width, halves, False, False, mass, gumbel_scale, form)

    def release(self, slots: RowsMask) -> Order:
        """As for all groups; a ranking without some items is still a ranking, and a choice becomes the first place."""
        return replace(super().release(slots), form=_WITHOUT_SOME.get(self.form, self.form))

    def move(self, slots: Slots, where: np.ndarray, n_slots: int) -> Order:
        """As for all groups; where items are added, not all of them take part."""
        return replace(super().move(slots, where, n_slots), form=_WITHOUT_SOME.get(self.form, self.form))

    def region(self, gauge: Gauge) -> OrderRegion:
        """Differences of utilities have neither cuts nor scales: the region is the order itself."""
        return OrderRegion(self)

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """Every pair of state and row is treated as a row: `orders.log_mass` works through them in portions.

        For choices, a table of P(item | state) is enough. For many states of permutations there is a faster algorithm,
        used as long as every row is likely enough in some state.
        """
        if self.form == "choice" and self.mass == "exact":
            is_top = (self.tier == 1) & self.informative[:, :, None]
            return jnp.einsum("sok,rok->sr", self._log_chances(means), is_top.astype(means.dtype))
        real = real_items(self.tier.shape[1:], self.slots)
        is_full = self.form == "permutation" and self.mass == "exact"
        if not is_full or not rankings.suits(means, self.tier.shape[0], real):
            return self._log_mass_of_pairs(means, gauge)
        quick, is_sure = rankings.log_mass_of_orders(self.to_items(means), self.tier, real)
        ask = lambda means, quick: self._log_mass_of_pairs(means, gauge)  # noqa: E731
        return jax.lax.cond(is_sure, lambda means, quick: quick, ask, means, quick)

    def _log_mass_of_pairs(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        n_states, n_rows = means.shape[0], self.tier.shape[0]
        tier = jnp.broadcast_to(self.tier, (n_states, *self.tier.shape)).reshape(-1, *self.tier.shape[1:])
        mass = replace(self, tier=tier).region(gauge).log_mass(jnp.repeat(means, n_rows, axis=0))
        return mass.reshape(n_states, n_rows)

    def _log_chances(self, means: Float[Array, "state slot"]) -> Float[Array, "state order item"]:
        """log P(each item is the largest of its order); where there is no item, that of the first."""
        items, n = self.to_items(means), self.tier.shape[-1]
        real = real_items(self.tier.shape[1:], self.slots)
        top = np.where(real, np.arange(n)[None, :], 0)
        code = np.where(real[:, None, :], top[:, :, None] == np.arange(n)[None, None, :], -1).reshape(-1, n)
        each = jnp.repeat(items, n, axis=1)
        tier = jnp.broadcast_to(jnp.asarray(code, jnp.int32), each.shape)
        return orders.log_mass(tier, each, jnp.ones_like(each), 2, 1, is_choice=True).reshape(items.shape)


@partial(jax.tree_util.register_dataclass, data_fields=["order"], meta_fields=[])
@dataclass(frozen=True)
class OrderRegion(Region):
    """Ω(e) of weak orders."""

    order: Order

    @property
    def n_colours(self) -> int:
        return 2

    @property
    def held(self) -> RowsMask:
        return self.order.observed

    @property
    def mass(self) -> str:
        return self.order.mass

    def bounds(self, x: Rows) -> Bounds:
        """From the largest of the tier below to the smallest of the tier above."""
        order = self.order
        lower, upper = self._intervals(order.to_items(x), order.takes_part)
        return Bounds(order.to_slots(lower, -jnp.inf), order.to_slots(upper, jnp.inf))

    def _intervals(
        self, items: Items, part: Bool[Array, "row order item"], a: int = 0, b: int | None = None
    ) -> tuple[Float[Array, "row order some"], Float[Array, "row order some"]]:
        """Bounds of the items from place a to place b."""
        highest, lowest = self._ends(items)
        end = jnp.full_like(highest[:, :, :1], jnp.inf)
        below, above = (
            jnp.concatenate([-end, highest[..., :-1]], axis=-1),
            jnp.concatenate([lowest[..., 1:], end], axis=-1),
        )
        tier, part = self.order.tier[..., a:b], part[..., a:b]
        if self.order.n_tiers <= 8:  # selects fuse; a gather does not
            lower, upper = jnp.full(tier.shape, -jnp.inf, items.dtype), jnp.full(tier.shape, jnp.inf, items.dtype)
            for number in range(self.order.n_tiers):
                here = tier == number
                lower = jnp.where(here, below[..., number, None], lower)
                upper = jnp.where(here, above[..., number, None], upper)
        else:
            at = jnp.maximum(tier, 0).astype(jnp.int32)
            lower, upper = jnp.take_along_axis(below, at, axis=-1), jnp.take_along_axis(above, at, axis=-1)
        return jnp.where(part, lower, -jnp.inf), jnp.where(part, upper, jnp.inf)

    def _ends(self, items: Items) -> tuple[Float[Array, "row order tier"], Float[Array, "row order tier"]]:
        """Largest and smallest of every tier; −∞ and +∞ where it is empty."""
        here = self.order.in_tier()
        highest = jnp.where(here, items[:, :, None, :], -jnp.inf).max(axis=-1)
        return highest, jnp.where(here, items[:, :, None, :], jnp.inf).min(axis=-1)

    def colour(self) -> RowsCode:
        """Parity of the tier: a slot's bounds come from tiers of the other parity only."""
        code = jnp.where(self.order.takes_part, self.order.tier % 2, jnp.zeros_like(self.order.tier))
        return self.order.to_slots(code, 0)

    def start(self, mean: Rows) -> Rows:
        """A point of Ω near the mean: the means of each order, sorted and assigned from the lowest tier up."""
        order, items = self.order, self.order.to_items(mean)
        part = order.takes_part
        place = jnp.where(part, order.tier, jnp.full_like(order.tier, order.n_tiers))
        who = jnp.lexsort((items, place), axis=-1)
        value = jnp.sort(jnp.where(part, items, jnp.inf), axis=-1)
        gap = 1e-3 * jnp.arange(items.shape[-1]).astype(items.dtype)  # strict, whatever ties there are in the means
        given = jnp.take_along_axis(value + gap[None, None, :], jnp.argsort(who, axis=-1), axis=-1)
        return jnp.where(order.observed, order.to_slots(jnp.where(part, given, items), 0.0), mean)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """One step that leaves N(mean, I) on Ω invariant: shifts of whole blocks, then one sweep of two colours.

        Slots outside the groups do not change. A sweep alone needs about (number of tiers)² steps to move an order as
        a whole; the shifts (masses/rankings.py) need a few.
        """
        if self.order.has_one_top:
            return self._draw_choice(key, x, mean)
        key_all, key_blocks, key_colours = jax.random.split(key, 3)
        x = self._shift_all(key_all, x, mean)
        sizes = rankings.scales(self.order.n_tiers)
        if sizes:
            x = self._shift_blocks(key_blocks, x, mean, sizes)
        return self._two_colours(key_colours, x, mean)

    def _two_colours(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """A sweep that draws each slot once: items are sorted by colour, so that each colour is a slice of them."""
        order, n = self.order, self.order.tier.shape[-1]
        even, odd = order.halves or (n, n)
        odd_tier = jnp.where(order.takes_part, order.tier % 2, jnp.zeros_like(order.tier))
        places = jnp.argsort(odd_tier, axis=-1)
        stand = lambda value: jnp.take_along_axis(value, places, axis=-1)  # noqa: E731
        sorted_region = OrderRegion(replace(order, tier=stand(order.tier)))
        part, colour = stand(order.takes_part), stand(odd_tier)
        items, mean_items = stand(order.to_items(x)), stand(order.to_items(mean))
        for turn, (a, b) in enumerate(((0, even), (n - odd, n))):
            lower, upper = sorted_region._intervals(items, part, a, b)
            drawn = truncnorm.sample(jax.random.fold_in(key, turn), mean_items[..., a:b], lower, upper)
            items = items.at[..., a:b].set(jnp.where(colour[..., a:b] == turn, drawn, items[..., a:b]))
        return self._placed(jnp.take_along_axis(items, jnp.argsort(places, axis=-1), axis=-1), x)

    def _placed(self, items: Items, x: Rows) -> Rows:
        """x with the slots of its groups replaced."""
        if self.order.slots is None:
            return self.order.to_slots(items, 0.0)
        own = np.zeros(self.order.n_slots, bool)
        own[np.asarray(self.order.slots)[np.asarray(self.order.slots) >= 0]] = True
        return jnp.where(jnp.asarray(own)[None, :], self.order.to_slots(items, 0.0), x)

    def _draw_choice(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """One item above all others: first its utility, with the others integrated out, then the others, below it."""
        order, mean_items = self.order, self.order.to_items(mean)
        part = order.takes_part
        top, rest = part & (order.tier == 1), part & (order.tier == 0)
        pick = lambda value: jnp.where(top, value, 0.0).sum(axis=-1)  # noqa: E731
        key_top, key_rest = jax.random.split(key)
        chosen = rankings.draw_chosen(key_top, pick(order.to_items(x)), pick(mean_items), mean_items, rest)
        chosen = jnp.broadcast_to(chosen[:, :, None], mean_items.shape)
        upper = jnp.where(rest, chosen, jnp.inf)
        drawn = truncnorm.sample(key_rest, mean_items, jnp.full_like(upper, -jnp.inf), upper)
        return self._placed(jnp.where(top, chosen, drawn), x)

    def _shift_all(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """Adding one number to all of an order keeps it, in floating point too: rounding is monotone."""
        order = self.order
        part = order.takes_part
        pull = jnp.where(part, order.to_items(mean - x), 0.0).sum(axis=-1)
        step = rankings.shift_all(key, pull, part.sum(axis=-1).astype(x.dtype))
        return x + order.to_slots(jnp.where(part, step[:, :, None], 0.0), 0.0)

    def _shift_blocks(self, key: PRNGKey, x: Rows, mean: Rows, sizes: tuple[int, ...]) -> Rows:
        order, items = self.order, self.order.to_items(x)
        here = order.in_tier() & order.informative[:, :, None, None]
        highest, lowest = self._ends(items)
        add = lambda value: jnp.where(here, value[:, :, None, :], 0.0).sum(axis=-1)  # noqa: E731
        pull, size = add(order.to_items(mean) - items), add(jnp.ones_like(items))
        moved = rankings.shift_blocks(key, rankings.Blocks(lowest, highest, pull, size), sizes)
        at = jnp.maximum(order.tier, 0).astype(jnp.int32)
        step = jnp.where(order.takes_part, jnp.take_along_axis(moved, at, axis=-1), 0.0)
        moved_x = x + order.to_slots(step, 0.0)
        # Sums of different shifts are rounded; a row that leaves Ω by this keeps its old value.
        return jnp.where(self.contains(moved_x)[:, None], moved_x, x)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h), §4.4, summed over orders, which share no slot; exact unless `mass` is "gumbel"."""
        if self.order.mass == "gumbel":
            return self.log_mass_gumbel(mean, self.order.gumbel_scale, deviation if self.order.tasks else None)
        return self._log_mass_exact(mean, deviation)

    def _log_mass_exact(self, mean: Float[Array, "#row slot"], deviation: Rows | None, by_need: bool = False) -> PerRow:
        """With `by_need`, orders that say nothing are left out, and there is one derivative."""
        order = self.order
        shape = (order.tier.shape[0], order.n_slots)
        items = order.to_items(jnp.broadcast_to(mean, shape))
        spread = jnp.ones_like(items) if deviation is None else order.to_items(jnp.broadcast_to(deviation, shape))
        if order.tier.shape[-1] < 2:
            return jnp.zeros(shape[0], items.dtype)
        # Uninformative orders are replaced by an order of two items, to keep values and gradients finite.
        quiet = jnp.asarray(np.minimum(np.arange(items.shape[-1]), 2) - 3 * (np.arange(items.shape[-1]) > 1))
        informative = order.informative
        tier = jnp.where(informative[:, :, None], order.tier, quiet.astype(order.tier.dtype)[None, None, :])
        items = jnp.where(informative[:, :, None], items, jax.lax.stop_gradient(jnp.zeros_like(items)))
        width, is_ranking = order.width or items.shape[-1], order.form in ("permutation", "ranking")
        promises = is_ranking, order.has_one_top, order.form == "places", informative if by_need else None
        value = orders.log_mass(tier, items, spread, order.n_tiers, width, *promises)
        return jnp.where(informative, value, 0.0).sum(axis=-1)

    def log_mass_gumbel(
        self, mean: Float[Array, "#row slot"], scale: float = 1.0, deviation: Rows | None = None
    ) -> PerRow:
        """The paper's A.3 for Gumbel utilities of this scale: softmax, Plackett–Luce, and Efron's form for ties.

        Variance beyond 1, on average over the items of an order, widens the scale.
        """
        order = self.order
        items = order.to_items(jnp.broadcast_to(mean, (order.tier.shape[0], order.n_slots)))
        if deviation is None:
            value = self._gumbel(items / scale)
        else:
            part = (order.tier >= 0).astype(items.dtype)
            beyond = part * jnp.maximum(order.to_items(deviation) ** 2 - 1.0, 0.0)
            beyond = beyond.sum(axis=-1) / jnp.maximum(part.sum(axis=-1), 1.0)
            wide = jnp.sqrt(scale**2 + CLOSER_SCALE**2 * beyond)
            value = self._gumbel(items / wide[..., None])
        return jnp.where(order.informative, value, 0.0).sum(axis=-1)

    @property
    def _sums_ties(self) -> bool:
        """Whether ties of a Gumbel order are summed over; Efron's form is too coarse for the few items of a task."""
        order = self.order
        return order.tasks and not order.has_one_top and order.tier.shape[-1] <= rankings.MOST_TIED

    def _gumbel(self, items: Items) -> Float[Array, "row order"]:
        """log mass of utilities in units of the scale."""
        if self._sums_ties:
            return rankings.log_mass_with_ties(items, self.order.tier)
        return orders.log_mass_gumbel(items, self.order.in_tier())

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        """An order that is masked as a whole needs one mass only; lists, of Gumbel mass, are masked in part."""
        if whole and self.order.mass != "gumbel":
            return self.release(~masked)._log_mass_exact(mean, deviation, by_need=True)
        return super().mass_of_masked(mean, deviation, masked)

    def smooth(self) -> OrderRegion:
        """With the Gumbel mass of unit variance, A.3."""
        return OrderRegion(replace(self.order, mass="gumbel", gumbel_scale=CLOSER_SCALE))

    def mean(self, mean: Rows) -> Rows:
        """E[x | x ∈ Ω] for x ~ N(mean, I): the structured mean-field, mean + ∂ log_mass / ∂ mean."""
        if self.order.mass == "gumbel":
            if self._sums_ties:
                return super().mean(mean)
            return self._mean_of_choice(mean) if self.order.has_one_top else self._mean_of_gumbel(mean)
        return super().mean(mean)

    def _mean_of_gumbel(self, mean: Rows) -> Rows:
        """The same for any Gumbel mass, with its slope in closed form: half as much to differentiate and to compile."""
        order = self.order
        items = order.to_items(mean) / order.gumbel_scale
        slope = orders.slopes_gumbel(items, order.tier, order.n_tiers, order.form == "any") / order.gumbel_scale
        return mean + order.add_to_slots(jnp.where(order.informative[:, :, None], slope, 0.0))

    def _mean_of_choice(self, mean: Rows) -> Rows:
        """The same for the Gumbel mass of one item above all others, a softmax: mean + (chosen − shares) / scale."""
        order, part = self.order, self.order.takes_part
        items = order.to_items(mean) / order.gumbel_scale
        top = jax.lax.stop_gradient(jnp.where(part, items, -jnp.inf).max(axis=-1, keepdims=True))
        share = jnp.where(part, jnp.exp(items - jnp.where(part, top, items)), 0.0)
        share = share / jnp.maximum(share.sum(axis=-1, keepdims=True), jnp.finfo(items.dtype).tiny)
        chosen = (part & (order.tier == 1)).astype(items.dtype)
        return mean + order.add_to_slots((chosen - share) / order.gumbel_scale)

    def release(self, slots: RowsMask) -> OrderRegion:
        return OrderRegion(self.order.release(slots))

    def stretch(self, by: Float[Array, ""]) -> OrderRegion:
        return self

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        lower, upper = self.bounds(x)
        return ((lower <= x) & (x <= upper)).all(axis=-1)

    def as_linear(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """⟨A, b = 0, c = +∞⟩: one row x_above − x_below per pair of neighbouring tiers, best tiers first as in §3.2."""
        order = self.order
        slots = (tuple(range(order.n_slots)),) if order.slots is None else order.slots
        rows = []
        for codes, places in zip(np.asarray(order.tier[row]), slots, strict=True):
            for tier in range(int(codes.max(initial=-1)), 0, -1):
                for above in np.flatnonzero(codes == tier):
                    for below in np.flatnonzero(codes == tier - 1):
                        line = np.zeros(order.n_slots)
                        line[places[int(above)]], line[places[int(below)]] = 1.0, -1.0
                        rows.append(line)
        A = np.array(rows).reshape(-1, order.n_slots)
        return A, np.zeros(len(A)), np.full(len(A), np.inf)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["tier"],
    meta_fields=["slots", "n_slots", "depth", "width", "halves", "alone", "tasks"],
)
@dataclass(frozen=True)
class OneOf(Groups):
    """The largest of each group is one of the items coded 1; 0 for the others, −1 takes no part; width = max |S|."""

    can_move: ClassVar[bool] = True

    @classmethod
    def of(cls, tier: np.ndarray, slots: Slots | None = None, n_slots: int | None = None) -> OneOf:
        """From codes 1 (candidate), 0 (the rest) and −1, on the host."""
        tier = consecutive(tier)
        if tier.max(initial=0) > 1:
            raise ValueError("a set-valued answer has two codes, 1 for its members and 0 for the rest: rank with Order")
        n_slots = tier.shape[-1] if n_slots is None else n_slots
        width = int((tier == 1).sum(axis=-1).max(initial=1))
        return cls(jnp.asarray(tier), slots, n_slots, 2, max(width, 1))

    def region(self, gauge: Gauge) -> OneOfRegion:
        return OneOfRegion(self)

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        return log_mass_by_state(self.region(gauge), means)


@partial(jax.tree_util.register_dataclass, data_fields=["order"], meta_fields=[])
@dataclass(frozen=True)
class OneOfRegion(Region):
    """Ω(e) = {x : max over S ≥ max over the rest} for every group."""

    order: OneOf

    @property
    def is_convex(self) -> bool:
        return False

    @property
    def held(self) -> RowsMask:
        return self.order.observed

    @property
    def n_colours(self) -> int:
        return 1 + (self.order.width or self.order.tier.shape[-1])

    def bounds(self, x: Rows) -> Bounds:
        """The rest lie below the best candidate; a candidate is bounded only if no other one lies above the rest."""
        order, items = self.order, self.order.to_items(x)
        part, chosen = order.takes_part, order.takes_part & (order.tier == 1)
        rest = jnp.where(part & ~chosen, items, -jnp.inf).max(axis=-1, keepdims=True)
        value = jnp.where(chosen, items, -jnp.inf)
        best = value.max(axis=-1, keepdims=True)
        is_best = jnp.arange(items.shape[-1])[None, None, :] == value.argmax(axis=-1)[:, :, None]
        second = jnp.where(is_best, -jnp.inf, value).max(axis=-1, keepdims=True)
        others = jnp.where(is_best, second, best)
        lower = jnp.where(chosen & (others < rest), rest, -jnp.inf)
        upper = jnp.where(part & ~chosen, best, jnp.inf)
        return Bounds(order.to_slots(lower, -jnp.inf), order.to_slots(upper, jnp.inf))

    def colour(self) -> RowsCode:
        """The rest together, then one candidate after another: which of them is bounded depends on the others."""
        chosen = self.order.takes_part & (self.order.tier == 1)
        place = jnp.cumsum(chosen, axis=-1).astype(self.order.tier.dtype)
        return self.order.to_slots(jnp.where(chosen, place, jnp.zeros_like(place)), 0)

    def start(self, mean: Rows) -> Rows:
        """The mean, with the best candidate lifted above the rest where it is not."""
        order, items = self.order, self.order.to_items(mean)
        chosen = order.takes_part & (order.tier == 1)
        rest = jnp.where(order.takes_part & ~chosen, items, -jnp.inf).max(axis=-1, keepdims=True)
        value = jnp.where(chosen, items, -jnp.inf)
        is_best = chosen & (jnp.arange(items.shape[-1])[None, None, :] == value.argmax(axis=-1)[:, :, None])
        lifted = jnp.where(is_best, jnp.maximum(items, rest + 1e-3), items)
        return jnp.where(order.observed, order.to_slots(lifted, 0.0), mean)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log Σ_{k∈S} P(k is the largest), as one integral over the value of max(S)."""
        order = self.order
        shape = (order.tier.shape[0], order.n_slots)
        items = order.to_items(jnp.broadcast_to(mean, shape))
        spread = jnp.ones_like(items) if deviation is None else order.to_items(jnp.broadcast_to(deviation, shape))
        informative = order.informative[:, :, None]
        first = jnp.asarray(np.arange(items.shape[-1]) == 0)[None, None, :]
        part, chosen = jnp.where(informative, order.tier >= 0, first), jnp.where(informative, order.tier == 1, first)
        value = orders.log_mass_of_largest(items, spread, part, chosen)
        return jnp.where(order.informative, value, 0.0).sum(axis=-1)

    def release(self, slots: RowsMask) -> OneOfRegion:
        return OneOfRegion(self.order.release(slots))

    def stretch(self, by: Float[Array, ""]) -> OneOfRegion:
        return self

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        order, items = self.order, self.order.to_items(x)
        chosen = order.takes_part & (order.tier == 1)
        rest = jnp.where(order.takes_part & ~chosen, items, -jnp.inf).max(axis=-1)
        best = jnp.where(chosen, items, -jnp.inf).max(axis=-1)
        return ((best >= rest) | ~order.informative).all(axis=-1)

    def as_linear(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not bool(self.order.informative[row].any()):
            return np.zeros((0, self.order.n_slots)), np.zeros(0), np.zeros(0)
        raise ValueError(
            f"row {row}: 'one of these' is a union, not one set of inequalities; use Order for 'all of these'"
        )

    def describe(self, row: int, names: Sequence[str], in_units: InUnits = no_units) -> tuple[str, ...]:
        """max over the candidates ≥ max over the rest, for each group that says anything."""
        order, found = self.order, []
        slots = (tuple(range(order.n_slots)),) if order.slots is None else order.slots
        for codes, places in zip(np.asarray(order.tier[row]), slots, strict=True):
            if codes.max(initial=-1) > 0:
                above, below = (", ".join(names[places[i]] for i in np.flatnonzero(codes == code)) for code in (1, 0))
                found.append(f"max({above}) >= max({below})")
        return tuple(found)
