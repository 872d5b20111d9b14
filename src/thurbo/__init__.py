"""thurbo: imputation, prediction, segments and rankings for mixed survey tables, by Thurstonian Boltzmann machines.

Public names are loaded on first use (PEP 562), so that `import thurbo` loads neither JAX nor a dataframe library.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# Module of each public name.
_HOME = {
    "TBM": "thurbo.tbm",
    "TBMImputer": "thurbo.imputer",
    "masked_cell_scorer": "thurbo.scorer",
    "evaluate": "thurbo.cross_evaluation",
    "Learning": "thurbo.learning.objective_settings",
    "Prediction": "thurbo.learning.objective_settings",
    "Likelihood": "thurbo.learning.objective_settings",
    "Exact": "thurbo.learning.objective_settings",
    "Schema": "thurbo.schema",
    "Skip": "thurbo.schema.skips",
    "read": "thurbo.schema.survey",
    "write": "thurbo.schema.survey",
    "from_long": "thurbo.io.long",
    "from_pairs": "thurbo.io.comparisons",
    "from_choices": "thurbo.io.comparisons",
    "read_preferences": "thurbo.schema.preferences",
    "write_preferences": "thurbo.schema.preferences",
    "pool": "thurbo.analysis.pooling",
    "stack": "thurbo.analysis.pooling",
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
    "Pairs": "thurbo.columns",
    "Choice": "thurbo.columns",
    "BestWorst": "thurbo.columns",
    "ListSettings": "thurbo.columns",
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
    "NumericalWarning": "thurbo.errors",
    "SchemaWarning": "thurbo.errors",
}
# Public submodules and their full names.
_SUBMODULES = {
    name: f"thurbo.{name}"
    for name in ("columns", "constraints", "datasets", "errors", "evidence", "inference", "learning", "rbm", "report")
} | {
    "metrics": "thurbo.analysis.metrics",
    "plot": "thurbo.report.plot",
    "truncnorm": "thurbo.normal.truncnorm",
}

__all__ = ["__version__", *_HOME, *sorted(_SUBMODULES)]

if TYPE_CHECKING:
    from thurbo.analysis.pooling import pool, stack
    from thurbo.columns import (
        Banded,
        BestWorst,
        Binary,
        Bounded,
        Categorical,
        Censored,
        Choice,
        Column,
        Continuous,
        Id,
        Ignore,
        Inequality,
        ListSettings,
        MultiSelect,
        Ordinal,
        Pairs,
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
    from thurbo.cross_evaluation import evaluate
    from thurbo.errors import (
        ConvergenceWarning,
        InfeasibleEvidence,
        NotTrusted,
        NumericalWarning,
        SchemaError,
        SchemaWarning,
        ThurboError,
    )
    from thurbo.imputer import TBMImputer
    from thurbo.io.comparisons import from_choices, from_pairs
    from thurbo.io.long import from_long
    from thurbo.learning.objective_settings import Exact, Learning, Likelihood, Prediction
    from thurbo.schema import Schema
    from thurbo.schema.preferences import read_preferences, write_preferences
    from thurbo.schema.skips import Skip
    from thurbo.schema.survey import read, write
    from thurbo.scorer import masked_cell_scorer
    from thurbo.tbm import TBM


@contextmanager
def _importing() -> Iterator[None]:
    """Collect no garbage meanwhile: imports leave hardly any, and searching for it among their objects takes long."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()  # what was imported is old now, so that the next few collections do not search it
        gc.enable()


def _imported(module: str) -> Any:
    if module in sys.modules:
        return import_module(module)
    with _importing():
        return import_module(module)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(_imported(_HOME[name]), name)
    if name in _SUBMODULES:
        return _imported(_SUBMODULES[name])
    raise AttributeError(f"module 'thurbo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
