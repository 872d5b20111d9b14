"""Columns that another column determines: copies, recodes, an age band beside the age.

Idea: B follows from A if rows with the same answer to A have the same answer to B, and independent answers would not.
Pairs are first compared on a sample of rows, so that hundreds of columns take seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from thurbo.columns.cells import Cells, IntArray
from thurbo.errors import SchemaError

_SAMPLE = 400  # rows compared first
_FEWEST = 20  # fewest rows of both, and fewest disagreements that independent answers would have


def derived(columns: Mapping[str, Cells]) -> Iterator[tuple[str, str, bool]]:
    """(column, the column that it follows from, whether they are the same), at most one source for each column."""
    codes, values = _codes(columns)
    names = list(codes)
    if len(names) < 2:
        return
    table = np.column_stack([codes[name] for name in names])
    rows = np.random.default_rng(0).permutation(len(table))[:_SAMPLE]
    sample, n_values = table[rows], table.max(axis=0) + 1
    done: set[str] = set()
    for source in np.argsort(-n_values, kind="stable"):  # fine answers first: age before its bands
        if names[source] in done or n_values[source] < 2:
            continue
        order = np.argsort(sample[:, source], kind="stable")
        same = (sample[order][1:, source] == sample[order][:-1, source]) & (sample[order][1:, source] >= 0)
        one, two = sample[order][1:][same], sample[order][:-1][same]
        breaks = ((one != two) & (one >= 0) & (two >= 0)).any(axis=0)
        for place in np.flatnonzero(~breaks & (n_values >= 2) & (n_values <= n_values[source])):
            name = names[place]
            if place == source or name in done or not _follows(table[:, source], table[:, place]):
                continue
            is_copy = values[name] == values[names[source]] and np.array_equal(table[:, source], table[:, place])
            if n_values[place] == n_values[source] and place < source:
                continue  # of two columns that determine each other, the later one follows
            done.add(name)
            yield name, names[source], is_copy


def _codes(columns: Mapping[str, Cells]) -> tuple[dict[str, IntArray], dict[str, list[str]]]:
    """Answers of each column as codes in the order of their texts, −1 if missing, and the texts."""
    codes, values = {}, {}
    for name, cells in columns.items():
        try:
            distinct, which = cells.factorise()
        except (SchemaError, TypeError):
            continue
        if len(distinct) < 2 or len(distinct) > len(cells) / 2:
            continue
        texts = [str(value) for value in distinct]
        place = np.empty(len(distinct) + 1, np.int32)
        place[np.argsort(texts, kind="stable")] = np.arange(len(distinct))
        place[-1] = -1
        codes[name], values[name] = place[which], sorted(texts)
    return codes, values


def _follows(source: IntArray, target: IntArray) -> bool:
    """Whether each value of `source` goes with one value of `target`, and that is not by chance."""
    both = (source >= 0) & (target >= 0)
    if both.sum() < _FEWEST:
        return False
    one, two = source[both].astype(np.int64), target[both].astype(np.int64)
    pairs = np.unique(one * (two.max() + 1) + two)
    if len(pairs) > len(np.unique(one)):
        return False
    shares = np.bincount(two) / len(two)
    expected = (len(one) - len(pairs)) * (1 - float((shares**2).sum()))
    return expected >= _FEWEST
