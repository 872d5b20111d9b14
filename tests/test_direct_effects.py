"""§4.3, §5: direct effects of answers on each other: how they are found, what they add, and when they are silent."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import thurbo as tb
from thurbo import model_file
from thurbo.fit import direct_effects
from thurbo.predict import correction
from thurbo.predict.correction import ANSWERED, Effect, Source
from thurbo.predict.model import Query
from thurbo.table.columns import Block
from thurbo.table.columns.forms import Lines

N = 400


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


@cache
def fitted(missing: str = "auto") -> tb.TBM:
    settings: dict[str, Any] = {"members": 2, "max_epochs": 30, "random_state": 0, "verbose": False}
    return tb.TBM(missing=missing, **settings).fit(frame())


def effects_of(model: tb.TBM) -> Any:
    return model.model_.correction.effects


def without_effects(model: tb.TBM) -> tb.TBM:
    found = tb.TBM(**model.get_params())
    found.__dict__.update(model.__dict__)
    found.model_ = replace(model.model_, correction=replace(model.model_.correction, effects={}))
    return found


def with_effects(query: Query, effects: Any, **changes: Any) -> Query:
    return replace(query, correction=replace(query.correction, effects=effects), **changes)


def data(n: int = 600, seed: int = 0, strength: float = 1.5) -> tuple[np.ndarray, direct_effects.Labels, np.ndarray]:
    """Labels that depend on features 3 and 7 of thirty, beside what their starting log-probabilities say."""
    rng = np.random.default_rng(seed)
    features = (rng.random((n, 30)) < 0.4) - 0.4
    start = np.log(rng.dirichlet([2, 2, 2], size=n))
    logits = start + strength * features[:, [3]] * [1, 0, -1] + strength * features[:, [7]] * [0, 1, -1]
    code = np.asarray([rng.choice(3, p=own) for own in softmax(logits, axis=1)], np.int64)
    return features, direct_effects.Labels(start, code, np.ones(n)), rng.integers(5, size=n)


def test_boosting_finds_what_has_effects() -> None:
    features, answers, fold = data()
    used, tilt = direct_effects.fit(features, answers, fold)
    size = np.zeros(30)
    size[used] = np.abs(tilt).max(axis=1)
    assert set(np.argsort(-size)[:2]) == {3, 7}
    assert size[[3, 7]].min() > 2.5 * np.delete(size, [3, 7]).max()
    assert (tilt[list(used).index(3)] * [1, 0, -1]).sum() > 0.8


def test_boosting_goes_to_the_best_coefficients() -> None:
    """Many rounds with two features and no penalty: the maximum-likelihood coefficients, by another optimiser.

    Two fits, one of them without some answers, take their rounds together.
    """
    features, answers, fold = data()
    few, weight = features[:, [3, 7]], np.stack([np.ones(len(fold)), fold != 0])
    fits, coefficients = direct_effects._Fits(few, answers, weight), np.zeros((2, 2, 3))
    for _ in range(400):
        best, own = fits.round()
        coefficients[np.arange(2), best] += own

    def loss(flat: np.ndarray, weight: np.ndarray) -> float:
        logits = answers.start + few @ flat.reshape(2, 3)
        return -float(weight @ log_softmax(logits, axis=1)[np.arange(len(few)), answers.code])

    for each, own_weight in enumerate(weight):
        least = minimize(loss, np.zeros(6), own_weight, tol=1e-10)
        assert loss(coefficients[each].ravel(), own_weight) == pytest.approx(least.fun, abs=0.05)
        chance = softmax(answers.start + few @ coefficients[each], axis=1)
        np.testing.assert_allclose(fits.chance[:, each].T, chance, atol=1e-6)


def test_the_slope_is_that_of_the_score() -> None:
    _, answers, _ = data(20)
    slope, bend = answers.slope(answers.start)
    step, found = 1e-4, np.zeros_like(slope)
    second = np.zeros_like(slope)
    for place in np.ndindex(*slope.shape):
        moved = [answers.start.copy() for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        ends = [answers.score(each) for each in moved]
        found[place] = (ends[0] - ends[1]) / (2 * step)
        second[place] = (2 * answers.score(answers.start) - ends[0] - ends[1]) / step**2
    np.testing.assert_allclose(slope, found, atol=1e-6)
    np.testing.assert_allclose(bend, second, atol=1e-4)


def test_without_effects_almost_none_are_found() -> None:
    sizes = []
    for seed in range(20):
        features, answers, fold = data(300, seed, strength=0.0)
        used, tilt = direct_effects.fit(features, answers, fold)
        sizes.append(np.abs(features[:, used] @ tilt).max(initial=0.0))
    assert np.mean(np.asarray(sizes) == 0) >= 0.6
    assert max(sizes) < 0.6


def test_few_answers_have_no_effects() -> None:
    features, answers, fold = data(direct_effects.LEAST_ANSWERS - 1)
    used, tilt = direct_effects.fit(features, answers, fold)
    assert len(used) == 0
    assert tilt.shape == (0, 3)


def test_many_features_are_screened() -> None:
    features, answers, fold = data()
    rng = np.random.default_rng(1)
    wide = np.concatenate([features, rng.normal(size=(len(features), direct_effects.MOST_FEATURES))], axis=1)
    used, _ = direct_effects.fit(wide, answers, fold)
    assert {3, 7} <= set(used.tolist())


def test_questions_are_screened_together_as_each_of_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that were hidden together with an answer say nothing about it; others are compared by their gains."""
    monkeypatch.setattr(direct_effects, "MOST_FEATURES", 4)
    monkeypatch.setattr(direct_effects, "LABELS_AT_ONCE", 5)
    rng, n, n_columns = np.random.default_rng(0), 300, 10
    turn = rng.integers(-1, direct_effects.N_PASSES, size=(n, n_columns)).astype(np.int8)
    strength, column = rng.normal(size=(n, 2 * n_columns)).astype(np.float32), np.repeat(np.arange(n_columns), 2)
    sources = [Source(f"q{place}", 0, 0.0, 1.0, 0.5) for place in column]
    found = direct_effects._Features(sources, strength, column, turn[:, column])
    targets = []
    for number, n_labels in [(2, 3), (7, 2), (4, 6)]:
        row = np.sort(rng.permutation(n)[:200])
        code = np.where(strength[row, 0] > 0, 0, rng.integers(n_labels, size=200))
        start = np.log(rng.dirichlet(np.ones(n_labels), size=200)).astype(np.float32)
        answers = direct_effects.Labels(start, code, rng.random(200).astype(np.float32))
        targets.append(direct_effects._Target(number, row, answers))
    for own, chosen in zip(targets, direct_effects._screened(targets, found, turn), strict=True):
        hidden = found.turn[own.row] == turn[own.row, own.number][:, None]
        features = np.where(hidden, 0, strength[own.row])
        gain = direct_effects._Fits(features, own.answers, own.answers.weight[None]).steps()[0][:, 0]
        assert not gain[column == own.number].any()
        np.testing.assert_array_equal(chosen, np.sort(np.argsort(-gain)[:4]))
        assert 0 in chosen


