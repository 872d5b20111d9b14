"""What held-out answers and routing change about the mean of the members' predictions, in one order for every query.

Weights of members → calibration towards the shares of labels → experts → routing and what follows from an answer, which
come last and are not tempered. With one member and nothing learned a correction is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from thurbo.table.columns.cells import Block, FloatArray
from thurbo.table.columns.column import Column
from thurbo.table.columns.continuous import NARROWEST
from thurbo.table.schema.schema import Schema

ANSWERED = -1  # the part of a column that says whether it has an answer: 1 or 0
ROWS_AT_ONCE, MOST_SHOWN = 2000, 5
LEAST_CHANCE = 1e-30
SLACK = 1e-6  # in standard units: an end this close to an edge is the edge
ROUTE_PRIOR = 0.5  # rows of each kind that are added to the counts


class Source(NamedTuple):
    """Something about an answer: the position of its label, or a number in standard units, is above low, up to high."""

    column: str
    part: int  # position among the `answer_values` of its column, or ANSWERED
    low: float
    high: float
    centre: float  # share of such answers among the known ones

    def strength(self, known: FloatArray) -> FloatArray:
        """1 − centre for rows with this answer, −centre with another one, 0 if it is not known: [row]."""
        holds = (known > self.low) & (known <= self.high)
        return np.where(np.isnan(known), 0.0, holds - self.centre)


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


class Trees(NamedTuple):
    """Boosted trees: log P(label) = base + Σ_t value of the leaf of tree t, up to a constant.

    A source that is not known holds to the part that is its share: the row is then in several leaves, by their parts.
    """

    sources: tuple[Source, ...]  # what nodes ask
    split: np.ndarray  # [tree, node] source of each node, those of a level after those of the level above
    value: np.ndarray  # [tree, leaf, label]
    base: np.ndarray  # [label] where the other question of no table is known
    tables: tuple[Conditional, ...]  # the first whose other question is known is the base
    gain: np.ndarray  # [source + table] what each source and then each table has explained in training

    @property
    def used(self) -> dict[str, float]:
        """Parts of the most important questions in what the trees have explained, the largest first."""
        names, found = [each.column for each in self.sources] + [each.by for each in self.tables], dict[str, float]()
        for name, gain in zip(names, self.gain / max(self.gain.sum(), 1e-12), strict=True):
            found[name] = found.get(name, 0.0) + float(gain)
        return dict(sorted(found.items(), key=lambda each: -each[1])[:MOST_SHOWN])

    def predict(self, known: Callable[[str, int], FloatArray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P(label) of some rows, [row, label], and the part of what decides that is known about them, [row]."""
        strength = np.zeros((len(self.sources), len(rows)))
        for place, each in enumerate(self.sources):
            strength[place] = each.strength(known(each.column, each.part)[rows])
        share = np.asarray([each.centre for each in self.sources])[:, None]
        logs, is_known = np.tile(self.base, (len(rows), 1)), [strength.T != 0.0]
        for table in reversed(self.tables):
            chance, has = table.predict(known, rows)
            logs = np.where(has[:, None], np.log(chance), logs)
            is_known.insert(1, has[:, None])
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            inside = in_leaves((strength[:, some] + share).astype(np.float32), self.split)
            logs[some] += inside.reshape(-1, inside.shape[-1]).T @ self.value.reshape(-1, len(self.base))
        return softmax(logs, axis=1), np.concatenate(is_known, axis=1) @ self.gain / max(self.gain.sum(), 1e-12)


def in_leaves(holds: np.ndarray, split: np.ndarray) -> np.ndarray:
    """The part of each row that is in each leaf, [tree, leaf, row], from that of it that holds, [source, row]."""
    (n_trees, n_nodes), n_rows = split.shape, holds.shape[1]
    inside, first = np.ones((n_trees, 1, n_rows), holds.dtype), 0
    while first < n_nodes:
        on = inside * holds[split[:, first : 2 * first + 1]]
        first = 2 * first + 1
        inside = np.stack([inside - on, on], axis=2).reshape(n_trees, first + 1, n_rows)
    return inside


