"""§2: energies, conditionals and Ω(h) against their definitions; ragged against dense."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

from tests.small import make_params, to_oracle
from thurbo.latent import rbm


def test_energy_is_eq_2_term_by_term():
    params = make_params(n_factors=2)
    rng = np.random.default_rng(0)
    x, h, z = rng.normal(size=(4, 6)), rng.integers(0, 2, (4, 3)).astype(float), rng.normal(size=(4, 2))
    model = to_oracle(params)
    for r in range(4):
        u = x[r] - model.V @ z[r]
        by_hand = sum(u[i] ** 2 / 2 - (model.alpha[i] + model.W[i] @ h[r]) * u[i] for i in range(6))
        by_hand += -model.gamma @ h[r] + z[r] @ z[r] / 2
        ours = rbm.energy(params, jnp.asarray(x), jnp.asarray(h), jnp.asarray(z))[r]
        assert ours == pytest.approx(by_hand, rel=1e-12)


def test_hidden_logits_are_energy_differences():
    """Eq. (3): log-odds of h_k are E(h_k = 0) − E(h_k = 1), whatever the other units are; x − Vz with factors."""
    params = make_params(n_factors=2)
    rng = np.random.default_rng(1)
    x, z = jnp.asarray(rng.normal(size=(5, 6))), jnp.asarray(rng.normal(size=(5, 2)))
    logits = rbm.hidden_logits(params, x - rbm.factor_shift(params, z))
    for k in range(3):
        h = jnp.asarray(rng.integers(0, 2, (5, 3)).astype(float))
        off, on = h.at[:, k].set(0.0), h.at[:, k].set(1.0)
        difference = rbm.energy(params, x, off, z) - rbm.energy(params, x, on, z)
        np.testing.assert_allclose(logits[:, k], difference, rtol=1e-10)


def test_latent_mean_is_where_the_energy_is_least():
    params = make_params(n_factors=1)
    h, z = jnp.asarray([[1.0, 0.0, 1.0]]), jnp.asarray([[0.7]])
    mean = rbm.latent_mean(params, h) + rbm.factor_shift(params, z)
    slope = jax.grad(lambda x: rbm.energy(params, x, h, z).sum())(mean)
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)


def test_omega_is_the_integral_of_the_potential():
    """A.1.1: Ω(h) √(2π) = ∫ exp(−E(x, h)) dx, one site."""
    params = make_params(n_sites=1, n_hidden=2, size=1.0)
    for h in ([0.0, 0.0], [1.0, 0.0], [1.0, 1.0]):
        state = jnp.asarray([h])
        integral, _ = quad(lambda x, s=state: float(jnp.exp(-rbm.energy(params, jnp.asarray([[x]]), s)[0])), -12, 12)
        assert float(rbm.log_omega(params, state)[0]) + 0.5 * rbm.LOG_2PI == pytest.approx(np.log(integral), abs=1e-8)


def test_expected_log_omega_is_the_mean_over_independent_units():
    params = make_params()
    model = to_oracle(params)
    q = np.array([[0.2, 0.9, 0.5]])
    slots = np.array([[True, False, True, True, False, True]])
    chance = np.prod(np.where(model.states == 1, q, 1 - q), axis=1)
    by_hand = sum(c * 0.5 * (model.mean(h)[slots[0]] ** 2).sum() for c, h in zip(chance, model.states, strict=True))
    mean = rbm.latent_mean(params, jnp.asarray(q))
    ours = rbm.expected_log_omega(params, jnp.asarray(q), jnp.asarray(slots), mean)[0]
    assert float(ours) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("is_ragged", [False, True])
def test_squared_weights_and_their_gradient_with_and_without_slots(share: float, is_ragged: bool):
    rng = np.random.default_rng(3)
    weights = jnp.asarray(rng.normal(size=(5, 6, 3) if is_ragged else (6, 3)))
    slots, slope = jnp.asarray(rng.random((5, 6)) < share), jnp.asarray(rng.normal(size=(5, 3)))
    params = make_params()

    def ours(w):
        return (slope * rbm.squared_weights(params._replace(weights=w), slots)).sum()

    def plain(w):
        every = jnp.broadcast_to(w, (5, 6, 3))
        return (slope * jnp.where(slots[:, :, None], every**2, 0.0).sum(axis=1)).sum()

    for function in (lambda f: f, jax.grad, lambda f: jax.jit(jax.grad(f))):
        np.testing.assert_allclose(function(ours)(weights), function(plain)(weights), rtol=1e-12, atol=1e-12)


def test_factor_posterior_is_gaussian_conditioning():
    """z | x_o, h from the joint Gaussian of (z, x_o), by its covariance."""
    params = make_params(n_factors=2)
    model = to_oracle(params)
    rng = np.random.default_rng(2)
    residual, observed = rng.normal(size=(1, 6)), np.array([[True, True, False, True, False, True]])
    seen = np.flatnonzero(observed[0])
    V = model.V[seen]
    gain = V.T @ np.linalg.inv(np.eye(len(seen)) + V @ V.T)
    mean, covariance = gain @ residual[0, seen], np.eye(2) - gain @ V
    whitener = rbm.factor_whitener(params, jnp.asarray(observed))
    ours = rbm.factor_mean(params, rbm.only(jnp.asarray(residual), jnp.asarray(observed)), whitener)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-10)
    U = np.asarray(whitener[0])
    np.testing.assert_allclose(U.T @ U, covariance, rtol=1e-10)


@pytest.mark.parametrize("n", [1, 5, 9, pytest.param(20, marks=pytest.mark.slow)])
def test_a_whitener_inverts_the_cholesky_factor_and_knows_its_slope(n):
    rng = np.random.default_rng(n)
    half = rng.normal(size=(3, n, 2 * n))
    matrix = jnp.asarray(half @ half.transpose(0, 2, 1) / n + np.eye(n))
    whiten = jax.jit(rbm.whitener)
    ours = np.asarray(whiten(matrix))
    np.testing.assert_allclose(ours, np.linalg.inv(np.linalg.cholesky(np.asarray(matrix))), rtol=1e-9, atol=1e-12)
    single = np.asarray(whiten(matrix.astype(jnp.float32)))
    np.testing.assert_allclose(single, ours, atol=2e-5)
    weight, turn = jnp.asarray(rng.normal(size=matrix.shape)), jnp.asarray(rng.normal(size=matrix.shape))
    turn = turn + jnp.swapaxes(turn, 1, 2)
    value = jax.jit(lambda t: (rbm.whitener(matrix + t * turn) * weight).sum())
    slope = jax.jit(jax.grad(value))
    expected = (value(1e-5) - value(-1e-5)) / 2e-5
    np.testing.assert_allclose(slope(0.0), expected, rtol=1e-6)
    again = jax.jit(jax.grad(slope))(0.0)
    np.testing.assert_allclose(again, (slope(1e-4) - slope(-1e-4)) / 2e-4, rtol=1e-4)


def test_ragged_sees_what_dense_sees():
    params = make_params(n_factors=2)
    rng = np.random.default_rng(3)
    order = np.stack([rng.permutation(6) for _ in range(4)])
    seen = rbm.gather(params, jnp.asarray(order))
    h, z, x = (jnp.asarray(rng.normal(size=(4, n))) for n in (3, 2, 6))
    shuffled = jnp.take_along_axis(x, jnp.asarray(order), axis=1)
    np.testing.assert_allclose(
        rbm.latent_mean(seen, h), np.take_along_axis(np.asarray(rbm.latent_mean(params, h)), order, axis=1)
    )
    np.testing.assert_allclose(rbm.hidden_logits(seen, shuffled), rbm.hidden_logits(params, x), rtol=1e-12)
    np.testing.assert_allclose(rbm.energy(seen, shuffled, h, z), rbm.energy(params, x, h, z), rtol=1e-12)
    np.testing.assert_allclose(rbm.log_omega(seen, h), rbm.log_omega(params, h), rtol=1e-12)


def test_log_partition_is_a_sum_over_all_states():
    from thurbo.latent.inference.posterior import log_partition_exact

    params = make_params(n_hidden=4)
    model = to_oracle(params)
    everywhere = np.ones(6, bool)
    by_hand = logsumexp([model.log_omega(h, everywhere) for h in model.states]) + 3 * np.log(2 * np.pi)
    assert float(log_partition_exact(params)) == pytest.approx(by_hand, rel=1e-12)
