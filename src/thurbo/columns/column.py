"""§3 seen from the table: a column turns cells into inequalities on its sites, and latent values into cells.

`Cells` is what a column reads, `Block` the one record all compile to, `Column` the contract; NumPy only.
A new data type is one new file beside this one, and one line in the table of cases that column tests walk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import BoolArray, Cells, FloatArray, IntArray, collection, is_label, plain, show, suggestion
from thurbo.errors import SchemaError

Family = Literal["levels", "measured", "utility", "lists", "none"]

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


class ListRows(NamedTuple):
    """Items that rows list: entries start[r] to start[r + 1] are those of row r, each a site with a level or a tier."""

    start: NDArray[np.int64]  # [row + 1]
    site: IntArray  # [entry] place among the column's sites
    code: NDArray[Any]  # [entry]


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
    lists: ListRows | None = None  # where rows list few of many items; all else is then silent

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
    Everything is immutable and goes to and from plain dictionaries (`to_dict`, `column_from_dict`). Values that stand
    for no answer are declared with `missing={9: "Don't know", -1: "Refused"}`, or as a list; `Schema` counts them as
    missing and leaves them in the table, so that `missing_kinds` can tell them apart.
    """

    kind: ClassVar[str]
    family: ClassVar[Family]
    mappings: ClassVar[tuple[str, ...]] = ()  # settings that are given as {label: name of a column}
    words: ClassVar[tuple[str, ...]] = ("missing",)  # settings that are given as {value: text}
    unseen: Literal["error", "missing"] = field(default="error", kw_only=True)
    missing: Mapping[Any, str] | Iterable[Any] = field(default=(), kw_only=True)  # kept as pairs, which are immutable

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in (*self.mappings, *self.words) and isinstance(value, Mapping):
                value = list(value.items())
            object.__setattr__(self, item.name, _immutable(value, item.name))
        if self.unseen not in ("error", "missing"):
            raise SchemaError(f"unseen={self.unseen!r} is not understood", remedy='say "error" or "missing"')
        for setting in self.words:
            object.__setattr__(self, setting, _words(getattr(self, setting), setting, getattr(self, "names", ())))
        self._check()
        for setting in self.words:
            object.__setattr__(self, setting, _keyed(getattr(self, setting), self.labels))
        for value, name in self._kinds:
            if value in self.labels:
                problem = f"{show(value)} is one of the labels, and is declared missing ({name})"
                raise SchemaError(problem, remedy="leave it out of one of the two")

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

    def gaps(self, name: str, missing: dict[str, BoolArray], silent: BoolArray) -> dict[str, BoolArray]:
        """Which cells an imputation may fill: the missing ones, of several columns those of rows that say nothing."""
        if self.source_columns(name) == (name,):
            return missing
        return {source: gone & silent for source, gone in missing.items()}

    @property
    def labels(self) -> tuple[Any, ...]:
        """The values a cell can take, in order; empty for a measured column. Of several sites, one label each."""
        return ()

    @property
    def texts(self) -> tuple[str, ...]:
        """What people read for each of `labels`."""
        return tuple(map(str, self.labels))

    @property
    def has_order(self) -> bool:
        """Whether `labels` stand from lowest to highest, and not only side by side; of two that says nothing."""
        return False

    @property
    def sites(self) -> tuple[str, ...]:
        """Labels of the sites within the column."""
        return ("",)

    @property
    def n_cuts(self) -> int:
        """Number of learnable cuts of each of its sites."""
        return max(len(self.labels) - 1, 0)

    @property
    def _kinds(self) -> tuple[tuple[Any, str], ...]:
        """Values that are declared missing, with the name of each."""
        stored: Any = self.missing
        return stored

    def answered(self, cells: Cells) -> Cells:
        """The cells with those that hold a value declared missing, or its name, counted as missing; parts too."""
        if not self._kinds:
            return cells
        gone = {value for value, _ in self._kinds}
        ordered = cells.ordered_levels and tuple(level for level in cells.ordered_levels if plain(level) not in gone)
        parts = {name: self.answered(part) for name, part in cells.parts.items()}
        return replace(cells, missing=cells.missing | (self._kind(cells) >= 0), ordered_levels=ordered, parts=parts)

    def missing_kinds(self, cells: Cells) -> dict[str, int]:
        """How many cells hold each kind of missing value by its name, and how many nothing at all ("no answer")."""
        found = {name: 0 for _, name in self._kinds} | {"no answer": 0}
        for part in cells.parts.values() if cells.parts else (cells,):
            kind = self._kind(part)
            for place, (_, name) in enumerate(self._kinds):
                found[name] += int((kind == place).sum())
            found["no answer"] += int(part.missing.sum())
        return found

    def _kind(self, cells: Cells) -> IntArray:
        """Which declared value each cell holds, by itself or by its name: [row], −1 where none."""
        kind = np.full(len(cells), -1, np.int32)
        if cells.values.dtype.kind in "biuf":
            for place, (value, _) in enumerate(self._kinds):
                for number in spellings(value):
                    if not isinstance(number, str):
                        kind[cells.values == number] = place
        else:
            labels = {*map(str, self.labels), *self.texts}
            known: dict[Any, int] = {name: place for place, (_, name) in enumerate(self._kinds) if name not in labels}
            known |= {each: place for place, (value, _) in enumerate(self._kinds) for each in spellings(value)}
            values = map(plain, cells.values.tolist())
            found = (known.get(value, -1) if is_label(value) else -1 for value in values)
            kind = np.fromiter(found, np.int32, len(cells))
        return np.where(cells.missing, np.int32(-1), kind)

    def silent(self, n_rows: int) -> Block:
        """The block of a column that nobody asked about."""
        return Block.silent(n_rows, self.sites, self.n_cuts)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON/TOML-ready values from which `from_dict` rebuilds the column, fitted state included."""
        state: dict[str, Any] = {"kind": self.kind}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default:
                is_table = item.name in (*self.mappings, *self.words)
                pairs = is_table and all(isinstance(key, str) for key, _ in value)
                state[item.name] = {key: _lists(entry) for key, entry in value} if pairs else _lists(value)
        return state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Rebuild what `to_dict` wrote."""
        known = [item.name for item in fields(cls)]
        settings = {name: value for name, value in state.items() if name != "kind"}
        for name in settings:
            if name not in known:
                remedy = f"{suggestion(name, known)}it has {', '.join(known)}"
                raise SchemaError(f'a column of kind {cls.kind} has no setting "{name}"', remedy=remedy)
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


