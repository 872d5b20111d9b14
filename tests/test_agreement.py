"""Queries of one model agree with each other and with the data: sample, predict_proba of an empty row, impute_draws.

The data are simulated, with shares of levels that are far from equal and answers that depend on each other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import binomtest, chi2_contingency, chisquare

import thurbo as tb
from thurbo.predict import joint

N, N_DRAWS, CHANCE = 800, 4000, 2e-5
LEVELS: dict[str, Any] = {
    "fan": ["no", "yes"],
    "vote": ["no", "yes"],
    "trust": [1, 2, 3, 4],
    "party": ["Blue", "Green", "Red"],
    "media": ["net", "press", "tv"],
}
SCHEMA: dict[str, Any] = {
    "fan": tb.Binary(true="yes"),
    "vote": tb.Binary(true="yes"),
    "trust": tb.Ordinal(LEVELS["trust"]),
    "party": tb.Categorical(LEVELS["party"]),
    "age": tb.Continuous(),
    "films": tb.Ranking(["A", "B", "C"], cell_format="text"),
    "media": tb.MultiSelect(LEVELS["media"], sep=";"),
}
# Objective and size: the first is small enough to enumerate, the second is not.
CASES = {
    "exact": {"objective": "exact", "n_hidden": 3},
    "multi-prediction": {"objective": "multi-prediction", "n_hidden": 4, "n_factors": 2},
    "likelihood": {"objective": "likelihood", "n_hidden": 3, "max_epochs": "auto", "learning_rate": "auto"},
    "enumerated prediction": {"objective": "multi-prediction", "n_hidden": 3, "n_factors": 0},
    "prediction of orders too": {"objective": "multi-prediction", "n_hidden": 4, "n_factors": 2},
}
# Small enough to enumerate, but trained by prediction: its queries agree with each other, and less with the data.
JOINT_ONLY = ("enumerated prediction",)
RUNS = [pytest.param(name, marks=pytest.mark.slow) for name in CASES]


def frame() -> pd.DataFrame:
    """Two causes behind all answers; a tenth of them is missing at random."""
    rng = np.random.default_rng(5)
    cause = np.stack([rng.random(N) < 0.3, rng.random(N) < 0.6], axis=1) * 2.0 - 1.0
    x = cause @ rng.normal(size=(2, 12)) + rng.normal(size=(N, 12))
    order = np.argsort(-(x[:, 3:6] + [0.8, 0.0, -0.5]), axis=1)
    ticked = x[:, 9:12] > [0.0, 1.0, -1.0]
    found = pd.DataFrame(
        {
            "fan": np.where(x[:, 0] > 1.0, "yes", "no"),
            "vote": np.where(x[:, 1] > -0.5, "yes", "no"),
            "trust": 1 + np.searchsorted([-1.0, 1.0, 2.0], x[:, 2]),
            "party": np.asarray(LEVELS["party"])[np.argmax(x[:, 6:9] + [0.0, 1.0, 0.3], axis=1)],
            "age": 40 + 8 * x[:, 8],
            "films": [" > ".join(np.asarray(["A", "B", "C"])[row]) for row in order],
            "media": [";".join(np.asarray(LEVELS["media"])[row]) for row in ticked],
        }
    )
    return found.mask(rng.random(found.shape) < 0.1)


@cache
def fitted(name: str, **more: Any) -> tb.TBM:
    """Orders take long to compile: "multi-prediction" is quick without them, and slow with them."""
    schema = {each: own for each, own in SCHEMA.items() if name != "multi-prediction" or each != "films"}
    usual: dict[str, Any] = {"max_epochs": 40, "learning_rate": 0.05, "random_state": 0, "verbose": False}
    return tb.TBM(schema, **(usual | CASES[name] | more)).fit(frame())


def counts(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """How often each level, category, option and first item occurs."""
    found = {}
    for name in ("fan", "vote", "trust", "party"):
        found[name] = np.asarray([(table[name] == level).sum() for level in LEVELS[name]])
    if "films" in table:
        first = table["films"].dropna().str.split(" > ").str[0]
        found["films"] = np.asarray([(first == item).sum() for item in "ABC"])
    ticked = table["media"].dropna()
    for option in LEVELS["media"]:
        yes = ticked.map(lambda cell, option=option: option in (cell.split(";") if isinstance(cell, str) else cell))
        found[f"media {option}"] = np.asarray([(~yes).sum(), yes.sum()])
    return found


def empty(n: int) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([None] * n, dtype=float if name == "age" else object) for name in SCHEMA})


def predicted(model: tb.TBM) -> dict[str, np.ndarray]:
    """P(level) in a row without answers."""
    names = [name for name in ("fan", "vote", "trust", "party", "films") if name in model.schema_]
    found = {name: model.predict_proba(empty(1), name)[0] for name in names}
    for option, chance in zip(LEVELS["media"], model.predict_proba(empty(1), "media")[0], strict=True):
        found[f"media {option}"] = np.asarray([1 - chance, chance])
    return found


@pytest.mark.parametrize("name", RUNS)
def test_samples_predictions_imputations_and_the_data_agree(name: str) -> None:
    model, data = fitted(name), frame()
    drawn = model.sample(N_DRAWS, random_state=1)
    completed = model.impute_draws(empty(N_DRAWS), 1, random_state=2)[0]
    data, completed = (table[list(model.schema_)] for table in (data, completed))
    seen, sampled, filled, alone = counts(data), counts(drawn), counts(completed), predicted(model)
    p_values = {}
    for column, own in seen.items():
        p_values[f"{column}: impute_draws and sample"] = chi2_contingency([filled[column], sampled[column]]).pvalue
        p_values[f"{column}: predict_proba and sample"] = chisquare(sampled[column], N_DRAWS * alone[column]).pvalue
        if name in JOINT_ONLY:
            continue
        p_values[f"{column}: sample and data"] = chi2_contingency([sampled[column], own]).pvalue
        p_values[f"{column}: impute_draws and data"] = chi2_contingency([filled[column], own]).pvalue
        p_values[f"{column}: predict_proba and data"] = chisquare(own, own.sum() * alone[column]).pvalue
    assert min(p_values.values()) * len(p_values) > CHANCE, p_values
    for numbers in () if name in JOINT_ONLY else (drawn["age"], completed["age"]):
        assert abs(numbers.mean() - data["age"].mean()) < 4 * data["age"].std() * np.sqrt(1 / N + 1 / N_DRAWS)
        assert 0.85 < numbers.std() / data["age"].std() < 1.15


@pytest.mark.slow
def test_cells_drawn_one_after_another_keep_the_dependence_between_columns() -> None:
    model, data = fitted("multi-prediction"), frame()
    drawn = model.sample(N_DRAWS, random_state=3)

    def table(own: pd.DataFrame, first: str, second: str) -> np.ndarray:
        return pd.crosstab(own[first], own[second], normalize="index").to_numpy()

    for pair in (("fan", "vote"), ("vote", "trust"), ("fan", "party")):
        np.testing.assert_allclose(table(drawn, *pair), table(data, *pair), atol=0.1)


def test_the_chain_rule_is_a_distribution() -> None:
    """The probabilities of all rows of two columns, summed, are one; without dependence the order does not matter."""
    model = fitted("multi-prediction", max_epochs=4)
    every = empty(2 * 4)
    every["fan"] = ["no", "yes"] * 4
    every["trust"] = np.repeat(LEVELS["trust"], 2)
    value, error = model.score_samples(every, return_se=True, method="sequential")
    np.testing.assert_allclose(logsumexp(value), 0.0, atol=1e-4)
    np.testing.assert_array_equal(error, 0.0)  # of all orders of two answers
    one = empty(2).assign(fan=["no", "yes"])
    np.testing.assert_allclose(
        np.exp(model.score_samples(one, method="sequential")), model.predict_proba(empty(1), "fan")[0], atol=1e-5
    )


def test_which_models_are_asked_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """One member that can be enumerated, or was trained by likelihood, has a joint distribution that is used."""
    model = fitted("multi-prediction", max_epochs=4)
    assert not joint.is_exact(model.params_)
    assert not model.model_.is_joint
    np.testing.assert_array_equal(
        model.score_samples(frame()[:3]), model.score_samples(frame()[:3], method="sequential")
    )
    assert replace(model.model_, objective="likelihood").is_joint
    monkeypatch.setattr(joint, "is_exact", lambda *asked: True)
    assert model.model_.is_joint
    several = replace(model.model_, members=model.model_.members * 2)
    assert not several.is_joint
    assert not replace(several, objective="likelihood").is_joint


@pytest.mark.slow
def test_given_answers_hold_and_others_follow_them() -> None:
    model = fitted("multi-prediction")
    rows = model.sample(60, given=["age >= 45", "fan = yes", "trust in [2, 3]"], random_state=0)
    assert (rows["age"] >= 45).all()
    assert (rows["fan"] == "yes").all()
    assert rows["trust"].isin([2, 3]).all()
    chance = model.predict_proba(empty(1), "vote", given=["fan = yes"])[0, 1]
    count = (model.sample(500, given="fan = yes", random_state=0)["vote"] == "yes").sum()
    assert binomtest(int(count), 500, chance).pvalue > CHANCE
