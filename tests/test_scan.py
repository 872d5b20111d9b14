"""Tables in pieces: the same rows wherever they come from, samples with every label, errors that name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.errors import SchemaError, ThurboError
from thurbo.table.io import scan as scanning
from thurbo.table.io.frames import as_table
from thurbo.table.io.scan import TableSource

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
N = 130


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "PIECE", 16)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"age": rng.integers(18, 90, N).astype(float), "fan": rng.choice(["yes", "no"], N)})
    found["party"] = "a"
    found.loc[[40, 77], "party"] = ["b", "c"]  # labels of one row each
    return found.mask(rng.random(found.shape) < 0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files with row groups of different sizes, none of them that of a piece."""
    arrow = pa.Table.from_pandas(table(), preserve_index=False)
    parquet.write_table(arrow.slice(0, 50), tmp_path / "a.parquet", row_group_size=23)
    parquet.write_table(arrow.slice(50), tmp_path / "b.parquet", row_group_size=7)
    return tmp_path


def cells(source: scanning.RowSource, *span: int) -> list[list]:
    """All cells of some rows, None where they are empty."""
    found: list[list] = [[] for _ in source.names]
    for part in source.tables(*span):
        for place, name in enumerate(source.names):
            own = part.cells(name)
            found[place] += [None if gone else v for v, gone in zip(own.values.tolist(), own.missing, strict=True)]
    return found


def test_pieces_do_not_depend_on_row_groups(folder: Path) -> None:
    scanned, held = tb.scan(folder), TableSource(as_table(table()))
    assert scanned.n_rows == len(scanned) == held.n_rows == N
    assert cells(scanned) == cells(held)
    assert cells(scanned, 5, 71) == cells(held, 5, 71)
    sizes = [part.n_rows for part in scanned.tables(5, 71)]
    assert sizes == [part.n_rows for part in held.tables(5, 71)] == [11, 16, 16, 16, 7]
    assert [part.rows[0] for part in scanned.tables(5, 71)] == [5, 16, 32, 48, 64]


def test_a_sample_has_every_label(folder: Path) -> None:
    scanned, held = tb.scan(folder), TableSource(as_table(table()))
    index = scanned.draw(20, seed=3)
    assert np.array_equal(index, held.draw(20, seed=3))
    assert (np.diff(index) > 0).all()
    assert set(scanned.take(index).cells("party").values) >= {"a", "b", "c"}
    allowed = np.arange(N) % 2 == 0
    assert (held.draw(20, 3, allowed) % 2 == 0).all()
    assert len(held.draw(1000, seed=0)) == N
    taken = scanned.take(index)
    assert taken.rows.tolist() == index.tolist()
    assert len(scanned.sample(7)) == 7


def test_whatever_has_rows_can_be_scanned(folder: Path, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    arrow = pa.Table.from_pandas(table(), preserve_index=False)
    expected = cells(tb.scan(folder))
    dataset = pytest.importorskip("pyarrow.dataset").dataset(folder)
    sources = [f"{folder}/*.parquet", [folder / "a.parquet", folder / "b.parquet"], dataset, arrow, arrow.to_reader()]
    sources += [lambda: arrow.to_reader(), polars.from_arrow(arrow), polars.from_arrow(arrow).lazy()]
    for each in sources:
        assert cells(tb.scan(each)) == expected
    assert tb.scan(arrow, columns=["fan"]).names == ("fan",)
    assert tb.scan(tb.scan(arrow)).n_rows == N


def test_a_temporary_file_is_removed_with_its_scan() -> None:
    scanned = tb.scan(pa.table({"a": [1, 2]}))
    path = Path(scanned._files[0])
    assert path.exists()
    del scanned
    assert not path.exists()


def test_what_cannot_be_scanned_is_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("a\n1\n")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    empty = tmp_path / "empty"
    empty.mkdir()
    wanted = {
        tmp_path / "text.csv": "tb.read",
        tmp_path / "none.parquet": "no such file",
        empty: "without .parquet files",
    }
    wanted |= {f"{tmp_path}/no*.parquet": "no file has a name", tmp_path / "bad.parquet": "cannot read", 3: "int"}
    for each, message in wanted.items():
        with pytest.raises(ThurboError, match=message):
            tb.scan(each)
    (tmp_path / "bad.parquet").unlink()
    parquet.write_table(pa.table({"age": [1]}), folder / "c.parquet")
    with pytest.raises(SchemaError, match='"fan"'):
        tb.scan(folder)
    with pytest.raises(SchemaError, match="the files have"):
        tb.scan(folder / "a.parquet", columns=["fame"])


def test_the_index_of_a_frame_is_no_column_and_labels_are_kept(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0]}, index=["x", "y"])
    frame.to_parquet(tmp_path / "own.parquet")
    assert tb.scan(tmp_path / "own.parquet").names == ("age",)
    schema = tb.Schema({"fan": tb.Binary(names={1: "Yes", 2: "No"}, true=1)})
    tb.write({"fan": [1, 2, 1]}, tmp_path / "labels.parquet", schema)
    assert tb.Schema.infer(tb.scan(tmp_path / "labels.parquet"))["fan"].texts == ("No", "Yes")


def test_an_error_names_file_row_group_and_row(folder: Path) -> None:
    scanned = tb.scan(folder)
    schema = tb.Schema({"party": tb.Categorical(["a", "b"])})

    def read() -> None:
        start = 0
        for part in scanned.tables():
            with scanned.locating(part, schema.row_names, start):
                schema.compile(part)
            start += part.n_rows

    message = r'row 6 of row group 3 of ".*b.parquet", column "party": category "c" is not one of a, b'
    with pytest.raises(SchemaError, match=message):
        read()
    assert schema.infer(scanned).names == ("age", "fan", "party")


def test_a_scan_is_not_a_table_in_memory(folder: Path) -> None:
    with pytest.raises(SchemaError, match=r"fit in memory, for instance \.sample"):
        as_table(tb.scan(folder))


def test_marks_say_whether_rows_are_the_same(folder: Path) -> None:
    scanned = tb.scan(folder)
    assert scanned.mark(0, 50) == tb.scan(folder).mark(0, 50) != scanned.mark(50, N)
    before = scanned.mark(0, 50)
    parquet.write_table(pa.table({"age": [1.0], "fan": ["no"], "party": ["a"]}), folder / "a.parquet")
    assert tb.scan(folder).mark(0, 50) != before
    held = TableSource(as_table(table()))
    assert held.mark(0, 9) == TableSource(as_table(table())).mark(0, 9)
    assert held.mark(0, 9) != TableSource(as_table(table().assign(age=1.0))).mark(0, 9)


def test_errors_of_a_stream_reach_the_user_as_they_are() -> None:
    """An error that a generator of batches raises keeps its type and words."""
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("q1", pa.int64())])

    def batches() -> Any:
        yield pa.record_batch([pa.array([1, 2, 3])], schema=schema)
        raise tb.ThurboError("line 7 of the log cannot be read")

    with pytest.raises(tb.ThurboError, match=r"^line 7 of the log cannot be read"):
        tb.scan(lambda: pa.RecordBatchReader.from_batches(schema, batches())).schema
