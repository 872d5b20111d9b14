"""Draws of the parameters of a list: each step of the sampler against its exact distribution, and a whole fit."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thurbo as tb
from thurbo.fit import lists, members, population
from thurbo.fit.lists import ListedEntries, Sampler

LEAST_P = 2e-5
N_ROWS, N_ITEMS, N_DRAWS = 12, 9, 2000


def some_entries(seed: int = 0, n_rows: int = N_ROWS, n_items: int = N_ITEMS, each: int = 5) -> ListedEntries:
    rng = np.random.default_rng(seed)
    item = np.concatenate([np.sort(rng.choice(n_items, each, replace=False)) for _ in range(n_rows)])
    level = rng.integers(0, 4, len(item))
    return ListedEntries(np.repeat(np.arange(n_rows), each), item, level, level.copy(), n_rows, n_items, 4)


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> Sampler:
    monkeypatch.setattr(lists, "N_FACTORS", 3)
    monkeypatch.setattr(lists, "TOLERANCE", 1e-6)
    rng = np.random.default_rng(1)
    found = Sampler(some_entries(), rng.normal(size=(N_ITEMS, 2)), seed=2)
    found.rows, found.items = (rng.normal(size=each.shape).astype(np.float32) for each in (found.rows, found.items))
    for link in (found.of_rows, found.of_items):
        link.mean = rng.normal(size=link.mean.shape).astype(np.float32)
    return found


def assert_normal(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Whitened draws [draw, part] are independent standard normal: their means, squares and products."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    n, k = white.shape[1], len(white)
    p_mean = stats.chi2.sf(n * (white.mean(axis=1) ** 2).sum(), k)
    spread = np.cov(white, bias=True)
    p_spread = stats.chi2.sf(n * ((spread - np.eye(k))[np.triu_indices(k, 1)] ** 2).sum(), k * (k - 1) // 2)
    squares = (white**2).sum()
    p_size = 2 * min(stats.chi2.sf(squares, n * k), stats.chi2.cdf(squares, n * k))
    assert min(p_mean, p_spread if k > 1 else 1.0, p_size) > LEAST_P


def test_factors_of_a_row_have_their_conditional_distribution(sampler: Sampler):
    entries, link = sampler.entries, sampler.of_rows
    link.precision = np.array([1.0, 1.0, 3.0])
    target = np.random.default_rng(3).normal(size=len(entries.row))
    draws = np.stack([sampler._factors(sampler.by_row, sampler.items, target, link) for _ in range(N_DRAWS)])
    for row in (0, 7):
        mine = entries.row == row
        design = np.column_stack([sampler.items[entries.item[mine], :-1], np.ones(mine.sum())])
        precision = design.T @ design + np.diag(link.precision)
        mean = np.linalg.solve(precision, design.T @ target[mine] + link.precision * link.mean[row])
        assert_normal(draws[:, row], mean, np.linalg.inv(precision))


def test_effects_have_their_conditional_distribution(sampler: Sampler):
    link = sampler.of_items
    link.precision, features = np.array([4.0, 1.0, 2.0]), link.features.toarray().astype(float)
    factors = np.random.default_rng(4).normal(size=(N_ITEMS, 3)).astype(np.float32)
    draws = []
    for _ in range(N_DRAWS):
        link.precision, link.ridge = np.array([4.0, 1.0, 2.0]), 1.5
        link.draw(sampler.rng, factors)
        draws.append(link.effects.copy())
        np.testing.assert_allclose(link.mean, features @ link.effects, atol=1e-4)
    gram = features.T @ features + 1.5 * np.eye(features.shape[1])
    some = [0, 3, features.shape[1] - 1]  # the constant, one who listed, an attribute
    for factor, precision in enumerate((4.0, 1.0, 2.0)):
        mean = np.linalg.solve(gram, features.T @ factors[:, factor])
        covariance = np.linalg.inv(gram) / precision
        assert_normal(np.stack(draws)[:, some, factor], mean[some], covariance[np.ix_(some, some)])


def test_latent_values_are_truncated_between_their_cuts(sampler: Sampler):
    level = np.repeat([0, 1, 3, 1], 500)
    highest = np.repeat([0, 1, 3, 2], 500)  # the last cells allow two levels
    entries = ListedEntries(np.arange(2000) // 500, np.arange(2000) % 500, level, highest, 4, 500, 4)
    own = Sampler(entries, seed=5)
    mean = np.full(2000, 0.4)
    x = own._latent(mean)
    cuts = np.concatenate([[-np.inf], own.cuts, [np.inf]])
    for part in range(4):
        mine = slice(500 * part, 500 * part + 500)
        lower, upper = cuts[level[mine][0]] - 0.4, cuts[highest[mine][0] + 1] - 0.4
        assert stats.kstest(x[mine] - 0.4, stats.truncnorm(lower, upper).cdf).pvalue > LEAST_P


def test_cuts_settle_at_their_maximum_likelihood():
    rng = np.random.default_rng(6)
    entries, mean = some_entries(6, 300, 40, 20), rng.normal(size=6000)
    level = np.digitize(mean + rng.normal(size=6000), [-1.0, 0.2, 1.5])
    own = Sampler(entries._replace(level=level, highest=level), seed=0)
    for _ in range(30):
        own._latent(mean)
    np.testing.assert_allclose(own.cuts, [-1.0, 0.2, 1.5], atol=0.1)
    before = own.cuts.copy()
    own._latent(mean)
    np.testing.assert_allclose(own.cuts, before, atol=1e-6)


def test_a_draw_is_the_same_model_as_the_state(sampler: Sampler):
    sampler.of_rows.precision[-1] = 2.5
    sampler.of_rows.draw(sampler.rng, sampler.rows)
    draw, first = sampler.draw(), sampler.of_rows.effects[0]
    scale = draw.loadings[0, -1]
    rows = sampler.rows - first
    rows[:, -1] /= scale
    mean = draw.bias + rows @ draw.loadings.T
    expected = sampler.rows[:, :-1] @ sampler.items[:, :-1].T + sampler.rows[:, -1:] + sampler.items[:, -1]
    np.testing.assert_allclose(mean, expected, atol=1e-5)
    listed = sampler.of_rows.features.toarray()[:, 1:]
    prior = sampler.of_rows.mean - first
    prior[:, -1] /= scale
    np.testing.assert_allclose(listed @ draw.presence, prior, atol=1e-5)
    assert scale == pytest.approx(sampler.of_rows.precision[-1] ** -0.5)


def test_units_of_items_have_their_conditional_distribution():
    """All 2³ states of an item, given what factors leave of x and the weights of rows."""
    own = Sampler(some_entries(8), seed=3, n_units=3)
    rng, row, item = np.random.default_rng(4), own.entries.row, own.entries.item
    rest, weights, rate = 0.5 * rng.normal(size=len(row)), 0.6 * rng.normal(size=(N_ROWS, 3)), np.array([0.2, 0.5, 0.7])
    states = np.array([[k >> unit & 1 for unit in range(3)] for k in range(8)])
    counts = np.zeros((N_ITEMS, 8))
    for _ in range(N_DRAWS):
        for _ in range(5):  # so that draws are nearly independent
            own.rate = rate
            own._draw_units(rest, weights)
        counts[np.arange(N_ITEMS), (own.units @ [1, 2, 4]).astype(int)] += 1
    for each in range(N_ITEMS):
        left = rest[item == each][:, None] - weights[row[item == each]] @ states.T
        logs = -0.5 * (left**2).sum(axis=0) + states @ np.log(rate) + (1 - states) @ np.log(1 - rate)
        chance = np.exp(logs - logs.max())
        assert stats.chisquare(counts[each], N_DRAWS * chance / chance.sum()).pvalue > LEAST_P


def test_a_draw_with_units_is_the_same_model_as_the_state():
    own = Sampler(some_entries(9), np.random.default_rng(1).normal(size=(N_ITEMS, 2)), seed=2, n_units=2)
    for _ in range(6):
        own.sweep()
    draw, first = own.draw(), own.of_rows.effects[0]
    assert draw.loadings.shape == draw.presence.shape == (N_ITEMS, lists.N_FACTORS + 2)
    assert draw.effects.shape == (2, 1 + lists.N_FACTORS + 2)
    mean = draw.bias + (own.rows - first) * np.sqrt(own.of_rows.precision) @ draw.loadings.T
    loadings = np.concatenate([own.items[:, :-1], own.units], axis=1)
    expected = own.rows[:, :-1] @ loadings.T + own.rows[:, -1:] + own.items[:, -1]
    np.testing.assert_allclose(mean, expected, atol=1e-4)
    assert len(np.unique(np.round(draw.loadings[:, -2], 6))) == 2  # on or off


def test_units_of_items_are_recovered():
    """Items of four kinds (two units) with few scores: right units, and better mean utilities than factors alone."""
    rng, n_rows, n_items, each = np.random.default_rng(11), 400, 150, 12
    units, weights = rng.random((n_items, 2)) < 0.5, 1.5 * rng.normal(size=(n_rows, 2))
    utility = weights @ units.T + 0.3 * rng.normal(size=n_items) + 0.3 * rng.normal(size=(n_rows, 1))
    item = np.concatenate([np.sort(rng.choice(n_items, each, replace=False)) for _ in range(n_rows)])
    row = np.repeat(np.arange(n_rows), each)
    level = np.digitize(utility[row, item] + rng.normal(size=len(row)), [-1.5, -0.5, 0.5, 1.5])
    entries, score = ListedEntries(row, item, level, level, n_rows, n_items, 5), dict[int, float]()
    for n_units in (0, 2):
        own, mean = Sampler(entries, presence=False, seed=0, n_units=n_units), 0.0
        for number, _ in enumerate(own.draws(30, 150)):
            if number >= 150:
                loadings = np.concatenate([own.items[:, :-1], own.units], axis=1)
                mean = mean + own.rows[:, :-1] @ loadings.T + own.rows[:, -1:] + own.items[:, -1]
        score[n_units] = np.corrcoef(np.asarray(mean).ravel(), utility.ravel())[0, 1]
    same = np.abs(np.corrcoef(own.units.T, units.T)[:2, 2:])  # up to their order, and on for off
    assert max(same[0, 0] * same[1, 1], same[0, 1] * same[1, 0]) > 0.8
    assert score[2] > score[0] + 0.01


def simulated(n_rows: int = 300, n_items: int = 40, each: int = 15) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows choose items that they like, so that who lists an item says what it is like; and all mean utilities."""
    rng = np.random.default_rng(7)
    rows, items = rng.normal(size=(n_rows, 2)), rng.normal(size=(n_items, 2))
    utility = 0.8 * rows @ items.T + 0.5 * rng.normal(size=n_items) + 0.4 * rng.normal(size=(n_rows, 1))
    lines = []
    for row in range(n_rows):
        chance = np.exp(0.7 * utility[row])
        item = rng.choice(n_items, each, replace=False, p=chance / chance.sum())
        score = 1 + np.digitize(utility[row, item] + rng.normal(size=each), [-1.5, -0.5, 0.5, 1.5])
        lines.append(pd.DataFrame({"row": row, "item": item, "score": score}))
    return pd.concat(lines, ignore_index=True), utility


