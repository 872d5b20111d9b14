"""All cells of a table that do not fit the schema, not only the first.

Idea: a column raises for its first invalid cell; without that row it raises for the next one.
Guarantees that the table is not changed, and stops after a number of problems per column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thurbo.errors import ThurboError
from thurbo.io.table import Table, as_table
from thurbo.schema import Schema

MOST = 20  # problems per column


def problems(schema: Schema, frame: Any, most: int = MOST) -> dict[str, list[ThurboError]]:
    """Errors by question, at most `most` of each."""
    source, found = as_table(frame), {}
    names = schema.row_names(source)
    if len(set(names.tolist())) == source.n_rows:
        source = replace(source, rows=names)
    # Inequalities refer to sites of other columns, so they need the whole schema.
    alone = [name for name, column in schema.items() if column.kind != "inequality"]
    for name in alone:
        found[name] = _of_one(Schema({name: schema[name]}), source, most)
    found = {name: errors for name, errors in found.items() if errors}
    if not found and len(alone) < len(schema):
        for error in _of_one(schema, source, most):
            found.setdefault(str(getattr(error, "column", None)), []).append(error)
    return found


def _of_one(schema: Schema, source: Table, most: int) -> list[ThurboError]:
    place = {row: position for position, row in enumerate(source.rows.tolist())}
    found: list[ThurboError] = []
    kept = np.ones(source.n_rows, bool)
    while len(found) < most:
        remaining = source if kept.all() else source.take(np.flatnonzero(kept))
        try:
            schema.fit(remaining).compile(remaining)
            schema.weights(remaining)
        except ThurboError as error:
            found.append(error)
            position = place.get(getattr(error, "row", None))
            if position is None:  # the error is not about a single row
                break
            kept[position] = False
            if not kept.any():
                break
        else:
            break
    return found
