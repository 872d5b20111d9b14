"""§8 Lists by Bayesian factorisation: draws of the parameters of rows and items from their posterior distribution.

The mean of a score is α_i + V_iᵀ z_u + G_uᵀ g_i + s_u: factors z of rows with loadings V of items, and, if they are
asked for, binary hidden units g of items with weights G of rows. Given g, the scores of a row are the standard model;
given z and G, those of an item are. The sampler works in a thread of its own while other members are trained: first
without the held-out answers, which weigh the draws against the other members, then with all answers. Each draw is a
member.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import sparse
from scipy.special import expit, logit, ndtr, ndtri

from thurbo._concurrency import cached_property
from thurbo.errors import SchemaWarning
from thurbo.fit import members
from thurbo.fit.fitting import Data
from thurbo.fit.planning import FitSettings
from thurbo.latent.rbm import Params
from thurbo.predict.model import MemberSettings

N_FACTORS = 16  # the last of them is a row's mean score: all items have the same loading
BETWEEN = 5  # sweeps from one draw to the next
BURN_IN, MOST_BURN_IN, USUAL_ENTRIES = 60, 300, 500_000  # sweeps before the first draw: more where they are cheap
FIRST_PRECISION, FIRST_RIDGE = 100.0, 1.0  # of the factors of items, and of effects
LEAST, SHAPE, RATE = 1e-9, 1.0, 1e-2  # of probabilities; prior of precisions
TOLERANCE, MOST_STEPS = 1e-2, 40  # of conjugate gradients
UNITS_ALONE = 20  # sweeps without loadings, which would take in all that units of items can explain
EVERY = 2  # sweeps from one draw of the effects to the next: they change slowly, and take half of the time
ROWS_AT_ONCE = 4096  # whose matrices are factorised at a time


class ListedEntries(NamedTuple):
    """The lists of a table: one line for each listed item, sorted by row and then by item."""

    row: np.ndarray
    item: np.ndarray
    level: np.ndarray  # from 0 ...
    highest: np.ndarray  # ... to this one, if a cell allows several
    n_rows: int
    n_items: int
    n_levels: int

    def without(self, hidden: np.ndarray) -> ListedEntries:
        """Without some lines."""
        return self._replace(**{name: getattr(self, name)[~hidden] for name in ("row", "item", "level", "highest")})


class Draw(NamedTuple):
    """One draw of the parameters; the prior mean of a row's factors is n^-½ Σ U_i over the n items it lists."""

    bias: np.ndarray  # α [item]
    loadings: np.ndarray  # V [item, factor]
    presence: np.ndarray  # U [item, factor]
    cuts: np.ndarray  # θ [level − 1]
    effects: np.ndarray  # of attributes on α (first column) and V, [attribute, 1 + factor]


