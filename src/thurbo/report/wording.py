"""Words of the report: shares as text, lists of names, and names of questions that fit into a heading or an axis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from thurbo.schema.question_texts import question_texts, shortened

BRIEF = 34  # characters of a name on an axis or in a heading
LONG_TEXT = 40
_CODE = re.compile(r"[A-Za-z]{0,4}[_.-]?\d+[A-Za-z_.\d]*|[A-Z]{1,3}")  # q12, V201_a, x3


def percent(share: float | None) -> str:
    """A share as a percentage without decimals."""
    if share is None:
        return "–"
    if 0 < share < 0.005:
        return "<1\u00a0%"
    if 0.995 <= share < 1:
        return ">99\u00a0%"
    return f"{100 * share:.0f}\u00a0%"


def listing(names: Sequence[str]) -> str:
    """Names with commas and a final "and"."""
    return "".join(names) if len(names) < 2 else ", ".join(names[:-1]) + " and " + names[-1]


def quoted(text: str) -> str:
    """A question in quotation marks."""
    return f"“{text}”"


def texts_of(schema: Any, answers: Sequence[Any] = ()) -> dict[str, dict[str, str]]:
    """The text of every column and of every part of a question by name: brief, short, and in full.

    The short text of a part has the name of the column if the question is long: a label needs the room.
    """
    own = {}
    for name, text in question_texts(schema.names, schema.titles).items():
        own[name] = {"brief": brief(name, text.short), "short": text.short, "full": text.full}
    parts = {}
    for column in answers:
        for part in column.parts:
            label = part.name[len(column.name) + 2 :]
            texts = own[column.name]
            short = part.name if len(texts["short"]) > LONG_TEXT else f"{texts['short']}: {label}"
            parts[part.name] = {
                "brief": f"{texts['brief']}: {label}",
                "short": short,
                "full": f"{texts['full']}: {label}",
            }
    return own | parts


def brief(name: str, text: str) -> str:
    """A name for an axis: that of the column if people can read it, and otherwise the shortened text."""
    readable = " ".join(name.replace("_", " ").split())
    if len(readable) <= BRIEF and not _CODE.fullmatch(name):
        return readable
    return clipped(text, BRIEF)


def clipped(text: str, most: int) -> str:
    """The beginning of a text in whole words, or both of its ends if these are needed."""
    return shortened(text, most)


def brief_of(texts: Mapping[str, Mapping[str, str]], name: str) -> str:
    """The brief name of a question or part; a ranking is tested as "name: favourite"."""
    if name in texts:
        return texts[name]["brief"]
    base, mark, rest = name.rpartition(": ")
    return f"{texts[base]['brief']}: {rest}" if mark and base in texts else clipped(name, BRIEF)
