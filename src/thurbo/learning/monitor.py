"""A.2.4 Progress of a fit or of predictions, and warnings if the result should not be trusted.

Progress is written to standard error: a bar on a terminal; otherwise, as in a log file, a line every 30 seconds.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from thurbo.errors import ConvergenceWarning
from thurbo.inference.diagnostics import is_stuck
from thurbo.learning.course import Fitted

EVERY = 30.0  # seconds between two plain lines
Told = Callable[[dict[str, Any]], None]


@dataclass
class Standing:
    """Current progress: the stage, how many parts of it are done, and an estimate of the remaining time.

    A record is that of an epoch, or of an earlier `stage`: `done` parts `of` all parts, and a `figure` to show.
    """

    of: int
    stage: str = "fitting"
    done: int = 0
    figure: str = "starting"
    held_out: float | None = None
    began: float = 0.0
    first: tuple[float, int] | None = None  # time of the first finished part; compilation is before it
    last: float = 0.0

    def __post_init__(self) -> None:
        self.began = time.monotonic()

    def take(self, record: dict[str, Any]) -> bool:
        """Update from a record; returns whether it starts a new stage."""
        is_new = record.get("stage", "fitting") != self.stage
        if is_new:
            self.first = None
        if "epoch" in record:
            self.stage, self.done = "fitting", int(record["epoch"])
            self.held_out = record.get("held_out", self.held_out)
            self.figure = f"mean log-likelihood per answer (nats): {record['objective']:.4f}"
            if self.held_out is not None:
                self.figure += f", held out: {self.held_out:.4f}"
        else:
            self.stage, self.done, self.of, self.figure = (record[key] for key in ("stage", "done", "of", "figure"))
        self.last = time.monotonic()
        if self.done and self.first is None:
            self.first = self.last, self.done
        return is_new

    def line(self) -> str:
        """The progress as one line of text."""
        seconds = int(time.monotonic() - self.began)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{clock} {self.stage} {self.done}/{self.of} {self.figure}{self._left()}"

    def _left(self) -> str:
        if self.first is None or self.done == self.first[1] or self.done >= self.of:
            return ""
        a_part = (self.last - self.first[0]) / (self.done - self.first[1])
        seconds = a_part * (self.of - self.done) - (time.monotonic() - self.last)
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {max(seconds, 1):.0f} s left"


@contextmanager
def progress(of: int, verbose: bool | int | str, stage: str = "fitting") -> Iterator[Told]:
    """A callback for records of `of` parts that shows progress if `verbose` is true, or "auto" on a terminal."""
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if not shown:
        yield lambda record: None
        return
    from rich.console import Console

    console, standing = Console(stderr=True), Standing(of, stage)
    with _bar(console, standing) if console.is_terminal or console.is_jupyter else _lines(standing) as told:
        yield told


@contextmanager
def _bar(console: Any, standing: Standing) -> Iterator[Told]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}"), TextColumn("{task.fields[figure]}")
    with Progress(words[0], BarColumn(), MofNCompleteColumn(), words[1], TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(standing.stage, total=standing.of, figure=standing.figure)

        def told(record: dict[str, Any]) -> None:
            if standing.take(record):
                bar.reset(task, total=standing.of, description=standing.stage)
            bar.update(task, completed=standing.done, figure=standing.figure)

        yield told


@contextmanager
def _lines(standing: Standing) -> Iterator[Told]:
    """Print a line at the start, for each new stage, at the end, and every `EVERY` seconds, also during an epoch."""
    stop = threading.Event()

    def say() -> None:
        print(standing.line(), file=sys.stderr, flush=True)

    def go_on_saying() -> None:
        while not stop.wait(EVERY):
            say()

    def told(record: dict[str, Any]) -> None:
        if standing.take(record):
            say()

    say()
    teller = threading.Thread(target=go_on_saying, daemon=True)
    teller.start()
    try:
        yield told
    finally:
        stop.set()
        teller.join()
        say()


def warn(fitted: Fitted) -> None:
    """Warn if the fit failed, if its objective has not settled, or if hidden units are stuck."""
    if fitted.problem:
        warnings.warn(fitted.problem, ConvergenceWarning, stacklevel=3)
    rate = np.asarray(fitted.params.hidden_mean)
    stuck = int(is_stuck(rate).sum())
    if stuck:
        warnings.warn(
            f"{stuck} of {len(rate)} hidden units are stuck on or off for all rows; fewer hidden units, "
            "a lower learning_rate or a sparsity_weight above 0 may help",
            ConvergenceWarning,
            stacklevel=3,
        )
