"""§5 Direct effects of answers on each other: what the predictions of members leave unexplained, by boosting.

Every answer is predicted by the members from the rest of its row, a quarter of the answers at a time. Effects of other
answers, and of whether questions were answered, are added where cross-validation over rows improves the log score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

from thurbo.fit import members
from thurbo.predict.correction import ANSWERED, Effect, Effects, Source, answer_values, bands_of
from thurbo.predict.member import MemberQuery, without
from thurbo.table.columns.forms import Lines

FloatArray = NDArray[np.floating]
IndexArray = NDArray[np.int64]

STEP = 0.2  # share of a Newton step
RIDGE = 10.0  # answers by which coefficients are pulled to zero
MOST_ROUNDS, PATIENCE = 60, 6  # rounds, and rounds without improvement after which it ends
LEAST_GAIN = 1.0  # of the cross-validated log score (nats)
N_FOLDS = 5
MOST_FEATURES = 100  # those with the largest gains in the first round
LEAST_ANSWERS = 40
LEAST_CHANCE = 1e-30


class Labels(NamedTuple):
    """Answers that are labels: log-probabilities to start from [answer, label], true labels, and weights of answers."""

    start: FloatArray
    code: IndexArray
    weight: FloatArray

    def rows(self, index: IndexArray) -> Labels:
        return Labels(self.start[index], self.code[index], self.weight[index])

    def slope(self, now: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and minus second derivatives of the log score by the predictions, [answer, label]."""
        chance = softmax(now, axis=-1)
        first = -chance
        first[np.arange(len(now)), self.code] += 1.0
        return self.weight[:, None] * first, self.weight[:, None] * chance * (1.0 - chance)

    def score(self, now: FloatArray) -> float:
        return float(self.weight @ log_softmax(now, axis=-1)[np.arange(len(now)), self.code])


