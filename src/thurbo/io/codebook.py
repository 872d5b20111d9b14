"""The code book of a file: what it says about its columns beside their cells, kept with the frame.

Idea: one text under one key of `frame.attrs`; text survives copies, slices and parquet, and costs nothing to copy.
Promises that what `read` found is what `write` puts back, and that a frame without a book is as good as any.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from thurbo.io.notes import Group, Note

KEY = "thurbo"


@dataclass(frozen=True)
class Codebook:
    """Notes on columns by name, groups of columns that answer one question, and the title of the whole file."""

    notes: Mapping[str, Note] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    title: str = ""
    remarks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.notes or self.groups or self.title or self.remarks)

    def note(self, name: str) -> Note:
        """What is said about a column; nothing where the file said nothing."""
        return self.notes.get(name, _NOTHING)

    def only(self, names: Iterable[str]) -> Codebook:
        """The book of a table that holds these columns: what was dropped from a frame is dropped here."""
        kept = set(names)
        groups = tuple(group for group in self.groups if all(column in kept for column, _ in group.members))
        return Codebook({k: v for k, v in self.notes.items() if k in kept}, groups, self.title, self.remarks)

    def to_text(self) -> str:
        """The book as JSON; what is not said takes no room."""
        state = {
            "notes": {name: _said(note) for name, note in self.notes.items() if note != _NOTHING},
            "groups": [_said(group) for group in self.groups],
            "title": self.title,
            "remarks": list(self.remarks),
        }
        return json.dumps({key: value for key, value in state.items() if value}, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: Any) -> Codebook:
        """Rebuild what `to_text` wrote; anything else is an empty book, since attrs belong to the user."""
        try:
            state = json.loads(text)
            notes = {str(name): Note(**_tuples(said)) for name, said in state.get("notes", {}).items()}
            groups = tuple(Group(**_tuples(said)) for said in state.get("groups", []))
            return cls(notes, groups, str(state.get("title", "")), tuple(map(str, state.get("remarks", []))))
        except (TypeError, ValueError, AttributeError):
            return cls()

    @classmethod
    def of(cls, frame: Any) -> Codebook:
        """The book that came with a frame, for the columns it still has."""
        attrs = getattr(frame, "attrs", None)
        if not isinstance(attrs, Mapping) or KEY not in attrs:
            return cls()
        return cls.from_text(attrs[KEY]).only(map(str, frame.columns))


_NOTHING = Note()


def _said(entry: Any) -> dict[str, Any]:
    defaults = {item.name: item.default for item in fields(entry)}
    return {name: value for name, value in asdict(entry).items() if value != defaults[name]}


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(entry) for key, entry in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
