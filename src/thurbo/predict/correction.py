"""What held-out answers and routing change about the mean of the members' predictions, in one order for every query.

Weights of members → calibration towards the shares of labels → direct effects of other answers → routing, which comes
last and is not tempered. With one member and nothing learned a correction is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from thurbo.table.columns.cells import Block, FloatArray
from thurbo.table.columns.column import Column
from thurbo.table.columns.continuous import NARROWEST
from thurbo.table.schema.schema import Schema

ANSWERED = -1  # the part of a column that says whether it has an answer: 1 or 0


class Source(NamedTuple):
    """An answer that has effects: the position of its label, or a number in standard units, is above low, up to high.

    part    position among the `answer_values` of its column, or ANSWERED
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


def answer_values(block: Block) -> FloatArray:
    """What the cells of a column say, as numbers, NaN where it is not known: [row, part].

    The position of the level of each site, a number in standard units, or the position of the preferred label. An
    interval is its middle, or its only end. Lists have no parts.
    """
    if block.entries is not None:
        return np.zeros((block.n_rows, 0))
    if block.family == "levels":
        return np.where((block.code >= 0) & (block.code == block.code_high), block.code, np.nan)
    if block.family == "utility":
        label = block.label[:, None]
        return np.where(label >= 0, label, np.nan)
    low, high = (np.where(np.isfinite(end), end, np.nan) for end in (block.lower, block.upper))
    return np.where(np.isnan(low), high, np.where(np.isnan(high), low, 0.5 * (low + high)))


def effect_tilt(effects: Sequence[Effect], known: Callable[[str, int], FloatArray]) -> FloatArray:
    """What the effects on one answer add to log P(label): [row, label]. `known` gives a part of a column, [row]."""
    strengths = [each.source.strength(known(each.source.column, each.source.part)) for each in effects]
    return np.stack(strengths, axis=1) @ np.asarray([each.tilt for each in effects])


LEAST_CHANCE = 1e-30
SLACK = 1e-6  # in standard units: an end this close to an edge is the edge


class TiltedNumbers(NamedTuple):
    """How the bands of a number change: of each line and band, P′(z ≤ t) = offset + ratio · P(z ≤ t)."""

    edges: np.ndarray  # between the bands, in standard units
    ratio: np.ndarray  # [line, band]
    offset: np.ndarray  # [line, band]
    before: np.ndarray  # [line, band] new probability of all lower bands

    @classmethod
    def of(cls, below: np.ndarray, tilt: np.ndarray, edges: np.ndarray) -> TiltedNumbers:
        """From P(z ≤ edge), [line, edge], and what is added to the log-probabilities of the bands, [line, band]."""
        ends = np.concatenate([np.zeros((len(below), 1)), below, np.ones((len(below), 1))], axis=1)
        logs = np.log(np.maximum(np.diff(ends, axis=1), LEAST_CHANCE))
        chance = softmax(logs + tilt, axis=1)
        ratio = chance / np.exp(logs)
        before = np.concatenate([np.zeros((len(below), 1)), np.cumsum(chance, axis=1)[:, :-1]], axis=1)
        return cls(edges, ratio, before - ratio * ends[:, :-1], before)

    def below(self, z: np.ndarray, below: np.ndarray) -> np.ndarray:
        """P′(· ≤ z) at common numbers from P(· ≤ z), [line, number]."""
        band = np.searchsorted(self.edges, z)
        return np.clip(self.offset[:, band] + self.ratio[:, band] * below, 0.0, 1.0)

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ratio and offset at one number for each line."""
        lines, band = np.arange(len(z)), np.searchsorted(self.edges, z)
        return self.ratio[lines, band], self.offset[lines, band]


def band_codes(lower: np.ndarray, upper: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The band that contains each interval or point, −1 if it is not inside one.

    An interval that was widened for single precision is where its middle is.
    """
    width = np.where(np.isfinite(upper) & np.isfinite(lower), upper - lower, np.inf)
    is_narrow = width < 1.5 * NARROWEST
    low = lower + np.where(is_narrow, width / 2, SLACK)
    first, last = np.searchsorted(edges, low), np.searchsorted(edges, np.where(is_narrow, low, upper - SLACK))
    return np.where(first == last, first, -1)


