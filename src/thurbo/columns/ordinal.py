"""§3.1, Eq. (7): an ordinal answer means that its site is between two cuts; the cuts are learned (§5.2).

Only the order of the levels is used, not their distances.
`labels` equals `levels` from lowest to highest, with one cut between two levels. Unknown labels are errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from thurbo.columns.cells import Cells, FloatArray, Refused, is_label, listing, plain, show, suggestion
from thurbo.columns.labels import LevelColumn
from thurbo.columns.statements import Interval, OneOfStatement, Statement, split
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Ordinal(LevelColumn):
    """One of ordered levels, Eq. (7): θ_{l−1} ≤ x ≤ θ_l for level l, with learned cuts θ.

    Parameters
    ----------
    levels : list, optional
        All levels, lowest first; by default the ordered categories of the frame, or the sorted numbers.
    names : dict, optional
        Display names of labels, such as {1: "Strongly agree", 2: "Agree"}.
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is not a level.
    missing : dict or list, optional
        Values that mean "no answer", such as {9: "Don't know"}.
    recode : dict, optional
        Values that are read as another value, such as {"Y": "Yes"}; the table is not changed.

    Notes
    -----
    A cell is a level. `between`, `at_least`, `at_most` and `one_of` (adjacent levels) allow several levels.

    Examples
    --------
    >>> import thurbo as tb
    >>> schema = tb.Schema({"trust": tb.Ordinal(["none", "some", "a lot"])})
    >>> schema.fit({"trust": ["none", tb.at_least("some"), None]})["trust"].describe()
    'none < some < a lot'
    """

    kind: ClassVar[str] = "ordinal"
    levels: tuple[Any, ...] | None = None

    def _check(self) -> None:
        if self.levels is None:
            return
        if not isinstance(self.levels, tuple):
            raise SchemaError(f"levels={self.levels!r} is not a list", remedy="give levels in order, lowest first")
        for place, level in enumerate(self.levels):
            if not is_label(level):
                raise SchemaError(f"level {show(level)} cannot be a label", remedy="use text, numbers or booleans")
            if level in self.levels[:place]:
                raise SchemaError(f"level {show(level)} occurs twice in the levels", remedy="name each level once")
        if len(self.levels) < 2:
            raise SchemaError(
                f"levels [{listing(map(show, self.levels))}] have no order",
                remedy="give at least two levels, or use Ignore()",
            )

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.levels or ()

    @property
    def has_order(self) -> bool:
        return True

    def _fit(self, cells: Cells, weight: FloatArray | None) -> Self:
        if self.levels is not None:
            return self
        if cells.ordered_levels is not None and len(cells.ordered_levels) > 1:
            return replace(self, levels=tuple(self.meant(cells.ordered_levels)))
        found, which = split(cells)[0].factorise()
        distinct = self.possible(found)
        for value in distinct:
            if isinstance(value, str) or not is_label(value):
                raise cells.error(
                    int((which == found.index(value)).argmax()) if value in found else 0,
                    f"the order of values such as {show(value)} is not known",
                    "give it: Ordinal(levels=[lowest, ..., highest])",
                )
        if len(distinct) < 2:
            problem = (
                f"the only value is {show(distinct[0])}" if distinct else "there are no values to take levels from"
            )
            raise SchemaError(
                problem,
                column=cells.name,
                remedy="use Ordinal(levels=[lowest, ..., highest]), or use Ignore()",
            )
        return replace(self, levels=ordered_numbers(distinct))

    def _range(self, statement: Statement) -> tuple[int, int]:
        if isinstance(statement, OneOfStatement):
            codes = sorted({self._code(value) for value in statement.values})
            if codes[-1] - codes[0] >= len(codes):
                levels = listing(self.labels, " < ")
                raise Refused(f"{show(statement)} leaves out levels between them ({levels})", "name adjacent levels")
            return codes[0], codes[-1]
        if not isinstance(statement, Interval):
            remedy = "use between, at_least, at_most or one_of"
            raise Refused(f"{show(statement)} cannot be used in a column of ordered levels", remedy)
        inside = levels_inside(statement, self.labels, self._code)
        return inside[0], inside[-1]

    def _code(self, value: Any) -> int:
        places = self.lookup()
        if value not in places:
            near = suggestion(value, places) if isinstance(value, str) else ""
            problem = f"level {show(value)} is not one of {listing(self.labels, ' < ')}"
            raise Refused(problem, f"{near}use levels of the column")
        return places[value]

    def _unknown(self, cells: Cells, position: int, value: Any) -> SchemaError:
        levels = listing(self.labels, " < ")
        problem = f"level {show(value)} is not one of {levels}"
        if isinstance(value, str) and value.strip() in map(str, self.labels):
            return cells.error(
                position, f"{problem}: it is text and the levels are numbers", "convert the column to numbers"
            )
        near = suggestion(plain(value), self.lookup()) if isinstance(value, str) else ""
        return cells.error(
            position,
            problem,
            f'{near}correct the cell, add it to Ordinal(levels=[...]), or use Ordinal(unseen="missing")',
        )

    def describe(self) -> str:
        return listing(self.texts, " < ") if self.levels else "one of ordered levels"


def levels_inside(interval: Interval, levels: tuple[Any, ...], place: Callable[[Any], int]) -> list[int]:
    """Positions of the levels between two ends, both included, lowest first; raises Refused if there is none."""
    lower, upper = interval.lower, interval.upper
    ends = [end for end in (lower, upper) if end is not None]
    if all(isinstance(value, (int, float)) for value in (*levels, *ends)):
        # Ends between levels are allowed: "at least 2.5" of 1, 2, 3 is 3.
        inside = [
            code
            for code, level in enumerate(levels)
            if (lower is None or level >= lower) and (upper is None or level <= upper)
        ]
    else:
        low = 0 if lower is None else place(lower)
        inside = list(range(low, len(levels) if upper is None else place(upper) + 1))
    if not inside:
        raise Refused(f"{show(interval)} contains none of {listing(levels, ' < ')}", "correct its ends")
    return inside


def ordered_numbers(distinct: list[Any]) -> tuple[Any, ...]:
    """Numbers as levels; whole numbers as integers, since frames convert integers with missing cells to floats."""
    if all(isinstance(value, float) and value.is_integer() for value in distinct):
        distinct = [int(value) for value in distinct]
    return tuple(sorted(distinct))
