"""Read table files into pandas frames: .sav .zsav .por .dta .csv .tsv .parquet .feather.

Idea: the extension selects the reader, the first bytes are checked against it, and the code book goes to `attrs`.
Guarantees the codes of the file, and a one-sentence error with a remedy for every file that cannot be read.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from thurbo.errors import SchemaError, ThurboError
from thurbo.io.codebook import KEY, Codebook

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
        from thurbo.io.text import read_text

        data = read_bytes(where)
        frame, book = read_text(data, str(path), separator or ("\t" if suffix == ".tsv" else None), encoding)
    elif suffix in COLUMNAR:
        need("pandas", "pyarrow")
        frame, book = _read_columnar(where, str(path))
    else:
        need("pandas", "pyreadstat")
        from thurbo.io.statistical import read_statistical, statistical_error

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
