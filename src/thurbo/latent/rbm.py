"""§2 The Gaussian RBM: binary hidden units h (and optional Gaussian factors z) over Gaussian variables x.

Idea: parameters, energy, conditionals and the posterior of factors; the small symmetric matrices of that posterior
are whitened by products and loops alone (the triangular U with U P Uᵀ = I). `Presence` is a model of its own.
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
    lower = matrix[..., k:, :k] @ first.mT
    second = whitener(matrix[..., k:, k:] - lower @ lower.mT)
    return jnp.block([[first, jnp.zeros_like(lower.mT)], [-second @ lower @ first, second]])


@whitener.defjvp
def _whitener_slope(primals: tuple[Matrices], tangents: tuple[Matrices]) -> tuple[Matrices, Matrices]:
    """dU = −Φ(U dP Uᵀ) U, Φ the lower triangle with half of the diagonal."""
    u = whitener(*primals)
    inner = u @ tangents[0] @ u.mT
    half = 0.5 * (jnp.tril(inner) + jnp.tril(inner, -1))
    return u, -half @ u


def _eliminated(matrix: Matrices) -> Matrices:
    """Gauss's elimination of [P | I] with rows scaled by the root of their pivot: it ends as [Lᵀ | L⁻¹]."""
    n = matrix.shape[-1]
    place = jnp.arange(n).reshape((1,) * (matrix.ndim - 2) + (n, 1))
    both = jnp.concatenate([matrix, jnp.broadcast_to(jnp.eye(n, dtype=matrix.dtype), matrix.shape)], axis=-1)

    def one(j: Array, both: Array) -> Array:
        row = jax.lax.dynamic_index_in_dim(both, j, axis=both.ndim - 2, keepdims=True)
        column = jax.lax.dynamic_index_in_dim(both, j, axis=both.ndim - 1, keepdims=True)
        scale = jax.lax.rsqrt(jax.lax.dynamic_index_in_dim(row, j, axis=both.ndim - 1, keepdims=True))
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
    shape = seen.site_bias.shape
    part = (jnp.ones(shape, bool) if present is None else present).astype(seen.weights.dtype)
    spread, found = jnp.ones_like(part), [seen.site_bias[..., None], seen.weights, seen.loadings]
    for first, n_tasks, size in tasks:
        own = slice(first, first + n_tasks * size)
        there = part[:, own].reshape(shape[0], n_tasks, size, 1)
        n = there.sum(axis=2, keepdims=True)
        factor = jnp.repeat(jnp.maximum(n, 2.0) / (jnp.maximum(n, 2.0) - 1.0), size, axis=2).reshape(part[:, own].shape)
        spread = jax.lax.dynamic_update_slice_in_dim(spread, factor, first, axis=1)
        for number, values in enumerate(found):
            here = values[:, own].reshape(*there.shape[:3], values.shape[2])
            mean = (here * there).sum(axis=2, keepdims=True) / jnp.maximum(n, 1.0)
            centred = (here - mean).reshape(values[:, own].shape)
            found[number] = jax.lax.dynamic_update_slice_in_dim(values, centred, first, axis=1)
    return seen._replace(site_bias=found[0][..., 0], weights=found[1], loadings=found[2], spread=spread)


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
    u = x if z is None else x - factor_shift(params, z)
    value = (0.5 * u * u - latent_mean(params, h) * u).sum(-1) - prior_of_hidden(params, h)
    return value if z is None else value + 0.5 * (z * z).sum(-1)


def log_omega(params: Params, h: Float[Array, "#row hidden"], present: RowsMask | None = None) -> Float[Array, " out"]:
    """log Ω(h) = γᵀh + ½‖m(h)‖² over the sites present, A.1.1, without its constant (N/2) log 2π.

    P(h) ∝ Ω(h). The factors integrate to one, so they leave it as it is.
    """
    mean = only(latent_mean(params, h), present)
    return prior_of_hidden(params, h) + 0.5 * (mean * mean).sum(-1)


def expected_log_omega(params: Params, q: Hidden, slots: RowsMask, mean: Float[Array, "#row slot"]) -> PerRow:
    """E_q[½‖m(h)‖²] over `slots` for h_k ~ Bernoulli(q_k), mean = m(q): ½‖m(q)‖² + ½ Σ_ik W_ik² q_k (1 − q_k)."""
    mean = only(mean, slots)
    return 0.5 * ((mean * mean).sum(-1) + (q * (1.0 - q) * squared_weights(params, slots)).sum(-1))


def squared_weights(params: Params, slots: RowsMask) -> Hidden:
    """Σ_i W_ik² over `slots`, those without evidence; complete rows have none, and are spared the product."""
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


def usual_log_odds(params: Params, seen: Params, least: float) -> Hidden:
    """Log-odds of the mean activations, at least `least` from 0 and 1, moved as `presence` moves γ in each row."""
    chance = jnp.clip(params.hidden_mean, least, 1.0 - least)[None, :]
    log_odds = jnp.log(chance) - jnp.log1p(-chance)
    is_moved = seen.hidden_bias.ndim > params.hidden_bias.ndim
    return log_odds + (seen.hidden_bias - params.hidden_bias[None, :]) if is_moved else log_odds


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


class Presence(NamedTuple):
    """§3.1 Which items a list has, as one binary site for each item: the list has item i if x_i > 0.

    The items S of a list that are shown predict the others, by hidden units with tied weights. Given S, units are
    independent of each other:

        P(h_k = 1 | S) = σ(γ_k + s |S|^-½ Σ_{i ∈ S} W_ik),
        x_i = α_i + δ log(1 + |S|) + Σ_k W_ik h_k + ε_i,  ε_i ~ N(0, 1),

    and an item that is not shown is in the list with probability P(x_i > 0) at the mean-field q of h. This function is
    what is trained, so no approximation is between training and prediction. Of S, functions take the sum of W over S
    and the number of its items.
    """

    site_bias: Float[Array, " site"]  # α: how often lists have each item
    weights: Float[Array, "site hidden"]  # W
    hidden_bias: Float[Array, " hidden"]  # γ
    length: Float[Array, ""]  # δ: how many more items are in a list of which many are shown
    scale: Float[Array, ""]  # s: the weight of what is shown

    def hidden(self, total: Hidden, number: PerRow) -> Hidden:
        """P(h_k = 1 | S)."""
        pull = total * (self.scale * jax.lax.rsqrt(jnp.maximum(number, 1.0)))[:, None]
        return jax.nn.sigmoid(self.hidden_bias[None, :] + pull)

    def means(self, total: Hidden, number: PerRow) -> Float[Array, "row site"]:
        """α_i + δ log(1 + |S|) + Σ_k W_ik P(h_k = 1 | S)."""
        bias = self.site_bias[None, :] + (self.length * jnp.log1p(number))[:, None]
        return bias + self.hidden(total, number) @ self.weights.T


@jax.jit
def listed_chances(presence: Presence, total: Hidden, number: PerRow) -> Float[Array, "row site"]:
    """P(list has item i | S) = Φ(mean of x_i), right for items that are not in S."""
    return jax.scipy.special.ndtr(presence.means(total, number))
