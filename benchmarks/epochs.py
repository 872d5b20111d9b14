"""Seconds per epoch of a binary table beside other libraries for restricted Boltzmann machines, in the same run.

    python -m benchmarks.epochs [--quick] [--equal] [--only mnist,ml-1m] [--threads N] [--repeats 5] [--install]

MNIST (60,000 × 784 pixels, 500 hidden units, batches of 100 and of 500) and MovieLens-1M (6,040 users × 3,706 movies,
liked or not, 100 hidden units, batches of 100). Equal work per update: the same rows, sizes, batches and threads, and
one step of as many chains as rows in a batch; benchmarks/peers/epochs_*.py say what one update computes. Each library
is a process of its own, and their epochs alternate; the first epoch, which compiles, is not counted. Beside these: what
libraries do in their own `fit`, and other updates of thurbo, which do more work. Needs THURBO_DATA. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import mnist
from benchmarks.movielens_data import read_ratings

SCRIPTS = Path(__file__).parent / "peers"
PACKAGES = ("torch==2.13.0", "learnergy==2.0.2", "rbms==0.5.0")
FOLDER = "rbm"  # of their environment
LIKED = 4  # stars
OURS = "thurbo"


class Method(NamedTuple):
    """A script, which of its updates, products of matrices in an update, and whether it has its own environment."""

    script: str
    how: str
    products: int | None
    is_peer: bool = False


EQUAL = {
    OURS: Method("epochs_thurbo.py", "update", 6),
    "BernoulliRBM": Method("epochs_sklearn.py", "float32", 5),
    "learnergy": Method("epochs_learnergy.py", "update", 7, True),
    "rbms": Method("epochs_rbms.py", "update", 6, True),
}
MORE = {
    "BernoulliRBM, float64": Method("epochs_sklearn.py", "float64", 5),
    "learnergy, its fit": Method("epochs_learnergy.py", "fit", 9, True),
    "rbms, its train": Method("epochs_rbms.py", "train", 6, True),
    "thurbo, likelihood": Method("epochs_thurbo.py", "likelihood", 16),
    "thurbo, default": Method("epochs_thurbo.py", "default", None),
}
LISTS = {"thurbo, lists": Method("epochs_thurbo.py", "lists", None)}


class Case(NamedTuple):
    """A binary table, and the settings that all share."""

    title: str
    table: Callable[[], np.ndarray]
    n_hidden: int
    batch: int
    rows: int | None  # the first ones; None: all
    methods: Mapping[str, Method]
    long: Callable[[], np.ndarray] | None = None  # what lists are made of


class Worker:
    """A library in a process of its own, which runs an epoch when it is asked to."""

    def __init__(self, method: Method, table: Path, given: Mapping[str, Any], peers: Path) -> None:
        settings = json.dumps({**given, "how": method.how})
        command = [str(interpreter(method, peers)), str(SCRIPTS / method.script), str(table), settings]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=limited(given)
        )
        self.name = method.script
        about = self._answer()
        self.first: dict[str, float] = about["first"]
        self.versions: dict[str, str] = about["versions"]

    def epoch(self) -> dict[str, float]:
        """Wall-clock and processor seconds of one more epoch."""
        assert self.process.stdin is not None
        self.process.stdin.write("epoch\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.log.close()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise RuntimeError(f"{self.name} failed:\n{self.log.read()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


def interpreter(method: Method, folder: Path) -> Path:
    """The Python of a method: thurbo's own, or that of the other libraries."""
    own = folder.absolute() / FOLDER / ("Scripts" if os.name == "nt" else "bin") / "python"
    return own if method.is_peer else Path(sys.executable)


def limited(given: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a process with so many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **{name: str(given["threads"]) for name in names}}


def use_cores(threads: int | None) -> int:
    """Keep this process and those it starts on as many cores as threads; XLA has no other limit."""
    if not hasattr(os, "sched_setaffinity"):
        raise SystemExit("the number of threads cannot be limited for XLA on this system: use Linux")
    cores = sorted(os.sched_getaffinity(0))
    chosen = cores[: threads or len(cores)]
    os.sched_setaffinity(0, chosen)
    return len(chosen)


def images() -> np.ndarray:
    """Training images of MNIST, pixels above 127."""
    return mnist.load()[0]


def ratings() -> np.ndarray:
    """User, movie and stars, one row each; movies are numbered from 0."""
    found = read_ratings(Path(os.environ["THURBO_DATA"]) / "movielens-1m")
    user, item = (np.unique(found[name], return_inverse=True)[1] for name in ("user_id", "movie_id"))
    return np.stack([user, item, found["rating"].to_numpy()], axis=1)


def liked(long: np.ndarray) -> np.ndarray:
    """Users × movies: at least four stars, or not."""
    table = np.zeros((long[:, 0].max() + 1, long[:, 1].max() + 1), bool)
    table[long[:, 0], long[:, 1]] = long[:, 2] >= LIKED
    return table


CASES = {
    "mnist": Case("MNIST", images, 500, 100, 6000, EQUAL | MORE),
    "mnist-500": Case("MNIST", images, 500, 500, 6000, EQUAL),
    "ml-1m": Case("MovieLens-1M", lambda: liked(ratings()), 100, 100, 1000, EQUAL | MORE | LISTS, ratings),
}


