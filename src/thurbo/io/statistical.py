"""SPSS (.sav .zsav .por) and Stata (.dta) files, through pyreadstat.

Idea: cells are the codes of the file, including user-missing codes; labels, measures and formats go to the code book.
Guarantees that a frame written to .sav and read again has the same codes, value labels, missing codes and measures.
Categories of a frame become codes with value labels, in their own order, because these formats have no categories.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thurbo.errors import SchemaError, ThurboError
from thurbo.io.codebook import Codebook
from thurbo.io.notes import Group, Measure, Note, Range, coded, whole
from thurbo.io.response_sets import add_response_sets
from thurbo.io.variable_names import renamed, restored

_MEASURES: dict[str, Measure] = {"nominal": "nominal", "ordinal": "ordinal", "scale": "scale"}
_HEADER = 176  # bytes
_MOST_VALUES_PER_BYTE = {0: 1 / 8, 1: 1.0, 2: 1100.0}  # uncompressed, one-byte codes, best case of zlib
_DISCRETE, _BESIDE_RANGE = 3, 1  # missing codes allowed by SPSS: without and with a range
_MOST_NAMED, _LONGEST_NAME = 100, 120  # most unordered categories that become codes; bytes of a value label in SPSS
# Column names of stacked imputations: only R allows names that begin with a dot.
_LONG_FORM = {
    ".sav": {".imp": "Imputation_", ".id": "Row_"},
    ".zsav": {".imp": "Imputation_", ".id": "Row_"},
    ".dta": {".imp": "_mi_m", ".id": "_mi_id"},
}


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
    return restored(_without_blanks(frame), _book(meta))


def _check_header(path: str) -> None:
    """Refuse a .sav file whose header states more rows than the file can hold, before memory is allocated."""
    with open(path, "rb") as stream:
        start = stream.read(_HEADER)
    if len(start) < _HEADER:
        raise ThurboError(f'cannot read "{path}": it is truncated; copy it again')
    order = "<" if start[64:68] in (b"\2\0\0\0", b"\3\0\0\0") else ">"
    layout, width, compression, _, rows = struct.unpack(f"{order}5i", start[64:84])
    most = _MOST_VALUES_PER_BYTE.get(compression)
    if layout not in (2, 3) or most is None:
        raise ThurboError(f'cannot read "{path}": its header is damaged; copy it again')
    if width > 0 and rows > 0 and rows * width > most * os.path.getsize(path):
        raise ThurboError(
            f'cannot read "{path}": its header states {rows:,} rows, but the file is too short; copy it again'
        )


def _without_blanks(frame: Any) -> Any:
    """Empty text as missing: these formats have no other missing text."""
    for name, series in frame.items():
        if series.dtype in ("str", "string", "object"):
            frame[name] = series.where(series.notna() & (series != ""), None)
    return frame


def _book(meta: Any) -> Codebook:
    notes = {}
    for name in meta.column_names:
        names = meta.variable_value_labels.get(name) or {}
        notes[name] = Note(
            title=str(meta.column_names_to_labels.get(name) or "").strip(),
            measure=_MEASURES.get(meta.variable_measure.get(name, ""), ""),
            names=coded(names.items()),
            missing=_ranges(meta, name),
            format=str(meta.original_variable_types.get(name) or ""),
            width=meta.variable_display_width.get(name),
        )
    remarks = tuple(str(note) for note in meta.notes or ())
    return Codebook(notes, _sets(meta), str(meta.file_label or ""), remarks)


def _ranges(meta: Any, name: str) -> tuple[Range, ...]:
    found = [(whole(each["lo"]), whole(each["hi"])) for each in meta.missing_ranges.get(name, ())]
    return (*found, *((letter, letter) for letter in meta.missing_user_values.get(name, ())))


def _sets(meta: Any) -> tuple[Group, ...]:
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
        groups.append(Group(name, kind, members, whole(entry["counted_value"]), str(entry["label"] or "")))
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
    texts = {name: _texts(frame[name], note, suffix) for name, note in notes.items()}
    common: dict[str, Any] = {
        "file_label": book.title,
        "column_labels": {name: note.title for name, note in notes.items() if note.title},
        "variable_value_labels": {name: found for name, found in texts.items() if found},
    }
    formats = {name: _format(note, frame[name], suffix) for name, note in notes.items()}
    formats = {name: form for name, form in formats.items() if form}
    if suffix == ".dta":
        letters = {name: [low for low, _ in note.missing if isinstance(low, str)] for name, note in notes.items()}
        lettered = {name: found for name, found in letters.items() if found and frame[name].dtype == object}
        pyreadstat.write_dta(frame, path, missing_user_values=lettered or None, variable_format=formats, **common)
        return
    ranges = {name: _declared(note.missing, frame[name]) for name, note in notes.items()}
    pyreadstat.write_sav(
        frame,
        path,
        compress=suffix == ".zsav",
        row_compress=suffix == ".sav",
        note=list(book.remarks) or None,
        missing_ranges={name: found for name, found in ranges.items() if found},
        variable_measure={name: note.measure for name, note in notes.items() if note.measure},
        variable_display_width={name: note.width for name, note in notes.items() if note.width},
        variable_format=formats,
        **common,
    )
    add_response_sets(Path(path), book.groups)


def _names(names: list[str], suffix: str) -> list[str]:
    """Column names, with those of stacked imputations as the package expects them."""
    own = _LONG_FORM[suffix]
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
    if kinds <= {bool, np.bool_}:
        return series.astype("boolean").astype("float64")
    if suffix == ".dta" and any(issubclass(kind, (int, float, np.number)) for kind in kinds) and str in kinds:
        return series.map(lambda cell: cell if isinstance(cell, str) or cell is None else float(cell))
    if all(issubclass(kind, (int, float, np.number)) for kind in kinds) and kinds:
        return series.astype("float64")
    return series


def _is_number(series: Any) -> bool:
    return bool(series.dtype.kind == "f")


def _texts(series: Any, note: Note, suffix: str) -> dict[Any, str]:
    """Value labels in the dtype of the column; Stata labels only integers and its missing letters."""
    found: dict[Any, str] = {}
    for code, text in note.names:
        is_text = isinstance(code, str)
        if suffix == ".dta":
            letter = is_text and note.is_missing(code) and series.dtype == object
            if letter or (isinstance(whole(code), int) and not isinstance(code, bool)):
                found[code if letter else int(code)] = text
        elif is_text != _is_number(series) and series.dtype.kind not in "mM":
            found[code if is_text else float(code)] = text
    return found


def _declared(missing: tuple[Range, ...], series: Any) -> list[Any]:
    """Missing codes within the limits of SPSS: three codes, or a range without other codes and one code."""
    fitting = [(low, high) for low, high in missing if isinstance(low, str) != _is_number(series)]
    if series.dtype.kind in "mM":
        return []
    single = [low for low, high in fitting if low == high]
    wide = [(low, high) for low, high in fitting if low != high]
    if not wide and len(single) > _DISCRETE and _is_number(series):
        wide, single = _covered(sorted(single), series)
    kept = [{"lo": float(low), "hi": float(high)} for low, high in wide[:1]]
    room = _BESIDE_RANGE if kept else _DISCRETE
    return [*kept, *(low if isinstance(low, str) else float(low) for low in single[:room])]


def _covered(codes: list[Any], series: Any) -> tuple[list[Range], list[Any]]:
    """Four or more missing codes as one range and one code, if no answer lies inside the range."""
    others = [value for value in np.unique(series.dropna()) if value not in codes]
    for low, high, rest in ((codes[1], codes[-1], codes[:1]), (codes[0], codes[-2], codes[-1:])):
        if not any(low <= value <= high for value in others):
            return [(low, high)], rest
    return [], codes


def _format(note: Note, series: Any, suffix: str) -> str:
    """Display format of a column: that of the code book, without hiding decimals in SPSS."""
    form = note.format if _fits(note.format, series, suffix) else ""
    if suffix == ".dta" or not _is_number(series) or not re.fullmatch(r"(F\d+(\.0)?)?", form):
        return form
    known = series.to_numpy()[np.isfinite(series.to_numpy())]
    if (known != np.floor(known)).any():
        return ""  # the default, with two decimals: "F2.0" would hide the decimals of imputed numbers
    return form or ("F8.0" if np.abs(known).max(initial=0) < 1e7 else "")


def _fits(form: str, series: Any, suffix: str) -> bool:
    """Whether a display format of one package is valid for a column written in another format."""
    if not form or form.startswith("%") != (suffix == ".dta"):
        return False
    if form[:1] == "A":
        return False  # the width of text follows from the cells
    is_date = series.dtype.kind in "mM" or series.dtype == object
    numeric = ("F", "COMMA", "DOT", "DOLLAR", "PCT", "N", "E")
    return is_date or (_is_number(series) and (suffix == ".dta" or form.rstrip("0123456789.") in numeric))


def statistical_error(error: Exception, path: str) -> ThurboError:
    """An error of pyreadstat while reading, as one sentence with a remedy."""
    reason = str(error).strip().rstrip(".") or type(error).__name__
    remedy = "the file may be truncated or of another format: copy it again, or export it again"
    return ThurboError(f'cannot read "{path}": {reason[:1].lower()}{reason[1:]}; {remedy}')


def write_error(error: Exception, path: str) -> ThurboError:
    """An error of pyreadstat while writing, as one sentence with a remedy."""
    reason = str(error).strip().rstrip(".") or type(error).__name__
    if reason == "Unable to write data":  # all that the library says if the disk is full
        problem = "the disk is full, or the file is too large for it"
        return ThurboError(f'cannot write "{path}": {problem}; free some space, or choose another disk')
    return ThurboError(f'cannot write "{path}": {reason}; rename or convert that column, or write .parquet')
