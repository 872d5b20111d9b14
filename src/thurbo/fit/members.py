"""§5 Several members in one fit: parameter sets of different sizes, decays and encodings, and their weights.

Idea: members share compiled programs; their weights, and how sure their mean should be, come from held-out answers.
Guarantees weights that sum to one, and the same members for the same seed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np

from thurbo import _runtime, parallel
from thurbo._typing import Array, Int, PRNGKey
from thurbo.fit import course, fitting, planning
from thurbo.fit.course import Told
from thurbo.fit.fitting import Checkpoint, Data, active_only, cut, pad
from thurbo.fit.planning import FitSettings, Plan
from thurbo.fit.stream import RowReading, Stream, WholeTable
from thurbo.fit.trainer import Layout, TrainState, folded
from thurbo.latent.packing import Padding
from thurbo.latent.rbm import Params
from thurbo.predict.model import MemberSettings, Reading

K = TypeVar("K")
V = TypeVar("V")

LEAST_ROWS = 200  # rows below which "auto" is one member
SHARE_HELD_OUT, MOST_HELD_OUT = 0.08, 50_000  # of the answers ...
MOST_OF_LISTS = 10_000  # ... and of the entries of lists, of which each one matters to its row


# Chosen on other answers of seven surveys than those of benchmarks; more members gained less than 0.001 nats. Two
# readings are two compiled programs. In each, one member has hidden units and one has only factors: what they get
# wrong differs more than between sizes and decays.
USUAL = (
    MemberSettings(20, 10, 0.03),
    MemberSettings(10, 5, 0.3, "utilities, missing"),
    MemberSettings(0, 10, 0.1, "utilities, missing"),
    MemberSettings(0, 10, 0.03),
)
MANY_ROWS = 5000  # from here on, members with less decay have all the weight
USUAL_OF_MANY_ROWS = (USUAL[0], MemberSettings(20, 10, 0.1, "utilities, missing"))
# Of lists: items are shrunk towards each other by the column's own settings, which the weight decay only adds to.
USUAL_OF_LISTS = (MemberSettings(0, 12, 1e-3), MemberSettings(30, 9, 1e-3))
AUTO_OF_LISTS = 3 * len(USUAL_OF_LISTS)  # number of members ...
AUTO_BESIDE_DRAWS = len(USUAL_OF_LISTS)  # ... and of those that are trained beside draws of the parameters
# Of tasks: how far persons differ is not known before, and a few judges may make all comparisons. Shrinkage from little
# to much, so that held-out tasks choose it; the member without dependence has no differences at all.
USUAL_OF_TASKS = (
    MemberSettings(0, 12, 1e-3),
    MemberSettings(30, 9, 1e-3),
    MemberSettings(0, 12, 1e-3, shrinkage=3.0),
    MemberSettings(30, 9, 1e-3, shrinkage=3.0),
    MemberSettings(0, 6, 1e-3, shrinkage=10.0),
    MemberSettings(0, 6, 1e-3, shrinkage=40.0),
)
LEAST_TASKS = 200  # tasks below which "auto" is one member
TASKS_HELD_OUT, MOST_OF_TASKS = 400, 0.2  # tasks to hold out if there are enough, and the largest share of them
UPDATES, EPOCHS, LEARNING_RATE = 1000, (12, 100), 0.02  # of each member
LEAST_UPDATES, MOST_RATE = 500, 1.5  # of a table with few rows, at a rate that is higher by this factor
RATE_OF_LISTS = 0.007
LAST_SHARE, LAST_RATE = 0.15, 0.3  # epochs and rate of the last part of training, with all answers, relative to these
USUAL_ROWS = 1000
STEP = 1.2  # in which sizes grow


def usual_members(n_rows: int) -> tuple[MemberSettings, ...]:
    """The members of a table with so many rows, before they grow with it."""
    return USUAL_OF_MANY_ROWS if n_rows >= MANY_ROWS else USUAL


def population(
    chosen: FitSettings,
    n: int,
    n_rows: int,
    has_levels: bool,
    has_gaps: bool,
    has_lists: bool = False,
    has_tasks: bool = False,
) -> list[MemberSettings]:
    """The settings of `n` members; more rows allow larger models with less decay. What the user chose is kept.

    Without ordered levels, or without patterns of missing answers, the readings that differ in them are one.
    """
    grow = 1.0 if has_lists else max(1.0, (n_rows / USUAL_ROWS) ** 0.5)
    sizes = STEP ** int(np.log(grow) / np.log(STEP) + 1e-9)  # a few sizes, so that tables share compiled programs
    every = usual_members(n_rows)
    if has_lists:
        every = USUAL_OF_TASKS if has_tasks else USUAL_OF_LISTS
    found = []
    for place in range(n):
        usual = every[place % len(every)]
        n_hidden, n_factors = (round(sizes * each) for each in (usual.n_hidden, usual.n_factors))
        if chosen.n_hidden != "auto":
            n_hidden, n_factors = int(chosen.n_hidden), 0
        if chosen.n_factors != "auto":
            n_factors = int(chosen.n_factors)
        if n_hidden == n_factors == 0 and chosen.n_hidden == "auto":  # it had only factors, and none are wanted
            n_hidden = round(sizes * usual.n_factors)
        decay = usual.weight_decay / grow**0.5 if chosen.weight_decay_is_auto else float(chosen.weight_decay)
        reading = usual.reading if has_levels else usual.reading.replace("utilities", "given")
        reading = reading if has_gaps else reading.removesuffix(", missing")
        found.append(MemberSettings(n_hidden, n_factors, decay, cast(Reading, reading), usual.shrinkage))
    return found


def length(chosen: FitSettings, data: Data) -> course.Length:
    """Length of training of each member: shorter than that of a single model, since several are averaged."""
    cells, max_epochs = fitting.lengths(chosen, data)
    usual = RATE_OF_LISTS if data.schema.listed else LEARNING_RATE
    if chosen.max_epochs == "auto" and not data.schema.listed:
        n_batches = data.evidence.n_batches(cells)
        updates = np.clip(LEAST_UPDATES * data.evidence.n_rows / USUAL_ROWS, LEAST_UPDATES, UPDATES)
        max_epochs = int(np.clip(updates // n_batches, *EPOCHS))
        usual *= float(np.clip(UPDATES / (max_epochs * n_batches), 1.0, MOST_RATE))
    rate = usual if chosen.learning_rate_is_auto else float(chosen.learning_rate)
    return course.Length(cells, max_epochs, rate)


class Trained(NamedTuple):
    """One member after training: its parameters with all units, unused ones included, and its fit."""

    member: MemberSettings
    params: Params
    fitted: course.Fitted


class Interrupted(NamedTuple):
    """A fit that was interrupted: where each member can be resumed, None if it had ended.

    Of a large table, first on the sample and then on all rows.
    """

    parts: tuple[course.Run | None, ...]

    @property
    def run(self) -> course.Run:
        """The run of the member that came furthest."""
        return max((each for each in self.parts if each is not None), key=lambda run: run.number)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a checkpoint for each member, from which `fit` resumes."""
        for place, run in enumerate(self.parts):
            if run is not None and (own := checkpoint_of(path, place)) is not None:
                Checkpoint(own, run.mark).write(run)


