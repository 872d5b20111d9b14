"""§3.1, evidence about a number e: a point, an interval or one end, in standard units z = (T(e) − location) / scale.

`MeasuredColumn` is the base of all numbers: one strictly increasing map converts to standard units, and its derivative
is known, so densities are in the user's units. In `Continuous` a number is a point, and a rounded number an interval.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, BoolArray, Cells, Family, FloatArray, as_numbers
from thurbo.table.columns.column import Column, not_fitted
from thurbo.table.columns.forms.form import Form, middles
from thurbo.table.columns.forms.number import NumberForm, RoundedForm
from thurbo.table.columns.numbers import (
    DATES,
    LARGEST_WHOLE,
    NOTATIONS,
    Notation,
    Precision,
    amount,
    check_precision,
    frequent_and_even,
    normal_scores,
    piecewise_linear,
    scores_of_rounded,
    tail_slopes,
)
from thurbo.table.columns.statements import Interval, Statement, split
from thurbo.table.columns.values import Refused, show

N_BANDS = 8  # of numbers, whose probabilities trees change
NARROWEST = 1e-3  # narrowest interval in standard units whose ends are distinct in single precision

Transform = Literal["log", "rank-normal"] | None


@dataclass(frozen=True)
class Standardised:
    """Numbers with a location and a scale, in which they are standardised, and a precision; `fit` sets them."""

    location: float | None = field(default=None, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)
    decimals: int | None = field(default=None, kw_only=True)  # of predicted numbers, and their range: fit
    lowest: float | None = field(default=None, kw_only=True)  # widens a given range to what was observed
    highest: float | None = field(default=None, kw_only=True)

    @property
    def standard(self) -> tuple[float, float]:
        """Location and scale, once fitted."""
        if self.location is None or self.scale is None:
            raise not_fitted(self, "location and scale")
        return self.location, self.scale

    @property
    def _precision(self) -> Precision:
        return Precision(self.decimals, self.lowest, self.highest)

    def limited(self, numbers: FloatArray) -> NDArray[Any]:
        """Predicted numbers with the decimals and within the range of the column."""
        return self._precision.limit(numbers)

    @property
    def declared_range(self) -> tuple[float, float]:
        """The range that the type of the column gives its numbers, whatever was observed."""
        return -np.inf, np.inf

    def to_user(self, z: FloatArray) -> FloatArray:
        """Standard units as numbers in the user's units."""
        location, scale = self.standard
        return location + scale * np.asarray(z, np.float64)


