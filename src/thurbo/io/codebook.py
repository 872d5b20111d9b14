"""The code book of a file: titles, value labels, missing codes and response sets, kept with the frame.

Idea: JSON text under one key of `frame.attrs`; text survives copies, slices and parquet, and is cheap to copy.
Guarantees that `write` stores what `read` found, and that frames without a code book work too.
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
    """Notes on columns by name, groups of columns that belong to one question, and the title of the file."""

    notes: Mapping[str, Note] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    title: str = ""
    remarks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.notes or self.groups or self.title or self.remarks)

    def note(self, name: str) -> Note:
        """The note on a column; an empty note if the file has none."""
        return self.notes.get(name, _EMPTY)

    def only(self, names: Iterable[str]) -> Codebook:
        """The code book of these columns only."""
        kept = set(names)
        groups = tuple(group for group in self.groups if all(column in kept for column, _ in group.members))
        return Codebook({k: v for k, v in self.notes.items() if k in kept}, groups, self.title, self.remarks)

    def to_text(self) -> str:
        """The code book as JSON, without empty fields."""
        state = {
            "notes": {name: _filled(note) for name, note in self.notes.items() if note != _EMPTY},
            "groups": [_filled(group) for group in self.groups],
            "title": self.title,
            "remarks": list(self.remarks),
        }
        return json.dumps({key: value for key, value in state.items() if value}, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: Any) -> Codebook:
        """The code book that `to_text` wrote; empty for any other value, because attrs may hold anything."""
        try:
            state = json.loads(text)
            notes = {str(name): Note(**_tuples(entry)) for name, entry in state.get("notes", {}).items()}
            groups = tuple(Group(**_tuples(entry)) for entry in state.get("groups", []))
            return cls(notes, groups, str(state.get("title", "")), tuple(map(str, state.get("remarks", []))))
        except (TypeError, ValueError, AttributeError):
            return cls()

    @classmethod
    def of(cls, frame: Any) -> Codebook:
        """The code book in the attrs of a frame, for the columns that the frame still has."""
        attrs = getattr(frame, "attrs", None)
        if not isinstance(attrs, Mapping) or KEY not in attrs:
            return cls()
        return cls.from_text(attrs[KEY]).only(map(str, frame.columns))


_EMPTY = Note()


def _filled(entry: Any) -> dict[str, Any]:
    defaults = {item.name: item.default for item in fields(entry)}
    return {name: value for name, value in asdict(entry).items() if value != defaults[name]}


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(entry) for key, entry in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
