"""Columns that are no answers: names of rows, weights, dates, free text; by their names and their cells together.

Idea: a name alone proves nothing ("weight" may be in kilograms), nor do cells alone; both together make a proposal.
Promises None in every doubtful case, and a reason that says it is a guess.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Cells, show
from thurbo.columns.column import Column
from thurbo.columns.ignore import Id, Ignore, Weight

_FEWEST_ROWS = 20  # below, everything is nearly unique
_NEARLY = 0.95
_LONGEST_ID = 40
_FEWEST_DENSE = 50
_DENSE = 2  # numbers of an index are less than so many times as far apart as there are rows
_WEIGHT = re.compile(r"(?!body|birth)[a-z]{0,10}(weights?|wgh?ts?|wts?)\d*")
_WEIGHT_TITLE = re.compile(r"\b(sampling|survey|design|post-?stratification|probability) weight")
_UNIT = r"(case|resp|respondent|subject|person|participant|record|row|user|customer|household|hh|int|interview)"
_IDENTIFIER = re.compile(
    r"(.*[_ .-])?(id|ids|uid|guid|uuid|key|no|nr|num|number|serial|idno|index|row|code)\d?"
    rf"|{_UNIT}[_ .-]?(id|no|nr|num|number)?|idnum|column 1|unnamed.*"
)
# What is often whole, different in every row and close together, and yet an amount or a place in an order.
_AMOUNT = re.compile(
    r"(.*[_ .-])?(years?|yr|months?|weeks?|days?|time|date|ages?|rank|ranking|place|position|score)\d*"
)


def role(cells: Cells, title: str = "") -> tuple[Column, str] | None:
    """What a column is there for, where it is no answer: a weight, the name of a row, or free text."""
    return _weight(cells, title) or _identifier(cells)


def _weight(cells: Cells, title: str) -> tuple[Column, str] | None:
    if cells.values.dtype.kind != "f" or cells.missing.any() or len(cells) < _FEWEST_ROWS:
        return None
    words = re.split(r"[^a-z0-9]+", cells.name.casefold())
    if not any(map(_WEIGHT.fullmatch, words)) and not _WEIGHT_TITLE.search(title.casefold()):
        return None
    values = cells.values
    if not np.isfinite(values).all() or values.min() < 0 or np.all(values == np.floor(values)):
        return None
    mean = float(values.mean())
    if not 0.5 <= mean <= 2 or values.max() > 200 * mean:
        return None  # kilograms, or something else that weighs: survey weights are around one
    return Weight(), f"a guess: its name, and numbers around {mean:.2g}; say Continuous() if rows count alike"


def _identifier(cells: Cells) -> tuple[Column, str] | None:
    n = int((~cells.missing).sum())
    kind = cells.values.dtype.kind
    if n < 3 or kind in "mMb":
        return None
    named = bool(_IDENTIFIER.fullmatch(cells.name.casefold().strip()))
    if kind in "iuf":
        values = cells.values[~cells.missing]
        if kind == "f" and not np.all(values == np.floor(values)):
            return None
        first, steps = values[0], np.diff(values.astype(np.float64))
        counts = n >= _FEWEST_ROWS and not cells.missing.any() and first in (0, 1) and bool(np.all(steps == 1))
        once = len(np.unique(values)) == n
        if not counts and not (named and once) and not _is_index(cells, values):
            return None
        what = "it counts the rows" if counts and not named else "each number occurs once"
        what = what if once else "nearly every number occurs once, and they are close together"
        return Id(), f"a guess: {what}; say Continuous() if it measures"
    texts = [value for value in cells.values[~cells.missing].tolist() if isinstance(value, str)]
    if len(texts) < n or n < _FEWEST_ROWS or len(set(texts)) < _NEARLY * n:
        return None
    short = all(len(text) <= _LONGEST_ID and " " not in text.strip() for text in texts)
    if short:
        return Id(), f"a guess: texts such as {show(texts[0])} are all different and short, as names of rows are"
    return Ignore("it is free text"), f"nearly every text is different, such as {show(texts[0])}"


def _is_index(cells: Cells, values: NDArray[Any]) -> bool:
    """Whether whole numbers number the rows in whatever order: amounts so close together would meet more often."""
    n = len(values)
    if n < _FEWEST_DENSE or cells.missing.any() or _AMOUNT.fullmatch(cells.name.casefold().strip()):
        return False
    reach = float(values.max()) - float(values.min())
    return reach < _DENSE * n and len(np.unique(values)) >= _NEARLY * n


def moment(values: list[Any]) -> bool:
    """Whether values are dates or times, which Python keeps as objects."""
    return bool(values) and all(hasattr(value, "isoformat") or hasattr(value, "total_seconds") for value in values)
