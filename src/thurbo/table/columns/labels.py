"""§3 Cells that hold labels: their set, display names and order; labels in columns; labels with utilities (§3.2).

`labels` are the values in the table, `texts` their display names ("Strongly agree" for 1); a cell or a statement may
use either, and a text that could mean two labels is not accepted. Where each label has a utility, one category, a set
of categories and a ranking with ties are all tiers of a weak order: from 0 without gaps, larger is preferred.

One question may have several columns of a table, one for each label. Such a column says that its label was chosen by
the text of the label, by its own name, by 1, "Yes", "Selected" or "X", and otherwise has 0, "No", "Not selected" or an
empty cell. `fit` finds out which; any number of options is a `MultiSelect`, and of exclusive columns each row has one
label, which is then read as if it stood in a single cell. Answers are written in the same way.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError, SchemaWarning
from thurbo.table.columns.cells import Block, BoolArray, Cells, Family, FloatArray, IntArray, LinearRow
from thurbo.table.columns.column import Column, are_pairs, not_fitted
from thurbo.table.columns.forms.levels import LevelForm
from thurbo.table.columns.statements import Interval, OneOfStatement, OrderStatement, Statement, TopSet
from thurbo.table.columns.values import (
    Contradiction,
    Refused,
    false_and_true,
    is_label,
    is_negative,
    is_word,
    listing,
    natural,
    plain,
    show,
    suggestion,
)

MANY_LEVELS = 500  # with 1,000 a training step is several times slower, with several thousand about forty times
NO, YES, BLANK, REFUSED = 0, 1, -1, -2  # what a cell says about its label
Marks = tuple[tuple[Any, Any], ...]  # (not chosen, chosen) of each column; "" is an empty cell


@dataclass(frozen=True)
class LabelledColumn(Column):
    """A cell that holds labels; `names` are their display names: {1: "Strongly agree", 2: "Agree"}.

    If labels are not given, they are those of `names` together with those of the training cells.
    """

    words: ClassVar[tuple[str, ...]] = ("names", "missing")
    one: ClassVar[str]  # the word for a label in messages ...
    many: ClassVar[str] = ""  # ... and its plural, which is the name of the setting
    names: Mapping[Any, str] | tuple[tuple[Any, str], ...] = field(default=(), kw_only=True)  # stored as pairs

    @property
    def _names(self) -> dict[Any, str]:
        return dict(self.names)

    @property
    def _pairs(self) -> tuple[tuple[Any, Any], ...]:
        """The setting that is given as {label: ...}, if the column has one."""
        return tuple(next((own for name in self.mappings if (own := getattr(self, name))), ()))

    @property
    def labels(self) -> tuple[Any, ...]:
        return getattr(self, self.many, None) or tuple(label for label, _ in self._pairs)

    @property
    def texts(self) -> tuple[str, ...]:
        names = self._names
        return tuple(str(names.get(label, label)) for label in self.labels)

    @classmethod
    def answers_of_type(cls, column: Column) -> dict[str, Any]:
        return {cls.many: column.labels} if cls.is_one_label and cls.many and column.labels else {}

    def with_answers(self, labels: Sequence[Any], **settings: Any) -> Column:
        answers: dict[str, Any] = {self.many: tuple(labels)} if self.is_one_label and labels else {}
        return replace(self, **answers, **settings)

    @cached_property
    def lookup(self) -> Mapping[Any, int]:
        """Position of each label, and of each name that is unambiguous."""
        found: dict[Any, int] = {label: place for place, label in enumerate(self.labels)}
        written = {str(label): place for place, label in enumerate(self.labels)}
        count, names = Counter(self.texts), self._names
        for place, (label, text) in enumerate(zip(self.labels, self.texts, strict=True)):
            if label in names and count[text] == 1 and written.get(text, place) == place:
                found.setdefault(text, place)
        return found

    def meant(self, values: Iterable[Any]) -> list[Any]:
        """Labels of values that are labels or names, each once; without values that are declared missing."""
        names, gone = self._names, dict(self.declared_missing)
        count = Counter(names.values())
        label_of = {text: label for label, text in names.items() if count[text] == 1 and text not in names}
        return [label for label in dict.fromkeys(label_of.get(value, value) for value in values) if label not in gone]

    def possible(self, found: Iterable[Any]) -> list[Any]:
        """Labels that have a name, and labels of the values in `found`."""
        return self.meant([*self._names, *found])

    def index(self, cells: Cells) -> dict[Any, int]:
        """Position of each label, which may also be given as text; raises an error if the labels are not known."""
        if not self.labels:
            raise not_fitted(self, self.many, cells.name)
        return {**{str(label): place for place, label in enumerate(self.labels)}, **self.lookup}

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
        members = list(members)
        for member in members:
            if not isinstance(member, (str, int, float)) or member not in places:
                raise self.unknown(member)
        return [places[member] for member in members]

    def mentions_of(self, cells: Cells) -> list[Any]:
        """The labels in columns that hold one of several mentions."""
        return [value for part in cells.parts.values() for value in part.factorise()[0] if value != ""]

    def mentions_in(self, part: Cells, places: Mapping[Any, int]) -> IntArray:
        """The label in each cell of a column that holds one of several mentions: [row], −1 if it is empty."""
        found, which = part.read(lambda value: -1 if value == "" else self.find([value], places)[0], -1, self.unseen)
        return np.asarray(found, np.int32)[which]


@dataclass(frozen=True)
class SpreadColumn(LabelledColumn):
    """A question that may have a column of the table for each of its labels."""

    mappings: ClassVar[tuple[str, ...]] = ("columns",)
    columns: Mapping[Any, str] | tuple[Any, ...] | None = field(default=None, kw_only=True)  # stored as pairs
    ticked: Any = field(default=None, kw_only=True)  # the value that means "chosen", in columns

    def _check(self) -> None:
        super()._check()
        if self._spread:
            check_pairs(self.columns, "columns")
        if self.ticked is not None and (not self._spread or not is_label(self.ticked)):
            remedy = f'use {type(self).__name__}(columns={{"label": "column"}}, ticked=1)'
            raise SchemaError(f"ticked={self.ticked!r} needs columns", remedy=remedy)

    @property
    def _spread(self) -> tuple[tuple[Any, str], ...]:
        """Each label, and the name of its column."""
        stored: Any = self.columns if "columns" in self.mappings else None
        return stored or ()

    @property
    def label_of_source(self) -> dict[str, str]:
        return {column: str(self._names.get(label, label)) for label, column in self._spread}

    def separated(self) -> dict[str, Column]:
        return {column: self.registered["binary"](missing=self.missing) for _, column in self._spread}

    def source_columns(self, name: str) -> tuple[str, ...]:
        return tuple(column for _, column in self._spread) or (name,)

    def _found_marks(self, parts: Mapping[str, Cells]) -> tuple[Marks, bool]:
        """How each column says that its label was chosen, or else most others do; and whether any says "not chosen"."""
        seen = [self._values_of(parts.get(name), label) for label, name in self._spread]
        columns = list(zip(seen, self._spread, strict=True))
        found = [_pair(values, label, name, parts.get(name), self) for values, (label, name) in columns]
        marked = zip(found, columns, strict=True)
        styles = [_style(pair[1], *own) if pair[1] in values else None for pair, (values, own) in marked]
        style, _ = Counter(filter(None, styles)).most_common(1)[0] if any(styles) else ("", 0)
        for place, own in enumerate(styles):
            if own is None and style and self.ticked is None:
                no, yes = found[styles.index(style)]
                (label, name), held = self._spread[place], seen[place]
                yes = {"label": label, "name": name}.get(style, yes)
                found[place] = next((value for value in held if value != yes), no), yes
        return tuple(found), any(pair[0] in values for pair, values in zip(found, seen, strict=True))

    def _values_of(self, part: Cells | None, label: Any) -> list[Any]:
        """The distinct values of a column, without those that mean "no answer"."""
        gone = {value for value, _ in self.declared_missing if value != label} | {""}
        return [] if part is None else [value for value in part.factorise()[0] if value not in gone]

    def _read_marks(self, cells: Cells, marks: Marks) -> IntArray:
        """What each cell says about the label of its column, [row, label]: YES, NO, BLANK or, if allowed, REFUSED."""
        code = np.full((len(cells), len(self._spread)), BLANK, np.int32)
        gone, other = dict.fromkeys(dict(self.declared_missing), BLANK), REFUSED if self.ticked is None else NO
        for place, ((label, name), (no, yes)) in enumerate(zip(self._spread, marks, strict=True)):
            part = cells.parts.get(name)
            if part is None:
                continue
            distinct, which = part.factorise()
            known = gone | {false_and_true([yes], yes)[0]: NO, no: NO, yes: YES, "": BLANK}
            code[:, place] = np.asarray([*(known.get(value, other) for value in distinct), BLANK], np.int32)[which]
            wanted = f"neither {show(yes)} nor {show(no)}" if no != "" else f"not {show(yes)}"
            self.refuse(part, code[:, place] == REFUSED, f"value {{}} of {self.one} {show(label)} is {wanted}")
        return code

    def _written(self, code: IntArray, marks: Marks) -> dict[str, NDArray[Any]]:
        """The columns of the table for YES, NO and BLANK, [row, label]; "" of the marks leaves a cell empty."""
        found: dict[str, NDArray[Any]] = {}
        for (_, column), (no, yes), own in zip(self._spread, marks, code.T, strict=True):
            found[column] = natural((yes,), np.where(own == YES, 0, -1)) if no == "" else natural((no, yes), own)
        return found


def _style(yes: Any, label: Any, name: str) -> str:
    """Whether a column is marked by its label, by its name, or as other columns are."""
    text = " ".join(str(yes).casefold().split())
    return "label" if text == str(label).casefold().strip() else "name" if text == name.casefold().strip() else str(yes)


def _pair(distinct: list[Any], label: Any, name: str, part: Cells | None, column: SpreadColumn) -> tuple[Any, Any]:
    """The values (not chosen, chosen) of a column; "" if an empty cell means "not chosen"."""
    ticked = column.ticked
    if ticked is not None:  # all other values mean "not chosen"
        nothing = "" if isinstance(ticked, str) else false_and_true([ticked], ticked)[0]
        return next((value for value in distinct if value != ticked), nothing), ticked
    if len(distinct) > 2 and part is not None:
        position = next(int(i) for i in np.flatnonzero(~part.missing) if plain(part.values[i]) == distinct[2])
        problem = f"{column.one} {show(label)} has the values {listing(map(show, distinct))}"
        raise part.error(position, problem, "give the column two values, or one value and empty cells")
    if len(distinct) == 1 and isinstance(distinct[0], str) and not is_word(distinct[0]):
        return "", distinct[0]
    if len(distinct) == 2 and not any(map(is_negative, distinct)):
        own = [value for value in distinct if _style(value, label, name) in ("label", "name")]
        return false_and_true(distinct, own[0] if len(own) == 1 else None)
    return false_and_true(distinct, None)


@dataclass(frozen=True)
class SpreadChoice(SpreadColumn):
    """One label for each row, in a single cell or in exclusive columns with `columns={label: name}`."""

    marks: Marks | None = field(default=None, kw_only=True)  # (not chosen, chosen) of each column; set by fit

    def _check(self) -> None:
        super()._check()
        if not self._spread:
            return
        keys = [label for label, _ in self._spread if label not in dict(self.declared_missing)]
        if self.many and getattr(self, self.many) is None:
            object.__setattr__(self, self.many, self._arranged(keys))
        other = getattr(self, "other", None)
        odd = [label for label in self.labels if label not in keys and label != other]
        odd += [] if other is not None else [label for label in keys if label not in self.labels]
        if odd:
            problem = f"columns has {listing(map(show, keys))}, and {show(odd[0])} is not in both"
            raise SchemaError(problem, remedy=f"give each {self.one} a column, or declare it with missing=[...]")

    def _arranged(self, labels: list[Any]) -> tuple[Any, ...]:
        """The labels of `columns` in the order of the column."""
        return tuple(labels)

    @property
    def _kept(self) -> dict[str, Any]:
        """Settings that another type of the same question keeps."""
        names = ("names", "missing", "unseen", "recode", "columns", "ticked", "marks")
        return {name: getattr(self, name) for name in names}

    def joined(self, cells: Cells) -> Cells:
        """The label of each row; an error if a row has two, unless such rows count as missing."""
        return self._less_missing(self._merged(cells))

    def _merged(self, cells: Cells) -> Cells:
        if not self._spread or not cells.parts:
            return cells
        chosen = self._read_marks(cells, self.marks or self._chosen_marks(cells.parts)) == YES
        twice = chosen.sum(axis=1) > 1
        if self.unseen == "error" and twice.any():
            position, kind = int(twice.argmax()), type(self).__name__
            first, second, *_ = (self._spread[place][1] for place in np.flatnonzero(chosen[position]))
            problem = f'"{first}" and "{second}" are both chosen, and the question has one answer'
            remedy = f'correct one, use MultiSelect(columns=...), or leave out such rows with {kind}(unseen="missing")'
            raise replace(cells, name=first).error(position, problem, remedy)
        which = np.where(chosen.any(axis=1) & ~twice, chosen.argmax(axis=1), -1)
        values = natural(tuple(label for label, _ in self._spread), which)
        own = ~cells.missing & (cells.name not in cells.parts)  # otherwise it is a column for one label
        if own.any():
            values = np.where(own, cells.values, values.astype(object))
        return replace(cells, values=values, missing=(which < 0) & ~own)

    def _chosen_marks(self, parts: Mapping[str, Cells]) -> Marks:
        marks, has_no = self._found_marks(parts)
        return marks if has_no else tuple(("", yes) for _, yes in marks)

    def interpreted(self, cells: Cells) -> Cells:
        return super().interpreted(self.joined(cells))

    def fit(self, cells: Cells, weight: FloatArray | None = None) -> Self:
        if not self._spread or not cells.parts:
            return super().fit(cells, weight)
        own = self if self.marks is not None else replace(self, marks=self._chosen_marks(cells.parts))
        return super(SpreadChoice, own).fit(own.joined(cells), weight)

    def to_columns(self, name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        if not self._spread:
            return super().to_columns(name, values)
        place = {label: at for at, (label, _) in enumerate(self._spread)}
        code = np.asarray([place.get(plain(value), -1) for value in np.asarray(values).tolist()], np.int32)[:, None]
        said = np.where(code < 0, BLANK, code == np.arange(len(self._spread))).astype(np.int32)
        return self._written(said, self.marks or tuple(("", str(label)) for label, _ in self._spread))

    def unanswered(self, cells: Cells) -> BoolArray:
        return cells.missing if self._spread else super().unanswered(cells)

    def missing_kinds(self, cells: Cells) -> dict[str, int]:
        merged = self._merged(self.recoded(cells))
        return super().missing_kinds(replace(merged, parts={}) if self._spread else cells)

    def fillable(self, cells: Cells, kinds: Iterable[str] = ()) -> BoolArray:
        return super().fillable(self._merged(cells), kinds)

    def gaps(
        self, name: str, given: Mapping[str, Cells], kinds: Iterable[str], answered: BoolArray
    ) -> dict[str, BoolArray]:
        """All columns of the rows without an answer: one of them gets the label, and the others do not have it."""
        if not self._spread:
            return super().gaps(name, given, kinds, answered)
        n_rows = len(answered)
        empty = Cells(name, np.full(n_rows, None, object), np.ones(n_rows, bool), next(iter(given.values())).rows)
        return dict.fromkeys(given, self.fillable(replace(empty, parts=dict(given)), kinds) & ~answered)


@dataclass(frozen=True)
class LevelColumn(LabelledColumn):
    """A cell that is one of a few labels: label l means that x is between cuts l − 1 and l, Eq. (7)."""

    family: ClassVar[Family] = "levels"
    form_type = LevelForm
    is_one_label: ClassVar[bool] = True

    @abstractmethod
    def _range(self, statement: Statement) -> tuple[int, int]:
        """The lowest and the highest level that a statement allows; raises Refused."""

    def ordered_as(self, labels: Sequence[Any]) -> Column:
        return self.with_answers(labels)

    def to_ranges(self, cells: Cells) -> tuple[IntArray, IntArray]:
        """Lowest and highest label that each cell allows: two arrays [row], −1 if it has no information."""
        if not self.labels:
            raise not_fitted(self, "values", cells.name)
        place = self.lookup

        def allowed(value: Any) -> tuple[int, int]:
            if isinstance(value, Statement):
                return self._range(value)
            if not is_label(value) or value not in place:
                raise self.unknown(value)
            return place[value], place[value]

        found, which = cells.read(allowed, (-1, -1), self.unseen)
        ends = np.asarray(found, np.int32)
        ends[(ends == (0, len(self.labels) - 1)).all(axis=1)] = -1  # it allows all levels: no information
        low, high = ends.T
        return low[which], high[which]

    def encode(self, cells: Cells) -> Block:
        """Cells as levels, Eq. (7)."""
        low, high = (code[:, None] for code in self.to_ranges(self.joined(cells)))
        return Block(self.sites, code=low, n_cuts=self.n_cuts, code_high=low if np.array_equal(low, high) else high)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The label whose interval contains x: its position is the number of cuts below x."""
        values = np.asarray(x, np.float64)[:, 0]
        codes = np.searchsorted(np.ravel(cuts)[: self.n_cuts].astype(np.float64), values)
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
    if not are_pairs(value):
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
        if len(column.labels) > MANY_LEVELS and column.kind in _ONE_OF_MANY:
            many, rather = _ONE_OF_MANY[column.kind]
            warnings.warn(
                f'column "{name}": {type(column).__name__} has {len(column.labels):,} {many}, which makes training '
                f"slow; use Ignore() or Id() if it names rows, {rather}",
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
    n_cuts = 0
    has_site_per_label = True

    @abstractmethod
    def _read(self, value: Any, places: Mapping[Any, int]) -> LabelTiers | None:
        """The meaning of a value, None if it has no information; raises Refused."""

    def read(self, cells: Cells) -> tuple[IntArray, BoolArray, list[LinearRow]]:
        """The meaning of every cell: tiers [row, label], `one_of` [row], and inequalities that tiers cannot express."""
        places, nothing = self.index(cells), LabelTiers(np.full(len(self.labels), -1, np.int32))
        found, which = cells.hashable().read(lambda value: self._read(value, places), None, self.unseen)
        tier, one_of, pairs = zip(*(reading or nothing for reading in found), strict=True)
        names = [f"{cells.name}.{site}" for site in self.sites]
        linear = [
            LinearRow(int(row), {names[a]: 1.0, names[b]: -1.0}, 0.0, np.inf)
            for row in np.flatnonzero(np.asarray(list(map(bool, pairs)))[which])
            for a, b in pairs[which[row]]
        ]
        return np.stack(tier)[which], np.asarray(one_of)[which], linear

    def subset(self, statement: OneOfStatement | TopSet, places: Mapping[Any, int]) -> LabelTiers | None:
        """A set of labels above all others, or one of them above all others; the set of all has no information."""
        members = sorted(set(self.find(statement.values, places)))
        if len(members) == len(self.labels):
            return None
        tier = np.isin(np.arange(len(self.labels)), members).astype(np.int32)
        # One of a single label is that label.
        return LabelTiers(tier, isinstance(statement, OneOfStatement) and len(members) > 1)

    def combined(self, orders: Iterable[OrderStatement], places: Mapping[Any, int]) -> LabelTiers:
        """Several orders combined: as tiers if together they are a weak order, otherwise as pairs."""
        tier = np.full(len(self.labels), -1, np.int32)
        found = [[self.find(group, places) for group in order.tiers] for order in orders]
        chain = [place for group in found[0] for place in group] if len(found) == 1 else []
        if chain and len(set(chain)) == len(chain) == len(found[0]):  # each item once, and no ties
            tier[chain] = np.arange(len(chain))[::-1]
            return LabelTiers(tier)
        better: dict[int, set[int]] = {place: set() for groups in found for group in groups for place in group}
        for above, below in (pair for groups in found for pair in pairwise(groups)):
            for place in above:
                better[place].update(below)
        height: dict[int, int] = {}  # length of the longest chain below each item
        reach: dict[int, set[int]] = {}  # all items below each: those directly below, and all below them
        try:
            for place in TopologicalSorter(better).static_order():
                height[place] = max((height[below] + 1 for below in better[place]), default=0)
                reach[place] = better[place].union(*(reach[below] for below in better[place]))
        except CycleError as error:
            circle = listing((self.labels[place] for place in reversed(error.args[1])), " > ")
            raise Contradiction(f"the preferences {circle} form a cycle", "remove one of them") from None
        if all(b in reach[a] for a in better for b in better if height[a] > height[b]):
            tier[list(height)] = list(height.values())
            return LabelTiers(tier)
        pairs = ((a, b) for a in sorted(better) for b in sorted(reach[a]))
        direct = ((a, b) for a, b in pairs if not any(b in reach[c] for c in reach[a] if c != b))
        return LabelTiers(tier, pairs=tuple(direct))

    def fitted_labels(self, cells: Cells, found: Iterable[Any]) -> tuple[Any, ...]:
        """Labels in the order of the frame, otherwise sorted, numbers before text; at least two."""
        if cells.ordered_levels is not None and len(cells.ordered_levels) > 1:
            return tuple(self.meant(cells.ordered_levels))
        distinct = self.possible(found)
        problem = f"the only {self.one} is {show(distinct[0])}" if distinct else f"there is no {self.one}"
        wrong = [f"{show(value)} cannot be a {self.one}" for value in distinct if not is_label(value)]
        if wrong or len(distinct) < 2:
            remedy = f"use {type(self).__name__}([...]) with all {self.many}, or use Ignore()"
            raise SchemaError((wrong or [problem])[0], column=cells.name, remedy=remedy)
        return in_order(distinct)


def mentioned(values: Iterable[Any]) -> Iterable[Any]:
    """Every label in some cells: alone, in collections or in statements."""
    for value in values:
        if isinstance(value, (OneOfStatement, TopSet)):
            yield from value.values
        elif isinstance(value, OrderStatement):
            yield from (item for tier in value.tiers for item in tier)
        elif isinstance(value, tuple):
            for member in value:
                yield from member if isinstance(member, tuple) else mentioned([member])
        else:
            yield value


def levels_inside(interval: Interval, levels: tuple[Any, ...], place: Callable[[Any], int]) -> list[int]:
    """Positions of the levels between two ends, both included, lowest first; raises Refused if there is none."""
    lower, upper = interval.lower, interval.upper
    ends = [end for end in (lower, upper) if end is not None]
    if all(isinstance(value, (int, float)) for value in (*levels, *ends)):
        # Ends between levels are allowed: "at least 2.5" of 1, 2, 3 is 3.
        least, most = (-np.inf if lower is None else lower), (np.inf if upper is None else upper)
        inside = [code for code, level in enumerate(levels) if least <= level <= most]
    else:
        low = 0 if lower is None else place(lower)
        inside = list(range(low, len(levels) if upper is None else place(upper) + 1))
    if not inside:
        raise Refused(f"{show(interval)} contains none of {listing(levels, ' < ')}", "correct its ends")
    return inside
