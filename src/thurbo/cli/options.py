"""What commands have in common: arguments and options by one name, one meaning and one help text."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Objective(StrEnum):
    """What a fit maximises."""

    AUTO = "auto"
    LIKELIHOOD = "likelihood"
    MULTI_PREDICTION = "multi-prediction"
    EXACT = "exact"


class Unobserved(StrEnum):
    """What a missing cell is to its row's model."""

    MARGINALIZE = "marginalize"
    EXCLUDE = "exclude"


class Ordinals(StrEnum):
    """What an ordered level is: a utility of its own, or the stretch between two cuts of one scale; or what pays."""

    AUTO = "auto"
    UTILITIES = "utilities"
    CUTS = "cuts"


class Hiding(StrEnum):
    """What training hides from itself."""

    CELLS = "cells"
    NEIGHBOURS = "neighbours"


class Hidden(StrEnum):
    """How `transform` tells of hidden units."""

    PROBABILITY = "probability"
    LOG_ODDS = "log_odds"


class Sampling(StrEnum):
    """How new rows are made."""

    GIBBS = "gibbs"
    MODES = "modes"


def _limit_threads(count: int | None) -> int | None:
    """Keep every library to so many threads; each reads its own variable when it is first loaded."""
    if count is not None:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC", "NPROC"):
            os.environ[name] = str(count)
        if count == 1:
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return count


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `thurbo fit` wrote.", show_default=False)]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv .tsv .parquet .feather .sav .zsav .por .dta",
        show_default=False,
    ),
]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", help="Where the table goes; its extension says in what format.", show_default=False),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", "-s", help="What each column is, as TOML; inferred otherwise.", show_default=False),
]
Row = Annotated[
    str | None,
    typer.Option(
        "--row", help="Of a long table, one line a score: the column that says whose it is.", show_default=False
    ),
]
Item = Annotated[
    str | None, typer.Option("--item", help="The column that says of which item it is.", show_default=False)
]
Score = Annotated[
    str | None,
    typer.Option(
        "--score",
        help="The column of scores, large is best; without it lines stand from best to worst.",
        show_default=False,
    ),
]
Columns = Annotated[
    Path | None,
    typer.Option("--columns", help="A table of what else is known, one line for each row.", show_default=False),
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of everything random.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, callback=_limit_threads, help="Most threads to compute with.", show_default=False),
]
