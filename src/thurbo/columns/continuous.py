"""§3.1, point evidence: a measured number fixes its site, x = (T(e) − location) / scale.

Idea: the column standardises in the user's units; the model learns what remains of the scale.
Promises a strictly increasing map with a known derivative, so that densities are in the user's units.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import ClassVar, Literal, Self

import numpy as np

from thurbo.columns.base import Block, MeasuredColumn
from thurbo.columns.cells import BoolArray, Cells, FloatArray, Refused, as_numbers, show
from thurbo.columns.statements import Interval, Statement, split
from thurbo.errors import SchemaError

TRANSFORMS = (None, "log", "rank-normal")
_MOST_KNOTS = 200


@dataclass(frozen=True)
class Continuous(MeasuredColumn):
    """A number, standardised after `transform`: None, "log" (of positive numbers) or "rank-normal" (scores).

    `between`, `at_least` and `at_most` in a cell give an interval in the user's units.
    With `unseen="missing"` a cell that is no finite number, or that "log" cannot take, counts as missing.
    """

    kind: ClassVar[str] = "continuous"
    transform: Literal["log", "rank-normal"] | None = None
    knots: tuple[float, ...] = field(default=(), kw_only=True)  # rank-normal: numbers in the user's units ...
    scores: tuple[float, ...] = field(default=(), kw_only=True)  # ... and the normal score of each

    def _check(self) -> None:
        if self.transform not in TRANSFORMS:
            raise SchemaError(
                f"transform={self.transform!r} is not understood", remedy='use None, "log" or "rank-normal"'
            )
        increasing = all(np.all(np.diff(values) > 0) for values in (self.knots, self.scores))
        if len(self.knots) != len(self.scores) or not increasing:
            raise SchemaError("knots and scores are not two increasing lists of one length", remedy="fit the column")
        if self.scale is not None and not self.scale > 0:
            raise SchemaError(f"scale={self.scale} is not positive", remedy="fit the column")

    def fit(self, cells: Cells) -> Self:
        plain_cells, stated = split(cells)
        numbers, bad = self._numbers(plain_cells)
        # An interval counts as its middle, or its only end: enough to find the unit.
        middles = [_middle(end for end in self._ends(cells, *each) if end is not None) for each in stated.items()]
        numbers = np.concatenate([numbers[~bad], [middle for middle in middles if middle is not None]])
        fitted = self
        if self.transform == "rank-normal":
            knots, scores = _normal_scores(numbers)
            fitted = replace(self, knots=tuple(knots.tolist()), scores=tuple(scores.tolist()))
        location, scale = _location_and_scale(fitted._forward(numbers))
        return replace(fitted, location=location, scale=scale)

    def encode(self, cells: Cells) -> Block:
        plain_cells, stated = split(cells)
        numbers, bad = self._numbers(plain_cells)
        block = self.silent(len(cells))
        for position, statement in stated.items():
            lower, upper = self._ends(cells, position, statement)
            if lower is not None and lower == upper:  # an interval without width is a point
                numbers[position], bad[position] = lower, False
                continue
            for end, ends in ((lower, block.lower), (upper, block.upper)):
                if end is not None:
                    ends[position, 0] = self.to_standard(np.asarray([end]))[0]
        standard = self.to_standard(numbers[~bad])
        block.lower[~bad, 0] = block.upper[~bad, 0] = standard
        block.point[:, 0] = ~bad
        block.log_jacobian[~bad] = self.log_derivative(numbers[~bad])
        return block

    def _ends(self, cells: Cells, position: int, statement: Statement) -> tuple[float | None, float | None]:
        """The ends of a stated interval in the user's units, None where it is open or says nothing."""
        try:
            return self._interval(statement)
        except Refused as refused:
            if self.unseen == "missing":
                return None, None
            raise cells.error(position, refused.problem, refused.remedy) from None

    def _interval(self, statement: Statement) -> tuple[float | None, float | None]:
        if not isinstance(statement, Interval):
            raise Refused(f"{show(statement)} says nothing about a number", "use between, at_least or at_most")
        lower, upper = statement.lower, statement.upper
        if any(isinstance(end, str) for end in (lower, upper)):
            raise Refused(f"{show(statement)} has text where a number should be", "give numbers")
        if self.transform == "log" and upper is not None and upper <= 0:
            raise Refused(f"{show(statement)} leaves no positive number", 'use transform="rank-normal" or None')
        if self.transform == "log" and lower is not None and lower <= 0:
            lower = None  # every number that has a logarithm is above
        return lower, upper

    def describe(self) -> str:
        return "a number" if self.transform is None else f"a number, by its {self.transform} value"

    def to_standard(self, numbers: FloatArray) -> FloatArray:
        """Standard units of numbers in the user's: z = (T(e) − location) / scale."""
        location, scale = self.standard
        return (self._forward(np.asarray(numbers, np.float64)) - location) / scale

    def to_user(self, z: FloatArray) -> FloatArray:
        """Numbers in the user's units of standard ones: T⁻¹(location + scale z)."""
        location, scale = self.standard
        transformed = location + scale * np.asarray(z, np.float64)
        if self.transform == "log":
            with np.errstate(over="ignore"):
                return np.exp(transformed)
        if self.transform == "rank-normal":
            return _piecewise_linear(transformed, self.scores, self.knots, _tail_slopes(self.knots, self.scores, True))
        return transformed

    def log_derivative(self, numbers: FloatArray) -> FloatArray:
        """log |dz/de| at numbers in the user's units."""
        _, scale = self.standard
        numbers = np.asarray(numbers, np.float64)
        if self.transform == "log":
            return -np.log(numbers) - np.log(scale)
        if self.transform == "rank-normal":
            low, high = _tail_slopes(self.knots, self.scores)
            slopes = np.concatenate([[low], np.diff(self.scores) / np.diff(self.knots), [high]])
            return np.log(slopes[np.searchsorted(self.knots, numbers, side="right")]) - np.log(scale)
        return np.full(numbers.shape, -np.log(scale))

    def _forward(self, numbers: FloatArray) -> FloatArray:
        if self.transform == "log":
            return np.log(numbers)
        if self.transform == "rank-normal":
            return _piecewise_linear(numbers, self.knots, self.scores, _tail_slopes(self.knots, self.scores))
        return numbers

    def _numbers(self, cells: Cells) -> tuple[FloatArray, BoolArray]:
        """Cells as numbers, and which of them say nothing; raises at the first cell that is no number."""
        numbers, refused = as_numbers(cells)
        missing = cells.missing | np.isnan(numbers) & ~refused
        refused |= np.isinf(numbers) & ~missing
        if self.transform == "log":
            refused |= ~missing & ~(numbers > 0)
        if self.unseen == "error" and refused.any():
            position = int(refused.argmax())
            raise self._unknown(cells, position, numbers[position])
        return numbers, missing | refused

    def _unknown(self, cells: Cells, position: int, number: float) -> SchemaError:
        value = cells.values[position]
        escape = 'or let such cells count as missing with Continuous(unseen="missing")'
        if np.isinf(number):
            return cells.error(position, f"value {show(value)} is infinite", f"correct the cell, {escape}")
        if np.isnan(number):
            if cells.values.dtype.kind in "mM" or hasattr(value, "isoformat"):
                remedy = "turn dates and times into numbers, for instance days since the first"
                return cells.error(position, f"value {show(value)} is a date or time, not a number", remedy)
            return cells.error(position, f"value {show(value)} is not a number", f"correct the cell, {escape}")
        return cells.error(
            position,
            f'value {show(value)} has no logarithm, and the column is Continuous(transform="log")',
            f'use transform="rank-normal" or None, {escape}',
        )


