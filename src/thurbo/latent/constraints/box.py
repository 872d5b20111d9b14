"""§3.1 Boxed constraints: every variable confined on its own, A = I.

`Box` is a measured number, interval or censored value; `Levels` a binary or ordinal answer between learned cuts.
Both become a `BoxRegion`, whose sweep is exact in one colour (§4.1) and whose mass is a product of Φ differences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, Int, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent import truncnorm
from thurbo.latent.constraints.base import (
    Bounds,
    Constraint,
    Gauge,
    Region,
    Structure,
    Triple,
    log_mass_by_state,
    numpy_for,
    pick,
    pytree,
    rescale,
)

B = TypeVar("B", bound="BoxConstraint")
MOST_UNROLLED = 12  # cuts of a level column that are selected one by one


@pytree("lower", "upper", "point", "log_scale", "half", "exact")
class BoxRegion(Region):
    """Ω(e) = Π_i [b_i, c_i] in latent units; `point` marks exact values, however narrow other boxes are.

    `half` promises that there are no points, and that no box has two finite ends, as of yes or no: masses and means
    then cost a third. `exact` promises that there are only points: they then need no truncated normal. Each is () or
    None, so that it is part of the structure and not of the arrays. `slots` are those of `n_slots` that the arrays are
    about, where groups hold all others: masses and means are computed for these only. None are all.
    """

    lower: Rows
    upper: Rows
    point: RowsMask
    log_scale: Rows  # subtracted from a point's log-density: it is given in standard units, x in latent ones
    half: tuple[()] | None = None
    exact: tuple[()] | None = None
    slots: tuple[int, ...] | None = None
    n_slots: int = 0

    @property
    def draws_exactly(self) -> bool:
        return True

    @property
    def held(self) -> RowsMask:
        return jnp.ones(self._whole().lower.shape, bool)

    def _own(self, value: Any) -> Any:
        """The values of its slots."""
        return value if self.slots is None else pick(value, np.asarray(self.slots, np.int32), -1)

    def _whole(self) -> BoxRegion:
        """The same over all slots, open at those of groups."""
        if self.slots is None:
            return self

        def place(value: Array, rest: float | bool) -> Array:
            whole = jnp.full((*value.shape[:-1], self.n_slots), rest, value.dtype)
            return whole.at[..., np.asarray(self.slots, np.int32)].set(value)

        ends = place(self.lower, -jnp.inf), place(self.upper, jnp.inf)
        return BoxRegion(*ends, place(self.point, False), place(self.log_scale, 0.0), self.half, self.exact)

    def start(self, mean: Rows) -> Rows:
        return jnp.clip(mean, *self.bounds(mean))

    def bounds(self, x: Rows) -> Bounds:
        """[b_i, c_i], whatever the others are."""
        whole = self._whole()
        return Bounds(whole.lower, whole.upper)

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """Every slot at once, exactly (§4.1)."""
        return truncnorm.sample(key, mean, *self.bounds(x))

    def log_mass_by_slot(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> Rows:
        """log[Φ((c−μ)/σ) − Φ((b−μ)/σ)] of every slot; log φ((b−μ)/σ) − log σ − log scale where it is a point."""
        lower, upper, log_unit = self.lower, self.upper, self.log_scale
        if deviation is not None:
            lower, upper, mean = rescale(lower, deviation), rescale(upper, deviation), mean / deviation
            log_unit = log_unit + jnp.log(deviation)
        if self.half is not None:
            return truncnorm.log_mass(mean, lower, upper, half=True)
        # Where there is a point, the box is open, and where there is none, the point is 0: all gradients are finite.
        density = truncnorm.log_density(mean, jnp.where(self.point, lower, 0.0)) - log_unit
        if self.exact is not None:
            return jnp.where(self.point, density, 0.0)
        ends = jnp.where(self.point, -jnp.inf, lower), jnp.where(self.point, jnp.inf, upper)
        return jnp.where(self.point, density, truncnorm.log_mass(mean, *ends))

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h) = Σ_i log[Φ(c_i − μ_i) − Φ(b_i − μ_i)], §4.4."""
        deviation = None if deviation is None else self._own(deviation)
        return self.log_mass_by_slot(self._own(mean), deviation).sum(axis=-1)

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        """The mass of the masked slots alone: given h, slots are independent."""
        return self.release(~masked).log_mass(mean, deviation)

    def mean(self, mean: Rows) -> Rows:
        """The truncated mean of §4.3; the value itself where it is a point."""
        if self.slots is None:
            return self._mean(mean)
        if not self.slots:  # all slots are of groups
            return mean
        own = self._own(mean)
        place = (np.asarray(self.slots)[:, None] == np.arange(self.n_slots)[None, :]).astype(mean.dtype)
        # A matrix product, as in `Groups.add_to_slots`: the gradient of a gather is slow.
        return mean + jnp.matmul(self._mean(own) - own, jnp.asarray(place), precision=jax.lax.Precision.HIGHEST)

    def _mean(self, mean: Rows) -> Rows:
        if self.half is not None:
            return truncnorm.mean(mean, self.lower, self.upper, half=True)
        if self.exact is not None:
            return jnp.where(self.point, self.lower, mean)
        # Open at points, where the formula then has finite values and gradients.
        ends = jnp.where(self.point, -jnp.inf, self.lower), jnp.where(self.point, jnp.inf, self.upper)
        return jnp.where(self.point, self.lower, truncnorm.mean(mean, *ends))

    def release(self, slots: RowsMask) -> BoxRegion:
        gone = self._own(slots)
        lower, upper = jnp.where(gone, -jnp.inf, self.lower), jnp.where(gone, jnp.inf, self.upper)
        return replace(self, lower=lower, upper=upper, point=self.point & ~gone)

    def stretch(self, by: Float[Array, ""] | float) -> BoxRegion:
        return replace(self, lower=self.lower * by, upper=self.upper * by)

    def intersect(self, other: BoxRegion) -> BoxRegion:
        """Both boxes at once; a slot is a point if either says so."""
        ends = jnp.maximum(self.lower, other.lower), jnp.minimum(self.upper, other.upper)
        log_scale = jnp.where(other.point, other.log_scale, self.log_scale)
        return BoxRegion(*ends, self.point | other.point, log_scale)

    def as_linear(self, row: int) -> Triple:
        """⟨A = I, b, c⟩ of the slots that are confined."""
        whole = self._whole()
        lower, upper = np.asarray(whole.lower[row]), np.asarray(whole.upper[row])
        confined = np.isfinite(lower) | np.isfinite(upper)
        return np.eye(len(lower))[confined], lower[confined], upper[confined]


