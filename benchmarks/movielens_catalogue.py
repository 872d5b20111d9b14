"""Recommendation from a whole catalogue: which movies will a user rate next, of all that the user has not rated?

Recall@20 and NDCG@20 of each user's held-out movies, whatever their rating, in a list of twenty. Popularity, EASE
(Steck, 2019) and weighted ALS (Hu, Koren and Volinsky, 2008) are made for this; their settings are chosen on the
validation movies. How a movie would be rated is another question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.movielens_data import Cells, Split
from thurbo import metrics

TOP = 20
RIDGES = (100.0, 300.0, 1000.0)  # of EASE
WEIGHTS = (2.0, 10.0)  # of a rated movie in ALS, relative to one that is not rated
N_FACTORS, N_STEPS, SHRINKAGE = 32, 8, 10.0  # of ALS


def matrix(cells: Cells, split: Split) -> np.ndarray:
    """1 for each movie that a user has rated, [user, item]."""
    found = np.zeros((split.n_users, split.n_items), np.float32)
    found[cells.user, cells.item] = 1.0
    return found


def best(scores: np.ndarray, seen: np.ndarray, top: int = TOP) -> np.ndarray:
    """The items with the highest scores that a user has not seen, best first, [user, top]."""
    left = np.where(seen > 0, -np.inf, scores)
    some = np.argpartition(-left, top, axis=1)[:, :top]
    order = np.argsort(-np.take_along_axis(left, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def judge(cells: Cells, top: np.ndarray) -> dict[str, float]:
    """Mean Recall@20 and NDCG@20 over users; −1 in `top` is no item."""
    return {name: float(values.mean()) for name, values in by_user(cells, top).items()}


def by_user(cells: Cells, top: np.ndarray) -> dict[str, np.ndarray]:
    """Recall@20 and NDCG@20 of each user."""
    wanted = [set(cells.item[cells.user == user].tolist()) for user in range(len(top))]
    hits = np.asarray([[item in own for item in row] for own, row in zip(wanted, top.tolist(), strict=True)])
    number = np.maximum([min(len(own), top.shape[1]) for own in wanted], 1)
    gain = 1.0 / np.log2(np.arange(2, top.shape[1] + 2))
    ideal = np.cumsum(gain)[number - 1]
    return {"recall20": hits.sum(axis=1) / number, "ndcg20": hits @ gain / ideal}


def popularity(seen: np.ndarray) -> Iterator[np.ndarray]:
    """How many users have rated an item; there is nothing to choose."""
    yield np.broadcast_to(seen.sum(axis=0), seen.shape)


def ease(seen: np.ndarray) -> Iterator[np.ndarray]:
    """A linear model of each item by all others, for each ridge."""
    gram = (seen.T @ seen).astype(np.float64)
    for ridge in RIDGES:
        inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        yield seen @ weights.astype(np.float32)


def als(seen: np.ndarray, seed: int = 0) -> Iterator[np.ndarray]:
    """Weighted least squares with factors of users and items, for each weight of a rated movie."""
    rng = np.random.default_rng(seed)
    for weight in WEIGHTS:
        items = 0.1 * rng.standard_normal((seen.shape[1], N_FACTORS))
        for _ in range(N_STEPS):
            users = _solve(seen, items, weight)
            items = _solve(seen.T, users, weight)
        yield users @ items.T


def _solve(seen: np.ndarray, others: np.ndarray, weight: float) -> np.ndarray:
    gram = others.T @ others + SHRINKAGE * np.eye(N_FACTORS)
    found = np.empty((len(seen), N_FACTORS))
    for row, own in enumerate(seen):
        listed = others[np.flatnonzero(own)]
        found[row] = np.linalg.solve(gram + weight * listed.T @ listed, (1.0 + weight) * listed.sum(axis=0))
    return found


PEERS = {"popularity": popularity, "EASE": ease, "implicit ALS": als}


def peers(split: Split) -> dict[str, np.ndarray]:
    """Each user's best items by each peer, with the setting that is best on the validation movies."""
    seen, found = matrix(split.train, split), {}
    for name, method in PEERS.items():
        tops = (best(each, seen) for each in method(seen))
        found[name] = max(tops, key=lambda top: judge(split.valid, top)["ndcg20"])
    return found


def compare(cells: Cells, own: Sequence[np.ndarray], others: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Means over users, of ours also over seeds; and ours less EASE, with its 95 % interval, paired by user."""
    seeds, found = [by_user(cells, top) for top in own], dict[str, Any]()
    for name in seeds[0]:
        each = np.mean([seed[name] for seed in seeds], axis=0)
        found[f"catalogue_{name}"] = float(each.mean())
        found[f"{name}_of_seeds"] = [float(seed[name].mean()) for seed in seeds]
        difference = each - by_user(cells, others["EASE"])[name]
        interval = metrics.paired_bootstrap(each, each - difference, random_state=0)._asdict()
        found[f"{name}_less_ease"] = {"difference": float(difference.mean()), **interval}
    return found | {"peers": {name: judge(cells, top) for name, top in others.items()}}
