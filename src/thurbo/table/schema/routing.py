"""Routing of a questionnaire: questions that are asked only after certain answers, given or found in the table.

Idea: a `Skip` names the questions, the question that decides (the gate), and the answers after which they are asked.
It is found where after some answers of a gate nearly nobody has an answer, and after its other answers many have, by a
hypergeometric tail corrected for all pairs tried. If a gate has no answer and was asked, nothing is known.
Guarantees that gates exist, can decide, and do not depend on each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import exp, lgamma
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import BoolArray, Cells
from thurbo.table.columns.column import Column
from thurbo.table.columns.statements import one_of
from thurbo.table.columns.values import collection, is_label, listing, plain, show, suggestion
from thurbo.table.io.frames import Table

if TYPE_CHECKING:
    from thurbo.table.schema.schema import Schema


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
        Name of the question that decides: one with labels (`Binary`, `Ordinal`, `Categorical`, `Banded`), or a
        `MultiSelect`.
    values : sequence
        Its answers after which the questions are asked; of a `MultiSelect`, options of which one or more was selected.

    Raises
    ------
    SchemaError
        If there are no columns or no values, or if the question that decides is one of the columns.

    Examples
    --------
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


def checked(skips: Any, columns: Mapping[str, Column]) -> tuple[Skip, ...]:
    """Skips of a schema with their values as labels of the gates; refuses what the columns do not have."""
    if isinstance(skips, Skip) or not isinstance(skips, Iterable) or not all(isinstance(each, Skip) for each in skips):
        raise SchemaError(f"skips={skips!r} is not a list of Skip", remedy="give skips=[tb.Skip(...)]")
    found = tuple(_with_labels(each, columns) for each in skips)
    try:
        list(in_order(found))
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
    if not (gate.is_one_label or gate.has_options) and gate.role != "ignored":
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


def when(columns: Mapping[str, Column], skip: Skip) -> str:
    """After which answers of the gate questions are asked, or after which they are not if these are fewer: "is Yes"."""
    gate = columns[skip.asked_if]
    texts = dict(zip(gate.labels, map(str, gate.texts), strict=True))
    others = [text for label, text in texts.items() if label not in skip.values]
    if 0 < len(others) < len(skip.values):
        if gate.has_options:
            return f"names more than {listing(others, ' or ')}"
        return f"is none of {listing(others)}" if others[1:] else f"is not {others[0]}"
    verb = "names" if gate.has_options else "is"
    return f"{verb} {listing([texts.get(value, str(value)) for value in skip.values], ' or ')}"


def kept(skips: Iterable[Skip], columns: Mapping[str, Column]) -> tuple[Skip, ...]:
    """Skips that still apply after columns were changed or removed; others are dropped."""
    found = []
    for skip in skips:
        names = tuple(name for name in skip.columns if name in columns)
        if names and skip.asked_if in columns:
            with suppress(SchemaError):
                found.append(_with_labels(Skip(names, skip.asked_if, skip.values), columns))
    return tuple(found)


def in_order(skips: Sequence[Skip]) -> Iterator[tuple[str, list[Skip]]]:
    """Questions with their skips; the question that decides comes before those that it decides about."""
    by_name: dict[str, list[Skip]] = {}
    for skip in skips:
        for name in skip.columns:
            by_name.setdefault(name, []).append(skip)
    order = TopologicalSorter({name: [skip.asked_if for skip in own] for name, own in by_name.items()})
    return ((name, by_name[name]) for name in order.static_order() if name in by_name)


NOT_APPLICABLE = "not applicable"  # the name of this kind of missing answer
UNKNOWN, ASKED, NOT_ASKED = 0, 1, 2


def given_cells(columns: Mapping[str, Column], table: Table, name: str) -> Cells | None:
    """The cells of a question; None if the table does not have it."""
    sources = columns[name].source_columns(name)
    if not any(each in table for each in (name, *sources)):
        return None
    return table.gathered(columns, name, "ignore") if sources else table.cells(name)


def unanswered(columns: Mapping[str, Column], table: Table, name: str) -> BoolArray:
    """Rows without any answer to a question, [row]; declared missing values are no answers."""
    column, cells = columns[name], given_cells(columns, table, name)
    if cells is None:
        return np.ones(table.n_rows, bool)
    return column.unanswered(column.answered(cells)) if column.source_columns(name) else cells.missing


def says(gate: Column, skip: Skip, cells: Cells) -> NDArray[np.int8]:
    """Whether each answer of the gate leads to the questions of a skip: ASKED, NOT_ASKED or UNKNOWN, [row]."""
    if gate.has_options:
        code = _selected(gate, gate.answered(cells))[:, [gate.labels.index(value) for value in skip.values]]
        known = np.where((code == 0).all(axis=1), NOT_ASKED, UNKNOWN)
        return np.where((code == 1).any(axis=1), ASKED, known).astype(np.int8)
    labels, which = _labelled(gate, gate.answered(cells))
    asked = np.isin(which, [at for at, label in enumerate(labels) if label in skip.values])
    return np.where(which < 0, UNKNOWN, np.where(asked, ASKED, NOT_ASKED)).astype(np.int8)


def _labelled(gate: Column, cells: Cells) -> tuple[list[Any], Integers]:
    """The answers of a gate with labels, and the place of each row's, [row]; −1 if none or not known.

    A statement, such as one_of, or a number in a column of bands may be several of them.
    """
    distinct, which = cells.hashable().factorise()
    meaning = meanings(gate)
    told = [meaning.get(value, value) if is_label(value) else None for value in distinct]
    labels = list(gate.labels) or list(dict.fromkeys(label for label in told if label is not None))
    place = {label: number for number, label in enumerate(labels)}
    return labels, np.asarray([*(place.get(each, -1) for each in told), -1], np.int32)[which]


def _selected(gate: Column, cells: Cells) -> Integers:
    """Whether each option was selected: 1, 0, or −1 if that is not known, [row, option]."""
    block = gate.encode(cells)
    return np.where(block.observed, block.code, -1)


def not_asked(
    columns: Mapping[str, Column], skips: Sequence[Skip], table: Table, imputed: Table | None = None
) -> dict[str, BoolArray]:
    """Rows in which each question with a gate was not asked, [row].

    `imputed` are the cells in the place of empty ones, all others empty: an imputed answer of a gate decides too,
    except where the row has an answer that it must have led to.
    """
    answered = _answered(columns, skips, table)
    led = dict(zip(skips, led_to(skips, answered), strict=True))
    found: dict[str, BoolArray] = {}
    for name, own in in_order(skips):
        out = np.zeros(table.n_rows, bool)
        for skip in own:
            gate, silent = skip.asked_if, ~answered[skip.asked_if]
            if (cells := given_cells(columns, table, gate)) is not None:
                out |= says(columns[gate], skip, cells) == NOT_ASKED
            if gate in found:
                out |= silent & found[gate]
            guess = None if imputed is None else given_cells(columns, imputed, gate)
            if guess is not None:
                out |= silent & ~led[skip] & (says(columns[gate], skip, guess) == NOT_ASKED)
        found[name] = out
    return found


def led_to(skips: Sequence[Skip], answered: Mapping[str, BoolArray]) -> list[BoolArray]:
    """Rows with an answer to a question of each skip, or to one that depends on these: their gate has led to them."""
    reached = dict(answered)
    for name, own in reversed(list(in_order(skips))):
        for skip in own:
            reached[skip.asked_if] = reached[skip.asked_if] | reached[name]
    return [np.any([reached[name] for name in skip.columns], axis=0) for skip in skips]


def _answered(columns: Mapping[str, Column], skips: Sequence[Skip], table: Table) -> dict[str, BoolArray]:
    """Rows with an answer to each question that skips name, [row]."""
    names = {name for skip in skips for name in (skip.asked_if, *skip.columns)}
    return {name: ~unanswered(columns, table, name) for name in names}


def not_applicable(columns: Mapping[str, Column], skips: Sequence[Skip], table: Table) -> dict[str, BoolArray]:
    """Rows in which a question has no answer because it was not asked, [row], by question."""
    return {name: out & unanswered(columns, table, name) for name, out in not_asked(columns, skips, table).items()}


def implied(columns: Mapping[str, Column], skips: Sequence[Skip], given: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions with those that follow: who has answered a question has given its gate an answer that leads to it."""
    found = dict(given)
    for name, own in reversed(list(in_order(skips))):
        for skip in own:
            gate = columns[skip.asked_if]
            if name not in found or skip.asked_if in found or not gate.sites or gate.has_options:
                continue
            places = sorted(gate.labels.index(value) for value in skip.values)
            if len(places) == 1:
                found[skip.asked_if] = skip.values[0]
            elif not gate.has_order or places[-1] - places[0] == len(places) - 1:  # ordered levels have to be adjacent
                found[skip.asked_if] = one_of(*skip.values)
    return found


