"""§3 as a whole table: which column says what, and where its sites stand among all sites of the model.

Idea: an immutable mapping from name to column, inferred with reasons or written by hand.
Promises one order for sites everywhere, and a TOML file that people can read, edit and load again.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thurbo.columns import (
    Block,
    Categorical,
    Cells,
    Column,
    Id,
    Ignore,
    LinearRow,
    MeasuredColumn,
    Ordinal,
    Ratings,
    Weight,
    column_from_dict,
)
from thurbo.columns.categorical import by_cuts, by_utilities
from thurbo.columns.cells import BoolArray, FloatArray, IntArray, listing, show, suggestion
from thurbo.columns.labels import warn_of_many_levels
from thurbo.errors import SchemaError
from thurbo.io.frames import Table, table
from thurbo.schema.guess.infer import infer

_HEADER = ("column", "type", "a cell is", "why")


class Schema(Mapping[str, Column]):
    """Name → column, in order. Columns of a table that the schema does not name are left out of the model."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        *,
        reasons: Mapping[str, str] | None = None,
        titles: Mapping[str, str] | None = None,
    ):
        for name, column in columns.items():
            if not isinstance(name, str):
                raise SchemaError(f"the name {name!r} is not text", remedy="name columns by text")
            if isinstance(column, type) and issubclass(column, Column):
                raise SchemaError(
                    "it is given a class", column=name, remedy=f"write {column.__name__}() with parentheses"
                )
            if not isinstance(column, Column):
                raise SchemaError(f"{column!r} is not a column", column=name, remedy="use for instance Continuous()")
        self._columns = dict(columns)
        self._reasons = dict(reasons or {})
        self._titles = {name: title for name, title in (titles or {}).items() if title}
        _check_sources(self._columns)
        _check_roles(self._columns)

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            # A KeyError, which mappings promise, would print its message in quotes; near names help more.
            remedy = f"{suggestion(name, self._columns)}the schema has {listing(self._columns)}"
            raise _UnknownColumnError("the schema has no such column", column=name, remedy=remedy) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self._columns.items()))

    def __or__(self, other: Mapping[str, Column]) -> Schema:
        """The schema with some columns added or taken for something else."""
        kept = {name: why for name, why in self._reasons.items() if name not in other}
        return Schema({**self._columns, **other}, reasons=kept, titles=self._titles)

    def read_ordinals(self, by: Literal["utilities", "cuts"], columns: Iterable[str] | None = None) -> Schema:
        """The schema with ordered levels, all or those of some columns, read in one of two ways.

        By "cuts" a question is one scale, and a level the stretch between two of its cuts: `Ordinal`. By "utilities"
        each level has its own: `Categorical(ordered=True)`, which pays with thousands of answers to a question.
        """
        if by not in ("utilities", "cuts"):
            raise SchemaError(f"by={by!r} is not understood", remedy='say "utilities" or "cuts"')
        kinds = Ordinal, Categorical
        levels = [name for name, each in self._columns.items() if isinstance(each, kinds) and each.has_order]
        asked = levels if columns is None else [columns] if isinstance(columns, str) else list(columns)
        for name in asked:
            if name not in levels:
                problem = f"{type(self[name]).__name__} has no ordered levels to read"
                remedy = f"leave it out of columns; there are some in {listing(levels) or 'no column'}"
                raise SchemaError(problem, column=name, remedy=remedy)
        change = by_utilities if by == "utilities" else by_cuts
        changed = {name: change(column) if name in asked else column for name, column in self._columns.items()}
        return Schema(changed, reasons=self._reasons, titles=self._titles)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns in order, those left out of the model included."""
        return tuple(self._columns)

    @property
    def reasons(self) -> dict[str, str]:
        """Why each column was taken for what it is, where `infer` chose."""
        return dict(self._reasons)

    @property
    def titles(self) -> dict[str, str]:
        """What each question is about in the words of its file, where that says."""
        return dict(self._titles)

    @property
    def modelled(self) -> tuple[str, ...]:
        """Names of the columns that have sites."""
        return tuple(name for name, column in self._columns.items() if column.sites)

    @property
    def slices(self) -> dict[str, slice]:
        """Where each column's sites stand among all sites."""
        places, start = {}, 0
        for name, column in self._columns.items():
            places[name] = slice(start, start + len(column.sites))
            start += len(column.sites)
        return places

    @property
    def n_sites(self) -> int:
        """Number of sites of the model, N."""
        return sum(len(column.sites) for column in self._columns.values())

    @property
    def site_names(self) -> tuple[str, ...]:
        """ "column", or "column.label" where a column has several sites."""
        return tuple(
            f"{name}.{site}" if site else name for name, column in self._columns.items() for site in column.sites
        )

    @property
    def site_columns(self) -> tuple[str, ...]:
        """Name of the column of each site."""
        return tuple(name for name, column in self._columns.items() for _ in column.sites)

    @property
    def n_cuts(self) -> IntArray:
        """Number of learnable cuts of each site: [site]."""
        return np.asarray([self._columns[name].n_cuts for name in self.site_columns], np.int32)

    @property
    def families(self) -> tuple[str, ...]:
        """Family of each column, in order: what form its evidence has."""
        return tuple(column.family for column in self._columns.values())

    @property
    def is_measured(self) -> BoolArray:
        """Which sites are measured numbers, whose scale is learned; not levels or utilities: [site]."""
        return np.asarray([self._columns[name].family == "measured" for name in self.site_columns], bool)

    @property
    def is_listed(self) -> BoolArray:
        """Which sites are items of lists, of which each row has few: [site]."""
        return np.asarray([self._columns[name].family == "lists" for name in self.site_columns], bool)

    @property
    def has_lists(self) -> bool:
        """Whether rows list few of many items."""
        return "lists" in self.families

    @property
    def is_utility(self) -> BoolArray:
        """Which sites are utilities, which an order compares: [site]."""
        return np.asarray([self._columns[name].family == "utility" for name in self.site_columns], bool)

    @property
    def source_columns(self) -> dict[str, tuple[str, ...]]:
        """Columns of the table that hold the answers to each question; none for one that is left out."""
        return {name: column.source_columns(name) for name, column in self._columns.items()}

    @classmethod
    def infer(cls, frame: Any) -> Schema:
        """Take each column for what it looks like, and say why."""
        source = table(frame)
        book = source.book
        ordinary = tuple(name for name in source.names if name not in source.lists and name != source.owner)
        found = infer(ordinary, source.cells, source.kind == "numpy", book.notes, book.groups)
        lists: dict[str, Column] = {name: Ratings(score=each.scores) for name, each in source.lists.items()}
        reasons = {**found.reasons, **dict.fromkeys(lists, "rows list few of many items")}
        if source.owner is None:
            return cls({**found.columns, **lists}, reasons=reasons, titles=found.titles)
        others = {
            name: Ignore("another name of rows") if isinstance(column, Id) else column
            for name, column in found.columns.items()
        }
        reasons[source.owner] = "the long table names its rows by it"
        return cls({source.owner: Id(), **others, **lists}, reasons=reasons, titles=found.titles)

    def fit(self, frame: Any) -> Schema:
        """The schema with every column fitted to the cells of a table."""
        source = self._named(table(frame))
        fitted = {
            name: column.fit(self._cells(source, name)) if column.source_columns(name) else column
            for name, column in self._columns.items()
        }
        warn_of_many_levels(fitted)
        return Schema(fitted, reasons=self._reasons, titles=self._titles)

    def _named(self, source: Table) -> Table:
        """The table with its rows called by the Id column, if the schema and the table have one."""
        for name, column in self._columns.items():
            if isinstance(column, Id) and name in source:
                return replace(source, rows=column.rows(source.cells(name)))
        return source

    def row_names(self, frame: Any) -> NDArray[Any]:
        """How messages call each row of a table: by its Id, or by the frame's own label."""
        return self._named(table(frame)).rows

    def weights(self, frame: Any, *, missing_columns: Literal["error", "silent"] = "error") -> FloatArray | None:
        """How much each row of a table counts, by the schema's Weight column; None where there is none."""
        for name, column in self._columns.items():
            if isinstance(column, Weight):
                source = self._named(table(frame))
                if name not in source and missing_columns == "silent":
                    return None
                if name not in source:
                    remedy = f"{suggestion(name, source.names)}add it, or leave Weight out of the schema"
                    raise SchemaError("the table lacks this column of weights", column=name, remedy=remedy)
                return column.weights(source.cells(name))
        return None

    def compile(
        self,
        frame: Any,
        *,
        missing_columns: Literal["error", "silent"] = "error",
        given: Mapping[str, Any] | None = None,
    ) -> dict[str, Block]:
        """What a table says about the sites: one block per column, in order of the schema.

        With `missing_columns="silent"` a column that the table lacks says nothing, as queries need. `given` puts one
        cell, a value or a statement, in the place of a column's own in every row.
        """
        given = given or {}
        for name in given:
            self[name]  # an unknown column is refused here, with the names there are
        source = self._named(table(frame))
        blocks, homes = {}, self._homes()
        for name, column in self._columns.items():
            reads = {name, *column.source_columns(name)} if column.source_columns(name) else set()
            if name in given:
                cell = np.full(source.n_rows, None, object)
                cell[:] = [given[name]] * source.n_rows
                # Without names of rows: what is wrong with a condition is wrong in none of them.
                block = column.encode(Cells(name, cell, np.zeros(source.n_rows, bool), np.full(source.n_rows, None)))
                blocks[name] = self._standardised(block, source, name, homes)
                continue
            if not reads or (missing_columns == "silent" and not any(each in source for each in reads)):
                blocks[name] = column.silent(source.n_rows)
                continue
            block = column.encode(self._cells(source, name, missing_columns))
            blocks[name] = self._standardised(block, source, name, homes)
        return blocks

    def _standardised(self, block: Block, source: Table, name: str, homes: Mapping[str, list[str]]) -> Block:
        linear = tuple(self._standard(row, source.rows[row.row], name, homes) for row in block.linear)
        return replace(block, linear=linear) if linear else block

    def _homes(self) -> dict[str, list[str]]:
        """Columns of each site by its name: more than one where names are ambiguous."""
        homes: dict[str, list[str]] = {}
        for site, name in zip(self.site_names, self.site_columns, strict=True):
            homes.setdefault(site, []).append(name)
        return homes

    def _standard(self, each: LinearRow, row: Any, name: str, homes: Mapping[str, list[str]]) -> LinearRow:
        """An inequality with its sites checked, and measured ones from the user's units to standard ones."""
        coefficients, shift = {}, 0.0
        for site, coefficient in each.coefficients.items():
            if len(homes.get(site, ())) != 1:
                many = "more than one site" if site in homes else "no site"
                remedy = f"{suggestion(site, homes)}the sites are {listing(homes)}"
                raise SchemaError(f"{many} is called {show(site)}", row=row, column=name, remedy=remedy)
            column = self._columns[homes[site][0]]
            unit = 1.0
            if isinstance(column, MeasuredColumn):
                if column.transform is not None:
                    problem = f'"{site}" is modelled by its {column.transform} value, which no sum can use'
                    remedy = f"use {type(column).__name__} without transform, or between(...) in its own cell"
                    raise SchemaError(problem, row=row, column=name, remedy=remedy)
                location, unit = column.standard
                shift += coefficient * location
            coefficients[site] = coefficient * unit
        return LinearRow(each.row, coefficients, each.lower - shift, each.upper - shift)

    def _cells(self, source: Table, name: str, missing_columns: Literal["error", "silent"] = "error") -> Cells:
        """The cells of a question, its own and those of the columns it is made of, less what is declared missing."""
        wanted = self._columns[name].source_columns(name)
        lacking = [each for each in wanted if each not in source]
        stands_for_all = name in source and name not in wanted
        if lacking and missing_columns == "error" and not stands_for_all:
            left = [other for other in source.names if other not in self._columns]
            remedy = f"{suggestion(lacking[0], left or source.names)}the table has {listing(source.names)}"
            question = "" if wanted == (name,) else f', which "{name}" needs'
            raise SchemaError(f"the table lacks this column of the schema{question}", column=lacking[0], remedy=remedy)
        if wanted == (name,):
            return self._columns[name].answered(source.cells(name))
        nothing = np.full(source.n_rows, None, object)
        own = Cells(name, nothing, np.ones(source.n_rows, bool), source.rows)
        parts = {each: source.cells(each) for each in wanted if each in source}
        return self._columns[name].answered(replace(source.cells(name) if name in source else own, parts=parts))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or TOML: {"columns": {name: {"kind": ..., ..., "why": reason}}}."""
        columns = {}
        for name, column in self._columns.items():
            said = {"title": self._titles.get(name), "why": self._reasons.get(name)}
            columns[name] = {**column.to_dict(), **{key: text for key, text in said.items() if text}}
        return {"columns": columns}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Schema:
        """Rebuild what `to_dict` wrote."""
        if not isinstance(state.get("columns"), Mapping):
            raise SchemaError("a schema has no columns", remedy='write one [columns."name"] table for each')
        columns, reasons, titles = {}, {}, {}
        for name, entry in state["columns"].items():
            if not isinstance(entry, Mapping):
                raise SchemaError(f"{show(entry)} is not a table", column=name, remedy='give it a kind = "..."')
            if "why" in entry:
                reasons[name] = str(entry["why"])
            if "title" in entry:
                titles[name] = str(entry["title"])
            try:
                said = {key: value for key, value in entry.items() if key not in ("why", "title")}
                columns[name] = column_from_dict(said)
            except SchemaError as error:
                raise SchemaError(str(error), column=name) from None
        return cls(columns, reasons=reasons, titles=titles)

    def to_toml(self, path: str | PathLike[str]) -> None:
        """Write the schema as TOML, for people to read and edit."""
        from thurbo.io.files import write_atomically

        write_atomically(path, _toml(self.to_dict()))

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema that `to_toml` or a person wrote."""
        try:
            return cls.from_dict(tomllib.loads(Path(path).read_bytes().decode("utf-8")))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SchemaError(f'"{path}" is not TOML: {error}', remedy="correct the file") from None
        except OSError as error:
            raise SchemaError(f'cannot read "{path}": {error.strerror or error}', remedy="check the name") from None

    def _lines(self) -> list[tuple[str, str, str, str]]:
        return [
            (name, type(column).__name__, column.describe(), self._reasons.get(name, ""))
            for name, column in self._columns.items()
        ]

    def __str__(self) -> str:
        lines = [tuple(_shortened(text) for text in line) for line in [_HEADER, *self._lines()]]
        if not self._reasons:
            lines = [line[:3] for line in lines]
        widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
        padded = ("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines)
        return "\n".join(padded)

    def __repr__(self) -> str:
        return f"Schema of {len(self)} columns, {self.n_sites} sites\n{self}"

    def _repr_html_(self) -> str:
        header = "".join(f"<th>{text}</th>" for text in _HEADER)
        body = "".join(f"<tr>{''.join(self._html_cells(line))}</tr>" for line in self._lines())
        return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"

    def _html_cells(self, line: tuple[str, str, str, str]) -> Iterator[str]:
        """Cells of one column's line, what it is about below its name."""
        title = self._titles.get(line[0])
        yield f"<td>{escape(line[0])}{f'<br><small>{escape(title)}</small>' if title else ''}</td>"
        yield from (f"<td>{escape(text)}</td>" for text in line[1:])


class _UnknownColumnError(SchemaError, KeyError):
    """A name the schema does not have: also a KeyError, so that `get` and `in` work as for any mapping."""

    def __str__(self) -> str:
        return str(self.args[0])


def _check_sources(columns: Mapping[str, Column]) -> None:
    """Refuse one column of the table that is read as two questions: its cells would count twice."""
    reader: dict[str, str] = {}
    for name, column in columns.items():
        sources = column.source_columns(name)
        for source in {*sources, name} if sources else ():
            if reader.setdefault(source, name) != name:
                problem = f'both "{reader[source]}" and "{name}" read it'
                raise SchemaError(problem, column=source, remedy="leave one of them out of the schema")


def _check_roles(columns: Mapping[str, Column]) -> None:
    """Refuse two columns of weights, or two names of one row."""
    for role in (Weight, Id):
        named = [name for name, column in columns.items() if isinstance(column, role)]
        if len(named) > 1:
            problem = f'"{named[0]}" and "{named[1]}" are both {role.__name__}'
            raise SchemaError(problem, column=named[1], remedy="keep one, and Ignore the other")


def _shortened(text: str, most: int = 72) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."


def _toml(state: dict[str, Any]) -> str:
    """TOML by hand, for the few shapes a schema has: text, numbers, booleans, lists and tables of them."""
    lines = ["# thurbo schema: one table per column, in order"]
    for name, entry in state["columns"].items():
        lines += ["", f"[columns.{_toml_value(name)}]"]
        lines += [f"{key} = {_toml_value(value)}" for key, value in entry.items()]
    # A schema without columns still says that it is one.
    return "\n".join(lines if state["columns"] else [*lines, "[columns]"]) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_value(key)} = {_toml_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the delete character, which JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return json.dumps(value)
