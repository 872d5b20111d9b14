"""§6 Predictive accuracy: some answers are masked, predicted from the rest of their rows, and compared with the truth.

Whole answers are masked, as if the question had not been asked: all items of a ranking, but single entries of a list.
Baselines: the frequencies of the other answers, and regressions of each column on all others (`baseline`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from thurbo._concurrency import cached_property
from thurbo.errors import ThurboError
from thurbo.predict.evaluate import baseline, withheld
from thurbo.predict.evaluate.evaluation import Evaluation, overall
from thurbo.predict.member import MemberQuery
from thurbo.predict.model import Query
from thurbo.table.columns.cells import Block
from thurbo.table.columns.forms import Ask, Lines
from thurbo.table.columns.forms.form import Normal, Tested, calibration_bins, line_weight, surprises
from thurbo.table.io.frames import Table
from thurbo.table.schema import Schema

BASELINES = ("logistic", "boosting")  # beside the marginal frequencies, which are always there


class Tried(NamedTuple):
    """A table whose answers are predicted: what its cells say, and how a table is put to the model."""

    table: Table
    schema: Schema
    blocks: Mapping[str, Block]
    read: Callable[[Table], Query]


def chosen_baselines(logistic: bool, boosting: bool) -> tuple[str, ...]:
    """The names of the regressions that are wanted."""
    return tuple(name for name, wanted in zip(BASELINES, (logistic, boosting), strict=True) if wanted)


def evaluate(
    tried: Tried,
    *,
    hide: Any,
    rng: np.random.RandomState,
    baselines: Collection[str] = ("logistic",),
    weight: np.ndarray | None = None,
    seen: np.ndarray | None = None,
) -> Evaluation:
    """Mask a share of the answers, predict them, and compare by column and over all; rows are weighted.

    `seen` are the rows that equal a row of the training table, [row].
    """
    schema, blocks = tried.schema, tried.blocks
    weight = np.ones(tried.table.n_rows) if weight is None else weight
    masked = choose(schema, blocks, hide, rng, weight > 0)
    tests = score_masked(_rest(tried, masked), blocks, masked, weight, baselines)
    untested = tuple(name for name in schema.modelled if not masked[name].any())
    rows = np.unique(np.concatenate([each.row for each in tests]))
    n_seen = 0 if seen is None else int(seen[rows].sum())
    found, pictures = [each.record for each in tests], (calibration_bins(tests), surprises(tests))
    return Evaluation(found, overall(tests, hide), untested, len(rows), n_seen, (), (), *pictures)


def _rest(tried: Tried, masked: Mapping[str, np.ndarray]) -> Query:
    """The table without the masked answers, put to the model: nothing in it was derived from them.

    Where an empty cell is an answer, and in cells that hold a list, the evidence of the answer is removed instead.
    """
    table, blocks = withheld.with_lists(tried.table, tried.schema), tried.blocks
    in_cells = {name: lines for name, lines in masked.items() if blocks[name].entries is None or name in table.lists}
    rest = tried.read(withheld.without(table, tried.schema, blocks, in_cells))
    return rest.hide({name: lines for name, lines in masked.items() if name not in table.lists})


def score_masked(
    rest: Query,
    blocks: Mapping[str, Block],
    masked: Mapping[str, np.ndarray],
    weight: np.ndarray,
    baselines: Collection[str],
    limits: baseline.Limits = baseline.QUICK,
) -> list[Tested]:
    """The scores of masked answers, lines of each column.

    `rest` is the table without them, put to the model; `blocks` are those of the whole table.
    """
    schema, features, tests = rest.schema, None, list[Tested]()
    if baselines:
        features = {name: baseline.features(schema[name], blocks[name], ~masked[name]) for name in schema.modelled}
    for name in schema.modelled:
        if masked[name].any():
            own = line_weight(blocks[name], weight)
            trial = ColumnTrial(name, rest, blocks[name], masked[name], own, features, tuple(baselines), limits)
            tests += schema[name].form.test(schema[name], trial)
    return tests


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
    """One column with some answers masked: see `table.columns.forms.Trial`."""

    name: str
    rest: Query | MemberQuery  # the table without the masked answers of any column
    block: Block  # of the whole table
    is_masked: np.ndarray  # [line]
    weight: np.ndarray  # [line]
    features: dict[str, np.ndarray] | None  # of each column, without masked answers; None without regressions
    baselines: tuple[str, ...] = ("logistic",)
    limits: baseline.Limits = baseline.QUICK

    @cached_property
    def masked(self) -> np.ndarray:
        return np.flatnonzero(self.is_masked)

    @cached_property
    def row(self) -> np.ndarray:
        entries = self.block.entries
        return self.masked if entries is None else entries.row[self.masked]

    @cached_property
    def ask(self) -> Ask:
        entries = self.block.entries
        site = np.zeros(len(self.masked), np.int64) if entries is None else entries.site[self.masked]
        return self.rest.about(self.name, Lines(self.row, site), own=False)

    @cached_property
    def _inputs(self) -> np.ndarray | None:
        """Features of all other columns, [row, feature]; None if no regression is wanted or possible."""
        if self.features is None or self.block.entries is not None:
            return None
        others = [values for other, values in self.features.items() if other != self.name]
        return np.concatenate(others, axis=1) if others else None

    def _regress(self, kind: str, function: Any, *about: Any) -> Any:
        """What a regression predicts; None if it is not wanted or not possible. A fixed seed splits the rows."""
        if self._inputs is None or kind not in self.baselines:
            return None
        rng = np.random.RandomState(baseline.SPLIT_SEED)
        return function(self._inputs, *about, rng, self.weight, self.limits)

    def logistic(self, code: np.ndarray, n_labels: int) -> np.ndarray | None:
        return self._regress("logistic", baseline.logistic, code, self.masked, n_labels)

    def ridge(self, target: np.ndarray, known: np.ndarray) -> Normal | None:
        return self._regress("logistic", baseline.ridge, target, known, self.masked)

    def boosting(self, code: np.ndarray, n_labels: int) -> np.ndarray | None:
        return self._regress("boosting", baseline.boosting, code, self.masked, n_labels)

    def boosted_numbers(self, target: np.ndarray, known: np.ndarray) -> Normal | None:
        return self._regress("boosting", baseline.boosted_numbers, target, known, self.masked)
