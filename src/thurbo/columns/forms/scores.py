"""§6 Scores of masked answers: accuracy, log score, error, calibration; one record per type of answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from thurbo.columns.cells import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from thurbo.columns.column import Column

LEAST_CHANCE = 1e-12  # smallest probability of the true label, so that log scores are finite
N_BINS = 10
LEVEL = 0.95  # of the intervals of differences
SURPRISING = 2.0  # how much less probable than usual a surprising answer was
MEASURES = ("accuracy", "log_score", "mae", "smae", "rmse", "calibration_error")
RIVALS = ("", "_marginal", "_logistic", "_boosting")

ByRival = dict[str, NDArray[Any]]  # the model's under "", the baselines' under "_marginal", "_logistic", "_boosting"


class Difference(NamedTuple):
    """A mean difference of log scores, model − baseline, its standard error and 95 % interval; None with one row."""

    mean: float
    error: float | None
    low: float | None
    high: float | None


class Tested(NamedTuple):
    """The masked answers of one type, and what the model and each baseline gave for each of them, [answer].

    score       log score: log-probability, or log density in the user's units
    right       1 if the predicted label is the true one, a half in a tie
    absolute    absolute error of the median
    squared     squared error of the mean
    confidence  probability of the predicted label
    below       P(number ≤ truth)
    code        the true label, under ""
    """

    about: str
    kind: str
    answer: str
    row: IntArray  # of every answer
    weight: FloatArray  # of every answer
    score: ByRival
    right: ByRival
    absolute: ByRival
    squared: ByRival
    confidence: ByRival
    below: ByRival
    code: ByRival

    @classmethod
    def of(
        cls, about: str, column: Column, answer: str, row: NDArray[Any], weight: FloatArray, **parts: ByRival
    ) -> Tested:
        """The same with the parts that apply."""
        empty: dict[str, ByRival] = {name: {} for name in cls._fields[5:]}
        return cls(about, column.kind, answer, row, weight, **{**empty, **parts})

    @property
    def record(self) -> dict[str, Any]:
        """Every measure by every method, None if it does not apply; and the differences to the baselines."""
        found: dict[str, float] = {}
        for measure, values in (("accuracy", self.right), ("log_score", self.score), ("mae", self.absolute)):
            found |= {f"{measure}{rival}": self._mean(each) for rival, each in values.items()}
        found |= {f"rmse{rival}": float(np.sqrt(self._mean(each))) for rival, each in self.squared.items()}
        for rival, sure in self.confidence.items():
            found[f"calibration_error{rival}"] = calibration_of_labels(sure, self.right[rival], self.weight)
        for rival, below in self.below.items():
            found[f"calibration_error{rival}"] = calibration_of_numbers(below, self.weight)
        usual = found.get("mae_marginal")
        if usual:
            found |= {f"smae{rival}": found[f"mae{rival}"] / usual for rival in self.absolute}
        measures = {f"{measure}{rival}": found.get(f"{measure}{rival}") for measure in MEASURES for rival in RIVALS}
        about = {"column": self.about, "kind": self.kind, "answer": self.answer, "n": len(self.row)}
        return {**about, **measures, **gains([self])}

    def _mean(self, values: NDArray[Any]) -> float:
        return float(np.average(values, weights=self.weight))


def pooled(tests: Iterable[Tested]) -> list[Tested]:
    """Tests of the same type of answer as one test, for example those of several folds."""
    groups: dict[tuple[str, str, str], list[Tested]] = {}
    for test in tests:
        groups.setdefault(test[:3], []).append(test)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[Tested]) -> Tested:
    row, weight = (np.concatenate([getattr(test, name) for test in group]) for name in ("row", "weight"))
    parts: list[ByRival] = []
    for name in Tested._fields[5:]:
        each: list[ByRival] = [getattr(test, name) for test in group]
        rivals = [rival for rival in each[0] if all(rival in values for values in each)]
        parts.append({rival: np.concatenate([values[rival] for values in each]) for rival in rivals})
    return Tested(*group[0][:3], row, weight, *parts)


def gains(tests: list[Tested]) -> dict[str, float | None]:
    """Mean difference of log scores to each baseline, its standard error and interval; None where there is none."""
    found: dict[str, float | None] = {}
    for rival in RIVALS[1:]:
        known = [test for test in tests if rival in test.score]
        names = [f"gain{rival}{end}" for end in ("", "_se", "_low", "_high")]
        found |= dict(zip(names, difference(*_paired(known, rival)) if known else [None] * 4, strict=True))
    return found


def _paired(tests: list[Tested], rival: str) -> tuple[FloatArray, FloatArray, IntArray]:
    """Difference to a baseline, weight and row of every answer."""
    gain = np.concatenate([test.score[""] - test.score[rival] for test in tests])
    return gain, np.concatenate([test.weight for test in tests]), np.concatenate([test.row for test in tests])


def difference(value: FloatArray, weight: FloatArray, row: NDArray[Any]) -> Difference:
    """Weighted mean of the differences; answers of one row are not independent, so the error is that of rows.

    With r_i the sum of w (value − mean) over row i, the variance is Σ r_i² / (Σ w)² · n / (n − 1); the interval is that
    of Student's t with n − 1 degrees of freedom, n the number of rows with an answer.
    """
    total = weight.sum()
    mean = float(value @ weight / total)
    rows, place = np.unique(row[weight > 0], return_inverse=True)
    n = len(rows)
    if n < 2:
        return Difference(mean, None, None, None)
    sums = np.bincount(place, (weight * (value - mean))[weight > 0], minlength=n)
    error = float(np.sqrt((sums @ sums) * n / (n - 1)) / total)
    reach = float(stdtrit(n - 1, 0.5 + 0.5 * LEVEL)) * error
    return Difference(mean, error, mean - reach, mean + reach)


def tested_labels(
    about: str,
    column: Column,
    answer: str,
    code: IntArray,
    rivals: ByRival,
    weight: FloatArray,
    row: NDArray[Any],
) -> Tested:
    """Scores of labels: P(label) by each method, [answer, label], against the true codes."""
    cells, parts = np.arange(len(code)), dict[str, ByRival]()
    parts["score"] = {rival: np.log(np.maximum(chance[cells, code], LEAST_CHANCE)) for rival, chance in rivals.items()}
    parts["right"] = {rival: (chance.argmax(axis=1) == code).astype(float) for rival, chance in rivals.items()}
    parts["confidence"] = {rival: chance.max(axis=1) for rival, chance in rivals.items()}
    parts["code"] = {"": np.asarray(code)}
    if column.has_order:
        parts["absolute"] = {rival: np.abs(median_level(chance) - code) for rival, chance in rivals.items()}
    return Tested.of(about, column, answer, row, weight, **parts)


def median_level(chances: FloatArray) -> NDArray[Any]:
    """The level at which half of the probability is reached, [row]."""
    return (np.cumsum(chances, axis=1) < 0.5).sum(axis=1).clip(max=chances.shape[1] - 1)


def calibration_bins(tests: Iterable[Tested]) -> list[dict[str, Any]]:
    """Of all labels in ten bins of confidence: `n` answers, mean `predicted` probability and share `observed`."""
    known = [test for test in tests if test.confidence]
    if not known:
        return []
    sure, right = (np.concatenate([getattr(test, part)[""] for test in known]) for part in ("confidence", "right"))
    weight = np.concatenate([test.weight for test in known])
    which, found = np.minimum((sure * N_BINS).astype(int), N_BINS - 1), []
    for place in range(N_BINS):
        own = (which == place) & (weight > 0)
        if own.any():
            predicted, observed = (float(np.average(each[own], weights=weight[own])) for each in (sure, right))
            found.append({"n": int(own.sum()), "predicted": predicted, "observed": observed})
    return found


def surprises(tests: Iterable[Tested], least: int = 3) -> list[dict[str, Any]]:
    """Labels that were given although they were at most half as probable as usual, the largest share first.

    `n` of `of` answers with this label, given by at least `least` rows.
    """
    found = []
    for test in tests:
        if test.answer not in ("label", "favourite") or "" not in test.code or "_marginal" not in test.score:
            continue
        unlikely = test.score[""] < test.score["_marginal"] - np.log(SURPRISING)
        for code in np.unique(test.code[""]).tolist():
            own = test.code[""] == code
            n, of = int((unlikely & own).sum()), int(own.sum())
            if n >= least:
                found.append({"column": test.about, "code": int(code), "n": n, "of": of, "share": n / of})
    return sorted(found, key=lambda each: -each["share"])


def calibration_of_labels(
    confidence: FloatArray, right: BoolArray | FloatArray, weight: FloatArray | None = None
) -> float:
    """Expected calibration error: Σ over ten bins of confidence of share · |mean confidence − share correct|."""
    weight = np.ones(len(right)) if weight is None else weight
    which = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(which, weight * (confidence - right), N_BINS)
    return float(np.abs(gaps).sum() / weight.sum())


def calibration_of_numbers(below: FloatArray, weight: FloatArray | None = None) -> float:
    """Mean of |share of rows with P(z ≤ truth) up to p − p| over p = 0.1, …, 0.9."""
    levels = np.arange(1, N_BINS) / N_BINS
    return float(np.abs(np.average(below[:, None] <= levels, axis=0, weights=weight) - levels).mean())
