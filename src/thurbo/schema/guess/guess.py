"""Detect the type of one column, with a reason: the rules of `Schema.infer`.

Idea: the dtype first, then the code book of the file, then the number and kind of distinct values.
Guarantees a reason for every choice, and the words "a guess" if another type is possible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thurbo.columns.binary import Binary, false_and_true
from thurbo.columns.categorical import Categorical
from thurbo.columns.cells import Cells, is_label, listing, show
from thurbo.columns.column import Column
from thurbo.columns.continuous import Continuous
from thurbo.columns.ignore import Ignore
from thurbo.columns.multiselect import MultiSelect
from thurbo.columns.ordinal import Ordinal, ordered_numbers
from thurbo.columns.ranking import Ranking
from thurbo.columns.statements import Interval, OrderStatement, Statement, parse_order, split
from thurbo.errors import SchemaError
from thurbo.io.notes import Note, whole
from thurbo.schema.guess.coded import MOST_CODES, MOST_STEPS, guess_coded, many_levels, sort_codes
from thurbo.schema.guess.numbers import number, occurrences
from thurbo.schema.guess.roles import moment, role
from thurbo.schema.guess.texts import (
    DATES,
    NO_ANSWER,
    TIMES,
    are_dates,
    are_times,
    guess_texts,
    is_own_words,
    many_combinations,
)
from thurbo.schema.guess.unanswered import unanswered

_MOST_ITEMS = 100
_NUMBERS = 0.8  # share of cells that are numbers in a mix of numbers and text
_EMPTY = Note()


def guess(cells: Cells, is_array: bool, note: Note = _EMPTY) -> tuple[Column, str]:
    """The detected type of a column, and the reason; the dtype of an array decides alone."""
    kind = cells.values.dtype.kind
    if cells.missing.all() and not (is_array and kind in "bf"):
        return Ignore("it is empty"), "all cells are missing"
    if kind == "b":
        return Binary(true=True), "booleans"
    if is_array and kind == "f":
        return Continuous(), "an array of floating-point numbers"
    if kind in "mM":
        return DATES if kind == "M" else TIMES
    if cells.ordered_levels is not None:
        return _ordered(cells.ordered_levels)
    if kind in "OTU" and not is_array and (found := _words(cells, note)):
        return found
    proposal = None if is_array else role(cells, note.title)
    if proposal is not None and not note.names:
        return proposal
    if kind in "iuf":
        distinct = np.unique(cells.values[~cells.missing]).tolist()
        if _is_informative(note):
            return guess_coded(cells, note, sort_codes(distinct, note))
        if len(distinct) > 2:
            return _numbers(distinct, cells)
    cells, stated = split(cells)
    if stated and cells.missing.all():
        return _stated(list(stated.values()))
    try:
        distinct, _ = cells.hashable().factorise()
    except SchemaError:
        return Ignore("its cells are collections"), "cells hold collections of an unsupported type"
    if moment(distinct):
        return DATES if all(hasattr(value, "year") for value in distinct) else TIMES
    if any(isinstance(value, (tuple, frozenset)) for value in distinct):
        return _collections(distinct, cells)
    if not all(map(is_label, distinct)):
        strange = next(value for value in distinct if not is_label(value))
        reason = f"values such as {show(strange)} are not text, finite numbers or booleans"
        return Ignore("its values cannot be read"), reason
    if _applies_to(note, distinct):
        return guess_coded(cells, note, sort_codes(distinct, note))
    return _labels(distinct, cells)


def _words(cells: Cells, note: Note) -> tuple[Column, str] | None:
    """Dates, and answers in the respondent's own words, which would look like identifiers."""
    if not all(isinstance(value, str) for value in cells.values[~cells.missing].tolist()):
        return None
    distinct = list(dict.fromkeys(cells.values[~cells.missing].tolist()))
    if are_dates(distinct):
        return TIMES if are_times(distinct) else DATES
    if is_own_words(cells.name, distinct) or is_own_words(note.title, distinct):
        return Ignore("it is free text"), f"its name asks for an answer in words, such as {show(distinct[0])}"
    return many_combinations(*cells.factorise())


def _is_informative(note: Note) -> bool:
    return bool(note.names or note.missing or note.measure)


def _applies_to(note: Note, distinct: list[Any]) -> bool:
    """Whether the code book knows any of these values; it does not if codes were replaced by their labels."""
    named = note.texts
    return any(value in named or note.is_missing(value) for value in distinct)


def _labels(distinct: list[Any], cells: Cells) -> tuple[Column, str]:
    if all(isinstance(value, bool) for value in distinct):
        return Binary(true=True), "booleans"
    items = _ranked_items(distinct)
    if items:
        return Ranking(items), f"a guess: texts such as {show(distinct[0])} look like orders of {len(items)} items"
    if len(distinct) == 1:
        return Ignore("it is constant"), f"the only value is {show(distinct[0])}"
    if len(distinct) == 2:
        false, true = false_and_true([whole(value) for value in distinct], None)
        return Binary(true=true), f"two values, {show(false)} and {show(true)}"
    if not any(isinstance(value, str) for value in distinct):
        return _numbers(distinct, cells)
    if not all(isinstance(value, str) for value in distinct):
        return _mixed(distinct, cells)
    return guess_texts(distinct, cells.factorise()[1])


