"""§5.1 with the hidden units integrated out: against enumeration, against mean-field's fixed point, and in fits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thurbo as tb
from tests.small import CROSSED, FEWER, RUNS_LONG, as_ragged, log_evidence_exact, make_evidence, make_params
from tests.test_learning import trainable
from thurbo.errors import ThurboError
from thurbo.fit import objective, planning
from thurbo.fit.objective import Positive
from thurbo.fit.planning import Plan
from thurbo.latent.constraints import Gauge, Levels
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.likelihood import hidden_states
from thurbo.latent.inference.meanfield import latent_mean, mean_field
from thurbo.latent.rbm import Params, log_omega

PLAN = Plan(objective="likelihood", integrate="hidden")


def assert_mean_is(draws: np.ndarray, exact: np.ndarray) -> None:
    """Every coordinate's mean is the exact value: z-scores, Bonferroni; constants are equal."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    moves = error > 1e-9
    z = (draws.mean(axis=0) - exact)[moves] / error[moves]
    assert moves.any()
    assert 2 * stats.norm.sf(np.abs(z)).min() * z.size > 2e-5
    np.testing.assert_allclose(draws.mean(axis=0)[~moves], exact[~moves], atol=1e-8)


def yes_or_no(missing: float = 0.0, n_rows: int = 7) -> tuple[Params, Evidence]:
    """A model of six sites with a cut each, and rows of yes or no."""
    params, rng = make_params(size=0.5), np.random.default_rng(5)
    params = params._replace(
        gauge=Gauge(jnp.asarray(0.4 * rng.normal(size=(6, 1))), jnp.ones(6)), hidden_mean=jnp.array([0.3, 0.5, 0.6])
    )
    code = np.where(rng.random((n_rows, 6)) < missing, -1, rng.integers(0, 2, (n_rows, 6)))
    return params, Evidence((Levels(jnp.asarray(code, jnp.int8)),))


@pytest.mark.parametrize("size", [200_000, 200_001])
def test_noise_is_uniform_normal_and_independent(size: int) -> None:
    key, dtype = jax.random.key(3), np.dtype(np.float32)
    for found, law in (
        (gibbs.uniforms(key, (size,), dtype), "uniform"),
        (gibbs.normals(key, (size,), dtype), "norm"),
    ):
        values = np.asarray(found, np.float64)
        assert found.dtype == dtype
        assert values.shape == (size,)
        assert stats.kstest(values, law).pvalue > 2e-5
        half = (size + 1) // 2  # both words of one counter, and neighbours
        assert stats.pearsonr(values[: size - half], values[half:]).pvalue > 2e-5
        assert stats.pearsonr(values[:-1], values[1:]).pvalue > 2e-5
    normal = np.asarray(gibbs.normals(key, (size,), dtype))
    assert np.isfinite(normal).all()
    assert stats.binomtest(int((np.abs(normal) > 3.5).sum()), size, 2 * stats.norm.sf(3.5)).pvalue > 2e-5


def test_noise_in_double_precision_is_that_of_jax() -> None:
    key, dtype = jax.random.key(3), np.dtype(np.float64)
    np.testing.assert_array_equal(gibbs.normals(key, (5, 2), dtype), jax.random.normal(key, (5, 2), dtype))
    np.testing.assert_array_equal(gibbs.uniforms(key, (5, 2), dtype), jax.random.uniform(key, (5, 2), dtype))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_chains_at_equilibrium_have_the_gradient_of_the_normaliser(n_steps: int) -> None:
    """E over the chain of ∂{γᵀp + xᵀm(p)} is ∂ log Σ_h Ω(h), with h ~ P(h) from enumeration at the start."""
    params = make_params(size=0.6)
    states = hidden_states(3, 0, np.dtype(float)).h
    at, unpack = trainable(params)
    log_z = lambda flat: jax.scipy.special.logsumexp(log_omega(unpack(flat), states))  # noqa: E731
    log_weights = log_omega(params, states)

    def one(key: jax.Array) -> jax.Array:
        key_start, key_run = jax.random.split(key)
        h = states[jax.random.categorical(key_start, log_weights, shape=(200,))]
        x, hidden, _ = objective.chain(key_run, params, h, n_steps)
        return jax.grad(lambda flat: objective.statistics_of_pair(unpack(flat), x, hidden).mean())(at)

    every = jax.jit(lambda keys: jax.lax.map(one, keys), compiler_options=RUNS_LONG)
    draws = np.asarray(every(jax.random.split(jax.random.key(1), 300)))
    assert_mean_is(draws, np.asarray(jax.grad(log_z)(at)))


