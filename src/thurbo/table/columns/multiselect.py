"""§3.1, Eq. (6) for each option: "select all that apply" is one binary answer per option.

An empty list means that no option was selected; a missing cell means that the question was not asked.
Each option has one site and one learned cut. After fit, `labels` equals `options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, Cells, Family, FloatArray, IntArray
from thurbo.table.columns.column import Column, not_fitted
from thurbo.table.columns.forms.levels import OptionForm
from thurbo.table.columns.labels import REFUSED, SpreadColumn, check_labels, check_names, in_order
from thurbo.table.columns.listed import best_first
from thurbo.table.columns.statements import Statement
from thurbo.table.columns.values import Refused, is_label, listed, listing, natural, show


@dataclass(frozen=True)
class MultiSelect(SpreadColumn):
    """Any number of options, Eq. (6): x_o ≥ θ_o if option o is selected, x_o ≤ θ_o if not.

    Parameters
    ----------
    options : list, optional
        All options; by default those of the training cells.
    sep : str, default=";"
        Separator of options in a cell that is text; inside brackets it is part of an option, and so it is inside known
        options.
    columns : dict, optional
        {option: column} if each option has its own column of 0 and 1, of two words, or of one word and blanks.
    ticked : label, optional
        With `columns`: the value that means "selected"; all other values mean "not selected".
    mentions : list of str, optional
        Columns that each hold one selected option, in any order, or are empty.
    blank : {"unticked", "unasked"}, optional
        With `columns`: meaning of an empty cell. By default "unasked" if training cells have a value for "not
        selected", otherwise "unticked". With "unticked", a row without any selected option was not asked, unless the
        question has a single option.
    values, cell_format : optional
        Coding of each column, and whether cells are text or lists. `fit` sets them.
    unseen : {"error", "missing"}, default="error"
        What to do with an unknown option; "missing" omits it.
    names, missing, recode : optional
        As in `Categorical`.

    Notes
    -----
    A cell is a list of the selected options, a text, or a mapping {option: True, False or None}, in which None is
    unknown. An empty list or text means that no option was selected; a missing cell means that the question was not
    asked. With `columns` or `mentions`, a row with only empty cells was not asked.

    Examples
    --------
    >>> table = {"news": ["radio;TV", "", ["TV"], None]}
    >>> tb.Schema({"news": tb.MultiSelect()}).fit(table)["news"].options
    ('TV', 'radio')
    """

    kind: ClassVar[str] = "multiselect"
    form_type = OptionForm
    family: ClassVar[Family] = "levels"
    one, many = "option", "options"
    choices = (("blank", (None, "unticked", "unasked")),)
    n_cuts = 1
    has_site_per_label = True
    has_options = True
    options: tuple[Any, ...] | None = None
    sep: str = ";"
    mentions: tuple[str, ...] | None = field(default=None, kw_only=True)
    blank: Literal["unticked", "unasked"] | None = field(default=None, kw_only=True)
    values: tuple[tuple[Any, Any], ...] | None = field(default=None, kw_only=True)  # (not selected, selected) by column
    cell_format: Literal["text", "list"] | None = field(default=None, kw_only=True)  # of a cell; set by fit

    def _check(self) -> None:
        if not isinstance(self.sep, str) or not self.sep:
            raise SchemaError(f"sep={self.sep!r} is not a separator", remedy='use for example sep=";" or sep=","')
        super()._check()
        if self.columns is not None:
            keys = tuple(option for option, _ in self._pairs)
            if self.options is not None and self.options != keys:
                remedy = "omit options: columns gives them"
                raise SchemaError(f"options {listing(self.options)} are not those of columns", remedy=remedy)
        if self.mentions is not None:
            check_names(self.mentions, "mentions")
            if self.columns is not None:
                raise SchemaError("MultiSelect has both columns and mentions", remedy="give one of them")
        if self.options is not None or self.columns is not None:
            one = isinstance(self.labels, tuple) and len(self.labels) == 1  # labels are two or more; options may be one
            labels = (*self.labels, f"not {self.labels[0]}") if one else self.labels
            check_labels(labels, "options", "option", "MultiSelect")

    def source_columns(self, name: str) -> tuple[str, ...]:
        return self.mentions or super().source_columns(name)

    @classmethod
    def answers_of_type(cls, column: Column) -> dict[str, Any]:
        return {"columns": ranks} if (ranks := getattr(column, "ranks", None)) else {}

    def separated(self) -> dict[str, Column]:
        if self.mentions is not None:
            kind = self.registered["categorical"]
            return dict.fromkeys(self.mentions, kind(self.options, names=self.names, missing=self.missing))
        return super().separated()

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        if self.columns is not None:
            marks, has_no = (self.values, True) if self.values is not None else self._found_marks(cells.parts)
            return replace(self, values=marks, blank=self.blank or ("unasked" if has_no else "unticked"))
        distinct, _ = cells.hashable().factorise()
        if self.mentions is not None:
            distinct = self.mentions_of(cells)
        form: Any = self.cell_format or ("text" if any(isinstance(value, str) for value in distinct) else "list")
        if self.options is not None:
            return replace(self, cell_format=form)
        found = self.possible(option for value in distinct for option in self._ticked(value))
        wrong = [f"{show(option)} cannot be an option" for option in found if not is_label(option)]
        if wrong or not found:
            problem, remedy = [*wrong, "no cell names an option"][0], "use MultiSelect([...]) with all options"
            raise SchemaError(problem, column=cells.name, remedy=remedy if wrong else f"{remedy}, or use Ignore()")
        return replace(self, cell_format=form, options=in_order(found))

    def encode(self, cells: Cells) -> Block:
        index = self.index(cells)
        if self.columns is not None and self.values is None:
            raise not_fitted(self, "options", cells.name)
        nothing = np.full(len(self.labels), -1, np.int32)
        found, which = cells.hashable().read(lambda value: self._read(value, index), nothing, self.unseen)
        code = np.stack(found)[which]
        if cells.parts:
            others = self._from_columns(cells) if self.mentions is None else self._from_mentions(cells, index)
            code[cells.missing] = others[cells.missing]
        return Block(self.sites, code=code, n_cuts=1)

    def _ticked(self, value: Any) -> list[Any]:
        """The options in a cell."""
        if isinstance(value, str):
            table = dict(self.recode)
            words = self._whole(listed(value, self.sep), [*table, *self.labels])
            return list(dict.fromkeys(table.get(word, word) for word in words))
        if isinstance(value, frozenset):
            return [option for option, _ in value]
        if isinstance(value, Statement):
            return []
        return list(value) if isinstance(value, tuple) else [value]

    def _whole(self, entries: list[str], known: list[Any]) -> list[str]:
        """Entries of a list, those that are parts of one option joined: "Yes", "once" if an option is "Yes, once"."""
        parts = {tuple(listed(each, self.sep)): each for each in known if isinstance(each, str) and self.sep in each}
        found, left = [], tuple(entries)
        while left:
            sizes = range(len(left), 1, -1) if parts else ()
            size = next((size for size in sizes if left[:size] in parts), 1)
            found.append(parts.get(left[:size], left[0]))
            left = left[size:]
        return found

    def _read(self, value: Any, index: Mapping[Any, int]) -> IntArray:
        """Codes of the options of one cell: 1 selected, 0 not selected, −1 unknown."""
        if isinstance(value, Statement):
            remedy = "give the selected options, or {option: True or False} for some of them"
            raise Refused(f"{show(str(value))} cannot be used in a MultiSelect column", remedy)
        answers = dict(value) if isinstance(value, frozenset) else dict.fromkeys(self._ticked(value), True)
        code = np.full(len(self.labels), -1 if isinstance(value, frozenset) else 0, np.int32)
        for option, answer in answers.items():
            if self.unseen == "missing" and len(answers) > 1 and (not is_label(option) or option not in index):
                continue
            (place,) = self.find([option], index)
            if answer not in (True, False, None):
                raise Refused(f"option {show(option)} is {show(answer)}", "use True, False or None")
            code[place] = -1 if answer is None else int(answer)
        return code

    def _from_columns(self, cells: Cells) -> IntArray:
        """Codes of the columns that hold one option each: [row, option]."""
        assert self.values is not None
        code = self._read_marks(cells, self.values)
        absent = np.asarray([name not in cells.parts for _, name in self._spread])
        refused = code == REFUSED
        if self.blank == "unticked":
            # The only option of a question: a blank cell cannot be told from "not asked", and blank="unticked" says no.
            answered = (code == 1).any(axis=1, keepdims=True) | (len(self.labels) == 1)
            code[(code < 0) & answered & ~absent & ~refused] = 0
        code[refused] = -1
        return code

    def _from_mentions(self, cells: Cells, index: Mapping[Any, int]) -> IntArray:
        """Codes of the columns that hold one selected option each: [row, option]."""
        said = np.zeros((len(cells), len(self.labels)), bool)
        for part in cells.parts.values():
            place = self.mentions_in(part, index)
            known = np.flatnonzero(place >= 0)
            said[known, place[known]] = True
        return np.where(said.any(axis=1, keepdims=True), said, -1).astype(np.int32)

    def is_ticked(self, x: FloatArray, cuts: FloatArray) -> IntArray:
        """Codes of latent values: 1 above the option's cut, 0 below, −1 if missing: [row, option]."""
        x = np.asarray(x, np.float64)
        above = x > np.asarray(cuts, np.float64).reshape(len(self.labels), -1)[:, 0]
        return np.where(np.isnan(x), -1, above).astype(np.int32)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The options above their cuts, as a list, or as text if cells were text."""
        cells = np.full(len(x), None, object)
        for row, codes in enumerate(self.is_ticked(x, cuts)):
            if (codes >= 0).any():
                options = [self.labels[place] for place in np.flatnonzero(codes == 1)]
                cells[row] = self.sep.join(map(str, options)) if self.cell_format == "text" else options
        return cells

    def decode_columns(self, name: str, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> dict[str, NDArray[Any]]:
        """The options above their cuts as one column per option, in its coding, or one column per mention."""
        if self.mentions is not None:  # if there are too few columns, those furthest above their cuts
            height = np.where(self.is_ticked(x, cuts) == 1, x - np.asarray(cuts, np.float64)[:, 0], np.nan)
            held = np.full((len(height), len(self.mentions)), -1)
            for row, order in enumerate(best_first(height)):
                chosen = np.sort(order[: len(self.mentions)])
                held[row, : len(chosen)] = chosen
            return {column: natural(self.labels, held[:, step]) for step, column in enumerate(self.mentions)}
        if self.columns is None:
            return {name: self.decode(x, cuts, scale)}
        assert self.values is not None
        codes = self.is_ticked(x, cuts)
        is_blank = self.blank == "unticked"
        return self._written(codes, tuple(("", yes) for _, yes in self.values) if is_blank else self.values)

    def describe(self) -> str:
        return f"any of {listing(self.texts)}" if self.labels else "any of some options"
