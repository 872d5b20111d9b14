"""Detect the type of every column of a table: questions of several columns first, then the other columns.

Idea: what belongs together is found first (layouts.py); at most one Id and one Weight; codes such as −9 and 99 beside
1 to 5 mean "no answer".
Guarantees the order of the table, a reason for every choice, and the title of every question that has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Cells, IntArray
from thurbo.table.columns.column import Column, Role
from thurbo.table.columns.ignore import Ignore
from thurbo.table.columns.values import listing, spellings
from thurbo.table.guess.layouts import questions
from thurbo.table.guess.one_column import guess
from thurbo.table.guess.words import folded, in_words
from thurbo.table.io.codebook import ColumnGroup, Note, whole

_SAMPLE = 400  # rows compared first
_FEWEST = 20  # fewest rows of both, and fewest disagreements that independent answers would have


def derived(columns: Mapping[str, Cells]) -> Iterator[tuple[str, str, bool]]:
    """(column, the column that it follows from, whether they are the same), at most one source for each column."""
    codes, values = _codes(columns)
    names = list(codes)
    if len(names) < 2:
        return
    table = np.column_stack([codes[name] for name in names])
    rows = np.random.default_rng(0).permutation(len(table))[:_SAMPLE]
    sample, n_values = table[rows], table.max(axis=0) + 1
    done: set[str] = set()
    for source in np.argsort(-n_values, kind="stable"):  # fine answers first: age before its bands
        if names[source] in done or n_values[source] < 2:
            continue
        order = np.argsort(sample[:, source], kind="stable")
        same = (sample[order][1:, source] == sample[order][:-1, source]) & (sample[order][1:, source] >= 0)
        one, two = sample[order][1:][same], sample[order][:-1][same]
        breaks = ((one != two) & (one >= 0) & (two >= 0)).any(axis=0)
        for place in np.flatnonzero(~breaks & (n_values >= 2) & (n_values <= n_values[source])):
            name = names[place]
            if place == source or name in done or not _follows(table[:, source], table[:, place]):
                continue
            is_copy = values[name] == values[names[source]] and np.array_equal(table[:, source], table[:, place])
            if n_values[place] == n_values[source] and place < source:
                continue  # of two columns that determine each other, the later one follows
            done.add(name)
            yield name, names[source], is_copy


def _codes(columns: Mapping[str, Cells]) -> tuple[dict[str, IntArray], dict[str, list[str]]]:
    """Answers of each column as codes in the order of their texts, −1 if missing, and the texts."""
    codes, values = {}, {}
    for name, cells in columns.items():
        try:
            distinct, which = cells.factorise()
        except (SchemaError, TypeError):
            continue
        if len(distinct) < 2 or len(distinct) > len(cells) / 2:
            continue
        texts = [str(value) for value in distinct]
        place = np.empty(len(distinct) + 1, np.int32)
        place[np.argsort(texts, kind="stable")] = np.arange(len(distinct))
        place[-1] = -1
        codes[name], values[name] = place[which], sorted(texts)
    return codes, values


def _follows(source: IntArray, target: IntArray) -> bool:
    """Whether each value of `source` goes with one value of `target`, and that is not by chance."""
    both = (source >= 0) & (target >= 0)
    if both.sum() < _FEWEST:
        return False
    one, two = source[both].astype(np.int64), target[both].astype(np.int64)
    pairs = np.unique(one * (two.max() + 1) + two)
    if len(pairs) > len(np.unique(one)):
        return False
    shares = np.bincount(two) / len(two)
    expected = (len(one) - len(pairs)) * (1 - float((shares**2).sum()))
    return expected >= _FEWEST


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
    ends = {name: (list(_below(each)), list(_above(each))) for name, each in columns.items()}
    found: dict[str, dict[float, str]] = {name: {} for name in columns}
    for name, sides in ends.items():
        for side in sides:
            if strong := next((end for end in side if end.is_strong), None):
                found[name] |= dict.fromkeys(strong.codes, "far from the other values")
    shared = Counter(code for codes in found.values() for code in codes)
    for name, sides in ends.items():
        for side in sides:
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


class Inferred(NamedTuple):
    """Type, reason and title of each question, by name."""

    columns: dict[str, Column]
    reasons: dict[str, str]
    titles: dict[str, str]


def infer(
    names: Sequence[str],
    read: Callable[[str], Cells],
    is_array: bool,
    notes: Mapping[str, Note],
    groups: Sequence[ColumnGroup],
    declared: Mapping[Any, str],
) -> Inferred:
    """Detect the type of each column from its cells, from the code book of its file and from codes declared missing."""
    notes = {name: _told(notes.get(name, Note()), declared) for name in names}
    prepared: dict[str, Cells] = {}
    for name in () if is_array else names:
        cells = read(name)
        prepared[name] = Ignore(missing=_of_kind(declared, cells)).answered(cells)
    numbers = {}
    for name, cells in prepared.items():
        has_book = notes[name].names or notes[name].missing or cells.ordered_levels is not None
        if cells.values.dtype.kind in "iuf" and not cells.missing.all() and not has_book:
            values, n_rows = np.unique(cells.values[~cells.missing], return_counts=True)
            numbers[name] = dict(zip(values.tolist(), n_rows.tolist(), strict=True))
    codes = isolated(numbers)

    def cells_of(name: str) -> Cells:
        return prepared[name] if name in prepared else read(name)

    together = questions(names, cells_of, notes, groups)
    first = {question.members[0]: question for question in together.questions}
    inside = {member for question in together.questions for member in question.members}
    found = Inferred({}, {}, {})
    for name in names:
        if name in first:
            question = first[name]
            found.columns[question.name], found.reasons[question.name] = (
                _with(question.column, declared),
                question.reason,
            )
            found.titles[question.name] = question.title
        elif name in together.apart:
            found.columns[name], found.reasons[name] = Ignore("it is no answer"), together.apart[name]
            found.titles[name] = notes[name].title
        elif name not in inside:
            cells = cells_of(name)
            column, reason = _guessed(cells, is_array, notes[name], codes.get(name, {}))
            found.columns[name], found.reasons[name] = _with(column, _of_kind(declared, cells)), reason
            found.titles[name] = notes[name].title
    _once(found, "id", "a second row identifier")
    _once(found, "weight", "a second column of weights")
    if is_array:
        return found
    alone = {
        name: column.answered(cells_of(name))
        for name, column in found.columns.items()
        if column.role == "answer" and column.source_columns(name) == (name,) and not column.is_listed
    }
    for name, source, is_copy in derived(alone):
        what = f'has the same answers as "{source}"' if is_copy else f'follows from "{source}"'
        found.reasons[name] += f"; a guess: {what}, use Ignore() to leave it out"
    return found


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


def _with(column: Column, missing: Mapping[Any, str]) -> Column:
    """A modelled column with more codes declared missing."""
    own: Any = column.missing
    extra = {code: text for code, text in missing.items() if code not in dict(own) and code not in column.labels}
    return replace(column, missing=(*own, *extra.items())) if extra and column.role == "answer" else column


def _guessed(cells: Cells, is_array: bool, note: Note, codes: Mapping[float, str]) -> tuple[Column, str]:
    """The type of one column, without isolated codes, and with answers of several spellings as one."""
    if codes:
        gone = {whole(code): str(whole(code)) for code in codes}
        column, reason = guess(Ignore(missing=gone).answered(cells), is_array, note)
        if column.role == "answer":
            why = listing(dict.fromkeys(codes.values()), " and ")
            return _with(column, gone), f"{reason}; a guess: counted as missing: {listing(gone)}, {why}"
    if is_array or cells.values.dtype.kind not in "OTU" or note.names or cells.ordered_levels is not None:
        return guess(cells, is_array, note)
    try:
        distinct, which = cells.factorise()
    except SchemaError:  # lists, which `guess` reads
        return guess(cells, is_array, note)
    recode = folded(distinct, np.bincount(which[which >= 0], minlength=len(distinct)).tolist())
    if not recode:
        return guess(cells, is_array, note)
    column, reason = guess(Ignore(recode=recode).recoded(cells), is_array, note)
    used = {text: to for text, to in recode.items() if not column.labels or to in column.labels}
    if column.role != "answer" or column.kind not in _FOLDED or not used:
        return column, reason
    return replace(column, recode=used), f"{reason}{in_words(used)}"


_FOLDED = ("binary", "ordinal", "categorical", "banded")


def _once(found: Inferred, role: Role, reason: str) -> None:
    """Keep the first column of a role that a table can have only once."""
    names = [name for name, column in found.columns.items() if column.role == role]
    for name in names[1:]:
        found.columns[name] = Ignore(reason)
        found.reasons[name] += f'; "{names[0]}" is already {type(found.columns[names[0]]).__name__}()'
