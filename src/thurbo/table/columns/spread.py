"""§3 One question in several columns of a table, one for each label: how a column says that its label was chosen.

Idea: a column says so by the text of its label, by its own name, by 1, "Yes", "Selected" or "X", and otherwise has 0,
"No", "Not selected" or an empty cell. `fit` finds out which; any number of options is a `MultiSelect`, and of exclusive
columns each row has one label, which the column then reads as if it stood in a single cell.
Guarantees that answers are written in the way of the table: one label for each row that has an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import BoolArray, Cells, FloatArray, IntArray
from thurbo.table.columns.column import Column
from thurbo.table.columns.labels import LabelledColumn, check_pairs
from thurbo.table.columns.values import false_and_true, is_label, is_negative, is_word, listing, natural, plain, show

NO, YES, BLANK, REFUSED = 0, 1, -1, -2  # what a cell says about its label
Marks = tuple[tuple[Any, Any], ...]  # (not chosen, chosen) of each column; "" is an empty cell


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
        names = dict(self._names)
        return {column: str(names.get(label, label)) for label, column in self._spread}

    def separated(self) -> dict[str, Column]:
        return {column: self.registered["binary"](missing=self.missing) for _, column in self._spread}

    def source_columns(self, name: str) -> tuple[str, ...]:
        return tuple(column for _, column in self._spread) or (name,)

    def _found_marks(self, parts: Mapping[str, Cells]) -> tuple[Marks, bool]:
        """How each column says that its label was chosen, and whether any column has a value for "not chosen".

        A column without a cell that says so is marked as most others are.
        """
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
        """What each cell says about the label of its column, [row, label]: YES, NO, BLANK or REFUSED.

        The first cell that says none of these is an error, unless such cells count as missing.
        """
        code = np.full((len(cells), len(self._spread)), BLANK, np.int32)
        gone = {value for value, _ in self.declared_missing}
        for place, ((label, name), (no, yes)) in enumerate(zip(self._spread, marks, strict=True)):
            part = cells.parts.get(name)
            if part is None:
                continue
            distinct, which = part.factorise()
            known = dict.fromkeys(gone, BLANK) | {false_and_true([yes], yes)[0]: NO, no: NO, yes: YES, "": BLANK}
            other = REFUSED if self.ticked is None else NO
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
        gone = {value for value, _ in self.declared_missing}
        keys = [label for label, _ in self._spread if label not in gone]
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

    @property
    def _marks(self) -> Marks:
        return self.marks or tuple(("", str(label)) for label, _ in self._spread)

    def joined(self, cells: Cells) -> Cells:
        """The label of each row; an error if a row has two, unless such rows count as missing."""
        return self._less_missing(self._merged(cells))

    def _merged(self, cells: Cells) -> Cells:
        if not self._spread or not cells.parts:
            return cells
        code = self._read_marks(cells, self.marks or self._chosen_marks(cells.parts))
        chosen = code == YES
        twice = chosen.sum(axis=1) > 1
        if self.unseen == "error" and twice.any():
            position = int(twice.argmax())
            first, second = [column for (_, column), own in zip(self._spread, chosen[position], strict=True) if own][:2]
            problem = f'"{first}" and "{second}" are both chosen, and the question has one answer'
            kind = type(self).__name__
            remedy = f'correct one, use MultiSelect(columns=...), or leave out such rows with {kind}(unseen="missing")'
            raise replace(cells, name=first).error(position, problem, remedy)
        which = np.where(chosen.any(axis=1) & ~twice, chosen.argmax(axis=1), -1)
        values, own = natural(tuple(label for label, _ in self._spread), which), ~cells.missing
        if cells.name in cells.parts:  # a column for one label, not for the question
            own = np.zeros(len(cells), bool)
        if own.any():
            values = values.astype(object)
            values[own] = cells.values[own]
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
        said = np.where(code < 0, BLANK, code == np.arange(len(self._spread)))
        return self._written(said.astype(np.int32), self._marks)

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
