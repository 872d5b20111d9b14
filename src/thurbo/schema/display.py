"""A schema as a table for people: plain text for terminals, HTML for notebooks.

Idea: one line per column with its type, what a cell means and the reason for the choice.
Guarantees that all text from the user is escaped in HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from thurbo.columns import Column
from thurbo.schema.skips import Skip

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
    body = "".join(f"<tr>{''.join(_html_cells(line, titles))}</tr>" for line in _lines(columns, reasons))
    below = f"<ul>{''.join(f'<li>{escape(str(skip))}</li>' for skip in skips)}</ul>" if skips else ""
    return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>{below}"


def _lines(columns: Mapping[str, Column], reasons: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    return [(name, type(column).__name__, column.describe(), reasons.get(name, "")) for name, column in columns.items()]


def _html_cells(line: tuple[str, str, str, str], titles: Mapping[str, str]) -> Iterator[str]:
    title = titles.get(line[0])
    yield f"<td>{escape(line[0])}{f'<br><small>{escape(title)}</small>' if title else ''}</td>"
    yield from (f"<td>{escape(text)}</td>" for text in line[1:])


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_CHARACTERS else f"{flat[: _MOST_CHARACTERS - 3]}..."
