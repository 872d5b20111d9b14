"""What "auto" uses, said in results and checked by a better method; intervals hold what they say. Weights are given."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.known import one_member
from tests.small import make_params
from thurbo.latent.constraints import Gauge
from thurbo.latent.rbm import Params
from thurbo.predict import diagnose
from thurbo.predict import joint as score

NUMBERS, CHOICES = ("a", "b", "c"), ("u", "v", "w")
SCHEMA = tb.Schema({
    **{name: tb.Continuous(location=10.0, scale=2.0) for name in NUMBERS},
    **{name: tb.Ordinal(("low", "mid", "high")) for name in CHOICES},
})  # fmt: skip
N_SITES = len(NUMBERS) + len(CHOICES)


def given_model(n_hidden: int, n_factors: int, objective: str = "likelihood") -> tb.TBM:
    """An estimator with chosen weights, as `load` would build it; hidden units are on about half of the time."""
    rng = np.random.default_rng(n_hidden)
    weights = rng.normal(size=(N_SITES, n_hidden)) * 2.5 / np.sqrt(max(n_hidden, 1))
    loadings = rng.normal(size=(N_SITES, n_factors))
    bias = -0.5 * weights.sum(axis=1)
    hidden_bias = -bias @ weights - 0.5 * weights.T @ weights.sum(axis=1)
    cuts = np.full((N_SITES, 2), np.inf)
    cuts[len(NUMBERS) :] = [-0.6, 0.6]
    as_array = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    params = Params(
        site_bias=as_array(bias), weights=as_array(weights), hidden_bias=as_array(hidden_bias),
        loadings=as_array(loadings), gauge=Gauge(as_array(cuts), jnp.ones(N_SITES, jnp.float32)),
        hidden_mean=jnp.full(n_hidden, 0.5, jnp.float32),
    )  # fmt: skip
    model = tb.TBM(SCHEMA, n_hidden=n_hidden, n_factors=n_factors, random_state=0, verbose=False)
    model._adopt(one_member(SCHEMA, params, objective), [], True)
    model.n_features_in_, model.frame_kind_ = len(SCHEMA), "pandas"
    model.feature_names_in_ = np.asarray(SCHEMA.names, object)
    return model


def drawn(model: tb.TBM, n_rows: int) -> pd.DataFrame:
    """Rows of the model itself: h from all its states, then x, then cells."""
    rng, params = np.random.default_rng(1), model.params_
    weights, bias = np.asarray(params.weights, float), np.asarray(params.site_bias, float)
    h = ((np.arange(2**params.n_hidden)[:, None] >> np.arange(params.n_hidden)[None, :]) & 1).astype(float)
    mean = bias + h @ weights.T
    log_p = h @ np.asarray(params.hidden_bias, float) + 0.5 * (mean**2).sum(axis=1)
    state = rng.choice(len(h), n_rows, p=np.exp(log_p - np.logaddexp.reduce(log_p)))
    x = mean[state] + rng.normal(size=(n_rows, params.n_factors)) @ np.asarray(params.loadings, float).T
    x = x + rng.normal(size=x.shape)
    cells: dict[str, np.ndarray] = {name: 10.0 + 2.0 * x[:, i] for i, name in enumerate(NUMBERS)}
    levels = np.asarray(["low", "mid", "high"], object)
    for i, name in enumerate(CHOICES, len(NUMBERS)):
        cells[name] = levels[(x[:, i, None] > np.asarray([-0.6, 0.6])).sum(axis=1)]
    return pd.DataFrame(cells)


# A binomial deviation of 4.3 standard errors has a probability of 2e-5.
@pytest.mark.parametrize(("n_hidden", "n_factors"), [pytest.param(12, 0, marks=pytest.mark.slow), (1, 2)])
def test_intervals_of_auto_hold_what_they_say(n_hidden: int, n_factors: int) -> None:
    model = given_model(n_hidden, n_factors)
    assert model.method_ == "exact"
    frame = drawn(model, 512)
    ends = model.predict_interval(frame, "a", level=0.9)
    held = np.mean((frame["a"] >= ends[:, 0]) & (frame["a"] <= ends[:, 1]))
    assert abs(held - 0.9) < 4.3 * np.sqrt(0.09 / len(frame))


def test_the_limit_of_auto_is_a_cost_and_depends_on_the_model_alone() -> None:
    exact = {(12, 500): True, (13, 40): True, (13, 41): False, (14, 2): False}
    for (n_hidden, n_sites), expected in exact.items():
        assert score.is_exact(make_params(n_sites=n_sites, n_hidden=n_hidden)) == expected
    assert given_model(0, 3).method_ == "mean-field"  # quadrature has at most two factors
    # Models that were trained by prediction learn with mean-field.
    assert given_model(12, 0, "multi-prediction").method_ == "exact"
    assert given_model(13, 0, "multi-prediction").method_ == "mean-field"
    assert given_model(13, 0).method_ == "exact"
    assert score.can_enumerate(make_params(n_hidden=16))
    assert not score.can_enumerate(make_params(n_hidden=17))


def test_nothing_to_check_in_an_exact_model() -> None:
    model = given_model(3, 0)
    found = model.check_method(drawn(model, 5))
    assert (found.method, found.reference, found.differences, found.coverage) == ("exact", "exact", (), None)
    assert str(found) == "method  exact: sums over all states of the hidden units, so there is no error to check"


def test_the_error_of_mean_field_is_that_against_enumeration() -> None:
    model = given_model(13, 0, "multi-prediction")
    frame = drawn(model, 20)
    frame.loc[3, ["a", "u"]] = None
    found = model.check_method(frame, rows=[3, 8])
    assert (found.method, found.reference, found.rows.tolist()) == ("mean-field", "exact", [3, 8])
    by_query = {each.query: each for each in found.differences}
    assert list(by_query) == ["transform: hidden units", "predict_proba", "predict_interval"]
    some = frame.iloc[[3, 8]]
    distance = np.abs(model.predict_proba(some) - model.predict_proba(some, method="exact"))
    assert by_query["predict_proba"].largest == pytest.approx(distance.max(), abs=1e-6)
    assert by_query["predict_proba"].mean == pytest.approx(distance.mean(), abs=1e-6)
    assert by_query["predict_proba"].n == distance.size
    assert all(each.reference_error == 0 for each in found.differences)
    assert found.coverage is not None
    assert 0.5 < found.coverage < 1
    assert "compared with exact for 2 rows" in str(found)
    assert "predict_interval" in found._repr_html_()


@pytest.mark.slow  # compiles every query twice, since the seed of a chain is part of its program
def test_beyond_enumeration_long_chains_are_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose, "GIBBS_DRAWS", 300)
    model = given_model(2, 3)
    found = model.check_method(drawn(model, 6), rows=2, random_state=0)
    assert (found.method, found.reference, len(found.rows)) == ("mean-field", "gibbs", 2)
    assert "transform: factors" in [each.query for each in found.differences]
    assert all(0 < each.reference_error < 0.2 for each in found.differences)
    assert all(each.mean <= each.largest for each in found.differences)
    assert "reference known to" in str(found)


def test_frames_say_which_method_was_used() -> None:
    model = given_model(3, 0)
    frame = drawn(model, 4)
    frame.loc[1, "a"] = None
    frame.attrs["own"] = "kept"
    assert model.predict(frame, "u").attrs["thurbo_method"] == "exact"
    filled = model.impute(frame, method="mean-field")
    assert filled.attrs == {"own": "kept", "thurbo_method": "mean-field"}
    assert frame.attrs == {"own": "kept"}
    assert model.impute(frame, flag=True).attrs["thurbo_method"] == "exact"
    assert model.sample(2, random_state=0).attrs["thurbo_method"] == "gibbs"


def test_bad_rows_are_refused() -> None:
    model = given_model(3, 0)
    with pytest.raises(tb.ThurboError, match="rows=0 is not valid; give a number of rows"):
        model.check_method(drawn(model, 3), rows=0)
