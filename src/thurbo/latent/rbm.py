"""§2 The Gaussian RBM: binary hidden units h (and optional Gaussian factors z) over Gaussian variables x.

Idea: parameters, energy, conditionals and the posterior of factors; the small symmetric matrices of that posterior
are whitened by products and loops alone (the triangular U with U P Uᵀ = I).
Guarantees that without factors this is the paper's model, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from thurbo._typing import Array, Bool, Factors, Float, Hidden, Int, PerRow, PRNGKey, Rows, RowsMask
from thurbo.latent.constraints.base import Gauge

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


def products(v: Float[Array, "site n"]) -> Float[Array, "site square"]:
    """v_f v_g of every site, for all f and g."""
    return (v[:, :, None] * v[:, None, :]).reshape(v.shape[0], v.shape[1] ** 2)  # there may be no site


LOG_2PI = 1.8378770664093453

Sites = Int[Array, " slot"] | Int[Array, "row slot"]


class Params(NamedTuple):
    """P(x, h, z) ∝ exp{−½‖x − Vz‖² + (α + Wh)ᵀ(x − Vz) + γᵀh − ½‖z‖²}, Eqs (1), (2) with factors z (§8).

    Leading axes are sites, or `[row, slot]` once gathered by a row's own sites. Which items a row lists may be a
    signal: γ and the prior mean of z then move by n^-½ Σ U_i over the n items listed, as in a conditional RBM and in
    SVD++; the scores of these items are not used. U has a column for every hidden unit and then every factor.
    """

    site_bias: Float[Array, "*site"]  # α
    weights: Float[Array, "*site hidden"]  # W
    hidden_bias: Float[Array, " hidden"]  # γ
    loadings: Float[Array, "*site factor"]  # V; no factors gives the paper's model
    gauge: Gauge  # cuts θ and scales
    hidden_mean: Float[Array, " hidden"]  # E[h] over the data: where mean-field starts; no part of the density
    presence: Float[Array, "site unit"] | None = None  # U: the effect of an item being in a row's list
    factor_prior: Float[Array, "row factor"] | None = None  # mean of z before any evidence; None where it is zero
    spread: Float[Array, "row slot"] | None = None  # factor of the variance that h and z add at a slot; None: 1
    effects: Float[Array, "feature unit"] | None = None  # B: what attributes add to α (first column), W and V (§8)

    @property
    def n_hidden(self) -> int:
        return self.weights.shape[-1]

    @property
    def n_factors(self) -> int:
        return self.loadings.shape[-1]


Tasks = tuple[int, int, int]  # first slot, number of tasks, slots of each


def gather(
    params: Params,
    sites: Sites | None,
    listed: RowsMask | None = None,
    tasks: tuple[Tasks, ...] = (),
    present: RowsMask | None = None,
) -> Params:
    """The parameters as seen from the slots of each row; nothing to do where a table's slots are its sites.

    The items `listed` also move a row's hidden biases and the prior of its factors, if `presence` is given. In `tasks`
    only differences between the items of a task count: parameters are relative to their mean over the task.
    """
    if sites is None:
        return params
    hidden_bias, prior = params.hidden_bias, None
    if params.presence is not None and listed is not None:
        part = listed.astype(params.presence.dtype)
        said = to_units(params.presence[sites], part) / jnp.sqrt(jnp.maximum(part.sum(-1, keepdims=True), 1.0))
        hidden_bias, prior = hidden_bias[None, :] + said[:, : params.n_hidden], said[:, params.n_hidden :]
    found = params._replace(
        hidden_bias=hidden_bias,
        factor_prior=prior,
        presence=None,
        effects=None,
        site_bias=params.site_bias[sites],
        weights=params.weights[sites],
        loadings=params.loadings[sites],
        gauge=params.gauge.by(lambda value, axis: value[sites]),  # before gathering, sites are the first axis
    )
    return relative(found, tasks, present) if tasks else found


def relative(seen: Params, tasks: tuple[Tasks, ...], present: RowsMask | None = None) -> Params:
    """Parameters by slot, relative to their mean over each task: a shift of all its utilities changes no comparison.

    The utilities of n items are then negatively correlated. Where they are treated as independent, the variance that h
    and z add is multiplied by n / (n − 1): the variance of a difference is then right on average, exactly so for pairs.
    """
    n_slots = seen.site_bias.shape[-1]
    part = jnp.ones(seen.site_bias.shape, seen.weights.dtype)
    if present is not None:
        part = present.astype(seen.weights.dtype)
    spread = jnp.ones(part.shape, part.dtype)

    def centred(values: Float[Array, "row slot unit"]) -> Float[Array, "row slot unit"]:
        if not values.shape[2]:
            return values
        pieces, end = [], 0
        for first, n_tasks, size in sorted(tasks):
            own = slice(first, first + n_tasks * size)
            shape = (values.shape[0], n_tasks, size, values.shape[2])
            there = part[:, own].reshape(*shape[:3], 1)
            here = values[:, own].reshape(shape)
            mean = (here * there).sum(axis=2, keepdims=True) / jnp.maximum(there.sum(axis=2, keepdims=True), 1.0)
            pieces += [values[:, end:first], (here - mean).reshape(shape[0], n_tasks * size, shape[3])]
            end = own.stop
        return jnp.concatenate([*pieces, values[:, end:]], axis=1)

    for first, n_tasks, size in tasks:
        own = slice(first, first + n_tasks * size)
        n = jnp.maximum(part[:, own].reshape(-1, n_tasks, size).sum(axis=2), 2.0)
        factor = jnp.repeat(n / (n - 1.0), size, axis=1)
        spread = jnp.concatenate([spread[:, :first], factor, spread[:, own.stop : n_slots]], axis=1)
    return seen._replace(
        site_bias=centred(seen.site_bias[..., None])[..., 0],
        weights=centred(seen.weights),
        loadings=centred(seen.loadings),
        spread=spread,
    )


def to_slots(matrix: Float[Array, "*site unit"], values: Float[Array, "#row unit"]) -> Float[Array, "#row slot"]:
    """Σ_k matrix_ik values_k for every slot of every row."""
    return jnp.einsum("ik,rk->ri" if matrix.ndim == 2 else "rik,rk->ri", matrix, values)


def to_units(matrix: Float[Array, "*site unit"], values: Rows) -> Float[Array, "row unit"]:
    """Σ_i matrix_ik values_i for every unit of every row."""
    return jnp.einsum("ik,ri->rk" if matrix.ndim == 2 else "rik,ri->rk", matrix, values)


def only(values: Float[Array, "#row slot"], slots: RowsMask | None) -> Float[Array, "#row slot"]:
    """`values` on these slots, zero elsewhere: a slot that is not part of a row's model adds nothing."""
    return values if slots is None else jnp.where(slots, values, jnp.zeros((), values.dtype))


