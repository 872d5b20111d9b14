"""The schema: what a table is taken for, where its sites stand, and files that lose nothing.

Idea: inference is a table of small columns with the answer expected of each.
Promises that a schema is immutable, ordered, and readable by people.
"""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.column_cases import CASES
from thurbo.errors import SchemaError, SchemaWarning
from thurbo.table.columns import (
    Binary,
    Categorical,
    Column,
    Continuous,
    Ignore,
    Inequality,
    MultiSelect,
    Ordinal,
    Ranking,
    between,
    one_of,
    prefers,
)
from thurbo.table.schema.schema import Schema

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
    (["a", "b", "c"], Categorical(["a", "b", "c"]), "without a known order"),
    ([f"text {i}" for i in range(21)] * 2, Ignore, "too many"),
    ([f"text {i}" for i in range(21)], Ignore("it is free text"), "nearly every text"),
    (["a > b > c", "b > a", "c > a = b"], Ranking(["a", "b", "c"]), "guess"),
    (["x > 1", "y", "see > above"], Categorical, "without a known order"),
    ([[["a"], ["b"]], [["b"]]], Ranking(["a", "b"], cell_format="lists"), "guess"),
    ([["a", "b"], []], MultiSelect(["a", "b"], cell_format="list"), "guess"),
    ([[], []], Ignore, "no cell names an option"),
    ([between(1, 2), 1.5, 2.5, 7.0], Continuous(), "3 distinct"),
    ([between(1, 2), None], Continuous(), "intervals"),
    ([prefers("a", "b"), None], Ranking, "preferences"),
    ([one_of("a", "b"), one_of("b", "c")], Categorical, "categories"),
    (["a", 1, 2], Ignore, "mix of text and numbers"),
    ([None, None], Ignore, "all cells are missing"),
    ([4, 4], Ignore, "only value is 4"),
    (["a", "a"], Ignore, 'only value is "a"'),
    ([pd.Timestamp("2020"), None], Ignore, "dates"),
    ([[1], [2]], MultiSelect([1, 2], cell_format="list"), "lists"),
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
    silent = fitted.compile(FRAME[["age"]], missing_columns="ignore")
    assert silent["age"].observed.sum() == 2
    assert not silent["trust"].observed.any()
    assert silent["trust"].n_cuts == 2


SURVEY = pd.DataFrame(
    {
        "r1": [1, 2, None],
        "r2": [2, 1, None],
        "ticked a": [1, 0, None],
        "ticked b": [0, 0, None],
        "party": ["Red", None, "Green"],
        "income": [10.0, 20.0, 40.0],
        "also": [[({"party.Red": 1, "films.A": -1}, ">=", 0)], None, [({"income": 2, "films.B": 1}, "<=", 60)]],
    }
)
QUESTIONS = Schema(
    {
        "films": Ranking(ranks={"A": "r1", "B": "r2"}),
        "seen": MultiSelect(columns={"a": "ticked a", "b": "ticked b"}),
        "party": Categorical(),
        "income": Continuous(),
        "also": Inequality(),
    }
)


def test_a_question_may_be_made_of_several_columns() -> None:
    schema = QUESTIONS.fit(SURVEY)
    assert schema.site_names == ("films.A", "films.B", "seen.a", "seen.b", "party.Green", "party.Red", "income")
    assert schema.n_cuts.tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert schema.is_measured.tolist() == [False] * 6 + [True]
    assert schema.modelled == ("films", "seen", "party", "income")
    assert schema.source_columns["films"] == ("r1", "r2")
    assert schema.source_columns["party"] == ("party",)
    blocks = schema.compile(SURVEY)
    assert list(blocks) == list(schema)
    assert blocks["films"].tier.tolist() == [[1, 0], [0, 1], [-1, -1]]
    assert blocks["seen"].code.tolist() == [[1, 0], [0, 0], [-1, -1]]
    assert blocks["party"].tier.tolist() == [[0, 1], [-1, -1], [1, 0]]


def test_columns_are_added_and_replaced() -> None:
    schema = QUESTIONS | {"party": Ignore("not now"), "more": Binary()}
    assert schema.names == (*QUESTIONS.names, "more")
    assert schema["party"] == Ignore("not now")
    assert QUESTIONS["party"] != schema["party"]


