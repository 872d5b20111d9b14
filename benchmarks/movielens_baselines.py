"""Baselines of the ranking benchmark, in NumPy: popularity, item means, biased ALS, ListRank-MF and PMOP.

Idea: each learns from the training cells alone and scores the others; more is better.
Promises settings chosen by N@5 of the validation cells, and steps that stop where these say.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.movielens_data import Cells, Scores, Split, figures

LIST_RANK: dict[str, Any] = {"rank": 10, "decay": 0.03, "rate": 0.05, "n_steps": 80}
PMOP: dict[str, Any] = {"rank": 5, "decay": 0.5, "rate": 0.02, "n_steps": 80}
SHARPNESS = 0.3  # of ListRank-MF's target, softmax(SHARPNESS × rating)
N_BETWEEN = 10  # steps from one look at the validation cells to the next

Gradient = Callable[[np.ndarray], np.ndarray]  # of the loss by the score of each training cell


def popularity(split: Split) -> Scores:
    """How many have rated an item."""
    return _by_item(split, np.bincount(split.train.item, minlength=split.n_items).astype(float))


def item_mean(split: Split, damping: float = 10.0) -> Scores:
    """An item's mean rating, as if `damping` more users had given the mean of all."""
    above = np.bincount(split.train.item, split.train.rating - split.train.rating.mean(), split.n_items)
    return _by_item(split, above / (np.bincount(split.train.item, minlength=split.n_items) + damping))


def als(split: Split, rank: int = 20, decay: float = 0.1, n_rounds: int = 15) -> Scores:
    """Mean + user bias + item bias + u·v, by alternating least squares with the penalty decay × ratings × (u² + v²)."""
    started, cells = time.perf_counter(), split.train
    mean, rng, sides = cells.rating.mean(), np.random.default_rng(0), (cells.user, cells.item)
    factors = [rng.normal(0, 0.1, (n, rank + 1)) for n in (split.n_users, split.n_items)]  # the last one is the bias
    orders = [np.argsort(side, kind="stable") for side in sides]
    numbers = [np.bincount(side, minlength=len(table)) for side, table in zip(sides, factors, strict=True)]
    for _ in range(n_rounds):
        for own in (0, 1):
            design = factors[1 - own][sides[1 - own][orders[own]]]
            target = cells.rating[orders[own]] - mean - design[:, -1]
            design[:, -1] = 1
            ends = np.cumsum(numbers[own])
            for row in np.flatnonzero(numbers[own]):
                part = slice(ends[row] - numbers[own][row], ends[row])
                square = design[part].T @ design[part] + decay * numbers[own][row] * np.eye(rank + 1)
                factors[own][row] = np.linalg.solve(square, design[part].T @ target[part])
            factors[own][numbers[own] == 0] = 0
    seconds = time.perf_counter() - started
    users, items = factors

    def score(held: Cells) -> np.ndarray:
        return items[held.item, -1] + _products(users[:, :-1], items[:, :-1], held)

    return Scores(score(split.valid), score(split.test), seconds)


def list_rank(split: Split, sharpness: float = SHARPNESS, **settings: Any) -> Scores:
    """ListRank-MF with item biases: cross-entropy of a user's softmax(scores) from softmax(ratings)."""
    target = _softmax(split.train.user, sharpness * split.train.rating)
    return _factorise(split, lambda score: _softmax(split.train.user, score) - target, **{**LIST_RANK, **settings})


def pmop(split: Split, **settings: Any) -> Scores:
    """PMOP, with a set's worth the mean of exp(score): the best tier is chosen from all, the next from what is left.

    Over all sets the mean sums to a multiple of Σ exp(score), so P(tier | what is left) ∝ Σ over the tier / Σ over all
    that is left, and the likelihood costs as little as one softmax for each rating level.
    """
    return _factorise(split, lambda score: -pmop_gradient(split.train, score), **{**PMOP, **settings})