def deduced(columns: Mapping[str, Column], skips: Sequence[Skip], table: Table) -> dict[str, tuple[Any, BoolArray]]:
    """Gates without an answer in rows [row] with an answer that only one answer of the gate leads to, and that one."""
    answered = _answered(columns, skips, table)
    found: dict[str, tuple[Any, BoolArray]] = {}
    for skip, led in zip(skips, led_to(skips, answered), strict=True):
        if len(skip.values) == 1 and columns[skip.asked_if].sites and columns[skip.asked_if].is_one_label:
            rows = led & ~answered[skip.asked_if]
            rows = rows | found[skip.asked_if][1] if skip.asked_if in found else rows
            found[skip.asked_if] = skip.values[0], rows
    return found


# Largest share of rows that were not asked and answered anyway, also relative to the share of answers of those asked.
# One row more may be such an exception.
EXCEPTIONS, RELATIVE = 0.08, 0.1
BESIDE = 0.15  # the same for a question beside others with the same gate and answers
MOST_MISSING_IF_ASKED = 0.6  # largest share of missing cells among rows that were asked
ERROR = 0.01  # probability of a skip in a table where missing cells do not depend on answers
SURE = 20.0  # a rare answer belongs to those that lead past the question if that is so many times more likely
MOST_LABELS = 50  # of a gate
SAMPLE = 5000  # largest number of rows used


