"""Blocks of questions that are missing together, and a schema in which having answered a block is evidence.

Idea: questions belong together if largely the same rows have no answer to them (skipped pages, drop-out, routing).
Guarantees that the added columns are no questions: queries neither predict, impute nor sample them.
"""

from __future__ import annotations

from collections.abc import Mapping

from thurbo.columns import Answered, Column
from thurbo.columns.cells import BoolArray
from thurbo.io.table import Table
from thurbo.schema.routing import unanswered
from thurbo.schema.schema import Schema

SAME = 0.5  # least share of rows missing in both among those missing in one; single answers are missing as well
LEAST = 0.02  # smallest share of rows with an answer, and without one


def missing_together(columns: Mapping[str, Column], table: Table, alone: bool = False) -> list[tuple[str, ...]]:
    """Blocks of at least two questions to which largely the same rows have no answer, in order of the columns.

    With `alone`, also single questions.
    """
    blocks: list[tuple[list[str], BoolArray]] = []
    for name, column in columns.items():
        if column.role != "answer" or column.is_listed or not column.sites:
            continue
        gone = unanswered(columns, table, name)
        if not LEAST * len(gone) <= gone.sum() <= (1 - LEAST) * len(gone):
            continue
        for names, first in blocks:
            if (gone & first).sum() >= SAME * (gone | first).sum():
                names.append(name)
                break
        else:
            blocks.append(([name], gone))
    return [tuple(names) for names, _ in blocks if alone or len(names) > 1]


def with_answered(schema: Schema, table: Table, alone: bool = False) -> Schema:
    """The schema with one `Answered` column for each block of questions that are missing together in the table.

    With `alone`, also for single questions. A schema that has such columns is returned as it is, so that a model can be
    fitted again with its own schema.
    """
    if any(column.role == "pattern" for column in schema.values()):
        return schema
    added: dict[str, Column] = {}
    for names in missing_together(schema, table, alone):
        name = f"answered: {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        while name in schema or name in table:
            name += " "
        added[name] = Answered(columns=names)
    return schema | added
