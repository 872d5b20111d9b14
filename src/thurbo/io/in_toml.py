"""Remedies in the words of a schema file: `use Ordinal(levels=[...])` becomes `use kind = "ordinal", levels = [...]`.

Messages of the library are written for Python. The command line and schema files show them to people who edit TOML.
"""

from __future__ import annotations

import re

# Settings that are given without their name: Ordinal([...]) is levels = [...].
_FIRST = {"Ordinal": "levels", "Categorical": "categories", "MultiSelect": "options", "Ranking": "items"}
_FIRST |= {"Banded": "bands", "Binary": "true", "Ignore": "reason"}
_KINDS = "Banded|Binary|Bounded|Categorical|Censored|Continuous|Id|Ignore|MultiSelect|Ordinal|Ranking|Ratings|Weight"
_CALL = re.compile(rf"\b({_KINDS})\(((?:[^()]|\([^()]*\))*)\)")
_SETTING = re.compile(r"(\w+)=(?!=)")


def in_toml(message: str) -> str:
    """The message with columns of Python written as settings of a schema file."""
    return _CALL.sub(_setting, message)


def _setting(match: re.Match[str]) -> str:
    name, given = match[1], match[2].strip()
    kind = f'kind = "{name.casefold()}"'
    if not given:
        return kind
    if not _SETTING.match(given):
        given = f"{_FIRST.get(name, 'settings')}={'{...}' if given == '...' else given}"
    given = _SETTING.sub(r"\1 = ", given)
    given = re.sub(r"\(([^()]*)\)", r"[\1]", given)  # tuples are lists in TOML
    given = re.sub(r'\{("[^"]*"): ', r"{\1 = ", given)
    return f"{kind}, {given}"
