"""§6 `TBMImputer`, a transformer that fills in missing cells, and a scorer of masked cells for model selection."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from thurbo.errors import SchemaError, ThurboError, check_choice
from thurbo.queries import Statistic
from thurbo.table.io.frames import as_table, library_of, rows_to_array
from thurbo.tbm import TBM

STATISTICS = ("auto", "mode", "median", "mean")


class TBMImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Transformer for scikit-learn that imputes empty cells with a `TBM`; other cells do not change.

    The result is a table of the same library as the input (pandas, polars, ...), with all its columns, also those that
    are not in the model. Labels stay text; add an encoder if the next step needs numbers. For a list of rows, the
    result is an array. For multiple imputation see `TBM.impute_draws`.

    Parameters
    ----------
    statistic : {"auto", "mode", "median", "mean"}, default="auto"
        Which value is filled in, as in `TBM.impute`.
    fill : str or list of str, default=()
        Kinds of missing answers that are filled in too, as in `TBM.impute`; "not applicable" for questions that were
        not asked, which stay empty by default; "all" for all of them.
    schema, n_hidden, ...
        All parameters of `TBM`, with the same names and defaults.

    Attributes
    ----------
    model_ : TBM
        The fitted model.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 2.0], [2.0, np.nan], [np.nan, 6.0], [4.0, 8.0]])
    >>> schema = {"x0": tb.Continuous(), "x1": tb.Continuous()}
    >>> full = tb.TBMImputer(schema, n_hidden=1, max_epochs=0, random_state=0).fit_transform(X)
    >>> bool(np.isnan(full).any())
    False
    """

    def __init__(self, schema: Any = None, *, statistic: Statistic = "auto", fill: Any = (), **settings: Any):
        for name, value in TBM(schema, **settings).get_params(deep=False).items():
            setattr(self, name, value)
        self.statistic = statistic
        self.fill = fill

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Fit the model to a table with missing cells.

        Parameters
        ----------
        X : table
            As in `TBM.fit`, or a list of rows.
        y : ignored
            Exists for scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row, as in `TBM.fit`.

        Returns
        -------
        TBMImputer
            The fitted imputer.
        """
        check_choice("statistic", self.statistic, STATISTICS)
        own = ("statistic", "fill")
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in own}
        self.model_ = TBM(**settings).fit(_with_cells(X), sample_weight=sample_weight)
        self.n_features_in_ = self.model_.n_features_in_
        if hasattr(self.model_, "feature_names_in_"):
            self.feature_names_in_ = self.model_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """Fill in missing cells from the other cells of each row.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema.

        Returns
        -------
        table
            A copy of X, in the same library (pandas, polars, ...).
        """
        check_is_fitted(self, "model_")
        filled = self.model_.impute(_with_cells(X), statistic=self.statistic, fill=self.fill)
        wanted = getattr(self, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
        # scikit-learn puts arrays into frames; from one library to another the columns keep their types only so.
        return filled.to_pandas() if wanted == "pandas" and hasattr(filled, "to_pandas") else filled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


# The parameters of TBM, `statistic` and `fill`, which scikit-learn reads to copy and to search.
_OWN = inspect.signature(TBMImputer.__init__).parameters
TBMImputer.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [*inspect.signature(TBM.__init__).parameters.values(), _OWN["statistic"], _OWN["fill"]]
)


def _with_cells(X: Any) -> Any:
    """A list of rows as an array, of numbers where it holds nothing else; any other table as it is."""
    if library_of(X) == "scipy":
        # Its rows are lists of the items that are stored, so no cell is empty, and the result would be no matrix.
        problem = f"TBMImputer cannot fill in a sparse matrix ({type(X).__name__}): it has no empty cells"
        raise SchemaError(problem, remedy="give X.toarray() with NaN in empty cells, or use TBM, which reads lists")
    if not isinstance(X, (list, tuple)):
        return X
    as_table(X)  # refuses rows of several lengths, by name
    array = rows_to_array(X)
    plain = np.asarray(X) if not any(hasattr(cell, "__len__") for cell in array.ravel()) else array
    return plain if plain.dtype.kind in "biuf" else array


@dataclass(frozen=True)
class MaskedCellScorer:
    """A scorer of scikit-learn: `scorer(estimator, X)` is the mean log score of hidden cells, larger is better."""

    hide: float = 0.2
    random_state: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log score in nats of the cells it hides in X, by the fitted estimator; rows may have weights."""
        model, X = _model(estimator, X)
        settings = {"hide": self.hide, "random_state": self.random_state, "logistic": False}
        value = model.evaluate(X, **settings, sample_weight=sample_weight).overall["log_score"]
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


def _model(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The fitted TBM inside an estimator, and X as it sees it."""
    if hasattr(estimator, "steps"):  # a Pipeline
        X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        return _model(estimator.steps[-1][1], X)
    model = estimator if hasattr(estimator, "evaluate") else getattr(estimator, "model_", estimator)
    if not hasattr(model, "evaluate"):
        remedy = "score a TBM, a TBMImputer or a Pipeline ending in one"
        raise ThurboError(f"{type(estimator).__name__} does not predict hidden cells; {remedy}")
    return model, X
