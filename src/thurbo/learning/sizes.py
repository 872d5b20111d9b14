"""§6 How many hidden units and factors: short fits of several sizes, judged by hidden cells of rows they do not see.

All sizes run in one compiled program, that of the largest: units beyond a size stay at zero. Half of the sizes drop out
after each round, so that the search costs less than the fit it prepares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import PRNGKey
from thurbo.learning.course import NEVER, Rows, held_out_score
from thurbo.learning.plan import Plan
from thurbo.learning.start import Layout, fold
from thurbo.learning.trainer import Fall, TrainState, epoch

LEAST_ROWS, MOST_ROWS, MOST_JUDGED = 1000, 4000, 1000
LARGEST = 100  # hidden units that are tried
BATCH, ROUNDS = 100, (150, 150, 150)  # rows a step; steps of each round
STAGE = "choosing sizes"
MARGIN = 0.001  # nats a cell that a larger model has to gain


class Tried(NamedTuple):
    """One size, and the log-probability per hidden cell that it reached when it was last judged."""

    n_hidden: int
    n_factors: int
    held_out: float


def by_rule(chosen: Mapping[str, Any], n_rows: int, n_sites: int) -> tuple[int, int]:
    """Sizes without a search: a unit a site, twenty rows a unit, no factors."""
    n_hidden, n_factors = chosen["n_hidden"], chosen["n_factors"]
    if n_hidden == "auto":
        n_hidden = int(np.clip(min(n_sites, n_rows // 20), 2, 50))
    return int(n_hidden), 0 if n_factors == "auto" else int(n_factors)


def candidates(chosen: Mapping[str, Any], n_rows: int, n_sites: int) -> list[tuple[int, int]]:
    """Sizes to try, smaller ones first; only one where there is nothing to choose or too little to choose by.

    Hidden units that were asked for by number get no factors unless those are asked for too: it is the paper's model.
    """
    enough = n_rows >= LEAST_ROWS and chosen["objective"] != "exact" and chosen["max_epochs"] != 0
    if not enough or chosen["n_hidden"] != "auto":
        return [by_rule(chosen, n_rows, n_sites)]
    most = int(np.clip(min(n_sites, n_rows // 20), 4, LARGEST))
    units = [most // 4, most // 2, most]
    factors = [0, most // 4, most // 2] if chosen["n_factors"] == "auto" else [int(chosen["n_factors"])]
    return sorted({(k, f) for k in units for f in factors}, key=sum)


def search(
    key: PRNGKey,
    state: TrainState,
    rows: Rows,
    layout: Layout,
    plan: Plan,
    sizes: list[tuple[int, int]],
    rate: float,
    on_step: Callable[[dict[str, Any]], None] = lambda record: None,
) -> list[Tried]:
    """Try `sizes`, the best first; `state` is where a fit of the largest of both numbers starts.

    `on_step` is told before the first short fit and after each, in the words of `monitor.Standing`.
    """
    # What predicts best is asked, whatever will be maximised in the end.
    plan = replace(plan, objective="multi-prediction", likelihood_weight=0.0, posterior_smoothing=0.0)
    key_rows, key_judge, key_fit = jax.random.split(key, 3)
    order = np.asarray(jax.random.permutation(key_rows, rows.evidence.n_rows))
    n_judged = min(len(order) // 4, MOST_JUDGED)
    judged, seen = order[:n_judged], order[n_judged:][:MOST_ROWS]
    shown, judges = (Rows(rows.evidence.rows(index), rows.weight[index]) for index in (seen, judged))
    at, never = jnp.asarray(rate, rows.weight.dtype), jnp.asarray(NEVER, rows.weight.dtype)
    n_batches = -(-len(seen) // BATCH)
    running = {size: _cut(state, layout, *size) for size in sizes}
    results: dict[tuple[int, int], Tried] = {}
    done, of = 0, _n_fits(len(sizes))
    on_step({"stage": STAGE, "done": 0, "of": of, "figure": f"{len(sizes)} of them, compiling"})
    for number, n_steps in enumerate(ROUNDS):
        for size, (fitted, own) in running.items():
            for i in range(max(1, round(n_steps / n_batches))):
                key_i = jax.random.fold_in(key_fit, 1000 * number + i)
                fall = Fall(never, 2 * never)
                fitted, _ = epoch(key_i, fitted, *shown, own, at, fall, plan, min(BATCH, len(seen)))
            running[size] = fitted, own
            score = held_out_score(key_judge, fold(fitted.learnable, fitted.centre, own), judges, plan)
            results[size] = Tried(*size, float(score) if jnp.isfinite(score) else -np.inf)
            done += 1
            figure = f"{size[0]} hidden units and {size[1]} factors, {results[size].held_out:.4f} nats a cell"
            on_step({"stage": STAGE, "done": done, "of": of, "figure": figure})
        left = sorted(running, key=lambda size: -results[size].held_out)[: _half(len(running))]
        running = {size: running[size] for size in left}
    best = max(results[size].held_out for size in running)
    winner = next(size for size in sizes if size in running and results[size].held_out >= best - MARGIN)
    others = sorted((size for size in sizes if size != winner), key=lambda size: -results[size].held_out)
    return [results[size] for size in (winner, *others)]


def _half(n: int) -> int:
    return -(-n // 2)


def _n_fits(n_sizes: int) -> int:
    """Short fits of all rounds."""
    total = 0
    for _ in ROUNDS:
        total, n_sizes = total + n_sizes, _half(n_sizes)
    return total


def _cut(state: TrainState, layout: Layout, n_hidden: int, n_factors: int) -> tuple[TrainState, Layout]:
    """The same start with fewer units at work."""
    start = state.learnable
    units = jnp.arange(start.weights.shape[1]) < n_hidden
    factors = jnp.arange(start.loadings.shape[1]) < n_factors
    learnable = start._replace(
        weights=jnp.where(units[None, :], start.weights, jnp.zeros_like(start.weights)),
        loadings=jnp.where(factors[None, :], start.loadings, jnp.zeros_like(start.loadings)),
    )
    return state._replace(learnable=learnable), layout._replace(active_hidden=units, active_factors=factors)
