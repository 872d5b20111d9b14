"""The "rank-normal" transform: a monotone map from numbers to their normal scores, with a few knots.

The score is Φ⁻¹ of the mid-rank. The map is linear between knots; beyond them it has the slope of the outermost unit.
A rounded number has an interval of scores, which contains its share of the normal distribution.
It is strictly increasing with a known derivative for any distribution of the numbers.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist
from typing import Literal

import numpy as np

from thurbo.columns.cells import BoolArray, FloatArray

_MOST_KNOTS, _FEWEST_KNOTS = 200, 20
_KNOTS_OF_ONE = 4.0  # times the cube root of the number of points: more knots follow the noise of the points
_NEIGHBOURS, _FREQUENT, _TIMES = 5, 2, 2.0  # a value as frequent as that, and so many times its neighbours, is a heap
_MOST_INTERVALS = 5000
_ROUNDS = 50
_NO_STEP = 1e-9  # of probability or score
NONE = np.zeros(0)
Side = Literal["left", "right"]


def distribution(
    lower: FloatArray, upper: FloatArray, weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """P(e ≤ ·) at the ends of intervals: the self-consistent estimate (Turnbull, 1976); mid-ranks for points.

    An interval follows the distribution inside it: F(e) = mean of (F(e) − F(lower)) / (F(upper) − F(lower)). An answer
    counts by its weight, and n answers are weights that sum to n.
    """
    ends = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
    n = len(lower) if weight is None else float(weight.sum())
    if len(ends) == 0:
        return np.zeros(1), np.full(1, 0.5)
    knots = np.unique(ends)
    # A lower point counts 1, an equal point 1/2, and an interval that contains the number 1/2.
    below = _passed(lower, weight, knots, "left") + _passed(upper, weight, knots, "right")
    probability = below / (2 * n)
    wide = lower < upper
    knots, probability = _thinned(knots, probability, _MOST_KNOTS if wide.any() else _n_knots(n))
    if wide.any():
        points, own = lower[~wide], None if weight is None else weight[~wide]
        passed = _passed(points, own, knots, "left") + _passed(points, own, knots, "right")
        pairs, count = _distinct(lower[wide], upper[wide], None if weight is None else weight[wide])
        for _ in range(_ROUNDS):
            low, high = (np.where(np.isfinite(e), np.interp(e, knots, probability), e > 0) for e in pairs.T)
            share = (probability - low[:, None]) / np.maximum(high - low, 1e-12)[:, None]
            probability = (passed / 2 + count @ share.clip(0.0, 1.0)) / n
    return knots, probability.clip(0.25 / n, 1 - 0.25 / n)


def _passed(numbers: FloatArray, weight: FloatArray | None, knots: FloatArray, side: Side) -> FloatArray:
    """How many of the numbers are below each knot ("left"), or not above it ("right")."""
    if weight is None:
        return np.searchsorted(np.sort(numbers), knots, side=side).astype(np.float64)
    order = np.argsort(numbers, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])
    return np.asarray(reached[np.searchsorted(numbers[order], knots, side=side)])


def _distinct(lower: FloatArray, upper: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Distinct intervals [interval, 2] and their counts; if there are too many, an even selection sorted by ends."""
    order = np.lexsort([upper, lower])
    if weight is None:
        few = order[np.linspace(0, len(order) - 1, min(len(order), _MOST_INTERVALS)).astype(np.intp)]
        pairs, count = np.unique(np.stack([lower[few], upper[few]], axis=1), axis=0, return_counts=True)
        return pairs, np.asarray(count * (len(order) / len(few)), np.float64)
    total = float(weight.sum())
    if total > _MOST_INTERVALS:  # at the same places as in the list where each interval stands as often as it counts
        places = np.linspace(0, total - 1, _MOST_INTERVALS).astype(np.intp)
        order = order[np.searchsorted(np.cumsum(weight[order]), places, side="right").clip(max=len(order) - 1)]
        weight = np.full(len(lower), total / _MOST_INTERVALS)
    pairs, which = np.unique(np.stack([lower[order], upper[order]], axis=1), axis=0, return_inverse=True)
    return pairs, np.asarray(np.bincount(which.ravel(), weight[order], minlength=len(pairs)), np.float64)


