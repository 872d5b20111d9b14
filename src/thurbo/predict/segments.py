"""§4.3 Features of rows on one scale, for the distances of segments and maps.

Idea: log-odds of hidden units have a range of ±10, factor means of ±1, and neither range says how much a feature tells.
Here every feature is centred, and its variance is the share of the hidden variable that the answers determine: for a
unit Var(P(h = 1 | e)) / (p (1 − p)) with its mean probability p; for a factor with prior variance one, Var(E[z | e]).
A unit or factor that is known for every row has variance 1; one that the answers do not determine counts for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from thurbo._concurrency import one_thread
from thurbo.errors import ThurboError
from thurbo.table.columns import Block, Column
from thurbo.table.columns.forms.form import Profile
from thurbo.table.io import frames
from thurbo.table.schema.naming import from_level, without_stem
from thurbo.table.schema.schema import Schema

FloatArray = NDArray[np.float64]


def scaled(features: NDArray[Any], n_hidden: int, weight: FloatArray | None = None) -> FloatArray:
    """Log-odds of the first `n_hidden` features and factor means of the others, scaled; constant ones are removed."""
    weight = np.ones(len(features)) if weight is None else weight  # the same digits as with equal weights
    finite = np.nan_to_num(np.asarray(features, np.float64), posinf=50.0, neginf=-50.0)
    if not len(finite):
        return finite[:, :0]
    centred, spread = _moments(finite, weight)
    on = expit(finite[:, :n_hidden])
    rate = np.average(on, axis=0, weights=weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.nan_to_num(_moments(on, weight)[1] / np.sqrt(rate * (1 - rate)))
    # The variance of a posterior mean cannot exceed that of the prior; of a factor that was trained otherwise it can.
    share = np.minimum(np.concatenate([known, spread[n_hidden:]]), 1.0)
    varies = (spread > 1e-9 * np.maximum(1.0, np.abs(finite).max(axis=0))) & (share > 1e-6)
    return centred[:, varies] / spread[varies] * share[varies]


def _moments(values: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centred values, and the standard deviation of each column."""
    centred = values - np.average(values, axis=0, weights=weight)
    return centred, np.sqrt(np.average(centred**2, axis=0, weights=weight))


IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Profiler = Callable[[Column, Block], Profile]

MOST_SEGMENTS = 10  # largest number that "auto" tries
STABLE = 0.8  # adjusted Rand index with bootstrap samples
_REFERENCES = 5  # samples of a normal distribution, without clusters, for comparison
_SMALLEST = 0.02  # smallest share of the rows in a segment that "auto" accepts
_FEWEST_CUTS, _MOST_CUTS = 3, 6  # segments of rows without groups
_SMALLEST_CUT = 0.05  # smallest share of the rows in one of these
_SEED = 0  # of k-means and of the bootstrap: the verdict is about the rows, not about a seed
_ROUNDS = 12  # bootstrap samples
_STUDIED = 2000  # most rows for stability and silhouette
_MANY = 5000  # rows from which k-means needs few starts: it finds the same segments
_FEW = 20_000  # up to this many rows one thread is faster than several
_LEAST_Z = 2.0  # smallest z of an answer in a profile
_LINES = 5  # answers in a profile, over- and under-represented each
_OF_ONE_GRID = 2  # of these
_LEAST_ANSWERS = 30  # to a question in a segment, so that it is in the profile
_FEW_ANSWERS = 0.5  # of the median share of answers: rows with fewer are a segment of their own
_FEWEST_ROWS = 10  # of this segment
_GAP_Z = 2.0  # z of the difference in numbers of rows, above which there is a gap between two segments
_WINDOW = 0.1  # half of the width in which rows are counted, as a share of the distance between two centres


