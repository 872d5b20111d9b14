"""§3.1, interval evidence: two columns of the table give an interval that contains a number.

The interval is given by its two ends, or by its center and half its width. A missing or infinite end is open.
Equal ends are a point with a density. An upper end below the lower end is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.block import Block
from thurbo.columns.cells import BoolArray, Cells, FloatArray, as_numbers, show
from thurbo.columns.continuous import numbers_or_intervals
from thurbo.columns.measured import MeasuredColumn
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Bounded(MeasuredColumn):
    """A number in an interval, lower ≤ number ≤ upper, whose ends are in columns of the table.

    Parameters
    ----------
    lower, upper : str, optional
        Names of the columns that hold the ends.
    center : str, optional
        Name of the column that holds the middle of the interval; used with `halfwidth`.
    halfwidth : float or str, optional
        The largest distance from the center: a number, or the name of a column.
    transform : {None, "log", "rank-normal"}, default=None
        As in `Continuous`.
    location, scale, knots, scores : optional
        The map to standard units, as in `Continuous`. `fit` sets them.
    decimals, lowest, highest : optional
        Decimals and range of predicted numbers, as in `Continuous`.
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is not a number.
    missing : dict or list, optional
        Values that mean "no answer", such as {-1: "Refused"}.
    parse : {None, "number", "percent", "currency", "decimal-comma", "date", "date-dmy"}, default=None
        How numbers are written in cells of text: "about 7", "7 hrs" or "1,200" (number), "32 %" is 32 (percent),
        "$1.5k" (currency), "1.234,50" (decimal-comma), dates as days since 1970-01-01 (date-dmy: the day first).
    recode : dict, optional
        Values that are read as another value, such as {"Y": "Yes"}; the table is not changed.

    Notes
    -----
    Cells are numbers. An end that is missing or infinite is open; so are both ends if the center or the width is
    missing. Equal ends are a point. In a query, a number, `between`, `at_least` or `at_most` under the name of the
    column replaces both ends. Imputation writes the number to both ends (or to the center, with width 0) and never
    changes a cell that holds an end.

    Examples
    --------
    >>> import thurbo as tb
    >>> table = {"low": [10, 20, 30], "high": [20, None, 30]}
    >>> tb.Schema({"income": tb.Bounded(lower="low", upper="high")}).fit(table)["income"].describe()
    'a number from low to high'
    """

    kind: ClassVar[str] = "bounded"
    lower: str | None = field(default=None, kw_only=True)
    upper: str | None = field(default=None, kw_only=True)
    center: str | None = field(default=None, kw_only=True)
    halfwidth: float | str | None = field(default=None, kw_only=True)

    def _check_own(self) -> None:
        has_ends = self.lower is not None or self.upper is not None
        if has_ends == (self.center is not None) or (self.center is None) != (self.halfwidth is None):
            remedy = 'use Bounded(lower="column", upper="column") or Bounded(center="column", halfwidth=...)'
            raise SchemaError("Bounded needs two ends, or a center and a halfwidth", remedy=remedy)
        for setting in ("lower", "upper", "center"):
            name = getattr(self, setting)
            if name is not None and not isinstance(name, str):
                raise SchemaError(
                    f"{setting}={name!r} is not the name of a column", remedy="name a column of the table"
                )
        width = self.halfwidth
        if width is not None and not isinstance(width, str) and not (np.isfinite(width) and width >= 0):
            raise SchemaError(
                f"halfwidth={width!r} is not a width", remedy="give a number of zero or more, or a column"
            )
        if len(set(self.source_columns(""))) < len(self.source_columns("")):
            raise SchemaError(
                f"Bounded reads the column {show(self.source_columns('')[0])} twice",
                remedy="name two different columns",
            )

    def source_columns(self, name: str) -> tuple[str, ...]:
        columns = (self.lower, self.upper, self.center, self.halfwidth)
        return tuple(column for column in columns if isinstance(column, str))

    def _fit(self, cells: Cells, weight: FloatArray | None) -> Self:
        return self.learn(*self._ends(cells), weight)

    def encode(self, cells: Cells) -> Block:
        return self.confined(*self._ends(cells))

    def _ends(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Both ends in the user's units [row], infinite if open."""
        silent = np.full(len(cells), np.inf)
        # A cell under the name of an end is that end, unless it is given alone, as in a query.
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
        """Cells of one end as numbers (infinite ones included), and which of them are missing."""
        numbers, refused = as_numbers(part)
        self._refuse(part, refused, "is not a number")
        return numbers, np.isnan(numbers)

    def _refuse(self, part: Cells, bad: BoolArray, problem: str) -> None:
        if self.unseen == "error" and bad.any():
            position = int(bad.argmax())
            remedy = 'correct the cell, or treat such cells as missing with Bounded(unseen="missing")'
            raise part.error(position, f"value {show(part.values[position])} {problem}", remedy)

    def _in_order(self, cells: Cells, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The ends; raises an error if no number is between them."""
        part = cells.parts.get(str(self.lower or self.center), cells)
        crossed = (lower > upper) | (np.isinf(lower) & (lower == upper))
        if self.unseen == "error" and crossed.any():
            position = int(crossed.argmax())
            ends = f"the lower end {lower[position]:g} and the upper end {upper[position]:g} contain no number"
            raise part.error(position, ends, "exchange them, or leave the wrong one empty")
        if self.transform == "log":
            negative = ~crossed & (upper <= 0)
            if self.unseen == "error" and negative.any():
                position = int(negative.argmax())
                part = cells.parts.get(str(self.upper or self.center), cells)
                problem = f"the upper end {upper[position]:g} leaves no positive number"
                raise part.error(position, problem, 'use transform="rank-normal" or None')
            crossed |= negative
            lower = np.where(lower <= 0, -np.inf, lower)  # all positive numbers are above
        return np.where(crossed, -np.inf, lower), np.where(crossed, np.inf, upper)

    def gaps(self, name: str, missing: dict[str, BoolArray], silent: BoolArray) -> dict[str, BoolArray]:
        """A row is imputed only if it has neither end: a second end would narrow a known interval."""
        empty = np.logical_and.reduce(list(missing.values()))
        return dict.fromkeys(missing, empty & silent)

    def as_columns(self, name: str, numbers: FloatArray) -> dict[str, NDArray[Any]]:
        """Both ends equal to the number; for a center, the number itself and width 0."""
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
