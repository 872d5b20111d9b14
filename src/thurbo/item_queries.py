"""§7, §8 Queries about the items of a ranking or of lists: the best for each row, preferences, neighbours, conjoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thurbo.errors import check_choice
from thurbo.parts import rowwise
from thurbo.predict import items as ranking
from thurbo.predict.model import Rows
from thurbo.predict.moments import features
from thurbo.queries import Out, Queries
from thurbo.table.io import frames


class ItemQueries(Queries):
    """Methods of `TBM` about items."""

    n_ratings_: dict[str, np.ndarray]

    @rowwise()
    def rank(
        self,
        X: Any,
        top: int = 10,
        items: Any = None,
        exclude_seen: bool = True,
        column: str | None = None,
        *,
        by: ranking.By = "rating",
        out: Out = None,
    ) -> Any:
        """The best items for each row.

        Items are sorted by their expected utility ("how much does this person like it"), given the cells of the row; or
        by the probability that the row has them ("what will this person choose"), given the items that it has.
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
            the training table has none of them. New items are given by their attributes, {item: {attribute: value}},
            if the items of the column have attributes.
        exclude_seen : bool, default=True
            Leave out the items that a row has already rated or ranked.
        column : str, optional
            Name of the `Ratings` or `Ranking` column. Needed if there are several.
        by : {"rating", "choice"}, default="rating"
            "rating" sorts by utility. "choice" sorts by probability, and needs `Ratings(presence="model")`: if the
            items that the row has are a random part of its list, of any length, it is the probability that the item is
            in the rest of the list. It does not use scores and other columns, and is 1 for items that the row has.
        out
            As in `transform`; `items` are then the same for all rows.

        Returns
        -------
        table
            Long table with the columns row, item, utility (or probability) and place (1 = best).

        Examples
        --------
        >>> orders = {"films": ["A > B > C", "B > A > C", "C > A > B", "A > C > B"]}
        >>> schema = {"films": tb.Ranking(["A", "B", "C"])}
        >>> films = tb.TBM(schema, n_hidden=1, max_epochs=0, random_state=0).fit(orders)
        >>> films.rank(orders, top=1, exclude_seen=False)["place"].tolist()
        [1, 1, 1, 1]
        """
        check_choice("by", by, tuple(ranking.VALUES))
        rows = self._read(X)
        name = ranking.column(self.schema_, column)
        if by == "choice":
            members = ranking.presence_of(self.model_, name, items)
            items = ranking.wanted(self.schema_, name, rows, items)
            chance = ranking.of_choices(members, rows.blocks[name])
            return ranking.rank(self.schema_, name, rows, chance, top, items, exclude_seen, self.frame_kind_, by)
        if ranking.are_profiles(items):
            return self._rank_profiles(rows, name, items, top)  # by attributes: {item: {attribute: value}}
        # By default only items are ranked that a row says nothing about, unless those it does not name are last.
        kind, items = self.schema_[name], ranking.wanted(self.schema_, name, rows, items)
        says_nothing = kind.has_tasks or (exclude_seen and items is None and not kind.is_last)
        if isinstance(items, ranking.AskedPairs) and not kind.is_last:
            says_nothing = says_nothing or not items.are_stated(rows.blocks[name])
        asks = []
        for each in self.model_.query(rows).members:
            found = each.evidence.by_chunks(lambda own, each=each: features(each.params, own, each.how))
            asks.append(ranking.of_column(each.params, each.schema, name, found, None if says_nothing else each))
        shares = self.model_.weights_of(name).astype(np.float32)

        def ask(own: np.ndarray) -> np.ndarray:
            return np.asarray(sum(share * each(own) for share, each in zip(shares, asks, strict=True)))

        return ranking.rank(self.schema_, name, rows, ask, top, items, exclude_seen, self.frame_kind_, by)

    def _by_member(self, rows: Rows | None, answer: Callable[..., np.ndarray], name: str, *more: Any) -> np.ndarray:
        """The mean over members of what they answer about a column, given each row; without rows, one answer."""
        model = self.model_
        read = [None] * len(model.members) if rows is None else [each.evidence for each in model.encoded(rows)]
        how, pairs = model.how("auto"), zip(model.members, read, strict=True)
        found = [answer(each.params, each.schema, name, *more, own, how) for each, own in pairs]
        return np.tensordot(model.weights_of(name), np.stack(found), axes=1)

    def _rank_profiles(self, rows: Rows, name: str, items: Any, top: int) -> Any:
        """Items that are known only by their attributes, the best for each row."""
        ranking.column_with_attributes(self.schema_, name)  # raises an error if items have no attributes
        names, features = ranking.coded(self.schema_, name, items)
        utility = self._by_member(rows, ranking.worths, name) @ features.T
        order = np.argsort(-utility, axis=1, kind="stable")[:, : int(top)]
        row, place = np.indices(order.shape).reshape(2, -1)
        item = order.reshape(-1)
        found = {
            "row": self.schema_.row_names(rows.table)[row],
            "item": np.asarray(names, object)[item],
            "utility": utility[row, item],
            "place": place + 1,
        }
        return frames.frame(self.frame_kind_, found)

    def prefers(self, X: Any, item: Any, other: Any, column: str | None = None) -> np.ndarray:
        """Probability that each row prefers `item` to `other`: 1 or 0 if the row itself ranks one above the other.

        Parameters
        ----------
        X, column : table, str
            As in `rank`.
        item, other : label
            The two items.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        name = ranking.column(self.schema_, column)
        return ranking.prefers(self._query(self._table(X)), name, item, other)

    def similar_items(self, item: Any, top: int = 10, column: str | None = None, min_ratings: int = 5) -> Any:
        """Items that are liked by the same rows, by the correlation of their utilities in the leading member.

        Parameters
        ----------
        item : label
            The item to compare with.
        top : int, default=10
            Number of items.
        column : str, optional
            As in `rank`.
        min_ratings : int, default=5
            Leave out items that fewer training rows rate or rank, because little is known about them (`n_ratings_`).
            Models that were saved before version 0.1 do not have these numbers, and leave out none.

        Returns
        -------
        table
            Items and their correlation, the most similar first.
        """
        name = ranking.column(self.schema_, column)
        counts = self.n_ratings_.get(name)
        found = ranking.similar_items(self.params_, self.schema_, name, item, top, min_ratings, counts)
        return frames.frame(self.frame_kind_, found)

    def part_worths(self, X: Any = None, by: Any = None, column: str | None = None) -> Any:
        """What each attribute level adds to the utility of an item, and how much each attribute matters.

        Parameters
        ----------
        X : table, optional
            Rows whose part-worths are averaged. By default those of an average person of the training table.
        by : array-like or Segments, optional
            A label for each row, such as the result of `segments(X)`: part-worths are averaged within each group.
        column : str, optional
            Name of the column whose items have attributes. Needed if there are several.

        Returns
        -------
        table
            Long table with the columns group, attribute, level, part_worth, low, high, spread and importance. The
            part-worths of the levels of an attribute have mean zero; that of a number is per unit of the number. `low`
            and `high` are an approximate 95 % interval of the mean, from the information in the tasks of the rows and
            the differences between rows. They are missing without `X`, and for `Ratings`. `spread` is the standard
            deviation over rows. `importance` is the mean share of an attribute in the sum of the ranges of all of them.

        Examples
        --------
        >>> tasks = {"who": [1, 1, 2, 2], "task": [1, 1, 1, 1], "price": [1, 2, 1, 2], "pick": [1, 0, 1, 0]}
        >>> table = tb.from_choices(tasks, row="who", task="task", chosen="pick", attributes=["price"])
        >>> model = tb.TBM(n_hidden=0, max_epochs=5, random_state=0).fit(table)
        >>> model.part_worths()["attribute"].tolist()
        ['price']
        """
        name = ranking.column_with_attributes(self.schema_, column)
        rows = None if X is None else self._read(self._table(X))
        worth = self._by_member(rows, ranking.worths, name)
        groups, errors = ranking.groups(by, len(worth)), None
        if rows is not None and self.schema_[name].has_tasks:
            errors = ranking.errors(self.params_, self.schema_, name, rows.blocks[name], worth, groups.values())
        found = ranking.summarised(self.schema_, name, worth, groups, errors)
        kinds = {key: object if key in ("group", "attribute", "level") else np.float64 for key in found}
        return frames.frame(self.frame_kind_, {key: np.asarray(values, kinds[key]) for key, values in found.items()})

    def simulate_market(self, profiles: Any, X: Any = None, by: Any = None, column: str | None = None) -> Any:
        """Shares of choice among profiles of attributes, as if they were the only ones shown.

        Parameters
        ----------
        profiles : dict or list
            {name: {attribute: value}}, or a list of {attribute: value}: levels of the training table, or any numbers.
        X : table, optional
            Rows whose choices are averaged, each given all that it says. By default somebody of whom nothing is known.
        by : array-like or Segments, optional
            A label for each row, such as the result of `segments(X)`: shares are given for each group.
        column : str, optional
            As in `part_worths`.

        Returns
        -------
        table
            Long table with the columns group, profile and share. Shares of a group sum to one.

        Examples
        --------
        >>> tasks = {"who": [1, 1, 2, 2], "task": [1, 1, 1, 1], "price": [1, 2, 1, 2], "pick": [1, 0, 1, 0]}
        >>> table = tb.from_choices(tasks, row="who", task="task", chosen="pick", attributes=["price"])
        >>> model = tb.TBM(n_hidden=0, max_epochs=5, random_state=0).fit(table)
        >>> model.simulate_market({"cheap": {"price": 1}, "dear": {"price": 2}})["profile"].tolist()
        ['cheap', 'dear']
        """
        name = ranking.column_with_attributes(self.schema_, column)
        names, features = ranking.coded(self.schema_, name, profiles)
        rows = None if X is None else self._read(self._table(X))
        chance = self._by_member(rows, ranking.chances, name, features)
        groups = ranking.groups(by, len(chance))
        found = {
            "group": np.asarray([group for group in groups for _ in names], object),
            "profile": np.asarray([each for _ in groups for each in names], object),
            "share": np.concatenate([chance[own].mean(axis=0) for own in groups.values()]),
        }
        return frames.frame(self.frame_kind_, found)
