"""The public names of thurbo, for type checkers, and for `__init__`, which loads each on first use."""

from contextlib import AbstractContextManager
from typing import Any

from thurbo.cross_evaluation import evaluate as evaluate
from thurbo.cross_evaluation import masked_cell_scorer as masked_cell_scorer
from thurbo.errors import ConvergenceWarning as ConvergenceWarning
from thurbo.errors import InfeasibleEvidence as InfeasibleEvidence
from thurbo.errors import NotTrusted as NotTrusted
from thurbo.errors import NumericalWarning as NumericalWarning
from thurbo.errors import SchemaError as SchemaError
from thurbo.errors import SchemaWarning as SchemaWarning
from thurbo.errors import ThurboError as ThurboError
from thurbo.fit.settings import Exact as Exact
from thurbo.fit.settings import Learning as Learning
from thurbo.fit.settings import Likelihood as Likelihood
from thurbo.fit.settings import Prediction as Prediction
from thurbo.pooling import pool as pool
from thurbo.pooling import stack as stack
from thurbo.table.columns import Banded as Banded
from thurbo.table.columns import BestWorst as BestWorst
from thurbo.table.columns import Binary as Binary
from thurbo.table.columns import Bounded as Bounded
from thurbo.table.columns import Categorical as Categorical
from thurbo.table.columns import Censored as Censored
from thurbo.table.columns import Choice as Choice
from thurbo.table.columns import Column as Column
from thurbo.table.columns import Continuous as Continuous
from thurbo.table.columns import Id as Id
from thurbo.table.columns import Ignore as Ignore
from thurbo.table.columns import Inequality as Inequality
from thurbo.table.columns import ListSettings as ListSettings
from thurbo.table.columns import MultiSelect as MultiSelect
from thurbo.table.columns import Ordinal as Ordinal
from thurbo.table.columns import Pairs as Pairs
from thurbo.table.columns import Ranking as Ranking
from thurbo.table.columns import Ratings as Ratings
from thurbo.table.columns import Weight as Weight
from thurbo.table.columns import at_least as at_least
from thurbo.table.columns import at_most as at_most
from thurbo.table.columns import between as between
from thurbo.table.columns import one_of as one_of
from thurbo.table.columns import prefers as prefers
from thurbo.table.columns import top_set as top_set
from thurbo.table.io.long import from_choices as from_choices
from thurbo.table.io.long import from_long as from_long
from thurbo.table.io.long import from_pairs as from_pairs
from thurbo.table.io.scan import Scan as Scan
from thurbo.table.io.scan import scan as scan
from thurbo.table.schema.routing import Skip as Skip
from thurbo.table.schema.schema import Schema as Schema
from thurbo.table.schema.survey import read as read
from thurbo.table.schema.survey import read_preferences as read_preferences
from thurbo.table.schema.survey import write as write
from thurbo.table.schema.survey import write_preferences as write_preferences
from thurbo.tbm import TBM as TBM
from thurbo.tbm import TBMImputer as TBMImputer

__version__: str

def _importing() -> AbstractContextManager[None]: ...
def __getattr__(name: str) -> Any: ...  # submodules
