"""Small made tables in the styles of survey exports: header rows, marks, codes and wordings, read as people do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thurbo as tb
from tests.test_raw_columns import RNG, answers, codes_of, infer, read_text
from thurbo.errors import SchemaError
from thurbo.table.guess.one_column import sort_codes
from thurbo.table.io.codebook import Note

N = 120


def boxes(names: list[str], seed: int = 0, share: float = 0.4) -> np.ndarray:
    """Which boxes are ticked: [row, box]."""
    return np.random.default_rng(seed).random((N, len(names))) < share


# ---- header rows


def test_options_below_a_question_in_a_table_that_pandas_has_saved(tmp_path: Path) -> None:
    """Names of columns without a name, a row number, and the second header row as the first row of the table."""
    ticked, words = boxes(["mail", "phone", "post"]), ["Mail", "Phone", "Post"]
    lines = [",Do you write?,How do you write?,Unnamed: 3,Unnamed: 4", "0,Response,Mail,Phone,Post"]
    for row, own in enumerate(ticked, start=1):
        marks = [word if tick else "" for word, tick in zip(words, own, strict=True)]
        lines.append(",".join([str(row), ["Yes", "No"][row % 2], *marks]))
    frame, schema = read_text("\n".join(lines), tmp_path)
    assert len(frame) == N
    assert [column.kind for column in schema.values()] == ["id", "binary", "multiselect"]
    assert schema["How do you write?"].labels == ("Mail", "Phone", "Post")


def test_questions_of_their_own_below_blank_names(tmp_path: Path) -> None:
    ticked, words = boxes(["a", "b", "c"], 1), ["Laptop", "Tablet", "Phone"]
    lines = [",What do you own?,,,,,", "#,Laptop,Tablet,Phone,Other,How often do you write?,Do you read?"]
    for row, own in enumerate(ticked):
        marks = [word if tick else "" for word, tick in zip(words, own, strict=True)]
        lines.append(
            ",".join([f"r{row:04}x", *marks, "", ["Never", "Often", "Sometimes"][row % 3], "Yes"[: 3 * (row % 2)]])
        )
    frame, schema = read_text("\n".join(lines), tmp_path)
    assert len(frame) == N
    assert schema["What do you own?"].labels == tuple(words)
    assert schema["How often do you write?"].labels == ("Never", "Sometimes", "Often")


def test_a_second_and_a_third_other_belong_to_no_question(tmp_path: Path) -> None:
    ticked = boxes(["a", "b", "o"], 2)
    other = "Other (please specify)"
    lines = [f"id,Which language?,,,,,\n,C,Java,{other},{other} Comment,{other},{other} Comment"]
    for row, own in enumerate(ticked):
        marks = [word if tick else "" for word, tick in zip(["C", "Java", other], own, strict=True)]
        twice = row < 3
        lines.append(",".join([str(row), *marks, "Go" * bool(own[2]), other * twice, "Perl" * twice]))
    _, schema = read_text("\n".join(lines), tmp_path)
    assert schema["Which language?"].labels == ("C", "Java", other)
    assert sum(column.kind == "multiselect" for column in schema.values()) == 1


# ---- marks


def test_one_and_minus_one_are_ticks_and_minus_one_beside_a_scale_is_no_answer() -> None:
    ticked = boxes(list("abc"), 3)
    table: dict[str, Any] = {f"Q9_{k + 1}": np.where(ticked[:, k], 1, -1) for k in range(3)}
    table |= {f"Q8_{k}": answers([1, 2, 3, 4], N, [-1] * 3)[:N] for k in (1, 2)}
    schema = infer(table).fit(table)
    assert schema["Q9"].kind == "multiselect"
    code = schema.compile(table)["Q9"].code
    assert np.array_equal(code == 1, ticked)
    assert not (code == -1).any()


def test_options_beside_a_field_for_what_else_it_may_be() -> None:
    ticked = boxes(["India", "Europe"], 4)
    table: dict[str, Any] = {
        f"Markets now [{name}]": np.where(ticked[:, k], "Yes", "No") for k, name in enumerate(["India", "Europe"])
    }
    assert {column.kind for column in infer(table).values()} == {"binary"}
    other = {"Markets now [Other]": ["Japan & US", "China", "Mars", *[None] * (N - 3)]}
    schema = infer(table | other)
    assert schema["Markets now"].labels == ("India", "Europe")


def test_columns_that_are_not_asked_together_are_not_one_answer() -> None:
    """Each yes or no, never both yes, because the second is asked only after no."""
    rng = np.random.default_rng(5)
    near = rng.random(N) < 0.8
    far = np.where(near, None, np.where(rng.random(N) < 0.5, "yes", "no"))
    table = {"shop_near": np.where(near, "yes", "no"), "shop_far": far}
    assert {name: column.kind for name, column in infer(table).items()} == dict.fromkeys(table, "binary")


def test_yes_and_no_stay_two_answers_where_other_columns_have_a_third() -> None:
    rng = np.random.default_rng(6)
    table = {f"has_{k}": rng.choice(["yes", "no"], N) for k in "abc"}
    table |= {f"had_{k}": rng.choice(["yes", "no", "dontknow"], N, p=[0.5, 0.45, 0.05]) for k in "ab"}
    schema = infer(table)
    assert {column.kind for column in schema.values()} == {"binary"}
    assert codes_of(schema["had_a"]) == ["dontknow"]


# ---- codes and numbers


def test_short_codes_of_places_are_answers() -> None:
    places = ["US", "GB", "DE", "DK", "FR", "IN", "BR", "NA"]
    assert "DK" in infer({"country": answers(places, N)})["country"].labels
    assert codes_of(infer({"q": answers(["Yes", "No", "Maybe"], N, ["DK"])})["q"]) == ["DK"]


def test_infinite_numbers_count_as_missing_and_the_fit_goes_on() -> None:
    table = {"ratio": [*np.random.default_rng(7).random(N - 2).round(3).tolist(), np.inf, -np.inf]}
    schema = infer(table)
    assert "2 infinite numbers" in schema.reasons["ratio"]
    assert schema.confidence["ratio"] < 0.8
    assert (~schema.fit(table).compile(table)["ratio"].answered).sum() == 2


def test_one_slip_makes_no_codes_of_numbers(tmp_path: Path) -> None:
    rows = [*(str(number) for number in range(100)), "00", *["5"] * 40]
    _, schema = read_text("n\n" + "\n".join(rows), tmp_path)
    assert schema["n"].kind == "continuous"
    _, schema = read_text("n\n" + "\n".join(["034", "012", "120", "034", "700"] * 20), tmp_path)
    assert schema["n"].kind == "categorical"


def test_the_same_boolean_everywhere_is_no_question() -> None:
    assert infer({"all": [True] * N, "some": [True, False] * (N // 2)})["all"].kind == "ignore"


# ---- words


@pytest.mark.parametrize(
    "levels",
    [
        ["Days", "Weeks", "Months", "Years"],
        ["Low: we are at the start", "Medium: we are on the way", "High: we are all in"],
        ["Never -- I don't use it.", "Rarely -- I know how.", "Sometimes -- at work.", "Frequently -- each day."],
        ["rarely/never", "sporadic", "always"],
        ["Not relevant for me", "Somewhat useful", "Critical to me"],
        ["Not at all important", "Less important", "Neutral", "Important", "Very important"],
        ["Worsen", "No effect", "Improve"],
        ["No", "Not really", "Somewhat", "Very"],
        ["1-5 hours per week", "5-10 hours per week", "more than 10hours per week"],
        ["15,000 - 20,000 baht", "21,000 - 30,000 baht", "31,000 - 40,000 baht", "over 40,000 baht"],
    ],
    ids=lambda levels: levels[0],
)
def test_orders(levels: list[str]) -> None:
    column = infer({"q": answers(levels[::-1], N)})["q"]
    assert column.has_order
    assert column.labels == tuple(levels)


def test_who_does_not_know_but_says_more_has_answered() -> None:
    cells = answers(["SSH", "Slurm", "By hand", "I don't know, somebody else starts it for me"], N, ["I don't know"])
    assert codes_of(infer({"q": cells})["q"]) == ["I don't know"]


def test_a_list_that_names_no_answer_too_is_a_list() -> None:
    rng, options = np.random.default_rng(8), np.asarray(["White", "Asian", "Black", "Prefer not to answer"])
    cells = [", ".join(options[own]) for own in rng.random((300, 4)) < [0.6, 0.4, 0.3, 0.05]]
    table = {"q": [*cells, *["Prefer not to answer"] * 9]}
    schema = infer(table).fit(table)
    assert schema["q"].labels == ("Asian", "Black", "White")
    assert codes_of(schema["q"]) == ["Prefer not to answer"]
    chosen = schema.compile(table)["q"].code
    assert (chosen[:300, 0] == 1).sum() == sum("Asian" in cell for cell in cells)


def test_identifiers_that_several_rows_share_are_no_numbers() -> None:
    rng = np.random.default_rng(9)
    table = {
        "deviceid": rng.choice([358000000000000, 356000000000001, 357000000000007], N),
        "interviewer_id": np.arange(N) // 4 + 100,
    }
    schema = infer(table)
    assert [column.kind for column in schema.values()] == ["categorical", "ignore"]
    assert schema.confidence["deviceid"] < 0.8


def test_numbers_that_all_differ_are_to_be_checked() -> None:
    rng = np.random.default_rng(10)
    numbers = rng.choice(100_000, N, replace=False)
    assert infer({"x": numbers}).confidence["x"] < 0.8
    assert infer({"x": numbers // 700}).confidence["x"] >= 0.8


def test_the_texts_of_questions_can_be_written_later() -> None:
    schema = tb.Schema({"q7": tb.Ordinal(["never", "often"])}).with_titles({"q7": "How often do you cry?"})
    assert schema.display_names == {"q7": "How often do you cry?"}
    assert tb.Schema.from_dict(schema.to_dict()).titles == schema.titles
    with pytest.raises(SchemaError, match="q8"):
        schema.with_titles({"q8": "?"})


# ---- titles above the names


TITLES = ["Staff survey 2023,,,,", "Exported by HR,,,,", ",,,,"]


@pytest.mark.parametrize("above", [TITLES[:1], TITLES, ["Staff survey 2023", "", "12.05.2023"]])
def test_titles_above_the_names_are_passed_over_and_stay_in_the_file(tmp_path: Path, above: list[str]) -> None:
    rows = [f"{row},{['HR', 'IT'][row % 2]},{20 + row % 9},{['bad', 'ok', 'good'][row % 3]}," for row in range(60)]
    text = "\n".join([*above, "Nr.,Dept,Age,Canteen,Remarks", *rows]) + "\n"
    frame, schema = read_text(text, tmp_path)
    assert (len(frame), [str(name) for name in frame.columns]) == (60, ["Nr.", "Dept", "Age", "Canteen", "Remarks"])
    assert schema["Canteen"].labels == ("bad", "ok", "good")
    frame["p"] = 0.5
    tb.write(frame, tmp_path / "filled.csv", like=tmp_path / "table.csv")
    lines = (tmp_path / "filled.csv").read_text().splitlines()
    assert lines[-61].split(",")[0::5] == ["Nr.", "p"]
    assert lines[0].startswith("Staff survey 2023")


def test_a_question_above_its_options_is_no_title(tmp_path: Path) -> None:
    ticked, words = boxes(["mail", "phone", "post"], 1), ["Mail", "Phone", "Post"]
    lines = [",".join(word if tick else "" for word, tick in zip(words, own, strict=True)) for own in ticked]
    lines = [f"{row % 2},{line}" for row, line in enumerate(lines)]
    _, schema = read_text("\n".join(["How do you write?,,,", "Often,Mail,Phone,Post", *lines]), tmp_path)
    assert any(column.kind == "multiselect" for column in schema.values())


# ---- answers in other languages

IN_OTHER_WORDS = [
    ("Trifft gar nicht zu|Trifft eher nicht zu|Teils/teils|Trifft eher zu|Trifft voll und ganz zu", "weiß nicht"),
    ("Stimme überhaupt nicht zu|Stimme nicht zu|Neutral|Stimme zu|Stimme voll und ganz zu", "keine Angabe"),
    ("nie|selten|manchmal|häufig|sehr häufig", ""),
    ("Nie|Seltener|Mehrmals im Jahr|Mehrmals im Monat|Mehrmals pro Woche|Täglich", ""),
    ("unter 1.000 €|1.000 € bis unter 2.000 €|2.000 € bis unter 3.000 €|3.000 € und mehr", "Keine Angabe"),
    ("Pas du tout d’accord|Plutôt pas d’accord|Plutôt d’accord|Tout à fait d’accord", "Ne sait pas"),
    ("Jamais|Moins d'une fois par mois|Une à trois fois par mois|Une fois par semaine|Tous les jours", ""),
    ("Certainement pas|Probablement pas|Peut-être|Probablement|Certainement", "Ne souhaite pas répondre"),
    ("Très mauvaise|Mauvaise|Moyenne|Bonne|Très bonne", "NSP"),
    ("Moins de 1 500 €|1 500 à 2 499 €|2 500 à 3 999 €|4 000 € et plus", "NSP"),
    ("Totalmente en desacuerdo|En desacuerdo|Ni de acuerdo ni en desacuerdo|De acuerdo", "No sabe / No contesta"),
    ("Nunca|Casi nunca|A veces|Casi siempre|Siempre", "NS/NC"),
    ("Nada satisfecho|Poco satisfecho|Algo satisfecho|Bastante satisfecho|Muy satisfecho", "Prefiero no contestar"),
    ("Per niente d'accordo|Poco d'accordo|Abbastanza d'accordo|Molto d'accordo", "Non so"),
    ("Discordo totalmente|Discordo|Não concordo nem discordo|Concordo|Concordo totalmente", "Não sei"),
    ("Helemaal mee oneens|Mee oneens|Neutraal|Mee eens|Helemaal mee eens", "Weet niet"),
    ("Meget utilfreds|Utilfreds|Hverken eller|Tilfreds|Meget tilfreds", "Ved ikke"),
    ("Aldrig|Sällan|Ibland|Ofta|Alltid", "Vet ej"),
    ("Aldrig|Någon gång per år|Någon gång per månad|Varje vecka|Varje dag", ""),
    ("Nunca|Rara vez|Algunas veces|Frecuentemente|Siempre", ""),
    ("Ninguna confianza|Poca confianza|Algo de confianza|Mucha confianza", "Ns/Nc"),
    ("Pas d'accord du tout|Plutôt pas d'accord|Ni l'un ni l'autre|Plutôt d'accord|Tout à fait d'accord", ""),
    ("Très négatif|Plutôt négatif|Neutre|Plutôt positif|Très positif", "Sans opinion"),
    ("Zeer ontevreden|Ontevreden|Niet tevreden, niet ontevreden|Tevreden|Zeer tevreden", "Niet van toepassing"),
]


@pytest.mark.parametrize(("scale", "aside"), IN_OTHER_WORDS)
def test_scales_in_other_languages(scale: str, aside: str) -> None:
    levels = scale.split("|")
    column = infer({"q": answers(levels, extra=[aside] * 9 if aside else [])})["q"]
    assert column.labels == tuple(levels)
    assert codes_of(column) == [aside] * bool(aside)


def test_yes_and_no_and_boxes_in_other_languages() -> None:
    table = {"kinder": answers(["Ja", "Nein"]), "fume": answers(["Oui", "Non"]), "hijos": answers(["Sí", "No"])}
    schema = infer(table).fit(table)
    assert [schema[name].labels for name in table] == [("Nein", "Ja"), ("Non", "Oui"), ("No", "Sí")]
    words = ["Zeitung", "Radio", "Internet"]
    marks = np.where(boxes(words).T, "Ja", "Nein")
    ticked = {f"Welche Medien? [{word}]": own for word, own in zip(words, marks, strict=True)}
    beside = {"Welche Medien? [Sonstiges]": [None] * (N - 3) + ["Tafel", "Plakat", "App"]}
    schema = infer({**ticked, **beside})
    assert schema["Welche Medien?"].labels == tuple(words)
    assert schema["Welche Medien? [Sonstiges]"].kind == "ignore"


def test_options_in_round_brackets_or_after_a_question_mark_are_one_question() -> None:
    words = ["Mail", "Phone", "None of the above"]
    marks = np.where(boxes(words).T, "Yes", "No")
    ticked = {f"How did you write? ({word})": own for word, own in zip(words, marks, strict=True)}
    assert infer(ticked)["How did you write?"].labels == tuple(words)
    ticked = {
        f"Q1_{at}. Which did you see? {word}": own for at, (word, own) in enumerate(zip(words, marks, strict=True))
    }
    assert infer(ticked)["Which did you see?"].labels == tuple(words)
    ages = {f"age ({unit})": RNG.integers(1, 90, N) for unit in ("years", "dog years")}
    assert [column.kind for column in infer(ages).values()] == ["continuous", "continuous"]


def test_names_of_places_stay_names_in_every_language() -> None:
    for names in (["NC", "NS", "SC", "VA"], ["Nice", "Bonn", "Paris", "Pau"], ["Regular", "Premium", "Gold"]):
        column = infer({"q": answers(names)})["q"]
        assert (column.kind, set(column.labels), codes_of(column)) == ("categorical", set(names), [])


# ---- more wordings


@pytest.mark.parametrize(
    "scale",
    [
        "Much too slow|Slightly too slow|About right|Slightly too fast|Much too fast",
        "Far too small|Too small|About right|Too large|Far too large",
        "Very low effort|Low effort|Neutral|High effort|Very high effort",
        "Very slow (1)|Slow (2)|OK (3)|Fast (4)|Very fast (5)",
        "Never heard of it|Heard of it, but never used it|Used it once or twice|Use it regularly",
        "Not at all confident|Slightly confident|Moderately confident|Quite confident|Extremely confident",
        "Far below expectations|Below expectations|Met expectations|Above expectations|Far above expectations",
        "Much worse than expected|Worse than expected|As expected|Better than expected|Much better than expected",
        "Hated it|Didn't like it|It was OK|Liked it|Loved it",
        "Mild|Medium|Hot|Extra hot",
        "Does not meet expectations|Partially meets expectations|Meets expectations|Exceeds expectations",
        "I have no problems in walking about|I have slight problems in walking about|I am unable to walk about",
        "Very cheap|Cheap|Fair|Expensive|Very expensive",
        "More than 3 months ago|1-3 months ago|8-30 days ago|Within the last 7 days",
        "Never|More than 5 years ago|1-5 years ago|Within the last year",
        "Never|Longer ago|Within the last 3 months|Within the last month|Within the last week",
        "Never|5 or more years ago|Within the past 5 years|Within the past 2 years (or so)|In the past year",
        "Longer ago|Last week|Yesterday|Today",
        "😡 Very dissatisfied|🙁 Dissatisfied|😐 Neutral|🙂 Satisfied|😀 Very satisfied",
        "1/5|2/5|3/5|4/5|5/5",
        "Never|Once or twice|2 or 3 times a month|About once a week|Several times a week",
        "Not nearly sweet enough|Not quite sweet enough|Just about right|A little too sweet|Much too sweet",
        "Does not describe me at all|Describes me slightly|Describes me very well|Describes me extremely well",
        "None of it|Less than a quarter|About half|Most of it|All of it",
        "Did not go to school|Primary|Lower secondary|Upper secondary|University",
        "Not at all strongly|Not very strongly|Fairly strongly|Very strongly",
        "low|mid|high",
        "Left|Centre-left|Centre|Centre-right|Right",
        "First choice|Second choice|Third choice",
        "Freshman|Sophomore|Junior|Senior",
        "1st year|2nd year|3rd year|4th year or above",
        "★|★★|★★★|★★★★|★★★★★",
        "⭐️|⭐️⭐️|⭐️⭐️⭐️",
    ],
)
def test_more_scales_in_words_and_signs(scale: str) -> None:
    assert infer({"q": answers(scale.split("|"))})["q"].labels == tuple(scale.split("|"))


@pytest.mark.parametrize(
    ("false", "true"),
    [
        ("No children", "Has children"),
        ("Not employed", "Employed"),
        ("Non-white", "White"),
        ("Disagree", "Agree"),
        ("Never", "Sometimes"),
        ("Low", "High"),
    ],
)
def test_of_two_answers_the_negated_or_the_lower_one_is_false(false: str, true: str) -> None:
    table = {"q": answers([true, false])}
    assert infer(table).fit(table)["q"].labels == (false, true)


def test_a_comma_before_a_capital_is_part_of_an_option_that_is_always_whole() -> None:
    rng, options = np.random.default_rng(3), np.asarray(["Facebook, Instagram or others", "Friends", "TV", "Radio"])
    cells = [", ".join(options[own]) for own in rng.random((300, 4)) < 0.5]
    assert set(infer({"q": cells})["q"].labels) == set(options)


def test_every_spelling_of_no_answer_is_no_answer() -> None:
    spellings = ["N.A.", "n.a.", "Don't know", "don't know", "DON'T KNOW"]
    table = {"q": answers(["Never", "Sometimes", "Often"], extra=[*spellings * 3, "never", "OFTEN"])}
    schema = infer(table).fit(table)
    assert schema["q"].labels == ("Never", "Sometimes", "Often")
    assert set(codes_of(schema["q"])) == set(spellings)


def test_names_in_a_small_table_are_no_categories() -> None:
    schema = infer({"name": [f"P{row}" for row in range(14)], "town": ["Rome", "Oslo"] * 7})
    assert [column.kind for column in schema.values()] == ["ignore", "binary"]


def test_codes_with_blanks_between_are_lists_of_options() -> None:
    options = ["phone", "radio", "tv_set"]
    cells = [" ".join(np.asarray(options)[own]) for own in boxes(options)]
    schema = infer({"q": cells}).fit({"q": cells})
    assert schema["q"].labels == tuple(options)
    assert (schema.compile({"q": cells})["q"].code == 1).sum() == boxes(options).sum()
    plain = infer({"q": answers(["good", "very good", "bad", "very bad"]), "r": answers(["red", "blue", "red blue"])})
    assert [column.kind for column in plain.values()] == ["ordinal", "categorical"]


def test_every_spelling_of_an_option_alone_and_in_lists_is_one_option() -> None:
    table = {"q": answers(["red", "green", "blue", "red; green", "blue; red"], extra=["RED", "red.", "Green; red"])}
    schema = infer(table).fit(table)
    assert schema["q"].labels == ("blue", "green", "red")
    schema.compile(table)


def test_an_empty_text_is_no_answer_beside_others_and_no_option_in_lists() -> None:
    schema = infer({"q": answers(["Never", "Sometimes", "Often", ""]), "r": answers(["a; b", "a", "b; c", "c", ""])})
    assert schema["q"].labels == ("Never", "Sometimes", "Often")
    assert schema["q"].missing == (("", "blank"),)
    assert schema["r"].missing == ()


def test_an_answer_that_may_be_a_level_is_set_apart_only_to_be_checked() -> None:
    schema = infer({"q": answers(["Never", "Sometimes", "Usually", "Always", "I did not ask"])})
    assert codes_of(schema["q"]) == ["I did not ask"]
    assert schema.confidence["q"] < 0.8
    schema = infer({"q": answers(["Never", "Sometimes", "Usually", "Always", "Not applicable", "Other"])})
    assert schema.confidence["q"] >= 0.8


def test_a_code_with_an_empty_label_is_an_answer() -> None:
    found = sort_codes([1, 2, 3], Note(names=((1, "a"), (2, ""), (3, "Refused"))))
    assert (found.answers, found.missing) == ([1, 2], {3: "Refused"})
