"""Read and write files; output paths are checked before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thurbo.errors import ThurboError


def read(path: Path) -> tuple[Any, Any]:
    """The table of a file, and its inferred schema."""
    import thurbo

    return thurbo.read(path)


def load(path: Path) -> Any:
    """Load a model."""
    from thurbo.tbm import TBM

    return TBM.load(path)


def check_output(path: Path) -> None:
    """Raise before any work if a table cannot be written to this path."""
    from thurbo.io.files import destination
    from thurbo.io.read import known
    from thurbo.io.write import WRITTEN

    known(path, WRITTEN)
    destination(path)


def check_output_as(path: Path, *suffixes: str) -> None:
    """The same for another kind of file, with one of these extensions; any extension by default."""
    from thurbo.io.files import destination

    if suffixes and path.suffix.lower() not in suffixes:
        raise ThurboError(f'cannot write "{path}": its name does not end in {suffixes[0]}; rename it')
    destination(path)


def write(frame: Any, path: Path, schema: Any = None, like: Path | None = None, escape: bool = False) -> None:
    """Write a table, completely or not at all.

    What did not change is copied from the file `like`, unless formulas are escaped, which changes cells.
    """
    import thurbo

    thurbo.write(frame, path, schema, like=None if escape else like, formulas="escape" if escape else "keep")


def with_row_texts(items: Path, frame: Any, ranked: Any, schema: Any) -> Any:
    """A table of rows and items, with the texts of its rows if the ranked table has texts ("007")."""
    from thurbo.io import rewrite
    from thurbo.io.read import TEXT
    from thurbo.io.table import as_table

    names = [name for name, column in schema.items() if column.role == "id" and name in as_table(ranked)]
    is_text = any(as_table(ranked).cells(name).values.dtype.kind == "O" for name in names)
    if items.suffix.lower() not in TEXT or not is_text or len(as_table(frame).names) < 2:
        return frame
    held = [name for name in names if name in as_table(frame)] or [as_table(frame).names[0]]
    return rewrite.with_texts(frame, items, held, always=True)[0]


def with_texts(data: Path, frame: Any, schema: Any) -> tuple[Any, dict[str, Any]]:
    """The table of a text file with identifiers as they are written, and with "n/a" as a kind of missing answer.

    Also the missing values of the columns that have it, by column: a question that does not apply is no gap.
    """
    from thurbo.io import rewrite
    from thurbo.io.read import TEXT

    if data.suffix.lower() not in TEXT:
        return frame, {}
    sources = {name: schema[name].source_columns(name) for name in schema.modelled if not schema[name].is_listed}
    names = [name for name, column in schema.items() if column.role == "id"]
    frame, found = rewrite.with_texts(frame, data, names, [each for own in sources.values() for each in own])
    declared = {}
    for name, own in sources.items():
        texts = {each: found[each] for each in own if each in found}
        if texts:
            declared[name] = rewrite.described(schema[name].declared_missing, texts)
    return frame, declared
