"""The estimator's contract, from tables to tables: same cells in, same numbers out, whatever the library.

Numbers are held against an enumeration written here in NumPy and SciPy (float64) from the fitted attributes alone,
rows against themselves in other batches, and draws against exact marginals with a p-value.
"""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binomtest, chisquare, kstest, norm, t
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import thurbo as tb
from tests.known import changed as with_params
from thurbo.fit import course, trainer
from thurbo.latent.inference.posterior import Belief, expectation
from thurbo.predict import moments as distributions
from thurbo.predict.moments import _features
from thurbo.table.io.frames import as_table, library_of

CHANCE = 2e-5
N_ROWS = 120
LEVELS = {"member": ("no", "yes"), "trust": ("none", "some", "a lot"), "kids": (0, 1, 2, 3)}
NUMBERS = ("height", "income")
NAMES = ("height", "income", "member", "trust", "kids")
COLUMNS: dict[str, tb.Column] = {
    "height": tb.Continuous(),
    "income": tb.Continuous(transform="log"),
    "member": tb.Binary(true="yes"),
    "trust": tb.Ordinal(LEVELS["trust"]),
    "kids": tb.Ordinal(LEVELS["kids"]),
}
FIT: dict[str, Any] = {"n_hidden": 3, "max_epochs": 6, "batch_size": 40, "learning_rate": 0.05, "random_state": 7}


def simulated(n_rows: int = N_ROWS, seed: int = 0, share_missing: float = 0.15) -> dict[str, list[Any]]:
    """A table whose columns share a common cause; no row is silent altogether."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 1)) + rng.normal(size=(n_rows, 5))
    columns: dict[str, list[Any]] = {
        "height": (170 + 8 * x[:, 0]).tolist(),
        "income": np.exp(10 + 0.5 * x[:, 1]).tolist(),
        "member": [LEVELS["member"][int(value > 0)] for value in x[:, 2]],
        "trust": [LEVELS["trust"][code] for code in np.digitize(x[:, 3], [-0.7, 0.7])],
        "kids": np.digitize(x[:, 4], [-1.0, 0.0, 1.0]).tolist(),
    }
    gone = rng.random((n_rows, 5)) < share_missing
    gone[np.arange(n_rows), rng.integers(5, size=n_rows)] = False
    for place, name in enumerate(NAMES):
        columns[name] = [None if away else cell for cell, away in zip(columns[name], gone[:, place], strict=True)]
    return columns


DATA = simulated()
MAKERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": lambda data: pd.DataFrame(
        data, index=pd.Index([f"p{i}" for i in range(len(data["height"]))], name="person")
    ),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "dict": dict,
    "numpy": lambda data: np.asarray([list(row) for row in zip(*data.values(), strict=True)], object),
}
OTHERS = tuple(library for library in MAKERS if library != "pandas")


def as_columns(native: Any) -> dict[str, list[Any]]:
    """Any table as lists of cells, under the names of the fitted columns; None where missing."""
    source = as_table(native, names=NAMES) if isinstance(native, np.ndarray) else as_table(native)
    out = {}
    for name in source.names:
        cells = source.cells(name)
        pairs = zip(cells.values.tolist(), cells.missing, strict=True)
        out[name] = [None if gone else value for value, gone in pairs]
    return out


def changed(data: dict[str, list[Any]], name: str, cells: list[Any]) -> dict[str, list[Any]]:
    return {**data, name: cells}


def fitted(library: str = "pandas", data: dict[str, list[Any]] | None = None, **settings: Any) -> tb.TBM:
    schema = {f"x{i}": COLUMNS[name] for i, name in enumerate(NAMES)} if library == "numpy" else COLUMNS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.ConvergenceWarning)  # a few epochs are not meant to converge
        return tb.TBM(schema, **{**FIT, **settings}).fit(MAKERS[library](DATA if data is None else data))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return MAKERS["pandas"](DATA)


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return fitted()


def reading(model: tb.TBM, unobserved: str) -> tb.TBM:
    """The same parameters under either reading of missing cells: no need to fit again."""
    other = clone(model).set_params(unobserved=unobserved)
    other.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_")})
    other.model_ = replace(model.model_, unobserved=unobserved)
    return other


def untrained(strength: float, **settings: Any) -> tb.TBM:
    """A model that nobody trained, so nothing is compiled, with weights stronger than those it starts from."""
    own = fitted(max_epochs=0, **settings)
    params = own.params_._replace(
        weights=strength * own.params_.weights,
        loadings=strength * own.params_.loadings,
        site_bias=own.params_.site_bias - strength * own.params_.weights.mean(axis=1),
    )
    own._adopt(with_params(own.model_, params), [], True)
    return own


@pytest.fixture(scope="module")
def excluding(model: tb.TBM) -> tb.TBM:
    return reading(model, "exclude")


@pytest.fixture(scope="module")
def wide() -> tb.TBM:
    """Too many hidden units for its queries to enumerate."""
    return untrained(2.0, n_hidden=13)


@pytest.fixture(scope="module")
def factored() -> tb.TBM:
    return untrained(6.0, n_factors=1)


class Enumeration:
    """log P(e) = log Σ_h P(h) P(x ∈ Ω(e) | h) of api.md, by the book, from fitted attributes in float64."""

    def __init__(self, model: tb.TBM, unobserved: str = "marginalize", n_nodes: int = 401):
        alpha, W, gamma = (np.asarray(a, np.float64) for a in (model.site_bias_, model.weights_, model.hidden_bias_))
        self.model, self.unobserved = model, unobserved
        self.h = np.array(list(itertools.product([0.0, 1.0], repeat=W.shape[1]))).reshape(2 ** W.shape[1], W.shape[1])
        self.linear, self.mean = self.h @ gamma, alpha + self.h @ W.T
        # Factors by the trapezoidal rule, which knows nothing of Gauss and Hermite.
        V = np.asarray(model.loadings_, np.float64)
        nodes = np.linspace(-9, 9, n_nodes) if V.shape[1] else np.zeros(1)
        grid = np.array(list(itertools.product(nodes, repeat=V.shape[1]))).reshape(len(nodes), V.shape[1])
        weight = norm.logpdf(grid).sum(1)
        self.z_weight, self.shift = weight - logsumexp(weight), grid @ V.T

    def interval(self, name: str, cell: Any) -> tuple[float, float]:
        ends = np.concatenate([[-np.inf], np.asarray(self.model.cuts_[name], np.float64), [np.inf]])
        level = LEVELS[name].index(cell)
        return ends[level], ends[level + 1]

    def log_cell(self, name: str, cell: Any) -> np.ndarray:
        """log P(cell | h, z) of every state and node, [state, node], in the user's units."""
        site = NAMES.index(name)
        mean = self.mean[:, None, site] + self.shift[None, :, site]
        if name in NUMBERS:
            location, scale = self.model.scales_[name]
            value, log_slope = (np.log(cell), -np.log(cell)) if name == "income" else (cell, 0.0)
            return norm.logpdf((value - location) / scale, mean) - np.log(scale) + log_slope
        lower, upper = self.interval(name, cell)
        if np.isinf(lower):
            return log_ndtr(upper - mean)
        if np.isinf(upper):
            return log_ndtr(mean - lower)
        return np.log(norm.cdf(upper - mean) - norm.cdf(lower - mean))

    def log_prior(self, row: dict[str, Any]) -> np.ndarray:
        """log P(h), over all sites or over the row's own."""
        own = [name in row or self.unobserved == "marginalize" for name in NAMES]
        value = self.linear + 0.5 * (self.mean[:, own] ** 2).sum(1)
        return value - logsumexp(value)

    def joint(self, row: dict[str, Any]) -> np.ndarray:
        """log P(h, z, e) of every state and node, [state, node]."""
        start = self.log_prior(row)[:, None] + self.z_weight[None, :]
        return start + sum((self.log_cell(name, cell) for name, cell in row.items()), np.zeros((1, 1)))

    def score(self, row: dict[str, Any]) -> float:
        return float(logsumexp(self.joint(row)))

    def features(self, row: dict[str, Any]) -> np.ndarray:
        joint = self.joint(row)
        return np.exp(logsumexp(joint, axis=1) - logsumexp(joint)) @ self.h

    def probabilities(self, row: dict[str, Any], name: str) -> np.ndarray:
        rest = {other: cell for other, cell in row.items() if other != name}
        joint = self.joint(rest)
        parts = [logsumexp(joint + self.log_cell(name, label)) for label in LEVELS[name]]
        return np.exp(np.array(parts) - logsumexp(joint))

    def marginal(self, name: str) -> np.ndarray:
        return self.probabilities({}, name)


