"""Blocks in standard units: conditions of a query, numbers that are too far away, inequalities in the user's units.

Idea: a column encodes its cells; what concerns several columns, or cells that no column could expect, is done here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thurbo.errors import SchemaError, SchemaWarning
from thurbo.table.columns.cells import Block, Cells, FloatArray, LinearRow, as_numbers
from thurbo.table.columns.column import Column
from thurbo.table.columns.values import Refused, listing, show, suggestion
from thurbo.table.io.frames import Table

# Farthest number in standard units. A cell of the training table is farther only if it has more than a million rows.
FARTHEST = 1e3
SWAMPED = 1e-4  # median distance of the numbers of a column from their median, in standard units, that is too small


def not_too_far(block: Block, name: str, rows: Any) -> Block:
    """The block with numbers that overflow single precision, such as 1e20, brought nearer; warns of them."""
    near, changed = block.within(FARTHEST)
    if changed.any():
        line = int(changed.argmax())
        row = line if block.entries is None else int(block.entries.row[line])
        place = "" if rows is None else f"row {rows[row]}, "
        more = f" (and {changed.sum() - 1} more in this column)" if rows is not None and changed.sum() > 1 else ""
        warnings.warn(
            f'{place}column "{name}": the number{more} is more than {FARTHEST:,.0f} standard deviations from the mean '
            f"of the training data, and is used as if it were {FARTHEST:,.0f}; correct it if it is an error",
            SchemaWarning,
            stacklevel=2,
        )
    return near


def warn_of_swamped_columns(source: Table, blocks: Mapping[str, Block], rows: Any) -> None:
    """Warn of columns in which one number, such as 1e20, is so large that all others look equal beside it."""

    def spread(numbers: FloatArray) -> float:
        """Median distance from the median; one number that is far away does not change it."""
        return float(np.median(np.abs(numbers - np.median(numbers))))

    for name, block in blocks.items():
        if block.family != "measured" or len(block.sites) != 1 or block.entries is not None or name not in source:
            continue
        line = np.flatnonzero(block.point[:, 0])
        z = block.lower[line, 0]
        if len(line) < 3 or spread(z) >= SWAMPED or not spread(as_numbers(source.cells(name))[0][line]) > 0:
            continue
        warnings.warn(
            f'row {rows[line[np.abs(z).argmax()]]}, column "{name}": the number is so far from the others that they '
            'cannot be told apart; correct it if it is an error, or use transform="rank-normal" for this column',
            SchemaWarning,
            stacklevel=3,
        )


def encoded_condition(column: Column, name: str, value: Any, n_rows: int) -> Block:
    """A condition of a query as a block, the same cell in every row; an error says what it may be, and no row."""
    cell = np.full(n_rows, None, object)
    cell[:] = [value] * n_rows
    same = Cells(name, cell, np.zeros(n_rows, bool), np.full(n_rows, None))
    try:
        return column.encode(column.interpreted(column.recoded(same)))
    except SchemaError as error:
        near, is_cell, _ = (error.remedy or "").partition("correct the cell")
        if not is_cell:
            raise
        known = f"use one of {listing(map(show, column.labels))}" if column.labels else "give a number"
        raise SchemaError(error.problem, column=name, remedy=f"{near}{known}") from None


def in_standard_units(columns: Mapping[str, Column], block: Block, rows: Any, name: str) -> Block:
    """The block with the sites of its linear inequalities checked, and converted from the user's units."""
    if not block.linear:
        return block
    homes: dict[str, list[str]] = {}  # columns of each site, by its full name; several where the name is ambiguous
    for home, column in columns.items():
        for site in column.sites:
            homes.setdefault(f"{home}.{site}" if site else home, []).append(home)
    found = []
    for each in block.linear:
        coefficients, shift = {}, 0.0
        for site, coefficient in each.coefficients.items():
            if len(homes.get(site, ())) != 1:
                many = "more than one site" if site in homes else "no site"
                remedy = f"{suggestion(site, homes)}the sites are {listing(homes)}"
                raise SchemaError(f"{many} is called {show(site)}", row=rows[each.row], column=name, remedy=remedy)
            try:
                location, scale = columns[homes[site][0]].linear_units()
            except Refused as refused:
                problem = f"{show(site)} {refused.problem}"
                raise SchemaError(problem, row=rows[each.row], column=name, remedy=refused.remedy) from None
            shift += coefficient * location
            coefficients[site] = coefficient * scale
        found.append(LinearRow(each.row, coefficients, each.lower - shift, each.upper - shift))
    return replace(block, linear=tuple(found))
