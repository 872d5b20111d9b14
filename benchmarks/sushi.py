"""Full rankings of ten sushi: held-out log-likelihood beside Plackett–Luce, contextual repeated selection and Mallows.

    python -m benchmarks.sushi [--quick] [--demographics] [--hidden K] [--seeds N] [--no-context] [--choose] ...

5,000 people ranked ten kinds of sushi (Kamishima, KDD 2003), in $THURBO_DATA/sushi. Five folds, row number mod 5. `TBM`
with `Ranking(context=True)` maximises the exact likelihood and is scored by enumeration of its hidden units, so every
figure is a true log-probability in nats per ranking. `--no-context` uses one draw of Gaussian utilities for a ranking.
The peers are fitted here by maximum likelihood. `--demographics` also learns gender and age group in the same rows, and
scores log P(ranking | both). `--choose` prints what CANDIDATES and the peers' settings score on rows taken out of the
first fold's training rows, and stops. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import thurbo as tb
from benchmarks import sushi_peers

ITEMS = ("ebi", "anago", "maguro", "ika", "uni", "sake", "tamago", "toro", "tekka-maki", "kappa-maki")
AGES = ("15-19", "20-29", "30-39", "40-49", "50-59", "60-")
N_FOLDS, N_HIDDEN, N_EPOCHS, N_SEEDS = 5, 8, 100, 3
COMPONENTS, RESTARTS, EM_STEPS = 10, 8, 400
SELECTION_PENALTY, SELECTION_RESTARTS = (0.1, 0.1), 4  # of one model, and of a mixture of two
MALLOWS_COMPONENTS = 40
PL, PL_MIXTURE, MALLOWS = "Plackett-Luce", f"{COMPONENTS} Plackett-Luce", f"{MALLOWS_COMPONENTS} Mallows"
CRS, CRS_MIXTURE = "contextual repeated selection", "2 contextual repeated selection"
KEYS = {"pl": PL, "pl_mixture": PL_MIXTURE, "crs": CRS, "crs_mixture": CRS_MIXTURE, "mallows_mixture": MALLOWS}
SETTINGS: dict[str, Any] = {"learning_rate": 0.02, "batch_size": 250, "weight_decay": 0.05}
CANDIDATES: tuple[dict[str, Any], ...] = (
    {},
    {"weight_decay": 0.0},
    {"weight_decay": 0.01},
    {"learning_rate": 0.05},
    {"learning_rate": 0.01},
)


# ---- data


class Data(NamedTuple):
    """Item numbers from best to worst, [row, place], and each person's gender and age group."""

    order: np.ndarray
    gender: np.ndarray
    age: np.ndarray

    def rows(self, index: np.ndarray) -> Data:
        """Some of the rows."""
        return Data(*(each[index] for each in self))

    def frame(self, with_people: bool, with_ranks: bool = True) -> pd.DataFrame:
        """One column for each item, 1 where it is best; then gender and age group."""
        ranks = np.argsort(self.order, axis=1) + 1.0
        frame = pd.DataFrame(ranks if with_ranks else np.full_like(ranks, np.nan), columns=list(ITEMS))
        return frame.assign(gender=self.gender, age=self.age) if with_people else frame


def read(folder: Path) -> Data:
    """The data set as it was published; each line of orders belongs to the same line of people."""
    lines = (folder / "sushi3a.5000.10.order").read_text().splitlines()
    order = np.array([line.split()[2:] for line in lines[1:] if line.strip()], int)
    if order.shape[1] != len(ITEMS) or (np.sort(order, axis=1) != np.arange(len(ITEMS))).any():
        raise ValueError(f"a line of {folder} is not an order of the {len(ITEMS)} items")
    people = np.loadtxt(folder / "sushi3.udata", dtype=int, usecols=(1, 2), ndmin=2)
    if len(people) != len(order):
        raise ValueError(f"{folder}: {len(order)} orders of {len(people)} people")
    return Data(order, np.array(("male", "female"))[people[:, 0]], np.array(AGES)[people[:, 1]])


