"""§6, A.2.2, A.2.3: sparsity, bounded latents, smoothed posteriors, sizes chosen by held-out cells."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import thurbo as tb
from tests.small import make_evidence, make_params, n_cuts_of
from thurbo.errors import ThurboError
from thurbo.fit import fitting, objective, planning
from thurbo.fit.planning import Plan
from thurbo.fit.trainer import Layout
from thurbo.latent import rbm
from thurbo.latent.inference.meanfield import mean_field


@pytest.fixture(scope="module")
def model():
    params = make_params()
    return params, make_evidence(params, n_rows=6)


def chosen(**changed):
    return planning.flat(tb.TBM(**changed).get_params(deep=False))


def test_sparsity_at_a_draw_has_the_slopes_of_the_paper(model):
    params, evidence = model
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 6)))
    hidden = jax.nn.sigmoid(rbm.hidden_logits(params, x))
    state = objective.DataPhase(hidden, jnp.zeros((6, 0)), None, x.mean(axis=0), x)
    slope = jax.jit(jax.grad(lambda p: objective.sparsity(p, evidence, state, 0.1).sum()))(params)
    np.testing.assert_allclose(slope.hidden_bias, (0.1 - hidden).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(slope.weights, np.asarray(x).T @ np.asarray(0.1 - hidden), rtol=1e-9)
    np.testing.assert_allclose(slope.site_bias, 0.0)


def test_a_bound_cuts_what_hidden_units_see_of_an_outlier(model):
    params, evidence = model
    far = evidence.constraints[0]
    box = type(far)(far.lower.at[0, 0].set(60.0), far.upper.at[0, 0].set(60.0), far.point.at[0, 0].set(True))
    outlier = evidence._replace(constraints=(box, *evidence.constraints[1:]))
    free, bounded = (mean_field(params, outlier, 1, damping=0.0, latent_bound=bound) for bound in (None, 3.0))
    usual = rbm.latent_mean(params, params.hidden_mean[None, :])[0, 0]
    seen = 60.0 / params.gauge.scale[0]
    excess = params.weights[0] * (seen - (usual + 3.0))
    np.testing.assert_allclose(free.log_odds[0] - bounded.log_odds[0], excess, rtol=1e-6)
    same = mean_field(params, evidence, 5, latent_bound=1e6)
    np.testing.assert_allclose(same.hidden, mean_field(params, evidence, 5).hidden, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "value"), [("posterior_smoothing", 1.5), ("latent_bound", 0), ("n_positive_steps", 0)]
)
def test_settings_out_of_range_are_named(name, value):
    with pytest.raises(ThurboError, match=name):
        chosen(learning=tb.Likelihood(**{name: value}))


def test_sizes_of_a_single_model_follow_a_rule():
    assert fitting.sizes(chosen(), 300, 40) == (15, 0)
    assert fitting.sizes(chosen(), 5000, 40) == (40, 0)
    assert fitting.sizes(chosen(), 5000, 400) == (50, 0)
    assert fitting.sizes(chosen(n_factors=3), 5000, 40) == (40, 3)
    assert fitting.sizes(chosen(n_hidden=20), 5000, 40) == (20, 0)
    assert fitting.sizes(chosen(n_hidden=20, n_factors=3), 5000, 40) == (20, 3)
    few, _ = fitting.sizes(chosen(objective="exact"), 5000, 40)
    assert few == (fitting.ENUMERATED_ON_CPU if jax.default_backend() == "cpu" else fitting.ENUMERATED)


def test_units_out_of_use_stay_at_zero():
    state = _start(n_hidden=4, n_factors=2)
    types = Layout(jnp.asarray(n_cuts_of(6)), jnp.asarray(n_cuts_of(6) == 0))
    layout = fitting.active_only(types, (4, 2), 3, 1)
    cut = fitting.cut(state, layout)
    assert (np.asarray(cut.learnable.weights)[:, 3] == 0).all()
    assert (np.asarray(cut.learnable.loadings)[:, 1] == 0).all()
    assert layout.active_hidden.tolist() == [True] * 3 + [False]


def _start(n_hidden, n_factors):
    from tests.test_learning import _started

    return _started(Plan(), n_hidden=n_hidden, n_factors=n_factors)


@pytest.fixture(scope="module")
def scores():
    """Answers that one score on a line explains: a single factor is all that is needed."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(1200, 1)) * 1.5 + rng.normal(size=(1200, 8))
    return {f"q{i}": (latent[:, i] > 0.3).astype(int) for i in range(8)}


def test_posteriors_of_training_rows_come_with_the_fit(scores):
    some = {name: values[:200] for name, values in scores.items()}
    schema = {name: tb.Binary() for name in scores}
    model = tb.TBM(schema, n_hidden=2, random_state=0, learning=tb.Exact(posterior_smoothing=0.8), max_epochs=30)
    smoothed, inferred = model.fit(some).posteriors_, model.transform(some)
    assert smoothed.shape == inferred.shape == (200, 2)
    moving = inferred.std(axis=0) > 0.05
    assert moving.any()
    for k in np.flatnonzero(moving):
        assert np.corrcoef(smoothed[:, k], inferred[:, k])[0, 1] > 0.9


def test_smoothed_posteriors_belong_to_the_rows_of_the_fit(scores):
    """Rows that come later are no part of them, nor are those of a model that moved on."""
    some = {name: values[:200] for name, values in scores.items()}
    schema = {name: tb.Binary() for name in scores}
    settings = {"n_hidden": 2, "random_state": 0, "learning": tb.Exact(posterior_smoothing=0.8), "max_epochs": 2}
    model = tb.TBM(schema, **settings).partial_fit(some)
    assert not hasattr(model, "posteriors_")
    assert model.learning.posterior_smoothing == 0.8
    model.fit(some)
    assert model.posteriors_.shape == (200, 2)
    model.partial_fit({name: values[200:300] for name, values in scores.items()})
    assert not hasattr(model, "posteriors_")
