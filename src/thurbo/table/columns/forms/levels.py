"""Levels: an answer is one of a few labels between learned cuts, Eqs (6), (7); options are several yes-no answers.

Used for one question of a table, and for lists of items that are rated by the same levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from thurbo.table.columns.cells import Block, BoolArray, FloatArray, IntArray
from thurbo.table.columns.forms import form
from thurbo.table.columns.forms.form import Answers, Ask, Certainty, Columns, LabelForm, Profile, Start, Tested, Trial

WIDER = 1.2  # approximate latent standard deviation of a list's items, in units of the noise


class LevelForm(LabelForm):
    """One of a few labels between cuts."""

    def probabilities(self, ask: Ask) -> FloatArray:
        return ask.levels(len(self.column.answer_labels))

    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """log of the sum over the levels that each line allows."""
        chance = self.outcomes(ask, part)
        return form.log_of((chance * self.allowed(block, chance, part)).sum(axis=1))

    def allowed(self, block: Block, outcomes: FloatArray, part: int = 0) -> BoolArray:
        low, high, levels = block.code[:, part, None], block.code_high[:, part, None], np.arange(outcomes.shape[1])
        return (low <= levels) & (levels <= high) | (low < 0)

    def from_latent(self, x: FloatArray, site: IntArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        return self.column.answers_of((x[:, None] > cuts[site][:, : self.column.n_cuts]).sum(axis=1))

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        if block.entries is not None:
            code = block.label
            return form.features(block, np.where(code >= 0, code, np.nan).astype(float), shown)
        levels = np.arange(len(self.column.answer_labels))
        low, high = block.code[:, :1], block.code_high[:, :1]
        values = ((low <= levels) & (levels <= high)) / np.maximum(high - low + 1, 1)
        return values, (low[:, 0] >= 0) & shown

    def shares(self, block: Block, weight: FloatArray) -> FloatArray | None:
        if block.entries is not None:
            return None
        known = (block.code >= 0) & (block.code == block.code_high)
        each = [np.bincount(block.code[own, site], weight[own], block.n_cuts + 1) for site, own in enumerate(known.T)]
        counts = np.stack(each) + 0.5
        return counts / counts.sum(axis=1, keepdims=True)

    def start(self, block: Block, weight: FloatArray) -> Start:
        no_bias = np.zeros(len(block.sites))
        if block.entries is None:
            return Start(starting_cuts(block.code, block.n_cuts, weight), no_bias)
        known, own = block.code[:, 0] >= 0, form.line_weight(block, weight)
        shift = form.shifts(block, np.where(known, block.code[:, 0], 0).astype(np.float64), own * known)
        return Start(WIDER * (starting_cuts(block.code, block.n_cuts, own) - shift[:, None]), no_bias)

    def learned(self, cuts: FloatArray, scale: FloatArray) -> dict[str, Any]:
        own = cuts[:, : self.column.n_cuts]
        return {"cuts": own if self.column.is_listed else own[0]}


class OptionForm(LevelForm):
    """Any number of options, each selected or not: one binary level for each."""

    asks_rows = True
    has_options = True
    interval = form.Form.interval  # options have no order

    def probabilities(self, ask: Ask) -> FloatArray:
        """P(selected) of each option, [row, option]."""
        return np.stack([ask.levels(2, site)[:, 1] for site in range(len(self.column.sites))], axis=1)

    def values(self, ask: Ask, statistic: str) -> NDArray[Any]:
        return self.column.decode(self.probabilities(ask) - 0.5, *self._units)

    def cells(self, name: str, ask: Ask, statistic: str) -> Columns:
        """Each option is selected if that is more probable; the most probable ones if there are too few columns."""
        form.check_statistic(statistic)
        return self.column.decode_columns(name, self.probabilities(ask) - 0.5, *self._units)

    def n_parts(self) -> int:
        return len(self.column.sites)

    def outcomes(self, ask: Ask, part: int = 0) -> FloatArray:
        """P(not selected) and P(selected) of one option."""
        return ask.levels(2, part)

    def drawn(self, name: str, ask: Ask, outcome: NDArray[Any], rng: Generator, within: Block | None = None) -> Columns:
        """`outcome` says of all options whether they are selected, [row, option]."""
        x = np.where(outcome > 0, 1.0, -1.0) * (1.0 + 0.1 * rng.random(outcome.shape))
        return self.column.decode_columns(name, x, *self._units)

    def certainty(self, ask: Ask, values: NDArray[Any]) -> Certainty:
        """The probability of the least certain option."""
        chance = self.probabilities(ask)
        return Certainty("probability", np.maximum(chance, 1.0 - chance).min(axis=1))

    def scorable(self, block: Block) -> BoolArray:
        return np.asarray((block.code >= 0).any(axis=1))

    def test(self, trial: Trial) -> list[Tested]:
        """Each option of a masked row is an answer."""
        found = []
        for code, chance in zip(trial.block.code.T, self.probabilities(trial.ask).T, strict=True):
            rivals = form.label_rivals(trial, code, np.stack([1.0 - chance, chance], axis=1))
            found.append(self._tested(trial, trial.name, "option", code, rivals))
        return form.pooled(found)

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        return np.where(block.code < 0, 0.5, block.code) - 0.5, (block.code >= 0).any(axis=1) & shown

    def answers(self, name: str, block: Block) -> Answers:
        """As a whole the number of selected options, and a yes or no for each option."""
        said = np.where(block.code >= 0, block.code, np.nan).astype(float)
        whole = tuple(f"{n} selected" for n in range(len(self.column.labels) + 1))
        parts = self._parts(name, block, said, ("not selected", "selected"))
        return self._answers(name, whole, said.sum(axis=1), parts=parts, answered=block.answered, exclusive=False)

    def profile(self, block: Block) -> Profile:
        return Profile(self.column.texts, np.where(block.code >= 0, block.code, np.nan), several=True)

    def learned(self, cuts: FloatArray, scale: FloatArray) -> dict[str, Any]:
        return {"cuts": cuts[:, :1]}


def starting_cuts(code: IntArray, n_cuts: int, weight: FloatArray) -> FloatArray:
    """θ_l = Φ⁻¹(share of answers at or below level l), [site, cut]; each level has half an answer added."""
    counts = np.stack([weight @ (code == level) for level in range(n_cuts + 1)], axis=1) + 0.5
    share = np.cumsum(counts, axis=1)[:, :n_cuts] / counts.sum(axis=1, keepdims=True)
    return ndtri(share.clip(1e-6, 1 - 1e-6))
