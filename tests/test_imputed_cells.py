"""Cells that are filled in: which ones, with what precision and range, and how sure.

Files are in test_verbatim; here are tables of every library, and one small model for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import thurbo as tb
from thurbo.table.columns import column_from_dict
from thurbo.table.columns.forms.number import Distribution
from thurbo.table.columns.numbers import Precision
from thurbo.table.io.frames import as_table

N_ROWS = 30
TINY = {"n_hidden": 2, "n_factors": 0, "max_epochs": 2, "random_state": 0, "verbose": False}
SCHEMA = {
    "trust": tb.Ordinal([1, 2, 3], missing={8: "Don't know", 9: "Refused"}),
    "party": tb.Categorical(["Red", "Green", "Blue"], missing=["not applicable"]),
    "news": tb.MultiSelect(columns={"tv": "tv", "radio": "radio"}, blank="unasked", missing={7: "Refused"}),
    "children": tb.Continuous(missing={99: "Refused"}),
    "height": tb.Continuous(),
}
DTYPES = {"trust": "Int64", "tv": "Int8", "radio": "Int8", "children": "Int32", "other": "string", "zip": "object"}


def columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    on = rng.random(N_ROWS) < 0.5
    found: dict[str, list[Any]] = {
        "zip": ["02139"] * N_ROWS,
        "trust": np.where(on, 3, rng.integers(1, 3, N_ROWS)).tolist(),
        "party": np.where(on, "Red", rng.choice(["Green", "Blue"], N_ROWS)).tolist(),
        "tv": on.astype(int).tolist(),
        "radio": (rng.random(N_ROWS) < 0.5).astype(int).tolist(),
        "children": rng.integers(0, 4, N_ROWS).tolist(),
        "height": np.round(rng.normal(1.7, 0.2, N_ROWS), 2).tolist(),
        "other": [" n/a "] * N_ROWS,
    }
    for place, name in enumerate(["trust", "party", "children", "height"]):
        for row in range(place, N_ROWS, 7):
            found[name][row] = None
    for row in (3, 17):
        found["tv"][row] = found["radio"][row] = None
    found["trust"][6], found["trust"][13], found["children"][8] = 9, 8, 99
    found["party"][11] = "not applicable"
    found["tv"][19], found["radio"][19] = 7, None  # refused, so that the other cell is no gap
    return found


def pandas_frame() -> pd.DataFrame:
    frame = pd.DataFrame(columns()).astype(DTYPES)
    categories = ["Red", "Green", "Blue", "not applicable", "nobody"]
    return frame.assign(party=pd.Categorical(frame["party"], categories)).set_index(pd.Index(range(100, 100 + N_ROWS)))


def polars_frame() -> pl.DataFrame:
    party = pl.Enum(["Red", "Green", "Blue", "not applicable", "nobody"])
    return pl.DataFrame(columns(), schema_overrides={"trust": pl.Int16, "tv": pl.UInt8, "party": party})


def arrow_table() -> pa.Table:
    table = pa.table(columns())
    table = table.set_column(1, "trust", table["trust"].cast(pa.int8()))
    return table.set_column(2, "party", table["party"].dictionary_encode()).replace_schema_metadata({"mine": "kept"})


TABLES = {"pandas": pandas_frame, "polars": polars_frame, "pyarrow": arrow_table, "dict": columns}
each_library = pytest.mark.parametrize("library", list(TABLES))


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return tb.TBM(SCHEMA, **TINY).fit(pandas_frame())


def listed(table: Any) -> dict[str, list[Any]]:
    """The cells of a table as lists, None if missing."""
    source = as_table(table)
    found = {}
    for name in source.names:
        cells = source.cells(name)
        pairs = zip(cells.values.tolist(), cells.missing.tolist(), strict=True)
        found[name] = [None if gone else value for value, gone in pairs]
    return found


def types_of(table: Any) -> list[str]:
    if isinstance(table, pa.Table):
        return [str(each) for each in table.schema.types]
    return [] if isinstance(table, dict) else [str(table[name].dtype) for name in table.columns]


@each_library
def test_only_empty_cells_are_filled_and_dtypes_stay(model: tb.TBM, library: str) -> None:
    table = TABLES[library]()
    filled = model.impute(table)
    before, after = columns(), listed(filled)
    assert types_of(filled) == types_of(table)
    for name, cells in before.items():
        for row, (old, new) in enumerate(zip(cells, after[name], strict=True)):
            is_kept = old is not None or (name == "radio" and row == 19)
            assert (new == old) if is_kept else new is not None, (name, row)
    new = [cell for cell, old in zip(after["children"], before["children"], strict=True) if old is None]
    assert set(new) <= {0, 1, 2, 3}
    heights = [cell for cell, old in zip(after["height"], before["height"], strict=True) if old is None]
    observed = [cell for cell in before["height"] if cell is not None]
    assert all(round(cell, 2) == cell and min(observed) <= cell <= max(observed) for cell in heights)
    if library == "pandas":
        assert filled.index.equals(table.index)
        assert filled["party"].cat.categories.tolist() == table["party"].cat.categories.tolist()
    if library == "pyarrow":
        assert filled.schema.metadata == table.schema.metadata


def test_kinds_are_filled_if_they_are_named(model: tb.TBM) -> None:
    frame, before = pandas_frame(), columns()
    refused = listed(model.impute(frame, fill="refused"))  # whatever the case
    assert refused["trust"][6] in (1, 2, 3)
    assert refused["trust"][13] == 8
    assert refused["children"][8] in range(4)
    assert refused["party"][11] == "not applicable"
    assert {refused["tv"][19], refused["radio"][19]} <= {0, 1}
    by_value = listed(model.impute(frame, fill=[8, "Not applicable"]))
    assert by_value["trust"][13] in (1, 2, 3)
    assert by_value["trust"][6] == 9
    assert by_value["party"][11] in ("Red", "Green", "Blue")
    everything = listed(model.impute(frame, fill="all"))
    assert not {8, 9} & set(everything["trust"])
    assert all(cell is not None for name in ("trust", "party", "tv", "radio") for cell in everything[name])
    assert listed(model.impute(frame, fill=["no answer"])) == listed(model.impute(frame))
    for drawn in model.impute_draws(frame, 2, random_state=0):
        assert [listed(drawn)["trust"][row] for row in (6, 13)] == [9, 8]
        assert all(new == old for new, old in zip(listed(drawn)["trust"], before["trust"], strict=True) if old)
    (drawn,) = model.impute_draws(frame, 1, random_state=0, fill=("Refused",))
    assert listed(drawn)["trust"][6] in (1, 2, 3)
    message = (
        r"fill=\"refusd\" is not a kind.*did you mean \"Refused\"\? the kinds are Don't know, Refused, not applicable"
    )
    with pytest.raises(tb.ThurboError, match=message):
        model.impute(frame, fill="refusd")


@each_library
def test_flags_say_which_cells_and_how_sure(model: tb.TBM, library: str) -> None:
    table = TABLES[library]()
    flagged, plain = listed(model.impute(table, flag=True)), listed(model.impute(table))
    before = columns()
    new = [name for name in flagged if name not in before]
    assert {name: flagged[name] for name in plain} == plain
    asked = ("trust", "party", "tv", "radio", "children", "height")
    words = {name: "margin" if name in ("children", "height") else "probability" for name in asked}
    assert set(new) == {f"{name}_{word}" for name in asked for word in ("imputed", words[name])}
    for name in asked:
        filled = [old is None and new is not None for old, new in zip(before[name], plain[name], strict=True)]
        assert [bool(cell) for cell in flagged[f"{name}_imputed"]] == filled
        sure = flagged[f"{name}_{words[name]}"]
        assert [cell is not None for cell in sure] == filled
        assert all(0 < cell <= (1 if words[name] == "probability" else 20) for cell in sure if cell is not None)


def test_flags_are_those_of_the_predictions(model: tb.TBM) -> None:
    frame = pandas_frame()
    flagged = model.impute(frame, flag=True)
    empty = frame["trust"].isna().to_numpy()
    chance = model.predict_proba(frame, "trust")[empty]
    np.testing.assert_allclose(flagged["trust_probability"][empty].astype(float), chance.max(axis=1), rtol=1e-5)
    empty = frame["height"].isna().to_numpy()
    ends = model.predict_interval(frame, "height", level=0.9)[empty]
    np.testing.assert_allclose(flagged["height_margin"][empty].astype(float), np.diff(ends)[:, 0] / 2, rtol=1e-5)
    taken = model.impute(frame.assign(trust_imputed="mine"), flag=True)
    assert (taken["trust_imputed"] == "mine").all()
    assert taken["trust_imputed_2"].equals(flagged["trust_imputed"])
    complete = model.impute(flagged[list(frame)], flag=True)  # the refused row of options stays open
    assert list(complete) == list(frame)


def test_an_array_has_no_place_for_flags() -> None:
    X = np.asarray([[1.0, 2.0], [2.0, np.nan], [3.0, 1.0], [np.nan, 2.0]])
    schema = {"x0": tb.Continuous(), "x1": tb.Continuous()}
    own = tb.TBM(schema, **{**TINY, "max_epochs": 0}).fit(X)
    with pytest.raises(tb.ThurboError, match="give a table with column names"):
        own.impute(X, flag=True)


def test_predicted_and_sampled_numbers_keep_precision_and_range(model: tb.TBM) -> None:
    frame = pandas_frame()
    for statistic in ("median", "mode", "auto"):
        found = model.predict(frame, ["children", "height"], statistic=statistic)
        assert str(found["children"].dtype) == "Int32"
        assert found["children"].between(0, 3).all()
        assert (found["height"].round(2) == found["height"]).all()
    mean = model.predict(frame, "height", statistic="mean")["height"]
    assert (mean.round(2) != mean).any()  # a mean is a statistic, not a cell
    drawn = model.sample(200, random_state=0)
    assert drawn["children"].dtype == np.int64
    assert drawn["children"].between(0, 3).all()
    assert (drawn["height"].round(2) == drawn["height"]).all()
    assert drawn["height"].between(frame["height"].min(), frame["height"].max()).all()
    assert drawn["height"].nunique() > 20
    (completed,) = model.impute_draws(frame, 1, random_state=0)
    assert completed["children"].drop(108).between(0, 3).all()


def test_the_imputer_of_scikit_learn_can_fill_kinds() -> None:
    frame = pandas_frame()[["trust", "height"]]
    schema = {name: SCHEMA[name] for name in frame}
    own = tb.TBMImputer(schema, fill="all", **{**TINY, "max_epochs": 0}).fit_transform(frame)
    assert own["trust"].isin([1, 2, 3]).all()


# ---- precision and range, without a model


def fitted(column: Any, values: list[Any]) -> Any:
    return tb.Schema({"q": column}).fit({"q": values})["q"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 40, None], (0, 1.0, 40.0)),
        ([1.5, 2.0, -3.25], (2, -3.25, 2.0)),
        (np.asarray([0.1, 0.25], np.float32), (2, pytest.approx(0.1), 0.25)),
        ([1 / 3, 2 / 3], (None, 1 / 3, 2 / 3)),
        ([1e300, 5.0], (None, 5.0, 1e300)),
        ([None, None], (None, None, None)),
        ([10, 20, tb.at_least(60)], (0, 10.0, None)),
        ([10, 20, tb.between(5, 7)], (0, 5.0, 20.0)),
    ],
)
def test_fit_learns_decimals_and_range(values: Any, expected: Any) -> None:
    column = fitted(tb.Continuous(), values)
    assert (column.decimals, column.lowest, column.highest) == expected


def test_numbers_are_limited() -> None:
    whole = fitted(tb.Continuous(), [18, 90, 44]).limited(np.asarray([10.8, 36.249, 1e9]))
    assert whole.dtype == np.int64
    assert whole.tolist() == [18, 36, 90]
    assert np.isnan(Precision(0, 1.0, 5.0).limit(np.asarray([np.nan, 2.4]))).tolist() == [True, False]
    declared = fitted(tb.Continuous(lowest=0, highest=120, decimals=1), [18, 90, 44])
    assert (declared.decimals, declared.lowest, declared.highest) == (1, 0, 120)
    assert fitted(tb.Continuous(lowest=0), [-5, 3]).lowest == -5  # what was observed can be
    again = column_from_dict(declared.to_dict())
    assert again == declared
    scores = fitted(tb.Ratings(by="numbers"), [{"a": -3.5, "b": 10.0}, {"a": 2.0}])
    assert scores.limited(np.asarray([-20.0, 1.26])).tolist() == [-3.5, 1.3]
    for wrong, words in (
        ({"decimals": -1}, "decimals=-1"),
        ({"lowest": "x"}, "lowest='x'"),
        ({"lowest": 3, "highest": 1}, "lowest=3 is above highest=1"),
    ):
        with pytest.raises(tb.SchemaError, match=words):
            tb.Continuous(**wrong)


def test_models_of_earlier_versions_have_no_precision() -> None:
    old = column_from_dict({"kind": "continuous", "location": 40.0, "scale": 10.0})
    assert old.limited(np.asarray([10.849])).tolist() == [10.849]


class _Wide:
    """Predictions from far below to far above the limits."""

    def number(self) -> Distribution:
        grid = np.linspace(-50.0, 50.0, 101)
        return Distribution(np.zeros(2), grid, np.tile(np.linspace(0.0, 1.0, 101), (2, 1)))


def test_intervals_stay_within_what_is_declared() -> None:
    for column, values, lowest, highest in (
        (tb.Censored(limits=(0, 100)), [0, 20, 50, 100], 0, 100),
        (tb.Censored(limits=(None, 100)), [0, 20, 50, 100], -np.inf, 100),
        (tb.Banded({"young": (18, 30), "old": (30, None)}), ["young", "old", "old"], 18, np.inf),
    ):
        own = fitted(column, values)
        ends = own.form.interval(_Wide(), 0.9)  # type: ignore[arg-type]
        assert ends.min() >= lowest
        assert ends.max() <= highest
        assert np.isfinite(ends).all()
        assert (ends.min() == lowest) == np.isfinite(lowest)


# ---- orders that are kept as a table, and columns that are not there


@pytest.mark.parametrize(
    "column", [pytest.param(tb.Ratings(by="order"), marks=pytest.mark.slow), tb.Ranking(["a", "b", "c", "d"])]
)
def test_items_are_added_to_orders_of_few_items(column: Any) -> None:
    rng = np.random.default_rng(0)
    cells: list[Any] = [[str(item) for item in rng.permutation(list("abcd"))[: 2 + row % 3]] for row in range(N_ROWS)]
    if column.kind == "ranking":
        cells = [" > ".join(cell) for cell in cells]
    own = tb.TBM({"likes": column}, **{**TINY, "max_epochs": 1}).fit({"likes": cells})
    assert not own.schema_["likes"].is_listed

    def items_of(cell: Any) -> list[str]:
        return cell.split(" > ") if isinstance(cell, str) else list(cell)

    given = [items_of(cell) for cell in cells]
    drawn = own.impute_draws({"likes": cells}, 2, random_state=0, items=["a", "b"])
    for table in (own.impute({"likes": cells}, items=["a", "b"]), *drawn):
        found = [items_of(cell) for cell in table["likes"]]
        for old, new in zip(given, found, strict=True):
            assert set(new) == {*old, "a", "b"}
            assert [item for item in new if item in old] == old
    assert [items_of(cell) for cell in own.impute({"likes": cells})["likes"]] == given
    with pytest.raises(tb.SchemaError, match="Gibbs sampling"):
        own.impute_draws({"likes": cells}, 1, items=["a"], method="exact")


def test_a_column_that_is_not_there_has_a_remedy() -> None:
    schema = tb.Schema({"age": tb.Continuous(), "fan": tb.Binary(true="yes")})
    words = r'column "fan": the schema has this column.*add it, with empty cells if its answers are not known'
    with pytest.raises(tb.SchemaError, match=words):
        as_table({"age": [1]}).answers(schema, "fan")
