"""What the scripts for movielens share: training ratings and unrated cells come in as .npz, scores go out as .npz.

Each script runs in its peer's own environment, `python movielens_NAME.py IN OUT SETTING ...`, so nothing here needs
more than NumPy. Held-out ratings do not come in.
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import numpy as np


class Cells(NamedTuple):
    """Users and items by number."""

    user: np.ndarray
    item: np.ndarray


class Task(NamedTuple):
    """What to learn from, and what to score."""

    train: Cells
    rating: np.ndarray  # of the training cells, 1 to 5
    valid: Cells
    test: Cells
    n_users: int
    n_items: int
    about_users: dict[str, np.ndarray]  # age, gender and occupation, by user
    about_items: dict[str, np.ndarray]  # year, and genres [item, genre]


def read() -> tuple[Task, list[str]]:
    """The task, and the further words of the command."""
    with np.load(sys.argv[1]) as found:
        train, valid, test = (
            Cells(found[f"{part}_user"], found[f"{part}_item"]) for part in ("train", "valid", "test")
        )
        sizes = int(found["n_users"]), int(found["n_items"])
        about = (
            {name: found[name] for name in names} for names in (("age", "gender", "occupation"), ("year", "genres"))
        )
        return Task(train, found["train_rating"], valid, test, *sizes, *about), sys.argv[3:]


def write(valid: np.ndarray, test: np.ndarray, started: float) -> None:
    """Scores of both, and the seconds since `started` by `time.perf_counter`."""
    np.savez(sys.argv[2], valid=valid, test=test, seconds=time.perf_counter() - started)
