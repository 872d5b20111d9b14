"""§3 Feasibility by linear programs on the host: a point well inside b ≤ A x ≤ c, or lines that contradict.

`interior` gives the point with the largest margin, where sampling starts; `conflict` an irreducible set of lines of
which no point satisfies all, and any but one can be kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    guess = _guess(A, lower, upper)
    found = guess if guess is not None else _program(A, lower, upper)
    if found is None:
        return None
    point[used] = found
    return point


def _guess(A: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray | None:
    """A point that meets every line half a unit inside, by least squares: most systems need no program."""
    room = np.minimum((upper - lower) / 2, 0.5)
    target = np.where(np.isfinite(lower), lower + room, np.where(np.isfinite(upper), upper - room, 0.0))
    x, *_ = np.linalg.lstsq(A, target, rcond=None)
    value = A @ x
    least = np.minimum(room, 1e-3)
    return x if ((value >= lower + least) & (value <= upper - least) & (least > MARGIN)).all() else None


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
