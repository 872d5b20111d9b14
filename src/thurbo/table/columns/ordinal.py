"""§3.1, Eqs (6), (7): binary and ordinal answers, a site between two cuts; the cuts are learned (§5.2).

Only the order of levels is used, not their distances. A binary answer has one cut θ: x ≤ θ if false, x ≥ θ if true.
`Answered` is a binary site that is no question: whether a block of questions has any answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, BoolArray, Cells, FloatArray
from thurbo.table.columns.column import Column, Role
from thurbo.table.columns.labels import LevelColumn, SpreadChoice, check_labels, in_order, levels_inside
from thurbo.table.columns.statements import Interval, OneOfStatement, Statement, split
from thurbo.table.columns.values import Refused, false_and_true, is_affirmative, is_label, listing, show, suggestion


@dataclass(frozen=True)
class Ordinal(SpreadChoice, LevelColumn):
    """One of ordered levels, Eq. (7): θ_{l−1} ≤ x ≤ θ_l for level l, with learned cuts θ.

    Parameters
    ----------
    levels : list, optional
        All levels, lowest first; by default the ordered categories of the frame, or the sorted numbers.
    names, unseen, columns, ticked, marks, missing, recode : optional
        As in `Categorical`.

    Notes
    -----
    A cell is a level. `between`, `at_least`, `at_most` and `one_of` (adjacent levels) allow several levels.

    Examples
    --------
    >>> schema = tb.Schema({"trust": tb.Ordinal(["none", "some", "a lot"])})
    >>> schema.fit({"trust": ["none", tb.at_least("some"), None]})["trust"].describe()
    'none < some < a lot'
    """

    kind: ClassVar[str] = "ordinal"
    one, many = "level", "levels"
    has_order = True
    levels: tuple[Any, ...] | None = None

    def _check(self) -> None:
        super()._check()
        if self.levels is not None:
            check_labels(self.levels, "levels", "level", "Ordinal")

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        if self.levels is not None:
            return self
        if cells.ordered_levels is not None and len(cells.ordered_levels) > 1:
            return replace(self, levels=tuple(self.meant(cells.ordered_levels)))
        found, which = split(cells)[0].factorise()
        distinct = self.possible(found)
        for value in distinct:
            if isinstance(value, str) or not is_label(value):
                problem = f"the order of values such as {show(value)} is not known"
                first = int((which == found.index(value)).argmax()) if value in found else 0
                raise cells.error(first, problem, "give it: Ordinal(levels=[lowest, ..., highest])")
        if len(distinct) < 2:
            problem = f"the only value is {show(distinct[0])}" if distinct else "there are no values"
            remedy = "use Ordinal(levels=[lowest, ..., highest]), or use Ignore()"
            raise SchemaError(f"{problem} to take levels from", column=cells.name, remedy=remedy)
        return replace(self, levels=in_order(distinct))

    def _range(self, statement: Statement) -> tuple[int, int]:
        if isinstance(statement, OneOfStatement):
            codes = sorted(set(self.find(statement.values, self.lookup)))
            if codes[-1] - codes[0] >= len(codes):
                levels = listing(self.labels, " < ")
                raise Refused(f"{show(statement)} leaves out levels between them ({levels})", "name adjacent levels")
            return codes[0], codes[-1]
        if not isinstance(statement, Interval):
            remedy = "use between, at_least, at_most or one_of"
            raise Refused(f"{show(statement)} cannot be used in a column of ordered levels", remedy)
        inside = levels_inside(statement, self.labels, lambda level: self.find([level], self.lookup)[0])
        return inside[0], inside[-1]

    def unknown(self, label: Any) -> Refused:
        why = super().unknown(label)
        if isinstance(label, str) and label not in self.labels and label in map(str, self.labels):
            return Refused(f"{why.problem}: it is text and the levels are numbers", "convert the column to numbers")
        return why

    def by_utilities(self) -> Column:
        return self.registered["categorical"](self.levels, ordered=True, **self._kept)

    def describe(self) -> str:
        return listing(self.texts, " < ") if self.levels else "one of ordered levels"


@dataclass(frozen=True)
class Binary(SpreadChoice, LevelColumn):
    """One of two values, Eq. (6): x ≤ θ if false, x ≥ θ if true, with a learned cut θ.

    Parameters
    ----------
    true : label, optional
        The value above the cut. By default it is inferred: True, 1 or "yes", otherwise the larger value.
    values : tuple, optional
        Both values, (false, true). `fit` sets them if they are not given.
    names, unseen, columns, ticked, marks, missing, recode : optional
        As in `Categorical`.

    Notes
    -----
    A cell is one of the two values: text, a number or a boolean. If the training cells contain only one value, the
    other is its usual opposite (True and False, 1 and 0, "Yes" and "No" in the same case), 0 for another number, and
    "not ..." for another text.

    Examples
    --------
    >>> tb.Schema({"voted": tb.Binary()}).fit({"voted": ["Yes", "No", None]})["voted"].values
    ('No', 'Yes')
    """

    kind: ClassVar[str] = "binary"
    one, many = "value", "values"
    n_cuts = 1
    true: Any = None
    values: tuple[Any, Any] | None = field(default=None, kw_only=True)

    def _arranged(self, labels: list[Any]) -> tuple[Any, ...]:
        return false_and_true(labels, self.true) if len(labels) == 2 else tuple(labels)

    def _check(self) -> None:
        super()._check()
        for value in (self.true, *(self.values or ())):
            if value is not None and not is_label(value):
                problem = f"Binary value {show(value)} cannot be a label"
                raise SchemaError(problem, remedy="use text, a number or a boolean")
        if self.values is not None and (len(self.values) != 2 or self.values[0] == self.values[1]):
            problem = f"Binary values {listing(self.values)} are not two distinct values"
            raise SchemaError(problem, remedy="give values=(false, true)")
        if self.values is not None and self.true is not None and self.meant([self.true]) != [self.values[1]]:
            problem = f"Binary(true={show(self.true)}) contradicts values {listing(self.values)}"
            raise SchemaError(problem, remedy="give values=(false, true)")

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
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
            true = next((label for label in distinct if is_affirmative(self._names.get(label, ""))), None)
        if true is not None and true not in distinct and len(distinct) == 2:
            problem = f"the values are {listing(map(show, distinct))}, and none is the true one, {show(self.true)}"
            remedy = f"{suggestion(self.true, distinct)}use Binary(true=...) with one of the two"
            raise cells.error(int((which >= 0).argmax()), problem, remedy)
        pair = false_and_true(distinct, true)
        if all(isinstance(value, float) and value.is_integer() for value in pair):
            pair = int(pair[0]), int(pair[1])  # as with levels: missing cells turn a frame's integers into floats
        return replace(self, true=None, values=pair)

    def _range(self, statement: Statement) -> tuple[int, int]:
        if not isinstance(statement, OneOfStatement):
            problem = f"{show(statement)} cannot be used in a Binary column"
            raise Refused(problem, "give one of the two values, or use one_of")
        codes = self.find(statement.values, self.lookup)
        return min(codes), max(codes)

    def unknown(self, label: Any) -> Refused:
        near = suggestion(label, self.lookup) if isinstance(label, str) else ""
        return Refused(
            f"value {show(label)} is neither {show(self.labels[0])} nor {show(self.labels[1])}",
            f'{near}correct the cell, or treat it as missing with Binary(unseen="missing")',
        )

    @classmethod
    def answers_of_type(cls, column: Column) -> dict[str, Any]:
        labels = column.labels
        if len(labels) > 2 and column.is_one_label:
            problem = f"it has {len(labels)} answers ({listing(labels)}), and Binary has two"
            raise SchemaError(problem, remedy="declare the others missing first")
        pair = labels if column.has_order else false_and_true(list(labels), None)
        return {"values": pair} if len(labels) == 2 and column.is_one_label else {}

    def with_answers(self, labels: Sequence[Any], **settings: Any) -> Column:
        """With another number of answers than two it is a Categorical."""
        if len(labels) in (0, 2):
            return replace(self, true=None, values=tuple(labels), **settings) if labels else replace(self, **settings)
        return self.as_type(self.registered["categorical"], **{"categories": tuple(labels), **settings})

    def describe(self) -> str:
        if self.values is not None:
            return f"{self.texts[0]} or {self.texts[1]}"
        return "one of two values" if self.true is None else f"{self.true} or not"


@dataclass(frozen=True)
class Answered(Binary):
    """True if at least one of some questions has an answer, Eq. (6).

    Parameters
    ----------
    columns : sequence of str
        Names of the questions, which are missing together.
    """

    kind: ClassVar[str] = "answered"
    role: ClassVar[Role] = "pattern"
    is_one_label: ClassVar[bool] = False
    mappings: ClassVar[tuple[str, ...]] = ()
    values: tuple[Any, Any] | None = field(default=(False, True), kw_only=True)
    columns: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def patterned(self) -> tuple[str, ...]:
        return self.columns

    def source_columns(self, name: str) -> tuple[str, ...]:
        return ()

    def describe(self) -> str:
        return f"whether there is an answer to {listing(self.columns, ' or ')}"

    def from_answers(self, answered: Mapping[str, BoolArray], some: BoolArray) -> Block:
        """The block of this column, by the rows [row] in which each question that the table has is answered.

        Other rows than `some` say nothing, and so does a table that has none of the questions.
        """
        own = [answered[name] for name in self.columns if name in answered]
        found = np.any([np.zeros(len(some), bool), *own], axis=0)
        code = np.where(some & bool(own), found, -1)
        return Block(self.sites, code=code.astype(np.int32)[:, None], n_cuts=1)
