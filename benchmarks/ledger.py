"""Our headline figures, measured again and compared with those on record.

    python -m benchmarks.ledger [--quick] [--record] [--only NAME ...] [--jobs N] [--out FILE] [--write-docs]

Every figure is a mean over seeds of the fit, with a 95 % interval by Student's t. It is equal to the recorded one where
the two intervals overlap; otherwise better or worse. `--record` puts what was measured into benchmarks/ledger.json and
leaves the other figures there as they are. Run it before a change of what is learned is submitted: `--quick --jobs 2`
is meant for two cores, the full set for a GPU, in parts by `--only` where time is limited. `--write-docs` puts the
recorded figures into docs/benchmarks.md; alone, it measures nothing. Exit status 1 where a figure is worse or a
benchmark failed. Needs THURBO_DATA. The last line is JSON.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks.ledger_figures import FIGURES, QUICK, RUNS, Figure, Run

ROOT = Path(__file__).resolve().parent.parent
LEDGER, DOCS = ROOT / "benchmarks" / "ledger.json", ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- ledger:begin -->", "<!-- ledger:end -->"
N_JOBS_WITH_GPU = 4
END_OF_STDERR = 2000


# ---- running


class Done(NamedTuple):
    """One run with one seed: its JSON, or why there is none."""

    run: str
    seed: int
    seconds: float
    result: dict[str, Any] | None
    failure: str = ""


def environment(run: Run) -> dict[str, str]:
    """Several processes share one GPU, so none may take all of its memory."""
    own = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | ({"JAX_PLATFORMS": "cpu"} if run.on_cpu else {})
    return os.environ | own


def execute(name: str, run: Run, seed: int) -> Done:
    """Run one benchmark with one seed, and read its last line."""
    command = [sys.executable, "-m", *run.words.split(), "--seed", str(seed)]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment(run), capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        return Done(name, seed, seconds, None, f"exit status {done.returncode}\n{done.stderr[-END_OF_STDERR:]}")
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return Done(name, seed, seconds, None, f"its last line is not JSON\n{done.stderr[-END_OF_STDERR:]}")
    return Done(name, seed, seconds, found)


def execute_all(
    runs: Mapping[str, Run], n_jobs: int, on_complete: Callable[[str, list[Done]], None]
) -> dict[str, list[Done]]:
    """Run all seeds of all runs, longest first; `on_complete` is told of a run as soon as its last seed is done."""
    tasks = [(name, run, seed) for name, run in runs.items() for seed in run.seeds]
    tasks.sort(key=lambda task: -task[1].seconds)
    found: dict[str, list[Done]] = {name: [] for name in runs}
    with ThreadPoolExecutor(n_jobs) as pool:
        for future in as_completed([pool.submit(execute, *task) for task in tasks]):
            done = future.result()
            found[done.run].append(done)
            print(f"{done.run}, seed {done.seed}: {'failed' if done.failure else 'done'} after {done.seconds:.0f} s",
                  flush=True)  # fmt: skip
            print(done.failure or json.dumps(done.result), flush=True)  # kept by a log if a later seed is cut short
            if len(found[done.run]) == len(runs[done.run].seeds):
                on_complete(done.run, sorted(found[done.run], key=lambda each: each.seed))
    return found


# ---- figures


class Measured(NamedTuple):
    """A figure: its mean over seeds, the 95 % interval of that mean, and what each seed gave."""

    value: float
    interval: tuple[float, float]
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    seconds: float  # of all seeds together


def interval_of(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Of the mean, by Student's t; of a single value that value twice."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return mean, mean
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * np.std(values, ddof=1) / math.sqrt(n))
    return mean - half, mean + half


def look_up(result: Mapping[str, Any], path: str) -> float:
    """The number at a path of keys joined by dots; KeyError where there is none."""
    at: Any = result
    for key in path.split("."):
        if not isinstance(at, Mapping) or key not in at:
            raise KeyError(f"no {path} in the benchmark's JSON")
        at = at[key]
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at):
        raise KeyError(f"{path} is {at!r} in the benchmark's JSON, not a finite number")
    return float(at)


def measure(figure: Figure, done: Sequence[Done]) -> Measured | str:
    """A figure from the runs of all its seeds, or why there is none."""
    if failed := [each for each in done if each.result is None]:
        return f"{len(failed)} of {len(done)} runs failed"
    try:
        values = tuple(look_up(each.result or {}, figure.path) for each in done)
    except KeyError as problem:
        return str(problem.args[0])
    seeds, seconds = tuple(each.seed for each in done), sum(each.seconds for each in done)
    return Measured(float(np.mean(values)), interval_of(values), seeds, values, seconds)


def verdict(figure: Figure, measured: Measured, recorded: Mapping[str, Any] | None) -> str:
    """ "equal" where intervals overlap or values are the same to the digits printed; "new" where none is recorded."""
    if recorded is None:
        return "new"
    (low, high), (was_low, was_high) = measured.interval, recorded["interval"]
    above = measured.value - recorded["value"]
    if (low <= was_high and was_low <= high) or abs(above) <= figure.least:
        return "equal"
    return "better" if (above > 0) == figure.larger_is_better else "worse"


# ---- the record


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Recorded figures by name; none where there is no record yet."""
    return json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}


