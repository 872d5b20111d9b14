"""Do time and memory grow with the cells that were observed, and no faster? Lists of 1 to 5,000 out of 100,000 items.

    python -m benchmarks.scale_rankings [--quick]

Each size has a process of its own: a long table of made ratings, `from_long`, a fit of two passes, and the ten best
items of some rows; the catalogue is the same at every size. Time is that of reading, packing and the second pass,
without compilation of the passes; memory is the peak of the process beyond what it held with the long table. `--quick`
ends at a million.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

N_ITEMS, LONGEST = 100_000, 5_000
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
SETTINGS: dict[str, Any] = {"n_hidden": 16, "n_factors": 4, "max_epochs": 2, "random_state": 0, "verbose": False}
COMPILED = "/jax/core/compile/backend_compile_duration"


def ratings(n_cells: int, seed: int = 0) -> Any:
    """A long table of about so many ratings: rows of very different lengths, items of very different fame."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    lengths: list[int] = []
    while sum(lengths) < n_cells:
        lengths += np.clip(rng.lognormal(3.5, 1.2, 1000), 1, LONGEST).astype(int).tolist()
    row = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[:n_cells]
    item = (N_ITEMS * rng.random(len(row)) ** 3).astype(np.int32)
    frame = pd.DataFrame({"row": row, "item": item}).drop_duplicates(ignore_index=True)
    taste = np.sin(frame["row"].to_numpy() * 1.0) * np.cos(frame["item"].to_numpy() * 1.0)
    frame["score"] = np.clip(np.rint(3.3 + taste + rng.normal(size=len(frame))), 1, 5).astype(np.int8)
    return frame


def peak() -> float:
    """Most memory this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def held() -> float:
    """Memory that this process holds now, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one(n_cells: int) -> dict[str, float]:
    """Cells, seconds of each part, bytes beyond the long table, and programs compiled."""
    import jax.monitoring

    import thurbo as tb

    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, _, **more: compiled.append(name) if name == COMPILED else None
    )
    catalogue = {"item": tb.Ratings(items=range(N_ITEMS), levels=range(1, 6))}
    chosen = SETTINGS | {"learning": tb.Learning(validation_fraction=0.0)}
    tb.TBM(catalogue, **chosen).fit(tb.from_long(ratings(2_000), "row", "item", "score"))  # what JAX itself needs
    frame, before = ratings(n_cells), held()
    compiled.clear()
    began = time.perf_counter()
    users = tb.from_long(frame, "row", "item", "score")
    read = time.perf_counter() - began
    began = time.perf_counter()
    model = tb.TBM(catalogue, **chosen).fit(users)
    first, second = (record["seconds"] for record in model.history_)
    pack = time.perf_counter() - began - second
    programs = len(compiled)
    model.rank(tb.from_long(frame[frame["row"] < 500], "row", "item", "score"), top=10)
    return {
        "cells": float(len(frame)),
        "read": read,
        "pack": pack,
        "pass": second - first,
        "bytes": peak() - before,
        "compilations": float(programs),
    }


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to a million cells")
    parser.add_argument("--one", type=int, help="one size, in this process")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.one)))
        return
    found = []
    print("     cells   read s   pack s   pass s  us a cell  MB beyond  compiled")
    for size in SIZES[:5] if asked.quick else SIZES:
        command = [sys.executable, "-m", "benchmarks.scale_rankings", "--one", str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        each = json.loads(done.stdout.splitlines()[-1])
        each["seconds"] = each["read"] + each["pack"] + each["pass"]
        found.append(each)
        print(
            f"{each['cells']:10.0f} {each['read']:8.2f} {each['pack']:8.2f} {each['pass']:8.2f} "
            f"{1e6 * each['seconds'] / each['cells']:10.2f} {each['bytes'] / 1e6:10.1f} {each['compilations']:9.0f}",
            flush=True,
        )
    cells, seconds, memory = (np.asarray([each[name] for each in found]) for name in ("cells", "seconds", "bytes"))
    exponent = np.polyfit(np.log(cells), np.log(seconds), 1)[0]
    last = np.polyfit(np.log(cells[-3:]), np.log(seconds[-3:]), 1)[0]
    slope = np.polyfit(cells, memory, 1)[0]
    print(
        json.dumps(
            {
                "time_exponent": float(exponent),
                "time_exponent_of_the_largest": float(last),
                "bytes_per_cell": float(slope),
                "compilations": int(max(each["compilations"] for each in found)),
                "sizes": found,
            }
        )
    )


if __name__ == "__main__":
    main()
