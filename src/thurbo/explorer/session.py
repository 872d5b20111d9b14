"""What the explorer asks of a model and a table, as plain values: no network here.

Groups are compared by the answers of the table. Pinned answers and single respondents are questions to the model.
Guarantees that errors are sentences for people (`ThurboError`), and that answers are bounded in size.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from thurbo.columns.forms import Ask
from thurbo.errors import ThurboError
from thurbo.explorer.pins import number, read_pins, relations
from thurbo.explorer.recommendations import lists_of, recommended
from thurbo.io.table import as_table
from thurbo.report.responses import Answers, read_answers
from thurbo.report.row_map import row_map
from thurbo.report.segment_cards import find_segments, placed, segment_records
from thurbo.report.wording import texts_of

MOST_POINTS = 30_000
MOST_LABELS = 40  # of a question that are shown; others are added up
MOST_NAME = 200  # characters of the name of a segment
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Session:
    """One model and one table, ready to be explored.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows with all columns of the fitted schema.
    title : str
        Title of the page.
    seed : int, default=0
        Seed of the map.
    max_points : int, default=10000
        Most rows on the map, at most 30,000; a random sample if there are more.
    """

    def __init__(self, model: Any, X: Any, title: str = "Explorer", seed: int = 0, max_points: int = 10_000):
        self.model, self.table, self.title = model, as_table(X), title
        self.schema = model.schema_
        self.answers: list[Answers] = read_answers(self.schema, self.table)
        self.texts = texts_of(self.schema, self.answers)
        where = placed(model, self.table)
        self.weight = np.ones(self.table.n_rows) if where.weight is None else np.asarray(where.weight, float)
        found = find_segments(self.schema, where)
        self._segments = segment_records(found, self.texts, {skip.asked_if for skip in self.schema.skips})
        self._map = row_map(where.points, found.labels, [], {}, seed, min(max_points, MOST_POINTS))
        self._rows = np.asarray(self._map["rows"])
        sources = {s for name in self.schema.modelled for s in self.schema.source_columns[name] or (name,)}
        self._nobody: dict[str, list[Any]] = {name: [None] for name in sorted(sources)}

    def survey(self) -> dict[str, Any]:
        """Questions, places on the map and segments: all that the page needs at the start."""
        return {
            "title": self.title,
            "n_rows": self.table.n_rows,
            "questions": [self._question(each) for each in self.answers],
            "lists": lists_of(self.model, self.texts),
            **{key: self._map[key] for key in ("x", "y", "segment")},
            "segments": [{"number": p["segment"], "name": p["name"]} for p in self._segments["profiles"]],
            "verdict": self._segments["verdict"],
        }

    def _question(self, answers: Answers) -> dict[str, Any]:
        column, text = self.schema[answers.name], self.texts[answers.name]
        simple = not answers.parts or column.is_one_label
        return {
            "name": answers.name,
            "brief": text["brief"],
            "text": text["short"],
            "kind": answers.kind,
            "labels": list(map(str, column.answer_texts))[:MOST_LABELS],
            "relations": list(relations(column)),
            "fillable": bool(simple and not column.is_listed and not column.source_columns(answers.name)[1:]),
        }

    def group(self, rows: Sequence[Any]) -> dict[str, Any]:
        """How some points of the map answer compared with all other rows; the largest differences first."""
        inside = np.zeros(self.table.n_rows, bool)
        inside[self._rows[self._places(rows)]] = True
        n = int(inside.sum())
        if not 0 < n < self.table.n_rows:
            raise ThurboError("select some of the rows, not none or all of them")
        found = [each for answers in self.answers if (each := self._compared(answers, inside)) is not None]
        return {"n": n, "questions": sorted(found, key=lambda each: -each["distance"])}

    def _places(self, rows: Sequence[Any]) -> np.ndarray:
        if not isinstance(rows, list) or len(rows) > len(self._rows):
            raise ThurboError("rows are not a list of points of the map")
        places = np.asarray([each if type(each) is int else -1 for each in rows], np.int64)
        if len(places) and (places.min() < 0 or places.max() >= len(self._rows)):
            raise ThurboError(f"a point is not one of 0 to {len(self._rows) - 1}")
        return places

    def _compared(self, answers: Answers, inside: np.ndarray) -> dict[str, Any] | None:
        """Shares of the answers in the group and in the rest, and the distance between them (total variation)."""
        if answers.parts and not answers.exclusive:
            return self._by_part(answers, inside)
        if not answers.labels:
            return self._numbers(answers, inside)
        shares = []
        for where in (inside, ~inside):
            own = answers.observed & where
            counts = np.bincount(answers.values[own].astype(int), self.weight[own], len(answers.labels))
            shares.append(counts / max(counts.sum(), 1e-300))
        order = range(len(answers.labels)) if len(answers.labels) <= MOST_LABELS else np.argsort(-shares[0])
        return {
            "name": answers.name,
            "distance": float(np.abs(shares[0] - shares[1]).sum() / 2),
            "bars": [
                {"label": answers.labels[k], "inside": float(shares[0][k]), "rest": float(shares[1][k])}
                for k in list(order)[:MOST_LABELS]
            ],
        }

    def _by_part(self, answers: Answers, inside: np.ndarray) -> dict[str, Any] | None:
        """Shares of options, or mean scores of items with the `scale` that they are on."""
        options = all(len(part.labels) == 2 for part in answers.parts)
        levels = self.schema[answers.name].level_numbers if answers.parts[0].labels and not options else None
        bars, seen = list[dict[str, Any]](), [0.0, 1.0]
        for part in answers.parts[:MOST_LABELS]:
            known = [part.observed & where & (self.weight > 0) for where in (inside, ~inside)]
            if not all(own.any() for own in known):
                continue
            value = part.values if levels is None else np.interp(part.values, np.arange(len(levels)), levels)
            means = [float(np.average(value[own], weights=self.weight[own])) for own in known]
            bars.append({"label": part.name[len(answers.name) + 2 :], "inside": means[0], "rest": means[1]})
            if not options:
                both = value[part.observed] if levels is None else levels
                ends = [float(np.min(both)), float(np.max(both))]
                seen = ends if len(bars) == 1 else [min(seen[0], ends[0]), max(seen[1], ends[1])]
        if not bars:
            return None
        width = (seen[1] - seen[0]) or 1.0
        distance = max(abs(bar["inside"] - bar["rest"]) for bar in bars) / width
        return {"name": answers.name, "distance": distance, "bars": bars, **({} if options else {"scale": seen})}

    def _numbers(self, answers: Answers, inside: np.ndarray) -> dict[str, Any] | None:
        own, rest = (answers.values[answers.observed & where] for where in (inside, ~inside))
        if not len(own) or not len(rest):
            return None
        spread = float(np.std(answers.values[answers.observed])) or 1.0
        medians = [float(np.median(each)) for each in (own, rest)]
        distance = min(abs(float(own.mean() - rest.mean())) / spread / 2, 1.0)
        return {"name": answers.name, "distance": distance, "inside": medians[0], "rest": medians[1]}

    def pinned(self, pins: Sequence[Any]) -> dict[str, Any]:
        """Every distribution under some conditions, beside that of somebody about whom nothing is known."""
        given, usual = read_pins(pins, {name: self.schema[name] for name in self.schema.modelled}), self._nothing_known
        found = self._distributions(given) if given else usual
        return {
            "pinned": sorted(given),
            "questions": [
                {"name": name, "usual": usual[name], "given": found[name]} for name in found if name not in given
            ],
        }

    @cached_property
    def _nothing_known(self) -> dict[str, dict[str, Any]]:
        """The distributions of somebody about whom nothing is known."""
        return self._distributions(None)

    def _distributions(self, given: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
        query = self.model._query(self._nobody, given)
        names = [each.name for each in self.answers if not self.schema[each.name].is_listed]
        return {name: self._distribution(name, query.about(name)) for name in names}

    def _distribution(self, name: str, ask: Ask, row: int = 0) -> dict[str, Any]:
        """Probabilities of the labels, or quantiles of a number."""
        column = self.schema[name]
        if not column.labels:
            return {"quantiles": [float(each[row]) for each in _quantiles(column, ask, _QUANTILES)]}
        chance = column.form.probabilities(column, ask)[row]
        return {"chance": [float(each) for each in chance[:MOST_LABELS]]}

    def respondent(self, answers: Mapping[str, Any], target: Any) -> dict[str, Any]:
        """Predictions for one respondent with these answers, and how each of them moved the guess of `target`.

        The effect of an answer is the change of the prediction without it.
        """
        if target is not None and not isinstance(target, str):
            raise ThurboError(f"“{str(target)[:80]}” is not a question; choose one from the list")
        cells = self._cells(answers)
        names = [name for name in cells if name != target]
        tables = [dict(self._nobody) | {name: [cells[name]] for name in names if name != out} for out in (None, *names)]
        rows = {name: [table[name][0] for table in tables] for name in self._nobody}
        query = self.model._query(rows)
        known = [name for name in self.schema.modelled if not self.schema[name].is_listed]
        predicted = {name: self._distribution(name, query.about(name)) for name in known if name not in names}
        moved, usual = self._moved(query, str(target), names) if target in predicted else [], self._nothing_known
        found = [{"name": name, "given": each, "usual": usual[name]} for name, each in predicted.items()]
        return {"predicted": found, "moved": moved}

    def _moved(self, query: Any, target: str, names: Sequence[str]) -> list[dict[str, Any]]:
        column, ask = self.schema[target], query.about(target)
        if column.labels:
            chance = column.form.probabilities(column, ask)
            best = int(chance[0].argmax())
            value, word = chance[:, best], str(column.answer_texts[best])
        else:
            value, word = _quantiles(column, ask, (0.5,))[0], "median"
        found = [
            {"name": name, "word": word, "value": float(value[0]), "without": float(value[place + 1])}
            for place, name in enumerate(names)
        ]
        return sorted(found, key=lambda each: -abs(each["value"] - each["without"]))

    def _cells(self, answers: Any) -> dict[str, Any]:
        """Answers by name as cells: the label with this text, or a number."""
        if not isinstance(answers, Mapping) or len(answers) > len(self.answers):
            raise ThurboError("answers are not {question: answer}")
        fillable = {each["name"] for each in map(self._question, self.answers) if each["fillable"]}
        found = {}
        for name, value in answers.items():
            if name not in fillable:
                raise ThurboError(f"“{str(name)[:80]}” is not a question that can be filled in here")
            column = self.schema[name]
            if column.labels:
                meaning = dict(zip(map(str, column.answer_texts), column.answer_labels, strict=True))
                if not isinstance(value, str) or value not in meaning:
                    raise ThurboError(f"“{str(value)[:80]}” is not an answer to “{self.texts[name]['brief']}”")
                found[name] = meaning[value]
            else:
                found[name] = number(value, self.texts[name]["brief"])
        return found

    def recommend(self, name: Any, ratings: Any, answers: Any = None) -> dict[str, Any]:
        """The best items of a list for somebody with these ratings and answers, and what moved the first one."""
        cells = self._cells({} if answers is None else answers)
        row = dict(self._nobody) | {other: [cell] for other, cell in cells.items()}
        return recommended(self.model, row, name, ratings)

    def export(self, labels: Any, names: Any) -> str:
        """The segments of the points of the map as a table of two columns, CSV: the row and the name of its segment."""
        if not isinstance(labels, list) or len(labels) != len(self._rows) or not isinstance(names, Mapping):
            raise ThurboError(f"give the segment of each of the {len(self._rows)} points, and names of segments")
        rows = self.schema.row_names(self.table)
        owner = next((name for name, column in self.schema.items() if column.role == "id"), "row")
        text = io.StringIO()
        out = csv.writer(text)
        out.writerow([owner, "segment"])
        for row, label in zip(self._rows, labels, strict=True):
            name = str(names.get(str(label), label if label is not None else ""))[:MOST_NAME]
            out.writerow([rows[row], f"'{name}" if name.startswith(("=", "+", "-", "@")) else name])
        return text.getvalue()


def _quantiles(column: Any, ask: Ask, levels: Sequence[float]) -> list[np.ndarray]:
    """Quantiles of a number in the user's units, [row] each; those of a rounded number can be recorded."""
    number, to_cell = ask.number(), column.limited if column.unit else np.asarray
    return [to_cell(column.to_user(number.quantile(level))) for level in levels]