@dataclass(frozen=True)
class Segments:
    """Segments of the rows of a table; segment 1 is the largest.

    The z values of answers describe differences; they are not tests, because the segments were made from these answers.

    Attributes
    ----------
    labels : array of shape (n_rows,)
        Segment of each row, from 1.
    stability : array of shape (n_segments,)
        Mean Jaccard index of each segment with its match in bootstrap samples; below 0.6 a segment is not stable.
    agreement : float
        Mean adjusted Rand index of all segments with those of bootstrap samples.
    silhouette : float
        Separation of the segments, from −1 to 1.
    reference_silhouette : float
        Largest silhouette of as many clusters of normal samples with the same covariance, which have no clusters.
    gaps : array of bool of shape (n_segments,)
        Whether there is a gap between each segment and its nearest segment: on the line between the two centres, fewer
        rows in the middle than at either centre.
    profiles : list of dict
        For each segment: `n` rows, weighted `share`, `stability`, the mean shares of questions that were `asked` and,
        of these, `answered`, and statements that are `over`- and `under`-represented compared with all rows. Ordered
        answers are put together ("at least some"). Of columns that follow from one another, one is shown.
    answers : list of dict
        Every answer in every segment: `column`, `question` (its display name), `value` in the segment, `overall` value,
        `difference`, `lift`, `z`, and `n`, how many rows of the segment answered (by weight).
    tried : list of dict
        Results for the numbers of segments that "auto" tried.
    not_asked : int or None
        The segment of the rows that were asked less than half as many questions as the median row, if at least ten rows
        and 2 % of them are such. It is not a cluster.
    few_answers : int or None
        The segment of the rows that answered less than half of the median share of the questions that they were asked,
        likewise: little is known about these rows.
    """

    labels: IntArray
    stability: FloatArray
    agreement: float
    silhouette: float
    reference_silhouette: float
    gaps: BoolArray
    profiles: list[dict[str, Any]]
    answers: list[dict[str, Any]]
    tried: list[dict[str, Any]]
    not_asked: int | None = None
    few_answers: int | None = None

    @property
    def n(self) -> int:
        """Number of segments."""
        return len(self.profiles)

    @property
    def frame(self) -> Any:
        """`answers` as a table: pandas, else polars, else pyarrow, else a dict of columns."""
        types: dict[str, Any] = {"segment": np.int64, "column": object, "answer": object}
        types |= dict.fromkeys(("value", "overall", "difference", "lift", "z"), np.float64)
        held = {name: np.asarray([each[name] for each in self.answers], kind) for name, kind in types.items()}
        return frames.any_frame(held)

    @property
    def _by_rule(self) -> dict[int, str]:
        """Segments that are no clusters, and what they are."""
        kinds = {self.not_asked: "was not asked most questions", self.few_answers: "gave few answers"}
        return {number: what for number, what in kinds.items() if number is not None}

    @property
    def stand_apart(self) -> bool:
        """Whether the segments are groups of rows: stable, better separated than data without groups, with gaps."""
        is_separated = self.silhouette > self.reference_silhouette and bool(self.gaps.all())
        return self.n - len(self._by_rule) > 1 and self.agreement >= STABLE and is_separated

    @property
    def verdict(self) -> str:
        """Whether the segments stand apart, in plain words."""
        if self.n == 1:
            return "All rows are in one segment."
        own = [number for number in range(1, self.n + 1) if number not in self._by_rule]
        apart = "".join(f" Segment {number} {what}." for number, what in self._by_rule.items())
        if len(own) == 1:
            return f"All other rows are in one segment.{apart}"
        which = f"Segments {', '.join(map(str, own[:-1]))} and {own[-1]}" if apart else f"These {self.n} segments"
        if self.stand_apart:
            return f"{which} stand apart: few rows lie between them, and bootstrap samples give the same.{apart}"
        some = [number for number in own if self.gaps[number - 1]]
        is_stable, has_groups = self.agreement >= STABLE, some and self.silhouette > self.reference_silhouette
        if has_groups and is_stable:
            have = f"segments {', '.join(map(str, some))} have" if len(some) > 1 else f"segment {some[0]} has"
            why = f"do not all stand apart: only {have} a gap to the others; there is none between the rest."
        elif has_groups:
            why = "do not stand apart: bootstrap samples give other segments. There may be groups, but not these."
        else:
            places = "the same places" if is_stable else "other places, so other divisions are as good"
            why = f"do not stand apart: there is no gap between them. Bootstrap samples are cut at {places}."
        return f"{which} {why}{apart}"

    def _heading(self) -> str:
        if self.n == 1:
            return f"1 segment of {len(self.labels):,} rows"
        figures = f"agreement {self.agreement:.2f}, silhouette {self.silhouette:.2f}"
        reference = f"data without groups: {self.reference_silhouette:.2f}"
        return f"{self.n} segments of {len(self.labels):,} rows: {figures} ({reference})"

    def _sections(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Title and lines of text for each segment."""
        for record in self.profiles:
            title = f"Segment {record['segment']}: {record['share']:.1%}, {record['n']:,} rows"
            title += f", stability {record['stability']:.2f}"
            lines = [[sign, each["words"]] for sign, side in (("+", "over"), ("−", "under")) for each in record[side]]
            yield title, lines or [["", "no clear differences"]]

    def __str__(self) -> str:
        out = [self._heading(), self.verdict]
        for title, lines in self._sections():
            out += ["", title, *(f"  {sign} {words}".rstrip() for sign, words in lines)]
        return "\n".join(out)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(self._heading())}</p>", f"<p><b>{escape(self.verdict)}</b></p>"]
        for title, lines in self._sections():
            body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in lines)
            parts.append(f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>")
        return "".join(parts)


def segments(
    schema: Schema,
    blocks: Mapping[str, Block],
    points: FloatArray,
    weight: FloatArray | None,
    n: Any = "auto",
    not_asked: Mapping[str, BoolArray] | None = None,
) -> Segments:
    """Segments of rows with these `points` [row, feature], described by the answers in `blocks`.

    `n` is a number of segments, "auto", or a range of numbers to choose from. Rows that were asked few questions, or
    gave few answers, are two of them. `not_asked` are the rows that were not asked a question, [row], by question.
    """
    weight = np.ones(len(points)) if weight is None else np.asarray(weight, np.float64)
    answered = np.stack([blocks[name].answered for name in schema.modelled], axis=1).mean(axis=1)
    out = [own for name, own in (not_asked or {}).items() if name in schema.modelled]
    asked = 1 - np.sum([np.zeros(len(points)), *out], axis=0) / len(schema.modelled)
    answered = np.minimum(answered / np.maximum(asked, 1e-9), 1.0)
    past = _far_below(asked, weight > 0, weight)
    few = _far_below(answered, ~past & (weight > 0), weight) & ~past
    apart = {kind: rows for kind, rows in (("not_asked", past), ("few_answers", few)) if rows.any()}
    apart = dict(list(apart.items())[: max(n - 1, 0)]) if isinstance(n, int) else apart
    kept = np.flatnonzero(~np.any([np.zeros(len(points), bool), *apart.values()], axis=0))
    # With few rows, the synchronisation of threads takes a hundred times longer than the work.
    with one_thread() if len(kept) <= _FEW else nullcontext():
        found, figures, reference, gaps, tried = _clusters(points[kept], weight[kept], n, len(apart))
    n_clusters, labels = len(gaps), np.zeros(len(points), np.int64)
    labels[kept] = found
    for number, rows in enumerate(apart.values(), n_clusters):
        labels[rows] = number
    order = np.argsort(-np.bincount(labels, weight, minlength=n_clusters + len(apart)), kind="stable")  # largest first
    number_of = np.argsort(order)
    labels, ones = number_of[labels].astype(np.int64), np.ones(len(apart))
    each, gaps = np.append(figures.each, ones)[order], np.append(gaps, ones > 0)[order]
    answers = list(_answers(schema, blocks, labels, weight, lambda column, block: column.form.profile(block)))
    stated = list(_answers(schema, blocks, labels, weight, statements))
    profiles = []
    for k, stability in enumerate(each.tolist()):
        own = weight[labels == k]
        record = {"segment": k + 1, "n": len(own), "share": float(own.sum() / weight.sum()), "stability": stability}
        for name, share in (("asked", asked), ("answered", answered)):
            record[name] = float(np.average(share[labels == k], weights=own)) if own.any() else 0.0
        profiles.append({**record, **_sides(schema, stated, len(own), k)})
    numbers: dict[str, Any] = {kind: int(number_of[n_clusters + k]) + 1 for k, kind in enumerate(apart)}
    quality = (each, figures.agreement, figures.silhouette, reference, gaps)
    return Segments(labels + 1, *quality, profiles, answers, tried, **numbers)


def _far_below(share: FloatArray, counts: BoolArray, weight: FloatArray) -> BoolArray:
    """Rows with less than half of the median of those that count, [row]; none if less than 2 %, or under ten."""
    low = counts & (share < _FEW_ANSWERS * (np.median(share[counts]) if counts.any() else 0.0))
    return low & (weight[low].sum() >= max(_FEWEST_ROWS, _SMALLEST * weight.sum()))


def statements(column: Column, block: Block) -> Profile:
    """What can be said of the answers to a question: both of two, and the ends of ordered ones ("at least some")."""
    lines, texts = column.form.profile(block), column.answer_texts
    if lines.to_user is not None:
        return lines
    if lines.several or not column.is_one_label:
        return lines._replace(answers=without_stem(lines.answers))
    if len(lines.answers) == 1 and len(texts) == 2:
        return Profile(texts, np.concatenate([1 - lines.values, lines.values], axis=1))
    inner = range(1, len(texts) - 1) if column.has_order and lines.answers == texts else range(0)
    words, values = list(lines.answers), [lines.values]
    for word, parts in (("at least", [slice(k, None) for k in inner]), ("at most", [slice(k + 1) for k in inner])):
        words += [from_level(texts[k], word) for k in inner]
        values += [lines.values[:, part].sum(axis=1, keepdims=True) for part in parts]
    return Profile(tuple(words), np.concatenate(values, axis=1))


def _clusters(
    points: FloatArray, weight: FloatArray, n: Any, n_more: int
) -> tuple[IntArray, _Figures, float, BoolArray, list[dict[str, Any]]]:
    """Clusters of rows, their figures, those without groups, gaps, and what was tried; `n` counts `n_more` others."""
    counts, random = np.flatnonzero(weight > 0), np.random.RandomState(_SEED)
    study = counts if len(counts) <= _STUDIED else np.sort(random.choice(counts, _STUDIED, replace=False))
    seen, heavy = points[study], weight[study] / weight[study].mean() if len(study) else weight[study]
    tried: list[dict[str, Any]] = []
    numbers = range(2, MOST_SEGMENTS + 1) if isinstance(n, str) and n == "auto" else n
    if isinstance(numbers, range):
        able = [number for number in (each - n_more for each in numbers) if 2 <= number <= _different(seen)]
        tried = [{"n": number + n_more, **_tried(seen, heavy, number)} for number in able]
        n = _best(tried) if tried else min(max(numbers, default=1), _different(seen) + n_more)
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ThurboError(f'n={n!r} is not a number of segments; give a whole number of at least 1, or "auto"')
    if n > 1 and n > (different := _different(points[counts]) + n_more):
        problem = f"n={n} segments need at least {n} different rows, but there are {different}"
        raise ThurboError(f"{problem}; give a smaller n")
    n = int(n) - n_more
    if n == 1:
        alone = _Figures(1.0, 0.0, 1.0, np.ones(1))
        return np.zeros(len(points), np.int64), alone, 0.0, np.zeros(1, bool), tried
    random = np.random.RandomState(_SEED + n)
    # Rows of weight 0 belong to the nearest centre, and do not move it.
    own, centres = _cluster(points[counts], weight[counts], n, random, 10 if len(counts) < _MANY else 3)
    labels = _nearest(points, centres).astype(np.int64)
    labels[counts] = own
    labels = np.argsort(np.argsort(-np.bincount(labels, weight), kind="stable"))[labels].astype(np.int64)
    figures = _figures(seen, heavy, labels[study], n, random)
    return labels, figures, _reference(seen, heavy, n), _gaps(seen, heavy, labels[study], n), tried


def _tried(points: FloatArray, weight: FloatArray, n: int) -> dict[str, Any]:
    """Agreement, silhouette and smallest share of `n` clusters, and whether these stand apart."""
    random = np.random.RandomState(_SEED + n)
    labels, _ = _cluster(points, weight, n, random)
    figures = _figures(points, weight, labels, n, random)
    are_groups = figures.agreement >= STABLE and bool(_gaps(points, weight, labels, n).all())
    are_groups = are_groups and figures.silhouette > _reference(points, weight, n)
    return {**{name: getattr(figures, name) for name in _Figures._fields[:3]}, "stand_apart": are_groups}


class _Figures(NamedTuple):
    agreement: float
    silhouette: float
    smallest: float
    each: FloatArray  # [segment] stability


def _different(points: FloatArray) -> int:
    """Number of distinct rows; equal rows are in the same segment."""
    return len(np.unique(points, axis=0)) if points.shape[1] else 1


def _cluster(
    points: FloatArray, weight: FloatArray, n: int, random: Any, n_init: int = 10
) -> tuple[IntArray, FloatArray]:
    """The cluster of each row, and the centres, by k-means."""
    from sklearn.cluster import KMeans

    found = KMeans(n, n_init=n_init, random_state=int(random.randint(2**31 - 1))).fit(points, sample_weight=weight)
    return found.labels_.astype(np.int64), found.cluster_centers_  # scikit-learn gives int32


def _figures(points: FloatArray, weight: FloatArray, labels: IntArray, n: int, random: Any) -> _Figures:
    """Agreement with the clusters of bootstrap samples, silhouette, smallest share, and stability of each segment."""
    from sklearn.metrics import adjusted_rand_score

    agreement, jaccard = [], []
    for _ in range(_ROUNDS):
        again = weight * random.multinomial(len(points), np.full(len(points), 1 / len(points)))
        if _different(points[again > 0]) < n:
            continue  # a bootstrap sample of few rows can have fewer than n different ones
        found = _nearest(points, _cluster(points, again, n, random, n_init=3)[1])
        agreement.append(adjusted_rand_score(labels, found))
        both = np.bincount(labels * n + found, minlength=n * n).reshape(n, n)
        either = both.sum(axis=1)[:, None] + both.sum(axis=0) - both
        jaccard.append(np.divide(both, either, out=np.zeros(both.shape), where=either > 0).max(axis=1))
    size, same = np.bincount(labels, weight, minlength=n), float(np.mean(agreement)) if agreement else 0.0
    each = np.mean(jaccard, axis=0) if jaccard else np.zeros(n)
    return _Figures(same, _silhouette(points, labels, weight), float(size.min() / size.sum()), each)


def _silhouette(points: FloatArray, labels: IntArray, weight: FloatArray) -> float:
    """The weighted mean silhouette of the rows."""
    from sklearn.metrics import silhouette_samples

    if not 1 < len(np.unique(labels)) < len(points):
        return 0.0
    return float(np.average(silhouette_samples(points, labels), weights=weight))


def _reference(points: FloatArray, weight: FloatArray, n: int) -> float:
    """The largest silhouette of `n` clusters of normal samples with the covariance of the rows."""
    random = np.random.RandomState(_SEED + n)
    covariance, found = np.atleast_2d(np.cov(points.T, aweights=weight)), []
    for _ in range(_REFERENCES):
        drawn = random.multivariate_normal(np.zeros(points.shape[1]), covariance, len(points), check_valid="ignore")
        even = np.ones(len(drawn))
        found.append(_silhouette(drawn, _cluster(drawn, even, n, random, n_init=3)[0], even))
    return max(found)


def _gaps(points: FloatArray, weight: FloatArray, labels: IntArray, n: int) -> BoolArray:
    """Whether fewer rows lie halfway between a segment and its nearest segment than at either centre, [segment].

    Rows count by their weight, whose mean is one.
    """
    if not all(np.bincount(labels, minlength=n)):
        return np.zeros(n, bool)
    inside, found = (labels == np.arange(n)[:, None]) * weight, np.zeros(n, bool)
    centres = inside @ points / inside.sum(axis=1, keepdims=True)
    for one in range(n):
        distance = np.square(centres - centres[one]).sum(axis=1)
        other = int(np.where(np.arange(n) == one, np.inf, distance).argmin())
        line = (centres[other] - centres[one]) / max(distance[other], 1e-300)
        both = (labels == one) | (labels == other)
        place, own = (points[both] - centres[one]) @ line, weight[both]  # 0 and 1 are the two centres
        near = [np.abs(place - at) <= _WINDOW for at in (0.0, 0.5, 1.0)]
        at_one, halfway, at_other = ((own[each].sum(), np.square(own[each]).sum()) for each in near)
        least = min(at_one, at_other)  # the number of rows by weight, and its variance
        found[one] = least[0] - halfway[0] > _GAP_Z * np.sqrt(least[1] + halfway[1])
    return found


def _nearest(points: FloatArray, centres: FloatArray) -> IntArray:
    """The nearest centre of each row: [row]."""
    return (np.square(centres).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)


def _best(tried: Sequence[Mapping[str, Any]]) -> int:
    """The number of segments that stand apart; if none do, the largest number of cuts that are stable.

    Among several numbers of groups that of the largest silhouette. If no number of cuts is stable, the most stable one.
    """
    groups = [record for record in tried if record["stand_apart"] and record["smallest"] >= _SMALLEST]
    if groups:
        return int(max(groups, key=lambda record: record["silhouette"])["n"])
    cuts = [record for record in tried if _FEWEST_CUTS <= record["n"] <= _MOST_CUTS] or tried
    whole = [record for record in cuts if record["smallest"] >= _SMALLEST_CUT] or cuts
    stable = [record["n"] for record in whole if record["agreement"] >= STABLE]
    return int(max(stable) if stable else max(whole, key=lambda record: record["agreement"])["n"])


def _answers(
    schema: Schema, blocks: Mapping[str, Block], labels: IntArray, weight: FloatArray, profile: Profiler
) -> Iterator[dict[str, Any]]:
    """Every answer, as `profile` of its question says it, in every segment, compared with all rows."""
    member = (labels[:, None] == np.arange(labels.max() + 1)) * weight[:, None]
    for name in schema.modelled:
        lines = profile(schema[name], blocks[name])
        observed = ~np.isnan(lines.values)
        value = np.where(observed, lines.values, 0.0)
        total, total_here = weight @ observed, member.T @ observed  # [answer], [segment, answer]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, means = weight @ value / total, member.T @ value / total_here
            variance = weight @ (value - mean * observed) ** 2 / total
            # Effective sample sizes (Kish).
            n_all, n_here = total**2 / (weight**2 @ observed), total_here**2 / ((member**2).T @ observed)
            z = (means - mean) / np.sqrt(variance * np.maximum(1 / n_here - 1 / n_all, 0))
        about = {"column": name, "question": schema.display_names[name], "kind": schema[name].kind}
        for segment, place in np.ndindex(means.shape):
            if np.isfinite(means[segment, place]):
                given = float(means[segment, place]), float(mean[place]), float(z[segment, place])
                answer = _compared(lines.answers[place], *given, lines.to_user)
                many = {"several": lines.several, "n": float(n_here[segment, place])}
                yield {"segment": segment + 1, **about, **many, **answer}


def _compared(answer: str, value: float, overall: float, z: float, to_user: Any) -> dict[str, Any]:
    """An answer in a segment beside that of all rows: shares, or means in the user's units."""
    lift = value / overall if to_user is None and overall > 0 else None
    words = f"{answer} {value:.0%} (overall {overall:.0%})"
    if to_user is not None:
        value, overall = to_user(np.asarray([value, overall])).tolist()
        both = [f"{each:,.0f}" if abs(each) >= 10_000 else f"{each:.4g}" for each in (value, overall)]
        words = f"{answer}{': ' * bool(answer)}{both[0]} (overall {both[1]})"
    figures = {"value": value, "overall": overall, "difference": value - overall, "lift": lift}
    shown = {"answer": answer, "words": words, "is_share": to_user is None}
    return {**shown, **figures, "z": z if np.isfinite(z) else 0.0}


def _sides(
    schema: Schema, stated: Sequence[Mapping[str, Any]], n_rows: int, segment: int
) -> dict[str, list[dict[str, Any]]]:
    """The statements of a segment that differ most from those of all rows, "over"- and "under"-represented.

    Who gives one answer to a question less often gives another one more often: only options and numbers are "under".
    """
    least = min(_LEAST_ANSWERS, 0.5 * n_rows)  # a share of few answers says little about the segment
    own = [record for record in stated if record["segment"] == segment + 1 and record["n"] >= least]
    own = [record for record in own if schema.sources.get(record["column"], record["column"]) == record["column"]]
    sides = {}
    for side, sign in (("over", 1), ("under", -1)):
        kept: dict[tuple[str, str], dict[str, Any]] = {}
        of_grid = Counter[int]()
        for record in sorted(own, key=lambda each: -sign * each["z"]):
            # One answer per question, unless a respondent can give several answers.
            name, grid = record["column"], schema.grids.get(record["column"], -1)
            question = (name, record["answer"] if record["several"] else "")
            is_full = question in kept or len(kept) == _LINES or of_grid[grid] == _OF_ONE_GRID
            can_be = sign > 0 or record["several"] or not record["is_share"]
            if sign * record["z"] >= _LEAST_Z and can_be and not is_full:
                kept[question] = {**record, "words": f"{record['question']}: {record['words']}"}
                of_grid[grid] += grid >= 0
        sides[side] = list(kept.values())
    return sides
