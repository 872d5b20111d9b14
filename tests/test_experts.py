"""§5: boosted trees beside the members: what they find, what they say of missing answers, and how they are weighed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import thurbo as tb
from thurbo.errors import NotTrusted
from thurbo.fit import experts
from thurbo.predict.correction import ANSWERED, Conditional, Expert, Source, Trees, in_leaves
from thurbo.predict.model import Query
from thurbo.table.columns.forms import Lines
from thurbo.table.io import files

N = 400
Known = Callable[[str, int], np.ndarray]


def found_in(values: dict[str, np.ndarray]) -> Known:
    return lambda name, part: values[name]


def simulated(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, experts.Target, np.ndarray]:
    """Ten yes/no answers, and one of three labels that depends on whether the first two agree: [row, source]."""
    rng = np.random.default_rng(seed)
    holds = (rng.random((n, 10)) < 0.65).astype(np.float32)
    agree = holds[:, 0] == holds[:, 1]
    chance = np.where(agree[:, None], [0.8, 0.15, 0.05], [0.1, 0.2, 0.7])
    code = (chance.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    target = experts.Target("y", 0, np.arange(n), code.astype(np.int64), np.ones(n, np.float32), 3)
    return holds, target, chance


def sources_of(holds: np.ndarray) -> experts.Sources:
    names, each = range(holds.shape[1]), np.arange(holds.shape[1])
    return experts.Sources([Source(f"x{k}", 0, 0.5, 1.5, 0.65) for k in names], holds.T, each, each)


def boosted(holds: np.ndarray, target: experts.Target, **about: Any) -> Trees | None:
    part = np.random.default_rng(1).integers(experts.N_SETS, size=len(holds))
    chosen, tables = np.arange(holds.shape[1]), about.get("tables", [])
    return experts._trees(target, sources_of(holds), chosen, tables, part, np.random.default_rng(2))


def log_score(trees: Trees, holds: np.ndarray, code: np.ndarray, **more: np.ndarray) -> float:
    known = {f"x{k}": own.astype(float) for k, own in enumerate(holds.T)} | more
    chance = trees.predict(found_in(known), np.arange(len(code)))[0]
    return float(np.log(chance[np.arange(len(code)), code]).mean())


def test_trees_find_an_interaction() -> None:
    holds, target, _ = simulated()
    more, tested, chance = simulated(seed=5)
    trees = boosted(holds, target)
    assert trees is not None
    best = float(np.log(chance[np.arange(len(tested.code)), tested.code]).mean())
    assert best - 0.05 < log_score(trees, more, tested.code) <= best
    assert set(trees.used) >= {"x0", "x1"}
    assert trees.used["x0"] + trees.used["x1"] > 0.7


def test_without_dependence_trees_say_next_to_nothing() -> None:
    rng, gains = np.random.default_rng(0), []
    for seed in range(8):
        holds, target, _ = simulated(600, seed)
        noise = target._replace(code=rng.integers(3, size=600))
        trees = boosted(holds, noise)
        if trees is not None:
            fresh = rng.integers(3, size=600)
            gains.append(log_score(trees, holds, fresh) - np.log(1 / 3))
    assert np.mean(gains or [0.0]) > -0.01


def test_a_weight_of_two_is_a_row_twice_and_one_of_zero_is_none() -> None:
    """With the same parts and the same draws of sources, up to the order of sums."""
    holds, target, _ = simulated(300)
    twice = np.concatenate([np.arange(300), np.arange(100)])
    part = np.random.default_rng(1).integers(3, size=300)
    heavy = target._replace(weight=np.where(np.arange(300) < 100, 2.0, 1.0).astype(np.float32))
    double = experts.Target("y", 0, np.arange(400), target.code[twice], np.ones(400, np.float32), 3)
    found = []
    for own, rows in ((heavy, np.arange(300)), (double, twice)):
        split, value, _ = experts._boosted(
            holds[rows].T, own, own.shares, [], part[rows] == 0, own.growth, np.random.default_rng(2)
        )
        found.append((split, value))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)


def test_many_answers_have_trees_of_three_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three answers decide together, as sums over pairs of answers cannot say. Few answers have trees of two splits."""
    rng = np.random.default_rng(0)
    holds = np.repeat((rng.random((8000, 3)) < 0.75).astype(np.float32), 4, axis=1)  # a tree sees half of the sources
    code = (rng.random(8000) < np.where(holds[:, ::4].sum(axis=1) % 2, 0.9, 0.1)).astype(np.int64)
    target = experts.Target("y", 0, np.arange(4000), code[:4000], np.ones(4000, np.float32), 2)
    found = dict[int, float]()
    _, three, two = experts.GROWTH.values()
    for least in (4000, 4001):
        monkeypatch.setattr(experts, "GROWTH", {least: three, 0: two})
        trees = boosted(holds[:4000], target)
        assert trees is not None
        found[trees.split.shape[1]] = log_score(trees, holds[4000:], code[4000:])
    assert found[7] > found[3] + 0.05, found
    assert found[7] > -0.34  # the truth has -0.325


