"""§3 From the cells of a table to inequalities on the sites of the model: one block per column.

Idea: each column encodes its own cells; this module finds the cells and checks what refers to other columns.
Guarantees that an error names the row, the column and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from thurbo.columns import Block, Cells, Column, LinearRow
from thurbo.columns.cells import Refused, listing, show, suggestion
from thurbo.errors import SchemaError
from thurbo.io.table import Table

MissingColumns = Literal["error", "ignore"]


def with_row_names(columns: Mapping[str, Column], source: Table) -> Table:
    """The table with its rows labelled by the Id column, if the schema and the table have one."""
    for name, column in columns.items():
        if column.role == "id" and name in source:
            return replace(source, rows=column.rows(source.cells(name)))
    return source


def compile_table(
    columns: Mapping[str, Column], source: Table, missing_columns: MissingColumns, given: Mapping[str, Any]
) -> dict[str, Block]:
    """The block of each column; a cell in `given` replaces the cells of its column in every row."""
    blocks, homes = {}, _homes(columns)
    for name, column in columns.items():
        reads = {name, *column.source_columns(name)} if column.source_columns(name) else set()
        if name in given:
            said = column.recoded(_repeated(given[name], name, source.n_rows))
            block = column.encode(column.interpreted(said))
        elif not reads or (missing_columns == "ignore" and not any(each in source for each in reads)):
            blocks[name] = column.silent(source.n_rows)
            continue
        else:
            block = column.encode(cells_of(columns, source, name, missing_columns))
        linear = tuple(_standard(columns, row, source.rows[row.row], name, homes) for row in block.linear)
        blocks[name] = replace(block, linear=linear) if linear else block
    return blocks


def cells_of(
    columns: Mapping[str, Column], source: Table, name: str, missing_columns: MissingColumns = "error"
) -> Cells:
    """The cells of a question and of the table columns it consists of; declared missing values count as missing."""
    wanted = columns[name].source_columns(name)
    absent = [each for each in wanted if each not in source]
    has_own_cells = name in source and name not in wanted
    if absent and missing_columns == "error" and not has_own_cells:
        left = [other for other in source.names if other not in columns]
        remedy = f"{suggestion(absent[0], left or source.names)}add it, with empty cells if its answers are not known"
        remedy += f"; the table has {listing(source.names)}"
        needs = "the schema has this column" if wanted == (name,) else f'"{name}" needs this column'
        raise SchemaError(f"{needs}, but the table does not have it", column=absent[0], remedy=remedy)
    if wanted == (name,):
        return columns[name].answered(source.cells(name))
    empty = np.full(source.n_rows, None, object)
    own = source.cells(name) if name in source else Cells(name, empty, np.ones(source.n_rows, bool), source.rows)
    parts = {each: source.cells(each) for each in wanted if each in source}
    return columns[name].answered(replace(own, parts=parts))


def _repeated(value: Any, name: str, n_rows: int) -> Cells:
    """The same cell in every row; without row labels, because an error in a condition is in no row."""
    cell = np.full(n_rows, None, object)
    cell[:] = [value] * n_rows
    return Cells(name, cell, np.zeros(n_rows, bool), np.full(n_rows, None))


def _homes(columns: Mapping[str, Column]) -> dict[str, list[str]]:
    """Columns of each site, by the site's full name; more than one where the name is ambiguous."""
    homes: dict[str, list[str]] = {}
    for name, column in columns.items():
        for site in column.sites:
            homes.setdefault(f"{name}.{site}" if site else name, []).append(name)
    return homes


def _standard(
    columns: Mapping[str, Column], each: LinearRow, row: Any, name: str, homes: Mapping[str, Sequence[str]]
) -> LinearRow:
    """A linear inequality with its sites checked, and converted from the user's units to standard units."""
    coefficients, shift = {}, 0.0
    for site, coefficient in each.coefficients.items():
        if len(homes.get(site, ())) != 1:
            many = "more than one site" if site in homes else "no site"
            remedy = f"{suggestion(site, homes)}the sites are {listing(homes)}"
            raise SchemaError(f"{many} is called {show(site)}", row=row, column=name, remedy=remedy)
        try:
            location, scale = columns[homes[site][0]].linear_units()
        except Refused as refused:
            problem = f"{show(site)} {refused.problem}"
            raise SchemaError(problem, row=row, column=name, remedy=refused.remedy) from None
        shift += coefficient * location
        coefficients[site] = coefficient * scale
    return LinearRow(each.row, coefficients, each.lower - shift, each.upper - shift)
