"""The map of rows: places by similarity, segments, and answers of small areas.

Answers are shown by area, and only where at least five rows are: the page says nothing about single people, unless it
is asked for rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from thurbo.columns.cells import listing, suggestion
from thurbo.errors import SchemaError
from thurbo.report.embedding import embed
from thurbo.report.responses import Answers, FloatArray

FEWEST = 5  # rows of an area whose answers are shown
N_ACROSS = 26  # areas along the longer side
_MOST_COLOURINGS = 8


def by_name(answers: Sequence[Answers]) -> dict[str, Answers]:
    """Questions and their parts."""
    return {each.name: each for column in answers for each in (column, *column.parts)}


def named(answers: Sequence[Answers], names: Sequence[str]) -> list[Answers]:
    """The columns that colour the map; raises early for an unknown name."""
    known = by_name(answers)
    for name in names:
        if name not in known:
            remedy = f"{suggestion(name, known)}choose among {listing(column.name for column in answers)}"
            raise SchemaError("colour_by names it, but the model does not have it", column=name, remedy=remedy)
    return [known[name] for name in names]


def telling(answers: Sequence[Answers], segments: Any, most: int = _MOST_COLOURINGS) -> list[Answers]:
    """The questions that differ most between segments, each once; options by the option that differs most."""
    known, score = by_name(answers), dict[str, float]()
    for record in segments.answers:
        part = f"{record['column']}: {record['answer']}"
        name = part if record["several"] and part in known else record["column"]
        if name in known and (known[name].labels or known[name].observed.any()):
            score[name] = max(score.get(name, 0.0), abs(record["z"]))
    kept: list[str] = []
    for name in sorted(score, key=lambda each: -score[each]):
        home = name.partition(": ")[0]
        if not any(other.partition(": ")[0] == home for other in kept):
            kept.append(name)
    return [known[name] for name in kept[:most]]


def row_map(
    points: FloatArray,
    segment: np.ndarray[Any, Any],
    columns: Sequence[Answers],
    not_asked: Mapping[str, np.ndarray[Any, Any]],
    seed: int,
    max_points: int,
) -> dict[str, Any]:
    """Places and segments of the rows, or of a random sample of them, and answers by area; `rows` are positions."""
    n_rows = len(points)
    rows = np.arange(n_rows)
    if n_rows > max_points:
        rows = np.sort(np.random.default_rng(seed).choice(n_rows, max_points, replace=False))
    plane, method = embed(points[rows], seed)
    cell = _cells(plane)
    areas, which = np.unique(cell, axis=0, return_inverse=True) if len(cell) else (cell, np.zeros(0, int))
    which = which.ravel()
    size = np.bincount(which, minlength=len(areas))
    nobody = np.zeros(n_rows, bool)
    return {
        "method": method,
        "n_rows": n_rows,
        "n_points": len(rows),
        "x": np.round(plane[:, 0], 4).tolist(),
        "y": np.round(plane[:, 1], 4).tolist(),
        "segment": np.asarray(segment)[rows].tolist(),
        "n_across": N_ACROSS,
        "areas": [[*place, int(n)] for place, n in zip(areas.tolist(), size.tolist(), strict=True)],
        "colourings": [
            _colouring(column, rows, which, len(areas), not_asked.get(column.name, nobody)) for column in columns
        ],
        "rows": rows.tolist(),
    }


def _cells(plane: FloatArray) -> np.ndarray[Any, Any]:
    """The area of each row, [row, 2]: squares from (0, 0) at the lower left."""
    return np.clip(np.floor((plane + 0.5) * N_ACROSS), 0, N_ACROSS - 1).astype(int)


def _colouring(
    column: Answers,
    rows: np.ndarray[Any, Any],
    area: np.ndarray[Any, Any],
    n_areas: int,
    not_asked: np.ndarray[Any, Any],
) -> dict[str, Any]:
    """Shares of the answers in each area with at least five answers; None elsewhere."""
    values, labels = column.values, list(column.labels)
    if not labels:
        seen = values[column.observed]
        edges = np.unique(np.quantile(seen, [0.2, 0.4, 0.6, 0.8])) if len(seen) else np.zeros(0)
        labels = _fifths(edges.tolist())
        values = np.where(column.observed, np.searchsorted(edges, values, side="right"), np.nan)
    own = values[rows]
    known = ~np.isnan(own)
    counts = np.zeros((n_areas, len(labels)), int)
    np.add.at(counts, (area[known], own[known].astype(int)), 1)
    shares = [None if each.sum() < FEWEST else np.round(each / each.sum(), 3).tolist() for each in counts]
    return {
        "column": column.name,
        "kind": column.kind,
        "labels": labels,
        "ordered": bool(column.has_order),
        "counts": counts.sum(axis=0).tolist(),
        "n_missing": int((~known).sum() - not_asked[rows][~known].sum()),
        "n_not_asked": int(not_asked[rows][~known].sum()),
        "shares": shares,
    }


def _fifths(edges: Sequence[float]) -> list[str]:
    if not edges:
        return ["all"]
    words = [f"{edge:.4g}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(words)]
    return [f"below {words[0]}", *between, f"{words[-1]} and more"]


def row_texts(
    answers: Sequence[Answers], texts: Mapping[str, Mapping[str, str]], names: Sequence[Any], rows: Sequence[int]
) -> list[dict[str, Any]]:
    """Of each row on the map, its name and its answers: only for pages that were asked for rows."""
    found = []
    for row in rows:
        said = []
        for column in answers:
            value = column.values[row]
            if np.isnan(value):
                continue
            chosen = [part.name[len(column.name) + 2 :] for part in column.parts if part.values[row] == 1]
            answer = f"{value:.4g}" if not column.labels else column.labels[int(value)]
            said.append([texts[column.name]["brief"], ", ".join(chosen) if chosen else answer])
        found.append({"name": str(names[row]), "answers": said})
    return found
