"""§6 Predictive accuracy: some answers are masked, predicted from the rest of their rows, and compared with the truth.

Whole answers are masked, as if the question had not been asked: all items of a ranking, but single entries of a list.
Two baselines: the frequencies of the other answers, and a regression of each column on all others (`baseline`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from thurbo.columns.block import Block
from thurbo.columns.forms import Ask, Lines
from thurbo.columns.forms.form import line_weight
from thurbo.columns.forms.marginals import Normal
from thurbo.errors import ThurboError
from thurbo.queries.evaluate import baseline
from thurbo.queries.evaluate.evaluation import Evaluation, overall
from thurbo.queries.question import Question
from thurbo.schema import Schema


def evaluate(
    question: Question,
    *,
    hide: Any,
    rng: np.random.RandomState,
    logistic: bool = True,
    weight: np.ndarray | None = None,
) -> Evaluation:
    """Mask a share of the answers, predict them, and compare by column and over all; rows are weighted."""
    schema, blocks = question.schema, question.blocks
    weight = np.ones(question.evidence.n_rows) if weight is None else weight
    masked = choose(schema, blocks, hide, rng, weight > 0)
    features = None
    if logistic:
        features = {name: baseline.features(schema[name], blocks[name], ~masked[name]) for name in schema.modelled}
    rest = question.hide(masked)
    tests = []
    for name in schema.modelled:
        if masked[name].any():
            trial = ColumnTrial(name, rest, masked[name], line_weight(blocks[name], weight), weight, features, rng)
            tests += schema[name].form.test(schema[name], trial)
    untested = tuple(name for name in schema.modelled if not masked[name].any())
    return Evaluation([test.record for test in tests], overall(tests, hide), untested)


def choose(
    schema: Schema, blocks: Mapping[str, Block], hide: Any, rng: np.random.RandomState, counts: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Which answers to mask, by column: each with probability `hide`, in rows with positive weight: [line] each."""
    if isinstance(hide, bool) or not isinstance(hide, Real) or not 0 < float(hide) < 1:
        raise ThurboError(f"hide={hide!r} is not a share of the answers; give a number above 0 and below 1")
    masked, n_answers = {}, 0
    for name in schema.modelled:
        column, block = schema[name], blocks[name]
        there = column.form.scorable(column, block)
        if counts is not None:
            there = there & (line_weight(block, counts.astype(np.float64)) > 0)
        drawn = there & (rng.random_sample(len(there)) < float(hide))
        masked[name] = column.form.mask(column, block, drawn, rng)
        n_answers += int(there.sum())
    if not any(where.any() for where in masked.values()):
        raise ThurboError(f"hide={hide:g} masks none of the {n_answers} answers; mask a larger share or give more rows")
    return masked


@dataclass
class ColumnTrial:
    """One column with some answers masked: see `columns.forms.Trial`."""

    name: str
    rest: Question  # without the masked answers of any column
    is_masked: np.ndarray  # [line]
    weight: np.ndarray  # [line]
    row_weight: np.ndarray
    features: dict[str, np.ndarray] | None  # of each column, without masked answers; None without regressions
    rng: np.random.RandomState

    @property
    def block(self) -> Block:
        return self.rest.blocks[self.name]

    @cached_property
    def masked(self) -> np.ndarray:
        return np.flatnonzero(self.is_masked)

    @cached_property
    def ask(self) -> Ask:
        entries = self.block.entries
        if entries is None:
            lines = Lines(self.masked, np.zeros(len(self.masked), np.int64))
        else:
            lines = Lines(entries.row[self.masked], entries.site[self.masked])
        return self.rest.about(self.name, lines, own=False)

    @cached_property
    def _inputs(self) -> np.ndarray | None:
        """Features of all other columns, [row, feature]; None if no regression is wanted or possible."""
        if self.features is None or self.block.entries is not None:
            return None
        others = [values for other, values in self.features.items() if other != self.name]
        return np.concatenate(others, axis=1) if others else None

    def logistic(self, code: np.ndarray, n_labels: int) -> np.ndarray | None:
        if self._inputs is None:
            return None
        return baseline.logistic(self._inputs, code, self.masked, n_labels, self.rng, self.weight)

    def ridge(self, target: np.ndarray, known: np.ndarray) -> Normal | None:
        if self._inputs is None:
            return None
        return baseline.ridge(self._inputs, target, known, self.masked, self.rng, self.weight)
