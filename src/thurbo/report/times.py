"""The time that a fit took, as text."""

from __future__ import annotations

from collections.abc import Mapping


def time_words(spent: Mapping[str, float]) -> str:
    """The whole time and its parts: "29.2 s (reading 1.1, compiling 8.2, training 19.9)"."""
    parts = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in spent.items() if stage != "total")
    return f"{spent['total']:.1f} s ({parts})" if parts else f"{spent['total']:.1f} s"