class BoxConstraint(Constraint):
    """A constraint that confines every slot on its own, as arrays `[row, slot]`."""

    nothing: ClassVar[dict[str, Any]]  # its arrays, and what each holds where nothing is said

    @property
    def n_slots(self) -> int:  # type: ignore[override]
        return jax.tree.leaves(self)[0].shape[1]

    @abstractmethod
    def region(self, gauge: Gauge) -> BoxRegion: ...

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """Several states are mapped together: enough to fill the vector units, few enough to stay in cache."""
        return log_mass_by_state(self.region(gauge), means, min(8, means.shape[0]))

    def _by(self: B, change: Callable[[Any, Any], Any]) -> B:
        """The same with other arrays, from the old ones and what says nothing."""
        own = {name: getattr(self, name) for name in self.nothing}
        fresh = {name: change(value, self.nothing[name]) for name, value in own.items() if value is not None}
        return replace(self, **fresh)  # type: ignore[type-var]

    def at(self: B, slots: np.ndarray) -> B:
        """What is said about some slots, the same in every row."""
        return self._by(lambda value, _: pick(value, slots, -1))

    def embed(self: B, slots: np.ndarray, n_slots: int) -> B:
        def place(value: Any, nothing: Any) -> np.ndarray:
            own = np.asarray(value)
            every = np.full((len(own), n_slots), nothing, own.dtype)
            every[:, slots] = own
            return every

        return self._by(place)

    def release(self: B, slots: RowsMask) -> B:
        return self._by(lambda value, nothing: numpy_for(value).where(slots, value.dtype.type(nothing), value))

    def looked_up(self: B, code: Int[Array, "row slot"], numbers: Bounds, tier: Int[Array, "row place"]) -> B:
        return self._by(lambda value, _: jnp.take_along_axis(jnp.asarray(value), code, axis=0))


