"""Where the time of an update goes: operations of the compiled program, as JAX's profiler records them.

    python -m benchmarks.floor_pieces choices [numbers ...]

Products and other operations, of the steps of mean-field, of masses and of the rest (factors, gradients by parameters,
masking, Adam). Shares are of wall-clock seconds, on one core if the process has one (`taskset -c 0`), and are given in
processor milliseconds of an update that is not recorded (best of eight). Recording adds to each operation, which tells
most in the many short ones of masses. "survey" is 250 choices of five.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

FOLDER = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={FOLDER}/programs"
os.environ["THURBO_CACHE"] = f"{FOLDER}/cache"  # a program that is read from a cache has no names

import jax  # noqa: E402

import thurbo as tb  # noqa: E402
from benchmarks import floor_paths  # noqa: E402
from benchmarks.floor_work import timed  # noqa: E402


def survey() -> floor_paths.Path:
    """A long survey: 250 choices of five labels."""
    sizes, labels = floor_paths.Sizes(196, 250, 100, 50), [str(i) for i in range(5)]
    codes = floor_paths._simulated(floor_paths.BATCHES * sizes.rows, sizes.columns, len(labels), 1)
    frame = floor_paths._frame(codes, "c").astype(str)
    table = floor_paths._table(frame, dict.fromkeys(frame, tb.Categorical(labels)), sizes)
    return floor_paths._learning(table, floor_paths._choices(table.plan))


def sources() -> dict[str, str]:
    """What each operation comes from, by its name in the program of an epoch."""
    found = {}
    for file in Path(FOLDER, "programs").glob("*epoch*after_optimizations.txt"):
        for line in file.read_text("utf-8").splitlines():
            name, source = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = ", line), re.search(r'op_name="([^"]*)"', line)
            if name is not None:
                found[name[1]] = source[1] if source is not None else ""
    return found


def piece(name: str, source: str | None) -> str:
    """What an operation is part of."""
    if source is None:
        return "starting operations"
    kind = "products" if name.startswith(("dot", "ynn")) else "other operations"
    if "log_mass" in source:
        return f"masses, {kind}"
    return f"steps of mean-field, {kind}" if source.count("while/body") > 1 else f"rest, {kind}"


def main() -> None:
    """Print the pieces of each path that is named."""
    for name in sys.argv[1:]:
        path = survey() if name == "survey" else floor_paths.PATHS[name][0](floor_paths.PATHS[name][1])
        jax.block_until_ready(path.run())
        took = timed(path.run, 8).cpu / path.times
        with jax.profiler.trace(f"{FOLDER}/{name}"):
            jax.block_until_ready(path.run())
        (file,) = Path(FOLDER, name).rglob("*.xplane.pb")
        total: Counter[str] = Counter()
        names = sources()
        for line in (line for plane in jax.profiler.ProfileData.from_file(str(file)).planes for line in plane.lines):
            if "python" in line.name:
                continue
            within: list[tuple[float, str]] = []  # operations that have begun, with their ends: time is counted once
            for event in sorted(line.events, key=lambda each: (each.start_ns, -each.duration_ns)):
                while within and within[-1][0] <= event.start_ns:
                    within.pop()
                if "wait" in event.name:
                    continue
                own = piece(event.name, names.get(event.name))
                if within:
                    total[within[-1][1]] -= event.duration_ns
                total[own] += event.duration_ns
                within.append((event.start_ns + event.duration_ns, own))
        print(f"{name}: {1e3 * took:.1f} processor ms of one update")
        for own, spent in total.most_common():
            print(f"  {own:<40} {1e3 * took * spent / sum(total.values()):8.2f}", flush=True)


if __name__ == "__main__":
    main()
