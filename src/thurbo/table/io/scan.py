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
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thurbo.errors import InfeasibleEvidence, SchemaError, ThurboError
from thurbo.table.columns.values import blanked, listing, suggestion
from thurbo.table.io.codebook import KEY, Codebook
from thurbo.table.io.frames import Table, as_table, frame
from thurbo.table.io.read_write import need

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
    kind: str  # library of the table

    @abstractmethod
    def tables(self, start: int = 0, stop: int | None = None, columns: Sequence[str] | None = None) -> Iterator[Table]:
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
            rows: Any = [] if error.row is None else np.flatnonzero(names(part) == error.row)
            if not len(rows):
                raise
            row = int(rows[0] + positions if isinstance(positions, int) else positions[rows[0]])
            place = self.place(row)
            if place is None:
                raise
            place = place if error.row == row else f"{error.row} ({place})"
            raise type(error)(error.problem, row=place, column=error.column, remedy=error.remedy) from None

    def typical(self, n: int = SAMPLE, seed: int = 0) -> Table:
        """A sample from which types can be inferred: random rows, and each value of columns that have few."""
        return self.take(self.draw(n, seed))

    def take(self, index: np.ndarray) -> Table:
        """Some rows, in increasing order, as one table; the labels of rows are those of the source."""
        parts = [part.take(own) for part, own in self._with_rows(index)]
        return joined(parts)

    def _with_rows(
        self, index: np.ndarray, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Table, np.ndarray]]:
        """The pieces that have some of these rows, and their positions in each."""
        for part in self.tables(start, stop):
            own = index[np.searchsorted(index, start) : np.searchsorted(index, start + part.n_rows)]
            if len(own):
                yield part, own - start
            start += part.n_rows

    def draw(self, n: int, seed: int, allowed: np.ndarray | None = None) -> np.ndarray:
        """Positions of `n` random rows, and of the first row with each value that none of them has: increasing.

        Only of columns that have few different values: each label is in the sample, however rare. `allowed` [row] are
        the rows from which is drawn, all by default.
        """
        chosen, is_all = self._random(n, seed, allowed)
        return chosen if is_all else np.union1d(chosen, _rare(self, chosen, allowed)[0])

    def _random(self, n: int, seed: int, allowed: np.ndarray | None) -> tuple[np.ndarray, bool]:
        """Positions of `n` random rows, increasing, and whether these are all that are allowed."""
        places = np.arange(self.n_rows) if allowed is None else np.flatnonzero(allowed)
        rng = np.random.default_rng(seed)
        return (places, True) if n >= len(places) else (np.sort(rng.permutation(places)[:n]), False)


def _rare(
    source: RowSource,
    chosen: np.ndarray,
    allowed: np.ndarray | None = None,
    start: int = 0,
    stop: int | None = None,
    columns: Collection[str] | None = None,
) -> tuple[np.ndarray, list[str]]:
    """The first row with each value that none of the chosen rows has, among those from `start` to `stop`.

    Of columns with few values, and the names of these.
    """
    seen = {place: _Values() for place, name in enumerate(source.names) if columns is None or name in columns}
    for part in source.tables(start, stop):
        own = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, start + part.n_rows)] - start
        is_allowed = None if allowed is None else allowed[start : start + part.n_rows]
        gone = [place for place, values in seen.items() if not values.take(part, place, own, is_allowed, start)]
        seen = {place: values for place, values in seen.items() if place not in gone}
        start += part.n_rows
    rare = {row for values in seen.values() for row in values.rare}
    return np.asarray(sorted(rare), np.int64), [source.names[place] for place in seen]


