"""Delimited text files (.csv and .tsv of any program): as values, and as they are, cell by cell; spreadsheets as such.

Idea: detect encoding, separator and decimal comma, then read strictly. A table has one row of names, and a second or
third one where that row is unlike answers: options below their question (SurveyMonkey), question texts below codes,
import identifiers (Qualtrics), or only the word "Response". To write a file again, its records are found, and split
into raw cells only where one of their cells is replaced.
Guarantees a unique name for every column, an error with the row if rows differ in length, and the same bytes for every
cell that is not replaced; a file that cannot be reproduced exactly is refused before anything is written.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from thurbo.errors import SchemaWarning, ThurboError
from thurbo.table.columns.values import is_number_text
from thurbo.table.io.codebook import Codebook, ColumnGroup, Note

_SEPARATORS = (",", ";", "\t", "|")
# "None" is not in the list, because it is an answer in many surveys.
_NULLS = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "."]
_MOST_BYTES = 2**31 - 1  # limit of pyarrow for one block of text
_MOST_TOLD = 3  # changed names in one warning
_MOST_TITLES = 10  # rows above the names of the columns
_MOST_EXAMINED = 5000  # records in which a column of codes is looked for
_MOSTLY = 0.9  # share of the cells of a workbook in the sheet that is its table
_UNNAMED = re.compile(r"Unnamed: \d+(?:_level_\d+)?")  # what pandas calls a column without a name
_ANSWER = re.compile(r"(open.ended )?(response|answer)s?", re.IGNORECASE)
_MOMENT = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*")
_MOST_SENTENCES, _FEWEST_NUMBERS = 0.3, 0.2  # share of cells in a row of answers
_FEWEST_BLANK = 0.3  # share of names that are blank above the second row of a header
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read_text(data: bytes, path: str, separator: str | None, encoding: str | None) -> tuple[Any, Codebook]:
    """Read delimited text as a pandas frame, and the titles and groups in its header rows.

    The dtype of a column is the one that fits all its cells; integers and booleans keep it; blanks are missing.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow

    text = decode(data, path, encoding)[0].lstrip("\r\n")
    if not text.strip():
        raise ThurboError(f'cannot read "{path}": it is empty; give a file with a row of column names')
    if "\0" in text[:10_000]:
        raise ThurboError(f'cannot read "{path}" as text: it contains binary data; check its extension')
    separator = separator or find_separator(text)
    csv.field_size_limit(max(csv.field_size_limit(), 1 << 30))
    try:
        rows = [[cell.strip() for cell in row] for row in islice(_rows(text, separator), _MOST_TITLES + 4)]
    except csv.Error as error:
        raise ThurboError(f'cannot read "{path}" as delimited text: {error}; check the file') from None
    if above := n_titles(rows):
        text = text[next(islice(_records(text, separator), above, None))[0] :]
    names, skip, book = read_header(rows[above:], path)
    data, bad = text.encode("utf-8"), list[Any]()
    if len(data) >= _MOST_BYTES:
        raise ThurboError(f'"{path}" has more than 2 GB of text; save it as .parquet')
    # One block, because dtypes are inferred per block; one thread, so that errors have row numbers.
    size = len(data) + 1
    reading = arrow.ReadOptions(use_threads=False, block_size=size, column_names=names, skip_rows_after_names=skip)

    def refuse(row: Any) -> str:
        bad.append(row)
        return "skip"

    parsing = arrow.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse)
    # Numbers may have a decimal comma, as in 1,5, if the separator is not a comma.
    sample = "" if separator == "," else _lines(text, 100)
    number = rf'(?:^|["{re.escape(separator)}])\s*-?\d+%s\d+\s*(?=["{re.escape(separator)}]|$)'
    commas, points = (len(re.findall(number % mark, sample, re.MULTILINE)) for mark in (",", r"\."))
    point = "," if commas > points else "."
    codes = dict.fromkeys(_with_leading_zeros(text, separator, names, skip), pa.string())
    converting = arrow.ConvertOptions(
        null_values=_NULLS, strings_can_be_null=True, decimal_point=point, column_types=codes
    )
    try:
        table = arrow.read_csv(io.BytesIO(data), reading, parsing, converting)
    except pa.ArrowInvalid as error:
        raise ThurboError(f'cannot read "{path}" as delimited text: {error}; check the file') from None
    if bad:
        where = "a row" if bad[0].number is None else f"row {bad[0].number - skip} below the header"
        problem = f'{where} of "{path}" has {bad[0].actual_columns} cells, but the header has {bad[0].expected_columns}'
        remedy = "give every row the same number of cells, and quote cells that contain the separator"
        raise ThurboError(f"{problem}; {remedy}")
    nullable, columns = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}, {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.equal(column, ""), None, column)
        kinds = nullable.get if column.null_count else None
        columns[name] = pd.Series(column.to_pandas(date_as_object=False, types_mapper=kinds))
    return pd.DataFrame(columns), book


