"""A schema to correct in the browser: questions with their answers, and one correction after another. No network here.

Idea: the state is a list of schemas, each the one before with one correction, and a place in it; undo and redo move the
place. A request names the version it has seen, so that two windows cannot overwrite each other. Answers are named by
their position, because labels may be numbers, texts or booleans.
Guarantees that only the schema file is written, completely or not at all, and that failures are sentences.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thurbo.errors import SchemaError, ThurboError, in_toml
from thurbo.table.columns.column import Column
from thurbo.table.columns.values import listing, show
from thurbo.table.io.frames import Table, as_table
from thurbo.table.schema.corrections import stem_of
from thurbo.table.schema.descriptions import OTHERWISE, doubts
from thurbo.table.schema.naming import full_text, grids
from thurbo.table.schema.routing import find_skips, not_asked, unanswered, when
from thurbo.table.schema.routing import kept as still
from thurbo.table.schema.schema import Schema

MOST_SHOWN = 200  # answers to a question; more cannot be corrected one by one
MOST_EXAMPLES = 8  # texts of a column that is left out
MOST_TEXT = 1000  # letters of a question
MOST_STEPS = 1000  # that can be undone
N_BINS = 24  # of a histogram
_TYPES = tomllib.loads(files("thurbo.app").joinpath("assets/editor.toml").read_text("utf-8"))
ALONE, TOGETHER = _TYPES["alone"], _TYPES["together"]
_BY = {"places": ("ranking", "places"), "mentions": ("multiselect", "mentions")}


Correction = Callable[[list[str], Mapping[str, Any]], tuple[Schema, str]]  # of some questions, with what is said


class Bars(NamedTuple):
    """How often each answer occurs: of labels, of missing codes, or of bins of a number."""

    record: dict[str, Any]  # for the page
    missing: Sequence[Any] = ()  # codes that mean "no answer"
    answers: Sequence[Any] = ()  # values that can be put in order


class Editor:
    """The schema of a table while it is corrected; `output` is the file that `save` writes."""

    command: ClassVar[str] = "thurbo check --edit"
    page: ClassVar[str] = "editor"

    def __init__(
        self,
        schema: Schema,
        table: Any,
        output: Path,
        title: str = "Survey",
        is_saved: bool = False,
        data: Path | None = None,  # the file of the table
    ):
        self.table: Table = as_table(table)
        self.output, self.title, self.data = Path(output), title, data
        found = find_skips(schema, self.table)
        self._finds_skips = not schema.skips or set(schema.skips) == set(found)  # others were written by hand
        self._steps, self._at, self._version = [schema.with_skips(schema.skips or found)], 0, 0
        self._saved = self.schema if is_saved else None
        self._known: dict[str, tuple[Any, dict[str, Any]]] = {}  # what a record was made from, and the record
        self._bars: dict[str, Bars] = {}
        self._shown = self._records()

    @property
    def schema(self) -> Schema:
        """The schema as it is now."""
        return self._steps[self._at]

    @property
    def is_saved(self) -> bool:
        """Whether the file holds the schema as it is now."""
        return self.schema is self._saved

    @property
    def questions(self) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
        """What the page can ask, by the last part of the address."""
        changes = self.type, self.order, self.missing, self.instead, self.confirm, self.group, self.ungroup, self.text
        return {
            "survey": lambda asked: self.survey(),
            "save": lambda asked: self.save(),
            "undo": partial(self._moved, -1, "undo", "Undone."),
            "redo": partial(self._moved, 1, "redo", "Done again."),
            **{change.__name__: partial(self._corrected, change) for change in changes},
        }

    def survey(self) -> dict[str, Any]:
        """Everything that the page shows."""
        return {
            "title": self.title,
            "n_rows": self.table.n_rows,
            "path": str(self.output),
            "kinds": {"alone": ALONE, "together": TOGETHER},
            **self._state(list(self._shown.values())),
        }

    def save(self) -> dict[str, Any]:
        """Write the schema file, completely or not at all."""
        self.schema.to_toml(self.output)
        self._saved = self.schema
        model = self.output.with_suffix(".thurbo")
        follows = f"thurbo fit {self.data} -s {self.output} -o {model}" if self.data else ""
        return {"said": f"Saved to {self.output}." + f" Next: {follows}" * bool(follows), **self._state([])}

    def _corrected(self, change: Correction, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Go on from here with a corrected schema."""
        self._check_version(asked)
        names = asked.get("columns" if change == self.group else "names")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ThurboError("names are a list of questions")
        for name in names:
            if name not in self.schema:
                raise ThurboError(f"“{name[:80]}” is not a question of the schema; reload the page")
        schema, said = change(list(dict.fromkeys(names)), asked)
        if not self._finds_skips:
            schema = schema.with_skips(still(self.schema.skips, schema))
        self._steps = [*self._steps[: self._at + 1], schema][-MOST_STEPS:]
        self._at = len(self._steps) - 1
        return self._changed(said)

    def _moved(self, step: int, what: str, said: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """One correction back, or forward again."""
        self._check_version(asked)
        if not 0 <= self._at + step < len(self._steps):
            raise ThurboError(f"there is nothing to {what}")
        self._at += step
        return self._changed(said)

    def _check_version(self, asked: Mapping[str, Any]) -> None:
        if type(asked.get("version")) is not int or asked["version"] != self._version:
            raise ThurboError("the schema was changed in another window; reload the page")

    def _changed(self, said: str) -> dict[str, Any]:
        """The questions that differ from those on show."""
        before, self._shown = self._shown, self._records()
        self._version += 1
        changed = [record for name, record in self._shown.items() if before.get(name) != record]
        return {"said": said, **self._state(changed)}

    def _state(self, questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            "version": self._version,
            "undo": self._at > 0,
            "redo": self._at + 1 < len(self._steps),
            "saved": self.is_saved,
            "order": list(self.schema.names),
            "questions": questions,
        }

    def type(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """Another type for some questions."""
        kind = asked.get("kind")
        if not isinstance(kind, str) or kind not in Column.registered:
            raise ThurboError("choose a type from the list")
        schema = self.schema.with_type(names, kind, table=self.table)
        return schema, f"{_counted(names)}: {ALONE.get(kind, kind).lower()}."

    def order(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """Another order of the answers to some questions, given as their positions so far."""
        labels = _picked(self._bars[names[0]].answers, asked)
        schema = self.schema.with_order(names, labels, table=self.table)
        return schema, f"{_counted(names)}: {' < '.join(map(str, labels[:4]))}{' < …' if len(labels) > 4 else ''}."

    def missing(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """Other codes that mean "no answer": positions of answers and of missing codes, and codes that were typed."""
        bars, declared, typed = self._bars[names[0]], self.schema[names[0]].declared_missing, asked.get("typed")
        codes = dict.fromkeys(_picked([*bars.answers, *bars.missing], asked), "")
        if typed is not None:
            if not isinstance(typed, str) or not typed.strip() or len(typed) > 200:
                raise ThurboError("a code is a number or a text of up to 200 letters")
            codes[typed.strip()] = ""
        codes |= {code: text for code, text in declared if code in codes}
        schema = self.schema.with_missing(names, codes, table=self.table)
        return schema, f"{_counted(names)}: {', '.join(map(str, codes)) or 'nothing'} counted as missing."

    def text(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """Another text of a question."""
        name, text = names[0], asked.get("text")
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            raise ThurboError(f"the text of a question has at most {MOST_TEXT} letters")
        schema = self.schema.with_titles({name: " ".join(text.split())})
        return schema, f"“{name}” is called “{schema.display_names[name]}”."

    def instead(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """The other type that the reason of a type names."""
        schema, column = self.schema, self.schema[names[0]]
        other = _alternative(schema.reasons.get(names[0], ""), column)
        if other is None:
            raise ThurboError(f"nothing else is known that “{names[0]}” could be; choose a type from the list")
        if other.answers:
            kept = {code: text for code, text in column.declared_missing if code not in other.answers}
            schema = schema.with_missing(names, kept)
        return schema.with_type(names, other.kind, table=self.table), f"{_counted(names)}: {other.words.lower()}."

    def group(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """Several columns as one question."""
        kind, name = asked.get("kind"), asked.get("name")
        if not isinstance(kind, str) or kind not in TOGETHER:
            raise ThurboError("choose how the columns belong together from the list")
        if name is not None and (not isinstance(name, str) or len(name) > 200):
            raise ThurboError("a name is a text of up to 200 letters")
        wanted = (name or "").strip() or stem_of(names, self.schema.titles) or "question"
        numbered = (f"{wanted} ({number})" for number in count(2))
        unique = next(each for each in chain([wanted], numbered) if each not in {*self.schema, *self.table.names})
        made, by = _BY.get(kind, (kind, None))
        schema = self.schema.group(unique, names, made, by=by, table=self.table)
        return schema, f"{len(names)} columns are one question, “{unique}”."

    def ungroup(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """The columns of a question on their own."""
        return self.schema.ungroup(names[0], table=self.table), f"“{names[0]}” is divided into its columns."

    def confirm(self, names: list[str], asked: Mapping[str, Any]) -> tuple[Schema, str]:
        """The types of some questions as if they were given by hand: without the reason why they were detected."""
        return self.schema | {name: self.schema[name] for name in names}, f"{_counted(names)}: confirmed."

    def _records(self) -> dict[str, dict[str, Any]]:
        """All questions in order, by name; those that did not change are not counted again."""
        schema, skipped = self.schema, {name: skip for skip in self.schema.skips for name in skip.columns}
        out, near = not_asked(schema, schema.skips, self.table), grids(schema, schema.titles)
        why = {name: each.why for each in doubts(schema) for name in each.names}
        alike: dict[Any, list[str]] = {}
        for name, column in schema.items():
            from_ = (skipped, schema.reasons, why, schema.display_names, schema.titles)
            key = column, *(each.get(name) for each in from_)
            if name not in self._known or self._known[name][0] != key:
                self._known[name] = key, self._record(name, column, out.get(name), why.get(name, ""), skipped.get(name))
            bars = self._bars[name]
            n = len(bars.answers)
            if column.is_one_label and n > 1 and (n > 2 or name in near):
                answers = column.kind, column.has_order, *map(str, (*bars.answers, *bars.missing))
                alike.setdefault((answers, None if n > 2 else near[name]), []).append(name)
        same = {name: names for names in alike.values() if len(names) > 1 for name in names}
        return {name: {**self._known[name][1], "same": same.get(name, [])} for name in schema}

    def _record(self, name: str, column: Column, out: Any, why: str, skip: Any) -> dict[str, Any]:
        problem, schema, labels = "", self.schema, column.label_of_source
        try:
            bars = self._counted(name, column)
        except ThurboError as error:
            problem, bars = in_toml(str(error)), Bars({})
        self._bars[name] = bars
        sources = column.source_columns(name)
        members = [{"column": each, "label": labels.get(each, "")} for each in sources if sources != (name,)]
        kinds = {*(TOGETHER if members else ALONE), "ignore"}
        reason = schema.reasons.get(name, "")
        other = _alternative(reason, column) if why else None
        return {
            "name": name,
            "brief": schema.display_names[name],
            "text": full_text(name, schema.titles),
            "title": schema.titles.get(name, ""),
            "kind": column.kind,
            "type": type(column).__name__,
            "known": column.kind in kinds and not column.is_listed,  # whether the page can change its type
            "role": column.role,
            "means": column.describe(),
            "why": in_toml(reason),
            "check": problem or in_toml(why),
            "instead": "" if other is None else other.words,
            "members": members,
            "skip": "" if skip is None else f"asked only if {skip.asked_if} {when(schema, skip)}",
            "n_not_asked": 0 if out is None else int((out & unanswered(schema, self.table, name)).sum()),
            **bars.record,
        }

    def _counted(self, name: str, column: Column) -> Bars:
        """The answers to a question with the number of rows of each."""
        if column.role != "answer" or column.form_type is None:
            return Bars(self._left_out(name))
        cells, declared = self.table.answers(self.schema, name), column.declared_missing
        fitted = column.fit(cells)
        answers = fitted.form.answers(name, fitted.encode(cells))
        silent = unanswered(self.schema, self.table, name)
        n_silent = int(silent.sum())
        kinds = column.missing_kinds(self.table.cells(name) if name in self.table else cells)
        missing = _bars(
            [code if str(code) == text else f"{code} ({text})" for code, text in declared],
            [kinds.get(text, 0) for _, text in declared],
        )
        n_empty = max(n_silent - sum(each["n"] for each in missing), 0)
        record = {"n": len(silent) - n_silent, "n_silent": n_silent, "missing": missing, "n_empty": n_empty}
        codes, seen = [code for code, _ in declared], answers.values[answers.observed]
        if answers.parts and not answers.exclusive:
            counts = [int(np.nansum(part.values == 1)) for part in answers.parts]
            return Bars({**record, "bars": _bars(fitted.texts, counts)}, codes)
        if not answers.labels or len(answers.labels) > MOST_SHOWN:
            return Bars({**record, "histogram": _histogram(seen)}, codes)
        counts = np.bincount(seen.astype(int), minlength=len(answers.labels)).tolist()
        texts = fitted.texts if len(fitted.texts) == len(counts) else answers.labels
        alone = column.is_one_label and len(fitted.labels) == len(counts)
        ordered = bool(fitted.has_order or (alone and len(counts) == 2))
        order = {"ordered": ordered, "sortable": ordered and alone and fitted.family != "measured"}
        return Bars({**record, "bars": _bars(texts, counts), **order}, codes, list(fitted.labels) if alone else [])

    def _left_out(self, name: str) -> dict[str, Any]:
        """The most frequent texts of a column that is not an answer."""
        if name not in self.table:
            return {"n": 0}
        cells = self.table.cells(name)
        record: dict[str, Any] = {"n": int((~cells.missing).sum()), "n_empty": int(cells.missing.sum())}
        try:
            distinct, which = cells.hashable().factorise()
        except (SchemaError, TypeError):
            return record
        counts = np.bincount(which[which >= 0], minlength=len(distinct))
        often = np.argsort(-counts, kind="stable")[:MOST_EXAMPLES]
        bars = _bars([str(distinct[place])[:200] for place in often], counts[often].tolist())
        return {**record, "bars": bars, "n_distinct": len(distinct)}


def _bars(texts: Sequence[Any], counts: Sequence[int]) -> list[dict[str, Any]]:
    return [{"text": str(text), "n": n} for text, n in zip(texts, counts, strict=True)]


def _counted(names: Sequence[str]) -> str:
    return f"“{names[0]}”" if len(names) == 1 else f"{len(names)} questions"


def _picked(known: Sequence[Any], asked: Mapping[str, Any]) -> list[Any]:
    """What is known at the places that the page names."""
    places = asked.get("places")
    if not isinstance(places, list) or not all(type(place) is int and 0 <= place < len(known) for place in places):
        raise ThurboError("the answers are not those of the question; reload the page")
    return [known[place] for place in dict.fromkeys(places)]


def _histogram(values: Any) -> dict[str, Any] | None:
    """Rows in bins of equal width between the 1 % and 99 % quantiles; the outer bins hold what is beyond."""
    if not len(values):
        return None
    least, low, middle, high, most = np.quantile(values, [0.0, 0.01, 0.5, 0.99, 1.0]).tolist()
    if not np.isfinite([low, high]).all() or low >= high:
        return None
    counts, _ = np.histogram(np.clip(values, low, high), N_BINS, (low, high))
    return {"counts": counts.tolist(), "ends": [least, middle, most]}


_USE = re.compile(r"\b[Uu]se (\w+)\(")
_OTHERWISE = {"categories": "categorical", "levels": "ordinal", "numbers": "continuous"}  # by the first word


class Alternative(NamedTuple):
    """What else a question may be: its type, and missing codes that are then answers."""

    kind: str
    answers: list[Any]
    words: str


def _alternative(reason: str, column: Column) -> Alternative | None:
    """The other type that the reason of a type names."""
    clause = reason.partition(OTHERWISE)[2].partition(";")[0]
    kinds = [_OTHERWISE.get(clause.partition(",")[0].partition(" ")[0], "")]
    kinds += [match[1].casefold() for match in _USE.finditer(reason)]
    for kind in kinds:
        if kind in ALONE and kind != column.kind:
            back = [code for code, _ in column.declared_missing if show(code) in clause and " as a" in clause]
            return Alternative(kind, back, ALONE[kind] + (f", with {listing(map(show, back))}" if back else ""))
    return None
