"""log P(e) beyond enumeration: bounds by annealed importance sampling against the sum over all states."""

import warnings
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import thurbo as tb
from tests.evidence_types import KINDS, drawn_model
from tests.known import known_model
from tests.small import RUNS_LONG, UNOBSERVED, as_ragged, log_evidence_exact, make_evidence, make_params, one_table
from thurbo.latent.inference import annealing
from thurbo.latent.inference.posterior import (
    HiddenStates,
    hidden_states,
    log_joint,
    log_normaliser_exact,
    log_partition_exact,
)
from thurbo.latent.rbm import LOG_2PI, Params
from thurbo.predict import joint

N_SITES = 16
SLOW_PAIRS = [
    pytest.param(*pair, marks=pytest.mark.slow) for pair in (("marginalize", 0), ("marginalize", 1), ("exclude", 0))
]

anneal_rows = jax.jit(annealing.log_evidence_annealed, static_argnames="shape", compiler_options=RUNS_LONG)
anneal_own = jax.jit(annealing.log_normaliser_annealed, static_argnames="shape", compiler_options=RUNS_LONG)
anneal_model = jax.jit(annealing.log_partition_annealed, static_argnames="shape", compiler_options=RUNS_LONG)
normaliser = jax.jit(log_normaliser_exact)


@pytest.fixture(autouse=True)
def compiled_to_run_long(monkeypatch):
    monkeypatch.setattr(joint, "_annealed", anneal_rows)
    monkeypatch.setattr(joint, "_normaliser", anneal_own)
    monkeypatch.setattr(joint, "_partition", anneal_model)


def first_knots(evidence, params):
    return annealing.first_knots(evidence.n_rows, params.weights.dtype)


def annealed(params, evidence, n_temperatures, seed=0, shape=annealing.CHAINS):
    """log F(e) with bounds, by a fixed number of temperatures."""
    knots = first_knots(evidence, params)
    bracket = anneal_rows(jax.random.key(seed), params, evidence, np.int32(n_temperatures), knots, shape=shape)
    return annealing.scores(bracket)


def doubled(n_hidden: int = 12, n_factors: int = 0) -> Params:
    """Hidden units that are on half of the time, with weights twice as large as usual."""
    params = make_params(5, N_SITES, n_hidden, n_factors, 1.4, np.float32)
    weights = np.asarray(params.weights, np.float64)
    bias = -0.5 * weights.sum(axis=1)
    hidden_bias = -bias @ weights - 0.5 * weights.T @ weights.sum(axis=1)
    as_array = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return params._replace(site_bias=as_array(bias), hidden_bias=as_array(hidden_bias))


def inside(found: annealing.Scores, exact: np.ndarray) -> np.ndarray:
    """Which rows have the truth between their bounds, up to the rounding of sums in single precision."""
    rounding = 3e-6 * np.abs(exact) + 1e-5
    return (found.lower <= exact + rounding) & (exact - rounding <= found.upper)


def test_bounds_hold_where_all_starts_are_far_from_the_posterior():
    """Rows that the model does not expect, for which mean-field often misses the states that matter."""
    params = doubled()
    evidence = make_evidence(params, 2, 16, 0.2)
    exact = np.asarray(log_evidence_exact(params, evidence) + normaliser(params, evidence), np.float64)
    found = annealed(params, evidence, 256)
    assert inside(found, exact).mean() >= 0.9
    assert np.abs(found.value - exact).mean() < 0.3
    assert np.median(found.width) < 0.8
    assert (found.lower <= found.value).all()
    assert (found.value <= found.upper).all()


def test_every_kind_of_answer_in_one_table(monkeypatch):
    """Numbers, yes or no, levels, categories, rankings and several of a list, against enumeration."""
    monkeypatch.setattr(annealing, "WIDTH", 0.3)  # takes a tenth of the time
    model = known_model()
    frame = model.sample(16, random_state=0)
    frame.loc[3] = None
    exact, *both = model.score_samples(frame, method="exact", return_bounds=True)
    assert all(np.array_equal(exact, each) for each in both)
    value, error, lower, upper = model.score_samples(frame, True, "annealed", return_bounds=True)
    assert inside(annealing.Scores(value, lower, upper, error), exact).all()
    assert (upper - lower).max() <= 0.3
    assert value[3] == lower[3] == upper[3] == error[3] == 0  # a row that says nothing
    # The result for a row depends on that row alone.
    some = model.score_samples(frame.iloc[[7, 5]], method="annealed", return_bounds=True)
    for few, every in zip(some, (value, lower, upper), strict=True):
        np.testing.assert_array_equal(few, every[[7, 5]])


