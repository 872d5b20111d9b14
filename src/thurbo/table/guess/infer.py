"""Detect the type of every column of a table: questions of several columns first, then the other columns.

Idea: questions of several columns are found first (layouts.py); columns with the same answers are decided together; at
most one Id and one Weight; codes such as −9 and 99 beside 1 to 5 mean "no answer".
Guarantees the order of the table, a reason and a confidence for every choice, and the title of every question that has
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Cells, IntArray
from thurbo.table.columns.ignore import Ignore
from thurbo.table.columns.values import is_word, listing, spellings
from thurbo.table.guess.grids import Grid, grid
from thurbo.table.guess.layouts import questions, stem
from thurbo.table.guess.one_column import NO_ANSWER, guess, sort_codes
from thurbo.table.guess.roles import TO_CHECK, Decision, n_each
from thurbo.table.guess.words import NAMES, folded, in_words, spelling, unanswered
from thurbo.table.io.codebook import ColumnGroup, Note, whole

_WIDE = tuple(range(2, 7))  # numbers of digits
HIGH = frozenset(
    [7, 8, 9, *(int(digit * width) for digit in "789" for width in _WIDE)]
    + [int("9" * width) - below for width in _WIDE for below in (1, 2)]
)
LOW = frozenset([*range(-9, 0), *(-code for code in HIGH)])
_MOST_STEPS = 11  # most levels of a scale
_TOP = 11  # largest level of a scale: 0 to 10, and 11
_FEWEST_NUMBERS = 10
_MOST_CODES = 5  # most codes below the answers
_OFTEN = 5  # answers that are this frequent next to a gap make the gap unlikely


Counts = Mapping[float, int]  # distinct numbers of a column, ascending, and how often each occurs


class _Ends(NamedTuple):
    codes: list[float]
    answers: list[float]
    is_strong: bool


def isolated(columns: Mapping[str, Counts]) -> dict[str, dict[float, str]]:
    """Codes that are probably not answers, by column, each with the evidence."""
    sides = [(name, list(ends)) for name, each in columns.items() for ends in (_below(each), _above(each))]
    found: dict[str, dict[float, str]] = {name: {} for name in columns}
    for name, side in sides:
        if strong := next((end for end in side if end.is_strong), None):
            found[name] |= dict.fromkeys(strong.codes, "far from the other values")
    shared = Counter(code for codes in found.values() for code in codes)
    for name, side in sides:
        known = [end for end in side if all(shared[code] >= 2 for code in end.codes)]
        weak = [end for end in known if _is_rare(columns[name], end)]
        if weak and not any(end.is_strong for end in side):
            found[name] |= dict.fromkeys(weak[0].codes, "as in other columns")
    return {name: codes for name, codes in found.items() if codes}


def _below(counts: Counts) -> Iterable[_Ends]:
    codes = [value for value in counts if value < 0]
    answers = [value for value in counts if value >= 0]
    if not codes or len(answers) < 2 or sum(counts.values()) < _FEWEST_NUMBERS or not set(codes) <= LOW:
        return
    if {-code for code in codes} == {value for value in answers if value}:
        return  # −2, −1, 0, 1, 2 is a scale
    # A run of negative numbers that ends at zero is part of the scale, unless other columns have the same codes.
    is_apart = answers[0] - codes[-1] >= 2 and len(codes) <= _MOST_CODES
    often = len(answers) <= _MOST_STEPS or (_total(counts, codes) >= 2 and _are_whole(answers))
    yield _Ends(codes, answers, is_apart and often)


def _above(counts: Counts) -> Iterable[_Ends]:
    values = [value for value in counts if value >= 0]
    codes: list[float] = []
    while (
        len(values) > 2 and values[-1] in HIGH and (not codes or len(str(int(codes[0]))) == len(str(int(values[-1]))))
    ):
        codes.insert(0, values.pop())
    if not codes or sum(counts.values()) < _FEWEST_NUMBERS or not _are_whole(values):
        return
    for start in range(len(codes)):  # of 1 to 7, 8 and 9, the first may be an answer
        code, answers = codes[start:], [*values, *codes[:start]]
        gap = code[0] - answers[-1]
        dense = len(answers) <= _MOST_STEPS and answers[-1] - answers[0] < 2 * len(answers) and answers[-1] <= _TOP
        often = _total(counts, answers[-1:]) >= _OFTEN
        if dense and code[0] > 9:
            yield _Ends(code, answers, True)
        elif dense and answers[-1] <= 7:
            mean = _total(counts, answers) / len(answers)
            several = gap == 2 and len(code) > 1 and _total(counts, code) < len(code) * mean / 2
            yield _Ends(code, answers, often and (gap >= 3 or several))
        elif not dense and code[0] > 9 and gap >= 2:
            tail = [counts[value] for value in answers[-max(5, len(answers) // 10) :]]
            frequent = _total(counts, code) >= max(_OFTEN, 3 * len(code) * float(np.mean(tail)))
            yield _Ends(code, answers, frequent or (gap > 2 * answers[-1] and _total(counts, code) >= 2))


def _is_rare(counts: Counts, side: _Ends) -> bool:
    """Whether weak evidence is enough: the codes are no more frequent than answers are on average."""
    mean = _total(counts, side.answers) / len(side.answers)
    gap = min(abs(code - answer) for code in side.codes for answer in (side.answers[0], side.answers[-1]))
    return gap >= 2 or _total(counts, side.codes) / len(side.codes) <= mean


def _total(counts: Counts, values: Iterable[float]) -> int:
    return sum(counts[value] for value in values)


def _are_whole(values: Iterable[float]) -> bool:
    return all(float(value).is_integer() for value in values)


_MOST_ANSWERS = 12  # of a grid
_UNSEEN = 5.0  # most answers expected of a column that has none of them, if it has the scale of the others


class Distinct(NamedTuple):
    """The distinct answers of a column as texts, and the place of each row's answer, −1 if it has none: [row]."""

    texts: tuple[str, ...]
    which: IntArray
    family: str  # of texts, of numbers, or of codes with labels


