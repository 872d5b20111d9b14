"""§6 The baselines of `evaluate` that predict one column from all others: linear regressions and gradient boosting.

The features are the other columns: indicators of labels, numbers in standard units, positions in orders, each with an
indicator for missing cells. Rows with a masked answer are not used for fitting. Settings are chosen on a quarter of the
rows, which is drawn with a fixed seed, so that the same cells always give the same predictions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thurbo._concurrency import one_thread
from thurbo.table.columns import Block, Column
from thurbo.table.columns.forms.form import Normal, scaled, shares, spread

Array = np.ndarray
Weight = np.ndarray | None
Random = np.random.RandomState


class Limits(NamedTuple):
    """Sizes of one regression: more rows are sampled, more features are replaced by their main directions."""

    rows: int
    numbers: int  # rows times features
    features: int


QUICK = Limits(5000, 2_000_000, 300)
FULL = Limits(20_000, 10_000_000, 1000)  # for comparisons whose models are fitted to the same cells
N_DIRECTIONS = 64
FEWEST_ROWS = 500
SPLIT_SEED = 0
PENALTIES = (0.01, 0.1, 1.0)  # C of logistic regression; one is chosen on a quarter of the rows
ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of ridge regression; one is chosen by leave-one-out
ITERATIONS = 60
ROUNDS = (20, 40, 60, 80, 100)  # of boosting; one is chosen on a quarter of the rows
BOOSTING = {"max_leaf_nodes": 8, "learning_rate": 0.08, "early_stopping": False, "random_state": SPLIT_SEED}
FEWEST_BOOSTED = 40  # known rows; with fewer, boosting gives the marginal frequencies


def features(column: Column, block: Block, shown: Array) -> Array:
    """A column as features [row, feature] where it is `shown`; the last feature is 1 if the cell is missing."""
    values, says = column.form.features(block, shown)
    return np.concatenate([np.where(says[:, None], values, 0.0), ~says[:, None]], axis=1).astype(np.float64)


def some(rows: Array, n_features: int, rng: Random, limits: Limits = QUICK) -> Array:
    """A sample of the rows, so that the regression is fast."""
    most = int(np.clip(limits.numbers // max(n_features, 1), FEWEST_ROWS, limits.rows))
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def narrowed(inputs: Array, rng: Random, limits: Limits = QUICK) -> Array:
    """The features, or their main directions if there are very many: [row, feature]."""
    if inputs.shape[1] <= limits.features:
        return inputs
    from sklearn.utils.extmath import randomized_svd

    few = np.sort(rng.choice(len(inputs), min(len(inputs), limits.rows), replace=False))
    middle, size = inputs[few].mean(axis=0), inputs[few].std(axis=0)
    unit = ((inputs - middle) / np.where(size > 1e-9, size, 1.0)).astype(np.float32)
    with one_thread():
        directions = randomized_svd(unit[few], N_DIRECTIONS, n_iter=2, random_state=rng)[2]
    found = unit @ directions.T
    return found / np.maximum(found[few].std(axis=0), 1e-9)


def _ready(
    inputs: Array, known: Array, rng: Random, weight: Weight, limits: Limits
) -> tuple[Array, Array, Array, Array, Array]:
    """The features; rows with a known answer to fit to, three quarters of them to fit candidates, the rest; weights."""
    weight, inputs = np.ones(len(known)) if weight is None else weight, narrowed(inputs, rng, limits)
    rows = some(np.flatnonzero(known & (weight > 0)), inputs.shape[1], rng, limits)
    order, n_outer = rng.permutation(len(rows)), len(rows) // 4
    return inputs, rows, rows[order[n_outer:]], rows[order[:n_outer]], weight


def logistic(
    inputs: Array, code: Array, asked: Array, n_labels: int, rng: Random, weight: Weight = None, limits: Limits = QUICK
) -> Array:
    """P(label) of the rows `asked`, [asked, label], by multinomial logistic regression on the rows with code ≥ 0.

    A small share of the marginal frequencies is mixed in, as if each label had half an answer more.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    inputs, rows, inner, outer, weight = _ready(inputs, code >= 0, rng, weight, limits)
    base = shares(code[rows], n_labels, weight[rows])
    if len(np.unique(code[rows])) < 2:
        return np.tile(base, (len(asked), 1))

    def predicted(penalty: float, known: Array, asked: Array) -> Array:
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline needs few steps
            model = LogisticRegression(C=penalty, max_iter=ITERATIONS, tol=1e-3)
            model.fit(inputs[known], code[known], sample_weight=scaled(weight[known]))
        return _smoothed(model.predict_proba(inputs[asked]), model.classes_, len(known), base)

    penalty = PENALTIES[1]
    if len(outer) >= 10 and len(np.unique(code[inner])) > 1:
        penalty = min(PENALTIES, key=lambda each: _log_loss(predicted(each, inner, outer), code[outer], weight[outer]))
    return predicted(penalty, rows, asked)


