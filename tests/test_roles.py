"""Columns beyond the usual ones: values declared missing, names of labels, bands, ends, censored numbers, roles.

Idea: a model whose parameters are chosen, every answer of which can be enumerated; training is only looked at.
Promises that what is declared missing stays in the table, that observed cells never change, and that weights count.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import thurbo as tb
from tests.column_cases import cells_of
from tests.known import one_member
from thurbo.errors import SchemaError
from thurbo.fit import fitting
from thurbo.latent.constraints import Gauge
from thurbo.latent.rbm import Params
from thurbo.predict import baseline
from thurbo.predict import evaluation as evaluate
from thurbo.predict import joint as score
from thurbo.table.columns import parse_given
from thurbo.table.columns.forms import form
from thurbo.table.columns.numbers import distribution
from thurbo.table.io.frames import as_table

BANDS = {"young": (None, 30), "middle": (30, 60), "old": (65, None)}
ENDS = {"young": (-np.inf, 30), "middle": (30, 60), "old": (65, np.inf)}
SCHEMA = tb.Schema({
    "who": tb.Id(),
    "weight": tb.Weight(),
    "age": tb.Banded(BANDS, location=45.0, scale=15.0),
    "income": tb.Bounded(lower="least", upper="most", transform="log", location=10.0, scale=0.5),
    "time": tb.Censored("seen", limits=(None, 9), values=(0, 1), location=5.0, scale=2.0),
    "member": tb.Binary(values=(0, 1), names={1: "yes", 0: "no"}, missing={9: "refused"}),
})  # fmt: skip
SITES = ("age", "income", "time", "member")
SCALE, CUT = np.array([0.8, 0.7, 0.9, 1.0]), 0.2
ANSWERS = ["age", "least", "most", "time", "seen", "member"]


def params() -> Params:
    rng = np.random.default_rng(5)
    weights = rng.choice([-1.0, 1.0], (4, 2)) * rng.uniform(0.8, 1.6, (4, 2))
    cuts = np.full((4, 1), np.inf)
    cuts[3] = CUT
    as_array = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return Params(
        site_bias=as_array(-0.5 * weights.sum(axis=1)),
        weights=as_array(weights),
        hidden_bias=as_array(np.zeros(2)),
        loadings=jnp.zeros((4, 0), jnp.float32),
        gauge=Gauge(as_array(cuts), as_array(SCALE)),
        hidden_mean=jnp.full(2, 0.5, jnp.float32),
    )


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    found = tb.TBM(SCHEMA, n_hidden=2, random_state=0, verbose=False)
    found._adopt(one_member(SCHEMA, params(), "exact"), [], True)
    found.n_features_in_, found.frame_kind_ = 8, "pandas"
    found.feature_names_in_ = np.asarray(["who", "weight", *ANSWERS], object)
    return found


@pytest.fixture(scope="module")
def frame(model: tb.TBM) -> pd.DataFrame:
    """Rows that the model drew, with holes, ends apart, censored times and a refusal."""
    found = model.sample(120, random_state=1)
    assert list(found) == ANSWERS
    rng = np.random.default_rng(2)
    found["seen"] = np.where(rng.random(120) < 0.3, 0, found["seen"])
    apart = rng.random(120) < 0.5
    found["least"] *= np.where(apart, 0.8, 1.0)
    found["most"] *= np.where(apart, 1.2, 1.0)
    found.loc[rng.random(120) < 0.2, ["least", "most"]] = np.nan
    found.loc[rng.random(120) < 0.2, "most"] = np.nan
    found.loc[rng.random(120) < 0.2, ["time", "seen"]] = np.nan
    found.loc[rng.random(120) < 0.2, "age"] = None
    found["member"] = np.where(rng.random(120) < 0.2, 9, found["member"])
    found.insert(0, "weight", rng.uniform(0.5, 2.0, 120))
    found.insert(0, "who", [f"R_{i}" for i in range(120)])
    return found


class Oracle:
    """P(h) and P(cells | h) by the definition, for every state of the two hidden units."""

    def __init__(self) -> None:
        known = params()
        h = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
        self.mean = np.asarray(known.site_bias, float) + h @ np.asarray(known.weights, float).T
        log_p = h @ np.asarray(known.hidden_bias, float) + 0.5 * (self.mean**2).sum(axis=1)
        self.log_prior = log_p - logsumexp(log_p)

    def mass(self, site: str, lower: float, upper: float) -> np.ndarray:
        """P(lower ≤ e ≤ upper | h) in the user's units."""
        place, column = SITES.index(site), SCHEMA[site]
        x = [column.to_standard(np.asarray([e]))[0] / SCALE[place] if np.isfinite(e) else e for e in (lower, upper)]
        return np.asarray(norm.cdf(x[1] - self.mean[:, place]) - norm.cdf(x[0] - self.mean[:, place]))

    def log_chance(self, row: Any, but: str = "") -> np.ndarray:
        """log P(cells of the row | h); a density is the mass of a very small interval, over its width."""
        found = np.zeros(len(self.mean))
        if isinstance(row["age"], str) and but != "age":
            found += np.log(self.mass("age", *ENDS[row["age"]]))
        if not np.isnan(row["least"]) and but != "income":
            found += self._number("income", row["least"], np.inf if np.isnan(row["most"]) else row["most"])
        if not np.isnan(row["time"]) and but != "time":
            is_point = row["seen"] == 1 and row["time"] < 9
            found += self._number("time", row["time"], row["time"] if is_point else np.inf)
        if row["member"] != 9 and but != "member":
            side = 1 if row["member"] == 1 else -1
            found += norm.logcdf(side * (self.mean[:, 3] - CUT))
        return found

    def _number(self, site: str, lower: float, upper: float) -> np.ndarray:
        width = 1e-6 * abs(lower)
        if lower == upper:
            return np.log(self.mass(site, lower - width, lower + width)) - np.log(2 * width)
        return np.log(self.mass(site, lower, upper))


