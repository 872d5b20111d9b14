"""Sites of a schema: the Gaussian variables x_1 ... x_N of the model, and the column that each belongs to.

Idea: the sites of the columns one after the other, in order of the schema.
Guarantees that every array over sites uses this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns import Column
from thurbo.columns.cells import BoolArray, IntArray, show
from thurbo.errors import SchemaError


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
