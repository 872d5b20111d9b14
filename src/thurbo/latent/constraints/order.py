"""§3.2 Inequalities between slots: weak orders, and sets that hold the best. A category and any ranks are tiers.

`Order` says that all of tier j+1 lie above all of tier j; two colours sweep any order, and masses are exact, or the
paper's Gumbel forms (A.3) on request. `OneOf` says that max over S lies above max over the rest: a union, not convex,
but given all others every slot still has an interval (§4.2), and its mass is one integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent import truncnorm
from thurbo.latent.constraints.base import Bounds, Gauge, InUnits, Triple, pytree
from thurbo.latent.constraints.grouped import GroupRegion, Groups, Items, Slots
from thurbo.latent.masses import orders, rankings
from thurbo.latent.masses.orders import Form

Mass = Literal["exact", "gumbel"]
Mask = Bool[Array, "row order item"]

_WITHOUT_SOME: dict[Form, Form] = {"permutation": "ranking", "choice": "places"}  # forms if some items take no part
CLOSER_SCALE = float(np.sqrt(6.0) / np.pi)  # a Gumbel variable of this scale has unit variance


@pytree("tier")
class Order(Groups):
    """Weak orders, §3.2: every member of tier j+1 lies above every member of tier j.

    mass   "exact", or the paper's Gumbel form of scale `gumbel_scale` (1 as in A.3; √6/π is closer)
    form   what every informative order is (`form_of`); known on the host, it chooses the fastest algorithm for the mass
    """

    mass: Mass = "exact"
    gumbel_scale: float = 1.0
    form: Form = "any"
    can_move: ClassVar[bool] = True

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
        real = np.asarray(self.slots) >= 0
        if self.form == "choice" and self.mass == "exact":
            is_top = (self.tier == 1) & self.informative[:, :, None]
            return jnp.einsum("sok,rok->sr", self._log_chances(means, real), is_top.astype(means.dtype))

        def one_by_one(means: Float[Array, "state slot"]) -> Float[Array, "state row"]:
            n_states, n_rows = means.shape[0], self.tier.shape[0]
            tier = jnp.broadcast_to(self.tier, (n_states, *self.tier.shape)).reshape(-1, *self.tier.shape[1:])
            mass = replace(self, tier=tier).region(gauge).log_mass(jnp.repeat(means, n_rows, axis=0))
            return mass.reshape(n_states, n_rows)

        is_full = self.form == "permutation" and self.mass == "exact"
        if not is_full or not rankings.suits(means, self.tier.shape[0], real):
            return one_by_one(means)
        quick, is_sure = rankings.log_mass_of_orders(self.to_items(means), self.tier, real)
        return jax.lax.cond(is_sure, lambda means, quick: quick, lambda means, quick: one_by_one(means), means, quick)

    def _log_chances(self, means: Float[Array, "state slot"], real: np.ndarray) -> Float[Array, "state order item"]:
        """log P(each item is the largest of its order); where there is no item, that of the first."""
        items, n = self.to_items(means), self.tier.shape[-1]
        top = np.where(real, np.arange(n)[None, :], 0)
        code = np.where(real[:, None, :], top[:, :, None] == np.arange(n)[None, None, :], -1).reshape(-1, n)
        each = jnp.repeat(items, n, axis=1)
        tier = jnp.broadcast_to(jnp.asarray(code, jnp.int32), each.shape)
        return orders.log_mass(tier, each, jnp.ones_like(each), 2, 1, "choice").reshape(items.shape)


@pytree("order")
class OrderRegion(GroupRegion):
    """Ω(e) of weak orders."""

    @property
    def mass(self) -> str:
        return self.order.mass

    def bounds(self, x: Rows) -> Bounds:
        """From the largest of the tier below to the smallest of the tier above."""
        lower, upper = self._intervals(self.order.to_items(x))
        return Bounds(self.order.to_slots(lower, -jnp.inf), self.order.to_slots(upper, jnp.inf))

    def _intervals(self, items: Items) -> tuple[Items, Items]:
        highest, lowest = self._ends(items)
        end = jnp.full_like(highest[:, :, :1], jnp.inf)
        below = jnp.concatenate([-end, highest[..., :-1]], axis=-1)
        above = jnp.concatenate([lowest[..., 1:], end], axis=-1)
        tier, part = self.order.tier, self.order.takes_part
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
        order, items, centre = self.order, self.order.to_items(x), self.order.to_items(mean)
        if order.has_one_top:
            drawn = self._draw_choice(key, items, centre)
        else:
            key_all, key_blocks, key_colours = jax.random.split(key, 3)
            part = order.takes_part
            # Adding one number to all of an order keeps it, in floating point too: rounding is monotone.
            n = jnp.maximum(part.sum(axis=-1).astype(x.dtype), 1.0)
            pull = jnp.where(part, centre - items, 0.0).sum(axis=-1)
            step = pull / n + jax.random.normal(key_all, n.shape, n.dtype) / jnp.sqrt(n)
            drawn = jnp.where(part, items + step[:, :, None], items)
            drawn = self._shift_blocks(key_blocks, drawn, centre)
            colour = jnp.where(part, order.tier % 2, jnp.zeros_like(order.tier))  # bounds come from the other one
            for turn in range(2):
                fresh = truncnorm.sample(jax.random.fold_in(key_colours, turn), centre, *self._intervals(drawn))
                drawn = jnp.where(colour == turn, fresh, drawn)
        own = np.isin(np.arange(order.n_slots), order.slots)
        return jnp.where(jnp.asarray(own)[None, :], order.to_slots(drawn, 0.0), x)

    def _draw_choice(self, key: PRNGKey, items: Items, mean: Items) -> Items:
        """One item above all others: first its utility, with the others integrated out, then the others, below it."""
        part, tier = self.order.takes_part, self.order.tier
        top, rest = part & (tier == 1), part & (tier == 0)
        pick = lambda value: jnp.where(top, value, 0.0).sum(axis=-1)  # noqa: E731
        key_top, key_rest = jax.random.split(key)
        chosen = rankings.draw_chosen(key_top, pick(items), pick(mean), mean, rest)
        chosen = jnp.broadcast_to(chosen[:, :, None], mean.shape)
        upper = jnp.where(rest, chosen, jnp.inf)
        return jnp.where(top, chosen, truncnorm.sample(key_rest, mean, jnp.full_like(upper, -jnp.inf), upper))

    def _shift_blocks(self, key: PRNGKey, items: Items, mean: Items) -> Items:
        """Shifts of blocks of neighbouring tiers, of a few sizes."""
        order = self.order
        sizes = rankings.scales(order.n_tiers)
        if not sizes:
            return items
        here = order.in_tier() & order.informative[:, :, None, None]
        highest, lowest = self._ends(items)
        add = lambda value: jnp.where(here, value[:, :, None, :], 0.0).sum(axis=-1)  # noqa: E731
        blocks = rankings.Blocks(lowest, highest, add(mean - items), add(jnp.ones_like(items)))
        moved = rankings.shift_blocks(key, blocks, sizes)
        at = jnp.maximum(order.tier, 0).astype(jnp.int32)
        fresh = items + jnp.where(order.takes_part, jnp.take_along_axis(moved, at, axis=-1), 0.0)
        # Sums of different shifts are rounded; a row that leaves Ω by this keeps its old value.
        lower, upper = self._intervals(fresh)
        return jnp.where(((lower <= fresh) & (fresh <= upper)).all(axis=(1, 2), keepdims=True), fresh, items)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h), §4.4, summed over orders, which share no slot.

        Exact, or the paper's A.3 for Gumbel utilities: softmax, Plackett–Luce, and Efron's form for ties. In tasks,
        variance beyond 1, on average over the items of an order, widens the scale.
        """
        order = self.order
        if order.mass == "exact":
            return self._log_mass_exact(mean, deviation)
        items, spread = self.items_of(mean, deviation)
        if deviation is not None and order.tasks:
            part = (order.tier >= 0).astype(items.dtype)
            beyond = (part * jnp.maximum(spread**2 - 1.0, 0.0)).sum(axis=-1) / jnp.maximum(part.sum(axis=-1), 1.0)
            items = items / jnp.sqrt(order.gumbel_scale**2 + CLOSER_SCALE**2 * beyond)[..., None]
        else:
            items = items / order.gumbel_scale
        if self._sums_ties:
            value = rankings.log_mass_with_ties(items, order.tier)
        else:
            value = orders.log_mass_gumbel(items, order.in_tier())
        return jnp.where(order.informative, value, 0.0).sum(axis=-1)

    def _log_mass_exact(self, mean: Float[Array, "#row slot"], deviation: Rows | None, by_need: bool = False) -> PerRow:
        """With `by_need`, orders that say nothing are left out, and there is one derivative."""
        order, (items, spread) = self.order, self.items_of(mean, deviation)
        if items.shape[-1] < 2:
            return jnp.zeros(len(items), items.dtype)
        # Uninformative orders are replaced by an order of two items, to keep values and gradients finite.
        quiet = jnp.asarray(np.minimum(np.arange(items.shape[-1]), 2) - 3 * (np.arange(items.shape[-1]) > 1))
        informative = order.informative
        tier = jnp.where(informative[:, :, None], order.tier, quiet.astype(order.tier.dtype)[None, None, :])
        items = jnp.where(informative[:, :, None], items, jax.lax.stop_gradient(jnp.zeros_like(items)))
        width, form = order.width or items.shape[-1], "choice" if order.has_one_top else order.form
        value = orders.log_mass(tier, items, spread, order.n_tiers, width, form, informative if by_need else None)
        return jnp.where(informative, value, 0.0).sum(axis=-1)

    @property
    def _sums_ties(self) -> bool:
        """Whether ties of a Gumbel order are summed over; Efron's form is too coarse for the few items of a task."""
        order = self.order
        return order.tasks and not order.has_one_top and order.tier.shape[-1] <= rankings.MOST_TIED

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
        order, scale, informative = self.order, self.order.gumbel_scale, self.order.informative[:, :, None]
        if order.mass == "exact" or self._sums_ties:
            return super().mean(mean)
        items = order.to_items(mean) / scale
        if order.has_one_top:  # a softmax: whether it was chosen, minus its share
            share = jax.nn.softmax(items, where=(order.tier >= 0) | ~informative)
            slope = (order.tier == 1).astype(items.dtype) - share
        else:  # the slope in closed form is half as much to differentiate and to compile
            slope = orders.slopes_gumbel(items, order.tier, order.n_tiers, order.form == "any")
        return mean + order.add_to_slots(jnp.where(informative, slope / scale, 0.0))

    def as_linear(self, row: int) -> Triple:
        """⟨A, b = 0, c = +∞⟩: one row x_above − x_below per pair of neighbouring tiers, best tiers first as in §3.2."""
        unit, rows = np.eye(self.order.n_slots), []
        for codes, places in self.order.of_row(row, range(self.order.n_slots)):
            own = np.asarray(places)
            for tier in range(int(codes.max(initial=-1)), 0, -1):
                above, below = own[codes == tier], own[codes == tier - 1]
                rows += [unit[one] - unit[two] for one in above for two in below]
        A = np.array(rows).reshape(-1, self.order.n_slots)
        return A, np.zeros(len(A)), np.full(len(A), np.inf)