@pytest.mark.parametrize(("unobserved", "n_factors"), CROSSED)
def test_gradient_of_gibbs_samples_is_that_of_the_likelihood_on_average(unobserved: str, n_factors: int) -> None:
    params = make_params(n_factors=n_factors, size=0.5)
    evidence = make_evidence(params, n_rows=3, unobserved=unobserved)
    negative = "contrastive" if unobserved == "exclude" else "persistent"
    plan = replace(
        PLAN, unobserved=unobserved, positive_phase="gibbs", negative_phase=negative, n_positive_steps=30,
        n_negative_steps=30,
    )  # fmt: skip
    copies, repeats = 100 // FEWER, 120
    many, weight = evidence.rows(jnp.tile(jnp.arange(3), copies)), jnp.ones(3 * copies)
    chains = jnp.zeros((3 * copies, 3))
    at, unpack = trainable(params)

    def one(key: jax.Array) -> jax.Array:
        value = lambda flat: objective.contrast(key, unpack(flat), many, weight, chains, plan)[0]  # noqa: E731
        return jax.grad(value)(at) / (3 * copies)

    every = jax.jit(lambda keys: jax.lax.map(one, keys), compiler_options=RUNS_LONG)
    draws = np.asarray(every(jax.random.split(jax.random.key(2), repeats)))
    exact = jax.jit(jax.grad(lambda flat: log_evidence_exact(unpack(flat), evidence).mean()))(at)
    assert_mean_is(draws, np.asarray(exact))


@pytest.mark.parametrize(("unobserved", "n_factors"), CROSSED)
@pytest.mark.parametrize("ragged", [False, True])
def test_bound_at_the_fixed_point_has_the_gradient_with_x_integrated(
    unobserved: str, n_factors: int, ragged: bool
) -> None:
    """Where mean-field has converged, x̂ of the last step is x̂ given q(h): both data halves agree, cuts and all."""
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params, unobserved=unobserved)
    if ragged:
        evidence = as_ragged(evidence, np.random.default_rng(0), 6, extra=2)
    at, unpack = trainable(params)

    @jax.jit
    def both() -> tuple[jax.Array, jax.Array]:
        latent = latent_mean(params, evidence, 300)
        state = objective.hidden_given(params, evidence, latent, PLAN)
        q = mean_field(params, evidence, 300)
        usual = Positive(q.hidden, q.factors, q.whitener, q.felt)
        found = jax.grad(lambda flat: objective.bound_part(unpack(flat), evidence, latent, state).sum())(at)
        return found, jax.grad(lambda flat: objective.positive_part(unpack(flat), evidence, usual).sum())(at)

    np.testing.assert_allclose(*both(), rtol=1e-6, atol=1e-8)


