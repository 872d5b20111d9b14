"""Dependence between questions: mutual information by hand, from predictions under conditions and a joint table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.known import changed, known_members, known_model
from thurbo.errors import SchemaError
from thurbo.predict.dependence import information, told_rows


def sampled(model: tb.TBM, n: int = 120) -> pd.DataFrame:
    return model.sample(n, random_state=0)


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return known_model()


@pytest.fixture(scope="module")
def frame(model: tb.TBM) -> pd.DataFrame:
    return sampled(model)


def empty(frame: pd.DataFrame) -> pd.DataFrame:
    row = frame.iloc[:1].copy()
    for name in row:
        row[name] = None
    return row


def by_conditions(model: tb.TBM, frame: pd.DataFrame, name: str, known: str) -> float:
    """Share of the entropy of `name` that `known` removes, by one prediction for each label of `known`."""
    share = frame[known].value_counts(normalize=True)
    rows = [model.predict_proba(empty(frame), name, given={known: label})[0] for label in share.index]
    chance, weight = np.asarray(rows), share.to_numpy()
    overall = weight @ chance
    nats = weight @ (chance * np.log(chance / overall)).sum(axis=1)
    return float(nats / -(overall * np.log(overall)).sum())


def test_shares_are_those_of_predictions_under_conditions(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.dependence(frame)
    names = list(found.names)
    for name, known in (("trust", "member"), ("member", "trust"), ("party", "trust"), ("trust", "party")):
        value = found.share[names.index(name), names.index(known)]
        assert value == pytest.approx(by_conditions(model, frame, name, known), abs=1e-4)
        assert value > 0.005
    assert np.isnan(np.diag(found.share)).all()
    off = ~np.eye(len(names), dtype=bool)
    assert ((found.share[off] >= 0) & (found.share[off] <= 1)).all()


def test_all_members_count(model: tb.TBM, frame: pd.DataFrame) -> None:
    several = known_members()
    found, alone = several.dependence(frame), model.dependence(frame)
    names = list(found.names)
    for name, known in (("trust", "member"), ("party", "trust")):
        at = names.index(name), names.index(known)
        assert found.share[at] == pytest.approx(by_conditions(several, frame, name, known), abs=1e-4)
        assert found.share[at] > alone.share[at] + 0.001


def test_weights_are_repetitions(model: tb.TBM, frame: pd.DataFrame) -> None:
    times = np.random.default_rng(0).integers(0, 3, len(frame))
    weighted = known_model()
    weighted.model_ = changed(weighted.model_, schema=weighted.schema_ | {"w": tb.Weight()})
    labels = ["member", "trust", "party"]  # of other questions a sample of the answers is told
    places = [list(model.schema_.names).index(name) for name in labels]
    one = weighted.dependence(frame.assign(w=times)).share[np.ix_(places, places)]
    other = model.dependence(frame.iloc[np.repeat(np.arange(len(frame)), times)]).share[np.ix_(places, places)]
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_information_of_a_joint_table() -> None:
    joint = np.asarray([[0.3, 0.1, 0.05], [0.05, 0.2, 0.3]])
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    nats = (joint * np.log(joint / np.outer(rows, columns))).sum()
    found, share = information((joint / rows[:, None])[:, None, :], rows[None])
    assert found == pytest.approx(nats)
    assert share == pytest.approx(nats / -(columns * np.log(columns)).sum())
    # Two yes-no variables that are told apart exactly, or not at all.
    sure = np.asarray([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    assert information(sure, np.full((1, 2), 0.5))[0] == pytest.approx(np.log(2))
    assert information(sure, np.full((1, 2), 0.5))[1] == pytest.approx(0.5)


def test_every_label_is_told_once_and_numbers_are_sampled(model: tb.TBM, frame: pd.DataFrame) -> None:
    schema = model.schema_
    told = told_rows(schema, schema.compile(frame), np.ones(len(frame)), np.random.RandomState(0))
    for name in ("member", "trust", "party"):
        own = told.column == name
        assert sorted(frame[name].iloc[told.row[own]]) == sorted(frame[name].unique())
        share = frame[name].value_counts(normalize=True)
        assert told.weight[own] == pytest.approx(share[frame[name].iloc[told.row[own]]].to_numpy())
    own = told.column == "height"
    quantiles = np.quantile(frame["height"], (np.arange(24) + 0.5) / 24)
    assert np.abs(np.sort(frame["height"].iloc[told.row[own]]) - quantiles).max() < np.ptp(frame["height"]) / 5


def test_it_prints_and_gives_tables(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.dependence(frame)
    pairs = found.strongest(3)
    assert [value for *_, value in pairs] == sorted((value for *_, value in pairs), reverse=True)
    assert pairs[0][2] == pytest.approx(np.nanmax(found.strength))
    drivers = found.drivers("trust", 2)
    own = np.nan_to_num(found.share[found.names.index("trust")])
    assert [value for _, value in drivers] == pytest.approx(np.sort(own)[::-1][:2])
    assert len(found.frame) == len(found.names) * (len(found.names) - 1)
    assert "Strongest relations" in str(found)
    assert f"{pairs[0][2]:.0%}" in found._repr_html_()


def test_lists_and_single_questions_are_refused() -> None:
    table: dict[str, list[Any]] = {"a": [0, 1] * 10}
    alone = tb.TBM({"a": tb.Binary()}, n_hidden=1, max_epochs=0, random_state=0).fit(table)
    with pytest.raises(SchemaError, match="needs two questions"):
        alone.dependence(table)


def test_some_rows_may_repeat() -> None:
    from thurbo.table.io.frames import as_table

    part = as_table({"a": [1, 2, None], "b": ["x", "y", "z"]}).take(np.asarray([2, 0, 0]))
    assert part.n_rows == 3
    assert part.cells("b").values.tolist() == ["z", "x", "x"]
    assert part.cells("a").missing.tolist() == [True, False, False]
