"""§3 A table as evidence: buckets of rows with the same width, to limit compilation and padding.

The slots of a row are the sites of the shared columns, then the items of each of its lists. A table without lists is
one bucket whose slots are its sites. Code outside this folder treats both cases alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo._once import cached_property
from thurbo.evidence.evidence import Evidence, Unobserved

LADDER = tuple(sorted({8 << k for k in range(14)} | {12 << k for k in range(13)}))  # widths: 8, 12, 16, 24, 32, 48, …
WIDTHS_TO_ASK = 8  # maximum of shapes that queries compile
WIDTHS_TO_FIT = ((20_000, 2), (1_000_000, 5))  # entries, and maximum of shapes that training compiles up to so many
CELLS = 1 << 15  # cells of lists in one chunk of a query
ROW_BUCKETS = (16, 128, 1024)  # rows of a table in one chunk of a query


class ListSlots(NamedTuple):
    """Lists of one column: its first site, the start of each row's entries, its first slot by bucket."""

    first_site: int
    start: np.ndarray  # [row + 1]
    first_slot: tuple[int, ...]  # [bucket]


@partial(jax.tree_util.register_dataclass, data_fields=["buckets", "places", "shared", "lists"], meta_fields=[])
@dataclass(frozen=True)
class Buckets:
    """Evidence of a table's rows.

    buckets  evidence of rows of one width each
    places   their row numbers in the table, [bucket][row of the bucket]
    shared   slot of each site in every row, −1 for sites that only lists have: [site]
    lists    the entries of each listed column; empty for a selection of rows
    """

    buckets: tuple[Evidence, ...]
    places: tuple[np.ndarray, ...]
    shared: np.ndarray
    lists: tuple[ListSlots, ...] = ()

    @property
    def n_rows(self) -> int:
        return sum(map(len, self.places))

    @property
    def n_cells(self) -> int:
        """Total number of slots, padding included."""
        return sum(len(place) * n_slots(bucket) for bucket, place in zip(self.buckets, self.places, strict=True))

    @property
    def sites_shared(self) -> bool:
        """Whether all rows have the same sites, as in a table without lists."""
        return all(bucket.sites_shared for bucket in self.buckets)

    @property
    def is_estimated(self) -> bool:
        """Whether the probability of some constraint is estimated, with a standard error."""
        return any(bucket.is_estimated for bucket in self.buckets)

    @property
    def spans_cells(self) -> bool:
        """Whether some constraint involves slots of different cells, so that a missing cell may be constrained."""
        return any(bucket.spans_cells for bucket in self.buckets)

    @property
    def has_own_models(self) -> bool:
        """Whether rows have their own models: lists, or missing cells that are not variables."""
        return any(bucket.present is not None for bucket in self.buckets)

    @cached_property
    def _home(self) -> tuple[np.ndarray, np.ndarray]:
        """Bucket of each row, and its position there."""
        which, position = np.zeros(self.n_rows, np.int32), np.zeros(self.n_rows, np.int64)
        for number, place in enumerate(self.places):
            which[place], position[place] = number, np.arange(len(place))
        return which, position

    def on_host(self) -> Buckets:
        """The same with NumPy arrays, which are sliced without compilation."""
        return replace(self, buckets=tuple(jax.tree.map(np.asarray, bucket) for bucket in self.buckets))

    def on_device(self) -> Buckets:
        """The same with arrays on the device, which compiled programs index without a copy."""
        return replace(self, buckets=tuple(map(jax.device_put, self.buckets)))

    def rows(self, index: np.ndarray) -> Buckets:
        """A selection of rows, with repetition allowed, numbered by their position in `index`."""
        which, position = (each[index] for each in self._home)
        buckets, places = [], []
        for number, bucket in enumerate(self.buckets):
            kept = np.flatnonzero(which == number)
            if len(kept):
                buckets.append(bucket.rows(position[kept]))
                places.append(kept)
        return Buckets(tuple(buckets), tuple(places), self.shared)

    def replaced(self, change: Callable[[Evidence], Evidence]) -> Buckets:
        """The same rows with other evidence of the same shape."""
        return replace(self, buckets=tuple(map(change, self.buckets)))

    # ---- slots

    def entry_slots(self, first_site: int) -> np.ndarray:
        """Slot of every entry of a listed column, [entry]."""
        own = next(each for each in self.lists if each.first_site == first_site)
        row = np.repeat(np.arange(len(own.start) - 1), np.diff(own.start))
        first = np.asarray(own.first_slot)[self._home[0][row]]
        return first + np.arange(len(row)) - own.start[row]

    def hide(self, row: np.ndarray, slot: np.ndarray, unobserved: Unobserved, always: bool = False) -> Buckets:
        """The evidence without the constraints on some slots: (row, slot) pairs.

        What all rows are known to have in common may be less than before; with `always` also if there are no pairs, so
        that it compiles to the same programs.
        """
        which, position = (each[row] for each in self._home)
        buckets = []
        for number, bucket in enumerate(self.buckets):
            own = which == number
            if own.any() or always:
                mask: Any = np.zeros((len(self.places[number]), n_slots(bucket)), bool)
                mask[position[own], slot[own]] = True
                bucket = bucket.hide(mask, unobserved) if bucket.is_on_host else _hide(bucket, mask, unobserved)
            buckets.append(bucket)
        return replace(self, buckets=tuple(buckets))

    # ---- batches of training, chunks of queries

    def batches(self, order: Sequence[np.ndarray], cells: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(bucket, its rows, which of these are real) for every batch; the last one is padded with repeated rows."""
        for number, (bucket, rows) in enumerate(zip(self.buckets, order, strict=True)):
            size = batch_rows(bucket, cells, len(rows))
            for begin in range(0, len(rows), size):
                taken = np.arange(begin, begin + size)
                yield number, rows[taken % len(rows)], taken < len(rows)

    def n_batches(self, cells: int) -> int:
        sizes = (batch_rows(bucket, cells, len(place)) for bucket, place in zip(self.buckets, self.places, strict=True))
        return sum(-(-len(place) // size) for size, place in zip(sizes, self.places, strict=True))

    def by_chunks(self, function: Callable[..., Any], *rowwise: Any, rows: int | None = None) -> Any:
        """Apply `function(evidence, *rowwise)` to all rows, one padded chunk at a time; returns NumPy arrays by row.

        Chunks are sliced on the host and have a few fixed lengths, or in a table all have `rows` rows: a table of a new
        length does not recompile.
        """
        rowwise = jax.tree.map(np.asarray, rowwise)
        parts, places = [], []
        for bucket, place in zip(self.on_host().buckets, self.places, strict=True):
            for begin, count, size in _chunks(bucket, len(place), rows):
                index = np.r_[begin : begin + count, np.full(size - count, begin)]
                own = (leaf[place[index]] for leaf in rowwise)
                chunk = function(bucket.rows(index), *own)
                parts.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], chunk))
                places.append(place[begin : begin + count])
        if len(self.buckets) == 1:
            return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        back = np.argsort(np.concatenate(places), kind="stable")
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[back], *parts)


_hide = jax.jit(Evidence.hide, static_argnames=("unobserved",))


def _chunks(bucket: Evidence, n_rows: int, rows: int | None) -> Iterator[tuple[int, int, int]]:
    """Start, number of rows and padded number of rows of every chunk."""
    largest = ROW_BUCKETS[-1] if bucket.sites_shared else max(1, CELLS // n_slots(bucket))
    if rows is not None and bucket.sites_shared:
        largest = rows
    for begin in range(0, n_rows, largest):
        count = min(largest, n_rows - begin)
        size = next((size for size in ROW_BUCKETS if size >= count), largest) if largest > 16 else largest
        yield begin, count, max(size, rows or 0) if bucket.sites_shared else size


def one_table(evidence: Evidence) -> Buckets:
    """A table without lists: slot i is site i."""
    return Buckets((evidence,), (np.arange(evidence.n_rows),), np.arange(n_slots(evidence)))


def n_slots(bucket: Evidence) -> int:
    """Slots of a bucket's rows, padding included."""
    return bucket.constraints[0].n_slots


def batch_rows(bucket: Evidence, cells: int, n_rows: int) -> int:
    """Number of rows of a batch with about the given number of cells."""
    return int(np.clip(cells // n_slots(bucket), 1, max(n_rows, 1)))


def widths(lengths: np.ndarray, most: int) -> np.ndarray:
    """A limited number of widths from the ladder with the least padding, by dynamic programming."""
    longest = int(lengths.max(initial=1))
    steps = [step for step in LADDER if step < longest] + [next((s for s in LADDER if s >= longest), longest)]
    counts = np.bincount(np.searchsorted(steps, lengths), minlength=len(steps))
    below = np.concatenate([[0], np.cumsum(counts)])
    best: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {
        (0, 0): (0.0, ())
    }  # (steps covered, widths used) → (slots, widths)
    for end in range(1, len(steps) + 1):
        for used in range(1, min(most, end) + 1):
            options = [
                (slots + (below[end] - below[begin]) * steps[end - 1], (*chosen, steps[end - 1]))
                for (begin, count), (slots, chosen) in best.items()
                if count == used - 1 and begin < end
            ]
            if options:
                best[end, used] = min(options)
    return np.asarray(min(value for (end, _), value in best.items() if end == len(steps))[1])


def widths_to_fit(n_entries: int) -> int:
    """The number of shapes for which compilation is worth its time."""
    return next((most for entries, most in WIDTHS_TO_FIT if n_entries <= entries), WIDTHS_TO_ASK)
