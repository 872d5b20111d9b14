"""§6 What needs no Boltzmann machine: shares, and regressions of one column on all others.

The yardsticks of `evaluate`. Other columns become features: labels one by one, numbers in standard units, orders as
places, each with an indicator where it says nothing. Rows whose answer is hidden are never among those fitted.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from thurbo.columns import Block, Column, LevelColumn, MeasuredColumn, UtilityColumn

MOST_ROWS = 5000
MOST_NUMBERS = 2_000_000  # rows times features of one regression: what keeps wide tables affordable
MOST_FEATURES, N_DIRECTIONS = 300, 64  # beyond so many features their strongest directions take their place
FEWEST_ROWS = 500
PENALTIES = (0.01, 0.1, 1.0)  # C of logistic regression; one is chosen on a quarter of the rows
ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of ridge regression; one is chosen by leaving out each row
ITERATIONS = 60
LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


class Normal(NamedTuple):
    """A predicted normal distribution in standard units, one for each row."""

    mean: np.ndarray
    deviation: np.ndarray


def features(column: Column, block: Block, shown: np.ndarray) -> np.ndarray:
    """What a column says where it is `shown`, as numbers [row, feature]; the last one is 1 where it says nothing."""
    if isinstance(column, MeasuredColumn):
        ends = np.stack([block.lower[:, 0], block.upper[:, 0]])
        finite = np.isfinite(ends)
        middle = np.where(finite, ends, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
        says, values = finite.any(axis=0), middle[:, None]
    elif isinstance(column, LevelColumn):
        levels = np.arange(len(column.labels))
        low, high = block.code[:, :1], block.code_high[:, :1]
        values = ((low <= levels) & (levels <= high)) / np.maximum(high - low + 1, 1)
        says = low[:, 0] >= 0
    elif isinstance(column, UtilityColumn):
        values, says = standing(block), block.takes_part.any(axis=1)
    else:  # options, each ticked, not ticked or open
        values, says = np.where(block.code < 0, 0.5, block.code) - 0.5, (block.code >= 0).any(axis=1)
    says = says & shown
    return np.concatenate([np.where(says[:, None], values, 0.0), ~says[:, None]], axis=1).astype(np.float64)


def standing(block: Block) -> np.ndarray:
    """Where each label stands in its row's order, from −1 (last) to 1 (first), 0 where it is not compared."""
    top = np.maximum(block.tier.max(axis=1, keepdims=True), 1)
    return np.where(block.tier >= 0, 2.0 * block.tier / top - 1.0, 0.0)


def shares(code: np.ndarray, n_labels: int, weight: np.ndarray | None = None) -> np.ndarray:
    """Share of each label among the answers (code ≥ 0), half an answer added so that none is impossible: [label]."""
    known = code >= 0
    count = np.bincount(code[known], None if weight is None else _scaled(weight[known]), minlength=n_labels) + 0.5
    return count / count.sum()


def _scaled(weight: np.ndarray) -> np.ndarray:
    """Weights of mean one over the rows that count, so that half an answer is half of an average one."""
    return weight / weight[weight > 0].mean() if weight.any() else np.ones(len(weight))


def spread(z: np.ndarray, weight: np.ndarray | None = None) -> tuple[float, float]:
    """Mean and deviation of shown numbers in standard units; of fewer than two, those of the unit."""
    weight = np.ones(z.shape) if weight is None else _scaled(weight)
    if (weight > 0).sum() < 2:
        return 0.0, 1.0
    mean = float(np.average(z, weights=weight))
    return mean, max(float(np.sqrt(np.average((z - mean) ** 2, weights=weight))), 1e-3)