def record(path: Path, measured: Mapping[str, Measured], about: Mapping[str, Any]) -> None:
    """Put figures on record beside those that are there, which stay unless they were measured again."""
    larger = {figure.name: figure.larger_is_better for figure in FIGURES}
    figures = read(path)
    for name, each in measured.items():
        own = {"value": each.value, "interval": list(each.interval), "seeds": list(each.seeds)}
        own |= {"values": list(each.values), "seconds": round(each.seconds, 1)}
        figures[name] = own | {"larger_is_better": larger[name]} | about
    order = {figure.name: place for place, figure in enumerate(FIGURES)}
    figures = dict(sorted(figures.items(), key=lambda item: order.get(item[0], len(order))))
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"figures": figures}, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def gpu() -> str:
    """What nvidia-smi calls the first GPU that JAX may use; empty where there is none."""
    if os.environ.get("JAX_PLATFORMS", "").lower() == "cpu" or not shutil.which("nvidia-smi"):
        return ""
    done = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    return done.stdout.strip().splitlines()[0] if not done.returncode and done.stdout.strip() else ""


def commit() -> str:
    """Of the sources, with a plus sign if they differ from it; THURBO_COMMIT if it is set."""
    if named := os.environ.get("THURBO_COMMIT"):
        return named
    if shutil.which("git"):
        git = ["git", "-C", str(ROOT)]
        done = subprocess.run([*git, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True)
        if not done.returncode:
            sources = ("src", "benchmarks", ":!benchmarks/ledger.json")
            changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *sources], capture_output=True)
            return done.stdout.strip() + ("+" if changed.returncode else "")
    return "unknown"


def circumstances() -> dict[str, Any]:
    """Where, with what and when: recorded beside each figure."""
    try:
        jax = version("jax")
    except PackageNotFoundError:
        jax = "unknown"
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    versions = {"python": platform.python_version(), "jax": jax, "thurbo": commit()}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"machine": f"{gpu()}, {machine}" if gpu() else machine, "versions": versions, "date": today}


# ---- for people


def render(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """The recorded figures of the full set as a Markdown table."""
    known = [figure for figure in FIGURES if figure.name in figures and not figure.is_quick]
    if not known:
        return "No figure has been recorded yet."
    lines = ["| figure | in | mean | 95 % interval | seeds | commit, date |", "|---|---|---|---|---|---|"]
    for figure in known:
        own = figures[figure.name]
        mean, low, high = (f"{value:.{figure.digits}f}".replace("-", "−") for value in (own["value"], *own["interval"]))
        better = "more is better" if figure.larger_is_better else "less is better"
        when = f"{own['versions']['thurbo']}, {own['date']}"
        lines.append(
            f"| {figure.title} (`{figure.name}`) | {figure.unit}, {better} | {mean} | {low} to {high} | "
            f"{len(own['seeds'])} | {when} |"
        )
    machines = sorted({figures[figure.name]["machine"] for figure in known})
    return "\n".join([*lines, "", f"Measured on: {'; '.join(machines)}."])


def block(text: str) -> str:
    """What stands between the two markers of a page."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"a page needs {BEGIN} and, after it, {END}, once each")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def write_docs(page: Path, figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the table between the markers of a page."""
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(BEGIN + block(text) + END, f"{BEGIN}\n{render(figures)}\n{END}"), encoding="utf-8")


