"""§4.4 Rankings of all items under many means at once: log P(ranking | state) for every state and row.

The integrals of chains.py, F_j(t) = ∫_{s<t} F_{j−1}(s) φ_j(s) ds, by the trapezoid rule and Euler and Maclaurin's first
corrections: one constant matrix and no logarithms, a sixth of the time. In float32 log P is good to 1e-4 down to
P = e^−20 and to 1e-3 down to e^−30. Where no state gives a row e^LEAST, `Order` uses chains.py, accurate in any tail.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from thurbo._typing import Array, Bool, Float, Int
from thurbo.constraints.masses.splits import Split, beside, peak_of, reach_of

Placed = Float[Array, "place pair"]  # means from the lowest item to the highest
PerPair = Float[Array, " pair"]
Nodes = Float[Array, "node block pair"]

LEAST = -25.0  # nats
MOST_ITEMS = 12  # 12! = e^20: rankings of more are too unlikely, all of them
WORTHWHILE = 2048  # states times rows from which on a second program pays
BLOCK, BLOCKS = 16, 8
DROP = 14.0  # how many nats below its peak the density of an outer item is cut off
PORTION, ON_ACCELERATOR = 128, 256  # pairs at a time, and how many times more where launches are what costs
_SQRT_2PI, _SQRT_HALF = float(np.sqrt(2.0 * np.pi)), float(np.sqrt(0.5))


@lru_cache
def _matrix() -> np.ndarray:
    """[node + 1, before + node + behind]: ∫ up to each node of a block from its left edge on, and its whole sum.

    ∫_{s<t} f = h (Σ f − f(t)/2) − h²/12 f'(t) + h⁴/720 f'''(t) − h⁶/30240 f⁽⁵⁾(t), with differences over three
    neighbours on either side for the derivatives.
    """
    near = -np.array([45, -9, 1]) / 720 + np.array([-13, 8, -1]) / 5760 - np.array([5, -4, 1]) / 60480
    out = np.zeros((BLOCK + 1, BLOCK + 6))
    out[:BLOCK, 3:-3] = np.tri(BLOCK) - 0.5 * np.eye(BLOCK)
    for step, weight in enumerate(near, 1):
        for node in range(BLOCK):
            out[node, 3 + node + step] += weight
            out[node, 3 + node - step] -= weight
    out[BLOCK, 3:-3] = 1.0
    return out


def _times(matrix: np.ndarray, value: Array) -> Array:
    """A constant matrix times the first axis."""
    return jnp.tensordot(jnp.asarray(matrix, value.dtype), value, 1, precision=lax.Precision.HIGHEST)


def _cumulate(f: Nodes, unit: PerPair) -> Nodes:
    """∫_{s<t} f(s) ds at every node t."""
    gap = jnp.zeros_like(f[:3, :1])
    before = jnp.concatenate([gap, f[-3:, :-1]], axis=1)
    behind = jnp.concatenate([f[:3, 1:], gap], axis=1)
    every = _times(_matrix(), jnp.concatenate([before, f, behind], axis=0))
    earlier = _times(np.tri(BLOCKS, k=-1), every[-1])
    return jnp.maximum(every[:-1] + earlier[None], 0.0) * unit[None, None]


def _grid(left: PerPair, right: PerPair) -> tuple[Nodes, PerPair]:
    """Even nodes from end to end, and their distance over √2π: φ is used without its constant."""
    step = (right - left) / (BLOCK * BLOCKS - 1)
    number = np.arange(BLOCK)[:, None] + BLOCK * np.arange(BLOCKS)[None, :]
    t = left[None, None] + step[None, None] * jnp.asarray(number, left.dtype)[:, :, None]
    return t, step / _SQRT_2PI


def _bump(t: Nodes, mean: PerPair) -> Nodes:
    z = t - mean[None, None]
    return jnp.exp(-0.5 * z * z)


def _below(t: Nodes, mean: PerPair) -> Nodes:
    """Φ(t − mean)."""
    return 0.5 * lax.erfc((mean[None, None] - t) * _SQRT_HALF)


@jax.custom_jvp
def log_mass_of_pairs(placed: Placed, left: PerPair, right: PerPair) -> PerPair:
    """log P(x_0 < x_1 < …), x_j ~ N(placed_j, 1); all but the lowest lie between the ends."""
    t, unit = _grid(left, right)
    climb = lambda f, mean: (_cumulate(f * _bump(t, mean), unit), None)  # noqa: E731
    f, _ = lax.scan(climb, _below(t, placed[0]), placed[1:-1])
    return _log((f * _bump(t, placed[-1])).sum(axis=(0, 1)) * unit)


def _log(mass: PerPair) -> PerPair:
    return jnp.log(jnp.maximum(mass, jnp.finfo(mass.dtype).tiny))


@log_mass_of_pairs.defjvp
def _log_mass_of_pairs_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[PerPair, PerPair]:
    value, slopes = slopes_of_pairs(*primals)
    return value, (slopes * tangents[0]).sum(axis=0)


def slopes_of_pairs(placed: Placed, left: PerPair, right: PerPair) -> tuple[PerPair, Placed]:
    """log P and its slopes, E[x_j − mean_j]: the same recursion from above runs beside it as if it were more pairs.

    A common shift of all means changes nothing, so the slopes sum to zero, which gives the highest item's.
    """
    n = placed.shape[1]
    t, unit = _grid(beside(left, -right), beside(right, -left))
    both = beside(placed, -placed[::-1])

    def climb(f: Nodes, mean: PerPair) -> tuple[Nodes, tuple[Array, Array]]:
        inside = f * _bump(t, mean)
        return _cumulate(inside, unit), (f[..., n:], inside[..., :n])

    f, (above, inside) = lax.scan(climb, _below(t, both[0]), both[1:-1])
    t, unit = t[..., :n], unit[:n]
    value = _log((f[..., :n] * _bump(t, placed[-1])).sum(axis=(0, 1)) * unit)
    chance = inside * jnp.flip(above, axis=(0, 1, 2))  # [place, node, block, pair]
    total = jnp.maximum(chance.sum(axis=(1, 2)), jnp.finfo(chance.dtype).tiny)
    middle = (chance * t[None]).sum(axis=(1, 2)) / total - placed[1:-1]
    # ∂Φ/∂mean = −φ in the place of Φ; it occurs only in the step from the lowest item to the next.
    slope = _bump(t, placed[0]) * _bump(t, placed[1]) * jnp.flip(above[-1], axis=(0, 1))
    lowest = -slope.sum(axis=(0, 1)) / (_SQRT_2PI * total[0])
    return value, jnp.concatenate([lowest[None], middle, -(lowest + middle.sum(axis=0))[None]], axis=0)


def _reaches(means: Float[Array, "state item"]) -> tuple[Float[Array, "state item"], Float[Array, "state item"]]:
    """How far left the second lowest item reaches where this one is the lowest, and how far right the highest."""
    n_states, n = means.shape
    mean = jnp.repeat(means, n, axis=0).T  # [item, state · item]
    own = jnp.asarray(np.tile(np.eye(n, dtype=bool), (1, n_states)))
    deviation = jnp.ones_like(mean)
    both = beside(Split(mean, deviation, own, ~own, ~own), Split(mean, deviation, ~own, own, own))
    at = reach_of(both, peak_of(both), DROP, np.repeat([-1.0, 1.0], n_states * n))
    return at[: n_states * n].reshape(n_states, n), at[n_states * n :].reshape(n_states, n)


def suits(means: Float[Array, "state slot"], n_rows: int, real: np.ndarray) -> bool:
    """Whether so many states and rows are worth compiling this, and whether it supports their dtype and sizes."""
    n_items = real.sum(axis=1)
    is_known = means.dtype == jnp.float32 and n_items.min() >= 3 and n_items.max() <= MOST_ITEMS
    return bool(is_known) and means.shape[0] * n_rows >= WORTHWHILE


def log_mass_of_orders(
    means: Float[Array, "state order item"], tier: Int[Array, "row order item"], real: np.ndarray
) -> tuple[Float[Array, "state row"], Bool[Array, ""]]:
    """log P of all orders of every row under every state, uninformative ones left out; and whether it is accurate.

    It is where each order is likely enough in its most probable state: other states then hardly matter.
    """
    total, is_sure = jnp.zeros((means.shape[0], tier.shape[0]), means.dtype), jnp.asarray(True)
    for number, here in enumerate(real):
        own = np.flatnonzero(here)
        codes, informative = tier[:, number, own], tier[:, number].max(axis=-1) > 0
        places = jnp.where(informative[:, None], codes, jnp.arange(len(own), dtype=codes.dtype)[None, :])
        mass = jnp.where(informative[None, :], log_mass(means[:, number, own], places), 0.0)
        total, is_sure = total + mass, is_sure & (mass.max(axis=0) > LEAST).all()
    return total, is_sure


def log_mass(means: Float[Array, "state item"], places: Int[Array, "row item"]) -> Float[Array, "state row"]:
    """log P of every row's ranking under every state; `places` are 0 for the lowest item, then 1, 2, …"""
    n_states, (n_rows, n) = means.shape[0], places.shape
    who = jax.nn.one_hot(places, n, axis=1, dtype=means.dtype)  # [row, place, item]
    pick = lambda value, who: jnp.einsum("si,r...i->...sr", value, who, precision=lax.Precision.HIGHEST)  # noqa: E731
    left, right = _reaches(lax.stop_gradient(means))
    parts = (pick(means, who), pick(left, who[:, 0]), pick(right, who[:, -1]))
    flat = [part.reshape(*part.shape[:-2], n_states * n_rows) for part in parts]
    portion = PORTION * (1 if jax.default_backend() == "cpu" else ON_ACCELERATOR)
    count = n_states * n_rows
    n_portions = -(-count // portion)

    def cut(value: Array) -> Array:
        filled = jnp.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, n_portions * portion - count)], mode="edge")
        return jnp.moveaxis(filled.reshape(*value.shape[:-1], n_portions, portion), -2, 0)

    every = lax.map(lambda part: log_mass_of_pairs(*part), tuple(cut(value) for value in flat))
    return every.reshape(-1)[:count].reshape(n_states, n_rows)
