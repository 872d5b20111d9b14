"""§4.4, A.1.1, A.2.4 log P(e) of rows: exact by enumeration for few hidden units, otherwise with a standard error.

"sequential" is the chain rule: the cells of a row one after another, each given the cells before it, averaged over
random orders. It is the distribution that `sample` draws from after training by prediction.

"annealed" is log P(e) = log Σ_h Ω(h) P(e | h) − log Z, both by annealed importance sampling. "importance" takes the sum
by importance sampling from mean-field: quick, and too low where mean-field misses states. "conservative" averages
P(e | h) over samples of the model; it needs no log Z and is a lower estimate. All of them use fixed random numbers, so
the score of a row depends on that row alone.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Factors, Hidden, PerRow, PRNGKey
from thurbo.errors import ThurboError, check_choice
from thurbo.evidence import Evidence, Unobserved
from thurbo.evidence.buckets import Buckets, n_slots
from thurbo.inference.annealing import log_unnormalised_annealed
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
from thurbo.queries.features import How
from thurbo.rbm import LOG_2PI, Params

METHODS = ("auto", "exact", "annealed", "importance", "conservative", "sequential")

EXACT_HIDDEN = 12  # "auto" always enumerates so many; a factor counts as five hidden units, its quadrature nodes
MOST_EXACT = 16  # for "exact", which is slower, and for "auto" in tables with few sites:
EXACT_COST = 1 << 18  # most states times sites for "auto" beyond EXACT_HIDDEN, as much as 12 units cost with 64 sites
EXACT_PARTITION = 20
N_ORDERS, MOST_PASSES = 16, 512  # "sequential": random orders of the cells, fewer if there are many cells
CHAINS, DRAWS = 32, 1000  # for each row: "annealed", "importance"
PRIOR_SAMPLES, PRIOR_STEPS = 2048, 500  # "conservative": samples of the model, and Gibbs rounds for each

_exact = jax.jit(log_evidence_exact)
_conservative = jax.jit(log_evidence_conservative)
_partition_exact = jax.jit(log_partition_exact)


def is_exact(params: Params, by_prediction: bool = False) -> bool:
    """Whether "auto" enumerates; it depends on the model alone, so that a row has one result in tables of any length.

    Models that were trained by prediction learn with the approximation, so only those that are small change to "exact".
    """
    size = params.n_hidden + 5 * params.n_factors
    if params.n_factors > MAX_QUADRATURE_FACTORS or size > MOST_EXACT:
        return False
    return size <= EXACT_HIDDEN or (not by_prediction and params.site_bias.shape[0] << size <= EXACT_COST)


def can_enumerate(params: Params) -> bool:
    """Whether method="exact" is possible."""
    return params.n_factors <= MAX_QUADRATURE_FACTORS and params.n_hidden + 5 * params.n_factors <= MOST_EXACT


@partial(jax.jit, static_argnames=("n_draws", "n_steps"))
def _importance(key: PRNGKey, params: Params, evidence: Evidence, n_draws: int, n_steps: int) -> tuple[PerRow, PerRow]:
    q = mean_field(params, evidence, n_steps)
    return log_unnormalised_importance(key, params, evidence, q, n_draws)


@partial(jax.jit, static_argnames=("n_chains", "n_steps"))
def _annealed(key: PRNGKey, params: Params, evidence: Evidence, n_chains: int, n_steps: int) -> tuple[PerRow, PerRow]:
    q = mean_field(params, evidence, n_steps)
    return log_unnormalised_annealed(key, params, evidence, q, n_chains)


_ais = jax.jit(log_partition_ais, static_argnames=("n_chains", "n_temperatures"))


@jax.jit
def _row_partition(key: PRNGKey, params: Params, evidence: Evidence) -> tuple[PerRow, PerRow]:
    """log Σ_h Ω(h) over each row's own sites, without its constant, and its standard error."""
    assert evidence.present is not None
    log_z, error = log_partition_ais(key, evidence.seen(params), 64, 300, evidence.present)
    return log_z - 0.5 * LOG_2PI * evidence.present.sum(-1).astype(log_z.dtype), error


def log_partition(params: Params, seed: int = 0) -> tuple[float, float]:
    """log Z over all sites, and its standard error: 0.0 if it is exact."""
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


def _n_cells(evidence: Evidence) -> int:
    return n_slots(evidence) if evidence.cells is None else len(np.unique(np.asarray(evidence.cells)))