class _Values:
    """The different values of a column, the first row of each, and which of them the sample has."""

    def __init__(self) -> None:
        self.first: dict[Any, int] = {}
        self.sampled: set[Any] = set()
        self.known: np.ndarray | None = None  # the same as sorted numbers

    @property
    def rare(self) -> list[int]:
        """The first rows of values that the sample has not."""
        return [row for value, row in self.first.items() if value not in self.sampled]

    def take(self, part: Table, place: int, sample: np.ndarray, allowed: np.ndarray | None, start: int) -> bool:
        """Add the values of a piece, `sample` rows of which are in the sample; False if there are too many, or lists.

        Rows that are not `allowed` do not count.
        """
        values, missing, _ = part.read(place)
        known = ~missing if allowed is None else ~missing & allowed
        try:
            if values.dtype.kind in "iufb":
                self.sampled.update(np.unique(values[sample][known[sample]]).tolist())
                rows = np.flatnonzero(known if self.known is None else known & ~np.isin(values, self.known))
                fresh, at = np.unique(values[rows], return_index=True)
                if len(fresh):
                    self.first.update(zip(fresh.tolist(), (rows[at] + start).tolist(), strict=True))
                    self.known = np.asarray(sorted(self.first))
            else:
                self.sampled.update(values[sample][known[sample]].tolist())
                rows = np.flatnonzero(known)
                for row, value in zip(rows.tolist(), values[rows].tolist(), strict=True):
                    if value not in self.first:
                        self.first[value] = row + start
                        if len(self.first) > MOST_DISTINCT:
                            return False
        except TypeError:  # lists have no hash, and are no labels
            return False
        return len(self.first) <= MOST_DISTINCT