# ---- queries


def test_rows_are_scored_in_the_users_units(model: tb.TBM, frame: pd.DataFrame) -> None:
    """Densities of points, masses of bands, ends and censored times; nothing of what was declared missing."""
    oracle = Oracle()
    expected = [logsumexp(oracle.log_prior + oracle.log_chance(row)) for _, row in frame.iterrows()]
    np.testing.assert_allclose(model.score_samples(frame), expected, rtol=1e-4, atol=1e-3)


def test_bands_have_probabilities(model: tb.TBM, frame: pd.DataFrame) -> None:
    oracle = Oracle()
    found = model.predict_proba(frame, "age")
    assert SCHEMA["age"].labels == ("young", "middle", "old")
    for row, chances in zip(frame.to_dict("records"), found, strict=True):
        belief = oracle.log_prior + oracle.log_chance(row, but="age")
        masses = [np.exp(belief - logsumexp(belief)) @ oracle.mass("age", *ends) for ends in ENDS.values()]
        np.testing.assert_allclose(chances, np.asarray(masses) / np.sum(masses), atol=1e-4)
    side_by_side = model.predict_proba(frame)
    np.testing.assert_array_equal(side_by_side[:, :3], found)
    assert side_by_side.shape == (120, 5)


def test_predictions_are_in_the_columns_of_the_table(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.predict(frame)
    assert list(found) == ANSWERS
    chances = model.predict_proba(frame, "age")
    assert found["age"].tolist() == [("young", "middle", "old")[code] for code in chances.argmax(axis=1)]
    median = model.predict(frame, ["age", "income", "time"], statistic="median")
    ends = model.predict_interval(frame, "age", level=1e-6)
    held = SCHEMA["age"].nearest(ends.mean(axis=1))
    assert median["age"].tolist() == [("young", "middle", "old")[code] for code in held]
    np.testing.assert_array_equal(median["least"], median["most"])
    assert (median["seen"] == 1).all()
    assert (median["time"] <= 9).all()
    assert set(found["member"]) <= {0, 1}


def test_imputation_fills_what_is_wholly_missing_and_nothing_else(model: tb.TBM, frame: pd.DataFrame) -> None:
    before = frame.copy()
    filled = [model.impute(frame, fill="all"), *model.impute_draws(frame, 1, random_state=0, fill="all")]
    pd.testing.assert_frame_equal(frame, before)
    nothing = frame["least"].isna() & frame["most"].isna()
    for each in filled:
        for name in ("age", "least", "time", "seen"):
            known = frame[name].notna()
            assert (each[name][known] == frame[name][known]).all()
            assert each[name].notna().all()
        assert (each["most"].isna() == (frame["most"].isna() & ~nothing)).all(), "one end alone says at least"
        assert (each["least"] == each["most"])[nothing].all()
        refused = frame["member"] == 9
        assert refused.any()
        assert set(each["member"][refused]) <= {0, 1}, "declared missing is filled if asked for"
        assert (each["member"] == frame["member"])[~refused].all()
        pd.testing.assert_frame_equal(each[["who", "weight"]], frame[["who", "weight"]])


def test_conditions_may_use_names_numbers_and_intervals(model: tb.TBM) -> None:
    drawn = model.sample(60, given=["age in [20, 28]", "member = yes", "income >= 20000"], random_state=0)
    assert (drawn["age"] == "young").all()
    assert (drawn["member"] == 1).all()
    assert (drawn["least"] >= 20000 * (1 - 1e-5)).all()
    drawn = model.sample(20, given={"time": tb.at_least(8), "age": "old"}, random_state=0)
    assert (drawn["time"] >= 8 - 1e-5).all()
    assert (drawn["age"] == "old").all()


def test_evaluation_asks_about_bands_points_and_intervals(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.evaluate(frame, hide=0.5, random_state=0)
    kinds = {record["column"]: (record["answer"], record["n"]) for record in found.columns}
    assert {name: answer for name, (answer, _) in kinds.items()} == {
        "age": "label",
        "income": "number",
        "income: intervals": "interval",
        "time": "number",
        "time: intervals": "interval",
        "member": "label",
    }
    assert 0 < kinds["income"][1] <= (frame["least"] == frame["most"]).sum()
    assert 0 < kinds["time"][1] <= (frame["seen"] == 1).sum()
    assert kinds["member"][1] < (frame["member"] != 9).sum()
    assert all(np.isfinite(record["log_score"]) for record in found.columns)
    intervals = [record for record in found.columns if record["answer"] == "interval"]
    assert all(record["log_score_logistic"] < 0 and record["mae"] is None for record in intervals)
    assert found.overall["log_score_logistic"] is not None
    lines = str(found).splitlines()
    assert lines.index("Numbers") < next(n for n, line in enumerate(lines) if "income: intervals" in line)


def test_a_hidden_interval_is_scored_by_its_probability(
    model: tb.TBM, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Income and nothing else hidden, wherever it has two ends or one: against enumeration."""
    ends = frame["least"].notna() & (frame["least"] != frame["most"])
    assert frame["most"][ends].isna().any()
    assert frame["most"][ends].notna().any()
    nothing = np.zeros(len(frame), bool)
    hidden = {name: ends.to_numpy() if name == "income" else nothing for name in SITES}
    monkeypatch.setattr(evaluate, "choose", lambda *_: hidden)
    found = model.evaluate(frame.drop(columns="weight"), random_state=0, logistic=False)
    oracle, expected = Oracle(), []
    for row in frame[ends].to_dict("records"):
        belief = oracle.log_prior + oracle.log_chance(row, but="income")
        most = np.inf if np.isnan(row["most"]) else row["most"]
        expected.append(np.log(np.exp(belief - logsumexp(belief)) @ oracle.mass("income", row["least"], most)))
    assert [record["column"] for record in found.columns] == ["income: intervals"]
    assert found.columns[0]["n"] == found.overall["n_cells"] == found.overall["n_numbers"] == ends.sum()
    assert found.columns[0]["log_score"] == pytest.approx(np.mean(expected), abs=1e-4)


def test_a_normal_distribution_is_fitted_to_numbers_and_intervals() -> None:
    """Censored at the truth's median and in bands: likelihood finds the normal that numbers alone would miss."""
    rng = np.random.default_rng(0)
    z = rng.normal(0.3, 0.8, 4000)
    censored = z > 0.3
    lower, upper = np.where(censored, 0.3, z), np.where(censored, np.inf, z)
    assert form.normal(lower, upper, np.ones(4000)) == pytest.approx((0.3, 0.8), abs=0.05)
    assert abs(form.spread(z[~censored])[0] - 0.3) > 0.5
    band = np.floor(z)
    assert form.normal(band, band + 1, np.ones(4000)) == pytest.approx((0.3, 0.8), abs=0.05)
    assert form.normal(z, z, np.ones(4000)) == form.spread(z)
    counts = np.where(np.arange(4000) < 2000, 3.0, 0.0)
    once = form.normal(band[:2000], band[:2000] + 1, np.ones(2000))
    assert form.normal(band, band + 1, counts) == pytest.approx(once, abs=1e-3)
    for low, high in ((1.0, np.inf), (-np.inf, -1.0), (0.2, 0.21)):  # nothing that could be fitted
        assert np.isfinite(form.normal(np.full(3, low), np.full(3, high), np.ones(3))).all()
    tails = np.asarray([(30.0, 31.0), (-31.0, -30.0), (-np.inf, 1.0), (2.0, np.inf)])
    exact = [norm.logsf(30.0), norm.logsf(30.0), norm.logcdf(1.0), norm.logsf(2.0)]
    np.testing.assert_allclose(form.log_between(*tails.T), exact, rtol=1e-9)


# ---- roles


def test_figures_of_an_evaluation_are_weighted(model: tb.TBM, frame: pd.DataFrame) -> None:
    """Rows of a row's own score: of two halves that weigh 1 and 3, the whole is the mean that weighs them so."""
    first = np.arange(120) % 2 == 0

    def ask(weight: np.ndarray) -> Any:
        return model.evaluate(frame.assign(weight=weight.astype(float)), hide=0.5, random_state=0, logistic=False)

    whole, parts = ask(np.where(first, 1, 3)), [ask(first), ask(~first)]
    sizes = np.asarray([parts[0].overall["n_cells"], 3 * parts[1].overall["n_cells"]], float)
    scores = [part.overall["log_score"] for part in parts]
    assert whole.overall["log_score"] == pytest.approx(np.average(scores, weights=sizes), rel=1e-5)
    for name in ("age", "time"):
        lines = [next(line for line in each.columns if line["column"] == name) for each in (whole, *parts)]
        counts = np.asarray([lines[1]["n"], 3 * lines[2]["n"]], float)
        for measure in ("accuracy", "mae", "log_score"):
            if lines[0][measure] is not None:
                mean = np.average([line[measure] for line in lines[1:]], weights=counts)
                assert lines[0][measure] == pytest.approx(mean, rel=1e-5)
    assert model.evaluate(frame.drop(columns="weight"), hide=0.5, random_state=0, logistic=False).overall["n_cells"] > 0


def test_scores_of_weighted_rows_are_those_of_fewer_or_more_rows(model: tb.TBM, frame: pd.DataFrame) -> None:
    """By the Weight column, by `sample_weight`, and by the two together."""
    alike, rng = frame.drop(columns="weight"), np.random.default_rng(6)
    kept, times = (rng.random(120) < 0.6).astype(float), np.roll([0, 1, 2] * 40, 1)
    for weight, often in ((kept, kept.astype(int)), (times, times), (7.5 * times, times)):
        rows = np.repeat(np.arange(120), often)
        expected = model.score_samples(alike.iloc[rows]).mean()
        assert model.score(alike, sample_weight=weight) == pytest.approx(expected, rel=1e-6)
        assert model.score(alike.assign(weight=weight)) == pytest.approx(expected, rel=1e-6)
    both = model.score(alike.assign(weight=kept), sample_weight=times)
    assert both == pytest.approx(model.score(alike, sample_weight=kept * times), rel=1e-6)
    assert model.score(alike) == pytest.approx(model.score_samples(alike).mean(), rel=1e-6)
    assert model.score(alike) != pytest.approx(both, rel=1e-3)
    with pytest.raises(SchemaError, match=r'row R_3, column "weight"'):
        model.score(frame.assign(weight=np.where(np.arange(120) == 3, -1.0, 1.0)))


def test_a_row_that_counts_nothing_may_be_impossible() -> None:
    values, weight = np.array([-1.0, -np.inf, -3.0]), np.array([1.0, 0.0, 3.0])
    assert score.weighted_mean(values, weight) == -2.5
    assert score.weighted_mean(values, np.ones(3)) == -np.inf


def test_answers_do_not_depend_on_weights(model: tb.TBM, frame: pd.DataFrame) -> None:
    heavier = frame.assign(weight=np.arange(120.0))
    pd.testing.assert_frame_equal(
        model.impute(heavier).drop(columns="weight"), model.impute(frame).drop(columns="weight")
    )
    np.testing.assert_array_equal(model.predict_proba(heavier, "age"), model.predict_proba(frame, "age"))
    assert "weight" not in model.sample(3, random_state=0)


def test_the_unit_of_weights_does_not_matter(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = [
        model.evaluate(frame.assign(weight=unit * frame["weight"]), hide=0.5, random_state=0) for unit in (1.0, 7.0)
    ]
    for one, other in zip(*(each.columns for each in found), strict=True):
        numbers = [name for name, value in one.items() if isinstance(value, float)]
        assert len(numbers) >= 3
        assert {name: other[name] for name in numbers} == pytest.approx({name: one[name] for name in numbers}, rel=1e-3)


def test_yardsticks_are_weighted_and_never_see_rows_without_weight() -> None:
    code, weight = np.asarray([0, 1, 1, -1]), np.asarray([4.0, 2.0, 2.0, 9.0])
    np.testing.assert_allclose(form.shares(code, 2, weight), [0.5, 0.5])
    assert form.spread(np.asarray([0.0, 4.0]), np.asarray([3.0, 1.0])) == pytest.approx((1.0, np.sqrt(3.0)))
    rng = np.random.default_rng(0)
    inputs, asked = rng.normal(size=(80, 3)), np.arange(5)
    target = inputs @ [1.0, -1.0, 0.5] + rng.normal(size=80)
    counts = np.where(np.arange(80) < 60, 2.5, 0.0)
    wrong = np.where(counts > 0, target, 1e3)
    fresh = lambda: np.random.RandomState(0)  # noqa: E731
    whole = baseline.ridge(inputs, target, counts > 0, asked, fresh())
    found = baseline.ridge(inputs, wrong, np.ones(80, bool), asked, fresh(), counts)
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-6)
    np.testing.assert_allclose(found.deviation, whole.deviation, rtol=1e-6)
    labels = (target > 0).astype(int)
    whole = baseline.logistic(inputs, np.where(counts > 0, labels, -1), asked, 2, fresh())
    found = baseline.logistic(inputs, np.where(counts > 0, labels, 1 - labels), asked, 2, fresh(), counts)
    np.testing.assert_allclose(found, whole, rtol=1e-6)
    heavy = np.where(labels == 1, 5.0, 1.0)
    assert (baseline.logistic(inputs, labels, asked, 2, fresh(), heavy)[:, 1] > whole[:, 1]).all()


class Looked(Exception):
    """Training stops where it would begin."""


@pytest.mark.parametrize("sample_weight", [None, [1.0, 2.0, 0.5, 4.0]])
def test_the_weight_column_weighs_rows_in_training(monkeypatch: pytest.MonkeyPatch, sample_weight: Any) -> None:
    seen = []

    def look(chosen: Any, data: fitting.Data, *rest: Any) -> Any:
        seen.append(data.weight)
        raise Looked

    monkeypatch.setattr(fitting, "fit", look)
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "w": [1, 0, 2, 1]})
    model = tb.TBM({"a": tb.Continuous(), "w": tb.Weight()}, verbose=False)
    with pytest.raises(Looked):
        model.fit(frame, sample_weight=sample_weight)
    expected = frame["w"].to_numpy(float) * (1.0 if sample_weight is None else np.asarray(sample_weight))
    expected = expected[expected > 0]  # the others are no rows
    np.testing.assert_allclose(seen[0], expected / expected.mean())
    with pytest.raises(SchemaError, match=r'column "w".*has this column of weights, but the table does not'):
        model.fit(frame[["a"]])


def test_more_rows_are_weighed_too(monkeypatch: pytest.MonkeyPatch, model: tb.TBM, frame: pd.DataFrame) -> None:
    seen = []

    def look(chosen: Any, data: fitting.Data, *rest: Any) -> Any:
        seen.append(data.weight)
        raise Looked

    monkeypatch.setattr(fitting, "go_on", look)
    monkeypatch.setattr(model, "_training", (None, None, 0), raising=False)
    with pytest.raises(Looked):
        model.partial_fit(frame)
    np.testing.assert_allclose(seen[0], frame["weight"] / frame["weight"].mean())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.0], "row R_2.*-2.0 is not a weight"),
        ([1.0, np.inf], "row R_2.*inf is not a weight"),
        ([None, 1.0], "row R_1.*is missing"),
        (["much", 1.0], 'row R_1.*"much" is not a weight'),
        ([0.0, 0.0], "every row is zero"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: list[Any], message: str) -> None:
    schema = tb.Schema({"who": tb.Id(), "w": tb.Weight()})
    with pytest.raises(SchemaError, match=f'{message}.*;|column "w".*{message}'):
        schema.weights({"who": ["R_1", "R_2"], "w": weights})