def latent_mean(params: Params, h: Float[Array, "#row hidden"]) -> Float[Array, "#row slot"]:
    """Mean of x without factors, Eq. (4): m_i(h) = α_i + Σ_k W_ik h_k."""
    return jnp.atleast_2d(params.site_bias) + to_slots(params.weights, h)


def factor_shift(params: Params, z: Float[Array, "#row factor"]) -> Float[Array, "#row slot"]:
    """What the factors add to the mean of x: Σ_f V_if z_f."""
    if params.n_factors == 0:  # an empty contraction takes the compiler longer than zeros
        slots = params.site_bias.shape[-1]
        return jnp.zeros((z.shape[0], slots), params.weights.dtype)
    return to_slots(params.loadings, z)


def hidden_logits(params: Params, x: Rows) -> Hidden:
    """Log-odds of each hidden unit, Eq. (3): γ_k + Σ_i W_ik x_i; with factors, x stands for x − Vz."""
    return jnp.atleast_2d(params.hidden_bias) + to_units(params.weights, x)


def prior_of_hidden(params: Params, h: Float[Array, "#row hidden"]) -> Float[Array, " out"]:
    """γᵀh."""
    return (h * params.hidden_bias).sum(-1) if params.hidden_bias.ndim == 2 else h @ params.hidden_bias


def energy(params: Params, x: Rows, h: Hidden, z: Factors | None = None) -> PerRow:
    """Eq. (2): Σ_i {½u_i² − (α_i + W_i h) u_i} − γᵀh + ½‖z‖², with u = x − Vz."""
    u, prior = x, jnp.zeros(x.shape[0], x.dtype)
    if z is not None:
        u, prior = x - factor_shift(params, z), 0.5 * (z * z).sum(-1)
    return (0.5 * u * u - latent_mean(params, h) * u).sum(-1) - prior_of_hidden(params, h) + prior


def log_omega(params: Params, h: Float[Array, "#row hidden"], present: RowsMask | None = None) -> Float[Array, " out"]:
    """log Ω(h) = γᵀh + ½‖m(h)‖² over the sites present, A.1.1, without its constant (N/2) log 2π.

    P(h) ∝ Ω(h). The factors integrate to one, so they leave it as it is.
    """
    mean = only(latent_mean(params, h), present)
    return prior_of_hidden(params, h) + 0.5 * (mean * mean).sum(-1)


