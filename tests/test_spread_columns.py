"""One question with one answer in exclusive columns of a table: read, filled and written in the way of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.app.explorer import Session
from thurbo.errors import SchemaError
from thurbo.table.io.frames import as_table
from thurbo.table.schema.routing import not_asked

N = 240
PETS = ("cat", "dog", "hen", "newt", "rather not say")
BANDS = {"< 30": (None, 30), "30-59": (30, 60), "60 +": (60, None)}
FAST: dict[str, Any] = {
    "n_hidden": 2,
    "n_factors": 0,
    "members": 1,
    "max_epochs": 4,
    "random_state": 0,
    "verbose": False,
}


def answers() -> pd.DataFrame:
    """The answers themselves, a tenth of them missing; "pet" is asked only of those who have a garden."""
    rng = np.random.default_rng(0)
    trait = rng.standard_normal(N)

    def cut(labels: list[str]) -> np.ndarray:
        x = trait + rng.standard_normal(N)
        found = np.asarray(labels, object)[np.searchsorted(np.quantile(x, np.arange(1, len(labels)) / len(labels)), x)]
        found[rng.random(N) < 0.1] = None
        return found

    table = {
        "garden": cut(["no garden", "garden"]),
        "trust": cut(["none", "some", "a lot"]),
        "age": cut([*BANDS]),
        "pet": cut([*PETS]),
    }
    table["pet"][table["garden"] != "garden"] = None
    return pd.DataFrame(table)


def spread(table: pd.DataFrame) -> pd.DataFrame:
    """Each answer in the columns of a file, in four styles; a row without an answer is empty or all zeros."""
    found: dict[str, Any] = {"person": [f"p{row:03d}" for row in range(N)]}
    for label in ("no garden", "garden"):
        found[f"has {label}"] = np.where(table["garden"] == label, label, None)
    for label in ("none", "some", "a lot"):
        found[f"trust_{label}"] = np.where(table["trust"] == label, 1, 0)
    for label in BANDS:
        selected = np.where(table["age"] == label, "Selected", "Not selected").astype(object)
        found[f"age {label}"] = np.where(table["age"].isna(), None, selected)
    for label in PETS:
        found[f"pet {label}"] = np.where(table["pet"] == label, "X", None)
    return pd.DataFrame(found)


SCHEMA = tb.Schema(
    {
        "person": tb.Id(),
        "garden": tb.Binary(columns={"no garden": "has no garden", "garden": "has garden"}, true="garden"),
        "trust": tb.Ordinal(columns={label: f"trust_{label}" for label in ("none", "some", "a lot")}),
        "age": tb.Banded(BANDS, columns={label: f"age {label}" for label in BANDS}),
        "pet": tb.Categorical(columns={label: f"pet {label}" for label in PETS}, missing=["rather not say"]),
    },
    skips=[tb.Skip(["pet"], "garden", ["garden"])],
)
PLAIN = tb.Schema(
    {
        "garden": tb.Binary(values=("no garden", "garden")),
        "trust": tb.Ordinal(["none", "some", "a lot"]),
        "age": tb.Banded(BANDS),
        "pet": tb.Categorical(["cat", "dog", "hen", "newt"], missing=["rather not say"]),
    },
    skips=[tb.Skip(["pet"], "garden", ["garden"])],
)


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return tb.TBM(SCHEMA, **FAST).fit(spread(answers()))


def owner_of(column: str) -> str:
    return next((name for name in SCHEMA if column in SCHEMA[name].source_columns(name)), "person")


def labels_of(frame: pd.DataFrame, schema: tb.Schema, name: str) -> list[Any]:
    cells = as_table(frame).answers(schema, name)
    return [None if gone else value for value, gone in zip(cells.values, cells.missing, strict=True)]


def test_the_columns_say_what_one_cell_would() -> None:
    table, frame = answers(), spread(answers())
    fitted, plain = SCHEMA.fit(frame), PLAIN.fit(table)
    blocks, expected = fitted.compile(frame), plain.compile(table)
    for name in PLAIN:
        for part in ("code", "code_high", "tier", "lower", "upper"):
            assert np.array_equal(getattr(blocks[name], part), getattr(expected[name], part)), (name, part)
    gone, same = (not_asked(each, each.skips, as_table(own)) for each, own in ((fitted, frame), (plain, table)))
    assert np.array_equal(gone["pet"], same["pet"])
    assert gone["pet"].any()


def test_a_skip_is_found_where_its_gate_is_spread() -> None:
    frame = spread(answers())
    found = tb.Schema(dict(SCHEMA)).fit(frame).skips
    assert [(skip.columns, skip.asked_if, skip.values) for skip in found] == [(("pet",), "garden", ("garden",))]


def test_imputed_people_have_one_label_and_given_cells_do_not_change(model: tb.TBM) -> None:
    table, frame = answers(), spread(answers())
    filled = model.impute(frame)
    for name in ("garden", "trust", "age"):
        found = labels_of(filled, model.schema_, name)
        assert None not in found
        given = table[name].notna().to_numpy()
        assert [each for each, kept in zip(found, given, strict=True) if kept] == table[name][given].tolist()
    pets = labels_of(filled, model.schema_, "pet")
    gardens = labels_of(filled, model.schema_, "garden")
    refused = (table["pet"] == "rather not say").to_numpy()
    assert all(
        (pet is None) == (garden == "no garden" or out) for pet, garden, out in zip(pets, gardens, refused, strict=True)
    )
    for column in frame:  # in rows with an answer every cell is as it was
        owner = owner_of(column)
        rows = np.ones(N, bool) if owner == "person" else (table[owner].notna()).to_numpy()
        pd.testing.assert_series_equal(filled[column][rows], frame[column][rows], check_dtype=False)
    again = model.impute(frame, fill="rather not say")
    assert all(
        (each is None) == (garden == "no garden")
        for each, garden in zip(labels_of(again, model.schema_, "pet"), gardens, strict=True)
    )


def test_draws_and_samples_have_one_label_in_the_style_of_the_file(model: tb.TBM) -> None:
    frame = spread(answers())
    for drawn in (*model.impute_draws(frame, n=2, random_state=0), model.sample(200, random_state=0)):
        for name in ("garden", "trust", "age"):
            assert None not in labels_of(drawn, model.schema_, name)
        gardens, pets = (labels_of(drawn, model.schema_, name) for name in ("garden", "pet"))
        assert not any(pet is not None and garden == "no garden" for pet, garden in zip(pets, gardens, strict=True))
    new = model.sample(200, random_state=0)
    assert set(new["trust_some"]) == {0, 1}
    assert set(new["age < 30"]) == {"Selected", "Not selected"}
    assert set(new["has garden"].dropna()) == {"garden"}
    assert set(new["pet cat"].dropna()) == {"X"}
    given = model.sample(20, given={"age": "60 +"}, random_state=0)
    assert set(given["age 60 +"]) == {"Selected"}


def test_a_file_of_imputed_cells_keeps_every_other_byte(model: tb.TBM, tmp_path: Path) -> None:
    frame, table = spread(answers()), answers()
    source, target = tmp_path / "raw.csv", tmp_path / "full.csv"
    text = frame.to_csv(index=False, lineterminator="\r\n")
    source.write_bytes(text.encode())
    read, _ = tb.read(source)
    tb.write(model.impute(read), target, like=source)
    names, before, after = frame.columns.tolist(), text.splitlines()[1:], target.read_text().splitlines()[1:]
    for row, (old, new) in enumerate(zip(before, after, strict=True)):
        for column, one, other in zip(names, old.split(","), new.split(","), strict=True):
            owner = owner_of(column)
            if one != other:
                assert owner != "person"
                assert table[owner].isna()[row]
                assert one == "" or (one, other) == ("0", "1")


def test_probabilities_evaluation_and_the_explorer_are_those_of_the_plain_types(model: tb.TBM) -> None:
    table, frame = answers(), spread(answers())
    plain = tb.TBM(PLAIN, **FAST).fit(table)
    for name in PLAIN:
        own, other = (np.asarray(each.predict_proba(rows, name)) for each, rows in ((model, frame), (plain, table)))
        assert np.allclose(own, other, atol=1e-5)
    assert np.allclose(
        np.asarray(model.predict_proba(frame, "pet", given={"trust": "some"})),
        np.asarray(plain.predict_proba(table, "pet", given={"trust": "some"})),
        atol=1e-5,
    )
    found = model.evaluate(frame, random_state=0)
    assert {each["column"] for each in found.columns} == set(PLAIN)
    session, same = Session(model, frame), Session(plain, table)
    pins = [{"name": "age", "relation": "exactly", "values": ["60 +"]}]
    assert session.pinned(pins)["questions"][0]["given"]["chance"] == pytest.approx(
        same.pinned(pins)["questions"][0]["given"]["chance"], abs=1e-5
    )
    typed = {"trust": "some", "garden": "garden"}
    assert session.respondent(typed, "age")["moved"][0]["value"] == pytest.approx(
        same.respondent(typed, "age")["moved"][0]["value"], abs=1e-5
    )
    assert model.inequalities(frame, 3) is not None


def test_models_and_schemas_come_back_from_their_files(model: tb.TBM, tmp_path: Path) -> None:
    frame = spread(answers())
    model.schema_.to_toml(tmp_path / "schema.toml")
    assert tb.Schema.from_toml(tmp_path / "schema.toml") == model.schema_
    model.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    pd.testing.assert_frame_equal(again.impute(frame), model.impute(frame))
    schema = tb.Schema.from_dict(
        {"columns": {"g": {"kind": "binary", "columns": {"Male": "Gender: Male", "Female": "Gender: Female"}}}}
    )
    assert schema["g"] == tb.Binary(columns={"Male": "Gender: Male", "Female": "Gender: Female"})


def test_two_ticks_are_an_error_that_names_row_and_columns() -> None:
    frame = {"m": ["Male", None, "Male"], "f": [None, "Female", "Female"]}
    column = tb.Binary(columns={"Male": "m", "Female": "f"})
    with pytest.raises(SchemaError, match=r'row 2, column "m": "m" and "f" are both chosen.*unseen="missing"'):
        tb.Schema({"gender": column}).fit(frame)
    lenient = tb.Schema({"gender": tb.Binary(columns={"Male": "m", "Female": "f"}, unseen="missing")}).fit(frame)
    assert lenient.compile(frame)["gender"].code[:, 0].tolist() == [1, 0, -1]
    with pytest.raises(SchemaError, match=r'column "f": value "Femal" of value "Female" is not "Female"'):
        tb.Schema({"gender": column}).fit({"m": ["Male", None], "f": [None, "Female"]}).compile(
            {"m": [None], "f": ["Femal"]}
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"levels": ["a", "b"], "columns": {"a": "x", "c": "y"}}, '"b" is not in both'),
        ({"columns": {"a": "x", "b": "x"}}, 'names the column "x" twice'),
        ({"columns": {"a": "x"}}, "fewer than two"),
        ({"ticked": 1}, "needs columns"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        tb.Ordinal(**settings)


def test_never_chosen_columns_are_marked_as_the_others_are() -> None:
    frame = {"a": ["a", None], "b": [None, "b"], "c": [None, None]}
    schema = tb.Schema({"q": tb.Categorical(columns={"a": "a", "b": "b", "c": "c"})}).fit(frame)
    assert schema["q"].to_columns("q", np.asarray(["c"], object))["c"].tolist() == ["c"]
    ticks = {"a": ["Not selected", "Selected"], "b": ["Selected", "Not selected"], "c": ["Not selected"] * 2}
    schema = tb.Schema({"q": tb.Categorical(columns={"a": "a", "b": "b", "c": "c"})}).fit(ticks)
    assert {k: v.tolist() for k, v in schema["q"].to_columns("q", np.asarray(["c", None], object)).items()} == {
        "a": ["Not selected", None], "b": ["Not selected", None], "c": ["Selected", None],
    }  # fmt: skip


def test_not_selected_is_never_the_true_value() -> None:
    for cells in (["Not selected", "Often"], ["Zoo", "Not selected"], ["not mentioned", "a"], ["unchecked", "Checked"]):
        true = tb.Schema({"q": tb.Binary()}).fit({"q": cells})["q"].values[1]
        assert true.casefold() not in ("not selected", "not mentioned", "unchecked")


def test_kinds_of_missing_answers_are_those_of_the_question() -> None:
    schema, table = SCHEMA.fit(spread(answers())), answers()
    kinds = schema["pet"].missing_kinds(as_table(spread(table)).gathered(schema, "pet"))
    refused = int((table["pet"] == "rather not say").sum())
    assert kinds == {"rather not say": refused, "no answer": int(table["pet"].isna().sum())}


def test_statistical_files_keep_the_label_of_each_column(tmp_path: Path) -> None:
    frame = spread(answers())
    tb.write(frame, tmp_path / "s.sav", SCHEMA)
    read, schema = tb.read(tmp_path / "s.sav")
    assert read["trust_some"].tolist() == frame["trust_some"].tolist()
    assert "trust: some" in schema.titles.values() or any("some" in str(c.labels) for c in schema.values())
