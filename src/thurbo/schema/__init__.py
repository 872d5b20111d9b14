"""§3 as a whole table: which column says what, inferred with reasons or written by hand."""

from thurbo.schema.schema import Schema

__all__ = ["Schema"]
