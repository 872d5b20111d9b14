"""Uniform and normal numbers for chains, from both words that one evaluation of the generator returns.

JAX's generator (threefry) returns two words of 32 bits for each counter, and `jax.random` keeps one of the two. These
functions keep both, which halves the time of random bits. Other generators and precisions are left to `jax.random`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32

from thurbo._typing import Array, Float, Int, PRNGKey

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
