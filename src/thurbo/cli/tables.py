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
    from thurbo.estimators.tbm import TBM

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


def write(frame: Any, path: Path, schema: Any = None, escape: bool = False) -> None:
    """Write a table, completely or not at all; with formulas escaped if asked for."""
    import thurbo

    thurbo.write(frame, path, schema, formulas="escape" if escape else "keep")
