"""§3.1: a rounded number is the interval of all numbers that are rounded to it.

Idea: shares of normal scores, blocks and predictions beside those of a discrete distribution that is counted out.
Promises that frequent numbers keep their shares, and that predictions are numbers that can be recorded.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import thurbo as tb
from tests.column_cases import cells_of
from thurbo.errors import SchemaError
from thurbo.predict.correction import bands_of as bands
from thurbo.table.columns import Bounded, Continuous, at_least, at_most, between
from thurbo.table.columns import numbers as column_numbers
from thurbo.table.columns.forms import NumberForm, RoundedForm
from thurbo.table.columns.numbers import frequent_and_even, scores_of_rounded
from thurbo.table.schema.schema import Schema

TRANSFORMS: list[Any] = [None, "log", "rank-normal"]


def shares(knots: np.ndarray, scores: np.ndarray, numbers: np.ndarray, unit: float) -> np.ndarray:
    """Φ(upper) − Φ(lower) of the interval of each number, by interpolation between knots."""
    ends = [norm.cdf(np.interp(numbers + side * unit / 2, knots, scores)) for side in (-1, 1)]
    return np.asarray(ends[1] - ends[0])


def expected_shares(numbers: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Each number and its share: counts, half an answer in each gap, a quarter of one beyond either end."""
    values, count = np.unique(numbers, return_counts=True)
    total = count.sum() + 0.5 * (np.diff(values) > 1.5 * unit).sum()
    share = count.astype(float)
    share[0] -= 0.25
    share[-1] -= 0.25
    return values, share / total


def table_of(seed: int, decimals: int, n: int = 400) -> np.ndarray:
    """Numbers of which zero and another one are frequent; negative ones too."""
    rng = np.random.default_rng(seed)
    spread = np.round(rng.normal(scale=12, size=n) * 0.1 ** rng.integers(2), decimals)
    heap = np.round(rng.normal(scale=20), decimals)
    return np.select([rng.random(n) < 0.3, rng.random(n) < 0.3], [0.0, heap], spread) + 0.0


def all_knots() -> Any:
    """Without the limit on the number of knots, by which rare numbers become smooth."""
    return patch.object(column_numbers, "_n_knots", lambda n: 10_000)


def fitted(cells: Any, **chosen: Any) -> Any:
    given: dict[str, Any] = {"transform": "rank-normal", "rounded": True, **chosen}
    return Continuous(**given).fit(cells_of(list(cells)))


# ---- normal scores


@pytest.mark.parametrize("decimals", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_every_number_has_its_share(seed: int, decimals: int) -> None:
    unit = 10.0**-decimals
    numbers = table_of(seed, decimals, 90)
    with all_knots():
        knots, scores = scores_of_rounded(numbers, unit)
    values, share = expected_shares(numbers, unit)
    assert (np.diff(knots) > 0.1 * unit).all(), "the ends of neighbours are one knot"
    assert (np.diff(scores) > 0).all()
    np.testing.assert_allclose(shares(knots, scores, values, unit), share, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-40, 40), min_size=1, max_size=60), st.integers(0, 2), st.sampled_from([0.0, 1e6, -3e9]))
def test_shares_of_any_table(whole: list[int], decimals: int, shift: float) -> None:
    unit = 10.0**-decimals
    numbers = np.round(np.asarray(whole) * unit + shift, decimals)
    with all_knots():
        column = fitted(numbers.tolist(), decimals=decimals)
    assert all((np.diff(each) > 0).all() for each in (column.knots, column.scores))
    values, share = expected_shares(numbers, unit)
    block = column.encode(cells_of(values.tolist()))
    found = norm.cdf(block.upper[:, 0]) - norm.cdf(block.lower[:, 0])
    np.testing.assert_allclose(found, share, rtol=1e-5, atol=1e-6)
    outside = [values[0] - unit, values[-1] + unit, *(values[:-1][np.diff(values) > 1.5 * unit] + unit)]
    unseen = column.encode(cells_of([float(each) for each in outside]))
    assert (norm.cdf(unseen.upper) > norm.cdf(unseen.lower)).all(), "an unseen number is not impossible"
    assert (bands(block, column.effect_edges) >= 0).all()


