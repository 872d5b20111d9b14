"""§4.4 Masses of those orders only that are asked for: in training, a masked cell is one of two, and many are missing.

Orders that are needed are moved to the front and computed in portions, as many as there are; the number of portions is
known only when the program runs. Slopes come with the values in closed form, so that a gradient is one product more.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from thurbo._typing import Array, Bool
from thurbo.constraints.masses.chains import What, chain_slopes
from thurbo.constraints.masses.choices import slopes_of_choice
from thurbo.constraints.masses.splits import Items, ItemsCode, Scalar


class Portions(NamedTuple):
    """Orders of one portion, and what they are: a chain, or choices if None."""

    size: int
    chain: What | None


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_mass_of_needed(
    how: Portions, needed: Bool[Array, " order"], tier: ItemsCode, mean: Items, deviation: Items
) -> Scalar:
    """log P of each order, [order], and 0 where it is not needed."""
    return _slopes(how, needed, tier, mean, deviation)[0]


@log_mass_of_needed.defjvp
def _log_mass_of_needed_jvp(
    how: Portions, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Scalar, Scalar]:
    value, by_mean, by_deviation = _slopes(how, *primals)
    return value, (by_mean * tangents[2] + by_deviation * tangents[3]).sum(axis=0)


def _slopes(
    how: Portions, needed: Bool[Array, " order"], tier: ItemsCode, mean: Items, deviation: Items
) -> tuple[Scalar, Items, Items]:
    n, size = needed.shape[0], how.size
    number = jnp.arange(n, dtype=jnp.int32)
    first = lax.sort(jnp.where(needed, number, number + n)) % n
    # The last portion is filled up with orders that are not needed, or with the first again.
    first = jnp.concatenate([first, jnp.broadcast_to(first[:1], (size,))])

    def one(place: Array, found: tuple[Scalar, Items, Items]) -> tuple[Scalar, Items, Items]:
        own = lax.dynamic_slice_in_dim(first, place * size, size)
        codes, means, deviations = (jnp.take(each, own, axis=1, mode="clip") for each in (tier, mean, deviation))
        if how.chain is None:
            fresh = slopes_of_choice(means, deviations, codes == 1, codes == 0)
        else:
            fresh = chain_slopes(how.chain, codes, means, deviations)
        every = zip(found, fresh, strict=True)
        return tuple(lax.dynamic_update_slice_in_dim(old, new, place * size, -1) for old, new in every)  # type: ignore[return-value]

    empty = jnp.zeros((mean.shape[0], n + size), mean.dtype)
    n_portions = (needed.sum(dtype=jnp.int32) + size - 1) // size
    found = lax.fori_loop(0, n_portions, one, (empty[0], empty, empty))
    place = jnp.cumsum(needed, dtype=jnp.int32) - 1  # among those that are needed
    return tuple(jnp.where(needed, jnp.take(each, place, axis=-1, mode="clip"), 0.0) for each in found)  # type: ignore[return-value]
