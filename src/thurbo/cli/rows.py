"""What is said about rows as tables: who each row is, then the answers, under headers that people can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thurbo.errors import ThurboError
from thurbo.io import frames

Columns = dict[str, np.ndarray]


def identity(schema: Any, frame: Any) -> Columns:
    """The columns that say who a row is."""
    source, found = frames.table(frame), {}
    names = [name for name, column in schema.items() if column.kind == "id"]
    for name in names if source.owner is None else [source.owner]:
        if name in source:
            cells = source.cells(name)
            found[name] = cells.values
            if cells.missing.any():
                found[name] = cells.values.astype(object)
                found[name][cells.missing] = None
    return found


def about(schema: Any, frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """A table with one line for each row of another, in its library, with who the row is in front."""
    return frames.assemble(frames.kind(frame), {**identity(schema, frame), **columns})


def as_frame(table: Any) -> Any:
    """A table that goes to a file: one of named columns, where it came as a dict, of pandas."""
    return frames.assemble_any(table) if isinstance(table, dict) else table


def items_named(schema: Any, text: str) -> list[Any]:
    """Items that are named with commas between, whatever their type; those unknown stay text."""
    known = _items(schema)
    return [known.get(part.strip(), part.strip()) for part in text.split(",") if part.strip()]


def items_of(schema: Any, frame: Any) -> Any:
    """A table of items, as it is; of one column without a header, its first line is an item too."""
    source, known = frames.table(frame), _items(schema)
    if len(source.names) != 1 or source.names[0] not in known:
        return frame
    return [known[source.names[0]], *source.cells(source.names[0]).values.tolist()]


def _items(schema: Any) -> dict[str, Any]:
    """Items of all rankings by their text."""
    kinds = [each for each in schema.values() if each.kind in {"ranking", "ratings"}]
    return {str(label): label for each in kinds for label in each.labels}


def mean_in_words(values: np.ndarray, weight: np.ndarray | None, what: str) -> str:
    """The mean over rows, by their weights where the table has any: "weighted mean log P of 60 rows: -3.1416"."""
    if weight is None:
        return f"mean {what}: {values.mean():.4f}"
    counts = weight > 0  # a row that counts nothing has no say, even where its log P is −∞
    return f"weighted mean {what}: {np.average(values[counts], weights=weight[counts]):.4f}"


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
