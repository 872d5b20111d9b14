"""How long one row takes once a model is loaded: `predict_proba`, `rank` and others, by one thread on one core.

    python -m benchmarks.serving [--quick] [--repeats 200]

Two models: Star Wars with every question and every default, and a list of ratings (500 users, 300 items). Each question
is asked about one row after another, as a dict of columns and as a pandas frame. Medians and 90 % quantiles, first call
apart, of processor seconds: another process that runs beside does not count. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import thurbo as tb

LIMIT = 0.020  # seconds


def one_core() -> None:
    """Keep this process, and the threads that it starts later, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def timed(ask: Callable[[int], Any], repeats: int) -> dict[str, float]:
    """Processor seconds of the first call, and of the later ones."""
    seconds = []
    for number in range(repeats + 2):
        start = time.process_time()
        ask(number)
        seconds.append(time.process_time() - start)
    later = seconds[2:]
    return {"first": seconds[0], "median": float(np.median(later)), "q90": float(np.quantile(later, 0.9))}


def saved_and_loaded(model: Any) -> tuple[Any, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.thurbo"
        model.save(path)
        start = time.process_time()
        return tb.TBM.load(path), time.process_time() - start


def survey(repeats: int, quick: bool) -> dict[str, dict[str, float]]:
    frame, schema = tb.datasets.load_starwars(everything=True)
    settings: dict[str, Any] = {"max_epochs": 3, "n_hidden": 20} if quick else {}
    model, load = saved_and_loaded(tb.TBM(schema, random_state=0, **settings).fit(frame))
    people = [frame.iloc[[number]] for number in range(100)]
    cells = [{name: [one[name].iloc[0]] for name in frame.columns} for one in people]
    first = next(name for name in model.schema_.modelled if len(model.schema_[name].labels) > 2)
    asked: dict[str, Callable[[int], Any]] = {
        "predict_proba, dict": lambda i: model.predict_proba(cells[i % 100], first),
        "predict_proba, frame": lambda i: model.predict_proba(people[i % 100], first),
        "transform, dict": lambda i: model.transform(cells[i % 100]),
    }
    return {"load": {"first": load}} | {name: timed(ask, repeats) for name, ask in asked.items()}


def ratings(repeats: int, quick: bool) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(500), 30), np.concatenate([rng.permutation(300)[:30] for _ in range(500)])
    taste = (rng.normal(size=(500, 3))[user] * rng.normal(size=(300, 3))[item]).sum(axis=1)
    score = np.clip(np.round(3 + taste + rng.normal(size=len(user))), 1, 5).astype(int)
    long = pd.DataFrame({"user": user, "item": [f"item {number}" for number in item], "score": score})
    table = tb.from_long(long, "user", "item", "score", name="scores")
    model = tb.TBM({"scores": tb.Ratings()}, n_hidden=10, random_state=0, **({"max_epochs": 3} if quick else {}))
    model, load = saved_and_loaded(model.fit(table))
    own = [long[long["user"] == number] for number in range(100)]
    rows = [tb.from_long(each, "user", "item", "score", name="scores") for each in own]
    asked: dict[str, Callable[[int], Any]] = {"rank, ten best of all": lambda i: model.rank(rows[i % 100], top=10)}
    return {"load": {"first": load}} | {name: timed(ask, repeats) for name, ask in asked.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small models, few repeats")
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    one_core()
    repeats = 5 if options.quick else options.repeats
    found = {"survey": survey(repeats, options.quick), "ratings": ratings(repeats, options.quick)}
    for kind, questions in found.items():
        for name, own in questions.items():
            words = ", ".join(f"{key} {1e3 * value:,.0f} ms" for key, value in own.items())
            print(f"{kind:8s} {name:24s} {words}{' (too long)' if own.get('median', 0) > LIMIT else ''}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
