"""The words of surveys: answer scales, numbers in the texts of levels, texts that mean "no answer", spelling.

Idea: a text is a degree (very, fairly, not at all, ...) of a word or of its opposite, a step of a known scale
(never < ... < always), a level of education, a band or a rate; each gives a number to sort by.
Guarantees no order unless all texts follow the same rule and no two have the same position.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import chain, combinations, pairwise
from math import inf
from string import Template
from typing import Any, Literal, NamedTuple, get_args
from unicodedata import normalize

Patterns = tuple[re.Pattern[str], ...]
Weighed = tuple[tuple[re.Pattern[str], float], ...]
_WORDS, _LANGUAGES = (
    tomllib.loads(files(__package__).joinpath(name).read_text("utf-8")) for name in ("words.toml", "languages.toml")
)


def _weighed(pairs: Iterable[tuple[str, float]]) -> Weighed:
    return tuple((re.compile(phrase), number) for phrase, number in pairs)


def patterns(section: str, **parts: str) -> dict[str, re.Pattern[str]]:
    """The patterns of a section of words.toml: a list holds alternatives, "$name" stands for an earlier pattern."""
    for name, phrases in _WORDS[section].items():
        whole = phrases if isinstance(phrases, str) else "|".join(phrases)
        parts[name] = Template(whole).safe_substitute(parts)
    return {name: re.compile(parts[name]) for name in _WORDS[section]}


_AMOUNT, PHRASES, NAMES = patterns("amounts"), patterns("phrases"), patterns("names")
TOOLS, TOOLS_BESIDE = patterns("tools"), patterns("tools_beside")
STRONG, WEAK = patterns("apart").values()
LADDERS: dict[str, Patterns] = {name: tuple(map(re.compile, rungs)) for name, rungs in _WORDS["ladders"].items()}
EDUCATION, QUANTITIES = (_weighed(_WORDS[name]["steps"]) for name in ("education", "quantities"))
NEUTRAL = re.compile("|".join(_WORDS["degrees"]["neutral"]))
# Modifiers before or after the word: "strongly agree", "agree strongly".
DEGREES = _weighed(_WORDS["degrees"]["around"]) + _weighed(
    (whole, degree)
    for phrase, degree in _WORDS["degrees"]["modifiers"]
    for whole in (rf"(?:{phrase}) (?P<stem>.+)", rf"(?P<stem>.+?),? (?:{phrase})")
)
EXTREMES: dict[str, tuple[str, float]] = {word: (of, by) for word, (of, by) in _WORDS["degrees"]["extremes"].items()}
OPPOSITES, SAME = (
    {word: of for of, words in _WORDS["degrees"][key].items() for word in words} for key in ("opposites", "same")
)
_TIMES, _FACTORS = (_weighed(_WORDS["rates"][name]) for name in ("times", "factors"))
_REWRITTEN = [(re.compile(phrase), to) for phrase, to in _WORDS["rewritten"]["amounts"]]
_TRANSLATED = tuple(
    tuple((re.compile(rf"\b(?:{phrase})(?:\b|(?<!\w))"), english) for english, phrase in phrases.items())
    for phrases in _LANGUAGES.values()
)


def _also(english: str) -> str:
    """What other languages say for an English phrase."""
    return "|".join(each[english] for each in _LANGUAGES.values() if english in each)


OTHER = f"other|{_also('other')}"  # in any language
Kind = Literal["absent", "unknown", "doubtful"]
_UNANSWERED = patterns(
    "unanswered",
    no_answer=_also("no answer"),
    not_applicable=_also("not applicable"),
    not_known=_also("don't know"),
)
_FROM_NOTHING: list[str] = _WORDS["from_nothing"]
_SPANS: dict[str, float] = _WORDS["rates"]["seconds"]
_MOST_BANDS = 100
Band = tuple[float | None, float | None]


def bands(texts: Sequence[str]) -> list[Band] | None:
    """The interval of each text, each ending where the next one begins; None if they are not intervals.

    The highest text is open if it is a single number, as in "100-149", "150". Time spans in several units are in the
    longest of them, feet and inches in inches.
    """
    if not 2 <= len(texts) <= _MOST_BANDS:
        return None
    feet = _AMOUNT["feet"]
    if any(map(feet.search, texts)):  # in inches: 5'4" is 64, and 5 ft. is 60
        inches = lambda match: f"{12 * int(match[1] or match[3]) + int(match[2] or 0)} "  # noqa: E731
        texts = [feet.sub(inches, text.casefold()).strip() for text in texts]
    plain = [_amounts_of(text) for text in texts]
    if all(re.search(r"\d\.\d{3}(?!\d)", text) for text in plain if "." in text):  # 1.000 is a thousand
        plain = [re.sub(r"(?<=\d)\.(?=\d{3}(?!\d))", "", text) for text in plain]
    units = {unit for text in plain for *_, unit in _AMOUNT["span"].findall(text)}
    if len(units) > 1 and not any(re.search(r"\b(?:an?|per|each|every)\b", text) for text in plain):
        longest = max(units, key=_SPANS.__getitem__)
        plain = [_AMOUNT["span"].sub(lambda match: _in_unit(match, longest), text) for text in plain]
    found = [_band(text) for text in plain]
    known = [each for each in found if each is not None]
    singles = {low for low, high in known if low == high}
    # "over 50" beside "50" begins at 51.
    known = [
        (low + 1, None) if low is not None and high is None and low in singles else (low, high) for low, high in known
    ]
    # At least one must be a range: plain numbers are not bands.
    if len(known) < len(texts):
        return _bands_in_other_words(plain)
    if all(low == high for low, high in known):
        return None
    thousands = [  # "10-20,000" is from 10,000
        (low * 1e3 if low and high and high >= 1e3 > low and 1e3 * low < high else low, high) for low, high in known
    ]
    return _joined(known) or _joined(thousands)


def _bands_in_other_words(texts: Sequence[str]) -> list[Band] | None:
    """The intervals of texts in any language, by their numbers alone: ranges that follow one another.

    A text with one number is open: below if the lowest range begins there, above if the highest ends there. "da 10 a
    20K", "oltre i 20K"; "within 6-10 years of our wedding", "after 10 years of our wedding".
    """
    written = [
        [re.sub(r"(?<=\d)[., ](?=\d{3}(?!\d))", "", each).replace(",", ".") for each in numbers]
        for numbers in map(_AMOUNT["any_number"].findall, texts)
    ]
    if not all(len(own) in (1, 2) for own in written) or sum(len(own) == 1 for own in written) > 2:
        return None
    numbers = [_ends(*own) if len(own) == 2 else (_value(own[0]),) for own in written]
    ranges = sorted(own for own in numbers if len(own) == 2)
    follow = all(0 <= after[0] - before[1] <= max(1, 0.1 * after[0]) for before, after in pairwise(ranges))
    if len(ranges) < 2 or not follow or any(low >= high for low, high in ranges):
        return None
    lowest, highest = ranges[0][0], ranges[-1][1]
    found: list[Band] = []
    for own in numbers:
        if len(own) == 2:
            found.append((own[0], own[1]))
        elif 0 <= lowest - own[0] <= 1:
            found.append((None, lowest))
        elif 0 <= own[0] - highest <= 1:
            found.append((own[0], None))
        else:
            return None
    return _joined(found) if len(set(found)) == len(found) else None


def _amounts_of(text: str) -> str:
    """A text in lower case, without signs of money and with numbers and time spans written out."""
    plain = _written(" ".join(_AMOUNT["money"].sub(" ", text.casefold()).replace("\u2019", "'").split()))
    plain = re.sub(r"\b(\d{3}0)'?s\b", lambda match: f"{match[1]}-{int(match[1]) + 9}", plain)  # "1980s"
    for pattern, to in _REWRITTEN:
        plain = pattern.sub(to, plain)
    return plain


def _written(text: str, words: Mapping[str, str] = _WORDS["rewritten"]["abbreviations"]) -> str:
    """A text with words written in another way, by default abbreviations: "lt once a yr" as "less than once a year"."""
    return re.sub(r"\b[a-z]+\b", lambda word: words.get(word[0], word[0]), text)


def _band(plain: str) -> Band | None:
    plain = re.sub(r"(?<=\d)x\b", " times", plain)
    if match := _AMOUNT["between"].fullmatch(plain):
        low, high = _ends(match[1], match[2])
        return (low, high) if low < high else None
    if match := _AMOUNT["above"].fullmatch(plain):
        return _value(match[match.lastindex or 0]), None
    if match := _AMOUNT["below"].fullmatch(plain):
        return None, _value(match[match.lastindex or 0])
    if _AMOUNT["nothing"].fullmatch(plain):
        return 0.0, 0.0
    if _AMOUNT["alone"].match(plain):
        return 1.0, 1.0
    match = _AMOUNT["exact"].fullmatch(plain)
    return (_value(match[1]), _value(match[1])) if match else None


def _in_unit(match: re.Match[str], unit: str) -> str:
    """A time span in another unit: "6 months" as "0.5 year"."""
    times = _SPANS[match[4]] / _SPANS[unit]
    first, last = (f"{float(each) * times:.6f}".rstrip("0").rstrip(".") if each else "" for each in match.group(1, 3))
    return f"{first}{match[2] if last else ''}{last} {unit}"


def _joined(bands_: Sequence[Band]) -> list[Band] | None:
    """Bands that end where the next one begins, if nothing but a rounding is between them; None if they overlap."""
    known = list(bands_)
    lows = [-inf if low is None else low for low, _ in known]
    order = sorted(range(len(known)), key=lambda place: (lows[place], known[place][1] or inf))
    zero = next((place for place in order if known[place] == (0.0, 0.0)), None)
    if zero is not None and any(low is None for low, _ in known):  # "none" below "less than a year"
        known = [(0.0, high) if low is None else (low, high) for low, high in known]
        known[zero] = (None, 0.0)
        order = [zero, *(place for place in order if place != zero)]
    whole = all(end is None or float(end).is_integer() for band in known for end in band)
    gaps = set()
    for place, following in pairwise(order):
        (low, high), begins = known[place], known[following][0]
        if begins is None or high is None or high > begins or (low is not None and low >= begins):
            return None
        # "18-29" ends where "30-44" begins, also if bands between them do not occur.
        gap = begins - high
        gaps.add(gap)
        known[place] = (low, begins if gap <= max(1.0, 0.011 * abs(begins)) or not whole else high + 1)
    low, high = known[order[-1]]
    last = high + 1 if high is not None and gaps - {0.0} == {1.0} else high  # "40 to 79" ends as "20 to 39" does
    known[order[-1]] = (low, None if low == high else last)
    return known


def _scale_of(text: str) -> float:
    return {"k": 1e3, "m": 1e6, "b": 1e9}.get(text[-1], 1.0)


def _ends(first: str, last: str) -> tuple[float, float]:
    """The two numbers of a range; "10-20k" is from 10,000."""
    low, high, scale = _value(first), _value(last), _scale_of(last)
    return low * scale if _scale_of(first) == 1 and low < high / scale else low, high


def _value(text: str) -> float:
    return float(re.sub(r"[, \u00a0\u202f'kmb]", "", text)) * _scale_of(text)


def coded(texts: Sequence[str]) -> tuple[list[float], list[str]] | None:
    """The numbers at the start or the end of texts, as in "1 - low", "2", "3 - high", if all differ; and the rest."""
    first, last = PHRASES["first"], PHRASES["last"]
    for found in (map(first.fullmatch, texts), (last.fullmatch(text) or first.fullmatch(text) for text in texts)):
        pairs = [(float(each["code"]), (each["rest"] or "").strip()) for each in found if each]
        if len({code for code, _ in pairs}) == len(texts):
            return [code for code, _ in pairs], [rest for _, rest in pairs]
    return None


def unnumbered(text: str) -> str:
    """A text without its leading number."""
    match = PHRASES["first"].fullmatch(text)
    return ((match["rest"] or "") if match else "").strip() or text


def _recency(words: list[str]) -> Heights:
    """How recently something was, from "never" to "today", if at least two texts say how long ago it was."""
    says_when = sum(map(bool, map(_AMOUNT["ago"].search, words))) > 1
    return [_seconds_from_now(word) for word in words] if says_when else []


def _seconds_from_now(text: str) -> float | None:
    fixed = {"never": -1e12, "today": 0.0, "yesterday": -_SPANS["day"]}
    match = _AMOUNT["since"].fullmatch(_counted(_AMOUNT["past"].sub("under", text)))
    if match is None or text in fixed:
        return fixed.get(text, -1e11 if _AMOUNT["long_ago"].fullmatch(text) else None)
    few = {"a few": 3.0, "a couple of": 2.0, "several": 4.0}
    low = few.get(match["low"]) or (float(match["low"]) if (match["low"] or "a").isdecimal() else 1.0)
    number = (low + float(match["high"])) / 2 if match["high"] else low
    times = 0.5 if match["less"] == "this" else 0.99 if match["less"] else 1.01 if match["more"] or match["or"] else 1.0
    return -number * times * _SPANS[match["unit"]] * (1.01 if match["plus"] else 1.0)


def rates(texts: Sequence[str]) -> Heights:
    """Times per year of each text, from "never" to "every day", if at least two texts name a period."""
    past = next(filter(None, (re.search(r"\b(?:past|last) (week|month|year)\b", text) for text in texts)), None)
    if past:  # "once or twice" beside "not in the past month"
        texts = [f"{text} a {past[1]}" if _AMOUNT["times_only"].fullmatch(text) else text for text in texts]
    found = [_rate(text) for text in texts]
    says_when = sum(map(bool, map(_AMOUNT["ago"].search, texts))) > 1  # how long ago, not how often
    return [rate for rate, _ in found] if sum(named for _, named in found) >= 2 and not says_when else []


def _rate(text: str) -> tuple[float | None, bool]:
    """Times per year, and whether the text names a period; the mean of two in "monthly or weekly"."""
    parts = [_one_rate(part) for part in re.split(r"\s+or\s+(?!more|less|twice|fewer)", text)]
    known = [rate for rate, named in parts if rate is not None and named]
    return (sum(known) / 2, True) if len(parts) == len(known) == 2 else _one_rate(text)


_PERIOD = re.compile(rf"\b(?:(\d+) )?({'|'.join(_WORDS['rates']['periods'])})s?\b")


def _one_rate(text: str) -> tuple[float | None, bool]:
    if _AMOUNT["holidays"].fullmatch(text):
        return 3.0, True
    if _AMOUNT["not_once"].match(text):
        return 0.0, False
    words = _WORDS["rates"]
    if text in words["fixed"]:
        return words["fixed"][text], False
    if _AMOUNT["always"].fullmatch(text):
        return 1e4, False
    text = re.sub(r"(?<=\d)x\b", " times", text)
    if days := _AMOUNT["days_per"].search(text):
        return _middle(days) * words["periods"][days[3]], True
    period = _PERIOD.search(text)
    adverb = next((word for word in words["adverbs"] if re.search(rf"\b{word}\b", text)), None)
    is_span = _AMOUNT["span_alone"].fullmatch(text) or _AMOUNT["time_spent"].search(text)
    if (adverb is None and period is None) or is_span:
        return None, False
    rate = words["adverbs"][adverb] if adverb else words["periods"][period[2]] / float(period[1] or 1)  # type: ignore[index]
    counted = _AMOUNT["n_times"].search(text)
    rate *= _middle(counted) if counted else _first(text, _TIMES) or 1.0
    return rate * (_first(text, _FACTORS) or 1.0), True


def _middle(match: re.Match[str]) -> float:
    """The middle of "3 to 5", or a single number."""
    return (float(match[1]) + float(match[2] or match[1])) / 2


def _first(text: str, phrases: Weighed) -> float | None:
    """The number of the first phrase that a text has."""
    return next((number for phrase, number in phrases if phrase.search(text)), None)


_MOST_LEVELS = 40


Heights = list[float | None]  # of each text on a scale, if it has one; none if the texts do not belong to the scale


class Scale(NamedTuple):
    """Name of a scale, and the position of each text on it."""

    name: str
    heights: tuple[float, ...]


def scale(texts: Sequence[str]) -> Scale | None:
    """The scale that the texts belong to, in any language of languages.toml, or None if it is unknown."""
    return next(filter(None, map(_scale, chain([tuple(texts)], _in_english(texts)))), None)


_LONGEST = 80  # characters of an answer that is translated


def _in_english(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The texts in English words, once for each language that more than half of them are in."""
    if 2 <= len(texts) <= _MOST_LEVELS and max(map(len, texts)) <= _LONGEST:
        each = [_translated(text) for text in texts]
        for place in range(len(_TRANSLATED)):
            said = tuple(found[place] or text for found, text in zip(each, texts, strict=True))
            if 2 * sum(bool(found[place]) for found in each) > len(texts) and len(set(said)) == len(texts):
                yield said


