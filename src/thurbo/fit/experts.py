"""§5 Experts: boosted trees that predict one answer from the others, weighed against the members by held-out answers.

Idea: trees see thresholds, interactions and questions that nearly follow from another one, which hidden units do not.
A tree has a value for every label of its question, so that many labels need no more trees. Trees begin with the shares
of labels among rows with the same answer to one other question, where that explains much. What is not known about a row
holds to the part that is its share: missing answers say nothing, unless whether a question was answered does. There are
three sets of trees, each of which stops by the third of the answers that it was not fitted to.
Guarantees weights from answers that neither members nor trees were fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

from thurbo.fit import members
from thurbo.predict.correction import (
    ANSWERED,
    Conditional,
    Expert,
    Source,
    Trees,
    answer_values,
    bands_of,
    calibration_family,
    in_leaves,
)
from thurbo.predict.member import MemberQuery
from thurbo.predict.model import Query
from thurbo.table.columns.forms import Lines

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.int64]


class Growth(NamedTuple):
    """How trees are grown: splits in a row, other questions (those that explain most alone), the share of their sources
    that each tree may use, rounds at most, and rounds without a better score after which they end."""

    depth: int
    most_parts: int
    share: float
    most_rounds: int
    patience: int


# By the least number of answers to a question, as sum of weights; the first that fits counts. Chosen on other answers
# of twelve surveys than those of benchmarks. With 20,000 rows, the first was better than the second by
# .016 nats per answer (trees alone); with 6,000 rows they were equal. The second was better than the third by .008 and
# .001 with 6,000 and 4,000 rows, and between .004 worse and .001 better in ten surveys of 550 to 2,800 rows. Five sets
# of trees took twice as long and changed this by .003 or less; a lower rate, more cuts and stronger priors by less.
GROWTH = {
    10_000: Growth(4, 120, 0.25, 400, 20),
    2500: Growth(3, 80, 0.5, 250, 20),
    0: Growth(2, 40, 0.5, 100, 10),
}
RATE, N_SETS = 0.1, 3
RIDGE, LEAST_INSIDE = 10.0, 10.0  # answers by which gains are pulled to zero, and fewest on each side of a split
LEAF_RIDGE, MOST_VALUE = 5.0, 4.0  # answers by which the value of a leaf is pulled to zero; the largest one
MOST_CUTS = 16  # of a number or a scale
LEAST_ROWS, LEAST_ANSWERS = 5, 60  # with and without a source; to a question that has trees
MOST_ROWS = 20_000  # that trees are fitted to
LABELS_AT_ONCE = 2000  # of questions whose sources are compared together
MOST_TABLES, MOST_VALUES = 2, 256  # tables of a question, and different answers of one
LEAST_GAIN = 0.15  # of a table (nats per answer)
UNSEEN = 1.0  # answers by which the shares in a table are pulled to those of all answers
GAIN_OF_TABLE = 10.0  # what a nat counts beside the gains of trees, which learn a part of them in every round
PRIOR_OF_WEIGHT = 20.0  # answers by which the weight for a question is pulled to that for all questions
LEAST_IN_BANDS = 0.98  # of the answers about a number, inside one band each


def learn(
    query: Query,
    held_out: Mapping[str, np.ndarray],
    weight: np.ndarray,
    seed: int,
    on_part: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, dict[int, Expert]]:
    """Experts on all questions with labels, and on numbers: by question and site.

    `query` is the training table without the answers `held_out`, put to the members and what is learned about them, but
    for routing. `on_part` is told how many of the questions are done.
    """
    question, rng = query.lead, np.random.default_rng(seed)
    n_rows, names = question.evidence.n_rows, list(question.schema.modelled)
    rows = np.sort(rng.permutation(n_rows)[:MOST_ROWS])
    held = {name: np.asarray(held_out.get(name, np.zeros(n_rows, bool))) for name in names}
    codes = {name: found for name in names if (found := answers_of(question, name)) is not None}
    sources = _sources(question, rows, names, held, query.informative)
    targets = _targets(question, rows, codes, held, weight)
    tables = _best_tables(targets, _coded(question, names, held), rows)
    chosen = _screened(targets, sources, names, question)
    part, seeds, done = rng.integers(N_SETS, size=len(rows)), rng.integers(2**31, size=len(targets)), 0

    def one(place: int) -> Trees | None:
        nonlocal done
        own = np.random.default_rng(seeds[place])
        found = _trees(targets[place], sources, chosen[place], tables[place], part, own)
        on_part(done := done + 1, len(targets))
        return found

    # Each question in one thread: products of such small matrices are slower with many.
    with threadpool_limits(1, user_api="blas"):
        trees = members.in_threads(one, range(len(targets)))
    return _weighed(query, targets, trees, codes, held, weight)


def answers_of(question: MemberQuery, name: str) -> np.ndarray | None:
    """Labels of a question, or bands of a number, [row, site], NaN where not known; None if its answers are neither.

    Intervals over several bands are no answers, and those that are left say less about some bands than about others.
    """
    block = question.blocks[name]
    column: Any = question.schema[name]
    if block.family == "levels" or (block.family == "utility" and column.is_one_label):
        return answer_values(block)
    if not column.is_one_label and block.family != "measured":
        return None
    found = column.codes(block) if column.is_one_label else bands_of(block, column.effect_edges)
    if not column.is_one_label and (found >= 0).sum() < LEAST_IN_BANDS * block.observed[:, 0].sum():
        return None
    return np.where(found[:, None] >= 0, found[:, None], np.nan)


def n_labels_of(question: MemberQuery, name: str) -> int:
    """Labels of each site of a question, or bands of its numbers."""
    column: Any = question.schema[name]
    if column.is_one_label:
        return len(column.labels)
    return 2 if question.blocks[name].family == "levels" else len(column.effect_edges) + 1


class Sources(NamedTuple):
    """What may be asked about other answers, and the part of each row for which it holds, [source, row].

    part    number of the part of a question that a source is about, [source]
    column  number of the question, [source]
    """

    sources: list[Source]
    holds: np.ndarray
    part: IntArray
    column: IntArray


class Target(NamedTuple):
    """Known answers to one question at one site: their rows, labels and weights."""

    name: str
    site: int
    row: IntArray
    code: IntArray
    weight: np.ndarray
    n_labels: int

    @property
    def shares(self) -> np.ndarray:
        """Of the labels, as if each had half an answer more."""
        found = np.bincount(self.code, self.weight, self.n_labels) + 0.5
        return np.asarray(found / found.sum())

    @property
    def growth(self) -> Growth:
        """Of its trees."""
        n_answers = self.weight.sum()
        return next(growth for least, growth in GROWTH.items() if n_answers >= least)

    def some(self, index: IntArray) -> Target:
        return self._replace(row=self.row[index], code=self.code[index], weight=self.weight[index])


def _sources(
    question: MemberQuery, rows: np.ndarray, names: Sequence[str], held: Mapping[str, np.ndarray], gaps: np.ndarray
) -> Sources:
    """All sources; in the rows `gaps`, also whether questions were answered."""
    sources, holds, part, column = list[Source](), list[np.ndarray](), list[int](), list[int]()

    def add(number: int, found: Sequence[Source], known: np.ndarray) -> None:
        sources.extend(found)
        holds.extend((source.strength(known) + source.centre).astype(np.float32) for source in found)
        part.extend([part[-1] + 1 if part else 0] * len(found))
        column.extend([number] * len(found))

    for number, name in enumerate(names):
        block = question.blocks[name]
        known = np.where(held[name][:, None], np.nan, answer_values(block))[rows]
        for place, own in enumerate(known.T):
            add(number, _asked(name, place, own, block.family == "utility"), own)
        answered = np.where(held[name] | ~gaps, np.nan, block.answered)[rows]
        add(number, _asked(name, ANSWERED, answered, False), answered)
    every = np.stack(holds) if holds else np.zeros((0, len(rows)), np.float32)
    return Sources(sources, every, np.asarray(part, np.int64), np.asarray(column, np.int64))


def _asked(name: str, part: int, known: np.ndarray, has_categories: bool) -> list[Source]:
    """Whether an answer is this category, or at most this level or number; only what enough rows answer."""
    there = known[~np.isnan(known)]
    values = np.unique(there)
    if has_categories:
        ends = [(value - 0.5, value + 0.5) for value in values]
    else:
        cuts = 0.5 * (values[1:] + values[:-1])
        if len(values) > MOST_CUTS:
            cuts = np.unique(np.quantile(there, np.linspace(0, 1, MOST_CUTS + 1)[1:-1]))
        ends = [(-_FAR, cut) for cut in cuts]
    found = []
    for low, high in ends:
        n = int(((there > low) & (there <= high)).sum())
        if LEAST_ROWS <= n <= len(there) - LEAST_ROWS:
            found.append(Source(name, part, float(low), float(high), n / len(there)))
    return found


_FAR = 1e9


def _targets(
    question: MemberQuery,
    rows: np.ndarray,
    codes: Mapping[str, np.ndarray],
    held: Mapping[str, np.ndarray],
    weight: np.ndarray,
) -> list[Target]:
    """The known answers to every question that trees can predict."""
    found = []
    for name, every in codes.items():
        for site, own in enumerate(every[rows].T):
            kept = np.flatnonzero(~np.isnan(own) & ~held[name][rows] & (weight[rows] > 0))
            code, counts = own[kept].astype(np.int64), weight[rows[kept]].astype(np.float32)
            if len(kept) >= LEAST_ANSWERS and len(np.unique(code)) > 1:
                found.append(Target(name, site, kept, code, counts, n_labels_of(question, name)))
    return found


def _screened(targets: Sequence[Target], found: Sources, names: Sequence[str], question: MemberQuery) -> list[IntArray]:
    """The sources in the parts that explain each question most, taken one by one; none of the question itself.

    A few products of large matrices compare all sources for many questions.
    """
    place, is_answered = {name: k for k, name in enumerate(names)}, [each.part == ANSWERED for each in found.sources]
    chosen, begin = list[IntArray](), 0
    ends = np.cumsum([own.n_labels + 1 for own in targets])
    while begin < len(targets):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + LABELS_AT_ONCE, side="right")))
        slopes = np.zeros((found.holds.shape[1], ends[end - 1] - before), np.float32)
        parts = [slice(last - own.n_labels - 1, last) for own, last in zip(targets, ends - before, strict=True)]
        for own, part in zip(targets[begin:end], parts[begin:end], strict=True):
            slopes[own.row, part] = _slopes(own)
        sums, total = found.holds @ slopes, slopes.sum(axis=0)
        for own, part in zip(targets[begin:end], parts[begin:end], strict=True):
            gain = _gain(sums[:, part], total[part])
            gain[found.column == place[own.name]] = -np.inf
            for route in question.routes.get(own.name, ()):  # routing has this evidence
                follow = np.isin(found.column, [place[each] for each in route.columns])
                gain[follow & np.asarray(is_answered)] = -np.inf
            best = np.full(found.part.max(initial=0) + 1, -np.inf)
            np.maximum.at(best, found.part, gain)
            top = np.argsort(-best, kind="stable")[: own.growth.most_parts]
            chosen.append(np.flatnonzero(np.isin(found.part, top) & (gain > -np.inf)))
        begin = end
    return chosen


def _slopes(own: Target) -> np.ndarray:
    """First derivatives of the log score by labels at their shares, in units of equal variance, and weights."""
    slope = np.eye(own.n_labels)[own.code] - own.shares
    return np.concatenate([slope * _unit(own.shares), np.ones((len(slope), 1))], axis=1) * own.weight[:, None]


def _unit(share: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / np.sqrt(share * (1.0 - share) + 1e-3))


def _gain(inside: np.ndarray, total: np.ndarray) -> np.ndarray:
    """What a split improves, from sums of slopes and of weights where it holds, [..., label + 1], and of all rows."""
    outside = total - inside
    first, second, whole = (
        (sums[..., :-1] ** 2).sum(axis=-1) / (sums[..., -1] + RIDGE) for sums in (inside, outside, total)
    )
    is_small = np.minimum(inside[..., -1], outside[..., -1]) < LEAST_INSIDE
    return np.where(is_small, -1.0, first + second - whole)


class _Coded(NamedTuple):
    """Answers to a question that has few different ones: their codes [row], −1 if not known, the edges between them in
    standard units, and what they explain about another question (nats)."""

    name: str
    edges: FloatArray
    code: IntArray
    gain: float = 0.0


def _coded(question: MemberQuery, names: Sequence[str], held: Mapping[str, np.ndarray]) -> list[_Coded]:
    """The questions from which tables are made."""
    found = []
    for name in names:
        values = answer_values(question.blocks[name])
        if values.shape[1] != 1:
            continue
        value = np.where(held[name], np.nan, values[:, 0])
        known, there = ~np.isnan(value), np.unique(value[~np.isnan(value)])
        if 2 < len(there) <= MOST_VALUES:
            is_number = question.blocks[name].family == "measured"
            edges = 0.5 * (there[1:] + there[:-1]) if is_number else np.arange(there.max()) + 0.5
            found.append(_Coded(name, edges, np.where(known, np.searchsorted(edges, np.nan_to_num(value)), -1)))
    return found


def _best_tables(targets: Sequence[Target], coded: Sequence[_Coded], rows: np.ndarray) -> list[list[_Coded]]:
    """The tables that explain most of each question, where each answer is predicted by the other ones."""
    if not coded:
        return [[] for _ in targets]
    coded = [each._replace(code=each.code[rows]) for each in coded]
    start = np.cumsum([0, *(len(each.edges) + 1 for each in coded)])
    holds = np.zeros((len(rows), start[-1]), np.float32)
    for each, first in zip(coded, start, strict=False):
        known = np.flatnonzero(each.code >= 0)
        holds[known, first + each.code[known]] = 1.0
    found = []
    for own in targets:
        counts = (holds[own.row].T @ np.eye(own.n_labels, dtype=np.float32)[own.code]).astype(np.float64)
        of_part = counts.sum(axis=1)
        others = np.maximum(counts - 1.0 + UNSEEN * own.shares, 1e-12)  # without the answer itself
        logs = np.log(others / np.maximum(of_part - 1.0 + UNSEEN, 1e-12)[:, None]) - np.log(own.shares)
        gain = np.add.reduceat((counts * logs).sum(axis=1), start[:-1])
        least = LEAST_GAIN * np.maximum(np.add.reduceat(of_part, start[:-1]), 1.0)
        gain[[each.name == own.name for each in coded]] = 0.0
        order = np.argsort(-gain, kind="stable")[:MOST_TABLES]
        found.append([coded[k]._replace(gain=float(gain[k])) for k in order if gain[k] > least[k]])
    return found


def _shares_by(code: IntArray, own: Target, share: np.ndarray, n_parts: int) -> tuple[np.ndarray, np.ndarray]:
    """P(label | part), [part, label], and the same for each answer from the other ones, [answer, label]."""
    counts, known = np.zeros((n_parts, own.n_labels)), code >= 0
    np.add.at(counts, (code[known], own.code[known]), own.weight[known])
    total = counts.sum(axis=1)
    others = counts[code]
    others[np.arange(len(code)), own.code] -= own.weight
    rest = np.maximum(total[code] - own.weight, 0.0) + UNSEEN
    each = (np.maximum(others, 0.0) + UNSEEN * share) / rest[:, None]
    return (counts + UNSEEN * share) / (total[:, None] + UNSEEN), np.where(known[:, None], each, share)


def _trees(
    own: Target,
    found: Sources,
    chosen: IntArray,
    tables: Sequence[_Coded],
    part: IntArray,
    rng: np.random.Generator,
) -> Trees | None:
    """All sets of trees, whose mean log-probabilities count; None if they explain nothing."""
    order, share = rng.permutation(chosen), own.shares
    holds, codes = found.holds[np.ix_(order, own.row)], [each.code[own.row] for each in tables]
    splits, values, gain = list[np.ndarray](), list[np.ndarray](), np.zeros(len(order))
    for number in range(N_SETS if len(order) else 0):
        found_splits, found_values, gains = _boosted(holds, own, share, codes, part[own.row] == number, own.growth, rng)
        splits, values, gain = splits + found_splits, values + found_values, gain + gains
    if not splits and not tables:
        return None
    n_leaves = 2**own.growth.depth
    split = np.asarray(splits, np.int64).reshape(-1, n_leaves - 1)
    used = np.unique(split)
    of_tables = [GAIN_OF_TABLE * N_SETS * each.gain for each in tables]
    return Trees(
        tuple(found.sources[order[place]] for place in used),
        np.searchsorted(used, split),
        np.asarray(values, np.float32).reshape(-1, n_leaves, own.n_labels) / np.float32(N_SETS),
        np.log(share),
        tuple(
            Conditional(each.name, each.edges, _shares_by(code, own, share, len(each.edges) + 1)[0])
            for each, code in zip(tables, codes, strict=True)
        ),
        np.concatenate([gain[used], of_tables]),
    )


def _boosted(
    holds: np.ndarray,
    own: Target,
    share: np.ndarray,
    codes: Sequence[IntArray],
    is_kept: np.ndarray,
    growth: Growth,
    rng: np.random.Generator,
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Trees fitted without the answers that are kept, as many as predict these best: sources of the nodes, values of
    the leaves, and gains by source. `codes` are the answers of the tables that they begin with.

    Arrays are [source, answer] and [label, answer]: sums over answers and over labels then read memory in its order.
    """
    inside, beside = np.flatnonzero(~is_kept), np.flatnonzero(is_kept)
    seen, kept, n_sources = holds[:, inside], holds[:, beside], len(holds)
    fitted, tested = own.some(inside), own.some(beside)
    true, unit = np.eye(own.n_labels, dtype=np.float32)[:, fitted.code], _unit(share).astype(np.float32)[:, None]
    now, of_kept = (np.tile(np.log(share).astype(np.float32)[:, None], len(each)) for each in (inside, beside))
    for code in reversed(codes):
        table, others = _shares_by(code[inside], fitted, share, int(code.max(initial=0)) + 1)
        now = np.where(code[inside] >= 0, np.log(others).T, now).astype(np.float32)
        of_kept = np.where(code[beside] >= 0, np.log(table[code[beside]]).T, of_kept).astype(np.float32)
    pull = (LEAF_RIDGE * (share * (1.0 - share) + 0.02)).astype(np.float32)
    splits, values, gains = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()

    def score() -> float:
        return float((of_kept[tested.code, np.arange(len(beside))] - _logsumexp(of_kept)) @ tested.weight)

    best, at, count, most = score(), 0, fitted.weight, int(np.ceil(growth.share * n_sources))
    for number in range(1, growth.most_rounds + 1):
        chance = np.exp(now - _logsumexp(now))
        slope, bend = (true - chance) * count, chance * (1.0 - chance) * count
        first = int(rng.integers(n_sources))  # some of the sources, which are in random order
        window = slice(first, min(first + most, n_sources)), slice(0, max(first + most - n_sources, 0))
        split, gain = _tree(seen, np.concatenate([slope * unit, count[None]]), window, growth.depth)
        leaf = in_leaves(seen, split[None])[0]
        value = np.float32(RATE) * np.clip((leaf @ slope.T) / (leaf @ bend.T + pull), -MOST_VALUE, MOST_VALUE)
        now += value.T @ leaf
        of_kept += value.T @ in_leaves(kept, split[None])[0]
        splits, values, gains = [*splits, split], [*values, value], [*gains, gain]
        if (found := score()) > best:
            best, at = found, number
        elif number - at >= growth.patience:
            break
    return splits[:at], values[:at], np.sum(gains[:at], axis=0) if at else np.zeros(n_sources)