Integers = NDArray[np.integer[Any]]  # [answer] or [row]
GateKey = tuple[str, int]  # a question, and one of its options if it is any number of them


class Gate(NamedTuple):
    """A question, or one of its options, that may decide: its answers, and the number of each row's, −1 if none.

    An answer is a label; of an option, that another one was selected, or this one: the options of which one was.
    """

    labels: list[tuple[Any, ...]]
    which: Integers  # [row]


def find_skips(columns: Mapping[str, Column], table: Table, follows: Iterable[Any] = ()) -> tuple[Skip, ...]:
    """All skips of a table: questions of one gate and the same answers are one block, in order of the schema.

    A missing code that says something, such as "refused" or "I have no job", was answered, so the question was asked.
    A column that follows from another one, by a record of `follows`, is not asked at all.
    """
    pairs = {(each.column, each.by) for each in follows}
    if table.n_rows > SAMPLE:  # the cells of all others are not even read
        table = replace(table, lists={}).take(np.random.default_rng(0).permutation(table.n_rows)[:SAMPLE])
    order = [name for name, each in columns.items() if each.role == "answer" and not each.is_listed]
    order = [name for name in order if all(part in table for part in columns[name].source_columns(name))]
    gone = {name: unanswered(columns, table, name) & ~_said(columns[name], table, name) for name in order}
    missing = {name: own for name, own in gone.items() if own.any() and not own.all()}
    if not missing:
        return ()
    gates = {(name, place): gate for name in order for place, gate in _gates(columns[name], table, name, gone[name])}
    patterns, number = np.unique(np.stack(list(missing.values())), axis=0, return_inverse=True)
    n_tests = len(patterns) * sum(len(gate.labels) for gate in gates.values())
    counts = zip(gates, _counts(list(gates.values()), patterns), strict=True)
    found = {key: _decides(each, n_tests) for key, each in counts}
    place = {name: at for at, name in enumerate(order)}
    chosen: dict[str, tuple[GateKey, tuple[int, ...]]] = {}
    for name, pattern in zip(missing, number.ravel().tolist(), strict=True):
        own = {key: each[pattern] for key, each in found.items() if key[0] != name and pattern in each}
        own = {key: each for key, each in own.items() if (name, key[0]) not in pairs}
        # Gates before the question first, then those that explain its gaps best.
        ranked = sorted((place[key[0]] > place[name], cost, place[key[0]], key) for key, (cost, _) in own.items())
        first = next((key for *_, key in ranked if not _depends(key[0], name, chosen)), None)
        if first is not None:
            chosen[name] = first, own[first][1]
    blocks: dict[tuple[GateKey, tuple[int, ...]], list[str]] = {key: [] for key in chosen.values()}
    for name in missing:
        near = [key for key in blocks if key[0][0] != name and _joins(gates[key[0]].which, key[1], missing[name])]
        if name not in chosen and near and not _depends(near[0][0][0], name, chosen):
            chosen[name] = near[0]
        if name in chosen:
            blocks[chosen[name]].append(name)
    return tuple(
        Skip(tuple(names), key[0], tuple(label for at in asked for label in gates[key].labels[at]))
        for (key, asked), names in blocks.items()
    )


