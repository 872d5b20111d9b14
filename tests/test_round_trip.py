"""From a frame to a file, a model, filled gaps and a file again: what was known on the way in is known at the end.

Idea: one frame with every kind of label that survey files have; every cell and every entry of the code book compared.
Promises that no observed cell ever changes, and that what is filled in are codes that mean something.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.table.io.codebook import Codebook

N_ROWS = 60
GRADES = ["low", "fair", "high"]  # in alphabetical order they would be another scale
PARTIES = ["Red", "Green", "Blue", "Grey"]  # of which the last is nobody's
TRUST = {1: "Not at all", 2: "A little", 3: "A lot"}
NO_TRUST = {8: "Don't know", 9: "Refused"}
SCHEMA = tb.Schema(
    {
        "person": tb.Id(),
        "trust": tb.Ordinal([1, 2, 3], names=TRUST, missing=NO_TRUST),
        "grade": tb.Ordinal(GRADES),
        "sex": tb.Binary(values=(1, 2), names={1: "Man", 2: "Woman"}),
        "party": tb.Categorical(PARTIES),
        "member": tb.Binary(true=True),
        "age": tb.Continuous(missing={999: "Not stated"}),
        "wt": tb.Weight(),
    },
    titles={
        "person": "Number of the respondent",
        "trust": "How far do you trust them?",
        "grade": "Grade at school",
        "party": "Which party is nearest?",
        "wt": "Design weight",
    },
)
CODED = {"trust": [1, 2, 3], "grade": [1, 2, 3], "sex": [1, 2], "party": [1, 2, 3], "member": [0, 1]}
UNDECLARED = {".dta": {"trust", "age"}}  # Stata declares no codes missing


def survey() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    on = rng.random(N_ROWS) < 0.5
    level = np.clip(np.round(on + rng.normal(0.5, 0.6, N_ROWS)), 0, 2).astype(int)
    frame = pd.DataFrame(
        {
            "person": np.arange(N_ROWS) + 501,
            "trust": pd.array(level + 1, dtype="Int64"),
            "grade": pd.Categorical.from_codes(level, GRADES, ordered=True),
            "sex": rng.integers(1, 3, N_ROWS),
            "party": pd.Categorical.from_codes(np.where(on, 2, rng.integers(0, 2, N_ROWS)), PARTIES),
            "member": pd.array(on, dtype="boolean"),
            "age": np.round(35.0 + 20 * on + 5 * rng.normal(size=N_ROWS)),
            "wt": rng.gamma(4, 0.25, N_ROWS),
        }
    )
    for place, name in enumerate(["trust", "grade", "party", "member", "age"]):
        frame.loc[frame.index % 9 == place, name] = None
    frame.loc[[5, 15], "trust"] = [8, 9]
    frame.loc[[7, 17], "age"] = 999.0
    return frame


def codes(frame: pd.DataFrame) -> pd.DataFrame:
    """Every cell as the number it should be in a file: categories from 1, yes and no as 1 and 0."""
    found = {}
    for name, series in frame.items():
        if isinstance(series.dtype, pd.CategoricalDtype):
            series = series.cat.codes.replace(-1, np.nan) + 1
        found[name] = series.astype("Float64").to_numpy(float, na_value=np.nan)
    return pd.DataFrame(found)


class Journey(NamedTuple):
    """The frame of a file, its schema, the model of both, and the frame that came back filled, through a file."""

    read: pd.DataFrame
    schema: tb.Schema
    model: tb.TBM
    filled: pd.DataFrame
    read_again: pd.DataFrame
    schema_again: tb.Schema


@pytest.fixture(scope="module")
def spss(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    home = tmp_path_factory.mktemp("journey")
    frame, schema = tb.read(tb.write(survey(), home / "survey.sav", SCHEMA))
    model = tb.TBM(schema, n_hidden=2, max_epochs=3, random_state=0, verbose=False).fit(frame)
    filled = model.impute(frame, fill="all")
    return Journey(frame, schema, model, filled, *tb.read(tb.write(filled, home / "filled.sav")))


def test_a_frame_with_labels_becomes_codes_with_names(spss: Journey) -> None:
    pd.testing.assert_frame_equal(spss.read, codes(survey()), check_dtype=False)
    assert (spss.read.dtypes == np.float64).all()  # the one type of number that SPSS has
    names = {name: dict(getattr(spss.schema[name], "names", ())) for name in spss.schema}
    assert names["trust"] == TRUST
    assert names["grade"] == {1: "low", 2: "fair", 3: "high"}
    assert names["sex"] == {1: "Man", 2: "Woman"}
    assert names["party"] == {1: "Red", 2: "Green", 3: "Blue"}
    assert dict(spss.schema["trust"].missing) == NO_TRUST
    assert dict(spss.schema["age"].missing) == {999: "Not stated"}
    assert list(spss.schema) == list(SCHEMA)
    kinds = {name: column.kind for name, column in spss.schema.items()}
    assert kinds == {name: column.kind for name, column in SCHEMA.items()}
    assert spss.schema["grade"].texts == tuple(GRADES)
    assert spss.schema.titles == SCHEMA.titles
    book = Codebook.of(spss.read)
    assert dict(book.note("party").names)[4] == "Grey"  # nobody's, and still in the file
    assert {name: book.note(name).measure for name in SCHEMA} == {
        "person": "nominal",
        "trust": "ordinal",
        "grade": "ordinal",
        "sex": "nominal",
        "party": "nominal",
        "member": "nominal",
        "age": "scale",
        "wt": "scale",
    }


def test_stata_gets_the_same_codes_and_names(spss: Journey, tmp_path: Path) -> None:
    """All but measures and declared missing codes, for which its files have no place."""
    frame, schema = tb.read(tb.write(survey(), tmp_path / "survey.dta", SCHEMA))
    pd.testing.assert_frame_equal(frame, spss.read)
    for name in SCHEMA:
        before, after = Codebook.of(spss.read).note(name), Codebook.of(frame).note(name)
        assert (after.title, after.names) == (before.title, before.names)
    assert dict(schema["trust"].missing) == NO_TRUST  # by the names of the codes
    assert schema["grade"].texts == tuple(GRADES)  # likewise, as a scale that is known


def gaps(journey: Journey) -> pd.DataFrame:
    """Cells that say nothing: empty ones, and those that hold a code for no answer."""
    read = journey.read
    return read.isna() | pd.DataFrame({"trust": read["trust"].isin([8, 9]), "age": read["age"] == 999}).reindex(
        columns=read.columns, fill_value=False
    )


def test_filled_tables_keep_every_answer_and_every_entry_of_the_book(spss: Journey) -> None:
    gone = gaps(spss)
    assert gone[["trust", "grade", "party", "member", "age"]].any().all()
    for filled in (spss.filled, spss.read_again):
        pd.testing.assert_frame_equal(filled.mask(gone), spss.read.mask(gone))
        assert filled.notna().all(axis=None)
        assert filled.dtypes.equals(spss.read.dtypes)
        for name, valid in CODED.items():
            assert set(filled[name][gone[name]]) <= set(valid)
    np.testing.assert_array_equal(spss.read_again, spss.filled)
    before, after = Codebook.of(spss.read), Codebook.of(spss.read_again)
    for name in spss.read:
        assert after.note(name) == before.note(name)
    again = {name: (column.kind, column.labels, dict(column.missing)) for name, column in spss.schema_again.items()}
    assert again.pop("age")[0] == "continuous"
    assert again.pop("trust")[:2] == ("ordinal", (1, 2, 3))
    before_it = {name: (column.kind, column.labels, dict(column.missing)) for name, column in spss.schema.items()}
    assert again == {name: before_it[name] for name in again}
    assert spss.schema_again.titles == spss.schema.titles


@pytest.mark.parametrize("extension", [".zsav", ".dta", ".parquet", ".csv"])
def test_other_files_hold_the_same_codes(spss: Journey, tmp_path: Path, extension: str) -> None:
    """A model of the .sav file reads them all; names of codes and titles are kept where the format has a place."""
    frame, schema = tb.read(tb.write(spss.read, tmp_path / f"survey{extension}"))
    assert list(frame) == list(spss.read)
    np.testing.assert_array_equal(frame.astype(float), spss.read)
    filled = spss.model.impute(frame, fill="all")
    np.testing.assert_array_equal(filled.astype(float), spss.filled)
    if extension == ".csv":
        return
    again, _ = tb.read(tb.write(filled, tmp_path / f"filled{extension}"))
    np.testing.assert_array_equal(again, spss.filled)
    for name in spss.read:
        before, after = Codebook.of(spss.read).note(name), Codebook.of(again).note(name)
        assert (after.title, after.names) == (before.title, before.names)
    undeclared: set[Any] = UNDECLARED.get(extension, set())
    assert {name for name in schema if schema[name].missing != spss.schema[name].missing} <= undeclared


def test_several_imputations_keep_it_too(spss: Journey, tmp_path: Path) -> None:
    """The long form of .imp and .id, under the names that SPSS and Stata have for them."""
    draws, gone = [spss.filled, spss.filled], gaps(spss)
    for extension, numbers in ((".sav", ["Imputation_", "Row_"]), (".dta", ["_mi_m", "_mi_id"])):
        long, schema = tb.read(tb.write(tb.stack(draws, spss.read), tmp_path / f"long{extension}"))
        assert list(long) == [*numbers, *spss.read]
        parts = [part.drop(columns=numbers).reset_index(drop=True) for _, part in long.groupby(numbers[0])]
        assert len(parts) == 3
        assert parts[0].isna().equals(gone)
        for part in parts:
            pd.testing.assert_frame_equal(part.mask(gone), spss.read.mask(gone))
        for part in parts[1:]:
            assert all(set(part[name]) <= set(valid) for name, valid in CODED.items())
        assert schema["trust"].texts == tuple(TRUST.values())
        assert schema.titles == SCHEMA.titles
    taken = tb.stack(draws, spss.read).assign(Row_=1.0)
    with pytest.raises(tb.SchemaError, match=r'column "Row_".*rename the column'):
        tb.write(taken, tmp_path / "taken.sav")
