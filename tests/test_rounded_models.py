"""§3.1: models of rounded numbers: probabilities by enumeration, and the whole way from a table to a report."""

from __future__ import annotations

import itertools
import json
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import logsumexp
from scipy.stats import binomtest, norm

import thurbo as tb
from tests.known import one_member
from tests.oracle import log_interval
from thurbo.app.explorer import Session
from thurbo.app.report import render, summary
from thurbo.latent.constraints import Gauge
from thurbo.latent.rbm import Params
from thurbo.table.io.codebook import KEY, Codebook, Note

N = 300
TRUST = ("none", "some", "a lot")
CUTS, SCALE = (-0.4, 0.7), (0.8, 0.6, 1.0)


@cache
def frame(seed: int = 0, n: int = N) -> pd.DataFrame:
    """Weeks worked in a year: none in 40 %, 52 in 30 %, others between, by health and sex; and hours."""
    rng = np.random.default_rng(seed)
    health, sex = rng.choice(["bad", "fair", "good"], n), rng.choice(["man", "woman"], n)
    rate = np.select([health == "bad", health == "fair"], [0.75, 0.35], 0.1) + np.where(sex == "man", -0.1, 0.1)
    weeks = np.where(rng.random(n) < rate, 0, np.where(rng.random(n) < 0.55, 52, rng.integers(2, 51, n)))
    wage = np.round(np.where(rng.random(n) < 0.15, 12.5, rng.lognormal(3, 0.4, n)), 1)
    found = pd.DataFrame({"weeks": weeks.astype(float), "health": health, "sex": sex, "wage": wage})
    return found.mask(rng.random(found.shape) < 0.08)


@cache
def fitted() -> tb.TBM:
    return tb.TBM(members=2, max_epochs=30, random_state=0, verbose=False).fit(frame())


# ---- by enumeration


@cache
def schema() -> tb.Schema:
    columns = {
        "weeks": tb.Continuous("rank-normal", rounded=True),
        "wage": tb.Continuous(rounded=True),
        "trust": tb.Ordinal(TRUST),
    }
    return tb.Schema(columns).fit(frame().assign(trust="some"))


@cache
def known_params() -> Params:
    as_array = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    return Params(
        site_bias=as_array([-0.3, 0.2, 0.1]),
        weights=as_array([[1.2, -0.8], [-0.9, 1.1], [0.7, 1.3]]),
        hidden_bias=as_array([-0.4, -0.9]),
        loadings=jnp.zeros((3, 0), jnp.float32),
        gauge=Gauge(as_array([[np.inf] * 2, [np.inf] * 2, CUTS]), as_array(SCALE)),
        hidden_mean=jnp.full(2, 0.5, jnp.float32),
    )


def known() -> tb.TBM:
    model = tb.TBM(schema(), n_hidden=2, random_state=0, verbose=False)
    model._adopt(one_member(schema(), known_params(), "exact"), [], True)
    model.n_features_in_, model.frame_kind_ = 3, "pandas"
    model.feature_names_in_ = np.asarray(schema().names, object)
    return model


STATES = np.array(list(itertools.product([0.0, 1.0], repeat=2)))


def means() -> np.ndarray:
    params = known_params()
    return np.asarray(params.site_bias, float) + STATES @ np.asarray(params.weights, float).T


def log_cell(name: str, cell: Any) -> np.ndarray:
    """log P(cell | h), over the unit of a number, [state]."""
    place = schema().names.index(name)
    mean = means()[:, place]
    if name == "trust":
        ends = [-np.inf, *CUTS, np.inf][TRUST.index(cell) :][:2]
        return np.asarray([log_interval(m, *ends) for m in mean])
    column: Any = schema()[name]
    if isinstance(cell, float):
        low, high, unit = cell - column.unit / 2, cell + column.unit / 2, column.unit
    else:
        low = -np.inf if cell.lower is None else cell.lower - column.unit / 2
        high, unit = np.inf if cell.upper is None else cell.upper + column.unit / 2, 1.0
    ends = [column.to_standard(np.asarray([e]))[0] / SCALE[place] if np.isfinite(e) else e for e in (low, high)]
    return np.asarray([log_interval(m, *ends) for m in mean]) - np.log(unit)