def test_rows_go_by_their_id_in_messages() -> None:
    schema = tb.Schema({"who": tb.Id(), "trust": tb.Ordinal(["none", "some"])})
    frame = {"who": ["ann", None, "bob"], "trust": ["none", "some", "alot"]}
    with pytest.raises(SchemaError, match='row bob, column "trust"'):
        schema.compile(frame)
    with pytest.raises(SchemaError, match='row bob, column "trust"'):
        tb.Schema({"who": tb.Id(), "trust": tb.Continuous()}).fit({**frame, "trust": [1, 2, "x"]})
    with pytest.raises(SchemaError, match="row 1, "):
        schema.compile({**frame, "trust": ["none", "alot", "some"]})
    assert schema.compile({"trust": ["none"]})["trust"].code.tolist() == [[0]]
    assert schema.row_names(pd.DataFrame(frame, index=[7, 8, 9])).tolist() == ["ann", 8, "bob"]


def test_a_schema_has_one_weight_and_one_id() -> None:
    for role in (tb.Weight(), tb.Id()):
        with pytest.raises(SchemaError, match='"a" and "b" are both'):
            tb.Schema({"a": role, "b": role})


# ---- declared missing, and names


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_values_declared_missing_say_nothing_and_stay(make: Any) -> None:
    schema = tb.Schema({
        "trust": tb.Ordinal(missing={9: "Don't know", -1: "Skipped"}),
        "age": tb.Continuous(missing=[99]),
        "party": tb.Categorical(missing=["refused"]),
        "seen": tb.MultiSelect(columns={"a": "x", "b": "y"}, missing={8: "NA"}),
        "rank": tb.Ranking(ranks={"a": "u", "b": "v"}, missing={0: "not ranked"}),
    })  # fmt: skip
    frame = make({
        "trust": [1, 2, 9, -1, 3],
        "age": [20.0, 30.0, 99.0, None, 40.0],
        "party": ["Green", "Red", "refused", None, "Red"],
        "x": [1, 0, 8, 8, 1],
        "y": [0, 1, 8, 0, 1],
        "u": [1, 2, 0, 0, 1],
        "v": [2, 1, 0, 1, 0],
    })  # fmt: skip
    fitted = schema.fit(frame)
    assert fitted["trust"].labels == (1, 2, 3)
    assert fitted["party"].labels == ("Green", "Red")
    assert fitted["age"].location == pytest.approx(30.0)
    blocks = fitted.compile(frame)
    assert blocks["trust"].code[:, 0].tolist() == [0, 1, -1, -1, 2]
    assert blocks["age"].observed[:, 0].tolist() == [True, True, False, False, True]
    assert blocks["party"].takes_part.any(axis=1).tolist() == [True, True, False, False, True]
    assert blocks["seen"].code.tolist() == [[1, 0], [0, 1], [-1, -1], [-1, 0], [1, 1]]
    assert blocks["rank"].tier.tolist() == [[1, 0], [0, 1], [-1, -1], [-1, 0], [0, -1]]
    table = as_table(frame)
    assert fitted["trust"].missing_kinds(table.cells("trust")) == {"Don't know": 1, "Skipped": 1, "no answer": 0}
    assert fitted["age"].missing_kinds(table.cells("age")) == {"99": 1, "no answer": 1}
    assert fitted["party"].missing_kinds(table.cells("party")) == {"refused": 1, "no answer": 1}
    assert dict(fitted["trust"].missing) == {9: "Don't know", -1: "Skipped"}