def expected_log_omega(params: Params, q: Hidden, slots: RowsMask, mean: Float[Array, "#row slot"]) -> PerRow:
    """E_q[½‖m(h)‖²] over `slots` for independent h_k ~ Bernoulli(q_k): ½‖m(q)‖² + ½ Σ_ik W_ik² q_k (1 − q_k).

    `mean` is m(q).
    """
    mean = only(mean, slots)
    return 0.5 * ((mean * mean).sum(-1) + (q * (1.0 - q) * squared_weights(params, slots)).sum(-1))


def squared_weights(params: Params, slots: RowsMask) -> Hidden:
    """Σ_i W_ik² over `slots`, for every unit of every row.

    It is wanted for slots without evidence. Complete rows have none, and are spared the product of matrices.
    """
    part = jnp.asarray(slots).astype(params.weights.dtype)
    return _squares(params.weights, part, jnp.asarray(slots).any())


@jax.custom_vjp
def _squares(weights: Float[Array, "*site unit"], part: Rows, is_any: Bool[Array, ""]) -> Float[Array, "row unit"]:
    none = jnp.zeros((part.shape[0], weights.shape[-1]), weights.dtype)
    return jax.lax.cond(is_any, lambda: to_units(weights**2, part), lambda: none)


def _squares_backward(kept: tuple[Array, ...], slope: Float[Array, "row unit"]) -> tuple[Array, Array, None]:
    """2 W_ik Σ_r part_ri slope_rk. JAX's own rule would store what only one of the two cases needs."""
    weights, part, is_any = kept
    to_weights = "ri,rk->ik" if weights.ndim == 2 else "ri,rk->rik"
    of_some = lambda: 2.0 * weights * jnp.einsum(to_weights, part, slope)  # noqa: E731
    return jax.lax.cond(is_any, of_some, lambda: jnp.zeros_like(weights)), jnp.zeros_like(part), None


_squares.defvjp(lambda *inputs: (_squares(*inputs), inputs), _squares_backward)


def bernoulli(key: PRNGKey, logits: Hidden) -> Hidden:
    """Hidden units that are on with these log-odds."""
    return (jax.random.uniform(key, logits.shape, logits.dtype) < jax.nn.sigmoid(logits)).astype(logits.dtype)


def sample_hidden(key: PRNGKey, params: Params, x: Rows) -> Hidden:
    """h ~ P(h | x), Eq. (3)."""
    return bernoulli(key, hidden_logits(params, x))


def factor_whitener(params: Params, observed: RowsMask) -> Float[Array, "row factor factor"]:
    """U with UᵀU = (I + Σ_{i observed} V_i V_iᵀ)⁻¹, the covariance of z given x and h."""
    v, n = params.loadings, params.n_factors
    seen = observed.astype(v.dtype)
    # Where rows share their sites, one product of matrices: [row, site] by [site, pair of factors].
    gram = (seen @ products(v)).reshape(len(seen), n, n) if v.ndim == 2 else jnp.einsum("ri,rif,rig->rfg", seen, v, v)
    return whitener(gram + jnp.eye(n, dtype=v.dtype)[None])


def factor_mean(
    params: Params, residual: Rows, whitener: Float[Array, "row factor factor"]
) -> Float[Array, "row factor"]:
    """E[z | x, h] = (I + V_oᵀV_o)⁻¹ (V_oᵀ (x_o − m_o(h)) + prior); `residual` is zero on what is not observed."""
    pull = to_units(params.loadings, residual)
    if params.factor_prior is not None:
        pull = pull + params.factor_prior
    white = jnp.einsum("rfg,rg->rf", whitener, pull)
    return jnp.einsum("rfg,rf->rg", whitener, white)


def sample_factors(
    key: PRNGKey, params: Params, residual: Rows, whitener: Float[Array, "row factor factor"]
) -> Float[Array, "row factor"]:
    """z ~ N(E[z | x, h], (I + V_oᵀV_o)⁻¹)."""
    noise = jax.random.normal(key, whitener.shape[:2], whitener.dtype)
    return factor_mean(params, residual, whitener) + coloured(whitener, noise)


def coloured(whitener: Float[Array, "row factor factor"], noise: Float[Array, "row factor"]) -> Factors:
    """Uᵀ ε: noise with the covariance of z given x and h."""
    return jnp.einsum("rfg,rf->rg", whitener, noise)
