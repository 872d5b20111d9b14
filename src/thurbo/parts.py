"""§6 Queries of large and scanned tables: piece by piece, in constant memory, with results in files.

Idea: the answer for a row does not depend on other rows, so a query of a table is that query of its pieces. Results of
a table in memory are put together. Those of a scan come one after another, or are written as Parquet files, each of
which says what it was computed from: what is there already is not computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from thurbo import __version__
from thurbo.errors import SchemaError, ThurboError
from thurbo.fit import course
from thurbo.table.io.files import destination, replacing
from thurbo.table.io.frames import Table
from thurbo.table.io.scan import PIECE, RowSource, Scan, TableSource, beside, mark_of, write_tables

ROWS = PIECE  # of a table in memory that is asked as a whole
PART = 8 * PIECE  # rows of a file of results
STAGE = "rows"

Method = TypeVar("Method", bound=Callable[..., Any])
Named = Callable[[Any, Any, Mapping[str, Any]], Mapping[str, np.ndarray]]


def rowwise(named: Named | None = None) -> Callable[[Method], Method]:
    """Make a query of a table one of any rows: also of scans, and with `out=` written to files.

    `named` gives the columns of a result that is an array, from the estimator, the result and the arguments. Without
    it, results are tables.
    """

    def decorate(method: Method) -> Method:
        about = signature(method)

        @wraps(method)
        def ask(self: Any, X: Any, *args: Any, **given: Any) -> Any:
            out = given.pop("out", None)
            if isinstance(X, Scan) or out is not None:
                bound = about.bind(self, X, *args, **given)
                bound.apply_defaults()
                asked = {name: value for name, value in bound.arguments.items() if name not in ("self", "X")}
                query = RowQuery(
                    self,
                    X if isinstance(X, Scan) else TableSource(self._table(X)),
                    lambda part: method(self, part, *args, **given),
                    f"{method.__name__} {asked!r}",
                    None if named is None else lambda found: named(self, found, asked),
                    has_means=asked.get("statistic") == "mean",
                )
                return query.results() if out is None else query.write(Path(out))
            if named is None:
                return method(self, X, *args, **given)
            return in_pieces(self._table(X), lambda part: method(self, part, *args, **given))

        return cast(Method, ask)

    return decorate


def in_pieces(table: Table, ask: Callable[[Table], Any], merge: Callable[[list[Any]], Any] | None = None) -> Any:
    """What is asked of a table; a large one is asked piece by piece, and arrays by row are put together."""
    is_small = table.n_rows <= ROWS or table.lists or table.declared
    return (merge or merged)([ask(table)] if is_small else [ask(part) for part in TableSource(table).tables()])


def merged(found: list[Any]) -> Any:
    """Results of pieces as one: arrays by row, and dicts or tuples of them."""
    first = found[0]
    if len(found) == 1:
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate(found)
    if isinstance(first, Mapping):
        names = dict.fromkeys(name for each in found for name in each)
        return {name: merged([each[name] for each in found]) for name in names}
    if isinstance(first, tuple):
        parts = [merged(list(each)) for each in zip(*found, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return first


class RowQuery:
    """A query of all rows of a source: `ask` of each piece; `about` says what is asked, for files that are kept.

    `named` gives the columns of a result that is an array.
    """

    def __init__(
        self,
        model: Any,
        source: RowSource,
        ask: Callable[[Table], Any],
        about: str,
        named: Callable[[Any], Mapping[str, np.ndarray]] | None = None,
        has_means: bool = False,
    ) -> None:
        if source.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row")
        self._model, self._source, self._about, self._named = model, source, about, named
        self._ask, self._has_means = ask, has_means

    def results(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """The results of the pieces, one after another."""
        for _, found in self._pieces(start, stop):
            yield found

    def _pieces(self, start: int, stop: int | None) -> Iterator[tuple[Table, Any]]:
        for part in self._source.tables(start, stop):
            with self._source.locating(part, self._model.schema_.row_names, start):
                found = self._ask(part)
            yield part, found
            start += part.n_rows

    def _tables(self, start: int, stop: int, told: course.Told) -> Iterator[Any]:
        """The results as tables; arrays with the identifiers of the rows in front."""
        names = [name for name, column in self._model.schema_.items() if column.role == "id"]
        for part, found in self._pieces(start, stop):
            yield found if self._named is None else beside(names, part, self._named(found))
            start += part.n_rows
            told({"stage": STAGE, "done": start, "of": self._source.n_rows, "figure": ""})

    @cached_property
    def _numbers(self) -> set[str]:
        """Columns of answers, of which whole numbers may become means."""
        schema = self._model.schema_
        own = {source for name in schema.modelled for source in (*schema[name].source_columns(name), name)}
        return own if self._has_means else set()

    def write(self, out: Path) -> Path:
        """Write the results to a folder, a file for every `PART` rows, or to one .parquet file; returns its path.

        A file is written completely or not at all. Files of a folder that have the same rows, model and question are
        kept: an interrupted query goes on where it ended.
        """
        if out.suffix.lower() == ".parquet":
            final = destination(out)
            with course.progress(self._source.n_rows, self._model.verbose, STAGE) as told, replacing(final) as path:
                write_tables(path, self._tables(0, self._source.n_rows, told), numbers=self._numbers)
            return out
        marks = self._prepared(out)
        with course.progress(self._source.n_rows, self._model.verbose, STAGE) as told:
            for number, mark in enumerate(marks):
                start, stop = number * PART, min((number + 1) * PART, self._source.n_rows)
                path = out / _name(number)
                if not path.exists():
                    with replacing(path) as temporary:
                        write_tables(temporary, self._tables(start, stop, told), mark, self._numbers)
                told({"stage": STAGE, "done": stop, "of": self._source.n_rows, "figure": ""})
        return out

    def _prepared(self, out: Path) -> list[str]:
        """The marks of all parts; raises an error if the folder has anything else than some of these."""
        n_rows = self._source.n_rows
        about = [__version__, _model_mark(self._model), self._about]
        marks = []
        for start in range(0, n_rows, PART):
            own = self._source.mark(start, min(start + PART, n_rows))
            marks.append(hashlib.sha256("\n".join([*about, own]).encode()).hexdigest())
        if out.exists() and not out.is_dir():
            raise ThurboError(f'cannot write to "{out}": it is a file; give a folder, or a name that ends in .parquet')
        out.mkdir(parents=True, exist_ok=True)
        for path in sorted(each for each in out.iterdir() if not each.name.startswith(".")):
            number = next((n for n in range(len(marks)) if path.name == _name(n)), None)
            problem = f'"{out}" has a file that is not of these results: {path.name}'
            remedy = "remove it, or give another folder"
            if number is None:
                raise ThurboError(f"{problem}; {remedy}")
            if mark_of(path) != marks[number]:
                raise ThurboError(f"{problem}, but of another model, question or table; {remedy}")
        return marks


def _name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _model_mark(model: Any) -> str:
    """A fingerprint of a fitted model."""
    fitted, digest = model.model_, hashlib.sha256()
    digest.update(repr((fitted.schema.to_dict(), fitted.objective, fitted.least_answers)).encode())
    for each in fitted.members:
        digest.update(repr((each.settings, each.weight)).encode())
        for array in _leaves(each.params):
            digest.update(np.ascontiguousarray(array).tobytes())
    for name, members in fitted.presence.items():
        digest.update(name.encode())
        for array in _leaves(members):
            digest.update(np.ascontiguousarray(array).tobytes())
    learned = fitted.correction
    digest.update(repr((sorted(learned.exponents.items()), sorted(learned.experts))).encode())
    return digest.hexdigest()


def _leaves(params: Any) -> list[np.ndarray]:
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
