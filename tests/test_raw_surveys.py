"""Ten raw surveys, as published, against a reading of every column by hand (tests/data/surveys/expected.toml).

A column is right if its question has the expected type, the same columns, the levels in order and the missing codes.
"""

from __future__ import annotations

import lzma
import os
import tempfile
import tomllib
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import thurbo as tb
from thurbo.app.cli import main
from thurbo.errors import SchemaWarning
from thurbo.queries import weights
from thurbo.table.io.frames import as_table

HERE = Path(__file__).parent / "data" / "surveys"
EXPECTED: dict[str, Any] = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
NAMED = {key: EXPECTED.pop(key) for key in ("scales", "ends")}
SHIPPED = [survey for survey in EXPECTED if (HERE / f"{survey}.csv").exists()]
ORDERED = ("ordinal", "banded")
LEFT_OUT = ("ignore",)


def entries(survey: str) -> list[dict[str, Any]]:
    """The expected questions; an entry of `same` stands for one question at each position."""
    found = list(EXPECTED[survey].get("question", []))
    for each in EXPECTED[survey].get("same", []):
        found += [{**each, "at": [place]} for place in each["at"]]
    return [_named(each) | ({"or": _named(each["or"])} if "or" in each else {}) for each in found]


def _named(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with the names of scales and ends replaced by what they name."""
    known = {"labels": NAMED["scales"], "ends": NAMED["ends"]}
    return {
        key: known[key][value] if key in known and isinstance(value, str) else value for key, value in entry.items()
    }


def read(path: Path) -> tuple[Any, tb.Schema]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        frame, schema = _read(path)
        return frame, schema.fit(frame)  # a Binary knows its two values once it is fitted


def _read(path: Path) -> tuple[Any, tb.Schema]:
    if path.suffix != ".xz":
        return tb.read(path)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        return tb.read(plain)


def difference(entry: dict[str, Any], frame: Any, schema: tb.Schema) -> str:
    """What is wrong about a question in the inferred schema; empty if it is right."""
    sources = [str(frame.columns[place]) for place in entry["at"]]
    holders = [
        (name, column) for name, column in schema.items() if set(column.source_columns(name) or (name,)) & set(sources)
    ]
    if len(holders) != 1:
        return f"{len(holders)} questions instead of one: {[name for name, _ in holders]}"
    name, column = holders[0]
    if set(column.source_columns(name) or (name,)) != set(sources):
        return f"it consists of {column.source_columns(name)}"
    wrong = [_unlike(each, column) for each in (entry, *([entry["or"]] if "or" in entry else []))]
    return "" if "" in wrong else wrong[0]


def _unlike(entry: dict[str, Any], column: tb.Column) -> str:
    if column.kind not in entry["kind"]:
        return f"{column.kind}, not {entry['kind']}"
    labels = entry.get("labels")
    found = [str(label) for label in column.labels]
    if labels is not None and (found if column.kind in ORDERED else sorted(found)) != (
        labels if column.kind in ORDERED else sorted(labels)
    ):
        return f"labels {found}"
    if labels == ["No", "Yes"] and found != labels:
        return f"{found[1]} is above {found[0]}"
    if "ends" in entry:
        ends = [[end if np.isfinite(end) else "" for end in pair] for _, pair in column.bands]
        if ends != entry["ends"]:
            return f"bands {ends}"
    missing = (
        {str(value) for value, _ in column.missing} if column.kind not in LEFT_OUT else set(entry.get("missing", ()))
    )
    return "" if missing == set(entry.get("missing", ())) else f"missing {sorted(missing)}"


class Compared(NamedTuple):
    """Columns right and in all, what is wrong by question, and columns that are left out but should not be."""

    right: int
    columns: int
    wrong: list[str]
    dropped: list[str]


def compare(survey: str, path: Path) -> Compared:
    """What is read of a file, against what is expected of it."""
    frame, schema = read(path)
    assert len(frame.columns) == EXPECTED[survey]["columns"]
    right, wrong, dropped = 0, [], []
    for entry in entries(survey):
        problem = difference(entry, frame, schema)
        right += 0 if problem else len(entry["at"])
        if problem:
            wrong.append(f"{survey} {entry['at']} {frame.columns[entry['at'][0]]!r}: {problem}")
        for place in entry["at"]:
            name = str(frame.columns[place])
            if name in schema and schema[name].kind == "ignore" and "ignore" not in entry["kind"]:
                dropped.append(f"{survey}: {name}")
    return Compared(right, len(frame.columns), wrong, dropped)


@pytest.mark.parametrize("survey", EXPECTED)
def test_every_column_has_one_expectation(survey: str) -> None:
    places = sorted(place for entry in entries(survey) for place in entry["at"])
    assert places == list(range(EXPECTED[survey]["columns"]))


def _check(paths: dict[str, Path]) -> None:
    """At least 97 % of all columns are right, at least 95 % in each file, and none is left out."""
    found = {survey: compare(survey, path) for survey, path in paths.items()}
    shares = {survey: each.right / each.columns for survey, each in found.items()}
    lines = [f"{survey}: {each.right} of {each.columns} columns right" for survey, each in found.items()]
    report = "\n".join([*lines, *(wrong for each in found.values() for wrong in each.wrong)])
    print(report)
    assert not [name for each in found.values() for name in each.dropped], report
    assert sum(each.right for each in found.values()) >= 0.97 * sum(each.columns for each in found.values()), report
    assert min(shares.values()) >= 0.95, report


def test_excerpts_are_read_as_an_analyst_would() -> None:
    _check({survey: HERE / f"{survey}.csv" for survey in SHIPPED})


@pytest.mark.slow
def test_whole_files_are_read_as_an_analyst_would() -> None:
    root = os.environ.get("THURBO_DATA")
    if not root:
        pytest.skip("THURBO_DATA is not set")
    _check({survey: Path(root) / expected["file"] for survey, expected in EXPECTED.items()})


# Those whose summaries take longest, where there is more time.
LONG = ("thanksgiving-2015", "comma-survey", "flying-etiquette")


@pytest.mark.parametrize("survey", [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in SHIPPED])
def test_the_summary_of_check_fits_one_screen(survey: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["check", str(HERE / f"{survey}.csv")])
    out, _ = capsys.readouterr()
    assert done.value.code == 0
    assert len(out.splitlines()) <= 40
    assert max(map(len, out.splitlines())) <= 160
    assert f"{EXPECTED[survey]['columns']} columns" in out.splitlines()[0]
    frame, schema = read(HERE / f"{survey}.csv")
    assert f"{sum(column.role == 'answer' for column in schema.values())} questions" in out
    for kind in ("Ordinal(", "Continuous(", "Ignore(", "Categorical("):
        assert kind not in out  # remedies are in the words of a schema file
    assert all(name in out for name, column in schema.items() if column.role == "id")
    assert len(frame) == 140


@pytest.mark.slow
@pytest.mark.parametrize("survey", SHIPPED)
def test_fit_impute_and_report_run_without_a_schema_by_hand(
    survey: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = os.environ.get("THURBO_DATA")
    data = str(Path(root) / EXPECTED[survey]["file"] if root else HERE / f"{survey}.csv")
    model, small = str(tmp_path / "m.thurbo"), ("--hidden", "2", "--factors", "0", "--epochs", "2", "--quiet")
    commands = (
        ["fit", data, "-o", model, *small],
        ["impute", model, data, "-o", str(tmp_path / "filled.csv"), "--quiet"],
        ["report", model, data, "-o", str(tmp_path / "report.html"), "--no-test", "--quiet"],
    )
    for command in commands:
        with pytest.raises(SystemExit) as done:
            main(command)
        assert done.value.code == 0, capsys.readouterr().err
    fitted = tb.TBM.load(model)
    frame, schema = read(Path(data))
    filled, _ = read(tmp_path / "filled.csv")
    table = as_table(frame)
    assert fitted.schema_ == schema.fit(table, sample_weight=weights(schema, table, None))  # scaled as in a fit
    assert len(filled) == len(frame)
    fitted.schema_.compile(as_table(filled))  # refuses an answer that is none
    labelled = [name for name, each in schema.items() if each.kind in ("binary", "ordinal", "banded", "categorical")]
    for name in (name for name in labelled if name in filled):  # others are spread over columns
        spelled = (*schema[name].missing, *schema[name].recode)  # what was given comes back as it is
        allowed = {*schema[name].labels, *(value for value, _ in spelled)}
        if getattr(schema[name], "other", None) is not None:
            allowed |= set(frame[name].dropna())  # rare answers that are one label to the model stay as they are
        assert set(map(str, filled[name].dropna())) <= set(map(str, allowed)), name
    assert (tmp_path / "report.html").stat().st_size > 10_000
