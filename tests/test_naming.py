"""Names of questions that people can read: different, at most 40 characters, without the stem of a grid."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import thurbo as tb
from thurbo.table.columns.statements import parse_given
from thurbo.table.schema.naming import MOST, both_ends, clipped, display_names, fitted, from_level, full_text, grids

SURVEYS = sorted((Path(__file__).parent / "data" / "surveys").glob("*.csv"))
OFTEN, FEEL = "How often do you: ", "How comfortable do you feel when you: "
ITEMS = (
    "Pray in public with visible motions (sign of the cross, bowing, prostration, shokeling, etc)",
    "Pray in public using some kind of physical object (rosary, tefillin, etc)",
    "Bring up your religion, unprompted, in conversation",
)


@pytest.mark.parametrize("path", SURVEYS, ids=lambda path: path.stem)
def test_names_of_real_surveys_differ_and_are_short(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, schema = tb.read(path)
    found = schema.display_names
    assert list(found) == list(schema)
    assert len({text.casefold() for text in found.values()}) == len(schema)
    for name, text in found.items():
        assert 0 < len(text) <= MOST
        if len(name) <= MOST and name not in schema.titles:  # a short name stays as it is in the file
            assert text.replace("_", " ") == " ".join(name.replace("_", " ").split()) or len(name.split()) > 1
        asked = f"{name} {schema.titles.get(name, '')} 2".casefold()  # nothing is made up
        assert {word.strip("…?().,:").casefold() for word in text.split()} <= {
            word.strip("…?().,:") for word in asked.split()
        } | {""}


def test_the_item_of_a_grid_is_its_name() -> None:
    found = display_names([OFTEN + item for item in ITEMS], {})
    assert list(found.values()) == [
        "Pray in public with visible motions",
        "Pray in public using some kind…",
        "Bring up your religion in conversation",
    ]
    # Exports with codes as names have the questions as titles; others put the item in front, or into brackets.
    titles = {
        f"q{k}": f"Q{k}. How satisfied are you with the following? - {who}" for k, who in enumerate(("rent", "pay"))
    }
    assert display_names(list(titles), titles) == {"q0": "Rent", "q1": "Pay"}
    brackets = ["Please rate each of these [Speed]", "Please rate each of these [Price]"]
    assert list(display_names(brackets, {}).values()) == ["Speed", "Price"]
    tails = [f"{item} - How much do you agree or disagree with it?" for item in ("Rent", "Pay")]
    assert list(display_names(tails, {}).values()) == ["Rent", "Pay"]
    shared = dict.fromkeys(("Han Solo", "C-3P0", "Yoda"), "Please state how you view these characters.")
    assert display_names(list(shared), shared) == {name: name for name in shared}


def test_grids_with_the_same_items_are_told_apart() -> None:
    found = display_names([stem + item for stem in (OFTEN, FEEL) for item in ITEMS], {})
    assert len(set(found.values())) == 6
    assert [text.rpartition(" (")[2] for text in found.values()] == ["often)"] * 3 + ["comfortable)"] * 3
    assert all(text.startswith(("Pray in public", "Bring")) for text in found.values())
    assert max(map(len, found.values())) <= MOST


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Gender", "Gender"),
        (
            "Do you consider yourself to be a fan of the Star Wars film franchise?",
            "Fan of the Star Wars film franchise?",
        ),
        (
            "Which of the following Star Wars films have you seen? Please select all that apply.",
            "Which Star Wars films have you seen?",
        ),
        (
            "In your opinion, how important or unimportant is proper use of grammar?",
            "How important is proper use of grammar?",
        ),
        (
            "Prior to reading about it above, had you heard of the serial (or Oxford) comma?",
            "Had you heard of the serial comma?",
        ),
        ("Do you typically check a daily weather report?", "Do you check a daily weather report?"),
        (
            "Lottery A pays often.<br>Assuming you have $10 to bet, would you play Lottery A or Lottery B?",
            "Would you play Lottery A or Lottery B?",
        ),
    ],
)
def test_a_long_question_loses_what_says_least(question: str, name: str) -> None:
    assert display_names([question], {}) == {question: name}


def test_names_of_columns_and_titles() -> None:
    titles = {
        "fan_star_trek": "Do you consider yourself to be a fan of the Star Trek franchise?",
        "polintr": "How interested in politics",
        "COUNTRY": "Country",
        "EA_SVC": "EA-SVC. Electricity grid",
        "q1": "Same question",
        "q2": "Same question",
    }
    assert display_names([*titles, "q7"], titles) == {
        "fan_star_trek": "fan star trek",  # its words are those of the question
        "polintr": "How interested in politics",
        "COUNTRY": "Country",
        "EA_SVC": "Electricity grid",
        "q1": "Same question (q1)",
        "q2": "Same question (q2)",
        "q7": "q7",
    }
    assert full_text("q1", titles) == "q1: Same question"
    assert full_text("q7", titles) == "q7"


def test_any_names_differ() -> None:
    rng = np.random.default_rng(0)
    words = ["how", "often", "a", "A", "the", "of", "-", ":", "?", "x" * 60, "(2)", "[b]", "<br>", "q1", "…", ""]
    for _ in range(300):
        names = list(dict.fromkeys(" ".join(rng.choice(words, rng.integers(1, 8))) for _ in range(12)))
        titles = {name: " ".join(rng.choice(words, 5)) for name in names if rng.random() < 0.5}
        found = display_names(names, titles)
        assert len({text.casefold() for text in found.values()}) == len(names)
        assert all(0 < len(text) <= MOST for text in found.values())


def test_levels_that_compare_themselves_are_not_compared_once_more() -> None:
    assert from_level("often", "at least") == "at least often"
    assert from_level("18 to 29", "at least") == "at least ‘18 to 29’"
    assert from_level("Once a year or less", "at most") == "at most ‘Once a year or less’"


def test_whole_words_only() -> None:
    for question in (OFTEN + ITEMS[0], FEEL + ITEMS[1]):
        for most in (20, 34, 60):
            assert set(both_ends(question, most).replace("…", " ").split()) <= set(question.split())
            assert {word.rstrip("…") for word in clipped(question, most).split()} <= set(question.split())
            assert len(fitted(question, most)) <= most


def test_grids_have_one_scale_and_one_stem_or_place() -> None:
    scale = tb.Ordinal(["never", "seldom", "often"])
    columns: dict[str, tb.Column] = {stem + item: scale for stem in (OFTEN, FEEL) for item in ITEMS}
    columns |= {"age": tb.Continuous(), "trust": scale, "hope": scale, "fan": tb.Binary(values=("no", "yes"))}
    columns |= {"vote": tb.Binary(values=("no", "yes"))}
    found = grids(columns, {})
    one, two = ({found[stem + item] for item in ITEMS} for stem in (OFTEN, FEEL))
    assert len(one) == len(two) == 1 != one & two
    assert found["trust"] == found["hope"]
    assert not {"age", "fan", "vote"} & set(found)  # two answers are a scale of anything


def test_a_condition_may_use_the_display_name() -> None:
    schema = tb.Schema({"q1": tb.Continuous(), "q2": tb.Continuous()}, titles={"q1": "How old are you?", "q2": "q1"})
    assert parse_given("How old are you? >= 30", schema)[0] == "q1"
    assert parse_given("q1 >= 30", schema)[0] == "q1"  # the name of a column comes first
    assert schema.named("How old are you?") == schema.named("q1") == "q1"
    assert schema.named("nothing") == "nothing"
