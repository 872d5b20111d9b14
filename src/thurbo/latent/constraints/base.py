"""§3 The contract of a constraint: where may each latent variable be, given all the others?

A `Constraint` is data, in the units it was observed in. Together with the learned `Gauge` it becomes a `Region` of
x-space, once per parameter update; inner loops work on regions and need neither cuts nor scales.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial, reduce
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, Int, PerRow, PRNGKey, Rows, RowsMask
from thurbo.errors import inequality


class Context(NamedTuple):
    """What earlier choices of a ranking do to later ones (`RepeatedChoice`).

    after          what the k-th item of the same ranking adds to the utility of this item once it was chosen; zero
                   for other sites, and for an item and itself
    log_precision  of the j-th choice of a ranking, at its j-th site; zero for the first, and for other sites
    """

    after: Float[Array, "*site item"]
    log_precision: Float[Array, "*site"]


class Gauge(NamedTuple):
    """The learned numbers that turn an observation at a site into an inequality on x.

    cuts     θ, increasing along the last axis, +∞ beyond the last cut of a site: Eqs (6), (7)
    scale    x = z / scale for a measured z in standard units; 1 for level sites
    context  of rankings that are choices one after another; None if there are none
    """

    cuts: Float[Array, "*site cut"]
    scale: Float[Array, "*site"]
    context: Context | None = None

    def at(self, slots: np.ndarray) -> Gauge:
        """Cuts and scales of some slots; works before and after gathering by row."""
        return self.by(lambda value, axis: pick(value, slots, axis))

    def by(self, take: Callable[[Any, int], Any]) -> Gauge:
        """All arrays with other sites, which are the axis that `take` is told, counted from the last one."""
        context = self.context
        if context is not None:
            context = Context(take(context.after, -2), take(context.log_precision, -1))
        return Gauge(take(self.cuts, -2), take(self.scale, -1), context)


MOST_SLOTS_OF_PRODUCT = 512  # the cost of a product grows with the square of their number, that of a loop does not


def numpy_for(value: Any) -> Any:
    """NumPy for an array on the host, where nothing should be compiled; JAX's NumPy otherwise."""
    return np if isinstance(value, np.ndarray) else jnp


def pick(value: Any, places: np.ndarray, axis: int) -> Any:
    """Some places along an axis that are known when the program is compiled: a slice if they are consecutive."""
    if isinstance(value, np.ndarray):
        return np.take(value, places, axis=axis)
    if len(places) and places.ndim == 1 and (np.diff(places) == 1).all():
        return jax.lax.slice_in_dim(jnp.asarray(value), int(places[0]), int(places[-1]) + 1, axis=axis)
    take = partial(jnp.take, indices=places, axis=axis, mode="clip")  # all are inside: nothing has to be filled in
    value = jnp.asarray(value)
    is_last = axis in (-1, value.ndim - 1) and value.ndim > 1
    if not is_last or not jnp.issubdtype(value.dtype, jnp.floating) or value.shape[axis] > MOST_SLOTS_OF_PRODUCT:
        return take(value)
    # The gradient is a product with zeros and ones. XLA's own on a CPU is a loop over places, of several operations
    # each: in a survey of many choices, these were most operations of an update, and a fifth of its compilation.
    one_hot = (np.arange(value.shape[-1])[:, None] == places[None, :]).astype(value.dtype)
    move = lambda dx: jnp.matmul(dx, jnp.asarray(one_hot), precision=jax.lax.Precision.HIGHEST)  # noqa: E731
    taken = jax.custom_jvp(take)
    taken.defjvp(lambda x, dx: (take(*x), move(*dx)))
    return taken(value)


@dataclass_transform(frozen_default=True)
def pytree(*arrays: str) -> Callable[[type[T]], type[T]]:
    """Make a frozen dataclass a tree of these fields; the others are known when a program is compiled."""

    def register(cls: type[T]) -> type[T]:
        made = dataclass(frozen=True)(cls)
        others = [each.name for each in fields(made) if each.name not in arrays]  # type: ignore[arg-type]
        return jax.tree_util.register_dataclass(made, list(arrays), others)

    return register


class Bounds(NamedTuple):
    """The interval of every slot given all the others, §4.2."""

    lower: Rows
    upper: Rows


T = TypeVar("T")
R = TypeVar("R", bound="Region")
C = TypeVar("C", bound="Constraint")
Triple = tuple[np.ndarray, np.ndarray, np.ndarray]  # ⟨A, b, c⟩
InUnits = Callable[[int, float, float], str] | None  # (slot, lower, upper) in latent units → in the user's, or ""


