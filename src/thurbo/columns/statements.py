"""§3, Eq. (5) in the user's words: statements that may stand in any cell and in any query.

Idea: a statement says less than a value does: an interval, one of some labels, a set on top, an order of some items.
Promises immutable, hashable values; which statements make sense is for each column to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from thurbo.columns.cells import Cells, collection, is_label, listing, plain, show, suggestion
from thurbo.errors import InfeasibleEvidence, SchemaError

if TYPE_CHECKING:
    from thurbo.columns.column import Column


@dataclass(frozen=True)
class Statement:
    """Something a cell can say beside a value."""


@dataclass(frozen=True)
class Interval(Statement):
    """lower ≤ value ≤ upper; None where it is open."""

    lower: Any = None
    upper: Any = None

    def __str__(self) -> str:
        if self.upper is None:
            return f"at_least({self.lower})"
        return f"at_most({self.upper})" if self.lower is None else f"between({self.lower}, {self.upper})"


@dataclass(frozen=True)
class OneOf(Statement):
    """The value is one of these."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"one_of({listing(self.values)})"


@dataclass(frozen=True)
class TopSet(Statement):
    """Each of these is above all others (§3.2, imprecise categorical)."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"top_set({listing(self.values)})"


@dataclass(frozen=True)
class Order(Statement):
    """Items from best to worst, tied ones together; nothing is said about any other item."""

    tiers: tuple[tuple[Any, ...], ...]

    def __str__(self) -> str:
        return " > ".join(" = ".join(map(str, tier)) for tier in self.tiers)


def between(lower: Any, upper: Any) -> Interval:
    """lower ≤ value ≤ upper, both ends included: numbers, or levels of an Ordinal column."""
    lower, upper = _end(lower, "between"), _end(upper, "between")
    numbers = all(isinstance(end, (int, float)) for end in (lower, upper))
    if numbers and lower > upper:
        remedy = f"write between({upper}, {lower})"
        raise SchemaError(f"between({lower}, {upper}) has its ends the wrong way round", remedy=remedy)
    return Interval(lower, upper)


def at_least(value: Any) -> Interval:
    """value or more: right-censored there."""
    return Interval(lower=_end(value, "at_least"))


def at_most(value: Any) -> Interval:
    """value or less: left-censored there."""
    return Interval(upper=_end(value, "at_most"))


def one_of(*values: Any) -> OneOf:
    """The answer is one of these values."""
    return OneOf(_values(values, "one_of"))


def top_set(*values: Any) -> TopSet:
    """All of these are above all others."""
    return TopSet(_values(values, "top_set"))


def prefers(better: Any, worse: Any) -> Order:
    """One item is above another."""
    better, worse = plain(better), plain(worse)
    if better == worse:
        raise SchemaError(f"prefers({show(better)}, {show(worse)}) names one item twice", remedy="name two items")
    return Order(((better,), (worse,)))


def _end(value: Any, name: str) -> Any:
    value = plain(value)
    if not is_label(value):
        problem = f"{name}() of {show(value)} has no end"
        raise SchemaError(problem, remedy="give a finite number or a level; at_least and at_most leave one end open")
    return value


def _values(values: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if len(values) == 1 and collection(values[0]) is not None:
        values = collection(values[0]) or ()
    found = tuple(dict.fromkeys(map(plain, values)))
    if not found:
        raise SchemaError(f"{name}() names nothing", remedy="name at least one value, or leave the cell empty")
    return found


def split(cells: Cells) -> tuple[Cells, dict[int, Statement]]:
    """Cells without those that hold a statement (they count as missing), and the statements by position."""
    if cells.values.dtype.kind != "O":
        return cells, {}
    listed = zip(cells.values.tolist(), cells.missing.tolist(), strict=True)
    found = {place: value for place, (value, gone) in enumerate(listed) if isinstance(value, Statement) and not gone}
    if not found:
        return cells, {}
    missing = cells.missing.copy()
    missing[list(found)] = True
    return replace(cells, missing=missing), found


def parse_order(text: str) -> Order:
    """ "a > b = c > d" as an order, best first; items may hold neither ">" nor "="."""
    return Order(tuple(tuple(item.strip() for item in tier.split("=")) for tier in text.split(">")))


# The first of these in a text ends the name of the column.
_OPERATOR = re.compile(r"\s*(?P<sign>:|>=|<=|≥|≤|=|\bin\b(?=\s*\[))\s*")


def parse_given(text: str, schema: Mapping[str, Column] | None = None) -> tuple[str, Any]:
    """A condition from the command line as (column, what its cell says).

    "income in [20000, 40000]", "age >= 30", "party = Green | Red", "films: A > B"; after a colon anything that a
    text cell of the column could hold. A schema tells which names and labels there are, whatever signs are in them.
    """
    names = sorted((name for name in schema or () if text.strip().startswith(name)), key=len, reverse=True)
    for name in names:
        match = _OPERATOR.match(text.strip(), len(name))
        if match:
            return name, _cell(match["sign"], text.strip()[match.end() :], text, _spelt(schema[name]) if schema else {})
    match = _OPERATOR.search(text.strip())
    if match is None or match.start() == 0:
        remedy = "write for instance 'age >= 30', 'income in [20000, 40000]', 'party = Green | Red' or 'films: A > B'"
        raise SchemaError(f"the condition {show(text)} is not understood", remedy=remedy)
    name = text.strip()[: match.start()]
    if schema is not None:
        remedy = f"{suggestion(name, schema)}the columns are {listing(schema)}"
        raise SchemaError(f"the condition {show(text)} is about no known column", column=name, remedy=remedy)
    return name, _cell(match["sign"], text.strip()[match.end() :], text, {})


def parse_conditions(texts: Iterable[str], schema: Mapping[str, Column] | None = None) -> dict[str, Any]:
    """Conditions that hold together, as {column: what its cell says}; several about one column become one."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, cell = parse_given(text, schema)
        found.setdefault(name, []).append(cell)
    return {name: cells[0] if len(cells) == 1 else _together(name, cells) for name, cells in found.items()}


