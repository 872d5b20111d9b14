"""Read and write table files: .sav .zsav .por .dta .csv .tsv .parquet .feather; read .xlsx .ods and archives of one.

Idea: the extension selects the reader or writer, and the code book goes with the frame. A completed table is compared
with the file that it came from, and only the cells that differ are replaced.
Guarantees a one-sentence error with a remedy for every file that cannot be read, and that an existing file is
unchanged if writing fails.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thurbo.errors import SchemaError, ThurboError
from thurbo.table.columns.cells import Cells
from thurbo.table.columns.values import blanked, frozen, is_number_text
from thurbo.table.io import frames
from thurbo.table.io.codebook import KEY, Codebook, read_statistical, statistical_error, write_statistical
from thurbo.table.io.files import ARCHIVES, content, destination, inside, replacing
from thurbo.table.io.frames import Table, as_table, library_of
from thurbo.table.io.text import (
    EMPTY,
    NOT_APPLICABLE,
    Verbatim,
    as_delimited,
    as_text,
    is_plain_number,
    open_verbatim,
    read_text,
    spelled,
)

STATISTICAL = (".sav", ".zsav", ".por", ".dta")
TEXT = (".csv", ".tsv")
COLUMNAR = (".parquet", ".feather")
SHEETS = (".xlsx", ".xlsm", ".ods")
WRITTEN = (".sav", ".zsav", ".dta", *TEXT, *COLUMNAR)
# First bytes of each file format, its extensions, and its name in messages.
_BEGINS = (
    (b"$FL2", (".sav", ".zsav"), "an SPSS file"),
    (b"$FL3", (".sav", ".zsav"), "a compressed SPSS file"),
    (b"<stata_dta>", (".dta",), "a Stata file"),
    (b"PAR1", (".parquet",), "a parquet file"),
    (b"ARROW1", (".feather",), "a feather file"),
    (b"FEA1", (".feather",), "a feather file"),
    (b"PK\x03\x04", (".xlsx", ".xlsm", ".ods"), "a spreadsheet or zip archive"),
    (b"\xd0\xcf\x11\xe0", (), "an old spreadsheet"),
    (b"\x1f\x8b", (), "a gzip archive"),
    (b"%PDF", (), "a PDF"),
)


def read_frame(
    path: str | os.PathLike[str], *, separator: str | None = None, encoding: str | None = None, sheet: str | None = None
) -> Any:
    """Read a file as a pandas frame, with its code book in `frame.attrs`."""
    where, suffix = _checked(path)
    if sheet is not None and suffix not in SHEETS:
        raise ThurboError(f'sheet="{sheet}" needs a spreadsheet, and "{path}" is a {suffix} file; leave it out')
    need("pandas", "pyreadstat" if suffix in STATISTICAL else "pyarrow")
    if suffix in SHEETS:
        need("python_calamine")
        frame, book = read_text(as_delimited(content(where), str(path), sheet), str(path), ",", "utf-8")
    elif suffix in TEXT:
        separator = separator or ("\t" if suffix == ".tsv" else None)
        frame, book = read_text(content(where), str(path), separator, encoding)
    elif suffix in COLUMNAR:
        with readable(str(path), Exception):  # arrow's own errors, and Python's if the metadata is damaged
            table = read_arrow(where)
            column_names(table.schema)
            frame, book = table.to_pandas(), Codebook.of_arrow(table.schema)
    else:
        try:
            with tempfile.TemporaryDirectory() as folder:  # the reader needs a path
                plain = where
                if where.suffix.lower() in ARCHIVES:
                    plain = Path(folder) / f"table{suffix}"
                    plain.write_bytes(content(where))
                frame, book = read_statistical(str(plain), suffix, encoding)
        except ThurboError:
            raise
        except MemoryError:
            problem = f'cannot read "{path}": it does not fit in memory'
            raise ThurboError(f"{problem}; use a machine with more memory") from None
        except Exception as error:  # pyreadstat raises many kinds of errors
            raise statistical_error(error, str(path), "read") from None
    if book:
        frame.attrs[KEY] = book.to_text()
    return frame


def need(*packages: str) -> None:
    """Raise an error with the install command if a package for reading and writing files is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            problem = f"reading and writing files needs {package}, which is not installed"
            raise ThurboError(f"{problem}; run pip install 'thurbo[files]'")


