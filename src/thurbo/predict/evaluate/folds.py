"""§6 Which answers to hide before each of several fits: in folds, so that each is hidden once, or at random."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from thurbo.errors import ThurboError
from thurbo.predict.evaluate.withheld import hideable, in_cells
from thurbo.table.columns.cells import Block
from thurbo.table.columns.forms.form import line_weight
from thurbo.table.io.frames import Table
from thurbo.table.schema import Schema

Masks = list[dict[str, np.ndarray]]  # for each fit and column, [line] whether the answer is hidden


def check(folds: Any, hide: Any, repeats: Any) -> None:
    """Refuse numbers of folds, shares and repeats that make no sense."""
    if hide is None:
        if isinstance(folds, bool) or not isinstance(folds, Integral) or int(folds) < 2:
            raise ThurboError(f"folds={folds!r} is not a number of folds; give a whole number of at least 2")
    elif isinstance(hide, bool) or not isinstance(hide, Real) or not 0 < float(hide) < 1:
        raise ThurboError(f"hide={hide!r} is not a share of the answers; give a number above 0 and below 1")
    if isinstance(repeats, bool) or not isinstance(repeats, Integral) or int(repeats) < 1:
        raise ThurboError(f"repeats={repeats!r} is not a number of masks; give a whole number of at least 1")


def answers(
    table: Table, schema: Schema, blocks: Mapping[str, Block], counts: np.ndarray, rng: np.random.RandomState
) -> dict[str, np.ndarray]:
    """Answers that can be hidden and scored, by column: [line] the number of its group, −1 if it is not one of them.

    The lines of a group are hidden together: one line, or two items of a list whose order is asked about, or the whole
    cell of an order of many items.
    """
    there = {}
    for name in schema.modelled:
        column, block = schema[name], blocks[name]
        there[name] = column.form.scorable(column, block) & (line_weight(block, counts.astype(np.float64)) > 0)
    found = {}
    for name, lines in hideable(table, schema, blocks, there).items():
        block = blocks[name]
        if block.entries is not None and name not in table.lists and not in_cells(schema, name):
            found[name] = np.where(lines, block.entries.row, -1)
        else:
            found[name] = schema[name].form.together(schema[name], block, lines, rng)
    return found


def in_folds(groups: Mapping[str, np.ndarray], n_folds: int, rng: np.random.RandomState) -> Masks:
    """Every answer in exactly one fold; the folds of a column are of equal size, up to one."""
    folds = {name: _dealt(group, n_folds, rng) for name, group in groups.items()}
    masks = [{name: fold == number for name, fold in folds.items()} for number in range(n_folds)]
    if not all(any(lines.any() for lines in mask.values()) for mask in masks):
        n_answers = sum(int((group >= 0).sum()) for group in groups.values())
        raise ThurboError(f"folds={n_folds}: the table has {n_answers} answers to hide; give fewer folds or more rows")
    return masks


def _dealt(group: np.ndarray, n_folds: int, rng: np.random.RandomState) -> np.ndarray:
    """The fold of each line, [line]: groups in random order, dealt one by one."""
    known, place = np.unique(group[group >= 0], return_inverse=True)
    fold = np.full(len(group), -1)
    # A random first fold, so that short columns do not all fall into the first ones.
    fold[group >= 0] = ((rng.permutation(len(known)) + rng.randint(n_folds)) % n_folds)[place]
    return fold


def at_random(groups: Mapping[str, np.ndarray], hide: float, repeats: int, rng: np.random.RandomState) -> Masks:
    """Masks that each hide every answer with probability `hide`."""
    masks = []
    for _ in range(repeats):
        mask = {}
        for name, group in groups.items():
            known, place = np.unique(group[group >= 0], return_inverse=True)
            mask[name] = np.zeros(len(group), bool)
            mask[name][group >= 0] = (rng.random_sample(len(known)) < hide)[place]
        if not any(lines.any() for lines in mask.values()):
            n_answers = sum(int((group >= 0).sum()) for group in groups.values())
            problem = f"hide={hide:g} hides none of the {n_answers} answers"
            raise ThurboError(f"{problem}; hide a larger share or give more rows")
        masks.append(mask)
    return masks