def _mixed(distinct: list[Any], cells: Cells) -> tuple[Column, str]:
    """Numbers with a few texts among them, such as "refused", or a mix that cannot be read."""
    _, which = cells.factorise()
    texts = [value for value in distinct if isinstance(value, str)]
    share = float(np.isin(which[which >= 0], [distinct.index(text) for text in texts]).mean())
    numbers = [value for value in distinct if not isinstance(value, str)]
    if share > 1 - _NUMBERS or len(numbers) < 2 or any(isinstance(value, bool) for value in numbers):
        reason = "a mix of text and numbers; use Ordinal(levels=[...]) or Categorical() if this is intended"
        return Ignore("a mix of text and numbers"), reason
    column, reason = _numbers(numbers, cells)
    missing: dict[Any, str] = {text: text for text in texts}
    return replace(column, missing=missing), f"{reason}; counted as missing: {listing(map(show, texts), most=6)}"


def _ordered(levels: tuple[Any, ...]) -> tuple[Column, str]:
    gone = [level for level in (levels[0], levels[-1]) if isinstance(level, str) and unanswered(level) in NO_ANSWER]
    kept = tuple(level for level in levels if level not in gone)
    if not gone or len(kept) < 2:
        gone, kept = [], levels
    missing: dict[Any, str] = {level: level for level in gone}
    less = f"; counted as missing: {listing(map(show, gone))}" if gone else ""
    if len(kept) < 2:
        return Ignore("it has one level"), "an ordered category with fewer than two levels"
    if len(kept) > MOST_CODES:
        return many_levels(list(kept), f"an ordered category with {len(kept)} levels", missing)
    if len(kept) == 2 and not gone:
        return Binary(true=kept[1]), "an ordered category with two levels"
    if len(kept) == 2:
        return Binary(values=(kept[0], kept[1]), missing=missing), f"an ordered category with two levels{less}"
    return Ordinal(kept, missing=missing), f"an ordered category with {len(kept)} levels{less}"


def _numbers(distinct: list[Any], cells: Cells) -> tuple[Column, str]:
    are_whole = all(isinstance(value, int) or value.is_integer() for value in distinct)
    # 0 to 10 is a scale where its steps repeat.
    few = len(distinct) < MOST_STEPS or (len(distinct) == MOST_STEPS and int((~cells.missing).sum()) >= 2 * MOST_STEPS)
    if are_whole and few:
        reason = f"a guess: only {len(distinct)} whole numbers; use Continuous() if distances matter"
        return Ordinal(ordered_numbers(distinct)), reason
    reason = f"numbers, {len(distinct)} distinct values"
    if are_whole and len(distinct) == int((~cells.missing).sum()):
        reason += "; each occurs once: use Ignore() if they are identifiers"
    column, heaps = number(occurrences(cells, [whole(value) for value in distinct]))
    return column, f"{reason}{heaps}"


def _ranked_items(distinct: list[Any]) -> tuple[str, ...]:
    """The items, if all texts are orders of few items such as "a > b = c"; otherwise empty."""
    if not all(isinstance(value, str) for value in distinct) or not any(" > " in value for value in distinct):
        return ()
    tiers = [[item for tier in parse_order(value).tiers for item in tier] for value in distinct if value]
    items = {item for ranked in tiers for item in ranked}
    # Items must repeat across rows, because free text can contain "a > b" by chance.
    repeats = sum(map(len, tiers)) >= 2 * len(items) or len(distinct) == 1
    whole = all(len(set(ranked)) == len(ranked) and all(ranked) for ranked in tiers)
    most = sum(len(ranked) > 1 for ranked in tiers) > len(tiers) / 2
    return tuple(sorted(items)) if whole and most and repeats and 1 < len(items) <= _MOST_ITEMS else ()


def _collections(distinct: list[Any], cells: Cells) -> tuple[Column, str]:
    lists = [value for value in distinct if isinstance(value, tuple)]
    column: Column = MultiSelect()
    reason = "a guess: cells hold lists or sets; use Ranking() if order matters, Categorical() for one choice"
    if any(isinstance(entry, (tuple, OrderStatement)) for value in lists for entry in value):
        column, reason = Ranking(), "a guess: cells hold lists of lists, best first"
    try:
        column = column.fit(cells)
        column.encode(cells)
        return column, reason
    except SchemaError as error:
        return Ignore("its lists cannot be read"), f"cells hold lists or sets, but {error}"


def _stated(statements: list[Statement]) -> tuple[Column, str]:
    if all(isinstance(statement, Interval) for statement in statements):
        if any(isinstance(end, str) for each in statements for end in (each.lower, each.upper)):  # type: ignore[attr-defined]
            return Ignore("the order of its levels is not known"), "intervals of levels; use Ordinal(levels=[...])"
        return Continuous(), "intervals of a number"
    if all(isinstance(statement, OrderStatement) for statement in statements):
        return Ranking(), "preferences between items"
    return Categorical(), "statements about categories"
