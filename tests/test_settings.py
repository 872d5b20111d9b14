"""The estimator's parameters: few, grouped by objective, copied and searched as scikit-learn does, kept in files."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import thurbo as tb
from thurbo.fit import course, planning
from thurbo.fit.masking import Neighbours, RandomCells, Rectangles
from thurbo.fit.settings import AUTO_UPDATES, FitSettings
from thurbo.table.columns import column_from_dict

SCHEMA = {"a": tb.Binary(), "b": tb.Binary(), "c": tb.Binary()}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cause = rng.random(60) < 0.5
    return pd.DataFrame({name: np.where(rng.random(60) < 0.8, cause, ~cause).astype(int) for name in SCHEMA})


def chosen(**parameters: Any) -> FitSettings:
    return planning.flat(tb.TBM(**parameters).get_params(deep=False))


def test_there_are_few_parameters() -> None:
    names = list(inspect.signature(tb.TBM).parameters)
    assert len(names) <= 16
    assert names[:6] == ["schema", "n_hidden", "n_factors", "members", "objective", "learning"]
    for old in ("hiding", "likelihood_weight", "item_decay", "validation_fraction"):
        with pytest.raises(TypeError, match=old):
            tb.TBM(**{old: 1})


@pytest.mark.parametrize(
    ("parameters", "objective"),
    [
        ({}, "exact"),
        ({"n_hidden": 20}, "multi-prediction"),
        ({"objective": "likelihood"}, "likelihood"),
        ({"learning": tb.Prediction()}, "multi-prediction"),
        ({"learning": tb.Likelihood()}, "likelihood"),
        ({"learning": tb.Exact()}, "exact"),
        ({"learning": tb.Learning(), "objective": "likelihood"}, "likelihood"),
        ({"learning": tb.Learning()}, "exact"),
        ({"learning": tb.Exact(), "objective": "exact"}, "exact"),
    ],
)
def test_the_type_of_learning_decides_the_objective(parameters: dict[str, Any], objective: str) -> None:
    assert planning.plan(chosen(**parameters), int(parameters.get("n_hidden", 4)), 0).objective == objective


def test_a_contradiction_is_one_error(frame: pd.DataFrame) -> None:
    with pytest.raises(tb.ThurboError, match=r'objective="exact" contradicts learning=Prediction'):
        tb.TBM(objective="exact", learning=tb.Prediction()).fit(frame)
    with pytest.raises(tb.ThurboError, match=r"learning='fast' is not one of None, tb.Learning"):
        tb.TBM(learning="fast").fit(frame)  # type: ignore[arg-type]


def test_the_share_of_likelihood_depends_on_who_chose_prediction() -> None:
    for parameters, share in [({}, 0.1), ({"learning": tb.Prediction()}, 0.1), ({"objective": "multi-prediction"}, 0)]:
        assert planning.plan(chosen(**parameters), 20, 0).likelihood_weight == share
        assert planning.plan(chosen(**parameters), 20, 3).likelihood_weight == 0


def test_auto_is_the_default_value() -> None:
    assert planning.plan(chosen(weight_decay="auto"), 4, 0) == planning.plan(chosen(), 4, 0)
    assert chosen(learning_rate="auto").learning_rate == chosen().learning_rate == planning.AUTO["learning_rate"]
    for name, value in [("learning_rate", "fast"), ("weight_decay", -1.0), ("max_time", 0), ("max_time", "auto")]:
        with pytest.raises(tb.ThurboError, match=f"{name}={value!r} is not a number"):
            chosen(**{name: value})
    with pytest.raises(tb.ThurboError, match="masking='some' is not one of auto, cells, neighbours"):
        chosen(learning=tb.Prediction(masking="some"))


@pytest.mark.slow
def test_settings_are_copied_changed_and_searched(frame: pd.DataFrame) -> None:
    model = tb.TBM(SCHEMA, n_hidden=1, max_epochs=1, random_state=0, learning=tb.Exact(sparsity_weight=0.1))
    copy = clone(model)
    assert copy.learning == model.learning
    assert copy.get_params()["learning__sparsity_weight"] == 0.1
    copy.set_params(learning__sparsity_weight=0.5, n_hidden=2)
    assert (copy.learning.sparsity_weight, copy.n_hidden) == (0.5, 2)
    assert model.learning.sparsity_weight == 0.1, "a copy is changed, not what both had"
    with pytest.raises(FrozenInstanceError):
        model.learning.sparsity_weight = 1.0  # type: ignore[union-attr, misc]
    with pytest.raises(tb.ThurboError, match="setting of Exact='masking' is not one of"):
        model.set_params(learning__masking="cells")
    with pytest.raises(tb.ThurboError, match="learning__max_norm needs an objective"):
        tb.TBM().set_params(learning__max_norm=1.0)
    grid = {"learning__sparsity_weight": [0.0, 0.1]}
    search = GridSearchCV(model, grid, scoring=tb.masked_cell_scorer(random_state=0), cv=2).fit(frame)
    assert search.best_params_["learning__sparsity_weight"] in (0.0, 0.1)
    search = GridSearchCV(model, {"learning": [tb.Exact(), None]}, cv=2).fit(frame)
    assert search.best_params_["learning"] in (tb.Exact(), None)


@dataclass(frozen=True)
class Foreign:
    """A masking that thurbo does not know."""

    def __call__(self, key: Any, evidence: Any) -> Any:
        return evidence.observed


@pytest.mark.parametrize(
    "learning",
    [
        None,
        tb.Exact(learn_cuts=False),
        tb.Likelihood(n_chains=int(np.int64(7)), max_norm=2.5),
        tb.Prediction(masking="neighbours", validation_fraction=0.2),
        *(tb.Prediction(masking=each) for each in (RandomCells(least=0.2), Neighbours(3), Rectangles(1, 3))),
    ],
)
def test_settings_are_in_the_model_file(learning: Any, frame: pd.DataFrame, tmp_path: Path) -> None:
    model = tb.TBM(SCHEMA, n_hidden=1, max_epochs=0, max_time=60, learning=learning).fit(frame)
    model.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    assert again.learning == learning
    assert again.max_time == 60


def test_a_masking_that_is_not_ours_is_auto_in_the_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    learning = tb.Prediction(masking=Foreign(), sparsity_weight=0.1)
    tb.TBM(SCHEMA, n_hidden=1, max_epochs=0, learning=learning).fit(frame).save(tmp_path / "m.thurbo")
    assert tb.TBM.load(tmp_path / "m.thurbo").learning == tb.Prediction(sparsity_weight=0.1)


# What only lists need


def test_settings_of_lists_are_in_their_column(tmp_path: Path) -> None:
    column = tb.Ratings(["x", "y"], settings=tb.ListSettings(item_decay=2.5, presence=False))
    assert column_from_dict(column.to_dict()) == column
    assert "settings" not in tb.Ratings(["x", "y"]).to_dict()
    tb.Schema({"films": column}).to_toml(tmp_path / "s.toml")
    assert tb.Schema.from_toml(tmp_path / "s.toml")["films"] == column
    assert tb.TBM()._settings(tb.Schema({"films": column})).item_decay == 2.5
    assert tb.TBM()._settings(tb.Schema({"films": column})).presence is False
    assert tb.TBM()._settings(tb.Schema({"films": tb.Ratings(["x", "y"])})).item_decay == 30.0
    for build, words in [
        (lambda: tb.ListSettings(item_decay=-1.0), "item_decay=-1.0 is not a number of at least 0"),
        (lambda: tb.ListSettings(presence="yes"), "presence='yes' is not True or False"),  # type: ignore[arg-type]
        (lambda: tb.Ratings(["x", "y"], settings=3), "settings=3 is not valid"),  # type: ignore[arg-type]
        (lambda: column_from_dict({"kind": "ratings", "settings": {"decay": 1}}), 'have no "decay"'),
    ]:
        with pytest.raises(tb.SchemaError, match=words):
            build()


# A limit of time


def test_time_that_is_over_stops_training(frame: pd.DataFrame) -> None:
    model = tb.TBM(SCHEMA, n_hidden=1, max_epochs=20, max_time=1e-6, random_state=0)
    with pytest.warns(tb.ConvergenceWarning, match="max_time=1e-06 seconds was reached after 1 of 20 epochs"):
        model.fit(frame)
    assert (model.n_epochs_, model.converged_) == (1, False)
    assert "max_time" in model.history_[-1]["event"]
    assert np.isfinite(model.score_samples(frame)).all()


def test_time_enough_changes_nothing(frame: pd.DataFrame) -> None:
    free, limited = (
        tb.TBM(SCHEMA, n_hidden=1, max_epochs=4, max_time=limit, random_state=0).fit(frame) for limit in (None, 1e6)
    )
    assert np.array_equal(free.weights_, limited.weights_)
    assert "settled" in limited.history_[-1]  # it ran to its end


def test_the_rate_falls_within_the_time_that_is_left(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes one second: half of the time is used long before half of the epochs."""
    model = tb.TBM(SCHEMA, n_hidden=1, max_epochs=300, max_time=60.0, random_state=0)
    ticks = iter(range(10_000))
    monkeypatch.setattr(course.time, "perf_counter", lambda: float(next(ticks)))
    model.fit(frame)
    events = [record["event"] for record in model.history_ if "event" in record]
    assert len(events) == 1
    assert events[0].startswith("half of max_time is used: the learning rate decays to zero")
    assert model.converged_
    assert 10 < model.n_epochs_ < 40


