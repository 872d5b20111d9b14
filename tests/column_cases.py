"""One table that every column must enter; the tests of columns walk it, whatever the data type.

Idea: a case is a column, cells it can read, cuts under which decoding is exact, and a cell it must refuse.
Promises that a new data type is tested by one new line here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thurbo.table.columns import (
    Answered,
    Banded,
    BestWorst,
    Binary,
    Block,
    Bounded,
    Categorical,
    Cells,
    Censored,
    Choice,
    Column,
    Continuous,
    Id,
    Ignore,
    Inequality,
    MultiSelect,
    Ordinal,
    Pairs,
    Ranking,
    Ratings,
    Weight,
    at_least,
    at_most,
    between,
    one_of,
    prefers,
    top_set,
)


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
    parts: dict[str, list[Any]] = field(default_factory=dict)  # where several columns are one question
    loose: bool = False  # cells say less than a full answer, so decoding adds to them

    @property
    def frame(self) -> dict[str, list[Any]]:
        """The columns of a table that the case stands for."""
        return self.parts or {"q": self.cells}

    @property
    def answered(self) -> list[bool]:
        """Which rows hold any answer."""
        return [any(cell is not None for cell in row) for row in zip(*self.frame.values(), strict=True)]

    def read(self, extra: Any = None, name: str = "q", rows: Any = None) -> Cells:
        """The cells, with one more under the question's own name if there is one."""
        more = [] if extra is None else [extra]
        cells = cells_of([*self.cells, *more], name, rows)
        empty = [None] * len(more)
        parts = {part: cells_of([*values, *empty], part, cells.rows) for part, values in self.parts.items()}
        return replace(cells, parts=parts)


