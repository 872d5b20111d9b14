"""A best and a worst of a shown set are two choices; the baseline of tasks with ties is a probability."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import thurbo as tb
from thurbo.table.columns.forms.utilities import log_plackett_luce


def test_a_best_and_a_worst_are_two_choices() -> None:
    schema = tb.Schema({"q": tb.BestWorst(["a", "b", "c", "d"])})
    table = {"q": ["a > b = c > d", {"shown": ["a", "b", "c"], "best": "b"}, "a = b > c"]}
    block = schema.fit(table).compile(table)["q"]
    assert block.entries is not None
    found = np.stack([block.entries.site, block.tier[:, 0]], axis=1).reshape(-1, 4, 2)
    shown = [{int(site): int(tier) for site, tier in task if tier >= 0} for task in found]
    assert shown[:2] == [{0: 1, 1: 0, 2: 0, 3: 0}, {1: 1, 2: 1, 3: 0}]
    assert shown[2:] == [{1: 1, 0: 0, 2: 0}, {0: 1, 1: 1, 2: 0}]
    np.testing.assert_array_equal(np.diff(block.entries.start) // 4, [2, 1, 1])


@pytest.mark.parametrize("n_top", [1, 2, 3])
def test_the_baseline_of_sets_with_ties_is_a_probability(n_top: int) -> None:
    """With equal utilities, each set of so many chosen items has the same share."""
    every = [[int(item in top) for item in range(4)] for top in combinations(range(4), n_top)]
    tier = np.asarray(every)
    assert np.exp(log_plackett_luce(np.zeros(tier.shape), tier)).sum() == pytest.approx(1)
    best_and_worst = np.asarray([[2, 1, 1, 0]])
    assert log_plackett_luce(np.zeros((1, 4)), best_and_worst)[0] == pytest.approx(-np.log(12))
