"""Maps of the report: rows by similarity, with segments and answers of small areas, and items of lists.

Answers are shown by area, and only where at least five rows are: the page says nothing about single people, unless it
is asked for rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thurbo.app.report.wording import FloatArray, Texts
from thurbo.errors import SchemaError
from thurbo.table.columns.cells import listing, suggestion
from thurbo.table.columns.forms.form import Answers

# With fewer rows t-SNE has no advantage over principal components.
_FEW_ROWS = 50

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Method = Literal["t-SNE", "principal components"]


def embed(points: FloatArray, seed: int = 0) -> tuple[FloatArray, Method]:
    """Centred coordinates [row, 2], scaled to a longer side of one, and the method."""
    n_rows, n_features = points.shape
    method: Method = "principal components"
    if n_rows >= _FEW_ROWS and n_features > 2 and np.ptp(points) > 0 and find_spec("openTSNE") is not None:
        plane, method = _tsne(points, seed), "t-SNE"
    else:
        plane = _principal(points)
    if not n_rows:
        return plane, method
    low, high = plane.min(axis=0), plane.max(axis=0)
    return (plane - (low + high) / 2) / (float((high - low).max()) or 1.0), method


def _tsne(points: FloatArray, seed: int) -> FloatArray:
    from openTSNE import TSNE

    n_rows = len(points)
    layout = TSNE(
        perplexity=min(30.0, (n_rows - 1) / 3),
        initialization="pca",
        # Half the usual number of steps: 99 % of the neighbours are the same, in half the time.
        early_exaggeration_iter=125,
        n_iter=250,
        theta=0.8,
        # Several threads change the order of summation, and so the map.
        n_jobs=1,
        negative_gradient_method="bh" if n_rows < 10_000 else "fft",
        random_state=seed,
    )
    return np.asarray(layout.fit(points), float)


def _principal(points: FloatArray) -> FloatArray:
    if not points.size:
        return np.zeros((len(points), 2))
    left, singular, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    plane = left[:, :2] * singular[:2]
    # The sign of a component is arbitrary: the largest coordinate is made positive, so that runs agree.
    sign = np.sign(plane[np.abs(plane).argmax(axis=0), range(plane.shape[1])])
    plane = plane * np.where(sign == 0, 1.0, sign)
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


FEWEST = 5  # rows of an area whose answers are shown
N_ACROSS = 26  # areas along the longer side
_MOST_COLOURINGS = 8


def _by_name(answers: Sequence[Answers]) -> dict[str, Answers]:
    """Questions and their parts."""
    return {each.name: each for column in answers for each in (column, *column.parts)}


def named(answers: Sequence[Answers], names: Sequence[str]) -> list[Answers]:
    """The columns that colour the map; raises early for an unknown name."""
    known = _by_name(answers)
    for name in names:
        if name not in known:
            remedy = f"{suggestion(name, known)}choose among {listing(column.name for column in answers)}"
            raise SchemaError("colour_by names it, but the model does not have it", column=name, remedy=remedy)
    return [known[name] for name in names]


def telling(answers: Sequence[Answers], segments: Any) -> list[Answers]:
    """The questions that differ most between segments, each once; options by the option that differs most."""
    known, score = _by_name(answers), dict[str, float]()
    for record in segments.answers:
        part = f"{record['column']}: {record['answer']}"
        name = part if record["several"] and part in known else record["column"]
        if name in known and (known[name].labels or known[name].observed.any()):
            score[name] = max(score.get(name, 0.0), abs(record["z"]))
    kept: dict[str, Answers] = {}
    for name in sorted(score, key=lambda each: -score[each]):
        kept.setdefault(name.partition(": ")[0], known[name])
    return list(kept.values())[:_MOST_COLOURINGS]


def row_map(
    points: FloatArray,
    segment: IntArray,
    columns: Sequence[Answers],
    not_asked: Mapping[str, BoolArray],
    seed: int,
    max_points: int,
) -> dict[str, Any]:
    """Places and segments of the rows, or of a random sample of them, and answers by area; `rows` are positions."""
    n_rows = len(points)
    rows = np.arange(n_rows)
    if n_rows > max_points:
        rows = np.sort(np.random.default_rng(seed).choice(n_rows, max_points, replace=False))
    plane, method = embed(points[rows], seed)
    # The area of each row: squares from (0, 0) at the lower left.
    cell = np.clip(np.floor((plane + 0.5) * N_ACROSS), 0, N_ACROSS - 1).astype(int)
    areas, which = np.unique(cell, axis=0, return_inverse=True) if len(cell) else (cell, np.zeros(0, int))
    which = which.ravel()
    size = np.bincount(which, minlength=len(areas))
    return {
        "method": method,
        "n_rows": n_rows,
        "n_points": len(rows),
        "x": np.round(plane[:, 0], 4).tolist(),
        "y": np.round(plane[:, 1], 4).tolist(),
        "segment": np.asarray(segment)[rows].tolist(),
        "n_across": N_ACROSS,
        "areas": [[*place, int(n)] for place, n in zip(areas.tolist(), size.tolist(), strict=True)],
        "colourings": [_colouring(each, rows, which, len(areas), not_asked) for each in columns],
        "rows": rows.tolist(),
    }


def _colouring(
    column: Answers, rows: IntArray, area: IntArray, n_areas: int, not_asked: Mapping[str, BoolArray]
) -> dict[str, Any]:
    """Shares of the answers in each area with at least five answers; None elsewhere."""
    codes, labels = answer_groups(column)
    own = codes[rows]
    known = ~np.isnan(own)
    out = not_asked[column.name][rows][~known] if column.name in not_asked else np.zeros(0)
    counts = np.zeros((n_areas, len(labels)), int)
    np.add.at(counts, (area[known], own[known].astype(int)), 1)
    shares = [None if each.sum() < FEWEST else np.round(each / each.sum(), 3).tolist() for each in counts]
    return {
        "column": column.name,
        "kind": column.kind,
        "labels": labels,
        "ordered": bool(column.has_order),
        "counts": counts.sum(axis=0).tolist(),
        "n_missing": int((~known).sum() - out.sum()),
        "n_not_asked": int(out.sum()),
        "shares": shares,
    }


def answer_groups(column: Answers) -> tuple[FloatArray, list[str]]:
    """The group of each row's answer, NaN if it is missing, and the names of groups: labels, or fifths of a number."""
    if column.labels:
        return column.values, list(column.labels)
    seen = column.values[column.observed]
    edges = np.unique(np.quantile(seen, [0.2, 0.4, 0.6, 0.8])) if len(seen) else np.zeros(0)
    codes = np.where(column.observed, np.searchsorted(edges, column.values, side="right"), np.nan)
    words = [f"{edge:.4g}" for edge in edges.tolist()]
    between = [f"{low} to {high}" for low, high in pairwise(words)]
    return codes, [f"below {words[0]}", *between, f"{words[-1]} and more"] if words else ["all"]


