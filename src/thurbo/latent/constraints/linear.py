"""§3, Eq. (5) in general: any inequalities b ≤ A x ≤ c between slots, where no special form applies.

Idea: each row keeps only the slots that its lines name, as a small dense matrix over `member` slots, with the boxes of
those slots. Bounds given the others are exact (§4.2). The mass is by separation of variables (§4.4): unbiased, smooth,
with a standard error. For u ~ N(0, I), rotate so that A = L Q with L lower triangular: line m then says where its last
y = Q u may be, given those before (Genz 1992). On the host, `interior` gives the point with the largest margin, where
sampling starts; `conflict` an irreducible set of lines of which no point satisfies all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, Int, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent import truncnorm
from thurbo.latent.constraints.base import Bounds, Constraint, Gauge, Region, Structure, Triple, pytree
from thurbo.latent.constraints.box import BoxRegion

N_SHIFTS = 8  # independent shifts of one lattice: their spread is the standard error
POINTS_PER_SHIFT = 64
MARGIN = 1e-6  # relative to the length of a line: a thinner region counts as empty

Members = Float[Array, "row member"]
Lines = Float[Array, "row line"]
Matrix = Float[Array, "row line member"]


class System(NamedTuple):
    """b ≤ A x ≤ c of one row, [line, slot]; `inside` a point known to satisfy it."""

    matrix: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    inside: np.ndarray | None = None


def interior(system: System) -> np.ndarray | None:
    """A point with room on all sides, [slot]; None where there is none."""
    A, lower, upper, _ = system
    point, length = np.zeros(A.shape[1]), np.sqrt((A**2).sum(axis=1))
    says = length > 0  # other lines are 0 · x, between numbers that hold 0 or not
    if (lower > upper).any() or ((lower > 0) | (upper < 0))[~says].any():
        return None
    if not says.any():
        return point
    used = np.flatnonzero((A != 0).any(axis=0))
    A, lower, upper, length = (each[says] for each in (A, lower, upper, length))
    A = A[:, used] / length[:, None]
    lower, upper = lower / length, upper / length
    # Most systems need no program: least squares give a point that meets every line half a unit inside.
    room = np.minimum((upper - lower) / 2, 0.5)
    target = np.where(np.isfinite(lower), lower + room, np.where(np.isfinite(upper), upper - room, 0.0))
    found, *_ = np.linalg.lstsq(A, target, rcond=None)
    value, least = A @ found, np.minimum(room, 1e-3)
    if not ((value >= lower + least) & (value <= upper - least) & (least > MARGIN)).all():
        found = _program(A, lower, upper)
    if found is None:
        return None
    point[used] = found
    return point


def _program(A: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray | None:
    """max t with lower + t ≤ A x ≤ upper − t and t ≤ 1."""
    from scipy.optimize import linprog

    below, above = np.isfinite(lower), np.isfinite(upper)
    lines = np.vstack([-A[below], A[above]])
    ends = np.concatenate([-lower[below], upper[above]])
    lines = np.hstack([lines, np.ones((len(lines), 1))])
    goal = np.r_[np.zeros(A.shape[1]), -1.0]
    bounds = [(None, None)] * A.shape[1] + [(None, 1.0)]
    result = linprog(goal, A_ub=lines, b_ub=ends, bounds=bounds, method="highs")
    return result.x[:-1] if result.status == 0 and result.x[-1] > MARGIN else None


def conflict(system: System) -> list[int]:
    """Lines that contradict each other, none of them superfluous: dropping any one leaves room (a deletion filter)."""
    kept = list(range(len(system.lower)))
    for line in range(len(system.lower)):
        rest = [each for each in kept if each != line]
        if interior(System(system.matrix[rest], system.lower[rest], system.upper[rest])) is None:
            kept = rest
    return kept


class WeightedPoints(NamedTuple):
    """Points u = y · basis of Ω with their weights: mean weight = mass."""

    log_weight: Float[Array, "row point"]  # −∞ where a line could not be kept
    y: Float[Array, "row point rank"]
    middle: Float[Array, "row point rank"]  # what y was expected to be, given those before
    so_far: Float[Array, "row point rank"]  # the weight when it was drawn
    basis: Float[Array, "row rank member"]


@cache
def lattice(n_dimensions: int) -> np.ndarray:
    """[shift · point, dimension] in (0, 1): a Richtmyer lattice, shifted at random and folded (baker's transform)."""
    primes = [2]
    while len(primes) < n_dimensions:
        primes.append(next(n for n in range(primes[-1] + 1, 2 * primes[-1] + 1) if all(n % p for p in primes)))
    steps = np.arange(1, POINTS_PER_SHIFT + 1)[:, None] * np.sqrt(primes)[None, :]
    shifts = np.random.default_rng(20).random((N_SHIFTS, 1, n_dimensions))
    points = np.abs(2.0 * ((steps[None] + shifts) % 1.0) - 1.0)
    return points.reshape(-1, n_dimensions).clip(1e-6, 1.0 - 1e-6)


def triangular(matrix: Matrix, lower: Lines, upper: Lines) -> tuple[Array, Array, Int[Array, "row line"]]:
    """A as [row, line, rank] times [row, rank, member], with orthonormal rows (or zero); and the last variable that
    each line moves, −1 for a line of zeros.

    Gram–Schmidt over the lines, next always the one that is least likely to hold, those before at their means: that
    order of variables (Genz and Bretz 2009) keeps the weights of the draws even.
    """
    n_rows, n_lines, rank = matrix.shape
    dtype = matrix.dtype
    tolerance = 1e-4 if dtype == jnp.float32 else 1e-8
    size = jnp.sqrt(jnp.maximum((matrix**2).sum(-1), jnp.finfo(dtype).tiny))

    def add(carry: tuple, number: Array) -> tuple[tuple, tuple]:
        rest, moved = carry
        square = (rest**2).sum(-1)
        is_new = (square > (tolerance * size) ** 2) & (square > jnp.finfo(dtype).tiny * 1e4)
        norm = jnp.sqrt(jnp.where(is_new, square, 1.0))
        low, high = (lower - moved) / norm, (upper - moved) / norm
        is_open = low < high
        low, high = jnp.where(is_open, low, -jnp.inf), jnp.where(is_open, high, jnp.inf)
        chance = truncnorm.log_mass(jnp.zeros_like(low), low, high)
        chosen = jnp.where(is_new, jnp.where(is_open, chance, 0.0), jnp.inf).argmin(-1)[:, None]
        pick = lambda value: jnp.take_along_axis(value, chosen, axis=1)[:, 0]  # noqa: E731
        direction = jnp.take_along_axis(rest, chosen[:, :, None], axis=1)[:, 0] / pick(norm)[:, None]
        direction = jnp.where(pick(is_new)[:, None], direction, 0.0)
        column = jnp.einsum("rld,rd->rl", rest, direction)
        expected = truncnorm.mean(jnp.zeros(n_rows, dtype), pick(low), pick(high))
        moved = moved + jax.lax.stop_gradient(column * expected[:, None])
        rest = rest - column[:, :, None] * direction[:, None, :]
        rest = rest - jnp.einsum("rld,rd->rl", rest, direction)[:, :, None] * direction[:, None, :]  # for the rounding
        last = jnp.where(jnp.abs(column) > tolerance * size, number, jnp.full_like(number, -1))
        return (rest, moved), (direction, column, last)

    start = matrix, jnp.zeros((n_rows, n_lines), dtype)
    _, (basis, factor, last) = jax.lax.scan(add, start, jnp.arange(rank, dtype=jnp.int32))
    return jnp.moveaxis(factor, 0, 2), jnp.swapaxes(basis, 0, 1), last.max(axis=0)


def separate(matrix: Matrix, lower: Lines, upper: Lines, n_shifts: int = N_SHIFTS) -> WeightedPoints:
    """Draw y = Q u variable by variable inside lower ≤ A u ≤ upper, with the mass of every interval."""
    (n_rows, n_lines, rank), dtype = matrix.shape, matrix.dtype
    factor, basis, last = triangular(matrix, lower, upper)
    points = jnp.asarray(lattice(rank)[: n_shifts * POINTS_PER_SHIFT], dtype)

    def one(carry: tuple, item: tuple) -> tuple[tuple, tuple[Array, ...]]:
        moved, log_weight = carry
        column, number, share = item
        binds = (last == number)[:, None, :]
        low, high = tightest(lower[:, None, :] - moved, upper[:, None, :] - moved, column[:, None, :], binds, -1)
        is_open = low < high
        low, high = jnp.where(is_open, low, -jnp.inf), jnp.where(is_open, high, jnp.inf)
        zero = jnp.zeros_like(low)
        mass = truncnorm.log_mass(zero, low, high)
        y = truncnorm.quantile(jnp.broadcast_to(share[None, :], low.shape), zero, low, high)
        log_weight = jnp.where(is_open, log_weight + mass, -jnp.inf)
        drawn = y, truncnorm.mean(zero, low, high), log_weight
        return (moved + column[:, None, :] * y[:, :, None], log_weight), drawn

    n_points = points.shape[0]
    start = jnp.zeros((n_rows, n_points, n_lines), dtype), jnp.zeros((n_rows, n_points), dtype)
    items = jnp.moveaxis(factor, 2, 0), jnp.arange(rank, dtype=jnp.int32), points.T
    (_, log_weight), drawn = jax.lax.scan(jax.checkpoint(one), start, items)
    y, middle, so_far = (jnp.moveaxis(each, 0, 2) for each in drawn)
    return WeightedPoints(log_weight, y, middle, so_far, basis)


def tightest(lower: Array, upper: Array, slope: Array, binds: Array, axis: int) -> tuple[Array, Array]:
    """The y for which lower ≤ slope · y ≤ upper along an axis wherever it binds, as one interval."""
    slope = jnp.where(binds, slope, 1.0)

    def over(bound: Array) -> Array:
        """bound / slope, without a gradient of 0 · ∞ at infinite bounds."""
        finite = jnp.isfinite(bound)
        return jnp.where(finite, jnp.where(finite, bound, 0.0) / slope, bound * jnp.sign(slope))

    first, second = over(lower), over(upper)
    low, high = jnp.where(slope > 0.0, first, second), jnp.where(slope > 0.0, second, first)
    return jnp.where(binds, low, -jnp.inf).max(axis), jnp.where(binds, high, jnp.inf).min(axis)


def log_mean(draws: WeightedPoints) -> Float[Array, " row"]:
    """log of the mean weight; a row of which no point was found inside has −∞ and no gradient."""
    top = jax.lax.stop_gradient(draws.log_weight.max(-1))
    found = jnp.isfinite(top)
    safe = jnp.where(found, top, 0.0)
    total = jnp.exp(draws.log_weight - safe[:, None]).mean(-1)
    return jnp.where(found, safe + jnp.log(jnp.where(found, total, 1.0)), -jnp.inf)


def centre(draws: WeightedPoints) -> Float[Array, "row member"]:
    """E[u | u ∈ Ω], by the draws' weights; 0 for a row of which no point was found inside.

    What a draw misses of its own expectation has mean 0 under the weights so far: taken off, a variable that moves no
    later interval is exact. It is continuous in the bounds and can be differentiated; the slope of `log_mean` jumps
    from one binding line to the next, and cannot.
    """
    found = jnp.isfinite(draws.log_weight).any(-1)[:, None]
    final = jax.nn.softmax(jnp.where(found, draws.log_weight, 0.0), axis=1)[:, :, None]
    so_far = jax.nn.softmax(jnp.where(found[:, :, None], draws.so_far, 0.0), axis=1)
    y = (final * draws.y).sum(axis=1) - (so_far * (draws.y - draws.middle)).sum(axis=1)
    return jnp.einsum("rk,rkd->rd", jnp.where(found, y, 0.0), draws.basis)


def log_mean_error(draws: WeightedPoints) -> Float[Array, " row"]:
    """Standard error of `log_mean`, from the spread over shifts."""
    top = draws.log_weight.max(-1, keepdims=True)
    weight = jnp.exp(draws.log_weight - jnp.where(jnp.isfinite(top), top, 0.0))
    by_shift = weight.reshape(weight.shape[0], N_SHIFTS, POINTS_PER_SHIFT).mean(-1)
    spread = by_shift.std(-1) / jnp.sqrt(jnp.asarray(N_SHIFTS - 1, weight.dtype))
    return spread / jnp.maximum(by_shift.mean(-1), jnp.finfo(weight.dtype).tiny)


@pytree("matrix", "lower", "upper", "slots", "anchor", "colours")
class Linear(Constraint):
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

        Sizes are padded to powers of two: few programs. Raises ValueError where no point satisfies a row.
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
        lines = jnp.asarray(matrix, dtype), jnp.asarray(lower, dtype), jnp.asarray(upper, dtype)
        where = jnp.asarray(slots), jnp.asarray(anchor, dtype), jnp.asarray(colours)
        return cls(*lines, *where, n_slots, int(colours.max(initial=0)) + 1)

    @property
    def observed(self) -> RowsMask:
        return self.scatter((self.matrix != 0).any(axis=1), False)

    @property
    def held(self) -> RowsMask:
        """Slots whose boxes this constraint takes over: all its members."""
        return self.scatter(self.slots >= 0, False)

    def gather(self, values: Array, elsewhere: Any = 0.0) -> Array:
        """`[row, slot]` → `[row, member]`; `elsewhere` for padding."""
        found = jnp.take_along_axis(values, jnp.maximum(self.slots, 0), axis=1)
        return jnp.where(self.slots >= 0, found, jnp.asarray(elsewhere, values.dtype))

    def scatter(self, values: Array, elsewhere: Any) -> Array:
        """`[row, member]` → `[row, slot]`; `elsewhere` where the row has no such member."""
        n_rows = values.shape[0]
        out = jnp.full((n_rows, self.n_slots + 1), elsewhere, values.dtype)
        place = jnp.where(self.slots >= 0, self.slots, self.n_slots)
        return out.at[jnp.arange(n_rows)[:, None], place].set(values)[:, :-1]

    def region(self, gauge: Gauge) -> LinearRegion:
        """The lines in latent units; `take_boxes` adds the boxes of the members."""
        scale = self.gather(jnp.broadcast_to(gauge.scale, (self.slots.shape[0], self.n_slots)))
        free = jnp.full(self.slots.shape, jnp.inf, self.matrix.dtype)
        lines = replace(self, matrix=self.matrix * scale[:, None, :], anchor=self.anchor / scale)
        return LinearRegion(lines, BoxRegion(-free, free, jnp.zeros(free.shape, bool), jnp.zeros_like(free)))

    def embed(self, slots: np.ndarray, n_slots: int) -> Linear:
        own = np.asarray(self.slots)
        where: Any = np.where(own >= 0, np.asarray(slots)[np.maximum(own, 0)], -1).astype(own.dtype)
        return replace(self, slots=where, n_slots=n_slots)

    def release(self, slots: RowsMask) -> Linear:
        """Without the lines that name any of these slots."""
        gone = ((self.matrix != 0) & self.gather(slots, False)[:, None, :]).any(-1)
        lower, upper = jnp.where(gone, -jnp.inf, self.lower), jnp.where(gone, jnp.inf, self.upper)
        matrix = jnp.where(gone[:, :, None], jnp.zeros_like(self.matrix), self.matrix)
        return replace(self, matrix=matrix, lower=lower, upper=upper)


@pytree("lines", "box")
class LinearRegion(Region):
    """Ω(e) = {x : b ≤ A x ≤ c} ∩ boxes, over each row's members."""

    lines: Linear
    box: BoxRegion  # [row, member]
    mass = "separation of variables"

    @property
    def held(self) -> RowsMask:
        return self.lines.held

    def take_boxes(self, box: BoxRegion) -> tuple[LinearRegion, BoxRegion]:
        """The same lines with the boxes and points of the members, and the boxes of all other slots."""
        gather = self.lines.gather
        ends = gather(box.lower, -jnp.inf), gather(box.upper, jnp.inf)
        own = BoxRegion(*ends, gather(box.point, False), gather(box.log_scale))
        return replace(self, box=own), box.release(self.held)

    def bounds(self, x: Rows) -> Bounds:
        """Each member's own box, narrowed by every line that names it, all other members where they are."""
        lower, upper = self._intervals(self.lines.gather(x))
        return Bounds(self.lines.scatter(lower, -jnp.inf), self.lines.scatter(upper, jnp.inf))

    def _intervals(self, x: Members) -> tuple[Members, Members]:
        matrix, box = self.lines.matrix, self.box
        rest = matrix @ x[:, :, None] - matrix * x[:, None, :]
        room = self.lines.lower[:, :, None] - rest, self.lines.upper[:, :, None] - rest
        low, high = tightest(*room, matrix, matrix != 0, 1)
        low, high = jnp.maximum(low, box.lower), jnp.minimum(high, box.upper)
        # Sums are rounded: the current x is inside, even if a rounded bound excludes it.
        low, high = jnp.minimum(low, jnp.maximum(x, box.lower)), jnp.maximum(high, jnp.minimum(x, box.upper))
        return jnp.where(box.point, box.lower, low), jnp.where(box.point, box.lower, high)

    def start(self, mean: Rows) -> Rows:
        """The point of largest weight that separation of variables draws inside Ω; the anchor where there is none."""
        near = self.lines.gather(mean)
        draws = self._draws(near, n_shifts=1)
        best = draws.log_weight.argmax(axis=-1)
        y = jnp.take_along_axis(draws.y, best[:, None, None], axis=1)[:, 0]
        x = near + jnp.einsum("rk,rkd->rd", y, draws.basis)
        x = jnp.clip(x, self.box.lower, self.box.upper)
        inside = self._satisfied(x) & (draws.log_weight.max(axis=-1) > -jnp.inf)
        anchor = jnp.clip(self.lines.anchor, self.box.lower, self.box.upper)
        x = jnp.where(inside[:, None], x, anchor)
        return jnp.where(self.held, self.lines.scatter(x, 0.0), mean)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """One sweep by colours, then one step along a random direction: both leave N(mean, I) on Ω invariant.

        In a narrow corner single variables can hardly move; along a direction they move together.
        """
        here, centre = self.lines.gather(x), self.lines.gather(mean)
        key_colours, key_direction, key_length = jax.random.split(key, 3)
        for colour in range(self.lines.n_colours):
            fresh = truncnorm.sample(jax.random.fold_in(key_colours, colour), centre, *self._intervals(here))
            here = jnp.where(self.lines.colours == colour, fresh, here)
        here = self._along(key_direction, key_length, here, centre)
        return jnp.where(self.held, self.lines.scatter(here, 0.0), x)

    def _along(self, key: PRNGKey, key_length: PRNGKey, x: Members, mean: Members) -> Members:
        """x + t d, d uniform on the sphere and t a truncated normal: Gibbs along d."""
        moves = (self.lines.slots >= 0) & ~self.box.point
        d = jnp.where(moves, jax.random.normal(key, x.shape, x.dtype), 0.0)
        d = d / jnp.sqrt(jnp.maximum((d**2).sum(-1, keepdims=True), 1e-12))
        unit = jnp.broadcast_to(jnp.eye(x.shape[1], dtype=x.dtype), (*x.shape, x.shape[1]))
        lines = jnp.concatenate([self.lines.matrix, unit], axis=1)
        lower = jnp.concatenate([self.lines.lower, self.box.lower], axis=1)
        upper = jnp.concatenate([self.lines.upper, self.box.upper], axis=1)
        slope, value = (lines @ d[:, :, None])[:, :, 0], (lines @ x[:, :, None])[:, :, 0]
        low, high = tightest(lower - value, upper - value, slope, jnp.abs(slope) > 1e-12, -1)
        pull = ((mean - x) * d).sum(-1)
        t = truncnorm.sample(key_length, pull, jnp.minimum(low, 0.0), jnp.maximum(high, 0.0))
        moved = jnp.where(moves, x + t[:, None] * d, x)
        moved = jnp.where(self.box.point, x, jnp.clip(moved, self.box.lower, self.box.upper))
        return jnp.where(self._satisfied(moved)[:, None], moved, x)

    def _draws(self, mean: Members, deviation: Members | None = None, **how: int) -> WeightedPoints:
        """Draws of u = (x − mean) / deviation inside boxes and lines, points inserted as constants."""
        matrix, box = self.lines.matrix, self.box
        spread = jnp.ones_like(mean) if deviation is None else deviation
        boxed = (jnp.isfinite(box.lower) | jnp.isfinite(box.upper)) & ~box.point
        unit = jnp.eye(mean.shape[1], dtype=mean.dtype)[None] * jnp.where(boxed, spread, 0.0)[:, :, None]
        lines = matrix * jnp.where(box.point, 0.0, spread)[:, None, :]
        fixed = (matrix * jnp.where(box.point, box.lower, mean)[:, None, :]).sum(-1)
        box_lower, box_upper = jnp.where(boxed, box.lower - mean, -jnp.inf), jnp.where(boxed, box.upper - mean, jnp.inf)
        lower = jnp.concatenate([box_lower, self.lines.lower - fixed], axis=1)
        upper = jnp.concatenate([box_upper, self.lines.upper - fixed], axis=1)
        return separate(jnp.concatenate([unit, lines], axis=1), lower, upper, **how)

    def _of_members(self, mean: Array, deviation: Rows | None) -> tuple[Members, Members | None]:
        shape = (len(self.lines.slots), self.lines.n_slots)
        near = self.lines.gather(jnp.broadcast_to(mean, shape))
        return near, None if deviation is None else self.lines.gather(jnp.broadcast_to(deviation, shape), 1.0)

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(b ≤ A x ≤ c and the boxes | h), §4.4, by separation of variables on fixed points."""
        own = self._of_members(mean, deviation)
        return log_mean(self._draws(*own)) + replace(self.box, exact=()).log_mass(*own)

    def log_mass_error(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        return log_mean_error(self._draws(*self._of_members(mean, deviation)))

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        """A line may tie a masked cell to others: whole cells need the difference of two masses, too."""
        return super().mass_of_masked(mean, deviation, masked)

    def mean(self, mean: Rows) -> Rows:
        """E[x | x ∈ Ω] for x ~ N(mean, I), by the weighted draws that give the mass; the mean itself elsewhere."""
        near = self.lines.gather(mean)
        x = jnp.where(self.box.point, self.box.lower, near + centre(self._draws(near)))
        return jnp.where(self.held, self.lines.scatter(x, 0.0), mean)

    def release(self, slots: RowsMask) -> LinearRegion:
        return LinearRegion(self.lines.release(slots), self.box.release(self.lines.gather(slots, False)))

    def stretch(self, by: Array) -> LinearRegion:
        scaled = {name: getattr(self.lines, name) * by for name in ("lower", "upper", "anchor")}
        return LinearRegion(replace(self.lines, **scaled), self.box.stretch(by))

    def _satisfied(self, x: Members) -> Bool[Array, " row"]:
        terms = self.lines.matrix * x[:, None, :]
        value, slack = terms.sum(-1), 16.0 * jnp.finfo(x.dtype).eps * (1.0 + jnp.abs(terms).sum(-1))
        lines = (self.lines.lower - slack <= value) & (value <= self.lines.upper + slack)
        return lines.all(-1) & self.box.contains(x)

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        """Whether each row's x satisfies its lines, up to rounding, and its boxes."""
        return self._satisfied(self.lines.gather(x))

    def as_linear(self, row: int) -> Triple:
        """⟨A, b, c⟩ over all slots: the boxes of the members, then the lines."""
        slots, matrix = np.asarray(self.lines.slots[row]), np.asarray(self.lines.matrix[row])
        real = slots >= 0
        members, low, high = self.box.as_linear(row)
        informative = (matrix != 0).any(axis=1)
        own = np.concatenate([members, matrix[informative]])
        A = np.zeros((len(own), self.lines.n_slots))
        A[:, slots[real]] = own[:, real]
        lower, upper = (np.asarray(end[row])[informative] for end in (self.lines.lower, self.lines.upper))
        return A, np.concatenate([low, lower]), np.concatenate([high, upper])


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
    return System(A, *[np.broadcast_to(np.asarray(end, np.float64), A.shape[:1]) for end in (b, c)])


def _padded(n: int) -> int:
    return max(2, 1 << (max(n, 1) - 1).bit_length())
