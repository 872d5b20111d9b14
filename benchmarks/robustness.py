"""Whether untuned fits can be relied on: ten seeds of five kinds of data, each from a model that is known.

    python -m benchmarks.robustness [--quick]

Every seed draws a model with hidden units that couple all its columns, a table to learn from and one to be judged by;
`TBM` then learns with nothing set but the schema and the seed. Reported in nats per cell are its held-out log P(e) over
that of independent columns (the same with no hidden units, exact), and how far it stays behind the model that made the
data (exact). The fitted model's own score is exact where its hidden units are few, and annealed otherwise. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

import thurbo as tb
from thurbo.errors import ConvergenceWarning
from thurbo.latent.constraints import Gauge
from thurbo.latent.rbm import Params
from thurbo.predict.model import Member, MemberSettings, Model

N_TRAIN, N_TEST, N_HIDDEN = 500, 256, 3
AT_ONCE = 128  # rows scored together: a shape that queries compile anyway, and a divisor of N_TEST
MOST_EXACT = 10  # hidden units of a fitted model that is scored by enumeration
LEVELS, PARTIES, ITEMS = ("never", "rarely", "often", "always"), ("blue", "green", "red", "grey"), tuple("abcd")
# Which places of a ranking of four are told apart: one of these for each row, whatever the order is.
TIES = ("> > =", "= > >", "> = >", "> = =", "= > =")


def binary() -> tb.Binary:
    """A question of two answers."""
    return tb.Binary(true="yes", values=("no", "yes"))


class Kind(NamedTuple):
    """What a table holds: its columns, and the share of cells that nobody answered."""

    schema: Mapping[str, tb.columns.Column]
    missing: float = 0.0


def several(n: int, name: str, column: Any) -> dict[str, Any]:
    """The same question under n names."""
    return {f"{name}{i}": column for i in range(n)}


KINDS = {
    "binary": Kind(several(12, "fan", binary())),
    "ordinal": Kind(several(10, "trust", tb.Ordinal(LEVELS))),
    "categorical": Kind(several(8, "party", tb.Categorical(PARTIES))),
    "rankings with ties": Kind(several(3, "issues", tb.Ranking(ITEMS, cell_format="text"))),
    "mixed, 40 % missing": Kind(
        several(3, "fan", binary())
        | several(3, "trust", tb.Ordinal(LEVELS))
        | several(3, "height", tb.Continuous())
        | several(2, "party", tb.Categorical(PARTIES))
        | several(2, "media", tb.MultiSelect(("tv", "net", "press"), cell_format="list"))
        | several(1, "issues", tb.Ranking(ITEMS, cell_format="text")),
        0.4,
    ),
}


def truth(
    columns: Mapping[str, Any], rng: np.random.Generator, n_hidden: int = N_HIDDEN, strength: float = 1.5
) -> tb.TBM:
    """A model with random parameters, as `load` would build it: independent hidden units, each on in half of all rows.

    The columns of W are orthogonal, its entries of about the size `strength`; with γ = −Wᵀb then P(h) is even.
    """
    measured = tb.Continuous(location=0.0, scale=1.0)
    schema = tb.Schema({name: measured if isinstance(c, tb.Continuous) else c for name, c in columns.items()})
    n = schema.n_sites
    weights = strength * np.sqrt(n) * np.linalg.qr(rng.normal(size=(n, n_hidden)))[0]
    middle = np.where(schema.n_cuts > 0, 0.0, 0.5 * rng.normal(size=n))
    width = max(int(schema.n_cuts.max()), 1)
    place = np.arange(width)[None, :]
    # Cuts a little over one standard deviation apart, around a random middle.
    cuts = 1.2 * (place - 0.5 * (schema.n_cuts[:, None] - 1)) + 0.5 * rng.normal(size=(n, 1))
    cuts = np.where(place < schema.n_cuts[:, None], cuts, np.inf)
    to = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    params = Params(
        site_bias=to(middle - 0.5 * weights.sum(axis=1)),
        weights=to(weights),
        hidden_bias=to(-middle @ weights),
        loadings=jnp.zeros((n, 0), jnp.float32),
        gauge=Gauge(to(cuts), to(np.where(schema.is_measured, 0.7, 1.0))),
        hidden_mean=jnp.full(n_hidden, 0.5, jnp.float32),
    )
    model = tb.TBM(schema, n_hidden=n_hidden)
    member = Member(MemberSettings(params.n_hidden, params.n_factors, 0.0), schema, params)
    model._adopt(Model(schema, (member,), params, objective="exact"), [], True)
    model.n_features_in_, model.frame_kind_ = len(schema), "pandas"
    model.feature_names_in_ = np.asarray(schema.names, object)
    return model


def simulate(
    model: tb.TBM, n_rows: int, rng: np.random.Generator, missing: float = 0.0, ties: Sequence[str] = TIES
) -> pd.DataFrame:
    """Rows of the model; rankings with ties at random places, and cells missing at random."""
    frame = model.sample(n_rows, random_state=int(rng.integers(2**31)))
    for name, column in model.schema_.items():
        if isinstance(column, tb.Ranking):
            signs = rng.choice(ties, n_rows)
            frame[name] = [_tied(cell, sign.split()) for cell, sign in zip(frame[name], signs, strict=True)]
        frame[name] = frame[name].where(rng.random(n_rows) >= missing, None)
    return frame


def _tied(cell: str, signs: list[str]) -> str:
    """A ranking with some of its comparisons left out: "a > b > c" → "a > b = c"."""
    items = cell.split(" > ")
    return items[0] + "".join(f" {sign} {item}" for sign, item in zip(signs, items[1:], strict=True))


def held_out(model: tb.TBM, frame: pd.DataFrame) -> float:
    """Mean log P(e) per answered cell."""
    method = "exact" if model.params_.n_hidden <= MOST_EXACT else "annealed"
    parts = [frame[begin : begin + AT_ONCE] for begin in range(0, len(frame), AT_ONCE)]
    total = sum(model.score_samples(part, method=method).sum() for part in parts)
    return float(total / frame.notna().to_numpy().sum())


class Result(NamedTuple):
    """One fit: what it scored, beside independent columns and the truth, in nats per cell."""

    converged: bool
    ours: float
    independent: float
    truth: float
    seconds: float
    n_hidden: int
    n_epochs: int


def run(kind: Kind, seed: int, n_train: int = N_TRAIN, n_test: int = N_TEST, **options: Any) -> Result:
    """A new model and new rows; what untuned learning makes of them."""
    rng = np.random.default_rng([seed, len(kind.schema)])
    true = truth(kind.schema, rng)
    train, test = simulate(true, n_train, rng, kind.missing), simulate(true, n_test, rng, kind.missing)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = tb.TBM(dict(kind.schema), random_state=seed, **options).fit(train)
    seconds = time.perf_counter() - started
    failed = [w for w in caught if issubclass(w.category, ConvergenceWarning) and "training failed" in str(w.message)]
    independent = tb.TBM(dict(kind.schema), n_hidden=0, random_state=seed).fit(train)
    return Result(
        bool(model.converged_) and not failed,
        held_out(model, test),
        held_out(independent, test),
        held_out(true, test),
        seconds,
        model.params_.n_hidden,
        model.n_epochs_,
    )


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds instead of ten")
    seeds = range(2 if parser.parse_args().quick else 10)
    print(f"{N_TRAIN} rows to learn from, {N_TEST} held out; nats per cell")
    print(
        f"{'kind':<22}{'seed':>5}{'K':>4}{'epochs':>8}{'ours':>9}{'indep.':>9}{'truth':>9}{'gain':>8}{'gap':>8}{'s':>7}"
    )
    results: dict[str, list[Result]] = {name: [] for name in KINDS}
    started = time.perf_counter()
    for name, kind in KINDS.items():
        for seed in seeds:
            r = run(kind, seed)
            results[name].append(r)
            print(
                f"{name:<22}{seed:>5}{r.n_hidden:>4}{r.n_epochs:>8}{r.ours:>9.4f}{r.independent:>9.4f}{r.truth:>9.4f}"
                f"{r.ours - r.independent:>8.4f}{r.truth - r.ours:>8.4f}{r.seconds:>7.1f}"
                + ("" if r.converged else "  did not converge"),
                flush=True,
            )
    every = [r for rows in results.values() for r in rows]
    summary = {
        "fits": len(every),
        "converged": sum(r.converged for r in every),
        "beats_independent": sum(r.ours > r.independent for r in every),
        "kinds": {
            name: {
                "gain": float(np.mean([r.ours - r.independent for r in rows])),
                "least_gain": float(min(r.ours - r.independent for r in rows)),
                "gap_to_truth": float(np.mean([r.truth - r.ours for r in rows])),
                "seconds": float(np.median([r.seconds for r in rows])),
            }
            for name, rows in results.items()
        },
        "seconds": time.perf_counter() - started,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
