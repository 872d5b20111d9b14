"""The schema: what a table is taken for, where its sites stand, and files that lose nothing.

Idea: inference is a table of small columns with the answer expected of each.
Promises that a schema is immutable, ordered, and readable by people.
"""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from column_cases import CASES, cells_of
from thurbo.columns import Binary, Column, Continuous, Ignore, Ordinal
from thurbo.errors import SchemaError
from thurbo.schema import Schema

FRAME = pd.DataFrame({"age": [30.5, 41.0, None], "fan": ["Yes", None, "No"], "trust": ["none", "some", None]})
SCHEMA = Schema({"age": Continuous(), "fan": Binary(), "id": Ignore("x"), "trust": Ordinal(["none", "some", "a lot"])})

INFERRED: list[tuple[Any, Column | type[Column], str]] = [
    ([True, False, None], Binary(true=True), "booleans"),
    (pd.array([True, None], "boolean"), Binary(true=True), "booleans"),
    ([0, 1, 1], Binary(true=1), "two values"),
    ([2.5, 7.25, None], Binary(true=7.25), "two values"),
    (["Yes", "No", None], Binary(true="Yes"), '"No" and "Yes"'),
    ([1, 2, 3, None], Ordinal([1, 2, 3]), "guess"),
    ([1.5, 2.5, 3.5], Continuous(), "3 distinct"),
    (list(range(11)), Continuous(), "identifiers"),
    ([*range(11), 10], Continuous(), "11 distinct"),
    (["a", "b", "c"], Ignore, "no order"),
    (["a", 1, 2], Ignore, "together"),
    ([None, None], Ignore, "no value"),
    ([4, 4], Ignore, "only value is 4"),
    (["a", "a"], Ignore, 'only value is "a"'),
    ([pd.Timestamp("2020"), None], Ignore, "dates"),
    ([[1], [2]], Ignore, "lists"),
    (pd.Categorical(["a", None], ["c", "b", "a"], ordered=True), Ordinal(["c", "b", "a"]), "3 levels"),
    (pd.Categorical(["a", None], ["b", "a"], ordered=True), Binary(true="a"), "two levels"),
    (pd.Categorical(["x", "y"]), Binary(true="y"), "two values"),
]


@pytest.mark.parametrize(("values", "expected", "reason"), INFERRED)
def test_infer(values: Any, expected: Column | type[Column], reason: str) -> None:
    frame = pd.DataFrame({"q": pd.Series(values)})
    schema = Schema.infer(frame)
    assert isinstance(schema["q"], expected) if isinstance(expected, type) else schema["q"] == expected
    assert reason in schema.reasons["q"]
    assert schema.fit(frame).compile(frame)["q"].observed.shape[0] == len(frame)


def test_infer_says_that_categories_come_later() -> None:
    schema = Schema.infer(pl.DataFrame({"q": ["a", "b", "c"]}))
    assert "later version" in schema["q"].describe()
    assert "later version" in str(schema)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.ones((3, 1), bool), Binary(true=True)),
        (np.ones((3, 1)), Continuous()),
        (np.asarray([[0.0], [1.0]]), Continuous()),
        (np.full((3, 1), np.nan), Continuous()),
        (np.asarray([[1], [2], [3]]), Ordinal([1, 2, 3])),
        (np.arange(20)[:, None], Continuous()),
        (np.asarray([["Yes"], ["No"]]), Binary(true="Yes")),
        (np.asarray([["a"], ["b"], [None]], object), Binary(true="b")),
    ],
)
def test_infer_takes_an_array_at_its_word(array: Any, expected: Column) -> None:
    schema = Schema.infer(array)
    assert schema["x0"] == expected
    schema.fit(array).compile(array)


def test_infer_reads_polars_enums() -> None:
    frame = pl.DataFrame({"q": ["lo", "hi"]}, schema={"q": pl.Enum(["lo", "mid", "hi"])})
    assert Schema.infer(frame)["q"] == Ordinal(["lo", "mid", "hi"])


def test_schema_is_an_ordered_immutable_mapping() -> None:
    assert SCHEMA.names == tuple(SCHEMA) == ("age", "fan", "id", "trust")
    assert len(SCHEMA) == 4
    assert "age" in SCHEMA
    assert SCHEMA.get("nothing") is None
    assert dict(SCHEMA.items())["fan"] == Binary()
    assert Schema(dict(SCHEMA)) == SCHEMA
    assert Schema(dict(reversed(list(SCHEMA.items())))) != SCHEMA
    assert hash(Schema(dict(SCHEMA))) == hash(SCHEMA)
    with pytest.raises(TypeError):
        SCHEMA["age"] = Ignore()  # type: ignore[index]
    SCHEMA.reasons["age"] = "changed"
    assert SCHEMA.reasons == {}
    for twin in (copy.deepcopy(SCHEMA), pickle.loads(pickle.dumps(SCHEMA))):
        assert twin == SCHEMA


