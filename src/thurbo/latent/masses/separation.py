"""§4.4 The mass of any ⟨A, b, c⟩ by separation of variables: unbiased, smooth, with a standard error; feasibility.

For u ~ N(0, I), rotate so that A = L Q with L lower triangular: line m then says where its last y = Q u may be, given
those before (Genz 1992). On the host, `interior` gives the point with the largest margin, where sampling starts;
`conflict` an irreducible set of lines of which no point satisfies all.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, Int
from thurbo.latent import truncnorm

N_SHIFTS = 8  # independent shifts of one lattice: their spread is the standard error
POINTS_PER_SHIFT = 64

Lines = Float[Array, "row line"]
Matrix = Float[Array, "row line member"]


class Triangle(NamedTuple):
    """A = factor · basis: rows of `basis` orthonormal (or zero), `last` the last variable that each line moves."""

    factor: Float[Array, "row line rank"]
    basis: Float[Array, "row rank member"]
    last: Int[Array, "row line"]  # −1 for a line of zeros


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


def triangular(matrix: Matrix, lower: Lines, upper: Lines) -> Triangle:
    """Gram–Schmidt over the lines, next always the one that is least likely to hold, those before at their means.

    That order of variables (Genz and Bretz 2009) keeps the weights of the draws even.
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
    return Triangle(jnp.moveaxis(factor, 0, 2), jnp.swapaxes(basis, 0, 1), last.max(axis=0))


def separate(matrix: Matrix, lower: Lines, upper: Lines, n_shifts: int = N_SHIFTS) -> WeightedPoints:
    """Draw y = Q u variable by variable inside lower ≤ A u ≤ upper, with the mass of every interval."""
    triangle, (n_rows, n_lines, rank), dtype = triangular(matrix, lower, upper), matrix.shape, matrix.dtype
    points = jnp.asarray(lattice(rank)[: n_shifts * POINTS_PER_SHIFT], dtype)

    def one(carry: tuple, item: tuple) -> tuple[tuple, tuple[Array, ...]]:
        moved, log_weight = carry
        column, number, share = item
        binds = (triangle.last == number)[:, None, :]
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
    items = jnp.moveaxis(triangle.factor, 2, 0), jnp.arange(rank, dtype=jnp.int32), points.T
    (_, log_weight), drawn = jax.lax.scan(jax.checkpoint(one), start, items)
    return WeightedPoints(log_weight, *(jnp.moveaxis(each, 0, 2) for each in drawn), triangle.basis)


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


MARGIN = 1e-6  # relative to the length of a line: a thinner region counts as empty


class System(NamedTuple):
    """b ≤ A x ≤ c of one row, [line, slot]; `inside` a point known to satisfy it."""

    matrix: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    inside: np.ndarray | None = None


def interior(system: System) -> np.ndarray | None:
    """A point with room on all sides, [slot]; None where there is none."""
    A, lower, upper, _ = system
    point = np.zeros(A.shape[1])
    if not len(lower):
        return point
    if (lower > upper).any():
        return None
    used = np.flatnonzero((A != 0).any(axis=0))
    length = np.sqrt((A**2).sum(axis=1))
    if (length == 0).any():  # 0 · x between numbers that do not hold 0
        silent = length == 0
        if ((lower > 0) | (upper < 0))[silent].any():
            return None
        A, lower, upper, length = A[~silent], lower[~silent], upper[~silent], length[~silent]
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
