"""A.2.4 Watching a fit: a progress bar for people, and warnings when what was learned should not be trusted.

The bar goes to standard error, and only where somebody is looking at it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from thurbo.errors import ConvergenceWarning
from thurbo.inference.diagnostics import is_stuck
from thurbo.learning.course import Fitted


@contextmanager
def progress(max_epochs: int, verbose: bool | int | str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A callback for `fit` that moves a bar; silent unless `verbose`, or "auto" on a terminal."""
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if not shown:
        yield lambda record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("fitting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figure]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("fit", total=max_epochs, figure="")

        def on_epoch(record: dict[str, Any]) -> None:
            if "note" in record:
                bar.update(task, figure=record["note"])
                return
            bar.update(task, advance=1, figure=f"{record['objective']:.4f} nats a cell")

        yield on_epoch


def warn(fitted: Fitted) -> None:
    """Say what should keep one from trusting the fit, if anything."""
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
