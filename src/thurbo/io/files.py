"""Atomic file writing: a file is written completely or not at all.

Models, tables and reports use `write_atomically`, so that a full disk or an interrupt leaves no partial file.
Standard library only, so that every layer may import it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from thurbo.errors import ThurboError


def write_atomically(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write `data` to a temporary file in the same directory, then rename it to `path`; returns the path.

    Text is written as UTF-8. An existing file keeps its permissions, and is unchanged if writing fails.
    """
    target, final = Path(path), destination(path)
    try:
        _replace(final, data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise ThurboError(f'cannot write "{target}": {error.strerror or error}') from error
    return target


def destination(path: str | os.PathLike[str]) -> Path:
    """The file that writing to `path` would create or replace; raises if that is impossible. Call it before long work.

    Symbolic links are followed, as open() does, so that the link itself is not replaced.
    """
    final = Path(os.path.realpath(path))
    if final.is_dir():
        raise ThurboError(f'cannot write "{path}": it is a directory; give the name of a file')
    if not final.parent.is_dir():
        raise ThurboError(f'cannot write "{path}": its directory does not exist; create it first')
    if not os.access(final.parent, os.W_OK):
        raise ThurboError(
            f'cannot write "{path}": there is no write permission for its directory; choose another directory'
        )
    return final


def _replace(final: Path, data: bytes) -> None:
    with replacing(final) as temporary, temporary.open("wb") as stream:
        stream.write(data)


@contextlib.contextmanager
def replacing(final: Path) -> Iterator[Path]:
    """A temporary file in the same directory for the caller to write; renamed to `final` if no error occurs.

    It has the extension of `final`, because some writers choose the format by it.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{final.stem}.", suffix=f".part{final.suffix}", dir=final.parent)
    os.close(descriptor)
    try:
        yield Path(name)
        with open(name, "rb+") as stream:
            os.fsync(stream.fileno())  # otherwise a crash after the rename could leave an empty file
        os.chmod(name, _permissions(final))
        os.replace(name, final)
    except BaseException:  # also on an interrupt, the temporary file must be removed
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _permissions(final: Path) -> int:
    """Mode of the existing file, or the default mode of a new one; mkstemp would give 0600."""
    try:
        return final.stat().st_mode & 0o7777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