CASES = [
    Case(
        "ratings by levels",
        Ratings(),
        [{"a": 1, "b": 3}, None, {"c": 2}],
        (-1.0, 1.0),
        ("a", "b", "c"),
        {"z": 1},
        ('item "z"', "training table"),
    ),
    Case(
        "ratings by numbers",
        Ratings(by="numbers"),
        [{"a": 1.5, "b": -3.0}, None, {"c": 2.25, "a": 9.0}],
        labels=("a", "b", "c"),
        bad={"z": 1.0},
        message=('item "z"',),
        exact=False,
    ),
    Case(
        "orders of few out of many",
        Ratings(by="order"),
        [["b", "a"], None, ["e", "c", "d"]],
        labels=("b", "a", "e", "c", "d"),
        bad=["z", "a"],
        message=('item "z"',),
    ),
    Case(
        "paired comparisons",
        Pairs(),
        [[[["b"], ["a"]]], None, [[["a"], ["c"]]]],
        labels=("a", "b", "c"),
        bad="z > a",
        message=('item "z"', "not one of"),
    ),
    Case(
        "choices",
        Choice(),
        [["a > b = c"], None, [{"shown": ["b", "c", "d"], "chosen": "d"}]],
        labels=("a", "b", "c", "d"),
        bad=[["z"], ["a"]],
        message=('item "z"', "not one of"),
        loose=True,
    ),
    Case(
        "best and worst",
        BestWorst(),
        [[[["a"], ["b"], ["c"]]], None, [[["c"], ["d"], ["a"]]]],
        labels=("a", "b", "c", "d"),
        bad={"shown": ["a", "z"], "best": "z"},
        message=('item "z"', "not one of"),
        loose=True,
    ),
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
    Case(
        "rounded numbers",
        Continuous("rank-normal", rounded=True),
        [0, 0, None, 7, 52, 52],
        bad="many",
        message=('"many"', "not a number"),
        exact=False,
    ),
    Case(
        "rounded decimals",
        Continuous(rounded=True),
        [0.1, -2.5, None, 0.3, 7.0],
        bad=np.inf,
        message=("inf", "infinite"),
        exact=False,
    ),
    Case(
        "rounded logarithms",
        Continuous("log", rounded=True),
        [1, 1, None, 40],
        bad=0,
        message=("0", "logarithm"),
        exact=False,
    ),
    Case(
        "intervals of rounded numbers",
        Continuous("rank-normal", rounded=True),
        [1, 1, between(0, 2), None, at_least(3), at_most(5), 2],
        bad=one_of(1, 2),
        message=("one_of(1, 2)", "number"),
        loose=True,
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
    Case("answered", Answered(columns=["a", "b"]), [True, None, False], (0.0,), (False, True), "maybe", ('"maybe"',)),
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
    Case(
        "intervals of numbers",
        Continuous(),
        [1.0, between(0, 2), None, at_least(3), at_most(5.5), 2.0],
        bad=one_of(1, 2),
        message=("one_of(1, 2)", "number"),
        loose=True,
    ),
    Case(
        "intervals of levels",
        Ordinal(["none", "some", "a lot"]),
        [at_least("some"), "none", None, between("none", "some"), one_of("some", "a lot"), at_most("none")],
        (-1.0, 1.0),
        ("none", "some", "a lot"),
        one_of("none", "a lot"),
        ("one_of(none, a lot)", "between them"),
        loose=True,
    ),
    Case("half levels", Ordinal([0.5, 1.0, 1.5]), [1.5, 0.5, None], (-1.0, 1.0), (0.5, 1.0, 1.5), 0.7, ("0.7",)),
    Case(
        "categories",
        Categorical(),
        ["b", None, "a", "c"],
        labels=("a", "b", "c"),
        bad="B ",
        message=('category "B" is not one of a, b, c', 'did you mean "b"?'),
    ),
    Case("number categories", Categorical(), [3, 1, None], labels=(1, 3), bad=2, message=("category 2",)),
    Case(
        "named categories", Categorical(["x", "y", "z"]), ["z", None], labels=("x", "y", "z"), bad="w", message=('"w"',)
    ),
    Case(
        "ordered categories",
        Categorical(["none", "some", "a lot"], ordered=True),
        ["none", None, "a lot", "some"],
        labels=("none", "some", "a lot"),
        bad="alot",
        message=('category "alot" is not one of none < some < a lot', 'did you mean "a lot"?'),
    ),
    Case(
        "ordered number categories",
        Categorical(names={1: "low", 10: "high"}, ordered=True),
        [10.0, 2.5, None, 1.0, "high", at_least(2), at_most("low")],
        labels=(1, 2.5, 10),
        bad=between(3, 9),
        message=("between(3, 9) contains none of 1 < 2.5 < 10",),
        loose=True,
    ),
    Case(
        "intervals of ordered categories",
        Categorical(["none", "some", "much", "all"], ordered=True, sets="one-of"),
        [
            at_least("some"),
            "none",
            None,
            between("some", "much"),
            one_of("none", "all"),
            ["all", "none"],
            top_set("all"),
        ],
        labels=("none", "some", "much", "all"),
        bad=prefers("some", "none"),
        message=("some > none", "column of categories"),
        loose=True,
    ),
    Case(
        "sets of categories",
        Categorical(["a", "b", "c"]),
        ["a", ["a", "b"], {"b", "c"}, ("c",), None, one_of("a", "c"), top_set("b", "a")],
        labels=("a", "b", "c"),
        bad=["a", "d"],
        message=('category "d"',),
        loose=True,
    ),
    Case(
        "one of some categories",
        Categorical(["a", "b", "c"], sets="one-of"),
        [["a"], ["c", "b"], None, top_set("b", "a")],
        labels=("a", "b", "c"),
        bad=[],
        message=("empty set",),
        loose=True,
    ),
    Case(
        "lists of options",
        MultiSelect(),
        [["b", "a"][::-1], [], None, ["c"]],
        (0.0,),
        ("a", "b", "c"),
        ["bb"],
        ('option "bb" is not one of a, b, c', 'did you mean "b"?'),
    ),
    Case("text options", MultiSelect(), ["a;b", "", None, "c"], (0.5,), ("a", "b", "c"), "a; d", ('option "d"',)),
    Case("one option", MultiSelect([7]), [[7], [], None], (0.0,), (7,), [8], ("option 8",)),
    Case(
        "options by column",
        MultiSelect(columns={"red": "r", "blue": "b"}),
        [None] * 4,
        (0.0,),
        ("red", "blue"),
        "green",
        ('option "green"',),
        parts={"r": [True, False, None, False], "b": [False, True, None, False]},
    ),
    Case(
        "options by label or blank",
        MultiSelect(columns={"red": "r mark", "blue": "b mark"}),
        [None] * 4,
        (0.0,),
        ("red", "blue"),
        prefers("red", "blue"),
        ("red > blue", "options"),
        parts={"r mark": ["red", None, None, "red"], "b mark": [None, "blue!", None, "blue!"]},
    ),
    Case(
        "counted values",
        MultiSelect(columns={1: "m1", 2: "m2"}, ticked=1, names={1: "TV", 2: "Radio"}),
        [None] * 4,
        (0.0,),
        (1, 2),
        "Tele",
        ('option "Tele"',),
        parts={"m1": [1, 2, None, 2], "m2": [2, 1, None, 2]},
    ),
    Case(
        "exclusive columns by label or blank",
        Binary(columns={"Male": "is male", "Female": "is female"}, true="Female"),
        [None] * 4,
        (0.0,),
        ("Male", "Female"),
        "Femal",
        ('"Femal"', 'mean "Female"?'),
        parts={"is male": ["Male", None, None, "Male"], "is female": [None, "Female", None, None]},
    ),
    Case(
        "exclusive columns of 1 and 0",
        Ordinal(["low", "mid", "high"], columns={"high": "h", "low": "l", "mid": "c"}),
        [None] * 4,
        (-1.0, 1.0),
        ("low", "mid", "high"),
        "hihg",
        ('level "hihg"', 'mean "high"?'),
        parts={"h": [1, 0, None, 0], "l": [0, 1, None, 0], "c": [0, 0, None, 1]},
    ),
    Case(
        "exclusive columns, selected or not",
        Categorical(columns={"cat": "cats", "dog": "dogs", "bird": "birds", "none": "untold"}, missing=["none"]),
        [None] * 4,
        labels=("cat", "dog", "bird"),
        bad="bear",
        message=('category "bear" is not one of cat, dog, bird',),
        parts={
            "cats": ["Selected", "Not selected", None, "Not selected"],
            "dogs": ["Not selected", "Selected", None, "Not selected"],
            "birds": ["Not selected", "Not selected", None, "Selected"],
            "untold": ["Not selected", "Not selected", None, "Not selected"],
        },
    ),
    Case(
        "exclusive columns of bands, marked by their own name",
        Banded({"under 30": (None, 30), "30 or more": (30, None)}, columns={"under 30": "young", "30 or more": "old"}),
        [None] * 4,
        labels=("under 30", "30 or more"),
        bad="sixty",
        message=('"sixty" is not one of the bands under 30, 30 or more',),
        parts={"young": ["young", None, None, "young"], "old": [None, "old", None, None]},
    ),
    Case(
        "mentions",
        MultiSelect([1, 2, 3], mentions=["first said", "then said"]),
        [None] * 4,
        (0.0,),
        (1, 2, 3),
        [4],
        ("option 4",),
        parts={"first said": [1, 2, None, 1], "then said": [3, None, None, 2]},
    ),
    Case(
        "text rankings",
        Ranking(),
        ["a > c > b", "b > a > c", None],
        labels=("a", "b", "c"),
        bad="a > bb",
        message=('item "bb" is not one of a, b, c', 'did you mean "b"?'),
    ),
    Case(
        "list rankings",
        Ranking(["a", "b", "c", 4]),
        [[["a"], [4], ["c"]], None, [["b"], ["a"]]],
        labels=("a", "b", "c", 4),
        bad=["a", ["b", "a"]],
        message=('item "a" is ranked twice',),
    ),
    Case(
        "rankings with ties",
        Ranking(["a", "b", "c", "d"], unranked="last"),
        ["a > b = c > d", None, ["a", ["c", "d"]], prefers("a", "b"), top_set("a", "d"), "c = d"],
        labels=("a", "b", "c", "d"),
        bad=between(1, 2),
        message=("between(1, 2)", "Ranking column"),
        loose=True,
    ),
    Case(
        "ranks",
        Ranking(ranks={"a": "first column", "b": "second column", "c": "third column"}),
        [None] * 3,
        labels=("a", "b", "c"),
        bad="a > z",
        message=('item "z"',),
        parts={"first column": [1, 2, None], "second column": [3, 1, None], "third column": [2, None, None]},
    ),
    Case(
        "scores",
        Ranking(scores={"a": "s a", 2: "s 2"}),
        [None] * 3,
        labels=("a", 2),
        bad="a > a",
        message=("ranked twice",),
        parts={"s a": [1, 2, None], "s 2": [2, 1, None]},
    ),
    Case(
        "places",
        Ranking(["a", "b", "c"], places=["first", "second", "third"]),
        [None] * 3,
        labels=("a", "b", "c"),
        bad=["a", "e"],
        message=('item "e"',),
        parts={"first": ["a", "c", None], "second": ["b", "a", None], "third": ["c", "b", None]},
    ),
    Case(
        "named levels",
        Ordinal([1, 2, 3], names={1: "low", 3: "high"}),
        [1, None, 3, 2],
        (-1.0, 1.0),
        (1, 2, 3),
        "hihg",
        ('level "hihg"', 'did you mean "high"?'),
    ),
    Case("named yes", Binary(names={1: "Yes", 2: "No"}), [1, 2, None], (0.0,), (2, 1), "Yess", ('mean "Yes"?',)),
    Case(
        "categories by name",
        Categorical(names={1: "Green", 2: "Red", 7: "None of them"}),
        ["Green", 2, None, one_of("Red", 7)],
        labels=(1, 2, 7),
        bad="Gren",
        message=('category "Gren"', 'mean "Green"?'),
        loose=True,
    ),
    Case(
        "options by name",
        MultiSelect([1, 2], names={1: "TV", 2: "Radio"}),
        ["TV; Radio", "", None, "2"],
        (0.0,),
        (1, 2),
        "TVs",
        ('option "TVs"', 'mean "TV"?'),
        loose=True,
    ),
    Case(
        "items by name",
        Ranking([1, 2, 3], names={1: "a", 2: "b", 3: "c"}),
        ["a > c > b", None, [[2], ["a"]], prefers("c", "a")],
        labels=(1, 2, 3),
        bad="a > d",
        message=('item "d"',),
        loose=True,
    ),
    Case(
        "two ends",
        Bounded(lower="from", upper="to"),
        [None] * 6,
        bad="ten",
        message=('"ten"', "not a number"),
        loose=True,
        parts={"from": [1.0, 2.0, None, None, 5.0, -np.inf], "to": [3.0, 2.0, None, 4.0, None, 7.0]},
    ),
    Case(
        "points of two ends",
        Bounded(lower="begin", upper="end", transform="rank-normal"),
        [None] * 4,
        bad=np.inf,
        message=("inf", "infinite"),
        exact=False,
        parts={"begin": [1.0, None, 3.5, 2.0], "end": [1.0, None, 3.5, 2.0]},
    ),
    Case(
        "give or take one",
        Bounded(center="near", halfwidth=1, transform="log"),
        [None] * 3,
        bad=one_of(1, 2),
        message=("one_of(1, 2)", "number"),
        loose=True,
        parts={"near": [3.0, None, 0.5]},
    ),
    Case(
        "give or take",
        Bounded(center="about", halfwidth="error"),
        [None] * 3,
        bad="x",
        message=('"x"',),
        loose=True,
        parts={"about": [3.0, None, 0.5], "error": [0.0, None, 2]},
    ),
    Case(
        "bands",
        Banded({"> 60": (60, None), "18-29": (18, 30), "30-60": (30, 60)}),
        ["18-29", None, "> 60", "30-60", "18-29"],
        labels=("18-29", "30-60", "> 60"),
        bad="> 65",
        message=('"> 65" is not one of the bands 18-29, 30-60, > 60', 'did you mean "> 60"?'),
    ),
    Case(
        "bands by number",
        Banded({1: (None, 10), 2: (20, 40), 3: (40, None)}, transform="rank-normal", names={1: "few", 3: "many"}),
        [1, None, 3, 2, 2],
        labels=(1, 2, 3),
        bad=4,
        message=("4 is not one of the bands few, 2, many",),
    ),
    Case(
        "bands and more",
        Banded({"low": (0, 10), "middle": (10, 20), "high": (20, None)}, transform="log"),
        ["low", 15, between(5, 12), None, at_least("middle"), at_most(30), one_of("low", "middle"), "17.5"],
        labels=("low", "middle", "high"),
        bad=one_of("low", "high"),
        message=("one_of(low, high)", "between them"),
        loose=True,
    ),
    Case(
        "events",
        Censored("seen"),
        [5.0, 2.0, None, 7.5],
        bad="x",
        message=('"x"', "not a number"),
        loose=True,
        parts={"q": [5.0, 2.0, None, 7.5], "seen": [True, False, None, True]},
    ),
    Case(
        "named events",
        Censored("status", true=2, transform="log"),
        [5.0, None, 7.5, 1.0],
        bad=-1.0,
        message=("-1.0", "logarithm"),
        loose=True,
        parts={"q": [5.0, None, 7.5, 1.0], "status": [2, None, 1, 2]},
    ),
    Case(
        "limits",
        Censored(limits=(0, 100)),
        [5.0, None, 0.0, 100.0, 50.0],
        bad=np.inf,
        message=("inf", "infinite"),
        exact=False,
    ),
    Case(
        "detection limit",
        Censored(limits=(0.5, None), transform="log"),
        [0.0, None, 0.5, 3.0, 50.0, between(1, 2)],
        bad="none",
        message=('"none"', "not a number"),
        loose=True,
    ),
    Case("inequalities", Inequality(), [[({"a": 1, "b": -1}, ">=", 0)], None]),
    Case("left out", Ignore("an identifier"), [1, None, "x"]),
    Case("a name", Id(), ["R_1", None, 3]),
    Case("a weight", Weight(), [1.0, None, 0.5]),
]


def cells_of(values: list[Any], name: str = "q", rows: Any = None) -> Cells:
    """Cells straight from Python values, rows named from 10 on unless told."""
    missing = np.asarray([value is None or (isinstance(value, float) and value != value) for value in values], bool)
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    labels = np.arange(10, 10 + len(values)) if rows is None else np.asarray(rows)
    return Cells(name, array, missing, labels)


def inside(block: Block, cuts: tuple[float, ...]) -> np.ndarray:
    """Latent values that satisfy a block: a point or middle of an interval, the middle between cuts, the tiers.

    [row, site]; of lists NaN where a row does not list an item.
    """
    return as_table(block, _inside(block, cuts), np.nan)


def as_table(block: Block, lines: np.ndarray, nothing: float) -> np.ndarray:
    """Values [line, site] as [row, site], in both layouts."""
    if block.entries is None:
        return lines
    found = np.full((block.n_rows, len(block.sites)), nothing, lines.dtype)
    found[block.entries.row, block.entries.site] = lines[:, 0]
    return found


def _inside(block: Block, cuts: tuple[float, ...]) -> np.ndarray:
    if block.n_cuts == 0:
        ends = np.clip(block.lower, -9, 9), np.clip(block.upper, -9, 9)
        alone = np.where(block.point, block.lower, np.where(block.observed, sum(ends) / 2, np.nan))
        return np.where(block.tier >= 0, block.tier.astype(float), alone)
    edges = np.concatenate([[cuts[0] - 2], cuts, [cuts[-1] + 2]])
    middle = (edges[1:] + edges[:-1]) / 2
    return np.where(block.code >= 0, middle[block.code], np.nan)


def decoded(column: Column, block: Block, cuts: tuple[float, ...]) -> dict[str, Any]:
    """The columns of a table that latent values inside a block stand for."""
    n_sites = len(block.sites)
    own = np.tile(np.asarray(cuts, float)[None, :], (n_sites, 1))
    found = column.decode_columns("q", inside(block, cuts), own, np.ones(n_sites))
    return {name: values.tolist() for name, values in found.items()}


def round_trip(case: Case) -> dict[str, Any]:
    column = case.column.fit(case.read())
    return decoded(column, column.encode(case.read()), case.cuts)


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def several(column: Column, **parts: list[Any]) -> Block:
    """A column that is made of several, fitted and encoded."""
    n_rows = len(next(iter(parts.values())))
    cells = replace(cells_of([None] * n_rows), parts={name: cells_of(values, name) for name, values in parts.items()})
    return column.fit(cells).encode(cells)
