"""What a column reads: cells in the user's own terms, and the words that messages use for them.

`Cells` is one column of a table, or several that answer one question together (`parts`). A cell may hold a list or a
set; `frozen` makes such values hashable, so that equal cells are read once. NumPy only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def plain(value: Any) -> Any:
    """The Python bool, int, float or str behind a label; text is trimmed, any other object stays itself."""
    if isinstance(value, str):
        return str(value).strip()
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        # The shortest decimal that rounds to it, so that a float32 0.1 still is the level 0.1.
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def is_label(value: Any) -> bool:
    """Whether a value can be a label: text, a finite number or a boolean, which a file can hold."""
    return isinstance(value, (bool, int, str)) or (isinstance(value, float) and bool(np.isfinite(value)))


def show(value: Any) -> str:
    """A value as messages print it: text in quotes, and nothing too long to read."""
    text = f'"{value}"' if isinstance(value, str) else str(plain(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def listing(values: Iterable[Any], separator: str = ", ", most: int = 12) -> str:
    """Labels in a row for messages and tables, the middle left out where there are many."""
    words = [str(value) for value in values]
    if len(words) > most:
        words = [*words[: most // 2], "...", *words[-(most // 3) :]]
    return separator.join(words)


def suggestion(value: object, known: Iterable[object]) -> str:
    """A remedy that begins with the nearest known name, or nothing where none is near."""
    names = {str(name).casefold(): str(name) for name in known}
    near = difflib.get_close_matches(str(value).casefold(), names, n=1)
    return f'did you mean "{names[near[0]]}"? ' if near else ""


def collection(value: Any) -> tuple[Any, ...] | None:
    """The members of a list, tuple, set or array; None where the value is no collection."""
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(value, key=lambda member: (isinstance(member, str), str(member))))
    if isinstance(value, np.ndarray):
        return tuple(value.tolist()) if value.ndim else None
    return tuple(value) if isinstance(value, (list, tuple)) else None


def frozen(value: Any) -> Any:
    """A cell as a hashable value: collections as tuples of plain values, a mapping as the frozenset of its items."""
    if isinstance(value, Mapping):
        return frozenset((plain(key), plain(entry)) for key, entry in value.items())
    members = collection(value)
    return plain(value) if members is None else tuple(map(frozen, members))


class Refused(Exception):
    """A value that a column cannot read, before its row is known."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


class Contradiction(Refused):
    """A value that says what cannot be: refused even where unseen values count as missing."""


class Listed(NamedTuple):
    """Lists of items with scores, row after row: those of row r are the entries start[r] to start[r + 1]."""

    start: NDArray[np.int64]  # [row + 1]
    items: NDArray[Any]  # the distinct items
    which: NDArray[Any]  # [entry] number of its item
    score: NDArray[Any]  # [entry] numbers
    scores: str | None = None  # what the long table calls its scores, if it has any
    ordered: bool = False  # scores are made up, and only their order within a row counts


@dataclass(frozen=True)
class Cells:
    """One column of a table: values in the user's terms, which are missing, and how rows are called.

    Where several columns of the table answer one question, they are its `parts`, by their own names; those that the
    table lacks are left out. `values` then hold what stands under the question's own name, if anything does.
    """

    name: str
    values: NDArray[Any]  # [row]; what stands in a missing cell is never read
    missing: BoolArray  # [row]
    rows: NDArray[Any]  # [row] labels for error messages
    ordered_levels: tuple[Any, ...] | None = None  # the frame's own order: ordered categorical, Enum
    parts: Mapping[str, Cells] = field(default_factory=dict)
    listed: Listed | None = None  # lists of items, where the table holds them as such

    def __len__(self) -> int:
        return len(self.missing)

    def error(self, position: int, problem: str, remedy: str) -> SchemaError:
        """The error of one cell, with its row and column named."""
        return SchemaError(problem, row=self.rows[position], column=self.name, remedy=remedy)

    def hashable(self) -> Cells:
        """The same cells with lists, sets and mappings frozen, so that they can be factorised."""
        if self.values.dtype.kind != "O":
            return self
        listed = self.values.tolist()
        if not any(
            issubclass(each, (list, tuple, set, frozenset, np.ndarray, Mapping)) for each in set(map(type, listed))
        ):
            return self
        known: dict[Any, Any] = {}  # equal lists are frozen once

        def freeze(value: Any) -> Any:
            if not isinstance(value, (list, tuple)):
                return frozen(value)
            try:
                key = tuple(value)
                return known[key] if key in known else known.setdefault(key, frozen(value))
            except TypeError:  # lists of lists have no hash of their own
                return frozen(value)

        values = np.empty(len(self), object)
        for place, (value, gone) in enumerate(zip(listed, self.missing.tolist(), strict=True)):
            values[place] = None if gone else freeze(value)
        return replace(self, values=values)

    def factorise(self) -> tuple[list[Any], IntArray]:
        """Distinct values as plain Python ones, and which of them each row holds (−1 where missing)."""
        observed = np.flatnonzero(~self.missing)
        present = self.values[observed]
        code = np.full(len(self), -1, np.int32)
        if present.dtype.kind == "b":
            # Without a sort: black-and-white images are many columns of booleans.
            found = [value for value in (False, True) if np.any(present == value)]
            code[observed] = present if len(found) == 2 else 0
            return found, code
        if present.dtype.kind in "iuf":
            numbers, inverse = np.unique(present, return_inverse=True)
            code[observed] = inverse
            is_short = numbers.dtype.kind == "f" and numbers.dtype.itemsize < 8
            return [plain(number) for number in numbers] if is_short else numbers.tolist(), code
        # One dictionary look-up per cell, all inside the interpreter's C loops; 1, 1.0 and True are one key.
        listed = present.tolist()
        try:
            index = {value: place for place, value in enumerate(dict.fromkeys(listed))}
        except TypeError:
            position = next(i for i in observed if not _is_hashable(self.values[i]))
            problem = f"{show(self.values[position])} is a collection, not one value"
            raise self.error(int(position), problem, "give the column one value per cell, or Ignore it") from None
        merged: dict[Any, int] = {}
        place = [merged.setdefault(plain(value), len(merged)) for value in index]
        code[observed] = np.asarray(place, np.int32)[np.fromiter(map(index.__getitem__, listed), np.intp, len(listed))]
        return list(merged), code


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def is_number_text(text: str) -> bool:
    """Whether a text spells a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_numbers(cells: Cells) -> tuple[FloatArray, BoolArray]:
    """Cells as floats, NaN where there is none, and which observed cells cannot be read as a number."""
    numbers = np.full(len(cells), np.nan)
    refused = np.zeros(len(cells), bool)
    observed = ~cells.missing
    present = cells.values[observed]
    if present.dtype.kind in "mMcV":
        return numbers, observed.copy()
    try:
        numbers[observed] = present.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        # Only a column that holds something unreadable is read cell by cell.
        for position in np.flatnonzero(observed):
            try:
                numbers[position] = float(cells.values[position])
            except (TypeError, ValueError, OverflowError):
                refused[position] = True
    return numbers, refused
