"""The order of levels from their texts: common survey scales, with the neutral answer in the middle.

Idea: a text is a degree (very, fairly, not at all, ...) of a word or of its opposite, a step of a known scale
(never < ... < always), a level of education, a band or a rate; each gives a number to sort by.
Guarantees None unless all texts follow the same rule and no two have the same position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from thurbo.schema.guess.quantities import bands, numbered, rates, unnumbered
from thurbo.schema.guess.scale_words import (
    AMOUNTS,
    DEGREES,
    EDUCATION,
    EXTREMES,
    LADDERS,
    LEADING,
    NEGATED,
    NEUTRAL,
    OPPOSITES,
    OUTSIDE,
    SAME,
    STATEMENT,
    THING,
)

_MOST_LEVELS = 40


class Scale(NamedTuple):
    """Name of a scale, and the position of each text on it."""

    name: str
    heights: tuple[float, ...]


def scale(texts: Sequence[str]) -> Scale | None:
    """The scale that the texts belong to, or None if it is unknown."""
    return _scale(tuple(texts)) if 2 <= len(texts) <= _MOST_LEVELS else None


@lru_cache(maxsize=512)  # questionnaires repeat a few scales many times
def _scale(texts: tuple[str, ...]) -> Scale | None:
    plain = [_plain(unnumbered(text)) for text in texts]
    found = bands(texts) or (bands([unnumbered(text) for text in texts]) if numbered(texts) else None)
    if found is not None:
        return Scale("bands", tuple(-1e300 if low is None else low for low, _ in found))
    readings: tuple[tuple[str, Callable[[list[str]], list[float] | None]], ...] = (
        *((name, lambda words, rungs=rungs: _ladder(words, rungs)) for name, rungs in LADDERS.items()),
        ("rate", rates),
        ("statements", _statements),
        ("degree", _degrees),
        ("education", _education),
    )
    for name, read in readings:
        heights = read(plain)
        if heights is not None and len(set(heights)) == len(texts):
            return Scale(name, tuple(heights))
    numbers = numbered(texts)
    return Scale("numbered", tuple(numbers)) if numbers is not None else None


class ButOne(NamedTuple):
    """A scale of all texts but one: its name, the levels lowest first, and the other text."""

    name: str
    levels: tuple[str, ...]
    other: str
    is_lowest: bool  # whether the other text is the lowest level, or no answer


def scale_but_one(texts: Sequence[str]) -> ButOne | None:
    """A scale with one negated text: "it is not okay" below "once", "twice"; "no children" is no level of agreement."""
    if not 4 <= len(texts) <= _MOST_LEVELS:
        return None
    for other in texts:
        if not NEGATED.match(_plain(other)):
            continue
        rest = [text for text in texts if text != other]
        found = scale(rest)
        if found is None or found.name == "numbered":
            continue
        levels = tuple(text for _, text in sorted(zip(found.heights, rest, strict=True)))
        is_lowest = found.name in AMOUNTS and min(found.heights) != 0
        return ButOne(found.name, (other, *levels) if is_lowest else levels, other, is_lowest)
    return None


def is_neutral(text: str) -> bool:
    """Whether a text is a neutral answer, between two sides."""
    return bool(NEUTRAL.fullmatch(_plain(unnumbered(text))))


def arranged(codes: Sequence[Any], texts: Sequence[str], measure: str = "") -> tuple[list[Any], str] | None:
    """Codes in the order of the scale of their texts, and the name of the scale; None if there is no scale.

    The order of the codes is kept if it agrees with the texts, in either direction. If the file says "ordinal", a
    neutral answer at one end of an even number of other answers is moved to the middle.
    """
    order = sorted(range(len(codes)), key=lambda place: codes[place])
    found = scale(texts)
    if found is not None:
        heights = [found.heights[place] for place in order]
        if heights in (sorted(heights), sorted(heights, reverse=True)):
            return [codes[place] for place in order], found.name
        along = sorted(order, key=lambda place: found.heights[place])
        if found.name == "rate" and _swaps(heights) < 2:
            return [
                codes[place] for place in order
            ], found.name  # rates are approximate, so the order of the file has priority
        # The direction in which most codes increase, to keep the direction of the file.
        steps = sum(1 if codes[b] > codes[a] else -1 for a, b in pairwise(along))
        return [codes[place] for place in (along if steps >= 0 else reversed(along))], found.name
    neutral = [place for place in order if is_neutral(texts[place])]
    others = [place for place in order if place not in neutral]
    at_end = len(neutral) == 1 and neutral[0] in (order[0], order[-1])
    if measure == "ordinal" and at_end and len(others) >= 2 and len(others) % 2 == 0:
        middle = len(others) // 2
        return [codes[place] for place in (*others[:middle], *neutral, *others[middle:])], "a neutral answer"
    return None if measure == "nominal" else _but_one_end(codes, texts, order)


def _swaps(heights: list[float]) -> int:
    """Number of pairs out of order, in the better of the two directions."""
    falls = sum(after < before for before, after in combinations(heights, 2))
    return min(falls, len(heights) * (len(heights) - 1) // 2 - falls)


def _but_one_end(codes: Sequence[Any], texts: Sequence[str], order: list[int]) -> tuple[list[Any], str] | None:
    """Codes in their order, if all but the first or the last form a scale: "no help" < "a little" < ..."""
    for end, rest in ((order[0], order[1:]), (order[-1], order[:-1])):
        found = scale([texts[place] for place in rest]) if len(rest) > 2 else None
        if found is None or found.name == "numbered" or OUTSIDE.search(texts[end].casefold()):
            continue
        if list(found.heights) in (sorted(found.heights), sorted(found.heights, reverse=True)):
            return [codes[place] for place in order], f"{found.name}, except {texts[end]!r} at its end"
    return None


def _plain(text: str) -> str:
    """A text in lower case and one spelling, without brackets, punctuation and double spaces."""
    plain = re.sub(r"\([^)]*\)|\[[^\]]*\]", " ", text.casefold().replace("\u2019", "'"))
    plain = plain if plain.strip() else text.casefold()
    return " ".join(plain.replace("favour", "favor").replace("_", " ").split()).strip(" .!?*:;-")


def _ladder(words: list[str], rungs: tuple[re.Pattern[str], ...]) -> list[float] | None:
    heights = []
    for word in words:
        bare = " ".join(THING.sub(" ", word).split()) or word  # "a lot of trust" is read as "a lot"
        said = (bare, re.sub(r"^(?:yes|no)[,:;] ?", "", bare))  # "yes, a lot"
        height = next((height for each in said for height, rung in enumerate(rungs) if rung.fullmatch(each)), None)
        if height is None:
            return None
        heights.append(float(height))
    return heights


def _education(words: list[str]) -> list[float] | None:
    found = [next((height for rung, height in EDUCATION if rung.search(word)), None) for word in words]
    return None if None in found or len(words) < 3 else [height for height in found if height is not None]


def _statements(words: list[str]) -> list[float] | None:
    """Agreement with two statements: strongly with the first, ..., with neither, ..., strongly with the second."""
    heights, sides = [], set()
    for word in words:
        if match := STATEMENT.fullmatch(word):
            sides.add(match[2] in ("2", "b", "second"))
            degree = abs(_degree(match[1])[1])
            heights.append(degree if match[2] in ("2", "b", "second") else -degree)
        elif NEUTRAL.fullmatch(word) or word.startswith("both"):
            heights.append(0.0)
        else:
            return None
    return heights if len(sides) == 2 else None


def _degrees(words: list[str]) -> list[float] | None:
    """Degrees of one word and of its opposite."""
    read = [None if NEUTRAL.fullmatch(word) else _degree(word) for word in words]
    stems = {stem for stem, _ in filter(None, read)}
    if not stems or len(read) < 2 or len(stems) == len(words) > 3:
        return None
    # One word without a neutral answer has no opposite: "not wrong" < "always wrong"; otherwise it has one.
    one_sided = len(stems) == 1 and None not in read
    roots = {stem: (stem, 1.0) if one_sided else _root(stem, stems) for stem in stems}
    if len({root for root, _ in roots.values()}) != 1 or len(stems) > 2 or "" in stems:
        return None
    heights = [0.0 if each is None else each[1] * roots[each[0]][1] for each in read]
    # Two words without degrees that are not known opposites are not a scale.
    turned = any(sign < 0 for _, sign in roots.values())
    graded = len(words) > len(stems) or None in read or turned
    return heights if graded else None


def _degree(word: str) -> tuple[str, float]:
    """The main word of a text, and its degree; "agree strongly" is the same as "strongly agree"."""
    word = re.sub(r"^(?:yes|no)[,:;] ?(?:it is |i )?", "", word)  # "yes, somewhat rude", "no, not rude at all"
    word = LEADING.sub("", word)
    word = re.sub(r"\btoo (much|little|many|few)\b", r"too-\1", word)
    for pattern, degree in DEGREES:
        if match := pattern.fullmatch(word):
            return LEADING.sub("", match["stem"]), degree
    return EXTREMES.get(word, (word, 2.0))


def _root(stem: str, stems: set[str]) -> tuple[str, float]:
    """The positive word of a pair of opposites, and −1 for the negative one."""
    if stem in OPPOSITES:
        return SAME.get(OPPOSITES[stem], OPPOSITES[stem]), -1.0
    for prefix in ("un", "dis", "in", "im", "il", "ir", "not ", "non-"):
        if stem.startswith(prefix) and stem.removeprefix(prefix) in stems:
            return stem.removeprefix(prefix), -1.0
    for prefix in ("un", "dis"):
        if stem.startswith(prefix) and len(stem) > len(prefix) + 3 and len(stems) == 1:
            return stem.removeprefix(prefix), -1.0
    return SAME.get(stem, stem), 1.0
