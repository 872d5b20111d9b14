"""Spreadsheets (.xlsx, .xlsm, .ods) as delimited text, so that their header rows and types are read as those of text.

Idea: a cell becomes the text that a program would export: 3.0 as 3, dates in ISO form, an empty cell as nothing.
Guarantees an error with the names of the sheets where more than one could be meant.
"""

from __future__ import annotations

import csv
import datetime
import io
from typing import Any

from thurbo.errors import ThurboError


def as_delimited(data: bytes, path: str, sheet: str | None = None) -> bytes:
    """One sheet as comma-separated text: the given one, or the only one that is visible and has cells."""
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
    if len(tables) > 1:
        raise ThurboError(f'"{path}" has tables in {len(tables)} sheets; give sheet=, one of {", ".join(tables)}')
    text = io.StringIO()
    csv.writer(text).writerows(next(iter(tables.values())))
    return text.getvalue().encode()


def _cells(rows: list[list[Any]]) -> list[list[str]]:
    """The rows that are not empty as texts, without empty columns at the right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    width = max((place for row in texts for place, cell in enumerate(row, 1) if cell), default=0)
    return [row[:width] for row in texts if any(row)]


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.date().isoformat() if cell.time() == datetime.time() else cell.isoformat(" ")
    return cell.isoformat() if isinstance(cell, (datetime.date, datetime.time)) else str(cell).strip()