def test_more_answers_have_deeper_trees() -> None:
    """The weights of answers count, not their number."""
    one = experts.Target("y", 0, np.arange(2), np.arange(2), np.full(2, 0.5, np.float32), 2)
    depths = [one._replace(weight=one.weight * n).growth.depth for n in (1, 2499, 2500, 9999, 10_000)]
    assert depths == [2, 2, 3, 3, 4]


def test_an_unknown_source_holds_to_the_part_that_is_its_share() -> None:
    """A row with unknown answers is in every leaf by the product of the shares on the way: all ways to know it."""
    rng = np.random.default_rng(0)
    split = rng.integers(4, size=(5, 7))
    share = np.asarray([0.2, 0.5, 0.7, 0.4], np.float64)
    for unknown in product([False, True], repeat=4):
        first = rng.integers(2, size=4).astype(float)
        row = np.where(unknown, share, first)
        found = in_leaves(row[:, None], split)[..., 0]
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        for tree, leaf in product(range(5), range(8)):
            node, chance = 0, 1.0
            for bit in f"{leaf:03b}":
                holds = row[split[tree, node]]
                chance *= holds if bit == "1" else 1.0 - holds
                node = 2 * node + 1 + int(bit)
            assert found[tree, leaf] == pytest.approx(chance)


