"""§3.2: a chosen category has a larger utility than all others; each category of a chosen set does.

Each category has one site. Chosen categories are tier 1, all others tier 0. An order of the categories does not
change the utilities; it is used for statements, medians and errors in levels.
After fit, `labels` equals `categories`. "One of these" and "all of these above the others" are distinct.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, BoolArray, Cells, FloatArray
from thurbo.table.columns.column import Column, Measure
from thurbo.table.columns.forms.utilities import ChoiceForm
from thurbo.table.columns.labels import LabelTiers, SpreadChoice, UtilityColumn, check_labels, levels_inside, mentioned
from thurbo.table.columns.statements import Interval, OneOfStatement, Statement, TopSet
from thurbo.table.columns.values import Refused, is_label, listing, natural, show


@dataclass(frozen=True)
class Categorical(SpreadChoice, UtilityColumn):
    """One of several categories, §3.2: x_c ≥ x_d for the chosen category c and every other category d.

    Parameters
    ----------
    categories : list, optional
        All categories; by default those of the training cells, in the order of the frame or sorted.
    sets : {"top", "one-of"}, default="top"
        Meaning of a cell that holds a list or a set. "top": each of these is above all others (§3.2). "one-of": the
        answer is one of these.
    ordered : bool, default=False
        Whether the categories are given from lowest to highest. Then `between`, `at_least` and `at_most` mean one of
        the categories inside.
    other : label, optional
        The category that stands for every value that is not in `categories`. It has a probability, but it is never
        predicted, imputed or sampled as an answer: there the choice is among the other categories.
    names : dict, optional
        Display names of labels, such as {1: "Green", 2: "Red"}.
    unseen : {"error", "missing"}, default="error"
        What to do with a cell that is not a category.
    columns, ticked : optional
        {label: column} if each category has a column of the table, of which each row has one: by its text, 1,
        "Selected" or "X". `ticked` is the value that means "chosen"; by default it is found. A label may be declared
        missing.
    marks : optional
        How each column writes "not chosen" and "chosen". `fit` sets it.
    missing : dict or list, optional
        Values that mean "no answer", such as {9: "Refused"}.
    recode : dict, optional
        Values that are read as another value, such as {"Y": "Yes"}; the table is not changed.

    Notes
    -----
    A cell is a category, or a list, tuple or set of categories, `one_of(...)` or `top_set(...)`. The set of all
    categories carries no information; an empty set is an error.

    With `ordered=True` each category still has its own utility, so answers need not lie on one scale, as `Ordinal`
    assumes. This can predict better if the question has thousands of answers. It needs one site per category.

    Examples
    --------
    >>> table = {"party": ["Green", ["Red", "Blue"], tb.one_of("Green", "Red"), None]}
    >>> tb.Schema({"party": tb.Categorical()}).fit(table)["party"].categories
    ('Blue', 'Green', 'Red')

    One answer in exclusive columns:

    >>> table = {"is_red": [1, 0, 0], "is_blue": [0, 1, 0]}
    >>> schema = tb.Schema({"party": tb.Categorical(columns={"Red": "is_red", "Blue": "is_blue"})}).fit(table)
    >>> schema["party"].describe(), schema.compile(table)["party"].answered.tolist()
    ('Red | Blue', [True, True, False])
    """

    kind: ClassVar[str] = "categorical"
    form_type = ChoiceForm
    choices = (("sets", ("top", "one-of")), ("ordered", (True, False)))
    is_one_label: ClassVar[bool] = True
    one, many = "category", "categories"
    categories: tuple[Any, ...] | None = None
    sets: Literal["top", "one-of"] = "top"
    ordered: bool = field(default=False, kw_only=True)
    other: Any = field(default=None, kw_only=True)  # the category that every other value belongs to

    def _check(self) -> None:
        super()._check()
        if self.categories is not None:
            check_labels(self.categories, self.many, self.one, "Categorical")
        if self.other is not None and self.other not in self.labels:
            remedy = "add it to categories, which are needed with other"
            raise SchemaError(f"other={self.other!r} is not a category", remedy=remedy)

    def interpreted(self, cells: Cells) -> Cells:
        """Every value that is not a category as `other`."""
        cells = super().interpreted(cells)
        if self.other is None:
            return cells
        places = self.index(cells)
        return cells.mapped(lambda value: self.other if is_label(value) and value not in places else value)

    def with_answers(self, labels: Sequence[Any], **settings: Any) -> Column:
        return super().with_answers(labels, **{"other": self.other if self.other in labels else None, **settings})

    def ordered_as(self, labels: Sequence[Any]) -> Column:
        """Without an order so far, it becomes an Ordinal."""
        return self.with_answers(labels) if self.ordered else self.as_type(self.registered["ordinal"], levels=labels)

    @property
    def is_named(self) -> BoolArray:
        return np.asarray([label != self.other for label in self.labels], bool)

    @property
    def has_order(self) -> bool:
        return self.ordered

    @property
    def measure(self) -> Measure:
        return "ordinal" if self.ordered else "nominal"

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        if self.categories is not None:
            return self
        distinct, _ = cells.hashable().factorise()
        found = (value for value in mentioned(distinct) if not (self.ordered and isinstance(value, Interval)))
        labels = self.fitted_labels(cells, found)
        texts = [label for label in labels if isinstance(label, str)]
        if self.ordered and texts and cells.ordered_levels is None:
            problem = f"the order of categories such as {show(texts[0])} is not known"
            remedy = "give it: Categorical([lowest, ..., highest], ordered=True)"
            raise SchemaError(problem, column=cells.name, remedy=remedy)
        return replace(self, categories=labels)

    def encode(self, cells: Cells) -> Block:
        """Cells as two tiers: the chosen categories above all others."""
        tier, one_of, linear = self.read(self.joined(cells))
        return Block(self.sites, tier=tier, one_of=one_of, linear=tuple(linear))

    def _read(self, value: Any, places: Mapping[Any, int]) -> LabelTiers | None:
        if isinstance(value, tuple):
            if not value:
                raise Refused("an empty set contains no category", "leave the cell empty if the answer is unknown")
            value = TopSet(value) if self.sets == "top" else OneOfStatement(value)
        if self.ordered and isinstance(value, Interval):
            inside = levels_inside(value, self.labels, lambda label: self.find([label], places)[0])
            value = OneOfStatement(tuple(self.labels[place] for place in inside))
        if isinstance(value, (OneOfStatement, TopSet)):
            return self.subset(value, places)
        if isinstance(value, Statement):
            remedy = "use one_of(...) or top_set(...)"
            if isinstance(value, Interval):
                remedy += "; if the categories have an order, use Categorical([lowest, ..., highest], ordered=True)"
            raise Refused(f"{show(value)} cannot be used in a column of categories", remedy)
        return self.subset(TopSet((value,)), places)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The category with the largest utility; `other` is no answer that a cell could be filled with."""
        x = np.asarray(x, np.float64)
        if self.other is not None:
            x = np.where(self.is_named, x, -np.inf)
        known = np.asarray(~np.isnan(x).any(axis=1))
        return natural(self.labels, np.where(known, np.where(known[:, None], x, 0.0).argmax(axis=1), -1))

    def by_cuts(self) -> Column:
        if not self.ordered:
            return self
        return self.registered["ordinal"](self.categories, **self._kept)

    def describe(self) -> str:
        kind = "ordered" if self.ordered else "unordered"
        what = listing(self.texts, " < " if self.ordered else " | ") if self.categories else f"one of {kind} categories"
        return what if self.sets == "top" else f"{what}; a set means one of them"