def test_many_numbers_have_fewer_knots_and_frequent_ones_their_share() -> None:
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random(6000) < 0.3, 0.0, np.round(rng.lognormal(5, 1, 6000)))
    numbers[rng.random(6000) < 0.1] = 250.0
    knots, scores = scores_of_rounded(numbers, 1.0)
    values, share = expected_shares(numbers, 1.0)
    assert len(values) > 400
    assert len(knots) < 300
    assert (np.diff(knots) > 0).all()
    assert (np.diff(scores) > 0).all()
    found = shares(knots, scores, values, 1.0)
    frequent = share > 0.011
    assert set(values[frequent]) >= {0.0, 250.0}
    np.testing.assert_allclose(found[frequent], share[frequent], atol=1e-9)
    assert (found > 0).all()
    # Others share what their neighbours between two knots have together.
    for low, high in pairwise(knots.tolist()):
        own = (values > low) & (values < high)
        assert found[own].sum() <= share[own].sum() + 1e-9


@pytest.mark.parametrize("values", [range(0, 150, 10), [0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100]])
def test_numbers_with_gaps_beside_them_keep_their_shares(values: Any) -> None:
    """Multiples of ten, or a few amounts: nothing between them is probable, although the table is small."""
    numbers = np.repeat(np.asarray(values, float), 6)
    found = shares(*scores_of_rounded(numbers, 1.0), np.asarray(values, float), 1.0)
    np.testing.assert_allclose(found[1:-1].sum(), 1 - 2 / len(values), atol=0.07)
    assert found.min() > 0.5 / len(values)


def test_statements_are_divided_among_the_numbers_inside() -> None:
    """Heaps keep their shares beside censored answers; without any number inside, the end that is named has them."""
    numbers = [0.0] * 40 + [52.0] * 30 + [10.0, 20.0, 30.0] * 10
    plain = fitted(numbers)
    column = fitted([*numbers, *[at_least(15)] * 20])
    assert (column.lowest, column.highest) == (0.0, None)
    block = column.encode(cells_of([0.0, 52.0, 20.0, 10.0]))
    found = (norm.cdf(block.upper) - norm.cdf(block.lower))[:, 0]
    # By hand: 20 more answers, for 52, 20 and 30 in proportion 30 : 10 : 10; gaps as in the plain table.
    np.testing.assert_allclose(found, np.asarray([39.75, 41.75, 14, 10]) / (120 + 4 * 0.5), rtol=1e-4)
    assert column.knots == plain.knots
    far = fitted([*numbers, at_least(80), at_most(-5)])
    assert far.knots[0] == -5.5
    assert far.knots[-1] == 80.5
    only = Continuous("rank-normal", rounded=True).fit(cells_of([at_least(3), between(1, 7), None]))
    assert np.isfinite(only.encode(cells_of([2.0, 9.0])).upper).all()