class _Link:
    """What is known about rows or items, X, and its effects B on their factors: N(X B, Λ⁻¹), B ~ N(0, (μ Λ)⁻¹)."""

    def __init__(
        self, features: list[sparse.csr_matrix], n: int, n_factors: int, fixed: int, before: _Link | None
    ) -> None:
        """Effects and precisions are those of an earlier link, if there is one."""
        ones = sparse.csr_matrix(np.ones((n, 1), np.float32))
        self.features = sparse.hstack([ones, *features], format="csr").astype(np.float32)
        self.transposed = self.features.T.tocsr()
        self.effects = np.zeros((self.features.shape[1], n_factors), np.float32)
        self.precision = np.full(n_factors, FIRST_PRECISION)
        self.precision[:fixed] = 1.0
        self.fixed = fixed  # factors whose precision is 1: the scale of the others tells
        self.ridge = FIRST_RIDGE  # μ
        self.mean = np.zeros((n, n_factors), np.float32)
        if before is not None:
            self.effects, self.precision, self.ridge = before.effects, before.precision, before.ridge
            self.mean = before.mean
        self._diagonal = np.asarray(self.features.multiply(self.features).sum(axis=0)).ravel()

    def draw(self, rng: np.random.Generator, factors: np.ndarray) -> None:
        """Draw B, μ and Λ given the factors of all rows or items."""
        (n, n_features), deviation = self.features.shape, 1.0 / np.sqrt(self.precision)
        noise = rng.standard_normal(factors.shape) * deviation
        own = rng.standard_normal(self.effects.shape) * deviation
        wanted = self.transposed @ (factors + noise).astype(np.float32) + np.sqrt(self.ridge) * own
        self.effects = self._solve(wanted.astype(np.float32))
        self.mean = self.features @ self.effects
        rest, size = ((factors - self.mean) ** 2).sum(axis=0), (self.effects**2).sum(axis=0)
        found = rng.gamma(SHAPE + 0.5 * (n + n_features), 1.0 / (RATE + 0.5 * (rest + self.ridge * size)))
        self.precision[self.fixed :] = found[self.fixed :]
        if n_features > 1:  # of the constants nothing is learned about the others
            total = RATE + 0.5 * float((self.precision * (self.effects[1:] ** 2).sum(axis=0)).sum())
            self.ridge = float(rng.gamma(SHAPE + 0.5 * self.effects[1:].size, 1.0 / total))

    def _solve(self, wanted: np.ndarray) -> np.ndarray:
        """(XᵀX + μ I)⁻¹ `wanted` for all factors at once, by conjugate gradients from the last effects."""
        scale = (1.0 / (self._diagonal + self.ridge))[:, None].astype(np.float32)
        found = self.effects.copy()

        def times(value: np.ndarray) -> np.ndarray:
            return self.transposed @ (self.features @ value) + np.float32(self.ridge) * value

        rest = wanted - times(found)
        step = scale * rest
        power = (rest * step).sum(axis=0)
        enough = TOLERANCE**2 * np.maximum((scale * wanted * wanted).sum(axis=0), 1e-12)
        for _ in range(MOST_STEPS):
            if (power <= enough).all():
                break
            moved = times(step)
            length = power / np.maximum((step * moved).sum(axis=0), 1e-20)
            found += length * step
            rest -= length * moved
            towards = scale * rest
            new = (rest * towards).sum(axis=0)
            step = towards + new / np.maximum(power, 1e-20) * step
            power = new
        return found


