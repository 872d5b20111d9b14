"""The words of surveys: answer scales, numbers in the texts of levels, texts that mean "no answer", spelling.

Idea: a text is a degree (very, fairly, not at all, ...) of a word or of its opposite, a step of a known scale
(never < ... < always), a level of education, a band or a rate; each gives a number to sort by.
Guarantees no order unless all texts follow the same rule and no two have the same position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any, Literal, NamedTuple


def _rungs(*phrases: str) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, phrases))


_NUMBERS = ("three", "four", "five", "six", "seven", "eight", "nine", "ten")
LADDERS: dict[str, tuple[re.Pattern[str], ...]] = {
    "how often": _rungs(
        "never|not at all|none of the time|not once|no,? never",
        "almost never|hardly ever|very rarely|very seldom",
        "rarely|seldom|not often|not very often|hardly|infrequently",
        "(yes,? )?(only |just )?once",
        "(yes,? )?(just )?(once or twice|a couple of times)|occasionally|now and then|once in a while"
        "|a little of the time",
        "(only )?sometimes|some ?times|some of the time|from time to time|(yes,? )?(a few|some) times",
        "(about )?half (of )?the time",
        "(yes,? )?several times|fairly often|quite often|regularly",
        "(yes,? )?(often|frequently|many times)|much of the time|a good (bit|part) of the time",
        "very often|very frequently|usually|most of the time|mostly|nearly always|almost always",
        "always|all (of )?the time|constantly|every time",
    ),
    "how much": _rungs(
        "no|no at all|none|none (of them|at all)|nothing|nothing at all|not at all|not any|not much at all",
        "hardly any|very few|very little|almost none|only a few",
        "a small amount|(just |only )?a little( bit)?|a bit|slightly|few|a few|not much|not very much|little",
        "(only )?some|some of them|somewhat|a moderate amount|moderately|a fair amount|partly|to some extent"
        "|a moderate extent",
        "about half|half|half of them",
        "quite a lot|quite a bit|much|many|many of them|considerably|quite a few|fairly much",
        "a lot|lots|a great deal|very much|very many|most|most of them|to a (great|large) extent|a large amount",
        "extremely|an extreme amount|almost all|nearly all",
        "all|all of them|everything|complete|completely|totally|entirely|fully",
    ),
    "how good": _rungs(
        "terrible|awful|horrible|unacceptable",
        "very poor|very bad",
        "poor|bad",
        "below average|only fair|mediocre",
        "fair|average|ok|okay|acceptable|adequate|neutral|satisfactory",
        "above average|fairly good",
        "good",
        "very good",
        "excellent|outstanding|exceptional|superb|perfect",
    ),
    "how large": _rungs(
        "very small|tiny|extra small|xs|x-small",
        "small|s",
        "medium|m|moderate|average|middle|mid-?sized?|medium-?sized?",
        "large|l|big",
        "very large|huge|extra large|xl|x-large",
        "xxl|xx-large|giant",
    ),
    "how severe": _rungs(
        "none|no|absent", "minimal|slight|very mild", "mild", "moderate", "severe", "very severe|extreme"
    ),
    "how many times": _rungs(
        "never|none|not once|zero( times)?|no times?",
        "(only |just )?once|one time|1 time",
        "twice|two times|2 times",
        *(f"(more than |over )?({word}|{number})( times)+( or more)?" for number, word in enumerate(_NUMBERS, 3)),
    ),
    "how well done": _rungs(
        "blue|bleu|very rare|raw", "rare", "medium[- ]rare", "medium", "medium[- ]well( done)?", "well( done)?"
    ),
    "how skilled": _rungs(
        "none|no (experience|skills?|knowledge)",
        "beginner|novice|basic|elementary|entry[- ]level|trainee",
        "(lower[- ])?intermediate|competent|junior",
        "upper[- ]intermediate|mid[- ]level|mid",
        "advanced|proficient|senior",
        "expert|fluent|native|professional|master|lead",
    ),
    "priority": _rungs(
        "not a priority|no priority",
        "(very )?low( priority)?",
        "medium( priority)?|moderate( priority)?",
        "high( priority)?",
        "(very high|top|essential|urgent|critical)( priority)?",
    ),
    "how many days": _rungs(
        "never|not at all|none|no days?",
        "(several|a few|some) days",
        "(more than )?half (of )?the days",
        "most days",
        "(nearly|almost) every day",
        "every day|all days",
    ),
    "membership": _rungs(
        "not a member|no,? not a member|do not belong|don't belong|no member",
        "inactive member|(not|non)[ -]active member|passive member",
        "member",
        "active member",
        "official leader|leader|office holder|official",
    ),
    "what one would do": _rungs(
        "(no,? )?(i )?would never( do( this| that| it)?)?|never would",
        "(no,? )?(but )?(i )?(would|might)( do( this| that| it)?)?( if .*)?|might do",
        "(yes,? )?(have done( this| it)?|once|once or twice)",
        "(yes,? )?(several times|a few times)",
        "(yes,? )?(often|many times)",
    ),
    "yes and no": _rungs(
        "definitely not|certainly not|no,? definitely( not)?",
        "probably not|no,? probably( not)?",
        "no",
        "maybe|perhaps|possibly|it depends|depends|partly|yes and no|to some extent|sometimes",
        "yes",
        "probably|probably yes|yes,? probably",
        "definitely|certainly|definitely yes|yes,? definitely",
    ),
    "class": _rungs(
        "(the )?(lower|under|poor) ?(class)?",
        "(the )?working( class)?",
        "(the )?lower[ -]middle( class)?",
        "(the )?middle( class)?",
        "(the )?upper[ -]middle( class)?",
        "(the )?(upper|higher|rich) ?(class)?",
    ),
    "place": _rungs("first|1st", "second|2nd", "third|3rd", *(f"{place}th" for place in range(4, 21))),
}

_PART = r"(some|incomplete|part of|unfinished)"
_PRIMARY, _SECONDARY = r"(primary|elementary)", r"(secondary|high)"
_UNDONE = r"(not |in)complete"
# Steps in the order in which they are tried, with their position on the scale.
EDUCATION: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(phrase), height)
    for phrase, height in (
        (r"no (formal )?(school|educat|qualif)|never (attended|went)|illiterate|^none$|no grade", 0.0),
        (r"informal|koranic|pre-?school|kindergarten|nursery|literate", 1.0),
        (rf"({_PART}|less than) ({_PRIMARY}|grade)|{_PRIMARY}.*{_UNDONE}", 2.0),
        (rf"{_PART} {_SECONDARY}|less than (a )?high|{_SECONDARY}.*{_UNDONE}", 4.0),
        (r"lower secondary|middle school|junior (high|secondary)|did not (finish|complete)", 4.2),
        (r"no (high school )?(degree|diploma)", 4.2),
        (r"(some|incomplete) (graduate|post-?graduate)", 9.0),
        (r"doctor|ph\.? ?d|professional degree", 11.0),
        (r"master|post-?\s?grad|\bgraduate (degree|school|study|studies)|advanced degree|m\.?a\.?$|mba", 10.0),
        (r"some college|some post|(some|incomplete) tertiary", 6.0),
        (r"post-?\s?secondary|vocational|technical|trade|associate|polytechnic|certificate|apprentice", 6.5),
        (rf"(some|incomplete) university|university.*{_UNDONE}|some (undergraduate|higher)", 7.0),
        (r"bachelor|universit|college|undergraduate|tertiary|higher education|4.year|four.year", 8.0),
        (r"secondary|high school|\bged\b|grammar|matric|12th|diploma", 5.0),
        (r"\bdegree\b", 8.0),
        (r"primary|elementary|basic", 3.0),
    )
)

# Scales of amounts, which have a lowest level: a negated text belongs there.
AMOUNTS = ("how often", "how many times", "how many days", "how large", "rate", "bands")
NEGATED = re.compile(
    r"(?:i |we |it |they |there )?(?:is |are |do |does |have |has |am )?(?:no|not|none|never|don't|doesn't|haven't)\b"
)
# Words that are a degree of another word.
EXTREMES: dict[str, tuple[str, float]] = dict.fromkeys(
    ("essential", "critical", "crucial", "vital", "indispensable"), ("important", 4.5)
) | {"delighted": ("satisfied", 4.5), "certain": ("likely", 4.5), "impossible": ("likely", -4.5)}

NEUTRAL = re.compile(
    r"neither\b.*|neutral|.*\bneither$|unchanged|indifferent|so-so|fifty-fifty|50/50|partly.*partly"
    r"|((stay|remain|been)(ed|s)? |no change,? )?(about |much |roughly )?(the )?same( .*)?"
    r"|no (change|difference|effect|impact)"
    r"|(about )?(the )?right( amount| level| size)?|just right|in(-| )?between|mixed( feelings)?"
    r"|medium|moderate(, .*)?|average|middle( of the road)?|centre|center|both equally|equal(ly)?"
    r"|undecided|not sure|unsure|no opinion"
)
# Answers that are not part of a scale although their code is at its end.
OUTSIDE = re.compile(r"\b(other|others|else|none of (these|the above)|depends|both|varies|mixed)\b")
# Words to remove: "a lot of trust" is read as "a lot".
THING = re.compile(
    r"\b(of )?(trust|confidence|interest|influence|help|freedom|attention|impact|importance|difficulty|pain)\b"
)
STATEMENT = re.compile(r"(.*?)\s*\bwith (?:statement |option )?(?:#)?(1|2|a|b|first|second)(?: statement)?")

# Modifiers in the order in which they are tried, and their degree; negative degrees reverse the word.
_DEGREES: tuple[tuple[str, float], ...] = (
    (r"almost always", 3.5),
    (r"always|in all cases", 4.0),
    (r"(only )?sometimes|in some cases", 0.9),
    (r"hardly|barely|scarcely", -0.5),
    (r"(definitely|certainly) (will |would |do |does )?not|never", -3.5),
    (r"probably (will |would |do |does )?not|tend not to", -1.5),
    (r"not at all|in no way|not (in the least|a bit)|completely not", -3.0),
    (r"not (very|so|too|particularly|really|that|especially|quite)( much)?", -1.0),
    (r"very (big|serious|great)", 3.5),
    (r"very strongly|extremely|completely|totally|entirely|absolutely|fully|full|perfectly|exceptionally", 4.0),
    (r"strongly|strong|far|a great deal|greatly|highly|definitely|certainly|a lot|very( much)?|much|clearly", 3.0),
    (r"(but )?with minor problems", 1.7),
    (r"quite( a bit)?|rather|fairly|pretty|mostly|generally|probably|tend to|moderately|reasonably|lean(ing)?", 1.5),
    (r"somewhat|partly|partially|some|to some extent", 1.2),
    (r"slightly|a little( bit)?|a bit|mildly|just|marginally|weakly|(but )?with (major|serious) problems", 0.7),
    (r"a moderate amount", 1.5),
    (r"big|major|serious|great", 2.5),
    (r"small|minor|slight", 0.7),
    (r"not|no|non|isn't|don't|do not", -2.0),
)
# Modifiers before or after the word: "strongly agree", "agree strongly".
DEGREES: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"(?:do not|don't|not|no) (?P<stem>.+) at all"), -3.0),
    (re.compile(r"(?:do not|don't|not) (?P<stem>.+) (?:very|so|that) much"), -1.0),
    *(
        (re.compile(whole), degree)
        for phrase, degree in _DEGREES
        for whole in (rf"(?:{phrase}) (?P<stem>.+)", rf"(?P<stem>.+?),? (?:{phrase})")
    ),
)
# Words to remove at the start: "gotten better", "will vote", "a democracy".
LEADING = re.compile(
    r"^(?:i|a(?! (?:little|lot|bit|great|moderate))|an|the|it is|it's|is|are|was|feel"
    r"|has|have|had|got|gotten|gone|become|became|will|would|do|does) "
)
OPPOSITES: dict[str, str] = {
    "worse": "better", "bad": "good", "badly": "well", "poor": "good", "poorly": "well", "less": "more",
    "fewer": "more", "low": "high", "lower": "higher", "difficult": "easy", "hard": "easy", "harder": "easier",
    "oppose": "support", "opposed": "support", "against": "support", "against it": "support", "reject": "accept",
    "decrease": "increase", "decreased": "increased", "decline": "increase", "fall": "rise",
    "worsened": "better", "deteriorated": "better", "too-little": "too-much", "too-few": "too-many",
    "negative": "positive", "negatively": "positively", "pessimistic": "optimistic", "sad": "happy",
    "weak": "strong", "false": "true", "wrong": "right", "left": "right", "liberal": "conservative",
    "cold": "hot", "cool": "warm", "dangerous": "safe", "hostile": "friendly", "harmful": "beneficial",
    "hurt": "help", "slow": "fast", "slowly": "quickly", "cheap": "expensive", "short": "long",
    "too low": "too high", "too small": "too large", "too short": "too long", "smaller": "larger",
    "mistrust": "trust", "hate": "love",
}  # fmt: skip
SAME = {"improved": "better"} | dict.fromkeys(
    ("favor", "in favor", "for", "for it", "in favor of it", "support it", "supportive"), "support"
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
    in_feet = any(_FEET.search(text) for text in texts)
    found = [_band(_in_inches(text) if in_feet else text) for text in texts]
    known = [each for each in found if each is not None]
    known = [_beyond(band, known) for band in known]
    # At least one must be a range: plain numbers are not bands.
    if len(known) < len(texts) or len(known) < 2 or all(low == high for low, high in known):
        return None
    starts = [float("-inf") if low is None else low for low, _ in known]
    order = sorted(range(len(known)), key=starts.__getitem__)
    result: list[Band] = [(None, None)] * len(known)
    for position, place in enumerate(order):
        low, high = known[place]
        after = known[order[position + 1]] if position + 1 < len(order) else None
        if after is not None:
            begins = after[0] if after[0] is not None else after[1]
            if begins is None or high is None or high > begins or (low is not None and low >= begins):
                return None
            high = begins  # "18-29" ends where "30-44" begins
        elif low == high:
            high = None
        if low is None and position > 0:
            return None
        result[place] = (low, high)
    return result


def _beyond(band: Band, bands: Sequence[Band]) -> Band:
    """An open band that begins above a single number of another: "over 50" beside "50" begins at 51."""
    low, high = band
    return (low + 1, None) if low is not None and high is None and (low, low) in bands else band


def _in_inches(text: str) -> str:
    """Heights in inches: 5'4" is 64, and 5 ft. is 60."""
    return _FEET.sub(lambda match: f"{12 * int(match[1] or match[3]) + int(match[2] or 0)} ", text.casefold()).strip()


