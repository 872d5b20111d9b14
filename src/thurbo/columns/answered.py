"""Whether a block of questions that are missing together has an answer: a site of the model that is no question.

Its cells are not in the table: `Schema.compile` derives them from the other columns. With it, which questions were
skipped is evidence about the other answers (missing not at random).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from thurbo.columns.binary import Binary
from thurbo.columns.block import Block
from thurbo.columns.cells import BoolArray, listing
from thurbo.columns.column import Role


@dataclass(frozen=True)
class Answered(Binary):
    """True if at least one of some questions has an answer, Eq. (6).

    Parameters
    ----------
    columns : sequence of str
        Names of the questions, which are missing together.
    """

    kind: ClassVar[str] = "answered"
    role: ClassVar[Role] = "pattern"
    is_one_label: ClassVar[bool] = False
    values: tuple[Any, Any] | None = field(default=(False, True), kw_only=True)
    columns: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def patterned(self) -> tuple[str, ...]:
        return self.columns

    def source_columns(self, name: str) -> tuple[str, ...]:
        return ()

    def describe(self) -> str:
        return f"whether there is an answer to {listing(self.columns, ' or ')}"

    def from_answers(self, answered: Mapping[str, BoolArray], some: BoolArray) -> Block:
        """The block of this column, by the rows [row] in which each question that the table has is answered.

        Other rows than `some` say nothing, and so does a table that has none of the questions.
        """
        own = [answered[name] for name in self.columns if name in answered]
        found = np.any([np.zeros(len(some), bool), *own], axis=0)
        code = np.where(some & bool(own), found, -1)
        return Block.levels(code.astype(np.int32)[:, None], 1)
