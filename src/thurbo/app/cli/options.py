"""Every argument and option of the command line, declared once: its help text, short name and limits.

Idea: a command is a function with plain types; `app.command` looks its parameters up in `OPTIONS`, by "command.name"
if the option differs in that command. Options that go together are a group, one parameter that stands for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import typer

Objective = StrEnum(
    "Objective",
    {"AUTO": "auto", "LIKELIHOOD": "likelihood", "MULTI_PREDICTION": "multi-prediction", "EXACT": "exact"},
)
Unobserved = StrEnum("Unobserved", {"MARGINALIZE": "marginalize", "EXCLUDE": "exclude"})
Ordinals = StrEnum("Ordinals", {"UTILITIES": "utilities", "CUTS": "cuts"})
Masking = StrEnum("Masking", {"CELLS": "cells", "NEIGHBOURS": "neighbours"})
Hidden = StrEnum("Hidden", {"PROBABILITY": "probability", "LOG_ODDS": "log_odds"})
Sampling = StrEnum("Sampling", {"AUTO": "auto", "SEQUENTIAL": "sequential", "GIBBS": "gibbs", "MODES": "modes"})


class LongNames(NamedTuple):
    """Column names of a long table, and the file of the other columns."""

    row: str | None = None
    item: str | None = None
    score: str | None = None
    columns: Path | None = None


class Work(NamedTuple):
    """How a command runs."""

    threads: int | None = None  # read by the callback
    quiet: bool = False


class Written(NamedTuple):
    """How a command runs that writes a table."""

    threads: int | None = None
    escape_formulas: bool = False
    quiet: bool = False


def _limit_threads(count: int | None) -> int | None:
    """Limit the threads of all libraries; each reads its own environment variable when it is first loaded."""
    if count is not None:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC", "NPROC"):
            os.environ[name] = str(count)
        if count == 1:
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return count


Declared = Callable[[str, bool], Any]


def _argument(metavar: str, words: str) -> Declared:
    return lambda name, is_flag: typer.Argument(metavar=metavar, help=words, show_default=False)


def _option(words: str, *names: str, **limits: Any) -> Declared:
    """An option with this help text; called with the name of its parameter, and whether it is off by default."""

    def declared(name: str, is_flag: bool) -> Any:
        has_long = any(each.startswith("--") for each in names)
        long = (f"--{name.replace('_', '-')}",) if (names or is_flag) and not has_long else ()
        return typer.Option(*long, *names, help=words, **limits)

    return declared


OPTIONS: dict[str, Declared] = {
    "model": _argument("MODEL", "A model file written by `thurbo fit`."),
    "data": _argument("DATA", "A table: .csv .tsv .xlsx .ods .parquet .feather .sav .zsav .por .dta"),
    "evaluate.model": _argument("MODEL|DATA", "A model file, or a table to fit anew."),
    "evaluate.data": _argument("DATA", "After MODEL: a table of other respondents."),
    "output": _option("File to write; the extension selects the format.", "-o"),
    "check.output": _option("Write the schema as a TOML file, to read and edit.", "-o"),
    "fit.output": _option("Model file to write.", "-o"),
    "evaluate.output": _option("Also write the results as a table.", "-o"),
    "segments.output": _option("Also write the segment of each row.", "-o"),
    "report.output": _option("HTML file to write.", "-o"),
    "demo.output": _option("HTML file to write.", "-o"),
    "schema": _option("Type of each column, a TOML file; inferred by default.", "-s"),
    "missing": _option(
        "Values that mean no answer in every column, separated by commas, with a name if you like: -9=refused,-8"
    ),
    "edit": _option("Correct the schema in the browser; saved as OUTPUT, or beside DATA."),
    "details": _option("Also show every column with its type and the reason, and every problem."),
    # Long tables and lists of items.
    "row": _option("For a long table (one line per score): the column of row identifiers."),
    "item": _option("For a long table: the column of items."),
    "score": _option(
        "For a long table: the column of scores, higher is better; without it, lines are ordered best first."
    ),
    "columns": _option("For a long table: a second table with other questions, one line per row."),
    "item_list": _option("For lists of items: the items that are asked about, separated by commas."),
    "rank.item_list": _option("Rank only these items, separated by commas."),
    "items": _option("Rank only these items: a table with one column of items, or with a row and an item column."),
    "top": _option("Number of items per row.", min=1),
    "include_seen": _option("Include items that the row already has."),
    "ranking": _option("Name of the ranking, if the model has several.", "--column"),
    # The model, and how it is trained.
    "hidden": _option("Number of hidden units; by default chosen from the data.", min=0),
    "demo.hidden": _option("Number of hidden units; by default four models are averaged.", min=1),
    "factors": _option("Number of Gaussian factors; by default chosen from the data.", min=0),
    "epochs": _option("Number of passes over the data; by default chosen from its size.", min=1),
    "demo.epochs": _option("Number of passes over the data.", min=1),
    "max_time": _option("Seconds after which training stops.", min=0.001),
    "objective": _option("Training objective."),
    "unobserved": _option("Missing cells are integrated over (marginalize), or not part of the row's model (exclude)."),
    "ordinals": _option(
        "Ordered levels with one utility per level (for thousands of answers), or as cuts of one scale. By default as "
        "in the schema; a fit of several members has both."
    ),
    "masking": _option(
        "Cells that training masks: single cells (best for imputation), or groups of neighbouring columns (best for "
        "maps and segments)."
    ),
    "hold_out": _option("Share of rows held out for early stopping; by default 0.1 of large tables.", min=0.0, max=0.9),
    "checkpoint": _option("Save the state of training to this file; resumes from the file if it exists."),
    "resume": _option("The same as --checkpoint OUTPUT.checkpoint."),
    # Queries.
    "kind": _option("Write P(h = 1) of each hidden unit, or its log-odds.", "--as"),
    "draws": _option("Number of multiple imputations, stacked below the data (.imp, .id); 0: one table.", min=0),
    "fill": _option(
        'Also impute this kind of missing answer, such as refused, or "not applicable" for questions that were not '
        "asked; all for every kind. May be repeated."
    ),
    "flag": _option("Add columns that say which cells were imputed (_imputed), and their _probability or _margin."),
    "column": _option("The column to predict, from all other cells of the row."),
    "given": _option(
        "A condition: 'age >= 30', 'income in [20000, 40000]', 'party = Green | Red', 'films: A > B'. May be repeated."
    ),
    "level": _option("Probability of the interval of a number.", min=0.0, max=1.0),
    "number": _option("Number of segments; by default it is chosen.", "-n", min=1),
    "n": _option("Number of rows.", "-n", "--rows", min=1),
    "method": _option(
        "Random rows: cell by cell (sequential) or by Gibbs sampling; auto takes what suits the training of the model. "
        "Or its most typical rows without noise (modes)."
    ),
    # Evaluation.
    "folds": _option("Without MODEL: number of folds, each with a fit of its own; by default 5.", min=2),
    "hide": _option("Share of the answers to mask; by default 0.1. Without MODEL: instead of --folds."),
    "repeats": _option("Without MODEL: number of fits with --hide.", min=1),
    "regressions": _option("Compare with a regression of each column on all others (slower)."),
    "boosting": _option(
        "Compare with gradient boosting of each column (slower). By default only if the model is fitted anew."
    ),
    # Pages.
    "title": _option("Title of the page."),
    "rows_are": _option("Name of the rows on the page, for example respondents."),
    "colour_by": _option("A column that colours the map; may be repeated."),
    "report.points": _option("Maximum number of rows on the map; a random sample if there are more.", min=10),
    "explore.points": _option("Maximum number of rows on the map.", min=10, max=30_000),
    "test": _option(
        "Test the accuracy on hidden answers; on the rows of the fit, this fits once more without them. By default if "
        "the fit took up to three minutes."
    ),
    "rows": _option("Let the map tell the answers of single rows. Respondents are people."),
    "port": _option("Port of the server; 0 takes a free one.", min=0, max=65535),
    "host": _option("Address to listen on. Others than 127.0.0.1 let other machines see the answers."),
    "browser": _option("Open the page in the browser."),
    # How a command runs.
    "seed": _option("Random seed.", min=0, max=2**32 - 1),
    "threads": _option("Maximum number of threads.", min=1, callback=_limit_threads),
    "escape_formulas": _option(
        "In .csv and .tsv, put an apostrophe in front of text that starts with = + - @, for spreadsheet programs."
    ),
    "quiet": _option("Show no progress.", "-q"),
}
