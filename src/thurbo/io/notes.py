"""What a file says about a column beside its cells: title, names of codes, codes that count as missing, measure.

Idea: statistical packages keep a code book; inference reads it, and writing puts it back.
Promises plain immutable values, and that a code is found under its number whether it came as 1 or 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Measure = Literal["nominal", "ordinal", "scale", ""]
Range = tuple[Any, Any]  # from, to; the same value twice for a single code


@dataclass(frozen=True)
class Note:
    """The entry of one column in the code book of its file."""

    title: str = ""
    measure: Measure = ""
    names: tuple[tuple[Any, str], ...] = ()  # (code, text), in the file's order
    missing: tuple[Range, ...] = ()  # codes, or ranges of codes, that the file declares missing
    format: str = ""  # as the package writes it: "F2.0", "EDATE10", "%9.0g"
    width: int | None = None  # of the column on the package's screen

    @property
    def texts(self) -> dict[Any, str]:
        """Text of each code that has one."""
        return dict(self.names)

    def is_missing(self, code: Any) -> bool:
        """Whether the file declares a code missing."""
        return any(_within(code, low, high) for low, high in self.missing)

    @property
    def has_room(self) -> bool:
        """Whether the file could have declared one more code missing: packages hold three, or a range and one."""
        return len(self.missing) < (2 if any(low != high for low, high in self.missing) else 3)


@dataclass(frozen=True)
class Group:
    """Columns of a file that answer one question together.

    "ticks": each column is an option, ticked where it holds `ticked`; "mentions": each column holds one of the options
    named; "places": likewise, the most important first; "grid": columns under one heading, and the cells tell the rest.
    """

    name: str
    kind: Literal["ticks", "mentions", "places", "grid"]
    members: tuple[tuple[str, str], ...]  # (column, what it stands for: an option, a place)
    ticked: Any = None
    title: str = ""


def whole(code: Any) -> Any:
    """A code as people write it: files hold every number as a float, so 1.0 is 1."""
    return int(code) if isinstance(code, float) and code.is_integer() else code


def coded(pairs: Iterable[tuple[Any, str]]) -> tuple[tuple[Any, str], ...]:
    """Codes and texts, with whole numbers as such and texts trimmed."""
    return tuple((whole(code), str(text).strip()) for code, text in pairs)


def _within(code: Any, low: Any, high: Any) -> bool:
    if isinstance(code, str) or isinstance(low, str) or isinstance(high, str):
        return bool(code == low)
    return bool(low <= code <= high)
