"""§3 at scale: queries about the items of a ranking or of lists: the best for each row, preferences, neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thurbo.estimators.fitted_model import FittedModel
from thurbo.io import build
from thurbo.queries import item_utilities as utilities
from thurbo.queries import rank as ranking


class ItemQueries(FittedModel):
    """Methods of `TBM` about items."""

    def rank(
        self,
        X: Any,
        top: int = 10,
        items: Any = None,
        exclude_seen: bool = True,
        column: str | None = None,
    ) -> Any:
        """The best items for each row.

        Items are sorted by their expected utility ("how much does this person like it"), given the cells of the row.
        Utilities are exact for small models, and otherwise computed by the approximation "mean-field" (`method_`). They
        are averaged over the members of a model (`members_`).

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        top : int, default=10
            Number of items per row.
        items : list or table, optional
            The items to rank. Give one list for all rows, or a long table with the items of each row: it has a column
            of rows and a column of items, with the same names as in `from_long`, and all its pairs are ranked. By
            default all items. Items that are not in the training table are left out with a warning; it is an error if
            the training table has none of them.
        exclude_seen : bool, default=True
            Leave out the items that a row has already rated or ranked.
        column : str, optional
            Name of the `Ratings` or `Ranking` column. Needed if there are several.

        Returns
        -------
        table
            Long table with the columns row, item, utility and place (1 = best).

        Examples
        --------
        >>> import thurbo as tb
        >>> orders = {"films": ["A > B > C", "B > A > C", "C > A > B", "A > C > B"]}
        >>> schema = {"films": tb.Ranking(["A", "B", "C"])}
        >>> films = tb.TBM(schema, n_hidden=1, max_epochs=0, random_state=0).fit(orders)
        >>> films.rank(orders, top=1, exclude_seen=False)["place"].tolist()
        [1, 1, 1, 1]
        """
        asked = self._read(X)
        name = ranking.column(self.schema_, column)
        # By default only items are ranked that a row says nothing about, unless those it does not name are last.
        says_nothing = exclude_seen and items is None and not self.schema_[name].is_last
        asks = []
        for view, own in self._asked_of(asked):
            question = None if says_nothing else view._question(own)
            asks.append(ranking.of_column(view.params_, view.schema_, name, view._features(own.evidence), question))
        ask = utilities.together(asks, self._weights_of(name))
        return ranking.rank(self.schema_, name, asked, ask, top, items, exclude_seen, self.frame_kind_)

    def _weights_of(self, name: str) -> np.ndarray:
        """Weights of the members for one column, [member]."""
        if self._population is None:
            return np.ones(1)
        return self._population.column_weights.get(name, self._population.weights)

    def prefers(self, X: Any, item: Any, other: Any, column: str | None = None) -> np.ndarray:
        """Probability that each row prefers `item` to `other`: 1 or 0 if the row itself ranks one above the other.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        item, other : label
            The two items.
        column : str, optional
            Name of the `Ratings` or `Ranking` column. Needed if there are several.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        asked = self._read(X)
        name = ranking.column(self.schema_, column)
        chances = []
        for view, own in self._asked_of(asked):
            found = view._features(own.evidence)
            chances.append(ranking.prefers(view.params_, view.schema_, name, own, found, item, other))
        return np.asarray(self._weights_of(name) @ np.stack(chances))

    def similar_items(self, item: Any, top: int = 10, column: str | None = None, min_ratings: int = 5) -> Any:
        """Items that are liked by the same rows, by the correlation of their utilities in the model.

        Parameters
        ----------
        item : label
            The item to compare with.
        top : int, default=10
            Number of items.
        column : str, optional
            Name of the `Ratings` or `Ranking` column. Needed if there are several.
        min_ratings : int, default=5
            Leave out items that fewer training rows rate or rank, because little is known about them (`n_ratings_`).
            Models that were saved before version 0.1 do not have these numbers, and leave out none.

        Returns
        -------
        table
            Items and their correlation, the most similar first.
        """
        check_is_fitted(self, "params_")
        name = ranking.column(self.schema_, column)
        counts = self.n_ratings_.get(name)
        found = ranking.similar_items(self.params_, self.schema_, name, item, top, min_ratings, counts)
        return build.frame(self.frame_kind_, found)
