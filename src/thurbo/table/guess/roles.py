"""Decisions about columns, and those that need no order of answers: weights, codes, identifiers, free text, lists.

Idea: weights have a name and a mean near one, identifiers differ in every row, codes have names that say so. Options in
lists occur again in many combinations, sentences with commas do not; a separator inside brackets, or before words in
lower case that always follow the same ones, is part of an option.
Guarantees a reason and a confidence for every choice, and options that reading a cell gives again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thurbo.table.columns.categorical import Categorical
from thurbo.table.columns.cells import Cells, IntArray
from thurbo.table.columns.column import Column
from thurbo.table.columns.ignore import Id, Ignore, Weight
from thurbo.table.columns.multiselect import MultiSelect
from thurbo.table.columns.numbers import amount
from thurbo.table.columns.ranking import Ranking
from thurbo.table.columns.values import listed, listing, show
from thurbo.table.guess.words import NAMES, folded, unanswered

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
        complete, many, n_distinct = not cells.missing.any(), n >= _FEWEST_DENSE, len(np.unique(values))
        once, nearly, is_amount = n_distinct == n, n_distinct >= _NEARLY * n, NAMES["amount"].fullmatch(name)
        in_steps = values[0] in (0, 1) and bool(np.all(np.diff(values.astype(np.float64)) == 1))
        counts = n >= _FEWEST_ROWS and complete and in_steps
        # An index in any order: amounts in such a narrow range would repeat more often.
        narrow = complete and nearly and float(values.max()) - float(values.min()) < _DENSE * n
        long = once and float(values.min()) >= _LEAST_LONG
        by_numbers = many and not is_amount and (narrow or long)
        if not (counts or by_numbers or (named and (once or (many and nearly)))):
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


BY_SEPARATOR = 0.9  # confidence of lists with a separator that sentences do not have
FEW_CATEGORIES = 20  # so many are kept as they are
MOST_KEPT = 60  # most categories or options; the others are joined
LEAST_SHARE_KEPT, LEAST_COUNT = 0.005, 3  # of a category that is kept, if there are many
_MOSTLY = 0.9  # share of the options chosen that frequent or short ones are, in lists with commas
_OFTEN_CHOSEN = 8  # times that an option in a list is chosen on average, and a sentence is not written
SEPARATORS = ("\n", ";", "|", ",")
_ALL_ITEMS = 0.95  # share of lists that name all items of a ranking


class Texts(NamedTuple):
    """Distinct texts that are answers, with the number of rows of each, those that are not, and the cells of all."""

    rows: dict[str, int]
    gone: list[str]
    n_cells: int

    @property
    def kept(self) -> list[str]:
        """The texts that are answers."""
        return list(self.rows)

    @property
    def missing(self) -> dict[Any, str]:
        """The texts that are not answers, as the setting of a column."""
        return {text: text or "blank" for text in self.gone}

    @property
    def less(self) -> str:
        """The texts that are not answers, as the end of a reason."""
        share = 1 - self.n_answers / max(self.n_cells, 1)
        often = f" ({share:.0%} of the cells)" if share >= OFTEN else ""
        return f"; counted as missing: {listing(map(show, self.gone))}{often}" if self.gone else ""

    @property
    def sure(self) -> float:
        """How sure it is that the texts that are not answers should count as missing."""
        return TO_CHECK if self.n_answers < (1 - OFTEN) * self.n_cells else SURE

    @property
    def n_answers(self) -> int:
        return sum(self.rows.values())


def n_each(distinct: Sequence[Any], which: IntArray) -> dict[Any, int]:
    """How often each value occurs, by its place in each cell, −1 if it is missing."""
    return dict(zip(distinct, np.bincount(which[which >= 0], minlength=len(distinct)).tolist(), strict=True))


def frequent(rows: Mapping[Any, int]) -> tuple[list[Any], float]:
    """The values that are kept if the rare ones are joined, the most frequent first; and the share that they cover."""
    total = sum(rows.values())
    floor = max(LEAST_COUNT, LEAST_SHARE_KEPT * total)
    often = sorted(rows, key=lambda value: (-rows[value], isinstance(value, str), value))
    common = [value for value in often[:MOST_KEPT] if rows[value] >= floor]
    return common, sum(rows[value] for value in common) / max(total, 1)


def is_used(separator: str, texts: Sequence[str]) -> bool:
    return sum(separator in text for text in texts) > len(texts) / 3


def _with_lists(sep: str, texts: Texts) -> Texts:
    """Texts with the lists that name an answer beside what is none: "red; prefer not to say"."""
    back = [text for text in texts.gone if not text or (sep in text and not all(map(unanswered, listed(text, sep))))]
    if not back or not (is_used(sep, texts.kept) or _are_lists(sep, texts)):
        return texts
    gone = [text for text in texts.gone if text not in back]
    n_rows = (texts.n_cells - texts.n_answers) // max(len(texts.gone), 1)  # how often is not known of each
    return texts._replace(rows=texts.rows | dict.fromkeys(back, max(n_rows, 1)), gone=gone)


def _are_lists(sep: str, texts: Texts) -> bool:
    """Whether all texts with a separator are lists of answers that also occur alone: "A", "B" and "A; B"."""
    alone = {text for text in texts.kept if sep not in text}
    lists = [listed(text, sep) for text in texts.kept if sep in text]
    known = all(len(parts) > 1 and alone.issuperset(parts) for parts in lists)
    are_codes = sep != " " or (len(lists) > 1 and all(map(_CODE.fullmatch, alone - {""})))
    return bool(lists) and len(alone) > 1 and known and are_codes


_CODE = re.compile(r"[a-z0-9_.-]+")  # as tools for interviews write them, in lists with blanks between
_FEWEST_CONTINUED, _SURELY = 3, 20  # different lists, and rows, in which two entries are together


def _with_continued(lists: list[list[str]], counts: Sequence[int], sep: str) -> list[list[str]]:
    """Lists with entries joined that are one option: always together, the second in lower case, or in many rows."""
    after = Counter(pair for entries in lists for pair in pairwise(entries))
    alone = Counter(entry for entries in lists for entry in entries)
    rows: Counter[str] = Counter()
    for entries, count in zip(lists, counts, strict=True):
        rows.update(dict.fromkeys(entries, count))
    together = {
        (one, two)
        for (one, two), n in after.items()
        if _FEWEST_CONTINUED <= n == alone[one] == alone[two]
        and ((two[:1].islower() and one[:1].isupper()) or (sep == "," and n < len(lists) and rows[one] >= _SURELY))
    }
    if not together or sum(n for entry, n in alone.items() if entry[:1].islower()) > sum(alone.values()) / 2:
        return lists
    found = []
    for entries in lists:
        joined = entries[:1]
        for one, two in pairwise(entries):
            if (one, two) in together:
                joined[-1] += f"{sep} {two}"
            else:
                joined.append(two)
        found.append(joined)
    return found


def list_of_options(texts: Texts) -> Found | None:
    """Lists of options in one cell, whatever the number of combinations."""
    for sep in (*SEPARATORS, " "):
        texts = _with_lists(sep, texts)
        of_parts = _are_lists(sep, texts)
        if not of_parts and (sep == " " or not is_used(sep, texts.kept)):
            continue
        lists = _with_continued([listed(text, sep) for text in texts.rows], list(texts.rows.values()), sep)
        counts: Counter[str] = Counter()
        for options, count in zip(lists, texts.rows.values(), strict=True):
            counts.update(dict.fromkeys(options, count))
        recode = folded(counts)
        for text, to in recode.items():
            counts[to] += counts.pop(text)
        orders = [tuple(each) for each in lists if len(each) == len(counts) and set(each) == set(counts)]
        if len(counts) > 2 and len(orders) >= _ALL_ITEMS * len(lists) and len(set(orders)) > len(counts):
            what = f"orders of the same {len(counts)} items, best first"
            reason = f"a guess: texts such as {show(texts.kept[0])} are {what}"
            ranking = Ranking(tuple(sorted(counts)), sep=sep, missing=texts.missing)
            return Decision(ranking, f"{reason}{texts.less}", BY_SEPARATOR, "a list of options")
        several = sum(len(options) > 1 for options in lists)
        least = LEAST_SHARE_KEPT * texts.n_answers if len(counts) > MOST_KEPT else 0.0
        often = sum(count for count in counts.values() if count >= LEAST_COUNT)
        written_in = sep == "," and often > _MOSTLY * sum(counts.values())  # beside options, one or two people's words
        floor = max(least, LEAST_COUNT if len(counts) > FEW_CATEGORIES or written_in else 1)
        common = [each for each, count in counts.most_common(MOST_KEPT) if count >= floor and each not in texts.gone]
        covered = sum(counts[option] for option in common) / max(sum(counts.values()), 1)
        repeats = sum(counts.values()) >= (3 if sep == "," else 1.5) * len(counts)
        enough = several > len(lists) / 3 and len(counts) < len(texts.kept)
        if not (enough or of_parts) or len(common) < 2 or covered < 0.8:
            continue
        long = sum(counts[option] for option in common if len(option) > 60) > (1 - _MOSTLY) * sum(counts.values())
        often = sum(counts[option] for option in common) > _OFTEN_CHOSEN * len(common)
        if sep == "," and (not repeats or (long and not often)):
            continue  # sentences have commas too
        rare = len(counts) - len(common)
        reason = f"a guess: texts such as {show(max(texts.kept, key=len))} are lists of {len(common)} options, "
        marks = {"\n": "line breaks", " ": "blanks"}.get(sep, f'"{sep}"')
        reason += f"separated by {marks}" + (f"; {rare} rare options are left out" if rare else "")
        used = {text: to for text, to in recode.items() if to in common}
        unseen: Any = "missing" if rare else "error"
        column = MultiSelect(tuple(sorted(common)), sep=sep, recode=used, unseen=unseen, missing=texts.missing)
        return Decision(column, f"{reason}{texts.less}", TO_CHECK if sep == "," else BY_SEPARATOR)
    return None
