"""`thurbo check` for people: one screen, one line a column, remedies in TOML; and --missing for a whole file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thurbo as tb
from thurbo.app.cli import main
from thurbo.errors import in_toml


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are cut at the width of the terminal, which the processes of pytest-xdist inherit."""
    monkeypatch.setenv("COLUMNS", "160")


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


@pytest.mark.parametrize(
    ("python", "toml"),
    [
        ("use Continuous() if distances matter", 'use kind = "continuous" if distances matter'),
        ("use Ordinal(levels=[...])", 'use kind = "ordinal", levels = [...]'),
        ("use Categorical([...]) with all", 'use kind = "categorical", categories = [...] with all'),
        ('with Binary(unseen="missing")', 'with kind = "binary", unseen = "missing"'),
        ("Binary(values=(false, true))", 'kind = "binary", values = [false, true]'),
        ('Banded({"a": (1, 2)})', 'kind = "banded", bands = {"a" = [1, 2]}'),
        ("nothing to change (at all)", "nothing to change (at all)"),
    ],
)
def test_remedies_in_the_words_of_a_schema_file(python: str, toml: str) -> None:
    assert in_toml(python) == toml


def test_many_columns_fit_one_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    table = {f"q{place}": np.r_[rng.integers(1, 6, 75), [9] * 5] for place in range(150)}
    table |= {f"odd {place}": [f"word {place} {row} of many" for row in range(80)] for place in range(30)}
    table |= {f"pay {place}": [f"${row}" for row in range(79)] + [f"never {place}"] for place in range(40)}
    tb.write(table, tmp_path / "wide.csv")
    status, out, err = run("check", str(tmp_path / "wide.csv"), capsys=capsys)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 40
    assert "190 questions modelled: 150 Ordinal, 40 Continuous" in out
    assert "it is free text (30)" in out
    assert "counted as missing: 9" in out
    assert any("q0" in line and "148 more" in line for line in lines)  # one reason, one line
    assert "meaning of a cell" not in out
    assert "meaning of a cell" in run("check", str(tmp_path / "wide.csv"), "--details", capsys=capsys)[1]


def test_problems_are_one_line_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tb.write({"age": [*map(str, range(30)), "x", "y"], "q": ["a", "b"] * 15 + ["c", "d"]}, tmp_path / "t.csv")
    tb.Schema({"age": tb.Continuous(), "q": tb.Binary(values=("a", "b"))}).to_toml(tmp_path / "s.toml")
    status, out, err = run("check", str(tmp_path / "t.csv"), "-s", str(tmp_path / "s.toml"), capsys=capsys)
    assert status == 2
    assert "4 problems in 2 columns" in err
    problems = [line for line in out.splitlines() if "row 3" in line]
    assert len(problems) == 2
    assert problems[0].startswith('  age (2): row 30, column "age": value "x" is not a number')
    assert problems[1].startswith('  q (2): row 30, column "q"')
    assert "unseen = " in problems[0]


def test_missing_codes_of_a_whole_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(1, 7, 90)
    tb.write({"a": values, "b": values[::-1], "c": [f"{x}.5" for x in values]}, tmp_path / "t.csv")
    toml = str(tmp_path / "s.toml")
    status, out, _ = run("check", str(tmp_path / "t.csv"), "--missing", "6=refused, 5", "-o", toml, capsys=capsys)
    assert status == 0
    assert '"refused" in 2 columns' in out
    schema = tb.Schema.from_toml(toml)
    assert schema["a"].labels == (1, 2, 3, 4)
    assert schema["a"].missing == ((6, "refused"), (5, "5"))
    tb.write({"a": values, "b": -values}, tmp_path / "t.csv")
    tb.Schema({"a": tb.Ordinal(), "b": tb.Continuous()}).to_toml(toml)
    status, out, _ = run("check", str(tmp_path / "t.csv"), "-s", toml, "--missing", "-6,6", capsys=capsys)
    assert status == 0
    assert '"-6" in 1 column' in out
    for wrong in ("", "=refused"):
        status, _, err = run("check", str(tmp_path / "t.csv"), "--missing", wrong, capsys=capsys)
        assert status == 2
        assert "--missing" in err


def test_warnings_of_reading_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,a\n" + "Yes,1.5\nNo,2.5\nyes,3.5\n" * 10)
    status, out, err = run("check", str(path), capsys=capsys)
    assert status == 0
    assert len(err.splitlines()) == 2
    assert "names of" in err
    assert "read as one" in err
    assert "To check" not in out


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a table that is written in several ways."""
    rng = np.random.default_rng(2)
    fan = rng.choice(["Yes", "yes", "No"], 40).tolist()
    pay = [f"${1000 * value:,}" for value in rng.integers(10, 90, 40)]
    trust = rng.choice([1, 2, 3, 4, 5, 99], 40).tolist()
    frame = {"fan": fan, "pay": pay, "trust": trust}
    with pytest.warns(tb.errors.SchemaWarning, match="read as one"):
        schema = tb.Schema.infer(frame)
    path = tmp_path_factory.mktemp("model") / "m.thurbo"
    tb.TBM(schema, n_hidden=2, n_factors=0, max_epochs=2, random_state=0).fit(frame).save(path)
    return path


def test_a_loaded_model_reads_new_tables_in_the_same_way(fitted: Path) -> None:
    model = tb.TBM.load(fitted)
    assert dict(model.schema_["fan"].recode) == {"yes": "Yes"}
    assert model.schema_["pay"].parse == "currency"
    new = {"fan": ["yes", None, "No"], "pay": ["$50,000", "about what?", None], "trust": [99, 4, None]}
    plain = {"fan": ["Yes", None, "No"], "pay": ["50000", None, None], "trust": [None, 4, None]}
    np.testing.assert_allclose(model.transform(new), model.transform(plain), rtol=1e-5)


def test_cells_that_are_not_gaps_are_not_changed_by_their_reading(fitted: Path) -> None:
    new = {"fan": ["yes", "Yes", None], "pay": ["$50,000", "$7", None], "trust": [1, 2, 3]}
    filled = tb.TBM.load(fitted).impute(new)
    assert list(filled["fan"][:2]) == ["yes", "Yes"]
    assert list(filled["pay"][:2]) == ["$50,000", "$7"]
    assert filled["fan"][2] in ("Yes", "No")
    assert float(filled["pay"][2]) > 0
