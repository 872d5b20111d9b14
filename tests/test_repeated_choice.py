"""Rankings with context: choices one after another, against enumeration, direct products and simulation."""

from __future__ import annotations

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import thurbo as tb
from tests.small import ask, log_evidence_exact, repeated_choice
from thurbo.latent import rbm
from thurbo.latent.constraints import Context, Gauge
from thurbo.latent.constraints.comparisons import draw_orders
from thurbo.latent.constraints.order import CLOSER_SCALE
from thurbo.latent.evidence import Evidence
from thurbo.latent.rbm import Params

N = 4
ORDERS = np.array(list(permutations(range(N))))  # the best item first
ITEMS = list("abcd")


def _tiers(orders: np.ndarray) -> np.ndarray:
    """Tier of each item, the largest for the best: [row, 1, item]."""
    return (orders.shape[1] - 1 - np.argsort(orders, axis=1))[:, None, :]


def _gauge(seed: int = 0, size: float = 1.0) -> Gauge:
    rng = np.random.default_rng(seed)
    after = size * rng.normal(size=(N, N)) * (1 - np.eye(N))
    precision = np.array([0.0, 0.4, -0.6, 0.0])
    context = Context(jnp.asarray(after, jnp.float32), jnp.asarray(precision, jnp.float32))
    return Gauge(jnp.full((N, 1), jnp.inf, jnp.float32), jnp.ones(N, jnp.float32), context)


def _by_hand(order: np.ndarray, mean: np.ndarray, gauge: Gauge) -> float:
    """log P of one order, best first, one choice after another in double precision."""
    assert gauge.context is not None
    after = np.asarray(gauge.context.after, float)
    precision = np.exp(np.asarray(gauge.context.log_precision, float))
    left, total = list(range(len(mean))), 0.0
    for place, item in enumerate(order[:-1]):
        before = [k for k in range(len(mean)) if k not in left]
        utility = {i: precision[place] * (mean[i] + sum(after[i, k] for k in before)) / CLOSER_SCALE for i in left}
        total += utility[item] - np.log(sum(np.exp(value) for value in utility.values()))
        left.remove(item)
    return total


def test_probabilities_are_those_of_choices_by_hand_and_sum_to_one() -> None:
    rng = np.random.default_rng(1)
    means, gauge = rng.normal(size=(3, N)), _gauge()
    order = repeated_choice(_tiers(ORDERS))
    value = np.asarray(ask(order, "log_mass_of_states", jnp.asarray(means, jnp.float32), gauge))
    np.testing.assert_allclose(np.exp(value).sum(axis=1), 1.0, rtol=1e-5)
    expected = [[_by_hand(row, mean, gauge) for row in ORDERS] for mean in means]
    np.testing.assert_allclose(value, expected, atol=2e-5)
    for state in range(3):
        one = ask(order.region(gauge), "log_mass", jnp.asarray(means[state : state + 1], jnp.float32))
        np.testing.assert_allclose(one, value[state], atol=1e-5)


def test_without_context_it_is_plackett_luce() -> None:
    mean = np.array([0.3, -0.2, 1.0, 0.0])
    nothing = Gauge(jnp.full((N, 1), jnp.inf, jnp.float32), jnp.ones(N, jnp.float32))
    order = repeated_choice(_tiers(ORDERS))
    value = ask(order, "log_mass_of_states", jnp.asarray(mean[None], jnp.float32), nothing)[0]
    zero = Context(jnp.zeros((N, N), jnp.float32), jnp.zeros(N, jnp.float32))
    same = ask(order, "log_mass_of_states", jnp.asarray(mean[None], jnp.float32), nothing._replace(context=zero))[0]
    np.testing.assert_allclose(
        value, [_by_hand(row, mean, nothing._replace(context=zero)) for row in ORDERS], atol=1e-5
    )
    np.testing.assert_allclose(same, value, atol=1e-6)


def test_a_part_of_the_items_and_the_first_places_are_choices_among_those_named() -> None:
    """b > d of two items offered; and a > c, then the rest unordered."""
    gauge, mean = _gauge(), np.array([0.1, 0.5, -0.3, 0.2])
    tier = np.array([[[-1, 1, -1, 0]], [[2, 0, 1, 0]], [[-1, -1, -1, -1]]])
    value = ask(repeated_choice(tier), "log_mass_of_states", jnp.asarray(mean[None], jnp.float32), gauge)[0]
    two = np.exp(mean[[1, 3]] / CLOSER_SCALE)
    assert float(value[0]) == pytest.approx(np.log(two[0] / two.sum()), abs=1e-5)
    both = [_by_hand(np.array([0, 2, *rest]), mean, gauge) for rest in ([1, 3], [3, 1])]
    assert float(value[1]) == pytest.approx(np.logaddexp(*both), abs=1e-5)
    assert float(value[2]) == 0.0
    released = repeated_choice(_tiers(ORDERS[:1])).release(jnp.asarray([[True, False, True, False]]))
    again = released.region(gauge).log_mass(jnp.asarray(mean[None], jnp.float32))
    assert float(again[0]) == pytest.approx(float(value[0]), abs=1e-5)


