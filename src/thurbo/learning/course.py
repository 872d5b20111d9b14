"""§5, A.2.4 The course of a fit on the host: epochs, a held-out share to watch, and what to do when it goes wrong.

The best parameters so far are kept. Where the held-out score stops rising, the rate begins to fall from the best state;
where chains part from the data or numbers stop being finite, it goes back, and on with more care. `history` tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, PerRow, PRNGKey
from thurbo.evidence import Evidence
from thurbo.evidence.buckets import CELLS, Packed, Ragged
from thurbo.learning import objective as objectives
from thurbo.learning.plan import Plan
from thurbo.learning.start import Layout, fold
from thurbo.learning.trainer import Fall, TrainState, epoch, epoch_of_lists
from thurbo.rbm import Params

PARTED = 0.35  # root mean square distance of chains from data beyond which the negative phase has died
COLLAPSE = 0.5  # nats a cell below the best so far on held-out rows, or below the start
MOST_RECOVERIES = 3
NEVER = 1e30  # a step that is not reached


class Rows(NamedTuple):
    """Evidence with the weight of each row."""

    evidence: Packed
    weight: PerRow


class Length(NamedTuple):
    """How long and how fast: rows in a batch, epochs, the peak rate, and checks without progress before it falls.

    Of lists, a batch is counted in cells. With `falls` false the rate stays at its peak: a fit that goes on later.
    """

    batch_size: int
    max_epochs: int
    learning_rate: float
    patience: int = 10
    falls: bool = True


class Fitted(NamedTuple):
    """What a fit leaves behind."""

    params: Params
    history: list[dict[str, Any]]
    converged: bool
    problem: str | None
    state: TrainState


@dataclass
class Run:
    """Where a fit stands between two epochs: all that a checkpoint has to hold."""

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


def held_out_score(key: PRNGKey, params: Params, rows: Rows, plan: Plan) -> Float[Array, ""]:
    """Log-probability per cell of rows that training does not see: of hidden cells, or of all by enumeration."""
    if not isinstance(rows.evidence, Ragged):
        total, count = _held_out_sums(key, params, rows, plan)
        return total / jnp.maximum(count, 1.0)
    sums = []
    every = [np.arange(len(place)) for place in rows.evidence.places]
    for number, (bucket, index, real) in enumerate(rows.evidence.batches(every, CELLS)):
        weight = rows.weight[rows.evidence.places[bucket][index]] * real.astype(np.float32)
        part = Rows(rows.evidence.buckets[bucket].rows(index), weight)
        sums.append(_held_out_sums(jax.random.fold_in(key, number), params, part, plan))
    total, count = (jnp.stack(each).sum() for each in zip(*sums, strict=True))
    return total / jnp.maximum(count, 1.0)


@partial(jax.jit, static_argnames=("plan",))
def _held_out_sums(key: PRNGKey, params: Params, rows: Rows, plan: Plan) -> tuple[Float[Array, ""], Float[Array, ""]]:
    assert isinstance(rows.evidence, Evidence)
    if plan.objective == "exact":
        value, slots = objectives.exact(params, rows.evidence), rows.evidence.observed
    else:
        slots = plan.hiding(key, rows.evidence)
        value, _ = objectives.multi_prediction(params, rows.evidence, slots, plan)
    count = (rows.weight * slots.sum(-1).astype(rows.weight.dtype)).sum()
    return (rows.weight * value).sum(), count


def n_updates(evidence: Packed, batch_size: int) -> int:
    """Batches of one pass."""
    if isinstance(evidence, Ragged):
        return evidence.n_batches(batch_size)
    return -(-evidence.n_rows // batch_size)


def fit(
    key: PRNGKey,
    state: TrainState,
    rows: Rows,
    layout: Layout,
    plan: Plan,
    length: Length,
    *,
    held_out: Rows | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    resume: Run | None = None,
    on_run: Callable[[Run], None] | None = None,
) -> Fitted:
    """Train; an interrupt (Ctrl-C) ends it early and keeps the best so far.

    `on_run` sees the whole run after every epoch, and `resume` goes on from one, to the same end as without a break.
    """
    n_batches = n_updates(rows.evidence, length.batch_size)
    total = length.max_epochs * n_batches
    fall = (0.5 * total, float(total)) if length.falls else (NEVER, 2 * NEVER)
    run = resume or Run(state, state, fall, length.learning_rate)
    every = max(1, length.max_epochs // 50)
    key_score = jax.random.fold_in(key, 2**30)
    problem, before = None, run.seconds
    started = time.perf_counter()
    try:
        while run.number < length.max_epochs and float(run.state.step) < run.fall[1]:
            more = run.more_steps if plan.uses_chains else 1
            careful = replace(plan, n_negative_steps=plan.n_negative_steps * more)
            dtype = rows.weight.dtype
            moved, info = (epoch_of_lists if isinstance(rows.evidence, Ragged) else epoch)(
                jax.random.fold_in(key, run.number),
                run.state,
                rows.evidence,  # type: ignore[arg-type]
                rows.weight,
                layout,
                jnp.asarray(run.rate, dtype),
                Fall(*(jnp.asarray(step, dtype) for step in run.fall)),
                careful,
                length.batch_size,
            )
            params = fold(moved.learnable, moved.centre, layout)
            run.number += 1
            record: dict[str, Any] = {
                "epoch": run.number,
                "objective": float(info.objective),
                "gradient_norm": float(info.gradient_norm),
                "activation": float(info.activation.mean()) if info.activation.size else 0.0,
            }
            if plan.keeps_chains:
                record["gap"] = float(info.gap)
            finite = _all_finite(record["objective"], params)
            is_last = run.number == length.max_epochs or float(moved.step) >= run.fall[1]
            if finite and held_out is not None and (run.number % every == 0 or is_last):
                record["held_out"] = float(held_out_score(key_score, params, held_out, plan))
            run.seconds = before + time.perf_counter() - started
            record["seconds"] = run.seconds
            run.history.append(record)
            problem = _go_on(run, moved, record, finite, n_batches, length, held_out is not None, key)
            if problem:
                break
            if on_epoch is not None:
                on_epoch(record)
            if on_run is not None:
                on_run(run)
    except KeyboardInterrupt:
        problem = f"interrupted after {run.number} of {length.max_epochs} epochs; the parameters are the best so far"
    kept = run.best if held_out is not None else run.state
    return Fitted(fold(kept.learnable, kept.centre, layout), run.history, problem is None, problem, kept)


def _go_on(
    run: Run,
    moved: TrainState,
    record: dict[str, Any],
    finite: bool,
    n_batches: int,
    length: Length,
    is_watched: bool,
    key: PRNGKey,
) -> str | None:
    """Take the new state, or go back; returns what is wrong where nothing helps any more."""
    score = record.get("held_out", None if is_watched else record["objective"])
    # What is hidden changes from epoch to epoch, so an objective is compared with the independent model's alone.
    least = (run.best_score if is_watched else run.history[0]["objective"]) - COLLAPSE
    trouble = None
    if not finite:
        trouble = "numbers stopped being finite"
    elif record.get("gap", 0.0) > PARTED and run.number > 3:
        trouble = f"the model's chains parted from the data ({record['gap']:.2f})"
    elif score is not None and np.isfinite(least) and score < least:
        trouble = (
            f"the {'held-out score' if is_watched else 'objective'} fell to {score:.3f} from {least + COLLAPSE:.3f}"
        )
    if trouble is not None:
        if run.recoveries == MOST_RECOVERIES:
            return f"training failed in epoch {run.number}: {trouble}; the parameters are the best before it"
        _recover(run, trouble, record, key)
        return None
    run.state = moved
    if score is None:
        return None
    if score > run.best_score:
        run.best_score, run.best, run.since_best = score, moved, 0
    else:
        run.since_best += 1
    step = float(moved.step)
    if is_watched and length.falls and run.since_best >= length.patience and step < run.fall[0]:
        first = float(run.best.step)
        run.state, run.since_best = run.best, 0
        run.fall = (first, first + max(0.2 * first, 5.0 * n_batches))
        record["event"] = "the held-out score rose no more: back to the best epoch, and the rate falls from there"
    if not is_watched:
        run.best = moved
    return None


def _recover(run: Run, trouble: str, record: dict[str, Any], key: PRNGKey) -> None:
    """Back to the best state with fresh chains, a third of the rate, and more steps where there are chains."""
    run.recoveries += 1
    run.rate *= 0.3
    run.more_steps *= 2
    chains = run.best.chains
    rate = jnp.broadcast_to(run.best.centre.hidden, chains.shape)
    fresh = jax.random.uniform(jax.random.fold_in(key, 2**29 + run.recoveries), chains.shape, chains.dtype) < rate
    # Steps go on counting, so that the fall of the rate comes when it was to come.
    run.state = run.best._replace(chains=fresh.astype(chains.dtype), step=run.state.step)
    run.best = run.state
    record["event"] = f"{trouble}: back to the best epoch with fresh chains, a third of the rate, twice the steps"


def _all_finite(objective: float, params: Params) -> bool:
    finite = jnp.isfinite(jnp.asarray(objective))
    for leaf in (params.site_bias, params.weights, params.hidden_bias, params.loadings, params.gauge.scale):
        finite = finite & jnp.isfinite(leaf).all()
    return bool(finite & ~jnp.isnan(params.gauge.cuts).any())
