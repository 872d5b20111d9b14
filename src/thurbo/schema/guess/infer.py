"""Detect the type of every column of a table: questions of several columns first, then the other columns.

Idea: groups of columns are found first, then each remaining column by itself; at most one Id and one Weight.
Guarantees the order of the table, a reason for every choice, and the title of every question that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from thurbo.columns.cells import Cells
from thurbo.columns.column import Column, Role
from thurbo.columns.ignore import Ignore
from thurbo.io.notes import Group, Note
from thurbo.schema.guess.groups import questions
from thurbo.schema.guess.guess import guess


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
) -> Inferred:
    """Detect the type of each column from its cells and from the code book of its file."""
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
    _once(found, "id", "a second row identifier")
    _once(found, "weight", "a second column of weights")
    return found


def _once(found: Inferred, role: Role, reason: str) -> None:
    """Keep the first column of a role that a table can have only once."""
    names = [name for name, column in found.columns.items() if column.role == role]
    for name in names[1:]:
        found.columns[name] = Ignore(reason)
        found.reasons[name] += f'; "{names[0]}" is already {type(found.columns[names[0]]).__name__}()'
