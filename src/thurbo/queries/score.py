"""§4.4, A.1.1, A.2.4 log P(e) of rows: exact by enumeration for few hidden units, with a standard error beyond.

"importance" is log P(e) = log Σ_h Ω(h) P(e | h) − log Z: the first by importance sampling from mean-field, the second
by annealed importance sampling. "conservative" averages P(e | h) over samples of the model, needs no log Z and errs
downwards. Both use fixed random numbers, so a row's score depends on the row alone.
"""

from __future__ import annotations

from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Factors, Hidden, PerRow, PRNGKey
from thurbo.constraints import JointRegion, Linear, LinearRegion
from thurbo.errors import ThurboError
from thurbo.evidence import Evidence
from thurbo.evidence.pack import by_chunks
from thurbo.inference.likelihood import (
    MAX_QUADRATURE_FACTORS,
    log_evidence_conservative,
    log_evidence_exact,
    log_partition_exact,
    log_unnormalised_importance,
)
from thurbo.inference.meanfield import mean_field, predictive
from thurbo.inference.partition import log_partition_ais
from thurbo.queries import sample
from thurbo.rbm import LOG_2PI, Params

METHODS = ("auto", "exact", "importance", "conservative")

EXACT_HIDDEN = 10  # by "auto"; a factor counts as five hidden units, its quadrature nodes
MOST_EXACT = 16  # by "exact", for those who can wait
EXACT_PARTITION = 20
PRIOR_SAMPLES, PRIOR_STEPS = 2048, 500  # "conservative": samples of the model, and rounds of Gibbs behind each

_exact = jax.jit(log_evidence_exact)
_conservative = jax.jit(log_evidence_conservative)
_partition_exact = jax.jit(log_partition_exact)


def is_exact(params: Params, most: int = EXACT_HIDDEN) -> bool:
    """Whether rows are scored by enumeration, unless another method is asked for."""
    if params.n_factors > MAX_QUADRATURE_FACTORS:
        return False
    return params.n_hidden + 5 * params.n_factors <= most


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


@partial(jax.jit, static_argnames=("n_samples", "n_steps"))
def _prior_samples(key: PRNGKey, params: Params, n_samples: int, n_steps: int) -> tuple[Hidden, Factors]:
    """h ~ P(h), z ~ N(0, I), independent of each other."""
    key_h, key_run, key_z = jax.random.split(key, 3)
    z = jax.random.normal(key_z, (n_samples, params.n_factors), params.weights.dtype)
    return sample.hidden(key_h, key_run, params, n_samples, n_steps), z


@jax.jit
def _line_error(params: Params, evidence: Evidence) -> PerRow:
    """Standard error of the mass of a row's lines (constraints/linear.py), at its mean-field mean."""
    mean, deviation = predictive(params, mean_field(params, evidence, 10), evidence)
    region = evidence.region(params.gauge)
    assert isinstance(region, JointRegion)
    lines = [part for part in region.parts if isinstance(part, LinearRegion)]
    return reduce(jnp.hypot, (part.log_mass_error(mean, deviation) for part in lines))


def score(
    params: Params, evidence: Evidence, method: str = "auto", n_draws: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """log P(e) of every row in standard units, and its standard error: 0 where it is exact.

    `n_draws` is how often the hidden layer is drawn, for each row or, by "conservative", for all of them. Lines add the
    error of their own masses, which no enumeration of h removes.
    """
    value, error = _score(params, evidence, method, n_draws, seed)
    if any(isinstance(constraint, Linear) for constraint in evidence.constraints):
        error = np.hypot(error, by_chunks(partial(_line_error, params), evidence))
    return value, error


def mean(values: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean over rows; one that counts nothing has no say, even where its log P is −∞."""
    counts = weight > 0
    return float(np.average(values[counts], weights=weight[counts]))


def _score(
    params: Params, evidence: Evidence, method: str, n_draws: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    how = _resolved(params, evidence, method)
    if how == "exact":
        value = by_chunks(partial(_exact, params), evidence)
        return value.astype(np.float64), np.zeros(len(value))
    key = jax.random.key(seed)
    if how == "conservative":
        drawn = _prior_samples(key, params, n_draws or PRIOR_SAMPLES, PRIOR_STEPS)
        value, error = by_chunks(lambda rows: _conservative(params, rows, *drawn), evidence)
        return value.astype(np.float64), error.astype(np.float64)
    value, error = by_chunks(lambda rows: _importance(key, params, rows, n_draws or 1000, 30), evidence)
    if evidence.present is None:
        log_z, log_z_error = log_partition(params, seed)
        log_z -= 0.5 * params.site_bias.shape[0] * LOG_2PI
    else:
        # Each row has its own sites and so its own normaliser; 64 chains a row keep this affordable.
        log_z, log_z_error = by_chunks(lambda rows: _ais(key, params, 64, 300, rows.present), evidence)
        log_z = log_z - 0.5 * np.asarray(evidence.present).sum(axis=1) * LOG_2PI
    return value.astype(np.float64) - log_z, np.hypot(error, log_z_error)


def _resolved(params: Params, evidence: Evidence, method: str) -> str:
    """The method that is meant, or why it cannot be."""
    if method not in METHODS:
        raise ThurboError(f'method "{method}" is not one of {", ".join(METHODS)}')
    if method == "auto":
        return "exact" if is_exact(params) else "importance"
    if method == "exact" and not is_exact(params, MOST_EXACT):
        raise ThurboError(
            f"{params.n_hidden} hidden units and {params.n_factors} factors are too many to enumerate; "
            'use method="importance"'
        )
    if method == "conservative" and evidence.present is not None:
        raise ThurboError(
            'method "conservative" averages over samples of one model, and under unobserved="exclude" every row has a '
            'model of its own; use method="importance", or fit with unobserved="marginalize"'
        )
    return method
