"""What respondents said, as numbers: the schema's own reading of the table, one array per question.

A level gives its code, a measured cell its value in the user's units (an interval its middle, or its one known end), a
choice or ranking the label above all others; a question with several sites also has one part for each, a yes or no. A
missing cell is NaN.
Reading through the schema keeps every dataframe library out of the report.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# What the part of a question says of one label, by kind: no, and yes.
_PART_LABELS = {"multiselect": ("not ticked", "ticked"), "ranking": ("not first", "first")}


class Answers(NamedTuple):
    """One question of the table, or the part of it that is about one label, ready to be averaged."""

    name: str
    kind: str  # "binary", "ordinal", "continuous", ...
    labels: tuple[str, ...]  # in order; empty for a measured column
    values: FloatArray  # [row] code or number; NaN where missing
    description: str
    site: str = ""  # name of the site it is about, where that is not the question's own
    parts: tuple[Answers, ...] = ()  # one for each label, where each has a site
    answered: NDArray[np.bool_] | None = None  # [row], where it is more than having one value
    share_interval: float = 0.0  # of the answers that are intervals of a number, or one end of it
    has_order: bool = True  # whether the first and last of `labels` are ends

    @property
    def observed(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values)

    @property
    def share_missing(self) -> float:
        answered = self.observed if self.answered is None else self.answered
        return float(np.mean(~answered)) if len(answered) else 0.0

    @property
    def lines(self) -> tuple[Answers, ...]:
        """What can be said about it one at a time: its parts, or itself."""
        return self.parts or (self,)


def read_answers(schema: Any, X: Any) -> list[Answers]:
    """Read every modelled question of X through its fitted schema."""
    answers = []
    for name, block in schema.compile(X).items():
        column = schema[name]
        if column.family == "none" or not block.sites:  # kept out of the model, or with no answers of its own
            continue
        labels = tuple(_word(label) for label in getattr(column, "texts", column.labels))
        about = str(name), column.kind, labels
        if column.family == "utility" or column.kind == "multiselect":
            answers.append(_of_many_sites(*about, block, column.describe())._replace(has_order=column.has_order))
            continue
        if column.family == "levels":
            # A cell that leaves several levels open has no one code to average.
            code = block.code[:, 0]
            values = np.where((code >= 0) & (block.code_high[:, 0] == code), code, np.nan).astype(float)
        else:
            answers.append(_of_measured(str(name), column, block))
            continue
        answers.append(Answers(*about, values, column.describe(), answered=block.observed[:, 0]))
    return answers


def _of_measured(name: str, column: Any, block: Any) -> Answers:
    """A number in the user's units; of an interval its middle, or the end that is known."""
    low, high = block.lower[:, 0], block.upper[:, 0]
    if column.labels:  # bands have names, which say more than a middle
        code, labels = column.codes(block), tuple(map(_word, column.texts))
        values = np.where(code >= 0, code, np.nan).astype(float)
        return Answers(name, column.kind, labels, values, column.describe(), answered=block.observed[:, 0])
    answered = np.isfinite(low) | np.isfinite(high)

    def user(z: FloatArray) -> FloatArray:
        # Standard units at scale one decode to the user's own.
        return np.asarray(column.to_user(np.where(np.isfinite(z), z, 0.0)), float)

    lower, upper = user(low), user(high)
    values = np.select([np.isinf(low), np.isinf(high)], [upper, lower], (lower + upper) / 2)
    n_answered = int(answered.sum())
    share = 1 - float(block.point[:, 0].sum()) / n_answered if n_answered else 0.0
    values = np.where(answered, values, np.nan)
    return Answers(name, column.kind, (), values, column.describe(), answered=answered, share_interval=share)


def _of_many_sites(name: str, kind: str, labels: tuple[str, ...], block: Any, description: str) -> Answers:
    """A question with one site for each label: as a whole the best label, or how many are ticked."""
    if kind == "multiselect":
        said = np.where(block.code >= 0, block.code, np.nan).astype(float)
        whole, values = tuple(f"{n} ticked" for n in range(len(labels) + 1)), said.sum(axis=1)
    else:
        best = favourite(block)
        said, whole, values = _is_best(block), labels, np.where(best >= 0, best, np.nan).astype(float)
    part_labels = _PART_LABELS.get(kind, ("not chosen", "chosen"))
    parts = tuple(
        Answers(f"{name}: {label}", kind, part_labels, said[:, place], description, f"{name}.{site}")
        for place, (label, site) in enumerate(zip(labels, block.sites, strict=True))
    )
    return Answers(name, kind, whole, values, description, parts=parts, answered=block.takes_part.any(axis=1))


def favourite(block: Any) -> NDArray[np.int64]:
    """Which label is above all others that the row compares: [row]; −1 where no single one is known to be."""
    is_best = _is_best(block) == 1
    return np.where(is_best.any(axis=1), is_best.argmax(axis=1), -1)


def _is_best(block: Any) -> FloatArray:
    """1 for the label above all others that the row compares, 0 for one below another, NaN where not said."""
    top = block.tier.max(axis=1, keepdims=True)
    at_top = (block.tier == top) & (top > 0)
    alone = (at_top.sum(axis=1) == 1) & ~block.one_of
    return np.select([(block.tier >= 0) & (block.tier < top), at_top & alone[:, None]], [0.0, 1.0], np.nan)


def _word(label: Any) -> str:
    """A label as people say it."""
    return ("yes" if label else "no") if isinstance(label, bool) else str(label)
