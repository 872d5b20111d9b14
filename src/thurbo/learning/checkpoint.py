"""Checkpoints: the whole state of a fit in one file, so that a killed fit can be resumed.

A fit resumes from the file if it exists and has the same data and settings; the result is the same bit for bit.
A file of another fit is an error. The file is written completely or not at all, and holds no data but the parameters.
"""

from __future__ import annotations

import hashlib
import time
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.errors import NotTrusted
from thurbo.io import store
from thurbo.io.files import destination
from thurbo.learning.course import Run
from thurbo.learning.trainer import TrainState

SECONDS_BETWEEN = 5.0  # at most so much work is lost if a fit is killed


def fingerprint(*parts: Any) -> str:
    """A fingerprint of all inputs of a fit: arrays by their bytes, other values by their text."""
    digest = hashlib.sha256()
    leaves, structure = jax.tree.flatten(parts)
    digest.update(str(structure).encode())
    for leaf in leaves:
        if isinstance(leaf, (jax.Array, np.ndarray)):
            array = np.asarray(leaf)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        else:
            digest.update(repr(leaf).encode())
    return digest.hexdigest()


class Unfinished(NamedTuple):
    """A fit that was interrupted: its fingerprint, and the run to resume."""

    mark: str
    run: Run

    def save(self, path: str | PathLike[str]) -> None:
        """Write the run to a checkpoint, from which `fit` resumes."""
        Checkpoint(path, self.mark).write(self.run)


class Checkpoint:
    """The checkpoint file of one fit, identified by its fingerprint."""

    def __init__(self, path: str | PathLike[str], mark: str, seconds_between: float = SECONDS_BETWEEN):
        self.path, self.mark, self.seconds_between = Path(path), mark, seconds_between
        destination(self.path)  # check the path before training starts
        self.written = time.monotonic()

    def save(self, run: Run) -> None:
        """Write the run, unless it was written a few seconds ago."""
        if time.monotonic() - self.written >= self.seconds_between:
            self.write(run)

    def write(self, run: Run) -> None:
        """Write the run now."""
        arrays: dict[str, np.ndarray] = {}
        for name in ("state", "best"):
            leaves = jax.tree.leaves(getattr(run, name))
            arrays |= {f"{name}.{place:03d}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
        numbers = {name: value for name, value in vars(run).items() if name not in {"state", "best"}}
        store.save(self.path, arrays, {"checkpoint": self.mark, "run": numbers | {"best_score": str(run.best_score)}})
        self.written = time.monotonic()

    def load(self, like: TrainState) -> Run | None:
        """The run in the file; None if the file does not exist."""
        if not self.path.exists():
            return None
        arrays, description = store.load(self.path)
        if description.get("checkpoint") != self.mark:
            raise NotTrusted(
                f'"{self.path}" is not a checkpoint of this fit: the data, the settings or the seed differ; '
                "remove the file, or use another name"
            )
        leaves, structure = jax.tree.flatten(like)
        states = {}
        for name in ("state", "best"):
            own = sorted(key for key in arrays if key.startswith(f"{name}."))
            # The file does not keep scalar shapes: take the shapes of an initial state.
            found = [jnp.asarray(arrays[key]).reshape(leaf.shape) for key, leaf in zip(own, leaves, strict=True)]
            states[name] = jax.tree.unflatten(structure, found)
        numbers = description["run"]
        numbers["fall"], numbers["best_score"] = tuple(numbers["fall"]), float(numbers["best_score"])
        return Run(**states, **numbers)