@pytest.mark.parametrize(("unobserved", "n_factors"), [("exclude", 1), *SLOW_PAIRS])
def test_factors_and_rows_with_sites_of_their_own(unobserved, n_factors):
    params = make_params(0, 6, 3, n_factors, dtype=np.float32)
    evidence = make_evidence(params, 1, 12, 0.3, unobserved)
    omega = np.asarray(normaliser(params, evidence), np.float64)
    exact = np.asarray(log_evidence_exact(params, evidence), np.float64) + omega
    found = annealed(params, evidence, 128)
    assert inside(found, exact).mean() >= 0.9
    assert np.abs(found.value - exact).max() < 0.15
    surprise = np.abs(found.value - exact) / np.hypot(found.error, 1e-4)
    assert len(exact) * 2 * norm.sf(surprise.max()) > 2e-5
    if unobserved == "exclude":
        knots = first_knots(evidence, params)
        own = annealing.scores(anneal_own(jax.random.key(1), params, evidence, np.int32(128), knots))
        assert inside(own, omega).mean() >= 0.9
        assert own.width.max() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_the_company_of_a_row_and_its_padding_do_not_matter(unobserved):
    params = make_params(0, 6, 3, 1)
    evidence = make_evidence(params, 1, 6, 0.3, unobserved)
    few = {"n_temperatures": 16, "shape": (4, 4)}
    every = annealed(params, evidence, **few)
    alone = annealed(params, evidence.rows(jnp.asarray([4, 2])), **few)
    for one, other in zip(alone, every, strict=True):
        np.testing.assert_allclose(one, other[[4, 2]], rtol=1e-8)
    sites = np.tile(np.arange(6), (6, 1))
    padded = [as_ragged(evidence, _InOrder(), 6, extra) for extra in (0, 3)]
    np.testing.assert_array_equal(np.asarray(padded[0].sites), sites)
    for other in padded:
        np.testing.assert_allclose(annealed(params, other, **few).value, every.value, rtol=1e-8)


class _InOrder:
    """Random numbers that leave slots in their order."""

    def permutation(self, n: int) -> np.ndarray:
        return np.arange(n)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, int)


def test_weights_are_those_of_the_definition():
    """One temperature: log w = log f_1 − log f_0 at draws of the base, whose mean is F(e) / F(q), exactly."""
    params = make_params(3, 4, 2, 1)
    evidence = make_evidence(params, 5, 1, 0.2)
    path = annealing.path_of_row(params, evidence)
    keys = jax.random.split(jax.random.key(0), 20_000)

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def weights(keys):
        zero, one = jnp.zeros(()), jnp.ones(())

        def chain(key):
            state, none = path.advance(jax.random.fold_in(key, 0), path.start(), zero, zero)
            return path.advance(jax.random.fold_in(key, 1), state, zero, one)[1][0], none[0]

        return jax.vmap(chain)(keys)

    log_w, none = map(np.asarray, weights(keys))
    assert not none.any()
    exact = float(log_evidence_exact(params, evidence)[0] + normaliser(params, evidence)[0] - path.log_base()[0])
    w = np.exp(log_w - exact)
    assert 2 * norm.sf(abs(w.mean() - 1) / (w.std() / np.sqrt(len(w)))) > 2e-5


