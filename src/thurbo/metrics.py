"""§7 Ranking metrics per user: NDCG and ERR.

Idea: scores order the items of a user, and relevance is the value of each item. With tied scores, a metric is its
exact expectation over all orders of the tied items.
Guarantees results that do not depend on the sort of ties, and one value per user for `paired_bootstrap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import ThurboError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class ConfidenceInterval(NamedTuple):
    """Lower and upper end of a confidence interval."""

    lower: float
    upper: float


Items = tuple[FloatArray, FloatArray]  # of one user: relevance and scores


def ndcg(
    relevance: Any,
    scores: Any,
    k: int | None = None,
    gain: Literal["exponential", "linear"] = "exponential",
    *,
    groups: Any = None,
) -> Any:
    """Normalised discounted cumulative gain: Σ gain / log2(1 + place) over the first `k` places, over its maximum.

    Parameters
    ----------
    relevance, scores : array-like
        One list of items, a 2-D array or list of lists with one row per user, or one long list with `groups`.
        Items with relevance NaN are not judged and are ignored.
    k : int, optional
        Number of places; all by default.
    gain : {"exponential", "linear"}, default "exponential"
        2^relevance − 1, or relevance.
    groups : array-like, optional
        User of each item, if `relevance` and `scores` are one long list.

    Returns
    -------
    float or array
        A number for one list; else one number per user, in the order of `np.unique(groups)` if there are groups.
        0 for users without relevant items.

    Examples
    --------
    >>> from thurbo import metrics
    >>> round(metrics.ndcg([3, 2, 0], [0.1, 0.9, 0.5]), 4)
    0.7309
    >>> metrics.ndcg([[1, 0], [0, 1]], [[2.0, 1.0], [5.0, 6.0]], k=1).tolist()
    [1.0, 1.0]
    """
    if gain not in ("exponential", "linear"):
        raise ThurboError(f'gain="{gain}" is not one of exponential, linear; use one of them')
    _check_k(k)

    def figure(worth: FloatArray, score: FloatArray) -> float:
        gains = np.exp2(worth) - 1 if gain == "exponential" else worth
        discount = 1 / np.log2(np.arange(len(worth)) + 2.0)
        discount[len(worth) if k is None else k :] = 0
        order = np.argsort(-score, kind="stable")
        run = _runs(score[order])
        shared = (np.bincount(run, discount) / np.bincount(run))[run]  # tied items get the mean of their places
        best = -np.sort(-gains) @ discount
        return float(gains[order] @ shared / best) if best > 0 else 0.0

    return _by_user(figure, relevance, scores, groups)


def err(relevance: Any, scores: Any, max_relevance: float, k: int | None = None, *, groups: Any = None) -> Any:
    """Expected reciprocal rank: E[1 / stopping place], with stopping probability (2^relevance − 1) / 2^max_relevance.

    Parameters
    ----------
    relevance, scores : array-like
        One list of items, a 2-D array or list of lists with one row per user, or one long list with `groups`.
        Items with relevance NaN are not judged and are ignored.
    max_relevance : float
        Highest possible relevance; 4 for ratings from 1 to 5, which have relevance 0 to 4.
    k : int, optional
        Number of places; all by default. A user who does not stop within them counts as 0.
    groups : array-like, optional
        User of each item, if `relevance` and `scores` are one long list.

    Returns
    -------
    float or array
        A number for one list; else one number per user, in the order of `np.unique(groups)` if there are groups.

    Examples
    --------
    >>> from thurbo import metrics
    >>> metrics.err([1, 0], [0.9, 0.1], max_relevance=1)
    0.5
    """
    _check_k(k)
    if not np.isfinite(max_relevance) or max_relevance < 0:
        problem = f"max_relevance={max_relevance} is not valid"
        raise ThurboError(f"{problem}; give the highest relevance, such as 4 for 0 to 4")

    def figure(worth: FloatArray, score: FloatArray) -> float:
        order = np.argsort(-score, kind="stable")
        reach = _reach(score[order], 1 - (np.exp2(worth[order]) - 1) / 2.0**max_relevance)
        stop = (reach[:-1] - reach[1:])[:k]
        return float((stop / np.arange(1, len(stop) + 1)).sum())

    return _by_user(figure, relevance, scores, groups, max_relevance)


def paired_bootstrap(
    a: Any, b: Any, n: int = 10_000, level: float = 0.95, random_state: Any = None
) -> ConfidenceInterval:
    """Two-sided percentile bootstrap interval of mean(a) − mean(b), with users resampled in pairs.

    Parameters
    ----------
    a, b : array-like of shape (n_users,)
        One value per user, in the same order. Users with NaN in either are ignored.
    n : int, default 10000
        Number of bootstrap samples.
    level : float, default 0.95
        Confidence level.
    random_state : int, optional
        Random seed.

    Returns
    -------
    ConfidenceInterval
        `lower` and `upper`.

    Examples
    --------
    >>> from thurbo import metrics
    >>> interval = metrics.paired_bootstrap([0.9, 0.8, 0.7, 0.9], [0.5, 0.6, 0.4, 0.7], random_state=0)
    >>> bool(0 < interval.lower < interval.upper)
    True
    """
    first, second = (_numbers(values, name) for values, name in ((a, "a"), (b, "b")))
    if first.ndim != 1 or first.shape != second.shape:
        raise ThurboError(f"a and b have shapes {first.shape} and {second.shape}; give one value per user in both")
    if not 0 < level < 1:
        raise ThurboError(f"level={level} is not between 0 and 1; give for example 0.95")
    if n < 1:
        raise ThurboError(f"n={n} is not a number of samples; give at least 1, such as 10000")
    difference = (first - second)[~np.isnan(first - second)]
    if len(difference) == 0:
        raise ThurboError("no user has a value in both a and b; give at least one")
    rng, means = np.random.default_rng(random_state), np.empty(n)
    step = max(1, 2_000_000 // len(difference))  # a few megabytes at a time
    for start in range(0, n, step):
        chosen = rng.integers(0, len(difference), (min(step, n - start), len(difference)))
        means[start : start + len(chosen)] = difference[chosen].mean(axis=1)
    lower, upper = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return ConfidenceInterval(float(lower), float(upper))


def _runs(score: FloatArray) -> IntArray:
    """The number of the run of equal scores that each of sorted scores belongs to, [place]."""
    return np.cumsum(np.concatenate([[0], score[1:] != score[:-1]]))


def _reach(score: FloatArray, p_continue: FloatArray) -> FloatArray:
    """P(a user reaches each place, and passes the last), averaged over the orders of ties: [place + 1]."""
    certain = np.cumprod(np.concatenate([[1.0], p_continue]))
    reach = certain.copy()  # correct before and after every tie, whatever the order inside
    length = np.bincount(_runs(score))
    for end, size in zip(np.cumsum(length), length, strict=True):
        if size > 1:
            reach[end - size : end] = certain[end - size] * _symmetric_means(p_continue[end - size : end])[:-1]
    return reach


def _symmetric_means(p_continue: FloatArray) -> FloatArray:
    """E[product of j of the m numbers, drawn without replacement] for j = 0..m: [m + 1].

    These are elementary symmetric polynomials divided by their number of terms. Adding the m-th number is a weighted
    mean with weights (m − j) / m and j / m, so there is no cancellation or overflow.
    """
    means = np.concatenate([[1.0], np.zeros(len(p_continue))])
    for m, p in enumerate(p_continue, 1):
        share = np.arange(1, m + 1) / m
        means[1 : m + 1] = (1 - share) * means[1 : m + 1] + share * p * means[:m]
    return means


def _by_user(
    figure: Callable[[FloatArray, FloatArray], float], relevance: Any, scores: Any, groups: Any, most: float = np.inf
) -> Any:
    """The metric of every user, by the items with a relevance, of at most `most`; 0 without items."""
    users, is_one = _read(relevance, scores, groups)
    found = np.zeros(len(users))
    for user, (worth, score) in enumerate(users):
        judged = ~np.isnan(worth)
        worth, score = worth[judged], score[judged]
        bad = ~(np.isfinite(worth) & (worth >= 0) & (worth <= most))
        if bad.any():
            grades = "a number of 0 or more" if np.isinf(most) else f"a number from 0 to max_relevance={most:g}"
            problem = f"user {user}: relevance {worth[bad.argmax()]:g} is not {grades}"
            raise ThurboError(f"{problem}; subtract the lowest rating, so that the worst is 0")
        if np.isnan(score).any():
            problem = f"user {user}: the score of an item of relevance {worth[np.isnan(score).argmax()]:g} is NaN"
            raise ThurboError(f"{problem}; give every judged item a score, such as -inf for the last place")
        found[user] = figure(worth, score) if len(worth) else 0.0
    return float(found[0]) if is_one else found


def _read(relevance: Any, scores: Any, groups: Any) -> tuple[list[Items], bool]:
    """The items of every user, and whether the input was one list, not one per user."""
    if groups is None and _is_ragged(relevance):
        if len(relevance) != len(scores):
            problem = f"relevance has {len(relevance)} lists and scores {len(scores)}"
            raise ThurboError(f"{problem}; give one list per user in both")
        worths = [_numbers(row, f"relevance of user {user}") for user, row in enumerate(relevance)]
        given = [_numbers(row, f"scores of user {user}") for user, row in enumerate(scores)]
        for user, (worth, score) in enumerate(zip(worths, given, strict=True)):
            if worth.ndim != 1 or worth.shape != score.shape:
                problem = f"user {user} has relevance of shape {worth.shape} and scores of shape {score.shape}"
                raise ThurboError(f"{problem}; give one number per item in both")
        return list(zip(worths, given, strict=True)), False
    worth, score = _numbers(relevance, "relevance"), _numbers(scores, "scores")
    if groups is not None:
        whose = np.asarray(groups)
        if not (whose.ndim == worth.ndim == score.ndim == 1 and len(whose) == len(worth) == len(score)):
            shapes = f"{worth.shape}, {score.shape} and {whose.shape}"
            raise ThurboError(f"relevance, scores and groups have shapes {shapes}; give three lists of the same length")
        order, (_, counts) = np.argsort(whose, kind="stable"), np.unique(whose, return_counts=True)
        parts = (order[end - n : end] for end, n in zip(np.cumsum(counts), counts, strict=True))
        return [(worth[own], score[own]) for own in parts], False
    if worth.shape != score.shape or worth.ndim not in (1, 2):
        problem = f"relevance and scores have shapes {worth.shape} and {score.shape}"
        raise ThurboError(f"{problem}; give one number per item in both, for one user or with one row per user")
    return list(zip(np.atleast_2d(worth), np.atleast_2d(score), strict=True)), worth.ndim == 1


def _is_ragged(values: Any) -> bool:
    """Whether these are lists of different lengths."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return False
    lengths = {len(row) if hasattr(row, "__len__") and not isinstance(row, str) else -1 for row in values}
    return len(lengths) > 1 and -1 not in lengths


def _check_k(k: Any) -> None:
    if k is not None and (not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1):
        raise ThurboError(f"k={k!r} is not a number of places; give a whole number of at least 1, or None for all")


def _numbers(values: Any, name: str) -> FloatArray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ThurboError(f"{name} contains a value that is not a number; give numbers") from None