def test_kinds_of_missing_are_found_by_name_and_left_out_of_ordered_levels() -> None:
    column = tb.Ordinal(missing={9: "Don't know"}, names={1: "low", 2: "high", 9: "No idea"})
    cells = cells_of(["low", "Don't know", 9, None, "high"])
    assert column.answered(cells).missing.tolist() == [False, True, True, True, False]
    assert column.missing_kinds(cells) == {"Don't know": 2, "no answer": 1}
    frame = pd.DataFrame({"q": pd.Categorical(["a", "b", "dk"], ["dk", "a", "b"], ordered=True)})
    fitted = tb.Schema({"q": tb.Ordinal(missing=["dk"])}).fit(frame)
    assert fitted["q"].labels == ("a", "b")
    assert fitted.compile(frame)["q"].code[:, 0].tolist() == [0, 1, -1]
    part = tb.MultiSelect(columns={"a": "x"}, missing={9: "NA"})
    several_cells = {"x": cells_of([1, 9, None], "x")}
    assert part.missing_kinds(replace(cells_of([None] * 3), parts=several_cells)) == {"NA": 1, "no answer": 1}


def test_names_are_read_wherever_labels_are() -> None:
    agree = tb.Ordinal(names={1: "Disagree", 2: "Neither", 3: "Agree"}).fit(cells_of([1, 3]))
    assert agree.labels == (1, 2, 3)
    assert agree.texts == ("Disagree", "Neither", "Agree")
    assert agree.describe() == "Disagree < Neither < Agree"
    cells = cells_of(["Agree", 1, tb.at_least("Neither"), tb.between(1, "Neither"), tb.one_of("Neither", 3)])
    block = agree.encode(cells)
    assert block.code[:, 0].tolist() == [2, 0, 1, 0, 1]
    assert block.code_high[:, 0].tolist() == [2, 0, 2, 1, 2]
    assert agree.answers_of(np.asarray([2, 0])).tolist() == [3, 1], "the table's own codes come back"
    assert tb.Binary("Yes", names={1: "Yes", 2: "No"}).fit(cells_of([1, 2])).labels == (2, 1)
    assert tb.Binary(names={1: "No", 2: "Yes"}).fit(cells_of([1, 1])).labels == (1, 2), "yes is true by its name"
    party = tb.Categorical([1, 2], names={1: "Green", 2: "Red"})
    assert party.encode(cells_of(["Red", 1, ["Green"]])).tier.tolist() == [[0, 1], [1, 0], [1, 0]]


