"""§3, the interface of a data type: a column turns cells into inequalities on its sites, and latent values into cells.

A column reads `Cells` and produces a `Block`; `Column` is the interface of all types. NumPy only.
A new data type is one new module in this folder, and one line in the table of cases of the column tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from thurbo.errors import SchemaError
from thurbo.table.columns.cells import Block, BoolArray, Cells, Entries, Family, FloatArray, IntArray
from thurbo.table.columns.values import collection, is_label, natural, plain, show, spellings, suggestion

if TYPE_CHECKING:
    from thurbo.table.columns.forms.form import Form
    from thurbo.table.columns.listed import Design

Role = Literal["answer", "id", "weight", "ignored", "pattern"]
Measure = Literal["nominal", "ordinal", "scale", ""]
_SHARED = ("missing", "names", "recode", "columns", "ticked")  # settings that a question keeps if its type changes


@dataclass(frozen=True)
class Column(ABC):
    """A data type of a column in the user's table.

    Before `fit` it holds the user's settings; `fit` returns a copy with levels, or location and scale.
    Columns are immutable and can be converted to and from plain dictionaries (`to_dict`, `column_from_dict`). Values
    that mean "no answer" are declared with `missing={9: "Don't know", -1: "Refused"}`, or as a list. `Schema` treats
    them as missing and leaves them in the table, so that `missing_kinds` can count each kind. `recode={"Y": "Yes"}`
    reads a value as another one; the table itself is not changed.
    """

    kind: ClassVar[str]
    patterned: ClassVar[Any] = ()  # the questions of a column that says whether they were answered
    family: ClassVar[Family]
    form_type: ClassVar[type[Form] | None] = None  # what a cell says; None outside of the model
    role: ClassVar[Role] = "answer"
    is_ranking: ClassVar[bool] = False
    has_items: ClassVar[bool] = False  # whether its labels are items that `rank` can order
    has_tasks: ClassVar[bool] = False  # whether a cell is a list of comparisons, each with noise of its own
    has_site_per_label: ClassVar[bool] = False  # or one site in all
    is_one_label: ClassVar[bool] = False  # whether an answer is one of `labels`, and can decide what is asked next
    has_options: ClassVar[bool] = False  # whether it is any number of `labels`; each of them can decide that too
    registered: ClassVar[dict[str, Any]] = {}  # every kind of column by its name
    mappings: ClassVar[tuple[str, ...]] = ()  # settings that are given as {label: name of a column}
    choices: ClassVar[tuple[tuple[str, tuple[Any, ...]], ...]] = (("unseen", ("error", "missing")),)  # of its settings
    words: ClassVar[tuple[str, ...]] = ("missing",)  # settings that are given as {value: text}
    unseen: Literal["error", "missing"] = field(default="error", kw_only=True)
    missing: Mapping[Any, str] | Iterable[Any] = field(default=(), kw_only=True)  # stored as pairs: it is immutable
    recode: Mapping[Any, Any] | tuple[tuple[Any, Any], ...] = field(default=(), kw_only=True)  # stored as pairs

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            Column.registered[cls.kind] = cls

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in (*self.mappings, *self.words, "recode") and isinstance(value, Mapping):
                value = list(value.items())
            # Text in settings is stripped, except a separator that is only white space.
            if not (item.name == "sep" and isinstance(value, str) and not value.strip()):
                object.__setattr__(self, item.name, _immutable(value, item.name))
        for cls in type(self).__mro__:
            for name, allowed in cls.__dict__.get("choices", ()):
                value = getattr(self, name)
                if not any(type(value) is type(each) and value == each for each in allowed):
                    known = " or ".join(f'"{each}"' if isinstance(each, str) else str(each) for each in allowed)
                    raise SchemaError(f"{name}={value!r} is not understood", remedy=f"use {known}")
        _check_recode(self.recode)
        for setting in self.words:
            object.__setattr__(self, setting, _words(getattr(self, setting), setting, getattr(self, "names", ())))
        self._check()
        written = {str(label): label for label in self.labels}  # in hand-written files all keys are text
        written |= {label: label for label in self.labels}
        for setting in self.words:
            pairs = tuple((written.get(key, key), text) for key, text in getattr(self, setting))
            object.__setattr__(self, setting, pairs)
        for value, name in self.declared_missing:
            if value in self.labels:
                problem = f"{show(value)} is one of the labels, and is declared missing ({name})"
                raise SchemaError(problem, remedy="remove it from one of the two")

    def _check(self) -> None:  # noqa: B027  (most columns have no further checks)
        """Check the settings when the column is created, not when it is used."""

    def fit(self, cells: Cells, weight: FloatArray | None = None) -> Self:
        """Learn from cells what encoding needs: levels, or location and scale; weight 2 is two cells, 0 is none."""
        weight = np.ones(len(cells)) if weight is None else weight
        counts = np.flatnonzero(weight > 0)
        if len(counts) == len(cells):
            return self._fit(cells, weight)
        return self._fit(cells.take(counts), weight[counts])

    def _fit(self, cells: Cells, weight: FloatArray) -> Self:
        """`fit` to cells with positive weights, [row]; by default there is nothing to learn."""
        return self

    @abstractmethod
    def encode(self, cells: Cells) -> Block:
        """Turn cells into inequalities; raises SchemaError naming row, column, value and remedy."""

    @abstractmethod
    def decode(self, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> NDArray[Any]:
        """Turn latent values [row, site] into cells [row], given the cuts [site, cut] and scale [site]."""

    def codes(self, block: Block) -> IntArray:
        """The only label that each line allows: [line], −1 if there are several or none."""
        return block.label

    def by_utilities(self) -> Column:
        """Ordered levels with one utility per level instead of one site between cuts; any other column is itself."""
        return self

    def by_cuts(self) -> Column:
        """Ordered levels as one site between learned cuts instead of one utility each; any other column is itself."""
        return self

    @abstractmethod
    def describe(self) -> str:
        """One line of text: the meaning of a cell."""

    def as_type(self, kind: type[Column], **settings: Any) -> Column:
        """The question as another type, with what both types say of its cells; `settings` come first."""
        both = {item.name for item in fields(self)} & {item.name for item in fields(kind)} & set(_SHARED)
        kept = {name: value for name in both if (value := getattr(self, name)) not in ((), None)}
        return kind(**{**kept, **kind.answers_of_type(self), **settings})

    @classmethod
    def answers_of_type(cls, column: Column) -> dict[str, Any]:
        """The settings that give a column of this type the answers of another column."""
        return {}

    def with_answers(self, labels: Sequence[Any], **settings: Any) -> Column:
        """The same question with these answers, lowest first where they have an order, and with other settings."""
        return replace(self, **settings)

    def ordered_as(self, labels: Sequence[Any]) -> Column:
        """The same answers in this order, lowest first."""
        problem = f"the answers of {type(self).__name__} have no order that could be changed"
        raise SchemaError(problem, remedy='change its type first, for example to "ordinal"')

    def separated(self) -> dict[str, Column]:
        """Each column of the table that the question consists of, as a question of its own."""
        return {}

    @property
    def form(self) -> Form:
        """The form of its answers, which implements what queries, evaluation and reports need."""
        if self.form_type is not None:
            return self.form_type(self)
        problem = f"a column of kind {self.kind} is not part of the model ({self.describe()})"
        raise SchemaError(problem, remedy="use another column")

    @property
    def is_listed(self) -> bool:
        """Whether each row has few of its many sites (a list of items), or all rows have the same."""
        return False

    @property
    def has_scale(self) -> bool:
        """Whether its sites have a learned scale: that of numbers, or a threshold of ties."""
        return self.family == "measured"

    @property
    def design(self) -> Design | None:
        """The attributes of its items as features; None without attributes."""
        return None

    @property
    def has_context(self) -> bool:
        """Whether an answer is choices one after another, of which the earlier ones may change the later ones."""
        return False

    @property
    def has_presence(self) -> bool:
        """Whether the model also predicts which items a row has, besides what the row says of them."""
        return False

    @property
    def is_last(self) -> bool:
        """Whether the items that a row does not name are below those that it names."""
        return False

    def source_columns(self, name: str) -> tuple[str, ...]:
        """Columns of the table that hold the answers to this question; none if it is not read."""
        return (name,)

    def decode_columns(self, name: str, x: FloatArray, cuts: FloatArray, scale: FloatArray) -> dict[str, NDArray[Any]]:
        """Latent values as the columns of the table that `source_columns` names, each in its own coding."""
        return self.to_columns(name, self.decode(x, cuts, scale))

    def to_columns(self, name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Answers, one value for each row, as the columns of the table that `source_columns` names."""
        return {name: values}

    @property
    def label_of_source(self) -> dict[str, str]:
        """The text of the label that each column of the table stands for, if there is one column for each label."""
        return {}

    def from_answers(self, answered: Mapping[str, BoolArray], some: BoolArray) -> Block:
        """The block of a column without cells of its own, derived from which questions are answered."""
        raise NotImplementedError(f"a column of kind {self.kind} has cells")

    def list_cells(self, row: NDArray[Any], site: NDArray[Any], values: Any, n_rows: int) -> NDArray[Any]:
        """Predicted values of items as cells of the `n_rows` rows, in the listed layout: the items, best first."""
        cells = np.fromiter(([] for _ in range(n_rows)), object, n_rows)
        for line in np.lexsort((-np.asarray(values, np.float64), row)).tolist():
            cells[int(row[line])].append(self.labels[int(site[line])])
        return cells

    def given_cells(self, cells: Cells) -> NDArray[Any]:
        """The cells as the user gave them, in the listed layout: {item: score}, or items from best to worst."""
        raise NotImplementedError(f"a column of kind {self.kind} has no lists")

    def shortened(self, cells: Cells, block: Block, masked: BoolArray) -> NDArray[Any]:
        """The cells without the tasks of the masked lines."""
        raise NotImplementedError(f"a column of kind {self.kind} has no tasks")

    def extended(
        self, cells: Cells, row: NDArray[Any], site: NDArray[Any], values: Any, entries: Entries, utility: NDArray[Any]
    ) -> NDArray[Any]:
        """Cells with predicted items added, in the listed layout; `utility` places the given entries among them."""
        rows, sites = np.concatenate([entries.row, row]), np.concatenate([entries.site, site])
        return self.list_cells(rows, sites, np.concatenate([utility, values]), entries.n_rows)

    def gaps(
        self, name: str, given: Mapping[str, Cells], kinds: Iterable[str], answered: BoolArray
    ) -> dict[str, BoolArray]:
        """Which cells of its columns are imputed: all fillable ones; of several columns, in rows without any answer.

        `kinds` are those of missing values that are filled, `answered` the rows with an answer, [row].
        """
        gone = {source: self.fillable(own, kinds) for source, own in given.items()}
        if self.source_columns(name) == (name,):
            return gone
        kept = [self.answered(own).missing & ~gone[source] for source, own in given.items()]
        silent = ~answered & ~np.any(kept, axis=0)
        return {source: own & silent for source, own in gone.items()}

    def unanswered(self, cells: Cells) -> BoolArray:
        """Rows without any answer, in the cells as the column reads them: [row]."""
        parts = [part.missing for part in cells.parts.values()]
        return cells.missing & np.all(parts, axis=0) if parts else cells.missing

    @property
    def labels(self) -> tuple[Any, ...]:
        """The values a cell can take, in order; empty for a measured column. With several sites, one label each."""
        return ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Display text of each of `labels`."""
        return tuple(map(str, self.labels))

    @property
    def answer_labels(self) -> tuple[Any, ...]:
        """The labels of one answer: `labels`, or the levels of the items of a list."""
        return self.labels

    @property
    def is_named(self) -> BoolArray:
        """Whether each of `answer_labels` is one answer, [label]; a category that joins several answers is not."""
        return np.ones(len(self.answer_labels), bool)

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """Display text of each of `answer_labels`."""
        return self.texts if self.answer_labels == self.labels else tuple(map(str, self.answer_labels))

    def answers_of(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Labels of codes in their natural dtype; a negative code is missing: None, or NaN among numbers."""
        return natural(self.answer_labels, codes)

    @property
    def level_numbers(self) -> FloatArray:
        """A number for each of `answer_labels`: the label itself, or its position from 1."""
        labels = self.answer_labels
        if all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in labels):
            return np.asarray(labels, np.float64)
        return np.arange(1.0, len(labels) + 1)

    @property
    def has_order(self) -> bool:
        """Whether `labels` are in order from lowest to highest; irrelevant for two labels."""
        return False

    @property
    def sites(self) -> tuple[str, ...]:
        """Labels of the sites within the column."""
        return tuple(map(str, self.labels)) if self.has_site_per_label else ("",)

    @property
    def n_cuts(self) -> int:
        """Number of learned cuts of each of its sites."""
        return max(len(self.labels) - 1, 0)

    @property
    def measure(self) -> Measure:
        """Measurement level, as stored in SPSS files; empty if no single level applies."""
        if self.has_order or self.family == "measured":
            return "ordinal" if self.has_order else "scale"
        return "nominal" if self.family == "levels" and self.sites == ("",) else ""

    def linear_units(self) -> tuple[float, float]:
        """Location and scale of its sites in the user's units, as linear inequalities need them."""
        return 0.0, 1.0

    def rows(self, cells: Cells) -> NDArray[Any]:
        """Row labels for messages: [row]; an `Id` column returns its cells."""
        return cells.rows

    def weights(self, cells: Cells) -> FloatArray:
        """Row weights: [row]; 1 for every column but `Weight`."""
        return np.ones(len(cells))

    @property
    def declared_missing(self) -> tuple[tuple[Any, str], ...]:
        """Values that mean "no answer", each with the name of its kind."""
        stored: Any = self.missing
        return stored

    def recoded(self, cells: Cells) -> Cells:
        """The cells with each value in `recode` read as another value; parts included."""
        table = {each: to for value, to in dict(self.recode).items() for each in spellings(value)}
        if not table:
            return cells
        parts = {name: self.recoded(part) for name, part in cells.parts.items()}
        ordered = cells.ordered_levels and tuple(dict.fromkeys(table.get(each, each) for each in cells.ordered_levels))
        cells = replace(cells, ordered_levels=ordered, parts=parts)
        is_concerned = not table.keys().isdisjoint(cells.hashable().factorise()[0])
        return cells.mapped(lambda value: table.get(value, value)) if is_concerned else cells

    def refuse(self, cells: Cells, bad: BoolArray, problem: str, remedy: str = "") -> None:
        """Raise an error for the first bad cell, whose value stands for "{}", unless such cells count as missing."""
        if self.unseen == "error" and bad.any():
            position, kind = int(bad.argmax()), type(self).__name__
            remedy = remedy or f'correct the cell, or treat such cells as missing with {kind}(unseen="missing")'
            raise cells.error(position, problem.replace("{}", show(cells.values[position])), remedy)

    def interpreted(self, cells: Cells) -> Cells:
        """The cells after `recode`, with text read in the notation of the column, if it has one."""
        return cells

    def joined(self, cells: Cells) -> Cells:
        """The cells with one answer for each row, if the question has a column for each of its labels."""
        return cells

    def answered(self, cells: Cells) -> Cells:
        """The cells as the column reads them: recoded, and declared missing values (or their names) as missing."""
        return self.interpreted(self._less_missing(self.recoded(cells)))

    def _less_missing(self, cells: Cells) -> Cells:
        if not self.declared_missing:
            return cells
        gone = {value for value, _ in self.declared_missing}
        ordered = cells.ordered_levels and tuple(level for level in cells.ordered_levels if plain(level) not in gone)
        parts = {name: self._less_missing(part) for name, part in cells.parts.items()}
        return replace(cells, missing=cells.missing | (self._kind(cells) >= 0), ordered_levels=ordered, parts=parts)

    def with_missing(self, missing: Mapping[Any, str] | Iterable[Any]) -> Self:
        """A copy with more values declared missing, except those that are answers or are declared already."""
        given = list(missing.items()) if isinstance(missing, Mapping) else missing
        stored = _words(_immutable(given, "missing"), "missing", getattr(self, "names", ()))
        known = {*self.labels, *map(str, self.labels)}
        known |= {each for value, _ in self.declared_missing for each in spellings(value)}
        extra = [(value, text) for value, text in stored if not set(spellings(value)) & known]
        return replace(self, missing=(*self.declared_missing, *extra)) if extra else self

    def missing_kinds(self, cells: Cells) -> dict[str, int]:
        """Number of cells with each kind of missing value by its name, and of empty cells ("no answer")."""
        cells = self.recoded(cells)
        parts = list(cells.parts.values()) or [cells]
        kinds, found = np.concatenate([self._kind(part) for part in parts]), Counter[str]()
        for place, (_, name) in enumerate(self.declared_missing):
            found[name] += int((kinds == place).sum())
        found["no answer"] += sum(int(part.missing.sum()) for part in parts)
        return dict(found)

    def fillable(self, cells: Cells, kinds: Iterable[str] = ()) -> BoolArray:
        """Cells that imputation may fill: empty ones, and those with a missing value of one of these kinds: [row]."""
        chosen = [place for place, (_, name) in enumerate(self.declared_missing) if name in set(kinds)]
        return cells.missing | np.isin(self._kind(cells), chosen) if chosen else cells.missing

    def _kind(self, cells: Cells) -> IntArray:
        """Index of the declared missing value in each cell, given as value or as name: [row], −1 if none."""
        kind = np.full(len(cells), -1, np.int32)
        labels, declared = {*map(str, self.labels), *self.texts}, list(enumerate(self.declared_missing))
        known: dict[Any, int] = {name: place for place, (_, name) in declared if name not in labels}
        known |= {each: place for place, (value, _) in declared for each in spellings(value)}
        if cells.values.dtype.kind in "biuf":
            for value in (value for value in known if not isinstance(value, str)):
                kind[cells.values == value] = known[value]
        else:
            values = map(plain, cells.values.tolist())
            kind[:] = [known.get(value, -1) if is_label(value) else -1 for value in values]
        return np.where(cells.missing, np.int32(-1), kind)

    @property
    def learning_settings(self) -> dict[str, Any]:
        """Training settings of this column, by name; only lists have such settings."""
        return {}

    def silent(self, n_rows: int) -> Block:
        """The block of this column for rows without answers."""
        code = np.full((0, 1) if self.is_listed else (n_rows, len(self.sites)), -1, np.int32)
        entries = Entries(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int32)) if self.is_listed else None
        return Block(self.sites, code=code, n_cuts=self.n_cuts, family=self.family, entries=entries)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON/TOML-ready values from which `from_dict` rebuilds the column, including its fitted state."""
        state: dict[str, Any] = {"kind": self.kind}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default:
                is_table = item.name in (*self.mappings, *self.words, "recode")
                pairs = is_table and all(isinstance(key, str) for key, _ in value)
                state[item.name] = {key: _lists(entry) for key, entry in value} if pairs else _lists(value)
        return state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Rebuild a column from the dictionary of `to_dict`."""
        known = [item.name for item in fields(cls)]
        settings = {name: value for name, value in state.items() if name != "kind"}
        for name in settings:
            if name not in known:
                remedy = f"{suggestion(name, known)}its settings are {', '.join(known)}"
                raise SchemaError(f'a column of kind {cls.kind} has no setting "{name}"', remedy=remedy)
        return cls(**settings)


