"""Questions that are asked only after certain answers: found in simulated and real surveys, and only where they are.

Simulations count how often the rule finds skip logic that is there, and how often it finds some where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thurbo as tb
from thurbo.app import report
from thurbo.app.cli import main
from thurbo.app.report.wording import missing_words
from thurbo.table.io import frames
from thurbo.table.io.frames import as_table
from thurbo.table.schema.routing import not_applicable, when

N_COLUMNS = 8
Simulation = Callable[[np.random.Generator], dict[str, np.ndarray]]


def _answers(rng: np.random.Generator, n_rows: int) -> dict[str, np.ndarray]:
    """Questions with two to five labels that share one trait."""
    trait, columns = rng.standard_normal(n_rows), {}
    for number in range(N_COLUMNS):
        n_labels = int(rng.integers(2, 6))
        x = 0.8 * trait + rng.standard_normal(n_rows)
        code = np.searchsorted(np.quantile(x, np.linspace(0, 1, n_labels + 1)[1:-1]), x)
        columns[f"q{number}"] = np.asarray([f"label {each}" for each in code], object)
    return columns


def _missing(cells: np.ndarray, gone: np.ndarray) -> None:
    cells[gone] = None


def with_skip(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], tb.Skip]:
    """q3, q4 and q5 are asked only after some answers to q1; a few answer anyway, and cells are missing at random."""
    n_rows = int(rng.integers(250, 1500))
    table = _answers(rng, n_rows)
    labels = sorted(set(table["q1"]))
    out = rng.choice(labels, int(rng.integers(1, len(labels))), replace=False)
    skipped = np.isin(table["q1"], out)
    for name in ("q3", "q4", "q5"):
        _missing(table[name], skipped & (rng.random(n_rows) > rng.uniform(0, 0.04)))
    for name in table:
        _missing(table[name], rng.random(n_rows) < rng.uniform(0, 0.2))
    values = [label for label in labels if label not in out]
    return table, tb.Skip(("q3", "q4", "q5"), "q1", values)


def at_random(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Each cell is missing completely at random, some questions nearly always."""
    table = _answers(rng, int(rng.integers(60, 1500)))
    for cells in table.values():
        _missing(cells, rng.random(len(cells)) < rng.choice([0.02, 0.2, 0.5, 0.8, 0.95]))
    return table


