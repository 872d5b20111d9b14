"""The survey benchmark on made answers: what is read, hidden, filled in and judged. No survey is needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import afrobarometer, survey, survey_baselines, tempering
from benchmarks.classify import error

import thurbo as tb
from tests.known import changed

TOML = """
source = "made.zsav"
target = "COUNTRY"

[[question]]
name = "yes"
type = "binary"
levels = [0, 1]
missing = [9]

[[question]]
name = "agree"
type = "ordinal"
levels = [1, 2, 5]
missing = [-1]

[[question]]
name = "faith"
type = "categorical"
levels = [0, 1, 3]
missing = [99]
merge = { 3 = 1, 5 = 3 }
unasked_in = ["Mali"]

[[question]]
name = "size"
type = "continuous"
transform = "log1p"
missing = [-1]

[[question]]
name = "first"
type = "rank_mention"
group = "problems"
items = [1, 2, 3]
missing = [0]

[[question]]
name = "second"
type = "rank_mention"
group = "problems"
items = [1, 2, 3]
missing = [0]
"""
N_ROWS = 80


def raw_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    country = rng.integers(1, 4, N_ROWS)
    return pd.DataFrame(
        {
            "yes": rng.choice([0, 1, 9], N_ROWS, p=[0.4, 0.5, 0.1]),
            "agree": np.where(rng.random(N_ROWS) < 0.8, np.asarray([1, 2, 5])[country - 1], rng.choice([1, 2, 5, -1])),
            "faith": rng.choice([0, 1, 3, 5, 99], N_ROWS),
            "size": rng.integers(-1, 8, N_ROWS),
            "first": rng.integers(0, 4, N_ROWS),
            "second": rng.integers(0, 4, N_ROWS),
            "COUNTRY": country,
        }
    ).astype(float)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the benchmark data's, with a file of another survey."""
    import pyreadstat

    folder = tmp_path_factory.mktemp("data") / "afrobarometer-r4"
    folder.mkdir()
    (folder / "schema.toml").write_text(TOML)
    raw = raw_table()
    labels = {"COUNTRY": {1.0: "Benin", 2.0: "Ghana", 3.0: "Mali"}}
    pyreadstat.write_sav(raw, str(folder / "made.zsav"), compress=True, variable_value_labels=labels)
    names = list(raw.columns[:-1])
    told = afrobarometer.answers(raw, _questions()).notna().to_numpy()
    mask = (np.random.default_rng(5).random(told.shape) < 0.3) & told
    np.savez(folder / "r4_mask.npz", mask=mask, names=np.asarray(names))
    return folder


def _questions() -> list[dict]:
    import tomllib

    return tomllib.loads(TOML)["question"]


@pytest.fixture
def made(place: Path, monkeypatch: pytest.MonkeyPatch) -> afrobarometer.Survey:
    monkeypatch.setenv("THURBO_DATA", str(place.parent))
    return afrobarometer.load()


# ---- reading


def test_codes_are_merged_once_and_what_was_mentioned_before_is_no_second_mention(made: afrobarometer.Survey):
    raw = raw_table()
    faith = raw["faith"].map({0: 0, 1: 1, 3: 1, 5: 3})  # 5 becomes 3, and that 3 does not become 1
    np.testing.assert_array_equal(made.frame["faith"], faith)
    assert made.frame["yes"].isna().sum() == (raw["yes"] == 9).sum()
    twice = (raw["first"] == raw["second"]) & (raw["first"] != 0)
    assert twice.any()
    assert made.frame.loc[twice, "second"].isna().all()
    assert made.frame.loc[twice, "first"].notna().all()
    assert made.country_names == {1: "Benin", 2: "Ghana", 3: "Mali"}
    assert made.names(strict=True) == ["yes", "agree", "size", "first", "second"]


