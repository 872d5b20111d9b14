"""Code books (titles, value labels, missing codes, response sets), and the SPSS and Stata files that carry them.

Idea: cells are the codes of the file, including user-missing codes; labels, measures and formats go to the code book.
Guarantees that a frame written to .sav and read again has the same codes, value labels, missing codes and measures.
Categories of a frame become codes with value labels, in their own order, because these formats have no categories.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from thurbo.errors import SchemaError, ThurboError

Measure = Literal["nominal", "ordinal", "scale", ""]
Range = tuple[Any, Any]  # from, to; the same value twice for a single code


@dataclass(frozen=True)
class Note:
    """The entry of one column in the code book of its file."""

    title: str = ""
    measure: Measure = ""
    names: tuple[tuple[Any, str], ...] = ()  # value labels: (code, text), in the order of the file
    missing: tuple[Range, ...] = ()  # user-missing codes, or ranges of codes
    format: str = ""  # display format: "F2.0", "EDATE10", "%9.0g"
    width: int | None = None  # display width

    @property
    def texts(self) -> dict[Any, str]:
        """Value label of each code that has one."""
        return dict(self.names)

    def is_missing(self, code: Any) -> bool:
        """Whether the file declares this code as missing."""
        return any(
            code == low
            if isinstance(code, str) or isinstance(low, str) or isinstance(high, str)
            else low <= code <= high
            for low, high in self.missing
        )

    @property
    def has_room(self) -> bool:
        """Whether SPSS could declare one more code as missing: the limit is three codes, or a range and one code."""
        return len(self.missing) < (2 if any(low != high for low, high in self.missing) else 3)


@dataclass(frozen=True)
class ColumnGroup:
    """Columns of a file that belong to one question.

    "ticks": each column is an option, selected where the cell equals `ticked`. "mentions": each column holds one of the
    selected options. "places": the same, the most important first. "grid": columns under one heading; their type
    depends on the cells.
    """

    name: str
    kind: Literal["ticks", "mentions", "places", "grid"]
    members: tuple[tuple[str, str], ...]  # (column, its option or place)
    ticked: Any = None
    title: str = ""


def whole(code: Any) -> Any:
    """A code as an integer if it is whole, because SPSS and Stata store all numbers as floats."""
    return int(code) if isinstance(code, float) and code.is_integer() else code


KEY = "thurbo"


@dataclass(frozen=True)
class Codebook:
    """Notes on columns by name, groups of columns that belong to one question, and the title of the file."""

    notes: Mapping[str, Note] = field(default_factory=dict)
    groups: tuple[ColumnGroup, ...] = ()
    title: str = ""
    remarks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.notes or self.groups or self.title or self.remarks)

    def note(self, name: str) -> Note:
        """The note on a column; an empty note if the file has none."""
        return self.notes.get(name, _EMPTY)

    def only(self, names: Iterable[str]) -> Codebook:
        """The code book of these columns only."""
        kept = set(names)
        groups = tuple(group for group in self.groups if all(column in kept for column, _ in group.members))
        return Codebook({k: v for k, v in self.notes.items() if k in kept}, groups, self.title, self.remarks)

    def to_text(self) -> str:
        """The code book as JSON, without empty fields."""
        return json.dumps(_filled(asdict(self)), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: Any) -> Codebook:
        """The code book that `to_text` wrote; empty for any other value, because attrs may hold anything."""
        try:
            state = json.loads(text)
            notes = {str(name): Note(**_tuples(entry)) for name, entry in state.get("notes", {}).items()}
            groups = tuple(ColumnGroup(**_tuples(entry)) for entry in state.get("groups", []))
            return cls(notes, groups, str(state.get("title", "")), tuple(map(str, state.get("remarks", []))))
        except (TypeError, ValueError, AttributeError):
            return cls()

    @classmethod
    def of(cls, frame: Any) -> Codebook:
        """The code book in the attrs of a frame, for the columns that the frame still has."""
        attrs = getattr(frame, "attrs", None)
        if not isinstance(attrs, Mapping) or KEY not in attrs:
            return cls()
        return cls.from_text(attrs[KEY]).only(map(str, frame.columns))

    @classmethod
    def of_arrow(cls, schema: Any) -> Codebook:
        """The code book in the metadata of an Arrow schema."""
        return cls.from_text((schema.metadata or {}).get(KEY.encode()))


_EMPTY = Note()


def _filled(value: Any) -> Any:
    """The value without empty fields."""
    if isinstance(value, dict):
        entries = ((key, _filled(entry)) for key, entry in value.items())
        return {key: entry for key, entry in entries if entry not in ("", (), {}, None)}
    return tuple(map(_filled, value)) if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(entry) for key, entry in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


_START = 176  # bytes of the file header
_VARIABLE, _VALUES, _DOCUMENT, _EXTENSION, _LAST = 2, 3, 6, 7, 999
_SETS, _LONG_NAMES = 7, 13  # kinds of extension


def add_response_sets(path: Path, groups: Sequence[ColumnGroup]) -> None:
    """Insert response sets into a little-endian .sav or .zsav file, as written by pyreadstat."""
    sets = [group for group in groups if group.kind in ("ticks", "mentions")]
    if not sets:
        return
    data, last, short = path.read_bytes(), _START, dict[str, str]()
    for start, last in _records(data):
        if struct.unpack_from("<2i", data, start) == (_EXTENSION, _LONG_NAMES):
            pairs = (pair.split("=", 1) for pair in data[start + 16 : last].decode("utf-8").split("\t") if "=" in pair)
            short = {long: brief for brief, long in pairs}
    text = b""
    for group in sets:  # in SPSS syntax: "$name=D1 1 5 Title a b", with short column names in lower case
        ticked, title = str(group.ticked), group.title
        how = f"D{len(ticked)} {ticked}" if group.kind == "ticks" else "C"
        columns = " ".join(short.get(column, column).lower() for column, _ in group.members)
        text += f"${group.name}={how} {len(title.encode())} {title} {columns}\n".encode()
    record = struct.pack("<4i", _EXTENSION, _SETS, 1, len(text)) + text
    rest = _moved(data[last:], last, len(record)) if data.startswith(b"$FL3") else data[last:]
    path.write_bytes(data[:last] + record + rest)


def _records(data: bytes) -> Iterator[tuple[int, int]]:
    """Begin and end of each record after the header and before the last one."""

    def number(place: int) -> int:
        return int.from_bytes(data[place : place + 4], "little", signed=True)

    at = _START
    while (kind := number(at)) != _LAST:
        start = at
        if kind == _VARIABLE:  # width, whether it has a label, number of missing codes
            label = 4 + (number(at + 32) + 3) // 4 * 4 if number(at + 8) else 0
            at += 32 + label + 8 * abs(number(at + 12))
        elif kind == _VALUES:
            n_labels, at = number(at + 4), at + 8
            for _ in range(n_labels):
                at += 8 + (data[at + 8] + 8) // 8 * 8
            at += 8 + 4 * number(at + 4)
        elif kind == _DOCUMENT:
            at += 8 + 80 * number(at + 4)
        elif kind == _EXTENSION:
            at += 16 + number(at + 8) * number(at + 12)
        else:
            raise ValueError(f"unknown record type {kind}")
        yield start, at


def _moved(rest: bytes, last: int, shift: int) -> bytes:
    """The compressed part of a .zsav file, which begins at `last`, with its file offsets shifted."""
    moved = bytearray(rest)
    at = struct.unpack_from("<2q", moved, 8)[1] - last  # of the trailer
    (n_blocks,) = struct.unpack_from("<i", moved, at + 20)
    for place in (8, *(at + 24 + 24 * block for block in range(n_blocks))):
        struct.pack_into("<2q", moved, place, *(offset + shift for offset in struct.unpack_from("<2q", moved, place)))
    return bytes(moved)


_RENAMED = "Renamed: "  # a remark in the file: this variable has its original name as its label
_LONGEST_LABEL = 255  # bytes
_RESERVED = frozenset(["ALL", "AND", "BY", "EQ", "GE", "GT", "LE", "LT", "NE", "NOT", "OR", "TO", "WITH"])


def valid_names(names: Sequence[str], suffix: str) -> list[str]:
    """Unique names that the format of this extension allows; those that are valid stay as they are."""
    key = str if suffix == ".dta" else str.casefold
    valid = {place: name for place, name in enumerate(names) if fitting(name, suffix) == name}
    taken = {key(name): place for place, name in reversed(valid.items())}  # the first of each stays
    found = {place: names[place] for place in taken.values()}
    for place, name in enumerate(names):
        if place not in found:
            endings = chain([""], (f"_{number}" for number in count(2)))
            similar = (_shortened(fitting(name, suffix), ending, suffix) for ending in endings)
            found[place] = next(each for each in similar if key(each) not in taken)
            taken[key(found[place])] = place
    return [found[place] for place in range(len(names))]


def fitting(name: str, suffix: str) -> str:
    """The name itself if the format allows it, otherwise a similar one."""
    first, other = (r"[^\W\d]", r"\w") if suffix == ".dta" else (r"[^\W\d_]", r"[\w.$#@]")
    is_reserved = suffix != ".dta" and name.upper() in _RESERVED
    if re.fullmatch(f"{first}{other}*", name) and not is_reserved and _shortened(name, "", suffix) == name:
        return name
    found = re.sub(f"(?:(?!{other}).)+", "_", name, flags=re.DOTALL).strip("_")
    if not re.match(first, found):
        found = f"v{found}" if found else "column"
    if suffix != ".dta" and found.upper() in _RESERVED:
        found += "_"
    return _shortened(found, "", suffix)


def _shortened(name: str, ending: str, suffix: str) -> str:
    """A name with an ending, which the format allows 32 characters (Stata) or 64 bytes (SPSS)."""

    def fits(whole: str) -> bool:
        return len(whole) <= 32 if suffix == ".dta" else len(whole.encode("utf-8", "replace")) <= 64

    while not fits(name + ending):
        name = name[:-1]
    return name + ending


def renamed(frame: Any, book: Codebook, suffix: str) -> tuple[Any, Codebook]:
    """A frame and its code book with names that the format allows; a column without a title keeps its name as one."""
    old = [str(name) for name in frame.columns]
    change = {was: now for was, now in zip(old, valid_names(old, suffix), strict=True) if was != now}
    if not change:
        return frame, book
    notes, remarks = dict(book.notes), list(book.remarks)
    for was, now in change.items():
        note = book.note(was)
        if not note.title:
            label = was.encode("utf-8", "replace")[:_LONGEST_LABEL].decode("utf-8", "ignore")
            notes[was] = replace(note, title=label)
            remarks += [f"{_RENAMED}{now}"] if label == was else []
    return _with_names(frame, replace(book, notes=notes, remarks=tuple(remarks)), change)


def restored(frame: Any, book: Codebook) -> tuple[Any, Codebook]:
    """A frame and its code book with the original names of the variables that `renamed` changed."""
    names = [remark.removeprefix(_RENAMED) for remark in book.remarks if remark.startswith(_RENAMED)]
    change = {now: book.note(now).title for now in names if now in frame.columns and book.note(now).title}
    if not change or len({change.get(name, name) for name in frame.columns}) < len(frame.columns):
        return frame, book
    notes = {name: replace(note, title="") if name in change else note for name, note in book.notes.items()}
    remarks = tuple(remark for remark in book.remarks if remark.removeprefix(_RENAMED) not in change)
    return _with_names(frame, replace(book, notes=notes, remarks=remarks), change)


def _with_names(frame: Any, book: Codebook, change: Mapping[str, str]) -> tuple[Any, Codebook]:
    """A frame and its code book with other names of some columns."""
    frame = frame.set_axis([change.get(str(name), name) for name in frame.columns], axis=1)
    notes = {change.get(name, name): note for name, note in book.notes.items()}
    groups = tuple(
        replace(group, members=tuple((change.get(column, column), option) for column, option in group.members))
        for group in book.groups
    )
    return frame, replace(book, notes=notes, groups=groups)


_MOST_VALUES_PER_BYTE = {0: 1 / 8, 1: 1.0, 2: 1100.0}  # uncompressed, one-byte codes, best case of zlib
_DISCRETE, _BESIDE_RANGE = 3, 1  # missing codes allowed by SPSS: without and with a range
_MOST_NAMED, _LONGEST_NAME = 100, 120  # most unordered categories that become codes; bytes of a value label in SPSS


def read_statistical(path: str, suffix: str, encoding: str | None) -> tuple[Any, Codebook]:
    """Read a file as a pandas frame of codes, and its code book."""
    import pyreadstat

    if suffix in (".sav", ".zsav"):
        _check_header(path)
    reader: Any = {".dta": pyreadstat.read_dta, ".por": pyreadstat.read_por}.get(suffix, pyreadstat.read_sav)
    options: dict[str, Any] = {"dates_as_pandas_datetime": True}
    if suffix != ".por":
        options |= {"user_missing": True, "encoding": encoding}
    try:
        frame, meta = reader(path, **options)
    except (pyreadstat.ReadstatError, UnicodeDecodeError) as error:
        if encoding is not None or "encod" not in str(error).lower() or suffix == ".por":
            raise
        # Some old files declare UTF-8 wrongly; every byte is a character of the Windows encoding.
        frame, meta = reader(path, **{**options, "encoding": "WINDOWS-1252"})
    for name, series in frame.items():
        if series.dtype in ("str", "string", "object"):  # these formats have no other missing text than empty text
            frame[name] = series.where(series.notna() & (series != ""), None)
    return restored(frame, _book(meta))


def _check_header(path: str) -> None:
    """Refuse a .sav file whose header states more rows than the file can hold, before memory is allocated."""
    with open(path, "rb") as stream:
        start = stream.read(_START)
    if len(start) < _START:
        raise ThurboError(f'cannot read "{path}": it is truncated; copy it again')
    order = "<" if start[64:68] in (b"\2\0\0\0", b"\3\0\0\0") else ">"
    layout, width, compression, _, rows = struct.unpack(f"{order}5i", start[64:84])
    most = _MOST_VALUES_PER_BYTE.get(compression)
    if layout not in (2, 3) or most is None:
        raise ThurboError(f'cannot read "{path}": its header is damaged; copy it again')
    if width > 0 and rows > 0 and rows * width > most * os.path.getsize(path):
        problem = f"its header states {rows:,} rows, but the file is too short"
        raise ThurboError(f'cannot read "{path}": {problem}; copy it again')


def _book(meta: Any) -> Codebook:
    notes = {}
    for name in meta.column_names:
        names, measure = meta.variable_value_labels.get(name) or {}, meta.variable_measure.get(name, "")
        notes[name] = Note(
            title=str(meta.column_names_to_labels.get(name) or "").strip(),
            measure=measure if measure in get_args(Measure) else "",
            names=tuple((whole(code), str(text).strip()) for code, text in names.items()),
            missing=(
                *((whole(each["lo"]), whole(each["hi"])) for each in meta.missing_ranges.get(name, ())),
                *((letter, letter) for letter in meta.missing_user_values.get(name, ())),
            ),
            format=str(meta.original_variable_types.get(name) or ""),
            width=meta.variable_display_width.get(name),
        )
    return Codebook(notes, _sets(meta), str(meta.file_label or ""), tuple(str(note) for note in meta.notes or ()))


def _sets(meta: Any) -> tuple[ColumnGroup, ...]:
    """Multiple response sets: one column per option (dichotomy) or one column per mention (category)."""
    known = {name.casefold(): name for name in meta.column_names}
    groups = []
    for name, entry in (getattr(meta, "mr_sets", None) or {}).items():
        columns = [known.get(column.casefold()) for column in entry["variable_list"]]
        if None in columns or len(set(columns)) < 2:
            continue  # the set refers to columns that are not in the file
        titles = [str(meta.column_names_to_labels.get(column) or column).strip() for column in columns]
        options = titles if len(set(titles)) == len(titles) else columns
        members = tuple((str(column), str(option)) for column, option in zip(columns, options, strict=True))
        kind: Any = "ticks" if entry["is_dichotomy"] else "mentions"
        groups.append(ColumnGroup(name, kind, members, whole(entry["counted_value"]), str(entry["label"] or "")))
    return tuple(groups)


def write_statistical(frame: Any, path: str, suffix: str, book: Codebook) -> None:
    """Write a pandas frame with its code book; raises for a column that the format cannot hold."""
    import pyreadstat

    frame = frame.reset_index(drop=True)
    frame.columns = _names([str(name) for name in frame.columns], suffix)
    frame, book = renamed(frame, book, suffix)
    coded = {name: _in_codes(frame[name], book.note(name)) for name in frame.columns}
    notes = {name: note for name, (_, note) in coded.items()}
    frame = frame.assign(**{name: _writable(series, suffix) for name, (series, _) in coded.items()})

    def each(of: Callable[[Note, Any], Any]) -> dict[str, Any]:
        """What there is to say of each column."""
        return {name: found for name, note in notes.items() if (found := of(note, frame[name]))}

    common: dict[str, Any] = {
        "file_label": book.title,
        "column_labels": each(lambda note, series: note.title),
        "variable_value_labels": each(lambda note, series: _texts(note, series, suffix)),
        "variable_format": each(lambda note, series: _format(note, series, suffix)),
    }
    if suffix == ".dta":
        letters = each(
            lambda note, series: series.dtype == object and [a for a, _ in note.missing if isinstance(a, str)]
        )
        pyreadstat.write_dta(frame, path, missing_user_values=letters or None, **common)
        return
    pyreadstat.write_sav(
        frame,
        path,
        compress=suffix == ".zsav",
        row_compress=suffix == ".sav",
        note=list(book.remarks) or None,
        missing_ranges=each(_declared),
        variable_measure=each(lambda note, series: note.measure),
        variable_display_width=each(lambda note, series: note.width),
        **common,
    )
    add_response_sets(Path(path), book.groups)


def _names(names: list[str], suffix: str) -> list[str]:
    """Column names, with those of stacked imputations as the package expects them: only R allows a dot in front."""
    own = {".imp": "_mi_m", ".id": "_mi_id"} if suffix == ".dta" else {".imp": "Imputation_", ".id": "Row_"}
    if not set(own) <= set(names):
        return names
    for name, other in own.items():
        if other in names:
            problem = f'a {suffix} file needs this name for the column "{name}" of stacked imputations'
            raise SchemaError(problem, column=other, remedy="rename the column")
    return [own.get(name, name) for name in names]


def _in_codes(series: Any, note: Note) -> tuple[Any, Note]:
    """Categories as codes with value labels: the codes of the code book if it has them all, else 1, 2, ... in order.

    Numbers stay unchanged, and so do unordered texts that are too many or too long for value labels.
    """
    import pandas as pd

    if not isinstance(series.dtype, pd.CategoricalDtype) or series.cat.categories.dtype.kind in "iufb":
        return series, note
    categories, ordered = series.cat.categories.tolist(), bool(series.cat.ordered)
    texts = [str(category) for category in categories]
    is_long = len(texts) > _MOST_NAMED or any(len(text.encode()) > _LONGEST_NAME for text in texts)
    if is_long and not ordered:
        return series, note
    known = {text: code for code, text in note.names if not isinstance(code, str)}
    has_codes = bool(texts) and all(text in known for text in texts)
    codes = [known[text] for text in texts] if has_codes else list(range(1, len(texts) + 1))
    cells = pd.Series(np.asarray([*codes, np.nan], np.float64)[series.cat.codes], series.index, name=series.name)
    note = replace(note, measure=note.measure or ("ordinal" if ordered else "nominal"), format="")
    if has_codes:
        return cells, note
    place, labels = dict(zip(categories, codes, strict=True)), note.texts
    names = tuple((place[category], labels.get(category, str(category))) for category in categories)
    missing = tuple((place[low], place[low]) for low, _ in note.missing if low in place)
    return cells, replace(note, names=names, missing=missing)


def _writable(series: Any, suffix: str) -> Any:
    """A column in a dtype that the format supports; raises if there is none."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype if series.cat.categories.dtype.kind in "iuf" else object)
    if pd.api.types.is_bool_dtype(series.dtype) or pd.api.types.is_numeric_dtype(series.dtype):
        return series.astype("float64")
    if series.dtype != object:
        return series
    known = series[series.notna()]
    kinds = set(map(type, known))
    if kinds & {list, tuple, set, frozenset, dict, np.ndarray}:
        problem = f"cells that hold lists, such as {known.iloc[0]!r}, cannot be written to a {suffix} file"
        raise SchemaError(problem, column=series.name, remedy="write .parquet or .csv, or use one column per option")
    are_numbers = [issubclass(kind, (int, float, np.number, np.bool_)) for kind in kinds]
    if all(are_numbers):
        return series.where(series.notna(), None).astype("float64")
    if suffix == ".dta" and any(are_numbers) and str in kinds:
        return series.map(lambda cell: cell if isinstance(cell, str) or cell is None else float(cell))
    return series


