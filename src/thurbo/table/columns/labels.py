"""§3 Cells that hold labels: their set, display names and order; and labels that are compared by utilities (§3.2).

`labels` are the values in the table, `texts` their display names ("Strongly agree" for 1); a cell or a statement may
use either, and a text that could mean two labels is not accepted. Where each label has a utility, one category, a set
of categories and a ranking with ties are all tiers of a weak order: from 0 without gaps, larger is preferred.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import InfeasibleEvidence, SchemaError, SchemaWarning
from thurbo.table.columns.cells import (
    Block,
    BoolArray,
    Cells,
    Contradiction,
    Family,
    FloatArray,
    IntArray,
    LinearRow,
    Refused,
    is_label,
    listing,
    show,
    suggestion,
)
from thurbo.table.columns.column import Column
from thurbo.table.columns.forms.levels import LevelForm
from thurbo.table.columns.statements import Interval, OneOfStatement, OrderStatement, Statement, TopSet

MANY_LEVELS = 500  # with 1,000 a training step is several times slower, with several thousand about forty times


@dataclass(frozen=True)
class LabelledColumn(Column):
    """A cell that holds labels; `names` are their display names: {1: "Strongly agree", 2: "Agree"}.

    If labels are not given, they are those of `names` together with those of the training cells.
    """

    words: ClassVar[tuple[str, ...]] = ("names", "missing")
    names: Mapping[Any, str] | tuple[tuple[Any, str], ...] = field(default=(), kw_only=True)  # stored as pairs

    @property
    def _names(self) -> tuple[tuple[Any, str], ...]:
        stored: Any = self.names
        return stored

    @property
    def texts(self) -> tuple[str, ...]:
        """Display name of each of `labels`, or else the label itself."""
        names = dict(self._names)
        return tuple(str(names.get(label, label)) for label in self.labels)

    def lookup(self) -> dict[Any, int]:
        """Position of each label, and of each name that is unambiguous."""
        found: dict[Any, int] = {label: place for place, label in enumerate(self.labels)}
        written = {str(label): place for place, label in enumerate(self.labels)}
        count, named = Counter(self.texts), dict(self._names)
        for place, (label, text) in enumerate(zip(self.labels, self.texts, strict=True)):
            if label in named and count[text] == 1 and written.get(text, place) == place:
                found.setdefault(text, place)
        return found

    def meant(self, values: Iterable[Any]) -> list[Any]:
        """Labels of values that are labels or names, each once; without values that are declared missing."""
        gone, count = {value for value, _ in self._kinds}, Counter(text for _, text in self._names)
        label_of = {text: label for label, text in self._names if count[text] == 1}
        label_of |= {label: label for label, _ in self._names}
        return [label for label in dict.fromkeys(label_of.get(value, value) for value in values) if label not in gone]

    def possible(self, found: Iterable[Any]) -> list[Any]:
        """Labels that have a name, and labels of the values in `found`."""
        return self.meant([*(label for label, _ in self._names), *found])


@dataclass(frozen=True)
class LevelColumn(LabelledColumn):
    """A cell that is one of a few labels: label l means that x is between cuts l − 1 and l, Eq. (7)."""

    family: ClassVar[Family] = "levels"
    form_type = LevelForm
    is_one_label: ClassVar[bool] = True

    @abstractmethod
    def _unknown(self, cells: Cells, position: int, value: Any) -> SchemaError:
        """The error for a cell that is not one of the labels."""

    @abstractmethod
    def _range(self, statement: Statement) -> tuple[int, int]:
        """The lowest and the highest level that a statement allows; raises Refused."""

    def to_ranges(self, cells: Cells) -> tuple[IntArray, IntArray]:
        """Lowest and highest label that each cell allows: two arrays [row], −1 if it has no information."""
        if not self.labels:
            raise SchemaError(
                f"{type(self).__name__} is not fitted: its values are not known",
                column=cells.name,
                remedy="fit it first",
            )
        place = self.lookup()
        distinct, which = cells.factorise()
        low = np.asarray([*(place.get(value, -1) for value in distinct), -1], np.int32)
        high = low.copy()
        reasons: dict[int, Refused] = {}
        for index, value in enumerate(distinct):
            if isinstance(value, Statement):
                try:
                    low[index], high[index] = self._range(value)
                except Refused as refused:
                    reasons[index] = refused
        strange = np.flatnonzero((low[which] < 0) & (which >= 0))
        if len(strange) and self.unseen == "error":
            first = int(strange[0])
            why = reasons.get(int(which[first]))
            raise (
                cells.error(first, why.problem, why.remedy) if why else self._unknown(cells, first, cells.values[first])
            )
        # A cell that allows all levels has no information.
        low[(low == 0) & (high == len(self.labels) - 1)] = -1
        high[low < 0] = -1
        return low[which], high[which]

    def encode(self, cells: Cells) -> Block:
        """Cells as levels, Eq. (7)."""
        low, high = (code[:, None] for code in self.to_ranges(cells))
        return Block.levels(low, self.n_cuts, None if np.array_equal(low, high) else high)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The label whose interval contains x: its position is the number of cuts below x."""
        values = np.asarray(x, np.float64)[:, 0]
        own_cuts = np.asarray(cuts, np.float64).reshape(1, -1)[0, : self.n_cuts]
        codes = np.searchsorted(own_cuts, values, side="left")
        return self.answers_of(np.where(np.isnan(values), -1, codes))


