"""§3, Eq. (5) in general: any inequalities b ≤ A x ≤ c between slots, where no special form applies.

Idea: each row keeps only the slots that its lines name, as a small dense matrix over `member` slots, with the boxes
of those slots. Bounds given the others are exact (§4.2); the mass is by separation of variables (§4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows, RowsCode, RowsMask
from thurbo.latent import truncnorm
from thurbo.latent.constraints.base import (
    Bounds,
    Gauge,
    Region,
    Structure,
    log_mass_by_state,
)
from thurbo.latent.constraints.box import BoxRegion
from thurbo.latent.masses import separation
from thurbo.latent.masses.separation import System, interior

Members = Float[Array, "row member"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["matrix", "lower", "upper", "slots", "anchor", "colours"],
    meta_fields=["n_slots", "n_colours"],
)
@dataclass(frozen=True)
class Linear:
    """Lines b ≤ A z ≤ c of every row, in the units of the observation: z = scale · x for a measured site.

    matrix   [row, line, member]; a line of zeros with infinite ends says nothing
    slots    which slot each member is, [row, member]; −1 for padding
    anchor   a point inside, by linear programming: [row, member]
    colours  members of one colour share no line: [row, member]
    """

    matrix: Any
    lower: Any
    upper: Any
    slots: Any
    anchor: Any
    colours: Any
    n_slots: int
    n_colours: int

    @property
    def structure(self) -> Structure:
        return Structure(couples=True, spans_cells=True, is_estimated=True)

    @classmethod
    def of(cls, systems: Sequence[Any], n_slots: int, dtype: Any = np.float32) -> Linear:
        """One ⟨A, b, c⟩ per row, A dense or sparse [line, slot], or a `System`; None says nothing. On the host.

        Only the slots that a row's lines name are kept; sizes are padded to powers of two, so that few programs are
        compiled. Raises ValueError where no point satisfies a row.
        """
        rows = [_system(each) for each in systems]
        members = [np.flatnonzero((each.matrix != 0).any(axis=0)) for each in rows]
        n_lines = _padded(max((len(each.lower) for each in rows), default=1))
        n_members = _padded(max(map(len, members), default=1))
        matrix = np.zeros((len(rows), n_lines, n_members))
        lower, upper = np.full((len(rows), n_lines), -np.inf), np.full((len(rows), n_lines), np.inf)
        slots = np.full((len(rows), n_members), -1, np.int32)
        anchor, colours = np.zeros((len(rows), n_members)), np.zeros((len(rows), n_members), np.int32)
        for row, (system, held) in enumerate(zip(rows, members, strict=True)):
            n, m = len(system.lower), len(held)
            matrix[row, :n, :m] = system.matrix[:, held]
            lower[row, :n], upper[row, :n], slots[row, :m] = system.lower, system.upper, held
            colours[row, :m] = greedy_colours(matrix[row, :n, :m])
            point = system.inside if system.inside is not None else interior(system)
            if point is None:
                raise ValueError(f"no point satisfies all inequalities of row {row}")
            anchor[row, :m] = point[held]
        as_float = lambda value: jnp.asarray(value, dtype)  # noqa: E731
        return cls(
            as_float(matrix),
            as_float(lower),
            as_float(upper),
            jnp.asarray(slots),
            as_float(anchor),
            jnp.asarray(colours),
            n_slots,
            int(colours.max(initial=0)) + 1,
        )

    @property
    def observed(self) -> RowsMask:
        return _scatter(self, (self.matrix != 0).any(axis=1), False)

    @property
    def held(self) -> RowsMask:
        """Slots whose boxes this constraint takes over: all its members."""
        return _scatter(self, self.slots >= 0, False)

    def region(self, gauge: Gauge) -> LinearRegion:
        """The lines in latent units; `take_boxes` adds the boxes of the members."""
        scale = _gather(self, jnp.broadcast_to(gauge.scale, (self.slots.shape[0], self.n_slots)))
        open_end = jnp.full(self.slots.shape, jnp.inf, self.matrix.dtype)
        return LinearRegion(
            self.matrix * scale[:, None, :],
            self.lower,
            self.upper,
            self.slots,
            -open_end,
            open_end,
            jnp.zeros(self.slots.shape, bool),
            jnp.zeros_like(open_end),
            self.anchor / scale,
            self.colours,
            self.n_slots,
            self.n_colours,
        )

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        return log_mass_by_state(self.region(gauge), means)

    def embed(self, slots: np.ndarray, n_slots: int) -> Linear:
        own = np.asarray(self.slots)
        where: Any = np.where(own >= 0, np.asarray(slots)[np.maximum(own, 0)], -1).astype(own.dtype)
        return replace(self, slots=where, n_slots=n_slots)

    def release(self, slots: RowsMask) -> Linear:
        """Without the lines that name any of these slots."""
        gone = _touched(self, slots)
        return replace(self, **_silenced(self, gone))


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "matrix",
        "lower",
        "upper",
        "slots",
        "box_lower",
        "box_upper",
        "point",
        "log_scale",
        "anchor",
        "colours",
    ],
    meta_fields=["n_slots", "colour_count"],
)
@dataclass(frozen=True)
class LinearRegion(Region):
    """Ω(e) = {x : b ≤ A x ≤ c} ∩ boxes, over each row's members."""

    matrix: Any
    lower: Any
    upper: Any
    slots: Any
    box_lower: Any
    box_upper: Any
    point: Any
    log_scale: Any
    anchor: Any
    colours: Any
    n_slots: int
    colour_count: int

    @property
    def n_colours(self) -> int:
        return self.colour_count

    @property
    def held(self) -> RowsMask:
        """Slots of this region."""
        return _scatter(self, self.slots >= 0, False)

    @property
    def mass(self) -> str:
        """How P(e | h) is found."""
        return "separation of variables"

    def take_boxes(self, box: BoxRegion) -> tuple[LinearRegion, BoxRegion]:
        """The same lines with the boxes and points of the members, and the boxes of all other slots."""
        own = replace(
            self,
            box_lower=_gather(self, box.lower, -jnp.inf),
            box_upper=_gather(self, box.upper, jnp.inf),
            point=_gather(self, box.point, False),
            log_scale=_gather(self, box.log_scale),
        )
        return own, box.release(own.held)

    def colour(self) -> RowsCode:
        return _scatter(self, self.colours, 0)

    def bounds(self, x: Rows) -> Bounds:
        """Each member's own box, narrowed by every line that names it, all other members where they are."""
        lower, upper = self._intervals(_gather(self, x))
        return Bounds(_scatter(self, lower, -jnp.inf), _scatter(self, upper, jnp.inf))

    def _intervals(self, x: Members) -> tuple[Members, Members]:
        total = self.matrix @ x[:, :, None]
        rest = total - self.matrix * x[:, None, :]
        named = self.matrix != 0
        slope = jnp.where(named, self.matrix, 1.0)
        ends = [(bound[:, :, None] - rest) / slope for bound in (self.lower, self.upper)]
        low = jnp.where(named, jnp.where(slope > 0, ends[0], ends[1]), -jnp.inf).max(axis=1)
        high = jnp.where(named, jnp.where(slope > 0, ends[1], ends[0]), jnp.inf).min(axis=1)
        low, high = jnp.maximum(low, self.box_lower), jnp.minimum(high, self.box_upper)
        # Sums are rounded: the current x is inside, even if a rounded bound excludes it.
        low, high = jnp.minimum(low, jnp.maximum(x, self.box_lower)), jnp.maximum(high, jnp.minimum(x, self.box_upper))
        return jnp.where(self.point, self.box_lower, low), jnp.where(self.point, self.box_lower, high)

    def start(self, mean: Rows) -> Rows:
        """The point of largest weight that separation of variables draws inside Ω; the anchor where there is none."""
        near = _gather(self, mean)
        triangle, lower, upper = self._standard(near, None)
        draws = separation.separate(triangle, lower, upper, n_shifts=1)
        best = draws.log_weight.argmax(axis=-1)
        y = jnp.take_along_axis(draws.y, best[:, None, None], axis=1)[:, 0]
        x = near + jnp.einsum("rk,rkd->rd", y, triangle.basis)
        x = jnp.clip(x, self.box_lower, self.box_upper)
        inside = self._satisfied(x) & (draws.log_weight.max(axis=-1) > -jnp.inf)
        anchor = jnp.clip(self.anchor, self.box_lower, self.box_upper)
        x = jnp.where(inside[:, None], x, anchor)
        return jnp.where(self.held, _scatter(self, x, 0.0), mean)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """One sweep by colours, then one step along a random direction: both leave N(mean, I) on Ω invariant.

        In a narrow corner single variables can hardly move; along a direction they move together.
        """
        here, centre = _gather(self, x), _gather(self, mean)
        key_colours, key_direction, key_length = jax.random.split(key, 3)
        for colour in range(self.n_colours):
            fresh = truncnorm.sample(jax.random.fold_in(key_colours, colour), centre, *self._intervals(here))
            here = jnp.where(self.colours == colour, fresh, here)
        here = self._along(key_direction, key_length, here, centre)
        return jnp.where(self.held, _scatter(self, here, 0.0), x)

    def _along(self, key: PRNGKey, key_length: PRNGKey, x: Members, mean: Members) -> Members:
        """x + t d, d uniform on the sphere and t a truncated normal: Gibbs along d."""
        moves = (self.slots >= 0) & ~self.point
        d = jnp.where(moves, jax.random.normal(key, x.shape, x.dtype), 0.0)
        d = d / jnp.sqrt(jnp.maximum((d**2).sum(-1, keepdims=True), 1e-12))
        lines = jnp.concatenate([self.matrix, jnp.broadcast_to(jnp.eye(x.shape[1], dtype=x.dtype), (
            x.shape[0], x.shape[1], x.shape[1]))], axis=1)  # fmt: skip
        lower = jnp.concatenate([self.lower, self.box_lower], axis=1)
        upper = jnp.concatenate([self.upper, self.box_upper], axis=1)
        slope, value = (lines @ d[:, :, None])[:, :, 0], (lines @ x[:, :, None])[:, :, 0]
        bends = jnp.abs(slope) > 1e-12
        safe = jnp.where(bends, slope, 1.0)
        ends = (lower - value) / safe, (upper - value) / safe
        low = jnp.where(bends, jnp.where(safe > 0, ends[0], ends[1]), -jnp.inf).max(-1)
        high = jnp.where(bends, jnp.where(safe > 0, ends[1], ends[0]), jnp.inf).min(-1)
        pull = ((mean - x) * d).sum(-1)
        t = truncnorm.sample(key_length, pull, jnp.minimum(low, 0.0), jnp.maximum(high, 0.0))
        moved = jnp.where(moves, x + t[:, None] * d, x)
        moved = jnp.where(self.point, x, jnp.clip(moved, self.box_lower, self.box_upper))
        return jnp.where(self._satisfied(moved)[:, None], moved, x)

    def _standard(self, mean: Members, deviation: Members | None) -> tuple[separation.Triangle, Array, Array]:
        """Boxes and lines as one triangular system on u = (x − mean) / deviation; points inserted as constants."""
        spread = jnp.ones_like(mean) if deviation is None else deviation
        value = jnp.where(self.point, self.box_lower, 0.0)
        free = jnp.where(self.point, 0.0, jnp.ones_like(mean))
        boxed = (jnp.isfinite(self.box_lower) | jnp.isfinite(self.box_upper)) & ~self.point
        unit = jnp.eye(mean.shape[1], dtype=mean.dtype)[None] * jnp.where(boxed, spread, 0.0)[:, :, None]
        lines = self.matrix * (free * spread)[:, None, :]
        fixed = (self.matrix * jnp.where(self.point, value, mean)[:, None, :]).sum(-1)
        box_lower = jnp.where(boxed, self.box_lower - mean, -jnp.inf)
        box_upper = jnp.where(boxed, self.box_upper - mean, jnp.inf)
        lower = jnp.concatenate([box_lower, self.lower - fixed], axis=1)
        upper = jnp.concatenate([box_upper, self.upper - fixed], axis=1)
        return separation.triangular(jnp.concatenate([unit, lines], axis=1), lower, upper), lower, upper

    def _points(self, mean: Members, deviation: Members | None) -> PerRow:
        """log φ of the members that are points."""
        spread = jnp.ones_like(mean) if deviation is None else deviation
        value = jnp.where(self.point, self.box_lower, 0.0)
        density = truncnorm.log_density(mean / spread, value / spread) - jnp.log(spread) - self.log_scale
        return jnp.where(self.point, density, 0.0).sum(-1)

    def _separated(self, mean: Array, deviation: Rows | None) -> tuple[separation.WeightedPoints, PerRow]:
        shape = (self.slots.shape[0], self.n_slots)
        near = _gather(self, jnp.broadcast_to(mean, shape))
        spread = None if deviation is None else _gather(self, jnp.broadcast_to(deviation, shape), 1.0)
        return separation.separate(*self._standard(near, spread)), self._points(near, spread)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(b ≤ A x ≤ c and the boxes | h), §4.4, by separation of variables on fixed points."""
        draws, density = self._separated(mean, deviation)
        return separation.log_mean(draws) + density

    def log_mass_error(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """Standard error of `log_mass`, in nats."""
        return separation.log_mean_error(self._separated(mean, deviation)[0])

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        """A line may tie a masked cell to others: whole cells need the difference of two masses, too."""
        return super().mass_of_masked(mean, deviation, masked)

    def mean(self, mean: Rows) -> Rows:
        """E[x | x ∈ Ω] for x ~ N(mean, I), by the weighted draws that give the mass; the mean itself elsewhere."""
        near = _gather(self, mean)
        triangle, lower, upper = self._standard(near, None)
        shift = jnp.einsum("rk,rkd->rd", separation.centre(separation.separate(triangle, lower, upper)), triangle.basis)
        x = jnp.where(self.point, self.box_lower, near + shift)
        return jnp.where(self.held, _scatter(self, x, 0.0), mean)

    def release(self, slots: RowsMask) -> LinearRegion:
        gone = _touched(self, slots)
        own = _gather(self, slots, False)
        return replace(
            self,
            **_silenced(self, gone),
            box_lower=jnp.where(own, -jnp.inf, self.box_lower),
            box_upper=jnp.where(own, jnp.inf, self.box_upper),
            point=self.point & ~own,
        )

    def stretch(self, by: Array) -> LinearRegion:
        """The region of x · by, for a positive number: what a temperature does to bounds."""
        scaled = {name: getattr(self, name) * by for name in ("lower", "upper", "box_lower", "box_upper", "anchor")}
        return replace(self, **scaled)

    def _satisfied(self, x: Members) -> Bool[Array, " row"]:
        value, size = (self.matrix * x[:, None, :]).sum(-1), jnp.abs(self.matrix * x[:, None, :]).sum(-1)
        slack = 16.0 * jnp.finfo(x.dtype).eps * (1.0 + size)
        lines = (self.lower - slack <= value) & (value <= self.upper + slack)
        return lines.all(-1) & ((self.box_lower <= x) & (x <= self.box_upper)).all(-1)

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        """Whether each row's x satisfies its lines, up to rounding, and its boxes."""
        return self._satisfied(_gather(self, x))

    def as_linear(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """⟨A, b, c⟩ over all slots: the boxes of the members, then the lines."""
        slots, matrix = np.asarray(self.slots[row]), np.asarray(self.matrix[row])
        low, high = np.asarray(self.box_lower[row]), np.asarray(self.box_upper[row])
        boxed = np.flatnonzero((slots >= 0) & (np.isfinite(low) | np.isfinite(high)))
        informative = np.flatnonzero((matrix != 0).any(axis=1))
        A = np.zeros((len(boxed) + len(informative), self.n_slots))
        A[np.arange(len(boxed)), slots[boxed]] = 1.0
        real = slots >= 0
        A[len(boxed) :, slots[real]] = matrix[informative][:, real]
        lower, upper = np.asarray(self.lower[row])[informative], np.asarray(self.upper[row])[informative]
        return A, np.concatenate([low[boxed], lower]), np.concatenate([high[boxed], upper])


def greedy_colours(matrix: np.ndarray) -> np.ndarray:
    """Greedy colouring, members with most neighbours first: two that share a line get different colours."""
    named = matrix != 0
    meets = named.T.astype(int) @ named.astype(int) > 0
    colours = np.full(matrix.shape[1], -1, np.int32)
    for member in np.argsort(-meets.sum(axis=0), kind="stable"):
        taken = set(colours[meets[member] & (np.arange(len(colours)) != member)].tolist())
        colours[member] = next(colour for colour in range(len(colours) + 1) if colour not in taken)
    return colours


def _system(value: Any) -> System:
    if isinstance(value, System):
        return value
    if value is None:
        return System(np.zeros((0, 1)), np.zeros(0), np.zeros(0))
    A, b, c = value
    A = np.asarray(A.todense() if hasattr(A, "todense") else A, np.float64)
    ends = [np.broadcast_to(np.asarray(end, np.float64), A.shape[:1]) for end in (b, c)]
    return System(A, *ends)


def _padded(n: int) -> int:
    return max(2, 1 << (max(n, 1) - 1).bit_length())


def _gather(held: Linear | LinearRegion, values: Array, elsewhere: Any = 0.0) -> Array:
    """`[row, slot]` → `[row, member]`; `elsewhere` for padding."""
    found = jnp.take_along_axis(values, jnp.maximum(held.slots, 0), axis=1)
    return jnp.where(held.slots >= 0, found, jnp.asarray(elsewhere, values.dtype))


def _scatter(held: Linear | LinearRegion, values: Array, elsewhere: Any) -> Array:
    """`[row, member]` → `[row, slot]`; `elsewhere` where the row has no such member."""
    n_rows = values.shape[0]
    out = jnp.full((n_rows, held.n_slots + 1), elsewhere, values.dtype)
    place = jnp.where(held.slots >= 0, held.slots, held.n_slots)
    return out.at[jnp.arange(n_rows)[:, None], place].set(values)[:, :-1]


def _touched(held: Linear | LinearRegion, slots: RowsMask) -> Bool[Array, "row line"]:
    own = _gather(held, slots, False)
    return ((held.matrix != 0) & own[:, None, :]).any(-1)


def _silenced(held: Linear | LinearRegion, lines: Bool[Array, "row line"]) -> dict[str, Any]:
    return {
        "matrix": jnp.where(lines[:, :, None], jnp.zeros_like(held.matrix), held.matrix),
        "lower": jnp.where(lines, -jnp.inf, held.lower),
        "upper": jnp.where(lines, jnp.inf, held.upper),
    }
