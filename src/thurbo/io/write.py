"""Write tables to files: .sav .zsav .dta .csv .tsv .parquet .feather, completely or not at all.

Idea: the extension selects the writer; the code book is stored in every format that supports one.
Guarantees that an existing file is unchanged if writing fails, and that lists become text in .csv and .tsv.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from thurbo.errors import ThurboError
from thurbo.io.codebook import KEY, Codebook
from thurbo.io.files import destination, replacing
from thurbo.io.formulas import escaped_text
from thurbo.io.read import COLUMNAR, TEXT, known, need, read_frame
from thurbo.io.rewrite import like_file
from thurbo.io.table import as_table, library_of
from thurbo.io.verbatim import as_text

WRITTEN = (".sav", ".zsav", ".dta", *TEXT, *COLUMNAR)


def write_frame(
    frame: Any,
    path: str | os.PathLike[str],
    book: Codebook,
    like: str | os.PathLike[str] | None = None,
    formulas: Literal["keep", "escape"] = "keep",
) -> Path:
    """Write a table of any library with its code book, or as a changed copy of the file `like`; returns the path."""
    suffix = known(path, WRITTEN)
    final = destination(path)
    need("pandas", "pyarrow" if suffix in COLUMNAR + TEXT else "pyreadstat")
    own = frame if like is None else like_file(frame, read_frame(like), Path(like), suffix)
    try:
        with replacing(final) as temporary:
            if isinstance(own, bytes):
                temporary.write_bytes(own)
            elif suffix in TEXT:
                _write_text(
                    _arrow(own, as_words=True), temporary, "\t" if suffix == ".tsv" else ",", formulas == "escape"
                )
            elif suffix in COLUMNAR:
                _write_columnar(own, temporary, suffix, book)
            else:
                _write_statistical(_pandas(own), temporary, suffix, book, str(path))
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


def _arrow(X: Any, as_words: bool = False) -> Any:
    """Any table as an arrow table; `as_words` without categories and lists, which text files do not have.

    Tables of polars and arrow do not go through pandas, which turns integers with missing cells into floats.
    """
    import pyarrow as pa

    if library_of(X) in ("pandas", "numpy", "dict"):
        frame = _pandas(X)
        if not as_words:
            return pa.Table.from_pandas(frame)
        columns = {str(name): _column(frame[name]) for name in frame.columns}
    else:
        import narwhals as nw

        table = nw.from_native(X, eager_only=True).to_arrow()
        columns = dict(zip(table.column_names, table.columns, strict=True))
        if not as_words:
            return table
    return pa.table({name: _words(column) for name, column in columns.items()})


def _column(series: Any) -> Any:
    """A pandas column as an arrow column; text if it has cells of several types, intervals or statements."""
    import pyarrow as pa

    try:
        return pa.array(series.map(as_text, na_action="ignore") if series.dtype == object else series)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        cells = [None if gone else str(as_text(cell)) for cell, gone in zip(series, series.isna(), strict=True)]
        return pa.array(cells, pa.string())


def _words(column: Any) -> Any:
    """An arrow column without categories and lists."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_nested(column.type):
        return pa.array([None if cell is None else str(as_text(cell)) for cell in column.to_pylist()], pa.string())
    return column


def _write_text(table: Any, path: Path, separator: str, escape: bool = False) -> None:
    import pyarrow as pa
    from pyarrow import csv

    if escape:
        names = [escaped_text(name) for name in table.column_names]
        table = pa.table(dict(zip(names, map(_escaped, table.columns), strict=True)))
    csv.write_csv(table, path, csv.WriteOptions(delimiter=separator, quoting_style="needed"))


def _escaped(cells: Any) -> Any:
    """A column of text with formulas escaped; other columns unchanged."""
    import pyarrow as pa

    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells
    return pa.array([None if cell is None else escaped_text(cell) for cell in cells.to_pylist()], pa.string())


def _write_columnar(frame: Any, path: Path, suffix: str, book: Codebook) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    try:
        arrow = _arrow(frame)
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
