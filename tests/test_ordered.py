"""Ordered categories: utilities that no scale ties together, and an order for everything that asks about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import thurbo as tb
from tests.column_cases import cells_of
from tests.known import PARTIES, SCHEMA, TRUST, Oracle, known_model, known_params, one_member
from thurbo.app import cli
from thurbo.app.report.cards import question_record
from thurbo.app.report.wording import read_answers
from thurbo.errors import SchemaError, ThurboError
from thurbo.predict import evaluation as evaluate
from thurbo.table.io.codebook import Codebook

LEVELS = ("none", "some", "much", "all")
ORDERED = SCHEMA | {"party": tb.Categorical(PARTIES, ordered=True)}


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    """The known model, its parties in an order: Blue < Green < Red."""
    model = known_model()
    model._adopt(one_member(ORDERED, known_params(), "exact"), [], True)
    return model


@pytest.fixture(scope="module")
def frame(model: tb.TBM) -> pd.DataFrame:
    drawn = model.sample(200, random_state=3)
    return drawn.mask(np.random.default_rng(1).random(drawn.shape) < 0.1)


# ---- the column


@pytest.mark.parametrize(
    ("levels", "statement"),
    [
        *((LEVELS, each) for each in (tb.between("some", "much"), tb.at_least("much"), tb.at_most("none"))),
        *((LEVELS, each) for each in (tb.at_most("all"), tb.one_of("much", "some"), tb.between("all", "all"))),
        *(((1, 2, 4), each) for each in (tb.at_least(1.5), tb.between(2, 3.5), tb.at_most(3), tb.at_least("2"))),
    ],
)
def test_statements_leave_the_levels_open_that_they_leave_by_cuts(levels: Any, statement: Any) -> None:
    names = {2: "2"} if 2 in levels else {}
    by_cuts = tb.Ordinal(levels, names=names).encode(cells_of([statement]))
    by_utilities = tb.Categorical(levels, names=names, ordered=True).encode(cells_of([statement]))
    low, high = by_cuts.code.item(), by_cuts.code_high.item()
    open_ = np.arange(len(levels))
    expected = np.where((low <= open_) & (open_ <= high), 1, 0) if low >= 0 else np.full(len(levels), -1)
    np.testing.assert_array_equal(by_utilities.tier[0], expected)
    assert by_utilities.one_of.item() == (low < high)


def test_an_order_changes_nothing_that_a_value_says() -> None:
    cells = cells_of(["all", None, "none", ["some", "much"], tb.one_of("all", "none")])
    plain, ordered = (tb.Categorical(LEVELS, ordered=order).encode(cells) for order in (False, True))
    np.testing.assert_array_equal(plain.tier, ordered.tier)
    np.testing.assert_array_equal(plain.one_of, ordered.one_of)


def test_files_of_unordered_categories_are_as_they_were() -> None:
    assert tb.Categorical(["a", "b"]).to_dict() == {"kind": "categorical", "categories": ["a", "b"]}
    assert tb.Categorical(["a", "b"], ordered=True).to_dict()["ordered"] is True


BAD: list[tuple[Any, tuple[str, ...]]] = [
    (lambda: tb.Categorical(["a", "b"], ordered="yes"), ("ordered='yes'", "True or False")),  # type: ignore[arg-type]
    (
        lambda: tb.Categorical(ordered=True).fit(cells_of(["b", "a"])),
        ('column "q"', 'such as "a"', "ordered=True"),
    ),
    (
        lambda: tb.Categorical(["a", "b"]).encode(cells_of([tb.at_least("b")])),
        ("at_least(b)", "column of categories", "ordered=True"),
    ),
    (
        lambda: tb.Categorical(LEVELS, ordered=True).encode(cells_of([tb.between("much", "some")])),
        ("row 10", "contains none of none < some < much < all"),
    ),
    (
        lambda: tb.Categorical(LEVELS, ordered=True).encode(cells_of([tb.at_least("mch")])),
        ("row 10", 'category "mch"', 'did you mean "much"?'),
    ),
    (lambda: SCHEMA.read_ordinals("levels"), ("by='levels'", '"utilities" or "cuts"')),  # type: ignore[arg-type]
    (lambda: SCHEMA.read_ordinals("utilities", ["party"]), ('column "party"', "no ordered levels", "trust")),
    (lambda: SCHEMA.read_ordinals("cuts", "thrust"), ('column "thrust"', 'did you mean "trust"?')),
]


@pytest.mark.parametrize(("make", "parts"), BAD)
def test_what_has_no_order_is_explained(make: Any, parts: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    for part in parts:
        assert part in str(caught.value)


def test_texts_take_the_order_of_their_frame() -> None:
    cells = pd.DataFrame({"q": pd.Categorical(["some", "none"], LEVELS, ordered=True)})
    for native in (cells, pl.DataFrame({"q": ["some", "none"]}, schema={"q": pl.Enum(LEVELS)})):
        assert tb.Schema({"q": tb.Categorical(ordered=True)}).fit(native)["q"].labels == LEVELS


# ---- the schema


def test_a_schema_reads_its_ordinals_by_utilities_and_back() -> None:
    level = tb.Ordinal([1, 2, 3], names={1: "low", 3: "high"}, missing={9: "Refused"}, unseen="missing")
    schema = tb.Schema(
        {"trust": level, "age": tb.Continuous(), "party": tb.Categorical(PARTIES), "news": tb.Ordinal()},
        reasons={"trust": "the file says ordinal"},
        titles={"trust": "Do you trust them?"},
    )
    loose = schema.read_ordinals("utilities")
    assert loose["trust"] == tb.Categorical(
        [1, 2, 3], ordered=True, names={1: "low", 3: "high"}, missing={9: "Refused"}, unseen="missing"
    )
    assert loose["news"] == tb.Categorical(ordered=True)
    assert (loose["age"], loose["party"]) == (schema["age"], schema["party"])
    assert (loose.reasons, loose.titles) == (schema.reasons, schema.titles)
    assert loose.read_ordinals("utilities") == loose
    assert loose.read_ordinals("cuts") == schema
    assert "low < 2 < high" in str(loose)
    one = schema.read_ordinals("utilities", columns=["news"])
    assert [one[name].kind for name in one] == ["ordinal", "continuous", "categorical", "categorical"]
    assert schema.read_ordinals("utilities", "news") == one


@pytest.mark.parametrize("by", [None, "utilities", "cuts"])
def test_the_command_line_reads_them_so_too(by: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the option a schema's own reading stands."""
    schema = tb.Schema({"trust": tb.Ordinal(LEVELS), "news": tb.Categorical(LEVELS, ordered=True)})
    schema.to_toml(tmp_path / "s.toml")
    (tmp_path / "d.csv").write_text("trust,news\nnone,all\nsome,none\n")
    seen: list[Any] = []

    def stop(self: tb.TBM, X: Any) -> None:
        seen.append(self.schema)
        raise ThurboError("far enough")

    monkeypatch.setattr("thurbo.tbm.TBM.fit", stop)
    option = [] if by is None else ["--ordinals", by]
    files = [str(tmp_path / "d.csv"), "-s", str(tmp_path / "s.toml"), "-o", str(tmp_path / "m.thurbo")]
    with pytest.raises(SystemExit):
        cli.main(["fit", *files, "--quiet", *option])
    assert seen == [schema if by is None else schema.read_ordinals(by)]  # type: ignore[arg-type]


