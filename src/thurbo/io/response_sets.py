"""Multiple response sets of SPSS files: pyreadstat reads them but cannot write them.

Idea: the dictionary of a .sav file is a list of records; the response sets are inserted before the last record.
Guarantees that all other bytes stay the same, except for the offsets in a .zsav file, which are updated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from thurbo.io.notes import Group

_START = 176  # bytes of the file header
_VARIABLE, _VALUES, _DOCUMENT, _EXTENSION, _LAST = 2, 3, 6, 7, 999
_SETS, _LONG_NAMES = 7, 13  # kinds of extension


def add_response_sets(path: Path, groups: Sequence[Group]) -> None:
    """Insert response sets into a little-endian .sav or .zsav file, as written by pyreadstat."""
    sets = [group for group in groups if group.kind in ("ticks", "mentions")]
    if not sets:
        return
    data = path.read_bytes()
    records = list(_records(data))
    short = {}
    for kind, start, body in records:
        if kind == (_EXTENSION, _LONG_NAMES):
            pairs = (pair.split("=", 1) for pair in data[body:start].decode("utf-8").split("\t") if "=" in pair)
            short = {long: brief for brief, long in pairs}
    text = "".join(_line(group, short) for group in sets).encode("utf-8")
    record = struct.pack("<4i", _EXTENSION, _SETS, 1, len(text)) + text
    last = records[-1][2]
    rest = data[last:]
    if data.startswith(b"$FL3"):
        rest = _moved(rest, last, len(record))
    path.write_bytes(data[:last] + record + rest)


def _records(data: bytes) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Kind, end and start of the body of each record; for the last record, the start of the record itself."""
    at = _START
    while True:
        (kind,) = struct.unpack_from("<i", data, at)
        if kind == _LAST:
            yield (kind, 0), at + 8, at
            return
        begins, subtype = at + 4, 0
        if kind == _VARIABLE:
            _, has_label, missing = struct.unpack_from("<3i", data, at + 4)
            at += 32
            if has_label:
                (length,) = struct.unpack_from("<i", data, at)
                at += 4 + (length + 3) // 4 * 4
            at += 8 * abs(missing)
        elif kind == _VALUES:
            (count,) = struct.unpack_from("<i", data, at + 4)
            at += 8
            for _ in range(count):
                at += 8 + (data[at + 8] + 8) // 8 * 8
            (variables,) = struct.unpack_from("<i", data, at + 4)
            at += 8 + 4 * variables
        elif kind == _DOCUMENT:
            (lines,) = struct.unpack_from("<i", data, at + 4)
            at += 8 + 80 * lines
        elif kind == _EXTENSION:
            subtype, size, count = struct.unpack_from("<3i", data, at + 4)
            begins, at = at + 16, at + 16 + size * count
        else:
            raise ValueError(f"unknown record type {kind}")
        yield (kind, subtype), at, begins


def _line(group: Group, short: dict[str, str]) -> str:
    """One set in SPSS syntax: "$name=D1 1 5 Title a b", with short column names in lower case."""
    title = group.title
    ticked = str(group.ticked)
    how = f"D{len(ticked)} {ticked}" if group.kind == "ticks" else "C"
    columns = " ".join(short.get(column, column).lower() for column, _ in group.members)
    return f"${group.name}={how} {len(title.encode())} {title} {columns}\n"


def _moved(rest: bytes, last: int, shift: int) -> bytes:
    """The compressed part of a .zsav file with its file offsets shifted."""
    moved = bytearray(rest)
    header = 8  # bytes after the start of the last record
    begins, trailer, _ = struct.unpack_from("<3q", moved, header)
    struct.pack_into("<2q", moved, header, begins + shift, trailer + shift)
    at = trailer - last
    (blocks,) = struct.unpack_from("<i", moved, at + 20)
    for block in range(blocks):
        place = at + 24 + 24 * block
        plain, packed = struct.unpack_from("<2q", moved, place)
        struct.pack_into("<2q", moved, place, plain + shift, packed + shift)
    return bytes(moved)
