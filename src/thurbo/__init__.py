"""thurbo: learn from inequalities with Thurstonian Boltzmann machines.

Public names are loaded when first used (PEP 562), so that `import thurbo` costs neither JAX nor a
dataframe library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# Where each public name lives; a submodule stands for itself.
_HOME = {
    "TBM": "thurbo.estimator",
    "TBMImputer": "thurbo.imputer",
    "masked_cell_scorer": "thurbo.scoring",
    "choose_ordinals": "thurbo.readings",
    "Schema": "thurbo.schema",
    "read": "thurbo.tables",
    "write": "thurbo.tables",
    "from_long": "thurbo.io.long",
    "read_preferences": "thurbo.preferences",
    "write_preferences": "thurbo.preferences",
    "pool": "thurbo.pooling",
    "stack": "thurbo.pooling",
    "Column": "thurbo.columns",
    "Continuous": "thurbo.columns",
    "Bounded": "thurbo.columns",
    "Banded": "thurbo.columns",
    "Censored": "thurbo.columns",
    "Binary": "thurbo.columns",
    "Ordinal": "thurbo.columns",
    "Categorical": "thurbo.columns",
    "MultiSelect": "thurbo.columns",
    "Ranking": "thurbo.columns",
    "Ratings": "thurbo.columns",
    "Inequality": "thurbo.columns",
    "Ignore": "thurbo.columns",
    "Id": "thurbo.columns",
    "Weight": "thurbo.columns",
    "between": "thurbo.columns",
    "at_least": "thurbo.columns",
    "at_most": "thurbo.columns",
    "one_of": "thurbo.columns",
    "top_set": "thurbo.columns",
    "prefers": "thurbo.columns",
    "ThurboError": "thurbo.errors",
    "SchemaError": "thurbo.errors",
    "InfeasibleEvidence": "thurbo.errors",
    "NotTrusted": "thurbo.errors",
    "ConvergenceWarning": "thurbo.errors",
    "SchemaWarning": "thurbo.errors",
}
_SUBMODULES = frozenset(
    {"columns", "constraints", "datasets", "errors", "evidence", "inference", "learning", "metrics", "rbm", "truncnorm"}
)

__all__ = ["__version__", *_HOME, *sorted(_SUBMODULES)]

if TYPE_CHECKING:
    from thurbo.columns import (
        Banded,
        Binary,
        Bounded,
        Categorical,
        Censored,
        Column,
        Continuous,
        Id,
        Ignore,
        Inequality,
        MultiSelect,
        Ordinal,
        Ranking,
        Ratings,
        Weight,
        at_least,
        at_most,
        between,
        one_of,
        prefers,
        top_set,
    )
    from thurbo.errors import (
        ConvergenceWarning,
        InfeasibleEvidence,
        NotTrusted,
        SchemaError,
        SchemaWarning,
        ThurboError,
    )
    from thurbo.estimator import TBM
    from thurbo.imputer import TBMImputer
    from thurbo.io.long import from_long
    from thurbo.pooling import pool, stack
    from thurbo.preferences import read_preferences, write_preferences
    from thurbo.readings import choose_ordinals
    from thurbo.schema import Schema
    from thurbo.scoring import masked_cell_scorer
    from thurbo.tables import read, write


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _SUBMODULES:
        return import_module(f"thurbo.{name}")
    raise AttributeError(f"module 'thurbo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
