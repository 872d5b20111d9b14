"""What is said about rows as tables: who each row is, then the answers, under headers that people can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thurbo.errors import ThurboError
from thurbo.io import frames

Columns = dict[str, np.ndarray]
# Names of the imputation and of the row in it: as R's mice has them; SPSS and Stata allow no dot, and have their own.
_LONG = {".sav": ("Imputation_", "Row_"), ".zsav": ("Imputation_", "Row_"), ".dta": ("_mi_m", "_mi_id")}


def identity(schema: Any, frame: Any) -> Columns:
    """The columns that say who a row is."""
    source, found = frames.table(frame), {}
    for name, column in schema.items():
        if column.kind == "id" and name in source:
            cells = source.cells(name)
            found[name] = cells.values
            if cells.missing.any():
                found[name] = cells.values.astype(object)
                found[name][cells.missing] = None
    return found


def about(schema: Any, frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """A table with one line for each row of another, in its library, with who the row is in front."""
    return frames.assemble(frames.kind(frame), {**identity(schema, frame), **columns})


def stacked(completed: Sequence[Any], suffix: str) -> Any:
    """Completed tables below one another, with the number of each and of the row in it, both from 1."""
    n_rows, n_tables = frames.table(completed[0]).n_rows, len(completed)
    which, row = _LONG.get(suffix.lower(), (".imp", ".id"))
    for name in (which, row):
        if name in frames.table(completed[0]):
            raise ThurboError(f'column "{name}": imputations are numbered under this name; rename the column')
    numbers = {which: np.repeat(np.arange(1, n_tables + 1), n_rows), row: np.tile(np.arange(1, n_rows + 1), n_tables)}
    return frames.stack(completed, numbers)


def probabilities(model: Any, frame: Any, column: str, given: Sequence[str] | None) -> Columns:
    """The most probable answer, then the probability of each under its text; of options, all that are likely ticked."""
    asked = model.schema_[column]
    texts = [str(text) for text in getattr(asked, "texts", asked.labels)]
    found = np.asarray(model.predict_proba(frame, column, given=given), float)
    if asked.kind == "multiselect":
        best = ["; ".join(text for text, p in zip(texts, row, strict=True) if p >= 0.5) for row in found]
    else:
        best = [texts[place] for place in found.argmax(axis=1)]
    taken = {column, *identity(model.schema_, frame)}
    headers = [f"{column}: {text}" if text in taken else text for text in texts]
    return {column: np.asarray(best, object), **dict(zip(headers, found.T, strict=True))}


def interval(model: Any, frame: Any, column: str, given: Sequence[str] | None, level: float) -> Columns:
    """The median of a number, and the ends of its central interval."""
    if not 0 < level < 1:
        raise ThurboError(f"--level {level:g} is no share of probability; give a number above 0 and below 1")
    ends = model.predict_interval(frame, column, level=level, given=given)
    # The narrowest interval is the median, also of a number that the table holds in two columns.
    middle = model.predict_interval(frame, column, level=1e-6, given=given).mean(axis=1)
    return {column: middle, f"{column} lower": ends[:, 0], f"{column} upper": ends[:, 1]}
