"""Numbers known only in part: held-out log-likelihood of censored and interval data, beside lifelines' fits.

    python -m benchmarks.censored [--quick] [--peers DIR] [--install]

Two data sets that lifelines ships, in $THURBO_DATA/censored: `diabetes`, 731 times of which 136 are known to lie in an
interval, and `CuZn`, 104 concentrations of which 26 are below a detection limit. Every method learns from the same
folds and is judged on the same rows: log density of a number, log mass of an interval, in nats per row. Of lifelines
come fitted parameters alone; the formula is one for all. The last rows of the table learn the second column of each
table (gender, zone) jointly, which gives log P(number | group). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

import thurbo as tb
from benchmarks.impute_gss import SCRIPTS, Peer, install, interpreter

LIFELINES = Peer("censored_lifelines.py", (), ("lifelines==0.30.3",), "lifelines")
N_FOLDS = 5
N_HIDDEN, N_JOINTLY = (0, 2), (1, 2)  # hidden units to choose from, of the number and with its group
TRANSFORMS = (None, "log")
# Whole steps at a high rate: one column gives two hidden units little to part them, and small steps leave them asleep.
SETTINGS: dict[str, Any] = {"n_factors": 0, "learning_rate": 0.1, "weight_decay": 0.0, "objective": "exact"}


class Data(NamedTuple):
    """Ends of what is known of each number, equal where it is known exactly, and the group of its row."""

    lower: np.ndarray
    upper: np.ndarray
    group: np.ndarray

    def rows(self, index: np.ndarray) -> Data:
        """Some of the rows."""
        return Data(*(each[index] for each in self))

    def frame(self) -> pd.DataFrame:
        """As a table."""
        return pd.DataFrame(self._asdict())


def load() -> dict[str, Data]:
    """Both tables as intervals."""
    folder = Path(os.environ["THURBO_DATA"]) / "censored"
    times = pd.read_csv(folder / "interval_diabetes.csv")
    metal = pd.read_csv(folder / "CuZn-LeftCensoredDataset.csv")
    reading = metal["T"].to_numpy(float)
    below = np.where(metal["E"] == 1, reading, -np.inf)
    return {
        "diabetes": Data(times["left"].to_numpy(float), times["right"].to_numpy(float), times["gender"].to_numpy()),
        "CuZn": Data(below, reading, metal["group"].to_numpy()),
    }


def splits(n_rows: int, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows held out, by fold."""
    parts = np.array_split(np.random.default_rng(0).permutation(n_rows), n_folds)
    return [(np.setdiff1d(np.arange(n_rows), part), np.sort(part)) for part in parts]


