"""Tables of every library: the same cells in, the same library out.

Idea: one table of values, written as pandas, polars, arrow, dict and array, must read alike.
Promises that replaced frames keep observed cells and dtypes.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.column_cases import CASES, Case
from thurbo.errors import SchemaError
from thurbo.table.columns.values import plain
from thurbo.table.io import frames
from thurbo.table.io.frames import Table, as_table, library_of

COLUMNS: dict[str, list[Any]] = {
    "number": [1.5, None, -2.0],
    "whole": [1, None, 3],
    "text": ["a", None, ""],
    "flag": [True, None, False],
}
MAKERS: dict[str, Any] = {
    "pandas": lambda data: pd.DataFrame(data, index=[f"r{i}" for i in range(len(next(iter(data.values()))))]),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "dict": dict,
    "numpy": lambda data: np.asarray([list(row) for row in zip(*data.values(), strict=True)], object),
}
each_library = pytest.mark.parametrize("library", MAKERS)


def read(source: Table, place: int) -> list[Any]:
    cells = source.cells(source.names[place])
    return [None if gone else plain(value) for value, gone in zip(cells.values.tolist(), cells.missing, strict=True)]


@each_library
def test_same_cells_from_every_library(library: str) -> None:
    native = MAKERS[library](COLUMNS)
    source = as_table(native)
    assert library_of(native) == source.kind == library
    assert source.names == (("x0", "x1", "x2", "x3") if library == "numpy" else tuple(COLUMNS))
    assert source.n_rows == 3
    for place, expected in enumerate(COLUMNS.values()):
        assert read(source, place) == expected
    assert source.rows.tolist() == (["r0", "r1", "r2"] if library == "pandas" else [0, 1, 2])
    assert as_table(source) is source


@each_library
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.column.sites == ("",) and not case.loose], ids=lambda case: case.name
)
def test_every_column_reads_alike_from_every_library(library: str, case: Case) -> None:
    source = as_table(MAKERS[library]({"q": case.cells}))
    cells = source.cells(source.names[0])
    column = case.column.fit(cells)
    block = column.encode(cells)
    assert block.observed[:, 0].tolist() == [cell is not None for cell in case.cells]
    if case.labels:
        places = [-1 if cell is None else case.labels.index(cell) for cell in case.cells]
        assert column.codes(block).tolist() == places


MISSING: list[Any] = [
    pd.DataFrame({"q": [1.0, np.nan]}),
    pd.DataFrame({"q": pd.array([1, pd.NA], "Int64")}),
    pd.DataFrame({"q": pd.array([1.5, None], "Float32")}),
    pd.DataFrame({"q": pd.array([True, pd.NA], "boolean")}),
    pd.DataFrame({"q": pd.Series(["a", np.nan], dtype=object)}),
    pd.DataFrame({"q": pd.Series([1, pd.NA], dtype=object)}),
    pd.DataFrame({"q": ["a", None]}),
    pd.DataFrame({"q": pd.array(["a", None], "string")}),
    pd.DataFrame({"q": pd.Categorical(["a", None])}),
    pd.DataFrame({"q": pd.Categorical([1, None])}),
    pd.DataFrame({"q": [pd.Timestamp("2020"), pd.NaT]}),
    pd.DataFrame({"q": pd.array([1, None], pd.ArrowDtype(pa.int64()))}),
    pl.DataFrame({"q": [1.0, float("nan")]}),
    pl.DataFrame({"q": [1.0, None]}),
    pl.DataFrame({"q": [datetime.date(2020, 1, 1), None]}),
    pl.DataFrame({"q": ["a", None]}, schema={"q": pl.Categorical}),
    pa.table({"q": [1.0, float("nan")]}),
    pa.table({"q": pa.array(["a", None]).dictionary_encode()}),
    np.asarray([[1.0], [np.nan]], np.float32),
    np.asarray([["a"], [None]], object),
    np.asarray([[1], [pd.NA]], object),
    np.asarray([["2020-01-01"], ["NaT"]], "datetime64[D]"),
    np.ma.MaskedArray([[1], [2]], [[False], [True]]),
    {"q": [1, None]},
    {"q": ["a", float("nan")]},
    {"q": (True, None)},
    {"q": pd.Series([1.0, np.nan])},
    [[1], [None]],
]


@pytest.mark.parametrize("native", MISSING, ids=lambda native: type(native).__name__)
def test_missing_is_missing_however_it_is_written(native: Any) -> None:
    source = as_table(native)
    assert source.cells(source.names[0]).missing.tolist() == [False, True]


@pytest.mark.parametrize(
    "native",
    [
        pd.DataFrame({"q": pd.Categorical(["lo", None], ["lo", "mid", "hi"], ordered=True)}),
        pl.DataFrame({"q": ["lo", None]}, schema={"q": pl.Enum(["lo", "mid", "hi"])}),
        pa.table(
            {"q": pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["lo", "mid", "hi"]), ordered=True)}
        ),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_order_of_categories_is_read_and_kept(native: Any) -> None:
    source = as_table(native)
    assert source.cells("q").ordered_levels == ("lo", "mid", "hi")
    filled = as_table(frames.replace_cells(native, {"q": np.asarray(["hi", "mid"], object)}))
    assert filled.cells("q").ordered_levels == ("lo", "mid", "hi")
    assert read(filled, 0) == ["lo", "mid"]
    drawn = as_table(frames.like(native, {"q": np.asarray(["hi", "lo", "hi"], object)}))
    assert read(drawn, 0) == ["hi", "lo", "hi"]
    if source.kind != "pyarrow":
        assert drawn.cells("q").ordered_levels == ("lo", "mid", "hi")


def test_unordered_categories_have_no_order() -> None:
    assert as_table(pd.DataFrame({"q": pd.Categorical(["a"])})).cells("q").ordered_levels is None
    assert as_table(pl.DataFrame({"q": ["a"]}, schema={"q": pl.Categorical})).cells("q").ordered_levels is None


def test_arrays_keep_their_dtype_and_take_names() -> None:
    for dtype in (bool, np.int16, np.float32, np.float64):
        assert as_table(np.zeros((2, 1), dtype)).cells("x0").values.dtype == dtype
    assert as_table(np.zeros((2, 2)), ["a", "b"]).names == ("a", "b")
    assert as_table(pd.DataFrame({"c": [1]}), ["a"]).names == ("c",)
    assert as_table([[1, "a"], [2, "b"]]).cells("x0").values.dtype == np.int64
    assert as_table(pd.DataFrame(np.zeros((1, 2)))).names == ("0", "1")


BAD: list[tuple[Any, tuple[str, ...]]] = [
    (lambda: as_table(np.zeros(3)), ("Expected 2D array, got 1D array", "Reshape your data")),
    (lambda: as_table([1, 2]), ("Expected 2D array",)),
    (lambda: as_table([[1, 2], [3]]), ("row 1", "1 cells", "2")),
    (lambda: as_table(np.zeros((1, 1), complex)), ("Complex data not supported",)),
    (lambda: as_table(np.zeros((1, 2)), ["a"]), ("1 names", "2 columns")),
    (lambda: as_table(np.zeros((1, 2)), ["a", "a"]), ('column "a"', "rename")),
    (lambda: as_table(pd.DataFrame([[1, 2]], columns=["a", "a"])), ('column "a"', "rename")),
    (lambda: as_table(pd.DataFrame([[1, 2]], columns=[1, "1"])), ('column "1"', "rename")),
    (lambda: as_table(pa.table([[1], [2]], names=["a", "a"])), ('column "a"', "rename")),
    (lambda: as_table({"a": [1], "b": [1, 2]}), ('column "b"', "2 cells", "same length")),
    (lambda: as_table({"a": "text"}), ('column "a"', "one cell per row")),
    (lambda: as_table({"a": np.zeros((2, 2))}), ('column "a"', "2 dimensions")),
    (lambda: as_table(pd.Series([1])), ("Series", "to_frame")),
    (lambda: as_table(pl.Series([1])), ("Series", "polars")),
    (lambda: as_table(pl.LazyFrame({"a": [1]})), ("LazyFrame", ".collect()")),
    (lambda: as_table(3), ("int", "pandas")),
    (lambda: as_table(None), ("NoneType", "pandas")),
    (lambda: as_table({"age": [1]}).cells("agee"), ('column "agee"', 'did you mean "age"?')),
]


@pytest.mark.parametrize(("make", "parts"), BAD, ids=[" ".join(parts)[:40] for _, parts in BAD])
def test_bad_tables_are_explained(make: Any, parts: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert caught.value.remedy


@each_library
def test_replace_fills_missing_cells_only(library: str) -> None:
    native = MAKERS[library](COLUMNS)
    source = as_table(native)
    new: dict[str, Any] = {
        source.names[0]: np.asarray([9.0, 8.0, 7.0]),
        source.names[1]: np.asarray([9, 8, 7]),
        source.names[2]: np.asarray(["x", "y", "z"], object),
        source.names[3]: np.asarray([False, False, True]),
    }
    before = [read(source, place) for place in range(4)]
    filled = frames.replace_cells(native, new)
    assert type(filled) is type(native)
    again = as_table(filled)
    expected = [[1.5, 8.0, -2.0], [1, 8, 3], ["a", "y", ""], [True, False, False]]
    assert [read(again, place) for place in range(4)] == expected
    assert [read(as_table(native), place) for place in range(4)] == before, "the input is not changed"
    if library == "pandas":
        assert filled.index.equals(native.index)
        assert list(filled.dtypes) == list(native.dtypes)
    if library == "polars":
        assert filled.schema == native.schema
    if library == "pyarrow":
        assert filled.schema.types == native.schema.types


@pytest.mark.parametrize(
    ("native", "values", "dtype"),
    [
        (pd.DataFrame({"q": pd.array([1, None], "Int64")}), [0, 2], "Int64"),
        (pd.DataFrame({"q": pd.array([1, None], "Int64")}), [0.0, 2.0], "Int64"),
        (pd.DataFrame({"q": pd.array([1, None], "Int64")}), [0.0, 2.5], "Float64"),
        (pd.DataFrame({"q": pd.array([True, None], "boolean")}), [False, True], "boolean"),
        (pd.DataFrame({"q": np.asarray([1, np.nan], np.float32)}), [0.0, 0.1], "float32"),
        (pd.DataFrame({"q": pd.Categorical(["a", None], ["b", "a"])}), ["x", "b"], "category"),
        (pd.DataFrame({"q": pd.Categorical(["a", None])}), ["x", "new"], "category"),
        (pd.DataFrame({"q": pd.array(["a", None], "string")}), ["x", "b"], "string"),
        (pl.DataFrame({"q": [1, None]}, schema={"q": pl.Int16}), [0.0, 2.0], "Int16"),
        (pl.DataFrame({"q": [1, None]}), [0.0, 2.5], "Float64"),
        (pl.DataFrame({"q": [1.0, float("nan")]}, schema={"q": pl.Float32}), [0.0, 0.5], "Float32"),
        (pl.DataFrame({"q": ["a", None]}, schema={"q": pl.Enum(["a"])}), ["x", "new"], "Enum"),
        (pa.table({"q": pa.array([1, None], pa.int16())}), [0.0, 2.0], "int16"),
        (np.asarray([[1.0], [np.nan]], np.float32), [0.0, 2.5], "float32"),
    ],
)
def test_replace_keeps_the_dtype_where_it_can(native: Any, values: list[Any], dtype: str) -> None:
    filled = frames.replace_cells(native, {as_table(native).names[0]: np.asarray(values)})
    kept, new = read(as_table(filled), 0)
    assert kept == read(as_table(native), 0)[0]
    assert new == pytest.approx(values[1])
    if isinstance(filled, np.ndarray):
        assert filled.dtype == dtype
    else:
        column = filled["q"]
        assert str(column.type if isinstance(filled, pa.Table) else column.dtype).startswith(dtype)


@each_library
def test_replace_where_told(library: str) -> None:
    native = MAKERS[library]({"q": [1, 2, 3]})
    name = as_table(native).names[0]
    where = {name: np.asarray([True, False, False])}
    assert read(as_table(frames.replace_cells(native, {name: np.asarray([9, 9, 9])}, where)), 0) == [9, 2, 3]


@each_library
def test_build_gives_the_library_that_came_in(library: str) -> None:
    native = MAKERS[library](COLUMNS)
    data = {"h0": np.asarray([0.1, np.nan, 0.3]), "label": np.asarray(["a", None, "b"], object)}
    made = frames.like(native, data)
    assert type(made) is type(native)
    source = as_table(made)
    assert read(source, 0) == [0.1, None, 0.3]
    assert read(source, 1) == ["a", None, "b"]
    if library == "pandas":
        assert made.index.equals(native.index)
        assert frames.like(native, {"h": np.zeros(2)}).index.tolist() == [0, 1]
        assert frames.like(native, {"h": np.zeros(2)}, rows=["a", "b"]).index.tolist() == ["a", "b"]
    if library == "numpy":
        assert frames.like(native, {"a": np.zeros(2), "b": np.ones(2)}).dtype == np.float64


@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(st.none() | st.text(max_size=5), min_size=1, max_size=6)
    | st.lists(st.none() | st.integers(-(2**50), 2**50), min_size=1, max_size=6)
    | st.lists(st.none() | st.booleans(), min_size=1, max_size=6),
    library=st.sampled_from([name for name in MAKERS if name != "numpy"]),
)
def test_any_column_reads_back(cells: list[Any], library: str) -> None:
    source = as_table(MAKERS[library]({"q": cells}))
    trimmed = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
    assert read(source, 0) == trimmed


def test_importing_frames_imports_no_dataframe_library() -> None:
    heavy = "{'pandas', 'polars', 'pyarrow', 'jax', 'narwhals'}"
    code = f"import sys, thurbo.table.io.frames, thurbo.table.schema; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
