"""§3: the data types. Each file turns one kind of cell into inequalities on Gaussian sites, and back.

Idea: a column is an immutable description; fitted, it also knows its levels or its location and scale.
Promises NumPy only: nothing here imports JAX or a dataframe library.
"""

from __future__ import annotations

from typing import Any

from thurbo.columns.base import Block, Cells, Column, LevelColumn, MeasuredColumn, suggestion
from thurbo.columns.binary import Binary
from thurbo.columns.continuous import Continuous
from thurbo.columns.ignore import Ignore
from thurbo.columns.ordinal import Ordinal
from thurbo.errors import SchemaError

KINDS: dict[str, type[Column]] = {column.kind: column for column in (Continuous, Binary, Ordinal, Ignore)}

__all__ = [
    "KINDS",
    "Binary",
    "Block",
    "Cells",
    "Column",
    "Continuous",
    "Ignore",
    "LevelColumn",
    "MeasuredColumn",
    "Ordinal",
    "column_from_dict",
]


def column_from_dict(state: dict[str, Any]) -> Column:
    """Rebuild any column from what its `to_dict` wrote."""
    kind = state.get("kind")
    if kind not in KINDS:
        remedy = f"{suggestion(kind, KINDS)}the kinds are {', '.join(KINDS)}"
        raise SchemaError(f'no column is of kind "{kind}"', remedy=remedy)
    return KINDS[kind].from_dict(state)