def _middle(ends: Iterable[float]) -> float | None:
    known = list(ends)
    return float(np.mean(known)) if known else None


def _location_and_scale(values: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation; a column without spread keeps its unit."""
    if len(values) == 0:
        return 0.0, 1.0
    if values.min() == values.max():
        return float(values[0]), 1.0
    # In units of the largest, so that neither huge nor tiny numbers leave the range of floats when squared.
    unit = np.abs(values).max()
    location, scale = float(unit * np.mean(values / unit)), float(unit * np.std(values / unit))
    return location, scale if scale > np.finfo(float).tiny else 1.0


def _normal_scores(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Knots of a monotone map to normal scores Φ⁻¹(mid-rank / n); tied numbers share one score."""
    if len(numbers) == 0:
        return np.zeros(1), np.zeros(1)
    knots, count = np.unique(numbers, return_counts=True)
    probability = (np.cumsum(count) - count / 2) / len(numbers)
    if len(knots) > _MOST_KNOTS:
        # Even steps of probability follow the middle, even steps of score the tails.
        normal = NormalDist()
        lowest, highest = normal.inv_cdf(probability[0]), normal.inv_cdf(probability[-1])
        tails = [normal.cdf(score) for score in np.linspace(lowest, highest, 2 * _MOST_KNOTS // 5)]
        targets = np.concatenate([np.linspace(0, 1, 3 * _MOST_KNOTS // 5 - 2), tails])
        chosen = np.searchsorted(probability, targets).clip(0, len(knots) - 1)
        chosen = np.unique(np.concatenate([[0, len(knots) - 1], chosen]))
        knots, probability = knots[chosen], probability[chosen]
    # A step too small for a finite slope is no step.
    apart = np.concatenate([[True], np.diff(knots) > 1e-290])
    scores = np.asarray([NormalDist().inv_cdf(p) for p in probability[apart].tolist()])
    return knots[apart].astype(np.float64), scores


def _tail_slopes(knots: tuple[float, ...], scores: tuple[float, ...], inverse: bool = False) -> tuple[float, float]:
    """Slopes beyond the end knots: of secants over the outermost unit of score, which noise moves little."""
    x, y = np.asarray(knots), np.asarray(scores)
    if len(x) < 2:
        return 1.0, 1.0
    left = min(int(np.searchsorted(y, y[0] + 1.0)), len(y) - 1)
    right = max(int(np.searchsorted(y, y[-1] - 1.0, side="right")) - 1, 0)
    low = float((y[left] - y[0]) / (x[left] - x[0]))
    high = float((y[-1] - y[right]) / (x[-1] - x[right]))
    return (1 / low, 1 / high) if inverse else (low, high)


def _piecewise_linear(
    values: FloatArray, start: tuple[float, ...], end: tuple[float, ...], slopes: tuple[float, float]
) -> FloatArray:
    inside = np.interp(values, start, end)
    below, above = np.minimum(values - start[0], 0.0), np.maximum(values - start[-1], 0.0)
    return inside + slopes[0] * below + slopes[1] * above
