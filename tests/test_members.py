"""§5: several members in one fit: their weights, what queries answer, and files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from threading import Event, active_count
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.base import clone

import thurbo as tb
from tests.known import changed as with_params
from thurbo.errors import ThurboError
from thurbo.fit import course, members, population, trainer
from thurbo.fit.trainer import Learnable
from thurbo.predict import diagnose
from thurbo.predict.correction import Correction

N = 160
SCHEMA = {
    "fan": tb.Binary(true="yes"),
    "trust": tb.Ordinal(["low", "mid", "high"]),
    "party": tb.Categorical(["a", "b", "c"]),
    "age": tb.Continuous(),
}


@cache
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = rng.random(N) < 0.5
    shift = np.where(group, 1.2, -1.2)
    x = rng.normal(size=(N, 3)) + shift[:, None]
    utility = rng.normal(size=(N, 3)) + shift[:, None] * [1.0, 0.0, -1.0]
    found = pd.DataFrame(
        {
            "fan": np.where(x[:, 0] > 0, "yes", "no"),
            "trust": np.asarray(["low", "mid", "high"])[np.searchsorted([-1.0, 1.0], x[:, 1])],
            "party": np.asarray(["a", "b", "c"])[utility.argmax(axis=1)],
            "age": 40 + 8 * x[:, 2],
        }
    )
    return found.mask(rng.random(found.shape) < 0.1)


@cache
def fitted(whole: bool = False) -> tb.TBM:
    """Members of one reading, which share a program; `whole` has ordered levels and patterns of missing answers."""
    schema = {name: column for name, column in SCHEMA.items() if whole or name != "trust"}
    missing: Any = "auto" if whole else "ignorable"
    settings = {"members": 3, "max_epochs": 10, "learning_rate": 0.03, "random_state": 0, "verbose": False}
    return tb.TBM(schema, missing=missing, **settings).fit(frame())


def alone(model: tb.TBM) -> list[tb.TBM]:
    """Each member as a model of its own, without the correction."""
    found = []
    for each in model.model_.members:
        own = clone(model)
        own.__dict__.update(model.__dict__)
        member = each._replace(weight=1.0)
        own.model_ = replace(
            model.model_, schema=each.schema, members=(member,), params=each.params, correction=Correction()
        )
        found.append(own)
    return found


def test_weights_are_those_of_the_best_mixture() -> None:
    rng = np.random.default_rng(1)
    log_p = np.log(rng.dirichlet([1, 1, 1, 1], size=500).T * [[1.0], [0.8], [0.5], [1.2]])
    weight = rng.integers(1, 4, 500).astype(float)
    found = members.stack(log_p, weight)

    def loss(free: np.ndarray) -> float:
        share = softmax(np.append(free, 0.0))
        prior = members.PRIOR_ANSWERS / 4 * np.log(share).sum()
        return -float(weight @ logsumexp(log_p, axis=0, b=share[:, None])) - prior

    best = minimize(loss, np.zeros(3), tol=1e-10)
    np.testing.assert_allclose(found, softmax(np.append(best.x, 0.0)), atol=2e-3)
    assert found.sum() == pytest.approx(1)


def test_a_member_that_knows_nothing_counts_little() -> None:
    log_p = np.log(np.stack([np.full(400, 0.7), np.full(400, 0.3), np.full(400, 0.01)]))
    assert members.stack(log_p, np.ones(400))[0] > 0.97


def test_the_weights_of_a_column_follow_its_own_answers() -> None:
    shared = np.asarray([0.7, 0.2, 0.1])
    few, many = (np.log(np.tile([[0.1], [0.1], [0.9]], n)) for n in (2, 400))
    nothing = members.stack_column(np.zeros((3, 0)), np.zeros(0), shared)
    np.testing.assert_allclose(nothing, members.SHARED * shared + (1 - members.SHARED) / 3)
    weak, strong = (members.stack_column(each, np.ones(each.shape[1]), shared) for each in (few, many))
    assert nothing[2] < weak[2] < 0.6 < 0.97 < strong[2]


def test_the_exponent_of_a_kind_follows_its_own_answers() -> None:
    logs = np.log(members.POWERS)
    about = {"few": -2.0 * (logs - 0.4) ** 2, "many": -500.0 * (logs - 0.1) ** 2, "others": -500.0 * (logs + 0.1) ** 2}
    shared, found = members.calibrate(about)
    assert shared == pytest.approx(1.0, abs=0.01)
    assert found["many"] == pytest.approx(np.exp(0.1), rel=0.02)
    assert found["others"] == pytest.approx(np.exp(-0.1), rel=0.02)
    assert shared <= found["few"] < np.exp(0.15), "few answers do not pull it far from the others"
    assert set(members.calibrate({"few": about["few"]})[1]) == {"few"}


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_probabilities_are_weighted_means_of_the_members(whole: bool) -> None:
    model = fitted(whole)
    correction = model.model_.correction
    assert model.model_.weights.sum() == pytest.approx(1)
    few = frame()[:16]
    for name, kind in (("fan", "binary"), ("trust", "ordinal"), ("party", "categorical")):
        if name not in model.schema_:
            continue
        parts = np.stack([each.predict_proba(few, name, method="mean-field") for each in alone(model)])
        weights = model.model_.weights_of(name)
        assert weights.sum() == pytest.approx(1)
        (shares,), (tilt,), (credibility,) = correction.anchors[name]
        assert 0 < credibility < 1
        n_others = few[list(model.schema_)].drop(columns=name).notna().sum(axis=1).to_numpy()
        power = credibility * correction.exponents[kind]
        raised = np.tensordot(weights, parts, 1) ** power * shares ** (1 - power)
        raised *= np.exp(tilt / (1 + n_others[:, None]))
        expected = raised / raised.sum(axis=1, keepdims=True)
        if name in correction.experts:
            expected = correction.experts[name][0].mixed(expected, model._query(few).value, np.arange(len(few)))
        np.testing.assert_allclose(model.predict_proba(few, name), expected, atol=1e-6)
    readings = {each.settings.reading for each in model.model_.members}
    assert readings == ({"given", "utilities, missing"} if whole else {"given"})


def test_numbers_are_mixtures() -> None:
    model = fitted()
    means = [each.predict(frame(), "age", statistic="mean", method="mean-field")["age"] for each in alone(model)]
    bare = clone(model)
    bare.__dict__.update(model.__dict__)
    # What trees change: tests/test_experts.py
    bare.model_ = replace(model.model_, correction=replace(model.model_.correction, experts={}))
    np.testing.assert_allclose(
        bare.predict(frame(), "age", statistic="mean")["age"],
        sum(w * mean for w, mean in zip(model.model_.weights_of("age"), means, strict=True)),
        rtol=1e-4,
    )
    ends = model.predict_interval(frame(), "age", level=0.8)
    known = frame()["age"].notna()
    inside = (ends[known, 0] < frame()["age"][known]) & (frame()["age"][known] < ends[known, 1])
    assert 0.7 < inside.mean() < 0.95


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rows_are_scored_by_all_members(whole: bool) -> None:
    """By the chain rule over what they predict together: the log of the mean of both orders of two answers."""
    model, names = fitted(whole), ("fan", "party")
    few = frame()[list(model.schema_)].dropna(subset=list(names)).head(5)
    few[few.columns.difference(names)] = None
    few = few.astype({"age": float})
    empty, logs = few.assign(fan=None, party=None), []
    codes = {name: [model.schema_[name].labels.index(cell) for cell in few[name]] for name in names}
    for first, second in (names, names[::-1]):
        one = model.predict_proba(empty, first, gaps="ignorable")[range(5), codes[first]]
        two = model.predict_proba(few.assign(**{second: None}), second, gaps="ignorable")[range(5), codes[second]]
        logs.append(np.log(one) + np.log(two))
    value, error = model.score_samples(few, return_se=True)
    np.testing.assert_allclose(value, logsumexp(logs, axis=0) - np.log(2), atol=1e-5)
    np.testing.assert_array_equal(error, 0.0)  # of all orders
    assert (model.score_samples(frame()[:5], return_se=True)[1] >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_every_query_answers(whole: bool) -> None:
    model = fitted(whole)
    data = frame()[list(model.schema_)]
    assert model.transform(data).shape == (N, model.params_.n_hidden + model.params_.n_factors)
    filled = model.impute(data)
    assert filled.notna().all().all()
    pd.testing.assert_frame_equal(filled.where(data.notna()), data.where(data.notna()))
    drawn = model.impute_draws(data, 4, random_state=0)
    assert len(drawn) == 4
    assert all(each.notna().all().all() for each in drawn)
    new = model.sample(300, random_state=1)
    assert len(new) == 300
    assert abs((new["fan"] == "yes").mean() - (data["fan"].dropna() == "yes").mean()) < 0.15
    assert (model.sample(20, given="fan = yes", random_state=0)["fan"] == "yes").all()
    found = model.evaluate(data, random_state=0, logistic=False).overall
    assert found["log_score"] > found["log_score_marginal"]


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_file_has_all_members(tmp_path: object, whole: bool) -> None:
    model = fitted(whole)
    path = f"{tmp_path}/m.thurbo"
    model.save(path)
    again = tb.TBM.load(path)
    for name in ("fan", "party"):
        np.testing.assert_array_equal(again.predict_proba(frame(), name), model.predict_proba(frame(), name))
    np.testing.assert_array_equal(again.transform(frame()), model.transform(frame()))


def test_the_same_seed_gives_the_same_members() -> None:
    again = tb.TBM(**fitted().get_params(deep=False)).fit(frame())
    np.testing.assert_array_equal(again.predict_proba(frame(), "party"), fitted().predict_proba(frame(), "party"))


def test_an_interrupt_while_members_are_weighed_ends_their_last_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    began, running, lengths = Event(), course.fit, []

    def recorded(*arguments: Any, **options: Any) -> course.Fitted:
        is_last = options.get("resume", True)  # only the first training can resume
        if is_last:
            began.set()
            arguments = (*arguments[:5], arguments[5]._replace(max_epochs=100_000))
        found = running(*arguments, **options)
        lengths.append(len(found.history) if is_last else 0)
        return found

    def interrupted(*_: Any) -> Any:
        assert began.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "fit", recorded)
    monkeypatch.setattr(population, "_weigh", interrupted)
    before = active_count()
    with pytest.raises(KeyboardInterrupt):
        tb.TBM({"fan": SCHEMA["fan"], "age": SCHEMA["age"]}, members=2, max_epochs=2, verbose=False).fit(frame())
    assert active_count() == before
    assert len(lengths) == 4
    assert max(lengths) < 100_000


def test_more_training_needs_one_member() -> None:
    with pytest.raises(ThurboError, match="members=1"):
        fitted().partial_fit(frame())


@pytest.mark.parametrize("bad", [0, -1, 1.5, "many"])
def test_bad_numbers_are_refused(bad: object) -> None:
    with pytest.raises(ThurboError, match="members="):
        tb.TBM(SCHEMA, members=bad).fit(frame())  # type: ignore[arg-type]


def test_the_method_of_all_members_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains are slow to compile: two columns, of labels and of numbers."""
    monkeypatch.setattr(diagnose, "GIBBS_DRAWS", 300)
    schema = {name: SCHEMA[name] for name in ("fan", "age")}
    model = tb.TBM(schema, members=2, missing="ignorable", max_epochs=10, random_state=0, verbose=False).fit(frame())
    assert len(model.model_.members) > 1
    found = model.check_method(frame()[list(schema)], rows=4, random_state=0)
    assert found.reference == "exact" or found.reference == "gibbs"
    by_query = {each.query: each for each in found.differences}
    assert by_query["predict_proba"].largest > 1e-4  # mean-field is an approximation
    assert by_query["predict_proba"].largest < 0.2


