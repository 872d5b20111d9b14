"""Find questions that are asked only after certain answers to another question, from where answers are missing.

Idea: after some answers of a gate nearly nobody has an answer, and after its other answers many have. An answer counts
as such only if so many missing cells are improbable by chance (a hypergeometric tail, corrected for all pairs tried).
So cells that are missing at random, or together because people drop out, are not taken for routing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, lgamma
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.columns import Column
from thurbo.columns.cells import BoolArray, IntArray, is_label
from thurbo.errors import SchemaError
from thurbo.io.table import Table
from thurbo.schema.routing import unanswered
from thurbo.schema.skips import Skip, meanings

# Largest share of rows that were not asked and answered anyway, also relative to the share of answers of those asked.
# One row more may be such an exception.
EXCEPTIONS, RELATIVE = 0.08, 0.1
BESIDE = 0.15  # the same for a question beside others with the same gate and answers
ASKED = 0.6  # largest share of missing cells among rows that were asked
ERROR = 0.01  # probability of a skip in a table where missing cells do not depend on answers
SURE = 20.0  # a rare answer belongs to those that lead past the question if that is so many times more likely
MOST_LABELS = 50  # of a gate
SAMPLE = 5000  # largest number of rows used


Counts = NDArray[np.integer[Any]]  # [answer]


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
    cells, found = patterns.astype(np.float32), {}
    for name, gate in gates.items():
        which = gate.which[rows]
        found[name] = _decides(np.where(which < 0, len(gate.labels), which), len(gate.labels), cells, n_tests)
    place = {name: at for at, name in enumerate(order)}
    chosen: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, pattern in zip(missing, number.ravel().tolist(), strict=True):
        own = {other: each[pattern] for other, each in found.items() if other != name and pattern in each}
        # Gates before the question first, then those that explain its gaps best.
        ranked = sorted((place[other] > place[name], each.cost, place[other], other) for other, each in own.items())
        first = next((other for *_, other in ranked if not _depends(other, name, chosen)), None)
        if first is not None:
            chosen[name] = first, own[first].asked
    blocks: dict[tuple[str, tuple[int, ...]], list[str]] = {key: [] for key in chosen.values()}
    for name in missing:
        near = [
            key for key in blocks if key[0] != name and _joins(gates[key[0]].which[rows], key[1], missing[name][rows])
        ]
        if name not in chosen and near and not _depends(near[0][0], name, chosen):
            chosen[name] = near[0]
        if name in chosen:
            blocks[chosen[name]].append(name)
    return tuple(
        Skip(tuple(names), gate_name, tuple(gates[gate_name].labels[at] for at in asked))
        for (gate_name, asked), names in blocks.items()
    )


def _joins(which: IntArray, asked: Sequence[int], gone: BoolArray) -> bool:
    """Whether a question is missing nearly as the others of a block: by the answers [row] of their gate."""
    led = np.isin(which, asked)
    past = (which >= 0) & ~led
    nearly = _nearly_all(past.sum(), gone[past].sum(), BESIDE)
    return bool(nearly and gone[led].sum() <= ASKED * led.sum())


def _depends(gate: str, name: str, chosen: Mapping[str, tuple[str, Any]]) -> bool:
    """Whether a question decides, directly or not, about the gate."""
    while gate in chosen and gate != name:
        gate = chosen[gate][0]
    return gate == name


def _decides(which: Counts, n_labels: int, patterns: NDArray[np.float32], n_tests: int) -> dict[int, Found]:
    """The patterns of missing cells [pattern, row] that the answers of a gate decide."""
    # Rows without an answer of the gate are the last group.
    n_all = np.bincount(which, minlength=n_labels + 1)
    counts = np.rint(patterns @ np.eye(n_labels + 1, dtype=np.float32)[which]).astype(np.int64)
    n, found = n_all[:-1], {}
    for place in np.flatnonzero((_nearly_all(n, counts[:, :-1]) & (n > 0)).any(axis=1)):
        m = counts[place, :-1]
        past = _past(n, m, n_tests)
        rest = (n > 0) & ~past
        if past.any() and rest.any() and m[rest].sum() <= ASKED * n[rest].sum():
            asked = tuple(np.flatnonzero(~past).tolist())
            found[int(place)] = Found(asked, _cost(n_all, counts[place], len(which)))
    return found


def _nearly_all(n: Counts, m: Counts, most: float = EXCEPTIONS) -> BoolArray:
    """Whether nearly all of n rows are missing: all but a share, and one row more."""
    return n - m <= most * n + 1


def _past(n: Counts, m: Counts, n_tests: int) -> BoolArray:
    """Answers of a gate after which a question is not asked: [answer], by rows `n` and missing cells `m` of each."""
    likely = _nearly_all(n, m) & (m > n / 2)
    if not likely.all():
        answers = 1 - m[~likely].sum() / max(n[~likely].sum(), 1)
        likely &= _nearly_all(n, m, min(EXCEPTIONS, RELATIVE * float(answers)))
    n_rest, m_rest = int(n[~likely].sum()), int(m[~likely].sum())
    if not n_rest or m_rest > ASKED * n_rest:
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


def _cost(n: Counts, m: Counts, n_rows: int) -> float:
    """Nats that the gaps of a question cost given the answers of a gate, with a penalty for many answers."""
    p = np.clip(m / np.maximum(n, 1), 1e-12, 1 - 1e-12)
    return float(-(m * np.log(p) + (n - m) * np.log1p(-p)).sum() + 0.5 * (n > 0).sum() * np.log(n_rows))