def _with_leading_zeros(text: str, separator: str, names: list[str], skip: int) -> list[str]:
    """Columns of codes such as "02139" and "034", which are no numbers: "0" alone is one."""
    if not re.search(rf'(?:["\r\n]|{re.escape(separator)})0\d', text):
        return []
    rows = list(islice(_rows(text, separator), skip, skip + _MOST_EXAMINED))
    found = []
    for place, name in enumerate(names):
        cells = [row[place].strip() for row in rows if len(row) == len(names)]
        zeros = {cell for cell in cells if len(cell) > 1 and cell[0] == "0"}
        are_codes = len(zeros) > 1 or len({len(cell) for cell in cells if cell.isdecimal()}) == 1  # "00" may be a slip
        if zeros and are_codes and all(cell.isdecimal() or cell in _NULLS for cell in cells):
            found.append(name)
    return found


def read_header(rows: Sequence[list[str]], path: str) -> tuple[list[str], int, Codebook]:
    """Names of the columns, number of header rows, and titles and groups of columns; `rows` are stripped texts."""
    first, second, third = (*rows[:3], [], [])[:3]
    names, n_rows, nothing = [name or f"column {place}" for place, name in enumerate(first, 1)], 1, [""] * len(first)
    titles, options = list(nothing), list(nothing)
    unnamed = ["" if _UNNAMED.fullmatch(name) else name for name in first]
    # A question that is repeated over its columns is written once, as in merged cells.
    above = [name if name != before else "" for name, before in zip(unnamed, [None, *unnamed], strict=False)]
    start = int([row[:1] for row in (first, second, third)] == [[""], ["0"], ["1"]])  # it was saved with row numbers
    if third and sum(cell.startswith('{"ImportId"') for cell in third) > len(third) // 2:  # Qualtrics
        pairs = zip(first, [*second, *nothing], strict=False)
        n_rows, titles = 3, ["" if title == name else title for name, title in pairs]
    elif _is_second_header(above[start:], second[start:], third[start:]):
        n_rows = 2
        names[start:], titles[start:], options[start:] = _two_rows(above[start:], second[start:])
    elif _says_response(first, second, third):
        n_rows = 2  # it only says "Response" below each name
    elif _are_titles(first, second, third):
        n_rows, titles = 2, second
    names = _unique(names, first, path)
    grids: dict[str, list[tuple[str, str]]] = {}  # the options of each question
    for name, title, option in zip(names, titles, options, strict=True):
        if option:
            grids.setdefault(title, []).append((name, option))
    groups = tuple(ColumnGroup(title, "grid", tuple(members)) for title, members in grids.items() if len(members) > 1)
    notes = {name: Note(title=title) for name, title in zip(names, titles, strict=True) if title}
    return names, n_rows, Codebook(notes, groups)


def _says_response(first: list[str], second: list[str], third: list[str]) -> bool:
    said = [cell for cell in second if cell]
    is_row = len(second) == len(first) > 1 and bool(said) and all(map(_ANSWER.fullmatch, said))
    return is_row and (len(said) >= len(first) / 2 or (not second[0] and bool(third and third[0])))


def _are_titles(first: list[str], second: list[str], third: list[str]) -> bool:
    """Whether the second row has the text of each question below its code: q1, then "How old are you?"."""
    is_table = 1 < len(first) == len(second) == len(third)
    if not is_table or len(set(second)) < len(second) or any(" " in name for name in first) or not all(second):
        return False
    below, rows = (sum(len(cell.split()) >= 3 for cell in row) / len(row) for row in (second, third))
    if below >= 0.8 and rows <= _MOST_SENTENCES:
        return True
    are_numbers = [[is_number_text(cell) or bool(_MOMENT.fullmatch(cell)) for cell in row] for row in (second, third)]
    numbers = [sum(each) / len(each) for each in are_numbers]
    return below >= 0.4 and rows <= _MOST_SENTENCES and numbers[0] == 0 and numbers[1] >= _FEWEST_NUMBERS


