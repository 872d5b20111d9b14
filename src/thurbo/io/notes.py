"""Entries of a code book: title, value labels, missing codes and measurement level of a column.

Idea: SPSS and Stata store a code book; schema inference reads it, and `write` stores it again.
Guarantees plain immutable values, and that codes 1 and 1.0 are the same code.
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
    names: tuple[tuple[Any, str], ...] = ()  # value labels: (code, text), in the order of the file
    missing: tuple[Range, ...] = ()  # user-missing codes, or ranges of codes
    format: str = ""  # display format: "F2.0", "EDATE10", "%9.0g"
    width: int | None = None  # display width

    @property
    def texts(self) -> dict[Any, str]:
        """Value label of each code that has one."""
        return dict(self.names)

    def is_missing(self, code: Any) -> bool:
        """Whether the file declares this code as missing."""
        return any(_within(code, low, high) for low, high in self.missing)

    @property
    def has_room(self) -> bool:
        """Whether SPSS could declare one more code as missing: the limit is three codes, or a range and one code."""
        return len(self.missing) < (2 if any(low != high for low, high in self.missing) else 3)


@dataclass(frozen=True)
class Group:
    """Columns of a file that belong to one question.

    "ticks": each column is an option, selected where the cell equals `ticked`. "mentions": each column holds one of the
    selected options. "places": the same, the most important first. "grid": columns under one heading; their type
    depends on the cells.
    """

    name: str
    kind: Literal["ticks", "mentions", "places", "grid"]
    members: tuple[tuple[str, str], ...]  # (column, its option or place)
    ticked: Any = None
    title: str = ""


def whole(code: Any) -> Any:
    """A code as an integer if it is whole, because SPSS and Stata store all numbers as floats."""
    return int(code) if isinstance(code, float) and code.is_integer() else code


def coded(pairs: Iterable[tuple[Any, str]]) -> tuple[tuple[Any, str], ...]:
    """Value labels with whole codes as integers and without surrounding spaces."""
    return tuple((whole(code), str(text).strip()) for code, text in pairs)


def _within(code: Any, low: Any, high: Any) -> bool:
    if isinstance(code, str) or isinstance(low, str) or isinstance(high, str):
        return bool(code == low)
    return bool(low <= code <= high)
