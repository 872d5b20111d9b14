"""Full rankings under many states: the short way against the chains, and back to them where it cannot be trusted."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import small
from thurbo.latent.constraints import Gauge, Order
from thurbo.latent.masses import rankings

GAUGE = Gauge(jnp.full((6, 1), jnp.inf, jnp.float32), jnp.ones(6, jnp.float32))
SLOTS = ((0, 2, 3, 5, 4, -1),)  # one place is padding, slot 1 is no item of the order


def order_of(ranks: np.ndarray) -> Order:
    padded = np.concatenate([ranks, np.full((len(ranks), 1), -1)], axis=1)
    return small.order_of(padded[:, None, :], SLOTS, 6)


@jax.jit
def masses(order: Order, means: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Slopes of a weighted sum of log P over states and rows, and every log P."""

    def total(means: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = order.log_mass_of_states(means, GAUGE)
        return (weight * value).sum(), value

    return jax.grad(total, has_aux=True)(means)


def both_ways(ranks: np.ndarray, means: np.ndarray) -> list[np.ndarray]:
    """Slopes and masses by the short way, then by the chains."""
    order = order_of(ranks)
    assert order.form == "permutation"
    weight = jnp.asarray(np.random.default_rng(3).uniform(size=(len(means), len(ranks))), jnp.float32)
    orders = order, replace(order, form="ranking")
    return [np.asarray(part) for each in orders for part in masses(each, jnp.asarray(means, jnp.float32), weight)]


@pytest.mark.slow
def test_short_way_agrees_with_the_chains_except_where_no_state_likes_a_ranking():
    rng = np.random.default_rng(0)
    ranks = np.stack([rng.permutation(5) for _ in range(32)])
    ranks[4] = -1
    means = rng.normal(size=(rankings.WORTHWHILE // 32, 6))
    slopes, value, expected_slopes, expected = both_ways(ranks, means)
    assert (value != expected).any()  # another way
    np.testing.assert_allclose(value, expected, atol=1e-4)
    np.testing.assert_allclose(slopes, expected_slopes, atol=1e-3)
    assert (value[:, 4] == 0).all()  # says nothing
    assert (slopes[:, 1] == 0).all()

    ranks[:], ranks[2] = -1, [4, 3, 2, 1, 0]
    means = means + np.array([0.0, 0.0, 4.0, 8.0, 16.0, 12.0])
    slopes, value, expected_slopes, expected = both_ways(ranks, means)
    assert expected[:, 2].max() < -60
    np.testing.assert_allclose(value, expected, rtol=1e-6)  # no other way
    np.testing.assert_allclose(slopes, expected_slopes, rtol=1e-5)


def test_form_is_known_on_the_host():
    full = order_of(np.array([[4, 2, 0, 1, 3], [-1, -1, -1, -1, -1]]))
    assert full.form == "permutation"
    assert full.release(jnp.zeros((2, 6), bool)).form == "ranking"
    assert order_of(np.array([[4, 2, -1, 1, 3]])).form == "ranking"
    assert order_of(np.array([[4, 2, 0, 0, 3]])).form == "places"
    assert order_of(np.array([[3, 1, 1, 0, 2]])).form == "any"
