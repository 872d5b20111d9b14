"""§3.2 Comparisons with noise of their own: pairs, choices and best–worst questions against direct computations.

Oracles: the probit and logit likelihoods, quadrature of a choice among several items, enumeration of the hidden units.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_expit, log_ndtr, logsumexp, ndtr

import thurbo as tb
from tests.known import one_member
from tests.small import ask
from thurbo.errors import SchemaError, SchemaWarning
from thurbo.latent.constraints import Gauge, Pairwise
from thurbo.latent.masses import rankings
from thurbo.table.columns.cells import Tasks

FREE = tb.ListSettings(item_decay=0.0, presence=False)


def outcomes(rng: np.random.Generator, utility: np.ndarray, n: int, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """Winners and losers of random pairs."""
    a = rng.integers(len(utility), size=n)
    b = (a + rng.integers(1, len(utility), size=n)) % len(utility)
    gap = utility[a] - utility[b]
    wins = rng.random(n) < (ndtr(gap / np.sqrt(2)) if noise == "normal" else 1 / (1 + np.exp(-gap)))
    return np.where(wins, a, b), np.where(wins, b, a)


def direct(winner: np.ndarray, loser: np.ndarray, n_items: int, noise: str) -> np.ndarray:
    """Utilities by maximum likelihood, with mean zero."""
    log = (lambda gap: log_ndtr(gap / np.sqrt(2))) if noise == "normal" else log_expit
    found = minimize(lambda u: -log(u[winner] - u[loser]).sum() + 1e-9 * (u @ u), np.zeros(n_items)).x
    return found - found.mean()


def frame_of(winner: np.ndarray, loser: np.ndarray, judge: Any) -> dict[str, Any]:
    return {"judge": judge, "winner": [f"i{k}" for k in winner], "loser": [f"i{k}" for k in loser]}


@pytest.mark.parametrize("noise", ["normal", "gumbel"])
def test_without_hidden_units_pairs_are_thurstone_case_v_and_bradley_terry(noise):
    rng = np.random.default_rng(0)
    utility = rng.normal(size=6)
    winner, loser = outcomes(rng, utility, 400, noise)
    table = tb.from_pairs(frame_of(winner, loser, np.arange(400) // 10), row="judge", noise=noise)
    column = tb.Pairs(noise=noise, settings=FREE)
    how = {"max_epochs": 400, "batch_size": 40, "learning_rate": 0.05, "weight_decay": 0.0, "random_state": 0}
    model = tb.TBM({"judge": tb.Id(), "pairs": column}, n_hidden=0, n_factors=0, objective="exact", **how).fit(table)
    mine, theirs = model.site_bias_ - model.site_bias_.mean(), direct(winner, loser, 6, noise)
    chance = (lambda u: ndtr((u[:, None] - u) / np.sqrt(2))) if noise == "normal" else None
    chance = chance or (lambda u: 1 / (1 + np.exp(u - u[:, None])))
    assert np.abs(chance(mine) - chance(theirs)).max() < 1e-3
    log = log_ndtr((mine[winner] - mine[loser]) / np.sqrt(2)) if noise == "normal" else None
    log = log_expit(mine[winner] - mine[loser]) if log is None else log
    np.testing.assert_allclose(model.score_samples(table), log.reshape(40, 10).sum(axis=1), atol=2e-4)
    asked = model.predict_proba(table, "pairs", items=["i0", "i1"])
    np.testing.assert_allclose(asked[:, 0], chance(mine)[0, 1], atol=1e-4)


def fitted(column: Any, cells: list[Any], n_hidden: int = 2, n_factors: int = 0, seed: int = 0, **more: Any) -> tb.TBM:
    """A model with random weights: its probabilities can be computed directly."""
    table = {"q": cells, **more.pop("data", {})}
    schema = {"q": column, **more.pop("columns", {})}
    model = tb.TBM(schema, n_hidden=n_hidden, n_factors=n_factors, max_epochs=0, random_state=seed).fit(table)
    rng = np.random.default_rng(seed)
    params = model.params_._replace(
        site_bias=rng.normal(size=model.site_bias_.shape).astype(np.float32),
        weights=rng.normal(size=model.weights_.shape).astype(np.float32),
        hidden_bias=rng.normal(size=n_hidden).astype(np.float32),
        loadings=rng.normal(size=model.loadings_.shape).astype(np.float32),
    )
    model._adopt(one_member(model.schema_, params, "exact"), model.history_, True)
    return model


def quadrature(mean: np.ndarray, best: int) -> float:
    """P(x_best is the largest) for x ~ N(mean, I)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    others = np.delete(mean, best)
    return float((weights / weights.sum()) @ np.prod(ndtr(mean[best] + nodes[:, None] - others[None, :]), axis=1))


