"""Functions of moments in NumPy against the compiled ones, and against each other."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from thurbo.predict import moments as distributions


def _moments(n_rows: int, n_sites: int, spread: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_sites)
    return spread * rng.normal(size=(n_rows, n_sites)), 1.0 + rng.random((n_rows, n_sites))


POINTS = np.linspace(-9.0, 9.0, 7)
CUTS = np.array([-12.0, -1.0, 0.0, 1e-3, 8.0, np.inf])
CASES = {
    "levels": (distributions.levels, (distributions.ends(CUTS),), ()),
    "levels by line": (distributions.levels, (), (distributions.ends(CUTS + np.arange(7)[:, None]),)),
    "below": (distributions.below, (POINTS,), ()),
    "density": (distributions.density, (), (POINTS,)),
    "mass": (distributions.mass, (), (POINTS, POINTS + 1.0)),
    "two moments": (distributions.two_moments, (), ()),
}


@pytest.mark.parametrize("name", CASES)
def test_numpy_and_compiled_functions_agree(name):
    function, shared, rowwise = CASES[name]
    moments = _moments(7, 1)
    compiled = distributions.in_portions(partial(distributions.of_moments, function, shared), *moments, *rowwise)
    found = distributions.at_moments(function, shared, *moments, *rowwise)
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, compiled)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize(("n_labels", "spread"), [(2, 1.0), (2, 20.0), (9, 2.0), (40, 1.0)])
def test_one_of_the_labels_is_the_largest(n_labels, spread):
    moments = _moments(16, n_labels, spread)  # as many as one portion has
    chance, mean = distributions.largest_by_quadrature(*moments)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, atol=1e-8)
    assert mean is moments[0]
    compiled, _ = distributions.in_portions(partial(distributions.of_moments, distributions.largest, ()), *moments)
    likely = compiled > 1e-12
    np.testing.assert_allclose(chance[likely], compiled[likely], rtol=1e-5)


def test_two_labels_have_a_closed_form():
    from scipy.special import ndtr

    mean, deviation = _moments(50, 2, 5.0)
    found = distributions.largest_by_quadrature(mean, deviation)[0][:, 0]
    exact = ndtr((mean[:, 0] - mean[:, 1]) / np.hypot(*deviation.T))
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_large_questions_are_compiled(monkeypatch):
    moments = _moments(30, 3)
    assert distributions.quadrature_suits(*moments)
    assert distributions.quadrature_suits(*(each[:0] for each in moments))
    before = distributions.at_moments(distributions.largest, (), *moments)[0]
    monkeypatch.setattr(distributions, "MOST_VALUES", 100)
    assert not distributions.quadrature_suits(*moments)
    np.testing.assert_allclose(distributions.at_moments(distributions.largest, (), *moments)[0], before, rtol=1e-6)