def rows_of(data: dict[str, list[Any]], n: int) -> list[dict[str, Any]]:
    """The first rows as their observed cells."""
    return [{name: data[name][i] for name in NAMES if data[name][i] is not None} for i in range(n)]


# The numbers, against enumeration


@pytest.mark.parametrize("unobserved", ["marginalize", "exclude"])
def test_numbers_equal_the_definition(model: tb.TBM, excluding: tb.TBM, frame: pd.DataFrame, unobserved: str) -> None:
    own = model if unobserved == "marginalize" else excluding
    truth = Enumeration(own, unobserved)
    rows = rows_of(DATA, 40)
    np.testing.assert_allclose(own.score_samples(frame)[:40], [truth.score(row) for row in rows], atol=2e-4, rtol=1e-5)
    features = own.transform(frame)[:40]
    np.testing.assert_allclose(features, [truth.features(row) for row in rows], atol=2e-5)
    odds = own.transform(frame, output="log_odds")[:40]
    np.testing.assert_allclose(odds, np.log(features) - np.log1p(-features), atol=1e-4)
    for name in LEVELS:
        chances = own.predict_proba(frame, name)[:40]
        np.testing.assert_allclose(chances, [truth.probabilities(row, name) for row in rows], atol=2e-5)
    value, error = own.score_samples(frame, return_se=True)
    assert np.array_equal(value, own.score_samples(frame))
    assert (error == 0).all()
    assert own.score(frame) == pytest.approx(value.mean())


def test_numbers_with_a_factor_equal_the_definition(factored: tb.TBM, frame: pd.DataFrame) -> None:
    assert factored.objective_ == "multi-prediction"
    truth = Enumeration(factored)
    rows = rows_of(DATA, 20)
    scores = [truth.score(row) for row in rows]
    np.testing.assert_allclose(factored.score_samples(frame)[:20], scores, atol=5e-4, rtol=1e-5)
    np.testing.assert_allclose(factored.transform(frame)[:20, :3], [truth.features(row) for row in rows], atol=5e-5)
    chances = factored.predict_proba(frame, "trust")[:20]
    np.testing.assert_allclose(chances, [truth.probabilities(row, "trust") for row in rows], atol=5e-5)


def test_log_partition_is_the_sum_over_states(model: tb.TBM, wide: tb.TBM) -> None:
    for own in (model, wide):
        truth = Enumeration(own)
        expected = logsumexp(truth.linear + 0.5 * (truth.mean**2).sum(1)) + 2.5 * np.log(2 * np.pi)
        value, error = own.log_partition()
        assert value == pytest.approx(expected, abs=1e-3)
        assert error == 0.0
        assert own.log_partition(return_bounds=True) == (value, value, value)


def test_estimated_scores_agree_with_enumeration(wide: tb.TBM, frame: pd.DataFrame) -> None:
    value, error, lower, upper = wide.score_samples(frame.iloc[:30], True, "annealed", return_bounds=True)
    truth = Enumeration(wide)
    exact = np.array([truth.score(row) for row in rows_of(DATA, 30)])
    surprise = np.abs(value - exact) / np.hypot(error, 1e-4)
    assert 30 * 2 * norm.sf(surprise.max()) > CHANCE
    assert np.mean((lower <= exact) & (exact <= upper)) >= 0.9
    assert (error >= 0).all()


