"""Columns whose answer follows from the answer to another one: country → region, number → band, recodes.

Idea: predict each answer by the most frequent one among rows with the same answer to the other column, or, where that
is a number, among those in the same interval. The prediction is right nearly always in rows that it was not made
from, and much more often than the most frequent answer of all, or the column is not determined.
Guarantees that only pairs are examined of which rows with the same answer to one seldom differ in the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import FloatArray
from thurbo.table.columns.column import Column
from thurbo.table.columns.values import listing, plain, show, suggestion
from thurbo.table.io.frames import Table

IntArray = NDArray[np.int64]

SURE = 0.95  # least share of the answers that the rule gives right
EXPLAINED = 0.9  # the same among those that are not the most frequent answer
FEWEST = 20  # answers that are not the most frequent one; fewer say little
MOST_VALUES = 256  # different numbers of a column whose numbers are answers; more are intervals
_MOST_PAIRS = 1_000_000  # of an answer to one column and one to the other
_SAMPLE, _SCREENED, _FOLDS = 5000, 1000, 5  # rows that are examined, those for the search, and their parts
_FEWEST, _MOST = 5, 0.4  # rows of the search that would differ by chance, and the share of them that do


@dataclass(frozen=True)
class Determined:
    """A column whose answer follows from another one: column = rule(by), with error rate 1 − accuracy.

    Parameters
    ----------
    column, by : str
        The column that follows, and the one that it follows from.
    accuracy : float
        Share of the answers that the rule gives right in rows that it was not made from.
    given : tuple
        Answers to `by`, each the selected options if there may be several; or the cut points between intervals if it
        is a number.
    answers : tuple
        The answer to `column` for each of `given`, or for each interval, from the lowest.
    intervals : bool
        Whether `given` are cut points.
    """

    column: str
    by: str
    accuracy: float
    given: tuple[Any, ...]
    answers: tuple[Any, ...]
    intervals: bool = False

    def __str__(self) -> str:
        return f"{self.column} follows from {self.by} ({self.accuracy:.1%} of the answers)"

    def predict(self, values: Iterable[Any]) -> list[Any]:
        """The answer to `column` for each answer to `by`; None for one that the rule does not know."""
        if self.intervals:
            numbers = np.asarray(list(values), np.float64)
            place = np.searchsorted(np.asarray(self.given, np.float64), numbers, side="right")
            return [None if np.isnan(x) else self.answers[at] for x, at in zip(numbers, place, strict=True)]
        rule = dict(zip(map(_key, self.given), self.answers, strict=True))
        return [rule.get(_key(value)) for value in values]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or TOML."""
        state = {item.name: getattr(self, item.name) for item in fields(self)}
        given = [list(each) if isinstance(each, tuple) else each for each in self.given]
        state |= {"given": given, "answers": list(self.answers)}
        return state if self.intervals else {name: value for name, value in state.items() if name != "intervals"}

    @classmethod
    def from_dict(cls, state: Any) -> Determined:
        """The record that `to_dict` wrote."""
        known = {item.name for item in fields(cls)}
        wrong = not isinstance(state, Mapping) or not known - {"intervals"} <= set(state) <= known
        if wrong or len(state["given"]) != len(state["answers"]) - bool(state.get("intervals")):
            problem = f"{show(state)} in determined does not have {listing(sorted(known))}"
            raise SchemaError(problem, remedy="remove it; fit finds such columns again")
        given = tuple(tuple(each) if isinstance(each, list) else each for each in state["given"])
        return cls(**{**state, "given": given, "answers": tuple(state["answers"])})


def _key(value: Any) -> Hashable:
    return frozenset(value) if isinstance(value, (list, tuple, set, frozenset)) else value


def checked(determined: Iterable[Determined], columns: Mapping[str, Column]) -> tuple[Determined, ...]:
    """Records of a schema; refuses names that it does not have."""
    found = tuple(determined)
    for each in found:
        for name in (each.column, each.by):
            if name not in columns:
                remedy = f"{suggestion(name, columns)}remove the record; fit finds such columns again"
                raise SchemaError("determined names it, but the schema has no such column", column=name, remedy=remedy)
    return found


def kept(determined: Iterable[Determined], changed: Iterable[str], columns: Mapping[str, Column]) -> list[Determined]:
    """Records about columns that are still there and were not changed."""
    still = set(columns) - set(changed)
    return [each for each in determined if {each.column, each.by} <= still]


def sources(names: Sequence[str], determined: Sequence[Determined]) -> dict[str, str]:
    """Of each column that belongs with others, the one that stands for them: it determines most of them."""
    group = {name: name for name in names}
    for each in determined:
        one, other = group[each.column], group[each.by]
        group |= {name: one for name, own in group.items() if own == other}
    n_followers, n_sources = Counter(each.by for each in determined), Counter(each.column for each in determined)
    best = dict[str, str]()
    for name in names:
        first = best.setdefault(group[name], name)
        if (n_followers[name], -n_sources[name]) > (n_followers[first], -n_sources[first]):
            best[group[name]] = name
    belong = {name for each in determined for name in (each.column, each.by)}
    return {name: best[group[name]] for name in names if name in belong}


