"""§4.3 The predictive distribution of a column's answers, each given all other evidence in its row.

`Question` combines a table and a model; `about(name)` gives the predictions that the form of one column needs. Each
prediction is an expectation over the hidden layer of a function of the mean and deviation of x at some sites. By
mean-field these are computed once; by enumeration and by Gibbs sampling the function is averaged over states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.forms import Lines
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import Buckets, Unobserved, n_slots
from thurbo.evidence.padding import Padding
from thurbo.queries import distributions, gates
from thurbo.queries.asked import Asked, ListedAsked, SharedAsked, TaskAsked
from thurbo.queries.features import How
from thurbo.rbm import Params
from thurbo.schema import Schema

SMALL, FEW_ROWS = 2048, 128  # rows of a small survey, and of one chunk: one program for one row and for all of it


class Known(NamedTuple):
    """The mean-field posterior given all cells of each row, on the host: enough to predict any missing cell.

    mean, deviation  of x at the shared slots, [row, slot]
    hidden, factors, whitener  of the hidden layer, for items of lists; None without lists
    """

    mean: np.ndarray
    deviation: np.ndarray
    hidden: np.ndarray | None = None
    factors: np.ndarray | None = None
    whitener: np.ndarray | None = None


@dataclass(frozen=True)
class Question:
    """A model and the evidence of a table."""

    params: Params
    schema: Schema
    blocks: Mapping[str, Block]
    evidence: Buckets
    how: How
    routes: gates.Routes = field(default_factory=dict)  # of gates whose follow-up questions are evidence about them
    given: tuple[str, ...] = ()  # columns whose cells are conditions of the query, not answers of the rows

    @cached_property
    def known(self) -> Known | None:
        """The posterior of each row; None if inequalities may constrain a missing cell, or if states are averaged."""
        if self.how.method != "mean-field" or self.evidence.spans_cells:
            return None
        return Known(*self.moments(self.evidence, np.zeros(0, np.int64)))

    @cached_property
    def _padded(self) -> tuple[Padding, Params] | None:
        """The common shape of tables of similar size, and the parameters in it; None if this table has its own."""
        padding = Padding.of(self.evidence)
        return None if padding is None else (padding, padding.params(self.params))

    def moments(self, evidence: Buckets, hidden: np.ndarray) -> Any:
        """Moments at all shared slots by mean-field given what rows say, except for the slots `hidden`.

        These are hidden on the host, so that all columns share one program.
        """
        padded, keep = self._padded, bool(self.evidence.lists)
        params = self.params if padded is None else padded[1]
        sites: Any = np.flatnonzero(self.evidence.shared >= 0).astype(np.int32)
        if padded is not None:
            sites = np.arange(padded[0].n_slots, dtype=np.int32)

        def chunk(rows: Evidence) -> Any:
            own = np.zeros(n_slots(rows), bool)
            own[hidden] = True
            rest = distributions.hidden(rows, own, self.how)
            rest = rest if padded is None else padded[0].evidence(rest)
            return distributions.all_moments(params, rest, sites, self.how, keep)

        found = evidence.by_chunks(chunk, rows=FEW_ROWS if evidence.n_rows <= SMALL and _on_cpu() else None)
        return found if padded is None else tuple(each[:, padded[0].place] for each in found)

    @cached_property
    def _patterned(self) -> list[tuple[str, tuple[str, ...]]]:
        """Columns that say which questions were answered, and these questions."""
        return [(name, column.patterned) for name, column in self.schema.items() if column.patterned]

    def signals(self, name: str) -> np.ndarray:
        """Slots that only say whether this one question was answered: no evidence about its answer.

        Of a gate also those that say whether its follow-up questions were answered: `likelihood` has this evidence.
        """
        follow = {each for route in self.routes.get(name, ()) for each in route.columns}
        columns = [
            other for other, patterned in self._patterned if patterned == (name,) or follow.issuperset(patterned)
        ]
        sites = [self.evidence.shared[self.schema.slices[other]] for other in columns]
        return np.concatenate([np.zeros(0, np.int64), *sites]).astype(np.int64)

    @cached_property
    def seen(self) -> np.ndarray:
        """Which slots have evidence, [row, slot]."""
        return np.asarray(self.evidence.by_chunks(distributions.observed))

    def likelihood(self, name: str, rows: np.ndarray) -> np.ndarray | None:
        """P(which follow-up questions each row answered | label of this gate), [row, label]; None for other columns."""
        if name not in self.routes:
            return None
        asked = [other for other in self.schema.with_sites if other not in (name, *self.given)]
        asked = [other for other in asked if self.schema[other].role == "answer" and not self.schema[other].is_listed]
        slots = {other: self.evidence.shared[self.schema.slices[other]] for other in asked}
        if not all(column in slots for route in self.routes[name] for column in route.columns):
            return None
        return gates.likelihood(self.routes[name], slots, self.seen[rows])

    def about(self, name: str, lines: Lines | None = None, own: bool = True) -> Asked:
        """The answers of a column: of all rows, or of some lines. With `own` its own cell is part of the evidence."""
        column = self.schema[name]
        form = column.form  # raises an error for a column that is not part of the model
        assert form is not None
        first = self.schema.slices[name].start
        if not column.is_listed:
            rows = np.arange(self.evidence.n_rows) if lines is None else np.asarray(lines.row)
            return SharedAsked(self, name, Lines(rows, np.zeros(len(rows), np.int64)), own, first)
        if lines is None:
            entries = self.blocks[name].entries
            assert entries is not None
            lines = Lines(entries.row, entries.site)
        return (TaskAsked if column.has_tasks else ListedAsked)(self, name, lines, own, first)

    def rows(self, index: np.ndarray) -> Question:
        """Some rows of the same table."""
        return replace(self, evidence=self.evidence.rows(index))

    def by(self, how: How) -> Question:
        """The same question, answered by another method."""
        return replace(self, how=how)

    def hide(self, masked: Mapping[str, np.ndarray]) -> Question:
        """The same table without the answers at the given lines of columns, [line] each."""
        rest = without(self.schema, self.blocks, self.evidence, masked, self.how.unobserved)
        return replace(self, evidence=rest)


def without(
    schema: Schema,
    blocks: Mapping[str, Block],
    evidence: Buckets,
    masked: Mapping[str, np.ndarray],
    unobserved: Unobserved,
    always: bool = False,
) -> Buckets:
    """Evidence without the answers at the given lines of columns, [line] each; `always` as in `Buckets.hide`.

    Nor does it say that questions were answered if all their answers are among these.
    """
    masked = dict(masked)
    for name, column in schema.items():
        if column.patterned:
            kept = [blocks[q].answered & ~masked.get(q, False) for q in column.patterned if q in blocks]
            masked[name] = (blocks[name].code[:, 0] == 1) & ~np.any(kept, axis=0)
    row, slot = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, lines in masked.items():
        where, entries = schema.slices[name], blocks[name].entries
        if entries is not None:
            row.append(entries.row[lines])
            slot.append(evidence.entry_slots(where.start)[lines])
            continue
        rows, own = np.flatnonzero(lines), evidence.shared[where]
        row.append(np.repeat(rows, len(own)))
        slot.append(np.tile(own, len(rows)))
    return evidence.hide(np.concatenate(row), np.concatenate(slot), unobserved, always).on_host()


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"
