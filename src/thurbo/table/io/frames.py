"""`Table`: one record for pandas, polars, pyarrow, NumPy arrays and dicts; and new tables in the library of the input.

Idea: `as_table` reads any of them through narwhals as named columns of cells, each column only when it is needed;
`like` builds a table like another one, `replace_cells` fills cells of a copy, `frame` builds from scratch.
Guarantees that None, NaN, NaT, NA and null all mean "missing", and that no other cell changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import BoolArray, Cells, Listed
from thurbo.table.columns.column import Column
from thurbo.table.columns.statements import Interval
from thurbo.table.columns.values import listing, suggestion
from thurbo.table.io.codebook import Codebook

MissingColumns = Literal["error", "ignore"]
KEPT_CELLS = 2_000_000  # a table of so many cells keeps what was read: a query reads it once for all encodings
# One column as read: values, missing mask, and the ordered categories of its dtype, if any.
_Column = tuple[NDArray[Any], BoolArray, tuple[Any, ...] | None]


@dataclass(frozen=True, repr=False)
class Table:
    """A table of any library as named columns of cells; each column is read when it is first needed."""

    names: tuple[str, ...]
    n_rows: int
    rows: NDArray[Any]  # [row] labels for messages: the pandas index, or positions from 0
    kind: str
    native: Any
    read: Callable[[int], _Column]  # one column: `_read_series` or `read_array`, chosen by `as_table`
    book: Codebook = field(default_factory=Codebook)  # labels and missing codes of the file that it came from
    lists: Mapping[str, Listed] = field(default_factory=dict)  # columns whose cells are lists of items, see long.py
    owner: str | None = None  # the column with the row identifiers, if known
    declared: Mapping[str, Column] = field(default_factory=dict)  # types of columns that are known, see long.py
    _kept: dict[int, _Column] = field(default_factory=dict, init=False)  # columns that were read, by position

    def __repr__(self) -> str:
        sizes = {name: f" ({len(own.which):,} entries of {len(own.items):,} items)" for name, own in self.lists.items()}
        return f"Table of {self.n_rows:,} rows: {', '.join(name + sizes.get(name, '') for name in self.names)}"

    @cached_property
    def places(self) -> dict[str, int]:
        """Position of each column."""
        return {name: place for place, name in enumerate(self.names)}

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def cells(self, name: str) -> Cells:
        """The cells of one column."""
        if name not in self.places:
            remedy = f"{suggestion(name, self.names)}the table has {len(self.names)} other columns"
            raise SchemaError("the table has no such column", column=name, remedy=remedy)
        place = self.places[name]
        found = self._kept.get(place) or self.read(place)
        if self.n_rows * len(self.names) <= KEPT_CELLS:
            self._kept[place] = found
        values, missing, ordered_levels = found
        return Cells(name, values, missing, self.rows, ordered_levels, listed=self.lists.get(name))

    def answers(self, columns: Mapping[str, Column], name: str, missing_columns: MissingColumns = "error") -> Cells:
        """The cells of a question and of the table columns it consists of; declared missing values count as missing."""
        return columns[name].answered(self.gathered(columns, name, missing_columns))

    def gathered(self, columns: Mapping[str, Column], name: str, missing_columns: MissingColumns = "error") -> Cells:
        """The cells of a question and of the table columns it consists of, as they are in the table."""
        wanted = columns[name].source_columns(name)
        absent = [each for each in wanted if each not in self]
        has_own_cells = name in self and name not in wanted
        if absent and missing_columns == "error" and not has_own_cells:
            left = [other for other in self.names if other not in columns]
            remedy = f"{suggestion(absent[0], left or self.names)}add it, with empty cells if its answers are not known"
            remedy += f"; the table has {listing(self.names)}"
            needs = "the schema has this column" if wanted == (name,) else f'"{name}" needs this column'
            raise SchemaError(f"{needs}, but the table does not have it", column=absent[0], remedy=remedy)
        if wanted == (name,):
            return self.cells(name)
        nothing = Cells(name, np.full(self.n_rows, None, object), np.ones(self.n_rows, bool), self.rows)
        parts = {each: self.cells(each) for each in wanted if each in self}
        return replace(self.cells(name) if name in self else nothing, parts=parts)

    def part(self, start: int, stop: int) -> Table:
        """The rows from `start` to `stop`, of which only these are read."""
        if start == 0 and stop >= self.n_rows:
            return self
        if self.native is None or self.lists or self.kind not in ("pandas", "polars", "pyarrow", "numpy", "dict"):
            return self.take(np.arange(start, stop))
        if self.kind == "dict":
            native: Any = {name: cells[start:stop] for name, cells in self.native.items()}
        elif self.kind == "pandas":
            native = self.native.iloc[start:stop]
        else:
            native = self.native[start:stop]
        found = as_table(native, names=self.names if self.kind == "numpy" else None)
        return replace(found, rows=np.asarray(self.rows)[start:stop], book=self.book, declared=self.declared)

    def take(self, rows: NDArray[Any]) -> Table:
        """Some rows of the table, in this order; they may repeat, and keep their labels.

        A column that has numbers only in these rows is a column of numbers. Lists of a long table lose items that none
        of the rows lists; those of a sparse matrix keep its columns.
        """

        def read(place: int) -> _Column:
            values, missing, levels = self.read(place)
            values, missing = values[rows], missing[rows]
            return _narrowed(values, missing) if values.dtype.kind == "O" else values, missing, levels

        lists = {name: listed.take(rows, used=self.owner is not None) for name, listed in self.lists.items()}
        return replace(self, n_rows=len(rows), rows=np.asarray(self.rows)[rows], read=read, lists=lists, native=None)


def library_of(X: Any) -> str:
    """The library of a table: "pandas", "polars", "pyarrow", "scipy", "numpy", "dict" or "other"."""
    if isinstance(X, Table):
        return X.kind
    if isinstance(X, Mapping):
        return "dict"
    if isinstance(X, (np.ndarray, list, tuple)):
        return "numpy"
    # By module name, because isinstance would have to import the library.
    homes = {base.__module__.partition(".")[0] for base in type(X).__mro__}
    return next((name for name in ("pandas", "polars", "pyarrow", "scipy") if name in homes), "other")


def as_table(X: Any, names: Sequence[str] | None = None) -> Table:
    """Read pandas, polars, a pyarrow Table, a 2-D array, a dict of columns or a list of rows.

    `names` are the column names of arrays and lists, by default x0, x1, ...; ignored for tables with column names.
    """
    if isinstance(X, Table):
        return X
    library = library_of(X)
    if library == "other" and hasattr(X, "__array__") and not hasattr(X, "columns"):
        X, library = np.asarray(X), "numpy"  # an array of another library
    if library == "scipy":
        from thurbo.table.io.long import from_sparse

        return from_sparse(X)
    if library == "numpy":
        return _from_array(X, names)
    if library == "dict":
        return _from_dict(X)
    if library == "pandas":
        if getattr(X, "ndim", None) != 2:
            problem = f"a pandas {type(X).__name__} is not a table"
            raise SchemaError(problem, remedy="pass a DataFrame, for instance series.to_frame()")
        texts, rows = _checked(list(X.columns)), X.index.to_numpy()
        return Table(texts, len(X), rows, library, X, lambda j: _read_series(X.iloc[:, j]), Codebook.of(X))
    import narwhals as nw

    if library == "pyarrow" and hasattr(X, "column_names"):
        _checked(X.column_names)
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        remedy = "pass pandas, polars, pyarrow, a 2-D array or a dict of columns"
        remedy = "call .collect() first, or use tb.scan" if hasattr(X, "collect") else remedy
        remedy = "give rows of it that fit in memory, for instance .sample(20_000)" if hasattr(X, "tables") else remedy
        problem = f"{type(X).__module__}.{type(X).__name__} is not a supported table type"
        raise SchemaError(problem, remedy=remedy) from None
    texts, rows = _checked(frame.columns), np.arange(len(frame))
    return Table(texts, len(frame), rows, library, X, lambda j: _read_series(frame.get_column(texts[j])))


def _checked(names: Sequence[Any]) -> tuple[str, ...]:
    texts = [str(name) for name in names]
    for name, count in Counter(texts).items():
        if count > 1:
            raise SchemaError(f"{count} columns have this name", column=name, remedy="rename the others")
    return tuple(texts)


def _from_dict(X: Mapping[Any, Any]) -> Table:
    names, columns = _checked(list(X)), list[NDArray[Any]]()
    for name, values in zip(names, X.values(), strict=True):
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise SchemaError("it is a single value, not a list of cells", column=name, remedy="give one cell per row")
        array = values.to_numpy() if hasattr(values, "to_numpy") else values
        if not isinstance(array, np.ndarray):
            array = np.fromiter(values, object, len(values))  # cell by cell: a cell may be a list
        if array.ndim != 1:
            raise SchemaError(f"it has {array.ndim} dimensions", column=name, remedy="give one cell per row")
        columns.append(array)
        if len(array) != len(columns[0]):
            problem = f'it has {len(array)} cells and "{names[0]}" has {len(columns[0])}'
            raise SchemaError(problem, column=name, remedy="give all columns the same length")
    n_rows = len(columns[0]) if columns else 0
    return Table(names, n_rows, np.arange(n_rows), "dict", X, lambda j: read_array(columns[j]))


def _from_array(X: Any, names: Sequence[str] | None) -> Table:
    array = X if isinstance(X, np.ndarray) else rows_to_array(X)
    if array.ndim != 2:
        # The message that scikit-learn's check_estimator expects.
        remedy = "Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if one row"
        raise SchemaError(f"Expected 2D array, got {array.ndim}D array instead", remedy=remedy)
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported", remedy="give real and imaginary parts as two columns")
    if names is not None and len(names) != array.shape[1]:
        problem = f"{len(names)} names were given for {array.shape[1]} columns"
        raise SchemaError(problem, remedy="give one name per column")
    texts = _checked(names if names is not None else [f"x{j}" for j in range(array.shape[1])])
    return Table(texts, len(array), np.arange(len(array)), "numpy", X, lambda j: read_array(array[:, j]))


def rows_to_array(X: Sequence[Any]) -> NDArray[Any]:
    """Rows as an object array; np.array([1, "a"]) would convert the number to text."""
    if not all(isinstance(row, (list, tuple, np.ndarray)) for row in X):
        return np.empty(len(X), object)
    array = np.empty((len(X), len(X[0]) if len(X) else 0), object)
    for position, row in enumerate(X):
        if len(row) != array.shape[1]:
            problem = f"it has {len(row)} cells and row 0 has {array.shape[1]}"
            raise SchemaError(problem, row=position, remedy="give rows of one length")
        array[position, :] = row if isinstance(row, np.ndarray) else np.fromiter(row, object, len(row))
    return array


def _is_missing(value: Any) -> bool:
    if value is None or isinstance(value, (float, np.floating, np.datetime64, np.timedelta64)):
        return value is None or bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def read_array(array: NDArray[Any]) -> _Column:
    missing, values = np.array(np.ma.getmaskarray(array)), np.asarray(array)
    if values.dtype.kind == "f":
        missing |= np.isnan(values)
    elif values.dtype.kind in "mM":
        missing |= np.isnat(values)
    elif values.dtype.kind in "OT":
        missing |= np.fromiter(map(_is_missing, values.tolist()), bool, len(values))
        values = _narrowed(values, missing)
    return values, missing, None


def _narrowed(values: NDArray[Any], missing: BoolArray) -> NDArray[Any]:
    """An object array that holds only numbers or only booleans, converted to the matching dtype."""
    types = set(map(type, values[~missing].tolist()))
    if types and types <= {bool, np.bool_}:
        return values if missing.any() else values.astype(bool)
    if not types or not all(issubclass(each, (int, float, np.number)) for each in types) or bool in types:
        return values
    whole = all(issubclass(each, (int, np.integer)) for each in types) and not missing.any()
    try:
        return values.astype(np.int64) if whole else np.where(missing, np.nan, values).astype(np.float64)
    except (OverflowError, TypeError):
        return values  # numbers too large, or complex: for the column to refuse by name


def _read_series(native: Any) -> _Column:
    """A column of any library; pd.Interval cells (also from pd.cut) become interval statements about a number."""
    kind = native.dtype if library_of(native) == "pandas" else None
    if isinstance(kind, np.dtype) or type(kind).__name__ == "StringDtype":
        return read_array(native.to_numpy())  # as below, and sooner: most of the time of a query about one row
    import narwhals as nw

    held = getattr(getattr(native, "cat", None), "categories", native)
    if type(getattr(held, "dtype", None)).__name__ == "IntervalDtype":
        gone, ends = native.isna().to_numpy(), lambda cell: (cell.left, cell.right)
        cells = Cells("", native.astype(object).to_numpy(), gone, gone)
        said = cells.mapped(lambda cell: Interval(*(float(end) if np.isfinite(end) else None for end in ends(cell))))
        return said.values, gone, None
    series = nw.from_native(native, series_only=True)
    missing = np.array(series.is_null().to_numpy(), dtype=bool)
    values = series.to_numpy()
    has_structs = isinstance(series.dtype, nw.List) and isinstance(series.dtype.inner, nw.Struct)
    if values.ndim != 1 or has_structs:  # fixed-size arrays and structs would become a 2-D array
        values = np.fromiter(series.to_list(), object, len(series))
    if values.dtype.kind == "f" or series.dtype == nw.Object:
        # Object columns can hold NaN or NA that the library does not count as null, or only numbers.
        values, gone, _ = read_array(values)
        missing |= gone
    ordered = tuple(series.dtype.categories) if isinstance(series.dtype, nw.Enum) else None
    arrow = series.to_native()
    if getattr(getattr(arrow, "type", None), "ordered", False) and arrow.num_chunks:
        ordered = tuple(arrow.unify_dictionaries().chunk(0).dictionary.to_pylist())
    return values, missing, ordered


def like(other: Any, data: Mapping[str, NDArray[Any]], rows: Any = None) -> Any:
    """A new table in the library of `other`; columns that `other` also has keep its dtype where no value would change.

    A pandas frame takes its index from `rows`, or from `other` if the number of rows is the same. An array gives a 2-D
    array: numeric or boolean if all columns are, else of dtype object.
    """
    source = as_table(other)
    columns = {name: np.asarray(values) for name, values in data.items()}
    if source.kind == "dict":
        # A sparse matrix is one column of lists without a name: its predictions are one cell {item: score} per row.
        is_sparse = not source.native and len(source.names) == 1 and len(columns) == 1
        return next(iter(columns.values())) if is_sparse else columns
    if source.kind == "numpy":
        stack = list(columns.values())
        if any(column.dtype.kind not in "biuf" for column in stack):
            stack = [column.astype(object) for column in stack]
        return np.stack(stack, axis=1) if stack else np.empty((source.n_rows, 0))
    if source.kind == "pandas":
        import pandas as pd

        frame = pd.DataFrame(columns, index=None if columns else source.native.index)
        for name in columns:
            if name in source and name not in source.lists:  # lists of a long table are no column of its frame
                frame[name] = _cast_pandas(frame[name], source.native.iloc[:, source.places[name]].dtype)
        if rows is not None:
            frame.index = pd.Index(rows)
        elif len(frame) == source.n_rows:
            frame.index = source.native.index
        frame.attrs = dict(source.native.attrs)  # holds the code book of the file, which `tb.write` needs
        return frame
    import narwhals as nw

    own = nw.from_native(source.native, eager_only=True)
    series = {}
    for name, values in columns.items():
        target = own.get_column(name) if name in own.columns else None
        series[name] = _new_series(own, name, list_cells(source.kind, values), target)
    return nw.from_dict(series, backend=own.implementation).to_native()


def _cast_pandas(series: Any, dtype: Any) -> Any:
    """The series cast to another dtype if no value changes; otherwise unchanged."""
    known = series.notna()
    if hasattr(dtype, "categories") and not series[known].isin(dtype.categories).all():
        return series
    try:
        cast = series.astype(dtype)
    except (TypeError, ValueError):
        return series
    if series.dtype.kind == "f" and getattr(dtype, "kind", "") == "f":
        return cast
    if not known.equals(cast.notna()):
        return series
    pairs = zip(cast[known].tolist(), series[known].tolist(), strict=True)
    return cast if all(new == old for new, old in pairs) else series


def frame(library: Any, data: Mapping[str, NDArray[Any]]) -> Any:
    """A new table in a library given by name (see `library_of`); rows are numbered from 0."""
    import narwhals as nw

    if library not in {"pandas", "polars", "pyarrow"}:
        return like({} if library == "dict" else np.empty((0, 0)), data)

    def understood(values: NDArray[Any]) -> Any:
        """Cells as a list where the library would not understand the array: lists, and NaN for an empty number."""
        if values.dtype.kind == "f" and library != "pandas" and np.isnan(values).any():
            return [None if np.isnan(value) else value for value in values.tolist()]
        # A list of lists gets the library's own list type; an array of lists would stay dtype object.
        has_lists = any(isinstance(cell, list) for cell in values)
        return values.tolist() if values.dtype.kind == "O" and (has_lists or library != "pandas") else values

    columns = {name: understood(list_cells(library, values)) for name, values in data.items()}
    return nw.from_dict(columns, backend=library).to_native()


def any_frame(data: Mapping[str, NDArray[Any]]) -> Any:
    """A new table in pandas, else polars, else pyarrow; a dict of columns if none of them is installed."""
    for library in ("pandas", "polars", "pyarrow"):
        try:
            return frame(library, data)
        except ImportError:
            continue
    return dict(data)


def replace_cells(
    other: Any,
    data: Mapping[str, Any],
    where: Mapping[str, BoolArray] | None = None,
    lists: Mapping[str, NDArray[Any]] | None = None,
) -> Any:
    """A copy of a table with its missing cells (or those in the mask `where`) taken from `data`.

    All other cells stay the same. Dtypes are kept if they can hold the new cells, including categories, Enums,
    integers and booleans. `lists` are whole columns of lists of items, which replace those of the table or are added.
    """
    source, fresh = as_table(other), {}
    # Columns without cells to replace are not rebuilt, so that they cannot change.
    for name, values in data.items():
        mask = where[name] if where is not None and name in where else source.cells(name).missing
        if np.any(mask):
            fresh[name] = (np.asarray(mask, bool), np.asarray(values))
    native, filled = source.native, source.native
    if source.kind == "dict":
        filled = {**native, **{k: _fill_cells(native[k], *fresh[str(k)]) for k in native if str(k) in fresh}}
    elif source.kind == "numpy":
        filled = native.copy() if isinstance(native, np.ndarray) else rows_to_array(native)
        for name, (mask, values) in fresh.items():
            filled = filled.astype(_common(filled.dtype, values[mask]), copy=False)
            filled[mask, source.places[name]] = values[mask]
        filled = filled if isinstance(native, np.ndarray) else filled.tolist()
    elif source.kind == "pandas":
        filled = native.copy()
        for name, (mask, values) in fresh.items():
            place = source.places[name]
            filled.isetitem(place, _fill_pandas(filled.iloc[:, place], mask, values[mask]))
    else:
        import narwhals as nw

        own = nw.from_native(native, eager_only=True)
        changed = [_fill_series(own, own.get_column(name), *pair) for name, pair in fresh.items()]
        filled = (own.with_columns(*changed) if changed else own).to_native()
    return with_columns(filled, lists) if lists else filled


def with_columns(table: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
    """A copy of a table with columns added or replaced, in the same library."""
    library = library_of(table)
    if library == "dict":
        return {**table, **columns}
    if library == "pandas":
        return table.assign(**columns)
    if library == "numpy":
        remedy = "give a table with column names, such as a pandas frame"
        raise SchemaError("an array has no place for lists of items or named columns", remedy=remedy)
    import narwhals as nw

    own = nw.from_native(table, eager_only=True)
    fresh = [_new_series(own, name, list_cells(library, cells)) for name, cells in columns.items()]
    return own.with_columns(*fresh).to_native()


def with_method(table: Any, method: str) -> Any:
    """The same table, with the method that computed it in `attrs["thurbo_method"]` of a pandas frame."""
    if library_of(table) == "pandas":
        table.attrs = {**table.attrs, "thurbo_method": method}  # a new dict: the user's frame may share the old one
    return table


def list_cells(library: str, cells: NDArray[Any]) -> NDArray[Any]:
    """Cells {item: score} in the type that a library has for them: lists of {"item", "score"} in polars and arrow."""
    if library not in {"polars", "pyarrow"} or not any(isinstance(cell, dict) for cell in cells):
        return cells
    scores = [score for cell in cells if cell for score in cell.values()]
    kind = float if any(isinstance(score, float) for score in scores) else (lambda score: score)  # one type for all
    found = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        found[place] = None if cell is None else [{"item": item, "score": kind(cell[item])} for item in cell]
    return found


def _fill_cells(cells: Any, mask: BoolArray, values: NDArray[Any]) -> Any:
    if not isinstance(cells, np.ndarray):
        return [new if use else old for old, new, use in zip(cells, values.tolist(), mask, strict=True)]
    filled = cells.astype(_common(cells.dtype, values[mask]))
    filled[mask] = values[mask]
    return filled


def _common(dtype: Any, values: NDArray[Any]) -> Any:
    """A dtype that can hold both, without converting numbers to text."""
    if dtype.kind not in "biuf" or values.dtype.kind not in "biuf":
        return dtype if dtype == values.dtype else np.dtype(object)
    whole = values.dtype.kind == "f" and bool(np.all(values == np.floor(values)))
    return dtype if dtype.kind == "f" or (dtype.kind in "iu" and whole) else np.result_type(dtype, values)


def _fill_pandas(series: Any, mask: BoolArray, values: NDArray[Any]) -> Any:
    """A pandas column with some cells replaced: in its own dtype, else float, else object."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        new = [value for value in dict.fromkeys(values.tolist()) if value not in series.cat.categories]
        series = series.cat.add_categories(new) if new and not pd.isna(new).any() else series
    is_number = values.dtype.kind in "biuf" and pd.api.types.is_numeric_dtype(series.dtype)
    is_extension = pd.api.types.is_extension_array_dtype(series.dtype)
    wider = pd.Float64Dtype() if is_extension else np.dtype(np.float64)
    for dtype in (series.dtype, wider) if is_number else (series.dtype,):
        fresh = _cast_pandas(pd.Series(values), dtype)
        if fresh.dtype == dtype:
            filled = series.astype(dtype)
            filled.iloc[mask] = fresh.array
            return filled
    filled = series.astype(object)
    filled.iloc[mask] = values.astype(object)
    return filled


