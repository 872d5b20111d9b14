"""§3.1, interval and one-sided evidence: a number between two columns, in a named band, or only known beyond a limit.

`Bounded` has two ends, or a centre and half a width; a missing end is open, equal ends are a point. `Censored` is a
number that was observed, with a density, or is only known to be beyond a limit, with a probability. The labels of
`Banded` are bands, such as "30-44": the model is about the number, and unlike levels, bands have known distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, BoolArray, Cells, FloatArray, IntArray, as_numbers
from thurbo.table.columns.column import Column, are_pairs
from thurbo.table.columns.continuous import NARROWEST, MeasuredColumn
from thurbo.table.columns.forms.form import middles
from thurbo.table.columns.forms.number import BandForm
from thurbo.table.columns.labels import SpreadChoice, check_labels
from thurbo.table.columns.numbers import two_ends
from thurbo.table.columns.ordinal import Binary
from thurbo.table.columns.statements import Interval, OneOfStatement, Statement
from thurbo.table.columns.values import Refused, is_label, is_word, listing, natural, show, suggestion

Ends = tuple[float, float]


@dataclass(frozen=True)
class Censored(MeasuredColumn):
    """A number that may be censored: number ≥ value if the event was not observed, or beyond a limit of the scale.

    Parameters
    ----------
    event : str, optional
        Name of the column that shows whether the event was observed. If not, the number is a lower bound.
    limits : tuple, optional
        (lowest, highest) number that can be observed; None for no limit. A number at or beyond a limit is censored.
    true : label, optional
        The value of `event` that means "observed"; not needed for booleans, 0 and 1, or yes and no.
    values : tuple, optional
        Both values of `event`, (censored, observed). `fit` sets them.
    lowest, highest : float, optional
        Range of predicted and drawn numbers, if there is one; `fit` widens it to what was observed. Without it only
        `limits` confine them: where numbers are censored, others can lie beyond those that were observed.
    transform, location, scale, knots, scores, decimals, unseen, missing, parse, recode : optional
        As in `Continuous`.

    Notes
    -----
    A cell is a number, `between`, `at_least` or `at_most`. A number with a missing event counts as censored. An
    imputed number is an observed event; a number beyond a limit is written as the limit.

    Examples
    --------
    >>> table = {"months": [3, 12, 7], "relapse": ["yes", "no", "yes"]}
    >>> tb.Schema({"months": tb.Censored(event="relapse", transform="log")}).fit(table)["months"].describe()
    'a number, at least that where relapse is not yes, by its log value'
    """

    kind: ClassVar[str] = "censored"
    event: str | None = None
    limits: tuple[float | None, float | None] | None = field(default=None, kw_only=True)
    true: Any = field(default=None, kw_only=True)
    values: tuple[Any, Any] | None = field(default=None, kw_only=True)  # of the event: (censored, observed); set by fit

    def _check(self) -> None:
        super()._check()
        if self.event is None and self.limits is None:
            remedy = 'use Censored(event="column") or Censored(limits=(0, 100)), or use Continuous()'
            raise SchemaError("Censored has neither an event nor limits", remedy=remedy)
        if self.event is not None and not isinstance(self.event, str):
            raise SchemaError(f"event={self.event!r} is not the name of a column", remedy="name a column of the table")
        if self.event is None and self.true is not None:
            raise SchemaError("Censored has true= but no event=", remedy='add event="column"')
        if self.limits is not None:
            object.__setattr__(self, "limits", two_ends(self.limits, f"limits={self.limits!r}", all_open=True))
            if self.transform == "log" and not self.declared_range[1] > 0:
                raise SchemaError(f"limits {self.limits} contain no positive number", remedy="use another transform")
        if self.event is not None:
            self._events  # noqa: B018  (raises an error unless there are two values)

    @property
    def declared_range(self) -> tuple[float, float]:
        """The limits: a number beyond them is observed as the limit."""
        stored: Any = self.limits or (-np.inf, np.inf)
        return stored

    @property
    def _events(self) -> Binary:
        return Binary(self.true, values=self.values, unseen=self.unseen)

    def source_columns(self, name: str) -> tuple[str, ...]:
        return (name,) if self.event is None else (name, self.event)

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        fitted = self
        part = None if self.event is None else cells.parts.get(self.event)
        if part is not None and self.values is None:
            fitted = replace(self, true=None, values=self._events.fit(part).values)
            # Two arbitrary values are ambiguous: R's survival accepts 1 and 2.
            distinct, which = part.factorise()
            for place, value in enumerate(distinct if self.true is None else ()):
                if not (is_word(value) if isinstance(value, str) else value in (0, 1)):
                    problem = f"{show(value)} does not show whether the event was observed"
                    remedy = "use Censored(event=..., true=...) with the value that means it was observed"
                    raise part.error(int((which == place).argmax()), problem, remedy)
        return super(Censored, fitted)._fit(cells, weight)

    def learn(self, lower: FloatArray, upper: FloatArray, weight: FloatArray | None = None) -> Self:
        fitted = super().learn(lower, upper, weight)
        undeclared: dict[str, Any] = {name: None for name in ("lowest", "highest") if getattr(self, name) is None}
        return replace(fitted, **undeclared)

    def _ends(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        least, most = self.declared_range
        lower, upper = super()._ends(cells)
        is_number = (lower == upper) & np.isfinite(lower)
        censored = is_number & (~self._seen(cells, is_number) | (lower >= most))
        below = is_number & ~censored & (lower <= least)
        lower = np.select([below, censored], [-np.inf, np.minimum(lower, most)], lower)
        upper = np.select([below, censored], [least, np.inf], upper)
        if self.transform == "log":
            lower = np.where(lower <= 0, -np.inf, lower)
        return lower, upper

    def _seen(self, cells: Cells, is_number: BoolArray) -> BoolArray:
        """Where the event was observed; all rows if there is no such column, or if a query gives only the number."""
        if self.event is None or not cells.parts or not is_number.any():
            return np.ones(len(cells), bool)
        if self.event not in cells.parts:
            problem = f'the table does not have this column, which "{cells.name}" needs'
            raise SchemaError(problem, column=self.event, remedy="add it, or use Continuous() if nothing is censored")
        return self._events.to_ranges(cells.parts[self.event])[0] == 1

    def as_cells(self, numbers: FloatArray) -> NDArray[Any]:
        found = np.clip(np.asarray(numbers, np.float64), *self.declared_range)
        is_whole = np.asarray(numbers).dtype.kind == "i" and bool(np.all(found == np.floor(found)))
        return found.astype(np.int64) if is_whole else found

    def as_columns(self, name: str, numbers: FloatArray) -> dict[str, NDArray[Any]]:
        found = {name: self.as_cells(numbers)}
        if self.event is not None:
            found[self.event] = natural(self.values or (False, True), np.where(np.isnan(numbers), -1, 1))
        return found

    def describe(self) -> str:
        least, most = self.declared_range
        seen = self.values[1] if self.values else self.true
        unseen = "false" if seen is None else f"not {seen}"
        words = [f"at least that where {self.event} is {unseen}"] if self.event else []
        words += [f"censored at {end:g}" for end in (least, most) if np.isfinite(end)]
        return self.described(f"a number, {', '.join(words)}")


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
    transform, location, scale, knots, scores, decimals, lowest, highest, unseen, missing, parse, recode : optional
        As in `Continuous`.

    Notes
    -----
    Cells are numbers. An end that is missing or infinite is open; so are both ends if the center or the width is
    missing. Equal ends are a point. In a query, a number, `between`, `at_least` or `at_most` under the name of the
    column replaces both ends. Imputation writes the number to both ends (or to the center, with width 0) and never
    changes a cell that holds an end.

    Examples
    --------
    >>> table = {"low": [10, 20, 30], "high": [20, None, 30]}
    >>> tb.Schema({"income": tb.Bounded(lower="low", upper="high")}).fit(table)["income"].describe()
    'a number from low to high'
    """

    kind: ClassVar[str] = "bounded"
    lower: str | None = field(default=None, kw_only=True)
    upper: str | None = field(default=None, kw_only=True)
    center: str | None = field(default=None, kw_only=True)
    halfwidth: float | str | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        super()._check()
        has_ends = self.lower is not None or self.upper is not None
        if has_ends == (self.center is not None) or (self.center is None) != (self.halfwidth is None):
            remedy = 'use Bounded(lower="column", upper="column") or Bounded(center="column", halfwidth=...)'
            raise SchemaError("Bounded needs two ends, or a center and a halfwidth", remedy=remedy)
        for setting in ("lower", "upper", "center"):
            name = getattr(self, setting)
            if name is not None and not isinstance(name, str):
                problem = f"{setting}={name!r} is not the name of a column"
                raise SchemaError(problem, remedy="name a column of the table")
        width = self.halfwidth
        if width is not None and not isinstance(width, str) and not (np.isfinite(width) and width >= 0):
            problem = f"halfwidth={width!r} is not a width"
            raise SchemaError(problem, remedy="give a number of zero or more, or a column")
        if len(set(self.source_columns(""))) < len(self.source_columns("")):
            problem = f"Bounded reads the column {show(self.source_columns('')[0])} twice"
            raise SchemaError(problem, remedy="name two different columns")

    def source_columns(self, name: str) -> tuple[str, ...]:
        columns = (self.lower, self.upper, self.center, self.halfwidth)
        return tuple(column for column in columns if isinstance(column, str))

    def _ends(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        ends = self._around(cells) if self.center else [self._end(cells, name) for name in (self.lower, self.upper)]
        lower, upper = (np.where(np.isnan(end), side, end) for end, side in zip(ends, (-np.inf, np.inf), strict=True))
        if cells.name not in cells.parts:  # a cell under the name of an end is that end, unless it is given alone
            first, last = super()._ends(cells)
            is_open = np.isinf(first) & np.isinf(last)
            lower, upper = np.where(is_open, lower, first), np.where(is_open, upper, last)
        return self._in_order(cells, lower, upper)

    def _around(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """The ends by the center and the width, NaN where one of these is missing."""
        middle, width = np.full(len(cells), np.nan), self._end(cells, self.halfwidth)
        if (part := cells.parts.get(str(self.center))) is not None:
            numbers, silent = self.read_numbers(part)
            middle = np.where(silent, np.nan, numbers)
        if (part := cells.parts.get(str(self.halfwidth))) is not None:
            self.refuse(part, width < 0, "value {} is a negative width")
        width = np.where(width < 0, np.nan, width)
        return middle - width, middle + width

    def _end(self, cells: Cells, name: Any) -> FloatArray:
        """A number for all rows, or a column as numbers, infinite ones included, NaN where it has none."""
        if name not in cells.parts:
            return np.full(len(cells), np.nan if name is None or isinstance(name, str) else name, np.float64)
        numbers, refused = as_numbers(cells.parts[name])
        self.refuse(cells.parts[name], refused, "value {} is not a number")
        return numbers

    def _in_order(self, cells: Cells, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The ends; raises an error if no number is between them."""
        crossed = (lower > upper) | (np.isinf(lower) & (lower == upper))
        if self.unseen == "error" and crossed.any():
            position = int(crossed.argmax())
            ends = f"the lower end {lower[position]:g} and the upper end {upper[position]:g} contain no number"
            part = cells.parts.get(str(self.lower or self.center), cells)
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

    def gaps(
        self, name: str, given: Mapping[str, Cells], kinds: Iterable[str], answered: BoolArray
    ) -> dict[str, BoolArray]:
        """A row is imputed only if it has neither end: a second end would narrow a known interval."""
        found = super().gaps(name, given, kinds, answered)
        empty: BoolArray = np.logical_and.reduce(list(found.values()))
        return dict.fromkeys(found, empty)

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


@dataclass(frozen=True)
class Banded(SpreadChoice, MeasuredColumn):
    """A number that is known by its band: lower ≤ number ≤ upper for the chosen band.

    Parameters
    ----------
    bands : dict
        The two ends of each band by its label. None is an open end. Bands may leave gaps and must not overlap.
    transform, location, scale, knots, scores, decimals, lowest, highest, parse : optional
        As in `Continuous`.
    names, unseen, columns, ticked, marks, missing, recode : optional
        As in `Categorical`.

    Notes
    -----
    A cell is the label of a band, a number (if all labels are text), `between`, `at_least`, `at_most`, or `one_of`
    adjacent bands.

    Examples
    --------
    >>> column = tb.Banded({"45 or more": (45, None), "18-29": (18, 30), "30-44": (30, 45)})
    >>> column.labels
    ('18-29', '30-44', '45 or more')
    >>> schema = tb.Schema({"age": column}).fit({"age": ["18-29", 33, tb.at_least(60), None]})
    >>> schema["age"].describe()
    'a number in one of 18-29 | 30-44 | 45 or more'
    """

    kind: ClassVar[str] = "banded"
    form_type = BandForm
    is_one_label: ClassVar[bool] = True
    has_order = True
    mappings: ClassVar[tuple[str, ...]] = ("bands", "columns")
    one = "band"
    bands: Mapping[Any, tuple[float | None, float | None]] | None = None  # stored as pairs

    def _check(self) -> None:
        stored: Any = self.bands
        if not are_pairs(stored):
            remedy = 'give Banded({"18-29": (18, 30), "> 60": (60, None)})'
            raise SchemaError(f"bands={stored!r} is not a dictionary of bands", remedy=remedy)
        check_labels(tuple(label for label, _ in stored), "bands", "band", "Banded")
        ends = [(label, two_ends(own, f"the band {show(label)}")) for label, own in stored]
        bands = sorted(ends, key=lambda band: band[1])
        for (one, (_, end)), (other, (start, _)) in pairwise(bands):
            if start < end:
                problem = f"the bands {show(one)} and {show(other)} overlap, from {start:g} to {end:g}"
                raise SchemaError(problem, remedy="let each band begin where the one below it ends")
        if self.transform == "log" and bands[0][1][1] <= 0:
            problem = f"the band {show(bands[0][0])} contains no positive number"
            raise SchemaError(problem, remedy='use transform="rank-normal" or None')
        object.__setattr__(self, "bands", tuple(bands))
        super()._check()

    @classmethod
    def answers_of_type(cls, column: Column) -> dict[str, Any]:
        return {}  # only texts tell the ends of bands

    def with_answers(self, labels: Sequence[Any], **settings: Any) -> Column:
        ends = dict(self._pairs)
        for label in labels:
            if label not in ends:
                remedy = 'give its ends with with_type(name, tb.Banded({"18-29": (18, 30), ...}))'
                raise SchemaError(f"{show(label)} is not one of the bands", remedy=f"{remedy}, or choose another type")
        return replace(self, bands={label: ends[label] for label in labels}, **settings)

    @property
    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the bands in the user's units, infinite if open."""
        lower, upper = np.asarray([ends for _, ends in self._pairs], np.float64).T
        return (np.where(lower <= 0, -np.inf, lower) if self.transform == "log" else lower), upper

    @property
    def standard_edges(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the bands in standard units."""
        lower, upper = self.edges
        return self.to_standard(lower), self.to_standard(upper)

    @property
    def effect_edges(self) -> FloatArray:
        """Between neighbouring bands, in the middle of a gap, in standard units."""
        lower, upper = self.standard_edges
        return (upper[:-1] + lower[1:]) / 2

    @property
    def declared_range(self) -> tuple[float, float]:
        """From the lowest to the highest end of the bands."""
        lower, upper = self.edges
        return float(lower[0]), float(upper[-1])

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        lower, upper = self._ends(cells)
        if np.isinf(lower).all() and np.isinf(upper).all():  # without answers, the bands determine location and scale
            return self.learn(*self.edges)
        return self.learn(lower, upper, weight)

    def _ends(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        places = self.lookup
        found, which = cells.read(lambda value: self._said(value, places), (-np.inf, np.inf), self.unseen)
        ends = np.asarray(found, np.float64)
        return ends[which, 0], ends[which, 1]

    def _said(self, value: Any, places: Mapping[Any, int]) -> Ends:
        if isinstance(value, OneOfStatement):
            codes = sorted(self.find(value.values, places))
            if codes[-1] - codes[0] >= len(codes):
                raise Refused(f"{show(value)} leaves out bands between them", "name adjacent bands")
            return self._from_to(codes[0], codes[-1])
        if isinstance(value, Interval) and any(isinstance(end, str) for end in (value.lower, value.upper)):
            low = 0 if value.lower is None else self.find([value.lower], places)[0]
            high = len(places) - 1 if value.upper is None else self.find([value.upper], places)[0]
            if low > high:
                raise Refused(f"{show(value)} has its ends in the wrong order", "exchange them")
            # "At least 45-59" has no upper end, even if the highest band has one.
            lower, upper = self._from_to(low, min(high, len(self.labels) - 1))
            return -np.inf if value.lower is None else lower, np.inf if value.upper is None else upper
        if isinstance(value, Statement):
            return self._interval(value)
        if is_label(value) and value in places:
            return self._from_to(places[value], places[value])
        if not isinstance(value, bool) and all(isinstance(label, str) for label in self.labels):
            with suppress(TypeError, ValueError, OverflowError):
                number = float(value)
                if np.isfinite(number) and (self.transform != "log" or number > 0):
                    return number, number
        raise self.unknown(value)

    def _from_to(self, low: int, high: int) -> Ends:
        lower, upper = self.edges
        return float(lower[low]), float(upper[high])

    def unknown(self, label: Any) -> Refused:
        near = suggestion(label, (*self.labels, *self.texts)) if isinstance(label, str) else ""
        return Refused(
            f"{show(label)} is not one of the bands {listing(self.texts)}",
            f'{near}correct the cell, add it to Banded({{...}}), or use Banded(unseen="missing")',
        )

    def codes(self, block: Block) -> IntArray:
        """The only band that is compatible with each cell: [row], −1 if there are several."""
        lower, upper = self.standard_edges
        slack = 1e-9 * np.maximum(1.0, np.abs(np.where(np.isfinite(lower), lower, 0.0)))
        low, high = block.lower, block.upper
        # An interval that was widened for single precision is larger than its band; its middle is inside.
        narrow = np.isfinite(low) & np.isfinite(high) & (high <= low + (1 + 1e-9) * NARROWEST)
        middle = middles(np.where(narrow, low, 0.0), np.where(narrow, high, 0.0))
        low, high = np.where(narrow, middle, low), np.where(narrow, middle, high)
        within = (low >= lower - slack) & (high <= upper + slack) & block.observed
        return np.where(within.any(axis=1), within.argmax(axis=1), -1).astype(np.int32)

    def nearest(self, numbers: FloatArray) -> IntArray:
        """The band that contains each number, or else the nearest band: [row], −1 if the number is missing."""
        lower, upper = self.edges
        numbers = np.asarray(numbers, np.float64)
        outside = np.maximum(lower - numbers[:, None], numbers[:, None] - upper)
        # A number on the edge between two bands belongs to the higher band.
        found = len(self.labels) - 1 - np.maximum(outside, 0.0)[:, ::-1].argmin(axis=1)
        return np.where(np.isnan(numbers), -1, found).astype(np.int32)

    def _numbers(self, x: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Not rounded: a rounded number can be in the next band."""
        return self.to_user(np.asarray(x, np.float64)[:, 0] * np.ravel(scale)[0])

    def as_cells(self, numbers: FloatArray) -> NDArray[Any]:
        return self.answers_of(self.nearest(numbers))

    def describe(self) -> str:
        return self.described(f"a number in one of {listing(self.texts, ' | ')}")
