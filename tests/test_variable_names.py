"""Names of columns that SPSS and Stata do not allow: written under valid names, and read again as they were."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyreadstat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thurbo as tb
from thurbo.table.io.codebook import Codebook, fitting, valid_names

ODD = [
    "column 1",
    "column-1",
    "column_1",
    "1a",
    "_x",
    "ALL",
    "to",
    "Age",
    "AGE",
    "größe",
    "???",
    "q" * 80,
    "a\nb",
    "日本",
]


@pytest.mark.parametrize("suffix", [".sav", ".zsav", ".dta"])
def test_any_names_are_written_and_spss_gives_them_back(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame([[float(place), 2.0] for place in range(len(ODD))], index=ODD).T
    path = tb.write(frame, tmp_path / f"survey{suffix}")
    again = tb.read(path)[0]
    pd.testing.assert_frame_equal(again.set_axis(ODD, axis=1), frame.reset_index(drop=True), check_column_type=False)
    if suffix != ".dta":
        assert list(again.columns) == ODD
        assert not Codebook.of(again).remarks
        assert not any(note.title for note in Codebook.of(again).notes.values())
    raw, meta = (pyreadstat.read_dta if suffix == ".dta" else pyreadstat.read_sav)(str(path))
    labels = dict(zip(raw.columns, ODD, strict=True))
    assert labels["column_1"] == "column_1"
    for name, original in labels.items():
        assert (meta.column_names_to_labels[name] or original) == original  # the label of a changed name
        assert name == original or meta.column_names_to_labels[name]


def test_a_column_with_a_title_keeps_it(tmp_path: Path) -> None:
    schema = tb.Schema({"my age": tb.Continuous(), "n_b": tb.Continuous()}, titles={"my age": "How old?", "n_b": "n b"})
    path = tb.write({"my age": [1.5, 2.5], "n_b": [1.5, 2.5]}, tmp_path / "survey.sav", schema)
    again, found = tb.read(path)
    assert list(again.columns) == ["my_age", "n_b"]
    assert found.titles == {"my_age": "How old?", "n_b": "n b"}


def test_sets_of_columns_follow_their_names(tmp_path: Path) -> None:
    ticks = {f"owns: {what}": [1.0, 0.0, 1.0, float(what == "car")] for what in ("car", "boat")}
    notes = Codebook.from_text(
        '{"groups": [{"name": "$owns", "kind": "ticks", "members": [["owns: car", "owns: car"], '
        '["owns: boat", "owns: boat"]], "ticked": 1}]}'
    )
    frame = pd.DataFrame(ticks)
    frame.attrs["thurbo"] = notes.to_text()
    assert Codebook.of(frame).groups
    again = tb.read(tb.write(frame, tmp_path / "survey.sav"))[0]
    (group,) = Codebook.of(again).groups
    assert [column for column, _ in group.members] == list(ticks)


names = st.lists(st.text(min_size=1, max_size=70), min_size=1, max_size=6, unique=True)


@settings(max_examples=100, deadline=None)
@given(names, st.sampled_from([".sav", ".dta"]))
def test_names_are_valid_and_unique(given_names: list[str], suffix: str) -> None:
    found = valid_names(given_names, suffix)
    assert [fitting(name, suffix) for name in found] == found
    assert len({name.casefold() if suffix == ".sav" else name for name in found}) == len(found)
    assert valid_names(found, suffix) == found
    kept = [name for name in given_names if fitting(name, suffix) == name]
    assert set(kept) <= set(found) or suffix == ".sav"
