"""Lists of items: what is liked together, and a map of the catalogue.

Two items are close if the model expects the same rows to like both: by the correlation of their utilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thurbo.report.embedding import embed
from thurbo.report.responses import FloatArray

SHOWN, SIMILAR = 12, 4  # items with the most ratings, and items that are liked by the same rows
MOST_POINTS = 1500
LEAST_ITEMS = 15  # of a ranking; of a shorter one, the card of the question says enough
_FEWEST_RATINGS = 5


def catalogue(model: Any, seed: int) -> list[dict[str, Any]]:
    """For each list or long ranking: the most frequent items, what is liked together, and the map of items."""
    return [
        _of_column(model, name, seed)
        for name, column in model.schema_.items()
        if column.sites and (column.is_listed or (column.has_items and len(column.sites) >= LEAST_ITEMS))
    ]


def _of_column(model: Any, name: str, seed: int) -> dict[str, Any]:
    texts, labels = list(map(str, model.schema_[name].texts)), model.schema_[name].labels
    counts = model.n_ratings_.get(name)
    counts = np.ones(len(texts), int) if counts is None else np.asarray(counts)
    order = np.argsort(-counts, kind="stable")
    place, together = {label: k for k, label in enumerate(labels)}, []
    least = _FEWEST_RATINGS if (counts >= _FEWEST_RATINGS).sum() > SIMILAR else 0
    for k in order[:SHOWN]:
        alike = model.similar_items(labels[k], top=SIMILAR, column=name, min_ratings=least)
        items, values = (np.asarray(alike[key]).tolist() for key in ("item", "similarity"))
        near: list[dict[str, Any]] = [
            {"item": texts[place[item]], "similarity": float(v)} for item, v in zip(items, values, strict=True)
        ]
        together.append(
            {"item": texts[k], "n": int(counts[k]), "near": [each for each in near if each["similarity"] > 0]}
        )
    shown = np.sort(order[counts[order] >= least][:MOST_POINTS])
    plane, method = embed(_places(model, name)[shown], seed)
    return {
        "column": name,
        "n_items": len(texts),
        "together": together,
        "method": method,
        "items": [texts[k] for k in shown],
        "n_ratings": counts[shown].tolist(),
        "x": np.round(plane[:, 0], 4).tolist(),
        "y": np.round(plane[:, 1], 4).tolist(),
    }


def _places(model: Any, name: str) -> FloatArray:
    """Items as directions of unit length: their weights of hidden units and factors, [item, feature]."""
    where = model.schema_.slices[name]
    weights = np.concatenate([np.asarray(each, float)[where] for each in (model.weights_, model.loadings_)], axis=1)
    weights = weights - weights.mean(axis=0)
    return weights / np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-9)