@pytest.mark.slow
def test_members_of_equal_settings_draw_rows() -> None:
    """With five members, the first settings are used twice."""
    own = {name: column for name, column in SCHEMA.items() if name != "trust"}
    model = tb.TBM(own, members=5, missing="ignorable", max_epochs=2, random_state=0, verbose=False).fit(frame())
    assert len(model.sample(20, random_state=0)) == 20


def test_several_members_need_prediction() -> None:
    for settings in ({"objective": "exact"}, {"learning": tb.Likelihood()}):
        with pytest.raises(ThurboError, match="trained by prediction"):
            tb.TBM(SCHEMA, members=2, **settings).fit(frame())  # type: ignore[arg-type]


def test_one_member_if_anything_is_chosen() -> None:
    smoothed = {"learning": tb.Prediction(posterior_smoothing=0.5)}
    for chosen in ({"n_hidden": 2}, {"n_factors": 1}, {"objective": "likelihood"}, smoothed, {"max_epochs": 0}):
        model = tb.TBM(SCHEMA, **chosen)
        settings = model._settings(tb.Schema(SCHEMA))
        assert population.count(settings, tb.Schema(SCHEMA), 10_000) == 1


def test_a_single_column_is_fitted_by_its_exact_likelihood() -> None:
    """There is nothing to predict it from."""
    orders = {"films": [["A > B > C", "C > B > A"][row % 2] for row in range(240)]}
    columns = {"films": tb.Ranking(["A", "B", "C"])}
    own = tb.TBM(columns, max_epochs=2, random_state=0, verbose=False).fit(orders)
    assert (own.objective_, own.members_) == ("exact", [])
    assert own.params_.n_factors == 0
    chosen = tb.TBM(columns, objective="multi-prediction", n_hidden=1, max_epochs=1, random_state=0, verbose=False)
    assert chosen.fit(orders).objective_ == "multi-prediction"


