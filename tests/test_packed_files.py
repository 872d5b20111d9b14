"""Spreadsheets and archives of one file are read as the text file with the same cells."""

from __future__ import annotations

import bz2
import datetime
import gzip
import lzma
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import thurbo as tb
from thurbo.app.cli import main

HERE = Path(__file__).parent / "data" / "surveys"
ROWS: list[list[Any]] = [
    ["person", "trust", "age", "fan", "when"],
    *(
        [f"p{row:02d}", ["low", "mid", "high"][row % 3], 20 + row, row % 2 == 0, datetime.date(2020, 1, 1 + row)]
        for row in range(25)
    ),
    ["p25", None, 33.5, None, None],
]


def column(place: int) -> str:
    return (chr(64 + place // 26) if place >= 26 else "") + chr(65 + place % 26)


def write_xlsx(path: Path, sheets: dict[str, Sequence[Sequence[Any]]], hidden: Sequence[str] = ()) -> Path:
    """A workbook with inline texts, numbers, booleans and dates."""

    def cell(row: int, place: int, value: Any) -> str:
        at = f'r="{column(place)}{row}"'
        if value is None:
            return ""
        if isinstance(value, bool):
            return f'<c {at} t="b"><v>{int(value)}</v></c>'
        if isinstance(value, datetime.date):
            return f'<c {at} s="1"><v>{(value - datetime.date(1899, 12, 30)).days}</v></c>'
        if isinstance(value, (int, float)):
            return f"<c {at}><v>{value}</v></c>"
        return f'<c {at} t="inlineStr"><is><t xml:space="preserve">{escape(str(value))}</t></is></c>'

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    listed, relations, types = "", "", ""
    with zipfile.ZipFile(path, "w") as book:
        for number, (name, rows) in enumerate(sheets.items(), 1):
            body = "".join(
                f'<row r="{row}">{"".join(cell(row, place, value) for place, value in enumerate(cells))}</row>'
                for row, cells in enumerate(rows, 1)
            )
            book.writestr(
                f"xl/worksheets/sheet{number}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>',
            )
            state = ' state="hidden"' if name in hidden else ""
            listed += f'<sheet name="{name}" sheetId="{number}"{state} r:id="r{number}"/>'
            relations += (
                f'<Relationship Id="r{number}" Type="{office}/worksheet" Target="worksheets/sheet{number}.xml"/>'
            )
            types += (
                f'<Override PartName="/xl/worksheets/sheet{number}.xml" '
                'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
            )
        styles = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
        book.writestr("xl/styles.xml", f'<styleSheet xmlns="{main}">{styles}</styleSheet>')
        book.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>'
        )
        relations += f'<Relationship Id="s" Type="{office}/styles" Target="styles.xml"/>'
        book.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}/relationships">{relations}</Relationships>'
        )
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        book.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
            f'ContentType="application/xml"/>{types}</Types>',
        )
    return path


def write_ods(path: Path, name: str, rows: Sequence[Sequence[Any]]) -> Path:
    def cell(value: Any) -> str:
        if value is None:
            return "<table:table-cell/>"
        if isinstance(value, bool):
            return f'<table:table-cell office:value-type="boolean" office:boolean-value="{str(value).lower()}"/>'
        if isinstance(value, datetime.date):
            return f'<table:table-cell office:value-type="date" office:date-value="{value.isoformat()}"/>'
        if isinstance(value, (int, float)):
            return f'<table:table-cell office:value-type="float" office:value="{value}"/>'
        return f'<table:table-cell office:value-type="string"><text:p>{escape(str(value))}</text:p></table:table-cell>'

    body = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    spaces = " ".join(
        f'xmlns:{each}="urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"' for each in ("office", "table", "text")
    )
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
        book.writestr("META-INF/manifest.xml", f'<manifest:manifest xmlns:manifest="{manifest}"/>')
        content = f'<office:document-content {spaces} office:version="1.2"><office:body><office:spreadsheet>'
        content += f'<table:table table:name="{name}">{body}</table:table>'
        content += "</office:spreadsheet></office:body></office:document-content>"
        book.writestr("content.xml", content)
    return path


def write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    frame = pd.DataFrame(rows[1:], columns=rows[0], dtype=object)
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", [".xlsx", ".ods"])
def test_a_spreadsheet_is_read_as_the_text_with_its_cells(tmp_path: Path, kind: str) -> None:
    expected, schema = tb.read(write_csv(tmp_path / "t.csv", ROWS))
    if kind == ".xlsx":
        path = write_xlsx(tmp_path / "t.xlsx", {"Data": ROWS, "notes": [["do not read"]], "secret": ROWS}, ["secret"])
    else:
        path = write_ods(tmp_path / "t.ods", "Data", ROWS)
    frame, found = tb.read(path)
    assert_frame_equal(frame, expected)
    assert found == schema


