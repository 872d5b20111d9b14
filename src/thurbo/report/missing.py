"""Shares of missing cells by kind: empty cells, empty cells of questions that were not asked, declared values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thurbo.report.wording import percent
from thurbo.schema.routing import NOT_APPLICABLE, not_asked

NOTHING = "no answer"


def missing_kinds(schema: Any, source: Any) -> dict[str, dict[str, float]]:
    """Share of missing cells of each question, by kind; kinds that do not occur are omitted."""
    found, out = {}, not_asked(schema, schema.skips, source)
    for name, column in schema.items():
        names = [each for each in column.source_columns(name) or (name,) if each in source]
        if not names:
            continue
        cells = source.cells(names[0])
        if names != [name]:
            cells = replace(cells, name=name, parts={each: source.cells(each) for each in names})
        counts = column.missing_kinds(cells)
        if name in out:
            counts[NOT_APPLICABLE] = counts.get(NOT_APPLICABLE, 0)
            for each in names:
                skipped = int((out[name] & source.cells(each).missing).sum())
                counts[NOT_APPLICABLE] += skipped
                counts[NOTHING] -= skipped
        n_cells = max(source.n_rows * len(names), 1)
        found[name] = {kind: count / n_cells for kind, count in counts.items() if count}
    return found


def missing_words(shares: Mapping[str, float]) -> str:
    """The shares as text: "12 %", or "12 % (8 % refused, 4 % no answer), 21 % not applicable"."""
    gaps = {kind: share for kind, share in shares.items() if kind != NOT_APPLICABLE}
    words = percent(float(np.clip(sum(gaps.values()), 0.0, 1.0)))
    if set(gaps) - {NOTHING}:
        kinds = sorted(gaps.items(), key=lambda each: -each[1])
        words += f" ({', '.join(f'{percent(share)} {kind}' for kind, share in kinds)})"
    return f"{words}, {percent(shares[NOT_APPLICABLE])} {NOT_APPLICABLE}" if NOT_APPLICABLE in shares else words
