"""The words of surveys: answer scales, numbers in the texts of levels, texts that mean "no answer", spelling.

Idea: a text is a degree (very, fairly, not at all, ...) of a word or of its opposite, a step of a known scale
(never < ... < always), a level of education, a band or a rate; each gives a number to sort by.
Guarantees no order unless all texts follow the same rule and no two have the same position.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import combinations, pairwise
from math import inf
from typing import Any, Literal, NamedTuple, get_args

Patterns = tuple[re.Pattern[str], ...]
_WORDS: dict[str, Any] = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))


def _compiled(phrases: Iterable[str]) -> Patterns:
    return tuple(map(re.compile, phrases))


def _weighed(pairs: Iterable[tuple[str, float]]) -> tuple[tuple[re.Pattern[str], float], ...]:
    return tuple((re.compile(phrase), number) for phrase, number in pairs)


LADDERS: dict[str, Patterns] = {name: _compiled(rungs) for name, rungs in _WORDS["ladders"].items()}
EDUCATION = _weighed(_WORDS["education"]["steps"])
NEUTRAL = re.compile("|".join(_WORDS["degrees"]["neutral"]))
# Modifiers before or after the word: "strongly agree", "agree strongly".
DEGREES = _weighed(
    (
        (r"(?:do not|don't|not|no) (?P<stem>.+) at all", -3.0),
        (r"(?:do not|don't|not) (?P<stem>.+) (?:very|so|that) much", -1.0),
        *(
            (whole, degree)
            for phrase, degree in _WORDS["degrees"]["modifiers"]
            for whole in (rf"(?:{phrase}) (?P<stem>.+)", rf"(?P<stem>.+?),? (?:{phrase})")
        ),
    )
)
EXTREMES: dict[str, tuple[str, float]] = {word: (of, by) for word, (of, by) in _WORDS["degrees"]["extremes"].items()}
OPPOSITES, SAME = (
    {word: of for of, words in _WORDS["degrees"][key].items() for word in words} for key in ("opposites", "same")
)
_TIMES = _weighed(_WORDS["rates"]["times"])
Kind = Literal["absent", "unknown", "doubtful"]
_UNANSWERED: dict[Kind, Patterns] = {kind: _compiled(_WORDS["unanswered"][kind]) for kind in get_args(Kind)}
NAMES = {name: re.compile("|".join(phrases)) for name, phrases in _WORDS["names"].items()}
TOOLS = {tool: re.compile("|".join(phrases)) for tool, phrases in _WORDS["tools"].items()}

# Scales of amounts, which have a lowest level: a negated text belongs there.
AMOUNTS = ("how often", "how many times", "how many days", "how large", "rate", "bands")
NEGATED = re.compile(
    r"(?:i |we |it |they |there )?(?:is |are |do |does |have |has |am )?(?:no|not|none|never|don't|doesn't|haven't)\b"
)
# Answers that are not part of a scale although their code is at its end.
OUTSIDE = re.compile(r"\b(other|others|else|none of (these|the above)|depends|both|varies|mixed)\b")
# Words to remove: "a lot of trust" is read as "a lot".
THING = re.compile(
    r"\b(of )?(trust|confidence|interest|influence|help|freedom|attention|impact|importance|difficulty|pain)\b"
)
STATEMENT = re.compile(r"(.*?)\s*\bwith (?:statement |option )?(?:#)?(1|2|a|b|first|second)(?: statement)?")

# Words to remove at the start: "gotten better", "will vote", "a democracy".
LEADING = re.compile(
    r"^(?:i|a(?! (?:little|lot|bit|great|moderate))|an|the|it is|it's|is|are|was|feel"
    r"|has|have|had|got|gotten|gone|become|became|will|would|do|does) "
)
Band = tuple[float | None, float | None]

_NUMBER = r"([-+]?\d{1,3}(?:[, \u00a0\u202f]\d{3})+(?:\.\d+)?[km]?\b|[-+]?\d+(?:\.\d+)?[km]?\b)"
_UNITS = r"(?:[a-z%€£$.²]+ ?){0,3}"  # "years", "USD per month"
_AMOUNT = f"{_NUMBER} ?{_UNITS}"
_OVER = "over|above|more than|greater than|at least|from|older than"
_UNDER = "under|below|less than|fewer than|up to|at most|younger than|until|before"
_BETWEEN = re.compile(rf"(?:between |from )?{_AMOUNT}(?:-|\u2013|\u2014|to|and|until|till) ?{_AMOUNT}")
_ABOVE = (
    re.compile(rf"(?:>=?|≥|{_OVER}) ?{_AMOUNT}"),
    re.compile(
        rf"{_AMOUNT}(?:\+|(?:or|and|&) (?:more|over|above|older|up|upwards|higher|greater|later))(?: {_UNITS})?"
    ),
    re.compile(rf"{_NUMBER} ?\+ ?{_UNITS}"),
)
_BELOW = (
    re.compile(rf"(?:<=?|≤|{_UNDER}) ?{_AMOUNT}"),
    re.compile(rf"{_AMOUNT}(?:or|and|&) (?:less|under|below|younger|fewer|lower|earlier)(?: {_UNITS})?"),
)
_EXACT = re.compile(_AMOUNT)
_FEET = re.compile(
    r"(\d)\s*['\u2019\u2032]\s*(\d{1,2})?\s*(?:\"|''|\u201d|\u2033)?|(\d)\s*(?:ft|feet|foot)\b\.?", re.IGNORECASE
)
_MOST_BANDS = 100


def bands(texts: Sequence[str]) -> list[Band] | None:
    """The interval of each text, each ending where the next one begins; None if they are not intervals.

    The highest text is open if it is a single number, as in "100-149", "150".
    """
    if not 2 <= len(texts) <= _MOST_BANDS:
        return None
    if any(_FEET.search(text) for text in texts):  # in inches: 5'4" is 64, and 5 ft. is 60
        inches = lambda match: f"{12 * int(match[1] or match[3]) + int(match[2] or 0)} "  # noqa: E731
        texts = [_FEET.sub(inches, text.casefold()).strip() for text in texts]
    found = [each for text in texts if (each := _band(text)) is not None]
    singles = {low for low, high in found if low == high}
    known: list[Band] = [  # "over 50" beside "50" begins at 51
        (low + 1, None) if low is not None and high is None and low in singles else (low, high) for low, high in found
    ]
    # At least one must be a range: plain numbers are not bands.
    if len(known) < len(texts) or len(known) < 2 or all(low == high for low, high in known):
        return None
    order = sorted(range(len(known)), key=lambda place: -inf if (low := known[place][0]) is None else low)
    for place, following in pairwise(order):
        (low, high), after = known[place], known[following]
        begins = after[0]
        if begins is None or high is None or high > begins or (low is not None and low >= begins):
            return None
        known[place] = (low, begins)  # "18-29" ends where "30-44" begins
    low, high = known[order[-1]]
    known[order[-1]] = (low, None if low == high else high)
    return known


def _band(text: str) -> Band | None:
    plain = " ".join(re.sub(r"[$€£¥]|\b(?:usd|eur|gbp|aged?|rs)\b\.?", "", text.casefold()).split())
    if match := _BETWEEN.fullmatch(plain):
        low, high = map(_value, match.groups())
        return (low, high) if low < high else None
    if match := next(filter(None, (above.fullmatch(plain) for above in _ABOVE)), None):
        return _value(match[1]), None
    if match := next(filter(None, (below.fullmatch(plain) for below in _BELOW)), None):
        return None, _value(match[1])
    if plain in ("none", "zero", "nil"):
        return 0.0, 0.0
    if re.match(r"(?:just|only) (?:me|myself|one)\b|myself\b", plain):  # "just me - I am a freelancer"
        return 1.0, 1.0
    match = _EXACT.fullmatch(plain)
    return (_value(match[1]), _value(match[1])) if match else None


def _value(text: str) -> float:
    scale = {"k": 1e3, "m": 1e6}.get(text[-1], 1.0)
    return float(re.sub(r"[, \u00a0\u202fkm]", "", text)) * scale


_NUMBERED = re.compile(r"\s*[(\[]?(-?\d+)(?:\s*[-.:)\]=]\s*(\D.*)?|\s+(\D.*)|\s*)", re.DOTALL)


def numbered(texts: Sequence[str]) -> list[float] | None:
    """The leading number of each text, as in "1 - low", "2", "3 - high", if all differ."""
    matches = [_NUMBERED.fullmatch(text) for text in texts]
    numbers = [float(match[1]) for match in matches if match]
    return numbers if len(set(numbers)) == len(texts) else None


def unnumbered(text: str) -> str:
    """A text without its leading number."""
    match = _NUMBERED.fullmatch(text)
    rest = ((match[2] or match[3] or "") if match else "").strip()
    return rest or text


def rates(texts: Sequence[str]) -> list[float] | None:
    """Times per year of each text, from "never" to "every day", if at least two texts name a period."""
    found = [_rate(" ".join(text.casefold().split())) for text in texts]
    if any(rate is None for rate, _ in found) or sum(named for _, named in found) < 2:
        return None
    return [rate for rate, _ in found if rate is not None]


def _rate(text: str) -> tuple[float | None, bool]:
    """Times per year, and whether the text names a period; the mean of two in "monthly or weekly"."""
    parts = [_one_rate(part) for part in re.split(r"\s+or\s+(?!more|less|twice|fewer)", text)]
    known = [rate for rate, named in parts if rate is not None and named]
    return (sum(known) / 2, True) if len(parts) == len(known) == 2 else _one_rate(text)


def _one_rate(text: str) -> tuple[float | None, bool]:
    if re.fullmatch(r"(?:only |just )?(?:on|at) (?:special )?(?:holy ?days|holidays|feasts|occasions)", text):
        return 3.0, True
    if re.match(r"(?:no|not|none)\b.*|.*\bnever\b.*", text):
        return 0.0, False
    words = _WORDS["rates"]
    if text in words["fixed"]:
        return words["fixed"][text], False
    if re.fullmatch(r"(?:almost |nearly )?(?:always|all (?:of )?(?:the|their|my) time|constantly)", text):
        return 1e4, False
    period = re.search(r"\b(?:(\d+) )?(hour|day|week|month|quarter|year)s?\b", text)
    adverb = next((word for word in words["adverbs"] if re.search(rf"\b{word}\b", text)), None)
    if adverb is None and period is None:
        return None, False
    rate = words["adverbs"][adverb] if adverb else words["periods"][period[2]] / float(period[1] or 1)  # type: ignore[index]
    counted = re.search(r"(\d+)(?: ?(?:-|\u2013|to|or) ?(\d+))? (?:or more )?times", text)
    if counted:
        rate *= (float(counted[1]) + float(counted[2] or counted[1])) / 2
    else:
        rate *= next((times for phrase, times in _TIMES if phrase.search(text)), 1.0)
    factors = ((r"\b(?:less|fewer)\b", 0.5), (r"\bmore than|or more\b", 1.5))
    return rate * next((factor for phrase, factor in factors if re.search(phrase, text)), 1.0), True


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


def scale_but_one(texts: Sequence[str]) -> tuple[str, tuple[str, ...], str] | None:
    """A scale of all texts but one, a negated one: its name, the levels lowest first, and the other text.

    It is the lowest level of an amount ("it is not okay" below "once", "twice"); "no children" is no answer.
    """
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
        return found.name, (other, *levels) if is_lowest else levels, other
    return None


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
        falls = sum(after < before for before, after in combinations(heights, 2))
        swaps = min(falls, len(heights) * (len(heights) - 1) // 2 - falls)  # in the better of the two directions
        if found.name == "rate" and swaps < 2:  # rates are approximate, so the order of the file has priority
            return [codes[place] for place in order], found.name
        along = sorted(order, key=lambda place: found.heights[place])
        # The direction in which most codes increase, to keep the direction of the file.
        steps = sum(1 if codes[b] > codes[a] else -1 for a, b in pairwise(along))
        return [codes[place] for place in (along if steps >= 0 else reversed(along))], found.name
    neutral = [place for place in order if NEUTRAL.fullmatch(_plain(unnumbered(texts[place])))]
    others = [place for place in order if place not in neutral]
    at_end = len(neutral) == 1 and neutral[0] in (order[0], order[-1])
    if measure == "ordinal" and at_end and len(others) >= 2 and len(others) % 2 == 0:
        middle = len(others) // 2
        return [codes[place] for place in (*others[:middle], *neutral, *others[middle:])], "a neutral answer"
    return None if measure == "nominal" else _but_one_end(codes, texts, order)


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


_ASIDE = re.compile(r"\b(do not read( out)?|don't read( out)?|volunteered|vol\.?|spontaneous|specify)\b", re.IGNORECASE)
_PARTS = re.compile(r"[/,;:()\[\]{}<>\u2013\u2014]| - |\bor\b|\band\b")


@lru_cache(maxsize=4096)
def unanswered(text: str) -> Kind | None:
    """The kind of non-answer that a text expresses, or None if it is an answer."""
    plain = _ASIDE.sub(" ", text.casefold().replace("\u2019", "'").replace("`", "'"))
    plain = re.sub(r"\bn\s?[/.]\s?a\b\.?", "na", plain)  # before the text is split at slashes
    whole = _trimmed(plain)
    if not re.search(r"\w", plain.replace("_", "")):
        return "absent" if re.fullmatch(r"[\s.?\-_/*\u2013\u2014\u2026]+", plain) else None  # "-", "??", "..."
    parts = [whole, *(part for each in _PARTS.split(plain) if (part := _trimmed(each)))]
    for kind, phrases in _UNANSWERED.items():
        if any(phrase.fullmatch(part) for part in parts for phrase in phrases):
            return kind
    return None


def _trimmed(text: str) -> str:
    """A text without leading code ("9. Don't know", "-1: missing") and surrounding punctuation."""
    text = re.sub(r"^\s*-?\d+\s*[.:)=\-]\s*", "", text)
    return " ".join(text.replace("*", " ").replace('"', " ").split()).strip(" .!?-'")


_PAIRS = (("yes", "no"), ("true", "false"), ("male", "female"))  # each may be written by its first letter
_FEW = 12  # most answers beside a pair of words, which may be no answers


def folded(texts: Sequence[Any], counts: Sequence[int]) -> dict[str, str]:
    """Each spelling that is read as another one: {"yes": "Yes", "YES": "Yes", "Y": "Yes"}."""
    groups: dict[str, list[tuple[bool, int, bool, str]]] = {}
    for text, count in zip(texts, counts, strict=True):
        if isinstance(text, str):
            key, is_titled = _key(text), text[:1].isupper() and not text.isupper()
            groups.setdefault(key, []).append((len(key) > 1, count, is_titled, text))
    for pair in _PAIRS if len(groups) <= _FEW else ():
        if all(key in pair or key in (pair[0][0], pair[1][0]) or unanswered(key) for key in groups):
            for word in pair:
                if word[0] in groups and word in groups:
                    groups[word] += groups.pop(word[0])
    # The longest word first: "Yes" stands for "Y", even where "Y" is more frequent.
    ranked = [sorted(spellings, reverse=True) for spellings in groups.values()]
    return {text: first[-1] for first, *others in ranked for *_, text in others}


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
