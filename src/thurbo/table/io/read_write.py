"""Read and write table files: .sav .zsav .por .dta .csv .tsv .parquet .feather.

Idea: the extension selects the reader or writer, and the code book goes with the frame. A completed table is compared
with the file that it came from, and only the cells that differ are replaced.
Guarantees a one-sentence error with a remedy for every file that cannot be read, and that an existing file is
unchanged if writing fails.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thurbo.errors import SchemaError, ThurboError
from thurbo.table.columns.cells import Cells
from thurbo.table.columns.values import frozen
from thurbo.table.io import frames
from thurbo.table.io.codebook import KEY, Codebook
from thurbo.table.io.files import destination, replacing
from thurbo.table.io.frames import Table, as_table, library_of
from thurbo.table.io.text import EMPTY, NOT_APPLICABLE, Verbatim, as_text, is_plain_number, open_verbatim, spelled

STATISTICAL = (".sav", ".zsav", ".por", ".dta")
TEXT = (".csv", ".tsv")
COLUMNAR = (".parquet", ".feather")
# First bytes of each file format, its extensions, and its name in messages.
_BEGINS = (
    (b"$FL2", (".sav", ".zsav"), "an SPSS file"),
    (b"$FL3", (".sav", ".zsav"), "a compressed SPSS file"),
    (b"<stata_dta>", (".dta",), "a Stata file"),
    (b"PAR1", (".parquet",), "a parquet file"),
    (b"ARROW1", (".feather",), "a feather file"),
    (b"FEA1", (".feather",), "a feather file"),
    (b"PK\x03\x04", (), "a spreadsheet or zip archive"),
    (b"\xd0\xcf\x11\xe0", (), "an old spreadsheet"),
    (b"\x1f\x8b", (), "a gzip archive"),
    (b"%PDF", (), "a PDF"),
)


def read_frame(path: str | os.PathLike[str], *, separator: str | None = None, encoding: str | None = None) -> Any:
    """Read a file as a pandas frame, with its code book in `frame.attrs`."""
    where, suffix = _checked(path)
    if suffix in TEXT:
        need("pandas", "pyarrow")
        from thurbo.table.io.text import read_text

        data = read_bytes(where)
        frame, book = read_text(data, str(path), separator or ("\t" if suffix == ".tsv" else None), encoding)
    elif suffix in COLUMNAR:
        need("pandas", "pyarrow")
        frame, book = _read_columnar(where, str(path))
    else:
        need("pandas", "pyreadstat")
        from thurbo.table.io.codebook import read_statistical, statistical_error

        try:
            frame, book = read_statistical(str(where), suffix, encoding)
        except ThurboError:
            raise
        except MemoryError:
            raise ThurboError(
                f'cannot read "{path}": it does not fit in memory; use a machine with more memory'
            ) from None
        except Exception as error:  # pyreadstat raises many kinds of errors
            raise statistical_error(error, str(path)) from None
    if book:
        frame.attrs[KEY] = book.to_text()
    return frame


def need(*packages: str) -> None:
    """Raise an error with the install command if a package for reading and writing files is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ThurboError(
                f"reading and writing files needs {package}, which is not installed; run pip install 'thurbo[files]'"
            )


def known(path: str | os.PathLike[str], kinds: tuple[str, ...]) -> str:
    """The extension of a path; raises if it is not one of `kinds`."""
    suffix = Path(path).suffix.lower()
    if suffix not in kinds:
        problem = f'"{suffix}" is not a table format' if suffix else "the name has no extension"
        raise ThurboError(f'unknown format of "{path}": {problem}; use one of {" ".join(kinds)}')
    return suffix


