"""§4.1, §4.2 Gibbs sampling of (x, h, z) given evidence, and of h under the model alone; and modes.

Kernels are `(key, state, …) → state`; each region draws its own slots by its own method. `seek_mode` raises the
temperature and cools slowly (A.1.3).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32

from thurbo._typing import Array, Factors, Float, Hidden, Int, PRNGKey, Rows, RowsMask
from thurbo.latent import rbm
from thurbo.latent.constraints.base import Region
from thurbo.latent.evidence import Clamp, Evidence
from thurbo.latent.evidence import clamp as clamp  # part of every use of a chain
from thurbo.latent.rbm import Params


class ChainState(NamedTuple):
    """One chain per row: latent variables x, binary hidden units h, Gaussian factors z."""

    x: Rows
    h: Hidden
    z: Factors


def sweep(key: PRNGKey, x: Rows, mean: Rows, region: Region) -> Rows:
    """x ~ P(x | h, z, e): exact for boxes (§4.1), one step of a chain for what couples slots (§4.2)."""
    return region.draw(key, x, mean)


def step(key: PRNGKey, state: ChainState, given: Clamp) -> ChainState:
    """One round of z | x_o, h (free slots integrated out), then x | h, z, e, then h | x, z."""
    key_z, key_x, key_h = jax.random.split(key, 3)
    mean, z = rbm.latent_mean(given.params, state.h), state.z
    shift = jnp.zeros_like(mean)
    if given.whitener is not None:
        z = rbm.sample_factors(key_z, given.params, rbm.only(state.x - mean, given.observed), given.whitener)
        shift = rbm.factor_shift(given.params, z)
    x = sweep(key_x, state.x, mean + shift, given.region)
    return ChainState(x, rbm.sample_hidden(key_h, given.params, rbm.only(x - shift, given.present)), z)


def start(key: PRNGKey, given: Clamp, probability: Hidden) -> ChainState:
    """A state inside Ω(e): h from the given probabilities, z at zero, x drawn within its bounds."""
    key_h, key_x = jax.random.split(key)
    h = (jax.random.uniform(key_h, probability.shape, probability.dtype) < probability).astype(probability.dtype)
    z = jnp.zeros((probability.shape[0], given.params.n_factors), probability.dtype)
    mean = rbm.latent_mean(given.params, h)
    return ChainState(sweep(key_x, given.region.start(mean), mean, given.region), h, z)


def run(key: PRNGKey, state: ChainState, given: Clamp, n_steps: int) -> ChainState:
    """`n_steps` rounds of Gibbs sampling."""
    return jax.lax.fori_loop(0, n_steps, lambda i, s: step(jax.random.fold_in(key, i), s, given), state)


def prior_step(key: PRNGKey, h: Hidden, params: Params, present: RowsMask | None = None) -> Hidden:
    """One round of x | h then h | x under the model alone, Eqs (3), (4); factors cancel and need not be drawn."""
    key_x, key_h = jax.random.split(key)
    mean = rbm.latent_mean(params, h)
    x = mean + jax.random.normal(key_x, mean.shape, mean.dtype)
    return rbm.sample_hidden(key_h, params, rbm.only(x, present))


def prior_run(key: PRNGKey, h: Hidden, params: Params, n_steps: int, present: RowsMask | None = None) -> Hidden:
    """`n_steps` rounds under the model alone: the negative phase of §5.1, and what `sample` draws from."""
    return jax.lax.fori_loop(0, n_steps, lambda i, s: prior_step(jax.random.fold_in(key, i), s, params, present), h)


BITS = 24  # of a number, as many as single precision has


def uniforms(key: PRNGKey, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "*shape"]:
    """Numbers of U(0, 1), as multiples of 2⁻²⁴ below 1."""
    if not _is_ours(key, dtype):
        return jax.random.uniform(key, shape, dtype)
    return _whole(key, shape).astype(dtype) * dtype.type(2.0**-BITS)


def normals(key: PRNGKey, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "*shape"]:
    """Numbers of N(0, 1), by its inverse distribution function: √2 erf⁻¹(2u − 1)."""
    if not _is_ours(key, dtype):
        return jax.random.normal(key, shape, dtype)
    step = dtype.type(2.0 ** (1 - BITS))
    # 2u − 1 = (2j + 1) / 2²⁴ − 1 without rounding: symmetric around zero, and never ±1.
    centred = _whole(key, shape).astype(dtype) * step - dtype.type(1.0 - 2.0**-BITS)
    return dtype.type(math.sqrt(2.0)) * jax.lax.erf_inv(centred)


def _is_ours(key: PRNGKey, dtype: jnp.dtype) -> bool:
    return dtype == np.float32 and str(jax.random.key_impl(key)) == "threefry2x32"


def _whole(key: PRNGKey, shape: tuple[int, ...]) -> Int[Array, "*shape"]:
    """Whole numbers below 2²⁴, uniform and independent."""
    size = math.prod(shape)
    half = (size + 1) // 2
    words = threefry_2x32(jax.random.key_data(key), jnp.arange(2 * half, dtype=np.uint32))[:size]
    return (words >> (32 - BITS)).astype(np.int32).reshape(shape)


def annealed_activation(
    key: PRNGKey, params: Params, n_chains: int = 512, n_temperatures: int = 500
) -> tuple[Float[Array, " hidden"], Float[Array, " hidden"]]:
    """E[h] under the model by chains that know nothing of the data, as they are and with their importance weights.

    They are annealed from independent units at their mean activations c: x ~ N(m(c) + β W (h − c), I), and h with
    log-odds (1 − β) logit c + β (γ + Wᵀx).
    """
    dtype = params.weights.dtype
    base = rbm.usual_log_odds(params, params, 0.02)
    centre = rbm.latent_mean(params, jax.nn.sigmoid(base))

    def log_density(x: Rows, beta: Array) -> Float[Array, " row"]:
        logits = (1.0 - beta) * base + beta * rbm.hidden_logits(params, x)
        # m(c)ᵀx at β = 0, αᵀx at β = 1: the units' share of the mean is in their log-odds.
        linear = (x * (centre - beta * (centre - params.site_bias[None, :]))).sum(-1)
        return linear + jax.nn.softplus(logits).sum(-1)

    def one(i: Array, carry: tuple[Rows, Array]) -> tuple[Rows, Array]:
        x, log_w = carry
        before, beta = (j.astype(dtype) / n_temperatures for j in (i, i + 1))
        log_w = log_w + log_density(x, beta) - log_density(x, before)
        key_h, key_x = jax.random.split(jax.random.fold_in(key, i))
        logits = (1.0 - beta) * base + beta * rbm.hidden_logits(params, x)
        h = (uniforms(key_h, logits.shape, dtype) < jax.nn.sigmoid(logits)).astype(dtype)
        mean = centre + beta * (rbm.latent_mean(params, h) - centre)
        return mean + normals(key_x, mean.shape, dtype), log_w

    shape = (n_chains, params.site_bias.shape[0])
    start = centre + normals(jax.random.fold_in(key, n_temperatures), shape, dtype), jnp.zeros(n_chains, dtype)
    x, log_w = jax.lax.fori_loop(0, n_temperatures, one, start)
    hidden = jax.nn.sigmoid(rbm.hidden_logits(params, x))
    return hidden.mean(axis=0), jax.nn.softmax(log_w) @ hidden


def cooling(hottest: float, coldest: float, n_steps: int, dtype: Any) -> Float[Array, " step"]:
    """Temperatures T ← η T from the hottest to the coldest, η = (T_min / T_max)^(1/n)."""
    ratio = jnp.asarray(coldest / hottest, dtype)
    return hottest * ratio ** (jnp.arange(1, n_steps + 1, dtype=dtype) / n_steps)


def seek_mode(
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
    falling = cooling(hottest, 1.0, n_cooling, dtype), cooling(1.0, coldest, n_freezing, dtype)
    temperatures = jnp.concatenate([*falling, jnp.full(n_collected, coldest, dtype)])
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
        h = rbm.bernoulli(key_h, rbm.hidden_logits(params, x) / temperature)
        collected = (step >= n_cooling + n_freezing).astype(dtype)
        return (h, x, total_x + collected * x, total_h + collected * h), None

    mean = rbm.latent_mean(params, h)
    start = (h, mean if region is None else region.start(mean), jnp.zeros_like(mean), jnp.zeros_like(h))
    (_, _, x, h), _ = jax.lax.scan(one, start, (temperatures, jnp.arange(temperatures.shape[0])))
    return x / n_collected, h / n_collected