def test_bound_has_its_own_gradient_at_any_step() -> None:
    """By differences: E_q[γᵀh + xᵀm(h) − ½x²] plus the entropy of q(x), from SciPy; q(x) moves with the first cut."""
    params, evidence = yes_or_no()
    rng = np.random.default_rng(2)
    cuts = np.sort(rng.normal(size=(6, 2)), axis=1)
    params = params._replace(gauge=Gauge(jnp.asarray(cuts), jnp.ones(6)))
    evidence = Evidence((Levels(jnp.asarray(rng.integers(0, 3, (7, 6)), jnp.int32)),))
    latent = latent_mean(params, evidence, 1)
    state = objective.hidden_given(params, evidence, latent, PLAN)
    code, q = np.asarray(evidence.constraints[0].code), np.asarray(state.hidden)
    at, unpack = trainable(params)
    first = np.asarray(params.gauge.cuts)[:, 0]

    @cache
    def moments(cuts: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ends = np.frombuffer(cuts).reshape(6, 2)
        ends = np.pad(ends, ((0, 0), (1, 1)), constant_values=((0, 0), (-40.0, 40.0)))
        origin = np.asarray(latent.origin)[0] + ends[:, 1] - first
        lower, upper = (np.take_along_axis(ends, code.T + step, axis=1).T - origin for step in (0, 1))
        law = stats.truncnorm(lower, upper, loc=origin)
        return law.mean(), law.var(), law.entropy()

    def bound(flat: np.ndarray) -> float:
        own = unpack(jnp.asarray(flat))
        x, variance, entropy = moments(np.asarray(own.gauge.cuts, np.float64).tobytes())
        mean = np.asarray(own.site_bias) + q @ np.asarray(own.weights).T
        of_x = x * mean - 0.5 * (variance + x**2) + entropy
        return float(of_x.sum() + (q @ np.asarray(own.hidden_bias)).sum())

    found = jax.jit(jax.grad(lambda flat: objective.bound_part(unpack(flat), evidence, latent, state).sum()))(at)
    steps = np.eye(len(at)) * 1e-5
    slopes = np.array([(bound(at + step) - bound(at - step)) / 2e-5 for step in steps])
    learned = slice(0, len(at) - 6)  # scales of levels are not learned
    np.testing.assert_allclose(np.asarray(found)[learned], slopes[learned], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("n_mean_field", "n_negative"), [(1, 1), (3, 2)])
def test_sums_of_yes_or_no_are_the_general_gradient(
    missing: float, n_mean_field: int, n_negative: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and chains in common products, and cuts from sums: the same gradient, states and chains."""
    params, evidence = yes_or_no(missing)
    plan = replace(PLAN, n_mean_field_steps=n_mean_field, n_negative_steps=n_negative)
    rng = np.random.default_rng(1)
    weight, chains = jnp.asarray(rng.uniform(0.2, 2.0, 7)), jnp.asarray(rng.integers(0, 2, (11, 3)), float)
    at, unpack = trainable(params)

    def found() -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        def value(flat: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            own, state, moved = objective.contrast(jax.random.key(4), unpack(flat), evidence, weight, chains, plan)
            return own, (state.hidden, moved)

        return jax.jit(jax.grad(value, has_aux=True))(at)

    assert objective._is_yes_or_no(params, evidence, plan)
    by_sums = found()
    monkeypatch.setattr(objective, "_is_yes_or_no", lambda *_: False)
    for ours, general in zip(jax.tree.leaves(by_sums), jax.tree.leaves(found()), strict=True):
        np.testing.assert_allclose(ours, general, rtol=1e-9, atol=1e-10)


@pytest.fixture
def mixed() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    level = rng.normal(size=160)
    noisy = lambda: level + 0.6 * rng.normal(size=160)  # noqa: E731
    frame = pd.DataFrame({
        "yes": noisy() > 0, "grade": pd.cut(noisy(), [-np.inf, -0.5, 0.5, np.inf], labels=False) + 1,
        "amount": noisy(), "party": np.where(noisy() > 0.4, "a", np.where(noisy() > -0.4, "b", "c")),
    })  # fmt: skip
    frame.loc[::9, "grade"] = None
    return frame


MIXED = {
    "yes": tb.Binary(), "grade": tb.Ordinal([1, 2, 3]), "amount": tb.Continuous(), "party": tb.Categorical(),
}  # fmt: skip


@pytest.mark.parametrize(
    "own",
    [
        {"n_mean_field_steps": 1, "n_negative_steps": 1},
        {"negative_phase": "contrastive", "latent_bound": 3.0},
        {"positive_phase": "gibbs", "sparsity_weight": 0.01},
    ],
    ids=["one step", "contrastive", "gibbs"],
)
def test_every_type_of_column_is_learned(mixed: pd.DataFrame, own: dict) -> None:
    """Masked answers are predicted better than by a model of independent columns."""
    learning = tb.Likelihood(integrate="hidden", n_chains=100, **own)
    scores = []
    for n_epochs in (0, 40):
        size = {"n_hidden": 4, "n_factors": 0, "max_epochs": n_epochs, "random_state": 0}
        model = tb.TBM(MIXED, **size, learning=learning).fit(mixed)
        scores.append(model.score(mixed))
    assert np.isfinite(scores).all()
    assert scores[1] > scores[0] + 0.02


def test_settings_are_checked() -> None:
    chosen = tb.Likelihood(integrate="hidden", n_mean_field_steps=1)
    plan = planning.plan(planning.flat(tb.TBM(learning=chosen).get_params(deep=False)), 5, 0)
    assert (plan.integrate, plan.n_mean_field_steps) == ("hidden", 1)
    assert planning.plan(planning.flat(tb.TBM().get_params(deep=False)), 50, 0).integrate == "latent"
    for own, words in (({"integrate": "x"}, "integrate"), ({"n_mean_field_steps": 0}, "n_mean_field_steps=0")):
        with pytest.raises(ThurboError, match=words):
            planning.flat(tb.TBM(learning=tb.Likelihood(**own)).get_params(deep=False))
    tempered = tb.Likelihood(integrate="hidden", negative_phase="tempered")
    with pytest.raises(ThurboError, match="tempered"):
        planning.plan(planning.flat(tb.TBM(learning=tempered).get_params(deep=False)), 5, 0)
