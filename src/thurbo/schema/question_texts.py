"""Texts of questions for people: the label of a survey variable or its question text instead of a column code.

Idea: a text is the title of the column. Questions of a grid share their title, so there the column name is the text.
Guarantees texts that differ between columns, short enough for a table, and a full text for a tooltip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