def test_files_hold_them_as_ordinal(tmp_path: Path) -> None:
    schema = tb.Schema({"q": tb.Categorical([1, 2, 3], names={1: "low", 3: "high"}, ordered=True)})
    again, found = tb.read(tb.write(pd.DataFrame({"q": [1.0, 3.0, 2.0]}), tmp_path / "q.sav", schema))
    assert Codebook.of(again).note("q").measure == "ordinal"
    assert found["q"].kind == "ordinal"
    assert found.read_ordinals("utilities")["q"] == schema["q"]


def test_reports_show_the_ends_of_their_bar(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = {each.name: each for each in read_answers(model.schema_, frame)}
    assert found["party"].description == "Blue < Green < Red"
    plain = {each.name: each for each in read_answers(SCHEMA, frame)}
    records = [question_record(each["party"], None, {}) for each in (found, plain)]
    assert records[0]["counts"] == records[1]["counts"]
    assert [("words" in record) for record in records] == [False, True]


# ---- questions


def test_probabilities_are_those_of_enumeration(model: tb.TBM, frame: pd.DataFrame) -> None:
    oracle, some = Oracle(), frame.head(8)
    chance = model.predict_proba(some, "party", method="exact")
    given = model.predict_proba(some, "trust", given={"party": tb.at_least("Green")}, method="exact")
    as_text = model.predict_proba(some, "trust", given=["party >= Green"], method="exact")
    np.testing.assert_array_equal(given, as_text)
    parties = np.stack([oracle.chance("party", label) for label in PARTIES], axis=1)
    levels = np.stack([oracle.chance("trust", label) for label in TRUST], axis=1)
    for row, cells in enumerate(some.to_dict("records")):
        said = {name: cell for name, cell in cells.items() if isinstance(cell, list) or not pd.isna(cell)}
        rest = {name: cell for name, cell in said.items() if name != "party"}
        np.testing.assert_allclose(chance[row], oracle.posterior(rest) @ parties, atol=2e-5)
        weight = oracle.posterior({name: cell for name, cell in rest.items() if name != "trust"})
        weight = weight * parties[:, 1:].sum(axis=1)
        np.testing.assert_allclose(given[row], weight @ levels / weight.sum(), atol=2e-5)


def test_statistics_and_intervals_go_by_the_order(model: tb.TBM, frame: pd.DataFrame) -> None:
    chance = model.predict_proba(frame, "party")
    below = np.cumsum(chance, axis=1)
    middle = np.asarray(PARTIES)[(below < 0.5).sum(axis=1)]
    assert model.predict(frame, "party")["party"].tolist() == np.asarray(PARTIES)[chance.argmax(axis=1)].tolist()
    assert model.predict(frame, "party", statistic="median")["party"].tolist() == middle.tolist()
    assert (middle != np.asarray(PARTIES)[chance.argmax(axis=1)]).any()
    low, high = (
        np.asarray([PARTIES.index(label) for label in side]) for side in model.predict_interval(frame, "party").T
    )
    held = np.where((low[:, None] <= np.arange(3)) & (np.arange(3) <= high[:, None]), chance, 0).sum(axis=1)
    assert (held >= 0.9 - 1e-6).all()
    assert (held < 1 - 1e-6).any()


def test_gaps_are_filled_in_the_frames_own_categories(model: tb.TBM, frame: pd.DataFrame) -> None:
    own = frame.assign(party=pd.Categorical(frame["party"], PARTIES, ordered=True))
    filled = model.impute(own, statistic="median")["party"]
    assert filled.dtype == own["party"].dtype
    gone = own["party"].isna()
    expected = model.predict(frame, "party", statistic="median")["party"]
    assert filled[gone].tolist() == expected[gone].tolist()
    assert model.predict(own, "party")["party"].dtype == own["party"].dtype
    cells = {name: column.tolist() for name, column in frame.dropna().items()}
    enum = pl.DataFrame(cells, schema_overrides={"party": pl.Enum(PARTIES)})
    assert model.predict(enum, "party")["party"].dtype == pl.Enum(PARTIES)


def test_evaluation_counts_errors_in_levels(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.evaluate(frame, hide=0.3, random_state=0, logistic=False)
    hidden = evaluate.choose(ORDERED, ORDERED.compile(frame), 0.3, np.random.RandomState(0))
    shown = frame.assign(**{name: frame[name].mask(where) for name, where in hidden.items()})
    records = {record["column"]: record for record in found.columns}
    for name, labels in (("party", PARTIES), ("trust", TRUST)):
        where, record = hidden[name], records[name]
        code = frame[name][where].map(labels.index).to_numpy()
        guess = model.predict(shown[where], name, statistic="median")[name].map(labels.index)
        assert record["mae"] == pytest.approx(np.abs(guess - code).mean())
        share = np.cumsum(shown[name].value_counts(normalize=True).reindex(labels).to_numpy())
        usual = np.abs((share < 0.5).sum() - code).mean()
        assert record["mae_marginal"] == pytest.approx(usual)
        assert record["smae"] == pytest.approx(record["mae"] / usual)
        assert record["smae_marginal"] == 1.0
    assert records["height"]["smae"] == pytest.approx(records["height"]["mae"] / records["height"]["mae_marginal"])
    assert records["member"]["mae"] is None
    assert records["member"]["smae"] is None
    header = next(line for line in str(found).splitlines() if "accuracy" in line)
    assert header.split()[-2:] == ["SMAE", "calibration"]
    plain = known_model().evaluate(frame.assign(trust=None), hide=0.3, logistic=False)
    assert "SMAE" not in str(plain)
