"""§4.4, A.1.1, A.2.4: log P(e), P(h | e) and log Z against brute force, for both readings of "unobserved"."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from tests import oracle
from tests.small import (
    CROSSED,
    UNOBSERVED,
    as_ragged,
    exact_posterior,
    log_evidence_exact,
    log_scale_of_points,
    make_evidence,
    make_params,
    mean_field,
    rows_for_oracle,
    to_oracle,
)
from thurbo.errors import ThurboError
from thurbo.latent.evidence import one_table
from thurbo.latent.inference.likelihood import (
    hidden_states,
    log_evidence_conservative,
    log_joint,
    log_mean_exp,
    log_partition_ais,
    log_partition_exact,
    log_unnormalised_importance,
)
from thurbo.latent.rbm import LOG_2PI
from thurbo.predict import joint as score


@pytest.mark.parametrize(("unobserved", "n_factors"), CROSSED)
def test_log_evidence_and_posterior_by_enumeration(unobserved, n_factors):
    params = make_params(n_factors=n_factors, n_sites=5 if n_factors else 6)
    evidence = make_evidence(params, unobserved=unobserved)
    model = to_oracle(params)
    rows = list(rows_for_oracle(params, evidence))
    expected = [oracle.log_evidence(model, *row) for row in rows] - log_scale_of_points(params, evidence)
    # With factors the oracle integrates a multivariate normal, to about 1e-6; without, both are exact.
    tolerance = 2e-5 if n_factors else 1e-10
    np.testing.assert_allclose(log_evidence_exact(params, evidence), expected, atol=tolerance)
    hidden = [oracle.posterior(model, *row) for row in rows]
    np.testing.assert_allclose(exact_posterior(params, evidence), hidden, atol=tolerance)


@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_probabilities_of_all_evidence_sum_to_one(unobserved):
    """Over every combination of levels of three sites, Σ_e P(e) = 1."""
    params = make_params(n_sites=4)
    codes = np.array([[-1, a, b, c] for a in range(2) for b in range(3) for c in range(4)])
    evidence = make_evidence(params, n_rows=len(codes), missing=1.0)
    box, levels = evidence.constraints
    present = jnp.asarray(codes >= 0) if unobserved == "exclude" else None
    evidence = evidence._replace(
        constraints=(box, replace(levels, code=jnp.asarray(codes, jnp.int32))), present=present
    )
    assert float(jnp.exp(log_evidence_exact(params, evidence)).sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_ragged_rows_have_the_same_probability(unobserved):
    params = make_params(n_factors=1)
    evidence = make_evidence(params, unobserved=unobserved)
    ragged = as_ragged(evidence, np.random.default_rng(0), 6, extra=3)
    np.testing.assert_allclose(log_evidence_exact(params, ragged), log_evidence_exact(params, evidence), rtol=1e-10)
    np.testing.assert_allclose(exact_posterior(params, ragged), exact_posterior(params, evidence), atol=1e-10)


def test_float32_agrees_with_float64():
    params = make_params()
    evidence = make_evidence(params, n_rows=20)
    small = jax.tree.map(lambda a: a.astype(jnp.float32) if a.dtype == jnp.float64 else a, (params, evidence))
    assert log_evidence_exact(*small).dtype == jnp.float32
    np.testing.assert_allclose(log_evidence_exact(*small), log_evidence_exact(params, evidence), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("unobserved", "n_factors"), CROSSED)
def test_importance_sampling_agrees_within_its_own_error(unobserved, n_factors):
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params, unobserved=unobserved, n_rows=20)
    estimate, error = jax.jit(log_unnormalised_importance, static_argnames="n_draws")(
        jax.random.key(0), params, evidence, mean_field(params, evidence, 30), 4000
    )
    # The normaliser is taken exactly here: only the numerator is estimated.
    exact = log_evidence_exact(params, evidence) + _log_normaliser(params, evidence)
    z = (np.asarray(estimate) - np.asarray(exact)) / np.asarray(error)
    assert 2 * norm.sf(np.abs(z)).min() * len(z) > 2e-5
    assert np.max(error) < 0.1


def _log_normaliser(params, evidence):
    model = to_oracle(params)
    rows = rows_for_oracle(params, evidence)
    return np.array([np.logaddexp.reduce([model.log_omega(h, present) for h in model.states]) for *_, present in rows])


_ais = jax.jit(log_partition_ais, static_argnames=("n_chains", "n_temperatures"))


@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_annealed_importance_sampling_agrees_with_enumeration(unobserved):
    params = make_params(n_hidden=6, size=0.8)
    if unobserved == "marginalize":
        estimate, error = _ais(jax.random.key(1), params, 500, 300)
        exact = np.array([float(jax.jit(log_partition_exact)(params))])
    else:
        evidence = make_evidence(params, unobserved=unobserved)
        estimate, error = _ais(jax.random.key(1), params, 500, 300, evidence.present)
        exact = _log_normaliser(params, evidence) + 0.5 * np.asarray(evidence.present).sum(1) * LOG_2PI
    z = (np.asarray(estimate) - exact) / np.asarray(error)
    assert 2 * norm.sf(np.abs(z)).min() * len(z) > 2e-5
    assert np.max(error) < 0.1


_conservative = jax.jit(log_evidence_conservative)


def _prior_draws(params, rng, shape):
    """h ~ P(h), by the oracle's enumeration."""
    model = to_oracle(params)
    chance = np.exp(model.log_prior(np.ones(len(model.alpha), bool)))
    return jnp.asarray(model.states[rng.choice(len(chance), size=shape, p=chance)])


