"""A report in one call: test the accuracy, summarise, render, write the file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal

from thurbo.io.files import destination, write_atomically
from thurbo.report.accuracy import measured
from thurbo.report.page import render
from thurbo.report.summary import summary


def write(
    model: Any,
    X: Any,
    path: str | PathLike[str],
    *,
    test: bool | Literal["auto"] = "auto",
    seed: int = 0,
    **about: Any,
) -> Path:
    """Write a report on a fitted model and a table: one self-contained HTML file.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows to describe, for example the training data.
    path : str or path
        The HTML file.
    test : bool or "auto", default="auto"
        Whether to test how well hidden answers are predicted. On new rows a tenth of the answers is hidden and
        predicted. On the rows of the fit, the model is fitted once more without them; "auto" does so if the fit took up
        to three minutes.
    seed : int, default=0
        Random seed of the hidden answers and the map.
    **about
        Other arguments of `thurbo.report.summary`, such as title, rows_are, colour_by, rows, or held_out with the
        result of `tb.evaluate`, which takes the place of the test.

    Returns
    -------
    Path
        The file.
    """
    destination(path)  # raises before any work if the file cannot be written
    if about.get("held_out") is None:
        about["held_out"] = measured(model, X, None if test == "auto" else bool(test), seed)
    return write_atomically(path, render(summary(model, X, seed=seed, **about)))
