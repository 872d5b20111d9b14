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


class _Lists(NamedTuple):
    """Items of all users in flat arrays."""

    user: IntArray  # [item]
    relevance: FloatArray  # [item]
    scores: FloatArray  # [item]
    n_users: int
    is_one: bool  # the input was one list, not one per user


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
    lists = _read(relevance, scores, groups)
    _check_relevance(lists)

    def figure(worth: FloatArray, score: FloatArray) -> FloatArray:
        gains = np.exp2(worth) - 1 if gain == "exponential" else worth
        discount = 1 / np.log2(np.arange(worth.shape[1]) + 2.0)
        discount[k:] = 0 if k is not None else discount[k:]
        order = np.argsort(-score, axis=1, kind="stable")
        run = _runs(np.take_along_axis(score, order, axis=1))
        total = np.bincount(run.ravel(), np.broadcast_to(discount, run.shape).ravel())
        shared = (total / np.bincount(run.ravel()))[run]  # tied items get the mean discount of their places
        found = (np.take_along_axis(gains, order, axis=1) * shared).sum(axis=1)
        best = (-np.sort(-gains, axis=1) * discount).sum(axis=1)
        return np.divide(found, best, out=np.zeros(len(found)), where=best > 0)

    return _by_user(lists, figure)


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
        raise ThurboError(
            f"max_relevance={max_relevance} is not valid; give the highest relevance, such as 4 for 0 to 4"
        )
    lists = _read(relevance, scores, groups)
    _check_relevance(lists, max_relevance)

    def figure(worth: FloatArray, score: FloatArray) -> FloatArray:
        order = np.argsort(-score, axis=1, kind="stable")
        p_continue = 1 - (np.exp2(np.take_along_axis(worth, order, axis=1)) - 1) / 2.0**max_relevance
        reach = _reach(np.take_along_axis(score, order, axis=1), p_continue)  # [user, place + 1]
        stop = (reach[:, :-1] - reach[:, 1:])[:, :k]
        return (stop / np.arange(1, stop.shape[1] + 1)).sum(axis=1)

    return _by_user(lists, figure)


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
    """A unique number for each run of equal scores in sorted rows: [user, place]."""
    starts = np.ones(score.shape, np.int64)
    starts[:, 1:] = score[:, 1:] != score[:, :-1]
    return np.cumsum(starts.ravel()).reshape(score.shape) - 1


def _reach(score: FloatArray, p_continue: FloatArray) -> FloatArray:
    """P(a user reaches each place, and passes the last), averaged over the orders of ties: [user, place + 1]."""
    n_users, n_items = score.shape
    certain = np.cumprod(np.concatenate([np.ones((n_users, 1)), p_continue], axis=1), axis=1)
    reach = certain.copy()  # correct before and after every tie, whatever the order inside
    run = _runs(score).ravel()
    length = np.bincount(run)
    first = np.concatenate([[0], np.cumsum(length)[:-1]])  # start of each run in the flat rows
    for size in np.unique(length[length > 1]):
        start = first[length == size]
        user, place = start // n_items, start % n_items
        steps = np.arange(size)
        inside = _symmetric_means(p_continue[user[:, None], place[:, None] + steps])
        reach[user[:, None], place[:, None] + steps] = certain[user, place][:, None] * inside[:, :-1]
    return reach


def _symmetric_means(p_continue: FloatArray) -> FloatArray:
    """E[product of j of the m numbers, drawn without replacement] for j = 0..m: [tie, m + 1].

    These are elementary symmetric polynomials divided by their number of terms. Adding the m-th number is a weighted
    mean with weights (m − j) / m and j / m, so there is no cancellation or overflow.
    """
    n_ties, size = p_continue.shape
    means = np.zeros((n_ties, size + 1))
    means[:, 0] = 1
    for m in range(1, size + 1):
        share = np.arange(1, m + 1) / m
        means[:, 1 : m + 1] = (1 - share) * means[:, 1 : m + 1] + share * p_continue[:, [m - 1]] * means[:, :m]
    return means


