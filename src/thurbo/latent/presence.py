"""§3.1 Which items a list has, as one binary site for each item: the list has item i if x_i > 0.

Idea: the items S of a list that are shown predict the others, by hidden units with tied weights. Given S, units are
independent of each other:

    P(h_k = 1 | S) = σ(γ_k + s |S|^-½ Σ_{i ∈ S} W_ik),
    x_i = α_i + δ log(1 + |S|) + Σ_k W_ik h_k + ε_i,  ε_i ~ N(0, 1),

and an item that is not shown is in the list with probability P(x_i > 0) at the mean-field q of h. This is the function
that is trained, so no approximation is between training and prediction.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from thurbo import _runtime  # noqa: F401  (right sums, before anything is compiled)
from thurbo._typing import Array, Float, Hidden, PerRow


class Presence(NamedTuple):
    """Parameters of which items a list has.

    site_bias    α_i: how often lists have item i
    weights      W_ik: between items and units
    hidden_bias  γ_k
    length       δ: how many more items are in a list of which many are shown
    scale        s: the weight of what is shown
    """

    site_bias: Float[Array, " site"]
    weights: Float[Array, "site hidden"]
    hidden_bias: Float[Array, " hidden"]
    length: Float[Array, ""]
    scale: Float[Array, ""]


def hidden(presence: Presence, total: Hidden, number: PerRow) -> Hidden:
    """P(h_k = 1 | S), given the sum of W over S and the number of items in S."""
    pull = total * (presence.scale * jax.lax.rsqrt(jnp.maximum(number, 1.0)))[:, None]
    return jax.nn.sigmoid(presence.hidden_bias[None, :] + pull)


def means(presence: Presence, total: Hidden, number: PerRow) -> Float[Array, "row site"]:
    """α_i + δ log(1 + |S|) + Σ_k W_ik P(h_k = 1 | S), from the sum of W over S and the number of items in S."""
    bias = presence.site_bias[None, :] + (presence.length * jnp.log1p(number))[:, None]
    return bias + hidden(presence, total, number) @ presence.weights.T


@jax.jit
def listed_chances(presence: Presence, total: Hidden, number: PerRow) -> Float[Array, "row site"]:
    """P(list has item i | S) = Φ(mean of x_i), right for items that are not in S."""
    return jax.scipy.special.ndtr(means(presence, total, number))
