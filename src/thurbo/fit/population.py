"""§5, §6 A fit of several members: encodings, held-out answers, training, weights, calibration, experts.

Idea: some answers are held out from all members and decide how much each counts, how sure their mean is, and how much
of what they say beyond the shares of labels is believed (credibility). Members that predict little about a question
mostly repeat the noise of its answers: their predictions differ from the shares by an information K = mean Σ_l p_l
log(p_l / share_l), of which estimation alone gives about c = n_parameters / n_answers; the part K / (K + c) is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from scipy.special import logsumexp

from thurbo._concurrency import Beside
from thurbo.errors import ThurboError
from thurbo.fit import course, experts, lists, members
from thurbo.fit.course import Told
from thurbo.fit.fitting import Data
from thurbo.fit.planning import FitSettings, Plan
from thurbo.fit.stream import RowReading, Stream, WholeTable
from thurbo.fit.trainer import TrainState
from thurbo.latent import packing
from thurbo.latent.inference.meanfield import PREDICTION_STEPS
from thurbo.latent.rbm import Params
from thurbo.predict import evaluation as masking
from thurbo.predict import model as models
from thurbo.predict.correction import Anchor, Correction, calibration_family, learn_routes
from thurbo.predict.evaluation import ColumnTrial
from thurbo.predict.member import MemberAnswers, MemberQuery, with_patterns, without
from thurbo.predict.model import MemberSettings, Query, Reading
from thurbo.predict.moments import How
from thurbo.predict.predictive import Predictive
from thurbo.table.columns import Block
from thurbo.table.columns.forms import Lines
from thurbo.table.columns.forms.form import Tested, line_weight
from thurbo.table.io.frames import Table
from thurbo.table.schema.routing import with_answered
from thurbo.table.schema.schema import Schema


def read_encodings(
    wanted: Sequence[MemberSettings], table: Table, data: Data, informed: Schema, unobserved: Any
) -> dict[Reading, Data]:
    """The table as each member reads it; `data` is as it is given, and `informed` the schema with what was answered."""
    every: set[Reading] = {"given", *(each.reading for each in wanted)}
    schemas = {reading: informed if "missing" in reading else data.schema for reading in every}
    schemas |= {each: own.read_ordinals("utilities") for each, own in schemas.items() if each.startswith("utilities")}
    schemas["given"] = data.schema

    def one(schema: Schema) -> Data:
        if schema is data.schema:
            return data._replace(evidence=data.evidence.on_host())
        blocks = schema.compile(table)
        names = packing.MergeLabels(schema.names, schema.site_names, schema.row_names(table))
        evidence = packing.pack(blocks.values(), unobserved, reading=names, most_widths=0)
        return Data(schema, blocks, evidence.on_host(), data.weight)

    return dict(zip(schemas, members.in_threads(one, schemas.values()), strict=True))


def without_answers(
    every: Mapping[Reading, Data], masked: Mapping[str, np.ndarray], unobserved: Any
) -> dict[Reading, Data]:
    """All readings without some answers; also without none, so that it compiles to the same programs."""

    def one(own: Data) -> Data:
        every = with_patterns(own.schema, own.blocks, masked)
        return own._replace(evidence=without(own.schema, own.blocks, own.evidence, every, unobserved, always=True))

    return dict(zip(every, members.in_threads(one, every.values()), strict=True))


@contextmanager
def asked_ahead(
    chosen: FitSettings,
    wanted: Sequence[MemberSettings],
    read: Mapping[Reading, Data],
    how: How,
    on_epoch: Told,
) -> Iterator[Told]:
    """What is told of epochs; after the first one, idle cores compile the programs of the first questions to members.

    They are asked with parameters of the same shape.
    """
    begun = False

    def ask(reading: Reading) -> None:
        alone = members.independent(chosen, read[reading], members.largest_size(wanted))
        question = MemberQuery(alone, *read[reading][:3], how)
        question.moments(question.evidence.rows(np.zeros(1, np.int64)))

    if read["given"].schema.listed or members.at_once(len(wanted)) >= members.n_cores():
        yield on_epoch
        return
    with ThreadPoolExecutor(len(read)) as pool:

        def told(record: dict[str, Any]) -> None:
            nonlocal begun
            if record["done"] and not begun:
                begun = True
                for reading in read:
                    pool.submit(ask, reading)
            on_epoch(record)

        yield told


def credible_part(chance: np.ndarray, shares: np.ndarray, n_parameters: int, n_answers: float) -> float:
    """The part of log(p / share) that is kept, from predictions [line, label] and the shares of the labels."""
    information = (chance * np.log(np.maximum(chance, 1e-30) / shares)).sum(axis=1).mean()
    return float(information / (information + n_parameters / max(n_answers, 1.0)))


def effective_answers(weight: np.ndarray) -> float:
    """The number of equally weighted answers that say as much as these: (Σ w)² / Σ w², and not more than Σ w."""
    return min(float(weight.sum()), float(weight.sum() ** 2 / max(float(weight @ weight), 1e-12)))


def credible_anchors(
    trials: Sequence[Mapping[str, ColumnTrial]],
    column_weights: Mapping[str, np.ndarray],
    shares: Mapping[str, Anchor | None],
    n_answers: Mapping[str, float],
) -> dict[str, Anchor | None]:
    """The shares of labels with the credibility of each question, from predictions of its held-out answers.

    `trials` are these answers, put to each member. A question without any has the mean credibility of the others.
    Rankings stay as they are.
    """
    schema = next(iter(trials[0].values())).rest.schema
    known, found = dict[str, np.ndarray](), dict(shares)
    wanted = {
        name: own
        for name, own in shares.items()
        if own is not None and (schema[name].is_one_label or calibration_family(schema[name]) == "levels")
    }
    for name, anchor in wanted.items():
        if name in trials[0]:
            asks, column = cast(list[MemberAnswers], [each[name].ask for each in trials]), schema[name]
            kind = calibration_family(column)
            chance = Predictive(column, asks, column_weights[name], anchor=anchor).labels(kind)
            n_free = anchor.shares.shape[1] - 1 if kind == "utility" else 1  # utilities, or one place on a scale
            own = [credible_part(each, anchor.shares[site], n_free, n_answers[name]) for site, each in chance.items()]
            known[name] = np.asarray(own)
    usual = float(np.mean(np.concatenate(list(known.values())))) if known else 1.0
    for name, anchor in wanted.items():
        found[name] = anchor._replace(credibility=known.get(name, np.full(len(anchor.shares), usual)))
    return found


CALIBRATED = ("levels", "utility")
SCORED = ("label", "option", "favourite", "number", "interval", "task")  # kinds of answers that weigh the members


class Outcome(NamedTuple):
    """Fitted members and their correction, and the fit of the leading one."""

    members: tuple[models.Member, ...]
    correction: Correction
    leader: Params
    fitted: course.Fitted
    unfinished: members.Interrupted | None  # if the fit was interrupted


def has_tasks(schema: Schema) -> bool:
    """Whether all lists of a table are tasks: comparisons of shown items."""
    return bool(schema.listed) and all(schema[name].has_tasks for name in schema.listed)


def n_tasks(blocks: Mapping[str, Block], weight: np.ndarray) -> int:
    """Number of tasks of a table, by the weights of its rows."""
    found = (line_weight(own, weight).sum() / own.tasks.size for own in blocks.values() if own.tasks is not None)
    return round(float(sum(found)))


def count(chosen: FitSettings, schema: Schema, n_rows: int, tasks: int = 0, has_draws: bool = False) -> int:
    """How many members to fit: "auto" is one if the user chose a size or another objective, or if there is little data.

    Where all lists are tasks, these are counted: a few judges can make many comparisons.
    """
    wanted = chosen.members
    if wanted != "auto":
        if int(wanted) > 1 and chosen.objective in ("likelihood", "exact"):
            problem = f'members={wanted}: members are trained by prediction, not with objective="{chosen.objective}"'
            raise ThurboError(f"{problem}; leave one of them out")
        return int(wanted)
    is_free = chosen.n_hidden == chosen.n_factors == "auto" and chosen.max_epochs != 0
    is_predicted = chosen.objective in ("auto", "multi-prediction")
    is_predicted = is_predicted and chosen.posterior_smoothing is None and chosen.validation_fraction == "auto"
    is_whole = bool(schema.listed) or chosen.unobserved == "marginalize"
    is_enough = tasks >= members.LEAST_TASKS if has_tasks(schema) else n_rows >= members.LEAST_ROWS
    if not (is_free and is_predicted and is_whole and is_enough):
        return 1
    if has_tasks(schema):
        return len(members.USUAL_OF_TASKS)
    if schema.listed:
        return members.AUTO_BESIDE_DRAWS if has_draws else members.AUTO_OF_LISTS
    return len(members.usual_members(n_rows))


def fit(
    chosen: FitSettings,
    table: Table,
    data: Data,
    n: int,
    seed: int,
    on_epoch: Told,
    whole: WholeTable | None = None,
) -> Outcome:
    """Train the members without some answers, and weigh them by these answers.

    If the table is a sample of the rows of a large one, the members go on learning from `whole` before.
    """
    rng, missing, listed = np.random.RandomState(seed), chosen.missing, data.schema.listed
    informed = with_answered(data.schema, table, alone=True) if missing == "auto" and not listed else data.schema
    has = (bool(data.schema.with_ordered_levels), informed is not data.schema and len(informed) > len(data.schema))
    wanted = members.population(chosen, n, data.n_counted, *has, bool(listed), has_tasks(data.schema))
    n_answers = sum(int(column_answers(data, name).sum()) for name in data.schema.modelled)
    most = members.MOST_OF_LISTS if listed else members.MOST_HELD_OUT
    share = members.SHARE_HELD_OUT
    if has_tasks(data.schema):  # of few tasks a larger one
        part = members.TASKS_HELD_OUT / max(n_tasks(data.blocks, data.weight), 1)
        share = float(np.clip(part, members.SHARE_HELD_OUT, members.MOST_OF_TASKS))
    share = min(share, most / max(n_answers, 1))
    masked = masking.choose(data.schema, data.blocks, share, rng, data.weight > 0)
    chosen = replace(chosen, objective="multi-prediction", validation_fraction=0.0)
    how = How(method="mean-field", n_steps=PREDICTION_STEPS, unobserved=chosen.unobserved)
    complete = read_encodings(wanted, table, data, informed, chosen.unobserved)
    read = without_answers(complete, masked, chosen.unobserved)
    drawing, ending = lists.start(chosen, data, masked, seed), None
    try:
        with asked_ahead(chosen, wanted, read, how, on_epoch) as told:
            trained = members.train(chosen, read, wanted, seed, told, 1.0 if whole is None else 0.5)
        if whole is not None and not any(each.fitted.unfinished for each in trained):
            trained = members.over_all_rows(chosen, complete, whole, trained, masked, seed, on_epoch)
        found = _groups(chosen, read["given"], trained)
        parts = tuple(each.fitted.unfinished for each in trained)
        if whole is not None and whole.is_read:  # it was interrupted after the sample
            parts = (None,) * len(trained) + parts
        if not any(parts) and chosen.max_time is None and whole is None:
            ending = Beside(partial(_finish, chosen, complete, trained, seed))
        if drawing is not None and not any(parts) and (drawn := drawing.result(on_epoch)):
            found.append(_Group(drawing.member, drawn))
        routes = {} if missing == "ignorable" else learn_routes(data.schema, data.blocks, data.weight)
        about = [(*read[each.member.reading][:3], how, routes) for each in found]
        questions = [[MemberQuery(one, *own) for one in each.params] for each, own in zip(found, about, strict=True)]
        weighed = _weigh(data, found, questions, masked, 1.0 if whole is None else whole.n_rows / table.n_rows)
        learned = Correction(weighed.by_column, weighed.exponents, routes=routes)
        if chosen.experts == "auto" and not any(parts) and not listed and not data.evidence.spans_cells:
            least = models.least_answers(data.schema, data.blocks, data.weight)
            gaps = models.n_answers(data.schema, data.blocks) >= (least if missing != "ignorable" else np.inf)
            known = {name: own for name, own in weighed.shares.items() if own is not None}
            plain = Correction(weighed.by_column, weighed.exponents, known)
            asked = Query(tuple(questions[p][0] for p in weighed.kept), np.asarray(weighed.weight), plain, gaps)

            def on_part(done: int, of: int) -> None:
                on_epoch({"stage": "boosting trees", "done": done, "of": of, "figure": ""})

            beside = experts.learn(asked, masked, data.weight, seed, on_part)
            learned = replace(learned, experts=beside, follows=experts.followers(asked, masked, data.weight))
        if ending is not None:
            ended = ending.result()
            if len(found) > len(ended):
                assert drawing is not None
                ended.append(_Group(drawing.member, drawing.last(on_epoch) or found[-1].params))
            found = ended
    finally:
        if ending is not None:
            ending.stop()
        if drawing is not None:
            drawing.stop()
    kept, lead = weighed.kept, weighed.kept[0]
    sizes = [len(found[place].params) for place in kept]
    fitted = tuple(
        models.Member(each.member, questions[place][0].schema, params, weight / len(each.params), held_out)
        for place, weight, held_out in zip(kept, weighed.weight, weighed.held_out, strict=True)
        for each in [found[place]]
        for params in each.params
    )
    fits = [each.fitted for each in trained]
    # That a short training has not settled is no reason not to trust a member: weights know it.
    problem = next((each.problem for each in fits if each.problem and not members.is_unsettled(each)), None)
    n, usual = len(fits[lead].history), members.length(replace(chosen, max_epochs="auto"), data).max_epochs
    if problem is None and chosen.max_epochs != "auto" and 0 < n < min(2 * course.LEAST, usual):
        problem = course.too_few(n)  # nothing can be told of the training, and there were fewer epochs than usual
    leader = fits[lead]._replace(problem=problem)
    rest = members.Interrupted(parts) if any(parts) else None
    by_column = {name: divided(weight, sizes) for name, weight in weighed.by_column.items()}
    last = [replace(questions[p][0], params=one) for p in kept for one in found[p].params]
    anchors = _anchors(last, by_column, weighed.shares, weighed.exponents)
    correction = replace(learned, weights=by_column, anchors=anchors)
    return Outcome(fitted, correction, members.active(found[lead].params[0], found[lead].member), leader, rest)


def single_over_all_rows(
    chosen: FitSettings,
    data: Data,
    whole: WholeTable,
    before: course.Fitted,
    plan: Plan,
    seed: int,
    on_epoch: Told,
) -> course.Fitted:
    """A single model that was fitted to a sample, after a pass over all rows."""
    stream = _stream(chosen, data, whole, seed, on_epoch)
    rate, seconds = members.RATE_OF_ALL * float(chosen.learning_rate), members.seconds_of_each(chosen, 1, 1, 0.5)
    told = members.counted("fitting to all rows", whole.n_rows, stream.n_pools, on_epoch, threading.Event())
    where = members.checkpoint_of(chosen.checkpoint, 1)
    return members.pass_over(jax.random.key(seed), stream, before, data.layout, plan, rate, where, seconds, told)


def go_over(
    chosen: FitSettings, sample: Data, whole: WholeTable, state: TrainState, plan: Plan, seed: int
) -> course.Fitted:
    """One more pass over all rows of a large table, at the full rate; `sample` is some of them."""
    stream = _stream(chosen, sample, whole, seed)
    length = course.Length(0, stream.n_pools, float(chosen.learning_rate), falls=False)
    key, about = jax.random.fold_in(jax.random.key(seed), state.step), (sample.layout, replace(plan, in_order=True))
    try:
        return course.fit(key, state, stream, *about, length, devices=stream.devices)
    finally:
        stream.close()


def _stream(
    chosen: FitSettings, sample: Data, whole: WholeTable, seed: int, on_epoch: Told = lambda record: None
) -> Stream:
    """All rows for a single model."""
    reading = RowReading("given", sample)
    whole.read([reading], {}, on_epoch)
    return Stream(whole, reading, seed, chosen.unobserved)


class _Group(NamedTuple):
    """A member, or several draws of the parameters, which have one weight together."""

    member: MemberSettings
    params: list[Params]


def _finish(
    chosen: FitSettings,
    complete: Mapping[Reading, Data],
    trained: list[members.Trained],
    seed: int,
    on_epoch: Told,
) -> list[_Group]:
    """The members, trained with all answers at the end; meanwhile the held-out answers weigh them."""
    data = without_answers(complete, {}, chosen.unobserved)
    return _groups(chosen, data["given"], members.finish(chosen, data, trained, seed, on_epoch))


def _groups(chosen: FitSettings, data: Data, trained: list[members.Trained]) -> list[_Group]:
    """The trained members, and the one without dependence."""
    found = [_Group(each.member, [each.params]) for each in trained]
    size = members.largest_size([each.member for each in trained])
    return [*found, _Group(MemberSettings(0, 0, 0.0), [members.independent(chosen, data, size)])]


class _Weighed(NamedTuple):
    """What held-out answers say: the groups that are kept, the leading one first, and their weights."""

    kept: list[int]
    weight: list[float]  # of those kept
    held_out: list[float]
    by_column: dict[str, np.ndarray]
    shares: dict[str, Anchor | None]
    exponents: dict[str, float]


def _weigh(
    data: Data,
    found: list[_Group],
    questions: list[list[MemberQuery]],
    masked: Mapping[str, np.ndarray],
    n_tables: float = 1.0,
) -> _Weighed:
    """Weights of the groups and calibration, from the held-out answers; members were fitted to `n_tables` times as many
    rows as `data` has."""
    lines = {name: line_weight(data.blocks[name], data.weight) for name, hidden in masked.items() if hidden.any()}

    def trials_of(question: MemberQuery) -> dict[str, ColumnTrial]:
        about = [(name, question, question.blocks[name], masked[name], own) for name, own in lines.items()]
        return {each[0]: ColumnTrial(*each, None, ()) for each in about}

    trials = [list(map(trials_of, group)) for group in questions]
    with ThreadPoolExecutor(members.at_once(len(questions))) as pool:  # two readings compile at the same time
        scores = list(pool.map(lambda own: [_scores(each) for each in own], trials))
    _, answer_weight, column = scores[0][0]
    logs = np.stack([logsumexp([each[0] for each in own], axis=0) - np.log(len(own)) for own in scores])
    weight = members.stack(logs, answer_weight)
    trained = [each.member for each in found if not (each.member.is_independent or each.member.is_draw)]  # come first
    able = _able(trained, bool(data.schema.listed))
    lead = max(able, key=lambda place: weight[place])
    kept = [lead, *(p for p in range(len(found)) if p != lead and weight[p] >= members.LEAST_WEIGHT)]
    weight, means = weight[kept] / weight[kept].sum(), logs[kept] @ answer_weight / max(answer_weight.sum(), 1e-12)
    by_column, shares, sizes = {}, dict[str, Anchor | None](), [len(found[place].params) for place in kept]
    for name in data.schema.modelled:
        is_own, own = column == name, data.schema[name].form.shares(data.blocks[name], data.weight)
        by_column[name] = members.stack_column(logs[kept][:, is_own], answer_weight[is_own], weight)
        shares[name] = None if own is None else Anchor(own, np.zeros_like(own), np.ones(len(own)))
    single = {name: divided(own, sizes) for name, own in by_column.items()}
    of_members = [each for p in kept for each in trials[p]]
    if not data.schema.listed:
        n_answers = {name: n_tables * effective_answers(data.weight[column_answers(data, name)]) for name in shares}
        shares = credible_anchors(of_members, single, shares, n_answers)
    exponents = _exponents(of_members, single, shares)
    return _Weighed(kept, weight.tolist(), means.tolist(), by_column, shares, exponents)


def _able(trained: list[MemberSettings], has_lists: bool) -> list[int]:
    """Places of the members that may lead: with the schema as it is, and hidden units, which reports show, if any."""
    able = [place for place, each in enumerate(trained) if each.reading == "given"]
    return able if has_lists else [place for place in able if trained[place].n_hidden] or able


def column_answers(data: Data, name: str) -> np.ndarray:
    column = data.schema[name]
    return column.form.scorable(data.blocks[name])


def _scores(trials: Mapping[str, ColumnTrial]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log score of each held-out answer by one member, its weight and column; pairs only of lists that are orders."""
    scores, weights, columns = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, object)]

    def one(name: str) -> list[Tested]:
        column = trials[name].rest.schema[name]
        tests = [tested for tested in column.form.test(trials[name]) if "" in tested.score]
        return [tested for tested in tests if tested.answer in SCORED] or tests

    for name, tests in zip(trials, members.in_threads(one, trials), strict=True):
        for tested in tests:
            scores.append(tested.score[""])
            weights.append(tested.weight)
            columns.append(np.full(len(tested.weight), name, object))
    return np.concatenate(scores), np.concatenate(weights), np.concatenate(columns)


