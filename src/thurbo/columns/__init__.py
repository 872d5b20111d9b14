"""§3: the data types. Each file turns one kind of cell into inequalities on Gaussian sites, and back.

Idea: a column is an immutable description; fitted, it also knows its levels or its location and scale.
Promises NumPy only: nothing here imports JAX or a dataframe library.
"""

from __future__ import annotations

from typing import Any

from thurbo.columns.banded import Banded
from thurbo.columns.binary import Binary
from thurbo.columns.bounded import Bounded
from thurbo.columns.categorical import Categorical
from thurbo.columns.cells import Cells, suggestion
from thurbo.columns.censored import Censored
from thurbo.columns.column import Block, Column, LinearRow
from thurbo.columns.continuous import Continuous
from thurbo.columns.ignore import Id, Ignore, Weight
from thurbo.columns.inequality import Inequality
from thurbo.columns.labels import LabelledColumn, LevelColumn
from thurbo.columns.measured import MeasuredColumn
from thurbo.columns.multiselect import MultiSelect
from thurbo.columns.ordinal import Ordinal
from thurbo.columns.ranking import Ranking
from thurbo.columns.ratings import Ratings
from thurbo.columns.statements import Statement, at_least, at_most, between, one_of, parse_given, prefers, top_set
from thurbo.columns.utility import UtilityColumn
from thurbo.errors import SchemaError

_NUMBERS = (Continuous, Bounded, Banded, Censored)
_LABELS = (Binary, Ordinal, Categorical, MultiSelect, Ranking, Ratings)
_ALL: tuple[type[Column], ...] = (*_NUMBERS, *_LABELS, Inequality, Ignore, Id, Weight)
KINDS: dict[str, type[Column]] = {column.kind: column for column in _ALL}

__all__ = [
    "KINDS",
    "Banded",
    "Binary",
    "Block",
    "Bounded",
    "Categorical",
    "Cells",
    "Censored",
    "Column",
    "Continuous",
    "Id",
    "Ignore",
    "Inequality",
    "LabelledColumn",
    "LevelColumn",
    "LinearRow",
    "MeasuredColumn",
    "MultiSelect",
    "Ordinal",
    "Ranking",
    "Ratings",
    "Statement",
    "UtilityColumn",
    "Weight",
    "at_least",
    "at_most",
    "between",
    "column_from_dict",
    "one_of",
    "parse_given",
    "prefers",
    "top_set",
]


def column_from_dict(state: dict[str, Any]) -> Column:
    """Rebuild any column from what its `to_dict` wrote."""
    kind = state.get("kind")
    if kind is None:
        raise SchemaError("it has no kind", remedy=f"give it one of the kinds {', '.join(KINDS)}")
    if kind not in KINDS:
        remedy = f"{suggestion(kind, KINDS)}the kinds are {', '.join(KINDS)}"
        raise SchemaError(f'no column is of kind "{kind}"', remedy=remedy)
    return KINDS[kind].from_dict(state)
