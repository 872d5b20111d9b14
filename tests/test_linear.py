"""§3 Eq. (5), §4.2, §4.4: any inequalities at all, and every other form as a case of them.

Masses against SciPy's multivariate normal and each form's own exact one, draws against rejection, starts against
linear programs, contradictions against the smallest set that holds them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chi2, ks_2samp, multivariate_normal, norm

from tests import test_mixed
from tests.small import ask, exact_posterior, log_evidence_exact, order_of
from thurbo.latent.constraints import Box, BoxRegion, Gauge, Levels, Linear, Order
from thurbo.latent.constraints.linear import System, conflict, greedy_colours, interior
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference import gibbs

N = 5
GAUGE = Gauge(jnp.zeros((N, 0)), jnp.ones(N))
MEAN = jnp.asarray(np.random.default_rng(1).normal(size=(1, N)))


def linear_of(*triples, n_slots=N) -> Linear:
    return Linear.of(list(triples), n_slots, np.float64)


# §3.1 and §3.2, as printed: a box is A = I; z1 is observed of four; {z1, z2} of four; min{z1, z2} >= z3 >= z4.
PRINTED = {
    "category": ([1, 0, 0, 0], [[1, -1, 0, 0], [1, 0, -1, 0], [1, 0, 0, -1]]),
    "imprecise": ([1, 1, 0, 0], [[1, 0, -1, 0], [1, 0, 0, -1], [0, 1, -1, 0], [0, 1, 0, -1]]),
    "rank": ([2, 2, 1, 0], [[1, 0, -1, 0], [0, 1, -1, 0], [0, 0, 1, -1]]),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_papers_matrices(name):
    tier, matrix = PRINTED[name]
    A, b, c = order_of(np.array([[tier]])).region(GAUGE).as_linear(0)
    np.testing.assert_array_equal(A, matrix)
    assert (b == 0).all()
    assert np.isposinf(c).all()
    back = linear_of((A, b, c), n_slots=4).region(Gauge(jnp.zeros((4, 0)), jnp.ones(4))).as_linear(0)
    for ours, theirs in zip(back, (A, b, c), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_box_is_the_identity():
    lower, upper = jnp.asarray([[0.0, -1.0]]), jnp.asarray([[1.0, jnp.inf]])
    A, b, c = BoxRegion(lower, upper, jnp.zeros((1, 2), bool), jnp.zeros((1, 2))).as_linear(0)
    np.testing.assert_array_equal(A, np.eye(2))
    np.testing.assert_array_equal(b, lower[0])
    np.testing.assert_array_equal(c, upper[0])


def forms() -> dict[str, tuple]:
    """Region by name; each with one row over N slots."""
    order = lambda tier: order_of(np.array([[tier]])).region(GAUGE)  # noqa: E731
    cuts = jnp.asarray(np.tile([-0.5, 0.8], (N, 1)))
    box = Box(jnp.asarray([[0.1, -jnp.inf, -1.0, -jnp.inf, -2.0]]), jnp.asarray([[0.9, 0.3, jnp.inf, jnp.inf, 1.0]]),
              jnp.zeros((1, N), bool)).region(GAUGE)  # fmt: skip
    levels = Levels(jnp.asarray([[0, 1, 2, -1, 1]])).region(Gauge(cuts, jnp.ones(N)))
    joint = test_mixed.make_evidence().rows(np.array([2])).region(test_mixed.make_params().gauge)
    return {
        "box": box,
        "levels": levels,
        "category": order([0, 0, 1, 0, 0]),
        "set": order([1, 0, 1, 0, -1]),
        "ranking": order([0, 1, 2, 3, 4]),
        "ties": order([1, 0, 2, 1, 2]),
        "ratings 1 and 3": order([1, 3, 3, 1, -1]),
        "mixed": joint,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", forms())
def test_every_form_is_linear(name):
    region = forms()[name]
    A, b, c = region.as_linear(0)
    n = A.shape[1]
    gauge = Gauge(jnp.zeros((n, 0)), jnp.ones(n))
    linear = linear_of((A, b, c), n_slots=n).region(gauge)
    mean = jnp.asarray(np.random.default_rng(2).normal(size=(1, n)))
    # membership
    points = jnp.asarray(1.5 * np.random.default_rng(3).normal(size=(20, n)))
    ours, theirs = (np.array([bool(ask(r, "contains", x[None])[0]) for x in points]) for r in (linear, region))
    np.testing.assert_array_equal(ours, theirs)
    # bounds, from a point inside
    x = ask(region, "start", mean)
    assert bool(ask(region, "contains", x)[0])
    assert bool(ask(linear, "contains", x)[0])
    for our, their in zip(ask(linear, "bounds", x), ask(region, "bounds", x), strict=True):
        np.testing.assert_allclose(our, their, atol=1e-12)
    # mass, and what comes of its gradient
    both = jax.jit(lambda r, m: (r.log_mass(m), r.mean(m)))
    (log_mass,), ours_mean = both(linear, mean)
    (exact,), exact_mean = both(region, mean)
    error = float(ask(linear, "log_mass_error", mean)[0])
    assert error < 0.05
    assert 2 * norm.sf(abs(float(log_mass - exact)) / max(error, 1e-7)) > 2e-5
    np.testing.assert_allclose(ours_mean, exact_mean, atol=0.1)


def test_gapped_tiers_never_break_the_order():
    region = order_of(np.array([[[1, 3, 3, 1, 3]]])).region(GAUGE)
    x = ask(region, "start", MEAN)

    @jax.jit
    def chain(key, x):
        return jax.lax.scan(lambda x, k: (region.draw(k, x, MEAN),) * 2, x, jax.random.split(key, 500))[1]

    xs = np.asarray(chain(jax.random.key(0), x))[:, 0]
    assert (xs[:, [1, 2, 4]].min(axis=1) >= xs[:, [0, 3]].max(axis=1)).all()


WEDGE = (np.array([[1.0, -2.0, 0, 0, 0], [1.0, 1.0, 0, 0, 0]]), np.array([0.3, -np.inf]), np.array([np.inf, 1.5]))
CHAIN = (
    np.array([[1.0, -1.0, 0, 0, 0], [0, 1.0, -1.0, 0, 0], [0.5, 0.5, 1.0, 0, -1.0]]),
    np.array([0.0, -0.5, -1.0]),
    np.array([2.0, np.inf, 1.0]),
)


@pytest.mark.parametrize("triple", [pytest.param(WEDGE, marks=pytest.mark.slow), CHAIN], ids=["wedge", "chain"])
def test_mass_against_the_multivariate_normal(triple):
    A, b, c = triple
    region = linear_of(triple).region(GAUGE)
    centre, spread = A @ np.asarray(MEAN[0]), A @ A.T
    exact = multivariate_normal.cdf(c, centre, spread, lower_limit=b, abseps=1e-9, releps=1e-9, maxpts=2_000_000)
    error = float(ask(region, "log_mass_error", MEAN)[0])
    assert 2 * norm.sf(abs(float(ask(region, "log_mass", MEAN)[0]) - np.log(exact)) / max(error, 1e-6)) > 2e-5
    deviation = jnp.full((1, N), 1.7)
    wide = multivariate_normal.cdf(c, centre, 1.7**2 * spread, lower_limit=b, abseps=1e-9, maxpts=2_000_000)
    assert abs(float(ask(region, "log_mass", MEAN, deviation)[0]) - np.log(wide)) < 5 * max(error, 1e-3)


def test_more_lines_than_variables_and_lines_twice():
    """Lines that depend on others narrow the same interval: |x| + |y| <= 1, and each line twice."""
    A = np.array([[1.0, 1, 0, 0, 0], [1, -1, 0, 0, 0]] * 2)
    region = linear_of((A, np.full(4, -1.0), np.full(4, 1.0))).region(GAUGE)
    u = np.asarray(MEAN[0])
    exact = np.log(norm.cdf(1, u[0] + u[1], np.sqrt(2)) - norm.cdf(-1, u[0] + u[1], np.sqrt(2)))
    exact += np.log(norm.cdf(1, u[0] - u[1], np.sqrt(2)) - norm.cdf(-1, u[0] - u[1], np.sqrt(2)))
    np.testing.assert_allclose(ask(region, "log_mass", MEAN)[0], exact, rtol=1e-9)


def boxed(triple) -> tuple:
    """Lines with a box on slot 0, a point at slot 1 and a level-like box on slot 2."""
    lower = jnp.asarray([[-0.5, 0.2, -jnp.inf, -jnp.inf, 0.0]])
    upper = jnp.asarray([[3.0, 0.2, 0.4, jnp.inf, jnp.inf]])
    box = Box(lower, upper, jnp.asarray([[False, True, False, False, False]]))
    return Evidence((box, linear_of(triple))), lower, upper


def test_boxes_and_points_under_lines_against_quadrature():
    """x0 - 2 x1 >= 0.3 and x0 + x1 <= 1.5 with x1 = 0.2: an interval for x0; x4 keeps its own box."""
    evidence, *_ = boxed(WEDGE)
    u = np.asarray(MEAN[0])
    lower, upper = max(-0.5, 0.3 + 0.4), min(3.0, 1.5 - 0.2)
    exact = np.log(norm.cdf(upper - u[0]) - norm.cdf(lower - u[0])) + norm.logpdf(0.2, u[1])
    exact += norm.logcdf(0.4 - u[2]) + norm.logsf(0.0 - u[4])
    region = evidence.region(GAUGE)
    np.testing.assert_allclose(ask(region, "log_mass", MEAN)[0], exact, rtol=1e-9)
    np.testing.assert_allclose(ask(evidence, "log_mass_of_states", MEAN, GAUGE)[0, 0], exact, rtol=1e-9)
    x = ask(region, "start", MEAN)
    assert bool(ask(region, "contains", x)[0])
    assert float(x[0, 1]) == 0.2


@pytest.mark.slow
def test_scales_enter_the_lines():
    """In standard units z = scale x: 2 z0 - z1 >= 0 is a line on x with other coefficients; its slope is a gradient."""
    A = np.array([[2.0, -1.0, 0, 0, 0]])
    linear = linear_of((A, [0.4], [np.inf]))

    def mass(scale):
        return linear.region(Gauge(jnp.zeros((N, 0)), scale)).log_mass(MEAN)[0]

    scale = jnp.asarray([0.7, 1.3, 1, 1, 1])
    slopes = A[0] * np.asarray(scale)
    exact = norm.logsf(0.4, slopes @ np.asarray(MEAN[0]), np.sqrt((slopes**2).sum()))
    np.testing.assert_allclose(mass(scale), exact, rtol=1e-10)
    step = 1e-5 * jnp.eye(N)[0]
    numeric = (mass(scale + step) - mass(scale - step)) / 2e-5
    np.testing.assert_allclose(jax.grad(mass)(scale)[0], numeric, rtol=1e-6)


def mirrored(triple):
    """The same region written with its lines the other way round."""
    A, b, c = map(np.asarray, triple)
    return -A, -c, -b


@pytest.mark.parametrize(
    "triple",
    [
        pytest.param(lambda: CHAIN, id="lower", marks=pytest.mark.slow),
        pytest.param(lambda: mirrored(CHAIN), id="upper"),
    ],
)
def test_gradient_of_the_estimate_is_its_slope(triple):
    region = linear_of(triple()).region(GAUGE)
    value = jax.jit(lambda m: region.log_mass(m)[0])
    slope = jax.jit(jax.grad(value))(MEAN)
    for i in range(N):
        step = 1e-5 * jnp.eye(N)[i][None]
        np.testing.assert_allclose(slope[0, i], (value(MEAN + step) - value(MEAN - step)) / 2e-5, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Evidence((linear_of(CHAIN),)), id="chain", marks=pytest.mark.slow),
        pytest.param(lambda: Evidence((linear_of(mirrored(CHAIN)),)), id="mirrored", marks=pytest.mark.slow),
        pytest.param(lambda: boxed(WEDGE)[0], id="box"),
    ],
)
def test_means_have_slopes_to_train_through(make):
    """Mean-field is differentiated: finite, those of the mean itself, and symmetric, being a covariance."""
    region = make().region(GAUGE)
    slope = np.asarray(jax.jit(jax.jacrev(lambda m: region.mean(m)[0]))(MEAN))[:, 0]
    assert np.isfinite(slope).all()
    mean = jax.jit(region.mean)
    steps = [1e-5 * jnp.eye(N)[i][None] for i in range(N)]
    numeric = np.stack([np.asarray(mean(MEAN + step) - mean(MEAN - step))[0] / 2e-5 for step in steps], axis=1)
    np.testing.assert_allclose(slope, numeric, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(slope, slope.T, atol=0.02)  # up to the points of the lattice


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Evidence((linear_of(CHAIN),)), id="chain", marks=pytest.mark.slow),
        pytest.param(lambda: boxed(WEDGE)[0], id="box", marks=pytest.mark.slow),
    ],
)
def test_draws_against_rejection(make):
    evidence = make()
    region = evidence.region(GAUGE)
    n, steps = 2000, 40
    many = evidence.rows(jnp.zeros(n, jnp.int32)).region(GAUGE)
    mean = jnp.broadcast_to(MEAN, (n, N))

    @jax.jit
    def run(key, x):
        return jax.lax.fori_loop(0, steps, lambda i, x: many.draw(jax.random.fold_in(key, i), x, mean), x)

    ours = np.asarray(run(jax.random.key(0), ask(many, "start", mean)))
    assert bool(ask(many, "contains", jnp.asarray(ours)).all())
    rng = np.random.default_rng(0)
    proposals = np.asarray(MEAN) + rng.normal(size=(400_000, N))
    points = [part.box.point for part in region.parts[1:]]
    fixed = np.flatnonzero(np.asarray(points[0])[0]) if points else []
    slots = np.asarray(region.parts[1].lines.slots)[0]
    for member in fixed:
        proposals[:, slots[member]] = np.asarray(region.parts[1].box.lower)[0, member]
    A, b, c = region.as_linear(0)
    value = proposals @ A.T
    theirs = proposals[((b <= value) & (value <= c)).all(axis=1)][:n]
    assert len(theirs) > 500
    for i in range(N):
        if i not in slots[fixed]:
            assert ks_2samp(ours[:, i], theirs[:, i]).pvalue > 2e-5
    np.testing.assert_allclose(np.corrcoef(ours.T[[0, 2]])[0, 1], np.corrcoef(theirs.T[[0, 2]])[0, 1], atol=0.1)


def mixed_with_lines() -> Evidence:
    """The rows of test_mixed, with lines over measured, ordinal and ranked sites; they take the ranking over."""
    evidence = test_mixed.make_evidence()
    lines = np.zeros((2, 9))
    lines[0, [0, 5]], lines[1, [1, 6, 7]] = [1.0, -1.0], [1.0, 0.5, -1.0]
    row = (lines, np.array([-0.5, -2.0]), np.array([np.inf, 1.0]))
    order = evidence.constraints[2]

    def with_ranking(r: int) -> tuple:
        rank = order.region(GAUGE).as_linear(r)
        own = (rank[0][:, 5:8] != 0).any(axis=1)
        return tuple(np.concatenate([part[own], extra]) for part, extra in zip(rank, row, strict=True))

    tier = order.tier.at[jnp.asarray([0, 2]), 1].set(-1)
    silent = Order(tier, order.slots, order.n_slots, order.depth, order.width)
    linear = Linear.of([with_ranking(0), None, with_ranking(2), None], 9, np.float64)
    return evidence._replace(constraints=(*evidence.constraints[:2], silent, linear))


@pytest.mark.slow
def test_posteriors_and_evidence_with_lines_by_brute_force():
    """Masses of whole rows by simulation of x given every h: rejection from the definition alone."""
    params, evidence = test_mixed.make_params(), mixed_with_lines()
    region = evidence.region(params.gauge)
    alpha, W, gamma = (np.asarray(a) for a in (params.site_bias, params.weights, params.hidden_bias))
    states = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)])
    rng, n = np.random.default_rng(5), 400_000
    for r in (0, 2):
        A, b, c = region.as_linear(r)
        log_mass, relative = [], []
        for h in states:
            x = alpha + W @ h + rng.normal(size=(n, 9))
            density = 0.0
            if r == 0:  # the measured site is a point
                x[:, 0] = 0.3 / 0.8
                density = norm.logpdf(0.3 / 0.8, alpha[0] + W[0] @ h) - np.log(0.8)
            value = x @ A.T
            share = ((b - 1e-9 <= value) & (value <= c + 1e-9)).all(axis=1).mean()
            log_mass.append(np.log(share) + density)
            relative.append(np.sqrt((1 - share) / (share * n)))
        prior = np.array([gamma @ h + 0.5 * ((alpha + W @ h) ** 2).sum() for h in states])
        joint = prior + log_mass
        top = joint.max()
        weight = np.exp(joint - top) / np.exp(joint - top).sum()
        exact = top + np.log(np.exp(joint - top).sum()) - np.log(np.exp(prior - prior.max()).sum()) - prior.max()
        error = np.sqrt((weight**2 * (np.array(relative) ** 2 + 0.01**2)).sum())
        ours = float(log_evidence_exact(params, evidence)[r])
        assert 2 * norm.sf(abs(ours - exact) / error) > 2e-5
        np.testing.assert_allclose(exact_posterior(params, evidence)[r], weight @ states, atol=5 * error)


@pytest.mark.slow
def test_chains_over_rows_with_lines_reach_the_posterior():
    """Chains over (x, h) under mixed evidence with lines stay in Ω and reach the exact posterior of h."""
    params, evidence = test_mixed.make_params(), mixed_with_lines()
    n = 1500
    many = evidence.rows(jnp.repeat(jnp.asarray([0, 2]), n))
    exact = np.asarray(exact_posterior(params, evidence))

    @jax.jit
    def simulate(key, params, many):
        given = gibbs.clamp(params, many)
        half = jnp.full((2 * n, 2), 0.5)
        state = gibbs.start(jax.random.fold_in(key, 0), given, half)
        state = gibbs.run(jax.random.fold_in(key, 1), state, given, 80)
        return state.h, given.region.contains(state.x)

    h, inside = simulate(jax.random.key(3), params, many)
    assert bool(inside.all())
    for place, row in enumerate((0, 2)):
        share, p = np.asarray(h[place * n : (place + 1) * n]).mean(axis=0), exact[row]
        statistic = ((share - p) ** 2 / (p * (1 - p) / n + 0.004**2)).sum()
        assert chi2.sf(statistic, 2) > 2e-5


def test_hidden_slots_take_their_lines_with_them():
    linear = linear_of(CHAIN)
    hidden = jnp.asarray([[False, False, True, False, False]])
    left = linear.release(hidden)
    assert np.asarray(left.observed).tolist() == [[True, True, False, False, False]]
    region = Evidence((linear,)).region(GAUGE)
    shared = jax.jit(lambda r, m, d, h: r.mass_of_masked(m, d, h))(region, MEAN, jnp.ones_like(MEAN), hidden)
    first = linear_of(tuple(part[:1] for part in CHAIN)).region(GAUGE)
    both = ask(region, "log_mass", MEAN) - ask(first, "log_mass", MEAN)
    np.testing.assert_allclose(shared, both, atol=1e-6)


def test_dense_sparse_and_silent_rows():
    A, b, c = CHAIN
    dense, thin = linear_of((A, b, c), None), linear_of((sparse.csr_array(A), b, c), None)
    for ours, theirs in zip(jax.tree.leaves(dense), jax.tree.leaves(thin), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    region = dense.region(GAUGE)
    assert float(ask(region, "log_mass", jnp.repeat(MEAN, 2, axis=0))[1]) == 0.0
    assert not np.asarray(dense.observed)[1].any()


def test_colours_keep_neighbours_apart():
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix = rng.normal(size=(4, 7)) * (rng.random((4, 7)) < 0.4)
        colours = greedy_colours(matrix)
        for line in matrix:
            named = colours[line != 0]
            assert len(set(named.tolist())) == len(named)


def test_a_thin_region_is_entered_by_a_program():
    """All points of separation of variables may miss a sliver; the anchor does not."""
    eps = 1e-3
    A = np.array([[1.0, 1, 0, 0, 0], [1, -1, 0, 0, 0], [1.0, 0.5, 0, 0, 0], [0.3, 1.0, 0, 0, 0]])
    at = A @ np.array([2.0, -3.0, 0, 0, 0])
    region = linear_of((A, at - eps, at + eps)).region(GAUGE)
    x = ask(region, "start", MEAN)
    assert bool(ask(region, "contains", x)[0])
    np.testing.assert_allclose(x[0, :2], [2.0, -3.0], atol=5 * eps)


def test_contradictions_are_found_with_nothing_superfluous():
    A = np.array([[1.0, -1, 0], [0, 1, -1], [0, 0, 1], [-1, 0, 1], [1, 0, 0]])
    lower, upper = np.array([0.0, 0.0, -5.0, 0.1, -np.inf]), np.array([np.inf, np.inf, 5.0, np.inf, 7.0])
    system = System(A, lower, upper)
    assert interior(system) is None
    clash = conflict(system)
    assert clash == [0, 1, 3]  # x1 > x2 > x3 > x1
    for line in clash:
        rest = [each for each in clash if each != line]
        assert interior(System(A[rest], lower[rest], upper[rest])) is not None
    with pytest.raises(ValueError, match="no point satisfies all inequalities of row 0"):
        linear_of((A, lower, upper), n_slots=3)


def test_an_equation_between_several_sites_has_no_room():
    assert interior(System(np.array([[1.0, -1.0]]), np.zeros(1), np.zeros(1))) is None
