"""§4.4, A.1, A.2.4 The joint distribution of one member: log P(e) of rows, log Z, draws of x, h and z.

Exact by enumeration for few hidden units; otherwise by annealed importance sampling and Gibbs chains, with a standard
error. "importance" takes log P(e) by importance sampling from mean-field: quick, and too low where mean-field misses
states. "conservative" averages P(e | h) over samples of the model; it is a lower estimate. Random numbers are fixed, so
that the score of a row depends on that row alone. Models of several members, and those that were trained by prediction,
are scored and drawn by the chain rule instead (chain.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Factors, Hidden, Int, PerRow, PRNGKey, Rows
from thurbo.errors import ThurboError, check_choice
from thurbo.latent import rbm
from thurbo.latent.constraints import Context
from thurbo.latent.constraints.repeated_choice import draw_orders
from thurbo.latent.evidence import Buckets, Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.likelihood import (
    MAX_QUADRATURE_FACTORS,
    hidden_states,
    log_evidence_conservative,
    log_evidence_exact,
    log_partition_ais,
    log_partition_exact,
    log_unnormalised_annealed,
    log_unnormalised_importance,
)
from thurbo.latent.inference.meanfield import mean_field, predictive
from thurbo.latent.inference.posterior import state_weights
from thurbo.latent.rbm import LOG_2PI, Params
from thurbo.table.schema.schema import Schema

METHODS = ("auto", "exact", "annealed", "importance", "conservative")

EXACT_HIDDEN = 12  # "auto" always enumerates so many; a factor counts as five hidden units, its quadrature nodes
NARROW = 40  # sites up to which it enumerates one unit more; each unit doubles time and memory (3 GB for 14 units)
MOST_EXACT = 16  # for "exact", which is slower
EXACT_PARTITION = 20
CHAINS, DRAWS = 32, 1000  # for each row: "annealed", "importance"
PRIOR_SAMPLES, PRIOR_STEPS = 2048, 500  # "conservative": samples of the model, and Gibbs rounds for each
SMALLEST_DRAW = 64
N_STEPS = 300  # of each chain given a row, which starts at the mean-field probabilities

_exact = jax.jit(log_evidence_exact)
_conservative = jax.jit(log_evidence_conservative)
_partition_exact = jax.jit(log_partition_exact)


def is_exact(params: Params, by_prediction: bool = False) -> bool:
    """Whether "auto" enumerates; it depends on the model alone, so that a row has one result in tables of any length.

    Models that were trained by prediction learn with the approximation, so only those that are small change to "exact".
    """
    is_narrow = params.site_bias.shape[0] <= NARROW and not by_prediction
    size = params.n_hidden + 5 * params.n_factors
    return can_enumerate(params) and size <= EXACT_HIDDEN + is_narrow


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
    return draw_hidden(key_h, key_run, params, n_samples, n_steps), z


@jax.jit
def _mass_error(params: Params, evidence: Evidence) -> PerRow:
    """Standard error of log P(e | h), at each row's mean-field mean."""
    mean, deviation = predictive(params, mean_field(params, evidence, 10), evidence)
    return evidence.region(evidence.seen(params).gauge).log_mass_error(mean, deviation)


