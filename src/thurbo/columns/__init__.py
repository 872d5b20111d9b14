"""§3: the data types. Each module turns one type of cell into inequalities on Gaussian sites, and back.

A column is an immutable description. A fitted column also holds its levels, or its location and scale.
This folder uses NumPy only: it imports neither JAX nor a dataframe library.
"""

from __future__ import annotations

from typing import Any

from thurbo.columns.answered import Answered
from thurbo.columns.banded import Banded
from thurbo.columns.binary import Binary
from thurbo.columns.block import Block, Entries, LinearRow
from thurbo.columns.bounded import Bounded
from thurbo.columns.categorical import Categorical
from thurbo.columns.cells import Cells, suggestion
from thurbo.columns.censored import Censored
from thurbo.columns.choice import BestWorst, Choice
from thurbo.columns.column import Column
from thurbo.columns.continuous import Continuous
from thurbo.columns.ignore import Id, Ignore, Weight
from thurbo.columns.inequality import Inequality
from thurbo.columns.labels import LabelledColumn, LevelColumn
from thurbo.columns.listed import ListSettings
from thurbo.columns.measured import MeasuredColumn
from thurbo.columns.multiselect import MultiSelect
from thurbo.columns.ordinal import Ordinal
from thurbo.columns.pairs import Pairs
from thurbo.columns.ranking import Ranking
from thurbo.columns.ratings import Ratings
from thurbo.columns.statements import Statement, at_least, at_most, between, one_of, parse_given, prefers, top_set
from thurbo.columns.utility import UtilityColumn
from thurbo.errors import SchemaError

KINDS: dict[str, type[Column]] = Column.registered  # by name; a new type registers itself when it is imported

__all__ = [
    "KINDS",
    "Answered",
    "Banded",
    "BestWorst",
    "Binary",
    "Block",
    "Bounded",
    "Categorical",
    "Cells",
    "Censored",
    "Choice",
    "Column",
    "Continuous",
    "Entries",
    "Id",
    "Ignore",
    "Inequality",
    "LabelledColumn",
    "LevelColumn",
    "LinearRow",
    "ListSettings",
    "MeasuredColumn",
    "MultiSelect",
    "Ordinal",
    "Pairs",
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
    """Rebuild a column of any type from the dictionary of its `to_dict`."""
    kind = state.get("kind")
    if kind is None:
        raise SchemaError("the column has no kind", remedy=f"give it one of the kinds {', '.join(KINDS)}")
    if kind not in KINDS:
        remedy = f"{suggestion(kind, KINDS)}the kinds are {', '.join(KINDS)}"
        raise SchemaError(f'there is no kind of column "{kind}"', remedy=remedy)
    return KINDS[kind].from_dict(state)