@contextmanager
def workers(case: Case, threads: int, peers: Path) -> Iterator[dict[str, Worker]]:
    """All methods of a case that are installed, ready for epochs."""
    given = {"n_hidden": case.n_hidden, "batch": case.batch, "threads": threads}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        np.save(folder / "table.npy", case.table()[: case.rows])
        if case.long is not None:
            long = case.long()
            np.save(folder / "lists.npy", long if case.rows is None else long[long[:, 0] < case.rows])
        found = {}
        for name, method in case.methods.items():
            if not interpreter(method, peers).exists():
                continue
            file = folder / ("lists.npy" if method.how == "lists" else "table.npy")
            found[name] = Worker(method, file, given, peers)
            stack.callback(found[name].close)
            print(f"  {name}: first epoch {found[name].first['wall']:.1f} s", flush=True)
        yield found


def alternate(ready: Mapping[str, Worker], repeats: int) -> dict[str, dict[str, list[float]]]:
    """Wall-clock and processor seconds of every method, one epoch of each in turn."""
    found: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in ready}
    for _ in range(repeats):
        for name, worker in ready.items():
            for unit, seconds in worker.epoch().items():
                found[name][unit].append(seconds)
    return found


def summary(times: Mapping[str, Mapping[str, Sequence[float]]], first: Mapping[str, float]) -> dict[str, Any]:
    """Median and range of seconds per epoch, and of their ratio to those of thurbo in the same round."""
    found: dict[str, Any] = {}
    for name, own in times.items():
        about: dict[str, Any] = {}
        for unit, seconds in own.items():
            about[unit] = _range(np.asarray(seconds))
            about[f"{unit}_over_thurbo"] = _range(np.asarray(seconds) / np.asarray(times[OURS][unit]))
        found[name] = about | {"first_wall": round(first[name], 2)}
    return found


def _range(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in (np.median(values), values.min(), values.max())]


def measure(case: Case, threads: int, peers: Path, repeats: int) -> dict[str, Any]:
    """One case: the table of seconds."""
    print(f"\n{case.title}, batches of {case.batch}, {case.n_hidden} hidden units, {threads} thread(s)", flush=True)
    with workers(case, threads, peers) as ready:
        times = alternate(ready, repeats)
        found = summary(times, {name: worker.first["wall"] for name, worker in ready.items()})
        versions = {name: value for worker in ready.values() for name, value in worker.versions.items()}
    report(case, found)
    slower = {name: found[name]["wall_over_thurbo"][0] for name in EQUAL if name in found and name != OURS}
    absent = [name for name in case.methods if not interpreter(case.methods[name], peers).exists()]
    about = {"batch": case.batch, "n_hidden": case.n_hidden, "threads": threads, "repeats": repeats}
    return about | {"methods": found, "over_thurbo": slower, "absent": absent, "versions": versions}


def report(case: Case, found: Mapping[str, Any]) -> None:
    """The table for people."""
    head = f"{'seconds per epoch: median (range)':<36}{'wall':>22}{'processor':>22}"
    print(f"{head}{'over thurbo: wall':>22}{'processor':>22}{'products':>10}")
    for name, own in found.items():
        columns = ("wall", "cpu", "wall_over_thurbo", "cpu_over_thurbo")
        cells = ["{:.3g} ({:.3g} to {:.3g})".format(*own[column]) for column in columns]
        products = case.methods[name].products
        print(f"{name:<36}{''.join(f'{cell:>22}' for cell in cells)}{products or '':>10}", flush=True)


def install(folder: Path) -> None:
    """One environment for the other libraries."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / FOLDER)], check=True)
    own = interpreter(EQUAL["rbms"], folder)
    subprocess.run([str(own), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)


def _narrowed(case: Case, chosen: argparse.Namespace) -> Case:
    """With the rows and methods that are wanted."""
    wanted = chosen.methods or (EQUAL if chosen.quick or chosen.equal else case.methods)
    case = case._replace(methods={name: own for name, own in case.methods.items() if name in wanted})
    return case if chosen.quick else case._replace(rows=chosen.rows)


def main() -> None:
    """Print tables for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows, and equal work only")
    parser.add_argument("--equal", action="store_true", help="equal work only")
    parser.add_argument("--only", default=",".join(CASES), help="some of " + ",".join(CASES))
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="some of them, thurbo among them")
    parser.add_argument("--rows", type=int, help="of each table, the first ones")
    parser.add_argument("--threads", type=int, help="threads and cores of each library (all cores)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="folder of the peers' environments")
    parser.add_argument("--install", action="store_true", help="install the other libraries there, and end")
    chosen = parser.parse_args()
    if chosen.install:
        install(chosen.peers)
        return
    threads = use_cores(chosen.threads)
    found = {
        name: measure(_narrowed(CASES[name], chosen), threads, chosen.peers, chosen.repeats)
        for name in chosen.only.split(",")
    }
    print(json.dumps({"quick": chosen.quick, "cases": found}))


if __name__ == "__main__":
    main()
