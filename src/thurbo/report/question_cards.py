"""One record per question: answers with their shares, a histogram of numbers, and the missing answers by reason.

Shares, means and histograms are weighted by the Weight column; counts of missing cells are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thurbo.report.responses import Answers, FloatArray
from thurbo.report.wording import percent
from thurbo.schema.routing import NOT_APPLICABLE

MOST_BARS = 12  # labels of a question that have a bar
N_BINS = 12  # of a histogram


def question_records(
    answers: Sequence[Answers], weight: FloatArray | None, missing: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """Figures of each question; one that was not asked is not missing."""
    return [_record(column, weight, missing.get(column.name, {})) for column in answers]


def _record(column: Answers, weight: FloatArray | None, missing: Mapping[str, float]) -> dict[str, Any]:
    not_asked = min(missing.get(NOT_APPLICABLE, 0.0), column.share_missing)
    seen, many = column.values[column.observed], not column.exclusive and bool(column.labels)
    rows = None if weight is None else weight[column.observed]
    parts = column.parts if column.labels else ()
    labels = [part.name.removeprefix(f"{column.name}: ") for part in parts] or list(column.labels)
    answered = column.observed if column.answered is None else column.answered
    record: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind,
        "description": column.description,
        "n": int(answered.sum()),
        "share_missing": column.share_missing - not_asked,
        "share_not_applicable": not_asked,
        "labels": labels,
        "share_interval": column.share_interval,
        "several": bool(many),
        "ordered": bool(column.has_order and not many),
    }
    if many:  # several options per row, so shares do not sum to one
        record["counts"] = [_count(part.values == 1, weight) for part in column.parts]
        shares = [_share(part, weight) if part.observed.any() else 0.0 for part in column.parts]
        record["words"] = shares_in_words(labels, shares, len(labels))
        record["bars"] = _bars(labels, shares, False)
    elif labels:
        record["counts"] = [_count(seen == code, rows) for code in range(len(labels))]
        total = sum(record["counts"]) or 1
        shares = [n / total for n in record["counts"]]
        if not column.has_order:  # unordered labels: shares instead of the two ends
            record["words"] = column.prefix + shares_in_words(labels, shares, 3)
        record["bars"] = _bars(labels, shares, column.has_order)
    else:
        record["quantiles"] = [plain(q) for q in _quantiles(seen, rows, (0.05, 0.25, 0.5, 0.75, 0.95))]
        record["histogram"] = _histogram(seen, rows)
    record["prefix"] = column.prefix
    return record


def plain(number: Any) -> float | None:
    """A float for JSON; None if it is not finite."""
    number = float(number)
    return number if np.isfinite(number) else None


def _bars(labels: Sequence[str], shares: Sequence[float], ordered: bool) -> list[dict[str, Any]]:
    """Labels and shares to draw: in order, or the largest first; the rest together if there are many."""
    place = range(len(labels)) if ordered else sorted(range(len(labels)), key=lambda k: -shares[k])
    bars: list[dict[str, Any]] = [{"label": labels[k], "share": float(shares[k]), "place": k} for k in place]
    if len(bars) <= MOST_BARS:
        return bars
    if ordered:  # the largest, in order
        kept = sorted(sorted(bars, key=lambda bar: -bar["share"])[: MOST_BARS - 1], key=lambda bar: bar["place"])
    else:
        kept = bars[: MOST_BARS - 1]
    rest = sum(bar["share"] for bar in bars) - sum(bar["share"] for bar in kept)
    return [*kept, {"label": f"{len(bars) - len(kept)} others", "share": float(max(rest, 0.0)), "place": None}]


def _histogram(values: FloatArray, weight: FloatArray | None) -> dict[str, Any] | None:
    """Shares of bins of equal width between the 1 % and 99 % quantiles; the outer bins hold what is beyond."""
    if not len(values):
        return None
    low, high = np.quantile(values, [0.01, 0.99])
    if not np.isfinite([low, high]).all() or low >= high:
        return None
    edges = np.linspace(low, high, N_BINS + 1)
    counts, _ = np.histogram(np.clip(values, low, high), edges, weights=weight)
    return {"edges": [float(e) for e in edges], "shares": (counts / max(counts.sum(), 1e-300)).tolist()}


def _count(holds: np.ndarray[Any, Any], weight: FloatArray | None) -> float:
    """Number of rows, weighted (mean weight one) and rounded to one decimal if there are weights."""
    return int(holds.sum()) if weight is None else round(float(weight[holds].sum()), 1)


def _share(part: Answers, weight: FloatArray | None) -> float:
    rows = None if weight is None or not weight[part.observed].any() else weight[part.observed]
    return float(np.average(part.values[part.observed], weights=rows))


def _quantiles(values: FloatArray, weight: FloatArray | None, levels: Sequence[float]) -> FloatArray:
    """Quantiles; with weights, by linear interpolation of the weighted distribution function."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    if not len(values):
        return np.full(len(levels), np.nan)
    if weight is None:
        return np.quantile(values, levels)
    order = np.argsort(values, kind="stable")
    values, weight = values[order], weight[order]
    reached = np.cumsum(weight) - weight / 2
    return np.interp(np.asarray(levels) * weight.sum(), reached, values)


def shares_in_words(labels: Sequence[str], shares: Sequence[float], most: int) -> str:
    """The labels with the largest shares, largest first."""
    order = sorted(range(len(labels)), key=lambda place: -shares[place])
    words = ", ".join(f"{labels[place]} {percent(shares[place])}" for place in order[:most])
    return words + (", …" if len(order) > most else "")
