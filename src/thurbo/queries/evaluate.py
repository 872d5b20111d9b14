"""§6 Can it be believed? Some answers are hidden, predicted from the rest of their rows, and compared with the truth.

Whole answers are hidden, as if nobody had asked: a ranking goes with all its items. Two yardsticks need no Boltzmann
machine (`baseline`): the shares of the answers still shown, and a regression of each column on all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from scipy.special import log_ndtr

from thurbo._typing import Array, Float, Int, PerRow
from thurbo.columns import Banded, Block, Categorical, Column, LevelColumn, MeasuredColumn, UtilityColumn
from thurbo.errors import ThurboError
from thurbo.evidence import Evidence
from thurbo.inference.posterior import Belief, expectation
from thurbo.packing import by_chunks
from thurbo.queries import answers, baseline, predict
from thurbo.queries.evaluation import MEASURES, RIVALS, Evaluation
from thurbo.rbm import Params
from thurbo.schema import Schema

N_BINS = 10
LEAST_CHANCE = 1e-12  # of a label that came true; a log score has to be finite
LOG_LEAST_DENSITY = -87.0  # about the smallest number that float32 holds

ByRival = dict[str, np.ndarray]  # the model's under "", the yardsticks' under "_marginal" and "_logistic"


class Setting(NamedTuple):
    """One model and one table with some answers hidden: what every column's test needs."""

    params: Params
    schema: Schema
    blocks: Mapping[str, Block]
    rest: Evidence  # without the hidden answers, on the host
    hidden: dict[str, np.ndarray]  # by column: whose answer is hidden, [row]
    how: predict.How
    rng: np.random.RandomState
    features: dict[str, np.ndarray] | None  # of each column where it is shown; None without regressions
    weight: np.ndarray  # how much each row counts, [row]


class Tested(NamedTuple):
    """The test of one kind of answer: its record, and by rival the log score of every answer and the weight right."""

    record: dict[str, Any]
    scores: ByRival
    right: dict[str, float]
    weight: np.ndarray  # of every answer


def evaluate(
    params: Params,
    schema: Schema,
    blocks: Mapping[str, Block],
    evidence: Evidence,
    how: predict.How,
    *,
    hide: Any,
    rng: np.random.RandomState,
    logistic: bool = True,
    weight: np.ndarray | None = None,
) -> Evaluation:
    """Hide a share of the answers, predict them, and compare by column and over all; rows count by their weight."""
    weight = np.ones(evidence.n_rows) if weight is None else weight
    hidden = choose(schema, blocks, hide, rng, weight > 0)
    host: Evidence = jax.tree.map(np.asarray, conceal(schema, evidence, hidden, how))
    features = None
    if logistic:
        features = {name: baseline.features(schema[name], blocks[name], ~hidden[name]) for name in schema.modelled}
    setting = Setting(params, schema, blocks, host, hidden, how, rng, features, weight)
    tests = [test for name in schema.modelled if hidden[name].any() for test in _test(setting, name)]
    untested = tuple(name for name in schema.modelled if not hidden[name].any())
    return Evaluation([test.record for test in tests], _overall(tests, hide), untested)


def answered(schema: Schema, blocks: Mapping[str, Block], name: str) -> np.ndarray:
    """Rows that answer a question so that a prediction can be right or wrong: [row]. Intervals and sets do not."""
    block = blocks[name]
    if isinstance(schema[name], MeasuredColumn) and not isinstance(schema[name], Banded):
        return block.point[:, 0]
    if isinstance(schema[name], Categorical):
        return favourite(block) >= 0
    if isinstance(schema[name], UtilityColumn):
        return ((block.tier > 0).any(axis=1)) & ~block.one_of
    return _codes(schema[name], block).max(axis=1) >= 0


def favourite(block: Block) -> np.ndarray:
    """The label above all others, [row]; −1 where no single one is, or where not all were compared."""
    top = block.tier == block.tier.max(axis=1, keepdims=True)
    known = (block.tier >= 0).all(axis=1) & (top.sum(axis=1) == 1) & ~block.one_of
    return np.where(known, top.argmax(axis=1), -1)


