"""§3.2: a category is chosen when its utility is above that of all others; a set of them when all of theirs are.

Idea: one site for each category; the chosen ones are tier 1, all others tier 0.
Promises `labels == categories`, and "one of these" told apart from "all of these on top".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.base import Block
from thurbo.columns.cells import Cells, FloatArray, Refused, listing, show
from thurbo.columns.labels import check_labels, natural
from thurbo.columns.statements import OneOf, Statement, TopSet
from thurbo.columns.utility import Reading, UtilityColumn, fitted_labels, mentioned
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Categorical(UtilityColumn):
    """One of unordered `categories`, or a set of them (a list, a tuple or a set in the cell).

    A set says "all of these above all others" (`sets="top"`, §3.2) or "the answer is one of these" (`"one-of"`);
    `one_of(...)` and `top_set(...)` in a cell say either in any column. A set of all categories says nothing; an
    empty one is refused. Left out, categories are those of the training cells, in the frame's own order or sorted.
    """

    kind: ClassVar[str] = "categorical"
    one: ClassVar[str] = "category"
    many: ClassVar[str] = "categories"
    categories: tuple[Any, ...] | None = None
    sets: Literal["top", "one-of"] = "top"

    def _check(self) -> None:
        if self.sets not in ("top", "one-of"):
            raise SchemaError(f"sets={self.sets!r} is not understood", remedy='say "top" or "one-of"')
        if self.categories is not None:
            check_labels(self.categories, self.many, self.one, "Categorical")

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.categories or ()

    def fit(self, cells: Cells) -> Self:
        if self.categories is not None:
            return self
        return replace(self, categories=fitted_labels(cells, mentioned(cells), self))

    def encode(self, cells: Cells) -> Block:
        """Cells as two tiers: the chosen categories above all others."""
        tier, one_of, linear = self.read(cells)
        return Block.orders(tier, one_of, self.sites, linear)

    def _read(self, value: Any, places: Mapping[Any, int]) -> Reading | None:
        if isinstance(value, tuple):
            if not value:
                raise Refused("an empty set leaves no category", "leave the cell empty if nothing is known")
            value = TopSet(value) if self.sets == "top" else OneOf(value)
        if isinstance(value, (OneOf, TopSet)):
            return self.subset(value, places)
        if isinstance(value, Statement):
            raise Refused(f"{show(value)} says nothing about categories", "use one_of(...) or top_set(...)")
        return self.subset(TopSet((value,)), places)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The category with the largest utility."""
        x = np.asarray(x, np.float64)
        known = np.asarray(~np.isnan(x).any(axis=1))
        return natural(self.labels, np.where(known, np.where(known[:, None], x, 0.0).argmax(axis=1), -1))

    def describe(self) -> str:
        what = listing(self.texts, " | ") if self.categories else "one of unordered categories"
        return what if self.sets == "top" else f"{what}; a set means one of them"
