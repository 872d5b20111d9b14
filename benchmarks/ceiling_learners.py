"""Methods that predict one column of a survey from all others, for `benchmarks.ceiling`.

Each has a form for labels and one for numbers. Where there are several settings for labels, four-fold cross-validation
chooses one. A number has a normal distribution with the standard deviation of cross-validated residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from thurbo.predict import baseline
from thurbo.table.columns.forms.form import Normal, shares, spread

N_FOLDS = 4
FEWEST_ROWS, FEWEST_PER_LABEL = 40, 10  # with fewer shown answers, learners give the marginal frequencies
FEWEST_OF_LABEL = 20  # settings are not chosen unless each label has more answers
LEAST_CHANCE = 1e-4  # of a candidate, when settings are chosen


class Learner(NamedTuple):
    """A method for labels, with the settings from which one is chosen, and its form for numbers."""

    classifiers: Sequence[Any]
    regressor: Any


def learners(n_trees: int) -> dict[str, Learner]:
    """The methods beside those of `benchmarks.defaults`."""
    forest: dict[str, Any] = {"n_estimators": n_trees, "random_state": 0, "n_jobs": -1}
    slow = {"max_leaf_nodes": 4, "learning_rate": 0.03, "early_stopping": False, "random_state": 0}
    layer = {"hidden_layer_sizes": (24,), "alpha": 3.0, "early_stopping": True, "random_state": 0}

    def kernel(gamma: float, last: Any) -> Any:
        return make_pipeline(StandardScaler(), Nystroem(gamma=gamma, n_components=200, random_state=0), last)

    def boosted(n_rounds: int) -> Any:
        return HistGradientBoostingClassifier(max_iter=n_rounds, min_samples_leaf=20, l2_regularization=1.0, **slow)

    return {
        "random_forest": Learner(
            [
                RandomForestClassifier(min_samples_leaf=leaf, max_features=share, **forest)
                for leaf, share in ((5, "sqrt"), (15, 0.3))
            ],
            RandomForestRegressor(min_samples_leaf=8, max_features=0.3, **forest),
        ),
        "extra_trees": Learner(
            [ExtraTreesClassifier(min_samples_leaf=leaf, max_features=0.3, **forest) for leaf in (5, 12)],
            ExtraTreesRegressor(min_samples_leaf=8, max_features=0.3, **forest),
        ),
        "slow_boosting": Learner(
            [boosted(n_rounds) for n_rounds in (60, 150, 300)], HistGradientBoostingRegressor(max_iter=150, **slow)
        ),
        "fine_logistic": Learner(
            [LogisticRegression(C=penalty, max_iter=200) for penalty in (0.003, 0.01, 0.03, 0.1, 0.3)],
            RidgeCV((1, 10, 100, 1000)),
        ),
        "kernel_logistic": Learner(
            [kernel(gamma, LogisticRegression(C=1.0, max_iter=200)) for gamma in (0.001, 0.004)],
            kernel(0.002, RidgeCV((0.1, 1, 10))),
        ),
        "neural_network": Learner(
            [make_pipeline(StandardScaler(), MLPClassifier(**layer))],
            make_pipeline(StandardScaler(), MLPRegressor(**layer)),
        ),
        "neighbours": Learner(
            [make_pipeline(StandardScaler(), KNeighborsClassifier(40))],
            make_pipeline(StandardScaler(), KNeighborsRegressor(30)),
        ),
    }


def chosen(models: Sequence[Any], inputs: np.ndarray, code: np.ndarray) -> Any:
    """The candidate with the best cross-validated log score, or the middle one if a label is rare."""
    if len(models) == 1 or np.bincount(code).min() <= FEWEST_OF_LABEL:
        return models[len(models) // 2]
    folds, found = KFold(N_FOLDS, shuffle=True, random_state=0), []
    for model in models:
        chance = cross_val_predict(model, inputs, code, cv=folds, method="predict_proba")
        found.append(np.log(np.maximum(chance[np.arange(len(code)), code], LEAST_CHANCE)).mean())
    return models[int(np.argmax(found))]


def label_chances(
    models: Sequence[Any], inputs: np.ndarray, code: np.ndarray, asked: np.ndarray, n_labels: int
) -> np.ndarray:
    """P(label) of the rows `asked`, [asked, label], learned from the rows with code ≥ 0; smoothed as the baselines."""
    base = shares(code[code >= 0], n_labels, np.ones(int((code >= 0).sum())))
    count = np.bincount(code[code >= 0], minlength=n_labels)
    rows = np.flatnonzero((code >= 0) & (count[code] > 1))  # a label that was given once cannot be learned
    labels, place = np.unique(code[rows], return_inverse=True)
    if len(labels) < 2 or len(rows) < max(FEWEST_ROWS, FEWEST_PER_LABEL * len(labels)):
        return np.tile(base, (len(asked), 1))
    model = chosen(models, inputs[rows], place).fit(inputs[rows], place)
    return baseline._smoothed(model.predict_proba(inputs[asked]), labels, len(rows), base)


def numbers(model: Any, inputs: np.ndarray, target: np.ndarray, known: np.ndarray, asked: np.ndarray) -> Normal:
    """Numbers of the rows `asked`, learned from the rows that are `known`."""
    rows = np.flatnonzero(known)
    if len(rows) < FEWEST_ROWS:
        mean, deviation = spread(target[rows])
        return Normal(np.full(len(asked), mean), np.full(len(asked), deviation))
    error = cross_val_predict(model, inputs[rows], target[rows], cv=N_FOLDS) - target[rows]
    deviation = max(float(np.sqrt(np.mean(error**2))), 1e-3)
    mean = model.fit(inputs[rows], target[rows]).predict(inputs[asked])
    return Normal(mean, np.full(len(asked), deviation))
