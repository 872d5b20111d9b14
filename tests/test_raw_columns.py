"""Small made columns for each rule of reading raw tables, and the settings that hold the reading: recode, parse, other.

What is not a number or a known answer is listed in the reason and counts as missing; the table is never changed.
"""

from __future__ import annotations

import copy
import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.errors import SchemaError, SchemaWarning
from thurbo.table.columns import column_from_dict
from thurbo.table.columns.numbers import amount, days
from thurbo.table.guess.grids import Grid, grid
from thurbo.table.guess.infer import isolated

RNG = np.random.default_rng(0)
N = 200


def infer(table: dict[str, Any], **settings: Any) -> tb.Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        return tb.Schema.infer(table, **settings)


def read_text(text: str | bytes, folder: Path, **settings: Any) -> tuple[Any, tb.Schema]:
    path = folder / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        return tb.read(path, **settings)


def answers(levels: list[Any], n: int = N, extra: list[Any] | None = None) -> list[Any]:
    """Random answers, every level at least once, and a few more cells."""
    return [*levels, *RNG.choice(np.asarray(levels, object), n - len(levels)).tolist(), *(extra or [])]


def codes_of(column: tb.Column) -> list[Any]:
    return [value for value, _ in column.missing]


# ---- missing codes without labels


@pytest.mark.parametrize(
    ("levels", "codes"),
    [
        ([1, 2, 3, 4, 5], [9]),
        ([1, 2, 3, 4, 5], [8, 9]),
        ([1, 2], [7, 8, 9]),
        ([0, 1], [9]),
        ([1, 2, 3, 4, 5, 6, 7], [77, 88, 99]),
        ([1, 2, 3, 4], [97, 98, 99]),
        ([1, 2, 3], [-9, -8]),
        ([0, 1, 2, 3], [-9]),
        ([1, 2, 3, 4, 5], [-1]),
        ([1, 2, 3, 4, 5], [998, 999]),
        (list(range(11)), [-99]),
    ],
    ids=str,
)
def test_codes_far_from_the_answers_are_missing(levels: list[int], codes: list[int]) -> None:
    schema = infer({"q": answers(levels, extra=codes * 2)})
    assert schema["q"].kind == ("ordinal" if len(levels) > 2 else "binary")
    assert sorted(codes_of(schema["q"])) == sorted(codes)
    assert "counted as missing" in schema.reasons["q"]
    fitted = schema.fit({"q": answers(levels, extra=codes)})
    assert (fitted["q"].labels if len(levels) > 2 else tuple(sorted(fitted["q"].labels))) == tuple(levels)


@pytest.mark.parametrize(
    "values",
    [
        list(range(11)),
        list(range(1, 10)),
        [-2, -1, 0, 1, 2],
        [-1, 0, 1],
        [-1, 1],
        [1, 2, 3, 4, 5, 6, 7],
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
        list(range(18, 95)),
        [round(value, 1) for value in np.linspace(-9, 30, 60)],
        list(range(-9, 30)),
        list(range(-1, 40)),
    ],
    ids=lambda values: f"{values[0]} to {values[-1]}",
)
def test_whole_scales_and_measurements_have_no_codes(values: list[float]) -> None:
    assert codes_of(infer({"q": answers(values)})["q"]) == []


def test_the_tail_of_a_count_is_not_a_code() -> None:
    visits = [0] * 50 + [1] * 30 + [2] * 15 + [3] * 6 + [4] * 2 + [9]
    assert codes_of(infer({"visits": visits})["visits"]) == []


def test_a_frequent_number_above_all_ages_is_a_code() -> None:
    ages = answers(list(range(18, 90)), 300, extra=[99] * 20)
    schema = infer({"age": ages})
    assert schema["age"].kind == "continuous"
    assert codes_of(schema["age"]) == [99]


def test_weak_codes_count_where_other_columns_share_them() -> None:
    seven, five = answers(list(range(1, 8)), extra=[8, 9]), answers([1, 2, 3, 4, 5], extra=[8, 9])
    assert codes_of(infer({"a": seven})["a"]) == []
    table = {"a": seven, "b": five, "c": list(five), "d": answers([1, 2], extra=[8, 9])}
    schema = infer(table)
    assert codes_of(schema["a"]) == [8, 9]
    assert "as in other columns" in schema.reasons["a"]


def test_codes_are_found_by_values_and_counts_alone() -> None:
    assert isolated({"q": {1.0: 20, 2.0: 20, 3.0: 20, 9.0: 3}}) == {"q": {9.0: "far from the other values"}}
    assert isolated({"q": {1.0: 20, 2.0: 20, 3.0: 2, 9.0: 3}}) == {}


def test_missing_codes_of_a_whole_table() -> None:
    table = {"q": answers([1, 2, 3, 4, 5], extra=[6, 6]), "words": ["Yes", "No", "6"] * 67 + ["No"]}
    schema = infer(table, missing={6: "refused"})
    assert schema["q"].missing == ((6, "refused"),)
    assert infer(table)["q"].labels == (1, 2, 3, 4, 5, 6)
    assert schema.fit(table)["q"].labels == (1, 2, 3, 4, 5)
    assert schema.fit(table).compile(table)["q"].code[-1, 0] == -1
    schema = infer(table, missing=["6"])
    assert schema["words"].kind == "binary"
    assert codes_of(schema["words"]) == ["6"]
    assert codes_of(schema["q"]) == [6]


# ---- spellings


