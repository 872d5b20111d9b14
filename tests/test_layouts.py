"""Questions in several columns of a raw file: options, one answer in exclusive columns, and what is beside them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thurbo as tb
from thurbo.errors import SchemaWarning
from thurbo.table.guess.layouts import questions
from thurbo.table.io.frames import as_table

HERE = Path(__file__).parent / "data" / "surveys"
N = 300
COLOURS = ("red", "green", "blue", "black")
AGES = ("Under 18", "18 to 34", "35 to 54", "55 and over")


def infer(table: Any) -> tb.Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        return tb.Schema.infer(table)


def one_of(rng: np.random.Generator, labels: tuple[str, ...], missing: float = 0.05) -> np.ndarray:
    found = np.asarray(labels, object)[rng.choice(len(labels), N, p=rng.dirichlet(4 * np.ones(len(labels))))]
    found[rng.random(N) < missing] = None
    return found


def any_of(rng: np.random.Generator, labels: tuple[str, ...]) -> dict[str, np.ndarray]:
    trait = rng.standard_normal(N)
    return {label: trait + rng.standard_normal(N) > rng.uniform(-0.5, 1) for label in labels}


STYLES: dict[str, Any] = {
    "its text or blank": (lambda label, name: label, None),
    "its name or blank": (lambda label, name: name, None),
    "its text or Not selected": (lambda label, name: label, "Not selected"),
    "Selected or not": (lambda label, name: "Selected", "Not selected"),
    "Checked or not": (lambda label, name: "Checked", "Unchecked"),
    "1 or blank": (lambda label, name: 1, None),
    "1 or 0": (lambda label, name: 1, 0),
    "Yes or No": (lambda label, name: "Yes", "No"),
    "true or false": (lambda label, name: True, False),
    "X or blank": (lambda label, name: "X", None),
}
NAMES: dict[str, Any] = {
    "dash": lambda question, label, place: f"{question} - {label}",
    "bracket": lambda question, label, place: f"{question} [{label}]",
    "redcap": lambda question, label, place: f"{question.split()[-1].strip('?').lower()}___{place}",
    "redcap labels": lambda question, label, place: f"{question} (choice={label})",
}


def spread(ticks: dict[str, np.ndarray], question: str, style: str, name: str, out: np.ndarray) -> dict[str, Any]:
    """Options in columns; rows in `out` were not asked."""
    yes, no = STYLES[style]
    found = {}
    for place, (label, chosen) in enumerate(ticks.items(), 1):
        column = NAMES[name](question, label, place)
        cells = np.where(chosen, np.asarray(yes(label, column), object), np.asarray(no, object))
        found[column] = np.where(out, None, cells)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("style", STYLES)
def test_one_answer_and_options_in_every_style(style: str, name: str) -> None:
    rng = np.random.default_rng(1)
    colour, out = one_of(rng, COLOURS), rng.random(N) < 0.1
    single = spread({label: colour == label for label in COLOURS}, "What is your favourite colour?", style, name, out)
    several = spread(any_of(rng, ("cat", "dog", "fish")), "Which pets do you own?", style, name, out)
    schema = infer({"city": one_of(rng, ("a", "b", "c")), **single, **several, "last": rng.standard_normal(N)})
    kinds = [(column.kind, column.source_columns(each) or (each,)) for each, column in schema.items()]
    assert kinds[1:3] == [("categorical", tuple(single)), ("multiselect", tuple(several))]
    assert len(kinds) == 4
    if name != "redcap":
        assert [column.labels for column in schema.values()][1:3] == [COLOURS, ("cat", "dog", "fish")]
    frame = {**single, **several}
    fitted = tb.Schema({each: column for each, column in schema.items() if column.source_columns(each)[1:]}).fit(frame)
    first = next(iter(fitted))
    cells = as_table(frame).answers(fitted, first)
    labels = dict(zip(COLOURS, fitted[first].labels, strict=True))
    expected = [None if row is None or gone else labels[row] for row, gone in zip(colour, out, strict=True)]
    assert [None if gone else each for each, gone in zip(cells.values, cells.missing, strict=True)] == expected


def test_a_flat_header_of_answers_alone_is_cut_into_questions() -> None:
    rng = np.random.default_rng(2)
    gender, age, colour = one_of(rng, ("Male", "Female")), one_of(rng, AGES[1:]), one_of(rng, COLOURS)
    pets = any_of(rng, ("cat", "dog", "fish", "None of these"))
    games = any_of(rng, ("chess", "go", "cards"))
    table: dict[str, Any] = {label: np.where(gender == label, label, None) for label in ("Male", "Female")}
    table |= {label: np.where(age == label, label, None) for label in AGES}
    table |= {label: np.where(chosen, label, None) for label, chosen in pets.items()}
    table["Other"] = [None, "a very old tortoise", "two hens", "bees"] * (N // 4)
    table |= {label: np.where(chosen, label, None) for label, chosen in games.items()}
    table |= {"Country": one_of(rng, ("a", "b", "c"))}
    table |= {label: np.where(colour == label, label, None) for label in COLOURS}
    schema = infer(table)
    found = {column.source_columns(name) or (name,): column for name, column in schema.items()}
    assert [(column.kind, *column.labels) for column in found.values()] == [
        ("binary", "Female", "Male"), ("banded", *AGES), ("multiselect", *pets), ("ignore",),
        ("multiselect", *games), ("categorical", "a", "b", "c"), ("categorical", *COLOURS),
    ]  # fmt: skip
    assert found[AGES].source_columns("") == AGES  # a band that nobody is in belongs to its question


def test_what_people_wrote_beside_an_option_is_kept_apart() -> None:
    rng = np.random.default_rng(3)
    pets = any_of(rng, ("cat", "dog", "fish"))
    table = {f"Which pets? [{label}]": np.where(chosen, "Yes", "No") for label, chosen in pets.items()}
    table["Which pets? [other]"] = [None, None, "a hen", "a newt", "bees"] * (N // 5)
    schema = infer(table)
    assert [column.kind for column in schema.values()] == ["multiselect", "ignore"]
    assert "beside an option" in schema.reasons["Which pets? [other]"]


def test_questions_with_the_answers_yes_and_no_stay_questions() -> None:
    rng = np.random.default_rng(4)
    items = any_of(rng, tuple(f"item {each}" for each in range(12)))
    for names, values in (("q{}", (0, 1)), ("Q{}", ("No", "Yes")), ("scale_{}", (0, 1))):
        table = {names.format(place): np.where(own, *values[::-1]) for place, own in enumerate(items.values(), 1)}
        assert {column.kind for column in infer(table).values()} == {"binary"}


def test_rows_with_two_marks_count_as_missing_where_they_are_few() -> None:
    rng = np.random.default_rng(5)
    colour = one_of(rng, COLOURS, 0)
    table = {f"Colour - {label}": np.where(colour == label, label, None) for label in COLOURS}
    table["Colour - red"][7] = "red"
    table["Colour - blue"][7] = "blue"
    schema = infer(table)
    assert schema["Colour"].unseen == "missing"
    assert "rows with two marks count as missing" in schema.reasons["Colour"]
    schema.fit(table).compile(table)


def test_options_that_are_rarely_chosen_together_are_options_where_the_question_says_so() -> None:
    rng = np.random.default_rng(6)
    colour = one_of(rng, COLOURS, 0)
    table = {f"Colour? Please check all that apply - {c}": np.where(colour == c, c, None) for c in COLOURS}
    assert [column.kind for column in infer(table).values()] == ["multiselect"]


def test_a_stem_of_several_parts_is_no_part_of_the_labels() -> None:
    rng = np.random.default_rng(8)
    levels, shows = ("Never", "Rarely", "Often", "Always"), ("Heat - part one", "Heat - part two", "Dune")
    often = {item: one_of(rng, levels, 0) for item in ("Bus", "Train")}
    table = {
        f"Travel: {item}: how often? - {c}": np.where(own == c, 1, 0) for item, own in often.items() for c in levels
    }
    table |= {f"Which did you see: {c}": np.where(own, c, None) for c, own in any_of(rng, shows).items()}
    schema = infer(table)
    assert [(column.kind, column.labels) for column in schema.values()] == [
        ("ordinal", levels), ("ordinal", levels), ("multiselect", shows),
    ]  # fmt: skip


def test_a_table_without_ordinary_columns_has_no_questions_of_several() -> None:
    assert questions([], lambda name: pytest.fail(name), {}, []).questions == []


def test_rows_in_which_no_option_says_not_selected_were_not_asked() -> None:
    rng = np.random.default_rng(9)
    colour, out = one_of(rng, COLOURS, 0), np.arange(N) >= 30
    table = {f"Colour - {c}": np.where(out, None, np.where(colour == c, c, "Not selected")) for c in COLOURS}
    assert [column.kind for column in infer(table).values()] == ["categorical"]


def test_everyone_of_a_survey_with_exclusive_columns_has_one_gender_age_and_income() -> None:
    frame, schema = tb.read(HERE / "region-midwest.csv")
    wanted = {"Gender": 2, "Age": 5, "Household Income": 5, "Education": 5}
    assert {name: len(schema[name].source_columns(name)) for name in wanted} == wanted
    model = tb.TBM(schema, n_hidden=4, n_factors=1, members=1, max_epochs=5, random_state=0, verbose=False).fit(frame)
    for table in (
        model.impute(frame),
        model.sample(500, random_state=0),
        *model.impute_draws(frame, 1, random_state=0),
    ):
        for name in wanted:
            marks = table[list(schema[name].source_columns(name))].notna().to_numpy().sum(axis=1)
            assert set(marks.tolist()) == {1}, name


# ---- header rows


def table_of(path: Path, rows: list[list[str]]) -> tuple[list[str], int, tb.Schema]:
    path.write_text("\n".join(",".join(f'"{cell}"' if cell else "" for cell in row) for row in rows) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        frame, schema = tb.read(path)
    return list(map(str, frame.columns)), len(frame), schema


def test_a_question_that_is_repeated_over_its_options_is_one_heading(tmp_path: Path) -> None:
    rng, body = np.random.default_rng(1), []
    for row in range(60):
        ticks = [each if rng.random() < 0.5 else "" for each in ("Radio", "TV", "Paper")]
        body.append([str(1000 + row), *ticks, ["good", "bad"][row % 2]])
    head = [["Id", "Which media?", "Which media?", "Which media?", "Rating"], ["", "Radio", "TV", "Paper", "Response"]]
    names, n_rows, schema = table_of(tmp_path / "t.csv", [*head, *body])
    assert (names, n_rows) == (["Id", "Radio", "TV", "Paper", "Rating"], 60)
    assert schema["Which media?"].labels == ("Radio", "TV", "Paper")


def test_a_row_that_says_response_below_some_names_is_a_header(tmp_path: Path) -> None:
    meta = ["Respondent ID", "Collector ID", "Start Date", "End Date", "IP Address", "Custom Data 1"]
    body = [
        [str(10 + row), "77", "01/02/2023", "01/02/2023", "10.0.0.1", "", ["Yes", "No"][row % 2], str(row)]
        for row in range(30)
    ]
    rows = [[*meta, "Do you smoke?", "How old are you?"], [""] * 6 + ["Response", "Open-Ended Response"], *body]
    names, n_rows, schema = table_of(tmp_path / "t.csv", rows)
    assert (names[-2:], n_rows) == (["Do you smoke?", "How old are you?"], 30)
    assert schema["Do you smoke?"].kind == "binary"
    assert {schema[name].kind for name in meta[1:]} == {"ignore"}


def test_texts_below_codes_are_titles_with_metadata_beside_them(tmp_path: Path) -> None:
    body = [
        [f"R_{row}", "2023-01-02", "0", str(20 + row % 50), ["Never", "Often"][row % 2], ["Tea", ""][row % 2]]
        for row in range(40)
    ]
    codes = ["V1", "V8", "V10", "Q1", "Q2", "Q3_1"]
    texts = [
        "ResponseID",
        "StartDate",
        "Finished",
        "How old are you today?",
        "How often do you exercise?",
        "Drinks you like - Tea",
    ]
    names, n_rows, schema = table_of(tmp_path / "t.csv", [codes, texts, *body])
    assert (names, n_rows) == (codes, 40)
    assert schema.titles["Q1"] == "How old are you today?"


def test_answers_below_names_are_no_header(tmp_path: Path) -> None:
    body = [
        ["a long sentence here", "another long sentence", "12", "x"],
        ["one more of these", "yet another of these", "13", "y"],
    ]
    names, n_rows, _ = table_of(tmp_path / "t.csv", [["q1", "q2", "q3", "q4"], *body * 20])
    assert (names, n_rows) == (["q1", "q2", "q3", "q4"], 40)


def test_columns_of_a_tool_are_no_answers_where_several_of_them_are_there() -> None:
    rng = np.random.default_rng(2)
    table: dict[str, Any] = {"lastpage": rng.integers(1, 5, N), "startlanguage": one_of(rng, ("en", "de"), 0)}
    table |= {"seed": rng.integers(1, 9, N), "ending": one_of(rng, ("good", "bad"), 0)}
    kinds = {name: column.kind for name, column in infer(table).items()}
    assert kinds == {"lastpage": "ignore", "startlanguage": "ignore", "seed": "ignore", "ending": "binary"}
    assert infer({"status": one_of(rng, ("single", "married", "divorced"))})["status"].kind == "categorical"
    assert infer({"seed": rng.integers(1, 9, N)})["seed"].kind == "ordinal"


# ---- ranks


def test_ranks_are_found_by_titles_and_by_names_of_places() -> None:
    rng = np.random.default_rng(3)
    items = ("Safety", "Comfort", "Speed", "Design")
    order = np.stack([rng.permutation(4) for _ in range(N)])
    places = {f"Rank these [Rank {place + 1}]": [items[each] for each in order[:, place]] for place in range(4)}
    (column,) = infer(places).values()
    assert (column.kind, sorted(column.labels)) == ("ranking", sorted(items))
    ranks = {f"child{number}_age": rng.integers(0, 18, N) for number in range(1, 5)}  # a block that is repeated
    assert {column.kind for column in infer(ranks).values()} <= {"continuous", "ordinal"}


# ---- tools that the generator does not have


def test_questions_after_their_options_and_columns_of_another_tool() -> None:
    rng = np.random.default_rng(10)
    ask, agree = "Where do you get your news? (Check all that apply)", "How much do you agree with each statement?"
    table: dict[str, Any] = {
        "Response ID": np.arange(12, 12 + N), "Time Started": ["2025-03-01 08:00:01"] * N,
        "Status": ["Complete", "Partial"] * (N // 2),
        "User Agent": ["Mozilla/5.0 (Windows)", "Mozilla/5.0 (iPhone)"] * (N // 2),
        "Longitude": rng.normal(-80, 9, N),
        "City": one_of(rng, ("Austin", "Dallas", "Denver")), "Contact ID": [None] * N,
    }  # fmt: skip
    metadata = list(table)
    table |= {f"{c}:{ask}": np.where(own, c, None) for c, own in any_of(rng, ("Newspaper", "Radio", "Online")).items()}
    table[f"Other - Write In:{ask}"] = [None] * (N - 3) + ["a friend", "my aunt", "posters"]
    table |= {
        f"{item}:{agree}": one_of(rng, ("Disagree", "Neutral", "Agree")) for item in ("Prices are fair", "It is clean")
    }
    ranks = np.array([rng.permutation(3) + 1 for _ in range(N)])
    table |= {f"{item}:Please rank these": ranks[:, at] for at, item in enumerate(("Price", "Range", "Staff"))}
    schema = infer(table)
    assert {schema[name].role for name in metadata} <= {"id", "ignored"}
    assert (schema[ask].kind, schema[ask].labels) == ("multiselect", ("Newspaper", "Radio", "Online"))
    assert schema[f"Other - Write In:{ask}"].role == "ignored"
    assert schema["Please rank these"].kind == "ranking"
    assert schema["Please rank these"].source_columns("") == tuple(
        f"{item}:Please rank these" for item in ("Price", "Range", "Staff")
    )
    assert schema[f"Prices are fair:{agree}"].labels == ("Disagree", "Neutral", "Agree")
    assert schema.display_names[f"Prices are fair:{agree}"] == "Prices are fair"


def test_options_after_a_slash_and_the_list_beside_them() -> None:
    rng, question = np.random.default_rng(11), "Which devices do you own?"
    ticks = any_of(rng, ("Laptop", "Tablet", "Phone"))
    lists = [" ".join(label for label, own in ticks.items() if own[row]) or None for row in range(N)]
    safe = {
        f"How safe do you feel >> {place}": one_of(rng, ("Unsafe", "Safe", "Very safe")) for place in ("Here", "There")
    }
    table = {question: lists, **{f"{question}/{label}": own.astype(int) for label, own in ticks.items()}, **safe}
    schema = infer(table)
    assert schema[question].role == "ignored"
    assert "once more" in schema.reasons[question]
    several = schema[f"{question} (2)"]
    assert (several.kind, several.labels) == ("multiselect", ("Laptop", "Tablet", "Phone"))
    assert [schema.display_names[name] for name in safe] == ["Here", "There"]
    other = infer({**table, question: one_of(rng, ("a b", "c"), 0.2)})
    assert other[question].role == "answer"
