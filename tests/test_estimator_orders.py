"""§3.2 through the estimator: categories, options, rankings and statements, from a table and back to a table."""

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.errors import ThurboError
from thurbo.predict.member import MemberQuery

N_ROWS = 300
PARTIES, ISSUES, MEDIA = ("Blue", "Green", "Red"), ("tax", "health", "school"), ("tv", "radio", "net")


def make_frame() -> pd.DataFrame:
    """Two camps that differ in everything, with holes."""
    rng = np.random.default_rng(0)
    camp = rng.random(N_ROWS) < 0.5
    utility = rng.normal(size=(N_ROWS, 3)) + np.where(camp[:, None], [1.5, 0.0, -1.0], [-1.0, 0.0, 1.5])
    order = np.argsort(
        -(rng.normal(size=(N_ROWS, 3)) + np.where(camp[:, None], [1.0, 0, -1.0], [-1.0, 0, 1.0])), axis=1
    )
    ranking = [" > ".join(ISSUES[i] for i in row) for row in order]
    ticked = rng.normal(size=(N_ROWS, 3)) + np.where(camp[:, None], 0.8, -0.8) > 0
    media = [[MEDIA[i] for i in np.flatnonzero(row)] for row in ticked]
    frame = pd.DataFrame({
        "party": np.array(PARTIES, object)[utility.argmax(axis=1)],
        "issues": ranking,
        "media": media,
        "trust": np.clip(np.round(1.5 + np.where(camp, 1, -1) + rng.normal(size=N_ROWS)), 0, 3),
        "age": 40 + 10 * rng.normal(size=N_ROWS) + 5 * camp,
    })  # fmt: skip
    for name in frame:
        frame.loc[rng.random(N_ROWS) < 0.15, name] = None
    return frame


SCHEMA = {
    "party": tb.Categorical(PARTIES),
    "issues": tb.Ranking(ISSUES),
    "media": tb.MultiSelect(MEDIA),
    "trust": tb.Ordinal([0, 1, 2, 3]),
    "age": tb.Continuous(),
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return make_frame()


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> tb.TBM:
    return tb.TBM(SCHEMA, n_hidden=2, max_epochs=16, batch_size=100, random_state=0).fit(frame)


def test_it_learns_more_than_the_shares(model: tb.TBM, frame: pd.DataFrame) -> None:
    """From all other answers the party is guessed better than by its shares: a paired t-test over rows."""
    known = frame["party"].notna().to_numpy()
    code = pd.Categorical(frame["party"][known], PARTIES).codes
    chance = model.predict_proba(frame, "party")[known]
    shares = np.bincount(code) / len(code)
    gain = np.log(chance[np.arange(len(code)), code]) - np.log(shares[code])
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))
    assert "settled" in model.history_[-1]  # it ran to its end


def test_probabilities_are_probabilities(model: tb.TBM, frame: pd.DataFrame) -> None:
    for name, labels in (("party", PARTIES), ("issues", ISSUES), ("trust", (0, 1, 2, 3))):
        chance = model.predict_proba(frame.head(20), name)
        assert model.schema_[name].labels == labels
        assert chance.shape == (20, len(labels))
        np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    ticked = model.predict_proba(frame.head(20), "media")
    assert ((ticked > 0) & (ticked < 1)).all()


def test_a_cell_does_not_predict_itself(model: tb.TBM, frame: pd.DataFrame) -> None:
    some = frame.head(16)
    for name in ("party", "issues", "media"):
        blank = some.assign(**{name: pd.Series([None] * 16, index=some.index, dtype=object)})
        np.testing.assert_allclose(model.predict_proba(some, name), model.predict_proba(blank, name), atol=1e-6)


def test_imputing_fills_gaps_and_leaves_answers(model: tb.TBM, frame: pd.DataFrame) -> None:
    some = frame.head(60)
    full = model.impute(some)
    assert not full.isna().any().any()
    for name in frame:
        there = some[name].notna()
        assert full[name][there].tolist() == some[name][there].tolist()
    assert set(full["party"]) <= set(PARTIES)
    assert all(sorted(text.split(" > ")) == sorted(ISSUES) for text in full["issues"])
    assert all(set(ticked) <= set(MEDIA) for ticked in full["media"])