def not_fitted(column: object, what: str, name: str | None = None) -> SchemaError:
    """The error for a column of which `fit` has not learned `what` yet."""
    problem = f"{type(column).__name__} is not fitted: its {what} are not known"
    return SchemaError(problem, column=name, remedy="fit it first")


def are_pairs(value: Any) -> bool:
    """Whether a setting was given as a dictionary, which is stored as pairs."""
    return isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)


def check_column(name: Any, column: Any) -> None:
    """Check that an entry of a schema is a name and a column object."""
    if not isinstance(name, str):
        raise SchemaError(f"the column name {name!r} is not text", remedy="use text as column names")
    if isinstance(column, type) and issubclass(column, Column):
        problem = f"{column.__name__} is a class, not a column object"
        raise SchemaError(problem, column=name, remedy=f"write {column.__name__}() with parentheses")
    if not isinstance(column, Column):
        problem = f"{column!r} is not a column type"
        raise SchemaError(problem, column=name, remedy="use a column type, for example Continuous()")


def _immutable(value: Any, name: str) -> Any:
    """Lists and arrays as tuples of plain values, so that columns can be compared, hashed and written to files."""
    if isinstance(value, dict):
        raise SchemaError(f"{name}={value!r} is a dictionary", remedy="give a list in order")
    if isinstance(value, (set, frozenset)):
        value = collection(value)
    if isinstance(value, Iterable) and not isinstance(value, (str, np.generic)):
        return tuple(_immutable(entry, name) if isinstance(entry, (list, tuple)) else plain(entry) for entry in value)
    return plain(value)


