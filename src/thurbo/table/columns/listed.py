"""The listed layout: each row has few of a column's many sites, and one line for each item; attributes of items (§8).

Items that a row does not list are not variables of that row. A score is a level between cuts (the cuts of an item are
those of all items plus a shift), a measured number, or only the order of a row's items is used, with ties (§3.2).
Memory is proportional to the number of entries. Known features f_i of an item enter its parameters, α_i = a_i + B f_i:
numbers are standardised, texts have one feature for each level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, Cells, Entries, Family, FloatArray, Listed
from thurbo.table.columns.column import Column, not_fitted
from thurbo.table.columns.continuous import Standardised, mean_and_deviation
from thurbo.table.columns.forms.form import Form
from thurbo.table.columns.forms.levels import LevelForm
from thurbo.table.columns.forms.number import NumberForm
from thurbo.table.columns.forms.utilities import OrderForm
from thurbo.table.columns.statements import OrderStatement
from thurbo.table.columns.values import Refused, collection, is_label, listing, plain, show, suggestion

MOST_SHOWN = 3  # items that are printed if there are more
AT_ONCE = 1 << 20  # entries that are looked up at a time, to limit memory
MOST_LEVELS = 20  # with at most so many distinct scores, by="auto" uses levels
MOST_SHARED, LEAST_SHARE = 16, 0.5  # orders of at most so many items, with this share ranked, use the shared layout
LEAST_LISTED, MOST_SHARE = 65, 0.25  # orders of at least so many items, at most this share ranked, are listed
MOST_ITEM_UNITS = 64  # each is drawn in turn


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
    item_units : int, default=0
        Number of binary hidden units of each item in these draws, beside its factors: kinds of items, for which each
        row has a weight. Rows and columns then have hidden units, as in the paper's model of matrices.

    Examples
    --------
    >>> schema = {"movie": tb.Ratings(settings=tb.ListSettings(item_decay=10.0, presence=False))}
    >>> model = tb.TBM(schema, n_hidden=4)
    """

    item_decay: float = 30.0
    presence: bool = True
    draws: int = 20
    item_units: int = 0

    def __post_init__(self) -> None:
        decay = self.item_decay
        if isinstance(decay, bool) or not isinstance(decay, (int, float)) or not 0 <= decay < np.inf:
            raise SchemaError(f"item_decay={decay!r} is not a number of at least 0", remedy="the default is 30.0")
        if not isinstance(self.presence, (bool, np.bool_)):
            raise SchemaError(f"presence={self.presence!r} is not True or False", remedy="the default is True")
        if isinstance(self.draws, bool) or not isinstance(self.draws, (int, np.integer)) or self.draws < 0:
            raise SchemaError(f"draws={self.draws!r} is not a number of draws", remedy="the default is 20; 0 is none")
        units = self.item_units
        if isinstance(units, bool) or not isinstance(units, (int, np.integer)) or not 0 <= units <= MOST_ITEM_UNITS:
            remedy = f"give 0 to {MOST_ITEM_UNITS}; the default is 0"
            raise SchemaError(f"item_units={units!r} is not a number of hidden units", remedy=remedy)


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
    start = np.searchsorted(row, np.arange(len(tier) + 1))
    return Entries(start, site.astype(np.int32)), tier[row, site]


def original(cells: Cells) -> list[dict[Any, Any]]:
    """Each row's list as given by the user: {item: score}, scores unchanged."""
    found = read_lists(cells)
    items, which, score = np.asarray(found.items).tolist(), found.which.tolist(), np.asarray(found.score).tolist()
    entries = [(plain(items[item]), number) for item, number in zip(which, score, strict=True)]
    rows = [dict(entries[begin:end]) for begin, end in pairwise(found.start.tolist())]
    for row in np.flatnonzero(~cells.missing).tolist() if cells.listed is None else ():
        rows[row] = _scores(cells.values[row]) or rows[row]
    return rows


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
            for (item, _), value in zip(pairs, values, strict=True):
                if each.levels and value is not None and value not in each.levels:
                    problem = f"item {show(item)}: {each.name} = {show(value)} was not in the training table"
                    remedy = f"{suggestion(value, each.levels)}the levels are {listing(each.levels)}"
                    raise SchemaError(problem, remedy=remedy)
            if each.levels:
                parts += [np.asarray([value == level for value in values], float)[:, None] for level in each.levels]
            else:
                numbers = np.asarray(values, np.float64)  # None is NaN
                parts.append(np.nan_to_num((numbers - each.location) / each.scale)[:, None])
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
    """The design of a column's items: numbers standardised, others by level; the mean for items without attributes."""
    found = []
    for name in dict.fromkeys(name for _, own in pairs for name, _ in own):
        values = [value for _, own in pairs if (value := dict(own).get(name)) is not None]
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