def _logsumexp(logs: np.ndarray) -> np.ndarray:
    """Of each column, in the precision of the array."""
    top = logs.max(axis=0)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=0)) + top)


def _tree(holds: np.ndarray, slopes: np.ndarray, window: Sequence[slice], depth: int) -> tuple[np.ndarray, np.ndarray]:
    """One tree from some of the sources: sources of its nodes, and gains by source."""
    (width, n), length = slopes.shape, window[0].stop - window[0].start

    def summed(values: np.ndarray) -> np.ndarray:
        return np.concatenate([holds[each] @ values.T for each in window])

    split, parts, gains = list[int](), np.ones((1, n), np.float32), np.zeros(len(holds))
    sums = [summed(slopes)]  # where each source holds, of each node: [source, label + 1]
    for level in range(depth):
        chosen = []
        for own, total in zip(sums, parts @ slopes.T, strict=True):
            gain = _gain(own, total)
            best = int(gain.argmax())
            source = window[0].start + best if best < length else best - length
            gains[source] += max(float(gain[best]), 0.0)
            chosen.append(source)
        split += chosen
        if level + 1 < depth:
            on = parts * holds[chosen]
            of_on = summed((on[:, None] * slopes).reshape(-1, n)).reshape(-1, len(chosen), width)
            sums = [each for k, own in enumerate(sums) for each in (own - of_on[:, k], of_on[:, k])]
            parts = np.stack([parts - on, on], axis=1).reshape(-1, n)
    return np.asarray(split, np.int64), gains


