"""Rounded numbers: an answer is the interval of all numbers that are rounded to it, §3.1.

Predicted numbers are numbers that can be recorded, and a value that many rows share has a probability. Log scores are
those of the recorded number, divided by the unit: the same units as the density of a number that is not rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from thurbo.columns.block import Block
from thurbo.columns.cells import BoolArray, FloatArray
from thurbo.columns.forms.form import Answers, Ask, Profile, Trial, check_statistic
from thurbo.columns.forms.marginals import Normal, log_between
from thurbo.columns.forms.number import LOG_LEAST_DENSITY, Column, Distribution, Guesses, NumberForm
from thurbo.columns.forms.scores import ByRival, Tested
from thurbo.columns.precision import Precision

SMALL = 1e-6  # a relative difference of ends that single precision makes
REACH, GRID_POINTS = 5.0, 401  # deviations, and points of a grid for the baselines


class RoundedForm(NumberForm):
    """A number that stands for all numbers that are rounded to it."""

    def values(self, column: Column, ask: Ask, statistic: str) -> NDArray[Any]:
        check_statistic(statistic)
        found, recorded = _spread(column, ask), _recorded(column)
        if statistic == "mean":
            return found.average(recorded)
        if statistic == "mode":
            return column.limited(_most_probable(found, recorded))
        return column.limited(column.to_user(found.quantile(0.5)))

    def _spread(self, column: Column, ask: Ask) -> Distribution:
        return _spread(column, ask)

    def interval(self, column: Column, ask: Ask, level: float) -> NDArray[Any]:
        found, tail, recorded = _spread(column, ask), 0.5 * (1.0 - level), _recorded(column)
        return np.stack([recorded(found.quantile(share)) for share in (tail, 1.0 - tail)], axis=1)

    def test(self, column: Column, trial: Trial) -> list[Tested]:
        """The scores of masked numbers, and of masked statements such as `at_least`, if there are any."""
        guesses, is_number = self._baselines(column, trial), column.is_one_number(trial.block)[trial.masked]
        found = []
        if is_number.any():
            found.append(self._of_numbers(column, trial, np.flatnonzero(is_number), guesses))
        if not is_number.all():
            found.append(self._of_intervals(column, trial, np.flatnonzero(~is_number), guesses))
        return found

    def _of_numbers(self, column: Column, trial: Trial, which: NDArray[Any], guesses: Guesses) -> Tested:
        block, rows, recorded = trial.block, trial.masked[which], _recorded(column)
        lower, upper = (np.where(np.isfinite(end), end, 0.0) for end in _ends(block, trial.masked))
        spread, chance = _spread(column, trial.ask), trial.ask.mass(lower, upper)
        below = {"": trial.ask.density(lower)[1]}
        log_p = {"": np.log(np.maximum(chance, np.exp(LOG_LEAST_DENSITY)))}
        median, mean = {"": spread.quantile(0.5)}, {"": spread.average(recorded)}
        for rival, guess in guesses.items():
            low, high = ((end - guess.mean) / guess.deviation for end in (lower, upper))
            below[rival], log_p[rival] = np.exp(log_ndtr(low)), np.maximum(log_between(low, high), LOG_LEAST_DENSITY)
            median[rival], mean[rival] = guess.mean, _normal(column, guess).average(recorded)
        truth = _as_written(column, self._middle(column, block)[0][rows])
        # A uniform number inside the jump of the distribution, so that a right model has uniform values.
        inside = np.random.RandomState(0).random_sample(len(lower))
        parts: dict[str, ByRival] = {
            "score": {rival: each[which] + block.log_jacobian[rows] for rival, each in log_p.items()},
            "absolute": {rival: np.abs(recorded(each[which]) - truth) for rival, each in median.items()},
            "squared": {rival: (each[which] - truth) ** 2 for rival, each in mean.items()},
            "below": {rival: (each + inside * np.exp(log_p[rival]))[which] for rival, each in below.items()},
        }
        return Tested.of(trial.name, column, "number", trial.row[which], trial.weight[rows], **parts)

    def _middle(self, column: Column, block: Block) -> tuple[FloatArray, BoolArray]:
        """Mean of the normal scores inside each interval, since one end of a frequent number can be far off."""
        middle, says = super()._middle(column, block)
        if column.transform != "rank-normal":
            return middle, says
        lower, upper = _ends(block, np.arange(len(middle)))
        both = np.isfinite(lower) & np.isfinite(upper) & (upper > lower)
        low, high = np.where(both, lower, -1.0), np.where(both, upper, 1.0)
        inside = (_bell(low) - _bell(high)) / np.maximum(np.exp(log_between(low, high)), 1e-300)
        margin = SMALL * (high - low)  # not an end, which belongs to a neighbour too
        return np.where(both & (upper - lower > SMALL), inside.clip(low + margin, high - margin), middle), says

    def answers(self, column: Column, name: str, block: Block) -> Answers:
        found = super().answers(column, name, block)
        is_number, answered = column.is_one_number(block), found.answered
        n_answered = int(np.asarray(answered).sum())
        numbers = _as_written(column, np.where(is_number, self._middle(column, block)[0], 0.0))
        share = 1 - float(is_number.sum()) / n_answered if n_answered else 0.0
        return found._replace(values=np.where(is_number, numbers, found.values), share_interval=share)

    def profile(self, column: Column, block: Block) -> Profile:
        return super().profile(column, block)._replace(to_user=_recorded(column))


def _ends(block: Block, lines: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    return block.lower[lines, 0], block.upper[lines, 0]


def _recorded(column: Column) -> Callable[[FloatArray], FloatArray]:
    """Standard units as numbers that can be recorded."""
    return lambda z: np.asarray(column.limited(column.to_user(z)), np.float64)


def _most_probable(found: Distribution, recorded: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """The number with the largest probability, by the steps of the distribution on its grid."""
    steps = np.diff(found.distribution, axis=1)
    numbers, which = np.unique(recorded(0.5 * (found.grid[1:] + found.grid[:-1])), return_inverse=True)
    first = np.flatnonzero(np.diff(which, prepend=-1))  # the map is increasing: equal numbers are neighbours
    return numbers[np.add.reduceat(steps, first, axis=1).argmax(axis=1)]


def _spread(column: Column, ask: Ask) -> Distribution:
    """The predicted distribution on a grid with the ends of frequent numbers, between which predictions jump."""
    found = ask.number()
    knots = column.standard_knots
    knots = knots[(knots > found.grid[0]) & (knots < found.grid[-1])]
    if not len(knots):
        return found
    place = np.searchsorted(found.grid, knots)
    every = np.insert(found.distribution, place, ask.below(knots), axis=1)
    np.maximum.accumulate(every, axis=1, out=every)
    return found._replace(grid=np.insert(found.grid, place, knots), distribution=every)


def _normal(column: Column, guess: Normal) -> Distribution:
    """A normal distribution in standard units for each line, on such a grid."""
    low, high = (guess.mean + REACH * guess.deviation * side for side in (-1, 1))
    grid = np.sort(np.concatenate([np.linspace(low.min(), high.max(), GRID_POINTS), column.standard_knots]))
    return Distribution(guess.mean, grid, ndtr((grid - guess.mean[:, None]) / guess.deviation[:, None]))


def _as_written(column: Column, z: FloatArray) -> FloatArray:
    """Standard units as recorded numbers, also those outside of the range of the training table."""
    numbers = np.asarray(column.to_user(z), np.float64)
    return np.asarray(Precision(column.decimals).limit(numbers), np.float64)


def _bell(z: FloatArray) -> FloatArray:
    return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