def normal(lower: np.ndarray, upper: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Mean and deviation by maximum likelihood of shown numbers (equal ends) and intervals, in standard units.

    A slight pull towards the standard normal keeps both finite whatever is shown.
    """
    point, weight = lower == upper, _scaled(weight)
    mean, deviation = spread(middles(lower, upper), weight)
    if point.all() or (weight > 0).sum() < 2:
        return mean, deviation
    from scipy.optimize import minimize

    def loss(at: np.ndarray) -> float:
        size = max(float(np.exp(at[1])), 1e-3)
        low, high = (lower - at[0]) / size, (upper - at[0]) / size
        found = np.where(
            point, -0.5 * np.where(point, low, 0.0) ** 2 - np.log(size) - LOG_ROOT_2PI, log_between(low, high)
        )
        return float(-np.average(found, weights=weight) + 1e-3 * (at @ at) / 2)

    found = minimize(loss, [mean, np.log(deviation)], method="Nelder-Mead").x
    return float(found[0]), max(float(np.exp(found[1])), 1e-3)


def middles(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Middles of intervals, or the only end that is known."""
    return (np.where(np.isfinite(lower), lower, upper) + np.where(np.isfinite(upper), upper, lower)) / 2


def log_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """log P(low ≤ x ≤ high) of a standard normal, exact in both tails; −∞ where the ends are equal."""
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_ndtr(high) + np.log1p(-np.exp(np.minimum(log_ndtr(low) - log_ndtr(high), 0.0)))


def some(rows: np.ndarray, n_features: int, rng: np.random.RandomState) -> np.ndarray:
    """At most so many of the rows that a regression on them takes little time."""
    most = int(np.clip(MOST_NUMBERS // max(n_features, 1), FEWEST_ROWS, MOST_ROWS))
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def narrowed(inputs: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """The inputs, or where they are very many their strongest directions: [row, feature]."""
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

    A little of the shares is mixed in, as if each label had been answered half a time more.
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
            chance = _fit_logistic(inputs[inner], code[inner], _scaled(weight[inner]), candidate, inputs[outer], base)
            missed = -np.log(chance[np.arange(len(outer)), code[outer]])
            losses.append(np.average(missed, weights=_scaled(weight[outer])))
        penalty = PENALTIES[int(np.argmin(losses))]
    return _fit_logistic(inputs[rows], code[rows], _scaled(weight[rows]), penalty, inputs[asked], base)


def _fit_logistic(
    inputs: np.ndarray, code: np.ndarray, weight: np.ndarray, penalty: float, asked: np.ndarray, base: np.ndarray
) -> np.ndarray:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings(), _one_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few steps are the point: it is a yardstick
        model = LogisticRegression(C=penalty, max_iter=ITERATIONS, tol=1e-3).fit(inputs, code, sample_weight=weight)
    chance = np.zeros((len(asked), len(base)))
    chance[:, model.classes_] = model.predict_proba(asked)
    extra = 0.5 * len(base) / (len(code) + 0.5 * len(base))
    return (1.0 - extra) * chance + extra * base


def _one_thread() -> Any:
    """Problems this small are ten times slower where threads wait for one another."""
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

    The deviation is that of residuals of rows left out of the fit, one at a time.
    """
    from sklearn.linear_model import RidgeCV

    weight, inputs = np.ones(len(known)) if weight is None else weight, narrowed(inputs, rng)
    rows = some(np.flatnonzero(known & (weight > 0)), inputs.shape[1], rng)
    if len(rows) < 3:
        mean, deviation = spread(targets[rows])
        shape = (len(asked), *targets.shape[1:])
        return Normal(np.full(shape, mean), np.full(shape, deviation))
    with _one_thread():
        model = RidgeCV(ALPHAS, store_cv_results=True).fit(inputs[rows], targets[rows], _scaled(weight[rows]))
    # The squared residuals come with the weights in them.
    squared = model.cv_results_[..., ALPHAS.index(model.alpha_)]
    deviation = np.maximum(np.sqrt(squared.mean(axis=0)), 1e-3)
    mean = model.predict(inputs[asked])
    return Normal(mean, np.broadcast_to(deviation, mean.shape))
