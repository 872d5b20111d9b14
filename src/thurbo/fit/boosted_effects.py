"""Few large effects out of many possible ones, by componentwise boosting with a number of rounds from cross-validation.

Each round finds the feature whose coefficients improve a multinomial logistic model most, and moves a part of the way
(as in L2 boosting: a sparse fit, close to the path of the lasso). The model starts from given log-probabilities, so
that only what these do not explain is learned. NumPy only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
IndexArray = NDArray[np.int64]

STEP = 0.2  # share of a Newton step
RIDGE = 10.0  # answers by which coefficients are pulled to zero
MOST_ROUNDS, PATIENCE = 60, 6  # rounds, and rounds without improvement after which it ends
LEAST_GAIN = 1.0  # of the cross-validated log score (nats)
N_FOLDS = 5
MOST_FEATURES = 100  # those with the largest gains in the first round
LEAST_ANSWERS = 40
LEAST_CHANCE = 1e-30


class Labels(NamedTuple):
    """Answers that are labels: log-probabilities to start from [answer, label], true labels, and weights of answers."""

    start: FloatArray
    code: IndexArray
    weight: FloatArray

    def rows(self, index: IndexArray) -> Labels:
        return Labels(self.start[index], self.code[index], self.weight[index])

    def slope(self, now: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and minus second derivatives of the log score by the predictions, [answer, label]."""
        chance = np.exp(_log_chance(now))
        first = -chance
        first[np.arange(len(now)), self.code] += 1.0
        return self.weight[:, None] * first, self.weight[:, None] * chance * (1.0 - chance)

    def score(self, now: FloatArray) -> float:
        return float(self.weight @ _log_chance(now)[np.arange(len(now)), self.code])


class _Fits:
    """Fits of the same answers with different weights, which take their rounds together.

    Few operations on large arrays, which several threads can do at a time. Labels come first, [label, fit, answer], so
    that sums over labels are sums of whole arrays.
    """

    def __init__(self, features: FloatArray, answers: Labels, weight: FloatArray):
        """`features` are [answer, feature], and weights of answers [fit, answer]."""
        (n, n_labels), n_fits = answers.start.shape, len(weight)
        self.features = np.ascontiguousarray(features.T)
        self.squares, self.weight = self.features * self.features, weight
        self.chance = np.repeat(np.exp(_log_chance(answers.start)).T[:, None, :], n_fits, axis=1)
        self.true = np.zeros_like(self.chance)  # weights at the true labels
        self.true[answers.code, :, np.arange(n)] = weight.T
        self.slope, self.other = np.empty_like(self.chance), np.empty_like(self.chance)
        self.shape = len(self.features), n_labels, n_fits

    def _by_feature(self, features: FloatArray, values: FloatArray) -> FloatArray:
        """Sums over answers, [feature, label, fit]."""
        return (features @ values.reshape(-1, values.shape[-1]).T).reshape(self.shape)

    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Improvement by each feature, [feature, fit], and its Newton step, [feature, label, fit]."""
        np.multiply(self.weight, self.chance, out=self.other)
        np.subtract(self.true, self.other, out=self.slope)
        pull = self._by_feature(self.features, self.slope)
        np.subtract(1.0, self.chance, out=self.slope)
        np.multiply(self.slope, self.other, out=self.slope)
        step = pull / (self._by_feature(self.squares, self.slope) + RIDGE)
        return (pull * step).sum(axis=1), step

    def round(self) -> tuple[IndexArray, FloatArray]:
        """One more round: the feature of each fit, [fit], and what is added to its coefficients, [fit, label]."""
        gain, step = self.steps()
        best = np.argmax(gain, axis=0)
        own = STEP * step[best, :, np.arange(self.shape[2])]
        np.multiply(self.features[best], own.T[:, :, None], out=self.other)
        np.exp(self.other, out=self.other)
        self.chance *= self.other
        self.chance /= self.chance.sum(axis=0)
        return best, own


def fit(features: FloatArray, answers: Labels, fold: IndexArray) -> tuple[IndexArray, FloatArray]:
    """Features with effects, and what each adds to the log-probabilities: [effect], [effect, label].

    `fold` numbers the parts of the answers, [answer], which are predicted from the others to choose how many rounds.
    """
    n_labels = answers.start.shape[1]
    nothing = np.zeros(0, np.int64), np.zeros((0, n_labels))
    if len(fold) < LEAST_ANSWERS or not features.shape[1]:
        return nothing
    chosen = np.arange(features.shape[1])
    if len(chosen) > MOST_FEATURES:
        chosen = screened(_Fits(features, answers, answers.weight[None]).steps()[0][:, 0])
        features = features[:, chosen]
    rounds = _rounds(features, answers, fold)
    coefficients = np.zeros((len(chosen), n_labels))
    for feature, own in rounds:
        coefficients[feature] += own
    kept = np.flatnonzero(coefficients.any(axis=1))
    return chosen[kept], coefficients[kept]


def screened(gain: FloatArray) -> IndexArray:
    """The features with the largest gains, in their order."""
    return np.sort(np.argsort(-gain, kind="stable")[:MOST_FEATURES])


def _rounds(features: FloatArray, answers: Labels, fold: IndexArray) -> list[tuple[int, FloatArray]]:
    """The rounds of a fit of all answers: features, and what is added to their coefficients.

    There are as many as have the best cross-validated log score: the same rounds are made without one part of the
    answers each.
    """
    numbers, part = np.unique(fold, return_inverse=True)
    n_parts, row = len(numbers), np.arange(len(fold))
    if n_parts < 2:
        return []
    without = part[None, :] != np.arange(n_parts + 1)[:, None]  # [fit, answer]; the last one has all of them
    fits = _Fits(features, answers, answers.weight * without)
    best, at, rounds = LEAST_GAIN + answers.score(answers.start), 0, []
    for number in range(1, MOST_ROUNDS + 1):
        feature, own = fits.round()
        rounds.append((int(feature[-1]), own[-1]))
        chance = fits.chance[answers.code, part, row]  # each answer by the fit without it
        found = float(answers.weight @ np.log(np.maximum(chance, LEAST_CHANCE)))
        if found > best:
            best, at = found, number
        elif number - at >= PATIENCE:
            break
    return rounds[:at]


def _log_chance(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
