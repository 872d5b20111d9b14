"""What the scripts for epochs share: a table comes in as .npy, then each line on standard input asks for one epoch.

Each script runs in its library's own environment, `python epochs_NAME.py TABLE SETTINGS`, and stays alive between
epochs, so that those of several libraries can alternate. Nothing here needs more than NumPy. Answers are lines of JSON;
whatever a library prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Task(NamedTuple):
    """Rows of zeros and ones, and how to learn from them."""

    table: np.ndarray
    n_hidden: int
    batch: int
    threads: int
    how: str
    folder: Path  # for files that a library writes


def read() -> Task:
    """The task; standard output is then the library's no more."""
    given, path = json.loads(sys.argv[2]), Path(sys.argv[1])
    return Task(np.load(path), given["n_hidden"], given["batch"], given["threads"], given["how"], path.parent)


def claim_output() -> Any:
    """Standard output for answers alone: everything else that is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def serve(answers: Any, epoch: Callable[[], Any], versions: dict[str, str]) -> None:
    """Run a first epoch, which may compile, then one more for each line of input."""
    first = timed(epoch)
    _answer(answers, {"first": first, "versions": versions})
    for _ in sys.stdin:
        _answer(answers, timed(epoch))


def timed(epoch: Callable[[], Any]) -> dict[str, float]:
    """Wall-clock and processor seconds, the latter of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    epoch()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _answer(answers: Any, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()