def _band(text: str) -> Band | None:
    plain = " ".join(re.sub(r"[$€£¥]|\b(?:usd|eur|gbp|aged?|rs)\b\.?", "", text.casefold()).split())
    if match := _BETWEEN.fullmatch(plain):
        low, high = map(_value, match.groups())
        return (low, high) if low < high else None
    for above in _ABOVE:
        if match := above.fullmatch(plain):
            return _value(match[1]), None
    for below in _BELOW:
        if match := below.fullmatch(plain):
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


_PERIODS = {"hour": 8760.0, "day": 365.0, "week": 52.0, "month": 12.0, "quarter": 4.0, "year": 1.0}
_ADVERBS = {"hourly": 8760.0, "daily": 365.0, "weekly": 52.0, "monthly": 12.0, "quarterly": 4.0}
_ADVERBS |= {"yearly": 1.0, "annually": 1.0, "fortnightly": 26.0}
_TIMES = (
    (r"\bonce or twice\b", 1.5),
    (r"\b(?:a )?couple(?: of)? times\b", 2.0),
    (r"\b(?:only |just )?once\b", 1.0),
    (r"\btwice\b", 2.0),
    (r"\b(?:a )?few times\b", 3.0),
    (r"\b(?:several|multiple) times\b", 4.0),
    (r"\bmany times\b", 8.0),
    (r"\bmost\b", 0.7),
    (r"\b(?:almost|nearly) every\b", 0.8),
)


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
    fixed = {"less often": 0.02, "rarely": 0.05, "hardly ever": 0.01, "seldom": 0.05, "occasionally": 0.1}
    if text in fixed:
        return fixed[text], False
    if re.fullmatch(r"(?:almost |nearly )?(?:always|all (?:of )?(?:the|their|my) time|constantly)", text):
        return 1e4, False
    period = re.search(r"\b(?:(\d+) )?(hour|day|week|month|quarter|year)s?\b", text)
    adverb = next((word for word in _ADVERBS if re.search(rf"\b{word}\b", text)), None)
    if adverb is None and period is None:
        return None, False
    rate = _ADVERBS[adverb] if adverb else _PERIODS[period[2]] / float(period[1] or 1)  # type: ignore[index]
    counted = re.search(r"(\d+)(?: ?(?:-|\u2013|to|or) ?(\d+))? (?:or more )?times", text)
    if counted:
        rate *= (float(counted[1]) + float(counted[2] or counted[1])) / 2
    else:
        rate *= next((times for phrase, times in _TIMES if re.search(phrase, text)), 1.0)
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


