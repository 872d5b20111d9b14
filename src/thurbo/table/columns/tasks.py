"""§3.2 Comparisons with noise of their own: pairs, choices from shown sets, and best–worst tasks (MaxDiff).

In a ranking a person's utilities are drawn once. In a task they are drawn anew around the same means, so that a person
may contradict herself: P(a above b) = Φ((u_a − u_b) / √2), Thurstone's Case V. A profile of attributes can be an item
(conjoint analysis).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, BoolArray, Cells, Entries, Family, FloatArray, Tasks
from thurbo.table.columns.forms.utilities import TaskForm
from thurbo.table.columns.labels import LabelledColumn, check_labels, check_names, in_order
from thurbo.table.columns.listed import ItemColumn, ListSettings
from thurbo.table.columns.statements import OrderStatement, parse_order
from thurbo.table.columns.values import Refused, collection, is_label, listing, plain, show

Tiers = tuple[tuple[Any, ...], ...]  # items of one task from best to worst; items of one tier are not compared
Task = tuple[list[int], list[int]]  # positions of the items shown, best first, and the tier of each, 0 the worst
DEFAULT_SETTINGS = ListSettings(item_decay=3.0, presence=False)


@dataclass(frozen=True)
class TaskColumn(ItemColumn, LabelledColumn):
    """A column whose cells are lists of tasks."""

    family: ClassVar[Family] = "utility"
    one, many = "item", "items"
    choices = (("noise", ("normal", "gumbel")),)
    remedy = 'write "a > b = c" for a task in which a was chosen from a, b and c'
    has_tasks = is_listed = True
    n_cuts = 0
    form_type = TaskForm
    items: tuple[Any, ...] | None = None
    noise: Literal["normal", "gumbel"] = field(default="normal", kw_only=True)
    attributes: Any = field(default=None, kw_only=True)  # {item: {attribute: value}}, stored as pairs
    constants: bool = field(default=True, kw_only=True)
    settings: ListSettings = field(default=DEFAULT_SETTINGS, kw_only=True)
    size: int | None = field(default=None, kw_only=True)  # most items of a task; set by fit

    def _check(self) -> None:
        if self.items is not None:
            check_labels(self.items, "items", "item", type(self).__name__)
        if self.attributes is None and not self.constants:
            raise SchemaError("constants=False needs attributes", remedy='give attributes={"item": {...}}')
        super()._check()

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        tasks, fitted = [task for own in self._orders(cells) for task in own], self
        if self.items is None:
            found = self.fitted_items((item for task in tasks for tier in task for item in tier), cells.name)
            for item in found:
                if not is_label(item) or item == "":
                    raise SchemaError(f"{show(item)} cannot be an item", column=cells.name, remedy="give texts")
            fitted = replace(self, items=in_order(found))
        return fitted._fitted(tasks)

    def _fitted(self, tasks: list[Tiers]) -> Self:
        """The column with what `encode` needs, from the tasks of the training table."""
        return replace(self, size=max([2, self.size or 2, *(sum(map(len, task)) for task in tasks)]))

    def encode(self, cells: Cells) -> Block:
        place = self.index(cells)
        rows: list[list[Task]] = []
        for position, tasks in enumerate(self._orders(cells)):
            with cells.at(position):
                found = [self._task(part, place) for each in tasks for part in self._comparisons(each)]
            rows.append([task for task in found if task is not None])
        return self._block(rows)

    def _comparisons(self, tiers: Tiers) -> list[Tiers]:
        """A task as comparisons that each have noise of their own."""
        return [tiers]

    def _block(self, rows: list[list[Task]]) -> Block:
        """The tasks of all rows as entries, each task padded to one size."""
        every = [task for tasks in rows for task in tasks]
        size = max([self.size or 2, *(len(sites) for sites, _ in every)])
        start = np.cumsum([0, *map(len, rows)]) * size
        site, tier = np.zeros((len(every), size), np.int32), np.full((len(every), size), -1, np.int32)
        for number, (sites, tiers) in enumerate(every):
            site[number, : len(sites)], tier[number, : len(sites)] = sites, tiers
        entries = Entries(start, site.reshape(-1))
        return Block(self.sites, tier=tier.reshape(-1, 1), entries=entries, tasks=self._about(tier))

    def _about(self, tier: NDArray[np.int32]) -> Tasks:
        """What the tasks [task, item] have in common."""
        last, depth = tier.max(axis=1, initial=0)[:, None], max(2, int(tier.max(initial=0)) + 1)
        inner = [((tier == level) & (level < last)).sum(axis=1).max(initial=0) for level in range(1, depth - 1)]
        breadth = int(max([1, *inner]))
        one_top = bool(((tier == last).sum(axis=1) <= 1)[last[:, 0] > 0].all())
        return Tasks(tier.shape[1], self.noise, shape=(depth, breadth), is_choice=depth == 2 and one_top)

    def silent(self, n_rows: int) -> Block:
        return self._block([[] for _ in range(n_rows)])

    def _task(self, tiers: Tiers, place: Mapping[Any, int]) -> Task | None:
        """One task as positions and tiers; None if all its items are unknown and omitted, or tell nothing."""
        omitted = self.unseen == "missing"
        known = [[item for item in tier if item in place or not omitted] for tier in tiers]
        groups = [group for group in (self.find(tier, place) for tier in known) if group]
        sites = [site for group in groups for site in group]
        for number, site in enumerate(sites if self.attributes is None else ()):  # equal profiles can be in one task
            if site in sites[:number]:
                raise Refused(f"item {show(self.labels[site])} is in one task twice", "name each item once in a task")
        tiers_of = [len(groups) - 1 - number for number, group in enumerate(groups) for _ in group]
        return (sites, tiers_of) if self._says(groups) else None

    def _says(self, groups: list[list[int]]) -> bool:
        return len(groups) > 1

    def _orders(self, cells: Cells) -> list[list[Tiers]]:
        """The tasks of every row: of its cell, or else of several columns of the table."""
        rows = self._from_parts(cells) if cells.parts else [[] for _ in range(len(cells))]
        for position in np.flatnonzero(~cells.missing).tolist():
            with cells.at(position):
                rows[position] = self._read(cells.values[position]) or rows[position]
        return rows

    def _from_parts(self, cells: Cells) -> list[list[Tiers]]:
        return [[] for _ in range(len(cells))]

    def _read(self, value: Any) -> list[Tiers]:
        members = collection(value)
        if isinstance(value, str):
            members = tuple(part for part in value.split(";") if part.strip())
        elif members is None:
            members = (value,)
        elif members and all(map(_is_item, members)):  # one task: items from best to worst
            members = (members,)
        return [self._one(member) for member in members]

    def _one(self, value: Any) -> Tiers:
        value = parse_order(value) if isinstance(value, str) else value
        tiers = value.tiers if isinstance(value, OrderStatement) else collection(value)
        if tiers is None:
            raise Refused(f"{show(value)} is not a task", self.remedy)
        return tuple(tuple(map(plain, collection(tier) or (tier,))) for tier in tiers)

    def list_cells(self, row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
        """Utilities of items as cells: one task, the items from best to worst."""
        # Each item of a row once: it may be in several tasks.
        key = np.asarray(row, np.int64) * (int(np.max(site, initial=0)) + 1) + site
        first = np.sort(np.unique(key, return_index=True)[1])
        row, site, values = (np.asarray(each)[first] for each in (row, site, values))
        orders = super().list_cells(row, site, values, n_rows)
        return np.fromiter(map(self._written, orders), object, n_rows)

    def _written(self, items: list[Any]) -> Any:
        """A cell that says that these items are in this order."""
        return [[[item] for item in items]] if len(items) > 1 else []

    def shortened(self, cells: Cells, block: Block, masked: BoolArray) -> NDArray[Any]:
        """The cells without the tasks of the masked lines, to fit a model that has never seen them."""
        found = np.full(len(cells), None, object)
        parts = (block.by_task(each) for each in (block.lists.row, block.lists.site, block.tier[:, 0], masked))
        for rows, sites, tiers, gone in zip(*parts, strict=True):
            if not gone[0]:
                levels = np.unique(tiers[tiers >= 0])[::-1]
                task = [[self.labels[site] for site in sites[tiers == level]] for level in levels]
                found[rows[0]] = [*(found[rows[0]] or ()), task]
        return found


def _is_item(value: Any) -> bool:
    """Whether a member of a cell is an item, not a task."""
    if isinstance(value, str):
        return ">" not in value and "=" not in value
    return is_label(plain(value))


def truths(part: Cells) -> BoolArray:
    """Cells that say yes: 1, True, "yes", "x" and the like: [row]."""
    yes = {"1", "1.0", "yes", "y", "true", "t", "x", "available", "shown", "selected", "chosen"}
    found = [str(plain(value)).strip().casefold() in yes for value in part.values.tolist()]
    return np.asarray(found, bool) & ~part.missing


@dataclass(frozen=True)
class Pairs(TaskColumn):
    """Paired comparisons, each with noise of its own: x_a + ε ≥ x_b + ε′.

    Parameters
    ----------
    items : list, optional
        All items; by default those of the training cells.
    noise : {"normal", "gumbel"}, default="normal"
        "normal": Thurstone's Case V, P(a above b) = Φ((u_a − u_b) / √2). "gumbel": the Bradley–Terry model,
        P(a above b) = 1 / (1 + exp(u_b − u_a)).
    ties : bool, optional
        Whether "no preference" means that two utilities are within a learned threshold of each other. By default it
        does if the training table has a tie.
    attributes : dict, optional
        {item: {attribute: value}}: known features of items. Their effects are learned, and new items can be ranked.
    constants : bool, default=True
        Whether items have utilities of their own, besides those of their attributes.
    settings : ListSettings, optional
        Shrinkage of items.
    size : int, optional
        Set by `fit`.
    unseen : {"error", "missing"}, default="error"
        What to do with a pair that has an unknown item; "missing" omits it.
    names, missing, recode : optional
        As in `Categorical`.

    Notes
    -----
    A cell is a list of pairs, the preferred item first: [("a", "b"), ("c", "a")], or a text "a > b; c > a". A tie is
    "a = b", or [["a", "b"]]. The comparisons of a row need not be transitive, and a pair may occur several times. Whole
    tables come from `from_pairs`. In a `Ranking`, the utilities of a row are drawn once; here once per comparison.

    Examples
    --------
    >>> table = {"drinks": [[("tea", "coffee"), ("coffee", "tea"), ("tea", "water")], "water > coffee; tea = water"]}
    >>> tb.Schema({"drinks": tb.Pairs()}).fit(table)["drinks"].describe()
    'paired comparisons of coffee, tea, water, ties allowed'
    """

    kind: ClassVar[str] = "pairs"
    remedy = 'write pairs as ("better", "worse") or "better > worse"; use Ranking or Choice for more than two items'
    ties: bool | None = field(default=None, kw_only=True)

    def _fitted(self, tasks: list[Tiers]) -> Self:
        return replace(self, size=2, ties=any(len(task) == 1 for task in tasks) if self.ties is None else self.ties)

    def _about(self, tier: NDArray[np.int32]) -> Tasks:
        return Tasks(2, self.noise, is_paired=True, has_ties=bool(self.ties))

    def _says(self, groups: list[list[int]]) -> bool:
        return sum(map(len, groups)) == 2 and (len(groups) == 2 or bool(self.ties))

    def _one(self, value: Any) -> Tiers:
        tiers = super()._one(value)
        if sum(map(len, tiers)) != 2:
            shown = " > ".join(" = ".join(map(str, tier)) for tier in tiers)
            raise Refused(f'"{shown}" is not a comparison of two items', self.remedy)
        return tiers

    @property
    def has_scale(self) -> bool:
        return bool(self.ties)

    def _written(self, items: list[Any]) -> Any:
        return [[[better], [worse]] for better, worse in pairwise(items)]

    def describe(self) -> str:
        if self.items is None:
            return "paired comparisons"
        return f"paired comparisons of {listing(self.items)}" + ", ties allowed" * bool(self.ties)


@dataclass(frozen=True)
class Choice(TaskColumn):
    """Choices from shown sets, each with noise of its own: the chosen item has the largest utility of those shown.

    Parameters
    ----------
    items : list, optional
        All items; by default those of the training cells.
    shown : optional
        What was shown. A list with one list for each task: columns that hold the items shown, or, if `items` are given,
        the items themselves if everybody saw the same sets. A dict {item: column} of columns that say which items were
        available in a single task. By default cells hold the tasks.
    chosen : list of str, optional
        For each task, the column with the chosen item. Its cell may also be the position of the item, from 1.
    none : str, optional
        The item "none of these": it is added to every set that is shown in columns.
    noise : {"normal", "gumbel"}, default="normal"
        "normal": multinomial probit with independent noise of variance 1. "gumbel": multinomial logit.
    attributes, constants, settings, size, names, unseen, missing, recode : optional
        As in `Pairs`.

    Notes
    -----
    A cell is a list of tasks. A task is a text "a > b = c" (a was chosen, b and c were shown, too), a list
    [["a"], ["b", "c"]], or {"shown": ["a", "b", "c"], "chosen": "a"}. Several chosen items are "a = b > c = d"; the
    first two of four in order are "a > b > c = d". A single label means that all items were shown. Long tables come
    from `from_choices`.

    Examples
    --------
    >>> table = {"lunch": [["soup > salad = pie", "pie > salad = none"], {"shown": ["soup", "pie"], "chosen": "pie"}]}
    >>> tb.Schema({"lunch": tb.Choice()}).fit(table)["lunch"].describe()
    'choices among none, pie, salad, soup, up to 3 shown'
    """

    kind: ClassVar[str] = "choice"
    picks: ClassVar[tuple[str, ...]] = ("chosen",)  # settings that name columns of answers, and keys of a task
    what: ClassVar[str] = "choices among"
    shown: Any = field(default=None, kw_only=True)
    chosen: tuple[str, ...] | None = field(default=None, kw_only=True)
    none: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.shown, Mapping):
            object.__setattr__(self, "shown", tuple((plain(item), column) for item, column in self.shown.items()))
            object.__setattr__(self, "available", True)
        for name in self.picks:
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, (getattr(self, name),))
        super().__post_init__()

    available: bool = field(default=False, kw_only=True)  # whether `shown` are columns of availability; set by shown={}

    @property
    def _answers(self) -> list[tuple[str, tuple[str, ...]]]:
        """The settings that name columns of answers, with these columns."""
        return [(name, getattr(self, name)) for name in self.picks if getattr(self, name) is not None]

    def _check(self) -> None:
        super()._check()
        if self.shown is None:
            if self._answers:
                raise SchemaError(f"{self._answers[0][0]}= needs shown=", remedy="say what was shown in each task")
            return
        if self.available:
            check_names(tuple(column for _, column in self.shown), "shown")
            return
        if not isinstance(self.shown, tuple) or not all(isinstance(each, tuple) and each for each in self.shown):
            raise SchemaError("shown is not a list of lists", remedy='give shown=[["a", "b"], ["b", "c"]]')
        if not self._answers:
            wanted = " or ".join(f"{name}=" for name in self.picks)
            raise SchemaError("shown= needs the columns of the answers", remedy=f"give {wanted} with one for each task")
        for name, columns in self._answers:
            check_names(columns, name)
            if len(columns) != len(self.shown):
                problem = f"shown has {len(self.shown)} tasks, and {name} has {len(columns)} columns"
                raise SchemaError(problem, remedy="give one column for each task")

    @property
    def _has_fixed_sets(self) -> bool:
        """Whether `shown` are items that everybody saw, not columns."""
        known = set(self.items or ())
        return bool(known) and not self.available and all(item in known for each in self.shown for item in each)

    def source_columns(self, name: str) -> tuple[str, ...]:
        if self.shown is None:
            return (name,)
        if self.available:
            return (name, *(column for _, column in self.shown))
        sets = () if self._has_fixed_sets else self.shown
        answers = (own for _, own in self._answers)
        return tuple(dict.fromkeys(column for each in (*sets, *answers) for column in each))

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        if self.available and self.items is None:
            return replace(self, items=tuple(item for item, _ in self.shown))._fit(cells, weight)
        return super()._fit(cells, weight)

    def _read(self, value: Any) -> list[Tiers]:
        whole = plain(value)
        is_label = isinstance(whole, (str, int, float))
        if self.shown is None and self.items is not None and is_label and whole in self.items:  # all were shown
            return [((whole,), tuple(item for item in self.items if item != whole))]
        return [] if self.available else super()._read(value)

    def _one(self, value: Any) -> Tiers:
        """One task as tiers, also if it is {"shown": [...], "chosen": ...}."""
        if not isinstance(value, Mapping):
            return super()._one(value)
        shown = collection(value.get("shown"))
        given = {name: value[name] for name in self.picks if value.get(name) is not None}
        if shown is None or not given or set(value) - {"shown", *self.picks}:
            wanted = ", ".join(f'"{name}": ...' for name in self.picks)
            raise Refused(f"{show(value)} is not a task", f'write {{"shown": [...], {wanted}}}')
        return self._tiers(tuple(map(plain, shown)), given)

    def _tiers(self, shown: tuple[Any, ...], given: Mapping[str, Any]) -> Tiers:
        """A task from the items shown and the answers: the best, the rest, and the worst if it was asked for."""
        first, last = (self._picked(shown, given[name]) if name in given else () for name in (self.picks[0], "worst"))
        both = set(first) & set(last)
        if both:
            raise Refused(f"{show(next(iter(both)))} is both the best and the worst", "give two items")
        rest = tuple(item for item in shown if item not in (*first, *last))
        return tuple(tier for tier in (first, rest, last) if tier)

    def _picked(self, shown: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        """The chosen items of a set: by label, or by position from 1 if no item has this label."""
        found = []
        for item in map(plain, collection(value) or (value,)):
            number = int(item) if isinstance(item, (int, float)) and float(item).is_integer() else 0
            if item not in shown and not 1 <= number <= len(shown):
                problem = f"{show(item)} was chosen, but {listing(shown)} were shown"
                raise Refused(problem, "choose one of those shown, or correct what was shown")
            found.append(item if item in shown else shown[number - 1])
        return tuple(found)

    def _from_parts(self, cells: Cells) -> list[list[Tiers]]:
        rows: list[list[Tiers]] = [[] for _ in range(len(cells))]
        columns_of = dict(self.shown) if self.available else {}
        there = {item: truths(cells.parts[name]) for item, name in columns_of.items() if name in cells.parts}
        for number, columns in enumerate(((),) if self.available else self.shown):
            answers = {name: cells.parts[own[number]] for name, own in self._answers if own[number] in cells.parts}
            answers = {self.picks[0]: cells} if self.available else answers
            sets = [cells.parts[column] for column in columns if column in cells.parts]
            for position in range(len(cells)):
                given = {name: part.values[position] for name, part in answers.items() if not part.missing[position]}
                if not given:
                    continue
                if self.available:
                    shown = tuple(item for item in columns_of if item not in there or there[item][position])
                elif self._has_fixed_sets:
                    shown = columns
                else:
                    shown = tuple(plain(part.values[position]) for part in sets if not part.missing[position])
                shown = (*shown, self.none) if self.none is not None and self.none not in shown else shown
                with next(iter(answers.values())).at(position):
                    rows[position].append(self._tiers(shown, given))
        return rows

    def describe(self) -> str:
        if self.items is None:
            return f"{self.what} shown items"
        return f"{self.what} {listing(self.items)}, up to {self.size or len(self.items)} shown"


@dataclass(frozen=True)
class BestWorst(Choice):
    """The best and the worst of shown sets (MaxDiff): the best above all others shown, and these above the worst.

    Parameters
    ----------
    items : list, optional
        All items; by default those of the training cells.
    shown : list of lists, optional
        What each task shows: columns that hold the items, or the items themselves if everybody saw the same sets.
    best, worst : list of str, optional
        For each task, the column with the best and with the worst item; one of the two may be left out.
    none, noise, attributes, constants, settings, size, names, unseen, missing, recode : optional
        As for `Choice`.
    chosen, available : optional
        Not used.

    Notes
    -----
    A cell is a list of tasks: "a > b = c > d", [["a"], ["b", "c"], ["d"]], or {"shown": [...], "best": "a", "worst":
    "d"}. Anchored MaxDiff: add an item such as "threshold", and tasks such as "a = b > threshold" for what is important
    by itself. A best and a worst are two choices, each with noise of its own: the best of those shown, and the worst of
    the rest.

    Examples
    --------
    >>> table = {"q": [["price > taste = brand > size", {"shown": ["price", "size", "taste"], "best": "taste"}]]}
    >>> tb.Schema({"q": tb.BestWorst()}).fit(table)["q"].describe()
    'best and worst of brand, price, size, taste, up to 4 shown'
    """

    kind: ClassVar[str] = "best-worst"
    picks: ClassVar[tuple[str, ...]] = ("best", "worst")
    what: ClassVar[str] = "best and worst of"
    best: tuple[str, ...] | None = field(default=None, kw_only=True)
    worst: tuple[str, ...] | None = field(default=None, kw_only=True)

    def _comparisons(self, tiers: Tiers) -> list[Tiers]:
        if len(tiers) != 3:
            return [tiers]
        best, rest, worst = tiers
        return [(best, (*rest, *worst)), (rest, worst)]