def score(
    params: Params, evidence: Buckets, method: str = "auto", n_draws: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """log P(e) of every row in standard units, and its standard error: 0 if it is exact.

    `n_draws` is the number of samples of the hidden layer, for each row or, by "conservative", for all of them; by
    "annealed" it is the number of chains. Linear inequalities add the error of their own probabilities, which
    enumeration of h does not remove.
    """
    value, error = _score(params, evidence, method, n_draws, seed)
    if evidence.is_estimated:
        error = np.hypot(error, evidence.by_chunks(partial(_mass_error, params)))
    return value, error


def weighted_mean(values: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean over rows; rows of weight zero are ignored, even if their log P is −∞."""
    counts = weight > 0
    return float(np.average(values[counts], weights=weight[counts]))


def _score(
    params: Params, evidence: Buckets, method: str, n_draws: int | None, seed: int
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
    if method == "conservative" and evidence.has_own_models:
        raise ThurboError(
            'method "conservative" averages over samples of one model, and under unobserved="exclude" every row has a '
            'model of its own; use method="annealed", or fit with unobserved="marginalize"'
        )
    return method


# ---- draws


def draw(key: PRNGKey, params: Params, n_rows: int, schema: Schema | None = None) -> np.ndarray:
    """x ~ P(x), [row, site]; drawn in powers of two, so that other numbers of rows rarely recompile.

    Rankings of the schema that are choices one after another are drawn as such.
    """
    x, mean = (np.asarray(each, np.float64)[:n_rows] for each in latent(key, params, _bucket(n_rows)))
    if schema is None or params.gauge.context is None:
        return x
    seed = np.asarray(jax.random.key_data(jax.random.fold_in(key, 1))).astype(np.uint32)
    return with_choices(np.random.default_rng(seed), params, schema, x, mean)


def with_choices(
    rng: np.random.Generator, params: Params, schema: Schema, x: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """x with the sites of rankings with context replaced by utilities that decode to rankings drawn choice by choice.

    `mean` is that of x given the hidden layer of each row, both [row, site].
    """
    x, context = x.copy(), params.gauge.context
    for name in schema.with_sites:
        where = schema.slices[name]
        if context is not None and schema[name].has_context:
            own = Context(*(np.asarray(each)[where] for each in context))  # type: ignore[arg-type]
            x[:, where] = draw_orders(rng, mean[:, where], own)
    return x


def draw_given(key: PRNGKey, params: Params, evidence: Evidence, n_rows: int) -> np.ndarray:
    """x ~ P(x | e) for the evidence of one row, several draws: [row, slot]."""
    many = evidence.rows(np.zeros(_bucket(n_rows), np.int32))
    return np.asarray(_latent_given(key, params, many), np.float64)[:n_rows]


def draw_modes(key: PRNGKey, params: Params, evidence: Evidence | None, n_rows: int) -> np.ndarray:
    """Representative x, A.1.3, given the evidence of one row if there is any: [row, slot]."""
    bucket = _bucket(n_rows)
    many = None if evidence is None else evidence.rows(np.zeros(bucket, np.int32))
    return np.asarray(_seek(key, params, bucket, many)[0], np.float64)[:n_rows]


def _bucket(n_rows: int) -> int:
    return max(SMALLEST_DRAW, 1 << max(n_rows - 1, 0).bit_length())


_seek = jax.jit(gibbs.seek_mode, static_argnames=("n_rows",))


@partial(jax.jit, static_argnames=("n_steps",))
def _latent_given(key: PRNGKey, params: Params, evidence: Evidence, n_steps: int = 500) -> Rows:
    """One chain per row, starting from the mean probabilities of the hidden units."""
    given = gibbs.clamp(params, evidence)
    rate = jnp.broadcast_to(params.hidden_mean, (evidence.n_rows, params.n_hidden))
    state = gibbs.start(jax.random.fold_in(key, 0), given, rate)
    return gibbs.run(jax.random.fold_in(key, 1), state, given, n_steps).x


@partial(jax.jit, static_argnames=("n_rows", "n_steps"))
def latent(key: PRNGKey, params: Params, n_rows: int, n_steps: int = 500) -> tuple[Rows, Rows]:
    """x ~ P(x) and its mean given h and z: `n_rows` draws of all sites."""
    key_h, key_run, key_x, key_z = jax.random.split(key, 4)
    dtype = params.weights.dtype
    h = draw_hidden(key_h, key_run, params, n_rows, n_steps)
    z = jax.random.normal(key_z, (n_rows, params.n_factors), dtype)
    mean = rbm.latent_mean(params, h) + rbm.factor_shift(params, z)
    return mean + jax.random.normal(key_x, mean.shape, dtype), mean


def draw_hidden(key_h: PRNGKey, key_run: PRNGKey, params: Params, n_rows: int, n_steps: int) -> Hidden:
    """h ~ P(h) ∝ Ω(h), independent draws: exact for few hidden units, otherwise the last states of as many chains."""
    dtype = params.weights.dtype
    if params.n_hidden <= EXACT_HIDDEN:
        states = hidden_states(params.n_hidden, 0, dtype).h
        omega = rbm.log_omega(params, states)
        return states[jax.random.categorical(key_h, omega, shape=(n_rows,))]
    shape = (n_rows, params.n_hidden)
    h = (jax.random.uniform(key_h, shape, dtype) < params.hidden_mean[None, :]).astype(dtype)
    return gibbs.prior_run(key_run, h, params, n_steps)


def draw_items(params: Params, h: np.ndarray, z: np.ndarray, site: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x ~ N(α + W h + V z, 1) at one site of each line, given the hidden layer of its row: [line]."""
    mean = np.asarray(params.site_bias, np.float64)[site] + (np.asarray(params.weights)[site] * h).sum(axis=1)
    mean = mean + (np.asarray(params.loadings)[site] * z).sum(axis=1)
    return mean + rng.standard_normal(len(mean))


class Drawn(NamedTuple):
    """One draw of x by shared slot, h and z for each row."""

    x: np.ndarray
    h: np.ndarray
    z: np.ndarray


def latent_given_rows(key: PRNGKey, params: Params, evidence: Buckets, exact: bool) -> Drawn:
    """x ~ P(x | e) with its h and z, one draw for each row; constrained sites need chains."""
    numbers, first = np.arange(evidence.n_rows), int((evidence.shared >= 0).sum())

    def chunk(rows: Evidence, number: np.ndarray) -> Any:
        x, h, z = _draw(jax.random.fold_in(key, int(number[0])), params, rows, exact)
        return np.asarray(x)[:, :first], h, z

    return Drawn(*(np.asarray(each, np.float64) for each in evidence.by_chunks(chunk, numbers)))


@partial(jax.jit, static_argnames=("exact",))
def _draw(key: PRNGKey, params: Params, evidence: Evidence, exact: bool) -> tuple[Array, Array, Array]:
    if exact:
        key_h, key_x = jax.random.split(key)
        states = hidden_states(params.n_hidden, 0, params.weights.dtype).h
        state: Int[Array, " row"] = jax.random.categorical(key_h, jnp.log(state_weights(params, evidence)).T)
        h = states[state]
        mean = rbm.latent_mean(evidence.seen(params), h)
        # Given h the missing x are independent of the observed answers.
        z = jnp.zeros((evidence.n_rows, 0), mean.dtype)
        return mean + jax.random.normal(key_x, mean.shape, mean.dtype), h, z
    key_start, key_run = jax.random.split(key)
    given = gibbs.clamp(params, evidence)
    start = gibbs.start(key_start, given, mean_field(params, evidence, 10).hidden)
    end = gibbs.run(key_run, start, given, N_STEPS)
    return end.x, end.h, end.z
