"""§3: the data types. Each module turns one type of cell into inequalities on Gaussian sites, and back.

A column is an immutable description. A fitted column also holds its levels, or its location and scale.
This folder uses NumPy only: it imports neither JAX nor a dataframe library.
"""

from __future__ import annotations

from thurbo.table.columns.categorical import Categorical
from thurbo.table.columns.cells import Block, Cells
from thurbo.table.columns.censored import Banded, Bounded, Censored
from thurbo.table.columns.column import Column, column_from_dict
from thurbo.table.columns.continuous import Continuous, MeasuredColumn
from thurbo.table.columns.ignore import Id, Ignore, Inequality, Weight
from thurbo.table.columns.labels import LabelledColumn, LevelColumn, UtilityColumn
from thurbo.table.columns.listed import ListSettings, Ratings
from thurbo.table.columns.multiselect import MultiSelect
from thurbo.table.columns.ordinal import Answered, Binary, Ordinal
from thurbo.table.columns.ranking import Ranking
from thurbo.table.columns.statements import at_least, at_most, between, one_of, parse_given, prefers, top_set
from thurbo.table.columns.tasks import BestWorst, Choice, Pairs

KINDS: dict[str, type[Column]] = Column.registered  # by name; a new type registers itself when it is imported
