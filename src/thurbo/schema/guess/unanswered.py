"""Detect texts that mean "no answer": "don't know", "refused", "not applicable", "not asked".

Idea: a text is split at slashes, commas and brackets; it matches if one complete part is such a phrase.
Texts that only contain such a phrase are answers: "Know but can't remember", "Refused to be interviewed".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

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