def _log_loss(chance: Array, code: Array, weight: Array) -> float:
    return -float(np.average(np.log(chance[np.arange(len(code)), code]), weights=scaled(weight)))


def _smoothed(found: Array, classes: Array, n_rows: int, base: Array) -> Array:
    """Predicted probabilities of the observed classes with a small share of the marginal frequencies mixed in."""
    chance = np.zeros((len(found), len(base)))
    chance[:, classes] = found
    extra = 0.5 * len(base) / (n_rows + 0.5 * len(base))
    return (1.0 - extra) * chance + extra * base


def ridge(
    inputs: Array, target: Array, known: Array, asked: Array, rng: Random, weight: Weight = None, limits: Limits = QUICK
) -> Normal:
    """The target [row] or [row, target] of the rows `asked` by ridge regression on the rows that are `known`.

    The standard deviation is that of leave-one-out residuals.
    """
    from sklearn.linear_model import RidgeCV

    inputs, rows, _, _, weight = _ready(inputs, known, rng, weight, limits)
    if len(rows) < 3:
        mean, deviation = spread(target[rows])
        shape = (len(asked), *target.shape[1:])
        return Normal(np.full(shape, mean), np.full(shape, deviation))
    with one_thread():
        model = RidgeCV(ALPHAS, store_cv_results=True).fit(inputs[rows], target[rows], scaled(weight[rows]))
    # These squared residuals are already multiplied by the weights.
    squared = model.cv_results_[..., ALPHAS.index(model.alpha_)]
    deviation = np.maximum(np.sqrt(squared.mean(axis=0)), 1e-3)
    mean = model.predict(inputs[asked])
    return Normal(mean, np.broadcast_to(deviation, mean.shape))


def boosting(
    inputs: Array, code: Array, asked: Array, n_labels: int, rng: Random, weight: Weight = None, limits: Limits = QUICK
) -> Array:
    """P(label) of the rows `asked`, [asked, label], by gradient boosting of trees with 8 leaves; see `logistic`."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    inputs, rows, inner, outer, weight = _ready(inputs, code >= 0, rng, weight, limits)
    base = shares(code[rows], n_labels, weight[rows])
    if len(rows) < FEWEST_BOOSTED or len(np.unique(code[rows])) < 2:
        return np.tile(base, (len(asked), 1))
    fitted = partial(_boosted, HistGradientBoostingClassifier, inputs, code, weight)
    with one_thread():
        n_rounds = ROUNDS[0]
        if len(np.unique(code[inner])) > 1:
            model = fitted(inner, ROUNDS[-1])
            stages = _at_rounds(model.staged_predict_proba(inputs[outer]))
            chances = (_smoothed(stage, model.classes_, len(inner), base) for stage in stages)
            n_rounds = ROUNDS[int(np.argmin([_log_loss(each, code[outer], weight[outer]) for each in chances]))]
        model = fitted(rows, n_rounds)
        return _smoothed(model.predict_proba(inputs[asked]), model.classes_, len(rows), base)


def _boosted(kind: Any, inputs: Array, target: Array, weight: Array, rows: Array, n_rounds: int) -> Any:
    return kind(max_iter=n_rounds, **BOOSTING).fit(inputs[rows], target[rows], sample_weight=scaled(weight[rows]))


def _at_rounds(stages: Iterator[Array]) -> Iterator[Array]:
    """The predictions after so many rounds as are candidates."""
    return (stage for number, stage in enumerate(stages, 1) if number in ROUNDS)


def boosted_numbers(
    inputs: Array, target: Array, known: Array, asked: Array, rng: Random, weight: Weight = None, limits: Limits = QUICK
) -> Normal:
    """Numbers [row] of the rows `asked` by gradient boosting; the standard deviation is that of the quarter kept."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    inputs, rows, inner, outer, weight = _ready(inputs, known, rng, weight, limits)
    if len(rows) < FEWEST_BOOSTED:
        mean, deviation = spread(target[rows], weight[rows])
        return Normal(np.full(len(asked), mean), np.full(len(asked), deviation))
    fitted = partial(_boosted, HistGradientBoostingRegressor, inputs, target, weight)
    with one_thread():
        stages = _at_rounds(fitted(inner, ROUNDS[-1]).staged_predict(inputs[outer]))
        losses = [np.average((stage - target[outer]) ** 2, weights=scaled(weight[outer])) for stage in stages]
        mean = fitted(rows, ROUNDS[int(np.argmin(losses))]).predict(inputs[asked])
    return Normal(mean, np.full(len(asked), max(float(np.sqrt(min(losses))), 1e-3)))
