"""§4.3 The predictive distribution of a column's answers, given the rest of each row, under the whole model.

A weighted mean over members of what each says, followed by the correction that held-out answers have taught:
calibration towards the shares of labels, experts, and routing last. Every query reads it; forms
see one distribution and know nothing of members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from thurbo._concurrency import cached_property
from thurbo.predict.correction import LEAST_CHANCE, Anchor, TiltedNumbers, band_codes
from thurbo.predict.member import GRID_POINTS, MemberAnswers, between, normalised
from thurbo.table.columns.column import Column
from thurbo.table.columns.forms.number import Distribution

MOST_ROUNDS, TRIES = 200, 64  # of rejection sampling: rounds, and draws of each row in one of them


@dataclass(eq=False)
class Predictive:
    """The distribution of some answers to one question, one for each line: see `table.columns.forms.Ask`.

    Over labels, over a number (a distribution with knots and point masses), or over orders of items.
    """

    column: Column  # as the leading member reads it
    parts: Sequence[MemberAnswers]  # what each member says
    weights: np.ndarray  # of the members for this column
    _: KW_ONLY
    exponent: float = 1.0  # of probabilities
    anchor: Anchor | None = None
    emptiness: np.ndarray | float = 0.0  # [line] 1 without any other answer, falling with their number
    routing: np.ndarray | None = None  # [line, label] see `Query.routing`
    # By site: P(label) by members and trees from that by members, [line, label].
    experts: Mapping[int, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)
    edges: np.ndarray | None = None  # between the bands of a number, whose probabilities experts change
    bands_at: np.ndarray | None = None  # ends of the bands in which a number is drawn

    def __post_init__(self) -> None:
        self.lines, self._levels = self.parts[0].lines, dict[tuple[int, int], np.ndarray]()

    def probabilities(self) -> np.ndarray:
        """P(label), [line, label]: see `Form.probabilities`."""
        return self.column.form.probabilities(self)

    @property
    def entry(self) -> np.ndarray:
        return self.parts[0].entry

    def _mean(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(sum(weight * part for weight, part in zip(self.weights, parts, strict=True)))

    def _calibrated(self, chance: np.ndarray, site: int = 0) -> np.ndarray:
        """A power of what the evidence adds to the shares of labels; rows without evidence have these shares."""
        if self.exponent == 1.0 and self.anchor is None and self.routing is None and not self.experts:
            return chance
        power = self.exponent * (1.0 if self.anchor is None else self.anchor.credibility[site])
        logs = power * np.log(np.maximum(chance, 1e-30))
        if self.anchor is not None:
            logs = logs + (1.0 - power) * np.log(self.anchor.shares[site])
            logs = logs + np.asarray(self.emptiness).reshape(-1, 1) * self.anchor.tilt[site]
        return self._certain(softmax(logs, axis=1), site)

    def _certain(self, chance: np.ndarray, site: int = 0) -> np.ndarray:
        """Probabilities of labels with what experts say, and then with what is certain by routing."""
        found = self.experts[site](chance) if site in self.experts else chance
        if self.routing is not None and self.routing.shape == found.shape:
            return normalised(found * np.maximum(self.routing, LEAST_CHANCE))
        return found

    def levels(self, n_levels: int, site: int = 0) -> np.ndarray:
        """P(level) of one site, [line, level]: the calibrated mean over members. For a member with a utility for each
        level it is P(this one is the largest)."""
        if (n_levels, site) not in self._levels:
            parts = [each.largest()[0] if each.is_utility else each.levels(n_levels, site) for each in self.parts]
            self._levels[n_levels, site] = self._mean(parts)
        return self._calibrated(self._levels[n_levels, site], site)

    def labels(self, family: str) -> dict[int, np.ndarray]:
        """Probabilities of the labels of each site of a column with an anchor, [line, label] each."""
        assert self.anchor is not None
        if family == "utility":
            return {0: self.largest()[0]}
        n_sites, n_levels = self.anchor.shares.shape
        return {site: self.levels(n_levels, site) for site in range(n_sites)}

    def _below(self, z: np.ndarray) -> np.ndarray:
        return self._mean([each.below(z) for each in self.parts])

    @cached_property
    def _numbers(self) -> TiltedNumbers | None:
        """What experts change about a number; None without any."""
        if self.edges is None or not self.experts:
            return None
        return TiltedNumbers.of(self._below(self.edges), self._certain, self.edges)

    def below(self, z: np.ndarray) -> np.ndarray:
        found = self._below(z)
        return found if self._numbers is None else self._numbers.below(z, found)

    def bands(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return self._certain(between(self._below(np.concatenate([lower, upper]))))

    def split(self, edges: np.ndarray) -> np.ndarray:
        """P(band) between and beyond some numbers, without experts: [line, band]."""
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        return between(self._below(np.concatenate([ends[:-1], ends[1:]])))

    def number(self) -> Distribution:
        if len(self.parts) == 1 and self._numbers is None:
            return self.parts[0].number()
        low, high = zip(*(each.ends for each in self.parts), strict=True)
        grid, mean = np.linspace(min(low), max(high), GRID_POINTS), self._mean([each.mean for each in self.parts])
        found = Distribution(mean, grid, np.maximum.accumulate(self.below(grid), axis=1))
        return found if self._numbers is None else found._replace(mean=found.average(lambda z: z))

    def density(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = [each.density(z) for each in self.parts]
        logs = logsumexp(np.stack([each[0] for each in own]), axis=0, b=self.weights[:, None])
        below = self._mean([each[1] for each in own])
        if self._numbers is None:
            return logs, below
        ratio, offset = self._numbers.at(z)
        return logs + np.log(np.maximum(ratio, LEAST_CHANCE)), np.clip(offset + ratio * below, 0.0, 1.0)

    def mass(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        found = self._mass(lower, upper)
        if self._numbers is None:
            return found
        edges, ratio, before = self._numbers.edges, self._numbers.ratio, self._numbers.before
        lines, band = np.arange(len(lower)), band_codes(lower, upper, edges)
        own = found * ratio[lines, band]
        if (band >= 0).all():
            return own
        # Over several bands: what is in the first, all of those between, and what is in the last.
        first, last = np.searchsorted(edges, lower), np.searchsorted(edges, upper)
        start = self._mass(lower, np.minimum(upper, edges[np.minimum(first, len(edges) - 1)]))
        end = self._mass(np.maximum(lower, edges[np.maximum(last - 1, 0)]), upper)
        between_them = before[lines, last] - before[lines, np.minimum(first + 1, len(edges))]
        wide = ratio[lines, first] * start + between_them + ratio[lines, last] * end
        return np.where(band >= 0, own, np.maximum(wide, LEAST_CHANCE))

    def _mass(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return self._mean([each.mass(lower, upper) for each in self.parts])

    def utility(self) -> tuple[np.ndarray, np.ndarray]:
        own = [each.utility() for each in self.parts]
        mean = self._mean([each[0] for each in own])
        second = self._mean([each[1] ** 2 + each[0] ** 2 for each in own])
        return mean, np.sqrt(np.maximum(second - mean**2, 1e-12))

    @cached_property
    def _largest(self) -> tuple[np.ndarray, np.ndarray]:
        own = [each.largest() for each in self.parts]
        return self._mean([each[0] for each in own]), self._mean([each[1] for each in own])

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        chance, mean = self._largest
        return self._calibrated(chance), mean

    def above(self, one: int, two: int) -> np.ndarray:
        """P(item above another item), [row]: a mean over members of what each integrates over its hidden layer."""
        return self._mean([each.above(one, two) for each in self.parts])

    def _log_orders(self, tier: np.ndarray) -> np.ndarray:
        logs = np.stack([each.orders(tier) for each in self.parts])
        return np.asarray(logsumexp(logs, axis=0, b=self.weights[:, None]))

    def orders(self, tier: np.ndarray) -> np.ndarray:
        """log P(order), [row] or [task]; the first of all items has the calibrated probability."""
        logs = self._log_orders(tier)
        if self.column.is_listed or not len(tier):
            return logs
        mixed, calibrated = self._largest[0], self.largest()[0]
        if calibrated is mixed:
            return logs
        ratio = calibrated / np.maximum(mixed, LEAST_CHANCE)
        best, change = tier.max(axis=1, keepdims=True), np.log(np.maximum(ratio, LEAST_CHANCE))
        top = (tier == best) & (tier >= 0).all(axis=1, keepdims=True) & (best > 0)
        if (top.sum(axis=1) <= 1).all():
            return logs + (change * top).sum(axis=1)
        # Who of several is first is not said: a sum over all of them.
        parts = [self._log_orders(tier + top * own) + change @ own for own in np.eye(tier.shape[1], dtype=tier.dtype)]
        several = logsumexp(np.where(top, np.stack(parts, axis=1), -np.inf), axis=1)
        return np.where(top.sum(axis=1) > 1, several, logs + (change * top).sum(axis=1))

    def draw_orders(self, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Utilities [row, item] of one draw of each row, in which the item `first` [row] is the largest.

        By rejection, from a member that is chosen by its weight and by how probable it finds this item.
        """
        rows = np.arange(len(first))
        chance = np.stack([each.largest()[0][rows, first] for each in self.parts], axis=1) * self.weights
        reached, n_members = chance.cumsum(axis=1), len(self.parts)
        member = (reached < rng.random((len(first), 1)) * reached[:, -1:]).sum(axis=1).clip(max=n_members - 1)
        every = np.asarray([each.moments_of_x for each in self.parts], np.float64)
        mean, deviation = every[member, :, rows].swapaxes(0, 1)
        found, left = mean.copy(), rows
        for _ in range(MOST_ROUNDS):
            noise = rng.standard_normal((len(left), TRIES, mean.shape[1]))
            x = mean[left, None, :] + deviation[left, None, :] * noise
            hit = x.argmax(axis=2) == first[left, None]
            done = hit.any(axis=1)
            found[left[done]] = x[done, hit[done].argmax(axis=1)]
            left = left[~done]
            if not len(left):
                return found
        found[left, first[left]] = found[left].max(axis=1) + deviation[left, first[left]]
        return found


def drawn_codes(chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One label of each line, drawn with the probabilities [line, label].

    The uniform numbers of the lines are in strata of equal size, in random order: shares of labels among many lines are
    closer to their probabilities than those of independent draws.
    """
    reached, n = np.cumsum(chance, axis=1), len(chance)
    uniform = (rng.permutation(n) + rng.random(n)) / max(n, 1)
    draw: Any = uniform[:, None] * reached[:, -1:]
    return np.asarray((reached <= draw).sum(axis=1).clip(max=chance.shape[1] - 1))