class _Answers(NamedTuple):
    """The answers to one column: codes of their labels, and the numbers if they are numbers."""

    code: IntArray  # [row], −1 if missing
    labels: tuple[Any, ...]  # of each code; none if there are many numbers
    number: FloatArray | None = None
    can_follow: bool = True
    joined: _Answers | None = None  # what other columns do not follow from: with rare answers as one


def find_determined(columns: Mapping[str, Column], table: Table, weight: FloatArray | None) -> tuple[Determined, ...]:
    """Every pair of columns, fitted to this table, of which one follows from the other; `weight` is [row]."""
    order = np.random.default_rng(0).permutation(table.n_rows)
    weight = np.ones(len(order)) if weight is None else np.asarray(weight, np.float64)[order]
    table, sample = table.take(order), table.take(order[:_SAMPLE])
    read = {name: own for name in columns if (own := _read(columns, sample, name)) is not None}
    few = weight[:_SAMPLE]
    pairs = [(by, name) for by, name in _screened(read) if _rule(by, name, read, few) is not None]
    if sample.n_rows < table.n_rows:
        read = {name: _read(columns, table, name) or read[name] for pair in pairs for name in pair}
    rules = (_rule(by, name, read, weight) for by, name in pairs)
    return tuple(each for each in rules if each is not None)


def find_before_fit(columns: Mapping[str, Column], table: Table) -> tuple[Determined, ...]:
    """The same for columns that are not fitted, with their own weights; none if there are cells that cannot be read."""
    try:
        weighing = [column.weights(table.cells(name)) for name, column in columns.items() if column.role == "weight"]
        weight = weighing[0] if weighing else None
        fitted = {
            name: column.fit(table.answers(columns, name), weight)
            for name, column in columns.items()
            if column.source_columns(name) and not column.is_listed
        }
        return find_determined(fitted, table, weight)
    except SchemaError:
        return ()


def _read(columns: Mapping[str, Column], table: Table, name: str) -> _Answers | None:
    """The answers to a question with one answer, a number or options; None of others, and of constants."""
    column = columns[name]
    sources = column.source_columns(name)
    if column.role != "answer" or not column.sites or column.is_listed or not sources:
        return None
    if column.has_items or not all(each in table for each in sources):
        return None
    cells = table.answers(columns, name)
    answers = column.form.answers(name, column.encode(cells))
    if column.is_one_label:
        code = np.where(answers.observed, answers.values, -1).astype(np.int64)
        found = _Answers(code, column.answer_labels)
        if not column.is_named.all() and sources == (name,):  # a region follows from a rare country, too
            distinct, which = replace(column.recoded(table.cells(name)), missing=cells.missing).hashable().factorise()
            found = _Answers(which.astype(np.int64), tuple(distinct), joined=found)
    elif column.form.has_options:
        ticked = np.stack([each.values for each in answers.parts], axis=1)
        whole = ~np.isnan(ticked).any(axis=1)
        sets, place = np.unique(ticked[whole], axis=0, return_inverse=True)
        code = np.full(len(ticked), -1, np.int64)
        code[whole] = place.ravel()
        if len(sets) > MOST_VALUES:
            return None
        labels = tuple(tuple(np.asarray(column.labels, object)[own > 0].tolist()) for own in sets)
        found = _Answers(code, labels, can_follow=False)
    elif not answers.labels and not answers.share_interval:
        found = _numbers(np.where(np.isfinite(answers.values), answers.values, np.nan))
    else:
        return None
    return found if len(np.unique(found.code[found.code >= 0])) > 1 else None


def _numbers(values: FloatArray) -> _Answers:
    """Numbers as codes of their values; only if these are few they are answers."""
    seen, code = ~np.isnan(values), np.full(len(values), -1, np.int64)
    distinct, code[seen] = np.unique(values[seen], return_inverse=True)
    exact = np.array([float(f"{each:.12g}") for each in distinct])  # they were in standard units
    has_labels = len(exact) <= MOST_VALUES
    number = np.where(seen, exact[code], np.nan) if len(exact) else values
    return _Answers(code, tuple(exact.tolist()) if has_labels else (), number, has_labels)


def _screened(read: Mapping[str, _Answers]) -> Iterator[tuple[str, str]]:
    """Pairs (by, column): rows with the same answer to `by`, or neighbouring numbers, seldom differ in `column`."""
    names = list(read)
    if len(names) < 2:
        return
    table = np.stack([read[name].code[:_SCREENED] for name in names], axis=1)
    can_follow = np.array([read[name].can_follow for name in names])
    shares = [np.bincount(own[own >= 0]) / max((own >= 0).sum(), 1) for own in table.T]
    by_chance = np.array([1 - float((share**2).sum()) for share in shares])  # that two rows differ
    for place, name in enumerate(names):
        number = read[name].number
        key = table[:, place] if number is None else number[: len(table)]
        order = np.argsort(key, kind="stable")[: int((table[:, place] >= 0).sum())]
        order = order if number is not None else np.argsort(key, kind="stable")[-len(order) :]
        alike = key[order][1:] == key[order][:-1] if number is None else np.ones(max(len(order) - 1, 0), bool)
        one, two = table[order[1:][alike]], table[order[:-1][alike]]
        both = (one >= 0) & (two >= 0)
        expected = by_chance * both.sum(axis=0)
        passed = can_follow & (expected >= _FEWEST) & ((both & (one != two)).sum(axis=0) <= _MOST * expected)
        yield from ((name, names[other]) for other in np.flatnonzero(passed) if other != place)


