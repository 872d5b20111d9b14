"""Statements: what may stand in a cell or a query beside a value, and how the command line writes it.

Idea: the same words for every column; a statement and the cell that it generalises say the same.
Promises that levels left open are a range of codes, and that an interval is in the user's units.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thurbo as tb
from tests.column_cases import cells_of
from thurbo.errors import SchemaError
from thurbo.table.columns import Binary, Continuous, Ordinal, parse_given
from thurbo.table.columns.statements import Interval, OneOfStatement, OrderStatement

LEVELS = Ordinal(["none", "some", "much", "all"])
RATING = Ordinal([1, 2, 4])

RANGES: list[tuple[Any, Any, tuple[int, int]]] = [
    (LEVELS, tb.between("some", "much"), (1, 2)),
    (LEVELS, tb.between("some", "some"), (1, 1)),
    (LEVELS, tb.at_least("much"), (2, 3)),
    (LEVELS, tb.at_most("none"), (0, 0)),
    (LEVELS, tb.at_most("all"), (-1, -1)),
    (LEVELS, tb.one_of("much", "some"), (1, 2)),
    (LEVELS, tb.one_of("all"), (3, 3)),
    (LEVELS, tb.one_of("none", "some", "much", "all"), (-1, -1)),
    (RATING, tb.at_least(1.5), (1, 2)),
    (RATING, tb.between(2, 3.5), (1, 1)),
    (Binary(values=("no", "yes")), tb.one_of("yes"), (1, 1)),
    (Binary(values=("no", "yes")), tb.one_of("yes", "no"), (-1, -1)),
]


@pytest.mark.parametrize(("column", "statement", "expected"), RANGES)
def test_levels_left_open_are_a_range(column: Any, statement: Any, expected: tuple[int, int]) -> None:
    block = column.encode(cells_of([statement]))
    assert (block.code.item(), block.code_high.item()) == expected
    assert block.observed.item() == (expected[0] >= 0)


@pytest.mark.parametrize("transform", [None, "log", "rank-normal"])
def test_an_interval_is_in_the_users_units(transform: Any) -> None:
    values = [1.0, 2.0, 5.0, 9.0]
    column = Continuous(transform).fit(cells_of(values))
    cells = cells_of([tb.between(2, 5), tb.at_least(2), tb.at_most(5), tb.between(5, 5), 5.0])
    block = column.encode(cells)
    two, five = column.to_standard(np.asarray([2.0, 5.0]))
    np.testing.assert_allclose(block.lower[:, 0], [two, two, -math.inf, five, five])
    np.testing.assert_allclose(block.upper[:, 0], [five, math.inf, five, five, five])
    assert block.point[:, 0].tolist() == [False, False, False, True, True]
    assert block.log_jacobian[:3].tolist() == [0, 0, 0]
    assert block.log_jacobian[3] == block.log_jacobian[4]


def test_a_lower_end_without_logarithm_is_no_end() -> None:
    column = Continuous("log").fit(cells_of([1.0, 2.0]))
    assert column.encode(cells_of([tb.between(0, 1)])).lower.item() == -math.inf
    assert not column.encode(cells_of([tb.at_least(-3)])).observed.any()


def test_a_column_of_intervals_finds_its_unit() -> None:
    column = Continuous().fit(cells_of([tb.between(10, 20), tb.between(30, 40), tb.at_least(35), None]))
    assert column.standard == pytest.approx((85 / 3, np.std([15, 35, 35])))


@settings(max_examples=50, deadline=None)
@given(ends=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), transform=st.sampled_from([None, "rank-normal"]))
def test_any_interval_holds_what_lies_inside(ends: list[float], transform: Any) -> None:
    lower, upper = sorted(ends)
    column = Continuous(transform).fit(cells_of([-500.0, 3.0, 4.0, 800.0]))
    block = column.encode(cells_of([tb.between(lower, upper), (lower + upper) / 2]))
    assert block.lower[0, 0] <= block.lower[1, 0] <= block.upper[0, 0]


@pytest.mark.parametrize(
    "make", [pd.DataFrame, dict, lambda d: pl.DataFrame({k: pl.Series(v, dtype=pl.Object) for k, v in d.items()})]
)
def test_statements_stand_in_cells_of_any_table(make: Any) -> None:
    frame = make(
        {
            "age": [30, tb.at_least(60), None],
            "trust": [tb.between("some", "much"), "all", None],
            "party": [tb.one_of("Green", "Red"), "Blue", None],
            "films": [tb.prefers("A", "B"), [tb.prefers("A", "C"), tb.prefers("B", "C")], None],
        }
    )
    parties = ["Red", "Green", "Blue"]
    columns = {
        "age": tb.Continuous(),
        "trust": LEVELS,
        "party": tb.Categorical(parties),
        "films": tb.Ranking(["A", "B", "C"]),
    }
    blocks = tb.Schema(columns).fit(frame).compile(frame)
    assert blocks["age"].point[:, 0].tolist() == [True, False, False]
    assert blocks["trust"].code_high[:, 0].tolist() == [2, 3, -1]
    assert blocks["party"].tier.tolist() == [[1, 1, 0], [0, 0, 1], [-1, -1, -1]]
    assert blocks["party"].one_of.tolist() == [True, False, False]
    assert blocks["films"].tier.tolist() == [[1, 0, -1], [1, 1, 0], [-1, -1, -1]]


BAD: list[tuple[Any, str]] = [
    (lambda: tb.between(3, 2), "wrong order"),
    (lambda: tb.between(1, None), "not a finite number"),
    (lambda: tb.at_least(math.nan), "not a finite number"),
    (lambda: tb.at_most([1]), "not a finite number"),
    (lambda: tb.one_of(), "has no values"),
    (lambda: tb.top_set([]), "has no values"),
    (lambda: tb.prefers("a", "a "), "one item twice"),
    (lambda: parse_given("nonsense"), "cannot be read"),
    (lambda: parse_given(">= 3"), "cannot be read"),
    (lambda: parse_given("age >="), "not complete"),
    (lambda: parse_given("age in [1, 2, 3]"), "no interval"),
    (lambda: parse_given("age in [1, 2"), "no interval"),
    (lambda: parse_given("agee >= 3", {"age": Continuous()}), 'did you mean "age"?'),
]


@pytest.mark.parametrize(("make", "problem"), BAD)
def test_bad_statements_are_explained(make: Any, problem: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    assert problem in str(caught.value)
    assert caught.value.remedy


def test_statements_are_values() -> None:
    assert tb.one_of(["a", "b"]) == tb.one_of("a", "b ") == OneOfStatement(("a", "b"))
    assert {tb.between(np.int64(1), 2), tb.between(1, 2)} == {Interval(1, 2)}
    shown = (tb.at_least(3), tb.at_most(4), tb.between(1, 2), tb.one_of(1, 2), tb.top_set("a"), tb.prefers("a", "b"))
    assert list(map(str, shown)) == [
        "at_least(3)",
        "at_most(4)",
        "between(1, 2)",
        "one_of(1, 2)",
        "top_set(a)",
        "a > b",
    ]


GIVEN: list[tuple[str, tuple[str, Any]]] = [
    ("income in [20000, 40000]", ("income", tb.between(20000, 40000))),
    ("income in [20000, ]", ("income", tb.at_least(20000))),
    ("income in [, 4e4]", ("income", tb.at_most(40000.0))),
    ("age >= 30", ("age", tb.at_least(30))),
    ("age<=30.5", ("age", tb.at_most(30.5))),
    ("age = 30", ("age", 30)),
    ("party = Green | Red", ("party", tb.one_of("Green", "Red"))),
    ("party=Green", ("party", "Green")),
    ("party = 'Green'", ("party", "Green")),
    ("films: A > B", ("films", tb.prefers("A", "B"))),
    ("films: A > B = C", ("films", OrderStatement((("A",), ("B", "C"))))),
    ("seen: A; B", ("seen", "A; B")),
    ("born in town = yes", ("born in town", "yes")),
]


@pytest.mark.parametrize(("text", "expected"), GIVEN)
def test_conditions_of_the_command_line(text: str, expected: Any) -> None:
    assert parse_given(text) == expected


def test_a_schema_tells_names_and_labels_apart() -> None:
    schema = tb.Schema(
        {
            "seen": tb.Binary(values=(False, True)),
            "seen: A >= B": tb.Binary(values=("0", "1")),
            "grade": tb.Ordinal(["1", "2"]),
            "age": tb.Ordinal(["< 60", "> 60"]),
            "films": tb.Ranking([1, 2]),
        }
    )
    assert parse_given("seen = true", schema) == ("seen", True)
    assert parse_given("seen: A >= B = 1", schema) == ("seen: A >= B", "1")
    assert parse_given("grade >= 2", schema) == ("grade", tb.at_least("2"))
    assert parse_given("age = > 60", schema) == ("age", "> 60")
    assert parse_given("films: 2 > 1", schema) == ("films", tb.prefers(2, 1))