def _checked(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file and its extension; raises if the first bytes belong to another format."""
    where = Path(path)
    if where.is_dir():
        raise ThurboError(f'cannot read "{path}": it is a directory; give the name of a file')
    if not where.exists():
        raise ThurboError(f'cannot read "{path}": there is no such file; check its name')
    suffix = known(path, (*STATISTICAL, *TEXT, *COLUMNAR))
    start = read_bytes(where, 16)
    for begins, kinds, what in _BEGINS:
        if start.startswith(begins) and suffix not in kinds:
            remedy = f"rename it to {kinds[0]}" if kinds else "unpack it, or save it as .csv"
            raise ThurboError(f'"{path}" is {what}, not {suffix}; {remedy}')
    if not start and suffix not in TEXT:
        raise ThurboError(f'cannot read "{path}": it is empty; copy it again')
    expected = [begins for begins, kinds, _ in _BEGINS if suffix in kinds]
    if expected and suffix != ".dta" and not any(start.startswith(begins) for begins in expected):
        raise ThurboError(f'"{path}" is not a {suffix} file; check its extension, or export it again')
    return where, suffix


def read_bytes(where: Path, most: int = -1) -> bytes:
    """The content of a file, or its first bytes."""
    try:
        with where.open("rb") as stream:
            return stream.read(most)
    except OSError as error:
        raise ThurboError(f'cannot read "{where}": {error.strerror or error}; check its permissions') from None


def read_arrow(where: Path) -> Any:
    """A parquet or feather file as an arrow table."""
    from pyarrow import feather, parquet

    return parquet.read_table(where) if where.suffix.lower() == ".parquet" else feather.read_table(where)


def _read_columnar(where: Path, path: str) -> tuple[Any, Codebook]:
    try:
        table = read_arrow(where)
        found = (table.schema.metadata or {}).get(KEY.encode())
        for name in {name for name in table.column_names if table.column_names.count(name) > 1}:
            raise SchemaError("more than one column has this name", column=name, remedy="rename the others")
        return table.to_pandas(), Codebook.from_text(found)
    except ThurboError:
        raise
    except Exception as error:  # arrow's own errors, and Python's if the metadata is damaged
        reason = " ".join(str(error).split()).rstrip(".")
        raise ThurboError(f'cannot read "{path}": {reason}; it may be truncated: copy or write it again') from None


STARTS = ("=", "+", "-", "@", "\t", "\r")


def escaped_text(text: str) -> str:
    """The text, with an apostrophe in front if it looks like a formula."""
    return f"'{text}" if text.startswith(STARTS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    """Whether a text is a signed number, also with a decimal comma: a spreadsheet program reads it as such."""
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return "_" not in text


MOST_SPELLINGS = 1000  # values of a column whose text in the file is looked up
STACKED = (".imp", ".id")  # columns of multiple imputations


def like_file(frame: Any, before: Any, like: Path, suffix: str) -> Any:
    """What to write for a table that was made from a file: bytes of text, or a table; `before` is the file as read."""
    old, new, kind = as_table(before), as_table(frame), like.suffix.lower()
    parts = _parts(old, new)
    if kind in TEXT:
        source = verbatim(like, old)
        if suffix == kind:
            return _text(source, old, parts, new)
        return _texts_as_table(source, old, parts, frame)
    return _replaced_in_arrow(read_arrow(like), old, parts, new) if kind in COLUMNAR else frame


def verbatim(like: Path, old: Table) -> Verbatim:
    """The text of a file that was read as this table."""
    separator = "\t" if like.suffix.lower() == ".tsv" else None
    return open_verbatim(read_bytes(like), str(like), old.n_rows, len(old.names), separator)


def with_texts(
    frame: Any, like: Path, identifiers: Iterable[str], answers: Iterable[str] = (), always: bool = False
) -> tuple[Any, dict[str, Any]]:
    """A table of a text file, with the texts of its identifiers ("007") and of "n/a" among its answers.

    Also the spellings of "n/a" by column, which say that a question does not apply; they were read as empty cells.
    Identifiers that are plain numbers stay numbers, but for `always`.
    """
    old = as_table(frame)
    source, columns, found = verbatim(like, old), {}, {}
    for name in identifiers:
        if name in old:
            texts, cells = source.column(old.places[name]), old.cells(name)
            told = [text for text, gone in zip(texts, cells.missing, strict=True) if not gone]
            if always or cells.values.dtype.kind not in "iuf" or not all(map(is_plain_number, told)):
                columns[name] = np.asarray([*texts, None], object)[:-1]
                columns[name][cells.missing] = None
    if "n/a" in source.text or "N/A" in source.text:
        for name in answers:
            if name not in old:
                continue
            cells = old.cells(name)
            rows = [
                row for row in np.flatnonzero(cells.missing) if _says_not_applicable(source, int(row), old.places[name])
            ]
            if rows:
                said = {row: source.value(int(row), old.places[name]) for row in rows}
                columns[name] = cells.values.astype(object)
                columns[name][cells.missing] = None
                for row, text in said.items():
                    columns[name][row] = text.strip()
                found[name] = tuple(dict.fromkeys(text.strip() for text in said.values()))
    return frames.with_columns(frame, columns) if columns else frame, found


def _says_not_applicable(source: Verbatim, row: int, column: int) -> bool:
    return NOT_APPLICABLE.fullmatch(source.value(row, column)) is not None


def changed(before: Cells, after: Cells) -> np.ndarray:
    """Cells that differ, a missing cell from an observed one included: [row]."""
    found = before.missing != after.missing
    rows = np.flatnonzero(~before.missing & ~after.missing)
    if before.values.dtype.kind in "biufmM" and after.values.dtype.kind in "biufmM":
        found[rows] = before.values[rows] != after.values[rows]
        return found
    pairs = zip(before.values[rows].tolist(), after.values[rows].tolist(), strict=True)
    found[rows] = np.fromiter((_comparable(old) != _comparable(new) for old, new in pairs), bool, len(rows))
    return found


def _comparable(cell: Any) -> Any:
    """A hashable value that equals itself: a gap in a list is None, since NaN is not equal to NaN."""
    value = frozen(cell)
    if isinstance(value, tuple):
        return tuple(map(_comparable, value))
    return None if isinstance(value, float) and np.isnan(value) else value


Part = dict[str, tuple[np.ndarray, Cells]]  # by column: which rows changed, and the new cells


def _parts(old: Table, new: Table) -> list[Part]:
    """The cells that changed, once for a table, and once for each imputation of a stacked one."""
    numbers = [0] if new.n_rows == old.n_rows else []
    if not numbers and set(STACKED) <= set(new.names) and old.n_rows and new.n_rows % old.n_rows == 0:
        numbers = list(range(new.n_rows // old.n_rows))
    if not numbers or any(name not in new for name in old.names):
        problem = f"the table has {new.n_rows} rows and {len(new.names)} columns"
        wanted = f"the file of like= has {old.n_rows} and {len(old.names)}"
        raise ThurboError(f"{problem}, {wanted}; give the file that the table was read from")
    found: list[Part] = [{} for _ in numbers]
    for name in old.names:
        before, after = old.cells(name), new.cells(name)
        for number in numbers:
            rows = slice(number * old.n_rows, (number + 1) * old.n_rows)
            own = Cells(name, after.values[rows], after.missing[rows], before.rows)
            differs = changed(before, own)
            if differs.any():
                found[number][name] = differs, own
    return found


def _text(source: Verbatim, old: Table, parts: list[Part], new: Table) -> bytes:
    draws = [_new_texts(source, old, part) for part in parts]
    over = _answered(old, draws)
    if len(draws) > 1:
        return source.stacked(draws[1:], over)
    added = {name: _marks(new.cells(name)) for name in new.names if name not in old}
    return source.replaced(draws[0], added, over)


def _answered(old: Table, draws: Iterable[Mapping[int, Mapping[int, str]]]) -> set[tuple[int, int]]:
    """Row and column of new texts that replace an answer or a declared missing value, as the table says."""
    found: set[tuple[int, int]] = set()
    for draw in draws:
        for place, texts in draw.items():
            missing = old.cells(old.names[place]).missing
            found |= {(row, place) for row in texts if not missing[row]}
    return found


def _new_texts(source: Verbatim, old: Table, part: Part) -> dict[int, dict[int, str]]:
    """The text of the cells that were filled in, by position of the column and by row."""
    found: dict[int, dict[int, str]] = {}
    for name, (differs, cells) in part.items():
        place, rows = old.places[name], np.flatnonzero(differs & ~cells.missing)
        texts = spelled(cells.values[rows].tolist(), _spellings(source, old.cells(name), place))
        observed = ~old.cells(name).missing
        new = {}
        for row, text in zip(rows.tolist(), texts, strict=True):
            # Texts that were read otherwise, such as the identifier 007 and "n/a", are the same in the file.
            may_be_same = observed[row] or NOT_APPLICABLE.fullmatch(text)
            if not may_be_same or source.value(row, place).strip() != text.strip():
                new[row] = text
        if new:
            found[place] = new
    return found


def _spellings(source: Verbatim, cells: Cells, place: int) -> dict[Any, str]:
    """How the file writes the values of a column: the text of the first cell of each."""
    distinct, which = cells.hashable().factorise()
    codes, first = np.unique(which, return_index=True)
    pairs = [(code, row) for code, row in zip(codes.tolist(), first.tolist(), strict=True) if code >= 0]
    return {distinct[code]: source.value(row, place) for code, row in pairs[:MOST_SPELLINGS]}


def _marks(cells: Cells) -> list[str]:
    """A new column as text: true and false, numbers with four digits, nothing in missing cells."""
    pairs = zip(cells.values.tolist(), cells.missing.tolist(), strict=True)
    return ["" if gone else _mark(value) for value, gone in pairs]


def _mark(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _texts_as_table(source: Verbatim, old: Table, parts: list[Part], frame: Any) -> Any:
    """The table for another format: numbers that are written as such, and the texts of the file otherwise."""
    columns: dict[str, np.ndarray] = {}
    new = [_new_texts(source, old, part) for part in parts]
    for place, (name, texts) in enumerate(zip(old.names, source.columns(), strict=True)):
        cells = old.cells(name)
        told = [text for text in texts if text.strip() not in EMPTY]
        if cells.values.dtype.kind in "iuf" and all(map(is_plain_number, told)):
            continue
        found: list[Any] = []
        for number, draw in enumerate(new):
            own = {**dict(enumerate(texts)), **draw.get(place, {})}
            gone = parts[number][name][1].missing if name in parts[number] else np.zeros(old.n_rows, bool)
            empty = [own[row].strip() in EMPTY or (gone[row] and len(new) > 1) for row in range(old.n_rows)]
            found += [None if empty[row] else own[row] for row in range(old.n_rows)]
        columns[name] = np.asarray([*found, None], object)[:-1]
    return frames.with_columns(frame, columns) if columns else frame


def _replaced_in_arrow(native: Any, old: Table, parts: list[Part], new: Table) -> Any:
    """The table of a parquet or feather file with cells replaced; types and metadata of the file are kept."""
    import pyarrow as pa
    import pyarrow.compute as pc

    tables = []
    for number, part in enumerate(parts):
        table = native
        for name, (differs, cells) in part.items():
            fill = differs & ~cells.missing
            if fill.any():
                table = frames.replace_cells(table, {name: cells.values}, {name: fill})
            gone = differs & cells.missing
            if gone.any():
                at, column = table.column_names.index(name), table[name]
                kept = pc.if_else(pa.array(~gone), column, pa.scalar(None, column.type))
                table = table.set_column(at, table.field(at), kept)
        if len(parts) > 1:
            rows = np.arange(1, old.n_rows + 1)
            table = table.add_column(0, ".id", pa.array(rows)).add_column(
                0, ".imp", pa.array(np.full_like(rows, number))
            )
        tables.append(table.replace_schema_metadata(native.schema.metadata))
    if len(parts) > 1:
        return pa.concat_tables(tables, promote_options="permissive")
    added = {name: new.cells(name) for name in new.names if name not in old}
    for name, cells in added.items():
        tables[0] = tables[0].append_column(name, pa.array(cells.values, mask=cells.missing))
    return tables[0]


def described(missing: Iterable[Any], texts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Declared missing values with the spellings of "n/a" added."""
    known = tuple(missing)
    new = dict.fromkeys(text for own in texts.values() for text in own if text not in {value for value, _ in known})
    return (*known, *((text, "n/a") for text in new))


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
    from thurbo.table.io.codebook import write_error, write_statistical

    try:
        write_statistical(frame, str(path), suffix, book)
    except (ThurboError, OSError):
        raise
    except Exception as error:  # pyreadstat raises many kinds of errors
        raise write_error(error, target) from None