def test_statements_of_any_width_can_be_fitted() -> None:
    odd = [between(7.2, 7.4), between(3.6, 3.9), between(5.5, 6.4), between(-2.5, -1.5), at_most(0.2), at_least(99.9)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        column = fitted([*[0, 5, 5, 9] * 10, *odd], decimals=0)
        block = column.encode(cells_of([0, 5, 9, *odd]))
    assert np.isfinite(column.scores).all()
    assert (block.lower < block.upper).all()
    np.testing.assert_allclose(norm.cdf(block.upper[1]) - norm.cdf(block.lower[1]), 20 / 48, atol=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_divided_answers_are_self_consistent(seed: int) -> None:
    """Each number has its own answers and its part of every interval that contains it, as all pairs say it."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 12, 60).astype(float)
    low = rng.integers(-3, 10, 25) - 0.5
    high = np.where(rng.random(25) < 0.3, np.inf, low + rng.integers(2, 6, 25))
    low = np.where((rng.random(25) < 0.3) & np.isfinite(high), -np.inf, low)
    values, count = column_numbers._counted(numbers, 1.0, low, high, None)
    assert count.sum() == pytest.approx(85)
    inside = (values >= low[:, None]) & (values <= high[:, None])
    part = inside * count / (inside @ count)[:, None]
    observed = (numbers[:, None] == values).sum(axis=0)
    np.testing.assert_allclose(observed + part.sum(axis=0), count, atol=1e-3)


def test_frequent_numbers_are_bands_of_their_own() -> None:
    rng = np.random.default_rng(1)
    numbers = np.where(rng.random(2000) < 0.4, 0.0, np.where(rng.random(2000) < 0.5, 52.0, rng.integers(1, 52, 2000)))
    column = fitted(numbers.tolist())
    edges = column.effect_edges
    assert (np.diff(edges) > 0).all()
    block = column.encode(cells_of(sorted(set(numbers.tolist()))))
    code = bands(block, edges)
    assert (code >= 0).all()
    assert (np.diff(code) >= 0).all()
    assert (code == code[0]).sum() == 1
    assert (code == code[-1]).sum() == 1
    assert len(edges) + 1 == code.max() + 1 >= 4
    # Bands of others have about an eighth each.
    share = np.diff(norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]])))
    assert share[1:-1].max() < 0.2
    assert share[1:-1].min() > 0.06


@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_every_observed_number_is_in_one_band(decimals: int) -> None:
    """Ends of intervals and edges of bands are computed by different roundings."""
    for seed in range(20):
        numbers = table_of(seed, decimals)
        column = fitted(numbers.tolist())
        edges = column.effect_edges
        assert (np.diff(edges) > 0).all()
        assert (bands(column.encode(cells_of(numbers.tolist())), edges) >= 0).all()


def test_bands_of_few_knots() -> None:
    assert len(fitted([7.0] * 10).effect_edges) == 0
    two = fitted([1.0, 2.0] * 20)
    np.testing.assert_allclose(norm.cdf(two.effect_edges), [0.5])
    assert len(frequent_and_even(np.asarray([-1.0, 1.0]), 8)) == 0
    assert len(Continuous(rounded=True).fit(cells_of([1.0, 2.0, 3.0])).effect_edges) == 7


# ---- cells and blocks


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("decimals", [0, 1])
def test_a_number_is_what_is_rounded_to_it(transform: Any, decimals: int) -> None:
    unit = 10.0**-decimals
    numbers = (np.random.default_rng(3).choice([2, 7, 9, 30, 31, 32], 50, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])) * unit
    column = fitted(numbers.tolist(), transform=transform)
    assert (column.decimals, column.unit) == (decimals, unit)
    assert isinstance(column.form, RoundedForm)
    seven = 7 * unit
    cells = [seven, between(seven, seven), at_least(seven), at_most(seven), None, between(seven, 9 * unit)]
    block = column.encode(cells_of(cells))
    low, high = block.lower[:, 0], block.upper[:, 0]
    assert (low[0], high[0]) == (low[1], high[1]) == (low[2], high[3])
    assert np.isinf([high[2], low[3], low[4], high[4]]).all()
    assert not block.point.any()
    np.testing.assert_allclose(column.to_user(np.asarray([low[0], high[0]])), [seven - unit / 2, seven + unit / 2])
    np.testing.assert_allclose(column.to_user(np.asarray([low[5], high[5]])), [seven - unit / 2, 9.5 * unit])
    np.testing.assert_allclose(block.log_jacobian, np.where([1, 1, 0, 0, 0, 0], -np.log(unit), 0.0), atol=1e-12)
    np.testing.assert_array_equal(column.is_one_number(block), [True, True, False, False, False, False])
    # The same as an interval of a column that has this map.
    known = {name: getattr(column, name) for name in ("transform", "location", "scale", "knots", "scores")}
    parts = {end: cells_of([seven + side * unit / 2], end) for end, side in (("a", -1), ("b", 1))}
    other = Bounded(lower="a", upper="b", **known).encode(
        type(cells_of([None]))("q", np.asarray([None]), np.asarray([True]), np.asarray([1]), parts=parts)
    )
    np.testing.assert_allclose([other.lower[0, 0], other.upper[0, 0]], [low[0], high[0]], atol=1e-9)


def test_equal_numbers_are_equal_however_they_were_computed() -> None:
    exact, sums = [0.1, 0.2, 0.3, 0.3, 0.7, 0.8], [0.1, 0.2, 0.1 + 0.2, 0.3, 0.1 * 7, 0.8]
    singles = np.asarray(exact, np.float32).astype(float).tolist()
    column = fitted(exact * 30)
    assert column.decimals == 1
    for other in (sums, singles):
        assert fitted(other * 30, decimals=1).knots == column.knots
        for read, expected in zip(*(column.encode(cells_of(each)).lower for each in (other, exact)), strict=True):
            assert read == expected
    assert fitted(singles * 30).knots == column.knots
    assert fitted(sums * 30).decimals == 1, "errors of addition are no decimals"


def test_what_was_not_recorded_so_precisely() -> None:
    """With whole numbers, 7.3 is rounded, and the whole numbers of a statement are those inside it."""
    column = fitted([*range(20), *[7] * 10])
    cells = [7.3, 7, at_least(6.2), at_least(7), between(5.5, 7.9), between(6, 7), between(7.2, 7.4), 6.5, 6]
    block = column.encode(cells_of(cells))
    for odd, plain in ((0, 1), (2, 3), (4, 5), (7, 8)):
        assert block.lower[odd] == block.lower[plain]
        assert block.upper[odd] == block.upper[plain]
    np.testing.assert_allclose(column.to_user(np.stack([block.lower[6], block.upper[6]]))[:, 0], [7.2, 7.4])
    assert not column.is_one_number(block)[6]


def test_log_numbers_near_zero() -> None:
    column = fitted([1.0, 1.0, 2.0, 5.0, 40.0], transform="log", decimals=0)
    block = column.encode(cells_of([1.0, 0.4, at_most(3), 2.0]))
    assert np.isinf(block.lower[[1, 2]]).all()
    np.testing.assert_allclose(column.to_user(block.upper[:, 0]), [1.5, 0.5, 3.5, 2.5])
    np.testing.assert_array_equal(column.is_one_number(block), [True, False, False, True])
    with pytest.raises(SchemaError, match="logarithm"):
        column.encode(cells_of([0.0]))


def test_numbers_that_cannot_be_rounded_are_points() -> None:
    rng = np.random.default_rng(0)
    for numbers in (rng.normal(size=50).tolist(), [1e300, 2e300, 5.0], [2.0**53, 2.0**54]):
        column, other = fitted(numbers), Continuous("rank-normal").fit(cells_of(numbers))
        assert (column.decimals, column.unit) == (None, 0.0)
        assert isinstance(column.form, NumberForm)
        assert not isinstance(column.form, RoundedForm)
        block, points = column.encode(cells_of(numbers)), other.encode(cells_of(numbers))
        assert block.point.all()
        np.testing.assert_array_equal(block.lower, points.lower)
        np.testing.assert_array_equal(block.log_jacobian, points.log_jacobian)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_extreme_tables(transform: Any) -> None:
    tables: list[list[Any]] = [[5], [5, 5, 5], [1, 2], [1, 10**12], [10**12, 10**12 + 1], [None, 3], [4, 10**13]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for cells in tables:
            column = fitted(cells, transform=transform)
            numbers = [each for each in cells if each is not None]
            block = column.encode(cells_of([*numbers, None, numbers[0] + 3, 1e300]))
            n = len(numbers)
            assert (block.lower[:n] < block.upper[:n]).all()
            assert column.is_one_number(block)[:n].all()
            assert np.isfinite(block.log_jacobian).all()
            middle = RoundedForm(column)._middle(block)[0][:n]
            np.testing.assert_array_equal(column.limited(column.to_user(middle)), numbers)
        silent = fitted([None, None], transform=transform)
        assert not silent.encode(cells_of([None])).observed.any()


def test_an_interval_too_narrow_for_single_precision_keeps_its_probability() -> None:
    column = fitted([float(each) for each in range(1000, 9000, 3)], transform=None)
    block = column.encode(cells_of([4000.0, between(4000, 4001)]))
    width = (block.upper - block.lower)[:, 0]
    expected = np.log(1 / column.scale / width[0]), np.log(2 / column.scale / width[1])
    np.testing.assert_allclose(block.log_jacobian, expected, atol=1e-6)


def test_settings_are_kept_and_checked() -> None:
    column = fitted([0, 0, 3, 8])
    schema = Schema({"q": column})
    assert Schema.from_dict(schema.to_dict()) == schema
    assert eval(repr(column), vars(tb) | {"Continuous": Continuous}) == column
    assert "rounded=True" in repr(column)
    assert column.describe() == "a rounded number, by its rank-normal value"
    for odd in ("yes", 1, None, 0.5):
        with pytest.raises(SchemaError, match=r"rounded=.* is not understood") as problem:
            Continuous(rounded=odd)  # type: ignore[arg-type]
        assert "True or False" in str(problem.value)
    with pytest.raises(SchemaError, match="not fitted"):
        Continuous("rank-normal", rounded=True, decimals=0).encode(cells_of([3]))


def test_weights_and_order_do_not_change_the_map() -> None:
    numbers = table_of(5, 0).tolist()
    assert fitted(numbers) == fitted(sorted(numbers))
    assert fitted(numbers).fit(cells_of(numbers)) == fitted(numbers), "a fitted column can be fitted again"
