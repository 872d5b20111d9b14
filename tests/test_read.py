"""Files: what a survey file says is what comes back, and a file that cannot be read is refused in one sentence.

Idea: small files, made here by pyreadstat and by hand, go through `read` and `write` and are compared cell by cell.
Promises that codes, names, missing codes, measures and titles survive .sav, and that nothing half-written stays.
"""

from __future__ import annotations

import datetime
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest
from pandas.testing import assert_frame_equal

import thurbo as tb
from thurbo.table.io import files
from thurbo.table.io import read_write as reading
from thurbo.table.io.codebook import KEY, Codebook, Note
from thurbo.table.io.text import as_text, find_separator

STARWARS = Path(tb.__file__).parent / "table" / "datasets" / "starwars.csv"
AGREE = {1.0: "Disagree", 2.0: "Neither", 3.0: "Agree", 8.0: "Don't know", 9.0: "Refused"}
SURVEY = pd.DataFrame(
    {
        "agree": [1.0, 3.0, 9.0, 2.0, np.nan, 8.0],
        "sex": [1.0, 2.0, 1.0, 2.0, 1.0, 2.0],
        "age": [20.5, 31.0, 998.0, 45.25, 60.0, 997.0],
        "party": ["red", "green", "blue", None, "red", "XX"],
        "day": pd.to_datetime(["2020-01-02", None, "2021-03-04", "2022-01-01", "2020-05-05", "2020-06-06"]),
        "start": [datetime.time(10, 3), None, *[datetime.time(11, 0)] * 4],
    }
)


def make_sav(path: Path, frame: pd.DataFrame = SURVEY) -> Path:
    pyreadstat.write_sav(
        frame,
        path,
        file_label="A small survey",
        note="made by hand",
        column_labels={"agree": "How far do you agree?", "age": "Age in years"},
        variable_value_labels={"agree": AGREE, "sex": {1.0: "Man", 2.0: "Woman"}, "party": {"XX": "Refused"}},
        missing_ranges={"agree": [8.0, 9.0], "age": [{"lo": 997.0, "hi": 999.0}], "party": ["XX"]},
        variable_measure={"agree": "ordinal", "sex": "nominal", "age": "scale"},
        variable_format={"agree": "F2.0", "day": "EDATE10", "start": "TIME8"},
        variable_display_width={"agree": 5},
    )
    return path


def with_sets(path: Path, sets: bytes) -> None:
    """Put a record of multiple response sets into a .sav file, which pyreadstat reads and cannot write."""
    data = path.read_bytes()
    end = data.index(struct.pack("<ii", 999, 0))
    path.write_bytes(data[:end] + struct.pack("<iiii", 7, 7, 1, len(sets)) + sets + data[end:])


def test_a_survey_file_keeps_its_codes_and_says_what_they_are(tmp_path: Path) -> None:
    frame, schema = tb.read(make_sav(tmp_path / "survey.sav"))
    assert frame["agree"].tolist()[:4] == [1.0, 3.0, 9.0, 2.0]
    assert frame["party"].isna().tolist() == [False, False, False, True, False, False]
    names = {1: "Disagree", 2: "Neither", 3: "Agree"}
    assert schema["agree"] == tb.Ordinal([1, 2, 3], names=names, missing={8: "Don't know", 9: "Refused"})
    assert schema["sex"] == tb.Binary(values=(1, 2), names={1: "Man", 2: "Woman"})
    assert schema["age"] == tb.Continuous(missing={997: "997", 998: "998"})
    assert schema["party"].missing == (("XX", "Refused"),)
    assert schema["day"] == schema["start"] == tb.Ignore("dates and times are not modelled")
    assert schema.titles == {"agree": "How far do you agree?", "age": "Age in years"}
    assert "the file says ordinal" in schema.reasons["agree"]
    assert schema.fit(frame).compile(frame)["agree"].code[:, 0].tolist() == [0, 2, -1, 1, -1, -1]


@pytest.mark.parametrize("extension", [".sav", ".zsav", ".parquet", ".feather"])
def test_what_was_read_is_what_is_written(tmp_path: Path, extension: str) -> None:
    frame, schema = tb.read(make_sav(tmp_path / "survey.sav"))
    path = tb.write(frame, tmp_path / f"again{extension}")
    again, inferred = tb.read(path)
    assert_frame_equal(frame, again)
    assert Codebook.of(again) == Codebook.of(frame)
    assert inferred == schema
    assert inferred.titles == schema.titles
    note = Codebook.of(again).note("agree")
    assert (note.measure, note.format, note.width) == ("ordinal", "F2.0", 5)
    assert note.missing == ((8, 8), (9, 9))
    assert Codebook.of(again).note("age").missing == ((997, 999),)
    assert Codebook.of(again).title == "A small survey"


