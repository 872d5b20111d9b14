"""§6 Evaluation that fits the model anew: answers are hidden before fitting, and baselines see the same cells.

Also the scorer of masked answers for scikit-learn's searches.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from thurbo import _runtime
from thurbo.errors import ThurboError
from thurbo.fit import course
from thurbo.predict import baseline, evaluation
from thurbo.predict.evaluation import Evaluation
from thurbo.table.columns.forms.form import Tested, pooled
from thurbo.table.io.frames import as_table
from thurbo.tbm import TBM


def evaluate(
    model: TBM,
    X: Any,
    folds: int = 5,
    *,
    hide: float | None = None,
    repeats: int = 1,
    random_state: Any = None,
    logistic: bool = True,
    boosting: bool = True,
    method: str = "auto",
    sample_weight: Any = None,
    verbose: bool | int | Literal["auto"] = "auto",
) -> Evaluation:
    """Predictive accuracy on answers that are hidden before the model is fitted, compared with baselines.

    The answers of X are divided into folds at random. For each fold, a copy of the model is fitted to the table without
    the answers of this fold, and predicts each of them from the other answers of its row. The baselines are fitted to
    the same cells: the frequencies of each column, a regression of each column on all others (logistic, or ridge for
    numbers), gradient boosting of each column on all others, and the mean of these two. Only types and labels of
    columns come from the whole table, as they would from a questionnaire.

    Parameters
    ----------
    model : TBM
        A model with the settings to use, fitted or not. It does not change.
    X : table
        As in `TBM.fit`.
    folds : int, default=5
        Number of folds, each with a fit of its own. Every answer that can be scored is in exactly one fold.
    hide : float, optional
        Instead of folds, hide each answer with this probability: one fit for each of `repeats`.
    repeats : int, default=1
        Number of random masks with `hide`.
    random_state : int, RandomState or None, default=None
        Seed for the choice of hidden answers; the seed of the fits is that of the model.
    logistic, boosting : bool, default=True
        Whether to fit the regressions, and gradient boosting (trees of 8 leaves, rate 0.08, 20 to 100 rounds).
    method, sample_weight, verbose
        As in `TBM.evaluate`, `TBM.fit` and `TBM`. Rows of weight 0 are left out of everything.

    Returns
    -------
    Evaluation
        Accuracy, log score, errors and calibration, for each column and overall; print it to see a table. Mean
        differences of log scores, model − baseline (`gain_logistic`, …), have 95 % intervals (`_low`, `_high`) that
        allow for several answers of one row. `masks` has the hidden answers of each fit, in rows of positive weight.

    Notes
    -----
    Intervals describe the choice of rows, not that of folds and seeds. Baselines use at most 20,000 rows; beyond 1,000
    features (indicators of labels, and of missing cells) their first 64 principal components. A question is not tested
    if an empty cell is itself an answer ("not selected" of a single option).

    Examples
    --------
    >>> import thurbo as tb
    >>> table = {"a": [0, 1, 1, 0, 1, 0, 1, 1] * 3, "b": ["x", "y", "y", "x", "y", "x", None, "y"] * 3}
    >>> model = tb.TBM({"a": tb.Binary(), "b": tb.Categorical()}, n_hidden=1, n_factors=0, max_epochs=2, random_state=0)
    >>> found = tb.evaluate(model, table, folds=2, random_state=0, boosting=False)
    >>> found.overall["n_cells"]
    45
    """
    evaluation.check(folds, hide, repeats)
    if not isinstance(model, TBM):
        raise ThurboError(f"model={model!r} is not a TBM; give for example tb.TBM(random_state=0)")
    rng, baselines = check_random_state(random_state), evaluation.chosen_baselines(logistic, boosting)
    _runtime.prepare()
    table, weight, places, schema = model._rows_that_count(as_table(X), sample_weight)
    own = None if sample_weight is None else np.asarray(sample_weight)[places]
    # Types and labels; which blocks of questions have answers is part of each fit.
    schema = clone(model).set_params(missing="ignorable")._fitted_schema(schema, table, weight)
    table = evaluation.with_lists(table, schema)
    blocks = schema.compile(table)
    groups = evaluation.answers(table, schema, blocks, weight > 0, rng)
    if hide is None:
        masks = evaluation.in_folds(groups, int(folds), rng)
    else:
        masks = evaluation.at_random(groups, float(hide), int(repeats), rng)
    tests, seconds = list[Tested](), list[float]()
    with course.progress(len(masks), verbose) as tell:
        for number, mask in enumerate(masks):
            tell(_standing(number, len(masks), tests))
            started = time.perf_counter()
            fitted = clone(model).set_params(schema=schema, checkpoint=None, verbose=False)
            shown = evaluation.without(table, schema, blocks, mask)
            fitted.fit(shown, sample_weight=own)._finished()
            seconds.append(time.perf_counter() - started)
            # The table without the hidden answers is also what predictions are made from.
            rest, whole = fitted._query(shown, method=method), fitted.schema_.compile(table)
            tests += evaluation.score_masked(rest, whole, mask, weight, baselines, baseline.FULL)
        tell(_standing(len(masks), len(masks), tests))
    share = 1.0 if hide is None else float(hide)
    return evaluation.result(schema, pooled(tests), masks, share, fit_seconds=seconds)


def _standing(done: int, of: int, tests: list[Tested]) -> dict[str, Any]:
    """A record of progress."""
    score = evaluation.overall(tests, 0.0)["log_score"]
    figure = "" if score is None else f"mean log score per answer (nats): {score:.4f}"
    return {"stage": "evaluating", "done": done, "of": of, "figure": figure}


@dataclass(frozen=True)
class MaskedCellScorer:
    """A scorer of scikit-learn: `scorer(estimator, X)` is the mean log score of hidden cells, larger is better."""

    hide: float = 0.2
    random_state: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log score in nats of the cells it hides in X, by the fitted estimator; rows may have weights."""
        model, X = _model_in(estimator, X)
        found = model.evaluate(X, self.hide, self.random_state, logistic=False, sample_weight=sample_weight)
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
    >>> scorer = tb.masked_cell_scorer(hide=0.1, random_state=0)
    """
    if random_state is None:
        random_state = int(np.random.default_rng().integers(2**31 - 1))
    return MaskedCellScorer(hide, random_state)


def _model_in(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The fitted TBM inside an estimator, and X as it sees it."""
    if hasattr(estimator, "steps"):  # a Pipeline
        X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        return _model_in(estimator.steps[-1][1], X)
    model = estimator if hasattr(estimator, "evaluate") else getattr(estimator, "model_", estimator)
    if not hasattr(model, "evaluate"):
        remedy = "score a TBM, a TBMImputer or a Pipeline ending in one"
        raise ThurboError(f"{type(estimator).__name__} does not predict hidden cells; {remedy}")
    return model, X
