"""Files of the command line: read and write, also long tables with one line per score of an item.

Idea: column names of long tables come from the options or from the schema.
Guarantees that output paths are checked before any work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import thurbo
from thurbo.app.cli.options import LongNames, Written
from thurbo.errors import ThurboError
from thurbo.table.columns.values import collection
from thurbo.table.io import read_write
from thurbo.table.io.files import destination
from thurbo.table.io.frames import any_frame, as_table
from thurbo.table.io.long import looks_long
from thurbo.table.io.scan import Scan, looks_scanned
from thurbo.table.schema.schema import Schema


def check_output(path: Path, *suffixes: str) -> None:
    """Raise before any work if a file with one of these extensions, by default any table, cannot be written here."""
    if not suffixes:
        read_write.known(path, read_write.WRITTEN)
    elif path.suffix.lower() not in suffixes:
        raise ThurboError(f'cannot write "{path}": its name does not end in {suffixes[0]}; rename it')
    destination(path)


def n_rows(frame: Any) -> int:
    """Number of rows of a table, or of a scanned one."""
    return frame.n_rows if isinstance(frame, Scan) else as_table(frame).n_rows


def in_parts(data: Path, output: Path | None) -> bool:
    """Whether answers about the rows of a table can be written part by part: as Parquet."""
    return looks_scanned(data) and (not data.is_file() or output is None or output.suffix.lower() in ("", ".parquet"))


def check_rows(scanned: Any, schema: Any) -> None:
    """Read every row of a scanned table; the first cell that does not fit is an error with its place."""
    start = 0
    for part in scanned.tables():
        with scanned.locating(part, schema.row_names, start):
            schema.compile(part)
        start += part.n_rows


def check_parts(path: Path) -> None:
    """Raise before any work if the results of a scanned table cannot be written to this path: a folder, or .parquet."""
    if path.suffix and path.suffix.lower() != ".parquet":
        problem = f'cannot write "{path}": the table is read in pieces'
        raise ThurboError(f"{problem}, and results are a folder of .parquet files or one of them; give -o results/")
    if path.suffix:
        destination(path)
    elif not path.exists():
        destination(path.absolute())


def write_rows(model: Any, frame: Any, path: Path, run: Written, answer: Callable[[Any], Any], about: str) -> None:
    """Write what is answered for the rows of a table; of a scanned one, part by part."""
    if isinstance(frame, Scan):
        from thurbo.parts import RowQuery

        RowQuery(model, frame, answer, about).write(path)
    else:
        write(answer(frame), path, run)


def write(table: Any, path: Path, run: Written, schema: Any = None, like: Path | None = None) -> None:
    """Write a table, completely or not at all; a dict becomes a frame.

    What did not change is copied from the file `like`, unless formulas are escaped, which changes cells.
    """
    frame = any_frame(table) if isinstance(table, dict) else table
    escape = run.escape_formulas
    thurbo.write(frame, path, schema, like=None if escape else like, formulas="escape" if escape else "keep")


def with_file_texts(data: Path, frame: Any, schema: Any) -> tuple[Any, dict[str, Any]]:
    """The table of a text file with identifiers as they are written, and with "n/a" as a kind of missing answer.

    Also the missing values of the columns that have it, by column: a question that does not apply is no gap.
    """
    if read_write.format_of(data) not in read_write.TEXT:
        return frame, {}
    sources = {name: schema[name].source_columns(name) for name in schema.modelled if not schema[name].is_listed}
    names = [name for name, column in schema.items() if column.role == "id"]
    frame, found = read_write.with_texts(frame, data, names, [each for own in sources.values() for each in own])
    declared = {}
    for name, own in sources.items():
        texts = {each: found[each] for each in own if each in found}
        if texts:
            declared[name] = read_write.described(schema[name].declared_missing, texts)
    return frame, declared


def read_long(
    data: Path,
    options: LongNames,
    schema: Any = None,
    missing: Mapping[str, str] | None = None,
    in_parts: bool = False,
) -> tuple[Any, Any]:
    """The table of a file and its schema; a long table is grouped into one row per identifier.

    `missing` are values that mean "no answer" in every column. A table of several files, and a large one if `in_parts`,
    is scanned.
    """
    missing = missing or {}
    schema = schema if schema is None else schema.declare_missing(missing)
    if looks_scanned(data) and (in_parts or not data.is_file()):
        if options.are_given:
            raise ThurboError("a long table cannot be read in pieces; leave out --row, --item, --score and --columns")
        scanned = thurbo.scan(data)
        return scanned, Schema.infer(scanned, missing=missing) if schema is None else schema
    lists = None if schema is None else next(iter(columns_of(schema)), None)
    if not options.are_given and lists is None:
        if schema is not None:
            return read_write.read_frame(data), schema
        return thurbo.read(data, missing=missing)
    frame = read_write.read_frame(data)
    if not options.are_given and _has_lists(frame, lists):
        return frame, schema
    names = _completed(options, schema, lists)
    people = None if names.columns is None else read_write.read_frame(names.columns)
    table = thurbo.from_long(frame, names.row, names.item, names.score, columns=people, name=lists)  # type: ignore[arg-type]
    if schema is None:
        return table, Schema.infer(table, missing=missing)
    sources = [source for name in schema.modelled if name != lists for source in schema.source_columns[name]]
    absent = [source for source in sources if source not in table]
    if absent:
        raise ThurboError(f'column "{absent[0]}" is not in the long table; give a table that has it with --columns')
    return table, schema


def columns_of(schema: Any) -> list[str]:
    """The columns whose cells are lists of items, which a long table can hold."""
    return [name for name, column in schema.items() if column.kind == "ratings"]


def items_named(schema: Any, text: str | None, column: str | None = None) -> dict[str, list[Any]] | None:
    """Items from a text with commas, for each column that has them (or for one column), in their own type."""
    if text is None:
        return None
    names = [name for name, each in schema.items() if each.kind == "ratings" or each.is_listed]
    if not names or (column is not None and column not in names):
        what = "the model" if column is None else f'column "{column}"'
        raise ThurboError(f"{what} has no lists of items; leave out --item-list")
    parts = [part for part in map(str.strip, text.split(",")) if part]
    if not parts:
        raise ThurboError("--item-list names no item; separate items by commas")
    known = {name: {str(item): item for item in schema[name].labels} for name in ([column] if column else names)}
    unknown = [part for part in parts if not any(part in own for own in known.values())]
    if unknown:
        raise ThurboError(f'there is no item "{unknown[0]}"; use items of the training table with --item-list')
    found = {name: [own[part] for part in parts if part in own] for name, own in known.items()}
    return {name: items for name, items in found.items() if items}


def _completed(options: LongNames, schema: Any, lists: str | None) -> LongNames:
    """The options, with missing names taken from the schema."""
    held: Mapping[str, Any] = {} if schema is None else schema
    row = options.row or next((name for name, column in held.items() if column.role == "id"), None)
    item = options.item or lists
    if row is None:
        raise ThurboError("the column of row identifiers is not known; give it with --row")
    if item is None:
        raise ThurboError("the column of items is not known; give it with --item")
    score = options.score
    if score is None and lists is not None:
        score = held[lists].score
        if score is None and held[lists].levels:
            raise ThurboError("the model was fitted to scores; give the column of scores with --score")
    return replace(options, row=row, item=item, score=score)


def hint(frame: Any) -> str:
    """Advice for a table that looks long; else empty."""
    found = None if isinstance(frame, Scan) else looks_long(as_table(frame))
    if found is None:
        return ""
    return f"If each line is one score of an item, use --row {found[0]} --item {found[1]} --score ..."


def _has_lists(frame: Any, name: str | None) -> bool:
    """Whether the cells are already lists, as in a parquet file, so that the table is not long."""
    source = as_table(frame)
    if name is None or name not in source:
        return False
    cells = source.cells(name)
    first = next(iter(cells.values[~cells.missing].tolist()), None)
    return isinstance(first, Mapping) or (not isinstance(first, str) and collection(first) is not None)