@lru_cache(maxsize=4096)
def _translated(text: str) -> tuple[str, ...]:
    """A text in English words, by language; empty where it has no word of the language."""
    plain, found = unaccented(text.casefold()), []
    for phrases in _TRANSLATED:
        said = plain
        for phrase, english in phrases:
            said = phrase.sub(english, said)
        found.append(" ".join(said.split()) if said != plain else "")
    return tuple(found)


def unaccented(text: str) -> str:
    """A text in lower case without accents: "\u00e9t\u00e9" as "ete"."""
    text = text.replace("\u2019", "'").replace("\u00f8", "o").replace("\u00e6", "ae")
    return text if text.isascii() else re.sub(r"[\u0300-\u036f]", "", normalize("NFKD", text))


@lru_cache(maxsize=4096)  # questionnaires repeat a few scales many times
def _scale(texts: tuple[str, ...]) -> Scale | None:
    if not 2 <= len(texts) <= _MOST_LEVELS:
        return None
    if found := bands(texts):
        return _of_bands(found)
    if numbers := coded(texts):
        said = [rest for rest in numbers[1] if rest]
        is_unit = len({_plain(rest).rstrip("s") for rest in said}) == 1 and all(map(PHRASES["first"].fullmatch, texts))
        if len(said) < len(texts) or is_unit:
            return Scale("numbered", tuple(numbers[0]))  # "1 - low", "2", "3 - high", or "1 star", "2 stars"
        # Codes in front of all answers say nothing of an order: "1. Democrat", "2. Republican".
        return _scale(tuple(said)) if len(set(said)) == len(texts) else None
    if ends := _worded_ends(texts):
        return Scale("numbered", tuple(ends))
    given = [match for text in texts if (match := re.fullmatch(r"(\d+) ?(?:/|out of|of) ?(\d+)", text.strip()))]
    if len(given) == len(texts) and len({match[2] for match in given}) == 1:  # "4/5", "4 out of 5"
        return Scale("numbered", tuple(float(match[1]) for match in given))
    signs = [text.replace("\ufe0f", "") for text in texts]  # stars, each a sign with the mark of a picture
    if len(set("".join(signs))) == 1 and not signs[0][:1].isalnum():
        return Scale("signs", tuple(map(float, map(len, signs))))
    plain = [_plain(text) for text in texts]
    ways: tuple[tuple[str, Callable[[list[str]], Heights]], ...] = (
        ("how long ago", _recency),
        *((name, lambda words, rungs=rungs: _ladder(words, rungs)) for name, rungs in LADDERS.items()),
        ("rate", rates),
        ("statements", _statements),
        ("degree", _degrees),
        ("education", lambda words: [_first(word, EDUCATION) for word in words] if len(words) >= 3 else []),
        ("how much", _quantities),
    )
    for name, read in ways:
        heights = [height for height in read(plain) if height is not None]
        if len(heights) == len(set(heights)) == len(texts):
            return Scale(name, tuple(heights))
    counts = bands([_counted(text) for text in plain])
    if counts is not None:
        return _of_bands(counts)
    firsts, lasts = zip(*(text.rpartition(" ")[::2] for text in texts), strict=True)
    if len(texts) > 2 and len(set(lasts)) == 1 and all(firsts):  # "first choice", "second choice"
        return _scale(firsts)
    heads = [PHRASES["explained"].split(text, maxsplit=1)[0].strip() for text in texts]
    explained = sum(head != text.strip() for head, text in zip(heads, texts, strict=True))
    return _scale(tuple(heads)) if explained > len(texts) / 2 and all(heads) and len(set(heads)) == len(texts) else None


