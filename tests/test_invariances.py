"""What must not matter: order of rows and slots, padding, company in a batch, dense or ragged storage."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.small import EITHER, UNOBSERVED, as_ragged, make_evidence, make_params, one_table
from thurbo.fit import objective
from thurbo.fit.planning import Plan
from thurbo.latent.evidence import ROW_BUCKETS
from thurbo.latent.inference.meanfield import mean_field, predictive
from thurbo.latent.inference.posterior import log_evidence_exact, log_normaliser_exact

N_ROWS, N_SITES = 7, 6
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 2**31 - 1)


@jax.jit
def answers(params, evidence, hidden):
    """Everything a row can be asked: one array a row, whatever the storage."""
    q = mean_field(params, evidence, 8)
    mean, deviation = predictive(params, q, evidence)
    region = evidence.region(
        jax.tree.map(lambda leaf: leaf if evidence.sites is None else leaf[evidence.sites], params.gauge)
    )
    return {
        "log_evidence": log_evidence_exact(params, evidence),
        "hidden": q.hidden,
        "factors": q.factors,
        "normaliser": log_normaliser_exact(params, evidence),
        "prediction": objective.multi_prediction(params, evidence, hidden, Plan(n_mean_field_steps=4))[0],
        "mass": region.log_mass(mean, deviation),
    }


def same(one, other, rows=slice(None)):
    for name in one:
        np.testing.assert_allclose(
            np.asarray(one[name])[rows], np.asarray(other[name]), rtol=1e-8, atol=1e-9, err_msg=name
        )


def case(seed, unobserved):
    params = make_params(seed % 1000, N_SITES, 3, 1)
    evidence = make_evidence(params, seed, N_ROWS, 0.3, unobserved)
    return (
        params,
        evidence,
        evidence.observed & jnp.asarray(np.random.default_rng(seed).random((N_ROWS, N_SITES)) < 0.4),
    )


@pytest.mark.parametrize("unobserved", EITHER)
@given(seed=seeds)
@few
def test_order_of_rows(unobserved, seed):
    params, evidence, hidden = case(seed, unobserved)
    order = np.random.default_rng(seed).permutation(N_ROWS)
    same(answers(params, evidence, hidden), answers(params, evidence.rows(jnp.asarray(order)), hidden[order]), order)


@pytest.mark.parametrize("unobserved", EITHER)
@given(seed=seeds)
@few
def test_company_of_rows(unobserved, seed):
    params, evidence, hidden = case(seed, unobserved)
    row = np.array([seed % N_ROWS])
    same(answers(params, evidence, hidden), answers(params, evidence.rows(jnp.asarray(row)), hidden[row]), row)


@pytest.mark.parametrize("unobserved", UNOBSERVED)
@given(seed=seeds)
@few
def test_ragged_is_dense_in_any_order_of_slots_with_any_padding(unobserved, seed):
    params, evidence, hidden = case(seed, unobserved)
    rng = np.random.default_rng(seed)
    ragged = as_ragged(evidence, rng, N_SITES, extra=2)
    order = np.asarray(ragged.sites)[:, :N_SITES]
    shuffled = np.concatenate(
        [np.take_along_axis(np.asarray(hidden), order, axis=1), np.zeros((N_ROWS, 2), bool)], axis=1
    )
    dense, other = answers(params, evidence, hidden), answers(params, ragged, jnp.asarray(shuffled))
    same(dense, other)


@pytest.mark.parametrize("unobserved", UNOBSERVED)
@given(seed=seeds)
@few
def test_order_of_hidden_units_and_sign_of_factors(unobserved, seed):
    """Relabelling hidden units, or turning factors round, is the same model."""
    params, evidence, hidden = case(seed, unobserved)
    order = np.random.default_rng(seed).permutation(3)
    turned = params._replace(
        weights=params.weights[:, order], hidden_bias=params.hidden_bias[order],
        hidden_mean=params.hidden_mean[order], loadings=-params.loadings,
    )  # fmt: skip
    one, other = answers(params, evidence, hidden), answers(turned, evidence, hidden)
    for name in ("log_evidence", "prediction", "mass"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-8, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(np.asarray(one["hidden"])[:, order], other["hidden"], rtol=1e-8)
    np.testing.assert_allclose(one["factors"], -np.asarray(other["factors"]), rtol=1e-8, atol=1e-10)


@given(seed=seeds, shift=st.floats(-2, 2))
@few
def test_bias_and_cuts_say_the_same_thing(seed, shift):
    """x_i + δ with cuts + δ and γ − δ W_i is the same model: why learning moves only one of bias and cuts."""
    params = make_params(seed % 1000, N_SITES, 3, 0)
    evidence = make_evidence(params, seed, N_ROWS)
    site = 1 + seed % 3  # a level site
    moved = params._replace(
        site_bias=params.site_bias.at[site].add(shift),
        hidden_bias=params.hidden_bias - shift * params.weights[site],
        gauge=params.gauge._replace(cuts=params.gauge.cuts.at[site].add(shift)),
    )
    score = jax.jit(log_evidence_exact)
    np.testing.assert_allclose(score(params, evidence), score(moved, evidence), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, ROW_BUCKETS[-1] + 3])
def test_chunks_give_every_row_once_and_in_order(n_rows):
    params = make_params(dtype=np.float32)
    evidence = make_evidence(params, n_rows=n_rows)
    score = partial(jax.jit(log_evidence_exact), params)
    np.testing.assert_allclose(one_table(evidence).by_chunks(score), score(evidence), rtol=2e-4, atol=2e-5)
