"""§6 Choice of the numbers of hidden units and factors: short fits of several sizes, scored on masked cells.

The masked cells are in held-out rows. All sizes run in one compiled program, that of the largest size; unused units
stay at zero. Half of the sizes are dropped after each round, so that the search is faster than the final fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from thurbo._typing import PRNGKey
from thurbo.learning.course import NEVER, Rows, held_out_score
from thurbo.learning.plan import Plan
from thurbo.learning.start import Layout, fold
from thurbo.learning.trainer import Fall, TrainState, epoch

LEAST_ROWS, MOST_ROWS, MOST_JUDGED = 1000, 4000, 1000
LARGEST = 100  # largest number of hidden units that is tried
BATCH, ROUNDS = 100, (150, 150, 150)  # rows per step; steps of each round
STAGE = "choosing sizes"
MARGIN = 0.001  # gain in log-likelihood per answer (nats) that a larger model needs


class Tried(NamedTuple):
    """One size, and its latest log-likelihood per masked cell."""

    n_hidden: int
    n_factors: int
    held_out: float


def by_rule(chosen: Mapping[str, Any], n_rows: int, n_sites: int) -> tuple[int, int]:
    """Sizes without a search: one unit per site, at most one unit per twenty rows, no factors."""
    n_hidden, n_factors = chosen["n_hidden"], chosen["n_factors"]
    if n_hidden == "auto":
        n_hidden = int(np.clip(min(n_sites, n_rows // 20), 2, 50))
    return int(n_hidden), 0 if n_factors == "auto" else int(n_factors)


def candidates(chosen: Mapping[str, Any], n_rows: int, n_sites: int) -> list[tuple[int, int]]:
    """Sizes to try, smaller ones first; only one if there is no choice or too few rows.

    If the number of hidden units is given, there are no factors unless these are given too: the model of the paper.
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
    """Try `sizes`, best first in the result; `state` is the initial state of the largest size.

    `on_step` is called before the first short fit and after each one, with records for `monitor.Standing`.
    """
    # Sizes are compared by prediction, whatever the objective of the final fit.
    plan = replace(plan, objective="multi-prediction", likelihood_weight=0.0, posterior_smoothing=0.0)
    key_rows, key_judge, key_fit = jax.random.split(key, 3)
    order = np.asarray(jax.random.permutation(key_rows, rows.evidence.n_rows))
    n_judged = min(len(order) // 4, MOST_JUDGED)
    judged, seen = order[:n_judged], order[n_judged:][:MOST_ROWS]
    shown, judges = (Rows(rows.evidence.rows(index), rows.weight[index]) for index in (seen, judged))
    shown = shown._replace(evidence=shown.evidence.on_device())
    weight = jax.device_put(shown.weight)
    at, first, last = jax.device_put([np.asarray(value, weight.dtype) for value in (rate, NEVER, 2 * NEVER)])
    n_batches = -(-len(seen) // BATCH)
    cells = BATCH * -(-shown.evidence.n_cells // len(seen))
    running = {size: cut(state, layout, *size) for size in sizes}
    results: dict[tuple[int, int], Tried] = {}
    done, of = 0, _n_fits(len(sizes))
    on_step({"stage": STAGE, "done": 0, "of": of, "figure": f"{len(sizes)} of them, compiling"})
    for number, n_steps in enumerate(ROUNDS):
        for size, (fitted, own) in running.items():
            for i in range(max(1, round(n_steps / n_batches))):
                key_i = jax.random.fold_in(key_fit, 1000 * number + i)
                fitted, _ = epoch(key_i, fitted, shown.evidence, weight, own, at, Fall(first, last), plan, cells)
            running[size] = fitted, own
            score = held_out_score(key_judge, fold(fitted.learnable, fitted.centre, own), judges, plan)
            results[size] = Tried(*size, score if np.isfinite(score) else -np.inf)
            done += 1
            figure = f"{size[0]} hidden units and {size[1]} factors, "
            figure += f"mean log-likelihood per answer (nats): {results[size].held_out:.4f}"
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
    """Number of short fits in all rounds."""
    total = 0
    for _ in ROUNDS:
        total, n_sizes = total + n_sizes, _half(n_sizes)
    return total


def cut(state: TrainState, layout: Layout, n_hidden: int, n_factors: int) -> tuple[TrainState, Layout]:
    """The same initial state with fewer active units."""
    start = state.learnable
    layout = active_only(layout, (start.weights.shape[1], start.loadings.shape[1]), n_hidden, n_factors)
    weights, loadings = jax.device_put(
        (
            np.asarray(start.weights) * np.asarray(layout.active_hidden),
            np.asarray(start.loadings) * np.asarray(layout.active_factors),
        )
    )
    return state._replace(learnable=start._replace(weights=weights, loadings=loadings)), layout


def active_only(layout: Layout, size: tuple[int, int], n_hidden: int, n_factors: int) -> Layout:
    """The layout of a model of some size of which only the first units and factors are used."""
    units, factors = (np.arange(most) < n for most, n in zip(size, (n_hidden, n_factors), strict=True))
    units, factors = jax.device_put((units, factors))
    return layout._replace(active_hidden=units, active_factors=factors)
