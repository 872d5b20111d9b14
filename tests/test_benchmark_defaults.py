"""The benchmark of default settings on a small made table: what it hides, what it keeps, what it reports."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import defaults, defaults_tasks

import thurbo as tb
from tests.small_survey import small_survey
from thurbo.predict import baseline
from thurbo.table.columns.forms import form


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return small_survey(120)


@pytest.fixture(scope="module")
def schema() -> tb.Schema:
    columns = {"fan": tb.Binary(true="yes"), "trust": tb.Ordinal(["none", "some", "a lot"]), "age": tb.Continuous()}
    return tb.Schema(columns)


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame, schema: tb.Schema) -> tb.TBM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = defaults.hide("made", frame, schema, 0)
        settings: dict[str, Any] = {"n_hidden": 1, "n_factors": 0, "max_epochs": 0}
        return defaults.fit(one, **settings)[0]


def test_hidden_answers_are_not_shown(frame: pd.DataFrame, schema: tb.Schema) -> None:
    one, other = (defaults.hide("made", frame, schema, seed) for seed in (0, 1))
    for name, rows in one.hidden.items():
        assert 0 < rows.sum() < 30
        assert one.shown[name][rows].isna().all()
        assert frame[name][rows].notna().all()
        pd.testing.assert_series_equal(one.shown[name][~rows], frame[name][~rows])
    assert any((one.hidden[name] != other.hidden[name]).any() for name in one.hidden)


def test_baselines_are_kept(
    frame: pd.DataFrame, schema: tb.Schema, model: tb.TBM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run gives the same figures without fitting a regression; another mask has another file."""
    first = defaults.hide("made", frame, schema, 0, tmp_path).figures(model)
    assert len(list(tmp_path.iterdir())) == 1
    for name in ("logistic", "ridge", "boosting", "boosted_numbers"):
        monkeypatch.setattr(baseline, name, lambda *_: pytest.fail("fitted again"))
    monkeypatch.setattr(defaults, "NUMBERS", (baseline.ridge, baseline.boosted_numbers))
    assert defaults.hide("made", frame, schema, 0, tmp_path).figures(model) == pytest.approx(first)
    assert set(first) == {"log_score", "marginal", "logistic", "boosting", "both", "ece"}
    with pytest.raises(pytest.fail.Exception, match="fitted again"):
        defaults.hide("made", frame, schema, 1, tmp_path).figures(model)


