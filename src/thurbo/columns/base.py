"""§3 seen from the table: a column turns cells into inequalities on its sites, and latent values into cells.

`Cells` is what a column reads, `Block` the one record all compile to, `Column` the contract; NumPy only.
A new data type is one new file beside this one, and one line in the table of cases that column tests walk.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from decimal import Decimal
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def plain(value: Any) -> Any:
    """The Python bool, int, float or str behind a label; text is trimmed, any other object stays itself."""
    if isinstance(value, str):
        return str(value).strip()
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        # The shortest decimal that rounds to it, so that a float32 0.1 still is the level 0.1.
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def is_label(value: Any) -> bool:
    """Whether a value can be a label: text, a finite number or a boolean, which a file can hold."""
    return isinstance(value, (bool, int, str)) or (isinstance(value, float) and bool(np.isfinite(value)))


def show(value: Any) -> str:
    """A value as messages print it: text in quotes, and nothing too long to read."""
    text = f'"{value}"' if isinstance(value, str) else str(plain(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def listing(values: Iterable[Any], separator: str = ", ", most: int = 12) -> str:
    """Labels in a row for messages and tables, the middle left out where there are many."""
    words = [str(value) for value in values]
    if len(words) > most:
        words = [*words[: most // 2], "...", *words[-(most // 3) :]]
    return separator.join(words)


def suggestion(value: object, known: Iterable[object]) -> str:
    """A remedy that begins with the nearest known name, or nothing where none is near."""
    names = {str(name).casefold(): str(name) for name in known}
    near = difflib.get_close_matches(str(value).casefold(), names, n=1)
    return f'did you mean "{names[near[0]]}"? ' if near else ""


@dataclass(frozen=True)
class Cells:
    """One column of a table: values in the user's terms, which are missing, and how rows are called."""

    name: str
    values: NDArray[Any]  # [row]; what stands in a missing cell is never read
    missing: BoolArray  # [row]
    rows: NDArray[Any]  # [row] labels for error messages
    ordered_levels: tuple[Any, ...] | None = None  # the frame's own order: ordered categorical, Enum

    def __len__(self) -> int:
        return len(self.missing)

    def error(self, position: int, problem: str, remedy: str) -> SchemaError:
        """The error of one cell, with its row and column named."""
        return SchemaError(problem, row=self.rows[position], column=self.name, remedy=remedy)

    def factorise(self) -> tuple[list[Any], IntArray]:
        """Distinct values as plain Python ones, and which of them each row holds (−1 where missing)."""
        observed = np.flatnonzero(~self.missing)
        present = self.values[observed]
        code = np.full(len(self), -1, np.int32)
        if present.dtype.kind == "b":
            # Without a sort: black-and-white images are many columns of booleans.
            found = [value for value in (False, True) if np.any(present == value)]
            code[observed] = present if len(found) == 2 else 0
            return found, code
        if present.dtype.kind in "iuf":
            numbers, inverse = np.unique(present, return_inverse=True)
            code[observed] = inverse
            is_short = numbers.dtype.kind == "f" and numbers.dtype.itemsize < 8
            return [plain(number) for number in numbers] if is_short else numbers.tolist(), code
        # One dictionary look-up per cell, all inside the interpreter's C loops; 1, 1.0 and True are one key.
        listed = present.tolist()
        try:
            index = {value: place for place, value in enumerate(dict.fromkeys(listed))}
        except TypeError:
            position = next(i for i in observed if not _is_hashable(self.values[i]))
            problem = f"{show(self.values[position])} is a collection, not one value"
            raise self.error(int(position), problem, "give the column one value per cell, or Ignore it") from None
        merged: dict[Any, int] = {}
        place = [merged.setdefault(plain(value), len(merged)) for value in index]
        code[observed] = np.asarray(place, np.int32)[np.fromiter(map(index.__getitem__, listed), np.intp, len(listed))]
        return list(merged), code


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class Block:
    """What one column says about its sites, row by row: b ≤ x ≤ c in standard units, or a level between cuts.

    A measured site has `lower` and `upper` (equal where `point`); a level site has `code` ≥ 0. A silent cell
    has (−∞, ∞), no point, and code −1. `n_cuts` is the number of learnable cuts of each level site, 0 for a
    measured one. `log_jacobian` is log |dz/de| of each point: what turns its density into the user's units.
    """

    sites: tuple[str, ...]  # labels within the column; ("",) for a column with one site
    lower: FloatArray  # [row, site]
    upper: FloatArray  # [row, site]
    point: BoolArray  # [row, site]
    code: IntArray  # [row, site]
    n_cuts: int
    log_jacobian: FloatArray  # [row]

    @property
    def observed(self) -> BoolArray:
        """Which sites the cell says anything about: [row, site]."""
        return self.point | (self.code >= 0) | np.isfinite(self.lower) | np.isfinite(self.upper)

    @classmethod
    def levels(cls, code: IntArray, n_cuts: int) -> Block:
        """A block of one site that says levels only; the rest takes no memory (read-only views)."""
        shape = (len(code), 1)
        nowhere, everywhere = np.broadcast_to(-np.inf, shape), np.broadcast_to(np.inf, shape)
        no_point, no_jacobian = np.broadcast_to(np.False_, shape), np.broadcast_to(0.0, len(code))
        return cls(("",), nowhere, everywhere, no_point, code[:, None], n_cuts, no_jacobian)

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


