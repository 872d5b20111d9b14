"""A.1.3: the tempered sampler ends where the model has its modes, and at T = 1 it is the model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.small import make_params, to_oracle
from thurbo.latent.inference import gibbs


def test_temperatures_fall_geometrically():
    schedule = np.asarray(gibbs.cooling(10.0, 1.0, 20, jnp.float64))
    np.testing.assert_allclose(schedule[1:] / schedule[:-1], (1 / 10) ** (1 / 20))
    assert schedule[-1] == pytest.approx(1.0)


def test_two_basins_are_found_and_told_apart():
    """One strong unit, symmetric between on and off: rows end at m(0) or m(1), about half each, without noise."""
    params = make_params(n_hidden=1)
    direction = jnp.asarray([[2.0], [2.0], [-2.0], [2.0], [-2.0], [2.0]])
    bias = -0.5 * direction[:, 0]
    params = params._replace(weights=direction, site_bias=bias, hidden_bias=jnp.zeros(1))
    x, h = jax.jit(gibbs.seek_mode, static_argnums=2)(jax.random.key(0), params, 400)
    on = np.asarray(h[:, 0]) > 0.5
    assert 0.35 < on.mean() < 0.65
    # √(0.1/50) = 0.045 of noise is left in an average of 50 frozen rounds
    target = np.where(on[:, None], np.asarray(bias + direction[:, 0]), np.asarray(bias))
    assert np.abs(np.asarray(x) - target).max() < 0.3


def test_collected_at_temperature_one_it_is_the_model():
    """With every temperature 1 the collected h are draws of P(h): the mode finder is a sampler run colder."""
    params = make_params()
    model = to_oracle(params)
    prior = np.exp(model.log_prior(np.ones(6, bool))) @ model.states
    _, h = gibbs.seek_mode(
        jax.random.key(1), params, 4000, hottest=1.0, coldest=1.0, n_cooling=40, n_freezing=1, n_collected=1
    )
    z = (np.asarray(h).mean(axis=0) - prior) / np.sqrt(prior * (1 - prior) / 4000)
    assert np.abs(z).max() < 4.5