def shared_answers(
    names: Iterable[str],
    cells: Mapping[str, Cells],
    notes: Mapping[str, Note],
    codes: Mapping[str, Collection[float]],
) -> tuple[dict[str, Grid], dict[str, dict[str, str]]]:
    """The grid of each column that has the same answers as others, and how its answers are spelled there."""
    read = {name: _answers(cells[name], notes[name], codes.get(name, ())) for name in names}
    answers = {name: own for name, own in read.items() if own is not None}
    groups: dict[tuple[str, frozenset[str]], list[str]] = {}  # numbers need names that begin alike
    for name, own in answers.items():
        key = frozenset(spelling(text) for text in own.texts if unanswered(text) not in NO_ANSWER)
        if 2 <= len(key) <= _MOST_ANSWERS:
            family = f"numbers of {stem(name)}" if own.family == "numbers" else own.family
            groups.setdefault((family, key), []).append(name)
    for (family, few), members in sorted(groups.items(), key=lambda each: len(each[0][1])):
        for (other, many), larger in sorted(groups.items(), key=lambda each: -len(each[0][1])):
            is_pair = len(few) == 2 and all(map(is_word, few))  # "yes" and "no" lack no level
            if other == family and few < many and larger and not is_pair and _are_of(members, few, larger, answers):
                larger += members
                members.clear()
                break
    grids: dict[str, Grid] = {}
    recodes: dict[str, dict[str, str]] = {}
    for (family, key), members in groups.items():
        if len(members) < 2 or len(key) < 3:
            continue
        counts: Counter[str] = Counter()
        for name in members:
            counts.update(n_each(answers[name].texts, answers[name].which))
        recode = folded(counts) if family == "texts" else {}
        kept = (recode.get(text, text) for text in counts if unanswered(text) not in NO_ANSWER)
        labels = sorted(set(kept), key=(lambda text: (float(text), text)) if family.startswith("numbers") else None)
        place = {text: at for at, text in enumerate(labels)}
        columns = {}
        for name in members:
            codes_of = [place.get(recode.get(text, text), -1) for text in answers[name].texts]
            columns[name] = np.asarray([*codes_of, -1], np.int32)[answers[name].which]
            recodes[name] = {text: to for text, to in recode.items() if text in answers[name].texts}
        made = grid(columns, labels)
        grids |= dict.fromkeys(members, made)
    return grids, recodes