def test_spellings_are_one_answer_and_the_table_stays_as_it_is() -> None:
    table = {
        "q": ["Yes", "yes", "YES ", "No", "no", "Yes", "Y", None],
        "r": ["a  b", "A b", "c", "d", "c", "d", "c", "c"],
    }
    before = copy.deepcopy(table)
    with pytest.warns(SchemaWarning, match="read as one"):
        schema = tb.Schema.infer(table)
    assert schema["q"].kind == "binary"
    assert dict(schema["q"].recode) == {"yes": "Yes", "YES": "Yes", "Y": "Yes", "no": "No"}
    fitted = schema.fit(table)
    assert fitted["q"].labels == ("No", "Yes")
    assert fitted.compile(table)["q"].code[:, 0].tolist() == [1, 1, 1, 0, 0, 1, 1, -1]
    assert fitted["r"].labels in {("A b", "c", "d"), ("a  b", "c", "d")}
    assert table == before
    assert "read as one answer" in schema.reasons["q"]
    again = tb.Schema.from_dict(fitted.to_dict())
    assert again == fitted
    assert again.compile({"q": ["YES"], "r": ["c"]})["q"].code[0, 0] == 1


def test_recode_of_numbers_lists_and_conditions() -> None:
    table = {"q": [1, 2, 3, 9, 1], "m": ["TV; radio", "tv", "radio", None, "TV"]}
    schema = tb.Schema(
        {"q": tb.Ordinal([1, 2, 3], recode={9: 3}), "m": tb.MultiSelect(["TV", "radio"], recode={"tv": "TV"})}
    ).fit(table)
    assert schema.compile(table)["q"].code[:, 0].tolist() == [0, 1, 2, 2, 0]
    assert schema.compile(table)["m"].code.tolist() == [[1, 1], [1, 0], [0, 1], [-1, -1], [1, 0]]
    assert schema.compile(table, given={"q": 9})["q"].code[:, 0].tolist() == [2] * 5


def test_recode_that_cannot_be_is_refused() -> None:
    for wrong in ({"a": None}, {"": "b"}, ["a"]):
        with pytest.raises(SchemaError, match="recode"):
            tb.Binary(recode=wrong)
    with pytest.raises(SchemaError, match="again"):
        tb.Binary(recode={"a": "b", "b": "c"})


# ---- numbers in words


@pytest.mark.parametrize(
    ("text", "notation", "number"),
    [
        ("about 7", "number", 7.0),
        ("~ 7.5", "number", 7.5),
        ("7 hrs", "number", 7.0),
        ("1,200", "number", 1200.0),
        ("12 000 km", "number", 12000.0),
        ("-3 °", "number", -3.0),
        ("7-8", "number", None),
        ("7 to 8", "number", None),
        ("seven", "number", None),
        ("32%", "percent", 32.0),
        ("32.5 percent", "percent", 32.5),
        ("$420", "currency", 420.0),
        ("USD 1,234.50", "currency", 1234.5),
        ("$1.5k", "currency", 1500.0),
        ("£2 million", "currency", 2e6),
        ("1.234,50 €", "decimal-comma", 1234.5),
        ("0,5", "decimal-comma", 0.5),
        ("1970-01-02", "date", 1.0),
        ("02/01/1970", "date", 31.0),
        ("02/01/1970", "date-dmy", 1.0),
        ("2.1.1970", "date", 1.0),
        ("Jan 2, 1970 12:00", "date", 1.5),
        ("2 January 1970 12:00 pm", "date", 1.5),
        ("2014-02-31", "date", None),
    ],
)
def test_numbers_in_words(text: str, notation: str, number: float | None) -> None:
    assert amount(text, notation) == number


