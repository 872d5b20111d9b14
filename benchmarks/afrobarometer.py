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

CODES = "r4_codes.npz"


class Survey(NamedTuple):
    """Answers as codes (NaN where there is none), the questions in order, the country of each row, cells to hide."""

    frame: pd.DataFrame
    questions: list[dict[str, Any]]
    country: np.ndarray
    mask: np.ndarray

    def names(self, *types: str, strict: bool = False) -> list[str]:
        """Questions of some types (all by default); `strict` leaves out those not asked in every country."""
        return [
            q["name"]
            for q in self.questions
            if (not types or q["type"] in types) and not (strict and "unasked_in" in q)
        ]


def folder() -> Path:
    """Where the survey is."""
    return Path(os.environ["THURBO_DATA"]) / "afrobarometer-r4"


def load() -> Survey:
    """Read the survey."""
    described = tomllib.loads((folder() / "schema.toml").read_text())
    questions, target = described["question"], described["target"]
    names = [q["name"] for q in questions]
    if (folder() / CODES).exists():
        stored = np.load(folder() / CODES)
        raw = pd.DataFrame(stored["codes"].astype(float), columns=[*names, target])
    else:
        import pyreadstat

        raw, _ = pyreadstat.read_sav(str(folder() / described["source"]), user_missing=True, usecols=[*names, target])
    columns = {}
    for q in questions:
        values = pd.to_numeric(raw[q["name"]])
        values = values.replace({float(code): float(into) for code, into in q.get("merge", {}).items()})
        columns[q["name"]] = values.where(~values.isin(q["missing"]))
    mask = np.load(folder() / "r4_mask.npz")
    assert mask["names"].tolist() == names
    return Survey(pd.DataFrame(columns), questions, raw[target].to_numpy(int), mask["mask"])


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
    described = tomllib.loads((folder() / "schema.toml").read_text())
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    codes = np.column_stack([survey.frame.to_numpy(np.float32), survey.country.astype(np.float32)])
    np.savez_compressed(to / CODES, codes=codes)
    assert described["target"]
    for name in ("schema.toml", "r4_mask.npz"):
        shutil.copyfile(folder() / name, to / name)


if __name__ == "__main__":
    main()
