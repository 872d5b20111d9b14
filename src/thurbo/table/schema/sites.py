"""§3 The sites x_1 ... x_N of a schema, and the cells of a table as inequalities on them: one block per column."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError, SchemaWarning
from thurbo.table.columns.cells import (
    Block,
    BoolArray,
    Cells,
    FloatArray,
    IntArray,
    LinearRow,
    Refused,
    as_numbers,
    listing,
    show,
    suggestion,
)
from thurbo.table.columns.column import Column
from thurbo.table.io.frames import Table


class Sites(Mapping[str, Column]):
    """The sites of a mapping from name to column; abstract, the base of `Schema`."""

    @cached_property
    def modelled(self) -> tuple[str, ...]:
        """Names of the questions that are part of the model: columns with sites that have cells in the table."""
        return tuple(name for name, column in self.items() if column.sites and column.role != "pattern")

    @cached_property
    def with_sites(self) -> tuple[str, ...]:
        """Names of all columns with sites: questions, and which blocks of them have answers."""
        return tuple(name for name, column in self.items() if column.sites)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Positions of each column's sites among all sites."""
        places, start = {}, 0
        for name, column in self.items():
            places[name] = slice(start, start + len(column.sites))
            start += len(column.sites)
        return places

    @property
    def n_sites(self) -> int:
        """Number of sites of the model, N."""
        return sum(len(column.sites) for column in self.values())

    @property
    def site_names(self) -> tuple[str, ...]:
        """ "column", or "column.label" if the column has several sites."""
        return tuple(f"{name}.{site}" if site else name for name, column in self.items() for site in column.sites)

    @property
    def site_columns(self) -> tuple[str, ...]:
        """Name of the column of each site."""
        return tuple(name for name, column in self.items() for _ in column.sites)

    @property
    def n_cuts(self) -> IntArray:
        """Number of learnable cuts of each site: [site]."""
        return self._by_site([column.n_cuts for column in self.values()]).astype(np.int32)

    @property
    def is_measured(self) -> BoolArray:
        """Which sites have a learned scale: measured numbers, and compared items with a threshold of ties: [site]."""
        return self._by_site([column.has_scale for column in self.values()]).astype(bool)

    @property
    def is_utility(self) -> BoolArray:
        """Which sites are utilities, which choices and orders compare: [site]."""
        return self._by_site([column.family == "utility" for column in self.values()]).astype(bool)

    @property
    def context(self) -> BoolArray:
        """Which items of the same ranking may change the utility of each site once they were chosen: [site, item].

        It has no items if no column has context.
        """
        sizes = [len(column.sites) * column.has_context for column in self.values()]
        found = np.zeros((sum(len(column.sites) for column in self.values()), max(sizes, default=0)), bool)
        first = 0
        for column, size in zip(self.values(), sizes, strict=True):
            found[first : first + size, :size] = ~np.eye(size, dtype=bool)
            first += len(column.sites)
        return found

    def _by_site(self, values: list[Any]) -> NDArray[Any]:
        """A value of each column, as often as it has sites."""
        return np.repeat(np.asarray(values), [len(column.sites) for column in self.values()])

    @property
    def effect_slices(self) -> dict[str, slice]:
        """Positions of the features of each column whose items have attributes, among those of all columns."""
        found, end = {}, 0
        for name, column in self.items():
            if column.design is not None:
                found[name] = slice(end, end + column.design.matrix.shape[1])
                end = found[name].stop
        return found

    @property
    def listed(self) -> tuple[str, ...]:
        """Names of the columns of which each row has few of many sites: lists of items."""
        return tuple(name for name, column in self.items() if column.is_listed)

    def column_of(self, site: str) -> Column | None:
        """The column of a site, by the site's full name."""
        name = dict(zip(self.site_names, self.site_columns, strict=True)).get(site)
        return None if name is None else self[name]

    @property
    def source_columns(self) -> dict[str, tuple[str, ...]]:
        """Columns of the table that hold the answers to each question; empty for columns outside the model."""
        return {name: column.source_columns(name) for name, column in self.items()}


def check_mapping(columns: Any) -> Mapping[str, Any]:
    """The columns, if they are given by name; otherwise an error."""
    if not isinstance(columns, Mapping):
        remedy = 'give a dict, such as {"age": tb.Continuous(), "fan": tb.Binary()}, or use Schema.infer(table)'
        raise SchemaError(f"{show(columns)} is not a mapping from names to columns", remedy=remedy)
    return columns


MissingColumns = Literal["error", "ignore"]

# Farthest number in standard units. A cell of the training table is farther only if it has more than a million rows.
FARTHEST = 1e3
SWAMPED = 1e-4  # median distance of the numbers of a column from their median, in standard units, that is too small


def with_row_names(columns: Mapping[str, Column], source: Table) -> Table:
    """The table with its rows labelled by the Id column, if the schema and the table have one."""
    for name, column in columns.items():
        if column.role == "id" and name in source:
            return replace(source, rows=column.rows(source.cells(name)))
    return source


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
    """A condition of a query as a block: the same cell in every row.

    An error is in no row, and says what a condition may be, because there is no cell to correct.
    """
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