@dataclass(frozen=True)
class Ratings(Standardised, ItemColumn):
    """Scores of some of many items: a level between cuts, Eq. (7), a number, or an order, §3.2; large = best.

    Parameters
    ----------
    items : list, optional
        All items; by default those of the training cells.
    levels : list of numbers, optional
        The possible scores, lowest first; by default those of the training cells.
    by : {"auto", "levels", "numbers", "order"}
        Whether scores are ordered levels (star ratings), real numbers, or only their order in a row is used. "auto" is
        "levels" for up to 20 distinct scores, "numbers" for more, and "order" if cells are lists of items.
    score : str, optional
        Name of the column of scores in a long table, as set by `from_long`.
    settings : ListSettings
        Shrinkage of items, and whether being listed is a signal.
    location, scale, listed : optional
        Mean and standard deviation of scores that are numbers, and the storage layout. `fit` sets them.
    decimals, lowest, highest : optional
        Decimals and range of predicted scores that are numbers, as in `Continuous`.
    attributes : dict, optional
        {item: {attribute: value}}: known features of items, such as genre and year. Their effects are learned. Items
        that nobody has rated can be ranked by them.
    presence : {None, "model"}, default=None
        With "model", the model also predicts which items a row has: `rank(by="choice")`. By default, which items a row
        has is only a signal about their scores (`ListSettings`).
    unseen : {"error", "missing"}, default="error"
        What to do with an item that was not in the training table; "missing" omits it.
    missing : dict or list, optional
        Values that mean "no answer".
    recode : optional
        Not used.

    Notes
    -----
    A cell is {item: score}, or a list of items from best to worst. Whole tables come from `from_long` or a sparse
    matrix. Items that are not in a row's list are not variables of that row.

    Examples
    --------
    >>> table = {"movie": [{"Alien": 5, "Heat": 2}, {"Heat": 4}, None]}
    >>> column = tb.Schema({"movie": tb.Ratings(levels=[1, 2, 3, 4, 5])}).fit(table)["movie"]
    >>> column.items, column.by
    (('Alien', 'Heat'), 'levels')
    """

    kind: ClassVar[str] = "ratings"
    choices = (("by", ("auto", "levels", "numbers", "order")), ("presence", (None, "model")))
    items: tuple[Any, ...] | None = None
    levels: tuple[Any, ...] | None = None
    by: Literal["auto", "levels", "numbers", "order"] = "auto"
    score: str | None = None
    settings: ListSettings = ListSettings()
    listed: bool | None = field(default=None, kw_only=True)  # orders of few items are stored as a table; set by fit
    attributes: Any = field(default=None, kw_only=True)  # {item: {attribute: value}}, stored as pairs
    presence: Literal["model"] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {each.name: repr(values[each.name]) for each in fields(self) if values[each.name] != each.default}
        if self.items is not None and len(self.items) > MOST_SHOWN:
            said["items"] = f"({', '.join(map(repr, self.items[:MOST_SHOWN]))}, ... {len(self.items):,} in all)"
        return f"Ratings({', '.join(f'{name}={text}' for name, text in said.items())})"

    def _check(self) -> None:
        for name in ("items", "levels"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, tuple) or len(set(value)) < max(len(value), 2)):
                raise SchemaError(f"{name} are not two or more distinct values", remedy=f"give {name} as a list")
        if self.score is not None and not isinstance(self.score, str):
            raise SchemaError(f"score={self.score!r} is not the name of a column", remedy="give text")
        if self.levels is not None and list(self.levels) != sorted(self.levels):
            problem = f"levels {listing(self.levels)} are not in increasing order"
            raise SchemaError(problem, remedy="give numbers, lowest first")
        if self.scale is not None and not self.scale > 0:
            raise SchemaError(f"scale={self.scale} is not positive", remedy="fit the column")
        super()._check()

    @property
    def family(self) -> Family:  # type: ignore[override]  # depends on the scores of the instance
        return {"levels": "levels", "numbers": "measured"}.get(self.by, "utility")  # type: ignore[return-value]

    @property
    def form(self) -> Form:
        return {"levels": LevelForm, "numbers": NumberForm}.get(self.by, OrderForm)(self)

    @property
    def is_listed(self) -> bool:
        return self.listed is not False

    @property
    def has_presence(self) -> bool:
        return self.presence == "model"

    @property
    def answer_labels(self) -> tuple[Any, ...]:
        return self.levels or () if self.by == "levels" else self.labels

    @property
    def has_order(self) -> bool:
        return self.by == "levels"

    @property
    def n_cuts(self) -> int:
        return len(self.levels) - 1 if self.by == "levels" and self.levels else 0

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        found = read_lists(cells)
        items = self.items or self.fitted_items(map(plain, np.asarray(found.items).tolist()), cells.name)
        by, levels = self._way(found, cells.name)
        score = found.scores if self.score is None else self.score
        fitted = replace(self, items=items, levels=levels, by=by, score=score)
        if by == "numbers":
            numbers = np.asarray(found.score, np.float64)
            location, scale = mean_and_deviation(numbers, np.repeat(weight, np.diff(found.start)))
            known = self._precision.widened(numbers, numbers)._asdict()
            return replace(fitted, location=location, scale=scale, **known)
        if by == "order" and self.listed is None:
            sizes = float(weight @ np.diff(found.start)), float(weight.sum())
            return replace(fitted, listed=orders_are_listed(len(items), *sizes, usually=True))
        return fitted

    def _way(self, found: Listed, name: str) -> tuple[Any, tuple[Any, ...] | None]:
        """How scores are modelled, and their levels if they are levels."""
        by = self.by
        if by in ("order", "numbers"):
            return by, None
        if self.levels is not None:
            return "levels", self.levels
        if by == "auto" and found.ordered:
            return "order", None
        # A sample of the scores usually decides.
        if by == "auto" and any(len(np.unique(some)) > MOST_LEVELS for some in (found.score[:10_000], found.score)):
            return "numbers", None
        distinct = np.unique(found.score).tolist()
        if len(distinct) >= 2:
            return "levels", tuple(int(value) if float(value).is_integer() else value for value in distinct)
        if by != "auto":
            raise SchemaError("all scores are equal", column=name, remedy='give levels=[...], or by="order"')
        return "order", None

    def encode(self, cells: Cells) -> Block:
        if self.items is None:
            raise not_fitted(self, "items", cells.name)
        found = read_lists(cells)
        if self.by in ("levels", "numbers") and found.ordered and len(found.score):
            levels = f" {listing(self.levels, ' < ')}" if self.levels else ""
            problem = f"the cell is a list from best to worst, without scores{levels}"
            raise SchemaError(problem, column=cells.name, remedy='give {item: score}, or fit Ratings(by="order")')
        site = self._sites(found, cells)
        row = np.repeat(np.arange(len(cells), dtype=np.int32), np.diff(found.start))
        known = site >= 0
        start, score = found.start, found.score
        if not known.all():
            row, site, score = row[known], site[known], score[known]
            start = np.searchsorted(row, np.arange(len(cells) + 1))
        self._refuse_twice(cells, row, site)
        entries = Entries(start, site.astype(np.int32))
        if self.by == "levels":
            code = self._levels(cells, row, site, score)[:, None]
            return Block(self.sites, code=code, n_cuts=self.n_cuts, entries=entries)
        if self.by == "numbers":
            location, scale = self.standard
            z = ((np.asarray(score, np.float64) - location) / scale)[:, None]
            point, jacobian = np.broadcast_to(np.True_, z.shape), np.broadcast_to(-np.log(scale), len(z))
            return Block(self.sites, z, z, point, log_jacobian=jacobian, entries=entries)
        tier = tiers(row, score)
        if not self.is_listed:
            table = np.full((len(cells), len(self.items)), -1, np.int32)
            table[row, site] = tier
            return Block(self.sites, tier=table)
        return Block(self.sites, tier=tier[:, None], entries=entries)

    def _sites(self, found: Listed, cells: Cells) -> NDArray[np.int64]:
        """Position of each entry's item among `items`, −1 if it is unknown and `unseen` allows it."""
        assert self.items is not None
        names = np.asarray(found.items)
        if len(names) == len(self.items) and [plain(name) for name in names.tolist()] == list(self.items):
            return found.which
        place = {item: number for number, item in enumerate(self.items)}
        by_name = np.asarray([place.get(plain(name), -1) for name in names.tolist()], np.int64)
        site = by_name[found.which] if len(by_name) else found.which
        if self.unseen == "error" and (site < 0).any():
            entry = int((site < 0).argmax())
            item = names[found.which[entry]]
            remedy = f'{suggestion(item, self.items)}remove it, or use Ratings(unseen="missing")'
            position = int(np.searchsorted(found.start, entry, side="right") - 1)
            raise cells.error(position, f"item {show(item)} was not in the training table", remedy)
        return site

    def _refuse_twice(self, cells: Cells, row: NDArray[Any], site: NDArray[Any]) -> None:
        assert self.items is not None
        if ((row[1:] > row[:-1]) | (site[1:] > site[:-1])).all():  # sorted, as from_long leaves them
            return
        key = row.astype(np.int64) * len(self.items) + site
        order = np.argsort(key, kind="stable")
        same = np.flatnonzero(np.diff(key[order]) == 0)
        if len(same):
            entry = int(order[same[0] + 1])
            remedy = "keep one score for each item of a row, for example the last or their mean"
            raise cells.error(int(row[entry]), f"item {show(self.items[int(site[entry])])} occurs twice", remedy)

    def _levels(
        self, cells: Cells, row: NDArray[Any], site: NDArray[Any], score: NDArray[Any]
    ) -> NDArray[np.signedinteger[Any]]:
        assert self.levels is not None
        assert self.items is not None
        levels = np.asarray(self.levels, np.float64)
        narrow: type[np.signedinteger[Any]] = np.int8 if len(levels) < 128 else np.int32
        code = np.empty(len(score), narrow)
        for begin in range(0, len(score), AT_ONCE):
            part = score[begin : begin + AT_ONCE]
            found = np.searchsorted(levels, part)
            code[begin : begin + AT_ONCE] = found
            wrong = (found == len(levels)) | (levels[np.minimum(found, len(levels) - 1)] != part)
            if wrong.any():
                entry = begin + int(wrong.argmax())
                problem = f"the score {score[entry]:g} of item {show(self.items[int(site[entry])])} is not one of "
                remedy = 'correct it, add it to Ratings(levels=[...]), or use by="numbers" or by="order"'
                raise cells.error(int(row[entry]), problem + listing(self.levels, " < "), remedy)
        return code

    def list_cells(self, row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
        """Predicted lines as cells: {item: score}, or items from best to worst."""
        if self.by == "order":
            return super().list_cells(row, site, values, n_rows)
        cells = np.fromiter(({} for _ in range(n_rows)), object, n_rows)
        for at, item, value in zip(*(np.asarray(each).tolist() for each in (row, site, values)), strict=True):
            cells[at][self.labels[item]] = value
        return cells

    def given_cells(self, cells: Cells) -> NDArray[Any]:
        given = original(cells)
        if self.by == "order":
            return np.fromiter((sorted(own, key=lambda item: -own[item]) for own in given), object)
        return np.fromiter(given, object)

    def extended(
        self, cells: Cells, row: NDArray[Any], site: NDArray[Any], values: Any, entries: Entries, utility: NDArray[Any]
    ) -> NDArray[Any]:
        if self.by == "order":
            return super().extended(cells, row, site, values, entries, utility)
        given, new = original(cells), self.list_cells(row, site, values, len(cells))
        # Given items come first, and their scores do not change.
        return np.fromiter((old | more | old for old, more in zip(given, new, strict=True)), object)

    def describe(self) -> str:
        if self.items is None:
            return "scores of some of many items"
        how = f"levels {listing(self.levels, ' < ')}" if self.levels else self.by
        return f"some of {len(self.items):,} items, by {how}"
