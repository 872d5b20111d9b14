"""§3.1, point evidence: a number e fixes its site, x = (T(e) − location) / scale.

The column standardises numbers; the model learns the remaining scale.
A number is a point; a statement such as `at_least` is an interval. A rounded number is an interval too, so that a
value that many rows share has a probability.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.cells import BoolArray, Cells, FloatArray
from thurbo.columns.forms import Form, NumberForm, RoundedForm
from thurbo.columns.measured import NARROWEST, MeasuredColumn, Transform
from thurbo.columns.normal_scores import scores_of_rounded
from thurbo.columns.precision import LARGEST_WHOLE
from thurbo.columns.statements import split
from thurbo.errors import SchemaError

_SLACK = 1e-6  # in units: an end this close to a recorded number is that number


@dataclass(frozen=True)
class Continuous(MeasuredColumn):
    """A number e with a normal latent variable, x = (T(e) − location) / scale.

    Parameters
    ----------
    transform : {None, "log", "rank-normal"}, default=None
        T: the identity, the logarithm of positive numbers, or a monotone map to normal scores. Use "log" or
        "rank-normal" for skewed numbers.
    location, scale : float, optional
        Mean and standard deviation of T(e). `fit` sets them.
    knots, scores : tuple of float, optional
        Points of the "rank-normal" map. `fit` sets them.
    rounded : bool, default=False
        Whether a number stands for all numbers that are rounded to it: with no decimals, 7 is the interval from 6.5 to
        7.5. With transform="rank-normal", this is for numbers of which some are very frequent, such as a tenth of
        zeros: these have their share as a probability. `between`, `at_least` and `at_most` include the ends they name.
    decimals : int, optional
        Decimals of predicted numbers. `fit` sets them to those of the training cells, unless they are given.
    lowest, highest : float, optional
        Range of predicted numbers. `fit` widens it to what was observed.
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is not a finite number, or not positive for "log".
    missing : dict or list, optional
        Values that mean "no answer", such as {-1: "Refused"}.
    parse : {None, "number", "percent", "currency", "decimal-comma", "date", "date-dmy"}, default=None
        How numbers are written in cells of text: "about 7", "7 hrs" or "1,200" (number), "32 %" is 32 (percent),
        "$1.5k" (currency), "1.234,50" (decimal-comma), dates as days since 1970-01-01 (date-dmy: the day first).
    recode : dict, optional
        Values that are read as another value, such as {"Y": "Yes"}; the table is not changed.

    Notes
    -----
    A cell is a number, `between`, `at_least` or `at_most` in the user's units.

    Examples
    --------
    >>> import thurbo as tb
    >>> schema = tb.Schema({"age": tb.Continuous()}).fit({"age": [20, 40, tb.at_least(60), None]})
    >>> schema["age"].location
    40.0
    """

    kind: ClassVar[str] = "continuous"
    transform: Transform = None
    rounded: bool = field(default=False, kw_only=True)

    def _check_own(self) -> None:
        if not isinstance(self.rounded, bool):
            raise SchemaError(f"rounded={self.rounded!r} is not understood", remedy="use True or False")

    @property
    def form(self) -> Form:
        return RoundedForm() if self.unit else NumberForm()

    @property
    def unit(self) -> float:
        return 10.0**-self.decimals if self.rounded and self.decimals is not None else 0.0

    def _fit(self, cells: Cells, weight: FloatArray | None) -> Self:
        lower, upper = numbers_or_intervals(self, cells)
        if not self.rounded:
            return self.learn(lower, upper, weight)
        known = self._precision.widened(lower, upper)._asdict()
        own = replace(self, **known)
        return replace(own.learn(*own._rounded(lower, upper), weight), **known)  # the range is that of the numbers

    def _scores(self, lower: FloatArray, upper: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        is_one = upper - lower < 1.5 * self.unit  # or an interval between two numbers
        if not is_one.any():
            return super()._scores(lower, upper, weight)
        places = self.decimals or 0
        numbers = self._nearest((lower + upper)[is_one] / 2, places)
        counts = None if weight is None else (weight[is_one], weight[~is_one])
        knots, scores = scores_of_rounded(numbers, self.unit, lower[~is_one], upper[~is_one], counts)
        return self._nearest(knots, places + 1), scores

    def encode(self, cells: Cells) -> Block:
        lower, upper = numbers_or_intervals(self, cells)
        if not self.unit:
            return self.confined(lower, upper)
        is_number = (lower == upper) & np.isfinite(lower)
        block = self.confined(*self._rounded(lower, upper))
        block.log_jacobian[is_number] -= np.log(self.unit)  # a density in the user's units, as of other numbers
        return block

    def _rounded(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ends of what is rounded to a recorded number in each cell; logarithms have no lower end at or below zero."""
        if not self.unit:
            return lower, upper
        places, is_number = self.decimals or 0, lower == upper
        first, last = (self._nearest(ends, places) for ends in (lower, upper))
        # A number that was not recorded so precisely is rounded; of a statement, numbers outside it are left out.
        first = np.where(~is_number & (first < lower - _SLACK * self.unit), first + self.unit, first)
        last = np.where(~is_number & (last > upper + _SLACK * self.unit), last - self.unit, last)
        none = first > last + 0.5 * self.unit  # no recorded number is inside: the interval stays as it is
        lower = np.where(none, lower, self._nearest(first - 0.5 * self.unit, places + 1))
        upper = np.where(none, upper, self._nearest(last + 0.5 * self.unit, places + 1))
        return np.where(lower <= 0, -np.inf, lower) if self.transform == "log" else lower, upper

    @staticmethod
    def _nearest(numbers: FloatArray, decimals: int) -> FloatArray:
        """Numbers with so many decimals: equal ones are equal floats, however they were computed."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.abs(numbers) < LARGEST_WHOLE, np.round(numbers, decimals), numbers)

    def is_one_number(self, block: Block) -> BoolArray:
        """Whether each line is one rounded number, and not a wider interval: [line]."""
        both = np.isfinite(block.lower[:, 0]) & np.isfinite(block.upper[:, 0])
        low, high = (np.where(both, end[:, 0], 0.0) for end in (block.lower, block.upper))
        is_narrow = high - low < 1.5 * NARROWEST  # it was widened for single precision
        return both & (is_narrow | (np.abs(self.to_user(high) - self.to_user(low) - self.unit) < 0.5 * self.unit))

    def describe(self) -> str:
        return self.described("a rounded number" if self.rounded else "a number")


def numbers_or_intervals(column: MeasuredColumn, cells: Cells, least: float = -np.inf) -> tuple[FloatArray, FloatArray]:
    """Lower and upper end of each cell in the user's units [row]: equal for a number, infinite if open."""
    numbers_only, stated = split(cells)
    numbers, silent = column.read_numbers(numbers_only, least)
    lower, upper = np.where(silent, -np.inf, numbers), np.where(silent, np.inf, numbers)
    for position, statement in stated.items():
        lower[position], upper[position] = column.read_ends(cells, position, statement)
    return lower, upper
