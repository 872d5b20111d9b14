"""Answers that differ only in case, blanks or quotes, and Y for Yes: read as one answer, by `recode`.

Idea: the most frequent spelling stands for the others; the table is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from thurbo.schema.guess.unanswered import unanswered

_PAIRS = (("yes", "no"), ("true", "false"), ("male", "female"))  # each may be written by its first letter
_FEW = 12  # most answers beside a pair of words, which may be no answers


def folded(texts: Sequence[Any], counts: Sequence[int]) -> dict[str, str]:
    """Each spelling that is read as another one: {"yes": "Yes", "YES": "Yes", "Y": "Yes"}."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for text, count in zip(texts, counts, strict=True):
        if isinstance(text, str):
            groups.setdefault(_key(text), []).append((count, text))
    for pair in _PAIRS if len(groups) <= _FEW else ():
        if set(groups) <= {*pair, *(word[0] for word in pair)} | _pale(groups):
            for word in pair:
                if word[0] in groups and word in groups:
                    groups[word] += groups.pop(word[0])
    found = {}
    for spellings in groups.values():
        # The longest word first: "Yes" stands for "Y", even where "Y" is more frequent.
        spellings.sort(key=lambda each: (len(_key(each[1])) > 1, each[0], _is_titled(each[1]), each[1]), reverse=True)
        found.update({text: spellings[0][1] for _, text in spellings[1:]})
    return found


def _is_titled(text: str) -> bool:
    return text[:1].isupper() and not text.isupper()


def _pale(groups: dict[str, Any]) -> set[str]:
    """Keys that are not answers, which may stand beside yes and no."""
    return {key for key in groups if unanswered(key)}


def _key(text: str) -> str:
    plain = text.casefold().replace("\u2019", "'").replace("\u00a0", " ")
    return re.sub(r"\s+", " ", plain).strip().rstrip(".") or plain


def in_words(recode: dict[Any, Any], most: int = 4) -> str:
    """The end of a reason: '; a guess: read as one answer: "yes" and "YES" as "Yes"'."""
    targets: dict[Any, list[str]] = {}
    for text, to in recode.items():
        targets.setdefault(to, []).append(f'"{text}"')
    words = [f'{" and ".join(texts[:3])} as "{to}"' for to, texts in targets.items()]
    more = f", and {len(words) - most} more" if len(words) > most else ""
    return f"; a guess: read as one answer: {', '.join(words[:most])}{more}" if words else ""
