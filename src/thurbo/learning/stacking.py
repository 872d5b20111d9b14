"""§5 Weights of the members of a population, and how sure their mean should be: both from held-out answers.

Weights maximise the log-likelihood of answers that no member saw (stacking), for all columns together and for each one.
A power of the mixed probabilities, chosen by the same answers, calibrates them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

PRIOR_ANSWERS = 10.0  # answers by which weights are pulled to equal ones
LEAST_WEIGHT = 0.01  # members below it are dropped
PRIOR_OF_COLUMN = 5.0  # answers by which the weights for a column are pulled to those for all columns ...
SHARED = 0.9  # ... and, by the rest of this share, to equal ones
POWERS = np.exp(np.linspace(-0.5, 0.5, 21))  # of probabilities, from which calibration chooses
PRIOR_OF_POWER = 100.0  # answers by which their common power is pulled to one ...
PRIOR_OF_KIND = 40.0  # ... and that of a kind of column to the common one


def calibrate(totals: Mapping[str, np.ndarray]) -> tuple[float, dict[str, float]]:
    """The power of probabilities that is best for all kinds of columns, and for each kind one that is pulled to it.

    `totals` are log-likelihoods of held-out answers for each of `POWERS`, by kind.
    """
    logs = np.log(POWERS)
    shared = logs[np.argmax(sum(totals.values()) - 0.5 * PRIOR_OF_POWER * logs**2)]
    prior = 0.5 * PRIOR_OF_KIND * (logs - shared) ** 2
    return float(np.exp(shared)), {kind: float(POWERS[np.argmax(own - prior)]) for kind, own in totals.items()}


def stack_column(log_p: np.ndarray, weight: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Weights of members for one column, from its own held-out answers and the weights for all columns."""
    around = SHARED * shared / shared.sum() + (1.0 - SHARED) / len(shared)
    return stack(log_p, weight, PRIOR_OF_COLUMN * around)


def stack(log_p: np.ndarray, weight: np.ndarray, prior: np.ndarray | None = None, n_steps: int = 1000) -> np.ndarray:
    """Weights of members that maximise Σ log Σ_m w_m p_m of held-out answers, by EM: log_p is [member, answer].

    `prior` are answers that each member has from the start.
    """
    n_members = len(log_p)
    prior = np.full(n_members, PRIOR_ANSWERS / n_members) if prior is None else prior
    chance = np.exp(log_p - log_p.max(axis=0, initial=-np.inf))
    share = prior / prior.sum()
    for _ in range(n_steps):
        part = share[:, None] * chance
        part = part / part.sum(axis=0) * weight
        found = (part.sum(axis=1) + prior) / (weight.sum() + prior.sum())
        if np.abs(found - share).max() < 1e-6:
            return found
        share = found
    return share
