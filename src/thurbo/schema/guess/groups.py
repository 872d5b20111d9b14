"""Detect questions that consist of several columns: options, mentions, ranks and places.

Idea: the file declares a group, or titles count "1st response", "2nd response"; the cells must agree with it.
Guarantees one question per group, and no group if the cells do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns.cells import BoolArray, Cells, listing
from thurbo.columns.column import Column
from thurbo.columns.multiselect import MultiSelect
from thurbo.columns.ranking import Ranking
from thurbo.io.notes import Group, Note, whole
from thurbo.schema.guess.coded import MOST_CODES, sort_codes
from thurbo.schema.guess.headings import named_groups


class Question(NamedTuple):
    """A question that consists of several columns, with the reason."""

    name: str
    column: Column
    reason: str
    title: str
    members: tuple[str, ...]


def questions(
    names: Collection[str], read: Callable[[str], Cells], notes: Mapping[str, Note], groups: Sequence[Group]
) -> list[Question]:
    """Questions that consist of several columns; a column belongs to at most one of them."""
    found: list[Question] = []
    taken: set[str] = set()
    for group in (*groups, *_places(notes), *named_groups(list(names), read)):
        members = tuple(column for column, _ in group.members)
        if taken & set(members) or not all(member in names for member in members):
            continue
        made = _made(group, {member: read(member) for member in members}, notes)
        if made is not None:
            # The name must be new: a table column with the name of the question would replace its members.
            used = {*names, *(question.name for question in found)}
            name = next(each for each in _names(group.name) if each not in used)
            found.append(Question(name, made[0], made[1], group.title, members))
            taken |= set(members)
    return found


def _names(name: str) -> Iterator[str]:
    """The name, then alternatives if it is already used."""
    yield name
    yield from (f"{name} ({number})" for number in count(2))


def _made(group: Group, parts: Mapping[str, Cells], notes: Mapping[str, Note]) -> tuple[Column, str] | None:
    if group.kind == "ticks":
        columns = {option: column for column, option in group.members}
        missing = _missing(parts, notes)
        column = MultiSelect(columns=columns, ticked=group.ticked, missing=missing)
        return column, f"the file's multiple response set of {len(columns)} columns"
    if group.kind == "mentions":
        items, names, missing = _items(parts, notes)
        if len(items) < 2 or len(items) > MOST_CODES:
            return None
        column = MultiSelect(tuple(items), mentions=tuple(parts), names=names, missing=missing)
        return column, f"the file's multiple response set: up to {len(parts)} mentions of {len(items)} options"
    return _ranked(parts, notes) if group.kind == "places" else _grid(group, parts)


def _grid(group: Group, parts: Mapping[str, Cells]) -> tuple[Column, str] | None:
    """Columns under one heading: ranks if places differ within each row, options if each column has one text."""
    distinct = {name: part.factorise()[0] for name, part in parts.items()}
    options = {option: column for column, option in group.members}
    heading = f"a guess: {len(parts)} columns under one heading"
    if len(parts) == 1:
        reason = "a guess: the only option of its question, so blank counts as not selected, even if it was not asked"
        return MultiSelect(columns=options, blank="unticked"), reason
    if all(len(values) == 1 and isinstance(values[0], str) for values in distinct.values()):
        return MultiSelect(columns=options), f"{heading}, each with a single text"
    if _SELECT.search(group.name.casefold()) and all(_are_ticks(values) for values in distinct.values()):
        return MultiSelect(columns=options), f"{heading} that says to select, each yes or no"
    places = range(1, len(parts) + 1)
    if all(value in places for values in distinct.values() for value in values) and any(distinct.values()):
        ranks = np.column_stack([np.where(part.missing, np.nan, _numbers(part)) for part in parts.values()])
        if not _twice(ranks).any() and np.nanmax(ranks) > 2:
            return Ranking(ranks=options), f"{heading}, with different ranks in each row"
    return None


_SELECT = re.compile(r"\b(select|check|tick|mark|choose)\b.*\b(all|any|many)\b|\ball that apply\b")


def _are_ticks(values: list[Any]) -> bool:
    """Whether the values are 0 and 1, or yes and no."""
    return len(values) > 0 and all(
        str(whole(value)).casefold() in ("0", "1", "yes", "no", "true", "false") for value in values
    )


def _numbers(part: Cells) -> Any:
    numbers = np.full(len(part), np.nan)
    numbers[~part.missing] = part.values[~part.missing].astype(np.float64)
    return numbers


def _twice(table: Any) -> BoolArray:
    """Which rows contain a number twice: [row]."""
    found: BoolArray = (np.diff(np.sort(table, axis=1), axis=1) == 0).any(axis=1)
    return found


_MOST_TWICE = 0.05  # share of rows that name an item twice
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_PLACE = re.compile(r"\b(\d)(?:st|nd|rd|th)\b|\b(first|second|third|fourth|fifth)\b", re.IGNORECASE)


def _places(notes: Mapping[str, Note]) -> Iterator[Group]:
    """Columns whose titles differ only in "1st", "2nd", "3rd", and whose value labels are the same."""
    runs: dict[tuple[str, Any], list[tuple[int, str]]] = {}
    for name, note in notes.items():
        marks = list(_PLACE.finditer(note.title))
        if len(marks) == 1 and len(note.names) > 2:
            mark = marks[0]
            place = int(mark[1]) if mark[1] else _ORDINALS[mark[2].casefold()]
            rest = f"{note.title[: mark.start()]}…{note.title[mark.end() :]}"
            # The question number may change too: "Q56pt1.", "Q56pt2."
            stem = re.sub(r"^\w+[.:)]\s*", "", rest).casefold()
            runs.setdefault((stem, frozenset(text for _, text in note.names)), []).append((place, name))
    for members in runs.values():
        members.sort()
        if len(members) > 1 and [place for place, _ in members] == list(range(1, len(members) + 1)):
            names = [name for _, name in members]
            stem = _beginning(names).rstrip(" _.-")
            pairs = tuple((name, str(place)) for place, name in members)
            yield Group(stem or "places", "places", pairs, title=notes[names[0]].title)


def _beginning(names: list[str]) -> str:
    """The longest common prefix of the names."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike)


