"""Fits on several devices or in several processes, started by test_parallel.py: `python -m tests.on_devices ...`.

devices CASE...                     largest difference of parameters from those of one device, by case, as JSON
process FOLDER PORT NUMBER OF [END] one of several processes that fit rows.parquet; END is the pool of rows after
                                    which this one kills itself
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import thurbo as tb
from thurbo import _runtime  # noqa: F401  (before JAX)

N = 351  # divided neither by eight nor by three
LEVELS = [1, 2, 3, 4, 5]
SMALL = {
    "tbm": {"LARGE": 200, "SAMPLE": 120},
    "table.io.scan": {"PIECE": 64, "MOST_DISTINCT": 4},
    "fit.stream": {"SHARDS": 4, "POOL": 160},
}
MIXED = {"fan": tb.Binary(), "trust": tb.Ordinal(LEVELS), "news": tb.Categorical(), "age": tb.Continuous()}
USUAL: dict[str, Any] = {"random_state": 0, "verbose": False, "max_epochs": 2}


def small() -> None:
    """Make a table of a few hundred rows a large one."""
    from importlib import import_module

    for module, values in SMALL.items():
        for name, value in values.items():
            setattr(import_module(f"thurbo.{module}"), name, value)


def table(n: int = N) -> Any:
    """Answers of all kinds; numbers have few different values, and one label is rare."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    z = rng.normal(size=n)
    columns = {
        "fan": np.where(z + rng.normal(size=n) > 0, "yes", "no"),
        "trust": np.clip(np.round(3 + z + rng.normal(size=n)), 1, 5),
        "news": np.where(z > 0.5, "paper", rng.choice(["radio", "web"], n)),
        "age": (40 + 10 * (z + rng.normal(size=n))).round(-1),
    }
    columns["news"][n - 20] = "none"
    return pa.table({name: pa.array(own, mask=rng.random(n) < 0.1) for name, own in columns.items()})


def lists() -> Any:
    """Ratings of 2 to 12 of 20 items by each of 101 users."""
    rng, found = np.random.default_rng(0), []
    for user in range(101):
        own = rng.choice(20, rng.integers(2, 13), replace=False)
        found += [
            (f"u{user}", f"i{item}", int(score)) for item, score in zip(own, rng.integers(1, 6, 13), strict=False)
        ]
    user, item, score = zip(*found, strict=True)
    return tb.from_long({"user": user, "item": item, "score": score}, "user", "item", "score")


def leaves(model: tb.TBM) -> list[np.ndarray]:
    import jax

    return [np.asarray(leaf) for member in model.model_.members for leaf in jax.tree.leaves(member.params)]


def fitted(case: str, devices: int) -> tb.TBM:
    """A fit of a case on some devices."""
    usual = tb.Prediction(devices=devices, experts="none")
    if case == "mixed":
        return tb.TBM(MIXED, n_hidden=2, learning=usual, **USUAL).fit(table())
    if case == "chains":
        learning = tb.Likelihood(devices=devices, n_chains=50)
        return tb.TBM(MIXED, n_hidden=2, learning=learning, **USUAL).fit(table())
    if case == "lists":
        return tb.TBM({"item": tb.Ratings()}, members=1, learning=usual, **USUAL).fit(lists())
    if case == "members":
        return tb.TBM(MIXED, members=2, learning=usual, **USUAL).fit(table())
    small()
    if case == "large members":
        return tb.TBM(MIXED, members=2, learning=usual, **USUAL).fit(tb.scan(table()))
    few = {name: MIXED[name] for name in ("fan", "trust", "age")}  # compiled sooner
    size: Any = 20 if case == "uneven" else "auto"  # rows of a batch that eight devices do not divide
    return tb.TBM(few, n_hidden=2, learning=usual, batch_size=size, **USUAL).fit(tb.scan(table()))


def differences(cases: list[str]) -> dict[str, float]:
    """The largest difference of a parameter from those of one device, for each "case:devices"."""
    found, alone = dict[str, float](), dict[str, list[np.ndarray]]()
    for each in cases:
        case, devices = each.split(":")
        if case not in alone:
            alone[case] = leaves(fitted(case, 1))
        found[each] = apart(leaves(fitted(case, int(devices))), alone[case])
    return found


def apart(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """The largest difference of two lists of arrays; infinite where only one is infinite."""
    with np.errstate(invalid="ignore"):  # of cuts that are both infinite
        differ = [np.where(own == its, 0, np.abs(own - its)) for own, its in zip(one, other, strict=True)]
    return max(float(each.max(initial=0)) for each in differ)


def process(folder: Path, port: int, number: int, of: int, end: int = 0) -> None:
    """Fit a table in files together with other processes, and save what was fitted as arrays."""
    from thurbo.fit import course, fitting

    tb.distributed.initialize(f"127.0.0.1:{port}", of, number, heartbeat_timeout_seconds=10)
    small()
    fitting.Checkpoint.__init__.__defaults__ = (0.0,)  # after every epoch

    @contextmanager
    def progress(*_: Any) -> Iterator[Any]:
        pools = []

        def on_epoch(record: dict[str, Any]) -> None:
            pools.extend([record] * (record.get("stage") == "fitting to all rows"))
            if end and len(pools) >= end:
                os.kill(os.getpid(), signal.SIGKILL)

        yield on_epoch

    course.progress = progress
    settings: dict[str, Any] = {}
    if end or (folder / "with-checkpoint").exists():
        settings = {"checkpoint": folder / "state", "batch_size": 20}  # several pools of rows
    try:
        learning = tb.Prediction(experts="none")
        rows = tb.scan(folder / "rows.parquet")
        model = tb.TBM(MIXED, members=2, learning=learning, **USUAL, **settings).fit(rows)
    except tb.ThurboError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    np.savez(folder / f"fitted-{number}.npz", *leaves(model), seen=model._seen_rows)
    model.save(folder / f"m{number}.thurbo")


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    kind, *rest = arguments
    if kind == "process":
        process(Path(rest[0]), *map(int, rest[1:]))
        return
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
    print(json.dumps(differences(rest)))


if __name__ == "__main__":
    main(sys.argv[1:])