@partial(jax.jit, static_argnames=("n_cells", "n_orders", "n_steps", "unobserved"))
def _sequential(
    key: PRNGKey,
    params: Params,
    evidence: Evidence,
    n_cells: int,
    n_orders: int,
    n_steps: int,
    unobserved: Unobserved,
) -> tuple[PerRow, PerRow]:
    """log of the mean over orders of Π P(cell | cells before it), and its standard error.

    All rows have the same orders: the score of a row depends on that row alone.
    """
    observed = evidence.observed
    n_rows, width = observed.shape
    slots = jnp.arange(width, dtype=jnp.int32)
    cell = slots if evidence.cells is None else evidence.cells.astype(jnp.int32)
    region = evidence.region(evidence.seen(params).gauge)

    def one_order(key: PRNGKey) -> PerRow:
        place = jnp.argsort(jnp.argsort(jax.random.uniform(key, (width,))))[cell]  # turn of each slot's cell

        def add(total: PerRow, turn: Array) -> tuple[PerRow, None]:
            later = jnp.broadcast_to(place >= turn, (n_rows, width))
            own = observed & (place == turn)[None, :]
            q = mean_field(params, evidence.hide(later & observed, unobserved), n_steps)
            mean, deviation = predictive(params, q, evidence)
            mass = region.release(observed & ~own).log_mass(mean, deviation)
            return total + jnp.where(own.any(axis=1), mass, jnp.zeros_like(mass)), None

        zero = jnp.zeros(n_rows, params.weights.dtype)
        # A cell's turn is that of its first slot.
        return jax.lax.scan(add, zero, jnp.sort(jnp.where(cell == slots, place, width))[:n_cells])[0]

    values = jax.lax.map(one_order, jax.random.split(key, n_orders))
    top = values.max(axis=0)
    ratio = jnp.exp(values - top[None, :])
    mean = ratio.mean(axis=0)
    return top + jnp.log(mean), ratio.std(axis=0) / mean / float(np.sqrt(max(n_orders - 1, 1)))


@jax.jit
def _mass_error(params: Params, evidence: Evidence) -> PerRow:
    """Standard error of log P(e | h), at each row's mean-field mean."""
    mean, deviation = predictive(params, mean_field(params, evidence, 10), evidence)
    return evidence.region(evidence.seen(params).gauge).log_mass_error(mean, deviation)


def score(
    params: Params,
    evidence: Buckets,
    method: str = "auto",
    n_draws: int | None = None,
    seed: int = 0,
    how: How | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """log P(e) of every row in standard units, and its standard error: 0 if it is exact.

    `n_draws` is the number of samples of the hidden layer, for each row or, by "conservative", for all of them; by
    "annealed" it is the number of chains, by "sequential" that of orders. `how` has the mean-field steps of training by
    prediction. Linear inequalities add the error of their own probabilities, which enumeration of h does not remove.
    """
    value, error = _score(params, evidence, method, n_draws, seed, how or How())
    if evidence.is_estimated:
        error = np.hypot(error, evidence.by_chunks(partial(_mass_error, params)))
    return value, error


def mean(values: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean over rows; rows of weight zero are ignored, even if their log P is −∞."""
    counts = weight > 0
    return float(np.average(values[counts], weights=weight[counts]))


def _score(
    params: Params, evidence: Buckets, method: str, n_draws: int | None, seed: int, how: How
) -> tuple[np.ndarray, np.ndarray]:
    chosen = _resolved(params, evidence, method)
    if chosen == "exact":
        value = evidence.by_chunks(partial(_exact, params))
        return value.astype(np.float64), np.zeros(len(value))
    key = jax.random.key(seed)
    if chosen == "conservative":
        drawn = _prior_samples(key, params, n_draws or PRIOR_SAMPLES, PRIOR_STEPS)
        value, error = evidence.by_chunks(lambda rows: _conservative(params, rows, *drawn))
        return value.astype(np.float64), error.astype(np.float64)
    if chosen == "sequential":
        n_cells = _n_cells(evidence.buckets[0])
        n_orders = n_draws or int(np.clip(MOST_PASSES // max(n_cells, 1), 2, N_ORDERS))
        steps = (n_cells, n_orders, how.n_steps, how.unobserved)
        value, error = evidence.by_chunks(lambda rows: _sequential(key, params, rows, *steps))
        return value.astype(np.float64), error.astype(np.float64)
    if chosen == "importance":
        value, error = evidence.by_chunks(lambda rows: _importance(key, params, rows, n_draws or DRAWS, 30))
    else:
        value, error = evidence.by_chunks(lambda rows: _annealed(key, params, rows, n_draws or CHAINS, 30))
    if not evidence.has_own_models:
        log_z, log_z_error = log_partition(params, seed)
        log_z -= 0.5 * params.site_bias.shape[0] * LOG_2PI
    else:
        # Each row has its own sites and so its own normaliser; 64 chains per row limit the runtime.
        log_z, log_z_error = evidence.by_chunks(lambda rows: _row_partition(key, params, rows))
    return value.astype(np.float64) - log_z, np.hypot(error, log_z_error)


def _resolved(params: Params, evidence: Buckets, method: str) -> str:
    """The method to use; raises an error if it is not possible."""
    check_choice("method", method, METHODS)
    if method == "auto":
        return "exact" if is_exact(params) else "annealed"
    if method == "exact" and not can_enumerate(params):
        raise ThurboError(
            f"{params.n_hidden} hidden units and {params.n_factors} factors are too many to enumerate; "
            'use method="annealed"'
        )
    if method == "sequential" and (evidence.lists or evidence.spans_cells):
        what = "lists" if evidence.lists else "inequalities between columns"
        raise ThurboError(f'method "sequential" has no {what}; use method="annealed"')
    if method == "conservative" and evidence.has_own_models:
        raise ThurboError(
            'method "conservative" averages over samples of one model, and under unobserved="exclude" every row has a '
            'model of its own; use method="annealed", or fit with unobserved="marginalize"'
        )
    return method
