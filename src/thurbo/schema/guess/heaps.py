"""Numbers of which some are very frequent: zeros among amounts, 52 weeks, a hundred per cent.

Idea: a normal distribution gives such a number no probability, so it is read as a rounded number by its rank.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from thurbo.columns.cells import Cells, listing
from thurbo.columns.continuous import Continuous
from thurbo.io.notes import whole

LEAST_SHARE = 0.1  # of the most frequent number
LEAST_ANSWERS = 100  # with fewer, shares of single numbers are not known well enough
MOST_NAMED = 3


def number(count: Mapping[Any, int], **settings: Any) -> tuple[Continuous, str]:
    """A column of numbers that occur so often, and what to say about frequent ones."""
    total, often = sum(count.values()), sorted(count, key=lambda value: -count[value])
    if total < LEAST_ANSWERS or count[often[0]] < LEAST_SHARE * total:
        return Continuous(**settings), ""
    common = [value for value in often if count[value] >= LEAST_SHARE * total]
    shares = [f"{value:g} in {100 * count[value] / total:.0f} %" for value in common[:MOST_NAMED]]
    reason = f"; a rounded number, since some are frequent: {listing(shares)}"
    return Continuous(transform="rank-normal", rounded=True, **settings), reason


def occurrences(cells: Cells, among: Collection[Any]) -> dict[Any, int]:
    """How often each of some values occurs; codes that are whole numbers count as integers."""
    distinct, which = cells.factorise()
    count = np.bincount(which[which >= 0], minlength=len(distinct)).tolist()
    found = dict.fromkeys(among, 0)
    for value, own in zip(map(whole, distinct), count, strict=True):
        if value in found:
            found[value] += own
    return found
