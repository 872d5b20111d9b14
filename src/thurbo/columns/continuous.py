"""§3.1, point evidence: a measured number fixes its site, x = (T(e) − location) / scale.

Idea: the column standardises in the user's units; the model learns what remains of the scale.
Promises a point for every number, and for a statement the interval it leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from thurbo.columns.cells import Cells, FloatArray
from thurbo.columns.column import Block
from thurbo.columns.measured import MeasuredColumn, Transform
from thurbo.columns.statements import split


@dataclass(frozen=True)
class Continuous(MeasuredColumn):
    """A number, standardised after `transform`: None, "log" (of positive numbers) or "rank-normal" (scores).

    `between`, `at_least` and `at_most` in a cell give an interval in the user's units.
    With `unseen="missing"` a cell that is no finite number, or that "log" cannot take, counts as missing.
    """

    kind: ClassVar[str] = "continuous"
    transform: Transform = None

    def fit(self, cells: Cells) -> Self:
        return self.learn(*numbers_or_intervals(self, cells))

    def encode(self, cells: Cells) -> Block:
        return self.confined(*numbers_or_intervals(self, cells))

    def describe(self) -> str:
        return self.described("a number")


def numbers_or_intervals(column: MeasuredColumn, cells: Cells, least: float = -np.inf) -> tuple[FloatArray, FloatArray]:
    """Both ends of what each cell says in the user's units [row]: equal for a number, infinite where open."""
    numbers_only, stated = split(cells)
    numbers, silent = column.read_numbers(numbers_only, least)
    lower, upper = np.where(silent, -np.inf, numbers), np.where(silent, np.inf, numbers)
    for position, statement in stated.items():
        lower[position], upper[position] = column.read_ends(cells, position, statement)
    return lower, upper
