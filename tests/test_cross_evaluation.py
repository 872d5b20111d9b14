"""`tb.evaluate` against an independent script: own fits, own baselines and own intervals, in plain loops."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import thurbo as tb
from thurbo.predict import baseline, evaluation
from thurbo.predict.evaluation import Evaluation
from thurbo.table.columns.forms.form import difference
from thurbo.table.schema.schema import Schema

LEVELS = {"member": ["no", "yes"], "trust": ["none", "some", "a lot"], "party": ["Blue", "Green", "Red"]}
OPTIONS = ["tv", "net"]
SETTINGS: dict[str, Any] = {"n_hidden": 2, "n_factors": 0, "max_epochs": 2, "random_state": 3, "verbose": False}
RIVALS = ("", "_marginal", "_logistic", "_boosting")


def types() -> tb.Schema:
    return tb.Schema(
        {
            "member": tb.Binary(true="yes", values=("no", "yes")),
            "trust": tb.Ordinal(LEVELS["trust"]),
            "party": tb.Categorical(LEVELS["party"]),
            "media": tb.MultiSelect(OPTIONS),
        }
    )


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Answers that depend on a trait, a tenth of them missing."""
    rng = np.random.default_rng(5)
    trait = rng.normal(size=150)
    member = np.where(trait + rng.normal(size=150) > 0, "yes", "no")
    trust = np.asarray(LEVELS["trust"])[np.digitize(trait + 0.7 * rng.normal(size=150), [-0.5, 0.6])]
    party = np.asarray(LEVELS["party"])[np.digitize(trait + rng.normal(size=150), [-0.4, 0.4])]
    media = [";".join(np.asarray(OPTIONS)[rng.random(2) < (0.8 if one > 0 else 0.3)]) for one in trait]
    found = pd.DataFrame({"member": member, "trust": trust, "party": party, "media": media}, dtype=object)
    return found.mask(rng.random(found.shape) < 0.1)


@pytest.fixture(scope="module")
def found(frame: pd.DataFrame) -> Evaluation:
    return tb.evaluate(tb.TBM(types(), **SETTINGS), frame, folds=2, random_state=0)


# ---- the independent script


def features(shown: pd.DataFrame, but: str) -> np.ndarray:
    """All other columns: an indicator for each level (of a choice ±1, of an option ±½) and one for missing cells."""
    columns = []
    for name in shown:
        if name == but:
            continue
        gone = shown[name].isna().to_numpy()
        for label in OPTIONS if name == "media" else LEVELS[name]:
            values = []
            for cell in shown[name]:
                if not isinstance(cell, str):
                    values.append(0.0)
                elif name == "media":
                    values.append(0.5 if label in cell.split(";") else -0.5)
                else:
                    values.append(1.0 if cell == label else -1.0 if name == "party" else 0.0)
            columns.append(values)
        columns.append(gone.astype(float))
    return np.asarray(columns).T


