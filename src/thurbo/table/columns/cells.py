"""§3 What a column reads and what it makes: cells in the user's own values, and constraints on sites.

`Cells` is one column of a table, or several columns that hold the answer to one question (`parts`); equal cells are
read once. `Block` is the record that all columns produce, as arrays over lines: a line is a row of a table, or an
entry of a row's list. NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import InfeasibleEvidence, SchemaError, inequality
from thurbo.table.columns.values import Contradiction, Refused, frozen, plain, show

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
T = TypeVar("T")


def entries_of(start: NDArray[Any], rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where the lists of some rows start when they stand one after another, and their entries."""
    length = np.diff(start)[rows]
    new = np.concatenate([[0], np.cumsum(length)])
    return new, np.repeat(start[:-1][rows] - new[:-1], length) + np.arange(new[-1])


class Listed(NamedTuple):
    """Lists of items with scores, row after row: those of row r are the entries start[r] to start[r + 1]."""

    start: NDArray[np.int64]  # [row + 1]
    items: NDArray[Any]  # the distinct items
    which: NDArray[Any]  # [entry] number of its item
    score: NDArray[Any]  # [entry] numbers
    scores: str | None = None  # name of the column of scores in the long table, if any
    ordered: bool = False  # only the order of scores within a row is used

    def take(self, rows: NDArray[Any], *, used: bool = False) -> Listed:
        """The lists of some rows; with `used`, without items that none of them lists."""
        start, entry = entries_of(self.start, rows)
        which, items = self.which[entry], self.items
        if used:
            kept, which = np.unique(which, return_inverse=True)
            items = items[kept]
        return self._replace(start=start, items=items, which=which, score=self.score[entry])


@dataclass(frozen=True)
class Cells:
    """One column of a table: its values, which of them are missing, and the labels of the rows.

    If several columns of the table hold the answer to one question, they are its `parts`, by their own names; columns
    that the table does not have are omitted. `values` then holds the cells under the question's own name, if any.
    """

    name: str
    values: NDArray[Any]  # [row]; values of missing cells are not read
    missing: BoolArray  # [row]
    rows: NDArray[Any]  # [row] labels for error messages
    ordered_levels: tuple[Any, ...] | None = None  # the frame's own order: ordered categorical, Enum
    parts: Mapping[str, Cells] = field(default_factory=dict)
    listed: Listed | None = None  # lists of items, where the table holds them as such

    def __len__(self) -> int:
        return len(self.missing)

    def take(self, rows: NDArray[Any]) -> Cells:
        """The cells of some rows, which may repeat; lists keep only items that occur in them."""
        parts = {name: part.take(rows) for name, part in self.parts.items()}
        listed = None if self.listed is None else self.listed.take(rows, used=True)
        own = self.values[rows], self.missing[rows], self.rows[rows]
        return Cells(self.name, *own, self.ordered_levels, parts, listed)

    def error(self, position: int, problem: str, remedy: str) -> SchemaError:
        """The error for one cell, which names its row and column."""
        return SchemaError(problem, row=self.rows[position], column=self.name, remedy=remedy)

    @contextmanager
    def at(self, position: int) -> Iterator[None]:
        """What is refused inside is an error of this cell."""
        try:
            yield
        except Refused as refused:
            raise self.error(position, refused.problem, refused.remedy) from None

    def hashable(self) -> Cells:
        """The same cells with lists, sets and mappings frozen, so that they can be factorised."""
        if self.values.dtype.kind != "O":
            return self
        listed, several = self.values.tolist(), (list, tuple, set, frozenset, np.ndarray, Mapping)
        if not any(issubclass(each, several) for each in set(map(type, listed))):
            return self
        known: dict[Any, Any] = {}  # equal lists are frozen once

        def freeze(value: Any, gone: bool) -> Any:
            if gone or not isinstance(value, (list, tuple)):
                return None if gone else frozen(value)
            try:
                key = tuple(value)
                return known[key] if key in known else known.setdefault(key, frozen(value))
            except TypeError:  # lists of lists have no hash of their own
                return frozen(value)

        return replace(self, values=np.fromiter(map(freeze, listed, self.missing.tolist()), object, len(self)))

    def mapped(self, function: Callable[[Any], Any]) -> Cells:
        """The cells with another value for each distinct one; None if missing."""
        distinct, which = self.hashable().factorise()
        return replace(self, values=np.fromiter([*map(function, distinct), None], object)[which])

    def factorise(self) -> tuple[list[Any], IntArray]:
        """Distinct values as plain Python values, and the index of each row's value (−1 if missing)."""
        observed = np.flatnonzero(~self.missing)
        present = self.values[observed]
        code = np.full(len(self), -1, np.int32)
        if present.dtype.kind == "b":
            # No sort: black-and-white images have many columns of booleans.
            found = [value for value in (False, True) if np.any(present == value)]
            code[observed] = present if len(found) == 2 else 0
            return found, code
        if present.dtype.kind in "iuf":
            numbers, inverse = np.unique(present, return_inverse=True)
            code[observed] = inverse
            is_short = numbers.dtype.kind == "f" and numbers.dtype.itemsize < 8
            return [plain(number) for number in numbers] if is_short else numbers.tolist(), code
        # One dictionary look-up per cell, in the interpreter's C loops; 1, 1.0 and True are one key.
        listed = present.tolist()
        left = iter(listed)
        try:
            distinct = dict.fromkeys(left)
        except TypeError:  # at the last value that was read
            position = int(observed[len(listed) - len(list(left)) - 1])
            problem = f"{show(self.values[position])} is a collection, not one value"
            raise self.error(position, problem, "give the column one value per cell, or Ignore it") from None
        merged: dict[Any, int] = {}
        index = {value: merged.setdefault(plain(value), len(merged)) for value in distinct}
        code[observed] = np.fromiter(map(index.__getitem__, listed), np.int32, len(listed))
        return list(merged), code

    def read(self, read: Callable[[Any], T], nothing: T, unseen: str) -> tuple[list[T], IntArray]:
        """What `read` says of each distinct value, `nothing` at the end, and the index of each row's value.

        The first row with a value that `read` refuses is an error; if `unseen` is "missing", the value says `nothing`,
        unless it contradicts itself.
        """
        distinct, which = self.factorise()
        found, reasons = [nothing] * (len(distinct) + 1), dict[int, Refused]()
        for index, value in enumerate(distinct):
            try:
                found[index] = read(value)
            except Refused as refused:
                if unseen == "error" or isinstance(refused, Contradiction):
                    reasons[index] = refused
        if reasons:
            first = int(np.isin(which, list(reasons)).argmax())
            why = reasons[int(which[first])]
            kind = InfeasibleEvidence if isinstance(why, Contradiction) else SchemaError
            raise kind(why.problem, row=self.rows[first], column=self.name, remedy=why.remedy)
        return found, which


