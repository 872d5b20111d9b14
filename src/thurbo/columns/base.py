"""§3 seen from the table: a column turns cells into inequalities on its sites, and latent values into cells.

`Cells` is what a column reads, `Block` the one record all compile to, `Column` the contract; NumPy only.
A new data type is one new file beside this one, and one line in the table of cases that column tests walk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import (
    BoolArray,
    Cells,
    FloatArray,
    IntArray,
    Refused,
    collection,
    is_label,
    listing,
    plain,
    show,
    suggestion,
)
from thurbo.columns.statements import Statement
from thurbo.errors import SchemaError

Family = Literal["levels", "measured", "utility", "none"]

# A field of Block that is left out is a read-only view which says nothing and takes no memory.
_SAYS_NOTHING: Any = None


class LinearRow(NamedTuple):
    """One inequality of one row, Eq. (5): lower ≤ Σ coefficient · site ≤ upper.

    Sites go by their full names, "column" or "column.label". Until `Schema.compile` has seen it a measured site is in
    the user's units; from then on in standard units z, as in `Block.lower`.
    """

    row: int
    coefficients: dict[str, float]
    lower: float
    upper: float

    def __str__(self) -> str:
        """In words: "0.5 ≤ age − 2 income"."""
        terms = []
        for site, value in self.coefficients.items():
            size = "" if abs(value) == 1 else f"{abs(value):.4g} "
            terms += ["-" if value < 0 else "+", f"{size}{site}"]
        terms = terms[1:] if terms[0] == "+" else [f"-{terms[1]}", *terms[2:]]
        below = "" if np.isneginf(self.lower) else f"{self.lower:.4g} <= "
        return f"{below}{' '.join(terms)}{'' if np.isposinf(self.upper) else f' <= {self.upper:.4g}'}"


@dataclass(frozen=True)
class Block:
    """What one column says about its sites, row by row: an interval, a level between cuts, or an order.

    A measured site has `lower` and `upper` in standard units (equal where `point`); a level site has `code` ≥ 0, and
    `code_high` > `code` where the cell leaves several neighbouring levels open. A utility has a `tier`: within a row
    they run from 0 (worst) without a gap, equal ones are tied (not compared), −1 takes no part. Where `one_of`, the
    best of all is one of tier 1, and the rest (tier 0) is not above the best of them. Anything else is in `linear`.
    A silent cell has (−∞, ∞), no point, code −1 and tier −1. `n_cuts` is the number of learnable cuts of each level
    site, 0 for the others. `log_jacobian` is log |dz/de| of each point: it turns its density into the user's units.
    """

    sites: tuple[str, ...]  # labels within the column; ("",) for a column with one site
    lower: FloatArray  # [row, site]
    upper: FloatArray  # [row, site]
    point: BoolArray  # [row, site]
    code: IntArray  # [row, site]
    n_cuts: int
    log_jacobian: FloatArray  # [row]
    code_high: IntArray = _SAYS_NOTHING  # [row, site]
    tier: IntArray = _SAYS_NOTHING  # [row, site]
    one_of: BoolArray = _SAYS_NOTHING  # [row]
    linear: tuple[LinearRow, ...] = ()  # sites of any column

    def __post_init__(self) -> None:
        if self.code_high is None:
            object.__setattr__(self, "code_high", self.code)
        if self.tier is None:
            object.__setattr__(self, "tier", np.broadcast_to(np.int32(-1), self.code.shape))
        if self.one_of is None:
            object.__setattr__(self, "one_of", np.broadcast_to(np.False_, len(self.code)))

    @property
    def has_tiers(self) -> bool:
        """Whether any cell can say an order: columns of levels and numbers never do."""
        return self.tier.strides != (0, 0)

    @property
    def observed(self) -> BoolArray:
        """Which sites the cell confines, by itself or by an order: [row, site]; `linear` is not counted."""
        alone = self.point | (self.code >= 0) | np.isfinite(self.lower) | np.isfinite(self.upper)
        # A row whose items are all tied compares nothing.
        return alone | (self.tier >= 0) & (self.tier > 0).any(axis=1, keepdims=True) if self.has_tiers else alone

    @property
    def takes_part(self) -> BoolArray:
        """Which sites belong to the row's own model: the confined ones, and all that were ranked: [row, site]."""
        return self.observed | (self.tier >= 0) if self.has_tiers else self.observed

    @classmethod
    def levels(
        cls, code: IntArray, n_cuts: int, code_high: IntArray | None = None, sites: tuple[str, ...] = ("",)
    ) -> Block:
        """A block that says levels only, codes [row, site]; the rest takes no memory (read-only views)."""
        return cls(
            sites,
            *_nothing(code.shape),
            code,
            n_cuts,
            np.broadcast_to(0.0, len(code)),
            code if code_high is None else code_high,
        )

    @classmethod
    def orders(
        cls, tier: IntArray, one_of: BoolArray, sites: tuple[str, ...], linear: Iterable[LinearRow] = ()
    ) -> Block:
        """A block that says orders only, tiers [row, site]; the rest takes no memory (read-only views)."""
        code, no_jacobian = np.broadcast_to(np.int32(-1), tier.shape), np.broadcast_to(0.0, len(tier))
        return cls(sites, *_nothing(tier.shape), code, 0, no_jacobian, code, tier, one_of, tuple(linear))

    @classmethod
    def silent(cls, n_rows: int, sites: tuple[str, ...] = ("",), n_cuts: int = 0) -> Block:
        """A block that says nothing: where every column starts before it fills in what its cells say."""
        shape = (n_rows, len(sites))
        return cls(
            sites,
            np.full(shape, -np.inf),
            np.full(shape, np.inf),
            np.zeros(shape, bool),
            np.full(shape, -1, np.int32),
            n_cuts,
            np.zeros(n_rows),
        )


