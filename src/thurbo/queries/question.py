"""§4.3 The predictive distribution of a column's answers, each given all other evidence in its row.

`Question` combines a table and a model; `about(name)` gives the predictions that the form of one column needs. Each
prediction is an expectation over the hidden layer of a function of the mean and deviation of x at some sites. By
mean-field these are computed once; by enumeration and by Gibbs sampling the function is averaged over states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo._once import cached_property
from thurbo.columns.block import Block
from thurbo.columns.forms import Lines
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import ROW_BUCKETS, Buckets, Unobserved, n_slots
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

    def rows(self, index: np.ndarray) -> Known:
        return Known(*(leaf[index] for leaf in self if leaf is not None))


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
        return self.known_about(self.evidence)

    def known_about(self, evidence: Buckets) -> Known | None:
        """The posterior of each of some other rows, by the same program as that of the table's own."""
        if self.how.method != "mean-field" or evidence.spans_cells:
            return None
        nothing: np.ndarray = np.zeros(0, np.int64)
        if self._is_independent and evidence.n_rows:
            own = self.moments(evidence.rows(np.zeros(1, np.int64)), nothing)
            return Known(*(np.broadcast_to(leaf, (evidence.n_rows, *leaf.shape[1:])) for leaf in own))
        return Known(*self.moments(evidence, nothing))

    @cached_property
    def _is_independent(self) -> bool:
        """Whether no answer says anything about another one: then the predictions are the same in all rows."""
        parts = self.params.weights, self.params.loadings
        return not self.evidence.lists and not any(np.any(np.asarray(each)) for each in parts)

    @cached_property
    def _shaped(self) -> tuple[Padding | None, Params]:
        """The common shape of tables of similar size, if this is one, and the parameters in it.

        As new arrays: for those that are bound to a device, as some that programs return, JAX would compile again.
        """
        padding = Padding.of(self.evidence)
        params = self.params if padding is None else padding.params(self.params)
        return padding, jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)), params)

    def moments(self, evidence: Buckets, hidden: np.ndarray) -> Any:
        """Moments at all shared slots by mean-field given what rows say, except for the slots `hidden`.

        These are hidden on the host, so that all columns share one program.
        """
        (padding, params), keep = self._shaped, bool(self.evidence.lists)
        sites: Any = np.flatnonzero(self.evidence.shared >= 0).astype(np.int32)
        if padding is not None:
            sites = np.arange(padding.n_slots, dtype=np.int32)

        def chunk(rows: Evidence) -> Any:
            own = np.zeros(n_slots(rows), bool)
            own[hidden] = True
            rest = distributions.hidden(rows, own, self.how)
            rest = rest if padding is None else padding.evidence(rest)
            return distributions.all_moments(params, rest, sites, self.how, keep)

        found = evidence.by_chunks(chunk, rows=self._rows_at_once)
        return found if padding is None else tuple(each[:, padding.place] for each in found)

    @property
    def _rows_at_once(self) -> int | None:
        """Rows of one chunk. Some rows of a table are asked like all of them, so that they share a program."""
        if self.evidence.n_rows > (SMALL if _on_cpu() else FEW_ROWS):
            return ROW_BUCKETS[-1]
        return FEW_ROWS if _on_cpu() else None

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
        """Some rows of the same table; what is already known about them is kept."""
        found, known = replace(self, evidence=self.evidence.rows(index)), self.__dict__.get("known")
        if known is not None:
            found.__dict__["known"] = known.rows(index)
        return found

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
    rows: np.ndarray | None = None,
) -> Buckets:
    """Evidence without the answers at the given lines of columns, [line] each; `always` as in `Buckets.hide`.

    Nor does it say that questions were answered if all their answers are among these. With `rows` only of some rows of
    a table without lists.
    """
    masked = dict(masked)
    for name, column in schema.items():
        if column.patterned:
            kept = [blocks[q].answered & ~masked.get(q, False) for q in column.patterned if q in blocks]
            masked[name] = (blocks[name].code[:, 0] == 1) & ~np.any(kept, axis=0)
    if rows is not None:
        evidence, masked = evidence.rows(rows), {name: lines[rows] for name, lines in masked.items()}
    row, slot = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, lines in masked.items():
        where, entries = schema.slices[name], blocks[name].entries
        if entries is not None:
            row.append(entries.row[lines])
            slot.append(evidence.entry_slots(where.start)[lines])
            continue
        places, own = np.flatnonzero(lines), evidence.shared[where]
        row.append(np.repeat(places, len(own)))
        slot.append(np.tile(own, len(places)))
    return evidence.hide(np.concatenate(row), np.concatenate(slot), unobserved, always).on_host()


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"
