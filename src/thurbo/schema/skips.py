"""Routing of a questionnaire: questions that are asked only after certain answers to another question.

Idea: a `Skip` names the questions, the question that decides (the gate), and the answers after which they are asked.
Guarantees that gates exist, can decide, and do not depend on each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from graphlib import CycleError, TopologicalSorter
from typing import Any

from thurbo.columns import Column
from thurbo.columns.cells import collection, is_label, listing, plain, show, suggestion
from thurbo.errors import SchemaError


@dataclass(frozen=True)
class Skip:
    """Questions that are asked only if another question has one of certain answers.

    After any other answer they are not applicable. An empty cell is then not a gap: `impute` and `sample` leave it
    empty, unless `fill="not applicable"` asks for it.

    Parameters
    ----------
    columns : sequence of str
        Names of the questions, as in the schema.
    asked_if : str
        Name of the question that decides: one with labels (`Binary`, `Ordinal`, `Categorical`, `Banded`).
    values : sequence
        Its answers after which the questions are asked.

    Raises
    ------
    SchemaError
        If there are no columns or no values, or if the question that decides is one of the columns.

    Examples
    --------
    >>> import thurbo as tb
    >>> print(tb.Skip(columns=["fan", "films"], asked_if="seen_any", values=["Yes"]))
    fan, films: asked only if seen_any = Yes
    """

    columns: tuple[str, ...]
    asked_if: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        for setting, example in (("columns", '["fan"]'), ("values", '["Yes"]')):
            given = getattr(self, setting)
            members = tuple(map(plain, (given,) if is_label(given) else collection(given) or ()))
            if not members or not all(map(is_label, members)):
                raise SchemaError(f"a skip has {setting}={given!r}", remedy=f"give a list, such as {example}")
            object.__setattr__(self, setting, tuple(dict.fromkeys(members)))
        for name in (self.asked_if, *self.columns):
            if not isinstance(name, str):
                raise SchemaError(f"a skip names the column {name!r}", remedy="give names of columns as text")
        if self.asked_if in self.columns:
            problem = "a skip says that this question is asked depending on its own answer"
            raise SchemaError(problem, column=self.asked_if, remedy="remove it from the columns of the skip")

    @property
    def condition(self) -> str:
        """When the questions are asked: "asked only if seen_any = Yes"."""
        return f"asked only if {self.asked_if} = {listing(self.values, ' or ')}"

    def __str__(self) -> str:
        return f"{listing(self.columns)}: {self.condition}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or TOML."""
        return {"columns": list(self.columns), "asked_if": self.asked_if, "values": list(self.values)}

    @classmethod
    def from_dict(cls, state: Any) -> Skip:
        """The skip that `to_dict` wrote, or a hand-written one."""
        known = [item.name for item in fields(cls)]
        if not isinstance(state, Mapping) or set(state) != set(known):
            problem = f"{show(state)} in skips does not have {listing(known)}"
            remedy = 'write [[skips]], columns = ["fan"], asked_if = "seen_any" and values = ["Yes"]'
            raise SchemaError(problem, remedy=remedy)
        return cls(**state)


def read_skips(state: Any) -> list[Skip]:
    """The skips in the dictionary of a schema."""
    return [Skip.from_dict(each) for each in (state if isinstance(state, list) else [state])]


def checked(skips: Any, columns: Mapping[str, Column]) -> tuple[Skip, ...]:
    """Skips of a schema with their values as labels of the gates; refuses what the columns do not have."""
    if isinstance(skips, Skip) or not isinstance(skips, Iterable) or not all(isinstance(each, Skip) for each in skips):
        raise SchemaError(f"skips={skips!r} is not a list of Skip", remedy="give skips=[tb.Skip(...)]")
    found = tuple(_with_labels(each, columns) for each in skips)
    gates: dict[str, set[str]] = {}
    for skip in found:
        for name in skip.columns:
            gates.setdefault(name, set()).add(skip.asked_if)
    try:
        TopologicalSorter(gates).prepare()
    except CycleError as error:
        circle = listing(reversed(error.args[1]), " decides ")
        raise SchemaError(f"skips depend on each other in a circle: {circle}", remedy="remove one of them") from None
    return found


def _with_labels(skip: Skip, columns: Mapping[str, Column]) -> Skip:
    for name in (skip.asked_if, *skip.columns):
        if name not in columns:
            remedy = f"{suggestion(name, columns)}the schema has {listing(columns)}"
            raise SchemaError("a skip names it, but the schema has no such column", column=name, remedy=remedy)
    gate = columns[skip.asked_if]
    if not gate.is_one_label and gate.role != "ignored":
        problem = f"{type(gate).__name__} cannot decide which questions are asked"
        raise SchemaError(problem, column=skip.asked_if, remedy="use a question with labels, such as Binary()")
    meaning = meanings(gate)
    for value in skip.values if gate.labels else ():
        if value not in meaning:
            remedy = f"{suggestion(value, gate.labels)}its answers are {listing(map(show, gate.labels))}"
            raise SchemaError(f"a skip has {show(value)}, which is no answer", column=skip.asked_if, remedy=remedy)
    return Skip(skip.columns, skip.asked_if, tuple(meaning.get(value, value) for value in skip.values))


def meanings(column: Column) -> dict[Any, Any]:
    """The label of every value that a cell may have: the label, its text, or its display name."""
    found: dict[Any, Any] = {}
    for names in (column.labels, map(str, column.labels), column.texts):
        for name, label in zip(names, column.labels, strict=True):
            found.setdefault(name, label)
    return found


def kept(skips: Iterable[Skip], columns: Mapping[str, Column]) -> tuple[Skip, ...]:
    """Skips that still apply after columns were changed or removed; others are dropped."""
    found = []
    for skip in skips:
        names = tuple(name for name in skip.columns if name in columns)
        if names and skip.asked_if in columns:
            try:
                found.append(_with_labels(Skip(names, skip.asked_if, skip.values), columns))
            except SchemaError:
                continue
    return tuple(found)


def in_order(skips: Sequence[Skip]) -> Iterator[tuple[str, list[Skip]]]:
    """Questions with their skips; the question that decides comes before those that it decides about."""
    by_name: dict[str, list[Skip]] = {}
    for skip in skips:
        for name in skip.columns:
            by_name.setdefault(name, []).append(skip)
    order = TopologicalSorter({name: [skip.asked_if for skip in own] for name, own in by_name.items()})
    return ((name, by_name[name]) for name in order.static_order() if name in by_name)