def checkpoint_of(path: str | PathLike[str] | None, place: int) -> Path | None:
    """The checkpoint of a member: the file that the user named, and for the others this name with a number."""
    if path is None:
        return None
    return Path(f"{os.fspath(path)}.{place + 1}") if place else Path(path)


class Shared(NamedTuple):
    """What the members of one reading share; with `padding`, states and layouts are in a common shape."""

    chosen: FitSettings
    data: Data
    size: tuple[int, int]
    padding: Padding | None

    @property
    def plan(self) -> Plan:
        return planning.plan(replace(self.chosen, weight_decay=0.0), *self.size)

    def layout(self, member: MemberSettings) -> Layout:
        """The layout of a member, with unused units."""
        decay = (member.weight_decay * shrinkage(self.data)).astype(np.float32)
        found = active_only(self.data.layout, self.size, member.n_hidden, member.n_factors)
        factor = jax.device_put(np.float32(member.shrinkage)) if self.data.schema.listed else None
        found = found._replace(decay=jax.device_put(decay), shrinkage=factor)
        return found if self.padding is None else pad(self.padding, found)

    def start(self, key: PRNGKey, member: MemberSettings) -> tuple[TrainState, Layout]:
        """The initial state of a member, and its layout."""
        layout, n_chains = self.layout(member), fitting.chains_of(self.chosen)
        state = fitting.start(key, self.data, self.size, n_chains, self.plan, padding=self.padding)
        return cut(state, layout), layout

    def params(self, found: Params) -> Params:
        """The parameters of the table's own sites."""
        return found if self.padding is None else self.padding.own_params(found, self.data.n_cuts)


