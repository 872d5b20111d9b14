"""Which follow-up questions a row answered is evidence about the question that led to them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.predict import correction as gates
from thurbo.table.columns.forms import ChoiceForm, OrderForm

N = 400
SKIPS = [
    tb.Skip(["how_often", "where"], "drives", ["yes", "sometimes"]),
    tb.Skip(["country"], "where", ["abroad"]),
]
SCHEMA = tb.Schema(
    {
        "drives": tb.Categorical(["no", "sometimes", "yes"]),
        "how_often": tb.Binary(true="daily"),
        "where": tb.Binary(true="abroad"),
        "country": tb.Categorical(["x", "y"]),
        "age": tb.Continuous(),
        "region": tb.Binary(true="north"),
    },
    skips=SKIPS,
)


@cache
def frame() -> pd.DataFrame:
    """A tenth of those who drive leave both follow-up questions empty."""
    rng = np.random.default_rng(0)
    drives = rng.choice(["no", "sometimes", "yes"], N, p=[0.5, 0.2, 0.3])
    asked = (drives != "no") & (rng.random(N) > 0.1)
    abroad = asked & (rng.random(N) < 0.5)
    found = pd.DataFrame(
        {
            "drives": drives.astype(object),
            "how_often": np.where(asked, rng.choice(["daily", "weekly"], N), None),
            "where": np.where(asked, np.where(abroad, "abroad", "home"), None),
            "country": np.where(abroad, rng.choice(["x", "y"], N), None),
            "age": rng.normal(40, 10, N),
            "region": rng.choice(["north", "south"], N),
        }
    )
    found.loc[:59, "drives"] = None  # so some rows have two answers, which are enough for a respondent
    return found


@cache
def model(missing: str = "auto") -> tb.TBM:
    return tb.TBM(SCHEMA, members=2, missing=missing, max_epochs=5, random_state=0, verbose=False).fit(frame())  # type: ignore[arg-type]


def test_probabilities_are_counted_in_the_table() -> None:
    schema = SCHEMA.fit(frame())
    weight = np.random.default_rng(1).random(N)
    found = gates.learn_routes(schema, schema.compile(frame()), weight)
    assert set(found) == {"drives", "where"}
    (route,) = found["drives"]
    assert route.columns == ("how_often", "where", "country")
    answered = frame()[["how_often", "where", "country"]].notna().any(axis=1)
    for label, chance in zip(("no", "sometimes", "yes"), route.answered, strict=True):
        rows = frame()["drives"] == "no" if label == "no" else frame()["drives"].isin(["sometimes", "yes"])
        expected = (weight[rows & answered].sum() + gates.ROUTE_PRIOR) / (weight[rows].sum() + 2 * gates.ROUTE_PRIOR)
        assert chance == pytest.approx(expected)


def test_a_gate_is_known_by_the_questions_it_led_to() -> None:
    gone = frame().assign(drives=None)
    chance, truth = model().predict_proba(gone, "drives"), frame()["drives"]
    led = frame()["how_often"].notna().to_numpy()
    assert chance[led, 0].max() < 0.02
    assert chance[~led, 0].mean() == pytest.approx((truth[~led].dropna() == "no").mean(), abs=0.06)
    # Whether the answer was "yes" or "sometimes" is not what routing says.
    share = (truth == "yes").sum() / truth.isin(["yes", "sometimes"]).sum()
    assert (chance[led, 2] / (1 - chance[led, 0])).mean() == pytest.approx(share, abs=0.1)


def test_rules_apply_to_the_gate_by_bayes_rule() -> None:
    """Last, to the calibrated probabilities of all members together."""
    gone = frame().assign(drives=None)
    (route,) = model().model_.correction.routes["drives"]
    query = model()._query(gone)
    routed = query.about("drives").probabilities()
    np.testing.assert_array_equal(routed, model().predict_proba(gone, "drives"))
    bare = replace(query, correction=replace(query.correction, routes={})).about("drives").probabilities()
    led = frame()[list(route.columns)].notna().any(axis=1).to_numpy()
    raised = bare * route.likelihood(led)
    np.testing.assert_allclose(routed, raised / raised.sum(axis=1, keepdims=True), atol=1e-6)


def test_follow_up_questions_without_an_answer_count_in_respondents_only() -> None:
    """One answer is no respondent who skipped the rest; a follow-up question with an answer always counts."""
    assert model().model_.least_answers == 2
    one = pd.DataFrame({name: pd.Series([None, None], dtype=object) for name in SCHEMA}).assign(age=40.0)
    one.loc[1, "how_often"] = "daily"
    share = (frame()["drives"] == "no").sum() / frame()["drives"].notna().sum()
    auto, ignorable, informative = (
        model().predict_proba(one, "drives", gaps=gaps)[:, 0]  # type: ignore[arg-type]
        for gaps in ("auto", "ignorable", "informative")
    )
    assert auto[0] == ignorable[0] == pytest.approx(share, abs=0.12)
    assert informative[0] > 0.85
    assert max(auto[1], ignorable[1], informative[1]) < 0.02


def test_a_row_that_nobody_gave_says_nothing() -> None:
    empty = pd.DataFrame({name: pd.Series([None], dtype=object) for name in SCHEMA})
    share = (frame()["drives"] == "no").sum() / frame()["drives"].notna().sum()
    assert model().predict_proba(empty, "drives")[0, 0] == pytest.approx(share, abs=0.12)
    hypothetical = model().predict_proba(empty, "drives", given={"age": tb.at_least(40)})
    assert hypothetical[0, 0] == pytest.approx(share, abs=0.12)
    assert model().predict_proba(empty, "drives", given="how_often = daily")[0, 0] < 0.02


@pytest.mark.slow
def test_missing_answers_that_are_ignorable_say_nothing() -> None:
    assert model("ignorable").model_.correction.routes == {}


def test_a_file_keeps_the_routes(tmp_path: object) -> None:
    path = f"{tmp_path}/m.thurbo"
    model().save(path)
    again = tb.TBM.load(path)
    gone = frame().assign(drives=None)
    np.testing.assert_array_equal(again.predict_proba(gone, "drives"), model().predict_proba(gone, "drives"))


def test_rare_labels_are_shrunk_more() -> None:
    table = {"q": ["a"] * 60 + ["b"] * 30 + ["c"] * 10 + [None] * 5}
    column = tb.Categorical(["a", "b", "c", "d"])
    schema = tb.Schema({"q": column}).fit(table)
    block = schema.compile(table)["q"]
    assert isinstance(column.form, ChoiceForm)
    found = schema["q"].form.shrinkage(block, np.ones(105))
    np.testing.assert_allclose(found, [1.0, 0.5 / 0.3, 5.0, 50.0])
    ranked = tb.Schema({"r": tb.Ranking(["a", "b", "c"])}).fit({"r": [["a", "b", "c"]] * 4})
    assert isinstance(ranked["r"].form, OrderForm)
    block = ranked.compile({"r": [["a", "b", "c"]] * 4})["r"]
    np.testing.assert_array_equal(ranked["r"].form.shrinkage(block, np.ones(4)), 1.0)
