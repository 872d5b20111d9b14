"""Results per row as tables: the row identifier first, then the results under readable headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thurbo.errors import ThurboError
from thurbo.io import build
from thurbo.io.table import as_table, library_of

Columns = dict[str, np.ndarray]


def identity(schema: Any, frame: Any) -> Columns:
    """The columns with row identifiers."""
    source, found = as_table(frame), {}
    names = [name for name, column in schema.items() if column.role == "id"]
    for name in names if source.owner is None else [source.owner]:
        if name in source:
            cells = source.cells(name)
            found[name] = cells.values
            if cells.missing.any():
                found[name] = cells.values.astype(object)
                found[name][cells.missing] = None
    return found


def about(schema: Any, frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """A table of results in the library of the input, with row identifiers in front."""
    return build.frame(library_of(frame), {**identity(schema, frame), **columns})


def as_frame(table: Any) -> Any:
    """A table that can be written to a file; a dict becomes a frame."""
    return build.any_frame(table) if isinstance(table, dict) else table


def items_named(schema: Any, text: str) -> list[Any]:
    """Items from a text with commas, in their own type; unknown items stay text."""
    known = _items(schema)
    return [known.get(part.strip(), part.strip()) for part in text.split(",") if part.strip()]


def items_of(schema: Any, frame: Any) -> Any:
    """The table of items; if it has one column without a header, the first line is an item too."""
    source, known = as_table(frame), _items(schema)
    if len(source.names) != 1 or source.names[0] not in known:
        return frame
    return [known[source.names[0]], *source.cells(source.names[0]).values.tolist()]


def _items(schema: Any) -> dict[str, Any]:
    """Items of all rankings and lists, by their text."""
    kinds = [each for each in schema.values() if each.has_items]
    return {str(label): label for each in kinds for label in each.labels}


def mean_in_words(values: np.ndarray, weight: np.ndarray | None, what: str) -> str:
    """The mean over rows, weighted if the table has weights: "weighted mean log-likelihood of 60 rows: -3.1416"."""
    if weight is None:
        return f"mean {what}: {values.mean():.4f}"
    counts = weight > 0  # a row with weight zero must not matter, even if its value is −∞
    return f"weighted mean {what}: {np.average(values[counts], weights=weight[counts]):.4f}"


def probabilities(model: Any, frame: Any, column: str, given: Sequence[str] | None) -> Columns:
    """The most probable answer (of options, all with p ≥ 0.5), then the probability of each answer by its text."""
    asked = model.schema_[column]
    texts = [str(text) for text in getattr(asked, "texts", asked.labels)]
    found = np.asarray(model.predict_proba(frame, column, given=given), float)
    if asked.kind == "multiselect":
        best = ["; ".join(text for text, p in zip(texts, row, strict=True) if p >= 0.5) for row in found]
    else:
        best = [texts[place] for place in np.where(asked.is_named, found, -1.0).argmax(axis=1)]
    taken = {column, *identity(model.schema_, frame)}
    headers = [f"{column}: {text}" if text in taken else text for text in texts]
    return {column: np.asarray(best, object), **dict(zip(headers, found.T, strict=True))}


def cells(model: Any, frame: Any, column: str, given: Sequence[str] | None, items: Any) -> Columns:
    """The predicted cells of a column."""
    found = as_table(model.predict(frame, column, "auto", given=given, items=items))
    return {name: found.cells(name).values for name in found.names}


def interval(model: Any, frame: Any, column: str, given: Sequence[str] | None, level: float) -> Columns:
    """The median of a number, and the ends of its central interval."""
    if not 0 < level < 1:
        raise ThurboError(f"--level {level:g} is not a probability; give a number above 0 and below 1")
    ends = model.predict_interval(frame, column, level=level, given=given)
    # A very narrow interval gives the median, also for numbers stored in two columns.
    middle = model.predict_interval(frame, column, level=1e-6, given=given).mean(axis=1)
    middle = model.schema_[column].limited(middle)
    return {column: middle, f"{column} lower": ends[:, 0], f"{column} upper": ends[:, 1]}
