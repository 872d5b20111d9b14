"""§5 Where learning starts, and the coordinates it moves in.

Cuts start at the quantiles of each answer's own frequencies, so that the untrained model is the independent one. The
optimiser sees centred, unconstrained coordinates (`Learnable`); `fold` gives back the paper's α, W, γ, θ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from thurbo._typing import Array, Bool, Float, Int, PRNGKey
from thurbo.constraints import Gauge
from thurbo.rbm import Params

DAMPING = 5.0  # answers that an item's mean is drawn to that of all by
GENEROSITY = 0.5  # starting loading of all items on the first factor
WIDER = 1.2  # latent spread of a list's items in units of their noise, roughly


class Learnable(NamedTuple):
    """What the optimiser moves: x and h centred, cuts as a first cut and log-gaps, scales as logs."""

    site_bias: Float[Array, " site"]
    weights: Float[Array, "site hidden"]
    hidden_bias: Float[Array, " hidden"]
    loadings: Float[Array, "site factor"]
    first_cut: Float[Array, " site"]
    log_gaps: Float[Array, "site gap"]
    log_scale: Float[Array, " site"]
    presence: Float[Array, "site unit"]  # of no units where presence says nothing


class Centre(NamedTuple):
    """Running means of h and x in the data phase: the energy is written in h − c and x − d, then folded back."""

    hidden: Float[Array, " hidden"]
    site: Float[Array, " site"]


class Layout(NamedTuple):
    """What kind each site is: how many learnable cuts it has, and whether it is measured, with a scale to learn.

    A utility (of a category or a ranked item) has neither: only its bias moves. Where `active_*` are given, the other
    units and factors stay as they began: models of many sizes in one compiled program.
    """

    n_cuts: Int[Array, " site"]
    measured: Bool[Array, " site"]
    active_hidden: Bool[Array, " hidden"] | None = None
    active_factors: Bool[Array, " factor"] | None = None
    listed: Float[Array, " site"] | None = None  # 1 for items of lists, which share the gaps between their cuts
    item_decay: Float[Array, ""] | None = None  # precision of the items of lists around their mean, a cell


def fold(learnable: Learnable, centre: Centre, layout: Layout) -> Params:
    """α = a − W c, γ = g − Wᵀ d, θ_l = θ_1 + Σ gaps: the same model in the paper's parameters."""
    return Params(
        site_bias=learnable.site_bias - learnable.weights @ centre.hidden,
        weights=learnable.weights,
        hidden_bias=learnable.hidden_bias - centre.site @ learnable.weights,
        loadings=learnable.loadings,
        gauge=Gauge(_cuts(learnable, layout), jnp.exp(learnable.log_scale)),
        hidden_mean=centre.hidden,
        presence=None if layout.listed is None or not learnable.presence.shape[1] else learnable.presence,
    )


def recentre(learnable: Learnable, old: Centre, new: Centre) -> Learnable:
    """Move the centre without moving the model."""
    return learnable._replace(
        site_bias=learnable.site_bias + learnable.weights @ (new.hidden - old.hidden),
        hidden_bias=learnable.hidden_bias + (new.site - old.site) @ learnable.weights,
    )


def _cuts(learnable: Learnable, layout: Layout) -> Float[Array, "site cut"]:
    first, gaps, n_cuts = learnable.first_cut[:, None], learnable.log_gaps, layout.n_cuts
    if layout.listed is not None:
        gaps = jnp.where(layout.listed[:, None] > 0, gaps[jnp.argmax(layout.listed)][None, :], gaps)
    width = gaps.shape[1] + 1
    real_gap = jnp.arange(width - 1, dtype=n_cuts.dtype)[None, :] < n_cuts[:, None] - 1
    steps = jnp.where(real_gap, jnp.exp(jnp.where(real_gap, gaps, jnp.zeros_like(gaps))), jnp.zeros_like(gaps))
    cuts = first + jnp.concatenate([jnp.zeros_like(first), jnp.cumsum(steps, axis=1)], axis=1)
    return jnp.where(jnp.arange(width, dtype=n_cuts.dtype)[None, :] < n_cuts[:, None], cuts, jnp.inf)


def frequencies(code: np.ndarray, n_cuts: np.ndarray, row_weight: np.ndarray) -> np.ndarray:
    """Weighted counts of every level at every site, [site, level], each level with half an answer added."""
    n_sites = code.shape[1]
    width = int(n_cuts.max(initial=0)) + 1
    counts = np.zeros((n_sites, width))
    for level in range(width):
        counts[:, level] = row_weight @ (code == level)
    return counts + 0.5 * (np.arange(width)[None, :] <= n_cuts[:, None])