def joined(parts: Sequence[Table]) -> Table:
    """Tables of one source, one below the other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]

    def read(place: int) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...] | None]:
        values, missing, levels = zip(*(part.read(place) for part in parts), strict=True)
        kinds = {each.dtype.kind for each in values}
        # Numbers and texts side by side would all become texts.
        own = values if len(kinds) == 1 or kinds <= set("iuf") else [each.astype(object) for each in values]
        return np.concatenate(own), np.concatenate(missing), levels[0]

    n_rows, rows = sum(part.n_rows for part in parts), np.concatenate([part.rows for part in parts])
    return replace(first, n_rows=n_rows, rows=rows, read=read, native=None)


class TableSource(RowSource):
    """A table in memory."""

    def __init__(self, table: Table):
        self.table, self.names, self.n_rows, self.kind = table, table.names, table.n_rows, table.kind

    def tables(self, start: int = 0, stop: int | None = None, columns: Sequence[str] | None = None) -> Iterator[Table]:
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
    """A row group of a file: its first row in the whole table, and its number of rows."""

    file: int
    group: int
    start: int
    n_rows: int

    @property
    def stop(self) -> int:
        return self.start + self.n_rows


class Scan(RowSource):
    """A table in Parquet files that is read in pieces: see `scan`.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    n_rows : int
        Number of rows of all files.
    """

    kind = "pyarrow"

    def __init__(self, files: Sequence[Any], titles: Sequence[str], columns: Sequence[str] | None = None) -> None:
        """`files` are paths, or pairs of a path and a pyarrow file system; `titles` are their names in messages."""
        self._files, self.titles, self._folder = tuple(files), tuple(titles), None
        self._groups: list[_RowGroup] = []
        self._stamps: list[str] = []
        start, found, self.book = 0, None, Codebook()
        for number, title in enumerate(self.titles):
            with _readable(title):
                about = self._open(number)
                held = about.schema_arrow
                metadata, names = held.metadata or {}, _columns_of(held)
                if found is None:
                    found, self.book = names, Codebook.from_text(metadata.get(KEY.encode()))
                elif set(found) - set(names):
                    gone = sorted(set(found) - set(names))[0]
                    problem = f'"{title}" does not have this column, which "{self.titles[0]}" has'
                    raise SchemaError(problem, column=gone, remedy="give files of one table, or columns that all have")
                for group in range(about.metadata.num_row_groups):
                    n_rows = about.metadata.row_group(group).num_rows
                    if n_rows:
                        self._groups.append(_RowGroup(number, group, start, n_rows))
                        start += n_rows
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

    def tables(self, start: int = 0, stop: int | None = None, columns: Sequence[str] | None = None) -> Iterator[Table]:
        """The rows from `start` to `stop` in order: tables that end at multiples of `PIECE` rows."""
        import pyarrow as pa

        stop, held, n_held = self.n_rows if stop is None else stop, list[Any](), 0
        wanted = list(self.names if columns is None else columns)
        for batch in self._batches(start, stop, wanted):
            while batch.num_rows:
                space = min(stop, (start // PIECE + 1) * PIECE) - start - n_held
                own, batch = batch.slice(0, space), batch.slice(space)
                held.append(own)
                n_held += own.num_rows
                if n_held and (own.num_rows == space):
                    yield self._table(pa.Table.from_batches(held), start)
                    start, held, n_held = start + n_held, [], 0
        if held:
            yield self._table(pa.Table.from_batches(held), start)

    def _table(self, arrow: Any, start: int) -> Table:
        found = as_table(arrow.combine_chunks())
        return replace(found, rows=np.arange(start, start + found.n_rows), book=self.book)

    def _batches(self, start: int, stop: int, columns: list[str]) -> Iterator[Any]:
        """Record batches of these rows, which are decoded as they are needed."""
        opened: tuple[int, Any] = -1, None
        for each in self._groups:
            if each.stop <= start or each.start >= stop:
                continue
            with _readable(self.titles[each.file]):
                if opened[0] != each.file:
                    opened = each.file, self._open(each.file)
                at = each.start
                for batch in opened[1].iter_batches(PIECE, row_groups=[each.group], columns=columns):
                    first, last = max(start - at, 0), min(stop - at, batch.num_rows)
                    if last > first:
                        yield batch.slice(first, last - first).select(columns)
                    at += batch.num_rows
                    if at >= stop:
                        break

    def read(self) -> Any:
        """The whole table, as a pyarrow Table."""
        return self._native(self.tables())

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
        rng = np.random.default_rng(random_state)
        index = np.sort(rng.permutation(self.n_rows)[:n])
        return self._native(replace(p, native=p.native.take(own)) for p, own in self._with_rows(index))

    def _native(self, parts: Iterator[Table]) -> Any:
        import pyarrow as pa

        found = [part.native for part in parts]
        if not found:
            return self._open(0).schema_arrow.empty_table().select(list(self.names))
        return pa.concat_tables(found, promote_options="permissive")

    def take(self, index: np.ndarray) -> Table:
        """Some rows, in increasing order, as one table in memory."""
        arrow = self._native(replace(p, native=p.native.take(own)) for p, own in self._with_rows(index))
        return replace(as_table(arrow.combine_chunks()), rows=index, book=self.book)

    def drawn_part(self, n: int, seed: int, allowed: np.ndarray | None, start: int, stop: int) -> bytes:
        """The rows from `start` to `stop` that `draw` may give, as an Arrow stream with their positions.

        Columns that have few different values among them are named in its metadata.
        """
        import pyarrow as pa

        chosen, is_all = self._random(n, seed, allowed)
        own = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, stop)]
        rare, few = (own[:0], self.names) if is_all else _rare(self, chosen, allowed, start, stop)
        index = np.union1d(own, rare)
        rows = self._native(replace(p, native=p.native.take(its)) for p, its in self._with_rows(index, start, stop))
        columns, about = {name: rows.column(name) for name in self.names}, {MARK: json.dumps(list(few)).encode()}
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
        is_chosen = np.isin(position, self._random(n, seed, allowed)[0])
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
        groups = [(each.group, each.start, each.n_rows) for each in own]
        return hashlib.sha256(repr((self.names, start, stop, files, groups)).encode()).hexdigest()


def _stamp(file: Any, about: Any) -> str:
    """What says whether a file has changed: its name, size and time, or what its footer says."""
    if isinstance(file, tuple):
        return f"{file[0]} {about.metadata.serialized_size} {about.metadata.num_rows}"
    status = os.stat(file)
    return f"{os.path.abspath(file)} {status.st_size} {status.st_mtime_ns}"


def _columns_of(schema: Any) -> list[str]:
    """Names of the columns of an Arrow schema, without the index of a pandas frame."""
    about = schema.pandas_metadata or {}
    index = {each for each in about.get("index_columns", ()) if isinstance(each, str)}
    names = [name for name in schema.names if name not in index]
    for name in {name for name in names if names.count(name) > 1}:
        raise SchemaError("more than one column has this name", column=name, remedy="rename the others")
    return names


@contextmanager
def _readable(title: str) -> Iterator[None]:
    """Errors of Arrow about a file, in one sentence."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ThurboError(f'cannot read "{title}": {reason}; it may be truncated: copy or write it again') from None


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
        return _of_files(_found(source), columns)
    if isinstance(source, (list, tuple)) and source and all(isinstance(each, (str, os.PathLike)) for each in source):
        return _of_files([path for each in source for path in _found(each)], columns)
    dataset = _parquet_of(source)
    if dataset is not None:
        return Scan(dataset, [path for path, _ in dataset], columns)
    return _spooled(source, columns)


