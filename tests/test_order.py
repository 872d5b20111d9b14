"""§3.2, §4.2, §4.4: orders against their own ⟨A, b, c⟩, closed forms, an independent recursion, and rejection."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.orders import chain_reference, choice_reference, multinomial, reference
from scipy import stats
from scipy.special import gammaln, log_softmax
from scipy.stats import multivariate_normal

from tests.small import FEWER, ask, consecutive, one_of, order_of
from thurbo.latent import truncnorm
from thurbo.latent.constraints import Constraint, Gauge, Region
from thurbo.latent.constraints.order import CLOSER_SCALE, Order, OrderRegion
from thurbo.latent.masses import orders

GAUGE = Gauge(jnp.zeros((1, 0)), jnp.ones(1))
SMALLEST_P = 2e-5
FORMS = {
    "category": [0, 0, 1, 0],
    "top set": [1, 1, 0, 0, 0],
    "ties": [2, 2, 1, 0],
    "wide middle": [0, 1, 1, 1, 2],
    "partial": [0, -1, 1, 2, 0],
    "ranking": [2, 0, 3, 1],
}


def region_of(codes, rows=1, **options) -> OrderRegion:
    codes = np.asarray(codes)
    return order_of(np.broadcast_to(codes, (rows, 1, len(codes))), **options).region(GAUGE)


def masses(codes, mean, dtype=jnp.float64):
    return float(ask(region_of(codes), "log_mass", jnp.asarray(mean, dtype)[None, :])[0])


def within(value, truth, dtype):
    allowed = max(1e-4, 1e-6 * abs(truth)) if dtype == jnp.float32 else max(1e-8, 1e-12 * abs(truth))
    assert abs(value - truth) <= allowed, (value, truth)


def exact32(mean):
    return np.asarray(mean, np.float32).astype(float)


def rejected(contains, mean, n=400_000 // FEWER, seed=0):
    """Draws of N(mean, I) that fall in Ω, by rejection."""
    x = np.random.default_rng(seed).normal(size=(n, len(mean))) + mean
    return x[contains(x)]


# ---- the paper's matrices, membership, bounds, colours


@pytest.mark.parametrize(
    ("codes", "A"),
    [
        ([1, 0, 0, 0], [[1, -1, 0, 0], [1, 0, -1, 0], [1, 0, 0, -1]]),
        ([1, 1, 0, 0], [[1, 0, -1, 0], [1, 0, 0, -1], [0, 1, -1, 0], [0, 1, 0, -1]]),
        ([2, 2, 1, 0], [[1, 0, -1, 0], [0, 1, -1, 0], [0, 0, 1, -1]]),
    ],
    ids=["categorical", "imprecise", "rank with ties"],
)
def test_the_papers_matrices(codes, A):
    ours, b, c = region_of(codes).as_linear(0)
    np.testing.assert_array_equal(ours, A)
    np.testing.assert_array_equal(b, np.zeros(len(A)))
    np.testing.assert_array_equal(c, np.full(len(A), np.inf))


@pytest.mark.parametrize("codes", FORMS.values(), ids=FORMS)
def test_bounds_and_membership_are_those_of_the_triple(codes):
    region, rng = region_of(codes), np.random.default_rng(0)
    A, b, _ = region.as_linear(0)
    inside = 0
    for x in rng.normal(size=(60, len(codes))):
        row = jnp.asarray(x)[None, :]
        assert bool(ask(region, "contains", row)[0]) == bool((A @ x >= b).all())
        x = np.asarray(ask(region, "start", row)[0])
        assert (A @ x > 0).all()
        inside += 1
        lower, upper = ask(region, "bounds", jnp.asarray(x)[None, :])
        for i in range(len(codes)):
            rest = A @ x - A[:, i] * x[i]
            assert float(lower[0, i]) == pytest.approx(
                max([-r for r, a in zip(rest, A[:, i], strict=True) if a > 0] + [-np.inf])
            )
            assert float(upper[0, i]) == pytest.approx(
                min([r for r, a in zip(rest, A[:, i], strict=True) if a < 0] + [np.inf])
            )
    assert inside == 60


def test_contracts():
    order = order_of(np.array([[[0, 1, 1]]]))
    assert isinstance(order, Constraint)
    assert isinstance(order.region(GAUGE), Region)
    assert isinstance(one_of(np.array([[[0, 1, 1]]])).region(GAUGE), Region)


def test_gaps_are_closed_and_lone_tiers_fall_silent():
    codes = np.array([[[1, 3, 3, -1]], [[2, 2, 2, 2]], [[-1, 7, -1, 0]]])
    np.testing.assert_array_equal(consecutive(codes), [[[0, 1, 1, -1]], [[-1] * 4], [[-1, 1, -1, 0]]])


@pytest.mark.parametrize("dtype", [jnp.float32, pytest.param(jnp.float64, marks=pytest.mark.slow)])
def test_ratings_one_and_three_never_break_the_order(dtype):
    """Gapped tiers of one parity would be drawn at the same time; here no step ever leaves Ω."""
    rng = np.random.default_rng(1)
    codes = rng.choice([1, 3, 5, 8], size=(200, 1, 9), p=[0.4, 0.3, 0.2, 0.1])
    region = order_of(codes).region(GAUGE)
    mean = jnp.asarray(4.0 * rng.normal(size=(200, 9)), dtype)
    x = ask(region, "start", mean)

    def step(x, key):
        x = region.draw(key, sweep(region, key, x, mean), mean)
        return x, region.contains(x).all()

    _, ok = jax.jit(lambda x: jax.lax.scan(step, x, jax.random.split(jax.random.key(0), 100)))(x)
    assert bool(ok.all())


def test_released_slots_say_nothing_and_tiers_close_up():
    codes = np.array([[[0, 1, 2, 3]], [[0, 1, 1, 2]], [[0, 1, 0, 0]]])
    order = order_of(codes)
    gone = jnp.asarray([[False, True, False, False], [True, False, False, False], [False, True, False, False]])
    released = jax.jit(lambda o, g: o.release(g))(order, gone)
    np.testing.assert_array_equal(released.tier, consecutive(np.where(np.asarray(gone)[:, None, :], -1, codes)))
    np.testing.assert_array_equal(
        released.observed, [[True, False, True, True], [False, True, True, True], [False] * 4]
    )
    mean = jnp.asarray(np.random.default_rng(2).normal(size=(3, 4)))
    value = ask(released.region(GAUGE), "log_mass", mean)
    assert float(value[0]) == pytest.approx(masses([0, 1, 2], np.asarray(mean)[0, [0, 2, 3]]), abs=1e-10)
    assert float(value[2]) == 0.0
    lower, upper = released.region(GAUGE).bounds(mean)
    assert np.isneginf(lower[2]).all()
    assert np.isposinf(upper[2]).all()


# ---- probabilities


@pytest.mark.parametrize("dtype", [jnp.float32, pytest.param(jnp.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "sizes",
    [
        *([39, 1], [1] * 50, [2, 3, 1, 2, 2], [1, 200, 1]),
        *(pytest.param(sizes, marks=pytest.mark.slow) for sizes in ([300, 200], [8] * 5)),
    ],
    ids=lambda s: f"{len(s)}x{max(s)}",
)
def test_equal_means_give_the_multinomial_coefficient(sizes, dtype):
    codes = np.random.default_rng(3).permutation(np.repeat(np.arange(len(sizes)), sizes))
    within(masses(codes, np.full(len(codes), 0.5), dtype), multinomial(sizes), dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, pytest.param(jnp.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_rankings_and_ties_match_an_independent_recursion(dtype, scale):
    rng = np.random.default_rng(4)
    for n in (4, 50):
        mean = exact32(scale * rng.normal(size=n))
        within(masses(np.arange(n), mean, dtype), chain_reference(mean), dtype)
    codes, mean = np.array([0, 0, 1, 1, 1, 2, 3, 3, 4]), exact32(scale * rng.normal(size=9))
    within(masses(codes, mean, dtype), reference(codes, mean), dtype)


def test_panels_are_laid_where_a_hazard_underflows():
    """Far below the items of tier 1 their hazard is no float32 number; the panels must not be laid by it."""
    mean = exact32(3.0 * np.random.default_rng(1009).normal(size=50))
    within(masses(np.arange(50), mean, jnp.float32), chain_reference(mean), jnp.float32)


@pytest.mark.parametrize("dtype", [jnp.float32, pytest.param(jnp.float64, marks=pytest.mark.slow)])
def test_categories_and_top_sets_match_a_fine_trapezoid(dtype):
    rng = np.random.default_rng(5)
    cases = [(np.arange(n) // (n - 1), exact32(s * rng.normal(size=n))) for n, s in ((2, 1), (3, 1), (10, 2), (40, 5))]
    cases += [(np.array([0] * 5 + [1]), np.r_[np.zeros(5), gap]) for gap in (-30.0, -8.0, 8.0, 30.0)]
    cases += [
        (np.array([0, 0, 0, 1]), np.array([-30.0, 0.0, 30.0, 1.0])),
        (np.array([1, 1, 1, 0]), np.array([-30.0, 0.0, 30.0, 1.0])),
    ]
    cases += [(np.array([1] * 4 + [0] * 8), exact32(2 * rng.normal(size=12)))]
    for codes, mean in cases:
        within(masses(codes, mean, dtype), choice_reference(codes, mean), dtype)


def test_small_orders_match_orthant_probabilities():
    """P(Ax ≥ 0) for N(μ, I) is an orthant probability of N(Aμ, AAᵀ)."""
    rng = np.random.default_rng(6)
    for codes in ([0, 1, 2], [2, 0, 1, 1], [0, 1, 0]):
        A, _, _ = region_of(codes).as_linear(0)
        mean = rng.normal(size=len(codes))
        if np.linalg.matrix_rank(A) < len(A):
            continue
        expected = multivariate_normal.cdf(
            A @ mean, np.zeros(len(A)), A @ A.T, abseps=1e-9, releps=1e-9, maxpts=500_000
        )
        assert masses(codes, mean) == pytest.approx(np.log(expected), abs=1e-6)


def test_two_items_have_a_closed_form_and_deviations_enter_it():
    mean, deviation = jnp.asarray([[0.3, -1.1]]), jnp.asarray([[0.5, 2.0]])
    expected = stats.norm.logcdf((-1.1 - 0.3) / np.hypot(0.5, 2.0))
    assert float(ask(region_of([0, 1]), "log_mass", mean, deviation)[0]) == pytest.approx(expected, abs=1e-8)
    rank = region_of([0, 1, 2, 2, 3])
    mean = jnp.asarray(np.random.default_rng(7).normal(size=(1, 5)))
    same = ask(rank, "log_mass", 2.0 * mean, jnp.full((1, 5), 2.0))
    np.testing.assert_allclose(same, ask(rank, "log_mass", mean), atol=1e-9)


def test_padding_permutation_and_grouping_change_nothing():
    rng = np.random.default_rng(8)
    codes, mean = np.array([0, 2, 1, 1, 3]), rng.normal(size=5)
    plain = masses(codes, mean)
    order = rng.permutation(5)
    assert masses(codes[order], mean[order]) == pytest.approx(plain, abs=1e-10)
    padded = masses(np.r_[codes, -1, -1], np.r_[mean, 5.0, -90.0])
    assert padded == pytest.approx(plain, abs=1e-10)
    tier = np.array([[[0, 1, 2, -1], [1, 0, -1, -1]], [[1, 1, 1, 1], [0, 0, 5, -1]]])
    both = order_of(tier, slots=((0, 2, 4, 6), (1, 3, 5, -1)), n_slots=8)
    mean = rng.normal(size=(2, 8))
    value = ask(both.region(GAUGE), "log_mass", jnp.asarray(mean))
    first = masses([0, 1, 2], mean[0, [0, 2, 4]]) + masses([1, 0], mean[0, [1, 3]])
    np.testing.assert_allclose(value, [first, masses([0, 0, 1], mean[1, [1, 3, 5]])], atol=1e-9)
    states = ask(both, "log_mass_of_states", jnp.asarray(mean), GAUGE)
    np.testing.assert_allclose(np.diag(states), value, atol=1e-12)
    unknown = Order(both.tier[..., :3], tuple(g[:3] for g in both.slots), 8).region(GAUGE)
    unknown = ask(unknown, "log_mass", jnp.asarray(mean))
    np.testing.assert_allclose(unknown, value, atol=1e-8)


@pytest.mark.slow
def test_what_is_known_of_all_orders_shortens_the_way_and_changes_nothing():
    """Choices by a table of their labels in every state, rankings and places by single items at their ends."""
    rng = np.random.default_rng(12)
    tier = np.full((5, 2, 4), -1)
    tier[:, 0] = np.eye(4, dtype=int)[rng.integers(0, 4, 5)]
    tier[:, 1, :3] = np.eye(3, dtype=int)[rng.integers(0, 3, 5)]
    tier[2, 0], tier[3, 1] = -1, -1
    slots, means = ((0, 2, 4, 7), (1, 3, 5, -1)), jnp.asarray(rng.normal(size=(3, 8)))
    choice = order_of(tier, slots, 8)
    ranks = rng.permuted(np.tile(np.arange(-1, 5), (3, 1, 1)), axis=-1)
    rank = order_of(ranks, ((0, 2, 4, 7, 1, 3),), 8)
    first = order_of(np.maximum(ranks - 1, 0), ((0, 2, 4, 7, 1, 3),), 8)  # the best three of six, the others tied
    assert (choice.form, rank.form, first.form) == ("choice", "ranking", "places")
    assert first.release(jnp.arange(8)[None, :] < jnp.asarray([[3], [5], [0]])).form == "places"
    plain = replace(choice, form="any")
    np.testing.assert_allclose(
        ask(choice, "log_mass_of_states", means, GAUGE), ask(plain, "log_mass_of_states", means, GAUGE), atol=1e-10
    )
    assert choice.release(jnp.zeros((5, 8), bool)).form == "places"
    assert order_of(np.array([[[0, 1, -1]]])).form == "ranking"  # not all items take part: no choice among all
    assert order_of(np.array([[[0, 1, 1]]])).form == "any"

    def slopes(order):
        mass = lambda mean, deviation: order.region(GAUGE).log_mass(mean, deviation).sum()  # noqa: E731
        return jax.value_and_grad(mass, argnums=(0, 1))(means, jnp.exp(0.2 * means))

    for known in (rank, first):
        found = (jax.tree.leaves(slopes(order)) for order in (known, replace(known, form="any")))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize(
    "codes",
    [
        pytest.param([2, 0, 3, 1], id="ranking", marks=pytest.mark.slow),
        pytest.param([0, 0, 1, 2, 3, 3], id="tied ends", marks=pytest.mark.slow),
        pytest.param([0, 1, 1, 2, 1], id="tied middle"),
    ],
)
def test_slopes_of_chains_are_differences_in_means_and_deviations_and_twice_over(codes):
    order, n = order_of(np.array([[codes]])), len(codes)
    at = jnp.asarray(np.r_[np.random.default_rng(13).normal(size=n), np.linspace(0.7, 1.4, n)])
    value = jax.jit(lambda at: order.region(GAUGE).log_mass(at[None, :n], at[None, n:])[0])
    slope = jax.jit(jax.grad(value))
    for direction in np.random.default_rng(14).normal(size=(2, 2 * n)):
        step = 1e-4 * jnp.asarray(direction)
        difference = float(value(at + step) - value(at - step)) / 2e-4
        assert float(slope(at) @ direction) == pytest.approx(difference, abs=1e-6)
        bend = float((slope(at + step) - slope(at - step)) @ direction) / 2e-4
        _, ours = jax.jvp(slope, (at,), (jnp.asarray(direction),))
        assert float(ours @ direction) == pytest.approx(bend, abs=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_ties_between_the_ends_are_the_same_in_any_company(dtype):
    """Rows of other ties, lengths and absent items in one batch: sums of chains, against all ways to break the ties."""
    codes = np.array(
        [[0, 1, 1, 2, 3, 4], [0, 1, 1, 1, 2, 2], [2, 0, 1, -1, 1, -1], [4, 1, 0, 2, 2, 3], [0, 1, 1, 1, 1, 2]]
    )
    mean = exact32(np.random.default_rng(15).normal(size=codes.shape) * np.array([1, 3, 1, 3, 1])[:, None])
    value = ask(order_of(codes[:, None]).region(GAUGE), "log_mass", jnp.asarray(mean, dtype))
    for row, part in enumerate(codes >= 0):
        within(float(value[row]), reference(codes[row, part], mean[row, part]), dtype)


@pytest.mark.parametrize(
    "codes",
    [
        pytest.param(codes, id=form, marks=[pytest.mark.slow] * (form in ("wide middle", "category", "partial")))
        for form, codes in FORMS.items()
    ],
)
def test_gradients_and_means(codes):
    """E[x] = mean + ∂ log_mass / ∂ mean: central differences, and the average of rejected draws."""
    region = region_of(codes)
    mean = 0.7 * np.random.default_rng(9).normal(size=len(codes))
    total = jax.jit(jax.value_and_grad(lambda m: region.log_mass(m[None, :])[0]))
    _, slope = total(jnp.asarray(mean))
    for i, unit in enumerate(np.eye(len(codes))):
        up, down = total(jnp.asarray(mean + 1e-5 * unit))[0], total(jnp.asarray(mean - 1e-5 * unit))[0]
        assert float(slope[i]) == pytest.approx(float(up - down) / 2e-5, abs=1e-7)
    A, _, _ = region.as_linear(0)
    draws = rejected(lambda x: (x @ A.T >= 0).all(axis=1), mean)
    ours = mean + np.asarray(slope)
    error = (draws.mean(axis=0) - ours) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert 2 * len(codes) * stats.norm.sf(np.abs(error).max()) > SMALLEST_P


@pytest.mark.parametrize("dtype", [jnp.float32, pytest.param(jnp.float64, marks=pytest.mark.slow)])
def test_gradients_are_finite_where_probabilities_are_not_representable(dtype):
    for codes in ([0, 0, 1], [0, 1, 1, 2]):
        mean = jnp.asarray(30.0 * np.linspace(1, -1, len(codes)), dtype)[None, :]
        region = region_of(codes)
        assert np.isfinite(ask(region, "log_mass", mean)).all()
        inside = ask(region, "mean", mean) + jnp.asarray(np.array(codes) * 1e-2, dtype)[None, :]
        assert bool(ask(region, "contains", inside)[0])


def test_gumbel_forms_are_softmax_and_plackett_luce():
    mean = np.random.default_rng(10).normal(size=5)
    row = jnp.asarray(mean)[None, :]

    def gumbel(codes, row, scale):
        return ask(region_of(codes, mass="gumbel", gumbel_scale=scale), "log_mass", row)

    for scale in (1.0, CLOSER_SCALE):
        category = gumbel([0, 0, 0, 1, 0], row, scale)
        assert float(category[0]) == pytest.approx(log_softmax(mean / scale)[3], abs=1e-12)
        stages = sum(log_softmax(mean[: i + 1] / scale)[i] for i in range(5))
        ranked = gumbel(np.arange(5), row, scale)
        assert float(ranked[0]) == pytest.approx(stages, abs=1e-12)
    ties = region_of([0, 1, 1, 2, 2], mass="gumbel", gumbel_scale=CLOSER_SCALE)
    assert ties.order.mass == "gumbel"
    assert float(ask(ties, "log_mass", jnp.zeros((1, 5)))[0]) == pytest.approx(2 * np.log(2) - gammaln(6), abs=1e-12)
    exact = chain_reference(mean)
    ranked = [gumbel(np.arange(5), row, scale) for scale in (CLOSER_SCALE, 1.0)]
    near, paper = (abs(float(value[0]) - exact) for value in ranked)
    assert max(near, paper) < 1.5
    assert np.isfinite(jax.jit(jax.grad(lambda m: ties.log_mass(m).sum()))(row)).all()


# ---- draws


def sweep(region, key, x, mean):
    """Plain Gibbs by two colours, the parity of the tier: bounds come from tiers of the other parity only."""
    colour = region.order.to_slots(region.order.tier % 2, 0)
    for turn in range(2):
        drawn = truncnorm.sample(jax.random.fold_in(key, turn), mean, *region.bounds(x))
        x = jnp.where(colour == turn, drawn, x)
    return x


def chain(step):
    """The state after so many steps; a traced count, so that one compilation serves them all."""
    return jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda i, x: step(jax.random.key(i), x), x))


def agree(ours, truth):
    """Each slot and each difference of slots: two-sample Kolmogorov–Smirnov, Bonferroni."""
    columns = [(ours[:, i], truth[:, i]) for i in range(ours.shape[1])]
    columns += [(np.diff(ours)[:, i], np.diff(truth)[:, i]) for i in range(ours.shape[1] - 1)]
    smallest = min(stats.ks_2samp(a, b).pvalue for a, b in columns)
    assert smallest * len(columns) > SMALLEST_P


# Most forms by one of the two; all forms by both where there is more time.
MOVED = [(form, mover) for mover in ("sweep", "draw") for form in FORMS]
SLOW_MOVES = [pair for place, pair in enumerate(MOVED) if place % 2 == (pair[1] == "draw")]
SLOW_MOVES += [("partial", "draw"), ("wide middle", "sweep")]


@pytest.mark.parametrize(
    ("form", "mover"), [pytest.param(*pair, marks=[pytest.mark.slow] * (pair in SLOW_MOVES)) for pair in MOVED]
)
def test_steps_against_rejection(form, mover):
    """Many chains, one draw of each: independent draws of N(mean, I) on Ω, if the step leaves that invariant."""
    codes = FORMS[form]
    mean, rows = 0.7 * np.random.default_rng(11).normal(size=len(codes)), 2000
    region = region_of(codes, rows)
    mu = jnp.broadcast_to(jnp.asarray(mean), (rows, len(codes)))
    step = (lambda k, x: sweep(region, k, x, mu)) if mover == "sweep" else (lambda k, x: region.draw(k, x, mu))
    A, _, _ = region.as_linear(0)
    truth = rejected(lambda x: (x @ A.T >= 0).all(axis=1), mean)
    after = chain(step)
    agree(np.asarray(after(ask(region, "start", mu), 40)), truth)
    # Started in equilibrium, one step must not leave it.
    if len(truth) >= 2 * rows:
        agree(np.asarray(after(jnp.asarray(truth[:rows]), 1)), truth[rows:])


def test_one_of_these():
    """The other reading of a set: mass, means and sweeps of a union that is not convex."""
    codes, mean, rows = np.array([1, 0, 1, 0, -1]), np.array([-0.4, 0.3, 0.2, 0.5, 0.0]), 2000
    one = one_of(np.broadcast_to(codes, (rows, 1, 5)))
    region = one.region(GAUGE)
    mu = jnp.broadcast_to(jnp.asarray(mean), (rows, 5))
    winners = [choice_reference(np.arange(4) == k, mean[:4]) for k in (0, 2)]
    assert float(ask(region, "log_mass", mu)[0]) == pytest.approx(np.logaddexp(*winners), abs=1e-9)
    truth = rejected(lambda x: x[:, [0, 2]].max(axis=1) >= x[:, [1, 3]].max(axis=1), mean)
    start = ask(region, "start", mu)
    assert bool(ask(region, "contains", start).all())
    ours = np.asarray(chain(lambda k, x: region.draw(k, x, mu))(start, 60))
    assert bool(ask(region, "contains", jnp.asarray(ours)).all())
    agree(ours, truth)
    ours = np.asarray(ask(region, "mean", mu)[0])
    error = (truth.mean(axis=0) - ours) / (truth.std(axis=0) / np.sqrt(len(truth)))
    assert 2 * 5 * stats.norm.sf(np.abs(error).max()) > SMALLEST_P
    with pytest.raises(ValueError, match="union"):
        region.as_linear(0)
    gone = jnp.zeros((rows, 5), bool).at[:, jnp.asarray([0, 2])].set(True)
    assert not bool(one.release(gone).observed.any())


def test_orders_live_in_pytrees():
    """Batches of rows, axes of rows, and one compilation for all batches of a table."""
    order = order_of(np.argsort(np.random.default_rng(12).random((20, 1, 4))))
    traces = []

    @jax.jit
    def mass(order, mean):
        traces.append(1)
        return order.region(GAUGE).log_mass(mean)

    mean = jnp.asarray(np.random.default_rng(13).normal(size=(20, 4)))
    every = ask(order.region(GAUGE), "log_mass", mean)
    for index in (jnp.arange(5), jnp.arange(10, 15)):
        batch = jax.tree.map(lambda leaf, index=index: jnp.take(leaf, index, axis=0), order)
        np.testing.assert_allclose(mass(batch, mean[index]), every[index], atol=1e-12)
    assert len(traces) == 1
    axes = jax.tree.map(lambda _: 0, order)
    alone = lambda o, m: jax.tree.map(lambda leaf: leaf[None], o).region(GAUGE).log_mass(m[None])[0]  # noqa: E731
    lifted = jax.jit(jax.vmap(alone, in_axes=(axes, 0)))
    np.testing.assert_allclose(lifted(order, mean), every, atol=1e-12)


@pytest.mark.parametrize("has_ties", [False, True])
def test_the_closed_form_of_gumbel_slopes_is_the_gradient(has_ties):
    """Orders of every length beside each other, one of them empty, and utilities hundreds apart."""
    rng, depth = np.random.default_rng(3), 5
    tier = np.stack([rng.permutation(6) for _ in range(9)])[:, None]
    tier = np.where(tier < rng.integers(0, 6, (9, 1, 1)), tier, -1)
    if has_ties:
        tier = consecutive(np.where(tier >= 0, tier // 2, -1))
    tier = jnp.asarray(consecutive(np.minimum(tier, depth - 1)) if has_ties else consecutive(tier))
    depth = int(tier.max()) + 1
    mean = jnp.asarray(rng.normal(size=tier.shape) * np.where(np.arange(9) == 0, 300.0, 1.0)[:, None, None])

    def total(mean):
        here = tier[:, :, None, :] == jnp.arange(depth, dtype=tier.dtype)[None, None, :, None]
        return jnp.where(tier.max(axis=-1) > 0, orders.log_mass_gumbel(mean, here), 0.0).sum()

    closed = lambda m: orders.slopes_gumbel(m, tier, depth, has_ties)  # noqa: E731
    slope = jnp.where((tier.max(axis=-1) > 0)[:, :, None], jax.jit(closed)(mean), 0.0)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(total))(mean), atol=1e-12)
    again = jax.jit(jax.grad(lambda m: closed(m)[..., 0].sum()))(mean)
    assert np.isfinite(again).all()
