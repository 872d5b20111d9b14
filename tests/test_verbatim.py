"""What was given is never changed: files before and after gaps are filled, cell by cell and byte by byte.

Idea: hypothesis makes files from raw cells (quotes, blanks, line ends, leading zeros, n/a, dates), so that the file
that must come out is known: the same raw cells, and other text only where there was a gap.
"""

from __future__ import annotations

import contextlib
import csv
import io
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thurbo as tb
from thurbo.app import cli
from thurbo.table.io.text import EMPTY, Verbatim, open_verbatim, spelled, unquoted

NAMES = ("person", "zip", "trust", "fan", "age", "height", "note", "when")
SCHEMA = tb.Schema(
    {
        "person": tb.Id(),
        "zip": tb.Ignore("a code"),
        "trust": tb.Ordinal([1, 2, 3], missing={8: "Don't know", 9: "Refused"}),
        "fan": tb.Binary(true="Yes", values=("No", "Yes")),
        "age": tb.Continuous(),
        "height": tb.Continuous(),
        "note": tb.Ignore("text"),
        "when": tb.Ignore("a date"),
    }
)
ASKED = ("trust", "fan", "age", "height")
N_ROWS = 30
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
fewer = settings(few, max_examples=6)


# ---- files made of raw cells

safe = st.characters(codec="latin-1", exclude_categories=("Cc", "Cs"))
odd_text = st.one_of(
    st.sampled_from(
        ["n/a", "N/A", "02139", "+5", "1e5", "31.50", "01/02/2020", "None", "=1+1", " blank ", 'ab"c', "é", "-0"]
    ),
    st.text(st.one_of(safe, st.sampled_from(list(",;\t|\"'\n\r"))), max_size=8),
)


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def token(text: str, separator: str, always: bool) -> str:
    """A raw cell: in quotes where it needs them, or always."""
    needs = any(sign in text for sign in f"{separator}\r\n") or text.startswith('"')
    return quoted(text) if always or needs else text


@st.composite
def raw_tables(draw: Any, n_rows: int = 8, fan: tuple[str, ...] = ("Yes", "No", "Yes ", "")) -> dict[str, Any]:
    """The raw cells of a table, and how the file around them is written."""
    blank = ""
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    cells = {
        "person": st.integers(0, 999).map("{:04d}".format),
        "zip": st.integers(0, 99999).map("{:05d}".format),
        "trust": st.sampled_from(["1", "2", "3", "8", "9", " 2 ", blank]),
        "fan": st.sampled_from(fan),
        "age": st.sampled_from(["18", "33", "90", "45 ", blank, "NA"]),
        "height": st.sampled_from(["1.70", "1.85", "1.62", blank]),
        "note": odd_text,
        "when": st.dates().map(lambda day: f"{day.day:02d}/{day.month:02d}/{day.year}"),
    }
    rows = []
    for _ in range(n_rows):
        texts = {name: draw(strategy) for name, strategy in cells.items()}
        always = {name: draw(st.booleans()) for name in NAMES}
        rows.append([token(texts[name], separator, always[name] and texts[name] != "") for name in NAMES])
    end = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    encoding = "utf-8" if mark else draw(st.sampled_from(["utf-8", "cp1252", "utf-16"]))
    ends = [end * draw(st.sampled_from([1, 1, 1, 2])) for _ in range(n_rows)]
    ends[-1] = draw(st.sampled_from(["", end]))
    try:
        whole(separator, end, mark, encoding, rows, ends)
    except UnicodeEncodeError:
        encoding = "utf-8"
    return {"separator": separator, "end": end, "mark": mark, "encoding": encoding, "rows": rows, "ends": ends}


def whole(separator: str, end: str, mark: bytes, encoding: str, rows: Any, ends: Any, header: Any = NAMES) -> bytes:
    """The file of raw cells."""
    lines = [separator.join(header) + end] + [
        separator.join(row) + after for row, after in zip(rows, ends, strict=True)
    ]
    return mark + "".join(lines).encode(encoding)


def is_gap(raw: str) -> bool:
    return unquoted(raw).strip() in ("", "NA")


def values_of(data: bytes, raw: dict[str, Any]) -> list[list[str]]:
    """The cells of a file by Python's own reader, header included."""
    text = data[len(raw["mark"]) :].decode(raw["encoding"])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=raw["separator"])
    return [row for row in reader if row]


