"""Truncated normals against mpmath, against their exact laws, and against everything a bound can be."""

from functools import partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from tests.small import FEWER
from thurbo.latent import truncnorm

HALF_MASS, HALF_MEAN = (partial(each, half=True) for each in (truncnorm.log_mass, truncnorm.mean))

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
P_VALUE = 2e-5
DTYPES = ["float32", "float64"]
# Where single precision is the harder case.
SINGLE_FIRST = ["float32", pytest.param("float64", marks=pytest.mark.slow)]
INF = np.inf


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(80):
        yield


def exact(mean, lower, upper):
    """Log mass, mean, sd, densities at the bounds and offset of the mean, inputs taken as exact."""
    m, lo, hi = (mpmath.mpf(float(value)) for value in (mean, lower, upper))
    a, b = lo - m, hi - m

    def survival(x):
        return mpmath.erfc(x / mpmath.sqrt(2)) / 2

    def density(x):
        return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi) if mpmath.isfinite(x) else mpmath.mpf(0)

    if a + b < 0:
        mass, missing = survival(-b) - survival(-a), survival(b) + survival(-a)
    else:
        mass, missing = survival(a) - survival(b), survival(-a) + survival(b)
    log_mass = mpmath.log1p(-missing) if missing < 0.1 else mpmath.log(mass)
    at_lower, at_upper = density(a) / mass, density(b) / mass
    offset = at_lower - at_upper
    edge_a, edge_b = (x * d if d else 0 for x, d in ((a, at_lower), (b, at_upper)))
    sd = mpmath.sqrt(1 + edge_a - edge_b - offset**2)
    return log_mass, m + offset, sd, at_lower, at_upper, offset


