"""Names of variables that SPSS and Stata allow, for columns of any name, and back.

Idea: signs that a format does not allow become underscores, and the label of the variable keeps the original name.
Guarantees that names are unique (in SPSS also without regard to case), that valid names do not change, and that a
.sav file that was written here gives back the original names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thurbo.io.codebook import Codebook

_RENAMED = "Renamed: "  # a remark in the file: this variable has its original name as its label
_LONGEST_LABEL = 255  # bytes
_RESERVED = frozenset(["ALL", "AND", "BY", "EQ", "GE", "GT", "LE", "LT", "NE", "NOT", "OR", "TO", "WITH"])


def valid_names(names: Sequence[str], suffix: str) -> list[str]:
    """Unique names that the format of this extension allows; those that are valid stay as they are."""
    key = str if suffix == ".dta" else str.casefold
    found: dict[int, str] = {}
    taken: set[str] = set()
    for place, name in enumerate(names):
        if fitting(name, suffix) == name and key(name) not in taken:
            found[place] = name
            taken.add(key(name))
    for place, name in enumerate(names):
        if place not in found:
            found[place] = _unique(fitting(name, suffix), taken, key, suffix)
            taken.add(key(found[place]))
    return [found[place] for place in range(len(names))]


def fitting(name: str, suffix: str) -> str:
    """The name itself if the format allows it, otherwise a similar one."""
    first, other = (r"[^\W\d]", r"\w") if suffix == ".dta" else (r"[^\W\d_]", r"[\w.$#@]")
    if re.fullmatch(f"{first}{other}*", name) and name.upper() not in _reserved(suffix) and _fits(name, suffix):
        return name
    found = re.sub(f"(?:(?!{other}).)+", "_", name, flags=re.DOTALL).strip("_")
    if not re.match(first, found):
        found = f"v{found}" if found else "column"
    if found.upper() in _reserved(suffix):
        found += "_"
    return _shortened(found, "", suffix)


def _reserved(suffix: str) -> frozenset[str]:
    return frozenset() if suffix == ".dta" else _RESERVED


def _fits(name: str, suffix: str) -> bool:
    return len(name) <= 32 if suffix == ".dta" else len(name.encode("utf-8", "replace")) <= 64


def _shortened(name: str, ending: str, suffix: str) -> str:
    while not _fits(name + ending, suffix):
        name = name[:-1]
    return name + ending


def _unique(name: str, taken: set[str], key: Any, suffix: str) -> str:
    found, number = name, 2
    while key(found) in taken:
        found, number = _shortened(name, f"_{number}", suffix), number + 1
    return found


def renamed(frame: Any, book: Codebook, suffix: str) -> tuple[Any, Codebook]:
    """A frame and its code book with names that the format allows; a column without a title keeps its name as one."""
    old = [str(name) for name in frame.columns]
    change = {was: now for was, now in zip(old, valid_names(old, suffix), strict=True) if was != now}
    if not change:
        return frame, book
    frame = frame.set_axis([change.get(name, name) for name in old], axis=1)
    notes, remarks = dict(book.notes), list(book.remarks)
    for was, now in change.items():
        note = book.note(was)
        if not note.title:
            notes[was] = replace(note, title=_label(was))
            remarks += [f"{_RENAMED}{now}"] if _label(was) == was else []
    return frame, _with_names(Codebook(notes, book.groups, book.title, tuple(remarks)), change)


def _label(name: str) -> str:
    """The name as a label, which may not be too long."""
    return name.encode("utf-8", "replace")[:_LONGEST_LABEL].decode("utf-8", "ignore")


def restored(frame: Any, book: Codebook) -> tuple[Any, Codebook]:
    """A frame and its code book with the original names of the variables that `renamed` changed."""
    names = [remark.removeprefix(_RENAMED) for remark in book.remarks if remark.startswith(_RENAMED)]
    change = {now: book.note(now).title for now in names if now in frame.columns and book.note(now).title}
    whole = [change.get(name, name) for name in frame.columns]
    if not change or len(set(whole)) < len(whole):
        return frame, book
    notes = {name: replace(note, title="") if name in change else note for name, note in book.notes.items()}
    remarks = tuple(remark for remark in book.remarks if remark.removeprefix(_RENAMED) not in change)
    return frame.set_axis(whole, axis=1), _with_names(Codebook(notes, book.groups, book.title, remarks), change)


def _with_names(book: Codebook, change: Mapping[str, str]) -> Codebook:
    notes = {change.get(name, name): note for name, note in book.notes.items()}
    groups = tuple(
        replace(group, members=tuple((change.get(column, column), option) for column, option in group.members))
        for group in book.groups
    )
    return replace(book, notes=notes, groups=groups)