def row_texts(
    answers: Sequence[Answers], texts: Texts, names: Sequence[Any], rows: Sequence[int]
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


SHOWN, SIMILAR = 12, 4  # items with the most ratings, and items that are liked by the same rows
MOST_POINTS = 1500
LEAST_ITEMS = 15  # of a ranking; of a shorter one, the card of the question says enough
_FEWEST_RATINGS = 5


def catalogue(model: Any, seed: int) -> list[dict[str, Any]]:
    """For each list or long ranking: the most frequent items, what is liked together, and the map of items."""
    found = []
    for name, column in model.schema_.items():
        if not column.sites or not (column.is_listed or (column.has_items and len(column.sites) >= LEAST_ITEMS)):
            continue
        texts = dict(zip(column.labels, map(str, column.texts), strict=True))
        counts = np.asarray(model.n_ratings_.get(name, np.ones(len(texts), int)))
        order = np.argsort(-counts, kind="stable")
        together = []
        least = _FEWEST_RATINGS if (counts >= _FEWEST_RATINGS).sum() > SIMILAR else 0
        for k in order[:SHOWN]:
            alike = model.similar_items(column.labels[k], top=SIMILAR, column=name, min_ratings=least)
            items, values = (np.asarray(alike[key]).tolist() for key in ("item", "similarity"))
            near = [
                {"item": texts[item], "similarity": float(value)}
                for item, value in zip(items, values, strict=True)
                if value > 0
            ]
            together.append({"item": texts[column.labels[k]], "n": int(counts[k]), "near": near})
        shown = np.sort(order[counts[order] >= least][:MOST_POINTS])
        plane, method = embed(_places(model, name)[shown], seed)
        found.append({
            "column": name,
            "n_items": len(texts),
            "together": together,
            "method": method,
            "items": [texts[column.labels[k]] for k in shown],
            "n_ratings": counts[shown].tolist(),
            "x": np.round(plane[:, 0], 4).tolist(),
            "y": np.round(plane[:, 1], 4).tolist(),
        })  # fmt: skip
    return found


def _places(model: Any, name: str) -> FloatArray:
    """Items as directions of unit length: their weights of hidden units and factors, [item, feature]."""
    where = model.schema_.slices[name]
    weights = np.concatenate([np.asarray(each, float)[where] for each in (model.weights_, model.loadings_)], axis=1)
    weights = weights - weights.mean(axis=0)
    return weights / np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-9)
