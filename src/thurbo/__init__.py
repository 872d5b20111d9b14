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

# Public names, by the module that has them.
_NAMES = {
    "thurbo.tbm": "TBM",
    "thurbo.imputer": "TBMImputer masked_cell_scorer",
    "thurbo.cross_evaluation": "evaluate",
    "thurbo.fit.settings": "Learning Prediction Likelihood Exact",
    "thurbo.table.schema.schema": "Schema",
    "thurbo.table.schema.routing": "Skip",
    "thurbo.table.schema.survey": "read write read_preferences write_preferences",
    "thurbo.table.io.long": "from_long from_pairs from_choices",
    "thurbo.pooling": "pool stack",
    "thurbo.table.columns": "Column Continuous Bounded Banded Censored Binary Ordinal Categorical MultiSelect Ranking "
    "Ratings Pairs Choice BestWorst ListSettings Inequality Ignore Id Weight "
    "between at_least at_most one_of top_set prefers",
    "thurbo.errors": "ThurboError SchemaError InfeasibleEvidence NotTrusted "
    "ConvergenceWarning NumericalWarning SchemaWarning",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
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
