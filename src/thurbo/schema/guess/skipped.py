"""Find questions that are asked only after certain answers to another question, from where answers are missing.

Idea: after some answers of a gate nearly nobody has an answer, and after its other answers many have. An answer counts
as such only if so many missing cells are improbable by chance (a hypergeometric tail, corrected for all pairs tried), so
that cells missing at random, or together because people drop out, are not taken for routing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, lgamma
from typing import Any, NamedTuple

import numpy as np

from thurbo.columns import Column
from thurbo.columns.cells import BoolArray, FloatArray, IntArray, is_label
from thurbo.errors import SchemaError
from thurbo.io.table import Table
from thurbo.schema.routing import unanswered
from thurbo.schema.skips import Skip, meanings

NOT_ASKED = 0.9  # least share of missing cells among rows that were not asked: a few answer anyway
ASKED = 0.6  # largest share of missing cells among rows that were asked
ERROR = 0.01  # probability of a skip in a table where missing cells do not depend on answers
SURE = 20.0  # a rare answer belongs to those that lead past the question if that is so many times more likely
RARE, NEARLY = 20, 0.75  # rows of a rare answer, and its least share of missing cells
MOST_LABELS = 50  # of a gate
SAMPLE = 5000  # largest number of rows used


class Gate(NamedTuple):
    """A question that may decide: its answers, and the number of each row's answer, −1 if it has none."""

    labels: list[Any]
    which: IntArray  # [row]


class Found(NamedTuple):
    """A gate that decides about a question: after which answers it is asked, and how badly it explains the gaps."""

    asked: tuple[int, ...]
    cost: float


def find_skips(columns: Mapping[str, Column], table: Table) -> tuple[Skip, ...]:
    """All skips of a table: questions of one gate and the same answers are one block, in order of the schema."""
    names = [name for name, each in columns.items() if each.role == "answer" and not each.is_listed]
    names = [name for name in names if all(part in table for part in columns[name].source_columns(name))]
    missing = {name: unanswered(columns, table, name) for name in names}
    targets = [name for name in names if missing[name].any() and not missing[name].all()]
    if not targets:
        return ()
    gates = {name: gate for name in names if (gate := _gate(columns[name], table, name, missing[name])) is not None}
    return find(gates, {name: missing[name] for name in targets}, names)


def _gate(column: Column, table: Table, name: str, missing: BoolArray) -> Gate | None:
    """The answers of a question with labels; None if it cannot decide about others."""
    if not column.is_one_label or column.source_columns(name) != (name,) or missing.all():
        return None
    try:
        distinct, which = column.answered(table.cells(name)).hashable().factorise()
    except (SchemaError, TypeError):
        return None
    meaning = meanings(column)
    told = [meaning.get(value, value) if is_label(value) else None for value in distinct]
    labels = list(column.labels) or list(dict.fromkeys(label for label in told if label is not None))
    if not 2 <= len(labels) <= MOST_LABELS:
        return None
    place = np.asarray([*(labels.index(label) if label in labels else -1 for label in told), -1], np.int32)
    return Gate(labels, place[which])


def find(gates: Mapping[str, Gate], missing: Mapping[str, BoolArray], order: Sequence[str]) -> tuple[Skip, ...]:
    """Skips by the answers of gates and the rows [row] in which each question has no answer; `order` is that of all."""
    n_rows = len(next(iter(missing.values())))
    rows = np.random.default_rng(0).permutation(n_rows)[:SAMPLE]
    patterns, number = np.unique(np.stack([missing[name][rows] for name in missing]), axis=0, return_inverse=True)
    n_tests = len(patterns) * sum(len(gate.labels) for gate in gates.values())
    found = {name: _decides(gate.which[rows], len(gate.labels), patterns, n_tests) for name, gate in gates.items()}
    place = {name: at for at, name in enumerate(order)}
    chosen: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, pattern in zip(missing, number.ravel().tolist(), strict=True):
        own = {gate: each[pattern] for gate, each in found.items() if gate != name and pattern in each}
        # Gates before the question first, then those that explain its gaps best.
        for gate in sorted(own, key=lambda each: (place[each] > place[name], own[each].cost, place[each])):
            if not _depends(gate, name, chosen):
                chosen[name] = gate, own[gate].asked
                break
    blocks: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, key in chosen.items():
        blocks.setdefault(key, []).append(name)
    return tuple(
        Skip(tuple(names), gate, tuple(gates[gate].labels[at] for at in asked))
        for (gate, asked), names in blocks.items()
    )


