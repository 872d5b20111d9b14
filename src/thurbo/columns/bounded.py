"""§3.1, interval evidence: two columns of the table say between which ends a number lies.

Idea: the two ends, or a middle and how far the number may be from it; an end that is missing or infinite is open.
Promises a point with its density where both ends are equal, and never ends the wrong way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import BoolArray, Cells, FloatArray, as_numbers, show
from thurbo.columns.column import Block
from thurbo.columns.continuous import numbers_or_intervals
from thurbo.columns.measured import MeasuredColumn
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Bounded(MeasuredColumn):
    """A number between the ends that the columns `lower` and `upper` hold, or at most `halfwidth` from `center`.

    `halfwidth` is a number or a column. An end that is missing or infinite is open, so is one whose center or width is
    missing; equal ends are a point. A number, `between`, `at_least` or `at_most` under the column's own name takes the
    place of both. Decoded, both ends are the number (center the number, width 0); cells that hold an end never change.
    """

    kind: ClassVar[str] = "bounded"
    lower: str | None = field(default=None, kw_only=True)
    upper: str | None = field(default=None, kw_only=True)
    center: str | None = field(default=None, kw_only=True)
    halfwidth: float | str | None = field(default=None, kw_only=True)

    def _check_own(self) -> None:
        has_ends = self.lower is not None or self.upper is not None
        if has_ends == (self.center is not None) or (self.center is None) != (self.halfwidth is None):
            remedy = 'say Bounded(lower="column", upper="column") or Bounded(center="column", halfwidth=...)'
            raise SchemaError("Bounded needs two ends, or a center and a halfwidth", remedy=remedy)
        for setting in ("lower", "upper", "center"):
            name = getattr(self, setting)
            if name is not None and not isinstance(name, str):
                raise SchemaError(f"{setting}={name!r} names no column", remedy="name a column of the table")
        width = self.halfwidth
        if width is not None and not isinstance(width, str) and not (np.isfinite(width) and width >= 0):
            raise SchemaError(f"halfwidth={width!r} is no width", remedy="give a number of zero or more, or a column")
        if len(set(self.source_columns(""))) < len(self.source_columns("")):
            raise SchemaError(f"Bounded reads the column {show(self.source_columns('')[0])} twice", remedy="name two")

    def source_columns(self, name: str) -> tuple[str, ...]:
        columns = (self.lower, self.upper, self.center, self.halfwidth)
        return tuple(column for column in columns if isinstance(column, str))

    def fit(self, cells: Cells) -> Self:
        return self.learn(*self._ends(cells))

    def encode(self, cells: Cells) -> Block:
        return self.confined(*self._ends(cells))

    def _ends(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Both ends in the user's units [row], infinite where open."""
        silent = np.full(len(cells), np.inf)
        # A cell under the name of one of the ends is that end, unless it stands alone: in a query.
        is_own = cells.name not in cells.parts
        lower, upper = numbers_or_intervals(self, cells) if is_own else (-silent, silent)
        open_rows = np.isinf(lower) & np.isinf(upper)
        first, second = self._around(cells.parts) if self.center else self._between(cells.parts)
        if first is not None:
            lower = np.where(open_rows, first, lower)
        if second is not None:
            upper = np.where(open_rows, second, upper)
        return self._in_order(cells, lower, upper)

    def _between(self, parts: Mapping[str, Cells]) -> tuple[FloatArray | None, FloatArray | None]:
        found: list[FloatArray | None] = []
        for name, side in ((self.lower, -np.inf), (self.upper, np.inf)):
            part = None if name is None else parts.get(name)
            if part is None:
                found.append(None)
                continue
            numbers, silent = self._end(part)
            found.append(np.where(silent, side, numbers))
        return found[0], found[1]

    def _around(self, parts: Mapping[str, Cells]) -> tuple[FloatArray | None, FloatArray | None]:
        part = parts.get(str(self.center))
        if part is None:
            return None, None
        middle, silent = self.read_numbers(part)
        width = np.full(len(part), np.inf if isinstance(self.halfwidth, str) else self.halfwidth, np.float64)
        if self.halfwidth in parts:
            other = parts[str(self.halfwidth)]
            width, unknown = self._end(other)
            self._refuse(other, width < 0, "is a negative width")
            silent = silent | unknown | (width < 0)
        return np.where(silent, -np.inf, middle - width), np.where(silent, np.inf, middle + width)

    def _end(self, part: Cells) -> tuple[FloatArray, BoolArray]:
        """Cells of one end as numbers, infinite ones among them, and which of them say nothing."""
        numbers, refused = as_numbers(part)
        self._refuse(part, refused, "is not a number")
        return numbers, np.isnan(numbers)

    def _refuse(self, part: Cells, bad: BoolArray, problem: str) -> None:
        if self.unseen == "error" and bad.any():
            position = int(bad.argmax())
            remedy = 'correct the cell, or let such cells count as missing with Bounded(unseen="missing")'
            raise part.error(position, f"value {show(part.values[position])} {problem}", remedy)

    def _in_order(self, cells: Cells, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The ends, with those refused that leave no number."""
        part = cells.parts.get(str(self.lower or self.center), cells)
        crossed = (lower > upper) | (np.isinf(lower) & (lower == upper))
        if self.unseen == "error" and crossed.any():
            position = int(crossed.argmax())
            ends = f"the lower end {lower[position]:g} and the upper end {upper[position]:g} leave no number"
            raise part.error(position, ends, "exchange them, or leave the wrong one empty")
        if self.transform == "log":
            negative = ~crossed & (upper <= 0)
            if self.unseen == "error" and negative.any():
                position = int(negative.argmax())
                part = cells.parts.get(str(self.upper or self.center), cells)
                problem = f"the upper end {upper[position]:g} leaves no positive number"
                raise part.error(position, problem, 'use transform="rank-normal" or None')
            crossed |= negative
            lower = np.where(lower <= 0, -np.inf, lower)  # every number that has a logarithm is above
        return np.where(crossed, -np.inf, lower), np.where(crossed, np.inf, upper)

    def gaps(self, name: str, missing: dict[str, BoolArray], silent: BoolArray) -> dict[str, BoolArray]:
        """A row is filled in where it holds neither end: beside one that is there, a second would narrow it."""
        empty = np.logical_and.reduce(list(missing.values()))
        return dict.fromkeys(missing, empty & silent)

    def as_columns(self, name: str, numbers: FloatArray) -> dict[str, NDArray[Any]]:
        """Both ends at the number; of a center the number itself, and no width."""
        found = {column: numbers for column in (self.lower, self.upper, self.center) if column is not None}
        if isinstance(self.halfwidth, str):
            found[self.halfwidth] = np.where(np.isnan(numbers), np.nan, 0.0)
        return found

    def describe(self) -> str:
        if self.center is not None:
            return self.described(f"a number within {self.halfwidth} of {self.center}")
        if self.lower is None or self.upper is None:
            end = f"at least {self.lower}" if self.lower else f"at most {self.upper}"
            return self.described(f"a number, {end}")
        return self.described(f"a number from {self.lower} to {self.upper}")
