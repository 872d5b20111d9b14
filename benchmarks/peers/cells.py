"""What the scripts of this folder share: a table with gaps comes in as .npy, two completed tables go out as .npz.

Each script runs in its peer's own environment, `python impute_NAME.py IN OUT`, so nothing here needs more than NumPy.
`median` is the completed table to be judged by absolute errors, `mode` the one to be judged by exact hits.
"""

from __future__ import annotations

import sys

import numpy as np


def read() -> np.ndarray:
    """The table, NaN where an answer is missing or hidden."""
    return np.load(sys.argv[1])


def write(median: np.ndarray, mode: np.ndarray) -> None:
    """Two completed tables, for the benchmark to judge."""
    np.savez(sys.argv[2], median=median, mode=mode)


def levels(column: np.ndarray) -> np.ndarray:
    """The answers that occur."""
    return np.unique(column[~np.isnan(column)])


def most_frequent(column: np.ndarray) -> float:
    """The share of the most frequent answer: below a tenth, a column is rather a number than a list of answers."""
    counts = np.unique(column[~np.isnan(column)], return_counts=True)[1]
    return float(counts.max() / counts.sum())


def nearest(table: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Filled-in numbers moved to the nearest answer that occurs in their column."""
    out = filled.copy()
    for j in range(table.shape[1]):
        known = levels(table[:, j])
        out[:, j] = known[np.abs(filled[:, j, None] - known[None, :]).argmin(axis=1)]
    return out


def of_draws(table: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and most frequent answer of several completed tables, [draw, row, column]."""
    draws = np.stack([nearest(table, each) for each in draws])
    mode = np.empty_like(table)
    for j in range(table.shape[1]):
        known = levels(table[:, j])
        counts = np.stack([(draws[:, :, j] == level).sum(axis=0) for level in known])
        mode[:, j] = known[counts.argmax(axis=0)]
    return np.median(draws, axis=0), mode
