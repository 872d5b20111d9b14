"""§3.2 Paired comparisons that may contradict each other: P(a above b) = Φ((u_a − u_b) / √2), Thurstone's Case V."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.block import Tasks
from thurbo.columns.cells import Refused, listing
from thurbo.columns.tasks import TaskColumn, Tiers


@dataclass(frozen=True)
class Pairs(TaskColumn):
    """Paired comparisons, each with noise of its own: x_a + ε ≥ x_b + ε′.

    Parameters
    ----------
    items : list, optional
        All items; by default those of the training cells.
    noise : {"normal", "gumbel"}, default="normal"
        "normal": Thurstone's Case V, P(a above b) = Φ((u_a − u_b) / √2). "gumbel": the Bradley–Terry model,
        P(a above b) = 1 / (1 + exp(u_b − u_a)).
    ties : bool, optional
        Whether "no preference" means that two utilities are within a learned threshold of each other. By default it
        does if the training table has a tie.
    attributes : dict, optional
        {item: {attribute: value}}: known features of items. Their effects are learned, and new items can be ranked.
    constants : bool, default=True
        Whether items have utilities of their own, besides those of their attributes.
    settings : ListSettings, optional
        Shrinkage of items.
    size : int, optional
        Set by `fit`.
    names : dict, optional
        Display names of items.
    unseen : {"error", "missing"}, default="error"
        What to do with a pair that has an unknown item; "missing" omits it.
    missing : dict or list, optional
        Values that mean "no answer".
    recode : dict, optional
        Values that are read as another value; the table is not changed.

    Notes
    -----
    A cell is a list of pairs, the preferred item first: [("a", "b"), ("c", "a")], or a text "a > b; c > a". A tie is
    "a = b", or [["a", "b"]]. The comparisons of a row need not be transitive, and a pair may occur several times. Whole
    tables come from `from_pairs`. In a `Ranking`, the utilities of a row are drawn once; here once per comparison.

    Examples
    --------
    >>> import thurbo as tb
    >>> table = {"drinks": [[("tea", "coffee"), ("coffee", "tea"), ("tea", "water")], "water > coffee; tea = water"]}
    >>> tb.Schema({"drinks": tb.Pairs()}).fit(table)["drinks"].describe()
    'paired comparisons of coffee, tea, water, ties allowed'
    """

    kind: ClassVar[str] = "pairs"
    ties: bool | None = field(default=None, kw_only=True)

    def _fitted(self, size: int, read: list[list[Tiers]]) -> Self:
        found = any(len(task) == 1 for tasks in read for task in tasks)
        return replace(self, size=2, ties=found if self.ties is None else self.ties)

    def _about(self, tier: NDArray[np.int32]) -> Tasks:
        return Tasks(2, self.noise, is_paired=True, has_ties=bool(self.ties))

    def _says(self, groups: list[list[int]]) -> bool:
        whole = sum(map(len, groups)) == 2
        return whole and (len(groups) == 2 or bool(self.ties))

    def _checked(self, tiers: Tiers) -> Tiers:
        if sum(map(len, tiers)) != 2:
            shown = " > ".join(" = ".join(map(str, tier)) for tier in tiers)
            raise Refused(f'"{shown}" is not a comparison of two items', self._remedy)
        return tiers

    @property
    def _remedy(self) -> str:
        return 'write pairs as ("better", "worse") or "better > worse"; use Ranking or Choice for more than two items'

    @property
    def has_scale(self) -> bool:
        return bool(self.ties)

    def _written(self, items: list[Any]) -> Any:
        return [[[better], [worse]] for better, worse in pairwise(items)]

    def describe(self) -> str:
        if self.items is None:
            return "paired comparisons"
        return f"paired comparisons of {listing(self.items)}" + ", ties allowed" * bool(self.ties)
