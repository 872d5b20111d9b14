"""Precision and range of numbers: a number that the model fills in looks like those it was trained on.

Idea: remember how many decimals the numbers have, the lowest and the highest; round and clip predictions to them.
Guarantees whole numbers where all were whole, and no number outside of what was observed or declared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import FloatArray
from thurbo.errors import SchemaError

MOST_DECIMALS = 8  # numbers with more decimals are not rounded
ROUNDING_ERROR = 8  # units in the last place: 0.1 + 0.2 has one decimal
LARGEST_WHOLE = 2.0**53  # above it floats have no units digit


class Precision(NamedTuple):
    """Decimals, lowest and highest of some numbers; None if not known or not limited."""

    decimals: int | None = None
    lowest: float | None = None
    highest: float | None = None

    def limit(self, numbers: FloatArray) -> NDArray[Any]:
        """Numbers rounded and clipped to the range, as integers if there are no decimals; NaN stays."""
        found = np.asarray(numbers, np.float64)
        if self.lowest is not None or self.highest is not None:
            found = np.clip(found, self.lowest, self.highest)
        if self.decimals is not None and bool(np.all(np.abs(found[~np.isnan(found)]) < LARGEST_WHOLE)):
            found = np.round(found, self.decimals)
        if self.decimals == 0 and bool(np.all(np.abs(found) < LARGEST_WHOLE)):  # False for NaN
            whole = found.astype(np.int64)
            return whole if bool(np.all(whole == found)) else found
        return found

    def widened(self, lower: FloatArray, upper: FloatArray) -> Precision:
        """The same with what intervals (or numbers, as equal ends) show; given decimals are kept.

        The range grows to all known ends. It has no end on a side where an interval is open: the number that it
        contains can be anything there.
        """
        ends = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
        known = np.isfinite(lower) | np.isfinite(upper)
        if not len(ends):
            return self
        lowest = None if np.isinf(lower[known]).any() else min(float(ends.min()), _or(self.lowest, np.inf))
        highest = None if np.isinf(upper[known]).any() else max(float(ends.max()), _or(self.highest, -np.inf))
        decimals = _decimals(ends) if self.decimals is None else self.decimals
        return Precision(
            decimals, self.lowest if lowest is None else lowest, self.highest if highest is None else highest
        )


def check_precision(precision: Precision) -> None:
    """Raise an error for decimals or a range that cannot be."""
    decimals, lowest, highest = precision
    if decimals is not None and (isinstance(decimals, bool) or not isinstance(decimals, int) or decimals < 0):
        raise SchemaError(
            f"decimals={decimals!r} is not a number of decimals", remedy="give 0, 1, 2, ... or leave it out"
        )
    for name, end in (("lowest", lowest), ("highest", highest)):
        if end is not None and (isinstance(end, (bool, str)) or not np.isfinite(end)):
            raise SchemaError(f"{name}={end!r} is not a number", remedy="give a number, or leave it out")
    if lowest is not None and highest is not None and lowest > highest:
        problem = f"lowest={lowest:g} is above highest={highest:g}"
        raise SchemaError(problem, remedy="exchange them")


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _decimals(numbers: FloatArray) -> int | None:
    """The smallest number of decimals that writes all numbers; None if there is none up to the most."""
    distinct = np.unique(numbers)
    if np.abs(distinct).max() >= LARGEST_WHOLE:
        return None
    short = distinct.astype(np.float32)
    is_short = bool(np.all(short == distinct))  # numbers of single precision, such as 0.1f
    for decimals in range(MOST_DECIMALS + 1):
        rounded = np.round(distinct, decimals)
        slack = np.minimum(ROUNDING_ERROR * np.spacing(np.abs(distinct)), 0.01 * 10.0**-decimals)
        is_close = bool(np.all(np.abs(rounded - distinct) <= slack))
        if is_close or (is_short and bool(np.all(rounded.astype(np.float32) == short))):
            return decimals
    return None
