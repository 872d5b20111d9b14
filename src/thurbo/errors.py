"""What can go wrong, said once, in the user's words: which row, which column, which value, and what to do.

Every error thurbo raises on purpose derives from ThurboError, so that the command line can print one sentence
and scripts can catch one class.
"""

from __future__ import annotations


class ThurboError(ValueError):
    """Base of every error raised on purpose."""


def _place(row: object, column: object) -> str:
    parts = []
    if row is not None:
        parts.append(f"row {row}")
    if column is not None:
        parts.append(f'column "{column}"')
    return ", ".join(parts)


class _Located(ThurboError):
    """An error that knows its row, column and value."""

    def __init__(self, problem: str, *, row: object = None, column: object = None, remedy: str | None = None):
        place = _place(row, column)
        message = f"{place}: {problem}" if place else problem
        if remedy:
            message = f"{message}; {remedy}"
        super().__init__(message)
        self.row, self.column, self.remedy = row, column, remedy


class SchemaError(_Located):
    """A cell, column or schema that cannot be read as asked."""


class InfeasibleEvidence(_Located):
    """Evidence that no value of the latent variables satisfies."""


class NotTrusted(ThurboError):
    """A model file that is truncated, altered, foreign or newer than this version of thurbo."""


class ConvergenceWarning(UserWarning):
    """A fit diverged, a chain does not mix, or hidden units are stuck."""


class SchemaWarning(UserWarning):
    """A column that can be modelled as asked, and hardly should be."""