def test_a_table_predicts_what_follows_from_another_answer() -> None:
    """Forty districts in five regions, with one answer in fifty wrong: P(region | district), known or not."""
    rng, n = np.random.default_rng(0), 1200
    district = rng.integers(40, size=n)
    region = np.where(rng.random(n) < 0.02, rng.integers(5, size=n), district // 8).astype(np.int64)
    target = experts.Target("region", 0, np.arange(n), region, np.ones(n, np.float32), 5)
    coded = experts._Coded("district", np.arange(39) + 0.5, district)
    (tables,) = experts._best_tables([target], [coded], np.arange(n))
    assert [each.name for each in tables] == ["district"]
    holds = rng.integers(2, size=(n, 6)).astype(np.float32)
    trees = boosted(holds, target, tables=tables)
    assert trees is not None
    again = rng.integers(40, size=400)
    known = {f"x{k}": np.zeros(400) for k in range(6)} | {"district": again.astype(float)}
    chance, part = trees.predict(found_in(known), np.arange(400))
    assert np.log(chance[np.arange(400), again // 8]).mean() > -0.15
    np.testing.assert_allclose(part, 1.0)
    known["district"] = np.full(400, np.nan)
    chance, part = trees.predict(found_in(known), np.arange(400))
    np.testing.assert_allclose(chance, np.tile(target.shares, (400, 1)), atol=0.1)
    assert (part < 0.2).all()


def test_shares_without_the_answer_itself() -> None:
    rng = np.random.default_rng(0)
    code, label, weight = rng.integers(-1, 4, size=60), rng.integers(3, size=60), rng.random(60).astype(np.float32)
    own = experts.Target("y", 0, np.arange(60), label, weight, 3)
    table, each = experts._shares_by(code, own, own.shares, 4)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    for row in range(60):
        others = np.arange(60) != row
        rest = own.some(np.flatnonzero(others))
        expected = experts._shares_by(code[others], rest, own.shares, 4)[0][code[row]] if code[row] >= 0 else own.shares
        np.testing.assert_allclose(each[row], expected, atol=1e-6)


def test_members_and_trees_as_one_distribution() -> None:
    """A mean with the weight that the known part has, and a power of what it adds to the shares of labels."""
    base, first, chance = np.log([0.7, 0.2, 0.1]), np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[0.2, 0.2, 0.6]])
    trees = Trees((), np.zeros((0, 1), np.int64), np.zeros((0, 2, 3), np.float32), base, (), np.zeros(0))
    expert = Expert(trees, 0.6, 1.4)
    np.testing.assert_allclose(expert.join(first, chance, np.zeros(1)), first)
    mean = np.log(0.4 * first + 0.6 * chance)
    np.testing.assert_allclose(expert.join(first, chance, np.ones(1)), softmax(base + 1.4 * (mean - base), axis=1))
    half = np.log((0.4 * first + 0.3 * chance) / 0.7)
    expected = softmax(base + 1.2 * (half - base), axis=1)
    np.testing.assert_allclose(expert.join(first, chance, np.full(1, 0.5)), expected)
    np.testing.assert_allclose(expert.join(np.exp(base)[None], np.exp(base)[None], np.ones(1)), np.exp(base)[None])


def test_trees_that_stop_at_once_leave_their_tables() -> None:
    table = Conditional("x", np.asarray([0.5]), np.asarray([[0.8, 0.2], [0.3, 0.7]]))
    none = np.zeros((0, 3), np.int64), np.zeros((0, 4, 2), np.float32)
    trees = Trees((), *none, np.log([0.5, 0.5]), (table,), np.ones(1))
    chance, known = trees.predict(found_in({"x": np.asarray([0.0, 1.0, np.nan])}), np.arange(3))
    np.testing.assert_allclose(chance, [[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])
    np.testing.assert_array_equal(known, [1.0, 1.0, 0.0])
    assert trees.predict(found_in({"x": np.zeros(0)}), np.arange(0))[0].shape == (0, 2)


@cache
def frame() -> pd.DataFrame:
    """Three answers with a common cause, and one that is yes for ages in the middle: no hidden unit is like that."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=N)
    found: dict[str, Any] = {
        f"q{i}": np.asarray(["low", "mid", "high"])[np.digitize(common + rng.normal(size=N), [-0.5, 0.7])]
        for i in range(3)
    }
    found["age"] = np.round(40 + 10 * rng.normal(size=N), 1)
    found["parent"] = np.where((np.abs(found["age"] - 40) < 7) ^ (rng.random(N) < 0.05), "yes", "no")
    return pd.DataFrame(found).mask(rng.random((N, 5)) < 0.1)


SETTINGS: dict[str, Any] = {"members": 2, "max_epochs": 30, "random_state": 0, "verbose": False}


@cache
def fitted(missing: str = "auto") -> tb.TBM:
    return tb.TBM(missing=missing, **SETTINGS).fit(frame())


def experts_of(model: tb.TBM) -> Any:
    return model.model_.correction.experts


def without_experts(model: tb.TBM) -> tb.TBM:
    found = tb.TBM(**model.get_params())
    found.__dict__.update(model.__dict__)
    found.model_ = replace(model.model_, correction=replace(model.model_.correction, experts={}))
    return found


def with_experts(query: Query, own: Any, **changes: Any) -> Query:
    return replace(query, correction=replace(query.correction, experts=own), **changes)


def test_held_out_answers_give_trees_the_weight_that_they_earn() -> None:
    assert experts_of(fitted())["parent"][0].weight > 0.5
    hidden = np.random.default_rng(3).random(N) < 0.3
    shown = frame().copy()
    truth = shown["parent"].to_numpy()
    rows = np.flatnonzero(hidden & pd.notna(truth))
    shown.loc[hidden, "parent"] = None
    model = tb.TBM(**SETTINGS).fit(shown)
    scores = []
    for each in (model, without_experts(model)):
        chance = np.asarray(each.predict_proba(shown, "parent"))[rows]
        scores.append(np.log(chance[np.arange(len(rows)), (truth[rows] == "yes").astype(int)]).mean())
    assert scores[0] > scores[1] + 0.1


def test_what_was_used_is_said_and_trees_can_be_left_out() -> None:
    about = {each["column"]: each for each in fitted().experts_}
    assert next(iter(about["parent"]["uses"])) == "age"
    assert 0 < about["parent"]["weight"] <= 1
    assert about["parent"]["n_trees"] == len(experts_of(fitted())["parent"][0].trees.split)
    plain = tb.TBM(learning=tb.Prediction(experts="none"), **SETTINGS).fit(frame())
    assert plain.experts_ == []
    with pytest.raises(tb.ThurboError, match="experts='some' is not one of auto, none"):
        tb.TBM(learning=tb.Prediction(experts="some"), **SETTINGS).fit(frame())  # type: ignore[arg-type]


def test_a_row_alone_is_predicted_as_in_its_table() -> None:
    model, table = fitted(), frame()
    every = np.asarray(model.predict_proba(table, "parent"))
    for row in (0, 17, 250):
        np.testing.assert_allclose(model.predict_proba(table.iloc[[row]], "parent"), every[[row]], atol=1e-6)


def predicted(model: tb.TBM, table: pd.DataFrame, name: str) -> np.ndarray:
    """What a model predicts of a column: probabilities of labels, or mean and intervals of a number: [row, any]."""
    if name != "age":
        return np.asarray(model.predict_proba(table, name))
    mean = np.asarray(model.predict(table, name, statistic="mean"), float).reshape(len(table), 1)
    return np.concatenate([mean, *(intervals(model, table, name, level) for level in (0.5, 0.9))], axis=1)


def intervals(model: tb.TBM, table: pd.DataFrame, name: str, level: float) -> np.ndarray:
    return np.asarray(model.predict_interval(table, name, level=level), float).reshape(len(table), 2)


def test_in_an_empty_row_trees_have_no_weight() -> None:
    model = fitted()
    nobody = pd.DataFrame({name: [None] for name in frame()}, dtype=object)
    assert "parent" in experts_of(model)
    for name in experts_of(model):
        chance, part = (
            each.trees.predict(model._query(nobody).value, np.zeros(1, np.int64))
            for each in experts_of(model)[name].values()
        ).__next__()
        assert part == pytest.approx(0.0)
        np.testing.assert_allclose(chance.sum(), 1.0)
        found, bare = (predicted(each, nobody, name) for each in (model, without_experts(model)))
        np.testing.assert_allclose(found, bare, atol=1e-9)


def test_numbers_have_trees_too() -> None:
    """Parents are of middle age: bands of a number change, and intervals of parents are narrower."""
    model = fitted()
    assert "parent" in experts_of(model)["age"][0].trees.used
    empty = pd.DataFrame({name: [None] * 2 for name in frame()}, dtype=object).assign(parent=["yes", "no"])
    width = np.diff(intervals(model, empty, "age", 0.8))[:, 0]
    bare = np.diff(intervals(without_experts(model), empty, "age", 0.8))[:, 0]
    assert width[0] < 0.9 * bare[0]
    assert width[1] > width[0] * 1.2


def test_scores_of_numbers_have_the_trees() -> None:
    """The log score of masked ages is the log density of the changed distribution, in the user's units."""
    model, table = fitted(), frame()
    rows = np.flatnonzero(table["age"].notna())[:40]
    query = model._query(table.iloc[rows])
    ask, column = query.about("age"), model.schema_["age"]
    truth = table["age"].to_numpy()[rows]
    step = 1e-3
    ends = [column.to_standard(truth + side * step) for side in (-1, 1)]
    below = [ask.density(end)[1] for end in ends]
    density = np.exp(ask.density(column.to_standard(truth))[0] + column.log_derivative(truth))
    assert ask.edges is not None
    inside = np.searchsorted(ask.edges, ends[0]) == np.searchsorted(ask.edges, ends[1])
    assert inside.sum() > 35
    np.testing.assert_allclose(density[inside], ((below[1] - below[0]) / (2 * step))[inside], rtol=0.05)
    alone = query.about("age", Lines(np.arange(3), np.zeros(3, int)))
    np.testing.assert_allclose(alone.below(np.linspace(-2, 2, 9)), ask.below(np.linspace(-2, 2, 9))[:3], atol=1e-6)


def stump(part: int = ANSWERED, name: str = "q0", share: float = 0.9) -> dict[str, dict[int, Expert]]:
    """One source that decides everything: no for those of whom it holds."""
    source, value = Source(name, part, 0.5, 1.5, share), np.asarray([[[0.0, 0.0], [5.0, -5.0]]], np.float32)
    trees = Trees((source,), np.zeros((1, 1), np.int64), value, np.log([0.5, 0.5]), (), np.ones(1))
    return {"parent": {0: Expert(trees, 1.0)}}


def test_columns_that_a_table_does_not_have_say_nothing() -> None:
    """That a question was not answered says nothing if the table has no such column, or the row has too few answers."""
    table, least = frame().assign(q0=None), fitted().model_.least_answers
    some, rows = (table.notna().sum(axis=1) >= least).to_numpy(), np.arange(N)
    assert 0 < some.sum() < N
    for absent, heard in (((), some), (("q0",), np.zeros(N, bool))):
        query = with_experts(fitted()._query(table), stump(), absent=absent)
        trees = query.correction.experts["parent"][0].trees
        chance, part = trees.predict(query.value, rows)
        np.testing.assert_allclose(part, heard)
        expected = np.where(heard[:, None], [0.5, 0.5], softmax([0.9 * 5.0, -0.9 * 5.0]))
        np.testing.assert_allclose(chance, expected, atol=1e-6)


def test_a_condition_is_no_respondent() -> None:
    """Rows that have only a condition of the query skipped nothing; an answer that is typed in says the same."""
    model = fitted()
    empty = pd.DataFrame({name: [None] for name in frame()}, dtype=object)
    queries = model._query(empty, {"q1": "mid"}), model._query(empty.assign(q1="mid"))
    for own, silent in ((stump(), True), (stump(0, "q1"), False)):
        found = [own["parent"][0].trees.predict(each.value, np.zeros(1, np.int64)) for each in queries]
        np.testing.assert_allclose(found[0][0], found[1][0])
        assert [bool(part == 0) for _, part in found] == [silent, silent]
    respondent = model._query(empty.assign(q1="mid"), gaps="informative")
    assert stump()["parent"][0].trees.predict(respondent.value, np.zeros(1, np.int64))[1] == 1.0


def test_missing_answers_say_nothing_if_they_are_ignorable() -> None:
    parts = {
        s.part for own in experts_of(fitted("ignorable")).values() for each in own.values() for s in each.trees.sources
    }
    assert ANSWERED not in parts
    assert parts


def test_intervals_over_several_bands_are_no_answers() -> None:
    """Those inside one band are a selection: trees would learn which intervals are narrow."""
    model, age = fitted(), frame()["age"].to_numpy(object).copy()
    wide = [None if pd.isna(each) else tb.between(10 * (each // 10), 10 * (each // 10) + 10) for each in age]
    few = age.copy()
    few[:4] = wide[:4]
    for cells, is_known in ((age, True), (few, True), (np.asarray(wide, object), False)):
        query = model._query(frame().astype(object).assign(age=cells))
        found = experts.answers_of(query.lead, "age")
        assert (found is not None) == is_known
        if found is not None:
            assert 0 <= np.isnan(found).sum() - pd.isna(age).sum() <= 4


@cache
def places() -> tuple[pd.DataFrame, tb.TBM]:
    """A region that follows from one of thirty districts, and two answers that depend on the region."""
    rng, n = np.random.default_rng(0), 600
    district = rng.integers(30, size=n)
    region = district // 6
    answers = {f"q{i}": np.where(rng.random(n) < 0.15 + 0.15 * region, "yes", "no") for i in range(2)}
    names = {"district": [f"d{k:02}" for k in district], "region": [f"r{k}" for k in region]}
    table = pd.DataFrame({**names, **answers}).mask(rng.random((n, 4)) < 0.1)
    schema = {
        "district": tb.Categorical([f"d{k:02}" for k in range(30)]),
        "region": tb.Categorical([f"r{k}" for k in range(5)]),
        **{name: tb.Binary(true="yes") for name in answers},
    }
    return table, tb.TBM(schema, **SETTINGS).fit(table)


def test_a_column_that_follows_from_another_one_is_known_both_ways() -> None:
    table, model = places()
    assert {(each.column, each.by) for each in model.schema_.determined} == {("region", "district")}
    rows = table[table.notna().all(axis=1)].iloc[:60]
    region = np.asarray([int(each[1:]) for each in rows["region"]])
    chance = np.asarray(model.predict_proba(rows.assign(region=None), "region"))
    assert chance[np.arange(60), region].mean() > 0.9
    districts = np.asarray(model.predict_proba(rows.assign(district=None), "district")).reshape(60, 5, 6)
    assert districts.sum(axis=2)[np.arange(60), region].min() > 0.95
    empty = pd.DataFrame({name: [None] for name in table}, dtype=object)
    typed, given = (
        model.predict_proba(empty.assign(region="r2"), "district"),
        model.predict_proba(empty, "district", given={"region": "r2"}),
    )
    np.testing.assert_allclose(typed, given, atol=1e-6)
    drawn = model.sample(300, random_state=0).dropna(subset=["district", "region"])
    agree = [int(a[1:]) // 6 == int(b[1:]) for a, b in zip(drawn["district"], drawn["region"], strict=True)]
    assert np.mean(agree) > 0.93


def test_options_of_one_question_do_not_say_more_about_each_other() -> None:
    """Trees know other questions only: where the row says something about other options, members predict alone."""
    rng, n = np.random.default_rng(0), 400
    age = rng.normal(size=n)
    ticked = np.stack([np.abs(age) < 0.6, age > 0.3, rng.random(n) < 0.5], axis=1) ^ (rng.random((n, 3)) < 0.1)
    table = pd.DataFrame({"age": age, "uses": [[k for k, on in zip("abc", row, strict=True) if on] for row in ticked]})
    model = tb.TBM({"age": tb.Continuous(), "uses": tb.MultiSelect(["a", "b", "c"])}, **SETTINGS).fit(table)
    assert 0 in experts_of(model)["uses"]
    query = model._query(table)
    every, bare = query.about("uses"), with_experts(query, {}).about("uses")
    assert np.abs(every.levels(2, 0) - bare.levels(2, 0)).max() > 0.05
    own, alone = query.about("uses", own=False), with_experts(query, {}).about("uses", own=False)
    np.testing.assert_allclose(own.levels(2, 0), alone.levels(2, 0), atol=1e-9)


def test_saved_trees_say_the_same_and_damaged_ones_are_refused(tmp_path: Any) -> None:
    table, model = places()
    path = tmp_path / "m.thurbo"
    model.save(path)
    again = tb.TBM.load(path)
    for name in ("region", "district", "q0"):
        np.testing.assert_array_equal(again.predict_proba(table, name), model.predict_proba(table, name))
    assert again.experts_ == model.experts_
    again.save(tmp_path / "n.thurbo")
    assert (tmp_path / "n.thurbo").read_bytes() == path.read_bytes()
    arrays, description = files.load(path)
    about = description["experts"]["region"]["0"]
    for part, value in (
        ("weight", 1.5),
        ("power", -1.0),
        ("base", [0.0]),
        ("gain", []),
        ("sources", [["nobody", 0, 0, 1, 0.5]]),
    ):
        usual, about[part] = about[part], value
        files.save(path, arrays, description)
        with pytest.raises(NotTrusted):
            tb.TBM.load(path)
        about[part] = usual
    name = f"{about['arrays']}.split"
    files.save(path, arrays | {name: arrays[name] + 1000}, description)
    with pytest.raises(NotTrusted):
        tb.TBM.load(path)


def test_tables_have_one_row_for_each_part() -> None:
    table = Conditional("a", np.asarray([0.5, 1.5]), np.asarray([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]))
    chance, known = table.predict(found_in({"a": np.asarray([0.0, 2.0, np.nan, 1.0])}), np.asarray([1, 2, 3]))
    np.testing.assert_allclose(chance[[0, 2]], [[0.9, 0.1], [0.5, 0.5]])
    assert known.tolist() == [True, False, True]
