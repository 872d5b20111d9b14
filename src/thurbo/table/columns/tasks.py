"""§3.2 Comparisons with noise of their own: pairs, choices from shown sets, and best–worst tasks (MaxDiff).

In a ranking a person's utilities are drawn once. In a task they are drawn anew around the same means, so that a person
may contradict herself: P(a above b) = Φ((u_a − u_b) / √2), Thurstone's Case V. A profile of attributes can be an item
(conjoint analysis).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns import listed as described
from thurbo.table.columns.cells import (
    Block,
    BoolArray,
    Cells,
    Entries,
    Family,
    FloatArray,
    Refused,
    Tasks,
    collection,
    is_label,
    listing,
    plain,
    show,
)
from thurbo.table.columns.cells import suggestion as near
from thurbo.table.columns.forms.utilities import TaskForm
from thurbo.table.columns.labels import LabelledColumn, check_labels, check_names, in_order
from thurbo.table.columns.listed import Design, ListSettings, as_orders, with_settings
from thurbo.table.columns.statements import OrderStatement, Statement, parse_order

Tiers = tuple[tuple[Any, ...], ...]  # items of one task from best to worst; items of one tier are not compared
NOISES = ("normal", "gumbel")
DEFAULT_SETTINGS = ListSettings(item_decay=3.0, presence=False)


class Task(NamedTuple):
    """One task: positions of the items shown, best first, and the tier of each, 0 the worst."""

    sites: tuple[int, ...]
    tiers: tuple[int, ...]


@dataclass(frozen=True)
class TaskColumn(LabelledColumn):
    """A column whose cells are lists of tasks."""

    family: ClassVar[Family] = "utility"
    form_type = TaskForm
    items: tuple[Any, ...] | None = None
    noise: Literal["normal", "gumbel"] = field(default="normal", kw_only=True)
    attributes: Any = field(default=None, kw_only=True)  # {item: {attribute: value}}, stored as pairs
    constants: bool = field(default=True, kw_only=True)
    settings: ListSettings = field(default=DEFAULT_SETTINGS, kw_only=True)
    size: int | None = field(default=None, kw_only=True)  # most items of a task; set by fit

    def __post_init__(self) -> None:
        if self.attributes is not None:
            object.__setattr__(self, "attributes", described.as_pairs(self.attributes))
        super().__post_init__()

    def _check(self) -> None:
        if self.noise not in NOISES:
            raise SchemaError(f"noise={self.noise!r} is not valid", remedy='use "normal" or "gumbel"')
        if not isinstance(self.settings, ListSettings):
            raise SchemaError(f"settings={self.settings!r} is not valid", remedy="give tb.ListSettings(...)")
        if self.items is not None:
            check_labels(self.items, "items", "item", type(self).__name__)
        if self.attributes is not None:
            described.check_items(self.attributes, self.items)
        elif not self.constants:
            raise SchemaError("constants=False needs attributes", remedy='give attributes={"item": {...}}')
        self._check_own()

    def _check_own(self) -> None:
        """Further checks of a subclass."""

    # ---- what other parts of the library ask

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.items or ()

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(map(str, self.labels))

    @property
    def n_cuts(self) -> int:
        return 0

    @property
    def has_items(self) -> bool:
        return True

    @property
    def is_listed(self) -> bool:
        return True

    @property
    def has_tasks(self) -> bool:
        return True

    @property
    def learning_settings(self) -> dict[str, Any]:
        return asdict(self.settings)

    @property
    def design(self) -> Design | None:
        if self.attributes is None or self.items is None:
            return None
        return described.known_design(self.items, self.attributes, self.constants)

    def to_dict(self) -> dict[str, Any]:
        state = super().to_dict()
        return state | {"settings": asdict(self.settings)} if "settings" in state else state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        return super().from_dict(with_settings(state))

    # ---- cells

    def _fit(self, cells: Cells, weight: FloatArray | None) -> Self:
        read = self._orders(cells)
        sizes = [len([item for tier in task for item in tier]) for tasks in read for task in tasks]
        fitted = self
        if self.items is None:
            every = [item for tasks in read for task in tasks for tier in task for item in tier]
            if self.attributes is not None:
                every += [item for item, _ in self.attributes]
            found = list(dict.fromkeys(every))
            for item in found:
                if not is_label(item) or item == "":
                    raise SchemaError(f"{show(item)} cannot be an item", column=cells.name, remedy="give texts")
            if len(found) < 2:
                problem = f"the column has {len(found)} item{'s' * (len(found) != 1)}"
                raise SchemaError(problem, column=cells.name, remedy="give two items or more")
            fitted = replace(self, items=in_order(found))
        return fitted._fitted(max([2, *sizes, *([] if self.size is None else [self.size])]), read)

    def _fitted(self, size: int, read: list[list[Tiers]]) -> Self:
        """The column with what `encode` needs, from the tasks of the training table."""
        return replace(self, size=size)

    def encode(self, cells: Cells) -> Block:
        if self.items is None:
            problem = f"{type(self).__name__} is not fitted: its items are not known"
            raise SchemaError(problem, column=cells.name, remedy="fit it first")
        place = {**{str(item): number for number, item in enumerate(self.items)}, **self.lookup()}
        rows: list[list[Task]] = []
        for position, tasks in enumerate(self._orders(cells)):
            try:
                parts = [part for each in tasks for part in self._comparisons(each)]
                rows.append([task for each in parts if (task := self._task(each, place)) is not None])
            except Refused as refused:
                raise cells.error(position, refused.problem, refused.remedy) from None
        return self._block(rows)

    def _comparisons(self, tiers: Tiers) -> list[Tiers]:
        """A task as comparisons that each have noise of their own."""
        return [tiers]

    def _block(self, rows: list[list[Task]]) -> Block:
        """The tasks of all rows as entries, each task padded to one size."""
        size = max([self.size or 2, *(len(task.sites) for tasks in rows for task in tasks)])
        n_tasks = np.asarray([len(tasks) for tasks in rows], np.int64)
        start = np.concatenate([[0], np.cumsum(n_tasks)]).astype(np.int64) * size
        site = np.zeros((int(n_tasks.sum()), size), np.int32)
        tier = np.full(site.shape, -1, np.int32)
        for number, task in enumerate(task for tasks in rows for task in tasks):
            site[number, : len(task.sites)] = task.sites
            tier[number, : len(task.sites)] = task.tiers
        entries = Entries(start, site.reshape(-1))
        return Block.orders(tier.reshape(-1, 1), None, self.sites, entries=entries, tasks=self._about(tier))

    def _about(self, tier: NDArray[np.int32]) -> Tasks:
        """What the tasks [task, item] have in common."""
        last = tier.max(axis=1, initial=0)[:, None]
        inner = (tier > 0) & (tier < last)
        breadth = 1
        for level in range(1, int(tier.max(initial=0))):
            breadth = max(breadth, int((inner & (tier == level)).sum(axis=1).max(initial=0)))
        one_top = bool(((tier == last).sum(axis=1) <= 1)[last[:, 0] > 0].all())
        depth = max(2, int(tier.max(initial=0)) + 1)
        return Tasks(tier.shape[1], self.noise, shape=(depth, breadth), is_choice=depth == 2 and one_top)

    def silent(self, n_rows: int) -> Block:
        return self._block([[] for _ in range(n_rows)])

    def _task(self, tiers: Tiers, place: Mapping[Any, int]) -> Task | None:
        """One task as positions and tiers; None if all its items are unknown and omitted, or tell nothing."""
        groups = []
        for tier in tiers:
            found = []
            for item in tier:
                if item not in place:
                    if self.unseen == "missing":
                        continue
                    problem = f"item {show(item)} is not one of {listing(self.labels)}"
                    remedy = f"{near(item, self.labels)}correct the cell, or use {type(self).__name__}"
                    raise Refused(problem, f'{remedy}(unseen="missing")')
                found.append(place[item])
            groups.append(found)
        sites = [site for group in groups for site in group]
        if len(set(sites)) < len(sites) and self.attributes is None:  # equal profiles can be in one task
            twice = next(site for number, site in enumerate(sites) if site in sites[:number])
            raise Refused(f"item {show(self.labels[twice])} is in one task twice", "name each item once in a task")
        groups = [group for group in groups if group]
        tiers_of = [len(groups) - 1 - number for number, group in enumerate(groups) for _ in group]
        return Task(tuple(sites), tuple(tiers_of)) if self._says(groups) else None

    def _says(self, groups: list[list[int]]) -> bool:
        """Whether a task compares anything."""
        return len(groups) > 1

    def _orders(self, cells: Cells) -> list[list[Tiers]]:
        """The tasks of every row."""
        read = [[] if gone else self._cell(cells, position) for position, gone in enumerate(cells.missing.tolist())]
        if cells.parts:
            for position, tasks in enumerate(self._from_parts(cells)):
                read[position] = read[position] or tasks
        return read

    def _from_parts(self, cells: Cells) -> list[list[Tiers]]:
        """The tasks of every row, from several columns of the table."""
        return [[] for _ in range(len(cells))]

    def _cell(self, cells: Cells, position: int) -> list[Tiers]:
        value = cells.values[position]
        try:
            return self._read(value)
        except Refused as refused:
            raise cells.error(position, refused.problem, refused.remedy) from None

    def _read(self, value: Any) -> list[Tiers]:
        """The tasks of one cell."""
        if isinstance(value, str):
            return [self._one(part) for part in value.split(";") if part.strip()]
        members = collection(value)
        if isinstance(value, (Mapping, Statement)) or members is None:
            return [self._one(value)]
        if members and all(_is_item(member) for member in members):  # one task: items from best to worst
            return [self._one(members)]
        return [self._one(member) for member in members]

    def _one(self, value: Any) -> Tiers:
        """One task as tiers, best first."""
        if isinstance(value, OrderStatement):
            return self._checked(tuple(tuple(map(plain, tier)) for tier in value.tiers))
        if isinstance(value, Mapping):
            return self._checked(self._answered(value))
        if isinstance(value, str):
            return self._checked(parse_order(value).tiers)
        members = collection(value)
        if members is None:
            raise Refused(f"{show(value)} is not a task", self._remedy)
        return self._checked(tuple(tuple(map(plain, collection(tier) or (tier,))) for tier in members))

    def _answered(self, value: Mapping[Any, Any]) -> Tiers:
        """A task as {"shown": [...], ...}."""
        raise Refused(f"{show(value)} is not a task", self._remedy)

    def _checked(self, tiers: Tiers) -> Tiers:
        """The task, if it is one of this column."""
        return tiers

    @property
    def _remedy(self) -> str:
        return 'write "a > b = c" for a task in which a was chosen from a, b and c'

    # ---- back to cells

    def list_cells(self, row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
        """Utilities of items as cells: one task, the items from best to worst."""
        cells = as_orders(self.labels, *_once(row, site, values), n_rows)
        for place, items in enumerate(cells):
            cells[place] = self._written(items)
        return cells

    def _written(self, items: list[Any]) -> Any:
        """A cell that says that these items are in this order."""
        return [[[item] for item in items]] if len(items) > 1 else []

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Latent values of all items [row, item] as cells; NaN if an item is not in a row's tasks."""
        x = np.asarray(x, np.float64)
        row, site = np.nonzero(~np.isnan(x))
        cells = self.list_cells(row, site, x[row, site], len(x))
        cells[np.isnan(x).all(axis=1)] = None
        return cells

    def shortened(self, cells: Cells, block: Block, masked: BoolArray) -> NDArray[Any]:
        """The cells without the tasks of the masked lines, to fit a model that has never seen them."""
        assert block.entries is not None
        assert block.tasks is not None
        size = block.tasks.size
        found = np.full(len(cells), None, object)
        for position in range(len(cells)):
            own = range(int(block.entries.start[position]), int(block.entries.start[position + 1]), size)
            kept = [self._as_cell(block, line) for line in own if not masked[line]]
            found[position] = kept or None
        return found

    def _as_cell(self, block: Block, line: int) -> Any:
        """The task that starts at a line, as it may stand in a cell."""
        assert block.entries is not None
        assert block.tasks is not None
        tiers: dict[int, list[Any]] = {}
        for entry in range(line, line + block.tasks.size):
            if block.tier[entry, 0] >= 0:
                tiers.setdefault(int(block.tier[entry, 0]), []).append(self.labels[int(block.entries.site[entry])])
        return [tiers[level] for level in sorted(tiers, reverse=True)]