def test_the_copy_for_machines_without_a_reader_says_the_same(
    made: afrobarometer.Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.argv", ["afrobarometer", str(tmp_path / "afrobarometer-r4")])
    afrobarometer.main()
    monkeypatch.setenv("THURBO_DATA", str(tmp_path))
    monkeypatch.setattr(afrobarometer, "read_frame", None)
    again = afrobarometer.load()
    pd.testing.assert_frame_equal(again.frame, made.frame)
    np.testing.assert_array_equal(again.country, made.country)
    np.testing.assert_array_equal(again.mask, made.mask)
    assert again.country_names == made.country_names


def test_codes_are_places_among_the_labels(made: afrobarometer.Survey):
    agree = survey_baselines.codes_of(made.questions[1], np.asarray([5.0, 1.0, np.nan, 2.0, 7.0]))
    np.testing.assert_array_equal(agree, [2, 0, -1, 1, -1])
    size = survey_baselines.codes_of(made.questions[3], np.asarray([4.0, np.nan]))
    np.testing.assert_array_equal(size, [4.0, np.nan])


# ---- measures


def test_marginals_score_their_entropy_and_an_smae_of_one(made: afrobarometer.Survey):
    shown = made.frame.mask(made.mask)
    guesses = survey_baselines.marginals(shown, made.mask, made.questions)
    scores = survey_baselines.score(made.frame, shown, made.mask, made.questions, guesses)
    assert scores["ordinal"]["smae"] == pytest.approx(1.0)
    assert scores["continuous"] == {"accuracy": None, "log_score": None, "smae": pytest.approx(1.0)}
    share = (shown["yes"] == 1).sum() / shown["yes"].notna().sum()
    true = made.frame["yes"][made.mask[:, 0]]
    assert scores["binary"]["accuracy"] == pytest.approx((true == float(share > 0.5)).mean())
    expected = np.log(np.where(true == 1, share, 1 - share)).mean()
    assert scores["binary"]["log_score"] == pytest.approx(expected)


def test_the_truth_scores_best_and_is_calibrated(made: afrobarometer.Survey):
    shown = made.frame.mask(made.mask)
    guesses = {}
    for position, q in enumerate(made.questions):
        code, labels = survey_baselines.codes_of(q, made.frame[q["name"]]), survey_baselines.labels_of(q)
        code = code[made.mask[:, position]]
        guesses[q["name"]] = code if labels is None else np.eye(len(labels))[code]
    scores = survey_baselines.score(made.frame, shown, made.mask, made.questions, guesses)
    assert scores["ordinal"] == {"accuracy": 1.0, "log_score": 0.0, "smae": 0.0}
    assert scores["rank"]["accuracy"] == 1.0
    errors = survey_baselines.calibration(made.frame, made.mask, made.questions, guesses)
    assert errors == dict.fromkeys(("binary", "ordinal", "categorical", "rank"), 0.0)
    guesses["yes"] = guesses["yes"][:, ::-1]
    assert survey_baselines.calibration(made.frame, made.mask, made.questions, guesses)["binary"] == 1.0


def test_regressions_see_other_answers_and_not_their_own():
    rng = np.random.default_rng(0)
    a, noise = rng.integers(0, 2, 400).astype(float), rng.integers(0, 2, 400).astype(float)
    frame = pd.DataFrame({"a": a, "same": a, "noise": noise})
    questions = [{"name": name, "type": "binary", "levels": [0, 1]} for name in frame]
    hidden = np.zeros(frame.shape, bool)
    hidden[:100, 1] = hidden[100:200, 2] = True
    guesses = survey_baselines.by_regression(frame.mask(hidden), hidden, questions, n=3)
    scores = {}
    for position, name in enumerate(frame):
        only = hidden & (np.arange(3) == position)
        if only.any():
            found = survey_baselines.score(frame, frame.mask(hidden), only, questions, guesses)
            scores[name] = found["binary"]["log_score"]
    assert scores["same"] > -0.05
    # A regression that had seen its own answer would be sure of itself, and wrong half of the time.
    assert scores["noise"] == pytest.approx(np.log(0.5), abs=0.05)


def test_the_classifier_learns_from_the_training_rows_alone():
    rng = np.random.default_rng(0)
    country = np.repeat([4, 7, 9], 50)
    features = np.eye(3)[np.unique(country, return_inverse=True)[1]] * 6 + rng.normal(size=(150, 3))
    parts = survey.splits(150, 1)
    train, test = parts[0]
    assert survey.country_errors(features, country, parts) == pytest.approx([0.0], abs=7.0)
    country[train] = np.where(country[train] == 4, 7, np.where(country[train] == 7, 4, 9))
    expected = 100 * (country[test] != 9).mean()
    assert survey.country_errors(features, country, parts) == pytest.approx([expected], abs=7.0)
    assert error(np.asarray([0, 1, 1]), np.asarray([0, 1, 2])) == pytest.approx(100 / 3)


def test_splits_part_the_rows_and_stay_within_those_given():
    for train, test in survey.splits(50, 3):
        assert len(test) == 10
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(50))
    inside = np.arange(0, 50, 2)
    train, test = survey.splits(50, 1, within=inside)[0]
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), inside)


