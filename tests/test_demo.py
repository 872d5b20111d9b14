"""The demo on the real survey, cut short: it says what it found and leaves one page behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils import check_random_state

from thurbo.app import cli, demo
from thurbo.predict.evaluation import choose
from thurbo.table import datasets
from thurbo.table.columns.statements import parse_given
from thurbo.table.datasets import load_starwars


def run(page: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What the demo says, cut short, and the page it leaves."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--hidden", "2", "--epochs", "3", "--quiet", "--output", str(page)])
    out, err = capsys.readouterr()
    assert stop.value.code == 0
    assert err == (
        "thurbo: warning: 3 epochs are too few to tell whether the objective has settled; "
        "give more, --epochs 16 or above\n"
    )
    assert [entry.name for entry in page.parent.iterdir()] == [page.name]
    assert "2 hidden units" in out
    assert "a regression of each question on all others" in out
    assert str(page) in out
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "Traits and factors" in html
    assert "Regression on all others" in html
    assert "fan: Yes, given age >= 45-60" in out
    assert "Predictions under conditions" in html
    assert "age &gt;= 45-60" in html
    assert "CC BY 4.0" in html  # the survey's licence asks for credit
    return out, html


@pytest.mark.slow
def test_the_demo_tells_its_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the film ranking, which takes most of the compiling.
    monkeypatch.setattr(datasets, "load_starwars", lambda everything: load_starwars(everything=False))
    monkeypatch.setattr(demo, "WHAT_IF", demo.WHAT_IF[:1])
    monkeypatch.setattr(demo, "COLOUR_BY", ("fan", "age"))
    out, _ = run(tmp_path / "report.html", capsys)
    assert "1,186 respondents, 29 questions" in out


@pytest.mark.slow
def test_the_demo_holds_every_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(tmp_path / "report.html", capsys)
    assert "1,186 respondents, 27 questions" in out
    assert "fan: Yes, given films: The Empire Strikes Back > The Phantom Menace" in out


@pytest.mark.parametrize("everything", [False, True])
def test_hidden_answers_are_those_that_evaluate_asks_about(everything: bool) -> None:
    frame, schema = load_starwars(everything=everything)
    shown = demo.mask(frame, schema, seed=3)
    fitted = schema.fit(shown)  # what the model of the demo knows
    hidden = choose(fitted, fitted.compile(frame), demo.SHARE_MASKED, check_random_state(3))
    n_answers = 0
    for name, where in hidden.items():
        columns = list(schema[name].source_columns(name))
        n_answers += int(frame[columns].notna().any(axis=1).sum())
        assert frame[columns][where].notna().any(axis=1).all()
        assert shown[columns][where].isna().all(axis=None)
        assert (shown[columns][~where].isna() == frame[columns][~where].isna()).all(axis=None)
    # A binomial share: five standard deviations either way.
    assert abs(sum(map(np.sum, hidden.values())) - 0.1 * n_answers) < 5 * np.sqrt(0.09 * n_answers)
    assert frame["respondent"].equals(shown["respondent"])


class Oracle:
    """Knows every answer of a table."""

    def __init__(self, frame: Any, schema: Any) -> None:
        self.schema_ = schema.fit(frame)
        self.blocks = self.schema_.compile(frame)

    def predict_proba(self, table: Any, column: str, given: object = None, method: str = "auto") -> np.ndarray:
        block, kind = self.blocks[column], self.schema_[column].kind
        if kind == "multiselect":
            return np.clip(block.code, 1e-3, 1 - 1e-3)[table.index]
        code = block.tier.argmax(axis=1) if block.has_tiers else block.code[:, 0]
        sure = np.full((len(code), len(self.schema_[column].labels)), 1e-3)
        sure[np.arange(len(code)), np.maximum(code, 0)] = 1.0
        return (sure / sure.sum(axis=1, keepdims=True))[table.index]


def test_gaps_and_conditions_of_every_question_are_answered() -> None:
    frame, schema = load_starwars(everything=True)
    model = Oracle(frame, schema)
    respondent = demo.impute_one(model, frame)
    assert 3 <= len(respondent["filled"]) <= 5
    asked = demo.ask(model, frame, demo.WHAT_IF)
    assert [each["given"] for each in asked[:2]] == ["age >= 45-60", "age <= 30-44"]
    assert all(0 <= each["probability"] <= 1 for each in asked)
    for each in asked:  # the conditions are ones that the schema understands
        model.schema_.compile(frame[:1], given=dict([parse_given(each["given"], model.schema_)]))