def _by_user(lists: _Lists, figure: Callable[[FloatArray, FloatArray], FloatArray]) -> Any:
    """The metric of every user, computed for users with the same number of items together; 0 without items."""
    found = np.zeros(lists.n_users)
    order = np.argsort(lists.user, kind="stable")
    number = np.bincount(lists.user, minlength=lists.n_users)
    first = np.concatenate([[0], np.cumsum(number)[:-1]])
    for length in np.unique(number[number > 0]):
        users = np.flatnonzero(number == length)
        items = order[first[users][:, None] + np.arange(length)]
        found[users] = figure(lists.relevance[items], lists.scores[items])
    return float(found[0]) if lists.is_one else found


def _read(relevance: Any, scores: Any, groups: Any) -> _Lists:
    """All forms of input as flat lists of items."""
    if groups is None and _is_ragged(relevance):
        return _judged(_from_ragged(relevance, scores))
    worth, score = _numbers(relevance, "relevance"), _numbers(scores, "scores")
    if groups is not None:
        whose = np.asarray(groups)
        if not (whose.ndim == worth.ndim == score.ndim == 1 and len(whose) == len(worth) == len(score)):
            shapes = f"{worth.shape}, {score.shape} and {whose.shape}"
            raise ThurboError(f"relevance, scores and groups have shapes {shapes}; give three lists of the same length")
        names, user = np.unique(whose, return_inverse=True)
        return _judged(_Lists(user.astype(np.int64), worth, score, len(names), False))
    if worth.shape != score.shape or worth.ndim not in (1, 2):
        problem = f"relevance and scores have shapes {worth.shape} and {score.shape}"
        raise ThurboError(f"{problem}; give one number per item in both, for one user or with one row per user")
    n_users = 1 if worth.ndim == 1 else len(worth)
    user = np.repeat(np.arange(n_users), worth.shape[-1])
    return _judged(_Lists(user, worth.ravel(), score.ravel(), n_users, worth.ndim == 1))


def _is_ragged(values: Any) -> bool:
    """Whether these are lists of different lengths."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return False
    lengths = {len(row) if hasattr(row, "__len__") and not isinstance(row, str) else -1 for row in values}
    return len(lengths) > 1 and -1 not in lengths


def _from_ragged(relevance: Any, scores: Any) -> _Lists:
    if len(relevance) != len(scores):
        problem = f"relevance has {len(relevance)} lists and scores {len(scores)}"
        raise ThurboError(f"{problem}; give one list per user in both")
    worths = [_numbers(row, f"relevance of user {user}") for user, row in enumerate(relevance)]
    given = [_numbers(row, f"scores of user {user}") for user, row in enumerate(scores)]
    for user, (worth, score) in enumerate(zip(worths, given, strict=True)):
        if worth.ndim != 1 or worth.shape != score.shape:
            problem = f"user {user} has relevance of shape {worth.shape} and scores of shape {score.shape}"
            raise ThurboError(f"{problem}; give one number per item in both")
    user_of = np.repeat(np.arange(len(worths)), [len(row) for row in worths])
    return _Lists(user_of, np.concatenate(worths), np.concatenate(given), len(worths), False)


def _judged(lists: _Lists) -> _Lists:
    """The items with relevance; raises for one without a score."""
    keep = ~np.isnan(lists.relevance)
    unscored = keep & np.isnan(lists.scores)
    if unscored.any():
        item = int(unscored.argmax())
        remedy = "give every judged item a score, such as -inf for the last place"
        raise ThurboError(
            f"user {lists.user[item]}: the score of an item of relevance {lists.relevance[item]:g} is NaN; {remedy}"
        )
    return lists._replace(user=lists.user[keep], relevance=lists.relevance[keep], scores=lists.scores[keep])


def _check_relevance(lists: _Lists, most: float = np.inf) -> None:
    bad = ~(np.isfinite(lists.relevance) & (lists.relevance >= 0) & (lists.relevance <= most))
    if bad.any():
        item = int(bad.argmax())
        grades = "a number of 0 or more" if np.isinf(most) else f"a number from 0 to max_relevance={most:g}"
        problem = f"user {lists.user[item]}: relevance {lists.relevance[item]:g} is not {grades}"
        raise ThurboError(f"{problem}; subtract the lowest rating, so that the worst is 0")


def _check_k(k: Any) -> None:
    if k is not None and (not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1):
        raise ThurboError(f"k={k!r} is not a number of places; give a whole number of at least 1, or None for all")


def _numbers(values: Any, name: str) -> FloatArray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ThurboError(f"{name} contains a value that is not a number; give numbers") from None
