"""§4.3 One member and the rows of a table: its predictive distribution of any answer, given the rest of the row.

`MemberQuery` combines a table and a member; `about(name)` gives what the form of a column needs: expectations over the
hidden layer of functions of the mean and deviation of x at some sites. By mean-field the moments are computed once; by
enumeration and by Gibbs sampling the function is averaged over states. One class of answers for each layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo._concurrency import cached_property
from thurbo.latent.evidence import ROW_BUCKETS, Buckets, Evidence, Unobserved
from thurbo.latent.packing import Padding
from thurbo.latent.rbm import Params
from thurbo.predict import moments
from thurbo.predict.correction import Routes
from thurbo.predict.moments import Function, How
from thurbo.table.columns.cells import Block
from thurbo.table.columns.forms import Ask, Lines
from thurbo.table.columns.forms.form import log_of
from thurbo.table.columns.forms.number import LOG_LEAST_DENSITY, Distribution
from thurbo.table.schema.schema import Schema

GRID_POINTS = 1025
GRID_REACH = 5.0  # standard deviations beyond the outermost means
MOST_WEIGHTS = 50_000_000  # maximum of rows times states whose probabilities are cached
SMALL, FEW_ROWS = 2048, 128  # rows of a small survey, and of one chunk: one program for a few rows and for all of it


class Known(NamedTuple):
    """The mean-field posterior given all cells of each row, on the host: enough to predict any missing cell."""

    mean: np.ndarray  # of x at the shared slots, [row, slot]
    deviation: np.ndarray
    hidden: np.ndarray | None = None  # of the hidden layer, for items of lists; None without lists
    factors: np.ndarray | None = None
    whitener: np.ndarray | None = None


@dataclass(frozen=True)
class MemberQuery:
    """A member and the evidence of a table."""

    params: Params
    schema: Schema
    blocks: Mapping[str, Block]
    evidence: Buckets
    how: How
    routes: Routes = field(default_factory=dict)  # of gates, about which follow-up questions say something: `signals`
    shaped: dict[Any, Params] = field(default_factory=dict, repr=False, compare=False)  # by `_shaped`, for all queries
    is_alone: bool = False  # whether the table that is asked about has one row, as that of one user of a service

    @cached_property
    def known(self) -> Known | None:
        """The posterior of each row; None if inequalities may constrain a missing cell, or if states are averaged."""
        is_whole = self.how.method == "mean-field" and not self.evidence.spans_cells
        return self.moments(self.evidence) if is_whole else None

    @cached_property
    def _is_independent(self) -> bool:
        """Whether no answer says anything about another one: then the predictions are the same in all rows."""
        parts = self.params.weights, self.params.loadings
        return not self.evidence.lists and not any(np.any(np.asarray(each)) for each in parts)

    @cached_property
    def _shaped(self) -> tuple[Padding | None, Params]:
        """The common shape of tables of similar size, if this is one, and the parameters in it.

        As new arrays: for those that are bound to a device, as some that programs return, JAX would compile again.
        """
        padding = Padding.of(self.evidence)
        key = None if padding is None else (padding.n_slots, padding.place.tobytes())
        if key not in self.shaped:
            params = self.params if padding is None else padding.params(self.params)
            self.shaped[key] = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)), params)
        return padding, self.shaped[key]

    def moments(self, evidence: Buckets, hidden: Any = ()) -> Known:
        """Moments at all shared slots by mean-field given what some rows say, except for the slots `hidden`.

        These are hidden on the host, so that all columns share one program, and so do other rows than the table's own.
        """
        if self._is_independent and evidence.n_rows > 1:
            one = self.moments(evidence.rows(np.zeros(1, np.int64)), hidden)
            return Known(*(np.broadcast_to(leaf, (evidence.n_rows, *leaf.shape[1:])) for leaf in one[:2]))
        (padding, params), keep = self._shaped, bool(self.evidence.lists)
        slots = np.flatnonzero(self.evidence.shared >= 0) if padding is None else np.arange(padding.n_slots)
        sites: Any = slots.astype(np.int32)

        def rest(bucket: Evidence) -> Evidence:
            bucket = moments.without_slots(bucket, hidden, self.how)
            return bucket if padding is None else padding.evidence(bucket)

        # Some rows of a table are asked like all of them, so that they share a program.
        on_cpu = jax.default_backend() == "cpu"
        is_large = self.evidence.n_rows > (SMALL if on_cpu else FEW_ROWS)
        few = (1 if self.is_alone and evidence.n_rows == 1 else FEW_ROWS) if on_cpu else None
        at_once = ROW_BUCKETS[-1] if is_large else few
        chunks = evidence.on_host().replaced(rest)
        found = chunks.by_chunks(lambda rows: moments.all_moments(params, rows, sites, self.how, keep), rows=at_once)
        return Known(*(found if padding is None else (each[:, padding.place] for each in found)))

    def signals(self, name: str) -> np.ndarray:
        """Slots that only say whether this one question was answered: no evidence about its answer.

        Of a gate also those that say whether its follow-up questions were answered: routing has this evidence.
        """
        follow = {each for route in self.routes.get(name, ()) for each in route.columns}
        patterned = {other: column.patterned for other, column in self.schema.items() if column.patterned}
        own = [self.slots(other) for other, of in patterned.items() if of == (name,) or follow.issuperset(of)]
        return np.concatenate([np.zeros(0, np.int64), *own]).astype(np.int64)

    def slots(self, name: str) -> np.ndarray:
        """Slots of a question that is no list."""
        return self.evidence.shared[self.schema.slices[name]]

    @cached_property
    def seen(self) -> np.ndarray:
        """Which slots of columns that all rows share have evidence, [row, slot]."""
        first = int((self.evidence.shared >= 0).sum())  # those of lists come after them
        return np.asarray(self.evidence.by_chunks(lambda rows: moments.observed(rows)[:, :first]))

    def about(self, name: str, lines: Lines | None = None, own: bool = True) -> MemberAnswers:
        """The answers of a column, of all rows or of some lines; with `own`, the evidence has their cells."""
        column = self.schema[name]
        _ = column.form  # raises an error for a column that is not part of the model
        if not column.is_listed:
            rows = np.arange(self.evidence.n_rows) if lines is None else np.asarray(lines.row)
            return SharedAnswers(self, name, Lines(rows, np.zeros(len(rows), np.int64)), own)
        if lines is None:
            lines = Lines(self.blocks[name].lists.row, self.blocks[name].lists.site)
        return (TaskAnswers if column.has_tasks else ListedAnswers)(self, name, lines, own)

    def hide(self, masked: Mapping[str, np.ndarray]) -> MemberQuery:
        """The same table without the answers at the given lines of columns, [line] each."""
        masked = with_patterns(self.schema, self.blocks, masked)
        return replace(self, evidence=without(self.schema, self.blocks, self.evidence, masked, self.how.unobserved))


def without(
    schema: Schema,
    blocks: Mapping[str, Block],
    evidence: Buckets,
    masked: Mapping[str, np.ndarray],
    unobserved: Unobserved,
    always: bool = False,
) -> Buckets:
    """Evidence without what columns say at some lines, [line] each; `always` as in `Buckets.hide`."""
    row, slot = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, lines in masked.items():
        where, entries = schema.slices[name], blocks[name].entries
        if entries is not None:
            row.append(entries.row[lines])
            slot.append(evidence.entry_slots(where.start)[lines])
        else:
            places, own = np.flatnonzero(lines), evidence.shared[where]
            row.append(np.repeat(places, len(own)))
            slot.append(np.tile(own, len(places)))
    return evidence.hide(np.concatenate(row), np.concatenate(slot), unobserved, always).on_host()


def with_patterns(
    schema: Schema, blocks: Mapping[str, Block], masked: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Masked answers, [line] by question, with what says that questions were answered if all their answers are."""
    found = dict(masked)
    for name, column in schema.items():
        if column.patterned:
            kept = [blocks[q].answered & ~masked.get(q, False) for q in column.patterned if q in blocks]
            found[name] = (blocks[name].code[:, 0] == 1) & ~np.any(kept, axis=0)
    return found


