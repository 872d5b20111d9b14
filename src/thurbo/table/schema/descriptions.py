"""A schema for people: as a table, as a file to edit, and its doubtful guesses.

Idea: one line per column with its type, what a cell means and the reason for the choice.
Guarantees that all text from the user is escaped in HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from thurbo.errors import SchemaError, in_toml
from thurbo.table.columns.values import listing, suggestion

if TYPE_CHECKING:
    from thurbo.table.guess.roles import Decision
    from thurbo.table.schema.schema import Schema

HEADER = ("column", "type", "meaning of a cell", "reason")
_MOST_CHARACTERS, _MOST_IN_LINE = 72, 200


def as_text(schema: Schema) -> str:
    """The table as text; without the last column if there are no reasons. Skips and columns to check stand below."""
    lines = [tuple(map(_shortened, line if schema.reasons else line[:3])) for line in [HEADER, *_lines(schema)]]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    padded = ("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines)
    check = [_shortened(f"{listing(each.names)}: {each.why}", _MOST_IN_LINE) for each in doubts(schema)]
    skips = ["", *map(str, schema.skips)] if schema.skips else []
    return "\n".join([*padded, *skips, *(["", "Please check:", *check] if check else [])])


def as_html(schema: Schema) -> str:
    """The table as HTML, with the title of each question below its name. Skips and columns to check stand below."""
    titles, skips = schema.titles, schema.skips
    header = "".join(f"<th>{text}</th>" for text in HEADER)
    body = ""
    for name, *others in _lines(schema):
        title = f"<br><small>{escape(titles[name])}</small>" if titles.get(name) else ""
        cells = "".join(f"<td>{escape(text)}</td>" for text in others)
        body += f"<tr><td>{escape(name)}{title}</td>{cells}</tr>"
    below = f"<ul>{''.join(f'<li>{escape(str(skip))}</li>' for skip in skips)}</ul>" if skips else ""
    check = "".join(f"<li>{escape(listing(each.names))}: {escape(each.why)}</li>" for each in doubts(schema))
    check = f"<p>Please check:</p><ul>{check}</ul>" if check else ""
    return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>{below}{check}"


def _lines(schema: Schema) -> list[tuple[str, str, str, str]]:
    reasons = schema.reasons
    return [(name, type(column).__name__, column.describe(), reasons.get(name, "")) for name, column in schema.items()]


def _shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."


GUESS = "a guess"
CERTAIN = 0.8  # confidence from which a column need not be checked
OTHERWISE = "otherwise: "  # in a reason, before what else a column may be


def with_alternative(found: Decision) -> str:
    """The reason for a type, which ends with what else the column may be, where that is not certain."""
    is_open = found.otherwise and found.confidence < CERTAIN
    return f"{found.reason}; {OTHERWISE}{found.otherwise}" if is_open else found.reason


_IS_OFTEN = re.compile(r"missing.*\d%")  # what counts as missing although it is frequent


class Doubt(NamedTuple):
    """Columns whose type or reading is not certain, for the same reason."""

    kind: str  # name of the class of the columns
    why: str
    names: list[str]


def doubts(schema: Any) -> list[Doubt]:
    """Columns whose type or reading is not certain, by reason; those with most columns first.

    Only what is a guess about a column is said, or the whole reason; a schema without confidences says what is a guess.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, reason in schema.reasons.items():
        if schema.confidence.get(name, 0.0) >= CERTAIN:
            continue
        guesses, taken, clauses = [], False, reason.split("; ")
        for clause in clauses:  # the advice that follows a guess belongs to it
            taken = clause.startswith(GUESS) or (taken and clause.startswith("use "))
            guesses += [clause.removeprefix(GUESS).lstrip(": ")] if taken else []
        doubtful = [each for each in clauses if each.startswith(OTHERWISE) or _IS_OFTEN.search(each)]
        known = reason if name in schema.confidence and not doubtful else ""
        why = "; ".join(dict.fromkeys([*filter(None, guesses), *doubtful])) or known
        why = re.sub(r"^\d+ columns", "columns", why)  # alike in questions with different numbers of options
        if why and name in schema and schema[name].role in ("answer", "weight"):
            found.setdefault((type(schema[name]).__name__, why), []).append(name)
    ranked = sorted(found.items(), key=lambda each: -len(each[1]))
    return [Doubt(kind, why, names) for (kind, why), names in ranked]


def left_out(schema: Any, source: Any) -> Mapping[str, list[str]]:
    """Columns outside the model by reason, and columns of the table that the schema does not name."""
    found: dict[str, list[str]] = {}
    for name, column in schema.items():
        if column.role not in ("answer", "pattern"):
            why = column.describe().removeprefix("left out: ").removesuffix(", left out of the model")
            found.setdefault(why, []).append(name)
    read = {*schema, *(each for sources in schema.source_columns.values() for each in sources)}
    unread = [name for name in source.names if name not in read]
    if unread:
        found["not in the schema"] = unread
    return found


_ORDERED = ("levels", "categories", "options", "items")  # settings that may name a scale


def with_scales(state: Mapping[str, Any]) -> dict[str, Any]:
    """The columns, with the name of a scale in [scales] replaced by its levels, as in levels = "agreement"."""
    scales = state.get("scales", {})
    if not isinstance(scales, Mapping) or not all(isinstance(levels, list) for levels in scales.values()):
        raise SchemaError("scales is not a table of lists", remedy='write [scales] and agreement = ["no", "yes"]')
    columns: dict[str, Any] = dict(state["columns"])
    for name, entry in columns.items():
        for setting in _ORDERED if isinstance(entry, Mapping) else ():
            wanted = entry.get(setting)
            if isinstance(wanted, str) and wanted not in scales:
                remedy = f"{suggestion(wanted, scales)}define it under [scales], or give a list"
                raise SchemaError(f'{setting} = "{wanted}" is not a scale of the file', column=name, remedy=remedy)
            if isinstance(wanted, str):
                columns[name] = {**columns[name], setting: scales[wanted]}
    return columns


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(key)} = {_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # TOML escapes text as JSON does, except for the delete character, which JSON does not escape.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return json.dumps(value)


def as_toml(state: Mapping[str, Any]) -> str:
    """The plain values of a schema as a file to read and edit."""
    lines = ["# thurbo schema: one table per column, in order"]
    if "skips" in state and not state["skips"]:
        lines += ["skips = []  # no question depends on the answer to another one"]
    if "determined" in state and not state["determined"]:
        lines += ["determined = []  # no column follows from another one"]
    for part in ("skips", "determined"):
        for each in state.get(part, ()):
            lines += ["", f"[[{part}]]", *(f"{key} = {_value(value)}" for key, value in each.items())]
    for name, entry in state["columns"].items():
        lines += ["", f"[columns.{_value(name)}]"]
        lines += [f"{key} = {_value(in_toml(value) if key == 'why' else value)}" for key, value in entry.items()]
    # Without columns the empty table is needed, so that the file can be read as a schema.
    return "\n".join(lines if state["columns"] else [*lines, "[columns]"]) + "\n"
