"""§7 Recommendations: utilities of a list's items given the evidence of a row, and the best of them.

The utility of an item is the mean of its x given the row, minus the item's first cut if scores are levels, in units of
the noise. Items that are in no list of the training table stay at the mean of all items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from thurbo._typing import Array, Factors, Float, Hidden, PerRow
from thurbo.evidence import Evidence
from thurbo.inference.gibbs import clamp
from thurbo.queries.features import Features
from thurbo.rbm import Params

ROWS_AT_ONCE = 512


class Ranked(NamedTuple):
    """One entry for each row and rank: row numbers, positions of items, utilities, and ranks from 1."""

    row: np.ndarray
    item: np.ndarray
    utility: np.ndarray
    place: np.ndarray


@jax.jit
def utilities(
    params: Params, hidden: Hidden, factors: Factors, zero: Float[Array, " site"]
) -> Float[Array, "row site"]:
    """α + W q + V z of every site, minus the origin of its scale."""
    mean = params.site_bias[None, :] + hidden @ params.weights.T
    if params.n_factors:
        mean = mean + factors @ params.loadings.T
    return mean - zero[None, :]


Ask = Callable[[np.ndarray], np.ndarray]  # row numbers → utilities [row, item]


def of_items(params: Params, found: Features, where: slice, has_levels: bool) -> Ask:
    """A function from row numbers to the utilities of a column's items, given the features of all rows."""
    every = (params.site_bias, params.weights, params.loadings, params.gauge.cuts)
    bias, weights, loadings, cuts = jax.device_put([np.asarray(leaf)[where] for leaf in every])
    own = params._replace(site_bias=bias, weights=weights, loadings=loadings, presence=None, factor_prior=None)
    zero = jax.device_put(np.asarray(cuts)[:, 0] if has_levels else np.zeros_like(bias))

    def ask(rows: np.ndarray) -> np.ndarray:
        return np.asarray(utilities(own, found.hidden[rows], found.factors[rows], zero))

    return ask


def together(asks: Sequence[Ask], weights: np.ndarray) -> Ask:
    """Utilities averaged over the members of a model by their weights."""
    return lambda rows: np.asarray(sum(np.float32(w) * ask(rows) for w, ask in zip(weights, asks, strict=True)))


def _portions(n_rows: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Start, end and row numbers of portions of equal shape; the last is padded with the last row."""
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        rows = np.minimum(np.arange(begin, begin + ROWS_AT_ONCE), n_rows - 1)
        yield begin, min(begin + ROWS_AT_ONCE, n_rows), rows


@partial(jax.jit, static_argnames=("top",))
def _best(utility: Float[Array, "row item"], top: int) -> tuple[Array, Array]:
    value, place = jax.lax.top_k(utility, top)
    return value, place


def best(ask: Ask, n_rows: int, top: int, allowed: np.ndarray, seen: tuple[np.ndarray, np.ndarray] | None) -> Ranked:
    """The `top` items of every row among those allowed [item], without those in `seen` (start of each row, items)."""
    parts: list[Ranked] = []
    for begin, end, rows in _portions(n_rows):
        utility = np.array(ask(rows))
        utility[:, ~allowed] = -np.inf
        if seen is not None:
            start, item = seen
            length = start[begin + 1 : end + 1] - start[begin:end]
            utility[np.repeat(np.arange(end - begin), length), item[start[begin] : start[end]]] = -np.inf
        value, place = map(np.asarray, _best(utility, min(top, utility.shape[1])))
        value, place = value[: end - begin], place[: end - begin]
        row, order = np.nonzero(np.isfinite(value))
        parts.append(Ranked(row + begin, place[row, order], value[row, order], order + 1))
    return Ranked(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def of_pairs(ask: Ask, n_rows: int, row: np.ndarray, item: np.ndarray) -> Ranked:
    """Utilities of given pairs, sorted from best to worst within each row; ranks are within the row."""
    utility = np.empty(len(row))
    for begin, end, rows in _portions(n_rows):
        own = np.flatnonzero((row >= begin) & (row < end))
        if len(own):
            utility[own] = ask(rows)[row[own] - begin, item[own]]
    order = np.lexsort((-utility, row))
    row, item, utility = row[order], item[order], utility[order]
    first = np.searchsorted(row, row)
    return Ranked(row, item, utility, np.arange(len(row)) - first + 1)


def difference(ask: Ask, n_rows: int, one: int, two: int) -> np.ndarray:
    """Difference of the utilities of two items, [row]."""
    parts = [ask(rows)[: end - begin] for begin, end, rows in _portions(n_rows)]
    return np.concatenate([each[:, one] - each[:, two] for each in parts])


@jax.jit
def factor_spread(params: Params, evidence: Evidence, between: Float[Array, " factor"]) -> PerRow:
    """Variance of a combination of the factors given a row."""
    whitener = clamp(params, evidence).whitener
    assert whitener is not None
    half = jnp.einsum("rfg,g->rf", whitener, between)
    return (half * half).sum(axis=-1)


def above(utility: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """P(one item above another) from the mean and variance of the difference of their utilities."""
    return ndtr(utility / np.sqrt(variance))


def similar(params: Params, where: slice, item: int) -> np.ndarray:
    """Correlation between the utilities of one item and of every other, [item]: cosine of (W √v, V).

    v is the variance of each hidden unit over the data. The common factor of all items (a row's mean) is excluded.
    """
    rate = np.asarray(params.hidden_mean, np.float64)
    weights = np.asarray(params.weights[where], np.float64) * np.sqrt(rate * (1.0 - rate))[None, :]
    both = np.concatenate([weights, np.asarray(params.loadings[where], np.float64)], axis=1)
    both = both - both.mean(axis=0, keepdims=True)
    length = np.linalg.norm(both, axis=1)
    return both @ both[item] / np.maximum(length * length[item], 1e-12)