def test_many_rows_have_fewer_members_and_lists_have_their_own() -> None:
    for n_rows, n in ((199, 1), (200, 4), (5_000, 2)):
        model = tb.TBM(SCHEMA)
        settings = model._settings(tb.Schema(SCHEMA))
        assert population.count(settings, tb.Schema(SCHEMA), n_rows) == n
    lists = tb.Schema({"films": tb.Ratings(["a", "b"])})
    settings = tb.TBM(lists)._settings(lists)
    assert population.count(settings, lists, 300) == members.AUTO_OF_LISTS
    wanted = members.population(settings, 3, 300, False, False, has_lists=True)
    assert [each[:2] for each in wanted] == [(0, 12), (30, 9), (0, 12)]


def test_members_without_hidden_units_do_not_lead_and_never_lose_all_units() -> None:
    """Traits in reports are hidden units. Without factors, a member that has only factors gets hidden units."""
    settings = tb.TBM(SCHEMA)._settings(tb.Schema(SCHEMA))
    wanted = members.population(settings, 4, 1000, True, True)
    assert any(each.n_hidden == 0 and each.reading == "given" for each in wanted)
    able = population._able(wanted, has_lists=False)
    assert able
    assert all(wanted[place].reading == "given" and wanted[place].n_hidden for place in able)
    for chosen in ({"n_factors": 0}, {"n_hidden": 3}):
        own = members.population(replace(settings, **chosen), 4, 1000, True, True)
        assert not any(each.is_independent for each in own)
    none = members.population(replace(settings, n_hidden=0, n_factors=4), 4, 1000, True, True)
    assert {each[:2] for each in none} == {(0, 4)}
    assert population._able(none, has_lists=False), "if no member has hidden units, one of them leads"


