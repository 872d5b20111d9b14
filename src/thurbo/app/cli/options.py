"""Arguments and options that several commands share, each with one name and one help text.

Options that go together are a group: a command names the group, and `app.command` gives it all of them.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer


class Objective(StrEnum):
    """The training objective."""

    AUTO = "auto"
    LIKELIHOOD = "likelihood"
    MULTI_PREDICTION = "multi-prediction"
    EXACT = "exact"


class Unobserved(StrEnum):
    """How missing cells are treated."""

    MARGINALIZE = "marginalize"
    EXCLUDE = "exclude"


class Ordinals(StrEnum):
    """How ordered levels are modelled: a utility per level, or cuts of one scale."""

    UTILITIES = "utilities"
    CUTS = "cuts"


class Masking(StrEnum):
    """Which cells training masks and predicts."""

    CELLS = "cells"
    NEIGHBOURS = "neighbours"


class Hidden(StrEnum):
    """The output of `transform`."""

    PROBABILITY = "probability"
    LOG_ODDS = "log_odds"


class Sampling(StrEnum):
    """How new rows are generated."""

    AUTO = "auto"
    SEQUENTIAL = "sequential"
    GIBBS = "gibbs"
    MODES = "modes"


def _limit_threads(count: int | None) -> int | None:
    """Limit the threads of all libraries; each reads its own environment variable when it is first loaded."""
    if count is not None:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC", "NPROC"):
            os.environ[name] = str(count)
        if count == 1:
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return count


Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file written by `thurbo fit`.", show_default=False)
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv .tsv .parquet .feather .sav .zsav .por .dta",
        show_default=False,
    ),
]
ModelOrData = Annotated[
    Path, typer.Argument(metavar="MODEL|DATA", help="A model file, or a table to fit anew.", show_default=False)
]
DataOfModel = Annotated[
    Path | None, typer.Argument(metavar="DATA", help="After MODEL: a table of other respondents.", show_default=False)
]
Folds = Annotated[
    int | None,
    typer.Option(
        min=2, help="Without MODEL: number of folds, each with a fit of its own; by default 5.", show_default=False
    ),
]
Hide = Annotated[
    float | None,
    typer.Option(
        help="Share of the answers to mask; by default 0.1. Without MODEL: instead of --folds.", show_default=False
    ),
]
Repeats = Annotated[int, typer.Option(min=1, help="Without MODEL: number of fits with --hide.")]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", help="File to write; the extension selects the format.", show_default=False),
]
EscapeFormulas = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="In .csv and .tsv, put an apostrophe in front of text that starts with = + - @, for spreadsheet programs.",
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", "-s", help="Type of each column, a TOML file; inferred by default.", show_default=False),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="Values that mean no answer in every column, separated by commas, with a name if you like: -9=refused,-8",
        show_default=False,
    ),
]
Row = Annotated[
    str | None,
    typer.Option(
        "--row", help="For a long table (one line per score): the column of row identifiers.", show_default=False
    ),
]
Item = Annotated[str | None, typer.Option("--item", help="For a long table: the column of items.", show_default=False)]
Score = Annotated[
    str | None,
    typer.Option(
        "--score",
        help="For a long table: the column of scores, higher is better; without it, lines are ordered best first.",
        show_default=False,
    ),
]
Columns = Annotated[
    Path | None,
    typer.Option(
        "--columns", help="For a long table: a second table with other questions, one line per row.", show_default=False
    ),
]
ItemList = Annotated[
    str | None,
    typer.Option(
        "--item-list",
        help="For lists of items: the items that are asked about, separated by commas.",
        show_default=False,
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--given",
        help="A condition: 'age >= 30', 'income in [20000, 40000]', 'party = Green | Red', 'films: A > B'. "
        "May be repeated.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, callback=_limit_threads, help="Maximum number of threads.", show_default=False),
]


class LongNames(NamedTuple):
    """Column names of a long table, and the file of the other columns."""

    row: Row = None
    item: Item = None
    score: Score = None
    columns: Columns = None


class Work(NamedTuple):
    """How a command runs."""

    threads: Threads = None  # read by the callback
    quiet: Quiet = False


class Written(NamedTuple):
    """How a command runs that writes a table."""

    threads: Threads = None
    escape_formulas: EscapeFormulas = False
    quiet: Quiet = False


# Of `thurbo fit`.
ModelOutput = Annotated[Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)]
NHidden = Annotated[int | None, typer.Option(min=0, help="Number of hidden units; by default chosen from the data.")]
NFactors = Annotated[
    int | None, typer.Option(min=0, help="Number of Gaussian factors; by default chosen from the data.")
]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Number of passes over the data; by default chosen from its size.")
]
ObjectiveOption = Annotated[Objective, typer.Option(help="Training objective.")]
UnobservedOption = Annotated[
    Unobserved,
    typer.Option(help="Missing cells are integrated over (marginalize), or not part of the row's model (exclude)."),
]
OrdinalsOption = Annotated[
    Ordinals | None,
    typer.Option(
        help="Ordered levels with one utility per level (for thousands of answers), or as cuts of one scale. By "
        "default as in the schema; a fit of several members has both.",
        show_default=False,
    ),
]
MaskingOption = Annotated[
    Masking | None,
    typer.Option(
        help="Cells that training masks: single cells (best for imputation), or groups of neighbouring columns (best "
        "for maps and segments)."
    ),
]
MaxTime = Annotated[
    float | None, typer.Option(min=0.001, help="Seconds after which training stops.", show_default=False)
]
HoldOut = Annotated[
    float | None,
    typer.Option(min=0.0, max=0.9, help="Share of rows held out for early stopping; by default 0.1 of large tables."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(help="Save the state of training to this file; resumes from the file if it exists."),
]
Resume = Annotated[bool, typer.Option("--resume", help="The same as --checkpoint OUTPUT.checkpoint.")]