def _is_item(value: Any) -> bool:
    """Whether a member of a cell is an item, not a task."""
    if isinstance(value, str):
        return ">" not in value and "=" not in value
    return is_label(plain(value))


def _once(row: NDArray[Any], site: NDArray[Any], values: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Each item of a row once: it may be in several tasks."""
    key = np.asarray(row, np.int64) * (int(np.max(site, initial=0)) + 1) + site
    first = np.sort(np.unique(key, return_index=True)[1])
    return np.asarray(row)[first], np.asarray(site)[first], np.asarray(values)[first]


def truths(part: Cells) -> BoolArray:
    """Cells that say yes: 1, True, "yes", "x" and the like: [row]."""
    yes = {"1", "1.0", "yes", "y", "true", "t", "x", "available", "shown", "selected", "chosen"}
    values: Iterable[Any] = part.values.tolist()
    found = [str(plain(value)).strip().casefold() in yes for value in values]
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
    names : dict, optional
        Display names of items.
    unseen : {"error", "missing"}, default="error"
        What to do with a pair that has an unknown item; "missing" omits it.
    missing : dict or list, optional
        Values that mean "no answer".
    recode : dict, optional
        Values that are read as another value; the table is not changed.

    Notes
    -----
    A cell is a list of pairs, the preferred item first: [("a", "b"), ("c", "a")], or a text "a > b; c > a". A tie is
    "a = b", or [["a", "b"]]. The comparisons of a row need not be transitive, and a pair may occur several times. Whole
    tables come from `from_pairs`. In a `Ranking`, the utilities of a row are drawn once; here once per comparison.

    Examples
    --------
    >>> import thurbo as tb
    >>> table = {"drinks": [[("tea", "coffee"), ("coffee", "tea"), ("tea", "water")], "water > coffee; tea = water"]}
    >>> tb.Schema({"drinks": tb.Pairs()}).fit(table)["drinks"].describe()
    'paired comparisons of coffee, tea, water, ties allowed'
    """

    kind: ClassVar[str] = "pairs"
    ties: bool | None = field(default=None, kw_only=True)

    def _fitted(self, size: int, read: list[list[Tiers]]) -> Self:
        found = any(len(task) == 1 for tasks in read for task in tasks)
        return replace(self, size=2, ties=found if self.ties is None else self.ties)

    def _about(self, tier: NDArray[np.int32]) -> Tasks:
        return Tasks(2, self.noise, is_paired=True, has_ties=bool(self.ties))

    def _says(self, groups: list[list[int]]) -> bool:
        whole = sum(map(len, groups)) == 2
        return whole and (len(groups) == 2 or bool(self.ties))

    def _checked(self, tiers: Tiers) -> Tiers:
        if sum(map(len, tiers)) != 2:
            shown = " > ".join(" = ".join(map(str, tier)) for tier in tiers)
            raise Refused(f'"{shown}" is not a comparison of two items', self._remedy)
        return tiers

    @property
    def _remedy(self) -> str:
        return 'write pairs as ("better", "worse") or "better > worse"; use Ranking or Choice for more than two items'

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
    attributes : dict, optional
        {item: {attribute: value}}: known features of items, or profiles (conjoint). Their effects are learned.
    constants : bool, default=True
        Whether items have utilities of their own, besides those of their attributes.
    settings : ListSettings, optional
        Shrinkage of items.
    size : int, optional
        Set by `fit`.
    names : dict, optional
        Display names of items.
    unseen : {"error", "missing"}, default="error"
        What to do with an unknown item; "missing" omits it from the task.
    missing : dict or list, optional
        Values that mean "no answer".
    recode : dict, optional
        Values that are read as another value; the table is not changed.

    Notes
    -----
    A cell is a list of tasks. A task is a text "a > b = c" (a was chosen, b and c were shown, too), a list
    [["a"], ["b", "c"]], or {"shown": ["a", "b", "c"], "chosen": "a"}. Several chosen items are "a = b > c = d"; the
    first two of four in order are "a > b > c = d". A single label means that all items were shown. Long tables come
    from `from_choices`.

    Examples
    --------
    >>> import thurbo as tb
    >>> table = {"lunch": [["soup > salad = pie", "pie > salad = none"], {"shown": ["soup", "pie"], "chosen": "pie"}]}
    >>> tb.Schema({"lunch": tb.Choice()}).fit(table)["lunch"].describe()
    'choices among none, pie, salad, soup, up to 3 shown'
    """

    kind: ClassVar[str] = "choice"
    mappings: ClassVar[tuple[str, ...]] = ()
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

    def _check_own(self) -> None:
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
        sets = () if self._has_fixed_sets else tuple(column for each in self.shown for column in each)
        return tuple(dict.fromkeys((*sets, *(column for _, own in self._answers for column in own))))

    def _fit(self, cells: Cells, weight: FloatArray | None) -> Self:
        if self.available and self.items is None:
            return replace(self, items=tuple(item for item, _ in self.shown))._fit(cells, weight)
        return super()._fit(cells, weight)

    def _read(self, value: Any) -> list[Tiers]:
        whole = plain(value)
        is_label = isinstance(whole, (str, int, float))
        if self.shown is None and self.items is not None and is_label and whole in self.items:  # all were shown
            return [((whole,), tuple(item for item in self.items if item != whole))]
        return [] if self.available else super()._read(value)

    def _answered(self, value: Mapping[Any, Any]) -> Tiers:
        shown = collection(value.get("shown"))
        given = {name: value[name] for name in self.picks if value.get(name) is not None}
        if shown is None or not given or set(value) - {"shown", *self.picks}:
            wanted = ", ".join(f'"{name}": ...' for name in self.picks)
            raise Refused(f"{show(value)} is not a task", f'write {{"shown": [...], {wanted}}}')
        return self._tiers(tuple(map(plain, shown)), given)

    def _tiers(self, shown: tuple[Any, ...], given: Mapping[str, Any]) -> Tiers:
        """A task from the items shown and the answers."""
        best = self._picked(shown, given["chosen"])
        return best, tuple(item for item in shown if item not in best)

    def _picked(self, shown: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        """The chosen items of a set: by label, or by position from 1 if no item has this label."""
        found = tuple(map(plain, collection(value) or (value,)))
        for place, item in enumerate(found):
            if item in shown:
                continue
            number = int(item) if isinstance(item, (int, float)) and float(item).is_integer() else 0
            if not 1 <= number <= len(shown):
                problem = f"{show(item)} was chosen, but {listing(shown)} were shown"
                raise Refused(problem, "choose one of those shown, or correct what was shown")
            found = (*found[:place], shown[number - 1], *found[place + 1 :])
        return found

    def _from_parts(self, cells: Cells) -> list[list[Tiers]]:
        if self.available:
            return self._from_availability(cells)
        rows: list[list[Tiers]] = [[] for _ in range(len(cells))]
        for number, columns in enumerate(self.shown):
            answers = {name: cells.parts[own[number]] for name, own in self._answers if own[number] in cells.parts}
            sets = [cells.parts[column] for column in columns if column in cells.parts]
            for position in range(len(cells)):
                given = {name: part.values[position] for name, part in answers.items() if not part.missing[position]}
                if not given:
                    continue
                shown = columns
                if not self._has_fixed_sets:
                    shown = tuple(plain(part.values[position]) for part in sets if not part.missing[position])
                shown = (*shown, self.none) if self.none is not None and self.none not in shown else shown
                try:
                    rows[position].append(self._tiers(shown, given))
                except Refused as refused:
                    column = next(iter(answers.values()))
                    raise column.error(position, refused.problem, refused.remedy) from None
        return rows

    def _from_availability(self, cells: Cells) -> list[list[Tiers]]:
        there = {item: truths(cells.parts[column]) for item, column in self.shown if column in cells.parts}
        rows: list[list[Tiers]] = []
        for position, gone in enumerate(cells.missing.tolist()):
            shown = tuple(item for item, _ in self.shown if item not in there or there[item][position])
            shown = (*shown, self.none) if self.none is not None and self.none not in shown else shown
            if gone:
                rows.append([])
                continue
            try:
                rows.append([self._tiers(shown, {self.picks[0]: cells.values[position]})])
            except Refused as refused:
                raise cells.error(position, refused.problem, refused.remedy) from None
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
    >>> import thurbo as tb
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

    def _tiers(self, shown: tuple[Any, ...], given: Mapping[str, Any]) -> Tiers:
        ends = {name: self._picked(shown, value) for name, value in given.items()}
        both = set(ends.get("best", ())) & set(ends.get("worst", ()))
        if both:
            raise Refused(f"{show(next(iter(both)))} is both the best and the worst", "give two items")
        named = {item for own in ends.values() for item in own}
        rest = tuple(item for item in shown if item not in named)
        return tuple(tier for tier in (ends.get("best", ()), rest, ends.get("worst", ())) if tier)
