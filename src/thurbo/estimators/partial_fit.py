"""§5 Training that goes on with more rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from thurbo.errors import ThurboError
from thurbo.estimators.fitted_model import FittedModel, weights
from thurbo.io.table import as_table
from thurbo.learning import fit as fitting
from thurbo.learning import monitor
from thurbo.queries import seen
from thurbo.queries.rank import n_ratings


class PartialFit(FittedModel):
    """`partial_fit` of an estimator."""

    _training: tuple[Any, Any, int] | None = None  # state, plan and seed of the last fit

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Continue training with more rows: one pass over them at the full learning rate.

        If the model is not fitted, the first call takes the schema, the labels and the scales of columns from its rows.
        Later calls cannot change them.

        Parameters
        ----------
        X : table
            As in `fit`.
        y : ignored
            Exists for scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row, as in `fit`.

        Returns
        -------
        TBM
            The fitted estimator.

        Raises
        ------
        ThurboError
            If the model was loaded from a file: files do not contain the state of training.
        """
        model: Any = self
        if self._training is None:
            if self._population is not None:
                raise ThurboError("a model of several members cannot go on learning; fit it with members=1")
            if hasattr(self, "params_"):
                raise ThurboError("a model from a file cannot go on learning; fit it again")
            usual = {"max_epochs": model.max_epochs, "learning": model.learning, "members": model.members}
            plain = None if model.learning is None else replace(model.learning, posterior_smoothing=None)
            try:
                model.set_params(max_epochs=0, learning=plain, members=1).fit(X, sample_weight=sample_weight)
            finally:
                model.set_params(**usual)
        return self._go_on(X, sample_weight, model._settings(self.schema_))

    def _go_on(self, X: Any, sample_weight: Any, chosen: dict[str, Any]) -> Self:
        assert self._training is not None
        state, plan, seed = self._training
        table = as_table(X)
        weight = weights(self.schema_, table, sample_weight)
        if not weight.all():
            table, weight = table.take(np.flatnonzero(weight)), weight[weight > 0]
        asked = self._read(table)
        data = fitting.Data(self.schema_, asked.blocks, asked.evidence, weight)
        fitted = fitting.go_on(chosen, data, state, plan, seed)
        for name, more in n_ratings(self.schema_, asked.blocks).items():
            self.n_ratings_[name] = self.n_ratings_[name] + more
        self.__dict__.pop("posteriors_", None)  # those of other rows, under another model
        monitor.warn(fitted)
        self._adopt(self.schema_, fitted.params, plan.objective, self.history_ + fitted.history, fitted.converged)
        self._training = (fitted.state, plan, seed)
        self._seen_rows = np.union1d(self._seen_rows, seen.of_training(asked.blocks.values(), weight))
        return self
