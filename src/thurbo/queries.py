"""§4.1, §4.3, §4.4, §6 Queries of a fitted model: each turns a table into rows, reads the predictive distribution, and
gives the answer in the user's labels and units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from os import PathLike
from typing import Any, Literal

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thurbo import _runtime
from thurbo.errors import SchemaError, ThurboError, check_choice
from thurbo.fit import course, planning
from thurbo.latent.rbm import Params
from thurbo.parts import in_pieces, rowwise
from thurbo.predict import answers, chain, dependence, diagnose, draws, evaluation, joint
from thurbo.predict.dependence import Dependence
from thurbo.predict.evaluation import Evaluation
from thurbo.predict.model import Gaps, Model, Query, Rows
from thurbo.predict.moments import features
from thurbo.predict.segments import Segments, scaled, segments
from thurbo.table.columns.statements import parse_conditions
from thurbo.table.io import frames
from thurbo.table.io.frames import Table, as_table
from thurbo.table.io.scan import Scan
from thurbo.table.schema import routing
from thurbo.table.schema.schema import Schema

Given = Mapping[str, Any] | Sequence[str] | str | None
Statistic = Literal["auto", "mode", "median", "mean"]
Out = str | PathLike[str] | None
ENDS = "lower", "upper"
EVALUATED = 20_000  # rows of a scanned table, at most


def weights(
    schema: Schema, table: Table, sample_weight: Any, missing_columns: Literal["error", "ignore"] = "error"
) -> np.ndarray:
    """How much each row counts: by the schema's Weight column, times `sample_weight`."""
    given = planning.row_weights(sample_weight, table.n_rows)
    own = schema.weights(table, missing_columns=missing_columns)
    return given if own is None else planning.row_weights(given * own, table.n_rows)


def _score_names(given: Mapping[str, Any]) -> list[str]:
    """Columns of what `score_samples` returns."""
    names = ["log_probability", *(["standard_error"] if given["return_se"] else [])]
    return names + (["lower", "upper"] if given["return_bounds"] else [])