def test_the_leading_member_has_hidden_units() -> None:
    with pytest.warns(tb.ConvergenceWarning, match=r"3 epochs are too few .* give more, max_epochs=16 or above"):
        model = tb.TBM(SCHEMA, members=4, max_epochs=3, random_state=0, verbose=False).fit(frame())
    assert not model.converged_
    assert any(each["n_hidden"] == 0 for each in model.members_)
    assert model.members_[0]["n_hidden"] == model.params_.n_hidden > 0


def test_exponents_of_older_files_are_by_family() -> None:
    schema = fitted().schema_
    assert Correction(exponents={"levels": 1.2}).exponent(schema["fan"]) == 1.2
    assert Correction(exponents={"levels": 1.2, "binary": 0.9}).exponent(schema["fan"]) == 0.9
    assert Correction(exponents={"levels": 1.2, "binary": 0.9}).exponent(schema["party"]) == 1.0


def test_tables_of_tasks_count_their_tasks_and_choose_their_shrinkage() -> None:
    """A few judges can make many comparisons, and how far they differ is decided by held-out tasks."""
    pairs = tb.Schema({"games": tb.Pairs(["a", "b", "c"])})
    settings = tb.TBM(pairs)._settings(pairs)
    n = len(members.USUAL_OF_TASKS)
    assert [population.count(settings, pairs, 20, tasks) for tasks in (199, 200)] == [1, n]
    blocks = pairs.fit({"games": ["a > b; b > c", None, "c > a"]}).compile({"games": ["a > b; b > c", None, "c > a"]})
    assert population.n_tasks(blocks, np.ones(3)) == 3
    assert population.n_tasks(blocks, np.asarray([0.5, 1.0, 2.0])) == 3
    wanted = members.population(settings, n, 20, False, False, has_lists=True, has_tasks=True)
    assert wanted == list(members.USUAL_OF_TASKS)
    assert len({each.shrinkage for each in wanted}) > 2
    mixed = tb.Schema({"games": tb.Pairs(["a", "b", "c"]), "films": tb.Ratings(["x", "y"])})
    assert not population.has_tasks(mixed)


