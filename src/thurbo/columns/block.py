"""§3: the common record that all columns produce: constraints on sites, as arrays over lines.

A line is a row of a table, or an entry of a row's list. This module uses NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo._words import inequality
from thurbo.columns.cells import BoolArray, FloatArray, IntArray

Family = Literal["levels", "measured", "utility", "none"]

OPEN = 1e12  # an end of an interval so many standard units away is no end: its square is near the limit of float32

# The default of a Block field is a read-only view without information; it takes no memory.
_SAYS_NOTHING: Any = None


ARRAYS = ("lower", "upper", "point", "code", "code_high", "tier", "one_of", "log_jacobian")  # of a Block, by line


class LinearRow(NamedTuple):
    """One inequality of one row, Eq. (5): lower ≤ Σ coefficient · site ≤ upper.

    Sites are named in full, "column" or "column.label". Measured sites are in the user's units until `Schema.compile`
    has processed the inequality, and in standard units z afterwards, as in `Block.lower`.
    """

    row: int
    coefficients: dict[str, float]
    lower: float
    upper: float

    def __str__(self) -> str:
        """As text: "0.5 <= age - 2 income"."""
        return inequality(self.coefficients, self.lower, self.upper)


class Entries(NamedTuple):
    """The lines of a listed column: entries start[r] to start[r + 1] belong to row r, each with one site."""

    start: NDArray[np.int64]  # [row + 1]
    site: IntArray  # [entry] position among the column's sites

    @property
    def n_rows(self) -> int:
        return len(self.start) - 1

    @property
    def row(self) -> NDArray[np.int64]:
        """Row of each entry, [entry]."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.start))

    @classmethod
    def none(cls, n_rows: int) -> Entries:
        """Rows whose lists are all empty."""
        return cls(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int32))


class Tasks(NamedTuple):
    """Comparisons of a listed column, each with noise of its own: every `size` consecutive entries are one task.

    An entry of tier −1 only pads its task. In pairs, equal tiers are a tie; in other tasks they are not compared.
    """

    size: int
    noise: Literal["normal", "gumbel"] = "normal"
    is_paired: bool = False
    has_ties: bool = False  # whether ties of pairs have a learned threshold
    shape: tuple[int, int] = (2, 1)  # most tiers, and most items of a tier that is neither the first nor the last
    is_choice: bool = True  # whether a task only says that one item is above all others


