"""Shares of missing cells by kind: empty cells, and values declared as missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thurbo.report.units import percent

NOTHING = "no answer"


def missing_kinds(schema: Any, source: Any) -> dict[str, dict[str, float]]:
    """Share of missing cells of each question, by kind; kinds that do not occur are omitted."""
    found = {}
    for name, column in schema.items():
        names = [each for each in column.source_columns(name) or (name,) if each in source]
        if not names:
            continue
        cells = source.cells(names[0])
        if names != [name]:
            cells = replace(cells, name=name, parts={each: source.cells(each) for each in names})
        counts = column.missing_kinds(cells)
        n_cells = max(source.n_rows * len(names), 1)
        found[name] = {kind: count / n_cells for kind, count in counts.items() if count}
    return found


def missing_words(shares: Mapping[str, float]) -> str:
    """The shares as text: "12 %", or "12 % (8 % refused, 4 % no answer)"."""
    total = percent(float(np.clip(sum(shares.values()), 0.0, 1.0)))
    if not set(shares) - {NOTHING}:
        return total
    kinds = sorted(shares.items(), key=lambda each: -each[1])
    return f"{total} ({', '.join(f'{percent(share)} {kind}' for kind, share in kinds)})"
