"""Detect the type of a column of texts: scales, bands, numbers in words, lists of options, categories, free text.

Idea: non-answers are removed, then each reading is tried from the most to the least specific, by the cells it covers.
Guarantees a reason, and that more rows never lose a column: limits are shares of the answers, not numbers of texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns.amounts import amount, days
from thurbo.columns.banded import Banded
from thurbo.columns.binary import Binary, false_and_true, is_word
from thurbo.columns.categorical import Categorical
from thurbo.columns.cells import IntArray, is_number_text, listing, show
from thurbo.columns.column import Column
from thurbo.columns.ignore import Ignore
from thurbo.columns.multiselect import MultiSelect
from thurbo.columns.ordinal import Ordinal
from thurbo.schema.guess.coded import MOST_STEPS
from thurbo.schema.guess.numbers import number
from thurbo.schema.guess.quantities import bands
from thurbo.schema.guess.scales import scale, scale_but_one
from thurbo.schema.guess.spelling import folded
from thurbo.schema.guess.unanswered import unanswered

_FEW_CATEGORIES = 20  # so many are kept as they are
_MOST_KEPT = 60  # most categories or options; the others are joined
_LEAST_SHARE, _LEAST_COUNT = 0.005, 3  # of a category that is kept, if there are many
_COVERED = 0.6  # share of answers that the kept categories must cover
_NUMBERS = 0.8  # share of answers that must be numbers
_MOST_UNITS = 6
_MOST_EXAMINED = 500  # most texts that are compared with "don't know", the most frequent first
_MOST_ODD = 100  # texts that are declared missing by name
_SEPARATORS = (";", "|", ",")
NO_ANSWER = ("absent", "unknown")
DATES: tuple[Column, str] = (
    Ignore("dates and times are not modelled"),
    'dates; use Continuous(parse="date") to model them as days',
)
TIMES: tuple[Column, str] = (
    Ignore("dates and times are not modelled"),
    "times or durations; to model them, add a column of numbers to the table, such as hours (14.5 for 14:30)",
)
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]\.?m\.?)?")
# Names of columns for an answer in the respondent's own words.
_OWN_WORDS = re.compile(
    r"\b(please|pls\.?) (specify|provide|describe|explain|list|write|tell)\b|\bspecify\b|open.?ended|verbatim"
    r"|own words|^comments?$|\bcomments?\)?$|[_ .](text|specify|verbatim|comment|other_text)$"
)


class Texts(NamedTuple):
    """Distinct texts that are answers, with counts, and those that are not."""

    kept: list[str]
    counts: list[int]
    gone: list[str]

    @property
    def missing(self) -> dict[Any, str]:
        """The texts that are not answers, as the setting of a column."""
        return {text: text for text in self.gone}

    @property
    def less(self) -> str:
        """The texts that are not answers, as the end of a reason."""
        return f"; counted as missing: {listing(map(show, self.gone))}" if self.gone else ""

    @property
    def n_answers(self) -> int:
        return sum(self.counts)


def are_dates(distinct: Sequence[Any]) -> bool:
    """Whether all texts are dates, apart from those that are no answer."""
    texts = [text for text in distinct if isinstance(text, str)]
    if len(texts) < len(distinct) or not any(_is_moment(text) for text in texts[:5]):
        return False
    return all(_is_moment(text) or unanswered(text) for text in texts)


def are_times(distinct: Sequence[Any]) -> bool:
    """Whether texts that are dates or times are all times of day, without a date."""
    return all(_TIME.fullmatch(text.casefold()) for text in distinct if not unanswered(text))


def _is_moment(text: str) -> bool:
    return days(text) is not None or _TIME.fullmatch(text.casefold()) is not None


def is_own_words(name: str, distinct: Sequence[Any]) -> bool:
    """Whether the name asks for an answer in words, and the cells are such answers."""
    if not _OWN_WORDS.search(name.casefold()) or len(distinct) < 2:
        return False
    texts = [text for text in distinct if isinstance(text, str) and not unanswered(text)]
    return len(texts) > 1 and not all(map(is_word, texts)) and scale(texts) is None


def guess_texts(distinct: list[str], which: IntArray) -> tuple[Column, str]:
    """The type of a column with three or more texts; non-answers count as missing."""
    texts = _sorted_out(distinct, np.bincount(which[which >= 0], minlength=len(distinct)).tolist())
    kept, missing, less = texts.kept, texts.missing, texts.less
    if len(kept) == 2:
        false, true = false_and_true(list(kept), None)
        return Binary(values=(false, true), missing=missing), f"two values, {show(false)} and {show(true)}{less}"
    are_numbers = len(kept) > MOST_STEPS and all(map(is_number_text, kept))
    for read in (_amounts, _scale) if are_numbers else (_scale, _amounts):
        if found := read(texts):
            return found
    return _options(texts) or _free(texts) or _categories(texts)


def many_combinations(distinct: list[str], which: IntArray) -> tuple[Column, str] | None:
    """Lists of options in so many combinations that most texts occur once, like identifiers."""
    n_answers = int((which >= 0).sum())
    if len(distinct) <= max(_FEW_CATEGORIES, n_answers / 2) or not any(_is_used(sep, distinct) for sep in _SEPARATORS):
        return None
    return _options(_sorted_out(distinct, np.bincount(which[which >= 0], minlength=len(distinct)).tolist()))


def _is_used(separator: str, texts: Sequence[str]) -> bool:
    return sum(separator in text for text in texts) > len(texts) / 3


def _sorted_out(distinct: list[str], counts: list[int]) -> Texts:
    often = sorted(np.argsort(counts, kind="stable")[::-1][:_MOST_EXAMINED].tolist())
    gone = [distinct[place] for place in often if unanswered(distinct[place]) in NO_ANSWER]
    if "+" in distinct:  # "-" is an answer beside "+"
        gone = [text for text in gone if re.search(r"\w", text)]
    if len(distinct) - len(gone) < 2:
        gone = []
    left = set(gone)
    pairs = [(text, count) for text, count in zip(distinct, counts, strict=True) if text not in left]
    return Texts([text for text, _ in pairs], [count for _, count in pairs], gone)


def _scale(texts: Texts) -> tuple[Column, str] | None:
    kept, gone = texts.kept, texts.gone
    ends = bands(kept)
    if ends is not None:
        example = listing(map(show, sorted(kept, key=lambda text: ends[kept.index(text)][0] or -np.inf)), most=3)
        reason = f"{example} are bands of a number{texts.less}"
        return Banded(dict(zip(kept, ends, strict=True)), transform="rank-normal", missing=texts.missing), reason
    found = scale(kept)
    if found is not None:
        levels = tuple(text for _, text in sorted(zip(found.heights, kept, strict=True)))
        return Ordinal(
            levels, missing=texts.missing
        ), f"the texts form a scale ({found.name}), lowest first{texts.less}"
    part = scale_but_one(kept)
    if part is None:
        return None
    if part.is_lowest:
        reason = f"a guess: the texts form a scale ({part.name}), with {show(part.levels[0])} as the lowest{texts.less}"
        return Ordinal(part.levels, missing=texts.missing), reason
    without = texts._replace(gone=[*gone, part.other])
    return Ordinal(part.levels, missing=without.missing), f"a guess: the texts form a scale ({part.name}){without.less}"


def _amounts(texts: Texts) -> tuple[Column, str] | None:
    """Numbers in words: "$420", "32 %", "about 7", "7 hrs"; the rest is listed and counts as missing."""
    notation = _notation(texts.kept)
    read = {text: amount(text, notation) for text in texts.kept}
    odd = [text for text, number in read.items() if number is None]
    covered = sum(count for text, count in zip(texts.kept, texts.counts, strict=True) if read[text] is not None)
    units = {re.sub(r"[\d.,'\s]+", "", text.casefold()) for text, number in read.items() if number is not None}
    numbers = {number for number in read.values() if number is not None}
    if covered < _NUMBERS * texts.n_answers or len(numbers) < 3 or len(units) > _MOST_UNITS:
        return None
    missing: dict[Any, str] = texts.missing | {text: text for text in odd[:_MOST_ODD]}
    example = max((text for text in texts.kept if read[text] is not None), key=len)
    reason = f"numbers written as text ({notation}), {len(numbers)} distinct values, such as {show(example)}"
    if odd:
        reason = f"a guess: {reason}, but {len(odd)} texts are not: {listing(map(show, odd), most=6)}"
    often: dict[float, int] = {}
    for text, count in zip(texts.kept, texts.counts, strict=True):
        if (value := read[text]) is not None:
            often[value] = often.get(value, 0) + count
    column, heaps = number(often, parse=notation, missing=missing, unseen="missing")
    return column, f"{reason}{texts.less}{heaps}"


def _notation(texts: Sequence[str]) -> Any:
    def share(pattern: str) -> float:
        return sum(bool(re.search(pattern, text.casefold())) for text in texts) / len(texts)

    comma, point = share(r"\d,\d{1,2}(?!\d)|\d\.\d{3},"), share(r"\d\.\d{1,2}(?!\d)|\d,\d{3}\.")
    if comma > 0 and comma > point and not share(r"\d,\d{3}(?!\d)") > comma:
        return "decimal-comma"
    if share(r"[$€£¥₹]|\b(usd|eur|gbp|dollars?|euros?)\b") >= 0.3:
        return "currency"
    return "percent" if share(r"%|per ?cent\b|\bpct\b") >= 0.3 else "number"


def _options(texts: Texts) -> tuple[Column, str] | None:
    """Lists of options in one cell, whatever the number of combinations."""
    for sep in _SEPARATORS:
        if not _is_used(sep, texts.kept):
            continue
        lists = [[part.strip() for part in text.split(sep) if part.strip()] for text in texts.kept]
        counts: Counter[str] = Counter()
        for options, count in zip(lists, texts.counts, strict=True):
            counts.update(dict.fromkeys(options, count))
        recode = folded(list(counts), list(counts.values()))
        for text, to in recode.items():
            counts[to] += counts.pop(text)
        several = sum(len(options) > 1 for options in lists)
        floor = _LEAST_COUNT if len(counts) > _FEW_CATEGORIES else 1
        common = [each for each, count in counts.most_common(_MOST_KEPT) if count >= max(floor, _floor(texts, counts))]
        covered = sum(counts[option] for option in common) / max(sum(counts.values()), 1)
        repeats = sum(counts.values()) >= (3 if sep == "," else 1.5) * len(counts)
        if several <= len(lists) / 3 or len(common) < 2 or len(counts) >= len(texts.kept) or covered < 0.8:
            continue
        if sep == "," and (not repeats or any(len(option) > 60 for option in common)):
            continue  # sentences have commas too
        rare = len(counts) - len(common)
        reason = f"a guess: texts such as {show(max(texts.kept, key=len))} are lists of {len(common)} options, "
        reason += f'separated by "{sep}"'
        reason += f"; {rare} rare options are left out" if rare else ""
        used = {text: to for text, to in recode.items() if to in common}
        unseen: Any = "missing" if rare else "error"
        column = MultiSelect(tuple(sorted(common)), sep=sep, recode=used, unseen=unseen, missing=texts.missing)
        return column, f"{reason}{texts.less}"
    return None


def _floor(texts: Texts, counts: Mapping[str, int]) -> float:
    return _LEAST_SHARE * texts.n_answers if len(counts) > _MOST_KEPT else 0.0


def _free(texts: Texts) -> tuple[Column, str] | None:
    """Free text: most texts are different, and many have several words."""
    words = np.mean([len(text.split()) for text in texts.kept])
    if texts.n_answers >= _FEW_CATEGORIES and len(texts.kept) > texts.n_answers / 2 and words >= 3:
        return Ignore("it is free text"), f"most texts are different, such as {show(max(texts.kept, key=len))}"
    return None


def _categories(texts: Texts) -> tuple[Column, str]:
    kept, what = texts.kept, f"{len(texts.kept)} different texts without a known order"
    if len(kept) <= _FEW_CATEGORIES:
        reason = f"{what}; if ordered, use Ordinal(levels=[...]){texts.less}"
        return Categorical(tuple(sorted(kept)), missing=texts.missing), reason
    floor = max(_LEAST_COUNT, _LEAST_SHARE * texts.n_answers)
    ranked = sorted(zip(texts.counts, kept, strict=True), key=lambda each: (-each[0], each[1]))
    common = [text for count, text in ranked[:_MOST_KEPT] if count >= floor]
    covered = sum(count for count, _ in ranked[: len(common)]) / max(texts.n_answers, 1)
    rare = len(kept) - len(common)
    if len(common) < 2 or covered < _COVERED:
        reason = f"{what}, too many for categories: the most frequent ones cover {covered:.0%} of the answers"
        return Ignore("too many different texts"), f"{reason}; use Categorical() if they are categories"
    if not rare:
        return Categorical(tuple(sorted(kept)), missing=texts.missing), f"{what}{texts.less}"
    other = f"other ({rare} more)"
    column = Categorical((*sorted(common), other), other=other, missing=texts.missing)
    reason = f"{what}; a guess: the {rare} rarest, {1 - covered:.0%} of the answers, are joined into {show(other)}"
    return column, f"{reason}{texts.less}"
