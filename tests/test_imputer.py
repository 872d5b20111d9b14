"""TBMImputer among scikit-learn's own tools: what comes in comes out, filled, whatever the library and the pipeline."""

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import thurbo as tb

N_ROWS = 40
TINY: dict[str, Any] = {"n_hidden": 1, "max_epochs": 0, "random_state": 0, "verbose": False}


def make_array() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 1)) + rng.normal(size=(N_ROWS, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def make_frame() -> pd.DataFrame:
    frame = pd.DataFrame(make_array(), columns=["a", "b", "c"], index=[f"p{i}" for i in range(N_ROWS)])
    rng = np.random.default_rng(1)
    frame["colour"] = pd.Categorical(np.where(rng.random(N_ROWS) < 0.5, "red", "blue"), ["red", "blue"])
    frame["name"] = [f"somebody number {i}" for i in range(N_ROWS)]
    frame.loc[frame.index[:5], "colour"] = None
    return frame


SCHEMA = {"a": tb.Continuous(), "b": tb.Continuous(), "c": tb.Continuous(), "colour": tb.Binary(true="red")}


def plain(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("list")


TABLES = {
    "pandas": lambda: make_frame(),
    "polars": lambda: pl.DataFrame(plain(make_frame())),
    "pyarrow": lambda: pa.table(plain(make_frame())),
}


@pytest.fixture(scope="module")
def imputer() -> tb.TBMImputer:
    return tb.TBMImputer(SCHEMA, **TINY).fit(make_frame())


@pytest.mark.parametrize("library", TABLES)
def test_tables_come_back_in_their_library_filled(imputer: tb.TBMImputer, library: str) -> None:
    table = TABLES[library]()
    own = tb.TBMImputer(SCHEMA, **TINY)
    filled = own.fit_transform(table)
    assert type(filled) is type(table)
    as_pandas = filled if library == "pandas" else filled.to_pandas()
    expected = imputer.model_.impute(make_frame())
    assert as_pandas.notna().all(axis=None)
    for name in expected:
        assert as_pandas[name].tolist() == expected[name].tolist()
        there = make_frame()[name].notna().to_numpy()
        assert as_pandas[name][there].tolist() == make_frame()[name][there].tolist()
    assert own.get_feature_names_out().tolist() == list(make_frame())
    if library == "pandas":
        assert filled.dtypes.equals(table.dtypes)
        assert filled.index.equals(table.index)


def test_arrays_and_lists_come_back_as_arrays() -> None:
    X = make_array()
    own = tb.TBMImputer(**TINY).fit(X)
    filled = own.transform(X)
    assert filled.dtype == X.dtype
    assert np.isfinite(filled).all()
    assert np.array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert np.isnan(X).any()  # the caller's array is left alone
    assert np.array_equal(own.transform(X.tolist()), filled)
    assert own.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    assert not hasattr(own, "feature_names_in_")
    mixed = [[1.0, "u"], [None, "v"], [2.0, None], [3.0, "u"]] * 5
    words = tb.TBMImputer({"x0": tb.Continuous(), "x1": tb.Binary(true="u")}, **TINY).fit_transform(mixed)
    assert words.shape == (20, 2)
    assert set(words[:, 1]) == {"u", "v"}
    with pytest.raises(tb.SchemaError, match="row 1"):
        own.transform([[1.0, 2.0, 3.0], [1.0]])


@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("library", [*TABLES, "numpy"])
def test_the_container_can_be_chosen(imputer: tb.TBMImputer, library: str, output: str) -> None:
    own = pickle.loads(pickle.dumps(imputer)).set_output(transform=output)
    filled = own.transform(TABLES[library]() if library in TABLES else make_frame().to_numpy(object))
    assert isinstance(filled, pd.DataFrame if output == "pandas" else pl.DataFrame)
    assert list(filled.columns) == list(make_frame())
    if library != "numpy":  # an array of objects has no types of columns to keep
        assert str(filled["a"].dtype).lower() == "float64"
    assert filled["colour"].to_list() == imputer.transform(make_frame())["colour"].tolist()
    with sklearn.config_context(transform_output=output):
        again = imputer.transform(TABLES["pyarrow"]())
    assert isinstance(again, pd.DataFrame if output == "pandas" else pl.DataFrame)


def test_pipelines_and_column_transformers() -> None:
    X, target = make_array(), np.arange(N_ROWS) % 2
    pipeline = make_pipeline(tb.TBMImputer(**TINY), StandardScaler(), LogisticRegression()).fit(X, target)
    assert pipeline.predict(X).shape == (N_ROWS,)
    assert pipeline[:-1].get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    assert pipeline.set_params(tbmimputer__n_hidden=2)[0].n_hidden == 2
    parts = make_column_transformer(
        (tb.TBMImputer(**TINY), ["a", "b", "c"]),
        (make_pipeline(tb.TBMImputer({"colour": tb.Binary(true="red")}, **TINY), OneHotEncoder()), ["colour"]),
    )
    found = parts.fit_transform(make_frame())
    assert found.shape == (N_ROWS, 5)
    assert np.isfinite(found).all()
    assert parts.get_feature_names_out().tolist()[:3] == ["tbmimputer__a", "tbmimputer__b", "tbmimputer__c"]
    first = ColumnTransformer([("fill", tb.TBMImputer(**TINY), [0, 2])], remainder="drop").fit_transform(X)
    assert first.shape == (N_ROWS, 2)


def test_parameters_are_those_of_the_model_and_two_more() -> None:
    own, model = (inspect.signature(kind).parameters for kind in (tb.TBMImputer, tb.TBM))
    assert {name: each.default for name, each in own.items() if name not in ("statistic", "fill")} == {
        name: each.default for name, each in model.items()
    }
    imputer = tb.TBMImputer(SCHEMA, statistic="mean", **TINY)
    again = clone(imputer)
    assert again.get_params() == imputer.get_params()
    assert again.schema is not None
    assert "statistic='mean'" in repr(imputer)
    assert "TBMImputer" in imputer._repr_html_()
    assert "TBM" in tb.TBM(**TINY)._repr_html_()
    with pytest.raises(TypeError, match="n_hiden"):
        tb.TBMImputer(n_hiden=3)


def test_statistics_clones_and_pickles(imputer: tb.TBMImputer) -> None:
    frame = make_frame()
    means = tb.TBMImputer(SCHEMA, statistic="mean", **TINY).fit(frame).transform(frame)
    pd.testing.assert_frame_equal(means, imputer.model_.impute(frame, statistic="mean"))
    same = pickle.loads(pickle.dumps(imputer)).transform(frame)
    pd.testing.assert_frame_equal(same, imputer.transform(frame))
    with pytest.raises(tb.ThurboError, match="statistic='best' is not one of auto, mode, median, mean"):
        tb.TBMImputer(SCHEMA, statistic="best", **TINY).fit(frame)
    with pytest.raises(NotFittedError):
        clone(imputer).transform(frame)
    refitted = clone(imputer).set_params(schema=None).fit(frame).fit(make_array())
    assert not hasattr(refitted, "feature_names_in_")
    heavy = clone(imputer).fit(frame, sample_weight=np.arange(1, N_ROWS + 1))
    assert not np.array_equal(heavy.model_.cuts_["colour"], imputer.model_.cuts_["colour"])


def test_a_sparse_matrix_is_refused_and_the_error_says_what_to_give(imputer: tb.TBMImputer) -> None:
    """Its stored entries are lists of items for TBM: it has no cells to fill in."""
    matrix = scipy.sparse.csr_array(np.eye(5))
    for use in (tb.TBMImputer(**TINY).fit, tb.TBMImputer(**TINY).fit_transform, imputer.transform):
        with pytest.raises(tb.SchemaError, match=r"sparse matrix \(csr_array\).*X\.toarray\(\) with NaN.*use TBM"):
            use(matrix)


def failures(estimator: Any, expected: dict[str, str] | None = None) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert len(results) > 40
    return [f"{each['check_name']}: {each['exception']}" for each in results if each["status"] == "failed"]


# Those that hardly fit anything; `make test-slow` runs them all.
QUICK = (
    "cloneable",
    "default_constructible",
    "repr",
    "tags",
    "no_attributes_set",
    "dont_overwrite",
    "overwrite_params",
)
QUICK += ("params_invariance", "set_params", "mixin_order", "feature_names_in", "n_features_in", "unfitted", "fit1d")


@pytest.mark.parametrize("estimator", [tb.TBM(**TINY), tb.TBMImputer(**TINY)], ids=["TBM", "TBMImputer"])
def test_scikit_learns_quick_checks(estimator: Any) -> None:
    done = 0
    for own, check in estimator_checks_generator(estimator):
        if any(word in check.func.__name__ for word in QUICK):
            check(own)
            done += 1
    assert done >= 10


@pytest.mark.slow
def test_scikit_learns_own_checks_of_the_imputer() -> None:
    assert failures(tb.TBMImputer(**TINY)) == []


@pytest.mark.slow
def test_scikit_learns_own_checks_of_the_model() -> None:
    reason = "weights with a mean above one are scaled to mean one, and a batch has rows, whatever their weights"
    data = ("dense", "sparse")
    known = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in data}
    assert failures(tb.TBM(**TINY), known) == []