def cases(dtype, n=400, seed=0):
    """Triples of every kind: far tails, narrow, wide, half-open, around the mean; differences that round."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=n) * 10 ** rng.uniform(-2, 2, n)
    start = np.where(rng.random(n) < 0.5, rng.choice([-1, 1], n) * 10 ** rng.uniform(-3, 3.3, n), rng.uniform(-8, 8, n))
    start = np.where(rng.random(n) < 0.1, 0.0, start)
    width = np.where(rng.random(n) < 0.25, INF, 10 ** rng.uniform(-6.5, 2.5, n))
    lower, upper = mean + start, mean + start + width
    around = rng.random(n) < 0.2
    lower = np.where(around, mean - 10 ** rng.uniform(-6, 1.15, n), lower)
    upper = np.where(around, mean + 10 ** rng.uniform(-6, 1.15, n), upper)
    mirror = rng.random(n) < 0.5
    lower, upper = np.where(mirror, 2 * mean - upper, lower), np.where(mirror, 2 * mean - lower, upper)
    fixed = [
        (0, -6, INF),
        (0, -INF, 6),
        (0, -INF, INF),
        (0.1, 300.3, INF),
        (0.1, -INF, -3000.7),
        (0.1, 300.3, 300.3001),
    ]
    fixed += [
        (0, -13, 13),
        (0, 0, 1e-6),
        (1000, 0.1, 0.2),
        (0, 5, 5.000001),
        (-5.3, -INF, -5.3),
        (0, -1e-7, 1e-6),
    ]
    triples = np.concatenate([np.array(fixed, float), np.stack([mean, lower, upper], 1)]).astype(dtype)
    triples = triples[triples[:, 1] < triples[:, 2]]
    return [jnp.asarray(column) for column in triples.T]


def floor(dtype):
    """Below this, results underflow: flushing to zero is then right."""
    return float(np.finfo(dtype).tiny) * 1e4


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_match_mpmath(dtype):
    m, lo, hi = cases(dtype)
    log_mass, mean, variance = (jax.jit(f)(m, lo, hi) for f in (truncnorm.log_mass, truncnorm.mean, truncnorm.variance))
    assert log_mass.dtype == mean.dtype == variance.dtype == dtype
    tolerance = TOLERANCE[dtype]
    for row in zip(*map(np.asarray, (m, lo, hi, log_mass, mean, variance)), strict=True):
        truth = exact(*row[:3])
        got = [mpmath.mpf(float(value)) for value in row[3:]]
        assert abs(got[0] - truth[0]) <= tolerance * abs(truth[0]) + floor(dtype), ("log_mass", row)
        ulp = float(np.spacing(np.abs(row[4])))
        assert abs(got[1] - truth[1]) <= tolerance * truth[2] + ulp, ("mean", row)
        assert abs(got[2] - truth[2] ** 2) <= tolerance * truth[2] ** 2 + floor(dtype), ("variance", row)


@pytest.mark.parametrize("dtype", DTYPES)
def test_half_lines_match_mpmath(dtype):
    triples = [each for seed in (3, 4) for each in zip(*map(np.asarray, cases(dtype, seed=seed)), strict=True)]
    kept = np.array([each for each in triples if np.isinf(each[1]) or np.isinf(each[2])])
    m, lo, hi = (jnp.asarray(column) for column in kept.T)
    log_mass, mean = (jax.jit(f)(m, lo, hi) for f in (HALF_MASS, HALF_MEAN))
    slopes = jax.jit(jax.vmap(jax.grad(HALF_MASS, (0, 1, 2))))(m, lo, hi)
    of_mean = jax.jit(jax.vmap(jax.grad(HALF_MEAN, (0, 1, 2))))(m, lo, hi)
    tolerance = TOLERANCE[dtype]
    for row in zip(*map(np.asarray, (m, lo, hi, log_mass, mean, *slopes, *of_mean)), strict=True):
        truth, sd, at_lower, at_upper, offset = exact(*row[:3])[:2], *exact(*row[:3])[2:]
        got = [mpmath.mpf(float(value)) for value in row[3:]]
        assert abs(got[0] - truth[0]) <= tolerance * abs(truth[0]) + floor(dtype), ("log_mass", row)
        ulp = float(np.spacing(np.abs(row[4])))
        assert abs(got[1] - truth[1]) <= tolerance * sd + ulp, ("mean", row)
        below = at_lower * (truth[1] - mpmath.mpf(float(row[1]))) if at_lower else 0
        above = at_upper * (mpmath.mpf(float(row[2])) - truth[1]) if at_upper else 0
        for one, want in zip(got[2:], (offset, -at_lower, at_upper, sd**2, below, above), strict=True):
            assert abs(one - want) <= 3 * tolerance * abs(want) + 1e2 * floor(dtype), (row, want)


@pytest.mark.parametrize("dtype", SINGLE_FIRST)
def test_half_lines_agree_with_intervals(dtype):
    m, lo, hi = (np.asarray(each) for each in cases(dtype, seed=5))
    one = np.isinf(lo) | np.isinf(hi)
    x = jnp.stack([jnp.asarray(each[one]) for each in (m, lo, hi)], 1)
    for ours, theirs in ((HALF_MASS, truncnorm.log_mass), (HALF_MEAN, truncnorm.mean)):
        got, want = (np.asarray(jax.jit(jax.vmap(jax.hessian(lambda x, f=f: f(*x))))(x)) for f in (ours, theirs))
        np.testing.assert_allclose(got, want, rtol=30 * TOLERANCE[dtype], atol=30 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", SINGLE_FIRST)
def test_first_derivatives_match_mpmath(dtype):
    m, lo, hi = cases(dtype, seed=1)
    tolerance = 3 * TOLERANCE[dtype]
    d_log_mass = jax.jit(jax.vmap(jax.grad(truncnorm.log_mass, (0, 1, 2))))(m, lo, hi)
    d_mean = jax.jit(jax.vmap(jax.grad(truncnorm.mean, (0, 1, 2))))(m, lo, hi)
    for row in zip(*map(np.asarray, (m, lo, hi, *d_log_mass, *d_mean)), strict=True):
        _, mean, sd, at_lower, at_upper, offset = exact(*row[:3])
        below = at_lower * (mean - mpmath.mpf(float(row[1]))) if at_lower else 0
        above = at_upper * (mpmath.mpf(float(row[2])) - mean) if at_upper else 0
        truth = (offset, -at_lower, at_upper, sd**2, below, above)
        for got, want in zip(row[3:], truth, strict=True):
            scale = max(abs(want), sd) if want is offset else abs(want)  # an offset may vanish by symmetry
            assert abs(mpmath.mpf(float(got)) - want) <= tolerance * scale + 1e2 * floor(dtype), (row, want)


@pytest.mark.parametrize("dtype", SINGLE_FIRST)
def test_second_derivatives_match_mpmath(dtype):
    m, lo, hi = cases(dtype, n=150, seed=2)
    x = jnp.stack([m, lo, hi], 1)
    hessians = np.asarray(jax.jit(jax.vmap(jax.hessian(lambda x: truncnorm.log_mass(*x))))(x))
    reverse = np.asarray(jax.jit(jax.vmap(jax.jacrev(jax.grad(lambda x: truncnorm.log_mass(*x)))))(x))
    np.testing.assert_allclose(reverse, hessians, rtol=10 * TOLERANCE[dtype], atol=1e2 * floor(dtype))
    for row, hessian in zip(np.asarray(x), hessians, strict=True):
        _, _, sd, f, g, offset = exact(*row)
        a, b = (mpmath.mpf(float(bound)) - mpmath.mpf(float(row[0])) for bound in row[1:])
        below, above = (offset - a if f else 0), (b - offset if g else 0)
        truth = [
            [sd**2 - 1, f * below, g * above],
            [f * below, -f * (below + g), f * g],
            [g * above, f * g, -g * (f + above)],
        ]
        for got, want in zip(hessian.ravel(), [entry for line in truth for entry in line], strict=True):
            scale = 1 if want is truth[0][0] else abs(want)
            assert abs(mpmath.mpf(float(got)) - want) <= 10 * TOLERANCE[dtype] * scale + 1e3 * floor(dtype), row


def test_third_derivatives_match_differences():
    m, lo, hi = (
        jnp.array([0.3, -1.0, 0.0, 2.0]),
        jnp.array([-1.0, 0.5, 0.2, -3.0]),
        jnp.array([0.7, 1.9, 4.0, 2.0]),
    )
    check_grads(truncnorm.mean, (m, lo, hi), order=2, modes=["rev"], rtol=1e-5, eps=1e-4)
    check_grads(truncnorm.variance, (m, lo, hi), order=1, rtol=1e-5, eps=1e-4)


@pytest.mark.parametrize("dtype", SINGLE_FIRST)
def test_derivatives_are_finite_at_infinite_bounds_and_zero_there(dtype):
    m, zero, infinite = jnp.array([0.0, 3.0, -700.0], dtype), jnp.zeros(3, dtype), jnp.full(3, INF, dtype)
    for f in (truncnorm.log_mass, truncnorm.mean, truncnorm.variance):
        first = jax.grad(f, (0, 1, 2))
        second = jax.grad(lambda *x, f=f: sum(jax.grad(f, (0, 1, 2))(*x)), (0, 1, 2))
        for gradient in (jax.jit(jax.vmap(first)), jax.jit(jax.vmap(second))):
            half, free = np.stack(gradient(m, zero, infinite)), np.stack(gradient(m, -infinite, infinite))
            assert np.isfinite(half).all()
            assert (half[2] == 0).all()
            assert np.isfinite(free).all()
            assert (free[1:] == 0).all()
    value, tangent = jax.jvp(truncnorm.log_mass, (m, -infinite, infinite), (m + 1, m, m))
    np.testing.assert_array_equal(value, 0)
    np.testing.assert_array_equal(tangent, 0)


def test_stopped_draws_do_not_spoil_gradients():
    def loss(m):
        x = truncnorm.sample(jax.random.key(0), m, jnp.array([0.0, -INF, 9.0, 1.0]), jnp.array([INF, INF, INF, 1.0]))
        return jnp.sum(x * m)

    m = jnp.zeros(4)
    x = truncnorm.sample(jax.random.key(0), m, jnp.array([0.0, -INF, 9.0, 1.0]), jnp.array([INF, INF, INF, 1.0]))
    np.testing.assert_allclose(jax.grad(loss)(m), x)


def exact_cdf(x, mean, lower, upper):
    """P(X <= x | interval) in float64, from whichever tail is not close to one."""
    a, b, z = (np.asarray(value, float) - mean for value in (lower, upper, x))
    left = b < -a
    if left:
        a, b, z = -b, -a, -z
    if b - a < 1e-3:  # the density is then e^{-a s} to within 1e-6
        tilt = a + 0.5 * (b - a)
        below = np.expm1(-tilt * (z - a)) / np.expm1(-tilt * (b - a)) if tilt * (b - a) > 1e-8 else (z - a) / (b - a)
    elif a > 0:
        log_a, log_b, log_z = (scipy.special.log_ndtr(-value) for value in (a, b, z))
        below = np.expm1(log_z - log_a) / np.expm1(log_b - log_a)
    else:
        below = (scipy.special.ndtr(z) - scipy.special.ndtr(a)) / (scipy.special.ndtr(b) - scipy.special.ndtr(a))
    return 1 - below if left else below


ONE_SIDED = [(0.0, float(sigma), INF) for sigma in (0, 0.01, 0.5, 1, 2, 3, 5, 8, 13, 20, 30, 50)]
LAWS = [
    *ONE_SIDED,
    *[(mean, -upper, -lower) for mean, lower, upper in ONE_SIDED[::3]],
    (0.0, -INF, INF),
    (0.3, -1.0, 1.6),
    (0.0, -8.0, INF),
    (0.0, -INF, 5.0),
    (0.0, -0.5, 3.0),
    (0.0, -2.0, 0.25),
    (0.0, -20.0, 30.0),
    (-1.0, 0.0, 1e-6),  # bounds near 0 have the digits that a narrow interval needs
    (1.0, -1e-6, 0.0),
    (0.0, -1e-6, 3e-6),
    (-20.0, 0.0, 0.02),
    (300.0, 0.0, 0.01),
    (-3000.0, 0.0, INF),
    (0.0, 1.0, 1.5),
    (0.0, 2.0, 2.01),
    (0.0, 6.0, 6.5),
]


@pytest.mark.parametrize("dtype", SINGLE_FIRST)
def test_draws_follow_their_law(dtype):
    n = 40_000 if dtype == "float32" else 20_000
    m, lo, hi = (jnp.array(column, dtype)[:, None] for column in zip(*LAWS, strict=True))
    draws = np.asarray(jax.jit(truncnorm.sample)(jax.random.key(7), jnp.broadcast_to(m, (len(LAWS), n)), lo, hi))
    assert draws.dtype == dtype
    for law, x in zip(LAWS, draws, strict=True):
        mean, lower, upper = (float(np.asarray(value, dtype)) for value in law)
        assert np.isfinite(x).all()
        assert (x >= np.asarray(lower, dtype)).all()
        assert (x <= np.asarray(upper, dtype)).all()
        u = exact_cdf(x.astype(float), mean, lower, upper)
        assert scipy.stats.kstest(u, "uniform").pvalue > P_VALUE, law
        # The outermost thousandths, where a coarse uniform would show.
        counts = [(u < 1e-3).sum(), (u > 1 - 1e-3).sum()]
        for count in counts:
            assert scipy.stats.binomtest(int(count), n, 1e-3).pvalue > P_VALUE, (law, counts)


def test_draws_keep_their_resolution_in_the_tails():
    # A 24-bit uniform would give the free normal at most 24 million values and stop at 5.4 sigma.
    far_left, far_right = truncnorm._uniform(jax.random.key(0), (1 << 20,), jnp.dtype("float32"))
    smaller = np.minimum(far_left, far_right).astype(float)
    assert smaller.min() > 0
    assert np.unique(smaller).size > 0.9 * (1 << 20)
    np.testing.assert_allclose(np.asarray(far_left, float) + np.asarray(far_right, float), 1.0, atol=1e-7)
    assert scipy.stats.kstest(np.asarray(far_left, float)[:50_000], "uniform").pvalue > P_VALUE


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantiles_are_inverted_precisely(dtype):
    # Draws are quantiles of their uniforms: compare both, not only their distribution.
    key, n = jax.random.key(3), 300
    laws = [law for law in LAWS if not np.isclose(law[2] - law[1], 1e-6, atol=5e-6)]
    for mean, lower, upper in laws:
        m, lo, hi = (jnp.full(n, value, dtype) for value in (mean, lower, upper))
        x = np.asarray(truncnorm.sample(key, m, lo, hi), float)
        u = np.asarray(truncnorm._uniform(key, (n,), m.dtype)[0], float)
        mirrored = lower + upper - 2 * mean < 0
        got = exact_cdf(x, mean, lower, upper)
        want = 1 - u if mirrored else u
        # The draw is rounded to its dtype, and the oracle's log Q loses digits far out.
        slope = np.maximum(np.abs(x - mean), 1 / min(upper - lower, 1))
        allowed = TOLERANCE[dtype] + np.spacing(np.abs(x).astype(dtype)) * slope + 1e-15 * (x - mean) ** 2
        assert (np.abs(got - want) <= allowed).all(), (mean, lower, upper)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_quantile_has_its_share_below_it_on_whichever_side_the_interval_lies(dtype):
    share = jnp.asarray([0.02, 0.3, 0.5, 0.9], dtype)
    laws = [law for law in LAWS if law[2] - law[1] > 1e-2 and max(map(abs, np.asarray(law)[np.isfinite(law)])) < 9]
    assert {np.sign(lower + upper - 2 * mean) for mean, lower, upper in laws} >= {-1, 1}
    for mean, lower, upper in laws:
        x = truncnorm.quantile(share, mean, lower, upper)
        assert x.dtype == dtype
        np.testing.assert_allclose(exact_cdf(x, mean, lower, upper), share, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("lower", "upper"), [(-INF, 0.2), (-1.5, 0.2), (-0.2, INF), (0.4, 0.9), (-INF, -3.0), (-4.0, -3.0)]
)
def test_quantiles_move_with_their_bounds(lower, upper):
    ends = jnp.asarray([0.1, lower, upper])
    value = lambda e: truncnorm.quantile(0.3, *e)  # noqa: E731
    slope = jax.grad(value)(ends)
    for i in range(3):
        if np.isfinite(ends[i]):
            step = jnp.zeros(3).at[i].set(1e-5)
            np.testing.assert_allclose(slope[i], (value(ends + step) - value(ends - step)) / 2e-5, rtol=1e-6, atol=1e-8)
        else:
            assert slope[i] == 0.0


def floats(dtype, *, infinite):
    width = {"float32": 32, "float64": 64}[dtype]
    special = [
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        1e-40,
        1e30,
        -1e30,
        3e38,
        -3e38,
        300.3,
        1.0,
        float(np.nextafter(np.float32(1), 2)),
    ]
    special += [INF, -INF] if infinite else []
    anything = st.floats(allow_nan=False, allow_infinity=infinite, width=width)
    return st.one_of(st.sampled_from(special), st.floats(-10, 10, width=width), anything)


@st.composite
def intervals(draw, dtype):
    n = 16
    rows = []
    for _ in range(n):
        mean = draw(floats(dtype, infinite=False))
        lower = draw(floats(dtype, infinite=True))
        kind = draw(st.sampled_from(["any", "ulp", "relative", "same"]))
        with np.errstate(over="ignore"):
            base = np.asarray(lower, dtype)[()]
            upper = {
                "any": draw(floats(dtype, infinite=True)),
                "ulp": np.nextafter(base, np.asarray(INF, dtype)[()]),
                "relative": base if np.isinf(base) else base + abs(base) * np.asarray(1e-5, dtype)[()],
                "same": base,
            }[kind]
        rows.append((mean, *sorted((float(base), float(upper)))))
    with np.errstate(over="ignore"):
        return np.array(rows).astype(dtype)


@pytest.mark.parametrize("dtype", SINGLE_FIRST)
def test_nothing_finite_gives_anything_else(dtype):
    sample, mean, log_mass, variance = map(
        jax.jit, (truncnorm.sample, truncnorm.mean, truncnorm.log_mass, truncnorm.variance)
    )
    gradient = jax.jit(jax.vmap(jax.grad(truncnorm.log_mass)))

    @settings(max_examples=150 // FEWER, deadline=None)
    @given(intervals(dtype), st.integers(0, 2**32 - 1))
    @example(np.array([[0, 0, 1e-45], [0, 1e-45, 3e-45], [0, -1e-45, 1e-45], [3e38, -INF, -3e38]] * 4, dtype), 0)
    @example(np.array([[-3e38, 3e38, INF], [1e30, -1e30, 1e30], [0, -0.0, 0.0], [0, 0.0, -0.0]] * 4, dtype), 1)
    def check(table, seed):
        m, lo, hi = (jnp.asarray(column) for column in table.T)
        _, low, high = table.T
        proper = np.isfinite(low) | np.isfinite(high) | (low < high)
        for x in (sample(jax.random.key(seed), m, lo, hi), mean(m, lo, hi)):
            x = np.asarray(x)
            assert np.isfinite(x[proper]).all(), (table, x)
            assert ((low <= x) & (x <= high)).all(), (table, x)
        mass = np.asarray(log_mass(m, lo, hi))
        assert (mass <= 0).all(), (table, mass)
        assert (mass[low == high] == -INF).all()
        spread = np.asarray(variance(m, lo, hi))
        assert ((spread >= 0) & (spread <= 1)).all(), (table, spread)
        distance = np.minimum(np.abs(low.astype(float) - table[:, 0]), np.abs(high.astype(float) - table[:, 0]))
        near = proper & (distance < 1e30)
        assert np.isfinite(np.asarray(gradient(m, lo, hi))[near]).all(), table

    check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_improper_intervals_give_nan_and_only_they(dtype):
    m = jnp.array([0, 0, np.nan, 0, 0, INF, 0], dtype)
    lo = jnp.array([1, 0, 0, np.nan, 0, 0, 0], dtype)
    hi = jnp.array([0, 1, 1, 1, np.nan, 1, INF], dtype)
    want = [True, False, True, True, True, True, False]
    outputs = [f(m, lo, hi) for f in (truncnorm.mean, truncnorm.log_mass, truncnorm.variance)]
    outputs.append(truncnorm.sample(jax.random.key(0), m, lo, hi))
    for output in outputs:
        assert np.isnan(output).tolist() == want


@pytest.mark.parametrize("dtype", SINGLE_FIRST)
def test_collapsed_boxes_are_points_only_where_they_should_be(dtype):
    m, value = jnp.array([0.0, 5.0, -300.0], dtype), jnp.array([0.0, -2.0, 0.1], dtype)
    np.testing.assert_array_equal(truncnorm.log_mass(m, value, value), -INF)
    np.testing.assert_array_equal(truncnorm.mean(m, value, value), value)
    np.testing.assert_array_equal(truncnorm.sample(jax.random.key(0), m, value, value), value)
    np.testing.assert_array_equal(truncnorm.variance(m, value, value), 0)
    gradients = jax.jit(jax.vmap(jax.grad(truncnorm.log_mass, (0, 1, 2))))(m, value, value)
    np.testing.assert_allclose(gradients[0], value - m)
    np.testing.assert_array_equal(gradients[1:], 0)
    np.testing.assert_allclose(truncnorm.log_density(m, value), scipy.stats.norm.logpdf(value, m), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(truncnorm.log_density)(0.5, 2.0), 1.5)


def test_shapes_and_dtypes_follow_the_inputs():
    key = jax.random.key(0)
    wide, tall, scalar = jnp.zeros((1, 3), jnp.float32), jnp.full((2, 1), -1, jnp.float32), jnp.float32(2)
    for f in (truncnorm.mean, truncnorm.log_mass, truncnorm.variance, lambda *x: truncnorm.sample(key, *x)):
        assert f(wide, tall, scalar).shape == (2, 3)
        assert f(wide, tall, scalar).dtype == jnp.float32
        assert f(wide, tall, INF).dtype == jnp.float32
        assert f(wide.astype(jnp.float64), -INF, 0.0).dtype == jnp.float64
        assert f(0.0, -1.0, INF).dtype == jnp.result_type(float)
        assert f(jnp.zeros((0, 4)), 0.0, 1.0).shape == (0, 4)
    assert truncnorm.log_density(wide, tall).shape == (2, 3)
    with pytest.raises(TypeError, match="bfloat16"):
        truncnorm.mean(wide.astype(jnp.bfloat16), 0.0, 1.0)


def test_jit_and_vmap_change_nothing():
    m, lo, hi = (column[:64] for column in cases("float32", seed=3))
    for f in (truncnorm.mean, truncnorm.log_mass, truncnorm.variance):
        np.testing.assert_allclose(jax.jit(jax.vmap(f))(m, lo, hi), f(m, lo, hi), rtol=2e-6)
    keys = jax.random.split(jax.random.key(0), 5)
    together = jax.vmap(lambda key: truncnorm.sample(key, m, lo, hi))(keys)
    apart = jnp.stack([truncnorm.sample(key, m, lo, hi) for key in keys])
    np.testing.assert_allclose(together, apart, rtol=1e-5)


@pytest.mark.parametrize(("name", "bound"), [("DRAWS", 4e-6), ("SINGLE", 3e-8), ("DOUBLE", 4e-15)])
def test_coefficients_meet_their_bound(name, bound):
    slopes, k = getattr(truncnorm, name), mpmath.mpf(3) / 10
    for x in [0, *np.geomspace(1e-3, 40, 60)]:
        x = mpmath.mpf(float(x))
        ratio = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(x * x / 2) * mpmath.erfc(x / mpmath.sqrt(2))
        y = 1 / (1 + k * x)
        excess = k * y - 2 * k * y**2 * sum(mpmath.mpf(c) * (2 * y - 1) ** n for n, c in enumerate(slopes))
        truth = 1 / ratio - x
        assert abs(excess - truth) <= bound * truth