def split(n_rows: int, fold: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from, and rows held out: those whose number mod 5 is the fold."""
    number = np.arange(n_rows)
    return number[number % N_FOLDS != fold], number[number % N_FOLDS == fold]


# ---- Plackett–Luce, and mixtures of it


class Mixture(NamedTuple):
    """Log-weights of the components and the log-utilities of items in each."""

    log_weight: jax.Array  # [component]
    utility: jax.Array  # [component, item]


def stages(utility: jax.Array, who: jax.Array) -> tuple[jax.Array, jax.Array]:
    """exp(utility) of the item taken at each place, and of all that were left then: [component, row, place]."""
    placed = jnp.einsum("ci,npi->cnp", jnp.exp(utility), who, precision="highest")
    upwards = np.tri(who.shape[1], dtype=np.float32)  # products and sums of positive numbers only
    return placed, jnp.matmul(placed, jnp.asarray(upwards, placed.dtype), precision="highest")


def plackett_luce(utility: jax.Array, who: jax.Array) -> jax.Array:
    """log P(order) of each component and row: the best first, each among all that are left."""
    placed, left = stages(utility, who)
    return (jnp.log(placed) - jnp.log(left)).sum(axis=2)


def one_hot(order: np.ndarray) -> jax.Array:
    """Who stands where, [row, place, item]."""
    return jax.nn.one_hot(jnp.asarray(order), order.shape[1], dtype=jnp.float32)


def log_likelihood(mixture: Mixture, who: jax.Array) -> jax.Array:
    """log P(order) of each row."""
    joint = mixture.log_weight[:, None] + plackett_luce(mixture.utility, who)
    return jax.scipy.special.logsumexp(joint, axis=0)


def em_step(mixture: Mixture, who: jax.Array) -> tuple[Mixture, jax.Array]:
    """A step of EM with one minorising step (Hunter 2004) for the utilities; and log P of the rows before it.

    Neither lowers the likelihood. exp(utility) becomes how often an item was taken over how often it could have been.
    """
    placed, left = stages(mixture.utility, who)
    joint = mixture.log_weight[:, None] + (jnp.log(placed) - jnp.log(left)).sum(axis=2)
    total = jax.scipy.special.logsumexp(joint, axis=0)
    share = jnp.exp(joint - total[None, :])
    n_rows, n, _ = who.shape
    flat = who.reshape(n_rows * n, n)
    is_choice = jnp.arange(n) < n - 1  # the last item is no choice
    asked = jnp.where(is_choice[None, None, :], 1.0 / left, 0.0)
    asked = jnp.matmul(asked, jnp.asarray(np.tri(n).T, asked.dtype), precision="highest")
    sums = lambda value: jnp.matmul((share[:, :, None] * value).reshape(-1, n_rows * n), flat, precision="highest")  # noqa: E731
    taken, could = sums(is_choice.astype(asked.dtype)[None, None, :]), sums(asked)
    utility = jnp.log(jnp.maximum(taken, 1e-6)) - jnp.log(jnp.maximum(could, 1e-6))
    utility = jnp.maximum(utility, utility.max(axis=1, keepdims=True) - 15.0)
    return Mixture(jnp.log(jnp.maximum(share.mean(axis=1), 1e-12)), utility), total


@partial(jax.jit, static_argnames=("n_components", "n_steps"))
def fit_mixture(key: jax.Array, who: jax.Array, n_components: int, n_steps: int) -> tuple[Mixture, jax.Array]:
    """EM from random utilities; and the mean log-likelihood before every step."""
    spread = jax.random.normal(key, (n_components, who.shape[2]), jnp.float32)
    start = Mixture(jnp.full(n_components, -math.log(n_components), jnp.float32), spread)

    def step(mixture: Mixture, _: None) -> tuple[Mixture, jax.Array]:
        mixture, total = em_step(mixture, who)
        return mixture, total.mean()

    return jax.lax.scan(step, start, None, length=n_steps)


def best_mixture(order: np.ndarray, n_components: int, n_restarts: int, n_steps: int) -> Mixture:
    """Of several starts the one that ends with the largest likelihood of the rows learned from."""
    who = one_hot(order)
    fits = [fit_mixture(jax.random.key(seed), who, n_components, n_steps) for seed in range(n_restarts)]
    return max(fits, key=lambda fit: float(fit[1][-1]))[0]


# ---- ours


def schema(with_people: bool, context: bool = False) -> dict[str, Any]:
    """One ranking; beside it two ordinary columns."""
    columns: dict[str, Any] = {"sushi": tb.Ranking(ranks={item: item for item in ITEMS}, context=context)}
    if with_people:
        columns |= {"gender": tb.Binary(true="female", values=("male", "female")), "age": tb.Ordinal(AGES)}
    return columns


def fit(train: Data, n_hidden: int, with_people: bool = False, context: bool = True, **changed: Any) -> tb.TBM:
    """A model of rankings by exact likelihood."""
    chosen = {"n_factors": 0, "max_epochs": N_EPOCHS, "random_state": 0, "verbose": False, **SETTINGS, **changed}
    model = tb.TBM(schema(with_people, context), n_hidden=n_hidden, objective="exact", **chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(train.frame(with_people))


def score(model: tb.TBM, data: Data) -> np.ndarray:
    """log P(ranking), or log P(ranking | gender, age) = log P(all) − log P(gender, age) where the model knows both."""
    with_people = "age" in model.schema_.names
    found = model.score_samples(data.frame(with_people), method="exact")
    if with_people:
        found = found - model.score_samples(data.frame(True, with_ranks=False), method="exact")
    return found


# ---- the table


def peers(train: Data, test: Data, n_restarts: int) -> dict[str, np.ndarray]:
    """Log-likelihoods of held-out rows under each of the other models."""
    single = best_mixture(train.order, 1, 1, 200)
    several = best_mixture(train.order, COMPONENTS, n_restarts, EM_STEPS)
    who = one_hot(test.order)
    found: dict[str, Any] = {PL: log_likelihood(single, who), PL_MIXTURE: log_likelihood(several, who)}
    for name, n, penalty in zip((CRS, CRS_MIXTURE), (1, 2), SELECTION_PENALTY, strict=True):
        model = sushi_peers.fit_contextual(train.order, n, penalty, SELECTION_RESTARTS if n > 1 else 1)
        found[name] = sushi_peers.contextual_log_likelihood(model, test.order)
    mallows = sushi_peers.fit_mallows(train.order, MALLOWS_COMPONENTS, max(2, n_restarts // 2))
    found[MALLOWS] = sushi_peers.mallows_log_likelihood(mallows, test.order)
    return {name: np.asarray(value, np.float64) for name, value in found.items()}


def choose_peers(seen: Data, held: Data) -> dict[str, float]:
    """Validation figures of the settings of peers."""
    found = {}
    for n, penalty in ((1, 0.1), (1, 1.0), (1, 5.0), (2, 0.1), (2, 0.3), (2, 1.0), (2, 3.0)):
        contextual = sushi_peers.fit_contextual(seen.order, n, penalty, SELECTION_RESTARTS if n > 1 else 1)
        value = float(sushi_peers.contextual_log_likelihood(contextual, held.order).mean())
        found[f"{n} contextual repeated selection, penalty {penalty}"] = value
    for n in (5, 10, 20, 40):
        mallows = sushi_peers.fit_mallows(seen.order, n)
        found[f"{n} Mallows"] = float(sushi_peers.mallows_log_likelihood(mallows, held.order).mean())
    for name, value in found.items():
        print(f"{name:<52}{value:10.4f}", flush=True)
    return found


def choose(data: Data, n_hidden: int, with_people: bool, changed: dict[str, Any]) -> None:
    """Validation figures: a fifth of the first fold's training rows is held out of them."""
    train = data.rows(split(len(data.order), 0)[0])
    seen, held = (train.rows(part) for part in split(len(train.order), 0))
    found = choose_peers(seen, held)
    for candidate in CANDIDATES:
        began = time.perf_counter()
        model = fit(seen, n_hidden, with_people, **{**changed, **candidate})
        value, own = float(score(model, held).mean()), float(score(model, seen).mean())
        found[json.dumps(candidate)] = value
        took = time.perf_counter() - began
        print(f"{json.dumps(candidate):<44}{value:10.4f}  seen {own:10.4f}{took:8.1f} s", flush=True)
    print(json.dumps({"validation": found}))


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four hidden units, one fold, one seed, fewer restarts")
    parser.add_argument("--demographics", action="store_true", help="learn gender and age in the same model")
    parser.add_argument("--hidden", type=int, default=None, help=f"binary hidden units (default {N_HIDDEN})")
    parser.add_argument("--folds", type=int, default=None, help=f"how many of the {N_FOLDS} folds")
    parser.add_argument("--seeds", type=int, default=None, help=f"fits of thurbo in each fold (default {N_SEEDS})")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of thurbo's fits")
    parser.add_argument("--epochs", type=int, default=None, help=f"passes over the rows (default {N_EPOCHS})")
    parser.add_argument("--set", type=json.loads, default={}, metavar="JSON", help="parameters of TBM to change")
    parser.add_argument("--no-context", action="store_true", help="one draw of Gaussian utilities for each ranking")
    parser.add_argument("--no-peers", action="store_true", help="nothing but thurbo, and of one size")
    parser.add_argument("--choose", action="store_true", help="print validation figures of settings, and stop")
    return parser.parse_args()


def main() -> None:
    """Print a table for people and one JSON line."""
    asked = options()
    data = read(Path(os.environ["THURBO_DATA"]) / "sushi")
    n_hidden = asked.hidden if asked.hidden is not None else (4 if asked.quick else N_HIDDEN)
    n_folds, n_seeds = asked.folds or (1 if asked.quick else N_FOLDS), asked.seeds or (1 if asked.quick else N_SEEDS)
    changed = {"max_epochs": asked.epochs or (40 if asked.quick else N_EPOCHS), "context": not asked.no_context}
    changed |= asked.set
    if asked.choose:
        choose(data, n_hidden, asked.demographics, changed)
        return
    models = [] if asked.no_peers or not n_hidden else [("thurbo, 0 hidden units", 0, False)]
    models += [(f"thurbo, {n_hidden} hidden units", n_hidden, False)]
    if asked.demographics:
        models += [(f"thurbo, {n_hidden} hidden units, given gender and age", n_hidden, True)]
    folds: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, list[float]] = {}
    for fold in range(n_folds):
        train, test = (data.rows(part) for part in split(len(data.order), fold))
        began = time.perf_counter()
        if not asked.no_peers:
            for name, value in peers(train, test, 2 if asked.quick else RESTARTS).items():
                folds.setdefault(name, []).append(value[None])
            seconds.setdefault("peers", []).append(time.perf_counter() - began)
        for name, k, with_people in models:
            began = time.perf_counter()
            seeds = range(asked.seed, asked.seed + (n_seeds if k else 1))
            fits = (fit(train, k, with_people, **changed, random_state=seed) for seed in seeds)
            folds.setdefault(name, []).append(np.stack([score(model, test) for model in fits]))
            seconds.setdefault(name, []).append((time.perf_counter() - began) / len(seeds))
        print(f"fold {fold}: " + ", ".join(f"{n} {v[-1].mean():.4f}" for n, v in folds.items()), flush=True)
    report(folds, seconds, n_hidden)


