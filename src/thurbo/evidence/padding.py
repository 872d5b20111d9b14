"""§3 Tables of similar size as evidence of one shape, so that they share compiled programs.

Sites are reordered: those with boxes first, then the groups of choices. Each part is filled up to one of a few sizes
with sites that no row says anything about. Their parameters are zero: they add nothing, and their gradient is zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from thurbo.constraints import Constraint, Gauge
from thurbo.constraints.base import Movable
from thurbo.constraints.grouped import Slots
from thurbo.evidence.buckets import Buckets, n_slots
from thurbo.evidence.evidence import Evidence
from thurbo.rbm import Params

# Sizes to fill up to. Time grows with the number of sites: by an eighth at most on six surveys.
BOXES = (16, 32, 48, 64, 96, 128, 192, 256)  # sites that are levels or numbers
FEW_ITEMS = 6  # columns of choices with so many labels, and those with more ...
GROUPS = (1, 2, 4, 6, 8, 12, 16, 24, 32)  # ... are filled up to these numbers of columns
ITEMS = (9, 12, 16, 24, 32, 48, 64, 96)  # labels of the latter
FEW_BOXES, LEAST_GROUPS = 16, (4, 2)  # columns of either kind beside few other sites: one shape for small surveys
CUTS = (6, 12, 24, 48, 96)  # of a site
ROWS = (2048, 8192, 32768)  # of a table that is trained on
MOST_SLOTS = 300  # training of larger tables takes longer than compilation
MOST_ADDED = 64  # sites, beyond as many as the table has itself


def up(number: int, sizes: tuple[int, ...]) -> int:
    """The smallest of the sizes that holds a number; beyond the largest, a multiple of it."""
    return next((size for size in sizes if size >= number), -(-number // sizes[-1]) * sizes[-1])


class Padding(NamedTuple):
    """Where the sites of a table are in the common shape.

    place    slot of each site, [site]
    n_slots  number of slots of the common shape
    groups   slots of the groups of each constraint in the common shape, and the numbers of its own groups among these;
             None if it has no groups
    """

    place: np.ndarray
    n_slots: int
    groups: tuple[tuple[Slots, np.ndarray] | None, ...]

    @classmethod
    def of(cls, table: Buckets) -> Padding | None:
        """The padding of a table; None for tables with lists or with constraints between cells, and for large ones."""
        if len(table.buckets) != 1:
            return None
        evidence = table.buckets[0]
        groups = [_groups(each) for each in evidence.constraints]
        has_own_models = evidence.sites is not None or evidence.present is not None
        if has_own_models or not groups or any(each is None for each in groups):
            return None
        n_sites, place = n_slots(evidence), np.full(n_slots(evidence), -1)
        inside = [slot for own in groups for group in own or () for slot in group if slot >= 0]
        boxes = np.setdiff1d(np.arange(n_sites), inside)
        place[boxes] = np.arange(len(boxes))
        end = up(len(boxes), BOXES) if len(boxes) else 0
        known: dict[Slots, tuple[Slots, np.ndarray]] = {}
        for own, constraint in zip(groups, evidence.constraints, strict=True):
            if own and own not in known:
                are_choices, old = constraint.structure.are_choices, np.asarray(own)
                sizes, where = _choices(old, len(boxes) <= FEW_BOXES) if are_choices else _as_they_are(old)
                slots, end = _one_after_another(sizes, end)
                place[old[old >= 0]] = np.asarray(slots)[where, : old.shape[1]][old >= 0]
                known[own] = slots, where
        if end > min(MOST_SLOTS, 2 * n_sites + MOST_ADDED):
            return None
        return cls(place, end, tuple(known[own] if own else None for own in groups))

    def evidence(self, own: Evidence) -> Evidence:
        """Rows in the common shape, on the host."""
        constraints: list[Constraint] = []
        for each, groups in zip(own.constraints, self.groups, strict=True):
            if groups is None:
                constraints.append(each.embed(self.place, self.n_slots))
            else:
                constraints.append(cast(Movable, each).move(*groups, self.n_slots))
        cells: Any = None
        if own.cells is not None:
            cells = np.arange(self.n_slots, dtype=np.int32)
            cells[self.place] = self.place[np.asarray(own.cells)]
        return Evidence(tuple(constraints), None, None, cells)

    def table(self, own: Buckets) -> Buckets:
        """A table in the common shape. Rows that fill it up have no place: they are no part of it."""
        (evidence,), (rows,) = own.on_host().buckets, own.places
        index = np.concatenate([np.arange(len(rows)), np.zeros(up(len(rows), ROWS) - len(rows), np.int64)])
        return replace(own, buckets=(self.evidence(evidence).rows(index),), shared=self.place)

    def sites(self, own: Any, nothing: Any) -> np.ndarray:
        """Values by site in the common shape; `nothing` at sites that are added."""
        values = np.asarray(own)
        found = np.full((self.n_slots, *values.shape[1:]), nothing, values.dtype)
        found[self.place] = values
        return found

    def cuts(self, own: Any) -> np.ndarray:
        """Cuts by site in the common shape, +∞ where there is none."""
        more = up(max(own.shape[1], 1), CUTS) - own.shape[1]
        return self.sites(np.pad(np.asarray(own), ((0, 0), (0, more)), constant_values=np.inf), np.inf)

    def params(self, own: Params) -> Params:
        """Parameters in the common shape."""
        gauge = Gauge(self.cuts(own.gauge.cuts), self.sites(own.gauge.scale, 1.0))  # type: ignore[arg-type]
        by_site: dict[str, Any] = {
            name: self.sites(getattr(own, name), 0.0) for name in ("site_bias", "weights", "loadings")
        }
        return jax.device_put(own._replace(gauge=gauge, **by_site))

    def own_params(self, found: Params, n_cuts: int) -> Params:
        """Parameters of the table's own sites, with as many cuts as it has."""
        cuts, scale = np.asarray(found.gauge.cuts), np.asarray(found.gauge.scale)
        gauge: Any = Gauge(cuts[self.place, :n_cuts], scale[self.place])  # type: ignore[arg-type]
        by_site: dict[str, Any] = {
            name: np.asarray(getattr(found, name))[self.place] for name in ("site_bias", "weights", "loadings")
        }
        return jax.device_put(found._replace(gauge=gauge, **by_site))


