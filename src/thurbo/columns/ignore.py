"""Outside the paper: columns that are kept out of the model, with what they are there for.

Idea: leaving a column out is a choice with a reason, so it is written in the schema like any other.
Promises no sites, and never to read a cell as an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import as_numbers, show
from thurbo.columns.column import Block, Cells, Column, Family, FloatArray
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Role(Column):
    """A column that says nothing about the sites."""

    family: ClassVar[Family] = "none"

    @property
    def sites(self) -> tuple[str, ...]:
        return ()

    def source_columns(self, name: str) -> tuple[str, ...]:
        return ()

    def fit(self, cells: Cells) -> Self:
        return self

    def encode(self, cells: Cells) -> Block:
        return self.silent(len(cells))

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        return np.full(len(x), None, object)


@dataclass(frozen=True)
class Ignore(Role):
    """Keep a column out of the model, for a `reason` that tables and reports repeat."""

    kind: ClassVar[str] = "ignore"
    reason: str = ""

    def describe(self) -> str:
        return f"left out: {self.reason}" if self.reason else "left out"


@dataclass(frozen=True)
class Id(Role):
    """What a row is called: kept out of the model, and used in messages that name a row."""

    kind: ClassVar[str] = "id"

    def rows(self, cells: Cells) -> NDArray[Any]:
        """Names of the rows; one without a name keeps the label it has: [row]."""
        return np.where(cells.missing, cells.rows.astype(object), cells.values.astype(object))

    def describe(self) -> str:
        return "the name of the row, left out of the model"


@dataclass(frozen=True)
class Weight(Role):
    """How much a row counts: in `fit`, `partial_fit`, `score`, `evaluate` and `segments`, times any `sample_weight`."""

    kind: ClassVar[str] = "weight"

    def weights(self, cells: Cells) -> FloatArray:
        """Numbers of zero or more: [row]; raises at the first cell that holds none."""
        numbers, _ = as_numbers(self.answered(cells))
        bad = ~(np.isfinite(numbers) & (numbers >= 0))
        if bad.any():
            position = int(bad.argmax())
            value = "is missing" if cells.missing[position] else f"{show(cells.values[position])} is no weight"
            remedy = "give every row a finite number of zero or more; zero leaves a row out"
            raise cells.error(position, f"the weight {value}" if cells.missing[position] else value, remedy)
        if not numbers.any():
            problem = "the weight of every row is zero"
            raise SchemaError(problem, column=cells.name, remedy="give at least one row a positive weight")
        return numbers

    def describe(self) -> str:
        return "how much the row counts, left out of the model"
