"""A schema to correct in the browser: questions with their answers, and one correction after another. No network here.

Idea: the state is a list of schemas, each the one before with one correction, and a place in it; undo and redo move the
place. A request names the version it has seen, so that two windows cannot overwrite each other. Answers are named by
their position, because labels may be numbers, texts or booleans.
Guarantees that only the schema file is written, completely or not at all, and that failures are sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
# Types that can be chosen, in words, for a question of one column and for one of several.
ALONE = {
    "ordinal": "Ordered answers",
    "categorical": "Answers without an order",
    "binary": "Two answers",
    "banded": "Bands of a number",
    "continuous": "Number",
    "multiselect": "Several options in a cell",
    "ranking": "Ranking in a cell",
    "id": "Row identifier",
    "weight": "Weight of the row",
    "ignore": "Leave out",
}
TOGETHER = {
    "multiselect": "Any number of options, one per column",
    "categorical": "One answer, one column for each",
    "ordinal": "One ordered answer, one column for each",
    "banded": "One band, one column for each",
    "ranking": "Ranking, the rank of an item per column",
    "places": "Ranking, the item of a place per column",
    "mentions": "Any number of options, named in any column",
}
_BY = {"places": ("ranking", "places"), "mentions": ("multiselect", "mentions")}


class Bars(NamedTuple):
    """How often each answer occurs: of labels, of missing codes, or of bins of a number."""

    answers: list[Any]  # values that can be put in order
    missing: list[Any]  # codes that mean "no answer"
    record: dict[str, Any]  # for the page


class Editor:
    """The schema of a table while it is corrected; `output` is the file that `save` writes."""

    command: ClassVar[str] = "thurbo check --edit"
    files: ClassVar[Mapping[str, str]] = {
        "": "assets/editor.html",
        **{name: f"assets/{name}" for name in ("editor.js", "editor.css", "page.js", "page.css")},
    }

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
        self._records()

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
            **{change.__name__: partial(self._after, change) for change in (*changes, self.undo, self.redo)},
        }

    def survey(self) -> dict[str, Any]:
        """Everything that the page shows."""
        return {
            "title": self.title,
            "n_rows": self.table.n_rows,
            "path": str(self.output),
            "kinds": {"alone": ALONE, "together": TOGETHER},
            **self._state(self.schema.names),
        }

    def save(self) -> dict[str, Any]:
        """Write the schema file, completely or not at all."""
        self.schema.to_toml(self.output)
        self._saved = self.schema
        model = self.output.with_suffix(".thurbo")
        follows = f"thurbo fit {self.data} -s {self.output} -o {model}" if self.data else ""
        return {"said": f"Saved to {self.output}." + f" Next: {follows}" * bool(follows), **self._state(())}

    def _after(self, change: Callable[[Mapping[str, Any]], str], asked: Mapping[str, Any]) -> dict[str, Any]:
        if type(asked.get("version")) is not int or asked["version"] != self._version:
            raise ThurboError("the schema was changed in another window; reload the page")
        before = {name: record for name, (_, record) in self._known.items()}
        said = change(asked)
        self._version += 1
        state = self._state(self.schema.names)
        state["questions"] = [each for each in state["questions"] if before.get(each["name"]) != each]
        return {"said": said, **state}

    def _state(self, names: Sequence[str]) -> dict[str, Any]:
        return {
            "version": self._version,
            "undo": self._at > 0,
            "redo": self._at + 1 < len(self._steps),
            "saved": self.is_saved,
            "order": list(self.schema.names),
            "questions": self._records() if names else [],
        }

    def _do(self, schema: Schema) -> None:
        """Go on from here with a corrected schema."""
        if not self._finds_skips:
            schema = schema.with_skips(still(self.schema.skips, schema))
        self._steps = [*self._steps[: self._at + 1], schema][-MOST_STEPS:]
        self._at = len(self._steps) - 1

    def type(self, asked: Mapping[str, Any]) -> str:
        """Another type for some questions."""
        names, kind = self._names(asked), asked.get("kind")
        if not isinstance(kind, str) or kind not in Column.registered:
            raise ThurboError("choose a type from the list")
        self._do(self.schema.with_type(names, kind, table=self.table))
        return f"{_counted(names)}: {ALONE.get(kind, kind).lower()}."

    def order(self, asked: Mapping[str, Any]) -> str:
        """Another order of the answers to some questions, given as their positions so far."""
        names = self._names(asked)
        known = self._bars[names[0]].answers
        labels = [known[place] for place in _places(asked.get("places"), len(known))]
        self._do(self.schema.with_order(names, labels, table=self.table))
        return f"{_counted(names)}: {' < '.join(map(str, labels[:4]))}{' < …' if len(labels) > 4 else ''}."

    def missing(self, asked: Mapping[str, Any]) -> str:
        """Other codes that mean "no answer": positions of answers and of missing codes, and codes that were typed."""
        names = self._names(asked)
        bars, column = self._bars[names[0]], self.schema[names[0]]
        known = [*bars.answers, *bars.missing]
        codes = {known[place]: "" for place in _places(asked.get("places"), len(known))}
        typed = asked.get("typed")
        if typed is not None:
            if not isinstance(typed, str) or not typed.strip() or len(typed) > 200:
                raise ThurboError("a code is a number or a text of up to 200 letters")
            codes[typed.strip()] = ""
        names_of = dict(column.declared_missing)
        self._do(self.schema.with_missing(names, {each: names_of.get(each, "") for each in codes}, table=self.table))
        return f"{_counted(names)}: {', '.join(map(str, codes)) or 'nothing'} counted as missing."

    def text(self, asked: Mapping[str, Any]) -> str:
        """Another text of a question."""
        (name,), text = self._names(asked)[:1], asked.get("text")
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            raise ThurboError(f"the text of a question has at most {MOST_TEXT} letters")
        self._do(self.schema.with_titles({name: " ".join(text.split())}))
        return f"“{name}” is called “{self.schema.display_names[name]}”."

    def instead(self, asked: Mapping[str, Any]) -> str:
        """The other type that the reason of a type names."""
        names = self._names(asked)
        other = _alternative(self.schema.reasons.get(names[0], ""), self.schema[names[0]])
        if other is None:
            raise ThurboError(f"nothing else is known that “{names[0]}” could be; choose a type from the list")
        schema = self.schema
        if other.answers:
            declared = dict(schema[names[0]].declared_missing)
            kept = {code: text for code, text in declared.items() if code not in other.answers}
            schema = schema.with_missing(names, kept)
        self._do(schema.with_type(names, other.kind, table=self.table))
        return f"{_counted(names)}: {other.words.lower()}."

    def group(self, asked: Mapping[str, Any]) -> str:
        """Several columns as one question."""
        members, kind, name = self._names({"names": asked.get("columns")}), asked.get("kind"), asked.get("name")
        if not isinstance(kind, str) or kind not in TOGETHER:
            raise ThurboError("choose how the columns belong together from the list")
        if name is not None and (not isinstance(name, str) or len(name) > 200):
            raise ThurboError("a name is a text of up to 200 letters")
        wanted = (name or "").strip() or stem_of(members, self.schema.titles) or "question"
        taken, number = {*self.schema, *self.table.names}, 2
        unique = wanted
        while unique in taken:
            unique, number = f"{wanted} ({number})", number + 1
        made, by = _BY.get(kind, (kind, None))
        self._do(self.schema.group(unique, members, made, by=by, table=self.table))
        return f"{len(members)} columns are one question, “{unique}”."

    def ungroup(self, asked: Mapping[str, Any]) -> str:
        """The columns of a question on their own."""
        (name,) = self._names(asked)[:1]
        self._do(self.schema.ungroup(name, table=self.table))
        return f"“{name}” is divided into its columns."

    def confirm(self, asked: Mapping[str, Any]) -> str:
        """The types of some questions as if they were given by hand: without the reason why they were detected."""
        names = self._names(asked)
        self._do(self.schema | {name: self.schema[name] for name in names})
        return f"{_counted(names)}: confirmed."

    def undo(self, asked: Mapping[str, Any]) -> str:
        """One correction back."""
        if not self._at:
            raise ThurboError("there is nothing to undo")
        self._at -= 1
        return "Undone."

    def redo(self, asked: Mapping[str, Any]) -> str:
        """One correction forward again."""
        if self._at + 1 == len(self._steps):
            raise ThurboError("there is nothing to redo")
        self._at += 1
        return "Done again."

    def _names(self, asked: Mapping[str, Any]) -> list[str]:
        names = asked.get("names")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ThurboError("names are a list of questions")
        for name in names:
            if name not in self.schema:
                raise ThurboError(f"“{name[:80]}” is not a question of the schema; reload the page")
        return list(dict.fromkeys(names))

    def _records(self) -> list[dict[str, Any]]:
        """All questions in order, those that did not change as they were."""
        schema, skipped = self.schema, {name: skip for skip in self.schema.skips for name in skip.columns}
        out = not_asked(schema, schema.skips, self.table)
        why = {name: each.why for each in doubts(schema) for name in each.names}
        brief, found, fitted, bars = schema.display_names, [], {}, self._bars
        for name, column in schema.items():
            key = (
                column,
                skipped.get(name),
                schema.reasons.get(name),
                why.get(name),
                brief[name],
                schema.titles.get(name),
            )
            if name not in self._known or self._known[name][0] != key:
                record = self._record(name, column, out.get(name), why.get(name, ""), skipped.get(name))
                self._known[name] = key, {**record, "brief": brief[name]}
            found.append(self._known[name][1])
            fitted[name] = column.kind, column.has_order, *map(str, bars[name].answers + bars[name].missing)
        alike: dict[Any, list[str]] = {}
        near = grids(schema, schema.titles)
        for name, column in schema.items():
            n = len(bars[name].answers)
            if column.is_one_label and n > 1 and (n > 2 or name in near):
                alike.setdefault((fitted[name], None if n > 2 else near[name]), []).append(name)
        same = {name: names for names in alike.values() if len(names) > 1 for name in names}
        for record in found:
            record["same"] = same.get(record["name"], [])
        return [dict(record) for record in found]

    def _record(self, name: str, column: Column, out: Any, why: str, skip: Any) -> dict[str, Any]:
        problem = ""
        try:
            bars = self._counted(name, column)
        except ThurboError as error:
            problem, bars = in_toml(str(error)), Bars([], [], {})
        self._bars[name] = bars
        sources = column.source_columns(name)
        labels = column.label_of_source
        n_out = 0 if out is None else int((out & unanswered(self.schema, self.table, name)).sum())
        members = [{"column": each, "label": labels.get(each, "")} for each in sources if sources != (name,)]
        kinds = TOGETHER if members else ALONE
        known = column.kind in {**kinds, "ignore": ""} and not column.is_listed
        reason = self.schema.reasons.get(name, "")
        other = _alternative(reason, column)
        return {
            "name": name,
            "text": full_text(name, self.schema.titles),
            "title": self.schema.titles.get(name, ""),
            "kind": column.kind,
            "type": type(column).__name__,
            "known": known,  # whether the page can change its type
            "role": column.role,
            "means": column.describe(),
            "why": in_toml(reason),
            "check": problem or in_toml(why),
            "instead": other.words if why and other is not None else "",
            "members": members,
            "skip": "" if skip is None else f"asked only if {skip.asked_if} {when(self.schema, skip)}",
            "n_not_asked": n_out,
            **bars.record,
        }

    def _counted(self, name: str, column: Column) -> Bars:
        """The answers to a question with the number of rows of each."""
        if column.role != "answer" or column.form_type is None:
            return self._left_out(name)
        cells = self.table.answers(self.schema, name)
        fitted = column.fit(cells)
        answers = fitted.form.answers(name, fitted.encode(cells))
        silent = unanswered(self.schema, self.table, name)
        record: dict[str, Any] = {"n": int((~silent).sum()), "n_silent": int(silent.sum())}
        kinds = column.missing_kinds(self.table.cells(name) if name in self.table else cells)
        codes, declared = [code for code, _ in column.declared_missing], column.declared_missing
        record["missing"] = [{"text": _word(code, text), "n": kinds.get(text, 0)} for code, text in declared]
        record["n_empty"] = max(int(silent.sum()) - sum(each["n"] for each in record["missing"]), 0)
        if answers.parts and not answers.exclusive:
            counts = [int(np.nansum(part.values == 1)) for part in answers.parts]
            record["bars"] = [{"text": str(text), "n": n} for text, n in zip(fitted.texts, counts, strict=True)]
            return Bars([], codes, record)
        if answers.labels and len(answers.labels) <= MOST_SHOWN:
            seen = answers.values[answers.observed].astype(int)
            counts = np.bincount(seen, minlength=len(answers.labels)).tolist()
            texts = fitted.texts if len(fitted.texts) == len(counts) else answers.labels
            record["bars"] = [{"text": str(text), "n": n} for text, n in zip(texts, counts, strict=True)]
            alone = column.is_one_label and len(fitted.labels) == len(counts)
            record["ordered"] = bool(fitted.has_order or (alone and len(counts) == 2))
            record["sortable"] = bool(record["ordered"] and alone and fitted.family != "measured")
            return Bars(list(fitted.labels) if alone else [], codes, record)
        record["histogram"] = _histogram(answers.values[answers.observed])
        return Bars([], codes, record)

    def _left_out(self, name: str) -> Bars:
        """The most frequent texts of a column that is not an answer."""
        if name not in self.table:
            return Bars([], [], {"n": 0})
        cells = self.table.cells(name)
        record: dict[str, Any] = {"n": int((~cells.missing).sum()), "n_empty": int(cells.missing.sum())}
        try:
            distinct, which = cells.hashable().factorise()
        except (SchemaError, TypeError):
            return Bars([], [], record)
        counts = np.bincount(which[which >= 0], minlength=len(distinct))
        often = np.argsort(-counts, kind="stable")[:MOST_EXAMPLES]
        record["bars"] = [{"text": str(distinct[place])[:200], "n": int(counts[place])} for place in often]
        return Bars([], [], {**record, "n_distinct": len(distinct)})


def _word(code: Any, text: str) -> str:
    return text if str(code) == text else f"{code} ({text})"


def _counted(names: Sequence[str]) -> str:
    return f"“{names[0]}”" if len(names) == 1 else f"{len(names)} questions"


def _places(places: Any, most: int) -> list[int]:
    if not isinstance(places, list) or not all(type(place) is int and 0 <= place < most for place in places):
        raise ThurboError("the answers are not those of the question; reload the page")
    return list(dict.fromkeys(places))


def _histogram(values: Any) -> dict[str, Any] | None:
    """Rows in bins of equal width between the 1 % and 99 % quantiles; the outer bins hold what is beyond."""
    if not len(values):
        return None
    low, middle, high = np.quantile(values, [0.01, 0.5, 0.99])
    if not np.isfinite([low, high]).all() or low >= high:
        return None
    counts, _ = np.histogram(np.clip(values, low, high), np.linspace(low, high, N_BINS + 1))
    ends = [float(values.min()), float(middle), float(values.max())]
    return {"counts": counts.tolist(), "ends": ends}


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