def divided(weight: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The weights of groups, divided among the members of each."""
    return np.repeat(weight / np.asarray(sizes), sizes)


def _anchors(
    questions: list[MemberQuery],
    column_weights: Mapping[str, np.ndarray],
    shares: Mapping[str, Anchor | None],
    exponents: Mapping[str, float],
) -> dict[str, Anchor]:
    """The shares of labels, and how far predictions for a row without any answer are from them; none beside lists."""
    if questions[0].schema.listed:
        return {}
    empty, found, first = [_empty_row(each) for each in questions], {}, Lines(np.zeros(1, int), np.zeros(1, int))
    for name, anchor in shares.items():
        if anchor is None:
            continue
        asks, column = [each.about(name, first, own=False) for each in empty], empty[0].schema[name]
        power = Correction(exponents=exponents).exponent(column)
        mixed = Predictive(column, asks, column_weights[name], exponent=power, anchor=anchor)
        chance = np.concatenate(list(mixed.labels(calibration_family(column)).values()))
        found[name] = anchor._replace(tilt=np.log(anchor.shares / np.maximum(chance, 1e-12)))
    return found


def _empty_row(question: MemberQuery) -> MemberQuery:
    """One row without any answer, put to the same member."""
    evidence = question.evidence.rows(np.zeros(1, np.int64))
    slot = np.arange(len(evidence.shared))
    found = replace(question, evidence=evidence.hide(np.zeros_like(slot), slot, question.how.unobserved).on_host())
    if not evidence.spans_cells:
        found.__dict__["known"] = question.moments(found.evidence)  # by the same program
    return found


def _exponents(
    trials: list[dict[str, ColumnTrial]],
    column_weights: Mapping[str, np.ndarray],
    shares: Mapping[str, Anchor | None],
) -> dict[str, float]:
    """The power of the mixed probabilities that predicts held-out answers best, by kind of column.

    Kinds of one family are pulled towards a common power.
    """
    totals: dict[str, dict[str, np.ndarray]] = {each: {} for each in CALIBRATED}

    def one(name: str) -> np.ndarray:
        """Total log score of the column's answers for each power; none if it has no scored answers."""
        column, trial = trials[0][name].rest.schema[name], replace(trials[0][name])
        asks = cast(list[MemberAnswers], [each[name].ask for each in trials])
        trial.__dict__["ask"] = mixed = Predictive(column, asks, column_weights[name], anchor=shares[name])
        scores = []
        for power in members.POWERS:
            mixed.exponent = float(power)
            tests = [tested for tested in column.form.test(trial) if tested.answer in SCORED]
            scores.append([tested.score[""] @ tested.weight for tested in tests])
        return np.asarray(scores).sum(axis=1) if scores[0] else np.zeros(0)

    calibrated = [name for name, each in trials[0].items() if calibration_family(each.rest.schema[name]) in totals]
    for name, total in zip(calibrated, members.in_threads(one, calibrated), strict=True):
        question = trials[0][name].rest
        if len(total):
            own, kind = totals[calibration_family(question.schema[name])], question.schema[name].kind
            own[kind] = own.get(kind, np.zeros_like(total)) + total
    found = dict[str, float]()
    for each, own in totals.items():
        if own:
            found[each], of_kinds = members.calibrate(own)
            found |= of_kinds
    return found
