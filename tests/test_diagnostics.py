"""A.2.4: effective sample sizes and R-hat against known theory, units by their activations, chains by enumeration."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import thurbo as tb
from tests.known import changed
from tests.small import make_evidence, make_params, to_oracle
from thurbo.latent.inference import diagnostics
from thurbo.latent.inference.posterior import expectation, hidden_probability
from thurbo.predict import diagnose

CHANCE = 2e-5
N_CHAINS, N_DRAWS = 4, 200
ANSWERS = {"a": 3, "b": 2, "c": 2, "d": 2}


def autoregressive(rho: float, n_chains: int = 4, n_draws: int = 1000, n: int = 40) -> np.ndarray:
    """x_t = ρ x_{t−1} + √(1 − ρ²) ε, stationary from the start: [chain, draw, n]."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_chains, n_draws, n))
    for t in range(1, n_draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8, -0.3])
def test_effective_sample_size_of_an_autoregression(rho):
    """Of the mean of AR(1) it is n (1 − ρ) / (1 + ρ); the estimate, averaged over many, comes within a tenth."""
    draws = autoregressive(rho)
    value = diagnostics.ess(draws)
    assert value.shape == (40,)
    assert value.mean() == pytest.approx(4000 * (1 - rho) / (1 + rho), rel=0.1)
    assert diagnostics.rhat(draws).max() < 1.05


def test_what_is_told_apart_does_not_depend_on_units_or_device():
    draws = autoregressive(0.5, n=3)
    for function in (diagnostics.ess, diagnostics.rhat):
        np.testing.assert_allclose(function(np.exp(draws)), function(draws))
        np.testing.assert_allclose(function(jnp.asarray(draws)), function(draws))
        assert function(draws[:, :, :0]).shape == (0,)
        assert function(draws.reshape(4, 1000, 3, 1)).shape == (3, 1)


def test_chains_at_different_places_have_a_large_rhat():
    draws = autoregressive(0.3, n=2)
    apart = draws + 3.0 * np.arange(4)[:, None, None]
    assert diagnostics.rhat(apart).min() > 1.5
    assert diagnostics.ess(apart).max() < 20
    spread = draws * np.array([1.0, 1.0, 1.0, 20.0])[:, None, None]  # the same place, not the same width
    assert diagnostics.rhat(spread).min() > 1.1


@pytest.mark.filterwarnings("error")
def test_chains_that_stand_still():
    still = np.zeros((4, 50, 3))
    still[:, :, 1] = np.arange(4)[:, None]
    still[2, 7, 2] = np.nan
    rhat, ess = diagnostics.rhat(still), diagnostics.ess(still)
    assert rhat[0] == 1.0
    assert ess[0] == 200
    assert rhat[1] == np.inf
    assert np.isnan(rhat[2])
    for shape in [(4,), (4, 3), (1, 50)]:
        with pytest.raises(ValueError, match="chain, draw"):
            diagnostics.rhat(np.zeros(shape))


def test_without_the_package_the_remedy_is_named(monkeypatch):
    for name in ("arviz_stats", "arviz_stats.base"):
        monkeypatch.setitem(sys.modules, name, None)
    for function in (diagnostics.ess, diagnostics.rhat):
        with pytest.raises(tb.ThurboError, match=r"arviz-stats; pip install 'thurbo\[diagnostics\]'"):
            function(np.zeros((4, 10)))


def test_stuck_and_saturated_units():
    rng = np.random.default_rng(0)
    half = (np.arange(200) % 2).astype(float)
    activations = np.stack(
        [
            np.full(200, 1e-4),  # off
            1.0 - 1e-4 * rng.random(200),  # on
            np.clip(half, 1e-5, 1 - 1e-5),  # a hard bit
            np.where(np.arange(200) < 4, 0.5, half),  # nearly one
            rng.random(200),  # as it should be
            np.full(200, 0.3),
        ],
        axis=1,
    )
    stuck, saturated = diagnostics.unit_health(activations)
    assert np.flatnonzero(stuck).tolist() == [0, 1]
    assert np.flatnonzero(saturated).tolist() == [2, 3]


