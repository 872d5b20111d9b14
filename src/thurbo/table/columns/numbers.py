"""Numbers of a column: as people write them, to how many digits, and by their ranks.

Idea: "$1,200", "about 7" and "3 Nov 2014" are numbers of a notation that the column remembers. Filled-in numbers have
the decimals and the range of the column. The "rank-normal" transform is linear between knots of Φ⁻¹ of the mid-rank.
Guarantees whole numbers where all were whole, and a strictly increasing transform with a known derivative.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import BoolArray, FloatArray
from thurbo.table.columns.values import show

Notation = Literal["number", "percent", "currency", "decimal-comma", "date", "date-dmy"]
NOTATIONS: tuple[str, ...] = get_args(Notation)
DATES = ("date", "date-dmy")  # days since 1970-01-01; "date-dmy" reads 3/11/2014 as 3 November

_BLANK = "[ \u00a0\u202f]"
_ABOUT = re.compile(r"(?:about|approx(?:imately|\.)?|around|roughly|circa|ca\.?|almost|nearly|maybe|probably|~|≈)\s*")
_MONEY = re.compile(r"[$€£¥₹]|\b(?:usd|eur|gbp|cad|aud|chf|us dollars?|dollars?|euros?|pounds?)\b\.?")
_PERCENT = re.compile(r"%|\b(?:percent|per cent|pct)\b\.?")
_POINT = re.compile(rf"\d{{1,3}}(?:(?:,|'|{_BLANK})\d{{3}})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+")
_COMMA = re.compile(rf"\d{{1,3}}(?:(?:\.|'|{_BLANK})\d{{3}})+(?:,\d+)?|\d+(?:,\d*)?|,\d+")
_TIMES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
_SCALE = re.compile(r"\s*(k|thousand|mn|million|bn|billion|m)\b\.?")
_UNIT = re.compile(r"\s*(?:[a-z°²³µ]+[./]?\s*){0,4}")
_NO_UNIT = re.compile(r"\b(?:to|and|plus|minus|x)\b")


@lru_cache(maxsize=65536)
def amount(text: str, notation: str) -> float | None:
    """The number that a text says in this notation; None if it says none, or more than one."""
    if notation in DATES:
        return days(text, notation == "date-dmy")
    plain = " ".join(text.casefold().replace("\u2212", "-").split())
    if notation in ("currency", "decimal-comma"):
        plain = _MONEY.sub("", plain).strip()
    if notation in ("percent", "decimal-comma"):
        plain = _PERCENT.sub("", plain).strip()
    plain = _ABOUT.sub("", plain, count=1) if _ABOUT.match(plain) else plain
    sign = -1.0 if plain.startswith("-") else 1.0
    plain = plain.lstrip("+-").strip() if plain[:1] in ("+", "-") else plain
    digits = (_COMMA if notation == "decimal-comma" else _POINT).match(plain)
    if digits is None:
        return None
    rest, times = plain[digits.end() :], 1.0
    if notation == "currency" and (scaled := _SCALE.match(rest)):
        rest, times = rest[scaled.end() :], _TIMES[scaled[1]]
    if not _UNIT.fullmatch(rest) or _NO_UNIT.search(rest) or (notation == "percent" and rest.strip()):
        return None
    written = re.sub(r"[' \u00a0\u202f]", "", digits[0])
    written = written.replace(".", "").replace(",", ".") if notation == "decimal-comma" else written.replace(",", "")
    return sign * float(written) * times


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_TIME = r"(?:[t ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(am|pm)?\s*(?:z|utc|gmt|[+-]\d{2}:?\d{2})?)?"
_ISO = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_TIME}")
_SHORT = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}|\d{{2}}),?{_TIME}")
_DAY_MONTH = re.compile(rf"(\d{{1,2}})(?:st|nd|rd|th|\.)?[ -]([a-z]{{3,9}})\.?,?[ -](\d{{4}}),?{_TIME}")
_MONTH_DAY = re.compile(rf"([a-z]{{3,9}})\.? (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}}),?{_TIME}")


def days(text: str, day_first: bool = False) -> float | None:
    """Days since 1970-01-01 of a date, with the time as a fraction; None if the text is not a date."""
    plain = " ".join(text.casefold().split())
    if match := _ISO.fullmatch(plain):
        year, month, day, *time = match.groups()
    elif match := _SHORT.fullmatch(plain):
        first, mark, second, year, *time = match.groups()
        swap = day_first or mark == "." or int(first) > 12
        day, month = (first, second) if swap else (second, first)
    elif match := _DAY_MONTH.fullmatch(plain) or _MONTH_DAY.fullmatch(plain):
        day, month, year, *time = match.groups() if plain[0].isdigit() else (match[2], match[1], *match.groups()[2:])
        month = str(_MONTHS.index(month[:3]) + 1 if month[:3] in _MONTHS else 0)
    else:
        return None
    hour, minute, second_, half = (time[0] or "0", time[1] or "0", time[2] or "0", time[3])
    hours = int(hour) % 12 + 12 * (half == "pm") if half else int(hour)
    full = int(year) if len(year) == 4 else (1900 if int(year) >= 70 else 2000) + int(year)
    try:
        moment = datetime(full, int(month), int(day), hours, int(minute), int(second_), tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() / 86400


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
        known = np.isfinite(lower) | np.isfinite(upper)
        if not known.any():
            return self
        ends = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
        decimals, lowest, highest = self
        if not np.isinf(lower[known]).any():
            lowest = min(float(ends.min()), np.inf if lowest is None else lowest)
        if not np.isinf(upper[known]).any():
            highest = max(float(ends.max()), -np.inf if highest is None else highest)
        return Precision(_decimals(ends) if decimals is None else decimals, lowest, highest)


def two_ends(given: Any, what: str, *, all_open: bool = False) -> tuple[float, float]:
    """Both ends of `what`, ∓∞ if they are open; whether both may be."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise SchemaError(f"{what} has the ends {given!r}", remedy="give (lower, upper), None for an open end")
    lower, upper = (side if end is None else end for end, side in zip(given, (-np.inf, np.inf), strict=True))
    for end in (lower, upper):
        if isinstance(end, (bool, str)) or not isinstance(end, (int, float)) or np.isnan(end):
            raise SchemaError(f"{what} has the limit {show(end)}", remedy="give a number, or None for an open end")
    if not lower < upper or (np.isinf(lower) and np.isinf(upper) and not all_open):
        every = "contains every number" if np.isinf(lower) and lower < upper else "contains no number"
        remedy = "give the smaller end first; at most one end may be open"
        raise SchemaError(f"{what} from {lower:g} to {upper:g} {every}", remedy=remedy)
    return float(lower), float(upper)