def _answers(cells: Cells, note: Note, gone: Collection[float]) -> Distinct | None:
    """The answers of a column that may belong to a grid: a few texts, labelled codes or whole numbers."""
    kind = cells.values.dtype.kind
    if kind not in "OTUiuf" or cells.ordered_levels is not None or cells.missing.all():
        return None
    if kind == "O" and not all(isinstance(value, str) for value in cells.values[~cells.missing][:100].tolist()):
        return None
    try:
        distinct, which = cells.factorise()
    except SchemaError:
        return None
    if len(distinct) > 2 * _MOST_ANSWERS:
        return None
    if kind in "OTU":
        return Distinct(tuple(map(str, distinct)), which, "texts") if not note.names else None
    found = sort_codes(distinct, note)
    left = [code for code in map(whole, distinct) if code in found.answers and code not in gone]
    texts = [found.named.get(code, "") if note.names else str(code) for code in left]
    is_scale = note.names or all(isinstance(code, int) and 0 <= code <= _TOP for code in left)
    if not is_scale or not all(texts) or len(set(texts)) < len(texts):
        return None
    place = {code: at for at, code in enumerate(left)}
    codes = np.asarray([*(place.get(whole(value), -1) for value in distinct), -1], np.int32)
    return Distinct(tuple(texts), codes[which], "codes" if note.names else "numbers")


def _are_of(members: list[str], few: frozenset[str], larger: list[str], answers: Mapping[str, Distinct]) -> bool:
    """Whether columns with fewer answers have the scale of others with similar names, and lack answers by chance."""
    if not {stem(name) for name in members} & {stem(name) for name in larger}:
        return False
    counts: Counter[str] = Counter()
    for name in larger:
        for text, n_rows in n_each(answers[name].texts, answers[name].which).items():
            counts[spelling(text)] += n_rows
    lacking = sum(n for text, n in counts.items() if text not in few and unanswered(text) not in NO_ANSWER)
    most = max(int((answers[name].which >= 0).sum()) for name in members)
    return most * lacking / max(sum(counts.values()), 1) <= _UNSEEN


def infer(
    names: Sequence[str],
    read: Callable[[str], Cells],
    is_array: bool,
    notes: Mapping[str, Note],
    groups: Sequence[ColumnGroup],
    declared: Mapping[Any, str],
) -> tuple[dict[str, Decision], dict[str, str]]:
    """The type and the title of each question, by the cells, the code book of the file and codes declared missing."""
    notes = {name: _told(notes.get(name, Note()), declared) for name in names}
    prepared: dict[str, Cells] = {}
    numbers = {}
    for name in () if is_array else names:
        cells = read(name)
        prepared[name] = cells = Ignore(missing=_of_kind(declared, cells)).answered(cells)
        has_book = notes[name].names or notes[name].missing or cells.ordered_levels is not None
        if cells.values.dtype.kind in "iuf" and not (has_book or cells.missing.all()):
            values, n_rows = np.unique(cells.values[~cells.missing], return_counts=True)
            numbers[name] = dict(zip(values.tolist(), n_rows.tolist(), strict=True))
    codes = isolated(numbers)

    def cells_of(name: str) -> Cells:
        return prepared[name] if name in prepared else read(name)

    together = questions(names, cells_of, notes, groups)
    first = {question.members[0]: question for question in together.questions}
    inside = together.taken
    alone = [name for name in names if name not in inside]
    grids, recodes = ({}, {}) if is_array else shared_answers(alone, prepared, notes, codes)
    found: dict[str, Decision] = {}
    titles: dict[str, str] = {}
    for name in names:
        if name in first:
            question = first[name]
            found[question.name] = _with(question.found, declared)
            titles[question.name] = question.title
        elif name in together.apart:
            found[name] = Decision(Ignore("it is no answer"), together.apart[name])
        elif name not in inside:
            cells = cells_of(name)
            decided = _guessed(cells, is_array, notes[name], codes.get(name, {}), grids.get(name), recodes.get(name))
            found[name] = _with(decided, _of_kind(declared, cells))
        titles |= {name: notes[name].title} if name in found else {}
    ids = [name for name, each in found.items() if each.column.role == "id"]
    for name in ids[1:]:
        why = f'{found[name].reason}; "{ids[0]}" is already {type(found[ids[0]].column).__name__}()'
        found[name] = found[name]._replace(column=Ignore("a second row identifier"), reason=why)
    _one_weight(found, cells_of)
    return found, titles