def _ranked(parts: Mapping[str, Cells], notes: Mapping[str, Note]) -> tuple[Column, str] | None:
    items, names, missing = _items(parts, notes)
    if not 2 < len(items) <= MOST_CODES:
        return None
    place = {item: float(index) for index, item in enumerate(items)}
    table = np.full((len(next(iter(parts.values()))), len(parts)), np.nan)
    for position, part in enumerate(parts.values()):
        distinct, which = part.factorise()
        codes = np.asarray([*(place.get(whole(value), np.nan) for value in distinct), np.nan])
        table[:, position] = codes[which]
    twice = float(_twice(table).mean())
    if twice > _MOST_TWICE:
        column: Column = MultiSelect(tuple(items), mentions=tuple(parts), names=names, missing=missing)
        return (
            column,
            f"a guess: {listing(parts)} hold mentions of {len(items)} options, often the same one twice in a row",
        )
    # An item that is named twice in a row gets its better place; Ranking does that with unseen="missing".
    unseen: Any = "missing" if twice else "error"
    column = Ranking(tuple(items), places=tuple(parts), names=names, missing=missing, unseen=unseen)
    reason = f"a guess: {listing(parts)} hold the places, from first to last, of {len(items)} items"
    return column, f"{reason}; an item named twice in a row counts once" if twice else reason


def _items(parts: Mapping[str, Cells], notes: Mapping[str, Note]) -> tuple[list[Any], dict[Any, str], dict[Any, str]]:
    """Options that occur in any of the columns, their labels, and the missing codes."""
    items: dict[Any, None] = {}
    names: dict[Any, str] = {}
    missing: dict[Any, str] = {}
    for name, part in parts.items():
        found = sort_codes(part.factorise()[0], notes.get(name, Note()))
        items |= dict.fromkeys(found.answers)
        names |= found.named
        missing |= found.missing
    ordered = sorted((item for item in items if item not in missing), key=lambda item: (isinstance(item, str), item))
    return ordered, {item: names[item] for item in ordered if names.get(item)}, missing


def _missing(parts: Mapping[str, Cells], notes: Mapping[str, Note]) -> dict[Any, str]:
    found: dict[Any, str] = {}
    for name, part in parts.items():
        found |= sort_codes(part.factorise()[0], notes.get(name, Note())).missing
    return found
