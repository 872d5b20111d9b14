"""The bundled survey: what is in the file, and that its schema reads all of it.

Idea: counts that can be checked against the published file by hand.
Promises the same cells as pandas and as polars.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from thurbo.errors import ThurboError
from thurbo.table.columns import Binary, Ignore, Ordinal
from thurbo.table.datasets import load_starwars
from thurbo.table.io.frames import as_table

SURVEY = load_starwars(everything=True)[1]
FILMS = SURVEY["films"].labels
CHARACTERS = [name for name, title in SURVEY.titles.items() if title.startswith("Please state whether you view")]
SEEN = [f"seen: {film}" for film in FILMS]


@pytest.fixture(params=["pandas", "polars"])
def survey(request: Any) -> Any:
    return load_starwars(request.param)


def test_shape_and_names(survey: Any) -> None:
    frame, schema = survey
    assert frame.shape == (1186, 38)
    assert as_table(frame).names == schema.names
    assert len(FILMS) == 6
    assert len(CHARACTERS) == 14
    assert schema.n_sites == 29


def test_every_cell_is_read(survey: Any) -> None:
    frame, schema = survey
    source, blocks = as_table(frame), schema.fit(frame).compile(frame)
    for name in schema.modelled:
        np.testing.assert_array_equal(blocks[name].observed[:, 0], ~source.cells(name).missing)


def test_counts_of_the_published_file(survey: Any) -> None:
    frame, schema = survey
    blocks = schema.fit(frame).compile(frame)
    code = {name: blocks[name].code[:, 0] for name in schema.modelled}
    assert np.sum(code["seen_any"] == 1) == 936
    assert np.sum(code["fan"] == 1) == 552
    assert [np.sum(code[name] == 1) for name in SEEN] == [673, 571, 550, 607, 758, 738]
    # 936 have seen a film, 835 of them ticked one or more: only their empty boxes say "not seen".
    assert {int(np.sum(code[name] >= 0)) for name in SEEN} == {835}
    assert np.bincount(code["Han Solo"] + 1).tolist() == [357 + 15, 1, 8, 44, 151, 610]
    assert np.bincount(code["age"] + 1).tolist() == [140, 218, 268, 291, 269]
    assert np.bincount(code["education"] + 1).tolist() == [150, 7, 105, 328, 321, 275]


def test_schema_says_what_is_left_out_and_why() -> None:
    _, schema = load_starwars()
    left_out = [column for column in schema.values() if isinstance(column, Ignore)]
    assert len(left_out) == 9
    assert all(column.reason for column in left_out)
    assert isinstance(schema["fan"], Binary)
    assert all(isinstance(schema[name], Ordinal) and len(schema[name].labels) == 5 for name in CHARACTERS)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_everything_is_in_the_model(library: Any) -> None:
    frame, schema = load_starwars(library, everything=True)
    assert [name for name, column in schema.items() if isinstance(column, Ignore)] == ["respondent"]
    read = {source for sources in schema.source_columns.values() for source in sources}
    assert {"respondent", *read} == set(as_table(frame).names)
    fitted = schema.fit(frame)
    assert fitted.n_sites == 23 + 6 + 6 + 3 + 9
    blocks = fitted.compile(frame)
    assert (blocks["seen"].code == 1).sum(axis=0).tolist() == [673, 571, 550, 607, 758, 738]
    assert blocks["films"].observed.any(axis=1).sum() == 836
    tier = blocks["films"].tier
    rank = as_table(frame).cells("rank: The Empire Strikes Back")
    best = (tier >= 0).all(axis=1) & (np.where(rank.missing, 0, rank.values) == 1)
    assert np.all(tier[best, FILMS.index("The Empire Strikes Back")] == 5)
    assert blocks["shot_first"].observed[:, 0].sum() == 325 + 197 + 306
    assert (blocks["shot_first"].tier == 1).sum(axis=0).tolist() == [325, 197, 306]
    assert blocks["region"].observed[:, 0].sum() == 1043


def test_pandas_and_polars_agree() -> None:
    first, second = (as_table(load_starwars(library)[0]) for library in ("pandas", "polars"))
    for name in first.names:
        one, two = first.cells(name), second.cells(name)
        np.testing.assert_array_equal(one.missing, two.missing)
        assert one.values[~one.missing].tolist() == two.values[~two.missing].tolist()


def test_unknown_library_is_refused() -> None:
    with pytest.raises(ThurboError, match='"pandas" or "polars"'):
        load_starwars("spark")  # type: ignore[arg-type]


def test_credit_is_shipped() -> None:
    credit = files("thurbo.table.datasets").joinpath("CREDITS.md").read_text(encoding="utf-8")
    assert "FiveThirtyEight" in credit
    assert "CC BY 4.0" in credit
