"""§3.1, Eq. (6): a binary answer says on which side of one cut its site lies.

Idea: two values, the false one below the cut and the true one above it, whatever the user calls them.
Promises `labels == (false, true)` after fit, and one learnable cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from thurbo.columns.cells import Cells, Refused, is_label, listing, plain, show, suggestion
from thurbo.columns.labels import LevelColumn
from thurbo.columns.statements import OneOf, Statement, split
from thurbo.errors import SchemaError

_AFFIRMATIVE = frozenset({"yes", "true", "y", "t", "1"})
_OPPOSITE = {"yes": "no", "true": "false", "y": "n", "t": "f", "1": "0"}
_OPPOSITE |= {negative: positive for positive, negative in _OPPOSITE.items()}


@dataclass(frozen=True)
class Binary(LevelColumn):
    """Two values. `true` names the one above the cut; left out, it is inferred: True, 1, "yes", else the
    larger. Fitted, `values` is (false, true); give it to name both.

    Where the training cells show only one value, the other is its usual opposite (True and False, 1 and 0,
    "Yes" and "No", in the same case), 0 for any other number, and "not ..." for any other text.
    """

    kind: ClassVar[str] = "binary"
    true: Any = None
    values: tuple[Any, Any] | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        for value in (self.true, *(self.values or ())):
            if value is not None and not is_label(value):
                raise SchemaError(f"Binary value {show(value)} is no label", remedy="use text, a number or a boolean")
        if self.values is not None and (len(self.values) != 2 or self.values[0] == self.values[1]):
            raise SchemaError(f"Binary values {listing(self.values)} are not two", remedy="give values=(false, true)")
        if self.values is not None and self.true is not None and self.meant([self.true]) != [self.values[1]]:
            raise SchemaError(
                f"Binary(true={show(self.true)}) contradicts values {listing(self.values)}",
                remedy="give values=(false, true)",
            )

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.values or ()

    @property
    def n_cuts(self) -> int:
        return 1

    def fit(self, cells: Cells) -> Self:
        if self.values is not None:
            return self
        distinct, which = split(cells)[0].factorise()
        for place, value in enumerate(distinct):
            if not is_label(value):
                remedy = "turn the column into text, numbers or booleans first, or Ignore it"
                raise cells.error(int((which == place).argmax()), f"{show(value)} cannot be a label", remedy)
        found, distinct = distinct, self.meant(distinct)
        if len(distinct) < 2 and len(self.possible(distinct)) == 2:
            distinct = self.possible(distinct)
        if len(distinct) > 2:
            third = next(place for place, value in enumerate(found) if self.meant([value]) == distinct[2:3])
            raise cells.error(
                int((which == third).argmax()),
                f"{show(distinct[2])} is one of {len(distinct)} values ({listing(map(show, distinct))}), "
                "and a Binary column has two",
                'merge values, use Ordinal(levels=[...]), or Binary(values=(false, true), unseen="missing")',
            )
        true = None if self.true is None else next(iter(self.meant([self.true])), None)
        if true is None:
            true = next((label for label in distinct if is_affirmative(dict(self._names).get(label, ""))), None)
        if true is not None and true not in distinct and len(distinct) == 2:
            raise cells.error(
                int((which >= 0).argmax()),
                f"the values are {listing(map(show, distinct))}, and none is the true one, {show(self.true)}",
                f"{suggestion(self.true, distinct)}say Binary(true=...) with one of the two",
            )
        pair = false_and_true(distinct, true)
        if all(isinstance(value, float) and value.is_integer() for value in pair):
            pair = int(pair[0]), int(pair[1])  # as with levels: missing cells turn a frame's integers into floats
        return replace(self, true=None, values=pair)

    def _range(self, statement: Statement) -> tuple[int, int]:
        if not isinstance(statement, OneOf):
            raise Refused(f"{show(statement)} says nothing about two values", "give one of them, or use one_of")
        places = self.lookup()
        for value in statement.values:
            if value not in places:
                problem = f"value {show(value)} is neither {show(self.labels[0])} nor {show(self.labels[1])}"
                raise Refused(problem, "name values of the column")
        codes = [places[value] for value in statement.values]
        return min(codes), max(codes)

    def _unknown(self, cells: Cells, position: int, value: Any) -> SchemaError:
        near = suggestion(plain(value), self.lookup()) if isinstance(value, str) else ""
        return cells.error(
            position,
            f"value {show(value)} is neither {show(self.labels[0])} nor {show(self.labels[1])}",
            f'{near}correct the cell, or let it count as missing with Binary(unseen="missing")',
        )

    def describe(self) -> str:
        if self.values is not None:
            return f"{self.texts[0]} or {self.texts[1]}"
        return "one of two values" if self.true is None else f"{self.true} or not"


def false_and_true(distinct: list[Any], true: Any) -> tuple[Any, Any]:
    """The two values in order, the unseen one supplied."""
    if not distinct:
        distinct = [False if true is None else _opposite(true)]
    if len(distinct) == 1:
        only = distinct[0]
        other = _opposite(only)
        if true is not None and true not in (only, other):
            other = true
        distinct = [only, other]
        if true is None:
            true = other if is_affirmative(other) else only
    if true is None:
        true = next((value for value in distinct if is_affirmative(value)), None)
    if true is None:
        true = max(distinct, key=lambda value: (isinstance(value, str), value))
    first, second = distinct
    return (second, first) if first == true else (first, second)


def is_word(value: str) -> bool:
    """Whether a text is one of the usual words for yes and no."""
    return value.casefold() in _OPPOSITE


def is_affirmative(value: Any) -> bool:
    """Whether a value is one of the usual ways to say yes."""
    return value.casefold() in _AFFIRMATIVE if isinstance(value, str) else value == 1


def _opposite(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        word = _OPPOSITE.get(value.casefold())
        if word is None:
            return f"not {value}"
        return word.upper() if value.isupper() else word.capitalize() if value.istitle() else word
    return type(value)(value == 0)
