"""lifelines: normal, log-normal and Weibull distributions fitted to intervals, one fit for each fold.

    python censored_lifelines.py IN OUT

IN is JSON, a list of {"lower": [...], "upper": [...]} with null for an open end and equal ends for a point; OUT has,
for each of them, the fitted parameters by name of the distribution. Their held-out likelihood is the benchmark's work.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.scipy.stats import norm
from lifelines import LogNormalFitter, WeibullFitter
from lifelines.fitters import ParametricUnivariateFitter


class NormalFitter(ParametricUnivariateFitter):
    """The normal distribution, in the way lifelines lets its users write a new one: by its cumulative hazard."""

    _fitted_parameter_names = ["mu_", "sigma_"]  # noqa: RUF012
    _bounds = [(None, None), (1e-3, None)]  # noqa: RUF012
    _scipy_fit_method = "SLSQP"

    def _cumulative_hazard(self, params: Any, times: Any) -> Any:
        mu, sigma = params
        return -norm.logsf((times - mu) / sigma)

    def _create_initial_point(self, Ts: Any, E: Any, *args: Any) -> Any:
        known = [np.asarray(t)[np.isfinite(t)] for t in Ts if t is not None]
        values = np.concatenate(known)
        return anp.array([values.mean(), values.std()])


FITTERS = {"normal": NormalFitter, "log-normal": LogNormalFitter, "Weibull": WeibullFitter}


def fit(kind: type, lower: np.ndarray, upper: np.ndarray) -> dict[str, float]:
    """Parameters by name. What is open below is censored from the left."""
    model = kind()
    if np.isneginf(lower).any():
        exact = lower == upper
        model.fit_left_censoring(upper, event_observed=exact)
    else:
        model.fit_interval_censoring(lower, upper)
    return {name: float(getattr(model, name)) for name in model._fitted_parameter_names}


def main() -> None:
    """Every fold by every distribution."""
    warnings.filterwarnings("ignore")
    found = []
    for fold in json.loads(Path(sys.argv[1]).read_text()):
        lower = np.asarray([-np.inf if end is None else end for end in fold["lower"]], float)
        upper = np.asarray([np.inf if end is None else end for end in fold["upper"]], float)
        found.append({name: fit(kind, lower, upper) for name, kind in FITTERS.items()})
    Path(sys.argv[2]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