def _worded_ends(texts: Sequence[str]) -> list[float] | None:
    """The position of each text among numbers that count on, of which one or both ends are in words."""
    numbers = sorted(int(text) for text in texts if re.fullmatch(r"\d{1,2}", text))
    words = [text for text in texts if not re.fullmatch(r"\d{1,2}", text)]
    counts = len(numbers) >= 3 and numbers == list(range(numbers[0], numbers[-1] + 1))
    if not counts or not 1 <= len(words) <= 2 or any(re.search(r"\d", text) or unanswered(text) for text in words):
        return None
    low = [text for text in words if PHRASES["low"].search(text)]
    if len(low) != 1 or any(STRONG.fullmatch(_plain(text)) for text in words):
        return None
    ends = {text: float(numbers[0] - 1 if text in low else numbers[-1] + 1) for text in words}
    return [ends[text] if text in ends else float(text) for text in texts]


def _of_bands(found: list[Band]) -> Scale:
    return Scale("bands", tuple(-1e300 if low is None else low for low, _ in found))


def _counted(text: str) -> str:
    """A text with numbers as digits: "two or three times" as "2 to 3 times"."""
    return _written(text, _WORDS["rewritten"]["counts"])


def as_phrase(text: str) -> str:
    """A text as it is compared with phrases: without its code, in lower case and one spelling."""
    return _plain(unnumbered(text))


