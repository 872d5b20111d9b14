"""§3.2 A ranking as choices one after another: the best of all items, then the best of those that are left, and so on.

Every choice has noise of its own, of a learned precision, and items that were chosen before may move the utilities of
the others (`Context`). Given the hidden layer, the i-th choice is a softmax of precision · (mean + Σ of the effects of
the items before); the noise is Gumbel with unit variance (A.3). Without context this is Plackett–Luce given h.

Noise is added at each choice, so the evidence confines no single x: P(e | h) and what follows from it are exact, and
Gibbs sampling of x given a ranking does not exist. Items that a row does not rank were not offered to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Bool, Float, PerRow, PRNGKey, Rows
from thurbo.errors import ThurboError
from thurbo.latent.constraints.base import Bounds, Context, Gauge, InUnits, log_mass_by_state, no_units, pick, pytree
from thurbo.latent.constraints.grouped import GroupRegion, Groups

NOISE_SCALE = float(np.sqrt(6.0) / np.pi)  # a Gumbel variable of this scale has unit variance
STATES_AT_ONCE = 64
NO_CHAIN = (
    "a ranking with context has noise at each choice, so Gibbs sampling cannot draw its utilities; "
    'sample without conditions, predict by method="exact", or use Ranking(context=False)'
)


@pytree("tier")
class RepeatedChoice(Groups):
    """Rankings without ties above the lowest tier, as choices from the best item down.

    tier   place of each item, consecutive from 0 (worst); several items of tier 0 are not compared
    slots  slot of each item: the k-th item of an order is the k-th site of its column, as `Context` counts them
    """

    def region(self, gauge: Gauge) -> RepeatedChoiceRegion:
        """The learned effects of earlier choices, by order and item."""
        context, n = gauge.context, self.tier.shape[-1]
        if context is None:
            none = jnp.zeros((*self.tier.shape[1:], n), gauge.scale.dtype)
            return RepeatedChoiceRegion(self, none, none[..., 0])
        index = np.maximum(np.asarray(self.slots), 0)
        after = pick(context.after, index.reshape(-1), -2)
        after = after.reshape(*after.shape[:-2], *index.shape, after.shape[-1])[..., :n]
        precision = pick(context.log_precision, index.reshape(-1), -1)
        return RepeatedChoiceRegion(self, after, precision.reshape(*precision.shape[:-1], *index.shape))

    def log_mass_of_states(self, means: Float[Array, "state slot"], gauge: Gauge) -> Float[Array, "state row"]:
        """One matrix product for each place: the effects of earlier choices are the same in all states."""
        region = self.region(gauge)
        if region.after.ndim > 3:
            return log_mass_by_state(region, means)  # parameters by row
        choices, items = region.choices(), self.to_items(means) / NOISE_SCALE
        return jax.lax.map(jax.checkpoint(choices.log_mass_of_state), items, batch_size=min(STATES_AT_ONCE, len(means)))


class _Choices(NamedTuple):
    """What is chosen, what is left and what is added at each place, the best first, [row, order, place, item]."""

    is_choice: Bool[Array, "row order place"]
    chosen: Bool[Array, "row order place item"]
    left: Bool[Array, "row order place item"]
    added: Float[Array, "row order place item"]
    precision: Float[Array, "*row order place"]

    def log_mass(self, items: Float[Array, "#row order item"]) -> PerRow:
        """Σ over choices of log softmax of precision · (utility + what was added), in units of the noise."""
        utility = self._precision[..., None] * (items[:, :, None, :] + self.added)
        own = jnp.where(self.chosen, utility, 0.0).sum(axis=-1)
        # What is no choice is replaced by zeros, to keep values and gradients finite.
        shown = jnp.where(self.left, utility, jnp.where(self.is_choice[..., None], -jnp.inf, 0.0))
        every = jax.scipy.special.logsumexp(shown, axis=-1)
        return jnp.where(self.is_choice, own - every, 0.0).sum(axis=(1, 2))

    @property
    def _precision(self) -> Float[Array, "#row order place"]:
        return self.precision if self.precision.ndim == 3 else self.precision[None]

    def log_mass_of_state(self, items: Float[Array, "order item"]) -> PerRow:
        """The same for one mean of all rows, as products of what depends on the mean and what depends on the row."""
        tiny = jnp.finfo(items.dtype).tiny
        items = items - jax.lax.stop_gradient(items.max(axis=-1, keepdims=True))
        moved = self._precision[..., None] * self.added
        highest = jax.lax.stop_gradient(jnp.where(self.left, moved, -jnp.inf).max(axis=-1, keepdims=True))
        highest = jnp.where(jnp.isfinite(highest), highest, 0.0)
        weight = jnp.where(self.left, jnp.exp(jnp.where(self.left, moved - highest, 0.0)), 0.0)
        size = jnp.exp(self.precision[..., None] * items[:, None, :])
        every = jnp.log(jnp.maximum(jnp.einsum("opk,ropk->rop", size, weight, precision="highest"), tiny))
        own = jnp.where(self.chosen, moved - highest, 0.0).sum(axis=-1)
        rest = jnp.where(self.is_choice, own - every, 0.0).sum(axis=(1, 2))
        counted = jnp.where(self.chosen, self._precision[..., None], 0.0).sum(axis=2)
        return rest + jnp.einsum("ok,rok->r", items, counted, precision="highest")


@pytree("order", "after", "log_precision")
class RepeatedChoiceRegion(GroupRegion):
    """Rankings as choices one after another, under the current effects of earlier choices."""

    after: Float[Array, "*row order item earlier"]
    log_precision: Float[Array, "*row order place"]
    mass = "gumbel"
    not_linear = "choices with noise of their own are not one set of inequalities; use Order"

    def choices(self) -> _Choices:
        """What each row's ranking says about its choices."""
        order = self.order
        n = order.tier.shape[-1]
        part, tier = order.takes_part[:, :, None, :], order.tier[:, :, None, :]
        number = np.arange(n - 1).astype(order.tier.dtype)[None, None, :]
        at = (order.tier.max(axis=-1)[:, :, None] - number)[..., None]  # tier of the choice
        is_choice = order.informative[:, :, None] & (at[..., 0] > 0)
        part = part & is_choice[..., None]
        chosen, left, earlier = (part & compared for compared in (tier == at, tier <= at, tier > at))
        shape = "okl" if self.after.ndim == 3 else "rokl"
        before = earlier.astype(self.after.dtype)
        added = jnp.einsum(f"ropl,{shape}->ropk", before, self.after, precision="highest") / NOISE_SCALE
        return _Choices(is_choice, chosen, left, added, jnp.exp(self.log_precision[..., : n - 1]))

    def log_mass(self, mean: Float[Array, "#row slot"], deviation: Rows | None = None) -> PerRow:
        """log P(e | h); the noise is that of the choices, whatever the deviation of x."""
        return self.choices().log_mass(self.order.to_items(mean) / NOISE_SCALE)

    def stretch(self, by: Float[Array, ""]) -> NoReturn:
        raise ThurboError(NO_CHAIN)

    def bounds(self, x: Rows) -> Bounds:
        """No x is confined."""
        free = jnp.full_like(x, jnp.inf)
        return Bounds(-free, free)

    def start(self, mean: Rows) -> Rows:
        return mean

    def draw(self, key: PRNGKey, x: Rows, mean: Rows) -> NoReturn:
        raise ThurboError(NO_CHAIN)

    def describe(self, row: int, names: Sequence[str], in_units: InUnits = no_units) -> tuple[str, ...]:
        """The item of each choice, and those that were left."""
        found = []
        for codes, items in self.order.of_row(row, names):
            for tier in range(int(codes.max(initial=-1)), 0, -1):
                rest = ", ".join(items[i] for i in np.flatnonzero((codes >= 0) & (codes < tier)))
                found.append(f"{items[int((codes == tier).argmax())]} chosen before {rest}")
        return tuple(found)


def draw_orders(rng: np.random.Generator, mean: np.ndarray, context: Context | None) -> np.ndarray:
    """Rankings of all items drawn choice by choice, as utilities [row, item] that decode to them: n − 1 for the best.

    `mean` is [row, item]; `context` is of the same items.
    """
    n_rows, n = mean.shape
    after = np.zeros((n, n)) if context is None else np.asarray(context.after, np.float64)[:, :n]
    precision = np.ones(n) if context is None else np.exp(np.asarray(context.log_precision, np.float64))
    left, utility = np.ones((n_rows, n), bool), np.zeros((n_rows, n))
    rows = np.arange(n_rows)
    for place in range(n):
        moved = precision[place] * (mean + (~left).astype(float) @ after.T)
        noisy = np.where(left, moved + NOISE_SCALE * rng.gumbel(size=mean.shape), -np.inf)
        chosen = noisy.argmax(axis=1)
        utility[rows, chosen], left[rows, chosen] = n - 1 - place, False
    return utility
