"""§3 for a whole table: the type of each column, and the position of its sites among all sites of the model.

Idea: an immutable mapping from column name to column type, inferred with reasons or written by hand.
Guarantees one order of sites everywhere, and a TOML file that people can read, edit and load again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, BoolArray, FloatArray, IntArray
from thurbo.table.columns.column import Column, check_column, column_from_dict
from thurbo.table.columns.ignore import Id, Ignore
from thurbo.table.columns.labels import warn_of_many_levels, warn_of_spellings
from thurbo.table.columns.listed import Ratings
from thurbo.table.columns.values import listing, show, suggestion
from thurbo.table.io.files import write_atomically
from thurbo.table.io.frames import MissingColumns, Table, as_table
from thurbo.table.io.scan import RowSource
from thurbo.table.schema import corrections
from thurbo.table.schema import determined as following
from thurbo.table.schema.descriptions import as_html, as_text, as_toml, with_alternative, with_scales
from thurbo.table.schema.determined import Determined, find_before_fit, find_determined
from thurbo.table.schema.naming import display_names, grids
from thurbo.table.schema.routing import Skip, checked, find_skips
from thurbo.table.schema.routing import kept as still
from thurbo.table.schema.units import encoded_condition, in_standard_units, not_too_far

Routing = Literal["given", "found", "outdated"]
_NOTES: dict[str, Any] = {"title": str, "confidence": float, "why": str}  # on a column in a file, beside its settings


class Schema(Mapping[str, Column]):
    """The type of each column of a table: an ordered, immutable mapping from name to column.

    Columns of the table that the schema does not name are not part of the model. `schema | {"age": tb.Continuous()}`
    is a copy with some columns added or replaced.

    Parameters
    ----------
    columns : mapping of str to Column
        Name and type of each question, in order.
    reasons : mapping of str to str, optional
        Why each type was chosen; `infer` fills this in.
    titles : mapping of str to str, optional
        Text of each question, such as the variable label in an SPSS file.
    skips : sequence of Skip, optional
        Which questions are asked only after certain answers to another one. By default `infer` and `fit` find them in
        the table; [] means that there are none.
    confidence : mapping of str to float, optional
        How sure each type is, from 0 to 1; `infer` fills this in.
    determined : sequence of Determined, optional
        Which columns follow from another one. `infer` and `fit` find them in the table; [] means that they do not.

    Raises
    ------
    SchemaError
        If an entry is not a column, if two questions read the same column of the table, if there are two `Id` or two
        `Weight` columns, or if a skip names something that the schema does not have.

    Examples
    --------
    >>> schema = tb.Schema({"fan": tb.Binary(true="Yes"), "trust": tb.Ordinal(["none", "some", "a lot"])})
    >>> schema.names
    ('fan', 'trust')
    >>> schema["trust"].labels
    ('none', 'some', 'a lot')
    >>> (schema | {"age": tb.Continuous()}).names
    ('fan', 'trust', 'age')
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        *,
        reasons: Mapping[str, str] | None = None,
        titles: Mapping[str, str] | None = None,
        skips: Sequence[Skip] | None = None,
        confidence: Mapping[str, float] | None = None,
        determined: Sequence[Determined] | None = None,
    ):
        for name, column in check_mapping(columns).items():
            check_column(name, column)
        self._columns = dict(columns)
        self._reasons = dict(reasons or {})
        self._titles = {name: title for name, title in (titles or {}).items() if title}
        self._confidence = dict(confidence or {})
        reader: dict[str, str] = {}
        for name, column in self._columns.items():
            sources = column.source_columns(name)
            for source in {*sources, name} if sources else ():
                if reader.setdefault(source, name) != name:  # its cells would count twice
                    problem = f'both "{reader[source]}" and "{name}" read it'
                    raise SchemaError(problem, column=source, remedy="remove one of them from the schema")
        for role in ("weight", "id"):
            named = [name for name, column in self._columns.items() if column.role == role]
            if len(named) > 1:
                problem = f'"{named[0]}" and "{named[1]}" are both {type(self._columns[named[0]]).__name__}'
                raise SchemaError(problem, column=named[1], remedy="keep one, and use Ignore() for the other")
        self._skips = None if skips is None else checked(skips, self._columns)  # None: not looked for
        self._routing: Routing = "given"  # or found in a table, which a correction makes outdated
        self._determined = None if determined is None else following.checked(determined, self._columns)

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except (KeyError, TypeError):  # TypeError: a list or another value that cannot be a key
            similar = suggestion(name, self._columns) if isinstance(name, str) else "give the name of one column; "
            remedy = f"{similar}the schema has {listing(self._columns)}"
            raise _UnknownColumnError("the schema has no such column", column=name, remedy=remedy) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return list(self.items()) == list(other.items()) and self.skips == other.skips

    def __hash__(self) -> int:
        return hash(tuple(self._columns.items()))

    def __or__(self, other: Mapping[str, Column]) -> Schema:
        columns = {**self._columns, **check_mapping(other)}
        changed = any(each.role == "answer" and self._columns.get(name) != each for name, each in other.items())
        routing: Routing = "outdated" if changed and self._routing == "found" else self._routing
        return self._with(columns, routing, **self._known(other, columns))

    def _known(self, changed: Collection[str], columns: Mapping[str, Column]) -> dict[str, Any]:
        """What is known of the columns that did not change."""
        return {
            "reasons": {name: why for name, why in self._reasons.items() if name not in changed},
            "confidence": {name: sure for name, sure in self._confidence.items() if name not in changed},
            "skips": None if self._skips is None else still(self._skips, columns),
            "determined": self._determined and (following.kept(self._determined, changed, columns) or None),
        }

    def _with(self, columns: Mapping[str, Column], routing: Routing | None = None, **changes: Any) -> Schema:
        """A copy with these columns and changes; `routing` says where its skips are from, by default as before."""
        own = {"reasons": self._reasons, "titles": self._titles, "confidence": self._confidence}
        made = Schema(columns, **{**own, "skips": self._skips, "determined": self._determined, **changes})
        made._routing = routing or self._routing
        return made

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"Schema of {len(self)} columns, {self.n_sites} sites\n{self}"

    def _repr_html_(self) -> str:
        return as_html(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns in order, including those outside the model."""
        return tuple(self._columns)

    @property
    def reasons(self) -> dict[str, str]:
        """Why `infer` chose each type, by column."""
        return dict(self._reasons)

    @property
    def confidence(self) -> dict[str, float]:
        """How sure `infer` is of each type, from 0 to 1, by column; what is below 0.8 should be checked."""
        return dict(self._confidence)

    @property
    def titles(self) -> dict[str, str]:
        """Text of each question, where the file has one."""
        return dict(self._titles)

    @cached_property
    def display_names(self) -> dict[str, str]:
        """A short name of each column that people can read, all different: the item of a grid, without its stem."""
        return display_names(self.names, self._titles)

    @cached_property
    def grids(self) -> dict[str, int]:
        """The number of the grid of each question that is in one: neighbours with one scale or one stem."""
        return grids({name: self._columns[name] for name in self.modelled}, self._titles)

    def named(self, text: str) -> str:
        """The name of the column with this name or display name; the text itself if there is none."""
        return text if text in self else next((own for own, name in self.display_names.items() if name == text), text)

    @property
    def skips(self) -> tuple[Skip, ...]:
        """Blocks of questions that are asked only after certain answers to another question, found or declared."""
        return self._skips or ()

    @property
    def determined(self) -> tuple[Determined, ...]:
        """Columns whose answer follows from another one, each with the rule and how often it is right."""
        return self._determined or ()

    @cached_property
    def sources(self) -> dict[str, str]:
        """Of each column that follows from another one, or the other way, the one that stands for all of them."""
        return following.sources(self.modelled, self.determined)

    def with_skips(self, skips: Sequence[Skip]) -> Schema:
        """A copy with other skips: a list of `Skip`, or [] for none.

        Parameters
        ----------
        skips : sequence of Skip
            They replace those that the schema has.

        Returns
        -------
        Schema

        Examples
        --------
        >>> schema = tb.Schema({"seen_any": tb.Binary(true="Yes"), "fan": tb.Binary(true="Yes")})
        >>> print(schema.with_skips([tb.Skip(["fan"], "seen_any", ["Yes"])]).skips[0])
        fan: asked only if seen_any = Yes
        """
        return self._with(self._columns, "given", skips=skips)

    @classmethod
    def infer(cls, frame: Any, *, missing: Mapping[Any, str] | Iterable[Any] = ()) -> Schema:
        """Detect the type of each column, with a reason for every choice.

        Parameters
        ----------
        frame : table
            pandas, polars, pyarrow, a 2-D array, a dict of columns, or the result of `from_long`. Of a scanned table
            (`tb.scan`) a sample of rows, with each value of columns that have few.
        missing : dict or list, optional
            Values that mean "no answer" in every column, such as [-9, -8] or {-9: "refused"}.

        Returns
        -------
        Schema
            One entry per question; `reasons` says why, and `skips` which questions are not asked of everyone. Print it
            to check it, and correct it with `with_type` and the like.

        Examples
        --------
        >>> schema = tb.Schema.infer({"fan": ["Yes", "No", None], "height": [1.71, 1.85, 1.62]})
        >>> [type(column).__name__ for column in schema.values()]
        ['Binary', 'Continuous']
        """
        from thurbo.table.guess.infer import infer  # only where types are detected

        source = frame.typical() if isinstance(frame, RowSource) else as_table(frame)
        book = source.book
        known = {*source.lists, *source.declared, source.owner}
        ordinary = tuple(name for name in source.names if name not in known)
        declared: Any = Ignore(missing=missing).missing

        found, titles = infer(ordinary, source.cells, source.kind == "numpy", book.notes, book.groups, dict(declared))
        columns = {name: each.column for name, each in found.items()}
        warn_of_spellings(columns)
        reasons = {name: with_alternative(each) for name, each in found.items()}
        reasons |= dict.fromkeys(source.lists, "each row lists few of many items")
        reasons |= dict.fromkeys(source.declared, "each cell is a list of comparisons")
        lists: dict[str, Column] = {name: Ratings(score=each.scores) for name, each in source.lists.items()}
        lists |= source.declared
        own: dict[str, Any] = {"titles": titles, "confidence": {name: each.confidence for name, each in found.items()}}
        if source.owner is None:
            columns |= lists
            rules = find_before_fit(columns, source)
            schema = cls(columns, reasons=reasons, skips=find_skips(columns, source, rules), **own)
            return schema._with(columns, "found", determined=rules or None)
        second = [name for name, column in columns.items() if column.role == "id"]
        columns |= dict.fromkeys(second, Ignore("a second row identifier"))
        reasons[source.owner] = "the row identifier of the long table"
        return cls({source.owner: Id(), **columns, **lists}, reasons=reasons, **own)

    def fit(self, frame: Any, *, sample_weight: Any = None) -> Schema:
        """A copy with every column fitted to a table: levels, locations and scales.

        Parameters
        ----------
        frame : table
            Any table that `infer` takes; it must have the columns of the schema.
        sample_weight : array-like of shape (n_rows,), optional
            How many rows each row stands for: 2 is two rows, 0 is none. The `Weight` column is not used.

        Returns
        -------
        Schema
            The fitted schema. `TBM.fit` calls this.

        Examples
        --------
        >>> tb.Schema({"party": tb.Categorical()}).fit({"party": ["Red", "Blue", "Red"]})["party"].labels
        ('Blue', 'Red')
        """
        source, weight = with_row_names(self._columns, as_table(frame)), sample_weight
        if weight is not None:
            weight = np.asarray(weight, np.float64)
            if weight.shape != (source.n_rows,) or not np.all(weight >= 0):
                problem = f"sample_weight of shape {weight.shape} is not one number of at least 0 for each row"
                raise SchemaError(problem, remedy=f"give {source.n_rows} numbers")
            if not weight.all():
                source, weight = source.take(np.flatnonzero(weight)), weight[weight > 0]
        fitted = {
            name: column.fit(source.answers(self._columns, name), weight) if column.source_columns(name) else column
            for name, column in self._columns.items()
        }
        warn_of_many_levels(fitted)
        determined = () if self._determined == () else find_determined(fitted, source, weight) or None
        is_new = self._skips is None or self._routing == "outdated"
        skips = find_skips(fitted, source, determined or ()) if is_new else self._skips
        return self._with(fitted, "found" if is_new else self._routing, skips=skips, determined=determined)

    @property
    def asked_of_all(self) -> list[str]:
        """Questions that do not depend on the answer to another one, without lists."""
        followed = {name for skip in self.skips for name in skip.columns}
        return [name for name in self.modelled if name not in followed and not self._columns[name].is_listed]

    def read_ordinals(self, by: Literal["utilities", "cuts"], columns: Iterable[str] | None = None) -> Schema:
        """A copy with ordered levels modelled in one of two ways.

        Parameters
        ----------
        by : {"utilities", "cuts"}
            "cuts": each question is one latent scale, divided by learned cuts (`Ordinal`). "utilities": each level has
            its own latent utility (`Categorical(ordered=True)`), more flexible; worth it with thousands of answers.
        columns : iterable of str, optional
            Names of the columns to change; all columns with ordered levels by default.

        Returns
        -------
        Schema

        Examples
        --------
        >>> schema = tb.Schema({"trust": tb.Ordinal(["none", "some", "a lot"])})
        >>> type(schema.read_ordinals("utilities")["trust"]).__name__
        'Categorical'
        """
        if by not in ("utilities", "cuts"):
            raise SchemaError(f"by={by!r} is not valid", remedy='use "utilities" or "cuts"')
        levels = self.with_ordered_levels
        asked = levels if columns is None else [columns] if isinstance(columns, str) else list(columns)
        for name in asked:
            if name not in levels:
                problem = f"{type(self[name]).__name__} has no ordered levels"
                remedy = f"remove it from columns; columns with ordered levels: {listing(levels) or 'none'}"
                raise SchemaError(problem, column=name, remedy=remedy)
        changed = {name: self[name].by_utilities() if by == "utilities" else self[name].by_cuts() for name in asked}
        return self._with({**self._columns, **changed})

    @property
    def with_ordered_levels(self) -> list[str]:
        """Names of the columns with ordered levels, which `read_ordinals` can model in two ways."""
        two_ways = {name: (column.by_utilities(), column.by_cuts()) for name, column in self._columns.items()}
        return [name for name, (one, other) in two_ways.items() if one is not other]

    def row_names(self, frame: Any) -> NDArray[Any]:
        """Row labels for messages: the cells of the Id column, or the index of the frame."""
        return with_row_names(self._columns, as_table(frame)).rows

    def weights(self, frame: Any, *, missing_columns: MissingColumns = "error") -> FloatArray | None:
        """The row weights in the Weight column of a table; None if the schema has no such column.

        Parameters
        ----------
        frame : table
            Any table that `infer` takes.
        missing_columns : {"error", "ignore"}, default "error"
            With "ignore", returns None if the table has no column of weights.

        Returns
        -------
        array of shape (n_rows,) or None
        """
        for name, column in self._columns.items():
            if column.role == "weight":
                source = with_row_names(self._columns, as_table(frame))
                if name in source:
                    return column.weights(source.cells(name))
                if missing_columns == "ignore":
                    return None
                remedy = f"{suggestion(name, source.names)}add it, or remove Weight from the schema"
                problem = "the schema has this column of weights, but the table does not have it"
                raise SchemaError(problem, column=name, remedy=remedy)
        return None

    def compile(
        self,
        frame: Any,
        *,
        missing_columns: MissingColumns = "error",
        given: Mapping[str, Any] | None = None,
        least_answers: int = 1,
    ) -> dict[str, Block]:
        """The inequalities that a table puts on the sites: one block per column, in order of the schema.

        Parameters
        ----------
        frame : table
            Any table that `infer` takes.
        missing_columns : {"error", "ignore"}, default "error"
            With "ignore", a column that the table does not have counts as missing in every row.
        given : mapping of str to value, optional
            A value or statement by column name; it replaces the cells of that column in every row.
        least_answers : int, default 1
            Answers to questions that everybody is asked (conditions included) that a row needs, so that what it does
            not answer is evidence.

        Returns
        -------
        dict of str to Block
        """
        given = given or {}
        for name in given:
            self[name]  # raises for an unknown column
        columns, source = self._columns, with_row_names(self._columns, as_table(frame))
        blocks, in_table = dict[str, Block](), set[str]()
        for name, column in columns.items():
            sources = column.source_columns(name)
            if any(each in source for each in sources):
                in_table.add(name)
            has_cells = sources and (missing_columns == "error" or name in in_table or name in source)
            if name in given:
                block = encoded_condition(column, name, given[name], source.n_rows)
            elif has_cells:
                block = column.encode(source.answers(columns, name, missing_columns))
            else:
                block = column.silent(source.n_rows)
            if block.family == "measured":
                block = not_too_far(block, name, None if name in given else source.rows)
            blocks[name] = in_standard_units(columns, block, source.rows, name)
        patterns = [name for name, column in columns.items() if column.role == "pattern"]
        if patterns:  # from which questions of the table, or of the conditions, each row answers
            answered = {name: blocks[name].answered for name in columns if name in given or name in in_table}
            asked = self.asked_of_all if least_answers > 1 else columns
            counted = [own for name, own in answered.items() if name in asked and not columns[name].is_listed]
            some = np.sum([*counted, np.zeros(source.n_rows, bool)], axis=0) >= least_answers
            blocks |= {name: columns[name].from_answers(answered, some) for name in patterns}
        return blocks

    @cached_property
    def modelled(self) -> tuple[str, ...]:
        """Names of the questions that are part of the model: columns with sites that have cells in the table."""
        return tuple(name for name, column in self.items() if column.sites and column.role != "pattern")

    @cached_property
    def with_sites(self) -> tuple[str, ...]:
        """Names of all columns with sites: questions, and which blocks of them have answers."""
        return tuple(name for name, column in self.items() if column.sites)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Positions of each column's sites among all sites."""
        return _consecutive({name: len(column.sites) for name, column in self.items()})

    @property
    def n_sites(self) -> int:
        """Number of sites of the model, N."""
        return sum(len(column.sites) for column in self.values())

    @property
    def site_names(self) -> tuple[str, ...]:
        """ "column", or "column.label" if the column has several sites."""
        return tuple(f"{name}.{site}" if site else name for name, column in self.items() for site in column.sites)

    @property
    def site_columns(self) -> tuple[str, ...]:
        """Name of the column of each site."""
        return tuple(name for name, column in self.items() for _ in column.sites)

    @property
    def n_cuts(self) -> IntArray:
        """Number of learnable cuts of each site: [site]."""
        return self._by_site([column.n_cuts for column in self.values()]).astype(np.int32)

    @property
    def is_measured(self) -> BoolArray:
        """Which sites have a learned scale: measured numbers, and compared items with a threshold of ties: [site]."""
        return self._by_site([column.has_scale for column in self.values()]).astype(bool)

    @property
    def is_utility(self) -> BoolArray:
        """Which sites are utilities, which choices and orders compare: [site]."""
        return self._by_site([column.family == "utility" for column in self.values()]).astype(bool)

    @property
    def context(self) -> BoolArray:
        """Which items of its ranking may change the utility of each site once chosen, if any do: [site, item]."""
        sizes = {name: len(column.sites) for name, column in self.items() if column.has_context}
        found = np.zeros((self.n_sites, max(sizes.values(), default=0)), bool)
        for name, size in sizes.items():
            found[self.slices[name], :size] = ~np.eye(size, dtype=bool)
        return found

    def _by_site(self, values: list[Any]) -> NDArray[Any]:
        """A value of each column, as often as it has sites."""
        return np.repeat(np.asarray(values), [len(column.sites) for column in self.values()])

    @property
    def effect_slices(self) -> dict[str, slice]:
        """Positions of the features of each column whose items have attributes, among those of all columns."""
        designs = {name: column.design for name, column in self.items()}
        return _consecutive({name: own.matrix.shape[1] for name, own in designs.items() if own is not None})

    @property
    def listed(self) -> tuple[str, ...]:
        """Names of the columns of which each row has few of many sites: lists of items."""
        return tuple(name for name, column in self.items() if column.is_listed)

    @property
    def with_presence(self) -> tuple[str, ...]:
        """Names of the columns of which the model predicts which items a row has."""
        return tuple(name for name, column in self.items() if column.has_presence)

    @property
    def source_columns(self) -> dict[str, tuple[str, ...]]:
        """Columns of the table that hold the answers to each question; empty for columns outside the model."""
        return {name: column.source_columns(name) for name, column in self.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or TOML: skips, determined, and columns: {name: {"kind": ..., ..., "why": reason}}."""
        columns = {}
        for name, column in self._columns.items():
            sure = round(self._confidence.get(name, 0.0), 2)
            notes = {"title": self._titles.get(name), "confidence": sure, "why": self._reasons.get(name)}
            columns[name] = {**column.to_dict(), **{key: text for key, text in notes.items() if text}}
        state: dict[str, Any] = {}
        if self._skips is not None:
            state["skips"] = [skip.to_dict() for skip in self._skips]
        if self._determined is not None:
            state["determined"] = [each.to_dict() for each in self._determined]
        return {**state, "columns": columns}

    def declare_missing(self, missing: Mapping[Any, str] | Iterable[Any]) -> Schema:
        """A copy with values that mean "no answer" declared in every column that does not list them as answers.

        Parameters
        ----------
        missing : dict or list
            Values, or {value: name}, such as [-9, -8] or {-9: "refused"}.

        Returns
        -------
        Schema

        Examples
        --------
        >>> tb.Schema({"age": tb.Continuous()}).declare_missing([-9])["age"].missing
        ((-9, '-9'),)
        """
        columns = {name: column.with_missing(missing) for name, column in self._columns.items()}
        return self._with(columns, "outdated" if self._routing == "found" else None)

    def with_type(
        self, name: str | Sequence[str], kind: str | type[Column] | Column, *, table: Any = None, **settings: Any
    ) -> Schema:
        """A copy with another type for a question; its answers, names and missing codes are kept where they can be.

        Parameters
        ----------
        name : str or list of str
            Name of the question, or of several that are corrected alike.
        kind : str, type of column, or column
            "ordinal", `tb.Ordinal`, or `tb.Ordinal(["low", "high"])`.
        table : table, optional
            Any table that `infer` takes. With it, answers that the schema does not know are those of the table, the
            question is read once to see that it can be, and `skips` are found again.
        **settings
            Settings of the new column.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If the schema has no such question, or if its answers do not fit the type.

        Examples
        --------
        >>> schema = tb.Schema({"trust": tb.Categorical(["low", "high", "n/a"], missing=["-"])})
        >>> schema.with_type("trust", "ordinal")["trust"]  # doctest: +ELLIPSIS
        Ordinal(levels=('low', 'high', 'n/a'), ... missing=(('-', '-'),)...)
        """
        return self._with_each(corrections.retyped, name, table, kind, settings)

    def with_order(self, name: str | Sequence[str], labels: Sequence[Any], *, table: Any = None) -> Schema:
        """A copy with the answers to a question in another order, lowest first.

        Parameters
        ----------
        name : str or list of str
            As in `with_type`. A `Categorical` without an order becomes an `Ordinal`.
        labels : list
            All its answers, lowest first.
        table : table, optional
            As in `with_type`.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If the schema has no such question, or if these are not its answers.

        Examples
        --------
        >>> schema = tb.Schema({"trust": tb.Categorical(["a lot", "none", "some"])})
        >>> print(schema.with_order("trust", ["none", "some", "a lot"])["trust"].describe())
        none < some < a lot
        """
        return self._with_each(corrections.reordered, name, table, labels)

    def with_missing(
        self, name: str | Sequence[str], codes: Mapping[Any, str] | Iterable[Any], *, table: Any = None
    ) -> Schema:
        """A copy with other values that mean "no answer" to a question; `declare_missing` adds to all columns.

        Parameters
        ----------
        name : str or list of str
            As in `with_type`.
        codes : dict or list
            Values, or {value: name}. They replace those that the question has: one that is an answer is no longer
            among them, and one that is not named here becomes an answer again (with `table`, if it occurs).
        table : table, optional
            As in `with_type`.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If the schema has no such question, or if it has fewer than two answers left.

        Examples
        --------
        >>> schema = tb.Schema({"trust": tb.Ordinal(["low", "high", "other"], missing=["-"])})
        >>> schema.with_missing("trust", ["other", "-"])["trust"].describe()
        'low < high'
        >>> schema.with_missing("trust", [])["trust"].labels
        ('low', 'high', 'other', '-')
        """
        return self._with_each(corrections.with_codes, name, table, codes)

    def with_titles(self, titles: Mapping[str, str]) -> Schema:
        """A copy with other texts of some questions, which reports, segments and the command line show.

        Parameters
        ----------
        titles : dict
            {name: text}; an empty text means that the question is called by the name of its column.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If the schema has no such question.

        Examples
        --------
        >>> schema = tb.Schema({"q7": tb.Ordinal(["never", "often"])})
        >>> schema.with_titles({"q7": "How often do you cry?"}).display_names
        {'q7': 'How often do you cry?'}
        """
        for name in titles:
            self[name]
        return self._with(self._columns, titles=self._titles | dict(titles))

    def group(
        self,
        name: str,
        columns: Sequence[str] | Mapping[Any, str],
        kind: str | type[Column] = "multiselect",
        *,
        by: str | None = None,
        table: Any = None,
        **settings: Any,
    ) -> Schema:
        """A copy in which several columns are one question, in the place of the first of them.

        Parameters
        ----------
        name : str
            Name of the new question; it must not be that of a column of the table.
        columns : list of str, or {label: str}
            Columns of the table. In a list, the label of each is the only text of its cells, or else what its name
            does not share with the others.
        kind : str or type of column, default="multiselect"
            "multiselect", "ranking", or a type with one answer that is spread over exclusive columns ("categorical").
        by : str, optional
            Setting of the type that names the columns, such as "ranks", "scores", "places" or "mentions".
        table : table, optional
            As in `with_type`.
        **settings
            Settings of the new column.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If a column is missing, if the name is taken, or if the type cannot be spread over columns.

        Examples
        --------
        >>> schema = tb.Schema({"news: TV": tb.Binary(), "news: radio": tb.Binary(), "age": tb.Continuous()})
        >>> schema = schema.group("news", ["news: TV", "news: radio"])
        >>> schema.names, schema["news"].labels
        (('news', 'age'), ('TV', 'radio'))
        >>> schema.ungroup("news").names
        ('news: TV', 'news: radio', 'age')
        """
        source = None if table is None else as_table(table)
        given = columns.values() if isinstance(columns, Mapping) else columns
        members = [columns] if isinstance(columns, str) else list(given)
        for member in members:
            if self[member].source_columns(member) not in ((), (member,)):
                problem = "it is a question of several columns"
                raise SchemaError(problem, column=member, remedy="divide it with ungroup(name) first")
        if name in self or (source is not None and name in source):
            raise SchemaError("a column has this name", column=name, remedy="give the question a new name")
        if not isinstance(columns, Mapping):
            columns = corrections.options_of(members, self._titles, source)
        column = corrections.grouped(columns, name, kind, by, settings)
        made = {members[0]: {name: column}} | {member: {} for member in members[1:]} if members else {}
        has_titles = all(member in self._titles for member in members)
        titles = {name: corrections.stem_of(members, self._titles)} if has_titles else {}
        return self._corrected(made, source, titles=titles)

    def ungroup(self, name: str, *, table: Any = None) -> Schema:
        """A copy in which each column of a question of several columns is a question of its own.

        Parameters
        ----------
        name : str
            Name of the question.
        table : table, optional
            As in `with_type`; with it, the type of each column is detected.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If the schema has no such question, or if it has one column.

        Examples
        --------
        >>> schema = tb.Schema({"news": tb.MultiSelect(columns={"TV": "tv", "radio": "radio"})})
        >>> schema.ungroup("news").names
        ('tv', 'radio')
        """
        source = None if table is None else as_table(table)
        parts, reasons = corrections.ungrouped(self[name], name, source)
        titles = {} if source is None else {part: source.book.note(part).title for part in parts}
        return self._corrected({name: parts}, source, reasons, titles)

    def _with_each(self, correct: Any, names: str | Sequence[str], table: Any, *arguments: Any) -> Schema:
        """A copy in which some questions are corrected alike."""
        source = None if table is None else as_table(table)
        each = [names] if isinstance(names, str) else list(names)
        return self._corrected({name: {name: correct(self[name], name, source, *arguments)} for name in each}, source)

    def _corrected(
        self,
        made: Mapping[str, Mapping[str, Column]],
        source: Table | None,
        reasons: Mapping[str, str] | None = None,
        titles: Mapping[str, str] | None = None,
    ) -> Schema:
        """A copy with other questions in the place of some; with a table, they are read and skips are found again."""
        columns = {own: each for name in self for own, each in made.get(name, {name: self[name]}).items()}
        known = self._known(made, columns)
        for name, column in ((own, each) for parts in made.values() for own, each in parts.items()):
            if source is not None and column.role == "answer":  # which raises, if its cells cannot be read
                cells = source.answers(columns, name)
                column.fit(cells).encode(cells)
        if source is not None:
            known["skips"] = find_skips(columns, source, known["determined"] or ())
        known |= {"reasons": known["reasons"] | dict(reasons or {}), "titles": self._titles | dict(titles or {})}
        routing: Routing = "found" if source is not None else "given" if self._routing == "given" else "outdated"
        return self._with(columns, routing, **known)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` wrote, or a hand-written one with `missing` and `scales` for the whole file."""
        if not isinstance(state, Mapping) or not isinstance(state.get("columns"), Mapping):
            raise SchemaError("the schema has no columns", remedy='add a [columns."name"] table for each column')
        columns, entries = dict[str, Column](), with_scales(state)
        for name, entry in entries.items():
            if not isinstance(entry, Mapping):
                raise SchemaError(f"{show(entry)} is not a table", column=name, remedy='give it a kind = "..."')
            own = {key: value for key, value in entry.items() if key not in _NOTES}
            try:
                columns[name] = column_from_dict(own)
            except SchemaError as error:
                raise SchemaError(str(error), column=name) from None
        titles, confidence, reasons = (
            {name: read(entry[key]) for name, entry in entries.items() if key in entry} for key, read in _NOTES.items()
        )
        given = state.get("skips", [])
        listed = [Skip.from_dict(each) for each in (given if isinstance(given, list) else [given])]
        skips = listed if "skips" in state else None
        rules = [Determined.from_dict(each) for each in state["determined"]] if "determined" in state else None
        found = cls(columns, reasons=reasons, titles=titles, confidence=confidence, skips=skips, determined=rules)
        return found.declare_missing(state["missing"]) if state.get("missing") else found

    def to_toml(self, path: str | PathLike[str]) -> None:
        """Write the schema to a TOML file, to read and edit.

        Examples
        --------
        >>> import tempfile
        >>> schema = tb.Schema({"age": tb.Continuous()})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     schema.to_toml(f"{folder}/schema.toml")
        ...     tb.Schema.from_toml(f"{folder}/schema.toml") == schema
        True
        """
        write_atomically(path, as_toml(self.to_dict()))

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema from a TOML file.

        Parameters
        ----------
        path : str or path
            A file written by `to_toml` or by hand.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If the file cannot be read, is not TOML, or has a column with an unknown kind or setting.
        """
        try:
            return cls.from_dict(tomllib.loads(Path(path).read_bytes().decode("utf-8")))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SchemaError(f'"{path}" is not TOML: {error}', remedy="correct the file") from None
        except OSError as error:
            problem = f'cannot read "{path}": {error.strerror or error}'
            raise SchemaError(problem, remedy="check the file name") from None


def check_mapping(columns: Any) -> Mapping[str, Any]:
    """The columns, if they are given by name; otherwise an error."""
    if not isinstance(columns, Mapping):
        remedy = 'give a dict, such as {"age": tb.Continuous(), "fan": tb.Binary()}, or use Schema.infer(table)'
        raise SchemaError(f"{show(columns)} is not a mapping from names to columns", remedy=remedy)
    return columns


def _consecutive(sizes: Mapping[str, int]) -> dict[str, slice]:
    """Positions of each part among those of all, one after another."""
    ends = accumulate(sizes.values())
    return {name: slice(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)}


def with_row_names(columns: Mapping[str, Column], source: Table) -> Table:
    """The table with its rows labelled by the Id column, if the schema and the table have one."""
    for name, column in columns.items():
        if column.role == "id" and name in source:
            return replace(source, rows=column.rows(source.cells(name)))
    return source


class _UnknownColumnError(SchemaError, KeyError):
    """A name that the schema does not have; also a KeyError, so that `get` works as for any mapping."""

    def __str__(self) -> str:
        return str(self.args[0])
