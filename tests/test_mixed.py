"""§3.2, §4: rows that hold every kind of evidence at once, against brute force: masses, posteriors, chains, learning.

The oracle integrates the mixture by simulation-free means: a categorical or an order of three is a two-dimensional
orthant, which SciPy's multivariate normal gives to 1e-6.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from tests.small import EITHER, RUNS_LONG, UNOBSERVED, ask, one_of, order_of
from thurbo.fit import objective
from thurbo.fit.masking import RandomCells
from thurbo.fit.planning import Plan
from thurbo.latent import rbm
from thurbo.latent.constraints import Box, Gauge, Levels, Order
from thurbo.latent.constraints.base import JointRegion
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.posterior import expectation, hidden_probability, log_evidence_exact
from thurbo.latent.rbm import Params

# Sites: 0 measured, 1 ordinal, 2-4 a category of three, 5-7 a ranking of three, 8 binary.
N_SITES, N_HIDDEN = 9, 2
SLOTS = ((2, 3, 4, -1), (5, 6, 7, -1))
TIERS = np.array([
    [[0, 1, 0, -1], [2, 0, 1, -1]],
    [[1, 0, 0, -1], [0, 1, 1, -1]],
    [[-1, -1, -1, -1], [1, -1, 0, -1]],
    [[0, 0, 1, -1], [-1, -1, -1, -1]],
])  # fmt: skip


def make_params(dtype=np.float64) -> Params:
    rng = np.random.default_rng(3)
    cuts = np.full((N_SITES, 2), np.inf)
    cuts[1], cuts[8, 0] = [-0.4, 0.7], 0.2
    to = lambda value: jnp.asarray(value, dtype)  # noqa: E731
    return Params(
        to(0.3 * rng.normal(size=N_SITES)),
        to(0.8 * rng.normal(size=(N_SITES, N_HIDDEN))),
        to(0.3 * rng.normal(size=N_HIDDEN)),
        to(np.zeros((N_SITES, 0))),
        Gauge(to(cuts), to(np.r_[0.8, np.ones(N_SITES - 1)])),
        to(np.full(N_HIDDEN, 0.5)),
    )


def make_evidence(unobserved="marginalize", dtype=np.float64) -> Evidence:
    lower, upper = np.full((4, N_SITES), -np.inf), np.full((4, N_SITES), np.inf)
    lower[:2, 0] = upper[:2, 0] = [0.3, -0.7]
    lower[2, 0] = 0.1
    point = np.zeros((4, N_SITES), bool)
    point[:2, 0] = True
    code = np.full((4, N_SITES), -1)
    code[:, 1], code[:3, 8] = [0, 2, 1, -1], [1, 0, 1]
    depth, width = 3, 1
    order = Order(jnp.asarray(TIERS, jnp.int32), SLOTS, N_SITES, depth, width)
    constraints = (
        Box(jnp.asarray(lower, dtype), jnp.asarray(upper, dtype), jnp.asarray(point)),
        Levels(jnp.asarray(code, jnp.int32)),
        order,
    )
    evidence = Evidence(constraints, cells=jnp.asarray([0, 1, 2, 2, 2, 5, 5, 5, 8], jnp.int32))
    return evidence._replace(present=evidence.observed) if unobserved == "exclude" else evidence


def log_order(mean: np.ndarray, tier: np.ndarray) -> float:
    """log P(order) for unit normals, from the orthant probability of all its differences that matter."""
    pairs = [(a, b) for a in range(3) for b in range(3) if tier[a] >= 0 and tier[b] >= 0 and tier[a] == tier[b] + 1]
    if not pairs:
        return 0.0
    A = np.zeros((len(pairs), 3))
    for row, (a, b) in enumerate(pairs):
        A[row, a], A[row, b] = 1.0, -1.0
    # P(A x ≥ 0), A x ~ N(A mean, A Aᵀ), never singular for three items in a weak order
    mass = multivariate_normal.cdf(np.zeros(len(A)), -A @ mean, A @ A.T, abseps=1e-10, releps=1e-10, maxpts=500_000)
    return float(np.log(mass))


def brute_force(params: Params, evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """log P(e) and P(h_k = 1 | e) of every row, from the definitions."""
    alpha, W, gamma = (np.asarray(a) for a in (params.site_bias, params.weights, params.hidden_bias))
    cuts, scale = np.asarray(params.gauge.cuts), np.asarray(params.gauge.scale)
    box, levels, _ = evidence.constraints
    states = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)])
    scores, posteriors = [], []
    for r in range(4):
        present = np.ones(N_SITES, bool) if evidence.present is None else np.asarray(evidence.present[r])
        joint, prior = [], []
        for h in states:
            mean = alpha + W @ h
            prior.append(gamma @ h + 0.5 * (mean[present] ** 2).sum())
            low, high = float(box.lower[r, 0]) / scale[0], float(box.upper[r, 0]) / scale[0]
            if bool(box.point[r, 0]):
                mass = norm.logpdf(low, mean[0]) - np.log(scale[0])
            else:
                mass = np.log(norm.cdf(high - mean[0]) - norm.cdf(low - mean[0]))
            for i in (1, 8):
                level = int(levels.code[r, i])
                if level >= 0:
                    ends = np.r_[-np.inf, cuts[i], np.inf]
                    mass += np.log(norm.cdf(ends[level + 1] - mean[i]) - norm.cdf(ends[level] - mean[i]))
            mass += log_order(mean[2:5], TIERS[r, 0]) + log_order(mean[5:8], TIERS[r, 1])
            joint.append(prior[-1] + mass)
        scores.append(logsumexp(joint) - logsumexp(prior))
        posteriors.append(np.exp(np.array(joint) - logsumexp(joint)) @ states)
    return np.array(scores), np.array(posteriors)


@pytest.mark.parametrize("unobserved", EITHER)
def test_log_evidence_and_posterior_of_mixed_rows(unobserved):
    params, evidence = make_params(), make_evidence(unobserved)
    scores, posteriors = brute_force(params, evidence)
    np.testing.assert_allclose(jax.jit(log_evidence_exact)(params, evidence), scores, atol=1e-6)
    ask = jax.jit(lambda p, e: expectation(hidden_probability, p, e, "exact")[0])
    np.testing.assert_allclose(ask(params, evidence), posteriors, atol=1e-6)


def test_mixed_rows_in_float32_agree():
    small = jax.tree.map(
        lambda a: a.astype(jnp.float32) if a.dtype == jnp.float64 else a, (make_params(), make_evidence())
    )
    scores, _ = brute_force(make_params(), make_evidence())
    np.testing.assert_allclose(jax.jit(log_evidence_exact)(*small), scores, atol=2e-4)


@pytest.mark.slow  # Geweke's test below sees the same draws
@pytest.mark.parametrize("unobserved", UNOBSERVED)
def test_chains_over_mixed_rows_reach_the_posterior(unobserved):
    params, evidence = make_params(), make_evidence(unobserved)
    _, exact = brute_force(params, evidence)
    n = 3000
    many = evidence.rows(jnp.repeat(jnp.arange(4), n))

    @jax.jit
    def simulate(key, params, many):
        given = gibbs.clamp(params, many)
        state = gibbs.start(key, given, jnp.full((4 * n, N_HIDDEN), 0.5))
        state = gibbs.run(jax.random.fold_in(key, 1), state, given, 150)
        return state, given.region.contains(state.x)

    state, inside = simulate(jax.random.key(0), params, many)
    assert bool(inside.all())
    h = np.asarray(state.h).reshape(4, n, N_HIDDEN)
    z = (h.mean(axis=1) - exact) / np.sqrt(exact * (1 - exact) / n)
    assert 2 * norm.sf(np.abs(z)).min() * z.size > 2e-5


def _observe(x, params):
    """The data simulator of the joint test: an interval, levels, the favourite of three, a ranking of three."""
    z = x * params.gauge.scale[None, :]
    first = jnp.arange(N_SITES)[None, :] == 0
    lower, upper = jnp.where(first, jnp.floor(z), -jnp.inf), jnp.where(first, jnp.floor(z) + 1.0, jnp.inf)
    code = (x[:, :, None] > params.gauge.cuts[None]).sum(-1).astype(jnp.int32)
    code = jnp.where(jnp.isfinite(params.gauge.cuts[:, 0])[None, :], code, -1)
    best = (x[:, 2:5] == x[:, 2:5].max(axis=1, keepdims=True)).astype(jnp.int32)
    place = (x[:, 5:8, None] > x[:, None, 5:8]).sum(-1).astype(jnp.int32)
    tier = jnp.stack([best, place], axis=1)
    tier = jnp.concatenate([tier, jnp.full_like(tier[:, :, :1], -1)], axis=-1)
    order = Order(tier, SLOTS, N_SITES, 3, 1)
    return Evidence((Box(lower, upper, jnp.zeros(x.shape, bool)), Levels(code), order))


@pytest.mark.slow
def test_geweke_joint_over_mixed_rows():
    """Alternating e | x with one Gibbs round given e leaves the prior as it is (see test_gibbs)."""
    params, n = make_params(), 20_000

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def prior(key):
        key_h, key_x = jax.random.split(key)
        h = gibbs.prior_run(key_h, jnp.zeros((n, N_HIDDEN)), params, 100)
        x = rbm.latent_mean(params, h)
        return gibbs.ChainState(x + jax.random.normal(key_x, x.shape), h, jnp.zeros((n, 0)))

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def move(key, state):
        step = lambda i, s: gibbs.step(jax.random.fold_in(key, i), s, gibbs.clamp(params, _observe(s.x, params)))  # noqa: E731
        return jax.lax.fori_loop(0, 15, step, state)

    def moments(state):
        flat = np.concatenate([np.asarray(state.x), np.asarray(state.h)], axis=1)
        return np.concatenate([flat, np.einsum("ri,rj->rij", flat, flat)[:, *np.triu_indices(flat.shape[1])]], axis=1)

    first, second = moments(prior(jax.random.key(0))), moments(move(jax.random.key(1), prior(jax.random.key(2))))
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / n)
    z = (first.mean(axis=0) - second.mean(axis=0)) / np.maximum(spread, 1e-12)
    assert 2 * norm.sf(np.abs(z)).min() * z.size > 2e-5


def test_the_joint_region_is_its_parts():
    params, evidence = make_params(), make_evidence()
    region = evidence.region(params.gauge)
    assert isinstance(region, JointRegion)
    rng = np.random.default_rng(0)
    mean = jnp.asarray(rng.normal(size=(4, N_SITES)))
    slope = jax.jit(jax.grad(lambda m: region.log_mass(m).sum()))(mean)
    np.testing.assert_allclose(ask(region, "mean", mean), mean + slope, atol=1e-8)
    start = ask(region, "start", mean)
    assert bool(ask(region, "contains", start).all())
    x = np.asarray(start) + 0.4 * rng.normal(size=(200, 4, N_SITES))
    inside = np.asarray(jax.jit(jax.vmap(region.contains))(jnp.asarray(x)))
    for r in range(4):
        A, b, c = region.as_linear(r)
        by_hand = ((x[:, r] @ A.T >= b) & (x[:, r] @ A.T <= c)).all(axis=1)
        np.testing.assert_array_equal(inside[:, r], by_hand)


def test_hidden_cells_of_coupled_evidence_are_conditioned_on_the_others():
    """log P(hidden | visible) = log P(all) − log P(visible): one item of a ranking, a category whole."""
    params, evidence = make_params(), make_evidence()
    region = evidence.region(params.gauge)
    mean, deviation = jnp.broadcast_to(params.site_bias, (4, N_SITES)), jnp.full((4, N_SITES), 1.2)
    hidden = np.zeros((4, N_SITES), bool)
    hidden[:, 2:5], hidden[:, 5], hidden[:, 8] = True, True, True
    hidden = jnp.asarray(hidden) & evidence.observed
    ours, rest = ask(region, "mass_of_masked", mean, deviation, hidden), ask(region, "release", hidden)
    masses = (ask(each, "log_mass", mean, deviation) for each in (region, rest))
    np.testing.assert_allclose(ours, np.subtract(*masses), atol=1e-8)
    whole = jax.jit(RandomCells())(jax.random.key(1), evidence)
    np.testing.assert_allclose(
        region.mass_of_masked(mean, deviation, whole, whole=True),
        region.mass_of_masked(mean, deviation, whole),
        atol=1e-8,
    )


@pytest.mark.slow
@pytest.mark.parametrize("unobserved", ["marginalize", "exclude"])
def test_objectives_have_finite_right_gradients_over_mixed_rows(unobserved):
    params, evidence = make_params(), make_evidence(unobserved)
    plan = Plan(unobserved=unobserved, n_mean_field_steps=3)
    hidden = RandomCells()(jax.random.key(0), evidence)
    together = np.asarray(hidden)[:, 2:5]
    assert (together.all(axis=1) | ~together.any(axis=1)).all()
    for value in (
        lambda w: objective.multi_prediction(params._replace(weights=w), evidence, hidden, plan)[0].sum(),
        lambda w: objective.exact(params._replace(weights=w), evidence).sum(),
    ):
        value = jax.jit(value)
        slope = np.asarray(jax.jit(jax.grad(value))(params.weights))
        for i, k in [(0, 0), (2, 1), (3, 0), (5, 1), (6, 0), (8, 1)]:
            step = jnp.zeros_like(params.weights).at[i, k].set(1e-5)
            difference = float(value(params.weights + step) - value(params.weights - step)) / 2e-5
            assert slope[i, k] == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_one_of_is_the_sum_of_its_candidates():
    """ "It is one of these" has the probability of each of them being it, together."""
    params = make_params()
    slots = ((2, 3, 4),)
    mean = params.site_bias[None, :]
    one = one_of(np.array([[[1, 0, 1]]]), slots, N_SITES).region(params.gauge).log_mass(mean)
    each = [
        order_of(np.array([[np.eye(3, dtype=int)[k]]]), slots, N_SITES).region(params.gauge).log_mass(mean)
        for k in (0, 2)
    ]
    np.testing.assert_allclose(one, logsumexp(np.array(each), axis=0), atol=1e-8)


def test_a_table_of_choices_alone_has_no_boxes_to_compute():
    """Masses, means and draws are those of the choices beside an open box, also where a choice is missing."""
    params, rng = make_params(), np.random.default_rng(1)
    tier = np.array([[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 0], [-1, -1, -1], [1, 0, 0]]])
    slots = ((0, 1, 2), (3, 4, 5), (6, 7, 8))
    order = replace(order_of(tier, slots, N_SITES), form="choice")
    wide, narrow = (Evidence((replace(order, alone=alone),)).region(params.gauge) for alone in (False, True))
    assert wide.parts[0].slots is None
    assert narrow.parts[0].slots == ()
    mean, deviation = jnp.asarray(rng.normal(size=(2, N_SITES))), jnp.asarray(1 + rng.random((2, N_SITES)))
    masked = jnp.asarray(np.repeat(rng.random((2, 3)) < 0.5, 3, axis=1))

    @jax.jit
    def answers(region):
        return (
            region.log_mass(mean, deviation),
            region.mass_of_masked(mean, deviation, masked, whole=True),
            region.smooth().mean(mean),
            jax.grad(lambda m: (region.smooth().mean(m) ** 2).sum())(mean),
            region.release(masked).log_mass(mean),
            region.start(mean),
            region.bounds(mean),
            region.held,
            region.draw(jax.random.key(0), region.start(mean), mean),
        )

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), answers(wide), answers(narrow))


@pytest.mark.slow
def test_boxes_need_not_be_asked_about_slots_that_groups_hold_alone():
    """Narrower arrays, the same boxes: masses with their slopes, means, draws, and what is left of them."""
    params, evidence = make_params(), make_evidence()
    alone = evidence._replace(constraints=tuple(
        replace(each, alone=True) if isinstance(each, Order) else each for each in evidence.constraints
    ))  # fmt: skip
    wide, narrow = evidence.region(params.gauge), alone.region(params.gauge)
    assert isinstance(narrow, JointRegion)
    assert narrow.parts[0].slots == (0, 1, 8)
    assert len(narrow.parts) == len(wide.parts) == 2
    rng = np.random.default_rng(0)
    mean, deviation = jnp.asarray(rng.normal(size=(4, N_SITES))), jnp.asarray(1 + rng.random((4, N_SITES)))
    hidden = jnp.asarray(rng.random((4, N_SITES)) < 0.5)

    def total(given: Evidence):
        def of(mean, deviation, gauge: Gauge):
            boxes = given.region(gauge).parts[0]
            left = boxes.release(hidden).stretch(jnp.asarray(0.7))
            hides = boxes.mass_of_masked(mean, deviation, hidden)
            return (boxes.mean(mean) ** 2).sum() + (left.log_mass(mean) + hides * boxes.log_mass(mean[:1])).sum()

        return jax.jit(jax.value_and_grad(of, (0, 1, 2)))

    facts = [total(each)(mean, deviation, params.gauge) for each in (evidence, alone)]
    same = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10)  # noqa: E731
    jax.tree.map(same, *facts)
    for question in (
        lambda region: region.start(mean),
        lambda region: region.bounds(mean),
        lambda region: region.contains(region.start(mean)),
        lambda region: region.held,
        lambda region: region.as_linear(1),
    ):
        jax.tree.map(same, question(wide), question(narrow))
    key = jax.random.key(0)
    same(wide.parts[0].draw(key, mean, mean), narrow.parts[0].draw(key, mean, mean))