def _said(column: Column, table: Table, name: str) -> BoolArray:
    """Rows with a missing code of a question that only somebody gives who is asked: "refused", [row]."""
    from thurbo.table.guess.words import is_not_asked  # only where skips are looked for

    codes = {each for code, text in column.declared_missing if not is_not_asked(str(text)) for each in (code, text)}
    found = np.zeros(table.n_rows, bool)
    for source in column.source_columns(name) if codes else ():
        distinct, which = column.recoded(table.cells(source)).hashable().factorise()
        found |= np.asarray([*(is_label(value) and value in codes for value in distinct), False], bool)[which]
    return found


def _gates(column: Column, table: Table, name: str, missing: BoolArray) -> Iterator[tuple[int, Gate]]:
    """The answers of a question with labels, or each of its options; none if it cannot decide about others."""
    if not (column.is_one_label or column.has_options) or not column.source_columns(name) or missing.all():
        return
    try:
        cells = table.answers({name: column}, name)
        if column.has_options:
            fitted = column.fit(cells)
            code = _selected(fitted, cells)
            for at, option in enumerate(fitted.labels if 2 <= len(fitted.labels) <= MOST_LABELS else ()):
                others = tuple(label for label in fitted.labels if label != option)
                yield at, Gate([others, (option,)], code[:, at])
            return
        labels, which = _labelled(column, cells)
    except (SchemaError, TypeError):
        return
    if 2 <= len(labels) <= MOST_LABELS:
        yield 0, Gate([(label,) for label in labels], which)


def _joins(which: Integers, asked: Sequence[int], gone: BoolArray) -> bool:
    """Whether a question is missing nearly as the others of a block: by the answers [row] of their gate."""
    led = np.isin(which, asked)
    past = (which >= 0) & ~led
    nearly = _nearly_all(past.sum(), gone[past].sum(), BESIDE)
    return bool(nearly and gone[led].sum() <= MOST_MISSING_IF_ASKED * led.sum())


def _depends(gate: str, name: str, chosen: Mapping[str, tuple[GateKey, Any]]) -> bool:
    """Whether a question decides, directly or not, about the gate."""
    while gate in chosen and gate != name:
        gate = chosen[gate][0][0]
    return gate == name


def _counts(gates: Sequence[Gate], patterns: BoolArray) -> list[Integers]:
    """Missing cells of each pattern [pattern, row] by the answer of each gate, [pattern, answer].

    The last answer is none, and the last pattern that of a question without any answer: the rows of each answer.
    """
    ends = np.cumsum([0, *(len(gate.labels) + 1 for gate in gates)])
    one = np.zeros((patterns.shape[1], int(ends[-1])), np.float32)
    for gate, start in zip(gates, ends, strict=False):
        one[np.arange(len(one)), start + gate.which % (len(gate.labels) + 1)] = 1
    # One product is much faster than many narrow ones.
    total = np.rint(np.vstack([patterns, np.ones(len(one), bool)]).astype(np.float32) @ one).astype(np.int64)
    return [total[:, start:end] for start, end in pairwise(ends)]


