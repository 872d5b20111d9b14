"""Filling in a survey: 2,538 × 18 answers of the General Social Survey 2014, a fifth of them hidden, five times over.

    python -m benchmarks.impute_gss [--quick] [--only NAME ...] [--peers DIR] [--install]

SMAE is the mean over columns of the mean absolute error divided by that of the column's median; a hit is a hidden cell
filled in exactly. Medians suit the first, modes the second, so each method gives one of each. Peers work in
environments of their own, which --install makes; an absent peer is reported as absent. Data: $THURBO_DATA/gss-2014.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import thurbo as tb

SHARE, N_MASKS = 0.2, 5
# Chosen on cells that no mask hides: see docs/benchmarks.md. Without hidden units this is a Gaussian copula, of which
# multi-prediction learns the ten strongest directions.
SETTINGS: dict[str, Any] = {"objective": "multi-prediction", "n_hidden": 0, "n_factors": 10, "weight_decay": 0.1}
N_FITS = 3
SCRIPTS = Path(__file__).parent / "peers"


class Peer(NamedTuple):
    """Another library: the script that asks it, that script's further words, and what to install for it."""

    script: str
    words: Sequence[str] = ()
    packages: Sequence[str] = ()  # none: it is in thurbo's own environment
    folder: str = ""


PEERS = {
    "gcimpute": Peer(
        "impute_gcimpute.py", (), ("gcimpute==0.0.4", "numpy==1.24.4", "pandas==2.0.3", "scipy==1.11.4"), "gcimpute"
    ),
    "lace": Peer("impute_lace.py", (), ("pylace==0.10.1",), "pylace"),
    "miceforest": Peer("impute_miceforest.py", (), ("miceforest==6.0.5", "lightgbm==4.5.0", "pandas<3"), "miceforest"),
    "IterativeImputer, forests": Peer("impute_sklearn.py", ("forests",)),
    "IterativeImputer, ridge": Peer("impute_sklearn.py", ("ridge",)),
}


METHODS = ["thurbo", "median and mode", *PEERS]


class Filled(NamedTuple):
    """Two completed tables: one to be judged by absolute errors, one by hits; and the time they took."""

    median: np.ndarray
    mode: np.ndarray
    seconds: float


class Score(NamedTuple):
    """How far off, and how often exact."""

    smae: float
    hit: float


def load() -> pd.DataFrame:
    """The answers, by the names of the survey's questions."""
    return pd.read_csv(Path(os.environ["THURBO_DATA"]) / "gss-2014" / "GSS_2014_18var.csv", index_col=0)


def hidden_cells(frame: pd.DataFrame, seed: int) -> np.ndarray:
    """A fifth of the answered cells, [row, column]."""
    return (np.random.default_rng(seed).random(frame.shape) < SHARE) & frame.notna().to_numpy()


def score(frame: pd.DataFrame, hidden: np.ndarray, filled: Filled) -> Score:
    """SMAE of the medians and hits of the modes, on the hidden cells."""
    truth = frame.to_numpy(float)
    ratios = []
    for j in range(truth.shape[1]):
        cells = hidden[:, j]
        middle = np.nanmedian(np.where(cells, np.nan, truth[:, j]))
        ours, plain = (np.abs(guess - truth[cells, j]).mean() for guess in (filled.median[cells, j], middle))
        ratios.append(ours / plain)
    return Score(float(np.mean(ratios)), float((filled.mode[hidden] == truth[hidden]).mean()))


def marginal(frame: pd.DataFrame) -> Filled:
    """Each column's own median, and its most frequent answer."""
    table = frame.to_numpy(float)
    median = np.broadcast_to(np.nanmedian(table, axis=0), table.shape)
    mode = np.broadcast_to([column.mode().iloc[0] for _, column in frame.items()], table.shape)
    return Filled(median, mode, 0.0)


def schema(frame: pd.DataFrame) -> dict[str, tb.Ordinal]:
    """Every question as ordered levels: its answers that occur, be they four or seventy."""
    return {name: tb.Ordinal(sorted(column.dropna().unique().tolist())) for name, column in frame.items()}


