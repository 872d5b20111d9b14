"""Words and numbers that all parts of the report share: shares as text, short names, answers, missing cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.table.columns.forms import Answers
from thurbo.table.schema.descriptions import question_texts
from thurbo.table.schema.routing import NOT_APPLICABLE, not_asked

BRIEF = 34  # characters of a name on an axis or in a heading
LONG_TEXT = 40
_TAIL = 0.45  # most of a brief name that is taken from the end of the question
# Words that say little at the start of a question, and sentences that only tell how to answer it.
_OPENING = frozenset(
    re.findall(
        r"\w+",
        "which of these the following do does did you your typically please is are it what a an in general generally "
        "speaking would say and",
    )
)
_LINKS = frozenset(
    re.findall(r"\w+", "to for at on if when who whom how with any by from up should get will have or than as")
)
_INSTRUCTION = re.compile(r"\s*\(?\b(please|select|choose|check|tick|mark)\b[^.?!]*[.?!)]*\s*$", re.IGNORECASE)
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


def listing(names: Sequence[str], last: str = "and") -> str:
    """Names with commas and a final "and"."""
    return "".join(names) if len(names) < 2 else ", ".join(names[:-1]) + f" {last} " + names[-1]


def quoted(text: str) -> str:
    """A question in quotation marks."""
    return f"“{text}”"


def texts_of(schema: Any, answers: Sequence[Any] = ()) -> dict[str, dict[str, str]]:
    """The text of every column and of every part of a question by name: brief, short, and in full.

    The short text of a part has the name of the column if the question is long: a label needs the room.
    """
    texts = question_texts(schema.names, schema.titles)
    full = {name: name if text.full == name else text.full[len(name) + 2 :] for name, text in texts.items()}
    asked = briefs({name: full[name] for name in schema.modelled})
    short = asked | briefs({name: text for name, text in full.items() if name not in asked})
    own = {name: {"brief": short[name], "short": text.short, "full": text.full} for name, text in texts.items()}
    parts = dict[str, dict[str, str]]()
    for column in answers:
        home = own[column.name]
        for part in column.parts:
            label = part.name[len(column.name) + 2 :]
            is_long = len(home["short"]) > LONG_TEXT
            parts[part.name] = {key: f"{text}: {label}" for key, text in home.items()}
            parts[part.name]["short"] = part.name if is_long else f"{home['short']}: {label}"
    return own | parts


def briefs(texts: Mapping[str, str]) -> dict[str, str]:
    """A different brief name for each column: its own if people can read it, and otherwise the heart of its question.

    `texts` are the questions by name of the column.
    """
    hearts = {name: text if _CODE.fullmatch(text) else _heart(text) for name, text in texts.items()}
    found, taken = dict[str, str](), Counter(hearts.values())
    for name in texts:
        readable = " ".join(name.replace("_", " ").split())
        if len(readable) <= BRIEF and not _CODE.fullmatch(name):
            found[name] = readable
        elif taken[hearts[name]] > 1:  # the questions of a grid share their text
            found[name] = clipped(name, BRIEF)
        else:
            found[name] = both_ends(hearts[name], BRIEF)
    for same in _groups(found):
        words = [hearts[name].split() for name in same]
        n_shared = next((k for k, each in enumerate(zip(*words, strict=False)) if len(set(each)) > 1), 0)
        for name, own in zip(same, words, strict=True):
            start, rest = clipped(" ".join(own[:n_shared]), BRIEF // 2), " ".join(own[n_shared:]) or name
            found[name] = clipped(f"{start} {rest}".strip(), BRIEF + 8)
    for same in _groups(found):
        for number, name in enumerate(same, start=1):
            found[name] = f"{found[name]} ({number})"
    return found


def _groups(names: Mapping[str, str]) -> list[list[str]]:
    """Columns with the same brief name."""
    groups: dict[str, list[str]] = {}
    for name, text in names.items():
        groups.setdefault(text.casefold(), []).append(name)
    return [each for each in groups.values() if len(each) > 1]


def _heart(text: str) -> str:
    """A question without instructions and without the words that many questions begin with."""
    flat = " ".join(text.split())
    without = _INSTRUCTION.sub("", flat).strip() or flat
    words = without.split(" ")
    while len(words) > 2 and words[0].strip(",.:").casefold() in _OPENING:
        words = words[1:]
    heart = " ".join(words)
    return heart[:1].upper() + heart[1:]


def clipped(text: str, most: int) -> str:
    """The beginning of a text in whole words."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    head = flat[: most - 1]
    if " " in head[most // 2 :]:
        head = head.rpartition(" ")[0]
    words = head.split(" ")
    while len(words) > 1 and words[-1].strip(",.:").casefold() in _OPENING | _LINKS:  # no dangling words
        words = words[:-1]
    return " ".join(words).rstrip(" ,;:.-") + "…"


def both_ends(text: str, most: int) -> str:
    """The first and the last words of a text: the questions of a battery differ at the end."""
    words = text.split()
    if len(text) <= most:
        return text
    head, tail = list[str](), list[str]()
    while words and len(" ".join([*tail, words[-1]])) <= _TAIL * most:
        tail.insert(0, words.pop())
    while tail and tail[0].strip(",.:").casefold() in _LINKS:  # no dangling words
        tail.pop(0)
    room = most - len(" ".join(tail)) - 3
    while words and len(" ".join([*head, words[0]])) <= room:
        head.append(words.pop(0))
    while len(head) > 1 and head[-1].strip(",.:").casefold() in _OPENING | _LINKS:
        head.pop()
    return f"{' '.join(head).rstrip(' ,;:.-')} … {' '.join(tail)}" if head and tail else clipped(text, most)


def brief_of(texts: Mapping[str, Mapping[str, str]], name: str) -> str:
    """The brief name of a question or part; a ranking is tested as "name: favourite"."""
    if name in texts:
        return texts[name]["brief"]
    base, mark, rest = name.rpartition(": ")
    return f"{texts[base]['brief']}: {rest}" if mark and base in texts else clipped(name, BRIEF)


def with_answer(question: str, answer: str) -> str:
    """A question and its answer: "fan: Yes", "Have you seen it? Yes"."""
    if not answer:
        return question
    return f"{question} {answer}" if question.endswith(("?", ".", "!", ":")) else f"{question}: {answer}"


def time_words(spent: Mapping[str, float]) -> str:
    """The whole time and its parts: "29.2 s (reading 1.1, compiling 8.2, training 19.9)"."""
    parts = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in spent.items() if stage != "total")
    return f"{spent['total']:.1f} s ({parts})" if parts else f"{spent['total']:.1f} s"


