"""§3 for large catalogues: a cell is a list of few items out of many, each with a score.

Items that a row does not list are not variables of that row. A score is a level between cuts (the cuts of an item are
those of all items plus a shift), a measured number, or only the order of a row's items is used, with ties (§3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, Cells, Entries, Family, FloatArray, Listed
from thurbo.table.columns.column import not_fitted
from thurbo.table.columns.continuous import Standardised, mean_and_deviation
from thurbo.table.columns.forms.form import Form
from thurbo.table.columns.forms.levels import LevelForm
from thurbo.table.columns.forms.number import NumberForm
from thurbo.table.columns.forms.utilities import OrderForm
from thurbo.table.columns.listed import (
    ItemColumn,
    ListSettings,
    as_orders,
    as_scores,
    extended_orders,
    orders_are_listed,
    original,
    read_lists,
    tiers,
)
from thurbo.table.columns.values import listing, plain, show, suggestion

MOST_SHOWN = 3  # items that are printed if there are more
AT_ONCE = 1 << 20  # entries that are looked up at a time, to limit memory
MOST_LEVELS = 20  # with at most so many distinct scores, by="auto" uses levels
DEFAULT_SETTINGS = ListSettings()


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
    settings: ListSettings = DEFAULT_SETTINGS
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
    def answer_texts(self) -> tuple[str, ...]:
        return tuple(map(str, self.answer_labels))

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
        if len(distinct) < 2 and by == "auto":
            return "order", None
        if len(distinct) < 2:
            raise SchemaError("all scores are equal", column=name, remedy='give levels=[...], or by="order"')
        return "levels", tuple(int(value) if float(value).is_integer() else value for value in distinct)

    def encode(self, cells: Cells) -> Block:
        if self.items is None:
            raise not_fitted(self, "items", cells.name)
        found = read_lists(cells)
        if self.by in ("levels", "numbers") and found.ordered and len(found.score):
            scale = f" {listing(self.levels, ' < ')}" if self.levels else ""
            problem = f"the cell is a list from best to worst, without scores{scale}"
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
            return Block.levels(self._levels(cells, row, site, score)[:, None], self.n_cuts, None, self.sites, entries)
        if self.by == "numbers":
            return self._numbers(np.asarray(score, np.float64), entries)
        tier = tiers(row, score)
        if not self.is_listed:
            table = np.full((len(cells), len(self.items)), -1, np.int32)
            table[row, site] = tier
            return Block.orders(table, None, self.sites)
        return Block.orders(tier[:, None], None, self.sites, entries=entries)

    def _numbers(self, score: FloatArray, entries: Entries) -> Block:
        location, scale = self.standard
        z = ((score - location) / scale)[:, None]
        point, jacobian = np.broadcast_to(np.True_, z.shape), np.broadcast_to(-np.log(scale), len(z))
        return Block(self.sites, z, z, point, log_jacobian=jacobian, entries=entries)

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
            wrong = np.flatnonzero((found == len(levels)) | (levels[np.minimum(found, len(levels) - 1)] != part))
            if not len(wrong):
                continue
            entry = begin + int(wrong[0])
            problem = f"the score {score[entry]:g} of item {show(self.items[int(site[entry])])} is not one of "
            remedy = 'correct it, add it to Ratings(levels=[...]), or use by="numbers" or by="order"'
            raise cells.error(int(row[entry]), problem + listing(self.levels, " < "), remedy)
        return code

    def silent(self, n_rows: int) -> Block:
        if not self.is_listed:
            return super().silent(n_rows)
        if self.by == "numbers":
            return self._numbers(np.zeros(0), Entries.none(n_rows))
        code, none = np.zeros((0, 1), np.int32), Entries.none(n_rows)
        if self.by == "levels":
            return Block.levels(code, self.n_cuts, None, self.sites, none)
        return Block.orders(code, None, self.sites, entries=none)

    def list_cells(self, row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
        """Predicted lines as cells: {item: score}, or items from best to worst."""
        return (as_orders if self.by == "order" else as_scores)(self.labels, row, site, values, n_rows)

    def given_cells(self, cells: Cells) -> NDArray[Any]:
        given = original(cells)
        if self.by == "order":
            return np.fromiter((sorted(own, key=lambda item: -own[item]) for own in given), object)
        return np.fromiter(given, object)

    def extended(
        self, cells: Cells, row: NDArray[Any], site: NDArray[Any], values: Any, entries: Entries, utility: NDArray[Any]
    ) -> NDArray[Any]:
        if self.by == "order":
            return extended_orders(self.labels, entries, utility, row, site, values)
        new = self.list_cells(row, site, values, len(cells))
        return np.fromiter((old | more | old for old, more in zip(original(cells), new, strict=True)), object)

    def describe(self) -> str:
        if self.items is None:
            return "scores of some of many items"
        how = f"levels {listing(self.levels, ' < ')}" if self.levels else self.by
        return f"some of {len(self.items):,} items, by {how}"