def check_labels(labels: Any, many: str, one: str, owner: str) -> None:
    """Check that labels are a list of at least two distinct values that can be written to a file."""
    if not isinstance(labels, tuple):
        raise SchemaError(f"{many}={labels!r} is not a list", remedy=f"give {owner} a list")
    for place, label in enumerate(labels):
        if not is_label(label):
            raise SchemaError(f"{one} {show(label)} cannot be a label", remedy="use text, numbers or booleans")
        if label in labels[:place] or str(label) in map(str, labels[:place]):
            raise SchemaError(f"{one} {show(label)} occurs twice in the {many}", remedy=f"name each {one} once")
    if len(labels) < 2:
        problem = f"{many} [{listing(map(show, labels))}] are fewer than two"
        raise SchemaError(problem, remedy=f"give at least two {many}, or use Ignore()")


def check_pairs(value: Any, setting: str) -> None:
    """Check a setting of the form {label: name of a column}, each name once."""
    is_pairs = isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    if not is_pairs:
        raise SchemaError(f"{setting}={value!r} is not a dictionary", remedy=f'give {setting}={{"label": "column"}}')
    check_names(tuple(name for _, name in value), setting)


def check_names(names: Any, setting: str) -> None:
    """Check that a setting is a list of distinct names of columns."""
    if not isinstance(names, tuple) or not names:
        raise SchemaError(f"{setting}={names!r} is not a list of columns", remedy="give names of columns")
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise SchemaError(f"{setting} names the column {show(name)}", remedy="give the name of a column as text")
        if name in names[:place]:
            raise SchemaError(f"{setting} names the column {show(name)} twice", remedy="name each column once")


def in_order(found: Iterable[Any]) -> tuple[Any, ...]:
    """Labels in their natural order: numbers first (whole ones as integers), then text."""
    distinct = list(dict.fromkeys(found))
    numbers = [value for value in distinct if not isinstance(value, str)]
    if all(isinstance(value, float) and value.is_integer() for value in numbers):
        numbers = [int(value) for value in numbers]
    return (*sorted(numbers), *sorted(value for value in distinct if isinstance(value, str)))