@pytest.mark.parametrize("n_factors", [0, 1])
def test_the_conservative_estimate_agrees_within_its_own_error(n_factors):
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params, n_rows=20)
    rng = np.random.default_rng(0)
    h = _prior_draws(params, rng, 5000)
    z = jnp.asarray(rng.normal(size=(5000, n_factors)))
    estimate, error = _conservative(params, evidence, h, z)
    score = (np.asarray(estimate) - np.asarray(log_evidence_exact(params, evidence))) / np.asarray(error)
    assert 2 * norm.sf(np.abs(score)).min() * len(score) > 2e-5
    assert np.max(error) < 0.1


def test_the_conservative_estimate_is_too_low_on_average():
    """Of few samples P(e) itself is met on average, its logarithm from below."""
    params = make_params()
    evidence = make_evidence(params, n_rows=6, missing=0.1)
    h = _prior_draws(params, np.random.default_rng(1), (2000, 2))
    estimate = jax.jit(jax.vmap(lambda few: log_evidence_conservative(params, evidence, few)[0]))(h)
    beyond = np.asarray(estimate - log_evidence_exact(params, evidence)[None, :])

    def z(values):
        return values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(values)))

    assert norm.cdf(z(beyond)).max() * 6 < 2e-5
    assert 2 * norm.sf(np.abs(z(np.exp(beyond) - 1))).min() * 6 > 2e-5


@pytest.mark.parametrize("ragged", [False, True])
def test_samples_in_portions_add_up(ragged):
    """150 samples, two portions and a part, against all of them at once."""
    params = make_params(n_factors=1)
    evidence = make_evidence(params)
    states = hidden_states(3, 1, params.weights.dtype)
    joint, prior = jax.jit(log_joint)(params, evidence, states)
    some = np.random.default_rng(0).integers(len(states.h), size=150)
    expected = log_mean_exp((joint - prior)[some])
    if ragged:
        evidence = as_ragged(evidence, np.random.default_rng(0), 6, extra=2)
    for ours, theirs in zip(_conservative(params, evidence, states.h[some], states.z[some]), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    with pytest.raises(ValueError, match="the model has 1 factors, the samples 0"):
        log_evidence_conservative(params, evidence, states.h[some])


def test_evidence_that_no_sample_explains():
    params = make_params()
    evidence = make_evidence(params, n_rows=2)
    box, levels = evidence.constraints
    empty = replace(
        box, lower=jnp.full((2, 6), 1e200), upper=jnp.full((2, 6), 1e200 * (1 + 1e-9)), point=jnp.zeros((2, 6), bool)
    )
    value, error = _conservative(params, evidence._replace(constraints=(empty, levels)), jnp.ones((3, 3)))
    assert np.all(np.asarray(value) == -np.inf)
    assert np.all(np.asarray(error) == np.inf)


def test_chains_of_the_model_give_the_same_estimate():
    """Beyond the hidden units whose states are drawn exactly, samples are the ends of chains."""
    params = make_params(n_hidden=13, size=0.35)
    evidence = make_evidence(params, n_rows=10)
    exact, _ = score.score(params, one_table(evidence), "exact")
    value, error = score.score(params, one_table(evidence), "conservative", n_draws=1000)
    z = (value - exact) / error
    assert 2 * norm.sf(np.abs(z)).min() * len(z) > 2e-5
    assert error.max() < 0.2


def test_scores_by_a_method_that_cannot_be():
    params = make_params(n_hidden=17)
    with pytest.raises(ThurboError, match='17 hidden units and 0 factors are too many to enumerate; use method="'):
        score.score(params, one_table(make_evidence(params)), "exact")
