"""Example data: FiveThirtyEight's Star Wars survey, bundled; credit and licence (CC BY 4.0) in CREDITS.md.

Idea: a survey with binary, ordinal, categorical and ranked answers, so that all examples can be run.
Guarantees frames with readable column names, and a schema with the type of each column.
"""

from __future__ import annotations

import csv
import tomllib
from importlib.resources import files
from typing import Any, Literal

from thurbo.errors import ThurboError
from thurbo.table.schema.schema import Schema

_TICKS, _NUMBERS = "seen: ", ("respondent", "rank: ")  # beginnings of the names of columns that are no text


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
    schema = _schema("starwars")
    columns = _read(schema.names)
    if everything:
        schema = _schema("starwars_everything")
    if as_frame == "pandas":
        import pandas as pd

        def dtype(name: str) -> str:
            return "boolean" if name.startswith(_TICKS) else "Int64" if name.startswith(_NUMBERS) else "object"

        made = {name: pd.Series(cells, dtype=dtype(name)) for name, cells in columns.items()}
        return pd.DataFrame(made), schema
    if as_frame == "polars":
        import polars as pl

        return pl.DataFrame(columns), schema
    raise ThurboError(f'as_frame={as_frame!r} is not valid; use "pandas" or "polars"')


def _schema(name: str) -> Schema:
    return Schema.from_dict(tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8")))


def _read(names: tuple[str, ...]) -> dict[str, list[Any]]:
    # Latin-1, because the header, which has two rows, contains Windows dashes and spaces.
    text = files(__package__).joinpath("starwars.csv").read_bytes().decode("latin-1")
    answers = list(csv.reader(text.splitlines()))[2:]
    # "Unfamiliar" is not a level between unfavourable and favourable, so it counts as missing.
    columns: dict[str, list[Any]] = {
        name: [None if answer in ("", "Unfamiliar (N/A)") else answer for answer in map(str.strip, column)]
        for name, column in zip(names, zip(*answers, strict=True), strict=True)
    }
    for name in names:
        if name.startswith(_NUMBERS):
            columns[name] = [None if answer is None else int(answer) for answer in columns[name]]
    # An empty option means "not seen" only if the respondent answered the question. 101 respondents have seen a film
    # but selected none, and those who have seen none were not asked: for both groups, all six options are missing.
    options = [name for name in names if name.startswith(_TICKS)]
    boxes = zip(*(columns[name] for name in options), strict=True)
    answered = [seen == "Yes" and any(row) for seen, row in zip(columns["seen_any"], boxes, strict=True)]
    for name in options:
        columns[name] = [bool(box) if asked else None for box, asked in zip(columns[name], answered, strict=True)]
    return columns
