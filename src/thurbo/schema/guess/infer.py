"""All columns of a table taken for what they look like: questions of several columns first, then each by itself.

Idea: groups claim their columns, guesses take the rest, and roles that a table has once are given once.
Promises the order of the table, a reason for every choice, and the title of every question whose file has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from thurbo.columns.cells import Cells
from thurbo.columns.column import Column
from thurbo.columns.ignore import Id, Ignore, Weight
from thurbo.io.notes import Group, Note
from thurbo.schema.guess.groups import questions
from thurbo.schema.guess.guess import guess


class Inferred(NamedTuple):
    """Columns by name, why each was taken for what it is, and what it is about."""

    columns: dict[str, Column]
    reasons: dict[str, str]
    titles: dict[str, str]


def infer(
    names: Sequence[str],
    read: Callable[[str], Cells],
    is_array: bool,
    notes: Mapping[str, Note],
    groups: Sequence[Group],
) -> Inferred:
    """What each column of a table is, by its cells and by what its file says of it."""
    together = questions(names, read, notes, groups)
    first = {question.members[0]: question for question in together}
    inside = {member for question in together for member in question.members}
    found = Inferred({}, {}, {})
    for name in names:
        if name in first:
            question = first[name]
            found.columns[question.name], found.reasons[question.name] = question.column, question.reason
            found.titles[question.name] = question.title
        elif name not in inside:
            note = notes.get(name, Note())
            found.columns[name], found.reasons[name] = guess(read(name), is_array, note)
            found.titles[name] = note.title
    _once(found, Id, "another name of rows")
    _once(found, Weight, "another weight")
    return found


def _once(found: Inferred, kind: type[Column], reason: str) -> None:
    """Rows have one name and one weight: of several the first stays."""
    names = [name for name, column in found.columns.items() if isinstance(column, kind)]
    for name in names[1:]:
        found.columns[name] = Ignore(reason)
        found.reasons[name] += f'; "{names[0]}" is {kind.__name__}() already'