def test_a_name_that_could_mean_two_labels_means_none() -> None:
    for column in (tb.Ordinal([1, 2, 3], names={1: "x", 2: "x"}), tb.Ordinal(["a", "b"], names={"a": "b"})):
        assert "x" not in column.lookup
        assert column.lookup.get("b", 1) == 1, "a label comes before another's name"
    with pytest.raises(SchemaError, match='level "x"'):
        tb.Ordinal([1, 2, 3], names={1: "x", 2: "x"}).encode(cells_of(["x"]))
    with pytest.raises(SchemaError, match="text"):
        tb.Ordinal([1, 2], names={2: "two"}).encode(cells_of(["1"]))


def test_conditions_use_names_whatever_signs_are_in_them() -> None:
    schema = tb.Schema({
        "q": tb.Ordinal([1, 2, 3], names={1: "0 - 10", 2: "11 | 20", 3: "2010"}),
        "p": tb.Categorical([1, 2, 3], names={1: "Green", 2: "Red = left", 3: "A > B"}),
    })  # fmt: skip
    for text, expected in (
        ("q = 11 | 20", 2),
        ("q = 2010", 3),
        ("q = 3", 3),
        ("q >= 0 - 10", tb.at_least(1)),
        ("p = Green | 3", tb.one_of(1, 3)),
        ("p = Red = left", 2),
        ("p: A > B", 3),
    ):
        assert parse_given(text, schema)[1] == expected