def format_of(path: str | os.PathLike[str]) -> str:
    """The extension of a file, or of the file that an archive holds."""
    where = Path(path)
    return Path(inside(where) if where.exists() else where).suffix.lower()


def known(path: str | os.PathLike[str], kinds: tuple[str, ...], suffix: str | None = None) -> str:
    """The extension of a path, unless it is given; raises if it is not one of `kinds`."""
    suffix = Path(path).suffix.lower() if suffix is None else suffix
    if suffix not in kinds:
        problem = f'"{suffix}" is not a table format' if suffix else "the name has no extension"
        if suffix in (*SHEETS, *ARCHIVES):
            problem = f'"{suffix}" files are read, but not written'
        raise ThurboError(f'unknown format of "{path}": {problem}; use one of {" ".join(kinds)}')
    return suffix


def _checked(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file and its extension; raises if the first bytes belong to another format."""
    where = Path(path)
    if where.is_dir():
        raise ThurboError(f'cannot read "{path}": it is a directory; give the name of a file')
    if not where.exists():
        raise ThurboError(f'cannot read "{path}": there is no such file; check its name')
    suffix = known(path, (*STATISTICAL, *TEXT, *COLUMNAR, *SHEETS), format_of(path))
    start = content(where, 16)
    for begins, kinds, what in _BEGINS:
        if start.startswith(begins) and suffix not in kinds:
            sure = [kind for kind in kinds if kind not in SHEETS]
            remedy = f"rename it to {sure[0]}" if sure else "unpack it, or save it as .csv"
            raise ThurboError(f'"{path}" is {what}, not {suffix}; {remedy}')
    if not start and suffix not in TEXT:
        raise ThurboError(f'cannot read "{path}": it is empty; copy it again')
    expected = [begins for begins, kinds, _ in _BEGINS if suffix in kinds]
    if expected and suffix != ".dta" and not any(start.startswith(begins) for begins in expected):
        raise ThurboError(f'"{path}" is not a {suffix} file; check its extension, or export it again')
    return where, suffix


def read_arrow(where: Path) -> Any:
    """A parquet or feather file as an arrow table."""
    from pyarrow import feather, parquet

    source: Any = io.BytesIO(content(where)) if where.suffix.lower() in ARCHIVES else where
    return parquet.read_table(source) if format_of(where) == ".parquet" else feather.read_table(source)


def column_names(schema: Any) -> list[str]:
    """Names of the columns of an Arrow schema, without the index of a pandas frame; raises if two are the same."""
    about = schema.pandas_metadata or {}
    index = {each for each in about.get("index_columns", ()) if isinstance(each, str)}
    names = [name for name in schema.names if name not in index]
    for name in {name for name in names if names.count(name) > 1}:
        raise SchemaError("more than one column has this name", column=name, remedy="rename the others")
    return names


def reason(error: Exception) -> str:
    """What an error of Arrow says, in one line."""
    return " ".join(str(error).split()).rstrip(".")


@contextlib.contextmanager
def readable(path: str, *others: type[Exception]) -> Iterator[None]:
    """Errors of Arrow, or of other kinds, about a file in one sentence."""
    import pyarrow as pa

    try:
        yield
    except ThurboError:
        raise
    except (pa.ArrowException, OSError, *others) as error:
        problem = f'cannot read "{path}": {reason(error)}'
        raise ThurboError(f"{problem}; it may be truncated: copy or write it again") from None


def escaped_text(text: str) -> str:
    """The text, with an apostrophe in front if it looks like a formula."""
    # A spreadsheet program reads a signed number as such, also with a decimal comma.
    is_number = is_number_text(text.replace(",", "")) and "_" not in text
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not is_number else text


MOST_SPELLINGS = 1000  # values of a column whose text in the file is looked up
STACKED = (".imp", ".id")  # columns of multiple imputations


def verbatim(like: Path, old: Table) -> Verbatim:
    """The text of a file that was read as this table."""
    separator = "\t" if format_of(like) == ".tsv" else None
    return open_verbatim(content(like), str(like), old.n_rows, len(old.names), separator)


def with_texts(
    frame: Any, like: Path, identifiers: Iterable[str], answers: Iterable[str] = (), always: bool = False
) -> tuple[Any, dict[str, Any]]:
    """A table of a text file, with the texts of its identifiers ("007") and of "n/a" among its answers.

    Also the spellings of "n/a" by column, which say that a question does not apply; they were read as empty cells.
    Identifiers that are plain numbers stay numbers, but for `always`.
    """
    old = as_table(frame)
    source, columns, found = verbatim(like, old), {}, {}
    for name in filter(old.__contains__, identifiers):
        texts, cells = source.column(old.places[name]), old.cells(name)
        told = [text for text, gone in zip(texts, cells.missing, strict=True) if not gone]
        if always or cells.values.dtype.kind not in "iuf" or not all(map(is_plain_number, told)):
            columns[name] = blanked(np.asarray([*texts, None], object)[:-1], cells.missing)
    for name in filter(old.__contains__, answers if "n/a" in source.text or "N/A" in source.text else ()):
        cells = old.cells(name)
        empty = {row: source.value(row, old.places[name]) for row in np.flatnonzero(cells.missing).tolist()}
        said = {row: text.strip() for row, text in empty.items() if NOT_APPLICABLE.fullmatch(text)}
        if said:
            columns[name] = blanked(cells.values.astype(object), cells.missing)
            columns[name][list(said)] = list(said.values())
            found[name] = tuple(dict.fromkeys(said.values()))
    return frames.with_columns(frame, columns) if columns else frame, found


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


def _new_texts(source: Verbatim, old: Table, part: Part) -> dict[int, dict[int, tuple[str, bool]]]:
    """The text of the cells that were filled in, by row and column, and whether it replaces an answer."""
    found: dict[int, dict[int, tuple[str, bool]]] = {}
    for name, (differs, cells) in part.items():
        place, rows, before = old.places[name], np.flatnonzero(differs & ~cells.missing), old.cells(name)
        distinct, which = before.hashable().factorise()  # the file's text of the first cell of each value
        firsts = zip(*(each.tolist() for each in np.unique(which, return_index=True)), strict=True)
        known = [(distinct[code], row) for code, row in firsts if code >= 0][:MOST_SPELLINGS]
        texts = spelled(cells.values[rows].tolist(), {value: source.value(row, place) for value, row in known})
        for row, text in zip(rows.tolist(), texts, strict=True):
            # Texts that were read otherwise, such as the identifier 007 and "n/a", are the same in the file.
            observed = not before.missing[row]
            may_be_same = observed or NOT_APPLICABLE.fullmatch(text)
            if not may_be_same or source.value(row, place).strip() != text.strip():
                found.setdefault(row, {})[place] = text, observed
    return found


def _marks(cells: Cells) -> list[str]:
    """A new column as text: true and false, numbers with four digits, nothing in missing cells."""

    def mark(value: Any, gone: bool) -> str:
        if isinstance(value, bool) and not gone:
            return "true" if value else "false"
        return "" if gone else f"{value:.4g}" if isinstance(value, float) else str(value)

    return list(map(mark, cells.values.tolist(), cells.missing.tolist()))


def _texts_as_table(source: Verbatim, old: Table, parts: list[Part], draws: list[Any], frame: Any) -> Any:
    """The table for another format: numbers that are written as such, and the texts of the file otherwise."""
    columns: dict[str, np.ndarray] = {}
    for place, (name, texts) in enumerate(zip(old.names, source.columns(), strict=True)):
        told = [text for text in texts if text.strip() not in EMPTY]
        if old.cells(name).values.dtype.kind in "iuf" and all(map(is_plain_number, told)):
            continue
        found: list[Any] = []
        for part, draw in zip(parts, draws, strict=True):
            own = [draw.get(row, {}).get(place, (text, True))[0] for row, text in enumerate(texts)]
            gone = part[name][1].missing if name in part and len(parts) > 1 else np.zeros(old.n_rows, bool)
            found += [None if text.strip() in EMPTY or out else text for text, out in zip(own, gone, strict=True)]
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
            table = table.add_column(0, ".id", pa.array(rows))
            table = table.add_column(0, ".imp", pa.array(np.full_like(rows, number)))
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
    own = frame
    if like is not None:
        old, new, kind = as_table(read_frame(like)), as_table(frame), format_of(like)
        parts = _parts(old, new)
        if kind in COLUMNAR:
            own = _replaced_in_arrow(read_arrow(Path(like)), old, parts, new)
        elif kind in TEXT:
            source = verbatim(Path(like), old)
            draws = [_new_texts(source, old, part) for part in parts]
            if suffix != kind:
                own = _texts_as_table(source, old, parts, draws, frame)
            elif len(draws) > 1:
                own = source.stacked(draws[1:])
            else:
                added = {name: _marks(new.cells(name)) for name in new.names if name not in old}
                own = source.replaced(draws[0], added)
    try:
        with replacing(final) as temporary:
            if isinstance(own, bytes):
                temporary.write_bytes(own)
            elif suffix in TEXT:
                _write_text(own, temporary, "\t" if suffix == ".tsv" else ",", formulas == "escape")
            elif suffix in COLUMNAR:
                _write_columnar(own, temporary, suffix, book)
            else:
                try:
                    write_statistical(_pandas(own), str(temporary), suffix, book)
                except (ThurboError, OSError):
                    raise
                except Exception as error:  # pyreadstat raises many kinds of errors
                    raise statistical_error(error, str(path), "write") from None
    except OSError as error:
        raise ThurboError(f'cannot write "{path}": {error.strerror or error}; check the disk') from error
    return Path(path)


def _pandas(X: Any) -> Any:
    """Any table as a new pandas frame, so that the user's table is not changed."""
    import pandas as pd

    source = as_table(X)
    if source.kind in ("numpy", "dict"):
        return pd.DataFrame({name: source.read(place)[0] for name, place in source.places.items()})
    import narwhals as nw

    return nw.from_native(source.native, eager_only=True).to_pandas().copy()


def _arrow(X: Any) -> Any:
    """Any table as an arrow table; not by way of pandas, where integers with missing cells become floats."""
    import narwhals as nw
    import pyarrow as pa

    if library_of(X) in ("pandas", "numpy", "dict"):
        return pa.Table.from_pandas(_pandas(X))
    return nw.from_native(X, eager_only=True).to_arrow()


def _write_text(X: Any, path: Path, separator: str, escape: bool = False) -> None:
    """Any table as text: without categories and lists, and with formulas escaped where that is wanted."""
    import pyarrow as pa
    from pyarrow import csv

    def words(column: Any) -> Any:
        """A column of arrow or pandas; text if it has lists, cells of several types, intervals or statements."""
        if isinstance(column, pa.ChunkedArray):
            if not pa.types.is_nested(column.type):
                return column
            cells = column.to_pylist()
        else:
            try:
                return pa.array(column.map(as_text, na_action="ignore") if column.dtype == object else column)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                cells = [None if gone else cell for cell, gone in zip(column, column.isna(), strict=True)]
        return pa.array([None if cell is None else str(as_text(cell)) for cell in cells], pa.string())

    def escaped(cells: Any) -> Any:
        if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
            return cells
        return pa.array([None if cell is None else escaped_text(cell) for cell in cells.to_pylist()], pa.string())

    own = _pandas(X) if library_of(X) in ("pandas", "numpy", "dict") else _arrow(X)
    names = own.column_names if isinstance(own, pa.Table) else own.columns
    columns = {str(name): words(own[name]) for name in names}
    columns = {name: c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for name, c in columns.items()}
    if escape:
        columns = {escaped_text(name): escaped(column) for name, column in columns.items()}
    csv.write_csv(pa.table(columns), path, csv.WriteOptions(delimiter=separator, quoting_style="needed"))


def _write_columnar(frame: Any, path: Path, suffix: str, book: Codebook) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    try:
        arrow = _arrow(frame)
        if book:
            # In addition to pandas' attrs, which other programs may drop.
            arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), KEY: book.to_text()})
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(arrow, path)
    except pa.ArrowException as error:
        raise ThurboError(f"cannot write the table: {reason(error)}; give each column cells of one type") from None
