"""§6 Which rows a model was fitted to: a hash of 32 bits for each row.

Equal rows have equal numbers, in any table and after saving and loading; two different rows have the same number by
chance once in four thousand million pairs. Answers are not stored, but whoever has a row can test whether it was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from thurbo.table.columns.cells import Block

_ODD = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of the finaliser of splitmix64
_STEP = 0x9E3779B97F4A7C15
# The arrays that a family of columns uses; all are numbers below 2⁵³, so float64 holds them exactly.
_ARRAYS: dict[str, Callable[[Block], tuple[np.ndarray, ...]]] = {
    "levels": lambda block: (block.code, block.code_high),
    "measured": lambda block: (block.lower, block.upper),
    "utility": lambda block: (block.tier, np.asarray(block.one_of)[:, None]),
    "none": lambda block: (),
}


def row_hashes(blocks: Iterable[Block]) -> tuple[np.ndarray, np.ndarray]:
    """A number of each row, and whether the row has any answer: [row] each."""
    total, answered = None, None
    for place, block in enumerate(blocks):
        own, says = _of_block(block, place), block.answered
        total = own if total is None else total + own
        answered = says if answered is None else answered | says
    if total is None or answered is None:
        return np.zeros(0, np.uint32), np.zeros(0, bool)
    return (_mixed(total) >> np.uint64(32)).astype(np.uint32), answered


def of_training(blocks: Iterable[Block], weight: np.ndarray) -> np.ndarray:
    """The distinct numbers of the rows with an answer and a positive weight, sorted."""
    number, answered = row_hashes(blocks)
    return np.unique(number[answered & (weight > 0)])


def are_seen(blocks: Iterable[Block], seen: np.ndarray) -> np.ndarray:
    """Which rows equal a row of the training table in all answers, [row]."""
    number, answered = row_hashes(blocks)
    return answered & np.isin(number, seen)


def _of_block(block: Block, place: int) -> np.ndarray:
    """The sum over the sites of a row of a number for what the row says about it, [row]."""
    n_lines, n_sites = block.code.shape
    sites = np.arange(n_sites)[None, :] if block.entries is None else block.entries.site[:, None]
    number = _mixed(
        np.broadcast_to(sites, (n_lines, n_sites)).astype(np.uint64) + np.uint64(_STEP * (place + 1) % 2**64)
    )
    for values in _ARRAYS[block.family](block):
        bits = np.ascontiguousarray(np.broadcast_to(values, block.code.shape), np.float64) + 0.0  # −0 equals 0
        number = _mixed(number ^ bits.view(np.uint64))
    lines = np.where(block.takes_part, number, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    if block.entries is None:
        return lines
    found = np.zeros(block.n_rows, np.uint64)
    np.add.at(found, block.entries.row, lines)
    return found


def _mixed(number: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input changes half of the bits."""
    number = (number ^ (number >> np.uint64(30))) * _ODD[0]
    number = (number ^ (number >> np.uint64(27))) * _ODD[1]
    return number ^ (number >> np.uint64(31))
