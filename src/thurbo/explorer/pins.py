"""Pinned answers: what the page can say about a question, as values and statements for `given`.

A pin is {"name", "relation", "values"} with the texts of labels, or a condition in words such as "age >= 45". Labels
are looked up, never parsed, so that they may hold any sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thurbo.columns.column import Column
from thurbo.columns.statements import OrderStatement, at_least, at_most, between, combined, one_of, parse_given
from thurbo.errors import ThurboError

MOST_PINS = 20
MOST_LETTERS = 500  # of a condition in words
_EXACTLY, _AMONG = ("exactly",), ("one of", "anything but")
_ENDS = ("at least", "at most", "between")
_OPTIONS = ("selected", "not selected")


def relations(column: Column) -> tuple[str, ...]:
    """What can be pinned about a question with these controls."""
    if column.is_listed or column.form is None:
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
        name, cell = _in_words(pin, schema) if isinstance(pin, str) else _chosen(pin, schema)
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


def _in_words(text: str, schema: Mapping[str, Column]) -> tuple[str, Any]:
    if len(text) >= MOST_LETTERS:
        raise ThurboError(f"a condition in words has fewer than {MOST_LETTERS} letters")
    return parse_given(text, schema)


def _chosen(pin: Any, schema: Mapping[str, Column]) -> tuple[str, Any]:
    parts = [pin.get(key) for key in ("name", "relation", "values")] if isinstance(pin, Mapping) else [None] * 3
    name, relation, values = parts
    if not isinstance(name, str) or name not in schema:
        raise ThurboError(f"“{str(name)[:80]}” is not a question; choose one from the list")
    column = schema[name]
    if relation not in relations(column):
        raise ThurboError(f"“{str(relation)[:80]}” cannot be pinned for “{name}”; choose another relation")
    wanted = {"between": (2, 2), "above": (2, 2), "one of": (1, None), "anything but": (1, None)}.get(relation, (1, 1))
    if not isinstance(values, list) or len(values) < wanted[0] or (wanted[1] and len(values) > wanted[1]):
        raise ThurboError(f"“{name}”: choose {_COUNTS.get(wanted, 'one answer')}")
    return name, _statement(column, name, relation, [_label(column, name, value) for value in values])


_COUNTS = {(2, 2): "two answers", (1, None): "at least one answer"}


def _label(column: Column, name: str, value: Any) -> Any:
    """The label with this text, or a number."""
    if column.labels:
        items = column.has_items or (column.form is not None and column.form.has_options)
        texts, labels = (column.texts, column.labels) if items else (column.answer_texts, column.answer_labels)
        meaning = dict(zip(map(str, texts), labels, strict=True))
        if not isinstance(value, str) or value not in meaning:
            raise ThurboError(f"“{str(value)[:80]}” is not an answer to “{name}”; choose one from the list")
        return meaning[value]
    return number(value, name)


def number(value: Any, name: str) -> float:
    """A finite number that was typed."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ThurboError(f"“{str(value)[:80]}” is not a number (“{name}”)") from None
    if not np.isfinite(found):
        raise ThurboError(f"“{name}” needs a finite number")
    return found


def _statement(column: Column, name: str, relation: str, values: Sequence[Any]) -> Any:
    if relation == "exactly":
        return values[0]
    if relation == "at least":
        return at_least(values[0])
    if relation == "at most":
        return at_most(values[0])
    if relation == "between":
        places = values if not column.labels else [column.answer_labels.index(value) for value in values]
        return between(*(values if places[0] <= places[1] else values[::-1]))
    if relation == "above":
        if values[0] == values[1]:
            raise ThurboError(f"“{name}”: choose two different items")
        return OrderStatement(((values[0],), (values[1],)))
    if relation in _OPTIONS:
        return {values[0]: relation == "selected"}
    kept = [label for label in column.answer_labels if (label in values) == (relation == "one of")]
    if not kept:
        raise ThurboError(f"“{name}”: no answer is left; choose fewer")
    return kept[0] if len(kept) == 1 else one_of(*kept)