def expected(raw: dict[str, Any], out: bytes, extra: int = 0) -> bytes:
    """The file with what `out` has in the gaps of the questions (and in new columns at the right), raw otherwise."""
    found = values_of(out, raw)
    rows = []
    for before, after in zip(raw["rows"], found[1:], strict=True):
        row = list(before)
        for place, name in enumerate(NAMES):
            if name in ASKED and is_gap(row[place]) and after[place] != unquoted(row[place]):
                row[place] = quoted(after[place]) if row[place].startswith('"') else after[place]
        rows.append(row + after[len(NAMES) :])
    assert len(found[0]) == len(NAMES) + extra
    return whole(**{**raw, "rows": rows}, header=found[0])


FILLED = {"trust": 2, "fan": "No", "age": 41, "height": 1.7}


def by_hand(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its gaps filled without a model, as a user's own program may do."""
    return frame.assign(**{name: frame[name].astype(object).where(frame[name].notna(), FILLED[name]) for name in ASKED})


@few
@given(raw=raw_tables())
def test_text_files_keep_every_byte_but_the_gaps(tmp_path: Path, raw: dict[str, Any]) -> None:
    suffix = ".tsv" if raw["separator"] == "\t" else ".csv"
    path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    path.write_bytes(whole(**raw))
    frame, _ = tb.read(path)
    assert list(frame) == list(NAMES)
    filled = by_hand(frame)
    tb.write(filled, out, like=path)
    data = out.read_bytes()
    found = values_of(data, raw)
    assert data == expected(raw, data)
    for place, name in enumerate(NAMES):
        if name in ASKED:
            new = {row[place] for row, old in zip(found[1:], raw["rows"], strict=True) if is_gap(old[place])}
            assert {text.strip() for text in new} <= {str(FILLED[name]), "1.70"}
    tb.write(frame, out, like=path)  # nothing changed: the same file
    assert out.read_bytes() == path.read_bytes()
    tb.write(filled.assign(**{"a new one": range(len(filled))}), out, like=path)
    data = out.read_bytes()
    assert data == expected(raw, data, extra=1)
    assert [row[-1] for row in values_of(data, raw)] == ["a new one", *map(str, range(8))]


@few
@given(raw=raw_tables(n_rows=4))
def test_stacked_imputations_are_the_rows_again(tmp_path: Path, raw: dict[str, Any]) -> None:
    suffix = ".tsv" if raw["separator"] == "\t" else ".csv"
    path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    path.write_bytes(whole(**raw))
    frame, _ = tb.read(path)
    tb.write(tb.stack([by_hand(frame)] * 2, frame), out, like=path)
    found = values_of(out.read_bytes(), raw)
    assert found[0] == [".imp", ".id", *NAMES]
    assert [row[:2] for row in found[1:]] == [[str(draw), str(row + 1)] for draw in range(3) for row in range(4)]
    for number, row in enumerate(found[1:]):
        for old, new in zip(raw["rows"][number % 4], row[2:], strict=True):
            assert new == unquoted(old) or (is_gap(old) and number >= 4)


@few
@given(raw=raw_tables())
def test_other_formats_get_the_texts_of_the_file(tmp_path: Path, raw: dict[str, Any]) -> None:
    suffix = ".tsv" if raw["separator"] == "\t" else ".csv"
    path = tmp_path / f"in{suffix}"
    path.write_bytes(whole(**raw))
    frame, _ = tb.read(path)
    table = pq.read_table(tb.write(by_hand(frame), tmp_path / "out.parquet", like=path))
    for place, name in enumerate(NAMES):
        texts = [unquoted(row[place]) for row in raw["rows"]]
        cells = table[name].to_pylist()
        for text, cell in zip(texts, cells, strict=True):
            if text.strip() not in EMPTY:
                assert cell == (text if isinstance(cell, str) else float(text.replace(",", ".")))
        if name in ("person", "zip", "when"):
            assert cells == texts
        if name in ("trust", "age"):
            assert set(map(type, cells)) <= {int, str}


def test_odd_files_are_reproduced() -> None:
    """Old Mac line ends, UTF-16 of both orders, two header rows, a quote that is never closed in no cell."""
    plain = 'a,b\r1,x\r\r2,"y\r"\r'
    assert open_verbatim(plain.encode(), "f", 2, 2).column(1) == ["x", "y\r"]
    for encoding, mark in (
        ("utf-16-be", b"\xfe\xff"),
        ("utf-16-le", b"\xff\xfe"),
        ("utf-8", b"\xef\xbb\xbf"),
        ("cp1252", b""),
    ):
        data = mark + 'a;b\n\n"ü;";“x”\n'.encode(encoding)
        source = open_verbatim(data, "f", 1, 2)
        assert source.replaced({}, {}) == data
        assert source.replaced({0: {1: ("p;q", True)}}, {"c": ["1"]}) == mark + 'a;b;c\n\n"ü;";"p;q";1\n'.encode(
            encoding
        )
    two = open_verbatim(b"question,\none,two\n1,2\n", "f", 1, 2)
    assert (two.n_header, two.line_end) == (2, "\n")
    assert two.replaced({0: {0: ("3", True)}}, {"new": ["4"]}) == b"question,,new\none,two,\n3,2,4\n"
    with pytest.raises(tb.ThurboError, match='cp1252, which has no "ł"; save it as UTF-8'):
        open_verbatim("a;b\né;\n".encode("cp1252"), "f", 1, 2).replaced({0: {1: ("ł", True)}}, {})
    with pytest.raises(tb.ThurboError, match='row 0, column 1: the file has "2" in a cell that was read as empty'):
        open_verbatim(b"a,b\n1,2\n", "f", 1, 2).replaced({0: {1: ("3", False)}}, {})
    assert open_verbatim(b"a,b\n1,2\n", "f", 1, 2).replaced({0: {1: ("3", True)}}, {}) == b"a,b\n1,3\n"
    with pytest.raises(tb.ThurboError, match="are not those of the table"):
        open_verbatim(b"a,b\n1,2\n", "f", 1, 3)
    with pytest.raises(tb.ThurboError, match="without changing it"):
        open_verbatim(b"a,b\n1,2\n", "f", 2, 2)


@pytest.mark.parametrize(
    ("known", "values", "texts"),
    [
        ({1.5: "1.50", 2.0: "2.00"}, [3.25, 1.5, 4], ["3.25", "1.50", "4.00"]),
        ({1.5: "1,5", 2.5: "2,5"}, [3.5, 4.0], ["3,5", "4,0"]),
        ({True: "TRUE", False: "FALSE"}, [True, False], ["TRUE", "FALSE"]),
        ({}, [True, 3.0, 0.1, "x", float("nan")], ["true", "3", "0.1", "x", ""]),
        ({"Yes": "Yes ", 1: "1", 2.5: "2.5"}, ["Yes", 7, 1.25], ["Yes", "7", "1.25"]),
    ],
)
def test_new_cells_are_spelled_like_the_column(known: dict[Any, str], values: list[Any], texts: list[str]) -> None:
    assert spelled(values, known) == texts


def test_the_table_must_be_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(tb.ThurboError, match=r"2 rows and 1 columns, the file of like= has 1 and 2; give the file"):
        tb.write({"a": [1, 2]}, tmp_path / "out.csv", like=path)
    assert not (tmp_path / "out.csv").exists()


# ---- parquet, SPSS and Stata

arrow_columns = {
    pa.int8(): st.integers(-100, 100),
    pa.int64(): st.integers(-(2**62), 2**62),
    pa.uint16(): st.integers(0, 60000),
    pa.float32(): st.floats(-1e6, 1e6, width=32),
    pa.float64(): st.floats(-1e9, 1e9),
    pa.string(): odd_text,
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.decimal128(12, 2): st.decimals(-9999, 9999, places=2),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["low", "mid", "02139"]),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 9), max_size=3),
}


