"""How long a newcomer waits: `import thurbo`, `thurbo --help`, and a first fit with every default.

    python -m benchmarks.startup [--quick] [--long] [--tables 40x3,starwars] [--second starwars,comma] [--no-peers]
                                [--demo]

Imports are medians of several fresh interpreters, beside one that does nothing. A fit runs in a fresh interpreter with
a compilation cache of its own, empty (cold) and then filled (warm): wall-clock and processor seconds to the first
epoch, to the fitted model and to the first prediction; the number of compiled programs, and seconds of tracing,
lowering and compiling. Beside it scikit-learn on the same table. `--second` fits another table after the first, in a
fresh interpreter with the cache that the first one filled; without --quick it is Star Wars and Thanksgiving. Tables:
40x3, starwars, small surveys (thanksgiving, flying, comma, steak, weather), and with --long r4-raw and ml-1m. `--demo`
runs `thurbo demo` in the same way. The byte code of thurbo is compiled before, as by an installation.
Data: $THURBO_DATA. The last line is JSON.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import thurbo

CASES = {
    "bare": ("python -c pass", ["-c", "pass"], None),
    "import": ("import thurbo", ["-c", "import thurbo"], 0.15),
    "help": ("thurbo --help", ["-c", "from thurbo.app.cli import main; main(['--help'])"], 0.5),
}
TABLES = ("40x3", "starwars", "thanksgiving", "flying", "comma", "steak", "weather")
QUICK, LONG = ("40x3", "starwars"), ("r4-raw", "ml-1m")
SECOND = "starwars,thanksgiving"


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


def child(arguments: list[str], cache: str) -> list[dict[str, Any]]:
    """What `benchmarks.startup_fits` finds in a fresh interpreter that keeps its programs in `cache`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_COMPILATION", "JAX_PERSISTENT"))}
    environment["THURBO_CACHE"] = cache
    command = [sys.executable, "-m", "benchmarks.startup_fits", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def fits(name: str, with_peers: bool) -> dict[str, Any]:
    """A first fit of a table with an empty cache, the same again with the cache filled, and scikit-learn."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (child([name], cache)[0] for _ in range(2))
    found = {"table": name, "cold": cold, "warm": warm}
    if with_peers and name != "ml-1m":
        found["peers"] = child([name, "--peers"], "off")[0]
    return found


def demo() -> dict[str, float]:
    """Seconds of `thurbo demo`, with an empty cache and with the cache filled."""
    with tempfile.TemporaryDirectory() as folder:
        code = f"from thurbo.app.cli import main; main(['demo', '--quiet', '--output', {folder + '/report.html'!r}])"
        environment, found = {**os.environ, "THURBO_CACHE": f"{folder}/cache"}, {}
        for when in ("cold", "warm"):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment)
            found[f"{when}_seconds"] = round(time.perf_counter() - began, 2)
    return found


def second(names: list[str]) -> dict[str, Any]:
    """Another table after the first one, with the programs that the first one left in the cache."""
    with tempfile.TemporaryDirectory() as cache:
        first, other = (child([name], cache)[0] for name in names)
    with tempfile.TemporaryDirectory() as cache:
        alone = child([names[1]], cache)[0]
    return {"first": first, "second": other, "second_alone": alone}


def _shown(name: str, when: str, found: dict[str, Any]) -> str:
    texts = [
        f"{found[stage]['wall_s']:>7.1f} {found[stage]['cpu_s']:>7.1f}"
        for stage in ("first epoch" if "first epoch" in found else "fitted", "fitted", "asked")
    ]
    programs = " ".join(f"{found['fit'][each]:>7.1f}" for each in ("trace_s", "lower_s", "compile_s"))
    counts = [found[each]["programs"] for each in ("fit", "query")]
    return f"{name:<14} {when:<7} {' '.join(texts)} {counts[0]:>5} {programs} {counts[1]:>4}"


def show(tables: list[dict[str, Any]], pair: dict[str, Any] | None) -> None:
    """Tables for people."""
    heads = " ".join(f"{'wall s':>7} {'cpu s':>7}" for _ in range(3))
    print(f"\n{'':22} {'first epoch':>15} {'fitted':>15} {'predicted':>15} {'pro-':>5} {'seconds of':>23}")
    print(f"{'':22} {heads} grams {'trace':>7} {'lower':>7} {'compile':>7} query")
    for each in tables:
        for when in ("cold", "warm"):
            print(_shown(each["table"], when, each[when]))
        for peer, took in each.get("peers", {}).items():
            if peer != "table":
                print(f"{'':14} {peer}: {took['wall_s']:.1f} s wall, {took['cpu_s']:.1f} s cpu")
    if pair is not None:
        for when in ("first", "second", "second_alone"):
            print(_shown(pair[when]["table"], when.partition("_")[2] or when, pair[when]))
        share = pair["second"]["fit"]["compile_s"] / pair["first"]["fit"]["compile_s"]
        print(f"compile time of the second survey relative to the first: {share:.2f}")


def brief(tables: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The headline figures of each table: seconds of wall-clock from the start of the interpreter."""
    found = {}
    for each in tables:
        cold, warm = each["cold"], each["warm"]
        found[each["table"]] = {
            "cold_seconds": cold["fitted"]["wall_s"],
            "warm_seconds": warm["fitted"]["wall_s"],
            "cold_cpu_seconds": cold["fitted"]["cpu_s"],
            "warm_cpu_seconds": warm["fitted"]["cpu_s"],
            "first_epoch_seconds": cold.get("first epoch", cold["fitted"])["wall_s"],
            "first_answer_seconds": cold["asked"]["wall_s"],
            "programs": cold["fit"]["programs"],
            "compile_seconds": cold["fit"]["compile_s"],
        }
    return found


def main() -> None:
    """Measure, print tables for people, then one line of JSON for programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three runs of each import instead of fifteen, two tables")
    parser.add_argument("--long", action="store_true", help="also the raw file of Afrobarometer, and MovieLens-1M")
    parser.add_argument("--tables", help="names, separated by commas; none skips the fits")
    parser.add_argument("--second", nargs="?", const=SECOND, help=f"two tables, one after the other; {SECOND}, or none")
    parser.add_argument("--no-peers", action="store_true", help="without scikit-learn")
    parser.add_argument("--demo", action="store_true", help="also `thurbo demo`")
    chosen = parser.parse_args()
    compileall.compile_dir(str(Path(thurbo.__file__).parent), quiet=1)
    times = measure(3 if chosen.quick else 15)
    medians = {name: statistics.median(each) for name, each in times.items()}
    print(f"{'':<16} {'median s':>9} {'best s':>8} {'target s':>9}")
    for name, (title, _, target) in CASES.items():
        wanted = "" if target is None else f"{target:.2f}"
        print(f"{title:<16} {medians[name]:>9.3f} {min(times[name]):>8.3f} {wanted:>9}")
    usual = (QUICK if chosen.quick else TABLES) + (LONG if chosen.long else ())
    names = usual if chosen.tables is None else tuple(each for each in chosen.tables.split(",") if each != "none")
    tables = [fits(name, not chosen.no_peers) for name in names]
    names_of_pair = chosen.second or ("none" if chosen.quick or chosen.tables else SECOND)
    pair = None if names_of_pair == "none" else second(names_of_pair.split(","))
    show(tables, pair)
    demonstrated = demo() if chosen.demo else None
    if demonstrated is not None:
        print(f"thurbo demo: {demonstrated['cold_seconds']:.1f} s cold, {demonstrated['warm_seconds']:.1f} s warm")
    found: dict[str, Any] = {f"{name}_seconds": round(value, 4) for name, value in medians.items()}
    print(json.dumps({**found, "tables": brief(tables), "fits": tables, "second": pair, "demo": demonstrated}))


if __name__ == "__main__":
    main()
