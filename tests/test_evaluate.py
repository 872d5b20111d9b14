"""The trust signal against its definition: hidden cells blanked by hand, and scored with nothing but public queries."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import thurbo as tb
from tests.known import ISSUES, PARTIES, SCHEMA, TRUST, known_model
from thurbo.errors import ThurboError
from thurbo.predict import baseline
from thurbo.predict import evaluation as evaluate
from thurbo.predict.evaluation import Evaluation
from thurbo.table.columns.forms.form import (
    MEASURES,
    N_BINS,
    RIVALS,
    SURPRISING,
    calibration_of_labels,
    calibration_of_numbers,
    label_rivals,
)

HIDE = 0.3
CODES = {"member": ("no", "yes"), "trust": TRUST, "party": PARTIES}


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return known_model()


@pytest.fixture(scope="module")
def frame(model: tb.TBM) -> pd.DataFrame:
    drawn = model.sample(700, random_state=3)
    gone = np.random.default_rng(1).random(drawn.shape) < 0.1
    return drawn.mask(gone)


@pytest.fixture(scope="module")
def hidden(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The same choice as `evaluate` makes, from the same seed."""
    return evaluate.choose(SCHEMA, SCHEMA.compile(frame), HIDE, np.random.RandomState(0))


@pytest.fixture(scope="module")
def shown(frame: pd.DataFrame, hidden: dict[str, np.ndarray]) -> pd.DataFrame:
    return frame.assign(**{name: frame[name].mask(where) for name, where in hidden.items()})


@pytest.fixture(scope="module")
def found(model: tb.TBM, frame: pd.DataFrame) -> Evaluation:
    return model.evaluate(frame, hide=HIDE, random_state=0)


@pytest.fixture(scope="module")
def records(found: Evaluation) -> dict[str, dict[str, Any]]:
    return {record["column"]: record for record in found.columns}


def test_every_column_is_tested_once(found: Evaluation, hidden: dict[str, np.ndarray]) -> None:
    names = [record["column"] for record in found.columns]
    assert names == ["height", "income", "member", "trust", "party", "issues: favourite", "issues: pairs", "media"]
    assert [r["answer"] for r in found.columns][-3:] == ["favourite", "pair", "option"]
    counts = {record["column"]: record["n"] for record in found.columns}
    for name in ("height", "member", "party"):
        assert counts[name] == hidden[name].sum()
    assert counts["media"] == 2 * hidden["media"].sum()  # each option is an answer
    assert counts["issues: pairs"] == counts["issues: favourite"] == hidden["issues"].sum()
    assert found.untested == ()
    overall = found.overall
    assert overall["n_cells"] == sum(counts.values()) - counts["issues: pairs"]
    assert overall["n_numbers"] == counts["height"] + counts["income"]


@pytest.mark.parametrize("name", ["member", "trust", "party"])
def test_labels_are_scored_by_their_probability(
    model: tb.TBM, frame: pd.DataFrame, shown: pd.DataFrame, hidden: dict, records: dict, name: str
) -> None:
    where = hidden[name]
    code = frame[name][where].map(CODES[name].index).to_numpy()
    chance = model.predict_proba(shown[where], name)
    record = records[name]
    assert record["accuracy"] == pytest.approx((chance.argmax(axis=1) == code).mean())
    assert record["log_score"] == pytest.approx(np.log(chance[np.arange(len(code)), code]).mean(), abs=1e-5)
    count = shown[name].value_counts().reindex(CODES[name], fill_value=0).to_numpy() + 0.5
    share = count / count.sum()
    assert record["accuracy_marginal"] == pytest.approx((share.argmax() == code).mean())
    assert record["log_score_marginal"] == pytest.approx(np.log(share[code]).mean())


