"""Lists of options in one cell: which separator they have, what the options are, and what people wrote beside them.

Idea: options occur again in many combinations, sentences with commas do not. A separator inside brackets, or before
words in lower case that always follow the same ones, is part of an option.
Guarantees that options are those of the column that is proposed: reading a cell gives them again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thurbo.table.columns.cells import IntArray
from thurbo.table.columns.multiselect import MultiSelect
from thurbo.table.columns.ranking import Ranking
from thurbo.table.columns.values import listed, listing, show
from thurbo.table.guess.roles import OFTEN, SURE, TO_CHECK, Decision, Found
from thurbo.table.guess.words import folded, unanswered

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
            reason = (
                f"a guess: texts such as {show(texts.kept[0])} are orders of the same {len(counts)} items, best first"
            )
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