@pytree("tier")
class OneOf(Groups):
    """The largest of each group is one of the items coded 1; 0 for the others, −1 takes no part; width = max |S|."""

    can_move: ClassVar[bool] = True
    may_have_tiers: ClassVar[bool] = False

    def region(self, gauge: Gauge) -> OneOfRegion:
        return OneOfRegion(self)


@pytree("order")
class OneOfRegion(GroupRegion):
    """Ω(e) = {x : max over S ≥ max over the rest} for every group."""

    not_linear = "'one of these' is a union, not one set of inequalities; use Order for 'all of these'"

    def _sides(self, items: Items) -> tuple[Mask, Mask, Items, Float[Array, "row order one"], Mask]:
        """Candidates and the rest, values of the candidates, the largest of the rest, and which is the best one."""
        part, is_one = self.order.takes_part, self.order.tier == 1
        value = jnp.where(part & is_one, items, -jnp.inf)
        rest = jnp.where(part & ~is_one, items, -jnp.inf).max(axis=-1, keepdims=True)
        is_best = jnp.arange(items.shape[-1])[None, None, :] == value.argmax(axis=-1)[:, :, None]
        return part & is_one, part & ~is_one, value, rest, is_best

    def bounds(self, x: Rows) -> Bounds:
        """The rest lie below the best candidate; a candidate is bounded only if no other one lies above the rest."""
        chosen, others, value, rest, is_best = self._sides(self.order.to_items(x))
        best = value.max(axis=-1, keepdims=True)
        second = jnp.where(is_best, -jnp.inf, value).max(axis=-1, keepdims=True)
        lower = jnp.where(chosen & (jnp.where(is_best, second, best) < rest), rest, -jnp.inf)
        upper = jnp.where(others, best, jnp.inf)
        return Bounds(self.order.to_slots(lower, -jnp.inf), self.order.to_slots(upper, jnp.inf))

    def start(self, mean: Rows) -> Rows:
        """The mean, with the best candidate lifted above the rest where it is not."""
        order, items = self.order, self.order.to_items(mean)
        chosen, _, _, rest, is_best = self._sides(items)
        lifted = jnp.where(chosen & is_best, jnp.maximum(items, rest + 1e-3), items)
        return jnp.where(order.observed, order.to_slots(lifted, 0.0), mean)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """The rest together, then one candidate after another: which of them is bounded depends on the others."""
        order = self.order
        chosen = order.takes_part & (order.tier == 1)
        turns = order.to_slots(jnp.where(chosen, jnp.cumsum(chosen, axis=-1), 0), 0)
        for turn in range(1 + (order.width or order.tier.shape[-1])):
            fresh = truncnorm.sample(jax.random.fold_in(key, turn), mean, *self.bounds(x))
            x = jnp.where(turns == turn, fresh, x)
        return x

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log Σ_{k∈S} P(k is the largest), as one integral over the value of max(S)."""
        order, (items, spread) = self.order, self.items_of(mean, deviation)
        informative = order.informative[:, :, None]
        first = jnp.asarray(np.arange(items.shape[-1]) == 0)[None, None, :]
        part, chosen = jnp.where(informative, order.tier >= 0, first), jnp.where(informative, order.tier == 1, first)
        return jnp.where(order.informative, orders.log_mass_of_largest(items, spread, part, chosen), 0.0).sum(axis=-1)

    def describe(self, row: int, names: Sequence[str], in_units: InUnits = None) -> tuple[str, ...]:
        """max over the candidates ≥ max over the rest, for each group that says anything."""
        found = []
        for codes, items in self.order.of_row(row, names):
            if codes.max(initial=-1) > 0:
                above, below = (", ".join(items[i] for i in np.flatnonzero(codes == code)) for code in (1, 0))
                found.append(f"max({above}) >= max({below})")
        return tuple(found)
