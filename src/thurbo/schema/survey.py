"""`tb.read` and `tb.write`: survey files with their value labels, missing codes and question texts.

Idea: `read` reads a file and infers its schema in one call; `write` stores the same information again.
Guarantees that codes, value labels, missing codes, measurement levels and titles survive a round trip through .sav.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from thurbo.columns import Column
from thurbo.errors import ThurboError, check_choice
from thurbo.io.codebook import Codebook
from thurbo.io.notes import Note
from thurbo.io.read import read_frame
from thurbo.io.table import as_table
from thurbo.io.write import write_frame
from thurbo.schema import Schema


def read(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    encoding: str | None = None,
    missing: Mapping[Any, str] | Iterable[Any] = (),
) -> tuple[Any, Schema]:
    """Read a survey file as a pandas frame, and infer its schema.

    Parameters
    ----------
    path : str or path
        A .sav, .zsav, .por (SPSS), .dta (Stata), .csv, .tsv, .parquet or .feather file.
    separator : str, optional
        Separator of a text file; detected by default.
    encoding : str, optional
        Encoding of a text, SPSS or Stata file; detected by default.
    missing : dict or list, optional
        Values that mean "no answer" in every column, such as [-9, -8] or {-9: "refused"}.

    Returns
    -------
    frame : pandas.DataFrame
        The codes of the file, including user-missing codes.
    schema : Schema
        The type of each column with a reason. Columns hold the value labels (`names`) and missing codes (`missing`).

    Raises
    ------
    ThurboError
        If the file does not exist, is damaged, or has an unknown extension.

    Examples
    --------
    >>> import tempfile, thurbo as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tb.write({"fan": ["Yes", "No", None], "age": [31.5, 58.0, 44.5]}, f"{folder}/survey.csv")
    ...     frame, schema = tb.read(path)
    >>> frame["age"].tolist()
    [31.5, 58.0, 44.5]
    >>> [type(column).__name__ for column in schema.values()]
    ['Binary', 'Continuous']
    """
    frame = read_frame(path, separator=separator, encoding=encoding)
    return frame, Schema.infer(frame, missing=missing)


def write(
    frame: Any,
    path: str | os.PathLike[str],
    schema: Mapping[str, Column] | None = None,
    *,
    like: str | os.PathLike[str] | None = None,
    formulas: Literal["keep", "escape"] = "keep",
) -> Path:
    """Write a table to a file, completely or not at all.

    Parameters
    ----------
    frame : table
        pandas, polars, pyarrow, a 2-D array or a dict of columns.
    path : str or path
        A .sav, .zsav, .dta, .csv, .tsv, .parquet or .feather file. An existing file is replaced.
    schema : Schema or mapping of str to Column, optional
        Source of titles, value labels and missing codes for columns without a code book in `frame.attrs`, where
        `read` puts it.
    like : str or path, optional
        The file that the table was read from. Cells that did not change since are copied from it: byte for byte from
        a text file, with the types of the columns from .parquet and .feather. In other formats, cells of a text file
        stay as they are written ("02139", "n/a", dates).
    formulas : {"keep", "escape"}, default="keep"
        "escape" puts an apostrophe in front of every text cell and column name of a .csv or .tsv file that starts with
        =, +, -, @, a tab or a carriage return and is not a number, so that a spreadsheet program does not run it as a
        formula. This changes cells that were given, too. Other formats keep text as text.

    Returns
    -------
    pathlib.Path
        The path of the file.

    Raises
    ------
    ThurboError
        If the file cannot be written, or the format cannot hold a column.

    Notes
    -----
    In SPSS and Stata files, categories of a frame become codes 1, 2, ... with value labels. Names that these formats do
    not allow ("column 1") are changed ("column_1"), and the original name is the label of a column without a title;
    `read` restores it from SPSS files. The columns `.imp` and
    `.id` of `stack` are called `Imputation_` and `Row_` in SPSS files, `_mi_m` and `_mi_id` in Stata files.

    Examples
    --------
    >>> import tempfile, thurbo as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.write({"age": [31, 58]}, f"{folder}/survey.csv").name
    'survey.csv'
    """
    check_choice("formulas", formulas, ("keep", "escape"))
    if like is not None and formulas == "escape":
        raise ThurboError('like= keeps cells as they are, and formulas="escape" changes them; leave out one of the two')
    book = _book(Codebook.of(frame), schema or {})
    return write_frame(frame, path, book.only(map(str, as_table(frame).names)), like, formulas)


def _book(book: Codebook, schema: Mapping[str, Column]) -> Codebook:
    """The code book of the file, completed from the schema."""
    notes = dict(book.notes)
    titles = getattr(schema, "titles", {})
    for question, column in schema.items():
        for name in column.source_columns(question) or (question,):
            if name not in notes:
                notes[name] = _note(column, titles.get(question, "") if name == question else "")
    return Codebook(notes, book.groups, book.title, book.remarks)


def _note(column: Column, title: str) -> Note:
    missing = _pairs(getattr(column, "missing", None))
    names = _pairs(getattr(column, "names", None))
    return Note(
        title=title,
        measure=column.measure,
        names=tuple((code, str(text)) for code, text in (*names, *missing) if text),
        missing=tuple((code, code) for code, _ in missing),
    )


def _pairs(setting: Any) -> tuple[tuple[Any, Any], ...]:
    """Pairs of a mapping; columns store mappings as tuples of pairs."""
    return tuple(setting.items() if isinstance(setting, Mapping) else setting or ())
