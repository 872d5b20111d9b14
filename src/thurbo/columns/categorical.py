"""§3.2: a category is chosen when its utility is above that of all others; a set of them when all of theirs are.

Idea: one site for each category; the chosen ones are tier 1, all others tier 0. An order of the categories shapes no
utility; it is kept for what asks about it: statements, medians, errors in levels.
Promises `labels == categories`, and "one of these" told apart from "all of these on top".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Cells, FloatArray, Refused, listing, show
from thurbo.columns.column import Block, Column
from thurbo.columns.labels import check_labels, natural
from thurbo.columns.ordinal import Ordinal, levels_inside
from thurbo.columns.statements import Interval, OneOf, Statement, TopSet
from thurbo.columns.utility import Reading, UtilityColumn, fitted_labels, mentioned
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Categorical(UtilityColumn):
    """One of `categories`, or a set of them (a list, a tuple or a set in the cell).

    A set says "all of these above all others" (`sets="top"`, §3.2) or "the answer is one of these" (`"one-of"`);
    `one_of(...)` and `top_set(...)` in a cell say either in any column. A set of all categories says nothing; an
    empty one is refused. Left out, categories are those of the training cells, in the frame's own order or sorted.

    With `ordered=True` they stand from lowest to highest, and `between`, `at_least` and `at_most` mean one of those
    inside. Each still has a utility of its own, so that answers need not lie on one scale, which `Ordinal` assumes: it
    pays with thousands of answers to the question, and costs a site for each category.
    """

    kind: ClassVar[str] = "categorical"
    one: ClassVar[str] = "category"
    many: ClassVar[str] = "categories"
    categories: tuple[Any, ...] | None = None
    sets: Literal["top", "one-of"] = "top"
    ordered: bool = field(default=False, kw_only=True)

    def _check(self) -> None:
        if self.sets not in ("top", "one-of"):
            raise SchemaError(f"sets={self.sets!r} is not understood", remedy='say "top" or "one-of"')
        if not isinstance(self.ordered, bool):
            raise SchemaError(f"ordered={self.ordered!r} is not understood", remedy="say True or False")
        if self.categories is not None:
            check_labels(self.categories, self.many, self.one, "Categorical")

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.categories or ()

    @property
    def has_order(self) -> bool:
        return self.ordered

    def fit(self, cells: Cells) -> Self:
        if self.categories is not None:
            return self
        found = (value for value in mentioned(cells) if not (self.ordered and isinstance(value, Interval)))
        labels = fitted_labels(cells, found, self)
        texts = [label for label in labels if isinstance(label, str)]
        if self.ordered and texts and cells.ordered_levels is None:
            problem = f"the order of categories such as {show(texts[0])} is not known"
            remedy = "say it: Categorical([lowest, ..., highest], ordered=True)"
            raise SchemaError(problem, column=cells.name, remedy=remedy)
        return replace(self, categories=labels)

    def encode(self, cells: Cells) -> Block:
        """Cells as two tiers: the chosen categories above all others."""
        tier, one_of, linear = self.read(cells)
        return Block.orders(tier, one_of, self.sites, linear)

    def _read(self, value: Any, places: Mapping[Any, int]) -> Reading | None:
        if isinstance(value, tuple):
            if not value:
                raise Refused("an empty set leaves no category", "leave the cell empty if nothing is known")
            value = TopSet(value) if self.sets == "top" else OneOf(value)
        if self.ordered and isinstance(value, Interval):
            inside = levels_inside(value, self.labels, lambda label: self.find([label], places)[0])
            value = OneOf(tuple(self.labels[place] for place in inside))
        if isinstance(value, (OneOf, TopSet)):
            return self.subset(value, places)
        if isinstance(value, Statement):
            remedy = "use one_of(...) or top_set(...)"
            if isinstance(value, Interval):
                remedy += "; if the categories have an order, say Categorical([lowest, ..., highest], ordered=True)"
            raise Refused(f"{show(value)} says nothing about categories", remedy)
        return self.subset(TopSet((value,)), places)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The category with the largest utility."""
        x = np.asarray(x, np.float64)
        known = np.asarray(~np.isnan(x).any(axis=1))
        return natural(self.labels, np.where(known, np.where(known[:, None], x, 0.0).argmax(axis=1), -1))

    def describe(self) -> str:
        kind = "ordered" if self.ordered else "unordered"
        what = listing(self.texts, " < " if self.ordered else " | ") if self.categories else f"one of {kind} categories"
        return what if self.sets == "top" else f"{what}; a set means one of them"


def by_utilities(column: Column) -> Column:
    """Ordered levels with a utility each in the place of a site between cuts; any other column as it is."""
    if not isinstance(column, Ordinal):
        return column
    return Categorical(column.levels, ordered=True, **_words(column))


def by_cuts(column: Column) -> Column:
    """Ordered levels as one site between learned cuts in the place of a utility each; any other column as it is."""
    if not isinstance(column, Categorical) or not column.ordered:
        return column
    return Ordinal(column.categories, **_words(column))


def _words(column: Ordinal | Categorical) -> dict[str, Any]:
    return {"names": column.names, "missing": column.missing, "unseen": column.unseen}