def is_beside(text: str) -> bool:
    """Whether an answer fits no scale, or says that one is undecided."""
    plain = as_phrase(text)
    return bool(STRONG.fullmatch(plain) or PHRASES["undecided"].fullmatch(plain))


class Ordered(NamedTuple):
    """Answers as a scale: the levels, lowest first, the answers that are set apart from it, and how sure that is."""

    name: str
    levels: tuple[str, ...]
    apart: tuple[str, ...]
    sure: float
    lowest: str = ""  # an answer that is the lowest level only because it is negated

    @property
    def ends(self) -> list[Band] | None:
        """The two ends of each level, if the levels are bands of a number."""
        if self.name != "bands":
            return None
        plain, own = [_plain(text) for text in self.levels], [unnumbered(text) for text in self.levels]
        ways = (self.levels, own, list(map(_counted, plain)), *_in_english(self.levels))
        return next(filter(None, map(bands, ways)), None)


_FAR = 66.0  # codes of numbered answers that are no levels: 66, 77, 88, 99
_MOST_APART = 12  # most answers among which any one may be set apart
KNOWN, BY_WORDS, NEGATIVE = 0.95, 0.9, 0.7  # how sure: a known scale, known words apart, a negated level


def levels_of(texts: Sequence[str]) -> Ordered | None:
    """The scale of at least three of the texts, if the others are answers of people whom it does not fit."""
    for said in chain([tuple(texts)], _in_english(texts)):
        if found := _english_levels(said):
            own = dict(zip(said, texts, strict=True))
            levels, apart = (tuple(own[text] for text in each) for each in (found.levels, found.apart))
            return found._replace(levels=levels, apart=apart, lowest=own.get(found.lowest, ""))
    return None


