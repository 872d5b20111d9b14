"""Offsets by which rows that are drawn cell by cell keep the shares of labels of the training table.

Small errors of each predictive distribution add up along a row, since later cells depend on drawn ones. A few pilot
samples show how far the shares of each column are off; the cuts of levels and the utilities of choices are then moved
until the mean probability of each label, over all pilot rows, is its share in the training table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

N_PILOT, N_PILOTS = 500, 14  # rows of a pilot sample, and their number
N_AVERAGED = 7  # of the last offsets
DAMPING = 0.25  # of each change: all columns move at once, and each one moves those that depend on it
REACH, N_HALVINGS = 12.0, 40  # of the search for a cut, in standard units
N_STEPS = 40  # of the search for utilities


@dataclass
class Offsets:
    """Cuts of levels by site of the model, and shifts of utilities; a pilot sample keeps the moments of its draws."""

    is_pilot: bool = False
    cuts: dict[int, np.ndarray] = field(default_factory=dict)
    shifts: dict[int, np.ndarray] = field(default_factory=dict)  # by first site
    drawn: dict[int, list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)

    def seen(self, first: int, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Take note of the moments with which the cells at some sites were drawn, [row, site]."""
        if self.is_pilot:
            self.drawn.setdefault(first, []).append((mean, deviation))

    def moved(self, first: int, x: np.ndarray, cuts: np.ndarray, strength: np.ndarray) -> np.ndarray:
        """Drawn latent values x [row, site] of one cell, moved so that they decode to the label that offsets give.

        `strength` [row] is 1 for offsets as they are, and 0 for none. `cuts` [site, cut] are those of the model.
        """
        if first in self.shifts:
            return x + strength[:, None] * self.shifts[first][None, :]
        if first not in self.cuts:
            return x
        own = cuts[0][: len(self.cuts[first])]
        moved = own[None, :] + strength[:, None] * (self.cuts[first] - own)[None, :]
        code = (x > moved).sum(axis=1)
        ends = np.concatenate([[own[0] - 2.0], own, [own[-1] + 2.0]])
        inside = 0.5 * (ends[code] + ends[code + 1])
        return np.where(code == (x[:, 0] > own[:, None]).sum(axis=0), x[:, 0], inside)[:, None]

    def learn(self, shares: Mapping[int, np.ndarray], cuts: np.ndarray, rng: np.random.Generator) -> Offsets:
        """Offsets nearer to the shares [label] of the cells at each first site, from the moments of a pilot sample.

        `cuts` [site, cut] are those of the model.
        """
        found = Offsets(is_pilot=True, cuts=dict(self.cuts), shifts=dict(self.shifts))
        for first, share in shares.items():
            if first not in self.drawn:  # nobody was asked this time
                continue
            mean, deviation = (np.concatenate(parts) for parts in zip(*self.drawn[first], strict=True))
            if mean.shape[1] == 1:
                old = self.cuts.get(first, cuts[first][: len(share) - 1])
                found.cuts[first] = old + DAMPING * (cuts_for(share, mean[:, 0], deviation[:, 0]) - old)
            elif mean.shape[1] == len(share):
                old = self.shifts.get(first, np.zeros(len(share)))
                wanted = shifts_for(share, mean + deviation * rng.standard_normal(mean.shape), old)
                found.shifts[first] = old + DAMPING * (wanted - old)
        return found


def average(found: Sequence[Offsets]) -> Offsets:
    """The mean of several offsets of the same cells, which has less noise of the pilot samples."""
    cuts = {
        first: np.mean([each.cuts[first] for each in found if first in each.cuts], axis=0) for first in found[-1].cuts
    }
    shifts = {
        first: np.mean([each.shifts[first] for each in found if first in each.shifts], axis=0)
        for first in found[-1].shifts
    }
    return Offsets(cuts=cuts, shifts=shifts)


def cuts_for(share: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Cuts at which the mean over rows of P(x below) is the share of the labels below, by bisection."""
    target = np.cumsum(share)[:-1]
    low, high = np.full(len(target), mean.min() - REACH), np.full(len(target), mean.max() + REACH)
    for _ in range(N_HALVINGS):
        middle = 0.5 * (low + high)
        below = ndtr((middle[None, :] - mean[:, None]) / deviation[:, None]).mean(axis=0)
        low, high = np.where(below < target, middle, low), np.where(below < target, high, middle)
    return 0.5 * (low + high)


def shifts_for(share: np.ndarray, x: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Shifts [label] of utilities x [row, label] at which each label is the largest in its share of the rows."""
    shift, n = start, len(x)
    for step in range(N_STEPS):
        found = np.bincount((x + shift).argmax(axis=1), minlength=len(share))
        error = np.log(share) - np.log((found + 0.5) / (n + 0.5 * len(share)))
        shift = shift + error / (2.0 + 0.2 * step)
    return shift - shift.mean()


def first_sites(
    shares: Mapping[str, np.ndarray], starts: Mapping[str, int], choices: Sequence[str]
) -> dict[int, np.ndarray]:
    """Shares [label] by the first site of each cell: a choice is one cell, and each site of a column of levels is."""
    found: dict[int, np.ndarray] = {}
    for name, own in shares.items():
        if name in choices:
            found[starts[name]] = own[0]
        else:
            found |= {starts[name] + site: share for site, share in enumerate(own)}
    return found