def test_methods_agree(model: tb.TBM, frame: pd.DataFrame) -> None:
    """Gibbs against enumeration by a t-test over independent chains; mean-field in the limit of weak weights."""
    some = frame.iloc[:16].assign(trust=None)
    exact = model.predict_proba(some, "trust", method="exact")[:, 0]
    (evidence,) = model._read(some).evidence.buckets
    cut = jnp.asarray(model.cuts_["trust"][0])

    def lowest(belief: Belief) -> jax.Array:
        mean, deviation = belief.at(model.params_, jnp.asarray([3]))
        return jax.scipy.stats.norm.cdf((cut - mean[:, 0]) / deviation[:, 0])

    def chain(key: jax.Array) -> Any:
        return expectation(lowest, model.params_, evidence, "gibbs", key=key, n_draws=100)

    n_chains = 30
    draws = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), n_chains)), np.float64)
    spread = draws.std(axis=0, ddof=1)
    statistic = np.abs(draws.mean(axis=0) - exact) / (spread / np.sqrt(n_chains))
    assert 16 * 2 * t.sf(statistic.max(), n_chains - 1) > CHANCE
    # What users get is one longer chain, so it strays less than one of these.
    public = model.predict_proba(some, "trust", method="gibbs")[:, 0]
    assert 16 * 2 * t.sf((np.abs(public - exact) / spread).max(), n_chains - 1) > CHANCE

    weak = reading(model, "marginalize")
    params = model.params_._replace(weights=0.1 * model.params_.weights)
    weak.model_ = with_params(model.model_, params)
    for name in LEVELS:
        rough = weak.predict_proba(frame, name, method="mean-field")
        np.testing.assert_allclose(rough, weak.predict_proba(frame, name, method="exact"), atol=5e-3)


# The user's units


def test_scores_are_densities_in_the_users_units(model: tb.TBM, frame: pd.DataFrame) -> None:
    """A power of two moves no bit of the standardised column, so the two fits are the same fit."""
    known = frame["height"].notna().to_numpy()
    sixteen = fitted(data=changed(DATA, "height", [None if e is None else 16 * e for e in DATA["height"]]))
    assert np.array_equal(sixteen.weights_, model.weights_)
    shift = sixteen.score_samples(frame.assign(height=16 * frame["height"])) - model.score_samples(frame)
    np.testing.assert_allclose(shift, np.where(known, -np.log(16), 0.0), atol=1e-9)
    ten = fitted(data=changed(DATA, "height", [None if e is None else 10 * e for e in DATA["height"]]))
    shift = ten.score_samples(frame.assign(height=10 * frame["height"])) - model.score_samples(frame)
    np.testing.assert_allclose(shift, np.where(known, -np.log(10), 0.0), atol=2e-3)


def test_density_of_a_log_column_integrates_to_one(model: tb.TBM) -> None:
    """∫ P(income, rest) d income = P(rest): the Jacobian of the logarithm by quadrature."""
    grid = np.exp(np.linspace(4, 16, 600))
    data = {name: [None] * 600 for name in NAMES} | {"income": grid.tolist(), "member": ["yes"] * 600}
    density = np.exp(model.score_samples(pd.DataFrame(data)))
    rest = model.score_samples(pd.DataFrame({name: [cells[0]] for name, cells in data.items()}).assign(income=np.nan))
    assert np.trapezoid(density, grid) == pytest.approx(np.exp(rest[0]), rel=1e-4)


def test_predictions_follow_the_units(model: tb.TBM, frame: pd.DataFrame) -> None:
    sixteen = fitted(data=changed(DATA, "height", [None if e is None else 16 * e for e in DATA["height"]]))
    big = frame.assign(height=16 * frame["height"])
    for statistic in ("mode", "median", "mean"):
        plain, scaled = (own.predict(X, statistic=statistic) for own, X in ((model, frame), (sixteen, big)))
        np.testing.assert_allclose(scaled["height"], 16 * plain["height"], rtol=1e-6)
        assert (plain["income"] > 0).all()
        np.testing.assert_allclose(scaled["income"], plain["income"], rtol=1e-6)


def test_predicted_numbers_are_those_of_the_mixture(model: tb.TBM, frame: pd.DataFrame) -> None:
    """Given the rest of the row, a number is a mixture of normals over h: its mean and median by hand."""
    truth = Enumeration(model)
    location, scale = model.scales_["height"]
    few = frame.iloc[:16]
    mean, median = (model.predict(few, ["height"], statistic=s)["height"].to_numpy() for s in ("mean", "median"))
    for i, row in enumerate(rows_of(DATA, 16)):
        joint = truth.joint({name: cell for name, cell in row.items() if name != "height"})[:, 0]
        weight = np.exp(joint - logsumexp(joint))
        assert mean[i] == pytest.approx(location + scale * (weight @ truth.mean[:, 0]), abs=0.02 * scale)
        assert weight @ norm.cdf((median[i] - location) / scale - truth.mean[:, 0]) == pytest.approx(0.5, abs=1e-3)


# Tables of every library


@pytest.mark.parametrize("library", OTHERS)
def test_same_cells_in_same_numbers_out(model: tb.TBM, frame: pd.DataFrame, library: str) -> None:
    native = MAKERS[library](DATA)
    own = fitted(library)
    name = dict(zip(NAMES, own.schema_.names, strict=True))
    for attribute in ("weights_", "site_bias_", "hidden_bias_"):
        assert np.array_equal(getattr(own, attribute), getattr(model, attribute))
    assert np.array_equal(own.transform(native), model.transform(frame))
    assert np.array_equal(own.score_samples(native), model.score_samples(frame))
    assert np.array_equal(own.predict_proba(native, name["trust"]), model.predict_proba(frame, "trust"))
    for answer in ("predict", "impute"):
        out = getattr(own, answer)(native)
        assert library_of(out) == library
        assert as_columns(out) == as_columns(getattr(model, answer)(frame))
    drawn = own.sample(5, random_state=0)
    assert library_of(drawn) == library
    assert as_columns(drawn) == as_columns(model.sample(5, random_state=0))


def test_one_model_reads_every_library(model: tb.TBM, frame: pd.DataFrame) -> None:
    """Fitted to pandas, asked in another library; an array's columns are those of the fit, in order."""
    for library in OTHERS:
        native = MAKERS[library](DATA)
        assert np.array_equal(model.transform(native), model.transform(frame))
        out = model.impute(native)
        assert library_of(out) == library
        assert as_columns(out) == as_columns(model.impute(frame))