def _is_second_header(first: list[str], second: list[str], third: list[str]) -> bool:
    """Whether the second row is a header too: options below their question, as SurveyMonkey writes them."""
    is_row = len(second) == len(first) and not all(first) and not any(map(is_number_text, second))
    if not is_row or not all(below for name, below in zip(first, second, strict=True) if not name):
        return False
    # Many columns without a name, and a text in every cell below: in a row of answers, options that are not chosen are
    # blank.
    if all(second) and first.count("") >= _FEWEST_BLANK * len(first) and len(set(second)) > len(second) / 2:
        return True
    # A row of answers would contain numbers, and would not contain the word "Response".
    blank_below = not second[0] and bool(third and third[0])
    return bool(first[0]) and (blank_below or any(map(_ANSWER.fullmatch, second)))


def _two_rows(first: list[str], second: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Column names from questions and the options below them; the questions of options, and the options.

    The name is the option if it is unique in the table, else "question: option".
    """
    questions, options, question = [], [], ""
    for place, (above, below) in enumerate(zip(first, second, strict=True)):
        asks = not above and below.rstrip().endswith("?")  # a question of its own beside those of several columns
        question = " ".join((below if asks else above).split()) or question
        alone = asks or not question or (above and (place + 1 == len(first) or bool(first[place + 1])))
        options.append("" if alone or _ANSWER.fullmatch(below) else " ".join(below.split()))
        questions.append(question or " ".join(below.split()))
    heads = list(zip(questions, options, strict=True))
    times = Counter(option or question for question, option in heads)
    names = [": ".join(filter(None, head)) if times[head[1]] != 1 else head[1] for head in heads]
    return names, [question if option else "" for question, option in heads], options


def _unique(names: list[str], header: list[str], path: str) -> list[str]:
    """Column names with a number behind the second, third, ... of one name; warns about these and about empty names."""
    found: list[str] = []
    empty = [(f"column {place}", place) for place, above in enumerate(header, 1) if not above]
    changed = [
        f'column {place} has no name and is called "{name}"' for name, place in empty if names[place - 1] == name
    ]
    for name in names:
        free, number = name, 1
        while free in found or (number > 1 and free in names):
            number += 1
            free = f"{name} ({number})"
        if number > 1:
            short = name if len(name) <= 60 else f"{name[:28]}...{name[-28:]}"
            changed.append(f'a further column "{short}" is called "... ({number})"')
        found.append(free)
    if changed:
        more = f"; and {len(changed) - _MOST_TOLD} more" if len(changed) > _MOST_TOLD else ""
        message = f'names of "{path}" were changed: {"; ".join(changed[:_MOST_TOLD])}{more}'
        warnings.warn(message, SchemaWarning, stacklevel=7)  # where tb.read was called
    return found


def decode(data: bytes, path: str, encoding: str | None = None) -> tuple[str, bytes, str]:
    """The text of a file, its byte-order mark, and its encoding: given, or found by the mark or what can be decoded."""
    if encoding is not None:
        try:
            return data.decode(encoding), b"", encoding
        except LookupError:
            remedy = 'use for example encoding="utf-8" or encoding="cp1252"'
            raise ThurboError(f'cannot read "{path}": unknown encoding "{encoding}"; {remedy}') from None
        except UnicodeDecodeError as error:
            problem = f'byte {error.start} of "{path}" is not valid {encoding}'
            raise ThurboError(f"{problem}; omit encoding to detect it") from None
    mark, marked = next((each for each in _MARKS if data.startswith(each[0])), (b"", ""))
    sample = data[:4096]
    if not marked and sample.count(0) > len(sample) // 4:
        marked = "utf-16-le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16-be"
    for name in (marked,) if marked else ("utf-8", "cp1252", "latin-1"):
        try:
            text = data[len(mark) :].decode(name)
        except UnicodeDecodeError:
            continue
        if name in ("cp1252", "latin-1"):
            mac = data.decode("mac_roman")
            if len(_NO_WORD.findall(text)) > len(_NO_WORD.findall(mac)):
                return mac, mark, "mac_roman"
        return text, mark, name
    problem = f'cannot read "{path}": its byte-order mark says {marked}, but the content is not valid'
    raise ThurboError(f"{problem}; save it again as UTF-8, or give encoding=...")


# What a wrong encoding makes of quotes, dashes and blanks: a capital inside a word ("donÕt"), a control character.
_NO_WORD = re.compile(r"(?<=[a-z])[\u00c0-\u00de\u0152\u0160\u0178\u017d]|[\x80-\x9f]")


def find_separator(text: str) -> str:
    """The separator that splits the first lines into the most cells, the same number in every line."""
    lines = _lines(text, 30)
    best, most = ",", (False, 1)
    for separator in _SEPARATORS:
        rows = list(_rows(lines, separator))
        widths = [len(row) for row in rows[n_titles(rows) :]]
        found = (len(set(widths)) == 1, min(widths, default=1))
        if found[1] > 1 and found > most:
            best, most = separator, found
    return best


def _lines(text: str, most: int) -> str:
    """The first lines of a text; the last one may end inside a quoted cell."""
    return "".join(islice(io.StringIO(text, newline=""), most))


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    """The cells of the rows that are not empty."""
    return filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def n_titles(rows: Sequence[Sequence[str]]) -> int:
    """Rows above the names of the columns: what the table is about, in a single cell, or nothing."""
    filled = [[cell for cell in row if cell.strip()] for row in rows]
    above = next((place for place, cells in enumerate(filled) if len(cells) > 1), 0)
    names = filled[above] if above else []
    are_names = len(set(names)) == len(names) >= max(3, len(rows[above]) / 2) and not any(map(is_number_text, names))
    asks = above == 1 and "".join(filled[0]).endswith(("?", ":"))  # a question above its options
    return above if are_names and not asks and all(len(row) == len(rows[above]) for row in rows[above:]) else 0


def as_delimited(data: bytes, path: str, sheet: str | None = None) -> bytes:
    """One sheet as comma-separated text: the given one, or that of the visible ones that has nearly all cells."""
    import python_calamine

    try:
        book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        shown = [each.name for each in book.sheets_metadata if each.visible == python_calamine.SheetVisibleEnum.Visible]
        if sheet is not None and sheet not in book.sheet_names:
            raise ThurboError(f'"{path}" has no sheet "{sheet}"; use one of {", ".join(book.sheet_names)}')
        wanted = [sheet] if sheet is not None else shown
        tables = {name: _cells(book.get_sheet_by_name(name).to_python()) for name in wanted}
    except ThurboError:
        raise
    except Exception as error:  # the reader raises its own errors, and Python's for damaged archives
        raise ThurboError(f'cannot read "{path}": {error}; open it and save it again, or save it as .csv') from None
    tables = {name: rows for name, rows in tables.items() if len(rows) > 1}
    if not tables:
        raise ThurboError(f'cannot read "{path}": it is empty; give a sheet with a row of column names')
    size = {name: sum(map(len, rows)) for name, rows in tables.items()}
    largest = max(tables, key=size.__getitem__)
    if len(tables) > 1:
        several, names = f'"{path}" has tables in {len(tables)} sheets', ", ".join(tables)
        if size[largest] < _MOSTLY * sum(size.values()):
            raise ThurboError(f"{several}; give sheet=, one of {names}, or save that sheet as .csv")
        words = f'{several}; "{largest}" is read, which has nearly all cells; or give sheet=, one of {names}'
        warnings.warn(words, SchemaWarning, stacklevel=4)  # where tb.read was called
    text = io.StringIO()
    csv.writer(text).writerows(tables[largest])
    return text.getvalue().encode()


def _cells(rows: list[list[Any]]) -> list[list[str]]:
    """The rows that are not empty as texts, without empty columns at the right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    width = max((place for row in texts for place, cell in enumerate(row, 1) if cell), default=0)
    return [row[:width] for row in texts if any(row)]


def _text(cell: Any) -> str:
    if isinstance(cell, (bool, float)):
        return _number(cell)
    if isinstance(cell, datetime.datetime):
        return cell.date().isoformat() if cell.time() == datetime.time() else cell.isoformat(" ")
    return cell.isoformat() if isinstance(cell, (datetime.date, datetime.time)) else str(cell).strip()


def _number(value: Any) -> str:
    """A number or a boolean as text; whole numbers without decimals."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


NewTexts = Mapping[int, Mapping[int, tuple[str, bool]]]  # by row and column: a text, and whether it may replace another

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

    @property
    def _first_names(self) -> int:
        """The record with the names of the columns, below titles."""
        rows = [list(map(unquoted, self.raw(record))) for record in range(min(self.n_header, _MOST_TITLES) + 1)]
        return n_titles(rows[: len(self.records)])

    def replaced(self, new: NewTexts, added: Mapping[str, Sequence[str]]) -> bytes:
        """The file with some cells replaced, and with columns added at the right.

        Only empty cells and those that may be are replaced; any other is an error.
        """
        parts, last, blank, names_at = [], 0, [""] * len(added), self._first_names
        for record, (begin, end) in enumerate(self.records):
            row = record - self.n_header
            parts += [self.text[last:begin], self._record(record, new.get(row, {}))]
            head = list(added) if record == names_at else blank
            beside = [texts[row] for texts in added.values()] if row >= 0 else head
            parts += [self.separator + self._added(text) for text in beside]
            last = end
        return self._bytes("".join([*parts, self.text[last:]]))

    def stacked(self, draws: Sequence[NewTexts]) -> bytes:
        """The file, then the rows again for each draw, below two new columns: .imp from 0 and .id from 1.

        Cells that a draw replaces are empty in the part with .imp 0.
        """
        heads = [self.separator] * self.n_header
        heads[self._first_names] = ".imp" + self.separator + ".id"
        lines = [head + self.separator + self._record(record, {}) for record, head in enumerate(heads)]
        gone: dict[int, dict[int, tuple[str, bool]]] = {}
        for draw in draws:
            for row, texts in draw.items():
                filled = (column for column in texts if self.value(row, column).strip() not in EMPTY)
                gone.setdefault(row, {}).update(dict.fromkeys(filled, ("", True)))
        for number, draw in enumerate([gone, *draws]):
            for row in range(self.n_rows):
                own = self._record(self.n_header + row, draw.get(row, {}))
                lines.append(f"{number}{self.separator}{row + 1}{self.separator}{own}")
        return self._bytes(self.line_end.join([*lines, ""]))

    def _record(self, record: int, new: Mapping[int, tuple[str, bool]]) -> str:
        if not new:
            return self.text[slice(*self.records[record])]
        raw = self.raw(record)
        for column, (text, may_replace) in new.items():
            held = unquoted(raw[column]).strip()
            if not may_replace and held not in EMPTY and not NOT_APPLICABLE.fullmatch(held):
                where = f"row {record - self.n_header}, column {column}"
                raise ThurboError(f'{where}: the file has "{held}" in a cell that was read as empty; write .parquet')
            raw[column] = self._added(text, always=raw[column].startswith('"') and text != "")
        return self.separator.join(raw)

    def _added(self, text: str, always: bool = False) -> str:
        """A new cell, in quotes if it needs them, or `always`."""
        needs = any(sign in text for sign in (self.separator, '"', "\r", "\n")) or text != text.strip()
        return '"' + text.replace('"', '""') + '"' if needs or always else text

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
    text, mark, encoding = decode(data, path)
    separator = separator or find_separator(text.lstrip("\r\n"))
    records = tuple(_records(text, separator))
    n_header = len(records) - n_rows
    if mark + text.encode(encoding) != data or n_header < 1:
        raise ThurboError(f'cannot write back "{path}" without changing it; write .parquet')
    source = Verbatim(text, separator, mark, encoding, records, n_header)
    if any(len(source.raw(record)) != n_columns for record in (n_header, len(records) - 1)[: n_rows and 2]):
        raise ThurboError(f'cannot write back "{path}": its cells are not those of the table; write .parquet')
    return source


def _records(text: str, separator: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each record that is not blank: text up to a line end that no quoted cell holds."""
    start = rf"(?<![^{re.escape(separator)}\r\n])"  # a quote at the start of a cell opens a text
    record = re.compile(rf'(?:[^"\r\n]++|{start}"(?:[^"]++|"")*+(?:"|\Z)|")*+')
    return (match.span() for match in record.finditer(text) if match.end() > match.start())


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

    def spell(value: Any) -> str:
        value = as_text(value)
        if value in known:
            return known[value].strip()
        if not isinstance(value, (int, float, np.number, np.bool_)):
            return str(value)
        number, text = float(value), "" if value != value else _number(value)
        if decimals and not isinstance(value, (bool, np.bool_)) and round(number, decimals) == number:
            text = f"{number:.{decimals}f}"
        return text.replace(".", ",") if comma else text

    return [spell(value) for value in values]


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