def test_chains_of_rows_follow_their_posterior():
    """E[P(h_k = 1 | x)] along the chains of a row is P(h_k = 1 | e), its error known by the effective sample size."""
    params = make_params(n_factors=1)
    evidence = make_evidence(params, n_rows=16, unobserved="exclude")
    drawn = diagnose._row_chains(jax.random.key(0), params, evidence, N_CHAINS, N_DRAWS)
    assert drawn.shape == (16, N_CHAINS, N_DRAWS, 3)
    exact, _ = jax.jit(lambda *model: expectation(hidden_probability, *model, "exact"))(params, evidence)
    _agree(np.moveaxis(np.asarray(jax.nn.sigmoid(drawn)), 0, 2), np.asarray(exact))


def test_chains_of_the_model_alone_follow_it():
    params = make_params(size=0.5)
    model = to_oracle(params)
    log_odds = model.gamma[None, :] + np.array([model.mean(h) for h in model.states]) @ model.W
    drawn = diagnose._prior_chains(jax.random.key(0), params, N_CHAINS, N_DRAWS)
    assert drawn.shape == (N_CHAINS, N_DRAWS, 3)
    _agree(np.asarray(drawn), np.exp(model.log_prior(np.ones(6, bool))) @ log_odds)


def _agree(draws: np.ndarray, exact: np.ndarray) -> None:
    z = (draws.mean(axis=(0, 1)) - exact) / (draws.std(axis=(0, 1)) / np.sqrt(diagnostics.ess(draws)))
    assert 2 * norm.sf(np.abs(z)).min() * z.size > CHANCE


# ---- through the estimator


