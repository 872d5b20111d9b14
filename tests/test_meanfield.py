"""§4.3: mean-field against what it can be held to: exact where it is exact, close elsewhere, its own fixed point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.small import UNOBSERVED, ask, exact_posterior, make_evidence, make_params, mean_field, order_of
from thurbo.latent import rbm
from thurbo.latent.constraints.order import CLOSER_SCALE
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference.meanfield import predictive


def test_points_everywhere_give_the_exact_posterior():
    """With x known, P(h | x) of Eq. (3) factorises: one step without damping is exact."""
    params = make_params()
    params = params._replace(gauge=params.gauge._replace(cuts=jnp.full((6, 0), jnp.inf)))
    evidence = make_evidence(params, missing=0.0, points_only=True)
    x = evidence.constraints[0].lower / params.gauge.scale[None, :]
    ours = mean_field(params, evidence, 1, damping=0.0).hidden
    np.testing.assert_allclose(ours, jax.nn.sigmoid(rbm.hidden_logits(params, x)), rtol=1e-12)


@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_one_hidden_unit_with_nothing_observed_is_exact(unobserved):
    """A single h has no other unit to be wrong about: free slots integrated out give P(h) itself."""
    params = make_params(n_hidden=1)
    evidence = make_evidence(params, missing=1.0, unobserved=unobserved)
    ours = mean_field(params, evidence, 60).hidden
    exact = exact_posterior(params, evidence)
    np.testing.assert_allclose(ours, exact, atol=1e-8)


@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_is_close_to_enumeration(unobserved):
    """Free slots clamped to their own mean are off by .094 on average; integrated out, by a third of that at most."""
    params = make_params(n_sites=12, size=0.6)
    evidence = make_evidence(params, n_rows=200, missing=0.6, unobserved=unobserved)
    exact = exact_posterior(params, evidence)
    ours = mean_field(params, evidence, 60).hidden
    assert float(jnp.abs(ours - exact).mean()) < 0.05


@pytest.mark.parametrize("n_factors", [0, 2])
@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_is_stationary(unobserved, n_factors):
    """At the end of many steps another step changes nothing: q solves its own equations."""
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params, unobserved=unobserved)
    one, two = (mean_field(params, evidence, n) for n in (400, 401))
    np.testing.assert_allclose(one.hidden, two.hidden, atol=1e-9)
    np.testing.assert_allclose(one.factors, two.factors, atol=1e-9)


@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_bound_is_a_lower_bound_and_stationary_in_q(unobserved):
    """The mean-field bound lies below log Σ_h Ω(h) P(e | h), touches no slope in q, and is positive_part + entropy."""
    from thurbo.fit.objective import DataPhase, positive_part
    from thurbo.latent.inference.posterior import hidden_states, log_joint

    params = make_params()
    evidence = make_evidence(params, unobserved=unobserved)

    @jax.jit
    def bound(q):
        entropy = -(q * jnp.log(q) + (1 - q) * jnp.log1p(-q)).sum(-1)
        return positive_part(params, evidence, DataPhase(q, jnp.zeros((5, 0)), None, jnp.zeros(0))) + entropy

    q = mean_field(params, evidence, 400).hidden
    joint, _ = jax.jit(log_joint)(params, evidence, hidden_states(3, 0, np.dtype(float)))
    assert bool((bound(q) <= jax.scipy.special.logsumexp(joint, axis=0) + 1e-9).all())
    np.testing.assert_allclose(jax.jit(jax.grad(lambda p: bound(p).sum()))(q), 0.0, atol=1e-6)


def test_predictive_moments_are_those_of_independent_units():
    """Var(x_i) = 1 + Σ W² q(1−q) + V Cov(z) Vᵀ, by simulating q."""
    params = make_params(n_factors=2)
    evidence = make_evidence(params, n_rows=3)
    q = mean_field(params, evidence, 20)
    mean, deviation = predictive(params, q, evidence)
    rng = np.random.default_rng(0)
    n = 200_000
    for r in range(3):
        h = rng.random((n, 3)) < np.asarray(q.hidden[r])
        z = np.asarray(q.factors[r]) + rng.normal(size=(n, 2)) @ np.asarray(q.whitener[r])
        x = np.asarray(params.site_bias) + h @ np.asarray(params.weights).T + z @ np.asarray(params.loadings).T
        x = x + rng.normal(size=x.shape)
        se = x.std(axis=0) / np.sqrt(n)
        assert (np.abs(x.mean(axis=0) - mean[r]) < 5 * se).all()
        assert (np.abs(x.var(axis=0) / np.asarray(deviation[r]) ** 2 - 1) < 5 * np.sqrt(2 / n) * 1.2).all()


@pytest.mark.parametrize("mass", ["gumbel", "exact"])
def test_means_of_orders_are_slopes_of_the_mass_that_is_asked_for(mass):
    """One undamped step from q: x̂ of a category is μ + (1[k] − softmax(μ/s))/s with Gumbel utilities, A.3."""
    params = make_params()
    order = order_of(np.array([[[0, 1, 0, -1, -1, -1]], [[-1] * 6]]))
    evidence = Evidence((order,))
    q = jnp.broadcast_to(params.hidden_mean, (2, params.n_hidden))
    mean = rbm.latent_mean(params, q)
    if mass == "exact":
        x = ask(order.region(params.gauge), "mean", mean)
    else:
        share = jax.nn.softmax(mean[0, :3] / CLOSER_SCALE)
        x = mean.at[0, :3].add((jnp.asarray([0.0, 1.0, 0.0]) - share) / CLOSER_SCALE)
    coupling = rbm.to_units(params.weights**2, evidence.free.astype(float))
    expected = jax.nn.sigmoid(rbm.hidden_logits(params, x) - (q - 0.5) * coupling)
    np.testing.assert_allclose(mean_field(params, evidence, 1, damping=0.0, mass=mass).hidden, expected, atol=1e-9)


@pytest.mark.parametrize("n_factors", [0, 2])
def test_what_units_feel_is_the_mean_of_what_moves_them(n_factors):
    """One undamped step: the mean over rows of the log-odds, own couplings apart, is γ + Wᵀ felt."""
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params)
    q = mean_field(params, evidence, 1, damping=0.0)
    coupling = rbm.to_units(params.weights**2, evidence.free.astype(float))
    moved = q.log_odds + (params.hidden_mean[None, :] - 0.5) * coupling
    expected = params.hidden_bias + q.felt @ params.weights
    np.testing.assert_allclose(moved.mean(axis=0), expected, rtol=1e-6, atol=1e-9)


def test_centred_units_keep_their_mean_whatever_their_weights():
    """With the centre at what units feel, their log-odds have mean g over the rows: weights alone switch none."""
    from thurbo.fit import trainer

    rng, n_sites, n_hidden = np.random.default_rng(0), 7, 3
    felt = jnp.asarray(rng.normal(size=n_sites))
    layout = trainer.Layout(jnp.zeros(n_sites, jnp.int32), jnp.zeros(n_sites, bool))
    bias = rng.normal(size=n_sites)
    learnable, _ = trainer.initial_coordinates(
        jax.random.key(0),
        trainer.initial_values(np.zeros((n_sites, 0)), np.dtype(float), site_bias=bias),
        n_hidden,
        0,
    )
    centre = trainer.Centre(jnp.full(n_hidden, 0.5), felt)
    noise = rng.normal(size=(40, n_sites))
    rows = jnp.asarray(noise - noise.mean(axis=0) + np.asarray(felt))
    for scale in (1.0, 100.0):
        params = trainer.fold(learnable._replace(weights=scale * learnable.weights), centre, layout)
        np.testing.assert_allclose(rbm.hidden_logits(params, rows).mean(axis=0), learnable.hidden_bias, atol=1e-5)


def test_choices_start_at_the_shares_of_their_answers():
    """The untrained utilities of a column of choices give back how often each label was chosen (A.3)."""
    from thurbo.table.columns.forms.utilities import starting_utilities

    tier = np.zeros((100, 4), int)
    tier[np.arange(100), np.repeat([0, 1, 2, 3], [70, 20, 7, 3])] = 1
    tier[:10] = -1  # no answer
    bias = starting_utilities(tier, np.ones(100))
    share = np.asarray(jax.nn.softmax(jnp.asarray(bias / CLOSER_SCALE)))
    counted = np.array([60.5, 20.5, 7.5, 3.5])
    np.testing.assert_allclose(share, counted / counted.sum(), rtol=1e-5)
    assert abs(bias.mean()) < 1e-12