def test_tasks_of_a_row_share_its_hidden_units_and_nothing_else():
    """log P(e) = log Σ_h P(h) Π_tasks P(task | h), P(h) ∝ exp(γᵀh + ½ Σ m̃²), m̃ relative to the mean of each task."""
    cells = [["a > b", "b > a", "c > a"], ["b > c"], None]
    model = fitted(tb.Pairs(["a", "b", "c"]), cells)
    alpha, W, gamma = model.site_bias_.astype(float), model.weights_.astype(float), model.hidden_bias_.astype(float)
    states = np.asarray(list(itertools.product([0, 1], repeat=2)), float)
    means = alpha + states @ W.T
    place = {"a": 0, "b": 1, "c": 2}
    expected = []
    for cell in cells[:2]:
        pairs = [[place[item] for item in task.split(" > ")] for task in cell]
        prior = states @ gamma
        for pair in pairs:
            own = means[:, pair] - means[:, pair].mean(axis=1, keepdims=True)
            prior = prior + 0.5 * (own**2).sum(axis=1)
        mass = sum(log_ndtr((means[:, better] - means[:, worse]) / np.sqrt(2)) for better, worse in pairs)
        expected.append(logsumexp(prior + mass) - logsumexp(prior))
    table = {"q": cells}
    np.testing.assert_allclose(model.score_samples(table)[:2], expected, atol=2e-5)
    assert model.score_samples(table)[2] == pytest.approx(0.0, abs=1e-6)


def test_a_choice_among_several_items_is_a_multinomial_probit():
    cells = [["a > b = c = d"], ["d > b"], ["c > a = b = d", "a > d"]]
    model = fitted(tb.Choice(["a", "b", "c", "d"]), cells, n_hidden=0)
    mean = model.site_bias_.astype(float)
    expected = [np.log(quadrature(mean, 0)), np.log(ndtr((mean[3] - mean[1]) / np.sqrt(2)))]
    expected.append(np.log(quadrature(mean, 2)) + np.log(ndtr((mean[0] - mean[3]) / np.sqrt(2))))
    np.testing.assert_allclose(model.score_samples({"q": cells}), expected, atol=1e-4)
    chance = model.predict_proba({"q": [None]}, "q", items=["a", "b", "c"])[0]
    np.testing.assert_allclose(chance, [quadrature(mean[:3], best) for best in range(3)], atol=1e-4)


def test_gumbel_choices_are_a_multinomial_logit():
    cells = [["a > b = c"], ["c > a = b"]]
    model = fitted(tb.Choice(["a", "b", "c"], noise="gumbel"), cells, n_hidden=0)
    mean = model.site_bias_.astype(float)
    np.testing.assert_allclose(model.score_samples({"q": cells}), (mean - logsumexp(mean))[[0, 2]], atol=1e-5)