def test_all_gaps_of_a_row_are_filled_as_each_would_be_alone(model: tb.TBM, frame: pd.DataFrame) -> None:
    """By mean-field one look at a row answers for all its gaps."""
    some, method = frame.head(60), "mean-field"
    full, alone = model.impute(some, method=method), model.predict(some, statistic="auto", method=method)
    for name in frame:
        gone = some[name].isna()
        assert gone.any()
        ours, theirs = full[name][gone].tolist(), alone[name][gone].tolist()
        assert ours == (pytest.approx(theirs, rel=1e-4) if name == "age" else theirs)


def test_hidden_answers_of_a_row_are_judged_as_each_would_be_alone(
    model: tb.TBM, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = lambda: model.evaluate(frame.head(60), method="mean-field", logistic=False, random_state=0)  # noqa: E731
    together = judge()
    monkeypatch.setattr(MemberQuery, "known", None)
    alone = judge()
    assert [each["n"] for each in together.columns] == [each["n"] for each in alone.columns]
    ours, theirs = ([each["log_score"] for each in found.columns] for found in (together, alone))
    assert [value is None for value in ours] == [value is None for value in theirs]
    given = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None]
    np.testing.assert_allclose(*zip(*given, strict=True), rtol=1e-4)


def test_samples_are_rows_as_fitted(model: tb.TBM) -> None:
    drawn = model.sample(50, random_state=0)
    assert list(drawn) == list(SCHEMA)
    assert set(drawn["party"]) <= set(PARTIES)
    assert all(sorted(text.split(" > ")) == sorted(ISSUES) for text in drawn["issues"])
    assert np.isfinite(model.score_samples(drawn)).all()


STATEMENTS = {
    "party": tb.one_of("Green", "Red"),
    "issues": tb.prefers("health", "tax"),
    "trust": tb.at_least(2),
    "age": tb.between(30, 45),
}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each in ("party", "trust"))) for each in STATEMENTS]
)
def test_statements_in_cells_and_in_given_agree(model: tb.TBM, frame: pd.DataFrame, name: str) -> None:
    some, statement = frame.head(16), STATEMENTS[name]
    in_cells = some.assign(**{name: pd.Series([statement] * 16, index=some.index, dtype=object)})
    target = "party" if name != "party" else "trust"
    said = model.predict_proba(some, target, given={name: statement})
    np.testing.assert_allclose(said, model.predict_proba(in_cells, target), atol=1e-6)
    assert np.abs(said - model.predict_proba(some, target)).max() > 1e-3


def test_conditions_as_text_are_statements(model: tb.TBM, frame: pd.DataFrame) -> None:
    some = frame.head(16)
    text = ["trust >= 2", "issues: health > tax"]
    said = model.predict_proba(some, "party", given=text)
    given = {"trust": tb.at_least(2), "issues": tb.prefers("health", "tax")}
    np.testing.assert_allclose(said, model.predict_proba(some, "party", given=given), atol=1e-6)


@pytest.mark.slow
def test_comparisons_that_no_weak_order_holds_are_learned_from(frame: pd.DataFrame) -> None:
    """Two separate comparisons become lines of one `Linear` (see test_inequalities.py)."""
    four = frame.assign(issues=None).head(4)
    schema = SCHEMA | {"issues": tb.Ranking(("a", "b", "c", "d"))}
    pairs = [tb.prefers("a", "b"), tb.prefers("c", "d")]
    four["issues"] = pd.Series([pairs] * 4, index=four.index, dtype=object)
    model = tb.TBM(schema, n_hidden=0, max_epochs=1).fit(four)
    assert np.isfinite(model.score_samples(four)).all()


def test_a_model_with_orders_is_saved_and_loaded(model: tb.TBM, frame: pd.DataFrame, tmp_path) -> None:
    model.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    some = frame.head(16)
    np.testing.assert_array_equal(again.transform(some), model.transform(some))
    np.testing.assert_array_equal(again.predict_proba(some, "issues"), model.predict_proba(some, "issues"))


@pytest.mark.slow
def test_multi_prediction_and_exclusion_fit_orders_too(frame: pd.DataFrame) -> None:
    model = tb.TBM(
        SCHEMA, n_hidden=2, objective="multi-prediction", unobserved="exclude", max_epochs=2, random_state=0
    ).fit(frame)
    assert np.isfinite(model.weights_).all()
    assert np.isfinite(model.transform(frame.head(16))).all()


