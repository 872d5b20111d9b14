"""§3.1: predictions of rounded numbers, beside a discrete distribution that is counted out number by number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, norm

from tests.column_cases import cells_of
from tests.known_ask import KnownAsk, asked
from thurbo.table.columns import Block, Continuous, at_least, between
from thurbo.table.columns.forms.form import Normal, normal
from thurbo.table.columns.forms.number import RoundedForm

N = 60


@dataclass
class KnownTrial:
    """Masked answers whose predictions are known; the ridge regression predicts a normal distribution of each."""

    block: Block
    is_masked: np.ndarray
    ask: KnownAsk
    guess: Normal
    name: str = "q"

    @property
    def weight(self) -> np.ndarray:
        return np.ones(len(self.is_masked))

    @property
    def masked(self) -> np.ndarray:
        return np.flatnonzero(self.is_masked)

    @property
    def row(self) -> np.ndarray:
        return self.masked

    def ridge(self, target: np.ndarray, known: np.ndarray) -> Normal:
        return self.guess

    def boosted_numbers(self, target: np.ndarray, known: np.ndarray) -> None:
        return None


@cache
def column(transform: Any, decimals: int) -> Any:
    """Weeks worked: none in 40 %, all 52 in 30 %, others between; in tenths of them with a decimal."""
    rng = np.random.default_rng(1)
    weeks = np.select([rng.random(400) < 0.4, rng.random(400) < 0.5], [0, 52], rng.integers(3, 51, 400))
    weeks = weeks + (1 if transform == "log" else 0)
    numbers = np.round(weeks * 10.0**-decimals, decimals)
    return Continuous(transform, rounded=True).fit(cells_of(numbers.tolist()))


COLUMNS: list[tuple[Any, int]] = [("rank-normal", 0), ("rank-normal", 1), (None, 0), (None, 1), ("log", 0)]


def counted(own: Any, ask: Any, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of the range and the probability of each, [answer, number]; those beyond are the ends."""
    numbers = np.round(np.arange(own.lowest, own.highest + own.unit / 2, own.unit), own.decimals)
    edges = own.to_standard(numbers[1:] - own.unit / 2)
    ends = np.concatenate([np.zeros((n, 1)), ask.below(edges), np.ones((n, 1))], axis=1)
    return numbers, np.diff(ends, axis=1)


@pytest.mark.parametrize(("transform", "decimals"), COLUMNS)
def test_predictions_are_those_of_the_recorded_numbers(transform: Any, decimals: int) -> None:
    own, ask = column(transform, decimals), asked(N)
    form = RoundedForm(own)
    numbers, chance = counted(own, ask)
    below = chance.cumsum(axis=1)

    def quantile(level: float) -> tuple[np.ndarray, np.ndarray]:
        """Smallest number with so much probability up to it, and where this is no matter of a rounding error."""
        return numbers[(below < level).sum(axis=1)], np.abs(below - level).min(axis=1) > 3e-4

    median, clear = quantile(0.5)
    assert clear.mean() > 0.8
    found = form.values(ask, "median")
    np.testing.assert_array_equal(found[clear], median[clear])
    np.testing.assert_array_equal(form.values(ask, "auto"), found)
    np.testing.assert_allclose(form.values(ask, "mean"), chance @ numbers, atol=0.01 * own.unit, rtol=1e-3)
    top = np.sort(chance, axis=1)
    sure = top[:, -1] > top[:, -2] + (1e-6 if transform == "rank-normal" else 0.01)
    assert sure.mean() > (0.8 if transform == "rank-normal" else 0.2)
    np.testing.assert_array_equal(form.values(ask, "mode")[sure], numbers[chance.argmax(axis=1)][sure])
    ends = form.interval(ask, 0.8)
    for side, level in enumerate((0.1, 0.9)):
        expected, clear = quantile(level)
        np.testing.assert_array_equal(ends[clear, side], expected[clear])
    assert np.isin(ends, numbers).all()
    np.testing.assert_allclose(form.certainty(ask, found).values, np.diff(form.interval(ask, 0.9))[:, 0] / 2)