def test_the_predictive_probability_of_a_pair_has_the_variance_of_the_difference():
    """With one factor: Φ(Δα / √(2 + ΔV²)) for a row without evidence, and its common part does not matter."""
    model = fitted(tb.Pairs(["a", "b", "c"]), [["a > b"], ["b > c"]], n_hidden=0, n_factors=1)
    alpha, V = model.site_bias_.astype(float), model.loadings_[:, 0].astype(float)
    expected = ndtr((alpha[0] - alpha[1]) / np.sqrt(2 + (V[0] - V[1]) ** 2))
    for method in ("mean-field", "exact"):
        found = model.predict_proba({"q": [None]}, "q", items=["a", "b"], method=method)[0, 0]
        assert found == pytest.approx(expected, abs=1e-4)
    moved = model.params_._replace(loadings=model.params_.loadings + 3.0, site_bias=model.params_.site_bias - 2.0)
    before = model.predict_proba({"q": [["a > b", "a > c"]]}, "q", items=["a", "b"])
    model._adopt(one_member(model.schema_, moved, "exact"), [], True)
    np.testing.assert_allclose(
        model.predict_proba({"q": [["a > b", "a > c"]]}, "q", items=["a", "b"]), before, atol=1e-4
    )


def test_ties_are_utilities_within_the_threshold():
    tier = jnp.asarray([[[1, 0], [0, 0], [0, 1], [-1, -1]]])
    slots = ((0, 1), (2, 3), (4, 5), (6, 7))
    gauge = Gauge(jnp.zeros((8, 1)), jnp.full(8, 0.7))
    mean = jnp.asarray(np.random.default_rng(1).normal(size=(1, 8)))
    gap = (mean[0, ::2] - mean[0, 1::2]) / np.sqrt(2)
    limit = 0.7 / np.sqrt(2)
    region = Pairwise(tier, slots, 8, has_ties=True).region(gauge)
    expected = np.log([ndtr(gap[0] - limit), ndtr(limit - gap[1]) - ndtr(-limit - gap[1]), ndtr(-limit - gap[2])])
    assert float(ask(region, "log_mass", mean)[0]) == pytest.approx(expected.sum(), rel=1e-5)
    logit = Pairwise(tier, slots, 8, noise="gumbel", has_ties=True).region(gauge)
    gap = mean[0, ::2] - mean[0, 1::2]
    above, below = 1 / (1 + np.exp(0.7 - gap)), 1 / (1 + np.exp(gap + 0.7))
    expected = np.log([above[0], 1 - above[1] - below[1], below[2]])
    assert float(ask(logit, "log_mass", mean)[0]) == pytest.approx(expected.sum(), rel=1e-5)


def test_means_of_pairs_are_the_slope_of_their_mass():
    tier = jnp.asarray([[[1, 0], [0, 0], [-1, -1]]])
    gauge = Gauge(jnp.zeros((6, 1)), jnp.full(6, 0.5))
    mean = jnp.asarray(np.random.default_rng(2).normal(size=(1, 6)))
    for noise in ("normal", "gumbel"):
        region = Pairwise(tier, ((0, 1), (2, 3), (4, 5)), 6, noise=noise, has_ties=True).region(gauge)
        slope = jax.jit(jax.grad(lambda m, region=region: region.log_mass(m).sum()))(mean)
        np.testing.assert_allclose(ask(region, "mean", mean), np.asarray(mean + slope), atol=1e-5)
        assert np.isfinite(np.asarray(slope)).all()


def simulated(rng: np.random.Generator, n_tasks: int, size: int, utility: np.ndarray, noise: str) -> list[list[Any]]:
    """Tasks of each row: the shown items in the order of utility plus noise; `utility` is [row, item]."""
    rows = []
    for own in utility:
        tasks = []
        for _ in range(n_tasks):
            shown = rng.choice(len(own), size, replace=False)
            added = rng.normal(size=size) if noise == "normal" else rng.gumbel(size=size)
            items = [f"i{k}" for k in shown[np.argsort(-(own[shown] + added))]]
            tasks.append([items[:1], items[1:-1], items[-1:]] if size > 3 else [items[:1], items[1:]])
        rows.append(tasks)
    return rows


