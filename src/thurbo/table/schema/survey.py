"""`tb.read`, `tb.write`, `tb.read_preferences`, `tb.write_preferences`: a file as a table with its schema, and back.

Idea: `read` reads a file and infers its schema in one call; an order of a PrefLib file is a cell of a Ranking column,
and its number of voters the weight of the row.
Guarantees that codes, value labels, missing codes, measurement levels and titles survive a round trip through .sav.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thurbo.errors import SchemaError, ThurboError, check_choice
from thurbo.table.columns.column import Column
from thurbo.table.columns.ignore import Weight
from thurbo.table.columns.ranking import Ranking
from thurbo.table.io import frames
from thurbo.table.io.codebook import Codebook, Note
from thurbo.table.io.frames import as_table
from thurbo.table.io.long import Preferences, kind_of, read_orders, write_orders
from thurbo.table.io.read_write import read_frame, write_frame
from thurbo.table.schema.schema import Schema


def read(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    missing: Mapping[Any, str] | Iterable[Any] = (),
) -> tuple[Any, Schema]:
    """Read a survey file as a pandas frame, and infer its schema.

    Parameters
    ----------
    path : str or path
        A .sav, .zsav, .por (SPSS), .dta (Stata), .csv, .tsv, .parquet, .feather, .xlsx or .ods file, or a .gz, .xz,
        .bz2 or .zip archive of one such file ("survey.csv.gz").
    separator : str, optional
        Separator of a text file; detected by default.
    encoding : str, optional
        Encoding of a text, SPSS or Stata file; detected by default.
    sheet : str, optional
        Sheet of a spreadsheet that has several tables.
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
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tb.write({"fan": ["Yes", "No", None], "age": [31.5, 58.0, 44.5]}, f"{folder}/survey.csv")
    ...     frame, schema = tb.read(path)
    >>> frame["age"].tolist()
    [31.5, 58.0, 44.5]
    >>> [type(column).__name__ for column in schema.values()]
    ['Binary', 'Continuous']
    """
    frame = read_frame(path, separator=separator, encoding=encoding, sheet=sheet)
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
        a text file, with the types of the columns from .parquet and .feather; spreadsheets and archives are read, but
        not written. In other formats, cells of a text file
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
    >>> import tempfile
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
        # Columns store mappings as tuples of pairs.
        names, missing = (tuple(getattr(column, setting, None) or ()) for setting in ("names", "missing"))
        texts = tuple((code, str(text)) for code, text in (*names, *missing) if text)
        options = column.label_of_source
        for name in column.source_columns(question) or (question,):
            if name not in notes and name in options:  # its values say only whether the option was chosen
                notes[name] = Note(title=f"{titles.get(question, question)}: {options[name]}", measure="nominal")
            elif name not in notes:
                title = titles.get(question, "") if name == question else ""
                gone = tuple((code, code) for code, _ in missing)
                notes[name] = Note(title=title, measure=column.measure, names=texts, missing=gone)
    return Codebook(notes, book.groups, book.title, book.remarks)


def read_preferences(path: str | os.PathLike[str], per: Literal["order", "voter"] = "order") -> tuple[Any, Schema]:
    """Read a PrefLib file of rankings as a table with its schema.

    Parameters
    ----------
    path : str or path
        A .soc, .soi, .toc or .toi file.
    per : {"order", "voter"}, default "order"
        One row per distinct order, with its number of voters in column "weight"; or one row per voter.

    Returns
    -------
    frame : table
        pandas, polars or pyarrow, whichever is installed. Column "order" holds lists from best to worst,
        [["a"], ["b", "c"]]. Alternatives that a voter did not rank are not compared.
    schema : Schema
        A `Ranking`, and a `Weight` with `per="order"`.

    Raises
    ------
    ThurboError
        If the file cannot be read, with the number of the line.

    Examples
    --------
    >>> import tempfile
    >>> orders = {"order": [["a", "b", "c"], ["c", "a"]], "voters": [3, 1]}
    >>> schema = {"order": tb.Ranking(["a", "b", "c"]), "voters": tb.Weight()}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tb.write_preferences(orders, f"{folder}/lunch.soi", schema)
    ...     frame, schema = tb.read_preferences(path)
    >>> frame["order"].tolist(), frame["weight"].tolist()
    ([[['a'], ['b'], ['c']], [['c'], ['a']]], [3, 1])
    """
    if per not in ("order", "voter"):
        raise ThurboError(f'per="{per}" is not one of order, voter; use one of them')
    found = read_orders(path)
    counts = np.asarray(found.counts, np.int64)
    cells = np.fromiter(([list(tier) for tier in order] for order in found.orders), object, len(counts))
    columns: dict[str, Column] = {"order": Ranking(found.items, cell_format="lists")}
    titles = {"order": found.title}
    if per == "voter":
        return frames.any_frame({"order": np.repeat(cells, counts)}), Schema(columns, titles=titles)
    return frames.any_frame({"order": cells, "weight": counts}), Schema(columns | {"weight": Weight()}, titles=titles)


def write_preferences(
    frame: Any, path: str | os.PathLike[str], schema: Mapping[str, Column], *, column: str | None = None
) -> Path:
    """Write the rankings of a table to a PrefLib file.

    Parameters
    ----------
    frame : table
        pandas, polars, pyarrow or a dict of columns.
    path : str or path
        A .soc, .soi, .toc or .toi file; the extension selects the format.
    schema : Schema or mapping of str to Column
        Must have a `Ranking`, in any of its forms; may have a `Weight`, whole numbers of voters.
    column : str, optional
        Name of the Ranking to write, if the schema has more than one.

    Returns
    -------
    pathlib.Path
        The path of the file. Rows without a ranking are not written.

    Raises
    ------
    ThurboError
        If the format cannot hold an order, such as a tie in a .soc file, with the row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.write_preferences({"order": ["a > b", "b > a"]}, f"{folder}/x.soc", {"order": tb.Ranking()}).name
    'x.soc'
    """
    kind_of(path)  # raises early for a wrong extension
    source = as_table(frame)
    given = schema if isinstance(schema, Schema) else Schema(schema)
    held = [each for each, kind in given.items() if kind.is_ranking]
    if column is None and len(held) != 1:
        problem = f"the schema has {len(held)} Ranking columns" if held else "the schema has no Ranking column"
        remedy = f"give column=, one of {', '.join(held)}" if held else 'use schema={"...": Ranking()}'
        raise SchemaError(problem, remedy=remedy)
    name = held[0] if column is None else column
    if not given[name].is_ranking:
        remedy = f"use one of {', '.join(held)}" if held else 'use schema={"...": Ranking()}'
        raise SchemaError(f"its type is {type(given[name]).__name__}, not Ranking", column=name, remedy=remedy)
    only = Schema({each: kind for each, kind in given.items() if each == name or not kind.sites}).fit(source)
    block, rows = only.compile(source)[name], only.row_names(source)
    stated = {each.row for each in block.linear} | set(np.flatnonzero(block.one_of).tolist())
    if stated:
        problem = "the cell is a statement, not an order"
        raise SchemaError(problem, row=rows[min(stated)], column=name, remedy="remove the row, or rank its items")
    weights = only.weights(source)
    weights = np.ones(source.n_rows) if weights is None else weights
    counts = np.rint(weights).astype(np.int64)
    bad = np.flatnonzero(counts != weights)
    if len(bad):
        problem = f"the weight {weights[bad[0]]:g} is not a whole number of voters"
        raise SchemaError(problem, row=rows[bad[0]], remedy="give whole numbers, or remove Weight from the schema")
    labels = [str(label) for label in only[name].labels]
    kept = np.flatnonzero((block.tier >= 0).any(axis=1) & (counts > 0))
    if not len(kept):
        raise SchemaError("no row has a ranking", column=name, remedy="give at least one order")
    orders = []
    for tiers in block.tier[kept]:
        heights = range(int(tiers.max()), -1, -1)
        orders.append(tuple(tuple(labels[place] for place in np.flatnonzero(tiers == height)) for height in heights))
    found = Preferences(tuple(labels), tuple(orders), tuple(counts[kept].tolist()), given.titles.get(name, ""))
    return write_orders(path, found, rows[kept].tolist())
