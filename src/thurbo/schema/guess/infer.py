"""Detect the type of every column of a table: questions of several columns first, then the other columns.

Idea: groups of columns are found first, then each remaining column by itself; at most one Id and one Weight.
Guarantees the order of the table, a reason for every choice, and the title of every question that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns.cells import Cells, listing
from thurbo.columns.column import Column, Role, spellings
from thurbo.columns.ignore import Ignore
from thurbo.errors import SchemaError
from thurbo.io.notes import Group, Note, whole
from thurbo.schema.guess.derived import derived
from thurbo.schema.guess.groups import questions
from thurbo.schema.guess.guess import guess
from thurbo.schema.guess.isolated import Values, isolated
from thurbo.schema.guess.spelling import folded, in_words


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
    groups: Sequence[Group],
    missing: Mapping[Any, str] | None = None,
) -> Inferred:
    """Detect the type of each column from its cells, from the code book of its file and from codes declared missing."""
    declared = missing or {}
    notes = {name: _told(notes.get(name, Note()), declared) for name in names}
    prepared = {name: _declared(read(name), declared) for name in names} if not is_array else {}
    codes = isolated({name: Values.of(cells) for name, cells in prepared.items() if _is_bare(cells, notes[name])})

    def cells_of(name: str) -> Cells:
        return prepared[name] if name in prepared else read(name)

    together = questions(names, cells_of, notes, groups)
    first = {question.members[0]: question for question in together}
    inside = {member for question in together for member in question.members}
    found = Inferred({}, {}, {})
    for name in names:
        if name in first:
            question = first[name]
            extra = {code: text for code, text in declared.items() if code not in question.column.labels}
            found.columns[question.name], found.reasons[question.name] = _with(question.column, extra), question.reason
            found.titles[question.name] = question.title
        elif name not in inside:
            cells = cells_of(name)
            column, reason = _guessed(cells, is_array, notes[name], codes.get(name, {}))
            found.columns[name], found.reasons[name] = _with(column, _of_kind(declared, cells)), reason
            found.titles[name] = notes[name].title
    _once(found, "id", "a second row identifier")
    _once(found, "weight", "a second column of weights")
    if not is_array:
        _mark_derived(found, cells_of)
    return found


def _told(note: Note, declared: Mapping[Any, str]) -> Note:
    """A code book entry with the codes that are declared missing for the whole file."""
    if not declared or not (note.names or note.missing or note.measure):
        return note
    codes = [number for code in declared for number in spellings(code)]
    return replace(note, missing=(*note.missing, *((code, code) for code in codes if not note.is_missing(code))))


def _declared(cells: Cells, declared: Mapping[Any, str]) -> Cells:
    """The cells without codes that are declared missing for the whole file."""
    return Ignore(missing=_of_kind(declared, cells)).answered(cells) if declared else cells


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


def _is_bare(cells: Cells, note: Note) -> bool:
    """Whether a column holds numbers without a code book."""
    is_number = cells.values.dtype.kind in "iuf" and not cells.missing.all()
    return is_number and cells.ordered_levels is None and not (note.names or note.missing)


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


def _mark_derived(found: Inferred, cells_of: Callable[[str], Cells]) -> None:
    """Say which columns repeat another one, or follow from it."""
    alone = {
        name: column.answered(cells_of(name))
        for name, column in found.columns.items()
        if column.role == "answer" and column.source_columns(name) == (name,) and not column.is_listed
    }
    for name, source, is_copy in derived(alone):
        what = f'has the same answers as "{source}"' if is_copy else f'follows from "{source}"'
        found.reasons[name] += f"; a guess: {what}, use Ignore() to leave it out"


def _once(found: Inferred, role: Role, reason: str) -> None:
    """Keep the first column of a role that a table can have only once."""
    names = [name for name, column in found.columns.items() if column.role == role]
    for name in names[1:]:
        found.columns[name] = Ignore(reason)
        found.reasons[name] += f'; "{names[0]}" is already {type(found.columns[names[0]]).__name__}()'
