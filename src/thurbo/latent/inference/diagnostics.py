"""A.2.4 Whether chains mix, and whether hidden units still distinguish rows.

Effective sample size and R-hat are those of Vehtari et al. (2021), computed by arviz-stats, an optional extra that is
imported on first use. All else is plain NumPy on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thurbo._typing import Array
from thurbo.errors import ThurboError

STUCK = 1e-3  # a unit whose mean activation is this close to 0 or 1 no longer distinguishes rows
SATURATED = 1e-3  # a posterior this close to 0 or 1 is a hard bit
SATURATED_SHARE = 0.95  # of rows, from which a unit counts as saturated


def array_stats() -> Any:
    """The functions of arviz-stats on plain arrays; raises if it is missing."""
    try:
        from arviz_stats.base import array_stats as found
    except ModuleNotFoundError as error:
        problem = "effective sample sizes and R-hat need the package arviz-stats"
        raise ThurboError(f"{problem}; pip install 'thurbo[diagnostics]'") from error
    return found


def _of_chains(statistic: str, draws: np.ndarray | Array, least_chains: int, method: str) -> np.ndarray:
    """A statistic of arviz-stats, of draws[chain, draw, ...]."""
    draws = np.asarray(draws, np.float64)
    if draws.ndim < 2 or draws.shape[0] < least_chains or draws.shape[1] < 4:
        raise ValueError(f"draws of shape {draws.shape} are not [chain, draw, ...], {least_chains} by 4 at the least")
    compute = getattr(array_stats(), statistic)
    if draws.size == 0:
        return np.zeros(draws.shape[2:])
    return np.asarray(compute(draws, chain_axis=0, draw_axis=1, method=method), np.float64)


def ess(draws: np.ndarray | Array) -> np.ndarray:
    """Effective sample size of draws[chain, draw, ...]: as many independent draws are as precise.

    Split in halves and rank-normalised, so it is the same for every increasing function of the draws. A quantity that
    never changes counts in full; one that is not finite gives nan.
    """
    return _of_chains("ess", draws, 1, "bulk")


def rhat(draws: np.ndarray | Array) -> np.ndarray:
    """R-hat of draws[chain, draw, ...]: near 1 if the chains agree, the greater of R-hat for location and for spread.

    Split in halves and rank-normalised. A quantity that never changes gives 1, chains that are each constant at
    different values infinity, and one that is not finite nan.
    """
    draws = np.asarray(draws, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = _of_chains("rhat", draws, 2, "rank")
    return np.where(draws.max(axis=(0, 1)) == draws.min(axis=(0, 1)), 1.0, value)


def is_stuck(rate: np.ndarray) -> np.ndarray:
    """Units whose mean activation is so close to 0 or 1 that they are the same for all rows."""
    return (rate < STUCK) | (rate > 1 - STUCK)


def unit_health(activations: np.ndarray | Array) -> tuple[np.ndarray, np.ndarray]:
    """Stuck and saturated units of activations[row, hidden] = P(h_k = 1 | e), [hidden] each; no unit is both.

    Stuck: on, or off, for all rows. Saturated: on for some rows, off for others, hardly ever in between.
    """
    activations = np.asarray(activations, np.float64)
    stuck = is_stuck(activations.mean(axis=0))
    hard = (activations < SATURATED) | (activations > 1 - SATURATED)
    return stuck, ~stuck & (hard.mean(axis=0) >= SATURATED_SHARE)
