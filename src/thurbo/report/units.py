"""Interpretation of hidden units: how answers differ between respondents with the unit on and off.

Every respondent counts in both groups, with weights P(h_k = 1 | e) and 1 − P(h_k = 1 | e), without a threshold.
Each difference is given as shares of respondents ("78 % at least Somewhat, against 31 %") and as means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thurbo._threads import one_thread
from thurbo.report.responses import Answers, FloatArray
from thurbo.report.wording import listing, percent

# Fewest respondents in each group, by weight, for a difference to be reported.
_FEWEST = 5.0
# Smallest reported difference, in standard deviations.
_SMALLEST = 0.1
# Smallest correlation of an answer that describes a factor.
_LEAST_CORRELATION = 0.2
# Correlation from which two units are said to be alike.
_ALIKE = 0.8


class Contrast(NamedTuple):
    """The difference of one line of answers for all units; NaN if a unit has too few respondents in a group."""

    line: Answers
    mean_on: FloatArray  # [unit]
    mean_off: FloatArray
    standardised: FloatArray
    statements: tuple[str, ...]
    share_on: FloatArray  # [statement, unit]
    share_off: FloatArray


def describe_units(
    answers: Sequence[Answers],
    on: FloatArray,
    weights: FloatArray,
    site_names: Sequence[str],
    top: int = 4,
    rows: FloatArray | None = None,
    texts: Mapping[str, Mapping[str, str]] | None = None,
) -> list[dict[str, Any]]:
    """One record per hidden unit, largest share first: its share, the answers that differ most, its weights.

    `rows` are row weights with mean one: [row]; `texts` has the "short" text of each line of answers.
    """
    texts = {} if texts is None else texts
    rows = np.ones(len(on)) if rows is None else rows
    lines = [line for a in answers for line in a.lines]
    names = {line.site: line.name for line in lines if line.site}
    place = {str(site): row for row, site in enumerate(site_names)}
    weighted = on * rows[:, None]
    with one_thread():  # many small products, whose threads would wait for each other
        contrasts = [found for line in lines if (found := _contrast(line, weighted, rows)) is not None]
    standardised = np.array([found.standardised for found in contrasts]).reshape(len(contrasts), on.shape[1])
    units: list[dict[str, Any]] = []
    for k in range(on.shape[1]):
        size = np.nan_to_num(standardised[:, k])
        order = [int(i) for i in np.argsort(-np.abs(size), kind="stable") if abs(size[i]) >= _SMALLEST]
        up = [_effect(contrasts[i], k, weights, place, texts) for i in order if size[i] > 0][:top]
        down = [_effect(contrasts[i], k, weights, place, texts) for i in order if size[i] < 0][:top]
        units.append(
            {
                "unit": k + 1,
                "share": float(np.average(on[:, k], weights=rows)) if len(on) else 0.0,
                "up": up,
                "down": down,
                "words": _headline(up, down),
                "strength": float(abs(size[order[0]])) if order else 0.0,
                "weights": [
                    {"site": names.get(str(site), str(site)), "weight": float(w)}
                    for site, w in zip(site_names, weights[:, k], strict=True)
                ],
            }
        )
    for unit, other in zip(units, _alike(on, rows, [unit["strength"] for unit in units]), strict=True):
        unit["like"] = other
    return sorted(units, key=lambda unit: -unit["share"])


def _alike(on: FloatArray, rows: FloatArray, strength: Sequence[float]) -> list[int | None]:
    """For each unit, the number of a stronger one that is nearly the same for all rows; None if there is none."""
    n_units, found = on.shape[1], list[int | None]([None] * on.shape[1])
    if n_units < 2 or len(on) < 2:
        return found
    spread = np.maximum(
        np.sqrt(np.average((on - np.average(on, axis=0, weights=rows)) ** 2, axis=0, weights=rows)), 1e-9
    )
    centred = (on - np.average(on, axis=0, weights=rows)) / spread
    correlation = np.abs((centred * rows[:, None]).T @ centred / rows.sum())
    kept: list[int] = []
    for k in np.argsort(-np.asarray(strength), kind="stable").tolist():
        found[k] = next((other + 1 for other in kept if correlation[k, other] >= _ALIKE), None)
        if found[k] is None:
            kept.append(k)
    return found


def _contrast(line: Answers, weighted: FloatArray, rows: FloatArray) -> Contrast | None:
    """The differences between on and off of each unit for one line; None if there are too few answers.

    `weighted` is how far each unit is on, times the weight of the row: [row, unit].
    """
    observed = line.observed & (rows > 0)
    values, own = line.values[observed], rows[observed]
    if len(values) < 2 or values.min() == values.max():
        return None
    spread = float(np.sqrt(np.cov(values, aweights=own, ddof=0)))
    statements, holds = _statements(line, values)
    # Rows without an answer are zeros: copying the others for each line would take longer than the sums.
    stacked = np.zeros((len(holds) + 2, len(observed)))
    stacked[:, observed] = np.vstack([np.ones(len(values)), values, holds])
    (n_on, *total_on), (n, *total) = stacked @ weighted, stacked @ rows
    n_off = n - n_on
    enough = np.minimum(n_on, n_off) >= _FEWEST
    if not enough.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        means_on = np.where(enough, np.asarray(total_on) / n_on, np.nan)
        means_off = np.where(enough, (np.asarray(total)[:, None] - total_on) / n_off, np.nan)
    standardised = (means_on[0] - means_off[0]) / spread
    return Contrast(line, means_on[0], means_off[0], standardised, statements, means_on[1:], means_off[1:])


def _statements(line: Answers, values: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
    """Statements about an answer, and where they hold [statement, row]: above the median, or at least a level."""
    if not line.labels:
        middle = float(np.median(values))
        return (f"above {middle:.4g}",), (values > middle)[None].astype(float)
    n_levels = len(line.labels)
    if n_levels == 2:
        return (line.labels[1],), (values >= 1)[None].astype(float)
    cuts = range(1, n_levels)
    words = tuple(line.labels[cut] if cut == n_levels - 1 else f"at least {line.labels[cut]}" for cut in cuts)
    return words, np.stack([values >= cut for cut in cuts]).astype(float)


def _effect(
    found: Contrast, k: int, weights: FloatArray, place: Mapping[str, int], texts: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The difference of one unit and line, at the level where the shares of on and off differ most."""
    line = found.line
    best = int(np.abs(found.share_on[:, k] - found.share_off[:, k]).argmax())
    share_on, share_off = float(found.share_on[best, k]), float(found.share_off[best, k])
    statement, site = found.statements[best], place.get(line.site or line.name)
    text = texts[line.name]["short"] if line.name in texts else line.name
    return {
        "column": line.name,
        "text": text,
        "kind": line.kind,
        "statement": statement,
        "share_on": share_on,
        "share_off": share_off,
        "mean_on": float(found.mean_on[k]),
        "mean_off": float(found.mean_off[k]),
        "difference": float(found.mean_on[k] - found.mean_off[k]),
        "standardised": float(found.standardised[k]),
        "weight": 0.0 if site is None else float(weights[site, k]),
        "words": f"{text}: {percent(share_on)} {statement}, against {percent(share_off)}",
    }


