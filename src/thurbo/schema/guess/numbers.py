"""How a column of numbers is read: as it is, by its ranks, or as rounded numbers by their ranks.

Idea: a normal distribution gives a frequent number (zeros among amounts, 52 weeks) no probability, and it does not fit
skewed numbers. Ranks are used where a normal distribution of normal scores predicts other answers of the column better.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from thurbo.columns.cells import Cells, FloatArray, listing
from thurbo.columns.continuous import Continuous
from thurbo.io.notes import whole

LEAST_SHARE = 0.1  # of the most frequent number
LEAST_ANSWERS = 100  # with fewer, neither shares nor the shape of the distribution are known well enough
LEAST_GAIN = 0.02  # of the log score of an answer, by which ranks are better (nats)
MOST_ANSWERS = 5000  # that are used to compare
N_FOLDS = 4
MOST_NAMED = 3


def number(count: Mapping[Any, int], **settings: Any) -> tuple[Continuous, str]:
    """A column of numbers that occur so often, and what to add to the reason."""
    total, often = sum(count.values()), sorted(count, key=lambda value: -count[value])
    if total < LEAST_ANSWERS:
        return Continuous(**settings), ""
    if count[often[0]] >= LEAST_SHARE * total:
        common = [value for value in often if count[value] >= LEAST_SHARE * total]
        shares = [f"{value:.12g} in {100 * count[value] / total:.0f} %" for value in common[:MOST_NAMED]]
        reason = f"; a rounded number, since some are frequent: {listing(shares)}"
        return Continuous(transform="rank-normal", rounded=True, **settings), reason
    if _gain_of_ranks(np.repeat(np.asarray(list(count), np.float64), list(count.values()))) > LEAST_GAIN:
        return Continuous(transform="rank-normal", **settings), "; by their ranks, since they are not normal"
    return Continuous(**settings), ""


def _gain_of_ranks(numbers: FloatArray) -> float:
    """Gain of the cross-validated log score of a number by normal scores; −∞ if they cannot be compared."""
    rng = np.random.RandomState(0)
    numbers = rng.permutation(numbers)[:MOST_ANSWERS]
    fold = np.arange(len(numbers)) % N_FOLDS

    def score(column: Continuous, known: FloatArray, asked: FloatArray) -> float:
        fitted = column.learn(known, known)
        return float((-0.5 * fitted.to_standard(asked) ** 2 + fitted.log_derivative(asked)).sum())

    gain = 0.0
    with np.errstate(all="ignore"):
        for each in range(N_FOLDS):
            parts = numbers[fold != each], numbers[fold == each]
            gain += score(Continuous(transform="rank-normal"), *parts) - score(Continuous(), *parts)
    return gain / len(numbers) if np.isfinite(gain) else -np.inf


def occurrences(cells: Cells, among: Collection[Any]) -> dict[Any, int]:
    """How often each of some values occurs; codes that are whole numbers count as integers."""
    distinct, which = cells.factorise()
    count = np.bincount(which[which >= 0], minlength=len(distinct)).tolist()
    found = dict.fromkeys(among, 0)
    for value, own in zip(map(whole, distinct), count, strict=True):
        if value in found:
            found[value] += own
    return found