class Sampler:
    """The state of the sampler: factors of rows (z, G, s) and of items (V, α), units of items, links, and the cuts."""

    of_rows: _Link
    of_items: _Link

    def __init__(
        self,
        entries: ListedEntries,
        attributes: np.ndarray | None = None,
        presence: bool = True,
        seed: int = 0,
        n_units: int = 0,
    ) -> None:
        self.rng, self.presence, self.n_sweeps = np.random.default_rng(seed), presence, 0
        self.known = [] if attributes is None else [sparse.csr_matrix(attributes.astype(np.float32))]
        shares = np.cumsum(np.bincount(entries.level, minlength=entries.n_levels) + 1.0)
        self.cuts = ndtri(shares[:-1] / shares[-1])
        self.rows = 0.1 * self.rng.standard_normal((entries.n_rows, N_FACTORS + n_units)).astype(np.float32)
        self.items = 0.1 * self.rng.standard_normal((entries.n_items, N_FACTORS)).astype(np.float32)
        self.units = (self.rng.random((entries.n_items, n_units)) < 0.5).astype(np.float32)
        self.rate = np.full(n_units, 0.5)  # P(g = 1)
        self.observe(entries)

    def observe(self, entries: ListedEntries) -> None:
        """Take these entries in place of the former ones; the state stays."""
        self.entries = entries
        ones, shape = np.ones(len(entries.row), np.float32), (entries.n_rows, entries.n_items)
        self.by_row = sparse.csr_matrix((ones, (entries.row, entries.item)), shape)
        self.by_item = self.by_row.T.tocsr()
        self.order_of_items = np.lexsort((entries.row, entries.item))
        listed, raters = ([_in_proportion(each)] * self.presence for each in (self.by_row, self.by_item))
        before = getattr(self, "of_rows", None), getattr(self, "of_items", None)
        self.of_rows = _Link(listed, entries.n_rows, self.rows.shape[1], N_FACTORS - 1, before[0])
        if before[0] is None:
            self.of_rows.precision[N_FACTORS - 1 : -1] = 1.0
        self.of_items = _Link([*raters, *self.known], entries.n_items, N_FACTORS, 0, before[1])

    def sweep(self) -> None:
        """Draw x, the factors of rows, factors and units of items, and the effects and precisions of both."""
        row, item, weights = self.entries.row, self.entries.item, slice(N_FACTORS - 1, self.rows.shape[1] - 1)
        loadings = np.concatenate([self.items[:, :-1], self.units, self.items[:, -1:]], axis=1)
        mean = np.einsum("nk,nk->n", self.rows[row, :-1], loadings[item, :-1])
        mean += self.rows[row, -1] + loadings[item, -1]
        x = self._latent(mean)
        self.rows = self._factors(self.by_row, loadings, x - loadings[item, -1], self.of_rows)
        others, rest = np.delete(self.rows, weights, axis=1), x - self.rows[row, -1]
        of_units = np.einsum("nk,nk->n", self.rows[row, weights], self.units[item])
        self.items = self._factors(self.by_item, others, (rest - of_units)[self.order_of_items], self.of_items)
        if self.units.size:
            if self.n_sweeps < UNITS_ALONE:
                self.items[:, :-1] = 0.0
            rest -= np.einsum("nk,nk->n", others[row, :-1], self.items[item, :-1]) + self.items[item, -1]
            self._draw_units(rest, self.rows[:, weights])
        self.n_sweeps += 1
        if self.n_sweeps % EVERY == 0:
            self.of_rows.draw(self.rng, self.rows)
            if not self.units.size or self.n_sweeps > UNITS_ALONE:
                self.of_items.draw(self.rng, self.items)

    def _draw_units(self, rest: np.ndarray, weights: np.ndarray) -> None:
        """The units of items, one after the other, given what else leaves of x and the weights of rows; their rates."""
        (row, item), n_items = (self.entries.row, self.entries.item), len(self.units)
        rest = rest - np.einsum("nk,nk->n", weights[row], self.units[item])
        for k, own in enumerate(weights[row].T):
            rest += own * self.units[item, k]
            log_odds = np.bincount(item, own * (rest - 0.5 * own), n_items) + logit(self.rate[k])
            self.units[:, k] = self.rng.random(n_items) < expit(log_odds)
            rest -= own * self.units[item, k]
        n_on = self.units.sum(axis=0)
        self.rate = self.rng.beta(1.0 + n_on, 1.0 + n_items - n_on)

    def _latent(self, mean: np.ndarray) -> np.ndarray:
        """x within its cuts, which make one scoring step towards their maximum likelihood before."""
        lowest, highest = self.entries.level, self.entries.highest
        cuts = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        lower, upper = cuts[lowest] - mean, cuts[highest + 1] - mean
        mass = np.maximum(ndtr(upper) - ndtr(lower), LEAST)
        above, below = _density(upper) / mass, _density(lower) / mass
        n = len(self.cuts)
        slope = np.bincount(highest, above, n + 1)[:n] - np.bincount(lowest, below, n + 1)[1:]
        curve = np.bincount(highest, above**2, n + 1)[:n] + np.bincount(lowest, below**2, n + 1)[1:]
        self.cuts = np.maximum.accumulate(self.cuts + slope / np.maximum(curve, 1e-6))
        cuts = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        start, end = ndtr(cuts[lowest] - mean), ndtr(cuts[highest + 1] - mean)
        place = start + self.rng.random(len(mean)) * (end - start)
        return mean + ndtri(np.clip(place, LEAST, 1.0 - LEAST))

    def _factors(self, listed: sparse.csr_matrix, others: np.ndarray, target: np.ndarray, link: _Link) -> np.ndarray:
        """Factors given x and those of the other side; the last one adds to x without a loading."""
        design = np.concatenate([others[:, :-1], np.ones((len(others), 1), np.float32)], axis=1)
        n_factors = design.shape[1]
        first, second = np.triu_indices(n_factors)  # of a symmetric matrix
        pairs = design[:, first] * design[:, second]
        residual = sparse.csr_matrix((target.astype(np.float32), listed.indices, listed.indptr), listed.shape)
        pull = residual @ design + link.mean * link.precision.astype(np.float32)
        found = np.empty_like(pull)
        for begin in range(0, len(pull), ROWS_AT_ONCE):
            part = slice(begin, begin + ROWS_AT_ONCE)
            half = listed[part] @ pairs
            precision = np.empty((len(half), n_factors, n_factors))
            precision[:, first, second] = precision[:, second, first] = half
            precision += np.diag(link.precision)
            root = np.linalg.cholesky(precision)
            noise = self.rng.standard_normal((len(root), n_factors, 1))
            # (L Lᵀ)⁻¹ (pull + L ε): the mean plus noise with this covariance, by one solution.
            found[part] = np.linalg.solve(precision, pull[part, :, None] + root @ noise)[:, :, 0]
        return found

    def draw(self) -> Draw:
        """The parameters of the current state: constants of the prior of rows are part of the biases."""
        first, scale = self.of_rows.effects[0], 1.0 / np.sqrt(self.of_rows.precision)
        items = np.concatenate([self.items[:, :-1], self.units, np.ones_like(self.items[:, -1:])], axis=1)
        n_known, n_own = sum(each.shape[1] for each in self.known), self.items.shape[1] - 1
        own = self.of_items.effects[len(self.of_items.effects) - n_known :]
        others = np.zeros((n_known, items.shape[1] - n_own))  # attributes say nothing about units
        own = np.column_stack([own[:, -1] + own[:, :-1] @ first[:n_own], own[:, :-1], others])
        found = self.items[:, -1] + items @ first, items * scale, self.of_rows.effects[1:] / scale, self.cuts, own
        return Draw(*(each.astype(np.float32) for each in found))

    @property
    def burn_in(self) -> int:
        """Sweeps until the state no longer depends on its start: more for small tables, where they are cheap."""
        share = USUAL_ENTRIES / max(len(self.entries.row), 1)
        return int(np.clip(BURN_IN * share**0.5, BURN_IN, MOST_BURN_IN))

    def draws(self, n: int, burn_in: int) -> Iterator[Draw | None]:
        """`n` draws after a burn-in; None after every other sweep, for progress."""
        for number in range(1, burn_in + n * BETWEEN + 1):
            self.sweep()
            is_kept = number > burn_in and (number - burn_in) % BETWEEN == 0
            yield self.draw() if is_kept else None


