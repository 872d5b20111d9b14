"""§6 Groups of rows that are alike: clusters of hidden features, how far to trust them, and what sets each apart.

Idea: k-means on the standardised log-odds of the hidden units (and factor means). A number of segments is good if
resampled rows, clustered from other seeds, find the same ones again, and if these stand apart.
Promises the same segments from the same seed, sizes and shares by weight, and profiles in the user's own labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.columns import Block, Column
from thurbo.errors import ThurboError
from thurbo.io import frames
from thurbo.schema import Schema

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_SEGMENTS = 10  # that "auto" tries
STABLE = 0.8  # adjusted Rand index with resampled rows
_CLOUDS = 5  # normal clouds without groups that segments are compared with
_SMALLEST = 0.02  # share of the rows that a segment has, where "auto" can choose
_ROUNDS = 12  # of resampling
_STUDIED = 2000  # rows at most that stability and silhouette look at
_FEW = 20_000  # rows that one thread clusters faster than several
_TELLING = 2.0  # z from which an answer is worth a line
_LINES = 5  # of a profile, each way


@dataclass(frozen=True)
class Segments:
    """Which segment each row is in, and what is known of the segments; segment 1 is the largest.

    `profiles` has a record for each segment: `n` rows, `share` by weight, `stability`, and the answers that are `over`-
    and `under`-represented beside everybody. `stability` of a segment is how much of it resampled rows find again
    (mean Jaccard index; below 0.6 it is a pattern at best), `agreement` the same for all (adjusted Rand index) and
    `silhouette` how far they stand apart; `cloud` is the most that as many clusters of normal clouds with the same
    covariance, which hold no groups, came to. `tried` says what other numbers of segments gave, and `answers` compares
    every answer. z describes and does not test: segments were made from these very answers.
    """

    labels: IntArray  # [row], from 1
    stability: FloatArray  # [segment]
    agreement: float
    silhouette: float
    cloud: float
    profiles: list[dict[str, Any]]
    answers: list[dict[str, Any]]
    tried: list[dict[str, Any]]

    @property
    def n(self) -> int:
        """Number of segments."""
        return len(self.profiles)

    @property
    def frame(self) -> Any:
        """Every answer in every segment as a table: of pandas, or else polars or arrow, or a dict of columns."""
        names = ("segment", "column", "answer", "here", "everybody", "difference", "lift", "z")
        held = {name: [record[name] for record in self.answers] for name in names}
        text = ("column", "answer")
        whole = {"segment": np.int64}
        types = {name: object if name in text else whole.get(name, np.float64) for name in names}
        return frames.assemble_any({name: np.asarray(values, types[name]) for name, values in held.items()})

    @property
    def verdict(self) -> str:
        """One sentence: whether the segments would be found again, and whether they stand apart."""
        if self.n == 1:
            return "One segment holds all rows."
        if self.agreement < STABLE:
            return "They are not stable: resampled rows give other segments, so take them as one view of many."
        if self.silhouette <= self.cloud:
            return "Resampled rows give the same segments, but these shade into one another as parts of a cloud would."
        return "Resampled rows give the same segments, and these stand apart more than parts of a cloud."

    def _heading(self) -> str:
        many = "1 segment" if self.n == 1 else f"{self.n} segments"
        figures = f"agreement {self.agreement:.2f}, silhouette {self.silhouette:.2f} (of a cloud {self.cloud:.2f})"
        return f"{many} of {len(self.labels):,} rows" + ("" if self.n == 1 else f": {figures}")

    def _sections(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Title and lines of text for each segment."""
        for record in self.profiles:
            title = f"Segment {record['segment']}: {record['share']:.1%}, {record['n']:,} rows"
            title += f", stability {record['stability']:.2f}"
            lines = [[sign, each["words"]] for sign, side in (("+", "over"), ("−", "under")) for each in record[side]]
            yield title, lines or [["", "no answer differs enough to tell"]]

    def __str__(self) -> str:
        out = [self._heading()]
        for title, lines in self._sections():
            out += ["", title, *(f"  {sign} {words}".rstrip() for sign, words in lines)]
        return "\n".join([*out, "", self.verdict])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(self._heading())}</p>"]
        for title, lines in self._sections():
            body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in lines)
            parts.append(f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>")
        return "".join([*parts, f"<p>{escape(self.verdict)}</p>"])


def segments(
    schema: Schema, blocks: Mapping[str, Block], features: Any, weight: FloatArray | None, n: Any, random: Any
) -> Segments:
    """Segments of rows with these `features` [row, feature], told by what their `blocks` say.

    `random` is a NumPy RandomState; `n` a number of segments or "auto".
    """
    weight = np.ones(len(features)) if weight is None else np.asarray(weight, np.float64)
    points = _standardised(np.asarray(features, np.float64), weight)
    counts = np.flatnonzero(weight > 0)
    study = counts if len(counts) <= _STUDIED else np.sort(random.choice(counts, _STUDIED, replace=False))
    seen, heavy = points[study], weight[study]
    tried: list[dict[str, Any]] = []
    if isinstance(n, str) and n == "auto":
        for number in range(2, min(MOST_SEGMENTS, _different(seen)) + 1):
            found = _figures(seen, heavy, _cluster(seen, heavy, number, random).labels_, number, random)
            tried.append({"n": number, **{name: getattr(found, name) for name in _Figures._fields[:3]}})
        n = _best(tried)
    n = _checked(n, points[counts])
    labels, figures, cloud = np.zeros(len(points), np.int64), _Figures(1.0, 0.0, 1.0, np.ones(1)), 0.0
    if n > 1:
        labels = _largest_first(_cluster(points, weight, n, random).labels_, weight)
        figures, cloud = _figures(seen, heavy, labels[study], n, random), _cloud(seen, n, random)
    answers = list(_answers(schema, blocks, labels, weight, n))
    profiles = [_profile(answers, labels, weight, segment, figures.each) for segment in range(n)]
    told = (figures.each, figures.agreement, figures.silhouette, cloud)
    return Segments(labels + 1, *told, profiles, answers, tried)


class _Figures(NamedTuple):
    agreement: float
    silhouette: float
    smallest: float
    each: FloatArray  # [segment] stability


def _standardised(features: FloatArray, weight: FloatArray) -> FloatArray:
    """Features with mean 0 and variance 1 over the weighted rows; those that do not vary are left out."""
    mean = np.average(features, axis=0, weights=weight)
    spread = np.sqrt(np.average((features - mean) ** 2, axis=0, weights=weight))
    varies = spread > 1e-9 * np.maximum(1.0, np.abs(mean))
    return (features[:, varies] - mean[varies]) / spread[varies]


def _different(points: FloatArray) -> int:
    """How many rows differ: those that are the same are in one segment."""
    return len(np.unique(points, axis=0)) if points.shape[1] else 1


def _checked(n: Any, points: FloatArray) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ThurboError(f'n={n!r} is not a number of segments; give a whole number of at least 1, or "auto"')
    if n > 1 and n > (different := _different(points)):
        raise ThurboError(f"n={n} segments cannot be made of {different} rows that differ; ask for fewer")
    return int(n)


def _cluster(points: FloatArray, weight: FloatArray, n: int, random: Any, n_init: int = 10) -> Any:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

    # Threads that wait for one another cost a hundred times the work where rows are few.
    with threadpool_limits(1 if len(points) <= _FEW else None):
        seed = int(random.randint(2**31 - 1))
        return KMeans(n, n_init=n_init, random_state=seed).fit(points, sample_weight=weight)


def _figures(points: FloatArray, weight: FloatArray, labels: IntArray, n: int, random: Any) -> _Figures:
    """How well resampled rows, clustered from other seeds, find these labels again, and how far they stand apart."""
    from sklearn.metrics import adjusted_rand_score

    agreement, jaccard = [], []
    for _ in range(_ROUNDS):
        again = weight * random.multinomial(len(points), np.full(len(points), 1 / len(points)))
        if _different(points[again > 0]) < n:
            continue  # of a few rows, so few may be drawn that there is nothing to cluster
        found = _nearest(points, _cluster(points, again, n, random, n_init=3).cluster_centers_)
        agreement.append(adjusted_rand_score(labels, found))
        both = np.bincount(labels * n + found, minlength=n * n).reshape(n, n)
        either = both.sum(axis=1)[:, None] + both.sum(axis=0) - both
        jaccard.append(np.divide(both, either, out=np.zeros(both.shape), where=either > 0).max(axis=1))
    size = np.bincount(labels, weight, minlength=n)
    each = np.mean(jaccard, axis=0) if jaccard else np.zeros(n)
    same = float(np.mean(agreement)) if agreement else 0.0
    return _Figures(same, _silhouette(points, labels), float(size.min() / size.sum()), each)


def _silhouette(points: FloatArray, labels: IntArray) -> float:
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(points, labels)) if 1 < len(np.unique(labels)) < len(points) else 0.0


