"""§3 as a whole table: which column says what, and where its sites stand among all sites of the model.

Idea: an immutable mapping from name to column, inferred with reasons or written by hand.
Promises one order for sites everywhere, and a TOML file that people can read, edit and load again.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thurbo.columns import Binary, Block, Cells, Column, Continuous, Ignore, Ordinal, column_from_dict
from thurbo.columns.base import BoolArray, IntArray, is_label, listing, show, suggestion
from thurbo.columns.binary import false_and_true
from thurbo.columns.ordinal import ordered_numbers
from thurbo.errors import SchemaError
from thurbo.io.frames import Table, table

_HEADER = ("column", "type", "a cell is", "why")
_MOST_LEVELS = 10
_LATER = "unordered categories come in a later version of thurbo"


class Schema(Mapping[str, Column]):
    """Name → column, in order. Columns of a table that the schema does not name are left out of the model."""

    def __init__(self, columns: Mapping[str, Column], *, reasons: Mapping[str, str] | None = None):
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

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns in order, those left out of the model included."""
        return tuple(self._columns)

    @property
    def reasons(self) -> dict[str, str]:
        """Why each column was taken for what it is, where `infer` chose."""
        return dict(self._reasons)

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
    def is_measured(self) -> BoolArray:
        """Which sites are measured numbers, whose scale is learned; the others are levels: [site]."""
        return np.asarray([self._columns[name].family == "measured" for name in self.site_columns], bool)

    @classmethod
    def infer(cls, frame: Any) -> Schema:
        """Take each column for what it looks like, and say why."""
        source = table(frame)
        columns, reasons = {}, {}
        for name in source.names:
            columns[name], reasons[name] = _infer(source.cells(name), source.kind == "numpy")
        return cls(columns, reasons=reasons)

    def fit(self, frame: Any) -> Schema:
        """The schema with every column fitted to the cells of a table."""
        source = table(frame)
        fitted = {
            name: column.fit(self._cells(source, name)) if column.sites else column
            for name, column in self._columns.items()
        }
        return Schema(fitted, reasons=self._reasons)

    def compile(self, frame: Any, *, missing_columns: Literal["error", "silent"] = "error") -> dict[str, Block]:
        """What a table says about the sites: one block per column, in order of the schema.

        With `missing_columns="silent"` a column that the table lacks says nothing, as queries need.
        """
        source = table(frame)
        blocks = {}
        for name, column in self._columns.items():
            if not column.sites or (missing_columns == "silent" and name not in source):
                blocks[name] = column.silent(source.n_rows)
            else:
                blocks[name] = column.encode(self._cells(source, name))
        return blocks

    def _cells(self, source: Table, name: str) -> Cells:
        if name not in source:
            left = [other for other in source.names if other not in self._columns]
            remedy = f"{suggestion(name, left or source.names)}the table has {listing(source.names)}"
            raise SchemaError("the table lacks this column of the schema", column=name, remedy=remedy)
        return source.cells(name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or TOML: {"columns": {name: {"kind": ..., ..., "why": reason}}}."""
        columns = {}
        for name, column in self._columns.items():
            why = self._reasons.get(name)
            columns[name] = {**column.to_dict(), **({"why": why} if why else {})}
        return {"columns": columns}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Schema:
        """Rebuild what `to_dict` wrote."""
        if not isinstance(state.get("columns"), Mapping):
            raise SchemaError("a schema has no columns", remedy='write one [columns."name"] table for each')
        columns, reasons = {}, {}
        for name, entry in state["columns"].items():
            if not isinstance(entry, Mapping):
                raise SchemaError(f"{show(entry)} is not a table", column=name, remedy='give it a kind = "..."')
            if "why" in entry:
                reasons[name] = str(entry["why"])
            try:
                columns[name] = column_from_dict({key: value for key, value in entry.items() if key != "why"})
            except SchemaError as error:
                raise SchemaError(str(error), column=name) from None
        return cls(columns, reasons=reasons)

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
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in self._lines()
        )
        return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"


class _UnknownColumnError(SchemaError, KeyError):
    """A name the schema does not have: also a KeyError, so that `get` and `in` work as for any mapping."""

    def __str__(self) -> str:
        return str(self.args[0])


def _shortened(text: str, most: int = 72) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."


def _infer(cells: Cells, is_array: bool) -> tuple[Column, str]:
    """What a column looks like, and why; an array's dtype is taken at its word."""
    kind = cells.values.dtype.kind
    if cells.missing.all() and not (is_array and kind in "bf"):
        return Ignore("it is empty"), "there is no value"
    if kind == "b":
        return Binary(true=True), "booleans"
    if is_array and kind == "f":
        return Continuous(), "an array of floating-point numbers"
    if kind in "mM":
        return Ignore("dates and times are not modelled"), "dates or times; turn them into a number to use them"
    if cells.ordered_levels is not None:
        return _infer_ordered(cells.ordered_levels)
    if kind in "iuf":
        distinct = np.unique(cells.values[~cells.missing]).tolist()
        if len(distinct) > 2:
            return _infer_numbers(distinct, cells)
    try:
        distinct, _ = cells.factorise()
    except SchemaError:
        return Ignore("its cells are collections"), "cells hold lists or sets"
    if not all(map(is_label, distinct)):
        strange = next(value for value in distinct if not is_label(value))
        reason = f"values such as {show(strange)} are neither text, finite numbers nor booleans"
        return Ignore("its values cannot be read"), reason
    if all(isinstance(value, bool) for value in distinct):
        return Binary(true=True), "booleans"
    if len(distinct) == 1:
        return Ignore("it is constant"), f"the only value is {show(distinct[0])}"
    if len(distinct) == 2:
        false, true = false_and_true(distinct, None)
        return Binary(true=true), f"two values, {show(false)} and {show(true)}"
    if any(isinstance(value, str) for value in distinct):
        text = all(isinstance(value, str) for value in distinct)
        what = f"{len(distinct)} values of text" if text else "text and numbers together"
        return Ignore(_LATER), f"{what}, no order given; if ordered, say Ordinal(levels=[...])"
    return _infer_numbers(distinct, cells)


def _infer_ordered(levels: tuple[Any, ...]) -> tuple[Column, str]:
    if len(levels) < 2:
        return Ignore("it has one level"), "an ordered category with fewer than two levels"
    if len(levels) == 2:
        return Binary(true=levels[1]), "an ordered category with two levels"
    return Ordinal(levels), f"an ordered category with {len(levels)} levels"


def _infer_numbers(distinct: list[Any], cells: Cells) -> tuple[Column, str]:
    whole = all(isinstance(value, int) or value.is_integer() for value in distinct)
    if whole and len(distinct) <= _MOST_LEVELS:
        reason = f"a guess: only {len(distinct)} whole numbers; say Continuous() if distances matter"
        return Ordinal(ordered_numbers(distinct)), reason
    reason = f"numbers, {len(distinct)} distinct"
    if whole and len(distinct) == int((~cells.missing).sum()):
        reason += "; each occurs once: say Ignore() if they are identifiers"
    return Continuous(), reason


def _toml(state: dict[str, Any]) -> str:
    """TOML by hand, for the few shapes a schema has: tables of text, numbers, booleans and lists of them."""
    lines = ["# thurbo schema: one table per column, in order"]
    for name, entry in state["columns"].items():
        lines += ["", f"[columns.{_toml_value(name)}]"]
        lines += [f"{key} = {_toml_value(value)}" for key, value in entry.items()]
    # A schema without columns still says that it is one.
    return "\n".join(lines if state["columns"] else [*lines, "[columns]"]) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the delete character, which JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return json.dumps(value)