@pytest.mark.parametrize(
    ("column", "size"),
    [
        (tb.Pairs(settings=FREE), 2),
        pytest.param(tb.Choice(noise="gumbel", settings=FREE), 3, marks=pytest.mark.slow),
        pytest.param(tb.BestWorst(noise="gumbel", settings=FREE), 4, marks=pytest.mark.slow),
    ],
    ids=["pairs", "choice", "best-worst"],
)
def test_utilities_and_their_spread_are_recovered(column, size):
    """The fit is at least as likely as the truth, and near it."""
    rng = np.random.default_rng(3)
    alpha, V = rng.normal(size=5) * 0.8, rng.normal(size=5)
    utility = alpha + rng.normal(size=(150, 1)) * V
    cells = simulated(rng, 12, size, utility, column.noise)
    how = {"max_epochs": 60, "batch_size": 30, "learning_rate": 0.05, "weight_decay": 0.0, "random_state": 0}
    model = tb.TBM({"q": column}, n_hidden=0, n_factors=1, objective="exact", **how).fit({"q": cells})
    found, truth = model.site_bias_ - model.site_bias_.mean(), utility.mean(axis=0)  # of these people
    assert np.abs(found - (truth - truth.mean())).max() < 0.35
    apart, truly = (np.abs(v[:, None] - v) for v in (model.loadings_[:, 0], V))
    assert np.corrcoef(apart.ravel(), truly.ravel())[0, 1] > 0.95
    ranked = model.rank({"q": cells}, top=5)
    own = np.zeros(utility.shape)
    own[ranked["row"], [int(item[1:]) for item in ranked["item"]]] = ranked["utility"]
    centred = [each - each.mean(axis=1, keepdims=True) for each in (own, utility)]
    assert np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1] > 0.8
    fitted_score = model.score({"q": cells})
    true = {"site_bias": alpha, "loadings": V[:, None]}
    true = model.params_._replace(**{name: jnp.asarray(value, jnp.float32) for name, value in true.items()})
    model._adopt(one_member(model.schema_, true, "exact"), [], True)
    assert fitted_score > model.score({"q": cells}) - 0.05


@pytest.mark.parametrize("tier", [[3, 2, 2, 0], [2, 1, 1, 1, 0], [1, 1, 0, 0], [0, 1, 2], [1, 0, -1, -1]])
def test_a_gumbel_order_with_ties_is_the_sum_over_ways_to_break_them(tier):
    utility = np.random.default_rng(len(tier)).normal(size=len(tier))
    real = [place for place, code in enumerate(tier) if code >= 0]
    total = 0.0
    for order in itertools.permutations(real):
        if all(tier[a] >= tier[b] for a, b in itertools.pairwise(order)):
            left = [np.exp(utility[list(order[place:])]).sum() for place in range(len(order))]
            total += float(np.prod(np.exp(utility[list(order)]) / left))
    found = jax.jit(rankings.log_mass_with_ties)(jnp.asarray(utility, jnp.float32)[None], jnp.asarray(tier)[None])
    assert float(found[0]) == pytest.approx(np.log(total), abs=1e-5)


