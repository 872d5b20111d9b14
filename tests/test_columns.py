"""§3: every column, through one table of cases: cells → inequalities → cells.

Idea: what holds for one holds for all: missing stays missing, decoding undoes encoding, files lose nothing.
Promises that errors name row, column, value and remedy.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tests.column_cases import CASES, Case, as_table, cells_of, decoded, inside, is_missing, round_trip, several
from thurbo.errors import SchemaError
from thurbo.table.columns import (
    KINDS,
    Banded,
    Binary,
    Bounded,
    Categorical,
    Censored,
    Column,
    Continuous,
    Ignore,
    Inequality,
    MeasuredColumn,
    MultiSelect,
    Ordinal,
    Ranking,
    at_least,
    at_most,
    between,
    column_from_dict,
    one_of,
    prefers,
)

READING = [case for case in CASES if case.column.family != "none"]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_reading_case = pytest.mark.parametrize("case", READING, ids=lambda case: case.name)


def test_every_column_enters_the_table() -> None:
    own = {kind for kind in KINDS.values() if kind.__module__.startswith("thurbo.")}
    assert {type(case.column) for case in CASES} == own


@each_case
def test_block_is_well_formed(case: Case) -> None:
    cells = case.read()
    column = case.column.fit(cells)
    block = column.encode(cells)
    shape = (len(cells), len(column.sites)) if block.entries is None else (len(block.entries.site), 1)
    assert block.n_rows == len(cells)
    assert block.sites == column.sites
    assert block.n_cuts == column.n_cuts
    arrays = (block.lower, block.upper, block.point, block.code, block.code_high, block.tier, block.observed)
    assert {array.shape for array in arrays} == {shape}
    assert block.log_jacobian.shape == block.one_of.shape == shape[:1]
    assert {array.dtype.kind for array in (block.code, block.code_high, block.tier)} == {"i"}
    assert np.all(block.lower <= block.upper)
    assert np.all(block.code <= block.code_high)
    assert np.all(block.code_high <= block.n_cuts)
    assert np.all((block.code >= 0) == (block.code_high >= 0))
    orders = as_table(block, block.tier, -1) if block.tasks is None else block.tier.reshape(-1, block.tasks.size)
    for tiers in orders:
        assert set(tiers[tiers >= 0].tolist()) == set(range(tiers.max(initial=-1) + 1)), "consecutive from 0"
    assert np.all(block.observed <= block.takes_part)
    assert np.all(np.isfinite(block.log_jacobian))
    assert column.labels == case.labels
    assert isinstance(column.describe(), str)
    assert column.fit(cells) == column, "fitting twice changes nothing"
    assert set(column.source_columns("q")) <= set(case.frame)


@each_case
def test_families_agree_with_what_blocks_hold(case: Case) -> None:
    column = case.column.fit(case.read())
    block = column.encode(case.read())
    assert block.has_tiers == (column.family == "utility")
    assert (block.n_cuts > 0) == (column.family == "levels")
    assert (column.family == "measured") or not block.point.any()
    if column.sites != ("",) and column.sites:
        assert column.sites == tuple(map(str, column.labels))


@each_reading_case
def test_missing_stays_missing_and_the_rest_is_observed(case: Case) -> None:
    cells = case.read()
    block = case.column.fit(cells).encode(cells)
    assert block.answered.tolist() == case.answered
    assert np.all(block.sum_in_row(block.log_jacobian)[~np.asarray(case.answered)] == 0)


@each_reading_case
def test_decode_undoes_encode(case: Case) -> None:
    after = round_trip(case)
    assert set(after) == set(case.frame)
    for name, values in case.frame.items():
        for old, new, answered in zip(values, after[name], case.answered, strict=True):
            if old is None:
                assert is_missing(new) or (case.loose and answered)
            elif case.loose:
                assert not is_missing(new)
            else:
                assert new == (old if case.exact else pytest.approx(old))


def unrounded(column: Any) -> Any:
    """The fitted column without the decimals and the range of its numbers."""
    return replace(column, decimals=None, lowest=None, highest=None) if hasattr(column, "decimals") else column


@each_reading_case
def test_what_is_decoded_says_what_was_encoded(case: Case) -> None:
    """Latent values inside Ω(e) decode to cells whose own Ω holds them, but for the rounding of numbers."""
    column = unrounded(case.column.fit(case.read()))
    block = column.encode(case.read())
    x, after = inside(block, case.cuts), decoded(column, block, case.cuts)
    empty = [None] * len(x)
    cells = cells_of(after.get("q", empty))
    again = column.encode(replace(cells, parts={n: cells_of(v, n) for n, v in after.items() if n != "q"}))
    for tiers, values in zip(as_table(again, again.tier, -1), x, strict=True):
        for a, b in np.argwhere((tiers[:, None] > tiers[None, :]) & (tiers >= 0)):
            assert values[a] >= values[b] or np.isnan(values[b])
    code, high, new = (as_table(own, codes, -1) for own, codes in (
        (block, block.code), (block, block.code_high), (again, again.code)
    ))  # fmt: skip
    known = (code >= 0) & (new >= 0)
    assert np.all((code <= new)[known] & (new <= high)[known])
    if column.family == "measured":
        confined = as_table(block, block.observed, False)
        lower, upper = as_table(again, again.lower, -np.inf), as_table(again, again.upper, np.inf)
        assert np.all((lower <= x + 1e-9)[confined] & (x - 1e-9 <= upper)[confined])


@each_case
def test_all_missing_column_says_nothing(case: Case) -> None:
    fitted = case.column.fit(case.read())
    assert not fitted.encode(cells_of([None] * 3)).takes_part.any()
    if case.column.labels or (case.column.family == "measured" and case.column.sites):
        assert not case.column.fit(cells_of([None] * 3)).encode(cells_of([None])).takes_part.any()


@each_case
@pytest.mark.parametrize("fitted", [False, True])
def test_dictionaries_lose_nothing(case: Case, fitted: bool) -> None:
    column = case.column.fit(case.read()) if fitted else case.column
    again = column_from_dict(json.loads(json.dumps(column.to_dict())))
    assert again == column
    assert hash(again) == hash(column)
    assert list(map(type, again.labels)) == list(map(type, column.labels))
    if fitted and column.sites:
        before, after = column.encode(case.read()), again.encode(case.read())
        for name in ("lower", "upper", "code", "code_high", "tier", "one_of"):
            np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


@each_reading_case
def test_bad_cell_is_named(case: Case) -> None:
    column = case.column.fit(case.read())
    rows = [f"person {i}" for i in range(len(case.cells) + 1)]
    with pytest.raises(SchemaError) as caught:
        column.encode(case.read(case.bad, "trust", rows))
    message = str(caught.value)
    for part in (f"row {rows[-1]}", 'column "trust"', *case.message, ";"):
        assert part in message
    assert caught.value.remedy


@each_reading_case
def test_unseen_counts_as_missing_where_asked(case: Case) -> None:
    """What a column cannot read says nothing; items that it knows may still be read."""
    fitted = case.column.fit(case.read())
    column = column_from_dict({**fitted.to_dict(), "unseen": "missing"})
    block = column.encode(case.read(case.bad))
    assert block.answered[:-1].tolist() == case.answered
    if case.column.sites == ("",):
        assert not block.observed[-1].any()


BAD_SETTINGS: list[tuple[Any, tuple[str, ...]]] = [
    (lambda: Continuous("square"), ("transform='square'", "rank-normal")),
    (lambda: Ordinal(["a", "b", "a "]), ('level "a" occurs twice',)),
    (lambda: Ordinal([1, 2, 1.0]), ("occurs twice",)),
    (lambda: Ordinal(["a"]), ("at least two levels",)),
    (lambda: Ordinal("abc"), ("not a list",)),
    (lambda: Ordinal({"a": 1, "b": 2}), ("dictionary", "list")),
    (lambda: Ordinal(["a", None]), ("level None",)),
    (lambda: Ordinal(["a", "b"], unseen="drop"), ("unseen='drop'", '"missing"')),
    (lambda: Binary(true=float("nan")), ("nan",)),
    (lambda: Binary(values=("a", "a")), ("are not two",)),
    (lambda: Binary("a", values=("a", "b")), ("contradicts",)),
    (lambda: column_from_dict({"kind": "ordinall"}), ('"ordinall"', 'did you mean "ordinal"?')),
    (lambda: column_from_dict({"kind": "ordinal", "level": [1, 2]}), ('"level"', 'did you mean "levels"?')),
    (lambda: Continuous().encode(cells_of([1.0])), ("fit it first",)),
    (lambda: Ordinal().encode(cells_of([1])), ('column "q"', "fit it first")),
    (lambda: Ordinal().fit(cells_of(["a", "b"])), ("row 10", '"a"', "levels=")),
    (lambda: Ordinal().fit(cells_of([4, 4])), ("only value is 4", "Ignore()")),
    (lambda: Ordinal().fit(cells_of([None])), ("no values",)),
    (lambda: Ordinal([1, 2]).encode(cells_of([1, "2"])), ("row 11", '"2"', "text", "numbers")),
    (lambda: Binary().fit(cells_of(["a", "b", "a", "c"])), ("row 13", '"c"', "3 values", "Ordinal")),
    (lambda: Binary(true="yes").fit(cells_of(["Yes", "No"])), ("row 10", '"yes"', 'did you mean "Yes"?')),
    (lambda: Binary().fit(cells_of([["a"], ["b"]])), ("row 10", "collection")),
    (lambda: Continuous("log").fit(cells_of([1.0, 0.0])), ("row 11", "0.0", "logarithm", "rank-normal")),
    (lambda: Continuous().fit(cells_of([1, 10**400])), ("row 11", "not a number")),
    (lambda: Continuous("log").fit(cells_of([1.0, at_most(0)])), ("row 11", "at_most(0)", "positive")),
    (lambda: Continuous().fit(cells_of([between("a", "b")])), ("row 10", "text")),
    (lambda: Ordinal(["a", "b"]).encode(cells_of([at_least("c")])), ("row 10", '"c"', "a < b")),
    (lambda: Ordinal([1, 2]).encode(cells_of([at_least(3)])), ("row 10", "at_least(3)", "none of 1 < 2")),
    (lambda: Ordinal([1, 2]).encode(cells_of([prefers(1, 2)])), ("row 10", "1 > 2", "between")),
    (lambda: Binary(values=(0, 1)).encode(cells_of([one_of(0, 2)])), ("row 10", "value 2", "neither 0 nor 1")),
    (lambda: Binary(values=(0, 1)).encode(cells_of([at_least(0)])), ("row 10", "at_least(0)", "one_of")),
    (lambda: Categorical(["a"]), ("fewer than two",)),
    (lambda: Categorical("ab"), ("not a list",)),
    (lambda: Categorical([1, "1"]), ('"1" occurs twice',)),
    (lambda: Categorical(["a", "b"], sets="all"), ("sets='all'", '"one-of"')),
    (lambda: Categorical().fit(cells_of(["a", ["a"]])), ('column "q"', 'only category is "a"')),
    (lambda: Categorical().fit(cells_of([None])), ("no category",)),
    (lambda: Categorical().encode(cells_of(["a"])), ("fit it first",)),
    (lambda: Categorical(["a", "b"]).encode(cells_of([between(1, 2)])), ("between(1, 2)", "one_of")),
    (lambda: Categorical(["a", "b"]).encode(cells_of([{"a": 1}])), ("row 10", "is not one of a, b")),
    (lambda: MultiSelect(sep=""), ("not a separator",)),
    (lambda: MultiSelect(["a", "a"]), ('"a" occurs twice',)),
    (lambda: MultiSelect(columns=["a", "b"]), ("columns", "not a dictionary")),
    (lambda: MultiSelect(columns={"a": "x", "b": "x"}), ('column "x" twice',)),
    (lambda: MultiSelect(["b"], columns={"a": "x"}), ("not those of columns",)),
    (lambda: MultiSelect(["a"], blank="?"), ("blank='?'", "unasked")),
    (lambda: MultiSelect().fit(cells_of([[], None])), ("no cell names an option",)),
    (lambda: MultiSelect().encode(cells_of([[]])), ("fit it first",)),
    (lambda: MultiSelect(["a"]).encode(cells_of([{"a": "maybe"}])), ("row 10", '"maybe"', "True")),
    (lambda: several(MultiSelect(columns={"a": "x"}), x=[0, 1, 2]), ('column "x"', "0, 1, 2", "two values")),
    (lambda: several(MultiSelect(columns={"a": "x"}, values=((0, 1),)), x=[0, 7]), ("row 11", 'column "x"', "value 7")),
    (lambda: Ranking(["a", "b"], unranked="first"), ("unranked='first'", '"last"')),
    (lambda: Ranking(ranks={"a": "x", "b": "y"}, scores={"a": "x", "b": "y"}), ("ranks and scores",)),
    (lambda: Ranking(["a", "c"], ranks={"a": "x", "b": "y"}), ("a, c", "a, b", "omit items")),
    (lambda: Ranking(ranks={"a": "x"}), ("fewer than two",)),
    (lambda: Ranking(places=["x", "x"]), ("twice",)),
    (lambda: Ranking(ranks=["x", "y"]), ("not a dictionary",)),
    (lambda: Ranking().fit(cells_of(["a", None])), ('only item is "a"',)),
    (lambda: Ranking(["a", "b"]).encode(cells_of(["a >"])), ("row 10", 'item "" is not one of a, b')),
    (lambda: Ranking(["a", "b"]).encode(cells_of([[prefers("a", "c")]])), ("row 10", 'item "c"')),
    (lambda: several(Ranking(ranks={"a": "x", "b": "y"}), x=[1, 2], y=[1, "2nd"]), ("row 11", 'column "y"', '"2nd"')),
    (lambda: several(Ranking(scores={"a": "x", "b": "y"}), x=[1.0], y=[math.inf]), ("row 10", "score inf", '"b"')),
    (lambda: several(Ranking("ab", places=["x"]), x=["a"]), ("not a list",)),
    (lambda: several(Ranking(["a", "b"], places=["x", "y"]), x=["a"], y=["a"]), ('column "y"', "better place")),
    (lambda: several(Ranking(["a", "b"], places=["x", "y"]), x=["a"], y=["A"]), ('column "y"', '"A"', 'mean "a"?')),
    (lambda: Inequality().encode(cells_of(["a > b"])), ("row 10", '"a > b"', ">=")),
    (lambda: Inequality().encode(cells_of([[({"a": 1}, ">=")]])), ("row 10", "not an inequality")),
    (lambda: Inequality().encode(cells_of([[({"a": 1}, "==", 0)]])), ('"=="', "equation")),
    (lambda: Inequality().encode(cells_of([[({"a": math.nan}, ">=", 0)]])), ("coefficient nan",)),
    (lambda: Inequality().encode(cells_of([[({"a": 1}, ">=", "b")]])), ('bound "b"',)),
    (lambda: Inequality().encode(cells_of([[({"a": 0}, ">=", 1)]])), ("names no site",)),
    (lambda: Inequality().encode(cells_of([[({"a": 1}, "in", (1, 1))]])), ("a point",)),
    (lambda: Ordinal([1, 2], missing={2: "no"}), ("2 is one of the labels", "missing (no)")),
    (lambda: Continuous(missing=9), ("missing=9", "not a list")),
    (lambda: Continuous(missing={math.nan: "x"}), ("missing has nan",)),
    (lambda: Continuous(missing={9: ""}), ("name of 9",)),
    (lambda: Continuous(missing=[9, 9.0]), ("9.0 twice",)),
    (lambda: Ordinal([1, 2], names={1: None}), ("names has None as the name of 1",)),
    (lambda: MultiSelect(["a"], mentions=["x"], columns={"a": "x"}), ("columns and mentions",)),
    (lambda: MultiSelect(["a"], ticked=1), ("ticked=1", "columns=")),
    (lambda: MultiSelect(["a"], mentions=["x", "x"]), ('"x" twice',)),
    (lambda: several(MultiSelect([1, 2], mentions=["x"]), x=[1, 3]), ("row 11", 'column "x"', "option 3")),
    (lambda: Bounded(), ("two ends", "halfwidth")),
    (lambda: Bounded(lower="a", center="b", halfwidth=1), ("two ends",)),
    (lambda: Bounded(center="a"), ("a center and a halfwidth",)),
    (lambda: Bounded(center="a", halfwidth=-1), ("halfwidth=-1",)),
    (lambda: Bounded(lower="a", upper="a"), ('"a" twice',)),
    (lambda: Bounded(lower=1, upper="b"), ("lower=1", "not the name of a column")),
    (lambda: several(Bounded(lower="a", upper="b"), a=[1, 4], b=[2, 3]), ("row 11", 'column "a"', "4", "3")),
    (lambda: several(Bounded(lower="a", upper="b"), a=[math.inf], b=[math.inf]), ("row 10", "contain no number")),
    (lambda: several(Bounded(lower="a", upper="b"), a=[1], b=["two"]), ("row 10", 'column "b"', '"two"')),
    (lambda: several(Bounded(center="a", halfwidth="b"), a=[1, 1], b=[1, -2]), ("row 11", "-2", "negative width")),
    (lambda: several(Bounded(center="a", halfwidth=1), a=["?"]), ("row 10", 'column "a"', '"?"')),
    (lambda: several(Bounded(lower="a", upper="b", transform="log"), a=[-2], b=[0]), ('column "b"', "positive")),
    (lambda: Banded(["a", "b"]), ("dictionary of bands",)),
    (lambda: Banded({"a": (0, 1)}), ("fewer than two",)),
    (lambda: Banded({"a": (0, 2), "b": (1, 3)}), ('"a" and "b" overlap', "from 1 to 2")),
    (lambda: Banded({"a": (0, 2), "b": (3,)}), ('band "b"', "None for an open end")),
    (lambda: Banded({"a": (0, 2), "b": (3, "x")}), ('band "b"', '"x"')),
    (lambda: Banded({"a": (2, 2), "b": (3, 4)}), ('band "a"', "no number")),
    (lambda: Banded({"a": (None, None), "b": (3, 4)}), ('band "a"', "every number")),
    (lambda: Banded({"a": (None, 0), "b": (3, 4)}, transform="log"), ('band "a"', "positive")),
    (lambda: Banded({1: (0, 2), 2: (3, 4)}).fit(cells_of([1, 3])), ("row 11", "3 is not one of the bands")),
    (lambda: Banded({"a": (0, 2), "b": (3, 4)}).fit(cells_of([between("b", "a")])), ("row 10", "wrong order")),
    (lambda: Banded({"a": (0, 2), "b": (3, 4)}).fit(cells_of([between("a", "c")])), ("row 10", '"c"')),
    (lambda: Banded({"a": (0, 2), "b": (3, 4)}).fit(cells_of([prefers("a", "b")])), ("row 10", "number")),
    (lambda: Censored(), ("neither an event nor limits", "Continuous()")),
    (lambda: Censored(true=1, limits=(0, 1)), ("no event=",)),
    (lambda: Censored(limits=(1, 0)), ("from 1 to 0",)),
    (lambda: Censored(limits=(0, "a")), ('limit "a"',)),
    (lambda: Censored(limits=5), ("limits=5",)),
    (lambda: Censored(limits=(None, -1), transform="log"), ("positive",)),
    (lambda: several(Censored("e"), e=[1, 2]), ("row 11", 'column "e"', "2 does not show", "true=")),
    (lambda: several(Censored("e", true="c"), e=["a", "b"]), ("row 10", 'column "e"', '"c"')),
]


@pytest.mark.parametrize(("make", "parts"), BAD_SETTINGS, ids=[parts[-1] for _, parts in BAD_SETTINGS])
def test_bad_input_is_explained(make: Any, parts: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert caught.value.remedy


def test_dates_are_not_numbers() -> None:
    cells = cells_of([None, None])
    dates = np.asarray(["2020-01-01", "NaT"], "datetime64[D]")
    dated = type(cells)("q", dates, np.isnat(dates), cells.rows)
    with pytest.raises(SchemaError, match="2020-01-01 is a date"):
        Continuous().fit(dated)


@pytest.mark.parametrize("one", [1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True), Decimal(1)])
def test_one_is_one_however_it_is_stored(one: Any) -> None:
    assert Ordinal([0, 1, 2]).encode(cells_of([one])).code.item() == 1
    assert Binary().fit(cells_of([0, 1])).encode(cells_of([one])).code.item() == 1


def test_levels_match_trimmed_text_and_short_floats() -> None:
    assert Ordinal(["a ", "b"]).encode(cells_of([" a", "b\n"])).code[:, 0].tolist() == [0, 1]
    values = np.asarray([0.1, 0.3], np.float32)
    cells = type(cells_of([1]))("q", values, np.zeros(2, bool), np.arange(2))
    assert Ordinal([0.1, 0.2, 0.3]).encode(cells).code[:, 0].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([True], (False, True)),
        ([False], (False, True)),
        ([0], (0, 1)),
        ([5], (0, 5)),
        ([2.5], (0.0, 2.5)),
        (["No"], ("No", "Yes")),
        (["y"], ("n", "y")),
        (["blue"], ("not blue", "blue")),
        (["blue", "red"], ("blue", "red")),
        (["TRUE", "FALSE"], ("FALSE", "TRUE")),
        ([1, 2], (2, 1)),
        ([3, 2], (2, 3)),
        ([], (False, True)),
    ],
)
def test_binary_finds_its_true_value(values: list[Any], labels: tuple[Any, Any]) -> None:
    fitted = Binary().fit(cells_of([*values, None]))
    assert fitted.values == labels
    assert list(map(type, fitted.labels)) == list(map(type, labels))


@pytest.mark.parametrize(
    ("column", "codes", "expected", "dtype"),
    [
        (Binary(values=(False, True)), [1, 0], [True, False], np.bool_),
        (Binary(values=(False, True)), [1, -1], [True, None], object),
        (Ordinal([1, 2]), [1, 0], [2, 1], np.int64),
        (Ordinal([1, 2]), [1, -1], [2.0, math.nan], np.float64),
        (Ordinal(["a", "b"]), [1, -1], ["b", None], object),
        (Ordinal([1, "b"]), [1, 0], ["b", 1], object),
    ],
)
def test_codes_become_labels_of_natural_dtype(column: Any, codes: list[int], expected: list[Any], dtype: Any) -> None:
    labels = column.answers_of(np.asarray(codes))
    assert labels.dtype == dtype
    np.testing.assert_equal(labels.tolist(), expected)


MEASURED: list[MeasuredColumn] = [
    Continuous(),
    Bounded(lower="from", upper="to"),
    Banded({"low": (0, 5), "high": (5, None)}),
    Censored(limits=(4, 15)),
    Censored("seen"),
]


def masses(block: Any) -> np.ndarray:
    """What each row of a block weighs under z ~ N(0, 1): a density at a point, otherwise a probability."""
    lower, upper = block.lower[:, 0], block.upper[:, 0]
    density = -0.5 * np.where(block.point[:, 0], lower, 0.0) ** 2 - 0.5 * math.log(2 * math.pi)
    weight = np.where(block.point[:, 0], np.exp(density), norm.cdf(upper) - norm.cdf(lower))
    return np.asarray(weight * np.exp(block.log_jacobian))


@pytest.mark.parametrize("transform", [None, "log", "rank-normal"])
@pytest.mark.parametrize("plain_column", MEASURED, ids=lambda column: column.kind)
def test_density_is_in_the_users_units(plain_column: MeasuredColumn, transform: Any) -> None:
    """∫ φ(z(e)) |dz/de| de over what is seen as a number, and the mass of what is censored, are 1 together."""
    sample = np.exp(np.random.default_rng(0).normal(2.0, 0.5, 2000))
    column = replace(plain_column, transform=transform)

    def cells_at(numbers: np.ndarray, seen: bool = True) -> Any:
        listed, empty = numbers.tolist(), [None] * len(numbers)
        if isinstance(column, Bounded):
            return replace(cells_of(empty), parts={name: cells_of(listed, name) for name in ("from", "to")})
        parts = {"q": cells_of(listed), "seen": cells_of([seen] * len(listed))}
        return replace(cells_of(listed), parts=parts if column.source_columns("q") == ("q", "seen") else {})

    column = column.fit(cells_at(sample))
    ends = (4.0, 15.0) if plain_column == MEASURED[3] else (-np.inf, np.inf)
    grid = np.unique(np.clip([*column.to_user(np.linspace(-9, 9, 20001)), *column.knots], *ends))
    middle = (grid[1:] + grid[:-1]) / 2
    block = column.encode(cells_at(middle))
    assert block.point.all()
    total = np.sum(masses(block) * np.diff(grid))
    if np.isfinite(ends[0]):
        total += masses(column.encode(cells_at(np.asarray([3.0, 99.0])))).sum()
    assert total == pytest.approx(1.0, abs=1e-5)
    if column.source_columns("q") == ("q", "seen"):
        at = np.asarray([6.0, 9.0])
        later = [np.sum(masses(block) * np.diff(grid) * (middle > each)) for each in at]
        np.testing.assert_allclose(masses(column.encode(cells_at(at, seen=False))), later, atol=2e-3)


@pytest.mark.parametrize("transform", [None, "log", "rank-normal"])
def test_a_narrow_interval_weighs_its_width_times_the_density(transform: Any) -> None:
    """However narrow: down to ends that are the same in single precision, or even in standard units."""
    column = Continuous(transform).fit(cells_of(np.linspace(1.0, 9.0, 50).tolist()))
    point = masses(column.encode(cells_of([5.03])))[0]
    widths = 10.0 ** np.arange(-2, -15, -1.0)
    block = column.encode(cells_of([between(5.03 - width / 2, 5.03 + width / 2) for width in widths]))
    assert np.all(np.float32(block.upper) > np.float32(block.lower))
    np.testing.assert_allclose(masses(block)[:-3] / widths[:-3], point, rtol=1e-3)
    assert np.all(np.isfinite(np.log(masses(block))))


@pytest.mark.parametrize("n", [2, 3, 50, 5000])
def test_rank_normal_is_increasing_bounded_and_normal(n: int) -> None:
    sample = np.random.default_rng(n).standard_cauchy(n)
    column = Continuous("rank-normal").fit(cells_of(sample.tolist()))
    assert len(column.knots) <= 200
    z = column.to_standard(np.sort(sample))
    assert np.all(np.diff(z) > 0)
    assert np.mean(z) == pytest.approx(0, abs=1e-9)
    assert np.std(z) == pytest.approx(1, abs=1e-9)
    if n >= 5000:
        assert np.quantile(z, [0.025, 0.5, 0.975]) == pytest.approx([-1.96, 0, 1.96], abs=0.05)
    beyond = np.asarray([sample.min() - 5, sample.max() + 5])
    assert column.to_user(column.to_standard(beyond)) == pytest.approx(beyond)


def test_decode_of_a_continuous_column_uses_the_learned_scale() -> None:
    column = Continuous().fit(cells_of([0.0, 10.0]))
    decoded = column.decode(np.asarray([[2.0], [np.nan]]), np.zeros((1, 0)), np.asarray([0.5]))
    np.testing.assert_allclose(decoded, [10.0, np.nan])


def test_columns_are_immutable_and_classes_are_closed() -> None:
    with pytest.raises(AttributeError):
        Ordinal([1, 2]).levels = (1,)  # type: ignore[misc]
    assert issubclass(Ignore, Column)


numbers = st.floats(-1e100, 1e100, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_ends_keep_their_order_and_their_points(data: Any) -> None:
    pairs = data.draw(st.lists(st.tuples(st.none() | numbers, st.none() | numbers), min_size=1, max_size=12))
    pairs = [pair if None in pair else tuple(sorted(pair)) for pair in pairs]  # type: ignore[type-var]
    transform = data.draw(st.sampled_from([None, "rank-normal"]))
    block = several(
        Bounded(lower="a", upper="b", transform=transform), a=[a for a, _ in pairs], b=[b for _, b in pairs]
    )
    assert np.all(block.lower <= block.upper)
    for row, (a, b) in enumerate(pairs):
        assert block.point[row, 0] == (a == b and a is not None)
        assert np.isfinite(block.lower[row, 0]) == (a is not None)
        assert np.isfinite(block.upper[row, 0]) == (b is not None)
    assert np.all(np.isfinite(block.log_jacobian))


def test_a_band_in_a_far_tail_of_ranks_is_told_from_its_neighbour() -> None:
    ends = [-337, -336, -1, 0, 1, 2, 997, 998]
    bands: dict[Any, Any] = {f"{a} to {b}": (a, b) for a, b in pairwise(ends)}
    bands |= {"less": (None, ends[0]), "more": (ends[-1], None)}
    values = ["-337 to -336", "997 to 998"]
    fitted = Banded(bands, transform="rank-normal").fit(cells_of(values))
    assert [fitted.labels[code] for code in fitted.codes(fitted.encode(cells_of(values)))] == values


def test_the_edges_of_ranked_bands_are_the_normal_scores_of_their_shares() -> None:
    column = Banded({"<30": (None, 30), "30-44": (30, 45), "45+": (45, None)}, transform="rank-normal")
    fitted = column.fit(cells_of(["<30"] * 2 + ["30-44"] * 5 + ["45+"] * 3))
    lower, upper = fitted.standard_edges
    np.testing.assert_allclose(lower[1:], norm.ppf([0.2, 0.7]), atol=1e-6)
    np.testing.assert_allclose(upper[:-1], norm.ppf([0.2, 0.7]), atol=1e-6)


@pytest.mark.parametrize("n", [1, 40, 20_000])
def test_answers_beyond_a_band_without_answers_keep_their_shares(n: int) -> None:
    """Whatever the units: beyond the last knot the map was extrapolated, and "more" began at a score of 988."""
    bands = {"less": (None, -551), "-551 to -318": (-551, -318), "-318 to 437": (-318, 437), "more": (437, None)}
    values = ["less"] * n + ["more"] * n
    fitted = Banded(bands, transform="rank-normal").fit(cells_of(values))
    lower, upper = fitted.standard_edges
    shares = norm.cdf(upper) - norm.cdf(lower)
    assert (shares > 0).all()
    between = shares[1] + shares[2]
    np.testing.assert_allclose([shares[0], between, shares[3]], np.array([n, 0.5, n]) / (2 * n + 0.5), rtol=1e-9)
    assert [fitted.labels[code] for code in fitted.codes(fitted.encode(cells_of(values)))] == values
    assert round_trip(Case("apart", Banded(bands, transform="rank-normal"), values))["q"] == values


def test_a_number_is_not_rounded_into_the_next_band() -> None:
    case = Case("halves", Banded({"-1 to 0": (-1, 0), "0 to 1": (0, 1)}), ["-1 to 0"])
    assert round_trip(case)["q"] == ["-1 to 0"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bands_round_trip(data: Any) -> None:
    ends = sorted(data.draw(st.lists(st.integers(-1000, 1000), min_size=3, max_size=9, unique=True)))
    bands: dict[Any, Any] = {f"{a} to {b}": (a, b) for a, b in pairwise(ends)}
    if data.draw(st.booleans()):
        bands |= {"less": (None, ends[0]), "more": (ends[-1], None)}
    for gap in data.draw(st.lists(st.sampled_from(list(bands)), max_size=len(bands) - 2)):
        bands.pop(gap, None)
    values = data.draw(st.lists(st.none() | st.sampled_from(list(bands)), min_size=1))
    column = Banded(bands, transform=data.draw(st.sampled_from([None, "rank-normal"])))
    assert round_trip(Case("any", column, values))["q"] == values
    fitted = column.fit(cells_of(values))
    known = [value for value in values if value is not None]
    codes = fitted.codes(fitted.encode(cells_of(known)))
    assert [fitted.labels[code] for code in codes] == known
    middle = [(a + b) / 2 for a, b in bands.values() if a is not None and b is not None]
    names = [name for name, (a, b) in bands.items() if a is not None and b is not None]
    assert [fitted.labels[code] for code in fitted.nearest(np.asarray(middle))] == names


@settings(max_examples=80, deadline=None)
@given(values=st.lists(st.none() | numbers, min_size=1), transform=st.sampled_from([None, "rank-normal"]))
def test_any_numbers_round_trip(values: list[float | None], transform: Any) -> None:
    cells = cells_of(values)
    column = Continuous(transform).fit(cells)
    block = column.encode(cells)
    present = np.asarray([value for value in values if value is not None], float)
    assert np.all(np.isfinite(block.lower[block.point]))
    assert np.all(np.isfinite(block.log_jacobian))
    spread = np.ptp(present) if len(present) else 1.0
    np.testing.assert_allclose(
        column.to_user(block.lower[block.point]), present, rtol=1e-9, atol=max(1e-9 * spread, 1e-290)
    )


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_levels_round_trip(data: Any) -> None:
    label = st.text(max_size=8).map(str.strip) | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6)
    levels = data.draw(st.lists(label, min_size=2, max_size=8, unique=True))
    values = data.draw(st.lists(st.none() | st.sampled_from(levels), min_size=1))
    cuts = tuple(float(cut) for cut in np.arange(len(levels) - 1))
    case = Case("any", Ordinal(levels), values, cuts)
    for before, after in zip(values, round_trip(case)["q"], strict=True):
        assert after == before or (before is None and (after is None or math.isnan(after)))
    assert column_from_dict(json.loads(json.dumps(case.column.to_dict()))) == case.column


def test_a_million_rows_take_about_a_second() -> None:
    words = np.asarray(["none", "some", "a lot"], object)[np.random.default_rng(0).integers(0, 3, 10**6)]
    cells = type(cells_of([1]))("q", words, np.zeros(10**6, bool), np.arange(10**6))
    start = time.perf_counter()
    assert Ordinal(["none", "some", "a lot"]).encode(cells).observed.all()
    assert time.perf_counter() - start < 5
