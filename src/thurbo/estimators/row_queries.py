"""§4.4, §6, A.1.3, A.2.4 Queries about whole rows and the model itself: samples, log P(e), evaluation, segments."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import jax
import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thurbo import _runtime
from thurbo.errors import ThurboError, check_choice
from thurbo.estimators.fitted_model import Asked, Given, weights
from thurbo.estimators.relation_queries import RelationQueries
from thurbo.evidence.pack import Reading, pack
from thurbo.io import build
from thurbo.io.table import as_table
from thurbo.queries import diagnose, inequalities, methods, predict, sample, score, seen
from thurbo.queries.evaluate import masked as evaluate
from thurbo.queries.evaluate.evaluation import Evaluation
from thurbo.queries.sample import Condition
from thurbo.queries.scaling import scaled
from thurbo.queries.segments import Segments, segments
from thurbo.schema import routing


class RowQueries(RelationQueries):
    """Methods of `TBM` about rows as a whole and about the model."""

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
            "sequential" draws the cells of a row one after another, in random order, each from its predictive
            distribution given the cells before it. It is right for models that were trained by prediction, and "auto"
            uses it for them (`objective_ == "multi-prediction"`), except for models of up to 12 hidden units (a factor
            counts as five), for lists, and for inequalities between columns. "gibbs" draws from the joint distribution
            of the hidden units and variables: right for small models, and for models that were
            trained by the likelihood. "modes" gives typical rows without noise: the local maxima of the model's
            probability (A.1.3 of the paper).
        random_state : int, RandomState or None, default=None
            Seed of the draws. With None, draws differ between calls.
        items : list or dict of lists, optional
            For lists (`Ratings`), the items that get scores; `{column: items}` if there are several lists. By default
            all items, if there are not many.

        Returns
        -------
        table
            New rows with the columns of the schema, in the library of the training table (pandas, polars, ...). A
            pandas frame has the method that was used in `attrs["thurbo_method"]`. If the model was fitted with weights,
            the new rows already follow the weighted data, so they have no weights. Questions that a row would not have
            been asked (`schema_.skips`) are empty.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> len(model.sample(3, given="fan = yes", random_state=0)["age"])
        3
        """
        check_is_fitted(self, "params_")
        _runtime.prepare()
        check_choice("method", method, ("auto", "sequential", "gibbs", "modes"))
        if not isinstance(n, Integral) or int(n) < 0:
            raise ThurboError(f"n={n!r} is not a number of rows; give a whole number of at least 0")
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        predict.check_items(self.schema_, items)
        if given is not None and self.schema_.skips:
            given = routing.implied(self.schema_, self.schema_.skips, self._conditions(given))
        condition = self._one_row(given, items) if given is not None or self.schema_.listed else None
        spans = condition is not None and condition.evidence.spans_cells
        if method == "auto":
            method = "sequential" if self._is_by_prediction and not spans else "gibbs"
        if method == "sequential" and (self.schema_.listed or spans):
            what = "lists" if self.schema_.listed else "inequalities between columns"
            raise ThurboError(f'method="sequential" has no {what}; use method="gibbs"')
        if self._population is None:
            found = self._new_rows(int(n), condition, method, seed)
        else:
            found = self._rows_of_members(int(n), None if condition is None else (given, items), method, seed)
        return build.with_method(build.frame(self.frame_kind_, found), method)

    def _rows_of_members(
        self, n: int, given: tuple[Given, Any] | None, method: str, seed: int
    ) -> dict[str, np.ndarray]:
        """Columns of new rows, each by one member, in proportion to the weights of members."""
        assert self._population is not None
        rng, parts = np.random.default_rng(seed), list[dict[str, np.ndarray]]()
        counts = rng.multinomial(n, self._population.generative_weights).tolist()
        for place, (view, count) in enumerate(zip(self._views(generative=True), counts, strict=True)):
            if count or not parts:
                own = None if given is None else view._one_row(*given)
                parts.append(view._new_rows(count, own, method, seed + place))
        order = rng.permutation(n)
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    def _new_rows(self, n: int, condition: Condition | None, method: str, seed: int) -> dict[str, np.ndarray]:
        """Columns of new rows by one member."""
        key, asked = jax.random.key(seed % 2**31), (self.params_, self.schema_, condition, n)
        if method == "sequential":
            return sample.sequential_table(key, *asked, self._how("mean-field"), self._offsets())
        return sample.table(key, *asked, method)

    def _one_row(self, given: Given, items: Any) -> Condition:
        """The evidence of one row that says nothing but `given`, with the items to draw in its lists."""
        nobody = as_table({" ": [None]})  # one row, without any column of the schema
        blocks, evidence = self._pack(nobody, given, missing_columns="ignore")
        if not self.schema_.listed:
            return Condition(blocks, evidence.replaced(lambda one: one._replace(present=None)))
        for name in self.schema_.listed:
            asked = sample.asked_items(self.schema_, name, items)
            blocks[name] = sample.with_free_items(blocks[name], asked)
        cuts = np.asarray(self.params_.gauge.cuts, np.float64)
        reading = Reading(self.schema_.names, self.schema_.site_names, [0], cuts)
        return Condition(blocks, pack(blocks.values(), "exclude", reading=reading, free_lists=True))

    def inequalities(self, X: Any, row: int, given: Given = None) -> inequalities.Inequalities:
        """What the cells of one row say about the latent variables x, in words and as b ≤ A x ≤ c (Eq. 5).

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        row : int
            Position of the row, from 0.
        given : dict, str or list of str, optional
            Conditions on other columns, such as "age >= 45" or `{"age": tb.at_least(45)}`. In every row they are used
            in place of the cell of that column; the other cells of the row stay.

        Returns
        -------
        Inequalities
            Print it to read it in words; `A`, `b` and `c` are attributes.
        """
        asked = self._read(X, given)
        if not isinstance(row, Integral) or not -asked.table.n_rows <= row < asked.table.n_rows:
            raise ThurboError(f"row={row!r} is not one of the {asked.table.n_rows} rows; they are numbered from 0")
        return inequalities.inequalities(self.params_, self.schema_, asked.evidence, int(row) % asked.table.n_rows)

    def score_samples(self, X: Any, return_se: bool = False, method: str = "auto") -> Any:
        """Log-likelihood of each row: the log-probability of all its observed cells together, in nats.

        Numbers count by their density in the units of the data. The result for a row does not depend on the other rows.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        return_se : bool, default=False
            Also return standard errors; they are 0 if the value is exact.
        method : {"auto", "exact", "sequential", "annealed", "importance", "conservative"}, default="auto"
            "exact" sums over all states of the hidden units. "sequential" is the chain rule: the cells of a row one
            after another, each given the cells before it, averaged over random orders of the cells; its standard error
            is that of this average. "annealed" is annealed importance sampling of the row and of the normalising
            constant; its standard errors can be trusted. "importance" is simple importance sampling: about 30 times
            as fast, but too low for rows that are unusual for the model, and its standard errors do not show it.
            "conservative" averages over samples of the model (A.2.4 of the paper); it is too low on average.
            "auto" is "exact" if the model is small enough (`method_`). For larger models it is "sequential" if they
            were trained by prediction (`objective_ == "multi-prediction"`), since only these probabilities were
            trained, and "annealed" if not, or if the model has lists.

        Returns
        -------
        ndarray of shape (n_rows,), or a pair of them with `return_se=True`

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> model.score_samples(table).shape
        (6,)
        """
        value, error = self._log_probability(self._read(X), method)
        return (value, error) if return_se else value

    def _log_probability(self, asked: Asked, method: str = "auto") -> tuple[np.ndarray, np.ndarray]:
        if self._population is not None:
            found = [view._log_probability(own, method) for view, own in self._asked_of(asked, generative=True)]
            logs = np.stack([each[0] for each in found]) + np.log(self._population.generative_weights)[:, None]
            value = logsumexp(logs, axis=0)
            errors = np.exp(logs - value) * np.stack([each[1] for each in found])
            return value, np.sqrt((errors**2).sum(axis=0))
        if method == "auto" and self._is_by_prediction and not asked.evidence.spans_cells:
            method = "sequential"
        value, error = score.score(self.params_, asked.evidence, method, how=self._how("mean-field"))
        return value + sum(block.sum_in_row(block.log_jacobian) for block in asked.blocks.values()), error

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
        asked = self._read(X)
        weight = weights(self.schema_, asked.table, sample_weight, "ignore")
        return score.mean(self._log_probability(asked)[0], weight)

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

        A share of the answers of X is hidden ("masked"), and each is predicted from the rest of its row. The first
        baseline always predicts the frequencies of the column. The second is a regression of each column on all other
        columns (logistic, or ridge for numbers), the third gradient boosting of each column on all others. They are
        fitted to the answers of X that are not hidden. If a regression has more than 300 features, it uses their first
        64 principal components. Give rows that were not used in `fit`; otherwise the model has already seen the
        answers, and the result says so (`n_seen_rows`). `tb.evaluate` hides answers before it fits the model.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        hide : float, default=0.1
            Share of the answers that are hidden, between 0 and 1.
        random_state : int, RandomState or None, default=None
            Seed for the choice of hidden answers. With None, they differ between calls.
        logistic : bool, default=True
            Whether to fit the regression baseline, which takes time.
        boosting : bool, default=False
            Whether to fit gradient boosting of each column, which takes more time.
        method : {"auto", "exact", "gibbs", "mean-field"}, default="auto"
            How to compute. "exact" sums over all states of the hidden units; "mean-field" is a fast approximation;
            "gibbs" draws random samples and is slow. "auto" is `method_`: "exact" for up to 12 hidden units (a factor
            counts as five), or 13 in a table of up to 40 sites if the model was not trained by prediction; otherwise
            "mean-field", whose error `check_method` measures.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row. If the schema and X have a `Weight` column, the two are multiplied.
            In rows of weight 0 nothing is hidden.

        Returns
        -------
        Evaluation
            Accuracy, log score, errors and calibration, for each column and overall. Print it to see a table.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> found = model.evaluate(table, hide=0.3, random_state=0, logistic=False)
        >>> found.overall["n_cells"] > 0
        True
        """
        asked, rng = self._read(X), check_random_state(random_state)
        weight = weights(self.schema_, asked.table, sample_weight, "ignore")
        read = evaluate.Asked(
            asked.table, self.schema_, asked.blocks, lambda shown: self._question(self._read(shown), method)
        )
        chosen = evaluate.chosen_baselines(logistic, boosting)
        is_seen = seen.are_seen(asked.blocks.values(), self._seen_rows)
        return evaluate.evaluate(read, hide=hide, rng=rng, baselines=chosen, weight=weight, seen=is_seen)

    def segments(self, X: Any, n: Any = "auto", random_state: Any = None, *, sample_weight: Any = None) -> Segments:
        """Divide the rows into segments, and describe each segment by its most typical answers.

        The segments are clusters of k-means on the hidden units (log-odds) and factors of `transform`; each counts by
        how much of it the answers determine. Features are exact for small models and otherwise approximate (`method_`,
        `check_method`). Rows without groups can be divided too: the result says in its first lines whether the segments
        stand apart.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        n : int, range or "auto", default="auto"
            Number of segments, or a range to choose from. "auto" tries 2 to 10 and takes the number whose segments
            stand apart, and of several such numbers that of the largest silhouette. If none do, it takes the largest
            number from 3 to 6 that is stable: bootstrap samples of the rows must give nearly the same segments
            (adjusted Rand index of at least 0.8). Rows with few answers, if there are any, are one of the segments.
        random_state : int, RandomState or None, default=None
            Has no effect: the same rows give the same segments, in the report and on the command line, too.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row. If the schema and X have a `Weight` column, the two are multiplied.

        Returns
        -------
        Segments
            `labels` of the rows, sizes, stability and descriptions. Print it to see a table.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> model.segments(table, n=2, random_state=0).labels.shape
        (6,)
        """
        asked, features = self._read(X), self.transform(X, output="log_odds")
        weight = weights(self.schema_, asked.table, sample_weight, "ignore")
        points = scaled(features, self.params_.n_hidden, weight)
        return segments(self.schema_, asked.blocks, points, weight, n)

    def log_partition(self) -> tuple[float, float]:
        """Logarithm of the normalising constant Z of the model (the partition function), including (N/2) log 2π.

        Returns
        -------
        value, standard_error : float
            The standard error is 0.0 if the value is exact (up to 20 hidden units).
        """
        check_is_fitted(self, "params_")
        return score.log_partition(self.params_)

    def check_method(self, X: Any, rows: Any = 8, random_state: Any = None) -> methods.MethodCheck:
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
            The method, and largest and mean difference in `transform`, `predict_proba` and `predict_interval`. Print it
            to see a table.

        Examples
        --------
        With `model` and `table` of the example of `TBM`:

        >>> print(model.check_method(table))
        method  exact: sums over all states of the hidden units, so there is no error to check
        """
        asked = self._read(X)
        chosen = diagnose.chosen_rows(rows, asked.table.n_rows, check_random_state(random_state))
        question = self._question(asked)
        return methods.check(
            question.rows(chosen), np.asarray(asked.table.rows)[chosen], score.can_enumerate(self.params_)
        )

    def diagnostics(
        self, X: Any, n_chains: int = 4, n_draws: int = 200, rows: Any = 16, random_state: Any = None
    ) -> diagnose.Diagnostics:
        """Check the Gibbs sampler: do its chains agree, and which hidden units hardly ever change?

        Chains are run given some rows of X, and also without data. Install `thurbo[diagnostics]` to use it.

        Parameters
        ----------
        X : table
            Rows with all columns of the fitted schema; cells can be missing.
        n_chains : int, default=4
            Chains per row.
        n_draws : int, default=200
            Draws per chain that are used. As many draws before them are discarded (burn-in).
        rows : int or list of int, default=16
            Number of rows to choose at random, or the positions of the rows.
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
        asked = self._read(X)
        found = diagnose.diagnose(
            self.params_,
            asked.evidence,
            self._how("auto"),
            labels=asked.table.rows,
            converged=bool(self.converged_),
            n_chains=n_chains,
            n_draws=n_draws,
            rows=rows,
            random=check_random_state(random_state),
        )
        diagnose.warn(found)
        return found