def test_values_of_every_family() -> None:
    levels = Block.levels(
        np.asarray([[0, 1], [2, -1]], np.int32), 2, np.asarray([[0, 2], [2, -1]], np.int32), ("a", "b")
    )
    np.testing.assert_array_equal(correction.answer_values(levels), [[0, np.nan], [2, np.nan]])
    choice = Block.orders(np.asarray([[0, 1, 0], [-1, -1, -1], [1, 1, 0]], np.int32), None, ("a", "b", "c"))
    np.testing.assert_array_equal(correction.answer_values(choice), [[1], [np.nan], [np.nan]])
    number = replace(
        Block.silent(4),
        lower=np.asarray([[1.5], [-np.inf], [0.0], [-np.inf]]),
        upper=np.asarray([[1.5], [2.0], [3.0], [np.inf]]),
    )
    np.testing.assert_array_equal(correction.answer_values(number), [[1.5], [2.0], [1.5], [np.nan]])


def test_what_effects_add() -> None:
    effects = (
        Effect(Source("a", 0, 0.5, 1.5, 0.25), (1.0, -1.0)),
        Effect(Source("b", ANSWERED, 0.5, 1.5, 0.5), (0.2, 0)),
    )
    known = {("a", 0): np.asarray([1.0, 0.0, np.nan]), ("b", ANSWERED): np.asarray([1.0, 0.0, np.nan])}
    found = correction.effect_tilt(effects, lambda *place: known[place])
    np.testing.assert_allclose(found, [[0.75 + 0.1, -0.75], [-0.25 - 0.1, 0.25], [0, 0]])


