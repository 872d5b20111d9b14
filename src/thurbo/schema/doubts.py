"""What of a schema is a guess, and which columns are outside the model: records for `thurbo check` and reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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
        why = "; ".join(clause for clause in _guesses(reason) if clause)
        if why and name in schema and schema[name].role == "answer":
            found.setdefault((type(schema[name]).__name__, why), []).append(name)
    ranked = sorted(found.items(), key=lambda each: -len(each[1]))
    return [Doubt(kind, why, names) for (kind, why), names in ranked]


def _guesses(reason: str) -> Iterator[str]:
    """The parts of a reason that are a guess; the advice that follows a part belongs to it."""
    taken = False
    for clause in reason.split("; "):
        if clause.startswith(GUESS):
            taken = True
            yield clause.removeprefix(GUESS).lstrip(": ")
        elif taken and clause.startswith("use "):
            yield clause
        else:
            taken = False


def left_out(schema: Any, source: Any) -> Mapping[str, list[str]]:
    """Columns outside the model by reason, and columns of the table that the schema does not name."""
    found: dict[str, list[str]] = {}
    for name, column in schema.items():
        if column.role not in ("answer", "pattern"):
            why = column.describe().removeprefix("left out: ").removesuffix(", left out of the model")
            found.setdefault(why, []).append(name)
    unread = [name for name in source.names if not _is_read(schema, name)]
    if unread:
        found["not in the schema"] = unread
    return found


def _is_read(schema: Any, name: str) -> bool:
    return name in schema or any(name in sources for sources in schema.source_columns.values())
