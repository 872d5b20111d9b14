"""Peers of the sushi benchmark: contextual repeated selection and Mallows, on made data and against enumeration."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from benchmarks import sushi_peers as peers

ORDERS = np.array(list(permutations(range(4))))


def _draw(rng: np.random.Generator, effect: np.ndarray, n_rows: int) -> np.ndarray:
    """Rankings by contextual repeated selection, choice by choice."""
    n = len(effect)
    orders = np.zeros((n_rows, n), int)
    for row in range(n_rows):
        left = list(range(n))
        for place in range(n):
            utility = np.array([sum(effect[i, k] for k in left if k != i) for i in left])
            chosen = left[int(np.argmax(utility + rng.gumbel(size=len(left))))]
            orders[row, place] = chosen
            left.remove(chosen)
    return orders


def test_contextual_probabilities_are_products_of_choices_and_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    effect = rng.normal(size=(2, 4, 4))
    model = peers.Contextual(np.log([0.3, 0.7]), effect)
    value = peers.contextual_log_likelihood(model, ORDERS)
    assert np.exp(value).sum() == pytest.approx(1.0)
    total = 0.0
    for weight, own in zip((0.3, 0.7), effect, strict=True):
        chance, left = 1.0, [0, 1, 2, 3]
        for item in ORDERS[13]:
            size = {i: np.exp(sum(own[i, k] for k in left if k != i)) for i in left}
            chance *= size[item] / sum(size.values())
            left.remove(item)
        total += weight * chance
    assert value[13] == pytest.approx(np.log(total))


def test_contextual_fit_recovers_the_probabilities_it_was_drawn_from() -> None:
    rng = np.random.default_rng(1)
    effect = 0.8 * rng.normal(size=(4, 4))
    truth = peers.contextual_log_likelihood(peers.Contextual(np.zeros(1), effect[None]), ORDERS)
    found = peers.fit_contextual(_draw(rng, effect, 5000), penalty=0.01)
    value = peers.contextual_log_likelihood(found, ORDERS)
    assert np.exp(truth) @ (truth - value) < 0.004  # 12 parameters of 5,000 rankings: about .0012


def test_two_components_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    steep = np.outer([1.0, 0.5, -0.5, -1.0], np.ones(4))
    orders = np.concatenate([_draw(rng, steep, 600), _draw(rng, -steep, 600)])
    one, two = (peers.fit_contextual(orders, n, 0.1, n_restarts=2) for n in (1, 2))
    truth = peers.contextual_log_likelihood(peers.Contextual(np.log([0.5, 0.5]), np.stack([steep, -steep])), ORDERS)
    far = [np.exp(truth) @ (truth - peers.contextual_log_likelihood(found, ORDERS)) for found in (one, two)]
    assert far[1] < 0.015  # Kullback–Leibler; 25 parameters of 1,200 rankings: about .010
    assert far[0] > far[1] + 0.01


def test_mallows_probabilities_fall_off_with_the_distance_and_sum_to_one() -> None:
    centre = np.array([[2, 0, 3, 1], [0, 1, 2, 3]])
    model = peers.Mallows(np.log([0.4, 0.6]), centre, np.array([0.7, 1.5]))
    assert np.exp(peers.mallows_log_likelihood(model, ORDERS)).sum() == pytest.approx(1.0)
    distance = peers.kendall(peers.precedes(ORDERS), centre)
    assert distance[(centre[0] == ORDERS).all(axis=1), 0] == 0
    assert distance[(centre[0][::-1] == ORDERS).all(axis=1), 0] == 6
    swapped = (ORDERS == [2, 3, 0, 1]).all(axis=1)
    assert distance[swapped, 0] == 1
    chance = np.exp(-0.7 * distance[:, 0])
    chance /= chance.sum()
    assert peers.mean_distance(0.7, 4) == pytest.approx(chance @ distance[:, 0])
    assert peers.log_normaliser(0.7, 4) == pytest.approx(np.log(np.exp(-0.7 * distance[:, 0]).sum()))


def _disagreements(wins: np.ndarray, order: np.ndarray) -> float:
    return float(sum(wins[b, a] for place, a in enumerate(order) for b in order[place + 1 :]))


def test_local_search_ends_where_no_move_of_an_item_gains_and_finds_the_centre_of_rankings() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        wins = rng.random((5, 5))
        found = peers.central_ranking(wins)
        least = _disagreements(wins, found)
        for item in found:
            rest = [each for each in found if each != item]
            for place in range(5):
                moved = np.array([*rest[:place], item, *rest[place:]])
                assert _disagreements(wins, moved) >= least - 1e-9
    chance = np.exp(-0.5 * peers.kendall(peers.precedes(ORDERS), np.array([[2, 0, 3, 1]]))[:, 0])
    wins = np.einsum("r,rij->ij", chance, peers.precedes(ORDERS).astype(float))
    assert peers.central_ranking(wins, np.array([1, 3, 0, 2])).tolist() == [2, 0, 3, 1]


def test_mallows_em_never_lowers_the_likelihood_and_recovers_two_centres() -> None:
    rng = np.random.default_rng(4)
    centre = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    distance = peers.kendall(peers.precedes(ORDERS), centre)
    parts = [rng.choice(24, 500, p=np.exp(-d) / np.exp(-d).sum()) for d in distance.T]
    orders = ORDERS[np.concatenate(parts)]
    model = peers.Mallows(np.log([0.5, 0.5]), orders[[3, 700]], np.array([0.3, 0.3]))
    course = []
    for _ in range(30):
        model, value = peers.mallows_step(model, peers.precedes(orders))
        course.append(value)
    assert (np.diff(course) > -1e-9).all()
    found = peers.fit_mallows(orders, 2)
    assert {tuple(each) for each in found.centre} == {(0, 1, 2, 3), (3, 2, 1, 0)}
    np.testing.assert_allclose(found.rate, 1.0, atol=0.2)
