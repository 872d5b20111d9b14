"""§3.2 Comparisons with noise of their own: a cell is a list of tasks, and each task orders the items that it shows.

In a ranking a person's utilities are drawn once. In a task they are drawn anew around the same means, so that a person
may contradict herself (Thurstone's Case V). Pairs, choices from a shown set and best–worst questions are such tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns import attributes as described
from thurbo.columns.attributes import Design
from thurbo.columns.block import Block, Entries, Family, Tasks
from thurbo.columns.cells import BoolArray, Cells, FloatArray, Refused, collection, is_label, listing, plain, show
from thurbo.columns.cells import suggestion as near
from thurbo.columns.forms import Form, TaskForm
from thurbo.columns.labels import LabelledColumn, check_labels, in_order
from thurbo.columns.listed import ListSettings, as_orders, with_settings
from thurbo.columns.statements import OrderStatement, Statement, parse_order
from thurbo.errors import SchemaError

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
    def form(self) -> Form:
        return TaskForm()

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
