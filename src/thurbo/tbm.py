"""§6 TBM: the scikit-learn face of the Thurstonian Boltzmann machine; and TBMImputer, a transformer that fills cells.

Thin: it turns tables into evidence, hands them to `learning` and `queries`, and turns answers back into tables in the
user's own labels and units. The mathematics is elsewhere.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from html import escape
from os import PathLike
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thurbo import _runtime, model_file, parallel
from thurbo.errors import SchemaError, SchemaWarning, ThurboError, check_choice
from thurbo.fit import choices, course, fitting, lists, planning, population
from thurbo.fit.members import Interrupted, batch_of_all
from thurbo.fit.settings import Learning
from thurbo.fit.stream import WholeTable, sampled
from thurbo.item_queries import ItemQueries
from thurbo.latent import packing
from thurbo.predict import evaluation
from thurbo.predict.items import n_ratings
from thurbo.predict.model import Member, MemberSettings, Model, dependent_pairs, least_answers
from thurbo.queries import Statistic, weights
from thurbo.table.columns import Column
from thurbo.table.io.frames import Table, as_table, library_of, rows_to_array
from thurbo.table.io.long import looks_long
from thurbo.table.io.scan import LARGE, SAMPLE, Scan, TableSource
from thurbo.table.schema.routing import with_answered
from thurbo.table.schema.schema import Schema
from thurbo.table.schema.units import warn_of_swamped_columns


class TBM(ItemQueries, BaseEstimator):
    """Thurstonian Boltzmann machine: one model of all columns of a table; any cell can be missing.

    Fit it to a table. Then predict, impute, sample, segment or rank with the same model.

    Behind the cells of a row are latent (not observed) variables x = α + W h + V z + ε, with binary hidden units h,
    Gaussian factors z and normal noise ε of variance 1. Each cell says where x is: a number gives its value, an ordered
    level gives an interval, a ranking gives an order.

    Parameters
    ----------
    schema : Schema or dict of columns, optional
        The type of each column. By default it is inferred from the data (`Schema.infer`).
    n_hidden, n_factors : int or "auto", default="auto"
        Number K of binary hidden units, and number of Gaussian factors. More of them can describe more patterns and
        need more rows. By default each member has its own sizes, which grow with the number of rows; a single member
        follows a rule: one unit for each latent variable, at most one for twenty rows, and no factors. If `n_hidden` is
        a number, `n_factors="auto"` means no factors, as in the paper.
    members : int or "auto", default="auto"
        Number of models that are fitted together, with different seeds, sizes, weight decays and readings of ordered
        levels. Some answers are held out from all of them and decide how much each counts. Predictions, imputations,
        samples and scores average over members; `transform`, `segments` and the report show the leading one. "auto" is
        4 (2 from 5,000 rows on, 6 with lists), and 1 for fewer than 200 rows (or tasks of comparisons), for a single
        column, if you choose `n_hidden` or `n_factors`, or if the objective is not "multi-prediction".
    objective : {"auto", "likelihood", "multi-prediction", "exact"}, default="auto"
        What training maximises. "exact": the likelihood, for few hidden units. "likelihood": the likelihood, estimated
        by sampling. "multi-prediction": the probability of masked cells, given the other cells of the row. "auto" is
        "exact" for up to 8 hidden units without factors and for a single column, and "multi-prediction" otherwise.
        Leave it at "auto" if you give `learning`.
    learning : Prediction, Likelihood, Exact, Learning or None, default=None
        More settings of training: `tb.Prediction(...)` for "multi-prediction", `tb.Likelihood(...)` for "likelihood",
        `tb.Exact(...)` for "exact", or `tb.Learning(...)` for any objective. None uses the defaults.
    unobserved : {"marginalize", "exclude"}, default="marginalize"
        What a missing cell means. "marginalize": the cell has a value that we do not know. "exclude": the model of this
        row does not contain the cell. Tables with lists (`Ratings`) always use "exclude".
    missing : {"auto", "ignorable", "informative"}, default="auto"
        "informative": which blocks of questions a row has answered is evidence about its other answers, for questions
        that are missing together. "ignorable": only the answers are. With several members, "auto" fits some of them in
        each way, and held-out answers decide how much they count; a single member is "ignorable".
    weight_decay : float or "auto", default="auto"
        How strongly weights and loadings are pulled towards 0 in each step, relative to the learning rate. With few
        rows more can help, such as 0.1 for 1,000. "auto" is 1e-3 for one member; several have different values.
    learning_rate : float or "auto", default="auto"
        Largest step size of training; it falls to zero in the second half. "auto" is 1e-2, and less for many units.
    batch_size : int or "auto", default="auto"
        Rows per gradient step. "auto" is 100 to 500, depending on the number of rows.
    max_epochs : int or "auto", default="auto"
        Passes over the data (over a sample of a large table). "auto": 20 to 300, for 3,000 steps; 8,000 of many units.
    max_time : float, optional
        Limit for `fit`, in seconds: it stops after the epoch that reaches it, with the best parameters if rows are held
        out, otherwise the last. After half of the time, the learning rate begins to fall, to reach zero in time; if it
        does not, `fit` warns and `converged_` is False. Results then depend on the speed of the machine.
    checkpoint : path, optional
        File of the progress of `fit`, which continues from it if it exists, and reaches the same parameters.
    random_state : int, RandomState or None, default=None
        Seed of training. With an int, each fit gives the same result.
    verbose : bool or "auto", default="auto"
        Show progress on standard error: a bar on a terminal, plain lines elsewhere. "auto" shows it only on a terminal.

    Attributes
    ----------
    model_ : Model
        What was fitted: the schema, the members, and the correction of their predictions. It does not change.
    schema_ : Schema
        The columns of the model, with the labels and scales that `fit` found in the data.
    site_names_ : list of str
        Names of the N latent variables ("sites"): "column" or "column.label".
    weights_, loadings_ : ndarray of shape (N, K) and (N, n_factors)
        W and V: how each hidden unit and each factor shifts each latent variable (Eq. 2 of the paper).
    site_bias_, hidden_bias_ : ndarray of shape (N,) and (K,)
        α and γ: biases of the latent variables and of the hidden units (Eq. 2).
    cuts_ : dict of ndarray
        For each column with ordered levels, the points between neighbouring levels, increasing; `Binary` has one, and
        `MultiSelect` one for each option (shape (n_options, 1)).
    scales_ : dict of (float, float)
        For each column of numbers, the location and scale by which it is standardised.
    params_ : Params
        All parameters as JAX arrays.
    history_ : list of dict
        One record per epoch: objective, gradient norm, seconds, held-out score, and "event" if something happened.
    objective_ : str
        The objective that was maximised.
    method_ : {"exact", "mean-field"}
        What "auto" means in predictions and `transform` of this model; `check_method` measures the error of the second.
    converged_ : bool
        Whether the objective has settled: in the end it rises by less than 0.01 nats per answer beyond its noise (see
        "Learning" in the docs). False also if training failed, was interrupted or stopped early. With several
        members only this counts: their training is short, and held-out answers weigh them.
    n_epochs_ : int
        Number of epochs.
    members_ : list of dict
        Settings, weight and log-likelihood per held-out answer of each member, the leading one first; empty for one.
    experts_ : list of dict
        Boosted trees beside the members: for each question (and option) their weight, and what they use most.
    time_spent_ : dict
        Seconds of "reading", "compiling" and "training", and the whole time of `fit` ("total").
    posteriors_ : ndarray of shape (n_rows, K)
        With `posterior_smoothing`: P(hidden unit is on) for training rows, a mean over epochs; NaN in rows of weight 0.
    n_ratings_ : dict of ndarray
        For each `Ratings` or `Ranking` column, how many training rows rate or rank each item.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    For readers of the paper: a site is a latent variable, e is the evidence (what the cells of a row say). With
    m(h) = α + W h, and M the set of all sites ("marginalize") or of the row's own sites ("exclude"),

        P(h) ∝ exp(γᵀh + ½‖m_M(h)‖²),    log P(e) = log Σ_h P(h) P(x ∈ Ω(e) | h),

    where Ω(e) is the region of x that e allows; of a number a point, which counts by its density in the data's units.

    Examples
    --------
    >>> import thurbo as tb
    >>> table = {
    ...     "age": [23.0, 35.0, None, 52.0, 61.0, 29.0],
    ...     "fan": ["yes", "yes", "no", None, "no", "yes"],
    ...     "trust": ["low", "high", "high", "mid", None, "low"],
    ... }
    >>> schema = {"age": tb.Continuous(), "fan": tb.Binary(true="yes"), "trust": tb.Ordinal(["low", "mid", "high"])}
    >>> model = tb.TBM(schema, n_hidden=2, max_epochs=3, random_state=0).fit(table)
    >>> model.transform(table).shape
    (6, 2)
    >>> model.impute(table)["fan"][3] in ("yes", "no")
    True
    """

    objective_: str
    history_: list[dict[str, Any]]
    n_epochs_: int
    time_spent_: dict[str, float]
    method_: Literal["exact", "mean-field"]

    _unfinished: Interrupted | None = None  # after a fit that was interrupted
    _training: Any = None  # state, plan and seed of the training of a single member

    def __init__(
        self,
        schema: Schema | dict[str, Column] | None = None,
        *,
        n_hidden: int | Literal["auto"] = "auto",
        n_factors: int | Literal["auto"] = "auto",
        members: int | Literal["auto"] = "auto",
        objective: Literal["auto", "likelihood", "multi-prediction", "exact"] = "auto",
        learning: Learning | None = None,
        unobserved: Literal["marginalize", "exclude"] = "marginalize",
        missing: Literal["auto", "ignorable", "informative"] = "auto",
        weight_decay: float | Literal["auto"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        max_epochs: int | Literal["auto"] = "auto",
        max_time: float | None = None,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
        verbose: bool | int | Literal["auto"] = "auto",
    ):
        self.schema = schema
        self.n_hidden = n_hidden
        self.n_factors = n_factors
        self.members = members
        self.objective = objective
        self.learning = learning
        self.unobserved = unobserved
        self.missing = missing
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Include the settings of `learning`, with names such as `learning__masking`.

        Returns
        -------
        dict
        """
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep and is_dataclass(self.learning):
            found |= {f"learning__{item.name}": getattr(self.learning, item.name) for item in fields(self.learning)}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, for example in a grid search.

        Parameters
        ----------
        **params
            Parameters by name. `learning__masking="cells"` changes one setting of a copy of `learning`.

        Returns
        -------
        TBM
            This estimator.

        Examples
        --------
        >>> model = tb.TBM(learning=tb.Prediction())
        >>> model.set_params(n_hidden=20, learning__masking="neighbours").learning.masking
        'neighbours'
        """
        own = {name: value for name, value in params.items() if not name.startswith("learning__")}
        nested = {name.removeprefix("learning__"): params[name] for name in params if name not in own}
        super().set_params(**own)
        if nested:
            if self.learning is None:
                first = f"learning__{next(iter(nested))}"
                raise ThurboError(f"{first} needs an objective; give learning=tb.Prediction(), for example")
            known = [item.name for item in fields(self.learning)]
            for name in nested:
                check_choice(f"setting of {type(self.learning).__name__}", name, known)
            self.learning = replace(self.learning, **nested)
        return self

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Fit the model to a table.

        Parameters
        ----------
        X : table
            A pandas, polars or arrow table, dict of columns, 2-D array, sparse matrix, or the result of `from_long`;
            or a scanned table with more rows than memory (`tb.scan`). It must have all columns of the schema. Other
            columns are not used. A large table is fitted by way of a sample of its rows, and then to all of them.
        y : ignored
            Exists for scikit-learn.
        sample_weight : array-like of shape (n_rows,), optional
            How many rows each row stands for; one of weight 0 is not read. Weights with a mean above 1 or below 0.1 are
            scaled to mean one. If the schema has a `Weight` column, the two are multiplied.

        Returns
        -------
        TBM
            The fitted estimator.

        Raises
        ------
        ThurboError
            If a parameter has a value that is not allowed.
        SchemaError
            If a cell cannot be read; the message names row, column and value.

        Warns
        -----
        ConvergenceWarning
            If training failed, was interrupted or was stopped by `max_time`, if the objective has not settled
            (`converged_`), or if some hidden units stay always on or always off.

        Examples
        --------
        >>> table = {"a": [1, 0, None, 1], "b": ["x", "y", "x", None]}
        >>> schema = {"a": tb.Binary(), "b": tb.Categorical(["x", "y", "z"])}
        >>> model = tb.TBM(schema, n_hidden=1, max_epochs=0, random_state=0).fit(table, sample_weight=[1, 1, 2, 1])
        >>> model.site_names_
        ['a', 'b.x', 'b.y', 'b.z']
        """
        return self._fit(X, sample_weight)

    def _fit(self, X: Any, sample_weight: Any, *, drop: bool = True) -> Self:
        """`fit`; without `drop`, rows of weight 0 stay in the table, so that refits of one table share programs."""
        timer = course.Clock()
        planning.flat(self.get_params(deep=False))  # refuses bad values before any work
        _runtime.prepare()
        whole, every = self._sampled(X, sample_weight) if drop else (None, as_table(X))
        given = sample_weight if whole is None or whole.weight is None else whole.weight[whole.sample]
        table, weight, places, schema = self._rows_that_count(every, given, drop=drop)
        if whole is not None:
            whole.sample = whole.sample[places]
        with nullcontext() if whole is None else whole.source.locating(table, schema.row_names, whole.sample):
            schema = self._fitted_schema(schema, table, weight)
            blocks, row_names = schema.compile(table), schema.row_names(table)
        warn_of_swamped_columns(table, blocks, row_names)
        reading = packing.MergeLabels(schema.names, schema.site_names, row_names)
        settings = self._settings(schema)
        evidence = packing.pack(blocks.values(), settings.unobserved, reading=reading, most_widths=0)
        data = fitting.Data(schema, blocks, evidence, weight)
        parallel.same("rows", fitting.fingerprint(*evaluation.row_hashes(blocks.values()), weight))
        chosen = choices.settings_beside(settings, data)
        seed = self._seed()
        _, max_epochs = fitting.lengths(chosen, data)
        counts = data.n_counted, population.n_tasks(blocks, weight), lists.column(chosen, data) is not None
        n_members = population.count(chosen, schema, *counts)
        self._training, plan, learned_from = None, None, np.zeros(0, np.int64)
        with (
            parallel.fitting(chosen.checkpoint) as checkpoint,
            course.progress(max_epochs, parallel.is_first() and self.verbose) as on_epoch,
        ):
            chosen = replace(chosen, checkpoint=checkpoint)
            if n_members > 1:
                found = population.fit(chosen, table, data, n_members, seed, timer.watch(on_epoch), whole)
                fitted, members, params, self._unfinished = found.fitted, found.members, found.leader, found.unfinished
                pairs = dependent_pairs(schema, blocks, weight) if len(members) > 1 else ()
                about: dict[str, Any] = {"correction": found.correction, "pairs": pairs}
            else:
                told = timer.watch(on_epoch)
                fitted, plan, learned_from = fitting.fit(chosen, data, seed, told)
                parts: tuple[course.Run | None, ...] = (fitted.unfinished,)
                if whole is not None and fitted.unfinished is None and chosen.max_epochs != 0:
                    fitted = population.single_over_all_rows(chosen, data, whole, fitted, plan, seed, told)
                    parts = (None, fitted.unfinished)
                self._unfinished = Interrupted(parts) if any(parts) else None
                params = fitted.params
                members = (Member(MemberSettings(params.n_hidden, params.n_factors, 0.0), schema, params),)
                about = {"objective": plan.objective}
            until, is_complete = timer.after(settings.max_time), self._unfinished is None
            about["presence"] = choices.fit(settings, data, seed, until, is_complete, on_epoch)
        course.warn(fitted)
        model = Model(
            schema,
            members,
            params,
            unobserved=self.unobserved,
            least_answers=least_answers(schema, blocks, weight),
            order_shapes=packing.order_shapes(blocks),
            **about,
        )
        self._adopt(model, fitted.history, fitted.converged)
        self._training, self.time_spent_ = plan and (fitted.state, plan, seed), timer.spent()
        # What later tables are compared with.
        self._seen_rows = evaluation.of_training(blocks.values(), weight) if whole is None else whole.seen
        self.n_features_in_, self.frame_kind_ = len(table.names), table.kind
        self.n_ratings_ = n_ratings(schema, blocks)
        for name in ("feature_names_in_", "posteriors_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if table.kind != "numpy":
            self.feature_names_in_ = np.asarray(table.names, object)
        if plan is not None and plan.posterior_smoothing:
            means = np.asarray(fitted.state.posteriors)
            self.posteriors_ = np.full((every.n_rows, means.shape[1]), np.nan, means.dtype)
            if len(learned_from) < table.n_rows:  # held-out rows have none, so theirs are inferred
                self.posteriors_[places] = self._features(self._read(table))[:, : means.shape[1]]
            self.posteriors_[places[learned_from]] = means
        return self

    def _seed(self) -> int:
        """The seed of a fit, the same in all processes."""
        return int(parallel.told(int(check_random_state(self.random_state).randint(2**31 - 1)))[0])

    def _sampled(self, X: Any, sample_weight: Any) -> tuple[WholeTable | None, Table]:
        """All rows of a large table, and a random sample of them; None and the table itself if it is not large.

        So is one whose training needs all rows at once: items of lists have parameters of their own, and the likelihood
        has a chain for each row. A single model is trained on all of a table in memory, if it is not too large.
        """
        held = None if isinstance(X, Scan) else as_table(X)
        source = X if held is None else TableSource(held)
        if source.n_rows > LARGE and (held is None or not (held.lists or held.declared)):
            weight = _given_weight(sample_weight, source.n_rows)
            sample, table = sampled(source, SAMPLE, self._seed(), None if weight is None else weight > 0)
            schema = self._schema(table)
            chosen = self._settings(schema)
            is_by_row = chosen.objective == "likelihood" or chosen.posterior_smoothing
            is_single = population.count(chosen, schema, source.n_rows) == 1
            is_moderate = held is not None and is_single and source.n_rows <= planning.MOST_AS_A_WHOLE
            if not (schema.listed or is_by_row or is_moderate):
                return WholeTable(source, sample, weight, parallel.chosen(chosen.devices), batch_of_all(chosen)), table
        return None, as_table(X.read()) if held is None else held

    def _adopt(self, model: Model, history: list[dict[str, Any]], converged: bool) -> None:
        """Take over a fitted model: after training, or from a file."""
        self.model_, self.objective_, self.history_, self.converged_ = model, model.objective, history, converged
        self.n_epochs_, self.time_spent_, self.method_ = len(history), {}, model.method
        schema, params = model.schema, model.params
        self.site_names_ = list(schema.site_names)
        self.weights_ = np.asarray(params.weights)
        self.loadings_ = np.asarray(params.loadings)
        self.site_bias_ = np.asarray(params.site_bias)
        self.hidden_bias_ = np.asarray(params.hidden_bias)
        cuts, scale = np.asarray(params.gauge.cuts), np.asarray(params.gauge.scale, np.float64)
        where = {name: schema.slices[name] for name in schema.modelled}
        learned = {name: schema[name].form.learned(cuts[own], scale[own]) for name, own in where.items()}
        self.cuts_ = {name: own["cuts"] for name, own in learned.items() if "cuts" in own}
        self.scales_ = {name: own["scales"] for name, own in learned.items() if "scales" in own}

    @property
    def members_(self) -> list[dict[str, Any]]:
        """Settings, weight and held-out log-likelihood of each member, the leading one first; empty for one member."""
        if self.model_.is_single:
            return []
        return [{**m.settings._asdict(), "weight": m.weight, "held_out": m.held_out} for m in self.model_.members]

    @property
    def experts_(self) -> list[dict[str, Any]]:
        """Boosted trees beside the members: weight where all that they use is known, number, and parts of gains."""
        found = []
        for name, own in self.model_.correction.experts.items():
            for site, expert in own.items():
                option = self.schema_[name].labels[site] if len(self.schema_[name].sites) > 1 < len(own) else None
                about = {"column": name, "option": option, "weight": expert.weight}
                found.append({**about, "n_trees": len(expert.trees.split), "uses": expert.trees.used})
        return found

    def _finished(self) -> Self:
        """This model; raises KeyboardInterrupt if its fit was interrupted, so that work that needs it ends too."""
        if self._unfinished is not None:
            raise KeyboardInterrupt
        return self

    def _repr_html_(self) -> str:
        """What was fitted, for notebooks; before a fit, the parameters as scikit-learn shows them."""
        if not hasattr(self, "model_"):
            return super()._repr_html_()
        members = f", the leading one of {len(self.members_)} members" if self.members_ else ""
        sizes = [_counted(self.params_.n_hidden, "hidden unit"), _counted(self.params_.n_factors, "factor")]
        lines = {
            "model": f"{_counted(len(self.schema_.modelled), 'question')}, {' and '.join(sizes)}{members}",
            "objective": f"{self.objective_}, {_counted(self.n_epochs_, 'epoch')}",
            "predictions": self.method_,
            "questions": ", ".join(self.schema_.modelled),
        }
        body = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in lines.items())
        return f"<table><caption>{type(self).__name__}, fitted</caption><tbody>{body}</tbody></table>"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Continue training with more rows: one pass over them at the full learning rate.

        The first call for a model that is not fitted takes schema, labels and scales from its rows; later ones do not.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        TBM
            The fitted estimator.

        Raises
        ------
        ThurboError
            If the model is from a file (without the state of training), or has several members or `presence="model"`.
        """
        columns = self.schema_ if hasattr(self, "model_") else self.schema
        if any(getattr(each, "has_presence", False) for each in getattr(columns, "values", list)()):
            raise ThurboError('presence="model" cannot go on learning; use fit with all rows, or presence=None')
        if self._training is None:
            if hasattr(self, "model_") and not self.model_.is_single:
                raise ThurboError("a model of several members cannot go on learning; fit it with members=1")
            if hasattr(self, "model_"):
                raise ThurboError("a model from a file cannot go on learning; fit it again")
            usual = {"max_epochs": self.max_epochs, "learning": self.learning, "members": self.members}
            plain = None if self.learning is None else replace(self.learning, posterior_smoothing=None)
            try:
                self.set_params(max_epochs=0, learning=plain, members=1).fit(X, sample_weight=sample_weight)
            finally:
                self.set_params(**usual)
        return self._go_on(X, sample_weight, self._settings(self.schema_))

    def _go_on(self, X: Any, sample_weight: Any, chosen: planning.FitSettings) -> Self:
        assert self._training is not None
        state, plan, seed = self._training
        if isinstance(X, Scan):
            if self.schema_.listed or plan.objective == "likelihood":
                what = "lists of items" if self.schema_.listed else 'objective="likelihood"'
                raise ThurboError(f"a model with {what} cannot go on learning from a scan; give tables in memory")
            weight, devices = _given_weight(sample_weight, X.n_rows), parallel.chosen(chosen.devices)
            whole = WholeTable(X, np.zeros(0, np.int64), weight, devices, batch_of_all(chosen))
            rows, plan = self._read(X.typical()), replace(plan, posterior_smoothing=0.0)
            sample = fitting.Data(self.schema_, rows.blocks, rows.evidence, np.ones(rows.table.n_rows))
            fitted, seen = population.go_over(chosen, sample, whole, state, plan, seed), whole.seen
        else:
            table = self._table(X)
            weight = weights(self.schema_, table, sample_weight)
            if not weight.all():
                table, weight = table.take(np.flatnonzero(weight)), weight[weight > 0]
            rows = self._read(table)
            data = fitting.Data(self.schema_, rows.blocks, rows.evidence, weight)
            fitted = fitting.go_on(chosen, data, state, plan, seed)
            for name, more in n_ratings(self.schema_, rows.blocks).items():
                self.n_ratings_[name] = self.n_ratings_[name] + more
            seen = evaluation.of_training(rows.blocks.values(), weight)
        self.__dict__.pop("posteriors_", None)  # those of other rows, under another model
        course.warn(fitted)
        member = self.model_.members[0]._replace(params=fitted.params)
        model = replace(self.model_, members=(member,), params=fitted.params)
        self._adopt(model, self.history_ + fitted.history, fitted.converged)
        self._training, self._seen_rows = (fitted.state, plan, seed), np.union1d(self._seen_rows, seen)
        return self

    def _rows_that_count(
        self, table: Table, sample_weight: Any, *, drop: bool = True
    ) -> tuple[Table, np.ndarray, np.ndarray, Schema]:
        """The rows of positive weight, or all without `drop`; their weights and positions; and the schema, not fitted.

        Nothing in rows of weight 0 decides the schema. Refuses tables that no model can be fitted to.
        """
        if table.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row to learn from")
        if not table.names:
            # In scikit-learn's words, which its own checks of estimators look for.
            problem = f"Found a table with 0 feature(s) (shape=({table.n_rows}, 0)) while a minimum of 1 is required"
            raise SchemaError(problem, remedy="give at least one column")
        given, places = planning.row_weights(sample_weight, table.n_rows), np.arange(table.n_rows)
        if drop and not given.all():
            places = np.flatnonzero(given)
            table, given = table.take(places), given[places]
        schema = self._schema(table)
        own = schema.weights(table)
        if drop and own is not None and not own.all():
            counts = np.flatnonzero(own)
            table, given, places = table.take(counts), given[counts], places[counts]
            if self.schema is None:
                kept = {name: each for name, each in schema.items() if each.role == "weight"}
                schema = self._schema(table) | kept
        return table, weights(schema, table, given), places, schema

    def _fitted_schema(self, schema: Schema, table: Table, weight: np.ndarray) -> Schema:
        """The schema fitted to a table; refuses one without any column to model."""
        schema = schema.fit(table, sample_weight=weight)
        if schema.n_sites == 0:
            raise SchemaError("no column is left to model", remedy="name at least one column that is not Ignore")
        return with_answered(schema, table) if self.missing == "informative" else schema

    def _settings(self, schema: Schema) -> planning.FitSettings:
        """All settings of a fit by name: the parameters, those of `learning`, and those that columns bring."""
        chosen = planning.flat(self.get_params(deep=False))
        own: dict[str, Any] = {}
        for column in schema.values():
            for name, value in column.learning_settings.items():
                own[name] = own.get(name, False) or value if name == "presence" else value
        return planning.of_columns(chosen, own, len(schema.with_sites) == 1 or bool(schema.context.shape[1]))

    def _schema(self, table: Table) -> Schema:
        if self.schema is None:
            if (names := looks_long(table)) is not None:
                message = f"if each line is one score of an item, use from_long(X, {names[0]!r}, {names[1]!r}, score)"
                warnings.warn(message, SchemaWarning, stacklevel=5)
            return Schema.infer(table)
        if not isinstance(self.schema, Mapping):
            raise ThurboError(f"schema={self.schema!r} is not a schema; give a Schema or a dict of columns")
        return self.schema if isinstance(self.schema, Schema) else Schema(self.schema)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file. The file contains no code and no rows of the data.

        Parameters
        ----------
        path : path
            The file, usually with the extension ".thurbo". If writing fails, an existing file does not change. Of
            several processes (`tb.distributed`), only the first one writes.

        Examples
        --------
        >>> import os, tempfile
        >>> model = tb.TBM({"a": tb.Binary()}, n_hidden=1, max_epochs=0, random_state=0).fit({"a": [0, 1, 1]})
        >>> path = os.path.join(tempfile.mkdtemp(), "m.thurbo")
        >>> model.save(path)
        >>> tb.TBM.load(path).n_hidden
        1
        """
        check_is_fitted(self, "model_")
        if parallel.is_first():
            model_file.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        TBM
            The fitted model. All methods work, except that `partial_fit` needs a new `fit` first.

        Raises
        ------
        NotTrusted
            If the file is incomplete or damaged, is not from thurbo, or is from a newer version of thurbo.
        """
        _runtime.prepare()
        return model_file.load(cls, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.sparse = True  # lists of items
        tags.transformer_tags.preserves_dtype = []  # features are computed, not passed on
        return tags


def _given_weight(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    return None if sample_weight is None else planning.row_weights(sample_weight, n_rows)


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


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
        X, y, sample_weight
            As in `TBM.fit`; X may also be a list of rows.

        Returns
        -------
        TBMImputer
            The fitted imputer.
        """
        check_choice("statistic", self.statistic, get_args(Statistic))
        settings = self.get_params(deep=False)
        del settings["statistic"], settings["fill"]
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