class Region(ABC):
    """One factor of the domain Ω(e) = {x : b ≤ Ax ≤ c}, Eq. (5), in latent units.

    A form gives its mathematics: the abstract methods below. What follows from them, and what nearly all forms share
    (an exact mass, no boxes of its own), is defined here; a form that has a shorter way overrides it.
    """

    @property
    @abstractmethod
    def held(self) -> RowsMask:
        """Slots that this region draws. A box holds all slots; a coupled region on the same slots takes precedence."""

    @abstractmethod
    def start(self, mean: Rows) -> Rows:
        """A point inside the region, near the mean; the mean itself where the region says nothing."""

    @abstractmethod
    def bounds(self, x: Rows) -> Bounds:
        """Interval of every slot given all the others, §4.2; lower = upper where a point fixes x."""

    @abstractmethod
    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h), §4.4, for x ~ N(mean, deviation²), unit deviation by default; a point adds log φ."""

    @abstractmethod
    def release(self: R, slots: RowsMask) -> R:
        """The same region, saying nothing about `slots`."""

    @abstractmethod
    def stretch(self: R, by: Float[Array, ""]) -> R:
        """The region of `by` · x: at temperature T, x / √T is a unit normal in the region stretched by 1 / √T."""

    @abstractmethod
    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """One step of a Markov chain that leaves N(mean, I) on Ω invariant; only the slots in `held` are used."""

    @abstractmethod
    def as_linear(self, row: int) -> Triple:
        """The paper's triple ⟨A, b, c⟩ of one row, on the host; tests compare every form with it."""

    @property
    def parts(self) -> tuple[Region, ...]:
        """The regions on disjoint slots whose intersection this is; itself where it is not a joint region."""
        return (self,)

    @property
    def mass(self) -> str:
        """How `log_mass` is computed: "exact", "gumbel" (A.3) or "separation of variables" (an estimate)."""
        return "exact"

    @property
    def draws_exactly(self) -> bool:
        """Whether `draw` is independent of the x before it: of boxes; elsewhere it is one step of a chain."""
        return False

    @property
    def is_convex(self) -> bool:
        """Whether Ω is one set of inequalities, so that `as_linear` exists for every row; a union is not."""
        return True

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        """Whether each row's x satisfies its inequalities."""
        lower, upper = self.bounds(x)
        return ((lower <= x) & (x <= upper)).all(axis=-1)

    def log_mass_error(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """Standard error of `log_mass`, in nats; zero unless the mass is estimated."""
        return jnp.zeros(self.held.shape[0], mean.dtype)

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        """log P(what the masked slots say | what the others say) = log_mass(all) − log_mass(others).

        `whole` promises that each group of coupled slots is masked completely or not at all, which saves one mass.
        """
        if whole:
            return self.release(~masked).log_mass(mean, deviation)
        return self.log_mass(mean, deviation) - self.release(masked).log_mass(mean, deviation)

    def mean(self, mean: Rows) -> Rows:
        """E[x | x ∈ Ω] for x ~ N(mean, I): mean + ∂ log_mass / ∂ mean."""
        return mean + jax.grad(lambda m: self.log_mass(m).sum())(mean)

    def smooth(self) -> Region:
        """The version that mean-field differentiates: Gumbel masses for orders (A.3), otherwise the same region."""
        return self

    def take_boxes(self, box: Any) -> tuple[Region, Any]:
        """This region together with the boxes of its slots, where it needs them, and the boxes that are left."""
        return self, box

    def describe(self, row: int, names: Sequence[str], in_units: InUnits = None) -> tuple[str, ...]:
        """What one row says, in words: one sentence for each inequality, with the name of every slot."""
        words = []
        A, b, c = (np.asarray(part, np.float64) for part in self.as_linear(row))
        for line, lower, upper in zip(A, b, c, strict=True):
            named = np.flatnonzero(line).tolist()
            text = inequality({names[slot]: float(line[slot]) for slot in named}, lower, upper)
            if len(named) == 1:
                slot, weight = named[0], float(line[named[0]])
                if lower == upper:
                    text = f"{names[slot]} = {lower / weight:.4g}"
                units = in_units(slot, *sorted((lower / weight, upper / weight))) if in_units else ""
                text = f"{text} ({units})" if units else text
            words.append(text)
        return tuple(words)


class Structure(NamedTuple):
    """What is known about a constraint without looking at arrays: it decides which program is compiled.

    couples       it ties slots together; if not, it is a `BoxConstraint`, and its region a `BoxRegion`
    spans_cells   it may tie slots of different cells, and its region takes over the boxes of these slots
    is_estimated  its mass is an estimate with a standard error
    own_slots     slots that no box confines in any row, as promised on the host; empty where nothing is promised
    tasks         comparisons with noise of their own, as (first slot, number of tasks, slots of each): a site may have
                  a slot in several of them; None where a site has one slot at most
    groups        slots of each of its groups, −1 for padding, if `Groups.move` can put them elsewhere; None if not
    are_choices   whether these put one item above the others, so that items that take no part cost little
    are_levels    whether it says levels between learned cuts and nothing else
    """

    couples: bool = False
    spans_cells: bool = False
    is_estimated: bool = False
    own_slots: tuple[int, ...] = ()
    tasks: tuple[int, int, int] | None = None
    groups: tuple[tuple[int, ...], ...] | None = None
    are_choices: bool = False
    are_levels: bool = False


class Constraint(ABC):
    """What a batch of rows says, in the units it was observed in; `n_slots` slots in a row, padding included."""

    n_slots: int

    @property
    @abstractmethod
    def structure(self) -> Structure:
        """What is known about it without looking at arrays."""

    @property
    @abstractmethod
    def observed(self) -> RowsMask:
        """Slots about which the row says anything."""

    @abstractmethod
    def region(self, gauge: Gauge) -> Region:
        """The inequalities on x under the current cuts and scales (already gathered by slot)."""

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """log P(e | h) of every row for every one of many means, where all rows share their sites."""
        return log_mass_by_state(self.region(gauge), means)

    @abstractmethod
    def embed(self: C, slots: np.ndarray, n_slots: int) -> C:
        """The same in rows of `n_slots`, on the host: its slot i becomes slot `slots[i]`, and the others are free."""

    @abstractmethod
    def release(self: C, slots: RowsMask) -> C:
        """The same constraint, saying nothing about `slots`."""

    def looked_up(self: C, code: Int[Array, "row slot"], numbers: Bounds, tier: Int[Array, "row place"]) -> C:
        """Rows of which slot i says what row `code[:, i]` of this constraint does; or the numbers or tiers that are
        given, NaN and −1 where none are; the upper end of a point is NaN, too."""
        raise NotImplementedError(f"{type(self).__name__} is read as a whole")


def rescale(value: Float[Array, "*shape"], scale: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """value / scale, with a zero gradient instead of 0 · ∞ where the value is infinite."""
    finite = jnp.isfinite(value)
    return jnp.where(finite, jnp.where(finite, value, jnp.zeros_like(value)) / scale, value)


def log_mass_by_state(
    region: Region, means: Float[Array, "state slot"], at_once: int | None = None
) -> Float[Array, "state row"]:
    """log P(e | h) of every row, one mean after another or a few `at_once`."""
    one = jax.checkpoint(lambda mean: region.log_mass(mean[None, :]))
    return jax.lax.map(one, means, batch_size=at_once)


@pytree("each")
class JointRegion(Region):
    """Ω(e) = ∩ parts, each confining slots of its own."""

    each: tuple[Region, ...]

    @property
    def parts(self) -> tuple[Region, ...]:
        return self.each

    @property
    def draws_exactly(self) -> bool:
        return all(part.draws_exactly for part in self.parts)

    @property
    def is_convex(self) -> bool:
        return all(part.is_convex for part in self.parts)

    @property
    def held(self) -> RowsMask:
        return reduce(jnp.logical_or, (part.held for part in self.parts))

    @property
    def mass(self) -> str:
        """What the parts say, each once."""
        return ", ".join(dict.fromkeys(part.mass for part in self.parts))

    def start(self, mean: Rows) -> Rows:
        """Each part's start on its own slots; a sum of differences could be rounded to a point outside."""
        starts = (part.start(mean) for part in self.parts)
        return reduce(lambda x, start: jnp.where(start == mean, x, start), starts, mean)

    def bounds(self, x: Rows) -> Bounds:
        """The narrowest of the parts' intervals; all but one are the whole line."""
        lower, upper = zip(*(part.bounds(x) for part in self.parts), strict=True)
        return Bounds(reduce(jnp.maximum, lower), reduce(jnp.minimum, upper))

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> Rows:
        """Each part draws its own slots; parts share no slots, so their order does not matter."""
        fresh = x
        for number, part in enumerate(self.parts):
            fresh = jnp.where(part.held, part.draw(jax.random.fold_in(key, number), x, mean), fresh)
        return fresh

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        return reduce(jnp.add, (part.log_mass(mean, deviation) for part in self.parts))

    def log_mass_error(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """Estimates of different parts are independent: their variances add."""
        return reduce(jnp.hypot, (part.log_mass_error(mean, deviation) for part in self.parts))

    def mass_of_masked(self, mean: Rows, deviation: Rows, masked: RowsMask, whole: bool = False) -> PerRow:
        return reduce(jnp.add, (part.mass_of_masked(mean, deviation, masked, whole) for part in self.parts))

    def smooth(self) -> JointRegion:
        return JointRegion(tuple(part.smooth() for part in self.parts))

    def mean(self, mean: Rows) -> Rows:
        return reduce(lambda x, part: x + (part.mean(mean) - mean), self.parts, mean)

    def release(self, slots: RowsMask) -> JointRegion:
        return JointRegion(tuple(part.release(slots) for part in self.parts))

    def stretch(self, by: Float[Array, ""]) -> JointRegion:
        return JointRegion(tuple(part.stretch(by) for part in self.parts))

    def contains(self, x: Rows) -> Bool[Array, " row"]:
        return reduce(jnp.logical_and, (part.contains(x) for part in self.parts))

    def as_linear(self, row: int) -> Triple:
        """The parts' triples, one below the other."""
        matrices, lower, upper = zip(*(part.as_linear(row) for part in self.parts), strict=True)
        return np.vstack(matrices), np.concatenate(lower), np.concatenate(upper)

    def describe(self, row: int, names: Sequence[str], in_units: InUnits = None) -> tuple[str, ...]:
        return tuple(words for part in self.parts for words in part.describe(row, names, in_units))