def by_dropping_out(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """People stop at some question, and blocks are missing together at random."""
    n_rows = int(rng.integers(60, 1500))
    table = _answers(rng, n_rows)
    stop = np.where(rng.random(n_rows) < 0.4, rng.integers(1, N_COLUMNS, n_rows), N_COLUMNS)
    block = rng.random(n_rows) < rng.uniform(0.1, 0.6)
    for place, (name, cells) in enumerate(table.items()):
        _missing(cells, (place >= stop) | (block & (name in ("q4", "q5", "q6"))))
    return table


def by_weak_dependence(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The log-odds that an answer is missing change by up to 1.5 over the labels of another question."""
    n_rows = int(rng.integers(60, 1500))
    table = _answers(rng, n_rows)
    whole = {name: cells.copy() for name, cells in table.items()}
    for name, cells in table.items():
        codes = np.unique(whole[f"q{rng.integers(N_COLUMNS)}"], return_inverse=True)[1]
        log_odds = rng.uniform(-3, 0) + rng.uniform(-1.5, 1.5) * codes / codes.max()
        if name != "q0":
            _missing(cells, rng.random(n_rows) < 1 / (1 + np.exp(-log_odds)))
    return table


WITHOUT = [at_random, by_dropping_out, by_weak_dependence]


def _schema(table: dict[str, np.ndarray]) -> tb.Schema:
    labels = {name: sorted({each for each in cells if each is not None}) for name, cells in table.items()}
    few = {name: each for name, each in labels.items() if len(each) > 1}
    return tb.Schema({name: tb.Categorical(each) for name, each in few.items()}).fit({k: table[k] for k in few})


def _times_found(n: int, first: int = 0) -> int:
    """Simulations in which exactly the simulated skip is found, and nothing else."""
    found = 0
    for seed in range(first, first + n):
        table, skip = with_skip(np.random.default_rng(seed))
        found += _schema(table).skips == (skip,)
    return found


def _times_nothing(simulate: Simulation, n: int) -> int:
    return sum(_schema(simulate(np.random.default_rng(seed))).skips == () for seed in range(n))


def test_simulated_skip_logic_is_found() -> None:
    assert _times_found(10) >= 9


@pytest.mark.parametrize("simulate", WITHOUT)
def test_nothing_is_found_without_skip_logic(simulate: Simulation) -> None:
    assert _times_nothing(simulate, 8) >= 7


@pytest.mark.slow
def test_skip_logic_is_found_in_95_of_100_simulations() -> None:
    assert _times_found(100, 1000) >= 95


@pytest.mark.slow
@pytest.mark.parametrize("simulate", WITHOUT)
def test_nothing_is_found_in_95_of_100_without(simulate: Simulation) -> None:
    assert _times_nothing(simulate, 100) >= 95


YES_NO = tb.Binary(values=("No", "Yes"))
SEEN, FAN, KNOWS, FAN_MORE = "seen_any", "fan", "knows_expanded_universe", "fan_expanded_universe"


@pytest.mark.parametrize("everything", [False, True])
def test_the_routing_of_the_bundled_survey_is_found(everything: bool) -> None:
    frame, schema = tb.datasets.load_starwars(everything=everything)
    plain = tb.Schema(dict(schema))
    assert plain.skips == ()  # not looked for
    assert plain.fit(frame).skips == schema.skips  # found as it is declared
    block, more = schema.skips
    asked_of_all = {"respondent", SEEN, "fan_star_trek", "gender", "age", "income", "education", "region"}
    outside = {name for name, column in schema.items() if not column.sites}
    assert set(block.columns) == set(schema) - asked_of_all - outside - {FAN_MORE}
    assert (block.asked_if, block.values) == (SEEN, ("Yes",))
    assert more == tb.Skip((FAN_MORE,), KNOWS, ("Yes",))
    assert more.condition == "asked only if knows_expanded_universe = Yes"


def test_the_routing_of_the_raw_file_is_found_and_shown() -> None:
    path = Path(tb.datasets.__file__).parent / "starwars.csv"
    _, schema = tb.read(path)
    gate = "Have you seen any of the 6 films in the Star Wars franchise?"
    block, more = schema.skips
    assert (block.asked_if, block.values, len(block.columns)) == (gate, ("Yes",), 19)
    assert more.asked_if == "Are you familiar with the Expanded Universe?"
    assert f"asked only if {gate} = Yes" in str(schema)
    assert f"asked only if {gate} = Yes" in schema._repr_html_()


def test_skips_are_written_and_read_again(tmp_path: Path) -> None:
    columns = {"a": YES_NO, "b": tb.Ordinal([1, 2, 3]), "c": tb.Continuous()}
    declared = [tb.Skip(["b"], "a", ["Yes"]), tb.Skip(["c"], "b", [2, 3])]
    for skips in (declared, [], None):
        schema = tb.Schema(columns, skips=skips)
        schema.to_toml(tmp_path / "schema.toml")
        again = tb.Schema.from_toml(tmp_path / "schema.toml")
        assert again == schema
        assert again.to_dict() == schema.to_dict()
        assert ("skips" in again.to_dict()) == (skips is not None)


def test_skips_are_read_from_a_file_by_hand(tmp_path: Path) -> None:
    text = """
    [[skips]]
    columns = ["b"]
    asked_if = "a"
    values = "Yes"
    [columns.a]
    kind = "binary"
    [columns.b]
    kind = "continuous"
    """
    (tmp_path / "schema.toml").write_text(text)
    assert tb.Schema.from_toml(tmp_path / "schema.toml").skips == (tb.Skip(("b",), "a", ("Yes",)),)
    (tmp_path / "schema.toml").write_text(text.replace("asked_if", "only_if"))
    with pytest.raises(tb.SchemaError, match=r"does not have columns, asked_if, values; write \[\[skips\]\]"):
        tb.Schema.from_toml(tmp_path / "schema.toml")


@pytest.mark.parametrize(
    ("skips", "message"),
    [
        ([("b", "a", "Yes")], "not a list of Skip"),
        ([tb.Skip(["d"], "a", ["Yes"])], 'column "d": a skip names it, but the schema has no such column'),
        ([tb.Skip(["b"], "A", ["Yes"])], 'column "A".*did you mean "a"'),
        ([tb.Skip(["b"], "a", ["yes"])], 'column "a": a skip has "yes", which is no answer; did you mean "Yes"'),
        ([tb.Skip(["b"], "c", [1])], 'column "c": Continuous cannot decide which questions are asked'),
        ([tb.Skip(["b"], "a", ["Yes"]), tb.Skip(["a"], "b", [1])], "in a circle: .* decides"),
    ],
)
def test_a_wrong_skip_is_refused(skips: list[tb.Skip], message: str) -> None:
    with pytest.raises(tb.SchemaError, match=message):
        tb.Schema({"a": YES_NO, "b": tb.Ordinal([1, 2, 3]), "c": tb.Continuous()}, skips=skips)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], "a", ["Yes"]), "columns=\\[\\]"),
        ((["b"], "a", []), "values=\\[\\]"),
        ((["b"], 3, [1]), "names the column 3"),
        ((["a"], "a", ["Yes"]), "depending on its own answer"),
    ],
)
def test_an_impossible_skip_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(tb.SchemaError, match=message):
        tb.Skip(*arguments)


def test_skips_follow_changes_of_columns() -> None:
    columns = {"a": YES_NO, "b": YES_NO, "c": YES_NO}
    schema = tb.Schema(columns, skips=[tb.Skip(["b", "c"], "a", ["Yes"])])
    assert (schema | {"c": tb.Ignore()}).skips == schema.skips
    assert (schema | {"a": tb.Continuous()}).skips == ()  # a number cannot decide
    assert (schema | {"a": tb.Ignore()}).skips == schema.skips  # known, though not modelled
    assert schema.with_skips([]).skips == ()
    assert schema.declare_missing([-9]).skips == schema.skips


def test_routing_by_codes_names_and_unknown_answers() -> None:
    gate = tb.Binary(values=(2, 1), names={1: "Yes", 2: "No"}, missing={9: "Refused"})
    schema = tb.Schema({"gate": gate, "b": tb.Continuous()}, skips=[tb.Skip(["b"], "gate", ["Yes"])])
    assert schema.skips[0].values == (1,)
    table = as_table({"gate": [1, 2, 9, None, 2], "b": [None, None, None, None, 3.0]})
    assert not_applicable(schema, schema.skips, table)["b"].tolist() == [False, True, False, False, False]


def test_a_question_behind_two_gates_is_not_asked_if_the_first_says_so() -> None:
    schema = tb.Schema(
        {"a": YES_NO, "b": YES_NO, "c": YES_NO}, skips=[tb.Skip(["c"], "b", ["Yes"]), tb.Skip(["b"], "a", ["Yes"])]
    )
    table = as_table({"a": ["No", "Yes", "Yes", "Yes", None], "b": [None, "No", "Yes", None, None], "c": [None] * 5})
    found = not_applicable(schema, schema.skips, table)
    assert found["b"].tolist() == [True, False, False, False, False]
    assert found["c"].tolist() == [True, True, False, False, False]


@pytest.fixture(scope="module")
def survey() -> Any:
    """Rows of the bundled survey with the questions whose routing matters, and some gates that are not known."""
    frame, _ = tb.datasets.load_starwars(everything=True)
    wanted = ["seen_any", "fan", *[name for name in frame if name.startswith(("seen: ", "rank: "))]]
    frame = frame[[*wanted, "Han Solo", KNOWS, FAN_MORE, "gender"]].iloc[:200].copy()
    frame.loc[frame.index[:10], SEEN] = None
    return frame


@pytest.fixture(scope="module")
def model(survey: Any) -> tb.TBM:
    _, schema = tb.datasets.load_starwars(everything=True)
    wanted = ["seen_any", "fan", "seen", "films", "Han Solo", KNOWS, FAN_MORE, "gender"]
    columns = {name: schema[name] for name in wanted}
    return tb.TBM(columns, n_hidden=2, n_factors=0, max_epochs=2, random_state=0, verbose=False).fit(survey)


BLOCK = ("fan", "seen", "films", "Han Solo", KNOWS)


def _cells(model: tb.TBM, names: tuple[str, ...]) -> list[str]:
    return [source for name in names for source in model.schema_.source_columns[name]]


def _follows_the_routing(model: tb.TBM, table: Any, before: Any = None) -> None:
    """Who saw no film has no answer that is new, and who saw one has all; the same for the second gate."""
    for gate, names in ((SEEN, BLOCK), (KNOWS, (FAN_MORE,))):
        cells = table[_cells(model, names)]
        new = cells.notna() if before is None else cells.notna() & before[cells.columns].isna()
        assert not new[(table[gate] == "No") | table[gate].isna()].any(axis=None)
        assert cells[table[gate] == "Yes"].notna().all(axis=None)


def test_who_saw_no_film_is_not_imputed_as_having_seen_one(model: tb.TBM, survey: Any) -> None:
    assert [skip.asked_if for skip in model.schema_.skips] == [SEEN, KNOWS]
    known = survey.iloc[10:]
    full = model.impute(known)
    saw_none = known[SEEN] == "No"
    assert saw_none.sum() > 20
    assert full.loc[saw_none, _cells(model, (*BLOCK, FAN_MORE))].isna().all(axis=None)
    assert full["gender"].notna().all()  # asked of everyone
    _follows_the_routing(model, full)


@pytest.mark.slow
def test_what_does_not_apply_is_imputed_if_asked_for(model: tb.TBM, survey: Any) -> None:
    for kind in ("not applicable", "Not Applicable", "all"):
        full = model.impute(survey, fill=kind)
        assert full.notna().all(axis=None)
    assert model.impute_draws(survey, 1, random_state=0, fill="not applicable")[0].notna().all(axis=None)
    plain = tb.TBM({"a": tb.Continuous()}, n_hidden=1, max_epochs=0, verbose=False).fit({"a": [1.0, 2.0, None]})
    with pytest.raises(tb.ThurboError, match='fill="not applicable" is not a kind of missing answer'):
        plain.impute({"a": [None]}, fill="not applicable")


def test_a_gate_that_is_not_known_is_imputed_and_then_decides(model: tb.TBM, survey: Any) -> None:
    full = model.impute(survey)
    assert full[SEEN].notna().all()
    _follows_the_routing(model, full, survey)
    led = survey[SEEN].isna() & survey[_cells(model, BLOCK)].notna().any(axis=1)
    assert led.any()
    assert (full.loc[led, SEEN] == "Yes").all()  # they have answered what only "Yes" leads to


@pytest.mark.parametrize("method", ["exact", pytest.param("gibbs", marks=pytest.mark.slow), "sequential"])
def test_draws_follow_the_routing(model: tb.TBM, survey: Any, method: str) -> None:
    empty = survey.copy()
    empty.loc[empty.index[:40], :] = None
    for full in model.impute_draws(empty, 2, random_state=1, method=method):
        _follows_the_routing(model, full, empty)
        assert set(full[SEEN].iloc[:40]) == {"No", "Yes"}


def test_flags_mark_what_was_imputed_and_nothing_else(model: tb.TBM, survey: Any) -> None:
    full = model.impute(survey, flag=True)
    for name in ("fan", SEEN):
        filled = survey[name].isna() & full[name].notna()
        assert full[f"{name}_imputed"].tolist() == filled.tolist()
        assert full[f"{name}_probability"].notna().tolist() == filled.tolist()


@pytest.mark.parametrize("method", [pytest.param("gibbs", marks=pytest.mark.slow), "sequential"])
def test_samples_leave_empty_what_is_not_asked(model: tb.TBM, method: Any) -> None:
    rows = model.sample(120, method=method, random_state=0)
    assert set(rows[SEEN]) == {"No", "Yes"}
    _follows_the_routing(model, rows)
    fans = model.sample(20, given="fan = Yes", method=method, random_state=0)
    assert set(fans["fan"]) == {"Yes"}
    assert set(fans[SEEN]) == {"Yes"}  # only they are asked


def test_the_hypothetical_answer_is_still_predicted(model: tb.TBM, survey: Any) -> None:
    saw_none = survey[survey[SEEN] == "No"]
    assert model.predict(saw_none, ["fan", "Han Solo"]).notna().all(axis=None)
    assert np.isfinite(model.predict_proba(saw_none, "fan")).all()


def test_a_model_file_keeps_skips(model: tb.TBM, tmp_path: Path) -> None:
    model.save(tmp_path / "m.thurbo")
    assert tb.TBM.load(tmp_path / "m.thurbo").schema_.skips == model.schema_.skips


def test_an_empty_cell_of_a_sample_is_null_in_polars() -> None:
    cells = {"a": np.asarray([1.0, np.nan]), "b": np.asarray([True, None], object)}
    made = frames.frame("polars", cells)
    assert made["a"].to_list() == [1.0, None]
    assert made["b"].to_list() == [True, None]


@pytest.mark.usefixtures("few_segments")
def test_the_report_keeps_apart_what_was_not_asked(model: tb.TBM, survey: Any) -> None:
    found = report.summary(model, survey, colour_by=["fan", "gender"])
    fan = next(each for each in found["data"]["columns"] if each["name"] == "fan")
    not_asked = float((survey["fan"].isna() & (survey[SEEN] == "No")).mean())
    assert fan["share_not_applicable"] == pytest.approx(not_asked)
    assert fan["share_missing"] == pytest.approx(survey["fan"].isna().mean() - not_asked)
    assert found["data"]["missing"]["fan"]["not applicable"] == pytest.approx(not_asked)
    assert found["data"]["share_missing"] < found["data"]["share_not_applicable"]
    n_not_asked = int((survey["fan"].isna() & (survey[SEEN] == "No")).sum())
    assert [each["n_not_asked"] for each in found["map"]["colourings"]] == [n_not_asked, 0]
    page = report.render(found)
    assert f"not asked <small>{n_not_asked}</small>" in page
    assert "were not asked" in page
    assert "asked only if “seen any” is Yes" in page


def test_shares_of_missing_cells_in_words() -> None:
    assert missing_words({"no answer": 0.08, "not applicable": 0.21}).replace("\xa0", " ") == "8 %, 21 % not applicable"
    assert (
        missing_words({"no answer": 0.04, "refused": 0.08}).replace("\xa0", " ") == "12 % (8 % refused, 4 % no answer)"
    )


def _run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as done:
        main(list(arguments))
    assert done.value.code == 0


def test_the_command_line_leaves_empty_what_was_not_asked(model: tb.TBM, survey: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m.thurbo")
    tb.write(survey.iloc[10:], tmp_path / "survey.csv")
    paths = [str(tmp_path / name) for name in ("m.thurbo", "survey.csv")]
    for options, n_empty in (([], 1), (["--fill", "not applicable"], 0)):
        _run("impute", *paths, "-o", str(tmp_path / "full.csv"), *options)
        full, _ = tb.read(tmp_path / "full.csv")
        assert bool(full.loc[full[SEEN] == "No", "fan"].isna().any()) == bool(n_empty)


def test_check_names_the_blocks(survey: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tb.write(survey, tmp_path / "survey.csv")
    _run("check", str(tmp_path / "survey.csv"))
    assert "asked only if seen any is Yes" in capsys.readouterr().out


def _jobs(code: Any, n: int = 300) -> dict[str, list[Any]]:
    """People without a job have a code, or nothing, in the questions about it; some of the others say "Refused"."""
    rng = np.random.default_rng(7)
    works = rng.random(n) < 0.6
    table: dict[str, list[Any]] = {"work": np.where(works, "Yes", "No").tolist()}
    for name, levels in (("pay", ["low", "middle", "high"]), ("boss", ["Poor", "Fair", "Good"])):
        cells = rng.choice(np.asarray([*levels, "Refused"], object), n, p=[0.3, 0.3, 0.3, 0.1])
        table[name] = np.where(works, cells, code).tolist()
    return table


@pytest.mark.parametrize("code", [None, "Inapplicable", "-1", "(Legitimate) skip"])
def test_a_code_that_says_not_asked_is_as_good_as_an_empty_cell(code: Any) -> None:
    assert tb.Schema.infer(_jobs(code)).skips == (tb.Skip(["pay", "boss"], "work", ["Yes"]),)


@pytest.mark.parametrize("code", ["Refused", "Don't know", "I don't have a job"])
def test_who_answers_with_a_refusal_was_asked(code: str) -> None:
    assert tb.Schema.infer(_jobs(code)).skips == ()


def test_skips_that_were_found_are_found_again_after_a_correction() -> None:
    table = _jobs("7")
    schema = tb.Schema.infer(table)
    assert schema.skips == ()  # "7" is an answer
    corrected = schema | {name: tb.Categorical(missing=["7", "Refused"]) for name in ("pay", "boss")}
    assert corrected.fit(table).skips == (tb.Skip(["pay", "boss"], "work", ["Yes"]),)
    assert schema.with_missing(["pay", "boss"], ["7"]).fit(table).skips == corrected.fit(table).skips
    assert corrected.with_skips([]).fit(table).skips == ()  # what was declared stays
    assert (corrected.with_skips([]) | {"boss": tb.Ignore("no")}).fit(table).skips == ()
    found = schema.fit(table)
    assert found.fit({name: cells[:50] for name, cells in table.items()}).skips == found.skips


# ---- an option that decides


def _brands(seed: int = 3, n: int = 400, in_columns: bool = True) -> dict[str, Any]:
    """Each brand that somebody knows is rated; who knows none says so, all others are asked where they heard of it."""
    rng, brands = np.random.default_rng(seed), ("Alfa", "Beta", "Gamma")
    knows = rng.random((n, 3)) < [0.6, 0.3, 0.15]
    names, marks = [*brands, "None of these"], np.column_stack([knows, ~knows.any(axis=1)])
    table: dict[str, Any] = {f"Which do you know? - {name}": marks[:, at].tolist() for at, name in enumerate(names)}
    table = {key: [key.split(" - ")[1] if own else "Not selected" for own in cells] for key, cells in table.items()}
    if not in_columns:
        table = {"knows": ["; ".join(np.asarray(names)[own]) for own in marks]}
    for at, brand in enumerate(brands):
        cells = rng.choice(["poor", "fair", "good"], n).astype(object)
        table[f"rates {brand}"] = np.where(knows[:, at] & (rng.random(n) > 0.05), cells, None).tolist()
    cells = rng.choice(["shop", "advertisement"], n).astype(object)
    table["heard"] = np.where(knows.any(axis=1) & (rng.random(n) > 0.05), cells, None).tolist()
    return table


@pytest.mark.parametrize("in_columns", [True, False])
def test_an_option_decides_what_is_asked(in_columns: bool) -> None:
    table, gate = _brands(in_columns=in_columns), "Which do you know?" if in_columns else "knows"
    schema = tb.Schema.infer(table).fit(table)
    wanted = [(f"rates {brand}", {brand}) for brand in ("Alfa", "Beta", "Gamma")]
    wanted.append(("heard", {"Alfa", "Beta", "Gamma"}))
    assert [(*each.columns, each.asked_if, set(each.values)) for each in schema.skips] == [
        (name, gate, values) for name, values in wanted
    ]
    assert [when(schema, skip) for skip in schema.skips[1:]] == [
        "names Beta",
        "names Gamma",
        "names more than None of these",
    ]
    out = not_applicable(schema, schema.skips, as_table(table))
    assert not out["rates Beta"][[place for place, rating in enumerate(table["rates Beta"]) if rating]].any()
    model = tb.TBM(schema, n_hidden=2, n_factors=0, members=1, max_epochs=4, random_state=0, verbose=False).fit(table)
    for filled in (model.impute(table), model.sample(200, random_state=0), *model.impute_draws(table, 1)):
        code = schema.compile({name: filled[name] for name in table})[gate].code
        for name, values in wanted:
            asked = (code[:, [schema[gate].labels.index(value) for value in values]] == 1).any(axis=1)
            assert [cell is not None and cell == cell for cell in filled[name]] == asked.tolist()


def test_an_option_that_is_not_known_decides_nothing() -> None:
    gate = tb.MultiSelect(columns={"a": "a", "b": "b"}, values=((0, 1), (0, 1)), blank="unasked")
    skips = [tb.Skip(["b1"], "g", ["b"])]
    schema = tb.Schema({"g": gate, "b1": tb.Ordinal([1, 2, 3])}, skips=skips)
    table = as_table({"a": [1, 1, 0, None], "b": [1, 0, None, None], "b1": [None] * 4})
    assert not_applicable(schema, schema.skips, table)["b1"].tolist() == [False, True, False, False]
    assert tb.Schema.from_dict(schema.to_dict()) == schema
    with pytest.raises(tb.SchemaError, match='a skip has "c", which is no answer'):
        tb.Schema({"g": gate, "b1": YES_NO}, skips=[tb.Skip(["b1"], "g", ["c"])])
