"""Predictive distributions that are known: see `table.columns.forms.Ask`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from thurbo.predict.member import MemberAnswers as Asked
from thurbo.table.columns.forms.number import Distribution


class KnownAsk(Asked):
    """Mixtures of normal distributions in standard units, [answer, part] each."""

    lines: Any = None

    def __init__(self, weight: np.ndarray, mean: np.ndarray, deviation: np.ndarray):
        self.weight, self.means, self.deviation = weight, mean, deviation

    def below(self, z: np.ndarray) -> np.ndarray:
        distance = (np.asarray(z)[None, :, None] - self.means[:, None]) / self.deviation[:, None]
        return np.asarray((self.weight[:, None] * norm.cdf(distance)).sum(axis=2))

    @property
    def ends(self) -> tuple[float, float]:
        return -8.0, 8.0

    @property
    def mean(self) -> np.ndarray:
        return np.asarray((self.weight * self.means).sum(axis=1))

    def number(self) -> Distribution:
        grid = np.linspace(*self.ends, 1025)
        return Distribution(self.mean, grid, self.below(grid))

    def density(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = (self.weight * norm.pdf(z[:, None], self.means, self.deviation)).sum(axis=1)
        return np.log(own), (self.weight * norm.cdf(z[:, None], self.means, self.deviation)).sum(axis=1)

    def mass(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        low, high = ((end[:, None] - self.means) / self.deviation for end in (lower, upper))
        own = np.where(low > 0, norm.sf(low) - norm.sf(high), norm.cdf(high) - norm.cdf(low))  # exact in both tails
        return np.asarray((self.weight * own).sum(axis=1))


def asked(n: int, seed: int = 0) -> KnownAsk:
    """Mixtures of two normal distributions that are drawn at random."""
    rng = np.random.default_rng(seed)
    weight = rng.dirichlet([2, 2], size=n)
    return KnownAsk(weight, rng.normal(size=(n, 2)), rng.uniform(0.2, 1.3, (n, 2)))
