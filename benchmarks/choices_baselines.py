"""Baselines of `benchmarks.choices` that need no other library: logits of best and worst choices, and counts."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from benchmarks.choices_data import Comparisons

PENALTIES = (0.01, 0.1, 1.0)  # of a logit, chosen by cross-validation of the training tasks
N_FOLDS = 5
DAMPING = 1.0  # tasks by which a person's own counts are pulled to zero


def log_chances(order: np.ndarray, utility: np.ndarray, has_worst: bool, worst: float = 1.0) -> np.ndarray:
    """log P(answer) of tasks whose shown items have utilities [task, shown]: the best, then the worst of the rest.

    `worst` is the scale of utilities in the choice of the worst, relative to that of the best.
    """
    found = utility[:, 0] - logsumexp(utility, axis=1)
    if has_worst and order.shape[1] > 2:
        rest = -worst * utility[:, 1:]
        found = found + rest[:, -1] - logsumexp(rest, axis=1)
    return np.asarray(found)


def logit(train: Comparisons, test: Comparisons) -> np.ndarray:
    """A multinomial logit of the best and worst choices, one utility for each item: the score of each test task."""
    fold = np.random.default_rng(0).permutation(len(train.order)) % N_FOLDS
    means = []
    for penalty in PENALTIES:
        parts = [(train.take(fold != k), train.take(fold == k)) for k in range(N_FOLDS)]
        means.append(np.mean([_scored(*part, penalty).mean() for part in parts]))
    return _scored(train, test, PENALTIES[int(np.argmax(means))])


def _scored(train: Comparisons, test: Comparisons, penalty: float) -> np.ndarray:
    utility = fit_logit(train, penalty)
    return log_chances(test.order, utility[test.order], test.has_worst)


def fit_logit(data: Comparisons, penalty: float) -> np.ndarray:
    """Utilities of items by maximum likelihood with a normal prior of precision `penalty`, [item]."""

    def loss(utility: np.ndarray) -> tuple[float, np.ndarray]:
        own, slope = utility[data.order], np.zeros(data.order.shape)
        slope -= np.exp(own - logsumexp(own, axis=1, keepdims=True))
        slope[:, 0] += 1.0
        if data.has_worst and data.order.shape[1] > 2:
            rest = -own[:, 1:]
            slope[:, 1:] += np.exp(rest - logsumexp(rest, axis=1, keepdims=True))
            slope[:, -1] -= 1.0
        total = np.bincount(data.order.reshape(-1), slope.reshape(-1), minlength=data.n_items)
        value = log_chances(data.order, own, data.has_worst).sum() - 0.5 * penalty * utility @ utility
        return -float(value), penalty * utility - total

    return np.asarray(minimize(loss, np.zeros(data.n_items), jac=True, method="L-BFGS-B").x)


def counts(data: Comparisons, n_persons: int) -> tuple[np.ndarray, np.ndarray]:
    """Times best minus times worst, per time shown: of each item, and of each person's items relative to that."""
    sign = np.zeros(data.order.shape)
    sign[:, 0], sign[:, -1] = 1.0, -float(data.has_worst)
    item, person = data.order.reshape(-1), np.repeat(data.person, data.order.shape[1])
    every = np.bincount(item, sign.reshape(-1), minlength=data.n_items)
    every = every / np.maximum(np.bincount(item, minlength=data.n_items), 1)
    key, n = person * data.n_items + item, n_persons * data.n_items
    excess = np.bincount(key, sign.reshape(-1) - every[item], minlength=n)
    own = excess / (np.bincount(key, minlength=n) + DAMPING)
    return every, own.reshape(n_persons, data.n_items)


def counting(train: Comparisons, test: Comparisons) -> np.ndarray:
    """Counts of all persons and of the person, weighed by a logit of the training tasks, and the scale of the worst.

    The logit learns from the counts of the other half of the tasks, so that no task is in its own counts.
    """
    n_persons, half = max(train.n_persons, test.n_persons), np.arange(len(train.order)) % 2 == 0
    parts = [(train.take(which), counts(train.take(~which), n_persons)) for which in (half, ~half)]

    def score(data: Comparisons, found: tuple[np.ndarray, np.ndarray], free: np.ndarray) -> np.ndarray:
        every, own = found
        utility = free[0] * every[data.order] + free[1] * own[data.person[:, None], data.order]
        return log_chances(data.order, utility, data.has_worst, float(np.exp(free[2])))

    def loss(free: np.ndarray) -> float:
        return -float(sum(score(*part, free).sum() for part in parts)) + 0.5 * float(free[2] ** 2)

    free = minimize(loss, np.asarray([2.0, 1.0, 0.0]), method="Nelder-Mead").x
    return score(test, counts(train, n_persons), free)
