"""§3.1, point evidence: a number e fixes its site, x = (T(e) − location) / scale.

The column standardises numbers; the model learns the remaining scale.
A number is a point; a statement such as `at_least` is an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.cells import Cells, FloatArray
from thurbo.columns.measured import MeasuredColumn, Transform
from thurbo.columns.statements import split


@dataclass(frozen=True)
class Continuous(MeasuredColumn):
    """A number e with a normal latent variable, x = (T(e) − location) / scale.

    Parameters
    ----------
    transform : {None, "log", "rank-normal"}, default=None
        T: the identity, the logarithm of positive numbers, or a monotone map to normal scores. Use "log" or
        "rank-normal" for skewed numbers.
    location, scale : float, optional
        Mean and standard deviation of T(e). `fit` sets them.
    knots, scores : tuple of float, optional
        Points of the "rank-normal" map. `fit` sets them.
    decimals : int, optional
        Decimals of predicted numbers. `fit` sets them to those of the training cells, unless they are given.
    lowest, highest : float, optional
        Range of predicted numbers. `fit` widens it to what was observed.
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is not a finite number, or not positive for "log".
    missing : dict or list, optional
        Values that mean "no answer", such as {-1: "Refused"}.
    parse : {None, "number", "percent", "currency", "decimal-comma", "date", "date-dmy"}, default=None
        How numbers are written in cells of text: "about 7", "7 hrs" or "1,200" (number), "32 %" is 32 (percent),
        "$1.5k" (currency), "1.234,50" (decimal-comma), dates as days since 1970-01-01 (date-dmy: the day first).
    recode : dict, optional
        Values that are read as another value, such as {"Y": "Yes"}; the table is not changed.

    Notes
    -----
    A cell is a number, `between`, `at_least` or `at_most` in the user's units.

    Examples
    --------
    >>> import thurbo as tb
    >>> schema = tb.Schema({"age": tb.Continuous()}).fit({"age": [20, 40, tb.at_least(60), None]})
    >>> schema["age"].location
    40.0
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
    """Lower and upper end of each cell in the user's units [row]: equal for a number, infinite if open."""
    numbers_only, stated = split(cells)
    numbers, silent = column.read_numbers(numbers_only, least)
    lower, upper = np.where(silent, -np.inf, numbers), np.where(silent, np.inf, numbers)
    for position, statement in stated.items():
        lower[position], upper[position] = column.read_ends(cells, position, statement)
    return lower, upper
