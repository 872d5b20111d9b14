"""§4.4: one item above all others, against the general integral over two tiers, and the softmax's own mean."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr

from tests.small import order_of
from thurbo.latent.constraints import Gauge
from thurbo.latent.constraints.order import CLOSER_SCALE, OrderRegion
from thurbo.latent.masses.boundaries import Split, log_below, log_mass_of_choice, log_mass_of_two

N_ITEMS = 6


def cases():
    """Means, deviations and who is chosen, `[item, row]`: near and far, narrow and wide, some items absent."""
    rng = np.random.default_rng(0)
    spread = np.repeat([0.0, 1.0, 5.0, 40.0], 16)
    mean = rng.normal(size=(N_ITEMS, len(spread))) * spread
    deviation = 1.0 + rng.random(mean.shape) * np.tile([0.0, 0.0, 1.0, 2.0], 16)
    top = np.arange(N_ITEMS)[:, None] == rng.integers(N_ITEMS, size=len(spread))
    rest = ~top & ((rng.random(mean.shape) < 0.8) | (np.arange(N_ITEMS) == 0)[:, None])
    return jnp.asarray(mean), jnp.asarray(deviation), jnp.asarray(top), jnp.asarray(rest)


@jax.jit
def ours(mean, deviation, top, rest):
    of = lambda m, d: log_mass_of_choice(m, d, top, rest)  # noqa: E731
    return of(mean, deviation), jax.grad(lambda m, d: of(m, d).sum(), argnums=(0, 1))(mean, deviation)


@jax.jit
def theirs(mean, deviation, top, rest):
    of = lambda m, d: log_mass_of_two(Split(m, d, rest, top, top))  # noqa: E731
    return of(mean, deviation), jax.grad(lambda m, d: of(m, d).sum(), argnums=(0, 1))(mean, deviation)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_mass_and_slopes_are_those_of_the_general_integral(dtype):
    mean, deviation, top, rest = cases()
    # What float32 can hold is what both are asked about.
    mean, deviation = (value.astype(jnp.float32).astype(jnp.float64) for value in (mean, deviation))
    truth, slopes = theirs(mean, deviation, top, rest)
    value, found = ours(mean.astype(dtype), deviation.astype(dtype), top, rest)
    loose = dtype == jnp.float32
    np.testing.assert_allclose(value, truth, rtol=1e-6 if loose else 1e-11, atol=1e-4 if loose else 1e-8)
    for got, want in zip(found, slopes, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4 if loose else 1e-7, atol=1e-3 if loose else 1e-7)


def test_slopes_have_slopes():
    """A second derivative is what training through an exact mean needs."""
    mean, deviation, top, rest = (value[:, 16:24] for value in cases())

    @jax.jit
    def slope(m):
        return jax.grad(lambda m: log_mass_of_choice(m, deviation, top, rest).sum())(m)

    step = jnp.asarray(np.random.default_rng(1).normal(size=mean.shape))
    _, along = jax.jvp(slope, (mean,), (step,))
    difference = (slope(mean + 1e-4 * step) - slope(mean - 1e-4 * step)) / 2e-4
    np.testing.assert_allclose(along, difference, atol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_log_below_is_the_log_of_the_distribution_function(dtype):
    z = jnp.asarray(np.r_[np.linspace(-12, 6, 50), -1e3, 1e3, 0.0], dtype)
    value, hazard = jax.jit(log_below)(z)
    exact = log_ndtr(np.asarray(z, np.float64))
    np.testing.assert_allclose(value, exact, rtol=2e-6 if dtype == jnp.float32 else 1e-12, atol=2e-7)
    slope = jax.jit(jax.vmap(jax.grad(lambda z: log_below(z)[0])))(z)
    np.testing.assert_allclose(slope, hazard, rtol=1e-6 if dtype == jnp.float32 else 1e-14)  # two programs


def test_the_gumbel_mean_of_a_choice_is_the_slope_of_its_mass():
    rng = np.random.default_rng(2)
    tier = np.full((20, 2, 4), -1)
    for row in range(1, 20):  # the first row says nothing
        tier[row, 0, :3], tier[row, 1] = 0, 0
        tier[row, 0, rng.integers(3)] = tier[row, 1, rng.integers(4)] = 1
    order = order_of(tier, ((5, 1, 2, -1), (0, 3, 7, 6)), 8, mass="gumbel", gumbel_scale=CLOSER_SCALE)
    mean = jnp.asarray(3.0 * rng.normal(size=(20, 8)))
    gauge = Gauge(jnp.zeros((8, 0)), jnp.ones(8))
    short, long = order.region(gauge), replace(order, has_one_top=False).region(gauge)
    assert short.order.has_one_top
    assert not long.order.has_one_top
    value = jax.jit(lambda region, m: region.mean(m))
    np.testing.assert_allclose(value(short, mean), value(long, mean), atol=1e-12)
    np.testing.assert_array_equal(value(short, mean)[0], mean[0])
    pull = jax.jit(jax.grad(lambda m, region: (region.mean(m) ** 2).sum()))
    np.testing.assert_allclose(pull(mean, short), pull(mean, long), atol=1e-10)


@pytest.mark.parametrize("has_ranking", [False, True])
def test_masses_of_needed_orders_are_those_of_all(has_ranking):
    """Training computes the masses of masked orders only, in portions whose number depends on the mask."""
    rng, n = np.random.default_rng(3), 150
    tier = rng.permuted(np.tile([0, 1, 2, 3] if has_ranking else [0, 0, 0, 1], (n, 2, 1)), axis=-1)
    region = OrderRegion(order_of(tier, ((0, 1, 2, 3), (4, 5, 6, 7)), 8))
    mean, deviation = jnp.asarray(rng.normal(size=(n, 8))), jnp.asarray(1.0 + rng.random((n, 8)))
    masked = jnp.asarray(np.repeat(rng.random((n, 2)) < 0.6, 4, axis=1))

    def by_need(mean, deviation, masked):
        return region.mass_of_masked(mean, deviation, masked, whole=True)

    def of_all(mean, deviation, masked):
        return region.release(~masked).log_mass(mean, deviation)

    def with_slopes(function):
        def total(*arguments):
            return (masses := function(*arguments)).sum(), masses

        return jax.jit(jax.grad(total, (0, 1), has_aux=True))

    programs = [with_slopes(function) for function in (by_need, of_all)]
    for mask in (masked, jnp.zeros_like(masked)):
        (slopes, masses), (all_slopes, all_masses) = (program(mean, deviation, mask) for program in programs)
        np.testing.assert_allclose(masses, all_masses, 1e-9)
        for got, want in zip(slopes, all_slopes, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)