@pytest.mark.parametrize(("given", "rate", "sparsity"), [
    ({"n_hidden": 500}, 0.01 * 0.2**0.25, 0.08),
    ({"n_hidden": 500, "n_factors": 5}, 0.01 * 0.2**0.5, 0.0),
    ({"n_hidden": 500, "objective": "multi-prediction"}, 0.01 * 0.2**0.5, 0.0),
    ({"n_hidden": 100}, 0.01, 0.0),
    ({"n_hidden": 500, "learning_rate": 0.003, "learning": tb.Learning(sparsity_weight=0.5)}, 0.003, 0.5),
])  # fmt: skip
def test_many_hidden_units_of_a_table_are_sparse_and_trained_longer(
    given: dict[str, Any], rate: float, sparsity: float
) -> None:
    chosen = planning.flat(tb.TBM(**given).get_params(deep=False))
    table, lists = planning.of_columns(chosen, {}, False), planning.of_columns(chosen, {"presence": True}, False)
    assert table.learning_rate == pytest.approx(rate)
    assert planning.plan(table, given["n_hidden"], 0).sparsity_weight == pytest.approx(sparsity)
    is_longer = given["n_hidden"] > 100 and "objective" not in given and "n_factors" not in given
    assert planning.lengths(table, 60_000, 60_000)[1] == (56 if is_longer else 21)
    if "learning" not in given:  # lists are as with fewer units
        assert planning.plan(lists, given["n_hidden"], 0).sparsity_weight == 0
        assert planning.lengths(lists, 60_000, 60_000)[1] == 21


def test_likelihood_with_many_units_has_no_settings_of_features():
    """Sparse units and longer training are for many units whose objective is left open."""
    free, chosen = (
        planning.of_columns(planning.flat(tb.TBM(n_hidden=500, learning=own).get_params(deep=False)), {}, False)
        for own in (None, tb.Likelihood())
    )
    assert free.sparsity_weight == pytest.approx(0.08)
    assert free.auto_updates == planning.UPDATES_OF_MANY_UNITS
    assert (chosen.sparsity_weight, chosen.auto_updates) == ("auto", AUTO_UPDATES)
