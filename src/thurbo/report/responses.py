"""The answers as numbers: one array per question, read through the schema.

A level is its code; a number is in the user's units (an interval is its midpoint, or its only known end); a choice or
ranking is its first label. A question with several sites also has one 0/1 part per label. Missing cells are NaN.
Because the schema reads the table, the report needs no dataframe library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.forms import Answers

FloatArray = NDArray[np.float64]

__all__ = ["Answers", "FloatArray", "read_answers"]


def read_answers(schema: Any, X: Any) -> list[Answers]:
    """Read every modelled question of X through its fitted schema."""
    blocks = schema.compile(X)
    return [schema[name].form.answers(schema[name], name, blocks[name]) for name in schema.modelled]
