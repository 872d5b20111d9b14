"""Tables that are read in pieces, more rows than memory: `tb.scan`, and tables in memory by the same interface.

Idea: a source knows how many rows it has, and reads any range of them again whenever it is needed, in pieces that begin
at multiples of `PIECE` rows. Parquet files are read in place, row group by row group; whatever else has an Arrow stream
is written to a temporary Parquet file once, because a stream can be read only once and a query may change its order.
Guarantees the same pieces whatever the files and row groups are, and errors that name file, row group and row.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thurbo.errors import InfeasibleEvidence, SchemaError, ThurboError
from thurbo.table.columns.values import blanked, listing, suggestion
from thurbo.table.io.codebook import Codebook
from thurbo.table.io.frames import Table, as_table, frame
from thurbo.table.io.read_write import column_names, need, readable, reason

# Rows of a table from which a model is fitted by way of a sample, and of the sample: see docs/scaling.md.
LARGE, SAMPLE = 1 << 15, 20_000
PIECE = 1 << 14  # rows that are read and encoded at a time
ROWS_OF_GROUP = 1 << 16  # of a row group in files that are written here
POSITION = "thurbo row"  # column of the positions of rows in a whole table
MOST_DISTINCT = 1000  # different values of a column, each of which is to be in a sample


class RowSource(ABC):
    """Rows of a table that can be read in pieces, again and again, always in the same order."""

    names: tuple[str, ...]
    n_rows: int

    @abstractmethod
    def tables(self, start: int = 0, stop: int | None = None) -> Iterator[Table]:
        """The rows from `start` to `stop` in order: tables that end at multiples of `PIECE` rows."""

    @abstractmethod
    def mark(self, start: int, stop: int) -> str:
        """What the cells of some rows depend on, without reading them: the same text means the same cells."""

    def place(self, row: int) -> str | None:
        """Where a row is, beyond its label."""
        return None

    @contextmanager
    def locating(
        self, part: Table, names: Callable[[Table], np.ndarray], positions: int | np.ndarray = 0
    ) -> Iterator[None]:
        """Errors about cells of some rows are raised with the place of their row.

        `names` gives the labels of the rows; `positions` are those in the whole table, or that of the first one.
        """
        try:
            yield
        except (SchemaError, InfeasibleEvidence) as error:
            rows = [] if error.row is None else np.flatnonzero(names(part) == error.row).tolist()
            position = positions + np.arange(part.n_rows) if isinstance(positions, int) else positions
            place = self.place(int(position[rows[0]])) if rows else None
            if place is None:
                raise
            place = place if error.row == position[rows[0]] else f"{error.row} ({place})"
            raise type(error)(error.problem, row=place, column=error.column, remedy=error.remedy) from None

    @abstractmethod
    def take(self, index: np.ndarray) -> Table:
        """Some rows, in increasing order, as one table in memory; the labels of rows are those of the source."""

    def typical(self, n: int = SAMPLE, seed: int = 0) -> Table:
        """A sample from which types can be inferred: random rows, and each value of columns that have few."""
        return self.take(self.draw(n, seed))

    def draw(self, n: int, seed: int, allowed: np.ndarray | None = None) -> np.ndarray:
        """Positions of `n` random rows, and of the first row with each value that none of them has: increasing.

        Only of columns that have few different values: each label is in the sample, however rare. `allowed` [row] are
        the rows from which is drawn, all by default.
        """
        chosen = self._random(n, seed, allowed)
        n_allowed = self.n_rows if allowed is None else int(np.count_nonzero(allowed))
        return chosen if len(chosen) == n_allowed else np.union1d(chosen, _rare(self, chosen, allowed)[0])

    def _random(self, n: int, seed: int, allowed: np.ndarray | None = None) -> np.ndarray:
        """Positions of `n` random rows, or of all that are allowed: increasing."""
        places = np.arange(self.n_rows) if allowed is None else np.flatnonzero(allowed)
        return np.sort(np.random.default_rng(seed).permutation(places)[:n])


def _rare(
    source: RowSource,
    chosen: np.ndarray,
    allowed: np.ndarray | None = None,
    start: int = 0,
    stop: int | None = None,
    columns: Collection[str] | None = None,
) -> tuple[np.ndarray, list[str]]:
    """The first row with each value that none of the chosen rows has, among those from `start` to `stop`.

    Of columns with few values, and the names of these. Rows that are not `allowed` do not count.
    """
    names = [name for name in source.names if columns is None or name in columns]
    first: dict[str, dict[Any, int]] = {name: {} for name in names}  # the first row of each value
    sampled: dict[str, set[Any]] = {name: set() for name in names}
    for part in source.tables(start, stop):
        counts = np.ones(part.n_rows, bool) if allowed is None else allowed[start : start + part.n_rows]
        is_chosen = np.zeros(part.n_rows, bool)
        is_chosen[_within(chosen, start, start + part.n_rows) - start] = True
        for name in list(first):
            values, missing, _ = part.read(part.places[name])
            rows = np.flatnonzero(counts & ~missing)
            try:
                if values.dtype.kind in "iufb":
                    distinct, at = np.unique(values[rows], return_index=True)
                    own = zip(distinct.tolist(), rows[at].tolist(), strict=True)
                else:
                    own = zip(values[rows].tolist(), rows.tolist(), strict=True)
                for value, row in own:
                    first[name].setdefault(value, row + start)
                sampled[name].update(values[rows[is_chosen[rows]]].tolist())
                is_few = len(first[name]) <= MOST_DISTINCT
            except TypeError:  # lists have no hash, and are no labels
                is_few = False
            if not is_few:
                del first[name]
        start += part.n_rows
    rare = {row for name, rows in first.items() for value, row in rows.items() if value not in sampled[name]}
    return np.asarray(sorted(rare), np.int64), list(first)


def _within(index: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Those of some increasing positions that are from `start` to `stop`."""
    return index[np.searchsorted(index, start) : np.searchsorted(index, stop)]