def test_a_column_of_empty_lists_is_no_option_of_a_question(tmp_path: Path) -> None:
    """Beside a column with one value and a name that begins alike, "[]" was its only text."""
    empty, one = pa.array([[], None, [], None, [None]], pa.list_(pa.int32())), [None, None, None, None, Decimal("0.00")]
    native = pa.table({"trust": [1, 2, None, 3, 1], "c0": pa.array(one, pa.decimal128(12, 2)), "c1": empty})
    pq.write_table(native, path := tmp_path / "in.parquet")
    frame, schema = tb.read(path)
    assert {"c0", "c1"} <= set(schema.names)
    out = pq.read_table(tb.write(frame, tmp_path / "out.parquet", like=path))
    assert out.to_pydict() == native.to_pydict()
    assert out.schema == native.schema


@few
@given(data=st.data(), suffix=st.sampled_from([".parquet", ".feather"]))
def test_columnar_files_keep_types_and_cells(tmp_path: Path, data: Any, suffix: str) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(arrow_columns)), min_size=1, max_size=4))
    columns = {
        f"c{place}": pa.array(data.draw(st.lists(st.none() | arrow_columns[kind], min_size=5, max_size=5)), kind)
        for place, kind in enumerate(kinds)
    }
    answers = data.draw(st.lists(st.none() | st.integers(1, 3), min_size=5, max_size=5))
    native = pa.table({"trust": pa.array(answers, pa.int16()), **columns}).replace_schema_metadata({"mine": "kept"})
    path = tmp_path / f"in{suffix}"
    if suffix == ".parquet":
        pq.write_table(native, path)
    else:
        from pyarrow import feather

        feather.write_feather(native, str(path))
    frame, _ = tb.read(path)
    filled = frame.assign(trust=frame["trust"].fillna(2), trust_imputed=frame["trust"].isna())
    out = pq.read_table(tb.write(filled, tmp_path / "out.parquet", like=path))
    assert out.schema.metadata[b"mine"] == b"kept"
    assert out.column_names == [*native.column_names, "trust_imputed"]
    assert out["trust"].type == pa.int16()
    assert out["trust"].to_pylist() == [2 if answer is None else answer for answer in answers]
    for name in columns:
        assert out[name].type == native[name].type
        assert out[name].to_pylist() == native[name].to_pylist()
    stacked = pq.read_table(tb.write(tb.stack([filled[["trust"]]], frame[["trust"]]), tmp_path / "s.parquet"))
    assert stacked["trust"].to_pylist() == [*answers, *out["trust"].to_pylist()]


