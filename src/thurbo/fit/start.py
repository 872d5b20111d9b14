"""§5 Initial values of the parameters, and the coordinates of the optimiser.

Cuts start at the quantiles of the observed frequencies, so that the untrained model is the independent one. The
optimiser uses centred, unconstrained coordinates (`Learnable`); `fold` converts them to the paper's α, W, γ, θ.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import _runtime
from thurbo._typing import Array, Bool, Chains, Float, Int, PRNGKey
from thurbo.latent.constraints import Context, Gauge
from thurbo.latent.rbm import Params

GENEROSITY = 0.5  # initial loading of all items of a list on their common factor


class Learnable(NamedTuple):
    """Coordinates of the optimiser: x and h centred, cuts as a first cut and log-gaps, scales as logs."""

    site_bias: Float[Array, " site"]
    weights: Float[Array, "site hidden"]
    hidden_bias: Float[Array, " hidden"]
    loadings: Float[Array, "site factor"]
    first_cut: Float[Array, " site"]
    log_gaps: Float[Array, "site gap"]
    log_scale: Float[Array, " site"]
    presence: Float[Array, "site unit"]  # no units if presence is off
    effects: Float[Array, "feature unit"]  # B: of the bias, then of weights and loadings; none without attributes
    context: Context  # no items if no ranking has context


class Centre(NamedTuple):
    """Running means c of h and d of x in the data phase: the energy uses h − c and x − d; `fold` removes them."""

    hidden: Float[Array, " hidden"]
    site: Float[Array, " site"]


class Layout(NamedTuple):
    """The type of each site: its number of learned cuts, and whether it is measured, with a learned scale.

    A utility (of a category or a ranked item) has only a bias. The items of one list have the same gaps between cuts
    and the same scale. If `active_*` are given, the other units and factors do not change: models of several sizes in
    one compiled program.
    """

    n_cuts: Int[Array, " site"]
    measured: Bool[Array, " site"]
    active_hidden: Bool[Array, " hidden"] | None = None
    active_factors: Bool[Array, " factor"] | None = None
    utility: Bool[Array, " site"] | None = None  # sites that are utilities; None if there are none
    lists: Float[Array, "list site"] | None = None  # 1 for the items of each listed column, 0 elsewhere
    item_decay: Float[Array, " site"] | None = None  # precision of items around the mean of their list, per cell
    decay: Float[Array, " site"] | None = None  # weight decay of a member, in addition to that of the plan
    design: Float[Array, "site feature"] | None = None  # attributes of items (§8); None where no column has any
    constants: Float[Array, " site"] | None = None  # 1 for sites that have parameters of their own
    effect_decay: Float[Array, " feature"] | None = None  # precision of the effects of attributes, per cell
    context: Context | None = None  # 1 for what is learned of it, 0 elsewhere; None if no ranking has context
    shrinkage: Float[Array, ""] | None = None  # of a member: factor of both precisions, except of the items' biases

    @property
    def listed(self) -> Float[Array, " site"] | None:
        """1 for items of any list."""
        return None if self.lists is None else self.lists.sum(axis=0)


def described(learnable: Learnable, layout: Layout) -> Learnable:
    """With attributes f: a_i + B f_i, and the same for the weights and loadings of a site, Eq. (2) with §8."""
    if layout.design is None or layout.constants is None:
        return learnable
    own, n_hidden = layout.constants, learnable.weights.shape[1]
    added = jnp.matmul(layout.design, learnable.effects, precision=jax.lax.Precision.HIGHEST)
    return learnable._replace(
        site_bias=own * learnable.site_bias + added[:, 0],
        weights=own[:, None] * learnable.weights + added[:, 1 : 1 + n_hidden],
        loadings=own[:, None] * learnable.loadings + added[:, 1 + n_hidden :],
    )


@jax.jit
def fold(learnable: Learnable, centre: Centre, layout: Layout) -> Params:
    """α = a − W c, γ = g − Wᵀ d, θ_l = θ_1 + Σ gaps: the same model in the paper's parameters."""
    effects = None
    if layout.design is not None:
        n_hidden, raw = learnable.weights.shape[1], learnable.effects
        bias = raw[:, 0] - raw[:, 1 : 1 + n_hidden] @ centre.hidden
        effects = jnp.concatenate([bias[:, None], raw[:, 1:]], axis=1)
    learnable = described(learnable, layout)
    scale = jnp.exp(_of_lists(learnable.log_scale[:, None], layout)[:, 0])
    context = None if layout.context is None else learnable.context
    return Params(
        effects=effects,
        site_bias=learnable.site_bias - learnable.weights @ centre.hidden,
        weights=learnable.weights,
        hidden_bias=learnable.hidden_bias - centre.site @ learnable.weights,
        loadings=learnable.loadings,
        gauge=Gauge(_cuts(learnable, layout), scale, context),
        hidden_mean=centre.hidden,
        presence=None if layout.lists is None or not learnable.presence.shape[1] else learnable.presence,
    )


folded = jax.jit(fold, compiler_options=_runtime.RUNS_ONCE)  # outside of other programs


def chains(key: PRNGKey, rate: Float[Array, " hidden"], n_chains: int) -> Chains:
    """Initial states of the negative phase: hidden units drawn at their rates."""
    return jax.random.bernoulli(key, rate[None, :], (n_chains, rate.shape[0])).astype(rate.dtype)


