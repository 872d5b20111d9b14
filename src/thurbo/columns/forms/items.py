"""Functions for forms in the listed layout: the most frequent items, for regressions, segments and reports."""

from __future__ import annotations

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.cells import BoolArray, FloatArray, IntArray

N_FEATURES = 40  # items with a feature of their own in a regression
N_SHOWN = 12  # items that a report or a segment shows
DAMPING = 5.0  # shrinkage of an item's mean to that of all items, in answers


def most_frequent(block: Block, most: int, lines: BoolArray | None = None) -> IntArray:
    """Sites in most lists, the most frequent first."""
    assert block.entries is not None
    site = block.entries.site if lines is None else block.entries.site[lines]
    count = np.bincount(site, minlength=len(block.sites))
    order = np.argsort(-count, kind="stable")[:most]
    return order[count[order] > 0].astype(np.int32)


def by_row(block: Block, values: FloatArray, sites: IntArray, lines: BoolArray | None = None) -> FloatArray:
    """Values [line] of some sites as a table [row, site], NaN if a row does not list it."""
    assert block.entries is not None
    row, site = block.entries.row, block.entries.site
    place = np.full(len(block.sites), -1)
    place[sites] = np.arange(len(sites))
    kept = (place[site] >= 0) & ~np.isnan(values)
    kept = kept if lines is None else kept & lines
    found = np.full((block.n_rows, len(sites)), np.nan)
    found[row[kept], place[site[kept]]] = values[kept]
    return found


def row_means(block: Block, values: FloatArray) -> FloatArray:
    """Mean of the values [line] of each row, NaN if it has none: [row]."""
    assert block.entries is not None
    known = ~np.isnan(values)
    row = block.entries.row[known]
    count = np.bincount(row, minlength=block.n_rows)
    total = np.bincount(row, values[known], minlength=block.n_rows)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def features(block: Block, values: FloatArray, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Mean and number of a row's values, and the values of the most frequent items: [row, feature], [row]."""
    known = shown & ~np.isnan(values)
    assert block.entries is not None
    if known.any():
        values = (values - values[known].mean()) / (values[known].std() or 1.0)
    kept = np.where(known, values, np.nan)
    mean = np.nan_to_num(row_means(block, kept))
    count = np.bincount(block.entries.row[known], minlength=block.n_rows)
    table = by_row(block, kept, most_frequent(block, N_FEATURES, known))
    parts = [mean[:, None], np.log1p(count)[:, None], np.nan_to_num(table), ~np.isnan(table)]
    return np.concatenate(parts, axis=1).astype(np.float64), count > 0


def shifts(block: Block, level: FloatArray, weight: FloatArray) -> FloatArray:
    """Difference of each item's mean from that of all items, in standard deviations, shrunk if few answers: [site].

    `level` and `weight` are those of each line.
    """
    assert block.entries is not None
    site, n_sites = block.entries.site, len(block.sites)
    if not len(site) or not weight.any():
        return np.zeros(n_sites)
    n = np.bincount(site, weight, minlength=n_sites)
    total, typical = np.bincount(site, weight * level, minlength=n_sites), np.average(level, weights=weight)
    spread = np.sqrt(np.average((level - typical) ** 2, weights=weight)) or 1.0
    return (total - typical * n) / (n + DAMPING) / spread