def _english_levels(texts: Sequence[str]) -> Ordered | None:
    plain = {text: _plain(unnumbered(text)) for text in texts}
    strong = [text for text in texts if STRONG.fullmatch(plain[text])]
    if len(texts) > 4:  # beside two answers, "not sure" is between them
        strong += [text for text in texts if PHRASES["undecided"].fullmatch(plain[text]) and text not in strong]
    weak = [text for text in texts if text not in strong and (WEAK.fullmatch(plain[text]) or unanswered(text))]
    # Those that may belong to the scale are removed only where it needs it, "don't know" before "neither" and "never".
    weak.sort(key=lambda text: (bool(NEUTRAL.fullmatch(plain[text])) or plain[text] == "never", not unanswered(text)))
    sizes = range(1, len(weak) + 1) if len(weak) < 6 else [len(weak)]
    fewer = (gone for size in sizes for gone in combinations(weak, size))
    for gone in dict.fromkeys((tuple(strong), (), *((*strong, *gone) for gone in fewer))):
        rest = [text for text in texts if text not in gone]
        found = _scale(tuple(rest)) if len(rest) >= (3 if gone else 2) else None
        if found is not None and found.name == "numbered":
            far = [text for text, code in zip(rest, found.heights, strict=True) if code >= _FAR]
            if 0 < len(far) < len(rest) - 2:  # "99. Other" beside "1. Low", "2", "3. High"
                kept = [text for text in rest if text not in far]
                found, rest, gone = _scale(tuple(kept)) or found, kept, (*gone, *far)
        if found is not None:
            return _with_lowest(found, rest, gone, [each for each in gone if each in weak and _is_negated(each)])
    if not 4 <= len(texts) <= _MOST_APART:
        return None
    for other in texts:
        rest = [text for text in texts if text != other and text not in strong]
        if _is_negated(other) and other not in strong and len(rest) >= 3 and (found := _scale(tuple(rest))):
            lowest = _with_lowest(found, rest, (*strong, other), [other])
            return lowest if lowest.lowest else None  # it may be a level in words that are not known
    return None


