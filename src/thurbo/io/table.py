"""`Table`: one record for pandas, polars, pyarrow, NumPy arrays and dicts, read through narwhals.

Idea: `as_table` reads any of them as named columns of cells, each column only when it is needed.
Guarantees that None, NaN, NaT, NA and null all mean "missing", whatever the library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.cells import Listed
from thurbo.columns.column import BoolArray, Cells, Column, suggestion
from thurbo.columns.statements import Interval
from thurbo.errors import SchemaError
from thurbo.io.codebook import Codebook

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
    read: Callable[[int], _Column]
    book: Codebook = field(default_factory=Codebook)  # labels and missing codes of the file that it came from
    lists: Mapping[str, Listed] = field(default_factory=dict)  # columns whose cells are lists of items, see long.py
    owner: str | None = None  # the column with the row identifiers, if known
    declared: Mapping[str, Column] = field(default_factory=dict)  # types of columns that are known, see comparisons.py

    def __repr__(self) -> str:
        words = (
            f"{name} ({len(self.lists[name].which):,} entries of {len(self.lists[name].items):,} items)"
            if name in self.lists
            else name
            for name in self.names
        )
        return f"Table of {self.n_rows:,} rows: {', '.join(words)}"

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
        values, missing, ordered_levels = self.read(self.places[name])
        return Cells(name, values, missing, self.rows, ordered_levels, listed=self.lists.get(name))

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
        from thurbo.io.long import from_sparse

        return from_sparse(X)
    if library == "numpy":
        return _from_array(X, names)
    if library == "dict":
        return _from_dict(X)
    return _from_pandas(X) if library == "pandas" else _from_narwhals(X, library)


def _checked(names: Sequence[Any]) -> tuple[str, ...]:
    texts = [str(name) for name in names]
    for name, count in Counter(texts).items():
        if count > 1:
            raise SchemaError(f"{count} columns have this name", column=name, remedy="rename the others")
    return tuple(texts)


def _from_dict(X: Mapping[Any, Any]) -> Table:
    names = _checked(list(X))
    columns = [_as_column(values, name) for name, values in zip(names, X.values(), strict=True)]
    n_rows = len(columns[0]) if columns else 0
    for name, column in zip(names, columns, strict=True):
        if len(column) != n_rows:
            problem = f'it has {len(column)} cells and "{names[0]}" has {n_rows}'
            raise SchemaError(problem, column=name, remedy="give all columns the same length")
    return Table(names, n_rows, np.arange(n_rows), "dict", X, lambda j: read_array(columns[j]))


def _as_column(values: Any, name: str) -> NDArray[Any]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise SchemaError("it is a single value, not a list of cells", column=name, remedy="give one cell per row")
    array = values.to_numpy() if hasattr(values, "to_numpy") else values
    if not isinstance(array, np.ndarray):
        array = np.fromiter(values, object, len(values))  # cell by cell: a cell may be a list
    if array.ndim != 1:
        raise SchemaError(f"it has {array.ndim} dimensions", column=name, remedy="give one cell per row")
    return array


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


def _from_pandas(X: Any) -> Table:
    if getattr(X, "ndim", None) != 2:
        problem = f"a pandas {type(X).__name__} is not a table"
        raise SchemaError(problem, remedy="pass a DataFrame, for instance series.to_frame()")
    names = _checked(list(X.columns))
    rows, book = X.index.to_numpy(), Codebook.of(X)
    return Table(names, len(X), rows, "pandas", X, lambda j: _read_pandas(X.iloc[:, j]), book)


def _read_pandas(series: Any) -> _Column:
    """A pandas column; pd.Interval cells (also from pd.cut) become interval statements about a number."""
    import pandas as pd

    held = series.cat.categories if isinstance(series.dtype, pd.CategoricalDtype) else series
    if not isinstance(held.dtype, pd.IntervalDtype):
        return _read_series(series)
    missing = series.isna().to_numpy()
    values = np.full(len(series), None, object)
    known: dict[Any, Interval] = {}
    for place in np.flatnonzero(~missing):
        cell = series.iloc[place]
        if cell not in known:
            ends = (float(end) if np.isfinite(end) else None for end in (cell.left, cell.right))
            known[cell] = Interval(*ends)
        values[place] = known[cell]
    return values, missing, None


def _from_narwhals(X: Any, library: str) -> Table:
    import narwhals as nw

    if library == "pyarrow" and hasattr(X, "column_names"):
        _checked(X.column_names)
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        remedy = "pass pandas, polars, pyarrow, a 2-D array or a dict of columns"
        remedy = "call .collect() first" if hasattr(X, "collect") else remedy
        problem = f"{type(X).__module__}.{type(X).__name__} is not a supported table type"
        raise SchemaError(problem, remedy=remedy) from None
    names = _checked(frame.columns)
    rows = np.arange(len(frame))
    return Table(names, len(frame), rows, library, X, lambda j: _read_series(frame.get_column(names[j])))


def _read_series(native: Any) -> _Column:
    import narwhals as nw

    series = nw.from_native(native, series_only=True)
    missing = np.array(series.is_null().to_numpy(), dtype=bool)
    values = series.to_numpy()
    has_structs = isinstance(series.dtype, nw.List) and isinstance(series.dtype.inner, nw.Struct)
    if values.ndim != 1 or has_structs:  # fixed-size arrays and structs would become a 2-D array
        values = np.fromiter(series.to_list(), object, len(series))
    if values.dtype.kind == "f":
        missing |= np.isnan(values)
    elif values.dtype.kind == "O" and series.dtype == nw.Object:
        # Object columns can hold NaN or NA that the library does not count as null, or only numbers.
        missing |= np.fromiter(map(_is_missing, values.tolist()), bool, len(values))
        values = _narrowed(values, missing)
    ordered = tuple(series.dtype.categories) if isinstance(series.dtype, nw.Enum) else None
    arrow = series.to_native()
    if getattr(getattr(arrow, "type", None), "ordered", False) and arrow.num_chunks:
        ordered = tuple(arrow.unify_dictionaries().chunk(0).dictionary.to_pylist())
    return values, missing, ordered