def test_the_book_goes_with_the_frame_and_only_for_its_columns(tmp_path: Path) -> None:
    frame, schema = tb.read(make_sav(tmp_path / "survey.sav"))
    part = frame.loc[frame["sex"] == 2, ["agree", "age"]].copy()
    assert set(Codebook.of(part).notes) == {"agree", "age"}
    assert tb.Schema.infer(part)["agree"] == schema["agree"]
    assert Codebook.of(pd.DataFrame({"a": [1]})) == Codebook()
    frame.attrs[KEY] = "something of the user's"
    assert not Codebook.of(frame)


def test_without_its_book_a_frame_is_written_by_its_schema(tmp_path: Path) -> None:
    frame, schema = tb.read(make_sav(tmp_path / "survey.sav"))
    frame.attrs = {}
    again, inferred = tb.read(tb.write(frame, tmp_path / "again.sav", schema))
    assert inferred["agree"] == schema["agree"]
    assert inferred["sex"] == schema["sex"]
    assert inferred["age"] == schema["age"]
    assert inferred.titles == schema.titles
    bare, guessed = tb.read(tb.write(frame, tmp_path / "bare.sav"))
    assert guessed["agree"] != schema["agree"]
    assert bare["agree"].tolist()[0] == again["agree"].tolist()[0] == 1.0


def test_many_missing_codes_are_declared_as_a_range_or_not_at_all(tmp_path: Path) -> None:
    frame = pd.DataFrame({"q": [1.0, 2.0, 3.0, -1.0, 7.0, 8.0, 9.0], "r": [0.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]})
    four = {-1: "Missing", 7: "Not asked", 8: "Refused", 9: "No answer"}
    apart = {0: "a", 9: "b", 11: "c", 13: "d"}
    schema = tb.Schema({"q": tb.Ordinal([1, 2, 3], missing=four), "r": tb.Ordinal([8, 10, 12], missing=apart)})
    again, _ = tb.read(tb.write(frame, tmp_path / "q.sav", schema))
    book = Codebook.of(again)
    assert book.note("q").missing == ((7, 9), (-1, -1))
    assert book.note("r").missing == ((0, 0), (9, 9), (11, 11))  # the most that SPSS holds
    assert not Note(missing=((1, 1), (2, 2), (3, 3))).has_room
    assert not Note(missing=((7, 9), (-1, -1))).has_room
    assert Note(missing=((7, 9),)).has_room


def test_stata_files_keep_names_and_lettered_missing_values(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"q": [1.0, 2.0, "a", 3.0, None], "s": ["x", "", "y", "x", "y"], "f": [0.5, 1.5, 2.5, 3.5, 9.0]}
    )
    names = {1: "Never", 2: "Sometimes", 3: "Always", "a": "Refused"}
    pyreadstat.write_dta(
        frame,
        tmp_path / "survey.dta",
        column_labels={"q": "How often?"},
        variable_value_labels={"q": names},
        missing_user_values={"q": ["a"]},
    )
    first, schema = tb.read(tmp_path / "survey.dta")
    levels = {code: text for code, text in names.items() if code != "a"}
    assert schema["q"] == tb.Ordinal([1, 2, 3], names=levels, missing={"a": "Refused"})
    assert schema.titles == {"q": "How often?"}
    assert schema.fit(first).compile(first)["q"].code[:, 0].tolist() == [0, 1, -1, 2, -1]
    again, inferred = tb.read(tb.write(first, tmp_path / "again.dta"))
    assert_frame_equal(first, again)
    assert inferred == schema


def test_codes_go_from_spss_to_stata_with_their_names(tmp_path: Path) -> None:
    frame, _ = tb.read(make_sav(tmp_path / "survey.sav"))
    again, schema = tb.read(tb.write(frame, tmp_path / "survey.dta"))
    assert again["agree"].equals(frame["agree"])
    assert schema["agree"].labels == (1, 2, 3)  # "Don't know" and "Refused" are read from their names
    assert dict(schema["agree"].missing) == {8: "Don't know", 9: "Refused"}


