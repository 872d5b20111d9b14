"""Figures of orders against their definitions: every order of the ties, scikit-learn and scipy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import ndcg_score

from thurbo import metrics
from thurbo.errors import ThurboError

CHANCE = 2e-5


@st.composite
def lists(draw: Any, most: int = 6) -> tuple[list[int], list[float]]:
    size = draw(st.integers(1, most))
    relevance = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    return relevance, draw(st.lists(st.sampled_from([-np.inf, 0.0, 0.5, 1.0, 2.0]), min_size=size, max_size=size))


def orders(relevance: list[int], scores: list[float]) -> Iterator[list[int]]:
    """The relevance at each place, in every order that the scores allow, each as often as any other."""
    for places in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(places)):
            yield [relevance[place] for place in places]


def expected(figure: Callable[[list[int]], float], relevance: list[int], scores: list[float]) -> float:
    return float(np.mean([figure(order) for order in orders(relevance, scores)]))


def ndcg_by_definition(order: list[int], k: int | None, gain: str) -> float:
    worth = [2.0**each - 1 if gain == "exponential" else each for each in order]
    total = sum(each / np.log2(place + 2) for place, each in enumerate(worth[:k]))
    best = sum(each / np.log2(place + 2) for place, each in enumerate(sorted(worth, reverse=True)[:k]))
    return total / best if best else 0.0


def err_by_definition(order: list[int], k: int | None, most: int) -> float:
    total, going = 0.0, 1.0
    for place, each in enumerate(order[:k], 1):
        stop = (2.0**each - 1) / 2**most
        total, going = total + going * stop / place, going * (1 - stop)
    return total


@given(lists(), st.sampled_from([None, 1, 2, 4, 9]), st.sampled_from(["exponential", "linear"]))
def test_ndcg_is_the_mean_over_the_orders_of_ties(given_lists: Any, k: int | None, gain: Any) -> None:
    relevance, scores = given_lists
    wanted = expected(lambda order: ndcg_by_definition(order, k, gain), relevance, scores)
    assert metrics.ndcg(relevance, scores, k, gain) == pytest.approx(wanted, abs=1e-12)


@given(lists(), st.sampled_from([None, 1, 3]), st.integers(4, 6))
def test_err_is_the_mean_over_the_orders_of_ties(given_lists: Any, k: int | None, most: int) -> None:
    relevance, scores = given_lists
    wanted = expected(lambda order: err_by_definition(order, k, most), relevance, scores)
    assert metrics.err(relevance, scores, most, k) == pytest.approx(wanted, abs=1e-12)


def made(n_users: int = 40, n_items: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 5, (n_users, n_items)).astype(float), rng.integers(0, 4, (n_users, n_items)) / 3


@pytest.mark.parametrize("k", [1, 5, None])
def test_ndcg_agrees_with_scikit_learn(k: int | None) -> None:
    relevance, scores = made()
    wanted = ndcg_score(relevance, scores, k=k)
    assert metrics.ndcg(relevance, scores, k, gain="linear").mean() == pytest.approx(wanted)
    assert metrics.ndcg(relevance, scores, k).mean() == pytest.approx(ndcg_score(2**relevance - 1, scores, k=k))


FIGURES: dict[str, Callable[..., Any]] = {
    "ndcg": lambda *lists, **more: metrics.ndcg(*lists, 5, **more),
    "err": lambda *lists, **more: metrics.err(*lists, 4, **more),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_form_of_input_gives_the_same_figures(name: str) -> None:
    figure, (relevance, scores) = FIGURES[name], made()
    relevance[np.random.default_rng(1).random(relevance.shape) < 0.3] = np.nan  # not judged
    relevance[3] = np.nan
    kept = ~np.isnan(relevance)
    table = figure(relevance, scores)
    assert table.shape == (len(relevance),)
    ragged = [row[keep] for row, keep in zip(relevance, kept, strict=True)]
    ragged_scores = [row[keep].tolist() for row, keep in zip(scores, kept, strict=True)]
    np.testing.assert_array_equal(figure(ragged, ragged_scores), table)
    one_by_one = [figure(row, score) for row, score in zip(ragged, ragged_scores, strict=True)]
    assert all(isinstance(each, float) for each in one_by_one)
    np.testing.assert_array_equal(one_by_one, table)
    shuffled = np.random.default_rng(2).permutation(relevance.size)
    groups = np.repeat([f"user {number:02}" for number in range(len(relevance))], relevance.shape[1])
    flat = (relevance.ravel()[shuffled], scores.ravel()[shuffled])
    np.testing.assert_allclose(figure(*flat, groups=groups[shuffled]), table, rtol=1e-12)


def test_a_tie_of_thousands_is_exact() -> None:
    """All tied and all alike: the order does not matter, so no tie can either."""
    relevance, size = np.ones(3000), 3000
    untied = metrics.err(relevance, np.arange(size), 4)
    assert metrics.err(relevance, np.zeros(size), 4) == pytest.approx(untied, rel=1e-12)
    mixed = np.tile([0.0, 4.0, 2.0], size // 3)
    rng = np.random.default_rng(0)
    drawn = metrics.err(
        mixed[rng.permuted(np.tile(np.arange(60), (4000, 1)), axis=1)], np.tile(-np.arange(60), (4000, 1)), 4
    )
    exact = metrics.err(mixed[:60], np.zeros(60), 4)
    assert abs(drawn.mean() - exact) < 4.3 * drawn.std() / np.sqrt(len(drawn))


def test_the_papers_stop_probability() -> None:
    """Ratings 1 to 5: (2^(r−1) − 1) / 16, so a five at the top stops with 15/16."""
    assert metrics.err([4], [0.0], 4) == pytest.approx(15 / 16)
    assert metrics.err([2, 4], [2.0, 1.0], 4) == pytest.approx(3 / 16 + 13 / 16 * 15 / 16 / 2)


def test_the_interval_of_a_difference_covers_it() -> None:
    rng, hits, n_trials = np.random.default_rng(3), 0, 400
    for trial in range(n_trials):
        users = rng.exponential(size=60)
        a, b = users + 0.3 + 0.5 * rng.normal(size=60), users + 0.5 * rng.normal(size=60)
        lower, upper = metrics.paired_bootstrap(a, b, n=400, level=0.9, random_state=trial)
        hits += lower <= 0.3 <= upper
    assert binomtest(hits, n_trials, 0.89).pvalue > CHANCE  # a percentile interval of 60 is a little narrow


def test_the_interval_pairs_users_and_leaves_out_those_without_a_figure() -> None:
    a = np.random.default_rng(0).normal(size=50)
    found = metrics.paired_bootstrap(a + 1, a, n=50)
    assert found.lower == pytest.approx(1) == found.upper
    a[0] = np.nan
    assert metrics.paired_bootstrap(a, np.zeros(50), n=50, random_state=0) == metrics.paired_bootstrap(
        a[1:], np.zeros(49), n=50, random_state=0
    )
    assert metrics.paired_bootstrap(a, a[::-1].copy(), random_state=0) == metrics.paired_bootstrap(
        a, a[::-1].copy(), random_state=0
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.ndcg([1, 2], [1.0], 1), "shapes"),
        (lambda: metrics.ndcg([1, -2], [1.0, 2.0], 1), "user 0: relevance -2 is not a number of 0 or more"),
        (
            lambda: metrics.err([[1, 2], [0, 5]], [[1.0, 2.0], [1.0, 2.0]], 4),
            "user 1: relevance 5 is not a number from 0",
        ),
        (lambda: metrics.ndcg([1, 2], [1.0, np.nan], 1), "give every judged item a score"),
        (lambda: metrics.ndcg([1, 2], [1.0, 2.0], 0), "k=0 is not a number of places"),
        (lambda: metrics.ndcg([1], [1.0], 1, gain="square"), "is not one of exponential, linear"),  # type: ignore[arg-type]
        (lambda: metrics.ndcg([[1], [1, 2]], [[1.0], [1.0]], 1), "user 1 has relevance of shape"),
        (lambda: metrics.ndcg([[1], [1, 2]], [[1.0]], 1), "2 lists and scores 1"),
        (lambda: metrics.ndcg(["a"], [1.0], 1), "not a number"),
        (lambda: metrics.ndcg([1], [1.0], 1, groups=[1, 2]), "three lists of the same length"),
        (lambda: metrics.err([1], [1.0], -1), "max_relevance=-1"),
        (lambda: metrics.paired_bootstrap([1.0], [1.0, 2.0]), "one value per user"),
        (lambda: metrics.paired_bootstrap([np.nan], [1.0]), "no user has a value"),
        (lambda: metrics.paired_bootstrap([1.0], [1.0], level=95), "level=95"),
        (lambda: metrics.paired_bootstrap([1.0], [1.0], n=0), "n=0"),
    ],
)
def test_what_cannot_be_measured_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ThurboError, match=words):
        call()
