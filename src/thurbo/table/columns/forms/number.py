"""Numbers: an answer is a point or an interval of a measured scale, §3.1; bands are named intervals.

A rounded number is the interval of all numbers that are rounded to it. Used for one question of a table, and for lists
of items with a number each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr

from thurbo.table.columns.cells import Block, BoolArray, FloatArray, IntArray
from thurbo.table.columns.forms import form
from thurbo.table.columns.forms.form import Answers, Ask, ByRival, Columns, LabelForm, Normal, Profile, Tested, Trial
from thurbo.table.columns.numbers import Precision

N_BANDS = 16  # into which the numbers of a column are divided when they are drawn
MARGIN_LEVEL = 0.9  # probability of the interval whose half width says how sure an imputed number is
LOG_LEAST_DENSITY = -87.0  # about the smallest positive number of float32

Guesses = dict[str, Normal]  # by baseline, of every masked line


class Distribution(NamedTuple):
    """The predicted distribution of each answer in standard units: a grid and P(z ≤ grid)."""

    mean: FloatArray  # [answer]
    grid: FloatArray  # [point]
    distribution: FloatArray  # [answer, point]

    def quantile(self, level: float | FloatArray) -> FloatArray:
        """z with P(z ≤ ·) = level, by interpolation on the grid; the level is that of all answers, or [answer]."""
        rows = np.arange(len(self.mean))
        above = np.clip((self.distribution < np.reshape(level, (-1, 1))).sum(axis=1), 1, len(self.grid) - 1)
        low, high = self.distribution[rows, above - 1], self.distribution[rows, above]
        share = np.clip((level - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
        return self.grid[above - 1] + share * (self.grid[above] - self.grid[above - 1])

    def mode(self) -> FloatArray:
        """The point of highest density: the vertex of a parabola through the three highest steps of the grid."""
        density = np.diff(self.distribution, axis=1)
        best = density.argmax(axis=1).clip(1, density.shape[1] - 2)
        rows = np.arange(len(self.mean))
        left, top, right = (density[rows, best + step] for step in (-1, 0, 1))
        bend = left - 2.0 * top + right
        shift = np.where(bend < 0, 0.5 * (left - right) / np.where(bend < 0, bend, -1.0), 0.0).clip(-1.0, 1.0)
        width = self.grid[1] - self.grid[0]
        return 0.5 * (self.grid[best] + self.grid[best + 1]) + shift * width

    def below(self, z: FloatArray) -> FloatArray:
        """P(· ≤ z) by interpolation on the grid, [answer, number]; z is [number], or [answer, number]."""
        every = np.broadcast_to(z, (len(self.distribution), np.shape(z)[-1]))
        return np.stack([np.interp(at, self.grid, own) for at, own in zip(every, self.distribution, strict=True)])

    def average(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """E[function(z)] by the midpoint rule on the grid."""
        steps = np.diff(self.distribution, axis=1)
        return steps @ function(0.5 * (self.grid[1:] + self.grid[:-1])) / steps.sum(axis=1)


class NumberForm(form.Form):
    """A number, exactly or within an interval."""

    column: Any  # a measured column: it has to_user, limited, declared_range, as_columns and standard

    def values(self, ask: Ask, statistic: str) -> NDArray[Any]:
        """Median, mode or mean in the user's units; "auto" is the median. A mean is not rounded."""
        form.check_statistic(statistic)
        found = self._spread(ask)
        if statistic == "mean":
            return found.average(self._to_user)
        return self.column.limited(self._mode(found) if statistic == "mode" else self._to_user(found.quantile(0.5)))

    def _to_user(self, z: FloatArray) -> FloatArray:
        """Standard units as predicted numbers."""
        return self.column.to_user(z)

    def _mode(self, found: Distribution) -> FloatArray:
        return self.column.to_user(found.mode())

    def _spread(self, ask: Ask) -> Distribution:
        return ask.number()

    def cells(self, name: str, ask: Ask, statistic: str) -> Columns:
        return self.column.as_columns(name, self.values(ask, statistic))

    def interval(self, ask: Ask, level: float) -> NDArray[Any]:
        found, tail = self._spread(ask), 0.5 * (1.0 - level)
        ends = np.stack([self._to_user(found.quantile(share)) for share in (tail, 1.0 - tail)], axis=1)
        return np.clip(ends, *self.column.declared_range)

    def certainty(self, ask: Ask, values: NDArray[Any]) -> form.Certainty:
        """Half of the width of the 90 % interval, in the user's units."""
        ends = self.interval(ask, MARGIN_LEVEL)
        return form.Certainty("margin", 0.5 * (ends[:, 1] - ends[:, 0]))

    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """The log density of a number, or the log-probability of an interval."""
        lower, upper, point = block.lower[:, 0], block.upper[:, 0], block.point[:, 0]
        found = np.zeros(len(lower))
        if point.any():
            found = ask.density(np.where(point, lower, 0.0))[0]
        if not point.all():
            mass = ask.mass(np.where(point, -1.0, lower), np.where(point, 1.0, upper))
            found = np.where(point, found, form.log_of(mass))
        return found + block.log_jacobian

    def outcomes(self, ask: Ask, part: int = 0) -> FloatArray:
        """P(number is in each of some bands), which have equal shares over all answers."""
        return np.diff(self._in_bands(ask)[2], axis=1)

    def draw_bands(self, ask: Ask) -> FloatArray | None:
        return self._in_bands(ask)[1]

    def _in_bands(self, ask: Ask) -> tuple[Distribution, FloatArray, FloatArray]:
        """The distribution, the ends of its bands in standard units, and P(· ≤ end), [answer, end], from 0 to 1."""
        found, edges = self._spread(ask), ask.bands_at
        if edges is None:
            inner = np.interp(np.arange(1, N_BANDS) / N_BANDS, found.distribution.mean(axis=0), found.grid)
            edges = np.concatenate([found.grid[:1], inner, found.grid[-1:]])
        below = found.below(edges)
        below[:, 0], below[:, -1] = 0.0, 1.0
        return found, edges, below

    def drawn(self, name: str, ask: Ask, outcome: NDArray[Any], rng: Generator, within: Block | None = None) -> Columns:
        """By the inverse of the distribution inside the band, or inside the interval that `within` says."""
        (found, _, below), rows = self._in_bands(ask), np.arange(len(outcome))
        low, high = below[rows, outcome], below[rows, outcome + 1]
        if within is not None:
            low, high = found.below(np.concatenate([within.lower, within.upper], axis=1)).T
        z = found.quantile(low + (high - low) * rng.random(len(rows)))
        if within is not None:
            z = np.clip(z, within.lower[:, 0], within.upper[:, 0])
        numbers = self.column.limited(self.column.to_user(z))
        return {name: numbers} if self.column.is_listed else self.column.as_columns(name, numbers)

    def from_latent(self, x: FloatArray, site: IntArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        return self.column.limited(self.column.to_user(x * scale[site]))

    def scorable(self, block: Block) -> BoolArray:
        return block.observed[:, 0]

    def _is_number(self, block: Block) -> BoolArray:
        """Which lines are one number, not an interval."""
        return block.point[:, 0]

    def test(self, trial: Trial) -> list[Tested]:
        """The scores of masked numbers and of masked intervals, if there are any."""
        guesses, is_number = self._baselines(trial), self._is_number(trial.block)[trial.masked]
        found = [self._of_numbers(trial, np.flatnonzero(is_number), guesses)] if is_number.any() else []
        if not is_number.all():
            found.append(self._of_intervals(trial, np.flatnonzero(~is_number), guesses))
        elif trial.block.entries is not None:
            expected = {"": trial.ask.utility()[0], "_marginal": guesses["_marginal"].mean}
            found += self._test_order(trial, trial.block.lower[trial.masked, 0], expected)
        return found

    def _baselines(self, trial: Trial) -> Guesses:
        block, rows = trial.block, trial.masked
        lower, upper = block.lower[:, 0], block.upper[:, 0]
        shown = block.observed[:, 0] & ~trial.is_masked
        mean, deviation = form.normal(lower[shown], upper[shown], trial.weight[shown])
        centre = np.full(len(rows), mean)
        if block.entries is not None:  # use the mean of each item
            level = form.middles(np.where(shown, lower, 0.0), np.where(shown, upper, 0.0))
            centre = mean + deviation * form.shifts(block, level, trial.weight * shown)[block.entries.site[rows]]
        known = shown & np.isfinite(lower) & np.isfinite(upper)
        target = np.where(known, self._middle(block)[0], 0.0)
        guesses = {
            "_marginal": Normal(centre, np.full(len(rows), deviation)),
            "_logistic": trial.ridge(target, known),
            "_boosting": trial.boosted_numbers(target, known),
        }
        return {rival: guess for rival, guess in guesses.items() if guess is not None}

    def _of_numbers(self, trial: Trial, which: NDArray[Any], guesses: Guesses) -> Tested:
        """The scores of the numbers among the masked lines, `which`."""
        block, rows = trial.block, trial.masked[which]
        ends = [np.where(np.isfinite(end), end, 0.0)[trial.masked, 0] for end in (block.lower, block.upper)]
        asked: dict[str, Ask | Normal] = {"": trial.ask, **guesses}
        found, spread = {rival: self._score(each, *ends) for rival, each in asked.items()}, self._spread(trial.ask)
        density = form.with_both({rival: np.exp(each) for rival, (each, _) in found.items()})
        score = {rival: np.log(np.maximum(each, 1e-300)) for rival, each in density.items()}
        score |= {rival: each for rival, (each, _) in found.items()}
        below = form.with_both({rival: each for rival, (_, each) in found.items()})
        median = {rival: self._to_user(guess.mean) for rival, guess in guesses.items()}
        median = form.with_both({"": self._to_user(spread.quantile(0.5)), **median})
        mean = {rival: self._mean(guess) for rival, guess in guesses.items()}
        mean = form.with_both({"": spread.average(self._to_user), **mean})
        truth = self._truth(block)[rows]
        parts: dict[str, ByRival] = {
            "score": {rival: each[which] + block.log_jacobian[rows] for rival, each in score.items()},
            "absolute": {rival: np.abs(each[which] - truth) for rival, each in median.items()},
            "squared": {rival: (each[which] - truth) ** 2 for rival, each in mean.items()},
            "below": {rival: each[which] for rival, each in below.items()},
        }
        return Tested(trial.name, self.column.kind, "number", trial.row[which], trial.weight[rows], **parts)

    def _truth(self, block: Block) -> FloatArray:
        """The number of each line in the user's units, 0 in standard units if it is none."""
        return self.column.to_user(np.where(block.point[:, 0], block.lower[:, 0], 0.0))

    def _score(self, ask: Ask | Normal, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density and P(· ≤ truth) of numbers, whose ends are equal."""
        log_density, below = ask.density(lower)
        return np.maximum(log_density, LOG_LEAST_DENSITY), below

    def _mean(self, guess: Normal) -> FloatArray:
        nodes, weights = np.polynomial.hermite_e.hermegauss(21)
        return self._to_user(guess.mean[:, None] + guess.deviation[:, None] * nodes) @ (weights / weights.sum())

    def _of_intervals(self, trial: Trial, which: NDArray[Any], guesses: Guesses) -> Tested:
        """log P(lower ≤ number ≤ upper), either of which may be infinite."""
        block, rows = trial.block, trial.masked[which]
        ends = block.lower[trial.masked, 0], block.upper[trial.masked, 0]
        asked: dict[str, Ask | Normal] = {"": trial.ask, **guesses}
        chances = form.with_both({rival: each.mass(*ends)[which] for rival, each in asked.items()})
        # The Jacobian is that of intervals which were widened for single precision.
        log_unit = block.log_jacobian[rows]
        scores = {rival: np.log(np.maximum(each, form.LEAST_CHANCE)) + log_unit for rival, each in chances.items()}
        about, row, weight = f"{trial.name}: intervals", trial.row[which], trial.weight[rows]
        return Tested(about, self.column.kind, "interval", row, weight, score=scores)

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        middle, says = self._middle(block)
        if block.entries is not None:
            return form.features(block, np.where(says, middle, np.nan), shown)
        return middle[:, None], says & shown

    def answers(self, name: str, block: Block) -> Answers:
        """A number in the user's units; the middle of an interval, or its known end."""
        low, high = block.lower[:, 0], block.upper[:, 0]
        answered = np.isfinite(low) | np.isfinite(high)
        # Standard units at scale one decode to the user's own.
        lower, upper = (np.asarray(self.column.to_user(np.where(np.isfinite(z), z, 0.0)), float) for z in (low, high))
        values = np.select([~answered, np.isinf(low), np.isinf(high)], [np.nan, upper, lower], (lower + upper) / 2)
        if block.entries is not None:
            return self._item_answers(name, block, values)
        share = 1 - float(self._is_number(block).sum()) / max(int(answered.sum()), 1) if answered.any() else 0.0
        return self._answers(name, (), values, answered=answered, share_interval=share)

    def profile(self, block: Block) -> Profile:
        middle, says = self._middle(block)
        values = np.where(says, middle, np.nan)
        if block.entries is not None:
            return self._item_profile(block, values, self.column.to_user)
        return Profile(("",), values[:, None], self._to_user)

    def start(self, block: Block, weight: FloatArray) -> form.Start:
        shift = np.zeros(len(block.sites))
        if block.entries is not None:
            middle, says = self._middle(block)
            shift = form.shifts(block, middle, form.line_weight(block, weight) * says)
        return form.Start(np.zeros((len(shift), 0)), shift)

    def _middle(self, block: Block) -> tuple[FloatArray, BoolArray]:
        """Middle of each line's interval, or its one known end, and whether there is any: [line] each."""
        lower, upper = block.lower[:, 0], block.upper[:, 0]
        says = np.isfinite(lower) | np.isfinite(upper)
        return form.middles(np.where(says, lower, 0.0), np.where(says, upper, 0.0)), says

    def learned(self, cuts: FloatArray, scale: FloatArray) -> dict[str, Any]:
        location, unit = self.column.standard
        return {"scales": (location, unit * float(scale[0]))}

    def own_units(self, low: float, high: float, scale: float) -> str:
        ends = self.column.to_user(np.array([low, high]) * scale)
        return f"{ends[0]:.6g}" if low == high else f"{ends[0]:.6g} to {ends[1]:.6g}"


class BandForm(LabelForm, NumberForm):
    """A number that is known by its band: predicted and scored as one of the bands."""

    values, interval = NumberForm.values, NumberForm.interval

    def probabilities(self, ask: Ask) -> FloatArray:
        return ask.bands(*self.column.standard_edges)

    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """The log-probability of a band; of a number or an interval, that of a number."""
        code, chance = self.column.codes(block), self.probabilities(ask)
        found = form.log_of(chance[np.arange(len(code)), np.maximum(code, 0)])
        return found if (code >= 0).all() else np.where(code >= 0, found, NumberForm.log_prob(self, ask, block, part))

    def draw_bands(self, ask: Ask) -> FloatArray | None:
        return None

    def allowed(self, block: Block, outcomes: FloatArray, part: int = 0) -> BoolArray:
        lower, upper = self.column.standard_edges
        inside = (np.asarray(upper) > block.lower[:, :1]) & (np.asarray(lower) < block.upper[:, :1])
        return inside | ~inside.any(axis=1, keepdims=True)

    def cells(self, name: str, ask: Ask, statistic: str) -> Columns:
        if statistic in {"auto", "mode"}:
            return self.column.to_columns(name, LabelForm.values(self, ask, statistic))
        return super().cells(name, ask, statistic)


SMALL = 1e-6  # a relative difference of ends that single precision makes
REACH, GRID_POINTS = 5.0, 401  # deviations, and points of a grid for the baselines


class RoundedForm(NumberForm):
    """A number that stands for all numbers that are rounded to it."""

    def _to_user(self, z: FloatArray) -> FloatArray:
        return np.asarray(self.column.limited(self.column.to_user(z)), np.float64)

    def _mode(self, found: Distribution) -> FloatArray:
        """The number with the largest probability, by the steps of the distribution on its grid."""
        steps = np.diff(found.distribution, axis=1)
        numbers, which = np.unique(self._to_user(0.5 * (found.grid[1:] + found.grid[:-1])), return_inverse=True)
        first = np.flatnonzero(np.diff(which, prepend=-1))  # the map is increasing: equal numbers are neighbours
        return numbers[np.add.reduceat(steps, first, axis=1).argmax(axis=1)]

    def _spread(self, ask: Ask) -> Distribution:
        """The predicted distribution on a grid with the ends of frequent numbers, between which predictions jump."""
        found, knots = ask.number(), self.column.standard_knots
        knots = knots[(knots > found.grid[0]) & (knots < found.grid[-1])]
        if not len(knots):
            return found
        place = np.searchsorted(found.grid, knots)
        every = np.insert(found.distribution, place, ask.below(knots), axis=1)
        np.maximum.accumulate(every, axis=1, out=every)
        return found._replace(grid=np.insert(found.grid, place, knots), distribution=every)

    def _is_number(self, block: Block) -> BoolArray:
        return self.column.is_one_number(block)

    def _score(self, ask: Ask | Normal, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log probability, and a uniform number inside the jump of the distribution, uniform under a right model."""
        chance = np.maximum(ask.mass(lower, upper), np.exp(LOG_LEAST_DENSITY))
        return np.log(chance), ask.density(lower)[1] + np.random.RandomState(0).random_sample(len(lower)) * chance

    def _mean(self, guess: Normal) -> FloatArray:
        centre, deviation = guess.mean[:, None], guess.deviation[:, None]
        reach = np.linspace((centre - REACH * deviation).min(), (centre + REACH * deviation).max(), GRID_POINTS)
        grid = np.sort(np.concatenate([reach, self.column.standard_knots]))
        return Distribution(guess.mean, grid, ndtr((grid - centre) / deviation)).average(self._to_user)

    def _truth(self, block: Block) -> FloatArray:
        """Recorded numbers, also those outside of the range of the training table."""
        middle = np.where(self._is_number(block), self._middle(block)[0], 0.0)
        numbers = np.asarray(self.column.to_user(middle), np.float64)
        return np.asarray(Precision(self.column.decimals).limit(numbers), np.float64)

    def _middle(self, block: Block) -> tuple[FloatArray, BoolArray]:
        """Mean of the normal scores inside each interval, since one end of a frequent number can be far off."""
        middle, says = super()._middle(block)
        if self.column.transform != "rank-normal":
            return middle, says
        lower, upper = block.lower[:, 0], block.upper[:, 0]
        both = np.isfinite(lower) & np.isfinite(upper) & (upper > lower)
        low, high = np.where(both, lower, -1.0), np.where(both, upper, 1.0)
        bells = (np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)) / np.sqrt(2 * np.pi)
        inside = bells / np.maximum(np.exp(form.log_between(low, high)), 1e-300)
        margin = SMALL * (high - low)  # not an end, which belongs to a neighbour too
        return np.where(both & (upper - lower > SMALL), inside.clip(low + margin, high - margin), middle), says

    def answers(self, name: str, block: Block) -> Answers:
        found = super().answers(name, block)
        return found._replace(values=np.where(self._is_number(block), self._truth(block), found.values))