class TableSource(RowSource):
    """A table in memory."""

    def __init__(self, table: Table):
        self.table, self.names, self.n_rows = table, table.names, table.n_rows

    def tables(self, start: int = 0, stop: int | None = None) -> Iterator[Table]:
        stop = self.n_rows if stop is None else stop
        while start < stop:
            end = min(stop, (start // PIECE + 1) * PIECE)
            yield self.table.part(start, end)
            start = end

    def mark(self, start: int, stop: int) -> str:
        digest, part = hashlib.sha256(), self.table.part(start, stop)
        for place in range(len(self.names)):
            values, missing, _ = part.read(place)
            digest.update(missing.tobytes())
            digest.update(repr(values.tolist()).encode() if values.dtype.kind not in "iufb" else values.tobytes())
        return digest.hexdigest()

    def take(self, index: np.ndarray) -> Table:
        return self.table.take(index)


class _RowGroup(NamedTuple):
    """A row group of a file, and its rows in the whole table."""

    file: int
    group: int
    start: int
    stop: int


class Scan(RowSource):
    """A table in Parquet files that is read in pieces: see `scan`.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    n_rows : int
        Number of rows of all files.
    """

    def __init__(self, files: Sequence[Any], titles: Sequence[str], columns: Sequence[str] | None = None) -> None:
        """`files` are paths, or pairs of a path and a pyarrow file system; `titles` are their names in messages."""
        self._files, self.titles = tuple(files), tuple(titles)
        self._groups: list[_RowGroup] = []
        self._stamps: list[str] = []
        start, found, self.book = 0, None, Codebook()
        for number, title in enumerate(self.titles):
            with readable(title):
                about = self._open(number)
                names = column_names(about.schema_arrow)
                if found is None:
                    found, self.book = names, Codebook.of_arrow(about.schema_arrow)
                elif set(found) - set(names):
                    gone = sorted(set(found) - set(names))[0]
                    problem = f'"{title}" does not have this column, which "{self.titles[0]}" has'
                    raise SchemaError(problem, column=gone, remedy="give files of one table, or columns that all have")
                for group in range(about.metadata.num_row_groups):
                    stop = start + about.metadata.row_group(group).num_rows
                    if stop > start:
                        self._groups.append(_RowGroup(number, group, start, stop))
                    start = stop
                self._stamps.append(_stamp(self._files[number], about))
        known = found or ()
        for name in columns or ():
            if name not in known:
                remedy = f"{suggestion(name, known)}the files have {listing(known)}"
                raise SchemaError("the files have no such column", column=name, remedy=remedy)
        self.names, self.n_rows = tuple(known if columns is None else columns), start
        self.book = self.book.only(self.names)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        files = f'"{self.titles[0]}"' if len(self.titles) == 1 else f"{len(self.titles)} files"
        return f"Scan of {self.n_rows:,} rows and {len(self.names)} columns: {files}, {len(self._groups)} row groups"

    def _open(self, number: int) -> Any:
        from pyarrow import parquet

        own = self._files[number]
        path, system = own if isinstance(own, tuple) else (own, None)
        return parquet.ParquetFile(path, filesystem=system, pre_buffer=False, buffer_size=1 << 20)

    def tables(self, start: int = 0, stop: int | None = None) -> Iterator[Table]:
        """The rows from `start` to `stop` in order: tables that end at multiples of `PIECE` rows."""
        stop = self.n_rows if stop is None else stop
        for arrow in _regrouped(self._batches(start, stop), PIECE, start):
            found = as_table(arrow.combine_chunks())
            yield replace(found, rows=np.arange(start, start + found.n_rows), book=self.book)
            start += found.n_rows

    def _batches(self, start: int, stop: int) -> Iterator[Any]:
        """Record batches of these rows, which are decoded as they are needed."""
        columns = list(self.names)
        own = [each for each in self._groups if each.start < stop and each.stop > start]
        for file, groups in groupby(own, key=lambda each: each.file):
            first, *others = groups
            at, numbers = first.start, [first.group, *(each.group for each in others)]
            with readable(self.titles[file]):
                for batch in self._open(file).iter_batches(PIECE, row_groups=numbers, columns=columns):
                    begin, end = max(start - at, 0), min(stop - at, batch.num_rows)
                    if end > begin:
                        yield batch.slice(begin, end - begin).select(columns)
                    at += batch.num_rows
                    if at >= stop:
                        break

    def read(self) -> Any:
        """The whole table, as a pyarrow Table."""
        return self._joined([part.native for part in self.tables()])

    def sample(self, n: int, random_state: int = 0) -> Any:
        """Some random rows in the order of the files, as a pyarrow Table.

        Parameters
        ----------
        n : int
            Number of rows; all rows if the table has fewer.
        random_state : int, default=0
            Seed.

        Returns
        -------
        pyarrow.Table
        """
        return self._rows(self._random(n, random_state))

    def _rows(self, index: np.ndarray, start: int = 0, stop: int | None = None) -> Any:
        """Some rows from `start` to `stop`, in increasing order, as a pyarrow Table."""
        parts = []
        for part in self.tables(start, stop):
            own = _within(index, start, start + part.n_rows)
            if len(own):
                parts.append(part.native.take(own - start))
            start += part.n_rows
        return self._joined(parts)

    def _joined(self, parts: Sequence[Any]) -> Any:
        import pyarrow as pa

        if not parts:
            return self._open(0).schema_arrow.empty_table().select(list(self.names))
        return pa.concat_tables(parts, promote_options="permissive")

    def take(self, index: np.ndarray) -> Table:
        """Some rows, in increasing order, as one table in memory."""
        return replace(as_table(self._rows(index).combine_chunks()), rows=index, book=self.book)

    def drawn_part(self, n: int, seed: int, allowed: np.ndarray | None, start: int, stop: int) -> bytes:
        """The rows from `start` to `stop` that `draw` may give, as an Arrow stream with their positions.

        Columns that have few different values among them are named in its metadata.
        """
        import pyarrow as pa

        chosen = self._random(n, seed, allowed)
        rare, few = _rare(self, chosen, allowed, start, stop)
        index = np.union1d(_within(chosen, start, stop), rare)
        rows = self._rows(index, start, stop)
        columns, about = {name: rows.column(name) for name in self.names}, {MARK: json.dumps(few).encode()}
        rows, sink = pa.table({**columns, POSITION: index}, metadata=about), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return bytes(sink.getvalue())

    def drawn_of(
        self, parts: Sequence[bytes], n: int, seed: int, allowed: np.ndarray | None
    ) -> tuple[np.ndarray, Table]:
        """What `draw` gives, and these rows, from the parts of all processes."""
        import pyarrow as pa

        found = [pa.ipc.open_stream(part).read_all() for part in parts]
        few = set(self.names).intersection(*(json.loads(each.schema.metadata[MARK]) for each in found))
        rows = pa.concat_tables((each.replace_schema_metadata() for each in found), promote_options="permissive")
        position, rows = rows.column(POSITION).to_numpy(), rows.drop_columns([POSITION]).combine_chunks()
        is_chosen = np.isin(position, self._random(n, seed, allowed))
        rare, _ = _rare(TableSource(replace(as_table(rows), book=self.book)), np.flatnonzero(is_chosen), columns=few)
        is_chosen[rare] = True
        table = as_table(rows.take(np.flatnonzero(is_chosen)).combine_chunks())
        return position[is_chosen], replace(table, rows=position[is_chosen], book=self.book)

    def place(self, row: int) -> str:
        """The file, the row group and the row in it, counted from 0."""
        own = next(each for each in self._groups if each.start <= row < each.stop)
        return f'{row - own.start} of row group {own.group} of "{self.titles[own.file]}"'

    def mark(self, start: int, stop: int) -> str:
        """What these rows depend on: names, sizes and times of the files, their row groups, and the columns."""
        own = [each for each in self._groups if each.start < stop and each.stop > start]
        files = [self._stamps[number] for number in sorted({each.file for each in own})]
        return hashlib.sha256(repr((self.names, start, stop, files, own)).encode()).hexdigest()


def _stamp(file: Any, about: Any) -> str:
    """What says whether a file has changed: its name, size and time, or what its footer says."""
    if isinstance(file, tuple):
        return f"{file[0]} {about.metadata.serialized_size} {about.metadata.num_rows}"
    status = os.stat(file)
    return f"{os.path.abspath(file)} {status.st_size} {status.st_mtime_ns}"


def scan(source: Any, *, columns: Sequence[str] | None = None) -> Scan:
    """A table that is read in pieces, where a frame goes: `fit`, `predict_proba`, `impute` and other queries by row.

    Parameters
    ----------
    source : path, list of paths, or object with an Arrow stream
        A .parquet file, a folder with such files, a pattern such as ``answers/*.parquet``, or a list of files: rows are
        in the order of the names. Also a pyarrow dataset, table or reader (or a function without arguments that returns
        one), a polars frame or lazy frame, a DuckDB relation, or whatever else offers an Arrow stream. Parquet files,
        and datasets of them, are read in place. All others are written to a temporary Parquet file first, once and in
        constant memory, since a stream can be read only once; it is removed with the `Scan`.
    columns : list of str, optional
        Columns to read; all by default.

    Returns
    -------
    Scan

    Raises
    ------
    ThurboError
        If there is no such file, if it cannot be read, or if pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in (1, 2):
    ...         path = tb.write({"fan": ["Yes", "No", None], "age": [31, 58, 44]}, f"{folder}/part-{part}.parquet")
    ...     table = tb.scan(f"{folder}/*.parquet")
    >>> table.n_rows, table.names
    (6, ('fan', 'age'))
    """
    need("pyarrow")
    if isinstance(source, Scan):
        return source
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if isinstance(source, (list, tuple)) and source and all(isinstance(each, (str, os.PathLike)) for each in source):
        paths = [path for each in source for path in _found(each)]
        return Scan(paths, paths, columns)
    dataset = _parquet_of(source)
    if dataset is not None:
        return Scan(dataset, [path for path, _ in dataset], columns)
    return _spooled(source, columns)


def looks_scanned(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder or a pattern, so that it is a table in several files, or a large Parquet file."""
    if not os.path.exists(path):
        return glob.has_magic(os.fspath(path))
    if os.path.isdir(path) or Path(path).suffix.lower() != ".parquet":
        return os.path.isdir(path)
    need("pyarrow")
    from pyarrow import parquet

    with readable(os.fspath(path)):
        return bool(parquet.read_metadata(path).num_rows > LARGE)


def _found(source: str | os.PathLike[str]) -> list[str]:
    """The Parquet files that a path means, in order."""
    text = os.fspath(source)
    if os.path.isdir(text):
        found = sorted(str(path) for path in Path(text).rglob("*.parquet"))
        if not found:
            problem = f'"{text}" is a directory without .parquet files'
            raise ThurboError(f"{problem}; give the name of a file, or write the table as Parquet")
        return found
    if os.path.exists(text):
        if not text.lower().endswith((".parquet", ".pq")):
            remedy = "read it with tb.read, or write it as Parquet"
            raise ThurboError(f'"{text}" is not a .parquet file, and only these are read in pieces; {remedy}')
        return [text]
    if glob.has_magic(text):
        found = sorted(glob.glob(text, recursive=True))
        if found:
            return [path for each in found for path in _found(each)]
        raise ThurboError(f'no file has a name like "{text}"; check the pattern')
    raise ThurboError(f'cannot read "{text}": there is no such file; check its name')


def _parquet_of(source: Any) -> list[tuple[str, Any]] | None:
    """The Parquet files of a pyarrow dataset with their file system; None of anything else."""
    if type(source).__module__.partition(".")[0] != "pyarrow" or not hasattr(source, "get_fragments"):
        return None
    fragments = list(source.get_fragments())
    is_plain = all(type(each).__name__ == "ParquetFileFragment" for each in fragments)
    # Columns that are in the names of folders are not in the files.
    has_all = is_plain and all(set(source.schema.names) <= set(each.physical_schema.names) for each in fragments)
    return [(each.path, each.filesystem) for each in fragments] if fragments and has_all else None


def _spooled(source: Any, columns: Sequence[str] | None) -> Scan:
    """A table with an Arrow stream, written to a temporary Parquet file that is removed with the result."""
    from pyarrow import parquet

    folder = tempfile.mkdtemp(prefix="thurbo-scan-")
    path, title = os.path.join(folder, "rows.parquet"), type(source).__name__
    try:
        if type(source).__module__.partition(".")[0] == "polars" and hasattr(source, "sink_parquet"):
            source.sink_parquet(path, row_group_size=ROWS_OF_GROUP, maintain_order=True)
        else:
            reader = _reader(source)
            with parquet.ParquetWriter(path, reader.schema, compression="zstd") as writer:
                for table in _regrouped(reader, ROWS_OF_GROUP):
                    writer.write_table(table, ROWS_OF_GROUP)
        found = Scan([path], [title], columns)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


def _reader(source: Any) -> Any:
    """A reader of record batches of anything that has an Arrow stream."""
    import pyarrow as pa

    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        source = source()
    if isinstance(source, pa.RecordBatchReader):  # through a C stream, errors of its batches would lose their type
        return source
    if isinstance(source, Mapping):
        source = {str(name): values for name, values in source.items()}
    if isinstance(source, (Mapping, pa.RecordBatch)):
        source = pa.table(source)
    if hasattr(source, "scanner"):  # a dataset
        return source.scanner(batch_size=PIECE, batch_readahead=2, fragment_readahead=1).to_reader()
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source)
    if hasattr(source, "fetch_record_batch"):  # an older DuckDB
        return source.fetch_record_batch(PIECE)
    problem = f"{type(source).__module__}.{type(source).__name__} is not a table that can be read in pieces"
    raise ThurboError(f"{problem}; give Parquet files, or an object with an Arrow stream")


def _regrouped(batches: Iterable[Any], size: int, start: int = 0) -> Iterator[Any]:
    """Record batches of the rows from `start` as tables that end at multiples of `size` rows."""
    import pyarrow as pa

    held: list[Any] = []
    for batch in batches:
        while batch.num_rows:
            space = size - start % size
            held.append(batch.slice(0, space))
            start, batch = start + held[-1].num_rows, batch.slice(space)
            if start % size == 0:
                yield pa.Table.from_batches(held)
                held = []
    if held:
        yield pa.Table.from_batches(held)


MARK = b"thurbo"  # key of the metadata of a file that says what it was computed from


def mark_of(path: Path) -> str:
    """What a file says that it was computed from; empty if it says nothing, or is no Parquet file."""
    from pyarrow import parquet

    try:
        return str((parquet.read_metadata(path).metadata or {}).get(MARK, b"").decode())
    except Exception:  # whatever is wrong with it, it is not what was asked for
        return ""


def write_tables(path: Path, tables: Iterable[Any], mark: str = "", numbers: Collection[str] = ()) -> None:
    """Write tables as one Parquet file, one below the other; columns have the types of the first one.

    Whole numbers in the columns `numbers` may have decimals further down.
    """
    import pyarrow as pa
    from pyarrow import parquet

    writer = None
    try:
        for table in tables:
            arrow = table if isinstance(table, pa.Table) else beside(as_table(table).names, as_table(table), {})
            if writer is None:
                types = arrow.schema.with_metadata({**(arrow.schema.metadata or {}), MARK: mark.encode()})
                for place, each in enumerate(types):
                    if pa.types.is_integer(each.type) and each.name in numbers:
                        types = types.set(place, pa.field(each.name, pa.float64()))
                writer = parquet.ParquetWriter(path, types)
            writer.write_table(arrow.select(types.names).cast(types))
    except (pa.ArrowException, ValueError, KeyError) as error:
        if isinstance(error, ThurboError):
            raise
        problem = f"the results of two pieces of the table have different types: {reason(error)}"
        raise ThurboError(problem) from None
    finally:
        if writer is not None:
            writer.close()


def beside(names: Sequence[str], source: Table, columns: Mapping[str, np.ndarray]) -> Any:
    """Columns as an Arrow table, with some columns of a table in front."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for name in filter(source.__contains__, names):
        if isinstance(source.native, pa.Table):
            found[name] = source.native.column(name)
        else:
            cells = source.cells(name)
            found[name] = pa.array(blanked(cells.values, cells.missing).tolist())
    added = frame("pyarrow", columns)
    return pa.table({**found, **{name: added.column(name) for name in added.column_names}})
