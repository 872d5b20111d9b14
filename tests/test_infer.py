"""Inference: level orders from texts, texts that are no answer, code books, roles, and columns that belong together.

Idea: tables of small cases with the answer expected of each, shuffled where the order must be found.
Promises a reason for every column, "a guess" where only texts speak, and schemas that compile on their own table.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from benchmarks.check_survey import compare

import thurbo as tb
from thurbo.table.guess.words import arranged, bands, scale, unanswered
from thurbo.table.io.codebook import KEY, Codebook, ColumnGroup, Note

# Levels from the lowest to the highest, as surveys write them.
SCALES = [
    ["Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"],
    ["Disagree strongly", "Disagree a little", "Agree a little", "Agree strongly"],
    ["Tend to disagree", "Neutral", "Tend to agree"],
    ["Very dissatisfied", "Somewhat dissatisfied", "Somewhat satisfied", "Very satisfied"],
    ["Not at all satisfied", "Not very satisfied", "Fairly satisfied", "Very satisfied"],
    ["Very unlikely", "Unlikely", "Neither likely nor unlikely", "Likely", "Very likely"],
    ["Not important", "Slightly important", "Moderately important", "Important", "Very important"],
    ["Much worse", "Worse", "About the same", "Better", "Much better"],
    ["Decrease a lot", "Decrease somewhat", "Stay the same", "Increase somewhat", "Increase a lot"],
    ["Far too little", "Somewhat too little", "About the right amount", "Somewhat too much", "Far too much"],
    ["Very difficult", "Somewhat difficult", "Somewhat easy", "Very easy"],
    ["Oppose strongly", "Oppose", "Favour", "Favour strongly"],
    ["Very liberal", "Liberal", "Moderate", "Conservative", "Very conservative"],
    ["Never", "Rarely", "Sometimes", "Often", "Always"],
    ["Never", "Once or twice", "Several times", "Many times"],
    ["Never", "Less than once a month", "Once a month", "A few times a month", "Once a week", "Every day"],
    ["Never", "Yearly", "Monthly", "Weekly", "Daily"],
    ["Less than once a year", "1-2 times a year", "3-4 times a year", "More than once a month", "5 times a week"],
    ["None", "A little", "Some", "A great deal"],
    ["Not at all", "Just a little", "Somewhat", "A lot"],
    ["No trust at all", "Not very much trust", "Quite a lot of trust", "Complete trust"],
    ["None of them", "Some of them", "Most of them", "All of them"],
    ["Poor", "Fair", "Good", "Very good", "Excellent"],
    ["low", "medium", "high"],
    ["Small", "Medium", "Large", "Extra large"],
    ["Lower class", "Working class", "Middle class", "Upper class"],
    ["Definitely not", "Probably not", "Maybe", "Probably", "Definitely"],
    ["No", "Maybe", "Yes"],
    ["No schooling", "Primary school", "Some high school", "High school", "Bachelor's degree", "Master's", "PhD"],
    ["18-29", "30-44", "45-60", "> 60"],
    ["Under 18", "18 to 24 years", "25 to 34 years", "35 years and over"],
    ["$0 - $24,999", "$25,000 - $49,999", "$50,000 - $99,999", "$100,000+"],
    ["less than 1k", "1k-5k", "5k-20k", "over 20k"],
    ["0", "1-5", "6-10", "more than 10"],
    ["1 - low", "2", "3", "4 - high"],
    ["1. not at all", "2. a bit", "10. very much"],
    ["Not at all interested", "Hardly interested", "Quite interested", "Very interested"],
    ["Not like me at all", "Not like me", "A little like me", "Somewhat like me", "Like me", "Very much like me"],
    ["Do not trust at all", "Do not trust very much", "Trust somewhat", "Trust completely"],
    ["Would never do", "Might do", "Have done"],
    ["Never", "Less often", "Only on special holidays", "At least once a month", "Once a week", "Every day"],
    ["Extremely liberal", "Liberal", "Moderate, middle of the road", "Conservative", "Extremely conservative"],
    ["Not wrong at all", "Wrong only sometimes", "Almost always wrong", "Always wrong"],
    ["Oppose a great deal", "Oppose a little", "Neither favor nor oppose", "Favor a little", "Favor a great deal"],
    ["Never", "Some of the time", "About half the time", "Most of the time", "Always"],
    ["Got a lot worse", "Got a little worse", "Stayed the same", "Improved a little", "Improved a lot"],
    ["Not at all", "Several days", "More than half the days", "Nearly every day"],
    ["No pain", "Mild pain", "Moderate pain", "Severe pain"],
    ["Definitely will not vote", "Probably will not vote", "Probably will vote", "Definitely will vote"],
    ["Much too low", "Somewhat too low", "About right", "Somewhat too high", "Much too high"],
    ["Not a problem", "A small problem", "A big problem", "A very big problem"],
    ["None", "1", "2", "3 or more"],
    ["Agree very strongly with 1", "Agree with 1", "Agree with neither", "Agree with 2", "Agree very strongly with 2"],
    ["Strongly agree with A", "Agree with statement A", "Agree with statement B", "Strongly agree with B"],
]  # fmt: skip
NO_SCALES = [
    ["Red", "Green", "Blue"],
    ["Single", "Married", "Divorced", "Widowed"],
    ["Central government", "Local government", "Traditional leaders", "None of them"],
    ["No (not looking)", "No (looking)", "Yes, part time (looking)"],
    ["Christian", "Muslim", "None"],
    ["18-29", "25-40", "30-60"],
    ["Part time", "Full time", "Retired"],
    ["North", "South", "East", "West"],
    ["Apple", "Very good", "Never"],
]


@pytest.mark.parametrize("levels", SCALES, ids=lambda levels: levels[0])
def test_the_order_of_common_scales_is_found(levels: list[str]) -> None:
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(levels).tolist()
        found = scale(shuffled)
        assert found is not None
        assert [text for _, text in sorted(zip(found.heights, shuffled, strict=True))] == levels
    if len(levels) > 2:
        cells = [levels[0], *reversed(levels), None, "Don't know", "Refused"]
        schema = tb.Schema.infer({"q": cells})
        missing = {text: text for text in cells[-2:]}
        ends = bands(levels)
        expected = (
            tb.Ordinal(levels, missing=missing)
            if ends is None
            else tb.Banded(dict(zip(levels, ends, strict=True)), transform="rank-normal", missing=missing)
        )
        assert schema["q"] == expected
        assert ("form a scale" if ends is None else "are bands") in schema.reasons["q"]
        schema.fit({"q": cells}).compile({"q": cells})


WORDINGS = [
    line.split(": ", 1)
    for line in (Path(__file__).parent / "data" / "wordings.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(("kind", "answers"), WORDINGS, ids=lambda text: text[:40])
def test_answers_are_read_as_surveys_word_them(kind: str, answers: str) -> None:
    labels, missing = ([*each.split(" | ")] if each else [] for each in f"{answers} || ".split(" || ")[:2])
    rng, texts = np.random.default_rng(len(answers)), np.asarray([*labels, *missing], object)
    often = np.r_[np.ones(len(labels)), np.full(len(missing), 0.1)]
    frame = pd.DataFrame({"q": np.r_[rng.permutation(texts), rng.choice(texts, 300, p=often / often.sum())]})
    column = tb.Schema.infer(frame).fit(frame)["q"]
    assert column.kind == kind
    ordered = kind in ("ordinal", "banded")
    assert (list(column.labels) if ordered else sorted(column.labels)) == (labels if ordered else sorted(labels))
    assert sorted(value for value, _ in column.missing) == sorted(missing)  # type: ignore[misc, str-unpack]


@pytest.mark.parametrize("texts", NO_SCALES, ids=lambda texts: texts[0])
def test_what_is_no_scale_stays_unordered(texts: list[str]) -> None:
    assert scale(texts) is None
    assert isinstance(tb.Schema.infer({"q": texts * 2})["q"], tb.Categorical)


def test_codes_keep_their_direction_and_neutral_answers_their_middle() -> None:
    two = ["Agree strongly with 1", "Agree with 1", "Agree with 2", "Agree strongly with 2", "Agree with neither"]
    assert arranged([1, 2, 3, 4, 5], two) == ([1, 2, 5, 3, 4], "statements")
    assert arranged([1, 2, 3], ["Often", "Sometimes", "Never"]) == ([1, 2, 3], "how often")
    agree = ["Strongly agree", "Agree", "Disagree", "Strongly disagree", "Neither agree nor disagree"]
    assert arranged([1, 2, 3, 4, 9], agree) == ([1, 2, 9, 3, 4], "degree")
    odd = ["Side one", "Rather one", "Rather two", "Side two", "Neither"]
    assert arranged([1, 2, 3, 4, 5], odd, "ordinal") == ([1, 2, 5, 3, 4], "a neutral answer")
    assert arranged([1, 2, 3, 4, 5], odd) is None
    helped = ["Did nothing", "Helped a little", "Helped somewhat", "Helped a lot"]
    found = arranged([0, 1, 2, 3], helped)
    assert found is not None
    assert found[0] == [0, 1, 2, 3]
    assert arranged([0, 1, 2, 3], helped, "nominal") is None
    assert arranged([1, 2, 3, 4], ["Never", "Often", "Always", "Other"]) is None
    # Rates are rough, so one pair that they would exchange stays as the file has it; other scales are put right.
    drinks = ["Never", "Monthly or less", "2-4 times a month", "2-3 times a week", "4 or more times a week"]
    assert arranged([1, 2, 3, 4, 5], drinks) == ([1, 2, 3, 4, 5], "rate")
    assert arranged([1, 2, 3, 4], ["Always", "Never", "Often", "Sometimes"]) == ([1, 3, 4, 2], "how often")


def test_bands_end_where_the_next_begins() -> None:
    assert bands(["30-44", "18-29", "over 44"]) == [(30, 44), (18, 30), (44, None)]
    assert bands(["Under 18", "18-64", "65+"]) == [(None, 18), (18, 65), (65, None)]
    assert bands(["0-10", "5-15"]) is None
    assert bands(["1", "2", "3"]) is None
    assert bands(["10-1", "20-30"]) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Don't know", "unknown"),
        ("DON’T KNOW (do not read)", "unknown"),
        ("Don't know/Haven't heard enough", "unknown"),
        ("9. DK", "unknown"),
        ("Can't choose", "unknown"),
        ("Refused", "absent"),
        ("Will not say/Refused", "absent"),
        ("Prefer not to say", "absent"),
        ("Missing", "absent"),
        ("No answer", "absent"),
        ("N/A", "absent"),
        ("Unfamiliar (N/A)", "absent"),
        ("Not applicable, i.e., no relatives", "absent"),
        ("Not asked in Cape Verde", "absent"),
        ("Not sure", "doubtful"),
        ("No opinion", "doubtful"),
        ("Never", None),
        ("Not at all", None),
        ("None", None),
        ("Other", None),
        ("Know but can't remember", None),
        ("Refused to be interviewed", None),
        ("Agnostic (do not know if there is a God)", None),
        ("Namibia", None),
    ],
)
def test_texts_that_are_no_answer(text: str, kind: str | None) -> None:
    assert unanswered(text) == kind


def coded(cells: list[Any], names: dict[Any, str], measure: Any = "", missing: Any = (), name: str = "q") -> tb.Schema:
    """The schema of one column with a code book, checked to compile on its own cells."""
    frame = pd.DataFrame({name: cells})
    note = Note(measure=measure, names=tuple(names.items()), missing=tuple((code, code) for code in missing))
    frame.attrs[KEY] = Codebook({name: note}).to_text()
    schema = tb.Schema.infer(frame)
    schema.fit(frame).compile(frame)
    return schema


AGREE = {1: "Agree", 2: "Neutral", 3: "Disagree"}
UNSURE = {1: "Agree", 2: "Not sure", 3: "Disagree"}
PARTIES = {1: "Red", 2: "Green", 3: "Blue"}
YES, YES_BUT, SEX = {1: "Yes", 2: "No"}, {0: "No, never", 1: "Yes, once"}, {1: "Man", 2: "Woman"}
OFTEN = {1: "Never", 2: "Sometimes", 3: "Often"}
ENDS = {0: "Not at all", 10: "Completely"}
QUIZ = {1: "Right", 2: "Wrong", 9: "Don't know"}
LETTERS = {"a": "Alpha", "b": "Beta"}
DIGITS = {1: "1", 2: "2", 3: "3"}
DK, REFUSED = {9: "Don't know"}, {9: "Refused"}
# Cells, names of codes, measure, codes declared missing; the column expected, and a part of the reason.
CASES: list[tuple[list[Any], dict[Any, str], str, tuple[Any, ...], tb.Column, str]] = [
    ([1, 2, 3], AGREE, "", (), tb.Ordinal([1, 2, 3], names=AGREE), "a guess"),
    ([1, 2, 3], AGREE, "nominal", (), tb.Ordinal([1, 2, 3], names=AGREE), "though the file says nominal"),
    ([1, 1, 3], AGREE, "ordinal", (), tb.Ordinal([1, 2, 3], names=AGREE), "the file says ordinal"),
    ([1, 2, 3], PARTIES, "ordinal", (), tb.Ordinal([1, 2, 3], names=PARTIES), "ordered by the codes"),
    ([1, 2, 3], PARTIES, "nominal", (), tb.Categorical([1, 2, 3], names=PARTIES), "the file says nominal"),
    ([1, 2, 3], PARTIES, "", (), tb.Categorical([1, 2, 3], names=PARTIES), "without a known order"),
    ([1.0, 2.0, None], YES, "", (), tb.Binary(values=(2, 1), names=YES), "No and Yes"),
    ([0, 1, 1], YES_BUT, "nominal", (), tb.Binary(values=(0, 1), names=YES_BUT), "the file says nominal"),
    ([1, 2, 2], SEX, "nominal", (), tb.Binary(values=(1, 2), names=SEX), "Man and Woman"),
    ([1, 2, 9], YES | DK, "", (), tb.Binary(values=(2, 1), names=YES, missing=DK), "9 Don't know"),
    ([1, 2, 3, 8], PARTIES, "nominal", (8,), tb.Categorical([1, 2, 3], names=PARTIES, missing=[8]), "missing: 8"),
    # A file that declares -1 missing and had room for 9 means "don't know" as an answer ...
    ([1, 2, 9, -1], QUIZ, "nominal", (-1,), tb.Categorical([1, 2, 9], names=QUIZ, missing=[-1]), "missing: -1"),
    # ... but not as a place on a scale, and a refusal never.
    ([1, 2, 3, 9], AGREE | DK, "ordinal", (-1,), tb.Ordinal([1, 2, 3], names=AGREE, missing=DK), "9 Don't know"),
    ([1, 2, 9], YES | REFUSED, "nominal", (-1,), tb.Binary(values=(2, 1), names=YES, missing=REFUSED), "9 Refused"),
    ([1, 2, 3, 7], OFTEN | {7: "No experience"}, "", (),
     tb.Ordinal([1, 2, 3], names=OFTEN, missing={7: "No experience"}), "7 No experience"),
    ([1, 2, 3], UNSURE, "", (), tb.Ordinal([1, 2, 3], names=UNSURE), "a guess"),
    (list(range(11)), ENDS, "", (), tb.Ordinal(range(11), names=ENDS), "with labels at the ends"),
    ([*range(11), 99], ENDS, "scale", (99,), tb.Continuous(missing=[99]), "the file says scale"),
    ([3, 4, 7, 7], {}, "scale", (), tb.Continuous(), "the file says scale"),
    ([3, 4, 7, 7], {}, "nominal", (), tb.Categorical([3, 4, 7]), "the file says nominal"),
    ([3, 4, 7, 7], {}, "ordinal", (), tb.Ordinal([3, 4, 7]), "the file says ordinal"),
    ([1, 2, 3], DIGITS, "", (), tb.Ordinal([1, 2, 3], names=DIGITS), "their numbers"),
    ([1, 2, 3], DIGITS, "nominal", (), tb.Categorical([1, 2, 3], names=DIGITS), "the file says nominal"),
    ([4, 4, 9], {4: "Four", 5: "Five"} | REFUSED, "", (), tb.Ignore("it is constant"), "Four"),
    ([9, 9, 9], {1: "Yes"} | REFUSED, "", (9,), tb.Ignore("it is empty"), "missing code"),
    (["a", "b", "z"], LETTERS | {"z": "No answer"}, "nominal", (),
     tb.Binary(values=("a", "b"), names=LETTERS, missing={"z": "No answer"}), "z No answer"),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "names", "measure", "missing", "expected", "reason"), CASES)
def test_code_books_are_understood(
    cells: list[Any], names: dict[Any, str], measure: str, missing: tuple[Any, ...], expected: tb.Column, reason: str
) -> None:
    schema = coded(cells, names, measure, missing)
    assert schema["q"] == expected
    assert reason in schema.reasons["q"]


def test_rare_codes_of_a_long_list_are_joined() -> None:
    rng = np.random.default_rng(0)
    codes = rng.choice(150, 6000, p=0.96 ** np.arange(150) / (0.96 ** np.arange(150)).sum())
    schema = coded([*codes.tolist(), 999], {code: f"Language {code}x" for code in range(150)}, "nominal", (999,))
    column = schema["q"]
    assert column.kind == "categorical"
    assert column.other == column.labels[-1]
    assert 40 < len(column.labels) <= 61
    assert tb.Schema.from_dict(schema.to_dict()) == schema
    assert "codes, " in schema.reasons["q"]
    assert "joined into" in schema.reasons["q"]


def test_refusals_are_answers_where_they_are_reasons_or_outcomes() -> None:
    reasons = {1: "Not at home", 2: "Refused", 3: "Moved away", 4: "Too ill", 9: "Refusal"}
    schema = coded([1, 2, 3, 4, 9, 1], reasons, "nominal")
    assert schema["q"] == tb.Categorical([1, 2, 3, 4], names=dict(list(reasons.items())[:4]), missing={9: "Refusal"})
    assert dict(coded([1, 2, 9], {1: "Yes", 2: "No", 9: "Refused"})["q"].missing) == {9: "Refused"}  # type: ignore[call-overload]
    frame = pd.DataFrame({"q": [1, 2, 5]})
    note = Note(title="Outcome of the first call", names=((1, "Interview"), (2, "No contact"), (5, "Refused")))
    frame.attrs[KEY] = Codebook({"q": note}).to_text()
    assert tb.Schema.infer(frame)["q"].labels == (1, 2, 5)


def test_codes_that_fit_no_scale_are_set_apart() -> None:
    names = {1: "Very satisfied", 2: "Satisfied", 3: "Dissatisfied", 4: "I have no job", 5: "Other"}
    names[4] = "I am not employed"
    schema = coded([1, 2, 3, 4, 5, 1, 2, 3] * 5, names)
    assert schema["q"].labels == (1, 2, 3)
    assert dict(schema["q"].missing) == {4: "I am not employed", 5: "Other"}  # type: ignore[call-overload]
    assert schema.confidence["q"] < 0.8


def test_many_codes_are_left_out_and_titles_kept() -> None:
    schema = coded(list(range(1, 300)), {code: f"Place {code}x" for code in range(1, 300)}, "nominal")
    assert schema["q"] == tb.Ignore("more than 100 codes")
    schema = coded(list(range(300)), {}, "nominal")
    assert isinstance(schema["q"], tb.Id | tb.Ignore)


def test_more_levels_than_a_model_should_learn_are_amounts_or_left_out() -> None:
    many = list(range(1, 301))
    schema = coded(many, {code: f"Step {code}" for code in many}, "ordinal")
    assert schema["q"] == tb.Continuous(transform="rank-normal")
    assert "300 levels" in schema.reasons["q"]
    texts = pd.Categorical([f"Step {code}" for code in many], [f"Step {code}" for code in many], ordered=True)
    schema = tb.Schema.infer(pd.DataFrame({"text": texts, "number": pd.Categorical(many, many, ordered=True)}))
    assert schema["text"] == tb.Ignore("more than 100 levels")
    assert schema["number"] == tb.Continuous(transform="rank-normal")


def test_codes_that_were_replaced_by_their_names_are_read_as_text() -> None:
    frame = pd.DataFrame({"q": ["Agree", "Disagree", "Neutral"]})
    frame.attrs[KEY] = Codebook({"q": Note(names=tuple(AGREE.items()), missing=((9, 9),))}).to_text()
    assert tb.Schema.infer(frame)["q"] == tb.Ordinal(["Disagree", "Neutral", "Agree"])


N = 60
RNG = np.random.default_rng(0)
ROLES: list[tuple[str, Any, Any, str]] = [
    ("respondent_id", RNG.permutation(N) + 5000, tb.Id(), "each number occurs once"),
    ("order", np.arange(1, N + 1), tb.Id(), "numbers the rows"),
    ("year", np.arange(1950, 1950 + N), tb.Continuous(), "distinct"),
    ("who", RNG.permutation(2 * N)[:N] + 7, tb.Id(), "each number occurs once"),
    ("family", np.r_[RNG.permutation(N - 2), 3, 5], tb.Id(), "nearly every number occurs once"),
    ("rank", RNG.permutation(N) + 1, tb.Continuous(), "each occurs once"),
    ("income", RNG.integers(0, 50 * N, N), tb.Continuous(), "distinct"),
    ("key", [f"A{i:04d}" for i in range(N)], tb.Id(), "all different"),
    ("remark", [f"I think that {i} is best" for i in range(N)], tb.Ignore("it is free text"), "nearly every"),
    ("withinwt", RNG.gamma(4, 0.25, N), tb.Weight(), "a guess"),
    ("WEIGHT", RNG.gamma(4, 0.25, N), tb.Weight(), "a guess"),
    ("weight", RNG.normal(70, 10, N), tb.Continuous(), "distinct"),
    ("birthweight", RNG.normal(1.5, 0.1, N), tb.Continuous(), "distinct"),
    ("wt", np.where(np.arange(N) == 3, np.nan, RNG.gamma(4, 0.25, N)), tb.Continuous(), "distinct"),
    ("score", RNG.gamma(4, 0.25, N), tb.Continuous(), "distinct"),
    ("when", [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(N)], tb.Ignore, "dates"),
    ("at", [datetime.time(i % 24) for i in range(N)], tb.Ignore, "times"),
    ("same", ["x"] * N, tb.Ignore("it is constant"), "only value"),
    ("ticked", ["a;b", "b", "a;b;c", "c;a"] * (N // 4), tb.MultiSelect(["a", "b", "c"]), "3 options"),
]


@pytest.mark.parametrize(("name", "cells", "expected", "reason"), ROLES)
def test_columns_that_are_no_answers(name: str, cells: Any, expected: Any, reason: str) -> None:
    frame = pd.DataFrame({name: cells, "q": [0.5, 1.5, 2.5, 9.5] * (N // 4)})
    schema = tb.Schema.infer(frame)
    assert isinstance(schema[name], expected) if isinstance(expected, type) else schema[name] == expected
    assert reason in schema.reasons[name]
    schema.fit(frame).compile(frame)


def test_rows_have_one_name_and_one_weight() -> None:
    frame = pd.DataFrame({"id": range(N), "key": [f"k{i}" for i in range(N)], "wt1": RNG.gamma(4, 0.25, N)})
    frame["wt2"] = frame["wt1"] * 0.9
    schema = tb.Schema.infer(frame)
    assert [type(column).__name__ for column in schema.values()] == ["Id", "Ignore", "Weight", "Ignore"]
    assert 'of the weights wt1, wt2, "wt1" is used' in schema.reasons["wt2"]


def test_intervals_of_a_frame_are_statements_about_a_number() -> None:
    cut = pd.cut(pd.Series([1.0, 2.0, 5.0, 7.0, None]), [0, 3, 6, np.inf])
    given = pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 2), None, (2, 4), (1, 5)])
    frame = pd.DataFrame({"cut": cut, "given": given})
    schema = tb.Schema.infer(frame)
    assert schema["cut"] == schema["given"] == tb.Continuous()
    fitted = schema.fit(frame)
    block = fitted.compile(frame)["cut"]
    unit: Any = fitted["cut"]
    assert unit.to_user(block.lower[:4, 0]) == pytest.approx([0, 0, 3, 6])
    assert unit.to_user(block.upper[:3, 0]) == pytest.approx([3, 3, 6])
    assert np.isposinf(block.upper[3, 0])
    assert not block.observed[4].any()


def test_types_of_polars_are_used() -> None:
    frame = pl.DataFrame(
        {
            "enum": pl.Series(["lo", "hi", "lo"], dtype=pl.Enum(["lo", "mid", "hi"])),
            "list": [["a"], ["a", "b"], []],
            "pair": pl.Series([[1, 2], [2, 1], [1, 2]], dtype=pl.Array(pl.Int64, 2)),
            "day": [datetime.date(2020, 1, 1)] * 3,
            "struct": [{"a": 1}, {"a": 2}, {"a": 3}],
        }
    )
    schema = tb.Schema.infer(frame)
    kinds = [type(column).__name__ for column in schema.values()]
    assert kinds[:4] == ["Ordinal", "MultiSelect", "MultiSelect", "Ignore"]
    assert schema["list"].labels == ("a", "b")
    schema.fit(frame).compile(frame)


def test_an_ordered_category_may_end_in_no_answer() -> None:
    levels = ["Never", "Sometimes", "Often", "Refused"]
    frame = pd.DataFrame({"q": pd.Categorical(levels, levels, ordered=True)})
    schema = tb.Schema.infer(frame)
    assert schema["q"] == tb.Ordinal(levels[:3], missing={"Refused": "Refused"})
    assert schema.fit(frame).compile(frame)["q"].code[:, 0].tolist() == [0, 1, 2, -1]


def mentions(third: list[Any]) -> pd.DataFrame:
    """Three columns whose titles count the responses, with a code for "no further reply"."""
    names = {1: "Jobs", 2: "Health", 3: "Roads", 4: "Water", 96: "No further reply"}
    frame = pd.DataFrame({"p1": [1, 2, 3, 4, 1, 2], "p2": [2, 3, 96, 1, 3, 4], "p3": third})
    note = Note(measure="nominal", names=tuple(names.items()), missing=((96, 96),))
    places = enumerate(("1st", "2nd", "3rd"), 1)
    notes = {f"p{n}": replace(note, title=f"P{n}. Most important problem - {place} response") for n, place in places}
    frame.attrs[KEY] = Codebook(notes).to_text()
    return frame


def test_counted_responses_are_one_ranking() -> None:
    frame = mentions([3, 1, 96, 2, 2, 1])
    schema = tb.Schema.infer(frame)
    names = {1: "Jobs", 2: "Health", 3: "Roads", 4: "Water"}
    missing = {96: "No further reply"}
    assert list(schema) == ["p"]
    assert schema["p"] == tb.Ranking([1, 2, 3, 4], places=["p1", "p2", "p3"], names=names, missing=missing)
    assert schema.fit(frame).compile(frame)["p"].tier[0].tolist() == [3, 2, 1, 0]
    often_twice = tb.Schema.infer(mentions([1, 2, 96, 4, 1, 2]))["p"]
    assert often_twice == tb.MultiSelect([1, 2, 3, 4], mentions=["p1", "p2", "p3"], names=names, missing=missing)


def test_groups_that_lost_a_column_or_hold_something_else_are_columns_again() -> None:
    group = ColumnGroup("seen", "grid", (("a", "A"), ("b", "B")))
    frame = pd.DataFrame({"a": ["A", None, "A"], "b": ["B", "B", None], "seen": [1.5, 2.5, 3.5]})
    frame.attrs[KEY] = Codebook(groups=(group,)).to_text()
    schema = tb.Schema.infer(frame)
    assert schema["seen (2)"] == tb.MultiSelect(columns={"A": "a", "B": "b"})
    assert list(tb.Schema.infer(frame[["a", "seen"]])) == ["a", "seen"]
    other = frame.assign(a=[0.5, 1.5, 2.5])
    assert list(tb.Schema.infer(other)) == ["a", "b", "seen"]


def test_titles_and_reasons_survive_files(tmp_path: Any) -> None:
    schema = coded([1, 2, 3], AGREE)
    titled = tb.Schema(dict(schema), reasons=schema.reasons, titles={"q": "Do you agree?", "none": ""})
    titled.to_toml(tmp_path / "s.toml")
    again = tb.Schema.from_toml(tmp_path / "s.toml")
    assert again == titled
    assert again.titles == {"q": "Do you agree?"}
    assert again.reasons == schema.reasons
    assert (again | {"q": tb.Ignore("no")}).titles == again.titles
    assert tb.Schema.from_dict(again.to_dict()).titles == again.titles
    assert "q<br><small>Do you agree?</small>" in again._repr_html_()


def test_the_benchmark_counts_what_is_wrong() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 9.0], "b": [1.0, 2.0, 3.0, 3.0], "c": [0.5, 1.5, 2.5, 7.5]})
    notes = {"a": Note(names=(*AGREE.items(), (9, "Don't know"))), "b": Note(names=tuple(PARTIES.items()))}
    frame.attrs[KEY] = Codebook(notes).to_text()
    wanted: list[dict[str, Any]] = [
        {"name": "a", "type": "ordinal", "levels": [1, 2, 3], "missing": [9]},
        {"name": "b", "type": "categorical", "missing": []},
        {"name": "c", "type": "continuous", "missing": []},
    ]
    schema = tb.Schema.infer(frame)
    assert [wrong for *_, wrong in compare(frame, schema, wanted)] == [set(), set(), set()]
    others = [wanted[0] | {"levels": [3, 2, 1], "missing": []}, wanted[1] | {"type": "ordinal", "levels": [1, 2, 3]}]
    assert [wrong for *_, wrong in compare(frame, schema, others)] == [{"order", "missing"}, {"type", "order"}]


@pytest.mark.parametrize(
    ("draw", "transform"),
    [
        (lambda rng: rng.normal(size=400).round(3), None),
        (lambda rng: np.exp(rng.normal(8, 1.2, size=400)).round(2), "rank-normal"),
        (lambda rng: rng.integers(18, 90, size=400), "rank-normal"),
        (lambda rng: np.exp(rng.normal(8, 1.2, size=90)).round(2), None),  # too few to know
    ],
)
def test_numbers_that_are_not_normal_are_read_by_their_ranks(draw: Any, transform: str | None) -> None:
    schema = tb.Schema.infer(pd.DataFrame({"a": draw(np.random.default_rng(0)), "b": "x"}))
    assert schema["a"] == tb.Continuous(transform=transform)
    assert ("not normal" in schema.reasons["a"]) == (transform is not None)