def test_header_rows_of_a_spreadsheet_are_those_of_its_tool(tmp_path: Path) -> None:
    text = (HERE / "region-midwest.csv").read_text(encoding="latin-1").splitlines()
    import csv

    rows = [[cell or None for cell in row] for row in csv.reader(text)]
    path = write_xlsx(tmp_path / "m.xlsx", {"Sheet": rows})
    _, schema = tb.read(path)
    assert schema["Gender"].labels == ("Female", "Male")
    assert schema == tb.read(HERE / "region-midwest.csv")[1]


def test_the_sheet_is_asked_for_where_several_have_tables(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "t.xlsx", {"May": ROWS, "June": ROWS[:9]})
    with pytest.raises(tb.ThurboError, match=r"tables in 2 sheets; give sheet=, one of May, June"):
        tb.read(path)
    assert len(tb.read(path, sheet="June")[0]) == 8
    with pytest.raises(tb.ThurboError, match='no sheet "July"; use one of May, June'):
        tb.read(path, sheet="July")
    with pytest.raises(tb.ThurboError, match="needs a spreadsheet"):
        tb.read(write_csv(tmp_path / "t.csv", ROWS), sheet="June")


def test_a_sheet_with_nearly_all_cells_is_the_table(tmp_path: Path) -> None:
    notes = [["column", "meaning"], ["trust", "in people"]]
    path = write_xlsx(tmp_path / "t.xlsx", {"Notes": notes, "Data": ROWS})
    with pytest.warns(tb.SchemaWarning, match='tables in 2 sheets; "Data" is read') as said:
        frame, _ = tb.read(path)
    assert len(frame) == len(ROWS) - 1
    assert said[0].filename == __file__
    assert len(tb.read(path, sheet="Notes")[0]) == 1


def test_archives_of_one_file_are_read_as_that_file(tmp_path: Path) -> None:
    plain = write_csv(tmp_path / "t.csv", ROWS)
    parquet = tb.write(tb.read(plain)[0][["trust", "age"]], tmp_path / "t.parquet")
    sav = tb.write(tb.read(plain)[0][["trust", "age"]], tmp_path / "t.sav")
    for source in (plain, parquet, sav):
        expected, schema = tb.read(source)
        for ending, pack in ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
            path = tmp_path / f"{source.name}{ending}"
            path.write_bytes(pack(source.read_bytes()))
            frame, found = tb.read(path)
            assert_frame_equal(frame, expected)
            assert found == schema
        path = tmp_path / f"{source.stem}{source.suffix[1:]}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(source, f"folder/{source.name}")
            archive.writestr("__MACOSX/._t", b"")
        assert_frame_equal(tb.read(path)[0], expected)


def test_imputed_cells_of_an_archive_are_written_as_its_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b'person,trust\n"p1",low\n"p2",\n'))
    frame, _ = tb.read(path)
    frame["trust"] = ["low", "mid"]
    assert tb.write(frame, tmp_path / "full.csv", like=path).read_bytes() == b'person,trust\n"p1",low\n"p2",mid\n'
    sheet = write_xlsx(tmp_path / "t.xlsx", {"Data": [["person", "trust"], ["p1", "low"], ["p2", None]]})
    assert tb.read(tb.write(frame, tmp_path / "new.csv", like=sheet))[0]["trust"].tolist() == ["low", "mid"]
    for name in ("full.xlsx", "full.csv.gz", "full.ods"):
        with pytest.raises(tb.ThurboError, match=r'" files are read, but not written; use one of \.sav'):
            tb.write(frame, tmp_path / name, like=path)
        assert not (tmp_path / name).exists()


def test_the_command_line_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (write_xlsx(tmp_path / "t.xlsx", {"Data": ROWS}), tmp_path / "u.csv.xz"):
        if path.suffix == ".xz":
            path.write_bytes(lzma.compress(write_csv(tmp_path / "t.csv", ROWS).read_bytes()))
        with pytest.raises(SystemExit) as done:
            main(["check", str(path)])
        assert done.value.code == 0
        assert "3 questions modelled" in capsys.readouterr()[0]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.xlsx", b"PK\x03\x04 and so on", r"cannot read .*save it as \.csv"),
        ("t.xlsx", b"a,b\n1,2\n", r"is not a \.xlsx file"),
        ("t.csv.gz", b"a,b\n1,2\n", "copy it again"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 9)[:-12], "copy it again"),
        ("t.csv.xz", b"a,b\n1,2\n", "copy it again"),
        ("t.zip", b"a,b\n1,2\n", "copy it again"),
        ("t.gz", gzip.compress(b"a,b\n1,2\n"), "no extension"),
        ("t.txt.gz", gzip.compress(b"a,b\n1,2\n"), r'"\.txt" is not a table format'),
    ],
)
def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(tb.ThurboError, match=message) as caught:
        tb.read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with pytest.raises(tb.ThurboError, match="has 2 files; unpack it"):
        tb.read(tmp_path / "t.zip")