def _told(note: Note, declared: Mapping[Any, str]) -> Note:
    """A code book entry with the codes that are declared missing for the whole file."""
    if not declared or not (note.names or note.missing or note.measure):
        return note
    codes = [number for code in declared for number in spellings(code)]
    return replace(note, missing=(*note.missing, *((code, code) for code in codes if not note.is_missing(code))))


def _of_kind(declared: Mapping[Any, str], cells: Cells) -> dict[Any, str]:
    """Declared codes that such cells can hold: numbers in a column of numbers, as numbers."""
    if cells.values.dtype.kind not in "iuf":
        return dict(declared)
    numbers = {each: text for code, text in declared.items() for each in spellings(code)}
    return {whole(code): text for code, text in numbers.items() if not isinstance(code, str)}


def _with(found: Decision, missing: Mapping[Any, str]) -> Decision:
    """A modelled column with more codes declared missing."""
    own: Any = found.column.missing
    extra = {each: text for each, text in missing.items() if each not in dict(own) and each not in found.column.labels}
    is_changed = extra and found.column.role == "answer"
    return found._replace(column=replace(found.column, missing=(*own, *extra.items()))) if is_changed else found


def _guessed(
    cells: Cells,
    is_array: bool,
    note: Note,
    codes: Mapping[float, str],
    shared: Grid | None,
    recode: dict[str, str] | None,
) -> Decision:
    """The type of one column, without isolated codes, and with answers of several spellings as one."""
    if codes:
        gone = {whole(code): str(whole(code)) for code in codes}
        found = guess(Ignore(missing=gone).answered(cells), is_array, note, shared)
        if found.column.role == "answer":
            why = listing(dict.fromkeys(codes.values()), " and ")
            reason = f"{found.reason}; a guess: counted as missing: {listing(gone)}, {why}"
            return _with(found, gone)._replace(reason=reason, sure=min(found.sure, TO_CHECK))
    has_texts = cells.values.dtype.kind in "OTU" and not (is_array or note.names or cells.ordered_levels is not None)
    if recode is None and has_texts:
        with suppress(SchemaError):  # lists, which `guess` reads
            recode = folded(n_each(*cells.factorise()))
    found = guess(Ignore(recode=recode or {}).recoded(cells), is_array, note, shared)
    if not recode or found.column.role != "answer":
        return found
    if not found.column.is_one_label:  # lists have spellings of their options
        return guess(cells, is_array, note, shared)
    gone = dict(found.column.missing)
    column = _with(found, {text: text for text, to in recode.items() if to in gone}).column
    used = {text: to for text, to in recode.items() if not column.labels or to in column.labels}
    return found._replace(column=replace(column, recode=used), reason=f"{found.reason}{in_words(used)}")


def _one_weight(found: dict[str, Decision], read: Callable[[str], Cells]) -> None:
    """Keep the weight that combines the others, by its numbers or its name, or else the first; name them all."""
    names = [name for name, each in found.items() if each.column.role == "weight"]
    if len(names) < 2:
        return
    values = {name: read(name).values.astype(np.float64) for name in names}
    product = next((name for name in names if _combines(name, values)), None)
    named = next((name for name in names if NAMES["combined"].search(name.casefold())), None)
    chosen = product or named or names[0]
    why = "the product of two others" if product else "the combined one by its name" if named else "the first"
    for name in names:
        column = found[name].column if name == chosen else Ignore("a second column of weights")
        what = "it is" if name == chosen else f'"{chosen}" is'
        reason = f"{found[name].reason}; of the weights {listing(names)}, {what} used: {why}"
        found[name] = Decision(column, reason, min(found[name].confidence, TO_CHECK), found[name].otherwise)


def _combines(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a weight is the product of two others, up to its scale."""
    with np.errstate(all="ignore"):
        for one, two in combinations([other for other in values if other != name], 2):
            ratio = values[name] / (values[one] * values[two])
            ratio = ratio[np.isfinite(ratio)]
            varies = min(values[each].std() for each in (one, two)) > 0
            if varies and len(ratio) and np.ptp(np.percentile(ratio, [1, 99])) <= 0.01 * abs(np.median(ratio)):
                return True
    return False
