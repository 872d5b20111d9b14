"""The benchmark of choices: its data, baselines, splits and figures, on small made data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import choices
from benchmarks import choices_baselines as baselines
from benchmarks import choices_data as tasks
from benchmarks.choices_data import Comparisons

import thurbo as tb


def test_a_long_file_becomes_tasks_with_the_chosen_profile_first() -> None:
    frame = pd.DataFrame(
        {
            "choice": [False, True, True, False],
            "id": [7, 7, 9, 9],
            "alt": [1, 2, 1, 2],
            **{name: [0.0, 0.0, 0.0, 0.0] for name in tasks.ATTRIBUTES},
            "pf": [5.0, 7.0, 5.0, 9.0],
            "chid": [1, 1, 2, 2],
        }
    )
    data = tasks.read_electricity(frame)
    assert data.person.tolist() == [0, 1]
    assert data.features is not None
    assert data.features[data.order][:, :, 0].tolist() == [[7.0, 5.0], [5.0, 9.0]]
    assert isinstance(tasks.column(data), tb.Choice)


def test_a_fifth_of_the_tasks_of_each_person_is_held_out() -> None:
    data = tasks.best_worst(0, n_persons=6, n_tasks=10)
    held = tasks.held_out(data, 0)
    assert np.bincount(data.person, held).tolist() == [2.0] * 6
    assert not (held == tasks.held_out(data, 1)).all()
    own = choices.split_persons(data, 0)
    assert (own.train.n_persons, own.asked.n_persons) == (5, 1)
    assert len(own.train.order) + len(own.asked.order) == len(data.order)


def test_a_best_and_a_worst_are_two_choices() -> None:
    data = Comparisons(np.zeros(1, int), np.asarray([[2, 0, 1, 3]]), 4, has_worst=True)
    assert tasks.cells(data) == [[[["002"], ["000", "001", "003"]], [["000", "001"], ["003"]]]]


def test_a_logit_finds_the_utilities_that_made_the_answers() -> None:
    rng = np.random.default_rng(0)
    utility = np.asarray([1.0, 0.0, -0.5, -0.5])
    shown = np.stack([rng.permutation(4) for _ in range(4000)])
    best = np.argmax(utility[shown] + rng.gumbel(size=shown.shape), axis=1)
    order = np.stack([np.r_[row[at], np.delete(row, at)] for row, at in zip(shown, best, strict=True)])
    data = Comparisons(np.zeros(len(order), int), order, 4)
    np.testing.assert_allclose(baselines.fit_logit(data, 1e-3), utility, atol=0.1)


@pytest.mark.parametrize("has_worst", [True, False])
def test_the_answers_of_a_task_have_probabilities_that_sum_to_one(has_worst: bool) -> None:
    utility = np.asarray([0.3, -1.0, 2.0])
    if has_worst:
        orders = np.asarray([[a, 3 - a - b, b] for a in range(3) for b in range(3) if a != b])
    else:
        orders = np.asarray([[0, 1, 2], [1, 0, 2], [2, 0, 1]])
    assert np.exp(baselines.log_chances(orders, utility[orders], has_worst, 0.7)).sum() == pytest.approx(1)


def test_counts_know_the_person() -> None:
    """Two persons with opposite tastes: counts of all say nothing, their own say all."""
    order = np.asarray([[0, 1, 2], [2, 1, 0]] * 20)
    data = Comparisons(np.asarray([0, 1] * 20), order, 3, has_worst=True)
    every, own = baselines.counts(data, 2)
    np.testing.assert_allclose(every, 0.0)
    assert own[0, 0] > 0.9 > -0.9 > own[1, 0]
    known = np.arange(40) < 30
    counted, plain = (rule(data.take(known), data.take(~known)) for rule in (baselines.counting, baselines.logit))
    assert counted.mean() > plain.mean() + 0.5


def test_judges_differ_only_where_they_should() -> None:
    data, held = tasks.pairs(0, differ=False, n_tasks=300, n_test=100, n_persons=3, n_items=5)
    assert (data.order.shape, int(held.sum()), data.n_persons) == ((400, 2), 100, 3)
    assert isinstance(tasks.column(data), tb.Pairs)


def test_held_out_tasks_are_scored_in_their_own_order() -> None:
    """A model without hidden units, which knows the utilities: each score is that of the task that it belongs to."""
    data = Comparisons(
        np.asarray([1, 0, 1, 0, 1, 0] * 20), np.asarray([[0, 1], [0, 1], [1, 2], [0, 2], [1, 0], [2, 1]] * 20), 3
    )
    held = np.arange(120) >= 108
    own = choices.Split(data.take(~held), data, held)
    table = {"tasks": tasks.cells(own.train)}
    model = tb.TBM({"tasks": tasks.column(data)}, n_hidden=0, max_epochs=2, random_state=0, verbose=False).fit(table)
    found = choices.scored(model, own)
    nobody = {"tasks": [None]}
    names = [f"{item:03d}" for item in range(3)]
    wanted = [float(model.prefers(nobody, names[a], names[b])[0]) for a, b in own.test.order.tolist()]
    np.testing.assert_allclose(np.exp(found), wanted, atol=1e-5)


def test_differences_have_intervals_over_persons() -> None:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(400), 5)
    gap = 0.1 + rng.normal(size=400)[person]  # the tasks of a person go together
    mean, low, high = choices.difference(gap, np.zeros(len(gap)), person)
    assert low < mean < high
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(400), rel=0.15)


def test_the_last_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"thurbo": np.log([0.5, 0.6, 0.5]), "logit": np.log([0.4, 0.5, 0.5])}
    choices.report({"made": choices.summary(scores, np.asarray([0, 0, 1]))})
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["tables"]["made"]
    assert found["log_score"] > found["peers"]["logit"]
    assert found["ahead"]["logit"][0] == pytest.approx(found["log_score"] - found["peers"]["logit"])


def test_absent_peers_and_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THURBO_DATA", str(tmp_path))
    assert choices.split("electricity", 0, tmp_path) is None
    data, held = tasks.pairs(0, differ=True, n_tasks=20, n_test=10, n_persons=2, n_items=4)
    own = choices.Split(data.take(~held), data, held)
    assert choices.rivals("pairs, judges differ", own, tmp_path) == {}
