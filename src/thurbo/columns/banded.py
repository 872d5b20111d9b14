"""§3.1, interval evidence by name: an answer such as "30-44" says between which ends a number lies.

Idea: the bands are the labels, the number behind them is what the model knows; unlike levels, distances count.
Promises bands from lowest to highest that do not overlap, and decoding to the one that holds the number or is nearest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Cells, FloatArray, IntArray, Refused, is_label, listing, plain, show, suggestion
from thurbo.columns.column import Block
from thurbo.columns.labels import LabelledColumn, check_labels, natural
from thurbo.columns.measured import NARROWEST, MeasuredColumn
from thurbo.columns.statements import Interval, OneOf, Statement
from thurbo.errors import SchemaError

Ends = tuple[float, float]


@dataclass(frozen=True)
class Banded(LabelledColumn, MeasuredColumn):
    """One of some `bands` of a number: {"18-29": (18, 30), "30-44": (30, 45), "45 or more": (45, None)}.

    None is an open end. Bands may leave gaps and must not overlap. A cell may also be a bare number (where no label is
    one), `between`, `at_least`, `at_most`, or `one_of` neighbouring bands. Labels stand from the lowest band up.
    """

    kind: ClassVar[str] = "banded"
    mappings: ClassVar[tuple[str, ...]] = ("bands",)
    bands: Mapping[Any, tuple[float | None, float | None]] | None = None  # kept as pairs, which are immutable

    def _check_own(self) -> None:
        stored: Any = self.bands
        shape = isinstance(stored, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in stored)
        if not shape:
            remedy = 'give Banded({"18-29": (18, 30), "> 60": (60, None)})'
            raise SchemaError(f"bands={stored!r} is no dictionary of bands", remedy=remedy)
        check_labels(tuple(label for label, _ in stored), "bands", "band", "Banded")
        bands = sorted(((label, _ends(label, ends)) for label, ends in stored), key=lambda band: band[1])
        for (one, (_, end)), (other, (start, _)) in pairwise(bands):
            if start < end:
                problem = f"the bands {show(one)} and {show(other)} overlap, from {start:g} to {end:g}"
                raise SchemaError(problem, remedy="let each band begin where the one below it ends")
        if self.transform == "log" and bands[0][1][1] <= 0:
            problem = f"the band {show(bands[0][0])} holds no positive number"
            raise SchemaError(problem, remedy='use transform="rank-normal" or None')
        object.__setattr__(self, "bands", tuple(bands))

    @property
    def _bands(self) -> tuple[tuple[Any, Ends], ...]:
        stored: Any = self.bands
        return stored

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(label for label, _ in self._bands)

    @property
    def has_order(self) -> bool:
        return True

    @property
    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the bands in the user's units, infinite where open."""
        lower, upper = np.asarray([ends for _, ends in self._bands], np.float64).T
        return (np.where(lower <= 0, -np.inf, lower) if self.transform == "log" else lower), upper

    @property
    def standard_edges(self) -> tuple[FloatArray, FloatArray]:
        """The same in standard units."""
        found = []
        for ends in self.edges:
            known, z = np.isfinite(ends), ends.copy()
            z[known] = self.to_standard(ends[known])
            found.append(z)
        return found[0], found[1]

    def fit(self, cells: Cells) -> Self:
        lower, upper = self._read(cells)
        is_silent = np.isinf(lower).all() and np.isinf(upper).all()
        return self.learn(*(self.edges if is_silent else (lower, upper)))  # without cells the bands give the unit

    def encode(self, cells: Cells) -> Block:
        return self.confined(*self._read(cells))

    def _read(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Both ends of what each cell says in the user's units [row], infinite where open."""
        places = self.lookup()
        distinct, which = cells.factorise()
        ends = np.tile([-np.inf, np.inf], (len(distinct) + 1, 1))
        reasons: dict[int, Refused] = {}
        for index, value in enumerate(distinct):
            try:
                ends[index] = self._said(value, places)
            except Refused as refused:
                reasons[index] = refused
        if reasons and self.unseen == "error":
            first = int(np.isin(which, list(reasons)).argmax())
            why = reasons[int(which[first])]
            raise cells.error(first, why.problem, why.remedy)
        return ends[which, 0], ends[which, 1]

    def _said(self, value: Any, places: Mapping[Any, int]) -> Ends:
        if isinstance(value, OneOf):
            codes = sorted(self._place(member, places) for member in value.values)
            if codes[-1] - codes[0] >= len(codes):
                raise Refused(f"{show(value)} leaves out bands in between", "name neighbouring bands")
            return self._from_to(codes[0], codes[-1])
        if isinstance(value, Interval) and any(isinstance(end, str) for end in (value.lower, value.upper)):
            low = 0 if value.lower is None else self._place(value.lower, places)
            high = len(places) - 1 if value.upper is None else self._place(value.upper, places)
            if low > high:
                raise Refused(f"{show(value)} has its ends the wrong way round", "exchange them")
            # "At least 45-59" is open above, whatever the highest band.
            lower, upper = self._from_to(low, min(high, len(self.labels) - 1))
            return -np.inf if value.lower is None else lower, np.inf if value.upper is None else upper
        if isinstance(value, Statement):
            return self._interval(value)
        if is_label(value) and value in places:
            return self._from_to(places[value], places[value])
        number = self._number(value)
        if number is None:
            raise self._unknown(value)
        return number, number

    def _from_to(self, low: int, high: int) -> Ends:
        lower, upper = self.edges
        return float(lower[low]), float(upper[high])

    def _place(self, value: Any, places: Mapping[Any, int]) -> int:
        if not is_label(value) or value not in places:
            raise self._unknown(value)
        return places[value]

    def _number(self, value: Any) -> float | None:
        """A bare number; none where labels are numbers themselves, or where it is of no use."""
        if isinstance(value, bool) or any(not isinstance(label, str) for label in self.labels):
            return None
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            return None
        usable = np.isfinite(number) and (self.transform != "log" or number > 0)
        return number if usable else None

    def _unknown(self, value: Any) -> Refused:
        near = suggestion(plain(value), (*self.labels, *self.texts)) if isinstance(value, str) else ""
        return Refused(
            f"{show(value)} is not one of the bands {listing(self.texts)}",
            f'{near}correct the cell, add it to Banded({{...}}), or use Banded(unseen="missing")',
        )

    def codes(self, block: Block) -> IntArray:
        """The band that a cell leaves alone, by itself or by a number in it: [row], −1 where several are open."""
        lower, upper = self.standard_edges
        slack = 1e-9 * np.maximum(1.0, np.abs(np.where(np.isfinite(lower), lower, 0.0)))
        low, high = block.lower, block.upper
        # An interval that was widened for single precision reaches beyond its band; its middle does not.
        narrow = np.isfinite(low) & np.isfinite(high) & (high <= low + (1 + 1e-9) * NARROWEST)
        middle = np.where(narrow, low, 0.0) / 2 + np.where(narrow, high, 0.0) / 2
        low, high = np.where(narrow, middle, low), np.where(narrow, middle, high)
        within = (low >= lower - slack) & (high <= upper + slack) & block.observed
        return np.where(within.any(axis=1), within.argmax(axis=1), -1).astype(np.int32)

    def nearest(self, numbers: FloatArray) -> IntArray:
        """The band that holds each number, or whose nearer end is nearest: [row], −1 where there is no number."""
        lower, upper = self.edges
        numbers = np.asarray(numbers, np.float64)
        outside = np.maximum(lower - numbers[:, None], numbers[:, None] - upper)
        # On an edge that two bands share the higher one begins.
        found = len(self.labels) - 1 - np.maximum(outside, 0.0)[:, ::-1].argmin(axis=1)
        return np.where(np.isnan(numbers), -1, found).astype(np.int32)

    def from_codes(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Labels of codes in their natural dtype; a negative code is missing."""
        return natural(self.labels, codes)

    def as_cells(self, numbers: FloatArray) -> NDArray[Any]:
        return self.from_codes(self.nearest(numbers))

    def describe(self) -> str:
        return self.described(f"a number in one of {listing(self.texts, ' | ')}")


def _ends(label: Any, ends: Any) -> Ends:
    """The two ends of a band, ∓∞ where open."""
    if not isinstance(ends, tuple) or len(ends) != 2:
        raise SchemaError(
            f"the band {show(label)} has the ends {ends!r}", remedy="give (lower, upper), None where open"
        )
    lower, upper = (side if end is None else end for end, side in zip(ends, (-np.inf, np.inf), strict=True))
    for end in (lower, upper):
        if isinstance(end, (bool, str)) or not isinstance(end, (int, float)) or np.isnan(end):
            raise SchemaError(
                f"the band {show(label)} has the end {show(end)}", remedy="give a number, or None if open"
            )
    if not lower < upper or (np.isinf(lower) and np.isinf(upper)):
        problem = f"the band {show(label)} from {lower:g} to {upper:g} "
        problem += "holds every number" if np.isinf(lower) and lower < upper else "holds no number"
        raise SchemaError(problem, remedy="give a smaller and a larger end, one of them open at most")
    return float(lower), float(upper)