def test_the_shrinkage_of_a_member_is_not_that_of_biases() -> None:
    values, empty = jnp.asarray([[1.0, 0.0], [-1.0, 0.0]]), jnp.zeros((2, 0))
    own: dict[str, Any] = dict.fromkeys(Learnable._fields, empty)
    own |= {"weights": values, "loadings": values, "site_bias": values[:, 0], "first_cut": jnp.zeros(2)}
    zero = Learnable(**{name: jnp.zeros_like(each) for name, each in own.items()})
    pulls = [
        trainer._towards_others(zero, Learnable(**own), jnp.ones((1, 2)), jnp.ones(2), factor)
        for factor in (None, jnp.asarray(10.0))
    ]
    np.testing.assert_allclose(pulls[1].loadings, 10 * pulls[0].loadings)
    np.testing.assert_allclose(pulls[1].weights, 10 * pulls[0].weights)
    np.testing.assert_allclose(pulls[1].site_bias, pulls[0].site_bias)


@cache
def of_lists() -> tuple[tb.TBM, Any]:
    """Two groups of people who like the first or the second half of eight films, of which each rates five."""
    rng = np.random.default_rng(2)
    cells = []
    for row in range(60):
        films = rng.permutation(8)[:5]
        liked = (films < 4) == (row % 2 == 0)
        cells.append({f"f{film}": int(score) for film, score in zip(films, np.where(liked, 5, 2), strict=True)})
    table = pd.DataFrame({"films": cells})
    columns = {"films": tb.Ratings([f"f{k}" for k in range(8)], levels=(1, 2, 3, 4, 5))}
    model = tb.TBM(columns, members=2, max_epochs=30, learning_rate=0.05, random_state=0, verbose=False)
    return model.fit(table), table


def test_members_of_lists_rank_by_their_mean_utility() -> None:
    model, table = of_lists()
    assert model.converged_  # 30 epochs are not too few
    every, weights = alone(model), model.model_.weights_of("films")
    assert len(every) > 1
    own = [each.rank(table, top=8).sort_values(["row", "item"])["utility"].to_numpy() for each in every]
    found = model.rank(table, top=8).sort_values(["row", "item"])["utility"].to_numpy()
    np.testing.assert_allclose(found, weights @ np.stack(own), atol=1e-5)
    chances = np.stack([each.prefers(table, "f0", "f7") for each in every])
    np.testing.assert_allclose(model.prefers(table, "f0", "f7"), weights @ chances, atol=1e-6)


def test_unused_units_of_lists_do_not_count() -> None:
    """The leading member without its unused units answers as with them: presence has a part for units and factors."""
    model, table = of_lists()
    lead = model.model_.members[0]
    own, whole = alone(model)[0], alone(model)[0]
    own.model_ = with_params(own.model_, members.active(lead.params, lead.settings))
    assert own.params_.weights.shape[1] == lead.settings.n_hidden
    assert own.params_.loadings.shape[1] == lead.settings.n_factors
    np.testing.assert_allclose(
        own.rank(table, top=8)["utility"].to_numpy(), whole.rank(table, top=8)["utility"].to_numpy(), atol=1e-5
    )