def fit(data: Data, transform: Any, n_hidden: int = 0, with_group: bool = False, seed: int = 0) -> tb.TBM:
    """A model of one number, or of the number and its group."""
    schema: dict[str, Any] = {"number": tb.Bounded(lower="lower", upper="upper", transform=transform)}
    if with_group:
        schema["group"] = tb.Binary(values=tuple(sorted(set(data.group))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = {"batch_size": len(data.lower), "random_state": seed, "verbose": False}
        model = tb.TBM(schema, n_hidden=n_hidden, **SETTINGS, **whole)
        return model.fit(data.frame()[["lower", "upper", *(["group"] if with_group else [])]])


def score(model: tb.TBM, data: Data) -> np.ndarray:
    """log P(what is known of the number), given the group where the model knows groups."""
    whole = data.frame()[list(model.feature_names_in_)]
    found = model.score_samples(whole)
    if "group" in whole:
        found = found - model.score_samples(whole.assign(lower=np.nan, upper=np.nan))
    return found


def merit(model: tb.TBM, data: Data) -> float:
    """Schwarz's criterion on the rows that were learned from: log-likelihood less ½ log n for each parameter."""
    n_sites, n_hidden = model.weights_.shape
    n_parameters = n_sites * (n_hidden + 1) + n_hidden + 1  # biases or cuts, weights, hidden biases, one scale
    whole = data.frame()[list(model.feature_names_in_)]
    return float(model.score_samples(whole).sum()) - 0.5 * n_parameters * np.log(len(whole))


def ours(train: Data, test: Data, seed: int = 0) -> dict[str, np.ndarray]:
    """Each way of fitting, by name. "thurbo" is the one that Schwarz's criterion takes on the rows learned from."""
    models = {(n, t): fit(train, t, n, seed=seed) for n in N_HIDDEN for t in TRANSFORMS}
    _, transform = best = max(models, key=lambda each: merit(models[each], train))
    with_group = [fit(train, transform, n, with_group=True, seed=seed) for n in N_JOINTLY]
    jointly = max(with_group, key=lambda each: merit(each, train))
    found = {f"thurbo, {n} hidden units, {t}": score(model, test) for (n, t), model in models.items()}
    return {"thurbo": score(models[best], test), **found, "thurbo, given the group": score(jointly, test)}


DISTRIBUTIONS = {
    "normal": lambda mu_, sigma_: stats.norm(mu_, sigma_),
    "log-normal": lambda mu_, sigma_: stats.lognorm(sigma_, scale=np.exp(mu_)),
    "Weibull": lambda lambda_, rho_: stats.weibull_min(rho_, scale=lambda_),
}


def log_likelihood(distribution: Any, data: Data) -> np.ndarray:
    """Log density of a number, log mass of an interval."""
    exact = data.lower == data.upper
    mass = distribution.cdf(data.upper) - distribution.cdf(data.lower)
    return np.where(exact, distribution.logpdf(data.upper), np.log(np.where(exact, 1.0, mass)))


def theirs(trains: list[Data], tests: list[Data], folder: Path) -> list[dict[str, np.ndarray]] | None:
    """lifelines' fits of every fold, judged by our formula; None where it is not installed."""
    python = interpreter(LIFELINES, folder)
    if not python.exists():
        return None
    ends = [{n: [e if np.isfinite(e) else None for e in getattr(d, n)] for n in ("lower", "upper")} for d in trains]
    with tempfile.TemporaryDirectory() as place:
        asked, answered = Path(place) / "folds.json", Path(place) / "fits.json"
        asked.write_text(json.dumps(ends))
        command = [str(python), str(SCRIPTS / LIFELINES.script), str(asked), str(answered)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{LIFELINES.script} failed:\n{done.stderr[-2000:]}")
        fits = json.loads(answered.read_text())
    return [
        {f"lifelines, {name}": log_likelihood(DISTRIBUTIONS[name](**found), test) for name, found in each.items()}
        for each, test in zip(fits, tests, strict=True)
    ]


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two folds instead of five")
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="folder of the peers' environments")
    parser.add_argument("--no-peers", action="store_true", help="nothing but thurbo")
    parser.add_argument("--seed", type=int, default=0, help="of thurbo's fits")
    parser.add_argument("--install", action="store_true", help="make lifelines' environment, and stop")
    chosen = parser.parse_args()
    if chosen.install:
        install({"lifelines": LIFELINES}, chosen.peers)
        return
    scores: dict[str, dict[str, np.ndarray]] = {}
    for title, data in load().items():
        cut = splits(len(data.lower), 2 if chosen.quick else N_FOLDS)
        trains, tests = ([data.rows(pair[k]) for pair in cut] for k in (0, 1))
        found = [ours(train, test, chosen.seed) for train, test in zip(trains, tests, strict=True)]
        fits = None if chosen.no_peers else theirs(trains, tests, chosen.peers)
        if fits is None and not chosen.no_peers:
            print("lifelines is absent: python -m benchmarks.censored --install")
        elif fits is not None:
            found = [a | b for a, b in zip(found, fits, strict=True)]
        scores[title] = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    names = list(next(iter(scores.values())))
    overall = {name: float(np.concatenate([each[name] for each in scores.values()]).mean()) for name in names}
    print(f"{'held-out nats per row':<32}{''.join(f'{title:>10}' for title in scores)}{'overall':>10}")
    for name in names:
        print(f"{name:<32}{''.join(f'{each[name].mean():>10.4f}' for each in scores.values())}{overall[name]:>10.4f}")
    peers = {name: value for name, value in overall.items() if name.startswith("lifelines")}
    by_data = {title: {name: float(each[name].mean()) for name in names} for title, each in scores.items()}
    print(json.dumps({"loglik": overall["thurbo"], "peers": peers, "data": by_data}))


if __name__ == "__main__":
    main()
