"""§5, A.2.4 The epochs of a fit, on the host: held-out rows, learning-rate schedule, recovery, progress and warnings.

The best parameters are kept. If the held-out score stops improving, the rate starts to decay from the best state. If
chains diverge from the data or numbers are not finite, training returns to the best state with a lower rate. `history`
records each of these events, and in its last record whether the objective has settled.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import parallel
from thurbo._typing import Array, Float, PerRow, PRNGKey
from thurbo.errors import ConvergenceWarning
from thurbo.fit import objective as objectives
from thurbo.fit.planning import Plan
from thurbo.fit.trainer import Info, Layout, Schedule, TrainState, epoch, folded
from thurbo.latent.evidence import CELLS, Buckets, Evidence
from thurbo.latent.inference import gibbs
from thurbo.latent.inference.diagnostics import is_stuck
from thurbo.latent.rbm import Params

TOLERANCE = 0.01  # gain from the last doubling of training (nats per answer) that still counts as settled
WHILE_FALLING = TOLERANCE / 4  # the same for the rise while the rate falls, which is about a seventh of all training
NOISE = 2.0  # standard errors of a rise that are added to the tolerance
LEAST = 8  # fewest epochs at the full rate from which this can be told
STOPPED_IMPROVING = "the held-out score stopped improving"

Told = Callable[[dict[str, Any]], None]  # is given the record of an epoch, or of an earlier stage


def unsettled(history: Sequence[Mapping[str, Any]], n_full: int, factor: float = 1.0) -> str | None:
    """Why the objective has not settled, and what to do; None if it has. The rate falls after `n_full` epochs.

    `factor` multiplies the tolerances. Held-out scores count where there are enough of them, otherwise the training
    objective. A fit whose held-out score stopped improving has settled.
    """
    if any(str(record.get("event", "")).startswith(STOPPED_IMPROVING) for record in history):
        return None
    n = len(history)
    if n_full < LEAST:
        return too_few(n)
    name = "held_out" if sum("held_out" in record for record in history[:n_full]) >= LEAST else "objective"
    epoch, value = np.asarray([(record["epoch"], record[name]) for record in history if name in record], np.float64).T
    falling = (epoch - n_full) / max(n - n_full, 1)  # 0 where the rate begins to fall, 1 at the end
    rises = [
        _rise(value, (epoch > n_full // 4) & (epoch <= n_full // 2), (epoch > n_full // 2) & (epoch <= n_full)),
        _rise(value, (falling > 0.2) & (falling <= 0.4), falling > 0.6),
    ]
    tolerances = (factor * TOLERANCE, factor * WHILE_FALLING)
    if any(rise <= least + NOISE * error for (rise, error), least in zip(rises, tolerances, strict=True)):
        return None
    what = "held-out score" if name == "held_out" else "objective"
    rising = f"the last doubling of training raised it by {rises[0][0]:.3f} nats per answer"
    remedy = f"more epochs may give a better model, for example max_epochs={2 * n}"
    return f"the {what} had not settled after {n} epochs: {rising}; {remedy}"


def parted(history: Sequence[Mapping[str, Any]], activation: float, density: float) -> str | None:
    """How far the chains without evidence are from the data, on average over some epochs; None if they agree."""
    gap = float(np.mean([record.get("gap", 0.0) for record in history]))
    if gap > activation:
        return f"probabilities of hidden units differ by {gap:.2f} (root mean square)"
    apart = float(np.mean([record.get("density_gap", 0.0) for record in history]))
    if abs(apart) > density:
        return f"log-densities of x differ by {abs(apart):.1f} standard deviations"
    return None


def too_few(n: int) -> str:
    """That n epochs cannot show whether the objective has settled, and what to do."""
    few = f"{'1 epoch is' if n == 1 else f'{n} epochs are'} too few to tell whether the objective has settled"
    return f"{few}; give more, max_epochs={2 * LEAST} or above"


def _rise(value: np.ndarray, early: np.ndarray, late: np.ndarray) -> tuple[float, float]:
    """The mean of `late` values minus that of `early` ones, and its standard error; infinite if there are none."""
    if not early.any() or not late.any():
        return np.inf, 0.0
    # From successive differences, which hardly contain the trend.
    noise = float(np.sqrt(np.square(np.diff(value[early.argmax() :])).mean() / 2))
    return float(value[late].mean() - value[early].mean()), noise * float(np.sqrt(1 / early.sum() + 1 / late.sum()))


PARTED, PARTED_AT_END = 0.3, 0.1  # root mean square difference of activations between chains and data: they have parted
PARTED_DENSITY, PARTED_DENSITY_AT_END = 10.0, 2.0  # the same for log f(x), in standard deviations
PARTED_ANNEALED = 0.2  # difference of activations between annealed chains and data
LAST = 20  # one epoch of so many, the last ones, shows whether chains and data agree
COLLAPSE = 0.5  # allowed loss of log-likelihood per answer (nats), from the best held-out score or from the start
MOST_RECOVERIES = 3
NEVER = 1e30  # a step that is never reached
MOST_LOG = 80.0  # of a scale or a gap between cuts; e⁸⁸ is not finite in single precision
AHEAD, FEW_CELLS, MANY_EPOCHS = 32, 2000, 100  # epochs started together, of a table with so few cells and many epochs
HURRY = 0.5  # share of the time limit after which the rate starts to decay


class WeightedRows(NamedTuple):
    """Evidence with the weight of each row, on the host: what an epoch passes over."""

    evidence: Buckets
    weight: Any  # [row]

    @property
    def n_cells(self) -> int:
        """Cells of an epoch."""
        return self.evidence.n_cells

    def n_batches(self, cells: int) -> int:
        """Batches of an epoch."""
        return self.evidence.n_batches(cells)

    def prepared(self, devices: parallel.Devices) -> WeightedRows:
        """The same on all of some devices, each of which computes a part of every batch."""
        buckets, weight = devices.everywhere((self.evidence.buckets, jax.device_put(self.weight)))
        return WeightedRows(replace(self.evidence, buckets=buckets), weight)

    def epoch(self, number: int, key: PRNGKey, state: TrainState, *how: Any) -> tuple[TrainState, Info]:
        """One pass over the rows, as `trainer.epoch`; all passes are alike."""
        return epoch(key, state, self.evidence, self.weight, *how)


@runtime_checkable
class EpochRows(Protocol):
    """Rows that training passes over, as `WeightedRows` does."""

    @property
    def n_cells(self) -> int: ...

    def n_batches(self, cells: int) -> int: ...

    def prepared(self, devices: parallel.Devices) -> EpochRows: ...

    def epoch(self, number: int, key: PRNGKey, state: TrainState, *how: Any) -> tuple[TrainState, Info]: ...


class Length(NamedTuple):
    """Length of training: cells in a batch, epochs, the peak rate, and checks without improvement before it decays.

    If `falls` is false, the rate stays at its peak: for a fit that is continued later.
    """

    cells: int
    max_epochs: int
    learning_rate: float
    patience: int = 10
    falls: bool = True


class TimeLimit(NamedTuple):
    """Time limit of a call of `fit` in seconds, its start, and whether all processes follow the clock of the first."""

    seconds: float
    began: float
    is_shared: bool = False

    @property
    def used(self) -> float:
        """Share of the time that has passed."""
        return self.agreed((time.perf_counter() - self.began) / self.seconds)

    def agreed(self, value: float) -> float:
        """What the first process says, if the limit is shared."""
        return float(parallel.told(value)[0]) if self.is_shared else value


def time_limit(seconds: float | None, is_shared: bool = False) -> TimeLimit | None:
    """A limit of so many seconds from now on; None is no limit."""
    return None if seconds is None else TimeLimit(seconds, time.perf_counter(), is_shared)


class Fitted(NamedTuple):
    """The result of a fit."""

    params: Params
    history: list[dict[str, Any]]
    problem: str | None
    state: TrainState
    unfinished: Run | None = None  # where a fit that was interrupted can be resumed

    @property
    def converged(self) -> bool:
        return self.problem is None


@dataclass
class Run:
    """State of a fit between two epochs: the content of a checkpoint, and the fingerprint of its fit."""

    state: TrainState
    best: TrainState
    fall: tuple[float, float]
    rate: float
    number: int = 0
    best_score: float = -np.inf
    since_best: int = 0
    recoveries: int = 0
    more_steps: int = 1
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    mark: str = ""


def held_out_score(key: PRNGKey, params: Params, rows: WeightedRows, plan: Plan) -> float:
    """Log-likelihood per answer of held-out rows: of masked answers, or of all answers if exact."""
    table, sums = rows.evidence, []
    every = [np.arange(len(place)) for place in table.places]
    cells = table.n_cells if table.sites_shared else CELLS
    for number, (bucket, index, real) in enumerate(table.batches(every, cells)):
        weight = rows.weight[table.places[bucket][index]] * real.astype(np.float32)
        own_key = key if table.sites_shared else jax.random.fold_in(key, number)
        sums.append(_held_out_sums(own_key, params, table.buckets[bucket].rows(index), weight, plan))
    total, count = (np.sum([float(one) for one in each]) for each in zip(*sums, strict=True))
    return float(total / max(count, 1.0))


@partial(jax.jit, static_argnames=("plan",))
def _held_out_sums(
    key: PRNGKey, params: Params, evidence: Evidence, weight: PerRow, plan: Plan
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    if plan.objective == "exact":
        value, slots = objectives.exact(params, evidence), evidence.observed
    else:
        slots = plan.masking(key, evidence)
        value, _ = objectives.multi_prediction(params, evidence, slots, plan)
    count = (weight * evidence.n_answers(slots).astype(weight.dtype)).sum()
    return (weight * value).sum(), count


def fit(
    key: PRNGKey,
    state: TrainState,
    rows: EpochRows,
    layout: Layout,
    plan: Plan,
    length: Length,
    *,
    devices: parallel.Devices = parallel.UNDIVIDED,
    held_out: WeightedRows | None = None,
    on_epoch: Told | None = None,
    resume: Run | None = None,
    on_run: Callable[[Run], None] | None = None,
    limit: TimeLimit | None = None,
    work: float | None = None,
) -> Fitted:
    """Train; an interrupt (Ctrl-C) or the time limit ends training early and keeps the best parameters.

    `on_run` is called with the run after every epoch. `resume` continues a run; the result is as without a break.
    `work` is the number of cells of all epochs with this program, where these are not only those of this call.
    """
    work = float(rows.n_cells) * length.max_epochs if work is None else work
    n_batches = rows.n_batches(length.cells)
    total = length.max_epochs * n_batches
    fall = (0.5 * total, float(total)) if length.falls else (NEVER, 2 * NEVER)
    run = resume or Run(state, state, fall, length.learning_rate)
    # Several epochs are started together if starting one takes as long as the epoch, and there are many.
    is_small = rows.n_cells <= FEW_CELLS and length.max_epochs >= MANY_EPOCHS and limit is None
    n_ahead = AHEAD if is_small else 1
    training = _Training(
        run, key, rows.prepared(devices), layout, plan, length, devices, held_out, limit, work, n_batches, n_ahead
    )
    started, before, whole = time.perf_counter(), run.seconds, run  # the run as it was between two epochs
    problem = unfinished = None
    try:
        while problem is None and run.number < length.max_epochs and float(run.state.step) < run.fall[1]:
            whole = replace(run, history=list(run.history))
            moved, record, is_finite = training.next_epoch()
            run.seconds = record["seconds"] = before + time.perf_counter() - started
            run.history.append(record)
            problem = training.go_on(moved, record, is_finite)
            if problem is not None:
                break
            if on_epoch is not None:
                on_epoch(record)
            problem = training.keep_time(record)
            if on_run is not None:
                on_run(run)
    except KeyboardInterrupt:
        if parallel.is_distributed():  # others do not stop here
            raise
        problem = f"interrupted after {run.number} of {length.max_epochs} epochs; the parameters are the best so far"
        unfinished = whole
    kept = run.best if held_out is not None else run.state
    params = folded(kept.learnable, kept.centre, layout)
    if problem is None and length.falls and run.history and plan.objective == "likelihood":
        problem = training.disagreement(params)
    if problem is None and length.falls and run.history:
        # What the likelihood reports is log P(e | h), which rises more than log P(e) while hidden units get surer.
        factor = 5.0 if plan.objective == "likelihood" else 1.0
        problem = unsettled(run.history, min(run.number, int(run.fall[0] / n_batches)), factor)
        run.history[-1]["settled"] = problem is None
    return Fitted(params, run.history, problem, kept, unfinished)


_annealed = jax.jit(gibbs.annealed_activation)


@dataclass
class _Training:
    """One call of `fit`: its run, and what it passes over, where and how."""

    run: Run
    key: PRNGKey
    rows: EpochRows
    layout: Layout
    plan: Plan
    length: Length
    devices: parallel.Devices
    held_out: WeightedRows | None
    limit: TimeLimit | None
    work: float
    n_batches: int
    n_ahead: int  # epochs of a small table are started together: the host need not wait for each of them
    waiting: list[tuple[TrainState, Info]] = field(default_factory=list)
    after: tuple[Any, ...] = ()  # what those that wait follow on: if it has changed, they do not count

    def next_epoch(self) -> tuple[TrainState, dict[str, Any], bool]:
        """The next state, the record of its epoch, and whether all is finite."""
        run, plan = self.run, self.plan
        settings = run.rate, run.fall, run.more_steps
        if not self.waiting or self.after[0] is not run.state or self.after[1:] != (run.number, *settings):
            self.waiting = self._epochs()
        moved, info = self.waiting.pop(0)
        run.number += 1
        self.after = moved, run.number, *settings
        record: dict[str, Any] = {
            "epoch": run.number,
            "objective": float(info.objective),
            "gradient_norm": float(info.gradient_norm),
            "activation": float(np.asarray(info.activation).mean()) if info.activation.size else 0.0,
        }
        if plan.keeps_chains or plan.objective == "likelihood":
            apart = np.asarray(info.activation) - np.asarray(info.model_activation)
            record["gap"] = float(np.sqrt(np.square(apart).mean())) if apart.size else 0.0
        if plan.objective == "likelihood":
            record |= {"density_gap": float(info.density_gap), "flips": float(info.flips)}
        is_checked = run.number % max(1, self.length.max_epochs // 50) == 0
        is_checked = is_checked or run.number == self.length.max_epochs or float(moved.step) >= run.fall[1]
        is_finite = _all_finite(record["objective"], moved)
        if self.held_out is not None and is_checked and is_finite:
            params = folded(moved.learnable, moved.centre, self.layout)
            record["held_out"] = held_out_score(jax.random.fold_in(self.key, 2**30), params, self.held_out, plan)
        return moved, record, is_finite

    def _epochs(self) -> list[tuple[TrainState, Info]]:
        """The next epochs from the current state."""
        run, plan = self.run, self.plan
        more = run.more_steps if plan.uses_chains else 1
        how = replace(plan, n_negative_steps=plan.n_negative_steps * more), self.length.cells, self.work
        schedule = Schedule(*jax.device_put([np.asarray(value, np.float32) for value in (run.rate, *run.fall)]))
        found, state = list[tuple[TrainState, Info]](), run.state
        for number in range(run.number, min(run.number + self.n_ahead, self.length.max_epochs)):
            inputs = jax.random.fold_in(self.key, number), state, self.layout, schedule
            found.append(self.devices.run(self.rows.epoch, number, *self.devices.everywhere(inputs), *how))
            state = found[-1][0]
        return found

    def go_on(self, moved: TrainState, record: dict[str, Any], is_finite: bool) -> str | None:
        """Accept the new state, or return to the best one; returns a message if recovery failed too often."""
        run, is_watched = self.run, self.held_out is not None
        score = record.get("held_out", None if is_watched else record["objective"])
        # Masked cells differ between epochs, so the objective is compared with that of the independent model only.
        least = (run.best_score if is_watched else run.history[0]["objective"]) - COLLAPSE
        trouble = None
        if not is_finite:
            trouble = "parameters or objective are not finite"
        elif run.number > 3 and (apart := parted([record], PARTED, PARTED_DENSITY)) is not None:
            trouble = f"the chains without evidence diverged from the data: {apart}"
        elif score is not None and np.isfinite(least) and score < least:
            what = "held-out score" if is_watched else "objective"
            trouble = f"the {what} fell to {score:.3f} from {least + COLLAPSE:.3f}"
        if trouble is not None:
            if run.recoveries == MOST_RECOVERIES:
                return f"training failed in epoch {run.number}: {trouble}; the best earlier parameters are kept"
            self._recover(trouble, record)
            return None
        run.state = moved
        if score is None:
            return None
        if score > run.best_score:
            run.best_score, run.best, run.since_best = score, moved, 0
        else:
            run.since_best += 1
        is_full = self.length.falls and float(moved.step) < run.fall[0]
        if is_watched and is_full and run.since_best >= self.length.patience:
            first = float(run.best.step)
            run.state, run.since_best = run.best, 0
            run.fall = (first, first + max(0.2 * first, 5.0 * self.n_batches))
            record["event"] = f"{STOPPED_IMPROVING}: the learning rate decays from the best epoch"
        if not is_watched:
            run.best = moved
        return None

    def _recover(self, trouble: str, record: dict[str, Any]) -> None:
        """Return to the best state with new chains, a lower rate, and more steps of the chains.

        The moments of the optimiser start anew: those of the last steps before a failure are large, or not finite.
        """
        run, best = self.run, self.run.best
        run.recoveries += 1
        run.rate *= 0.3
        run.more_steps *= 2
        key = jax.random.fold_in(self.key, 2**29 + run.recoveries)
        fresh = jax.random.uniform(key, best.chains.shape, best.chains.dtype) < best.centre.hidden[None, :]
        still = jax.tree.map(jnp.zeros_like, best.optimiser)
        # The step counter continues, so that the rate decays at the planned step.
        run.best = best._replace(chains=fresh.astype(best.chains.dtype), optimiser=still, step=run.state.step)
        run.state = run.best
        record["event"] = f"{trouble}: returned to the best epoch with new chains, 0.3 times the rate, twice the steps"

    def keep_time(self, record: dict[str, Any]) -> str | None:
        """Make the rate decay within the remaining time; returns a message if time is over before training is."""
        run, limit, step = self.run, self.limit, float(self.run.state.step)
        if limit is None:
            return None
        used = limit.used
        if run.number >= self.length.max_epochs or step >= run.fall[1]:
            return None
        if used >= 1:
            _note(record, f"max_time ({limit.seconds:g} s) was reached: training stopped")
            done = f"after {run.number} of {self.length.max_epochs} epochs"
            reached = f"max_time={limit.seconds:g} seconds was reached {done}"
            return f"{reached}, before the learning rate had decayed to zero"
        if used < HURRY or not self.length.falls or step >= run.fall[0] or len(run.history) < 2:
            return None  # the first epoch includes compilation, so its time is not used
        an_epoch = max(run.history[-1]["seconds"] - run.history[-2]["seconds"], 1e-6)
        n_left = int(limit.agreed(max(1.0, (1 - used) * limit.seconds / an_epoch)))
        if step + n_left * self.n_batches < run.fall[1]:
            run.fall = (step, step + n_left * self.n_batches)
            _note(record, f"half of max_time is used: the learning rate decays to zero over the next {n_left} epochs")
        return None

    def disagreement(self, params: Params) -> str | None:
        """That the model and the data do not agree at the end of training, and what to do; None if they do.

        Chains that never leave a mode agree with the data whatever the weight of the mode, so chains that are annealed
        from independent units are asked, too, where all rows share one model.
        """
        run = self.run
        apart = parted(run.history[-max(1, run.number // LAST) :], PARTED_AT_END, PARTED_DENSITY_AT_END)
        if apart is None and self.plan.unobserved != "exclude" and params.n_hidden:
            fresh = _annealed(jax.random.fold_in(self.key, 2**28), params)
            gap = min(float(jnp.sqrt(jnp.square(each - params.hidden_mean).mean())) for each in fresh)
            run.history[-1]["annealed_gap"] = gap
            if gap > PARTED_ANNEALED:
                apart = f"in new chains, annealed from independence, probabilities of hidden units differ by {gap:.2f}"
        if apart is None:
            return None
        more = "more chains or steps of them, tb.Likelihood(n_chains=..., n_negative_steps=...)"
        remedy = f"give a lower rate, such as learning_rate={0.3 * run.rate:.2g}, or {more}"
        return f"the chains without evidence and the data do not agree at the end of training: {apart}; {remedy}"


def _note(record: dict[str, Any], event: str) -> None:
    record["event"] = f"{record['event']}; {event}" if "event" in record else event


def _all_finite(objective: float, state: TrainState) -> bool:
    """Whether the state is finite: what is learned, its centres and the optimiser's moments; logarithms, so that
    their exponents are. An infinite second moment would end learning without a word."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((state.learnable, state.centre, state.optimiser))]
    logs = [np.asarray(leaf) for leaf in (state.learnable.log_gaps, state.learnable.log_scale)]
    finite = np.isfinite(objective) and all(np.isfinite(leaf).all() for leaf in leaves)
    return bool(finite and all((np.abs(leaf) < MOST_LOG).all() for leaf in logs))


