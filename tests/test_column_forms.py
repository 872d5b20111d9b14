"""§3.2: what categories, options, rankings and inequalities say, form by form.

Idea: small tables of cells beside the tiers, codes or inequalities that they must become.
Promises that ties are not compared, that unranked items are absent or last, and that a circle is refused.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.column_cases import Case, cells_of, inside, round_trip, several
from thurbo.errors import InfeasibleEvidence
from thurbo.table.columns import (
    Categorical,
    Column,
    Continuous,
    Inequality,
    MultiSelect,
    Ordinal,
    Ranking,
    one_of,
    prefers,
    top_set,
)
from thurbo.table.columns.statements import OrderStatement
from thurbo.table.io import frames
from thurbo.table.io.frames import library_of
from thurbo.table.schema.schema import Schema


def test_blocks_of_levels_and_numbers_hold_no_tiers_in_memory() -> None:
    for column, values in ((Continuous(), [1.0, 2.0]), (Ordinal([1, 2]), [1, 2])):
        block = column.fit(cells_of(values)).encode(cells_of(values))
        assert block.tier.strides == (0, 0)
        assert block.code_high is block.code
        assert not block.has_tiers


def test_a_set_is_on_top_or_holds_the_answer() -> None:
    cells = cells_of(["b", ["a", "b"], one_of("a", "b"), top_set("a", "b"), ["a", "b", "c"], one_of("c"), None])
    for sets, expected in (("top", [0, 0, 1, 0, 0, 0, 0]), ("one-of", [0, 1, 1, 0, 0, 0, 0])):
        block = Categorical(["a", "b", "c"], sets=sets).encode(cells)
        assert block.one_of.tolist() == [bool(flag) for flag in expected]
        pair, nothing = [1, 1, 0], [-1, -1, -1]
        assert block.tier.tolist() == [[0, 1, 0], pair, pair, pair, nothing, [0, 0, 1], nothing]


def test_categories_stand_in_the_frames_own_order() -> None:
    cells = replace(cells_of(["b", "a"]), ordered_levels=("z", "b", "a"))
    assert Categorical().fit(cells).labels == ("z", "b", "a")
    assert Categorical().fit(cells_of([2.0, "b", 1.0, "a"])).labels == (1, 2, "a", "b")


def test_the_largest_utility_is_decoded() -> None:
    column = Categorical([1, 2, 3])
    x = np.asarray([[0.0, 2.0, 1.0], [5.0, 1.0, 1.0], [np.nan] * 3])
    np.testing.assert_equal(column.decode(x, np.zeros((3, 0)), np.ones(3)).tolist(), [2.0, 1.0, math.nan])
    assert column.decode(x[:2], np.zeros((3, 0)), np.ones(3)).dtype == np.int64


def test_ticked_none_is_not_the_same_as_not_asked() -> None:
    column = MultiSelect(["a", "b"])
    cells = cells_of([[], None, "", {"a": True}, {"b": False, "a": None}, "b ; a;"])
    assert column.encode(cells).code.tolist() == [[0, 0], [-1, -1], [0, 0], [1, -1], [-1, 0], [1, 1]]
    assert MultiSelect(["a", "b"], unseen="missing").encode(cells_of([["a", "z"], ["z"]])).code.tolist() == [
        [1, 0],
        [-1, -1],
    ]


@pytest.mark.parametrize(
    ("x", "y", "expected", "blank"),
    [
        ([1, 0, None], [0, None, None], [[1, 0], [0, -1], [-1, -1]], "unasked"),
        (["Yes", "No", None], ["No", None, "Yes"], [[1, 0], [0, -1], [-1, 1]], "unasked"),
        ([1, None, None], [None, 1, None], [[1, 0], [0, 1], [-1, -1]], "unticked"),
        (["A", None, ""], ["B!", "B!", None], [[1, 1], [0, 1], [-1, -1]], "unticked"),
        ([True, None, None], [None, None, None], [[1, 0], [-1, -1], [-1, -1]], "unticked"),
    ],
)
def test_a_blank_is_not_ticked_or_not_asked(x: list[Any], y: list[Any], expected: Any, blank: str) -> None:
    column = MultiSelect(columns={"A": "x", "B": "y"})
    cells = replace(cells_of([None] * 3), parts={"x": cells_of(x, "x"), "y": cells_of(y, "y")})
    assert column.fit(cells).blank == blank
    assert column.fit(cells).encode(cells).code.tolist() == expected
    lacking = replace(cells, parts={"x": cells.parts["x"]})
    assert column.fit(cells).encode(lacking).code[:, 1].tolist() == [-1] * 3, "a column that is not there is not asked"


@pytest.mark.parametrize(
    ("ticked", "x", "y", "expected"),
    [
        (1, [1, 2, 2], [2, 1, None], [[1, 0], [0, 1], [0, -1]]),
        (1, [1, None, None], [None, 1, None], [[1, 0], [0, 1], [-1, -1]]),
        (0, [0, None, None], [None, 0, None], [[1, 0], [0, 1], [-1, -1]]),
        (1, [1, 0, 5], [3, 1, 1], [[1, 0], [0, 1], [0, 1]]),
        ("x", ["x", "", ""], ["", "x", None], [[1, 0], [0, 1], [-1, -1]]),
        ("Yes", ["Yes", "No", "Unsure"], ["No", "Yes", "Yes"], [[1, 0], [0, 1], [0, 1]]),
    ],
)
def test_one_value_counts_whatever_the_others_are(ticked: Any, x: list[Any], y: list[Any], expected: Any) -> None:
    assert several(MultiSelect(columns={"A": "x", "B": "y"}, ticked=ticked), x=x, y=y).code.tolist() == expected


def test_mentions_in_any_order_tick_their_options() -> None:
    parts = {"x": [3, "", 1, None, 2.0], "y": [1, None, 1, None, "Radio"], "z": [None, 3, None, None, "TV"]}
    column = MultiSelect(mentions=["x", "y", "z"], names={1: "TV", 2: "Radio", 3: "Net", 4: "Press"})
    expected = [[1, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0], [-1] * 4, [1, 1, 0, 0]]
    assert several(column, **parts).code.tolist() == expected
    fitted = MultiSelect([1, 2, 3, 4], mentions=["x", "y"])
    x = np.asarray([[0.5, 2.0, -1.0, 1.0], [-1.0] * 4, [np.nan] * 4])
    found = fitted.decode_columns("q", x, np.zeros((4, 1)), np.ones(4))
    np.testing.assert_equal({name: each.tolist() for name, each in found.items()}, {"x": [2, *NO], "y": [4, *NO]})


NO = [math.nan, math.nan]


@pytest.mark.parametrize("sep", [";", ",", "|", ", ", "::", "/"])
def test_options_are_separated_by_whatever_is_said(sep: str) -> None:
    cells = cells_of([sep.join(["a", "b c"]), "b c", "", None])
    column = MultiSelect(sep=sep).fit(cells)
    assert column.labels == ("a", "b c")
    assert column.encode(cells).code.tolist() == [[1, 1], [0, 1], [0, 0], [-1, -1]]


RANKINGS: list[tuple[Column, dict[str, list[Any]], list[list[int]]]] = [
    (Ranking(ranks={"a": "x", "b": "y", "c": "z"}), {"x": [1, 9], "y": [3, 9], "z": [1, 2]}, [[1, 0, 1], [0, 0, 1]]),
    (Ranking(scores={"a": "x", "b": "y", "c": "z"}), {"x": [1], "y": [3], "z": [None]}, [[0, 1, -1]]),
    (
        Ranking(unranked="last", scores={"a": "x", "b": "y", "c": "z"}),
        {"x": [1, None], "y": [3, None], "z": [None, None]},
        [[1, 2, 0], [-1, -1, -1]],
    ),
    (
        Ranking(["a", "b", "c", "d"], places=["x", "y"]),
        {"x": ["c", "a"], "y": ["a", None]},
        [[1, 0, 2, 0], [1, 0, 0, 0]],
    ),
    # Second place is empty: third is lower than first, as all others are, and not compared with them.
    (Ranking(["a", "b", "c", "d"], places=["x", "y", "z"]), {"x": ["a"], "y": [None], "z": ["b"]}, [[1, 0, 0, 0]]),
    (Ranking(["a", "b", "c"], places=["x", "y"]), {"x": [None], "y": ["b"]}, [[-1, -1, -1]]),
    (Ranking(["a", "b", "c"], "absent", places=["x", "y", "z"]), {"x": ["a"], "y": [""], "z": ["b"]}, [[1, 0, -1]]),
    (Ranking(places=["x", "y"]), {"x": ["b", "a"], "y": ["a", "b"]}, [[0, 1], [1, 0]]),
    # Codes with names, as SPSS exports places; a place may also hold the name.
    (
        Ranking(places=["x", "y"], names={1: "tax", 2: "health", 3: "trade"}),
        {"x": [2, "tax"], "y": [3.0, None]},
        [[0, 2, 1], [1, 0, 0]],
    ),
    (Ranking(ranks={"a": "x", "b": "y"}), {"x": ["1", "2"], "y": [2, "1"]}, [[1, 0], [0, 1]]),
    (Ranking(scores={"a": "x", "b": "y", "c": "z"}), {"x": [7], "y": [7], "z": [0.5]}, [[1, 1, 0]]),
]


@pytest.mark.parametrize(("column", "parts", "expected"), RANKINGS)
def test_rankings_from_several_columns(column: Column, parts: dict[str, list[Any]], expected: Any) -> None:
    assert several(column, **parts).tier.tolist() == expected


@pytest.mark.parametrize(
    ("cell", "absent", "last"),
    [
        ("a > b = c", [1, 0, 0, -1], [2, 1, 1, 0]),
        ("d", [-1, -1, -1, 0], [0, 0, 0, 1]),
        (["b", ("c", "d"), "a"], [0, 2, 1, 1], [0, 2, 1, 1]),
        ([["b"], np.asarray(["a"])], [0, 1, -1, -1], [1, 2, 0, 0]),
        ("", [-1] * 4, [-1] * 4),
        ([], [-1] * 4, [-1] * 4),
        (prefers("d", "a"), [0, -1, -1, 1], [0, -1, -1, 1]),
        (top_set("d", "a"), [1, 0, 0, 1], [1, 0, 0, 1]),
    ],
)
def test_items_that_are_not_ranked_are_absent_or_last(cell: Any, absent: list[int], last: list[int]) -> None:
    items = ["a", "b", "c", "d"]
    assert Ranking(items).encode(cells_of([cell])).tier.tolist() == [absent]
    assert Ranking(items, unranked="last").encode(cells_of([cell])).tier.tolist() == [last]


def test_items_all_tied_take_part_and_are_not_confined() -> None:
    block = Ranking(["a", "b", "c"]).encode(cells_of(["a = b", "a > b"]))
    assert block.takes_part.tolist() == [[True, True, False]] * 2
    assert block.observed.tolist() == [[False] * 3, [True, True, False]]


def test_an_unknown_item_leaves_the_others_ranked_where_asked() -> None:
    column = Ranking(["a", "b"], unseen="missing")
    assert column.encode(cells_of(["a > z > b", "z", ["z", "b", "b"]])).tier.tolist() == [[1, 0], [-1, -1], [-1, -1]]


def test_a_cell_under_the_own_name_takes_the_place_of_the_columns() -> None:
    column = Ranking(ranks={"a": "x", "b": "y"})
    parts = {"x": cells_of([1, 1], "x"), "y": cells_of([2, 2], "y")}
    block = column.encode(replace(cells_of([None, prefers("b", "a")]), parts=parts))
    assert block.tier.tolist() == [[1, 0], [0, 1]]


def test_preferences_are_tiers_where_they_make_one_order_and_pairs_otherwise() -> None:
    column = Ranking(["a", "b", "c", "d"])
    chain = [prefers("a", "b"), prefers("b", "c"), prefers("a", "c")]
    fork = [prefers("a", "c"), prefers("b", "c")]
    apart = [prefers("a", "b"), prefers("c", "d")]
    block = column.encode(cells_of([chain, fork, apart, None]))
    assert block.tier.tolist() == [[2, 1, 0, -1], [1, 1, 0, -1], [-1] * 4, [-1] * 4]
    assert [each[:2] for each in block.linear] == [(2, {"q.a": 1.0, "q.b": -1.0}), (2, {"q.c": 1.0, "q.d": -1.0})]
    assert all((each.lower, each.upper) == (0.0, math.inf) for each in block.linear)


@pytest.mark.parametrize("unseen", ["error", "missing"])
def test_preferences_in_a_circle_are_refused(unseen: Any) -> None:
    circle = [prefers("a", "b"), prefers("b", "c"), prefers("c", "a")]
    with pytest.raises(InfeasibleEvidence, match=r'row 11, column "q".*a > b > c > a') as caught:
        Ranking(["a", "b", "c", "d"], unseen=unseen).encode(cells_of([None, [*circle, prefers("a", "d")]]))
    assert caught.value.remedy


def test_an_item_above_itself_is_a_circle() -> None:
    with pytest.raises(InfeasibleEvidence, match="b > b"):
        Ranking(["a", "b"]).encode(cells_of([OrderStatement((("a", "b"), ("b",)))]))


def test_a_long_order_is_one_order() -> None:
    items = [f"item {place}" for place in range(3000)]
    tier = Ranking(items).encode(cells_of([OrderStatement(tuple((item,) for item in items))])).tier
    assert tier[0].tolist() == list(range(3000))[::-1]


def test_inequalities_are_read_as_they_stand() -> None:
    cells = cells_of([({"a": 1, "b": -2.5}, ">=", 1), None, [({"a": 1}, "<=", 0), ({"b": 1, "c": 0}, "in", (0, 2))]])
    assert [tuple(each) for each in Inequality().encode(cells).linear] == [
        (0, {"a": 1.0, "b": -2.5}, 1.0, math.inf),
        (2, {"a": 1.0}, -math.inf, 0.0),
        (2, {"b": 1.0}, 0.0, 2.0),
    ]
    assert not Inequality(unseen="missing").encode(cells_of(["a"])).linear


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_ranking_round_trips(data: Any) -> None:
    """Every order that x satisfies decodes to the items of the cell, in an order that x satisfies."""
    items = data.draw(
        st.lists(st.text("abcxyz 0123", min_size=1, max_size=4).map(str.strip).filter(bool), min_size=2, unique=True)
    )
    tier = data.draw(st.lists(st.none() | st.integers(0, 3), min_size=len(items), max_size=len(items)))
    groups = [[item for item, each in zip(items, tier, strict=True) if each == level] for level in (3, 2, 1, 0)]
    groups = [group for group in groups if group]
    text = " > ".join(" = ".join(group) for group in groups)
    block = Ranking(items).encode(cells_of([groups, text, None]))
    np.testing.assert_array_equal(block.tier[0], block.tier[1])
    for form in ("text", "lists"):
        column = Ranking(items, cell_format=form)
        x = inside(block, ()) + 0.1 * np.linspace(0, 1, len(items))
        again = column.encode(cells_of(column.decode(x, np.zeros((len(items), 0)), np.ones(len(items))).tolist()))
        np.testing.assert_array_equal(again.tier >= 0, block.tier >= 0)
        above = block.tier[:, :, None] > block.tier[:, None, :]
        known = (block.tier >= 0)[:, :, None] & (block.tier >= 0)[:, None, :]
        assert np.all((again.tier[:, :, None] > again.tier[:, None, :])[above & known])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_options_and_categories_round_trip(data: Any) -> None:
    labels = data.draw(
        st.lists(st.text("abc 01", min_size=1, max_size=4).map(str.strip).filter(bool), min_size=2, unique=True)
    )
    ticks = data.draw(st.lists(st.none() | st.lists(st.sampled_from(labels), unique=True), min_size=1))
    ticks = [None if row is None else sorted(row, key=labels.index) for row in ticks]
    assert round_trip(Case("any", MultiSelect(labels), ticks, (0.3,)))["q"] == ticks
    chosen = data.draw(st.lists(st.none() | st.sampled_from(labels), min_size=1))
    assert round_trip(Case("any", Categorical(labels), chosen))["q"] == chosen


def test_a_hundred_thousand_rankings_take_about_a_second() -> None:
    numbers = np.random.default_rng(0).integers(1, 6, (10**5, 10))
    names = [f"r{j}" for j in range(10)]
    whole = np.zeros(10**5, bool)
    cells = cells_of([None] * 10**5)
    parts = {name: type(cells)(name, numbers[:, j], whole, cells.rows) for j, name in enumerate(names)}
    start = time.perf_counter()
    block = Ranking(scores={name: name for name in names}).encode(replace(cells, parts=parts))
    assert block.observed.any(axis=1).mean() > 0.99
    assert time.perf_counter() - start < 5


MAKERS: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}


@pytest.mark.parametrize("library", MAKERS)
def test_lists_come_from_every_library_and_go_back(library: str) -> None:
    frame = MAKERS[library](
        {
            "seen": [["a", "b"], ["b", "a"], None, []],
            "films": [[["A"], ["B", "C"]], [["C"], ["A"]], None, [["B"]]],
            "text": ["A > B = C", "C > A", None, "B"],
        }
    )
    schema = Schema({"seen": MultiSelect(), "films": Ranking(), "text": Ranking()}).fit(frame)
    blocks = schema.compile(frame)
    assert blocks["seen"].code.tolist() == [[1, 1], [1, 1], [-1, -1], [0, 0]]
    assert blocks["films"].tier.tolist() == blocks["text"].tier.tolist()
    x = np.asarray([[3.0, 2.0, 1.0]] * 4)
    found = schema["seen"].decode_columns("seen", x[:, :2], np.full((2, 1), 2.5), np.ones(2))
    found |= schema["films"].decode_columns("films", x, np.zeros((3, 0)), np.ones(3))
    found |= schema["text"].decode_columns("text", x, np.zeros((3, 0)), np.ones(3))
    filled = schema.compile(frames.replace_cells(frame, found))
    assert filled["seen"].code.tolist() == [[1, 1], [1, 1], [1, 0], [0, 0]]
    assert filled["films"].tier.tolist() == filled["text"].tier.tolist()
    assert filled["films"].tier[2].tolist() == [2, 1, 0]
    for new in (frames.like(frame, found), frames.frame(library_of(frame), found)):
        assert schema.compile(new)["seen"].code.tolist() == [[1, 0]] * 4
        assert schema.compile(new)["films"].tier.tolist() == [[2, 1, 0]] * 4
