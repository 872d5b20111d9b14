"""§4.3 The answers of one column under one model: expectations over the hidden layer, as forms ask for them.

One class for each layout: columns with the same sites in every row, lists of items, and tasks with noise of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from thurbo._once import cached_property
from thurbo.columns.forms import Lines
from thurbo.columns.forms.number import LOG_LEAST_DENSITY, Distribution
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import Buckets, n_slots
from thurbo.queries import distributions
from thurbo.queries.distributions import Function, Moments
from thurbo.rbm import Params

if TYPE_CHECKING:
    from thurbo.queries.question import Question

GRID_POINTS = 1025
GRID_REACH = 5.0  # standard deviations beyond the outermost means
MOST_WEIGHTS = 50_000_000  # maximum of rows times states whose probabilities are cached


def between(below: np.ndarray) -> np.ndarray:
    """P(band) of each answer from P(z ≤ ·) at all lower ends, and then at all upper ends: [answer, band]."""
    lower, upper = np.split(below, 2, axis=1)
    mass = np.maximum(upper - lower, 1e-30)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


@dataclass
class Asked:
    """The answers of one column: see `columns.forms.Ask`."""

    question: Question
    name: str
    lines: Lines
    own: bool  # whether the evidence has the column's own cells, which have to be removed
    first: int  # site of the column

    @property
    def _params(self) -> Params:
        return self.question.params

    @property
    def entry(self) -> np.ndarray:
        """Position of each line's item in the row's list, −1 if the row does not list it: [line]."""
        raise NotImplementedError

    @property
    def is_utility(self) -> bool:
        """Whether the column's sites are utilities of its labels."""
        return self.question.schema[self.name].family == "utility"

    @cached_property
    def _scale(self) -> float:
        return float(np.asarray(self._params.gauge.scale)[self.first])

    def _expect(self, function: Function, sites: np.ndarray, shared: tuple, rowwise: tuple) -> Any:
        raise NotImplementedError

    def _sites(self, site: int = 0) -> np.ndarray:
        """Sites to predict: [asked] for all lines, or [line, asked]."""
        raise NotImplementedError

    def _cuts(self, n_levels: int, site: int) -> tuple[tuple, tuple]:
        """Ends of the levels, as common arguments or as arguments by row."""
        raise NotImplementedError

    def levels(self, n_levels: int, site: int = 0) -> np.ndarray:
        raw = self._expect(distributions.levels, self._sites(site), *self._cuts(n_levels, site))
        return self._routed(np.asarray(raw, np.float64)[:, :n_levels])

    def _routed(self, chance: np.ndarray) -> np.ndarray:
        """Probabilities of labels, [line, label], with what the routing of the questionnaire says about them."""
        found = chance / chance.sum(axis=1, keepdims=True)
        routing = self.question.likelihood(self.name, np.asarray(self.lines.row))
        if routing is None or routing.shape != found.shape:
            return found
        found = found * routing
        return found / found.sum(axis=1, keepdims=True)

    def below(self, z: np.ndarray) -> np.ndarray:
        points = (np.asarray(z) / self._scale).astype(self._params.weights.dtype)
        return np.asarray(self._expect(distributions.below, self._sites(), (points,), ()), np.float64)

    def bands(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return between(self.below(np.concatenate([lower, upper])))

    def number(self) -> Distribution:
        """The distribution on a grid that covers all means that the model can predict there."""
        sites = np.unique(self._sites()) if len(self.lines.row) else np.asarray([self.first])
        weights = np.asarray(self._params.weights, np.float64)[sites]
        bias = np.asarray(self._params.site_bias, np.float64)[sites]
        loadings = np.asarray(self._params.loadings, np.float64)[sites]
        reach = GRID_REACH * np.sqrt(1.0 + (loadings**2).sum(axis=1))
        low = (bias + weights.clip(max=0).sum(axis=1) - reach).min()
        high = (bias + weights.clip(min=0).sum(axis=1) + reach).max()
        grid = self._scale * np.linspace(low, high, GRID_POINTS)
        mean = self.utility()[0] * self._scale
        return Distribution(mean, grid, np.maximum.accumulate(self.below(grid), axis=1))

    def density(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = (np.asarray(z) / self._scale).astype(self._params.weights.dtype)
        density, below = self._expect(distributions.density, self._sites(), (), (points,))
        with np.errstate(divide="ignore"):
            log_density = np.maximum(np.log(np.asarray(density, np.float64)), LOG_LEAST_DENSITY)
        return log_density - np.log(self._scale), np.asarray(below, np.float64)

    def mass(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        ends = ((np.asarray(end) / self._scale).astype(self._params.weights.dtype) for end in (lower, upper))
        return np.asarray(self._expect(distributions.mass, self._sites(), (), tuple(ends)), np.float64)

    def utility(self) -> tuple[np.ndarray, np.ndarray]:
        mean, second = (
            np.asarray(e, np.float64) for e in self._expect(distributions.two_moments, self._sites(), (), ())
        )
        return mean, np.sqrt(np.maximum(second - mean**2, 1e-12))

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def orders(self, tier: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def above(self, one: int, two: int) -> np.ndarray:
        raise NotImplementedError

    def draw_orders(self, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError


class SharedAsked(Asked):
    """A column with the same sites in every row: one answer for each row."""

    def _sites(self, site: int = 0) -> np.ndarray:
        return np.asarray([self.first + site])

    def _cuts(self, n_levels: int, site: int) -> tuple[tuple, tuple]:
        return (distributions.ends(np.asarray(self._params.gauge.cuts)[self.first + site]),), ()

    @cached_property
    def _evidence(self) -> Buckets:
        every = self.question.evidence
        return every if len(self.lines.row) == every.n_rows else every.rows(self.lines.row)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of x at all sites of the column, by mean-field: [row, site] each."""
        where = self.question.schema.slices[self.name]
        if not self.own and not self._has_signals and self.question.known is not None:
            slots, known = self.question.evidence.shared[where], self.question.known
            place = np.ix_(np.asarray(self.lines.row), slots)
            return known.mean[place], known.deviation[place]
        slots = self.question.evidence.shared[where]
        hidden = np.concatenate([slots, self._signals]) if self.own else self._signals
        mean, deviation = self.question.moments(self._evidence, hidden)[:2]
        return mean[:, slots], deviation[:, slots]

    @cached_property
    def _weights(self) -> np.ndarray | None:
        """P(state | all other cells) of each row, [row, state], if memory allows."""
        n_states = 2**self._params.n_hidden * 32**self._params.n_factors
        if n_states * len(self.lines.row) > MOST_WEIGHTS:
            return None
        return self._evidence.by_chunks(
            lambda rows: (
                np.asarray(distributions.state_weights(self._params, rows, self._mask(rows), self.question.how)).T
            )
        )

    def _mask(self, rows: Evidence) -> Any:
        """The column's own slots, which are removed from the evidence."""
        mask = np.zeros(n_slots(rows), bool)
        if self.own:
            mask[self.question.evidence.shared[self.question.schema.slices[self.name]]] = True
        mask[self._signals] = True
        return mask

    @cached_property
    def _signals(self) -> np.ndarray:
        return self.question.signals(self.name)

    @cached_property
    def _has_signals(self) -> bool:
        """Whether any of these rows has evidence that has to be removed, beside the column's own cells."""
        place = np.ix_(np.asarray(self.lines.row), self._signals)
        return bool(len(self._signals) and self.question.seen[place].any())

    def _expect(self, function: Function, sites: np.ndarray, shared: tuple, rowwise: tuple) -> Any:
        how, rowwise = self.question.how, tuple(map(np.asarray, rowwise))
        if how.method == "mean-field":
            own = sites - self.first
            mean, deviation = (each[:, own] for each in self._moments)
            return distributions.at_moments(function, shared, mean, deviation, *rowwise)
        asked: Any = np.asarray(sites, np.int32)
        if how.method == "exact" and self._weights is not None:

            def known(rows: Evidence, weights: Any, *own: Any) -> Any:
                return distributions.of_states(function, self._params, rows, weights.T, asked, shared, own)

            return self._evidence.by_chunks(known, self._weights, *rowwise)
        return self._evidence.by_chunks(
            lambda rows, *own: distributions.of_rest(
                function, self._params, rows, self._mask(rows), asked, shared, own, how
            ),
            *rowwise,
        )

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        where, column = self.question.schema.slices[self.name], self.question.schema[self.name]
        function = distributions.first_choice if column.has_context else distributions.largest
        found = self._expect(function, np.arange(where.start, where.stop), (), ())
        chance, mean = (np.asarray(each, np.float64) for each in found)
        return self._routed(chance), mean


class ListedAsked(Asked):
    """A column of lists: one answer for each line, an item of a row, listed or not."""

    def _sites(self, site: int = 0) -> np.ndarray:
        return (self.first + np.asarray(self.lines.site))[:, None]

    def _cuts(self, n_levels: int, site: int) -> tuple[tuple, tuple]:
        cuts = np.asarray(self._params.gauge.cuts)[self.first + np.asarray(self.lines.site)]
        return (), (distributions.ends(cuts),)

    @cached_property
    def entry(self) -> np.ndarray:
        entries = self.question.blocks[self.name].entries
        assert entries is not None
        if not self.own or not len(entries.site):
            return np.full(len(self.lines.row), -1)
        n_sites = len(self.question.schema[self.name].sites)
        key = entries.row * n_sites + entries.site
        order = np.argsort(key, kind="stable")
        asked = np.asarray(self.lines.row, np.int64) * n_sites + np.asarray(self.lines.site)
        place = np.minimum(np.searchsorted(key[order], asked), len(key) - 1)
        return np.where(key[order][place] == asked, order[place], -1)

    @cached_property
    def _evidence(self) -> Buckets:
        """The evidence of each line: that of its row, without the line's own answer."""
        rest, listed = self.question.evidence.rows(np.asarray(self.lines.row)), np.flatnonzero(self.entry >= 0)
        if not len(listed):
            return rest
        slot = self.question.evidence.entry_slots(self.first)[self.entry[listed]]
        return rest.hide(listed, slot, self.question.how.unobserved).on_host()

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of x at the site of each line, by mean-field: [line, 1] each."""
        known, sites, params = self.question.known, self._sites(), self._params
        fresh = np.ones(len(sites), bool) if known is None else self.entry >= 0
        mean, deviation = np.zeros(sites.shape), np.zeros(sites.shape)
        if not fresh.all():
            assert known is not None
            rows = np.asarray(self.lines.row)[~fresh]
            leaves = [leaf[rows] for leaf in known[2:] if leaf is not None]
            found = distributions.in_portions(partial(distributions.listed_moments, params), sites[~fresh], *leaves)
            mean[~fresh], deviation[~fresh] = found
        if fresh.any():

            def chunk(rows: Evidence, own: Any) -> Moments:
                return distributions.line_moments(params, rows, own.astype(np.int32), self.question.how)

            part = self._evidence if fresh.all() else self._evidence.rows(np.flatnonzero(fresh))
            mean[fresh], deviation[fresh] = part.by_chunks(chunk, sites[fresh])
        dtype = params.weights.dtype
        return mean.astype(dtype), deviation.astype(dtype)

    def _expect(self, function: Function, sites: np.ndarray, shared: tuple, rowwise: tuple) -> Any:
        how, rowwise = self.question.how, tuple(map(np.asarray, rowwise))
        if how.method == "mean-field":
            return distributions.at_moments(function, shared, *self._moments, *rowwise)

        def chunk(rows: Evidence, own: Any, *values: Any) -> Any:
            return distributions.of_lines(function, self._params, rows, own.astype(np.int32), shared, values, how)

        return self._evidence.by_chunks(chunk, sites, *rowwise)

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        """For lines with the same items in every row: P(item is the best of them), [row, item]."""
        n_rows = len(np.unique(self.lines.row))
        mean, deviation = (each.reshape(n_rows, -1) for each in self.utility())
        dtype = self._params.weights.dtype
        found = distributions.at_moments(distributions.largest, (), mean.astype(dtype), deviation.astype(dtype))
        chance, mean = (np.asarray(each, np.float64) for each in found)
        return chance / chance.sum(axis=1, keepdims=True), mean


class TaskAsked(ListedAsked):
    """A column of tasks: a new comparison has noise of its own, so all tasks of the row are evidence about it."""

    @cached_property
    def entry(self) -> np.ndarray:
        return np.full(len(self.lines.row), -1)

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        """For lines with the same items in every row: P(item is chosen from all of them), [row, item]."""
        rows = np.unique(self.lines.row)
        sites = self._sites()[:, 0].reshape(len(rows), -1)
        tier: Any = np.zeros(sites.shape, np.int32)
        chances = []
        for item in range(sites.shape[1]):
            tier[:, :] = 0
            tier[:, item] = 1
            chances.append(np.exp(self._log_chance(rows, sites, tier, is_whole=True)))
        chance = np.stack(chances, axis=1)
        return chance / chance.sum(axis=1, keepdims=True), self.utility()[0].reshape(sites.shape)

    def orders(self, tier: np.ndarray) -> np.ndarray:
        rows = np.asarray(self.lines.row).reshape(tier.shape)[:, 0]
        return self._log_chance(rows, self._sites()[:, 0].reshape(tier.shape), tier)

    def _log_chance(self, rows: np.ndarray, sites: np.ndarray, tier: np.ndarray, is_whole: bool = False) -> np.ndarray:
        """log P(order) of one task of each row."""
        about = self.question.blocks[self.name].tasks
        assert about is not None
        if is_whole:  # one item above all others, in a set of any size
            about = about._replace(size=sites.shape[1], shape=(2, 1), is_choice=True, is_paired=sites.shape[1] == 2)
        how, params = self.question.how, self._params

        def chunk(evidence: Evidence, own: Any, order: Any) -> Any:
            own, order = own.astype(np.int32), order.astype(np.int32)
            return distributions.of_tasks(params, evidence, own, order, how, about)

        chance = self.question.evidence.rows(rows).by_chunks(chunk, sites, tier)
        return np.log(np.maximum(np.asarray(chance, np.float64), 1e-300))
