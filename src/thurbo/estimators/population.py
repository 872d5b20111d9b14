"""§5, §6 A fit of several members: held-out answers, training, weights, calibration, and questions to all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, cast

import numpy as np

from thurbo.columns import Block
from thurbo.columns.forms import Lines
from thurbo.columns.forms.form import line_weight
from thurbo.errors import ThurboError
from thurbo.evidence import pack as packing
from thurbo.evidence.buckets import Buckets
from thurbo.io.table import Table
from thurbo.learning import course, members, settings
from thurbo.learning.fit import Data
from thurbo.learning.members import Member, Reading
from thurbo.queries import gates, sequential
from thurbo.queries.asked import Asked
from thurbo.queries.evaluate import masked as masking
from thurbo.queries.evaluate.masked import ColumnTrial
from thurbo.queries.features import How
from thurbo.queries.kept_shares import Offsets
from thurbo.queries.mixture import Anchor, MixedAsk, Mixture, exponent, family
from thurbo.queries.question import Question, without
from thurbo.rbm import Params
from thurbo.schema import Schema
from thurbo.schema.missing_together import with_answered

CALIBRATED = ("levels", "utility")
SCORED = ("label", "option", "favourite", "number", "interval", "task")  # kinds of answers that weigh the members


class FittedMember(NamedTuple):
    """One member: its settings, how it reads the table, its parameters (unused units included) and its weight."""

    member: Member
    schema: Schema
    params: Params
    weight: float
    held_out: float  # log-likelihood per held-out answer


@dataclass(frozen=True)
class Population:
    """The members of a fitted model; the first one leads."""

    members: tuple[FittedMember, ...]
    exponents: Mapping[str, float]
    column_weights: Mapping[str, np.ndarray] = field(default_factory=dict)  # [member], for each question
    routes: gates.Routes = field(default_factory=dict)
    anchors: Mapping[str, Anchor] = field(default_factory=dict)
    _offsets: dict[int, Offsets] = field(default_factory=dict, compare=False)  # of members that drew rows

    def offsets(self, each: FittedMember, how: How) -> Offsets:
        """Offsets by which rows drawn from a member keep the shares of the training table; found when first asked."""
        place = next(place for place, own in enumerate(self.members) if own is each)
        if not self.anchors:
            return Offsets()
        if place not in self._offsets:
            shares = {name: anchor.shares for name, anchor in self.anchors.items()}
            self._offsets[place] = sequential.keep_shares(each.params, each.schema, how, shares)
        return self._offsets[place]

    @property
    def weights(self) -> np.ndarray:
        return np.asarray([each.weight for each in self.members])

    @property
    def generative(self) -> tuple[FittedMember, ...]:
        """Members that are models of the answers only, with dependence: rows are drawn and scored by these."""
        return tuple(each for each in self.members if not (each.member.is_informed or each.member.is_independent))

    @property
    def generative_weights(self) -> np.ndarray:
        found = np.asarray([each.weight for each in self.generative])
        return found / found.sum()

    def question(self, own: Question, questions: list[Question]) -> Mixture:
        """The question of the leading member's table, put to all members."""
        return Mixture(
            **{item.name: getattr(own, item.name) for item in fields(own)},
            questions=tuple(questions),
            weights=self.weights,
            column_weights=self.column_weights,
            exponents=self.exponents,
            anchors=self.anchors,
        )


class Outcome(NamedTuple):
    """A fitted population and the fit of its leading member."""

    population: Population
    leader: Params
    fitted: course.Fitted
    unfinished: members.Interrupted | None  # if the fit was interrupted


class _Read(NamedTuple):
    schema: Schema
    blocks: dict[str, Block]
    evidence: Buckets  # without the held-out answers


def has_tasks(schema: Schema) -> bool:
    """Whether all lists of a table are tasks: comparisons of shown items."""
    return bool(schema.listed) and all(schema[name].has_tasks for name in schema.listed)