@dataclass(frozen=True)
class MeasuredColumn(Standardised, Column):
    """A cell about one number, after `transform`; its settings are those of `Continuous`."""

    family: ClassVar[Family] = "measured"
    form_type = NumberForm
    choices: ClassVar[Any] = (("transform", (None, "log", "rank-normal")), ("parse", (None, *NOTATIONS)))
    n_cuts = 0
    transform: Transform = field(default=None, kw_only=True)
    parse: Notation | None = field(default=None, kw_only=True)
    knots: tuple[float, ...] = field(default=(), kw_only=True)  # rank-normal: numbers in the user's units ...
    scores: tuple[float, ...] = field(default=(), kw_only=True)  # ... and the normal score of each

    def _check(self) -> None:
        increasing = all(np.all(np.diff(values) > 0) for values in (self.knots, self.scores))
        if len(self.knots) != len(self.scores) or not increasing:
            raise SchemaError("knots and scores are not two increasing lists of one length", remedy="fit the column")
        if self.scale is not None and not 0 < self.scale < np.inf:
            raise SchemaError(f"scale={self.scale} is not a positive number", remedy="fit the column")
        if self.location is not None and not np.isfinite(self.location):
            raise SchemaError(f"location={self.location} is not a finite number", remedy="fit the column")
        check_precision(self._precision)

    def linear_units(self) -> tuple[float, float]:
        """Location and scale; raises Refused if there is a transform, which does not allow sums in user's units."""
        if self.transform is not None:
            problem = f'has transform="{self.transform}", so it cannot be part of a linear inequality'
            remedy = f"use {type(self).__name__} without transform, or between(...) in its own cell"
            raise Refused(problem, remedy)
        return self.standard

    def learn(self, lower: FloatArray, upper: FloatArray, weight: FloatArray | None = None) -> Self:
        """The column with its map to standard units fitted to intervals or numbers in the user's units, by weight."""
        known = np.isfinite(lower) | np.isfinite(upper)
        fitted, own = self, (np.ones(len(lower)) if weight is None else weight)[known]
        if self.transform == "rank-normal":
            knots, scores = self._scores(lower[known], upper[known], own)
            fitted = replace(self, knots=tuple(knots.tolist()), scores=tuple(scores.tolist()))
        location, scale = 0.0, 1.0
        # Scores are standard normal; those of the middles of intervals are not.
        if self.transform != "rank-normal" or not (lower[known] < upper[known]).any():
            location, scale = mean_and_deviation(fitted._forward(middles(lower[known], upper[known])), own)
        return replace(fitted, location=location, scale=scale, **self._precision.widened(lower, upper)._asdict())

    def _scores(self, lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Knots and scores of "rank-normal"."""
        return normal_scores(lower, upper, weight)

    @property
    def unit(self) -> float:
        """The distance of neighbouring numbers where a number stands for all that are rounded to it, otherwise 0."""
        return 0.0

    @property
    def standard_knots(self) -> FloatArray:
        """The knots of "rank-normal" in standard units; none with another transform."""
        location, scale = self.standard
        return (np.asarray(self.scores, np.float64) - location) / scale

    @property
    def effect_edges(self) -> FloatArray:
        """Between bands of about equal shares, in standard units; a frequent rounded number is a band of its own."""
        location, scale = self.standard
        if not (self.unit and len(self.scores) > 1):
            return ndtri(np.arange(1, N_BANDS) / N_BANDS)
        return (frequent_and_even(np.asarray(self.scores), N_BANDS) - location) / scale

    def to_standard(self, numbers: FloatArray) -> FloatArray:
        """Numbers in the user's units as standard units: z = (T(e) − location) / scale."""
        location, scale = self.standard
        with np.errstate(over="ignore", divide="ignore"):  # very large numbers may be infinite, and so is log 0
            return (self._forward(np.asarray(numbers, np.float64)) - location) / scale

    def to_user(self, z: FloatArray) -> FloatArray:
        """Standard units as numbers in the user's units: T⁻¹(location + scale z)."""
        transformed = super().to_user(z)
        if self.transform == "log":
            with np.errstate(over="ignore"):
                return np.exp(transformed)
        if self.transform == "rank-normal":
            return piecewise_linear(transformed, self.scores, self.knots, tail_slopes(self.knots, self.scores, True))
        return transformed

    def log_derivative(self, numbers: FloatArray) -> FloatArray:
        """log |dz/de| at numbers in the user's units."""
        _, scale = self.standard
        numbers = np.asarray(numbers, np.float64)
        if self.transform == "log":
            return -np.log(numbers) - np.log(scale)
        if self.transform == "rank-normal":
            low, high = tail_slopes(self.knots, self.scores)
            slopes = np.concatenate([[low], np.diff(self.scores) / np.diff(self.knots), [high]])
            return np.log(slopes[np.searchsorted(self.knots, numbers, side="right")]) - np.log(scale)
        return np.full(numbers.shape, -np.log(scale))

    def _forward(self, numbers: FloatArray) -> FloatArray:
        if self.transform == "log":
            return np.log(np.maximum(numbers, 0.0))
        if self.transform == "rank-normal":
            return piecewise_linear(numbers, self.knots, self.scores, tail_slopes(self.knots, self.scores))
        return numbers

    def confined(self, lower: FloatArray, upper: FloatArray) -> Block:
        """Intervals in the user's units [row] as a block: an infinite end is open, equal ends are a point.

        An interval too narrow for single precision is widened; `log_jacobian` corrects its probability for that.
        """
        low, high, log_jacobian = self.to_standard(lower), self.to_standard(upper), np.zeros(len(lower))
        point = (lower == upper) & np.isfinite(lower)
        log_jacobian[point] = self.log_derivative(lower[point])
        both = np.isfinite(low) & np.isfinite(high) & ~point
        narrow = np.subtract(high, low, out=np.full(len(low), np.inf), where=both) < NARROWEST
        if narrow.any():
            first, last, middle = lower[narrow], upper[narrow], (low[narrow] + high[narrow]) / 2
            low[narrow], high[narrow] = middle - NARROWEST / 2, middle + NARROWEST / 2
            # By the derivative, since the difference of two nearly equal numbers is inaccurate.
            log_jacobian[narrow] = self.log_derivative(first / 2 + last / 2) + np.log((last - first) / NARROWEST)
        return Block(self.sites, low[:, None], high[:, None], point[:, None], log_jacobian=log_jacobian)

    def _ends(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of each cell in the user's units [row]: equal for a number, infinite if open."""
        numbers_only, stated = split(cells)
        numbers, silent = self.read_numbers(numbers_only)
        lower, upper = np.where(silent, -np.inf, numbers), np.where(silent, np.inf, numbers)
        for position, statement in stated.items():
            with cells.at(position) if self.unseen == "error" else suppress(Refused):
                lower[position], upper[position] = self._interval(statement)
        return lower, upper

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        return self.learn(*self._ends(cells), weight)

    def encode(self, cells: Cells) -> Block:
        return self.confined(*self._ends(self.joined(cells)))

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The number that belongs to x, as a cell."""
        return self.as_cells(self._numbers(x, scale))

    def as_cells(self, numbers: FloatArray) -> NDArray[Any]:
        """Numbers in the user's units as cells; days are dates again."""
        if self.parse not in DATES:
            return numbers
        known = np.isfinite(numbers)
        days = np.round(np.where(known, numbers, 0.0)).astype("datetime64[D]")
        cells = days.astype(str).astype(object)
        cells[~known] = None
        return cells

    def as_columns(self, name: str, numbers: FloatArray) -> dict[str, NDArray[Any]]:
        """Numbers in the user's units as the columns of the table that `source_columns` names."""
        return self.to_columns(name, self.as_cells(numbers))

    def decode_columns(self, name: str, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> dict[str, NDArray[Any]]:
        return self.as_columns(name, self._numbers(x, scale))

    def _numbers(self, x: FloatArray, scale: FloatArray) -> NDArray[Any]:
        return self.limited(self.to_user(np.asarray(x, np.float64)[:, 0] * np.ravel(scale)[0]))

    def interpreted(self, cells: Cells) -> Cells:
        """Text in the notation `parse` as numbers; a text that is not a number stays, so that errors can show it."""
        notation, is_date = self.parse, self.parse in DATES
        if notation is None:
            return cells
        cells = replace(cells, parts={name: self.interpreted(part) for name, part in cells.parts.items()})
        if cells.values.dtype.kind == "M" and is_date:
            numbers = cells.values.astype("datetime64[ms]").astype(np.float64) / 86_400_000
            return replace(cells, values=np.where(cells.missing, np.nan, numbers))

        def parsed(value: Any) -> Any:
            text = value.isoformat() if hasattr(value, "isoformat") and is_date else value
            number = amount(text, str(notation)) if isinstance(text, str) and text not in self.labels else None
            return value if number is None else number

        return cells if cells.values.dtype.kind in "biufM" else cells.mapped(parsed)

    def _interval(self, statement: Statement) -> tuple[float, float]:
        if not isinstance(statement, Interval):
            problem = f"{show(statement)} cannot be used in a column of numbers"
            raise Refused(problem, "use between, at_least or at_most")
        if any(isinstance(end, str) for end in (statement.lower, statement.upper)):
            raise Refused(f"{show(statement)} has text instead of a number", "give numbers")
        lower = -np.inf if statement.lower is None else float(statement.lower)
        upper = np.inf if statement.upper is None else float(statement.upper)
        if self.transform == "log" and upper <= 0:
            raise Refused(f"{show(statement)} contains no positive number", 'use transform="rank-normal" or None')
        if self.transform == "log" and lower <= 0:
            lower = -np.inf  # all positive numbers are above
        return lower, upper

    def read_numbers(self, cells: Cells) -> tuple[FloatArray, BoolArray]:
        """Cells as numbers, and which of them are missing; raises an error at the first cell that is not a number."""
        numbers, refused = as_numbers(cells)
        missing = cells.missing | np.isnan(numbers) & ~refused
        if cells.values.dtype.kind in "mM" or any(hasattr(value, "isoformat") for value in cells.values[refused][:1]):
            remedy = "convert dates and times to numbers, for example days since the first"
            self.refuse(cells, refused, "value {} is a date or time, not a number", remedy)
        self.refuse(cells, refused, "value {} is not a number")
        infinite = np.isinf(numbers) & ~missing
        self.refuse(cells, infinite, "value {} is infinite")
        if self.transform == "log" and not self.declared_range[0] > 0:  # below such a limit no logarithm is needed
            negative, kind = ~missing & ~refused & ~(numbers > 0), type(self).__name__
            problem = f'value {{}} has no logarithm, and the column is {kind}(transform="log")'
            remedy = f'treat such cells as missing with {kind}(unseen="missing")'
            self.refuse(cells, negative, problem, f'use transform="rank-normal" or None, or {remedy}')
            refused |= negative
        return numbers, missing | refused | infinite

    def described(self, what: str) -> str:
        """A description with the transform added."""
        return what if self.transform is None else f"{what}, by its {self.transform} value"


def mean_and_deviation(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation, by weight; scale 1 if all numbers are equal."""
    if len(values) == 0:
        return 0.0, 1.0
    if values.min() == values.max():
        return float(values[0]), 1.0
    # Relative to the largest number, so that squares neither overflow nor underflow.
    unit = np.abs(values).max()
    mean = np.average(values / unit, weights=weight)
    scale = float(unit * np.sqrt(np.average((values / unit - mean) ** 2, weights=weight)))
    return float(unit * mean), scale if scale > np.finfo(float).tiny else 1.0


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
    missing, recode : optional
        As in `Categorical`.
    parse : {None, "number", "percent", "currency", "decimal-comma", "date", "date-dmy"}, default=None
        How numbers are written in cells of text: "about 7", "7 hrs" or "1,200" (number), "32 %" is 32 (percent),
        "$1.5k" (currency), "1.234,50" (decimal-comma), dates as days since 1970-01-01 (date-dmy: the day first).

    Notes
    -----
    A cell is a number, `between`, `at_least` or `at_most` in the user's units.

    Examples
    --------
    >>> schema = tb.Schema({"age": tb.Continuous()}).fit({"age": [20, 40, tb.at_least(60), None]})
    >>> schema["age"].location
    40.0
    """

    kind: ClassVar[str] = "continuous"
    choices = (("rounded", (True, False)),)
    transform: Transform = None
    rounded: bool = field(default=False, kw_only=True)

    @property
    def form(self) -> Form:
        return (RoundedForm if self.unit else NumberForm)(self)

    @property
    def unit(self) -> float:
        return 10.0**-self.decimals if self.rounded and self.decimals is not None else 0.0

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        if not self.rounded:
            return super()._fit(cells, weight)
        lower, upper = self._ends(cells)
        known = self._precision.widened(lower, upper)._asdict()
        own = replace(self, **known)
        return replace(own.learn(*own._rounded(lower, upper), weight), **known)  # the range is that of the numbers

    def _scores(self, lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        is_one = upper - lower < 1.5 * self.unit  # or an interval between two numbers
        if not is_one.any():
            return super()._scores(lower, upper, weight)
        places = self.decimals or 0
        numbers = self._nearest((lower + upper)[is_one] / 2, places)
        intervals = lower[~is_one], upper[~is_one], weight[~is_one]
        knots, scores = scores_of_rounded(numbers, self.unit, weight[is_one], intervals)
        return self._nearest(knots, places + 1), scores

    def encode(self, cells: Cells) -> Block:
        if not self.unit:
            return super().encode(cells)
        lower, upper = self._ends(cells)
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