def report(folds: dict[str, list[np.ndarray]], seconds: dict[str, list[float]], n_hidden: int) -> None:
    """The means over all held-out rows, and each fold's; scores of a fold are [seed, row]."""
    every = {name: np.concatenate(each, axis=1) for name, each in folds.items()}
    rows = {name: each.mean(axis=0) for name, each in every.items()}  # the mean over fits, not that of their average
    means = {name: float(each.mean()) for name, each in rows.items()}
    mine = f"thurbo, {n_hidden} hidden units"
    print(f"\n{'held-out nats per ranking':<52}{'mean':>10}{'seconds a fit':>16}")
    print(f"{'uniform':<52}{-math.lgamma(len(ITEMS) + 1):10.4f}")
    for name, value in means.items():
        took = f"{np.mean(seconds[name]):16.1f}" if name in seconds else ""
        print(f"{name:<52}{value:10.4f}{took}")
    result: dict[str, Any] = {"loglik": means[mine], "n_hidden": n_hidden}
    result["seeds"] = [float(each.mean()) for each in every[mine]]
    print("each seed: " + ", ".join(f"{value:.4f}" for value in result["seeds"]))
    for key, name in KEYS.items():
        if name in rows:
            gain = rows[mine] - rows[name]
            error = float(gain.std() / math.sqrt(len(gain)))
            print(f"above {name}: {gain.mean():.4f}, standard error {error:.4f}")
            result |= {key: means[name], f"above_{key}": float(gain.mean()), f"above_{key}_error": error}
    result["means"] = means
    result["folds"] = {name: [float(value.mean()) for value in each] for name, each in folds.items()}
    result["seconds"] = {name: float(np.mean(each)) for name, each in seconds.items()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
