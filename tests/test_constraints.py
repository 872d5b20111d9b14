"""§3.1: every form against its own ⟨A, b, c⟩ and against the oracle; a point is a flag, a narrow box is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import oracle
from tests.small import log_scale_of_points, make_evidence, make_params, rows_for_oracle, to_oracle
from thurbo.constraints import Box, BoxRegion, Gauge, Levels

PARAMS = make_params()
EVIDENCE = make_evidence(PARAMS, n_rows=12)
REGION = EVIDENCE.region(PARAMS.gauge)


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
    np.testing.assert_allclose(REGION.log_mass(mean, deviation), scaled.log_mass(mean / 2), rtol=1e-10)
    slope = jax.grad(lambda s: REGION.log_mass(mean, s).sum())(deviation)
    assert np.isfinite(slope).all()


def test_mean_is_mean_plus_slope_of_log_mass():
    mean = jnp.asarray(np.random.default_rng(1).normal(size=(12, 6)))
    slope = jax.grad(lambda m: REGION.log_mass(m).sum())(mean)
    np.testing.assert_allclose(REGION.mean(mean), mean + slope, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("constraint", EVIDENCE.constraints, ids=lambda c: type(c).__name__)
def test_masses_of_many_states_are_masses_one_by_one(constraint):
    means = jnp.asarray(np.random.default_rng(2).normal(size=(9, 6)))
    one_by_one = [constraint.region(PARAMS.gauge).log_mass(mean[None, :]) for mean in means]
    np.testing.assert_allclose(constraint.log_mass_of_states(means, PARAMS.gauge), one_by_one, rtol=1e-10, atol=1e-12)


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


def test_gradients_of_cuts_and_scales_are_finite_and_right():
    """§5.2: ∂ log_mass / ∂θ, by central differences; infinite bounds and cuts beyond the last have none."""
    mean = jnp.asarray(np.random.default_rng(4).normal(size=(12, 6)))

    def total(gauge):
        return EVIDENCE.region(gauge).log_mass(mean).sum()

    slope = jax.grad(total)(PARAMS.gauge)
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
    monkeypatch.setattr("thurbo.constraints.box.MOST_UNROLLED", 2)
    gathered = levels.region(gauge)
    np.testing.assert_array_equal(gathered.lower, selected.lower)
    np.testing.assert_array_equal(gathered.upper, selected.upper)
