"""§7 How good an order is: NDCG, ERR, Kendall's tau and pairs in the right order, user by user.

Idea: scores order the items of a user, relevance says what each item was worth; tied scores leave the order open, and
the figure is then the expectation over all orders of the tied items, computed exactly.
Promises no luck of the sort, NumPy only, and one figure for each user, which `paired_bootstrap` compares.

`relevance` and `scores` are one list (the answer is a number); a 2-D array or a list of lists, one row for each user
(an array); or one long list with `groups`, which says whose each item is (an array, in the order of
`np.unique(groups)`). An item whose relevance is NaN was not judged and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import ThurboError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Interval(NamedTuple):
    """Both ends of a confidence interval."""

    lower: float
    upper: float


class _Lists(NamedTuple):
    """Items of all users, one after another."""

    user: IntArray  # [item]
    relevance: FloatArray  # [item]
    scores: FloatArray  # [item]
    n_users: int
    is_one: bool  # one list was given, not a list of lists


def ndcg(
    relevance: Any,
    scores: Any,
    k: int | None = None,
    gain: Literal["exponential", "linear"] = "exponential",
    *,
    groups: Any = None,
) -> Any:
    """Normalised discounted cumulative gain: Σ gain / log2(1 + place) over the best `k` places, by its best possible.

    The gain is 2^relevance − 1, or relevance itself. Of a user without anything relevant it is 0.
    """
    if gain not in ("exponential", "linear"):
        raise ThurboError(f'gain="{gain}" is not one of exponential, linear')
    _check_k(k)
    lists = _read(relevance, scores, groups)
    _check_relevance(lists)

    def figure(worth: FloatArray, score: FloatArray) -> FloatArray:
        gains = np.exp2(worth) - 1 if gain == "exponential" else worth
        discount = 1 / np.log2(np.arange(worth.shape[1]) + 2.0)
        discount[k:] = 0 if k is not None else discount[k:]
        order = np.argsort(-score, axis=1, kind="stable")
        # Items of a tie share the discounts of the places they take together.
        shared = _tie_means(np.take_along_axis(score, order, axis=1), discount)
        found = (np.take_along_axis(gains, order, axis=1) * shared).sum(axis=1)
        best = (-np.sort(-gains, axis=1) * discount).sum(axis=1)
        return np.divide(found, best, out=np.zeros(len(found)), where=best > 0)

    return _by_user(lists, figure, empty=0.0)


def err(relevance: Any, scores: Any, max_relevance: float, k: int | None = None, *, groups: Any = None) -> Any:
    """Expected reciprocal rank: E[1 / place at which a user stops], who stops at an item with (2^rel − 1) / 2^max.

    Ratings from 1 to 5 have relevance 0 to 4 and `max_relevance=4`. Who does not stop within the best `k` counts as 0.
    """
    _check_k(k)
    if not np.isfinite(max_relevance) or max_relevance < 0:
        raise ThurboError(f"max_relevance={max_relevance} is no grade; give the highest there is, such as 4 for 0 to 4")
    lists = _read(relevance, scores, groups)
    _check_relevance(lists, max_relevance)

    def figure(worth: FloatArray, score: FloatArray) -> FloatArray:
        order = np.argsort(-score, axis=1, kind="stable")
        go_on = 1 - (np.exp2(np.take_along_axis(worth, order, axis=1)) - 1) / 2.0**max_relevance
        reach = _reach(np.take_along_axis(score, order, axis=1), go_on)  # [user, place], one place more than items
        stop = (reach[:, :-1] - reach[:, 1:])[:, :k]
        return (stop / np.arange(1, stop.shape[1] + 1)).sum(axis=1)

    return _by_user(lists, figure, empty=0.0)


def kendall_tau(relevance: Any, scores: Any, *, groups: Any = None) -> Any:
    """Kendall's tau-b: pairs in the same order less pairs in the opposite one, ties of either side allowed for.

    Of partial lists only the items that both have (neither is NaN) are compared. NaN where a side is tied throughout.
    """
    lists = _read(relevance, scores, groups, partial=True)

    def figure(worth: FloatArray, score: FloatArray) -> FloatArray:
        pairs = _count_pairs(worth, score)
        differ = (pairs.same + pairs.opposite + pairs.tied_scores) * (pairs.same + pairs.opposite + pairs.tied_worth)
        return np.divide(
            pairs.same - pairs.opposite, np.sqrt(differ), out=np.full(len(worth), np.nan), where=differ > 0
        )

    return _by_user(lists, figure, empty=np.nan)


def pairwise_accuracy(relevance: Any, scores: Any, *, groups: Any = None) -> Any:
    """Share of the pairs of unequal relevance that scores put in the right order; tied scores count as half right.

    Only items that neither side lacks (is NaN) are compared. NaN where no two differ in relevance.
    """
    lists = _read(relevance, scores, groups, partial=True)

    def figure(worth: FloatArray, score: FloatArray) -> FloatArray:
        pairs = _count_pairs(worth, score)
        number = pairs.same + pairs.opposite + pairs.tied_scores
        right = pairs.same + 0.5 * pairs.tied_scores
        return np.divide(right, number, out=np.full(len(worth), np.nan), where=number > 0)

    return _by_user(lists, figure, empty=np.nan)


def paired_bootstrap(a: Any, b: Any, n: int = 10_000, level: float = 0.95, random_state: Any = 0) -> Interval:
    """Two-sided percentile interval of mean(a) − mean(b) over `n` samples of the same users with replacement.

    `a` and `b` hold one figure for each user, in the same order; users of whom either is NaN are left out.
    """
    first, second = (_numbers(values, name) for values, name in ((a, "a"), (b, "b")))
    if first.ndim != 1 or first.shape != second.shape:
        raise ThurboError(
            f"a and b have shapes {first.shape} and {second.shape}; give one figure for each user in both"
        )
    if not 0 < level < 1:
        raise ThurboError(f"level={level} is not between 0 and 1; give for instance 0.95")
    if n < 1:
        raise ThurboError(f"n={n} is not a number of samples; give at least 1, such as 10000")
    difference = (first - second)[~np.isnan(first - second)]
    if len(difference) == 0:
        raise ThurboError("no user has a figure in both a and b; give at least one")
    rng, means = np.random.default_rng(random_state), np.empty(n)
    step = max(1, 2_000_000 // len(difference))  # a few megabytes at a time
    for start in range(0, n, step):
        chosen = rng.integers(0, len(difference), (min(step, n - start), len(difference)))
        means[start : start + len(chosen)] = difference[chosen].mean(axis=1)
    lower, upper = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(lower), float(upper))


def _tie_means(score: FloatArray, values: FloatArray) -> FloatArray:
    """Values of the places [place], averaged over each run of equal scores of a row: [user, place]."""
    run = _runs(score)
    number = np.bincount(run.ravel())
    total = np.bincount(run.ravel(), np.broadcast_to(values, score.shape).ravel())
    return (total / number)[run]


def _runs(score: FloatArray) -> IntArray:
    """A number for each run of equal scores in sorted rows, all different: [user, place]."""
    starts = np.ones(score.shape, np.int64)
    starts[:, 1:] = score[:, 1:] != score[:, :-1]
    return np.cumsum(starts.ravel()).reshape(score.shape) - 1


def _reach(score: FloatArray, go_on: FloatArray) -> FloatArray:
    """P(a user comes to each place, and past the last), expected over the orders of ties: [user, place + 1]."""
    n_users, n_items = score.shape
    certain = np.cumprod(np.concatenate([np.ones((n_users, 1)), go_on], axis=1), axis=1)
    reach = certain.copy()  # exact before and behind every tie, whatever the order inside
    run = _runs(score).ravel()
    length = np.bincount(run)
    first = np.concatenate([[0], np.cumsum(length)[:-1]])  # where in the flat rows each run starts
    for size in np.unique(length[length > 1]):
        start = first[length == size]
        user, place = start // n_items, start % n_items
        steps = np.arange(size)
        inside = _symmetric_means(go_on[user[:, None], place[:, None] + steps])
        reach[user[:, None], place[:, None] + steps] = certain[user, place][:, None] * inside[:, :-1]
    return reach


def _symmetric_means(go_on: FloatArray) -> FloatArray:
    """E[product of j of the m numbers, drawn without replacement] for j = 0..m: [tie, m + 1].

    These are elementary symmetric polynomials by their number of terms. Adding the m-th number mixes two means with
    weights (m − j) / m and j / m, so nothing cancels or overflows, whatever m is.
    """
    n_ties, size = go_on.shape
    means = np.zeros((n_ties, size + 1))
    means[:, 0] = 1
    for m in range(1, size + 1):
        share = np.arange(1, m + 1) / m
        means[:, 1 : m + 1] = (1 - share) * means[:, 1 : m + 1] + share * go_on[:, [m - 1]] * means[:, :m]
    return means


class _Pairs(NamedTuple):
    """Numbers of pairs of items of each user, those tied on both sides left out."""

    same: FloatArray  # [user]
    opposite: FloatArray
    tied_scores: FloatArray  # and of unequal relevance
    tied_worth: FloatArray  # and of unequal scores


def _count_pairs(worth: FloatArray, score: FloatArray) -> _Pairs:
    counts = np.zeros((4, len(worth)))
    for shift in range(1, worth.shape[1]):  # every pair that lies so far apart, of all users at once
        by_worth, by_score = (
            (side[:, shift:] > side[:, :-shift]).astype(np.int8) - (side[:, shift:] < side[:, :-shift])
            for side in (worth, score)
        )
        product = by_worth * by_score
        counts[0] += (product > 0).sum(axis=1)
        counts[1] += (product < 0).sum(axis=1)
        counts[2] += ((by_score == 0) & (by_worth != 0)).sum(axis=1)
        counts[3] += ((by_worth == 0) & (by_score != 0)).sum(axis=1)
    return _Pairs(*counts)


def _by_user(lists: _Lists, figure: Callable[[FloatArray, FloatArray], FloatArray], empty: float) -> Any:
    """The figure of every user, those with equally many items at a time; `empty` for one without items."""
    found = np.full(lists.n_users, empty)
    for users, worth, score in _equally_long(lists):
        found[users] = figure(worth, score)
    return float(found[0]) if lists.is_one else found


def _equally_long(lists: _Lists) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    order = np.argsort(lists.user, kind="stable")
    number = np.bincount(lists.user, minlength=lists.n_users)
    first = np.concatenate([[0], np.cumsum(number)[:-1]])
    for length in np.unique(number[number > 0]):
        users = np.flatnonzero(number == length)
        items = order[first[users][:, None] + np.arange(length)]
        yield users, lists.relevance[items], lists.scores[items]


def _read(relevance: Any, scores: Any, groups: Any, partial: bool = False) -> _Lists:
    """All forms of input as items with the number of their user; with `partial` a score may be missing."""
    if groups is not None:
        whose, worth, score = np.asarray(groups), _numbers(relevance, "relevance"), _numbers(scores, "scores")
        if not (whose.ndim == worth.ndim == score.ndim == 1 and len(whose) == len(worth) == len(score)):
            shapes = f"{worth.shape}, {score.shape} and {whose.shape}"
            raise ThurboError(f"relevance, scores and groups have shapes {shapes}; give three lists of one length")
        names, user = np.unique(whose, return_inverse=True)
        return _judged(_Lists(user.astype(np.int64), worth, score, len(names), False), partial)
    if _is_ragged(relevance):
        return _judged(_from_ragged(relevance, scores), partial)
    worth, score = _numbers(relevance, "relevance"), _numbers(scores, "scores")
    if worth.shape != score.shape or worth.ndim not in (1, 2):
        problem = f"relevance and scores have shapes {worth.shape} and {score.shape}"
        raise ThurboError(f"{problem}; give both one number for each item of one user, or of each user in a row")
    is_one, n_users = worth.ndim == 1, 1 if worth.ndim == 1 else len(worth)
    user = np.repeat(np.arange(n_users), worth.shape[-1])
    return _judged(_Lists(user, worth.ravel(), score.ravel(), n_users, is_one), partial)


def _is_ragged(values: Any) -> bool:
    """Whether these are lists of several lengths."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return False
    lengths = {len(row) if hasattr(row, "__len__") and not isinstance(row, str) else -1 for row in values}
    return len(lengths) > 1 and -1 not in lengths