def train(
    chosen: FitSettings,
    data: Mapping[Reading, Data],
    members: Sequence[MemberSettings],
    seed: int,
    on_epoch: Told,
    share_of_time: float = 1.0,
) -> list[Trained]:
    """Train all members, with `max_time` in a share of it."""
    shared, devices = _prepared(chosen, data, members), parallel.chosen(chosen.devices)
    n, n_workers = len(members), at_once(len(members), devices)
    total = n * max(own_length.max_epochs for *_, own_length in shared.values())
    stop, seconds = threading.Event(), seconds_of_each(chosen, n, n_workers, share_of_time)
    told = counted("fitting", total, total, on_epoch, stop, f"{n} members, ")

    def one(place: int) -> Trained:
        member = members[place]
        own, rows, own_length = shared[member.reading]
        _, key_start, key_fit = _keys(np.int32(seed), np.int32(place))
        state, layout = own.start(key_start, member)
        where, about = checkpoint_of(chosen.checkpoint, place), (layout, own.plan, own_length)
        how: dict[str, Any] = {"devices": devices.only(place), "on_epoch": told, "limit": course.time_limit(seconds)}
        fitted = fitting.train(where, (rows, state, *about), key_fit, state, rows, *about, **how)
        return Trained(member, own.params(fitted.params), fitted)

    on_epoch({"stage": "fitting", "done": 0, "of": total, "figure": f"{n} members, compiling"})
    return _side_by_side(one, n, n_workers, stop)


def _side_by_side(one: Callable[[int], Trained], n: int, n_workers: int, stop: threading.Event) -> list[Trained]:
    """What `one` makes of each member, so many at a time; an interrupt ends them all after their epoch."""
    with ThreadPoolExecutor(n_workers) as pool:
        waiting = [pool.submit(one, place) for place in range(n)]
        try:
            return [each.result() for each in waiting]
        except KeyboardInterrupt:
            stop.set()
            return [each.result() for each in waiting]


def counted(stage: str, of: int, n_epochs: int, on_epoch: Told, stop: threading.Event, about: str = "") -> Told:
    """What is told of an epoch of any member: how many of all there were, as a part `of` a stage, until `stop`."""
    lock, done = threading.Lock(), 0

    def told(record: dict[str, Any]) -> None:
        nonlocal done
        if stop.is_set():
            raise KeyboardInterrupt
        with lock:
            done += 1
            figure = f"{about}mean log-likelihood per answer (nats): {record['objective']:.4f}"
            on_epoch({"stage": stage, "done": round(of * done / n_epochs), "of": of, "figure": figure})

    return told


