"""Files in and out: where a result may go is settled before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thurbo.errors import ThurboError


def read(path: Path) -> tuple[Any, Any]:
    """The table of a file, and the schema that the file suggests."""
    import thurbo

    return thurbo.read(path)


def load(path: Path, *, lists: bool) -> Any:
    """A model from its file; one of lists of items only where these can be asked about."""
    from thurbo.estimators.tbm import TBM

    model = TBM.load(path)
    if model.schema_.has_lists and not lists:
        problem = f'"{path}" is a model of lists of few items out of many, of which this command can say nothing'
        raise ThurboError(f"{problem}; use rank, transform or predict")
    return model


def settle(path: Path) -> None:
    """Refuse, before any work, a table that could not be written in the end."""
    from thurbo.io.files import destination
    from thurbo.io.read import known
    from thurbo.io.write import WRITTEN

    known(path, WRITTEN)
    destination(path)


def settle_as(path: Path, *suffixes: str) -> None:
    """The same for a file of another kind, with one of these extensions, or any where none is given."""
    from thurbo.io.files import destination

    if suffixes and path.suffix.lower() not in suffixes:
        raise ThurboError(f'cannot write "{path}": its name does not end in {suffixes[0]}; call it so')
    destination(path)


def write(frame: Any, path: Path, schema: Any = None) -> None:
    """Write a table, whole or not at all."""
    import thurbo

    thurbo.write(frame, path, schema)
