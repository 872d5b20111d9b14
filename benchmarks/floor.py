"""How near each hot path is to what it cannot do without, measured in the same run.

    python -m benchmarks.floor [--quick] [--only probit,table] [--repeats 5]

One update of training (dense probit, levels, choices, numbers, a mixed table, rankings, lists), one transform by
mean-field, and one estimate by annealed importance sampling. The floor is the sum of the matrix products of the
algorithm (with those of its gradient), copies of what must be stored, random bits, and one evaluation per element of
each special function. Each kind is timed in the same process, in one compiled program that repeats it, as an epoch is
one program of many updates: starting programs is counted in neither. Processor seconds of all threads are compared,
since they do not depend on other work of the machine; wall-clock ratios stand beside them. On a GPU, wall-clock seconds
are compared. Each line is printed as soon as it is known; the last one is JSON.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax

from benchmarks.floor_paths import PATHS, Path, Sizes
from benchmarks.floor_work import Repeated, Seconds, floor, programs, timed

COMPILED_AT_ONCE = 4
TARGETS = {"cpu": ({"probit": 1.5}, 2.0), "gpu": ({}, 3.0)}


class Ready(NamedTuple):
    """A path that has been compiled, with the programs of its floor."""

    path: Path
    kinds: dict[str, Repeated | None]
    sizes: Sizes


def prepared(name: str, sizes: Sizes) -> Ready:
    """Compile a path and all that its floor is made of."""
    path = PATHS[name][0](sizes)
    jax.block_until_ready(path.run())
    return Ready(path, programs(path.work), sizes)


def measure(ready: Ready, repeats: int) -> dict[str, Any]:
    """Seconds of one update, of each item of its floor, and the ratios."""
    run, times, work = ready.path
    items = floor(ready.kinds, repeats)
    took = timed(run, repeats).times(1 / times)
    total = Seconds(*(sum(each) for each in zip(*items.values(), strict=True)))
    return {
        "sizes": list(ready.sizes),
        "wall_ms": round(1e3 * took.wall, 4),
        "cpu_ms": round(1e3 * took.cpu, 4),
        "floor_wall_ms": round(1e3 * total.wall, 4),
        "floor_cpu_ms": round(1e3 * total.cpu, 4),
        "ratio_wall": round(took.wall / total.wall, 2),
        "ratio_cpu": round(took.cpu / max(total.cpu, 1e-9), 2),
        "items_cpu_ms": {item: round(1e3 * value.cpu, 4) for item, value in items.items()},
        "items_wall_ms": {item: round(1e3 * value.wall, 4) for item, value in items.items()},
        "gflop": round(work.flops / 1e9, 3),
        "gflop_per_s": round(work.flops / 1e9 / items["products"].wall, 1),  # of the floor: none is above the machine's
    }


def main() -> None:
    """Print a table for people, each line as soon as it is known, and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", default=",".join(PATHS), help="names of paths, separated by commas")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    device = "cpu" if jax.default_backend() == "cpu" else "gpu"
    unit, names, found = "cpu" if device == "cpu" else "wall", chosen.only.split(","), {}
    print(f"{device}, milliseconds ({'processor' if device == 'cpu' else 'wall-clock'}), best of {chosen.repeats}")
    print(f"{'':<10} {'time':>9} {'floor':>9} {'ratio':>6} {'wall':>6} {'target':>6}  items of the floor", flush=True)
    # On a GPU others are compiled meanwhile; on a CPU that would count as time of the path.
    with ThreadPoolExecutor(1 if device == "cpu" else COMPILED_AT_ONCE) as pool:
        sizes = {name: PATHS[name][2 if chosen.quick else 1] for name in names}
        if device == "gpu":
            waiting = {name: pool.submit(prepared, name, sizes[name]) for name in names}
        for name in names:
            ready = waiting[name].result() if device == "gpu" else prepared(name, sizes[name])
            one = found[name] = measure(ready, chosen.repeats)
            special, usual = TARGETS[device]
            items = ", ".join(f"{item} {value:.3g}" for item, value in one[f"items_{unit}_ms"].items())
            figures = f"{one[f'{unit}_ms']:>9.3f} {one[f'floor_{unit}_ms']:>9.3f} {one[f'ratio_{unit}']:>6.2f}"
            target = special.get(name, usual)
            print(f"{name:<10} {figures} {one['ratio_wall']:>6.2f} {target:>6.1f}  {items}", flush=True)
    ratios = {name: one[f"ratio_{unit}"] for name, one in found.items()}
    print(json.dumps({"cpu": {}, "gpu": {}, device: ratios, "paths": found, "quick": chosen.quick}), flush=True)


if __name__ == "__main__":
    main()