def table(figures: Iterable[Figure], found: Mapping[str, Mapping[str, Any]]) -> str:
    """What was measured beside what is recorded."""
    lines = [f"{'figure':<40}{'measured':>10}{'95 % interval':>22}{'recorded':>10}{'interval':>22}  verdict"]
    for figure in figures:
        own = found[figure.name]
        cells = ""
        for place in (own, own["recorded"] or {}):
            ends = place.get("interval")
            cells += f"{place['value']:>10.{figure.digits}f}" if place.get("value") is not None else f"{'–':>10}"
            span = " to ".join(f"{end:.{figure.digits}f}" for end in ends) if ends else "–"
            cells += f"{span:>22}"
        lines.append(f"{figure.name:<40}{cells}  {own['verdict']}{' (' + own['why'] + ')' if 'why' in own else ''}")
    return "\n".join(lines)


# ---- the command


def selected(only: Sequence[str], quick: bool) -> list[Figure]:
    """Figures of the quick or the full set; some of them if named by figure, by run, or by what a name begins with."""
    found = [figure for figure in FIGURES if figure.is_quick == quick]
    if not only:
        return found

    def is_named(figure: Figure, word: str) -> bool:
        plain, run = figure.name.removeprefix(QUICK), figure.run.removeprefix(QUICK)
        word = word.removeprefix(QUICK)
        return word in (plain, run) or plain.startswith(f"{word}.")

    if unknown := [word for word in only if not any(is_named(figure, word) for figure in found)]:
        raise ValueError(f"no figure is called {', '.join(unknown)}; there are {', '.join(f.name for f in found)}")
    return [figure for figure in found if any(is_named(figure, word) for word in only)]


def compare(figure: Figure, measured: Measured | str, recorded: Mapping[str, Any] | None) -> dict[str, Any]:
    """One figure of the result."""
    known = None if recorded is None else {key: recorded[key] for key in ("value", "interval")}
    if isinstance(measured, str):
        return {"value": None, "interval": None, "recorded": known, "verdict": "failed", "why": measured}
    own = {"value": measured.value, "interval": list(measured.interval), "values": list(measured.values)}
    return own | {"recorded": known, "verdict": verdict(figure, measured, recorded)}


def main(words: Sequence[str] | None = None) -> int:
    """Measure, compare, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller runs, which are figures of their own")
    parser.add_argument("--record", action="store_true", help="put what is measured into the ledger")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="figures or runs, e.g. mnist sushi")
    parser.add_argument("--jobs", type=int, help=f"processes at a time (default 1; {N_JOBS_WITH_GPU} with a GPU)")
    parser.add_argument("--seeds", type=int, help="how many, in place of each run's own number")
    parser.add_argument("--out", type=Path, help="write the result to this file as well")
    parser.add_argument("--write-docs", action="store_true", help="put recorded figures into docs/benchmarks.md")
    chosen = parser.parse_args(words)
    if chosen.write_docs and not chosen.record:
        write_docs(DOCS, read(LEDGER))
        return 0
    try:
        figures = selected(chosen.only, chosen.quick)
    except ValueError as problem:
        parser.error(str(problem))
    seeds = {} if chosen.seeds is None else {"seeds": tuple(range(chosen.seeds))}
    runs = {name: RUNS[name]._replace(**seeds) for name in dict.fromkeys(figure.run for figure in figures)}
    before, about = read(LEDGER), circumstances()
    found: dict[str, dict[str, Any]] = {}

    def take(name: str, done: list[Done]) -> None:
        own = {figure.name: (figure, measure(figure, done)) for figure in figures if figure.run == name}
        found.update({key: compare(figure, each, before.get(key)) for key, (figure, each) in own.items()})
        print(table([figure for figure, _ in own.values()], found), flush=True)
        if chosen.record:
            record(LEDGER, {k: each for k, (_, each) in own.items() if isinstance(each, Measured)}, about)
        if chosen.out:
            chosen.out.write_text(json.dumps(summary(found) | about) + "\n", encoding="utf-8")

    execute_all(runs, chosen.jobs or (N_JOBS_WITH_GPU if gpu() else 1), take)
    if chosen.write_docs:
        write_docs(DOCS, read(LEDGER))
    print(f"\n{table(figures, found)}\n{json.dumps(summary(found))}", flush=True)
    return int(any(each["verdict"] in ("worse", "failed") for each in found.values()))


def summary(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of the verdicts, and the figures."""
    verdicts = [each["verdict"] for each in found.values()]
    counts = {name: verdicts.count(name) for name in ("better", "equal", "worse", "new", "failed")}
    return counts | {"figures": dict(found)}


if __name__ == "__main__":
    sys.exit(main())
