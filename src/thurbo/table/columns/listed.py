"""The listed layout: each row has few of a column's many sites, and one line for each item; attributes of items (§8).

Lines hold levels, numbers or positions in an order; memory is proportional to the number of entries. Known features
f_i of an item enter its parameters, α_i = a_i + B f_i: numbers are standardised, texts have one feature for each
level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Cells, Entries, FloatArray, Listed
from thurbo.table.columns.column import Column
from thurbo.table.columns.statements import OrderStatement
from thurbo.table.columns.values import Refused, collection, is_label, listing, plain, show, suggestion

MOST_SHARED, LEAST_SHARE = 16, 0.5  # orders of at most so many items, with this share ranked, use the shared layout
LEAST_LISTED, MOST_SHARE = 65, 0.25  # orders of at least so many items, at most this share ranked, are listed


@dataclass(frozen=True)
class ListSettings:
    """How a model learns the items of a list: shrinkage, and whether being listed is a signal.

    Parameters
    ----------
    item_decay : float, default=30.0
        Precision of a normal prior that shrinks each item's parameters towards the mean of all items. Items that few
        rows list are shrunk most.
    presence : bool, default=True
        Use which items a row lists as a signal, besides their scores.
    draws : int, default=20
        Number of draws of the parameters from their posterior distribution, for `Ratings` whose scores are levels.
        They are members of the model (`members_`) beside those that are trained, weighed by held-out answers. They use
        who has rated an item, and account for how little is known about items with few ratings. 0 is none.

    Examples
    --------
    >>> schema = {"movie": tb.Ratings(settings=tb.ListSettings(item_decay=10.0, presence=False))}
    >>> model = tb.TBM(schema, n_hidden=4)
    """

    item_decay: float = 30.0
    presence: bool = True
    draws: int = 20

    def __post_init__(self) -> None:
        decay = self.item_decay
        if isinstance(decay, bool) or not isinstance(decay, (int, float)) or not 0 <= decay < np.inf:
            raise SchemaError(f"item_decay={decay!r} is not a number of at least 0", remedy="the default is 30.0")
        if not isinstance(self.presence, (bool, np.bool_)):
            raise SchemaError(f"presence={self.presence!r} is not True or False", remedy="the default is True")
        if isinstance(self.draws, bool) or not isinstance(self.draws, (int, np.integer)) or self.draws < 0:
            raise SchemaError(f"draws={self.draws!r} is not a number of draws", remedy="the default is 20; 0 is none")


class ItemColumn(Column):
    """A column of items with `settings` of their own, and perhaps with `attributes`, {item: {attribute: value}}."""

    items: Any
    attributes: Any  # stored as pairs
    settings: ListSettings
    has_items = True
    has_site_per_label = True
    constants = True  # whether items have parameters of their own, beside those of their attributes

    def __post_init__(self) -> None:
        if self.attributes is not None:
            object.__setattr__(self, "attributes", as_pairs(self.attributes))
        super().__post_init__()

    def _check(self) -> None:
        if not isinstance(self.settings, ListSettings):
            raise SchemaError(f"settings={self.settings!r} is not valid", remedy="give tb.ListSettings(...)")
        for item, _ in () if self.items is None else self.attributes or ():
            if item not in self.items:
                raise SchemaError(f"attributes are given for {show(item)}, which is not an item", remedy="remove it")

    def fitted_items(self, given: Iterable[Any], name: str) -> tuple[Any, ...]:
        """Two or more items: those of the cells, and those that are only known by their attributes."""
        items = tuple(dict.fromkeys([*given, *(item for item, _ in self.attributes or ())]))
        if len(items) < 2:
            problem = f"the column has {len(items)} item{'s' * (len(items) != 1)}"
            raise SchemaError(problem, column=name, remedy="give two items or more")
        return items

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.items or ()

    @property
    def learning_settings(self) -> dict[str, Any]:
        return asdict(self.settings)

    @property
    def design(self) -> Design | None:
        has_design = self.attributes is not None and self.items is not None
        return design_of(self.items, self.attributes, self.constants) if has_design else None

    def to_dict(self) -> dict[str, Any]:
        state = super().to_dict()
        return state | {"settings": asdict(self.settings)} if "settings" in state else state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        own, known = state.get("settings"), [item.name for item in fields(ListSettings)]
        if not isinstance(own, Mapping):
            return super().from_dict(state)
        for name in own:
            if name not in known:
                remedy = f"{suggestion(name, known)}the settings are {', '.join(known)}"
                raise SchemaError(f'settings of a list have no "{name}"', remedy=remedy)
        return super().from_dict({**state, "settings": ListSettings(**own)})

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Latent values of all items [row, item] as cells; NaN if an item is not in a row's list."""
        x = np.asarray(x, np.float64)
        row, site = np.nonzero(~np.isnan(x))
        values = self.form.from_latent(x[row, site], site.astype(np.int32), cuts, scale)
        cells = self.list_cells(row, site, values, len(x))
        cells[np.isnan(x).all(axis=1)] = None
        return cells