def _cloud(points: FloatArray, n: int, random: Any) -> float:
    """The largest silhouette of `n` clusters of normal clouds with the covariance of the rows."""
    covariance, found = np.atleast_2d(np.cov(points.T)), []
    for _ in range(_CLOUDS):
        drawn = random.multivariate_normal(np.zeros(points.shape[1]), covariance, len(points), check_valid="ignore")
        found.append(_silhouette(drawn, _cluster(drawn, np.ones(len(drawn)), n, random, n_init=3).labels_))
    return max(found)


def _nearest(points: FloatArray, centres: FloatArray) -> IntArray:
    """The centre nearest to each row, [row]."""
    return (np.square(centres).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)


def _best(tried: Sequence[Mapping[str, Any]]) -> int:
    """The number of segments that stand apart most among those that are stable, or else the most stable one."""
    if not tried:
        return 1
    whole = [record for record in tried if record["smallest"] >= _SMALLEST] or tried
    stable = [record for record in whole if record["agreement"] >= STABLE]
    if stable:
        return int(max(stable, key=lambda record: record["silhouette"])["n"])
    return int(max(whole, key=lambda record: record["agreement"])["n"])


def _largest_first(labels: IntArray, weight: FloatArray) -> IntArray:
    place = np.argsort(np.argsort(-np.bincount(labels, weight), kind="stable"))
    return place[labels].astype(np.int64)