# ---- the model


@pytest.mark.parametrize("unobserved", ["marginalize", pytest.param("exclude", marks=pytest.mark.slow)])
def test_cells_filled_in_together_are_what_each_column_would_be_predicted(made: afrobarometer.Survey, unobserved: str):
    shown = made.frame.mask(made.mask)
    settings = {"n_hidden": 3, "n_factors": 1, "max_epochs": 0, "objective": "multi-prediction"}
    model = survey.fit(shown, made.questions, settings | {"unobserved": unobserved}).model
    weights = np.random.default_rng(0).normal(size=model.params_.weights.shape)
    params = model.params_._replace(weights=np.asarray(weights, model.params_.weights.dtype))
    model.model_ = changed(model.model_, params)
    guesses = survey.fill_in(model, shown, made.mask, made.questions)
    for position, name in enumerate(shown):
        rows = made.mask[:, position]
        if isinstance(model.schema_[name], tb.Continuous):
            expected = model.predict(shown, [name], statistic="median", method="mean-field")[name]
        else:
            expected = model.predict_proba(shown, name, method="mean-field")
        np.testing.assert_allclose(guesses[name], np.asarray(expected)[rows], rtol=1e-4, atol=1e-6)


def test_powers_undo_what_made_guesses_too_sure_or_not_sure_enough():
    rng = np.random.default_rng(0)
    kinds = {"a": ("binary", 2, 2.0), "b": ("ordinal", 4, 0.5), "c": ("continuous", 0, 1.0)}
    questions, guesses, codes = [], {}, {}
    for name, (kind, n, spoiled) in kinds.items():
        questions.append({"name": name, "type": kind, "levels": list(range(n)), "items": []})
        chance = rng.dirichlet(np.ones(max(n, 1)), 5000)
        codes[name] = [float(rng.choice(len(p), p=p)) for p in chance]
        guesses[name] = tempering.raised(chance, spoiled) if n else chance[:, 0]
    truth, hidden = pd.DataFrame(codes), np.ones((5000, 3), bool)
    found = tempering.powers(truth, hidden, questions, guesses)
    assert found == pytest.approx({"binary": 0.5, "ordinal": 2.0}, rel=0.06)
    mended = tempering.tempered(questions, guesses, found)
    np.testing.assert_array_equal(mended["c"], guesses["c"])
    for name in "ab":
        np.testing.assert_array_equal(mended[name].argmax(axis=1), guesses[name].argmax(axis=1))
        np.testing.assert_allclose(mended[name].sum(axis=1), 1.0)
    before, after = (survey_baselines.calibration(truth, hidden, questions, g) for g in (guesses, mended))
    assert before["binary"] > 0.08
    assert before["ordinal"] > 0.08
    assert max(after.values()) < 0.03