@few
@given(data=st.data(), suffix=st.sampled_from([".sav", ".zsav", ".dta"]))
def test_statistical_files_keep_codes_texts_and_labels(tmp_path: Path, data: Any, suffix: str) -> None:
    def column(strategy: Any) -> list[Any]:
        return data.draw(st.lists(strategy, min_size=6, max_size=6))

    text = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=9)
    before = pd.DataFrame(
        {
            "trust": np.asarray(column(st.sampled_from([1.0, 2.0, 8.0, 9.0, np.nan])), float),
            "amount": np.asarray(column(st.floats(-1e6, 1e6) | st.just(np.nan)), float),
            "zip": [f"0{each}" for each in column(text)],
            "day": pd.to_datetime(column(st.dates(pd.Timestamp(1970, 1, 1).date(), pd.Timestamp(2030, 1, 1).date()))),
        }
    )
    path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    labels = {"trust": {1: "low", 2: "high", 8: "Don't know", 9: "Refused"}}
    names = {"trust": "How far?", "zip": "Where?"}
    write = pyreadstat.write_dta if suffix == ".dta" else pyreadstat.write_sav
    more: dict[str, Any] = (
        {}
        if suffix == ".dta"
        else {
            "missing_ranges": {"trust": [8.0, 9.0]},
            "variable_measure": {"trust": "ordinal", "amount": "scale"},
            "variable_format": {"trust": "F4.0", "amount": "F12.5"},
            "variable_display_width": {"trust": 12},
        }
    )
    write(before, str(path), variable_value_labels=labels, column_labels=names, **more)
    frame, schema = tb.read(path)
    filled = frame.assign(trust=frame["trust"].fillna(1.0))
    tb.write(filled, out, schema, like=path)
    read = pyreadstat.read_dta if suffix == ".dta" else pyreadstat.read_sav
    options = {"user_missing": True}
    (old, book), (new, again) = read(str(path), **options), read(str(out), **options)
    assert list(new) == list(old)
    gap = old["trust"].isna()
    assert (new["trust"][gap] == 1.0).all()
    for name in old:
        kept = ~gap if name == "trust" else slice(None)
        pd.testing.assert_series_equal(new[name][kept], old[name][kept], check_dtype=False)
    about = ("variable_value_labels", "column_names_to_labels", "missing_ranges", "missing_user_values")
    for attribute in (*about, "variable_measure", "variable_display_width", "original_variable_types"):
        assert getattr(again, attribute) == getattr(book, attribute), attribute


