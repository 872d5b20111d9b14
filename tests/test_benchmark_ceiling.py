"""The benchmark of what surveys allow, on a small made table: what learners see, what is kept, what is reported."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import ceiling, ceiling_learners, defaults

import thurbo as tb
from tests.small_survey import small_survey
from thurbo.table.columns.forms import form

N_TREES = 5
SMALL_FIT = {"n_hidden": 2, "n_factors": 1, "max_epochs": 5}


@pytest.fixture(scope="module")
def schema() -> tb.Schema:
    columns = {"fan": tb.Binary(true="yes"), "trust": tb.Ordinal(["none", "some", "a lot"]), "age": tb.Continuous()}
    return tb.Schema(columns)


@pytest.fixture(scope="module")
def one(schema: tb.Schema) -> defaults.Masked:
    return defaults.hide("made", small_survey(200), schema, ceiling.FIRST_MASK)


@pytest.fixture(autouse=True)
def small_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = defaults.fit
    monkeypatch.setattr(defaults, "fit", lambda one, **settings: fit(one, **{**SMALL_FIT, **settings}))


@pytest.fixture(scope="module")
def untrained(one: defaults.Masked) -> tb.TBM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tb.TBM(one.schema, random_state=0, verbose=False, **ceiling.UNTRAINED).fit(one.shown)


def predicted(
    one: defaults.Masked, model: tb.TBM, learner: ceiling_learners.Learner, patch: pytest.MonkeyPatch
) -> tuple[list[form.Tested], list[np.ndarray]]:
    """Scores of a learner, and every probability, mean and standard deviation that it gives for the hidden answers."""
    found = list[np.ndarray]()

    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            result = function(*given)
            found.extend(result if isinstance(result, tuple) else [result])
            return result

        return call

    with patch.context() as inner:
        for name in ("label_chances", "numbers"):
            inner.setattr(ceiling, name, recorded(getattr(ceiling, name)))
        return ceiling.learned(one, model, learner), found


@pytest.mark.parametrize("name", list(ceiling.learners(N_TREES)))
def test_a_learner_sees_no_hidden_answer(
    one: defaults.Masked, untrained: tb.TBM, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden answers change places within their column: the table that is shown and all predictions stay the same."""
    frame = one.frame.copy()
    for column, rows in one.hidden.items():
        frame.loc[rows, column] = np.roll(frame.loc[rows, column].to_numpy(), 1)
        assert (frame.loc[rows, column] != one.frame.loc[rows, column]).any()
    other = defaults.hide("made", frame, one.schema, one.seed, mask=one.hidden)
    pd.testing.assert_frame_equal(other.shown, one.shown)
    every = ceiling.learners(N_TREES)[name]
    learner = every._replace(classifiers=every.classifiers[:2])  # fewer settings take less time
    (tests, before), (_, after) = (predicted(each, untrained, learner, monkeypatch) for each in (one, other))
    assert [len(values) for values in before] == [one.hidden[each].sum() for each in ("fan", "trust", "age", "age")]
    for first, second in zip(before, after, strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)  # threads add trees in any order
    for chances in before[:2]:
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert all(np.ptp(values, axis=0).max() > 0 for values in before[:3])  # they use the other columns

    baselines = one.score(untrained)
    assert [(each.about, each.row.tolist()) for each in tests] == [(e.about, e.row.tolist()) for e in baselines]
    found, usual = ceiling.answers(tests, "_boosting"), ceiling.answers(baselines, "_marginal")
    assert np.isfinite(found).all()
    assert found.mean() > usual.mean() - 0.1


def test_a_run_is_continued_and_reported(
    one: defaults.Masked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = {name: ceiling.learners(N_TREES)[name] for name in ("fine_logistic", "kernel_logistic", "neighbours")}
    monkeypatch.setattr(ceiling, "learners", lambda n_trees: some if n_trees == N_TREES else {})
    first = ceiling.scores(one, N_TREES, tmp_path)
    assert set(first) == {"thurbo", "logistic", "boosting", *some}
    assert all(np.isfinite(values).all() and len(values) == len(first["thurbo"]) for values in first.values())

    (path,) = tmp_path.iterdir()
    defaults.save(path, {name: values for name, values in first.items() if name != "neighbours"})
    learn = ceiling.learned

    def only_what_is_missing(one: defaults.Masked, model: tb.TBM, learner: ceiling_learners.Learner) -> Any:
        assert learner is some["neighbours"]
        return learn(one, model, learner)

    monkeypatch.setattr(ceiling, "learned", only_what_is_missing)
    again = ceiling.scores(one, N_TREES, tmp_path)
    assert set(again) == set(first)
    for name, values in first.items():
        np.testing.assert_array_equal(again[name], values)

    monkeypatch.setattr(defaults, "fit", lambda *_, **__: pytest.fail("fitted again"))
    table = ceiling.summary([ceiling.scores(one, N_TREES, tmp_path), first])
    ceiling.report({"made": table})
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["tables"]["made"] == table
    assert table["n"] == 2 * len(first["thurbo"])
    others = [table["logistic"], table["boosting"], *table["learners"].values()]
    assert table["stacked_without"] >= max(others)
    assert table["stacked"] >= max(table["log_score"], table["stacked_without"] - 1e-7)
    assert last["mean_over_logistic"] == pytest.approx(table["log_score"] - table["logistic"])
    assert last["ceiling_over_logistic"] == pytest.approx(table["stacked"] - table["logistic"])
    assert last["ceiling_without_over_logistic"] == pytest.approx(table["stacked_without"] - table["logistic"])


def test_the_best_mean_is_that_of_a_fine_grid() -> None:
    rng = np.random.default_rng(0)
    logs = np.log(rng.uniform(0.05, 0.95, (2, 400)))
    share = np.linspace(0.0, 1.0, 2001)[:, None]
    grid = np.log(share * np.exp(logs[0]) + (1.0 - share) * np.exp(logs[1])).mean(axis=1)
    assert ceiling.best_mean(list(logs)) == pytest.approx(grid.max(), abs=1e-6)
    assert ceiling.best_mean([logs[0], logs[0] - 1.0]) == pytest.approx(logs[0].mean(), abs=1e-7)
    excluded = np.where(np.arange(400) == 0, -2000.0, logs[0] + 0.1)  # best but for one answer
    assert ceiling.best_mean([logs[0], excluded]) > logs[0].mean() + 0.05


def test_rare_labels_and_few_answers_give_shares() -> None:
    """A label that was given once is not learned but keeps its share; too few answers give shares alone."""
    rng = np.random.default_rng(0)
    inputs, models = rng.normal(size=(80, 3)), ceiling.learners(N_TREES)["neural_network"].classifiers
    code, asked = (inputs[:, 0] > 0).astype(int), np.arange(70, 80)
    code[0], code[asked] = 2, -1
    chances = ceiling.label_chances(models, inputs, code, asked, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (chances[:, 2] > 0).all()
    assert (chances[:, 2] < 0.01).all()
    code[30:] = -1
    few = ceiling.label_chances(models, inputs, code, asked, 3)
    assert np.ptp(few, axis=0).max() == 0.0
    guess = ceiling.numbers(None, inputs, inputs[:, 0], np.arange(80) < 30, asked)
    assert guess.mean == pytest.approx(np.full(10, inputs[:30, 0].mean()))