def test_rows_to_temper_by_hide_only_what_they_show(made: afrobarometer.Survey):
    shown = made.frame.mask(made.mask)
    apart = tempering.rows_apart(len(shown))
    assert len(np.unique(apart)) == len(shown) // 10
    judged, held = tempering.to_judge_by(shown.iloc[apart])
    assert judged.shape == held.shape == (len(apart) * tempering.N_TURNS, shown.shape[1])
    assert judged.notna().to_numpy()[held].all()
    assert 0 < held.sum() < 0.15 * judged.notna().to_numpy().sum()


class Stub:
    """A model that has learned nothing, for what surrounds it."""

    def transform(self, frame: pd.DataFrame, output: str) -> np.ndarray:
        assert output == "log_odds"
        return frame.fillna(-1.0).to_numpy()


def test_a_run_ends_in_json(
    made: afrobarometer.Survey, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    learned = []

    def fit(frame: pd.DataFrame, questions: list[dict], settings: dict) -> survey.Fitted:
        learned.append((list(frame), settings))
        return survey.Fitted(Stub(), 2.0)

    monkeypatch.setattr(survey, "fit", fit)
    monkeypatch.setattr(survey, "fill_in", lambda model, *rest: survey_baselines.marginals(*rest))
    monkeypatch.setattr(survey, "country_errors", lambda features, *_: np.full(2, float(features.shape[1])))
    monkeypatch.setattr(survey.peers, "by_regression", survey_baselines.marginals)
    survey.main(["--quick", "--hidden", "3", "--set", '{"weight_decay": 0.5}', "--splits", "1", "--fits", "2"])
    printed = capsys.readouterr().out
    assert "faith (Mali)" in printed
    last = json.loads(printed.splitlines()[-1])
    for name, (n_all, n_strict) in {"country": (6, 5), "svd": (15, 12), "onehot": (15, 12), "missing": (6, 5)}.items():
        assert last[f"{name}_error"] == n_all
        assert last[f"{name}_error_strict"] == n_strict
    assert set(last["impute"]) == {"binary", "categorical", "rank", "ordinal", "continuous"}
    for kind, measures in last["impute_one"].items():
        assert measures == pytest.approx(last["baselines"]["marginals"][kind])
    assert {"binary", "categorical"} <= set(last["power"]) <= set(last["impute"]) - {"continuous"}
    assert {"binary", "ordinal"} <= set(last["calibration"])
    assert last["seconds"] == 2.0
    assert last["seconds_impute"] == 4.0
    assert [len(names) for names, _ in learned] == [6, 5, 6, 6]
    assert all("COUNTRY" not in names for names, _ in learned)
    assert all(given["n_hidden"] == 3 and given["weight_decay"] == 0.5 for _, given in learned)
    assert [given.get("random_state") for _, given in learned[2:]] == [0, 1]


def test_validation_leaves_the_cells_of_the_test_alone(made: afrobarometer.Survey, monkeypatch: pytest.MonkeyPatch):
    seen = {}

    def judge(truth, shown, hidden, questions, guesses):
        seen.update(shown=shown, hidden=hidden)
        return {}

    monkeypatch.setattr(survey, "fill_in", lambda *_: {})
    monkeypatch.setattr(survey.tempering, "powers", lambda *_: {})
    monkeypatch.setattr(survey, "fit", lambda *_: survey.Fitted(None, 0.0))
    monkeypatch.setattr(survey.peers, "score", judge)
    monkeypatch.setattr(survey.peers, "calibration", lambda *_: {})
    survey.main(["--validate", "--only", "impute", "--no-baselines"])
    assert seen["hidden"].any()
    assert not (seen["hidden"] & made.mask).any()
    assert seen["shown"].isna().to_numpy()[seen["hidden"] | made.mask].all()
