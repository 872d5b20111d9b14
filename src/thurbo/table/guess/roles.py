"""Decisions about columns, and columns that are no answers: weights, codes of places, row identifiers, free text.

Idea: weights have a name and a mean near one, identifiers differ in every row, codes have names that say so.
Guarantees a reason and a confidence for every choice.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from thurbo.table.columns.categorical import Categorical
from thurbo.table.columns.cells import Cells
from thurbo.table.columns.column import Column
from thurbo.table.columns.ignore import Id, Ignore, Weight
from thurbo.table.columns.numbers import amount
from thurbo.table.columns.values import show
from thurbo.table.guess.words import NAMES

SURE, A_GUESS = 0.95, 0.7  # confidence without and with the words "a guess"
OFTEN = 0.2  # share of answers from which answers set apart, or counted as missing, should be checked
TO_CHECK = 0.75  # confidence where they are so frequent


class Decision(NamedTuple):
    """The type of a column with the reason, how sure it is, from 0 to 1, and what else it may be."""

    column: Column
    reason: str
    sure: float = -1.0  # unless given, by the reason
    otherwise: str = ""

    @property
    def confidence(self) -> float:
        """How sure the type is, from 0 to 1."""
        return self.sure if self.sure >= 0 else A_GUESS if "a guess" in self.reason else SURE


Found = Decision | tuple[Column, str]
FEW_NUMBERS = 0.85  # confidence of few whole numbers as levels, and of numbers that all differ as identifiers

_FEWEST_ROWS = 20  # in fewer rows most values are unique by chance
_NEARLY = 0.95
_LONGEST_ID = 40
_FEWEST_DENSE = 50
_LEAST_LONG = 1e7  # of numbers of many digits, which all differ
_DENSE = 2  # most range of an index, relative to the number of rows


def role(cells: Cells, title: str = "") -> Found | None:
    """The type of a column that is not an answer: a weight, codes of places, a row identifier, or free text."""
    if found := _weight(cells, title):
        return found
    names = cells.name.casefold().strip(), title.casefold()
    is_code = NAMES["code"].fullmatch(names[0]) or any(map(NAMES["code_title"].search, names))
    is_common = NAMES["common_code"].fullmatch(names[0]) and not is_code
    if is_common and (found := _identifier(cells)):
        return found
    values = cells.values[~cells.missing]
    numbers = values.dtype.kind in "iuf"
    distinct = set(values.tolist()) if (is_code or (is_common and numbers)) and _are_codes(values) else ()
    what = "post codes or telephone numbers" if is_code else "codes"
    if len(distinct) >= _FEWEST_ROWS:
        return Ignore("its numbers are codes"), f"its name says {what}; use Categorical() for a few"
    if len(distinct) > 2 and numbers:
        column = Categorical(tuple(sorted(int(value) for value in distinct)))
        return Decision(column, f"a guess: its name says {what}", A_GUESS, "leave it out")
    return None if is_common else _identifier(cells)


def _are_codes(values: Any) -> bool:
    """Whether values are written as codes, with few words: whole numbers, "02139", "K1A 0B6", "555-0100"."""
    if values.dtype.kind in "iuf":
        return bool(np.all(values == np.floor(values)))
    return float(np.mean([bool(re.search(r"\d", str(value))) and len(str(value)) <= 20 for value in values])) > 0.5


def _weight(cells: Cells, title: str) -> Found | None:
    if cells.values.dtype.kind != "f" or cells.missing.any() or len(cells) < _FEWEST_ROWS:
        return None
    words = re.split(r"[^a-z0-9]+", cells.name.casefold())
    if not any(map(NAMES["weight"].fullmatch, words)) and not NAMES["weight_title"].search(title.casefold()):
        return None
    values = cells.values
    if not np.isfinite(values).all() or values.min() < 0 or np.all(values == np.floor(values)):
        return None
    mean = float(values.mean())
    scaled = NAMES["weight_scaled"].search(cells.name.casefold()) or NAMES["weight_title"].search(title.casefold())
    if not (0.5 <= mean <= 2 or (scaled and mean > 0)) or values.max() > 200 * mean:
        return None  # for example kilograms: survey weights have a mean near one, or a name that says more
    return Weight(), f"a guess: its name, and numbers with mean {mean:.2g}; use Continuous() if it is an answer"


def _identifier(cells: Cells) -> Found | None:
    n = int((~cells.missing).sum())
    kind = cells.values.dtype.kind
    if n < 3 or kind in "mMb":
        return None
    name = cells.name.casefold().strip()
    named = bool(NAMES["identifier"].fullmatch(name))
    if kind in "iuf":
        values = cells.values[~cells.missing]
        if kind == "f" and not np.all(values == np.floor(values)):
            return None
        first, steps = values[0], np.diff(values.astype(np.float64))
        complete = not cells.missing.any()
        counts = n >= _FEWEST_ROWS and complete and first in (0, 1) and bool(np.all(steps == 1))
        n_distinct = len(np.unique(values))
        once = n_distinct == n
        # An index in any order: amounts in such a narrow range would repeat more often.
        narrow = float(values.max()) - float(values.min()) < _DENSE * n and n_distinct >= _NEARLY * n
        is_index = n >= _FEWEST_DENSE and complete and narrow and not NAMES["amount"].fullmatch(name)
        long = once and n >= _FEWEST_DENSE and float(values.min()) >= _LEAST_LONG
        nearly = once or (n >= _FEWEST_DENSE and n_distinct >= _NEARLY * n)
        if not counts and not (named and nearly) and not is_index and (not long or NAMES["amount"].fullmatch(name)):
            return None
        what = "it numbers the rows" if counts and not named else "each number occurs once"
        what = what if once else "nearly every number occurs once, and they are close together"
        reason = f"a guess: {what}; use Continuous() if it is a measurement"
        return Decision(Id(), reason, SURE if named or counts else FEW_NUMBERS)
    texts = [value for value in cells.values[~cells.missing].tolist() if isinstance(value, str)]
    if len(texts) < n or n < _FEWEST_ROWS or len(set(texts)) < _NEARLY * n:
        return None
    # Numbers with a sign or unit, such as "$420" or "7 hrs"; digits alone may be an identifier.
    notations = ("currency", "percent", "decimal-comma")
    written = [text for text in texts if not text.strip().isalnum()]
    if sum(any(amount(text, each) is not None for each in notations) for text in written) > _NEARLY * n:
        return None
    short = all(len(text) <= _LONGEST_ID and " " not in text.strip() for text in texts)
    if short:
        reason = f"a guess: texts such as {show(texts[0])} are all different and short, like row identifiers"
        return Decision(Id(), reason, SURE if named else FEW_NUMBERS)
    return Ignore("it is free text"), f"nearly every text is different, such as {show(texts[0])}"
