"""§6 TBM: the scikit-learn face of the Thurstonian Boltzmann machine.

Thin: it turns tables into evidence, hands them to `learning` and `queries`, and turns answers back into tables in the
user's own labels and units. The mathematics is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral
from os import PathLike
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thurbo.columns import Block, Column, LevelColumn, MeasuredColumn
from thurbo.columns.cells import plain
from thurbo.columns.statements import parse_conditions
from thurbo.constraints import Gauge
from thurbo.errors import NotTrusted, SchemaError, ThurboError
from thurbo.evidence import pack as packing
from thurbo.io import frames, store
from thurbo.learning import fit as fitting
from thurbo.learning import monitor, settings
from thurbo.queries import answers, diagnose, inequalities, interval, predict, sample, score
from thurbo.queries import impute as draws
from thurbo.queries import rank as ranking
from thurbo.queries.evaluate import masked as evaluate
from thurbo.queries.evaluate.evaluation import Evaluation
from thurbo.queries.segments import Segments, segments
from thurbo.rbm import Params
from thurbo.schema import Schema

Statistic = Literal["auto", "mode", "median", "mean"]


Given = Mapping[str, Any] | Sequence[str] | str | None


class Asked(NamedTuple):
    """A table of a query: as it came, what each column says, and the evidence."""

    table: frames.Table
    blocks: dict[str, Block]
    evidence: Any  # Evidence, or Ragged where rows list few of many items


class TBM(TransformerMixin, BaseEstimator):
    """Thurstonian Boltzmann machine: one model of every column of a table, with holes anywhere.

    x = α + W h + V z + ε, with binary hidden units h, Gaussian factors z, unit normal ε; each cell says where x lies.

    Parameters
    ----------
    schema : Schema or mapping, optional
        What each column is. By default it is inferred from the data.
    n_hidden, n_factors : int or "auto"
        Numbers of binary hidden units K and of Gaussian factors. "auto" tries several by short fits, judged by hidden
        cells of rows they do not see (`sizes_tried_`); of fewer than 1000 rows it makes a rule of thumb, without
        factors. Where `n_hidden` is a number, "auto" factors are none: the paper's model.
    unobserved : {"marginalize", "exclude"}
        A missing cell is integrated over, or is no variable of that row's model at all.
    objective : {"auto", "likelihood", "multi-prediction", "exact"}
        What is maximised. "auto" enumerates few hidden units ("exact") and predicts hidden cells otherwise.
    likelihood_weight : float or "auto"
        Share of the likelihood mixed into multi-prediction: it keeps the model generative while prediction makes it
        sharp. "auto" is 0.1 where objective="auto" chose multi-prediction and there are no factors, otherwise 0.
    hiding : {"auto", "cells", "neighbours"} or a hiding of `thurbo.learning.hiding`
        Which cells multi-prediction hides: a share of each row's, which fills in best; runs of neighbouring columns,
        whose features say most of who respondents are; or regions of images, `Rectangles(28, 28)`.
    positive_phase, negative_phase : "auto" or the names of §5.1
        "mean-field" or "gibbs"; "persistent", "tempered" (with hotter copies that exchange states) or "contrastive".
        Used by objective="likelihood".
    n_negative_steps, n_chains, n_temperatures : int
        Rounds of Gibbs sampling an update, number of persistent chains, and of their temperatures if tempered.
    sparsity_target, sparsity_weight, sparsity_form
        ρ and λ of §6: pull each row's hidden probabilities towards ρ, at the "average" x of the row or averaged over
        its "samples" (A.2.2; with positive_phase="gibbs").
    posterior_smoothing : float or None
        η of A.2.3: `posteriors_` of the rows of `fit` are exponential averages over training, without inference.
    weight_decay, max_norm, latent_bound : float
        Shrinkage of weights per step and unit of learning rate; largest norm of a hidden unit's weights; how many
        standard deviations from its mean hidden units see an x while training.
    item_decay, presence : float, bool
        For lists of items: precision of a normal prior on items around their mean, which shrinks those that few rows
        list, and whether it speaks which items a row has.
    learn_cuts : bool
        Learn the cuts between levels (§5.2), or keep those that the answers' own frequencies give.
    optimizer, learning_rate, batch_size, max_epochs
        "adam" or "sgd" and its settings.
    validation_fraction : float or "auto"
        Share of rows that training does not see: the best parameters on them are kept, and training ends when they
        gain no more. "auto" is a tenth of a table of 5000 rows or more, at most 2000; a smaller one needs them all.
    checkpoint : path or None
        File that training writes its state to, and goes on from where it finds it: to the same parameters.
    random_state : int, RandomState or None
        Same seed, same result.
    verbose : bool or "auto"
        Show progress on standard error: a bar on a terminal, where "auto" shows it too, plain lines elsewhere.

    Attributes
    ----------
    schema_, site_names_ : the fitted columns, and the name of each of the N sites
    weights_ (N, K), loadings_ (N, factors), site_bias_ (N,), hidden_bias_ (K,) : W, V, α, γ of Eq. (2)
    cuts_ : {column: increasing array}; scales_ : {column: (location, scale)} of measured columns
    params_ : the same as arrays on the device; history_ : one dict per epoch
    objective_, converged_, n_epochs_ : what was maximised, whether all went well, and for how long
    sizes_tried_ : numbers of units and factors that "auto" tried, the best first
    """

    def __init__(
        self,
        schema: Schema | dict[str, Column] | None = None,
        *,
        n_hidden: int | Literal["auto"] = "auto",
        n_factors: int | Literal["auto"] = "auto",
        unobserved: Literal["marginalize", "exclude"] = "marginalize",
        objective: Literal["auto", "likelihood", "multi-prediction", "exact"] = "auto",
        likelihood_weight: float | Literal["auto"] = "auto",
        hiding: Any = "auto",
        positive_phase: Literal["auto", "mean-field", "gibbs"] = "auto",
        negative_phase: Literal["auto", "persistent", "contrastive", "tempered"] = "auto",
        n_negative_steps: int = 5,
        n_temperatures: int = 10,
        n_chains: int = 1000,
        sparsity_target: float = 0.1,
        sparsity_weight: float = 0.0,
        sparsity_form: Literal["auto", "average", "samples"] = "auto",
        posterior_smoothing: float | None = None,
        weight_decay: float = 1e-3,
        item_decay: float = 30.0,
        presence: bool = True,
        max_norm: float | None = None,
        latent_bound: float | None = None,
        learn_cuts: bool = True,
        optimizer: Literal["adam", "sgd"] = "adam",
        learning_rate: float = 1e-2,
        batch_size: int | Literal["auto"] = "auto",
        max_epochs: int | Literal["auto"] = "auto",
        validation_fraction: float | Literal["auto"] = "auto",
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
        verbose: bool | int | Literal["auto"] = "auto",
    ):
        self.schema = schema
        self.n_hidden = n_hidden
        self.n_factors = n_factors
        self.unobserved = unobserved
        self.objective = objective
        self.likelihood_weight = likelihood_weight
        self.hiding = hiding
        self.positive_phase = positive_phase
        self.negative_phase = negative_phase
        self.n_negative_steps = n_negative_steps
        self.n_temperatures = n_temperatures
        self.n_chains = n_chains
        self.sparsity_target = sparsity_target
        self.sparsity_weight = sparsity_weight
        self.sparsity_form = sparsity_form
        self.posterior_smoothing = posterior_smoothing
        self.weight_decay = weight_decay
        self.item_decay = item_decay
        self.presence = presence
        self.max_norm = max_norm
        self.latent_bound = latent_bound
        self.learn_cuts = learn_cuts
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    # ---- learning

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from a table: pandas, polars, arrow, a dict of columns or a 2-D array."""
        chosen = self.get_params(deep=False)
        settings.check(chosen)
        table = frames.table(X)
        if table.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row to learn from")
        if not table.names:
            # In scikit-learn's words, which its own checks of estimators look for.
            problem = f"Found a table with 0 feature(s) (shape=({table.n_rows}, 0)) while a minimum of 1 is required"
            raise SchemaError(problem, remedy="give at least one column")
        schema = self._schema(table).fit(table)
        if schema.n_sites == 0:
            raise SchemaError("no column is left to model", remedy="name at least one column that is not Ignore")
        blocks = schema.compile(table)
        reading = packing.Reading(schema.names, schema.site_names, schema.row_names(table))
        if schema.has_lists:
            chosen = settings.of_lists(chosen)
        evidence = packing.pack(blocks.values(), schema.families, chosen["unobserved"], reading=reading, most_widths=0)
        weight = _weights(schema, table, sample_weight)
        data = fitting.Data(schema, blocks, evidence, weight, float(self.item_decay))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        _, max_epochs = fitting.lengths(chosen, evidence)
        with monitor.progress(max_epochs, self.verbose) as on_epoch:
            fitted, plan, tried, learned_from = fitting.fit(chosen, data, seed, on_epoch)
        monitor.warn(fitted)
        self._adopt(schema, fitted.params, plan.objective, fitted.history, fitted.converged)
        self._training = (fitted.state, plan, seed)
        self.sizes_tried_ = [each._asdict() for each in tried]
        self.n_features_in_, self.frame_kind_ = len(table.names), table.kind
        if table.kind != "numpy":
            self.feature_names_in_ = np.asarray(table.names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.__dict__.pop("posteriors_", None)
        if plan.posterior_smoothing:
            smoothed = np.asarray(fitted.state.posteriors)
            if len(learned_from) < table.n_rows:  # rows that were held out have none
                every = self.transform(table)[:, : self.params_.n_hidden]
                every[learned_from] = smoothed
                smoothed = every
            self.posteriors_ = smoothed
        return self

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from more rows: one pass over them at the full rate. The first call decides what the columns are."""
        if getattr(self, "_training", None) is None:
            if hasattr(self, "params_"):
                raise ThurboError("a model from a file cannot go on learning; fit it again")
            usual = {"max_epochs": self.max_epochs, "posterior_smoothing": self.posterior_smoothing}
            try:
                self.set_params(max_epochs=0, posterior_smoothing=None).fit(X)
            finally:
                self.set_params(**usual)
        return self._go_on(X, sample_weight)

    def _go_on(self, X: Any, sample_weight: Any) -> Self:
        asked, chosen = self._read(X, lists=True), self.get_params(deep=False)
        chosen = settings.of_lists(chosen) if self.schema_.has_lists else chosen
        state, plan, seed = self._training
        weight = _weights(self.schema_, asked.table, sample_weight)
        data = fitting.Data(self.schema_, asked.blocks, asked.evidence, weight, float(self.item_decay))
        fitted = fitting.go_on(chosen, data, state, plan, seed)
        self.__dict__.pop("posteriors_", None)  # those of other rows, under another model
        monitor.warn(fitted)
        self._adopt(self.schema_, fitted.params, plan.objective, self.history_ + fitted.history, fitted.converged)
        self._training = (fitted.state, plan, seed)
        return self

    def _schema(self, table: frames.Table) -> Schema:
        if self.schema is None:
            return Schema.infer(table)
        if isinstance(self.schema, Schema):
            return self.schema
        if not isinstance(self.schema, Mapping):
            raise ThurboError(f"schema={self.schema!r} is not a schema; give a Schema or a dict of columns")
        return Schema(self.schema)

    def _adopt(
        self, schema: Schema, params: Params, objective: str, history: list[dict[str, float]], converged: bool
    ) -> None:
        """Take over a fitted model: after training, or from a file."""
        self.schema_, self.params_ = schema, params
        self.objective_, self.history_, self.converged_ = objective, history, converged
        self.n_epochs_ = len(history)
        self.site_names_ = list(schema.site_names)
        self.weights_ = np.asarray(params.weights)
        self.loadings_ = np.asarray(params.loadings)
        self.site_bias_ = np.asarray(params.site_bias)
        self.hidden_bias_ = np.asarray(params.hidden_bias)
        cuts, scale = np.asarray(params.gauge.cuts), np.asarray(params.gauge.scale, np.float64)
        self.cuts_, self.scales_ = {}, {}
        for name, where in schema.slices.items():
            column = schema[name]
            if isinstance(column, LevelColumn):
                self.cuts_[name] = cuts[where.start, : column.n_cuts]
            elif isinstance(column, MeasuredColumn):
                location, unit = column.standard
                self.scales_[name] = (location, unit * float(scale[where.start]))

    # ---- what rows say

    def _read(self, X: Any, given: Given = None, asked_about: Sequence[str] = (), lists: bool = False) -> Asked:
        """A table, with `given` in the place of some columns' cells, as evidence; not of the columns asked about.

        Unless `lists` may be asked too, a model of lists is refused.
        """
        check_is_fitted(self, "params_")
        if self.schema_.has_lists and not lists:
            problem = "this is not to be had where rows list few of many items, as in a sparse matrix"
            raise ThurboError(f"{problem}; ask rank() or transform()")
        table = frames.table(X)
        if table.kind == "numpy":  # an array has no names: its columns are those of the fit, in order
            if len(table.names) != self.n_features_in_:
                # In scikit-learn's words, which its own checks of estimators look for.
                problem = f"X has {len(table.names)} features, but TBM is expecting {self.n_features_in_} features"
                raise SchemaError(f"{problem} as input", remedy="give the columns of the table it was fitted to")
            table = frames.table(X, names=getattr(self, "feature_names_in_", None))
        if table.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row")
        return Asked(table, *self._pack(table, given, asked_about=asked_about))

    def _pack(
        self,
        table: frames.Table,
        given: Given,
        missing_columns: Literal["error", "silent"] = "error",
        asked_about: Sequence[str] = (),
    ) -> tuple[dict[str, Block], Any]:
        if given is not None and not isinstance(given, Mapping):
            given = parse_conditions(np.atleast_1d(given).tolist(), self.schema_)
        for name in asked_about:
            if name in (given or ()):
                remedy = "leave it out of given, or ask about another column"
                raise SchemaError("given speaks of the column that is asked about", column=name, remedy=remedy)
        blocks = self.schema_.compile(table, missing_columns=missing_columns, given=given)
        cuts = np.asarray(self.params_.gauge.cuts, np.float64)
        reading = packing.Reading(self.schema_.names, self.schema_.site_names, self.schema_.row_names(table), cuts)
        return blocks, packing.pack(blocks.values(), self.schema_.families, self._missing, reading=reading)

    @property
    def _missing(self) -> Literal["marginalize", "exclude"]:
        """What a missing cell is; beside lists, of which each row has few items, it is no variable."""
        return "exclude" if self.schema_.has_lists else self.unobserved

    def _how(self, method: str) -> predict.How:
        if method == "auto":
            method = "exact" if score.is_exact(self.params_) else "mean-field"
        if method not in {"exact", "gibbs", "mean-field"}:
            raise ThurboError(f'method "{method}" is not one of auto, exact, gibbs, mean-field')
        n_hidden, n_factors = self.params_.n_hidden, self.params_.n_factors
        if method == "exact" and not settings.can_enumerate(n_hidden, n_factors, "method"):
            raise ThurboError(
                f'{n_hidden} hidden units and {n_factors} factors are too many to enumerate; use method="gibbs"'
            )
        # Prediction was trained through so many mean-field steps; more of them answer another question.
        n_steps = settings.PREDICTION_STEPS if self.objective_ == "multi-prediction" else settings.CONVERGED_STEPS
        return predict.How(method=method, n_steps=n_steps, unobserved=self._missing)  # type: ignore[arg-type]

    def transform(self, X: Any, output: Literal["probability", "log_odds"] = "probability") -> np.ndarray:
        """P(h_k = 1 | e) of every row, or its log-odds; then the factor means, if there are factors."""
        if output not in {"probability", "log_odds"}:
            raise ThurboError(f'output "{output}" is not one of probability, log_odds')
        found = self._features(self._read(X, lists=True).evidence)
        hidden = found.hidden if output == "probability" else found.log_odds
        return np.concatenate([hidden, found.factors], axis=1)

    def _features(self, evidence: Any) -> predict.Features:
        how = self._how("auto")
        return packing.by_chunks(lambda rows: predict.features(self.params_, rows, how), evidence)

    def rank(
        self,
        X: Any,
        top: int = 10,
        items: Any = None,
        exclude_seen: bool = True,
        column: str | None = None,
        others: Sequence[TBM] = (),
    ) -> Any:
        """The best items of every row, from the best: a long table of row, item, utility and place.

        `items` are those to choose among: a list for all rows, or a long table with a column of rows and one of items,
        named as in `from_long`, all of which are ranked. Items that a row lists already are left out unless
        `exclude_seen=False`. `column` names the list (or the Ranking of an ordinary table). `others` are models of the
        same items, from other seeds: utilities are then averaged, which is better than any one of them.
        """
        asked = self._read(X, lists=True)
        name = ranking.column(self.schema_, column)
        asks = []
        for model in (self, *others):
            if model.schema_[name].labels != self.schema_[name].labels:
                raise ThurboError("others are models of other items; fit all to the same items")
            own = asked if model is self else model._read(X, lists=True)
            asks.append(ranking.of_column(model.params_, model.schema_, name, model._features(own.evidence)))
        return ranking.rank(self.schema_, name, asked, asks, top, items, exclude_seen, self.frame_kind_)

    def prefers(self, X: Any, item: Any, other: Any, column: str | None = None) -> np.ndarray:
        """P(the utility of `item` is above that of `other`) for every row."""
        asked = self._read(X, lists=True)
        name = ranking.column(self.schema_, column)
        found = self._features(asked.evidence)
        return ranking.prefers(self.params_, self.schema_, name, asked.evidence, found, item, other)

    def similar_items(self, item: Any, top: int = 10, column: str | None = None) -> Any:
        """Items that the same rows like: a table of items and the correlation of what moves their utilities."""
        check_is_fitted(self, "params_")
        name = ranking.column(self.schema_, column)
        return frames.assemble(self.frame_kind_, ranking.similar_items(self.params_, self.schema_, name, item, top))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """hidden0, hidden1, … and factor0, … in the order of `transform`."""
        check_is_fitted(self, "params_")
        names = [f"hidden{k}" for k in range(self.params_.n_hidden)]
        return np.asarray(names + [f"factor{f}" for f in range(self.params_.n_factors)], object)

    def predict_proba(self, X: Any, column: str | None = None, given: Given = None, method: str = "auto") -> np.ndarray:
        """P(answer | all other cells of the row), one column per label of `schema_[column].labels`.

        Without a `column` those of all columns that have labels stand side by side, in the order of the schema.
        `given` sets cells of other columns in every row: {"age": at_least(45)}, or conditions as text, "age >= 45".
        Of a ranking it is P(best of all), of options P(ticked).
        """
        named = [] if column is None else [column]
        evidence = self._read(X, given, asked_about=named, lists=bool(named)).evidence
        ask = answers.all_probabilities if column is None else partial(answers.probabilities, name=column)
        return ask(self.params_, self.schema_, evidence, how=self._how(method))

    def predict_interval(
        self, X: Any, column: str, level: float = 0.9, given: Given = None, method: str = "auto"
    ) -> np.ndarray:
        """Lower and upper end, [row, 2], of the central interval that holds `level` of P(value | all other cells).

        Of a number, in the user's units; of an ordinal column, the labels at both ends of the smallest central run of
        levels that holds at least as much.
        """
        evidence = self._read(X, given, asked_about=[column], lists=True).evidence
        return interval.interval(self.params_, self.schema_, evidence, column, level, self._how(method))

    def predict(
        self,
        X: Any,
        columns: Any = None,
        statistic: Statistic = "mode",
        given: Given = None,
        method: str = "auto",
    ) -> Any:
        """Each cell from all other cells of its row: a table of the same library, in the user's labels and units."""
        named = [] if columns is None else np.atleast_1d(columns).tolist()
        asked, how = self._read(X, given, asked_about=named, lists=True), self._how(method)
        names = [each for each in self.schema_.modelled if self.schema_[each].family != "lists"]
        names = names if columns is None else named
        if not names and self.schema_.has_lists:
            problem = "there is no column to predict beside the list (a sparse matrix is nothing else)"
            raise ThurboError(f"{problem}; ask rank() for its items")
        found: dict[str, np.ndarray] = {}
        for name in names:
            found |= answers.cells(self.params_, self.schema_, asked.evidence, name, how, statistic)
        return frames.build(asked.table, found)

    def impute(self, X: Any, statistic: Statistic = "auto", method: str = "auto") -> Any:
        """The table with its missing answers filled in; cells that were there do not change.

        "auto" takes the most probable label, and the median of a measured column. An answer that is spread over several
        columns of the table (a ranking, options) is filled in where the whole of it is missing.
        """
        asked, how = self._read(X), self._how(method)
        gaps = draws.gaps(self.schema_, asked.table, asked.blocks)
        found = draws.guesses(self.params_, self.schema_, asked.evidence, asked.blocks, gaps, how, statistic)
        return frames.replace(
            asked.table, found, {name: where for each in gaps.values() for name, where in each.items()}
        )

    def impute_draws(
        self, X: Any, n: int = 5, refits: int = 0, random_state: Any = None, method: str = "auto"
    ) -> list[Any]:
        """`n` completed tables: the gaps of a row drawn jointly given its answers, which never change.

        An interval, a band or a censored number is an answer too, and stays what it is: no number is drawn inside it.
        With `refits` the draws are spread evenly over so many models, each fitted anew to bootstrapped rows of X and
        from another seed, so that they also differ by what X leaves open about the model. `method` is "exact" (few
        hidden units), "gibbs" or "auto".
        """
        asked, completed = self._read(X), []
        for share in draws.shares(n, refits, asked.table.n_rows, check_random_state(random_state)):
            model, rows = self, asked
            if share.weight is not None:
                sizes = {"n_hidden": self.params_.n_hidden, "n_factors": self.params_.n_factors}
                model = clone(self).set_params(schema=self.schema_, random_state=share.seed, verbose=False, **sizes)
                rows = model.fit(asked.table, sample_weight=share.weight)._read(asked.table)
            completed += draws.complete(model.params_, model.schema_, *rows, share, method)
        return completed

    def sample(
        self, n: int = 1, given: Given = None, method: Literal["gibbs", "modes"] = "gibbs", random_state: Any = None
    ) -> Any:
        """`n` new rows from the model, as a table with the columns of the schema.

        `given` holds in every one of them: {"age": at_least(45)}, or conditions as text. With method="modes" rows are
        representative, one basin of attraction each and without its noise (A.1.3). Fitted with weights, the model is
        of the weighted rows, so that new ones all count alike and have no column of weights.
        """
        check_is_fitted(self, "params_")
        if self.schema_.has_lists:
            raise ThurboError("rows that list few of many items are not drawn; ask rank() or transform()")
        if method not in {"gibbs", "modes"}:
            raise ThurboError(f'method "{method}" is not one of gibbs, modes')
        if not isinstance(n, Integral) or int(n) < 0:
            raise ThurboError(f"n={n!r} is not a number of rows; give a whole number of at least 0")
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        key, evidence = jax.random.key(seed), None
        if given is not None:
            nobody = frames.table({self.schema_.source_columns[self.schema_.modelled[0]][0]: [None]})
            evidence = self._pack(nobody, given, missing_columns="silent")[1]._replace(present=None)
        if method == "modes":
            x = sample.draw_modes(key, self.params_, evidence, int(n))
        elif evidence is None:
            x = sample.draw(key, self.params_, int(n))
        else:
            x = sample.draw_given(key, self.params_, evidence, int(n))
        found = answers.from_latent(self.schema_, self.params_, x)
        return frames.assemble(self.frame_kind_, found)

    def inequalities(self, X: Any, row: int, given: Given = None) -> inequalities.Inequalities:
        """What row number `row` of a table says of the latent x: in words, and as A, b, c with b ≤ A x ≤ c."""
        asked = self._read(X, given)
        if not isinstance(row, Integral) or not -asked.table.n_rows <= row < asked.table.n_rows:
            raise ThurboError(f"row={row!r} is not one of the {asked.table.n_rows} rows; they are numbered from 0")
        return inequalities.inequalities(self.params_, self.schema_, asked.evidence, int(row) % asked.table.n_rows)

    def score_samples(self, X: Any, return_se: bool = False, method: str = "auto") -> Any:
        """log P(e) of every row in nats, in the user's units; with its standard error if asked (0 where exact).

        `method` is "exact" (enumeration), "importance" (sampling, with an estimated normaliser) or "conservative": the
        average of P(e | h) over samples of the model (A.2.4), in expectation too low and never in need of a normaliser.
        "auto" enumerates few hidden units and takes "importance" for many.
        """
        value, error = self._log_probability(self._read(X), method)
        return (value, error) if return_se else value

    def _log_probability(self, asked: Asked, method: str = "auto") -> tuple[np.ndarray, np.ndarray]:
        value, error = score.score(self.params_, asked.evidence, method)
        return value + sum(block.log_jacobian for block in asked.blocks.values()), error

    def score(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> float:
        """Mean log P(e) of the rows, in nats.

        Rows count by `sample_weight`, times their Weight column if the schema and X have one.
        """
        asked = self._read(X)
        weight = _weights(self.schema_, asked.table, sample_weight, "silent")
        return score.mean(self._log_probability(asked)[0], weight)

    def evaluate(
        self,
        X: Any,
        hide: float = 0.1,
        random_state: Any = 0,
        logistic: bool = True,
        method: str = "auto",
        *,
        sample_weight: Any = None,
    ) -> Evaluation:
        """Can it be believed? Hide a share of the answers of X, predict each from the rest of its row, and compare.

        Beside the model stand the shares of the answers still shown and, unless `logistic=False`, a logistic (of
        numbers a ridge) regression of each column on all others (where that makes over 300 features, on their 64
        strongest directions), both learned from the answers of X still shown. Give rows that the model was not fitted
        to: of those it was, it has seen the answers. Rows count by `sample_weight`, times their Weight column if the
        schema and X have one; of rows that count nothing, nothing is hidden.
        """
        asked, rng = self._read(X), check_random_state(random_state)
        weight = _weights(self.schema_, asked.table, sample_weight, "silent")
        chosen: dict[str, Any] = {"hide": hide, "rng": rng, "logistic": logistic, "weight": weight}
        return evaluate.evaluate(self.params_, self.schema_, *asked[1:], self._how(method), **chosen)

    def segments(self, X: Any, n: Any = "auto", random_state: Any = 0, *, sample_weight: Any = None) -> Segments:
        """Groups of rows that are alike: k-means on the standardised log-odds of `transform`, with profiles in words.

        "auto" tries 2 to 10: of the numbers whose segments resampled rows find again (adjusted Rand index of 0.8 or
        more), that whose segments stand apart most (silhouette). Rows count by `sample_weight`, times their Weight
        column if the schema and X have one.
        """
        asked, features = self._read(X), self.transform(X, output="log_odds")
        own = self.schema_.weights(asked.table, missing_columns="silent")
        weight = settings.row_weights(sample_weight, asked.table.n_rows) * (1.0 if own is None else own)
        return segments(self.schema_, asked.blocks, features, weight, n, check_random_state(random_state))

    def log_partition(self) -> tuple[float, float]:
        """log Z over all sites with its (N/2) log 2π, and its standard error: 0.0 where it is exact."""
        check_is_fitted(self, "params_")
        return score.log_partition(self.params_)

    def diagnostics(
        self, X: Any, n_chains: int = 4, n_draws: int = 200, rows: Any = 16, random_state: Any = None
    ) -> diagnose.Diagnostics:
        """How well Gibbs chains mix, on some rows and of the model alone; which hidden units are stuck or saturated.

        `rows` is how many rows are watched, drawn at random, or a list of their positions. Warns if chains do not mix.
        Needs the extra `thurbo[diagnostics]`.
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

    # ---- files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file: no code, no rows of the data."""
        check_is_fitted(self, "params_")
        chosen = {name: plain(value) for name, value in self.get_params(deep=False).items() if name != "schema"}
        if not isinstance(chosen["random_state"], (int, type(None))):
            chosen["random_state"] = None  # a generator's state is no part of the model
        if not isinstance(chosen["hiding"], str):
            chosen["hiding"] = "auto"  # what training hid is no part of it either
        chosen["checkpoint"] = None  # nor is where it kept its notes
        description = {
            "settings": chosen,
            "schema": self.schema_.to_dict(),
            "objective": self.objective_,
            "history": self.history_,
            "converged": self.converged_,
            "n_features_in": self.n_features_in_,
            "frame_kind": self.frame_kind_,
            "feature_names_in": None if not hasattr(self, "feature_names_in_") else list(self.feature_names_in_),
        }
        params = self.params_
        kept = {name: value for name, value in params._asdict().items() if value is not None and name != "gauge"}
        arrays = {name: np.asarray(value) for name, value in kept.items()}
        arrays |= {name: np.asarray(value) for name, value in params.gauge._asdict().items()}
        store.save(path, arrays, description)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model that `save` wrote."""
        arrays, description = store.load(path)
        try:
            return cls._rebuilt(arrays, description)
        except (KeyError, TypeError, ValueError) as error:  # whole and unaltered, but not what `save` writes
            raise NotTrusted(f'"{path}" does not hold a model that this thurbo knows ({error}); fit again') from error

    @classmethod
    def _rebuilt(cls, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> Self:
        schema = Schema.from_dict(description["schema"])
        model = cls(schema, **description["settings"])
        sites, hidden = (schema.n_sites,), arrays["hidden_bias"].shape
        shapes = {
            "site_bias": sites,
            "weights": sites + hidden,
            "hidden_bias": hidden[:1],
            "loadings": sites + arrays["loadings"].shape[1:2],
            "hidden_mean": hidden,
            "cuts": (*sites, max(int(schema.n_cuts.max(initial=0)), 1)),
            "scale": sites,
        }
        if "presence" in arrays:
            shapes["presence"] = (*sites, hidden[0] + arrays["loadings"].shape[1])
        if {name: array.shape for name, array in arrays.items()} != shapes:
            raise ValueError("its arrays do not fit its schema")
        device = {name: jnp.asarray(value) for name, value in arrays.items()}
        gauge = Gauge(device.pop("cuts"), device.pop("scale"))
        params = Params(gauge=gauge, **device)
        model._adopt(schema, params, description["objective"], description["history"], description["converged"])
        model.n_features_in_ = description["n_features_in"]
        model.frame_kind_ = description["frame_kind"]
        if description["feature_names_in"] is not None:
            model.feature_names_in_ = np.asarray(description["feature_names_in"], object)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True  # lists of items
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []  # features are computed, not passed on
        return tags


def _weights(
    schema: Schema, table: frames.Table, sample_weight: Any, missing_columns: Literal["error", "silent"] = "error"
) -> np.ndarray:
    """How much each row counts: by the schema's Weight column, times `sample_weight`."""
    given = settings.row_weights(sample_weight, table.n_rows)
    own = schema.weights(table, missing_columns=missing_columns)
    return given if own is None else settings.row_weights(given * own, table.n_rows)