def as_numbers(cells: Cells) -> tuple[FloatArray, BoolArray]:
    """Cells as floats, NaN if missing, and which observed cells cannot be read as a number."""
    numbers = np.full(len(cells), np.nan)
    refused = np.zeros(len(cells), bool)
    observed = ~cells.missing
    if cells.values.dtype.kind in "mMcV":
        return numbers, observed
    try:
        numbers[observed] = cells.values[observed].astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        # Cells are read one by one only if the column has a cell that is not a number.
        for position in np.flatnonzero(observed):
            try:
                numbers[position] = float(cells.values[position])
            except (TypeError, ValueError, OverflowError):
                refused[position] = True
    return numbers, refused


Family = Literal["levels", "measured", "utility", "none"]

OPEN = 1e12  # an end of an interval so many standard units away is no end: its square is near the limit of float32

# The default of an array of a Block is a read-only view of one of these values; it takes no memory.
_NOTHING: dict[str, Any] = {"lower": -np.inf, "upper": np.inf, "point": np.False_, "code": np.int32(-1)}
_NOTHING |= {"tier": np.int32(-1), "one_of": np.False_, "log_jacobian": 0.0}
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
    lower: FloatArray = _SAYS_NOTHING
    upper: FloatArray = _SAYS_NOTHING
    point: BoolArray = _SAYS_NOTHING
    code: IntArray = _SAYS_NOTHING
    n_cuts: int = 0
    log_jacobian: FloatArray = _SAYS_NOTHING  # [line]
    code_high: IntArray = _SAYS_NOTHING
    tier: IntArray = _SAYS_NOTHING
    one_of: BoolArray | Any = _SAYS_NOTHING  # [line]
    linear: tuple[LinearRow, ...] = ()  # sites of any column
    family: Family = _SAYS_NOTHING  # which of these arrays the column uses: by default that which is given
    entries: Entries | None = None  # row and site of each line, in the listed layout
    tasks: Tasks | None = None  # if the entries of a row are several comparisons, not one order
    is_repeated: bool = False  # whether an order is choices one after another, each with noise of its own
    order_shape: tuple[int, int, str] | None = None  # of the orders in the training table: see latent.packing

    def __post_init__(self) -> None:
        shape = next(each.shape for each in (self.code, self.tier, self.lower) if each is not None)
        if self.family is None:
            found = "measured" if self.lower is not None else "utility" if self.code is None else "levels"
            object.__setattr__(self, "family", found)
        for name, value in _NOTHING.items():
            if getattr(self, name) is None:
                own_shape = shape[:1] if name in ("log_jacobian", "one_of") else shape
                object.__setattr__(self, name, np.broadcast_to(value, own_shape))
        if self.code_high is None:
            object.__setattr__(self, "code_high", self.code)

    @property
    def n_rows(self) -> int:
        return len(self.code) if self.entries is None else self.entries.n_rows

    @property
    def label(self) -> IntArray:
        """The only label that each line allows, [line]: its level, or the one above all others; −1 if there is none."""
        if self.family != "utility":
            code = self.code[:, 0]
            return np.where(self.code_high[:, 0] == code, code, np.asarray(-1, code.dtype))
        top = self.tier == self.tier.max(axis=1, keepdims=True)
        known = (self.tier >= 0).all(axis=1) & (top.sum(axis=1) == 1) & ~self.one_of
        return np.where(known, top.argmax(axis=1), -1).astype(np.int32)

    @property
    def lists(self) -> Entries:
        """`entries` of a block in the listed layout."""
        assert self.entries is not None
        return self.entries

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
        # A row whose items are all tied has no comparison, and a task only if ties say something.
        compares: Any = (self.tier > 0).any(axis=1)
        if self.tasks is not None:
            task = self.by_task(self.tier)
            says = task.min(axis=1) >= 0 if self.tasks.has_ties else task.max(axis=1) > 0
            compares = np.repeat(says, self.tasks.size)
        elif self.entries is not None:
            compares = self.any_in_row(compares)[self.entries.row]
        return alone | (self.tier >= 0) & compares[:, None]

    @property
    def task(self) -> IntArray:
        """The task of each line, [line]: numbers from 0 over all rows."""
        assert self.tasks is not None
        return np.arange(len(self.tier), dtype=np.int32) // np.int32(self.tasks.size)

    def by_task(self, lines: NDArray[Any]) -> NDArray[Any]:
        """Values of the lines of whole tasks as a table, [task, item]."""
        assert self.tasks is not None
        return lines.reshape(-1, self.tasks.size)

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
        return np.asarray(self.sum_in_row(lines) > 0)

    def sum_in_row(self, values: NDArray[Any]) -> FloatArray:
        """Sum of `values` [line] over the lines of each row, [row]."""
        if self.entries is None:
            return values
        return np.bincount(self.entries.row, values, minlength=self.n_rows).astype(np.float64)

    def rows(self, index: NDArray[Any]) -> Block:
        """Some rows of a block; they may repeat, and have arrays of their own."""
        lines, entries = index, self.entries
        if entries is not None:
            start, lines = entries_of(entries.start, index)
            entries = Entries(start, entries.site[lines])
        parts: dict[str, Any] = {name: np.array(getattr(self, name)[lines]) for name in ARRAYS}
        return replace(self, **parts, linear=(), entries=entries)

    def within(self, most: float) -> tuple[Block, BoolArray]:
        """The block with all numbers at most so many standard units from 0, and which lines that changed, [line].

        An interval that lies beyond becomes open towards its side.
        """
        point, low, high = self.point, self.lower, self.upper
        above, below = ~point & (low > most), ~point & (high < -most)
        far = point & (np.abs(low) > most) | above | below
        changed = np.asarray(far.any(axis=1))
        if not changed.any() and not any((np.isfinite(end) & (np.abs(end) > OPEN)).any() for end in (low, high)):
            return self, changed
        lower = np.select([point | above, below | (low < -OPEN)], [low.clip(-most, most), -np.inf], low)
        upper = np.select([point | below, above | (high > OPEN)], [high.clip(-most, most), np.inf], high)
        return replace(self, lower=lower, upper=upper), changed
