"""§6 The regression baselines of `evaluate`: logistic and ridge regression of one column on all others.

The features are the other columns: indicators of labels, numbers in standard units, positions in orders, each with an
indicator for missing cells. Rows with a masked answer are not used for fitting.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from thurbo.columns import Block, Column
from thurbo.columns.forms.marginals import Normal, scaled, shares, spread

MOST_ROWS = 5000
MOST_NUMBERS = 2_000_000  # rows times features of one regression: limits the runtime for wide tables
MOST_FEATURES, N_DIRECTIONS = 300, 64  # if there are more features, use their main directions
FEWEST_ROWS = 500
PENALTIES = (0.01, 0.1, 1.0)  # C of logistic regression; one is chosen on a quarter of the rows
ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of ridge regression; one is chosen by leave-one-out
ITERATIONS = 60


def features(column: Column, block: Block, shown: np.ndarray) -> np.ndarray:
    """A column as features [row, feature] where it is `shown`; the last feature is 1 if the cell is missing."""
    values, says = column.form.features(column, block, shown)
    return np.concatenate([np.where(says[:, None], values, 0.0), ~says[:, None]], axis=1).astype(np.float64)


def some(rows: np.ndarray, n_features: int, rng: np.random.RandomState) -> np.ndarray:
    """A sample of the rows, so that the regression is fast."""
    most = int(np.clip(MOST_NUMBERS // max(n_features, 1), FEWEST_ROWS, MOST_ROWS))
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def narrowed(inputs: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """The features, or their main directions if there are very many: [row, feature]."""
    if inputs.shape[1] <= MOST_FEATURES:
        return inputs
    from sklearn.utils.extmath import randomized_svd

    few = np.sort(rng.choice(len(inputs), min(len(inputs), MOST_ROWS), replace=False))
    middle, size = inputs[few].mean(axis=0), inputs[few].std(axis=0)
    unit = ((inputs - middle) / np.where(size > 1e-9, size, 1.0)).astype(np.float32)
    with _one_thread():
        directions = randomized_svd(unit[few], N_DIRECTIONS, n_iter=2, random_state=rng)[2]
    found = unit @ directions.T
    return found / np.maximum(found[few].std(axis=0), 1e-9)


def logistic(
    inputs: np.ndarray,
    code: np.ndarray,
    asked: np.ndarray,
    n_labels: int,
    rng: np.random.RandomState,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """P(label) of the rows `asked`, [asked, label], by multinomial logistic regression on the rows with code ≥ 0.

    A small share of the marginal frequencies is mixed in, as if each label had half an answer more.
    """
    weight, inputs = np.ones(len(code)) if weight is None else weight, narrowed(inputs, rng)
    rows = some(np.flatnonzero((code >= 0) & (weight > 0)), inputs.shape[1], rng)
    base = shares(code[rows], n_labels, weight[rows])
    found = np.tile(base, (len(asked), 1))
    if len(np.unique(code[rows])) < 2:
        return found
    order = rng.permutation(len(rows))
    inner, outer = rows[order[len(rows) // 4 :]], rows[order[: len(rows) // 4]]
    penalty = PENALTIES[1]
    if len(outer) >= 10 and len(np.unique(code[inner])) > 1:
        losses = []
        for candidate in PENALTIES:
            chance = _fit_logistic(inputs[inner], code[inner], scaled(weight[inner]), candidate, inputs[outer], base)
            missed = -np.log(chance[np.arange(len(outer)), code[outer]])
            losses.append(np.average(missed, weights=scaled(weight[outer])))
        penalty = PENALTIES[int(np.argmin(losses))]
    return _fit_logistic(inputs[rows], code[rows], scaled(weight[rows]), penalty, inputs[asked], base)


def _fit_logistic(
    inputs: np.ndarray, code: np.ndarray, weight: np.ndarray, penalty: float, asked: np.ndarray, base: np.ndarray
) -> np.ndarray:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings(), _one_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline needs few steps
        model = LogisticRegression(C=penalty, max_iter=ITERATIONS, tol=1e-3).fit(inputs, code, sample_weight=weight)
    chance = np.zeros((len(asked), len(base)))
    chance[:, model.classes_] = model.predict_proba(asked)
    extra = 0.5 * len(base) / (len(code) + 0.5 * len(base))
    return (1.0 - extra) * chance + extra * base


def _one_thread() -> Any:
    """Use one thread: small problems are ten times slower with several."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    return threadpool_limits(1)


def ridge(
    inputs: np.ndarray,
    targets: np.ndarray,
    known: np.ndarray,
    asked: np.ndarray,
    rng: np.random.RandomState,
    weight: np.ndarray | None = None,
) -> Normal:
    """Targets [row] or [row, target] of the rows `asked` by ridge regression on the rows that are `known`.

    The standard deviation is that of leave-one-out residuals.
    """
    from sklearn.linear_model import RidgeCV

    weight, inputs = np.ones(len(known)) if weight is None else weight, narrowed(inputs, rng)
    rows = some(np.flatnonzero(known & (weight > 0)), inputs.shape[1], rng)
    if len(rows) < 3:
        mean, deviation = spread(targets[rows])
        shape = (len(asked), *targets.shape[1:])
        return Normal(np.full(shape, mean), np.full(shape, deviation))
    with _one_thread():
        model = RidgeCV(ALPHAS, store_cv_results=True).fit(inputs[rows], targets[rows], scaled(weight[rows]))
    # These squared residuals are already multiplied by the weights.
    squared = model.cv_results_[..., ALPHAS.index(model.alpha_)]
    deviation = np.maximum(np.sqrt(squared.mean(axis=0)), 1e-3)
    mean = model.predict(inputs[asked])
    return Normal(mean, np.broadcast_to(deviation, mean.shape))
