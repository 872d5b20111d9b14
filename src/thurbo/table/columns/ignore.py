"""Not in the paper: columns that are not part of the model, and their role in the table.

A column is left out explicitly, in the schema, with a reason.
These columns have no sites, and their cells are never read as answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, Cells, Family, FloatArray, as_numbers
from thurbo.table.columns.column import Column, Measure, Role
from thurbo.table.columns.values import show


@dataclass(frozen=True)
class Unmodelled(Column):
    """A column without sites: its cells do not constrain the model."""

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
    unseen : {"error", "missing"}, default="error"
        Not used.
    missing : dict or list, optional
        Values that mean "no answer".
    recode : dict, optional
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
    unseen : {"error", "missing"}, default="error"
        Not used.
    missing : dict or list, optional
        Values that mean "no name".
    recode : dict, optional
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
    unseen : {"error", "missing"}, default="error"
        Not used.
    missing : dict or list, optional
        Values that mean "no weight".
    recode : dict, optional
        Values that are read as another value, such as {"Y": "Yes"}; the table is not changed.

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
            value = "is missing" if cells.missing[position] else f"{show(cells.values[position])} is not a weight"
            remedy = "give every row a finite number of zero or more; zero leaves a row out"
            raise cells.error(position, f"the weight {value}" if cells.missing[position] else value, remedy)
        if not numbers.any():
            problem = "the weight of every row is zero"
            raise SchemaError(problem, column=cells.name, remedy="give at least one row a positive weight")
        return numbers

    def describe(self) -> str:
        return "how much the row counts, left out of the model"
