"""Weights of rows count everywhere: weight 0 is no row, weight 2 is two rows, and half a row twice is one row."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import thurbo as tb
from tests.column_cases import CASES, Case, cells_of
from tests.small_survey import small_survey
from thurbo.errors import SchemaError
from thurbo.fit import planning, population
from thurbo.table.columns import Banded, Bounded, Cells, Censored, Column, Continuous, Ratings, at_least, between
from thurbo.table.io.frames import as_table

FEW = {"max_epochs": 3, "random_state": 0, "verbose": False}


def fitted(column: Column, cells: Cells, weight: Any = None) -> dict[str, Any] | str:
    """What a column learns, or why it refuses the cells."""
    try:
        return column.fit(cells, weight).to_dict()
    except SchemaError as error:
        return str(error)


def assert_same(one: Any, other: Any) -> None:
    """Equal but for rounding errors of sums."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    else:
        assert one == other


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_weight_of_a_cell_is_how_often_it_stands(case: Case) -> None:
    cells, rng = case.read(), np.random.default_rng(0)
    for _ in range(4):
        weight = rng.integers(0, 4, len(cells))
        again = cells.take(np.repeat(np.arange(len(cells)), weight))
        assert_same(fitted(case.column, cells, weight.astype(float)), fitted(case.column, again))


def numbers(rng: np.random.Generator, n: int = 300) -> list[Any]:
    """Numbers with heaps and gaps, some of them given as intervals."""
    found: list[Any] = np.where(rng.random(n) < 0.3, 40, np.round(rng.gamma(2.0, 20.0, n), 1) + 0.1).tolist()
    for place in range(0, n, 10):
        found[place] = at_least(30) if place % 20 else between(10, 50.5)
    return found


BANDS = {"young": (0, 30), "middle": (30, 60), "old": (60, None)}
LARGE: dict[str, tuple[Column, Any]] = {
    "plain": (Continuous(), numbers),
    "log": (Continuous(transform="log"), numbers),
    "ranks of intervals": (Continuous(transform="rank-normal"), numbers),
    "ranks": (Continuous(transform="rank-normal"), lambda rng: rng.normal(size=300).tolist()),
    "rounded": (Continuous(transform="rank-normal", rounded=True), numbers),
    "rounded logs": (Continuous(transform="log", rounded=True), numbers),
    "few rounded": (Continuous(transform="rank-normal", rounded=True), lambda rng: rng.integers(0, 90, 300).tolist()),
    "censored": (Censored(limits=(None, 60), transform="rank-normal"), numbers),
    "bands": (Banded(BANDS, transform="rank-normal"), lambda rng: rng.choice(list(BANDS), 300).tolist()),
    "scores": (Ratings(by="numbers"), lambda rng: [{"a": float(x), "b": float(x**2)} for x in rng.normal(size=300)]),
}


@pytest.mark.parametrize("name", LARGE)
def test_weights_of_numbers_are_numbers_of_answers(name: str) -> None:
    """Location, scale, and knots with their scores; whole weights as repeated cells, halves as a table of halves."""
    column, draw = LARGE[name]
    rng = np.random.default_rng(1)
    cells = cells_of(draw(rng), "q", None)
    weight = rng.integers(0, 5, len(cells)).astype(float)
    again = cells.take(np.repeat(np.arange(len(cells)), weight.astype(int)))
    assert_same(fitted(column, cells, weight), fitted(column, again))
    twice = cells.take(np.repeat(np.arange(len(cells)), 2))
    assert_same(fitted(column, twice, np.full(len(twice), 0.5)), fitted(column, cells))


def test_ends_in_two_columns_have_weights() -> None:
    rng = np.random.default_rng(2)
    low = rng.normal(50, 10, 60)
    table = {"low": low, "high": low + rng.gamma(2.0, 3.0, 60)}
    weight = rng.integers(0, 3, 60)
    schema = tb.Schema({"income": Bounded(lower="low", upper="high", transform="rank-normal")})
    place = np.repeat(np.arange(60), weight)
    again = schema.fit({name: values[place] for name, values in table.items()})
    assert_same(schema.fit(table, sample_weight=weight)["income"].to_dict(), again["income"].to_dict())
    with pytest.raises(SchemaError, match="give 60 numbers"):
        schema.fit(table, sample_weight=[1.0, 2.0])


def test_unit_of_weights_is_a_row_unless_it_cannot_be() -> None:
    """Means from a tenth to one are kept: half a row is half a row. Others have an arbitrary unit."""
    for given, counts in [([0.5, 0.5], [0.5, 0.5]), ([0.5, 1.5, 0.0], [0.5, 1.5, 0.0]), ([30, 10], [1.5, 0.5])]:
        assert planning.row_weights(given, len(given)).tolist() == counts
    assert_allclose(planning.row_weights([1e-5, 3e-5, 0.0], 3), [0.5, 1.5, 0.0])
    assert population.effective_answers(np.ones(40)) == 40
    assert population.effective_answers(np.full(40, 0.5)) == 20  # twenty rows, each in two halves
    assert population.effective_answers(np.asarray([1.5, 0.5] * 20)) == pytest.approx(32)


