"""Write a table like the file that it came from: what did not change is copied from the file, not from the table.

Idea: compare the table with the file as it is read, and replace only the cells that differ. Text files are copied byte
for byte (verbatim.py); parquet and feather files keep the types and the metadata of their columns.
Guarantees that a cell that was not filled in is the same as in the file, and that text stays text in other formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thurbo.columns.cells import frozen
from thurbo.errors import ThurboError
from thurbo.io import build
from thurbo.io.read import COLUMNAR, TEXT, read_arrow, read_bytes
from thurbo.io.table import Cells, Table, as_table
from thurbo.io.verbatim import EMPTY, NOT_APPLICABLE, Verbatim, is_plain_number, open_verbatim, spelled

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
    return _arrow(read_arrow(like), old, parts, new) if kind in COLUMNAR else frame


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
    return build.with_columns(frame, columns) if columns else frame, found


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
    return build.with_columns(frame, columns) if columns else frame


def _arrow(native: Any, old: Table, parts: list[Part], new: Table) -> Any:
    """The table of a parquet or feather file with cells replaced; types and metadata of the file are kept."""
    import pyarrow as pa
    import pyarrow.compute as pc

    tables = []
    for number, part in enumerate(parts):
        table = native
        for name, (differs, cells) in part.items():
            fill = differs & ~cells.missing
            if fill.any():
                table = build.replace(table, {name: cells.values}, {name: fill})
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
