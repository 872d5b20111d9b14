"""How well annealed importance sampling brackets log Z: against enumeration, 16 hidden units, trained-like weights.

    python -m benchmarks.partition [--quick]

Each repeat draws a fresh model: sparse-ish weights with column norms like those of trained ones and biases that keep
units between seldom and often active. Reported are the mean error in nats, how often the bounds hold the truth,
how wide they are, and the time of one estimate. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.latent.constraints import Gauge
from thurbo.latent.inference import annealing
from thurbo.latent.inference.posterior import log_partition_exact
from thurbo.latent.rbm import LOG_2PI, Params

N_SITES, N_HIDDEN = 60, 16
TEMPERATURES = 512


def trained_like(seed: int) -> Params:
    """Column norms from 0.8 to 3, centred as training leaves them, activation rates from 5 to 95 per cent."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(N_SITES, N_HIDDEN)) * (rng.random((N_SITES, N_HIDDEN)) < 0.4)
    weights *= rng.uniform(0.8, 3.0, N_HIDDEN) / np.linalg.norm(weights, axis=0)
    rate = rng.uniform(0.05, 0.95, N_HIDDEN)
    site_bias = rng.normal(size=N_SITES) * 0.5
    centred = site_bias - weights @ rate
    # γ that makes each unit's log-odds logit(rate) when the others are at their rates (free sites integrated out)
    coupling = weights.T @ (centred + weights @ rate) - (weights**2).sum(axis=0) * (rate - 0.5)
    hidden_bias = np.log(rate / (1 - rate)) - coupling
    to = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    gauge = Gauge(jnp.zeros((N_SITES, 0), jnp.float32), jnp.ones(N_SITES, jnp.float32))
    return Params(to(centred), to(weights), to(hidden_bias), jnp.zeros((N_SITES, 0), jnp.float32), gauge, to(rate))


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 repeats instead of 50")
    repeats = 10 if parser.parse_args().quick else 50
    exact = jax.jit(log_partition_exact)
    estimate = jax.jit(annealing.log_partition_annealed)
    knots = annealing.first_knots(1, np.dtype(np.float32))
    errors, inside, widths, seconds = [], [], [], []
    for seed in range(repeats):
        params = trained_like(seed)
        truth = float(exact(params)) - 0.5 * N_SITES * LOG_2PI
        started = time.perf_counter()
        bracket = estimate(jax.random.key(seed), params, np.int32(TEMPERATURES), knots)
        found = annealing.scores(jax.block_until_ready(bracket))
        seconds.append(time.perf_counter() - started)
        errors.append(float(found.value[0]) - truth)
        inside.append(found.lower[0] <= truth <= found.upper[0])
        widths.append(found.width[0])
    print(f"{repeats} models of {N_SITES} sites and {N_HIDDEN} hidden units, {TEMPERATURES} temperatures")
    worst, bias = np.max(np.abs(errors)), np.mean(errors)
    print(f"mean |error|  {np.mean(np.abs(errors)):.4f} nats    bias {bias:+.4f}    worst {worst:.4f}")
    print(f"bounds hold the truth in {np.mean(inside):.0%}, median width {np.median(widths):.3f}")
    print(f"{np.median(seconds):.2f} s an estimate")
    summary = {
        "abs_error": float(np.mean(np.abs(errors))),
        "coverage": float(np.mean(inside)),
        "bias": float(np.mean(errors)),
        "width": float(np.median(widths)),
        "seconds": float(np.median(seconds)),
        "repeats": repeats,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
