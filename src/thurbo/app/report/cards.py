"""What the report is made of, as plain records: questions, segments, hidden units, factors, and maps of rows and items.

Shares, means and histograms are weighted by the Weight column; counts of missing cells are not. On the map of rows,
answers are shown by area, and only where at least five rows are: nothing is said of single people, unless it is asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from thurbo._concurrency import one_thread
from thurbo.app.report import wording
from thurbo.app.report.wording import FloatArray, Texts, brief_of, listing, percent, quoted, with_answer
from thurbo.errors import SchemaError
from thurbo.predict.segments import BoolArray, IntArray, Segments, scaled, segments
from thurbo.table.columns import values
from thurbo.table.columns.forms.form import Answers
from thurbo.table.io.frames import as_table
from thurbo.table.schema.naming import capital, clipped, from_level
from thurbo.table.schema.routing import NOT_APPLICABLE, not_applicable

MOST_BARS = 12  # labels of a question that have a bar
N_BINS = 12  # of a histogram


class Described:
    """A model and a table as report, notebook and explorer show them; what takes long is computed once."""

    def __init__(self, model: Any, X: Any):
        self.model, self.schema, self.table = model, model.schema_, as_table(X)
        self.blocks = self.schema.compile(self.table)
        self.answers: list[Answers] = wording.read_answers(self.schema, self.table, self.blocks)
        self.texts = wording.texts_of(self.schema, self.answers)
        self.weight: FloatArray | None = self.schema.weights(self.table, missing_columns="ignore")  # [row]
        self.relative_weight = None if self.weight is None else self.weight / self.weight.mean()
        self.is_weighted = self.weight is not None

    def stands_for_others(self, name: str) -> bool:
        """Whether a question does not follow from another one that is shown in its place."""
        return self.schema.sources.get(name, name) == name

    @cached_property
    def log_odds(self) -> FloatArray:
        """Log-odds of hidden units, then means of factors: [row, feature]."""
        return np.asarray(self.model.transform(self.table, output="log_odds"), float)

    @cached_property
    def points(self) -> FloatArray:
        """Where the model sees the rows, for maps and segments: [row, feature]."""
        return scaled(self.log_odds, self.model.weights_.shape[1], self.weight)

    @cached_property
    def not_asked(self) -> dict[str, BoolArray]:
        """Rows that were not asked a question, [row], by question."""
        return not_applicable(self.schema, self.schema.skips, self.table)

    @cached_property
    def segments(self) -> Segments:
        """The segments that `model.segments` gives: the same number, and the same rows in each."""
        return segments(self.schema, self.blocks, self.points, self.weight, not_asked=self.not_asked)

    @cached_property
    def segment_records(self) -> dict[str, Any]:
        """Plain values of the segments."""
        return segment_records(self.segments, self.texts, self.schema.skips)

    def units(self) -> list[dict[str, Any]]:
        """One record per hidden unit: see `describe_units`."""
        weights, sites = np.asarray(self.model.weights_, float), list(self.model.site_names_)
        on = expit(self.log_odds[:, : weights.shape[1]])
        answers = [each for each in self.answers if self.stands_for_others(each.name)]
        return describe_units(answers, on, weights, sites, rows=self.relative_weight, texts=self.texts)


_NO_TEXT = (wording.NOTHING, NOT_APPLICABLE)  # kinds of missing answers that are no answer of their own


def question_record(column: Answers, weight: FloatArray | None, missing: Mapping[str, float]) -> dict[str, Any]:
    """Figures of a question; one that was not asked is not missing."""
    not_asked = min(missing.get(NOT_APPLICABLE, 0.0), column.share_missing)
    many = not column.exclusive and bool(column.labels)  # several options per row, so shares do not sum to one
    parts = column.parts if column.labels else ()
    labels = [part.name.removeprefix(f"{column.name}: ") for part in parts] or list(column.labels)
    answered = column.observed if column.answered is None else column.answered
    kept = ("name", "kind", "description", "share_interval", "prefix")
    record: dict[str, Any] = {
        **{name: getattr(column, name) for name in kept},
        "n": int(answered.sum()),
        "share_missing": column.share_missing - not_asked,
        "share_not_applicable": not_asked,
        "share_counted_as_missing": sum(share for kind, share in missing.items() if kind not in _NO_TEXT),
        "labels": labels,
        "several": many,
        "ordered": bool(column.has_order and not many),
    }
    if not labels:
        seen, rows = column.values[column.observed], None if weight is None else weight[column.observed]
        quantiles = [plain(q) for q in _quantiles(seen, rows, (0.05, 0.25, 0.5, 0.75, 0.95))]
        return {**record, "quantiles": quantiles, "histogram": _histogram(seen, rows)}
    holds = [part.values == 1 for part in parts] if many else [column.values == code for code in range(len(labels))]
    if weight is None:
        record["counts"] = [int(each.sum()) for each in holds]
    else:  # the mean weight is one
        record["counts"] = [round(float(weight[each].sum()), 1) for each in holds]
    total = sum(record["counts"]) or 1
    shares = [_mean(part.values, weight) for part in parts] if many else [n / total for n in record["counts"]]
    largest = sorted(range(len(labels)), key=lambda k: -shares[k])
    if not record["ordered"]:  # unordered labels: shares instead of the two ends
        said = largest if many else largest[:3]
        words = ", ".join(f"{labels[k]} {percent(shares[k])}" for k in said)
        record["words"] = column.prefix + words + (", …" if len(said) < len(labels) else "")
    shown = largest if len(labels) <= MOST_BARS else largest[: MOST_BARS - 1]
    shown = sorted(shown) if record["ordered"] else shown
    record["bars"] = [{"label": labels[k], "share": float(shares[k]), "place": k} for k in shown]
    if len(shown) < len(labels):
        rest = max(float(sum(shares) - sum(shares[k] for k in shown)), 0.0)
        record["bars"].append({"label": f"{len(labels) - len(shown)} others", "share": rest, "place": None})
    return record


def plain(number: Any) -> float | None:
    """A float for JSON; None if it is not finite."""
    number = float(number)
    return number if np.isfinite(number) else None


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


_LINES, _OPTIONS = 4, 2  # answers of a segment, and options of one question among them
_SIDES = {"over": 1, "under": -1}
_SOLID, _LOOSE = 0.85, 0.6  # stability (Jaccard index)
_ANSWER = 40  # characters of an answer in a sentence
_TOLD = 2  # answers in the name of a segment, and in the sentence about it
_NAME = 80  # characters of a name with two answers
_MOSTLY = 0.5  # share from which an answer is what a segment says


def segment_records(found: Any, texts: Texts, skips: Sequence[Any] = ()) -> dict[str, Any]:
    """Plain values of the segments; the gates of `skips` describe only rows that were not asked."""
    names, profiles, gates = list[str](), [], {skip.asked_if for skip in skips}
    for record in found.profiles:
        few, out = (record["segment"] == own for own in (found.few_answers, found.not_asked))
        lines, stability = _lines(record, texts, gates, out), record["stability"]
        name = "Few answers" if few else f"Not asked: {_name(lines[:1])}" if out and lines else _name(lines)
        names.append(f"{name} ({record['segment']})" if name in names else name)
        profiles.append({
            **{key: record[key] for key in ("segment", "n", "share", "stability", "asked", "answered")},
            "name": names[-1],
            "few_answers": few,
            "not_asked": out,
            "lines": lines,
            "steady": "stable" if stability >= _SOLID else "fairly stable" if stability >= _LOOSE else "not stable",
            **{side: [{key: each[key] for key in ("column", "words")} for each in record[side]] for side in _SIDES},
        })  # fmt: skip
    figures = {name: plain(getattr(found, name)) for name in ("agreement", "silhouette", "reference_silhouette")}
    about = {name: getattr(found, name) for name in ("n", "not_asked", "few_answers", "stand_apart", "verdict")}
    return {**about, **figures, "profiles": profiles}


def _lines(record: Mapping[str, Any], texts: Texts, gates: Collection[str], is_out: bool) -> list[dict[str, Any]]:
    """The answers that differ most from all rows: first what most rows of the segment say, then the strongest.

    The gate comes first where it decides that rows are not asked, and does not count elsewhere.
    """
    several = [{**each, "sign": sign} for side, sign in _SIDES.items() for each in record[side]]
    several = [each for each in several if is_out or each["several"] or each["column"] not in gates]
    lines, seen = list[dict[str, Any]](), Counter[str]()
    for each in sorted(several, key=lambda one: (is_out and one["column"] not in gates, -abs(one["z"]))):
        name = each["column"]
        if seen[name] < (_OPTIONS if each["several"] else 1) and len(lines) < _LINES:
            seen[name] += 1
            kept = ("column", "answer", "value", "overall", "is_share", "sign", "z", "n", "words")
            lines.append({**texts[name], **{key: each[key] for key in kept}})
    if is_out:
        return lines
    # A mean is neither rarer than elsewhere nor the answer of a minority.
    return sorted(
        lines, key=lambda one: (one["is_share"] and one["sign"] < 0, one["is_share"] and one["value"] < _MOSTLY)
    )


def _name(lines: Sequence[Mapping[str, Any]]) -> str:
    """The answers that a segment gives most distinctively, of different questions."""
    columns = [line["column"] for line in lines]
    first = [line for place, line in enumerate(lines) if line["column"] not in columns[:place]]
    has = [line for line in first if line["sign"] > 0 or not line["is_share"]] or first
    solid = [line for line in has if not line["is_share"] or line["value"] >= _MOSTLY] or has
    words = [phrase(line) for line in solid[:_TOLD]]
    return "; ".join(words if sum(map(len, words)) <= _NAME else words[:1]) or "No clear differences"


def phrase(line: Mapping[str, Any]) -> str:
    """An answer in a few words: "fan: Yes", "pies: more often Pecan", "higher age"."""
    question, answer = line["brief"], clipped(line["answer"], _ANSWER)
    if not line["is_share"]:
        return f"{'lower' if line['sign'] < 0 else 'higher'} {question}{f' ({answer})' if answer else ''}"
    often = "less often " if line["sign"] < 0 else "" if line["value"] >= _MOSTLY else "more often "
    return with_answer(question, f"{often}{answer}")


def sentence(profile: Mapping[str, Any], rows_are: str, columns_are: str, is_weighted: bool) -> str:
    """What sets a segment apart, with shares."""
    size = f"{percent(profile['share'])} ({'weighted; ' * is_weighted}{profile['n']:,} {rows_are})"
    parts = []
    for line in profile["lines"][: 1 if profile["not_asked"] else _TOLD]:
        answer = quoted(with_answer(line["brief"], clipped(line["answer"], _ANSWER)))
        ends = [percent(line[key]) if line["is_share"] else f"{line[key]:.4g}" for key in ("value", "overall")]
        parts.append(answer if profile["not_asked"] else f"{answer} {ends[0]} (all: {ends[1]})")
    told = "; ".join(parts) or "no clear differences from the others"
    if profile["not_asked"]:
        why = f"answered {told} and " if parts else ""
        return f"{size} {why}were not asked {percent(1 - profile['asked'])} of the {columns_are}."
    return f"{size} are segment {profile['segment']}: {told}."


_FEWEST = 5.0  # respondents in each group, by weight, for a difference to be reported
_SMALLEST_DIFFERENCE = 0.1  # that is reported, in standard deviations
_LEAST_CORRELATION = 0.2  # of an answer that describes a factor
_TOP = 4  # answers that describe a unit or one end of a factor
_ALIKE = 0.8  # correlation from which two units are said to be alike


def describe_units(
    answers: Sequence[Answers],
    on: FloatArray,
    weights: FloatArray,
    site_names: Sequence[str],
    rows: FloatArray | None = None,
    texts: Texts | None = None,
) -> list[dict[str, Any]]:
    """One record per hidden unit, largest share first: its share, the answers that differ most, its weights.

    `rows` are row weights with mean one: [row]; `texts` has the names of each line of answers.
    """
    rows = np.ones(len(on)) if rows is None else rows
    lines = [line for a in answers for line in a.lines]
    names = {line.site: line.name for line in lines if line.site}
    place = {str(site): row for row, site in enumerate(site_names)}
    weighted, effects = on * rows[:, None], defaultdict[int, list[dict[str, Any]]](list)
    with one_thread():  # many small products, whose threads would wait for each other
        for line in lines:
            site, about = place.get(line.site or line.name), {"column": line.name, "kind": line.kind}
            for k, effect in _effects(line, weighted, rows):
                effects[k].append({**about, **effect, "weight": 0.0 if site is None else float(weights[site, k])})
    units: list[dict[str, Any]] = []
    for k in range(on.shape[1]):
        own = sorted(effects[k], key=lambda each: -abs(each["standardised"]))
        up = [_in_words(each, texts or {}) for each in own if each["difference"] > 0][:_TOP]
        down = [_in_words(each, texts or {}) for each in own if each["difference"] < 0][:_TOP]
        sides = (("higher", up), ("lower", down))
        words = [f"{side} on {listing([_subject(each) for each in shown[:3]])}" for side, shown in sides if shown]
        units.append({
            "unit": k + 1,
            "share": float(np.average(on[:, k], weights=rows)) if len(on) else 0.0,
            "up": up,
            "down": down,
            "words": capital("; ".join(words) or "no clear differences"),
            "strength": abs(own[0]["standardised"]) if own else 0.0,
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
    covariance = np.cov(on.T, aweights=rows, ddof=0)
    spread = np.maximum(np.sqrt(np.diag(covariance)), 1e-9)
    correlation = np.abs(covariance / np.outer(spread, spread))
    kept: list[int] = []
    for k in np.argsort(-np.asarray(strength), kind="stable").tolist():
        found[k] = next((other + 1 for other in kept if correlation[k, other] >= _ALIKE), None)
        if found[k] is None:
            kept.append(k)
    return found


def _effects(line: Answers, weighted: FloatArray, rows: FloatArray) -> Iterator[tuple[int, dict[str, Any]]]:
    """The units between whose states a line of answers differs, with the statement whose shares differ most.

    `weighted` is how far each unit is on, times the weight of the row: [row, unit].
    """
    observed = line.observed & (rows > 0)
    values, own = line.values[observed], rows[observed]
    if len(values) < 2 or values.min() == values.max():
        return
    spread = float(np.sqrt(np.cov(values, aweights=own, ddof=0)))
    words, holds = _statements(line, values)
    # Rows without an answer are zeros: copying the others for each line would take longer than the sums.
    stacked = np.zeros((len(holds) + 2, len(observed)))
    stacked[:, observed] = np.vstack([np.ones(len(values)), values, holds])
    (n_on, *total_on), (n, *total) = stacked @ weighted, stacked @ rows
    n_off = n - n_on
    with np.errstate(divide="ignore", invalid="ignore"):  # the mean, then the share of each statement: [·, unit]
        on, off = np.asarray(total_on) / n_on, (np.asarray(total)[:, None] - total_on) / n_off
        standardised = (on[0] - off[0]) / spread
    best = 1 + np.abs(on[1:] - off[1:]).argmax(axis=0)
    enough = np.minimum(n_on, n_off) >= _FEWEST
    for k in np.flatnonzero(enough & (np.abs(standardised) >= _SMALLEST_DIFFERENCE)).tolist():
        figures = {"mean_on": on[0, k], "mean_off": off[0, k], "difference": on[0, k] - off[0, k]}
        figures |= {"standardised": standardised[k], "share_on": on[best[k], k], "share_off": off[best[k], k]}
        yield k, {"statement": words[best[k] - 1], **{name: float(value) for name, value in figures.items()}}


def _statements(line: Answers, values: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
    """Statements about an answer, and where they hold [statement, row]: above the median, or at least a level."""
    if not line.labels:
        middle = float(np.median(values))
        return (f"above {middle:.4g}",), (values > middle)[None].astype(float)
    words = (*(from_level(label, "at least") for label in line.labels[1:-1]), line.labels[-1])
    return words, np.stack([values >= cut for cut in range(1, len(line.labels))]).astype(float)


def _in_words(effect: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    text, shares = brief_of(texts, effect["column"]), [percent(effect[key]) for key in ("share_on", "share_off")]
    return {**effect, "text": text, "words": f"{text}: {shares[0]} {effect['statement']}, against {shares[1]}"}


def _subject(effect: Mapping[str, Any]) -> str:
    """The text of the question, with its upper value unless that is "yes"."""
    named = effect["kind"] == "binary" and effect["statement"].lower() not in {"yes", "true", "1"}
    text = quoted(effect["text"]) if effect["text"].endswith(("?", ".")) else str(effect["text"])
    return f"{text} ({effect['statement']})" if named else text


def describe_factors(
    answers: Sequence[Answers], factors: FloatArray, rows: FloatArray | None = None, texts: Texts | None = None
) -> list[dict[str, Any]]:
    """One record per factor, the best determined first: the answers that correlate most with it, at either end."""
    rows = np.ones(len(factors)) if rows is None else rows
    lines = [line for each in answers for line in each.lines if line.observed.sum() > 2]
    centred = factors - np.average(factors, axis=0, weights=rows) if len(factors) else factors
    squares = centred**2
    with one_thread():
        found = [_correlations(line, centred, squares, rows) for line in lines]
    correlation, records = np.reshape(found, (len(lines), factors.shape[1])), []
    for k, own in enumerate(correlation.T):
        order = [(lines[i].name, float(own[i])) for i in np.argsort(-np.abs(own), kind="stable")]
        said = [
            {"column": name, "text": brief_of(texts or {}, name), "correlation": value}
            for name, value in order
            if abs(value) >= _LEAST_CORRELATION
        ]
        high, low = ([each for each in said if sign * each["correlation"] > 0][:_TOP] for sign in (1, -1))
        variance = float(np.average(squares[:, k], weights=rows))
        records.append({"factor": k + 1, "variance": variance, "high": high, "low": low})
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


# ---- maps

_FEW_ROWS = 50  # with fewer, t-SNE has no advantage over principal components

Method = Literal["t-SNE", "principal components"]


def embed(points: FloatArray, seed: int = 0) -> tuple[FloatArray, Method]:
    """Centred coordinates [row, 2], scaled to a longer side of one, and the method."""
    n_rows, n_features = points.shape
    if not points.size:
        return np.zeros((n_rows, 2)), "principal components"
    method: Method = "principal components"
    if n_rows >= _FEW_ROWS and n_features > 2 and np.ptp(points) > 0 and find_spec("openTSNE") is not None:
        from openTSNE import TSNE

        method = "t-SNE"
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
        plane = np.asarray(layout.fit(points), float)
    else:
        left, singular, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
        plane = left[:, :2] * singular[:2]
        # The sign of a component is arbitrary: the largest coordinate is made positive, so that runs agree.
        plane *= np.where(plane[np.abs(plane).argmax(axis=0), range(plane.shape[1])] < 0, -1.0, 1.0)
        plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    low, high = plane.min(axis=0), plane.max(axis=0)
    return (plane - (low + high) / 2) / (float((high - low).max()) or 1.0), method


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
            remedy = f"{values.suggestion(name, known)}choose among {values.listing(column.name for column in answers)}"
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
    areas, which, size = np.unique(cell, axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()
    return {
        "method": method,
        "n_rows": n_rows,
        "n_points": len(rows),
        **_places(plane),
        "segment": np.asarray(segment)[rows].tolist(),
        "n_across": N_ACROSS,
        "areas": [[*place, int(n)] for place, n in zip(areas.tolist(), size.tolist(), strict=True)],
        "colourings": [_colouring(each, rows, which, len(areas), not_asked) for each in columns],
        "rows": rows.tolist(),
    }


def _places(plane: FloatArray) -> dict[str, list[float]]:
    return {axis: np.round(plane[:, k], 4).tolist() for k, axis in enumerate("xy")}


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
    about = {"column": column.name, "kind": column.kind, "labels": labels, "ordered": bool(column.has_order)}
    numbers = {"n_missing": int((~known).sum() - out.sum()), "n_not_asked": int(out.sum())}
    return {**about, **numbers, "counts": counts.sum(axis=0).tolist(), "shares": shares}


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

    def said(column: Answers, row: int) -> str:
        value = column.values[row]
        chosen = [part.name[len(column.name) + 2 :] for part in column.parts if part.values[row] == 1]
        return ", ".join(chosen) if chosen else column.labels[int(value)] if column.labels else f"{value:.4g}"

    return [
        {
            "name": str(names[row]),
            "answers": [
                [texts[each.name]["brief"], said(each, row)] for each in answers if not np.isnan(each.values[row])
            ],
        }
        for row in rows
    ]


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
            pairs = zip(*(np.asarray(alike[key]).tolist() for key in ("item", "similarity")), strict=True)
            near = [{"item": texts[item], "similarity": float(value)} for item, value in pairs if value > 0]
            together.append({"item": texts[column.labels[k]], "n": int(counts[k]), "near": near})
        shown = np.sort(order[counts[order] >= least][:MOST_POINTS])
        where = model.schema_.slices[name]
        weights = np.concatenate([np.asarray(each, float)[where] for each in (model.weights_, model.loadings_)], axis=1)
        weights = weights - weights.mean(axis=0)
        directions = weights / np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-9)  # of unit length
        plane, method = embed(directions[shown], seed)
        found.append({
            "column": name,
            "n_items": len(texts),
            "together": together,
            "method": method,
            "items": [texts[column.labels[k]] for k in shown],
            "n_ratings": counts[shown].tolist(),
            **_places(plane),
        })  # fmt: skip
    return found
