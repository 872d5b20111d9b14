"""Do time and memory of a fit grow with the rows of a table, and no faster? 50 ordinal questions, from Parquet files.

    python -m benchmarks.scale_rows [--quick] [--most 10000000] [--folder DIR] [--memory]

The answers are invented from ten hidden units, 10 % are missing; files have row groups of 65,536 rows and are kept in
--folder, where a later run finds them. Each size has a process of its own: it fits `TBM(random_state=0)` to the scan,
predicts one question for every row into a folder, and scores a tenth of the answers of 5,000 other rows. "seconds" is
the time of the fit, "fit_gib" the peak memory of the process after it, "query_seconds" and "query_gib" the same of the
query, "log_score" the mean log score (nats), "truth" that of the model that the answers are from. With --memory the
table of each size is also fitted as a table in memory, in a process of its own, and "equal" says whether the parameters
are the same bit for bit. --quick ends at a million rows. "time_exponent" is that over all sizes, "peak_gib" the largest
peak of any process that scans. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

N_HIDDEN, N_QUESTIONS, N_LEVELS = 10, 50, 5
MISSING, HIDDEN, N_TEST = 0.1, 0.1, 5000
GROUP = 1 << 16  # rows of a row group, and of what has a seed of its own
SIZES = (100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
QUICK = 1_000_000
NAMES = [f"q{number:02d}" for number in range(N_QUESTIONS)]
TEST = 1 << 20  # seeds of rows that are not in any table


class Truth:
    """The model that answers are from: binary hidden units that are independent, and five levels between cuts."""

    def __init__(self) -> None:
        rng = np.random.default_rng(12345)
        shape = N_QUESTIONS, N_HIDDEN
        self.weights = 0.9 * rng.normal(size=shape) * (rng.random(shape) < 0.4)
        self.bias = 0.5 * rng.normal(size=N_QUESTIONS)
        self.cuts = np.sort(rng.normal(size=(N_QUESTIONS, N_LEVELS - 1)), axis=1)
        self.rate = np.linspace(0.2, 0.6, N_HIDDEN)

    def answers(self, number: int, n_rows: int) -> np.ndarray:
        """Levels from 1 to 5, 0 where an answer is missing, [row, question]; each number has rows of its own."""
        rng = np.random.default_rng([number, 7])
        h = (rng.random((n_rows, N_HIDDEN)) < self.rate).astype(np.float32)
        x = rng.standard_normal((n_rows, N_QUESTIONS), np.float32)
        x += h @ self.weights.T.astype(np.float32) + self.bias.astype(np.float32)
        found = np.ones(x.shape, np.int8)
        for cut in self.cuts.T.astype(np.float32):
            found += x > cut
        found[rng.random(x.shape, np.float32) < MISSING] = 0
        return found

    def score(self, known: np.ndarray, hidden: np.ndarray) -> float:
        """Mean log-probability of the hidden answers given the known ones, by enumeration: both as `answers`."""
        states = (np.arange(2**N_HIDDEN)[:, None] >> np.arange(N_HIDDEN)) & 1
        prior = states @ np.log(self.rate) + (1 - states) @ np.log1p(-self.rate)
        mean = self.bias + states @ self.weights.T
        ends = np.pad(self.cuts, ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))
        mass = ndtr(ends[None, :, 1:] - mean[:, :, None]) - ndtr(ends[None, :, :-1] - mean[:, :, None])
        logs, total, count = np.log(np.maximum(mass, 1e-300)), 0.0, 0
        for begin in range(0, len(known), 500):
            seen, asked = known[begin : begin + 500], hidden[begin : begin + 500]
            given = np.tile(prior[:, None], len(seen))
            for question in range(N_QUESTIONS):
                rows = np.flatnonzero(seen[:, question])
                given[:, rows] += logs[:, question, seen[rows, question] - 1]
            given -= logsumexp(given, axis=0)
            for question in range(N_QUESTIONS):
                rows = np.flatnonzero(asked[:, question])
                total += logsumexp(given[:, rows] + logs[:, question, asked[rows, question] - 1], axis=0).sum()
                count += len(rows)
        return float(total / count)


def arrow(answers: np.ndarray) -> Any:
    """Answers as a pyarrow table."""
    import pyarrow as pa

    columns = (pa.array(own, pa.int8(), mask=own == 0) for own in np.ascontiguousarray(answers.T))
    return pa.table(dict(zip(NAMES, columns, strict=True)))


def file(folder: Path, n_rows: int) -> Path:
    """The Parquet file of so many rows, which is made if it is not there."""
    from pyarrow import parquet

    path = folder / f"rows-{n_rows}.parquet"
    if not path.exists():
        truth, part = Truth(), path.with_suffix(".part")
        with parquet.ParquetWriter(part, arrow(truth.answers(0, 0)).schema) as writer:
            for number, begin in enumerate(range(0, n_rows, GROUP)):
                writer.write_table(arrow(truth.answers(number, GROUP)[: n_rows - begin]), GROUP)
        part.replace(path)
    return path


def test_rows() -> tuple[np.ndarray, np.ndarray]:
    """Known and hidden answers of rows that are in no table, as `Truth.answers`."""
    every = Truth().answers(TEST, N_TEST)
    masked = np.random.default_rng(1).random(every.shape) < HIDDEN
    return np.where(masked, 0, every), np.where(masked, every, 0)


def log_score(model: Any, known: np.ndarray, hidden: np.ndarray) -> float:
    """Mean log-probability of the hidden answers."""
    table, logs = arrow(known), []
    for question, name in enumerate(NAMES):
        rows = np.flatnonzero(hidden[:, question])
        chance = model.predict_proba(table, name)[rows, hidden[rows, question] - 1]
        logs.append(np.log(chance))
    return float(np.concatenate(logs).mean())


def peak() -> float:
    """Most memory that this process has held, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def mark(model: Any) -> str:
    """A fingerprint of the parameters of all members."""
    import jax

    digest = hashlib.sha256()
    for member in model.model_.members:
        for leaf in jax.tree.leaves(member.params):
            digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def one(path: Path, in_memory: bool, checkpoint: str | None = None) -> dict[str, Any]:
    """Times, memory and log score of one table."""
    import jax
    from pyarrow import parquet

    import thurbo as tb

    schema = tb.Schema({name: tb.Ordinal(range(1, N_LEVELS + 1)) for name in NAMES})
    began = time.perf_counter()
    table = parquet.read_table(path) if in_memory else tb.scan(path)
    model = tb.TBM(schema, random_state=0, verbose=False, checkpoint=checkpoint).fit(table)
    found: dict[str, Any] = {"rows": len(table), "seconds": time.perf_counter() - began, "fit_gib": peak()}
    found |= {"mark": mark(model), "device": jax.devices()[0].device_kind}
    found["members"] = [{name: each[name] for name in ("n_hidden", "n_factors", "weight")} for each in model.members_]
    if not in_memory:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            model.predict_proba(table, NAMES[0], out=Path(folder) / "parts")
        found |= {"query_seconds": time.perf_counter() - began, "query_gib": peak()}
    found["log_score"] = log_score(model, *test_rows())
    return found