def _density(value: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * value * value) / np.sqrt(2.0 * np.pi)


def _in_proportion(listed: sparse.csr_matrix) -> sparse.csr_matrix:
    """n^-½ for each of the n entries of a row."""
    number = np.maximum(np.diff(listed.indptr), 1)
    return sparse.csr_matrix(sparse.diags(1.0 / np.sqrt(number)) @ listed)


LEAST_ENTRIES = 2000  # below which nothing is drawn
TO_WEIGH = 8  # draws that held-out answers weigh
AGAIN = 10  # sweeps with all answers before the first draw that is kept
HALF = 0.5  # share of a time limit after which sampling ends


def column(chosen: FitSettings, data: Data) -> str | None:
    """The list whose parameters can be drawn: the only list of a table, if its scores are levels.

    There must be enough entries, equal weights of all rows, and sizes that the user has not chosen.
    """
    is_free = chosen.n_hidden == chosen.n_factors == "auto" and chosen.max_epochs != 0
    if not is_free or len(data.schema.listed) != 1:
        return None
    (name,) = data.schema.listed
    own, entries = data.schema[name], data.blocks[name].entries
    is_able = own.family == "levels" and not own.has_tasks and own.learning_settings.get("draws", 0) > 0
    is_enough = entries is not None and len(entries.site) >= LEAST_ENTRIES and bool((data.relative_weight == 1).all())
    return name if is_able and is_enough else None


