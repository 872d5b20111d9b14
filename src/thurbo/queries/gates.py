"""Which of its questions a row answered, as evidence about the gate that led to them.

A follow-up question that has an answer was asked, so its gate had one of the answers that lead to it; where none of
them has an answer, the gate probably had another one. Both probabilities are counted in the training table. They are
applied by Bayes' rule to the distribution of the gate given all other answers: routing depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.forms.utilities import favourite
from thurbo.schema import Schema
from thurbo.schema.skips import Skip

PRIOR = 0.5  # rows of each kind that are added to the counts


class Route(NamedTuple):
    """Follow-up questions of a gate, and P(any of them has an answer) by label of the gate."""

    columns: tuple[str, ...]
    answered: tuple[float, ...]

    def likelihood(self, answered: np.ndarray) -> np.ndarray:
        """P(whether there is an answer | label) of each row: [row, label]."""
        chance = np.asarray(self.answered)[None, :]
        return np.where(answered[:, None], chance, 1.0 - chance)


Routes = Mapping[str, tuple[Route, ...]]


def learn(schema: Schema, blocks: Mapping[str, Block], weight: np.ndarray) -> Routes:
    """The routes of every gate with labels, from the rows of a training table."""
    found: dict[str, tuple[Route, ...]] = {}
    for skip in schema.skips:
        gate, columns = schema[skip.asked_if], tuple(_followed(schema, skip))
        label = _label(blocks[skip.asked_if]) if skip.asked_if in blocks else None
        if label is None or not columns or not gate.is_one_label:
            continue
        leads = np.asarray([each in skip.values for each in gate.labels])
        answered = np.any([blocks[name].answered for name in columns], axis=0)
        chance = np.zeros(len(leads))
        for side in (False, True):
            rows = (label >= 0) & (leads[label] == side)
            share = (weight[rows] @ answered[rows] + PRIOR) / (weight[rows].sum() + 2 * PRIOR)
            chance[leads == side] = share
        found[skip.asked_if] = (*found.get(skip.asked_if, ()), Route(columns, tuple(chance.tolist())))
    return found


def _followed(schema: Schema, skip: Skip) -> list[str]:
    """The questions of a skip, and those that depend on them."""
    found = list(skip.columns)
    for name in found:  # grows
        found += [each for other in schema.skips if other.asked_if == name for each in other.columns]
    kept = dict.fromkeys(found)
    return [name for name in kept if schema[name].sites and not schema[name].is_listed]


def _label(block: Block) -> np.ndarray | None:
    """The label of each row, −1 if it is not known; None if the block is about a number or has several answers."""
    if block.entries is not None:
        return None
    if block.family == "utility":
        return favourite(block)
    if block.family != "levels" or len(block.sites) != 1:
        return None
    return np.where(block.code[:, 0] == block.code_high[:, 0], block.code[:, 0], -1)


def likelihood(routes: Sequence[Route], slots: Mapping[str, np.ndarray], seen: np.ndarray) -> np.ndarray:
    """P(which questions a row answered | label of their gate): [row, label].

    `seen` says which slots have an answer, [row, slot], and `slots` are those of every question except the gate.
    Rows without any other answer say nothing.
    """
    others = np.concatenate([np.zeros(0, np.int64), *slots.values()])
    some: np.ndarray = np.asarray(seen[:, others].any(axis=1))
    found = np.ones((len(seen), len(routes[0].answered)))
    for route in routes:
        own = np.concatenate([slots[name] for name in route.columns])
        answered = np.asarray(seen[:, own].any(axis=1))
        found *= np.where(some[:, None], route.likelihood(answered), 1.0)
    return found
