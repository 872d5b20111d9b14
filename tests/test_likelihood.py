"""§4.4, A.1.1: log P(e), P(h | e) and log Z against brute force, for both readings of "unobserved"."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
    one_table,
    rows_for_oracle,
    to_oracle,
)
from thurbo.errors import ThurboError
from thurbo.latent.inference.posterior import log_normaliser_exact
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


def _log_normaliser(params, evidence):
    model = to_oracle(params)
    rows = rows_for_oracle(params, evidence)
    return np.array([np.logaddexp.reduce([model.log_omega(h, present) for h in model.states]) for *_, present in rows])


@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_normalisers_of_rows_by_enumeration(unobserved):
    params = make_params()
    evidence = make_evidence(params, unobserved=unobserved)
    expected = _log_normaliser(params, evidence)
    np.testing.assert_allclose(jax.jit(log_normaliser_exact)(params, evidence), expected, rtol=1e-12)
    ragged = as_ragged(evidence, np.random.default_rng(0), 6, extra=2)
    np.testing.assert_allclose(jax.jit(log_normaliser_exact)(params, ragged), expected, rtol=1e-12)


def test_scores_by_a_method_that_cannot_be():
    params = make_params(n_hidden=17)
    with pytest.raises(ThurboError, match='17 hidden units and 0 factors are too many to enumerate; use method="'):
        score.score(params, one_table(make_evidence(params)), "exact")