def test_some_rows_of_a_table_are_read_as_if_they_were_all() -> None:
    table = as_table({"a": ["1e9", 2, 3], "b": [None, "x", "y"], "c": [[1], [2], None]})
    part = table.take(np.asarray([1, 2]))
    assert part.cells("a").values.dtype.kind == "i"
    assert part.rows.tolist() == [1, 2]  # messages name the rows of the whole table
    assert part.cells("c").missing.tolist() == [False, True]
    long = {"user": [1, 1, 2, 3], "film": ["B", "A", "C", "A"], "stars": [1, 2, 3, 4]}
    lists = tb.from_long(long, "user", "film", "stars").take(np.asarray([2, 0]))
    found = lists.cells("film").listed
    assert found is not None
    assert (found.start.tolist(), found.items.tolist()) == ([0, 1, 3], ["A", "B"])
    assert (found.which.tolist(), found.score.tolist()) == ([0, 0, 1], [4, 2, 1])


# Rows of weight 0


def with_garbage(frame: pd.DataFrame, garbage: dict[str, list[Any]]) -> tuple[pd.DataFrame, np.ndarray]:
    """The frame with rows of weight 0 before, between and after its own, and the weights."""
    extra, rng = pd.DataFrame(garbage), np.random.default_rng(3)
    place = np.sort(rng.choice(len(frame) + len(extra) - 2, len(extra) - 2, replace=False) + 1)
    place = np.r_[0, place, len(frame) + len(extra) - 1]
    is_extra = np.isin(np.arange(len(frame) + len(extra)), place)
    order = np.empty(len(is_extra), int)
    order[~is_extra], order[is_extra] = np.arange(len(frame)), len(frame) + np.arange(len(extra))
    both = pd.concat([frame.astype(object), extra.astype(object)], ignore_index=True).iloc[order]
    return both.reset_index(drop=True), (~is_extra).astype(float)


