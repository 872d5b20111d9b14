"""§4.4, A.1 The joint distribution of one member: log P(e) of rows, log Z, draws of x, h and z.

Exact by enumeration for few hidden units; otherwise by Gibbs chains, and log P(e) by annealed importance sampling from
both sides, with bounds. Random numbers are fixed, so that the score of a row depends on that row alone. Models of
several members, and those that were trained by prediction, are scored and drawn by the chain rule instead (chain.py).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Int, PerRow, PRNGKey, Rows
from thurbo.errors import ConvergenceWarning, ThurboError, check_choice
from thurbo.latent import rbm
from thurbo.latent.constraints import Context
from thurbo.latent.constraints.comparisons import draw_orders
from thurbo.latent.evidence import Buckets, Evidence, n_slots
from thurbo.latent.inference import annealing, gibbs
from thurbo.latent.inference.annealing import Bracket, Scores
from thurbo.latent.inference.meanfield import mean_field, predictive
from thurbo.latent.inference.posterior import (
    MAX_QUADRATURE_FACTORS,
    hidden_states,
    log_evidence_exact,
    log_normaliser_exact,
    log_partition_exact,
    state_weights,
)
from thurbo.latent.rbm import LOG_2PI, Params
from thurbo.table.schema.schema import Schema

METHODS = ("auto", "exact", "annealed")

EXACT_HIDDEN = 12  # "auto" always enumerates so many; a factor counts as five hidden units, its quadrature nodes
NARROW = 40  # sites up to which it enumerates one unit more; each unit doubles time and memory (3 GB for 14 units)
MOST_EXACT = 16  # for "exact", which is slower
EXACT_PARTITION = 20
EXACT_ROWS = 16  # whose own normalisers are enumerated together
MORE_FOR_MODEL = 8  # temperatures of log Z, as a multiple of those of a row
SMALLEST_DRAW = 64
N_STEPS = 300  # of each chain given a row, which starts at the mean-field probabilities

_exact = jax.jit(log_evidence_exact)
_partition_exact = jax.jit(log_partition_exact)
_normaliser_exact = jax.jit(log_normaliser_exact)
_annealed = jax.jit(annealing.log_evidence_annealed)
_normaliser = jax.jit(annealing.log_normaliser_annealed)
_partition = jax.jit(annealing.log_partition_annealed)


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


def log_partition(params: Params, seed: int = 0) -> Scores:
    """log Z over all sites, in arrays of one row; exact up to 20 hidden units."""
    constant = 0.5 * params.site_bias.shape[0] * LOG_2PI
    if params.n_hidden <= EXACT_PARTITION:
        return Scores.of(np.asarray([_partition_exact(params)], np.float64), np.zeros(1))

    def anneal(key: PRNGKey, n_temperatures: Any, knots: Any, rows: Any) -> Bracket:
        return _partition(key, params, n_temperatures, knots)

    # All scores share this number: it may take longer than a row.
    n_sites = params.site_bias.shape[0]
    most = MORE_FOR_MODEL * annealing.most_temperatures(n_sites + params.n_hidden)
    narrow = annealing.width_of_narrow(np.full(1, n_sites))
    return annealing.narrowed(anneal, params.weights.dtype, most, seed, narrow).plus(constant)


@jax.jit
def _mass_error(params: Params, evidence: Evidence) -> PerRow:
    """Standard error of log P(e | h), at each row's mean-field mean."""
    mean, deviation = predictive(params, mean_field(params, evidence, 10), evidence)
    return evidence.region(evidence.seen(params).gauge).log_mass_error(mean, deviation)


def score(params: Params, evidence: Buckets, method: str = "auto", seed: int = 0) -> Scores:
    """log P(e) of every row in standard units, with bounds and standard errors.

    Linear inequalities add the error of their own probabilities, which enumeration of h does not remove.
    """
    check_choice("method", method, METHODS)
    if method == "exact" and not can_enumerate(params):
        sizes = f"{params.n_hidden} hidden units and {params.n_factors} factors"
        raise ThurboError(f'{sizes} are too many to enumerate; use method="annealed"')
    if method == "annealed" or (method == "auto" and not is_exact(params)):
        return _score_annealed(params, evidence, seed)
    value = evidence.by_chunks(partial(_exact, params)).astype(np.float64)
    error = np.zeros(len(value))
    if evidence.is_estimated:
        error = evidence.by_chunks(partial(_mass_error, params)).astype(np.float64)
    return Scores.of(value, error)