def pmop_log_likelihood(cells: Cells, score: np.ndarray) -> np.ndarray:
    """Σ over tiers of log Σ_tier exp(score) − log Σ_(tier and worse) exp(score), of each user."""
    tier, worse = _tiers(cells, score)[1:]
    shares = np.divide(tier, worse, out=np.ones_like(tier), where=tier > 0)
    return np.log(shares).sum(axis=1)


def pmop_gradient(cells: Cells, score: np.ndarray) -> np.ndarray:
    """Of the log-likelihood, by the score of each cell."""
    worth, tier, worse = _tiers(cells, score)
    each = np.divide(1.0, worse, out=np.zeros_like(tier), where=tier > 0)
    left = np.cumsum(each[:, ::-1], axis=1)[:, ::-1]  # of all choices that an item of a tier was there for
    place = (cells.user, cells.rating - 1)
    return worth * (1 / tier[place] - left[place])


def _tiers(cells: Cells, score: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exp(score) by the user's highest: of each cell; summed by rating, [user, level]; and with all lower levels."""
    worth, n_levels = _stable_exp(cells.user, score), cells.rating.max()
    n_users = cells.user.max() + 1
    tier = np.bincount(cells.user * n_levels + cells.rating - 1, worth, n_users * n_levels).reshape(n_users, n_levels)
    return worth, tier, np.cumsum(tier, axis=1)


def _stable_exp(user: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Cells are listed user by user."""
    first = np.flatnonzero(np.diff(user, prepend=-1))
    return np.exp(score - np.repeat(np.maximum.reduceat(score, first), np.diff(first, append=len(user))))


def _softmax(user: np.ndarray, score: np.ndarray) -> np.ndarray:
    worth = _stable_exp(user, score)
    return worth / np.bincount(user, worth)[user]


def _factorise(
    split: Split, gradient: Gradient, rank: int, decay: float, rate: float, n_steps: int, seed: int = 0
) -> Scores:
    """Scores b_i + u·v by Adam on the whole training set, as they were when the validation cells liked them best.

    A user's loss is weighted by the number of ratings, and the penalty is decay/2 × (u² + v² + b²) for each rating.
    """
    started, cells, rng = time.perf_counter(), split.train, np.random.default_rng(seed)
    users, items = (rng.normal(0, 0.1, (n, rank)) for n in (split.n_users, split.n_items))
    tables = [users, items, np.zeros((split.n_items, 1))]
    biases = tables[2][:, 0]
    moments = [(np.zeros_like(table), np.zeros_like(table)) for table in tables]
    by_user, by_item = (
        np.bincount(cells.user, minlength=split.n_users),
        np.bincount(cells.item, minlength=split.n_items),
    )
    ends, weight = np.concatenate([[0], np.cumsum(by_user)]), by_user[cells.user]
    best, found = -np.inf, Scores(np.zeros(0), np.zeros(0), 0.0)
    for step in range(1, n_steps + 1):
        slope = weight * gradient(biases[cells.item] + _products(users, items, cells))
        sheet = sparse.csr_array((slope, cells.item, ends), shape=(split.n_users, split.n_items))
        slopes = [sheet @ items, sheet.T @ users, (sheet.T @ np.ones(split.n_users))[:, None]]
        numbers = [by_user, by_item, by_item]
        for table, change, (first, second), number in zip(tables, slopes, moments, numbers, strict=True):
            change += decay * number[:, None] * table
            first += 0.1 * (change - first)
            second += 0.01 * (change**2 - second)
            table -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
        if step % N_BETWEEN == 0 or step == n_steps:
            valid, test = (biases[held.item] + _products(users, items, held) for held in (split.valid, split.test))
            merit = figures(split.valid, valid)["ndcg5"].mean()
            if merit > best:
                best, found = merit, Scores(valid, test, 0.0)
    return found._replace(seconds=time.perf_counter() - started)


def _products(users: np.ndarray, items: np.ndarray, cells: Cells) -> np.ndarray:
    return np.einsum("ck,ck->c", users[cells.user], items[cells.item])


def _by_item(split: Split, worth: np.ndarray) -> Scores:
    return Scores(worth[split.valid.item], worth[split.test.item], 0.0)
