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
    "masked_cell_scorer": "thurbo.imputer",
    "evaluate": "thurbo.cross_evaluation",
    "Learning": "thurbo.fit.settings",
    "Prediction": "thurbo.fit.settings",
    "Likelihood": "thurbo.fit.settings",
    "Exact": "thurbo.fit.settings",
    "Schema": "thurbo.table.schema.schema",
    "Skip": "thurbo.table.schema.routing",
    "read": "thurbo.table.schema.survey",
    "write": "thurbo.table.schema.survey",
    "from_long": "thurbo.table.io.long",
    "from_pairs": "thurbo.table.io.long",
    "from_choices": "thurbo.table.io.long",
    "read_preferences": "thurbo.table.schema.survey",
    "write_preferences": "thurbo.table.schema.survey",
    "pool": "thurbo.pooling",
    "stack": "thurbo.pooling",
    "Column": "thurbo.table.columns",
    "Continuous": "thurbo.table.columns",
    "Bounded": "thurbo.table.columns",
    "Banded": "thurbo.table.columns",
    "Censored": "thurbo.table.columns",
    "Binary": "thurbo.table.columns",
    "Ordinal": "thurbo.table.columns",
    "Categorical": "thurbo.table.columns",
    "MultiSelect": "thurbo.table.columns",
    "Ranking": "thurbo.table.columns",
    "Ratings": "thurbo.table.columns",
    "Pairs": "thurbo.table.columns",
    "Choice": "thurbo.table.columns",
    "BestWorst": "thurbo.table.columns",
    "ListSettings": "thurbo.table.columns",
    "Inequality": "thurbo.table.columns",
    "Ignore": "thurbo.table.columns",
    "Id": "thurbo.table.columns",
    "Weight": "thurbo.table.columns",
    "between": "thurbo.table.columns",
    "at_least": "thurbo.table.columns",
    "at_most": "thurbo.table.columns",
    "one_of": "thurbo.table.columns",
    "top_set": "thurbo.table.columns",
    "prefers": "thurbo.table.columns",
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
    "columns": "thurbo.table.columns",
    "constraints": "thurbo.latent.constraints",
    "datasets": "thurbo.table.datasets",
    "errors": "thurbo.errors",
    "evidence": "thurbo.latent.evidence",
    "inference": "thurbo.latent.inference",
    "learning": "thurbo.fit",
    "rbm": "thurbo.latent.rbm",
    "report": "thurbo.app.report",
    "metrics": "thurbo.metrics",
    "plot": "thurbo.app.report.plot",
    "truncnorm": "thurbo.latent.truncnorm",
}

__all__ = ["__version__", *_HOME, *sorted(_SUBMODULES)]

if TYPE_CHECKING:
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
    from thurbo.fit.settings import Exact, Learning, Likelihood, Prediction
    from thurbo.imputer import TBMImputer, masked_cell_scorer
    from thurbo.pooling import pool, stack
    from thurbo.table.columns import (
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
    from thurbo.table.io.long import from_choices, from_long, from_pairs
    from thurbo.table.schema.routing import Skip
    from thurbo.table.schema.schema import Schema
    from thurbo.table.schema.survey import read, read_preferences, write, write_preferences
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
