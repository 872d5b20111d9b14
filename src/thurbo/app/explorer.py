"""A survey live in the browser: what its page asks of a model and a table, as plain values; no network here.

Groups are compared by the answers of the table. Pinned answers and single respondents are questions to the model.
Guarantees that errors are sentences for people (`ThurboError`), and that answers are bounded in size.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from thurbo.app.report.cards import Described, row_map
from thurbo.errors import ThurboError
from thurbo.table.columns.column import Column
from thurbo.table.columns.forms import Ask
from thurbo.table.columns.forms.form import Answers
from thurbo.table.columns.statements import OrderStatement, at_least, at_most, between, combined, one_of, parse_given
from thurbo.table.io.frames import as_table

MOST_PINS = 20
MOST_LETTERS = 500  # of a condition in words
MOST_POINTS = 30_000
MOST_LABELS = 40  # of a question that are shown; others are added up
MOST_NAME = 200  # characters of the name of a segment
MOST_ITEMS = 5000  # that can be chosen from; the most frequent ones
MOST_RATINGS = 30
TOP = 10  # items that are recommended
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_EXACTLY, _AMONG = ("exactly",), ("one of", "anything but")
_ENDS = ("at least", "at most", "between")
_OPTIONS = ("selected", "not selected")
_OF_ONE: dict[str, Callable[[Any], Any]] = {"exactly": lambda value: value, "at least": at_least, "at most": at_most}
_TWO, _SOME = (2, 2, "two answers"), (1, None, "at least one answer")
_COUNTS = {"between": _TWO, "above": _TWO, "one of": _SOME, "anything but": _SOME}  # of values of a pin


def relations(column: Column) -> tuple[str, ...]:
    """What can be pinned about a question with these controls."""
    if column.is_listed:
        return ()
    if column.form.has_options:
        return _OPTIONS
    if column.has_items:
        return ("above",)
    if not column.labels:
        return (*_ENDS, *_EXACTLY)
    if not column.is_one_label:
        return ()
    return (*_EXACTLY, *_ENDS, *_AMONG) if column.has_order else (*_EXACTLY, *_AMONG)


def read_pins(pins: Any, schema: Mapping[str, Column]) -> dict[str, Any]:
    """Pins as {column: value or statement}; several pins of one column are combined."""
    if not isinstance(pins, list) or len(pins) > MOST_PINS:
        raise ThurboError(f"pins are a list of up to {MOST_PINS} conditions, such as “age >= 45”")
    found: dict[str, list[Any]] = {}
    for pin in pins:
        if isinstance(pin, str) and len(pin) >= MOST_LETTERS:
            raise ThurboError(f"a condition in words has fewer than {MOST_LETTERS} letters")
        name, cell = parse_given(pin, schema) if isinstance(pin, str) else _chosen(pin, schema)
        found.setdefault(name, []).append(cell)
    return {name: _together(name, cells) for name, cells in found.items()}


def _together(name: str, cells: list[Any]) -> Any:
    """Several pins of one column as one condition; options one by one."""
    if not all(isinstance(cell, dict) for cell in cells):
        return combined(name, cells)
    said: dict[Any, bool] = {}
    for option, value in (pair for cell in cells for pair in cell.items()):
        if said.setdefault(option, value) != value:
            raise ThurboError(f"“{option}” cannot be selected and not selected; remove one of the two pins")
    return said


def _chosen(pin: Any, schema: Mapping[str, Column]) -> tuple[str, Any]:
    """A pin that was made with controls: the question, and the value or statement."""
    about: Any = pin if isinstance(pin, Mapping) else {}
    name, relation, given = (about.get(key) for key in ("name", "relation", "values"))
    column = _picked(schema, name, "a question; choose one from the list")
    if relation not in relations(column):
        raise ThurboError(f"“{str(relation)[:80]}” cannot be pinned for “{name}”; choose another relation")
    least, most, words = _COUNTS.get(relation, (1, 1, "one answer"))
    if not isinstance(given, list) or not least <= len(given) <= (most or len(given)):
        raise ThurboError(f"“{name}”: choose {words}")
    if column.labels:
        is_part = column.has_items or column.form.has_options
        known = _by_text(column.texts, column.labels) if is_part else _answers_by_text(column)
        values = [_picked(known, each, f"an answer to “{name}”; choose one from the list") for each in given]
    else:
        values = [number(each, name) for each in given]
    if relation in _OF_ONE:
        return name, _OF_ONE[relation](values[0])
    if relation in _OPTIONS:
        return name, {values[0]: relation == "selected"}
    if relation == "between":
        places = values if not column.labels else [column.answer_labels.index(value) for value in values]
        return name, between(*(values if places[0] <= places[1] else values[::-1]))
    if relation == "above":
        if values[0] == values[1]:
            raise ThurboError(f"“{name}”: choose two different items")
        return name, OrderStatement(((values[0],), (values[1],)))
    kept = [label for label in column.answer_labels if (label in values) == (relation == "one of")]
    if not kept:
        raise ThurboError(f"“{name}”: no answer is left; choose fewer")
    return name, kept[0] if len(kept) == 1 else one_of(*kept)


def _picked(known: Mapping[str, Any], text: Any, what: str) -> Any:
    """What is known by this text; any other is not `what`."""
    if not isinstance(text, str) or text not in known:
        raise ThurboError(f"“{str(text)[:80]}” is not {what}")
    return known[text]


def _by_text(texts: Sequence[Any], labels: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(map(str, texts), labels, strict=True))


def _answers_by_text(column: Column) -> dict[str, Any]:
    return _by_text(column.answer_texts, column.answer_labels)


def number(value: Any, name: str) -> float:
    """A finite number that was typed."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ThurboError(f"“{str(value)[:80]}” is not a number (“{name}”)") from None
    if not np.isfinite(found):
        raise ThurboError(f"“{name}” needs a finite number")
    return found


