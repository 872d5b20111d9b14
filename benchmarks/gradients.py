"""What the two forms of the likelihood's gradient learn in equal updates, and their variance: MNIST, binary pixels.

    python -m benchmarks.gradients [--epochs 10] [--n-hidden 200] [--rate 0.001] [--seeds 1]

`tb.Likelihood(integrate="latent")` integrates x out of the statistics of the gradient, "hidden" the hidden units.
Rows: the first 10,000 training images; the next 2,000 are held out, the test set is not used. Each form is fitted with
batches of 100, as many persistent chains with one round per update, and one or ten steps of mean-field. Held-out
log-likelihood per masked pixel given the others, by 30 steps of mean-field: a random tenth is masked, or nine tenths.
Processor seconds are those of the fit, with its compilation. The variance is that of the weights' gradient, in the
model that was learned, summed over weights, of "hidden" over "latent": of the chains alone, and with that of random
batches of rows. Needs THURBO_DATA. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import thurbo as tb
from benchmarks import mnist
from thurbo.fit import course, objective
from thurbo.fit.masking import RandomCells
from thurbo.fit.planning import Plan
from thurbo.latent import packing, rbm
from thurbo.latent.inference.meanfield import latent_mean

N_ROWS, N_HELD_OUT, BATCH = 10_000, 2_000, 100
MASKED = (0.1, 0.9)  # shares of pixels
FORMS = [(integrate, n_steps) for n_steps in (1, 10) for integrate in ("latent", "hidden")]


def fitted(rows: pd.DataFrame, integrate: Any, n_steps: int, chosen: argparse.Namespace, seed: int) -> tb.TBM:
    """A model learned by one form of the gradient."""
    learning = tb.Likelihood(
        integrate=integrate, n_mean_field_steps=n_steps, n_negative_steps=1, n_chains=BATCH, validation_fraction=0.0
    )
    size = {"n_hidden": chosen.n_hidden, "n_factors": 0, "batch_size": BATCH, "max_epochs": chosen.epochs}
    size["learning_rate"] = chosen.rate
    return tb.TBM(dict.fromkeys(rows, tb.Binary()), **size, learning=learning, random_state=seed).fit(rows)


def packed(model: tb.TBM, rows: pd.DataFrame) -> Any:
    """Evidence of these rows, on the device."""
    return packing.pack(model.schema_.compile(rows).values(), "marginalize", most_widths=0).on_device()


def masked_score(model: tb.TBM, held_out: Any, share: float) -> float:
    """Mean log-probability of a masked pixel given the others; the same pixels are masked for every model."""
    plan = Plan(objective="likelihood", n_mean_field_steps=30, masking=RandomCells(share, share))
    rows = course.WeightedRows(held_out, np.ones(held_out.n_rows, np.float32))
    return course.held_out_score(jax.random.key(0), model.params_, rows, plan)


def variances(model: tb.TBM, rows: Any, n_burn_in: int = 500, n_repeats: int = 300) -> tuple[float, float, float]:
    """Variance of the means of (x − x̄)(h − h̄)ᵀ over 100 rows or chains, summed over weights.

    Of chains with x integrated out, of chains with h integrated out, and of random batches of rows by one step of
    mean-field. All are centred at the mean of the chains.
    """
    params, evidence = model.params_, rows.buckets[0]
    start = jax.random.bernoulli(jax.random.key(0), params.hidden_mean[None, :], (BATCH, params.n_hidden))
    burn_in = jax.jit(lambda h: objective.chain(jax.random.key(1), params, h, n_burn_in))
    x, hidden, h = burn_in(start.astype(params.weights.dtype))
    centre_x, centre_h = x.mean(axis=0)[None, :], hidden.mean(axis=0)[None, :]

    @jax.jit
    def one(key: jax.Array, h: jax.Array) -> tuple[jax.Array, ...]:
        key_chain, key_rows = jax.random.split(key)
        x, hidden, h = objective.chain(key_chain, params, h, 1)
        batch = evidence.rows(jax.random.choice(key_rows, evidence.n_rows, (BATCH,), replace=False))
        latent = latent_mean(params, batch, 1)
        q = objective.hidden_given(params, batch, latent, Plan()).hidden
        pairs = (rbm.latent_mean(params, h), h), (x, hidden), (latent.x, q)
        return *((a - centre_x).T @ (b - centre_h) / BATCH for a, b in pairs), h

    sums = [[jnp.zeros_like(params.weights)] * 2 for _ in range(3)]
    for number in range(n_repeats):
        *found, h = one(jax.random.key(number + 2), h)
        sums = [[total + value, square + value**2] for (total, square), value in zip(sums, found, strict=True)]
    of_latent, of_hidden, of_rows = (
        float((square / n_repeats - (total / n_repeats) ** 2).sum()) for total, square in sums
    )
    return of_latent, of_hidden, of_rows


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--n-hidden", type=int, default=200)
    parser.add_argument("--rate", type=float, default=1e-3, help="of Adam")
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    images = pd.DataFrame(mnist.load()[0][: N_ROWS + N_HELD_OUT]).rename(columns="p{}".format)
    rows, held_out = images[:N_ROWS], images[N_ROWS:].reset_index(drop=True)
    found: list[dict[str, Any]] = []
    for seed in range(chosen.seeds):
        for integrate, n_steps in FORMS:
            began = time.process_time()
            model = fitted(rows, integrate, n_steps, chosen, seed)
            own: dict[str, Any] = {"seed": seed, "integrate": integrate, "n_mean_field_steps": n_steps}
            own["cpu"] = round(time.process_time() - began, 1)
            for share in MASKED:
                own[f"masked_{share}"] = round(masked_score(model, packed(model, held_out), share), 4)
            of_latent, of_hidden, of_rows = variances(model, packed(model, rows))
            own["variance_of_chains"] = round(of_hidden / of_latent, 2)
            own["variance"] = round((of_hidden + of_rows) / (of_latent + of_rows), 2)
            found.append(own)
            print("  ".join(f"{name} {value}" for name, value in own.items()), flush=True)
    print(json.dumps({**vars(chosen), "found": found}))


if __name__ == "__main__":
    main()