def test_numbers_are_scored_by_their_density(
    model: tb.TBM, frame: pd.DataFrame, shown: pd.DataFrame, hidden: dict, records: dict
) -> None:
    """log p(cell | rest) = log P(row) − log P(row without it), in the user's units."""
    for name in ("height", "income"):
        where, record = hidden[name], records[name]
        truth = frame[name][where]
        known = shown[where].assign(**{name: truth})
        gain = model.score_samples(known) - model.score_samples(shown[where])
        assert record["log_score"] == pytest.approx(gain.mean(), abs=1e-4)
        for statistic, measure, error in (("median", "mae", np.abs), ("mean", "rmse", np.square)):
            guess = model.predict(shown[where], [name], statistic)[name]
            size = error(guess - truth).mean()
            assert record[measure] == pytest.approx(size if measure == "mae" else np.sqrt(size), rel=1e-5)
    z = (shown["height"].dropna() - 170) / 8
    usual = norm.logpdf((frame["height"][hidden["height"]] - 170) / 8, z.mean(), z.std(ddof=0)) - np.log(8)
    assert records["height"]["log_score_marginal"] == pytest.approx(usual.mean())
    z = np.log(shown["income"].dropna())
    spread = z.std(ddof=0)
    guesses = {"mae": np.exp(z.mean()), "rmse": np.exp(z.mean() + spread**2 / 2)}
    truth = frame["income"][hidden["income"]]
    assert records["income"]["mae_marginal"] == pytest.approx(np.abs(truth - guesses["mae"]).mean(), rel=1e-6)
    size = np.sqrt(((truth - guesses["rmse"]) ** 2).mean())
    assert records["income"]["rmse_marginal"] == pytest.approx(size, rel=1e-6)


def test_probabilities_of_all_columns_stand_side_by_side(model: tb.TBM, frame: pd.DataFrame) -> None:
    names = [name for name in SCHEMA if SCHEMA[name].labels]
    parts = [model.predict_proba(frame, name) for name in names]
    np.testing.assert_array_equal(model.predict_proba(frame), np.concatenate(parts, axis=1))


def test_options_and_orders_are_scored_one_by_one(
    model: tb.TBM, frame: pd.DataFrame, shown: pd.DataFrame, hidden: dict, records: dict
) -> None:
    where = hidden["media"]
    chance = model.predict_proba(shown[where], "media")
    ticked = np.array([[option in cell for option in ("tv", "net")] for cell in frame["media"][where]])
    assert records["media"]["accuracy"] == pytest.approx(((chance > 0.5) == ticked).mean())
    expected = np.log(np.where(ticked, chance, 1 - chance)).mean()
    assert records["media"]["log_score"] == pytest.approx(expected, abs=1e-5)
    where = hidden["issues"]
    chance = model.predict_proba(shown[where], "issues")
    best = np.array([ISSUES.index(cell.split(" > ")[0]) for cell in frame["issues"][where]])
    right = (chance.argmax(axis=1) == best).mean()
    assert records["issues: favourite"]["accuracy"] == pytest.approx(right)
    assert records["issues: pairs"]["accuracy"] == pytest.approx(right)  # of two items the favourite is the pair
    assert records["issues: pairs"]["log_score"] is None


def test_the_true_model_beats_what_knows_less(found: Evaluation) -> None:
    """Rows drawn from the model itself: nothing can predict better on average, and its probabilities hold."""
    overall = found.overall
    assert overall["gain_marginal"] > 4 * overall["gain_marginal_se"]
    assert overall["gain_logistic"] > -4 * overall["gain_logistic_se"]
    assert overall["accuracy"] > overall["accuracy_marginal"]
    assert overall["log_score"] - overall["log_score_marginal"] == pytest.approx(overall["gain_marginal"])
    # The regressions see the other columns, and so do better than the shares.
    assert overall["log_score_logistic"] > overall["log_score_marginal"]
    for record in found.columns:
        if record["answer"] not in {"pair"}:
            # Ten bins of a few hundred cells: four deviations of their noise.
            assert record["calibration_error"] < 4 * np.sqrt(N_BINS / record["n"]) / 2


def test_baselines_never_see_masked_answers(frame: pd.DataFrame, hidden: dict) -> None:
    """Other masked answers, same predictions."""
    blocks = SCHEMA.compile(frame)
    model, rows = known_model(), np.flatnonzero(hidden["trust"])
    features = {name: baseline.features(SCHEMA[name], blocks[name], ~hidden[name]) for name in SCHEMA}
    code = blocks["trust"].code[:, 0]
    changed = np.where(hidden["trust"], 2 - code, code)
    chance = np.full((len(rows), 3), 1 / 3)
    found = []
    for codes in (code, changed):
        weight = np.ones(len(frame))
        rest = model._query(frame)
        trial = evaluate.ColumnTrial(
            "trust", rest, rest.blocks["trust"], hidden["trust"], weight, features, ("logistic", "boosting")
        )
        found.append(label_rivals(trial, codes, chance))
    for rival in ("_marginal", "_logistic", "_boosting"):
        np.testing.assert_array_equal(found[0][rival], found[1][rival])
        np.testing.assert_allclose(found[0][rival].sum(axis=1), 1.0)
    for name, values in features.items():  # hidden cells are features that say nothing
        assert (values[hidden[name], :-1] == 0).all()
        assert (values[hidden[name], -1] == 1).all()


