"""scikit-learn's IterativeImputer with forests, in the manner of missForest, and with its default ridge.

    python impute_sklearn.py IN OUT forests|ridge

Forests of regression trees, rounded to the nearest answer, for absolute errors, of classification trees for hits; ridge
on the answers' codes for the first, on their indicators (the largest wins) for the second.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from cells import levels, most_frequent, nearest, read, write
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer


def forests(table: np.ndarray, kind: type) -> np.ndarray:
    """Chained forests of a hundred trees with leaves of at least five answers."""
    trees = kind(n_estimators=100, min_samples_leaf=5, max_features="sqrt", n_jobs=-1, random_state=0)
    chain = IterativeImputer(trees, max_iter=5, initial_strategy="most_frequent", tol=0.0, random_state=0)
    return chain.fit_transform(table)


def ridge(table: np.ndarray) -> np.ndarray:
    """The default: chained Bayesian ridge regressions."""
    return IterativeImputer(max_iter=20, random_state=0).fit_transform(table)


def by_indicators(table: np.ndarray) -> np.ndarray:
    """Columns with a frequent answer as one indicator for each answer; filled in with the largest."""
    known = [levels(column) for column in table.T]
    parts = [
        np.where(np.isnan(column)[:, None], np.nan, column[:, None] == each)
        if most_frequent(column) >= 0.1
        else column[:, None]
        for column, each in zip(table.T, known, strict=True)
    ]
    filled, start = ridge(np.concatenate(parts, axis=1).astype(float)), 0
    out = np.empty_like(table)
    for j, part in enumerate(parts):
        own = filled[:, start : start + part.shape[1]]
        out[:, j] = own[:, 0] if part.shape[1] == 1 else known[j][own.argmax(axis=1)]
        start += part.shape[1]
    return out


def main() -> None:
    """Fill in twice, as each measure likes it."""
    warnings.filterwarnings("ignore")  # that the chain has not converged is what max_iter means
    table = read()
    if sys.argv[3] == "forests":
        median, mode = forests(table, RandomForestRegressor), forests(table, RandomForestClassifier)
    else:
        median, mode = ridge(table), by_indicators(table)
    write(nearest(table, median), nearest(table, mode))


if __name__ == "__main__":
    main()
