"""Brute force in NumPy and SciPy, float64, written from the definitions and from nothing in thurbo: what tests trust.

A small model is a dictionary of arrays; evidence is a list of intervals (or points) per row, None where a site is free
and "absent" where it is no variable of that row.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp
from scipy.stats import multivariate_normal, norm


@dataclass
class Model:
    alpha: np.ndarray
    W: np.ndarray
    gamma: np.ndarray
    V: np.ndarray

    @property
    def states(self) -> np.ndarray:
        return np.array(list(itertools.product([0.0, 1.0], repeat=len(self.gamma)))).reshape(-1, len(self.gamma))

    def mean(self, h: np.ndarray) -> np.ndarray:
        return self.alpha + self.W @ h

    def log_omega(self, h: np.ndarray, present: np.ndarray) -> float:
        """γᵀh + ½‖m_M(h)‖²."""
        return float(self.gamma @ h + 0.5 * (self.mean(h)[present] ** 2).sum())

    def log_prior(self, present: np.ndarray) -> np.ndarray:
        value = np.array([self.log_omega(h, present) for h in self.states])
        return value - logsumexp(value)


def log_interval(mean: float, lower: float, upper: float) -> float:
    """log[Φ(upper − mean) − Φ(lower − mean)], from the tail in which it is small."""
    a, b = lower - mean, upper - mean
    if a > 0:
        a, b = -b, -a
    return float(log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))) if a > -np.inf else float(log_ndtr(b))


def log_mass_given(model: Model, h: np.ndarray, lower: np.ndarray, upper: np.ndarray, point: np.ndarray) -> float:
    """log P(e | h): x ~ N(m(h), I + VVᵀ) in a box, some coordinates known exactly. Factors by the Gaussian itself."""
    mean = model.mean(h)
    confined = np.isfinite(lower) | np.isfinite(upper)
    if model.V.shape[1] == 0:
        return sum(
            float(norm.logpdf(lower[i], mean[i])) if point[i] else log_interval(mean[i], lower[i], upper[i])
            for i in np.flatnonzero(confined | point)
        )
    covariance = np.eye(len(mean)) + model.V @ model.V.T
    p, b = np.flatnonzero(point), np.flatnonzero(confined & ~point)
    total = 0.0
    if len(p):
        total += multivariate_normal.logpdf(lower[p], mean[p], covariance[np.ix_(p, p)])
    if len(b):
        gain = covariance[np.ix_(b, p)] @ np.linalg.inv(covariance[np.ix_(p, p)]) if len(p) else np.zeros((len(b), 0))
        centre = mean[b] + gain @ (lower[p] - mean[p])
        spread = covariance[np.ix_(b, b)] - gain @ covariance[np.ix_(p, b)]
        mass = multivariate_normal.cdf(
            upper[b], centre, spread, lower_limit=lower[b], abseps=1e-8, releps=1e-8, maxpts=100_000
        )
        total += float(np.log(mass))
    return float(total)


def log_joint(model, lower, upper, point, present) -> np.ndarray:
    """log P(h) + log P(e | h) for every h, one row of evidence."""
    prior = model.log_prior(present)
    mass = [log_mass_given(model, h, lower, upper, point) for h in model.states]
    return prior + np.array(mass)


def log_evidence(model, lower, upper, point, present) -> float:
    return float(logsumexp(log_joint(model, lower, upper, point, present)))


def posterior(model, lower, upper, point, present) -> np.ndarray:
    """P(h_k = 1 | e)."""
    joint = log_joint(model, lower, upper, point, present)
    return np.exp(joint - logsumexp(joint)) @ model.states