def orders_are_listed(n_items: int, n_entries: float, n_rows: float, *, usually: bool) -> bool:
    """Whether orders are stored as lists: by the number of items and the share of them that rows rank."""
    share = n_entries / max(n_rows * n_items, 1)
    if n_items <= MOST_SHARED and share >= LEAST_SHARE:
        return False
    return usually or (n_items >= LEAST_LISTED and share <= MOST_SHARE)


def read_lists(cells: Cells) -> Listed:
    """The lists of a column: as given by `from_long` or a sparse matrix, or read cell by cell."""
    if cells.listed is not None:
        return cells.listed
    index_of: dict[Any, int] = {}
    start, index, score = [0], [], []
    for position, (value, gone) in enumerate(zip(cells.values.tolist(), cells.missing.tolist(), strict=True)):
        with cells.at(position):
            entries = [] if gone else _entries(value)
        index += [index_of.setdefault(item, len(index_of)) for item, _ in entries]
        score += [number for _, number in entries]
        start.append(len(index))
    items = np.fromiter(index_of, object, len(index_of))
    which, scores = np.asarray(index, np.int64), np.asarray(score, np.float64)
    ordered = all(_scores(value) is None for value in cells.values[~cells.missing].tolist())
    return Listed(np.asarray(start, np.int64), items, which, scores, ordered=ordered)


def _scores(value: Any) -> dict[Any, Any] | None:
    """The scores that a cell holds, {item: score} or a list of {"item", "score"} as in polars and arrow, or None."""
    members = collection(value)
    if members and all(isinstance(each, Mapping) and {"item", "score"} == set(each) for each in members):
        value = {each["item"]: each["score"] for each in members}
    if not isinstance(value, Mapping):
        return None
    # Some file formats give every cell all items, and those that it does not have no score.
    return {item: number for item, number in value.items() if number is not None}


def _entries(value: Any) -> list[tuple[Any, float]]:
    """Items of one cell with their scores; in a list, earlier items have higher scores."""
    scores = _scores(value)
    if scores is not None:
        for item, number in scores.items():
            if not isinstance(number, (int, float, np.number)) or not np.isfinite(number):
                raise Refused(f"the score {show(number)} of item {show(item)} is not a number", "give a finite number")
        return [(plain(item), float(number)) for item, number in scores.items()]
    tiers = value.tiers if isinstance(value, OrderStatement) else collection(value)
    if tiers is None:
        remedy = "give {item: score}, a list of items from best to worst, or a long table through from_long"
        raise Refused(f"{show(value)} is not a list of items", remedy)
    groups = [collection(tier) or (tier,) for tier in tiers]
    return [(plain(item), float(len(groups) - place)) for place, tier in enumerate(groups) for item in tier]


def tiers(row: NDArray[Any], score: NDArray[Any]) -> NDArray[np.int32]:
    """Rank of each score within its row, 0 for the lowest, equal scores tied, without gaps; rows are sorted."""
    if not len(row):
        return np.zeros(0, np.int32)
    order = np.lexsort((score, row))
    new_row = np.diff(row[order], prepend=-1) != 0
    rises = np.diff(score[order], prepend=score[order[0]]) != 0
    step = np.cumsum(rises & ~new_row)
    place = np.empty(len(row), np.int32)
    place[order] = step - step[new_row][np.cumsum(new_row) - 1]
    return place


def best_first(x: FloatArray) -> list[NDArray[np.intp]]:
    """Places of each row's known values, the largest first."""
    x = np.asarray(x, np.float64)
    known = (~np.isnan(x)).sum(axis=1)
    return [order[:count] for order, count in zip(np.argsort(-x, axis=1, kind="stable"), known, strict=True)]


def from_table(tier: NDArray[np.int32]) -> tuple[Entries, NDArray[np.int32]]:
    """Tiers of a table [row, item] as lists of the ranked items, and the tier of each entry."""
    row, site = np.nonzero(tier >= 0)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(tier)))]).astype(np.int64)
    return Entries(start, site.astype(np.int32)), tier[row, site]