def _codes(column: Column, block: Block) -> np.ndarray:
    """Levels or bands that are known to be one, [row, site]; −1 elsewhere."""
    if isinstance(column, Banded):
        return column.codes(block)[:, None]
    return np.where(block.code_high == block.code, block.code, -1)


def choose(
    schema: Schema, blocks: Mapping[str, Block], hide: Any, rng: np.random.RandomState, counts: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Which answers to hide, by column: each answered one, of rows that count, with probability `hide`."""
    if isinstance(hide, bool) or not isinstance(hide, Real) or not 0 < float(hide) < 1:
        raise ThurboError(f"hide={hide!r} is not a share of the answers; give a number above 0 and below 1")
    hidden, n_answers = {}, 0
    for name in schema.modelled:
        there = answered(schema, blocks, name) & (True if counts is None else counts)
        hidden[name] = there & (rng.random_sample(len(there)) < float(hide))
        n_answers += int(there.sum())
    if not any(where.any() for where in hidden.values()):
        raise ThurboError(f"hide={hide:g} hides none of the {n_answers} answers; hide a larger share or give more rows")
    return hidden


def conceal(schema: Schema, evidence: Evidence, hidden: Mapping[str, np.ndarray], how: predict.How) -> Evidence:
    """The evidence of the answers that are still shown."""
    slots = np.zeros((evidence.n_rows, schema.n_sites), bool)
    for name, where in hidden.items():
        slots[:, schema.slices[name]] = where[:, None]
    return evidence.hide(jnp.asarray(slots), how.unobserved)


def _test(setting: Setting, name: str) -> list[Tested]:
    column = setting.schema[name]
    if isinstance(column, MeasuredColumn) and not isinstance(column, Banded):
        return [_test_numbers(setting, name, column)]
    if isinstance(column, UtilityColumn):
        return _test_utilities(setting, name)
    return [_test_levels(setting, name)]


def _inputs(setting: Setting, name: str) -> np.ndarray | None:
    """Features of all other columns, [row, feature]; None where no regression is wanted or possible."""
    if setting.features is None:
        return None
    others = [values for other, values in setting.features.items() if other != name]
    return np.concatenate(others, axis=1) if others else None


# ---- labels


def _test_levels(setting: Setting, name: str) -> Tested:
    """Levels and bands, and options, each of which is an answer."""
    column, rows = setting.schema[name], np.flatnonzero(setting.hidden[name])
    code = _codes(column, setting.blocks[name])
    chance = answers.probabilities(setting.params, setting.schema, setting.rest.rows(rows), name, setting.how)
    is_one = isinstance(column, (LevelColumn, Banded))
    by_site = chance[:, None, :] if is_one else np.stack([1.0 - chance, chance], axis=-1)
    parts = [_label_rivals(setting, name, code[:, site], rows, by_site[:, site]) for site in range(code.shape[1])]
    true = code[rows].T
    kept = true >= 0
    rivals = {
        rival: np.concatenate([part[rival][keep] for part, keep in zip(parts, kept, strict=True)]) for rival in parts[0]
    }
    code = np.concatenate([each[keep] for each, keep in zip(true, kept, strict=True)])
    weight = np.concatenate([setting.weight[rows][keep] for keep in kept])
    return _tested_labels(name, column.kind, "label" if is_one else "option", code, rivals, weight)


def _test_utilities(setting: Setting, name: str) -> list[Tested]:
    """The favourite of choices and rankings; of rankings also every pair of ranked items."""
    column, rows, own = setting.schema[name], np.flatnonzero(setting.hidden[name]), setting.schema.slices[name]
    chance, mean = predict.largest_utility(
        setting.params,
        setting.rest.rows(rows),
        answers.target(setting.schema, name),
        np.arange(own.start, own.stop),
        setting.how,
    )
    code = favourite(setting.blocks[name])
    is_choice, tests = isinstance(column, Categorical), []
    kept = code[rows] >= 0
    if kept.any():
        rivals = _label_rivals(setting, name, code, rows, chance)
        rivals = {rival: values[kept] for rival, values in rivals.items()}
        about, answer = (name, "label") if is_choice else (f"{name}: favourite", "favourite")
        weight = setting.weight[rows][kept]
        tests.append(_tested_labels(about, column.kind, answer, code[rows][kept], rivals, weight))
    return tests if is_choice else [*tests, _tested_pairs(setting, name, rows, mean)]


def _label_rivals(setting: Setting, name: str, code: np.ndarray, rows: np.ndarray, chance: np.ndarray) -> ByRival:
    """P(label) of the hidden rows by each rival, [cell, label]; `code` are all answers, hidden ones among them."""
    n_labels = chance.shape[1]
    shown = np.where(setting.hidden[name], -1, code)
    usual = baseline.shares(shown, n_labels, setting.weight)
    found = {"": chance, "_marginal": np.tile(usual, (len(rows), 1))}
    inputs = _inputs(setting, name)
    if inputs is not None:
        found["_logistic"] = baseline.logistic(inputs, shown, rows, n_labels, setting.rng, setting.weight)
    return found


def _tested_labels(about: str, kind: str, answer: str, code: np.ndarray, rivals: ByRival, weight: np.ndarray) -> Tested:
    cells = np.arange(len(code))
    right = {rival: chance.argmax(axis=1) == code for rival, chance in rivals.items()}
    scores = {rival: np.log(np.maximum(chance[cells, code], LEAST_CHANCE)) for rival, chance in rivals.items()}
    found = {f"accuracy{rival}": float(np.average(hits, weights=weight)) for rival, hits in right.items()}
    for rival, chance in rivals.items():
        found[f"calibration_error{rival}"] = calibration_of_labels(chance.max(axis=1), right[rival], weight)
    return Tested(
        _record(about, kind, answer, len(code), scores, found, weight),
        scores,
        {rival: float(hits @ weight) for rival, hits in right.items()},
        weight,
    )


def calibration_of_labels(confidence: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Expected calibration error: Σ over ten bins of confidence of share · |mean confidence − share right|."""
    weight = np.ones(len(right)) if weight is None else weight
    which = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(which, weight * (confidence - right), N_BINS)
    return float(np.abs(gaps).sum() / weight.sum())


def _tested_pairs(setting: Setting, name: str, rows: np.ndarray, mean: np.ndarray) -> Tested:
    """Which of two ranked items is above: by mean utility, mean standing, and standing by ridge regression."""
    block = setting.blocks[name]
    standing = baseline.standing(block)
    shown = block.takes_part.any(axis=1) & ~setting.hidden[name]
    ranked = ((block.tier >= 0) & shown[:, None]) * setting.weight[:, None]
    usual = (standing * ranked).sum(axis=0) / np.where(ranked.any(axis=0), ranked.sum(axis=0), 1.0)
    rivals = {"": mean, "_marginal": np.tile(usual, (len(rows), 1))}
    inputs = _inputs(setting, name)
    if inputs is not None:
        filled = np.where(block.tier >= 0, standing, usual)
        rivals["_logistic"] = baseline.ridge(inputs, filled, shown, rows, setting.rng, setting.weight).mean
    right, n_pairs, total = dict.fromkeys(rivals, 0.0), 0, 0.0
    for place, tier in enumerate(block.tier[rows]):
        better, worse = np.nonzero((tier[:, None] > tier[None, :]) & (tier[None, :] >= 0))
        weight = setting.weight[rows[place]]
        n_pairs, total = n_pairs + len(better), total + weight * len(better)
        for rival, utility in rivals.items():
            gap = utility[place, better] - utility[place, worse]
            right[rival] += float(weight * ((gap > 0).sum() + 0.5 * (gap == 0).sum()))
    found = {f"accuracy{rival}": hits / total for rival, hits in right.items()}
    nothing = np.zeros(0)
    return Tested(
        _record(f"{name}: pairs", setting.schema[name].kind, "pair", n_pairs, {}, found, nothing), {}, {}, nothing
    )


# ---- numbers


class Numbers(NamedTuple):
    """Predictions of numbers: medians and means in the user's units, log densities and P(z ≤ truth)."""

    median: np.ndarray
    mean: np.ndarray
    log_density: np.ndarray  # in standard units
    below: np.ndarray


def _test_numbers(setting: Setting, name: str, column: MeasuredColumn) -> Tested:
    rows, block = np.flatnonzero(setting.hidden[name]), setting.blocks[name]
    z = block.lower[:, 0]
    shown = block.point[:, 0] & ~setting.hidden[name]
    weight = setting.weight[rows]
    mean, deviation = baseline.spread(z[shown], setting.weight[shown])
    usual = baseline.Normal(np.full(len(rows), mean), np.full(len(rows), deviation))
    found = {
        "": _by_model(setting, name, column, rows, z[rows]),
        "_marginal": _by_normal(column, usual, z[rows]),
    }
    inputs = _inputs(setting, name)
    if inputs is not None:
        known = np.where(shown, z, 0.0)
        guessed = baseline.ridge(inputs, known, shown, rows, setting.rng, setting.weight)
        found["_logistic"] = _by_normal(column, guessed, z[rows])
    truth = column.to_user(z[rows])
    values = {}
    for rival, guess in found.items():
        values[f"mae{rival}"] = float(np.average(np.abs(guess.median - truth), weights=weight))
        values[f"rmse{rival}"] = float(np.sqrt(np.average((guess.mean - truth) ** 2, weights=weight)))
        values[f"calibration_error{rival}"] = calibration_of_numbers(guess.below, weight)
    scores = {rival: guess.log_density + block.log_jacobian[rows] for rival, guess in found.items()}
    return Tested(_record(name, column.kind, "number", len(rows), scores, values, weight), scores, {}, weight)


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


# ---- records


def _record(
    about: str, kind: str, answer: str, n: int, scores: ByRival, found: Mapping[str, float], weight: np.ndarray
) -> dict[str, Any]:
    """One line of the result: every measure by every rival, None where there is none."""
    means = {f"log_score{rival}": float(np.average(each, weights=weight)) for rival, each in scores.items()}
    found = {**found, **means}
    measures = {f"{measure}{rival}": found.get(f"{measure}{rival}") for measure in MEASURES for rival in RIVALS}
    return {"column": about, "kind": kind, "answer": answer, "n": n, **measures}


def _overall(tests: list[Tested], hide: float) -> dict[str, Any]:
    """Means over all hidden answers; pairs of a ranking, which are no answers of their own, stay out."""
    cells = [test for test in tests if test.scores]
    labels = [test for test in cells if test.right]
    n_labels = sum(test.record["n"] for test in labels)
    total = sum(float(test.weight.sum()) for test in labels)
    overall: dict[str, Any] = {
        "n_cells": sum(test.record["n"] for test in cells),
        "n_labels": n_labels,
        "n_numbers": sum(test.record["n"] for test in cells) - n_labels,
        "share": float(hide),
    }
    for rival in RIVALS:
        right = [test.right[rival] for test in labels if rival in test.right]
        complete = bool(labels) and len(right) == len(labels)
        overall[f"accuracy{rival}"] = float(sum(right) / total) if complete else None
    for rival in RIVALS:
        scores = [test.scores[rival] for test in cells if rival in test.scores]
        whole = bool(cells) and len(scores) == len(cells)
        overall[f"log_score{rival}"] = _mean_and_error(scores, [test.weight for test in cells])[0] if whole else None
    for rival in RIVALS[1:]:
        known = [test for test in cells if rival in test.scores]
        gains = [test.scores[""] - test.scores[rival] for test in known]
        overall[f"gain{rival}"], overall[f"gain{rival}_se"] = _mean_and_error(gains, [test.weight for test in known])
    return overall


def _mean_and_error(values: list[np.ndarray], weights: list[np.ndarray]) -> tuple[float | None, float | None]:
    """Weighted mean of all values, and its standard error; none where there is no value."""
    if not values:
        return None, None
    value, weight = np.concatenate(values), np.concatenate(weights)
    weight = weight / weight.sum()
    mean = float(value @ weight)
    return mean, float(np.sqrt((weight**2) @ (value - mean) ** 2))