def seconds_of_each(chosen: FitSettings, n_members: int, n_workers: int, share: float = 1.0) -> float | None:
    """Seconds for the training of each member, of a share of `max_time`; None without a limit."""
    if chosen.max_time is None:
        return None
    return share * float(chosen.max_time) / -(-n_members // n_workers)


def _prepared(
    chosen: FitSettings, data: Mapping[Reading, Data], members: Sequence[MemberSettings]
) -> dict[Reading, tuple[Shared, course.WeightedRows, course.Length]]:
    """What members of each reading share, their rows and the length of their training."""
    size, found = largest_size(members), {}
    for reading in {each.reading for each in members}:
        own = data[reading]
        padding, evidence, weight = own.padding, own.evidence, own.relative_weight
        if padding is not None:
            evidence = padding.table(evidence)
            weight = np.resize(weight, evidence.buckets[0].n_rows)
        rows = course.WeightedRows(evidence.on_device(), weight)
        found[reading] = Shared(chosen, own, size, padding), rows, length(chosen, own._replace(evidence=evidence))
    return found


def largest_size(wanted: Sequence[MemberSettings]) -> tuple[int, int]:
    """Hidden units and factors of all members together, unused ones included."""
    return max(each.n_hidden for each in wanted), max(each.n_factors for each in wanted)


def in_threads(one: Callable[[K], V], tasks: Collection[K]) -> list[V]:
    """The results of tasks on the host, as many at a time as there are cores, in their order."""
    with ThreadPoolExecutor(max(1, min(len(tasks), n_cores()))) as pool:
        return list(pool.map(one, tasks))


def at_once(n_members: int, devices: parallel.Devices = parallel.UNDIVIDED) -> int:
    """How many members are trained, or asked, at a time.

    On an accelerator two, which are compiled side by side, or as many as there are devices.
    """
    return min(n_members, n_cores() if jax.default_backend() == "cpu" else max(2, devices.n_own))


def shrinkage(data: Data) -> np.ndarray:
    """How much stronger the weight decay of each site is than that of the model, [site]."""
    found = np.ones(data.schema.n_sites, np.float32)
    for name in data.schema.with_sites:
        column = data.schema[name]
        found[data.schema.slices[name]] = column.form.shrinkage(data.blocks[name], data.weight)
    return found


@partial(jax.jit, compiler_options=_runtime.RUNS_ONCE)
def _keys(seed: Int[Array, ""], place: Int[Array, ""]) -> tuple[PRNGKey, ...]:
    """The key of a member, and from it those of its initial values and of its training."""
    key = jax.random.fold_in(jax.random.key(seed), place)
    return key, *jax.random.split(key)


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def finish(
    chosen: FitSettings,
    data: Mapping[Reading, Data],
    trained: Sequence[Trained],
    seed: int,
    on_epoch: Told,
) -> list[Trained]:
    """Continue for a few epochs with all answers, also those that were held out, at a low rate that falls to zero."""
    shared, devices = _prepared(chosen, data, [each.member for each in trained]), parallel.chosen(chosen.devices)

    def one(place: int) -> Trained:
        each = trained[place]
        own, rows, whole = shared[each.member.reading]
        epochs, rate = max(1, round(LAST_SHARE * whole.max_epochs)), LAST_RATE * whole.learning_rate
        short = whole._replace(max_epochs=epochs, learning_rate=rate)
        key = _keys(np.int32(seed), np.int32(len(trained) + place))[0]
        again = each.fitted.state._replace(step=jax.device_put(np.int32(0)))
        how: dict[str, Any] = {"devices": devices.only(place), "on_epoch": on_epoch}
        how["work"] = float(rows.n_cells) * whole.max_epochs
        found = course.fit(key, again, rows, own.layout(each.member), own.plan, short, **how)
        return each if found.problem and not is_unsettled(found) else each._replace(params=own.params(found.params))

    return _side_by_side(one, len(trained), at_once(len(trained), devices), threading.Event())


RATE_OF_ALL, BATCH_OF_ALL = 0.3, 512  # rate when all rows of a large table are used, relative to that before; a batch


def batch_of_all(chosen: FitSettings) -> int:
    """Rows of a batch when all rows of a large table are used."""
    return BATCH_OF_ALL if chosen.batch_size == "auto" else int(chosen.batch_size)


def over_all_rows(
    chosen: FitSettings,
    data: Mapping[Reading, Data],
    whole: WholeTable,
    trained: Sequence[Trained],
    masked: Mapping[str, np.ndarray],
    seed: int,
    on_epoch: Told,
) -> list[Trained]:
    """Continue with all rows of a large table but for `masked` answers: one pass, at a rate that falls to zero."""
    readings = {name: RowReading(name, data[name]) for name in ("given", *(each.member.reading for each in trained))}
    whole.read(list(readings.values()), masked, on_epoch)
    size, n = largest_size([each.member for each in trained]), len(trained)
    streams = [Stream(whole, readings[each.member.reading], seed, chosen.unobserved) for each in trained]
    # Programs that several devices compute together must be started in the same order on all of them.
    n_workers = 1 if whole.devices else at_once(n)
    stop, seconds = threading.Event(), seconds_of_each(chosen, n, n_workers, 0.5)
    told = counted("fitting to all rows", whole.n_rows, sum(each.n_pools for each in streams), on_epoch, stop)

    def one(place: int) -> Trained:
        each, own = trained[place], data[trained[place].member.reading]
        shared, state = Shared(chosen, own, size, None), each.fitted.state
        state = state if own.padding is None else fitting.unpadded(state, own.padding, own.n_cuts)
        before = each.fitted._replace(params=each.params, state=state)
        about = shared.layout(each.member), shared.plan, RATE_OF_ALL * length(chosen, own).learning_rate
        key, where = _keys(np.int32(seed), np.int32(2 * n + place))[0], checkpoint_of(chosen.checkpoint, n + place)
        found = pass_over(key, streams[place], before, *about, where, seconds, told)
        return Trained(each.member, found.params, found)

    return _side_by_side(one, n, n_workers, stop)


def pass_over(
    key: PRNGKey,
    stream: Stream,
    before: course.Fitted,
    layout: Layout,
    plan: Plan,
    rate: float,
    checkpoint: Path | None,
    seconds: float | None,
    on_epoch: Told,
) -> course.Fitted:
    """A fit to a sample, continued with all rows; the history has a record of each pool of rows."""
    state = parallel.agreed(before.state)._replace(step=jax.device_put(np.int32(0)))
    about = layout, replace(plan, in_order=True), course.Length(0, stream.n_pools, rate)
    limit = course.time_limit(seconds, is_shared=True)
    how: dict[str, Any] = {"devices": stream.devices, "on_epoch": on_epoch, "limit": limit}
    try:
        # Without the parameters: rounding may differ between machines, and the checkpoint of the sample has them.
        found = fitting.train(checkpoint, (stream.digest, *about), key, state, stream, *about, **how)
    finally:
        stream.close()
    was_settled = None if is_unsettled(before) else before.problem
    if found.problem and not is_unsettled(found) and found.unfinished is None and limit is None:
        return before._replace(problem=found.problem)  # it failed: what the sample has taught is kept
    history = before.history + [{**own, "epoch": own["epoch"] + len(before.history)} for own in found.history]
    problem = was_settled if is_unsettled(found) or found.problem is None else found.problem
    return found._replace(history=history, problem=problem)


def is_unsettled(fitted: course.Fitted) -> bool:
    """Whether the only problem of a short training is that its objective has not settled."""
    return bool(fitted.history) and fitted.history[-1].get("settled") is False


def independent(chosen: FitSettings, data: Data, size: tuple[int, int]) -> Params:
    """The model without dependence, at the frequencies of the answers: as large as the other members."""
    own = Shared(chosen, data, size, data.padding)
    state, layout = own.start(_keys(np.int32(0), np.int32(0))[0], MemberSettings(0, 0, 0.0))
    return own.params(folded(state.learnable, state.centre, layout))


def active(params: Params, member: MemberSettings) -> Params:
    """The parameters without the unused units and factors."""
    both = np.r_[: member.n_hidden, params.n_hidden : params.n_hidden + member.n_factors]
    return params._replace(
        presence=None if params.presence is None else params.presence[:, both],
        effects=None if params.effects is None else params.effects[:, np.r_[0, 1 + both]],
        weights=params.weights[:, : member.n_hidden],
        hidden_bias=params.hidden_bias[: member.n_hidden],
        hidden_mean=params.hidden_mean[: member.n_hidden],
        loadings=params.loadings[:, : member.n_factors],
    )


PRIOR_ANSWERS = 10.0  # answers by which weights are pulled to equal ones
LEAST_WEIGHT = 0.01  # members below it are dropped
PRIOR_OF_COLUMN = 5.0  # answers by which the weights for a column are pulled to those for all columns ...
SHARED = 0.9  # ... and, by the rest of this share, to equal ones
POWERS = np.exp(np.linspace(-0.5, 0.5, 21))  # of probabilities, from which calibration chooses
PRIOR_OF_POWER = 100.0  # answers by which their common power is pulled to one ...
PRIOR_OF_KIND = 40.0  # ... and that of a kind of column to the common one


def calibrate(totals: Mapping[str, np.ndarray]) -> tuple[float, dict[str, float]]:
    """The power of probabilities that is best for all kinds of columns, and for each kind one that is pulled to it.

    `totals` are log-likelihoods of held-out answers for each of `POWERS`, by kind.
    """
    logs = np.log(POWERS)
    shared = logs[np.argmax(sum(totals.values()) - 0.5 * PRIOR_OF_POWER * logs**2)]
    prior = 0.5 * PRIOR_OF_KIND * (logs - shared) ** 2
    return float(np.exp(shared)), {kind: float(POWERS[np.argmax(own - prior)]) for kind, own in totals.items()}


def stack_column(log_p: np.ndarray, weight: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Weights of members for one column, from its own held-out answers and the weights for all columns."""
    around = SHARED * shared / shared.sum() + (1.0 - SHARED) / len(shared)
    return stack(log_p, weight, PRIOR_OF_COLUMN * around)


def stack(log_p: np.ndarray, weight: np.ndarray, prior: np.ndarray | None = None, n_steps: int = 1000) -> np.ndarray:
    """Weights of members that maximise Σ log Σ_m w_m p_m of held-out answers, by EM: log_p is [member, answer].

    `prior` are answers that each member has from the start.
    """
    n_members = len(log_p)
    prior = np.full(n_members, PRIOR_ANSWERS / n_members) if prior is None else prior
    chance = np.exp(log_p - log_p.max(axis=0, initial=-np.inf))
    share = prior / prior.sum()
    for _ in range(n_steps):
        part = share[:, None] * chance
        part = part / part.sum(axis=0) * weight
        found = (part.sum(axis=1) + prior) / (weight.sum() + prior.sum())
        if np.abs(found - share).max() < 1e-6:
            return found
        share = found
    return share
