"""Outside the paper: a column that is kept out of the model.

Idea: leaving a column out is a choice with a reason, so it is written in the schema like any other.
Promises no sites, and never to read a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.base import Block, Cells, Column, Family, FloatArray


@dataclass(frozen=True)
class Ignore(Column):
    """Keep a column out of the model, for a `reason` that tables and reports repeat."""

    kind: ClassVar[str] = "ignore"
    family: ClassVar[Family] = "none"
    reason: str = ""

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

    def describe(self) -> str:
        return f"left out: {self.reason}" if self.reason else "left out"