class _Fits:
    """Fits of the same answers with different weights, which take their rounds together.

    Few operations on large arrays, which several threads can do at a time. Labels come first, [label, fit, answer], so
    that sums over labels are sums of whole arrays.
    """

    def __init__(self, features: FloatArray, answers: Labels, weight: FloatArray):
        """`features` are [answer, feature], and weights of answers [fit, answer]."""
        (n, n_labels), n_fits = answers.start.shape, len(weight)
        self.features = np.ascontiguousarray(features.T)
        self.squares, self.weight = self.features * self.features, weight
        self.chance = np.repeat(softmax(answers.start, axis=-1).T[:, None, :], n_fits, axis=1)
        self.true = np.zeros_like(self.chance)  # weights at the true labels
        self.true[answers.code, :, np.arange(n)] = weight.T
        self.slope, self.other = np.empty_like(self.chance), np.empty_like(self.chance)
        self.shape = len(self.features), n_labels, n_fits

    def _by_feature(self, features: FloatArray, values: FloatArray) -> FloatArray:
        """Sums over answers, [feature, label, fit]."""
        return (features @ values.reshape(-1, values.shape[-1]).T).reshape(self.shape)

    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Improvement by each feature, [feature, fit], and its Newton step, [feature, label, fit]."""
        np.multiply(self.weight, self.chance, out=self.other)
        np.subtract(self.true, self.other, out=self.slope)
        pull = self._by_feature(self.features, self.slope)
        np.subtract(1.0, self.chance, out=self.slope)
        np.multiply(self.slope, self.other, out=self.slope)
        step = pull / (self._by_feature(self.squares, self.slope) + RIDGE)
        return (pull * step).sum(axis=1), step

    def round(self) -> tuple[IndexArray, FloatArray]:
        """One more round: the feature of each fit, [fit], and what is added to its coefficients, [fit, label]."""
        gain, step = self.steps()
        best = np.argmax(gain, axis=0)
        own = STEP * step[best, :, np.arange(self.shape[2])]
        np.multiply(self.features[best], own.T[:, :, None], out=self.other)
        np.exp(self.other, out=self.other)
        self.chance *= self.other
        self.chance /= self.chance.sum(axis=0)
        return best, own


def fit(features: FloatArray, answers: Labels, fold: IndexArray) -> tuple[IndexArray, FloatArray]:
    """Features with effects, and what each adds to the log-probabilities: [effect], [effect, label].

    `fold` numbers the parts of the answers, [answer]. There are as many rounds as have the best cross-validated log
    score: the same rounds are made without one part of the answers each.
    """
    n_labels = answers.start.shape[1]
    nothing = np.zeros(0, np.int64), np.zeros((0, n_labels))
    if len(fold) < LEAST_ANSWERS or not features.shape[1]:
        return nothing
    chosen = np.arange(features.shape[1])
    if len(chosen) > MOST_FEATURES:
        chosen = screened(_Fits(features, answers, answers.weight[None]).steps()[0][:, 0])
        features = features[:, chosen]
    numbers, part = np.unique(fold, return_inverse=True)
    n_parts, row = len(numbers), np.arange(len(fold))
    if n_parts < 2:
        return nothing
    without = part[None, :] != np.arange(n_parts + 1)[:, None]  # [fit, answer]; the last one has all of them
    fits = _Fits(features, answers, answers.weight * without)
    best, at, rounds = LEAST_GAIN + answers.score(answers.start), 0, []
    for number in range(1, MOST_ROUNDS + 1):
        feature, own = fits.round()
        rounds.append((int(feature[-1]), own[-1]))
        chance = fits.chance[answers.code, part, row]  # each answer by the fit without it
        found = float(answers.weight @ np.log(np.maximum(chance, LEAST_CHANCE)))
        if found > best:
            best, at = found, number
        elif number - at >= PATIENCE:
            break
    coefficients = np.zeros((len(chosen), n_labels))
    for used, step in rounds[:at]:
        coefficients[used] += step
    kept = np.flatnonzero(coefficients.any(axis=1))
    return chosen[kept], coefficients[kept]


def screened(gain: FloatArray) -> IndexArray:
    """The features with the largest gains, in their order."""
    return np.sort(np.argsort(-gain, kind="stable")[:MOST_FEATURES])


N_PASSES = 4  # in each of them, this share of the answers is predicted
MOST_ROWS = 5000
N_BANDS = 8  # of numbers that have effects
LEAST_INSIDE = 0.98  # of the answers about a number, inside one band each
LABELS_AT_ONCE = 2000  # of questions whose possible effects are compared together
LEAST_ROWS = 5  # with an answer that has effects, and without it
LEAST_SHARE = 0.02  # of the rows that answered a question, and that did not, so that this can have effects

Mixed = Callable[[str, Sequence[MemberQuery], np.ndarray, Lines], Mapping[int, np.ndarray]]


class _Features(NamedTuple):
    """Possible sources of effects: what each is in every row, [row, source]; 0 where it is not known."""

    sources: list[Source]
    strength: np.ndarray
    column: np.ndarray  # [source] number of its column
    turn: np.ndarray  # [row, source] the pass in which it was hidden


class _Predicted(NamedTuple):
    """Answers of one question and the probabilities of their labels: [answer], [answer, label]."""

    row: np.ndarray
    code: np.ndarray
    chance: np.ndarray


class _Target(NamedTuple):
    """A question that may have effects: its column, rows of its answers, and answers with their predictions."""

    number: int
    row: np.ndarray
    answers: Labels


def learn(
    questions: Sequence[MemberQuery],
    held_out: Mapping[str, np.ndarray],
    weight: np.ndarray,
    mixed: Mixed,
    gaps: np.ndarray,
    seed: int,
) -> Effects:
    """Direct effects on all questions with labels, and on numbers.

    `questions` are the members with the training table, without the answers `held_out`; `mixed` gives the probabilities
    of the labels of a column's sites by all of them for some lines, [line, label]. In the rows `gaps`, which
    questions were answered can have effects.
    """
    rng = np.random.default_rng(seed)
    first = questions[0]
    n_rows = first.evidence.n_rows
    rows = np.sort(rng.permutation(n_rows)[:MOST_ROWS]) if n_rows > MOST_ROWS else np.arange(n_rows)
    names = list(first.schema.modelled)
    asked = {name: codes[rows] for name in names if (codes := _answers(first, name)) is not None}
    held = {name: np.asarray(held_out.get(name, np.zeros(n_rows, bool)))[rows] for name in names}
    turn = rng.integers(N_PASSES, size=(len(rows), len(names)), dtype=np.int8)  # the pass that predicts an answer
    turn[np.stack([held[name] for name in names], axis=1)] = -1
    predicted = _predict(questions, rows, dict(zip(names, turn.T, strict=True)), asked, mixed)
    found = _features(first, rows, names, held, gaps, turn)
    fold = rng.integers(N_FOLDS, size=len(rows))

    targets = [_target(first, rows, names, turn, weight, *each) for each in predicted.items()]
    chosen = _screened(targets, found, turn)

    def one(place: int) -> tuple[Effect, ...]:
        return _effects(targets[place], chosen[place], found, turn, fold)

    # Each question in one thread: products of such small matrices are slower with many.
    with threadpool_limits(1, user_api="blas"):
        every = dict(zip(predicted, members.in_threads(one, range(len(targets))), strict=True))
    by_name: dict[str, dict[int, tuple[Effect, ...]]] = {}
    for (name, site), effects in every.items():
        if effects:
            by_name.setdefault(name, {})[site] = effects
    return by_name


def _answers(question: MemberQuery, name: str) -> np.ndarray | None:
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
    code = found[:, None]
    if not column.is_one_label and (found >= 0).sum() < LEAST_INSIDE * block.observed[:, 0].sum():
        return None
    return np.where(code >= 0, code, np.nan)


def _predict(
    questions: Sequence[MemberQuery],
    rows: np.ndarray,
    turn: Mapping[str, np.ndarray],
    asked: Mapping[str, np.ndarray],
    mixed: Mixed,
) -> dict[tuple[str, int], _Predicted]:
    """Predictions of all answers, each in its turn: by question and site."""
    parts: dict[tuple[str, int], list[_Predicted]] = {}
    n_rows = questions[0].evidence.n_rows
    for number in range(-1, N_PASSES):
        masked = {}
        for name, own in turn.items():
            masked[name] = np.zeros(n_rows, bool)
            masked[name][rows[own == number]] = True

        def ask(each: MemberQuery, number: int = number, masked: Mapping[str, np.ndarray] = masked) -> MemberQuery:
            """Answers of the first pass have weighed the members, and are not part of the evidence."""
            if number < 0:
                return each.rows(rows)
            rest = without(each.schema, each.blocks, each.evidence, masked, each.how.unobserved, rows=rows)
            return replace(each, evidence=rest)

        with ThreadPoolExecutor(members.at_once(len(questions))) as pool:  # two members at a time
            rest = list(pool.map(ask, questions))
            list(pool.map(lambda each: each.known, rest))

        def one(name: str, number: int = number, rest: Sequence[MemberQuery] = rest) -> dict[int, _Predicted]:
            codes, found = asked[name], {}
            now = np.flatnonzero((turn[name] == number) & ~np.isnan(codes).all(axis=1))
            for site, chance in mixed(name, rest, rows, Lines(now, np.zeros_like(now))).items() if len(now) else ():
                known = ~np.isnan(codes[now, site])
                code = codes[now[known], site].astype(np.int64)
                found[site] = _Predicted(now[known], code, chance[known])
            return found

        for name, found in zip(asked, members.in_threads(one, asked), strict=True):
            for site, each in found.items():
                parts.setdefault((name, site), []).append(each)
    return {place: _Predicted(*map(np.concatenate, zip(*own, strict=True))) for place, own in parts.items()}


def _features(
    question: MemberQuery,
    rows: np.ndarray,
    names: Sequence[str],
    held: Mapping[str, np.ndarray],
    gaps: np.ndarray,
    turn: np.ndarray,
) -> _Features:
    """All answers that may have effects; in the rows `gaps`, also whether questions were answered."""
    sources, strength, column = list[Source](), list[np.ndarray](), list[int]()

    def add(number: int, found: Sequence[Source], known: np.ndarray) -> None:
        sources.extend(found)
        strength.extend(source.strength(known).astype(np.float32) for source in found)
        column.extend([number] * len(found))

    for number, name in enumerate(names):
        block = question.blocks[name]
        known = np.where(held[name][:, None], np.nan, answer_values(block)[rows])
        for part in range(known.shape[1]):
            add(number, _sources(name, part, known[:, part], block.family == "measured"), known[:, part])
        answered = np.where(held[name] | ~gaps[rows], np.nan, block.answered[rows])
        share = float(np.nanmean(answered)) if not np.isnan(answered).all() else 0.0
        if LEAST_SHARE <= share <= 1 - LEAST_SHARE:
            add(number, [Source(name, ANSWERED, 0.5, 1.5, share)], answered)
    every = np.stack(strength, axis=1) if strength else np.zeros((len(rows), 0), np.float32)
    place = np.asarray(column, np.int64)
    return _Features(sources, every, place, turn[:, place])


def _sources(name: str, part: int, known: np.ndarray, is_number: bool) -> list[Source]:
    """The answers of a column that enough rows have: its labels, or bands of a number."""
    there = known[~np.isnan(known)]
    if not len(there):
        return []
    single = np.unique(there) if is_number else np.arange(there.max() + 1)
    if len(single) <= 2 * N_BANDS or not is_number:  # labels, bands, or a few different numbers
        ends = 0.5 * (single[1:] + single[:-1])
    else:
        ends = np.unique(np.quantile(there, np.linspace(0, 1, N_BANDS + 1)[1:-1]))
    found = []
    for low, high in zip([-_FAR, *ends], [*ends, _FAR], strict=True):
        n = int(((there > low) & (there <= high)).sum())
        if LEAST_ROWS <= n <= len(there) - LEAST_ROWS:
            found.append(Source(name, part, float(low), float(high), n / len(there)))
    return found[1:] if len(found) == 2 else found  # two are each other's opposite


_FAR = 1e9


def _target(
    first: MemberQuery,
    rows: np.ndarray,
    names: Sequence[str],
    turn: np.ndarray,
    weight: np.ndarray,
    place: tuple[str, int],
    own: _Predicted,
) -> _Target:
    """The answers of one question that were predicted with what their rows say about routing.

    Only a gate's may not be: if all follow-up questions that the row answered were hidden with the answer, it looked as
    if it had none of them.
    """
    number, kept = names.index(place[0]), np.ones(len(own.row), bool)
    for route in first.routes.get(place[0], ()):
        columns = [names.index(each) for each in route.columns]
        answered = np.stack([first.blocks[each].answered[rows[own.row]] for each in route.columns], axis=1)
        hidden = (turn[own.row][:, columns] == turn[own.row, number][:, None]) | (turn[own.row][:, columns] < 0)
        kept &= answered.any(axis=1) == (answered & ~hidden).any(axis=1)
    logs = np.log(np.maximum(own.chance, 1e-9)).astype(np.float32)
    answers = Labels(logs, own.code, weight[rows[own.row]].astype(np.float32))
    return _Target(number, own.row[kept], answers.rows(np.flatnonzero(kept)))


def _screened(targets: Sequence[_Target], found: _Features, turn: np.ndarray) -> list[np.ndarray]:
    """The sources that improve the predictions of each question most, taken one by one; all of them if they are few.

    What was hidden together with an answer has no effect on it. All questions whose answers were predicted in one pass
    hide the same, so that a few products of large matrices find the gains of all sources for many questions.
    """
    if len(found.sources) <= MOST_FEATURES:
        return [np.arange(len(found.sources))] * len(targets)
    chosen, begin = list[np.ndarray](), 0
    ends = np.cumsum([each.answers.start.shape[1] for each in targets])
    while begin < len(targets):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + LABELS_AT_ONCE, side="right")))
        gain = _gains(targets[begin:end], found, turn)
        first = np.concatenate([[0], ends[begin : end - 1] - before])
        chosen += map(screened, np.add.reduceat(gain, first, axis=1).T)
        begin = end
    return chosen


def _gains(targets: Sequence[_Target], found: _Features, turn: np.ndarray) -> np.ndarray:
    """What each source adds to the log score of each label of some questions, [source, label]."""
    n_labels = [each.answers.start.shape[1] for each in targets]
    slope, bend = (np.zeros((len(turn), sum(n_labels)), np.float32) for _ in range(2))
    for own, end in zip(targets, np.cumsum(n_labels), strict=True):
        labels = slice(end - own.answers.start.shape[1], end)
        slope[own.row, labels], bend[own.row, labels] = own.answers.slope(own.answers.start)
    passes = np.repeat(turn[:, [own.number for own in targets]], n_labels, axis=1)
    pull, curve = (np.zeros((len(found.sources), sum(n_labels)), np.float32) for _ in range(2))
    for number in range(-1, N_PASSES):
        strength, now = np.where(found.turn != number, found.strength, np.float32(0.0)), passes == number
        pull += strength.T @ (slope * now)
        curve += (strength * strength).T @ (bend * now)
    return np.asarray(pull * pull / (curve + RIDGE))


def _effects(
    own: _Target, chosen: np.ndarray, found: _Features, turn: np.ndarray, fold: np.ndarray
) -> tuple[Effect, ...]:
    """The effects on one question. What was hidden together with an answer has no effect on it."""
    place = np.ix_(own.row, chosen)
    features = np.where(found.turn[place] != turn[own.row, own.number][:, None], found.strength[place], np.float32(0.0))
    used, tilts = fit(features, own.answers, fold[own.row])
    return tuple(
        Effect(found.sources[chosen[feature]], tuple(map(float, each)))
        for feature, each in zip(used, tilts, strict=True)
    )
