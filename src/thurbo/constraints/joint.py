"""§3 Several regions at once, on disjoint slots: how one row holds every data type.

A slot belongs to at most one coupled form, so masses add, means and starts are each part's own, and bounds intersect.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsCode, RowsMask
from thurbo.constraints.base import Bounds, InUnits, Region, no_units


class JointRegion(NamedTuple):
    """Ω(e) = ∩ parts, each confining slots of its own."""

    parts: tuple[Region, ...]

    @property
    def is_convex(self) -> bool:
        return all(part.is_convex for part in self.parts)

    @property
    def held(self) -> RowsMask:
        return reduce(jnp.logical_or, (part.held for part in self.parts))

    @property
    def mass(self) -> str:
        """What the parts say, each once."""
        return ", ".join(dict.fromkeys(part.mass for part in self.parts))

    @property
    def n_colours(self) -> int:
        return max(part.n_colours for part in self.parts)

    def colour(self) -> RowsCode:
        return reduce(jnp.maximum, (part.colour() for part in self.parts))

    def start(self, mean: Rows) -> Rows:
        """Each part's start on its own slots; a sum of differences could be rounded to a point outside."""
        starts = (part.start(mean) for part in self.parts)
        return reduce(lambda x, start: jnp.where(start == mean, x, start), starts, mean)

    def bounds(self, x: Rows) -> Bounds:
        """The narrowest of the parts' intervals; all but one are the whole line."""
        lower, upper = zip(*(part.bounds(x) for part in self.parts), strict=True)
        return Bounds(reduce(jnp.maximum, lower), reduce(jnp.minimum, upper))

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """Each part draws its own slots; parts share no slots, so their order does not matter."""
        fresh = x
        for number, part in enumerate(self.parts):
            fresh = jnp.where(part.held, part.draw(jax.random.fold_in(key, number), x, mean), fresh)
        return fresh

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        return reduce(jnp.add, (part.log_mass(mean, deviation) for part in self.parts))

    def log_mass_error(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """Estimates of different parts are independent: their variances add."""
        return reduce(jnp.hypot, (part.log_mass_error(mean, deviation) for part in self.parts))

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        return reduce(jnp.add, (part.mass_of_masked(mean, deviation, masked, whole) for part in self.parts))

    def take_boxes(self, box: Any) -> tuple[JointRegion, Any]:
        return self, box

    def smooth(self) -> JointRegion:
        return JointRegion(tuple(part.smooth() for part in self.parts))

    def mean(self, mean: Rows) -> Rows:
        return reduce(lambda x, part: x + (part.mean(mean) - mean), self.parts, mean)

    def release(self, slots: RowsMask) -> JointRegion:
        return JointRegion(tuple(part.release(slots) for part in self.parts))

    def stretch(self, by: Float[Array, ""]) -> JointRegion:
        return JointRegion(tuple(part.stretch(by) for part in self.parts))

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        return reduce(jnp.logical_and, (part.contains(x) for part in self.parts))

    def as_linear(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The parts' triples, one below the other."""
        matrices, lower, upper = zip(*(part.as_linear(row) for part in self.parts), strict=True)
        return np.vstack(matrices), np.concatenate(lower), np.concatenate(upper)

    def describe(self, row: int, names: Sequence[str], in_units: InUnits = no_units) -> tuple[str, ...]:
        return tuple(words for part in self.parts for words in part.describe(row, names, in_units))