def unknown_level(texts: Sequence[str]) -> str | None:
    """The only text that keeps the others, at least three, from being a scale; None if there is none."""
    if not 4 <= len(texts) <= _MOST_APART:
        return None
    return next((text for text in texts if levels_of([other for other in texts if other != text])), None)


def _is_negated(text: str) -> bool:
    plain = as_phrase(text)
    return PHRASES["negated"].match(plain) is not None and (not unanswered(text) or "never" in plain)


def _with_lowest(found: Scale, rest: list[str], gone: tuple[str, ...], negated: list[str]) -> Ordered:
    """The levels of a scale, lowest first; the lowest level of an amount may be an answer that says not to do it."""
    levels = tuple(text for _, text in sorted(zip(found.heights, rest, strict=True)))
    if len(negated) == 1 and found.name in _FROM_NOTHING and min(found.heights) > 0:
        apart = tuple(text for text in gone if text != negated[0])
        return Ordered(found.name, (negated[0], *levels), apart, NEGATIVE, negated[0])
    known = all(is_beside(text) or unanswered(text) for text in gone)
    return Ordered(found.name, levels, gone, (BY_WORDS if known else NEGATIVE) if gone else KNOWN)


def arranged(codes: Sequence[Any], texts: Sequence[str], measure: str = "") -> tuple[list[Any], str] | None:
    """Codes in the order of the scale of their texts, and the name of the scale; None if there is no scale.

    The order of the codes is kept if it agrees with the texts, in either direction. If the file says "ordinal", a
    neutral answer at one end of an even number of other answers is moved to the middle.
    """
    order = sorted(range(len(codes)), key=lambda place: codes[place])
    found = scale(texts)
    if found is not None:
        n_swaps = _n_swaps([found.heights[place] for place in order])
        if n_swaps < (2 if found.name == "rate" else 1):  # rates are approximate, so the order of the file has priority
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


