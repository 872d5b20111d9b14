"""§3 Rows that each have sites of their own: padded to a few widths, so that little is compiled and little is wasted.

`Ragged` is evidence in buckets, `[row, slot]` each, with the sites of ordinary columns first and then a row's items.
Rows of like length share a bucket; a batch has as many rows as make about the same number of cells in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.constraints import Box, Levels, OneOf, Order
from thurbo.constraints.order import CLOSER_SCALE, shape_of
from thurbo.evidence import Constraint, Evidence

LADDER = tuple(sorted({8 << k for k in range(14)} | {12 << k for k in range(13)}))  # widths: 8, 12, 16, 24, 32, 48, …
WIDTHS_TO_ASK = 8  # shapes that queries compile at most
WIDTHS_TO_FIT = ((20_000, 2), (1_000_000, 5))  # entries, and shapes that training compiles for so many at most
CELLS = 1 << 15  # cells of a chunk that a query works on at a time


class Lists(NamedTuple):
    """Items that rows list, in sites of the whole model, and whether codes are levels or tiers."""

    start: np.ndarray  # [row + 1]
    site: np.ndarray  # [entry]
    code: np.ndarray  # [entry]
    are_levels: bool


class Ragged(NamedTuple):
    """Evidence of rows in buckets of one width each; `places` are the rows of a bucket in the table."""

    buckets: tuple[Evidence, ...]
    places: tuple[np.ndarray, ...]

    @property
    def n_rows(self) -> int:
        return sum(map(len, self.places))

    @property
    def n_cells(self) -> int:
        """Slots in all, padding included."""
        return sum(len(place) * width(bucket) for bucket, place in zip(self.buckets, self.places, strict=True))

    def rows(self, index: np.ndarray) -> Ragged:
        """Some rows, in an order of the buckets' own, numbered by their place in `index`."""
        new_place = np.full(int(max((place.max(initial=-1) for place in self.places), default=-1)) + 1, -1)
        new_place[index] = np.arange(len(index))
        buckets, places = [], []
        for bucket, place in zip(self.buckets, self.places, strict=True):
            kept = np.flatnonzero(new_place[place] >= 0)
            if len(kept):
                buckets.append(bucket.rows(kept))
                places.append(new_place[place[kept]])
        return Ragged(tuple(buckets), tuple(places))

    def on_device(self) -> Ragged:
        """The same with arrays that compiled programs index without a copy."""
        return self._replace(buckets=tuple(jax.tree.map(jnp.asarray, bucket) for bucket in self.buckets))

    def batches(self, order: Sequence[np.ndarray], cells: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(bucket, rows of it, which of these are real) for every batch, a last one filled up with rows over again."""
        for number, (bucket, rows) in enumerate(zip(self.buckets, order, strict=True)):
            size = batch_rows(bucket, cells, len(rows))
            for begin in range(0, len(rows), size):
                taken = np.arange(begin, begin + size)
                yield number, rows[taken % len(rows)], taken < len(rows)

    def n_batches(self, cells: int) -> int:
        sizes = (batch_rows(bucket, cells, len(place)) for bucket, place in zip(self.buckets, self.places, strict=True))
        return sum(-(-len(place) // size) for size, place in zip(sizes, self.places, strict=True))

    def by_chunks(self, function: Callable[..., Any], *rowwise: Any) -> Any:
        """Apply `function(evidence, *rowwise)` to all rows, a padded chunk at a time; arrays by row come back."""
        parts, places = [], []
        for bucket, place in zip(self.buckets, self.places, strict=True):
            size = max(1, CELLS // width(bucket))
            for begin in range(0, len(place), size):
                taken = np.arange(begin, begin + size)
                index = np.where(taken < len(place), taken, begin)
                count = int((taken < len(place)).sum())
                own = (leaf[place[index]] for leaf in rowwise)
                chunk = function(jax.tree.map(np.asarray, bucket.rows(index)), *own)
                parts.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], chunk))
                places.append(place[begin : begin + count])
        back = np.argsort(np.concatenate(places), kind="stable")
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[back], *parts)


Packed = Evidence | Ragged  # a table's rows as evidence


def width(bucket: Evidence) -> int:
    """Slots of a bucket's rows."""
    assert bucket.sites is not None
    return int(bucket.sites.shape[1])


def batch_rows(bucket: Evidence, cells: int, n_rows: int) -> int:
    """Rows of a batch of about so many cells."""
    return int(np.clip(cells // width(bucket), 1, max(n_rows, 1)))


def widths(lengths: np.ndarray, most: int) -> np.ndarray:
    """At most so many steps of the ladder, the padding they cost least: a dynamic program over the ladder."""
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
    """How many shapes are worth their compilation."""
    return next((most for entries, most in WIDTHS_TO_FIT if n_entries <= entries), WIDTHS_TO_ASK)


def pack_lists(lists: Lists, ordinary: Evidence | None, most: int) -> Ragged:
    """Lists beside the ordinary columns of the same rows (None without any), in at most so many widths (0: a fit's)."""
    lengths = np.diff(lists.start)
    steps = widths(lengths, most or widths_to_fit(len(lists.site)))
    bucket_of = np.searchsorted(steps, lengths)
    buckets, places = [], []
    for number, step in enumerate(steps.tolist()):
        rows = np.flatnonzero(bucket_of == number)
        if len(rows):
            buckets.append(_bucket(lists, ordinary, rows, int(step)))
            places.append(rows)
    return Ragged(tuple(buckets), tuple(places))


def _bucket(lists: Lists, ordinary: Evidence | None, rows: np.ndarray, step: int) -> Evidence:
    begin, length = lists.start[rows], lists.start[rows + 1] - lists.start[rows]
    real = np.arange(step)[None, :] < length[:, None]
    entry = (begin[:, None] + np.arange(step)[None, :])[real]
    site: Any = np.zeros(real.shape, np.int32)
    site[real] = lists.site[entry]
    code = np.full(real.shape, -1, lists.code.dtype)
    code[real] = lists.code[entry]
    if ordinary is None:
        in_list: Any = real
        return Evidence(_of_lists(code, lists.are_levels, 0), site, in_list, None, in_list)
    own = jax.tree.map(np.asarray, ordinary).rows(rows)
    assert own.present is not None
    n_own = own.present.shape[1]
    constraints = [_wider(each, step) for each in own.constraints]
    for each in _of_lists(code, lists.are_levels, n_own):
        both = next((place for place, c in enumerate(constraints) if isinstance(c, Levels)), None)
        if isinstance(each, Levels) and both is not None:
            constraints[both] = _beside(constraints[both], each)
        else:
            constraints.append(each)
    shared = np.broadcast_to(np.arange(n_own, dtype=np.int32), (len(rows), n_own))
    cells: Any = None
    if own.cells is not None:
        cells = np.concatenate([np.asarray(own.cells), np.arange(n_own, n_own + step, dtype=np.int32)])
    sites: Any = np.concatenate([shared, site], axis=1)
    every: Any = np.concatenate([own.present, real], axis=1)
    listed: Any = np.concatenate([np.zeros_like(own.present), real], axis=1)
    return Evidence(tuple(constraints), sites, every, cells, listed)


def _of_lists(code: np.ndarray, are_levels: bool, n_own: int) -> tuple[Constraint, ...]:
    """What the lists say, in slots that begin after the ordinary ones."""
    if are_levels:
        before = np.full((len(code), n_own), -1, code.dtype)
        both: Any = np.concatenate([before, code], axis=1)
        return (Levels(both, None),)
    tier: Any = code[:, None, :].astype(np.int32)
    slots = (tuple(range(n_own, n_own + code.shape[1])),)
    depth, breadth = shape_of(tier)
    depth = 1 << (max(depth, 2) - 1).bit_length()  # few shapes
    return (Order(tier, slots, n_own + code.shape[1], depth, breadth, None, mass="gumbel", gumbel_scale=CLOSER_SCALE),)


def _wider(constraint: Constraint, by: int) -> Constraint:
    """A constraint of ordinary columns with so many slots more, of which it says nothing."""
    if isinstance(constraint, Box):
        lower, upper = _padded(constraint.lower, by, -np.inf), _padded(constraint.upper, by, np.inf)
        return Box(lower, upper, _padded(constraint.point, by, False))
    if isinstance(constraint, Levels):
        high = None if constraint.high is None else _padded(constraint.high, by, -1)
        return Levels(_padded(constraint.code, by, -1), high)
    if isinstance(constraint, (Order, OneOf)):
        return replace(constraint, n_slots=constraint.n_slots + by)
    raise NotImplementedError("lines between ordinary columns beside lists")


def _padded(values: Any, by: int, fill: float) -> Any:
    return np.pad(np.asarray(values), ((0, 0), (0, by)), constant_values=fill)


def _beside(own: Any, items: Levels) -> Levels:
    """Levels of ordinary slots and of list slots in one."""
    code: Any = np.maximum(own.code, items.code)
    high: Any = None if own.high is None else np.maximum(own.high, items.code)
    return Levels(code, high)