def _apart(path: Path, in_memory: bool) -> dict[str, Any]:
    """`one` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale_rows", "--one", str(path)]
    done = subprocess.run([*command, *(["--memory"] if in_memory else [])], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to a million rows")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="rows of the largest table")
    parser.add_argument("--least", type=int, default=SIZES[0], help="rows of the smallest table")
    parser.add_argument("--folder", type=Path, help="where tables are kept; a temporary folder by default")
    parser.add_argument("--memory", action="store_true", help="also fit tables in memory")
    parser.add_argument("--one", type=Path, help="one file, in this process")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.one, asked.memory)))
        return
    most = min(asked.most, QUICK) if asked.quick else asked.most
    sizes, found = [size for size in SIZES if asked.least <= size <= most] or [most], []
    truth = Truth().score(*test_rows())
    print(
        f"log score of the truth: {truth:.4f}\n      rows    fit s  fit GiB  query s  query GiB  log score  in memory s"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in sizes:
            path = file(folder, size)
            each = _apart(path, in_memory=False)
            if asked.memory:
                held = _apart(path, in_memory=True)
                each |= {"memory_seconds": held["seconds"], "memory_gib": held["fit_gib"]}
                each["equal"] = held["mark"] == each["mark"]
            found.append(each)
            line = "{rows:10d} {seconds:8.1f} {fit_gib:8.2f} {query_seconds:8.1f} {query_gib:10.2f} {log_score:10.4f}"
            more = f" {each['memory_seconds']:8.1f} {'equal' if each['equal'] else 'DIFFERS'}" if asked.memory else ""
            print(line.format(**each) + more, flush=True)
            if not asked.folder:
                os.remove(path)
    rows, seconds = (np.asarray([each[name] for each in found], float) for name in ("rows", "seconds"))
    exponent = float(np.polyfit(np.log(rows), np.log(seconds), 1)[0]) if len(found) > 1 else None
    about = {"time_exponent": exponent, "peak_gib": max(each["query_gib"] for each in found), "truth": truth}
    print(json.dumps({**about, "rows": found}))


if __name__ == "__main__":
    main()
