"""§4.3, §7 The items that a row itself rates or ranks: E[x | all that the row says], which keeps the stated order."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from thurbo import rbm
from thurbo._typing import Array, Float
from thurbo.columns.block import Block
from thurbo.columns.column import Column
from thurbo.evidence import Evidence
from thurbo.inference import gibbs
from thurbo.inference.meanfield import mean_field
from thurbo.queries.features import How
from thurbo.queries.question import Question
from thurbo.rbm import Params


class Given(NamedTuple):
    """Items of each row: entries start[r] to start[r + 1] belong to row r. Tiers are −1 if they have no order."""

    start: np.ndarray  # [row + 1]
    item: np.ndarray  # [entry] position among the items of the column
    tier: np.ndarray  # [entry]

    @property
    def row(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def given_items(block: Block) -> Given:
    """Items that each row has in its list or order."""
    if block.entries is not None:
        return Given(block.entries.start, block.entries.site, np.asarray(block.tier[:, 0]))
    return _of_tiers(block.tier, block.tier >= 0)


def named_items(column: Column, block: Block) -> Given:
    """Items that each row names; without those that are below them because the row does not name them."""
    if block.entries is not None or not column.is_last:
        return given_items(block)
    is_whole = block.tier.max(axis=1, keepdims=True) == block.tier.shape[1] - 1  # no two items on one tier
    return _of_tiers(block.tier, (block.tier > 0) | is_whole)


def _of_tiers(tier: np.ndarray, which: np.ndarray) -> Given:
    row, item = np.nonzero(which)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(tier)))])
    return Given(start, item, tier[row, item])


def utilities(question: Question, name: str) -> np.ndarray:
    """E[x | e] of every item that a row rates or ranks, [entry]; it keeps the order that the row states."""
    own, shared = given_items(question.blocks[name]), question.evidence.shared
    where, is_listed = question.schema.slices[name], question.schema[name].is_listed
    slot = question.evidence.entry_slots(where.start) if is_listed else shared[where][own.item]
    place = np.arange(len(own.item)) - own.start[own.row]
    slots = np.full((question.evidence.n_rows, int(np.diff(own.start).max(initial=0))), -1)
    slots[own.row, place] = slot

    def chunk(rows: Evidence, wanted: np.ndarray) -> np.ndarray:
        mean = np.asarray(slot_means(question.params, rows, question.how, smooth=is_listed))
        return np.take_along_axis(mean, np.maximum(wanted, 0), axis=1)

    return _in_order(own, question.evidence.by_chunks(chunk, slots)[own.row, place].astype(np.float64))


def _in_order(own: Given, utility: np.ndarray) -> np.ndarray:
    """Utilities that rise with the tiers of a row: means of the Gumbel approximation nearly do."""
    if not (own.tier >= 0).any():
        return utility
    order = np.lexsort((utility, own.tier, own.row))
    found = utility[order]
    starts = np.flatnonzero(np.diff(own.row[order], prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
        found[begin:end] = np.maximum.accumulate(found[begin:end])
    out = np.empty_like(utility)
    out[order] = found
    return out


@partial(jax.jit, static_argnames=("how", "smooth"))
def slot_means(params: Params, evidence: Evidence, how: How, smooth: bool = True) -> Float[Array, "row slot"]:
    """E[x | e] of every slot, by mean-field; `smooth` uses the Gumbel approximation for orders."""
    given, q = gibbs.clamp(params, evidence), mean_field(params, evidence, how.n_steps)
    mean = rbm.latent_mean(given.params, q.hidden) + rbm.factor_shift(given.params, q.factors)
    return (given.region.smooth() if smooth else given.region).mean(mean)
