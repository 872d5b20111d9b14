"""Baselines that use one column alone: frequencies of labels, and a normal distribution of numbers and intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from thurbo.columns.block import Block
from thurbo.columns.cells import FloatArray, IntArray

LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))
PRIOR_ANSWERS = 10.0  # shrinkage of an item's shares to those of all items, in answers


class Normal(NamedTuple):
    """A predicted normal distribution in standard units, one for each row."""

    mean: FloatArray
    deviation: FloatArray


def shares(code: IntArray, n_labels: int, weight: FloatArray | None = None) -> FloatArray:
    """Share of each label among the answers (code ≥ 0), half an answer added, so that none is zero: [label]."""
    known = code >= 0
    count = np.bincount(code[known], None if weight is None else scaled(weight[known]), minlength=n_labels) + 0.5
    return count / count.sum()


def shares_by_item(site: IntArray, code: IntArray, n_sites: int, n_labels: int, weight: FloatArray) -> FloatArray:
    """Share of each label among each item's answers, shrunk to the shares over all items: [item, label]."""
    known = code >= 0
    overall = shares(code, n_labels, weight)
    counts = np.zeros((n_sites, n_labels))
    np.add.at(counts, (site[known], code[known]), scaled(weight[known]))
    counts += PRIOR_ANSWERS * overall
    return counts / counts.sum(axis=1, keepdims=True)


def scaled(weight: FloatArray) -> FloatArray:
    """Weights with mean one over the rows with positive weight, so that half an answer is half of an average one."""
    return weight / weight[weight > 0].mean() if weight.any() else np.ones(len(weight))


def spread(z: FloatArray, weight: FloatArray | None = None) -> tuple[float, float]:
    """Mean and deviation of shown numbers in standard units; 0 and 1 if there are fewer than two."""
    weight = np.ones(z.shape) if weight is None else scaled(weight)
    if (weight > 0).sum() < 2:
        return 0.0, 1.0
    mean = float(np.average(z, weights=weight))
    return mean, max(float(np.sqrt(np.average((z - mean) ** 2, weights=weight))), 1e-3)


def normal(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Mean and deviation by maximum likelihood of shown numbers (equal ends) and intervals, in standard units.

    A weak prior (the standard normal) keeps both finite for any data.
    """
    point, weight = lower == upper, scaled(weight)
    mean, deviation = spread(middles(lower, upper), weight)
    if point.all() or (weight > 0).sum() < 2:
        return mean, deviation
    from scipy.optimize import minimize

    def loss(at: FloatArray) -> float:
        size = max(float(np.exp(at[1])), 1e-3)
        low, high = (lower - at[0]) / size, (upper - at[0]) / size
        found = np.where(
            point, -0.5 * np.where(point, low, 0.0) ** 2 - np.log(size) - LOG_ROOT_2PI, log_between(low, high)
        )
        return float(-np.average(found, weights=weight) + 1e-3 * (at @ at) / 2)

    found = minimize(loss, [mean, np.log(deviation)], method="Nelder-Mead").x
    return float(found[0]), max(float(np.exp(found[1])), 1e-3)


def middles(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Middles of intervals, or the only end that is known."""
    return (np.where(np.isfinite(lower), lower, upper) + np.where(np.isfinite(upper), upper, lower)) / 2


def log_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """log P(low ≤ x ≤ high) of a standard normal, exact in both tails; −∞ if the ends are equal."""
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_ndtr(high) + np.log1p(-np.exp(np.minimum(log_ndtr(low) - log_ndtr(high), 0.0)))


def standing(block: Block) -> FloatArray:
    """Position of each label in its row's order, from −1 (last) to 1 (first), 0 if it is not compared."""
    if block.entries is None:
        top = np.maximum(block.tier.max(axis=1, keepdims=True), 1)
    else:
        top = np.ones(block.n_rows, np.int32)
        np.maximum.at(top, block.entries.row, block.tier[:, 0])
        top = top[block.entries.row][:, None]
    return np.where(block.tier >= 0, 2.0 * block.tier / top - 1.0, 0.0)