def _texts(note: Note, series: Any, suffix: str) -> dict[Any, str]:
    """Value labels in the dtype of the column; Stata labels only integers and its missing letters."""
    found: dict[Any, str] = {}
    for code, text in note.names:
        is_text = isinstance(code, str)
        if suffix == ".dta":
            letter = is_text and note.is_missing(code) and series.dtype == object
            if letter or (isinstance(whole(code), int) and not isinstance(code, bool)):
                found[code if letter else int(code)] = text
        elif is_text != (series.dtype.kind == "f") and series.dtype.kind not in "mM":
            found[code if is_text else float(code)] = text
    return found


def _declared(note: Note, series: Any) -> list[Any]:
    """Missing codes within the limits of SPSS: three codes, or a range without other codes and one code."""
    if series.dtype.kind in "mM":
        return []
    is_number = series.dtype.kind == "f"
    fitting = [(low, high) for low, high in note.missing if isinstance(low, str) != is_number]
    single = [low for low, high in fitting if low == high]
    wide = [(low, high) for low, high in fitting if low != high]
    if not wide and len(single) > _DISCRETE and is_number:
        # One range and one code, if no answer lies inside the range.
        single = codes = sorted(single)
        others = [value for value in np.unique(series.dropna()) if value not in codes]
        for low, high, rest in ((codes[1], codes[-1], codes[:1]), (codes[0], codes[-2], codes[-1:])):
            if not wide and not any(low <= value <= high for value in others):
                wide, single = [(low, high)], rest
    kept = [{"lo": float(low), "hi": float(high)} for low, high in wide[:1]]
    room = _BESIDE_RANGE if kept else _DISCRETE
    return [*kept, *(low if isinstance(low, str) else float(low) for low in single[:room])]


