"""§6 Queries about the relations between questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from thurbo.errors import SchemaError
from thurbo.estimators.cell_queries import CellQueries
from thurbo.estimators.fitted_model import Asked, weights
from thurbo.io.table import as_table
from thurbo.queries import dependence
from thurbo.queries.dependence import Dependence
from thurbo.queries.question import Question


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
        return dependence.dependence(self._told(asked), told)

    def _told(self, asked: Asked) -> Question:
        """Rows of which only some answers are told, put to the members that are models of the answers only.

        That other answers are missing is not evidence: neither routing nor members that know which questions were
        answered take part.
        """
        given = () if asked.given is None else tuple(self._conditions(asked.given))
        own = Question(self.params_, self.schema_, asked.blocks, asked.evidence.on_host(), self._how("auto"), {}, given)
        if self._population is None:
            return own
        members, kept = self._population.members, self._population.generative
        parts = [replace(view._question(read), routes={}) for view, read in self._asked_of(asked, generative=True)]
        places = [place for place, each in enumerate(members) if any(each is other for other in kept)]
        weights, by_column = self._population.generative_weights, dict[str, np.ndarray]()
        for name, each in self._population.column_weights.items():
            total = each[places].sum()
            by_column[name] = each[places] / total if total > 1e-6 else weights
        mixed = self._population.question(own, parts, self.schema_.modelled)
        return replace(mixed, routes={}, weights=weights, column_weights=by_column)