def log_joint(row: dict[str, Any]) -> np.ndarray:
    prior = STATES @ np.asarray(known_params().hidden_bias, float) + 0.5 * (means() ** 2).sum(axis=1)
    return prior - logsumexp(prior) + sum((log_cell(*each) for each in row.items()), np.zeros(4))


ROWS: list[dict[str, Any]] = [
    {"weeks": 0.0, "wage": 12.5, "trust": "some"},
    {"weeks": 52.0, "wage": 20.3},
    {"weeks": 17.0, "trust": "none"},
    {"weeks": 53.0, "wage": 90.0, "trust": "a lot"},
    {"wage": 12.4},
    {"weeks": tb.at_least(20), "wage": tb.between(10, 12.5), "trust": "some"},
    {"weeks": tb.at_most(0)},
    {},
]


def rows_frame() -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([row.get(name) for row in ROWS], dtype=object) for name in schema().names})


def test_scores_equal_the_sum_over_states() -> None:
    expected = [logsumexp(log_joint(row)) for row in ROWS]
    np.testing.assert_allclose(known().score_samples(rows_frame(), method="exact"), expected, atol=2e-4, rtol=1e-5)


def test_predictions_equal_the_sum_over_states() -> None:
    """Mean and median of weeks worked and probabilities of trust, each given the other cells of its row."""
    model, column = known(), schema()["weeks"]
    numbers = np.arange(0.0, 53.0)
    ends = np.concatenate([[-np.inf], column.to_standard(numbers[1:] - 0.5) / SCALE[0], [np.inf]])
    given_state = np.diff(norm.cdf(ends - means()[:, :1]), axis=1)
    found = {
        each: np.asarray(model.predict(rows_frame(), "weeks", statistic=each), float).ravel()
        for each in ("mean", "median", "mode")
    }
    chance = model.predict_proba(rows_frame(), "trust")
    for place, row in enumerate(ROWS):
        belief = log_joint({name: cell for name, cell in row.items() if name != "weeks"})
        own = np.exp(belief - logsumexp(belief)) @ given_state
        assert found["mean"][place] == pytest.approx(own @ numbers, abs=0.02)
        assert found["median"][place] == numbers[np.searchsorted(own.cumsum(), 0.5)]
        assert found["mode"][place] == numbers[own.argmax()]
        belief = log_joint({name: cell for name, cell in row.items() if name != "trust"})
        parts = np.exp([logsumexp(belief + log_cell("trust", label)) - logsumexp(belief) for label in TRUST])
        np.testing.assert_allclose(chance[place], parts, atol=2e-5)


def test_drawn_numbers_have_the_probabilities_of_the_model() -> None:
    drawn = known().sample(4000, random_state=1, method="gibbs")
    share = np.exp(logsumexp(log_joint({"weeks": 0.0})))
    low = np.exp(logsumexp(log_joint({"weeks": tb.at_most(0)})))
    assert low == pytest.approx(share, rel=0.01), "numbers below those of the table are rare"
    for weeks, expected in ((0.0, low), (52.0, np.exp(logsumexp(log_joint({"weeks": tb.at_least(52)}))))):
        n = int((drawn["weeks"] == weeks).sum())
        assert binomtest(n, 4000, expected).pvalue > 2e-5
    assert drawn["weeks"].between(0, 52).all()


