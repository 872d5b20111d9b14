"""Levels: an answer is one of a few labels between learned cuts, Eqs (6), (7); options are several yes-no answers.

Used for one question of a table, and for lists of items that are rated by the same levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from thurbo.table.columns.cells import Block, BoolArray, FloatArray, IntArray
from thurbo.table.columns.forms import form
from thurbo.table.columns.forms.form import (
    Answers,
    Ask,
    Certainty,
    Form,
    Profile,
    Start,
    Tested,
    Trial,
    central_levels,
    check_statistic,
    item_answers,
    item_profile,
    label_rivals,
    label_values,
    line_weight,
    log_of,
    parts_of,
    tested_labels,
    word,
)

WIDER = 1.2  # approximate latent standard deviation of a list's items, in units of the noise


class LevelForm(Form):
    """One of a few labels."""

    def probabilities(self, ask: Ask) -> FloatArray:
        return ask.levels(len(self.column.answer_labels))

    def values(self, ask: Ask, statistic: str) -> NDArray[Any]:
        """The most probable label, the median, or the mean of labels that are numbers (otherwise the median)."""
        check_statistic(statistic)
        return label_values(self.column, self.probabilities(ask), statistic)

    def interval(self, ask: Ask, level: float) -> NDArray[Any]:
        if not self.column.has_order:
            return super().interval(ask, level)
        low, high = central_levels(self.probabilities(ask), level)
        return np.stack([self.column.answers_of(low), self.column.answers_of(high)], axis=1)

    def log_prob(self, ask: Ask, block: Block, part: int = 0) -> FloatArray:
        """log of the sum over the levels that each line allows."""
        chance = self.outcomes(ask, part)
        return log_of((chance * self._levels_of(block, part, chance.shape[1])).sum(axis=1))

    def _levels_of(self, block: Block, part: int, n_levels: int) -> BoolArray:
        low, high = block.code[:, part, None], block.code_high[:, part, None]
        return (low <= np.arange(n_levels)) & (np.arange(n_levels) <= high) | (low < 0)

    def outcomes(self, ask: Ask, part: int = 0) -> FloatArray:
        return self.probabilities(ask)

    def allowed(self, block: Block, outcomes: FloatArray, part: int = 0) -> BoolArray:
        return self._levels_of(block, part, outcomes.shape[1])

    def drawn(
        self,
        name: str,
        ask: Ask,
        outcome: NDArray[Any],
        rng: np.random.Generator,
        within: Block | None = None,
    ) -> dict[str, NDArray[Any]]:
        return {name: self.column.answers_of(outcome)}

    def from_latent(self, x: FloatArray, site: IntArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        own = cuts[site][:, : self.column.n_cuts]
        return self.column.answers_of((x[:, None] > own).sum(axis=1))

    def scorable(self, block: Block) -> BoolArray:
        return block.label >= 0

    def test(self, trial: Trial) -> list[Tested]:
        code = trial.block.label
        rivals = label_rivals(trial, code, self.probabilities(trial.ask))
        rows = trial.masked
        found = tested_labels(trial.name, self.column, "label", code[rows], rivals, trial.weight[rows], trial.row)
        if trial.block.entries is None:
            return [found]
        expected = {rival: chance @ np.arange(chance.shape[1]) for rival, chance in rivals.items()}
        return [found, *form.test_order(self.column, trial, code[rows], expected)]

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        if block.entries is not None:
            code = block.label
            return form.features(block, np.where(code >= 0, code, np.nan).astype(float), shown)
        levels = np.arange(len(self.column.answer_labels))
        low, high = block.code[:, :1], block.code_high[:, :1]
        values = ((low <= levels) & (levels <= high)) / np.maximum(high - low + 1, 1)
        return values, (low[:, 0] >= 0) & shown

    def answers(self, name: str, block: Block) -> Answers:
        code = block.label
        values = np.where(code >= 0, code, np.nan).astype(float)
        labels = tuple(map(word, self.column.answer_texts))
        if block.entries is None:
            answered = block.observed[:, 0]
            order = self.column.has_order or len(labels) == 2
            return Answers(
                name, self.column.kind, labels, values, self.column.describe(), answered=answered, has_order=order
            )
        return item_answers(self.column, name, block, values, labels)

    def profile(self, block: Block) -> Profile:
        code = block.label
        if block.entries is not None:
            return item_profile(
                self.column, block, np.where(code >= 0, code, np.nan).astype(float), self.column.level_numbers
            )
        values = np.where(code[:, None] >= 0, code[:, None] == np.arange(len(self.column.answer_labels)), np.nan)
        texts = self.column.answer_texts
        # With two labels, one indicator is enough.
        return Profile(texts[1:], values[:, 1:]) if len(texts) == 2 else Profile(texts, values)

    def shares(self, block: Block, weight: FloatArray) -> FloatArray | None:
        if block.entries is not None:
            return None
        known = (block.code >= 0) & (block.code == block.code_high)
        each = [np.bincount(block.code[own, site], weight[own], block.n_cuts + 1) for site, own in enumerate(known.T)]
        counts = np.stack(each) + 0.5
        return counts / counts.sum(axis=1, keepdims=True)

    def start(self, block: Block, weight: FloatArray) -> Start:
        if block.entries is None:
            return Start(starting_cuts(block.code, block.n_cuts, weight), np.zeros(len(block.sites)))
        own = line_weight(block, weight)
        known = block.code[:, 0] >= 0
        code = np.where(known, block.code[:, 0], 0)
        share = np.bincount(code, own * known, minlength=block.n_cuts + 1) + 0.5
        cuts = ndtri((np.cumsum(share)[:-1] / share.sum()).clip(1e-6, 1 - 1e-6))
        shift = form.shifts(block, code.astype(np.float64), own * known)
        return Start(WIDER * (cuts[None, :] - shift[:, None]), np.zeros(len(block.sites)))

    def learned(self, cuts: FloatArray, scale: FloatArray) -> dict[str, Any]:
        own = cuts[:, : self.column.n_cuts]
        return {"cuts": own if self.column.is_listed else own[0]}


class OptionForm(LevelForm):
    """Any number of options, each selected or not: one binary level for each."""

    asks_rows = True
    has_options = True

    def probabilities(self, ask: Ask) -> FloatArray:
        """P(selected) of each option, [row, option]."""
        return np.stack([ask.levels(2, site)[:, 1] for site in range(len(self.column.sites))], axis=1)

    def values(self, ask: Ask, statistic: str) -> NDArray[Any]:
        ticked = self.probabilities(ask) > 0.5
        cuts = np.zeros((len(self.column.sites), 1))
        return self.column.decode(np.where(ticked, 1.0, -1.0), cuts, np.ones(len(self.column.sites)))

    def cells(self, name: str, ask: Ask, statistic: str, cuts: FloatArray) -> dict[str, NDArray[Any]]:
        """Each option is selected if that is more probable."""
        check_statistic(statistic)
        chance = self.probabilities(ask)
        # Distance from the cut orders the options if the table has columns for only some of the selected ones.
        x = cuts[:, 0] + np.where(chance > 0.5, 1.0, -1.0) * (1.0 + np.abs(chance - 0.5))
        return self.column.decode_columns(name, x, cuts, np.ones(len(self.column.sites)))

    def n_parts(self) -> int:
        return len(self.column.sites)

    def outcomes(self, ask: Ask, part: int = 0) -> FloatArray:
        """P(not selected) and P(selected) of one option."""
        return ask.levels(2, part)

    def drawn(
        self,
        name: str,
        ask: Ask,
        outcome: NDArray[Any],
        rng: np.random.Generator,
        within: Block | None = None,
    ) -> dict[str, NDArray[Any]]:
        """`outcome` says of all options whether they are selected, [row, option]."""
        cuts = np.zeros((len(self.column.sites), 1))
        x = np.where(outcome > 0, 1.0, -1.0) * (1.0 + 0.1 * rng.random(outcome.shape))
        return self.column.decode_columns(name, x, cuts, np.ones(len(self.column.sites)))

    def certainty(self, ask: Ask, values: NDArray[Any]) -> Certainty:
        """The probability of the least certain option."""
        chance = self.probabilities(ask)
        return Certainty("probability", np.maximum(chance, 1.0 - chance).min(axis=1))

    def interval(self, ask: Ask, level: float) -> NDArray[Any]:
        return Form.interval(self, ask, level)

    def scorable(self, block: Block) -> BoolArray:
        return np.asarray((block.code >= 0).any(axis=1))

    def test(self, trial: Trial) -> list[Tested]:
        """Each option of a masked row is an answer."""
        code, chance = trial.block.code, self.probabilities(trial.ask)
        rows, parts, true, weight, row = trial.masked, [], [], [], []
        for site in range(len(self.column.sites)):
            known = code[rows, site] >= 0
            both = np.stack([1.0 - chance[:, site], chance[:, site]], axis=1)
            rivals = label_rivals(trial, code[:, site], both)
            parts.append({rival: values[known] for rival, values in rivals.items()})
            true.append(code[rows[known], site])
            weight.append(trial.weight[rows[known]])
            row.append(trial.row[known])
        rivals = {rival: np.concatenate([part[rival] for part in parts]) for rival in parts[0]}
        flat = (np.concatenate(each) for each in (weight, row))
        return [tested_labels(trial.name, self.column, "option", np.concatenate(true), rivals, *flat)]

    def features(self, block: Block, shown: BoolArray) -> tuple[FloatArray, BoolArray]:
        return np.where(block.code < 0, 0.5, block.code) - 0.5, (block.code >= 0).any(axis=1) & shown

    def answers(self, name: str, block: Block) -> Answers:
        """As a whole the number of selected options, and a yes or no for each option."""
        said = np.where(block.code >= 0, block.code, np.nan).astype(float)
        whole = tuple(f"{n} selected" for n in range(len(self.column.labels) + 1))
        parts = parts_of(self.column, name, block, said, ("not selected", "selected"))
        return Answers(
            name,
            self.column.kind,
            whole,
            said.sum(axis=1),
            self.column.describe(),
            parts=parts,
            answered=block.answered,
            exclusive=False,
        )

    def profile(self, block: Block) -> Profile:
        return Profile(self.column.texts, np.where(block.code >= 0, block.code, np.nan), several=True)

    def learned(self, cuts: FloatArray, scale: FloatArray) -> dict[str, Any]:
        return {"cuts": cuts[:, :1]}


def starting_cuts(code: IntArray, n_cuts: int, weight: FloatArray) -> FloatArray:
    """θ_l = Φ⁻¹(share of answers at or below level l), [site, cut]; each level has half an answer added."""
    counts = np.stack([weight @ (code == level) for level in range(n_cuts + 1)], axis=1) + 0.5
    share = np.cumsum(counts, axis=1)[:, :n_cuts] / counts.sum(axis=1, keepdims=True)
    return ndtri(share.clip(1e-6, 1 - 1e-6))
