"""§6 Can it be believed? Some answers are hidden, predicted from the rest of their rows, and compared with the truth.

Whole answers are hidden, as if nobody had asked: a ranking goes with all its items. Two yardsticks need no Boltzmann
machine (`baseline`): the shares of the answers still shown, and a regression of each column on all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.columns import Banded, Block, Categorical, Column, LevelColumn, MeasuredColumn, UtilityColumn
from thurbo.errors import ThurboError
from thurbo.evidence import Evidence
from thurbo.queries import answers, predict
from thurbo.queries.evaluate import baseline
from thurbo.queries.evaluate.evaluation import Evaluation
from thurbo.queries.evaluate.numbers import calibration_of_numbers, tested_numbers
from thurbo.queries.evaluate.tested import LEAST_CHANCE, N_BINS, ByRival, Setting, Tested, inputs, overall, record
from thurbo.rbm import Params
from thurbo.schema import Schema

__all__ = ["LEAST_CHANCE", "N_BINS", "Setting", "calibration_of_labels", "calibration_of_numbers", "choose", "evaluate"]


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
    shared = predict.beliefs(params, host, how)
    setting = Setting(params, schema, blocks, host, hidden, how, rng, features, weight, shared)
    tests = [test for name in schema.modelled if hidden[name].any() for test in _test(setting, name)]
    untested = tuple(name for name in schema.modelled if not hidden[name].any())
    return Evaluation([test.record for test in tests], overall(tests, hide), untested)


def answered(schema: Schema, blocks: Mapping[str, Block], name: str) -> np.ndarray:
    """Rows that answer a question so that a prediction can be scored: [row]. Sets and ranges of levels cannot.

    Of a number every interval can, by its probability; of bands only one of them, or a number inside it.
    """
    block = blocks[name]
    if isinstance(schema[name], MeasuredColumn) and not isinstance(schema[name], Banded):
        return block.observed[:, 0]
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
        return tested_numbers(setting, name, column)
    if isinstance(column, UtilityColumn):
        return _test_utilities(setting, name)
    return [_test_levels(setting, name)]


# ---- labels


def _test_levels(setting: Setting, name: str) -> Tested:
    """Levels and bands, and options, each of which is an answer."""
    column, rows = setting.schema[name], np.flatnonzero(setting.hidden[name])
    code = _codes(column, setting.blocks[name])
    rest, known = setting.rest.rows(rows), setting.known(rows)
    chance = answers.probabilities(setting.params, setting.schema, rest, name, setting.how, known)
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
    return _tested_labels(name, column, "label" if is_one else "option", code, rivals, weight)


def _test_utilities(setting: Setting, name: str) -> list[Tested]:
    """The favourite of choices and rankings; of rankings also every pair of ranked items."""
    column, rows, own = setting.schema[name], np.flatnonzero(setting.hidden[name]), setting.schema.slices[name]
    chance, mean = predict.largest_utility(
        setting.params,
        setting.rest.rows(rows),
        answers.target(setting.schema, name),
        np.arange(own.start, own.stop),
        setting.how,
        setting.known(rows),
    )
    code = favourite(setting.blocks[name])
    is_choice, tests = isinstance(column, Categorical), []
    kept = code[rows] >= 0
    if kept.any():
        rivals = _label_rivals(setting, name, code, rows, chance)
        rivals = {rival: values[kept] for rival, values in rivals.items()}
        about, answer = (name, "label") if is_choice else (f"{name}: favourite", "favourite")
        weight = setting.weight[rows][kept]
        tests.append(_tested_labels(about, column, answer, code[rows][kept], rivals, weight))
    return tests if is_choice else [*tests, _tested_pairs(setting, name, rows, mean)]


def _label_rivals(setting: Setting, name: str, code: np.ndarray, rows: np.ndarray, chance: np.ndarray) -> ByRival:
    """P(label) of the hidden rows by each rival, [cell, label]; `code` are all answers, hidden ones among them."""
    n_labels = chance.shape[1]
    shown = np.where(setting.hidden[name], -1, code)
    usual = baseline.shares(shown, n_labels, setting.weight)
    found = {"": chance, "_marginal": np.tile(usual, (len(rows), 1))}
    others = inputs(setting, name)
    if others is not None:
        found["_logistic"] = baseline.logistic(others, shown, rows, n_labels, setting.rng, setting.weight)
    return found


def _tested_labels(
    about: str, column: Column, answer: str, code: np.ndarray, rivals: ByRival, weight: np.ndarray
) -> Tested:
    cells = np.arange(len(code))
    right = {rival: chance.argmax(axis=1) == code for rival, chance in rivals.items()}
    scores = {rival: np.log(np.maximum(chance[cells, code], LEAST_CHANCE)) for rival, chance in rivals.items()}
    found = {f"accuracy{rival}": float(np.average(hits, weights=weight)) for rival, hits in right.items()}
    for rival, chance in rivals.items():
        found[f"calibration_error{rival}"] = calibration_of_labels(chance.max(axis=1), right[rival], weight)
        if column.has_order:
            found[f"mae{rival}"] = float(np.average(np.abs(answers.median_level(chance) - code), weights=weight))
    return Tested(
        record(about, column.kind, answer, len(code), scores, found, weight),
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
    others = inputs(setting, name)
    if others is not None:
        filled = np.where(block.tier >= 0, standing, usual)
        rivals["_logistic"] = baseline.ridge(others, filled, shown, rows, setting.rng, setting.weight).mean
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
        record(f"{name}: pairs", setting.schema[name].kind, "pair", n_pairs, {}, found, nothing), {}, {}, nothing
    )
