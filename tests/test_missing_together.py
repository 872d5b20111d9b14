"""Which blocks of questions have answers, as sites of the model: found, derived from a table, and no questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import thurbo as tb
from tests.known import changed
from thurbo.table.columns import Answered
from thurbo.table.io.frames import as_table
from thurbo.table.schema.routing import missing_together, with_answered

NAME = "answered: a and 1 more"


def _table(n_rows: int = 60) -> dict[str, list[Any]]:
    """a and b are missing together in every third row, c in others, and d never."""
    rng = np.random.default_rng(0)
    cells = {name: rng.choice(["no", "yes"], n_rows).astype(object) for name in "abcd"}
    gone = np.arange(n_rows) % 3 == 0
    cells["a"][gone] = cells["b"][gone] = None
    cells["b"][1] = None
    cells["c"][np.arange(n_rows) % 5 == 1] = None
    return {name: values.tolist() for name, values in cells.items()}


def _schema() -> tb.Schema:
    return tb.Schema(dict.fromkeys("abcd", tb.Binary(values=("no", "yes"))), skips=[])


def test_questions_that_are_missing_together_are_a_block() -> None:
    assert missing_together(_schema(), as_table(_table())) == [("a", "b")]


def test_blocks_of_the_bundled_survey() -> None:
    frame, schema = tb.datasets.load_starwars(everything=True)
    hidden = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.1)  # answers that are kept for evaluation
    for table in (frame, hidden):
        blocks = missing_together(schema.fit(frame), as_table(table))
        assert {"fan", "seen", "films", "Yoda", "knows_expanded_universe"} <= set(blocks[0])
    assert missing_together(schema.fit(frame), as_table(frame))[1] == (
        "fan_star_trek",
        "gender",
        "age",
        "education",
        "region",
    )


def test_having_answered_is_derived_from_the_other_columns() -> None:
    schema = with_answered(_schema(), as_table(_table()))
    assert schema[NAME] == Answered(columns=("a", "b"))
    assert with_answered(schema, as_table(_table())) == schema  # once
    rows = {
        "a": [None, "yes", None, None],
        "b": [None, None, "no", None],
        "c": ["no", None, None, None],
        "d": [None, "no", None, None],
    }
    assert schema.compile(rows)[NAME].code[:, 0].tolist() == [0, 1, 1, -1]  # a row without any answer says nothing
    assert schema.compile(rows, given={"a": "yes"})[NAME].code[:, 0].tolist() == [1, 1, 1, 1]
    only_c = {"c": ["no", "yes"]}
    found = schema.compile(only_c, missing_columns="ignore")[NAME]
    assert found.code[:, 0].tolist() == [-1, -1]  # the table does not have these questions


def test_what_is_derived_is_no_question(tmp_path: Path) -> None:
    schema = with_answered(_schema(), as_table(_table()))
    assert NAME not in schema.modelled
    assert schema.with_sites == (*"abcd", NAME)
    schema.to_toml(tmp_path / "schema.toml")
    assert tb.Schema.from_toml(tmp_path / "schema.toml") == schema


SMALL: dict[str, Any] = {"n_hidden": 2, "n_factors": 0, "max_epochs": 2, "random_state": 0, "verbose": False}


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return tb.TBM(_schema(), missing="informative", **SMALL).fit(_table())


def test_the_parameter_decides(model: tb.TBM, tmp_path: Path) -> None:
    assert model.schema_ == with_answered(_schema(), as_table(_table()))
    model.save(tmp_path / "m.thurbo")
    loaded = tb.TBM.load(tmp_path / "m.thurbo")
    assert (loaded.missing, loaded.schema_) == ("informative", model.schema_)
    assert np.allclose(loaded.predict_proba(_table(), "d"), model.predict_proba(_table(), "d"))
    assert tb.TBM(_schema(), **{**SMALL, "max_epochs": 0}).fit(_table()).schema_ == _schema()
    with pytest.raises(tb.ThurboError, match="missing='mnar' is not one of"):
        tb.TBM(_schema(), missing="mnar").fit(_table())  # type: ignore[arg-type]


def test_queries_speak_of_questions_only(model: tb.TBM) -> None:
    table = _table()
    assert model.site_names_ == [*"abcd", NAME]
    assert list(model.impute(table)) == list("abcd")
    assert list(model.sample(5, given="a = yes", random_state=0)) == list("abcd")
    assert list(model.predict(table)) == list("abcd")
    assert list(model.cuts_) == list("abcd")
    judged = model.evaluate(table, hide=0.2, random_state=0, logistic=False)
    assert {each["column"] for each in judged.columns} <= {*"abcd"}


def test_a_skipped_block_is_evidence(model: tb.TBM) -> None:
    """By hand: unit 1 raises both having answered and d, so a row that skipped the block has d = yes less often."""
    own = tb.TBM(model.schema_, n_hidden=1, n_factors=0, max_epochs=0, random_state=0, verbose=False).fit(_table())
    weights = np.zeros((5, 1), np.float32)
    weights[[3, 4]] = 2.0
    own.model_ = changed(own.model_, own.params_._replace(weights=jnp.asarray(weights)))
    rows = {"a": ["yes", None], "b": [None, None], "c": ["no", "no"], "d": [None, None]}
    answered, skipped = own.predict_proba(rows, "d", gaps="informative")[:, 1]
    assert answered > skipped + 0.1
    # One answer is no respondent; two are one, also if one of them is to be predicted.
    assert own.model_.least_answers == 2
    one, _ = own.predict_proba({name: cells[1:] * 2 for name, cells in rows.items()}, "d")[:, 1]
    assert one == own.predict_proba(rows, "d", gaps="ignorable")[1, 1] > skipped + 0.1
    assert own.predict_proba({**rows, "d": ["no", "no"]}, "d")[1, 1] == pytest.approx(skipped, abs=1e-6)