def test_arrays_take_a_schema_of_some_columns() -> None:
    array = MAKERS["numpy"](DATA)
    own = tb.TBM({"x3": COLUMNS["trust"], "x0": COLUMNS["height"]}, **{**FIT, "max_epochs": 0}).fit(array)
    assert own.n_features_in_ == 5
    assert own.site_names_ == ["x3", "x0"]
    assert own.transform(array).shape == (N_ROWS, 3)
    filled = own.impute(array)
    assert filled.shape == array.shape
    assert all(filled[i, 3] in LEVELS["trust"] for i in range(N_ROWS))
    assert all(filled[i, 2] == array[i, 2] for i in range(N_ROWS))
    with pytest.raises(tb.SchemaError, match="X has 4 features, but TBM is expecting 5 features"):
        own.transform(array[:, :4])


def test_plain_arrays_need_no_schema() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(40, 3))
    numbers[::7, 1] = np.nan
    own = fitted_array(numbers)
    assert own.schema_["x1"].kind == "continuous"
    assert not np.isnan(own.impute(numbers)).any()
    assert own.sample(4).shape == (4, 3)
    flags = fitted_array(numbers > 0)
    assert flags.schema_["x1"].kind == "binary"
    assert flags.sample(4).dtype == bool
    assert flags.predict(numbers > 0).dtype == bool


def fitted_array(array: np.ndarray) -> tb.TBM:
    return tb.TBM(n_hidden=0, max_epochs=0, random_state=0).fit(array)