class _Lines(NamedTuple):
    """What one question says, as numbers that can be averaged: one line for each answer."""

    answers: tuple[str, ...]
    values: FloatArray  # [row, answer]; 1 or 0, or a number in standard units; NaN where not said
    to_user: Callable[[FloatArray], FloatArray] | None = None  # where they are numbers


def _lines(column: Column, block: Block) -> _Lines:
    if column.kind == "multiselect":
        return _Lines(column.texts, np.where(block.code >= 0, block.code, np.nan))
    if column.family == "utility":
        # 1 for the label above all others that the row compares, 0 for one below another.
        top = block.tier.max(axis=1, keepdims=True)
        at_top = (block.tier == top) & (top > 0)
        alone = (at_top.sum(axis=1) == 1) & ~block.one_of
        values = np.select([(block.tier >= 0) & (block.tier < top), at_top & alone[:, None]], [0.0, 1.0], np.nan)
        first = " first" if column.kind == "ranking" else ""
        return _Lines(tuple(f"{text}{first}" for text in column.texts), values)
    if column.family == "levels" or column.labels:
        if column.family == "levels":
            code = np.where(block.code_high == block.code, block.code, -1)[:, 0]
        else:
            code = column.codes(block)  # type: ignore[attr-defined]  # bands of a number
        values = np.where(code[:, None] >= 0, code[:, None] == np.arange(len(column.labels)), np.nan)
        # Of two answers one tells the other.
        return _Lines(column.texts[1:], values[:, 1:]) if len(column.labels) == 2 else _Lines(column.texts, values)
    lower, upper = block.lower, block.upper
    lower, upper = np.where(np.isinf(lower), upper, lower), np.where(np.isinf(upper), lower, upper)
    with np.errstate(invalid="ignore"):  # a cell that says nothing has neither end
        middle = lower / 2 + upper / 2
    return _Lines(("",), middle, column.to_user)  # type: ignore[attr-defined]


def _answers(
    schema: Schema, blocks: Mapping[str, Block], labels: IntArray, weight: FloatArray, n: int
) -> Iterator[dict[str, Any]]:
    """Every answer in every segment, beside everybody."""
    member = (labels[:, None] == np.arange(n)) * weight[:, None]
    for name in schema.modelled:
        lines = _lines(schema[name], blocks[name])
        said = ~np.isnan(lines.values)
        value = np.where(said, lines.values, 0.0)
        total, here = weight @ said, member.T @ said  # [answer], [segment, answer]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, means = weight @ value / total, member.T @ value / here
            variance = weight @ (value - mean * said) ** 2 / total
            # Numbers of rows that would say as much if all weighed the same (Kish).
            n_all, n_here = total**2 / (weight**2 @ said), here**2 / ((member**2).T @ said)
            z = (means - mean) / np.sqrt(variance * np.maximum(1 / n_here - 1 / n_all, 0))
        for segment in range(n):
            for place, answer in enumerate(lines.answers):
                if np.isfinite(means[segment, place]):
                    found = (float(means[segment, place]), float(mean[place]), float(z[segment, place]))
                    about = {"segment": segment + 1, "column": name, "kind": schema[name].kind}
                    yield about | _record(answer, *found, lines)


def _record(answer: str, here: float, everybody: float, z: float, lines: _Lines) -> dict[str, Any]:
    lift = None
    if lines.to_user is not None:
        here, everybody = lines.to_user(np.asarray([here, everybody])).tolist()
        words = f"{_number(here)}, against {_number(everybody)}"
    else:
        lift = here / everybody if everybody > 0 else None
        words = f"{answer} {here:.0%}, against {everybody:.0%}"
    return {
        "answer": answer,
        "here": here,
        "everybody": everybody,
        "difference": here - everybody,
        "lift": lift,
        "z": z if np.isfinite(z) else 0.0,
        "words": words,
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _profile(
    answers: Sequence[Mapping[str, Any]], labels: IntArray, weight: FloatArray, segment: int, stability: FloatArray
) -> dict[str, Any]:
    """What is told of one segment: the answers that differ most from everybody's, few of each question."""
    own = [record for record in answers if record["segment"] == segment + 1]
    inside = labels == segment
    sides = {}
    for side, sign in (("over", 1), ("under", -1)):
        kept: dict[tuple[str, str], dict[str, Any]] = {}
        for record in sorted(own, key=lambda each: -sign * each["z"]):
            # One line each way tells a question, unless several of its answers may hold.
            question = (record["column"], record["answer"] if record["kind"] == "multiselect" else "")
            if sign * record["z"] >= _TELLING and question not in kept and len(kept) < _LINES:
                words = f"{record['column']}: {record['words']}"
                kept[question] = {**record, "words": words}
        sides[side] = list(kept.values())
    return {
        "segment": segment + 1,
        "n": int(inside.sum()),
        "share": float(weight[inside].sum() / weight.sum()),
        "stability": float(stability[segment]),
        **sides,
    }