@pytree("lower", "upper", "point", "exact")
class Box(BoxConstraint):
    """A measured number (point), an interval or a censored value: b ≤ z ≤ c in standard units, x = z / scale.

    `exact` promises that only points say anything, as in `BoxRegion`.
    """

    lower: Any  # Rows; unannotated since a tree of axes or specs is a Box too
    upper: Any
    point: Any  # RowsMask
    exact: tuple[()] | None = None
    nothing = {"lower": -np.inf, "upper": np.inf, "point": False}  # noqa: RUF012

    @property
    def structure(self) -> Structure:
        return Structure()

    @property
    def observed(self) -> RowsMask:
        return self.point | (self.lower > -jnp.inf) | (self.upper < jnp.inf)

    def looked_up(self, code: Int[Array, "row slot"], numbers: Bounds, tier: Int[Array, "row place"]) -> Box:
        found = super().looked_up(code, numbers, tier)
        known, is_point = ~jnp.isnan(numbers.lower), jnp.isnan(numbers.upper)
        lower = jnp.where(known, numbers.lower, found.lower)
        upper = jnp.where(known, jnp.where(is_point, numbers.lower, numbers.upper), found.upper)
        return replace(found, lower=lower, upper=upper, point=found.point | (known & is_point))

    def region(self, gauge: Gauge) -> BoxRegion:
        scale = jnp.broadcast_to(gauge.scale, self.lower.shape)
        lower = rescale(self.lower, scale)
        # One division for a point: two could be rounded differently and give lower > upper.
        upper = jnp.where(self.point, lower, rescale(self.upper, scale))
        return BoxRegion(lower, upper, self.point, jnp.log(scale), exact=self.exact)


@pytree("code", "high")
class Levels(BoxConstraint):
    """A binary or ordinal answer, Eqs (6) and (7): level l means θ_{l−1} ≤ x ≤ θ_l, cuts from 0; code −1 says nothing.

    `high` is the last of several neighbouring levels that an answer leaves open; None where every answer is one level.
    """

    code: Any  # Int[Array, "row slot"]
    high: Any = None
    nothing = {"code": -1, "high": -1}  # noqa: RUF012

    @property
    def structure(self) -> Structure:
        return Structure(are_levels=True)

    @property
    def observed(self) -> RowsMask:
        return self.code >= 0

    def region(self, gauge: Gauge) -> BoxRegion:
        cuts, shape, n_cuts = gauge.cuts, self.code.shape, gauge.cuts.shape[-1]
        high = self.code if self.high is None else self.high
        if n_cuts > MOST_UNROLLED:  # by indexing: one `where` for each cut would take minutes to compile
            ends = jnp.broadcast_to(_with_ends(cuts), (*shape, n_cuts + 2))
            first = jnp.where(high >= 0, self.code, jnp.zeros_like(high))
            last = jnp.where(high >= 0, high + 1, jnp.full_like(high, n_cuts + 1))
            lower, upper = (jnp.take_along_axis(ends, at[..., None], axis=-1)[..., 0] for at in (first, last))
        else:  # selects fuse; a gather by code does not
            lower, upper = jnp.full(shape, -jnp.inf, cuts.dtype), jnp.full(shape, jnp.inf, cuts.dtype)
            for cut in range(n_cuts):
                threshold = jnp.broadcast_to(cuts[..., cut], shape)
                lower = jnp.where(self.code == cut + 1, threshold, lower)
                upper = jnp.where(high == cut, threshold, upper)
        half = () if n_cuts <= 1 else None
        return BoxRegion(lower, upper, jnp.zeros(shape, bool), jnp.zeros(shape, cuts.dtype), half)

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """One table of log-probabilities per state, slot and level serves every row: the sum is a matrix product."""
        if self.high is not None:
            return super().log_mass_of_states(means, gauge)
        ends = _with_ends(gauge.cuts)
        lower, upper = ends[:, :-1], ends[:, 1:]
        real = lower < jnp.inf  # beyond a site's last level both ends are +∞
        lower, upper = jnp.where(real, lower, -jnp.inf), jnp.where(real, upper, jnp.inf)
        table = truncnorm.log_mass(means[:, :, None], lower[None], upper[None])
        level = jnp.arange(lower.shape[1]).astype(self.code.dtype)
        answered = (self.code[:, :, None] == level[None, None, :]).astype(table.dtype)
        # A level that underflows has log-probability −∞, and 0 · ∞ in the product would be NaN.
        table = jnp.maximum(table, jnp.finfo(table.dtype).min / 1e6)
        return jnp.einsum("hil,ril->hr", table, answered)


def _with_ends(cuts: Float[Array, "*site cut"]) -> Float[Array, "*site end"]:
    """−∞, the cuts, and ∞."""
    end = jnp.full((*cuts.shape[:-1], 1), jnp.inf, cuts.dtype)
    return jnp.concatenate([-end, cuts, end], axis=-1)