def test_what_was_declared_goes_to_files_and_back(tmp_path: Any) -> None:
    SCHEMA.to_toml(tmp_path / "schema.toml")
    assert tb.Schema.from_toml(tmp_path / "schema.toml") == SCHEMA
    assert '"old" = [65.0, inf]' in (tmp_path / "schema.toml").read_text()


def test_keys_that_a_file_holds_as_text_are_the_labels_they_spell(tmp_path: Any) -> None:
    (tmp_path / "schema.toml").write_text(
        '[columns.q]\nkind = "ordinal"\nlevels = [1, 2]\nnames = {1 = "no", 2 = "yes"}\nmissing = {9 = "refused"}\n'
    )
    schema = tb.Schema.from_toml(tmp_path / "schema.toml")
    assert schema["q"].texts == ("no", "yes")
    for cells in ([1, 9, 2], [1.0, 9.0, 2.0], ["no", "refused", "yes"], [1, "9", "yes"]):
        assert schema.compile({"q": cells})["q"].code[:, 0].tolist() == [0, -1, 1]


# ---- numbers of which only a side is known


def test_ends_may_be_missing_infinite_or_equal() -> None:
    column = tb.Bounded(lower="a", upper="b", location=0.0, scale=1.0)
    block = column.encode(several_ends([1.0, 1.0, None, -np.inf, 2.0, None], [3.0, 1.0, 4.0, 5.0, np.inf, None]))
    assert block.lower[:, 0].tolist() == [1.0, 1.0, -np.inf, -np.inf, 2.0, -np.inf]
    assert block.upper[:, 0].tolist() == [3.0, 1.0, 4.0, 5.0, np.inf, np.inf]
    assert block.point[:, 0].tolist() == [False, True, False, False, False, False]
    own = several_ends([1.0, 1.0], [2.0, 2.0], [tb.at_least(7), 5.0])
    assert column.encode(own).lower[:, 0].tolist() == [7.0, 5.0], "a cell under the own name comes first"


