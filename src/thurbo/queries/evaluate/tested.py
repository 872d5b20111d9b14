"""§6 What every test of hidden answers shares: the setting it is made in, and the record it ends in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns import Block
from thurbo.evidence import Evidence
from thurbo.queries import predict
from thurbo.queries.evaluate.evaluation import MEASURES, RIVALS
from thurbo.rbm import Params
from thurbo.schema import Schema

LEAST_CHANCE = 1e-12  # of a label that came true; a log score has to be finite
N_BINS = 10

ByRival = dict[str, np.ndarray]  # the model's under "", the yardsticks' under "_marginal" and "_logistic"


class Setting(NamedTuple):
    """One model and one table with some answers hidden: what every column's test needs."""

    params: Params
    schema: Schema
    blocks: Mapping[str, Block]
    rest: Evidence  # without the hidden answers, on the host
    hidden: dict[str, np.ndarray]  # by column: whose answer is hidden, [row]
    how: predict.How
    rng: np.random.RandomState
    features: dict[str, np.ndarray] | None  # of each column where it is shown; None without regressions
    weight: np.ndarray  # how much each row counts, [row]
    shared: predict.Belief | None = None  # what the rest of each row says, for all its hidden answers alike

    def known(self, rows: np.ndarray) -> predict.Belief | None:
        """What the rest of these rows says, where it was asked before."""
        return None if self.shared is None else predict.Belief(*(leaf[rows] for leaf in self.shared))


class Tested(NamedTuple):
    """The test of one kind of answer: its record, and by rival the log score of every answer and the weight right."""

    record: dict[str, Any]
    scores: ByRival
    right: dict[str, float]
    weight: np.ndarray  # of every answer


def inputs(setting: Setting, name: str) -> np.ndarray | None:
    """Features of all other columns, [row, feature]; None where no regression is wanted or possible."""
    if setting.features is None:
        return None
    others = [values for other, values in setting.features.items() if other != name]
    return np.concatenate(others, axis=1) if others else None


def record(
    about: str, kind: str, answer: str, n: int, scores: ByRival, found: Mapping[str, float], weight: np.ndarray
) -> dict[str, Any]:
    """One line of the result: every measure by every rival, None where there is none."""
    means = {f"log_score{rival}": float(np.average(each, weights=weight)) for rival, each in scores.items()}
    usual = found.get("mae_marginal")
    ratios = {f"smae{rival}": found[f"mae{rival}"] / usual for rival in scores} if usual else {}
    found = {**found, **means, **ratios}
    measures = {f"{measure}{rival}": found.get(f"{measure}{rival}") for measure in MEASURES for rival in RIVALS}
    return {"column": about, "kind": kind, "answer": answer, "n": n, **measures}


def overall(tests: list[Tested], hide: float) -> dict[str, Any]:
    """Means over all hidden answers; pairs of a ranking, which are no answers of their own, stay out."""
    cells = [test for test in tests if test.scores]
    labels = [test for test in cells if test.right]
    n_labels = sum(test.record["n"] for test in labels)
    total = sum(float(test.weight.sum()) for test in labels)
    found: dict[str, Any] = {
        "n_cells": sum(test.record["n"] for test in cells),
        "n_labels": n_labels,
        "n_numbers": sum(test.record["n"] for test in cells) - n_labels,
        "share": float(hide),
    }
    for rival in RIVALS:
        right = [test.right[rival] for test in labels if rival in test.right]
        complete = bool(labels) and len(right) == len(labels)
        found[f"accuracy{rival}"] = float(sum(right) / total) if complete else None
    for rival in RIVALS:
        scores = [test.scores[rival] for test in cells if rival in test.scores]
        whole = bool(cells) and len(scores) == len(cells)
        found[f"log_score{rival}"] = _mean_and_error(scores, [test.weight for test in cells])[0] if whole else None
    for rival in RIVALS[1:]:
        known = [test for test in cells if rival in test.scores]
        gains = [test.scores[""] - test.scores[rival] for test in known]
        found[f"gain{rival}"], found[f"gain{rival}_se"] = _mean_and_error(gains, [test.weight for test in known])
    return found


def _mean_and_error(values: list[np.ndarray], weights: list[np.ndarray]) -> tuple[float | None, float | None]:
    """Weighted mean of all values, and its standard error; none where there is no value."""
    if not values:
        return None, None
    value, weight = np.concatenate(values), np.concatenate(weights)
    weight = weight / weight.sum()
    mean = float(value @ weight)
    return mean, float(np.sqrt((weight**2) @ (value - mean) ** 2))
