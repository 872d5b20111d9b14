"""From blocks of columns to evidence on the device: few static shapes, so that little is compiled.

A table becomes one `Evidence` whose slots are its sites. Queries run over it in chunks padded up to one of a few row
counts, so that new data of any length meets programs that exist already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.constraints import Box, Levels
from thurbo.evidence import Evidence, Unobserved

if TYPE_CHECKING:
    from thurbo.columns.base import Block

ROW_BUCKETS = (16, 128, 1024)


def pack(blocks: Iterable[Block], unobserved: Unobserved, dtype: Any = np.float32) -> Evidence:
    """One table as evidence: slot i is site i. Under "exclude" a row's model has only the sites it speaks of."""
    blocks = [block for block in blocks if block.sites]
    n_cuts = np.concatenate([np.full(len(block.sites), block.n_cuts) for block in blocks])
    constraints: list[Box | Levels] = []
    if (n_cuts == 0).any():
        lower, upper, point = (
            np.concatenate([getattr(block, name) for block in blocks], axis=1) for name in ("lower", "upper", "point")
        )
        constraints.append(Box(jnp.asarray(lower, dtype), jnp.asarray(upper, dtype), jnp.asarray(point)))
    if (n_cuts > 0).any():
        code = np.concatenate([block.code for block in blocks], axis=1)
        smallest = np.int8 if n_cuts.max() < 127 else np.int32
        constraints.append(Levels(jnp.asarray(code.astype(smallest))))
    present = None
    if unobserved == "exclude":
        present = jnp.asarray(np.concatenate([block.observed for block in blocks], axis=1))
    return Evidence(tuple(constraints), None, present)


def by_chunks(function: Callable[..., Any], evidence: Evidence, *rowwise: Any) -> Any:
    """Apply `function(evidence, *rowwise)` to all rows, a padded chunk at a time; NumPy arrays by row come back.

    Chunks are cut on the host: a table of a new length then compiles nothing at all.
    """
    evidence, rowwise = jax.tree.map(np.asarray, (evidence, rowwise))
    n_rows, largest = evidence.n_rows, ROW_BUCKETS[-1]
    parts = []
    for begin in range(0, n_rows, largest):
        count = min(largest, n_rows - begin)
        bucket = next(size for size in ROW_BUCKETS if size >= count)
        index = np.r_[begin : begin + count, np.full(bucket - count, begin)]
        chunk = function(evidence.rows(index), *(leaf[index] for leaf in rowwise))
        parts.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], chunk))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
