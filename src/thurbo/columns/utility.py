"""§3.2: answers that compare: each label has a site, its utility, and a cell gives the order of utilities.

One category, a set of categories and a ranking with ties are all tiers of a weak order; equal cells are read once.
The tiers of each row start at 0 without gaps; larger is preferred; −1 is a label that is not compared.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thurbo.columns.block import Family, LinearRow
from thurbo.columns.cells import BoolArray, Cells, Contradiction, IntArray, Refused, is_label, listing, show, suggestion
from thurbo.columns.labels import LabelledColumn, in_order
from thurbo.columns.statements import OneOfStatement, OrderStatement, TopSet
from thurbo.errors import InfeasibleEvidence, SchemaError


class Reading(NamedTuple):
    """The meaning of one value: tiers [label], whether it is "one of these", and pairs that tiers cannot express."""

    tier: IntArray
    one_of: bool = False
    pairs: tuple[tuple[int, int], ...] = ()  # (better, worse)


@dataclass(frozen=True)
class UtilityColumn(LabelledColumn):
    """A cell that compares the utilities of its labels."""

    family: ClassVar[Family] = "utility"
    one: ClassVar[str]  # the word for a label in messages ...
    many: ClassVar[str]  # ... and its plural, which is the name of the setting

    @abstractmethod
    def _read(self, value: Any, places: Mapping[Any, int]) -> Reading | None:
        """The meaning of a value, None if it has no information; raises Refused."""

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(map(str, self.labels))

    @property
    def n_cuts(self) -> int:
        return 0

    def index(self, cells: Cells) -> dict[Any, int]:
        """Position of each label, which may also be given as text."""
        if not self.labels:
            problem = f"{type(self).__name__} is not fitted: its {self.many} are not known"
            raise SchemaError(problem, column=cells.name, remedy="fit it first")
        places: dict[Any, int] = {site: place for place, site in enumerate(self.sites)}
        return places | self.lookup()

    def read(self, cells: Cells) -> tuple[IntArray, BoolArray, list[LinearRow]]:
        """The meaning of every cell: tiers [row, label], `one_of` [row], and inequalities that tiers cannot express."""
        places = self.index(cells)
        cells = cells.hashable()
        distinct, which = cells.factorise()
        tier = np.full((len(distinct) + 1, len(self.labels)), -1, np.int32)
        one_of = np.zeros(len(distinct) + 1, bool)
        pairs: dict[int, tuple[tuple[int, int], ...]] = {}
        reasons: dict[int, Refused] = {}
        for index, value in enumerate(distinct):
            try:
                reading = self._read(value, places)
            except Refused as refused:
                reasons[index] = refused
                continue
            if reading is not None:
                tier[index], one_of[index] = reading.tier, reading.one_of
            if reading is not None and reading.pairs:
                pairs[index] = reading.pairs
        self._refuse(cells, which, reasons)
        linear = [
            LinearRow(
                int(row), {f"{cells.name}.{self.sites[a]}": 1.0, f"{cells.name}.{self.sites[b]}": -1.0}, 0.0, np.inf
            )
            for row in np.flatnonzero(np.isin(which, list(pairs)))
            for a, b in pairs[int(which[row])]
        ]
        return tier[which], one_of[which], linear

    def _refuse(self, cells: Cells, which: IntArray, reasons: dict[int, Refused]) -> None:
        """Raise the first error, by row, unless such cells are treated as missing."""
        if self.unseen == "missing":
            reasons = {index: why for index, why in reasons.items() if isinstance(why, Contradiction)}
        if reasons:
            first = int(np.isin(which, list(reasons)).argmax())
            why = reasons[int(which[first])]
            if isinstance(why, Contradiction):
                raise InfeasibleEvidence(why.problem, row=cells.rows[first], column=cells.name, remedy=why.remedy)
            raise cells.error(first, why.problem, why.remedy)

    def unknown(self, label: Any) -> Refused:
        """The error for a label that is not one of the column's labels."""
        near = suggestion(label, (*self.labels, *self.texts)) if isinstance(label, str) else ""
        kind = type(self).__name__
        return Refused(
            f"{self.one} {show(label)} is not one of {listing(self.labels, ' < ' if self.has_order else ', ')}",
            f'{near}correct the cell, add it to {kind}({self.many}=[...]), or use {kind}(unseen="missing")',
        )

    def find(self, members: Iterable[Any], places: Mapping[Any, int]) -> list[int]:
        """Positions of labels; raises Refused if a label is unknown."""
        found = []
        for member in members:
            if not isinstance(member, (str, int, float)) or member not in places:
                raise self.unknown(member)
            found.append(places[member])
        return found

    def subset(self, statement: OneOfStatement | TopSet, places: Mapping[Any, int]) -> Reading | None:
        """A set of labels above all others, or one of them above all others; the set of all has no information."""
        members = sorted(set(self.find(statement.values, places)))
        if len(members) == len(self.labels):
            return None
        tier = np.zeros(len(self.labels), np.int32)
        tier[members] = 1
        # One of a single label is that label.
        return Reading(tier, isinstance(statement, OneOfStatement) and len(members) > 1)