def test_inequalities_are_checked_and_brought_to_standard_units() -> None:
    schema = QUESTIONS.fit(SURVEY)
    first, second = (each for block in schema.compile(SURVEY).values() for each in block.linear)
    sites = schema.site_names
    assert first == (0, {sites[5]: 1.0, sites[0]: -1.0}, 0.0, np.inf)
    location, scale = schema["income"].standard  # type: ignore[attr-defined]
    assert second.row == 2
    assert second.coefficients == pytest.approx({sites[6]: 2 * scale, sites[1]: 1.0})
    assert second[2:] == (-np.inf, pytest.approx(60 - 2 * location))


def test_a_question_of_several_columns_can_be_silent_or_asked_by_its_name() -> None:
    schema = QUESTIONS.fit(SURVEY)
    silent = schema.compile({"r2": [1, 2]}, missing_columns="ignore")
    assert silent["films"].tier.tolist() == [[-1, 0], [-1, 0]]
    assert not silent["seen"].observed.any()
    assert silent["also"].linear == ()
    asked = {"films": ["B > A", prefers("A", "B")], "seen": [["a"], {"b": True}]}
    blocks = schema.compile(asked, missing_columns="ignore")
    assert blocks["films"].tier.tolist() == [[0, 1], [1, 0]]
    assert blocks["seen"].code.tolist() == [[1, 0], [-1, 1]]


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
    (
        lambda: QUESTIONS.fit(SURVEY.rename(columns={"r2": "R2"})),
        ('column "r2"', '"films" needs', 'did you mean "R2"?'),
    ),
    (
        lambda: Schema({"a": Continuous(), "b": Ranking(ranks={"x": "a", "y": "c"})}),
        ('column "a"', 'both "a" and "b" read it'),
    ),
    (
        lambda: QUESTIONS.fit(SURVEY).compile(SURVEY.assign(also=[[({"films.a": 1}, ">=", 0)], None, None])),
        ("row 0", 'column "also"', 'no site is called "films.a"', 'did you mean "films.A"?'),
    ),
    (
        lambda: (
            Schema({"v": Continuous("log"), "s": Inequality()})
            .fit({"v": [1.0, 2.0], "s": [None, None]})
            .compile({"v": [1.0, 2.0], "s": [None, [({"v": 1}, ">=", 1)]]})
        ),
        ("row 1", 'column "s"', '"v" has transform="log"'),
    ),
    (
        lambda: Schema({"v.a": Binary(values=(0, 1)), "v": Categorical(["a", "b"]), "s": Inequality()}).compile(
            {"v.a": [0], "v": ["a"], "s": [[({"v.a": 1}, ">=", 1)]]}
        ),
        ("row 0", "more than one site"),
    ),
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
    for fitted in (False, True):
        columns = {case.name: case.column.fit(case.read()) if fitted else case.column for case in CASES}
        schema = Schema(columns, reasons={"numbers": 'a "why"\nin two lines'})
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
    assert lines[0].split() == ["column", "type", "meaning", "of", "a", "cell", "reason"]
    assert len(lines) == 3
    assert "Continuous" in lines[1]
    assert repr(schema).startswith("Schema of 2 columns, 2 sites")
    html = schema._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_very_many_levels_are_warned_of_once_by_name(recwarn: pytest.WarningsRecorder) -> None:
    """The index of a table as levels: said with its name, their number and what it rather is."""
    many = list(range(1, 1201))
    frame = {"index": many, "place": [f"p{number}" for number in many], "trust": [1, 2, 3] * 400}
    rather = {"index": Continuous("rank-normal"), "place": Ignore("a name"), "trust": Ordinal()}
    Schema(rather).fit(frame)
    Schema({"trust": Ordinal([1, 2, 3])}).fit(frame)
    assert [each for each in recwarn if issubclass(each.category, SchemaWarning)] == []
    schema = Schema({"index": Ordinal(), "place": Categorical(), "trust": Ordinal()})
    fitted = schema.fit(frame)
    said = [str(each.message) for each in recwarn if issubclass(each.category, SchemaWarning)]
    assert len(said) == 2
    assert 'column "index": Ordinal has 1,200 levels' in said[0]
    assert 'Ignore() or Id() if it names rows, Continuous(transform="rank-normal") if it is an amount' in said[0]
    assert 'column "place": Categorical has 1,200 categories' in said[1]
    assert fitted["index"].labels == tuple(many)
    assert Schema.infer(pd.DataFrame(frame))["index"].kind == "id"  # as it is taken for where nobody says otherwise


def test_python_shows_the_warning_once() -> None:
    """However often a table is read, as refits and checks do."""
    frame = {"index": list(range(600))}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            Schema({"index": Ordinal()}).fit(frame)
    assert [each.category for each in shown] == [SchemaWarning]
