"""Files with everything they say: a frame of codes and the schema that its code book and its cells suggest.

Idea: `read` is a reader and `Schema.infer` in one call; `write` gives back what `read` took.
Promises that codes, names of codes, codes that count as missing, measures and titles survive the way through .sav.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thurbo.columns import Column
from thurbo.io.codebook import Codebook
from thurbo.io.frames import table
from thurbo.io.notes import Note
from thurbo.io.read import read_frame
from thurbo.io.write import write_frame
from thurbo.schema import Schema


def read(
    path: str | os.PathLike[str], *, separator: str | None = None, encoding: str | None = None
) -> tuple[Any, Schema]:
    """Read a file as a pandas frame and the schema inferred from it, with a reason for every choice.

    .sav .zsav .por .dta .csv .tsv .parquet .feather. Cells are the codes of the file, user-missing ones included: the
    schema names codes (`names`) and says which count as missing (`missing`). `separator` and `encoding` of text are
    found where they are not given.
    """
    frame = read_frame(path, separator=separator, encoding=encoding)
    return frame, Schema.infer(frame)


def write(frame: Any, path: str | os.PathLike[str], schema: Mapping[str, Column] | None = None) -> Path:
    """Write a table whole or not at all: .sav .zsav .dta .csv .tsv .parquet .feather; returns the path written.

    Titles, names of codes, missing codes, measures and formats come from the file that the frame was read from, where
    it still knows (`frame.attrs`), otherwise from `schema`. Categories of a frame become codes with names in files of
    SPSS and Stata, 1 for the first of them; `.imp` and `.id` of `stack` get the names that these packages give them.
    """
    book = _book(Codebook.of(frame), schema or {})
    return write_frame(frame, path, book.only(map(str, table(frame).names)))


def _book(book: Codebook, schema: Mapping[str, Column]) -> Codebook:
    """The book of the file, with what only the schema knows added."""
    notes = dict(book.notes)
    titles = getattr(schema, "titles", {})
    for question, column in schema.items():
        for name in column.source_columns(question) or (question,):
            if name not in notes:
                notes[name] = _note(column, titles.get(question, "") if name == question else "")
    return Codebook(notes, book.groups, book.title, book.remarks)


def _note(column: Column, title: str) -> Note:
    measure: Any = {"binary": "nominal", "categorical": "nominal", "ordinal": "ordinal", "continuous": "scale"}
    measure |= {"bounded": "scale", "censored": "scale", "banded": "ordinal", "weight": "scale", "id": "nominal"}
    missing = _pairs(getattr(column, "missing", None))
    names = _pairs(getattr(column, "names", None))
    return Note(
        title=title,
        measure=measure.get("ordinal" if column.has_order else column.kind, ""),
        names=tuple((code, str(text)) for code, text in (*names, *missing) if text),
        missing=tuple((code, code) for code, _ in missing),
    )


def _pairs(setting: Any) -> tuple[tuple[Any, Any], ...]:
    """A mapping, or the pairs that a column keeps in its place."""
    return tuple(setting.items() if isinstance(setting, Mapping) else setting or ())
