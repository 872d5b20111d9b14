"""How near each hot path is to what it cannot do without, measured in the same run.

    python -m benchmarks.floor [--quick] [--paths probit,table] [--repeats 5]

One update of training (dense probit, levels, choices, numbers, a mixed table, rankings, lists), one transform by
mean-field, and one estimate by annealed importance sampling. The floor is the sum of the matrix products of the
algorithm (with those of its gradient), copies of what must be stored, random bits, and one evaluation per element of
each special function, each timed alone in the same process. Processor seconds of all threads are compared, since they
do not depend on other work of the machine; wall-clock ratios stand beside them. On a GPU, wall-clock seconds are
compared. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import jax

from benchmarks.floor_paths import PATHS, Sizes
from benchmarks.floor_work import Seconds, floor, timed

TARGETS = {"cpu": ({"probit": 1.5}, 2.0), "gpu": ({}, 3.0)}


def measure(name: str, sizes: Sizes, repeats: int) -> dict[str, Any]:
    """Seconds of one update, of each item of its floor, and the ratios."""
    run, times, work = PATHS[name][0](sizes)
    items = floor(work, repeats)
    took = timed(run, repeats).times(1 / times)
    total = Seconds(*(sum(each) for each in zip(*items.values(), strict=True)))
    return {
        "sizes": list(sizes),
        "wall_ms": round(1e3 * took.wall, 3),
        "cpu_ms": round(1e3 * took.cpu, 3),
        "floor_wall_ms": round(1e3 * total.wall, 3),
        "floor_cpu_ms": round(1e3 * total.cpu, 3),
        "ratio_wall": round(took.wall / total.wall, 2),
        "ratio_cpu": round(took.cpu / total.cpu, 2),
        "items_cpu_ms": {item: round(1e3 * value.cpu, 3) for item, value in items.items()},
        "items_wall_ms": {item: round(1e3 * value.wall, 3) for item, value in items.items()},
        "gflop": round(work.flops / 1e9, 3),
    }


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--paths", default=",".join(PATHS), help="names, separated by commas")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    device = "cpu" if jax.default_backend() == "cpu" else "gpu"
    unit = "cpu" if device == "cpu" else "wall"
    found = {}
    print(f"{device}, milliseconds ({'processor' if device == 'cpu' else 'wall-clock'}), best of {chosen.repeats}")
    print(f"{'':<10} {'time':>9} {'floor':>9} {'ratio':>6} {'wall':>6} {'target':>6}  items of the floor")
    for name in chosen.paths.split(","):
        one = found[name] = measure(name, PATHS[name][2 if chosen.quick else 1], chosen.repeats)
        special, usual = TARGETS[device]
        items = ", ".join(f"{item} {value:.2f}" for item, value in one[f"items_{unit}_ms"].items())
        figures = f"{one[f'{unit}_ms']:>9.2f} {one[f'floor_{unit}_ms']:>9.2f} {one[f'ratio_{unit}']:>6.2f}"
        print(f"{name:<10} {figures} {one['ratio_wall']:>6.2f} {special.get(name, usual):>6.1f}  {items}", flush=True)
    ratios = {name: one[f"ratio_{unit}"] for name, one in found.items()}
    print(json.dumps({"cpu": {}, "gpu": {}, device: ratios, "paths": found, "quick": chosen.quick}))


if __name__ == "__main__":
    main()
