"""Functions for forms in the listed layout: the most frequent items, for regressions, segments and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.block import Block
from thurbo.columns.cells import BoolArray, FloatArray, IntArray
from thurbo.columns.forms.scores import ByRival, Tested

if TYPE_CHECKING:
    from thurbo.columns.column import Column
    from thurbo.columns.forms.form import Trial

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


def pairs_of(row: NDArray[Any], value: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Positions of (better, worse) lines among lines of the same row; `row` is sorted."""
    better, worse = [], []
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(row)], strict=True):
        a, b = np.nonzero(value[begin:end, None] > value[None, begin:end])
        better.append(a + begin)
        worse.append(b + begin)
    if not better:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    return np.concatenate(better), np.concatenate(worse)


def in_order(gap: FloatArray) -> FloatArray:
    """1 where the better item of a pair has the higher value, a half in a tie."""
    return (gap > 0) + 0.5 * (gap == 0)


def test_order(column: Column, trial: Trial, truth: NDArray[Any], values: ByRival) -> list[Tested]:
    """Accuracy of ranking: of two masked items of one row with different scores, is the better one predicted higher?

    `truth` are the scores of the masked lines, `values` what each method expects, [answer].
    """
    entries = trial.block.entries
    if entries is None:
        return []
    better, worse = pairs_of(trial.row, truth)
    if not len(better):
        return []
    right = {rival: in_order(each[better] - each[worse]) for rival, each in values.items()}
    weight = trial.weight[trial.masked][better]
    return [Tested.of(f"{trial.name}: pairs", column, "pair", trial.row[better], weight, right=right)]
