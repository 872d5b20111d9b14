"""§3 Evidence: the constraints of a batch of rows, as arrays over `[row, slot]`.

It holds the site of each slot, the slots that belong to each row's model, and the constraints on them. It is a pytree,
so a whole table is on the device and a batch is an index into it.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, Int, Rows, RowsMask
from thurbo.constraints import BoxConstraint, BoxRegion, Constraint, Gauge, JointRegion, Region, SomeBoxes
from thurbo.constraints.base import log_mass_by_state
from thurbo.rbm import Params, Sites, gather

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
        free = ~reduce(or_, (c.observed for c in self.constraints))
        return free if self.present is None else free & self.present

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

        Every slot belongs to one part: a region over several cells includes the boxes of its slots. Boxes are not
        computed for slots that belong only to groups: in a survey, most or all slots may belong to its categories (not
        in rows with sites of their own, of which some slots only fill up).
        """
        own = [slot for c in self._coupled for slot in c.structure.own_slots]
        if own and not self.spans_cells and (self.sites is None or self._boxes):
            return self._region_without(own, gauge)
        box, coupled = self._composed(gauge)
        return JointRegion((box, *coupled)) if coupled else box

    def _composed(self, gauge: Gauge) -> tuple[BoxRegion, list[Region]]:
        """The boxes of all slots that are not in a coupled region, and the coupled regions."""
        boxes, coupled = [c.region(gauge) for c in self._boxes], [c.region(gauge) for c in self._coupled]
        box = reduce(BoxRegion.intersect, boxes) if boxes else self._open_box(gauge)
        for place, region in enumerate(coupled):
            coupled[place], box = region.take_boxes(box)
        return box, coupled

    def _region_without(self, named: list[int], gauge: Gauge) -> Region:
        """The same without boxes on the slots in `named`."""
        n_slots = gauge.scale.shape[-1]
        slots = np.setdiff1d(np.arange(n_slots), named)
        own = gauge.at(slots)
        boxes = [c.at(slots).region(own) for c in self._boxes]
        box = reduce(BoxRegion.intersect, boxes) if boxes else self._open_box(own)
        coupled = [c.region(gauge) for c in self._coupled]
        return JointRegion((SomeBoxes(box, tuple(slots.tolist()), n_slots), *coupled))

    def _open_box(self, gauge: Gauge) -> BoxRegion:
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

    def mean_of_state(self, mean: Float[Array, " slot"], gauge: Gauge) -> Rows:
        """E[x | e] of every row for x ~ N(mean, I), if all rows have the same sites and this mean."""
        if len(self.constraints) == 1 and self._boxes:
            return self._boxes[0].mean_of_state(mean, gauge)
        region = self.region(gauge)
        return region.mean(jnp.broadcast_to(mean, (self.n_rows, mean.shape[0])))

    @property
    def are_levels(self) -> bool:
        """Whether every constraint says levels between learned cuts."""
        return all(c.structure.are_levels for c in self.constraints)

    def release(self, slots: RowsMask) -> Evidence:
        """Leave these slots unconstrained: masked cells with "marginalize"."""
        return self._replace(constraints=tuple(c.release(slots) for c in self.constraints))

    def drop(self, slots: RowsMask) -> Evidence:
        """Remove these slots from each row's model: masked cells with "exclude"."""
        present = ~slots if self.present is None else self.present & ~slots
        return self.release(slots)._replace(present=present)

    def hide(self, slots: RowsMask, unobserved: Unobserved) -> Evidence:
        """The evidence without these cells, for either value of `unobserved`."""
        return self.drop(slots) if unobserved == "exclude" else self.release(slots)

    def row_axes(self) -> Evidence:
        """Which leaves have a row axis, in the form `jax.vmap` takes."""
        return Evidence(
            jax.tree.map(lambda _: 0, self.constraints),
            None if self.sites_shared else 0,  # type: ignore[arg-type]
            None if self.present is None else 0,  # type: ignore[arg-type]
            None,
            None if self.listed is None else 0,  # type: ignore[arg-type]
        )

    def lift(self, sites_shared: bool) -> Evidence:
        """A batch of one row from the evidence of that row alone, as seen inside `jax.vmap` over rows."""
        add = lambda leaf: leaf[None]  # noqa: E731
        return Evidence(
            jax.tree.map(add, self.constraints),
            self.sites if self.sites is None or sites_shared else add(self.sites),
            None if self.present is None else add(self.present),
            self.cells,
            None if self.listed is None else add(self.listed),
        )

    def rows(self, index: Int[Array, " batch"] | np.ndarray | slice) -> Evidence:
        """The evidence of some rows, in that order."""
        take = lambda leaf: leaf[index]  # noqa: E731  (on the host or on the device)
        return Evidence(
            jax.tree.map(take, self.constraints),
            self.sites if self.sites_shared else take(self.sites),
            None if self.present is None else take(self.present),
            self.cells,
            None if self.listed is None else take(self.listed),
        )