def _groups(constraint: Constraint) -> Slots | None:
    """The groups of a constraint, none of a box; None if it cannot be moved to other slots."""
    about = constraint.structure
    return about.groups if about.couples else ()


def _choices(slots: np.ndarray, is_small: bool) -> tuple[list[int], np.ndarray]:
    """Sizes of groups to fill up to, first those with few items; and which of them each group becomes."""
    sizes = (slots >= 0).sum(axis=1)
    is_few = sizes <= FEW_ITEMS
    least = LEAST_GROUPS if is_small and sizes.max() <= ITEMS[0] else (0, 0)
    counts = np.maximum([is_few.sum(), (~is_few).sum()], least)
    n_few, n_more = (up(n, GROUPS) if n else 0 for n in counts.tolist())
    where = np.where(is_few, np.cumsum(is_few) - 1, n_few + np.cumsum(~is_few) - 1)
    return [FEW_ITEMS] * n_few + [up(int(sizes.max()), ITEMS)] * n_more, where


def _as_they_are(slots: np.ndarray) -> tuple[list[int], np.ndarray]:
    """The same for orders that are no choices, which would cost more time if they were filled up."""
    return (slots >= 0).sum(axis=1).tolist(), np.arange(len(slots))


def _one_after_another(sizes: list[int], first: int) -> tuple[Slots, int]:
    """Slots of groups of some sizes from `first` on, −1 beyond their items; and the end of them."""
    ends, most = first + np.cumsum(sizes), max(sizes)
    item = np.arange(most)[None, :]
    slots = np.where(item < np.asarray(sizes)[:, None], (ends - sizes)[:, None] + item, -1)
    return tuple(map(tuple, slots.tolist())), int(ends[-1])