def test_an_effect_that_no_hidden_unit_has_is_found() -> None:
    sources = {effect.source.column for effect in effects_of(fitted())["parent"][0]}
    assert "age" in sources
    hidden = np.random.default_rng(3).random(N) < 0.3
    shown = frame().copy()
    truth = shown["parent"].to_numpy()
    rows = np.flatnonzero(hidden & pd.notna(truth))
    shown.loc[hidden, "parent"] = None
    model = tb.TBM(members=2, max_epochs=30, random_state=0, verbose=False).fit(shown)
    scores = []
    for each in (model, without_effects(model)):
        chance = np.asarray(each.predict_proba(shown, "parent"))[rows]
        scores.append(np.log(chance[np.arange(len(rows)), (truth[rows] == "yes").astype(int)]).mean())
    assert scores[0] > scores[1] + 0.1


def test_effects_are_added_to_the_log_probabilities_of_the_mixture() -> None:
    model, table = fitted(), frame()
    with_them, bare = (
        np.log(np.asarray(each.predict_proba(table, "parent"))) for each in (model, without_effects(model))
    )
    added = model._query(table).about("parent").tilt[0]
    np.testing.assert_allclose(with_them, log_softmax(bare + added, axis=1), atol=1e-6)
    assert np.abs(added).max() > 1


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


def test_an_empty_row_has_no_effects() -> None:
    model = fitted()
    nobody = pd.DataFrame({name: [None] for name in frame()}, dtype=object)
    assert {"age", "parent"} <= set(effects_of(model))
    for name in effects_of(model):
        found, bare = (predicted(each, nobody, name) for each in (model, without_effects(model)))
        np.testing.assert_allclose(found, bare, atol=1e-9)


def test_numbers_have_direct_effects_that_no_hidden_unit_has() -> None:
    """Parents are of middle age: bands of a number change, and intervals of parents are narrower."""
    model = fitted()
    sources = {effect.source.column for effect in effects_of(model)["age"][0]}
    assert "parent" in sources
    empty = pd.DataFrame({name: [None] * 2 for name in frame()}, dtype=object).assign(parent=["yes", "no"])
    width = np.diff(intervals(model, empty, "age", 0.8))[:, 0]
    bare = np.diff(intervals(without_effects(model), empty, "age", 0.8))[:, 0]
    assert width[0] < 0.8 * bare[0]
    assert width[1] > width[0] * 1.3


def test_scores_of_numbers_have_the_effects() -> None:
    """The log score of masked ages is the log density of the tilted distribution, in the user's units."""
    model, table = fitted(), frame()
    rows = np.flatnonzero(table["age"].notna())[:40]
    query = model._query(table.iloc[rows])
    ask, column = query.about("age"), model.schema_["age"]
    truth = table["age"].to_numpy()[rows]
    step = 1e-3
    ends = [column.to_standard(truth + side * step) for side in (-1, 1)]
    below = [ask.density(end)[1] for end in ends]
    density = np.exp(ask.density(column.to_standard(truth))[0] + column.log_derivative(truth))
    inside = np.searchsorted(ask.edges, ends[0]) == np.searchsorted(ask.edges, ends[1])
    assert inside.sum() > 35
    np.testing.assert_allclose(density[inside], ((below[1] - below[0]) / (2 * step))[inside], rtol=0.05)
    alone = query.about("age", Lines(np.arange(3), np.zeros(3, int)))
    np.testing.assert_allclose(alone.below(np.linspace(-2, 2, 9)), ask.below(np.linspace(-2, 2, 9))[:3], atol=1e-6)


