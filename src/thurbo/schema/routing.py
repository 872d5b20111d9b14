"""What the routing of a questionnaire says about the rows of a table: which questions were not asked.

A question is not applicable in a row if the answer of its gate is none of those after which it is asked, or if the gate
itself was not asked. If the gate has no answer otherwise, nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns import Column
from thurbo.columns.cells import BoolArray, Cells, is_label
from thurbo.columns.statements import one_of
from thurbo.io.table import Table
from thurbo.schema.blocks import cells_of
from thurbo.schema.skips import Skip, in_order, meanings

NOT_APPLICABLE = "not applicable"  # the name of this kind of missing answer
UNKNOWN, ASKED, NOT_ASKED = 0, 1, 2


def unanswered(columns: Mapping[str, Column], table: Table, name: str) -> BoolArray:
    """Rows without any answer to a question, [row]; declared missing values are no answers."""
    sources = columns[name].source_columns(name) or (name,)
    if not any(each in table for each in (name, *sources)):
        return np.ones(table.n_rows, bool)
    cells = cells_of(columns, table, name, "ignore") if columns[name].source_columns(name) else table.cells(name)
    parts = [part.missing for part in cells.parts.values()]
    return cells.missing & np.all(parts, axis=0) if parts else cells.missing


def says(gate: Column, skip: Skip, cells: Cells) -> NDArray[np.int8]:
    """Whether each answer of the gate leads to the questions of a skip: ASKED, NOT_ASKED or UNKNOWN, [row]."""
    distinct, which = gate.answered(cells).hashable().factorise()
    meaning, found = meanings(gate), np.full(len(distinct) + 1, UNKNOWN, np.int8)
    for place, value in enumerate(distinct):
        # A statement, such as one_of, or a number in a column of bands may be either.
        if is_label(value) and (value in meaning or not gate.labels):
            found[place] = ASKED if meaning.get(value, value) in skip.values else NOT_ASKED
    return found[which]


def not_asked(
    columns: Mapping[str, Column],
    skips: Sequence[Skip],
    table: Table,
    imputed: Mapping[str, tuple[NDArray[Any], BoolArray]] | None = None,
) -> dict[str, BoolArray]:
    """Rows in which each question with a gate was not asked, [row].

    `imputed` are cells in the place of empty ones and where they are, by column of the table: an imputed answer of a
    gate decides too, except where the row has an answer that it must have led to.
    """
    answered = _answered(columns, skips, table)
    led = dict(zip(skips, led_to(skips, answered), strict=True))
    found: dict[str, BoolArray] = {}
    for name, own in in_order(skips):
        out = np.zeros(table.n_rows, bool)
        for skip in own:
            gate, silent = skip.asked_if, ~answered[skip.asked_if]
            if gate in table:
                out |= says(columns[gate], skip, table.cells(gate)) == NOT_ASKED
            if gate in found:
                out |= silent & found[gate]
            if imputed is not None and gate in imputed:
                guess = Cells(gate, np.asarray(imputed[gate][0]), ~imputed[gate][1], table.rows)
                out |= silent & ~led[skip] & (says(columns[gate], skip, guess) == NOT_ASKED)
        found[name] = out
    return found


def led_to(skips: Sequence[Skip], answered: Mapping[str, BoolArray]) -> list[BoolArray]:
    """Rows with an answer to a question of each skip, or to one that depends on these: their gate has led to them."""
    reached = dict(answered)
    for name, own in reversed(list(in_order(skips))):
        for skip in own:
            reached[skip.asked_if] = reached[skip.asked_if] | reached[name]
    return [np.any([reached[name] for name in skip.columns], axis=0) for skip in skips]


def _answered(columns: Mapping[str, Column], skips: Sequence[Skip], table: Table) -> dict[str, BoolArray]:
    """Rows with an answer to each question that skips name, [row]."""
    names = {name for skip in skips for name in (skip.asked_if, *skip.columns)}
    return {name: ~unanswered(columns, table, name) for name in names}


def not_applicable(columns: Mapping[str, Column], skips: Sequence[Skip], table: Table) -> dict[str, BoolArray]:
    """Rows in which a question has no answer because it was not asked, [row], by question."""
    return {name: out & unanswered(columns, table, name) for name, out in not_asked(columns, skips, table).items()}


def implied(columns: Mapping[str, Column], skips: Sequence[Skip], given: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions with those that follow: who has answered a question has given its gate an answer that leads to it."""
    found = dict(given)
    for name, own in reversed(list(in_order(skips))):
        for skip in own:
            gate = columns[skip.asked_if]
            if name not in found or skip.asked_if in found or not gate.sites:
                continue
            places = sorted(gate.labels.index(value) for value in skip.values)
            if len(places) == 1:
                found[skip.asked_if] = skip.values[0]
            elif not gate.has_order or places[-1] - places[0] == len(places) - 1:  # ordered levels have to be adjacent
                found[skip.asked_if] = one_of(*skip.values)
    return found


def deduced(columns: Mapping[str, Column], skips: Sequence[Skip], table: Table) -> dict[str, tuple[Any, BoolArray]]:
    """Gates without an answer in rows [row] with an answer that only one answer of the gate leads to, and that one."""
    answered = _answered(columns, skips, table)
    found: dict[str, tuple[Any, BoolArray]] = {}
    for skip, led in zip(skips, led_to(skips, answered), strict=True):
        if len(skip.values) == 1 and columns[skip.asked_if].sites:
            rows = led & ~answered[skip.asked_if]
            rows = rows | found[skip.asked_if][1] if skip.asked_if in found else rows
            found[skip.asked_if] = skip.values[0], rows
    return found


def emptied(values: NDArray[Any], where: BoolArray) -> NDArray[Any]:
    """A copy of cells with some of them empty: NaN among numbers, None among others."""
    if not where.any():
        return values
    if values.dtype.kind in "iuf":
        return np.where(where, np.nan, values.astype(np.float64))
    found = values.astype(object)
    found[where] = None
    return found