@pytest.mark.parametrize(("transform", "decimals"), COLUMNS)
def test_scores_are_those_of_the_recorded_numbers(transform: Any, decimals: int) -> None:
    """log P(number) − log(unit) of the model and of a normal distribution, and errors of recorded numbers."""
    own, ask, rng = column(transform, decimals), asked(N), np.random.default_rng(2)
    numbers, chance = counted(own, ask)
    truth = numbers[[rng.choice(len(numbers), p=each) for each in chance]]
    shown = numbers[rng.integers(len(numbers), size=N)]
    block = own.encode(cells_of([*truth.tolist(), *shown.tolist()]))
    guess = Normal(rng.normal(size=N), rng.uniform(0.3, 1.0, N))
    trial = KnownTrial(block, np.arange(2 * N) < N, ask, guess)
    (found,) = RoundedForm(own).test(trial)
    assert (found.answer, found.about) == ("number", "q")
    ends = [own.to_standard(truth + side * own.unit / 2) for side in (-1, 1)]
    np.testing.assert_allclose(found.score[""], np.log(ask.mass(*ends)) - np.log(own.unit), atol=2e-3)
    marginal = Normal(*(np.full(N, each) for each in normal(block.lower[N:, 0], block.upper[N:, 0], np.ones(N))))
    median = RoundedForm(own).values(ask, "median")
    np.testing.assert_allclose(found.absolute[""], np.abs(median - truth), atol=1e-9)
    np.testing.assert_allclose(found.squared[""], (chance @ numbers - truth) ** 2, rtol=1e-2, atol=0.1 * own.unit)
    for rival, each in (("_logistic", guess), ("_marginal", marginal)):
        log_p = np.log(np.diff(norm.cdf(ends, each.mean, each.deviation), axis=0)[0]) - np.log(own.unit)
        clear = log_p + np.log(own.unit) > -15
        assert clear.mean() > 0.8
        np.testing.assert_allclose(found.score[rival][clear], log_p[clear], atol=2e-3)
        parts = KnownAsk(np.ones((N, 1)), each.mean[:, None], each.deviation[:, None])
        own_chance = counted(own, parts)[1]
        own_mean = own_chance @ numbers
        np.testing.assert_allclose(found.squared[rival], (own_mean - truth) ** 2, rtol=2e-2, atol=0.2 * own.unit)
        clear = np.abs(own_chance.cumsum(axis=1) - 0.5).min(axis=1) > 2e-3
        own_median = numbers[(own_chance.cumsum(axis=1) < 0.5).sum(axis=1)]
        np.testing.assert_allclose(found.absolute[rival][clear], np.abs(own_median - truth)[clear], atol=1e-9)


@pytest.mark.parametrize("transform", ["rank-normal", None])
def test_places_in_the_right_distribution_are_uniform(transform: Any) -> None:
    own, n = column(transform, 0), 2000
    ask, rng = asked(n, 3), np.random.default_rng(4)
    _, chance = counted(own, ask, n)
    part = (rng.random(n) > ask.weight[:, 0]).astype(int)
    z = rng.normal(ask.means[np.arange(n), part], ask.deviation[np.arange(n), part])
    wide = replace(own, lowest=None, highest=None)  # truths beyond the range of the table are not moved into it
    truth = np.asarray(wide.limited(wide.to_user(z)), float)
    block = own.encode(cells_of(truth.tolist()))
    guess = Normal(np.full(n, 0.3), np.full(n, 0.8))
    (found,) = RoundedForm(own).test(KnownTrial(block, np.ones(n, bool), ask, guess))
    assert kstest(found.below[""], "uniform").pvalue > 2e-5
    assert kstest(found.below["_logistic"], "uniform").pvalue < 2e-5, "another distribution is not right"
    # Each number against its own probability: none is favoured.
    zero = truth == 0
    expected = chance[:, 0].sum()
    spread = np.sqrt((chance[:, 0] * (1 - chance[:, 0])).sum())
    if transform == "rank-normal":
        assert 2 * norm.sf(abs(zero.sum() + (truth < 0).sum() - expected) / spread) > 2e-5


