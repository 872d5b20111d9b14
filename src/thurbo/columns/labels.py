"""Cells that hold labels: the set of labels, their display names, and their order.

`labels` are the values in the table, `texts` their display names ("Strongly agree" for 1). A cell or a statement may
use either. A text that could mean two labels is not accepted for either.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.block import Block, Family
from thurbo.columns.cells import Cells, FloatArray, IntArray, Refused, is_label, listing, show
from thurbo.columns.column import Column
from thurbo.columns.forms import Form, LevelForm
from thurbo.columns.statements import Statement
from thurbo.errors import SchemaError, SchemaWarning

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
    is_one_label: ClassVar[bool] = True

    @property
    def form(self) -> Form:
        return LevelForm()

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

    def codes(self, block: Block) -> IntArray:
        """The only level that each cell allows: [row], −1 if there are several or none."""
        return LevelForm().codes(self, block)

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