def test_pandas_index_and_labels_are_kept(model: tb.TBM, frame: pd.DataFrame) -> None:
    indices = [
        frame.index,
        pd.MultiIndex.from_product([["a", "b"], range(N_ROWS // 2)], names=["half", "number"]),
        pd.date_range("2024-01-01", periods=N_ROWS, name="day", tz="UTC"),
        pd.Index([0] * N_ROWS),
    ]
    for index in indices:
        named = frame.set_axis(index)
        for out in (model.predict(named), model.predict(named, "trust"), model.impute(named)):
            pd.testing.assert_index_equal(out.index, index)
    predicted = model.predict(frame)
    assert list(predicted.columns) == list(NAMES)
    for name, labels in LEVELS.items():
        assert set(predicted[name]) <= set(labels)
    some = model.predict(frame, columns=["kids", "height"])
    assert list(some.columns) == ["kids", "height"]
    pd.testing.assert_frame_equal(some, predicted[["kids", "height"]])


@pytest.mark.parametrize("library", MAKERS)
def test_impute_fills_what_is_missing_and_nothing_else(model: tb.TBM, library: str) -> None:
    native = MAKERS[library]({**DATA, "note": [f"n{i}" if i % 3 else None for i in range(N_ROWS)]})
    if library == "numpy":
        native = native[:, :5]
    before, after = as_columns(native), as_columns(model.impute(native))
    assert list(after) == list(before)
    predicted = as_columns(model.predict(native, statistic="auto"))
    for name, cells in before.items():
        for i, cell in enumerate(cells):
            if name == "note" or cell is not None:
                assert after[name][i] == cell
            else:
                own = predicted[name][i]
                assert own is not None
                # Numbers of the same row in another batch agree to rounding.
                assert after[name][i] == (pytest.approx(own, rel=1e-7) if isinstance(own, float) else own)
    assert as_columns(native) == before


def test_impute_preserves_dtypes(model: tb.TBM, frame: pd.DataFrame) -> None:
    typed = frame.astype(
        {
            "height": "float32",
            "kids": "Int8",
            "trust": pd.CategoricalDtype(LEVELS["trust"], ordered=True),
            "member": "string",
        }
    )
    for out in (model.impute(typed), model.predict(typed)):
        assert out.dtypes.to_dict() == typed.dtypes.to_dict()
    lazy = pl.DataFrame(DATA, schema_overrides={"trust": pl.Enum(LEVELS["trust"]), "kids": pl.Int8})
    for table in (model.impute(lazy), model.predict(lazy)):
        assert table.schema == lazy.schema
        assert sum(table.null_count().row(0)) == 0


def test_a_column_that_is_missing_altogether_is_filled(model: tb.TBM, frame: pd.DataFrame) -> None:
    filled = model.impute(frame.assign(trust=np.nan, kids=None))
    assert set(filled["trust"]) <= set(LEVELS["trust"])
    assert set(filled["kids"]) <= set(LEVELS["kids"])


# One row, whatever its neighbours


QUERIES: dict[str, Callable[[tb.TBM, pd.DataFrame], np.ndarray]] = {
    "transform": lambda own, X: own.transform(X),
    "probability": lambda own, X: own.predict_proba(X, "trust"),
    "gibbs": lambda own, X: own.predict_proba(X, "trust", method="gibbs"),
    "mean-field": lambda own, X: own.predict_proba(X, "trust", method="mean-field"),
    "score": lambda own, X: own.score_samples(X)[:, None],
}


ASKED = [("model", query) for query in QUERIES] + [
    (which, query) for which in ("excluding", "wide") for query in ("transform", "probability", "score")
]


@pytest.mark.parametrize(
    ("which", "query"), [pytest.param(*each, marks=[pytest.mark.slow] * (each[1] == "gibbs")) for each in ASKED]
)
def test_a_rows_answer_is_its_own(which: str, query: str, request: pytest.FixtureRequest) -> None:
    """Alone, among others in another order, and in two chunks of 1024 rows, the second of them padded."""
    own, frame = request.getfixturevalue(which), request.getfixturevalue("frame").iloc[:16]
    ask = QUERIES[query]
    whole = ask(own, frame)
    assert np.isfinite(whole).all()
    order = np.random.default_rng(0).permutation(16)
    np.testing.assert_allclose(ask(own, frame.iloc[order]), whole[order], atol=1e-5, rtol=1e-5)
    for i in (0, 9):
        np.testing.assert_allclose(ask(own, frame.iloc[[i]]), whole[[i]], atol=1e-5, rtol=1e-5)
    if which == "model":
        place = np.r_[order[:12], np.arange(16).repeat(93)]
        assert len(place) == 1500
        np.testing.assert_allclose(ask(own, frame.iloc[place]), whole[place], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", ["exact", pytest.param("gibbs", marks=pytest.mark.slow), "mean-field"])
def test_a_cell_does_not_predict_itself(model: tb.TBM, excluding: tb.TBM, frame: pd.DataFrame, method: str) -> None:
    frame = frame.iloc[:16]
    for own in (model, excluding) if method == "exact" else (model,):
        for name, labels in LEVELS.items():
            asked = own.predict_proba(frame, name, method=method)
            np.testing.assert_allclose(asked.sum(axis=1), 1.0, atol=1e-6)
            assert asked.shape == (16, len(own.schema_[name].labels))
            assert own.schema_[name].labels == labels
            for other in (None, labels[0], labels[-1]):
                assert np.array_equal(own.predict_proba(frame.assign(**{name: other}), name, method=method), asked)


def test_mode_is_the_most_probable_label(model: tb.TBM, frame: pd.DataFrame) -> None:
    for name, labels in LEVELS.items():
        chances = model.predict_proba(frame, name)
        assert model.predict(frame, name)[name].tolist() == [labels[code] for code in chances.argmax(1)]
    expected = model.predict_proba(frame, "kids") @ np.arange(4)
    np.testing.assert_allclose(model.predict(frame, "kids", statistic="mean")["kids"], expected)
    middle = (np.cumsum(model.predict_proba(frame, "trust"), axis=1) < 0.5).sum(1)
    predicted = model.predict(frame, "trust", statistic="median")["trust"].tolist()
    assert predicted == [LEVELS["trust"][code] for code in middle]


# New rows


@pytest.mark.parametrize("which", ["model", pytest.param("wide", marks=pytest.mark.slow), "factored"])
def test_samples_follow_the_models_marginals(which: str, request: pytest.FixtureRequest) -> None:
    own = request.getfixturevalue(which)
    truth, n = Enumeration(own), 1000
    drawn = own.sample(n, random_state=3, method="gibbs")
    assert list(drawn.columns) == list(NAMES)
    assert len(drawn) == n
    p_values = []
    for name, labels in LEVELS.items():
        counts = [int((drawn[name] == label).sum()) for label in labels]
        assert sum(counts) == n
        p_values.append(chisquare(counts, n * truth.marginal(name)).pvalue)
    prior = np.exp(truth.log_prior({}))
    for name in NUMBERS:
        location, scale = own.scales_[name]
        site = NAMES.index(name)
        deviation = np.sqrt(1.0 + (np.asarray(own.loadings_, np.float64)[site] ** 2).sum())
        values = np.log(drawn[name]) if name == "income" else drawn[name]
        standard = ((values - location) / scale).to_numpy()
        mean = truth.mean[:, site]
        p_values.append(
            kstest(standard, lambda x, m=mean, d=deviation: norm.cdf((x[:, None] - m) / d) @ prior).pvalue  # type: ignore[misc]
        )
    assert min(p_values) * len(p_values) > CHANCE
    if which == "model":
        assert as_columns(own.sample(n, random_state=3, method="gibbs")) == as_columns(drawn)
        assert as_columns(own.sample(n, random_state=4, method="gibbs")) != as_columns(drawn)


# scikit-learn's contract


def test_fitted_attributes(model: tb.TBM, excluding: tb.TBM) -> None:
    assert model.n_features_in_ == 5
    assert model.feature_names_in_.tolist() == list(NAMES)
    assert model.site_names_ == list(NAMES)
    assert (model.objective_, model.n_epochs_) == ("exact", FIT["max_epochs"])
    assert not model.converged_  # six epochs are too few to tell
    assert [record["epoch"] for record in model.history_] == list(range(1, 7))
    assert model.weights_.shape == (5, 3)
    assert model.loadings_.shape == (5, 0)
    assert model.site_bias_.shape == (5,)
    assert model.hidden_bias_.shape == (3,)
    assert {name: len(cuts) for name, cuts in model.cuts_.items()} == {"member": 1, "trust": 2, "kids": 3}
    assert all((np.diff(cuts) > 0).all() for cuts in model.cuts_.values())
    assert set(model.scales_) == set(NUMBERS)
    assert all(scale > 0 for _, scale in model.scales_.values())
    logs = np.log([cell for cell in DATA["income"] if cell is not None])
    assert model.scales_["income"][0] == pytest.approx(logs.mean())
    assert list(model.schema_) == list(NAMES)
    assert "settled" in excluding.history_[-1]  # it ran to its end


def test_parameters_clone_and_pickle(model: tb.TBM, frame: pd.DataFrame) -> None:
    own = tb.TBM(COLUMNS, n_hidden=4, learning_rate=0.5)
    assert own.get_params()["learning_rate"] == 0.5
    assert own.set_params(n_hidden=3, random_state=1).n_hidden == 3
    copy = clone(model)
    assert not hasattr(copy, "params_")
    assert copy.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert copy.schema == model.schema
    again = pickle.loads(pickle.dumps(model))
    for query in ("transform", "score_samples"):
        assert np.array_equal(getattr(again, query)(frame), getattr(model, query)(frame))


def test_same_seed_same_bits(model: tb.TBM, frame: pd.DataFrame) -> None:
    again, other = fitted(), fitted(random_state=8)
    generator = fitted(random_state=np.random.RandomState(7))
    for a, b, c, d in zip(*(jax.tree.leaves(m.params_) for m in (model, again, generator, other)), strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)
        if a.size and np.isfinite(a).all() and not (np.asarray(a) == 1).all():
            assert not np.array_equal(a, d)
    assert np.array_equal(model.fit_transform(frame), model.transform(frame))


def test_output_containers_and_pipelines(model: tb.TBM, factored: tb.TBM, frame: pd.DataFrame) -> None:
    assert model.get_feature_names_out().tolist() == ["hidden0", "hidden1", "hidden2"]
    assert factored.get_feature_names_out().tolist()[-1] == "factor0"
    values = model.transform(frame)
    boxed = pickle.loads(pickle.dumps(model)).set_output(transform="pandas").transform(frame)
    assert boxed.columns.tolist() == model.get_feature_names_out().tolist()
    pd.testing.assert_index_equal(boxed.index, frame.index)
    assert np.array_equal(boxed.to_numpy(), values)
    boxed = pickle.loads(pickle.dumps(model)).set_output(transform="polars").transform(MAKERS["polars"](DATA))
    assert isinstance(boxed, pl.DataFrame)
    assert np.array_equal(boxed.to_numpy(), values)
    target = np.arange(N_ROWS) % 2
    pipeline = make_pipeline(tb.TBM(COLUMNS, **FIT), LogisticRegression()).fit(frame, target)
    assert pipeline.predict(frame).shape == (N_ROWS,)
    assert np.array_equal(pipeline[0].transform(frame), values)
    assert "n_hidden=3" in repr(model)


def test_sample_weight(model: tb.TBM, frame: pd.DataFrame) -> None:
    """Weights of one value from 1 on, or far below, are no weights; rows of weight zero count nowhere."""
    for ones in (np.ones(N_ROWS), [2.0] * N_ROWS, pd.Series(np.full(N_ROWS, 2.0**-10))):
        same = tb.TBM(COLUMNS, **FIT).fit(frame, sample_weight=ones)
        assert np.array_equal(same.weights_, model.weights_)
    # Halves are half as many rows: the same frequencies, with more of the half answer that is added to each label.
    halves = tb.TBM(COLUMNS, **{**FIT, "max_epochs": 0}).fit(frame, sample_weight=[0.5] * N_ROWS)
    own = 0.5 * np.array([(frame["trust"] == level).sum() for level in LEVELS["trust"]]) + 0.5
    np.testing.assert_allclose(norm.cdf(halves.cuts_["trust"]), np.cumsum(own)[:2] / own.sum(), atol=1e-5)
    # All rows that say "a lot" weigh nothing, so all that the model knows is that nobody says it.
    silent = (frame["trust"] != "a lot").to_numpy().astype(float)
    own = tb.TBM(COLUMNS, **{**FIT, "learning": tb.Learning(learn_cuts=False), "n_hidden": 0}).fit(
        frame, sample_weight=silent
    )
    counts = np.array([(silent * (frame["trust"] == level)).sum() for level in LEVELS["trust"]])
    counts = counts + 0.5
    shares = np.cumsum(counts)[:2] / counts.sum()
    np.testing.assert_allclose(norm.cdf(own.cuts_["trust"]), shares, atol=1e-5)
    assert np.isfinite(own.score_samples(frame)).all()
    for weight, words in [
        (np.ones(3), "shape"),
        (np.ones((N_ROWS, 1)), "shape"),
        (np.r_[1.0, -1.0, np.ones(N_ROWS - 2)], "row 1"),
        (np.r_[np.ones(N_ROWS - 1), np.nan], f"row {N_ROWS - 1}"),
        (np.zeros(N_ROWS), "zero for every row"),
        (["heavy"] * N_ROWS, "not a number"),
    ]:
        with pytest.raises(tb.ThurboError, match=words):
            tb.TBM(COLUMNS, **FIT).fit(frame, sample_weight=weight)


# Every way to learn


WAYS: list[tuple[dict[str, Any], str]] = [
    (way, unobserved)
    for unobserved in ("marginalize", "exclude")
    for way in (
        {"objective": "exact"},
        {"objective": "likelihood"},
        {"objective": "multi-prediction"},
        {"objective": "auto"},
    )
]
# Each way is a program of its own to compile, so every run takes those that share least with one another.
QUICK = {"exact-marginalize", "auto-marginalize", "likelihood-exclude", "multi-prediction-marginalize"}


def name_of(way: dict[str, Any], unobserved: str) -> str:
    return f"{way['objective']}-{unobserved}"


def assert_usable(own: tb.TBM, frame: pd.DataFrame) -> None:
    for leaf in (own.weights_, own.loadings_, own.site_bias_, own.hidden_bias_, *own.cuts_.values()):
        assert np.isfinite(leaf).all()
    assert all(np.isfinite(pair).all() for pair in own.scales_.values())
    assert all((np.diff(cuts) > 0).all() for cuts in own.cuts_.values())
    assert np.isfinite(own.transform(frame)).all()


@pytest.mark.parametrize(
    ("way", "unobserved"),
    [
        pytest.param(
            way,
            unobserved,
            id=name_of(way, unobserved),
            marks=() if name_of(way, unobserved) in QUICK else pytest.mark.slow,
        )
        for way, unobserved in WAYS
    ],
)
def test_every_objective_fits(way: dict[str, Any], unobserved: str, frame: pd.DataFrame) -> None:
    own = fitted(unobserved=unobserved, max_epochs=2, **way)
    assert_usable(own, frame)
    assert own.n_epochs_ == 2
    assert "settled" in own.history_[-1]  # it ran to its end
    assert own.objective_ == ("exact" if way["objective"] == "auto" else way["objective"])


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"objective": "likelihood"}, marks=pytest.mark.slow),
        pytest.param({"objective": "auto"}, marks=pytest.mark.slow),
        pytest.param({"objective": "exact"}, marks=pytest.mark.slow),
    ],
)
def test_factors_fit(settings: dict[str, Any], frame: pd.DataFrame) -> None:
    own = fitted(n_factors=2, max_epochs=2, **settings)
    assert_usable(own, frame)
    assert own.transform(frame).shape == (N_ROWS, 5)
    assert own.loadings_.shape == (5, 2)