def test_a_truth_beyond_the_range_of_the_training_table_is_itself() -> None:
    own, ask = column("rank-normal", 0), asked(3)
    block = own.encode(cells_of([60.0, -2.0, 52.0]))
    trial = KnownTrial(block, np.ones(3, bool), ask, Normal(np.zeros(3), np.ones(3)))
    (found,) = RoundedForm(own).test(trial)
    median = RoundedForm(own).values(ask, "median")
    np.testing.assert_array_equal(found.absolute[""], np.abs(median - [60, -2, 52]))
    answers = RoundedForm(own).answers("q", block)
    np.testing.assert_array_equal(answers.values, [60, -2, 52])


@pytest.mark.parametrize(("transform", "decimals"), COLUMNS)
def test_numbers_that_are_far_away_are_read_back(transform: Any, decimals: int) -> None:
    """Where the normal distribution has no digits left, an end of the interval is still not the number."""
    own = column(transform, decimals)
    numbers = np.round(np.asarray([1, 3, 53, 54, 61, 77, 90, 101, 500]) * own.unit, decimals)
    numbers = np.unique(np.concatenate([numbers, [] if transform == "log" else -numbers]))
    found = RoundedForm(own).answers("q", own.encode(cells_of(numbers.tolist())))
    np.testing.assert_array_equal(found.values, numbers)
    assert found.share_interval == 0.0


def test_statements_are_tested_apart() -> None:
    own, ask = column("rank-normal", 0), asked(4)
    block = own.encode(cells_of([at_least(10), 0.0, between(3, 9), 52.0]))
    trial = KnownTrial(block, np.ones(4, bool), ask, Normal(np.zeros(4), np.ones(4)))
    numbers, intervals = RoundedForm(own).test(trial)
    np.testing.assert_array_equal(numbers.row, [1, 3])
    np.testing.assert_array_equal(intervals.row, [0, 2])
    ends = own.to_standard(np.asarray([9.5, 0.0, 2.5, 9.5]))
    expected = ask.mass(ends[[0, 0, 2, 2]], np.asarray([np.inf, np.inf, ends[3], ends[3]]))[[0, 2]]
    np.testing.assert_allclose(intervals.score[""], np.log(expected), atol=1e-6)
    assert intervals.answer == "interval"


def test_answers_are_numbers_and_not_intervals() -> None:
    own = column("rank-normal", 0)
    block = own.encode(cells_of([0.0, 52.0, 17.0, None, 0.0]))
    found = RoundedForm(own).answers("q", block)
    np.testing.assert_array_equal(found.values, [0, 52, 17, np.nan, 0])
    assert found.share_interval == 0.0
    assert found.share_missing == 0.2
    mixed = RoundedForm(own).answers("q", own.encode(cells_of([0.0, at_least(30), 17.0, between(3, 9)])))
    assert mixed.share_interval == 0.5
    np.testing.assert_allclose(mixed.values, [0, 29.5, 17, 6], atol=0.5)
    assert RoundedForm(own).answers("q", own.encode(cells_of([None, None]))).share_interval == 0.0


def test_the_middle_of_a_frequent_number_is_its_mean_score() -> None:
    own = column("rank-normal", 0)
    block = own.encode(cells_of([0.0, 52.0, 17.0, at_least(40), None]))
    middle, says = RoundedForm(own)._middle(block)
    z = np.random.default_rng(0).normal(size=400_000)
    for line in range(3):
        inside = z[(z > block.lower[line, 0]) & (z <= block.upper[line, 0])]
        assert middle[line] == pytest.approx(inside.mean(), abs=5 * inside.std() / np.sqrt(len(inside)))
    assert middle[3] == block.lower[3, 0]
    np.testing.assert_array_equal(says, [True, True, True, True, False])
    profile = RoundedForm(own).profile(block)
    assert profile.to_user is not None
    np.testing.assert_array_equal(profile.to_user(profile.values[:3, 0]), [0, 52, 17])
