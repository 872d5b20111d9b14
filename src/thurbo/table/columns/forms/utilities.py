"""Utilities: an answer compares sites, §3.2: a choice of one label, an order with ties, or a task.

Orders are used for one question of a table (every item has a site in every row) and for lists of few items out of
many; a task orders the items that it shows, with noise of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, ndtri

from thurbo.table.columns.cells import Block, BoolArray, Entries, FloatArray, IntArray
from thurbo.table.columns.forms import form
from thurbo.table.columns.forms.form import Answers, Ask, ByRival, Columns, Form, LabelForm, Profile, Tested, Trial

COMMON_SHARE, MOST_SHRINKAGE = 0.5, 50.0  # of the answers that a label has
MOST_DRAWS = 50  # of orders, until they agree with what is known
MOST_PAIRS = 20_000  # maximum of shown pairs to fit the slope of the baseline
CLOSER_SCALE = float(np.sqrt(6.0) / np.pi)  # utilities with normal noise per utility with Gumbel noise


class ChoiceForm(LabelForm):
    """One label is preferred to all others: the largest utility."""

    asks_rows = True
    part_labels = ("not chosen", "chosen")
    prefix = ""

    def probabilities(self, ask: Ask) -> FloatArray:
        """P(label is preferred to all others), [row, label]."""
        return ask.largest()[0]

    def cells(self, name: str, ask: Ask, statistic: str) -> Columns:
        form.check_statistic(statistic)
        return super().cells(name, ask, statistic if self.column.has_order else "mode")

    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """log P(the label), of one of several their sum; of other orders the log-probability of the order."""
        chance, which = ask.largest()[0], block.label
        own = np.where(block.one_of[:, None], block.tier == 1, which[:, None] == np.arange(chance.shape[1]))
        found = form.log_of((chance * own).sum(axis=1))
        other = ~block.one_of & (which < 0)
        return np.where(other, ask.orders(block.tier), found) if other.any() else found

    def outcomes(self, ask: Ask, part: int = 0) -> FloatArray:
        """P(label), without categories that join several answers: no cell is filled with these."""
        chance = ask.largest()[0] * self.column.is_named
        return chance / chance.sum(axis=1, keepdims=True)

    def allowed(self, block: Block, outcomes: FloatArray, part: int = 0) -> BoolArray:
        """Labels that no other one is stated to be above."""
        return (block.tier < 0) | (block.tier == block.tier.max(axis=1, keepdims=True))

    def test(self, trial: Trial) -> list[Tested]:
        return self._test_favourite(trial, trial.name, "label", trial.ask.largest()[0])

    def _test_favourite(self, trial: Trial, about: str, answer: str, chance: FloatArray) -> list[Tested]:
        code = trial.block.label
        if not (code[trial.masked] >= 0).any():
            return []
        return [self._tested(trial, about, answer, code, form.label_rivals(trial, code, chance))]

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        return form.standing(block), block.takes_part.any(axis=1) & shown

    def answers(self, name: str, block: Block) -> Answers:
        """As a whole the preferred label, and a yes or no for each label."""
        is_best = best(block)
        which = np.where((is_best == 1).any(axis=1), (is_best == 1).argmax(axis=1), np.nan).astype(float)
        labels, parts = tuple(map(form.word, self.column.texts)), self._parts(name, block, is_best, self.part_labels)
        found = self._answers(name, labels, which, parts=parts, answered=block.answered)
        return found._replace(has_order=self.column.has_order, prefix=self.prefix)

    def profile(self, block: Block) -> Profile:
        return Profile(self.column.texts, best(block))

    def start(self, block: Block, weight: FloatArray) -> form.Start:
        return form.Start(np.zeros((len(block.sites), 0)), starting_utilities(block.tier, weight))

    def shares(self, block: Block, weight: FloatArray) -> FloatArray | None:
        which = block.label
        counts = np.bincount(which[which >= 0], weight[which >= 0], len(block.sites)) + 0.5
        return counts[None, :] / counts.sum()

    def shrinkage(self, block: Block, weight: FloatArray) -> FloatArray:
        """In inverse proportion to the share of a label, if that is below a half: few answers are about a rare one."""
        known = weight * (block.tier >= 0).any(axis=1)
        share = known @ (block.tier > 0) / max(float(known.sum()), 1e-12)
        return np.clip(COMMON_SHARE / np.maximum(share, 1e-12), 1.0, MOST_SHRINKAGE)


class OrderForm(ChoiceForm):
    """Items from best to worst, ties allowed."""

    part_labels = ("not first", "first")
    prefix = "first: "

    def values(self, ask: Ask, statistic: str) -> NDArray[Any]:
        """Utilities of items in the listed layout; the order of all items otherwise."""
        return ask.utility()[0] if self.column.is_listed else self.column.decode(ask.largest()[1], *self._units)

    def cells(self, name: str, ask: Ask, statistic: str) -> Columns:
        form.check_statistic(statistic)
        return self.column.decode_columns(name, ask.largest()[1], *self._units)

    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        return ask.orders(block.tier)

    def drawn(self, name: str, ask: Ask, outcome: NDArray[Any], rng: Generator, within: Block | None = None) -> Columns:
        """The first item is given; utilities of all items are drawn until they agree with `within`."""
        x = np.array(ask.draw_orders(outcome, rng))
        if within is not None:
            for _ in range(MOST_DRAWS):
                wrong = ~_agrees(x, within.tier)
                if not wrong.any():
                    break
                x = np.where(wrong[:, None], ask.draw_orders(outcome, rng), x)
            for row in np.flatnonzero(~_agrees(x, within.tier)):  # the same utilities in the order of the tiers
                part = np.flatnonzero(within.tier[row] >= 0)
                place = np.lexsort((x[row, part], within.tier[row, part]))
                x[row, part[place]] = np.sort(x[row, part])
        return self.column.decode_columns(name, x, *self._units)

    def certainty(self, ask: Ask, values: NDArray[Any]) -> form.Certainty:
        """The probability that the first item is the best."""
        chance, mean = ask.largest()
        return form.Certainty("probability", np.take_along_axis(chance, mean.argmax(axis=1)[:, None], axis=1)[:, 0])

    def interval(self, ask: Ask, level: float) -> NDArray[Any]:
        """In the listed layout, an interval of the utility of each item: mean ± z standard deviations."""
        if not self.column.is_listed:
            return Form.interval(self, ask, level)
        mean, deviation = ask.utility()
        reach = ndtri(0.5 + 0.5 * level) * deviation
        return np.stack([mean - reach, mean + reach], axis=1)

    def from_latent(self, x: FloatArray, site: IntArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        return x

    def scorable(self, block: Block) -> BoolArray:
        return block.observed[:, 0] if block.entries is not None else (block.tier > 0).any(axis=1) & ~block.one_of

    def mask(self, block: Block, masked: BoolArray, rng: np.random.RandomState) -> BoolArray:
        """In a list, at least two entries of a row or none: a single entry has no pair."""
        if block.entries is None or not masked.any():
            return masked
        masked, start = masked.copy(), block.entries.start
        for row in np.flatnonzero(block.sum_in_row(masked) == 1):
            own = np.arange(start[row], start[row + 1])
            others = own[~masked[own] & block.observed[own, 0]]
            if len(others):
                masked[rng.choice(others)] = True
            else:
                masked[own] = False
        return masked

    def together(self, block: Block, lines: BoolArray, rng: np.random.RandomState) -> NDArray[Any]:
        """In a list, random pairs of a row's entries, the last three together if their number is odd."""
        if block.entries is None:
            return super().together(block, lines, rng)
        chosen = np.flatnonzero(lines)
        order = chosen[np.lexsort((rng.random_sample(len(chosen)), block.lists.row[chosen]))]
        row = block.lists.row[order]
        count = np.bincount(row, minlength=block.n_rows)
        place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
        pair = np.minimum(place // 2, np.maximum(count[row] // 2 - 1, 0))
        group = np.full(len(lines), -1)
        group[order] = np.where(count[row] > 1, row * (int(count.max(initial=0)) // 2 + 1) + pair, -1)
        return group

    def test(self, trial: Trial) -> list[Tested]:
        """The favourite, and every pair of ranked items; of lists, pairs of masked items."""
        if trial.block.entries is not None:
            return self._test_listed_pairs(trial)
        chance, mean = trial.ask.largest()
        found = self._test_favourite(trial, f"{trial.name}: favourite", "favourite", chance)
        return [*found, self._test_pairs(trial, mean)]

    def _test_pairs(self, trial: Trial, mean: FloatArray) -> Tested:
        """Accuracy on pairs of ranked items: by mean utility, mean position, and ridge regression of positions."""
        block, place = trial.block, form.standing(trial.block)
        shown = block.takes_part.any(axis=1) & ~trial.is_masked
        ranked = ((block.tier >= 0) & shown[:, None]) * trial.weight[:, None]
        usual = (place * ranked).sum(axis=0) / np.where(ranked.any(axis=0), ranked.sum(axis=0), 1.0)
        rivals = {"": mean, "_marginal": np.broadcast_to(usual, mean.shape)}
        regression = trial.ridge(np.where(block.tier >= 0, place, usual), shown)
        if regression is not None:
            rivals["_logistic"] = regression.mean
        number, better, worse = np.nonzero(_above(block.tier[trial.masked]))
        gaps = {rival: utility[number, better] - utility[number, worse] for rival, utility in rivals.items()}
        return self._tested_pairs(trial, number, gaps)

    def _test_listed_pairs(self, trial: Trial) -> list[Tested]:
        """Pairs of masked items of one row, with P(better above worse); the baseline is each item's mean position."""
        block, lines = trial.block, trial.masked
        mean, deviation = trial.ask.utility()
        better, worse = form.pairs_of(block.lists.row[lines], block.tier[lines, 0])
        if not len(better):
            return []
        usual, slope = _item_standings(trial)
        usual = usual[block.lists.site[lines]]
        gaps = {"": mean[better] - mean[worse], "_marginal": usual[better] - usual[worse]}
        apart = np.sqrt(deviation[better] ** 2 + deviation[worse] ** 2)
        scores = {"": log_ndtr(gaps[""] / apart), "_marginal": -np.logaddexp(0.0, -slope * gaps["_marginal"])}
        return [self._tested_pairs(trial, better, gaps, score=_floored(scores))]

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        if block.entries is None:
            return super().features(block, shown)
        return form.features(block, _position(block), shown)

    def answers(self, name: str, block: Block) -> Answers:
        if block.entries is None:
            return super().answers(name, block)
        return self._item_answers(name, block, _position(block))

    def profile(self, block: Block) -> Profile:
        if block.entries is None:
            return Profile(tuple(f"{text} first" for text in self.column.texts), best(block))
        return self._item_profile(block, _position(block), lambda place: place)

    def shares(self, block: Block, weight: FloatArray) -> FloatArray | None:
        return None

    def shrinkage(self, block: Block, weight: FloatArray) -> FloatArray:
        return np.ones(len(block.sites))

    def start(self, block: Block, weight: FloatArray) -> form.Start:
        if block.entries is None:
            return super().start(block, weight)
        shift = form.shifts(block, block.tier[:, 0].astype(np.float64), form.line_weight(block, weight))
        return form.Start(np.zeros((len(block.sites), 0)), shift)


def _floored(scores: ByRival) -> ByRival:
    return {rival: np.maximum(each, np.log(form.LEAST_CHANCE)) for rival, each in scores.items()}


def _position(block: Block) -> FloatArray:
    """Position of each line of a list in its row's order, from −1 (last) to 1 (first), NaN if it is not compared."""
    return np.where(block.tier[:, 0] >= 0, form.standing(block)[:, 0], np.nan)


def _agrees(x: FloatArray, tier: IntArray) -> BoolArray:
    """Whether utilities [row, item] are in the order of the tiers, [row]; items of tier −1 are not compared."""
    return np.asarray(~(_above(tier) & (x[:, :, None] <= x[:, None, :])).any(axis=(1, 2)))


def _above(tier: IntArray) -> BoolArray:
    """Which items are above which others, [row, item, item]; items of tier −1 are not compared."""
    return (tier[:, :, None] > tier[:, None, :]) & (tier[:, None, :] >= 0)


def best(block: Block) -> FloatArray:
    """1 for the label above all others that the row compares, 0 for one below another, NaN if unknown."""
    top = block.tier.max(axis=1, keepdims=True)
    at_top = (block.tier == top) & (top > 0)
    alone = (at_top.sum(axis=1) == 1) & ~block.one_of
    return np.select([(block.tier >= 0) & (block.tier < top), at_top & alone[:, None]], [0.0, 1.0], np.nan)


def starting_utilities(tier: IntArray, weight: FloatArray) -> FloatArray:
    """Utilities [site] with mean zero at which each label is preferred as often as observed.

    For a choice it is the scaled log share (the Gumbel model); for ranked items the log-odds of the mean position.
    `tier` is [row, site], −1 if a site is not ranked; the position is the tier divided by the row's highest tier.
    """
    top = tier.max(axis=1, keepdims=True)
    part = (tier >= 0) & (top > 0)
    own = weight[:, None] * part
    height = (own * np.where(part, tier, 0) / np.maximum(top, 1)).sum(axis=0)
    share = (height + 0.5) / (own.sum(axis=0) + 1.0)
    one_best = bool(((tier > 0).sum(axis=1) <= 1).all())
    bias = CLOSER_SCALE * np.log(share / (1.0 if one_best else 1.0 - share))
    return bias - bias.mean()


def _item_standings(trial: Trial) -> tuple[FloatArray, float]:
    """Mean position of each shown item, and the slope of the log-odds of a pair in their difference."""
    block = trial.block
    shown = ~trial.is_masked
    usual = form.shifts(block, form.standing(block)[:, 0], trial.weight * shown)
    kept = np.flatnonzero(shown)[: MOST_PAIRS // 4]
    better, worse = form.pairs_of(block.lists.row[kept], block.tier[kept, 0])
    gap = usual[block.lists.site[kept[better]]] - usual[block.lists.site[kept[worse]]]
    slope = 1.0
    for _ in range(30):  # Newton steps of a logistic regression with one slope and a weak prior
        chance = 1.0 / (1.0 + np.exp(-np.clip(slope * gap, -30, 30)))
        step = ((1.0 - chance) @ gap - 0.01 * slope) / ((chance * (1.0 - chance)) @ gap**2 + 0.01)
        slope += float(np.clip(step, -2.0, 2.0))
    return usual, slope


PRIOR_TASKS = 1.0  # tasks that pull the utility of each item to zero in the baseline
N_STEPS = 50


class TaskForm(OrderForm):
    """Comparisons of shown items. A predicted cell orders the items that its row compares."""

    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """log P(order) of each task, [task]; the lines are those of whole tasks."""
        return ask.orders(block.by_task(block.tier[:, 0]))

    def mask(self, block: Block, masked: BoolArray, rng: np.random.RandomState) -> BoolArray:
        """Whole tasks: those whose first line was drawn."""
        return block.by_task(masked)[block.task, 0]

    def together(self, block: Block, lines: BoolArray, rng: np.random.RandomState) -> NDArray[Any]:
        """The lines of a task are masked together."""
        return np.where(np.asarray(block.by_task(lines).any(axis=1))[block.task], block.task, -1)

    def test(self, trial: Trial) -> list[Tested]:
        """The probability of each masked task; the baseline has one utility for each item, the same for all rows."""
        block, lines = trial.block, trial.masked
        if not len(lines):
            return []
        tier, site = block.by_task(block.tier[lines, 0]), block.by_task(block.lists.site[lines])
        shown = trial.weight * ~trial.is_masked
        usual, log_tie, log_win = _usual(block, shown), *_of_ties(block, shown)
        alone = log_plackett_luce(usual[site], tier) + np.where(tier.max(axis=1) > 0, log_win, log_tie)
        scores = _floored({"": trial.ask.orders(tier), "_marginal": alone})
        mean = block.by_task(trial.ask.utility()[0])
        right = {"": _is_right(mean, tier), "_marginal": _is_right(usual[site], tier)}
        weight, row = block.by_task(trial.weight[lines])[:, 0], block.by_task(trial.row)[:, 0]
        return [Tested(trial.name, self.column.kind, "task", row, weight, score=scores, right=right)]

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        once, place = _averaged(block, shown)
        return form.features(once, place, np.ones(len(place), bool))

    def answers(self, name: str, block: Block) -> Answers:
        return self._item_answers(name, *_averaged(block))

    def profile(self, block: Block) -> Profile:
        return self._item_profile(*_averaged(block), lambda place: place)

    def start(self, block: Block, weight: FloatArray) -> form.Start:
        """The utilities of a model without differences between rows, and the threshold of ties at their share."""
        assert block.tasks is not None
        lines = form.line_weight(block, weight)
        utility = _usual(block, lines)
        if block.tasks.noise == "normal":
            utility = utility * CLOSER_SCALE
        share = np.exp(_of_ties(block, lines)[0])
        scale = float(np.sqrt(2.0) * ndtri(0.5 + 0.5 * share)) if block.tasks.has_ties else 1.0
        return form.Start(np.zeros((len(block.sites), 0)), utility - utility.mean(), scale)


def _averaged(block: Block, shown: BoolArray | None = None) -> tuple[Block, FloatArray]:
    """Each item of a row once, with its mean position over the row's tasks: the list of items, and [line]."""
    kept, n_sites = block.observed[:, 0] & (True if shown is None else shown), max(len(block.sites), 1)
    key, place = np.unique((block.lists.row * n_sites + block.lists.site)[kept], return_inverse=True)
    tier = block.by_task(block.tier[:, 0]).astype(np.float64)
    top = tier.max(axis=1, keepdims=True, initial=0)
    position = np.where((tier >= 0) & (top > 0), 2.0 * tier / np.maximum(top, 1.0) - 1.0, 0.0)  # 1 is the first
    mean = np.bincount(place, position.ravel()[kept], len(key)) / np.bincount(place, minlength=len(key))
    start = np.searchsorted(key // n_sites, np.arange(block.n_rows + 1))
    entries = Entries(start.astype(np.int64), (key % n_sites).astype(np.int32))
    return Block(block.sites, tier=np.zeros((len(key), 1), np.int32), entries=entries), mean


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
        below, mine = ((which * strength).sum(axis=1) for which in (tier <= level, own))
        count = own.sum(axis=1)
        # Efron's form: the items of a tier leave the set one after another, each with its mean strength.
        for step in range(int(count.max(initial=0))):
            left = below - step * mine / np.maximum(count, 1)
            total -= np.where(step < count, np.log(np.maximum(left, 1e-300)), 0.0)
        log_own = np.where(own, np.log(np.maximum(strength, 1e-300)), 0.0).sum(axis=1)
        total += log_own + gammaln(count + 1.0)  # in any of the orders
    return total


def _of_ties(block: Block, weight: FloatArray) -> tuple[float, float]:
    """log of the share of pairs that are ties, and of those that are not, half a pair added: 0 without ties."""
    assert block.tasks is not None
    if not block.tasks.has_ties:
        return 0.0, 0.0
    tier = block.by_task(block.tier[:, 0])
    counts = block.by_task(weight)[:, 0] * (tier.min(axis=1) >= 0)
    tied = tier.max(axis=1) == 0
    tie, win = (float(counts @ which) + 0.5 for which in (tied, ~tied))
    return float(np.log(tie / (tie + win))), float(np.log(win / (tie + win)))


def _usual(block: Block, weight: FloatArray) -> FloatArray:
    """One utility for each item, by maximum likelihood of the tasks with Gumbel noise and a weak prior: [item].

    Bradley–Terry for pairs, a multinomial logit for choices; by gradient steps with a diagonal preconditioner.
    """
    kept = block.by_task(weight)[:, 0] > 0
    tier, site, weight = (block.by_task(each)[kept] for each in (block.tier[:, 0], block.lists.site, weight))
    n_sites = len(block.sites)
    utility = np.zeros(n_sites)
    top = tier.max(axis=1, keepdims=True)
    best, part = (tier == top) & (top > 0), (tier >= 0) & (top > 0)
    count = best.sum(axis=1, keepdims=True)
    for _ in range(N_STEPS):
        strength = np.where(part, np.exp(np.clip(utility[site], -30, 30)), 0.0)
        chance = strength / np.maximum(strength.sum(axis=1, keepdims=True), 1e-300)
        slope = weight * np.where(part, best - count * chance, 0.0)
        curve = weight * np.where(part, count * chance * (1.0 - chance), 0.0)
        gradient = np.bincount(site.ravel(), slope.ravel(), n_sites) - PRIOR_TASKS * utility
        curvature = np.bincount(site.ravel(), curve.ravel(), n_sites) + PRIOR_TASKS
        utility = utility + np.clip(gradient / curvature, -1.0, 1.0) * (0.7 if tier.shape[1] > 2 else 0.5)
    return utility
