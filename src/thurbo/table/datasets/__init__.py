"""Example data: FiveThirtyEight's Star Wars survey, bundled; credit and licence (CC BY 4.0) in CREDITS.md.

Idea: a survey with binary, ordinal, categorical and ranked answers, so that all examples can be run.
Guarantees frames with readable column names, and a schema with the type of each column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Literal

from thurbo.errors import ThurboError
from thurbo.table.columns.categorical import Categorical
from thurbo.table.columns.column import Column
from thurbo.table.columns.ignore import Ignore
from thurbo.table.columns.multiselect import MultiSelect
from thurbo.table.columns.ordinal import Binary, Ordinal
from thurbo.table.columns.ranking import Ranking
from thurbo.table.schema.routing import Skip
from thurbo.table.schema.schema import Schema

FILMS = (
    "The Phantom Menace",
    "Attack of the Clones",
    "Revenge of the Sith",
    "A New Hope",
    "The Empire Strikes Back",
    "Return of the Jedi",
)
CHARACTERS = (
    "Han Solo",
    "Luke Skywalker",
    "Princess Leia Organa",
    "Anakin Skywalker",
    "Obi Wan Kenobi",
    "Emperor Palpatine",
    "Darth Vader",
    "Lando Calrissian",
    "Boba Fett",
    "C-3P0",
    "R2 D2",
    "Jar Jar Binks",
    "Padme Amidala",
    "Yoda",
)
FAVOURABILITY = (
    "Very unfavorably",
    "Somewhat unfavorably",
    "Neither favorably nor unfavorably (neutral)",
    "Somewhat favorably",
    "Very favorably",
)
AGES = ("18-29", "30-44", "45-60", "> 60")
INCOMES = ("$0 - $24,999", "$25,000 - $49,999", "$50,000 - $99,999", "$100,000 - $149,999", "$150,000+")
EDUCATIONS = (
    "Less than high school degree",
    "High school degree",
    "Some college or Associate degree",
    "Bachelor degree",
    "Graduate degree",
)

SHOT_FIRST = ("Han", "Greedo", "I don't understand this question")
REGIONS = (
    "New England",
    "Middle Atlantic",
    "South Atlantic",
    "East North Central",
    "East South Central",
    "West North Central",
    "West South Central",
    "Mountain",
    "Pacific",
)

_SEEN = tuple(f"seen: {film}" for film in FILMS)
_RANK = tuple(f"rank: {film}" for film in FILMS)
_EXTENDED = ("shot_first", "knows_expanded_universe", "fan_expanded_universe", "fan_star_trek")
_PEOPLE = ("gender", "age", "income", "education", "region")
_NAMES = ("respondent", "seen_any", "fan", *_SEEN, *_RANK, *CHARACTERS, *_EXTENDED, *_PEOPLE)

_SEEN_TITLE = "Which of the following Star Wars films have you seen? Please select all that apply."
_RANK_TITLE = (
    "Please rank the Star Wars films in order of preference with 1 being your favorite film in the franchise and 6 "
    "being your least favorite film."
)
_VIEW_TITLE = (
    "Please state whether you view the following characters favorably, unfavorably, or are unfamiliar with him/her."
)
# The questions as they were asked.
_TITLES = {
    "seen_any": "Have you seen any of the 6 films in the Star Wars franchise?",
    "fan": "Do you consider yourself to be a fan of the Star Wars film franchise?",
    **dict.fromkeys(("seen", *_SEEN), _SEEN_TITLE),
    **dict.fromkeys(("films", *_RANK), _RANK_TITLE),
    **dict.fromkeys(CHARACTERS, _VIEW_TITLE),
    "shot_first": "Which character shot first?",
    "knows_expanded_universe": "Are you familiar with the Expanded Universe?",
    "fan_expanded_universe": "Do you consider yourself to be a fan of the Expanded Universe?",
    "fan_star_trek": "Do you consider yourself to be a fan of the Star Trek franchise?",
    "income": "Household Income",
    "region": "Location (Census Region)",
}


def load_starwars(as_frame: Literal["pandas", "polars"] = "pandas", *, everything: bool = False) -> tuple[Any, Schema]:
    """Load the Star Wars survey: 1,186 respondents, 38 columns.

    Parameters
    ----------
    as_frame : {"pandas", "polars"}, default "pandas"
        Library of the frame.
    everything : bool, default False
        By default the schema has 29 binary and ordinal columns in the model. With True it has every question: the
        films seen as a MultiSelect ("seen"), their order as a Ranking ("films"), and two Categorical columns.

    Returns
    -------
    frame : pandas.DataFrame or polars.DataFrame
    schema : Schema

    Examples
    --------
    >>> import thurbo as tb
    >>> frame, schema = tb.datasets.load_starwars(everything=True)
    >>> frame.shape
    (1186, 38)
    >>> schema["films"].labels[:2]
    ('The Phantom Menace', 'Attack of the Clones')
    """
    columns, schema = _read(), _everything() if everything else _schema()
    if as_frame == "pandas":
        import pandas as pd

        frame = pd.DataFrame({name: pd.Series(cells, dtype=_dtype(name)) for name, cells in columns.items()})
        return frame, schema
    if as_frame == "polars":
        import polars as pl

        return pl.DataFrame(columns), schema
    raise ThurboError(f'as_frame={as_frame!r} is not valid; use "pandas" or "polars"')


def _dtype(name: str) -> str:
    if name in _SEEN:
        return "boolean"
    return "Int64" if name in _RANK or name == "respondent" else "object"


def _read() -> dict[str, list[Any]]:
    # Latin-1, because the header, which has two rows, contains Windows dashes and spaces.
    text = files("thurbo.table.datasets").joinpath("starwars.csv").read_bytes().decode("latin-1")
    answers = list(csv.reader(text.splitlines()))[2:]
    columns: dict[str, list[Any]] = {
        name: [answer.strip() or None for answer in column]
        for name, column in zip(_NAMES, zip(*answers, strict=True), strict=True)
    }
    for name in ("respondent", *_RANK):
        columns[name] = [None if answer is None else int(answer) for answer in columns[name]]
    for name in CHARACTERS:
        # "Unfamiliar" is not a level between unfavourable and favourable, so it counts as missing.
        columns[name] = [None if answer == "Unfamiliar (N/A)" else answer for answer in columns[name]]
    return columns | _ticks(columns)


def _ticks(columns: dict[str, list[Any]]) -> dict[str, list[bool | None]]:
    """Select-all options as true, false or missing.

    An empty option means "not seen" only if the respondent answered the question. 101 respondents have seen a film
    but selected none, and those who have seen none were not asked: for both groups, all six options are missing.
    """
    boxes = list(zip(*(columns[name] for name in _SEEN), strict=True))
    answered = [seen == "Yes" and any(row) for seen, row in zip(columns["seen_any"], boxes, strict=True)]
    return {
        name: [bool(box) if asked else None for box, asked in zip(columns[name], answered, strict=True)]
        for name in _SEEN
    }


def _schema() -> Schema:
    yes_or_no = Binary(values=("No", "Yes"))
    known: dict[str, Column] = {
        "respondent": Ignore("an identifier"),
        **dict.fromkeys(_SEEN, Binary(values=(False, True))),
        **dict.fromkeys(_RANK, Ignore("ranks of one question; use everything=True")),
        **dict.fromkeys(CHARACTERS, Ordinal(FAVOURABILITY)),
        "shot_first": Ignore("three unordered answers; use everything=True"),
        "gender": Binary(values=("Male", "Female")),
        "age": Ordinal(AGES),
        "income": Ordinal(INCOMES),
        "education": Ordinal(EDUCATIONS),
        "region": Ignore("nine unordered regions; use everything=True"),
    }
    return _routed({name: known.get(name, yes_or_no) for name in _NAMES})


def _routed(columns: dict[str, Column]) -> Schema:
    """The schema with the routing of the questionnaire: who has seen no film was asked little else."""
    apart = ("seen_any", "fan_expanded_universe", "fan_star_trek", *_PEOPLE)
    asked = [name for name, column in columns.items() if column.role == "answer" and name not in apart]
    more = Skip(("fan_expanded_universe",), "knows_expanded_universe", ("Yes",))
    return Schema(columns, titles=_titles(columns), skips=[Skip(tuple(asked), "seen_any", ("Yes",)), more])


def _everything() -> Schema:
    """Every question; the six columns of films seen and the six columns of ranks are one question each."""
    known: dict[str, Column] = {}
    for name, column in _schema().items():
        if name == _SEEN[0]:
            known["seen"] = MultiSelect(columns=dict(zip(FILMS, _SEEN, strict=True)))
        elif name == _RANK[0]:
            known["films"] = Ranking(ranks=dict(zip(FILMS, _RANK, strict=True)))
        elif name not in _SEEN + _RANK:
            known[name] = column
    return _routed({**known, "shot_first": Categorical(SHOT_FIRST), "region": Categorical(REGIONS)})


def _titles(names: Iterable[str]) -> dict[str, str]:
    return {name: _TITLES[name] for name in names if name in _TITLES}