def test_small_steps_of_softplus_are_not_rounded_away():
    old = jnp.asarray([[-30.0, -3.0, 0.0, 4.0, 90.0, -200.0]], jnp.float32)
    for size in (1e-6, -1e-4, 0.3, 5.0, -40.0, 300.0):
        step = jnp.full_like(old, size)
        exact = np.logaddexp(np.asarray(old, float) + float(step[0, 0]), 0) - np.logaddexp(np.asarray(old, float), 0)
        np.testing.assert_allclose(annealing._softplus_gain(old, step), exact, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_log_partition_between_bounds(seed):
    params = make_params(seed, 12, 10, 0, 0.8, np.float32)
    exact = float(jax.jit(log_partition_exact)(params)) - 6 * LOG_2PI
    knots = annealing.first_knots(1, params.weights.dtype)
    found = annealing.scores(anneal_model(jax.random.key(seed), params, np.int32(400), knots))
    assert inside(found, np.asarray([exact])).all()
    assert found.width[0] < 0.5


@pytest.mark.slow
def test_evidence_without_mass_is_impossible():
    params = make_params()
    evidence = make_evidence(params, n_rows=2)
    box, _ = evidence.constraints
    far = jnp.full((2, 6), 1e200)
    empty = replace(box, lower=far, upper=far * (1 + 1e-9), point=jnp.zeros((2, 6), bool))
    found = joint.score(params, one_table(evidence._replace(constraints=(empty,))), "annealed")
    assert (found.value == -np.inf).all()
    assert (found.error == 0).all()


def test_wide_bounds_are_warned_of(monkeypatch):
    monkeypatch.setattr(annealing, "MOST", annealing.FIRST)
    params = doubled(13)
    evidence = one_table(make_evidence(params, 1, 5))
    with pytest.warns(tb.ConvergenceWarning, match=r"log-likelihood of \d of 5 rows: their bounds are .* nats apart"):
        found = joint.score(params, evidence, "annealed")
    exact = np.asarray(log_evidence_exact(params, evidence.buckets[0]), np.float64)
    assert inside(found, exact).mean() >= 0.8


@pytest.mark.slow
def test_auto_anneals_what_it_cannot_enumerate():
    params = make_params(0, 6, 17, 0, 0.5, np.float32)
    evidence = one_table(make_evidence(params, 1, 5))
    assert not joint.is_exact(params)
    found = joint.score(params, evidence)
    assert np.array_equal(found.value, joint.score(params, evidence, "annealed").value)
    assert (found.error > 0).all()
    assert inside(found, np.asarray(log_evidence_exact(params, evidence.buckets[0]), np.float64)).all()


@jax.jit
def _joint_sum(params, evidence, states):
    joint_, prior = log_joint(params, evidence, states)
    return logsumexp_of(joint_), logsumexp_of(prior)


def logsumexp_of(values):
    return jax.scipy.special.logsumexp(values, axis=0)


def enumerated(params: Params, evidence, n_nodes: int = 32) -> np.ndarray:
    """log P(e) of each row; one node of the factor after another, for many hidden units."""
    if not params.n_factors:
        return np.asarray(log_evidence_exact(params, evidence), np.float64)
    states = hidden_states(params.n_hidden, 0, params.weights.dtype).h
    nodes = hidden_states(0, params.n_factors, params.weights.dtype, n_nodes)
    parts = []
    for z, log_weight in zip(nodes.z, nodes.log_weight, strict=True):
        same = HiddenStates(states, jnp.tile(z, (len(states), 1)), jnp.full(len(states), log_weight))
        parts.append([np.asarray(each, np.float64) for each in _joint_sum(params, evidence, same)])
    upper, lower = (logsumexp(np.stack(each), axis=0) for each in zip(*parts, strict=True))
    return upper - lower


@pytest.mark.slow
@pytest.mark.parametrize(("n_hidden", "n_factors"), [(12, 1), (16, 0)])
def test_bounds_of_multimodal_models_for_every_kind_of_evidence(n_hidden, n_factors):
    """Weights twice as large as usual: the truth is inside in 97 % of rows, and the median width a tenth of a nat."""
    held, width = [], []
    for kind in KINDS:
        if n_factors and kind.startswith("choices one"):
            continue  # is learned by enumeration, without factors
        model, frame = drawn_model(kind, n_hidden, n_factors, 1.4)
        evidence = model._read(frame.iloc[:4], gaps="auto" if model.model_.is_joint else "ignorable").evidence
        exact = evidence.by_chunks(lambda rows, own=model.params_: enumerated(own, rows))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tb.ConvergenceWarning)
            found = joint.score(model.params_, evidence, "annealed")
        held += inside(found, exact).tolist()
        width += found.width.tolist()
    assert np.mean(held) >= 0.97
    assert np.median(width) <= 0.1
