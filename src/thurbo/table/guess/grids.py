"""Columns with the same answers: one grid with one scale, whose order may lie in the data.

Idea: people who choose a level in one column choose it or its neighbours in another one, and people who choose
extremes here choose them there. With scores 1, 2, ... for the levels, a linear and a quadratic trend between columns is
therefore strongest in the right order; an answer that is far from all others is not part of the scale.
Guarantees the same result whatever the order of labels, and no order unless both halves of the rows agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

import numpy as np

from thurbo.table.columns.cells import FloatArray, IntArray

MOST_LEVELS = 7  # of which every order is tried
_FEWEST_PAIRS = 100  # answers to two columns by one person
_MOST_PAIRS = 60  # of columns
_QUADRATIC = 0.5  # weight of the quadratic trend
NEAR = -0.1  # least log ratio of observed to expected pairs of neighbouring levels
_NEARLY, _FAR = -0.2, -0.8  # the same where pairs become fewer with every step, down to the second for both ends


class Grid(NamedTuple):
    """Columns with the same answers, and how often each two answers go together in two of the columns."""

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    counts: tuple[int, ...]  # of each label in all columns
    pairs: FloatArray  # [half of the rows, pair of columns, label, label]

    def order(self, labels: Sequence[str]) -> tuple[str, ...] | None:
        """The labels in the order of the data, in one of the two directions; None if it is not certain."""
        places = [self.labels.index(label) for label in labels]
        pairs = self.pairs[:, :, places][:, :, :, places]
        if not 3 <= len(places) <= MOST_LEVELS or pairs.sum() < _FEWEST_PAIRS or pairs.shape[1] == 0:
            return None
        best = {_best(each) for each in (pairs[0], pairs[1], pairs.sum(axis=0))}
        return tuple(labels[place] for place in best.pop()) if len(best) == 1 else None

    def affinity(self) -> FloatArray:
        """Log ratio of how often two labels go together in two columns to independent answers: [label, label]."""
        together = self.pairs.sum(axis=(0, 1)) + 0.5
        together = (together + together.T) / together.sum() / 2
        share = together.sum(axis=1)
        return np.log(together / np.outer(share, share))

    def are_levels(self, order: Sequence[str]) -> bool:
        """Whether labels in this order go together with their neighbours, not each with itself alone."""
        places = [self.labels.index(label) for label in order]
        near = self.affinity()[places][:, places]
        by = [np.diag(near, distance) for distance in range(1, len(order))]
        falls = all((far <= np.minimum(each[1:], each[:-1])).all() for each, far in pairwise(by))
        return bool(by[0].min() >= NEAR or (by[0].min() >= _NEARLY and falls and near[0, -1] <= _FAR))


def grid(columns: Mapping[str, IntArray], labels: Sequence[str]) -> Grid:
    """The grid of columns that hold places of labels, −1 if missing: [row]."""
    names = list(columns)
    pairs = list(combinations(names, 2))
    if len(pairs) > _MOST_PAIRS:
        pairs = [pairs[place] for place in np.random.default_rng(0).permutation(len(pairs))[:_MOST_PAIRS]]
    n, half = len(labels), np.arange(len(columns[names[0]])) % 2
    found = np.zeros((2, len(pairs), n, n))
    for place, (one, two) in enumerate(pairs):
        both = (columns[one] >= 0) & (columns[two] >= 0)
        index = (half[both] * n + columns[one][both]) * n + columns[two][both]
        found[:, place] = np.bincount(index, minlength=2 * n * n).reshape(2, n, n)
    counts = sum(np.bincount(each[each >= 0], minlength=n) for each in columns.values())
    return Grid(tuple(names), tuple(labels), tuple(np.asarray(counts).tolist()), found)


@lru_cache(maxsize=8)
def _orders(n: int) -> IntArray:
    """All orders of n labels, one of each two directions: [order, place]."""
    return np.asarray([each for each in permutations(range(n)) if each[0] < each[-1]], np.int32)


def _best(pairs: FloatArray) -> tuple[int, ...]:
    """The order in which the trends between columns are strongest, by answers [pair of columns, label, label]."""
    n_labels = pairs.shape[1]
    rows = pairs.sum(axis=(1, 2))
    pairs = pairs[rows > 0] / rows[rows > 0, None, None]
    rows = rows[rows > 0]
    first, second = pairs.sum(axis=2), pairs.sum(axis=1)
    share = (rows @ (first + second)) / rows.sum() / 2 + 1e-9
    orders = _orders(n_labels)
    score = np.empty(orders.shape)
    np.put_along_axis(score, orders, np.arange(n_labels, dtype=float)[None], axis=1)
    linear = _standard(score, share)
    skew = (linear**3) @ share
    quadratic = _standard(linear**2 - skew[:, None] * linear, share)
    strength = np.zeros(len(orders))
    for trend, weight in ((linear, 1.0), (quadratic, _QUADRATIC)):
        means = trend @ first.T, trend @ second.T
        spread = ((trend**2) @ first.T - means[0] ** 2) * ((trend**2) @ second.T - means[1] ** 2)
        joint = np.einsum("tij,oi,oj->ot", pairs, trend, trend, optimize=True) - means[0] * means[1]
        strength += weight * (joint**2 / (spread + 1e-9)) @ rows
    return tuple(orders[int(strength.argmax())].tolist())


def _standard(scores: FloatArray, share: FloatArray) -> FloatArray:
    scores = scores - (scores @ share)[:, None]
    return scores / np.sqrt((scores**2) @ share + 1e-12)[:, None]
