"""How long a newcomer waits: `import thurbo` and `thurbo --help`, each in a fresh interpreter.

Medians of several runs, beside an interpreter that does nothing. Targets on two cores: 0.15 s and 0.5 s.
Run with `python -m benchmarks.startup [--quick]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

CASES = {
    "bare": ("python -c pass", ["-c", "pass"], None),
    "import": ("import thurbo", ["-c", "import thurbo"], 0.15),
    "help": ("thurbo --help", ["-c", "from thurbo.cli import main; main(['--help'])"], 0.5),
}


def seconds(arguments: list[str]) -> float:
    """Wall-clock time of one fresh interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(repeats: int) -> dict[str, list[float]]:
    """Seconds of each case, taken in turn, so that a slow moment of the machine hits all alike."""
    for _, arguments, _ in CASES.values():
        seconds(arguments)  # the first run compiles byte code and warms the disk cache
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(repeats):
        for name, (_, arguments, _) in CASES.items():
            times[name].append(seconds(arguments))
    return times


def main() -> None:
    """Measure, print a table for people, then one line of JSON for programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three runs of each instead of fifteen")
    times = measure(3 if parser.parse_args().quick else 15)
    medians = {name: statistics.median(each) for name, each in times.items()}
    print(f"{'':<16} {'median s':>9} {'best s':>8} {'target s':>9}")
    for name, (title, _, target) in CASES.items():
        wanted = "" if target is None else f"{target:.2f}"
        print(f"{title:<16} {medians[name]:>9.3f} {min(times[name]):>8.3f} {wanted:>9}")
    print(json.dumps({f"{name}_seconds": round(value, 4) for name, value in medians.items()}))


if __name__ == "__main__":
    main()
