"""§6 TBM: the scikit-learn face of the Thurstonian Boltzmann machine.

Thin: it turns tables into evidence, hands them to `learning` and `queries`, and turns answers back into tables in the
user's own labels and units. The mathematics is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from os import PathLike
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thurbo import packing, store
from thurbo.columns import Block, Column, LevelColumn, MeasuredColumn
from thurbo.columns.cells import plain
from thurbo.columns.statements import parse_given
from thurbo.constraints import Gauge, Levels
from thurbo.errors import NotTrusted, SchemaError, ThurboError
from thurbo.evidence import Evidence
from thurbo.io import frames
from thurbo.learning import initialise, monitor, settings, trainer
from thurbo.learning.plan import Plan
from thurbo.queries import answers, predict, sample, score
from thurbo.rbm import Params
from thurbo.schema import Schema

Statistic = Literal["auto", "mode", "median", "mean"]


Given = Mapping[str, Any] | Sequence[str] | str | None


class Asked(NamedTuple):
    """A table of a query: as it came, what each column says, and the evidence."""

    table: frames.Table
    blocks: dict[str, Block]
    evidence: Evidence


class TBM(TransformerMixin, BaseEstimator):
    """Thurstonian Boltzmann machine: one model of every column of a table, with holes anywhere.

    x = α + W h + V z + ε, with binary hidden units h, Gaussian factors z, unit normal ε; each cell says where x lies.

    Parameters
    ----------
    schema : Schema or mapping, optional
        What each column is. By default it is inferred from the data.
    n_hidden : int or "auto"
        Number K of binary hidden units.
    n_factors : int or "auto"
        Number of Gaussian factors; "auto" is none for now.
    unobserved : {"marginalize", "exclude"}
        A missing cell is integrated over, or is no variable of that row's model at all.
    objective : {"auto", "likelihood", "multi-prediction", "exact"}
        What is maximised. "auto" enumerates few hidden units ("exact") and predicts hidden cells otherwise.
    likelihood_weight : float or "auto"
        Share of the likelihood mixed into multi-prediction: it keeps the model generative while prediction makes it
        sharp. "auto" is 0.1 where objective="auto" chose multi-prediction, otherwise 0.
    positive_phase, negative_phase : "auto" or the names of §5.1
        "mean-field" or "gibbs"; "persistent" or "contrastive". Used by objective="likelihood".
    n_negative_steps, n_chains : int
        Rounds of Gibbs sampling an update, and number of persistent chains, in the negative phase.
    sparsity_target, sparsity_weight : float
        ρ and λ of §6: pull each row's hidden probabilities towards ρ.
    weight_decay, max_norm : float
        Shrinkage of weights per step and unit of learning rate; largest norm of a hidden unit's weights.
    learn_cuts : bool
        Learn the cuts between levels (§5.2), or keep those that the answers' own frequencies give.
    optimizer, learning_rate, batch_size, max_epochs
        "adam" or "sgd" and its settings.
    random_state : int, RandomState or None
        Same seed, same result.
    verbose : bool or "auto"
        Show a progress bar on standard error; "auto" does on a terminal.

    Attributes
    ----------
    schema_, site_names_ : the fitted columns, and the name of each of the N sites
    weights_ (N, K), loadings_ (N, factors), site_bias_ (N,), hidden_bias_ (K,) : W, V, α, γ of Eq. (2)
    cuts_ : {column: increasing array}; scales_ : {column: (location, scale)} of measured columns
    params_ : the same as arrays on the device; history_ : one dict per epoch
    objective_, converged_, n_epochs_ : what was maximised, whether all went well, and for how long
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
        positive_phase: Literal["auto", "mean-field", "gibbs"] = "auto",
        negative_phase: Literal["auto", "persistent", "contrastive"] = "auto",
        n_negative_steps: int = 5,
        n_chains: int = 1000,
        sparsity_target: float = 0.1,
        sparsity_weight: float = 0.0,
        weight_decay: float = 1e-3,
        max_norm: float | None = None,
        learn_cuts: bool = True,
        optimizer: Literal["adam", "sgd"] = "adam",
        learning_rate: float = 1e-2,
        batch_size: int | Literal["auto"] = "auto",
        max_epochs: int | Literal["auto"] = "auto",
        random_state: Any = None,
        verbose: bool | int | Literal["auto"] = "auto",
    ):
        self.schema = schema
        self.n_hidden = n_hidden
        self.n_factors = n_factors
        self.unobserved = unobserved
        self.objective = objective
        self.likelihood_weight = likelihood_weight
        self.positive_phase = positive_phase
        self.negative_phase = negative_phase
        self.n_negative_steps = n_negative_steps
        self.n_chains = n_chains
        self.sparsity_target = sparsity_target
        self.sparsity_weight = sparsity_weight
        self.weight_decay = weight_decay
        self.max_norm = max_norm
        self.learn_cuts = learn_cuts
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
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
        schema = self._schema(table).fit(table)
        if schema.n_sites == 0:
            raise SchemaError("no column is left to model", remedy="name at least one column that is not Ignore")
        blocks = schema.compile(table)
        evidence = packing.pack(blocks.values(), schema.families, self.unobserved)
        weight = settings.row_weights(sample_weight, table.n_rows)
        n_hidden, n_factors = settings.sizes(chosen, table.n_rows, schema.n_sites)
        plan = settings.plan(chosen, n_hidden, n_factors)
        key = jax.random.key(int(check_random_state(self.random_state).randint(2**31 - 1)))
        key_start, key_chains, key_fit = jax.random.split(key, 3)
        state = self._start(key_start, key_chains, schema, blocks, evidence, weight, (n_hidden, n_factors), plan)
        batch_size, max_epochs = settings.lengths(chosen, table.n_rows)
        with monitor.progress(max_epochs, self.verbose) as on_epoch:
            fitted = trainer.fit(
                key_fit,
                state,
                evidence,
                jnp.asarray(weight, jnp.float32),
                initialise.Layout(jnp.asarray(schema.n_cuts), jnp.asarray(schema.is_measured)),
                plan,
                batch_size=batch_size,
                max_epochs=max_epochs,
                learning_rate=float(self.learning_rate),
                on_epoch=on_epoch,
            )
        monitor.warn(fitted)
        self._adopt(schema, fitted.params, plan.objective, fitted.history, fitted.converged)
        self.n_features_in_, self.frame_kind_ = len(table.names), table.kind
        if table.kind != "numpy":
            self.feature_names_in_ = np.asarray(table.names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _schema(self, table: frames.Table) -> Schema:
        if self.schema is None:
            return Schema.infer(table)
        if isinstance(self.schema, Schema):
            return self.schema
        if not isinstance(self.schema, Mapping):
            raise ThurboError(f"schema={self.schema!r} is not a schema; give a Schema or a dict of columns")
        return Schema(self.schema)

    def _start(
        self,
        key: Any,
        key_chains: Any,
        schema: Schema,
        blocks: dict[str, Block],
        evidence: Evidence,
        weight: np.ndarray,
        sizes: tuple[int, int],
        plan: Plan,
    ) -> trainer.TrainState:
        codes = [np.asarray(c.code) for c in evidence.constraints if isinstance(c, Levels)]
        silent = np.full((evidence.n_rows, schema.n_sites), -1, np.int8)
        cuts = initialise.starting_cuts(codes[0] if codes else silent, schema.n_cuts, weight)
        tiers = np.concatenate([block.tier for block in blocks.values() if block.sites], axis=1)
        bias = initialise.starting_utilities(tiers, schema.site_columns, weight)
        learnable, centre = initialise.start(key, cuts, schema.n_cuts, *sizes, np.dtype(np.float32), site_bias=bias)
        chains = jax.random.bernoulli(key_chains, 0.5, (int(self.n_chains), sizes[0])).astype(jnp.float32)
        return trainer.initial_state(learnable, centre, chains, plan)

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

    def _read(self, X: Any, given: Given = None) -> Asked:
        """A table, with `given` in the place of some columns' cells, as evidence."""
        check_is_fitted(self, "params_")
        table = frames.table(X)
        if table.kind == "numpy":  # an array has no names: its columns are those of the fit, in order
            if len(table.names) != self.n_features_in_:
                # In scikit-learn's words, which its own checks of estimators look for.
                problem = f"X has {len(table.names)} features, but TBM is expecting {self.n_features_in_} features"
                raise SchemaError(f"{problem} as input", remedy="give the columns of the table it was fitted to")
            table = frames.table(X, names=getattr(self, "feature_names_in_", None))
        if table.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row")
        if given is not None and not isinstance(given, Mapping):
            given = dict(parse_given(text, self.schema_) for text in np.atleast_1d(given).tolist())
        blocks = self.schema_.compile(table, given=given)
        return Asked(table, blocks, packing.pack(blocks.values(), self.schema_.families, self.unobserved))

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
        return predict.How(method=method, n_steps=n_steps, unobserved=self.unobserved)  # type: ignore[arg-type]

    def transform(self, X: Any, output: Literal["probability", "log_odds"] = "probability") -> np.ndarray:
        """P(h_k = 1 | e) of every row, or its log-odds; then the factor means, if there are factors."""
        if output not in {"probability", "log_odds"}:
            raise ThurboError(f'output "{output}" is not one of probability, log_odds')
        evidence, how = self._read(X).evidence, self._how("auto")
        found = packing.by_chunks(lambda rows: predict.features(self.params_, rows, how), evidence)
        hidden = found.hidden if output == "probability" else found.log_odds
        return np.concatenate([hidden, found.factors], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """hidden0, hidden1, … and factor0, … in the order of `transform`."""
        check_is_fitted(self, "params_")
        names = [f"hidden{k}" for k in range(self.params_.n_hidden)]
        return np.asarray(names + [f"factor{f}" for f in range(self.params_.n_factors)], object)

    def predict_proba(self, X: Any, column: str, given: Given = None, method: str = "auto") -> np.ndarray:
        """P(answer | all other cells of the row), one column per label of `schema_[column].labels`.

        `given` sets cells of other columns in every row: {"age": at_least(45)}, or conditions as text, "age >= 45".
        Of a ranking it is P(best of all), of options P(ticked).
        """
        evidence = self._read(X, given).evidence
        return answers.probabilities(self.params_, self.schema_, evidence, column, self._how(method))

    def predict(
        self,
        X: Any,
        columns: Any = None,
        statistic: Statistic = "mode",
        given: Given = None,
        method: str = "auto",
    ) -> Any:
        """Each cell from all other cells of its row: a table of the same library, in the user's labels and units."""
        asked, how = self._read(X, given), self._how(method)
        names = list(self.schema_.modelled) if columns is None else np.atleast_1d(columns).tolist()
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
        found: dict[str, np.ndarray] = {}
        where: dict[str, np.ndarray] = {}
        for name in self.schema_.modelled:
            sources = self.schema_[name].source_columns(name)
            gaps = {source: asked.table.cells(source).missing for source in sources}
            if sources != (name,):
                unanswered = ~asked.blocks[name].takes_part.any(axis=1)
                gaps = {source: missing & unanswered for source, missing in gaps.items()}
            if any(missing.any() for missing in gaps.values()):
                found |= answers.cells(self.params_, self.schema_, asked.evidence, name, how, statistic)
                where |= gaps
        return frames.replace(asked.table, found, where)

    def sample(self, n: int = 1, random_state: Any = None) -> Any:
        """`n` new rows from the model, as a table with the columns of the schema."""
        check_is_fitted(self, "params_")
        if not isinstance(n, Integral) or int(n) < 0:
            raise ThurboError(f"n={n!r} is not a number of rows; give a whole number of at least 0")
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        x = sample.draw(jax.random.key(seed), self.params_, int(n))
        return frames.assemble(self.frame_kind_, answers.from_latent(self.schema_, self.params_, x))

    def score_samples(self, X: Any, return_se: bool = False) -> Any:
        """log P(e) of every row in nats, in the user's units; with its standard error if asked (0 where exact)."""
        asked = self._read(X)
        value, error = score.score(self.params_, asked.evidence)
        value = value + sum(block.log_jacobian for block in asked.blocks.values())
        return (value, error) if return_se else value

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log P(e) of the rows, in nats."""
        return float(self.score_samples(X).mean())

    def log_partition(self) -> tuple[float, float]:
        """log Z over all sites with its (N/2) log 2π, and its standard error: 0.0 where it is exact."""
        check_is_fitted(self, "params_")
        return score.log_partition(self.params_)

    # ---- files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file: no code, no rows of the data."""
        check_is_fitted(self, "params_")
        chosen = {name: plain(value) for name, value in self.get_params(deep=False).items() if name != "schema"}
        if not isinstance(chosen["random_state"], (int, type(None))):
            chosen["random_state"] = None  # a generator's state is no part of the model
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
        arrays = {name: np.asarray(value) for name, value in params._asdict().items() if name != "gauge"}
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
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
