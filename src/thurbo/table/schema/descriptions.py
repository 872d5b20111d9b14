"""A schema for people: as a table, and its doubtful guesses.

Idea: one line per column with its type, what a cell means and the reason for the choice.
Guarantees that all text from the user is escaped in HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from thurbo.table.columns.column import Column
    from thurbo.table.schema.routing import Skip

HEADER = ("column", "type", "meaning of a cell", "reason")
_MOST_CHARACTERS = 72


def as_text(columns: Mapping[str, Column], reasons: Mapping[str, str], skips: Sequence[Skip] = ()) -> str:
    """The table as text; without the last column if there are no reasons. Skips stand below."""
    lines = [tuple(_shortened(text) for text in line) for line in [HEADER, *_lines(columns, reasons)]]
    if not reasons:
        lines = [line[:3] for line in lines]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    padded = ("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines)
    return "\n".join([*padded, *(["", *map(str, skips)] if skips else [])])


def as_html(
    columns: Mapping[str, Column], reasons: Mapping[str, str], titles: Mapping[str, str], skips: Sequence[Skip] = ()
) -> str:
    """The table as HTML, with the title of each question below its name. Skips stand below."""
    header = "".join(f"<th>{text}</th>" for text in HEADER)
    body = ""
    for name, *others in _lines(columns, reasons):
        title = f"<br><small>{escape(titles[name])}</small>" if titles.get(name) else ""
        cells = "".join(f"<td>{escape(text)}</td>" for text in others)
        body += f"<tr><td>{escape(name)}{title}</td>{cells}</tr>"
    below = f"<ul>{''.join(f'<li>{escape(str(skip))}</li>' for skip in skips)}</ul>" if skips else ""
    return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>{below}"


def _lines(columns: Mapping[str, Column], reasons: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    return [(name, type(column).__name__, column.describe(), reasons.get(name, "")) for name, column in columns.items()]


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_CHARACTERS else f"{flat[: _MOST_CHARACTERS - 3]}..."


GUESS = "a guess"


class Doubt(NamedTuple):
    """Columns whose type or reading is a guess, for the same reason."""

    kind: str  # name of the class of the columns
    why: str
    names: list[str]


def doubts(schema: Any) -> list[Doubt]:
    """Columns whose type or reading is a guess, by reason; those with most columns first."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, reason in schema.reasons.items():
        guesses, taken = [], False
        for clause in reason.split("; "):
            if clause.startswith(GUESS):
                taken = True
                guesses.append(clause.removeprefix(GUESS).lstrip(": "))
            elif taken and clause.startswith("use "):  # the advice that follows a guess belongs to it
                guesses.append(clause)
            else:
                taken = False
        why = "; ".join(filter(None, guesses))
        if why and name in schema and schema[name].role == "answer":
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
