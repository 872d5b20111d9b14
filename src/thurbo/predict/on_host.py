"""§4.3 Functions of the mean and deviation of x in NumPy: for questions that are answered sooner than compiled.

The same functions as in moments.py, in double precision. `largest` has a cost that grows with the square of the
number of labels, so large questions are compiled (`suits`).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, softmax

MOST_VALUES = 20_000_000  # values of Φ that `largest` computes here: some tenths of a second
REACH, STEP = 7.5, 0.5  # of the nodes of an integral, in deviations: beyond the outermost means, and between nodes
AT_ONCE = 1024  # rows
GUMBEL_SCALE = float(np.sqrt(6.0) / np.pi)  # of unit variance


def levels(mean: np.ndarray, deviation: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """P(lower ≤ x ≤ upper) of every level, [row, level]."""
    lower, upper = (ends[None, 0], ends[None, 1]) if ends.ndim == 2 else (ends[:, 0], ends[:, 1])
    real = lower < np.inf
    lower, upper = (np.where(real, end, np.inf).astype(np.float64) for end in (lower, upper))
    return np.where(real, _between(lower, upper, mean, deviation), 0.0)


def below(mean: np.ndarray, deviation: np.ndarray, points: np.ndarray) -> np.ndarray:
    """P(x ≤ ·) at the same points for all rows, [row, point]."""
    return np.asarray(ndtr((points[None, :].astype(np.float64) - mean) / deviation))


def density(mean: np.ndarray, deviation: np.ndarray, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Density and distribution function of x at each row's own point."""
    distance = (point.astype(np.float64) - mean[:, 0]) / deviation[:, 0]
    return np.exp(-0.5 * distance * distance) / (deviation[:, 0] * np.sqrt(2 * np.pi)), ndtr(distance)


def mass(mean: np.ndarray, deviation: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """P(lower ≤ x ≤ upper) between each row's own ends."""
    return _between(lower.astype(np.float64), upper.astype(np.float64), mean[:, 0], deviation[:, 0])


def two_moments(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[x] and E[x²] at the first site."""
    mean, deviation = mean[:, 0].astype(np.float64), deviation[:, 0].astype(np.float64)
    return mean, deviation**2 + mean**2


def pair(mean: np.ndarray, deviation: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """P(the first of two utilities is above the second), each counted from its own zero."""
    gap = (mean[:, 0] - zero[:, 0]) - (mean[:, 1] - zero[:, 1])
    return np.asarray(ndtr(gap / np.sqrt(deviation[:, 0] ** 2 + deviation[:, 1] ** 2)))


def largest(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(each of these utilities is the largest), §3.2, and the mean utilities.

    ∫ φ_k(t) Π_{j≠k} Φ_j(t) dt by the trapezoidal rule: the error of equal steps falls with exp(−2π² σ² / step²).
    """
    m, s = mean.astype(np.float64), deviation.astype(np.float64)
    found = [_largest(m[i : i + AT_ONCE], s[i : i + AT_ONCE]) for i in range(0, len(m), AT_ONCE)]
    return np.concatenate(found) if found else np.zeros(m.shape), mean


def first_choice(mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(each of these items is chosen first) by choices with Gumbel noise, and the mean utilities."""
    shares = softmax(mean.astype(np.float64) / (GUMBEL_SCALE * deviation.mean(axis=1, keepdims=True)), axis=1)
    return np.asarray(shares), mean


def suits(mean: np.ndarray, deviation: np.ndarray) -> bool:
    """Whether `largest` is quick here."""
    if not mean.size:
        return True
    return bool(mean.size * _n_nodes(mean, deviation) <= MOST_VALUES)


def _n_nodes(mean: np.ndarray, deviation: np.ndarray) -> int:
    width = np.ptp(mean, axis=1) + 2 * REACH * deviation.max(axis=1)
    return int(np.ceil((width / deviation.min(axis=1)).max() / STEP)) + 1


def _largest(m: np.ndarray, s: np.ndarray) -> np.ndarray:
    reach = REACH * s.max(axis=1)
    low, high = m.min(axis=1) - reach, m.max(axis=1) + reach
    n = _n_nodes(m, s)
    t = low + (high - low) * np.linspace(0.0, 1.0, n)[:, None]  # [node, row]
    z = (t - m.T[:, None, :]) / s.T[:, None, :]  # [label, node, row]
    below, found = ndtr(z), np.exp(-0.5 * z * z)
    for labels in (range(len(z)), range(len(z) - 1, -1, -1)):  # the product over all other labels: before, and after
        product = np.ones_like(t)
        for k in labels:
            found[k] *= product
            product *= below[k]
    chance = found.sum(axis=1).T
    return np.asarray(chance * ((high - low) / (n - 1))[:, None] / (s * np.sqrt(2 * np.pi)))


def _between(lower: np.ndarray, upper: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    low, high = (lower - mean) / deviation, (upper - mean) / deviation
    # In the upper tail by symmetry, where a small mass is a difference of small numbers.
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    return np.asarray(ndtr(high) - ndtr(low))
