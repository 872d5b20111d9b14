"""Detect the type of a column with a code book, from its measurement level, value labels and cells.

Idea: codes for "no answer" are removed first; the rest is two values, ordered levels, categories or a number.
Guarantees a reason for every choice, "a guess" if only the labels suggest it, and unchanged codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns.binary import Binary, false_and_true, is_affirmative
from thurbo.columns.categorical import Categorical
from thurbo.columns.cells import Cells, is_label, is_number_text, listing, show
from thurbo.columns.column import Column
from thurbo.columns.continuous import Continuous
from thurbo.columns.ignore import Ignore
from thurbo.columns.ordinal import Ordinal
from thurbo.io.notes import Note, whole
from thurbo.schema.guess.numbers import number, occurrences
from thurbo.schema.guess.scales import arranged, scale
from thurbo.schema.guess.unanswered import unanswered

MOST_CODES = 100  # most categories or levels of one column
MOST_STEPS = 11  # most whole numbers that count as levels: 0 to 10
_MOST_UNNAMED_LEVELS = 30


class Sorted(NamedTuple):
    """Codes of a column: answers that occur, labels of answers, and labels of missing codes."""

    answers: list[Any]
    named: dict[Any, str]
    missing: dict[Any, str]


def sort_codes(distinct: Iterable[Any], note: Note) -> Sorted:
    """Divide the codes of a column into answers and missing codes."""
    texts = {whole(code): text for code, text in note.names}
    occurring = [whole(code) for code in distinct]
    known = list(dict.fromkeys([*texts, *occurring]))
    missing = {code: texts.get(code, str(code)) for code in known if note.is_missing(code)}
    kinds = {code: unanswered(text) for code, text in texts.items() if code not in missing}
    kept = [code for code, kind in kinds.items() if kind is None] + [code for code in occurring if code not in texts]
    # If the file declares missing codes but not "don't know", although SPSS allows one more, it is an answer.
    knows = note.measure == "nominal" and bool(note.missing) and note.has_room
    for code, kind in kinds.items():
        apart = isinstance(code, str) or all(isinstance(other, str) or abs(code - other) > 1 for other in kept)
        if kind == "absent" or (kind == "unknown" and not knows) or (kind == "doubtful" and apart):
            missing[code] = texts[code]
    answers = [code for code in occurring if code not in missing]
    known_apart = [code for code in occurring if kinds.get(code) in ("unknown", "doubtful") and code in missing]
    if len(answers) < 2 <= len(answers) + len(known_apart):
        # Without these codes fewer than two answers would be left.
        missing = {code: text for code, text in missing.items() if code not in known_apart}
        answers = [code for code in occurring if code not in missing]
    named = {code: text for code, text in texts.items() if code not in missing}
    return Sorted(_in_order(answers), named, dict(sorted(missing.items(), key=lambda pair: _key(pair[0]))))


def guess_coded(cells: Cells, note: Note, found: Sorted) -> tuple[Column, str]:
    """The detected type of a column of codes, and the reason."""
    answers, named, missing = found
    if not answers:
        return Ignore("it is empty"), "every cell holds a missing code" if missing else "all cells are missing"
    if not all(map(is_label, answers)):
        return Ignore("its values cannot be read"), f"values such as {show(answers[0])} are not text or numbers"
    if len(answers) == 1:
        only = named.get(answers[0], show(answers[0]))
        return Ignore("it is constant"), f"the only answer is {only}{_less(missing)}"
    unnamed = [code for code in answers if code not in named]
    if len(unnamed) >= max(1, len(answers) - len(unnamed)) and not any(isinstance(code, str) for code in answers):
        return _numbers(found, note, cells)
    return _levels(answers, named, missing, note)


def _numbers(found: Sorted, note: Note, cells: Cells) -> tuple[Column, str]:
    """Numbers of which few or none have a value label."""
    answers, named, missing = found
    wholes = all(isinstance(code, int) for code in answers)
    says = f"the file says {note.measure}" if note.measure else ""
    if len(answers) == 2 and note.measure != "scale":
        return _binary(answers, named, missing, says or "two values")
    if note.measure == "nominal" and wholes and len(answers) <= MOST_CODES:
        return Categorical(tuple(answers), names=_kept(named, answers), missing=missing), f"{says}{_less(missing)}"
    few = wholes and len(answers) <= (_MOST_UNNAMED_LEVELS if note.measure == "ordinal" else MOST_STEPS)
    if few and note.measure in ("ordinal", ""):
        levels = _in_order({*answers, *named})
        reason = says or f"a guess: {len(levels)} whole numbers{', with labels at the ends' if named else ''}"
        return Ordinal(tuple(levels), names=_kept(named, levels), missing=missing), f"{reason}{_less(missing)}"
    if note.measure == "nominal":
        reason = f"{says}, and {len(answers)} codes without labels are too many for categories"
        return Ignore(f"more than {MOST_CODES} codes"), reason
    reason = says or f"numbers, {len(answers)} distinct values"
    if named:
        reason += f"; {listing(f'{code} is {text}' for code, text in named.items())}"
    column, heaps = number(occurrences(cells, answers), missing=missing)
    return column, f"{reason}{_less(missing)}{heaps}"


def _levels(answers: list[Any], named: dict[Any, str], missing: dict[Any, str], note: Note) -> tuple[Column, str]:
    """Codes of which most have value labels: all labelled levels of a scale, or the categories that occur."""
    levels = _in_order({*answers, *named})
    says = f"the file says {note.measure}" if note.measure else "codes with labels"
    if len(levels) == 2:
        return _binary(levels, named, missing, says)
    texts = [named.get(code, str(code)) for code in levels]
    order = arranged(levels, texts, note.measure)
    numbers = note.measure != "nominal" and ((order or ([], ""))[1] == "numbered" or all(map(is_number_text, texts)))
    unnamed = [code for code in answers if code not in named]
    end = f"{f'; {listing(unnamed)} without a label' if unnamed else ''}{_less(missing)}"
    names = _kept(named, levels)
    if note.measure == "ordinal" or (order is not None and order[1] != "numbered" and len(answers) > 2):
        if len(levels) > MOST_CODES:
            return many_levels(levels, f"{says}, {len(levels)} levels", missing)
        arrangement = tuple(order[0] if order else levels)
        return Ordinal(arrangement, names=names, missing=missing), f"{_why_ordered(levels, order, note)}{end}"
    if len(answers) == 2:
        return _binary(answers, named, missing, f"{says}, only two of which occur")
    if numbers and len(levels) > MOST_CODES:
        return many_levels(levels, f"{says}, {len(levels)} levels", missing)
    if numbers:
        reason = f"a guess: {says}, ordered by their numbers"
        return Ordinal(tuple(levels), names=names, missing=missing), f"{reason}{end}"
    if len(answers) > MOST_CODES:
        return Ignore(f"more than {MOST_CODES} codes"), f"{says}, and {len(answers)} are too many for categories"
    unknown = "" if note.measure == "nominal" else ", without a known order; if ordered, use Ordinal(levels=[...])"
    return Categorical(tuple(answers), names=_kept(named, answers), missing=missing), f"{says}{unknown}{end}"


def many_levels(levels: list[Any], what: str, missing: dict[Any, str]) -> tuple[Column, str]:
    """Too many levels for an Ordinal: numbers become Continuous by their ranks, texts are ignored."""
    if all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in levels):
        reason = f"a guess: {what}, too many for an Ordinal, so a number known by its rank{_less(missing)}"
        return Continuous(transform="rank-normal", missing=missing), reason
    return Ignore(f"more than {MOST_CODES} levels"), f"{what}, too many to model; use Ordinal() to model them anyway"


def _why_ordered(levels: list[Any], order: tuple[list[Any], str] | None, note: Note) -> str:
    if order is None:
        return "the file says ordinal; ordered by the codes"
    kind = order[1] if order[1] == "a neutral answer" else f"the labels form a scale ({order[1]})"
    if order[0] != levels:
        moved = f"a guess: {kind}, reordered to {listing(order[0], ' < ')}"
        return f"the file says ordinal; {moved}" if note.measure == "ordinal" else moved
    if note.measure == "ordinal":
        return "the file says ordinal, and the labels agree"
    return f"a guess: {kind}" + (f", although the file says {note.measure}" if note.measure else "")


def _binary(pair: list[Any], named: dict[Any, str], missing: dict[Any, str], reason: str) -> tuple[Column, str]:
    texts = [named.get(code, "") for code in pair]
    yes = [code for code, text in zip(pair, texts, strict=True) if is_affirmative(text.split(",")[0].strip()) and text]
    known = scale(texts) if all(texts) else None
    if len(yes) == 1:
        true: Any = yes[0]
    elif known is not None:
        true = pair[int(np.argmax(known.heights))]
    else:
        true = 1 if set(pair) == {0, 1} else pair[-1] if all(texts) else false_and_true(list(pair), None)[1]
    false = next(code for code in pair if code != true)
    names = _kept(named, pair)
    why = f"{reason}: {names.get(false, show(false))} and {names.get(true, show(true))}"
    return Binary(values=(false, true), names=names, missing=missing), f"{why}{_less(missing)}"


def _kept(named: dict[Any, str], codes: Iterable[Any]) -> dict[Any, str]:
    """The non-empty labels of these codes."""
    return {code: named[code] for code in codes if named.get(code)}


def _less(missing: dict[Any, str]) -> str:
    """The missing codes, as the end of a reason."""
    labels = (text if str(code) == text else f"{code} {text}" for code, text in missing.items())
    return f"; counted as missing: {listing(labels)}" if missing else ""


def _key(code: Any) -> tuple[bool, Any]:
    return isinstance(code, str), code


def _in_order(codes: Iterable[Any]) -> list[Any]:
    return sorted(set(codes), key=_key)