def bands_of(block: Block, edges: np.ndarray) -> np.ndarray:
    """The band of each cell, −1 where it is not known."""
    found = band_codes(block.lower[:, 0], block.upper[:, 0], edges)
    return np.where(block.observed[:, 0], found, -1)


ROUTE_PRIOR = 0.5  # rows of each kind that are added to the counts


class Route(NamedTuple):
    """Follow-up questions of a gate, and P(any of them has an answer) by label of the gate."""

    columns: tuple[str, ...]
    answered: tuple[float, ...]

    def likelihood(self, answered: np.ndarray) -> np.ndarray:
        """P(whether there is an answer | label) of each row: [row, label]."""
        chance = np.asarray(self.answered)[None, :]
        return np.where(answered[:, None], chance, 1.0 - chance)


Routes = Mapping[str, tuple[Route, ...]]


def learn_routes(schema: Schema, blocks: Mapping[str, Block], weight: np.ndarray) -> Routes:
    """The routes of every gate with labels, from the rows of a training table."""
    found: dict[str, tuple[Route, ...]] = {}
    for skip in schema.skips:
        gate, block, followed = schema[skip.asked_if], blocks.get(skip.asked_if), list(skip.columns)
        for name in followed:  # grows by the questions that depend on those of the skip
            followed += [each for other in schema.skips if other.asked_if == name for each in other.columns]
        kept = (name for name in dict.fromkeys(followed) if schema[name].sites and not schema[name].is_listed)
        columns, is_label = tuple(kept), gate.is_one_label and block is not None and block.family != "measured"
        values = answer_values(block) if is_label and block is not None else np.zeros((0, 0))
        if not columns or values.shape[1] != 1:
            continue
        label = np.nan_to_num(values[:, 0], nan=-1).astype(np.int64)
        leads = np.asarray([each in skip.values for each in gate.labels])
        answered = np.any([blocks[name].answered for name in columns], axis=0)
        chance = np.zeros(len(leads))
        for side in (False, True):
            rows = (label >= 0) & (leads[label] == side)
            share = (weight[rows] @ answered[rows] + ROUTE_PRIOR) / (weight[rows].sum() + 2 * ROUTE_PRIOR)
            chance[leads == side] = share
        found[skip.asked_if] = (*found.get(skip.asked_if, ()), Route(columns, tuple(chance.tolist())))
    return found


class Anchor(NamedTuple):
    """Shares of the labels of a column in the training table, by which its predictions are calibrated.

    shares       of each label, [site, label]
    tilt         log of the ratio of these to what is predicted for a row without any answer, [site, label]
    credibility  part of what the members add to log shares that is kept, [site]
    """

    shares: np.ndarray
    tilt: np.ndarray
    credibility: np.ndarray


@dataclass(frozen=True)
class Correction:
    """What a model has learned about the predictions of its members.

    weights    of the members for each column, where they differ from those for all columns: [member]
    exponents  powers of probabilities, by kind of column
    anchors    shares of labels
    effects    direct effects of other answers
    routes     what follow-up questions say about their gates
    """

    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    exponents: Mapping[str, float] = field(default_factory=dict)
    anchors: Mapping[str, Anchor] = field(default_factory=dict)
    effects: Effects = field(default_factory=dict)
    routes: Routes = field(default_factory=dict)

    def exponent(self, column: Column) -> float:
        """The exponent of a column: that of its kind, or in older files that of its family."""
        shared = self.exponents.get(calibration_family(column), 1.0)
        return shared if column.is_listed else self.exponents.get(column.kind, shared)


def calibration_family(column: Column) -> str:
    """The columns of a schema whose calibration is similar."""
    return "listed" if column.is_listed else column.family