def _words(value: Any, setting: str, names: Any) -> tuple[tuple[Any, str], ...]:
    """{value: text} as pairs; a value without text is its own text, or has the name that `names` gives it."""
    if not isinstance(value, tuple):
        raise SchemaError(f"{setting}={value!r} is not a list", remedy=f'give {setting}={{9: "Don\'t know"}} or a list')
    known = dict(names) if setting == "missing" else {}
    pairs = [each if isinstance(each, tuple) and len(each) == 2 else (each, known.get(each, each)) for each in value]
    for place, (key, text) in enumerate(pairs):
        if not is_label(key):
            problem = f"{setting} has {show(key)}, which cannot be the value of a cell"
            raise SchemaError(problem, remedy="use text, numbers or booleans")
        if not is_label(text) or text == "":
            raise SchemaError(f"{setting} has {show(text)} as the name of {show(key)}", remedy="give a text")
        if key in [other for other, _ in pairs[:place]]:
            raise SchemaError(f"{setting} has {show(key)} twice", remedy="name each value once")
    return tuple((key, str(text)) for key, text in pairs)


def _check_recode(pairs: Any) -> None:
    """Check that `recode` is a dictionary of values that cells can have."""
    if not are_pairs(pairs) or not all(is_label(value) and value != "" for pair in pairs for value in pair):
        raise SchemaError(f"recode={pairs!r} is not a dictionary of values", remedy='give recode={"Y": "Yes"}')
    for value, to in pairs:
        if dict(pairs).get(to, to) != to:
            raise SchemaError(f"recode changes {show(value)} to {show(to)}, and {show(to)} again", remedy="do it once")


def _lists(value: Any) -> Any:
    return [_lists(entry) for entry in value] if isinstance(value, tuple) else value


def column_from_dict(state: dict[str, Any]) -> Column:
    """Rebuild a column of any type from the dictionary of its `to_dict`."""
    if state.get("kind") is None:
        raise SchemaError("the column has no kind", remedy=f"give it one of the kinds {', '.join(Column.registered)}")
    return column_type(state["kind"]).from_dict(state)


def column_type(kind: Any) -> type[Column]:
    """A type of column: the class itself, or by its name in a schema file."""
    if isinstance(kind, type) and issubclass(kind, Column):
        return kind
    kinds = Column.registered
    if kind not in kinds:
        remedy = f"{suggestion(kind, kinds)}the kinds are {', '.join(kinds)}"
        raise SchemaError(f'there is no kind of column "{kind}"', remedy=remedy)
    return kinds[kind]
