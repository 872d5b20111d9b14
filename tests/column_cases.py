"""One table that every column must enter; the tests of columns walk it, whatever the data type.

Idea: a case is a column, cells it can read, cuts under which decoding is exact, and a cell it must refuse.
Promises that a new data type is tested by one new line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thurbo.columns import Binary, Cells, Column, Continuous, Ignore, Ordinal


@dataclass(frozen=True)
class Case:
    name: str
    column: Column
    cells: list[Any]  # None = missing; at least one is
    cuts: tuple[float, ...] = ()
    labels: tuple[Any, ...] = ()
    bad: Any = None  # a cell that must be refused ...
    message: tuple[str, ...] = ()  # ... with these parts, beside row and column
    exact: bool = True  # decoding gives the same values, not only near ones


CASES = [
    Case(
        "numbers",
        Continuous(),
        [3.5, None, -2.0, 10.25],
        bad=np.inf,
        message=("inf", "infinite"),
        exact=False,
    ),
    Case(
        "whole numbers",
        Continuous(),
        [3, None, -2, 10],
        bad="ten",
        message=('"ten"', "not a number"),
        exact=False,
    ),
    Case("constant", Continuous(), [7.0, 7.0, None], bad="x", message=('"x"',), exact=False),
    Case(
        "log",
        Continuous("log"),
        [1.0, None, 100.0, 0.01],
        bad=-1.0,
        message=("-1.0", "logarithm"),
        exact=False,
    ),
    Case(
        "ranks",
        Continuous("rank-normal"),
        [5.0, None, 1.0, 1.0, 900.0],
        bad=-np.inf,
        message=("-inf",),
        exact=False,
    ),
    Case("one rank", Continuous("rank-normal"), [5.0, None], bad="five", message=('"five"',), exact=False),
    Case("booleans", Binary(), [True, None, False], (0.0,), (False, True), bad="maybe", message=('"maybe"',)),
    Case(
        "yes and no",
        Binary(),
        ["Yes", "No", None],
        (0.3,),
        ("No", "Yes"),
        "yess",
        ('"yess"', '"No"', '"Yes"'),
    ),
    Case("named true", Binary(true="a"), ["a", "b", None], (-2.0,), ("b", "a"), "c", ('"c"',)),
    Case("zero and one", Binary(), [0, 1, None], (0.0,), (0, 1), 2, ("2",)),
    Case("only one value", Binary(), ["YES", None], (0.0,), ("NO", "YES"), "no", ('"no"',)),
    Case(
        "text levels",
        Ordinal(["none", "some", "a lot"]),
        ["none", None, "a lot", "some"],
        (-1.0, 1.0),
        ("none", "some", "a lot"),
        "alot",
        ('level "alot" is not one of none < some < a lot', 'did you mean "a lot"?'),
    ),
    Case("number levels", Ordinal(), [3, 1, None, 7], (-1.0, 1.0), (1, 3, 7), 2, ("level 2", "1 < 3 < 7")),
    Case("half levels", Ordinal([0.5, 1.0, 1.5]), [1.5, 0.5, None], (-1.0, 1.0), (0.5, 1.0, 1.5), 0.7, ("0.7",)),
    Case("left out", Ignore("an identifier"), [1, None, "x"]),
]


def cells_of(values: list[Any], name: str = "q", rows: Any = None) -> Cells:
    """Cells straight from Python values, rows named from 10 on unless told."""
    missing = np.asarray([value is None for value in values], bool)
    array = np.empty(len(values), object)
    array[:] = values
    labels = np.arange(10, 10 + len(values)) if rows is None else np.asarray(rows)
    return Cells(name, array, missing, labels)
