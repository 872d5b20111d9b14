"""§4.4, A.1.1 log P(e) of rows: exact by enumeration for few hidden units, with a standard error beyond.

Beyond, log P(e) = log Σ_h Ω(h) P(e | h) − log Z: the first by importance sampling from mean-field, the second by
annealed importance sampling. Both use fixed random numbers, so a row's score depends on the row alone.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from thurbo._typing import PerRow, PRNGKey
from thurbo.evidence import Evidence
from thurbo.inference.likelihood import (
    MAX_QUADRATURE_FACTORS,
    log_evidence_exact,
    log_partition_exact,
    log_unnormalised_importance,
)
from thurbo.inference.meanfield import mean_field
from thurbo.inference.partition import log_partition_ais
from thurbo.packing import by_chunks
from thurbo.rbm import LOG_2PI, Params

EXACT_HIDDEN = 10
EXACT_PARTITION = 20

_exact = jax.jit(log_evidence_exact)
_partition_exact = jax.jit(log_partition_exact)


def is_exact(params: Params) -> bool:
    """Whether rows are scored by enumeration."""
    if params.n_factors > MAX_QUADRATURE_FACTORS:
        return False
    return params.n_hidden + 5 * params.n_factors <= EXACT_HIDDEN


@partial(jax.jit, static_argnames=("n_draws", "n_steps"))
def _importance(key: PRNGKey, params: Params, evidence: Evidence, n_draws: int, n_steps: int) -> tuple[PerRow, PerRow]:
    q = mean_field(params, evidence, n_steps)
    return log_unnormalised_importance(key, params, evidence, q, n_draws)


_ais = jax.jit(log_partition_ais, static_argnames=("n_chains", "n_temperatures"))


def log_partition(params: Params, seed: int = 0) -> tuple[float, float]:
    """log Z over all sites, and its standard error: 0.0 where it is exact."""
    if params.n_hidden <= EXACT_PARTITION:
        return float(_partition_exact(params)), 0.0
    estimate, error = _ais(jax.random.key(seed), params)
    return float(estimate[0]), float(error[0])


def score(params: Params, evidence: Evidence, n_draws: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """log P(e) of every row in standard units, and its standard error."""
    if is_exact(params):
        value = by_chunks(partial(_exact, params), evidence)
        return value.astype(np.float64), np.zeros(len(value))
    key = jax.random.key(seed)
    value, error = by_chunks(lambda rows: _importance(key, params, rows, n_draws, 30), evidence)
    if evidence.present is None:
        log_z, log_z_error = log_partition(params, seed)
        log_z -= 0.5 * params.site_bias.shape[0] * LOG_2PI
    else:
        # Each row has its own sites and so its own normaliser; 64 chains a row keep this affordable.
        log_z, log_z_error = by_chunks(lambda rows: _ais(key, params, 64, 300, rows.present), evidence)
        log_z = log_z - 0.5 * np.asarray(evidence.present).sum(axis=1) * LOG_2PI
    return value.astype(np.float64) - log_z, np.hypot(error, log_z_error)
