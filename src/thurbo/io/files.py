"""Files on disk: what thurbo writes is written whole or not at all.

Models, tables and reports go through `write_atomically`: a full disk or an interrupt leaves no half a file.
Standard library only, so that every layer may use it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from thurbo.errors import ThurboError


def write_atomically(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write `data` to a temporary file beside `path`, then rename it into place; returns the path written.

    Text is written as UTF-8. A file that stood there keeps its permissions, and is untouched on failure.
    """
    target, final = Path(path), destination(path)
    try:
        _replace(final, data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise ThurboError(f'cannot write "{target}": {error.strerror or error}') from error
    return target


def destination(path: str | os.PathLike[str]) -> Path:
    """The file that writing to `path` would replace; raises where that cannot work, so ask before long work.

    A link is followed, as a plain open() would: the rename must replace what it points to, not the link.
    """
    final = Path(os.path.realpath(path))
    if final.is_dir():
        raise ThurboError(f'cannot write "{path}": it is a directory; give the name of a file')
    if not final.parent.is_dir():
        raise ThurboError(f'cannot write "{path}": its directory does not exist; create it first')
    if not os.access(final.parent, os.W_OK):
        raise ThurboError(f'cannot write "{path}": nothing may be written to its directory; choose another')
    return final


def _replace(final: Path, data: bytes) -> None:
    with replacing(final) as temporary, temporary.open("wb") as stream:
        stream.write(data)


@contextlib.contextmanager
def replacing(final: Path) -> Iterator[Path]:
    """A new file beside `final` for somebody else to write, renamed into place when all went well.

    It has the extension of `final`, since some writers go by that.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{final.stem}.", suffix=f".part{final.suffix}", dir=final.parent)
    os.close(descriptor)
    try:
        yield Path(name)
        with open(name, "rb+") as stream:
            os.fsync(stream.fileno())  # else a crash after the rename could leave an empty file under the name
        os.chmod(name, _permissions(final))
        os.replace(name, final)
    except BaseException:  # an interrupt too must not leave the temporary file behind
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _permissions(final: Path) -> int:
    """Mode of the file as it stands, or what open() would give a new one; mkstemp alone would give 0600."""
    try:
        return final.stat().st_mode & 0o7777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