def test_the_report_counts_verdicts(
    frame: pd.DataFrame, schema: tb.Schema, model: tb.TBM, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = defaults.hide("made", frame, schema, 0, tmp_path).score(model)
    found = defaults.summary([tests, tests], [1.0, 3.0])
    assert found["seconds"] == 2.0
    assert found["n_ece"] == 2 * found["n_distinct"] > 0
    assert found["difference"] == pytest.approx(found["log_score"] - max(found["logistic"], found["boosting"]))
    assert found["difference_by_mask"] == pytest.approx([found["difference"]] * 2)
    low, high = found["difference_interval"]
    assert found["verdict"] == ("ahead" if low > 0 else "behind" if high < 0 else "level")
    defaults.report({"made": found})
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["ahead"] + last["level"] + last["behind"] == 1
    assert last["mean_gain"] == pytest.approx(found["difference"])
    wanted = {"log_score", "interval", "logistic", "boosting", "marginal", "tuned", "ece", "ece_p", "seconds"}
    assert wanted <= set(last["tables"]["made"])


def made(kind: str, sure: np.ndarray, right: np.ndarray, row: np.ndarray | None = None) -> form.Tested:
    """Answers to one question of this kind, by default of different rows."""
    row = np.arange(len(sure)) if row is None else row
    parts = {"confidence": {"": sure}, "right": {"": right.astype(float)}}
    return form.Tested(f"a {kind} one", kind, "label", row, np.ones(len(sure)), **parts)


def test_calibration_is_that_of_all_binary_and_ordinal_answers() -> None:
    rng = np.random.default_rng(2)  # not the seed of the simulations
    sure = rng.uniform(0.4, 1.0, 20_000)
    honest = made("binary", sure, rng.random(20_000) < sure)
    boastful = made("ordinal", np.full(20_000, 0.9), np.ones(20_000))
    ignored = made("continuous", np.full(9, 0.9), np.zeros(9))
    found = defaults.calibration([honest, boastful, ignored])
    assert found.n == found.n_distinct == 40_000  # the same rows of two columns are different answers
    assert found.error == pytest.approx(0.05, abs=0.01)
    assert found.noise is not None
    assert found.noise < 0.005
    assert found.p == 0.0
    assert defaults.calibration([honest]).p > 2e-5


def test_repeated_answers_are_right_or_wrong_together() -> None:
    """Distinct answers are independent draws; answers that six masks hide, with similar confidence, are not."""
    rng = np.random.default_rng(1)
    sure = rng.uniform(0.5, 1.0, 600)
    right = (rng.random(600) < sure).astype(float)
    distinct = defaults.calibration([made("binary", sure, right)])
    again = np.random.default_rng(0)
    simulated = [form.calibration_of_labels(sure, again.random(600) < sure) for _ in range(defaults.N_SIMULATED)]
    assert distinct.noise == np.mean(simulated)
    assert distinct.p == np.mean(np.asarray(simulated) > distinct.error - 1e-12)

    similar = np.tile(sure[:100], 6) - 0.01 * rng.random(600)
    apart = defaults.calibration([made("binary", similar, right)])
    masks = [made("binary", each, right[:100], np.arange(100)) for each in similar.reshape(6, 100)]
    repeated = defaults.calibration(form.pooled(masks))
    assert (apart.n, apart.n_distinct, repeated.n, repeated.n_distinct) == (600, 600, 600, 100)
    assert repeated.noise > 2.0 * apart.noise  # about the square root of six
    assert repeated == defaults.calibration(masks)  # pooled answers keep their rows

    same = [made("ordinal", sure[:100], right[:100]) for _ in range(6)]
    once = defaults.calibration(same[:1])
    assert defaults.calibration(same)[:3] == pytest.approx(once[:3])  # the same answers six times say no more


def test_only_some_columns_are_scored_and_baselines_can_be_left_out(
    frame: pd.DataFrame, schema: tb.Schema, model: tb.TBM
) -> None:
    mask = {name: np.arange(len(frame)) % 7 == 0 for name in schema}
    one = defaults.hide("made", frame, schema, 0, mask=mask, scored=["fan", "age"], baselines=())
    for name in schema:
        np.testing.assert_array_equal(one.hidden[name], mask[name] & frame[name].notna())
    found = defaults.summary([one.score(model)], [1.0])
    assert found["logistic"] is None
    assert "verdict" not in found
    assert set(found["by_kind"]) == {"binary", "continuous"}
    assert found["n"] == sum(one.hidden[name].sum() for name in ("fan", "age"))
    assert defaults.calibration([]) == (None, None, None, 0, 0)


def test_tasks_are_summed_up_over_seeds() -> None:
    found = defaults.task_summary("ml-1m", [defaults_tasks.Found(0.79, 10.0), defaults_tasks.Found(0.80, 30.0)])
    assert (found["value"], found["seconds"], found["measure"]) == (pytest.approx(0.795), 20.0, "NDCG@5")
    assert found["larger_is_better"]
    assert not defaults_tasks.TASKS["mnist"].larger_is_better


def test_a_table_with_few_answers_has_more_masks(
    frame: pd.DataFrame, schema: tb.Schema, model: tb.TBM, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As many masks as hide enough binary and ordinal answers, not fewer than asked for, and not more than twelve.

    Masks that an earlier run ended are not run again.
    """
    one = defaults.hide("made", frame, schema, 0, baselines=())
    n_hidden = int(one.hidden["fan"].sum() + one.hidden["trust"].sum())  # not those of a number
    for enough, least, expected in ((n_hidden, 1, 1), (n_hidden + 1, 1, 2), (4 * n_hidden, 3, 4), (10**6, 3, 12)):
        monkeypatch.setattr(defaults, "ENOUGH_ANSWERS", enough)
        assert defaults.n_masks(one, least) == expected
    assert defaults.n_masks(one, 22) == 22
    assert defaults.n_masks(one._replace(hidden={"age": one.hidden["age"]}), 3) == 3

    used = list[int]()

    def tables(names: list[str], seed: int, cache: Path | None) -> list[defaults.Masked]:
        used.append(seed)
        return [defaults.hide(names[0], frame, schema, seed, cache, baselines=())]

    monkeypatch.setattr(defaults, "masked_tables", tables)
    monkeypatch.setattr(defaults, "fit", lambda one, **_: (model, 1.0))
    monkeypatch.setattr(defaults, "ENOUGH_ANSWERS", 3 * n_hidden)
    for most, expected in ((12, 3), (2, 2)):
        ((name, found),) = defaults.measure(["made"], 2, most, 1, None, None, False, {})
        assert (name, found["n_masks"]) == ("made", expected)
    assert used == [0, 1, 2, 0, 1]

    used.clear()
    few, more = (dict(defaults.measure(["made"], 2, most, 1, None, tmp_path, False, {})) for most in (2, 12))
    assert used == [0, 1, 2]  # the last one by the second run
    assert (few["made"]["n_masks"], more["made"]["n_masks"]) == (2, 3)
    ((_, again),) = defaults.measure(["made"], 2, 12, 1, None, None, False, {})
    assert more["made"] == again