def recentre(learnable: Learnable, old: Centre, new: Centre) -> Learnable:
    """Change the centre without changing the model."""
    effects = learnable.effects
    if effects.shape[0]:
        moved = effects[:, 1 : 1 + learnable.weights.shape[1]] @ (new.hidden - old.hidden)
        effects = effects.at[:, 0].add(moved)
    return learnable._replace(
        effects=effects,
        site_bias=learnable.site_bias + learnable.weights @ (new.hidden - old.hidden),
        hidden_bias=learnable.hidden_bias + (new.site - old.site) @ learnable.weights,
    )


def _of_lists(values: Float[Array, "site column"], layout: Layout) -> Float[Array, "site column"]:
    """Values by site; all items of a list have the values of its first item."""
    if layout.lists is None:
        return values
    first = values[jnp.argmax(layout.lists, axis=1)]  # [list, column]
    return jnp.where(layout.lists.sum(axis=0)[:, None] > 0, layout.lists.T @ first, values)


def _cuts(learnable: Learnable, layout: Layout) -> Float[Array, "site cut"]:
    first, gaps, n_cuts = learnable.first_cut[:, None], learnable.log_gaps, layout.n_cuts
    gaps = _of_lists(gaps, layout)
    width = gaps.shape[1] + 1
    real_gap = jnp.arange(width - 1, dtype=n_cuts.dtype)[None, :] < n_cuts[:, None] - 1
    steps = jnp.where(real_gap, jnp.exp(jnp.where(real_gap, gaps, jnp.zeros_like(gaps))), jnp.zeros_like(gaps))
    # Sums of the gaps below each cut; `cumsum` is several programs to compile.
    below = jnp.asarray(np.tri(width, width - 1, k=-1), steps.dtype).T
    cuts = first + jnp.matmul(steps, below, precision=jax.lax.Precision.HIGHEST)
    return jnp.where(jnp.arange(width, dtype=n_cuts.dtype)[None, :] < n_cuts[:, None], cuts, jnp.inf)


class Values(NamedTuple):
    """Initial values of a fit; loadings that are not a number are drawn."""

    site_bias: Float[Array, " site"]
    first_cut: Float[Array, " site"]
    log_gaps: Float[Array, "site gap"]
    hidden_rate: Float[Array, ""]
    weight_scale: Float[Array, ""]
    log_scale: Float[Array, " site"]
    effects: Float[Array, " feature"]
    loadings: Float[Array, "site factor"] | None = None


def values(
    cuts: np.ndarray,
    n_cuts: np.ndarray,
    dtype: np.dtype,
    *,
    site_bias: np.ndarray | None = None,
    hidden_rate: float = 0.5,
    weight_scale: float = 0.1,
    log_scale: np.ndarray | None = None,
    effects: np.ndarray | None = None,
    loadings: np.ndarray | None = None,
) -> Values:
    """Values of the independent model, on the host; hidden units at `hidden_rate`."""
    n_sites = len(n_cuts)
    width = max(cuts.shape[1], 1)
    padded = np.full((n_sites, width), np.inf)
    padded[:, : cuts.shape[1]] = cuts
    first = np.where(np.isfinite(padded[:, 0]), padded[:, 0], 0.0)
    with np.errstate(invalid="ignore"):
        gaps = np.diff(padded, axis=1)
    log_gaps = np.log(np.where(np.isfinite(gaps), gaps, 1.0).clip(1e-4))
    bias = np.zeros(n_sites) if site_bias is None else np.asarray(site_bias)
    scale = np.zeros(n_sites) if log_scale is None else log_scale
    of_attributes = np.zeros(0) if effects is None else effects
    given: list[Any] = [bias, first, log_gaps, hidden_rate, weight_scale, scale, of_attributes]
    given += [] if loadings is None else [loadings]
    found: tuple[Any, ...] = tuple(np.asarray(value, dtype) for value in given)
    return Values(*found)


@partial(jax.jit, static_argnames=("n_hidden", "n_factors", "n_presence", "n_context"))
def start(
    key: PRNGKey, values: Values, n_hidden: int, n_factors: int, n_presence: int = 0, n_context: int = 0
) -> tuple[Learnable, Centre]:
    """Small random weights around the independent model."""
    rate, n_sites, dtype = values.hidden_rate, values.site_bias.shape[0], values.site_bias.dtype
    key_w, key_v = jax.random.split(key)
    key_b = jax.random.fold_in(key, 2)
    loadings = values.weight_scale * jax.random.normal(key_v, (n_sites, n_factors), dtype)
    if values.loadings is not None:
        loadings = jnp.where(jnp.isnan(values.loadings), loadings, values.loadings)
    learnable = Learnable(
        site_bias=values.site_bias,
        weights=values.weight_scale * jax.random.normal(key_w, (n_sites, n_hidden), dtype),
        hidden_bias=jnp.broadcast_to(jnp.log(rate) - jnp.log1p(-rate), (n_hidden,)),
        loadings=loadings,
        first_cut=values.first_cut,
        log_gaps=values.log_gaps,
        log_scale=values.log_scale,
        presence=jnp.zeros((n_sites, n_presence), dtype),
        effects=jnp.concatenate(
            [
                values.effects[:, None],
                values.weight_scale * jax.random.normal(key_b, (values.effects.shape[0], n_hidden + n_factors), dtype),
            ],
            axis=1,
        ),
        context=Context(jnp.zeros((n_sites, n_context), dtype), jnp.zeros(n_sites if n_context else 0, dtype)),
    )
    return learnable, Centre(jnp.broadcast_to(rate, (n_hidden,)), values.site_bias)
