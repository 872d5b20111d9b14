"""Arguments and options of the command line, declared once: help text, short name and limits are in options.toml.

Idea: a command is a function with plain types; `app.command` looks its parameters up here, by "command.name" if the
option differs in that command. Options that go together are a group, one parameter that stands for all of them.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

Objective = StrEnum(
    "Objective",
    {"AUTO": "auto", "LIKELIHOOD": "likelihood", "MULTI_PREDICTION": "multi-prediction", "EXACT": "exact"},
)
Unobserved = StrEnum("Unobserved", {"MARGINALIZE": "marginalize", "EXCLUDE": "exclude"})
Ordinals = StrEnum("Ordinals", {"UTILITIES": "utilities", "CUTS": "cuts"})
Masking = StrEnum("Masking", {"CELLS": "cells", "NEIGHBOURS": "neighbours"})
Hidden = StrEnum("Hidden", {"PROBABILITY": "probability", "LOG_ODDS": "log_odds"})
Ranked = StrEnum("Ranked", {"RATING": "rating", "CHOICE": "choice"})
Sampling = StrEnum("Sampling", {"AUTO": "auto", "SEQUENTIAL": "sequential", "GIBBS": "gibbs", "MODES": "modes"})


@dataclass(frozen=True, kw_only=True)
class LongNames:
    """Column names of a long table, and the file of the other columns."""

    row: str | None = None
    item: str | None = None
    score: str | None = None
    columns: Path | None = None

    @property
    def are_given(self) -> bool:
        """Whether the table is said to be long."""
        return any((self.row, self.item, self.score, self.columns))


@dataclass(frozen=True, kw_only=True)
class Work:
    """How a command runs."""

    threads: int | None = None  # read by the callback
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class Written(Work):
    """How a command runs that writes a table."""

    escape_formulas: bool = False


@dataclass(frozen=True, kw_only=True)
class Request(LongNames, Written):
    """A model, and a table about whose rows it is asked."""

    model: Path
    data: Path


_DECLARED: dict[str, Any] = tomllib.loads(files(__package__).joinpath("options.toml").read_text("utf-8"))


def place(command: str, name: str) -> int:
    """Where this argument or option of a command is declared."""
    keys = list(_DECLARED)
    return keys.index(own if (own := f"{command}.{name}") in _DECLARED else name)


def declared(command: str, name: str, is_flag: bool) -> Any:
    """The argument or option of a command with this name, which is a flag if it is off by default."""
    settings = dict(_DECLARED.get(f"{command}.{name}") or _DECLARED[name])
    if "metavar" in settings:
        return typer.Argument(**settings, show_default=False)
    names = settings.pop("names", [])
    if (names or is_flag) and not any(each.startswith("--") for each in names):
        names = [f"--{name.replace('_', '-')}", *names]
    return typer.Option(*names, **settings, callback=_limit_threads if name == "threads" else None)


def _limit_threads(count: int | None) -> int | None:
    """Limit the threads of all libraries; each reads its own environment variable when it is first loaded."""
    if count is not None:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC", "NPROC"):
            os.environ[name] = str(count)
        if count == 1:
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return count
