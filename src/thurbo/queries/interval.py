"""§4.3 Central intervals: between which values an answer lies, given all other cells of its row.

Of a number, from the predictive distribution with equal tails; of ordered levels, whole levels whose equal tails are
cut as far as the probability that was asked for allows.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from thurbo.columns import MeasuredColumn
from thurbo.columns.labels import natural
from thurbo.errors import ThurboError
from thurbo.evidence.buckets import Packed
from thurbo.queries import answers, predict
from thurbo.rbm import Params
from thurbo.schema import Schema


def interval(params: Params, schema: Schema, evidence: Packed, name: str, level: Any, how: predict.How) -> np.ndarray:
    """The two ends [row, 2] of the central interval of each row: numbers in the user's units, or labels."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ThurboError(f"level={level!r} is not a probability; give a number above 0 and below 1, such as 0.9")
    column = schema[name]
    if isinstance(column, MeasuredColumn):
        found = predict.measured(params, evidence, answers.target(schema, name), how)
        tail = 0.5 * (1.0 - float(level))
        return np.stack([column.to_user(found.quantile(share)) for share in (tail, 1.0 - tail)], axis=1)
    if column.has_order:
        low, high = central_levels(answers.probabilities(params, schema, evidence, name, how), float(level))
        return np.stack([natural(column.labels, low), natural(column.labels, high)], axis=1)
    raise ThurboError(
        f'column "{name}" is {column.kind} and has no order for an interval to follow; '
        "ask for a number or an ordinal column, or use predict_proba"
    )


def central_levels(chances: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """First and last level [row] of the smallest central run that holds at least `level` of the probability.

    Central: both tails are cut at the same probability. It is raised as long as enough remains inside.
    """
    below = np.cumsum(chances, axis=1) - chances  # P(lower than this level)
    above = 1.0 - below - chances  # P(higher)
    # The run changes only where the cut reaches one of the tails; beyond a half it would be empty.
    cuts = np.concatenate([np.zeros((len(chances), 1)), below, above], axis=1)
    cuts = np.where(cuts < 0.5, cuts, 0.0).clip(min=0.0)
    tolerance = 1e-9
    outside_left = below[:, None, :] + chances[:, None, :] <= cuts[:, :, None] + tolerance
    outside_right = above[:, None, :] + chances[:, None, :] <= cuts[:, :, None] + tolerance
    inside = ~(outside_left | outside_right)
    held = (inside * chances[:, None, :]).sum(axis=2)
    best = np.where(held >= level - tolerance, cuts, -1.0).argmax(axis=1)
    run = inside[np.arange(len(chances)), best]
    return run.argmax(axis=1), run.shape[1] - 1 - run[:, ::-1].argmax(axis=1)
