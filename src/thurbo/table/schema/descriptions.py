"""A schema for people: as a table, its doubtful guesses, and the texts of its questions.

Idea: one line per column with its type, what a cell means and the reason for the choice.
Guarantees that all text from the user is escaped in HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from thurbo.table.columns.values import listing

if TYPE_CHECKING:
    from thurbo.table.columns.column import Column
    from thurbo.table.schema.schema import Schema

HEADER = ("column", "type", "meaning of a cell", "reason")
_MOST_CHARACTERS, _MOST_IN_LINE = 72, 200


def as_text(schema: Schema) -> str:
    """The table as text; without the last column if there are no reasons. Skips and columns to check stand below."""
    columns, reasons, skips = schema, schema.reasons, schema.skips
    lines = [tuple(_shortened(text) for text in line) for line in [HEADER, *_lines(columns, reasons)]]
    if not reasons:
        lines = [line[:3] for line in lines]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    padded = ("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines)
    check = [_shortened(f"{listing(each.names)}: {each.why}", _MOST_IN_LINE) for each in doubts(schema)]
    parts = (["", *map(str, skips)] if skips else []), (["", "Please check:", *check] if check else [])
    return "\n".join([*padded, *parts[0], *parts[1]])


def as_html(schema: Schema) -> str:
    """The table as HTML, with the title of each question below its name. Skips and columns to check stand below."""
    columns, reasons, titles, skips = schema, schema.reasons, schema.titles, schema.skips
    header = "".join(f"<th>{text}</th>" for text in HEADER)
    body = ""
    for name, *others in _lines(columns, reasons):
        title = f"<br><small>{escape(titles[name])}</small>" if titles.get(name) else ""
        cells = "".join(f"<td>{escape(text)}</td>" for text in others)
        body += f"<tr><td>{escape(name)}{title}</td>{cells}</tr>"
    below = f"<ul>{''.join(f'<li>{escape(str(skip))}</li>' for skip in skips)}</ul>" if skips else ""
    check = "".join(f"<li>{escape(listing(each.names))}: {escape(each.why)}</li>" for each in doubts(schema))
    check = f"<p>Please check:</p><ul>{check}</ul>" if check else ""
    return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>{below}{check}"


def _lines(columns: Mapping[str, Column], reasons: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    return [(name, type(column).__name__, column.describe(), reasons.get(name, "")) for name, column in columns.items()]


def _shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."


GUESS = "a guess"
CERTAIN = 0.8  # confidence from which a column need not be checked


OTHERWISE = "otherwise: "  # in a reason, before what else a column may be


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
        guesses, taken = [], False
        for clause in reason.split("; "):
            if clause.startswith(GUESS):
                taken = True
                guesses.append(clause.removeprefix(GUESS).lstrip(": "))
            elif taken and clause.startswith("use "):  # the advice that follows a guess belongs to it
                guesses.append(clause)
            else:
                taken = False
        other = [clause for clause in reason.split("; ") if clause.startswith(OTHERWISE)]
        why = "; ".join([*filter(None, guesses), *other]) if guesses else reason if name in schema.confidence else ""
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


MOST_CHARACTERS = 72
_TAIL = 0.4  # share of a shortened text that is taken from its end


class QuestionText(NamedTuple):
    """A question as short text, and in full with the column name."""

    short: str
    full: str


def question_texts(names: Sequence[str], titles: Mapping[str, str]) -> dict[str, QuestionText]:
    """Texts of the columns `names`, which may have a title each."""
    flat = {name: " ".join(titles.get(name, "").split()) for name in names}
    shared = Counter(flat.values())
    long = {name: title if title and shared[title] == 1 else name for name, title in flat.items()}
    short = {name: shortened(text) for name, text in long.items()}
    times = Counter(short.values())
    return {
        name: QuestionText(
            text if times[text] == 1 or text == name else f"{text} ({name})",
            f"{name}: {flat[name]}" if flat[name] and flat[name] != name else name,
        )
        for name, text in short.items()
    }


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text of at most `most` characters: its first and last words, because questions often differ at the end."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    n_tail = int(_TAIL * most)
    head, tail = flat[: most - n_tail - 3], flat[-n_tail:]
    # Whole words, unless a word is very long.
    if " " in head[len(head) // 2 :] and flat[len(head)] != " ":
        head = head.rpartition(" ")[0]
    if " " in tail[: n_tail // 2] and flat[-n_tail - 1] != " ":
        tail = tail.partition(" ")[2]
    return f"{head.rstrip(' ,;:')} … {tail.lstrip()}"
