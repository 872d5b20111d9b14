"""Questions spread over columns whose names begin alike: "Pies - Apple", "Pies - Cherry"; choice1, choice2.

Idea: neighbouring names are split into a heading and the rest; the cells decide what the group is.
Ticks: each column holds one text. Ranks: each row has different ranks. Places: items from first to last, which
repeat in a row much less than by chance. Guarantees no group if the cells do not show one of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, groupby
from typing import NamedTuple

import numpy as np

from thurbo.columns.binary import is_word
from thurbo.columns.cells import Cells, IntArray
from thurbo.io.notes import Group, whole

_FEWEST_ROWS = 20
_MOST_ITEMS = 100
_BY_CHANCE = 0.2  # most repeated items, relative to independent columns
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = re.compile(
    rf"\b(\d+)(?:st|nd|rd|th)\b|\b({'|'.join(_ORDINALS)})\b|(?<![a-z0-9])({'|'.join(_ORDINALS)})(?=_)", re.I
)
_SPLITS = (
    re.compile(r"^(?P<head>.*\S)\s+[-\u2013\u2014]\s+(?P<rest>\S.*)$", re.DOTALL),
    re.compile(r"^(?P<head>.*\S)\s*\[(?P<rest>.+)\](?: \(\d+\))?$", re.DOTALL),
    re.compile(r"^(?P<head>.*\S):\s+(?P<rest>\S.*)$", re.DOTALL),
    re.compile(r"^(?P<head>.*[^\d_.\- ])[_.\- ]?(?P<rest>\d+)$", re.DOTALL),
    re.compile(r"^(?P<head>[^_]+)_(?P<rest>.+)$", re.DOTALL),
)


class _Part(NamedTuple):
    name: str
    head: str
    rest: str
    place: int | None  # of a numbered name


def named_groups(names: Sequence[str], read: Callable[[str], Cells]) -> Iterator[Group]:
    """Groups of neighbouring columns whose names begin alike, and whose cells belong together."""
    for split in (_ordinal, *(lambda name, pattern=pattern: _split(name, pattern) for pattern in _SPLITS)):
        for head, run in groupby((split(name) for name in names), key=lambda part: part.head):
            parts = list(run)
            if head:
                yield from _group(head, parts, [read(part.name) for part in parts])


def _split(name: str, pattern: re.Pattern[str]) -> _Part:
    match = pattern.match(name)
    if not match:
        return _Part(name, "", "", None)
    rest = match["rest"]
    return _Part(name, " ".join(match["head"].split()), rest.strip(), int(rest) if rest.isdigit() else None)


def _ordinal(name: str) -> _Part:
    marks = list(_ORDINAL.finditer(name))
    if len(marks) != 1:
        return _Part(name, "", "", None)
    mark = marks[0]
    word = (mark[2] or mark[3] or "").casefold()
    place = int(mark[1]) if mark[1] else _ORDINALS.index(word) + 1
    rest = " ".join(f"{name[: mark.start()]} {name[mark.end() :]}".replace("_", " ").split())
    return _Part(name, rest or "places", str(place), place)


def _group(head: str, parts: list[_Part], cells: list[Cells]) -> Iterator[Group]:
    ticks = [(part, text) for part, each in zip(parts, cells, strict=True) if (text := _only_text(each)) is not None]
    alike = [(part, text) for part, text in ticks if _plain(part.rest) == _plain(text)]
    chosen = ticks if len(ticks) > 1 and len({text for _, text in ticks}) == len(ticks) else alike
    if chosen:
        members = tuple((part.name, text) for part, text in chosen)
        yield Group(head, "grid", members, title=head)
        return
    if len(parts) < 2 or len({part.rest for part in parts}) < len(parts) or len(cells[0]) < _FEWEST_ROWS:
        return
    members = tuple((part.name, part.rest) for part in parts)
    numbered = [part.place for part in parts] == list(range(1, len(parts) + 1))
    table, n_items = _items(cells)
    if len(parts) > 1 and "apply" in head.casefold():
        yield Group(head, "grid", members, title=head)  # options as 0 and 1, if the cells agree
    elif len(parts) > 2 and (not numbered or "rank" in head.casefold()) and _are_numbers(cells):
        yield Group(head, "grid", members, title=head)  # ranks, if the cells agree
    elif numbered and 2 < n_items <= _MOST_ITEMS and _are_places(table, n_items):
        yield Group(head, "places", members, title=head)


def _only_text(cells: Cells) -> str | None:
    """The only value of a column that is ticked by a text."""
    if cells.values.dtype.kind not in "OTU" or not cells.missing.any():
        return None
    values = cells.values[~cells.missing].tolist()
    if not all(isinstance(value, str) for value in values):  # lists and decimals look like a text, and are none
        return None
    found = set(values)
    text = found.pop().strip() if len(found) == 1 else ""
    return text if text and not is_word(text) else None


def _plain(text: str) -> str:
    return re.sub(r" \(\d+\)$", "", " ".join(text.casefold().split()))


def _are_numbers(cells: Sequence[Cells]) -> bool:
    return all(each.values.dtype.kind in "iuf" for each in cells)


def _items(cells: Sequence[Cells]) -> tuple[IntArray, int]:
    """Codes of the items in all columns: [row, column], −1 if missing; and the number of items."""
    known: dict[object, int] = {}
    table = np.full((len(cells[0]), len(cells)), -1, np.int32)
    for place, each in enumerate(cells):
        if each.values.dtype.kind == "O" and not all(
            isinstance(v, (str, int, float)) for v in each.values[~each.missing]
        ):
            return table, 0
        distinct, which = each.factorise()
        codes = [known.setdefault(whole(value), len(known)) for value in distinct]
        table[:, place] = np.asarray([*codes, -1], np.int32)[which]
    return table, len(known)


def _are_places(table: IntArray, n_items: int) -> bool:
    """Whether items repeat within a row much less than by chance, and the columns share their items."""
    expected = repeated = 0.0
    for one, two in combinations(table.T, 2):
        both = (one >= 0) & (two >= 0)
        if not both.any():
            continue
        shares = [np.bincount(each[both], minlength=n_items) / both.sum() for each in (one, two)]
        expected += float(both.sum() * (shares[0] * shares[1]).sum())
        repeated += float((one == two)[both].sum())
    return expected >= _FEWEST_ROWS / 2 and repeated <= _BY_CHANCE * expected