def weighted_mean(values: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean over rows; rows of weight zero are ignored, even if their log P is −∞."""
    counts = weight > 0
    return float(np.average(values[counts], weights=weight[counts]))


def _score_annealed(params: Params, evidence: Buckets, seed: int) -> Scores:
    observed = np.concatenate([np.asarray(bucket.observed).any(axis=1) for bucket in evidence.on_host().buckets])
    says = np.flatnonzero(observed[np.argsort(np.concatenate(evidence.places), kind="stable")])
    found = Scores(*np.zeros((4, evidence.n_rows)))  # a row that says nothing has probability one
    if not len(says):
        return found
    rows = evidence.rows(says)
    if not rows.has_own_models:  # log Σ_h Ω(h) of the model that all rows share
        normaliser = log_partition(params, seed).plus(-0.5 * params.site_bias.shape[0] * LOG_2PI)
    elif params.n_hidden <= EXACT_PARTITION:  # that over each row's own sites
        value = rows.by_chunks(partial(_normaliser_exact, params), rows=EXACT_ROWS).astype(np.float64)
        normaliser = Scores.of(value, np.zeros(len(value)))
    else:
        most = annealing.most_temperatures(max(map(n_slots, rows.buckets)) + params.n_hidden)
        normaliser = _of_rows(_normaliser, params, rows, most, seed + 1)
    own = _of_rows(_annealed, params, rows, annealing.budget_of_rows(params, rows), seed)
    for every, part in zip(found, own.less(normaliser), strict=True):
        every[says] = part
    wide = found.width[says] > 1.5 * _narrow(rows)
    if wide.any():
        apart = np.median(found.width[says[wide]])
        warnings.warn(
            f"annealing has not pinned down the log-likelihood of {wide.sum()} of {evidence.n_rows} rows: their bounds "
            f"are {apart:.2g} nats apart (median), see return_bounds=True. A model of fewer hidden "
            'units is scored exactly; method="sequential" is the chain rule over predictions',
            ConvergenceWarning,
            stacklevel=3,
        )
    return found


def _of_rows(run: Any, params: Params, rows: Buckets, most: int, seed: int) -> Scores:
    """What annealing with at most so many temperatures says of each row."""

    def anneal(key: PRNGKey, n_temperatures: Any, knots: np.ndarray, some: np.ndarray) -> Bracket:
        one = lambda own, at: run(key, params, own, n_temperatures, at)  # noqa: E731
        return rows.rows(some).by_chunks(one, knots, rows=annealing.rows_at_once)

    return annealing.narrowed(anneal, params.weights.dtype, most, seed, _narrow(rows))


def _narrow(rows: Buckets) -> np.ndarray:
    """The width that the bounds of each row should have."""
    n_sites = np.zeros(rows.n_rows)
    for bucket, place in zip(rows.buckets, rows.places, strict=True):
        n_sites[place] = n_slots(bucket)
    return annealing.width_of_narrow(n_sites)


def draw(key: PRNGKey, params: Params, n_rows: int, schema: Schema | None = None) -> np.ndarray:
    """x ~ P(x), [row, site]; rankings of the schema that are choices one after another are drawn as such."""
    x, mean = (np.asarray(each, np.float64)[:n_rows] for each in latent(key, params, _bucket(n_rows)))
    if schema is None or params.gauge.context is None:
        return x
    seed = np.asarray(jax.random.key_data(jax.random.fold_in(key, 1))).astype(np.uint32)
    return with_choices(np.random.default_rng(seed), params, schema, x, mean)


def with_choices(
    rng: np.random.Generator, params: Params, schema: Schema, x: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """x with sites of rankings with context replaced by draws choice by choice, from means given the hidden layer."""
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


@partial(jax.jit, static_argnames=("n_rows",))
def latent(key: PRNGKey, params: Params, n_rows: int) -> tuple[Rows, Rows]:
    """x ~ P(x) and its mean given h and z: `n_rows` draws of all sites."""
    key_h, key_run, key_x, key_z = jax.random.split(key, 4)
    dtype = params.weights.dtype
    if params.n_hidden <= EXACT_HIDDEN:
        states = hidden_states(params.n_hidden, 0, dtype).h
        h = states[jax.random.categorical(key_h, rbm.log_omega(params, states), shape=(n_rows,))]
    else:  # the last states of as many chains
        dice = jax.random.uniform(key_h, (n_rows, params.n_hidden), dtype)
        h = gibbs.prior_run(key_run, (dice < params.hidden_mean[None, :]).astype(dtype), params, 500)
    z = jax.random.normal(key_z, (n_rows, params.n_factors), dtype)
    mean = rbm.latent_mean(params, h) + rbm.factor_shift(params, z)
    return mean + jax.random.normal(key_x, mean.shape, dtype), mean


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
