"""§6 Hidden numbers: how near they are guessed and with what density, and intervals by the probability they are given.

A number is right or wrong by so much; of a cell that says only between which ends it lies, or which one it has not
passed, the model can say how probable that was. Yardsticks are normal distributions: one fitted to all that is shown,
and ridge regression, of numbers and of the middles of intervals, on all other columns.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from scipy.special import log_ndtr

from thurbo._typing import Array, Float, Int, PerRow
from thurbo.columns import MeasuredColumn
from thurbo.evidence import Evidence
from thurbo.evidence.pack import by_chunks
from thurbo.inference.posterior import Belief, expectation
from thurbo.queries import answers, predict
from thurbo.queries.evaluate import baseline
from thurbo.queries.evaluate.tested import LEAST_CHANCE, N_BINS, Setting, Tested, inputs, record
from thurbo.rbm import Params

LOG_LEAST_DENSITY = -87.0  # about the smallest number that float32 holds

Guesses = dict[str, baseline.Normal]  # by yardstick, of every hidden row


class Numbers(NamedTuple):
    """Predictions of numbers: medians and means in the user's units, log densities and P(z ≤ truth)."""

    median: np.ndarray
    mean: np.ndarray
    log_density: np.ndarray  # in standard units
    below: np.ndarray


def tested_numbers(setting: Setting, name: str, column: MeasuredColumn) -> list[Tested]:
    """The test of a measured column's hidden numbers, and that of its hidden intervals, where there are such."""
    rows, block = np.flatnonzero(setting.hidden[name]), setting.blocks[name]
    guesses, is_point = _yardsticks(setting, name, rows), block.point[rows, 0]
    parts = []
    for test, where in ((_of_points, is_point), (_of_intervals, ~is_point)):
        if where.any():
            of_them = {rival: baseline.Normal(*(each[where] for each in guess)) for rival, guess in guesses.items()}
            parts.append(test(setting, name, column, rows[where], of_them))
    return parts


def _yardsticks(setting: Setting, name: str, rows: np.ndarray) -> Guesses:
    block = setting.blocks[name]
    lower, upper = block.lower[:, 0], block.upper[:, 0]
    shown = block.observed[:, 0] & ~setting.hidden[name]
    mean, deviation = baseline.normal(lower[shown], upper[shown], setting.weight[shown])
    found = {"_marginal": baseline.Normal(np.full(len(rows), mean), np.full(len(rows), deviation))}
    others = inputs(setting, name)
    if others is not None:
        known = shown & np.isfinite(lower) & np.isfinite(upper)
        middle = np.zeros(len(known))
        middle[known] = baseline.middles(lower[known], upper[known])
        found["_logistic"] = baseline.ridge(others, middle, known, rows, setting.rng, setting.weight)
    return found


def _of_points(setting: Setting, name: str, column: MeasuredColumn, rows: np.ndarray, guesses: Guesses) -> Tested:
    block, weight = setting.blocks[name], setting.weight[rows]
    z = block.lower[rows, 0]
    found = {"": _by_model(setting, name, column, rows, z)}
    found |= {rival: _by_normal(column, guess, z) for rival, guess in guesses.items()}
    truth = column.to_user(z)
    values = {}
    for rival, guess in found.items():
        values[f"mae{rival}"] = float(np.average(np.abs(guess.median - truth), weights=weight))
        values[f"rmse{rival}"] = float(np.sqrt(np.average((guess.mean - truth) ** 2, weights=weight)))
        values[f"calibration_error{rival}"] = calibration_of_numbers(guess.below, weight)
    scores = {rival: guess.log_density + block.log_jacobian[rows] for rival, guess in found.items()}
    return Tested(record(name, column.kind, "number", len(rows), scores, values, weight), scores, {}, weight)


def _of_intervals(setting: Setting, name: str, column: MeasuredColumn, rows: np.ndarray, guesses: Guesses) -> Tested:
    """log P(lower ≤ number ≤ upper), either of which may be infinite."""
    block, weight = setting.blocks[name], setting.weight[rows]
    lower, upper = block.lower[rows, 0], block.upper[rows, 0]
    chances = {"": _mass_by_model(setting, name, rows, lower, upper)}
    for rival, guess in guesses.items():
        ends = ((end - guess.mean) / guess.deviation for end in (lower, upper))
        chances[rival] = np.exp(baseline.log_between(*ends))
    # The jacobian is that of intervals too narrow for single precision, which were widened.
    scores = {
        rival: np.log(np.maximum(each, LEAST_CHANCE)) + block.log_jacobian[rows] for rival, each in chances.items()
    }
    line = record(f"{name}: intervals", column.kind, "interval", len(rows), scores, {}, weight)
    return Tested(line, scores, {}, weight)