def test_regressions_find_what_is_there() -> None:
    rng = np.random.RandomState(0)
    inputs = rng.normal(size=(600, 4))
    signal = inputs @ [1.0, -1.0, 0.5, 0.0]
    code = np.digitize(signal + 0.3 * rng.normal(size=600), [-1.0, 1.0])
    asked = np.arange(500, 600)
    known = np.where(np.arange(600) < 500, code, -1)
    chance = baseline.logistic(inputs, known, asked, 4, rng)
    assert (chance.argmax(axis=1) == code[asked]).mean() > 0.8
    assert (chance > 0).all()  # a label nobody gave is not impossible
    guess = baseline.ridge(inputs, signal + 0.3 * rng.normal(size=600), known >= 0, asked, rng)
    assert np.abs(guess.mean - signal[asked]).mean() < 0.1
    np.testing.assert_allclose(guess.deviation, 0.3, rtol=0.2)
    assert np.ptp(baseline.logistic(inputs, np.where(known >= 0, 1, -1), asked, 4, rng), axis=0).max() == 0
    assert len(baseline.some(np.arange(9000), 10, rng)) == baseline.QUICK.rows
    assert len(baseline.some(np.arange(9000), 10**7, rng)) == baseline.FEWEST_ROWS
    nothing = baseline.ridge(inputs, signal, known > 9, asked, rng)
    assert (nothing.mean == 0).all()
    assert (nothing.deviation == 1).all()


def test_calibration_is_measured_in_bins() -> None:
    confidence = np.array([0.95, 0.95, 0.95, 0.95, 0.55, 0.55])
    right = np.array([True, True, True, False, True, False])
    expected = 4 / 6 * abs(0.95 - 0.75) + 2 / 6 * abs(0.55 - 0.5)
    assert calibration_of_labels(confidence, right) == pytest.approx(expected)
    assert calibration_of_labels(np.ones(3), np.ones(3, bool)) == 0
    even = (np.arange(1000) + 0.5) / 1000
    assert calibration_of_numbers(even) == pytest.approx(0)
    assert calibration_of_numbers(np.full(10, 0.999)) == pytest.approx(0.5)


def test_pictures_of_masked_answers(
    model: tb.TBM, frame: pd.DataFrame, shown: pd.DataFrame, hidden: dict, found: Evaluation
) -> None:
    """Bins of calibration hold every label, and surprising labels are counted by hand."""
    n_labels = sum(record["n"] for record in found.columns if record["answer"] in ("label", "option", "favourite"))
    assert sum(each["n"] for each in found.calibration) == n_labels
    assert all(each["predicted"] <= 1 and 0 <= each["observed"] <= 1 for each in found.calibration)
    places = [each["predicted"] for each in found.calibration]
    assert places == sorted(places)
    counted = {(each["column"], each["code"]): (each["n"], each["of"]) for each in found.surprises}
    for name in CODES:
        where = hidden[name]
        code = frame[name][where].map(CODES[name].index).to_numpy()
        own = model.predict_proba(shown[where], name)[np.arange(len(code)), code]
        count = shown[name].value_counts().reindex(CODES[name], fill_value=0).to_numpy() + 0.5
        unlikely = own < (count / count.sum())[code] / SURPRISING
        for label in range(len(CODES[name])):
            n = int((unlikely & (code == label)).sum())
            assert counted.get((name, label), (0, 0)) == ((n, (code == label).sum()) if n >= 3 else (0, 0))
    assert counted
    shares = [each["share"] for each in found.surprises]
    assert shares == sorted(shares, reverse=True)


# ---- weights