class Clock:
    """The clock of one fit; it starts when it is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._read = self._began
        self._epochs: list[float] = []

    def watch(self, on_epoch: Told) -> Told:
        """The same callback, with the times of its records; reading ends here."""
        self._read = time.perf_counter()

        def told(record: dict[str, Any]) -> None:
            if "epoch" in record or (record.get("stage") == "fitting" and record["done"]):
                self._epochs.append(time.perf_counter())
            on_epoch(record)

        return told

    def after(self, seconds: Any) -> float | None:
        """The time (of `perf_counter`) so many seconds after the start; None without a limit."""
        return None if seconds is None else self._began + float(seconds)

    def spent(self) -> dict[str, float]:
        """Seconds of each stage up to now, and in "total" since the start.

        Compiling is what the first epoch took longer than later epochs do, with the preparation before it.
        """
        now, compiling = time.perf_counter(), 0.0
        if len(self._epochs) > 1:
            compiling = max(0.0, self._epochs[0] - self._read - float(np.median(np.diff(self._epochs))))
        rest = {"compiling": compiling, "training": now - self._read - compiling, "total": now - self._began}
        return {"reading": self._read - self._began, **rest}


EVERY = 30.0  # seconds between two plain lines


@dataclass
class Standing:
    """Current progress: the stage, how many parts of it are done, and an estimate of the remaining time.

    A record is that of an epoch, or of an earlier `stage`: `done` parts `of` all parts, and a `figure` to show.
    """

    of: int
    stage: str = "fitting"
    done: int = 0
    figure: str = "starting"
    held_out: float | None = None
    began: float = field(default_factory=lambda: time.monotonic())
    first: tuple[float, int] | None = None  # time of the first finished part; compilation is before it
    last: float = 0.0

    def take(self, record: dict[str, Any]) -> bool:
        """Update from a record; returns whether it starts a new stage."""
        is_new = record.get("stage", "fitting") != self.stage
        if is_new:
            self.first = None
        if "epoch" in record:
            self.stage, self.done = "fitting", int(record["epoch"])
            self.held_out = record.get("held_out", self.held_out)
            self.figure = f"mean log-likelihood per answer (nats): {record['objective']:.4f}"
            if self.held_out is not None:
                self.figure += f", held out: {self.held_out:.4f}"
        else:
            self.stage, self.done, self.of, self.figure = (record[key] for key in ("stage", "done", "of", "figure"))
        self.last = time.monotonic()
        if self.done and self.first is None:
            self.first = self.last, self.done
        return is_new

    def line(self) -> str:
        """The progress as one line of text."""
        seconds = int(time.monotonic() - self.began)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{clock} {self.stage} {self.done}/{self.of} {self.figure}{self._left()}"

    def _left(self) -> str:
        if self.first is None or self.done == self.first[1] or self.done >= self.of:
            return ""
        a_part = (self.last - self.first[0]) / (self.done - self.first[1])
        seconds = a_part * (self.of - self.done) - (time.monotonic() - self.last)
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {max(seconds, 1):.0f} s left"


@contextmanager
def progress(of: int, verbose: bool | int | str, stage: str = "fitting") -> Iterator[Told]:
    """A callback for records of `of` parts that shows progress if `verbose` is true, or "auto" on a terminal."""
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if not shown:
        yield lambda record: None
        return
    from rich.console import Console

    console, standing = Console(stderr=True), Standing(of, stage)
    with _bar(console, standing) if console.is_terminal or console.is_jupyter else _lines(standing) as told:
        yield told


@contextmanager
def _bar(console: Any, standing: Standing) -> Iterator[Told]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}"), TextColumn("{task.fields[figure]}")
    with Progress(words[0], BarColumn(), MofNCompleteColumn(), words[1], TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(standing.stage, total=standing.of, figure=standing.figure)

        def told(record: dict[str, Any]) -> None:
            if standing.take(record):
                bar.reset(task, total=standing.of, description=standing.stage)
            bar.update(task, completed=standing.done, figure=standing.figure)

        yield told


@contextmanager
def _lines(standing: Standing) -> Iterator[Told]:
    """Print a line at the start, for each new stage, at the end, and every `EVERY` seconds, also during an epoch."""
    stop = threading.Event()

    def say() -> None:
        print(standing.line(), file=sys.stderr, flush=True)

    def go_on_saying() -> None:
        while not stop.wait(EVERY):
            say()

    def told(record: dict[str, Any]) -> None:
        if standing.take(record):
            say()

    say()
    teller = threading.Thread(target=go_on_saying, daemon=True)
    teller.start()
    try:
        yield told
    finally:
        stop.set()
        teller.join()
        say()


def warn(fitted: Fitted) -> None:
    """Warn if the fit failed, if its objective has not settled, or if hidden units are stuck."""
    if fitted.problem:
        warnings.warn(fitted.problem, ConvergenceWarning, stacklevel=3)
    rate = np.asarray(fitted.params.hidden_mean)
    stuck = int(is_stuck(rate).sum())
    if stuck:
        warnings.warn(
            f"{stuck} of {len(rate)} hidden units are stuck on or off for all rows; fewer hidden units, "
            "a lower learning_rate or a sparsity_weight above 0 may help",
            ConvergenceWarning,
            stacklevel=3,
        )
