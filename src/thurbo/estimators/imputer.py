"""§6 TBMImputer: a TBM whose `transform` fills gaps, for scikit-learn's pipelines.

The parameters are those of `TBM`, taken from it, and `statistic`; the fitted model is `model_`.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from thurbo.errors import ThurboError
from thurbo.estimators.tbm import TBM, Statistic
from thurbo.io import frames

STATISTICS = ("auto", "mode", "median", "mean")


class TBMImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the gaps of a table by a Thurstonian Boltzmann machine; cells that were there do not change.

    Parameters
    ----------
    statistic : {"auto", "mode", "median", "mean"}
        What a gap is filled with, as in `TBM.impute`.
    schema, n_hidden, ... :
        All parameters of `TBM`, by their names and with their defaults.

    Attributes
    ----------
    model_ : the fitted TBM, with all its queries
    n_features_in_, feature_names_in_ : as in scikit-learn

    Tables come back in the library they came in, columns that the model leaves out included; lists of rows come back as
    an array. For draws rather than best guesses see `TBM.impute_draws`.
    """

    def __init__(self, schema: Any = None, *, statistic: Statistic = "auto", **settings: Any):
        for name, value in TBM(schema, **settings).get_params(deep=False).items():
            setattr(self, name, value)
        self.statistic = statistic

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from a table with gaps."""
        if self.statistic not in STATISTICS:
            raise ThurboError(f'statistic "{self.statistic}" is not one of {", ".join(STATISTICS)}')
        settings = {name: value for name, value in self.get_params(deep=False).items() if name != "statistic"}
        self.model_ = TBM(**settings).fit(_array_of_rows(X), sample_weight=sample_weight)
        self.n_features_in_ = self.model_.n_features_in_
        if hasattr(self.model_, "feature_names_in_"):
            self.feature_names_in_ = self.model_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """The table with its gaps filled, from the other cells of each row."""
        check_is_fitted(self, "model_")
        filled = self.model_.impute(_array_of_rows(X), statistic=self.statistic)
        wanted = getattr(self, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
        # scikit-learn puts arrays into frames; from one library to another the columns keep their types only so.
        return filled.to_pandas() if wanted == "pandas" and hasattr(filled, "to_pandas") else filled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _signature() -> inspect.Signature:
    """The parameters of TBM and `statistic`, which scikit-learn reads to copy and to search."""
    known = list(inspect.signature(TBM.__init__).parameters.values())
    own = inspect.signature(TBMImputer.__init__).parameters["statistic"]
    return inspect.Signature([*known, own])


TBMImputer.__init__.__signature__ = _signature()  # type: ignore[attr-defined]


def _array_of_rows(X: Any) -> Any:
    """A list of rows as an array, of numbers where it holds nothing else; any other table as it is."""
    if not isinstance(X, (list, tuple)):
        return X
    frames.table(X)  # refuses rows of several lengths, by name
    array = np.empty((len(X), len(X[0]) if len(X) else 0), object)
    for place, row in enumerate(X):
        array[place, :] = np.fromiter(row, object, len(row))
    plain = np.asarray(X) if not any(hasattr(cell, "__len__") for cell in array.ravel()) else array
    return plain if plain.dtype.kind in "biuf" else array
