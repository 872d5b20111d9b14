"""New tables in the library of the input: pandas in, pandas out; polars in, polars out.

Idea: `like` builds a table like another one, `replace` fills cells of a copy, `frame` builds from scratch.
Guarantees that `replace` changes no other cell, and that dtypes are kept where they can hold the new cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.columns.column import BoolArray
from thurbo.errors import SchemaError
from thurbo.io.table import Table, as_table, library_of, read_array, rows_to_array


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
        return _build_pandas(source, columns, rows)
    import narwhals as nw

    own = nw.from_native(source.native, eager_only=True)
    columns = {name: list_cells(source.kind, values) for name, values in columns.items()}
    series = {
        name: _new_series(own, name, values, own.get_column(name) if name in own.columns else None)
        for name, values in columns.items()
    }
    return nw.from_dict(series, backend=own.implementation).to_native()


def _build_pandas(source: Table, columns: dict[str, NDArray[Any]], rows: Any) -> Any:
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


def _holds_lists(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "O" and any(isinstance(cell, list) for cell in values)


def _as_list(library: str, values: NDArray[Any]) -> Any:
    """Cells as a list where the library would not understand the array: lists, and NaN for an empty number."""
    if values.dtype.kind == "f" and library != "pandas" and np.isnan(values).any():
        return [None if np.isnan(value) else value for value in values.tolist()]
    return values.tolist() if _holds_lists(values) or (library != "pandas" and values.dtype.kind == "O") else values


def frame(library: Any, data: Mapping[str, NDArray[Any]]) -> Any:
    """A new table in a library given by name (see `library_of`); rows are numbered from 0."""
    import narwhals as nw

    if library in {"pandas", "polars", "pyarrow"}:
        data = {name: list_cells(library, values) for name, values in data.items()}
        # A list of lists gets the library's own list type; an array of lists would stay dtype object.
        columns = {name: _as_list(library, values) for name, values in data.items()}
        return nw.from_dict(columns, backend=library).to_native()
    return like({} if library == "dict" else np.empty((0, 0)), data)


def any_frame(data: Mapping[str, NDArray[Any]]) -> Any:
    """A new table in pandas, else polars, else pyarrow; a dict of columns if none of them is installed."""
    for library in ("pandas", "polars", "pyarrow"):
        try:
            return frame(library, data)
        except ImportError:
            continue
    return dict(data)


def replace(
    other: Any,
    data: Mapping[str, Any],
    where: Mapping[str, BoolArray] | None = None,
    lists: Mapping[str, NDArray[Any]] | None = None,
) -> Any:
    """A copy of a table with its missing cells (or those in the mask `where`) taken from `data`.

    All other cells stay the same. Dtypes are kept if they can hold the new cells, including categories, Enums,
    integers and booleans. `lists` are whole columns of lists of items, which replace those of the table or are added.
    """
    filled = _filled(as_table(other), data, where)
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


def _filled(source: Table, data: Mapping[str, Any], where: Mapping[str, BoolArray] | None) -> Any:
    # Columns without cells to replace are not rebuilt, so that they cannot change.
    fresh = {}
    for name, values in data.items():
        mask = where[name] if where is not None and name in where else source.cells(name).missing
        if np.any(mask):
            fresh[name] = (np.asarray(mask, bool), np.asarray(values))
    if source.kind == "dict":
        native = source.native
        return {**native, **{k: _fill_cells(native[k], *fresh[str(k)]) for k in native if str(k) in fresh}}
    if source.kind == "numpy":
        return _fill_array(source, fresh)
    if source.kind == "pandas":
        frame = source.native.copy()
        for name, (mask, values) in fresh.items():
            place = source.places[name]
            frame.isetitem(place, _fill_pandas(frame.iloc[:, place], mask, values[mask]))
        return frame
    import narwhals as nw

    own = nw.from_native(source.native, eager_only=True)
    changed = [_fill_series(own, own.get_column(name), *pair) for name, pair in fresh.items()]
    return own.with_columns(*changed).to_native() if changed else own.to_native()


def _fill_cells(cells: Any, mask: BoolArray, values: NDArray[Any]) -> Any:
    if not isinstance(cells, np.ndarray):
        return [new if use else old for old, new, use in zip(cells, values.tolist(), mask, strict=True)]
    filled = cells.astype(_common(cells.dtype, values[mask]))
    filled[mask] = values[mask]
    return filled


def _fill_array(source: Table, fresh: Mapping[str, tuple[BoolArray, NDArray[Any]]]) -> Any:
    is_array = isinstance(source.native, np.ndarray)
    array = source.native.copy() if is_array else rows_to_array(source.native)
    for name, (mask, values) in fresh.items():
        array = array.astype(_common(array.dtype, values[mask]), copy=False)
        array[mask, source.places[name]] = values[mask]
    return array if is_array else array.tolist()


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