def test_sites_stand_in_schema_order() -> None:
    fitted = SCHEMA.fit(FRAME.assign(id=1))
    assert fitted.n_sites == 3
    assert fitted.modelled == fitted.site_names == fitted.site_columns == ("age", "fan", "trust")
    assert fitted.slices == {"age": slice(0, 1), "fan": slice(1, 2), "id": slice(2, 2), "trust": slice(2, 3)}
    assert fitted.n_cuts.tolist() == [0, 1, 2]
    assert fitted.is_measured.tolist() == [True, False, False]
    blocks = fitted.compile(FRAME)
    assert list(blocks) == list(fitted)
    assert blocks["trust"].code[:, 0].tolist() == [0, 1, -1]
    assert blocks["fan"].code[:, 0].tolist() == [1, -1, 0]
    assert blocks["age"].point[:, 0].tolist() == [True, True, False]
    assert blocks["id"].lower.shape == (3, 0)


def test_compile_ignores_other_columns_and_can_be_silent() -> None:
    fitted = SCHEMA.fit(FRAME)
    assert list(fitted.compile(FRAME.assign(other=1))) == list(fitted)
    silent = fitted.compile(FRAME[["age"]], missing_columns="silent")
    assert silent["age"].observed.sum() == 2
    assert not silent["trust"].observed.any()
    assert silent["trust"].n_cuts == 2


BAD: list[tuple[Any, tuple[str, ...]]] = [
    (
        lambda: SCHEMA.fit(FRAME.rename(columns={"trust": "Trust"})),
        ('column "trust"', 'did you mean "Trust"?'),
    ),
    (lambda: SCHEMA.fit(FRAME).compile(FRAME[["age"]]), ('column "fan"', "the table has age")),
    (lambda: SCHEMA["agee"], ('column "agee"', 'did you mean "age"?')),
    (lambda: Schema({"a": Continuous}), ('column "a"', "Continuous()")),  # type: ignore[dict-item]
    (lambda: Schema({"a": "number"}), ('column "a"', "'number'")),  # type: ignore[dict-item]
    (lambda: Schema({1: Continuous()}), ("1", "text")),  # type: ignore[dict-item]
    (lambda: Schema.from_dict({}), ("no columns",)),
    (lambda: Schema.from_dict({"columns": {"a": 3}}), ('column "a"', "kind")),
    (lambda: Schema.from_dict({"columns": {"a": {"kind": "x"}}}), ('column "a"', '"x"', "continuous")),
    (lambda: Schema.from_toml("/nowhere/at/all.toml"), ("/nowhere/at/all.toml",)),
]


@pytest.mark.parametrize(("make", "parts"), BAD, ids=[parts[-1] for _, parts in BAD])
def test_bad_schemas_are_explained(make: Any, parts: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_bad_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text("columns = [", encoding="utf-8")
    with pytest.raises(SchemaError, match="is not TOML"):
        Schema.from_toml(path)


def test_every_column_goes_to_a_file_and_back(tmp_path: Path) -> None:
    columns = {case.name: case.column for case in CASES}
    fitted = {f"{case.name} fitted": case.column.fit(cells_of(case.cells)) for case in CASES}
    schema = Schema({**columns, **fitted}, reasons={"numbers": 'a "why"\nin two lines'})
    schema.to_toml(tmp_path / "schema.toml")
    again = Schema.from_toml(tmp_path / "schema.toml")
    assert again == schema
    assert again.reasons == schema.reasons
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.text(max_size=12), max_size=4, unique=True),
    levels=st.lists(st.text(max_size=6).map(str.strip), min_size=2, max_size=5, unique=True),
    location=st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_names_and_labels_survive_toml(
    tmp_path: Path, names: list[str], levels: list[str], location: float
) -> None:
    choices: list[Column] = [
        Ordinal(levels),
        Continuous(location=location, scale=1.0),
        Binary(true=levels[0]),
    ]
    awkward = ['a "quoted" name', "dots.in.it", "line\nbreak", "\x7f\x00\\", "größe", ""]
    schema = Schema({name: choices[i % 3] for i, name in enumerate([*awkward, *names])})
    schema.to_toml(tmp_path / "schema.toml")
    assert Schema.from_toml(tmp_path / "schema.toml") == schema


def test_shows_as_a_table() -> None:
    schema = Schema.infer(pd.DataFrame({"<b>": [1.5, 2.5, 3.5], "fan": ["Yes", "No", None]}))
    lines = str(schema).splitlines()
    assert lines[0].split() == ["column", "type", "a", "cell", "is", "why"]
    assert len(lines) == 3
    assert "Continuous" in lines[1]
    assert repr(schema).startswith("Schema of 2 columns, 2 sites")
    html = schema._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
