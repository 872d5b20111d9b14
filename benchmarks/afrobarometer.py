"""Afrobarometer round 4 as the benchmarks read it: codes in order, missing codes out, rare codes merged.

`THURBO_DATA/afrobarometer-r4` holds the survey's own file and a description of its questions. Where pyreadstat is not
installed, `python -m benchmarks.afrobarometer FOLDER` elsewhere makes a copy of the codes that NumPy can read.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import thurbo as tb
from thurbo.table.io.codebook import Codebook
from thurbo.table.io.read_write import read_frame

CODES, MASK, SCHEMA = "r4_codes.npz", "r4_mask.npz", "schema.toml"
COUNTRIES = ("country_codes", "country_names")


class Survey(NamedTuple):
    """Answers as codes (NaN where there is none), the questions in order, the country of each row, cells to hide."""

    frame: pd.DataFrame
    questions: list[dict[str, Any]]
    country: np.ndarray
    mask: np.ndarray
    country_names: dict[int, str] = {}  # noqa: RUF012  (read only; empty where only codes are to be had)

    def names(self, *types: str, strict: bool = False) -> list[str]:
        """Questions of some types (all by default); `strict` leaves out those not asked in every country."""
        return [
            q["name"]
            for q in self.questions
            if (not types or q["type"] in types) and not (strict and "unasked_in" in q)
        ]

    def rows(self, index: np.ndarray) -> Survey:
        """The answers of some respondents."""
        frame = self.frame.iloc[index].reset_index(drop=True)
        return self._replace(frame=frame, country=self.country[index], mask=self.mask[index])


def folder() -> Path:
    """Where the survey is."""
    return Path(os.environ["THURBO_DATA"]) / "afrobarometer-r4"


def load() -> Survey:
    """Read the survey."""
    described = tomllib.loads((folder() / SCHEMA).read_text(encoding="utf-8"))
    questions, target = described["question"], described["target"]
    names = [q["name"] for q in questions]
    mask = np.load(folder() / MASK)
    assert mask["names"].tolist() == names
    if (folder() / CODES).exists():
        with np.load(folder() / CODES) as stored:  # answers already: their codes are not to be merged again
            table, named = stored["codes"].astype(float), [stored.get(key, []) for key in COUNTRIES]
        frame, country = pd.DataFrame(table[:, :-1], columns=names), table[:, -1]
        country_names = {int(code): str(text) for code, text in zip(*named, strict=True)}
    else:
        raw = read_frame(folder() / described["source"])
        frame, country = answers(raw, questions), raw[target].to_numpy()
        country_names = {int(code): text for code, text in Codebook.of(raw).note(target).names}
    return Survey(frame, questions, country.astype(int), mask["mask"], country_names)


def answers(raw: pd.DataFrame, questions: list[dict[str, Any]]) -> pd.DataFrame:
    """Codes as the questions' description reads them; what was mentioned before is no mention of its own."""
    columns: dict[str, pd.Series] = {}
    earlier: dict[str, list[str]] = {}
    for q in questions:
        values = pd.to_numeric(raw[q["name"]])
        values = values.replace({float(code): float(into) for code, into in q.get("merge", {}).items()})
        values = values.where(~values.isin(q["missing"]))
        for before in earlier.get(q.get("group", ""), []):
            values = values.where(values != columns[before])
        earlier.setdefault(q.get("group", q["name"]), []).append(q["name"])
        columns[q["name"]] = values
    return pd.DataFrame(columns)


def column(question: dict[str, Any]) -> tb.columns.Column:
    """What thurbo takes a question for."""
    if question["type"] == "continuous":
        return tb.Continuous()
    if question["type"] == "binary":
        return tb.Binary(true=float(question["levels"][1]), values=tuple(map(float, question["levels"])))
    if question["type"] == "ordinal":
        return tb.Ordinal(tuple(map(float, question["levels"])), unseen="missing")
    if question["type"] == "categorical":
        return tb.Categorical(tuple(map(float, question["levels"])), unseen="missing")
    return tb.Categorical(tuple(map(float, question["items"])), unseen="missing")


def main() -> None:
    """Copy the codes to a folder that NumPy alone can read."""
    survey = load()
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    codes = np.column_stack([survey.frame.to_numpy(float), survey.country.astype(float)])
    named = np.asarray(list(survey.country_names), int), np.asarray(list(survey.country_names.values()), str)
    np.savez_compressed(to / CODES, codes=codes, **dict(zip(COUNTRIES, named, strict=True)))
    for name in (SCHEMA, MASK):
        shutil.copyfile(folder() / name, to / name)


if __name__ == "__main__":
    main()
