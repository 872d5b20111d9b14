"""§3.1, interval evidence with names: an answer such as "30-44" gives an interval that contains a number.

The labels are the bands; the model is about the number. Unlike levels, bands have known distances.
Bands are sorted from lowest to highest and do not overlap. A number decodes to its band, or to the nearest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, Cells, FloatArray, IntArray
from thurbo.table.columns.column import Column, are_pairs
from thurbo.table.columns.continuous import NARROWEST, MeasuredColumn
from thurbo.table.columns.forms.form import middles
from thurbo.table.columns.forms.number import BandForm
from thurbo.table.columns.labels import check_labels
from thurbo.table.columns.numbers import two_ends
from thurbo.table.columns.spread import SpreadChoice
from thurbo.table.columns.statements import Interval, OneOfStatement, Statement
from thurbo.table.columns.values import Refused, is_label, listing, show, suggestion

Ends = tuple[float, float]


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
        number = self._number(value)
        if number is None:
            raise self.unknown(value)
        return number, number

    def _from_to(self, low: int, high: int) -> Ends:
        lower, upper = self.edges
        return float(lower[low]), float(upper[high])

    def _number(self, value: Any) -> float | None:
        """The cell as a number; None if labels are numbers themselves, or if the number cannot be used."""
        if isinstance(value, bool) or any(not isinstance(label, str) for label in self.labels):
            return None
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
            if np.isfinite(number) and (self.transform != "log" or number > 0):
                return number
        return None

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
        low, high = (np.where(narrow, middles(low, high), end) for end in (low, high))
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
