"""What the negative phase is worth: chains, tempered chains, contrastive divergence, Langevin steps; where to start.

    python -m benchmarks.negatives [--quick]

Ten hidden units on the bundled Star Wars survey, learned by the two phases of the likelihood in each way; judged by the
exact log P(e) per answer of rows that were held out, beside the exact likelihood's own fit, which no sampling can pass
by much. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import thurbo as tb
from benchmarks.flat_settings import grouped
from thurbo.fit import course, fitting, objective, planning, trainer
from thurbo.fit.objective import exact
from thurbo.fit.start import fold
from thurbo.latent import packing, rbm
from thurbo.latent.inference.meanfield import mean_field
from thurbo.table.datasets import load_starwars

N_HIDDEN, N_HELD = 10, 300
LITTLE = {"n_negative_steps": 1, "n_chains": 50}
VARIANTS: dict[str, dict[str, Any]] = {
    "exact likelihood": {"objective": "exact"},
    "1000 chains, 5 steps": {},
    "1000 chains, 5 steps, tempered": {"negative_phase": "tempered"},
    "1000 chains, 5 steps, low-rank start": {"low_rank": True},
    "1000 chains, 5 steps of Langevin": {"langevin": 0.2},
    "50 chains, 1 step": LITTLE,
    "50 chains, 1 step, tempered": LITTLE | {"negative_phase": "tempered"},
    "50 chains, 1 step, low-rank start": LITTLE | {"low_rank": True},
    "50 chains, 1 step of Langevin": LITTLE | {"langevin": 0.2},
    "contrastive, 1 step": {"negative_phase": "contrastive", "n_negative_steps": 1},
    "1000 chains, Gibbs in the positive phase": {"positive_phase": "gibbs"},
    "multi-prediction": {"objective": "multi-prediction", "likelihood_weight": 0.0},
    "multi-prediction, 0.1 likelihood": {"objective": "multi-prediction", "likelihood_weight": 0.1},
}


def langevin(key: Any, params: Any, evidence: Any, start: Any, plan: Any, size: float) -> Any:
    """Steps on the marginal density of x, whose slope is −x + α + W σ(γ + Wᵀx), then h given x."""
    key_x, key_h = jax.random.split(key)
    mean = rbm.latent_mean(params, start)
    x = mean + jax.random.normal(key_x, mean.shape, mean.dtype)

    def one(i: Any, x: Any) -> Any:
        slope = rbm.latent_mean(params, jax.nn.sigmoid(rbm.hidden_logits(params, x))) - x
        noise = jax.random.normal(jax.random.fold_in(key_x, i + 1), x.shape, x.dtype)
        return x + 0.5 * size**2 * slope + size * noise

    return rbm.sample_hidden(key_h, params, jax.lax.fori_loop(0, plan.n_negative_steps, one, x))


def low_rank(state: Any, data: Any, layout: Any) -> Any:
    """Weights along the main directions of the rows' mean x, units on in half of them."""
    (evidence,) = data.evidence.buckets
    params = fold(state.learnable, state.centre, layout)
    alone = params._replace(weights=jnp.zeros_like(params.weights))
    q = mean_field(alone, evidence, 1)
    seen = evidence.region(alone.gauge).mean(rbm.latent_mean(alone, q.hidden))
    x = np.asarray(jnp.where(evidence.observed, seen - alone.site_bias[None, :], 0.0))
    _, size, direction = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    weights = 2.0 * direction[:N_HIDDEN].T * (size[:N_HIDDEN] / np.sqrt(len(x)))
    return state._replace(learnable=state.learnable._replace(weights=jnp.asarray(weights, jnp.float32)))


def read(seed: int) -> tuple[fitting.Data, course.WeightedRows]:
    """The survey, rows to learn from and rows to judge by."""
    frame, schema = load_starwars()
    fitted = schema.fit(frame)
    blocks = fitted.compile(frame)
    evidence = packing.pack(blocks.values(), "marginalize")
    order = np.random.default_rng(seed).permutation(evidence.n_rows)
    seen = evidence.rows(order[N_HELD:])
    held = course.WeightedRows(evidence.rows(order[:N_HELD]), jnp.ones(N_HELD, jnp.float32))
    own = fitted.compile(frame.iloc[order[N_HELD:]])
    return fitting.Data(fitted, own, seen, np.ones(evidence.n_rows - N_HELD)), held


def fit(data: fitting.Data, held: course.WeightedRows, seed: int, epochs: int, **changed: Any) -> dict[str, Any]:
    """One fit and its exact held-out score."""
    starts_low, step = changed.pop("low_rank", False), changed.pop("langevin", None)
    usual: dict[str, Any] = {"objective": "likelihood", "learning_rate": 3e-3}
    chosen = planning.flat(tb.TBM(n_hidden=N_HIDDEN, **grouped(usual | changed)).get_params(deep=False))
    plan = planning.plan(chosen, N_HIDDEN, 0)
    key_start, key_fit = jax.random.split(jax.random.key(seed))
    state = fitting.start(key_start, data, (N_HIDDEN, 0), int(chosen.n_chains), plan)
    if starts_low:
        state = low_rank(state, data, data.layout)
    before = objective.negative
    if step is not None:
        objective.negative = partial(langevin, size=step)  # type: ignore[assignment]
        trainer._epoch_of_one.clear_cache()
    started = time.perf_counter()
    rows = course.WeightedRows(data.evidence, jnp.asarray(data.weight, jnp.float32))
    length = course.Length(100 * data.schema.n_sites, epochs, float(chosen.learning_rate))
    fitted = course.fit(key_fit, state, rows, data.layout, plan, length)
    if step is not None:
        objective.negative = before
        trainer._epoch_of_one.clear_cache()
    (rest,) = held.evidence.buckets
    score = jax.jit(exact)(fitted.params, rest)
    cells = float(rest.observed.sum())
    return {"held_out": float(score.sum()) / cells, "seconds": time.perf_counter() - started}


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, fewer epochs")
    quick = parser.parse_args().quick
    seeds, epochs = range(1 if quick else 3), 30 if quick else 150
    found: dict[str, list[float]] = {}
    print(f"{'negative phase':<44}{'held-out log P(e) per slot':>28}{'s':>7}")
    for name, changed in VARIANTS.items():
        results = [fit(*read(seed), seed, epochs, **dict(changed)) for seed in seeds]
        found[name] = [result["held_out"] for result in results]
        spread = np.std(found[name])
        seconds = np.mean([r["seconds"] for r in results])
        print(f"{name:<44}{np.mean(found[name]):>18.4f} ± {spread:.4f}{seconds:>7.0f}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
