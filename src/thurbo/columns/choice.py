"""§3.2 Choices from shown sets (multinomial probit or logit), also of the best and the worst of a set (MaxDiff).

Each task shows some of the items; one of them, or several, are above the others. A profile of attributes can be an
item (conjoint analysis): then the utilities of its attribute levels are learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from thurbo.columns.cells import Cells, FloatArray, Refused, collection, listing, plain, show
from thurbo.columns.labels import check_names
from thurbo.columns.tasks import TaskColumn, Tiers, truths
from thurbo.errors import SchemaError


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
