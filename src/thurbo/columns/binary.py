"""§3.1, Eq. (6): a binary answer, x ≤ θ if false and x ≥ θ if true, with one learned cut θ.

The two values may have any names. After fit, `labels` is (false, true).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from thurbo.columns.cells import Cells, FloatArray, Refused, is_label, listing, plain, show, suggestion
from thurbo.columns.labels import LevelColumn
from thurbo.columns.statements import OneOfStatement, Statement, split
from thurbo.errors import SchemaError

_AFFIRMATIVE = frozenset({"yes", "true", "y", "t", "1"})
_OPPOSITE = {"yes": "no", "true": "false", "y": "n", "t": "f", "1": "0"}
_OPPOSITE |= {negative: positive for positive, negative in _OPPOSITE.items()}


@dataclass(frozen=True)
class Binary(LevelColumn):
    """One of two values, Eq. (6): x ≤ θ if false, x ≥ θ if true, with a learned cut θ.

    Parameters
    ----------
    true : label, optional
        The value above the cut. By default it is inferred: True, 1 or "yes", otherwise the larger value.
    values : tuple, optional
        Both values, (false, true). `fit` sets them if they are not given.
    names : dict, optional
        Display names of labels, such as {0: "No", 1: "Yes"}.
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is neither value.
    missing : dict or list, optional
        Values that mean "no answer", such as {9: "Refused"}.
    recode : dict, optional
        Values that are read as another value, such as {"Y": "Yes"}; the table is not changed.

    Notes
    -----
    A cell is one of the two values: text, a number or a boolean. If the training cells contain only one value, the
    other is its usual opposite (True and False, 1 and 0, "Yes" and "No" in the same case), 0 for another number, and
    "not ..." for another text.

    Examples
    --------
    >>> import thurbo as tb
    >>> tb.Schema({"voted": tb.Binary()}).fit({"voted": ["Yes", "No", None]})["voted"].values
    ('No', 'Yes')
    """

    kind: ClassVar[str] = "binary"
    true: Any = None
    values: tuple[Any, Any] | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        for value in (self.true, *(self.values or ())):
            if value is not None and not is_label(value):
                raise SchemaError(
                    f"Binary value {show(value)} cannot be a label", remedy="use text, a number or a boolean"
                )
        if self.values is not None and (len(self.values) != 2 or self.values[0] == self.values[1]):
            raise SchemaError(
                f"Binary values {listing(self.values)} are not two distinct values", remedy="give values=(false, true)"
            )
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

    def _fit(self, cells: Cells, weight: FloatArray | None) -> Self:
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
                f"{suggestion(self.true, distinct)}use Binary(true=...) with one of the two",
            )
        pair = false_and_true(distinct, true)
        if all(isinstance(value, float) and value.is_integer() for value in pair):
            pair = int(pair[0]), int(pair[1])  # as with levels: missing cells turn a frame's integers into floats
        return replace(self, true=None, values=pair)

    def _range(self, statement: Statement) -> tuple[int, int]:
        if not isinstance(statement, OneOfStatement):
            raise Refused(
                f"{show(statement)} cannot be used in a Binary column", "give one of the two values, or use one_of"
            )
        places = self.lookup()
        for value in statement.values:
            if value not in places:
                problem = f"value {show(value)} is neither {show(self.labels[0])} nor {show(self.labels[1])}"
                raise Refused(problem, "use values of the column")
        codes = [places[value] for value in statement.values]
        return min(codes), max(codes)

    def _unknown(self, cells: Cells, position: int, value: Any) -> SchemaError:
        near = suggestion(plain(value), self.lookup()) if isinstance(value, str) else ""
        return cells.error(
            position,
            f"value {show(value)} is neither {show(self.labels[0])} nor {show(self.labels[1])}",
            f'{near}correct the cell, or treat it as missing with Binary(unseen="missing")',
        )

    def describe(self) -> str:
        if self.values is not None:
            return f"{self.texts[0]} or {self.texts[1]}"
        return "one of two values" if self.true is None else f"{self.true} or not"


def false_and_true(distinct: list[Any], true: Any) -> tuple[Any, Any]:
    """The two values in order; if only one was seen, with its opposite."""
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
    """Whether a text is a usual word for yes or no."""
    return value.casefold() in _OPPOSITE


def is_affirmative(value: Any) -> bool:
    """Whether a value is a usual way to write yes."""
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
