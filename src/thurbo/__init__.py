"""thurbo: imputation, prediction, segments and rankings for mixed survey tables, by Thurstonian Boltzmann machines.

Public names are loaded on first use (PEP 562), so that `import thurbo` loads neither JAX nor a dataframe library.
"""

import ast
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0.dev0"


def _public() -> dict[str, str]:
    """The module of each public name, as the stub file beside this one imports it for type checkers."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [each for each in stub.body if isinstance(each, ast.ImportFrom) and str(each.module).startswith("thurbo")]
    return {each.name: str(one.module) for one in imports for each in one.names}


_HOME = _public()
# Public submodules and their full names.
_SUBMODULES = {
    "columns": "thurbo.table.columns",
    "constraints": "thurbo.latent.constraints",
    "datasets": "thurbo.table.datasets",
    "distributed": "thurbo.parallel",
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


def __getattr__(name: str) -> Any:
    module = _HOME.get(name) or _SUBMODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'thurbo' has no attribute {name!r}")
    with nullcontext() if module in sys.modules else _importing():
        found = import_module(module)
    return getattr(found, name) if name in _HOME else found


def __dir__() -> list[str]:
    return sorted(__all__)