FloatArray = NDArray[np.float64]


def read_answers(schema: Any, X: Any) -> list[Answers]:
    """Read every modelled question of X through its fitted schema."""
    blocks = schema.compile(X)
    return [schema[name].form.answers(name, blocks[name]) for name in schema.modelled]


NOTHING = "no answer"


def missing_kinds(schema: Any, source: Any) -> dict[str, dict[str, float]]:
    """Share of missing cells of each question, by kind; kinds that do not occur are omitted."""
    found, out = {}, not_asked(schema, schema.skips, source)
    for name, column in schema.items():
        names = [each for each in column.source_columns(name) or (name,) if each in source]
        if not names:
            continue
        cells = source.cells(names[0])
        if names != [name]:
            cells = replace(cells, name=name, parts={each: source.cells(each) for each in names})
        counts = column.missing_kinds(cells)
        if name in out:
            counts[NOT_APPLICABLE] = counts.get(NOT_APPLICABLE, 0)
            for each in names:
                skipped = int((out[name] & source.cells(each).missing).sum())
                counts[NOT_APPLICABLE] += skipped
                counts[NOTHING] -= skipped
        n_cells = max(source.n_rows * len(names), 1)
        found[name] = {kind: count / n_cells for kind, count in counts.items() if count}
    return found


def missing_words(shares: Mapping[str, float]) -> str:
    """The shares as text: "12 %", or "12 % (8 % refused, 4 % no answer), 21 % not applicable"."""
    gaps = {kind: share for kind, share in shares.items() if kind != NOT_APPLICABLE}
    words = percent(float(np.clip(sum(gaps.values()), 0.0, 1.0)))
    if set(gaps) - {NOTHING}:
        kinds = sorted(gaps.items(), key=lambda each: -each[1])
        words += f" ({', '.join(f'{percent(share)} {kind}' for kind, share in kinds)})"
    return f"{words}, {percent(shares[NOT_APPLICABLE])} {NOT_APPLICABLE}" if NOT_APPLICABLE in shares else words
