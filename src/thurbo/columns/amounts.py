"""Numbers and dates written as text: "$1,200", "32 %", "about 7", "7 hrs", "1.234,50 €", "3 Nov 2014".

`parse` of a column names the notation, so that a saved model reads new files in the same way.
A text that is not one number in this notation gives None; ranges such as "7-8" are not one number.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, get_args

Notation = Literal["number", "percent", "currency", "decimal-comma", "date", "date-dmy"]
NOTATIONS: tuple[str, ...] = get_args(Notation)
DATES = ("date", "date-dmy")  # days since 1970-01-01; "date-dmy" reads 3/11/2014 as 3 November

_BLANK = "[ \u00a0\u202f]"
_ABOUT = re.compile(r"(?:about|approx(?:imately|\.)?|around|roughly|circa|ca\.?|almost|nearly|maybe|probably|~|≈)\s*")
_MONEY = re.compile(r"[$€£¥₹]|\b(?:usd|eur|gbp|cad|aud|chf|us dollars?|dollars?|euros?|pounds?)\b\.?")
_PERCENT = re.compile(r"%|\b(?:percent|per cent|pct)\b\.?")
_POINT = re.compile(rf"\d{{1,3}}(?:(?:,|'|{_BLANK})\d{{3}})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+")
_COMMA = re.compile(rf"\d{{1,3}}(?:(?:\.|'|{_BLANK})\d{{3}})+(?:,\d+)?|\d+(?:,\d*)?|,\d+")
_TIMES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
_SCALE = re.compile(r"\s*(k|thousand|mn|million|bn|billion|m)\b\.?")
_UNIT = re.compile(r"\s*(?:[a-z°²³µ]+[./]?\s*){0,4}")
_NO_UNIT = re.compile(r"\b(?:to|and|plus|minus|x)\b")


@lru_cache(maxsize=65536)
def amount(text: str, notation: str) -> float | None:
    """The number that a text says in this notation; None if it says none, or more than one."""
    if notation in DATES:
        return days(text, notation == "date-dmy")
    plain = " ".join(text.casefold().replace("\u2212", "-").split())
    if notation in ("currency", "decimal-comma"):
        plain = _MONEY.sub("", plain).strip()
    if notation in ("percent", "decimal-comma"):
        plain = _PERCENT.sub("", plain).strip()
    plain = _ABOUT.sub("", plain, count=1) if _ABOUT.match(plain) else plain
    sign = -1.0 if plain.startswith("-") else 1.0
    plain = plain.lstrip("+-").strip() if plain[:1] in ("+", "-") else plain
    digits = (_COMMA if notation == "decimal-comma" else _POINT).match(plain)
    if digits is None:
        return None
    rest, times = plain[digits.end() :], 1.0
    if notation == "currency" and (scaled := _SCALE.match(rest)):
        rest, times = rest[scaled.end() :], _TIMES[scaled[1]]
    if not _UNIT.fullmatch(rest) or _NO_UNIT.search(rest) or (notation == "percent" and rest.strip()):
        return None
    written = re.sub(r"[' \u00a0\u202f]", "", digits[0])
    written = written.replace(".", "").replace(",", ".") if notation == "decimal-comma" else written.replace(",", "")
    return sign * float(written) * times


_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_TIME = r"(?:[t ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(am|pm)?\s*(?:z|utc|gmt|[+-]\d{2}:?\d{2})?)?"
_ISO = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_TIME}")
_SHORT = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}|\d{{2}}),?{_TIME}")
_DAY_MONTH = re.compile(rf"(\d{{1,2}})(?:st|nd|rd|th|\.)?[ -]([a-z]{{3,9}})\.?,?[ -](\d{{4}}),?{_TIME}")
_MONTH_DAY = re.compile(rf"([a-z]{{3,9}})\.? (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}}),?{_TIME}")


def days(text: str, day_first: bool = False) -> float | None:
    """Days since 1970-01-01 of a date, with the time as a fraction; None if the text is not a date."""
    plain = " ".join(text.casefold().split())
    if match := _ISO.fullmatch(plain):
        year, month, day, *time = match.groups()
    elif match := _SHORT.fullmatch(plain):
        first, mark, second, year, *time = match.groups()
        swap = day_first or mark == "." or int(first) > 12
        day, month = (first, second) if swap else (second, first)
    elif match := _DAY_MONTH.fullmatch(plain):
        day, word, year, *time = match.groups()
        month = str(_MONTHS.get(word[:3], 0))
    elif match := _MONTH_DAY.fullmatch(plain):
        word, day, year, *time = match.groups()
        month = str(_MONTHS.get(word[:3], 0))
    else:
        return None
    hour, minute, second_, half = (time[0] or "0", time[1] or "0", time[2] or "0", time[3])
    hours = int(hour) % 12 + 12 * (half == "pm") if half else int(hour)
    full = int(year) if len(year) == 4 else (1900 if int(year) >= 70 else 2000) + int(year)
    try:
        moment = datetime(full, int(month), int(day), hours, int(minute), int(second_), tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() / 86400


def date_text(number: float) -> str:
    """The day of a number of days since 1970-01-01: "2014-11-03"."""
    return datetime.fromtimestamp(round(number) * 86400, UTC).strftime("%Y-%m-%d")