Kind = Literal["unknown", "absent", "doubtful"]

# The respondent did not know; an answer of its own if the question is about knowledge.
_UNKNOWN = (
    r"(i )?(do not|don't|dont|did not|didn't) (really )?know",
    r"dk|d\.k\.|dk na|not know",
    r"(i )?(cannot|can't|cant|could not|couldn't|unable to) (say|choose|determine|decide|tell|judge|remember|recall)",
    r"(hard|difficult|impossible) to (say|tell|judge)",
    r"(do not|don't|does not|doesn't|did not|didn't) remember",
    r"(have not|haven't|has not|not) heard( enough| about it| of it| of them)?",
    r"(i )?(do not|don't|does not|did not|didn't) understand( (the|this))?( question| statement)?",
)
# Not asked or not answered: always missing.
_ABSENT = (
    r"missing|missing (data|value|values|answer|response|information|system)|(system|user|other) missing",
    r"refus(ed|al|es|e)|refus(ed|al|es|e) to (answer|say|respond|state|disclose)|answer refused",
    r"declin(ed|es|e)|declin(ed|es|e) to (answer|say|respond|state|disclose)",
    r"(i )?(prefer|would prefer|would rather|rather|chose|choose) not (to )?(answer|say|respond|state|disclose|share)",
    r"(will|would|did|does) not (say|answer|respond|tell)|won't say",
    r"no (answer|response|reply|data|information)|non ?response|not answered|unanswered|left blank|blank",
    r"no (further|more|other|second|third) (reply|answer|response|mention|mentions)",
    r"not applicable|non applicable|inapplicable|inap|iap|na|does not apply|doesn't apply",
    r"(question )?not asked( .*)?|(item )?not administered( .*)?|not in (this )?(wave|survey|questionnaire|version)",
    r"not ascertained|not available|not stated|not reported|not specified|not recorded|not determined|undetermined",
    r"(legitimate |valid )?skip(ped)?|filtered|invalid|implausible|uncodeable|uncodable|interview(er)? error|no code",
)
# Ambiguous: the middle of a scale, or a missing answer.
_DOUBTFUL = (
    r"(i am |i'm )?(not sure|unsure|uncertain|undecided|not certain)",
    r"no opinion|no view|no preference|no experience( .*)?|no contact( .*)?|never used( .*)?|unknown|unfamiliar",
    r"(have )?never heard( of .*| about .*)?|not familiar( .*)?",
)
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
    for kind, phrases in _PHRASES:
        if any(phrase.fullmatch(part) for part in parts for phrase in phrases):
            return kind
    return None


def _trimmed(text: str) -> str:
    """A text without leading code ("9. Don't know", "-1: missing") and surrounding punctuation."""
    text = re.sub(r"^\s*-?\d+\s*[.:)=\-]\s*", "", text)
    return " ".join(text.replace("*", " ").replace('"', " ").split()).strip(" .!?-'")


_PHRASES: tuple[tuple[Kind, tuple[re.Pattern[str], ...]], ...] = (
    ("absent", tuple(map(re.compile, _ABSENT))),
    ("unknown", tuple(map(re.compile, _UNKNOWN))),
    ("doubtful", tuple(map(re.compile, _DOUBTFUL))),
)


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
