"""§5.1 Replica exchange for the chains of the model alone: hot chains move between modes, and pass states on.

P_τ(h) ∝ exp{(1 − τ) bᵀh + τ log Ω(h)}, b the log-odds of the mean activations: independent units at τ = 0, the model at
τ = 1. As in `partition`, blocked Gibbs at τ has x ~ N(√τ m(h), I), and what a swap compares is one number a chain.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from thurbo import rbm
from thurbo._typing import Array, Chains, Float, PRNGKey
from thurbo.rbm import Params


def ladder(n_temperatures: int, dtype: jnp.dtype) -> Float[Array, " temperature"]:
    """Inverse temperatures from one down to zero; a single one is the model itself."""
    return jnp.linspace(1.0, 0.0, n_temperatures, dtype=dtype) if n_temperatures > 1 else jnp.ones(1, dtype)


def cold(chains: Chains, n_temperatures: int) -> Float[Array, "cold hidden"]:
    """The chains at τ = 1, the only ones whose statistics are used; chains are sorted by temperature."""
    return chains[: chains.shape[0] // n_temperatures]


def run(key: PRNGKey, chains: Chains, params: Params, n_steps: int, n_temperatures: int) -> Chains:
    """`n_steps` rounds of Gibbs at every temperature, each followed by swaps of neighbours, even and odd in turn."""
    dtype = chains.dtype
    rate = jnp.clip(params.hidden_mean, 0.01, 0.99)
    base = jnp.log(rate) - jnp.log1p(-rate)
    taus = ladder(n_temperatures, dtype)
    per_chain = jnp.repeat(taus, chains.shape[0] // n_temperatures)[:, None]

    def one(i: Array, h: Chains) -> Chains:
        key_x, key_h, key_swap = jax.random.split(jax.random.fold_in(key, i), 3)
        mean = jnp.sqrt(per_chain) * rbm.latent_mean(params, h)
        x = mean + jax.random.normal(key_x, mean.shape, dtype)
        logits = (1.0 - per_chain) * base[None, :] + per_chain * params.hidden_bias[None, :]
        logits = logits + jnp.sqrt(per_chain) * rbm.to_units(params.weights, x)
        h = (jax.random.uniform(key_h, h.shape, dtype) < jax.nn.sigmoid(logits)).astype(dtype)
        return swap(key_swap, h, rbm.log_omega(params, h) - h @ base, taus, i % 2)

    return jax.lax.fori_loop(0, n_steps, one, chains)


def swap(
    key: PRNGKey, h: Chains, height: Float[Array, " chain"], taus: Float[Array, " temperature"], first: Array
) -> Chains:
    """Exchange neighbours first, first + 2, … with probability min(1, exp{(τ_a − τ_b)(height_b − height_a)}).

    `height` is log Ω(h) − bᵀh, by which the densities of two temperatures differ.
    """
    n = taus.shape[0]
    level = height.reshape(n, -1)
    place = jnp.arange(n)
    lower = ((place - first) % 2 == 0) & (place + 1 < n) & (place >= first)  # the colder one of each pair
    partner = jnp.where(lower, place + 1, jnp.where(jnp.roll(lower, 1) & (place > 0), place - 1, place))
    dice = jax.random.uniform(key, level.shape, level.dtype)
    pair_dice = jnp.where(lower[:, None], dice, dice[partner])  # one random number for both of a pair
    gain = (taus - taus[partner])[:, None] * (level[partner] - level)
    moves = (partner != place)[:, None] & (jnp.log(pair_dice) < gain)
    states = h.reshape(n, -1, h.shape[-1])
    return jnp.where(moves[:, :, None], states[partner], states).reshape(h.shape)
