"""Which reading of ordered levels pays is found out by hidden answers, question by question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.errors import ThurboError

LEVELS = ("never", "rarely", "sometimes", "often", "always")


def made(n_rows: int = 900) -> pd.DataFrame:
    """Two kinds of people: "ends" is answered at both ends by one and in the middle by the other, "scale" in order."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, n_rows)
    ends = np.where(kind, rng.choice(5, n_rows, p=[0.45, 0.04, 0.02, 0.04, 0.45]), rng.choice(5, n_rows, p=[0.05, 0.1, 0.7, 0.1, 0.05]))  # fmt: skip  # noqa: E501
    pull = rng.normal(size=n_rows)
    scale = np.digitize(1.5 * pull + rng.normal(size=n_rows), [-2, -0.7, 0.7, 2])
    frame = {f"kind{i}": np.where(rng.random(n_rows) < 0.15, 1 - kind, kind).astype(bool) for i in range(5)}
    frame |= {f"pull{i}": 1.5 * pull + rng.normal(size=n_rows) > 0 for i in range(5)}
    frame |= {"ends": np.asarray(LEVELS)[ends], "scale": np.asarray(LEVELS)[scale]}
    return pd.DataFrame(frame)


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    columns = {name: tb.Ordinal(LEVELS) if name in ("ends", "scale") else tb.Binary() for name in made(1)}
    return tb.TBM(columns, n_hidden=2, max_epochs=40, learning_rate=0.03, random_state=0, verbose=False)


@pytest.mark.slow
def test_each_question_takes_the_reading_that_knew_its_hidden_answers_better(model: tb.TBM) -> None:
    frame = made()
    before = model.get_params()
    schema = tb.choose_ordinals(frame, model, hide=0.4, random_state=0)
    assert schema["ends"].kind == "categorical"
    assert schema["ends"].has_order
    assert schema["scale"].kind == "ordinal"
    assert schema["kind0"].kind == "binary"
    for name in ("ends", "scale"):
        assert "hidden answers" in schema.reasons[name]
    assert "read by utilities" in schema.reasons["ends"]
    assert model.get_params() == before
    assert not hasattr(model, "params_")
    assert schema["ends"].labels == schema["scale"].labels == LEVELS


def test_scores_of_both_readings_decide_and_rows_are_either_learned_from_or_judged_by(
    model: tb.TBM, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = made(50)
    learned: list[np.ndarray] = []
    judged: list[np.ndarray] = []

    def fit(self: tb.TBM, X: pd.DataFrame, sample_weight: np.ndarray) -> None:
        learned.append(sample_weight)
        self.params_ = SimpleNamespace(n_hidden=3, n_factors=1)

    def evaluate(self: tb.TBM, X: pd.DataFrame, sample_weight: np.ndarray, **how: Any) -> SimpleNamespace:
        judged.append(sample_weight)
        assert (self.n_hidden, self.n_factors) == ((2, "auto") if len(judged) == 1 else (3, 1))
        score = {"ends": (-1.2, -1.0), "scale": (-1.1, -1.1)}
        place = int(self.schema["ends"].kind == "categorical")
        tests = [{"column": name, "answer": "label", "n": 7, "log_score": by[place]} for name, by in score.items()]
        return SimpleNamespace(columns=tests)

    monkeypatch.setattr(tb.TBM, "fit", fit)
    monkeypatch.setattr(tb.TBM, "evaluate", evaluate)
    schema = tb.choose_ordinals(frame, model, hold_out=0.3, random_state=0)
    assert [schema[name].kind for name in ("ends", "scale")] == ["categorical", "ordinal"]
    assert "-1.200 nats an answer by cuts, -1.000 by utilities, of 7 hidden answers" in schema.reasons["ends"]
    for of_fit, of_test in zip(learned, judged, strict=True):
        np.testing.assert_array_equal(of_fit + of_test, 1.0)
        assert of_test.sum() == 15
    assert len(learned) == 2


def test_where_nothing_is_ordered_nothing_is_fitted(model: tb.TBM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tb.TBM, "fit", lambda *_, **__: pytest.fail("there was nothing to choose"))
    plain = tb.choose_ordinals(made(20).drop(columns=["ends", "scale"]), tb.TBM())
    assert {column.kind for column in (plain[name] for name in plain.names)} == {"binary"}


@pytest.mark.parametrize("hold_out", [0, 1, -0.1, True, "half"])
def test_shares_of_rows_are_checked(model: tb.TBM, hold_out: object) -> None:
    with pytest.raises(ThurboError, match="hold_out"):
        tb.choose_ordinals(made(20), model, hold_out=hold_out)
