"""The input of a column: cells in the user's own values, and how error messages show them.

`Cells` is one column of a table, or several columns that hold the answer to one question (`parts`). A cell may hold a
list or a set; `frozen` makes such values hashable, so that equal cells are read once. This module uses NumPy only.
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
    """A label as a Python bool, int, float or str; text is stripped, any other object is unchanged."""
    if isinstance(value, str):
        return str(value).strip()
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        # The shortest decimal that rounds to it, so that a float32 0.1 equals the level 0.1.
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def is_label(value: Any) -> bool:
    """Whether a value can be a label: text, a finite number or a boolean, all of which can be written to a file."""
    return isinstance(value, (bool, int, str)) or (isinstance(value, float) and bool(np.isfinite(value)))


def spellings(value: Any) -> tuple[Any, ...]:
    """A value and, if it is text that can be read as a number, that number."""
    try:
        return (value, float(value)) if isinstance(value, str) and np.isfinite(float(value)) else (value,)
    except ValueError:
        return (value,)


def show(value: Any) -> str:
    """A value as messages print it: text in quotes, long values shortened."""
    text = f'"{value}"' if isinstance(value, str) else str(plain(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def listing(values: Iterable[Any], separator: str = ", ", most: int = 12) -> str:
    """Labels as text for messages and tables; if there are many, the middle is omitted."""
    words = [str(value) for value in values]
    if len(words) > most:
        words = [*words[: most // 2], "...", *words[-(most // 3) :]]
    return separator.join(words)


def suggestion(value: object, known: Iterable[object]) -> str:
    """The start of a remedy that suggests the nearest known name; empty if no name is near."""
    known, value = list(known), plain(value)
    same = next((name for name in known if str(name) == str(value)), None)
    if same is not None and isinstance(same, str) != isinstance(value, str):
        kinds = ("number", "text") if isinstance(value, str) else ("text", "number")
        return f"did you mean the {kinds[0]} {show(same)} instead of the {kinds[1]} {show(value)}? "
    if not isinstance(value, str):  # a number near another number is no slip of the pen
        return ""
    names = {name.casefold(): name for name in map(str, known)}
    near = difflib.get_close_matches(str(value).casefold(), names, n=1)
    return f'did you mean "{names[near[0]]}"? ' if near else ""


def collection(value: Any) -> tuple[Any, ...] | None:
    """The members of a list, tuple, set or array; None if the value is not a collection."""
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
    """The reason why a column cannot read a value, before its row is known."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


class Contradiction(Refused):
    """A value that contradicts itself: an error even if unknown values are treated as missing."""


class Listed(NamedTuple):
    """Lists of items with scores, row after row: those of row r are the entries start[r] to start[r + 1]."""

    start: NDArray[np.int64]  # [row + 1]
    items: NDArray[Any]  # the distinct items
    which: NDArray[Any]  # [entry] number of its item
    score: NDArray[Any]  # [entry] numbers
    scores: str | None = None  # name of the column of scores in the long table, if any
    ordered: bool = False  # only the order of scores within a row is used

    def take(self, rows: NDArray[Any], *, used: bool = False) -> Listed:
        """The lists of some rows; with `used`, without items that none of them lists."""
        length = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(length)])
        entry = np.repeat(self.start[:-1][rows] - start[:-1], length) + np.arange(start[-1])
        which, items = self.which[entry], self.items
        if used:
            kept, which = np.unique(which, return_inverse=True)
            items = items[kept]
        return self._replace(start=start, items=items, which=which, score=self.score[entry])


@dataclass(frozen=True)
class Cells:
    """One column of a table: its values, which of them are missing, and the labels of the rows.

    If several columns of the table hold the answer to one question, they are its `parts`, by their own names; columns
    that the table does not have are omitted. `values` then holds the cells under the question's own name, if any.
    """

    name: str
    values: NDArray[Any]  # [row]; values of missing cells are not read
    missing: BoolArray  # [row]
    rows: NDArray[Any]  # [row] labels for error messages
    ordered_levels: tuple[Any, ...] | None = None  # the frame's own order: ordered categorical, Enum
    parts: Mapping[str, Cells] = field(default_factory=dict)
    listed: Listed | None = None  # lists of items, where the table holds them as such

    def __len__(self) -> int:
        return len(self.missing)

    def take(self, rows: NDArray[Any]) -> Cells:
        """The cells of some rows, which may repeat; lists keep only items that occur in them."""
        parts = {name: part.take(rows) for name, part in self.parts.items()}
        listed = None if self.listed is None else self.listed.take(rows, used=True)
        own = self.values[rows], self.missing[rows], self.rows[rows]
        return Cells(self.name, *own, self.ordered_levels, parts, listed)

    def counted(self, weight: FloatArray | None) -> tuple[Cells, FloatArray | None]:
        """The cells of positive weight and their weights, None if all are one: [row]."""
        if weight is None or np.all(weight == 1.0):
            return self, None
        counts = np.flatnonzero(weight > 0)
        return (self, weight) if len(counts) == len(weight) else (self.take(counts), weight[counts])

    def error(self, position: int, problem: str, remedy: str) -> SchemaError:
        """The error for one cell, which names its row and column."""
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
        """Distinct values as plain Python values, and the index of each row's value (−1 if missing)."""
        observed = np.flatnonzero(~self.missing)
        present = self.values[observed]
        code = np.full(len(self), -1, np.int32)
        if present.dtype.kind == "b":
            # No sort: black-and-white images have many columns of booleans.
            found = [value for value in (False, True) if np.any(present == value)]
            code[observed] = present if len(found) == 2 else 0
            return found, code
        if present.dtype.kind in "iuf":
            numbers, inverse = np.unique(present, return_inverse=True)
            code[observed] = inverse
            is_short = numbers.dtype.kind == "f" and numbers.dtype.itemsize < 8
            return [plain(number) for number in numbers] if is_short else numbers.tolist(), code
        # One dictionary look-up per cell, in the interpreter's C loops; 1, 1.0 and True are one key.
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
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_numbers(cells: Cells) -> tuple[FloatArray, BoolArray]:
    """Cells as floats, NaN if missing, and which observed cells cannot be read as a number."""
    numbers = np.full(len(cells), np.nan)
    refused = np.zeros(len(cells), bool)
    observed = ~cells.missing
    present = cells.values[observed]
    if present.dtype.kind in "mMcV":
        return numbers, observed.copy()
    try:
        numbers[observed] = present.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        # Cells are read one by one only if the column has a cell that is not a number.
        for position in np.flatnonzero(observed):
            try:
                numbers[position] = float(cells.values[position])
            except (TypeError, ValueError, OverflowError):
                refused[position] = True
    return numbers, refused


def natural(labels: tuple[Any, ...], codes: NDArray[Any]) -> NDArray[Any]:
    """Labels of codes in their natural dtype; a negative code is missing: None, or NaN among numbers."""
    codes = np.asarray(codes)
    missing = codes < 0
    if all(isinstance(label, bool) for label in labels) and not missing.any():
        dtype: Any = np.bool_
    elif all(isinstance(label, int) and not isinstance(label, bool) for label in labels):
        dtype = np.float64 if missing.any() else np.int64
    elif all(isinstance(label, float) for label in labels):
        dtype = np.float64
    else:
        dtype = object
    table = np.empty(len(labels) + 1, dtype)
    table[:-1] = labels
    table[-1] = None if dtype is object else np.nan if dtype is np.float64 else False
    return table[np.where(missing, -1, codes)]
