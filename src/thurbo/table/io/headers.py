"""Header rows of survey tools: the name and title of each column, and which columns are under one heading.

Idea: a table has one row of names, and a second or third row where that row is unlike answers: options below their
question (SurveyMonkey), question texts below codes, import identifiers (Qualtrics), or only the word "Response".
Guarantees a unique name for every column, and a warning where a name was changed.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from thurbo.errors import SchemaWarning
from thurbo.table.columns.values import is_number_text
from thurbo.table.io.codebook import Codebook, ColumnGroup, Note

_MOST_TOLD = 3  # changed names in one warning
_ANSWER = re.compile(r"(open.ended )?(response|answer)s?", re.IGNORECASE)
_MOMENT = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*")
_MOST_SENTENCES, _FEWEST_NUMBERS = 0.3, 0.2  # share of cells in a row of answers


class Header(NamedTuple):
    """Names of the columns, number of header rows, and titles and groups of columns."""

    names: list[str]
    n_rows: int
    book: Codebook


def read_header(rows: Sequence[list[str]], path: str) -> Header:
    """The header in the first rows of a table, each as stripped texts."""
    first, second, third = (*rows[:3], [], [])[:3]
    names, n_rows, book = [name or f"column {place}" for place, name in enumerate(first, 1)], 1, Codebook()
    above = _once(first)
    if third and sum(cell.startswith('{"ImportId"') for cell in third) > len(third) // 2:  # Qualtrics
        notes = {name: Note(title=title) for name, title in zip(first, second, strict=False) if title != name}
        n_rows, book = 3, Codebook(notes)
    elif _is_second_header(above, second, third):
        names, n_rows, book = _two_rows(above, second)
    elif _says_response(first, second, third):
        n_rows = 2  # it only says "Response" below each name
    elif _are_titles(first, second, third):
        n_rows, book = 2, Codebook({name: Note(title=title) for name, title in zip(first, second, strict=True)})
    return Header(_unique(names, first, path), n_rows, book)


def _once(first: list[str]) -> list[str]:
    """The first row with a question that is repeated over its columns written once, as in merged cells."""
    return [name if not place or name != first[place - 1] else "" for place, name in enumerate(first)]


def _says_response(first: list[str], second: list[str], third: list[str]) -> bool:
    said = [cell for cell in second if cell]
    is_row = len(second) == len(first) > 1 and bool(said) and all(map(_ANSWER.fullmatch, said))
    return is_row and (len(said) >= len(first) / 2 or (not second[0] and bool(third and third[0])))


def _are_titles(first: list[str], second: list[str], third: list[str]) -> bool:
    """Whether the second row has the text of each question below its code: q1, then "How old are you?"."""
    is_table = 1 < len(first) == len(second) == len(third)
    if not is_table or len(set(second)) < len(second) or any(" " in name for name in first) or not all(second):
        return False
    below, rows = (sum(len(cell.split()) >= 3 for cell in row) / len(row) for row in (second, third))
    if below >= 0.8 and rows <= _MOST_SENTENCES:
        return True
    numbers = [sum(map(_is_amount, row)) / len(row) for row in (second, third)]
    return below >= 0.4 and rows <= _MOST_SENTENCES and numbers[0] == 0 and numbers[1] >= _FEWEST_NUMBERS


def _is_amount(text: str) -> bool:
    return is_number_text(text) or _MOMENT.fullmatch(text) is not None


def _is_second_header(first: list[str], second: list[str], third: list[str]) -> bool:
    """Whether the second row is a header too: options below their question, as SurveyMonkey writes them."""
    if not first[0] or len(second) != len(first) or all(first):
        return False
    if not all(below for name, below in zip(first, second, strict=True) if not name):
        return False
    # A row of answers would contain numbers, and would not contain the word "Response".
    says_response = any(_ANSWER.fullmatch(below) for below in second)
    blank_below = not second[0] and bool(third and third[0])
    return (says_response or blank_below) and not any(map(is_number_text, second))


def _two_rows(first: list[str], second: list[str]) -> Header:
    """Column names from questions and the options below them; the options of one question are a group.

    The name is the option if it is unique in the table, else "question: option"; the title is the question.
    """
    heads: list[tuple[str, str]] = []
    question = ""
    for place, (above, below) in enumerate(zip(first, second, strict=True)):
        question = " ".join(above.split()) or question
        alone = above and (place + 1 == len(first) or bool(first[place + 1]))
        heads.append((question, "" if alone or _ANSWER.fullmatch(below) else " ".join(below.split())))
    times = Counter(option or question for question, option in heads)
    names, notes = [], {}
    grids: dict[str, list[tuple[str, str]]] = {}
    for question, option in heads:
        names.append(question if not option else option if times[option] == 1 else f"{question}: {option}")
        if option:
            grids.setdefault(question, []).append((names[-1], option))
            notes[names[-1]] = Note(title=question)
    groups = tuple(ColumnGroup(name, "grid", tuple(members)) for name, members in grids.items() if len(members) > 1)
    return Header(names, 2, Codebook(notes, groups))


def _unique(names: list[str], header: list[str], path: str) -> list[str]:
    """Column names with a number behind the second, third, ... of one name; warns about these and about empty names."""
    found: list[str] = []
    called = enumerate(zip(names, header, strict=False), 1)
    unnamed = [(place, name) for place, (name, above) in called if not above and name == f"column {place}"]
    changed = [f'column {place} has no name and is called "{name}"' for place, name in unnamed]
    for name in names:
        free, number = name, 1
        while free in found or (number > 1 and free in names):
            number += 1
            free = f"{name} ({number})"
        if number > 1:
            short = name if len(name) <= 60 else f"{name[:28]}...{name[-28:]}"
            changed.append(f'a further column "{short}" is called "... ({number})"')
        found.append(free)
    if changed:
        more = f"; and {len(changed) - _MOST_TOLD} more" if len(changed) > _MOST_TOLD else ""
        message = f'names of "{path}" were changed: {"; ".join(changed[:_MOST_TOLD])}{more}'
        warnings.warn(message, SchemaWarning, stacklevel=7)  # where tb.read was called
    return found