def _depends(gate: str, name: str, chosen: Mapping[str, tuple[str, Any]]) -> bool:
    """Whether a question decides, directly or not, about the gate."""
    while gate in chosen and gate != name:
        gate = chosen[gate][0]
    return gate == name


def _decides(which: IntArray, n_labels: int, patterns: BoolArray, n_tests: int) -> dict[int, Found]:
    """The patterns of missing cells [pattern, row] that the answers of a gate decide."""
    answered = which >= 0
    n = np.bincount(which[answered], minlength=n_labels)
    one_hot = np.eye(n_labels, dtype=np.float32)[which[answered]]
    counts = np.rint(patterns[:, answered].astype(np.float32) @ one_hot).astype(np.int64)  # missing cells by answer
    share = counts / np.maximum(n, 1)
    found = {}
    for place in np.flatnonzero(((share >= NOT_ASKED) & (n > 0)).any(axis=1)):
        past = _past(n, counts[place], share[place], n_tests)
        rest = (n > 0) & ~past
        if past.any() and rest.any() and counts[place][rest].sum() <= ASKED * n[rest].sum():
            # Rows without an answer of the gate are a group of their own.
            m = [*counts[place], int(patterns[place][~answered].sum())]
            cost = _cost(np.asarray([*n, (~answered).sum()]), np.asarray(m), len(which))
            found[int(place)] = Found(tuple(np.flatnonzero(~past).tolist()), cost)
    return found


def _past(n: IntArray, m: IntArray, share: FloatArray, n_tests: int) -> BoolArray:
    """Answers of a gate after which a question is not asked: [answer], by rows `n` and missing cells `m` of each."""
    likely = (share >= NOT_ASKED) & (n > 0)
    n_rest, m_rest = int(n[~likely].sum()), int(m[~likely].sum())
    if not n_rest or m_rest > ASKED * n_rest:
        return np.zeros(len(n), bool)
    by_chance = [_tail(int(m[at]), int(n[at]), m_rest, n_rest) if likely[at] else 1.0 for at in range(len(n))]
    sure = np.asarray(by_chance) * n_tests <= ERROR
    if not sure.any():
        return sure
    out, asked = (m[sure].sum() + 0.5) / (n[sure].sum() + 1), (m_rest + 0.5) / (n_rest + 1)
    ratio = m * np.log(out / asked) + (n - m) * np.log((1 - out) / (1 - asked))
    enough = likely | ((n <= RARE) & (share >= NEARLY))
    return sure | (enough & (n > 0) & (ratio > np.log(SURE)))


def _tail(m: int, n: int, m_rest: int, n_rest: int) -> float:
    """P(at least m of n rows are missing) if the m + m_rest missing cells are spread at random: hypergeometric."""
    total, gone = n + n_rest, m + m_rest

    def log_choose(a: int, b: int) -> float:
        return lgamma(a + 1) - lgamma(b + 1) - lgamma(a - b + 1)

    whole = log_choose(total, gone)
    return sum(exp(log_choose(n, k) + log_choose(n_rest, gone - k) - whole) for k in range(m, min(n, gone) + 1))


def _cost(n: IntArray, m: IntArray, n_rows: int) -> float:
    """Nats that the gaps of a question cost given the answers of a gate, with a penalty for many answers."""
    p = np.clip(m / np.maximum(n, 1), 1e-12, 1 - 1e-12)
    return float(-(m * np.log(p) + (n - m) * np.log1p(-p)).sum() + 0.5 * (n > 0).sum() * np.log(n_rows))
