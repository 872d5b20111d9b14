"""A.1.3 Seeking modes: raise the temperature to leave a trap, cool down slowly, freeze, and average.

At temperature T the model is P(x, h)^(1/T): x given h is N(m(h), T), and the log-odds of h are divided by T. What is
left after freezing is a representative sample: one basin of attraction without its noise.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from thurbo import rbm
from thurbo._typing import Array, Float, Hidden, PRNGKey
from thurbo.evidence import Evidence
from thurbo.rbm import Params


def cooling(hottest: float, coldest: float, n_steps: int, dtype: Any) -> Float[Array, " step"]:
    """Temperatures T ← η T from the hottest to the coldest, η = (T_min / T_max)^(1/n)."""
    ratio = jnp.asarray(coldest / hottest, dtype)
    return hottest * ratio ** (jnp.arange(1, n_steps + 1, dtype=dtype) / n_steps)


def seek(
    key: PRNGKey,
    params: Params,
    n_rows: int,
    evidence: Evidence | None = None,
    *,
    hottest: float = 10.0,
    coldest: float = 0.1,
    n_cooling: int = 100,
    n_freezing: int = 50,
    n_collected: int = 50,
) -> tuple[Float[Array, "row site"], Hidden]:
    """Representative x and the hidden units behind it, one basin a row: T from `hottest` to 1 to `coldest`, then held.

    x is averaged over the last `n_collected` rounds, as in the paper. With evidence, of one row for each, x never
    leaves Ω(e): x / √T is a unit normal in Ω stretched by 1 / √T, and an average of points of a convex Ω is in it.
    """
    dtype = params.weights.dtype
    key_start, key_run = jax.random.split(key)
    h = jax.random.bernoulli(key_start, 0.5, (n_rows, params.n_hidden)).astype(dtype)
    temperatures = jnp.concatenate(
        [
            cooling(hottest, 1.0, n_cooling, dtype),
            cooling(1.0, coldest, n_freezing, dtype),
            jnp.full(n_collected, coldest, dtype),
        ]
    )

    region = None if evidence is None else evidence.region(evidence.seen(params).gauge)

    def one(carry: tuple, item: tuple) -> tuple[tuple, None]:
        h, x, total_x, total_h = carry
        temperature, step = item
        key_x, key_h = jax.random.split(jax.random.fold_in(key_run, step))
        mean, root = rbm.latent_mean(params, h), jnp.sqrt(temperature)
        if region is None:
            x = mean + root * jax.random.normal(key_x, mean.shape, dtype)
        else:
            x = root * region.stretch(1.0 / root).draw(key_x, x / root, mean / root)
        chance = jax.nn.sigmoid(rbm.hidden_logits(params, x) / temperature)
        h = (jax.random.uniform(key_h, h.shape, dtype) < chance).astype(dtype)
        collected = (step >= n_cooling + n_freezing).astype(dtype)
        return (h, x, total_x + collected * x, total_h + collected * h), None

    mean = rbm.latent_mean(params, h)
    start = (h, mean if region is None else region.start(mean), jnp.zeros_like(mean), jnp.zeros_like(h))
    (_, _, x, h), _ = jax.lax.scan(one, start, (temperatures, jnp.arange(temperatures.shape[0])))
    return x / n_collected, h / n_collected