class Session:
    """One fitted model and one table, ready to be explored; of more than `max_points` rows the map has a sample."""

    command: ClassVar[str] = "thurbo explore"
    page: ClassVar[str] = "explorer"

    def __init__(self, model: Any, X: Any, title: str = "Explorer", seed: int = 0, max_points: int = 10_000):
        described, self.title = Described(model, X), title
        self.model, self.table, self.schema = model, described.table, described.schema
        self.answers, self.texts, weight = described.answers, described.texts, described.weight
        self.weight = np.ones(self.table.n_rows) if weight is None else np.asarray(weight, float)
        self._segments, labels = described.segment_records, described.segments.labels
        self._map = row_map(described.points, labels, [], {}, seed, min(max_points, MOST_POINTS))
        self._rows = np.asarray(self._map["rows"])
        sources = {s for name in self.schema.modelled for s in self.schema.source_columns[name] or (name,)}
        self._nobody: dict[str, list[Any]] = {name: [None] for name in sorted(sources)}
        self._questions = [self._question(each) for each in self.answers]

    @property
    def questions(self) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
        """What the page can ask, by the last part of the address."""
        return {
            "survey": lambda asked: self.survey(),
            "group": lambda asked: self.group(asked.get("rows", [])),
            "pin": lambda asked: self.pinned(asked.get("pins", [])),
            "respondent": lambda asked: self.respondent(asked.get("answers", {}), asked.get("target")),
            "recommend": lambda asked: self.recommend(asked.get("list"), asked.get("ratings"), asked.get("answers")),
            "export": lambda asked: {"csv": self.export(asked.get("labels"), asked.get("names"))},
        }

    def survey(self) -> dict[str, Any]:
        """Questions, places on the map and segments: all that the page needs at the start."""
        return {
            "title": self.title,
            "n_rows": self.table.n_rows,
            "questions": self._questions,
            "lists": [self._list(name) for name in self.schema.listed],
            **{key: self._map[key] for key in ("x", "y", "segment")},
            "segments": [{"number": p["segment"], "name": p["name"]} for p in self._segments["profiles"]],
            "verdict": self._segments["verdict"],
        }

    def _question(self, answers: Answers) -> dict[str, Any]:
        column, text = self.schema[answers.name], self.texts[answers.name]
        is_one_cell = not answers.parts and not column.source_columns(answers.name)[1:]
        return {
            "name": answers.name,
            "brief": text["brief"],
            "text": text["full"],
            "kind": answers.kind,
            "labels": list(map(str, column.answer_texts))[:MOST_LABELS],
            "relations": list(relations(column)),
            "fillable": not column.is_listed and (column.is_one_label or is_one_cell),
        }

    def _list(self, name: str) -> dict[str, Any]:
        """A list: its items, the most frequent first, and what a rating can be."""
        column = self.schema[name]
        counts = np.asarray(self.model.n_ratings_.get(name, np.zeros(len(column.labels))))
        levels = list(map(str, column.answer_texts)) if column.has_order else []
        return {
            "name": name,
            "brief": self.texts[name]["brief"],
            "items": [str(column.texts[k]) for k in np.argsort(-counts, kind="stable")[:MOST_ITEMS]],
            "n_items": len(column.labels),
            "levels": levels,
            "by": "levels" if levels else "numbers" if column.family == "measured" else "order",
        }

    def group(self, rows: Sequence[Any]) -> dict[str, Any]:
        """How some points of the map answer compared with all other rows; the largest differences first."""
        if not isinstance(rows, list) or len(rows) > len(self._rows):
            raise ThurboError("rows are not a list of points of the map")
        if not all(type(each) is int and 0 <= each < len(self._rows) for each in rows):
            raise ThurboError(f"a point is not one of 0 to {len(self._rows) - 1}")
        inside = np.zeros(self.table.n_rows, bool)
        inside[self._rows[np.asarray(rows, np.int64)]] = True
        n = int(inside.sum())
        if not 0 < n < self.table.n_rows:
            raise ThurboError("select some of the rows, not none or all of them")
        found = [each for answers in self.answers if (each := self._compared(answers, inside)) is not None]
        return {"n": n, "questions": sorted(found, key=lambda each: -each["distance"])}

    def _compared(self, answers: Answers, inside: np.ndarray) -> dict[str, Any] | None:
        """Shares of the answers in the group and in the rest, and the distance between them (total variation).

        Of a number the medians, and the distance of the means in standard deviations.
        """
        if answers.parts and not answers.exclusive:
            return self._by_part(answers, inside)
        both = [answers.observed & where for where in (inside, ~inside)]
        if not answers.labels:
            own, rest = (answers.values[where] for where in both)
            if not len(own) or not len(rest):
                return None
            spread = float(np.std(answers.values[answers.observed])) or 1.0
            distance = min(abs(float(own.mean() - rest.mean())) / spread / 2, 1.0)
            medians = {"inside": float(np.median(own)), "rest": float(np.median(rest))}
            return {"name": answers.name, "distance": distance, **medians}
        n_labels = len(answers.labels)
        counts = [np.bincount(answers.values[own].astype(int), self.weight[own], n_labels) for own in both]
        own, rest = (each / max(each.sum(), 1e-300) for each in counts)
        order = range(n_labels) if n_labels <= MOST_LABELS else np.argsort(-own)[:MOST_LABELS]
        bars = [{"label": answers.labels[k], "inside": float(own[k]), "rest": float(rest[k])} for k in order]
        return {"name": answers.name, "distance": float(np.abs(own - rest).sum() / 2), "bars": bars}

    def _by_part(self, answers: Answers, inside: np.ndarray) -> dict[str, Any] | None:
        """Shares of options, or mean scores of items with the `scale` that they are on."""
        options = all(len(part.labels) == 2 for part in answers.parts)
        levels = self.schema[answers.name].level_numbers if answers.parts[0].labels and not options else None
        bars, seen = list[dict[str, Any]](), list[float]()
        for part in answers.parts[:MOST_LABELS]:
            known = [part.observed & where & (self.weight > 0) for where in (inside, ~inside)]
            if not all(own.any() for own in known):
                continue
            value = part.values if levels is None else np.interp(part.values, np.arange(len(levels)), levels)
            own, rest = (float(np.average(value[where], weights=self.weight[where])) for where in known)
            bars.append({"label": part.name[len(answers.name) + 2 :], "inside": own, "rest": rest})
            on = value[part.observed] if levels is None else levels
            seen += [float(np.min(on)), float(np.max(on))]
        if not bars:
            return None
        low, high = (0.0, 1.0) if options else (min(seen), max(seen))
        distance = max(abs(bar["inside"] - bar["rest"]) for bar in bars) / ((high - low) or 1.0)
        scale = {} if options else {"scale": [low, high]}
        return {"name": answers.name, "distance": distance, "bars": bars, **scale}

    def pinned(self, pins: Sequence[Any]) -> dict[str, Any]:
        """Every distribution under some conditions, beside that of somebody about whom nothing is known."""
        given, usual = read_pins(pins, {name: self.schema[name] for name in self.schema.modelled}), self._nothing_known
        nobody = self.model._table(self._nobody)
        found = self._distributions(self.model._query(nobody, given), given) if given else usual
        questions = [{"name": name, "usual": usual[name], "given": each} for name, each in found.items()]
        return {"pinned": sorted(given), "questions": questions}

    @cached_property
    def _nothing_known(self) -> dict[str, dict[str, Any]]:
        """The distributions of somebody about whom nothing is known."""
        return self._distributions(self.model._query(self.model._table(self._nobody)))

    def _distributions(self, query: Any, without: Collection[str] = ()) -> dict[str, dict[str, Any]]:
        """Probabilities of the labels, or quantiles of a number, of each question in the first row."""
        found: dict[str, dict[str, Any]] = {}
        for name in self.schema.modelled:
            column = self.schema[name]
            if column.is_listed or name in without:
                continue
            ask = query.about(name)
            if column.labels:
                found[name] = {"chance": column.form.probabilities(ask)[0, :MOST_LABELS].tolist()}
            else:
                found[name] = {"quantiles": [float(each[0]) for each in _quantiles(column, ask, _QUANTILES)]}
        return found

    def respondent(self, answers: Mapping[str, Any], target: Any) -> dict[str, Any]:
        """Predictions for one respondent with these answers, and how each of them moved the guess of `target`.

        The effect of an answer is the change of the prediction without it.
        """
        if target is not None and not isinstance(target, str):
            raise ThurboError(f"“{str(target)[:80]}” is not a question; choose one from the list")
        cells, usual = self._cells(answers), self._nothing_known
        names = [name for name in cells if name != target]
        rows = {name: [None] * (1 + len(names)) for name in self._nobody}
        rows |= {name: [cells[name] if name != out else None for out in (None, *names)] for name in names}
        query, moved = self.model._query(self.model._table(rows)), list[dict[str, Any]]()
        predicted = self._distributions(query, names)
        if target in predicted:
            column, ask, word = self.schema[target], query.about(target), "median"
            if column.labels:
                chance = column.form.probabilities(ask)
                best = int(chance[0].argmax())
                values, word = chance[:, best], str(column.answer_texts[best])
            else:
                values = _quantiles(column, ask, (0.5,))[0]
            value, *others = map(float, values)
            rest = zip(names, others, strict=True)
            moved = [{"name": name, "word": word, "value": value, "without": other} for name, other in rest]
            moved.sort(key=lambda each: -abs(each["value"] - each["without"]))
        found = [{"name": name, "given": each, "usual": usual[name]} for name, each in predicted.items()]
        return {"predicted": found, "moved": moved}

    def _cells(self, answers: Any) -> dict[str, Any]:
        """Answers by name as cells: the label with this text, or a number."""
        if not isinstance(answers, Mapping) or len(answers) > len(self.answers):
            raise ThurboError("answers are not {question: answer}")
        fillable = {each["name"]: self.schema[each["name"]] for each in self._questions if each["fillable"]}
        found = {}
        for name, value in answers.items():
            column = _picked(fillable, name, "a question that can be filled in here")
            brief = self.texts[name]["brief"]
            if column.labels:
                found[name] = _picked(_answers_by_text(column), value, f"an answer to “{brief}”")
            else:
                found[name] = number(value, brief)
        return found

    def recommend(self, name: Any, ratings: Any, answers: Any = None) -> dict[str, Any]:
        """The best items of a list for somebody with these ratings and answers, and what moved the first one.

        Ratings are pairs of item and score; of a list without scores, the items from best to worst.
        """
        cells = self._cells({} if answers is None else answers)
        if not isinstance(name, str) or name not in self.schema or not self.schema[name].is_listed:
            raise ThurboError("this is not a list of items; choose one from the page")
        column = self.schema[name]
        given, by_order = _ratings(column, ratings), not column.has_order and column.family != "measured"
        # The person, somebody without ratings, and the person without each of them.
        people = [given, [], *([pair for pair in given if pair is not out] for out in given)]
        lists = [[item for item, _ in each] or None if by_order else dict(each) for each in people]
        others = self._nobody | {other: [cell] for other, cell in cells.items()}
        table = as_table({other: lists if other == name else value * len(lists) for other, value in others.items()})
        ranked = self.model.rank(table, top=len(column.labels), column=name)
        row, item, utility = (np.asarray(ranked[key], object) for key in ("row", "item", "utility"))
        names = self.schema.row_names(table)
        value: Any = [dict(zip(item[row == each], utility[row == each], strict=True)) for each in names]
        best, usually = (sorted(each, key=each.__getitem__, reverse=True) for each in value[:2])
        best = best[:TOP]
        if not by_order:  # mean predicted scores, if there is anything to recommend
            value = [{}] * len(lists)
            if best:
                value = np.asarray(self.model.predict(table, name, items=best, statistic="mean")[name], object)
        text, first = dict(zip(column.labels, map(str, column.texts), strict=True)), best[0] if best else None
        with_all, usual, *rest = value
        moved: list[dict[str, Any]] = [
            {"item": text[item], "with": float(with_all[first]), "without": float(out[first])}
            for (item, _), out in zip(given, rest, strict=True)
            if first in out
        ]
        moved.sort(key=lambda each: -abs(each["with"] - each["without"]))
        found = [
            {"item": text[k], "value": float(with_all[k]), "usual": float(usual[k]), "before": usually.index(k) + 1}
            for k in best
        ]
        return {"best": found, "first": None if first is None else text[first], "moved": moved}

    def export(self, labels: Any, names: Any) -> str:
        """The segments of the points of the map as a table of two columns, CSV: the row and the name of its segment."""
        if not isinstance(labels, list) or len(labels) != len(self._rows) or not isinstance(names, Mapping):
            raise ThurboError(f"give the segment of each of the {len(self._rows)} points, and names of segments")
        owner = next((name for name, column in self.schema.items() if column.role == "id"), "row")
        text = io.StringIO()
        out = csv.writer(text)
        out.writerow([owner, "segment"])
        for row, label in zip(self.schema.row_names(self.table)[self._rows], labels, strict=True):
            name = str(names.get(str(label), label if label is not None else ""))[:MOST_NAME]
            out.writerow([row, f"'{name}" if name.startswith(("=", "+", "-", "@")) else name])
        return text.getvalue()


def _ratings(column: Any, ratings: Any) -> list[tuple[Any, Any]]:
    """Pairs of item and score, as the column knows them."""
    pairs = isinstance(ratings, list) and all(isinstance(each, list) and len(each) == 2 for each in ratings)
    if not pairs or len(ratings) > MOST_RATINGS:
        raise ThurboError(f"ratings are up to {MOST_RATINGS} pairs of item and score")
    items, found = _by_text(column.texts, column.labels), dict[Any, Any]()
    levels = _answers_by_text(column) if column.has_order else None
    for text, score in ratings:
        item = _picked(items, text, "an item that the model knows; choose one from the list")
        if levels is not None:
            found[item] = _picked(levels, score, f"a rating of “{text}”; choose one from the list")
        else:
            found[item] = number(score, text) if column.family == "measured" else None
    return list(found.items())


def _quantiles(column: Any, ask: Ask, levels: Sequence[float]) -> list[np.ndarray]:
    """Quantiles of a number in the user's units, [row] each; those of a rounded number can be recorded."""
    number, to_cell = ask.number(), column.limited if column.unit else np.asarray
    return [to_cell(column.to_user(number.quantile(level))) for level in levels]