def test_a_number_that_is_far_away_is_scored() -> None:
    table = pd.DataFrame({"weeks": [1e20, -1e12, 3.0], "wage": [1e20, 1e9, 12.5], "trust": "some"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.errors.SchemaWarning)
        assert np.isfinite(known().score_samples(table)).all()


# ---- the whole way


def test_inference_reads_rounded_numbers() -> None:
    found = tb.Schema.infer(frame())
    assert all(found[name].rounded and found[name].transform == "rank-normal" for name in ("weeks", "wage"))
    share = (frame()["weeks"].dropna() == 0).mean()
    assert f"0 in {100 * share:.0f} %" in found.reasons["weeks"]


def test_numbers_are_imputed_as_they_are_recorded() -> None:
    model, table = fitted(), frame()
    for found in (model.impute(table), *model.impute_draws(table, n=2, random_state=0)):
        gone = table["weeks"].isna()
        weeks = found["weeks"].to_numpy(float)
        assert (weeks == np.round(weeks)).all()
        assert ((weeks >= 0) & (weeks <= 52)).all()
        assert (weeks[~gone] == table["weeks"][~gone]).all()
        assert (weeks[gone] == 0).any()
        wage = found["wage"].to_numpy(float)
        np.testing.assert_allclose(wage, np.round(wage, 1), atol=1e-9)
    bad, good = (
        np.asarray(model.predict(pd.DataFrame({"health": [health], "sex": ["man"]}).reindex(columns=table.columns)))
        for health in ("bad", "good")
    )
    assert float(bad[0][0]) == 0 < float(good[0][0])


def test_sampled_rows_have_the_zeros_of_the_table() -> None:
    n = 1500
    drawn = fitted().sample(n, random_state=0)
    share, known_share = (drawn["weeks"] == 0).mean(), (frame()["weeks"].dropna() == 0).mean()
    error = np.sqrt(known_share * (1 - known_share) * (1 / n + 1 / N))
    assert abs(share - known_share) < 0.08 + 2 * error
    assert drawn["weeks"].between(0, 52).all()
    by = drawn.groupby("health")["weeks"].apply(lambda own: (own == 0).mean())
    assert by["bad"] > by["good"] + 0.25


def test_intervals_end_at_recorded_numbers() -> None:
    ends = np.asarray(fitted().predict_interval(frame(), "weeks", level=0.8), float).reshape(N, 2)
    assert (ends == np.round(ends)).all()
    assert ((ends >= 0) & (ends <= 52)).all()
    assert (ends[:, 0] <= ends[:, 1]).all()
    truth = frame()["weeks"].to_numpy()
    inside = (truth >= ends[:, 0]) & (truth <= ends[:, 1])
    assert inside[~np.isnan(truth)].mean() > 0.75


def test_evaluation_reports_errors_and_scores() -> None:
    found = fitted().evaluate(frame(5), hide=0.3, random_state=0)
    record = {each["column"]: each for each in found.columns}["weeks"]
    assert record["answer"] == "number"
    assert 0 < record["mae"] < 40
    assert record["log_score"] > record["log_score_marginal"] - 0.1
    assert -4 < record["log_score"] < -0.5
    assert record["calibration_error"] < 0.2
    again = tb.evaluate(
        tb.TBM(members=1, max_epochs=5, random_state=0, verbose=False), frame(), hide=0.2, random_state=0, verbose=False
    )
    assert np.isfinite({each["column"]: each for each in again.columns}["weeks"]["log_score"])


def test_a_file_gives_the_same_predictions(tmp_path: Any) -> None:
    model = fitted()
    model.save(tmp_path / "model.thurbo")
    again = tb.TBM.load(tmp_path / "model.thurbo")
    assert again.schema_["weeks"] == model.schema_["weeks"]
    for statistic in ("mean", "median", "mode"):
        both = [np.asarray(each.predict(frame(), "weeks", statistic=statistic)) for each in (model, again)]
        np.testing.assert_array_equal(*both)
    np.testing.assert_array_equal(model.score_samples(frame()[:40]), again.score_samples(frame()[:40]))


def test_reports_and_the_explorer_show_numbers() -> None:
    model, table = fitted(), frame()
    found = summary(model, table, held_out=model.evaluate(table, hide=0.2, random_state=0))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert "are intervals" not in render(found)
    assert "weeks" in render(found)
    session = Session(model, table)
    answers = {each.name: each for each in session.answers}["weeks"]
    assert answers.share_interval == 0.0
    np.testing.assert_array_equal(answers.values, table["weeks"].to_numpy())
    pinned = {each["name"]: each for each in session.pinned(["health = bad"])["questions"]}
    about = session.respondent({"health": "bad", "sex": "man"}, "weeks")
    weeks = next(each for each in about["predicted"] if each["name"] == "weeks")
    for quantiles in (weeks["given"]["quantiles"], weeks["usual"]["quantiles"]):
        assert quantiles == [round(each) for each in quantiles]
    assert all(moved["value"] == round(moved["value"]) for moved in about["moved"])
    assert "weeks" in pinned


# ---- guessing


def read(cells: list[Any], **note: Any) -> tuple[Any, str]:
    table = pd.DataFrame({"q": cells, "other": np.arange(len(cells)) % 3})
    if note:
        table.attrs[KEY] = Codebook({"q": Note(**note)}).to_text()
    schema = tb.Schema.infer(table)
    schema.fit(table).compile(table)
    return schema["q"], schema.reasons["q"]


def heaped(n: int, share: float, heap: float = 0.0, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    others = np.round(rng.uniform(3, 900, n))
    others[: round(n * share)] = heap
    return list(rng.permutation(others))


def is_rounded(column: Any) -> bool:
    return isinstance(column, tb.Continuous) and column.rounded and column.transform == "rank-normal"


@pytest.mark.parametrize(
    ("n", "share", "expected"),
    [(300, 0.4, True), (100, 0.1, True), (99, 0.4, False), (300, 0.05, False), (1000, 0.099, False)],
)
def test_frequent_numbers_are_read_as_rounded(n: int, share: float, expected: bool) -> None:
    column, reason = read(heaped(n, share))
    assert is_rounded(column) == expected
    assert ("a rounded number, since some are frequent: 0 in" in reason) == expected
    if not expected:
        assert replace(column, transform=None) == tb.Continuous()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict"])
def test_whole_numbers_of_any_library(library: str) -> None:
    cells = [int(each) for each in heaped(200, 0.25, heap=-50.0)]
    made: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}
    table = made[library]({"q": cells, "other": ["a", "b"] * 100})
    schema = tb.Schema.infer(table)
    assert is_rounded(schema["q"])
    assert "-50 in 25 %" in schema.reasons["q"]
    fitted = schema.fit(table)["q"]
    assert (fitted.decimals, fitted.lowest) == (0, -50.0)


def test_missing_cells_are_no_answers() -> None:
    cells = heaped(95, 0.5) + [None] * 200
    assert not is_rounded(read(cells)[0])
    assert is_rounded(read(heaped(120, 0.3) + [None] * 500)[0])


def test_frequent_numbers_are_named_with_their_shares() -> None:
    cells = [0.0] * 80 + [52.0] * 60 + [1500000.0] * 40 + [7.25] * 30 + [float(each) for each in range(100, 190)]
    column, reason = read(cells)
    assert is_rounded(column)
    assert "0 in 27 %" in reason
    assert "52 in 20 %" in reason
    assert "1500000 in 13 %" in reason
    assert "7.25" not in reason


def test_codes_with_frequent_numbers() -> None:
    cells = [float(each) for each in heaped(300, 0.3)] + [-9.0] * 60
    column, reason = read(cells, measure="scale", names=((-9.0, "Refused"),), missing=((-9.0, -9.0),))
    assert is_rounded(column)
    assert dict(column.missing) == {-9: "Refused"}
    assert "0 in 30 %" in reason
    assert "-9 in" not in reason
    column, reason = read([*heaped(300, 0.02), *[-9.0] * 200], measure="scale", missing=((-9.0, -9.0),))
    assert not is_rounded(column), "a missing code is no heap"


def test_texts_with_frequent_numbers() -> None:
    rng = np.random.default_rng(0)
    texts = ["$0"] * 120 + [f"${each:,}" for each in rng.integers(1000, 90000, 200)]
    column, reason = read(texts)
    assert is_rounded(column)
    assert column.parse == "currency"
    assert "0 in 38 %" in reason
    own = tb.Schema({"q": column}).fit({"q": texts})
    block = own.compile({"q": ["$0", "$1,200", "$1.2k", "a few"]})["q"]
    assert block.lower[1] == block.lower[2]
    assert own["q"].is_one_number(block).tolist() == [True, True, True, False]
    comma = ["1,200"] * 60 + [f"{each:,}" for each in rng.integers(1000, 90000, 200)]
    column, reason = read(comma)
    assert is_rounded(column)
    assert "1200 in 23 %" in reason
    column, _ = read([f"{each:,}" for each in rng.integers(1000, 90000, 200)])
    assert not is_rounded(column)


def test_few_whole_numbers_stay_levels() -> None:
    column, _ = read([float(each % 5) for each in range(300)])
    assert column.kind == "ordinal"
