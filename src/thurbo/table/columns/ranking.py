"""§3.2: a ranking with ties: every utility of a better tier is above every utility of a worse tier.

Text, nested lists, ranks, scores and places are all converted to tiers. Unranked items are absent, or last.
After fit, `labels` equals `items`. Tied items are not compared. Decoded cells have the format of the input cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, Cells, FloatArray, IntArray, as_numbers
from thurbo.table.columns.column import Column
from thurbo.table.columns.forms.utilities import OrderForm
from thurbo.table.columns.labels import LabelTiers, UtilityColumn, check_labels, check_names, check_pairs, mentioned
from thurbo.table.columns.listed import LEAST_LISTED, ListSettings, best_first, from_table, orders_are_listed, tiers
from thurbo.table.columns.statements import OneOfStatement, OrderStatement, Statement, TopSet, parse_order
from thurbo.table.columns.values import Refused, listing, show


@dataclass(frozen=True)
class Ranking(UtilityColumn):
    """An order of items with ties, §3.2: x_a ≥ x_b for every item a of a better tier than b.

    Parameters
    ----------
    items : list, optional
        All items; by default those of the training cells.
    unranked : {"absent", "last"}, optional
        Items that a row does not rank are not compared ("absent", the default), or are below all ranked items
        ("last", the default of `places`).
    ranks : dict, optional
        {item: column} if each item has a column with its rank, 1 = best.
    scores : dict, optional
        {item: column} if each item has a column with its score, large = best.
    places : list of str, optional
        Columns that hold the first, second, ... item. After the first empty place, an item is only known to be below
        the items before that place.
    context : bool, default=False
        Whether a ranking is a sequence of choices, from the best item down, in which items chosen before may change
        the utilities of those that are left, and later choices may be more or less precise. Needs orders without
        ties above the last place, and `objective="exact"`.
    cell_format, listed : optional
        Whether cells are text or lists, and the storage layout. `fit` sets them.
    sep : str, optional
        What stands between the items of a text, best first, instead of " > " and " = ": ";" for "a;b;c".
    unseen : {"error", "missing"}, default="error"
        What to do with an unknown item; "missing" omits it.
    names, missing, recode : optional
        As in `Categorical`.

    Notes
    -----
    A cell is a text "a > b = c > d", a list from best to worst [["a"], ["b", "c"], ["d"]], `prefers(a, b)` or a list
    of these, `one_of(...)` or `top_set(...)`. A cell under the column's own name replaces ranks, scores or places.
    Imputed scores are the number of items (best) down to 1, since only their order is used.

    Examples
    --------
    >>> table = {"drinks": ["tea > coffee = water", tb.prefers("coffee", "tea"), None]}
    >>> tb.Schema({"drinks": tb.Ranking()}).fit(table)["drinks"].describe()
    'an order of coffee, tea, water'
    """

    kind: ClassVar[str] = "ranking"
    form_type = OrderForm
    one, many = "item", "items"
    is_ranking: ClassVar[bool] = True
    choices = (
        ("unranked", (None, "absent", "last")),
        ("cell_format", (None, "text", "lists")),
        ("context", (True, False)),
    )
    has_items = True
    mappings: ClassVar[tuple[str, ...]] = ("ranks", "scores")
    items: tuple[Any, ...] | None = None
    unranked: Literal["absent", "last"] | None = None
    ranks: Mapping[Any, str] | None = field(default=None, kw_only=True)  # stored as pairs
    scores: Mapping[Any, str] | None = field(default=None, kw_only=True)
    places: tuple[str, ...] | None = field(default=None, kw_only=True)
    context: bool = field(default=False, kw_only=True)
    sep: str | None = field(default=None, kw_only=True)
    cell_format: Literal["text", "lists"] | None = field(default=None, kw_only=True)  # of a cell; set by fit
    listed: bool | None = field(default=None, kw_only=True)  # rows rank few of many items; set by fit

    def _check(self) -> None:
        if self.context and self.listed:
            problem = "context=True needs a site for each item in every row, and listed=True has none"
            raise SchemaError(problem, remedy="use context=False, or leave listed out")
        given = [name for name in ("ranks", "scores", "places") if getattr(self, name) is not None]
        if len(given) > 1:
            raise SchemaError(f"Ranking has {' and '.join(given)}", remedy="give one of them")
        if self.places is not None:
            check_names(self.places, "places")
        elif given:
            check_pairs(getattr(self, given[0]), given[0])
            keys = tuple(item for item, _ in self._pairs)
            check_labels(keys, self.many, self.one, "Ranking")
            if self.items is not None and set(self.items) != set(keys):
                problem = f"items {listing(self.items)} are not those of {given[0]}, {listing(keys)}"
                raise SchemaError(problem, remedy=f"omit items: {given[0]} gives them")
        if self.items is not None:
            check_labels(self.items, self.many, self.one, "Ranking")

    @property
    def learning_settings(self) -> dict[str, Any]:
        return asdict(ListSettings()) if self.is_listed else {}

    @property
    def is_listed(self) -> bool:
        return bool(self.listed)

    @property
    def has_context(self) -> bool:
        return self.context

    def list_cells(self, row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
        orders, is_text = super().list_cells(row, site, values, n_rows), self.cell_format != "lists"
        return np.fromiter((self._cell(order, is_text) for order in orders), object, n_rows)

    def _cell(self, order: Iterable[Any], is_text: bool) -> Any:
        """Items from best to worst as a cell."""
        return (self.sep or " > ").join(map(str, order)) if is_text else [[item] for item in order]

    def _order(self, text: str) -> OrderStatement:
        """A text as an order, best first."""
        if self.sep is None:
            return parse_order(text)
        return OrderStatement(tuple((item.strip(),) for item in text.split(self.sep) if item.strip()))

    def source_columns(self, name: str) -> tuple[str, ...]:
        return self.places or tuple(column for _, column in self._pairs) or (name,)

    @classmethod
    def answers_of_type(cls, column: Column) -> dict[str, Any]:
        return {"ranks": columns} if (columns := getattr(column, "columns", None)) else {}

    def separated(self) -> dict[str, Column]:
        if self.places is not None:
            kind = self.registered["categorical"]
            return dict.fromkeys(self.places, kind(self.items, names=self.names, missing=self.missing))
        number = self.registered["ordinal" if self.scores is None else "continuous"]
        return {column: number(missing=self.missing) for _, column in self._pairs}

    @property
    def is_last(self) -> bool:
        return self.unranked == "last" or (self.unranked is None and self.places is not None)

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        if self._pairs or (self.places is not None and self.items is not None):
            return self
        if self.places is not None:
            found = self.mentions_of(cells)
            ordered = next((part.ordered_levels for part in cells.parts.values()), None)
            return replace(self, items=self.fitted_labels(replace(cells, ordered_levels=ordered), found))
        cells = cells.hashable()
        distinct, which = cells.factorise()
        is_text = any(isinstance(value, str) for value in distinct)
        is_text |= all(isinstance(value, Statement) for value in distinct)
        fitted = replace(self, cell_format=self.cell_format or ("text" if is_text else "lists"))
        named = [self._order(value) if isinstance(value, str) else value for value in distinct]
        items = [[item for item in mentioned([value]) if item != ""] for value in named]
        if self.items is None:
            fitted = replace(fitted, items=self.fitted_labels(cells, [item for own in items for item in own]))
        if self.is_last or self.context or self.listed is not None or len(fitted.labels) < LEAST_LISTED:
            return fitted
        # The listed layout saves memory if rows rank few of many items.
        length = np.asarray([*map(len, items), 0])[which]
        sizes = float(weight @ length), float(weight.sum())
        return replace(fitted, listed=orders_are_listed(len(fitted.labels), *sizes, usually=False))

    def encode(self, cells: Cells) -> Block:
        """Cells as tiers."""
        tier, one_of, linear = self.read(cells)
        if cells.parts:
            others = self._from_places(cells) if self.places else self._from_numbers(cells)
            tier[cells.missing] = others[cells.missing]
        if self.context:
            # Choices one after another need to be known one by one, until the last.
            bad = one_of | ((tier > 0).sum(axis=1) > np.maximum(tier.max(axis=1), 0))
            bad[[line.row for line in linear]] = True
            if bad.any():
                problem = "the cell does not say which item was chosen first, second, ..."
                remedy = "give an order without ties, or use Ranking(context=False)"
                raise cells.error(int(bad.argmax()), f"{problem}: items above the last are tied", remedy)
            return Block(self.sites, tier=tier, one_of=one_of, is_repeated=True)
        if not self.is_listed:
            return Block(self.sites, tier=tier, one_of=one_of, linear=tuple(linear))
        if linear or one_of.any():
            row = linear[0].row if linear else int(one_of.argmax())
            problem = f"comparisons of {len(self.labels)} items that do not form an order from best to worst"
            raise cells.error(row, problem, "give an order, or fewer items")
        entries, place = from_table(tier)
        return Block(self.sites, tier=place[:, None], entries=entries)

    def silent(self, n_rows: int) -> Block:
        return replace(super().silent(n_rows), is_repeated=self.context)

    def _read(self, value: Any, places: Mapping[Any, int]) -> LabelTiers | None:
        if isinstance(value, (OneOfStatement, TopSet)):
            return self.subset(value, places)
        if isinstance(value, OrderStatement):
            return self.combined([value], places)
        if isinstance(value, Statement):
            raise Refused(f"{show(value)} cannot be used in a Ranking column", "use prefers(better, worse)")
        if isinstance(value, tuple) and value and all(isinstance(entry, OrderStatement) for entry in value):
            return self.combined(value, places)
        if isinstance(value, str):
            tiers = self._order(value).tiers if value else ()
        elif isinstance(value, tuple):
            tiers = tuple(tier if isinstance(tier, tuple) else (tier,) for tier in value)
        else:
            tiers = ((value,),)
        return self._tiers(tiers, places)

    def _tiers(self, tiers: tuple[tuple[Any, ...], ...], places: Mapping[Any, int]) -> LabelTiers | None:
        """A ranking of items, best first, as tiers."""
        omitted = self.unseen == "missing"
        known = [[item for item in tier if item in places or not omitted] for tier in tiers]
        groups = [group for group in (self.find(tier, places) for tier in known) if group]
        tier = np.full(len(self.labels), -1, np.int32)
        for height, group in enumerate(reversed(groups)):
            for place in group:
                if tier[place] >= 0:
                    raise Refused(f"item {show(self.labels[place])} is ranked twice", "name each item once in a cell")
                tier[place] = height
        return LabelTiers(last(tier[None])[0] if self.is_last else tier) if groups else None

    def _from_numbers(self, cells: Cells) -> IntArray:
        """Tiers of the columns that hold a rank or score for each item: [row, item]."""
        numbers = np.full((len(cells), len(self.labels)), np.nan)
        # Files use 0 for an item that was not ranked.
        what, least, wanted = "rank", 1.0, "a number from 1, the best, upwards"
        if self.scores is not None:
            what, least, wanted = "score", -np.inf, "a finite number"
        for item, name in self._pairs:
            if name in cells.parts:
                column, refused = as_numbers(cells.parts[name])
                refused |= np.isinf(column) | (column < least)
                self.refuse(cells.parts[name], refused, f"{what} {{}} of item {show(item)} is not {wanted}")
                numbers[:, self.labels.index(item)] = np.where(refused, np.nan, column)
        return self._dense(numbers if self.ranks is None else -numbers)

    def _from_places(self, cells: Cells) -> IntArray:
        """Tiers of the columns that hold the item at each place, best first: [row, item]."""
        assert self.places is not None
        index = self.index(cells)
        height = np.full((len(cells), len(self.labels)), np.nan)
        gap = np.zeros(len(cells), bool)
        rows = np.arange(len(cells))
        for step, name in enumerate(self.places):
            part = cells.parts.get(name)
            item = np.full(len(cells), -1, np.int32) if part is None else self.mentions_in(part, index)
            empty = item < 0
            taken = ~empty & ~np.isnan(height[rows, np.maximum(item, 0)])
            if part is not None:
                self.refuse(part, taken, "item {} already has a better place", "name each item once in a row")
            gap |= empty
            # After an empty place the better items are unknown: an item is below only those before that place.
            use = ~empty & ~taken & ~(gap & self.is_last)
            height[rows[use], item[use]] = -step
        return self._dense(height)

    def _dense(self, numbers: FloatArray) -> IntArray:
        """Tiers from 0 without gaps of the numbers in each row, equal numbers tied."""
        known, tier = np.nonzero(~np.isnan(numbers)), np.full(numbers.shape, -1, np.int32)
        tier[known] = tiers(known[0], numbers[known])
        return last(tier) if self.is_last else tier

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Items from the largest utility to the smallest; items without a utility are omitted."""
        is_text = self.cell_format != "lists" and set(self.sep or ">=").isdisjoint("".join(self.sites))
        orders = [[self.labels[place] for place in order] for order in best_first(x)]
        return np.fromiter((self._cell(order, is_text) if order else None for order in orders), object, len(x))

    def decode_columns(self, name: str, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> dict[str, NDArray[Any]]:
        """Cells as ranks, scores or places, if the column is read from several columns."""
        orders = best_first(x)
        if self.places is not None:
            held = np.full((len(x), len(self.places)), None, object)
            for row, order in enumerate(orders):
                best = order[: len(self.places)]
                held[row, : len(best)] = [self.labels[place] for place in best]
            return {column: held[:, step] for step, column in enumerate(self.places)}
        if not self._pairs:
            return {name: self.decode(x, cuts, scale)}
        numbers = np.full((len(x), len(self.labels)), np.nan)
        for row, order in enumerate(orders):
            rank = np.arange(1, len(order) + 1)
            numbers[row, order] = rank if self.scores is None else len(self.labels) + 1 - rank
        whole = numbers if np.isnan(numbers).any() else numbers.astype(np.int64)
        return {column: whole[:, self.labels.index(item)] for item, column in self._pairs}

    def describe(self) -> str:
        items = listing(self.texts) if self.labels else "items"
        by = next((f" by {name}" for name in ("ranks", "scores", "places") if getattr(self, name)), "")
        said = f"an order of {items}{by}" + (", unranked ones last" if self.is_last else "")
        return said + (", chosen one after another" if self.context else "")


def last(tier: IntArray) -> IntArray:
    """Tiers with the unranked labels below all ranked ones, in rows that rank any: [row, label]."""
    ranked = tier >= 0
    short = ranked.any(axis=1, keepdims=True) & ~ranked.all(axis=1, keepdims=True)
    return np.where(short, tier + 1, tier).astype(np.int32)