def _n_swaps(heights: Sequence[float]) -> int:
    """How many pairs are not in order, in the better of the two directions."""
    falls = sum(after < before for before, after in combinations(heights, 2))
    return min(falls, len(heights) * (len(heights) - 1) // 2 - falls)


def _but_one_end(codes: Sequence[Any], texts: Sequence[str], order: list[int]) -> tuple[list[Any], str] | None:
    """Codes in their order, if all but the first or the last form a scale: "no help" < "a little" < ..."""
    for end, rest in ((order[0], order[1:]), (order[-1], order[:-1])):
        found = scale([texts[place] for place in rest]) if len(rest) > 2 else None
        if found is None or found.name == "numbered" or PHRASES["outside"].search(texts[end].casefold()):
            continue
        if not _n_swaps(found.heights):
            return [codes[place] for place in order], f"{found.name}, except {texts[end]!r} at its end"
    return None


def _plain(text: str) -> str:
    """A text in lower case and one spelling, without brackets, punctuation and double spaces."""
    plain = re.sub(rf"\([^)]*\)|\[[^\]]*\]|{PHRASES['picture'].pattern}", " ", text.casefold().replace("\u2019", "'"))
    plain = plain if plain.strip() else text.casefold()
    return _written(" ".join(plain.replace("favour", "favor").replace("_", " ").split()).strip(" .!?*:;-"))


def _ladder(words: list[str], rungs: Patterns) -> Heights:
    """The rung of each text; what follows "never, but ..." and "never, and not ..." puts it above or below its rung."""

    def rung(text: str) -> float | None:
        bare = " ".join(PHRASES["thing"].sub(" ", text).split()) or text  # "a lot of trust" is read as "a lot"
        said = (text, bare, re.sub(r"^(?:yes|no)[,:;] ?", "", bare), _without_leading(text))  # "yes, a lot"
        return next((float(at) for each in said for at, rung in enumerate(rungs) if rung.fullmatch(each)), None)

    heights: Heights = []
    n_whole = 0
    for word in words:
        height = rung(word)
        both = [rung(part.strip()) for part in word.split("/")] if height is None else []
        if len(both) == 2 and None not in both:  # "rarely/never"
            height = sum(filter(None, both)) / 2
        n_whole += height is not None
        head, *rest = PHRASES["and"].split(word, maxsplit=1) if height is None else [word]
        if rest and (height := rung(head)) is not None and not PHRASES["reason"].match(word, len(head)):
            is_open = PHRASES["open"].search(rest[0]) and not re.search(r"\b(?:not|no|never)\b|n't", rest[0])
            height += 0.3 if is_open else -0.3
        if height is None:
            return []
        heights.append(height)
    return heights if n_whole else []


def _quantities(words: list[str]) -> Heights:
    """How much of something three to five texts say: "no, none did" < "some did" < "yes, they all did"."""
    heights = [_first(word, QUANTITIES) for word in words]
    return heights if 3 <= len(words) <= 5 and 0.0 in heights else []


def _statements(words: list[str]) -> Heights:
    """Agreement with two statements: strongly with the first, ..., with neither, ..., strongly with the second."""
    heights: Heights = []
    sides = set()
    for word in words:
        if match := PHRASES["statement"].fullmatch(word):
            sides.add(match[2] in ("2", "b", "second"))
            degree = abs(_degree(match[1])[1])
            heights.append(degree if match[2] in ("2", "b", "second") else -degree)
        elif NEUTRAL.fullmatch(word) or word.startswith("both"):
            heights.append(0.0)
        else:
            return []
    return heights if len(sides) == 2 else []


def _degrees(words: list[str]) -> Heights:
    """Degrees of one word and of its opposite, of what is left without words that the texts share."""
    trimmed = [PHRASES["tail"].sub("", word) for word in words]
    ends = {word.rpartition(" ")[2] for word in words if not NEUTRAL.fullmatch(word)}
    shared = f" {ends.pop()}" if len(ends) == 1 else ""  # "very low effort", "high effort"
    without = [word.removesuffix(shared) for word in words]  # "fairly strongly": of what is not a degree itself
    things = [" ".join(PHRASES["thing"].sub(" ", word).split()) for word in words]
    for texts in (words, trimmed, things, without, [f"{word} so" for word in without]):
        if all(texts) and len(set(texts)) == len(texts) and (found := _degrees_of(texts)):
            return found
    return []


_FEELINGS = {"love": 4.5, "hate": -4.5}  # of whatever the other answers are about


def _degrees_of(words: list[str]) -> Heights:
    read = [None if NEUTRAL.fullmatch(_without_leading(word)) else _degree(word) for word in words]
    known = {stem for each in read if each for stem in each[:1]}
    adverbs = {stem: _adjective(stem, known) for stem in known}
    read = [each and (adverbs[each[0]], each[1]) for each in read]
    stems = {stem for stem, _ in filter(None, read)}
    if stems - set(_FEELINGS):
        stems -= set(_FEELINGS)
    if not stems or len(read) < 2 or len(stems) == len(words) > 3:
        return []
    # One word without a neutral answer has no opposite: "not wrong" < "always wrong"; otherwise it has one.
    one_sided = len(stems) == 1 and None not in read
    roots = {stem: (stem, 1.0) if one_sided else _root(stem, stems) for stem in stems}
    if len({root for root, _ in roots.values()}) != 1 or len(stems) > 2 or "" in stems:
        return []
    heights: Heights = [
        0.0 if each is None else each[1] * roots[each[0]][1] if each[0] in roots else _FEELINGS[each[0]]
        for each in read
    ]
    # Two words without degrees that are not known opposites are not a scale.
    turned = any(sign < 0 for _, sign in roots.values())
    graded = len(words) > len(stems) or None in read or turned
    return heights if graded else []


def _adjective(stem: str, known: set[str]) -> str:
    """ "comfortably" as "comfortable", and "easily" as "easy", where both occur."""
    forms = (re.sub(r"ably$", "able", stem), re.sub(r"ily$", "y", stem), re.sub(r"ly$", "", stem))
    return next((form for form in forms if form != stem and form in known), stem)


def _degree(word: str) -> tuple[str, float]:
    """The main word of a text, and its degree; "agree strongly" is the same as "strongly agree"."""
    word = re.sub(r"^(?:yes|no)[,:;] ?(?:it is |i )?", "", word)  # "yes, somewhat rude", "no, not rude at all"
    word = _without_leading(word)
    word = re.sub(r"\btoo (much|little|many|few)\b", r"too-\1", word)
    word = re.sub(r"^(?:of )?(\w+) importance$", r"\1 important", word)
    word = re.sub(r"^(\w+[^s\W])s (me|us|you|it|them)\b", r"\1 \2", word)  # "describes me" beside "not describe me"
    for pattern, degree in DEGREES:
        if match := pattern.fullmatch(word):
            stem = _without_leading(match["stem"]).removeprefix("too ")  # "slightly too slow"
            return SAME.get(stem, stem) if stem not in OPPOSITES else stem, degree
    stem, degree = EXTREMES.get(word, (word, 2.0))
    return SAME.get(stem, stem), degree


def _without_leading(word: str) -> str:
    while (shorter := PHRASES["leading"].sub("", word)) != word:
        word = shorter
    return word


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


@lru_cache(maxsize=4096)
def unanswered(text: str) -> Kind | None:
    """The kind of non-answer that a text expresses, or None if it is an answer."""
    plain = PHRASES["aside"].sub(" ", unaccented(text.casefold()).replace("`", "'"))
    plain = re.sub(r"\bn\s?[/.]\s?a\b\.?", "na", plain)  # before the text is split at slashes
    whole = _trimmed(plain)
    if not re.search(r"\w", plain.replace("_", "")):
        return "absent" if re.fullmatch(r"[\s.?\-_/*\u2013\u2014\u2026]*", plain) else None  # "", "-", "??"
    parts = [whole, *(part for each in PHRASES["parts"].split(plain) if (part := _trimmed(each)))]
    kinds: tuple[Kind, ...] = get_args(Kind)
    for kind in kinds:
        said = [part for part in parts if _UNANSWERED[kind].fullmatch(part)]
        # "I don't know, somebody else does this for me" says more.
        more = kind != "absent" and any(len(part.split()) > _MOST_MORE for part in parts[1:] if part not in said)
        if said and not more:
            return kind
    return None


_MOST_MORE = 3  # words beside "I don't know"


def is_not_asked(text: str) -> bool:
    """Whether a missing code says that its question was not asked, or nothing at all: "inapplicable", "-1"."""
    plain = re.sub(r"\bn\s?[/.]\s?a\b\.?", "na", unaccented(text.casefold()))
    parts = [_trimmed(plain), *map(_trimmed, PHRASES["parts"].split(plain))]
    return not re.search(r"[^\W\d_]", plain) or any(map(_UNANSWERED["not_asked"].fullmatch, parts))


def _trimmed(text: str) -> str:
    """A text without leading code ("9. Don't know", "-1: missing") and surrounding punctuation."""
    text = re.sub(r"^\s*[(\[]?-?\d+[)\]]?\s*(?:[.:)=\-]\s*|\s)", "", text)
    return " ".join(text.replace("*", " ").replace('"', " ").split()).strip(" .!?-'")


_PAIRS = (("yes", "no"), ("true", "false"), ("male", "female"))  # each may be written by its first letter
_FEW = 12  # most answers beside a pair of words, which may be no answers


def folded(rows: Mapping[Any, int]) -> dict[str, str]:
    """Each spelling that is read as another one, {"yes": "Yes", "YES": "Yes", "Y": "Yes"}, by how often each occurs."""
    groups: dict[str, list[tuple[bool, int, bool, str]]] = {}
    for text, count in rows.items():
        if isinstance(text, str):
            key, is_titled = spelling(text), text[:1].isupper() and not text.isupper()
            groups.setdefault(key, []).append((len(key) > 1, count, is_titled, text))
    for pair in _PAIRS if len(groups) <= _FEW else ():
        if all(key in pair or key in (pair[0][0], pair[1][0]) or unanswered(key) for key in groups):
            for word in pair:
                if word[0] in groups and word in groups:
                    groups[word] += groups.pop(word[0])
    # The longest word first: "Yes" stands for "Y", even where "Y" is more frequent.
    ranked = [sorted(spellings, reverse=True) for spellings in groups.values()]
    return {text: first[-1] for first, *others in ranked for *_, text in others}


def spelling(text: str) -> str:
    """A text in one spelling: lower case, single spaces, no full stop."""
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
