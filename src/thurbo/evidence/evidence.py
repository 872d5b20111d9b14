"""§3 Evidence: what a batch of rows says, as arrays over `[row, slot]`.

Which sites the slots are, which of them belong to each row's model, and the constraints on them. A pytree, so a whole
table lives on the device and a batch is an index into it.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, Int, RowsMask
from thurbo.constraints import (
    Box,
    BoxRegion,
    Gauge,
    JointRegion,
    Levels,
    Linear,
    LinearRegion,
    OneOf,
    Order,
    Region,
    SomeBoxes,
)
from thurbo.rbm import Params, Sites, gather

Unobserved = Literal["marginalize", "exclude"]
Constraint = Box | Levels | Order | OneOf | Linear  # the forms known so far; each is one file in constraints/


class Evidence(NamedTuple):
    """Constraints on the slots of a batch of rows.

    sites    which site each slot is; None where slot i is site i (a table)
    present  slots that belong to the row's model, M; None means all of them. An unobserved slot that is present is
             integrated over ("marginalize"); one that is absent is no variable of that row at all ("exclude")
    cells    which slots stand or fall together when answers are hidden: the utilities of one category's column; None
             where each slot is a cell of its own
    listed   slots that are items of a row's list, hidden ones too: that they are in it may speak for itself
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
        """Slots that are confined."""
        seen = reduce(jnp.logical_or, (c.observed for c in self.constraints))
        return seen if self.present is None else seen & self.present

    @property
    def free(self) -> RowsMask:
        """Slots that belong to the model and are not confined: integrated over."""
        free = ~reduce(jnp.logical_or, (c.observed for c in self.constraints))
        return free if self.present is None else free & self.present

    def seen(self, params: Params) -> Params:
        """The parameters as seen from the slots of each row."""
        return gather(params, self.sites, self.listed)

    def region(self, gauge: Gauge) -> Region:
        """Ω(e) under the current cuts and scales, gathered by slot: all boxes as one, and what couples slots beside.

        Lines take over the boxes of the slots they name, so that every slot belongs to one part. Boxes are not asked
        about slots that groups hold alone: in a survey those of its categories may be most of them.
        """
        groups = [c for c in self.constraints if isinstance(c, (Order, OneOf)) and c.alone and c.slots is not None]
        if groups and len(groups) < len(self.constraints) and not any(isinstance(c, Linear) for c in self.constraints):
            return self._narrow(gauge, groups)
        regions = [c.region(gauge) for c in self.constraints]
        boxes = [region for region in regions if isinstance(region, BoxRegion)]
        coupled = [region for region in regions if not isinstance(region, BoxRegion)]
        box = reduce(BoxRegion.intersect, boxes) if boxes else self._open_box(gauge)
        for place, region in enumerate(coupled):
            if isinstance(region, LinearRegion):
                coupled[place], box = region.within(box), box.release(region.held)
        return JointRegion((box, *coupled)) if coupled else box

    def _narrow(self, gauge: Gauge, groups: list[Order | OneOf]) -> Region:
        n_slots = groups[0].n_slots
        named = np.concatenate([np.asarray(group.slots).reshape(-1) for group in groups])
        slots = np.setdiff1d(np.arange(n_slots), named)
        own = gauge.at(slots)
        boxes = [c.at(slots).region(own) for c in self.constraints if isinstance(c, (Box, Levels))]
        coupled = [c.region(gauge) for c in self.constraints if isinstance(c, (Order, OneOf))]
        return JointRegion((SomeBoxes(reduce(BoxRegion.intersect, boxes), tuple(slots.tolist()), n_slots), *coupled))

    def _open_box(self, gauge: Gauge) -> BoxRegion:
        free = jnp.full(self.constraints[0].observed.shape, jnp.inf, gauge.scale.dtype)
        return BoxRegion(-free, free, jnp.zeros(free.shape, bool), jnp.zeros_like(free))

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """log P(e | h) of every row for every one of many means, where all rows share their sites."""
        lines = [c for c in self.constraints if isinstance(c, Linear)]
        others = [c for c in self.constraints if not isinstance(c, Linear)]
        if not lines:
            return reduce(jnp.add, (c.log_mass_of_states(means, gauge) for c in others))
        held = reduce(jnp.logical_or, (c.held for c in lines))
        masses = [c.release(held).log_mass_of_states(means, gauge) for c in others if isinstance(c, (Box, Levels))]
        masses += [c.log_mass_of_states(means, gauge) for c in others if not isinstance(c, (Box, Levels))]
        parts = self.region(gauge)
        assert isinstance(parts, JointRegion)
        masses += [part.log_mass_of_states(means) for part in parts.parts if isinstance(part, LinearRegion)]
        return reduce(jnp.add, masses)

    def release(self, slots: RowsMask) -> Evidence:
        """Leave these slots unconstrained: hidden cells under "marginalize"."""
        return self._replace(constraints=tuple(c.release(slots) for c in self.constraints))

    def drop(self, slots: RowsMask) -> Evidence:
        """Take these slots out of each row's model: hidden cells under "exclude"."""
        present = ~slots if self.present is None else self.present & ~slots
        return self.release(slots)._replace(present=present)

    def hide(self, slots: RowsMask, unobserved: Unobserved) -> Evidence:
        """What is left when these cells are not known, under either reading of "unobserved"."""
        return self.drop(slots) if unobserved == "exclude" else self.release(slots)

    def row_axes(self) -> Evidence:
        """Which leaves have a row axis, in the form `jax.vmap` asks for."""
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

    def rows(self, index: Int[Array, " batch"] | np.ndarray) -> Evidence:
        """The evidence of some rows, in that order."""
        take = lambda leaf: leaf[index]  # noqa: E731  (on the host or on the device)
        return Evidence(
            jax.tree.map(take, self.constraints),
            self.sites if self.sites_shared else take(self.sites),
            None if self.present is None else take(self.present),
            self.cells,
            None if self.listed is None else take(self.listed),
        )