def test_categories_become_codes_with_names(tmp_path: Path) -> None:
    """In their own order; codes that were replaced by their names become codes again; long lists of texts stay text."""
    frame, _ = tb.read(make_sav(tmp_path / "survey.sav"))
    texts = frame["agree"].map(AGREE)
    order = ["Agree", "Neither", "Disagree"]
    many = pd.Series([f"street {n}" for n in range(6)], dtype=pd.CategoricalDtype([f"street {n}" for n in range(200)]))
    bands = pd.cut(frame["age"], [0, 40, 1000])
    frame = frame.assign(
        agree=texts.astype("category"),
        own=pd.Categorical(texts.where(texts.isin(order)), order, ordered=True),
        street=many,
        band=bands,
    )
    for extension in (".sav", ".dta"):
        again, schema = tb.read(tb.write(frame.drop(columns="start"), tmp_path / f"again{extension}"))
        assert again["agree"].tolist()[:4] == [1.0, 3.0, 9.0, 2.0]
        assert dict(schema["agree"].names) == {1: "Disagree", 2: "Neither", 3: "Agree"}
        assert dict(schema["agree"].missing) == {8: "Don't know", 9: "Refused"}
        assert again["own"].tolist()[:2] == [3.0, 1.0]
        assert again["own"].isna().tolist() == [False, False, True, False, True, True]
        assert schema["own"].texts == tuple(order)
        assert again["street"].tolist() == many.tolist()
        assert again["band"].tolist() == [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
        assert Codebook.of(again).note("band").texts == {1: "(0, 40]", 2: "(40, 1000]"}
    assert isinstance(frame["own"].dtype, pd.CategoricalDtype)
    last = pd.DataFrame({"q": pd.Categorical(["no", "yes", "Refused"], ["no", "yes", "Refused"])})
    again, schema = tb.read(tb.write(last, tmp_path / "last.sav", tb.Schema.infer(last)))
    assert Codebook.of(again).note("q").missing == ((3, 3),)
    assert schema["q"] == tb.Binary(values=(1, 2), names={1: "no", 2: "yes"}, missing={3: "Refused"})


def test_decimals_are_shown_where_there_are_any(tmp_path: Path) -> None:
    frame = pd.DataFrame({"whole": [1, 2], "half": [1.5, None], "large": [1e9, 2e9]})
    again, _ = tb.read(tb.write(frame, tmp_path / "t.sav"))
    formats = {name: Codebook.of(again).note(name).format for name in again}
    assert formats == {"whole": "F8.0", "half": "F8.2", "large": "F8.2"}
    again["whole"] += 0.25
    assert Codebook.of(tb.read(tb.write(again, tmp_path / "t.sav"))[0]).note("whole").format == "F8.2"


def test_portable_files_are_read(tmp_path: Path) -> None:
    pyreadstat.write_por(SURVEY[["agree", "sex"]], tmp_path / "survey.por")
    frame, schema = tb.read(tmp_path / "survey.por")
    assert frame["SEX"].tolist() == SURVEY["sex"].tolist()
    assert isinstance(schema["SEX"], tb.Binary)


def test_a_multiple_response_set_is_one_question(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "tv": [1.0, 0.0, 1.0, 0.0],
            "radio": [0.0, 0.0, 1.0, 9.0],
            "first": [1.0, 2.0, 3.0, np.nan],
            "second": [2.0, np.nan, 1.0, np.nan],
            "other": [1.0, 2.0, 3.0, 4.0],
        }
    )
    options = {1.0: "Jobs", 2.0: "Health", 3.0: "Roads"}
    path = tmp_path / "sets.sav"
    pyreadstat.write_sav(
        frame,
        path,
        column_labels={"tv": "Owns a television", "radio": "Owns a radio"},
        variable_value_labels={"first": options, "second": options},
        missing_ranges={"radio": [9.0]},
    )
    with_sets(path, b"$owns=D1 1 11 What is own tv radio\n$needs=C 5 Needs first second\n")
    table, schema = tb.read(path)
    assert list(schema) == ["owns", "needs", "other"]
    columns = {"Owns a television": "tv", "Owns a radio": "radio"}
    assert schema["owns"] == tb.MultiSelect(columns=columns, ticked=1, missing={9: "9"})
    names = {int(code): text for code, text in options.items()}
    assert schema["needs"] == tb.MultiSelect([1, 2, 3], mentions=["first", "second"], names=names)
    assert schema.titles["needs"] == "Needs"
    blocks = schema.fit(table).compile(table)
    assert blocks["owns"].code.tolist() == [[1, 0], [0, 0], [1, 1], [0, -1]]
    assert blocks["needs"].code[0].tolist() == [1, 1, 0]
    table["much_longer_name"] = table["other"]
    for extension in (".sav", ".zsav", ".parquet"):
        again, inferred = tb.read(tb.write(table, tmp_path / f"again{extension}"))
        assert_frame_equal(again, table)
        assert Codebook.of(again).groups == Codebook.of(table).groups
        assert {name: inferred[name] for name in schema} == dict(schema)
    # A set that lost a column is a set no more.
    part, _ = tb.read(tb.write(table.drop(columns="tv"), tmp_path / "part.sav"))
    assert [group.name for group in Codebook.of(part).groups] == ["needs"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_encoding_and_separator_are_found(tmp_path: Path, encoding: str, separator: str) -> None:
    rows = [["name", "n", "é"], ["Zoë", "1", "a"], ["Bjørn", "", "b"], ["", "3", ""]]
    path = tmp_path / "table.csv"
    path.write_bytes("\n".join(separator.join(row) for row in rows).encode(encoding))
    frame, _ = tb.read(path)
    assert list(frame.columns) == ["name", "n", "é"]
    assert frame["name"].tolist()[:2] == ["Zoë", "Bjørn"]
    assert frame["n"].tolist() == [1, pd.NA, 3]
    assert frame.isna().sum().tolist() == [1, 1, 1]


def test_text_may_be_told_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("a/b\nЖ/1\n".encode("cp1251"))
    frame, _ = tb.read(path, separator="/", encoding="cp1251")
    assert frame.to_dict("list") == {"a": ["Ж"], "b": [1]}
    with pytest.raises(tb.ThurboError, match="is not valid ascii; omit encoding"):
        tb.read(path, encoding="ascii")
    with pytest.raises(tb.ThurboError, match='unknown encoding "none"'):
        tb.read(path, encoding="none")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n"x, y",1\n"line\nbreak",2\n', {"a": ["x, y", "line\nbreak"], "b": [1, 2]}),
        ("a;b\n1,5;2\n2,25;3\n", {"a": [1.5, 2.25], "b": [2, 3]}),
        ("a\tb\n1\t2,5\n3\t4,5\n", {"a": [1, 3], "b": [2.5, 4.5]}),
        ("a,b\n1,None\n2,Some\n", {"a": [1, 2], "b": ["None", "Some"]}),
        ("\n\na,b\n1, x \n\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
        (",b\n1,2\n", {"column 1": [1], "b": [2]}),
        ("only\n1\n2\n", {"only": [1, 2]}),
        ("a,b\ntrue,x\nfalse,y\n", {"a": [True, False], "b": ["x", "y"]}),
    ],
)
def test_text_is_read_as_people_mean_it(tmp_path: Path, text: str, expected: dict[str, list[Any]]) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    frame, _ = tb.read(path)
    assert frame.to_dict("list") == expected