# ---- commands


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    on = rng.random(N_ROWS) < 0.5
    frame = pd.DataFrame(
        {
            "person": [f"{number:04d}" for number in range(N_ROWS)],
            "zip": "02139",
            "trust": np.where(on, 3, rng.integers(1, 3, N_ROWS)),
            "fan": np.where(on, "Yes", "No"),
            "age": 18 + 30 * on + rng.integers(0, 20, N_ROWS),
            "height": np.round(1.6 + 0.1 * on + 0.05 * rng.standard_normal(N_ROWS), 2),
            "note": "",
            "when": "",
        }
    )
    path = tmp_path_factory.mktemp("model") / "m.thurbo"
    tb.TBM(SCHEMA, n_hidden=2, n_factors=0, max_epochs=2, random_state=0, verbose=False).fit(frame).save(path)
    return path


def command(*arguments: Any) -> None:
    with contextlib.redirect_stderr(io.StringIO()) as said, pytest.raises(SystemExit) as stop:
        cli.main([str(each) for each in arguments])
    assert stop.value.code == 0, said.getvalue()


@fewer
@given(raw=raw_tables(fan=("Yes", "No", "n/a", "")))
def test_commands_keep_what_text_files_say(model: Path, tmp_path: Path, raw: dict[str, Any]) -> None:
    suffix = ".tsv" if raw["separator"] == "\t" else ".csv"
    path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    for number, row in enumerate(raw["rows"]):  # identifiers are unique
        row[0] = f"{number:03d}"
    path.write_bytes(whole(**raw))
    command("impute", model, path, "-o", out, "--quiet")
    data = out.read_bytes()
    assert data == expected(raw, data)
    found = values_of(data, raw)
    for row, old in zip(found[1:], raw["rows"], strict=True):
        for name, valid in (("trust", {"1", "2", "3"}), ("fan", {"Yes", "No"})):
            place = NAMES.index(name)
            assert not is_gap(old[place]) or row[place] in valid
        assert not is_gap(old[4]) or (row[4].isdigit() and 18 <= int(row[4]) <= 67)
        assert not is_gap(old[5]) or len(row[5].partition(".")[2]) == 2
    command("impute", model, path, "-o", out, "--flag", "--fill", "refused", "--fill", "n/a", "--quiet")
    for row, old in zip(values_of(out.read_bytes(), raw)[1:], raw["rows"], strict=True):
        for place, raw_cell in enumerate(old):
            said = unquoted(raw_cell)
            asked = NAMES[place] in ASKED and (is_gap(raw_cell) or said.strip() in ("9", "n/a"))
            assert (row[place] == said) or (asked and row[place] not in ("", "9", "n/a"))
    for each, more in (("transform", ()), ("score", ()), ("predict", ("--column", "age"))):
        command(each, model, path, "-o", tmp_path / "rows.csv", "--quiet", *more)
        with (tmp_path / "rows.csv").open(newline="") as stream:
            assert [row[0] for row in csv.reader(stream)] == ["person", *(row[0] for row in raw["rows"])]


@pytest.mark.parametrize("suffix", [".parquet", ".sav", ".dta"])
def test_commands_keep_what_other_files_say(model: Path, tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(
        {
            "person": ["0001", "0002", "0003", "0004"],
            "zip": ["02139", "00501", "10001", "02139"],
            "trust": pd.array([1, None, 9, 3], "Int64"),
            "fan": ["Yes", None, "No", "No"],
            "age": pd.array([None, 33, 45, 51], "Int64"),
            "height": [1.71, None, 1.655, 1.8],
            "note": ["n/a", " x", "ü", "None"],
            "when": pd.to_datetime(["2020-01-02"] * 4),
        }
    )
    path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pandas(frame), path)
    else:
        tb.write(frame, path, SCHEMA)
    command("impute", model, path, "-o", out, "--quiet")
    old, new = (read_native(each) for each in (path, out))
    assert list(new) == list(old)
    for name in old:
        assert str(new[name].dtype) == str(old[name].dtype)
        known = old[name].notna()
        assert new[name][known].tolist() == old[name][known].tolist()
        assert name not in ASKED or new[name].notna().all()
    assert new["trust"][2] == 9
    ages = new["age"].astype(float)
    assert (ages == ages.round()).all()
    command("impute", model, path, "-o", out, "--draws", "2", "--quiet")
    long = read_native(out)
    assert len(long) == 12
    for part in range(3):
        own = long.iloc[4 * part : 4 * part + 4].reset_index(drop=True)
        for name in old:
            known = old[name].notna()
            assert own[name][known].tolist() == old[name][known].tolist()


