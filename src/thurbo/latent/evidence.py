"""§3 Evidence: the constraints of a batch of rows, as arrays over `[row, slot]`; a table is buckets of one width.

It holds the site of each slot, the slots that belong to each row's model, and the constraints on them. It is a pytree,
so a whole table is on the device and a batch is an index into it. `Buckets` limits compilation and padding; a table
without lists is one bucket whose slots are its sites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import or_
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._concurrency import cached_property
from thurbo._typing import Array, Float, Int, RowsMask
from thurbo.latent.constraints.base import Bounds, Constraint, Gauge, JointRegion, Region, log_mass_by_state, pytree
from thurbo.latent.constraints.box import BoxConstraint, BoxRegion
from thurbo.latent.rbm import Params, Sites, factor_whitener, gather

Unobserved = Literal["marginalize", "exclude"]


class Evidence(NamedTuple):
    """Constraints on the slots of a batch of rows.

    sites    which site each slot is; None if slot i is site i (a table)
    present  slots that belong to the row's model, M; None means all of them. An unobserved slot that is present is
             integrated over ("marginalize"); one that is absent is not a variable of that row ("exclude")
    cells    which slots are masked together: those of one cell, such as the utilities of a category's column; None
             if each slot is its own cell
    listed   slots that are items of a row's list, masked ones too: being listed may be a signal
    """

    constraints: tuple[Constraint, ...]
    sites: Sites | None = None
    present: RowsMask | None = None
    cells: Int[Array, " slot"] | None = None
    listed: RowsMask | None = None

    @property
    def n_rows(self) -> int:
        return jax.tree.leaves(self.constraints)[0].shape[0]

    @property
    def sites_shared(self) -> bool:
        """Whether all rows have the same sites, as in a table."""
        return self.sites is None or self.sites.ndim == 1

    @property
    def observed(self) -> RowsMask:
        """Slots that are constrained."""
        seen = reduce(or_, (c.observed for c in self.constraints))
        return seen if self.present is None else seen & self.present

    def n_answers(self, slots: RowsMask) -> Int[Array, " row"]:
        """Number of answers that have any of these slots: a choice among five categories is one of five slots."""
        if self.cells is None:
            return slots.sum(axis=-1)
        return jnp.zeros_like(slots).at[:, self.cells].max(slots).sum(axis=-1)

    @property
    def free(self) -> RowsMask:
        """Slots that belong to the model and are not constrained: integrated over."""
        return ~self.observed if self.present is None else self.present & ~self.observed

    def seen(self, params: Params) -> Params:
        """The parameters by slot of each row."""
        tasks = tuple(c.structure.tasks for c in self.constraints if c.structure.tasks is not None)
        return gather(params, self.sites, self.listed, tasks, self.present)

    @property
    def spans_cells(self) -> bool:
        """Whether any constraint may involve slots of different cells, so that cells are dependent given h."""
        return any(c.structure.spans_cells for c in self.constraints)

    @property
    def is_estimated(self) -> bool:
        """Whether log P(e | h) is estimated with a standard error."""
        return any(c.structure.is_estimated for c in self.constraints)

    @property
    def is_on_host(self) -> bool:
        """Whether cells can be hidden, and the observed ones be found, without compiling anything."""
        return not self.spans_cells and all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(self.constraints))

    @property
    def _boxes(self) -> list[BoxConstraint]:
        return [cast(BoxConstraint, c) for c in self.constraints if not c.structure.couples]

    @property
    def _coupled(self) -> list[Constraint]:
        return [c for c in self.constraints if c.structure.couples]

    def region(self, gauge: Gauge) -> Region:
        """Ω(e) for the current cuts and scales, by slot: the intersection of all boxes, and the coupled regions.

        Every slot belongs to one part: a region over several cells includes the boxes of its slots. Where the sites are
        those of a survey, boxes are not computed for slots that belong only to groups, which may be most of them.
        """
        own = [slot for c in self._coupled for slot in c.structure.own_slots]
        if own and not self.spans_cells and (self.sites is None or self._boxes):
            n_slots = gauge.scale.shape[-1]
            slots = np.setdiff1d(np.arange(n_slots), own)
            box = self._box([c.at(slots) for c in self._boxes], gauge.at(slots))
            box = replace(box, slots=tuple(slots.tolist()), n_slots=n_slots)
            return JointRegion((box, *(c.region(gauge) for c in self._coupled)))
        box, coupled = self._composed(gauge)
        return JointRegion((box, *coupled)) if coupled else box

    def _composed(self, gauge: Gauge) -> tuple[BoxRegion, list[Region]]:
        """The boxes of all slots that are not in a coupled region, and the coupled regions."""
        box, coupled = self._box(self._boxes, gauge), [c.region(gauge) for c in self._coupled]
        for place, region in enumerate(coupled):
            coupled[place], box = region.take_boxes(box)
        return box, coupled

    def _box(self, boxes: list[BoxConstraint], gauge: Gauge) -> BoxRegion:
        """The intersection of some boxes; open if there are none."""
        if boxes:
            return reduce(BoxRegion.intersect, [each.region(gauge) for each in boxes])
        free = jnp.full((self.n_rows, gauge.scale.shape[-1]), jnp.inf, gauge.scale.dtype)
        return BoxRegion(-free, free, jnp.zeros(free.shape, bool), jnp.zeros_like(free))

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """log P(e | h) of every row for each of many means, if all rows have the same sites."""
        if not self.spans_cells:
            return reduce(jnp.add, (c.log_mass_of_states(means, gauge) for c in self.constraints))
        pairs = list(zip(self._coupled, self._composed(gauge)[1], strict=True))
        spanning = [region for constraint, region in pairs if constraint.structure.spans_cells]
        taken = reduce(jnp.logical_or, (region.held for region in spanning))
        masses = [c.release(taken).log_mass_of_states(means, gauge) for c in self._boxes]
        masses += [c.log_mass_of_states(means, gauge) for c, _ in pairs if not c.structure.spans_cells]
        masses += [log_mass_by_state(region, means) for region in spanning]
        return reduce(jnp.add, masses)

    @property
    def are_levels(self) -> bool:
        """Whether every constraint says levels between learned cuts."""
        return all(c.structure.are_levels for c in self.constraints)

    def release(self, slots: RowsMask) -> Evidence:
        """Leave these slots unconstrained: masked cells with "marginalize"."""
        return self._replace(constraints=tuple(c.release(slots) for c in self.constraints))

    def hide(self, slots: RowsMask, unobserved: Unobserved) -> Evidence:
        """The evidence without these cells; with "exclude" they leave each row's model, too."""
        present = self.present
        if unobserved == "exclude":
            present = ~slots if present is None else present & ~slots
        return self.release(slots)._replace(present=present)

    def map_rows(self, change: Callable[[Any], Any], sites_shared: bool) -> Evidence:
        """The same with a function applied to every array that has a row axis."""
        sites = None if sites_shared else self.sites
        constraints, own, *rest = jax.tree.map(change, (self.constraints, sites, self.present, self.listed))
        return Evidence(constraints, self.sites if sites_shared else own, rest[0], self.cells, rest[1])

    def row_axes(self) -> Evidence:
        """Which leaves have a row axis, in the form `jax.vmap` takes."""
        found = self.map_rows(lambda _: 0, self.sites_shared)
        return found._replace(sites=None if self.sites_shared else found.sites, cells=None)

    def by_row(self, function: Callable[..., Any], *rowwise: Any) -> Any:
        """`function(evidence of one row, *values)` of every row, which may not depend on the others."""
        one = lambda row, *own: function(row.map_rows(lambda leaf: leaf[None], self.sites_shared), *own)  # noqa: E731
        return jax.vmap(one, in_axes=(self.row_axes(), *(0 for _ in rowwise)))(self, *rowwise)

    def rows(self, index: Int[Array, " batch"] | np.ndarray | slice) -> Evidence:
        """The evidence of some rows, in that order, on the host or on the device."""
        return self.map_rows(lambda leaf: leaf[index], self.sites_shared)