def between(below: np.ndarray) -> np.ndarray:
    """P(band) of each answer from P(z ≤ ·) at all lower ends, and then at all upper ends: [answer, band]."""
    lower, upper = np.split(below, 2, axis=1)
    return normalised(np.maximum(upper - lower, 1e-30))


def normalised(chance: np.ndarray) -> np.ndarray:
    """Probabilities that sum to one, [line, label]."""
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


@dataclass
class MemberAnswers(Ask):
    """The answers of one column."""

    query: MemberQuery
    name: str
    lines: Lines
    own: bool  # whether the evidence has the column's own cells, which have to be removed
    bands_at: np.ndarray | None = None

    def __post_init__(self) -> None:
        self._params, self._column = self.query.params, self.query.schema[self.name]
        self.first = self.query.schema.slices[self.name].start  # site of the column

    @cached_property
    def entry(self) -> np.ndarray:
        """Position of each line's item in the row's list, −1 if the row does not list it: [line]."""
        return np.full(len(self.lines.row), -1)

    @property
    def is_utility(self) -> bool:
        """Whether the column's sites are utilities of its labels."""
        return self._column.family == "utility"

    @cached_property
    def _scale(self) -> float:
        return float(np.asarray(self._params.gauge.scale)[self.first])

    def _sites(self, site: int = 0) -> np.ndarray:
        """Sites to predict: [asked] for all lines, or [line, asked]."""
        raise NotImplementedError

    def _moments_at(self, sites: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of x at these sites given the rest of each row, by mean-field."""
        raise NotImplementedError

    def _averaged(self, function: Function, sites: np.ndarray, shared: tuple, rowwise: tuple) -> Any:
        """The mean of a function of moments over states of the hidden layer."""
        raise NotImplementedError

    @cached_property
    def moments_of_x(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of x at all sites of a column that is no list, by mean-field: [row, site] each."""
        raise NotImplementedError

    def above(self, one: int, two: int) -> np.ndarray:
        """P(item above another item), [row]."""
        raise NotImplementedError

    def draw_orders(self, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError("orders are drawn from a `Predictive`")

    def _expect(self, function: Function, sites: np.ndarray, shared: tuple = (), rowwise: tuple = ()) -> Any:
        """E[function of the moments at these sites | the rest of each row], in double precision."""
        if self.query.how.method == "mean-field":
            return in_double(moments.at_moments(function, shared, *self._moments_at(sites), *rowwise))
        return in_double(self._averaged(function, sites, shared, rowwise))

    def levels(self, n_levels: int, site: int = 0) -> np.ndarray:
        sites = self._sites(site)
        ends = moments.ends(np.asarray(self._params.gauge.cuts)[sites[..., 0]])
        raw = self._expect(moments.levels, sites, *(((ends,), ()) if sites.ndim == 1 else ((), (ends,))))
        return normalised(raw[:, :n_levels])

    def _standard(self, z: np.ndarray) -> np.ndarray:
        return (np.asarray(z) / self._scale).astype(self._params.weights.dtype)

    def below(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(self._expect(moments.below, self._sites(), (self._standard(z),)))

    def bands(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return between(self.below(np.concatenate([lower, upper])))

    @property
    def ends(self) -> tuple[float, float]:
        """Beyond all numbers of the answers, in standard units: ends of a grid."""
        sites = np.unique(self._sites()) if len(self.lines.row) else np.asarray([self.first])
        every = self._params.site_bias, self._params.weights, self._params.loadings
        bias, weights, loadings = (np.asarray(each, np.float64)[sites] for each in every)
        reach = GRID_REACH * np.sqrt(1.0 + (loadings**2).sum(axis=1))
        low = (bias + weights.clip(max=0).sum(axis=1) - reach).min()
        high = (bias + weights.clip(min=0).sum(axis=1) + reach).max()
        return float(self._scale * low), float(self._scale * high)

    @property
    def mean(self) -> np.ndarray:
        """Mean of each number, in standard units."""
        return self.utility()[0] * self._scale

    def number(self) -> Distribution:
        grid = np.linspace(*self.ends, GRID_POINTS)
        return Distribution(self.mean, grid, np.maximum.accumulate(self.below(grid), axis=1))

    def density(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        density, below = self._expect(moments.density, self._sites(), (), (self._standard(z),))
        with np.errstate(divide="ignore"):
            log_density = np.maximum(np.log(density), LOG_LEAST_DENSITY)
        return log_density - np.log(self._scale), below

    def mass(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        ends = self._standard(lower), self._standard(upper)
        return np.asarray(self._expect(moments.mass, self._sites(), (), ends))

    def utility(self) -> tuple[np.ndarray, np.ndarray]:
        mean, second = self._expect(moments.two_moments, self._sites())
        return mean, np.sqrt(np.maximum(second - mean**2, 1e-12))


class SharedAnswers(MemberAnswers):
    """A column with the same sites in every row: one answer for each row."""

    def _sites(self, site: int = 0) -> np.ndarray:
        return np.asarray([self.first + site])

    @cached_property
    def _evidence(self) -> Buckets:
        every = self.query.evidence
        return every if np.array_equal(self.lines.row, np.arange(every.n_rows)) else every.rows(self.lines.row)

    @cached_property
    def _hidden(self) -> np.ndarray:
        """Slots that are removed from the evidence: the column's own, and those that only say that it has an answer."""
        own, signals = self.query.slots(self.name), self.query.signals(self.name)
        return np.concatenate([own, signals]) if self.own else signals

    @cached_property
    def moments_of_x(self) -> tuple[np.ndarray, np.ndarray]:
        slots, rows = self.query.slots(self.name), np.asarray(self.lines.row)
        if not self.own and self.query.known is not None and not self.query.seen[np.ix_(rows, self._hidden)].any():
            known, place = self.query.known, np.ix_(rows, slots)
            return known.mean[place], known.deviation[place]
        found = self.query.moments(self._evidence, self._hidden)
        return found.mean[:, slots], found.deviation[:, slots]

    def _moments_at(self, sites: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, deviation = self.moments_of_x
        return mean[:, sites - self.first], deviation[:, sites - self.first]

    def _rest(self, rows: Evidence) -> Evidence:
        return moments.without_slots(rows, self._hidden, self.query.how)

    @cached_property
    def _weights(self) -> np.ndarray | None:
        """P(state | all other cells) of each row, [row, state], if they are enumerated and memory allows."""
        n_states = 2**self._params.n_hidden * 32**self._params.n_factors
        if self.query.how.method != "exact" or n_states * len(self.lines.row) > MOST_WEIGHTS:
            return None
        return self._evidence.by_chunks(
            lambda rows: np.asarray(moments.state_weights(self._params, self._rest(rows))).T
        )

    def _averaged(self, function: Function, sites: np.ndarray, shared: tuple, rowwise: tuple) -> Any:
        params, at, how = self._params, sites.astype(np.int32), self.query.how
        if self._weights is None:
            return self._evidence.by_chunks(
                lambda rows, *own: moments.of_evidence(function, params, self._rest(rows), at, shared, own, how),
                *rowwise,
            )
        return self._evidence.by_chunks(
            lambda rows, weights, *own: moments.of_states(function, params, rows, weights.T, at, shared, own),
            self._weights,
            *rowwise,
        )

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        function = moments.first_choice if self._column.has_context else moments.largest
        chance, mean = self._expect(function, self.first + np.arange(len(self._column.sites)))
        return normalised(chance), mean

    def orders(self, tier: np.ndarray) -> np.ndarray:
        """log P(order of all items) of each row: tiers [row, item], −1 for items that take no part."""
        sites, own = self.first + np.arange(len(self._column.sites)), tier.astype(np.int32)
        as_log = self.query.how.method == "mean-field"
        found: np.ndarray = self._expect(moments.order(own, False, as_log), sites, (), (own,))
        return found if as_log else log_of(found)

    def above(self, one: int, two: int) -> np.ndarray:
        zero = np.zeros((len(self.lines.row), 2), self._params.weights.dtype)
        return np.asarray(self._expect(moments.pair, self.first + np.asarray([one, two]), (), (zero,)))


class ListedAnswers(MemberAnswers):
    """A column of lists: one answer for each line, an item of a row, listed or not."""

    def _sites(self, site: int = 0) -> np.ndarray:
        return (self.first + np.asarray(self.lines.site))[:, None]

    @cached_property
    def entry(self) -> np.ndarray:
        entries = self.query.blocks[self.name].lists
        if not self.own or not len(entries.site):
            return np.full(len(self.lines.row), -1)
        n_sites = len(self._column.sites)
        key = entries.row * n_sites + entries.site
        order = np.argsort(key, kind="stable")
        asked = np.asarray(self.lines.row, np.int64) * n_sites + np.asarray(self.lines.site)
        place = np.minimum(np.searchsorted(key[order], asked), len(key) - 1)
        return np.where(key[order][place] == asked, order[place], -1)

    @cached_property
    def _evidence(self) -> Buckets:
        """The evidence of each line: that of its row, without the line's own answer."""
        rest, listed = self.query.evidence.rows(np.asarray(self.lines.row)), np.flatnonzero(self.entry >= 0)
        if not len(listed):
            return rest
        slot = self.query.evidence.entry_slots(self.first)[self.entry[listed]]
        return rest.hide(listed, slot, self.query.how.unobserved).on_host()

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of x at the site of each line, by mean-field: [line, 1] each."""
        known, sites, params = self.query.known, self._sites(), self._params
        fresh = np.ones(len(sites), bool) if known is None else self.entry >= 0
        mean, deviation = np.zeros(sites.shape, params.weights.dtype), np.zeros(sites.shape, params.weights.dtype)
        if not fresh.all():
            assert known is not None
            rows = np.asarray(self.lines.row)[~fresh]
            leaves = [leaf[rows] for leaf in known[2:] if leaf is not None]
            found = moments.in_portions(partial(moments.listed_moments, params), sites[~fresh], *leaves)
            mean[~fresh], deviation[~fresh] = found
        if fresh.any():
            part = self._evidence if fresh.all() else self._evidence.rows(np.flatnonzero(fresh))
            ask = partial(moments.line_moments, params, how=self.query.how)
            mean[fresh], deviation[fresh] = part.by_chunks(ask, sites[fresh].astype(np.int32))
        return mean, deviation

    def _moments_at(self, sites: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._moments

    def _averaged(self, function: Function, sites: np.ndarray, shared: tuple, rowwise: tuple) -> Any:
        return self._over_states(self._evidence, function, sites, shared, rowwise)

    def _over_states(self, given: Buckets, function: Function, sites: np.ndarray, shared: tuple, rowwise: tuple) -> Any:
        params, how = self._params, self.query.how
        return given.by_chunks(
            lambda rows, at, *own: moments.of_evidence(function, params, rows, at, shared, own, how),
            sites.astype(np.int32),
            *rowwise,
        )

    def _together(self, function: Function, rows: np.ndarray, sites: np.ndarray, *rowwise: np.ndarray) -> Any:
        """E[function of the moments at several sites of each row | all that the row says], in double precision."""
        if self.query.how.method != "mean-field":
            return in_double(self._over_states(self.query.evidence.rows(rows), function, sites, (), rowwise))
        lines = Lines(np.repeat(rows, sites.shape[1]), sites.reshape(-1) - self.first)
        own = (each.reshape(sites.shape) for each in ListedAnswers(self.query, self.name, lines, False)._moments)
        return in_double(moments.at_moments(function, (), *own, *rowwise))

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        """For lines with the same items in every row: P(item is the best of them), [row, item]."""
        n_rows, dtype = len(np.unique(self.lines.row)), self._params.weights.dtype
        own = (each.reshape(n_rows, -1).astype(dtype) for each in self.utility())
        chance, mean = in_double(moments.at_moments(moments.largest, (), *own))
        return normalised(chance), mean

    def orders(self, tier: np.ndarray) -> np.ndarray:
        """log P(order of a row's items): tiers [row, item], −1 for padding; lines are rows times items."""
        own, as_log = tier.astype(np.int32), self.query.how.method == "mean-field"
        rows, sites = np.asarray(self.lines.row).reshape(tier.shape)[:, 0], self._sites()[:, 0].reshape(tier.shape)
        found: np.ndarray = self._together(moments.order(own, True, as_log), rows, sites, own)
        return found if as_log else log_of(found)

    def above(self, one: int, two: int) -> np.ndarray:
        """By latent utilities, which count from the first cut of each item if scores are levels."""
        rows, sites = np.asarray(self.lines.row), self.first + np.asarray([one, two])
        cuts = np.asarray(self._params.gauge.cuts)[sites, 0]
        zero = np.where(self._column.n_cuts > 0, cuts, 0.0).astype(self._params.weights.dtype)
        both = np.broadcast_to(sites, (len(rows), 2)), np.broadcast_to(zero, (len(rows), 2))
        return np.asarray(self._together(moments.pair, rows, *both))


class TaskAnswers(ListedAnswers):
    """A column of tasks: a new comparison has noise of its own, so all tasks of the row are evidence about it."""

    entry = MemberAnswers.entry  # no line is one of the row's own

    def _choices(self, rows: np.ndarray, sites: np.ndarray) -> np.ndarray:
        """P(item is above all others in a new comparison without a tie), [row, item]."""
        tiers = (np.broadcast_to(one, sites.shape) for one in np.eye(sites.shape[1], dtype=np.int32))
        logs = [self._log_chance(rows, sites, tier, is_whole=True) for tier in tiers]
        return normalised(np.exp(np.stack(logs, axis=1)))

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        """For lines with the same items in every row: P(item is chosen from all of them), [row, item]."""
        rows = np.unique(self.lines.row)
        sites = self._sites()[:, 0].reshape(len(rows), -1)
        return self._choices(rows, sites), self.utility()[0].reshape(sites.shape)

    def orders(self, tier: np.ndarray) -> np.ndarray:
        rows = np.asarray(self.lines.row).reshape(tier.shape)[:, 0]
        return self._log_chance(rows, self._sites()[:, 0].reshape(tier.shape), tier)

    def above(self, one: int, two: int) -> np.ndarray:
        rows = np.asarray(self.lines.row)
        return self._choices(rows, np.tile(self.first + np.asarray([one, two]), (len(rows), 1)))[:, 0]

    def _log_chance(self, rows: np.ndarray, sites: np.ndarray, tier: np.ndarray, is_whole: bool = False) -> np.ndarray:
        """log P(order) of one task of each row."""
        about, how, params = self.query.blocks[self.name].tasks, self.query.how, self._params
        assert about is not None
        if is_whole:  # one item above all others, in a set of any size
            about = about._replace(size=sites.shape[1], shape=(2, 1), is_choice=True, is_paired=sites.shape[1] == 2)

        ask = partial(moments.of_tasks, params, how=how, about=about)
        return log_of(self.query.evidence.rows(rows).by_chunks(ask, sites.astype(np.int32), tier.astype(np.int32)))


def in_double(found: Any) -> Any:
    """One array or several in double precision."""
    return jax.tree.map(lambda each: np.asarray(each, np.float64), found)
