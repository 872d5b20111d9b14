"""§5 Training over all rows of a large table: rows at rest in few bytes, and batches of them in a fixed order.

Idea: what is decided about a model is learned from a sample of rows, and its parameters go on learning from all of
them. Every row is encoded once, and kept in memory or in a temporary file. A column says few different things: each is
a pattern, a row of a `Block` that is kept once, and a cell is the number of its pattern; only numbers and orders of
which there are many are kept as they are. A batch has as many rows of each of `SHARDS` equal parts of the table, so
that the order of the file does not matter, and so that parts can be on different devices.
Guarantees the same batches for the same rows and seed, wherever the rows come from and wherever they are kept.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo import parallel
from thurbo._concurrency import cached_property
from thurbo._typing import PRNGKey
from thurbo.errors import SchemaError
from thurbo.fit import trainer
from thurbo.fit.course import Told
from thurbo.fit.fitting import Data
from thurbo.fit.planning import Plan
from thurbo.fit.trainer import Info, Layout, Schedule, TrainState
from thurbo.latent import packing
from thurbo.latent.evidence import Coded, CodedSlots, Evidence, Unobserved
from thurbo.predict.evaluation import row_hashes
from thurbo.predict.member import with_patterns
from thurbo.table.columns import Block
from thurbo.table.io.frames import Table
from thurbo.table.io.scan import RowSource, Scan
from thurbo.table.schema.schema import Schema

SHARDS = 64  # parts of a table, of each of which a batch has as many rows
POOL = 1 << 16  # rows that are mixed, and that are on the device, at a time
MOST_IN_MEMORY = 1 << 28  # bytes of rows; more of them are kept in a temporary file

Key = tuple[str, str, str]  # reading, column, and part of what is kept of it
WEIGHT: Key = ("", "", "weight")


FEW_PATTERNS = 250  # of a column in the sample; one that has more of them is kept as it is
MOST_PATTERNS = 60_000  # of any column
Packed = dict[str, np.ndarray]  # arrays [row, unit]: "code", "lower", "upper", "tier", of these what a column needs


class Codec:
    """How the cells of one column are kept; patterns are added as they are met.

    units   of codes: one for each site of levels or numbers, one for all utilities of a column
    direct  what is kept beside the codes: "" (nothing), "lower" (points), "ends" (intervals) or "tier"
    """

    def __init__(self, sample: Block):
        self.family, self.sites, self.n_cuts = sample.family, sample.sites, sample.n_cuts
        self.is_repeated, self.direct = sample.is_repeated, ""
        self.units = 1 if self.family == "utility" else len(self.sites)
        self.patterns: list[Any] = []  # the first ones are those of one level or label, in their order
        self.numbers: np.ndarray | None = None  # what the numbers of patterns became when processes agreed on them
        self._known: dict[bytes, int] = {}
        if self.family == "levels":
            for level in range(self.n_cuts + 1 if self.n_cuts else 0):
                self._number((level, level))
        elif self.family == "utility":
            rest = sample.tier[self._labels(sample)[1]]
            if len(np.unique(rest, axis=0)) > FEW_PATTERNS:
                self.direct = "tier"
            else:
                for place in range(len(self.sites)):
                    self._number(("label", place))
        elif self.family == "measured":
            low, high, point = _ends(sample)
            says = point | np.isfinite(low) | np.isfinite(high)
            n_points, n_boxes = (len(np.unique(_keys(low, high)[says & own])) for own in (point, ~point))
            if n_boxes > FEW_PATTERNS:
                self.direct = "ends"
                self._number(("box", 0.0, 1.0))  # so that there are intervals
            elif n_points + n_boxes > FEW_PATTERNS:
                self.direct = "lower"

    @staticmethod
    def _labels(block: Block) -> tuple[np.ndarray, np.ndarray]:
        """The label of the rows that only say which one is above all others, else −1; and rows that say more, [row]."""
        label = np.where(block.tier.max(axis=1) == 1, block.label, -1)
        return label, (label < 0) & ((block.tier >= 0).any(axis=1) | block.one_of)

    @property
    def n_patterns(self) -> int:
        """Number of patterns, with the one that says nothing."""
        return 1 + len(self.patterns)

    @property
    def widths(self) -> dict[str, int]:
        """The parts of what is kept, and the number of columns of each."""
        beside = {"": (), "lower": ("lower",), "ends": ("lower", "upper"), "tier": ("tier",)}[self.direct]
        has_code = self.direct == "" or (self.patterns and self.direct != "ends")
        return ({"code": self.units} if has_code else {}) | dict.fromkeys(beside, len(self.sites))

    def encode(self, block: Block) -> Packed:
        """The cells of some rows: numbers of patterns, and what is kept beside them."""
        if block.linear:
            problem = "an inequality between columns cannot be read in pieces"
            raise SchemaError(problem, remedy="remove it, or read the table as a whole")
        if self.family == "levels":
            return self._packed(self._levels(block))
        if self.family == "utility":
            return self._utilities(block)
        return self._numbers(block)

    def _packed(self, code: np.ndarray, **beside: np.ndarray) -> Packed:
        """Codes in as few bytes as they need, left out where all say nothing and something is beside them."""
        if beside and not code.any():
            return beside
        kind: type = np.uint8 if self.n_patterns <= 256 else np.uint16
        return {"code": code.astype(kind), **beside}

    def _levels(self, block: Block) -> np.ndarray:
        code = block.code.astype(np.int32) + 1
        several = block.code_high != block.code
        if several.any():
            pairs = np.stack([block.code[several], block.code_high[several]], axis=1)
            code[several] = self._of_rows(pairs, tuple)
        return code

    def _of_rows(self, rows: np.ndarray, pattern: Callable[[list[int]], Any]) -> np.ndarray:
        """The numbers of the patterns that the rows of an array stand for."""
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        return np.asarray([self._number(pattern(each)) for each in distinct.tolist()])[which.reshape(-1)]

    def _utilities(self, block: Block) -> Packed:
        is_set, beside = np.asarray(block.one_of), dict[str, np.ndarray]()
        if self.direct == "tier":
            code, rest = np.zeros(len(block.tier), np.int32), np.flatnonzero(is_set)
            beside["tier"] = block.tier.astype(np.int8 if len(self.sites) < 128 else np.int16)
            beside["tier"][rest] = -1
        else:
            label, is_more = self._labels(block)
            code, rest = label.astype(np.int32) + 1, np.flatnonzero(is_more)
        if len(rest):
            rows = np.concatenate([block.tier[rest], is_set[rest, None]], axis=1)
            code[rest] = self._of_rows(rows, lambda each: (tuple(each[:-1]), bool(each[-1])))
        return self._packed(code[:, None], **beside)

    def _numbers(self, block: Block) -> Packed:
        low, high, point = _ends(block)
        says = point | np.isfinite(low) | np.isfinite(high)
        if self.direct == "ends":
            lower = np.where(says, low, np.float32(np.nan))
            return {"lower": lower, "upper": np.where(point, np.float32(np.nan), high)}
        code = np.zeros(low.shape, np.int32)
        for is_point in (True, False) if self.direct == "" else (False,):
            own = says & (point == is_point)
            if own.any():
                _, at, which = np.unique(_keys(low, high)[own], return_index=True, return_inverse=True)
                ends = low[own][at], high[own][at]
                kind = "point" if is_point else "box"
                numbers = [self._number((kind, *pair)) for pair in zip(*map(np.ndarray.tolist, ends), strict=True)]
                code[own] = np.asarray(numbers)[which.reshape(-1)]
        if self.direct == "":
            return self._packed(code)
        return self._packed(code, lower=np.where(point, low, np.float32(np.nan)))

    def _number(self, pattern: Any) -> int:
        """The number of a pattern, which is added if it is new."""
        key = repr(pattern).encode()
        if key not in self._known:
            if self.n_patterns >= MOST_PATTERNS:
                problem = f"it has more than {MOST_PATTERNS:,} different statements"
                raise SchemaError(problem, remedy="read the table as a whole, or Ignore the column")
            self._known[key] = self.n_patterns
            self.patterns.append(pattern)
        return self._known[key]

    def agree(self, every: Sequence[Sequence[Any]]) -> None:
        """Number the patterns of all processes in the same way: those of the first, and then what others have more."""
        own, self.patterns, self._known = self.patterns, [], {}
        for pattern in (each for patterns in every for each in patterns):
            self._number(_tuples(pattern))
        self.numbers = np.asarray([0, *map(self._number, own)], np.uint16)

    def block(self, n_rows: int, order_shape: tuple[int, int, str] | None = None) -> Block:
        """All patterns as the rows of a block, row i that of number i; rows beyond them say nothing."""
        shape = (n_rows, len(self.sites))
        if self.family == "levels":
            low, high = np.full((2, *shape), -1, np.int32)
            for number, ends in enumerate(self.patterns, 1):
                low[number], high[number] = ends
            return Block(self.sites, code=low, n_cuts=self.n_cuts, code_high=high if (low != high).any() else low)
        if self.family == "utility":
            places, tier, one_of = np.arange(len(self.sites)), np.full(shape, -1, np.int32), np.zeros(n_rows, bool)
            for number, pattern in enumerate(self.patterns, 1):
                tier[number], one_of[number] = pattern if pattern[0] != "label" else (places == pattern[1], False)
            found = Block(self.sites, tier=tier, one_of=one_of, is_repeated=self.is_repeated)
            return replace(found, order_shape=order_shape)
        lower, upper, point = np.full(shape, -np.inf), np.full(shape, np.inf), np.zeros(shape, bool)
        for number, (kind, low, high) in enumerate(self.patterns, 1):
            lower[number], upper[number], point[number] = low, high, kind == "point"
        return Block(self.sites, lower, upper, point)


def _tuples(value: Any) -> Any:
    """Lists as tuples, which JSON does not have."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _ends(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of intervals in single precision, and which of them are points."""
    low, high = (np.asarray(end).astype(np.float32) for end in (block.lower, block.upper))
    return low, high, np.asarray(block.point)