def _rule(by: str, column: str, read: Mapping[str, _Answers], weight: FloatArray) -> Determined | None:
    """The record of a pair, by rows in random order; None if the rule is too rarely right in rows of other folds."""
    source, follows = read[by], read[column].joined or read[column]
    both = (source.code >= 0) & (follows.code >= 0) & (weight > 0)
    one, two, own = source.code[both], follows.code[both], weight[both]
    n_labels, n_by = len(follows.labels), int(source.code.max()) + 1
    counts = np.bincount(two, own, n_labels)
    n_rest = len(two) - np.bincount(two, minlength=n_labels).max(initial=0)
    if n_rest < FEWEST:
        return None
    fold, total = np.arange(len(two), dtype=np.int64) % _FOLDS, float(own.sum())
    most = float(counts.max()) / total
    by_label = bool(source.labels) and n_by * n_labels <= _MOST_PAIRS / _FOLDS
    number = None if source.number is None else source.number[both]
    right = {False: 0.0, True: 0.0}  # weight of the rows in which a rule of the other folds is right, by intervals
    for k in range(_FOLDS):
        here, rest = fold == k, fold != k
        if by_label:
            best = _usual(one[rest], two[rest], own[rest], n_by, n_labels)
            right[False] += own[here] @ (best[one[here]] == two[here])
        if number is not None:
            order, cuts = _intervals(number[rest], two[rest], own[rest], n_labels)
            right[True] += own[here] @ (order[np.searchsorted(cuts, number[here], side="right")] == two[here])
    # Of two rules that are as good, intervals also know the numbers that did not occur.
    intervals = max(right, key=lambda way: (round(right[way] / total, 2), way))
    accuracy = right[intervals] / total
    if accuracy < SURE or accuracy - most < EXPLAINED * (1 - most):
        return None
    accuracy = round(float(accuracy), 4)
    if intervals and number is not None:
        order, cuts = _intervals(number, two, own, n_labels)
        ends = np.concatenate([[-np.inf], cuts, [np.inf]])
        keep = ends[1:] > ends[:-1]  # an answer without numbers of its own is never given
        answers = tuple(plain(follows.labels[k]) for k in order[keep])
        points = tuple(float(f"{each:.12g}") for each in ends[:-1][keep][1:])
        return Determined(column, by, accuracy, points, answers, True)
    best = _usual(one, two, own, n_by, n_labels)
    there = np.flatnonzero(np.bincount(one, minlength=n_by) > 1)  # of one row nothing is known out of sample
    given = tuple(each if isinstance(each := source.labels[k], tuple) else plain(each) for k in there)
    answers = tuple(plain(follows.labels[k]) for k in best[there])
    return Determined(column, by, accuracy, given, answers)


def _usual(one: IntArray, two: IntArray, weight: FloatArray, n_by: int, n_labels: int) -> IntArray:
    """The most frequent label beside each answer, and of all for an answer that does not occur."""
    counts = np.bincount(one * n_labels + two, weight, n_by * n_labels).reshape(n_by, n_labels)
    return np.where(counts.any(axis=1), counts.argmax(axis=1), counts.sum(axis=0).argmax())


def _intervals(number: FloatArray, code: IntArray, weight: FloatArray, n_labels: int) -> tuple[IntArray, FloatArray]:
    """Labels in the order of their numbers, and the cut points with fewest rows on the wrong side."""
    line = np.argsort(number, kind="stable")
    x, code, weight = number[line], code[line], weight[line]
    amount = np.bincount(code, weight, n_labels)
    middle = np.bincount(code, weight * np.arange(len(x)), n_labels) / np.maximum(amount, 1e-300)
    order = np.argsort(np.where(amount > 0, middle, np.inf), kind="stable")[: int((amount > 0).sum())]
    rank = np.empty(n_labels, np.int64)
    rank[order] = np.arange(len(order))
    own, cuts = rank[code], np.empty(len(order) - 1)
    ends = np.concatenate([[True], x[1:] > x[:-1], [True]])  # cuts are between different numbers
    for k in range(1, len(order)):
        # Rows below the cut that belong above it, less those that belong below it.
        wrong = np.concatenate([[0.0], np.cumsum(np.where(own >= k, weight, -weight))])
        at = int(np.where(ends, wrong, np.inf).argmin())
        cuts[k - 1] = -np.inf if at == 0 else np.inf if at == len(x) else (x[at - 1] + x[at]) / 2
    return order, np.maximum.accumulate(cuts)