def check_precision(precision: Precision) -> None:
    """Raise an error for decimals or a range that cannot be."""
    decimals, lowest, highest = precision
    if decimals is not None and (isinstance(decimals, bool) or not isinstance(decimals, int) or decimals < 0):
        remedy = "give 0, 1, 2, ... or leave it out"
        raise SchemaError(f"decimals={decimals!r} is not a number of decimals", remedy=remedy)
    for name, end in (("lowest", lowest), ("highest", highest)):
        if end is not None and (isinstance(end, (bool, str)) or not np.isfinite(end)):
            raise SchemaError(f"{name}={end!r} is not a number", remedy="give a number, or leave it out")
    if lowest is not None and highest is not None and lowest > highest:
        raise SchemaError(f"lowest={lowest:g} is above highest={highest:g}", remedy="exchange them")


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


_MOST_KNOTS, _FEWEST_KNOTS = 200, 20
_KNOTS_OF_ONE = 4.0  # times the cube root of the number of points: more knots follow the noise of the points
_NEIGHBOURS, _FREQUENT, _TIMES_USUAL = 5, 2, 2.0  # a value so frequent, and so many times its neighbours, is a heap
_MOST_INTERVALS = 5000
_ROUNDS = 50
_NO_STEP = 1e-9  # of probability or score