class Conditional(NamedTuple):
    """P(label | answer to one other question)."""

    by: str  # the other question
    edges: np.ndarray  # between the parts of its numbers, in standard units, or between the positions of its labels
    chance: np.ndarray  # [part, label]

    def predict(self, known: Callable[[str, int], FloatArray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P(label) of some rows, [row, label], and whether the other answer is known, [row]."""
        value = known(self.by, 0)[rows]
        return self.chance[np.searchsorted(self.edges, np.nan_to_num(value))], ~np.isnan(value)


class Expert(NamedTuple):
    """Trees beside the members; weight and power are those where all that the trees use is known."""

    trees: Trees
    weight: float
    power: float = 1.0  # of what the mean adds to shares: two calibrated predictions are together surer than their mean

    def mixed(
        self,
        first: np.ndarray,
        known: Callable[[str, int], FloatArray],
        rows: np.ndarray,
        apart: np.ndarray | None = None,
    ) -> np.ndarray:
        """P(label) of some rows by members and trees; `apart` are rows that say nothing else about the question."""
        chance, part = self.trees.predict(known, rows)
        return self.join(first, chance, part if apart is None else part * apart)

    def join(self, first: np.ndarray, chance: np.ndarray, part: np.ndarray) -> np.ndarray:
        """P(label) by members and by trees that know a part of what they use, [row], as one distribution."""
        own = (self.weight * part / (1.0 - self.weight + self.weight * part))[:, None]
        base, logs = self.trees.base, np.log(np.maximum((1.0 - own) * first + own * chance, LEAST_CHANCE))
        return np.asarray(softmax(logs + (self.power - 1.0) * part[:, None] * (logs - base), axis=1))


class TiltedNumbers(NamedTuple):
    """How the bands of a number change: of each line and band, P′(z ≤ t) = offset + ratio · P(z ≤ t)."""

    edges: np.ndarray  # between the bands, in standard units
    ratio: np.ndarray  # [line, band]
    offset: np.ndarray  # [line, band]
    before: np.ndarray  # [line, band] new probability of all lower bands

    @classmethod
    def of(cls, below: np.ndarray, changed: Callable[[np.ndarray], np.ndarray], edges: np.ndarray) -> TiltedNumbers:
        """From P(z ≤ edge), [line, edge]; `changed` gives new probabilities of the bands from the old, [line, band]."""
        ends = np.pad(below, ((0, 0), (1, 1)), constant_values=(0.0, 1.0))
        first = np.maximum(np.diff(ends, axis=1), LEAST_CHANCE)
        chance = changed(first)
        ratio, before = chance / first, np.pad(np.cumsum(chance, axis=1)[:, :-1], ((0, 0), (1, 0)))
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
        columns = tuple(n for n in dict.fromkeys(followed) if schema[n].sites and not schema[n].is_listed)
        if not columns or block is None or not gate.is_one_label or block.family == "measured":
            continue
        label, leads = gate.codes(block), np.asarray([each in skip.values for each in gate.labels])
        answered = np.any([blocks[name].answered for name in columns], axis=0)
        chance = np.zeros(len(leads))
        for side in (False, True):
            rows = (label >= 0) & (leads[label] == side)
            total = weight[rows].sum() + 2 * ROUTE_PRIOR
            chance[leads == side] = (weight[rows] @ answered[rows] + ROUTE_PRIOR) / total
        found[skip.asked_if] = (*found.get(skip.asked_if, ()), Route(columns, tuple(chance.tolist())))
    return found


class Anchor(NamedTuple):
    """Shares of the labels of a column in the training table, by which its predictions are calibrated."""

    shares: np.ndarray  # [site, label]
    tilt: np.ndarray  # [site, label] log of the ratio of these to what is predicted for a row without any answer
    credibility: np.ndarray  # [site] part of what the members add to log shares that is kept


@dataclass(frozen=True)
class Correction:
    """What a model has learned about the predictions of its members, by column."""

    weights: Mapping[str, np.ndarray] = field(default_factory=dict)  # [member], if not those for all columns
    exponents: Mapping[str, float] = field(default_factory=dict)  # powers of probabilities, by kind of column
    anchors: Mapping[str, Anchor] = field(default_factory=dict)
    routes: Routes = field(default_factory=dict)  # what follow-up questions say about their gates
    experts: Mapping[str, Mapping[int, Expert]] = field(default_factory=dict)  # by question and site
    # Answers that follow from a question: `chance` is P(answer | label of this question), as evidence about it.
    follows: Mapping[str, tuple[Conditional, ...]] = field(default_factory=dict)

    def exponent(self, column: Column) -> float:
        """The exponent of a column: that of its kind, or in older files that of its family."""
        shared = self.exponents.get(calibration_family(column), 1.0)
        return shared if column.is_listed else self.exponents.get(column.kind, shared)


def calibration_family(column: Column) -> str:
    """The columns of a schema whose calibration is similar."""
    return "listed" if column.is_listed else column.family