def _new_series(own: Any, name: str, values: NDArray[Any], target: Any = None) -> Any:
    """An array as a narwhals series with NaN as null, cast to the dtype of `target` if no value changes."""
    import narwhals as nw

    _, missing, _ = read_array(values)
    listed = [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
    unknown = nw.String if missing.all() else None  # libraries cannot infer a dtype if all cells are null
    dtype: Any = {"b": nw.Boolean, "f": nw.Float64}.get(values.dtype.kind, unknown)
    series = nw.new_series(name, listed, dtype, backend=own.implementation)
    if target is None or series.dtype == target.dtype:
        return series
    try:
        cast = series.cast(target.dtype)
    except Exception:  # each library raises its own error for an impossible cast
        return series
    both_float = cast.dtype.is_float() and series.dtype.is_float()
    return cast if both_float or cast.to_list() == listed else series


def _fill_series(own: Any, series: Any, mask: BoolArray, values: NDArray[Any]) -> Any:
    """A polars or arrow column with some cells replaced, in its own dtype if that can hold them."""
    import narwhals as nw

    spread = np.full(len(mask), None, object)
    spread[mask] = np.fromiter(values[mask].tolist(), object, int(mask.sum()))
    if hasattr(getattr(series.to_native(), "type", None), "index_type"):
        return _fill_dictionary(series, spread)
    if isinstance(series.dtype, nw.Enum):
        known = series.dtype.categories
        new = [value for value in dict.fromkeys(spread[mask].tolist()) if value is not None and value not in known]
        series = series.cast(nw.Enum([*known, *map(str, new)])) if new else series
    fresh = _new_series(own, series.name, spread, series)
    if fresh.dtype != series.dtype:
        both_numbers = fresh.dtype.is_numeric() and series.dtype.is_numeric()
        series = series.cast(nw.Float64 if both_numbers else nw.String)
        fresh = fresh.cast(series.dtype)
    keep = nw.new_series(series.name, (~mask).tolist(), nw.Boolean, backend=own.implementation)
    return series.zip_with(keep, fresh).alias(series.name)


def _fill_dictionary(series: Any, spread: NDArray[Any]) -> Any:
    """An arrow dictionary column with cells replaced; the order of its values is kept."""
    import narwhals as nw
    import pyarrow as pa

    column = series.to_native().unify_dictionaries()
    dictionary = column.chunks[0].dictionary.to_pylist()
    cells = [old if new is None else new for old, new in zip(column.to_pylist(), spread, strict=True)]
    dictionary += [value for value in dict.fromkeys(cells) if value is not None and value not in dictionary]
    place = {value: index for index, value in enumerate(dictionary)}
    indices = pa.array([None if cell is None else place[cell] for cell in cells], column.type.index_type)
    values = pa.array(dictionary, column.type.value_type)
    array = pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered)
    return nw.from_native(pa.chunked_array([array]), series_only=True).alias(series.name)
