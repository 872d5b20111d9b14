"""§8 Small symmetric matrices, one a row: the triangular U with U P Uᵀ = I, by products and loops alone.

P⁻¹ = UᵀU, so a solve is two products, a draw is Uᵀ ε, and log det P = −2 Σ log U_jj. LAPACK's batched routines can
deadlock on a CPU of two cores when they run inside a compiled loop; this needs none of them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from thurbo._typing import Array, Float

Matrices = Float[Array, "*row n n"]
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