def several_ends(a: list[Any], b: list[Any], own: list[Any] | None = None) -> Any:
    return replace(cells_of(own or [None] * len(a)), parts={"a": cells_of(a, "a"), "b": cells_of(b, "b")})


def test_an_end_may_have_the_name_of_the_question() -> None:
    schema = tb.Schema({"low": tb.Bounded(lower="low", upper="high", location=0.0, scale=1.0)})
    block = schema.compile({"low": [1.0, None], "high": [2.0, 3.0]})["low"]
    assert (block.lower[:, 0].tolist(), block.upper[:, 0].tolist()) == ([1.0, -np.inf], [2.0, 3.0])
    with pytest.raises(SchemaError, match=r'column "high": .*the table does not have it'):
        schema.compile({"low": [1.0]})
    given = schema.compile({"low": [1.0], "high": [2.0]}, given={"low": tb.between(5, 6)})["low"]
    assert (given.lower.item(), given.upper.item()) == (5.0, 6.0)


@pytest.mark.parametrize("halfwidth", [0.5, "b"])
def test_a_center_and_a_width_are_two_ends(halfwidth: Any) -> None:
    column = tb.Bounded(center="a", halfwidth=halfwidth, location=0.0, scale=1.0)
    block = column.encode(several_ends([1.0, None, 3.0], [0.5, 0.5, None]))
    assert block.lower[:, 0].tolist() == [0.5, -np.inf, 2.5 if halfwidth == 0.5 else -np.inf]
    assert block.upper[:, 0].tolist() == [1.5, np.inf, 3.5 if halfwidth == 0.5 else np.inf]


