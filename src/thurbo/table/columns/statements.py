"""§3, Eq. (5): statements that may be used instead of a value, in any cell of a table or of `given`.

A statement gives less information than a value: an interval, one of several labels, a set above all others, or an
order of some items. Statements are immutable and hashable; each column defines which statements it accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from thurbo.errors import InfeasibleEvidence, SchemaError
from thurbo.table.columns.cells import Cells
from thurbo.table.columns.values import collection, is_label, listing, plain, show, suggestion

if TYPE_CHECKING:
    from thurbo.table.columns.column import Column


@dataclass(frozen=True)
class Statement:
    """Partial information about a cell, used instead of a value."""


@dataclass(frozen=True)
class Interval(Statement):
    """lower ≤ value ≤ upper; None for an open end."""

    lower: Any = None
    upper: Any = None

    def __str__(self) -> str:
        if self.upper is None:
            return f"at_least({self.lower})"
        return f"at_most({self.upper})" if self.lower is None else f"between({self.lower}, {self.upper})"


@dataclass(frozen=True)
class OneOfStatement(Statement):
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
class OrderStatement(Statement):
    """Items from best to worst, tied items together; other items are not compared."""

    tiers: tuple[tuple[Any, ...], ...]

    def __str__(self) -> str:
        return " > ".join(" = ".join(map(str, tier)) for tier in self.tiers)


def between(lower: Any, upper: Any) -> Interval:
    """lower ≤ value ≤ upper, both ends included.

    Parameters
    ----------
    lower, upper : number or label
        The two ends: numbers, or labels of a column with ordered labels.

    Returns
    -------
    Interval
        A value for a cell of a table or of `given`.

    Examples
    --------
    >>> schema = tb.Schema({"age": tb.Continuous()}).fit({"age": [20, 50, tb.between(30, 40)]})
    >>> print(tb.between(30, 40))
    between(30, 40)
    """
    lower, upper = _end(lower, "between"), _end(upper, "between")
    numbers = all(isinstance(end, (int, float)) for end in (lower, upper))
    if numbers and lower > upper:
        remedy = f"write between({upper}, {lower})"
        raise SchemaError(f"between({lower}, {upper}) has its ends in the wrong order", remedy=remedy)
    return Interval(lower, upper)


def at_least(value: Any) -> Interval:
    """value ≤ answer: the answer is at least `value` (right-censored).

    Parameters
    ----------
    value : number or label
        The lower end, included: a number, or a label of a column with ordered labels.

    Returns
    -------
    Interval
        A value for a cell of a table or of `given`.

    Examples
    --------
    >>> schema = tb.Schema({"trust": tb.Ordinal(["none", "some", "a lot"])})
    >>> schema = schema.fit({"trust": ["none", tb.at_least("some")]})
    """
    return Interval(lower=_end(value, "at_least"))


def at_most(value: Any) -> Interval:
    """answer ≤ value: the answer is at most `value` (left-censored).

    Parameters
    ----------
    value : number or label
        The upper end, included: a number, or a label of a column with ordered labels.

    Returns
    -------
    Interval
        A value for a cell of a table or of `given`.

    Examples
    --------
    >>> print(tb.at_most(40))
    at_most(40)
    """
    return Interval(upper=_end(value, "at_most"))


def one_of(*values: Any) -> OneOfStatement:
    """The answer is one of these values; it is not known which one.

    Parameters
    ----------
    *values : label
        Labels of a Binary, Categorical, Ordinal or Banded column. Levels and bands have to be adjacent.

    Returns
    -------
    OneOfStatement
        A value for a cell of a table or of `given`.

    Examples
    --------
    >>> print(tb.one_of("Green", "Red"))
    one_of(Green, Red)
    """
    return OneOfStatement(_values(values, "one_of"))


def top_set(*values: Any) -> TopSet:
    """Each of these labels is above all others (§3.2): min of their utilities ≥ max of the others.

    Parameters
    ----------
    *values : label
        Labels of a Categorical or Ranking column.

    Returns
    -------
    TopSet
        A value for a cell of a table or of `given`.

    Examples
    --------
    >>> print(tb.top_set("Green", "Red"))
    top_set(Green, Red)
    """
    return TopSet(_values(values, "top_set"))


def prefers(better: Any, worse: Any) -> OrderStatement:
    """x_better ≥ x_worse: one item is preferred to another.

    Parameters
    ----------
    better, worse : label
        Two items of a Ranking column. A list of several such statements is a cell, too.

    Returns
    -------
    OrderStatement
        A value for a cell of a table or of `given`. A list of several such statements is a cell, too.

    Examples
    --------
    >>> print(tb.prefers("tea", "coffee"))
    tea > coffee
    """
    better, worse = plain(better), plain(worse)
    if better == worse:
        raise SchemaError(f"prefers({show(better)}, {show(worse)}) names one item twice", remedy="name two items")
    return OrderStatement(((better,), (worse,)))


def _end(value: Any, name: str) -> Any:
    value = plain(value)
    if not is_label(value):
        problem = f"{name}() of {show(value)} is not a finite number or a label"
        raise SchemaError(problem, remedy="give a number or a level; use at_least or at_most for an open end")
    return value


def _values(values: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if len(values) == 1 and collection(values[0]) is not None:
        values = collection(values[0]) or ()
    found = tuple(dict.fromkeys(map(plain, values)))
    if not found:
        raise SchemaError(f"{name}() has no values", remedy="give at least one value, or leave the cell empty")
    return found


def split(cells: Cells) -> tuple[Cells, dict[int, Statement]]:
    """Cells without statements (these are marked as missing), and the statements by position."""
    if cells.values.dtype.kind != "O":
        return cells, {}
    listed = zip(cells.values.tolist(), cells.missing.tolist(), strict=True)
    found = {place: value for place, (value, gone) in enumerate(listed) if isinstance(value, Statement) and not gone}
    if not found:
        return cells, {}
    missing = cells.missing.copy()
    missing[list(found)] = True
    return replace(cells, missing=missing), found


def parse_order(text: str) -> OrderStatement:
    """ "a > b = c > d" as an order, best first; items may hold neither ">" nor "="."""
    return OrderStatement(tuple(tuple(item.strip() for item in tier.split("=")) for tier in text.split(">")))


# The first of these signs in a text ends the name of the column.
_OPERATOR = re.compile(r"\s*(?P<sign>:|>=|<=|≥|≤|=|\bin\b(?=\s*\[))\s*")


def parse_given(text: str, schema: Mapping[str, Column] | None = None) -> tuple[str, Any]:
    """A condition from the command line as (column, value or statement of its cell).

    Examples: "income in [20000, 40000]", "age >= 30", "party = Green | Red", "films: A > B". After a colon, any text
    that a cell of the column may hold. With a schema, names and labels may contain these signs, and columns may be
    called by their display names.
    """
    columns, stripped = dict(schema or {}), text.strip()
    known = {shown: name for name, shown in getattr(schema, "display_names", {}).items()}
    known |= {name: name for name in columns}
    for shown in sorted(filter(stripped.startswith, known), key=len, reverse=True):
        match = _OPERATOR.match(stripped, len(shown))
        if match:
            column: Any = columns[known[shown]]
            # A label may be written as it is, or by its name if that is unambiguous.
            spelt = {word: column.labels[place] for word, place in getattr(column, "lookup", {}).items()}
            spelt |= {str(label).casefold(): label for label in column.labels if isinstance(label, bool)}
            spelt |= {str(label): label for label in column.labels}
            return known[shown], _cell(match["sign"], stripped[match.end() :], text, spelt)
    match = _OPERATOR.search(stripped)
    if match is None or match.start() == 0:
        remedy = "write for example 'age >= 30', 'income in [20000, 40000]', 'party = Green | Red' or 'films: A > B'"
        raise SchemaError(f"the condition {show(text)} cannot be read", remedy=remedy)
    name = stripped[: match.start()]
    if schema is not None:
        remedy = f"{suggestion(name, schema)}the columns are {listing(schema)}"
        raise SchemaError(f"the condition {show(text)} does not name a column", column=name, remedy=remedy)
    return name, _cell(match["sign"], stripped[match.end() :], text, {})


def parse_conditions(given: Any, schema: Mapping[str, Column] | None = None) -> dict[str, Any]:
    """Conditions that all hold, as {column: value or statement}; several conditions on one column are combined.

    `given` is a dict, a text such as "age >= 45", a sequence of such texts, or None.
    """
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    texts = given.tolist() if hasattr(given, "tolist") else given  # an array, or a column of a frame
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        remedy = 'give a dict such as {"age": 45}, or text such as "age >= 45", or a list of such texts'
        raise SchemaError(f"given={show(given)} has no conditions that can be read", remedy=remedy)
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, cell = parse_given(text, schema)
        found.setdefault(name, []).append(cell)
    return {name: combined(name, cells) for name, cells in found.items()}


def combined(name: str, cells: list[Any]) -> Any:
    """Conditions on one column as one: orders as a list, two ends as an interval, numeric intervals intersected."""
    if len(cells) == 1:
        return cells[0]
    if all(isinstance(cell, OrderStatement) for cell in cells):
        return cells
    if all(isinstance(cell, Interval) for cell in cells):
        low = [cell.lower for cell in cells if cell.lower is not None]
        high = [cell.upper for cell in cells if cell.upper is not None]
        numbers = all(isinstance(end, (int, float)) for end in low + high)
        if numbers or (len(low) < 2 and len(high) < 2):
            if not low or not high:
                return Interval(max(low, default=None), min(high, default=None))
            if numbers and max(low) > min(high):
                problem = f"no value satisfies all of: {' and '.join(map(str, cells))}"
                raise InfeasibleEvidence(problem, column=name, remedy="remove one of them")
            return between(max(low), min(high))
    problem = f"the conditions {' and '.join(map(show, map(str, cells)))} cannot be combined"
    raise SchemaError(problem, column=name, remedy="give one condition for each column")


def _cell(sign: str, rest: str, text: str, spelt: Mapping[str, Any]) -> Any:
    value, rest = partial(_value, spelt=spelt), rest.strip()
    if not rest:
        raise SchemaError(f"the condition {show(text)} is not complete", remedy=f"add what follows {sign}")
    if sign in ":=" and rest in spelt:  # a label may contain these signs
        return value(rest)
    if sign == "=" and rest.startswith("="):
        right = text.replace("==", "=", 1).strip()
        raise SchemaError(f"the condition {show(text)} has two signs =", remedy=f"use one: '{right}'")
    words = [word for word in rest.split("|") if word.strip()]
    if sign == ":" and ">" in rest:
        return OrderStatement(tuple(tuple(map(value, tier)) for tier in parse_order(rest).tiers))
    if sign in ":=":
        return value(rest) if sign == ":" or len(words) == 1 else one_of(*map(value, words))
    if sign in (">=", "≥"):
        return at_least(value(rest))
    if sign in ("<=", "≤"):
        return at_most(value(rest))
    ends = [end.strip() for end in rest[1:-1].split(",")]
    if not rest.endswith("]") or len(ends) != 2 or not any(ends):
        remedy = "write for example 'income in [20000, 40000]'; one end may be left empty"
        raise SchemaError(f"the condition {show(text)} has no interval", remedy=remedy)
    low, high = ends
    if not low or not high:
        return at_least(value(low)) if low else at_most(value(high))
    return between(value(low), value(high))


def _value(word: str, spelt: Mapping[str, Any]) -> Any:
    """The label that is written like this, otherwise the word as a number or as text."""
    word = word.strip()
    for known in (word, word.casefold()):
        if known in spelt and (known == word or isinstance(spelt[known], bool)):
            return spelt[known]
    for number in (int, float):
        with suppress(ValueError, OverflowError):  # an integer with more than 308 digits is no float
            found = number(word)
            return found if math.isfinite(found) else word
    return word.strip("\"'")