def table(n_rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {name: rng.integers(n, size=n_rows).astype(float) for name, n in ANSWERS.items()}
    frame = pd.DataFrame({**columns, "size": rng.normal(size=n_rows)})
    frame.loc[:2] = np.nan  # nothing is known of these rows
    frame.loc[5:9, "size"] = np.nan
    frame.index = [f"r{i}" for i in range(n_rows)]
    return frame


def untrained(weights: np.ndarray, **settings: Any) -> tb.TBM:
    """A model that nobody trained, with these weights, h_k = 0 and 1 as probable."""
    columns: dict[str, Any] = {name: tb.Ordinal([float(i) for i in range(n)]) for name, n in ANSWERS.items()}
    columns["size"] = tb.Continuous()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        own = tb.TBM(columns, n_hidden=3, max_epochs=0, random_state=0, verbose=False, **settings).fit(table())
    params = own.params_._replace(
        weights=jnp.asarray(weights, jnp.float32),
        site_bias=jnp.asarray(-0.5 * weights.sum(axis=1), jnp.float32),
        hidden_bias=jnp.zeros(3, jnp.float32),
    )
    own._adopt(changed(own.model_, params), own.history_, own.converged_)
    return own


GENTLE = np.zeros((5, 3))
GENTLE[[0, 1, 2, 3, 4], [0, 0, 1, 1, 2]] = 0.8
TORN = GENTLE.copy()
TORN[:, 1] = [0.0, 0.0, 9.0, 9.0, 0.0]  # hidden1 decides two sites and is decided by them: it never turns round


@pytest.fixture(scope="module")
def gentle() -> tb.TBM:
    return untrained(GENTLE)


@pytest.mark.filterwarnings("error::thurbo.ConvergenceWarning")
def test_a_model_that_mixes(gentle):
    found = gentle.diagnostics(table(), random_state=0)
    assert found.healthy
    assert found.converged
    assert found.mixes.tolist() == found.prior_mixes.tolist() == [True] * 3
    assert found.rhat.shape == found.ess.shape == (16, 3)
    assert found.prior_rhat.shape == found.prior_ess.shape == (3,)
    assert len(set(found.rows)) == 16
    assert set(found.rows) <= set(table().index)
    assert found.stuck.tolist() == found.saturated.tolist() == []
    assert (found.n_chains, found.n_draws) == (N_CHAINS, N_DRAWS)
    text = str(found)
    assert "3 of 3 hidden units mix" in text
    assert "stuck units      none" in text
    assert found._repr_html_().count("<tr>") == len(text.splitlines())
    again = gentle.diagnostics(table(), random_state=0)
    assert np.array_equal(again.rhat, found.rhat)
    assert np.array_equal(again.rows, found.rows)


def test_a_model_that_does_not_mix_says_so():
    own = untrained(TORN)
    with pytest.warns(tb.ConvergenceWarning) as caught:
        found = own.diagnostics(table(), rows=[0, 1, 2, 20], random_state=0)
    rows, alone = (str(each.message) for each in caught)
    assert found.rows.tolist() == ["r0", "r1", "r2", "r20"]
    assert not found.healthy
    assert found.mixes.tolist() == found.prior_mixes.tolist() == [True, False, True]
    assert found.rhat[:3, 1].min() > 1.5
    assert "chains of 1 of 3 hidden units do not mix for some of the 4 rows; worst: hidden1 in row r" in rows
    assert "do not mix for 1 of 3 hidden units; worst: hidden1, R-hat" in alone
    assert "2 of 3 hidden units mix; worst: hidden1" in str(found)


def test_units_are_looked_at_in_every_row():
    own = untrained(GENTLE)
    rigid = np.zeros((5, 3))
    rigid[2, 1] = 20.0
    params = own.params_._replace(
        weights=jnp.asarray(rigid, jnp.float32),
        hidden_bias=jnp.asarray([-12.0, 0.0, 0.0], jnp.float32),
        site_bias=jnp.zeros(5, jnp.float32).at[2].set(-10.0),
    )
    own._adopt(changed(own.model_, params), own.history_, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        found = own.diagnostics(table().iloc[10:], rows=2, random_state=0)
    assert found.stuck.tolist() == [0]
    assert found.saturated.tolist() == [1]
    assert not found.healthy
    assert "did not converge" in str(found)
    assert "hidden0" in str(found)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n_chains": 1}, "n_chains=1 is not valid; give a whole number of at least 2"),
        ({"n_draws": 3}, "n_draws=3 is not valid; give a whole number of at least 4"),
        ({"rows": 0}, "rows=0 is not valid"),
        ({"rows": [0, 40]}, "positions from 0 to 39"),
        ({"rows": ["r1"]}, "is not valid; give a number of rows"),
    ],
)
def test_what_cannot_be_asked(gentle, asked, message):
    with pytest.raises(tb.ThurboError, match=message):
        gentle.diagnostics(table(), **asked)


def test_scores_by_every_method(gentle):
    frame = table().iloc[:16]
    exact, none = gentle.score_samples(frame, return_se=True, method="exact")
    assert np.array_equal(exact, gentle.score_samples(frame))
    assert not none.any()
    value, error = gentle.score_samples(frame, return_se=True, method="annealed")
    silent = error < 1e-6  # a row that says nothing has probability one
    np.testing.assert_allclose(value[silent], exact[silent], atol=1e-5)
    z = (value - exact)[~silent] / error[~silent]
    assert 2 * norm.sf(np.abs(z)).min() * len(z) > CHANCE
    assert error.max() < 0.1
    assert np.array_equal(gentle.score_samples(frame.iloc[3:5], method="annealed"), value[3:5])


def test_scores_that_cannot_be_had(gentle):
    with pytest.raises(tb.ThurboError, match="method='guess' is not one of auto, sequential, exact, annealed"):
        gentle.score_samples(table(), method="guess")
    with pytest.raises(tb.ThurboError, match="method='importance' is not one of auto, sequential, exact, annealed"):
        gentle.score_samples(table(), method="importance")
