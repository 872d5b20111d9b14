"""§3: what every form of constraint promises, and §3.1 in particular: boxes against the oracle, points and levels.

Forms are discovered from the package. A new one fails until it has an example here, and then takes all generic tests.
"""

import importlib
import pkgutil
from dataclasses import replace
from functools import partial
from inspect import isabstract
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import oracle
from tests.small import (
    ask,
    log_scale_of_points,
    make_evidence,
    make_params,
    one_of,
    order_of,
    repeated_choice,
    rows_for_oracle,
    to_oracle,
)
from thurbo.latent import constraints
from thurbo.latent.constraints import (
    Box,
    BoxRegion,
    Constraint,
    Gauge,
    Levels,
    Linear,
    Order,
    Pairwise,
    Region,
    RepeatedChoice,
)
from thurbo.latent.constraints.base import MOST_SLOTS_OF_PRODUCT, pick
from thurbo.latent.evidence import Evidence

PARAMS = make_params()
EVIDENCE = make_evidence(PARAMS, n_rows=12)
REGION = EVIDENCE.region(PARAMS.gauge)


INF = np.inf
# Two rows of five slots: one that says something, one that says less or nothing.
EXAMPLES = {
    "Box": lambda: Box(
        jnp.asarray([[-1.0, 0.5, -INF, -INF, 0.2], [-INF] * 5]),
        jnp.asarray([[0.5, 0.5, 1.0, INF, INF], [INF, INF, INF, 0.3, INF]]),
        jnp.asarray([[False, True, False, False, False], [False] * 5]),
    ),
    "Levels": lambda: Levels(jnp.asarray([[0, 1, 2, -1, 1], [-1, -1, 0, -1, -1]])),
    "Order": lambda: order_of(np.array([[[0, 2, 1], [1, 0, -1]], [[-1] * 3, [0, 1, -1]]]), ((4, 0, 2), (1, 3, -1)), 5),
    "RepeatedChoice": lambda: repeated_choice(
        np.array([[[0, 2, 1], [1, 0, -1]], [[-1] * 3, [0, 1, -1]]]), ((4, 0, 2), (1, 3, -1)), 5
    ),
    "OneOf": lambda: one_of(np.array([[[1, 0, 1, -1, 0]], [[-1] * 5]])),
    "Pairwise": lambda: Pairwise(
        jnp.asarray([[[1, 0], [0, 0]], [[-1, -1], [0, 1]]]), ((0, 2), (1, 4)), 5, has_ties=True
    ),
    "Linear": lambda: Linear.of(
        [(np.array([[1.0, -2.0, 0, 0, 0], [0, 1, 0, 1, 0]]), [-1.0, -INF], [2.0, 0.5]), None], 5, np.float64
    ),
}
GAUGE = Gauge(jnp.broadcast_to(jnp.asarray([-0.5, 0.6]), (5, 2)), jnp.asarray([1.0, 0.5, 2.0, 1.5, 0.8]))
MEAN = jnp.asarray(np.random.default_rng(5).normal(size=(2, 5)))
DEVIATION = jnp.asarray(1.0 + np.random.default_rng(6).random((2, 5)))


def forms() -> set[str]:
    """Names of all classes in the package that become a region."""
    modules = [
        importlib.import_module(m.name)
        for m in pkgutil.walk_packages(constraints.__path__, "thurbo.latent.constraints.")
    ]
    classes = [c for module in modules for c in vars(module).values() if isinstance(c, type) and hasattr(c, "region")]
    return {c.__name__ for c in classes if not isabstract(c)}


def test_every_form_has_an_example():
    assert forms() == set(EXAMPLES)


@pytest.fixture(params=sorted(EXAMPLES))
def example(request) -> Constraint:
    return EXAMPLES[request.param]()


def test_every_form_keeps_the_protocol(example):
    assert isinstance(example, Constraint)
    region = example.region(GAUGE)
    assert isinstance(region, Region)
    assert isinstance(region.smooth(), Region)
    assert example.structure.couples or isinstance(region, BoxRegion)
    assert region.parts == (region,)
    assert bool(jax.jit(lambda region: region.contains(region.start(MEAN)).all())(region))
    assert (np.asarray(ask(region, "log_mass_error", MEAN)) > 0).any() == example.structure.is_estimated
    assert not np.asarray(jax.jit(lambda each: each.release(jnp.ones((2, 5), bool)).observed)(example)).any()