def test_censored_numbers_say_at_least_or_at_most() -> None:
    events = {"e": cells_of([1, 0, None, 1, 1, 0], "e")}
    cells = replace(cells_of([3, 3, 3, -1, 12, 12]), parts=events)
    block = tb.Censored("e", limits=(0, 10), values=(0, 1), location=0.0, scale=1.0).encode(cells)
    assert block.lower[:, 0].tolist() == [3, 3, 3, -np.inf, 10, 10]
    assert block.upper[:, 0].tolist() == [3, np.inf, np.inf, 0, np.inf, np.inf]
    assert block.point[:, 0].tolist() == [True, False, False, False, False, False]


def test_a_table_without_its_column_of_events_is_refused() -> None:
    schema = tb.Schema({"t": tb.Censored("e")})
    with pytest.raises(SchemaError, match=r'column "e".*"t" needs'):
        schema.fit({"t": [1.0, 2.0]})
    assert schema.fit({"t": [1.0, 2.0], "e": ["yes", "no"]})["t"].values == ("no", "yes")


def test_rank_normal_scores_spread_what_is_censored() -> None:
    """Kaplan and Meier's curve where events are censored; the share below where a scale ends."""
    rng = np.random.default_rng(0)
    time, end = rng.exponential(1.0, 4000), rng.exponential(1.5, 4000)
    lower, upper = np.minimum(time, end), np.where(time <= end, time, np.inf)
    knots, probability = distribution(lower, upper, np.ones(len(lower)))
    inner = (knots > 0.05) & (knots < 2.0)
    np.testing.assert_allclose(probability[inner], 1 - np.exp(-knots[inner]), atol=0.04)
    numbers = rng.normal(size=2000)
    knots, probability = distribution(
        np.where(numbers < -0.5, -np.inf, numbers), np.maximum(numbers, -0.5), np.ones(len(numbers))
    )
    assert probability[0] == pytest.approx((numbers < -0.5).mean())
    edges = np.asarray([-np.inf, -1.0, 0.0, 1.0, np.inf])
    band = np.searchsorted(edges, numbers) - 1
    knots, probability = distribution(edges[band], edges[band + 1], np.ones(len(band)))
    np.testing.assert_allclose(probability, [(numbers < edge).mean() for edge in knots], atol=1e-9)


@pytest.mark.parametrize(("n", "most"), [(150, 0.08), (1000, 0.03), (5000, 0.02)])
def test_rank_normal_scores_do_not_follow_the_noise_of_numbers(n: int, most: float) -> None:
    """Of new numbers from a normal distribution, normal scores lose little log density beside this distribution."""
    rng = np.random.default_rng(n)
    lost = []
    for _ in range(10):
        known, new = rng.normal(size=n), rng.normal(size=4000)
        column = tb.Continuous(transform="rank-normal").learn(known, known)
        log_density = -0.5 * column.to_standard(new) ** 2 + column.log_derivative(new)
        lost.append(float((-0.5 * new**2 - log_density).mean()))
    assert np.mean(lost) < most


def test_rank_normal_scores_of_bands_keep_all_their_ends() -> None:
    """A table with fewer rows than knots of a smooth map: bands are answers, and keep their shares."""
    edges = np.arange(0.0, 41.0)
    band = np.repeat(np.arange(40), 3)
    knots, probability = distribution(edges[band], edges[band + 1], np.ones(len(band)))
    np.testing.assert_allclose(np.interp(edges[1:-1], knots, probability), np.arange(1, 40) / 40, atol=1e-9)
