"""A.3 The exact probability of a weak order with Gumbel noise: a sum over all ways to break its ties.

Items leave the set one after another, the best first (Plackett and Luce). With ties, the sum over all orders that agree
with the tiers is a recursion over the 2^n subsets of the items that are left: fit for the few items of one task.
"""

from __future__ import annotations

from itertools import combinations

import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, Int

MOST_ITEMS = 8  # 256 subsets


def log_mass(items: Float[Array, "*order item"], tier: Int[Array, "*order item"]) -> Float[Array, "*order"]:
    """log P(every item of a tier above every item of a lower one); items of tier −1 take no part."""
    n = items.shape[-1]
    part = tier >= 0
    top = jnp.where(part, items, -jnp.inf).max(axis=-1, keepdims=True)
    strength = jnp.where(part, jnp.exp(items - jnp.where(jnp.isfinite(top), top, 0.0)), 0.0)
    strength = jnp.maximum(strength, jnp.where(part, jnp.finfo(items.dtype).tiny, 0.0))
    chance = jnp.ones((*items.shape[:-1], 1), items.dtype)  # of the subsets of one size, from none to all items
    place: dict[tuple[int, ...], int] = {(): 0}
    for size in range(1, n + 1):
        members = list(combinations(range(n), size))
        which = np.asarray(members)  # [subset, member]
        rest = np.asarray([[place[own[:k] + own[k + 1 :]] for k in range(size)] for own in members])
        theirs, codes = jnp.take(strength, which, axis=-1), jnp.take(tier, which, axis=-1)
        leaves = (codes == codes.max(axis=-1, keepdims=True)) & (codes >= 0)
        ways = jnp.where(leaves, theirs * jnp.take(chance, rest, axis=-1), 0.0).sum(axis=-1)
        total = theirs.sum(axis=-1)
        found = ways / jnp.where(total > 0, total, jnp.ones_like(total))
        chance = jnp.where(total > 0, found, jnp.ones_like(found))
        place = {own: number for number, own in enumerate(members)}
    return jnp.log(jnp.maximum(chance[..., 0], jnp.finfo(items.dtype).tiny))
