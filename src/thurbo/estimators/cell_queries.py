"""§4.1, §4.3, §6 Queries about the cells of rows: hidden units, predictions, intervals, imputation.

Each method turns the table into evidence, asks `queries`, and gives the answer in the user's labels and units.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thurbo.errors import check_choice
from thurbo.estimators.fitted_model import Asked, FittedModel, Given
from thurbo.io import build
from thurbo.learning import monitor
from thurbo.queries import impute as draws
from thurbo.queries import not_asked, predict

Statistic = Literal["auto", "mode", "median", "mean"]


class CellQueries(FittedModel, TransformerMixin):
    """Methods of `TBM` about hidden units and cells of given rows."""

    def transform(self, X: Any, output: Literal["probability", "log_odds"] = "probability") -> np.ndarray:
        """Features of each row: the probability that each hidden unit is on, then the mean of each factor.

        The result for a row does not depend on the other rows. It is computed by `method_`: "exact" for small models,
        and otherwise by the approximation "mean-field", whose error `check_method` measures.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        output : {"probability", "log_odds"}, default="probability"
            Whether hidden units are given as probabilities or as log-odds.

        Returns
        -------
        ndarray of shape (n_rows, n_hidden + n_factors)

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> model.transform(table, output="log_odds").shape
        (6, 2)
        """
        check_choice("output", output, ("probability", "log_odds"))
        found = self._features(self._read(X).evidence)
        hidden = found.hidden if output == "probability" else found.log_odds
        return np.concatenate([hidden, found.factors], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`: hidden0, hidden1, …, factor0, ….

        Parameters
        ----------
        input_features : ignored
            Exists for scikit-learn.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "params_")
        names = [f"hidden{k}" for k in range(self.params_.n_hidden)]
        return np.asarray(names + [f"factor{f}" for f in range(self.params_.n_factors)], object)

    def predict_proba(
        self, X: Any, column: str | None = None, given: Given = None, method: str = "auto", items: Any = None
    ) -> np.ndarray:
        """Probability of each possible answer, given all other cells of the row.

        The cell of `column` itself is not used; it can be missing, but X must have the column. The result for a row
        does not depend on the other rows. If the row was not asked this question (`schema_.skips`), the result is for
        the case that it had been.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        column : str, optional
            The column to predict. By default all columns with labels, next to each other, in the order of the schema.
        given : dict, str or list of str, optional
            Conditions on other columns, such as "age >= 45" or `{"age": tb.at_least(45)}`. In every row they are used
            in place of the cell of that column; the other cells of the row stay.
        method : {"auto", "exact", "gibbs", "mean-field"}, default="auto"
            How to compute. "exact" sums over all states of the hidden units; "mean-field" is a fast approximation;
            "gibbs" draws random samples and is slow. "auto" is `method_`: "exact" for up to 12 hidden units (a factor
            counts as five), or 13 in a table of up to 40 sites if the model was not trained by prediction; otherwise
            "mean-field", whose error `check_method` measures.
        items : list, optional
            For a list (`Ratings` by levels or order), the items that you ask about. For levels, the result has shape
            (n_rows, n_items, n_levels). For orders, it has shape (n_rows, n_items): P(item is the best of these).

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
            One column per label, in the order of `schema_[column].labels`. For a ranking, the probability that each
            item is the best; for a multiple choice, the probability that each option is ticked.

        Raises
        ------
        ThurboError
            If the column has no labels, or if the model has too many hidden units for `method="exact"`.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> model.schema_["trust"].labels
        ('low', 'mid', 'high')
        >>> model.predict_proba(table, "trust").shape
        (6, 3)
        >>> older = model.predict_proba(table, "fan", given="age >= 45")
        """
        named = [] if column is None else [column]
        question = self._question(self._read(X, given, asked_about=named), method)
        predict.check_items(self.schema_, items)
        return predict.all_probabilities(question) if column is None else predict.probabilities(question, column, items)

    def predict_interval(
        self,
        X: Any,
        column: str,
        level: float = 0.9,
        given: Given = None,
        method: str = "auto",
        items: Any = None,
    ) -> np.ndarray:
        """Interval that contains the cell with probability `level`, given all other cells of the row.

        It is central: the cell is below it and above it with equal probability.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        column : str
            A column of numbers or of ordered levels.
        level : float, default=0.9
            Probability of the interval.
        given : dict, str or list of str, optional
            Conditions on other columns, such as "age >= 45" or `{"age": tb.at_least(45)}`. In every row they are used
            in place of the cell of that column; the other cells of the row stay.
        method : {"auto", "exact", "gibbs", "mean-field"}, default="auto"
            How to compute. "exact" sums over all states of the hidden units; "mean-field" is a fast approximation;
            "gibbs" draws random samples and is slow. "auto" is `method_`: "exact" for up to 12 hidden units (a factor
            counts as five), or 13 in a table of up to 40 sites if the model was not trained by prediction; otherwise
            "mean-field", whose error `check_method` measures.
        items : list, optional
            For a list (`Ratings`), the items that you ask about. The result has shape (n_rows, n_items, 2).

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Lower and upper end, in the units of the data. For ordered levels, the lowest and the highest label of the
            interval; its probability is at least `level`.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> model.predict_interval(table, "age", level=0.8).shape
        (6, 2)
        """
        question = self._question(self._read(X, given, asked_about=[column]), method)
        predict.check_items(self.schema_, items)
        return predict.interval(question, column, level, items)

    def predict(
        self,
        X: Any,
        columns: Any = None,
        statistic: Statistic = "mode",
        given: Given = None,
        method: str = "auto",
        items: Any = None,
    ) -> Any:
        """Predict each cell from all other cells of its row, also of questions that the row was not asked.

        Numbers get the decimals of their column, and stay within the range that was observed in training; a "mean" is
        not rounded. A category that joins several answers ("other (12 more)") is never predicted; the most probable of
        the others is. For several columns, progress is shown as in `fit` (`verbose`).

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        columns : str or list of str, optional
            Columns to predict. By default all columns of the model.
        statistic : {"mode", "median", "mean", "auto"}, default="mode"
            Which value of the predicted distribution is returned: the most probable one, the median or the mean. "mean"
            is for numbers and for levels that are numbers; for other ordered levels it gives the median. "auto" is the
            most probable label, and the median of a number.
        given : dict, str or list of str, optional
            Conditions on other columns, such as "age >= 45" or `{"age": tb.at_least(45)}`. In every row they are used
            in place of the cell of that column; the other cells of the row stay.
        method : {"auto", "exact", "gibbs", "mean-field"}, default="auto"
            How to compute. "exact" sums over all states of the hidden units; "mean-field" is a fast approximation;
            "gibbs" draws random samples and is slow. "auto" is `method_`: "exact" for up to 12 hidden units (a factor
            counts as five), or 13 in a table of up to 40 sites if the model was not trained by prediction; otherwise
            "mean-field", whose error `check_method` measures.
        items : list or dict of lists, optional
            For lists (`Ratings`), the items that you ask about; `{column: items}` if there are several lists. By
            default the items that the row has rated, each predicted from the other cells. A cell of the result is
            {item: score}.

        Returns
        -------
        table
            In the same library as X (pandas, polars, ...), with the labels and units of the data. A pandas frame has
            the method that was used in `attrs["thurbo_method"]`.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> sorted(model.predict(table, ["fan", "trust"]))
        ['fan', 'trust']
        """
        named = [] if columns is None else np.atleast_1d(columns).tolist()
        asked = self._read(X, given, asked_about=named)
        predict.check_items(self.schema_, items)
        names = self.schema_.modelled if columns is None else named
        question = self._question(asked, method)
        with monitor.progress(len(names), self.verbose if len(names) > 1 else False, predict.STAGE) as on_column:
            found = predict.table(question, names, statistic, items, on_column)
        owner = asked.table.owner  # a long table is answered with the names of its rows
        predicted = build.like(asked.table, found if owner is None else {owner: asked.table.rows, **found})
        return build.with_method(predicted, question.how.method)

    def impute(
        self,
        X: Any,
        statistic: Statistic = "auto",
        method: str = "auto",
        items: Any = None,
        fill: Any = (),
        flag: bool = False,
    ) -> Any:
        """Fill in empty cells; all other cells do not change.

        Values that are declared missing (`missing={9: "Refused"}`) are answers of another kind and stay, unless `fill`
        names them. So do empty cells of questions that the row was not asked (`schema_.skips`): a question with "asked
        only if" is filled in only if its gate, given or imputed, leads to it. Numbers get the decimals of the column,
        and stay within the range that was observed in training. If an answer uses several columns of the table (a
        ranking, a multiple choice), it is filled in only where all of them are empty.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        statistic : {"auto", "mode", "median", "mean"}, default="auto"
            Which value of the predicted distribution is filled in, as in `predict`. "auto" is the most probable label,
            and the median of a number. Means are not rounded.
        method : {"auto", "exact", "gibbs", "mean-field"}, default="auto"
            How to compute. "exact" sums over all states of the hidden units; "mean-field" is a fast approximation;
            "gibbs" draws random samples and is slow. "auto" is `method_`: "exact" for up to 12 hidden units (a factor
            counts as five), or 13 in a table of up to 40 sites if the model was not trained by prediction; otherwise
            "mean-field", whose error `check_method` measures.
        items : list or dict of lists, optional
            For lists (`Ratings`) and orders in one cell, items that are added in each row that lacks them;
            `{column: items}` if there are several lists. By default lists do not change.
        fill : str or list of str, optional
            Kinds of missing answers to fill in too, by their names: `fill="Refused"`, or "not applicable" for questions
            that were not asked; "all" for all of them.
        flag : bool, default=False
            Add columns that say which cells were imputed and how sure they are, beside each column `name` with imputed
            cells: `name_imputed` (true or false) and `name_probability`, the probability of the imputed label (of
            several options, of the least certain one; of an order, of its first item). For a number it is
            `name_margin`, half of the width of its 90 % interval. If a name is taken, "_2" is added.

        Returns
        -------
        table
            A copy of X, in the same library. A pandas frame has the method in `attrs["thurbo_method"]`.

        Raises
        ------
        ThurboError
            If `fill` names a kind that no column declares.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> full = model.impute(table)
        >>> any(cell is None for cells in full.values() for cell in cells)
        False
        """
        asked, kinds = self._read(X), draws.kinds_named(self.schema_, fill)
        question = self._question(asked, method)
        gaps = draws.gaps(self.schema_, asked.table, asked.blocks, kinds)
        found = draws.guesses(question, gaps, statistic, how_sure=flag)
        gaps = not_asked.settle(self.schema_, asked.table, gaps, kinds, found.cells, found.certainty)
        where = {name: missing for each in gaps.values() for name, missing in each.items()}
        predict.check_items(self.schema_, items)
        lists = draws.with_items(question, asked.table, items, statistic)
        filled = build.replace(asked.table, {name: found.cells[name] for name in where}, where, lists)
        sure = draws.flags(asked.table.names, where, found.certainty) if flag else {}
        return build.with_method(build.with_columns(filled, sure) if flag else filled, question.how.method)

    def impute_draws(
        self,
        X: Any,
        n: int = 5,
        refits: int = 0,
        random_state: Any = None,
        method: str = "auto",
        items: Any = None,
        fill: Any = (),
    ) -> list[Any]:
        """Multiple imputation: several completed tables, in which missing cells are drawn at random.

        All empty cells of a row are drawn together, so that they fit each other. Other cells do not change. An
        interval, a band or a censored number is an observed cell too; so is a declared missing value. Questions that
        the row was not asked stay empty, as in `impute`; if the gate is drawn, its answer can differ between tables.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        n : int, default=5
            Number of completed tables.
        refits : int, default=0
            Fit the model again to this many bootstrap samples of X, and take the draws from these models in turn. The
            draws then include the uncertainty of the parameters.
        random_state : int, RandomState or None, default=None
            Seed of the draws. With None, draws differ between calls.
        method : {"auto", "exact", "gibbs", "sequential"}, default="auto"
            "exact" draws hidden units from the probabilities of all their states, "gibbs" by Gibbs sampling, and then
            the cells given the hidden units. "sequential" draws the missing cells of a row one after another, in random
            order, each from its predictive distribution. "auto" is "exact" for few units; otherwise "sequential" for
            models that were trained by prediction (`objective_ == "multi-prediction"`), and "gibbs" for others, for
            lists, and if there are inequalities between columns.
        items : list or dict of lists, optional
            As in `impute`.
        fill : str or list of str, optional
            As in `impute`.

        Returns
        -------
        list of tables
            In the same library as X (pandas, polars, ...). `tb.pool` combines estimates from these tables.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> len(model.impute_draws(table, n=2, random_state=0))
        2
        """
        asked, completed = self._read(X), []
        kinds = draws.kinds_named(self.schema_, fill)
        predict.check_items(self.schema_, items)
        for share in draws.shares(n, refits, asked.table.n_rows, check_random_state(random_state)):
            model, rows = self, asked
            if share.weight is not None:
                sizes = {"n_hidden": self.params_.n_hidden, "n_factors": self.params_.n_factors}
                model = clone(self).set_params(schema=self.schema_, random_state=share.seed, verbose=False, **sizes)
                rows = model._fit(asked.table, share.weight, drop=False)._finished()._read(asked.table)
            for member, own_rows, own_share in model._shares(rows, share):
                cell_by_cell = method == "auto" and member._is_by_prediction and items is None
                own = "sequential" if cell_by_cell and not own_rows.evidence.spans_cells else method
                question = member._question(own_rows, "mean-field" if own == "sequential" else "auto")
                offsets = member._offsets() if own == "sequential" else None
                completed += draws.complete(question, asked.table, own_share, own, items, kinds, offsets)
        return completed

    def _shares(self, rows: Asked, share: draws.Share) -> list[tuple[Self, Asked, draws.Share]]:
        """Members and the draws that come from each: whole tables, in proportion to the weights of members."""
        if self._population is None:
            return [(self, rows, share)]
        rng = np.random.default_rng(share.seed)
        counts = rng.multinomial(share.n, self._population.generative_weights).tolist()
        found = []
        for place, ((view, own), n) in enumerate(zip(self._asked_of(rows, generative=True), counts, strict=True)):
            if n:
                found.append((view, own, share._replace(n=n, seed=(share.seed + place) % 2**31)))
        return found