def _by_model(setting: Setting, name: str, column: MeasuredColumn, rows: np.ndarray, z: np.ndarray) -> Numbers:
    evidence, about = setting.rest.rows(rows), answers.target(setting.schema, name)
    scale = float(setting.params.gauge.scale[int(about.site)])
    points = (z / scale).astype(setting.params.weights.dtype)

    def chunk(part: Evidence, at: np.ndarray) -> Any:
        return _density(setting.params, part, about.site, jnp.asarray(at), setting.how)

    density, below = (np.asarray(each, np.float64) for each in by_chunks(chunk, evidence, points))
    with np.errstate(divide="ignore"):
        log_density = np.maximum(np.log(density), LOG_LEAST_DENSITY) - np.log(scale)
    found = predict.measured(setting.params, evidence, about, setting.how)
    return Numbers(column.to_user(found.quantile(0.5)), found.average(column.to_user), log_density, below)


def _mass_by_model(setting: Setting, name: str, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """P(lower ≤ z ≤ upper) of each row from the rest of it."""
    evidence, about = setting.rest.rows(rows), answers.target(setting.schema, name)
    scale, dtype = float(setting.params.gauge.scale[int(about.site)]), setting.params.weights.dtype

    def chunk(part: Evidence, low: np.ndarray, high: np.ndarray) -> Any:
        return _mass(setting.params, part, about.site, jnp.asarray(low), jnp.asarray(high), setting.how)

    ends = ((end / scale).astype(dtype) for end in (lower, upper))
    return np.asarray(by_chunks(chunk, evidence, *ends), np.float64)


@partial(jax.jit, static_argnames=("how",))
def _mass(
    params: Params, evidence: Evidence, site: Int[Array, ""], lower: PerRow, upper: PerRow, how: predict.How
) -> PerRow:
    """P(lower ≤ x ≤ upper) at one site, between each row's own ends; all are asked of all, as in `_density`."""

    def function(belief: Belief) -> Float[Array, "row interval"]:
        mean, deviation = belief.mean[:, site, None], belief.deviation[:, site, None]
        low, high = (lower[None, :] - mean) / deviation, (upper[None, :] - mean) / deviation
        # In the upper tail by its mirror image, where small masses are differences of small numbers.
        low, high = jnp.where(low > 0, -high, low), jnp.where(low > 0, -low, high)
        return ndtr(high) - ndtr(low)

    found = expectation(function, params, evidence, how.method, n_steps=how.n_steps, key=how.key(), n_draws=how.n_draws)
    return jnp.diagonal(found)


@partial(jax.jit, static_argnames=("how",))
def _density(
    params: Params, evidence: Evidence, site: Int[Array, ""], points: PerRow, how: predict.How
) -> tuple[PerRow, PerRow]:
    """Density and distribution function of x at one site, at each row's own point.

    What a hidden state says is asked once for all rows, so it is asked about all points; each row keeps its own.
    """

    def function(belief: Belief) -> tuple[Float[Array, "row point"], Float[Array, "row point"]]:
        mean, deviation = belief.mean[:, site, None], belief.deviation[:, site, None]
        distance = (points[None, :] - mean) / deviation
        return jnp.exp(-0.5 * distance * distance) / (deviation * float(np.sqrt(2 * np.pi))), ndtr(distance)

    density, below = expectation(
        function, params, evidence, how.method, n_steps=how.n_steps, key=how.key(), n_draws=how.n_draws
    )
    return jnp.diagonal(density), jnp.diagonal(below)


def _by_normal(column: MeasuredColumn, guess: baseline.Normal, z: np.ndarray) -> Numbers:
    """What a normal distribution in standard units predicts."""
    distance = (z - guess.mean) / guess.deviation
    log_density = -0.5 * distance**2 - np.log(guess.deviation) - 0.5 * np.log(2 * np.pi)
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    spread = column.to_user(guess.mean[:, None] + guess.deviation[:, None] * nodes)
    return Numbers(
        column.to_user(guess.mean),
        spread @ (weights / weights.sum()),
        np.maximum(log_density, LOG_LEAST_DENSITY),
        np.exp(log_ndtr(distance)),
    )


def calibration_of_numbers(below: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean of |share of rows with P(z ≤ truth) up to p − p| over p = 0.1, …, 0.9."""
    levels = np.arange(1, N_BINS) / N_BINS
    return float(np.abs(np.average(below[:, None] <= levels, axis=0, weights=weight) - levels).mean())