@pytest.mark.parametrize(
    ("cells", "parse"),
    [
        ([f"{value}%" for value in range(10, 60)], "percent"),
        ([f"${value * 1000:,}" for value in range(10, 60)], "currency"),
        ([f"{value * 1000:,}" for value in range(10, 60)], "number"),
        ([f"{value},5" for value in range(10, 60)], "decimal-comma"),
        (["about 7", "7 hrs", "8", "9 hours", "6.5", "5", "4", "10", "11", "12"] * 5, "number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_columns_of_numbers_in_words(cells: list[str], parse: str) -> None:
    schema = infer({"q": [*cells, *cells, "it varies", None]})
    column = schema["q"]
    assert (column.kind, column.parse) == ("continuous", parse)
    assert codes_of(column) == ["it varies"]
    assert '"it varies"' in schema.reasons["q"]
    fitted = schema.fit({"q": cells})
    assert column.rounded == ("about 7" in cells), "7 is a fifth of these"
    numbers = [amount(text, parse) for text in cells]
    assert (fitted["q"].lowest, fitted["q"].highest) == (min(numbers), max(numbers))  # type: ignore[type-var]
    again = column_from_dict(fitted["q"].to_dict())
    assert again == fitted["q"]
    block = tb.Schema({"q": again}).compile({"q": [cells[0], "what?"]})["q"]
    assert block.observed[:, 0].tolist() == [True, False]
    assert np.mean([fitted["q"].to_user(end[:1, 0]) for end in (block.lower, block.upper)]) == pytest.approx(
        amount(cells[0], parse)
    )


def test_signs_of_money_on_some_of_the_numbers() -> None:
    cells = [*(str(number) for number in range(0, 3000, 10)), *(str(number) for number in range(0, 900, 10))]
    column = infer({"spent": [*cells, "$500", "$1,200", "ten"]})["spent"]
    assert (column.kind, column.parse) == ("continuous", "currency")
    assert codes_of(column) == ["ten"]


def test_numbers_with_a_few_words_among_them() -> None:
    schema = infer({"age": [*range(20, 60), "refused", None]})
    assert schema["age"].kind == "continuous"
    assert codes_of(schema["age"]) == ["refused"]


def test_amounts_that_all_differ_are_no_identifiers() -> None:
    keys = [f"k{place:04d}" for place in range(N)]
    schema = infer({"pay": [f"${1000 + 7 * place:,}" for place in range(N)], "key": keys})
    assert (schema["pay"].kind, schema["pay"].parse) == ("continuous", "currency")
    assert schema["key"].kind == "id"


def test_post_codes_are_no_amounts() -> None:
    schema = infer({"ZIP code": RNG.integers(1000, 99999, N), "q": answers([1, 2, 3])})
    assert schema["ZIP code"].kind == "ignore"
    few = infer({"zip": answers([2139, 2140, 60637]), "Do you own a phone?": answers([1, 2, 3])})
    assert [column.kind for column in few.values()] == ["categorical", "ordinal"]


def test_first_letters_stand_for_the_words_of_a_pair() -> None:
    assert infer({"sex": answers(["Male", "F", "m", "Female"])})["sex"].recode == (("m", "Male"), ("F", "Female"))
    assert infer({"sex": answers(["M", "F", "T"])})["sex"].recode == ()


def test_a_number_that_cannot_be_parsed_names_row_and_value() -> None:
    schema = tb.Schema({"q": tb.Continuous(parse="currency")})
    with pytest.raises(SchemaError, match=r'row 1, column "q": value "a lot" is not a number'):
        schema.fit({"q": ["$4", "a lot"]})
    with pytest.raises(SchemaError, match="parse='roman' is not understood"):
        tb.Continuous(parse="roman")


def test_dates_are_left_out_and_can_be_days() -> None:
    cells = [f"{month}/{day}/2014 10:15" for month in (1, 2) for day in range(1, 28)]
    schema = infer({"when": cells, "q": answers(["a", "b", "c"], len(cells))})
    assert schema["when"].kind == "ignore"
    assert "dates" in schema.reasons["when"]
    column = tb.Schema({"when": tb.Continuous(parse="date")}).fit({"when": cells})["when"]
    assert column.location == pytest.approx(np.mean([days(cell) for cell in cells]))
    assert column.as_cells(np.array([16071.0, np.nan])).tolist() == ["2014-01-01", None]
    moments = np.array(["2014-01-01", "2014-01-03"], "datetime64[s]")
    found = tb.Schema({"when": tb.Continuous(parse="date")}).fit({"when": moments})
    assert found["when"].location == 16072.0


def test_times_of_day_are_left_out_with_a_remedy_that_works() -> None:
    texts = [f"{hour}:30" for hour in range(24)] * 2
    kinds = {
        "text": texts,
        "half": [f"{hour}:15 pm" for hour in range(1, 13)] * 4,
        "python": [datetime.time(hour, 30) for hour in range(24)] * 2,
        "long": np.arange(48).astype("timedelta64[m]"),
    }
    schema = infer(kinds)
    for name in kinds:
        assert schema[name].kind == "ignore"
        assert "add a column of numbers to the table, such as hours (14.5 for 14:30)" in schema.reasons[name]
        assert "parse" not in schema.reasons[name]
    hours = [int(text.split(":")[0]) + 0.5 for text in texts]
    assert infer({"at": hours})["at"].kind == "continuous"


# ---- ordered words and bands

SCALES = [
    ["Not at all important", "Slightly important", "Moderately important", "Very important", "Essential"],
    ["Very dissatisfied", "Dissatisfied", "Neither satisfied nor dissatisfied", "Satisfied", "Very satisfied"],
    ["Extremely unlikely", "Unlikely", "Neutral", "Likely", "Extremely likely"],
    ["Beginner", "Intermediate", "Advanced", "Expert"],
    ["Never", "Once", "Twice", "Three times", "More than five times"],
    ["Rare", "Medium rare", "Medium", "Medium well", "Well done"],
    ["No, not at all", "Yes, a little", "Yes, a lot"],
    ["No, not rude at all", "Yes, somewhat rude", "Yes, very rude"],
    ["Less than once per month", "A few times per month or weekly", "A few times per week", "Multiple times per day"],
    ["Low", "Medium", "High"],
    ["No, none did", "Some did", "Yes, they all did"],
    ["No, at none of them", "Some of my teachers", "Yes, at all of them"],
    ["No", "Yes -- just one", "Yes -- several"],
    ["Never", "Once a year or less", "A few times per month", "Every night"],
    ["Some high school", "High school graduate", "Some college", "Bachelor's degree", "Master's degree", "Ph.D."],
]


@pytest.mark.parametrize("levels", SCALES, ids=lambda levels: levels[-1])
def test_ordered_words(levels: list[str]) -> None:
    found = infer({"q": answers(list(reversed(levels)))})["q"]
    assert found.kind == "ordinal"
    assert found.labels == tuple(levels)


BANDS = [
    (["Under 18", "18-24", "25-34", "35 or older"], [(None, 18), (18, 25), (25, 35), (35, None)]),
    (["Less than 1 year", "1-4 years", "5-9 years", "10+ years"], [(None, 1), (1, 5), (5, 10), (10, None)]),
    (["Just me - I am a freelancer", "2 to 9 employees", "10 or more employees"], [(1, 2), (2, 10), (10, None)]),
    (["$0 - $24,999", "$25,000 - $49,999", "50000"], [(0, 25000), (25000, 50000), (50000, None)]),
    (["Less than 1 year", "1", "2", "More than 2 years"], [(None, 1), (1, 2), (2, 3), (3, None)]),
    (["Under 20,000", "20,000 - 39,999", "40,000 - 79,999"], [(None, 20000), (20000, 40000), (40000, 80000)]),
    (["10 or younger", "11", "12", "13 or older"], [(None, 11), (11, 12), (12, 13), (13, None)]),
    (["meno di 10K", "da 10 a 20K", "da 20 a 50K", "oltre i 50K"], [(None, 1e4), (1e4, 2e4), (2e4, 5e4), (5e4, None)]),
    (["moins de 18 ans", "18 à 24 ans", "25 à 34 ans", "35 ans et plus"], [(None, 18), (18, 25), (25, 35), (35, None)]),
    (["In the first 1-5 years of it", "In its years 6-10", "After 10 years"], [(1, 6), (6, 10), (10, None)]),
    (["Under 5 ft.", "5'0\"", "5'1\"", "5'2\" and above"], [(None, 60), (60, 61), (61, 62), (62, None)]),
]


@pytest.mark.parametrize(("labels", "ends"), BANDS, ids=lambda value: str(value[0]))
def test_bands_are_numbers(labels: list[str], ends: list[tuple[float | None, float | None]]) -> None:
    found = infer({"q": answers(list(reversed(labels)), extra=["Prefer not to say"])})["q"]
    bands = dict(zip(labels, ends, strict=True))
    assert found == tb.Banded(bands, transform="rank-normal", missing=["Prefer not to say"])


@pytest.mark.parametrize(
    "texts",
    [
        ["Area 51", "Route 66", "Studio 54"],
        ["Version 1.0", "Version 2.0", "Version 2.1"],
        ["No, because it is dear", "No, because it is far", "Sometimes, if asked", "Yes, always"],
        ["None", "One of each", "All men", "Other"],
    ],
    ids=lambda texts: texts[0],
)
def test_numbers_and_reasons_alone_are_no_order(texts: list[str]) -> None:
    assert infer({"q": answers(texts)})["q"].kind == "categorical"


def test_negated_answers_are_never_the_highest_level() -> None:
    often = infer({"q": answers(["It is not okay to get up", "Once", "Twice", "Three times"])})
    assert often["q"].labels[0] == "It is not okay to get up"
    assert "a guess" in often.reasons["q"]
    agree = ["Strongly disagree", "Disagree", "Agree", "Strongly agree"]
    found = infer({"q": answers([*agree, "No children", "Do not understand"])})["q"]
    assert found.labels == tuple(agree)
    assert sorted(codes_of(found)) == ["Do not understand", "No children"]


@pytest.mark.parametrize("text", ["-", "--", "?", "...", "n/a", "Prefer not to answer", "Doesn't apply"])
def test_texts_without_an_answer_are_missing(text: str) -> None:
    assert codes_of(infer({"q": answers(["red", "green", "blue", text])})["q"]) == [text]


@pytest.mark.parametrize("code", ["-9", "99", "-1", "997"])
def test_a_lone_number_among_words_is_a_code(code: str) -> None:
    assert codes_of(infer({"q": answers(["red", "green", "blue", code])})["q"]) == [code]
    assert codes_of(infer({"q": answers(["1", "2", "3", "red", "green"])})["q"]) == []


def test_plus_and_minus_are_answers() -> None:
    assert infer({"q": answers(["+", "0", "-"])})["q"].labels == ("+", "-", "0")


# ---- columns with the same answers


def scale_of(
    levels: list[str], n_columns: int, n: int = 600, noise: float = 0.7, seed: int = 0
) -> dict[str, list[Any]]:
    """Columns whose answers are levels of one latent scale, each with noise of its own."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 1)) + noise * rng.normal(size=(n, n_columns))
    places = np.digitize(latent, np.quantile(latent, np.linspace(0, 1, len(levels) + 1)[1:-1]))
    return {
        f"How do you find: item {at}": np.asarray(levels, object)[places[:, at]].tolist() for at in range(n_columns)
    }


def grid_of(table: dict[str, list[Any]], levels: list[str]) -> Grid:
    return grid(
        {name: np.asarray([levels.index(each) for each in own], np.int32) for name, own in table.items()}, levels
    )


def test_an_order_that_only_the_data_say_is_proposed() -> None:
    levels = ["gar nicht", "kaum", "teils", "eher", "voll"]
    schema = infer(scale_of(levels, 5))
    for name, column in schema.items():
        assert column.kind == "ordinal"
        assert column.labels in (tuple(levels), tuple(reversed(levels)))
        assert schema.confidence[name] < 0.8
        assert "5 questions with the same answers" in schema.reasons[name]
        assert schema.reasons[name].endswith("otherwise: categories")
    assert "Please check:" in str(schema)
    assert {each.kind for each in infer(scale_of(levels, 2)).values()} == {"categorical"}  # two columns say too little


def test_levels_with_large_steps_are_proposed_where_pairs_become_fewer_with_every_step() -> None:
    levels = ["gar nicht", "kaum", "eher", "voll"]
    table = scale_of(levels, 6, noise=0.35)
    together = Grid.affinity(grid_of(table, levels))
    assert min(together[low][low + 1] for low in range(3)) < -0.1
    assert {each.labels for each in infer(table).values()} <= {tuple(levels), tuple(reversed(levels))}


def test_answers_without_an_order_stay_categories_however_many_columns_have_them() -> None:
    rng = np.random.default_rng(1)
    brands = np.asarray(["Alpha", "Beta", "Gamma", "Delta", "Omega"], object)
    favourite = rng.integers(0, 5, (800, 1))
    chosen = np.where(rng.random((800, 6)) < 0.6, favourite, rng.integers(0, 5, (800, 6)))
    schema = infer({f"Which brand: place {at}": brands[chosen[:, at]].tolist() for at in range(6)})
    assert {each.kind for each in schema.values()} == {"categorical"}


def test_data_that_agree_with_words_make_a_scale_certain() -> None:
    agree = ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"]
    schema = infer(scale_of(agree, 4))
    assert set(schema.confidence.values()) == {0.95}
    assert all("as in the data" in reason for reason in schema.reasons.values())
    mixed = [agree[0], agree[3], agree[1], agree[4], agree[2]]  # the data have another order than the words
    schema = infer(scale_of(mixed, 6, n=2000, noise=0.4))
    assert {each.labels for each in schema.values()} == {tuple(agree)}
    assert max(schema.confidence.values()) < 0.95


def test_a_grid_has_one_scale_also_where_a_column_lacks_a_level() -> None:
    levels = ["Never", "Rarely", "Sometimes", "Often", "Always"]
    table = scale_of(levels, 4, n=200)
    first, last = next(iter(table)), list(table)[-1]
    table[last] = ["Often" if cell == "Always" else cell for cell in table[last]][:6] + [None] * 194
    schema = infer(table)
    assert schema[last].labels == tuple(levels)
    assert schema[first].labels == tuple(levels)
    alone = infer({"party": answers(["Never", "Often", "Sometimes"]), **table})
    assert alone["party"].labels == ("Never", "Sometimes", "Often")
    numbers = {f"rate {at}": rng_codes for at, rng_codes in enumerate(np.random.default_rng(0).integers(1, 6, (5, 80)))}
    numbers["rate 4"] = np.r_[[1, 2, 3, 4], np.full(4, 3)].tolist() + [None] * 72  # type: ignore[assignment]
    assert infer(numbers)["rate 4"].labels == (1, 2, 3, 4, 5)


def test_an_answer_that_goes_with_no_level_is_set_apart_and_said() -> None:
    levels = ["Not at all comfortable", "Not so comfortable", "Somewhat comfortable", "Very comfortable"]
    rng = np.random.default_rng(3)
    table = scale_of(levels, 4, n=800)
    out = rng.random(800)
    for name in table:
        gone = (out < 0.4) & (rng.random(800) < 0.8)
        table[name] = ["I don't do this" if each else cell for cell, each in zip(table[name], gone, strict=True)]
    schema = infer(table)
    for name, column in schema.items():
        assert column.labels == tuple(levels)
        assert codes_of(column) == ["I don't do this"]
        assert "is not on the scale and counts as missing: 3" in schema.reasons[name]  # per cent of the answers
        assert 'with "I don\'t do this" as an answer' in schema.reasons[name]
        assert schema.confidence[name] < 0.8
    model_cells = schema.fit(table).compile(table)
    assert all((block.code[:, 0] >= 0).sum() == sum(cell != "I don't do this" for cell in table[name])
               for name, block in model_cells.items())  # fmt: skip


@pytest.mark.parametrize(
    "texts",
    [
        ["Never", "Rarely", "Sometimes", "Often", "Not applicable to my beliefs"],
        [
            "Not too much confidence",
            "No confidence at all",
            "A fair amount of confidence",
            "A great deal of confidence",
        ],
        ["Alpha", "Never", "Beta", "No beer"],
        ["Refused to be interviewed", "Not at home", "Never at home", "Moved"],
        ["Very important", "Somewhat important", "Doesn't matter much", "Extremely important"],
    ],
    ids=lambda texts: texts[0],
)
def test_what_people_chose_is_no_missing_code(texts: list[str]) -> None:
    gone = set(codes_of(infer({"q": answers(texts)})["q"]))
    assert gone <= {"Not applicable to my beliefs"}
    assert "Never" not in gone


def test_frequent_answers_that_count_as_missing_are_to_be_checked() -> None:
    rare = infer({"q": answers(["red", "green", "blue"], extra=["Don't know"] * 5)})
    often = infer({"q": answers(["red", "green", "blue"], extra=["Don't know"] * 90)})
    assert codes_of(rare["q"]) == codes_of(often["q"]) == ["Don't know"]
    assert rare.confidence["q"] > 0.8 > often.confidence["q"]
    assert '"Don\'t know" (31% of the cells)' in often.reasons["q"]


def test_one_answer_that_keeps_the_others_from_being_a_scale_is_named() -> None:
    schema = infer({"q": answers(["Disagree", "Agree", "Strongly agree", "Strongly disagree", "Whatever"])})
    assert schema["q"].kind == "categorical"
    assert schema.confidence["q"] < 0.8
    assert 'otherwise: levels of a scale, if "Whatever" has a place on it' in schema.reasons["q"]


def test_confidence_survives_files_and_ends_with_a_correction(tmp_path: Path) -> None:
    schema = infer({"q": answers(["Disagree", "Agree", "Whatever", "Strongly agree"]), "n": [1.5, 2.5] * 100})
    schema.to_toml(tmp_path / "schema.toml")
    again = tb.Schema.from_toml(tmp_path / "schema.toml")
    assert again.confidence == {name: round(sure, 2) for name, sure in schema.confidence.items()}
    assert "q" not in (again | {"q": tb.Categorical()}).confidence
    assert "Please check:" not in str(again | {"q": tb.Categorical()})
    assert "<p>Please check:</p>" in schema._repr_html_()


# ---- numbers that are none


def test_codes_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    zips = [f"{code:05d}" for code in rng.integers(500, 99999, 60)]
    party = [f"{code:03d}" for code in rng.choice([11, 12, 34, 101, 250], 60)]
    item = [f"{code:02d}" for code in rng.integers(1, 6, 60)]
    rows = "\n".join(",".join(each) for each in zip(zips, party, item, strict=True))
    frame, schema = read_text(f"In what ZIP code do you live? (5 digits),party,item\n{rows}\n", tmp_path)
    assert [column.kind for column in schema.values()] == ["ignore", "categorical", "ordinal"]
    assert frame["party"].tolist() == party
    assert schema["item"].labels == ("01", "02", "03", "04", "05")


def test_lists_of_answers_that_also_occur_alone() -> None:
    column = infer({"q": answers(["Star Wars", "Star Trek"], extra=["Star Wars; Star Trek"] * 9)})["q"]
    assert column.kind == "multiselect"
    assert column.labels == ("Star Trek", "Star Wars")
    assert infer({"q": answers(["Yes", "No", "Yes; always"])})["q"].kind != "multiselect"


def test_few_numbers_with_gaps_may_be_codes() -> None:
    schema = infer({"region": answers([1, 2, 3, 11, 12, 95]), "rounded": answers([5, 10, 20, 50])})
    assert schema.confidence["region"] < 0.8
    assert "if they are codes" in schema.reasons["region"]
    assert schema.confidence["rounded"] > 0.8


def test_the_weight_that_combines_others_is_used_and_all_are_named() -> None:
    rng = np.random.default_rng(5)
    one, two = rng.gamma(9, 1 / 9, (2, N))
    table = {"wt_design": one, "wt_post": two, "wt3": one * two, "q": answers([1, 2, 3])}
    schema = infer(table)
    assert [column.kind for column in schema.values()] == ["ignore", "ignore", "weight", "ordinal"]
    assert (
        'of the weights wt_design, wt_post, wt3, "wt3" is used: the product of two others' in schema.reasons["wt_post"]
    )
    assert infer({"finalwgt": one * 1500, "q": answers([1, 2, 3])})["finalwgt"].kind == "weight"


# ---- many texts


def test_more_rows_never_lose_a_column() -> None:
    shares = 0.8 ** np.arange(300)
    cities = [f"City {place}" for place in range(300)]
    kinds = set()
    for n in (500, 5000, 50_000):
        cells = np.random.default_rng(n).choice(cities, n, p=shares / shares.sum()).tolist()
        schema = infer({"city": cells})
        kinds.add(schema["city"].kind)
        column = schema["city"]
        assert column.labels[-1] == column.other
        assert "joined into" in schema.reasons["city"]
    assert kinds == {"categorical"}
    n_rare = len(set(cells)) - len(column.labels) + 1
    assert column.other == f"other ({n_rare} more)"
    block = tb.Schema({"city": column}).compile({"city": ["City 0", "Atlantis", None]})["city"]
    assert block.tier[1].tolist() == [0] * (len(column.labels) - 1) + [1]
    assert column_from_dict(column.to_dict()) == column
    with pytest.raises(SchemaError, match="not a category"):
        tb.Categorical(["a", "b"], other="c")


def test_joined_categories_are_never_filled_in_as_an_answer() -> None:
    """Most answers are of the joined category; a cell is filled with the most probable of the named ones."""
    rng = np.random.default_rng(0)
    other = "other (40 more)"
    cells = rng.choice(["north", "south", other], 60, p=[0.15, 0.1, 0.75]).tolist()
    frame = pd.DataFrame({"town": [*cells, None, None], "rich": ["yes", "no"] * 31})
    schema = {"town": tb.Categorical(["north", "south", other], other=other), "rich": tb.Binary(true="yes")}
    model = tb.TBM(schema, n_hidden=1, n_factors=0, max_epochs=0, random_state=0).fit(frame)
    chance = model.predict_proba(frame, "town")
    assert (chance[:, 2] > 0.5).all()  # it keeps its probability,
    named = np.asarray(["north", "south"])[chance[:, :2].argmax(axis=1)]
    assert model.predict(frame, "town")["town"].tolist() == named.tolist()  # and is not an answer
    filled = model.impute(frame, flag=True)
    assert filled["town"].tolist() == [*cells, *named[-2:]]  # what was given stays
    assert filled["town_probability"].tolist()[-2:] == pytest.approx(chance[-2:, :2].max(axis=1), abs=1e-6)
    for drawn in model.impute_draws(frame, 3, random_state=0):
        assert set(drawn["town"][-2:]) <= {"north", "south"}
    assert set(model.sample(40, random_state=0)["town"]) <= {"north", "south"}


def test_free_text_is_left_out() -> None:
    two = infer({"other": ["cash in hand", "a stove", *[None] * 50], "fed": ["yes", "no", *[None] * 50]})
    assert [column.kind for column in two.values()] == ["ignore", "binary"]
    few = ["nothing to add", "it was too loud", "kind people at the door", "come back in May", "the soup was cold"]
    assert [column.kind for column in infer({"a": [*few, None], "b": [*few[:4], few[0], None]}).values()] == [
        "ignore",
        "categorical",
    ]
    words = [f"I think that {place} is the best place of all" for place in range(60)]
    schema = infer({"why": [*words, *words[:20]], "Other (please specify)": ["rice", "corn", None, "rice"] * 20})
    assert [column.kind for column in schema.values()] == ["ignore", "ignore"]


@pytest.mark.parametrize("sep", [";", "|", ", "])
def test_lists_of_options_whatever_the_number_of_combinations(sep: str) -> None:
    options = [f"option {letter}" for letter in "ABCDEFGHIJKLMNOP"]
    rng = np.random.default_rng(1)
    cells = [sep.join(np.asarray(options)[rng.random(16) < 0.4]) or None for _ in range(3000)]
    assert len(set(cells)) > 2000
    column = infer({"q": cells})["q"]
    assert column.kind == "multiselect"
    assert column.labels == tuple(options)


def test_options_on_lines_of_one_cell_are_written_as_they_were() -> None:
    options = np.asarray(["Laptop", "Tablet", "Phone"])
    cells = ["\n".join(options[own]) or None for own in np.random.default_rng(0).random((60, 3)) < 0.5]
    schema = infer({"own": cells}).fit({"own": cells})
    assert (schema["own"].kind, schema["own"].sep) == ("multiselect", "\n")
    assert tb.Schema.from_dict(schema.to_dict()) == schema
    assert set(schema["own"].labels) == set(options)


def test_lists_that_name_all_items_are_rankings_and_are_written_as_they_were() -> None:
    rng, items = np.random.default_rng(0), ["Price", "Quality", "Delivery"]
    table = {"rank": [*("".join(f"{each};" for each in rng.permutation(items)) for _ in range(60)), None]}
    schema = infer(table).fit(table)
    assert schema["rank"].kind == "ranking"
    assert (schema["rank"].sep, schema["rank"].labels) == (";", tuple(sorted(items)))
    assert tb.Schema.from_dict(schema.to_dict()) == schema
    model = tb.TBM(schema, n_hidden=1, n_factors=0, members=1, max_epochs=2, random_state=0, verbose=False).fit(table)
    filled = model.impute(table)["rank"]
    assert filled[:60] == table["rank"][:60]
    assert sorted(filled[60].split(";")) == sorted(items)
    plain = {"rank": [None if each is None else each.strip(";").replace(";", " > ") for each in table["rank"]]}
    same = tb.Schema({"rank": tb.Ranking(sorted(items))}).fit(plain).compile(plain)["rank"]
    assert np.array_equal(schema.compile(table)["rank"].tier, same.tier)
    assert infer({"owned": ["".join(f"{each};" for each in items)] * 50 + ["Price;"] * 30})["owned"].kind != "ranking"


def test_commas_inside_an_option_do_not_separate() -> None:
    """In brackets, or before words in lower case that always follow the same ones; write-ins are no options."""
    rng, options = np.random.default_rng(7), ["Mail", "Lists (news, jobs)", "Calls, by day or night", "Visits"]
    cells = [", ".join(np.asarray(options)[rng.random(4) < 0.5]) or None for _ in range(300)]
    table = {"q": [*cells, "Mail, and once I even tried to go there in person, which took a whole day"]}
    schema = infer(table).fit(table)
    assert schema["q"].labels == tuple(sorted(options))
    chosen = schema.compile(table)["q"].code
    assert [chosen[row].tolist() for row in range(300) if cells[row]] == [
        [int(option in cell) for option in sorted(options)] for cell in cells if cell
    ]
    assert tb.Schema.from_dict(schema.to_dict()) == schema


def test_sentences_with_commas_are_not_lists() -> None:
    cells = answers(["Honest, kind and loyal.", "Honest, kind, and loyal.", "Neither, to be fair, is right."])
    assert infer({"q": cells})["q"].kind == "categorical"


# ---- several columns


def test_ticks_under_one_heading() -> None:
    rng = np.random.default_rng(2)
    ticks = {f"Pies? - {pie}": [pie if rng.random() < 0.4 else None for _ in range(N)] for pie in ("Apple", "Pecan")}
    schema = infer({**ticks, "Shows? - Parade": ["Parade", None] * (N // 2)})
    assert schema.names == ("Pies?", "Shows?")
    assert schema["Pies?"].labels == ("Apple", "Pecan")
    code = (
        schema.fit({**ticks, "Shows? - Parade": ["Parade", None] * (N // 2)})
        .compile({**ticks, "Shows? - Parade": ["Parade", None] * (N // 2)})["Shows?"]
        .code
    )
    assert code[:2, 0].tolist() == [1, 0]  # the only option: blank is "not ticked"


@pytest.mark.parametrize(("sep", "yes"), [(".", 1), ("/", True), ("_", "yes")])
def test_options_beside_a_column_that_lists_them(sep: str, yes: Any) -> None:
    rng, options = np.random.default_rng(8), ["soap", "water_jar", "cloth", "none"]
    asked, chosen = rng.random(N) < 0.7, rng.random((N, 4)) < [0.5, 0.4, 0.3, 0.0]
    chosen[:, 3] = ~chosen.any(axis=1)
    words = np.asarray(options)
    lists = [" ".join(words[own]) if each else None for own, each in zip(chosen, asked, strict=True)]
    no = "no" if yes == "yes" else type(yes)(0)
    marks = np.where(asked[:, None], np.where(chosen, np.asarray(yes, object), no), None)
    columns = {f"items{sep}{option}": marks[:, place].tolist() for place, option in enumerate(options)}
    schema = infer({"age": rng.integers(18, 80, N), "items": lists, **columns})
    assert {name: column.kind for name, column in schema.items()} == {
        "age": "continuous", "items": "ignore", "items (2)": "multiselect"
    }  # fmt: skip
    assert schema["items (2)"].labels == tuple(options)
    other = {name: cells[::-1] for name, cells in columns.items()}
    assert infer({"items": lists, **other})["items"].kind == "multiselect"  # a question of its own


def test_options_as_zero_and_one_under_a_heading_that_says_select() -> None:
    rng = np.random.default_rng(6)
    table = {f"Which? Select all that apply. - {each}": rng.integers(0, 2, N) for each in "AB"}
    (column,) = infer(table).values()
    assert column.kind == "multiselect"
    assert column.labels == ("A", "B")
    assert {each.kind for each in infer({f"Which - {each}": rng.integers(0, 2, N) for each in "AB"}).values()} == {
        "binary"
    }


@pytest.mark.parametrize(
    "names",
    [
        [f"choice{place}" for place in range(1, 5)],
        ["1st response", "2nd response", "3rd response", "4th response"],
        ["first_choice", "second_choice", "third_choice", "fourth_choice"],
    ],
    ids=lambda names: names[0],
)
@pytest.mark.parametrize(
    "items", [["tea", "coffee", "water", "milk", "juice"], [1, 2, 3, 4, 5]], ids=["texts", "codes"]
)
def test_places_in_columns_are_one_ranking(names: list[str], items: list[Any]) -> None:
    rng = np.random.default_rng(3)
    orders = [rng.permutation(np.asarray(items, object)).tolist() for _ in range(N)]
    schema = infer({name: [order[place] for order in orders] for place, name in enumerate(names)})
    (column,) = schema.values()
    assert column.kind == "ranking"
    assert column.places == tuple(names)


def test_numbered_questions_with_one_scale_stay_apart() -> None:
    rng = np.random.default_rng(4)
    schema = infer({f"q{place}": rng.integers(1, 6, N) for place in range(1, 6)})
    assert {column.kind for column in schema.values()} == {"ordinal"}
    assert len(schema) == 5


def test_ranks_of_items_in_columns() -> None:
    rng = np.random.default_rng(5)
    ranks = np.array([rng.permutation(4) + 1 for _ in range(N)])
    schema = infer({f"Rank these [{item}]": ranks[:, place] for place, item in enumerate("ABCD")})
    (column,) = schema.values()
    assert column.kind == "ranking"
    assert dict(column.ranks) == {item: f"Rank these [{item}]" for item in "ABCD"}


# ---- files


def test_names_that_are_empty_or_occur_twice_are_changed_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,a,,a (2)\n1,2,3,4\n")
    with pytest.warns(SchemaWarning, match="names of .* were changed"):
        frame, _ = tb.read(path)
    assert frame.columns.tolist() == ["a", "a (3)", "column 3", "a (2)"]
    assert frame.iloc[0].tolist() == [1, 2, 3, 4]


def test_texts_of_old_spreadsheets_on_the_mac(tmp_path: Path) -> None:
    text = "How much\u00a0do you like Hershey’s?,Où?\nNot much\u00a0,à côté\nA lot,là\n" * 3
    frame, _ = read_text(text.encode("mac_roman"), tmp_path)
    assert frame.columns.tolist() == ["How much do you like Hershey’s?".replace("much do", "much\u00a0do"), "Où?"]
    frame, _ = read_text("née,q\nMcÉcole,déjà\nÉté,là\n".encode("cp1252"), tmp_path)
    assert frame["née"].tolist() == ["McÉcole", "Été"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_encodings_and_separators(encoding: str, separator: str, tmp_path: Path) -> None:
    lines = [
        ["née", "q"],
        *([city, answer] for city, answer in zip(["Köln", "Zürich"] * 20, ["Yes", "No"] * 20, strict=True)),
    ]
    text = "\n".join(separator.join(line) for line in lines)
    frame, schema = read_text(text.encode(encoding), tmp_path)
    assert frame.columns.tolist() == ["née", "q"]
    assert schema.fit(frame)["née"].labels == ("Köln", "Zürich")


def test_a_row_that_says_response_and_a_row_of_question_texts_are_headers(tmp_path: Path) -> None:
    frame, _ = read_text("id,Do you smoke?,Age\n,Response,Response\n1,Yes,18-29\n2,No,30-44\n", tmp_path)
    assert len(frame) == 2
    text = "q1,q2\nHow old are you now?,Which party do you like?\n31,Red\n44,Green\n"
    frame, schema = read_text(text, tmp_path)
    assert len(frame) == 2
    assert schema.titles == {"q1": "How old are you now?", "q2": "Which party do you like?"}
    frame, _ = read_text("q1,q2\nRed wine is best,Green tea it is\nTea is too hot,No idea at all\n", tmp_path)
    assert len(frame) == 2


def test_a_schema_file_can_recode_parse_and_name_scales(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(
        """
missing = [-9, "refused"]

[scales]
agreement = ["no", "somewhat", "yes"]

[columns.a]
kind = "ordinal"
levels = "agreement"
recode = {"Y" = "yes", "N" = "no"}

[columns.b]
kind = "continuous"
parse = "currency"
"""
    )
    schema = tb.Schema.from_toml(path)
    assert schema["a"].levels == ("no", "somewhat", "yes")
    table = {"a": ["Y", "somewhat", "refused", "N"], "b": ["$5", "-9", "$1,000", "refused"]}
    fitted = schema.fit(table)
    assert fitted.compile(table)["a"].code[:, 0].tolist() == [2, 1, -1, 0]
    assert fitted.compile(table)["b"].point[:, 0].tolist() == [True, False, True, False]
    fitted.to_toml(path)
    assert tb.Schema.from_toml(path) == fitted
    path.write_text('[columns.a]\nkind = "ordinal"\nlevels = "agrement"\n[scales]\nagreement = ["no", "yes"]\n')
    with pytest.raises(SchemaError, match=r'column "a": levels = "agrement" .* did you mean "agreement"'):
        tb.Schema.from_toml(path)


def test_explicit_levels_win_over_codes_of_the_whole_file() -> None:
    schema = tb.Schema({"a": tb.Ordinal([-9, 0, 9]), "b": tb.Continuous()}).declare_missing({-9: "refused"})
    assert codes_of(schema["a"]) == []
    assert schema["b"].missing == ((-9, "refused"),)