class Drawing:
    """A sampler at work: `result` are draws without the held-out answers, `last` those with all answers."""

    def __init__(self, chosen: FitSettings, data: Data, name: str, hidden: np.ndarray, seed: int) -> None:
        self.chosen, self.data, self.name = chosen, data, name
        block = data.blocks[name]
        own = data.schema[name]
        known = block.code[:, 0] >= 0
        numbers = block.n_rows, len(own.labels), own.n_cuts + 1
        lines = (block.lists.row, block.lists.site, block.code[:, 0], block.code_high[:, 0])
        row, item, low, high = (np.asarray(each)[known].astype(np.int64) for each in lines)
        order = np.lexsort((item, row))
        self.entries = ListedEntries(row[order], item[order], low[order], high[order], *numbers)
        shown = self.entries.without(hidden[known][order])
        self.seconds = None if chosen.max_time is None else HALF * float(chosen.max_time)
        self.stopped, self.done, self.began = threading.Event(), 0, time.perf_counter()
        design = own.design
        attributes, n_units = None if design is None else design.matrix, int(chosen.item_units)
        self.member = MemberSettings(0, N_FACTORS + n_units, 0.0, is_draw=True)
        self.sampler = Sampler(shown, attributes, bool(chosen.presence), seed, n_units)
        self.of = self.sampler.burn_in + TO_WEIGH * BETWEEN
        self._pool = ThreadPoolExecutor(1)
        self._work: Future[list[Draw]] = self._pool.submit(self._run, TO_WEIGH, self.sampler.burn_in)

    def _run(self, n: int, burn_in: int) -> list[Draw]:
        found: list[Draw] = []
        for each in self.sampler.draws(n, burn_in):
            self.done += 1
            if each is not None:
                found.append(each)
            late = self.seconds is not None and time.perf_counter() - self.began > self.seconds
            if self.stopped.is_set() or late:
                break
        return found

    def result(self, on_epoch: Callable[[dict[str, Any]], None]) -> list[Params]:
        """The draws, when they are there; fewer, or none, if the sampler had to stop."""
        try:
            while True:
                figure = f"posterior draws of the parameters of {self.name}"
                on_epoch({"stage": "sampling", "done": self.done, "of": self.of, "figure": figure})
                try:
                    return [self._params(each) for each in self._work.result(timeout=1.0)]
                except TimeoutError:
                    continue
        except KeyboardInterrupt:
            self.stopped.set()
            return [self._params(each) for each in self._work.result()]

    def last(self, on_epoch: Callable[[dict[str, Any]], None]) -> list[Params]:
        """Draws with all answers; none if the sampler had to stop."""
        if self.stopped.is_set() or self.seconds is not None:
            return []
        self.sampler.observe(self.entries)
        n = int(self.data.schema[self.name].learning_settings["draws"])
        self.done, self.of = 0, AGAIN + n * BETWEEN
        self._work = self._pool.submit(self._run, n, AGAIN)
        return self.result(on_epoch)

    def stop(self) -> None:
        """End the sampler after its sweep."""
        self.stopped.set()
        self._pool.shutdown(wait=True)

    @cached_property
    def alone(self) -> Params:
        """The model without dependence, as large as a draw."""
        return members.independent(self.chosen, self.data, (0, self.member.n_factors))

    def _params(self, draw: Draw) -> Params:
        """The parameters of a model with factors only; other columns are independent of the list."""
        alone, where = self.alone, self.data.schema.slices[self.name]
        bias, loadings, cuts = (np.array(each) for each in (alone.site_bias, alone.loadings, alone.gauge.cuts))
        bias[where], loadings[where] = draw.bias, draw.loadings
        cuts[where, : len(draw.cuts)] = draw.cuts
        presence = np.zeros_like(loadings)
        if self.chosen.presence:
            presence[where] = draw.presence
        effects = None
        if alone.effects is not None:
            effects = np.zeros(alone.effects.shape, np.float32)
            effects[self.data.schema.effect_slices[self.name]] = draw.effects
        found = jax.device_put((bias, loadings, cuts.astype(np.float32), presence, effects))
        return alone._replace(
            site_bias=found[0],
            loadings=found[1],
            gauge=alone.gauge._replace(cuts=found[2]),
            presence=found[3] if self.chosen.presence else None,
            effects=found[4],
        )


def start(chosen: FitSettings, data: Data, masked: Mapping[str, np.ndarray], seed: int) -> Drawing | None:
    """A sampler, if the table has a list whose parameters can be drawn."""
    name = column(chosen, data)
    if name is None and chosen.item_units:
        problem = f"item_units={chosen.item_units} has no effect, since no parameters of a list are drawn"
        warnings.warn(f"{problem}: see the conditions of ListSettings(draws=)", SchemaWarning, stacklevel=2)
    return None if name is None else Drawing(chosen, data, name, masked[name], seed)
