"""§5 Which cells multi-prediction masks: training learns to predict the masked cells of a row from the others.

A masking is a frozen value that is called with a key and evidence; it returns which observed slots are masked, at least
one per row. It is part of a `Plan`, so it compiles once. With `whole_cells`, all slots of a cell are masked together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from thurbo._typing import Array, Float, PRNGKey, RowsMask
from thurbo.latent.evidence import Evidence

Masking = Callable[[PRNGKey, Evidence], RowsMask]


@dataclass(frozen=True)
class RandomCells:
    """Mask a random share of each row's cells, between `least` and `most`; slots of one cell are masked together."""

    least: float = 0.1
    most: float = 0.9
    whole_cells: ClassVar[bool] = True

    def __call__(self, key: PRNGKey, evidence: Evidence) -> RowsMask:
        key_share, key_cell = jax.random.split(key)
        dice = jax.random.uniform(key_cell, evidence.observed.shape)
        if evidence.cells is not None:
            dice = dice[:, evidence.cells]
        return _share(key_share, dice, evidence.observed, self.least, self.most)


@dataclass(frozen=True)
class Neighbours:
    """Mask a random share of each row's cells, between `least` and `most`, in runs of `length` neighbouring columns.

    Neighbouring questions of a survey are often about the same topic and predict each other. If they are masked
    together, the model has to predict from the rest of the survey. This gives better features of respondents and
    slightly worse imputations. A run is at most a quarter of the columns.
    """

    length: int = 40
    least: float = 0.1
    most: float = 0.9
    whole_cells: ClassVar[bool] = True

    def __call__(self, key: PRNGKey, evidence: Evidence) -> RowsMask:
        observed = evidence.observed
        n_rows, n_slots = observed.shape
        key_share, key_run, key_first = jax.random.split(key, 3)
        column = jnp.arange(n_slots, dtype=jnp.int32)
        if evidence.cells is not None:
            column = jnp.cumsum(evidence.cells.astype(jnp.int32) == column, dtype=jnp.int32) - 1
        length = jnp.clip((column[-1] + 1) // 4, 1, self.length)
        run = (column + jax.random.randint(key_first, (), 0, length, jnp.int32)) // length
        most_runs = max(n_slots // self.length + 2, 8)  # with few columns a run is a quarter of them: at most 8 runs
        dice = jax.random.uniform(key_run, (n_rows, most_runs))[:, run]
        return _share(key_share, dice, observed, self.least, self.most)


def _share(key: PRNGKey, dice: Float[Array, "row slot"], observed: RowsMask, least: float, most: float) -> RowsMask:
    """The observed slots with random numbers below each row's share; if there are none, the slot with the lowest."""
    share = jax.random.uniform(key, (observed.shape[0], 1), minval=least, maxval=most)
    dice = jnp.where(observed, dice, jnp.inf)
    return observed & (dice <= jnp.maximum(share, dice.min(axis=-1, keepdims=True)))


@dataclass(frozen=True)
class Rectangles:
    """Mask a rectangle of each image, sides between `smallest` and `largest`, and a `share` of the other pixels.

    Single pixels are easy to predict from their neighbours; a masked region is not. Slots are pixels row by row.
    """

    height: int
    width: int
    smallest: int = 6
    largest: int = 15
    share: float = 0.1

    def __call__(self, key: PRNGKey, evidence: Evidence) -> RowsMask:
        observed = evidence.observed
        n_rows, n_pixels = observed.shape
        if n_pixels != self.height * self.width:
            raise ValueError(f"{n_pixels} pixels do not make an image of {self.height} by {self.width}")
        key_size, key_place, key_pixel = jax.random.split(key, 3)
        size = jax.random.randint(key_size, (n_rows, 2), self.smallest, self.largest + 1)
        shape = jnp.asarray([self.height, self.width])[None, :]
        first = jax.random.uniform(key_place, (n_rows, 2)) * (shape - size + 1).astype(jnp.float32)
        first = jnp.minimum(first.astype(size.dtype), shape.astype(size.dtype) - size)
        inside = []
        for axis, length in enumerate((self.height, self.width)):
            at = jnp.arange(length, dtype=size.dtype)[None, :]
            inside.append((at >= first[:, axis, None]) & (at < (first + size)[:, axis, None]))
        region = (inside[0][:, :, None] & inside[1][:, None, :]).reshape(n_rows, n_pixels)
        return observed & (region | (jax.random.uniform(key_pixel, observed.shape) < self.share))


NAMED: dict[str, Masking] = {"auto": RandomCells(), "cells": RandomCells(), "neighbours": Neighbours()}
