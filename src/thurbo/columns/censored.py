"""§3.1, one-sided evidence: a number that was observed, or of which only one side is known.

Idea: a subject still under study says "later than this"; a reading at the end of a scale, "this or beyond".
Promises a density for what was observed and a mass for what was censored, both in the user's units.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.binary import Binary, is_word
from thurbo.columns.cells import BoolArray, Cells, FloatArray, is_label, show
from thurbo.columns.column import Block
from thurbo.columns.continuous import numbers_or_intervals
from thurbo.columns.labels import natural
from thurbo.columns.measured import MeasuredColumn
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Censored(MeasuredColumn):
    """A number that may be censored: where the column `event` is false, it is only known to be at least this much.

    `true` is the value of that column which says that the event was seen; booleans, 0 and 1, yes and no need none. A
    number whose event is missing counts as censored. With `limits=(lowest, highest)`, None where there is none, a
    number at or past a limit is known to lie there or beyond. Statements and `unseen` are those of `Continuous`.
    Decoded, a number is an event that was seen, and one past a limit is shown at it.
    """

    kind: ClassVar[str] = "censored"
    event: str | None = None
    limits: tuple[float | None, float | None] | None = field(default=None, kw_only=True)
    true: Any = field(default=None, kw_only=True)
    values: tuple[Any, Any] | None = field(default=None, kw_only=True)  # of the event: (censored, seen); found by fit

    def _check_own(self) -> None:
        if self.event is None and self.limits is None:
            remedy = 'say Censored(event="column") or Censored(limits=(0, 100)), or use Continuous()'
            raise SchemaError("Censored does not say what is censored", remedy=remedy)
        if self.event is not None and not isinstance(self.event, str):
            raise SchemaError(f"event={self.event!r} names no column", remedy="name a column of the table")
        if self.event is None and self.true is not None:
            raise SchemaError("Censored has a true event and no column of events", remedy='add event="column"')
        if self.limits is not None:
            object.__setattr__(self, "limits", _limits(self.limits))
            if self.transform == "log" and not self._limits[1] > 0:
                raise SchemaError(f"limits {self.limits} leave no positive number", remedy="use another transform")
        if self.event is not None:
            self._events  # noqa: B018  (refuses values that are not two)

    @property
    def _limits(self) -> tuple[float, float]:
        stored: Any = self.limits or (-np.inf, np.inf)
        return stored

    @property
    def _events(self) -> Binary:
        return Binary(self.true, values=self.values, unseen=self.unseen)

    def source_columns(self, name: str) -> tuple[str, ...]:
        return (name,) if self.event is None else (name, self.event)

    def fit(self, cells: Cells) -> Self:
        fitted = self
        part = None if self.event is None else cells.parts.get(self.event)
        if part is not None and self.values is None:
            events = self._events.fit(part)
            self._refuse_guess(part)
            fitted = replace(self, true=None, values=events.values)
        return fitted.learn(*fitted._ends(cells))

    def _refuse_guess(self, part: Cells) -> None:
        """Which of two arbitrary values means "seen" nobody can know: R's survival has 1 and 2, others 2 and 1."""
        distinct, which = part.factorise()
        for place, value in enumerate(distinct if self.true is None else ()):
            if not (is_word(value) if isinstance(value, str) else value in (0, 1)):
                problem = f"{show(value)} does not tell whether the event was seen"
                remedy = "say Censored(event=..., true=...) with the value that means it was seen"
                raise part.error(int((which == place).argmax()), problem, remedy)

    def encode(self, cells: Cells) -> Block:
        return self.confined(*self._ends(cells))

    def _ends(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Both ends of what is known, in the user's units [row], infinite where open."""
        least, most = self._limits
        number, top = numbers_or_intervals(self, cells, least if least > 0 else -np.inf)
        is_number = (number == top) & np.isfinite(number)
        lower, upper = number.copy(), top
        below, above = is_number & (number <= least), is_number & (number >= most)
        lower[below], upper[below] = -np.inf, least
        lower[above], upper[above] = most, np.inf
        censored = is_number & ~self._seen(cells, is_number)
        lower[censored], upper[censored] = np.minimum(number[censored], most), np.inf
        if self.transform == "log":
            lower = np.where(lower <= 0, -np.inf, lower)
        return lower, upper

    def _seen(self, cells: Cells, is_number: BoolArray) -> BoolArray:
        """Where the event was seen; everywhere, where there is no such column or a query gives the number alone."""
        if self.event is None or not cells.parts or not is_number.any():
            return np.ones(len(cells), bool)
        if self.event not in cells.parts:
            problem = f'the table lacks this column, which "{cells.name}" needs'
            raise SchemaError(problem, column=self.event, remedy="add it, or use Continuous() if nothing is censored")
        return self._events.to_ranges(cells.parts[self.event])[0] == 1

    def as_cells(self, numbers: FloatArray) -> NDArray[Any]:
        return np.clip(numbers, *self._limits)

    def as_columns(self, name: str, numbers: FloatArray) -> dict[str, NDArray[Any]]:
        found = {name: self.as_cells(numbers)}
        if self.event is not None:
            found[self.event] = natural(self.values or (False, True), np.where(np.isnan(numbers), -1, 1))
        return found

    def describe(self) -> str:
        least, most = self._limits
        seen = self.values[1] if self.values else self.true
        unseen = "false" if seen is None else f"not {seen}"
        words = [f"at least that where {self.event} is {unseen}"] if self.event else []
        words += [f"censored at {end:g}" for end in (least, most) if np.isfinite(end)]
        return self.described(f"a number, {', '.join(words)}")


def _limits(limits: Any) -> tuple[float, float]:
    """The lowest and the highest number that is seen as it is, ∓∞ where there is no limit."""
    if not isinstance(limits, tuple) or len(limits) != 2:
        raise SchemaError(f"limits={limits!r} are not two", remedy="give (lowest, highest), None where there is none")
    lower, upper = (side if end is None else end for end, side in zip(limits, (-np.inf, np.inf), strict=True))
    for end in (lower, upper):
        if isinstance(end, (bool, str)) or not isinstance(end, (int, float)) or not (is_label(end) or np.isinf(end)):
            raise SchemaError(f"the limit {show(end)} is no number", remedy="give a number, or None for no limit")
    if not lower < upper:
        raise SchemaError(f"limits from {lower:g} to {upper:g} leave nothing", remedy="give the lower limit first")
    return float(lower), float(upper)