def n_tasks(blocks: Mapping[str, Block]) -> int:
    """Number of tasks of a table."""
    return sum(len(own.tier) // own.tasks.size for own in blocks.values() if own.tasks is not None)


def count(parameters: Mapping[str, Any], chosen: Mapping[str, Any], schema: Schema, n_rows: int, tasks: int = 0) -> int:
    """How many members to fit: "auto" is one if the user chose a size or another objective, or if there is little data.

    Where all lists are tasks, these are counted: a few judges can make many comparisons.
    """
    asked = parameters["members"]
    if asked != "auto":
        if int(asked) > 1 and chosen["objective"] in ("likelihood", "exact"):
            problem = f'members={asked}: members are trained by prediction, not with objective="{chosen["objective"]}"'
            raise ThurboError(f"{problem}; leave one of them out")
        return int(asked)
    is_free = parameters["n_hidden"] == parameters["n_factors"] == "auto" and chosen["max_epochs"] != 0
    is_predicted = chosen["objective"] in ("auto", "multi-prediction")
    is_predicted = is_predicted and chosen["posterior_smoothing"] is None and chosen["validation_fraction"] == "auto"
    is_whole = bool(schema.listed) or chosen["unobserved"] == "marginalize"
    is_enough = tasks >= members.LEAST_TASKS if has_tasks(schema) else n_rows >= members.LEAST_ROWS
    if not (is_free and is_predicted and is_whole and is_enough):
        return 1
    if has_tasks(schema):
        return len(members.USUAL_OF_TASKS)
    return members.AUTO_OF_LISTS if schema.listed else len(members.usual_members(n_rows))


def fit(
    chosen: Mapping[str, Any],
    table: Table,
    data: Data,
    n: int,
    seed: int,
    on_epoch: Callable[[dict[str, Any]], None],
) -> Outcome:
    """Train the members without some answers, and weigh them by these answers."""
    rng, missing, listed = np.random.RandomState(seed), chosen["missing"], data.schema.listed
    informed = with_answered(data.schema, table, alone=True) if missing == "auto" and not listed else data.schema
    has = (bool(data.schema.with_ordered_levels), informed is not data.schema and len(informed) > len(data.schema))
    wanted = members.population(chosen, n, data.evidence.n_rows, *has, bool(listed), has_tasks(data.schema))
    n_answers = sum(int(column_answers(data, name).sum()) for name in data.schema.modelled)
    most = members.MOST_OF_LISTS if listed else members.MOST_HELD_OUT
    share = min(_share_held_out(data), most / max(n_answers, 1))
    masked = masking.choose(data.schema, data.blocks, share, rng, data.weight > 0)
    chosen = {**chosen, "objective": "multi-prediction", "validation_fraction": 0.0}
    how = How(method="mean-field", n_steps=settings.PREDICTION_STEPS, unobserved=chosen["unobserved"])
    readings: set[Reading] = {"given", *(each.reading for each in wanted)}
    schemas = {reading: read_as(informed if "missing" in reading else data.schema, reading) for reading in readings}
    schemas["given"] = data.schema
    read = {each: _read(schemas[each], table, data, masked, chosen["unobserved"]) for each in readings}
    to_train = _to_train(read, data.weight)
    trained = members.train(chosen, to_train, wanted, seed, on_epoch)
    size = max(each.n_hidden for each in wanted), max(each.n_factors for each in wanted)
    alone = Member(0, 0, 0.0)
    found = [(each.member, each.params) for each in trained]
    found.append((alone, members.independent(chosen, to_train["given"], size)))
    routes = {} if missing == "ignorable" else gates.learn(data.schema, data.blocks, data.weight)
    questions = [Question(params, *read[member.reading], how, routes) for member, params in found]
    trials = [_trials(question, masked, data.weight) for question in questions]
    with ThreadPoolExecutor(members.at_once(len(questions))) as pool:  # two readings compile at the same time
        scores = list(pool.map(_scores, trials))
    _, answer_weight, column = scores[0]
    logs = np.stack([each[0] for each in scores])
    weight = members.stack(logs, answer_weight)
    lead = max(_able([member for member, _ in found[:-1]], bool(listed)), key=lambda place: weight[place])
    kept = [lead, *(p for p in range(len(found)) if p != lead and weight[p] >= members.LEAST_WEIGHT)]
    weight, means = weight / weight[kept].sum(), logs @ answer_weight / answer_weight.sum()
    by_column = {}
    for name in data.schema.modelled:
        is_own = column == name
        by_column[name] = members.stack_column(logs[kept][:, is_own], answer_weight[is_own], weight[kept])
    shares = {name: _shares(data, name) for name in data.schema.modelled}
    exponents = _exponents([trials[p] for p in kept], by_column, shares)
    parts = tuple(each.unfinished for each in trained)
    if not any(parts) and chosen["max_time"] is None:  # once the answers have weighed the members, they train them
        everything = {each: _read(schemas[each], table, data, {}, chosen["unobserved"]) for each in readings}
        all_data = _to_train(everything, data.weight)
        ended = members.finish(chosen, all_data, trained, seed)
        found = [(each.member, each.params) for each in ended]
        found.append((alone, members.independent(chosen, all_data["given"], size)))
    fitted = tuple(
        FittedMember(found[p][0], questions[p].schema, found[p][1], float(weight[p]), float(means[p])) for p in kept
    )
    fits = [each.fitted for each in trained]
    problem = next((text for each in fits if (text := _problem(each))), None)
    leader = fits[lead]._replace(problem=problem, converged=problem is None)
    rest = members.Interrupted(parts) if any(parts) else None
    last = [replace(questions[p], params=found[p][1]) for p in kept]
    whole = Population(fitted, exponents, by_column, routes, _anchors(last, by_column, shares, exponents))
    return Outcome(whole, members.active(found[lead][1], found[lead][0]), leader, rest)


def _able(trained: list[Member], has_lists: bool) -> list[int]:
    """Places of the members that may lead: they read the schema as it is, and have hidden units if any of these has.

    The traits that reports show are hidden units; of lists they are factors.
    """
    able = [place for place, each in enumerate(trained) if each.reading == "given"]
    return able if has_lists else [place for place in able if trained[place].n_hidden] or able


def _share_held_out(data: Data) -> float:
    """Share of the answers that weigh the members; of few tasks a larger one."""
    if not has_tasks(data.schema):
        return members.SHARE_HELD_OUT
    wanted = members.TASKS_HELD_OUT / max(n_tasks(data.blocks), 1)
    return float(np.clip(wanted, members.SHARE_HELD_OUT, members.MOST_OF_TASKS))


def _to_train(read: Mapping[Reading, _Read], weight: np.ndarray) -> dict[Reading, Data]:
    return {reading: Data(own.schema, own.blocks, own.evidence, weight) for reading, own in read.items()}


def _problem(fitted: course.Fitted) -> str | None:
    """Why a member should not be trusted; that its short training has not settled is no reason: weights know it."""
    return None if members.is_unsettled(fitted) else fitted.problem


def read_as(schema: Schema, reading: str) -> Schema:
    """The schema as a member reads it."""
    return schema.read_ordinals("utilities") if reading.startswith("utilities") else schema


def column_answers(data: Data, name: str) -> np.ndarray:
    column = data.schema[name]
    return column.form.scorable(column, data.blocks[name])


def _read(schema: Schema, table: Table, data: Data, masked: Mapping[str, np.ndarray], unobserved: Any) -> _Read:
    blocks, evidence = dict(data.blocks), data.evidence
    if schema is not data.schema:
        blocks = schema.compile(table)
        names = packing.Reading(schema.names, schema.site_names, schema.row_names(table))
        evidence = packing.pack(blocks.values(), unobserved, reading=names, most_widths=0)
    return _Read(schema, blocks, without(schema, blocks, evidence.on_host(), masked, unobserved, always=True))


def _trials(question: Question, masked: Mapping[str, np.ndarray], weight: np.ndarray) -> dict[str, ColumnTrial]:
    """The held-out answers of each column, put to one member."""
    found = {}
    for name, own in masked.items():
        if own.any():
            block = question.blocks[name]
            found[name] = ColumnTrial(name, question, block, own, line_weight(block, weight), None, ())
    return found


def _scores(trials: Mapping[str, ColumnTrial]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log score of each held-out answer by one member, its weight and column; pairs of ranked items do not count."""
    scores, weights, columns = [], [], []
    for name, trial in trials.items():
        column = trial.rest.schema[name]
        for tested in column.form.test(column, trial):
            if tested.answer in SCORED:
                scores.append(tested.score[""])
                weights.append(tested.weight)
                columns.append(np.full(len(tested.weight), name, object))
    return np.concatenate(scores), np.concatenate(weights), np.concatenate(columns)


def _shares(data: Data, name: str) -> Anchor | None:
    """The shares of a column's labels, without a correction of rows that have no answers."""
    column = data.schema[name]
    found = column.form.shares(column, data.blocks[name], data.weight)
    return None if found is None else Anchor(found, np.zeros_like(found))


def _anchors(
    questions: list[Question],
    column_weights: Mapping[str, np.ndarray],
    shares: Mapping[str, Anchor | None],
    exponents: Mapping[str, float],
) -> dict[str, Anchor]:
    """The shares of labels, and how far predictions for a row without any answer are from them; none beside lists."""
    if questions[0].schema.listed:
        return {}
    nobody, found, first = [_nobody(each) for each in questions], {}, Lines(np.zeros(1, int), np.zeros(1, int))
    for name, anchor in shares.items():
        if anchor is None:
            continue
        asks = [each.about(name, first, own=False) for each in nobody]
        mixed = MixedAsk(asks, column_weights[name], exponent(exponents, nobody[0], name), anchor)
        if family(nobody[0], name) == "utility":
            chance = mixed.largest()[0]
        else:
            n_levels = anchor.shares.shape[1]
            chance = np.concatenate([mixed.levels(n_levels, site) for site in range(len(anchor.shares))])
        found[name] = Anchor(anchor.shares, np.log(anchor.shares / np.maximum(chance, 1e-12)))
    return found


def _nobody(question: Question) -> Question:
    """One row without any answer, put to the same member."""
    evidence = question.evidence.rows(np.zeros(1, np.int64))
    slot = np.arange(len(evidence.shared))
    return replace(question, evidence=evidence.hide(np.zeros_like(slot), slot, question.how.unobserved).on_host())


def _exponents(
    trials: list[dict[str, ColumnTrial]],
    column_weights: Mapping[str, np.ndarray],
    shares: Mapping[str, Anchor | None],
) -> dict[str, float]:
    """The power of the mixed probabilities that predicts held-out answers best, by kind of column.

    Kinds of one family are pulled towards a common power.
    """
    totals: dict[str, dict[str, np.ndarray]] = {each: {} for each in CALIBRATED}
    for name, first in trials[0].items():
        column = first.rest.schema[name]
        own = totals.get(family(first.rest, name))
        if own is None:
            continue
        asks = cast(list[Asked], [each[name].ask for each in trials])
        mixed = MixedAsk(asks, column_weights[name], anchor=shares[name])
        trial = replace(first)
        trial.__dict__["ask"] = mixed
        for place, power in enumerate(members.POWERS):
            mixed.exponent = float(power)
            for tested in column.form.test(column, trial):
                if tested.answer in SCORED:
                    total = own.setdefault(column.kind, np.zeros(len(members.POWERS)))
                    total[place] += tested.score[""] @ tested.weight
    found = dict[str, float]()
    for each, own in totals.items():
        if own:
            found[each], of_kinds = members.calibrate(own)
            found |= of_kinds
    return found