@pytest.fixture(scope="module")
def independent() -> tb.TBM:
    """No hidden units, and cuts where the answers' own frequencies put them."""
    return fitted(n_hidden=0, learning=tb.Learning(learn_cuts=False))


def test_no_hidden_units_means_independent_columns(independent: tb.TBM, frame: pd.DataFrame) -> None:
    own = independent
    assert own.transform(frame).shape == (N_ROWS, 0)
    assert_usable(own, frame)
    chances = own.predict_proba(frame, "trust")
    np.testing.assert_allclose(chances, np.broadcast_to(chances[:1], chances.shape), atol=1e-7)
    truth = Enumeration(own)
    np.testing.assert_allclose(
        own.score_samples(frame)[:20], [truth.score(row) for row in rows_of(DATA, 20)], atol=1e-4
    )
    assert own.log_partition()[0] == pytest.approx(0.5 * (own.site_bias_**2).sum() + 2.5 * np.log(2 * np.pi), abs=1e-5)
    assert len(own.sample(3)) == 3


def test_sizes_are_chosen_from_the_table(frame: pd.DataFrame) -> None:
    own = tb.TBM(COLUMNS, max_epochs=0, random_state=0).fit(frame)
    assert own.weights_.shape == (5, 5)
    assert own.loadings_.shape == (5, 0)
    assert (own.objective_, own.n_epochs_, own.history_) == ("exact", 0, [])


