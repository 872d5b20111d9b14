"""§6 Queries about the relations between questions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from thurbo.errors import SchemaError
from thurbo.estimators.cell_queries import CellQueries
from thurbo.estimators.fitted_model import weights
from thurbo.io.table import as_table
from thurbo.queries import dependence
from thurbo.queries.dependence import Dependence


class RelationQueries(CellQueries):
    """Methods of `TBM` about pairs of questions."""

    def dependence(self, X: Any, random_state: Any = 0) -> Dependence:
        """How much of the uncertainty about each answer each other answer removes, under the model.

        The model is told one answer, as it occurs in X, and predicts all others. Mutual information is the mean
        Kullback–Leibler divergence between these predictions and their mean; divided by the entropy, it is a share.
        Numbers are divided into fifths. Of a ranking, the first item is predicted; of a multiple choice, each option.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; they say how often each answer occurs.
        random_state : int, RandomState or None, default=0
            Seed for the sample of answers to questions with many different ones.

        Returns
        -------
        Dependence
            Shares for every pair of questions; print it to see the strongest relations.

        Raises
        ------
        SchemaError
            If fewer than two questions are outside lists of items.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> model.dependence(table).share.shape
        (3, 3)
        """
        table = as_table(X)
        names = dependence.shared_questions(self.schema_)
        if len(names) < 2 or self.schema_.listed:
            remedy = "use similar_items for lists of items" if self.schema_.listed else "fit more columns"
            raise SchemaError("dependence needs two questions that are not lists", remedy=remedy)
        weight = np.asarray(weights(self.schema_, table, None, "ignore"), np.float64)
        blocks = self.schema_.compile(table)
        told = dependence.told_rows(self.schema_, blocks, weight, check_random_state(random_state))
        asked = self._read(dependence.some_rows(table, told.row))
        return dependence.dependence(self._question(asked), told)