def test_a_late_text_does_not_break_a_column_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("a\tb\n" + "1\t2\n" * 50_000 + "none\t3\n", encoding="utf-8")
    frame, _ = tb.read(path)
    assert frame["a"].iloc[-1] == "none"
    assert frame["b"].dtype == np.int64


def test_a_quoted_separator_does_not_mislead(tmp_path: Path) -> None:
    assert find_separator('a;b\n"x, y, z";1\n"u, v, w";2\n') == ";"
    assert find_separator("one column\nno separator\n") == ","


def test_the_bundled_survey_is_read_with_both_header_rows() -> None:
    frame, schema = tb.read(STARWARS)
    assert frame.shape == (1186, 38)
    kinds = {type(column).__name__ for column in schema.values()}
    assert kinds == {"Id", "Binary", "MultiSelect", "Ranking", "Ordinal", "Banded", "Categorical"}
    favourable = schema["Han Solo"]
    bundled = tb.datasets.load_starwars()[1]
    assert favourable.labels == bundled["Han Solo"].labels
    assert favourable.missing == (("Unfamiliar (N/A)", "Unfamiliar (N/A)"),)
    assert schema.titles["Han Solo"].startswith("Please state whether")
    assert schema["Age"].labels == bundled["age"].labels
    assert schema["Household Income"].labels == bundled["income"].labels
    assert schema["Education"].labels == bundled["education"].labels
    seen = next(column for column in schema.values() if isinstance(column, tb.MultiSelect))
    films = next(column for column in schema.values() if isinstance(column, tb.Ranking))
    assert [label[-18:] for label in seen.labels[:1]] == ["The Phantom Menace"]
    assert films.labels == seen.labels
    blocks = schema.fit(frame).compile(frame)
    _, known = tb.datasets.load_starwars(everything=True)
    table, _ = tb.datasets.load_starwars(everything=True)
    theirs = known.fit(table).compile(table)
    ours = next(blocks[name] for name, column in schema.items() if column is films)
    np.testing.assert_array_equal(ours.tier, theirs["films"].tier)
    np.testing.assert_array_equal(blocks["Education"].code, theirs["education"].code)
    np.testing.assert_array_equal(blocks["Yoda"].code, theirs["Yoda"].code)