def test_inequalities_that_contradict_a_ranking_are_named(frame: pd.DataFrame) -> None:
    line = [({"issues.tax": 1, "issues.health": -1}, ">=", 0)]
    said = frame.head(4).assign(more=pd.Series([line] * 4, index=frame.index[:4], dtype=object))
    with pytest.raises(ThurboError, match=r"row 2.*0 <= issues.tax - issues.health; issues.health >= issues.tax"):
        tb.TBM(SCHEMA | {"more": tb.Inequality()}, n_hidden=1, max_epochs=1).fit(said)


ITEMS = ("tea", "coffee", "water")


@pytest.fixture(scope="module")
def drinks() -> tb.TBM:
    rng = np.random.default_rng(0)
    orders = [" > ".join(rng.permutation(ITEMS)) for _ in range(40)]
    model = tb.TBM({"drinks": tb.Ranking(ITEMS)}, n_hidden=1, n_factors=0, max_epochs=2, random_state=0, verbose=False)
    return model.fit({"drinks": orders})


def test_prefers_and_rank_keep_what_a_row_says(drinks: tb.TBM) -> None:
    said = {"drinks": ["tea > coffee", "coffee > tea", "water > coffee > tea", None]}
    np.testing.assert_array_equal(drinks.prefers(said, "tea", "coffee")[:3], [1, 0, 0])
    assert 0 < drinks.prefers(said, "tea", "coffee")[3] < 1
    ranked = drinks.rank(said, top=3, exclude_seen=False)
    by_row = {row: own["item"].tolist() for row, own in pd.DataFrame(ranked).groupby("row")}
    assert by_row[0].index("tea") < by_row[0].index("coffee")
    assert by_row[1].index("coffee") < by_row[1].index("tea")
    assert by_row[2] == ["water", "coffee", "tea"]


def test_the_utility_of_a_ranked_item_is_the_mean_of_x_given_the_order() -> None:
    """Without hidden units x is normal, so that draws in any order can be sorted into the stated one by rejection."""
    model = tb.TBM({"drinks": tb.Ranking(ITEMS)}, n_hidden=0, max_epochs=0, random_state=0, verbose=False)
    model.fit({"drinks": ["tea > coffee > water", "tea > water > coffee", "water > tea > coffee"]})
    x = np.random.default_rng(1).normal(size=(400_000, 3)) + np.asarray(model.site_bias_, np.float64)
    at = [model.schema_["drinks"].labels.index(item) for item in ("coffee", "water", "tea")]
    kept = x[(x[:, at[0]] > x[:, at[1]]) & (x[:, at[1]] > x[:, at[2]])]
    found = pd.DataFrame(model.rank({"drinks": ["coffee > water > tea"]}, top=3, exclude_seen=False))
    utility = dict(zip(found["item"], found["utility"], strict=True))
    expected = kept.mean(axis=0)
    error = 5 * kept.std(axis=0) / np.sqrt(len(kept))
    for item, mean, width in zip(model.schema_["drinks"].labels, expected, error, strict=True):
        assert abs(utility[item] - mean) < width + 1e-4


def test_items_that_a_ballot_does_not_name_are_ranked() -> None:
    schema = {"drinks": tb.Ranking(ITEMS, unranked="last")}
    model = tb.TBM(schema, n_hidden=1, n_factors=0, max_epochs=0, random_state=0, verbose=False)
    ballots = {"drinks": ["tea", "water", "tea > coffee > water"]}
    found = pd.DataFrame(model.fit(ballots).rank(ballots))
    left = {row: set(own["item"]) for row, own in found.groupby("row")}
    assert left == {0: {"coffee", "water"}, 1: {"tea", "coffee"}}


def test_the_likelihood_of_rankings_is_finite_where_the_last_batch_is_padded() -> None:
    """Rows that only pad a batch have chains that fit their own rankings, not those of other rows."""
    rng = np.random.default_rng(0)
    cells = [" > ".join(rng.permutation(list("abcd"))) for _ in range(130)]
    frame = pd.DataFrame({"r": cells, "yes": rng.random(130) < 0.5})
    schema = {"r": tb.Ranking(tuple("abcd"), cell_format="text"), "yes": tb.Binary()}
    model = tb.TBM(schema, n_hidden=2, objective="likelihood", batch_size=100, max_epochs=2, random_state=0).fit(frame)
    assert not any("event" in record for record in model.history_)
    assert np.isfinite(model.weights_).all()
