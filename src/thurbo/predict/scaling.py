"""§4.3 Features of rows on one scale, for the distances of segments and maps.

Idea: log-odds of hidden units have a range of ±10, factor means of ±1, and neither range says how much a feature tells.
Here every feature is centred, and its variance is the share of the hidden variable that the answers determine: for a
unit Var(P(h = 1 | e)) / (p (1 − p)) with its mean probability p; for a factor with prior variance one, Var(E[z | e]).
A unit or factor that is known for every row has variance 1; one that the answers do not determine counts for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

FloatArray = NDArray[np.float64]


def scaled(features: NDArray[Any], n_hidden: int, weight: FloatArray | None = None) -> FloatArray:
    """Log-odds of the first `n_hidden` features and factor means of the others, scaled; constant ones are removed.

    `weight` are weights of the rows, [row].
    """
    weight = np.ones(len(features)) if weight is None else weight  # the same digits as with equal weights
    finite = np.nan_to_num(np.asarray(features, np.float64), posinf=50.0, neginf=-50.0)
    centred, spread = _moments(finite, weight)
    on = expit(finite[:, :n_hidden])
    rate = np.average(on, axis=0, weights=weight) if len(on) else np.zeros(on.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.nan_to_num(_moments(on, weight)[1] / np.sqrt(rate * (1 - rate)))
    # The variance of a posterior mean cannot exceed that of the prior; of a factor that was trained otherwise it can.
    share = np.minimum(np.concatenate([known, spread[n_hidden:]]), 1.0)
    varies = (spread > 1e-9 * np.maximum(1.0, np.abs(finite).max(axis=0, initial=0.0))) & (share > 1e-6)
    return centred[:, varies] / spread[varies] * share[varies]


def _moments(values: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Centred values, and the standard deviation of each column."""
    if not len(values):
        return values, np.zeros(values.shape[1])
    centred = values - np.average(values, axis=0, weights=weight)
    return centred, np.sqrt(np.average(centred**2, axis=0, weights=weight))