def test_gradients_are_finite_differences() -> None:
    order, means = repeated_choice(_tiers(ORDERS[[3, 11, 20]])), jnp.asarray([[0.2, -0.1, 0.4, 0.0]], jnp.float32)
    start = _gauge(2, 0.5).context
    assert start is not None

    @jax.jit
    def total(means: jax.Array, context: Context) -> jax.Array:
        gauge = Gauge(jnp.full((N, 1), jnp.inf), jnp.ones(N), context)
        return order.log_mass_of_states(means, gauge).sum()

    slopes = jax.jit(jax.grad(total, argnums=(0, 1)))(means, start)
    rng = np.random.default_rng(0)
    for _ in range(5):
        way = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), (means, start))
        ends = [total(*jax.tree.map(lambda a, b, by=by: a + by * b, (means, start), way)) for by in (0.01, -0.01)]
        expected = float(ends[0] - ends[1]) / 0.02
        found = sum(float((a * b).sum()) for a, b in zip(jax.tree.leaves(slopes), jax.tree.leaves(way), strict=True))
        assert found == pytest.approx(expected, rel=0.02, abs=0.02)


def test_the_likelihood_sums_over_hidden_units_and_factors() -> None:
    """log P(e) against a sum over h and a fine grid of z, of products by hand; and Σ over all rankings is one."""
    rng = np.random.default_rng(4)
    weights, loadings, bias = rng.normal(size=(N, 2)), 0.3 * rng.normal(size=(N, 1)), rng.normal(size=N)
    hidden_bias, gauge = np.array([0.3, -0.5]), _gauge(5)
    f32 = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    params = Params(f32(bias), f32(weights), f32(hidden_bias), f32(loadings), gauge, jnp.full(2, 0.5))
    evidence = Evidence((repeated_choice(_tiers(ORDERS)),))
    found = np.exp(np.asarray(log_evidence_exact(params, evidence)))
    assert found.sum() == pytest.approx(1.0, abs=1e-5)
    states = np.array([[a, b] for a in (0, 1) for b in (0, 1)], float)
    prior = np.exp([float(rbm.log_omega(params, f32(h[None]))[0]) for h in states])
    z = np.linspace(-6, 6, 121)
    density = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    for row in (0, 7, 23):
        by_state = [
            sum(
                p * np.exp(_by_hand(ORDERS[row], bias + weights @ h + loadings[:, 0] * at, gauge))
                for at, p in zip(z, density, strict=True)
            )
            for h in states
        ]
        assert found[row] == pytest.approx(prior @ np.array(by_state) / prior.sum(), rel=1e-4)


def _table(n_rows: int, gauge: Gauge, mean: np.ndarray, seed: int = 0) -> pd.DataFrame:
    drawn = draw_orders(np.random.default_rng(seed), np.tile(mean, (n_rows, 1)), gauge.context)
    return pd.DataFrame(N - drawn, columns=ITEMS)


def _schema(**more: object) -> dict[str, tb.Column]:
    return {"order": tb.Ranking(ranks={item: item for item in ITEMS}, context=True, **more)}  # type: ignore[arg-type]


def test_drawn_orders_have_the_probabilities_of_the_model() -> None:
    gauge, mean, n = _gauge(6), np.array([0.5, -0.5, 0.2, 0.0]), 40_000
    drawn = draw_orders(np.random.default_rng(0), np.tile(mean, (n, 1)), gauge.context)
    best_first = np.argsort(-drawn, axis=1)
    share = np.array([(best_first == row).all(axis=1).mean() for row in ORDERS])
    expected = np.exp([_by_hand(row, mean, gauge) for row in ORDERS])
    assert (np.abs(share - expected) < 4.5 * np.sqrt(expected / n) + 1e-4).all()