def followers(
    query: Query, held_out: Mapping[str, np.ndarray], weight: np.ndarray
) -> dict[str, tuple[Conditional, ...]]:
    """What answers say about the question that they follow from (`schema.determined`): by this question."""
    found, question, none = dict[str, list[Conditional]](), query.lead, np.zeros(query.evidence.n_rows, bool)
    for each in question.schema.determined:
        if not {each.column, each.by} <= set(question.schema.modelled) or not question.schema[each.by].is_one_label:
            continue
        column: Any = question.schema[each.column]
        labels, follow = answers_of(question, each.by), answers_of(question, each.column)
        if labels is None or follow is None or follow.shape[1] != 1:
            continue
        out = held_out.get(each.by, none) | held_out.get(each.column, none)
        kept = np.flatnonzero(~np.isnan(labels[:, 0]) & ~np.isnan(follow[:, 0]) & ~out & (weight > 0))
        n_labels = n_labels_of(question, each.column)
        own = Target(each.column, 0, kept, follow[kept, 0].astype(np.int64), weight[kept], n_labels)
        n_parts = n_labels_of(question, each.by)
        chance, _ = _shares_by(labels[kept, 0].astype(np.int64), own, own.shares, n_parts)
        is_number = question.blocks[each.column].family == "measured"
        edges = column.effect_edges if is_number else np.arange(n_labels - 1) + 0.5
        found.setdefault(each.by, []).append(Conditional(each.column, edges, np.ascontiguousarray(chance.T)))
    return {name: tuple(own) for name, own in found.items()}


