"""Word lists of answer scales: frequency, amount, quality, degrees, opposites, neutral answers, education.

Idea: tables of regular expressions used by `scales`; a new scale is a new entry here.
Covers English only; two phrases on the same step have no order.
"""

from __future__ import annotations

import re


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