def _headline(up: Sequence[dict[str, Any]], down: Sequence[dict[str, Any]]) -> str:
    parts = []
    if up:
        parts.append("higher on " + listing([_subject(e) for e in up[:3]]))
    if down:
        parts.append("lower on " + listing([_subject(e) for e in down[:3]]))
    words = "; ".join(parts) or "no clear differences"
    return words[0].upper() + words[1:]


def _subject(effect: Mapping[str, Any]) -> str:
    """The text of the question, with its upper value unless that is "yes"."""
    named = effect["kind"] == "binary" and effect["statement"].lower() not in {"yes", "true", "1"}
    text = f"“{effect['text']}”" if effect["text"].endswith(("?", ".")) else str(effect["text"])
    return f"{text} ({effect['statement']})" if named else text


def describe_factors(
    answers: Sequence[Answers],
    factors: FloatArray,
    rows: FloatArray | None = None,
    texts: Mapping[str, Mapping[str, str]] | None = None,
    top: int = 4,
) -> list[dict[str, Any]]:
    """One record per factor, the best determined first: the answers that correlate most with it, at either end."""
    texts = {} if texts is None else texts
    rows = np.ones(len(factors)) if rows is None else rows
    lines = [line for each in answers for line in each.lines if line.observed.sum() > 2]
    centred = factors - np.average(factors, axis=0, weights=rows) if len(factors) else factors
    squares = centred**2
    with one_thread():
        found = [_correlations(line, centred, squares, rows) for line in lines]
    correlation = np.stack(found) if lines else np.zeros((0, 0))
    records = []
    for k in range(factors.shape[1]):
        own = correlation[:, k] if len(lines) else np.zeros(0)
        order = np.argsort(-np.abs(own), kind="stable")
        ends: dict[str, list[dict[str, Any]]] = {"high": [], "low": []}
        for i in order:
            side = ends["high" if own[i] > 0 else "low"]
            if abs(own[i]) >= _LEAST_CORRELATION and len(side) < top:
                name = lines[i].name
                text = texts[name]["short"] if name in texts else name
                side.append({"column": name, "text": text, "correlation": float(own[i])})
        records.append({"factor": k + 1, "variance": float(np.average(squares[:, k], weights=rows)), **ends})
    return sorted(records, key=lambda each: -each["variance"])


def _correlations(line: Answers, factors: FloatArray, squares: FloatArray, rows: FloatArray) -> FloatArray:
    """Correlation of one line of answers with each factor, over the rows that have the answer."""
    own = line.observed & (rows > 0)
    values, weight = line.values[own], np.where(own, rows, 0.0)
    if len(values) < 3 or np.ptp(values) == 0:
        return np.zeros(factors.shape[1])
    x = np.zeros(len(rows))
    x[own] = values - np.average(values, weights=rows[own])
    mean, together = np.stack([weight / weight.sum(), weight * x]) @ factors
    variance = np.maximum(weight @ squares - weight.sum() * mean**2, 0.0)
    spread = np.sqrt((weight @ x**2) * variance)
    return np.where(spread > 1e-12, together / np.maximum(spread, 1e-12), 0.0)