def test_cuts_can_be_held(independent: tb.TBM) -> None:
    """Without learn_cuts they stay at the frequencies' quantiles, each level with half an answer added."""
    for name, labels in LEVELS.items():
        counts = np.array([DATA[name].count(level) for level in labels]) + 0.5
        shares = (np.cumsum(counts) / counts.sum())[:-1]
        np.testing.assert_allclose(norm.cdf(independent.cuts_[name]), shares, atol=1e-5)


def test_rows_that_say_nothing_are_welcome(model: tb.TBM, excluding: tb.TBM) -> None:
    data = {name: [None, None, *cells[2:]] for name, cells in DATA.items()}
    empty = MAKERS["pandas"](data)
    for own in (model, excluding):
        assert own.score_samples(empty)[0] == pytest.approx(0.0, abs=1e-5)
        assert np.isfinite(own.transform(empty)).all()
        assert own.impute(empty).notna().all(axis=None)
    assert "settled" in fitted(data=data).history_[-1]


# What goes wrong


def test_an_absurd_rate_is_survived(frame: pd.DataFrame) -> None:
    own = tb.TBM(COLUMNS, **{**FIT, "learning_rate": 1e6})
    with pytest.warns(tb.ConvergenceWarning, match="finite"):
        own.fit(frame)
    assert not own.converged_
    for leaf in (own.weights_, own.site_bias_, own.hidden_bias_, *own.cuts_.values()):
        assert np.isfinite(leaf).all()
    assert np.isfinite(own.score_samples(frame)).all()
    assert np.isfinite(own.transform(frame)).all()


