"""§3 The contract of a constraint: where may each latent variable be, given all the others?

A `Constraint` is data, in the units it was observed in. Together with the learned `Gauge` it becomes a `Region` of
x-space, once per parameter update, so that no inner loop ever looks at cuts or scales again.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsCode, RowsMask
from thurbo.normal import truncnorm


class Gauge(NamedTuple):
    """How x is read at each site: the learnable numbers that stand between an observation and its inequality.

    cuts   θ, increasing along the last axis, +∞ beyond the last cut of a site: Eqs (6), (7)
    scale  x = z / scale for a measured z in standard units; 1 for level sites
    """

    cuts: Float[Array, "*site cut"]
    scale: Float[Array, "*site"]

    def at(self, slots: np.ndarray) -> Gauge:
        """That of some slots, gathered by row or not."""
        return Gauge(jnp.take(self.cuts, slots, axis=-2), jnp.take(self.scale, slots, axis=-1))


class Bounds(NamedTuple):
    """The interval of every slot given all the others, §4.2."""

    lower: Rows
    upper: Rows


@runtime_checkable
class Region(Protocol):
    """One factor of the domain Ω(e) = {x : b ≤ Ax ≤ c}, Eq. (5), in latent units."""

    @property
    def held(self) -> RowsMask:
        """Slots that are this region's to draw; a box holds every slot that nothing else does."""

    @property
    def mass(self) -> str:
        """How `log_mass` is found: "exact", "gumbel" (A.3) or "separation of variables" (with a standard error)."""

    @property
    def n_colours(self) -> int:
        """How many half-sweeps one Gibbs sweep takes; slots of one colour may be drawn at the same time."""

    def colour(self) -> RowsCode:
        """Colour of every slot, from 0; 0 where the region says nothing."""

    def start(self, mean: Rows) -> Rows:
        """A point inside the region, near the mean; the mean itself where the region says nothing."""

    def bounds(self, x: Rows) -> Bounds:
        """Interval of every slot given all the others, §4.2; lower = upper where a point fixes x."""

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """One step that leaves N(mean, I) on Ω as it is; only what is `held` counts."""

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h), §4.4, for x ~ N(mean, deviation²), unit deviation by default; a point adds log φ."""

    def mean(self, mean: Rows) -> Rows:
        """E[x | x ∈ Ω] for x ~ N(mean, I): mean + ∂ log_mass / ∂ mean."""

    def release(self, slots: RowsMask) -> Region:
        """The same region, saying nothing about `slots`."""

    def stretch(self, by: Float[Array, ""]) -> Region:
        """The region of `by` · x: at temperature T, x / √T is a unit normal in the region stretched by 1 / √T."""

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        """Whether each row's x satisfies its inequalities."""

    def as_linear(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The paper's triple ⟨A, b, c⟩ of one row, on the host: the oracle of every test."""


@runtime_checkable
class Constraint(Protocol):
    """What a batch of rows says, in the units it was observed in."""

    @property
    def observed(self) -> RowsMask:
        """Slots about which the row says anything."""

    def region(self, gauge: Gauge) -> Region:
        """The inequalities on x under the current cuts and scales (already gathered by slot)."""

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """log P(e | h) of every row for every one of many means, where all rows share their sites."""

    def release(self, slots: RowsMask) -> Constraint:
        """The same constraint, saying nothing about `slots`."""


def sweep_colours(region: Region, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
    """x ~ P(x | h, e), one truncated normal per slot and colour (§4.2)."""
    own = region.colour()
    for colour in range(region.n_colours):
        fresh = truncnorm.sample(jax.random.fold_in(key, colour), mean, *region.bounds(x))
        x = jnp.where(own == colour, fresh, x)
    return x
