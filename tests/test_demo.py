"""The demo on the real survey, cut short: it says what it found and leaves one page behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thurbo import cli, demo
from thurbo.datasets import load_starwars


def test_the_demo_tells_its_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--hidden", "2", "--epochs", "3", "--quiet", "--output", str(page)])
    out, err = capsys.readouterr()
    assert stop.value.code == 0
    assert err == ""
    assert "1,186 respondents, 29 questions" in out
    assert "2 hidden units" in out
    assert str(page) in out
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "What each hidden unit means" in html
    assert "CC BY 4.0" in html  # the survey's licence asks for credit
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_hidden_answers_are_a_tenth_and_really_gone() -> None:
    frame, schema = load_starwars()
    shown, hidden = demo.hide(frame, schema, seed=0)
    n_hidden = sum(int(where.sum()) for where in hidden.values())
    n_answers = int(frame[list(schema.modelled)].notna().to_numpy().sum())
    # A binomial share: five standard deviations either way.
    assert abs(n_hidden - 0.1 * n_answers) < 5 * np.sqrt(0.09 * n_answers)
    for name, where in hidden.items():
        assert frame[name][where].notna().all()
        assert shown[name][where].isna().all()
        assert (shown[name][~where].isna() == frame[name][~where].isna()).all()
    assert frame["respondent"].equals(shown["respondent"])


def test_the_check_rewards_a_model_that_knows() -> None:
    frame, schema = load_starwars()
    shown, hidden = demo.hide(frame, schema, seed=0)

    class Oracle:
        schema_ = schema.fit(frame)

        def predict_proba(self, table: object, column: str) -> np.ndarray:
            code = self.schema_.compile(frame)[column].code[:, 0]
            sure = np.full((len(code), len(self.schema_[column].labels)), 1e-3)
            sure[np.arange(len(code)), np.maximum(code, 0)] = 1.0
            return sure / sure.sum(axis=1, keepdims=True)

    found = demo.check(Oracle(), frame, shown, hidden)
    assert found["accuracy"] == 1.0
    assert found["log_score"] > -0.01 > found["log_score_marginal"]
    assert found["n_cells"] == sum(record["n"] for record in found["columns"])