def _from_ragged(relevance: Any, scores: Any) -> _Lists:
    if len(relevance) != len(scores):
        problem = f"relevance has {len(relevance)} lists and scores {len(scores)}"
        raise ThurboError(f"{problem}; give one of each for every user")
    worths, given = [], []
    for user, (row, score) in enumerate(zip(relevance, scores, strict=True)):
        worths.append(_numbers(row, f"relevance of user {user}"))
        given.append(_numbers(score, f"scores of user {user}"))
        if worths[-1].ndim != 1 or worths[-1].shape != given[-1].shape:
            problem = f"user {user} has relevance of shape {worths[-1].shape} and scores of shape {given[-1].shape}"
            raise ThurboError(f"{problem}; give one of each for every item")
    user_of = np.repeat(np.arange(len(worths)), [len(row) for row in worths])
    return _Lists(user_of, np.concatenate(worths), np.concatenate(given), len(worths), False)


def _judged(lists: _Lists, partial: bool) -> _Lists:
    """The items that were judged; a judged item without a score is refused, since no place is fair to it."""
    keep = ~np.isnan(lists.relevance)
    lacking = keep & np.isnan(lists.scores)
    if partial:
        keep &= ~lacking
    elif lacking.any():
        item = int(lacking.argmax())
        remedy = "give every judged item a score, such as -inf for the last place"
        raise ThurboError(
            f"user {lists.user[item]}: the score of an item of relevance {lists.relevance[item]:g} is NaN; {remedy}"
        )
    return lists._replace(user=lists.user[keep], relevance=lists.relevance[keep], scores=lists.scores[keep])


def _check_relevance(lists: _Lists, most: float = np.inf) -> None:
    bad = ~(np.isfinite(lists.relevance) & (lists.relevance >= 0) & (lists.relevance <= most))
    if bad.any():
        item = int(bad.argmax())
        grades = "a grade of 0 or more" if np.isinf(most) else f"a grade from 0 to max_relevance={most:g}"
        problem = f"user {lists.user[item]}: relevance {lists.relevance[item]:g} is not {grades}"
        raise ThurboError(f"{problem}; subtract the lowest rating, so that the worst is 0")


def _check_k(k: Any) -> None:
    if k is not None and (not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1):
        raise ThurboError(f"k={k!r} is not a number of places; give a whole number of at least 1, or None for all")


def _numbers(values: Any, name: str) -> FloatArray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ThurboError(f"{name} holds something that is no number; give numbers") from None
