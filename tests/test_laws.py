"""One predictive distribution: all queries of a default model agree with each other (`benchmarks/laws.py`, small).

Equations hold within the bounds of the benchmark. What is drawn is compared with probabilities by p-values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import laws
from scipy.stats import chisquare, norm

import thurbo as tb

CHANCE = 2e-5
SIZE = laws.Size(pairs=6, draws=1000, tables=5)
SETTINGS: dict[str, Any] = {"random_state": 0, "verbose": False}


def fit(schema: Any, table: Any, **settings: Any) -> tb.TBM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)  # a few epochs are not meant to converge
        return tb.TBM(schema, **SETTINGS, **settings).fit(table)


@cache
def survey() -> tuple[tb.TBM, pd.DataFrame]:
    """A default model, of several members."""
    frame, schema = laws.made_survey()
    return fit(schema, frame, max_epochs=12), frame


@cache
def single() -> tuple[tb.TBM, pd.DataFrame]:
    """One member that is enumerated."""
    frame, schema = laws.made_survey()
    columns = {name: schema[name] for name in schema if name != "parks"}
    return fit(columns, frame[list(columns)], objective="exact", n_hidden=2, max_epochs=12), frame[list(columns)]


@cache
def ratings() -> tb.TBM:
    return fit(None, laws.made_ratings(n=200, n_items=6), max_epochs=6)


@cache
def pairs() -> tb.TBM:
    return fit(None, laws.made_pairs(n=30), max_epochs=6)


MODELS: dict[str, Callable[[], tuple[tb.TBM, pd.DataFrame]]] = {"several members": survey, "one exact member": single}
on_models = pytest.mark.parametrize("name", MODELS)


@cache
def new_rows(name: str) -> pd.DataFrame:
    return pd.DataFrame(MODELS[name]()[0].sample(SIZE.draws, random_state=2))


def hold(found: laws.Figures) -> None:
    broken = {law: (value, laws.BOUNDS[law]) for law, value in found.items() if value > laws.BOUNDS[law]}
    assert not broken


def p_values(model: tb.TBM, frame: pd.DataFrame, chances: dict[str, np.ndarray]) -> dict[str, float]:
    """Of the frequencies of labels in a table, if these are their probabilities."""
    found = {}
    for name, chance in chances.items():
        share, n = laws.shares(model, frame, name)
        found[name] = float(chisquare(share * n, chance * n / chance.sum()).pvalue)
    return found


def agree(found: dict[str, float]) -> None:
    assert found
    assert min(found.values()) * len(found) > CHANCE, found


def predicted(model: tb.TBM, row: Any, names: Any, given: Any = None) -> dict[str, np.ndarray]:
    return {name: model.predict_proba(row, name, given=given)[0] for name in names}


def test_the_models_are_those_that_they_should_be() -> None:
    assert not survey()[0].model_.is_single
    assert not survey()[0].model_.is_joint
    assert any("missing" in each.settings.reading for each in survey()[0].model_.members)
    assert single()[0].model_.is_joint
    assert not ratings().model_.is_single
    assert not pairs().model_.is_single


@on_models
def test_scores_are_the_chain_rule_over_predictions(name: str) -> None:
    """One answer, two answers in both orders, and sums over all pairs of labels."""
    model, rng = MODELS[name]()[0], np.random.default_rng(0)
    hold(laws.one_answer(model, SIZE, rng))
    found = laws.two_answers(model, SIZE, rng)
    assert found["two answers"] > 0, "no pair of questions was compared"
    hold(found)


@on_models
def test_typed_answers_are_conditions_and_the_explorer_shows_them(name: str) -> None:
    hold(laws.typed_rows(MODELS[name]()[0], SIZE, np.random.default_rng(1)))


@on_models
@pytest.mark.parametrize("given", [None, {"reads": "often"}], ids=["new", "given"])
def test_samples_have_the_probabilities_of_labels(name: str, given: dict[str, Any] | None) -> None:
    model = MODELS[name]()[0]
    rows = pd.DataFrame(model.sample(SIZE.draws, given=given, random_state=2)) if given else new_rows(name)
    names = [each for each in laws.labelled(model) if each not in (given or {})]
    agree(p_values(model, rows, predicted(model, laws.empty(model), names, given)))
    age = rows["age"].astype(float)
    mean = float(np.asarray(model.predict(laws.empty(model), ["age"], "mean", given=given)["age"])[0])
    assert 2 * norm.sf(abs(age.mean() - mean) / (age.std() / np.sqrt(len(age)))) > CHANCE


def test_samples_are_as_dependent_as_the_data() -> None:
    model, frame = survey()
    rows = pd.DataFrame(model.sample(laws.Size().draws, random_state=2))  # of 1,000 rows it varies by 0.04
    assert laws.slope(model, frame, rows) > laws.BOUNDS["dependence slope"]


@on_models
def test_imputations_have_the_probabilities_of_labels(name: str) -> None:
    """Of answers that are hidden in rows of the table, and of a gate; the most probable label is imputed."""
    model, frame = MODELS[name]()
    full = frame.drop(columns="parks", errors="ignore").notna().all(axis=1) & (frame["drives"] == "No")
    row = frame.loc[np.flatnonzero(full)[0]]
    found = {}
    for hidden in (["town", "reads"], ["drives"]):
        one = pd.DataFrame([row] * (SIZE.draws // SIZE.tables)).reset_index(drop=True)
        one[hidden] = None
        chances = predicted(model, one.iloc[:1], hidden)
        drawn = pd.concat(model.impute_draws(one, SIZE.tables, random_state=3))
        found |= p_values(model, drawn, chances)
        mode = model.impute(one.iloc[:1])
        for each in hidden:
            assert mode[each].iloc[0] == model.schema_[each].labels[chances[each].argmax()]
    agree(found)


@on_models
def test_a_file_changes_nothing(name: str) -> None:
    model, frame = MODELS[name]()
    hold(laws.same_file(model, SIZE, np.random.default_rng(0), frame))


def test_lists_of_ratings() -> None:
    found = laws.of_ratings(ratings(), None, SIZE, 0)
    hold({law: value for law, value in found.items() if not law.startswith("sample")})
    model, (column,) = ratings(), ratings().schema_.listed
    items, levels = list(model.schema_[column].labels)[:4], model.schema_[column].answer_labels
    rows = pd.DataFrame(model.sample(SIZE.draws, items=items, random_state=4))[column]
    chance = model.predict_proba({column: [{}]}, column, items=items)[0]
    counts = np.asarray([[sum(row[item] == level for row in rows) for level in levels] for item in items])
    agree(
        {
            str(item): chisquare(n, n.sum() * p / p.sum()).pvalue
            for item, n, p in zip(items, counts, chance, strict=True)
        }
    )


def test_paired_comparisons() -> None:
    hold(laws.of_pairs(pairs(), SIZE, 0))
