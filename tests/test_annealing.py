"""log P(e) beyond enumeration: annealed importance sampling against the sum over all states."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.small import RUNS_LONG, UNOBSERVED, as_ragged, log_evidence_exact, make_evidence, make_params, mean_field
from thurbo.latent.evidence import one_table
from thurbo.latent.inference.likelihood import (
    log_partition_exact,
    log_unnormalised_annealed,
    log_unnormalised_importance,
)
from thurbo.latent.rbm import LOG_2PI, Params
from thurbo.predict import joint as score

N_ROWS, N_SITES, N_HIDDEN = 60, 16, 12


@partial(jax.jit, static_argnames="n_chains", compiler_options=RUNS_LONG)
def annealed(key, params, evidence, q, n_chains=32):
    return log_unnormalised_annealed(key, params, evidence, q, n_chains)


@partial(jax.jit, static_argnames="n_draws", compiler_options=RUNS_LONG)
def importance(key, params, evidence, q, n_draws=1000):
    return log_unnormalised_importance(key, params, evidence, q, n_draws)


def doubled(n_hidden: int = N_HIDDEN, n_factors: int = 0) -> Params:
    """Hidden units that are on half of the time, with weights twice as large as usual."""
    params = make_params(5, N_SITES, n_hidden, n_factors, 1.4, np.float32)
    weights = np.asarray(params.weights, np.float64)
    bias = -0.5 * weights.sum(axis=1)
    hidden_bias = -bias @ weights - 0.5 * weights.T @ weights.sum(axis=1)
    as_array = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return params._replace(site_bias=as_array(bias), hidden_bias=as_array(hidden_bias))


@pytest.fixture(scope="module")
def case():
    """Rows that the model does not expect, for which mean-field often misses the states that matter."""
    params = doubled()
    evidence = make_evidence(params, 2, N_ROWS, 0.2)
    log_z = float(jax.jit(log_partition_exact)(params)) - 0.5 * N_SITES * LOG_2PI
    return params, evidence, np.asarray(log_evidence_exact(params, evidence)) + log_z


def test_stated_errors_hold_where_importance_sampling_fails(case):
    params, evidence, exact = case
    q = mean_field(params, evidence, 30)
    value, error = map(np.asarray, importance(jax.random.key(0), params, evidence, q))
    assert np.mean(np.abs(value - exact) > 4 * error) > 0.1  # the case is hard
    assert (value - exact).min() < -2
    value, error = map(np.asarray, annealed(jax.random.key(0), params, evidence, q))
    assert np.mean(np.abs(value - exact) > 4 * error) <= 0.02
    assert abs(np.mean(value - exact)) < 0.2
    assert np.median(error) < 0.3
    assert (error > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_factors_and_rows_with_sites_of_their_own(unobserved):
    params = make_params(0, 6, 3, 1)
    evidence = make_evidence(params, 1, 12, 0.3, unobserved)
    q = mean_field(params, evidence, 30)
    value, error = map(np.asarray, annealed(jax.random.key(3), params, evidence, q))
    h = (np.arange(8)[:, None] >> np.arange(3)[None, :]) & 1
    mean = np.asarray(params.site_bias)[None] + h @ np.asarray(params.weights).T
    present = np.ones((12, 6)) if evidence.present is None else np.asarray(evidence.present, float)
    omega = (h @ np.asarray(params.hidden_bias))[:, None] + 0.5 * (mean**2) @ present.T
    exact = np.asarray(log_evidence_exact(params, evidence)) + np.logaddexp.reduce(omega, axis=0)
    assert (np.abs(value - exact) < 4.5 * error).all()
    assert np.abs(value - exact).max() < 0.15
    # The result of a row depends on nothing but the row: neither on other rows, nor on the order and padding of slots.
    some = evidence.rows(jnp.asarray([7, 2]))
    alone = annealed(jax.random.key(3), params, some, mean_field(params, some, 30))
    np.testing.assert_allclose(np.asarray(alone[0]), value[[7, 2]], rtol=1e-8)
    ragged = as_ragged(evidence, np.random.default_rng(0), 6, extra=2)
    again = annealed(jax.random.key(3), params, ragged, mean_field(params, ragged, 30))
    np.testing.assert_allclose(np.asarray(again[0]), value, rtol=1e-7)


@pytest.mark.slow
def test_auto_never_takes_the_biased_estimate():
    params = make_params(0, 6, 17, 0, 0.5, np.float32)
    evidence = one_table(make_evidence(params, 1, 5))
    assert not score.is_exact(params)
    value, error = score.score(params, evidence)
    assert np.array_equal(value, score.score(params, evidence, "annealed")[0])
    assert (error > 0).all()
    exact = np.asarray(log_evidence_exact(params, evidence.buckets[0]))
    assert (np.abs(value - exact) < 5 * error).all()