def ours(frame: pd.DataFrame, first: int = 0) -> Filled:
    """Probabilities of several fits with seeds from `first` on, averaged; medians and modes of these."""
    started = time.perf_counter()
    columns, chances = schema(frame), dict[str, np.ndarray]()
    for seed in range(first, first + N_FITS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tb.TBM(columns, random_state=seed, verbose=False, **SETTINGS).fit(frame)
        for name in frame:
            chances[name] = chances.get(name, 0.0) + model.predict_proba(frame, name) / N_FITS
    median, mode = frame.to_numpy(float), frame.to_numpy(float)
    for j, (name, column) in enumerate(columns.items()):
        answers = np.asarray(column.levels, float)
        middle = (np.cumsum(chances[name], axis=1) < 0.5).sum(axis=1).clip(max=len(answers) - 1)
        median[:, j], mode[:, j] = answers[middle], answers[chances[name].argmax(axis=1)]
    return Filled(median, mode, time.perf_counter() - started)


def interpreter(peer: Peer, folder: Path) -> Path:
    """The Python that knows this peer."""
    if not peer.packages:
        return Path(sys.executable)
    return folder / peer.folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def theirs(frame: pd.DataFrame, peer: Peer, folder: Path) -> Filled | None:
    """What a peer fills in; None where it is not installed."""
    python = interpreter(peer, folder)
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as place:
        table, filled = Path(place) / "table.npy", Path(place) / "filled.npz"
        np.save(table, frame.to_numpy(float))
        command = [str(python), str(SCRIPTS / peer.script), str(table), str(filled), *peer.words]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{peer.script} failed:\n{done.stderr[-2000:]}")
        with np.load(filled) as found:
            return Filled(found["median"], found["mode"], time.perf_counter() - started)


def install(peers: Mapping[str, Peer], folder: Path) -> None:
    """An environment for each peer that needs one."""
    for peer in peers.values():
        if peer.packages:
            subprocess.run([sys.executable, "-m", "venv", str(folder / peer.folder)], check=True)
            command = [str(interpreter(peer, folder)), "-m", "pip", "install", "--quiet", *peer.packages]
            subprocess.run(command, check=True)


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one mask instead of five")
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="folder of the peers' environments")
    parser.add_argument("--only", nargs="+", default=METHODS, metavar="NAME", help="methods to run, by their names")
    parser.add_argument("--seed", type=int, default=0, help=f"thurbo's fits begin with {N_FITS} times this seed")
    parser.add_argument("--install", action="store_true", help="make those environments, and stop")
    chosen = parser.parse_args()
    if chosen.install:
        install(PEERS, chosen.peers)
        return
    frame = load()
    scores: dict[str, list[Score]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in range(1 if chosen.quick else N_MASKS):
        hidden = hidden_cells(frame, seed)
        shown = frame.mask(hidden)
        for name in chosen.only:
            if name in PEERS:
                filled = theirs(shown, PEERS[name], chosen.peers)
            else:
                filled = ours(shown, N_FITS * chosen.seed) if name == "thurbo" else marginal(shown)
            if filled is None:
                print(f"mask {seed}  {name:<28} absent: python -m benchmarks.impute_gss --install", flush=True)
                continue
            found = score(frame, hidden, filled)
            scores.setdefault(name, []).append(found)
            seconds.setdefault(name, []).append(filled.seconds)
            print(f"mask {seed}  {name:<28}{found.smae:>8.4f}{found.hit:>8.4f}{filled.seconds:>8.1f} s", flush=True)
    report(scores, seconds)


def report(scores: Mapping[str, Sequence[Score]], seconds: Mapping[str, Sequence[float]]) -> None:
    """Means over the masks, and on how many of them ours is the better one, by each measure."""
    means = {name: Score(*np.mean(each, axis=0).tolist()) for name, each in scores.items()}
    print(f"\n{'':<30}{'SMAE':>8}{'hit':>8}{'behind thurbo':>16}{'s':>8}")
    for name, mean in means.items():
        pairs = list(zip(scores.get("thurbo", ()), scores[name], strict=False))
        ahead = [sum(a.smae < b.smae for a, b in pairs), sum(a.hit > b.hit for a, b in pairs)]
        behind = f"{ahead[0]}, {ahead[1]} of {len(pairs)}" if pairs and name != "thurbo" else ""
        print(f"{name:<30}{mean.smae:>8.4f}{mean.hit:>8.4f}{behind:>16}{np.median(seconds[name]):>8.1f}")
    own = means.pop("thurbo")._asdict() if "thurbo" in means else {}
    print(json.dumps(own | {"peers": {name: mean._asdict() for name, mean in means.items()}}))


if __name__ == "__main__":
    main()
