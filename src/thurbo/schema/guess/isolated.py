"""Codes for "no answer" in numbers without labels: −9 and 99 beside 1 to 5; 8 and 9 if other columns have them.

Idea: a code is one of the usual ones (7 8 9, 77 88 99, 97 to 99, −1 to −9, 999 ...) at the end of the values. It is
strong evidence if a gap separates it from answers that are frequent; weaker evidence counts if other columns have the
same code. Guarantees at least two values that are left, and None of it for numbers that are negative as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from thurbo.columns.cells import Cells

_WIDE = tuple(range(2, 7))  # numbers of digits
HIGH = frozenset(
    [7, 8, 9, *(int(digit * width) for digit in "789" for width in _WIDE)]
    + [int("9" * width) - below for width in _WIDE for below in (1, 2)]
)
LOW = frozenset([*range(-9, 0), *(-code for code in HIGH)])
_MOST_STEPS = 11  # most levels of a scale
_TOP = 11  # largest level of a scale: 0 to 10, and 11
_FEWEST_ROWS = 10
_MOST_CODES = 5  # most codes below the answers
_OFTEN = 5  # answers that are this frequent next to a gap make the gap unlikely


class Values(NamedTuple):
    """Distinct numbers of a column in order, and how often each occurs."""

    values: list[float]
    counts: list[int]

    @classmethod
    def of(cls, cells: Cells) -> Values:
        """The values of a numeric column."""
        values, counts = np.unique(cells.values[~cells.missing], return_counts=True)
        return cls(values.tolist(), counts.tolist())


class _Ends(NamedTuple):
    codes: list[float]
    answers: list[float]
    is_strong: bool


def isolated(columns: Mapping[str, Values]) -> dict[str, dict[float, str]]:
    """Codes that are probably not answers, by column, each with the evidence."""
    ends = {name: (list(_below(each)), list(_above(each))) for name, each in columns.items()}
    found: dict[str, dict[float, str]] = {name: {} for name in columns}
    for name, sides in ends.items():
        for side in sides:
            if strong := next((end for end in side if end.is_strong), None):
                found[name] |= dict.fromkeys(strong.codes, "far from the other values")
    shared = Counter(code for codes in found.values() for code in codes)
    for name, sides in ends.items():
        for side in sides:
            weak = [
                end for end in side if all(shared[code] >= 2 for code in end.codes) and _is_rare(columns[name], end)
            ]
            if weak and not any(end.is_strong for end in side):
                found[name] |= dict.fromkeys(weak[0].codes, "as in other columns")
    return {name: codes for name, codes in found.items() if codes}


def _below(each: Values) -> Iterable[_Ends]:
    codes = [value for value in each.values if value < 0]
    answers = [value for value in each.values if value >= 0]
    if not codes or len(answers) < 2 or sum(each.counts) < _FEWEST_ROWS or not set(codes) <= LOW:
        return
    if {-code for code in codes} == {value for value in answers if value}:
        return  # −2, −1, 0, 1, 2 is a scale
    # A run of negative numbers that ends at zero is part of the scale, unless other columns have the same codes.
    is_apart = answers[0] - codes[-1] >= 2 and len(codes) <= _MOST_CODES
    often = len(answers) <= _MOST_STEPS or (_count(each, codes) >= 2 and _are_whole(answers))
    yield _Ends(codes, answers, is_apart and often)


def _above(each: Values) -> Iterable[_Ends]:
    values = [value for value in each.values if value >= 0]
    codes: list[float] = []
    while (
        len(values) > 2 and values[-1] in HIGH and (not codes or len(str(int(codes[0]))) == len(str(int(values[-1]))))
    ):
        codes.insert(0, values.pop())
    if not codes or sum(each.counts) < _FEWEST_ROWS or not _are_whole(values):
        return
    for start in range(len(codes)):  # of 1 to 7, 8 and 9, the first may be an answer
        code, answers = codes[start:], [*values, *codes[:start]]
        gap = code[0] - answers[-1]
        dense = len(answers) <= _MOST_STEPS and answers[-1] - answers[0] < 2 * len(answers) and answers[-1] <= _TOP
        often = _count(each, answers[-1:]) >= _OFTEN
        if dense and code[0] > 9:
            yield _Ends(code, answers, True)
        elif dense and answers[-1] <= 7:
            mean = _count(each, answers) / len(answers)
            several = gap == 2 and len(code) > 1 and _count(each, code) < len(code) * mean / 2
            yield _Ends(code, answers, often and (gap >= 3 or several))
        elif not dense and code[0] > 9 and gap >= 2:
            tail = [each.counts[each.values.index(value)] for value in answers[-max(5, len(answers) // 10) :]]
            frequent = _count(each, code) >= max(_OFTEN, 3 * len(code) * float(np.mean(tail)))
            yield _Ends(code, answers, frequent or (gap > 2 * answers[-1] and _count(each, code) >= 2))


def _is_rare(each: Values, side: _Ends) -> bool:
    """Whether weak evidence is enough: the codes are no more frequent than answers are on average."""
    mean = _count(each, side.answers) / len(side.answers)
    gap = min(abs(code - answer) for code in side.codes for answer in (side.answers[0], side.answers[-1]))
    return gap >= 2 or _count(each, side.codes) / len(side.codes) <= mean


def _count(each: Values, values: Iterable[float]) -> int:
    return sum(each.counts[each.values.index(value)] for value in values)


def _are_whole(values: Iterable[float]) -> bool:
    return all(float(value).is_integer() for value in values)