@dataclass(frozen=True)
class Block:
    """The constraints of one column on its sites: intervals, levels between cuts, or orders.

    Arrays are [line, site]. In the shared layout a line is a row, and all rows have the same sites. In the listed
    layout a line is an entry of a row's list and has one site, `entries.site`: arrays are [entry, 1].

    A measured site has `lower` and `upper` in standard units (equal if `point`). A level site has `code` ≥ 0, and
    `code_high` > `code` if the cell allows several adjacent levels. A utility has a `tier`: the tiers of a row are
    0 (worst), 1, 2, ... without gaps; equal tiers are tied (not compared); −1 is not part of the order. If `one_of`,
    the best label is one of tier 1, and the labels of tier 0 are not above the best of these. Any other inequality is
    in `linear`. A cell without information has (−∞, ∞), no point, code −1 and tier −1. `n_cuts` is the number of
    learned cuts of each level site, 0 for other sites. `log_jacobian` is log |dz/de| of each point: it converts the
    density to the user's units.
    """

    sites: tuple[str, ...]  # labels within the column; ("",) for a column with one site
    lower: FloatArray
    upper: FloatArray
    point: BoolArray
    code: IntArray
    n_cuts: int
    log_jacobian: FloatArray  # [line]
    code_high: IntArray = _SAYS_NOTHING
    tier: IntArray = _SAYS_NOTHING
    one_of: BoolArray | Any = _SAYS_NOTHING  # [line]
    linear: tuple[LinearRow, ...] = ()  # sites of any column
    family: Family = "measured"  # which of these arrays the column uses
    entries: Entries | None = None  # row and site of each line, in the listed layout
    tasks: Tasks | None = None  # if the entries of a row are several comparisons, not one order
    is_repeated: bool = False  # whether an order is choices one after another, each with noise of its own
    order_shape: tuple[int, int, str] | None = None  # of the orders in the training table: see evidence.pack

    def __post_init__(self) -> None:
        if self.code_high is None:
            object.__setattr__(self, "code_high", self.code)
        if self.tier is None:
            object.__setattr__(self, "tier", np.broadcast_to(np.int32(-1), self.code.shape))
        if self.one_of is None:
            object.__setattr__(self, "one_of", np.broadcast_to(np.False_, len(self.code)))

    @property
    def n_rows(self) -> int:
        return len(self.code) if self.entries is None else self.entries.n_rows

    @property
    def has_tiers(self) -> bool:
        """Whether a cell can hold an order: columns of levels and numbers cannot."""
        return self.tier.strides != (0, 0)

    @property
    def observed(self) -> BoolArray:
        """Which sites the cell constrains, by itself or by an order: [line, site]; `linear` is not included."""
        alone = self.point | (self.code >= 0) | np.isfinite(self.lower) | np.isfinite(self.upper)
        if not self.has_tiers:
            return alone
        if self.tasks is not None:
            return self._compared[:, None]
        # A row whose items are all tied has no comparison.
        compares: Any = (self.tier > 0).any(axis=1)
        if self.entries is not None:
            compares = self.any_in_row(compares)[self.entries.row]
        return alone | (self.tier >= 0) & compares[:, None]

    @property
    def _compared(self) -> BoolArray:
        """Which entries of tasks are compared with another one, [line]."""
        assert self.tasks is not None
        tier = self.tier.reshape(-1, self.tasks.size)
        says = tier.min(axis=1) >= 0 if self.tasks.has_ties else tier.max(axis=1) > 0
        return ((tier >= 0) & says[:, None]).reshape(-1)

    @property
    def task(self) -> IntArray:
        """The task of each line, [line]: numbers from 0 over all rows."""
        assert self.tasks is not None
        return np.repeat(np.arange(len(self.tier) // self.tasks.size, dtype=np.int32), self.tasks.size)

    @property
    def takes_part(self) -> BoolArray:
        """Which sites belong to the row's model: the constrained ones, and all ranked ones: [line, site]."""
        return self.observed | (self.tier >= 0) if self.has_tiers else self.observed

    @property
    def answered(self) -> BoolArray:
        """Which rows have any information, [row]."""
        return self.any_in_row(np.asarray(self.takes_part.any(axis=1)))

    def any_in_row(self, lines: BoolArray) -> BoolArray:
        """Whether any line of each row is marked, [row]."""
        if self.entries is None:
            return lines
        return np.bincount(self.entries.row, lines, minlength=self.n_rows) > 0

    def sum_in_row(self, values: FloatArray) -> FloatArray:
        """Sum of `values` [line] over the lines of each row, [row]."""
        if self.entries is None:
            return values
        return np.bincount(self.entries.row, values, minlength=self.n_rows).astype(np.float64)

    def lines(self, index: NDArray[Any]) -> Block:
        """Some lines of a block, in the shared layout; they may repeat, and have arrays of their own."""
        parts: dict[str, Any] = {name: np.array(getattr(self, name)[index]) for name in ARRAYS}
        return replace(self, **parts, linear=())

    def within(self, most: float) -> tuple[Block, BoolArray]:
        """The block with all numbers at most so many standard units from 0, and which lines that changed, [line].

        An interval that lies beyond becomes open towards its side.
        """
        point, low, high = self.point, self.lower, self.upper
        above, below = ~point & (low > most), ~point & (high < -most)
        far = point & (np.abs(low) > most) | above | below
        changed = np.asarray(far.any(axis=1))
        if not far.any() and not any((np.isfinite(end) & (np.abs(end) > OPEN)).any() for end in (low, high)):
            return self, changed
        lower = np.select([point | above, below | (low < -OPEN)], [low.clip(-most, most), -np.inf], low)
        upper = np.select([point | below, above | (high > OPEN)], [high.clip(-most, most), np.inf], high)
        return replace(self, lower=lower, upper=upper), changed

    @classmethod
    def levels(
        cls,
        code: IntArray,
        n_cuts: int,
        code_high: IntArray | None = None,
        sites: tuple[str, ...] = ("",),
        entries: Entries | None = None,
    ) -> Block:
        """A block of levels only, codes [line, site]; the other arrays take no memory (read-only views)."""
        high, no_jacobian = code if code_high is None else code_high, np.broadcast_to(0.0, len(code))
        nothing = _nothing(code.shape)
        return cls(sites, *nothing, code, n_cuts, no_jacobian, high, family="levels", entries=entries)

    @classmethod
    def orders(
        cls,
        tier: IntArray,
        one_of: BoolArray | None,
        sites: tuple[str, ...],
        linear: Iterable[LinearRow] = (),
        entries: Entries | None = None,
        tasks: Tasks | None = None,
    ) -> Block:
        """A block of orders only, tiers [line, site]; the other arrays take no memory (read-only views)."""
        code, no_jacobian = np.broadcast_to(np.int32(-1), tier.shape), np.broadcast_to(0.0, len(tier))
        nothing, between = _nothing(tier.shape), tuple(linear)
        return cls(sites, *nothing, code, 0, no_jacobian, code, tier, one_of, between, "utility", entries, tasks)

    @classmethod
    def silent(cls, n_rows: int, sites: tuple[str, ...] = ("",), n_cuts: int = 0, family: Family = "measured") -> Block:
        """A block without information, which a column then fills in from its cells."""
        shape = (n_rows, len(sites))
        nothing = np.full(shape, -np.inf), np.full(shape, np.inf), np.zeros(shape, bool)
        return cls(sites, *nothing, np.full(shape, -1, np.int32), n_cuts, np.zeros(n_rows), family=family)


def _nothing(shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Lower ends, upper ends and points of sites without an interval."""
    return np.broadcast_to(-np.inf, shape), np.broadcast_to(np.inf, shape), np.broadcast_to(np.False_, shape)