def test_columns_that_a_table_does_not_have_say_nothing() -> None:
    """An effect of whether a question was answered is silent if the table has no such column."""
    table, least = frame().assign(q0=None), fitted().model_.least_answers
    query = fitted()._query(table)
    gap = Effect(Source("q0", ANSWERED, 0.5, 1.5, 0.9), (5.0, -5.0))
    heard, silent = (with_effects(query, {"parent": {0: (gap,)}}, absent=absent) for absent in ((), ("q0",)))
    rows, some = np.arange(N), (table.notna().sum(axis=1) >= least).to_numpy()
    assert 0 < some.sum() < N
    tilts = [each.about("parent").tilt[0][rows] for each in (heard, silent)]
    np.testing.assert_allclose(tilts[0], np.where(some[:, None], [[-4.5, 4.5]], 0.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(tilts[1], 0.0)  # type: ignore[arg-type]


def test_a_condition_is_no_respondent() -> None:
    """Rows that have only a condition of the query skipped nothing; an answer that is typed in says the same."""
    model = fitted()
    empty = pd.DataFrame({name: [None] for name in frame()}, dtype=object)
    gap = Effect(Source("q0", ANSWERED, 0.5, 1.5, 0.9), (5.0, -5.0))
    told = Effect(Source("q1", 0, 0.5, 1.5, 0.4), (1.0, -1.0))
    for query in (model._query(empty, {"q1": "mid"}), model._query(empty.assign(q1="mid"))):
        tilt = with_effects(query, {"parent": {0: (gap, told)}}).about("parent").tilt[0]
        np.testing.assert_allclose(tilt, [[0.6, -0.6]])  # type: ignore[arg-type]
    respondent = model._query(empty.assign(q1="mid"), gaps="informative")
    tilt = with_effects(respondent, {"parent": {0: (gap, told)}}).about("parent").tilt[0]
    np.testing.assert_allclose(tilt, [[0.6 - 4.5, -0.6 + 4.5]])  # type: ignore[arg-type]


def test_missing_answers_have_no_effects_if_they_are_ignorable() -> None:
    parts = {
        effect.source.part
        for own in effects_of(fitted("ignorable")).values()
        for effects in own.values()
        for effect in effects
    }
    assert ANSWERED not in parts
    assert parts


def test_intervals_over_several_bands_have_no_effects() -> None:
    """Those inside one band are a selection: effects on them would say which intervals are narrow."""
    model, age = fitted(), frame()["age"].to_numpy(object).copy()
    wide = [None if pd.isna(each) else tb.between(10 * (each // 10), 10 * (each // 10) + 10) for each in age]
    few = age.copy()
    few[:4] = wide[:4]
    for cells, has_effects in ((age, True), (few, True), (np.asarray(wide, object), False)):
        query = model._query(frame().astype(object).assign(age=cells))
        found = direct_effects._answers(query.lead, "age")
        assert (found is not None) == has_effects
        if found is not None:
            assert 0 <= np.isnan(found).sum() - pd.isna(age).sum() <= 4


def test_a_gate_has_no_effects_of_its_hidden_follow_up() -> None:
    """Without another dependence, the routing of a gate with one follow-up question is all that there is to learn."""
    rng = np.random.default_rng(5)
    eats = rng.random(N) < 0.6
    table = pd.DataFrame({"eats": np.where(eats, "yes", "no"), "done": rng.choice(["rare", "medium", "well"], N)})
    table["done"] = table["done"].mask(~eats)
    table = table.assign(**{f"q{i}": rng.choice(["a", "b"], N) for i in range(3)}).astype(object)
    model = tb.TBM(members=2, max_epochs=20, random_state=0, verbose=False).fit(table)
    assert model.schema_.skips
    both = [np.asarray(each.predict_proba(table, "eats")) for each in (model, without_effects(model))]
    assert np.abs(both[0] - both[1]).max() < 0.05
    assert (both[0][eats, 1] > 0.9).all()


def test_a_file_has_the_effects(tmp_path: Any) -> None:
    model = fitted()
    model.save(tmp_path / "model.thurbo")
    again = tb.TBM.load(tmp_path / "model.thurbo")
    assert effects_of(again) == effects_of(model)
    np.testing.assert_allclose(
        again.predict_proba(frame(), "parent"), model.predict_proba(frame(), "parent"), atol=1e-6
    )
    np.testing.assert_allclose(predicted(again, frame(), "age"), predicted(model, frame(), "age"), atol=1e-4)


def test_effects_of_a_file_fit_the_bands_of_a_number() -> None:
    model = fitted()
    anchors = dict(model.model_.correction.anchors)
    n_bands = len(model.schema_["age"].effect_edges) + 1
    for n, fits in ((n_bands, True), (n_bands - 1, False), (1, False)):
        state = {"age": {"0": [["q0", 0, 0.5, 1.5, 0.3, [0.1] * n]]}}
        if fits:
            found = model_file._effects(state, anchors, model.schema_)
            assert found == {"age": {0: (Effect(Source("q0", 0, 0.5, 1.5, 0.3), (0.1,) * n),)}}
        else:
            with pytest.raises(ValueError, match="do not fit"):
                model_file._effects(state, anchors, model.schema_)


def test_the_same_seed_gives_the_same_effects() -> None:
    settings: dict[str, Any] = {"members": 2, "max_epochs": 30, "random_state": 0, "verbose": False}
    assert effects_of(tb.TBM(**settings).fit(frame())) == effects_of(fitted())