class Coded(NamedTuple):
    """Rows of a table in few bytes, as `fit.stream` keeps them.

    small, large  numbers of patterns, of one and of two bytes, [row, unit]
    lower, upper  numbers that are no patterns, NaN where there is none, [row, number]; the upper end of a point is NaN
    tier          places in orders that are no patterns, −1 where there is none, [row, item]
    weight        how much each row counts; 0 for rows that only fill up a batch
    """

    small: Any
    large: Any
    lower: Any
    upper: Any
    tier: Any
    weight: Any


class CodedSlots(NamedTuple):
    """Which column of each array of `Coded` a slot has, −1 for none: [slot]; codes count `small` and then `large`."""

    code: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    tier: tuple[int, ...]


def widened(patterns: Evidence, rows: Coded, slots: CodedSlots) -> Evidence:
    """Rows as evidence: of each slot, what the pattern with its number says, or the number or place that is kept."""

    def by_slot(arrays: Sequence[Any], nothing: Any, kind: Any, where: tuple[int, ...]) -> Any:
        none = jnp.full((rows.weight.shape[0], 1), nothing, kind)
        if max(where, default=-1) < 0:
            return jnp.broadcast_to(none, (none.shape[0], len(where)))
        every = jnp.concatenate([none, *(each.astype(kind) for each in arrays)], axis=1)
        return jnp.take(every, np.asarray(where) + 1, axis=1, mode="clip")

    code = by_slot([rows.small, rows.large], 0, jnp.int32, slots.code)
    lower = by_slot([rows.lower], jnp.nan, rows.weight.dtype, slots.lower)
    upper = by_slot([rows.upper], jnp.nan, rows.weight.dtype, slots.upper)
    has_tiers = max(slots.tier, default=-1) >= 0
    tier = by_slot([rows.tier], -1, jnp.int32, slots.tier) if has_tiers else jnp.zeros((code.shape[0], 0), jnp.int32)
    constraints = tuple(each.looked_up(code, Bounds(lower, upper), tier) for each in patterns.constraints)
    present: Any = patterns.present
    if present is not None:
        present = jnp.take_along_axis(jnp.asarray(present), code, axis=0) | ~jnp.isnan(lower)
        present = present | (tier >= 0) if has_tiers else present
    return Evidence(constraints, None, present, patterns.cells)


