"""Columns without sites of their own: what is not part of the model, and inequalities on sites of any columns, Eq. (5).

A column is left out explicitly, in the schema, with a reason, and its cells are never read as answers. An `Inequality`
is evidence that no other type can express: b ≤ A x ≤ c, on sites with the names of `Schema.site_names`; utilities and
levels are in latent units, measured numbers in the user's units.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, Cells, Family, FloatArray, LinearRow, as_numbers
from thurbo.table.columns.column import Column, Measure, Role
from thurbo.table.columns.values import Refused, collection, plain, show


@dataclass(frozen=True)
class Unmodelled(Column):
    """A column without sites."""

    family: ClassVar[Family] = "none"
    sites = ()

    def source_columns(self, name: str) -> tuple[str, ...]:
        return ()

    def encode(self, cells: Cells) -> Block:
        return self.silent(len(cells))

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        return np.full(len(x), None, object)


@dataclass(frozen=True)
class Ignore(Unmodelled):
    """A column that is not part of the model.

    Parameters
    ----------
    reason : str, default=""
        Why the column is left out; shown in tables and reports.
    missing : dict or list, optional
        Values that mean "no answer".
    unseen, recode : optional
        Not used.

    Notes
    -----
    A cell may be anything.

    Examples
    --------
    >>> print(tb.Schema({"comment": tb.Ignore("free text")}))
    column   type    meaning of a cell
    comment  Ignore  left out: free text
    """

    kind: ClassVar[str] = "ignore"
    role: ClassVar[Role] = "ignored"
    reason: str = ""

    def describe(self) -> str:
        return f"left out: {self.reason}" if self.reason else "left out"


@dataclass(frozen=True)
class Id(Unmodelled):
    """The name of a row; it is not part of the model, and error messages use it.

    Parameters
    ----------
    missing : dict or list, optional
        Values that mean "no name".
    unseen, recode : optional
        Not used.

    Notes
    -----
    A cell may be anything. A row with a missing cell keeps its label in the table.

    Examples
    --------
    >>> schema = tb.Schema({"respondent": tb.Id(), "trust": tb.Ordinal(["none", "some", "a lot"])})
    """

    kind: ClassVar[str] = "id"
    role: ClassVar[Role] = "id"
    measure: ClassVar[Measure] = "nominal"

    def rows(self, cells: Cells) -> NDArray[Any]:
        """Names of the rows; a row without a name keeps its label: [row]."""
        return np.where(cells.missing, cells.rows.astype(object), cells.values.astype(object))

    def describe(self) -> str:
        return "the name of the row, left out of the model"


@dataclass(frozen=True)
class Weight(Unmodelled):
    """The weight of a row in `fit`, `partial_fit`, `score`, `evaluate` and `segments`.

    Parameters
    ----------
    missing, recode : optional
        As in `Categorical`.
    unseen : optional
        Not used.

    Notes
    -----
    A cell is a finite number of at least 0; 0 leaves the row out. A `sample_weight` multiplies it.

    Examples
    --------
    >>> schema = tb.Schema({"w": tb.Weight(), "age": tb.Continuous()}).fit({"w": [0.5, 1.5], "age": [30, 60]})
    """

    kind: ClassVar[str] = "weight"
    role: ClassVar[Role] = "weight"
    measure: ClassVar[Measure] = "scale"

    def weights(self, cells: Cells) -> FloatArray:
        """Numbers of at least 0: [row]; raises an error at the first cell that is not such a number."""
        numbers, _ = as_numbers(self.answered(cells))
        bad = ~(np.isfinite(numbers) & (numbers >= 0))
        if bad.any():
            position = int(bad.argmax())
            is_missing, value = cells.missing[position], show(cells.values[position])
            problem = "the weight is missing" if is_missing else f"{value} is not a weight"
            raise cells.error(
                position, problem, "give every row a finite number of zero or more; zero leaves a row out"
            )
        if not numbers.any():
            remedy = "give at least one row a positive weight"
            raise SchemaError("the weight of every row is zero", column=cells.name, remedy=remedy)
        return numbers

    def describe(self) -> str:
        return "how much the row counts, left out of the model"


_AT_LEAST, _AT_MOST = (">=", ">", "≥"), ("<=", "<", "≤")
_EXAMPLE = 'write [({"issues.tax": 1, "issues.health": -1}, ">=", 0)]'


@dataclass(frozen=True)
class Inequality(Unmodelled):
    """Linear inequalities on sites, Eq. (5): b ≤ A x ≤ c, any number of them in a cell.

    Parameters
    ----------
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is not a list of inequalities.
    missing : dict or list, optional
        Values that mean "no answer".
    recode : optional
        Not used.

    Notes
    -----
    A cell is a list of ({site: coefficient}, sign, number). The sign is ">=" or "<=", or "in" with two numbers:
    ({"a": 1, "b": 1}, "in", (0, 2)). A site of a Continuous column without transform is in the user's units; other
    sites are in latent units, in which residuals have unit variance.

    Examples
    --------
    >>> schema = tb.Schema({"now": tb.Continuous(), "before": tb.Continuous(), "change": tb.Inequality()})
    >>> cell = [({"now": 1, "before": -1}, ">=", 0)]
    >>> schema = schema.fit({"now": [3, None], "before": [2, 4], "change": [None, cell]})
    """

    kind: ClassVar[str] = "inequality"

    def source_columns(self, name: str) -> tuple[str, ...]:
        return (name,)

    def encode(self, cells: Cells) -> Block:
        """Cells as rows of b ≤ A x ≤ c, Eq. (5)."""
        linear: list[LinearRow] = []
        for row in np.flatnonzero(~cells.missing):
            with cells.at(int(row)) if self.unseen == "error" else suppress(Refused):
                value = cells.values[row]
                listed = collection(value)
                if listed is None or isinstance(value, (set, frozenset)):
                    raise Refused(f"{show(value)} is not a list of inequalities", _EXAMPLE)
                is_one = len(listed) == 3 and isinstance(listed[0], Mapping)  # one inequality without a list
                linear += [LinearRow(int(row), *_statement(each)) for each in ((listed,) if is_one else listed)]
        return replace(self.silent(len(cells)), linear=tuple(linear), family="measured")

    def describe(self) -> str:
        return "inequalities between sites"


def _statement(entry: Any) -> tuple[dict[str, float], float, float]:
    parts = collection(entry)
    if parts is None or len(parts) != 3 or not isinstance(parts[0], Mapping):
        raise Refused(f"{show(entry)} is not an inequality", _EXAMPLE)
    coefficients, sign, bound = parts
    found = {str(site): _number(value, "coefficient") for site, value in coefficients.items()}
    found = {site: value for site, value in found.items() if value != 0}
    if not found:
        raise Refused(f"{show(str(entry))} names no site", _EXAMPLE)
    if sign in _AT_LEAST:
        return found, _number(bound, "bound"), np.inf
    if sign in _AT_MOST:
        return found, -np.inf, _number(bound, "bound")
    ends = collection(bound) or ()
    if sign != "in" or len(ends) != 2:
        remedy = 'use ">=", "<=", or "in" with two numbers; equations are not supported'
        raise Refused(f"the sign {show(sign)} is not valid", remedy)
    lower, upper = (_number(end, "bound") for end in ends)
    if not lower < upper:
        problem = f"the interval from {lower:g} to {upper:g} is empty or a point"
        raise Refused(problem, "give a smaller and a larger end")
    return found, lower, upper


def _number(value: Any, what: str) -> float:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise Refused(f"the {what} {show(value)} is not a finite number", "correct it")
    return float(value)
