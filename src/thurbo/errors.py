"""Errors and warnings: each message names the row, the column, the value and the remedy.

All errors that thurbo raises derive from ThurboError, so that scripts can catch one class and the command line can
print one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable


class ThurboError(ValueError):
    """Base class of all errors that thurbo raises."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise a ThurboError that lists the choices unless `value` is one of them."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise ThurboError(f"{name}={value!r} is not one of {', '.join(known)}")


def _place(row: object, column: object) -> str:
    parts = []
    if row is not None:
        parts.append(f"row {row}")
    if column is not None:
        parts.append(f'column "{column}"')
    return ", ".join(parts)


class _Located(ThurboError):
    """An error with the row and column it is about, and a remedy."""

    def __init__(self, problem: str, *, row: object = None, column: object = None, remedy: str | None = None):
        place = _place(row, column)
        message = f"{place}: {problem}" if place else problem
        if remedy:
            message = f"{message}; {remedy}"
        super().__init__(message)
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