def _decides(counts: Integers, n_tests: int) -> dict[int, tuple[float, tuple[int, ...]]]:
    """The patterns that a gate decides, by `_counts`: the cost of their gaps, and the answers that lead to them."""
    n_all = counts[-1]
    n, found = n_all[:-1], {}
    for place in np.flatnonzero((_nearly_all(n, counts[:-1, :-1]) & (n > 0)).any(axis=1)):
        m = counts[place, :-1]
        past = _past(n, m, n_tests)
        rest = (n > 0) & ~past
        if past.any() and rest.any() and m[rest].sum() <= MOST_MISSING_IF_ASKED * n[rest].sum():
            m_all = counts[place]
            p = np.clip(m_all / np.maximum(n_all, 1), 1e-12, 1 - 1e-12)
            nats = -(m_all * np.log(p) + (n_all - m_all) * np.log1p(-p)).sum()
            # In nats, with a penalty for many answers.
            cost = float(nats + 0.5 * (n_all > 0).sum() * np.log(n_all.sum()))
            found[int(place)] = cost, tuple(np.flatnonzero(~past).tolist())
    return found


def _nearly_all(n: Integers, m: Integers, most: float = EXCEPTIONS) -> BoolArray:
    """Whether nearly all of n rows are missing: all but a share, and one row more."""
    return n - m <= most * n + 1


def _past(n: Integers, m: Integers, n_tests: int) -> BoolArray:
    """Answers of a gate after which a question is not asked: [answer], by rows `n` and missing cells `m` of each."""
    likely = _nearly_all(n, m) & (m > n / 2)
    if not likely.all():
        answers = 1 - m[~likely].sum() / max(n[~likely].sum(), 1)
        likely &= _nearly_all(n, m, min(EXCEPTIONS, RELATIVE * float(answers)))
    n_rest, m_rest = int(n[~likely].sum()), int(m[~likely].sum())
    if not n_rest or m_rest > MOST_MISSING_IF_ASKED * n_rest:
        return np.zeros(len(n), bool)
    by_chance = [_tail(int(m[at]), int(n[at]), m_rest, n_rest) if likely[at] else 1.0 for at in range(len(n))]
    sure = np.asarray(by_chance) * n_tests <= ERROR
    if not sure.any():
        return sure
    out, asked = (m[sure].sum() + 0.5) / (n[sure].sum() + 1), (m_rest + 0.5) / (n_rest + 1)
    ratio = m * np.log(out / asked) + (n - m) * np.log((1 - out) / (1 - asked))
    return sure | (likely & (ratio > np.log(SURE)))


def _tail(m: int, n: int, m_rest: int, n_rest: int) -> float:
    """P(at least m of n rows are missing) if the m + m_rest missing cells are spread at random: hypergeometric."""
    total, gone = n + n_rest, m + m_rest

    def log_choose(a: int, b: int) -> float:
        return lgamma(a + 1) - lgamma(b + 1) - lgamma(a - b + 1)

    whole = log_choose(total, gone)
    return sum(exp(log_choose(n, k) + log_choose(n_rest, gone - k) - whole) for k in range(m, min(n, gone) + 1))


SAME = 0.5  # least share of rows missing in both among those missing in one; single answers are missing as well
LEAST = 0.02  # smallest share of rows with an answer, and without one


def missing_together(columns: Mapping[str, Column], table: Table, alone: bool = False) -> list[tuple[str, ...]]:
    """Blocks of questions, two or more unless `alone`, to which largely the same rows have no answer, in order."""
    blocks: list[tuple[list[str], BoolArray]] = []
    for name, column in columns.items():
        if column.role != "answer" or column.is_listed or not column.sites:
            continue
        gone = unanswered(columns, table, name)
        if not LEAST * len(gone) <= gone.sum() <= (1 - LEAST) * len(gone):
            continue
        for names, first in blocks:
            if (gone & first).sum() >= SAME * (gone | first).sum():
                names.append(name)
                break
        else:
            blocks.append(([name], gone))
    return [tuple(names) for names, _ in blocks if alone or len(names) > 1]


def with_answered(schema: Schema, table: Table, alone: bool = False) -> Schema:
    """The schema with an `Answered` column for each block of questions that are missing together (`alone`: or one)."""
    # A model can be fitted again with its own schema.
    if any(column.role == "pattern" for column in schema.values()):
        return schema
    added: dict[str, Column] = {}
    for names in missing_together(schema, table, alone):
        name = f"answered: {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        while name in schema or name in table:
            name += " "
        added[name] = Column.registered["answered"](columns=names)
    return schema | added
