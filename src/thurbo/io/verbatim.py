"""Delimited text files as they are, so that what was not filled in is written back byte for byte.

Idea: find the records of the file and remember where they begin and end. A record is split into raw cells (with their
quotes and blanks) only if one of its cells is replaced; everything between records is copied.
Guarantees the same bytes for every other cell: quotes, blanks, line ends, blank lines, header rows, byte-order mark,
encoding and separator. A file that cannot be reproduced exactly is refused before anything is written.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from thurbo.errors import ThurboError
from thurbo.io.text import _NULLS, decode, find_separator

Texts = Mapping[int, str]  # new text of some cells of one column, by row
Places = Set[tuple[int, int]]  # row and column of cells
NONE: Places = frozenset()

_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"", "utf-8"),
    (b"", "utf-16-le"),
    (b"", "utf-16-be"),
    (b"", "cp1252"),
    (b"", "latin-1"),
)
# Texts that say only that there is no answer; "n/a" is not one of them, because a person wrote that it does not apply.
EMPTY = frozenset(_NULLS) - {"n/a", "N/A"}
NOT_APPLICABLE = re.compile(r"\s*n/a\s*", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:[.,][0-9]+)?(?:[eE][-+]?[0-9]+)?")
_DECIMALS = re.compile(r"-?[0-9]+(?:([.,])([0-9]+))?")


@dataclass(frozen=True)
class Verbatim:
    """The text of a file, where its records are, and how it is encoded."""

    text: str
    separator: str
    mark: bytes  # byte-order mark
    encoding: str
    records: tuple[tuple[int, int], ...]  # begin and end of each record that is not blank, without its line end
    n_header: int  # records before the first row

    @property
    def n_rows(self) -> int:
        return len(self.records) - self.n_header

    @cached_property
    def _cell(self) -> re.Pattern[str]:
        other = f"[^{re.escape(self.separator)}]"
        return re.compile(rf'(?:^|{re.escape(self.separator)})("(?:[^"]++|"")*+(?:"{other}*+)?+|{other}*+)')

    def raw(self, record: int) -> list[str]:
        """The cells of a record as they are in the file, header records first."""
        text = self.text[slice(*self.records[record])]
        return self._cell.findall(text) if '"' in text else text.split(self.separator)

    def value(self, row: int, column: int) -> str:
        """The text of one cell without its quotes."""
        return unquoted(self.raw(self.n_header + row)[column])

    def column(self, column: int) -> list[str]:
        """The texts of one column without their quotes, one for each row."""
        return [self.value(row, column) for row in range(self.n_rows)]

    def columns(self) -> list[list[str]]:
        """The texts of all columns without their quotes."""
        rows = (map(unquoted, self.raw(self.n_header + row)) for row in range(self.n_rows))
        return [list(column) for column in zip(*rows, strict=True)]

    @property
    def line_end(self) -> str:
        """The first line end of the file."""
        after = self.text[self.records[0][1] : self.records[0][1] + 2]
        return "\r\n" if after == "\r\n" else after[:1] or "\n"

    def replaced(self, cells: Mapping[int, Texts], added: Mapping[str, Sequence[str]], over: Places = NONE) -> bytes:
        """The file with some cells replaced, by column and row, and with columns added at the right.

        Only empty cells and those in `over` are replaced; any other is an error.
        """
        by_row, parts, last = self._by_row(cells, over), [], 0
        for record, (begin, end) in enumerate(self.records):
            parts += [self.text[last:begin], self._record(record, by_row.get(record - self.n_header, {}))]
            parts += [self.separator + self._added(text) for text in self._beside(record, added)]
            last = end
        return self._bytes("".join([*parts, self.text[last:]]))

    def stacked(self, draws: Sequence[Mapping[int, Texts]], over: Places = NONE) -> bytes:
        """The file, then the rows again for each draw, below two new columns: .imp from 0 and .id from 1.

        Cells that a draw replaces are empty in the part with .imp 0.
        """
        end = self.line_end
        heads = [".imp" + self.separator + ".id", *[self.separator] * (self.n_header - 1)]
        lines = [head + self.separator + self._record(record, {}) for record, head in enumerate(heads)]
        gone: dict[int, dict[int, str]] = {}
        for draw in draws:
            for column, texts in draw.items():
                gone.setdefault(column, {}).update(dict.fromkeys(texts, ""))
        blanked = {c: {row: "" for row in rows if self.value(row, c).strip() not in EMPTY} for c, rows in gone.items()}
        blanks = {(row, column) for column, rows in blanked.items() for row in rows}
        for number, draw in enumerate([blanked, *draws]):
            by_row = self._by_row(draw, over if number else blanks)
            for row in range(self.n_rows):
                own = self._record(self.n_header + row, by_row.get(row, {}))
                lines.append(f"{number}{self.separator}{row + 1}{self.separator}{own}")
        return self._bytes(end.join([*lines, ""]))

    def _by_row(self, cells: Mapping[int, Texts], over: Places) -> dict[int, dict[int, tuple[str, bool]]]:
        """New texts by row and column, and whether each may replace a text."""
        by_row: dict[int, dict[int, tuple[str, bool]]] = {}
        for column, texts in cells.items():
            for row, text in texts.items():
                by_row.setdefault(row, {})[column] = text, (row, column) in over
        return by_row

    def _record(self, record: int, new: Mapping[int, tuple[str, bool]]) -> str:
        if not new:
            return self.text[slice(*self.records[record])]
        raw = self.raw(record)
        for column, (text, may_replace) in new.items():
            held = unquoted(raw[column]).strip()
            if not may_replace and held not in EMPTY and not NOT_APPLICABLE.fullmatch(held):
                where = f"row {record - self.n_header}, column {column}"
                raise ThurboError(f'{where}: the file has "{held}" in a cell that was read as empty; write .parquet')
            raw[column] = self._quoted(text) if raw[column].startswith('"') and text else self._added(text)
        return self.separator.join(raw)

    def _beside(self, record: int, added: Mapping[str, Sequence[str]]) -> list[str]:
        """Cells of new columns: their names in the first record, nothing in other header records."""
        if record < self.n_header:
            return list(added) if record == 0 else [""] * len(added)
        return [texts[record - self.n_header] for texts in added.values()]

    def _added(self, text: str) -> str:
        """A new cell, in quotes if it needs them."""
        needs = any(sign in text for sign in (self.separator, '"', "\r", "\n")) or text != text.strip()
        return self._quoted(text) if needs else text

    @staticmethod
    def _quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    def _bytes(self, text: str) -> bytes:
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            problem = f'the file is in the encoding {self.encoding}, which has no "{text[error.start]}"'
            raise ThurboError(f"{problem}; save it as UTF-8, or write .parquet") from None


def open_verbatim(data: bytes, path: str, n_rows: int, n_columns: int, separator: str | None = None) -> Verbatim:
    """The text of a file that was read as a table of this size; an error if it cannot be reproduced exactly.

    Records before the last `n_rows` are its header.
    """
    text = decode(data, path)
    known = ((mark, name) for mark, name in _ENCODINGS if data.startswith(mark))
    found = next(((mark, name) for mark, name in known if _is_same(data, text, mark, name)), None)
    separator = separator or find_separator(text.lstrip("\r\n"))
    records = tuple(match.span() for match in _records(separator).finditer(text) if match.end() > match.start())
    n_header = len(records) - n_rows
    if found is None or n_header < 1:
        raise ThurboError(f'cannot write back "{path}" without changing it; write .parquet')
    source = Verbatim(text, separator, *found, records, n_header)
    if any(len(source.raw(record)) != n_columns for record in (n_header, len(records) - 1)[: n_rows and 2]):
        raise ThurboError(f'cannot write back "{path}": its cells are not those of the table; write .parquet')
    return source


def _is_same(data: bytes, text: str, mark: bytes, encoding: str) -> bool:
    try:
        return mark + text.encode(encoding) == data
    except UnicodeEncodeError:
        return False


def _records(separator: str) -> re.Pattern[str]:
    """Records: text up to a line end; a quote at the start of a cell opens a text that may hold line ends."""
    start = rf"(?<![^{re.escape(separator)}\r\n])"
    return re.compile(rf'(?:[^"\r\n]++|{start}"(?:[^"]++|"")*+(?:"|\Z)|")*+')


def unquoted(raw: str) -> str:
    """The text of a raw cell."""
    if not raw.startswith('"'):
        return raw
    closing = re.match(r'"(?:[^"]++|"")*+', raw)
    end = closing.end() if closing else len(raw)
    return raw[1:end].replace('""', '"') + raw[end + 1 :]


def is_plain_number(text: str) -> bool:
    """Whether a text is a number as programs write it: "02139" and "+5" are not."""
    return _PLAIN_NUMBER.fullmatch(text.strip()) is not None


def spelled(values: Sequence[Any], known: Mapping[Any, str]) -> list[str]:
    """New cells as text, in the spelling of the column: `known` has the text of values that it already holds.

    Other numbers get as many decimals as all of those texts have, and their decimal comma.
    """
    written = [match.groups() for text in known.values() if (match := _DECIMALS.fullmatch(text.strip()))]
    counts = {len(digits or "") for _, digits in written}
    decimals = next(iter(counts)) if len(counts) == 1 else None
    comma = any(mark == "," for mark, _ in written)
    return [_text(value, known, decimals, comma) for value in values]


def _text(value: Any, known: Mapping[Any, str], decimals: int | None, comma: bool) -> str:
    value = as_text(value)
    if value in known:
        return known[value].strip()
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if not isinstance(value, (int, float, np.number)):
        return str(value)
    number = float(value)
    if number != number:
        return ""
    text = str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if decimals and round(number, decimals) == number:
        text = f"{number:.{decimals}f}"
    return text.replace(".", ",") if comma else text


def as_text(cell: Any) -> Any:
    """A list as text that columns can read: "a; b" for options, "a > b = c" for an order."""
    if isinstance(cell, np.ndarray) and cell.ndim:
        cell = cell.tolist()
    if not isinstance(cell, (list, tuple)):
        return cell
    if any(isinstance(tier, (list, tuple)) for tier in cell):
        tiers = [tier if isinstance(tier, (list, tuple)) else [tier] for tier in cell]
        return " > ".join(" = ".join(map(str, tier)) for tier in tiers)
    return "; ".join(map(str, cell))
