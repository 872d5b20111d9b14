"""Tasks: an answer orders the items that one comparison shows; a row has several, each with noise of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtri

from thurbo.columns.block import Block, Entries
from thurbo.columns.cells import BoolArray, FloatArray
from thurbo.columns.forms import items
from thurbo.columns.forms.form import Answers, Ask, Profile, Start, Trial, line_weight
from thurbo.columns.forms.levels import item_answers, item_profile
from thurbo.columns.forms.scores import LEAST_CHANCE, Tested
from thurbo.columns.forms.utilities import OrderForm

if TYPE_CHECKING:
    from thurbo.columns.column import Column

CLOSER_SCALE = float(np.sqrt(6.0) / np.pi)  # utilities with normal noise per utility with Gumbel noise
PRIOR_TASKS = 1.0  # tasks that pull the utility of each item to zero in the baseline
N_STEPS = 50


class TaskForm(OrderForm):
    """Comparisons of shown items. A predicted cell orders the items that its row compares."""

    def values(self, column: Column, ask: Ask, statistic: str) -> NDArray[Any]:
        return ask.utility()[0]

    def log_prob(self, column: Column, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """log P(order) of each task, [task]; the lines are those of whole tasks."""
        return ask.orders(block.tier[:, 0].reshape(-1, _size(block)))

    def scorable(self, column: Column, block: Block) -> BoolArray:
        return block.observed[:, 0]

    def mask(self, column: Column, block: Block, masked: BoolArray, rng: np.random.RandomState) -> BoolArray:
        """Whole tasks: those whose first line was drawn."""
        return np.repeat(_by_task(block, masked)[:, 0], _size(block))

    def together(self, column: Column, block: Block, lines: BoolArray, rng: np.random.RandomState) -> NDArray[Any]:
        """The lines of a task are masked together."""
        some = np.repeat(_by_task(block, lines).any(axis=1), _size(block))
        return np.where(some, block.task, -1)

    def test(self, column: Column, trial: Trial) -> list[Tested]:
        """The probability of each masked task; the baseline has one utility for each item, the same for all rows."""
        block, lines = trial.block, trial.masked
        assert block.entries is not None
        size = _size(block)
        if not len(lines):
            return []
        tier = block.tier[lines, 0].reshape(-1, size)
        site = block.entries.site[lines].reshape(-1, size)
        shown = ~trial.is_masked
        usual, log_tie, log_win = _usual(block, shown, trial.weight), *_of_ties(block, shown, trial.weight)
        alone = log_plackett_luce(usual[site], tier) + np.where(tier.max(axis=1) > 0, log_win, log_tie)
        scores = {"": trial.ask.orders(tier), "_marginal": alone}
        scores = {rival: np.maximum(each, np.log(LEAST_CHANCE)) for rival, each in scores.items()}
        mean = trial.ask.utility()[0].reshape(-1, size)
        right = {"": _is_right(mean, tier), "_marginal": _is_right(usual[site], tier)}
        weight, row = trial.weight[lines].reshape(-1, size)[:, 0], trial.row.reshape(-1, size)[:, 0]
        return [Tested.of(trial.name, column, "task", row, weight, score=scores, right=right)]

    def features(self, column: Column, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        once, place = _averaged(block, shown)
        return items.features(once, place, np.ones(len(place), bool))

    def answers(self, column: Column, name: str, block: Block) -> Answers:
        once, place = _averaged(block)
        return item_answers(column, name, once, place, ())

    def profile(self, column: Column, block: Block) -> Profile:
        once, place = _averaged(block)
        return item_profile(column, once, place, None)._replace(to_user=lambda place: place)

    def start(self, column: Column, block: Block, weight: FloatArray) -> Start:
        """The utilities of a model without differences between rows, and the threshold of ties at their share."""
        assert block.tasks is not None
        lines = line_weight(block, weight)
        utility = _usual(block, np.ones(len(lines), bool), lines)
        if block.tasks.noise == "normal":
            utility = utility * CLOSER_SCALE
        scale = 1.0
        if block.tasks.has_ties:
            share = float(np.exp(_of_ties(block, np.ones(len(lines), bool), lines)[0]))
            scale = np.sqrt(2.0) * float(ndtri(0.5 + 0.5 * share))
        return Start(np.zeros((len(block.sites), 0)), utility - utility.mean(), scale)


def _size(block: Block) -> int:
    assert block.tasks is not None
    return block.tasks.size


def _by_task(block: Block, lines: NDArray[Any]) -> NDArray[Any]:
    return lines.reshape(-1, _size(block))


def _standing(block: Block) -> FloatArray:
    """Position of each line in its task, from −1 (last) to 1 (first), 0 for padding: [line]."""
    tier = _by_task(block, block.tier[:, 0]).astype(np.float64)
    top = np.maximum(tier.max(axis=1, keepdims=True, initial=0), 1.0)
    is_tie = tier.max(axis=1, keepdims=True, initial=0) == 0
    return np.where((tier >= 0) & ~is_tie, 2.0 * tier / top - 1.0, 0.0).reshape(-1)


def _averaged(block: Block, shown: BoolArray | None = None) -> tuple[Block, FloatArray]:
    """Each item of a row once, with its mean position over the row's tasks: the list of items, and [line]."""
    assert block.entries is not None
    kept = block.observed[:, 0] if shown is None else block.observed[:, 0] & shown
    row, site, n_sites = block.entries.row[kept], block.entries.site[kept], max(len(block.sites), 1)
    key, place = np.unique(row * n_sites + site, return_inverse=True)
    total = np.bincount(place, _standing(block)[kept], minlength=len(key))
    mean = total / np.maximum(np.bincount(place, minlength=len(key)), 1)
    start = np.searchsorted(key // n_sites, np.arange(block.n_rows + 1))
    entries = Entries(start.astype(np.int64), (key % n_sites).astype(np.int32))
    tier = np.zeros((len(key), 1), np.int32)
    nothing: dict[str, Any] = {
        "lower": tier - np.inf,
        "upper": tier + np.inf,
        "point": np.zeros(tier.shape, bool),
        "code": tier - 1,
    }
    jacobian, one_of = np.zeros(len(key)), np.zeros(len(key), bool)
    return (
        replace(
            block, **nothing, code_high=tier - 1, tier=tier, log_jacobian=jacobian, one_of=one_of, entries=entries,
            tasks=None,
        ),
        mean,
    )  # fmt: skip


def _is_right(utility: FloatArray, tier: NDArray[Any]) -> FloatArray:
    """1 if an item of the best tier has the largest utility, [task]; of ties a half."""
    part = np.where(tier >= 0, utility, -np.inf)
    top, last = part.max(axis=1, keepdims=True), tier.max(axis=1, keepdims=True)
    best = (part == top) & (tier >= 0)
    hit = (best & (tier == last)).sum(axis=1) / np.maximum(best.sum(axis=1), 1)
    return np.where(last[:, 0] > 0, hit, 0.5)


def log_plackett_luce(utility: FloatArray, tier: NDArray[Any]) -> FloatArray:
    """log P(order) of tasks [task, item] with Gumbel noise; tied items follow in any order, each with the same share.

    Ties alone have probability one: the baseline does not model them.
    """
    part = tier >= 0
    strength = np.where(part, np.exp(np.clip(utility, -30, 30)), 0.0)
    total = np.zeros(len(tier))
    for level in range(1, int(tier.max(initial=0)) + 1):
        own = tier == level
        below = np.where(part & (tier <= level), strength, 0.0).sum(axis=1)
        count, log_own = own.sum(axis=1), np.where(own, np.log(np.maximum(strength, 1e-300)), 0.0).sum(axis=1)
        # Efron's form: the items of a tier leave the set one after another, each with its mean strength.
        mine = np.where(own, strength, 0.0).sum(axis=1)
        for step in range(int(count.max(initial=0))):
            left = below - step * mine / np.maximum(count, 1)
            total = total - np.where(step < count, np.log(np.maximum(left, 1e-300)), 0.0)
        total = total + log_own + gammaln(count + 1.0)  # in any of the orders
    return total


def _of_ties(block: Block, shown: BoolArray, weight: FloatArray) -> tuple[float, float]:
    """log of the share of shown pairs that are ties, and of those that are not, half a pair added: 0 without ties."""
    assert block.tasks is not None
    if not block.tasks.has_ties:
        return 0.0, 0.0
    tier = _by_task(block, block.tier[:, 0])
    counts = _by_task(block, weight * shown)[:, 0] * (tier.min(axis=1) >= 0)
    tied = tier.max(axis=1) == 0
    tie, win = (float(counts @ which) + 0.5 for which in (tied, ~tied))
    return float(np.log(tie / (tie + win))), float(np.log(win / (tie + win)))


def _usual(block: Block, shown: BoolArray, lines: FloatArray) -> FloatArray:
    """One utility for each item, by maximum likelihood of the shown tasks with Gumbel noise and a weak prior: [item].

    Bradley–Terry for pairs, a multinomial logit for choices; by gradient steps with a diagonal preconditioner.
    """
    assert block.entries is not None
    size, kept = _size(block), _by_task(block, shown & block.observed[:, 0]).any(axis=1)
    tier = _by_task(block, block.tier[:, 0])[kept]
    site, weight = _by_task(block, block.entries.site)[kept], _by_task(block, lines)[kept][:, :1]
    n_sites = len(block.sites)
    utility = np.zeros(n_sites)
    if not len(tier):
        return utility
    best = tier == tier.max(axis=1, keepdims=True)
    best &= tier.max(axis=1, keepdims=True) > 0
    part = (tier >= 0) & best.any(axis=1, keepdims=True)
    count = best.sum(axis=1, keepdims=True)
    for _ in range(N_STEPS):
        strength = np.where(part, np.exp(np.clip(utility[site], -30, 30)), 0.0)
        chance = strength / np.maximum(strength.sum(axis=1, keepdims=True), 1e-300)
        slope = weight * np.where(part, best - count * chance, 0.0)
        curve = weight * np.where(part, count * chance * (1.0 - chance), 0.0)
        gradient = np.bincount(site.reshape(-1), slope.reshape(-1), minlength=n_sites) - PRIOR_TASKS * utility
        curvature = np.bincount(site.reshape(-1), curve.reshape(-1), minlength=n_sites) + PRIOR_TASKS
        utility = utility + np.clip(gradient / curvature, -1.0, 1.0) * (0.7 if size > 2 else 0.5)
    return utility
