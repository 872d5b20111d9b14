"""Settings of TBM in one flat dictionary, as benchmarks vary them on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import thurbo as tb

KINDS = {"multi-prediction": tb.Prediction, "likelihood": tb.Likelihood, "exact": tb.Exact}


def grouped(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings as TBM takes them: those of the objective in `learning`; by prediction unless one is named."""
    kind = KINDS[settings.get("objective", "multi-prediction")]
    parameters = tb.TBM().get_params(deep=False)
    own = {name: value for name, value in settings.items() if name not in parameters}
    known = {item.name for item in fields(kind)}
    if unknown := sorted(own.keys() - known):
        raise SystemExit(f"{kind.__name__} has no setting {', '.join(unknown)}")
    return {name: value for name, value in settings.items() if name in parameters} | {"learning": kind(**own)}
