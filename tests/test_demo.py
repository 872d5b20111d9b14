"""The demo on the real survey, cut short: it says what it found and leaves one page behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thurbo import cli, demo
from thurbo.columns.statements import parse_given
from thurbo.datasets import load_starwars


def test_the_demo_tells_its_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--hidden", "2", "--epochs", "3", "--quiet", "--output", str(page)])
    out, err = capsys.readouterr()
    assert stop.value.code == 0
    assert err == ""
    assert "1,186 respondents, 27 questions" in out
    assert "2 hidden units" in out
    assert str(page) in out
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "What each hidden unit means" in html
    assert "fan: Yes, given age >= 45-60" in out
    assert "fan: Yes, given films: The Empire Strikes Back > The Phantom Menace" in out
    assert "What if?" in html
    assert "age &gt;= 45-60" in html
    assert "CC BY 4.0" in html  # the survey's licence asks for credit
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("everything", [False, True])
def test_hidden_answers_are_a_tenth_and_really_gone(everything: bool) -> None:
    frame, schema = load_starwars(everything=everything)
    shown, hidden = demo.hide(frame, schema, seed=0)
    sources = {name: list(schema[name].source_columns(name)) for name in schema.modelled}
    n_hidden = sum(int(where.sum()) for where in hidden.values())
    n_answers = sum(int(frame[columns].notna().any(axis=1).sum()) for columns in sources.values())
    # A binomial share: five standard deviations either way.
    assert abs(n_hidden - 0.1 * n_answers) < 5 * np.sqrt(0.09 * n_answers)
    for name, where in hidden.items():
        columns = sources[name]
        assert frame[columns][where].notna().any(axis=1).all()
        assert shown[columns][where].isna().all(axis=None)
        assert (shown[columns][~where].isna() == frame[columns][~where].isna()).all(axis=None)
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


@pytest.mark.parametrize("everything", [False, True])
def test_the_check_rewards_a_model_that_knows(everything: bool) -> None:
    frame, schema = load_starwars(everything=everything)
    shown, hidden = demo.hide(frame, schema, seed=0)
    found = demo.check(Oracle(frame, schema), frame, shown, hidden)
    assert found["accuracy"] == 1.0
    assert found["log_score"] > -0.01 > found["log_score_marginal"]
    assert found["n_cells"] == sum(record["n"] for record in found["columns"])
    named = {record["column"]: record["n"] for record in found["columns"]}
    if everything:
        # Six answers for each hidden list of films; a ranking has one favourite.
        assert named["seen"] == 6 * hidden["seen"].sum()
        assert named["films: favourite"] <= hidden["films"].sum()


def test_gaps_and_conditions_of_every_question_are_answered() -> None:
    frame, schema = load_starwars(everything=True)
    model = Oracle(frame, schema)
    respondent = demo.fill_gaps(model, frame)
    assert 3 <= len(respondent["filled"]) <= 5
    asked = demo.ask(model, frame, demo.WHAT_IF)
    assert [each["given"] for each in asked[:2]] == ["age >= 45-60", "age <= 30-44"]
    assert all(0 <= each["probability"] <= 1 for each in asked)
    for each in asked:  # the conditions are ones that the schema understands
        model.schema_.compile(frame[:1], given=dict([parse_given(each["given"], model.schema_)]))
