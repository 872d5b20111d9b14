"""§5 How much of what members say beyond the shares of labels is believed, for each question.

Members that predict little about a question mostly repeat the noise of its answers. Their predictions differ from the
shares of its labels by an information K = mean Σ_l p_l log(p_l / share_l), of which estimation alone gives about one
parameter per answer, c = n_parameters / n_answers. The part K / (K + c) of log(p / share) is kept: nearly all where
answers say much about each other or there are many, little of a category that nothing predicts. Truths are not needed
for it, so that a question with thirty held-out answers has it as well as another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from thurbo.predict.correction import Anchor, calibration_family
from thurbo.predict.evaluate.masked import ColumnTrial
from thurbo.predict.member import MemberAnswers
from thurbo.predict.predictive import Predictive
from thurbo.table.columns.column import Column


def part(chance: np.ndarray, shares: np.ndarray, n_parameters: int, n_answers: float) -> float:
    """The part of log(p / share) that is kept, from predictions [line, label] and the shares of the labels."""
    information = (chance * np.log(np.maximum(chance, 1e-30) / shares)).sum(axis=1).mean()
    return float(information / (information + n_parameters / max(n_answers, 1.0)))


def effective(weight: np.ndarray) -> float:
    """The number of equally weighted answers that say as much as these: (Σ w)² / Σ w², and not more than Σ w."""
    return min(float(weight.sum()), float(weight.sum() ** 2 / max(float(weight @ weight), 1e-12)))


def anchors(
    trials: Sequence[Mapping[str, ColumnTrial]],
    column_weights: Mapping[str, np.ndarray],
    shares: Mapping[str, Anchor | None],
    n_answers: Mapping[str, float],
) -> dict[str, Anchor | None]:
    """The shares of labels with the credibility of each question, from predictions of its held-out answers.

    `trials` are these answers, put to each member. A question without any has the mean credibility of the others.
    Rankings stay as they are.
    """
    first = next(iter(trials[0].values())).rest
    known, found = dict[str, np.ndarray](), dict(shares)
    wanted = {name: own for name, own in shares.items() if own is not None and _has_labels(first.schema[name])}
    for name, anchor in wanted.items():
        if name in trials[0]:
            asks, column = cast(list[MemberAnswers], [each[name].ask for each in trials]), first.schema[name]
            kind = calibration_family(column)
            chance = Predictive(column, asks, column_weights[name], anchor=anchor).labels(kind)
            n_free = anchor.shares.shape[1] - 1 if kind == "utility" else 1  # utilities, or one place on a scale
            own = [part(each, anchor.shares[site], n_free, n_answers[name]) for site, each in chance.items()]
            known[name] = np.asarray(own)
    usual = float(np.mean(np.concatenate(list(known.values())))) if known else 1.0
    for name, anchor in wanted.items():
        found[name] = anchor._replace(credibility=known.get(name, np.full(len(anchor.shares), usual)))
    return found


def _has_labels(column: Column) -> bool:
    """Whether an answer is one of a few labels, or several options."""
    return calibration_family(column) == "levels" or column.is_one_label
