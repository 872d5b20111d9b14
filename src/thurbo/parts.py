"""§6 Queries of large and scanned tables: piece by piece, in constant memory, with results in files.

Idea: the answer for a row does not depend on other rows, so a query of a table is that query of its pieces. Results of
a table in memory are put together. Those of a scan come one after another, or are written as Parquet files, each of
which says what it was computed from: what is there already is not computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
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

    The user's table is read here: the method that is decorated gets a `Table`. `named` gives the columns of a result
    that is an array, from the estimator, the result and the arguments. Without it, results are tables.
    """

    def decorate(method: Method) -> Method:
        about = signature(method)

        @wraps(method)
        def ask(self: Any, X: Any, *args: Any, **given: Any) -> Any:
            def ask_part(part: Table) -> Any:
                return method(self, part, *args, **given)

            out = given.pop("out", None)
            if isinstance(X, Scan):
                self._ready()
            else:
                X = self._table(X)
                if out is None:
                    return ask_part(X) if named is None else in_pieces(X, ask_part)
            bound = about.bind(self, X, *args, **given)
            bound.apply_defaults()
            asked = {name: value for name, value in bound.arguments.items() if name not in ("self", "X")}
            query = RowQuery(
                self,
                X if isinstance(X, Scan) else TableSource(X),
                ask_part,
                f"{method.__name__} {asked!r}",
                None if named is None else lambda found: named(self, found, asked),
                has_means=asked.get("statistic") == "mean",
            )
            return (found for _, found in query.pieces()) if out is None else query.write(Path(out))

        return cast(Method, ask)

    return decorate


def merged(found: list[Any]) -> Any:
    """Results of pieces as one: arrays by row, and dicts or tuples of them."""
    first = found[0]
    if len(found) == 1:
        return first
    if isinstance(first, Mapping):
        return {name: merged([each[name] for each in found]) for name in first}
    if isinstance(first, tuple):
        return tuple(merged(list(each)) for each in zip(*found, strict=True))
    return np.concatenate(found)


def in_pieces(table: Table, ask: Callable[[Table], Any], merge: Callable[[list[Any]], Any] = merged) -> Any:
    """What is asked of a table; a large one is asked piece by piece."""
    is_small = table.n_rows <= ROWS or table.lists or table.declared
    return merge([ask(part) for part in ([table] if is_small else TableSource(table).tables())])


@dataclass(frozen=True)
class RowQuery:
    """A query of all rows of a source.

    ask        of each piece
    about      what is asked, for files that are kept
    named      the columns of a result that is an array
    has_means  whole numbers of one piece may have decimals in another one
    """

    model: Any
    source: RowSource
    ask: Callable[[Table], Any]
    about: str
    named: Callable[[Any], Mapping[str, np.ndarray]] | None = None
    has_means: bool = False

    def __post_init__(self) -> None:
        if self.source.n_rows == 0:
            raise SchemaError("the table has no rows", remedy="give at least one row")

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Table, Any]]:
        """The pieces of the table with their results, one after another."""
        for part in self.source.tables(start, stop):
            with self.source.locating(part, self.model.schema_.row_names, start):
                found = self.ask(part)
            yield part, found
            start += part.n_rows

    def _tables(self, start: int, stop: int, told: course.Told) -> Iterator[Any]:
        """The results as tables; arrays with the identifiers of the rows in front."""
        names = [name for name, column in self.model.schema_.items() if column.role == "id"]
        for part, found in self.pieces(start, stop):
            yield found if self.named is None else beside(names, part, self.named(found))
            start += part.n_rows
            told({"stage": STAGE, "done": start, "of": self.source.n_rows, "figure": ""})

    def write(self, out: Path) -> Path:
        """Write the results to a folder, a file for every `PART` rows, or to one .parquet file; returns its path.

        A file is written completely or not at all. Files of a folder that have the same rows, model and question are
        kept: an interrupted query goes on where it ended.
        """
        n_rows, is_file, schema = self.source.n_rows, out.suffix.lower() == ".parquet", self.model.schema_
        means = schema.modelled if self.has_means else ()
        numbers = {source for name in means for source in (*schema[name].source_columns(name), name)}
        marks, size = ({destination(out): ""}, n_rows) if is_file else (self._prepared(out), PART)
        with course.progress(n_rows, self.model.verbose, STAGE) as told:
            for start, (path, mark) in zip(range(0, n_rows, size), marks.items(), strict=True):
                stop = min(start + size, n_rows)
                if is_file or not path.exists():
                    with replacing(path) as temporary:
                        write_tables(temporary, self._tables(start, stop, told), mark, numbers)
                told({"stage": STAGE, "done": stop, "of": n_rows, "figure": ""})
        return out

    def _prepared(self, out: Path) -> dict[Path, str]:
        """The files of all parts with their marks; it is an error if the folder has any other file."""
        n_rows = self.source.n_rows
        about = [__version__, _model_mark(self.model), self.about]
        marks = {}
        for number, start in enumerate(range(0, n_rows, PART)):
            own = self.source.mark(start, min(start + PART, n_rows))
            mark = hashlib.sha256("\n".join([*about, own]).encode()).hexdigest()
            marks[out / f"part-{number:05d}.parquet"] = mark
        if out.exists() and not out.is_dir():
            raise ThurboError(f'cannot write to "{out}": it is a file; give a folder, or a name that ends in .parquet')
        out.mkdir(parents=True, exist_ok=True)
        for path in sorted(each for each in out.iterdir() if not each.name.startswith(".")):
            if path not in marks or mark_of(path) != marks[path]:
                problem = f'"{out}" has a file that is not of these results: {path.name}'
                other = ", but of another model, question or table" if path in marks else ""
                raise ThurboError(f"{problem}{other}; remove it, or give another folder")
        return marks


def _model_mark(model: Any) -> str:
    """A fingerprint of a fitted model."""
    import jax

    fitted, learned = model.model_, model.model_.correction
    members = [(each.settings, each.weight) for each in fitted.members]
    about = fitted.schema.to_dict(), fitted.objective, fitted.least_answers, members, sorted(fitted.presence)
    corrected = sorted(learned.exponents.items()), sorted(learned.experts)
    digest = hashlib.sha256(repr((about, corrected)).encode())
    for array in jax.tree.leaves(([each.params for each in fitted.members], dict(fitted.presence))):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
