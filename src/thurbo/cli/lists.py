"""Long tables: one line for each score of an item, under names that are said or that the schema holds.

A schema names the rows by its Id column, the items by its Ratings column, and the scores in that column's `score`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from thurbo.errors import ThurboError

WIDEST, LOOKED_AT = 8, 100_000  # columns of a table that may be long, and lines that are looked at


class Said(NamedTuple):
    """What the options say of a long table: names of its columns, and a table of what else is known."""

    row: str | None = None
    item: str | None = None
    score: str | None = None
    columns: Path | None = None


def read(data: Path, said: Said, schema: Any = None) -> tuple[Any, Any]:
    """The table of a file with its schema; of a long table, one row for each that it names."""
    import thurbo
    from thurbo.io.read import read_frame
    from thurbo.schema import Schema

    lists = None if schema is None else next((name for name, kind in schema.items() if kind.family == "lists"), None)
    if not any(said) and lists is None:
        frame, found = thurbo.read(data)
        return frame, found if schema is None else schema
    names = _named(said, schema, lists)
    people = None if names.columns is None else read_frame(names.columns)
    frame = read_frame(data)
    if not any(said) and _has_lists(frame, lists):
        return frame, schema
    table = thurbo.from_long(frame, names.row, names.item, names.score, columns=people, name=lists)  # type: ignore[arg-type]
    if schema is None:
        return table, Schema.infer(table)
    lacking = [name for name in schema.modelled if name != lists and name not in table]
    if lacking:
        raise ThurboError(f'column "{lacking[0]}" is not in a long table; name the table that has it with --columns')
    return table, schema


def _named(said: Said, schema: Any, lists: str | None) -> Said:
    """The names, those that are not said from the schema."""
    held: Mapping[str, Any] = {} if schema is None else schema
    row = said.row or next((name for name, kind in held.items() if kind.kind == "id"), None)
    item = said.item or lists
    if row is None:
        raise ThurboError("whose scores they are is not said; name the column with --row")
    if item is None:
        raise ThurboError("of which items the scores are is not said; name the column with --item")
    score = said.score
    if score is None and lists is not None:
        score = held[lists].score
        if score is None and held[lists].levels:
            raise ThurboError("the scores of the model are levels; name the column of scores with --score")
    return Said(row, item, score, said.columns)


def hint(frame: Any) -> str:
    """What to say of a narrow table that looks long, since no pair of two of its columns repeats; else nothing.

    Of n pairs drawn at random among a and b values n² / 2ab would repeat: ten at least have to be missed.
    """
    import numpy as np

    from thurbo.io import frames

    source = frames.table(frame)
    if len(source.names) > WIDEST:
        return ""
    codes = {}
    for name in source.names:
        cells = source.cells(name)
        values = cells.values[:LOOKED_AT]
        if values.dtype.kind in "iuOTU" and not cells.missing.any():
            found, code = np.unique(values.astype(str), return_inverse=True)
            if 2 <= len(found) <= len(values) // 2:
                codes[name] = (len(found), code.astype(np.int64))
    for (row, (n_rows, one)), (item, (n_items, two)) in combinations(codes.items(), 2):
        if len(one) ** 2 > 20 * n_rows * n_items and len(np.unique(one * n_items + two)) == len(one):
            return f"If each line is a score of an item by somebody, say so: --row {row} --item {item} --score ..."
    return ""


def _has_lists(frame: Any, name: str | None) -> bool:
    """Whether cells are lists already, as parquet may hold them, so that the table is not long."""
    from thurbo.columns.cells import collection
    from thurbo.io import frames

    source = frames.table(frame)
    if name is None or name not in source:
        return False
    cells = source.cells(name)
    first = next((value for value, gone in zip(cells.values, cells.missing, strict=True) if not gone), None)
    return isinstance(first, Mapping) or (not isinstance(first, str) and collection(first) is not None)