class Queries(TransformerMixin):
    """Methods of `TBM` that ask a fitted model: hidden units, predictions, imputation, samples, scores, segments.

    Their examples have the `model` and `table` of the example of `TBM`.
    """

    model_: Model
    frame_kind_: str
    converged_: bool
    n_features_in_: int
    verbose: Any
    _seen_rows: np.ndarray = np.zeros(0, np.uint32)  # numbers of the training rows: see predict.evaluation

    @property
    def schema_(self) -> Schema:
        """The columns of the model, with the labels and scales that `fit` found in the data."""
        return self._fitted().schema

    @property
    def params_(self) -> Params:
        """All parameters of the leading member as JAX arrays."""
        return self._fitted().params

    def _fitted(self) -> Model:
        """The model; raises scikit-learn's error before a fit."""
        check_is_fitted(self, "model_")
        return self.model_

    def _ready(self) -> Model:
        """The model, which is about to be asked."""
        model = self._fitted()
        _runtime.prepare()
        return model

    def _table(self, X: Any) -> Table:
        """A table in memory, which every query reads once, here; columns of an array are those of the fit, in order."""
        self._ready()
        table = as_table(X)
        if table.kind == "numpy":
            if len(table.names) != self.n_features_in_:
                # In scikit-learn's words, which its own checks of estimators look for.
                problem = f"X has {len(table.names)} features, but TBM is expecting {self.n_features_in_} features"
                raise SchemaError(f"{problem} as input", remedy="give the columns of the table it was fitted to")
            table = replace(table, names=tuple(getattr(self, "feature_names_in_", table.names)))
        if table.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row")
        return table

    def _read(self, X: Any, given: Given = None, gaps: str = "auto", predicted: Sequence[str] = ()) -> Rows:
        """A table as the model reads it, with `given` in the place of some columns' cells; not of those predicted."""
        conditions = parse_conditions(given, self.schema_)
        for name in predicted:
            self.schema_[name]  # raises an error for an unknown column
            if name in conditions:
                remedy = "leave it out of given, or ask about another column"
                raise SchemaError("given speaks of the column that is asked about", column=name, remedy=remedy)
        return self.model_.read(as_table(X), conditions, gaps)

    def _query(
        self, X: Any, given: Given = None, method: str = "auto", gaps: str = "auto", predicted: Sequence[str] = ()
    ) -> Query:
        """A table put to the model."""
        return self._fitted().query(self._read(X, given, gaps, predicted), method)

    @rowwise(lambda model, found, _: dict(zip(model.get_feature_names_out(), found.T, strict=True)))
    def transform(
        self, X: Any, output: Literal["probability", "log_odds"] = "probability", *, out: Out = None
    ) -> np.ndarray:
        """Features of each row: the probability that each hidden unit is on, then the mean of each factor.

        They are those of the leading member, and do not depend on other rows. Small models compute them exactly, others
        by the approximation "mean-field" (`method_`), whose error `check_method` measures.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        output : {"probability", "log_odds"}, default="probability"
            Whether hidden units are given as probabilities or as log-odds.
        out : path, optional
            A folder for the results as Parquet files, one for every 131,072 rows, or one .parquet file: then its path
            is returned. Without it, a scanned table (`tb.scan`) gives an iterator over the results of its pieces. A
            query of the same rows goes on with a folder where it ended: files that are there are kept.

        Returns
        -------
        ndarray of shape (n_rows, n_hidden + n_factors)

        Examples
        --------
        >>> model.transform(table, output="log_odds").shape
        (6, 2)
        """
        check_choice("output", output, ("probability", "log_odds"))
        return self._features(self._read(X), output)

    def _features(self, rows: Rows, output: str = "probability") -> np.ndarray:
        how = self.model_.how("auto")
        found = rows.evidence.by_chunks(lambda own: features(self.params_, own, how))
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
        names = [f"hidden{k}" for k in range(self.params_.n_hidden)]
        return np.asarray(names + [f"factor{f}" for f in range(self.params_.n_factors)], object)

    @rowwise(lambda model, found, given: answers.named_probabilities(model.schema_, found, given["column"]))
    def predict_proba(
        self,
        X: Any,
        column: str | None = None,
        given: Given = None,
        method: str = "auto",
        items: Any = None,
        *,
        gaps: Gaps = "auto",
        out: Out = None,
    ) -> np.ndarray:
        """Probability of each possible answer, given all other cells of the row.

        The cell of `column` itself is not used; it can be missing, but X must have the column. Other rows do not count.
        If the row was not asked this question (`schema_.skips`), the result is for the case that it had been.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        column : str, optional
            The column to predict. By default all columns with labels, next to each other, in the order of the schema.
        given : dict, str or list of str, optional
            Conditions on other columns, such as "age >= 45" or `{"age": tb.at_least(45)}`. In every row they are used
            in place of the cell of that column; the other cells of the row stay.
        gaps : {"auto", "informative", "ignorable"}, default="auto"
            Whether empty cells are evidence, for models that use them (`missing`). "auto": in rows that answer at least
            half as many of the questions that everybody is asked as the median training row; a row with a few answers
            typed in is not a respondent who skipped the rest.
        method : {"auto", "exact", "gibbs", "mean-field"}, default="auto"
            How to compute. "exact" sums over all states of the hidden units; "mean-field" is a fast approximation;
            "gibbs" draws random samples and is slow. "auto" is `method_`: "exact" for up to 12 hidden units (a factor
            counts as five), or 13 in a table of up to 40 sites if the model was not trained by prediction; otherwise
            "mean-field", whose error `check_method` measures.
        items : list, optional
            For a list (`Ratings` by levels or order), the items that you ask about. For levels, the result has shape
            (n_rows, n_items, n_levels). For orders, it has shape (n_rows, n_items): P(item is the best of these).
        out
            As in `transform`.

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
        >>> model.schema_["trust"].labels
        ('low', 'mid', 'high')
        >>> model.predict_proba(table, "trust").shape
        (6, 3)
        >>> older = model.predict_proba(table, "fan", given="age >= 45")
        """
        named = [] if column is None else [column]
        query = self._query(X, given, method, gaps, named)
        answers.check_items(self.schema_, items)
        return answers.all_probabilities(query) if column is None else answers.probabilities(query, column, items)

    @rowwise(lambda _, found, given: {f"{given['column']} {end}": found[:, k] for k, end in enumerate(ENDS)})
    def predict_interval(
        self,
        X: Any,
        column: str,
        level: float = 0.9,
        given: Given = None,
        method: str = "auto",
        items: Any = None,
        *,
        gaps: Gaps = "auto",
        out: Out = None,
    ) -> np.ndarray:
        """Interval that contains the cell with probability `level`, given all other cells of the row.

        It is central: the cell is below it and above it with equal probability.

        Parameters
        ----------
        X, given, method, gaps, out
            As in `predict_proba`.
        column : str
            A column of numbers or of ordered levels.
        level : float, default=0.9
            Probability of the interval.
        items : list, optional
            For a list (`Ratings`), the items that you ask about. The result has shape (n_rows, n_items, 2).

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Lower and upper end, in the units of the data. For ordered levels, the lowest and the highest label of the
            interval; its probability is at least `level`.

        Examples
        --------
        >>> model.predict_interval(table, "age", level=0.8).shape
        (6, 2)
        """
        query = self._query(X, given, method, gaps, [column])
        answers.check_items(self.schema_, items)
        return answers.interval(query, column, level, items)

    @rowwise()
    def predict(
        self,
        X: Any,
        columns: Any = None,
        statistic: Statistic = "mode",
        given: Given = None,
        method: str = "auto",
        items: Any = None,
        *,
        gaps: Gaps = "auto",
        out: Out = None,
    ) -> Any:
        """Predict each cell from all other cells of its row, also of questions that the row was not asked.

        Numbers get the decimals of their column, and stay within the range that was observed in training; a "mean" is
        not rounded. A category that joins several answers ("other (12 more)") is never predicted; the most probable of
        the others is. For several columns, progress is shown as in `fit` (`verbose`).

        Parameters
        ----------
        X, given, method, gaps, out
            As in `predict_proba`.
        columns : str or list of str, optional
            Columns to predict. By default all columns of the model.
        statistic : {"mode", "median", "mean", "auto"}, default="mode"
            Which value of the predicted distribution is returned: the most probable one, the median or the mean. "mean"
            is for numbers and for levels that are numbers; for other ordered levels it gives the median. "auto" is the
            most probable label, and the median of a number.
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
        >>> sorted(model.predict(table, ["fan", "trust"]))
        ['fan', 'trust']
        """
        named = [] if columns is None else np.atleast_1d(columns).tolist()
        answers.check_items(self.schema_, items)
        names = self.schema_.modelled if columns is None else named

        def ask(part: Table) -> dict[str, np.ndarray]:
            query = self._query(part, given, method, gaps, named)
            return answers.table(query, names, statistic, items, on_column)

        with course.progress(len(names), self.verbose if len(names) > 1 else False, answers.STAGE) as on_column:
            found = in_pieces(X, ask)
        # A long table is answered with the names of its rows.
        predicted = frames.like(X, found if X.owner is None else {X.owner: X.rows, **found})
        return frames.with_method(predicted, self.model_.how(method).method)

    @rowwise()
    def impute(
        self,
        X: Any,
        statistic: Statistic = "auto",
        method: str = "auto",
        items: Any = None,
        fill: Any = (),
        flag: bool = False,
        *,
        gaps: Gaps = "auto",
        out: Out = None,
    ) -> Any:
        """Fill in empty cells; all other cells do not change.

        Values that are declared missing (`missing={9: "Refused"}`) are answers of another kind and stay, unless `fill`
        names them. So do empty cells of questions that the row was not asked (`schema_.skips`): a question with "asked
        only if" is filled in only if its gate, given or imputed, leads to it. Numbers get the decimals of the column,
        and stay within the range that was observed in training. If an answer uses several columns of the table (a
        ranking, a multiple choice), it is filled in only where all of them are empty.

        Parameters
        ----------
        X, method, gaps, out
            As in `predict_proba`.
        statistic : {"auto", "mode", "median", "mean"}, default="auto"
            Which value of the predicted distribution is filled in, as in `predict`. "auto" is the most probable label,
            and the median of a number. Means are not rounded.
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
        >>> full = model.impute(table)
        >>> any(cell is None for cells in full.values() for cell in cells)
        False
        """
        kinds = answers.kinds_named(self.schema_, fill)
        answers.check_items(self.schema_, items)

        def ask(part: Table) -> answers.Filled:
            rows = self._read(part, gaps=gaps)
            query, how = self.model_.query(rows, method), (statistic, kinds, items, flag)
            return answers.filled(query, rows, *how)

        found = in_pieces(X, ask, answers.Filled.joined)
        filled = frames.replace_cells(X, found.cells, found.where, found.lists)
        sure = answers.flags(X.names, found.where, found.certainty) if flag else {}
        return frames.with_method(frames.with_columns(filled, sure) if flag else filled, self.model_.how(method).method)

    def impute_draws(
        self,
        X: Any,
        n: int = 5,
        refits: int = 0,
        random_state: Any = None,
        method: str = "auto",
        items: Any = None,
        fill: Any = (),
        *,
        gaps: Gaps = "auto",
    ) -> list[Any]:
        """Multiple imputation: several completed tables, in which missing cells are drawn at random.

        All empty cells of a row are drawn together, so that they fit each other. Other cells do not change. An
        interval, a band or a censored number is an observed cell too; so is a declared missing value. Questions that
        the row was not asked stay empty, as in `impute`; if the gate is drawn, its answer can differ between tables.

        Parameters
        ----------
        X, items, fill, gaps
            As in `impute`.
        n : int, default=5
            Number of completed tables.
        refits : int, default=0
            Fit the model again to this many bootstrap samples of X, and take the draws from these models in turn. The
            draws then include the uncertainty of the parameters.
        random_state : int, RandomState or None, default=None
            Seed of the draws. With None, draws differ between calls.
        method : {"auto", "exact", "gibbs", "sequential"}, default="auto"
            "sequential" draws the missing answers of a row one after another, in random order, each from its predictive
            distribution given those before it: the chain rule over `predict_proba`. "exact" and "gibbs" belong to the
            joint distribution of the leading member: hidden units by enumeration or by Gibbs sampling, then the cells
            given the hidden units. "auto" is "exact" for a single member with few units and "gibbs" for one that was
            trained by likelihood, or if there are inequalities between columns; otherwise it is "sequential".

        Returns
        -------
        list of tables
            In the same library as X (pandas, polars, ...). `tb.pool` combines estimates from these tables.

        Examples
        --------
        >>> len(model.impute_draws(table, n=2, random_state=0))
        2
        """
        rows, completed = self._read(self._table(X), gaps=gaps), []
        kinds = answers.kinds_named(self.schema_, fill)
        answers.check_items(self.schema_, items)
        for share in draws.shares(n, refits, rows.table.n_rows, check_random_state(random_state)):
            fitted, own = self, rows
            if share.weight is not None:
                sizes = {"n_hidden": self.params_.n_hidden, "n_factors": self.params_.n_factors}
                fitted = clone(self).set_params(schema=self.schema_, random_state=share.seed, verbose=False, **sizes)
                own = fitted._fit(rows.table, share.weight, drop=False)._finished()._read(rows.table, gaps=gaps)
            completed += draws.complete(fitted.model_, own, share, method, items, kinds)
        return completed

    def sample(
        self,
        n: int = 1,
        given: Given = None,
        method: Literal["auto", "sequential", "gibbs", "modes"] = "auto",
        random_state: Any = None,
        items: Any = None,
    ) -> Any:
        """Draw new rows from the model.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        given : dict, str or list of str, optional
            Conditions that all new rows satisfy, such as "age >= 45" or `{"age": tb.at_least(45)}`.
        method : {"auto", "sequential", "gibbs", "modes"}, default="auto"
            "sequential" draws the answers of a row one after another, as `impute_draws`; `score_samples` scores them.
            "gibbs" draws from the joint distribution of the leading member, "modes" gives typical rows of it without
            noise: the local maxima of its probability (A.1.3 of the paper). "auto" is "gibbs" for a single member with
            few units or trained by likelihood, and if there are inequalities between columns; otherwise "sequential".
        random_state : int, RandomState or None, default=None
            Seed of the draws. With None, draws differ between calls.
        items : list or dict of lists, optional
            For lists (`Ratings`), the items that get scores; `{column: items}` of several lists. By default all of few.

        Returns
        -------
        table
            New rows with the columns of the schema, in the library of the training table (pandas, polars, ...). A
            pandas frame has the method that was used in `attrs["thurbo_method"]`. If the model was fitted with weights,
            the new rows already follow the weighted data, so they have no weights. Questions that a row would not have
            been asked (`schema_.skips`) are empty.

        Examples
        --------
        >>> len(model.sample(3, given="fan = yes", random_state=0)["age"])
        3
        """
        model = self._ready()
        if not isinstance(n, Integral) or int(n) < 0:
            raise ThurboError(f"n={n!r} is not a number of rows; give a whole number of at least 0")
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        answers.check_items(self.schema_, items)
        conditions = routing.implied(self.schema_, self.schema_.skips, parse_conditions(given, self.schema_))
        found, method = draws.sample(model, int(n), conditions, method, items, seed)
        return frames.with_method(frames.frame(self.frame_kind_, found), method)

    def inequalities(self, X: Any, row: int, given: Given = None) -> diagnose.Inequalities:
        """What the cells of one row say about the latent variables x, in words and as b ≤ A x ≤ c (Eq. 5).

        In the units of the leading member.

        Parameters
        ----------
        X, given : table, conditions
            As in `predict_proba`.
        row : int
            Position of the row, from 0.

        Returns
        -------
        Inequalities
            Print it to read it in words; `A, b, c = …` unpacks it, and `matrix`, `lower` and `upper` are attributes.
        """
        rows = self._read(self._table(X), given)
        n_rows = rows.table.n_rows
        if not isinstance(row, Integral) or not -n_rows <= row < n_rows:
            raise ThurboError(f"row={row!r} is not one of the {n_rows} rows; they are numbered from 0")
        return diagnose.inequalities(self.params_, self.schema_, rows.evidence, int(row) % n_rows)

    @rowwise(lambda _, found, given: dict(zip(_score_names(given), np.atleast_2d(found), strict=True)))
    def score_samples(
        self, X: Any, return_se: bool = False, method: str = "auto", *, return_bounds: bool = False, out: Out = None
    ) -> Any:
        """Log-likelihood of each row: the log-probability of all its observed cells together, in nats.

        Numbers count by their density in the units of the data. The result for a row does not depend on the other rows.

        Parameters
        ----------
        X, out
            As in `transform`.
        return_se : bool, default=False
            Also return standard errors; they are 0 if the value is exact.
        method : {"auto", "sequential", "exact", "annealed"}, default="auto"
            "sequential" is the chain rule over `predict_proba`: the answers of a row one after another, each given
            those before it; the log of the mean over a fixed set of orders of the answers (all orders of up to three).
            Its standard error is that of this mean. Empty cells are no evidence. The other methods belong to the joint
            distribution of the leading member. "exact" sums over all states of the hidden units. "annealed" is annealed
            importance sampling of the row and of the normalising constant, from below and from above: as many
            temperatures as make the bounds narrow (0.1 nats, or 0.0005 for each site), up to a budget; a warning says
            how many rows have wider ones. "auto" is "exact" for a single member with few units, "annealed" for one
            that was trained by likelihood or if there are inequalities between columns, and otherwise "sequential".
        return_bounds : bool, default=False
            Also return a lower and an upper bound of each value. By "annealed" they come from chains that err on
            either side, each with three standard errors; a mode that no chain has met is missing from both. By "exact"
            they are the value itself, or three standard errors away if the probability of an inequality is estimated.
            By "sequential" they are three standard errors away: where the mean over all orders would be.

        Returns
        -------
        ndarray of shape (n_rows,), or tuple: value, and what was asked for of standard error, lower and upper bound

        Examples
        --------
        >>> model.score_samples(table).shape
        (6,)
        """
        value, lower, upper, error = self._scores(X, method)
        asked = (value, *((error,) if return_se else ()), *((lower, upper) if return_bounds else ()))
        return asked if len(asked) > 1 else value

    def _scores(self, table: Any, method: str = "auto") -> joint.Scores:
        """log P of each row. Empty cells say nothing, unless the joint distribution of a single member uses them."""
        model = self.model_
        rows = self._read(table, gaps="auto" if model.is_joint else "ignorable")
        spans = rows.evidence.spans_cells
        check_choice("method", method, ("auto", "sequential", *joint.METHODS[1:]))
        if method == "sequential" and spans:
            raise ThurboError('method "sequential" has no inequalities between columns; use method="annealed"')
        if method == "sequential" or (method == "auto" and not model.is_joint and not spans):
            return joint.Scores.of(*chain.log_prob(model, rows))
        found = joint.score(model.params, rows.evidence, method)
        return found.plus(sum(block.sum_in_row(block.log_jacobian) for block in rows.blocks.values()))

    def score(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> float:
        """Mean log-likelihood of the rows, in nats: the mean of `score_samples` with `method="auto"`.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        y : ignored
            Exists for scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row. If the schema and X have a `Weight` column, the two are multiplied.

        Returns
        -------
        float
        """
        table = self._table(X)
        weight = weights(self.schema_, table, sample_weight, "ignore")
        return joint.weighted_mean(in_pieces(table, lambda part: self._scores(part).value), weight)

    def evaluate(
        self,
        X: Any,
        hide: float = 0.1,
        random_state: Any = None,
        logistic: bool = True,
        method: str = "auto",
        *,
        boosting: bool = False,
        sample_weight: Any = None,
    ) -> Evaluation:
        """Predictive accuracy on masked answers, compared with baselines.

        A share of the answers of X is hidden ("masked"), and each is predicted from the rest of its row. The baselines
        are those of `tb.evaluate`, fitted to the answers of X that are not hidden; regressions on more than 300
        features use their first 64 principal components. Give rows that were not used in `fit`; otherwise the model has
        already seen the answers, and the result says so (`n_seen_rows`). `tb.evaluate` hides answers before it fits.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing. Of a scanned table, 20,000 random rows.
        hide : float, default=0.1
            Share of the answers that are hidden, between 0 and 1.
        random_state : int, RandomState or None, default=None
            Seed for the choice of hidden answers. With None, they differ between calls.
        logistic, boosting : bool, default=True and False
            Whether to fit the regressions, which takes time, and gradient boosting of each column, which takes more.
        method : {"auto", "exact", "gibbs", "mean-field"}, default="auto"
            As in `predict_proba`.
        sample_weight : array-like of shape (n_rows,), optional
            As in `score`. In rows of weight 0 nothing is hidden.

        Returns
        -------
        Evaluation
            Accuracy, log score, errors and calibration, for each column and overall. Print it to see a table.

        Examples
        --------
        >>> found = model.evaluate(table, hide=0.3, random_state=0, logistic=False)
        >>> found.overall["n_cells"] > 0
        True
        """
        rng = check_random_state(random_state)
        if isinstance(X, Scan):
            if sample_weight is not None:
                raise ThurboError("sample_weight is not available for a scanned table; use a Weight column")
            X = X.sample(EVALUATED, int(rng.randint(2**31 - 1)))
        rows = self._read(self._table(X))
        weight = weights(self.schema_, rows.table, sample_weight, "ignore")
        chosen = evaluation.chosen_baselines(logistic, boosting)
        is_seen, read = evaluation.are_seen(rows.blocks.values(), self._seen_rows), partial(self._query, method=method)
        return evaluation.evaluate(rows, read, hide=hide, rng=rng, baselines=chosen, weight=weight, seen=is_seen)

    def segments(self, X: Any, n: Any = "auto", random_state: Any = None, *, sample_weight: Any = None) -> Segments:
        """Divide the rows into segments, and describe each segment by its most typical answers.

        The segments are clusters of k-means on the hidden units (log-odds) and factors of `transform`, which are those
        of the leading member; each counts by how much of it the answers determine. Features are exact for small models
        and otherwise approximate (`method_`, `check_method`). Rows without groups can be divided too: the result says
        in its first lines whether the segments stand apart.

        Parameters
        ----------
        X, sample_weight
            As in `score`.
        n : int, range or "auto", default="auto"
            Number of segments, or a range to choose from. "auto" tries 2 to 10 and takes the number whose segments
            stand apart, and of several such numbers that of the largest silhouette. If none do, it takes the largest
            number from 3 to 6 that is stable: bootstrap samples of the rows must give nearly the same segments
            (adjusted Rand index of at least 0.8). Rows that were not asked most questions, and rows with few
            answers, are segments of their own, if there are any.
        random_state : int, RandomState or None, default=None
            Has no effect: the same rows give the same segments, in the report and on the command line, too.

        Returns
        -------
        Segments
            `labels` of the rows, sizes, stability and descriptions. Print it to see a table.

        Examples
        --------
        >>> model.segments(table, n=2, random_state=0).labels.shape
        (6,)
        """
        rows = self._read(self._table(X))
        weight = weights(self.schema_, rows.table, sample_weight, "ignore")
        points = scaled(self._features(rows, "log_odds"), self.params_.n_hidden, weight)
        out = routing.not_applicable(self.schema_, self.schema_.skips, rows.table)
        return segments(self.schema_, rows.blocks, points, weight, n, out)

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
        >>> model.dependence(table).share.shape
        (3, 3)
        """
        table = self._table(X)
        names = dependence.shared_questions(self.schema_)
        if len(names) < 2 or self.schema_.listed:
            remedy = "use similar_items for lists of items" if self.schema_.listed else "fit more columns"
            raise SchemaError("dependence needs two questions that are not lists", remedy=remedy)
        weight = np.asarray(weights(self.schema_, table, None, "ignore"), np.float64)
        told = dependence.told_rows(self.schema_, self.schema_.compile(table), weight, check_random_state(random_state))
        # That other answers are hidden is no evidence.
        query = self._query(table.take(told.row), gaps="ignorable")
        return dependence.dependence(query, told)

    def log_partition(self, *, return_bounds: bool = False) -> tuple[float, ...]:
        """Logarithm of the normalising constant Z of the model (the partition function), including (N/2) log 2π.

        That of the leading member. Beyond 20 hidden units by annealed importance sampling from both sides.

        Parameters
        ----------
        return_bounds : bool, default=False
            Return a lower and an upper bound instead of the standard error.

        Returns
        -------
        value, standard_error : float
            Or value, lower and upper bound. The standard error is 0.0 if the value is exact (up to 20 hidden units).
        """
        value, lower, upper, error = (float(each[0]) for each in joint.log_partition(self._ready().params))
        return (value, lower, upper) if return_bounds else (value, error)

    def check_method(self, X: Any, rows: Any = 8, random_state: Any = None) -> diagnose.MethodCheck:
        """How large is the error of the method that "auto" uses? Compare it with a better method for some rows.

        Large models predict by an approximation, "mean-field" (`method_`). It is compared with "exact" if the model has
        up to 16 hidden units (a factor counts as five), and otherwise with Gibbs chains of 2,000 draws. A model that
        was trained by prediction has learned to predict by this approximation, so a difference does not mean that
        predictions are worse: use `evaluate` for that. Lists are compared in `transform` only.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        rows : int or list of int, default=8
            Number of rows to choose at random, or the positions of the rows.
        random_state : int, RandomState or None, default=None
            Seed for the choice of rows.

        Returns
        -------
        MethodCheck
            The method; largest and mean difference in `transform`, `predict_proba`, `predict_interval`. Print it.

        Examples
        --------
        >>> print(model.check_method(table))
        method  exact: sums over all states of the hidden units, so there is no error to check
        """
        table = self._table(X)
        read = self._read(table.take(diagnose.chosen_rows(rows, table.n_rows, check_random_state(random_state))))
        labels = np.asarray(read.table.rows)
        return diagnose.check(self.model_.query(read), labels, joint.can_enumerate(self.params_))

    def diagnostics(
        self, X: Any, n_chains: int = 4, n_draws: int = 200, rows: Any = 16, random_state: Any = None
    ) -> diagnose.Diagnostics:
        """Check the Gibbs sampler: do its chains agree, and which hidden units hardly ever change?

        Chains are run given some rows of X, and also without data. Install `thurbo[diagnostics]` to use it.

        Parameters
        ----------
        X, rows : table, int or list of int
            As in `check_method`; by default 16 rows.
        n_chains, n_draws : int, default=4 and 200
            Chains per row, and draws per chain that are used. As many draws before them are discarded (burn-in).
        random_state : int, RandomState or None, default=None
            Seed of the chains and of the choice of rows.

        Returns
        -------
        Diagnostics
            R-hat and effective sample sizes. Print it to see a table.

        Warns
        -----
        ConvergenceWarning
            If the chains do not agree.
        """
        read = self._read(self._table(X))
        found = diagnose.diagnose(
            self.params_,
            read.evidence,
            self.model_.how("auto"),
            labels=read.table.rows,
            converged=bool(self.converged_),
            n_chains=n_chains,
            n_draws=n_draws,
            rows=rows,
            random=check_random_state(random_state),
        )
        diagnose.warn(found)
        return found
