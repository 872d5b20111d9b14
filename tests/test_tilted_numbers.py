"""§4.3: numbers whose bands have other probabilities are a distribution; everything against quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid
from scipy.special import softmax
from scipy.stats import norm

import thurbo as tb
from tests.known_ask import asked
from thurbo.predict.correction import band_codes as codes
from thurbo.predict.predictive import Predictive

EDGES = np.asarray([-1.1, -0.3, 0.2, 0.9])
FINE = np.linspace(-9, 9, 36_001)


def mixed(tilt: np.ndarray | None, edges: np.ndarray = EDGES) -> Predictive:
    """Two members with known distributions of five numbers, and what is added to the log-probabilities of bands."""
    found = Predictive(tb.Continuous(), [asked(5, 1), asked(5, 2)], np.asarray([0.3, 0.7]))
    if tilt is not None:
        found.edges, found.experts = edges, {0: lambda chance: softmax(np.log(chance) + tilt, axis=1)}
    return found


def density_of(tilt: np.ndarray, edges: np.ndarray = EDGES) -> np.ndarray:
    """p(z) exp(tilt of the band of z), over its integral, [line, point]."""
    plain = sum(
        share * (each.weight[:, None] * norm.pdf(FINE[:, None], each.means[:, None], each.deviation[:, None])).sum(2)
        for share, each in ((0.3, asked(5, 1)), (0.7, asked(5, 2)))
    )
    raised = np.asarray(plain) * np.exp(tilt[:, np.searchsorted(edges, FINE)])
    return raised / np.trapezoid(raised, FINE, axis=1)[:, None]


def test_bands_as_they_are_change_no_number() -> None:
    same, bare = mixed(np.zeros((5, 5))), mixed(None)
    z, lower, upper = np.linspace(-3, 3, 5), np.asarray([-np.inf, -2, -0.3, 0.1, 1]), np.asarray([0, 2, 0.2, np.inf, 2])
    np.testing.assert_allclose(same.below(FINE[::100]), bare.below(FINE[::100]), atol=1e-12)
    np.testing.assert_allclose(same.density(z), bare.density(z), atol=1e-12)
    np.testing.assert_allclose(same.mass(lower, upper), bare.mass(lower, upper), atol=1e-12)
    np.testing.assert_allclose(same.number().distribution, bare.number().distribution, atol=1e-12)
    np.testing.assert_allclose(same.number().mean, bare.number().mean, atol=1e-4)
    np.testing.assert_allclose(same.split(EDGES), bare.split(EDGES))
    assert mixed(np.zeros((5, 1)), np.zeros(0)).mass(lower, upper) == pytest.approx(bare.mass(lower, upper))


@pytest.mark.parametrize("size", [0.3, 2.0, 8.0])
def test_tilted_numbers_are_a_distribution(size: float) -> None:
    """Density, distribution function, masses, bands and mean against quadrature."""
    rng = np.random.default_rng(int(10 * size))
    tilt = size * rng.normal(size=(5, 5))
    ask, density = mixed(tilt), density_of(tilt)
    below = np.concatenate([np.zeros((5, 1)), cumulative_trapezoid(density, FINE, axis=1)], axis=1)
    some = np.arange(0, len(FINE), 400)
    np.testing.assert_allclose(ask.below(FINE[some]), below[:, some], atol=2e-3)
    for place in rng.integers(len(FINE) // 3, 2 * len(FINE) // 3, 40):
        logs, own = ask.density(np.full(5, FINE[place]))
        np.testing.assert_allclose(np.exp(logs), density[:, place], rtol=1e-2, atol=1e-6)
        np.testing.assert_allclose(own, below[:, place], atol=2e-3)
    chance = np.diff(ask.below(EDGES), prepend=0, append=1)
    plain = mixed(None).split(EDGES) * np.exp(tilt)
    np.testing.assert_allclose(chance, plain / plain.sum(axis=1, keepdims=True), atol=1e-9)
    found = ask.number()
    np.testing.assert_allclose(found.mean, np.trapezoid(density * FINE, FINE, axis=1), atol=1e-2)
    assert (np.diff(found.distribution, axis=1) >= 0).all()
    for level in (0.1, 0.5, 0.9):
        z = found.quantile(level)
        np.testing.assert_allclose([np.interp(z[i], FINE, below[i]) for i in range(5)], level, atol=0.01)


def test_masses_are_differences() -> None:
    """Inside one band, over several, from an edge to an edge and with open ends."""
    rng = np.random.default_rng(0)
    tilt = 2 * rng.normal(size=(5, 5))
    ask = mixed(tilt)
    ends: list[tuple[float, float]] = [tuple(np.sort(rng.normal(size=2) * 1.5)) for _ in range(60)]
    ends += [(-np.inf, np.inf), (-np.inf, 0.0), (0.1, np.inf), (-0.3, 0.2), (-1.1, 0.9), (-np.inf, -1.1), (0.9, np.inf)]
    ends += [(-0.2, 0.1), (-0.3, -0.2), (0.1, 0.2), (-0.2999, 0.1999), (-0.3001, 0.2001)]
    for low, high in ends:
        at = np.asarray([low, high]).clip(-50, 50)
        expected = np.diff(ask.below(at), axis=1)[:, 0]
        np.testing.assert_allclose(ask.mass(np.full(5, low), np.full(5, high)), expected, atol=1e-5)
    every = np.asarray(ends)[rng.permutation(len(ends))[:5]]
    one = [ask.mass(np.full(5, low), np.full(5, high))[line] for line, (low, high) in enumerate(every)]
    np.testing.assert_allclose(ask.mass(every[:, 0], every[:, 1]), one)


def test_a_small_mass_across_an_edge_is_not_lost() -> None:
    """Differences of two probabilities near one have no digits left."""
    ask = mixed(np.zeros((5, 2)), np.asarray([7.0]))
    expected = mixed(None).mass(np.full(5, 6.9), np.full(5, 7.1))
    assert expected.min() < 1e-15
    np.testing.assert_allclose(ask.mass(np.full(5, 6.9), np.full(5, 7.1)), expected, rtol=1e-6, atol=1e-29)


def test_effects_without_measure_are_finite() -> None:
    ask = mixed(np.asarray([[60.0, -60, 0, 0, 60]] * 5))
    z = np.linspace(-6, 6, 5)
    assert np.isfinite(ask.density(z)).all()
    below = ask.below(FINE[::50])
    assert (np.diff(below, axis=1) >= -1e-9).all()
    assert ((below >= 0) & (below <= 1)).all()


def test_bands_of_cells() -> None:
    edges = np.asarray([-1.0, 0.0, 1.0])
    inf = np.inf
    lower = np.asarray([-2.0, -1.0, -1.0, -0.5, 0.0, -inf, -inf, 1.0, 0.9997, 1.0001, -inf, 0.5, 1.0])
    upper = np.asarray([-1.5, -0.5, 0.0, 0.5, 0.0, -1.0, 0.5, inf, 1.0002, 1.0011, inf, 0.5, 1.0])
    np.testing.assert_array_equal(codes(lower, upper, edges), [0, 1, 1, -1, 1, 0, -1, 3, 2, 3, -1, 2, 2])


def test_named_bands_and_their_number_have_the_same_effects() -> None:
    """Probabilities of the labels of `Banded` are those of its number between their ends."""
    ends = {"low": (None, 10), "mid": (10, 20), "high": (20, 40), "top": (40, None)}
    cells = ["low"] * 10 + ["mid"] * 20 + ["high"] * 8 + ["top"] * 5
    for transform in (None, "rank-normal"):
        column: Any = tb.Schema({"q": tb.Banded(ends, transform=transform)}).fit({"q": cells})["q"]
        ask = mixed(np.random.default_rng(0).normal(size=(5, 4)), column.effect_edges)
        chance = column.form.probabilities(ask)
        np.testing.assert_allclose(np.diff(ask.below(column.effect_edges), prepend=0, append=1), chance, atol=1e-9)
        lower, upper = column.standard_edges
        for band in range(4):
            found = ask.mass(np.full(5, lower[band]), np.full(5, upper[band]))
            np.testing.assert_allclose(found, chance[:, band], atol=1e-9)
