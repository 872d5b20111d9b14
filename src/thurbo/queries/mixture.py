"""§4.3 Predictive distributions of several members: weighted means of those of each, calibrated on held-out answers.

`Mixture` is a `Question` that asks every member. Forms see one distribution, so that no form knows about members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from thurbo._once import cached_property
from thurbo.columns.forms import Lines
from thurbo.columns.forms.number import Distribution
from thurbo.queries import direct_effects
from thurbo.queries.asked import GRID_POINTS, Asked, between
from thurbo.queries.features import How
from thurbo.queries.question import Question
from thurbo.queries.tilted_numbers import LEAST_CHANCE, TiltedNumbers, codes


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
class Mixture(Question):
    """The question of the leading member, whose schema and cells count, and those of all members with their weights."""

    questions: tuple[Question, ...] = ()
    weights: np.ndarray = field(default_factory=lambda: np.ones(1))
    column_weights: Mapping[str, np.ndarray] = field(default_factory=dict)  # where they differ from `weights`
    exponents: Mapping[str, float] = field(default_factory=dict)  # calibration by kind of column
    anchors: Mapping[str, Anchor] = field(default_factory=dict)
    effects: direct_effects.Effects = field(default_factory=dict)
    silent: Collection[str] = ()  # columns that the table does not have: that they have no answers says nothing
    places: np.ndarray | None = None  # of the rows in `blocks`, if they are only some of these

    @cached_property
    def _n_answers(self) -> np.ndarray:
        """Number of answers of each row, [row]."""
        return np.sum([self._answered(name) for name in self.schema.modelled], axis=0)

    def _answered(self, name: str) -> np.ndarray:
        if self.schema[name].is_listed:
            return np.zeros(self.evidence.n_rows, bool)
        return np.asarray(self.seen[:, self.evidence.shared[self.schema.slices[name]]].any(axis=1))

    def about(self, name: str, lines: Lines | None = None, own: bool = True) -> Any:
        asks = [each.about(name, lines, own) for each in self.questions]
        weights = self.column_weights.get(name, self.weights)
        found = MixedAsk(asks, weights, exponent(self.exponents, self, name), self.anchors.get(name))
        if found.anchor is not None:
            others = (self._n_answers - (self._answered(name) if own else 0))[found.lines.row]
            found.emptiness = 1.0 / (1.0 + others)
        if self.effects.get(name):
            found.tilt = partial(self._tilt, name, found.lines.row)
            found.edges = effect_edges(self, name)
        return found

    def _tilt(self, name: str, rows: np.ndarray, site: int) -> np.ndarray | None:
        """What direct effects add to the log-probabilities of labels, [line, label]."""
        effects = self.effects[name].get(site)
        if not effects:
            return None
        # A row without other answers is nobody's: what it does not answer says nothing.
        apart = [self._answered(each) for each in self.schema.modelled if each in (name, *self.given)]
        is_somebody = (self._n_answers - np.sum(apart, axis=0))[rows] > 0

        def known(column: str, part: int) -> np.ndarray:
            found = self._known(column, part)[rows]
            return np.where(is_somebody, found, np.nan) if part == direct_effects.ANSWERED else found

        return direct_effects.tilt(effects, known)

    def _known(self, name: str, part: int) -> np.ndarray:
        """A part of what a column says, NaN where it is not part of the evidence: [row]."""
        if (name, part) not in self._kept:
            if part == direct_effects.ANSWERED:
                found = np.where(name in self.silent, np.nan, self._answered(name))
            else:
                found = direct_effects.values(self.blocks[name])[:, part]
                found = found if self.places is None else found[self.places]
                slots = self.evidence.shared[self.schema.slices[name]]
                own = slots[part : part + 1] if self.schema[name].family == "levels" else slots
                found = np.where(self.seen[:, own].any(axis=1), found, np.nan)
            self._kept[name, part] = found
        return self._kept[name, part]

    @cached_property
    def _kept(self) -> dict[tuple[str, int], np.ndarray]:
        return {}

    def rows(self, index: np.ndarray) -> Mixture:
        rest = super().rows(index)
        places = index if self.places is None else self.places[index]
        questions = tuple(each.rows(index) for each in self.questions)
        return replace(self, evidence=rest.evidence, questions=questions, places=places)

    def by(self, how: How) -> Mixture:
        return replace(self, how=how, questions=tuple(each.by(how) for each in self.questions))

    def hide(self, masked: Mapping[str, np.ndarray]) -> Mixture:
        rest = super().hide(masked)
        return replace(self, evidence=rest.evidence, questions=tuple(each.hide(masked) for each in self.questions))


def divided(weight: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The weights of groups, divided among the members of each."""
    return np.repeat(weight / np.asarray(sizes), sizes)