def _words(value: Any, setting: str, names: Any) -> tuple[tuple[Any, str], ...]:
    """{value: text} as pairs; a value alone is its own text, or goes by one of the `names` of labels."""
    if not isinstance(value, tuple):
        raise SchemaError(f"{setting}={value!r} is no list", remedy=f'give {setting}={{9: "Don\'t know"}} or a list')
    known = dict(names) if setting == "missing" else {}
    pairs = [each if isinstance(each, tuple) and len(each) == 2 else (each, known.get(each, each)) for each in value]
    for place, (key, text) in enumerate(pairs):
        if not is_label(key):
            raise SchemaError(f"{setting} has {show(key)}, which no cell holds", remedy="use text, numbers or booleans")
        if not is_label(text) or text == "":
            raise SchemaError(f"{setting} calls {show(key)} {show(text)}", remedy="give it a text")
        if key in [other for other, _ in pairs[:place]]:
            raise SchemaError(f"{setting} has {show(key)} twice", remedy="name each value once")
    return tuple((key, str(text)) for key, text in pairs)


def _keyed(pairs: tuple[tuple[Any, str], ...], labels: tuple[Any, ...]) -> tuple[tuple[Any, str], ...]:
    """{value: text} with the text of a label as the label itself: in files that people write all keys are text."""
    written = {str(label): label for label in labels}
    return tuple((key if key in labels else written.get(key, key), text) for key, text in pairs)


def spellings(value: Any) -> tuple[Any, ...]:
    """A value, and the number that it spells if it is text."""
    try:
        return (value, float(value)) if isinstance(value, str) and np.isfinite(float(value)) else (value,)
    except ValueError:
        return (value,)


def _lists(value: Any) -> Any:
    return [_lists(entry) for entry in value] if isinstance(value, tuple) else value