def test_every_form_can_be_embedded_among_other_slots(example):
    """The same mass, members and lines on its own slots; nothing is said about the others."""
    slots, n_slots = np.array([1, 2, 4, 6, 7]), 9
    others = np.setdiff1d(np.arange(n_slots), slots)

    def wide(own, elsewhere):
        return jnp.full((*own.shape[:-1], n_slots), elsewhere, own.dtype).at[..., slots].set(own)

    gauge = Gauge(wide(GAUGE.cuts.T, 0.1).T, wide(GAUGE.scale, 3.0))
    embedded = jax.tree.map(jnp.asarray, example.embed(slots, n_slots))
    np.testing.assert_array_equal(embedded.observed, wide(example.observed, False))
    own, region = example.region(GAUGE), embedded.region(gauge)
    for deviation in (None, DEVIATION):
        spread = None if deviation is None else wide(deviation, 0.7)
        masses = ask(region, "log_mass", wide(MEAN, 0.4), spread), ask(own, "log_mass", MEAN, deviation)
        np.testing.assert_allclose(*masses, atol=1e-12)
    x = jnp.asarray(np.random.default_rng(7).normal(size=(20, 2, 5)))
    inside = [jax.vmap(partial(ask, each, "contains"))(own_x) for each, own_x in ((region, wide(x, -2.0)), (own, x))]
    np.testing.assert_array_equal(*inside)
    names, wide_names = list("abcde"), np.full(n_slots, "-", object)
    wide_names[slots] = names
    for row in range(2):
        assert region.describe(row, wide_names.tolist()) == own.describe(row, names)
        if own.is_convex:
            (A, b, c), (narrow, *ends) = region.as_linear(row), own.as_linear(row)
            np.testing.assert_array_equal(A[:, slots], narrow)
            assert not A[:, others].any()
            np.testing.assert_array_equal((b, c), ends)


def test_every_form_says_in_words_what_it_says(example):
    region = example.region(GAUGE)
    words = region.describe(0, list("abcde"), lambda slot, lower, upper: f"slot {slot}, {lower:.3g} to {upper:.3g}")
    assert words
    assert all(isinstance(each, str) for each in words)
    if region.is_convex:
        A, _, _ = region.as_linear(0)
        assert len(words) == len(A)
        assert [" (slot " in each for each in words] == [np.count_nonzero(line) == 1 for line in A]
    assert region.release(jnp.ones((2, 5), bool)).describe(0, list("abcde")) == ()


@pytest.mark.parametrize("whole", [pytest.param(False, marks=pytest.mark.slow), True])
def test_masked_slots_of_every_form_have_the_mass_they_add(example, whole):
    """log P(masked | others) = log P(all) − log P(others); masked as a whole, the second term is that of no group."""
    region = Evidence((example,)).region(GAUGE)
    masked = jnp.broadcast_to(jnp.asarray([True, False, True, False, True]), (2, 5)) & example.observed
    is_whole = whole and example.structure.couples and type(example) not in (Order, RepeatedChoice)  # they mask 4, 0, 2
    masked = example.observed if is_whole else masked

    @jax.jit
    def both(region, masked):
        others = 0.0 if is_whole else region.release(masked).log_mass(MEAN, DEVIATION)
        return region.mass_of_masked(MEAN, DEVIATION, masked, whole), region.log_mass(MEAN, DEVIATION) - others

    np.testing.assert_allclose(*both(region, masked), atol=1e-10)


def test_bounds_are_those_of_eqs_6_and_7():
    bounds = REGION.bounds(jnp.zeros((12, 6)))
    for r, (lower, upper, _, _) in enumerate(rows_for_oracle(PARAMS, EVIDENCE)):
        np.testing.assert_allclose(bounds.lower[r], lower, rtol=1e-12)
        np.testing.assert_allclose(bounds.upper[r], upper, rtol=1e-12)


def test_membership_agrees_with_the_triple():
    rng = np.random.default_rng(0)
    for x in rng.normal(size=(50, 6)):
        ours = REGION.contains(jnp.broadcast_to(jnp.asarray(x), (12, 6)))
        for r in range(12):
            A, b, c = REGION.as_linear(r)
            assert bool(ours[r]) == bool(((b <= A @ x) & (A @ x <= c)).all())


def test_mass_is_the_oracles():
    model = to_oracle(PARAMS)
    h = np.array([1.0, 0.0, 1.0])
    expected = [oracle.log_mass_given(model, h, *row[:3]) for row in rows_for_oracle(PARAMS, EVIDENCE)]
    ours = REGION.log_mass(jnp.asarray(model.mean(h))[None, :])
    np.testing.assert_allclose(ours, expected - log_scale_of_points(PARAMS, EVIDENCE), rtol=1e-10, atol=1e-10)