def test_three_header_rows_as_qualtrics_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    ids = '"{""ImportId"":""QID1""}","{""ImportId"":""QID2""}"'
    path.write_text(f'Q1,Q2\nHow old are you?,"Do you smoke, ever?"\n{ids}\n33,Yes\n44,No\n', encoding="utf-8")
    frame, schema = tb.read(path)
    assert frame.to_dict("list") == {"Q1": [33, 44], "Q2": ["Yes", "No"]}
    assert schema.titles == {"Q1": "How old are you?", "Q2": "Do you smoke, ever?"}


def test_a_row_of_answers_is_no_second_header(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,,c\n1,x,y\n2,z,w\n", encoding="utf-8")
    frame, _ = tb.read(path)
    assert frame.shape == (2, 3)
    assert list(frame.columns) == ["a", "column 2", "c"]


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".parquet", ".feather"])
def test_any_library_is_written_and_read(tmp_path: Path, extension: str) -> None:
    data = {
        "n": [1, None, 3],
        "text": ['say "a, b"', None, "line\nbreak"],
        "yes": [True, False, None],
        "x": [0.1, 2.5, None],
    }
    for frame in (pd.DataFrame({k: pd.Series(v).convert_dtypes() for k, v in data.items()}), pl.DataFrame(data), data):
        again, _ = tb.read(tb.write(frame, tmp_path / f"table{extension}"))
        assert [None if pd.isna(cell) else cell for cell in again["n"]] == data["n"]
        assert [None if pd.isna(cell) else cell for cell in again["text"]] == data["text"]
        assert [None if pd.isna(cell) else cell for cell in again["yes"]] == data["yes"]
        assert [None if pd.isna(cell) else cell for cell in again["x"]] == data["x"]


def test_lists_stay_lists_or_become_the_text_that_columns_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"ticked": [["a", "b"], [], None], "ranked": [[["a"], ["b", "c"]], None, [["c"], ["a"]]]})
    table, schema = tb.read(tb.write(frame, tmp_path / "t.parquet"))
    assert schema["ticked"].labels == ("a", "b")
    assert isinstance(schema["ranked"], tb.Ranking)
    text, _ = tb.read(tb.write(frame, tmp_path / "t.csv"))
    assert text["ticked"].tolist()[0] == "a; b"
    assert text["ranked"].tolist()[0] == "a > b = c"
    assert as_text(np.asarray(["a", "b"])) == "a; b"
    assert as_text("plain") == "plain"
    with pytest.raises(tb.SchemaError, match=r'column "ticked": cells that hold lists.*write \.parquet or \.csv'):
        tb.write(frame, tmp_path / "t.sav")
    assert len(table) == 3
    assert not (tmp_path / "t.sav").exists()


def broken(tmp_path: Path) -> list[tuple[Path, str]]:
    """Files that cannot be read, and what is said of each."""
    sav = make_sav(tmp_path / "good.sav").read_bytes()
    parquet = tb.write(SURVEY[["agree"]], tmp_path / "good.parquet").read_bytes()
    made: list[tuple[str, bytes, str]] = [
        ("cut.sav", sav[:-40], "truncated|copy it again"),
        ("cutter.sav", sav[:200], "truncated|copy it again"),
        ("text.sav", b"a,b\n1,2\n", "is not a .sav file; check its extension"),
        ("sav.csv", sav, r"is an SPSS file, not \.csv; rename it to \.sav"),
        ("book.csv", b"PK\x03\x04 and so on", r"spreadsheet or zip archive.*save it as \.csv"),
        ("text.dta", b"a,b\n1,2\n", "cannot read"),
        ("text.por", b"a,b\n1,2\n", "cannot read"),
        ("cut.parquet", parquet[:-10], "cannot read"),
        ("text.parquet", b"a,b\n1,2\n", r"is not a \.parquet file"),
        ("text.feather", b"a,b\n", r"is not a \.feather file"),
        ("empty.sav", b"", "it is empty"),
        ("empty.csv", b"", "it is empty"),
        ("ragged.csv", b"a,b\n1,2\n3\n", "row 2 below the header .* has 1 cells, but the header has 2; give every row"),
        ("wide.csv", b"a,b\n1,2,3\n1,2,3\n", "row 1 below the header .* has 3 cells, but the header has 2"),
        ("binary.csv", bytes(range(256)) * 40, "binary data"),
        ("table.txt", b"a,b", r"not a table format; use one of \.sav"),
        ("table", b"a,b\n", "has no extension"),
        ("mark.csv", b"\xff\xfea", "byte-order mark says utf-16"),
    ]
    found = []
    for name, data, message in made:
        (tmp_path / name).write_bytes(data)
        found.append((tmp_path / name, message))
    return [*found, (tmp_path / "nothing.sav", "no such file; check its name"), (tmp_path, "is a directory")]


