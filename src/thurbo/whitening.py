"""§8 Small symmetric matrices, one a row: the triangular U with U P Uᵀ = I, by products and loops alone.

P⁻¹ = UᵀU, so a solve is two products, a draw is Uᵀ ε, and log det P = −2 Σ log U_jj. LAPACK's batched routines can
deadlock on a CPU of two cores when they run inside a compiled loop; this needs none of them.

Sums of v vᵀ over sites, and vᵀ C v, are products over pairs of factors. Each pair is taken once, which halves them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float

Matrices = Float[Array, "*row n n"]
Packed = Float[Array, "row pair"]
SMALL = 8  # size that is eliminated column by column


@jax.custom_jvp
def whitener(matrix: Matrices) -> Matrices:
    """U = L⁻¹, lower triangular, of positive definite P = L Lᵀ."""
    n = matrix.shape[-1]
    if n <= SMALL:
        return _eliminated(matrix)
    k = n // 2
    first = whitener(matrix[..., :k, :k])
    lower = matrix[..., k:, :k] @ _transposed(first)
    second = whitener(matrix[..., k:, k:] - lower @ _transposed(lower))
    corner = -second @ lower @ first
    top = jnp.concatenate([first, jnp.zeros((*first.shape[:-1], n - k), matrix.dtype)], axis=-1)
    return jnp.concatenate([top, jnp.concatenate([corner, second], axis=-1)], axis=-2)


@whitener.defjvp
def _whitener_slope(primals: tuple[Matrices], tangents: tuple[Matrices]) -> tuple[Matrices, Matrices]:
    """dU = −Φ(U dP Uᵀ) U, Φ the lower triangle with half of the diagonal."""
    u = whitener(*primals)
    inner = u @ tangents[0] @ _transposed(u)
    half = 0.5 * (jnp.tril(inner) + jnp.tril(inner, -1))
    return u, -half @ u


def _transposed(matrix: Array) -> Array:
    return jnp.swapaxes(matrix, -1, -2)


def _eliminated(matrix: Matrices) -> Matrices:
    """Gauss's elimination of [P | I] with rows scaled by the root of their pivot: it ends as [Lᵀ | L⁻¹]."""
    n = matrix.shape[-1]
    place = jnp.arange(n).reshape((1,) * (matrix.ndim - 2) + (n, 1))
    both = jnp.concatenate([matrix, jnp.broadcast_to(jnp.eye(n, dtype=matrix.dtype), matrix.shape)], axis=-1)

    def one(j: Array, both: Array) -> Array:
        row = jax.lax.dynamic_index_in_dim(both, j, axis=both.ndim - 2, keepdims=True)
        column = jax.lax.dynamic_index_in_dim(both, j, axis=both.ndim - 1, keepdims=True)
        pivot = jax.lax.dynamic_index_in_dim(row, j, axis=both.ndim - 1, keepdims=True)
        scale = jax.lax.rsqrt(pivot)
        row = row * scale
        below = jnp.where(place > j, column * scale, jnp.zeros_like(column))
        return jnp.where(place == j, row, both - below * row)

    return jnp.tril(jax.lax.fori_loop(0, n, one, both)[..., n:])


# ---- Pairs of factors, each once. Gradients are written down, since those of a gather are scattered one by one.


class _Places(NamedTuple):
    """Members of each pair, the pair of every two factors, and how often a matrix has the pair: once or twice."""

    first: np.ndarray
    second: np.ndarray
    pair: np.ndarray
    times: np.ndarray


@lru_cache(maxsize=64)
def _places(n: int) -> _Places:
    first, second = np.triu_indices(n)
    pair = np.zeros((n, n), np.int32)
    pair[first, second] = pair[second, first] = np.arange(len(first))
    return _Places(first, second, pair, np.where(first == second, 1.0, 2.0))


def _taken(values: Array, places: np.ndarray) -> Array:
    return jnp.take(values, places, axis=1, mode="clip")


@jax.custom_vjp
def pairs(v: Float[Array, "site n"]) -> Packed:
    """v_f v_g of every site, f ≤ g."""
    first, second, _, _ = _places(v.shape[1])
    return _taken(v, first) * _taken(v, second)


def _pairs_backward(v: Float[Array, "site n"], slope: Packed) -> tuple[Float[Array, "site n"]]:
    both = unpacked(slope * jnp.asarray(2.0 / _places(v.shape[1]).times, v.dtype)[None, :])
    return (jnp.einsum("ifg,ig->if", both, v),)


pairs.defvjp(lambda v: (pairs(v), v), _pairs_backward)


@jax.custom_vjp
def unpacked(packed: Packed) -> Float[Array, "row n n"]:
    """Symmetric matrices from their upper triangles."""
    n = int(np.sqrt(2 * packed.shape[1]))
    return _taken(packed, _places(n).pair.reshape(-1)).reshape(packed.shape[0], n, n)


def _unpacked_backward(_: None, slope: Float[Array, "row n n"]) -> tuple[Packed]:
    return (_triangle(0.5 * (slope + _transposed(slope))) * _times(slope),)


unpacked.defvjp(lambda packed: (unpacked(packed), None), _unpacked_backward)


def _triangle(matrix: Float[Array, "row n n"]) -> Packed:
    n = matrix.shape[-1]
    first, second, _, _ = _places(n)
    return _taken(matrix.reshape(matrix.shape[0], n * n), first * n + second)


def _times(matrix: Float[Array, "row n n"]) -> Float[Array, "one pair"]:
    return jnp.asarray(_places(matrix.shape[-1]).times, matrix.dtype)[None, :]


@jax.custom_vjp
def counted(matrix: Float[Array, "row n n"]) -> Packed:
    """Of symmetric matrices C, what gives vᵀ C v as a sum over `pairs`: entries off the diagonal count twice.

    The gradient is a symmetric matrix, too.
    """
    return _triangle(matrix) * _times(matrix)


counted.defvjp(lambda matrix: (counted(matrix), None), lambda _, slope: (unpacked(slope),))