def looks_scanned(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder or a pattern, so that it is a table in several files, or a large Parquet file."""
    if os.path.isdir(path) or (glob.has_magic(os.fspath(path)) and not os.path.exists(path)):
        return True
    if not os.path.exists(path) or Path(path).suffix.lower() != ".parquet":
        return False
    need("pyarrow")
    from pyarrow import parquet

    with _readable(os.fspath(path)):
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


def _of_files(paths: Sequence[str], columns: Sequence[str] | None) -> Scan:
    return Scan(paths, paths, columns)


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
    folder = tempfile.mkdtemp(prefix="thurbo-scan-")
    path, title = os.path.join(folder, "rows.parquet"), type(source).__name__
    try:
        if type(source).__module__.partition(".")[0] == "polars" and hasattr(source, "sink_parquet"):
            source.sink_parquet(path, row_group_size=ROWS_OF_GROUP, maintain_order=True)
        else:
            _write_stream(_reader(source), path)
        found = Scan([path], [title], columns)
    except BaseException:
        _remove(folder)
        raise
    weakref.finalize(found, _remove, folder)
    return found


def _reader(source: Any) -> Any:
    """A reader of record batches of anything that has an Arrow stream."""
    import pyarrow as pa

    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        source = source()
    if isinstance(source, pa.RecordBatchReader):
        return source
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, Mapping):
        source = pa.table({str(name): values for name, values in source.items()})
    if hasattr(source, "scanner"):  # a dataset
        return source.scanner(batch_size=PIECE, batch_readahead=2, fragment_readahead=1).to_reader()
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source)
    if hasattr(source, "fetch_record_batch"):  # an older DuckDB
        return source.fetch_record_batch(PIECE)
    problem = f"{type(source).__module__}.{type(source).__name__} is not a table that can be read in pieces"
    raise ThurboError(f"{problem}; give Parquet files, or an object with an Arrow stream")


def _write_stream(reader: Any, path: str) -> None:
    """All record batches as row groups of one size."""
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        held, n_held = list[Any](), 0
        for batch in reader:
            while batch.num_rows:
                own, batch = batch.slice(0, ROWS_OF_GROUP - n_held), batch.slice(ROWS_OF_GROUP - n_held)
                held.append(own)
                n_held += own.num_rows
                if n_held == ROWS_OF_GROUP:
                    writer.write_table(pa.Table.from_batches(held), ROWS_OF_GROUP)
                    held, n_held = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held), ROWS_OF_GROUP)


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


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
            arrow = table if isinstance(table, pa.Table) else _arrow(as_table(table))
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
        reason = " ".join(str(error).split()).rstrip(".")
        raise ThurboError(f"the results of two pieces of the table have different types: {reason}") from None
    finally:
        if writer is not None:
            writer.close()


def beside(names: Sequence[str], source: Table, columns: Mapping[str, np.ndarray]) -> Any:
    """Columns as an Arrow table, with some columns of a table in front."""
    import pyarrow as pa

    own, found = {name: _column(source, name) for name in names if name in source}, frame("pyarrow", columns)
    return pa.table({**own, **{name: found.column(name) for name in found.column_names}})


def _arrow(source: Table) -> Any:
    """A table of any library as an Arrow table."""
    import pyarrow as pa

    return pa.table({name: _column(source, name) for name in source.names})


def _column(source: Table, name: str) -> Any:
    """A column as Arrow has it."""
    import pyarrow as pa

    if isinstance(source.native, pa.Table):
        return source.native.column(name)
    cells = source.cells(name)
    return pa.array(blanked(cells.values, cells.missing).tolist())
