"""A schema corrected by hand: type, order, missing codes and groups, with and without a table."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import thurbo as tb
from tests.column_cases import CASES
from thurbo.errors import SchemaError

LEVELS = ("none", "some", "a lot")
TABLE: dict[str, Any] = {
    "trust": ["some", "a lot", "none", "n/a", "some", None],
    "news: TV": ["Yes", "No", "No", "Yes", None, "Yes"],
    "news: radio": ["No", "No", "Yes", "Yes", None, "No"],
    "price": ["$5", "$1,200", "about 7", "$12", "$7", None],
    "age": ["18-29", "30-44", "45+", "18-29", "45+", None],
    "code": [1, 2, 9, 2, 1, 9],
    "weight": [1.0, 2.0, 1.0, 1.0, 1.0, 1.0],
}


def schema_of_table() -> tb.Schema:
    return tb.Schema(
        {
            "trust": tb.Categorical([*LEVELS, "n/a"]),
            "news: TV": tb.Binary(true="Yes"),
            "news: radio": tb.Binary(true="Yes"),
            "price": tb.Ignore("free text"),
            "age": tb.Categorical(["18-29", "30-44", "45+"]),
            "code": tb.Ordinal([1, 2], names={1: "low", 2: "high"}, missing={9: "refused"}),
            "weight": tb.Weight(),
        },
        reasons={"trust": "a guess", "age": "three texts"},
        titles={"trust": "How much trust?", "news: TV": "News from: TV", "news: radio": "News from: radio"},
        skips=[tb.Skip(["age"], "trust", ["some", "a lot"])],
    )


def test_a_correction_keeps_everything_else(tmp_path: Path) -> None:
    before = schema_of_table()
    after = before.with_type("trust", "ordinal")
    assert after["trust"] == tb.Ordinal([*LEVELS, "n/a"])
    assert before == schema_of_table()
    assert {name: after[name] for name in after if name != "trust"} == {
        name: before[name] for name in before if name != "trust"
    }
    assert after.titles == before.titles
    assert after.reasons == {"age": "three texts"}
    assert after.skips == before.skips
    after.to_toml(tmp_path / "schema.toml")
    assert tb.Schema.from_toml(tmp_path / "schema.toml") == after


@pytest.mark.parametrize("order", list(permutations(LEVELS)))
@pytest.mark.parametrize("start", [tb.Ordinal(LEVELS), tb.Categorical(LEVELS), tb.Categorical(LEVELS, ordered=True)])
def test_any_order_can_be_given(start: Any, order: tuple[str, ...]) -> None:
    column = tb.Schema({"trust": start}).with_order("trust", order)["trust"]
    assert column.labels == order
    assert column.has_order
    assert column.kind == ("categorical" if start.has_order and start.kind == "categorical" else "ordinal")


def test_an_order_is_of_all_answers_and_may_name_them_by_their_texts() -> None:
    schema = schema_of_table()
    assert schema.with_order("code", ["high", "low"])["code"].labels == (2, 1)
    assert schema.with_order("news: TV", ["Yes", "No"], table=TABLE)["news: TV"].labels == ("Yes", "No")
    assert tb.Schema({"a": tb.Ordinal()}).with_order("a", [3, 1, 2])["a"].labels == (3, 1, 2)
    with pytest.raises(SchemaError, match=r'column "trust": "n/a" has no place in the order; .*with_missing'):
        schema.with_order("trust", LEVELS)
    with pytest.raises(SchemaError, match=r'"a lott" is not one of its answers; did you mean "a lot"'):
        schema.with_order("trust", ["none", "some", "a lott"])
    with pytest.raises(SchemaError, match="twice"):
        schema.with_order("trust", ["none", "none", "some", "a lot", "n/a"])
    with pytest.raises(SchemaError, match="not a list"):
        schema.with_order("trust", "none")
    with pytest.raises(SchemaError, match=r'column "age": .* no order that could be changed'):
        schema.with_type("age", "banded").with_order("age", ["45+", "18-29", "30-44"])


def test_missing_codes_are_replaced_and_answers_come_back() -> None:
    schema = schema_of_table()
    gone = schema.with_missing("trust", {"n/a": "not applicable"}, table=TABLE)
    assert gone["trust"].labels == LEVELS
    assert gone["trust"].missing == (("n/a", "not applicable"),)
    assert gone.with_missing("trust", [])["trust"].labels == (*LEVELS, "n/a")
    code = schema.with_missing("code", ["low"])["code"]  # by its name; 9 is an answer again, with its name
    assert (code.labels, code.missing, dict(code.names)) == ((2, 9), ((1, "low"),), {2: "high", 9: "refused"})
    assert schema.with_missing("code", [9, "7"], table=TABLE)["code"].missing == ((9, "refused"), ("7", "7"))
    absent = schema.with_missing("code", [9, 8]).with_missing("code", [9], table=TABLE)
    assert absent["code"].labels == (1, 2)  # 8 does not occur
    three = tb.Schema({"b": tb.Binary(values=("no", "yes"), missing=["?"])}).with_missing("b", [])["b"]
    assert three == tb.Categorical(["?", "no", "yes"])
    number = tb.Schema({"n": tb.Continuous(missing=[-9])})
    assert number.with_missing("n", [-8])["n"].missing == ((-8, "-8"),)
    with pytest.raises(SchemaError, match=r'column "code": .*fewer than two'):
        schema.with_missing("code", [1, 9])
    with pytest.raises(SchemaError, match="not a list"):
        schema.with_missing("code", "9")


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("trust", "ordinal", tb.Ordinal(["n/a", *LEVELS])),
        ("trust", tb.Ordinal(LEVELS, missing=["n/a"]), tb.Ordinal(LEVELS, missing=["n/a"])),
        ("price", "continuous", tb.Continuous(parse="currency", unseen="missing")),
        ("price", tb.Ignore, tb.Ignore("")),
        ("age", "banded", tb.Banded({"18-29": (18, 30), "30-44": (30, 45), "45+": (45, None)})),
        ("age", "ordinal", tb.Ordinal(["18-29", "30-44", "45+"])),
        ("news: TV", tb.Categorical, tb.Categorical(["No", "Yes"])),
        ("code", "binary", tb.Binary(values=(1, 2), names={1: "low", 2: "high"}, missing={9: "refused"})),
        ("code", "continuous", tb.Continuous(missing={9: "refused"})),
        ("weight", "continuous", tb.Continuous()),
        ("weight", "ordinal", tb.Ordinal([1, 2])),
    ],
)
def test_a_type_takes_over_what_is_known(name: str, kind: Any, expected: tb.Column) -> None:
    found = schema_of_table().with_type(name, kind, table=TABLE)[name]
    if name == "trust" and kind == "ordinal":  # where "n/a" belongs is not known
        found = tb.Schema({name: found}).with_order(name, expected.labels)[name]
    assert found == expected


def test_several_questions_are_corrected_alike() -> None:
    schema = tb.Schema({name: tb.Categorical(LEVELS) for name in "abc"})
    found = schema.with_order(["a", "c"], LEVELS).with_missing(["a", "b"], ["none"]).with_type(["b"], "binary")
    assert [column.kind for column in found.values()] == ["ordinal", "binary", "ordinal"]
    assert [column.labels for column in found.values()] == [LEVELS[1:], ("a lot", "some"), LEVELS]


def test_rare_answers_that_were_joined_come_apart() -> None:
    table = {"state": ["a", "b", "c", "a", "b", "d"]}
    schema = tb.Schema({"state": tb.Categorical(["a", "b", "other"], other="other")})
    assert schema.with_type("state", "ordinal", table=table)["state"].labels == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("trust", "binary", r"4 answers \(none, some, a lot, n/a\), and Binary has two; declare the others missing"),
        ("trust", "banded", r"are not bands of a number"),
        ("age", "continuous", r'row 0, column "age": value "18-29" is not a number'),
        ("age", "ordnal", 'did you mean "ordinal"'),
        ("what", "ordinal", 'column "what": the schema has no such column'),
    ],
)
def test_a_type_that_does_not_fit_is_refused(name: str, kind: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema_of_table().with_type(name, kind, table=TABLE)


def test_settings_stand_beside_a_type_only() -> None:
    schema = schema_of_table()
    assert schema.with_type("price", "continuous", transform="log", table=TABLE)["price"].transform == "log"
    with pytest.raises(SchemaError, match="give them to the column"):
        schema.with_type("price", tb.Continuous(), transform="log")


def test_columns_become_one_question_and_come_apart() -> None:
    schema = schema_of_table()
    news = ["news: TV", "news: radio"]
    grouped = schema.group("news", news, table=TABLE)
    assert grouped.names == ("trust", "news", "price", "age", "code", "weight")
    assert grouped["news"] == tb.MultiSelect(columns={"TV": "news: TV", "radio": "news: radio"})
    assert grouped.titles["news"] == "News from"
    assert grouped.group("more", {"old": "trust", "new": "age"}, "ranking").names[0] == "more"
    apart = grouped.ungroup("news", table=TABLE)
    assert apart.names == schema.names
    assert [apart[name].kind for name in news] == ["binary", "binary"]
    unread = tb.Schema({"a": tb.Ignore(), "b": tb.Ignore()})
    assert unread.group("q", ["a", "b"], "ranking", by="places")["q"].places == ("a", "b")
    mentions = schema.group("m", news, by="mentions")
    one = {"q1": ["a", None, None], "q2": [None, "b", None], "q3": [None, None, "c"]}
    choice = tb.Schema({each: tb.Ignore() for each in one}).group("q", list(one), "ordinal", table=one)
    assert choice["q"] == tb.Ordinal(columns={"a": "q1", "b": "q2", "c": "q3"})
    assert choice.with_order("q", ["b", "a", "c"], table=one)["q"].labels == ("b", "a", "c")
    assert choice.with_type("q", "multiselect", table=one)["q"].labels == ("a", "b", "c")
    assert choice.with_missing("q", ["c"]).with_missing("q", []) == choice
    bands = tb.Schema({"x 18-29": tb.Ignore(), "x 30-44": tb.Ignore()}).group("x", ["x 18-29", "x 30-44"], "banded")
    assert bands["x"].labels == ("18-29", "30-44")
    assert bands.ungroup("x").names == ("x 18-29", "x 30-44")
    assert mentions["m"].mentions == tuple(news)
    assert mentions.ungroup("m").names == schema.names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("news", ["news: TV", "nothing"]), 'column "nothing": the schema has no such column'),
        (("trust", ["news: TV", "news: radio"]), 'column "trust": a column has this name'),
        (("news", ["news: TV", "news: radio"], "continuous"), "Continuous reads one column; use one of the kinds"),
        (("news", ["news: TV", "news: radio"], "multiselect", "ranks"), "no setting 'ranks'"),
        (("news", []), "columns"),
    ],
)
def test_a_group_that_cannot_be_is_refused(arguments: tuple[Any, ...], words: str) -> None:
    name, columns, *more = arguments
    with pytest.raises(SchemaError, match=words):
        schema_of_table().group(name, columns, *more[:1], by=more[1] if more[1:] else None)


def test_a_question_of_one_column_is_not_divided() -> None:
    with pytest.raises(SchemaError, match="only a question of several columns"):
        schema_of_table().ungroup("age")
    grouped = schema_of_table().group("news", ["news: TV", "news: radio"])
    with pytest.raises(SchemaError, match="divide it with ungroup"):
        grouped.group("all", ["news", "age"])


def test_options_are_called_by_their_text_or_by_what_their_names_do_not_share() -> None:
    table = {"q_1": ["TV", None, "TV"], "q_2": [None, "radio", None]}
    schema = tb.Schema({"q_1": tb.Binary(), "q_2": tb.Binary()})
    assert schema.group("q", ["q_1", "q_2"], table=table)["q"].labels == ("TV", "radio")
    assert schema.group("q", ["q_1", "q_2"])["q"].labels == ("1", "2")
    assert schema.group("q", {"a": "q_1", "b": "q_2"})["q"].labels == ("a", "b")


def test_skips_are_found_again_in_the_table() -> None:
    n = 60
    table = {
        "seen": ["yes", "no"] * n,
        "fan": ["a", None, "b", None] * (n // 2),
        "kind": ["a", "b", "b", "a"] * (n // 2),
    }
    schema = tb.Schema.infer(table)
    assert [str(skip) for skip in schema.skips] == ["fan: asked only if seen = yes"]
    without = schema.with_type("seen", "ignore", table=table)
    assert without.skips != schema.skips
    assert without.with_type("seen", "binary", table=table).skips == schema.skips


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_column_can_be_left_out_and_keeps_its_missing_codes(case: Any) -> None:
    schema = tb.Schema({"q": case.column})
    assert schema.with_type("q", "ignore")["q"].kind == "ignore"
    assert schema.with_missing("q", {"!": "refused"})["q"].declared_missing[-1] == ("!", "refused")