@pytest.fixture
def ask(model: tb.TBM, frame: pd.DataFrame, hidden: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Evaluate some rows of the frame with the same cells hidden, wherever they stand; of those without weight none."""

    def asked(rows: np.ndarray, **settings: Any) -> Evaluation:
        def choose(schema: Any, blocks: Any, hide: Any, rng: Any, counts: np.ndarray) -> dict[str, np.ndarray]:
            return {name: where[rows] & counts for name, where in hidden.items()}

        monkeypatch.setattr(evaluate, "choose", choose)
        return model.evaluate(frame.iloc[rows].reset_index(drop=True), hide=HIDE, **{"random_state": 0, **settings})

    return asked


def figures(found: Evaluation, rivals: tuple[str, ...]) -> dict[Any, float]:
    names = [f"{measure}{rival}" for measure in MEASURES for rival in rivals]
    by_column = {(record["column"], name): record[name] for record in found.columns for name in names}
    overall = {("all", f"{measure}{rival}") for measure in ("accuracy", "log_score") for rival in rivals}
    kept = by_column | {key: found.overall[key[1]] for key in overall}
    return {key: value for key, value in kept.items() if value is not None}


def test_rows_of_weight_nought_are_not_there(ask: Any) -> None:
    """Neither for the model nor for its baselines, regressions included."""
    kept = np.random.default_rng(3).random(700) < 0.85
    weighted, fewer = ask(np.arange(700), sample_weight=kept.astype(float)), ask(np.flatnonzero(kept))
    assert [record["n"] for record in weighted.columns] == [record["n"] for record in fewer.columns]
    assert len(figures(fewer, RIVALS)) > 40
    assert figures(weighted, RIVALS) == pytest.approx(figures(fewer, RIVALS), rel=1e-4, abs=1e-6)
    overall = [{name: value for name, value in each.overall.items() if value is not None} for each in (weighted, fewer)]
    assert overall[0] == pytest.approx(overall[1], rel=1e-4, abs=1e-6)


def test_whole_weights_repeat_rows(ask: Any, found: Evaluation) -> None:
    """The model's figures; baselines add half an answer, which is less of more rows."""
    times = np.random.default_rng(4).choice(4, 700, p=[0.1, 0.4, 0.3, 0.2])
    weighted = ask(np.arange(700), logistic=False, sample_weight=times)
    repeated = ask(np.repeat(np.arange(700), times), logistic=False)
    assert figures(weighted, ("",)) == pytest.approx(figures(repeated, ("",)), rel=1e-4, abs=1e-6)
    assert figures(weighted, ("_marginal",)) == pytest.approx(figures(repeated, ("_marginal",)), rel=0.02, abs=0.02)
    assert figures(found, ("",)) != pytest.approx(figures(weighted, ("",)), rel=1e-3)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1.0, 2.0], "one number for each of the 700 rows"),
        (np.zeros(700), "zero for every row"),
        (np.full(700, -1.0), "row 0: sample_weight -1.0"),
    ],
)
def test_weights_that_make_no_sense_are_refused(model: tb.TBM, frame: pd.DataFrame, weight: Any, words: str) -> None:
    for ask in (model.score, model.evaluate):
        with pytest.raises(ThurboError, match=words):
            ask(frame, sample_weight=weight)


# ---- what cannot be tested


def test_statements_and_partial_rankings_are_not_hidden() -> None:
    """What leaves labels open cannot be predicted right or wrong; an interval of a number has a probability.

    Partial rankings have pairs and no favourite.
    """
    schema = tb.Schema({
        "trust": tb.Ordinal(TRUST),
        "party": tb.Categorical(PARTIES),
        "age": tb.Continuous(location=0.0, scale=1.0),
        "drinks": tb.Ranking(["tea", "milk", "gin"]),
    })  # fmt: skip
    table = {
        "trust": ["some", tb.at_least("some"), None, "a lot"],
        "party": ["Red", tb.one_of("Red", "Blue"), tb.top_set("Red", "Blue"), None],
        "age": [1.0, tb.at_least(3), None, tb.between(0, 1)],
        "drinks": ["tea > milk > gin", "tea > milk", "tea = milk > gin", "tea = milk = gin"],
    }
    blocks = schema.fit(table).compile(table)
    rows = {name: schema[name].form.scorable(blocks[name]).tolist() for name in schema}
    assert rows["trust"] == [True, False, False, True]
    assert rows["party"] == [True, False, False, False]
    assert rows["age"] == [True, True, False, True]
    assert rows["drinks"] == [True, True, True, False]
    assert blocks["drinks"].label.tolist() == [0, -1, -1, -1]


def test_the_result_is_for_scripts_and_for_people(found: Evaluation) -> None:
    text, html, frame = str(found), found._repr_html_(), found.frame
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(found.columns)
    assert frame["log_score"].dtype == np.float64
    for record in found.columns:
        assert record["column"] in text
        assert record["column"] in html
    assert html.count("<table>") == html.count("</table>") == 3
    assert "MAE" in text
    assert found.verdict in text
    assert found.verdict.startswith("By log score, the model predicts ")
    assert "\n" not in found.verdict
    assert max(map(len, text.splitlines())) <= 140
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.overall = {}  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(found)) == found
    # What the report asks of an evaluation.
    assert {"n_cells", "share", "accuracy", "accuracy_marginal", "log_score", "log_score_marginal"} <= set(
        found.overall
    )