def test_deviation_rescales_the_normal():
    """x ~ N(μ, σ²) in [b, c] is x/σ ~ N(μ/σ, 1) in [b/σ, c/σ]; a point's density is divided by σ."""
    mean, deviation = jnp.full((12, 6), 0.3), jnp.full((12, 6), 2.0)
    scaled = BoxRegion(REGION.lower / 2, REGION.upper / 2, REGION.point, REGION.log_scale + np.log(2.0))
    np.testing.assert_allclose(ask(REGION, "log_mass", mean, deviation), ask(scaled, "log_mass", mean / 2), rtol=1e-10)
    slope = jax.jit(jax.grad(lambda s: REGION.log_mass(mean, s).sum()))(deviation)
    assert np.isfinite(slope).all()


def test_mean_is_mean_plus_slope_of_log_mass():
    mean = jnp.asarray(np.random.default_rng(1).normal(size=(12, 6)))
    slope = jax.jit(jax.grad(lambda m: REGION.log_mass(m).sum()))(mean)
    np.testing.assert_allclose(ask(REGION, "mean", mean), mean + slope, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("constraint", EVIDENCE.constraints, ids=lambda c: type(c).__name__)
def test_masses_of_many_states_are_masses_one_by_one(constraint):
    means = jnp.asarray(np.random.default_rng(2).normal(size=(9, 6)))
    one_by_one = jax.jit(jax.vmap(lambda mean: constraint.region(PARAMS.gauge).log_mass(mean[None, :])))(means)
    np.testing.assert_allclose(
        ask(constraint, "log_mass_of_states", means, PARAMS.gauge), one_by_one, rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("constraint", EVIDENCE.constraints, ids=lambda c: type(c).__name__)
def test_released_slots_say_nothing(constraint):
    slots = jnp.asarray(np.random.default_rng(3).random((12, 6)) < 0.5)
    released = constraint.release(slots)
    np.testing.assert_array_equal(released.observed, constraint.observed & ~slots)
    kept = constraint.region(PARAMS.gauge).log_mass_by_slot(jnp.zeros((12, 6)))
    ours = released.region(PARAMS.gauge).log_mass_by_slot(jnp.zeros((12, 6)))
    np.testing.assert_allclose(ours, jnp.where(slots, 0.0, kept), atol=1e-12)


def test_a_box_that_collapses_in_float32_is_not_a_point():
    """1 and 1 + 1e-9 are one number in float32: the mass is zero, not a density, and a draw stays inside."""
    edge = jnp.asarray([[1.0]], jnp.float32)
    gauge = Gauge(jnp.zeros((1, 0), jnp.float32), jnp.ones(1, jnp.float32))
    box = Box(edge, edge, jnp.asarray([[False]])).region(gauge)
    point = Box(edge, edge, jnp.asarray([[True]])).region(gauge)
    mean = jnp.zeros((1, 1), jnp.float32)
    assert float(box.log_mass(mean)[0]) == -np.inf
    assert float(point.log_mass(mean)[0]) == pytest.approx(-0.5 - 0.5 * np.log(2 * np.pi), rel=1e-6)
    assert float(box.mean(mean)[0, 0]) == 1.0


def test_boxes_that_are_all_points_need_no_truncated_normal():
    """The promise changes no mass, mean, slope or draw, nor what is left of the points."""
    rng = np.random.default_rng(5)
    value, point = rng.normal(size=(12, 6)), rng.random((12, 6)) < 0.7
    plain = Box(*(jnp.asarray(np.where(point, value, end)) for end in (-INF, INF)), jnp.asarray(point))
    mean, deviation, slots = rng.normal(size=(12, 6)), 1 + rng.random((12, 6)), jnp.asarray(rng.random((12, 6)) < 0.5)

    def facts(box: Box):
        def of(mean, deviation, gauge: Gauge):
            left = box.release(slots).region(gauge)
            masses = box.region(gauge).log_mass(mean, deviation) + left.log_mass(mean) * left.mean(mean).sum(axis=-1)
            return masses.sum(), box.region(gauge).draw(jax.random.key(0), mean, mean)

        both = jax.jit(jax.value_and_grad(of, (0, 1, 2), has_aux=True))
        return both(jnp.asarray(mean), jnp.asarray(deviation), PARAMS.gauge)

    same = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)  # noqa: E731
    jax.tree.map(same, facts(replace(plain, exact=())), facts(plain))
    assert (
        replace(plain, exact=()).at(np.arange(2)).release(slots[:, :2]).region(PARAMS.gauge.at(np.arange(2))).exact
        == ()
    )


def test_gradients_of_cuts_and_scales_are_finite_and_right():
    """§5.2: ∂ log_mass / ∂θ, by central differences; infinite bounds and cuts beyond the last have none."""
    mean = jnp.asarray(np.random.default_rng(4).normal(size=(12, 6)))

    @jax.jit
    def total(gauge):
        return EVIDENCE.region(gauge).log_mass(mean).sum()

    slope = jax.jit(jax.grad(total))(PARAMS.gauge)
    assert np.isfinite(slope.scale).all()
    for i, c in zip(*np.nonzero(np.isfinite(np.asarray(PARAMS.gauge.cuts))), strict=True):
        step = jnp.zeros_like(PARAMS.gauge.cuts).at[i, c].set(1e-6)
        up = total(PARAMS.gauge._replace(cuts=PARAMS.gauge.cuts + step))
        down = total(PARAMS.gauge._replace(cuts=PARAMS.gauge.cuts - step))
        assert float(slope.cuts[i, c]) == pytest.approx(float(up - down) / 2e-6, rel=1e-5, abs=1e-6)
    for i in range(6):
        step = jnp.zeros_like(PARAMS.gauge.scale).at[i].set(1e-6)
        up = total(PARAMS.gauge._replace(scale=PARAMS.gauge.scale + step))
        down = total(PARAMS.gauge._replace(scale=PARAMS.gauge.scale - step))
        assert float(slope.scale[i]) == pytest.approx(float(up - down) / 2e-6, rel=1e-5, abs=1e-6)


def test_levels_beyond_int8_are_read_alike():
    gauge = Gauge(jnp.linspace(-3.0, 3.0, 5)[None, :], jnp.ones(1))
    regions = [Levels(jnp.asarray([[3], [-1], [5]], dtype)).region(gauge) for dtype in (jnp.int8, jnp.int32)]
    np.testing.assert_array_equal(regions[0].lower, regions[1].lower)
    np.testing.assert_array_equal(regions[0].upper, regions[1].upper)


@pytest.mark.parametrize("ragged", [False, True])
def test_many_levels_are_the_same_levels(monkeypatch, ragged):
    """Selected one by one or gathered: the same bounds, several levels left open and silent cells among them."""
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.normal(size=(4, 5)), axis=1)
    cuts[1, 2:] = np.inf
    code = np.stack([rng.integers(-1, np.isfinite(row).sum() + 1, 7) for row in cuts], axis=1)
    high = np.where(code >= 0, np.minimum(code + rng.integers(0, 2, code.shape), np.isfinite(cuts).sum(axis=1)), -1)
    table = np.broadcast_to(cuts, (7, 4, 5)) if ragged else cuts
    gauge = Gauge(jnp.asarray(table), jnp.ones(table.shape[:-1]))
    levels = Levels(jnp.asarray(code, jnp.int32), jnp.asarray(high, jnp.int32))
    selected = levels.region(gauge)
    monkeypatch.setattr("thurbo.latent.constraints.box.MOST_UNROLLED", 2)
    gathered = levels.region(gauge)
    np.testing.assert_array_equal(gathered.lower, selected.lower)
    np.testing.assert_array_equal(gathered.upper, selected.upper)


@pytest.mark.parametrize("n_slots", [7, MOST_SLOTS_OF_PRODUCT + 1])
def test_gradient_of_picked_slots(n_slots: int) -> None:
    """Slots picked for the items of groups have the gradient of a gather, also of slots that are picked twice."""
    rng = np.random.default_rng(0)
    places = np.array([3, 0, 5, 3, 1])
    value, weight = jnp.asarray(rng.normal(size=(4, n_slots))), jnp.asarray(rng.normal(size=(4, 5)))

    def total(take: Any, value: Any) -> Any:
        return (weight * jnp.sin(take(value))).sum()

    picked, taken = (lambda v: pick(v, places, 1)), (lambda v: jnp.take(v, places, axis=1))
    np.testing.assert_array_equal(picked(value), taken(value))
    for by in (jax.grad, jax.hessian):
        slopes = (jax.jit(by(partial(total, take)))(value) for take in (picked, taken))
        np.testing.assert_allclose(*slopes, atol=1e-12)
    moved = jax.jvp(picked, (value,), (value + 1.0,))[1]
    np.testing.assert_allclose(moved, taken(value + 1.0), atol=1e-12)
    np.testing.assert_array_equal(jax.vmap(picked)(value[None]), taken(value)[None])