def _together(name: str, cells: list[Any]) -> Any:
    """Orders side by side; an end on the left with one on the right; numbers narrowed."""
    if all(isinstance(cell, Order) for cell in cells):
        return cells
    if all(isinstance(cell, Interval) for cell in cells):
        low = [cell.lower for cell in cells if cell.lower is not None]
        high = [cell.upper for cell in cells if cell.upper is not None]
        numbers = all(isinstance(end, (int, float)) for end in low + high)
        if numbers or (len(low) < 2 and len(high) < 2):
            lower, upper = (max(low) if low else None), (min(high) if high else None)
            if lower is None or upper is None:
                return Interval(lower, upper)
            if numbers and lower > upper:
                words = " and ".join(map(str, cells))
                raise InfeasibleEvidence(
                    f"no value satisfies all of: {words}", column=name, remedy="leave one of them out"
                )
            return between(lower, upper)
    raise SchemaError(
        f"the conditions {' and '.join(map(show, map(str, cells)))} do not go together",
        column=name,
        remedy="give one condition for each column",
    )


def _spelt(column: Column) -> dict[str, Any]:
    """How each label may be written in a condition: as it stands, and by its name where that means no other."""
    spelt = {text: column.labels[place] for text, place in getattr(column, "lookup", dict)().items()}
    spelt |= {str(label).casefold(): label for label in column.labels if isinstance(label, bool)}
    return spelt | {str(label): label for label in column.labels}


def _cell(sign: str, rest: str, text: str, spelt: Mapping[str, Any]) -> Any:
    def value(word: str) -> Any:
        return _value(word, spelt)

    if not rest.strip():
        raise SchemaError(f"the condition {show(text)} ends too soon", remedy=f"say what follows {sign}")
    if sign in ":=" and rest.strip() in spelt:  # whatever signs are in it
        return value(rest)
    if sign == ":":
        if ">" not in rest:
            return value(rest)
        return Order(tuple(tuple(map(value, tier)) for tier in parse_order(rest).tiers))
    if sign == "=":
        words = [word for word in rest.split("|") if word.strip()]
        return value(rest) if len(words) == 1 else one_of(*map(value, words))
    if sign in (">=", "≥"):
        return at_least(value(rest))
    if sign in ("<=", "≤"):
        return at_most(value(rest))
    ends = rest.strip()[1:-1].split(",")
    if not rest.strip().endswith("]") or len(ends) != 2 or not any(end.strip() for end in ends):
        remedy = "write for instance 'income in [20000, 40000]'; one end may be left empty"
        raise SchemaError(f"the condition {show(text)} names no interval", remedy=remedy)
    if not ends[0].strip():
        return at_most(value(ends[1]))
    return between(value(ends[0]), value(ends[1])) if ends[1].strip() else at_least(value(ends[0]))


def _value(word: str, spelt: Mapping[str, Any]) -> Any:
    """A label that reads so, else the number or text that the word is."""
    word = word.strip()
    for known in (word, word.casefold()):
        if known in spelt and (known == word or isinstance(spelt[known], bool)):
            return spelt[known]
    for number in (int, float):
        try:
            found = number(word)
        except ValueError:
            continue
        return found if np.isfinite(found) else word
    return word.strip("\"'")
