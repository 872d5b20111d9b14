"""Files as bytes: atomic writing, archives of one file, and model files of arrays with a description (no pickle).

Tables, models and reports use `write_atomically`, so that a full disk or an interrupt leaves no partial file. A model
file is safetensors, with schema, settings and history as JSON in its header and a checksum of both: the same model
gives the same bytes. Files that are truncated, changed, of another program or of a newer version raise NotTrusted.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import json
import lzma
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from thurbo.errors import NotTrusted, ThurboError


def write_atomically(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write `data` to a temporary file in the same directory, then rename it to `path`; returns the path.

    Text is written as UTF-8. An existing file keeps its permissions, and is unchanged if writing fails.
    """
    target, final = Path(path), destination(path)
    try:
        with replacing(final) as temporary:
            temporary.write_bytes(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise ThurboError(f'cannot write "{target}": {error.strerror or error}') from error
    return target


ARCHIVES = (".gz", ".xz", ".bz2", ".zip")


def inside(path: str | os.PathLike[str]) -> str:
    """The name of the file that is packed in an archive of one file; of any other file, its own name."""
    where = Path(path)
    if where.suffix.lower() not in ARCHIVES:
        return where.name
    if where.suffix.lower() != ".zip":
        return where.stem
    try:
        with zipfile.ZipFile(where) as archive:
            names = [each for each in archive.namelist() if not each.endswith("/") and "__MACOSX/" not in each]
    except (OSError, zipfile.BadZipFile) as error:
        raise ThurboError(f'cannot read "{path}": {error}; it may be truncated: copy it again') from None
    if len(names) != 1:
        raise ThurboError(f'"{path}" has {len(names)} files; unpack it, and give one of them')
    return names[0]


def content(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """The content of a file, or its first bytes; of an archive of one file, what is packed in it."""
    where, kind = Path(path), Path(path).suffix.lower()
    try:
        if kind == ".zip":
            with zipfile.ZipFile(where) as archive, archive.open(inside(path)) as stream:
                return stream.read(most)
        opener: Any = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}.get(kind, open)
        with opener(where, "rb") as stream:
            data: bytes = stream.read(most)
            return data
    except FileNotFoundError:
        raise ThurboError(f'cannot read "{path}": there is no such file; check its name') from None
    except OSError as error:
        problem = error.strerror or str(error)
        remedy = "check its permissions" if error.strerror else "it may be truncated: copy it again"
        raise ThurboError(f'cannot read "{path}": {problem}; {remedy}') from None
    except (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise ThurboError(f'cannot unpack "{path}": {error}; copy it again, or unpack it') from None


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
        problem = "there is no write permission for its directory"
        raise ThurboError(f'cannot write "{path}": {problem}; choose another directory')
    return final


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
        try:
            mode = final.stat().st_mode & 0o7777
        except FileNotFoundError:  # the default mode of a new file; mkstemp would give 0600
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(name, mode)
        os.replace(name, final)
    except BaseException:  # also on an interrupt, the temporary file must be removed
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


FORMAT = 1
_SURROGATE = re.compile("[\ud800-\udfff]")


def _checksum(arrays: Mapping[str, np.ndarray], stamp: str, description: str) -> str:
    digest = hashlib.sha256(f"{stamp}\n{description}".encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save(path: str | PathLike[str], arrays: Mapping[str, np.ndarray], description: dict[str, Any]) -> None:
    """Write arrays and description, completely or not at all."""
    from safetensors.numpy import save as to_bytes

    # Half of a character, which UTF-8 cannot hold, is written as a JSON escape.
    text = _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", json.dumps(description, ensure_ascii=False))
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    stamp = f"thurbo {FORMAT}"
    header = {"format": stamp, "description": text, "sha256": _checksum(plain, stamp, text)}
    data = to_bytes(plain, metadata=header)
    # The header in one order: safetensors writes its metadata in random order.
    size = int.from_bytes(data[:8], "little")
    written = json.loads(data[8 : 8 + size])
    written["__metadata__"] = dict(sorted(written["__metadata__"].items()))
    start = json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode()
    start += b" " * (-len(start) % 8)  # arrays begin at multiples of eight bytes
    write_atomically(path, len(start).to_bytes(8, "little") + start + data[8 + size :])


def load(path: str | PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save` wrote; raises NotTrusted for anything else."""
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.is_file():
        raise NotTrusted(f'there is no model file "{path}"; give the path that save() wrote')
    try:
        with safe_open(file, framework="numpy") as opened:
            header = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise NotTrusted(f'"{path}" is not a complete thurbo model file ({error}); save the model again') from error
    stamp = header.get("format", "")
    if not stamp.startswith("thurbo "):
        raise NotTrusted(f'"{path}" was not written by thurbo; give the path that save() wrote')
    version = stamp.removeprefix("thurbo ")
    if not version.isdecimal() or int(version) > FORMAT:
        problem = f"has format {version}, newer than this version of thurbo can read ({FORMAT})"
        raise NotTrusted(f'"{path}" {problem}; update thurbo')
    text = header.get("description", "")
    if _checksum(arrays, stamp, text) != header.get("sha256"):
        raise NotTrusted(f'"{path}" was changed after it was saved (its checksum is wrong); save the model again')
    try:
        return arrays, json.loads(text)
    except ValueError as error:
        raise NotTrusted(f'"{path}" has a description that cannot be read ({error}); save the model again') from error
