"""§3.2: a ranking with ties says that every utility of a better tier is above every utility of a worse one.

Idea: text, nested lists, ranks, scores and places all become tiers; items that are not ranked are absent, or last.
Promises `labels == items`, tied items left uncompared, and decoding to the form that the cells had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import BoolArray, Cells, FloatArray, IntArray, Refused, as_numbers, listing, show
from thurbo.columns.column import Block
from thurbo.columns.labels import check_labels, check_names, check_pairs
from thurbo.columns.statements import OneOf, Order, Statement, TopSet, parse_order
from thurbo.columns.utility import Reading, UtilityColumn, combine, fitted_labels, last, mentioned
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Ranking(UtilityColumn):
    """An order of `items`, ties allowed: "a > b = c > d", or lists from best to worst [["a"], ["b", "c"], ["d"]].

    From several columns: `ranks={item: column}` (1 = best), `scores={item: column}` (large = best), or
    `places=[first, second, ...]`, columns that hold the item at each place. `unranked` items are "absent" (never
    compared; the default) or "last" (below all that are ranked; the default of `places`, where an item counts as
    lower only than the places before the first gap). A cell under the column's own name, as text, lists or
    `prefers(a, b)`, takes the place of what the several columns say. An unknown item is left out of its ranking where
    `unseen="missing"`. Decoded scores run from the number of items (best) to 1, since only their order is used.
    """

    kind: ClassVar[str] = "ranking"
    one: ClassVar[str] = "item"
    many: ClassVar[str] = "items"
    mappings: ClassVar[tuple[str, ...]] = ("ranks", "scores")
    items: tuple[Any, ...] | None = None
    unranked: Literal["absent", "last"] | None = None
    ranks: Mapping[Any, str] | None = field(default=None, kw_only=True)  # kept as pairs, which are immutable
    scores: Mapping[Any, str] | None = field(default=None, kw_only=True)
    places: tuple[str, ...] | None = field(default=None, kw_only=True)
    form: Literal["text", "lists"] | None = field(default=None, kw_only=True)  # of a cell; found by fit

    def _check(self) -> None:
        if self.unranked not in (None, "absent", "last"):
            raise SchemaError(f"unranked={self.unranked!r} is not understood", remedy='say "absent" or "last"')
        if self.form not in (None, "text", "lists"):
            raise SchemaError(f"form={self.form!r} is not understood", remedy='say "text" or "lists"')
        given = [name for name in ("ranks", "scores", "places") if getattr(self, name) is not None]
        if len(given) > 1:
            raise SchemaError(f"a Ranking is given {' and '.join(given)}", remedy="give one of them")
        if self.places is not None:
            check_names(self.places, "places")
        elif given:
            check_pairs(getattr(self, given[0]), given[0])
            keys = tuple(item for item, _ in self._pairs)
            check_labels(keys, self.many, self.one, "Ranking")
            if self.items is not None and set(self.items) != set(keys):
                problem = f"items {listing(self.items)} are not those of {given[0]}, {listing(keys)}"
                raise SchemaError(problem, remedy=f"leave items out: {given[0]} names them")
        if self.items is not None:
            check_labels(self.items, self.many, self.one, "Ranking")

    @property
    def _pairs(self) -> tuple[tuple[Any, str], ...]:
        stored: Any = self.ranks or self.scores or ()
        return tuple(stored)

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.items or tuple(item for item, _ in self._pairs)

    def source_columns(self, name: str) -> tuple[str, ...]:
        return self.places or tuple(column for _, column in self._pairs) or (name,)

    @property
    def is_last(self) -> bool:
        """Whether items that are not ranked count as below all that are."""
        return self.unranked == "last" or (self.unranked is None and self.places is not None)

    def fit(self, cells: Cells) -> Self:
        if self._pairs or (self.places is not None and self.items is not None):
            return self
        if self.places is not None:
            found = [value for part in cells.parts.values() for value in mentioned(part) if value != ""]
            ordered = next((part.ordered_levels for part in cells.parts.values()), None)
            return replace(self, items=fitted_labels(replace(cells, ordered_levels=ordered), found, self))
        cells = cells.hashable()
        distinct, _ = cells.factorise()
        text = [value for value in distinct if isinstance(value, str)]
        form = self.form or ("text" if text or all(isinstance(value, Statement) for value in distinct) else "lists")
        if self.items is not None:
            return replace(self, form=form)
        whole = set(text)
        found = [item for value in text for tier in parse_order(value).tiers for item in tier if item]
        found += [item for item in mentioned(cells) if item not in whole]
        return replace(self, form=form, items=fitted_labels(cells, found, self))

    def encode(self, cells: Cells) -> Block:
        """Cells as tiers."""
        tier, one_of, linear = self.read(cells)
        if cells.parts:
            others = self._from_places(cells) if self.places else self._from_numbers(cells)
            tier[cells.missing] = others[cells.missing]
        return Block.orders(tier, one_of, self.sites, linear)

    def _read(self, value: Any, places: Mapping[Any, int]) -> Reading | None:
        if isinstance(value, (OneOf, TopSet)):
            return self.subset(value, places)
        if isinstance(value, Order):
            return combine([value], places, self)
        if isinstance(value, Statement):
            raise Refused(f"{show(value)} says nothing about an order", "use prefers(better, worse)")
        if isinstance(value, tuple) and value and all(isinstance(entry, Order) for entry in value):
            return combine(value, places, self)
        if isinstance(value, str):
            tiers = parse_order(value).tiers if value else ()
        elif isinstance(value, tuple):
            tiers = tuple(tier if isinstance(tier, tuple) else (tier,) for tier in value)
        else:
            tiers = ((value,),)
        return self._tiers(tiers, places)

    def _tiers(self, tiers: tuple[tuple[Any, ...], ...], places: Mapping[Any, int]) -> Reading | None:
        """A ranking of items, best first, as tiers."""
        if self.unseen == "missing":
            tiers = tuple(tuple(item for item in tier if item in places) for tier in tiers)
        groups = [group for group in (self.find(tier, places) for tier in tiers) if group]
        seen: set[int] = set()
        tier = np.full(len(self.labels), -1, np.int32)
        for height, group in enumerate(reversed(groups)):
            for place in group:
                if place in seen:
                    raise Refused(f"item {show(self.labels[place])} is ranked twice", "name each item once in a cell")
                seen.add(place)
                tier[place] = height
        return Reading(last(tier[None])[0] if self.is_last else tier) if groups else None

    def _from_numbers(self, cells: Cells) -> IntArray:
        """Tiers of the columns that hold a rank or score for each item: [row, item]."""
        numbers = np.full((len(cells), len(self.labels)), np.nan)
        what = "score" if self.ranks is None else "rank"
        for item, name in self._pairs:
            part = cells.parts.get(name)
            if part is None:
                continue
            column, refused = as_numbers(part)
            refused |= np.isinf(column)
            if self.ranks is not None:
                refused |= column < 1  # 0 is what files write for an item that was not ranked
            if refused.any() and self.unseen == "error":
                position = int(refused.argmax())
                wanted = "not a finite number" if self.ranks is None else "not a number from 1, the best, upwards"
                raise part.error(
                    position,
                    f"{what} {show(part.values[position])} of item {show(item)} is {wanted}",
                    'correct the cell, or let such cells count as missing with Ranking(unseen="missing")',
                )
            numbers[:, self.labels.index(item)] = np.where(part.missing | refused, np.nan, column)
        tier = dense_tiers(numbers if self.ranks is None else -numbers)
        return last(tier) if self.is_last else tier

    def _from_places(self, cells: Cells) -> IntArray:
        """Tiers of the columns that hold the item at each place, best first: [row, item]."""
        assert self.places is not None
        index = self.index(cells)
        height = np.full((len(cells), len(self.labels)), np.nan)
        gap = np.zeros(len(cells), bool)
        rows = np.arange(len(cells))
        for step, name in enumerate(self.places):
            part = cells.parts.get(name)
            item = np.full(len(cells), -1, np.int32) if part is None else self._items(part, index)
            empty = item < 0
            taken = ~empty & ~np.isnan(height[rows, np.maximum(item, 0)])
            if part is not None and taken.any():
                self._refuse_twice(part, taken)
            gap |= empty
            # Behind a gap the better items are not known: whoever stands there is lower only than those before it.
            use = ~empty & ~taken & ~(gap & self.is_last)
            height[rows[use], item[use]] = -step
        tier = dense_tiers(height)
        return last(tier) if self.is_last else tier

    def _items(self, part: Cells, index: Mapping[Any, int]) -> IntArray:
        """Which item each cell of a place holds: [row], −1 where there is none."""
        distinct, which = part.factorise()
        place = np.asarray([*(index.get(value, -1) for value in distinct), -1], np.int32)[which]
        is_blank = np.asarray([*(value == "" for value in distinct), True])[which]
        strange = np.flatnonzero((place < 0) & ~is_blank)
        if len(strange) and self.unseen == "error":
            why = self.unknown(part.values[strange[0]])
            raise part.error(int(strange[0]), why.problem, why.remedy)
        return place

    def _refuse_twice(self, part: Cells, taken: BoolArray) -> None:
        if self.unseen == "error":
            position = int(taken.argmax())
            problem = f"item {show(part.values[position])} already has a better place"
            raise part.error(position, problem, "name each item once in a row")

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Items from the largest utility to the smallest; those without one are left out."""
        cells = np.full(len(x), None, object)
        is_text = self.form != "lists" and not any(sign in site for site in self.sites for sign in ">=")
        for row, order in enumerate(_best_first(x)):
            if len(order):
                items = [self.labels[place] for place in order]
                cells[row] = " > ".join(map(str, items)) if is_text else [[item] for item in items]
        return cells

    def decode_columns(self, name: str, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> dict[str, NDArray[Any]]:
        """The same as ranks, scores or places, where the column is made of several."""
        orders = _best_first(x)
        if self.places is not None:
            held = np.full((len(x), len(self.places)), None, object)
            for row, order in enumerate(orders):
                best = order[: len(self.places)]
                held[row, : len(best)] = [self.labels[place] for place in best]
            return {column: held[:, step] for step, column in enumerate(self.places)}
        if not self._pairs:
            return {name: self.decode(x, cuts, scale)}
        rank = np.full((len(x), len(self.labels)), np.nan)
        for row, order in enumerate(orders):
            rank[row, order] = np.arange(1, len(order) + 1)
        numbers = rank if self.scores is None else len(self.labels) + 1 - rank
        whole = numbers if np.isnan(numbers).any() else numbers.astype(np.int64)
        return {column: whole[:, self.labels.index(item)] for item, column in self._pairs}

    def describe(self) -> str:
        items = listing(self.texts) if self.labels else "items"
        by = next((f" by {name}" for name in ("ranks", "scores", "places") if getattr(self, name)), "")
        return f"an order of {items}{by}" + (", unranked ones last" if self.is_last else "")


def dense_tiers(numbers: FloatArray) -> IntArray:
    """Tiers from 0 without gaps of the numbers in each row, equal ones tied, −1 where there is none."""
    order = np.argsort(numbers, axis=1, kind="stable")
    ordered = np.take_along_axis(numbers, order, axis=1)
    rises = np.zeros(numbers.shape, np.int32)
    rises[:, 1:] = ordered[:, 1:] > ordered[:, :-1]
    tier = np.empty(numbers.shape, np.int32)
    np.put_along_axis(tier, order, np.cumsum(rises, axis=1, dtype=np.int32), axis=1)
    return np.where(np.isnan(numbers), np.int32(-1), tier)


def _best_first(x: FloatArray) -> list[NDArray[np.intp]]:
    """Places of each row's known utilities, the largest first."""
    x = np.asarray(x, np.float64)
    known = (~np.isnan(x)).sum(axis=1)
    return [order[:count] for order, count in zip(np.argsort(-x, axis=1, kind="stable"), known, strict=True)]
