"""§4.3 Direct effects: how one answer changes the prediction of another beyond hidden units and factors.

A question that nearly repeats another one would need hidden units of its own. A direct effect adds a number to the
log-probability of each label if another answer is known: in proportion to whether it is a certain one, minus the share
of rows in which it is. Without that answer nothing is added. That a question has an answer can have effects as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.cells import FloatArray
from thurbo.columns.forms.utilities import favourite

ANSWERED = -1  # the part of a column that says whether it has an answer: 1 or 0


class Source(NamedTuple):
    """An answer that has effects: the position of its label, or a number in standard units, is above low, up to high.

    part    position among the `values` of its column, or ANSWERED
    centre  share of such answers among the known ones
    """

    column: str
    part: int
    low: float
    high: float
    centre: float

    def strength(self, known: FloatArray) -> FloatArray:
        """1 − centre for rows with this answer, −centre with another one, 0 if it is not known: [row]."""
        holds = (known > self.low) & (known <= self.high)
        return np.where(np.isnan(known), 0.0, holds - self.centre)


class Effect(NamedTuple):
    """What an answer adds to log P(label) of another question, [label]."""

    source: Source
    tilt: tuple[float, ...]


Effects = Mapping[str, Mapping[int, tuple[Effect, ...]]]  # by question, and by option of a question with several


def values(block: Block) -> FloatArray:
    """What the cells of a column say, as numbers, NaN where it is not known: [row, part].

    The position of the level of each site, a number in standard units, or the position of the preferred label. An
    interval is its middle, or its only end. Lists have no parts.
    """
    if block.entries is not None:
        return np.zeros((block.n_rows, 0))
    if block.family == "levels":
        return np.where((block.code >= 0) & (block.code == block.code_high), block.code, np.nan)
    if block.family == "utility":
        label = favourite(block)[:, None]
        return np.where(label >= 0, label, np.nan)
    low, high = (np.where(np.isfinite(end), end, np.nan) for end in (block.lower, block.upper))
    return np.where(np.isnan(low), high, np.where(np.isnan(high), low, 0.5 * (low + high)))


def tilt(effects: Sequence[Effect], known: Callable[[str, int], FloatArray]) -> FloatArray:
    """What the effects on one answer add to log P(label): [row, label]. `known` gives a part of a column, [row]."""
    strengths = [each.source.strength(known(each.source.column, each.source.part)) for each in effects]
    return np.stack(strengths, axis=1) @ np.asarray([each.tilt for each in effects])
