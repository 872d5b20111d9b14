"""Detect columns that are not answers: row identifiers, weights, dates, free text.

Idea: the name alone is not enough ("weight" may be in kilograms), nor are the cells alone; both must fit.
Guarantees None in doubtful cases, and a reason that says it is a guess.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.amounts import amount
from thurbo.columns.cells import Cells, show
from thurbo.columns.column import Column
from thurbo.columns.ignore import Id, Ignore, Weight

_FEWEST_ROWS = 20  # in fewer rows most values are unique by chance
_NEARLY = 0.95
_LONGEST_ID = 40
_FEWEST_DENSE = 50
_DENSE = 2  # most range of an index, relative to the number of rows
_WEIGHT = re.compile(r"(?!body|birth)[a-z]{0,10}(weights?|wgh?ts?|wts?)\d*")
_WEIGHT_TITLE = re.compile(r"\b(sampling|survey|design|post-?stratification|probability) weight")
_UNIT = r"(case|resp|respondent|subject|person|participant|record|row|user|customer|household|hh|int|interview)"
_IDENTIFIER = re.compile(
    r"(.*[_ .-])?(id|ids|uid|guid|uuid|key|no|nr|num|number|serial|idno|index|row|code)\d?"
    rf"|{_UNIT}[_ .-]?(id|no|nr|num|number)?|idnum|column 1|unnamed.*"
)
_CODE = re.compile(r"(.*[_ .-])?(zip|(zip|post|postal) ?codes?|phone|telephone|mobile|fips)( ?(number|no))?")
# Numbers that are often whole and unique, but are amounts or ranks, not identifiers.
_AMOUNT = re.compile(
    r"(.*[_ .-])?(years?|yr|months?|weeks?|days?|time|date|ages?|rank|ranking|place|position|score)\d*"
)


def role(cells: Cells, title: str = "") -> tuple[Column, str] | None:
    """The type of a column that is not an answer: a weight, a row identifier, or free text; else None."""
    return _weight(cells, title) or _place_code(cells) or _identifier(cells)


def _place_code(cells: Cells) -> tuple[Column, str] | None:
    """Codes that look like amounts: post codes and telephone numbers."""
    if not _CODE.fullmatch(cells.name.casefold().strip()) or len(set(map(str, cells.values.tolist()))) < _FEWEST_ROWS:
        return None
    return Ignore("its numbers are codes"), "its name says post codes or telephone numbers; use Categorical() for a few"


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
        return None  # for example kilograms: survey weights have a mean near one
    return Weight(), f"a guess: its name, and numbers with mean {mean:.2g}; use Continuous() if it is an answer"


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
        what = "it numbers the rows" if counts and not named else "each number occurs once"
        what = what if once else "nearly every number occurs once, and they are close together"
        return Id(), f"a guess: {what}; use Continuous() if it is a measurement"
    texts = [value for value in cells.values[~cells.missing].tolist() if isinstance(value, str)]
    if len(texts) < n or n < _FEWEST_ROWS or len(set(texts)) < _NEARLY * n:
        return None
    if sum(_is_amount(text) for text in texts) > _NEARLY * n:
        return None
    short = all(len(text) <= _LONGEST_ID and " " not in text.strip() for text in texts)
    if short:
        return Id(), f"a guess: texts such as {show(texts[0])} are all different and short, like row identifiers"
    return Ignore("it is free text"), f"nearly every text is different, such as {show(texts[0])}"


def _is_index(cells: Cells, values: NDArray[Any]) -> bool:
    """Whether whole numbers are an index in any order: amounts in such a narrow range would repeat more often."""
    n = len(values)
    if n < _FEWEST_DENSE or cells.missing.any() or _AMOUNT.fullmatch(cells.name.casefold().strip()):
        return False
    reach = float(values.max()) - float(values.min())
    return reach < _DENSE * n and len(np.unique(values)) >= _NEARLY * n


def _is_amount(text: str) -> bool:
    """Whether a text is a number with a sign or unit, such as "$420" or "7 hrs"; digits alone may be an identifier."""
    if text.strip().isalnum():
        return False
    return any(amount(text, notation) is not None for notation in ("currency", "percent", "decimal-comma"))


def moment(values: list[Any]) -> bool:
    """Whether all values are Python dates or times."""
    return bool(values) and all(hasattr(value, "isoformat") or hasattr(value, "total_seconds") for value in values)