@pytest.mark.parametrize("where", ["callback", "epoch"])
def test_an_interrupt_leaves_a_model(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    seen: list[int] = []

    def on_epoch(record: dict[str, float]) -> None:
        seen.append(int(record["epoch"]))
        if where == "callback" and len(seen) == 3:
            raise KeyboardInterrupt

    @contextmanager
    def progress(*_: Any) -> Iterator[Callable[[dict[str, float]], None]]:
        yield on_epoch

    epoch = trainer.epoch

    def interrupted(*arguments: Any) -> Any:
        if where == "epoch" and len(seen) == 3:
            raise KeyboardInterrupt
        return epoch(*arguments)

    monkeypatch.setattr(course, "progress", progress)
    monkeypatch.setattr(course, "epoch", interrupted)
    own = tb.TBM(COLUMNS, **FIT)
    with pytest.warns(tb.ConvergenceWarning, match="interrupted after 3 of 6 epochs"):
        own.fit(frame)
    assert (own.n_epochs_, own.converged_) == (3, False)
    assert np.isfinite(own.transform(frame)).all()
    assert np.isfinite(own.score_samples(frame)).all()


def test_not_fitted() -> None:
    own = tb.TBM(COLUMNS)
    about_rows = (own.transform, own.predict, own.impute, own.score_samples, own.score, own.impute_draws)
    for ask in (*about_rows, own.evaluate, own.segments, own.dependence, own.rank, own.check_method):
        with pytest.raises(NotFittedError):
            ask(DATA)
    for blind in (own.sample, own.log_partition, own.get_feature_names_out, lambda: own.save("nowhere.thurbo")):
        with pytest.raises(NotFittedError):
            blind()
    with pytest.raises(NotFittedError):
        own.predict_proba(DATA, "trust")


BAD_FITS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "no rows": ({}, {name: [] for name in NAMES}, "no rows"),
    "all ignored": ({"schema": {"height": tb.Ignore("secret")}}, DATA, "no column is left to model"),
    "lacking column": ({}, {name: DATA[name] for name in NAMES[1:]}, 'column "height".*the table does not have it'),
    "schema of text": ({"schema": "height"}, DATA, "is not a schema"),
    "negative": ({"n_hidden": -1}, DATA, "n_hidden=-1 is not a whole number of at least 0"),
    "fraction": ({"n_hidden": 2.5}, DATA, "n_hidden=2.5 is not a whole number"),
    "text": ({"n_factors": "many"}, DATA, "n_factors='many' is not a whole number"),
    "no batch": ({"batch_size": 0}, DATA, "batch_size=0 is not a whole number of at least 1"),
    "objective": ({"objective": "magic"}, DATA, "objective='magic' is not one of"),
    "unobserved": ({"unobserved": "drop"}, DATA, "unobserved='drop' is not one of"),
    "optimizer": ({"learning": tb.Exact(optimizer="newton")}, DATA, "optimizer='newton' is not one of"),
    "steps": ({"learning": tb.Likelihood(n_positive_steps=0)}, DATA, "n_positive_steps=0 is not a whole number"),
    "rate": ({"learning_rate": 0.0}, DATA, "learning_rate=0.0 is not a number above 0"),
    "decay": ({"weight_decay": float("nan")}, DATA, "weight_decay=nan is not a number"),
    "enumeration": ({"objective": "exact", "n_hidden": 40}, DATA, "40 hidden units .* too many to enumerate"),
    "level": ({}, changed(DATA, "trust", ["alot", *DATA["trust"][1:]]), 'row 0, column "trust": level "alot"'),
    "logarithm": ({}, changed(DATA, "income", [-1.0, *DATA["income"][1:]]), 'row 0, column "income".*no logarithm'),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_fit_refuses_in_one_sentence(case: str) -> None:
    settings, data, words = BAD_FITS[case]
    with pytest.raises(tb.ThurboError, match=words) as caught:
        tb.TBM(**{"schema": COLUMNS, **FIT, **settings}).fit(data)
    assert "\n" not in str(caught.value)


BAD_QUERIES: dict[str, tuple[Callable[[tb.TBM, pd.DataFrame], Any], str]] = {
    "no rows": (lambda own, X: own.transform(X.iloc[:0]), "no rows"),
    "unknown column": (lambda own, X: own.predict_proba(X, "trst"), 'column "trst".*did you mean "trust"'),
    "unknown columns": (lambda own, X: own.predict(X, ["trust", "trst"]), 'column "trst".*did you mean "trust"'),
    "number": (lambda own, X: own.predict_proba(X, "height"), 'column "height".*has no labels'),
    "method": (lambda own, X: own.predict_proba(X, "trust", method="magic"), "method='magic' is not one of"),
    "statistic": (lambda own, X: own.predict(X, statistic="best"), "statistic='best' is not one of"),
    "impute statistic": (lambda own, X: own.impute(X, statistic="best"), "statistic='best' is not one of"),
    "output": (lambda own, X: own.transform(X, output="odds"), "output='odds' is not one of"),
    "lacking column": (
        lambda own, X: own.transform(X.drop(columns="kids")),
        'column "kids".*the table does not have it',
    ),
    "unseen level": (lambda own, X: own.transform(X.assign(trust="alot")), 'row p0, column "trust": level "alot"'),
    "unseen value": (lambda own, X: own.impute(X.assign(member="maybe")), 'row p0, column "member": value "maybe"'),
    "no number": (lambda own, X: own.score_samples(X.assign(height="tall")), 'row p0, column "height".*"tall"'),
    "no count": (lambda own, X: own.sample(-1), "-1"),
    "too few columns": (lambda own, X: own.transform(np.zeros((2, 3))), "X has 3 features"),
    "no table": (lambda own, X: own.transform(3), "not a supported table type"),
}


@pytest.mark.parametrize("case", BAD_QUERIES)
def test_queries_refuse_in_one_sentence(model: tb.TBM, frame: pd.DataFrame, case: str) -> None:
    ask, words = BAD_QUERIES[case]
    with pytest.raises(tb.ThurboError, match=words) as caught:
        ask(model, frame)
    assert "\n" not in str(caught.value)


def test_enumeration_of_too_many_units_is_refused(frame: pd.DataFrame) -> None:
    own = tb.TBM(COLUMNS, **{**FIT, "n_hidden": 17, "max_epochs": 0, "objective": "multi-prediction"}).fit(frame)
    with pytest.raises(tb.ThurboError, match=r'17 hidden units .* use method="gibbs"'):
        own.predict_proba(frame, "trust", method="exact")


# What is compiled


def test_a_second_fit_compiles_nothing(model: tb.TBM) -> None:
    fitted()
    programs = trainer._epoch_of_one.n_compiled
    fitted(random_state=1, learning_rate=0.01, max_epochs=3)
    fitted(data=simulated(seed=5))
    assert trainer._epoch_of_one.n_compiled == programs


def test_tables_of_a_bucket_share_a_program(model: tb.TBM, frame: pd.DataFrame) -> None:
    model.transform(frame.iloc[:16])
    model.predict_proba(frame.iloc[:16], "trust")
    model.score_samples(frame.iloc[:16])
    programs = _features.n_compiled, distributions.state_weights.n_compiled, distributions.of_states.n_compiled
    other = fitted(random_state=2)
    for own, n in itertools.product((model, other), (3, 10, 16)):
        own.transform(frame.iloc[:n])
        own.predict_proba(frame.iloc[:n], "kids")
        own.score_samples(frame.iloc[:n])
    again = _features.n_compiled, distributions.state_weights.n_compiled, distributions.of_states.n_compiled
    assert again == programs


AS_USERS_DO = """
import numpy as np, pandas as pd, thurbo as tb
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 1)) + rng.normal(size=(60, 3))
frame = pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 0, "yes", "no"), "c": np.digitize(x[:, 2], [-1, 0, 1])})
frame.loc[::5, "a"] = np.nan
model = tb.TBM(n_hidden=2, max_epochs=2, random_state=0).fit(frame)
assert model.transform(frame).shape == (60, 2)
assert np.isfinite(model.score_samples(frame)).all()
assert model.impute(frame).notna().all(axis=None)
assert len(model.sample(3)) == 3
model.save("model.thurbo")
again = tb.TBM.load("model.thurbo")
assert np.array_equal(again.transform(frame), model.transform(frame))
assert np.array_equal(again.score_samples(frame), model.score_samples(frame))
print("done", model.weights_.dtype)
"""


@pytest.mark.slow
def test_with_jax_as_users_have_it(tmp_path: Any) -> None:
    """Without float64 and strict promotion, which the rest of this suite turns on; and warnings would be errors."""
    few = "ignore:2 epochs are too few"
    command = [sys.executable, "-W", "error:::thurbo", "-W", few, "-c", AS_USERS_DO]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "done float32"
    assert run.stderr == ""


@pytest.mark.parametrize("settings", [{"event": "seen"}, {"limits": (None, 60)}])
def test_draws_of_a_censored_number_follow_the_model(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    time, end = rng.exponential(20, 400).round(1) + 1, rng.uniform(20, 100, 400).round(1)
    seen = time <= (end if "event" in settings else np.inf)
    table = {"time": np.where(seen, time, end), "seen": seen}
    model = tb.TBM({"time": tb.Censored(**settings)}, n_hidden=0, max_epochs=0, random_state=0).fit(table)
    drawn = np.asarray(model.sample(4000, random_state=1)["time"], float)
    for level in (0.5, 0.9, 0.98):
        low, high = model.predict_interval({"time": [None], "seen": [None]}, "time", level=level)[0]
        tails = [drawn < low, drawn > high] if high < 60 or "event" in settings else [drawn < low]
        for tail in tails:
            assert binomtest(int(tail.sum()), len(drawn), (1 - level) / 2).pvalue > 2e-5
    assert drawn.max() == 60 or "event" in settings  # a limit is what can be observed
    declared = tb.Schema({"time": tb.Censored(lowest=2.0, **settings)}).fit(table)["time"]
    assert (declared.lowest, declared.highest) == (table["time"].min(), None)  # widened to what was observed
