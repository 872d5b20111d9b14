"""§6 What every query of an estimator shares: the fitted attributes, and the way from a table to evidence.

A query reads a table by the fitted schema (`_read`), chooses how to compute (`_how`), and asks `queries`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from html import escape
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thurbo import _runtime
from thurbo.columns import Block
from thurbo.columns.statements import parse_conditions
from thurbo.errors import SchemaError, ThurboError, check_choice
from thurbo.estimators.population import Population
from thurbo.evidence import pack as packing
from thurbo.evidence.buckets import Buckets
from thurbo.io.table import Table, as_table
from thurbo.learning import settings
from thurbo.learning.checkpoint import Unfinished
from thurbo.learning.members import Interrupted
from thurbo.queries import gates, score
from thurbo.queries.features import Features, How, features
from thurbo.queries.kept_shares import Offsets
from thurbo.queries.question import Question
from thurbo.rbm import Params
from thurbo.schema import Schema

METHODS = ("auto", "exact", "gibbs", "mean-field")  # of predictions
Given = Mapping[str, Any] | Sequence[str] | str | None


class Asked(NamedTuple):
    """A table of a query: as it came, what each column says, and the evidence."""

    table: Table
    blocks: dict[str, Block]
    evidence: Buckets
    given: Given = None


class FittedModel:
    """A fitted model: its schema and parameters, and how its queries read a table."""

    unobserved: Literal["marginalize", "exclude"]
    schema_: Schema
    params_: Params
    objective_: str
    history_: list[dict[str, Any]]
    converged_: bool
    n_epochs_: int
    time_spent_: dict[str, float]
    method_: Literal["exact", "mean-field"]
    n_features_in_: int
    frame_kind_: str
    n_ratings_: dict[str, np.ndarray]

    _unfinished: Unfinished | Interrupted | None = None  # after a fit that was interrupted
    _population: Population | None = None  # if the fit has several members
    _routes: gates.Routes = MappingProxyType({})  # of a member: what follow-up questions say about their gates
    _order_shapes: Mapping[str, tuple[int, int, str]] = MappingProxyType({})  # of training: see evidence.pack
    _seen_rows: np.ndarray = np.zeros(0, np.uint32)  # numbers of the training rows: see queries.seen

    def _repr_html_(self) -> str:
        """What was fitted, for notebooks; before a fit, the parameters as scikit-learn shows them."""
        if not hasattr(self, "params_"):
            return super()._repr_html_()  # type: ignore[misc]
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

    def _finished(self) -> Self:
        """This model; raises KeyboardInterrupt if its fit was interrupted, so that work that needs it ends too."""
        if self._unfinished is not None:
            raise KeyboardInterrupt
        return self

    def _adopt(
        self, schema: Schema, params: Params, objective: str, history: list[dict[str, Any]], converged: bool
    ) -> None:
        """Take over a fitted model: after training, or from a file."""
        _runtime.prepare()
        self.schema_, self.params_ = schema, params
        self.objective_, self.history_, self.converged_ = objective, history, converged
        self.n_epochs_, self.time_spent_, self.method_ = len(history), {}, self._method
        self.site_names_ = list(schema.site_names)
        self.weights_ = np.asarray(params.weights)
        self.loadings_ = np.asarray(params.loadings)
        self.site_bias_ = np.asarray(params.site_bias)
        self.hidden_bias_ = np.asarray(params.hidden_bias)
        cuts, scale = np.asarray(params.gauge.cuts), np.asarray(params.gauge.scale, np.float64)
        self.cuts_, self.scales_ = {}, {}
        for name in schema.modelled:
            column, where = schema[name], schema.slices[name]
            learned = column.form.learned(column, cuts[where], scale[where])
            if "cuts" in learned:
                self.cuts_[name] = learned["cuts"]
            if "scales" in learned:
                self.scales_[name] = learned["scales"]

    def _read(self, X: Any, given: Given = None, asked_about: Sequence[str] = ()) -> Asked:
        """A table as evidence, with `given` in the place of some columns' cells; not of the columns asked about."""
        check_is_fitted(self, "params_")
        _runtime.prepare()
        table = as_table(X)
        if table.kind == "numpy":  # an array has no names: its columns are those of the fit, in order
            if len(table.names) != self.n_features_in_:
                # In scikit-learn's words, which its own checks of estimators look for.
                problem = f"X has {len(table.names)} features, but TBM is expecting {self.n_features_in_} features"
                raise SchemaError(f"{problem} as input", remedy="give the columns of the table it was fitted to")
            table = as_table(X, names=getattr(self, "feature_names_in_", None))
        if table.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row")
        return Asked(table, *self._pack(table, given, asked_about=asked_about), given)

    def _pack(
        self,
        table: Table,
        given: Given,
        missing_columns: Literal["error", "ignore"] = "error",
        asked_about: Sequence[str] = (),
    ) -> tuple[dict[str, Block], Buckets]:
        given = None if given is None else self._conditions(given)
        for name in asked_about:
            self.schema_[name]  # raises for what is not the name of a column
            if name in (given or ()):
                remedy = "leave it out of given, or ask about another column"
                raise SchemaError("given speaks of the column that is asked about", column=name, remedy=remedy)
        blocks = self.schema_.compile(table, missing_columns=missing_columns, given=given)
        for name, shape in self._order_shapes.items():  # one program, whatever these rows or conditions rank
            blocks[name] = replace(blocks[name], order_shape=shape)
        cuts = np.asarray(self.params_.gauge.cuts, np.float64)
        reading = packing.Reading(self.schema_.names, self.schema_.site_names, self.schema_.row_names(table), cuts)
        return blocks, packing.pack(blocks.values(), self._missing, reading=reading)

    def _conditions(self, given: Given) -> Mapping[str, Any]:
        """Conditions by column; texts such as "age >= 45" are read by the schema."""
        return parse_conditions(given, self.schema_)

    @property
    def _missing(self) -> Literal["marginalize", "exclude"]:
        """What a missing cell is; beside lists, of which each row has few items, it is no variable."""
        return "exclude" if self.schema_.listed else self.unobserved

    @property
    def _is_by_prediction(self) -> bool:
        """Whether rows are drawn and scored cell by cell: only these distributions were trained.

        A model that is small enough to enumerate answers every query by its exact joint distribution.
        """
        predicts = self.objective_ == "multi-prediction" and not self.schema_.listed
        return predicts and self._method != "exact"

    @property
    def _method(self) -> Literal["exact", "mean-field"]:
        """What `method="auto"` means in predictions of this model."""
        if self._population is not None:
            return "mean-field"
        return "exact" if score.is_exact(self.params_, self.objective_ == "multi-prediction") else "mean-field"

    def _how(self, method: str) -> How:
        check_choice("method", method, METHODS)
        if method == "auto":
            method = self._method
        n_hidden, n_factors = self.params_.n_hidden, self.params_.n_factors
        if method == "exact" and not settings.can_enumerate(n_hidden, n_factors, "method"):
            raise ThurboError(
                f'{n_hidden} hidden units and {n_factors} factors are too many to enumerate; use method="gibbs"'
            )
        # Prediction was trained through so many mean-field steps; more of them answer another question.
        n_steps = settings.PREDICTION_STEPS if self.objective_ == "multi-prediction" else settings.CONVERGED_STEPS
        return How(method=method, n_steps=n_steps, unobserved=self._missing)  # type: ignore[arg-type]

    def _features(self, evidence: Buckets) -> Features:
        how = self._how("auto")
        return evidence.by_chunks(lambda rows: features(self.params_, rows, how))

    def _question(self, asked: Asked, method: str = "auto") -> Question:
        """A table put to the model, or to all its members."""
        given, routes = () if asked.given is None else tuple(self._conditions(asked.given)), self._routes
        evidence = asked.evidence.on_host()
        own = Question(self.params_, self.schema_, asked.blocks, evidence, self._how(method), routes, given)
        if self._population is None:
            return own
        parts = [view._question(read, method) for view, read in self._asked_of(asked)]
        absent = [name for name in self.schema_.modelled if name not in given and not self._has(asked.table, name)]
        return self._population.question(own, parts, absent)

    def _has(self, table: Table, name: str) -> bool:
        """Whether a table has cells of a column."""
        return any(each in table for each in self.schema_[name].source_columns(name))

    def _offsets(self) -> Offsets | None:
        """What rows that are drawn cell by cell need to keep the shares of the training table: only of members."""
        return None

    def _asked_of(self, asked: Asked, generative: bool = False) -> list[tuple[Self, Asked]]:
        """Each member, and the table as it reads it."""
        read, views = {id(self.schema_): asked}, self._views(generative)
        for view in views:
            if id(view.schema_) not in read:
                read[id(view.schema_)] = view._read(asked.table, asked.given)
        return [(view, read[id(view.schema_)]) for view in views]

    @property
    def members_(self) -> list[dict[str, Any]]:
        """Settings, weight and held-out log-likelihood of each member, the leading one first; empty for one member."""
        if self._population is None:
            return []
        return [
            {**each.member._asdict(), "weight": each.weight, "held_out": each.held_out}
            for each in self._population.members
        ]

    def _declare_missing(self, missing: Mapping[str, Any]) -> None:
        """Count these values as missing, by column, in the schema of the model and in those of all members."""
        changed: dict[int, Schema] = {}

        def declared(schema: Schema) -> Schema:  # members that share a schema share it afterwards
            own = {name: replace(schema[name], missing=values) for name, values in missing.items() if name in schema}
            return changed.setdefault(id(schema), schema | own if own else schema)

        lead, population = self.schema_, self._population
        self.schema_ = declared(lead)
        if population is not None:
            members = tuple(each._replace(schema=declared(each.schema)) for each in population.members)
            self._population = replace(population, members=members)

    def _views(self, generative: bool = False) -> list[Self]:
        """Each member as a model of its own; the model itself if it has one member.

        `generative` members are models of the answers only, not of which questions were answered.
        """
        if self._population is None:
            return [self]
        views = []
        for each in self._population.generative if generative else self._population.members:
            view = copy(self)
            view._population, view.schema_, view.params_ = None, each.schema, each.params
            view._routes = self._population.routes
            view._offsets = partial(self._population.offsets, each, view._how("mean-field"))  # type: ignore[method-assign]
            views.append(view)
        return views


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def weights(
    schema: Schema, table: Table, sample_weight: Any, missing_columns: Literal["error", "ignore"] = "error"
) -> np.ndarray:
    """How much each row counts: by the schema's Weight column, times `sample_weight`."""
    given = settings.row_weights(sample_weight, table.n_rows)
    own = schema.weights(table, missing_columns=missing_columns)
    return given if own is None else settings.row_weights(given * own, table.n_rows)


