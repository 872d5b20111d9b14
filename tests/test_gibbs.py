"""§4.1, §4.2: sweeps against rejection, chains against enumeration, and the joint test of Geweke (2004)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

from tests.small import CROSSED, FEWER, RUNS_LONG, exact_posterior, make_evidence, make_params
from thurbo.latent import rbm
from thurbo.latent.constraints import Box, Levels
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.posterior import expectation, hidden_probability, hidden_states


def test_sweep_draws_what_rejection_draws():
    """x | h, e: draws of N(m, I) kept if they lie inside Ω(e), slot by slot."""
    params = make_params(size=0.4)
    evidence = make_evidence(params, n_rows=1, missing=0.2, seed=5)
    region = evidence.region(params.gauge)
    mean = rbm.latent_mean(params, jnp.asarray([[1.0, 0.0, 1.0]]))
    n = 20_000
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf, n, axis=0), (mean, region))
    ours = np.asarray(jax.jit(gibbs.sweep)(jax.random.key(0), many[0], many[0], many[1]))
    rng = np.random.default_rng(0)
    tested = 0
    for i in range(6):
        low, high = float(region.lower[0, i]), float(region.upper[0, i])
        assert ((ours[:, i] >= low) & (ours[:, i] <= high)).all()
        if low < high:
            draws = float(mean[0, i]) + rng.normal(size=400_000)
            kept = draws[(draws >= low) & (draws <= high)]
            assert ks_2samp(ours[:, i], kept).pvalue > 2e-5
            tested += 1
    assert tested >= 3


@pytest.mark.parametrize(("unobserved", "n_factors"), CROSSED)
def test_chains_reach_the_enumerated_posterior(unobserved, n_factors):
    """Averages of h over many independent chains against P(h | e), as z-scores."""
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params, n_rows=4, unobserved=unobserved)
    exact = exact_posterior(params, evidence)
    n = 4000 // FEWER
    many = evidence.rows(jnp.repeat(jnp.arange(4), n))

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def simulate(key, params, many):
        given = gibbs.clamp(params, many)
        state = gibbs.start(key, given, jnp.full((4 * n, 3), 0.5))
        return gibbs.run(jax.random.fold_in(key, 1), state, given, 60)

    h = np.asarray(simulate(jax.random.key(1), params, many).h).reshape(4, n, 3)
    p = np.asarray(exact)
    z = (h.mean(axis=1) - p) / np.sqrt(p * (1 - p) / n)
    assert 2 * norm.sf(np.abs(z)).min() * z.size > 2e-5


def test_prior_chains_reach_p_of_h():
    params = make_params()
    evidence = make_evidence(params, n_rows=1, missing=1.0)
    exact = np.asarray(exact_posterior(params, evidence)[0])
    n = 20_000 // FEWER
    h = jax.jit(gibbs.prior_run, static_argnums=3)(jax.random.key(0), jnp.zeros((n, 3)), params, 60)
    z = (np.asarray(h).mean(axis=0) - exact) / np.sqrt(exact * (1 - exact) / n)
    assert 2 * norm.sf(np.abs(z)).min() * z.size > 2e-5


def _observe(x, params):
    """The data simulator of the joint test: levels where there are cuts, an interval at site 0, a point at site 4."""
    code = (x[:, :, None] > params.gauge.cuts[None]).sum(-1).astype(jnp.int32)
    has_cuts = jnp.isfinite(params.gauge.cuts[:, 0])[None, :]
    site = jnp.arange(x.shape[1])[None, :]
    z = x * params.gauge.scale[None, :]
    lower = jnp.where(site == 0, jnp.floor(z), jnp.where(site == 4, z, -jnp.inf))
    upper = jnp.where(site == 0, jnp.floor(z) + 1.0, jnp.where(site == 4, z, jnp.inf))
    point = jnp.broadcast_to(site == 4, x.shape)
    return Evidence((Box(lower, upper, point), Levels(jnp.where(has_cuts, code, -1))))


@pytest.mark.parametrize("n_factors", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_geweke_joint(n_factors):
    """(h, z, x, e) drawn from the prior, and by alternating e | x with one Gibbs round given e, have the same law.

    Many independent chains, each started from the prior and moved 20 rounds: any error in a conditional makes the
    state drift from the prior. Compared are first and second moments of h, z and x.
    """
    params = make_params(n_factors=n_factors)
    n = 20_000 // FEWER

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def prior(key):
        key_h, key_z, key_x = jax.random.split(key, 3)
        h = gibbs.prior_run(key_h, jnp.zeros((n, 3)), params, 100)
        z = jax.random.normal(key_z, (n, n_factors))
        x = rbm.latent_mean(params, h) + rbm.factor_shift(params, z)
        return gibbs.ChainState(x + jax.random.normal(key_x, x.shape), h, z)

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def move(key, state):
        def one(i, state):
            return gibbs.step(jax.random.fold_in(key, i), state, gibbs.clamp(params, _observe(state.x, params)))

        return jax.lax.fori_loop(0, 20, one, state)

    def moments(state):
        parts = [np.asarray(part) for part in state]
        flat = np.concatenate(parts, axis=1)
        pairs = np.einsum("ri,rj->rij", flat, flat)[:, *np.triu_indices(flat.shape[1])]
        return np.concatenate([flat, pairs], axis=1)

    first = moments(prior(jax.random.key(0)))
    second = moments(move(jax.random.key(1), prior(jax.random.key(2))))
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / n)
    z = (first.mean(axis=0) - second.mean(axis=0)) / np.maximum(spread, 1e-12)
    assert 2 * norm.sf(np.abs(z)).min() * z.size > 2e-5


@pytest.mark.slow
def test_rows_do_not_see_their_neighbours():
    """method="gibbs" gives a row the same answer alone, in company, and in another order."""
    params = make_params()
    evidence = make_evidence(params, n_rows=6)
    ask = lambda rows: expectation(hidden_probability, params, rows, "gibbs", key=jax.random.key(0), n_draws=20)[0]  # noqa: E731
    whole = np.asarray(ask(evidence))
    order = np.array([4, 2, 0])
    np.testing.assert_allclose(ask(evidence.rows(jnp.asarray(order))), whole[order], rtol=1e-9)


def test_annealed_chains_have_the_activations_of_the_model():
    """E[h] by importance weights against enumeration, in a model whose chains would hardly leave a mode."""
    params = make_params(size=1.5)
    states = hidden_states(3, 0, params.weights.dtype).h
    exact = jax.nn.softmax(rbm.log_omega(params, states)) @ states
    run = jax.jit(gibbs.annealed_activation, static_argnames=("n_chains", "n_temperatures"))
    parts = np.asarray([run(jax.random.key(seed), params, 500, 200)[1] for seed in range(40)])
    z = (parts.mean(axis=0) - np.asarray(exact)) / (parts.std(axis=0) / np.sqrt(len(parts)))
    assert 2 * norm.sf(np.abs(z)).min() * z.size > 2e-5
