"""§6 A score for model selection: how well hidden cells are predicted, for scikit-learn's `scoring=`.

The likelihood of many hidden units is known only with an error; what a cell's row says about it is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thurbo.errors import ThurboError


@dataclass(frozen=True)
class MaskedCellScorer:
    """A scorer of scikit-learn: `scorer(estimator, X)` is the mean log score of hidden cells, larger is better."""

    hide: float = 0.2
    random_state: Any = 0

    def __call__(self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log score in nats of the cells it hides in X, by the fitted estimator; rows may have weights."""
        model, X = _model(estimator, X)
        settings = {"hide": self.hide, "random_state": self.random_state, "logistic": False}
        found = model.evaluate(X, **settings, sample_weight=sample_weight)
        value = found.overall["log_score"]
        if value is None:
            raise ThurboError("no cell of X has one answer to be scored; give rows with exact or complete answers")
        return float(value)


def masked_cell_scorer(hide: float = 0.2, random_state: Any = 0) -> MaskedCellScorer:
    """A `scoring=` for GridSearchCV and cross_val_score: hide a share of the cells, and score their predictions.

    Works with `TBM`, `TBMImputer`, and a Pipeline that ends in one of them. With a whole number as `random_state` every
    candidate is asked about the same cells. Give the schema all levels, so that no fold meets one it has not seen.
    """
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