def warn_of_many_levels(columns: Mapping[str, Column]) -> None:
    """Warn about columns with so many labels that training is slow, and suggest another type."""
    for name, column in columns.items():
        n_labels = len(column.labels)
        if not isinstance(column, LabelledColumn) or n_labels <= MANY_LEVELS or column.kind not in _ONE_OF_MANY:
            continue
        many, rather = _ONE_OF_MANY[column.kind]
        warnings.warn(
            f'column "{name}": {type(column).__name__} has {n_labels:,} {many}, which makes training slow; '
            f"use Ignore() or Id() if it names rows, {rather}",
            SchemaWarning,
            stacklevel=4,  # where TBM.fit was called
        )


def warn_of_spellings(columns: Mapping[str, Column]) -> None:
    """Warn about columns that read several spellings as one answer."""
    found = {name: column.recode for name, column in columns.items() if column.recode}
    if found:
        name, recode = next(iter(found.items()))
        text, to = next(iter(recode))
        more = f" and {len(found) - 1} more columns" if len(found) > 1 else ""
        warnings.warn(
            f'column "{name}"{more}: answers that differ in case, blanks or Y for Yes are read as one, such as '
            f"{show(text)} as {show(to)}; the table is not changed; remove recode from the column to keep them apart",
            SchemaWarning,
            stacklevel=4,  # where Schema.infer was called
        )


_ONE_OF_MANY = {
    "ordinal": ("levels", 'Continuous(transform="rank-normal") if it is an amount'),
    "categorical": ("categories", "or merge rare ones"),
}


class LabelTiers(NamedTuple):
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
    def _read(self, value: Any, places: Mapping[Any, int]) -> LabelTiers | None:
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

    def subset(self, statement: OneOfStatement | TopSet, places: Mapping[Any, int]) -> LabelTiers | None:
        """A set of labels above all others, or one of them above all others; the set of all has no information."""
        members = sorted(set(self.find(statement.values, places)))
        if len(members) == len(self.labels):
            return None
        tier = np.zeros(len(self.labels), np.int32)
        tier[members] = 1
        # One of a single label is that label.
        return LabelTiers(tier, isinstance(statement, OneOfStatement) and len(members) > 1)


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


def combine(orders: Iterable[OrderStatement], places: Mapping[Any, int], column: UtilityColumn) -> LabelTiers:
    """Several orders combined: as tiers if together they are a weak order, otherwise as pairs."""
    better: dict[int, set[int]] = {}
    named: set[int] = set()
    found = [[column.find(tier, places) for tier in order.tiers] for order in orders]
    chain = [place for group in found[0] for place in group] if len(found) == 1 else []
    if chain and len(set(chain)) == len(chain) == len(found[0]):  # each item once, and no ties
        tier = np.full(len(column.labels), -1, np.int32)
        tier[chain] = np.arange(len(chain))[::-1]
        return LabelTiers(tier)
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
        return LabelTiers(tier)
    direct = [
        (a, b) for a in sorted(named) for b in sorted(reach[a]) if not any(b in reach[c] for c in reach[a] if c != b)
    ]
    return LabelTiers(np.full(len(column.labels), -1, np.int32), pairs=tuple(direct))


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


def levels_inside(interval: Interval, levels: tuple[Any, ...], place: Callable[[Any], int]) -> list[int]:
    """Positions of the levels between two ends, both included, lowest first; raises Refused if there is none."""
    lower, upper = interval.lower, interval.upper
    ends = [end for end in (lower, upper) if end is not None]
    if all(isinstance(value, (int, float)) for value in (*levels, *ends)):
        # Ends between levels are allowed: "at least 2.5" of 1, 2, 3 is 3.
        inside = [
            code
            for code, level in enumerate(levels)
            if (lower is None or level >= lower) and (upper is None or level <= upper)
        ]
    else:
        low = 0 if lower is None else place(lower)
        inside = list(range(low, len(levels) if upper is None else place(upper) + 1))
    if not inside:
        raise Refused(f"{show(interval)} contains none of {listing(levels, ' < ')}", "correct its ends")
    return inside