def test_a_threshold_of_ties_is_recovered():
    rng = np.random.default_rng(4)
    utility = rng.normal(size=5)
    a = rng.integers(5, size=2000)
    b = (a + rng.integers(1, 5, size=2000)) % 5
    gap = utility[a] - utility[b] + rng.normal(size=2000) * np.sqrt(2)
    frame = frame_of(np.where(gap > 0, a, b), np.where(gap > 0, b, a), np.arange(2000) // 20)
    frame["tie"] = np.abs(gap) < 0.5
    table = tb.from_pairs(frame, row="judge", tie="tie")
    model = tb.TBM(n_hidden=0, n_factors=0, objective="exact", max_epochs=60, random_state=0).fit(table)
    assert float(np.asarray(model.params_.gauge.scale)[0]) == pytest.approx(0.5, abs=0.06)


def conjoint(rng: np.random.Generator, n_rows: int, n_tasks: int) -> dict[str, list[Any]]:
    worth = {"A": 0.8, "B": 0.0, "C": -0.8}
    out: dict[str, list[Any]] = {name: [] for name in ("who", "task", "brand", "price", "pick")}
    for who in range(n_rows):
        slope = -1.0 + 0.7 * rng.normal()
        for task in range(n_tasks):
            brand, price = rng.choice(["A", "B", "C"], 3), rng.choice([1.0, 2.0, 3.0], 3)
            utility = [worth[b] + slope * (p - 2) + rng.normal() for b, p in zip(brand, price, strict=True)]
            for place in range(3):
                values = (who, task, str(brand[place]), float(price[place]), int(np.argmax(utility) == place))
                for name, value in zip(out, values, strict=True):
                    out[name].append(value)
    return out


def test_part_worths_shares_and_new_profiles_of_a_conjoint_study():
    table = tb.from_choices(
        conjoint(np.random.default_rng(5), 250, 10),
        row="who",
        task="task",
        chosen="pick",
        attributes=["brand", "price"],
    )
    model = tb.TBM(n_hidden=0, n_factors=1, max_epochs=60, random_state=0).fit(table)
    found = model.part_worths(table)
    mean = dict(zip(zip(found["attribute"], found["level"], strict=True), found["part_worth"], strict=True))
    truth = {("brand", "A"): 0.8, ("brand", "B"): 0.0, ("brand", "C"): -0.8, ("price", None): -1.0}
    for key, value in truth.items():
        assert mean[key] == pytest.approx(value, abs=0.2)
    assert (found["low"] < found["part_worth"]).all()
    assert (found["part_worth"] < found["high"]).all()
    assert found["importance"][0] + found["importance"][-1] == pytest.approx(1.0)
    profiles = {"cheap B": {"brand": "B", "price": 1.5}, "dear A": {"brand": "A", "price": 3}}
    rng = np.random.default_rng(6)
    noise, slope = rng.normal(size=(2, 100_000)), -1.0 + 0.7 * rng.normal(size=100_000)
    share = float((-0.5 * slope + noise[0] > 0.8 + slope + noise[1]).mean())
    shares = model.simulate_market(profiles, table)
    assert shares["profile"].tolist() == ["cheap B", "dear A"]
    assert shares["share"].sum() == pytest.approx(1.0)
    assert shares["share"][0] == pytest.approx(share, abs=0.06)
    assert model.simulate_market(profiles)["share"][0] == pytest.approx(share, abs=0.08)
    groups = np.where(np.arange(250) < 100, "early", "late")
    by = model.simulate_market(profiles, table, by=groups)
    assert by["group"].tolist() == ["early", "early", "late", "late"]
    mixed = 0.4 * by["share"][0] + 0.6 * by["share"][2]
    assert mixed == pytest.approx(shares["share"][0], abs=1e-6)
    with pytest.raises(SchemaError, match=r'brand = "D".*the levels are A, B, C'):
        model.simulate_market({"x": {"brand": "D"}})
    with pytest.raises(SchemaError, match=r"attribute colour.*brand, price"):
        model.simulate_market({"x": {"colour": "red"}})


@pytest.mark.parametrize("noise", ["normal", "gumbel"])
def test_shares_in_an_exact_model_are_those_of_a_new_choice(noise: str) -> None:
    """Of two profiles that are items, the share of one is how probable it is that a row prefers it."""
    tasks = conjoint(np.random.default_rng(8), 40, 6)
    how = {"attributes": ["brand", "price"], "constants": False, "noise": noise}
    table = tb.from_choices(tasks, row="who", task="task", chosen="pick", **how)
    model = tb.TBM(n_hidden=3, max_epochs=30, learning_rate=0.1, random_state=0).fit(table)
    assert model.method_ == "exact"
    assert np.abs(model.weights_).max() > 0.2
    one, two = "brand=A, price=1.0", "brand=C, price=3.0"
    profiles = {one: {"brand": "A", "price": 1}, two: {"brand": "C", "price": 3}}
    rows = np.arange(40)
    found = model.simulate_market(profiles, table, by=rows)["share"]
    np.testing.assert_allclose(found[::2], model.prefers(table, one, two), atol=1e-5)


def test_attributes_and_tasks_survive_a_model_file(tmp_path):
    table = tb.from_choices(
        conjoint(np.random.default_rng(7), 30, 4), row="who", task="task", chosen="pick", attributes=["brand", "price"]
    )
    model = tb.TBM(n_hidden=1, n_factors=1, objective="multi-prediction", max_epochs=2, random_state=0).fit(table)
    model.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    profiles = [{"brand": "A", "price": 1}, {"brand": "C", "price": 2}]
    np.testing.assert_array_equal(
        again.simulate_market(profiles, table)["share"], model.simulate_market(profiles, table)["share"]
    )
    assert again.schema_ == model.schema_


def test_items_with_attributes_keep_utilities_of_their_own():
    """α_i = a_i + B f_i: an item that is liked more than its attributes say is ranked first."""
    rng = np.random.default_rng(8)
    size = np.repeat([0.0, 1.0], 4)
    utility = size + np.asarray([0, 0, 0, 1.5, 0, 0, 0, -1.5])
    winner, loser = outcomes(rng, utility, 1500, "normal")
    given = {f"i{k}": {"size": float(size[k])} for k in range(8)}
    table = tb.from_pairs(frame_of(winner, loser, np.arange(1500) // 15), row="judge", attributes=given)
    model = tb.TBM(n_hidden=0, n_factors=0, objective="exact", max_epochs=60, random_state=0).fit(table)
    assert model.rank(table, top=1)["item"][0] == "i3"
    new = model.rank(table, items={"small": {"size": 0.0}, "large": {"size": 1.0}})
    assert new["item"][:2].tolist() == ["large", "small"]  # items that nobody has compared
    assert new["utility"][0] > new["utility"][1]
    worth = model.part_worths(table)["part_worth"][0]
    assert 0.0 < worth < 2.0


WIDE = {
    "t1a": ["a", "b"], "t1b": ["b", "c"], "t1c": ["c", "d"], "t1": ["b", 3],
    "t2a": ["d", "d"], "t2b": ["a", "b"], "t2c": ["b", None], "t2": ["a", None],
}  # fmt: skip
SETS = [["t1a", "t1b", "t1c"], ["t2a", "t2b", "t2c"]]


def tasks_of(column: Any, table: dict[str, list[Any]], name: str = "q") -> list[list[list[list[Any]]]]:
    """The tasks that a column reads, as tiers of labels."""
    schema = tb.Schema({name: column}).fit(table)
    block, own = schema.compile(table)[name], schema[name]
    nothing = np.zeros(len(block.tier), bool)
    return [tasks or [] for tasks in own.shortened(np.arange(block.n_rows), block, nothing)]


def test_wide_tables_of_choices_by_label_and_by_position():
    found = tasks_of(tb.Choice(shown=SETS, chosen=["t1", "t2"]), WIDE)
    assert found == [[[["b"], ["a", "c"]], [["a"], ["d", "b"]]], [[["d"], ["b", "c"]]]]


def test_sets_that_everybody_saw_and_none_of_these():
    column = tb.Choice(["a", "b", "c", "none"], shown=[["a", "b"], ["b", "c"]], chosen=["x", "y"], none="none")
    found = tasks_of(column, {"x": ["a", "none"], "y": [None, "c"]})
    assert found == [[[["a"], ["b", "none"]]], [[["none"], ["a", "b"]], [["c"], ["b", "none"]]]]


def test_availability_in_columns():
    column = tb.Choice(shown={"car": "has_car", "bus": "has_bus", "walk": "can_walk"})
    table = {
        "mode": ["car", "walk", None],
        "has_car": [1, 0, 1],
        "has_bus": [1, 1, 1],
        "can_walk": ["yes", "yes", "no"],
    }
    assert tasks_of(column, table, "mode") == [[[["car"], ["bus", "walk"]]], [[["walk"], ["bus"]]], []]


def test_best_and_worst_in_columns_one_of_them_missing():
    table = {**WIDE, "w1": ["a", None], "w2": [None, "b"]}
    found = tasks_of(tb.BestWorst(shown=SETS, best=["t1", "t2"], worst=["w1", "w2"]), table)
    # A best and a worst are two choices: the best of all, and the worst of the rest.
    first = [[["b"], ["c", "a"]], [["c"], ["a"]], [["a"], ["d", "b"]]]
    assert found == [first, [[["d"], ["b", "c"]], [["d"], ["b"]]]]


def test_cells_in_all_their_forms():
    table = {"q": ["a > b; b > a", [("a", "b"), ("c", "a")], tb.prefers("b", "c"), ("c", "b"), None]}
    found = tasks_of(tb.Pairs(), table)
    assert found == [
        [[["a"], ["b"]], [["b"], ["a"]]], [[["a"], ["b"]], [["c"], ["a"]]], [[["b"], ["c"]]], [[["c"], ["b"]]], []
    ]  # fmt: skip
    assert tasks_of(tb.Choice(["a", "b", "c"]), {"q": ["b"]}) == [[[["b"], ["a", "c"]]]]  # all were shown


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: tasks_of(tb.Pairs(), {"q": ["a > b > c"]}),
            r'row 0, column "q": "a > b > c" is not a comparison of two',
        ),
        (
            lambda: tasks_of(tb.Choice(), {"q": [{"shown": ["a", "b"], "chosen": "z"}]}),
            r'"z" was chosen, but a, b were',
        ),
        (lambda: tasks_of(tb.Choice(), {"q": [[["a"], ["b", "b"]]]}), r'item "b" is in one task twice'),
        (
            lambda: tasks_of(tb.BestWorst(), {"q": [{"shown": ["a", "b"], "best": "a", "worst": "a"}]}),
            "both the best and",
        ),
        (lambda: tb.Choice(shown=[["a"]]), "shown= needs the columns of the answers"),
        (lambda: tb.Choice(shown=[["a"], ["b"]], chosen=["x"]), "2 tasks, and chosen has 1"),
        (lambda: tb.Pairs(noise="cauchy"), "noise='cauchy'"),
        (lambda: tb.Pairs(constants=False), "needs attributes"),
        (
            lambda: tb.from_pairs({"winner": ["a"], "loser": ["a"]}),
            r'row 0, column "loser": "a" is compared with itself',
        ),
        (lambda: tb.from_pairs({"winner": ["a"]}), r'column "loser": the table has no such column'),
        (
            lambda: tb.from_choices({"r": [1, 1], "t": [1, 1], "i": ["a", "b"], "c": [0, 0]}, "r", "t", "i", "c"),
            "no item is marked as chosen",
        ),
        (
            lambda: tb.from_choices({"r": [1, 1], "t": [1, 1], "i": ["a", "a"], "c": [0, 1]}, "r", "t", "i", "c"),
            'item "a" occurs twice in one task, also in row 0',
        ),
    ],
)
def test_bad_input_is_explained(make, match):
    with pytest.raises(SchemaError, match=match):
        make()


