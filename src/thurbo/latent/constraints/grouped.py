"""§3.2 Disjoint groups of slots with integer codes: the layout that orders, sets, pairs and repeated choices share.

Maps arrays between `[row, slot]` and `[row, order, item]`, renumbers tiers when slots are released, and derives on the
host what all groups have in common (depth, width, form), which chooses the shortest way to the mass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, Int, Rows, RowsMask
from thurbo.latent.constraints.base import Bounds, Constraint, Region, Structure, Triple, numpy_for, pick
from thurbo.latent.masses.orders import Form

Slots = tuple[tuple[int, ...], ...]
Items = Float[Array, "row order item"]
C = TypeVar("C", bound="Groups")
G = TypeVar("G", bound="GroupRegion")
N = TypeVar("N")

MOST_RUNS = 3  # of groups of one size, for which slices are compiled


@dataclass(frozen=True)
class Groups(Constraint):
    """Disjoint groups of slots, one code per row and member.

    tier         place of each item, consecutive from 0 (worst); −1 takes no part. Fewer than two tiers say nothing
    slots        which slot each item of each order is, −1 for padding; by default one order, whose item i is slot i
    depth        the most tiers of any order, width the most items of a tier that is neither first nor last. Known on
                 the host, they choose the shortest exact integral; 0 means "as many as there are items"
    has_one_top  promises that every informative order has two tiers, the upper one a single item
    alone        promises that no box confines these slots in any row, so that boxes are computed for the others only
    tasks        whether each group is a comparison with noise of its own; groups are then consecutive and of one size
    """

    tier: Any  # Int[Array, "row order item"]; unannotated since a tree of axes or specs is an Order too
    slots: Any = None  # Slots
    n_slots: int = 0
    depth: int = 0
    width: int = 0
    has_one_top: bool = False
    alone: bool = False
    tasks: bool = False
    can_move: ClassVar[bool] = False  # whether only codes say what the items of a group are
    may_have_tiers: ClassVar[bool] = True  # whether rows may keep their tiers instead of the code of a pattern

    def __post_init__(self) -> None:
        if self.slots is None:
            object.__setattr__(self, "n_slots", self.n_slots or self.tier.shape[-1])
            object.__setattr__(self, "slots", (tuple(range(self.n_slots)),))

    @property
    def structure(self) -> Structure:
        tasks = (self.slots[0][0], len(self.slots), len(self.slots[0])) if self.tasks else None
        own_slots = tuple(slot for group in self.slots for slot in group if self.alone and slot >= 0)
        groups = self.slots if self.can_move and self.alone and not self.tasks else None
        return Structure(couples=True, own_slots=own_slots, tasks=tasks, groups=groups, are_choices=self.has_one_top)

    @property
    def n_tiers(self) -> int:
        return max(self.depth or self.tier.shape[-1], 2)

    @property
    def informative(self) -> Any:  # Bool[Array, "row order"], on the host or on the device
        """Orders of at least two tiers."""
        return self.tier.max(axis=-1) > 0

    @property
    def takes_part(self) -> Any:  # Bool[Array, "row order item"]
        return (self.tier >= 0) & self.informative[:, :, None]

    @property
    def observed(self) -> RowsMask:
        return self.to_slots(self.takes_part, False)

    def to_items(self, value: Any) -> Any:
        """`[row, slot]` → `[row, order, item]`."""
        runs = None if isinstance(value, np.ndarray) else runs_of(self.slots)
        if runs is not None:
            return _stacked(value, runs, len(self.slots[0]))
        index = np.maximum(np.asarray(self.slots), 0)
        found = pick(value, index.reshape(-1), 1)
        return found.reshape(found.shape[0], *index.shape)

    def to_slots(self, value: Any, elsewhere: Any) -> Any:
        """`[row, order, item]` → `[row, slot]`; `elsewhere` for slots of no order."""
        runs = None if isinstance(value, np.ndarray) else runs_of(self.slots)
        if runs is not None:
            return _unstacked(value, runs, self.n_slots, elsewhere)
        flat = value.reshape(value.shape[0], -1)
        place = np.full(self.n_slots, flat.shape[1])
        index = np.asarray(self.slots).reshape(-1)
        place[index[index >= 0]] = np.flatnonzero(index >= 0)
        numpy = numpy_for(flat)
        padded = numpy.concatenate([flat, numpy.full((flat.shape[0], 1), elsewhere, flat.dtype)], axis=1)
        return pick(padded, place, 1)

    def add_to_slots(self, value: Array) -> Array:
        """`to_slots` of finite numbers, zero elsewhere: as a matrix product, if groups are not one after another.

        A gather instead doubled the time of mean-field on a CPU, since XLA fuses it with its neighbours.
        """
        if runs_of(self.slots) is not None:
            return self.to_slots(value, 0.0)
        index = np.asarray(self.slots).reshape(-1)
        place = (index[:, None] == np.arange(self.n_slots)[None, :]).astype(value.dtype)
        flat = value.reshape(value.shape[0], -1)
        return jnp.matmul(flat, jnp.asarray(place), precision=jax.lax.Precision.HIGHEST)

    def in_tier(self) -> Any:  # Bool[Array, "row order tier item"]
        """Which item is in which tier, as a mask that XLA fuses into reductions over items."""
        number = np.arange(self.n_tiers).astype(self.tier.dtype)
        return self.tier[:, :, None, :] == number[None, None, :, None]

    def embed(self: C, slots: np.ndarray, n_slots: int) -> C:
        """The same groups in rows of `n_slots` slots, of which `slots` are theirs."""
        to = np.asarray(slots).tolist()
        where = tuple(tuple(to[slot] if slot >= 0 else -1 for slot in group) for group in self.slots)
        return replace(self, slots=where, n_slots=n_slots)

    def move(self: C, slots: Slots, where: np.ndarray, n_slots: int) -> C:
        """The same groups at other slots, with more groups and items that take no part."""
        own = np.asarray(self.tier)
        tier = np.full((len(own), len(slots), len(slots[0])), -1, own.dtype)
        tier[:, where, : own.shape[2]] = own
        return replace(self, tier=tier, slots=slots, n_slots=n_slots)

    def release(self: C, slots: RowsMask) -> C:
        """The same orders without these slots, tiers renumbered consecutively; an order of one tier says nothing."""
        gone, numpy = self.to_items(slots), numpy_for(self.tier)
        tier = numpy.where(gone, numpy.full_like(self.tier, -1), self.tier)
        if self.n_tiers == 2:  # both tiers keep their numbers, if both are left
            both = (tier == 1).any(axis=-1) & (tier == 0).any(axis=-1)
            return replace(self, tier=numpy.where(both[:, :, None], tier, numpy.full_like(tier, -1)))
        present = replace(self, tier=tier).in_tier().any(axis=-1)
        number = np.arange(present.shape[-1]).astype(tier.dtype)[None, None, None, :]
        lower = present[:, :, None, :] & (number < tier[..., None])
        fresh = lower.sum(axis=-1).astype(tier.dtype)
        silent = (tier < 0) | (present.sum(axis=-1) < 2)[:, :, None]
        return replace(self, tier=numpy.where(silent, numpy.full_like(tier, -1), fresh))

    def looked_up(self: C, code: Int[Array, "row slot"], numbers: Bounds, tier: Int[Array, "row place"]) -> C:
        """A group has one code, that of its first slot; where it has tiers of its own, its code says nothing."""
        first = np.asarray([group[0] for group in self.slots])
        found = jnp.take_along_axis(jnp.asarray(self.tier), code[:, first, None], axis=0)
        if tier.shape[1] and self.may_have_tiers:
            own = jnp.where(jnp.asarray(np.asarray(self.slots) >= 0), self.to_items(tier), -1)
            found = jnp.maximum(found, own.astype(found.dtype))
        return replace(self, tier=found)

    def of_row(self, row: int, names: Sequence[N]) -> Iterator[tuple[np.ndarray, list[N]]]:
        """The codes of each group in one row, and the names of its slots."""
        for codes, places in zip(np.asarray(self.tier[row]), self.slots, strict=True):
            yield codes, [names[place] for place in places]


@dataclass(frozen=True)
class GroupRegion(Region):
    """Ω(e) of groups, which by default has no scale and is no single set of inequalities."""

    order: Any  # Groups
    not_linear: ClassVar[str] = ""  # why there is no ⟨A, b, c⟩

    @property
    def is_convex(self) -> bool:
        return not self.not_linear

    @property
    def held(self) -> RowsMask:
        return self.order.observed

    def items_of(self, mean: Float[Array, "#row slot"], deviation: Rows | None) -> tuple[Items, Items]:
        """Means and deviations by item, which are 1 if none are given."""
        shape = (len(self.order.tier), self.order.n_slots)
        items = self.order.to_items(jnp.broadcast_to(mean, shape))
        if deviation is None:
            return items, jnp.ones_like(items)
        return items, self.order.to_items(jnp.broadcast_to(deviation, shape))

    def release(self: G, slots: RowsMask) -> G:
        return replace(self, order=self.order.release(slots))

    def stretch(self: G, by: Float[Array, ""]) -> G:
        return self

    def as_linear(self, row: int) -> Triple:
        if bool(self.order.informative[row].any()):
            raise ValueError(f"row {row}: {self.not_linear}")
        return np.zeros((0, self.order.n_slots)), np.zeros(0), np.zeros(0)


class SlotRun(NamedTuple):
    """Groups of one size, one after another: their first slot, their number, and items of each."""

    first: int
    n_groups: int
    size: int


@lru_cache(maxsize=4096)
def runs_of(slots: Slots) -> tuple[SlotRun, ...] | None:
    """All groups as a few runs that follow each other, so that slices are enough; None if they are not like this."""
    index = np.asarray(slots)
    sizes = (index >= 0).sum(axis=1)
    real = index.reshape(-1)[index.reshape(-1) >= 0]
    is_padded_last = ((index >= 0) == (np.arange(index.shape[1])[None, :] < sizes[:, None])).all()
    if not len(real) or not is_padded_last or not (np.diff(real) == 1).all():
        return None
    found, at = [], int(real[0])
    for size, same in groupby(sizes.tolist()):
        found.append(SlotRun(at, len(list(same)), size))
        at += found[-1].n_groups * size
    return tuple(found) if len(found) <= MOST_RUNS else None


def _stacked(value: Any, runs: tuple[SlotRun, ...], most: int) -> Any:
    """`[row, slot]` → `[row, order, item]`; one where there is no item, which is a deviation, too."""
    parts = []
    for first, n_groups, size in runs:
        own = jax.lax.slice_in_dim(jnp.asarray(value), first, first + n_groups * size, axis=1)
        own = own.reshape(own.shape[0], n_groups, size)
        parts.append(jnp.pad(own, ((0, 0), (0, 0), (0, most - size)), constant_values=1))
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=1)


def _unstacked(value: Any, runs: tuple[SlotRun, ...], n_slots: int, elsewhere: Any) -> Any:
    """`[row, order, item]` → `[row, slot]`."""
    parts, begin = [], 0
    for _, n_groups, size in runs:
        parts.append(value[:, begin : begin + n_groups, :size].reshape(value.shape[0], n_groups * size))
        begin += n_groups
    flat = jnp.concatenate(parts, axis=1)
    first = runs[0].first
    return jnp.pad(flat, ((0, 0), (first, n_slots - first - flat.shape[1])), constant_values=elsewhere)


def form_of(tier: np.ndarray, slots: Slots | None) -> Form:
    """What all informative orders have in common, from consecutive tiers on the host.

    A choice puts one item above all others of its group; in a ranking no two items are tied, and a permutation is a
    ranking of all of them. Places are the first few of a ranking: no tie but in the lowest tier.
    """
    silent, part, last = tier.max(axis=-1) <= 0, tier >= 0, tier.max(axis=-1)
    full = (part | (False if slots is None else np.asarray(slots) < 0)).all(axis=-1)
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