def _format(note: Note, series: Any, suffix: str) -> str:
    """Display format of a column: that of the code book if it is valid here, without hiding decimals in SPSS."""
    form, is_number = note.format, series.dtype.kind == "f"
    is_date = series.dtype.kind in "mM" or series.dtype == object
    # The formats of one package are not valid in the other, and the width of text (A) follows from the cells.
    numeric = suffix == ".dta" or form.rstrip("0123456789.") in ("F", "COMMA", "DOT", "DOLLAR", "PCT", "N", "E")
    is_here = form.startswith("%") == (suffix == ".dta") and form[:1] != "A"
    if not is_here or not (is_date or (is_number and numeric)):
        form = ""
    if suffix == ".dta" or not is_number or not re.fullmatch(r"(F\d+(\.0)?)?", form):
        return form
    known = series.to_numpy()[np.isfinite(series.to_numpy())]
    if (known != np.floor(known)).any():
        return ""  # the default, with two decimals: "F2.0" would hide the decimals of imputed numbers
    return form or ("F8.0" if np.abs(known).max(initial=0) < 1e7 else "")


def statistical_error(error: Exception, path: str, verb: Literal["read", "write"]) -> ThurboError:
    """An error of pyreadstat, as one sentence with a remedy."""
    reason = str(error).strip().rstrip(".") or type(error).__name__
    if verb == "read":
        reason = reason[:1].lower() + reason[1:]
        remedy = "the file may be truncated or of another format: copy it again, or export it again"
    elif reason == "Unable to write data":  # all that the library says if the disk is full
        reason, remedy = "the disk is full, or the file is too large for it", "free some space, or choose another disk"
    else:
        remedy = "rename or convert that column, or write .parquet"
    return ThurboError(f'cannot {verb} "{path}": {reason}; {remedy}')