LADDER = tuple(sorted({8 << k for k in range(14)} | {12 << k for k in range(13)}))  # widths: 8, 12, 16, 24, 32, 48, …
CELLS = 1 << 15  # cells of lists in one chunk of a query
ROW_BUCKETS = (16, 128, 1024)  # rows of a table in one chunk of a query


class ListSlots(NamedTuple):
    """Lists of one column: its first site, the start of each row's entries, its first slot by bucket."""

    first_site: int
    start: np.ndarray  # [row + 1]
    first_slot: tuple[int, ...]  # [bucket]


class Clamp(NamedTuple):
    """What is constant while chains or mean-field run on a batch: all that depends only on parameters and evidence."""

    params: Params  # gathered by slot
    region: Region
    observed: RowsMask
    present: RowsMask | None
    whitener: Float[Array, "row factor factor"] | None  # of the covariance of z; None without factors


def clamp(params: Params, evidence: Evidence, region: Region | None = None) -> Clamp:
    """Bring parameters and evidence together, once for many sweeps; `region` is that of the evidence, if known."""
    seen = evidence.seen(params)
    observed = evidence.observed
    whitener = factor_whitener(seen, observed) if params.n_factors else None
    region = evidence.region(seen.gauge) if region is None else region
    return Clamp(seen, region, observed, evidence.present, whitener)