def _keys(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Both ends as one integer."""
    bits = [np.ascontiguousarray(end).view(np.uint32).astype(np.uint64) for end in (low, high)]
    return np.asarray(bits[0] << np.uint64(32) | bits[1])


def silenced(packed: Mapping[str, np.ndarray], rows: np.ndarray) -> Packed:
    """The same without what some rows say: positions or a mask."""
    found = {name: array.copy() for name, array in packed.items()}
    for name, array in found.items():
        array[rows] = {"code": 0, "lower": np.nan, "upper": np.nan, "tier": -1}[name]
    return found


@dataclass(frozen=True, eq=False)
class _Record:
    """How rows of a piece are laid out: as a structured array, and its field for each key; equal arrays share one."""

    kind: np.dtype
    places: dict[Key, str]


class _Piece(NamedTuple):
    start: int
    stop: int
    record: _Record
    offset: int  # of its first byte


class RowStore:
    """Rows at rest, one after another, as records; in memory up to a limit, and then in a temporary file."""

    def __init__(self, most: int) -> None:
        self._pieces: list[_Piece] = []
        self._records: dict[Any, _Record] = {}
        self._file, self._turn = tempfile.SpooledTemporaryFile(max(1, most)), threading.Lock()  # noqa: SIM115
        self.n_bytes = self.n_rows = 0

    def add(self, fields: Mapping[Key, np.ndarray]) -> None:
        """Append rows; fields that are equal, as of two readings of one question, are kept once."""
        own, places, alike = dict[str, np.ndarray](), dict[Key, str](), dict[tuple[str, ...], list[str]]()
        for key, array in fields.items():
            others = alike.setdefault(key[1:], [])
            places[key] = next((name for name in others if _equal(own[name], array)), f"f{len(own)}")
            if places[key] not in own:
                own[places[key]] = array
                others.append(places[key])
        kind = np.dtype([(name, array.dtype, array.shape[1:]) for name, array in own.items()])
        rows = np.empty(len(array), kind)
        for name, array in own.items():
            rows[name] = array
        record = self._records.setdefault((kind, *places.items()), _Record(kind, places))
        self._pieces.append(_Piece(self.n_rows, self.n_rows + len(rows), record, self.n_bytes))
        with self._turn:
            self._file.seek(self.n_bytes)
            self._file.write(rows.tobytes())
        self.n_rows, self.n_bytes = self.n_rows + len(rows), self.n_bytes + rows.nbytes

    def spans(self, spans: Sequence[tuple[int, int]]) -> list[tuple[_Record, np.ndarray]]:
        """The records of some ranges of rows, in their order; as bytes, which are joined faster than fields."""
        found, starts = [], np.asarray([piece.start for piece in self._pieces])
        for start, stop in spans:
            number = int(np.searchsorted(starts, start, side="right")) - 1
            while start < stop:
                piece = self._pieces[number]
                end = min(stop, piece.stop)
                size = piece.record.kind.itemsize
                with self._turn:
                    self._file.seek(piece.offset + (start - piece.start) * size)
                    held = self._file.read((end - start) * size)
                found.append((piece.record, np.frombuffer(held, np.dtype((np.void, size)))))
                start, number = end, number + 1
        return found

    def weights(self, first: int, last: int) -> np.ndarray:
        """The weights of some rows."""
        parts = [rows.view(each.kind)[each.places[WEIGHT]][:, 0] for each, rows in self.spans([(first, last)])]
        return np.concatenate([np.zeros(0, np.float32), *parts])


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


class RowReading:
    """How rows are kept for the members of one reading."""

    def __init__(self, name: str, sample: Data):
        self.name, self.schema, self._like = name, sample.schema, sample.blocks
        self.codecs = {each: Codec(sample.blocks[each]) for each in self.schema.with_sites}
        self.shapes: dict[str, tuple[int, int, str]] = packing.order_shapes(
            {each: sample.blocks[each] for each, codec in self.codecs.items() if codec.direct == "tier"}
        )

    def encode(self, blocks: Mapping[str, Any], masked: Mapping[str, np.ndarray]) -> dict[Key, np.ndarray]:
        """What the blocks of some rows say, without the answers in masked rows [row] of each question."""
        found: dict[Key, np.ndarray] = {}
        hidden = with_patterns(self.schema, blocks, masked) if masked else {}
        for name, codec in self.codecs.items():
            block = blocks[name]
            parts = codec.encode(block)
            if codec.direct == "tier":
                self.shapes = packing.wider(self.shapes, packing.order_shapes({name: block}))
            if name in hidden and hidden[name].any():
                parts = silenced(parts, hidden[name])
            found |= {(self.name, name, part): array for part, array in parts.items()}
        return found

    def agree(self) -> None:
        """Make all processes number patterns in the same way, whatever rows each has read."""
        if parallel.is_distributed():
            patterns = parallel.told({name: codec.patterns for name, codec in self.codecs.items()})
            for shapes in parallel.told(self.shapes):
                self.shapes = packing.wider(self.shapes, {name: tuple(shape) for name, shape in shapes.items()})
            for name, codec in self.codecs.items():
                codec.agree([own[name] for own in patterns])

    def patterns(self, unobserved: Unobserved) -> Evidence:
        """Everything that cells say, one pattern of every column in each row."""
        n_rows = max((codec.n_patterns for codec in self.codecs.values()), default=1)
        none = np.zeros(n_rows, np.int64)
        blocks = [
            self.codecs[name].block(n_rows, self.shapes.get(name)) if name in self.codecs else own.rows(none)
            for name, own in self._like.items()
        ]
        (found,) = packing.pack(blocks, unobserved, most_widths=0).on_host().buckets
        return found

    @cached_property
    def _columns(self) -> dict[tuple[str, str], tuple[str, slice]]:
        """The array of `Coded`, and the columns there, of each part of each question."""
        found, used = dict[tuple[str, str], tuple[str, slice]](), dict.fromkeys(Coded._fields, 0)
        for name, codec in self.codecs.items():
            for part, width in codec.widths.items():
                array = part
                if part == "code":
                    array = "small" if codec.n_patterns <= 256 else "large"
                found[name, part] = array, slice(used[array], used[array] + width)
                used[array] += width
        return found

    @cached_property
    def slots(self) -> CodedSlots:
        """Which column of each array every slot has."""
        where = {part: np.full(self.schema.n_sites, -1) for part in ("code", "lower", "upper", "tier")}
        n_small = self._width("small")
        for (name, part), (array, columns) in self._columns.items():
            first = columns.start + n_small * (array == "large")
            width, own = columns.stop - columns.start, self.schema.slices[name]
            where[part][own] = first + (np.arange(width) if width > 1 else 0)
        return CodedSlots(*(tuple(where[part].tolist()) for part in CodedSlots._fields))

    def _width(self, array: str) -> int:
        return max((columns.stop for kept, columns in self._columns.values() if kept == array), default=0)

    def coded(self, parts: Sequence[tuple[_Record, np.ndarray, np.ndarray]], n_rows: int, scale: float) -> Coded:
        """Rows on the host, from records and their places among `n_rows` rows; the others say nothing.

        Weights are divided by `scale`.
        """
        kinds: dict[str, Any] = {"small": np.uint8, "large": np.uint16, "tier": np.int8}
        if any(codec.direct == "tier" and len(codec.sites) >= 128 for codec in self.codecs.values()):
            kinds["tier"] = np.int16
        nothing = {"lower": np.nan, "upper": np.nan, "tier": -1}
        found = {
            array: np.full((n_rows, self._width(array)), nothing.get(array, 0), kinds.get(array, np.float32))
            for array in Coded._fields[:-1]
        }
        weight = np.zeros(n_rows, np.float32)
        for record, rows, at in parts:
            held = rows.view(record.kind)
            for (name, part), (array, columns) in self._columns.items():
                place, numbers = record.places.get((self.name, name, part)), self.codecs[name].numbers
                if place is not None:
                    values = held[place]
                    found[array][at, columns] = values if part != "code" or numbers is None else numbers[values]
            weight[at] = held[record.places[WEIGHT]][:, 0] / np.float32(scale)
        return Coded(**found, weight=weight)


@dataclass
class WholeTable:
    """All rows of a large table, from which a sample was drawn.

    source   where they are read
    sample   positions of the rows of the sample, increasing
    weight   how much each row counts, beside a column of weights; None if all count the same
    devices  that divide the batches; every process reads the rows of its own devices
    batch    rows of a batch
    """

    source: RowSource
    sample: np.ndarray
    weight: np.ndarray | None = None
    devices: parallel.Devices = parallel.UNDIVIDED
    batch: int = 512
    store: RowStore = field(default_factory=lambda: RowStore(MOST_IN_MEMORY))
    is_read: bool = False  # whether all rows have been encoded
    content: int = 0  # a number made of what all rows say, whoever read them
    seen: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))  # hashes of the rows

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def each(self) -> int:
        """Rows of a shard in a batch."""
        return max(1, round(self.batch / SHARDS))

    @property
    def shards(self) -> np.ndarray:
        """The first row of each shard, and the end of the last one."""
        return np.asarray(self.n_rows * np.arange(SHARDS + 1) // SHARDS)

    @property
    def own(self) -> tuple[int, int]:
        """The first and the last row, exclusive, of a batch that are of this process; some are padding."""
        return self.devices.own_rows(SHARDS * self.each)

    def _range(self, is_alone: bool) -> tuple[int, int]:
        """The rows of the shards that this process has a part of; `is_alone`: and no process before it."""
        first, last = self.own
        begin, end = (-(-first // self.each) if is_alone else first // self.each), -(-last // self.each)
        return int(self.shards[min(begin, SHARDS)]), int(self.shards[min(end, SHARDS)])

    def read(
        self,
        readings: Sequence[RowReading],
        masked: Mapping[str, np.ndarray],
        on_epoch: Told = lambda record: None,
    ) -> None:
        """Read and encode every row; without the answers `masked` of the sample, [row of the sample] by question."""
        with parallel.together():
            hashes = self._read(readings, masked, on_epoch)
        for reading in readings:
            reading.agree()
        self.content = sum(parallel.told(self.content)) % 2**64
        self.seen = np.unique(np.concatenate([np.frombuffer(own, np.uint32) for own in parallel.exchanged(hashes)]))
        self.is_read = True

    def _read(self, readings: Sequence[RowReading], masked: Mapping[str, np.ndarray], on_epoch: Told) -> bytes:
        """Read the rows of this process; returns their hashes."""
        (begin, end), (alone, until) = self._range(False), self._range(True)
        hashes, start, schema = [np.zeros(0, np.uint32)], begin, readings[0].schema
        self.store.n_rows = begin  # others have the rows before
        for whole in self.source.tables(begin, end):
            with self.source.locating(whole, schema.row_names, start):
                stop = start + whole.n_rows
                weight, own = self._weight(schema, whole, start)
                part = whole if own is None else whole.take(own)
                rows = np.arange(start, stop) if own is None else start + own
                first, last = np.searchsorted(self.sample, (start, stop))
                places = np.searchsorted(rows, self.sample[first:last])
                hidden = {name: _scattered(lines[first:last], places, len(rows)) for name, lines in masked.items()}
                hidden = {name: lines for name, lines in hidden.items() if lines.any()}
                fields: dict[Key, np.ndarray] = {}
                for reading in readings:
                    blocks = reading.schema.compile(part)
                    fields |= reading.encode(blocks, hidden)
                    if reading is readings[0]:
                        number, answered = row_hashes(blocks.values())
                        hashes.append(np.unique(number[answered]))
                        self.content += _content(number, weight[rows - start], rows, (rows >= alone) & (rows < until))
                if own is not None:
                    fields = {key: _scattered(array, own, whole.n_rows) for key, array in fields.items()}
                self.store.add({**fields, WEIGHT: weight[:, None].astype(np.float32)})
            start = stop
            on_epoch({"stage": "reading all rows", "done": start - begin, "of": end - begin, "figure": ""})
        return np.unique(np.concatenate(hashes)).tobytes()

    def _weight(self, schema: Schema, part: Any, start: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The weights of the rows of a piece, and which of them count, if not all do."""
        weight = np.ones(part.n_rows) if self.weight is None else self.weight[start : start + part.n_rows]
        held = schema.weights(part)
        weight = weight if held is None else weight * held
        return weight, None if weight.all() else np.flatnonzero(weight)

    @cached_property
    def scale(self) -> float:
        """The mean weight of the rows."""
        weights = self.store.weights(*self._range(True))
        if not parallel.is_distributed():
            return float(np.mean(weights, dtype=np.float64))
        return float(sum(parallel.told(float(weights.sum(dtype=np.float64))))) / self.n_rows


def _content(number: np.ndarray, weight: np.ndarray, rows: np.ndarray, counted: np.ndarray) -> int:
    """A number made of the hashes, weights and positions of some rows; those of parts of a table are added up."""
    bits = weight.astype(np.float32).view(np.uint32).astype(np.uint64)
    own = (number.astype(np.uint64) << np.uint64(32) | bits) * (2 * rows + 1).astype(np.uint64)
    return int(own[counted].sum(dtype=np.uint64))


def _scattered(array: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Rows at their places among others, which are zero: they say nothing and have no weight."""
    found = np.zeros((n_rows, *array.shape[1:]), array.dtype)
    found[rows] = array
    return found


def sampled(source: RowSource, n: int, seed: int, allowed: np.ndarray | None) -> tuple[np.ndarray, Table]:
    """Positions of `n` random rows, and of rows with rare values, and these rows; of files, each process reads a part.

    As `RowSource.draw`, whatever the number of processes.
    """
    if not (parallel.is_distributed() and isinstance(source, Scan)):
        index = source.draw(n, seed, allowed)
        return index, source.take(index)
    parallel.same("files", repr((source.names, source.n_rows)))
    number, of = jax.process_index(), jax.process_count()
    with parallel.together():
        own = source.drawn_part(n, seed, allowed, source.n_rows * number // of, source.n_rows * (number + 1) // of)
    return source.drawn_of(parallel.exchanged(own), n, seed, allowed)


class Stream:
    """All rows of a table for one reading, as `course.fit` takes them: an epoch is a pool of rows.

    A pool has consecutive rows of every shard, in random order within it.
    """

    def __init__(self, whole: WholeTable, reading: RowReading, seed: int, unobserved: Unobserved):
        self._whole, self._reading, self._seed, self.devices = whole, reading, seed, whole.devices
        self._patterns = self.devices.everywhere(jax.device_put(reading.patterns(unobserved)))
        n_rows, self._shards, each, self._scale = whole.n_rows, whole.shards, whole.each, whole.scale
        longest = int(np.diff(self._shards).max())
        self.n_pools = max(1, round(n_rows / POOL))
        per_pool = -(-longest // self.n_pools)  # rows of a shard in a pool
        self._each, self._batches = each, -(-per_pool // each)
        self._per_pool = self._batches * each
        self.n_pools = -(-longest // self._per_pool)
        self.n_cells = n_rows * reading.schema.n_sites // self.n_pools  # of a pool
        self._pool, self._ahead = ThreadPoolExecutor(1), dict[int, Future[tuple[Coded, int]]]()

    def n_batches(self, cells: int) -> int:
        """Batches of a pool."""
        return self._batches

    def prepared(self, devices: parallel.Devices) -> Stream:
        return self

    @property
    def digest(self) -> str:
        """A fingerprint of the rows and their order."""
        return f"{self._whole.content} {self._reading.name} {self._seed} {self._each}"

    def epoch(
        self,
        number: int,
        key: PRNGKey,
        state: TrainState,
        layout: Layout,
        schedule: Schedule,
        plan: Plan,
        cells: int,
        work: float,
    ) -> tuple[TrainState, Info]:
        """One pass over a pool; the next one is made meanwhile."""
        made = self._ahead.pop(number, None) or self._pool.submit(self._made, number)
        coded, n_batches = made.result()
        self._ahead = {number + 1: self._pool.submit(self._made, number + 1)}
        rows = self._patterns, coded, np.int32(n_batches)
        how = layout, schedule, plan, self._reading.slots, SHARDS * self._each
        found: tuple[TrainState, Info] = trainer.pass_over.for_work(work)(key, state, *rows, *how)
        return found

    def _made(self, number: int) -> tuple[Coded, int]:
        """The rows of a pool on the devices, [batch, row], and the number of batches that have any."""
        first = number % self.n_pools * self._per_pool
        spans = [
            (min(begin + first, end), min(begin + first + self._per_pool, end))
            for begin, end in pairwise(self._shards.tolist())
        ]
        rng, (low, high) = np.random.default_rng([self._seed, number]), self._whole.own
        size, own = high - low, slice(low // self._each, -(-high // self._each))  # of a batch, what is here; shards
        # Row i of shard s, after its order is mixed, is in batch i // each, at place s · each + i % each.
        n_batches = -(-max(stop - start for start, stop in spans) // self._each)
        places = []
        for shard, (start, stop) in enumerate(spans):
            order = rng.permutation(stop - start)
            row = shard * self._each + order % self._each - low
            places.append(np.where((row >= 0) & (row < size), order // self._each * size + row, -1))
        at, parts, used = np.concatenate(places[own] or [np.zeros(0, int)]), [], 0
        by_record: dict[_Record, list[tuple[np.ndarray, np.ndarray]]] = {}
        for record, rows in self._whole.store.spans(spans[own]):
            where, used = at[used : used + len(rows)], used + len(rows)
            if where.size and where.min() < 0:  # rows of other processes
                rows, where = rows[where >= 0], where[where >= 0]
            by_record.setdefault(record, []).append((rows, where))
        for record, every in by_record.items():
            parts.append((record, *(np.concatenate(each) for each in zip(*every, strict=True))))
        flat = self._reading.coded(parts, self._batches * size, self._scale)  # type: ignore[arg-type]
        shaped = jax.tree.map(lambda leaf: leaf.reshape(self._batches, size, *leaf.shape[1:]), flat)
        return self.devices.batches(shaped, SHARDS * self._each), n_batches

    def close(self) -> None:
        """End the thread that makes pools."""
        self._pool.shutdown(cancel_futures=True)
