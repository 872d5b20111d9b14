"""Generated questionnaires are what they say, and a few of them are read as a careful reader would."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from benchmarks import raw_files
from benchmarks.questionnaires import TOOLS, make

FILES = [(seed, tool) for seed, tool in enumerate((*TOOLS, *TOOLS[:3]))]


def test_the_same_seed_is_the_same_file_and_every_column_has_one_expectation() -> None:
    for seed, tool in FILES:
        file = make(seed, tool)
        assert make(seed, tool).text() == file.text()
        places = sorted(place for entry in file.expected for place in entry.at)
        assert places == list(range(len(file.columns)))
        rows = list(csv.reader(io.StringIO(file.text()), delimiter=file.separator))
        assert {len(row) for row in rows} == {len(file.columns)}
        assert len(rows) == len(file.heads[0]) + len(file.columns[0])
        assert len(file.heads[0]) == {"surveymonkey": 2, "qualtrics": 3}.get(tool, 1)


def test_expectations_tell_answers_from_gaps() -> None:
    for seed in range(20):
        for entry in make(seed).expected:
            if entry.answers is not None and entry.missing:
                assert not {str(each) for each in entry.answers} & entry.missing
            if entry.labels is not None and entry.answers is not None:
                assert {str(each) for each in entry.answers if each is not None} <= set(entry.labels)
            assert entry.ends is None or len(entry.ends) == len(entry.labels or ())


@pytest.mark.parametrize(("seed", "tool"), FILES)
def test_files_of_every_tool_are_read_as_a_careful_reader_would(seed: int, tool: str, tmp_path: Path) -> None:
    found = raw_files.read(make(seed, tool), tmp_path)
    structure = [
        each for each in found.wrong if "not one question" in each or "multiselect" in each or "ranking" in each
    ]
    assert not structure
    assert found.lost == 0, found.wrong
    assert found.right >= 0.9 * found.columns, found.wrong


def test_most_columns_of_most_files_are_right(tmp_path: Path) -> None:
    readings = [raw_files.read(make(seed, tool), tmp_path) for seed, tool in FILES]
    assert sum(each.right for each in readings) >= 0.98 * sum(each.columns for each in readings)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    file = make(0)
    entry = next(each for each in file.expected if each.kinds == ("categorical",))
    place = file.expected.index(entry)
    file.expected[place] = entry.__class__(entry.at, ("ranking",))
    found = raw_files.read(file, tmp_path)
    assert any("not ranking" in each for each in found.wrong)
    lost = entry.__class__(entry.at, entry.kinds, answers=tuple(np.full(len(file.columns[0]), "x")))
    file.expected[place] = lost
    assert raw_files.read(file, tmp_path).lost == sum(each is None for each in entry.answers or ())


def test_the_last_line_is_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    found = raw_files.run(range(2), "redcap", show=True)
    assert set(found) == {"files", "columns", "right", "substantive_missing", "tools"}
    assert "columns right" in capsys.readouterr()[0]
