"""Values of cells: as plain labels, as keys, and in messages.

A label is text, a number or a boolean that can be written to a file. Messages show values briefly and suggest known
names. A column that cannot read a value refuses it with a reason and a remedy, before its row is known.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    is_number = isinstance(value, str) and is_number_text(value) and np.isfinite(float(value))
    return (value, float(value)) if is_number else (value,)


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


_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def listed(text: str, sep: str) -> list[str]:
    """The entries of a list in a text; a separator inside brackets belongs to its entry: "R (e.g. a, b), C"."""
    entries = text.split(sep)
    if len(entries) > 1 and not _BRACKETS.keys().isdisjoint(text):
        joined, depth = [""], 0
        for entry in entries:
            joined[-1] += entry if depth == 0 else sep + entry
            depth += sum(_BRACKETS.get(sign, 0) for sign in entry)
            if depth < 0:
                break
            if depth == 0:
                joined.append("")
        entries = joined[:-1] if depth == 0 else entries
    return [each for entry in entries if (each := entry.strip())]


class Refused(Exception):
    """The reason why a column cannot read a value, before its row is known."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


class Contradiction(Refused):
    """A value that contradicts itself: an error even if unknown values are treated as missing."""


def is_number_text(text: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def blanked(values: NDArray[Any], where: NDArray[np.bool_]) -> NDArray[Any]:
    """A copy of cells with some of them empty: NaN among numbers, None among others."""
    if not where.any():
        return values
    if values.dtype.kind in "iuf":
        return np.where(where, np.nan, values.astype(np.float64))
    found = values.astype(object)
    found[where] = None
    return found


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


_OPPOSITE = {"ja": "nein", "oui": "non", "s\u00ed": "no", "s\u00ec": "no", "si": "no", "sim": "n\u00e3o"}
_OPPOSITE |= {"yes": "no", "true": "false", "y": "n", "t": "f", "1": "0", "selected": "not selected"}
_OPPOSITE |= {"checked": "unchecked", "ticked": "not ticked", "chosen": "not chosen", "mentioned": "not mentioned"}
_AFFIRMATIVE = frozenset(_OPPOSITE)
_OPPOSITE |= {negative: positive for positive, negative in _OPPOSITE.items()}
_OPPOSITE |= {"nee": "ja", "nej": "ja", "nei": "ja"}
_OPPOSITE |= {"unselected": "selected", "not checked": "checked", "unticked": "ticked"}
_NEGATED = re.compile(
    r"(?:no|not|non|never|none|nothing|without|(?:do|does|did|has|have|is)(?:n't| not))\b", re.IGNORECASE
)


def is_word(value: str) -> bool:
    """Whether a text is a usual word for yes or no."""
    return value.casefold() in _OPPOSITE


def is_affirmative(value: Any) -> bool:
    """Whether a value is a usual way to write yes."""
    return value.casefold() in _AFFIRMATIVE if isinstance(value, str) else value == 1


def is_negative(value: Any) -> bool:
    """Whether a value is a usual way to write no, such as "Not selected" or 0."""
    return is_word(value) and not is_affirmative(value) if isinstance(value, str) else value == 0


def false_and_true(distinct: list[Any], true: Any) -> tuple[Any, Any]:
    """The two values in order; if only one was seen, with its opposite."""
    if not distinct:
        distinct = [False if true is None else _opposite(true)]
    if len(distinct) == 1:
        only, other = distinct[0], _opposite(distinct[0])
        if true is None:
            true = other if is_affirmative(other) else only
        distinct = [only, other if true in (only, other) else true]
    first, second = distinct
    if true is None:
        affirmed, denied = ([value for value in distinct if test(value)] for test in (is_affirmative, is_negative))
        negated = [value for value in distinct if isinstance(value, str) and _NEGATED.match(value)]
        if len(negated) == 1 and not affirmed:
            true = second if negated[0] == first else first
        elif len(affirmed) != 1 and len(denied) == 1:
            true = second if denied[0] == first else first
        else:
            true = max(affirmed[:1] or distinct, key=lambda value: (isinstance(value, str), value))
    return (second, first) if first == true else (first, second)


def _opposite(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        word = _OPPOSITE.get(value.casefold())
        if word is None:
            return f"not {value}"
        return word.upper() if value.isupper() else word.capitalize() if value[:1].isupper() else word
    return type(value)(value == 0)