class Weighted(NamedTuple):
    """Rows of a table that count: those with a positive weight."""

    table: Table
    schema: Schema  # not fitted
    weight: np.ndarray  # [row] how many rows each row stands for
    places: np.ndarray  # [row] in the whole table

    def in_whole(self, values: np.ndarray, n_rows: int) -> np.ndarray:
        """Values [row, ...] for the rows of the whole table; NaN in rows that do not count."""
        found = np.full((n_rows, *values.shape[1:]), np.nan, values.dtype)
        found[self.places] = values
        return found


def rows_that_count(table: Table, sample_weight: Any, estimator: Any, *, drop: bool = True) -> Weighted:
    """The rows that an estimator is fitted to, and the schema, which nothing in rows of weight 0 decides.

    Without `drop`, these are all rows. Refuses tables that no model can be fitted to.
    """
    if table.n_rows == 0:
        raise SchemaError("the table has no rows", remedy="give at least one row to learn from")
    if not table.names:
        # In scikit-learn's words, which its own checks of estimators look for.
        problem = f"Found a table with 0 feature(s) (shape=({table.n_rows}, 0)) while a minimum of 1 is required"
        raise SchemaError(problem, remedy="give at least one column")
    given, places = settings.row_weights(sample_weight, table.n_rows), np.arange(table.n_rows)
    if drop and not given.all():
        places = np.flatnonzero(given)
        table, given = table.take(places), given[places]
    schema = estimator._schema(table)
    own = schema.weights(table)
    if drop and own is not None and not own.all():
        counts = np.flatnonzero(own)
        table, given, places = table.take(counts), given[counts], places[counts]
        if estimator.schema is None:
            schema = estimator._schema(table) | {name: each for name, each in schema.items() if each.role == "weight"}
    return Weighted(table, schema, weights(schema, table, given), places)