def as_scores(labels: tuple[Any, ...], row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
    """Lines as cells {item: score}, one for each row."""
    cells = np.fromiter(({} for _ in range(n_rows)), object, n_rows)
    lines = (np.asarray(each).tolist() for each in (row, site, values))
    for at, place, value in zip(*lines, strict=True):
        cells[at][labels[place]] = value
    return cells


def as_orders(labels: tuple[Any, ...], row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
    """Lines as cells [item, item, ...] from the largest value to the smallest, one for each row."""
    cells = np.fromiter(([] for _ in range(n_rows)), object, n_rows)
    for line in np.lexsort((-np.asarray(values, np.float64), row)).tolist():
        cells[int(row[line])].append(labels[int(site[line])])
    return cells


def original(cells: Cells) -> list[dict[Any, Any]]:
    """Each row's list as given by the user: {item: score}, scores unchanged."""
    found = read_lists(cells)
    items, which, score = np.asarray(found.items).tolist(), found.which.tolist(), np.asarray(found.score).tolist()
    given = cells.values.tolist() if cells.listed is None else [None] * len(cells)
    rows = []
    for row, cell in enumerate(given):
        scores = None if cells.missing[row] else _scores(cell)
        if scores is None:
            entries = range(int(found.start[row]), int(found.start[row + 1]))
            scores = {plain(items[which[entry]]): score[entry] for entry in entries}
        rows.append(scores)
    return rows


def extended_orders(
    labels: tuple[Any, ...], entries: Entries, utility: NDArray[Any], row: Any, site: Any, values: Any
) -> NDArray[Any]:
    """Lists from best to worst with predicted items inserted by their utility; the given order does not change."""
    rows, sites = np.concatenate([entries.row, row]), np.concatenate([entries.site, site])
    return as_orders(labels, rows, sites, np.concatenate([utility, values]), entries.n_rows)


Pairs = tuple[tuple[Any, tuple[tuple[str, Any], ...]], ...]  # ((item, ((attribute, value), ...)), ...)


class Attribute(NamedTuple):
    """One attribute: its levels, or the mean and standard deviation of its numbers."""

    name: str
    levels: tuple[Any, ...] = ()
    location: float = 0.0
    scale: float = 1.0

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features: one for each level, or one for a number."""
        return tuple(f"{self.name}: {level}" for level in self.levels) or (self.name,)


class Design(NamedTuple):
    """How attributes become features, learned from the items of the training table: [item, feature]."""

    attributes: tuple[Attribute, ...]
    matrix: FloatArray
    constants: bool  # whether items have parameters of their own, beside those of their attributes

    def coded(self, pairs: Pairs) -> FloatArray:
        """Features of items, [item, feature]; a missing value is the mean."""
        parts = [np.zeros((len(pairs), 0))]
        for each in self.attributes:
            values = [dict(own).get(each.name) for _, own in pairs]
            if not each.levels:
                numbers = np.asarray([np.nan if value is None else float(value) for value in values])
                parts.append(np.nan_to_num((numbers - each.location) / each.scale)[:, None])
                continue
            for (item, _), value in zip(pairs, values, strict=True):
                if value is not None and value not in each.levels:
                    problem = f"item {show(item)}: {each.name} = {show(value)} was not in the training table"
                    remedy = f"{suggestion(value, each.levels)}the levels are {listing(each.levels)}"
                    raise SchemaError(problem, remedy=remedy)
            found = [[float(value == level) for level in each.levels] for value in values]
            parts.append(np.asarray(found).reshape(len(pairs), -1))
        return np.concatenate(parts, axis=1)


def as_pairs(given: Any) -> Pairs:
    """Attributes as given, {item: {attribute: value}} or pairs of these, as tuples of plain values."""
    found = []
    for item, own in given.items() if isinstance(given, Mapping) else given:
        values = own.items() if isinstance(own, Mapping) else own
        try:
            kept = {str(name): plain(value) for name, value in values}
        except (TypeError, ValueError):
            problem = f"the attributes of item {show(item)} are {show(own)}"
            raise SchemaError(problem, remedy='give {"item": {"attribute": value}}') from None
        for name, value in kept.items():
            if value is None or (isinstance(value, float) and np.isnan(value)):
                kept[name] = None
            elif not is_label(value):
                problem = f"item {show(item)}: {name} = {show(value)} is not a number or a text"
                raise SchemaError(problem, remedy="give one value")
        found.append((plain(item), tuple(kept.items())))
    return tuple(found)


@lru_cache(maxsize=64)
def design_of(labels: tuple[Any, ...], pairs: Pairs, constants: bool) -> Design:
    """The design of a column's items: numbers standardised, other values by level.

    An item without attributes has the mean of all others.
    """
    found = []
    for name in dict.fromkeys(name for _, own in pairs for name, _ in own):
        values = [value for _, own in pairs for each, value in own if each == name and value is not None]
        if values and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            numbers = np.asarray(values, np.float64)
            found.append(Attribute(name, (), float(numbers.mean()), float(numbers.std()) or 1.0))
        else:
            levels = sorted(set(values), key=lambda value: (isinstance(value, str), str(value)))
            found.append(Attribute(name, tuple(levels)))
    known, design = dict(pairs), Design(tuple(found), np.zeros((len(labels), 0)), constants)
    every = design.coded(tuple((label, known.get(label, ())) for label in labels))
    has = np.asarray([label in known for label in labels], bool)
    if has.any() and not has.all():
        every[~has] = every[has].mean(axis=0)
    return design._replace(matrix=every)