def regressions(inputs: np.ndarray, code: np.ndarray, asked: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
    """Shares, logistic regression and boosting, each fitted to the rows with code ≥ 0 and asked about other rows."""
    rows = np.flatnonzero(code >= 0)
    base = np.asarray([(code[rows] == label).sum() + 0.5 for label in range(n_labels)])
    base = base / base.sum()
    order = np.random.RandomState(0).permutation(len(rows))
    kept, fitted = rows[order[: len(rows) // 4]], rows[order[len(rows) // 4 :]]

    def smooth(chance: np.ndarray, classes: np.ndarray, n: int) -> np.ndarray:
        whole = np.zeros((len(chance), n_labels))
        whole[:, classes] = chance
        extra = 0.5 * n_labels / (n + 0.5 * n_labels)
        return (1 - extra) * whole + extra * base

    def loss(chance: np.ndarray) -> float:
        return -np.mean([np.log(chance[k, code[row]]) for k, row in enumerate(kept)])

    def linear(train: np.ndarray, ask: np.ndarray, penalty: float) -> np.ndarray:
        model = LogisticRegression(C=penalty, max_iter=60, tol=1e-3).fit(inputs[train], code[train])
        return smooth(model.predict_proba(inputs[ask]), model.classes_, len(train))

    def trees(n_rounds: int) -> Any:
        return HistGradientBoostingClassifier(
            max_leaf_nodes=8, learning_rate=0.08, max_iter=n_rounds, early_stopping=False, random_state=0
        )

    penalty = min((0.01, 0.1, 1.0), key=lambda c: loss(linear(fitted, kept, c)))
    model, losses = trees(100).fit(inputs[fitted], code[fitted]), {}
    for number, stage in enumerate(model.staged_predict_proba(inputs[kept]), 1):
        if number in (20, 40, 60, 80, 100):
            losses[number] = loss(smooth(stage, model.classes_, len(fitted)))
    model = trees(min(losses, key=lambda number: losses[number])).fit(inputs[rows], code[rows])
    boosted = smooth(model.predict_proba(inputs[asked]), model.classes_, len(rows))
    shares = np.tile(base, (len(asked), 1))
    return {"_marginal": shares, "_logistic": linear(rows, asked, penalty), "_boosting": boosted}


def script(frame: pd.DataFrame, masks: Any) -> dict[str, list[tuple[int, dict[str, np.ndarray], int]]]:
    """By column: row, probabilities of the labels by every method and true label of each hidden answer."""
    answers: dict[str, list[tuple[int, dict[str, np.ndarray], int]]] = {name: [] for name in frame}
    for mask in masks:
        shown = frame.copy()
        for name in frame:
            shown.loc[mask[name], name] = None
        model = tb.TBM(types(), **SETTINGS).fit(shown)
        for name in frame:
            asked = np.flatnonzero(mask[name])
            chance = model.predict_proba(shown.iloc[asked], name)
            for place, label in enumerate(OPTIONS if name == "media" else [""]):
                if name == "media":
                    truth = np.asarray(
                        [-1 if not isinstance(c, str) else int(label in c.split(";")) for c in frame[name]]
                    )
                    own = np.stack([1 - chance[:, place], chance[:, place]], axis=1)
                else:
                    truth = np.asarray([LEVELS[name].index(c) if isinstance(c, str) else -1 for c in frame[name]])
                    own = chance
                known = np.where(shown[name].isna(), -1, truth)
                rivals = {"": own, **regressions(features(shown, name), known, asked, own.shape[1])}
                for k, row in enumerate(asked):
                    answers[name].append((int(row), {each: p[k] for each, p in rivals.items()}, int(truth[row])))
    return answers


def interval(gains: list[tuple[int, float]]) -> tuple[float, float, float]:
    """Mean and 95 % interval, where answers of one row are one observation."""
    mean = sum(gain for _, gain in gains) / len(gains)
    sums: dict[int, float] = {}
    for row, gain in gains:
        sums[row] = sums.get(row, 0.0) + gain - mean
    n = len(sums)
    error = np.sqrt(sum(value**2 for value in sums.values()) * n / (n - 1)) / len(gains)
    reach = student.ppf(0.975, n - 1) * error
    return mean, mean - reach, mean + reach


def figures(answers: list[tuple[int, dict[str, np.ndarray], int]]) -> dict[str, float]:
    """All measures of one column, or of all."""
    measured: dict[str, float] = {"n": len(answers)}
    for rival in RIVALS:
        scores = [np.log(chance[rival][truth]) for _, chance, truth in answers]
        measured[f"log_score{rival}"] = float(np.mean(scores))
        measured[f"accuracy{rival}"] = float(np.mean([chance[rival].argmax() == truth for _, chance, truth in answers]))
    for rival in RIVALS[1:]:
        gains = [(row, float(np.log(c[""][truth] / c[rival][truth]))) for row, c, truth in answers]
        names = (f"gain{rival}", f"gain{rival}_low", f"gain{rival}_high")
        measured |= dict(zip(names, interval(gains), strict=True))
    return measured


def test_an_independent_script_gives_the_same_figures(frame: pd.DataFrame, found: Evaluation) -> None:
    answers = script(frame, found.masks)
    for record in found.columns:
        expected = figures(answers[record["column"]])
        assert {name: record[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    expected = figures([answer for name in frame for answer in answers[name]])
    expected["n_cells"] = expected.pop("n")
    assert {name: found.overall[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    # The comparison means something: methods differ, and some column is split by a tree.
    assert len({round(found.overall[f"log_score{rival}"], 4) for rival in RIVALS}) == 4


# ---- folds and masks


def test_every_answer_is_in_exactly_one_fold(frame: pd.DataFrame, found: Evaluation) -> None:
    assert len(found.masks) == len(found.fit_seconds) == 2
    for name in frame:
        times = sum(mask[name].astype(int) for mask in found.masks)
        np.testing.assert_array_equal(times, frame[name].notna())
        sizes = [mask[name].sum() for mask in found.masks]
        assert max(sizes) - min(sizes) <= 1
    assert found.overall["share"] == 1.0
    assert found.n_seen_rows == 0


def split(schema: Schema, X: Any, n_folds: int, weight: Any = None) -> tuple[Any, Schema, dict, list[dict]]:
    """A table, its fitted schema and blocks, and its folds; nothing is fitted."""
    from thurbo.table.io.frames import as_table

    table = as_table(X)
    schema = schema.fit(table)
    table = evaluation.with_lists(table, schema)
    blocks = schema.compile(table)
    counts = np.ones(table.n_rows) if weight is None else np.asarray(weight)
    groups = evaluation.answers(table, schema, blocks, counts > 0, np.random.RandomState(0))
    return table, schema, blocks, evaluation.in_folds(groups, n_folds, np.random.RandomState(1))


MIXED = tb.Schema({
    "age": tb.Continuous(),
    "spell": tb.Bounded(lower="from", upper="to"),
    "band": tb.Banded({"young": (0, 30), "old": (30, 99)}),
    "fan": tb.Binary(true="yes"),
    "trust": tb.Ordinal(LEVELS["trust"]),
    "party": tb.Categorical(LEVELS["party"]),
    "drinks": tb.Ranking(ranks={"tea": "rank tea", "milk": "rank milk", "gin": "rank gin"}),
    "media": tb.MultiSelect(columns={"tv": "has tv", "net": "has net"}),
})  # fmt: skip


def mixed(n_rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    order = np.asarray([rng.permutation(3) + 1 for _ in range(n_rows)])
    low = rng.integers(0, 9, n_rows)
    ticked = rng.integers(0, 2, (n_rows, 2))
    found = pd.DataFrame({
        "age": rng.integers(18, 80, n_rows),
        "from": low, "to": low + 3,
        "band": rng.choice(["young", "old"], n_rows),
        "fan": rng.choice(["yes", "no"], n_rows),
        "trust": rng.choice(LEVELS["trust"], n_rows),
        "party": rng.choice(LEVELS["party"], n_rows),
        "rank tea": order[:, 0], "rank milk": order[:, 1], "rank gin": order[:, 2],
        "has tv": ticked[:, 0], "has net": ticked[:, 1],
    })  # fmt: skip
    found["age"] = found["age"].mask(rng.random(n_rows) < 0.2)
    return found


def test_a_hidden_answer_is_gone_and_all_others_stay() -> None:
    """For every type of column: the blocks say nothing where hidden, and the same elsewhere."""
    frame = mixed()
    table, schema, blocks, masks = split(MIXED, frame, 4)
    for mask in masks:
        left = schema.compile(evaluation.without(table, schema, blocks, mask))
        for name, lines in mask.items():
            assert lines.any()
            assert not left[name].answered[lines].any()
            for part in ("lower", "upper", "code", "tier"):
                was, now = getattr(blocks[name], part), getattr(left[name], part)
                np.testing.assert_array_equal(was[~lines], now[~lines])
        emptied = evaluation.empty_cells(table, schema, blocks, mask)
        shown = frame.assign(**{name: frame[name].mask(rows) for name, rows in emptied.items()})
        by_hand = schema.compile(shown)
        for name in mask:
            np.testing.assert_array_equal(by_hand[name].observed, left[name].observed)


def test_what_is_fitted_does_not_depend_on_hidden_answers() -> None:
    """Other answers in the hidden cells, the same training table, scales of numbers included."""
    frame = mixed()
    table, schema, blocks, masks = split(MIXED, frame, 2)
    changed = frame.copy()
    for source, rows in evaluation.empty_cells(table, schema, blocks, masks[0]).items():
        changed.loc[rows, source] = frame[source].dropna().iloc[0]
    from thurbo.table.io.frames import as_table

    one, other = (evaluation.without(as_table(each), schema, blocks, masks[0]) for each in (frame, changed))
    first, second = schema.fit(one), schema.fit(other)
    assert first["age"].standard == second["age"].standard != schema["age"].standard
    for name, block in first.compile(one).items():
        for part in ("lower", "upper", "code", "tier"):
            np.testing.assert_array_equal(getattr(block, part), getattr(second.compile(other)[name], part))


@pytest.mark.parametrize("cells", ["long", "mappings"])
@pytest.mark.parametrize("by", ["levels", "order"])
def test_entries_of_lists_are_hidden_one_by_one(cells: str, by: str) -> None:
    """Single ratings; of orders, pairs of items, so that every hidden item has one to be compared with."""
    rng = np.random.default_rng(0)
    lines = [(user, item, int(rng.integers(1, 6))) for user in range(30) for item in rng.permutation(80)[:5]]
    long = pd.DataFrame(lines, columns=["user", "item", "stars"])
    X: Any = tb.from_long(long, "user", "item", "stars", name="films")
    if cells == "mappings":
        lists = [dict(zip(own["item"].tolist(), own["stars"].tolist(), strict=True)) for _, own in long.groupby("user")]
        X = pd.DataFrame({"films": lists})
    table, schema, blocks, masks = split(tb.Schema({"films": tb.Ratings(by=by)}), X, 2)
    block = blocks["films"]
    assert block.entries is not None
    assert sum(mask["films"].astype(int) for mask in masks).tolist() == block.observed[:, 0].astype(int).tolist()
    for mask in masks:
        left = schema.compile(evaluation.without(table, schema, blocks, mask))["films"]
        assert left.entries is not None
        pairs = list(zip(block.entries.row[~mask["films"]], block.entries.site[~mask["films"]], strict=True))
        assert pairs == list(zip(left.entries.row, left.entries.site, strict=True))
        if by == "order":
            count = np.bincount(block.entries.row, mask["films"], minlength=30)
            assert set(count.tolist()) <= {0, 2, 3, 5}


def test_long_orders_are_hidden_as_whole_cells() -> None:
    rng = np.random.default_rng(0)
    cells = [" > ".join(map(str, rng.permutation(90)[:4])) for _ in range(40)]
    column = tb.Ranking([str(item) for item in range(90)])
    _, schema, blocks, masks = split(tb.Schema({"best": column}), {"best": cells}, 2)
    assert schema["best"].is_listed
    entries = blocks["best"].entries
    assert entries is not None
    for mask in masks:
        assert set(np.bincount(entries.row, mask["best"], minlength=40).tolist()) == {0, 4}


def test_blanks_that_are_answers_are_not_hidden() -> None:
    """An empty cell of a single option means that it was not selected: hiding would replace an answer by another."""
    option = tb.MultiSelect(columns={"tv": "has tv"}, blank="unticked")
    frame = pd.DataFrame({"has tv": ["x", None] * 10, "fan": ["yes", "no", "no", "yes"] * 5})
    _, _, _, masks = split(tb.Schema({"media": option, "fan": tb.Binary(true="yes")}), frame, 2)
    assert not any(mask["media"].any() for mask in masks)
    assert all(mask["fan"].any() for mask in masks)


def test_rows_without_weight_keep_their_answers() -> None:
    weight = np.arange(40) % 2
    _, _, _, masks = split(MIXED, mixed(), 2, weight)
    for mask in masks:
        assert not any(lines[weight == 0].any() for lines in mask.values())


def test_masks_at_random_hide_a_share() -> None:
    groups = {"a": np.arange(4000), "b": np.where(np.arange(4000) % 2, np.arange(4000) // 4, -1)}
    masks = evaluation.at_random(groups, 0.1, 3, np.random.RandomState(0))
    assert len(masks) == 3
    for mask in masks:
        assert abs(mask["a"].mean() - 0.1) < 0.03
        assert not mask["b"][::2].any()
        assert (mask["b"][1::4] == mask["b"][3::4]).all()  # those of one group together
    assert (masks[0]["a"] != masks[1]["a"]).any()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"folds": 1}, "folds=1 is not a number of folds"),
        ({"folds": 2.5}, "folds=2.5"),
        ({"folds": True}, "folds=True"),
        ({"hide": 0}, "hide=0 is not a share"),
        ({"hide": "some"}, "hide='some'"),
        ({"hide": 0.1, "repeats": 0}, "repeats=0"),
        ({"folds": 1000}, "give fewer folds or more rows"),
        ({"hide": 1e-9}, "hides none of the"),
    ],
)
def test_settings_that_make_no_sense_are_refused(frame: pd.DataFrame, settings: dict, words: str) -> None:
    with pytest.raises(tb.ThurboError, match=words) as caught:
        tb.evaluate(tb.TBM(types(), **SETTINGS), frame, **settings)
    assert "\n" not in str(caught.value)


def test_only_models_are_evaluated(frame: pd.DataFrame) -> None:
    with pytest.raises(tb.ThurboError, match="is not a TBM"):
        tb.evaluate(LogisticRegression(), frame)  # type: ignore[arg-type]


def test_which_questions_have_answers_is_learned_without_the_hidden_ones(frame: pd.DataFrame) -> None:
    """Each fit finds anew which blocks are missing together; the columns of the table are tested, and nothing else."""
    silent = frame.assign(party=frame["party"].mask(frame["trust"].isna() | (np.arange(150) < 60)))
    silent["trust"] = silent["trust"].mask(silent["party"].isna())
    model = tb.TBM(types(), missing="informative", **{**SETTINGS, "max_epochs": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        found = tb.evaluate(model, silent, hide=0.2, random_state=0, logistic=False, boosting=False)
    assert [record["column"] for record in found.columns] == ["member", "trust", "party", "media"]
    assert set(found.masks[0]) == set(frame)
    assert not hasattr(model, "schema_")


# ---- the result


def test_the_result_says_how_it_was_made(found: Evaluation) -> None:
    text, html = str(found), found._repr_html_()
    for said in (text, html):
        assert "hidden before fitting" in said
        assert "in 2 folds" in said
        assert "boosting" in said
        assert "Caution" not in said
    assert text.count("95 % interval") == 5  # the table, and a sentence for each baseline
    assert {"gain_boosting", "gain_boosting_low", "log_score_boosting"} <= set(found.frame.columns)
    assert found.frame["gain_logistic_high"].dtype == np.float64
    assert found == pd.read_pickle(_pickled(found))


def _pickled(found: Evaluation) -> Any:
    import io
    import pickle

    return io.BytesIO(pickle.dumps(found))


def test_verdicts_follow_the_intervals() -> None:
    overall = {"n_cells": 9, "share": 1.0, "log_score": -1.0}
    for low, high, word in ((0.1, 0.3, "better"), (-0.3, -0.1, "worse"), (-0.1, 0.3, "no clear difference")):
        gains = {"gain_logistic": (low + high) / 2, "gain_logistic_low": low, "gain_logistic_high": high}
        (sentence,) = Evaluation([], overall | gains).differences
        assert sentence.endswith(f": {word}.")
        assert "logistic regression" in sentence


def test_a_difference_knows_that_answers_of_a_row_belong_together() -> None:
    """Every answer twice in its row: the error of the single answers, not that of twice as many."""
    rng = np.random.default_rng(0)
    value, row = rng.normal(size=50), np.arange(50)
    once = difference(value, np.ones(50), row)
    twice = difference(np.repeat(value, 2), np.ones(100), np.repeat(row, 2))
    assert twice == pytest.approx(once)
    _, error, low, high = once
    assert error == pytest.approx(value.std(ddof=1) / np.sqrt(50))
    assert high - low == pytest.approx(2 * student.ppf(0.975, 49) * error)  # type: ignore[operator]
    weight = np.where(row < 30, 1.0, 0.0)
    assert difference(value, weight, row) == pytest.approx(difference(value[:30], np.ones(30), row[:30]))
    assert difference(value, np.ones(50), np.zeros(50, int))[1:] == (None, None, None)


def test_intervals_hold_what_they_say() -> None:
    """Answers of a row that depend on each other: about 95 of 100 intervals contain the truth, 0."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        row = np.repeat(np.arange(40), 5)
        value = rng.normal(size=40)[row] + rng.normal(size=200)
        low, high = difference(value, np.ones(200), row)[2:]
        assert low is not None
        assert high is not None
        inside += low < 0 < high
    assert 0.91 <= inside / 400 <= 0.985


def test_boosting_finds_what_lines_cannot() -> None:
    """An interaction of two features, for labels and for numbers; it never sees what it is asked about."""
    rng = np.random.RandomState(0)
    inputs = rng.normal(size=(800, 3))
    both = inputs[:, 0] * inputs[:, 1] > 0
    asked, known = np.arange(700, 800), np.arange(800) < 700
    code = np.where(known, both, -1)
    chance = baseline.boosting(inputs, code, asked, 3, np.random.RandomState(0))
    assert (chance.argmax(axis=1) == both[asked]).mean() > 0.85
    assert (baseline.logistic(inputs, code, asked, 3, rng).argmax(axis=1) == both[asked]).mean() < 0.7
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    assert (chance > 0).all()
    target = both + 0.1 * rng.normal(size=800)
    guess = baseline.boosted_numbers(inputs, target, known, asked, np.random.RandomState(0))
    assert np.abs(guess.mean - both[asked]).mean() < 0.2
    assert 0.1 < guess.deviation[0] < 0.4
    changed = baseline.boosted_numbers(inputs, np.where(known, target, 9.0), known, asked, np.random.RandomState(0))
    np.testing.assert_array_equal(guess.mean, changed.mean)
    few = np.where(np.arange(800) < 20, both, -1)
    assert np.ptp(baseline.boosting(inputs, few, asked, 3, rng), axis=0).max() == 0
    assert np.ptp(baseline.boosted_numbers(inputs, target, np.arange(800) < 20, asked, rng).mean) == 0


# ---- rows that the model was fitted to


@pytest.fixture(scope="module")
def fitted(frame: pd.DataFrame) -> tb.TBM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        return tb.TBM(types(), **{**SETTINGS, "max_epochs": 0}).fit(frame.iloc[:100])


def ask(model: tb.TBM, frame: pd.DataFrame) -> Evaluation:
    return model.evaluate(frame, hide=0.5, random_state=0, logistic=False)


def test_rows_of_the_fit_are_recognised(fitted: tb.TBM, frame: pd.DataFrame, tmp_path: Any) -> None:
    rows = frame.iloc[:100]
    seen = ask(fitted, rows)
    assert seen.n_seen_rows == seen.n_rows > 90
    assert f"Caution: {seen.n_rows} of these {seen.n_rows} rows equal rows that the model was fitted to" in str(seen)
    assert "Caution" in seen._repr_html_()
    assert ask(fitted, rows.iloc[::-1].reset_index(drop=True)).n_seen_rows > 90  # in any order and with any index
    fitted.save(tmp_path / "m.thurbo")
    assert ask(tb.TBM.load(tmp_path / "m.thurbo"), rows).n_seen_rows == seen.n_seen_rows


def test_the_file_holds_a_number_for_each_row_and_no_row(fitted: tb.TBM) -> None:
    assert fitted._seen_rows.dtype == np.uint32
    assert len(fitted._seen_rows) <= 100
    assert (np.diff(fitted._seen_rows.astype(np.int64)) > 0).all()


def test_other_rows_are_not_recognised(fitted: tb.TBM, frame: pd.DataFrame) -> None:
    """Rows that differ in one answer are others; with few questions, some new rows equal old ones by chance."""
    others = frame.iloc[100:]
    known = set(map(tuple, frame.iloc[:100].fillna("").to_numpy().tolist()))
    equal = [tuple(row) in known for row in others.fillna("").to_numpy().tolist()]
    found = ask(fitted, others[~np.asarray(equal)])
    assert found.n_seen_rows == 0
    assert "Caution" not in str(found)


def test_a_row_without_weight_was_not_seen_and_more_rows_are_added(frame: pd.DataFrame) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)
        model = tb.TBM(types(), **{**SETTINGS, "max_epochs": 0})
        model.fit(frame.iloc[:3], sample_weight=[1, 0, 1])
        assert len(model._seen_rows) == 2
        model.fit(frame.iloc[:3])
        n_rows = len(model._seen_rows)
        model.partial_fit(frame.iloc[3:30])
    assert len(model._seen_rows) > n_rows


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2), np.uint32), np.zeros(3, np.int64)])
def test_a_file_with_other_numbers_of_rows_is_refused(fitted: tb.TBM, array: np.ndarray, tmp_path: Any) -> None:
    path = tmp_path / "m.thurbo"
    changed = clone_with(fitted, array)
    changed.save(path)
    with pytest.raises(tb.NotTrusted, match="seen_rows"):
        tb.TBM.load(path)


def clone_with(model: tb.TBM, seen: np.ndarray) -> tb.TBM:
    import copy

    found = copy.copy(model)
    found._seen_rows = seen
    return found
