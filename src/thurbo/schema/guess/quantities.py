"""Numbers in the texts of levels: bands ("18-29", "over 60"), numbered levels ("1 - low"), rates ("once a week").

Idea: each text gives an interval, a number or a rate per year; levels are ordered by it.
Guarantees None unless all texts of a column have this form, and bands that do not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
