"""§7 Which items next: utilities of a list's items given all that a row says, and the best of them.

The utility of an item is the mean of its x given the row, above the item's first cut where scores are levels: what the
row would score it by, in units of the noise. Items that no row of the fit listed stay at the mean of all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from thurbo._typing import Array, Factors, Float, Hidden
from thurbo.queries.predict import Features
from thurbo.rbm import Params

ROWS_AT_ONCE = 512


class Ranked(NamedTuple):
    """One entry for each row and place: row numbers, items' places in the column, utilities, and places from 1."""

    row: np.ndarray
    item: np.ndarray
    utility: np.ndarray
    place: np.ndarray


@jax.jit
def utilities(
    params: Params, hidden: Hidden, factors: Factors, zero: Float[Array, " site"]
) -> Float[Array, "row site"]:
    """α + W q + V z of every site, less where its scale begins."""
    mean = params.site_bias[None, :] + hidden @ params.weights.T
    if params.n_factors:
        mean = mean + factors @ params.loadings.T
    return mean - zero[None, :]


def of_items(params: Params, where: slice, has_levels: bool) -> Callable[[Features], np.ndarray]:
    """A function from features of rows to the utilities of a column's items, [row, item]."""
    own = params._replace(
        site_bias=params.site_bias[where],
        weights=params.weights[where],
        loadings=params.loadings[where],
        presence=None,
        factor_prior=None,
    )
    zero = params.gauge.cuts[where, 0] if has_levels else jnp.zeros_like(own.site_bias)

    def ask(found: Features) -> np.ndarray:
        return np.asarray(utilities(own, jnp.asarray(found.hidden), jnp.asarray(found.factors), zero))

    return ask


@partial(jax.jit, static_argnames=("top",))
def _best(utility: Float[Array, "row item"], top: int) -> tuple[Array, Array]:
    value, place = jax.lax.top_k(utility, top)
    return value, place


def best(
    found: Features,
    ask: Callable[[Features], np.ndarray],
    top: int,
    allowed: np.ndarray,
    seen: tuple[np.ndarray, np.ndarray] | None,
) -> Ranked:
    """The `top` items of every row among those allowed [item], without those seen (start of each row, items)."""
    n_rows = len(found.hidden)
    parts: list[Ranked] = []
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, n_rows)
        rows = np.minimum(np.arange(begin, begin + ROWS_AT_ONCE), n_rows - 1)  # one shape for all portions
        utility = np.array(ask(jax.tree.map(lambda leaf, rows=rows: leaf[rows], found)))
        utility[:, ~allowed] = -np.inf
        if seen is not None:
            start, item = seen
            length = start[begin + 1 : end + 1] - start[begin:end]
            utility[np.repeat(np.arange(end - begin), length), item[start[begin] : start[end]]] = -np.inf
        value, place = map(np.asarray, _best(jnp.asarray(utility), min(top, utility.shape[1])))
        value, place = value[: end - begin], place[: end - begin]
        row, order = np.nonzero(np.isfinite(value))
        parts.append(Ranked(row + begin, place[row, order], value[row, order], order + 1))
    return Ranked(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def of_pairs(found: Features, ask: Callable[[Features], np.ndarray], row: np.ndarray, item: np.ndarray) -> Ranked:
    """Utilities of given pairs, each row's ordered from the best; places are within the row."""
    utility = np.empty(len(row))
    for begin in range(0, len(found.hidden), ROWS_AT_ONCE):
        taken = np.minimum(np.arange(begin, begin + ROWS_AT_ONCE), len(found.hidden) - 1)
        own = np.flatnonzero((row >= begin) & (row < begin + ROWS_AT_ONCE))
        if len(own):
            every = ask(jax.tree.map(lambda leaf, taken=taken: leaf[taken], found))
            utility[own] = every[row[own] - begin, item[own]]
    order = np.lexsort((-utility, row))
    row, item, utility = row[order], item[order], utility[order]
    first = np.searchsorted(row, row)
    return Ranked(row, item, utility, np.arange(len(row)) - first + 1)


def above(utility: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """P(one item above another) from the mean and variance of the difference of their utilities."""
    return ndtr(utility / np.sqrt(variance))


def similar(params: Params, where: slice, item: int) -> np.ndarray:
    """Correlation of what moves an item's utility with what moves every other's, [item]: cosine of (W √v, V).

    v is the variance of each hidden unit over the data; how generous a row is, which all items share, is left out.
    """
    rate = np.asarray(params.hidden_mean, np.float64)
    weights = np.asarray(params.weights[where], np.float64) * np.sqrt(rate * (1.0 - rate))[None, :]
    both = np.concatenate([weights, np.asarray(params.loadings[where], np.float64)], axis=1)
    both = both - both.mean(axis=0, keepdims=True)
    length = np.linalg.norm(both, axis=1)
    return both @ both[item] / np.maximum(length * length[item], 1e-12)