def test_every_query_of_contradicting_pairs():
    rng = np.random.default_rng(9)
    winner, loser = outcomes(rng, rng.normal(size=5), 300, "normal")
    table = tb.from_pairs(frame_of(winner, loser, np.arange(300) // 10), row="judge")
    model = tb.TBM(n_hidden=2, n_factors=1, objective="multi-prediction", max_epochs=3, random_state=0).fit(table)
    assert model.transform(table).shape == (30, 3)
    assert len(model.rank(table, top=2)["row"]) == 60
    assert ((model.prefers(table, "i0", "i1") > 0) & (model.prefers(table, "i0", "i1") < 1)).all()
    assert len(model.predict(table)["pairs"][0]) > 0
    assert np.isfinite(model.score_samples(table)).all()
    found = model.evaluate(table, hide=0.2, random_state=0)
    assert found.columns[0]["answer"] == "task"
    assert model.impute(table)["pairs"][0] == table.cells("pairs").values[0]
    drawn = model.sample(3, random_state=0)["pairs"]
    assert all(len(task) == 2 for cell in drawn for task in cell)
    given = model.predict_proba({"judge": [1], "pairs": [None]}, "pairs", items=["i0", "i1"])[0, 0]
    told = model.predict_proba({"judge": [1], "pairs": ["i0 > i1; i0 > i1; i0 > i1"]}, "pairs", items=["i0", "i1"])[
        0, 0
    ]
    assert told >= given
    assert "pairs.i" in model.inequalities(table, 0).words[0]


@pytest.mark.slow
def test_tasks_are_hidden_before_fitting_one_by_one():
    rng = np.random.default_rng(10)
    winner, loser = outcomes(rng, np.asarray([1.5, 0.5, -0.5, -1.5]), 240, "normal")
    table = tb.from_pairs(frame_of(winner, loser, np.arange(240) // 12), row="judge")
    model = tb.TBM(n_hidden=0, n_factors=0, objective="exact", max_epochs=20, random_state=0)
    found = tb.evaluate(model, table, folds=2, random_state=0)
    assert found.columns[0]["n"] == 240
    assert found.columns[0]["log_score"] > np.log(0.5)


def test_rows_that_have_ranked_everything_are_named():
    orders = {"films": ["A > B > C", "B > A"]}
    model = tb.TBM({"films": tb.Ranking(["A", "B", "C"])}, n_hidden=1, max_epochs=0, random_state=0).fit(orders)
    with pytest.warns(SchemaWarning, match=r"1 of 2 rows have rated or ranked all items.*row 0.*exclude_seen=False"):
        assert model.rank(orders)["item"].tolist() == ["C"]


def test_a_task_says_how_it_is_weighed():
    choice = tb.Schema({"q": tb.Choice()}).fit({"q": [["a > b = c"]]}).compile({"q": [["a > b = c"]]})["q"]
    assert choice.tasks == Tasks(3, "normal", shape=(2, 1), is_choice=True)
    both = tb.Schema({"q": tb.BestWorst()}).fit({"q": [["a > b = c > d"]]}).compile({"q": [["a > b = c > d"]]})["q"]
    assert both.tasks == Tasks(4, "normal", shape=(2, 1), is_choice=False)
    order = tb.Schema({"q": tb.Choice()}).fit({"q": [["a > b = c > d"]]}).compile({"q": [["a > b = c > d"]]})["q"]
    assert order.tasks == Tasks(4, "normal", shape=(3, 2), is_choice=False)


def test_ratings_of_items_that_nobody_has_rated_follow_their_attributes():
    rng = np.random.default_rng(11)
    good = {f"i{k}": {"genre": "noir" if k % 2 else "musical"} for k in range(12)}
    cells = []
    for _ in range(60):
        shown = rng.permutation(10)[:6]
        cells.append(
            {f"i{k}": int(np.clip(np.round(3 + (1.2 if k % 2 else -1.2) + rng.normal()), 1, 5)) for k in shown}
        )
    column = tb.Ratings(levels=[1, 2, 3, 4, 5], attributes=good)
    model = tb.TBM({"q": column}, n_hidden=1, n_factors=1, max_epochs=30, random_state=0).fit({"q": cells})
    new = model.rank({"q": cells}, items=["i10", "i11"])
    assert (new["item"][::2] == "i11").mean() > 0.9
    assert model.part_worths({"q": cells})["level"].tolist() == ["musical", "noir"]


def test_a_wide_question_is_sampled_as_one_cell_and_its_schema_is_kept():
    schema = tb.Schema({"q": tb.Choice(shown=SETS, chosen=["t1", "t2"])})
    assert tb.Schema.from_dict(schema.to_dict()) == schema
    model = tb.TBM(schema, n_hidden=0, n_factors=1, max_epochs=0, random_state=0).fit(WIDE)
    drawn = model.sample(2, random_state=0)
    assert list(drawn) == ["q"]
    assert sorted(tier[0] for tier in drawn["q"][0][0]) == ["a", "b", "c", "d"]