def family(question: Question, name: str) -> str:
    """The columns of a schema whose calibration is similar."""
    column = question.schema[name]
    return "listed" if column.is_listed else column.family


def effect_edges(question: Question, name: str) -> np.ndarray | None:
    """Between the bands of a number on which answers have direct effects, in standard units; None for labels."""
    column: Any = question.schema[name]
    return column.effect_edges if family(question, name) == "measured" else None


def exponent(exponents: Mapping[str, float], question: Question, name: str) -> float:
    """The exponent of a column: that of its kind, or in older files that of its family."""
    shared = exponents.get(family(question, name), 1.0)
    return shared if question.schema[name].is_listed else exponents.get(question.schema[name].kind, shared)


class MixedAsk:
    """The answers of one column by all members: see `columns.forms.Ask`."""

    # Of each line: 1 for a row without other answers, falling with their number.
    emptiness: np.ndarray | float = 0.0
    # What direct effects add to the log-probabilities of a site's labels, [line, label].
    tilt: Callable[[int], np.ndarray | None] | None = None
    edges: np.ndarray | None = None  # between the bands of a number, for which `tilt` is

    def __init__(self, asks: Sequence[Asked], weights: np.ndarray, exponent: float = 1.0, anchor: Anchor | None = None):
        self.asks, self.weights, self.exponent, self.anchor = asks, weights, exponent, anchor
        self._levels: dict[tuple[int, int], np.ndarray] = {}

    @property
    def lines(self) -> Lines:
        return self.asks[0].lines

    @property
    def entry(self) -> np.ndarray:
        return self.asks[0].entry

    def _mean(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(sum(weight * part for weight, part in zip(self.weights, parts, strict=True)))

    def _calibrated(self, chance: np.ndarray, site: int = 0) -> np.ndarray:
        """A power of what the evidence adds to the shares of labels; rows without evidence have these shares."""
        power = self.exponent * (1.0 if self.anchor is None else self.anchor.credibility[site])
        logs = power * np.log(np.maximum(chance, 1e-30))
        if self.anchor is not None:
            logs = logs + (1.0 - power) * np.log(self.anchor.shares[site])
            logs = logs + np.asarray(self.emptiness).reshape(-1, 1) * self.anchor.tilt[site]
        return self._tilted(logs, site)

    def _tilted(self, logs: np.ndarray, site: int = 0) -> np.ndarray:
        """Probabilities of labels with what direct effects add to their logarithms."""
        effects = None if self.tilt is None else self.tilt(site)
        logs = logs if effects is None else logs + effects
        raised = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def levels(self, n_levels: int, site: int = 0) -> np.ndarray:
        """Members may have a utility for each level: then the probability that it is the largest."""
        if (n_levels, site) not in self._levels:
            parts = [each.largest()[0] if each.is_utility else each.levels(n_levels, site) for each in self.asks]
            self._levels[n_levels, site] = self._mean(parts)
        return self._calibrated(self._levels[n_levels, site], site)

    def labels(self, family: str) -> dict[int, np.ndarray]:
        """Probabilities of the labels of each site of a column with an anchor, [line, label] each."""
        assert self.anchor is not None
        if family == "utility":
            return {0: self.largest()[0]}
        n_sites, n_levels = self.anchor.shares.shape
        return {site: self.levels(n_levels, site) for site in range(n_sites)}

    def _below(self, z: np.ndarray) -> np.ndarray:
        return self._mean([each.below(z) for each in self.asks])

    @cached_property
    def _numbers(self) -> TiltedNumbers | None:
        """What direct effects change about a number; None without effects."""
        if self.edges is None or self.tilt is None or (effects := self.tilt(0)) is None:
            return None
        return TiltedNumbers.of(self._below(self.edges), effects, self.edges)

    def below(self, z: np.ndarray) -> np.ndarray:
        found = self._below(z)
        return found if self._numbers is None else self._numbers.below(z, found)

    def bands(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return self._tilted(np.log(between(self._below(np.concatenate([lower, upper])))))

    def split(self, edges: np.ndarray) -> np.ndarray:
        """P(band) between and beyond some numbers, without direct effects: [line, band]."""
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        return between(self._below(np.concatenate([ends[:-1], ends[1:]])))

    def number(self) -> Distribution:
        own = [each.number() for each in self.asks]
        grid = np.linspace(min(each.grid[0] for each in own), max(each.grid[-1] for each in own), GRID_POINTS)
        mean = self._mean([each.mean for each in own])
        found = Distribution(mean, grid, np.maximum.accumulate(self.below(grid), axis=1))
        return found if self._numbers is None else found._replace(mean=found.average(lambda z: z))

    def density(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = [each.density(z) for each in self.asks]
        logs = logsumexp(np.stack([each[0] for each in own]), axis=0, b=self.weights[:, None])
        below = self._mean([each[1] for each in own])
        if self._numbers is None:
            return logs, below
        ratio, offset = self._numbers.at(z)
        return logs + np.log(np.maximum(ratio, LEAST_CHANCE)), np.clip(offset + ratio * below, 0.0, 1.0)

    def mass(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        found = self._mass(lower, upper)
        if self._numbers is None:
            return found
        edges, ratio, before = self._numbers.edges, self._numbers.ratio, self._numbers.before
        lines, band = np.arange(len(lower)), codes(lower, upper, edges)
        own = found * ratio[lines, band]
        if (band >= 0).all():
            return own
        # Over several bands: what is in the first, all of those between, and what is in the last.
        first, last = np.searchsorted(edges, lower), np.searchsorted(edges, upper)
        start = self._mass(lower, np.minimum(upper, edges[np.minimum(first, len(edges) - 1)]))
        end = self._mass(np.maximum(lower, edges[np.maximum(last - 1, 0)]), upper)
        between_them = before[lines, last] - before[lines, np.minimum(first + 1, len(edges))]
        wide = ratio[lines, first] * start + between_them + ratio[lines, last] * end
        return np.where(band >= 0, own, np.maximum(wide, LEAST_CHANCE))

    def _mass(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return self._mean([each.mass(lower, upper) for each in self.asks])

    def utility(self) -> tuple[np.ndarray, np.ndarray]:
        own = [each.utility() for each in self.asks]
        mean = self._mean([each[0] for each in own])
        second = self._mean([each[1] ** 2 + each[0] ** 2 for each in own])
        return mean, np.sqrt(np.maximum(second - mean**2, 1e-12))

    def orders(self, tier: np.ndarray) -> np.ndarray:
        logs = np.stack([each.orders(tier) for each in self.asks])
        return logsumexp(logs, axis=0, b=self.weights[:, None])

    @cached_property
    def _largest(self) -> tuple[np.ndarray, np.ndarray]:
        own = [each.largest() for each in self.asks]
        return self._mean([each[0] for each in own]), self._mean([each[1] for each in own])

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        chance, mean = self._largest
        return self._calibrated(chance), mean

    def above(self, one: int, two: int) -> np.ndarray:
        raise NotImplementedError

    def draw_orders(self, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError
