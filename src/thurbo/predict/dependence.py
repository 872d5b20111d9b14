"""§6 Dependence between questions under the model: how much of the uncertainty about one answer another one removes.

Idea: tell the model only one answer, as it occurs in the table, and see how far every other prediction moves. The mean
of this movement, in nats, is the mutual information I(A; B) = E_b[KL(P(A | b) ‖ P(A))]; divided by the entropy of A it
is the share of the uncertainty about A that the answer to B removes.
Guarantees one pass over few rows, whatever the size of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.predict.member import normalised
from thurbo.predict.model import Query
from thurbo.table.columns import Block
from thurbo.table.columns.forms import Answers, Ask
from thurbo.table.io import frames
from thurbo.table.schema.schema import Schema

FloatArray = NDArray[np.float64]

MOST_LABELS = 24  # of a question; more are sampled, as numbers, sets and rankings are
SAMPLED = 24  # answers of a question with many different ones
N_BINS = 5  # into which a predicted number is divided


@dataclass(frozen=True)
class Dependence:
    """How much of the uncertainty about each answer each other answer removes, under the model.

    Attributes
    ----------
    names : tuple of str
        The questions.
    share : array of shape (n_questions, n_questions)
        Row: the question that is predicted. Column: the only question whose answer is known. Mutual information
        divided by entropy, from 0 (no dependence) to 1 (fully determined); NaN on the diagonal.
    nats : array of shape (n_questions, n_questions)
        The mutual information itself.
    texts : tuple of str
        Display names of the questions.
    """

    names: tuple[str, ...]
    share: FloatArray
    nats: FloatArray
    texts: tuple[str, ...]

    @property
    def strength(self) -> FloatArray:
        """The mean of both directions, symmetric; NaN on the diagonal."""
        return (self.share + self.share.T) / 2

    def strongest(self, n: int = 10) -> list[tuple[str, str, float]]:
        """The pairs of questions with the largest strength, in questionnaire order within a pair."""
        first, second = np.triu_indices(len(self.names), 1)
        value = self.strength[first, second]
        order = np.argsort(-np.nan_to_num(value), kind="stable")[:n]
        return [(self.names[first[k]], self.names[second[k]], float(value[k])) for k in order]

    def drivers(self, name: str, n: int = 3) -> list[tuple[str, float]]:
        """The questions whose answers say most about `name`, and the share of uncertainty that each removes."""
        own = np.nan_to_num(self.share[self.names.index(name)])
        return [(self.names[k], float(own[k])) for k in np.argsort(-own, kind="stable")[:n] if own[k] > 0]

    @property
    def frame(self) -> Any:
        """A long table of all pairs: question, known, share, nats."""
        row, column = np.nonzero(~np.eye(len(self.names), dtype=bool))
        names = np.asarray(self.names, object)
        figures = {"share": self.share[row, column], "nats": self.nats[row, column]}
        return frames.any_frame({"question": names[row], "known": names[column], **figures})

    def _lines(self) -> list[list[str]]:
        texts = dict(zip(self.names, self.texts, strict=True))
        return [[texts[one], texts[other], f"{value:.0%}"] for one, other, value in self.strongest()]

    def __str__(self) -> str:
        head = "Strongest relations (share of uncertainty removed, mean of both directions)"
        return "\n".join([head, *(f"  {share:>4}  {one} — {other}" for one, other, share in self._lines())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = ("".join(f"<td>{escape(text)}</td>" for text in (share, *pair)) for *pair, share in self._lines())
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        caption = "Strongest relations: share of uncertainty removed"
        return f"<table><caption>{caption}</caption><tbody>{body}</tbody></table>"


class Told(NamedTuple):
    """Rows of the table whose answer to one question the model is told."""

    column: NDArray[Any]  # the question
    row: NDArray[Any]
    weight: FloatArray


def told_rows(schema: Schema, blocks: Mapping[str, Block], weight: FloatArray, random: np.random.RandomState) -> Told:
    """One row for each label of a question, by its share; of other questions a sample of the answers."""
    found = list[tuple[str, int, float]]()
    for name in shared_questions(schema):
        answers = schema[name].form.answers(name, blocks[name])
        n_labels = len(answers.labels) if answers.exclusive and not answers.prefix else 0
        if 0 < n_labels <= MOST_LABELS:  # the first row with each label, and the share of the label
            counts = (answers.values == np.arange(n_labels)[:, None]) * weight
            share = counts.sum(axis=1) / max(counts.sum(), 1e-300)
            chosen = [(int(own.argmax()), float(part)) for own, part in zip(counts > 0, share, strict=True) if part > 0]
        else:
            chosen = _sampled(answers, weight, random)
        found += [(name, row, share) for row, share in chosen]
    columns, rows, weights = ([each[place] for each in found] for place in range(3))
    return Told(np.asarray(columns, object), np.asarray(rows, np.int64), np.asarray(weights, np.float64))


def shared_questions(schema: Schema) -> list[str]:
    """Questions with the same sites in every row."""
    return [name for name in schema.modelled if not schema[name].is_listed]


def _sampled(answers: Answers, weight: FloatArray, random: np.random.RandomState) -> list[tuple[int, float]]:
    """Rows at evenly spaced ranks of the answers, by weight; without order, ranks are random."""
    there = np.flatnonzero((answers.observed if answers.answered is None else answers.answered) & (weight > 0))
    if not len(there):
        return []
    key = random.random_sample(len(there)) if answers.parts else answers.values[there]
    there = there[np.argsort(key, kind="stable")]
    reached = np.cumsum(weight[there]) / weight[there].sum()
    chosen = there[np.unique(np.searchsorted(reached, (np.arange(SAMPLED) + 0.5) / SAMPLED).clip(max=len(there) - 1))]
    return [(int(row), 1 / len(chosen)) for row in chosen]


def dependence(query: Query, told: Told) -> Dependence:
    """Predict every question for the rows of `told`; missing answers must not be evidence in `query`."""
    names = shared_questions(query.schema)
    # All answers but one are hidden in each row.
    alone = query.hide({name: told.column != name for name in names})
    share, nats = (np.full((len(names), len(names)), np.nan) for _ in range(2))
    weight = np.where(told.column[None, :] == np.asarray(names, object)[:, None], told.weight, 0.0)
    kept = weight.any(axis=1)  # questions with answers
    for place, name in enumerate(names):
        chance = predicted(query.schema, name, alone.about(name, own=False))
        nats[place, kept], share[place, kept] = information(chance, normalised(weight[kept]))
        nats[place, place] = share[place, place] = np.nan
    return Dependence(tuple(names), share, nats, tuple(query.schema.display_names[name] for name in names))


def predicted(schema: Schema, name: str, ask: Ask) -> FloatArray:
    """P(label), of the two values of each option, or of bins with equal shares of a number: [row, variable, value]."""
    column = schema[name]
    if column.labels:
        chance = column.form.probabilities(ask)
        return np.stack([1.0 - chance, chance], axis=2) if column.form.has_options else chance[:, None, :]
    distribution = ask.number().distribution
    middle, places = distribution.mean(axis=0), np.arange(distribution.shape[1])
    edges = np.interp(np.arange(1, N_BINS) / N_BINS, middle, places)
    below = np.stack([np.interp(edges, places, row) for row in distribution])
    return np.diff(below, axis=1, prepend=0.0, append=1.0).clip(min=0.0)[:, None, :]


def information(chance: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mutual information of answers with predictions, and its share of the entropy; `share` is [group, row]."""
    chance = np.maximum(chance, 1e-12).reshape(len(chance), -1)
    overall = share @ chance
    entropy = -(overall * np.log(overall)).sum(axis=1)
    nats = np.maximum(share @ (chance * np.log(chance)).sum(axis=1) + entropy, 0.0)
    return nats, np.where(entropy > 1e-9, np.clip(nats / np.maximum(entropy, 1e-9), 0.0, 1.0), 0.0)
