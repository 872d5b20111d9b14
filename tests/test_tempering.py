"""Replica exchange: the ladder leaves every temperature's law as it is, the coldest being the model's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from tests.small import make_params
from thurbo.latent import rbm
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.likelihood import hidden_states

N_TEMPERATURES, N_CHAINS = 4, 4000


def law(params, tau):
    """P_τ(h) of every state, by enumeration."""
    h = hidden_states(params.n_hidden, 0, params.weights.dtype).h
    rate = jnp.clip(params.hidden_mean, 0.01, 0.99)
    base = jnp.log(rate) - jnp.log1p(-rate)
    logits = (1 - tau) * (h @ base) + tau * rbm.log_omega(params, h)
    return np.asarray(h), np.asarray(jax.nn.softmax(logits))


def counts(chains, states):
    """How many chains stand in each state."""
    place = 2 ** np.arange(states.shape[1])
    return np.asarray([(chains @ place == state @ place).sum() for state in states])


@pytest.fixture(scope="module")
def run():
    params = make_params(size=0.5)
    starts = jnp.zeros((N_TEMPERATURES * N_CHAINS, 3), params.weights.dtype)
    moved = jax.jit(gibbs.run_tempered, static_argnums=(3, 4))(jax.random.key(0), starts, params, 60, N_TEMPERATURES)
    return params, np.asarray(moved).reshape(N_TEMPERATURES, N_CHAINS, 3)


@pytest.mark.parametrize("place", range(N_TEMPERATURES))
def test_every_temperature_keeps_its_law(run, place):
    params, chains = run
    tau = float(gibbs.ladder(N_TEMPERATURES, params.weights.dtype)[place])
    states, probability = law(params, tau)
    assert chisquare(counts(chains[place], states), N_CHAINS * probability).pvalue > 2e-5


def test_cold_chains_are_the_first(run):
    _, chains = run
    flat = jnp.asarray(chains.reshape(-1, 3))
    np.testing.assert_array_equal(gibbs.cold_chains(flat, N_TEMPERATURES), chains[0])


def test_swaps_exchange_and_lose_nothing():
    h = jnp.asarray(np.arange(5, dtype=float)[:, None].repeat(2, axis=0))  # two chains at each of five temperatures
    height = jnp.asarray([0.0, 0.0, 100.0, 100.0, 0.0, 0.0, 100.0, 100.0, 0.0, 0.0])
    taus = gibbs.ladder(5, h.dtype)
    even = gibbs.swap(jax.random.key(0), h, height, taus, jnp.asarray(0))[:, 0].reshape(5, 2)[:, 0]
    odd = gibbs.swap(jax.random.key(0), h, height, taus, jnp.asarray(1))[:, 0].reshape(5, 2)[:, 0]
    np.testing.assert_array_equal(even, [1, 0, 3, 2, 4])  # higher states go to the colder place
    np.testing.assert_array_equal(odd, [0, 1, 2, 3, 4])  # they are there already, and hardly leave