def mentioned(cells: Cells) -> Iterable[Any]:
    """Every label in the cells: alone, in collections or in statements."""
    distinct, _ = cells.hashable().factorise()
    for value in distinct:
        yield from mentioned_in(value)


def mentioned_in(value: Any) -> Iterable[Any]:
    """Every label in one cell."""
    if isinstance(value, (OneOfStatement, TopSet)):
        yield from value.values
    elif isinstance(value, OrderStatement):
        yield from (item for tier in value.tiers for item in tier)
    elif isinstance(value, tuple):
        for member in value:
            yield from _inner(member)
    else:
        yield value


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, OrderStatement):
        return [item for tier in value.tiers for item in tier]
    return value if isinstance(value, tuple) else [value]


def combine(orders: Iterable[OrderStatement], places: Mapping[Any, int], column: UtilityColumn) -> Reading:
    """Several orders combined: as tiers if together they are a weak order, otherwise as pairs."""
    better: dict[int, set[int]] = {}
    named: set[int] = set()
    found = [[column.find(tier, places) for tier in order.tiers] for order in orders]
    chain = [place for group in found[0] for place in group] if len(found) == 1 else []
    if chain and len(set(chain)) == len(chain) == len(found[0]):  # each item once, and no ties
        tier = np.full(len(column.labels), -1, np.int32)
        tier[chain] = np.arange(len(chain))[::-1]
        return Reading(tier)
    for groups in found:
        named.update(place for group in groups for place in group)
        for above, below in pairwise(groups):
            for place in above:
                better.setdefault(place, set()).update(below)
    height = _heights(better, named, column)
    reach = _closure(better, height)
    is_weak_order = all(b in reach[a] for a in named for b in named if height[a] > height[b])
    if is_weak_order:
        tier = np.full(len(column.labels), -1, np.int32)
        tier[list(height)] = list(height.values())
        return Reading(tier)
    direct = [
        (a, b) for a in sorted(named) for b in sorted(reach[a]) if not any(b in reach[c] for c in reach[a] if c != b)
    ]
    return Reading(np.full(len(column.labels), -1, np.int32), pairs=tuple(direct))


def _heights(better: Mapping[int, set[int]], named: set[int], column: UtilityColumn) -> dict[int, int]:
    """Length of the longest chain below each item; raises Contradiction if there is a cycle."""
    height: dict[int, int] = {}

    def visit(place: int, path: tuple[int, ...]) -> int:
        if place in path:
            circle = listing((column.labels[each] for each in (*path[path.index(place) :], place)), " > ")
            raise Contradiction(f"the preferences {circle} form a cycle", "remove one of them")
        if place not in height:
            height[place] = max((visit(below, (*path, place)) + 1 for below in better.get(place, ())), default=0)
        return height[place]

    for place in sorted(named):
        visit(place, ())
    return height


def _closure(better: Mapping[int, set[int]], height: Mapping[int, int]) -> dict[int, set[int]]:
    """All items below each: those directly below, and all below them."""
    reach: dict[int, set[int]] = {}
    for place in sorted(height, key=lambda place: height[place]):
        below = better.get(place, set())
        reach[place] = below.union(*(reach[each] for each in below))
    return reach


def last(tier: IntArray) -> IntArray:
    """Tiers with the unranked labels below all ranked ones, in rows that rank any: [row, label]."""
    ranked = tier >= 0
    short = ranked.any(axis=1, keepdims=True) & ~ranked.all(axis=1, keepdims=True)
    return np.where(short, tier + 1, tier).astype(np.int32)


def fitted_labels(cells: Cells, found: Iterable[Any], column: UtilityColumn) -> tuple[Any, ...]:
    """Labels in the order of the frame, otherwise sorted, numbers before text; at least two."""
    if cells.ordered_levels is not None and len(cells.ordered_levels) > 1:
        return tuple(column.meant(cells.ordered_levels))
    distinct = column.possible(found)
    remedy = f"use {type(column).__name__}([...]) with all {column.many}, or use Ignore()"
    for value in distinct:
        if not is_label(value):
            raise SchemaError(f"{show(value)} cannot be a {column.one}", column=cells.name, remedy=remedy)
    if len(distinct) < 2:
        problem = f"the only {column.one} is {show(distinct[0])}" if distinct else f"there is no {column.one}"
        raise SchemaError(problem, column=cells.name, remedy=remedy)
    return in_order(distinct)
