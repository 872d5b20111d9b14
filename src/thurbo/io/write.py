"""Write tables to files: .sav .zsav .dta .csv .tsv .parquet .feather, completely or not at all.

Idea: the extension selects the writer; the code book is stored in every format that supports one.
Guarantees that an existing file is unchanged if writing fails, and that lists become text in .csv and .tsv.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thurbo.errors import ThurboError
from thurbo.io.codebook import KEY, Codebook
from thurbo.io.files import destination, replacing
from thurbo.io.formulas import escaped_text
from thurbo.io.read import COLUMNAR, TEXT, known, need
from thurbo.io.table import as_table

WRITTEN = (".sav", ".zsav", ".dta", *TEXT, *COLUMNAR)


def write_frame(
    frame: Any, path: str | os.PathLike[str], book: Codebook, formulas: Literal["keep", "escape"] = "keep"
) -> Path:
    """Write a table of any library with its code book; returns the path."""
    suffix = known(path, WRITTEN)
    final = destination(path)
    need("pandas", "pyarrow" if suffix in COLUMNAR + TEXT else "pyreadstat")
    own = _pandas(frame)
    try:
        with replacing(final) as temporary:
            if suffix in TEXT:
                _write_text(own, temporary, "\t" if suffix == ".tsv" else ",", formulas == "escape")
            elif suffix in COLUMNAR:
                _write_columnar(own, temporary, suffix, book)
            else:
                _write_statistical(own, temporary, suffix, book, str(path))
    except OSError as error:
        raise ThurboError(f'cannot write "{path}": {error.strerror or error}; check the disk') from error
    return Path(path)


def _pandas(X: Any) -> Any:
    """Any table as a new pandas frame, so that the user's table is not changed."""
    import pandas as pd

    source = as_table(X)
    if source.kind == "pandas":
        return X.copy()
    if source.kind in ("numpy", "dict"):
        return pd.DataFrame({name: source.read(place)[0] for name, place in source.places.items()})
    import narwhals as nw

    return nw.from_native(source.native, eager_only=True).to_pandas().copy()


def _write_text(frame: Any, path: Path, separator: str, escape: bool = False) -> None:
    import pyarrow as pa
    from pyarrow import csv

    columns = {}
    for name in frame.columns:
        series = frame[name]
        try:
            columns[str(name)] = pa.array(series.map(as_text, na_action="ignore") if series.dtype == object else series)
            if pa.types.is_dictionary(columns[str(name)].type):
                columns[str(name)] = columns[str(name)].dictionary_decode()
            if pa.types.is_nested(columns[str(name)].type):
                raise pa.ArrowInvalid("text files have no lists")
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # cells of several types, intervals, statements
            cells = [None if gone else str(as_text(cell)) for cell, gone in zip(series, series.isna(), strict=True)]
            columns[str(name)] = pa.array(cells, pa.string())
    if escape:
        columns = {escaped_text(name): _escaped(cells) for name, cells in columns.items()}
    options = csv.WriteOptions(delimiter=separator, quoting_style="needed")
    csv.write_csv(pa.table(columns), path, options)


def _escaped(cells: Any) -> Any:
    """A column of text with formulas escaped; other columns unchanged."""
    import pyarrow as pa

    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells
    return pa.array([None if cell is None else escaped_text(cell) for cell in cells.to_pylist()], pa.string())


def as_text(cell: Any) -> Any:
    """A list as text that columns can read: "a; b" for options, "a > b = c" for an order."""
    if isinstance(cell, np.ndarray) and cell.ndim:
        cell = cell.tolist()
    if not isinstance(cell, (list, tuple)):
        return cell
    if any(isinstance(tier, (list, tuple)) for tier in cell):
        tiers = [tier if isinstance(tier, (list, tuple)) else [tier] for tier in cell]
        return " > ".join(" = ".join(map(str, tier)) for tier in tiers)
    return "; ".join(map(str, cell))


def _write_columnar(frame: Any, path: Path, suffix: str, book: Codebook) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    try:
        arrow = pa.Table.from_pandas(frame)
        if book:
            # In addition to pandas' attrs, which other programs may drop.
            arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), KEY: book.to_text()})
        if suffix == ".parquet":
            parquet.write_table(arrow, path)
        else:
            feather.write_feather(arrow, path)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ThurboError(f"cannot write the table: {reason}; give each column cells of one type") from None


def _write_statistical(frame: Any, path: Path, suffix: str, book: Codebook, target: str) -> None:
    from thurbo.io.statistical import write_error, write_statistical

    try:
        write_statistical(frame, str(path), suffix, book)
    except (ThurboError, OSError):
        raise
    except Exception as error:  # pyreadstat raises many kinds of errors
        raise write_error(error, target) from None
