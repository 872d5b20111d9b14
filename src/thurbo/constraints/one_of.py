"""§3.2 Set-valued answers that mean "it is one of these": max over S lies above max over the rest.

A union of |S| categorical regions: not convex, but given all others every slot still has an interval (§4.2).
Its mass is one integral, that of max(S) with everything else below; For "all of these" use `Order`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsCode, RowsMask
from thurbo.constraints.base import (
    Bounds,
    Gauge,
    InUnits,
    log_mass_by_state,
    mass_by_difference,
    no_error,
    no_units,
    sweep_colours,
)
from thurbo.constraints.grouped import Groups, Slots, consecutive
from thurbo.constraints.masses import tiers


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


class OneOfRegion(NamedTuple):
    """Ω(e) = {x : max over S ≥ max over the rest} for every group."""

    order: OneOf

    @property
    def parts(self) -> tuple[OneOfRegion, ...]:
        return (self,)

    @property
    def is_convex(self) -> bool:
        return False

    @property
    def held(self) -> RowsMask:
        return self.order.observed

    @property
    def mass(self) -> str:
        return "exact"

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

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        return sweep_colours(self, key, x, mean)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log Σ_{k∈S} P(k is the largest), as one integral over the value of max(S)."""
        order = self.order
        shape = (order.tier.shape[0], order.n_slots)
        items = order.to_items(jnp.broadcast_to(mean, shape))
        spread = jnp.ones_like(items) if deviation is None else order.to_items(jnp.broadcast_to(deviation, shape))
        informative = order.informative[:, :, None]
        first = jnp.asarray(np.arange(items.shape[-1]) == 0)[None, None, :]
        part, chosen = jnp.where(informative, order.tier >= 0, first), jnp.where(informative, order.tier == 1, first)
        value = tiers.log_mass_of_largest(items, spread, part, chosen)
        return jnp.where(order.informative, value, 0.0).sum(axis=-1)

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        """A group that is masked as a whole needs one mass only."""
        if whole:
            return self.release(~masked).log_mass(mean, deviation)
        return mass_by_difference(self, mean, deviation, masked)

    def mean(self, mean: Rows) -> Rows:
        """E[x | x ∈ Ω] for x ~ N(mean, I): mean + ∂ log_mass / ∂ mean, though Ω is not convex."""
        return mean + jax.grad(lambda m: self.log_mass(m).sum())(mean)

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

    def log_mass_error(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        return no_error(self, mean)

    def smooth(self) -> OneOfRegion:
        return self

    def take_boxes(self, box: Any) -> tuple[OneOfRegion, Any]:
        return self, box