def assert_equal(one: tb.TBM, other: tb.TBM, frame: Any, columns: list[str]) -> None:
    """The same parameters and predictions, bit for bit."""
    assert one.schema_ == other.schema_
    leaves, others = (jax.tree.leaves(model.params_) for model in (one, other))
    for left, right in zip(leaves, others, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.members_ == other.members_
    for name in columns:
        np.testing.assert_array_equal(one.predict_proba(frame, name), other.predict_proba(frame, name))


GARBAGE = {"fan": ["perhaps", "yes", None], "trust": ["a lot", "no idea", "none"], "age": [4e7, -3e9, 1e12]}
SURVEY = {
    "fan": tb.Binary(true="yes"),
    "trust": tb.Categorical(),
    "age": tb.Continuous(transform="rank-normal", rounded=True),
}


def test_rows_of_weight_zero_change_nothing_in_a_single_model() -> None:
    frame = small_survey(60).astype(object)
    learning = tb.Exact(posterior_smoothing=0.5)
    model = tb.TBM(SURVEY, n_hidden=2, learning=learning, **FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        alone = tb.TBM(**model.get_params(deep=False)).fit(frame)
        mixed, weight = with_garbage(frame, GARBAGE)
        found = tb.TBM(**model.get_params(deep=False)).fit(mixed, sample_weight=weight)
        column = tb.TBM(**{**model.get_params(deep=False), "schema": {**SURVEY, "w": tb.Weight()}})
        by_column = column.fit(mixed.assign(w=weight))
    assert_equal(found, alone, frame, ["fan", "trust"])
    np.testing.assert_array_equal(found.predict_interval(frame, "age"), alone.predict_interval(frame, "age"))
    np.testing.assert_array_equal(found.weights_, by_column.weights_)
    assert found.posteriors_.shape == (len(mixed), 2)
    np.testing.assert_array_equal(found.posteriors_[weight > 0], alone.posteriors_)
    assert np.isnan(found.posteriors_[weight == 0]).all()


def test_rows_of_weight_zero_do_not_decide_what_a_column_is() -> None:
    """An inferred schema is that of the rows that count; so is the column of weights."""
    frame = small_survey(60).astype(object)
    mixed, weight = with_garbage(frame, GARBAGE)
    weight = np.where(weight > 0, np.tile([0.5, 1.5], len(weight))[: len(weight)], 0.0)
    kept = mixed[weight > 0].reset_index(drop=True)
    model = tb.TBM(n_hidden=1, **{**FEW, "max_epochs": 0})
    alone = model.fit(kept, sample_weight=weight[weight > 0]).schema_
    assert model.fit(mixed, sample_weight=weight).schema_ == alone
    own = model.fit(mixed.assign(weight=weight)).schema_
    assert {name: own[name] for name in alone} == dict(alone)
    assert own["weight"] == tb.Weight()


def test_rows_of_weight_zero_change_nothing_in_several_members() -> None:
    frame = small_survey(220)
    model = tb.TBM(SURVEY, **FEW)
    alone = tb.TBM(**model.get_params(deep=False)).fit(frame)
    assert len(alone.members_) > 1
    mixed, weight = with_garbage(frame, GARBAGE)
    found = tb.TBM(**model.get_params(deep=False)).fit(mixed, sample_weight=weight)
    assert_equal(found, alone, frame, ["fan", "trust"])
    np.testing.assert_array_equal(found.predict(frame, "age"), alone.predict(frame, "age"))


def test_rows_of_weight_zero_change_nothing_in_lists_and_tasks() -> None:
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(40), 3)
    films = np.concatenate([rng.choice(5, 3, replace=False) for _ in range(40)])
    long = pd.DataFrame({"user": users, "film": [f"f{each}" for each in films], "stars": rng.integers(1, 6, 120)})
    more = pd.DataFrame({"user": [-1, -1, 99], "film": ["f0", "only here", "a first"], "stars": [77, 5, 1]})
    both = pd.concat([long, more], ignore_index=True)
    model = tb.TBM(n_hidden=1, n_factors=1, **FEW)
    alone = tb.TBM(**model.get_params()).fit(tb.from_long(long, "user", "film", "stars"))
    table = tb.from_long(both, "user", "film", "stars")
    weight = np.isin(table.rows, users).astype(float)
    found = tb.TBM(**model.get_params()).fit(table, sample_weight=weight)
    assert found.schema_ == alone.schema_
    np.testing.assert_array_equal(found.weights_, alone.weights_)
    np.testing.assert_array_equal(found.n_ratings_["film"], alone.n_ratings_["film"])
    pairs = [[("x", "y"), ("z", "y")][: 1 + row % 2] for row in range(30)]
    schema = {"drinks": tb.Pairs()}
    once = tb.TBM(schema, **{**FEW, "n_hidden": 1}).fit({"drinks": pairs})
    extra = tb.TBM(schema, **{**FEW, "n_hidden": 1}).fit(
        {"drinks": [[("new", "x")], *pairs, None]}, sample_weight=np.r_[0.0, np.ones(30), 0.0]
    )
    assert extra.schema_ == once.schema_
    np.testing.assert_array_equal(extra.site_bias_, once.site_bias_)


def test_rows_of_weight_zero_change_nothing_in_more_training_and_evaluation() -> None:
    frame = small_survey(60)
    mixed, weight = with_garbage(frame, GARBAGE)
    first, other = (tb.TBM(SURVEY, n_hidden=2, **FEW) for _ in range(2))
    for _ in range(2):
        first.partial_fit(frame)
        other.partial_fit(mixed, sample_weight=weight)
    assert_equal(other, first, frame, ["fan"])
    model = tb.TBM(SURVEY, n_hidden=1, **FEW)
    how = {"folds": 2, "random_state": 0, "verbose": False, "logistic": False}
    alone, found = tb.evaluate(model, frame, **how), tb.evaluate(model, mixed, sample_weight=weight, **how)
    assert found.overall == alone.overall
    assert found.columns == alone.columns


# A row twice at half weight


def test_half_a_row_twice_is_the_row_once() -> None:
    """Standardisation, knots and parameters at the start are equal; a full-batch fit has the same optimum and path."""
    frame = small_survey(60)
    twice = pd.concat([frame, frame], ignore_index=True)
    half = np.full(len(twice), 0.5)
    for epochs, atol in ((0, 1e-6), (20, 1e-4)):
        how = {"n_hidden": 2, "objective": "exact", "random_state": 0, "max_epochs": epochs, "verbose": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.ConvergenceWarning)
            once = tb.TBM(SURVEY, batch_size=len(frame), **how).fit(frame)
            found = tb.TBM(SURVEY, batch_size=len(twice), **how).fit(twice, sample_weight=half)
        assert_same(found.schema_["age"].to_dict(), once.schema_["age"].to_dict())
        for name in ("site_bias_", "weights_", "hidden_bias_"):
            assert_allclose(getattr(found, name), getattr(once, name), atol=atol, err_msg=name)
        for name, cuts in once.cuts_.items():
            assert_allclose(found.cuts_[name], cuts, atol=atol)
        assert_allclose(found.predict_proba(frame, "trust"), once.predict_proba(frame, "trust"), atol=atol)