def test_utilities_are_recovered():
    lines, utility = simulated()
    level = lines["score"].to_numpy() - 1
    row, item = lines["row"].to_numpy(), lines["item"].to_numpy()
    order = np.lexsort((item, row))
    entries = ListedEntries(row[order], item[order], level[order], level[order], 300, 40, 5)
    own, mean, n = Sampler(entries, seed=0), 0.0, 0
    for number, _ in enumerate(own.draws(40, 100)):
        if number >= 100:
            state = own.rows[:, :-1] @ own.items[:, :-1].T + own.rows[:, -1:] + own.items[:, -1]
            mean, n = mean + state, n + 1
    found = np.corrcoef((mean / n).ravel(), utility.ravel())[0, 1]
    popular = np.corrcoef(np.tile(lines.groupby("item")["score"].mean(), 300), utility.ravel())[0, 1]
    assert found > 0.8 > popular + 0.1


@pytest.fixture(scope="module")
def fitted() -> tuple[tb.TBM, tb.Table, np.ndarray]:
    lines, utility = simulated()
    table = tb.from_long(lines, row="row", item="item", score="score")
    year = {item: {"year": 1950.0 + item} for item in range(40)}
    column = tb.Ratings(items=list(range(40)), attributes=year, settings=tb.ListSettings(draws=5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tb.TBM({"item": column}, random_state=0, max_epochs=10).fit(table), table, utility


def test_draws_are_members_that_share_one_weight(fitted: tuple[tb.TBM, tb.Table, np.ndarray]):
    model, table, utility = fitted
    drawn = [each for each in model.members_ if each["is_draw"]]
    assert len(drawn) == 5
    assert len({each["weight"] for each in drawn}) == 1
    assert not model.members_[0]["is_draw"]
    assert sum(each["weight"] for each in model.members_) == pytest.approx(1.0)
    ranked = model.rank(table, top=40, exclude_seen=False)
    known = utility[ranked["row"].to_numpy(int), ranked["item"].to_numpy(int)]
    assert np.corrcoef(known, ranked["utility"])[0, 1] > 0.7


def test_draws_answer_for_new_rows_and_new_items_and_are_saved(fitted: tuple[tb.TBM, tb.Table, np.ndarray], tmp_path):
    model, _, _ = fitted
    new = tb.from_long({"row": ["new"] * 3, "item": [0, 1, 2], "score": [5, 1, 3]}, "row", "item", "score")
    first = model.rank(new, top=3)
    assert len(first) == 3
    assert len(model.rank(new, items={"new item": {"year": 2001.0}, "old item": {"year": 1950.0}})) == 2
    model.save(tmp_path / "model.thurbo")
    again = tb.TBM.load(tmp_path / "model.thurbo")
    assert [each["is_draw"] for each in again.members_] == [each["is_draw"] for each in model.members_]
    pd.testing.assert_frame_equal(pd.DataFrame(again.rank(new, top=3)), pd.DataFrame(first))


@pytest.mark.parametrize("reason", ["none wanted", "few entries", "sizes chosen", "weights", "orders"])
def test_nothing_is_drawn(reason: str, monkeypatch: pytest.MonkeyPatch):
    lines, _ = simulated(60, 12, 5)
    table = tb.from_long(lines, row="row", item="item", score="score")
    settings = tb.ListSettings(draws=0 if reason == "none wanted" else 3)
    monkeypatch.setattr(lists, "LEAST_ENTRIES", 1000 if reason == "few entries" else 100)
    monkeypatch.setattr(lists, "Drawing", lambda *about: pytest.fail("a sampler was made"))
    column = tb.Ratings(by="order" if reason == "orders" else "auto", settings=settings)
    sizes = {"n_hidden": 2, "n_factors": 1} if reason == "sizes chosen" else {}
    model = tb.TBM({"item": column}, random_state=0, members=2, max_epochs=1, **sizes)
    weight = np.linspace(0.5, 1.5, 60) if reason == "weights" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, sample_weight=weight)
    assert not any(each["is_draw"] for each in model.members_)


def test_a_level_that_nobody_gave_is_no_problem(tmp_path: Path):
    lines, _ = simulated(60, 12, 5)
    lines["score"] = lines["score"].replace(2, 1)
    table = tb.from_long(lines, row="row", item="item", score="score")
    column = tb.Ratings(levels=[1, 2, 3, 4, 5], settings=tb.ListSettings(draws=2))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(lists, "LEAST_ENTRIES", 100)
        model = tb.TBM({"item": column}, random_state=0, members=2, max_epochs=2).fit(table)
    assert any(each["is_draw"] for each in model.members_)
    chance = model.predict_proba(table, "item", items=[0, 1])
    np.testing.assert_allclose(chance.sum(axis=-1), 1, atol=1e-5)
    model.save(tmp_path / "model.thurbo")
    again = tb.TBM.load(tmp_path / "model.thurbo").predict_proba(table, "item", items=[0, 1])
    np.testing.assert_allclose(again, chance, atol=1e-6)


@pytest.mark.parametrize("n_members", [members.AUTO_BESIDE_DRAWS, members.AUTO_OF_LISTS])
def test_more_members_are_trained_where_nothing_is_drawn(n_members: int):
    table = {"item": [{"a": 1, "b": 2}, {"b": 1, "c": 3}] * 150}
    schema = tb.Schema({"item": tb.Ratings()}).fit(table)
    has_draws = n_members == members.AUTO_BESIDE_DRAWS
    assert population.count(tb.TBM(schema)._settings(schema), schema, 300, 0, has_draws) == n_members


def test_a_fit_without_presence_has_draws():
    lines, _ = simulated(60, 12, 5)
    table = tb.from_long(lines, row="row", item="item", score="score")
    column = tb.Ratings(settings=tb.ListSettings(draws=2, presence=False))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(lists, "LEAST_ENTRIES", 100)
        model = tb.TBM({"item": column}, random_state=0, members=2, max_epochs=2).fit(table)
    assert sum(each["is_draw"] for each in model.members_) == 2
    assert model.params_.presence is None
    assert np.isfinite(model.predict_proba(table, "item", items=[0, 1])).all()


def test_units_without_draws_are_warned_of():
    lines, _ = simulated(60, 12, 5)
    table = tb.from_long(lines, row="row", item="item", score="score")
    column = tb.Ratings(settings=tb.ListSettings(item_units=2))
    with pytest.warns(tb.SchemaWarning, match="item_units=2 has no effect"):
        tb.TBM({"item": column}, random_state=0, members=2, max_epochs=1).fit(table)  # too few ratings


def test_a_fit_with_units_of_items(tmp_path: Path):
    lines, utility = simulated(120, 20, 8)
    table = tb.from_long(lines, row="row", item="item", score="score")
    column = tb.Ratings(items=list(range(20)), settings=tb.ListSettings(draws=3, item_units=2))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(lists, "LEAST_ENTRIES", 100)
        model = tb.TBM({"item": column}, random_state=0, members=2, max_epochs=2).fit(table)
    drawn = [each for each in model.members_ if each["is_draw"]]
    assert [each["n_factors"] for each in drawn] == [lists.N_FACTORS + 2] * 3
    ranked = model.rank(table, top=20, exclude_seen=False)
    known = utility[ranked["row"].to_numpy(int), ranked["item"].to_numpy(int)]
    assert np.corrcoef(known, ranked["utility"])[0, 1] > 0.5
    model.save(tmp_path / "model.thurbo")
    again = tb.TBM.load(tmp_path / "model.thurbo")
    assert again.schema_["item"].settings.item_units == 2
    np.testing.assert_allclose(*(m.predict_proba(table, "item", items=[0, 1]) for m in (again, model)), atol=1e-6)


@pytest.mark.parametrize("bad", [-1, 2.5, True, "many", 65])
def test_a_bad_number_of_units_is_refused(bad):
    with pytest.raises(tb.SchemaError, match="item_units"):
        tb.ListSettings(item_units=bad)


def test_a_bad_number_of_draws_is_refused():
    for bad in (-1, 2.5, True, "many"):
        with pytest.raises(tb.SchemaError, match="draws"):
            tb.ListSettings(draws=bad)