def distribution(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(e ≤ ·) at the ends of intervals: the self-consistent estimate (Turnbull, 1976); mid-ranks for points.

    An interval follows the distribution inside it: F(e) = mean of (F(e) − F(lower)) / (F(upper) − F(lower)).
    """
    knots, n = np.unique(np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])), float(weight.sum())
    if len(knots) == 0:
        return np.zeros(1), np.full(1, 0.5)
    # A lower point counts 1, an equal point 1/2, and an interval that contains the number 1/2.
    below = _passed(lower, weight, knots, "left") + _passed(upper, weight, knots, "right")
    wide = lower < upper
    knots, probability = _thinned(knots, below / (2 * n), _MOST_KNOTS if wide.any() else _n_knots(n))
    if wide.any():
        points, own = lower[~wide], weight[~wide]
        passed = _passed(points, own, knots, "left") + _passed(points, own, knots, "right")
        pairs, count = _distinct(lower[wide], upper[wide], weight[wide])
        for _ in range(_ROUNDS):
            low, high = (np.where(np.isfinite(e), np.interp(e, knots, probability), e > 0) for e in pairs.T)
            share = (probability - low[:, None]) / np.maximum(high - low, 1e-12)[:, None]
            probability = (passed / 2 + count @ share.clip(0.0, 1.0)) / n
    return knots, probability.clip(0.25 / n, 1 - 0.25 / n)


def _passed(numbers: FloatArray, weight: FloatArray, knots: FloatArray, side: Literal["left", "right"]) -> FloatArray:
    """How many of the numbers are below each knot ("left"), or not above it ("right")."""
    order = np.argsort(numbers, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])
    return np.asarray(reached[np.searchsorted(numbers[order], knots, side=side)])


def _distinct(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distinct intervals [interval, 2] and their counts; if there are too many, an even selection sorted by ends."""
    order, total = np.lexsort([upper, lower]), float(weight.sum())
    if total > _MOST_INTERVALS:  # at the same places as in the list where each interval stands as often as it counts
        places = np.linspace(0, total - 1, _MOST_INTERVALS).astype(np.intp)
        order = order[np.searchsorted(np.cumsum(weight[order]), places, side="right").clip(max=len(order) - 1)]
        weight = np.full(len(lower), total / _MOST_INTERVALS)
    pairs, which = np.unique(np.stack([lower[order], upper[order]], axis=1), axis=0, return_inverse=True)
    return pairs, np.asarray(np.bincount(which.ravel(), weight[order], minlength=len(pairs)), np.float64)


def _n_knots(n: float) -> int:
    """How many knots the distribution of n points has."""
    return int(np.clip(round(_KNOTS_OF_ONE * n ** (1 / 3)), _FEWEST_KNOTS, _MOST_KNOTS))


def _thinned(knots: FloatArray, probability: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """At most so many knots: even steps of probability in the middle, even steps of score in the tails."""
    if len(knots) <= most:
        return knots, probability
    lowest, highest = ndtri(probability[[0, -1]].clip(1e-9, 1 - 1e-9))
    tails = ndtr(np.linspace(lowest, highest, 2 * most // 5))
    targets = np.concatenate([np.linspace(0, 1, 3 * most // 5 - 2), tails])
    chosen = np.searchsorted(probability, targets).clip(0, len(knots) - 1)
    chosen = np.unique([0, *chosen, len(knots) - 1])
    return knots[chosen], probability[chosen]


def normal_scores(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Knots of a monotone map to normal scores Φ⁻¹(P(e ≤ ·)) of numbers, or of intervals that contain them.

    Half an answer is added to a range between them that has none, so that both its ends have the scores of their shares
    and no number in it is impossible.
    """
    knots, probability = distribution(lower, upper, weight)
    n = float(weight.sum())
    is_empty = np.diff(probability) <= _NO_STEP
    if is_empty.any():
        ends = is_empty & ~np.append(is_empty[1:], False)  # the last step of each range
        added = 0.5 * np.concatenate([[0.0], np.cumsum(ends)])
        probability = (n * probability + added) / (n + added[-1])
    scores, kept = ndtri(probability), [0]
    for place in range(1, len(knots)):  # skip the inside of such ranges, and steps too small for a finite slope
        if knots[place] - knots[kept[-1]] > 1e-290 and scores[place] - scores[kept[-1]] > _NO_STEP:
            kept.append(place)
    return knots[kept].astype(np.float64), scores[kept]


def scores_of_rounded(
    numbers: FloatArray, unit: float, weight: FloatArray, intervals: tuple[FloatArray, FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Knots at number ± unit / 2 and their normal scores: an interval has the share of its number, as heaps need it.

    Half an answer is added between two numbers that are not neighbours, so that no number in a gap is impossible; a
    quarter of an answer of the first and of the last number is for numbers beyond them. Of many different numbers,
    frequent ones have knots of their own, and others some of theirs, so that these are smooth. Answers in `intervals`
    (lower and upper ends, and weights) are divided among the numbers that are observed there.
    """
    values, count = _counted(numbers, unit, weight, *intervals)
    low, high = values - 0.5 * unit, values + 0.5 * unit
    is_gap = low[1:] - high[:-1] > 0.5 * unit
    low[1:][~is_gap] = high[:-1][~is_gap]  # equal but for rounding errors
    before = np.concatenate([[0.0], np.cumsum(count[:-1] + 0.5 * is_gap)])
    total = before[-1] + count[-1]
    knots, places = np.unique(np.stack([low, high]), return_index=True)
    probability = (np.stack([before, before + count]).ravel()[places] / total).clip(0.25 / total, 1 - 0.25 / total)
    if len(knots) > (most := _n_knots(float(weight.sum()))):
        frequent = _are_frequent(values, count, unit)
        thin, _ = _thinned(knots, probability, most)
        kept = np.isin(knots, np.concatenate([thin, low[frequent], high[frequent]]))
        knots, probability = knots[kept], probability[kept]
    return knots, ndtri(probability)


def _are_frequent(values: FloatArray, count: FloatArray, unit: float) -> BoolArray:
    """Which numbers are much more frequent than those beside them: than their median, or their mean with gaps."""
    place, before = np.arange(len(values)), np.concatenate([[0.0], np.cumsum(count)])
    first, last = np.maximum(place - _NEIGHBOURS, 0), np.minimum(place + _NEIGHBOURS, len(values) - 1)
    others = before[last + 1] - before[first] - count
    mean = others / np.maximum((values[last] - values[first]) / unit, 1.0)
    beside = np.pad(count, _NEIGHBOURS, constant_values=np.nan)
    window = np.lib.stride_tricks.sliding_window_view(beside, 2 * _NEIGHBOURS + 1).copy()
    window[:, _NEIGHBOURS] = np.nan
    usual = np.minimum(mean, np.nanmedian(window, axis=1)) if len(count) > 1 else np.zeros(1)
    return np.asarray((count >= _FREQUENT) & (count >= _TIMES_USUAL * usual))


def _counted(
    numbers: FloatArray, unit: float, weight: FloatArray, lower: FloatArray, upper: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Numbers and how often each occurs, by self-consistency where only an interval is known."""
    values, which = np.unique(numbers, return_inverse=True)
    count = np.bincount(which, weight, minlength=len(values)).astype(np.float64)
    if not len(lower):
        return values, count
    pairs, n_pairs = _distinct(lower, upper, counts)
    is_empty = np.searchsorted(values, pairs[:, 0]) == np.searchsorted(values, pairs[:, 1], side="right")
    ends = np.where(np.isfinite(pairs[:, 0]), pairs[:, 0] + 0.5 * unit, pairs[:, 1] - 0.5 * unit)
    values, place = np.unique(np.concatenate([values, ends[is_empty]]), return_inverse=True)  # where none is observed
    observed = np.bincount(place[: len(count)], count, minlength=len(values))
    first, last = np.searchsorted(values, pairs[:, 0]), np.searchsorted(values, pairs[:, 1], side="right")
    found = np.maximum(observed, 0.5)
    for _ in range(_ROUNDS):
        before = np.concatenate([[0.0], np.cumsum(found)])
        part = n_pairs / (before[last] - before[first])  # of each interval, for one answer inside it
        steps = np.bincount(first, part, len(values) + 1) - np.bincount(last, part, len(values) + 1)
        found = observed + np.maximum(np.cumsum(steps)[:-1], 0.0) * found
    return values, found


def frequent_and_even(scores: FloatArray, n_bands: int) -> FloatArray:
    """Scores of some knots that divide rounded numbers into about n bands of equal share, or of one frequent number."""
    share, ends = ndtr(scores), {0, len(scores) - 1}
    frequent = np.flatnonzero(np.diff(share) >= 1.0 / n_bands)
    chosen = {*ends, *frequent.tolist(), *(frequent + 1).tolist()}
    for first, last in pairwise(sorted(chosen)):
        n_parts = round(float(share[last] - share[first]) * n_bands) if last > first + 1 else 1
        for level in np.linspace(share[first], share[last], n_parts + 1)[1:-1]:
            chosen.add(int(np.abs(share - level).argmin()))
    return scores[sorted(chosen - ends)]


def tail_slopes(knots: tuple[float, ...], scores: tuple[float, ...], inverse: bool = False) -> tuple[float, float]:
    """Slopes beyond the end knots: of secants over the outermost unit of score, which are robust to noise."""
    x, y = np.asarray(knots), np.asarray(scores)
    if len(x) < 2:
        return 1.0, 1.0
    left = min(int(np.searchsorted(y, y[0] + 1.0)), len(y) - 1)
    right = max(int(np.searchsorted(y, y[-1] - 1.0, side="right")) - 1, 0)
    low = float((y[left] - y[0]) / (x[left] - x[0]))
    high = float((y[-1] - y[right]) / (x[-1] - x[right]))
    return (1 / low, 1 / high) if inverse else (low, high)


def piecewise_linear(
    values: FloatArray, start: tuple[float, ...], end: tuple[float, ...], slopes: tuple[float, float]
) -> FloatArray:
    """A piecewise linear map through points, with given slopes beyond them."""
    inside = np.interp(values, start, end)
    below, above = np.minimum(values - start[0], 0.0), np.maximum(values - start[-1], 0.0)
    return inside + slopes[0] * below + slopes[1] * above
