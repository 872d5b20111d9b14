"""Cards of the report: one record per question, per segment and per hidden unit.

Shares, means and histograms are weighted by the Weight column; counts of missing cells are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from thurbo._concurrency import one_thread
from thurbo.app.report.wording import (
    FloatArray,
    Texts,
    capital,
    clipped,
    listing,
    percent,
    quoted,
    read_answers,
    short_of,
    texts_of,
    with_answer,
)
from thurbo.predict.segments import Segments, scaled, segments
from thurbo.table.columns.forms.form import Answers
from thurbo.table.io.frames import as_table
from thurbo.table.schema.routing import NOT_APPLICABLE

MOST_BARS = 12  # labels of a question that have a bar
N_BINS = 12  # of a histogram


class Described:
    """A model and a table as report, notebook and explorer show them; what takes long is computed once."""

    def __init__(self, model: Any, X: Any):
        self.model, self.schema, self.table = model, model.schema_, as_table(X)
        self.blocks = self.schema.compile(self.table)
        self.answers: list[Answers] = read_answers(self.schema, self.table, self.blocks)
        self.texts = texts_of(self.schema, self.answers)
        self.weight: FloatArray | None = self.schema.weights(self.table, missing_columns="ignore")  # [row]
        self.relative_weight = None if self.weight is None else self.weight / self.weight.mean()

    @cached_property
    def log_odds(self) -> FloatArray:
        """Log-odds of hidden units, then means of factors: [row, feature]."""
        return np.asarray(self.model.transform(self.table, output="log_odds"), float)

    @cached_property
    def points(self) -> FloatArray:
        """Where the model sees the rows, for maps and segments: [row, feature]."""
        return scaled(self.log_odds, self.model.weights_.shape[1], self.weight)

    @cached_property
    def segments(self) -> Segments:
        """The segments that `model.segments` gives: the same number, and the same rows in each."""
        return segments(self.schema, self.blocks, self.points, self.weight)

    @cached_property
    def segment_records(self) -> dict[str, Any]:
        """Plain values of the segments."""
        return segment_records(self.segments, self.texts, gates_of(self.schema))

    def units(self) -> list[dict[str, Any]]:
        """One record per hidden unit: see `describe_units`."""
        weights, sites = np.asarray(self.model.weights_, float), list(self.model.site_names_)
        on = expit(self.log_odds[:, : weights.shape[1]])
        return describe_units(self.answers, on, weights, sites, rows=self.relative_weight, texts=self.texts)


def question_record(column: Answers, weight: FloatArray | None, missing: Mapping[str, float]) -> dict[str, Any]:
    """Figures of a question; one that was not asked is not missing."""
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
        "prefix": column.prefix,
    }
    if many:  # several options per row, so shares do not sum to one
        record["counts"] = [_count(part.values == 1, weight) for part in column.parts]
        shares = [_mean(part.values, weight) for part in column.parts]
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
    return record


def plain(number: Any) -> float | None:
    """A float for JSON; None if it is not finite."""
    number = float(number)
    return number if np.isfinite(number) else None


def _bars(labels: Sequence[str], shares: Sequence[float], ordered: bool) -> list[dict[str, Any]]:
    """Labels and shares to draw: in order, or the largest first; the rest together if there are many."""
    largest = sorted(range(len(labels)), key=lambda k: -shares[k])
    kept = largest if len(labels) <= MOST_BARS else largest[: MOST_BARS - 1]
    kept = sorted(kept) if ordered else kept
    bars: list[dict[str, Any]] = [{"label": labels[k], "share": float(shares[k]), "place": k} for k in kept]
    if len(kept) < len(labels):
        rest = sum(shares if ordered else sorted(shares, reverse=True)) - sum(shares[k] for k in kept)
        bars.append({"label": f"{len(labels) - len(kept)} others", "share": float(max(rest, 0.0)), "place": None})
    return bars


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


def _mean(values: FloatArray, weight: FloatArray | None) -> float:
    """The weighted mean of the known values; 0 without any."""
    known = ~np.isnan(values)
    rows = None if weight is None or not weight[known].any() else weight[known]
    return float(np.average(values[known], weights=rows)) if known.any() else 0.0


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


_LINES, _OPTIONS = 6, 2  # answers of a segment, and options of one question among them
_SIDES = {"over": 1, "under": -1}
_SOLID, _LOOSE = 0.85, 0.6  # stability (Jaccard index)
_ANSWER = 60  # letters of an answer in a sentence


def gates_of(schema: Any) -> set[str]:
    """Questions that decide which others are asked."""
    return {skip.asked_if for skip in schema.skips}


def segment_records(found: Any, texts: Texts, gates: Collection[str] = ()) -> dict[str, Any]:
    """Plain values of the segments.

    `gates` decide which questions are asked; they set apart only the rows with few answers, who were not asked.
    """
    names, profiles = list[str](), []
    for record in found.profiles:
        few, stability = record["segment"] == found.few_answers, record["stability"]
        lines = _lines(record, texts, () if few or found.few_answers is None else gates)
        name = "Few answers" if few else _name(lines)
        names.append(f"{name} ({record['segment']})" if name in names else name)
        profiles.append({
            **{key: record[key] for key in ("segment", "n", "share", "stability", "answered")},
            "name": names[-1],
            "few_answers": few,
            "lines": lines,
            "steady": "stable" if stability >= _SOLID else "fairly stable" if stability >= _LOOSE else "not stable",
            **{side: [{key: each[key] for key in ("column", "words")} for each in record[side]] for side in _SIDES},
        })  # fmt: skip
    figures = {name: plain(getattr(found, name)) for name in ("agreement", "silhouette", "reference_silhouette")}
    about = {name: getattr(found, name) for name in ("n", "few_answers", "stand_apart", "verdict")}
    return {**about, **figures, "profiles": profiles}


def _lines(record: Mapping[str, Any], texts: Texts, left_out: Collection[str]) -> list[dict[str, Any]]:
    """The answers that differ most from all rows, more common and less common ones, strongest first."""
    several = [{**each, "sign": sign} for side, sign in _SIDES.items() for each in record[side]]
    lines, seen = list[dict[str, Any]](), Counter[str]()
    for each in sorted(several, key=lambda one: -abs(one["z"])):
        name = each["column"]
        if name in left_out or seen[name] >= (_OPTIONS if each["several"] else 1) or len(lines) >= _LINES:
            continue
        seen[name] += 1
        kept = ("column", "answer", "value", "overall", "is_share", "sign", "z", "words")
        lines.append({key: texts[name][key] for key in ("brief", "short")} | {key: each[key] for key in kept})
    return lines


def _name(lines: Sequence[Mapping[str, Any]]) -> str:
    """The answers that a segment gives most distinctively, two of them from different questions."""
    first = dict[str, Mapping[str, Any]]()
    for line in lines:
        first.setdefault(line["column"], line)
    return capital("; ".join(phrase(line) for line in list(first.values())[:2]) or "No clear differences")


def phrase(line: Mapping[str, Any]) -> str:
    """An answer in a few words: "fan: Yes", "gender: mostly not Female", "higher age"."""
    question, answer = line["brief"], clipped(line["answer"], 30)
    less = line["sign"] < 0
    if not line["is_share"]:
        return f"{'lower' if less else 'higher'} {question}{f' ({answer})' if answer else ''}"
    often = "" if not less else "mostly not " if line["value"] < 0.5 else "less often "
    return with_answer(question, f"{often}{answer}")


def sentence(profile: Mapping[str, Any], rows_are: str) -> str:
    """What sets a segment apart, with shares."""
    parts = []
    for line in [line for line in profile["lines"] if line["is_share"]][:3] or profile["lines"][:2]:
        answer = quoted(with_answer(line["brief"], clipped(line["answer"], _ANSWER)))
        if line["is_share"]:
            parts.append(f"{percent(line['value'])} answered {answer} ({percent(line['overall'])} of all)")
        else:
            parts.append(f"{answer} {line['value']:.4g} on average ({line['overall']:.4g} of all)")
    differ = (
        f"Of these, {', '.join(parts)}." if parts else "Their answers do not differ clearly from those of the others."
    )
    size = f"{percent(profile['share'])} of the {rows_are} ({profile['n']:,})"
    if profile["few_answers"]:
        answered = f"{percent(profile['answered'])} of the questions on average"
        return f"{size} gave few answers (segment {profile['segment']}): {answered}. {differ}"
    return f"{size} are segment {profile['segment']}, {quoted(profile['name'])}. {differ}"


_FEWEST = 5.0  # respondents in each group, by weight, for a difference to be reported
_SMALLEST_DIFFERENCE = 0.1  # that is reported, in standard deviations
_LEAST_CORRELATION = 0.2  # of an answer that describes a factor
_ALIKE = 0.8  # correlation from which two units are said to be alike


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
    texts: Texts | None = None,
) -> list[dict[str, Any]]:
    """One record per hidden unit, largest share first: its share, the answers that differ most, its weights.

    `rows` are row weights with mean one: [row]; `texts` has the "short" text of each line of answers.
    """
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
        order = [int(i) for i in np.argsort(-np.abs(size), kind="stable") if abs(size[i]) >= _SMALLEST_DIFFERENCE]
        up, down = (
            [_effect(contrasts[i], k, weights, place, texts or {}) for i in order if sign * size[i] > 0][:top]
            for sign in (1, -1)
        )
        sides = (("higher", up), ("lower", down))
        words = [f"{side} on {listing([_subject(each) for each in own[:3]])}" for side, own in sides if own]
        units.append({
            "unit": k + 1,
            "share": float(np.average(on[:, k], weights=rows)) if len(on) else 0.0,
            "up": up,
            "down": down,
            "words": capital("; ".join(words) or "no clear differences"),
            "strength": float(abs(size[order[0]])) if order else 0.0,
            "weights": [
                {"site": names.get(str(site), str(site)), "weight": float(w)}
                for site, w in zip(site_names, weights[:, k], strict=True)
            ],
        })  # fmt: skip
    for unit, other in zip(units, _alike(on, rows, [unit["strength"] for unit in units]), strict=True):
        unit["like"] = other
    return sorted(units, key=lambda unit: -unit["share"])


def _alike(on: FloatArray, rows: FloatArray, strength: Sequence[float]) -> list[int | None]:
    """For each unit, the number of a stronger one that is nearly the same for all rows; None if there is none."""
    n_units, found = on.shape[1], list[int | None]([None] * on.shape[1])
    if n_units < 2 or len(on) < 2:
        return found
    centred = on - np.average(on, axis=0, weights=rows)
    centred = centred / np.maximum(np.sqrt(np.average(centred**2, axis=0, weights=rows)), 1e-9)
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


def _effect(found: Contrast, k: int, weights: FloatArray, place: Mapping[str, int], texts: Texts) -> dict[str, Any]:
    """The difference of one unit and line, at the level where the shares of on and off differ most."""
    line = found.line
    best = int(np.abs(found.share_on[:, k] - found.share_off[:, k]).argmax())
    share_on, share_off = float(found.share_on[best, k]), float(found.share_off[best, k])
    statement, site = found.statements[best], place.get(line.site or line.name)
    text = short_of(texts, line.name)
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


def _subject(effect: Mapping[str, Any]) -> str:
    """The text of the question, with its upper value unless that is "yes"."""
    named = effect["kind"] == "binary" and effect["statement"].lower() not in {"yes", "true", "1"}
    text = quoted(effect["text"]) if effect["text"].endswith(("?", ".")) else str(effect["text"])
    return f"{text} ({effect['statement']})" if named else text


def describe_factors(
    answers: Sequence[Answers],
    factors: FloatArray,
    rows: FloatArray | None = None,
    texts: Texts | None = None,
    top: int = 4,
) -> list[dict[str, Any]]:
    """One record per factor, the best determined first: the answers that correlate most with it, at either end."""
    rows = np.ones(len(factors)) if rows is None else rows
    lines = [line for each in answers for line in each.lines if line.observed.sum() > 2]
    centred = factors - np.average(factors, axis=0, weights=rows) if len(factors) else factors
    squares = centred**2
    with one_thread():
        found = [_correlations(line, centred, squares, rows) for line in lines]
    correlation, records = np.reshape(found, (len(lines), factors.shape[1])), []
    for k in range(factors.shape[1]):
        own = correlation[:, k]
        ends: dict[str, list[dict[str, Any]]] = {"high": [], "low": []}
        for i in np.argsort(-np.abs(own), kind="stable"):
            side = ends["high" if own[i] > 0 else "low"]
            if abs(own[i]) >= _LEAST_CORRELATION and len(side) < top:
                name = lines[i].name
                side.append({"column": name, "text": short_of(texts or {}, name), "correlation": float(own[i])})
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