def _n_knots(n: float) -> int:
    """How many knots the distribution of n points has."""
    return int(np.clip(round(_KNOTS_OF_ONE * n ** (1 / 3)), _FEWEST_KNOTS, _MOST_KNOTS))


def _thinned(knots: FloatArray, probability: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """At most so many knots: even steps of probability in the middle, even steps of score in the tails."""
    if len(knots) <= most:
        return knots, probability
    normal, tiny = NormalDist(), 1e-9
    lowest, highest = (normal.inv_cdf(min(max(p, tiny), 1 - tiny)) for p in (probability[0], probability[-1]))
    tails = [normal.cdf(score) for score in np.linspace(lowest, highest, 2 * most // 5)]
    targets = np.concatenate([np.linspace(0, 1, 3 * most // 5 - 2), tails])
    chosen = np.searchsorted(probability, targets).clip(0, len(knots) - 1)
    chosen = np.unique(np.concatenate([[0, len(knots) - 1], chosen]))
    return knots[chosen], probability[chosen]


def normal_scores(
    lower: FloatArray, upper: FloatArray, weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Knots of a monotone map to normal scores Φ⁻¹(P(e ≤ ·)) of numbers, or of intervals that contain them.

    Half an answer is added to a range between them that has none, so that both its ends have the scores of their shares
    and no number in it is impossible.
    """
    knots, probability = distribution(lower, upper, weight)
    n = len(lower) if weight is None else float(weight.sum())
    is_empty = np.diff(probability) <= _NO_STEP
    if is_empty.any():
        ends = is_empty & ~np.append(is_empty[1:], False)  # the last step of each range
        added = 0.5 * np.concatenate([[0.0], np.cumsum(ends)])
        probability = (n * probability + added) / (n + added[-1])
    scores = np.asarray([NormalDist().inv_cdf(p) for p in probability.tolist()])
    kept = [0]
    for place in range(1, len(knots)):  # skip the inside of such ranges, and steps too small for a finite slope
        if knots[place] - knots[kept[-1]] > 1e-290 and scores[place] - scores[kept[-1]] > _NO_STEP:
            kept.append(place)
    return knots[kept].astype(np.float64), scores[kept]


def scores_of_rounded(
    numbers: FloatArray,
    unit: float,
    lower: FloatArray = NONE,
    upper: FloatArray = NONE,
    weights: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Knots at number ± unit / 2 and their normal scores: an interval has the share of its number, as heaps need it.

    Half an answer is added between two numbers that are not neighbours, so that no number in a gap is impossible; a
    quarter of an answer of the first and of the last number is for numbers beyond them. Of many different numbers,
    frequent ones have knots of their own, and others some of theirs, so that these are smooth. Answers between `lower`
    and `upper` are divided among the numbers that are observed there. `weights` say how many answers each number, and
    each of these intervals, stands for.
    """
    values, count = _counted(numbers, unit, lower, upper, weights)
    low, high = values - 0.5 * unit, values + 0.5 * unit
    is_gap = low[1:] - high[:-1] > 0.5 * unit
    low[1:][~is_gap] = high[:-1][~is_gap]  # equal but for rounding errors
    before = np.concatenate([[0.0], np.cumsum(count[:-1] + 0.5 * is_gap)])
    total = before[-1] + count[-1]
    knots, places = np.unique(np.stack([low, high]), return_index=True)
    probability = (np.stack([before, before + count]).ravel()[places] / total).clip(0.25 / total, 1 - 0.25 / total)
    if len(knots) > (most := _n_knots(len(numbers) if weights is None else float(weights[0].sum()))):
        frequent = _are_frequent(values, count, unit)
        thin, _ = _thinned(knots, probability, most)
        kept = np.isin(knots, np.concatenate([thin, low[frequent], high[frequent]]))
        knots, probability = knots[kept], probability[kept]
    return knots, np.asarray([NormalDist().inv_cdf(p) for p in probability.tolist()])


def _are_frequent(values: FloatArray, count: FloatArray, unit: float) -> BoolArray:
    """Which numbers are much more frequent than those beside them: than their median, or their mean with gaps."""
    place, before = np.arange(len(values)), np.concatenate([[0.0], np.cumsum(count)])
    first, last = np.maximum(place - _NEIGHBOURS, 0), np.minimum(place + _NEIGHBOURS, len(values) - 1)
    others = before[last + 1] - before[first] - count
    mean = others / np.maximum((values[last] - values[first]) / unit, 1.0)
    beside = np.pad(count, _NEIGHBOURS, constant_values=np.nan)
    window = np.lib.stride_tricks.sliding_window_view(beside, 2 * _NEIGHBOURS + 1).copy()
    window[:, _NEIGHBOURS] = np.nan
    usual = np.minimum(mean, np.nanmedian(window, axis=1)) if len(count) > 1 else np.zeros(1)
    return np.asarray((count >= _FREQUENT) & (count >= _TIMES * usual))


def _counted(
    numbers: FloatArray,
    unit: float,
    lower: FloatArray,
    upper: FloatArray,
    weights: tuple[FloatArray, FloatArray] | None,
) -> tuple[FloatArray, FloatArray]:
    """Numbers and how often each occurs, by self-consistency where only an interval is known."""
    values, which = np.unique(numbers, return_inverse=True)
    count = np.bincount(which, None if weights is None else weights[0], minlength=len(values)).astype(np.float64)
    if not len(lower):
        return values, count
    pairs, n_pairs = _distinct(lower, upper, None if weights is None else weights[1])
    is_empty = np.searchsorted(values, pairs[:, 0]) == np.searchsorted(values, pairs[:, 1], side="right")
    ends = np.where(np.isfinite(pairs[:, 0]), pairs[:, 0] + 0.5 * unit, pairs[:, 1] - 0.5 * unit)
    values, place = np.unique(np.concatenate([values, ends[is_empty]]), return_inverse=True)  # where none is observed
    observed = np.bincount(place[: len(count)], count, minlength=len(values))
    first, last = np.searchsorted(values, pairs[:, 0]), np.searchsorted(values, pairs[:, 1], side="right")
    found = np.maximum(observed, 0.5)
    for _ in range(_ROUNDS):
        before = np.concatenate([[0.0], np.cumsum(found)])
        part = n_pairs / (before[last] - before[first])  # of each interval, for one answer inside it
        steps = np.bincount(first, part, len(values) + 1) - np.bincount(last, part, len(values) + 1)
        found = observed + np.maximum(np.cumsum(steps)[:-1], 0.0) * found
    return values, found


def frequent_and_even(scores: FloatArray, n_bands: int) -> FloatArray:
    """Scores of some knots that divide rounded numbers into about n bands of equal share, or of one frequent number."""
    share = np.asarray([NormalDist().cdf(score) for score in scores.tolist()])
    frequent = np.flatnonzero(np.diff(share) >= 1.0 / n_bands)
    fixed = np.unique(np.concatenate([[0], frequent, frequent + 1, [len(scores) - 1]]))
    chosen = set(fixed.tolist())
    for first, last in pairwise(fixed.tolist()):
        n_parts = round(float(share[last] - share[first]) * n_bands) if last > first + 1 else 1
        for part in range(1, n_parts):
            chosen.add(int(np.abs(share - share[first] - (share[last] - share[first]) * part / n_parts).argmin()))
    return scores[sorted(chosen - {0, len(scores) - 1})]


def tail_slopes(knots: tuple[float, ...], scores: tuple[float, ...], inverse: bool = False) -> tuple[float, float]:
    """Slopes beyond the end knots: of secants over the outermost unit of score, which are robust to noise."""
    x, y = np.asarray(knots), np.asarray(scores)
    if len(x) < 2:
        return 1.0, 1.0
    left = min(int(np.searchsorted(y, y[0] + 1.0)), len(y) - 1)
    right = max(int(np.searchsorted(y, y[-1] - 1.0, side="right")) - 1, 0)
    low = float((y[left] - y[0]) / (x[left] - x[0]))
    high = float((y[-1] - y[right]) / (x[-1] - x[right]))
    return (1 / low, 1 / high) if inverse else (low, high)


def piecewise_linear(
    values: FloatArray, start: tuple[float, ...], end: tuple[float, ...], slopes: tuple[float, float]
) -> FloatArray:
    """A piecewise linear map through points, with given slopes beyond them."""
    inside = np.interp(values, start, end)
    below, above = np.minimum(values - start[0], 0.0), np.maximum(values - start[-1], 0.0)
    return inside + slopes[0] * below + slopes[1] * above
