"""What respondents said, as numbers: the schema's own reading of the table, one array per column.

A level column gives its codes, a measured one its values in the user's units; a missing cell is NaN.
Reading through the schema keeps every dataframe library out of the report.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Answers(NamedTuple):
    """One column of the table, ready to be averaged."""

    name: str
    kind: str  # "binary", "ordinal", "continuous", ...
    labels: tuple[str, ...]  # in order; empty for a measured column
    values: FloatArray  # [row] code or number; NaN where missing
    description: str

    @property
    def observed(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values)

    @property
    def share_missing(self) -> float:
        return float(np.mean(~self.observed)) if len(self.values) else 0.0


def read_answers(schema: Any, X: Any) -> list[Answers]:
    """Read every modelled column of X through its fitted schema."""
    answers = []
    for name, block in schema.compile(X).items():
        column = schema[name]
        if column.family == "none":  # kept out of the model
            continue
        if column.family == "levels":
            code = block.code[:, 0]
            values = np.where(code >= 0, code, np.nan).astype(float)
        else:
            # Standard units at scale one decode to the user's own. An interval has no one number to average.
            point = block.point[:, 0]
            decoded = column.decode(np.where(block.point, block.lower, 0.0), np.zeros((1, 0)), np.ones(1))
            values = np.where(point, np.asarray(decoded, float), np.nan)
        labels = tuple(_word(label) for label in column.labels)
        answers.append(Answers(str(name), column.kind, labels, values, column.describe()))
    return answers


def _word(label: Any) -> str:
    """A label as people say it."""
    return ("yes" if label else "no") if isinstance(label, bool) else str(label)
