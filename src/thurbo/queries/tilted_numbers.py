"""§4.3 Predicted numbers with direct effects: bands get other probabilities, the distribution inside each stays.

With ratio r_k of the new to the old probability of band k, P′(z ≤ t) = (new probability of the bands below) + r_k times
what the old distribution has of band k up to t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.measured import NARROWEST

LEAST_CHANCE = 1e-30
SLACK = 1e-6  # in standard units: an end this close to an edge is the edge


class TiltedNumbers(NamedTuple):
    """How the bands of a number change: of each line and band, P′(z ≤ t) = offset + ratio · P(z ≤ t)."""

    edges: np.ndarray  # between the bands, in standard units
    ratio: np.ndarray  # [line, band]
    offset: np.ndarray  # [line, band]
    before: np.ndarray  # [line, band] new probability of all lower bands

    @classmethod
    def of(cls, below: np.ndarray, tilt: np.ndarray, edges: np.ndarray) -> TiltedNumbers:
        """From P(z ≤ edge), [line, edge], and what is added to the log-probabilities of the bands, [line, band]."""
        ends = np.concatenate([np.zeros((len(below), 1)), below, np.ones((len(below), 1))], axis=1)
        logs = np.log(np.maximum(np.diff(ends, axis=1), LEAST_CHANCE))
        raised = np.exp(logs + tilt - (logs + tilt).max(axis=1, keepdims=True))
        chance = raised / raised.sum(axis=1, keepdims=True)
        ratio = chance / np.exp(logs)
        before = np.concatenate([np.zeros((len(below), 1)), np.cumsum(chance, axis=1)[:, :-1]], axis=1)
        return cls(edges, ratio, before - ratio * ends[:, :-1], before)

    def below(self, z: np.ndarray, below: np.ndarray) -> np.ndarray:
        """P′(· ≤ z) at common numbers from P(· ≤ z), [line, number]."""
        band = np.searchsorted(self.edges, z)
        return np.clip(self.offset[:, band] + self.ratio[:, band] * below, 0.0, 1.0)

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ratio and offset at one number for each line."""
        lines, band = np.arange(len(z)), np.searchsorted(self.edges, z)
        return self.ratio[lines, band], self.offset[lines, band]


def codes(lower: np.ndarray, upper: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The band that contains each interval or point, −1 if it is not inside one.

    An interval that was widened for single precision is where its middle is.
    """
    width = np.where(np.isfinite(upper) & np.isfinite(lower), upper - lower, np.inf)
    is_narrow = width < 1.5 * NARROWEST
    low = lower + np.where(is_narrow, width / 2, SLACK)
    first, last = np.searchsorted(edges, low), np.searchsorted(edges, np.where(is_narrow, low, upper - SLACK))
    return np.where(first == last, first, -1)


def bands(block: Block, edges: np.ndarray) -> np.ndarray:
    """The band of each cell, −1 where it is not known."""
    found = codes(block.lower[:, 0], block.upper[:, 0], edges)
    return np.where(block.observed[:, 0], found, -1)
