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


class _Fit:
    """Coefficients that grow by one round after the other."""

    def __init__(self, features: FloatArray, answers: Labels):
        self.features, self.squares, self.answers = features, features * features, answers
        self.now = answers.start.copy()
        self.coefficients = np.zeros((features.shape[1], self.now.shape[1]), features.dtype)

    def gains(self) -> tuple[FloatArray, FloatArray]:
        """Improvement by each feature, [feature], and its coefficients, [feature, label]."""
        slope, bend = self.answers.slope(self.now)
        pull = self.features.T @ slope
        step = pull / (self.squares.T @ bend + RIDGE)
        return (pull * step).sum(axis=1), step

    def round(self) -> tuple[int, FloatArray]:
        """One more round: the feature, and what was added to its coefficients."""
        gain, step = self.gains()
        best = int(np.argmax(gain))
        own = STEP * step[best]
        self.now += self.features[:, best, None] * own
        self.coefficients[best] += own
        return best, own


def fit(features: FloatArray, answers: Labels, fold: IndexArray) -> tuple[IndexArray, FloatArray]:
    """Features with effects, and what each adds to the log-probabilities: [effect], [effect, label].

    `fold` numbers the parts of the answers, [answer], which are predicted from the others to choose how many rounds.
    """
    nothing = np.zeros(0, np.int64), np.zeros((0, answers.start.shape[1]))
    if len(fold) < LEAST_ANSWERS or not features.shape[1]:
        return nothing
    chosen = np.arange(features.shape[1])
    if len(chosen) > MOST_FEATURES:
        gain = _Fit(features, answers).gains()[0]
        chosen = np.sort(np.argsort(-gain, kind="stable")[:MOST_FEATURES])
        features = np.ascontiguousarray(features[:, chosen])
    n_rounds = _n_rounds(features, answers, fold)
    if not n_rounds:
        return nothing
    whole = _Fit(features, answers)
    for _ in range(n_rounds):
        whole.round()
    kept = np.flatnonzero(whole.coefficients.any(axis=1))
    return chosen[kept], whole.coefficients[kept].astype(np.float64)


def _n_rounds(features: FloatArray, answers: Labels, fold: IndexArray) -> int:
    """The number of rounds with the best cross-validated log score.

    All fits, each without one part of the answers, take their rounds together: few operations on large arrays, which
    several threads can do at a time.
    """
    (numbers, part), (n, n_labels) = np.unique(fold, return_inverse=True), answers.start.shape
    n_parts, row, squares = len(numbers), np.arange(n), features * features
    weight = answers.weight[:, None] * (part[:, None] != np.arange(n_parts)[None, :])  # [answer, fit]
    now = np.repeat(answers.start[:, None, :], n_parts, axis=1)  # [answer, fit, label]
    best, at = LEAST_GAIN + answers.score(answers.start), 0
    for number in range(1, MOST_ROUNDS + 1 if n_parts > 1 else 1):
        chance = np.exp(_log_chance(now))
        bend = weight[:, :, None] * chance * (1.0 - chance)
        slope = -weight[:, :, None] * chance
        slope[row, :, answers.code] += weight
        pull = (features.T @ slope.reshape(n, -1)).reshape(-1, n_parts, n_labels)
        step = pull / ((squares.T @ bend.reshape(n, -1)).reshape(pull.shape) + RIDGE)
        chosen = np.argmax((pull * step).sum(axis=2), axis=0)  # [fit]
        now += features[:, chosen][:, :, None] * (STEP * step[chosen, np.arange(n_parts)])[None]
        found = answers.score(now[row, part])  # each answer by the fit without it
        if found > best:
            best, at = found, number
        elif number - at >= PATIENCE:
            break
    return at


def _log_chance(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
