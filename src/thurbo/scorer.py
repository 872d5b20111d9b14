"""§6 A score for model selection: how well hidden cells are predicted, for scikit-learn's `scoring=`.

The likelihood of many hidden units is known only with an error; what a cell's row says about it is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thurbo.errors import ThurboError


@dataclass(frozen=True)
class MaskedCellScorer:
    """A scorer of scikit-learn: `scorer(estimator, X)` is the mean log score of hidden cells, larger is better."""

    hide: float = 0.2
    random_state: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log score in nats of the cells it hides in X, by the fitted estimator; rows may have weights."""
        model, X = _model(estimator, X)
        settings = {"hide": self.hide, "random_state": self.random_state, "logistic": False}
        found = model.evaluate(X, **settings, sample_weight=sample_weight)
        value = found.overall["log_score"]
        if value is None:
            raise ThurboError("no cell of X has one answer to be scored; give rows with exact or complete answers")
        return float(value)


def masked_cell_scorer(hide: float = 0.2, random_state: Any = None) -> MaskedCellScorer:
    """Scorer for GridSearchCV and cross_val_score: the mean log-probability of hidden cells; higher is better.

    It hides some cells of the test fold and predicts them from the other cells of their rows. It works with `TBM`,
    `TBMImputer`, and a Pipeline that ends in one of them. Give a schema with all levels; otherwise a test fold can
    contain a level that the training folds do not have, which is an error.

    Parameters
    ----------
    hide : float, default=0.2
        Share of the cells that are hidden and predicted, between 0 and 1.
    random_state : int, RandomState or None, default=None
        Seed for the choice of hidden cells. With None, one seed is drawn when the scorer is made. All candidates of a
        grid search are compared on the same cells.

    Returns
    -------
    MaskedCellScorer
        Give it as `scoring=`.

    Examples
    --------
    >>> import thurbo as tb
    >>> scorer = tb.masked_cell_scorer(hide=0.1, random_state=0)
    """
    if random_state is None:
        random_state = int(np.random.default_rng().integers(2**31 - 1))
    return MaskedCellScorer(hide, random_state)


def _model(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The fitted TBM inside an estimator, and X as it sees it."""
    if hasattr(estimator, "steps"):  # a Pipeline
        X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        return _model(estimator.steps[-1][1], X)
    model = getattr(estimator, "model_", estimator)
    if not hasattr(model, "evaluate"):
        name = type(estimator).__name__
        raise ThurboError(
            f"{name} does not predict hidden cells; score a TBM, a TBMImputer or a Pipeline ending in one"
        )
    return model, X
