"""Errors and warnings: each message names the row, the column, the value and the remedy.

All errors that thurbo raises derive from ThurboError, so that scripts can catch one class and the command line can
print one sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from numbers import Integral


class ThurboError(ValueError):
    """Base class of all errors that thurbo raises."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise a ThurboError that lists the choices unless `value` is one of them."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise ThurboError(f"{name}={value!r} is not one of {', '.join(known)}")


def check_whole(name: str, value: object, least: int, what: str | None = None) -> None:
    """Raise a ThurboError unless `value` is a whole number of at least `least`; `what` it should have been."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        number = f"a whole number of at least {least}"
        raise ThurboError(f"{name}={value!r} is not {number if what is None else f'{what}; give {number}'}")


class _Located(ThurboError):
    """An error with the row and column it is about, and a remedy."""

    def __init__(self, problem: str, *, row: object = None, column: object = None, remedy: str | None = None):
        places = ([] if row is None else [f"row {row}"]) + ([] if column is None else [f'column "{column}"'])
        place = f"{', '.join(places)}: " if places else ""
        super().__init__(f"{place}{problem}; {remedy}" if remedy else f"{place}{problem}")
        self.problem, self.row, self.column, self.remedy = problem, row, column, remedy


class SchemaError(_Located):
    """A cell, column or schema that is not valid."""


class InfeasibleEvidence(_Located):
    """Evidence that contradicts itself: no value of the latent variables satisfies it."""


class NotTrusted(ThurboError):
    """A model file that is truncated, changed, of another program, or of a newer version of thurbo."""


class ConvergenceWarning(UserWarning):
    """A fit diverged, a Markov chain does not mix, or hidden units are constant."""


class NumericalWarning(UserWarning):
    """JAX computes wrong numbers in this process."""


class SchemaWarning(UserWarning):
    """A column type, a cell or a request that is valid, but probably not intended."""


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


def inequality(coefficients: Mapping[str, float], lower: float, upper: float) -> str:
    """lower ≤ Σ coefficient · name ≤ upper: "0.5 <= age - 2 income"; an infinite end is left out."""
    terms = []
    for name, value in coefficients.items():
        size = "" if abs(value) == 1 else f"{abs(value):.4g} "
        terms += ["-" if value < 0 else "+", f"{size}{name}"]
    terms = terms[1:] if terms[0] == "+" else [f"-{terms[1]}", *terms[2:]]
    below = "" if lower == -math.inf else f"{lower:.4g} <= "
    return f"{below}{' '.join(terms)}{'' if upper == math.inf else f' <= {upper:.4g}'}"