def starting_cuts(code: np.ndarray, n_cuts: np.ndarray, row_weight: np.ndarray) -> np.ndarray:
    """θ_l = Φ⁻¹(share of answers at or below level l), [site, cut]; +∞ beyond a site's last cut."""
    counts = frequencies(code, n_cuts, row_weight)
    width = counts.shape[1] - 1
    share = np.cumsum(counts, axis=1)[:, :width] / counts.sum(axis=1, keepdims=True).clip(1e-300)
    return np.where(np.arange(width)[None, :] < n_cuts[:, None], ndtri(share.clip(1e-6, 1 - 1e-6)), np.inf)


def starting_utilities(tier: np.ndarray, columns: Sequence[str], row_weight: np.ndarray) -> np.ndarray:
    """Biases of utilities, [site]: √6/π times the log-share of rows that choose each, centred within each column.

    With them the untrained model has the shares of the answers (exactly so by the Gumbel mass, A.3), which hidden units
    would otherwise make up for, the same for all rows. Of ranked items it is the log-odds of standing high. `tier` is
    [row, site], −1 where a site takes no part; how high an item stands is its tier over the row's highest.
    """
    bias = np.zeros(tier.shape[1])
    for name in dict.fromkeys(columns):
        own = np.flatnonzero(np.asarray(columns) == name)
        top = tier[:, own].max(axis=1, keepdims=True)
        part = (tier[:, own] >= 0) & (top > 0)
        if part.any():
            weight = row_weight[:, None] * part
            height = (weight * np.where(part, tier[:, own], 0) / np.maximum(top, 1)).sum(axis=0)
            share = (height + 0.5) / (weight.sum(axis=0) + 1.0)
            one_best = bool(((tier[:, own] > 0).sum(axis=1) <= 1).all())
            bias[own] = np.sqrt(6) / np.pi * np.log(share / (1.0 if one_best else 1.0 - share))
            bias[own] -= bias[own].mean()
    return bias


class ListStart(NamedTuple):
    """Where the items of a list begin: cuts [item, cut] of levels, or biases [item] of utilities."""

    cuts: np.ndarray
    bias: np.ndarray


def starting_lists(site: np.ndarray, code: np.ndarray, weight: np.ndarray, n_items: int, n_cuts: int) -> ListStart:
    """Cuts at the quantiles of all answers, shifted by each item's mean; of an order, biases by mean places.

    Means of few answers are drawn to that of all. `weight` is that of each entry; tiers are shares of their highest.
    """
    n = np.bincount(site, weight, minlength=n_items)
    level = code.astype(np.float64)
    total, typical = np.bincount(site, weight * level, minlength=n_items), np.average(level, weights=weight)
    spread = np.sqrt(np.average((level - typical) ** 2, weights=weight)) or 1.0
    shift = (total - typical * n) / (n + DAMPING) / spread
    if not n_cuts:
        return ListStart(np.zeros((n_items, 0)), shift)
    share = np.bincount(code, weight, minlength=n_cuts + 1) + 0.5
    cuts = ndtri((np.cumsum(share)[:-1] / share.sum()).clip(1e-6, 1 - 1e-6))
    return ListStart(WIDER * (cuts[None, :] - shift[:, None]), np.zeros(n_items))


def start(
    key: PRNGKey,
    cuts: np.ndarray,
    n_cuts: np.ndarray,
    n_hidden: int,
    n_factors: int,
    dtype: np.dtype,
    *,
    site_bias: np.ndarray | None = None,
    hidden_rate: float = 0.5,
    weight_scale: float = 0.1,
    n_presence: int = 0,
) -> tuple[Learnable, Centre]:
    """Small random weights around the independent model, hidden units at `hidden_rate`."""
    n_sites = len(n_cuts)
    key_w, key_v = jax.random.split(key)
    width = max(cuts.shape[1], 1)
    padded = np.full((n_sites, width), np.inf)
    padded[:, : cuts.shape[1]] = cuts
    first = np.where(np.isfinite(padded[:, 0]), padded[:, 0], 0.0)
    with np.errstate(invalid="ignore"):
        gaps = np.diff(padded, axis=1)
    log_gaps = np.log(np.where(np.isfinite(gaps), gaps, 1.0).clip(1e-4))
    learnable = Learnable(
        site_bias=jnp.zeros(n_sites, dtype) if site_bias is None else jnp.asarray(site_bias, dtype),
        weights=weight_scale * jax.random.normal(key_w, (n_sites, n_hidden), dtype),
        hidden_bias=jnp.full(n_hidden, np.log(hidden_rate / (1 - hidden_rate)), dtype),
        loadings=weight_scale * jax.random.normal(key_v, (n_sites, n_factors), dtype),
        first_cut=jnp.asarray(first, dtype),
        log_gaps=jnp.asarray(log_gaps, dtype),
        log_scale=jnp.zeros(n_sites, dtype),
        presence=jnp.zeros((n_sites, n_presence), dtype),
    )
    centre = Centre(jnp.full(n_hidden, hidden_rate, dtype), learnable.site_bias)
    return learnable, centre
