"""Text that a spreadsheet program would run as a formula when it opens a .csv or .tsv file.

Idea: an apostrophe in front makes a cell text in spreadsheet programs. Numbers are not changed.
"""

from __future__ import annotations

STARTS = ("=", "+", "-", "@", "\t", "\r")


def escaped_text(text: str) -> str:
    """The text, with an apostrophe in front if it looks like a formula."""
    return f"'{text}" if text.startswith(STARTS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    """Whether a text is a signed number, also with a decimal comma: a spreadsheet program reads it as such."""
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return "_" not in text