def test_the_seed_decides(model: tb.TBM, frame: pd.DataFrame, found: Evaluation) -> None:
    quick = model.evaluate(frame, hide=HIDE, random_state=0, logistic=False)
    assert quick.overall["log_score"] == found.overall["log_score"]
    assert quick.overall["log_score_logistic"] is None
    assert "logistic" not in str(quick)
    other = model.evaluate(frame, hide=HIDE, random_state=1, logistic=False)
    assert other.overall["log_score"] != quick.overall["log_score"]


@pytest.mark.parametrize("hide", [0, 1, -0.1, 1.5, True, "some", None])
def test_a_share_is_refused_in_one_sentence(model: tb.TBM, frame: pd.DataFrame, hide: Any) -> None:
    with pytest.raises(tb.ThurboError, match="hide=") as caught:
        model.evaluate(frame, hide=hide)
    assert "\n" not in str(caught.value)


def test_nothing_hidden_is_refused(model: tb.TBM, frame: pd.DataFrame) -> None:
    with pytest.raises(tb.ThurboError, match="masks none of the"):
        model.evaluate(frame.head(1), hide=1e-9)


# Model selection


NUMBERS = np.random.default_rng(0).normal(size=(60, 1)) + np.random.default_rng(1).normal(size=(60, 3))
TINY: dict[str, Any] = {"max_epochs": 0, "random_state": 0, "verbose": False}


def test_the_scorer_is_the_mean_log_score(model: tb.TBM, frame: pd.DataFrame, found: Evaluation) -> None:
    scorer = tb.masked_cell_scorer(hide=HIDE, random_state=0)
    assert scorer(model, frame) == scorer(model, frame, None) == found.overall["log_score"]
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert scorer(pipeline, frame) == found.overall["log_score"]
    with pytest.raises(tb.ThurboError, match="FunctionTransformer does not predict"):
        scorer(FunctionTransformer(), frame)
    weight = np.arange(700.0)
    weighted = model.evaluate(frame, hide=HIDE, random_state=0, logistic=False, sample_weight=weight).overall[
        "log_score"
    ]
    assert scorer(model, frame, sample_weight=weight) == pytest.approx(weighted)
    assert weighted != pytest.approx(found.overall["log_score"], rel=1e-3)


def test_a_grid_of_hidden_units_is_searched() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        scorer = tb.masked_cell_scorer()
        search = GridSearchCV(tb.TBM(**TINY), {"n_hidden": [0, 1]}, scoring=scorer, cv=2).fit(NUMBERS)
        assert search.best_params_["n_hidden"] in {0, 1}
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        scores = cross_val_score(tb.TBMImputer(n_hidden=0, **TINY), NUMBERS, scoring=scorer, cv=2)
    np.testing.assert_allclose(scores.mean(), search.cv_results_["mean_test_score"][0])


def test_regressions_on_very_many_features_keep_what_they_say():
    """Beyond 300 features the strongest directions take their place, and an answer that all features tell is found."""
    rng = np.random.RandomState(0)
    side = rng.randint(0, 2, 400)
    inputs = side[:, None] + 2.0 * rng.normal(size=(400, baseline.QUICK.features + 1))
    assert baseline.narrowed(inputs[:, :-1], rng).shape == (400, baseline.QUICK.features)
    assert baseline.narrowed(inputs, rng).shape == (400, baseline.N_DIRECTIONS)
    asked = np.arange(300, 400)
    chance = baseline.logistic(inputs, np.where(np.arange(400) < 300, side, -1), asked, 2, rng)
    assert (chance.argmax(axis=1) == side[asked]).mean() > 0.95


def test_predictions_are_made_from_a_table_without_the_masked_answers(
    model: tb.TBM, frame: pd.DataFrame, hidden: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is derived from a table, such as which questions were answered, knows of a masked answer."""
    read, tables = tb.TBM._read, []
    monkeypatch.setattr(tb.TBM, "_read", lambda self, X, *more: tables.append(X) or read(self, X, *more))
    model.evaluate(frame, hide=HIDE, random_state=0, logistic=False)
    assert len(tables) == 2  # the answers to compare with, and what the model is asked about
    for name, rows in hidden.items():
        np.testing.assert_array_equal(tables[1].cells(name).missing, frame[name].isna() | rows)
