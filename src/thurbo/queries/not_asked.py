"""Answers that do not apply because the question was not asked: no gap of `impute`, and empty in samples.

Known answers of gates decide first. A gate that is empty itself is imputed or drawn, and then decides as well; where
one of its questions has an answer, the gate must have led to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.forms import Certainty
from thurbo.io.table import Table, as_table
from thurbo.rbm import Params
from thurbo.schema import Schema, routing
from thurbo.schema.routing import NOT_APPLICABLE
from thurbo.schema.skips import in_order

Gaps = dict[str, dict[str, np.ndarray]]  # by question, by column of the table: which rows [row]


def applicable(
    schema: Schema, table: Table, gaps: Gaps, kinds: Collection[str], cells: Mapping[str, np.ndarray] | None = None
) -> Gaps:
    """The gaps without empty cells of questions that were not asked, unless `kinds` has "not applicable".

    `cells` are imputed cells by column of the table: with them, imputed gates decide as well.
    """
    if not schema.skips or NOT_APPLICABLE in kinds:
        return gaps
    where = {source: missing for gone in gaps.values() for source, missing in gone.items()}
    imputed = None if cells is None else {source: (cells[source], missing) for source, missing in where.items()}
    out, found = routing.not_asked(schema, schema.skips, table, imputed), {}
    for name, gone in gaps.items():
        if name in out:
            gone = {source: missing & ~(out[name] & table.cells(source).missing) for source, missing in gone.items()}
        if any(missing.any() for missing in gone.values()):
            found[name] = gone
    return found


def settle(
    schema: Schema,
    table: Table,
    gaps: Gaps,
    kinds: Collection[str],
    cells: dict[str, np.ndarray],
    certainty: dict[str, Certainty],
) -> Gaps:
    """The gaps that are filled once gates are imputed; `cells` and `certainty` of gates that follow are changed."""
    if not schema.skips:
        return gaps
    for gate, (value, rows) in routing.deduced(schema, schema.skips, table).items():
        if gate not in gaps:
            continue
        cells[gate] = cells[gate].copy()
        cells[gate][rows] = value
        if gate in certainty:
            known = np.where(rows & gaps[gate][gate], 1.0, certainty[gate].values)
            certainty[gate] = certainty[gate]._replace(values=known)
    found = applicable(schema, table, gaps, kinds, cells)
    for name, gone in gaps.items():
        for source in set(gone) & set(certainty):
            left = found.get(name, {}).get(source, np.zeros(table.n_rows, bool))
            certainty[source] = certainty[source]._replace(values=np.where(left, certainty[source].values, np.nan))
    return found


def emptied(schema: Schema, cells: dict[str, np.ndarray], given: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Cells of complete rows, by column of the table, with those that the row would not have been asked left empty.

    Questions in `given` are kept: they are conditions of the rows.
    """
    found = dict(cells)
    for name, skips in in_order(schema.skips):
        if name in given or not schema[name].sites or schema[name].is_listed:
            continue
        for skip in skips:
            if skip.asked_if not in found:
                continue
            answers = as_table({skip.asked_if: found[skip.asked_if]}).cells(skip.asked_if)
            # A gate without an answer was not asked itself.
            out = answers.missing | (routing.says(schema[skip.asked_if], skip, answers) == routing.NOT_ASKED)
            for source in schema[name].source_columns(name):
                found[source] = routing.emptied(found[source], out)
    return found


class Routes:
    """Which cells are left out while the cells of rows are drawn one after another: gates come first, then decide."""

    def __init__(self, schema: Schema, params: Params, blocks: Mapping[str, Block], rows: np.ndarray):
        self.schema = schema
        self.cuts, self.scale = (np.asarray(each, np.float64) for each in (params.gauge.cuts, params.gauge.scale))
        self.depth: dict[str, int] = {}  # of questions: how many gates are before it
        for name, skips in in_order(schema.skips):
            self.depth[name] = 1 + max(self.depth.get(skip.asked_if, 0) for skip in skips)
        self.out = {name: np.zeros(len(rows), bool) for name in self.depth}
        names = {name for skip in schema.skips for name in (skip.asked_if, *skip.columns)}
        self.led = routing.led_to(schema.skips, {name: blocks[name].answered[rows] for name in names})

    def left(self, name: str, n_rows: int) -> np.ndarray:
        """Rows in which a question is asked as far as is known, [row]."""
        return ~self.out[name] if name in self.out else np.ones(n_rows, bool)

    def tell(self, name: str, rows: np.ndarray, x: np.ndarray) -> None:
        """Take note of drawn latent values x [row, site] of a column, if it is a gate."""
        own = [place for place, skip in enumerate(self.schema.skips) if skip.asked_if == name]
        if not own:
            return
        where = self.schema.slices[name]
        drawn = self.schema[name].decode_columns(name, x[:, where], self.cuts[where], self.scale[where])
        answers = as_table(drawn).cells(name)
        for place in own:
            skip = self.schema.skips[place]
            past = routing.says(self.schema[name], skip, answers) == routing.NOT_ASKED
            self._leave_out(place, rows[past & ~self.led[place][rows]])

    def _leave_out(self, place: int, rows: np.ndarray) -> None:
        for name in self.schema.skips[place].columns:
            self.out[name][rows] = True
            for other, skip in enumerate(self.schema.skips):
                if skip.asked_if == name:
                    self._leave_out(other, rows[~self.led[other][rows]])


def known(schema: Schema, table: Any) -> dict[str, np.ndarray]:
    """Rows in which each question was not asked by what is known of its gates, [row]."""
    return routing.not_asked(schema, schema.skips, as_table(table))