@dataclass(frozen=True)
class Column(ABC):
    """A user-facing data type.

    Unfitted, it holds what the user said; `fit` returns a copy that knows its levels, or location and scale.
    Everything is immutable and goes to and from plain dictionaries (`to_dict`, `column_from_dict`).
    """

    kind: ClassVar[str]
    family: ClassVar[Literal["levels", "measured", "none"]]
    unseen: Literal["error", "missing"] = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, _immutable(getattr(self, item.name), item.name))
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

    @property
    def labels(self) -> tuple[Any, ...]:
        """The values a cell can take, in order; empty for a measured column."""
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
                state[item.name] = list(value) if isinstance(value, tuple) else value
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
    if isinstance(value, Iterable):
        return tuple(plain(entry) for entry in value)
    return plain(value)


@dataclass(frozen=True)
class MeasuredColumn(Column):
    """A cell about one number e, read in standard units z = (T(e) − location) / scale; x = z / (learned scale)."""

    family: ClassVar[Literal["levels", "measured", "none"]] = "measured"
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

    family: ClassVar[Literal["levels", "measured", "none"]] = "levels"

    @abstractmethod
    def _unknown(self, cells: Cells, position: int, value: Any) -> SchemaError:
        """The error of a cell that is none of the labels."""

    def to_codes(self, cells: Cells) -> IntArray:
        """Place of each cell among the labels: [row], −1 where it is missing."""
        if not self.labels:
            raise SchemaError(
                f"{type(self).__name__} does not know its values yet",
                column=cells.name,
                remedy="fit it first",
            )
        place = {plain(label): code for code, label in enumerate(self.labels)}
        distinct, which = cells.factorise()
        lookup = np.asarray([*(place.get(value, -1) for value in distinct), -1], np.int32)
        code = lookup[which]
        strange = np.flatnonzero((code < 0) & (which >= 0))
        if len(strange) and self.unseen == "error":
            raise self._unknown(cells, int(strange[0]), cells.values[strange[0]])
        return code

    def from_codes(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Labels of codes in their natural dtype; a negative code is missing: None, or NaN among numbers."""
        codes = np.asarray(codes)
        missing = codes < 0
        labels = self.labels
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

    def encode(self, cells: Cells) -> Block:
        """Cells as levels, Eq. (7)."""
        return Block.levels(self.to_codes(cells), self.n_cuts)

    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """The label whose interval holds x: as many labels up as there are cuts below x."""
        values = np.asarray(x, np.float64)[:, 0]
        own_cuts = np.asarray(cuts, np.float64).reshape(1, -1)[0, : self.n_cuts]
        codes = np.searchsorted(own_cuts, values, side="left")
        return self.from_codes(np.where(np.isnan(values), -1, codes))