@pytest.fixture(scope="module")
def fitted() -> tuple[tb.TBM, Gauge, np.ndarray]:
    gauge, mean = _gauge(7, 0.8), np.array([0.5, -0.5, 0.2, -0.2])
    model = tb.TBM(_schema(), n_hidden=0, objective="exact", max_epochs=150, weight_decay=0.0, random_state=1)
    return model.fit(_table(6000, gauge, mean)), gauge, mean


def test_a_fit_recovers_the_probabilities_of_all_rankings(fitted) -> None:
    model, gauge, mean = fitted
    every = pd.DataFrame(np.argsort(ORDERS, axis=1) + 1.0, columns=ITEMS)
    found = model.score_samples(every, method="exact")
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-4)
    expected = np.array([_by_hand(row, mean, gauge) for row in ORDERS])
    divergence = (np.exp(expected) * (expected - found)).sum()  # Kullback–Leibler, nats
    assert divergence < chi2.isf(2e-5, 17) / (2 * 5400)  # 17 parameters; a tenth of 6,000 rows is held out
    plain = tb.TBM(
        {"order": tb.Ranking(ranks={item: item for item in ITEMS})}, n_hidden=0, objective="exact", random_state=0
    ).fit(_table(2000, gauge, mean))
    without = plain.score_samples(every, method="exact")
    assert (np.exp(expected) * (expected - without)).sum() > 0.05


def test_samples_and_imputed_rankings_follow_the_fitted_probabilities(fitted) -> None:
    model, _, _ = fitted
    every = pd.DataFrame(np.argsort(ORDERS, axis=1) + 1.0, columns=ITEMS)
    expected = np.exp(model.score_samples(every, method="exact"))
    n = 8000
    gaps = pd.DataFrame(np.full((n, N), np.nan), columns=ITEMS)
    for found in (model.sample(n, random_state=0), model.impute_draws(gaps, n=1, random_state=0)[0]):
        ranks = np.asarray(found[ITEMS], float)
        share = np.array([(ranks == np.asarray(row)).all(axis=1).mean() for row in every.to_numpy()])
        assert (np.abs(share - expected) < 4.5 * np.sqrt(expected / n) + 1e-3).all()
    first = np.array([expected[ORDERS[:, 0] == item].sum() for item in range(N)])
    np.testing.assert_allclose(np.asarray(model.predict_proba(gaps[:2], "order"))[0], first, atol=1e-4)


def test_a_model_with_context_is_saved_and_read_again(fitted, tmp_path) -> None:
    model, gauge, mean = fitted
    model.save(tmp_path / "model.thurbo")
    again, table = tb.TBM.load(tmp_path / "model.thurbo"), _table(50, gauge, mean, 3)
    np.testing.assert_allclose(again.score_samples(table), model.score_samples(table), atol=1e-6)
    assert again.schema_["order"].has_context


def test_what_context_does_not_support_is_refused(fitted) -> None:
    model, gauge, mean = fitted
    table = _table(60, gauge, mean)
    tied = table.copy()
    tied.loc[7, ["a", "b", "c", "d"]] = [1, 1, 2, 3]
    with pytest.raises(tb.SchemaError, match=r"row 7.*tied.*context=False"):
        tb.TBM(_schema(), n_hidden=1, objective="exact", verbose=False).fit(tied)
    with pytest.raises(tb.SchemaError, match=r'order.*objective="exact"'):
        tb.TBM(_schema(), n_hidden=2, objective="multi-prediction", verbose=False).fit(table)
    with pytest.raises(tb.SchemaError, match="listed"):
        tb.Ranking(items=ITEMS, context=True, listed=True)
    with pytest.raises(tb.SchemaError, match="context='yes'"):
        tb.Ranking(context="yes")  # type: ignore[arg-type]
    with pytest.raises(tb.ThurboError, match="noise at each choice"):
        model.sample(5, given={"order": "a > b"})


def test_by_default_a_table_with_context_is_fitted_by_the_exact_likelihood(fitted) -> None:
    _, gauge, mean = fitted
    table = _table(260, gauge, mean).assign(sex=["m", "f"] * 130)
    schema = _schema() | {"sex": tb.Binary(true="f", values=("m", "f"))}
    model = tb.TBM(schema, max_epochs=2, random_state=0, verbose=False).fit(table)
    assert model.objective_ == "exact"
    joint = model.score_samples(table[:1])
    parts = model.score_samples(table[:1].assign(sex=None)) + np.log(
        np.asarray(model.predict_proba(table[:1].assign(sex=None), "sex"))[0, 0]
    )
    assert joint[0] == pytest.approx(parts[0], abs=1e-4)  # log P(ranking, "m") by the chain rule