@pytree("buckets", "places", "shared", "lists")
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

    def entry_slots(self, first_site: int) -> np.ndarray:
        """Slot of every entry of a listed column, [entry]."""
        _, start, first_slot = next(each for each in self.lists if each.first_site == first_site)
        row = np.repeat(np.arange(len(start) - 1), np.diff(start))
        return np.asarray(first_slot)[self._home[0][row]] + np.arange(len(row)) - start[row]

    def hide(self, row: np.ndarray, slot: np.ndarray, unobserved: Unobserved, always: bool = False) -> Buckets:
        """The evidence without the constraints on some slots, as (row, slot) pairs.

        Rows may then have less in common; with `always` also those without pairs, so that all share their programs.
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

    def batches(self, order: Sequence[np.ndarray], cells: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(bucket, its rows, which of these are real) for every batch; the last one is padded with repeated rows."""
        for number, (bucket, rows) in enumerate(zip(self.buckets, order, strict=True)):
            size = batch_rows(bucket, cells, len(rows))
            for begin in range(0, len(rows), size):
                taken = np.arange(begin, begin + size)
                yield number, rows[taken % len(rows)], taken < len(rows)

    def n_batches(self, cells: int) -> int:
        return sum(1 for _ in self.batches(self.places, cells))

    def by_chunks(
        self, function: Callable[..., Any], *rowwise: Any, rows: int | Callable[[Evidence], int] | None = None
    ) -> Any:
        """Apply `function(evidence, *rowwise)` to all rows, one padded chunk at a time; returns NumPy arrays by row.

        Chunks are sliced on the host and have a few fixed lengths, so that a table of a new length does not recompile;
        or all have as many `rows`: a number for tables, or a function of the bucket.
        """
        rowwise = jax.tree.map(np.asarray, rowwise)
        parts, places = [], []
        for bucket, place in zip(self.on_host().buckets, self.places, strict=True):
            fixed = rows(bucket) if callable(rows) else rows if bucket.sites_shared else None
            largest = fixed or (ROW_BUCKETS[-1] if bucket.sites_shared else max(1, CELLS // n_slots(bucket)))
            is_alone = self.n_rows == 1 and not bucket.sites_shared  # one user of a service
            lengths = (1, *ROW_BUCKETS) if is_alone else ROW_BUCKETS
            for begin in range(0, len(place), largest):
                count = min(largest, len(place) - begin)
                size = fixed or next((size for size in lengths if count <= size < largest), largest)
                index = np.r_[begin : begin + count, np.full(size - count, begin)]
                chunk = function(bucket.rows(index), *(leaf[place[index]] for leaf in rowwise))
                parts.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], chunk))
                places.append(place[begin : begin + count])
        if len(self.buckets) == 1:
            return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        back = np.argsort(np.concatenate(places), kind="stable")
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[back], *parts)


_hide = jax.jit(Evidence.hide, static_argnames=("unobserved",))


def n_slots(bucket: Evidence) -> int:
    """Slots of a bucket's rows, padding included."""
    return bucket.constraints[0].n_slots


def batch_rows(bucket: Evidence, cells: int, n_rows: int) -> int:
    """Number of rows of a batch with about the given number of cells."""
    return int(np.clip(cells // n_slots(bucket), 1, max(n_rows, 1)))


def widths(lengths: Sequence[int], price: int = 0, most: int | None = None) -> list[int]:
    """Widths to pad lengths to: least padding, by dynamic programming; each costs `price`, and there are `most`."""
    counts = Counter(lengths)
    sizes = sorted(counts)

    @cache
    def best(end: int, left: int) -> tuple[int | float, list[int]]:
        """Cost and widths of the smallest `end` sizes, with at most `left` widths."""
        if not end or not left:
            return float("inf") if end else 0, []
        options = ((begin, *best(begin, left - 1)) for begin in range(end))
        last, n = sizes[end - 1], [counts[size] for size in sizes[:end]]
        return min((cost + price + last * sum(n[begin:]), [*own, last]) for begin, cost, own in options)

    return best(len(sizes), most or len(sizes))[1]


def list_widths(lengths: np.ndarray, most: int) -> np.ndarray:
    """A limited number of widths from the ladder with the least padding."""
    longest = int(lengths.max(initial=1))
    last = next((step for step in LADDER if step >= longest), longest)
    steps = np.asarray([*(step for step in LADDER if step < longest), last])
    return np.asarray(widths(steps[np.searchsorted(steps, lengths)].tolist() or [last], most=most))
