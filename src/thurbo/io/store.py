"""Model files: arrays and a description, without code (no pickle) and without rows of the data.

The format is safetensors, with the schema, settings and history as JSON in its header and a checksum of both.
The same model gives the same bytes. Files that are truncated, changed, of another program or of a newer version raise
NotTrusted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from thurbo.errors import NotTrusted
from thurbo.io.files import write_atomically

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

    text = _SURROGATE.sub(_escaped, json.dumps(description, ensure_ascii=False))
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    stamp = f"thurbo {FORMAT}"
    header = {"format": stamp, "description": text, "sha256": _checksum(plain, stamp, text)}
    write_atomically(path, _with_sorted_header(to_bytes(plain, metadata=header)))


def _escaped(surrogate: re.Match[str]) -> str:
    """Half of a character, which UTF-8 cannot hold, as a JSON escape."""
    return f"\\u{ord(surrogate[0]):04x}"


def _with_sorted_header(data: bytes) -> bytes:
    """The same file with a header in one order: safetensors writes its metadata in random order."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at multiples of eight bytes
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


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
        raise NotTrusted(
            f'"{path}" has format {version}, newer than this version of thurbo can read ({FORMAT}); update thurbo'
        )
    text = header.get("description", "")
    if _checksum(arrays, stamp, text) != header.get("sha256"):
        raise NotTrusted(f'"{path}" was changed after it was saved (its checksum is wrong); save the model again')
    try:
        return arrays, json.loads(text)
    except ValueError as error:
        raise NotTrusted(f'"{path}" has a description that cannot be read ({error}); save the model again') from error
