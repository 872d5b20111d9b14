"""A.1.1 The partition function by annealed importance sampling, for more hidden units than one can enumerate.

The path runs from independent hidden units at their mean rates to P(h) ∝ Ω(h); at inverse temperature τ the latent x
of blocked Gibbs is N(√τ m(h), I), so each temperature costs one round of Gibbs. One estimate per row of `present`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from thurbo import rbm
from thurbo._typing import Array, PerRow, PRNGKey, RowsMask
from thurbo.inference.likelihood import log_mean_exp
from thurbo.rbm import LOG_2PI, Params


def log_partition_ais(
    key: PRNGKey,
    params: Params,
    n_chains: int = 256,
    n_temperatures: int = 1000,
    present: RowsMask | None = None,
) -> tuple[PerRow, PerRow]:
    """log Σ_h Ω(h) + (n/2) log 2π over the n sites present: estimate and standard error for each row of `present`.

    Weights accumulate (τ_s − τ_{s−1}) [log Ω(h) − bᵀh] along the path exp{(1 − τ) bᵀh + τ log Ω(h)}, b the log-odds of
    the mean activations.
    """
    dtype = params.weights.dtype
    rows = 1 if present is None else present.shape[0]
    rate = jnp.clip(params.hidden_mean, 0.01, 0.99)
    base = jnp.log(rate) - jnp.log1p(-rate)
    mask = None if present is None else jnp.tile(present, (n_chains, 1))  # chains of a row are rows apart
    if params.weights.ndim == 3:  # each row has sites of its own
        params = jax.tree.map(lambda leaf: _repeated(leaf, rows, n_chains), params)
    bias = params.hidden_bias if params.hidden_bias.ndim == 2 else params.hidden_bias[None, :]
    taus = jnp.linspace(0.0, 1.0, n_temperatures + 1, dtype=dtype)

    def advance(s: Array, carry: tuple) -> tuple:
        h, log_w = carry
        tau, step = taus[s + 1], taus[s + 1] - taus[s]
        log_w = log_w + step * (rbm.log_omega(params, h, mask) - h @ base)
        key_x, key_h = jax.random.split(jax.random.fold_in(key, s))
        mean = jnp.sqrt(tau) * rbm.latent_mean(params, h)
        x = rbm.only(mean + jax.random.normal(key_x, mean.shape, dtype), mask)
        logits = (1.0 - tau) * base[None, :] + tau * bias
        logits = logits + jnp.sqrt(tau) * rbm.to_units(params.weights, x)
        h = (jax.random.uniform(key_h, h.shape, dtype) < jax.nn.sigmoid(logits)).astype(dtype)
        return h, log_w

    shape = (n_chains * rows, params.n_hidden)
    h = (jax.random.uniform(jax.random.fold_in(key, n_temperatures), shape, dtype) < rate[None, :]).astype(dtype)
    _, log_w = jax.lax.fori_loop(0, n_temperatures, advance, (h, jnp.zeros(shape[0], dtype)))
    estimate, error = log_mean_exp(log_w.reshape(n_chains, rows))
    n_sites = params.site_bias.shape[0] if present is None else present.sum(-1).astype(dtype)
    constant = 0.5 * n_sites * LOG_2PI + jnp.logaddexp(base, jnp.zeros_like(base)).sum()
    return estimate + constant, error


def _repeated(leaf: Array, rows: int, n_chains: int) -> Array:
    """Parameters by row for each of many chains a row; those that all rows share stay as they are."""
    by_row = leaf.ndim > 1 and leaf.shape[0] == rows
    return jnp.tile(leaf, (n_chains, *(1,) * (leaf.ndim - 1))) if by_row else leaf