def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path) -> None:
    for path, message in broken(tmp_path):
        with pytest.raises(tb.ThurboError, match=message) as caught:
            tb.read(path)
        assert "\n" not in str(caught.value), path
        assert ";" in str(caught.value), f"{path}: no remedy"
        assert caught.value.__cause__ is None


def test_no_rows_and_very_long_cells_are_read(tmp_path: Path) -> None:
    for extension in (".csv", ".sav", ".parquet"):
        frame, schema = tb.read(tb.write(SURVEY[:0][["agree", "sex"]], tmp_path / f"none{extension}"))
        assert frame.shape == (0, 2)
        assert schema["agree"] == tb.Ignore("it is empty")
    long = pd.DataFrame({"a": ["x" * 3_000_000, "y"], "b": [1, 2]})
    frame, _ = tb.read(tb.write(long, tmp_path / "long.csv"))
    assert frame["a"].str.len().tolist() == [3_000_000, 1]


def test_writing_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.sav"
    tb.write(SURVEY[["agree"]], path)
    before = path.read_bytes()
    too_long = pd.DataFrame({"x": [1.0]})
    too_long.attrs["thurbo"] = Codebook(remarks=("y" * 100,)).to_text()  # a line of SPSS has 80 letters
    with pytest.raises(tb.ThurboError, match=r"cannot write .* note is too long .* rename or convert that column"):
        tb.write(too_long, path)
    with pytest.raises(tb.ThurboError, match=r"use one of \.sav \.zsav \.dta"):
        tb.write(SURVEY, tmp_path / "table.por")
    with pytest.raises(tb.ThurboError, match="directory does not exist"):
        tb.write(SURVEY, tmp_path / "nowhere" / "table.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(tb.ThurboError, match="is a directory"):
        tb.write(SURVEY, tmp_path / "folder.csv")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(tb.ThurboError, match="No space left on device; check the disk"):
        tb.write(SURVEY[["sex"]], path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "table.sav"]


def test_the_user_s_own_frame_is_left_as_it_is(tmp_path: Path) -> None:
    frame = pd.DataFrame({"ticked": [["a"], None], "c": pd.Categorical(["x", "y"])}, index=[5, 7])
    before = frame.copy(deep=True)
    for extension in (".csv", ".parquet"):
        tb.write(frame, tmp_path / f"t{extension}")
    assert_frame_equal(frame, before)
    table, _ = tb.read(tmp_path / "t.parquet")
    assert table.index.tolist() == [5, 7]


def test_without_the_extra_its_name_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_sav(tmp_path / "survey.sav")
    monkeypatch.setattr(reading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(tb.ThurboError, match=r"which is not installed; run pip install 'thurbo\[files\]'"):
        tb.read(path)


def test_arrow_types_are_understood(tmp_path: Path) -> None:
    levels = pa.DictionaryArray.from_arrays(pa.array([0, 2, None]), pa.array(["low", "mid", "high"]), ordered=True)
    table = pa.table({"d": levels, "l": pa.array([["a"], ["a", "b"], None]), "n": pa.array([1, None, 3], pa.int8())})
    assert tb.Schema.infer(table)["d"] == tb.Ordinal(["low", "mid", "high"])
    frame, schema = tb.read(tb.write(table, tmp_path / "t.feather"))
    assert schema["d"] == tb.Ordinal(["low", "mid", "high"])
    assert schema["l"].labels == ("a", "b")
    assert len(frame) == 3
