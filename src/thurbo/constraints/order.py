"""§3.2 Inequalities between slots: weak orders. A category, a set of favourites, any ranks are all tiers.

`Order` says that all of tier j+1 lie above all of tier j; groups of slots are disjoint, so their masses multiply.
Two colours sweep any order; masses are exact (tiers.py), or the paper's Gumbel forms (A.3) where that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsCode, RowsMask
from thurbo.constraints.base import Bounds, Gauge
from thurbo.constraints.masses import moves as order_moves
from thurbo.constraints.masses import permutations, tiers
from thurbo.normal import truncnorm

Mass = Literal["exact", "gumbel"]
Form = Literal["choice", "permutation", "ranking", "places", "any"]
Slots = tuple[tuple[int, ...], ...]
Items = Float[Array, "row order item"]
C = TypeVar("C", bound="Groups")

CLOSER_SCALE = float(np.sqrt(6.0) / np.pi)  # a Gumbel variable of this scale has unit variance


def consecutive(tier: np.ndarray) -> np.ndarray:
    """Tiers renumbered 0, 1, … along the last axis; −1 stays, and an order of fewer than two tiers becomes all −1.

    Ratings {1, 3} must become {0, 1}: the sweep's two colours are the parity of the tier, and a gap breaks the order.
    """
    tier = np.asarray(tier)
    flat = tier.reshape(-1, tier.shape[-1])
    out = np.full(flat.shape, -1, np.int32)
    for row, codes in enumerate(flat):
        seen = codes >= 0
        levels, number = np.unique(codes[seen], return_inverse=True)
        if len(levels) > 1:
            out[row, seen] = number
    return out.reshape(tier.shape)


@dataclass(frozen=True)
class Groups:
    """Disjoint groups of slots, one code per row and member: the layout that `Order` and `OneOf` share.

    tier     place of each item, consecutive from 0 (worst); −1 takes no part. Fewer than two tiers say nothing
    slots    which slot each item of each order is, −1 for padding; None: one order, whose item i is slot i
    depth    the most tiers of any order, width the most items of a tier that is neither first nor last. Known on the
             host (`of`), they choose the shortest exact integral; 0 stands for "as many as there are items"
    halves   the most items of even and of odd tiers (absent ones count as even); None where that is not known
    alone    promises that no box speaks of these slots, in any row, so that none need be asked
    """

    tier: Any  # Int[Array, "row order item"]; unannotated since a tree of axes or specs is an Order too
    slots: Slots | None = None
    n_slots: int = 0
    depth: int = 0
    width: int = 0
    halves: tuple[int, int] | None = None
    alone: bool = False

    @property
    def n_tiers(self) -> int:
        return max(self.depth or self.tier.shape[-1], 2)

    @property
    def has_one_top(self) -> bool:
        """Whether every order that speaks is known to have two tiers, the upper one a single item."""
        return self.n_tiers == 2 and self.halves is not None and self.halves[1] == 1

    @property
    def speaks(self) -> Bool[Array, "row order"]:
        """Orders of at least two tiers."""
        return self.tier.max(axis=-1) > 0

    @property
    def takes_part(self) -> Bool[Array, "row order item"]:
        return (self.tier >= 0) & self.speaks[:, :, None]

    @property
    def observed(self) -> RowsMask:
        return self.to_slots(self.takes_part, False)

    def to_items(self, value: Array) -> Array:
        """`[row, slot]` → `[row, order, item]`."""
        if self.slots is None:
            return value[:, None, :]
        return jnp.take(value, jnp.asarray(np.maximum(np.asarray(self.slots), 0)), axis=1)

    def to_slots(self, value: Array, elsewhere: Any) -> Array:
        """`[row, order, item]` → `[row, slot]`; `elsewhere` where no order looks."""
        flat = value.reshape(value.shape[0], -1)
        if self.slots is None:
            return flat
        place = np.full(self.n_slots, flat.shape[1])
        index = np.asarray(self.slots).reshape(-1)
        place[index[index >= 0]] = np.flatnonzero(index >= 0)
        padded = jnp.concatenate([flat, jnp.full((flat.shape[0], 1), elsewhere, flat.dtype)], axis=1)
        return jnp.take(padded, jnp.asarray(place), axis=1)

    def add_to_slots(self, value: Array) -> Array:
        """`to_slots` of finite numbers, zero elsewhere, as a matrix product: a gather would fuse with all around it.

        On a CPU that doubled the time of mean-field without its gradient.
        """
        flat = value.reshape(value.shape[0], -1)
        if self.slots is None:
            return flat
        index = np.asarray(self.slots).reshape(-1)
        place = (index[:, None] == np.arange(self.n_slots)[None, :]).astype(flat.dtype)
        return jnp.matmul(flat, jnp.asarray(place), precision=jax.lax.Precision.HIGHEST)

    def in_tier(self) -> Bool[Array, "row order tier item"]:
        """Who is where, as a mask that fuses into reductions over items."""
        number = jnp.arange(self.n_tiers, dtype=self.tier.dtype)
        return self.tier[:, :, None, :] == number[None, None, :, None]

    def release(self: C, slots: RowsMask) -> C:
        """The same orders without these slots, tiers renumbered consecutively; an order of one tier falls silent."""
        gone = self.to_items(slots)
        tier = jnp.where(gone, jnp.full_like(self.tier, -1), self.tier)
        present = replace(self, tier=tier).in_tier().any(axis=-1)
        number = (jnp.cumsum(present, axis=-1) - 1).astype(tier.dtype)
        fresh = jnp.take_along_axis(number, jnp.maximum(tier, 0).astype(jnp.int32), axis=-1)
        silent = (tier < 0) | (present.sum(axis=-1) < 2)[:, :, None]
        # Of two tiers the upper one stays the upper one; of more, a tier may change its parity.
        halves = (tier.shape[-1], self.halves[1]) if self.halves is not None and self.n_tiers == 2 else None
        return replace(self, tier=jnp.where(silent, jnp.full_like(tier, -1), fresh), halves=halves)


def real_items(shape: tuple[int, ...], slots: Slots | None) -> np.ndarray:
    """Which places of each order hold a slot, [order, item]."""
    return np.ones(shape, bool) if slots is None else np.asarray(slots) >= 0


def form_of(tier: np.ndarray, slots: Slots | None) -> Form:
    """What all orders that speak have in common, from consecutive tiers on the host.

    A choice puts one item above all others of its group; in a ranking no two items are tied, and a permutation is a
    ranking of all of them. Places are the first few of a ranking: no tie but in the lowest tier.
    """
    silent, part, last = tier.max(axis=-1) <= 0, tier >= 0, tier.max(axis=-1)
    full = (part == real_items(tier.shape[1:], slots)[None]).all(axis=-1)
    if (silent | (full & (last == 1) & ((tier == 1).sum(axis=-1) == 1))).all():
        return "choice"
    if not (silent | ((tier > 0).sum(axis=-1) == last)).all():
        return "any"
    if not (silent | (part.sum(axis=-1) == last + 1)).all():
        return "places"
    return "permutation" if (silent | full).all() else "ranking"


def shape_of(tier: np.ndarray) -> tuple[int, int]:
    """(depth, width) of an array of consecutive tiers, on the host."""
    flat = np.asarray(tier).reshape(-1, tier.shape[-1])
    depth = int(flat.max(initial=-1)) + 1
    last = flat.max(axis=1, initial=-1)[:, None]
    width = 1
    for middle in range(1, depth - 1):
        width = max(width, int(((flat == middle) & (last > middle)).sum(axis=1).max(initial=0)))
    return max(depth, 2), width


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["tier"],
    meta_fields=["slots", "n_slots", "depth", "width", "halves", "alone", "mass", "gumbel_scale", "form"],
)
@dataclass(frozen=True)
class Order(Groups):
    """Weak orders, §3.2: every member of tier j+1 lies above every member of tier j.

    mass   "exact", or the paper's Gumbel form of scale `gumbel_scale` (1 as in A.3; √6/π is closer)
    form   what every order that speaks is (`form_of`); known on the host, it chooses the shortest way to the mass
    """

    mass: Mass = "exact"
    gumbel_scale: float = 1.0
    form: Form = "any"

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
        return cls(jnp.asarray(tier), slots, n_slots, depth, width, halves, False, mass, gumbel_scale, form)

    def release(self, slots: RowsMask) -> Order:
        """As for all groups; a ranking without some items is a ranking still, a choice one place of what is left."""
        left: dict[Form, Form] = {"permutation": "ranking", "choice": "places"}
        return replace(super().release(slots), form=left.get(self.form, self.form))

    def region(self, gauge: Gauge) -> OrderRegion:
        """Differences of utilities have neither cuts nor scales: the region is the order itself."""
        return OrderRegion(self)

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """States times rows as so many rows: `tiers.log_mass` works through them in portions.

        Of choices a table of P(item | state) says it all. Many states of permutations take a shorter way, as long as
        every row is likely enough in some state.
        """
        if self.form == "choice" and self.mass == "exact":
            is_top = (self.tier == 1) & self.speaks[:, :, None]
            return jnp.einsum("sok,rok->sr", self._log_chances(means), is_top.astype(means.dtype))
        real = real_items(self.tier.shape[1:], self.slots)
        is_full = self.form == "permutation" and self.mass == "exact"
        if not is_full or not permutations.suits(means, self.tier.shape[0], real):
            return self._log_mass_of_pairs(means, gauge)
        quick, is_sure = permutations.log_mass_of_orders(self.to_items(means), self.tier, real)
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
        return tiers.log_mass(tier, each, jnp.ones_like(each), 2, 1, is_choice=True).reshape(items.shape)


class OrderRegion(NamedTuple):
    """Ω(e) of weak orders."""

    order: Order

    @property
    def held(self) -> RowsMask:
        return self.order.observed

    @property
    def mass(self) -> str:
        return self.order.mass

    @property
    def n_colours(self) -> int:
        return 2

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
        """A point of Ω near the mean: each order's own values, sorted and handed out from the lowest tier up."""
        order, items = self.order, self.order.to_items(mean)
        part = order.takes_part
        place = jnp.where(part, order.tier, jnp.full_like(order.tier, order.n_tiers))
        who = jnp.lexsort((items, place), axis=-1)
        value = jnp.sort(jnp.where(part, items, jnp.inf), axis=-1)
        gap = 1e-3 * jnp.arange(items.shape[-1]).astype(items.dtype)  # strict, whatever ties there are in the means
        given = jnp.take_along_axis(value + gap[None, None, :], jnp.argsort(who, axis=-1), axis=-1)
        return jnp.where(order.observed, order.to_slots(jnp.where(part, given, items), 0.0), mean)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows, box: Bounds | None = None) -> Rows:
        """One step that leaves N(mean, I) on Ω (and in the box, if any) invariant: shifts, then the two colours.

        Slots of no group stay as they are. What a sweep does in as many steps as there are tiers, squared, the
        shifts do in a few (order_moves.py).
        """
        if box is None and self.order.has_one_top:
            return self._draw_choice(key, x, mean)
        key_all, key_blocks, key_colours = jax.random.split(key, 3)
        if box is None:
            x = self._shift_all(key_all, x, mean)
        sizes = order_moves.scales(self.order.n_tiers)
        if box is not None:
            sizes = (1 << (self.order.n_tiers - 1).bit_length(), *sizes)
        if sizes:
            x = self._shift_blocks(key_blocks, x, mean, box, sizes)
        return self._two_colours(key_colours, x, mean, box)

    def _two_colours(self, key: PRNGKey, x: Rows, mean: Rows, box: Bounds | None) -> Rows:
        """A sweep that draws each slot once: items stand in order of colour, so that each turn is a slice of them."""
        order, n = self.order, self.order.tier.shape[-1]
        even, odd = order.halves or (n, n)
        odd_tier = jnp.where(order.takes_part, order.tier % 2, jnp.zeros_like(order.tier))
        places = jnp.argsort(odd_tier, axis=-1)
        stand = lambda value: jnp.take_along_axis(value, places, axis=-1)  # noqa: E731
        sorted_region = OrderRegion(replace(order, tier=stand(order.tier)))
        part, colour = stand(order.takes_part), stand(odd_tier)
        items, mean_items = stand(order.to_items(x)), stand(order.to_items(mean))
        held = None if box is None else [stand(order.to_items(side)) for side in box]
        for turn, (a, b) in enumerate(((0, even), (n - odd, n))):
            lower, upper = sorted_region._intervals(items, part, a, b)
            if held is not None:
                lower, upper = jnp.maximum(lower, held[0][..., a:b]), jnp.minimum(upper, held[1][..., a:b])
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
        """One item above all others: its own utility first, the others integrated out, then theirs, all below it."""
        order, mean_items = self.order, self.order.to_items(mean)
        part = order.takes_part
        top, rest = part & (order.tier == 1), part & (order.tier == 0)
        pick = lambda value: jnp.where(top, value, 0.0).sum(axis=-1)  # noqa: E731
        key_top, key_rest = jax.random.split(key)
        chosen = order_moves.draw_chosen(key_top, pick(order.to_items(x)), pick(mean_items), mean_items, rest)
        chosen = jnp.broadcast_to(chosen[:, :, None], mean_items.shape)
        upper = jnp.where(rest, chosen, jnp.inf)
        drawn = truncnorm.sample(key_rest, mean_items, jnp.full_like(upper, -jnp.inf), upper)
        return self._placed(jnp.where(top, chosen, drawn), x)

    def _shift_all(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """Adding one number to all of an order keeps it, in floating point too: rounding is monotone."""
        order = self.order
        part = order.takes_part
        pull = jnp.where(part, order.to_items(mean - x), 0.0).sum(axis=-1)
        step = order_moves.shift_all(key, pull, part.sum(axis=-1).astype(x.dtype))
        return x + order.to_slots(jnp.where(part, step[:, :, None], 0.0), 0.0)

    def _shift_blocks(self, key: PRNGKey, x: Rows, mean: Rows, box: Bounds | None, sizes: tuple[int, ...]) -> Rows:
        order, items = self.order, self.order.to_items(x)
        here = order.in_tier() & order.speaks[:, :, None, None]
        highest, lowest = self._ends(items)
        add = lambda value: jnp.where(here, value[:, :, None, :], 0.0).sum(axis=-1)  # noqa: E731
        free = jnp.full_like(highest, jnp.inf)
        down, up = -free, free
        if box is not None:
            room = order.to_items(box.lower) - items, order.to_items(box.upper) - items
            down = jnp.where(here, room[0][:, :, None, :], -jnp.inf).max(axis=-1)
            up = jnp.where(here, room[1][:, :, None, :], jnp.inf).min(axis=-1)
        pull, size = add(order.to_items(mean) - items), add(jnp.ones_like(items))
        moved = order_moves.shift_blocks(key, order_moves.Blocks(lowest, highest, pull, size, down, up), sizes)
        at = jnp.maximum(order.tier, 0).astype(jnp.int32)
        step = jnp.where(order.takes_part, jnp.take_along_axis(moved, at, axis=-1), 0.0)
        moved_x = x + order.to_slots(step, 0.0)
        # Sums of different shifts are rounded; a row in which that touched an inequality stays where it was.
        safe = self.contains(moved_x)
        if box is not None:
            safe = safe & ((box.lower <= moved_x) & (moved_x <= box.upper)).all(axis=-1)
        return jnp.where(safe[:, None], moved_x, x)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h), §4.4, summed over orders, which share no slot; exact unless the order asks for Gumbel."""
        order = self.order
        if order.mass == "gumbel":
            return self.log_mass_gumbel(mean, order.gumbel_scale)
        shape = (order.tier.shape[0], order.n_slots)
        items = order.to_items(jnp.broadcast_to(mean, shape))
        spread = jnp.ones_like(items) if deviation is None else order.to_items(jnp.broadcast_to(deviation, shape))
        if order.tier.shape[-1] < 2:
            return jnp.zeros(shape[0], items.dtype)
        # Where there is nothing to say, a harmless order of two items keeps values and gradients finite.
        quiet = jnp.asarray(np.minimum(np.arange(items.shape[-1]), 2) - 3 * (np.arange(items.shape[-1]) > 1))
        speaks = order.speaks
        tier = jnp.where(speaks[:, :, None], order.tier, quiet.astype(order.tier.dtype)[None, None, :])
        items = jnp.where(speaks[:, :, None], items, jax.lax.stop_gradient(jnp.zeros_like(items)))
        width, is_ranking = order.width or items.shape[-1], order.form in ("permutation", "ranking")
        promises = is_ranking, order.has_one_top, order.form == "places"
        value = tiers.log_mass(tier, items, spread, order.n_tiers, width, *promises)
        return jnp.where(speaks, value, 0.0).sum(axis=-1)

    def log_mass_gumbel(self, mean: Float[Array, "#row slot"], scale: float = 1.0) -> PerRow:
        """The paper's A.3 for Gumbel utilities of this scale: softmax, Plackett–Luce, and Efron's form for ties."""
        order = self.order
        items = order.to_items(jnp.broadcast_to(mean, (order.tier.shape[0], order.n_slots)))
        value = tiers.log_mass_gumbel(items / scale, order.in_tier())
        return jnp.where(order.speaks, value, 0.0).sum(axis=-1)

    def mean(self, mean: Rows) -> Rows:
        """E[x | x ∈ Ω] for x ~ N(mean, I): the structured mean-field, mean + ∂ log_mass / ∂ mean."""
        if self.order.mass == "gumbel" and self.order.has_one_top:
            return self._mean_of_choice(mean)
        return mean + jax.grad(lambda m: self.log_mass(m).sum())(mean)

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