def _nothing(shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Lower and upper ends and points of sites that no interval confines."""
    return np.broadcast_to(-np.inf, shape), np.broadcast_to(np.inf, shape), np.broadcast_to(np.False_, shape)


@dataclass(frozen=True)
class Column(ABC):
    """A user-facing data type.

    Unfitted, it holds what the user said; `fit` returns a copy that knows its levels, or location and scale.
    Everything is immutable and goes to and from plain dictionaries (`to_dict`, `column_from_dict`).
    """

    kind: ClassVar[str]
    family: ClassVar[Family]
    mappings: ClassVar[tuple[str, ...]] = ()  # settings that are given as {label: name of a column}
    unseen: Literal["error", "missing"] = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in self.mappings and isinstance(value, Mapping):
                value = list(value.items())
            object.__setattr__(self, item.name, _immutable(value, item.name))
        if self.unseen not in ("error", "missing"):
            raise SchemaError(f"unseen={self.unseen!r} is not understood", remedy='say "error" or "missing"')
        self._check()

    def _check(self) -> None:  # noqa: B027  (most columns have nothing more to refuse)
        """Refuse what the user cannot have meant, when the column is written down and not when it is used."""

    @abstractmethod
    def fit(self, cells: Cells) -> Self:
        """Learn from the training cells what encoding needs: levels, location, scale."""

    @abstractmethod
    def encode(self, cells: Cells) -> Block:
        """Turn cells into inequalities; raises SchemaError naming row, column, value and remedy."""

    @abstractmethod
    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Turn latent values [row, site] into cells [row], given the cuts [site, cut] and scale [site]."""

    @abstractmethod
    def describe(self) -> str:
        """One line for people: what a cell is taken to say."""

    def source_columns(self, name: str) -> tuple[str, ...]:
        """Columns of the table that hold the answers to this question; none where it is never read."""
        return (name,)

    def decode_columns(self, name: str, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> dict[str, NDArray[Any]]:
        """Latent values as the columns of the table that `source_columns` names, each in its own coding."""
        return {name: self.decode(x, cuts, scale)}

    @property
    def labels(self) -> tuple[Any, ...]:
        """The values a cell can take, in order; empty for a measured column. Of several sites, one label each."""
        return ()

    @property
    def sites(self) -> tuple[str, ...]:
        """Labels of the sites within the column."""
        return ("",)

    @property
    def n_cuts(self) -> int:
        """Number of learnable cuts of each of its sites."""
        return max(len(self.labels) - 1, 0)

    def silent(self, n_rows: int) -> Block:
        """The block of a column that nobody asked about."""
        return Block.silent(n_rows, self.sites, self.n_cuts)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON/TOML-ready values from which `from_dict` rebuilds the column, fitted state included."""
        state: dict[str, Any] = {"kind": self.kind}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default:
                pairs = item.name in self.mappings and all(isinstance(key, str) for key, _ in value)
                state[item.name] = dict(value) if pairs else _lists(value)
        return state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Rebuild what `to_dict` wrote."""
        known = [item.name for item in fields(cls)]
        settings = {name: value for name, value in state.items() if name != "kind"}
        for name in settings:
            if name not in known:
                remedy = f"{suggestion(name, known)}it has {', '.join(known)}"
                raise SchemaError(f'a {cls.kind} column has no setting "{name}"', remedy=remedy)
        return cls(**settings)


def _immutable(value: Any, name: str) -> Any:
    """Lists and arrays as tuples of plain values, so that columns compare, hash and go to files."""
    if value is None or isinstance(value, (str, np.generic)):
        return plain(value)
    if isinstance(value, dict):
        raise SchemaError(f"{name}={value!r} is a dictionary", remedy="give a list in order")
    if isinstance(value, (set, frozenset)):
        value = collection(value)
    if isinstance(value, Iterable):
        return tuple(_immutable(entry, name) if isinstance(entry, (list, tuple)) else plain(entry) for entry in value)
    return plain(value)


def _lists(value: Any) -> Any:
    return [_lists(entry) for entry in value] if isinstance(value, tuple) else value


def natural(labels: tuple[Any, ...], codes: NDArray[Any]) -> NDArray[Any]:
    """Labels of codes in their natural dtype; a negative code is missing: None, or NaN among numbers."""
    codes = np.asarray(codes)
    missing = codes < 0
    if all(isinstance(label, bool) for label in labels) and not missing.any():
        dtype: Any = np.bool_
    elif all(isinstance(label, int) and not isinstance(label, bool) for label in labels):
        dtype = np.float64 if missing.any() else np.int64
    elif all(isinstance(label, float) for label in labels):
        dtype = np.float64
    else:
        dtype = object
    table = np.empty(len(labels) + 1, dtype)
    table[:-1] = labels
    table[-1] = None if dtype is object else np.nan if dtype is np.float64 else False
    return table[np.where(missing, -1, codes)]


def check_labels(labels: Any, many: str, one: str, owner: str) -> None:
    """Refuse labels that are no list of at least two distinct values which a file can hold."""
    if not isinstance(labels, tuple):
        raise SchemaError(f"{many}={labels!r} is not a list", remedy=f"give {owner} a list")
    for place, label in enumerate(labels):
        if not is_label(label):
            raise SchemaError(f"{one} {show(label)} is no label", remedy="use text, numbers or booleans")
        if label in labels[:place] or str(label) in map(str, labels[:place]):
            raise SchemaError(f"{one} {show(label)} stands twice in the {many}", remedy=f"name each {one} once")
    if len(labels) < 2:
        problem = f"{many} [{listing(map(show, labels))}] are fewer than two"
        raise SchemaError(problem, remedy=f"give at least two {many}, or use Ignore()")


def check_pairs(value: Any, setting: str) -> None:
    """Refuse what is not {label: name of a column}, each name once."""
    is_pairs = isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    if not is_pairs:
        raise SchemaError(f"{setting}={value!r} is no dictionary", remedy=f'give {setting}={{"label": "column"}}')
    check_names(tuple(name for _, name in value), setting)


def check_names(names: Any, setting: str) -> None:
    """Refuse what is no list of distinct names of columns."""
    if not isinstance(names, tuple) or not names:
        raise SchemaError(f"{setting}={names!r} names no columns", remedy="give names of columns")
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise SchemaError(f"{setting} names the column {show(name)}", remedy="name columns by text")
        if name in names[:place]:
            raise SchemaError(f"{setting} names the column {show(name)} twice", remedy="name each column once")


def in_order(found: Iterable[Any]) -> tuple[Any, ...]:
    """Labels in their natural order: numbers first (whole ones as integers), then text."""
    distinct = list(dict.fromkeys(found))
    numbers = [value for value in distinct if not isinstance(value, str)]
    if all(isinstance(value, float) and value.is_integer() for value in numbers):
        numbers = [int(value) for value in numbers]
    return (*sorted(numbers), *sorted(value for value in distinct if isinstance(value, str)))


@dataclass(frozen=True)
class MeasuredColumn(Column):
    """A cell about one number e, read in standard units z = (T(e) − location) / scale; x = z / (learned scale)."""

    family: ClassVar[Family] = "measured"
    location: float | None = field(default=None, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)

    @abstractmethod
    def to_user(self, z: FloatArray) -> FloatArray:
        """Numbers in the user's units of standard ones: T⁻¹(location + scale z)."""

    @property
    def standard(self) -> tuple[float, float]:
        """Location and scale, once fitted."""
        if self.location is None or self.scale is None:
            raise SchemaError(f"{type(self).__name__} does not know its location and scale yet", remedy="fit it first")
        return self.location, self.scale

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The number that x stands for."""
        return self.to_user(np.asarray(x, np.float64)[:, 0] * np.asarray(scale, np.float64).reshape(-1)[0])


@dataclass(frozen=True)
class LevelColumn(Column):
    """A cell that is one of a few labels: label l says that x lies between cuts l − 1 and l, Eq. (7)."""

    family: ClassVar[Family] = "levels"

    @abstractmethod
    def _unknown(self, cells: Cells, position: int, value: Any) -> SchemaError:
        """The error of a cell that is none of the labels."""

    @abstractmethod
    def _range(self, statement: Statement) -> tuple[int, int]:
        """The lowest and highest level that a statement leaves open; raises Refused."""

    def to_ranges(self, cells: Cells) -> tuple[IntArray, IntArray]:
        """Lowest and highest label that each cell leaves open: two of [row], −1 where it says nothing."""
        if not self.labels:
            raise SchemaError(
                f"{type(self).__name__} does not know its values yet",
                column=cells.name,
                remedy="fit it first",
            )
        place = {plain(label): code for code, label in enumerate(self.labels)}
        distinct, which = cells.factorise()
        low = np.asarray([*(place.get(value, -1) for value in distinct), -1], np.int32)
        high = low.copy()
        reasons: dict[int, Refused] = {}
        for index, value in enumerate(distinct):
            if isinstance(value, Statement):
                try:
                    low[index], high[index] = self._range(value)
                except Refused as refused:
                    reasons[index] = refused
        strange = np.flatnonzero((low[which] < 0) & (which >= 0))
        if len(strange) and self.unseen == "error":
            first = int(strange[0])
            why = reasons.get(int(which[first]))
            raise (
                cells.error(first, why.problem, why.remedy) if why else self._unknown(cells, first, cells.values[first])
            )
        # All levels left open is nothing said.
        low[(low == 0) & (high == len(self.labels) - 1)] = -1
        high[low < 0] = -1
        return low[which], high[which]

    def from_codes(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Labels of codes in their natural dtype; a negative code is missing: None, or NaN among numbers."""
        return natural(self.labels, codes)

    def encode(self, cells: Cells) -> Block:
        """Cells as levels, Eq. (7)."""
        low, high = (code[:, None] for code in self.to_ranges(cells))
        return Block.levels(low, self.n_cuts, None if np.array_equal(low, high) else high)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The label whose interval holds x: as many labels up as there are cuts below x."""
        values = np.asarray(x, np.float64)[:, 0]
        own_cuts = np.asarray(cuts, np.float64).reshape(1, -1)[0, : self.n_cuts]
        codes = np.searchsorted(own_cuts, values, side="left")
        return self.from_codes(np.where(np.isnan(values), -1, codes))
