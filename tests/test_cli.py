"""The command line: each command against the library it speaks for; files whole or not at all.

What it does with bad input is in test_malformed.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.known import changed
from thurbo import __version__
from thurbo.app import cli
from thurbo.app.cli import options
from thurbo.errors import ConvergenceWarning, SchemaError, ThurboError
from thurbo.table.io.files import write_atomically


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    captured = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, captured.out, captured.err


COMMANDS = ("check", "fit", "transform", "rank", "impute", "score", "predict", "evaluate")
COMMANDS += ("segments", "sample", "report", "explore", "demo")


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), (), *((name, "--help") for name in COMMANDS)])
def test_help_is_a_result(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(*arguments, capsys=capsys)
    assert status == 0
    assert "Usage: thurbo" in out
    assert err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version", capsys=capsys) == (0, f"thurbo {__version__}\n", "")


def test_an_unwritable_report_is_refused_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run("demo", "--quiet", "--output", str(tmp_path / "no" / "report.html"), capsys=capsys)
    assert (status, out) == (2, "")
    assert "directory does not exist" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            SchemaError('level "alot" is not one of\nnone < some', row=17, column="trust"),
            2,
            'row 17, column "trust"',
        ),
        (ThurboError("a page needs a name"), 2, "a page needs a name"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("division by zero"), 1, "ZeroDivisionError"),
    ],
)
def test_failures_are_one_line_and_never_a_traceback(
    error: BaseException,
    status: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: Any) -> None:
        raise error

    from thurbo.app import demo

    monkeypatch.delenv("THURBO_TRACEBACK", raising=False)
    monkeypatch.setattr(demo, "run", fail)
    code, out, err = run("demo", capsys=capsys)
    assert (code, out) == (status, "")
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("thurbo")
    if not command.exists():
        pytest.skip("the thurbo command is not installed beside this Python")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"thurbo {__version__}\n"


class Survey(NamedTuple):
    """A labelled file, a model of it, and what `fit` said."""

    data: Path
    model: Path
    fitted: Any
    frame: Any
    said: str


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Sixty people: a name, a number, a yes or no in codes, and a level in codes with a code for "Refused"."""
    home, rng = tmp_path_factory.mktemp("cli"), np.random.default_rng(0)
    n, on = 60, rng.random(60) < 0.5
    frame = pd.DataFrame(
        {
            "person": [f"P{i:02d}" for i in range(n)],
            "age": np.round(40 + 12 * on + 5 * rng.normal(size=n)),
            "fan": np.where(rng.random(n) < 0.2 + 0.6 * on, 1.0, 0.0),
            "trust": 1.0 + np.clip(np.round(on + 0.7 * rng.normal(size=n) + 0.5), 0, 2),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::9, "fan"] = np.nan
    frame.loc[::8, "trust"] = np.nan
    frame.loc[::11, "trust"] = 9.0
    schema = tb.Schema(
        {
            "person": tb.Id(),
            "age": tb.Continuous(),
            "fan": tb.Binary(values=(0, 1), names={0: "No", 1: "Yes"}),
            "trust": tb.Ordinal([1, 2, 3], names={1: "none", 2: "some", 3: "a lot"}, missing={9: "Refused"}),
        }
    )
    tb.write(frame, home / "survey.sav", schema)
    schema.to_toml(home / "survey.toml")
    sizes = ("--hidden", "2", "--epochs", "2", "--hold-out", "0.2", "--resume")
    files = (str(home / "survey.sav"), "-s", str(home / "survey.toml"), "-o", str(home / "m.thurbo"))
    said, progress = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(progress), pytest.raises(SystemExit) as stop:
        cli.main(["fit", *files, *sizes])
    assert stop.value.code == 0
    lines = progress.getvalue().splitlines()  # on standard error, which is no terminal: no bar
    assert lines[0].endswith(" fitting 0/2 starting")
    assert " fitting 2/2 " in lines[-2]
    assert "mean log-likelihood per answer (nats): " in lines[-2]
    assert ", held out: " in lines[-2]
    assert lines[-1].startswith("thurbo: warning: 2 epochs are too few to tell whether the objective has settled")
    assert lines[-1].endswith("--epochs 16 or above")  # in the words of the command line
    read, _ = tb.read(home / "survey.sav")
    return Survey(home / "survey.sav", home / "m.thurbo", tb.TBM.load(home / "m.thurbo"), read, said.getvalue())


def ask(survey: Survey, command: str, *more: str, to: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    """Run a command to a file, quietly; the table it wrote, and what it said."""
    files = [str(survey.model), str(survey.data)] if command != "sample" else [str(survey.model)]
    status, out, err = run(command, *files, "-o", str(to), "--quiet", *more, capsys=capsys)
    assert (status, err) == (0, "")
    assert [entry.name for entry in to.parent.iterdir()] == [to.name]
    return tb.read(to)[0], out


def test_fit_says_what_it_learned_and_leaves_one_file(survey: Survey) -> None:
    lines = dict(line.split(maxsplit=1) for line in survey.said.splitlines())
    assert lines["rows"] == "60"
    assert lines["columns"] == "3 of 4 modelled, 3 sites"
    assert lines["model"] == "2 hidden units, objective exact, missing cells marginalized"
    assert lines["predictions"] == "exact"
    history = survey.fitted.history_
    assert lines["objective"] == f"{history[-1]['objective']:.4f} nats per answer"
    watched = max(record["held_out"] for record in history if "held_out" in record)
    assert "held " in survey.said
    assert f"{watched:.4f} nats per answer" in survey.said
    assert lines["time"].endswith("2 epochs")
    assert lines["saved"] == str(survey.model)
    assert {entry.name for entry in survey.model.parent.iterdir()} == {"survey.sav", "survey.toml", "m.thurbo"}
    assert survey.fitted.get_params()["random_state"] == 0


def test_check_says_what_columns_are_and_writes_the_schema(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    status, out, err = run("check", str(survey.data), "--details", "-o", str(tmp_path / "s.toml"), capsys=capsys)
    assert (status, err) == (0, "")
    assert "60 rows, 4 columns" in out
    refused, nothing = (survey.frame["trust"] == 9).mean(), survey.frame["trust"].isna().mean()
    line = next(line for line in out.splitlines() if line.split()[:1] == ["trust"])
    assert "Ordinal" in line
    assert "none < some < a lot" in " ".join(line.split())
    # The cell may be broken over lines.
    words = " ".join(out.replace("\u00a0", " ").split())
    assert f"{refused + nothing:.0%}".replace("%", " %") in words
    assert "Refused" in words
    assert tb.Schema.from_toml(tmp_path / "s.toml") == tb.read(survey.data)[1]


def test_check_finds_every_problem_and_not_only_the_first(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = survey.frame.copy()
    table.loc[[3, 5], "trust"] = [7.0, 8.0]
    table.loc[4, "fan"] = 5.0
    data = tmp_path / "bad.csv"
    tb.write(table, data)
    schema = str(survey.model.with_name("survey.toml"))
    status, out, err = run("check", str(data), "--details", "-s", schema, capsys=capsys)
    assert status == 2
    assert err == f"thurbo: 3 problems in 2 columns in {data}; correct the cells or the schema\n"
    for row, column, value in (("P03", "trust", "7"), ("P05", "trust", "8"), ("P04", "fan", "5")):
        assert any(f'row {row}, column "{column}"' in line and value in line for line in out.splitlines())


def test_transform_writes_hidden_units_after_who_it_is(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = ask(survey, "transform", to=tmp_path / "out.parquet", capsys=capsys)
    assert list(found) == ["person", "hidden0", "hidden1"]
    assert found["person"].tolist() == survey.frame["person"].tolist()
    assert np.array_equal(found[["hidden0", "hidden1"]], survey.fitted.transform(survey.frame))


def test_score_is_log_probability_by_row(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, out = ask(survey, "score", to=tmp_path / "out.csv", capsys=capsys)
    expected = survey.fitted.score_samples(survey.frame)
    assert list(found) == ["person", "log_probability"]  # exact, so without an error
    assert found["log_probability"].to_numpy() == pytest.approx(expected)
    assert f"{expected.mean():.4f} nats" in out


def test_scores_are_averaged_by_weight(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted = tb.TBM.load(survey.model)
    weighted = changed(fitted.model_, schema=fitted.schema_ | {"wt": tb.Weight()})
    fitted._adopt(weighted, fitted.history_, True)
    fitted.save(tmp_path / "m.thurbo")
    weight = np.where(np.arange(60) < 20, 2.5, 0.0)
    tb.write(survey.frame.assign(wt=weight), tmp_path / "survey.sav")
    files = (str(tmp_path / "m.thurbo"), str(tmp_path / "survey.sav"), "-o", str(tmp_path / "out.csv"))
    status, out, err = run("score", *files, "--quiet", capsys=capsys)
    expected = survey.fitted.score_samples(survey.frame)[:20].mean()
    assert (status, err) == (0, "")
    assert out == f"weighted mean log-likelihood of 60 rows: {expected:.4f} nats (exact)\n"
    assert len(tb.read(tmp_path / "out.csv")[0]) == 60


def test_too_many_levels_are_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tb.write(pd.DataFrame({"index": np.arange(600), "q": np.arange(600) % 3}), tmp_path / "t.csv")
    tb.Schema({"index": tb.Ordinal(), "q": tb.Ordinal()}).to_toml(tmp_path / "s.toml")
    status, _, err = run("check", str(tmp_path / "t.csv"), "-s", str(tmp_path / "s.toml"), capsys=capsys)
    assert status == 0
    assert err.startswith('thurbo: warning: column "index": Ordinal has 600 levels')
    assert err.count("\n") == 1


def test_predict_has_texts_for_headers(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--column", "trust", "--given", "fan = Yes")
    found, _ = ask(survey, "predict", *arguments, to=tmp_path / "out.csv", capsys=capsys)
    assert list(found) == ["person", "trust", "none", "some", "a lot"]
    probability = found[["none", "some", "a lot"]].to_numpy()
    assert probability == pytest.approx(survey.fitted.predict_proba(survey.frame, "trust", given=["fan = Yes"]))
    assert found["trust"].tolist() == [("none", "some", "a lot")[best] for best in probability.argmax(axis=1)]


def test_predict_of_a_number_is_an_interval(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = ask(survey, "predict", "--column", "age", "--level", "0.5", to=tmp_path / "o.feather", capsys=capsys)
    assert list(found) == ["person", "age", "age lower", "age upper"]
    ends = survey.fitted.predict_interval(survey.frame, "age", level=0.5)
    assert found[["age lower", "age upper"]].to_numpy() == pytest.approx(ends)
    middle = survey.fitted.predict(survey.frame, ["age"], statistic="median")["age"]
    assert found["age"].to_numpy() == pytest.approx(middle.to_numpy(), abs=1e-3)


def test_impute_fills_gaps_and_keeps_answers_and_labels(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = ask(survey, "impute", to=tmp_path / "out.sav", capsys=capsys)
    _, schema = tb.read(tmp_path / "out.sav")
    _, before = tb.read(survey.data)
    assert {name: getattr(schema[name], "names", None) for name in schema} == {
        name: getattr(before[name], "names", None) for name in before
    }
    answered = survey.frame.notna() & (survey.frame != 9)
    assert found.where(answered).equals(survey.frame.where(answered))
    assert found.notna().all(axis=None)
    assert found[survey.frame == 9].equals(survey.frame[survey.frame == 9])  # refused is no gap
    found, _ = ask(survey, "impute", "--fill", "refused", to=tmp_path / "out.sav", capsys=capsys)
    assert found["trust"].isin([1, 2, 3]).all()
    arguments = ("impute", str(survey.model), str(survey.data), "-o", str(tmp_path / "no.sav"))
    status, _, err = run(*arguments, "--fill", "refusd", capsys=capsys)
    assert status == 2
    assert 'did you mean "Refused"? the kinds are' in err
    status, _, err = run(*arguments, "--flag", "--draws", "2", capsys=capsys)
    assert (status, "--flag cannot be combined with --draws" in err) == (2, True)


@pytest.mark.parametrize(
    ("suffix", "names"),
    [(".csv", [".imp", ".id"]), (".sav", ["Imputation_", "Row_"]), (".dta", ["_mi_m", "_mi_id"])],
)
def test_several_imputations_stand_below_one_another(
    survey: Survey, suffix: str, names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--draws", "3", "--seed", "1", "--fill", "refused")
    found, _ = ask(survey, "impute", *more, to=tmp_path / f"out{suffix}", capsys=capsys)
    assert list(found) == [*names, *survey.frame]
    assert found[names[0]].tolist() == np.repeat([0, 1, 2, 3], 60).tolist()
    assert found[names[1]].tolist() == list(range(1, 61)) * 4
    expected = [survey.frame, *survey.fitted.impute_draws(survey.frame, 3, random_state=1, fill="all")]
    assert np.array_equal(found["age"], np.concatenate([each["age"] for each in expected]), equal_nan=True)
    refused = np.tile(survey.frame["trust"] == 9, 4)
    assert refused.any()
    assert found["trust"][refused].isna().tolist() == (found[names[0]][refused] == 0).tolist()
    if suffix != ".csv":
        assert tb.read(tmp_path / f"out{suffix}")[1]["fan"].texts == ("No", "Yes")


def test_not_applicable_is_missing_for_every_member(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    full = pd.DataFrame(
        {
            "fan": np.where(x + rng.normal(size=120) > 0, "yes", "no"),
            "trust": np.array(["none", "some", "a lot"])[np.digitize(x + rng.normal(size=120), [-0.5, 0.5])],
            "age": (40 + 10 * x).round().astype(int).astype(str),
        }
    ).astype(object)
    empty, said = full.copy(), full.copy()
    for name, text in {"fan": "n/a", "trust": "N/A", "age": "-"}.items():
        gaps = rng.random(120) < 0.15
        empty.loc[gaps, name], said.loc[gaps, name] = "", text
    paths = {"empty": tmp_path / "empty.csv", "said": tmp_path / "said.csv"}
    empty.to_csv(paths["empty"], index=False)
    said.to_csv(paths["said"], index=False)
    age = tb.Continuous(missing={"-": "no answer"})
    schema = {"fan": tb.Binary(true="yes"), "trust": tb.Ordinal(["none", "some", "a lot"]), "age": age}
    fitted = tb.TBM(schema, members=2, max_epochs=2, random_state=0, verbose=False).fit(tb.read(paths["said"])[0])
    readings = {each["reading"] for each in fitted.members_}
    assert len(readings) > 1  # members read the table by other schemas than the leading one
    model = str(tmp_path / "m.thurbo")
    fitted.save(model)
    found = {}
    for kind, path in paths.items():
        out = {name: str(tmp_path / f"{kind} {name}.csv") for name in ("score", "predict", "impute")}
        for name, extra in {"score": (), "predict": ("--column", "fan"), "impute": ("--fill", "n/a")}.items():
            status, _, err = run(name, model, str(path), *extra, "-o", out[name], capsys=capsys)
            assert status == 0, err
        status, printed, _ = run("evaluate", model, str(path), "--no-regressions", capsys=capsys)
        assert status == 0
        found[kind] = (printed, *(Path(out[name]).read_text() for name in ("score", "predict")))
        filled = pd.read_csv(out["impute"], keep_default_na=False)
        assert set(filled["fan"]) == {"yes", "no"}
        assert set(filled["trust"]) == {"none", "some", "a lot"}
    assert found["said"] == found["empty"]


def test_sample_keeps_to_what_is_given(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("-n", "7", "--given", "trust = a lot", "--seed", "3")
    found, _ = ask(survey, "sample", *arguments, to=tmp_path / "out.tsv", capsys=capsys)
    assert len(found) == 7
    assert set(found["trust"]) == {3}


def test_sample_draws_as_python_does_by_default(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    sample = tb.TBM.sample
    monkeypatch.setattr(tb.TBM, "sample", lambda self, *a, **k: asked.append(k["method"]) or sample(self, *a, **k))
    ask(survey, "sample", "-n", "2", to=tmp_path / "out.csv", capsys=capsys)
    assert asked == [inspect.signature(sample).parameters["method"].default]


def test_evaluate_prints_its_table(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, out = ask(survey, "evaluate", "--hide", "0.3", to=tmp_path / "out.csv", capsys=capsys)
    assert found["column"].tolist() == ["age", "fan", "trust"]
    table = str(survey.fitted.evaluate(survey.frame, hide=0.3, random_state=0))
    assert out == f"{table}\nmethod of predictions: exact\n"


def test_segments_are_printed_and_written(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, out = ask(survey, "segments", "-n", "2", to=tmp_path / "out.csv", capsys=capsys)
    expected = survey.fitted.segments(survey.frame, n=2, random_state=0)
    assert found["segment"].tolist() == expected.labels.tolist()
    assert str(expected) == out.rstrip("\n")
    assert out.splitlines()[1] == expected.verdict  # whether they stand apart comes first
    assert "stand apart" in expected.verdict


def test_report_is_one_page(survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    files = (str(survey.model), str(survey.data), "-o", str(page))
    status, out, err = run("report", *files, "--title", "Who trusts", "--no-test", "-q", capsys=capsys)
    assert (status, out, err) == (0, f"Report written to {page}\n", "")
    html = page.read_text(encoding="utf-8")
    assert "<h1>Who trusts</h1>" in html
    assert "Refused" in html
    assert "held-out rows" in html  # the curve of the rows held out
    assert "Accuracy was not tested" in html
    assert '"people":null' in html
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_report_tests_the_accuracy_by_another_fit(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    files = (str(survey.model), str(survey.data), "-o", str(page))
    status, out, err = run("report", *files, "--test", "--rows", "--rows-are", "people", capsys=capsys)
    assert (status, out) == (0, f"Report written to {page}\n")
    assert "testing the accuracy" in err
    html = page.read_text(encoding="utf-8")
    assert "This model" in html
    assert "Calibration" in html
    assert "This page holds the answers of single people" in html


def test_a_second_fit_goes_the_same_way_and_warns_in_a_sentence(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from thurbo.fit import course

    monkeypatch.setattr(course, "warn", lambda fitted: warnings.warn("it is\nodd", ConvergenceWarning, stacklevel=2))
    files = (str(survey.data), "-s", str(survey.model.with_name("survey.toml")), "-o", str(tmp_path / "m.thurbo"))
    sizes = ("--hidden", "2", "--epochs", "2", "--hold-out", "0.2", "--quiet")
    status, _, err = run("fit", *files, *sizes, capsys=capsys)
    assert (status, err) == (0, "thurbo: warning: it is odd\n")
    assert np.array_equal(tb.TBM.load(tmp_path / "m.thurbo").weights_, survey.fitted.weights_)


def test_threads_are_set_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC", "NPROC", "XLA_FLAGS")
    for name in names:
        monkeypatch.setenv(name, "")  # so that they are put back afterwards
    assert options._limit_threads(1) == 1
    assert os.environ["OMP_NUM_THREADS"] == os.environ["NPROC"] == "1"
    assert "multi_thread_eigen=false" in os.environ["XLA_FLAGS"]


def test_shells_can_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--install-completion" in run("--help", capsys=capsys)[1]


@pytest.mark.parametrize("data", ["Δ text\n", b"\x00\xff\n", "", b""])
def test_a_file_is_written_as_given(tmp_path: Path, data: bytes | str) -> None:
    path = tmp_path / "out"
    assert write_atomically(path, data) == path
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_changes_nothing(
    tmp_path: Path, step: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_text("before")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(ThurboError if isinstance(error, OSError) else KeyboardInterrupt):
        write_atomically(path, "after")
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_permissions_are_those_of_the_file_or_of_the_user(tmp_path: Path) -> None:
    plain, private = tmp_path / "plain", tmp_path / "private"
    (tmp_path / "usual").write_text("")
    private.write_text("")
    private.chmod(0o600)
    write_atomically(plain, "x")
    write_atomically(private, "x")
    assert plain.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_places_that_cannot_be_written_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ThurboError, match="is a directory"):
        write_atomically(tmp_path, "x")
    with pytest.raises(ThurboError, match="directory does not exist"):
        write_atomically(tmp_path / "missing" / "out", "x")
    monkeypatch.setattr(os, "access", lambda *_: False)  # of root nothing else would be true
    with pytest.raises(ThurboError, match="no write permission"):
        write_atomically(tmp_path / "out", "x")


def test_evaluate_fits_anew_without_a_model(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`thurbo evaluate DATA` is tb.evaluate of a model with every setting left alone."""
    asked: dict[str, Any] = {}
    known = survey.fitted.evaluate(survey.frame, hide=0.3, random_state=0, logistic=False)

    def evaluate(model: tb.TBM, X: Any, **settings: Any) -> Any:
        asked.update(settings, rows=len(X), left_alone=model.get_params(deep=False) | {"schema": None})
        return known

    monkeypatch.setattr(tb, "evaluate", evaluate, raising=False)
    out = tmp_path / "out.csv"
    words = ("--folds", "3", "--seed", "7", "--no-boosting", "-o", str(out))
    status, said, err = run("evaluate", str(survey.data), *words, "-q", capsys=capsys)
    assert (status, said, err) == (0, f"{known}\n", "")
    assert asked.pop("left_alone") == tb.TBM(random_state=7).get_params(deep=False)
    expected = {"folds": 3, "repeats": 1, "logistic": True, "boosting": False, "random_state": 7, "verbose": False}
    assert asked == {**expected, "rows": len(survey.frame)}
    assert len(pd.read_csv(out)) == len(known.columns)
    status, _, err = run("evaluate", str(survey.data), "--hide", "0.2", "--repeats", "2", "-q", capsys=capsys)
    assert (status, err) == (0, "")
    assert (asked["hide"], asked["repeats"]) == (0.2, 2)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("MODEL",), "is a model; give a table too"),
        (("MODEL", "DATA", "--folds", "3"), "are for a fit anew"),
        (("DATA", "--folds", "3", "--hide", "0.1"), "--folds and --hide cannot be combined"),
        (("DATA", "--repeats", "3"), "--repeats needs --hide"),
    ],
)
def test_evaluate_refuses_what_does_not_go_together(
    survey: Survey, words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"MODEL": str(survey.model), "DATA": str(survey.data)}
    status, out, err = run("evaluate", *(files.get(word, word) for word in words), "-q", capsys=capsys)
    assert (status, out) == (2, "")
    assert error in err


def test_a_process_that_ends_does_not_search_for_garbage() -> None:
    code = """
import atexit, gc
from thurbo.app.cli import main
atexit.register(lambda: print(gc.get_freeze_count() > 1000))  # the last of what is done before Python ends
assert gc.get_freeze_count() == 0
main(["--version"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"