def test_rank_keeps_the_texts_of_rows(tmp_path: Path) -> None:
    orders = ["a > b", "b > c", "c > a > b", "b > a", "a > c", ""]
    people = ["007", "010", "100", "200", "300", "0400"]
    lines = [f"{person},{order}" for person, order in zip(people, orders, strict=True)]
    (tmp_path / "in.csv").write_text("\n".join(["person,films", *lines]))
    frame, _ = tb.read(tmp_path / "in.csv")
    own = tb.TBM({"person": tb.Id(), "films": tb.Ranking(["a", "b", "c"])}, n_hidden=1, max_epochs=0, verbose=False)
    own.fit(frame).save(tmp_path / "m.thurbo")
    command("rank", tmp_path / "m.thurbo", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--include-seen", "--quiet")
    with (tmp_path / "out.csv").open(newline="") as stream:
        assert [row[0] for row in csv.reader(stream)] == ["row", *np.repeat(people, 3).tolist()]
    (tmp_path / "items.csv").write_text("person,films\n100,b\n300,a\n")
    more = ("--items", tmp_path / "items.csv", "-o", tmp_path / "out.csv", "--include-seen", "--quiet")
    command("rank", tmp_path / "m.thurbo", tmp_path / "in.csv", *more)
    with (tmp_path / "out.csv").open(newline="") as stream:
        assert [row[:2] for row in csv.reader(stream)][1:] == [["100", "b"], ["300", "a"]]


def read_native(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    read = pyreadstat.read_dta if path.suffix == ".dta" else pyreadstat.read_sav
    frame, _ = read(str(path), user_missing=True)
    return frame.replace("", None)


def test_an_excerpt_of_a_published_survey(tmp_path: Path) -> None:
    """Long questions as names, cells with commas, empty cells: only the empty ones differ afterwards."""
    excerpt = Path(__file__).parent / "data" / "flying-etiquette-20.csv"
    frame, _ = tb.read(excerpt)
    seat = next(name for name in frame if "recline" in name.lower())
    filled = frame.assign(**{seat: frame[seat].fillna("Never")})
    tb.write(filled, tmp_path / "out.csv", like=excerpt)
    before, after = (list(csv.reader(path.open(newline=""))) for path in (excerpt, tmp_path / "out.csv"))
    place = before[0].index(seat)
    assert before[0] == after[0]
    assert any(row[place] == "" for row in before)
    for old, new in zip(before, after, strict=True):
        assert new == [("Never" if at == place and not cell else cell) for at, cell in enumerate(old)]
    assert len((tmp_path / "out.csv").read_bytes()) == excerpt.stat().st_size + sum(
        len("Never") for row in before if row[place] == ""
    )


def test_the_bundled_survey_is_copied_byte_for_byte(tmp_path: Path) -> None:
    path = Path(tb.__file__).parent / "table" / "datasets" / "starwars.csv"
    frame, _ = tb.read(path)
    assert tb.write(frame, tmp_path / "same.csv", like=path).read_bytes() == path.read_bytes()
    question = "Do you consider yourself to be a fan of the Star Wars film franchise?"
    filled = frame.assign(**{question: frame[question].fillna("filled in")})
    data = tb.write(filled, tmp_path / "filled.csv", like=path).read_bytes()
    assert data.replace(b"filled in", b"") == path.read_bytes()
    assert data.count(b"filled in") == frame[question].isna().sum()


@pytest.mark.slow
def test_a_large_file_takes_seconds(tmp_path: Path) -> None:
    """30,000 × 300 cells, a tenth of them replaced; half of the rows have quoted cells."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 10, (30_000, 300)).astype(str)
    cells[rng.random(cells.shape) < 0.1] = ""
    cells[::2, 7] = '"a, ""b"""'
    names = [f"q{place}" for place in range(300)]
    data = "\n".join(",".join(row) for row in [names, *cells.tolist()]).encode()
    begin = time.process_time()
    source = open_verbatim(data, "f", 30_000, 300)
    gaps: dict[int, dict[int, tuple[str, bool]]] = {}
    for row, column in np.argwhere(cells == "").tolist():
        gaps.setdefault(row, {})[column] = "5", False
    out = source.replaced(gaps, {})
    assert time.process_time() - begin < 30
    assert isinstance(source, Verbatim)
    expected_cells = np.where(cells == "", "5", cells)
    assert out == "\n".join(",".join(row) for row in [names, *expected_cells.tolist()]).encode()