class _Tested(NamedTuple):
    """Held-out answers to one question at one site: their labels, P(label) by the members and by trees, the part of
    what these use that is known, log P by both [2, answer], and weights."""

    own: Target
    trees: Trees
    code: IntArray
    first: np.ndarray
    chance: np.ndarray
    part: np.ndarray
    logs: np.ndarray
    weight: np.ndarray


def _weighed(
    query: Query,
    targets: Sequence[Target],
    trees: Sequence[Trees | None],
    codes: Mapping[str, np.ndarray],
    held: Mapping[str, np.ndarray],
    weight: np.ndarray,
) -> dict[str, dict[int, Expert]]:
    """The trees to which held-out answers give some weight, and the power of the mean of members and trees."""
    rows = {name: np.flatnonzero(own & (weight > 0)) for name, own in held.items()}
    names = [name for name in dict.fromkeys(own.name for own in targets) if len(rows[name])]
    by_members = dict(zip(names, members.in_threads(lambda n: _chances(query, n, rows[n]), names), strict=True))

    def test(place: int) -> _Tested | None:
        own, forest = targets[place], trees[place]
        of_site = by_members.get(own.name, {}).get(own.site)
        kept = np.flatnonzero(~np.isnan(codes[own.name][rows[own.name], own.site]))
        if forest is None or of_site is None or not len(kept):
            return None
        at, first = rows[own.name][kept], of_site[kept]
        code = codes[own.name][at, own.site].astype(np.int64)
        chance, part = forest.predict(query.value, at)
        every = np.stack([first, first + part[:, None] * (chance - first)])[:, np.arange(len(code)), code]
        return _Tested(own, forest, code, first, chance, part, np.log(np.maximum(every, 1e-12)), weight[at])

    tested = [each for each in members.in_threads(test, range(len(targets))) if each is not None]
    if not tested:
        return {}
    every = np.concatenate([each.logs for each in tested], axis=1)
    shared = members.stack(every, np.concatenate([each.weight for each in tested]))
    found, totals = dict[str, dict[int, Expert]](), dict[str, np.ndarray]()
    for each in tested:
        share = float(members.stack(each.logs, each.weight, PRIOR_OF_WEIGHT * shared)[1])
        if share < members.LEAST_WEIGHT:
            continue
        expert, kind = Expert(each.trees, share), query.schema[each.own.name].kind
        found.setdefault(each.own.name, {})[each.own.site] = expert
        lines = np.arange(len(each.code))
        of_true = [
            expert._replace(power=power).join(each.first, each.chance, each.part)[lines, each.code]
            for power in members.POWERS
        ]
        logs = np.log(np.maximum(of_true, 1e-12))
        totals[kind] = totals.get(kind, np.zeros(len(logs))) + logs @ each.weight
    powers = members.calibrate(totals)[1] if totals else {}
    for name, own in found.items():
        power = powers[query.schema[name].kind]
        found[name] = {site: each._replace(power=power) for site, each in own.items()}
    return found


def _chances(query: Query, name: str, rows: np.ndarray) -> Mapping[int, np.ndarray]:
    """P(label) at each site of a question, or of the bands of a number, by the members: [row, label] each."""
    ask, column = query.about(name, Lines(rows, np.zeros_like(rows))), query.schema[name]
    if ask.anchor is not None:
        return ask.labels(calibration_family(column))
    bands: Any = column
    return {0: ask.probabilities() if column.is_one_label else ask.split(bands.effect_edges)}
