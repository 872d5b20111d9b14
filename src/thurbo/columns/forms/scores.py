"""§6 Scores of masked answers: accuracy, log score, error, calibration; one record per type of answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from thurbo.columns.column import Column

LEAST_CHANCE = 1e-12  # smallest probability of the true label, so that log scores are finite
N_BINS = 10
MEASURES = ("accuracy", "log_score", "mae", "smae", "rmse", "calibration_error")
RIVALS = ("", "_marginal", "_logistic")

ByRival = dict[str, NDArray[Any]]  # the model's under "", the baselines' under "_marginal" and "_logistic"


class Tested(NamedTuple):
    """The scores of one type of answer: its record; by method the log score of each answer and the weight correct."""

    record: dict[str, Any]
    scores: ByRival
    right: dict[str, float]
    weight: FloatArray  # of every answer


def record(
    about: str, kind: str, answer: str, n: int, scores: ByRival, found: Mapping[str, float], weight: FloatArray
) -> dict[str, Any]:
    """One record of the result: every measure by every method, None if it does not apply."""
    means = {f"log_score{rival}": float(np.average(each, weights=weight)) for rival, each in scores.items()}
    usual = found.get("mae_marginal")
    ratios = {f"smae{rival}": found[f"mae{rival}"] / usual for rival in scores} if usual else {}
    found = {**found, **means, **ratios}
    measures = {f"{measure}{rival}": found.get(f"{measure}{rival}") for measure in MEASURES for rival in RIVALS}
    return {"column": about, "kind": kind, "answer": answer, "n": n, **measures}


def tested_labels(
    about: str, column: Column, answer: str, code: IntArray, rivals: ByRival, weight: FloatArray
) -> Tested:
    """Scores of labels: P(label) by each method, [answer, label], against the true codes."""
    cells = np.arange(len(code))
    right = {rival: chance.argmax(axis=1) == code for rival, chance in rivals.items()}
    scores = {rival: np.log(np.maximum(chance[cells, code], LEAST_CHANCE)) for rival, chance in rivals.items()}
    found = {f"accuracy{rival}": float(np.average(hits, weights=weight)) for rival, hits in right.items()}
    for rival, chance in rivals.items():
        found[f"calibration_error{rival}"] = calibration_of_labels(chance.max(axis=1), right[rival], weight)
        if column.has_order:
            found[f"mae{rival}"] = float(np.average(np.abs(median_level(chance) - code), weights=weight))
    line = record(about, column.kind, answer, len(code), scores, found, weight)
    return Tested(line, scores, {rival: float(hits @ weight) for rival, hits in right.items()}, weight)


def median_level(chances: FloatArray) -> NDArray[Any]:
    """The level at which half of the probability is reached, [row]."""
    return (np.cumsum(chances, axis=1) < 0.5).sum(axis=1).clip(max=chances.shape[1] - 1)


def calibration_of_labels(confidence: FloatArray, right: BoolArray, weight: FloatArray | None = None) -> float:
    """Expected calibration error: Σ over ten bins of confidence of share · |mean confidence − share correct|."""
    weight = np.ones(len(right)) if weight is None else weight
    which = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(which, weight * (confidence - right), N_BINS)
    return float(np.abs(gaps).sum() / weight.sum())


def calibration_of_numbers(below: FloatArray, weight: FloatArray | None = None) -> float:
    """Mean of |share of rows with P(z ≤ truth) up to p − p| over p = 0.1, …, 0.9."""
    levels = np.arange(1, N_BINS) / N_BINS
    return float(np.abs(np.average(below[:, None] <= levels, axis=0, weights=weight) - levels).mean())
