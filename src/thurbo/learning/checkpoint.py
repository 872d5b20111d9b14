"""A fit that can be killed at any moment: its whole state in one file, written whole or not at all.

A fit that finds the file of the same data and settings goes on from there, to the same parameters bit for bit; the file
of another fit is refused. Nothing of the data is in it but what parameters hold.
"""

from __future__ import annotations

import hashlib
import time
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from thurbo.errors import NotTrusted
from thurbo.io import store
from thurbo.io.files import destination
from thurbo.learning.course import Run
from thurbo.learning.trainer import TrainState

SECONDS_BETWEEN = 5.0  # at most so much work is lost


def fingerprint(*parts: Any) -> str:
    """Of all that decides how a fit goes: arrays by their bytes, everything else by its words."""
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


class Checkpoint:
    """The file of one fit, known by its fingerprint."""

    def __init__(self, path: str | PathLike[str], mark: str, seconds_between: float = SECONDS_BETWEEN):
        self.path, self.mark, self.seconds_between = Path(path), mark, seconds_between
        destination(self.path)  # before any work
        self.written = time.monotonic()

    def save(self, run: Run) -> None:
        """Write the run, unless that was done a moment ago."""
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
        """The run that the file holds; None where there is no file."""
        if not self.path.exists():
            return None
        arrays, description = store.load(self.path)
        if description.get("checkpoint") != self.mark:
            raise NotTrusted(
                f'"{self.path}" is no checkpoint of this fit: the data, the settings or the seed differ; '
                "remove the file, or give another name"
            )
        leaves, structure = jax.tree.flatten(like)
        states = {}
        for name in ("state", "best"):
            own = sorted(key for key in arrays if key.startswith(f"{name}."))
            # A file of arrays knows no scalars: shapes are those of a state at its start.
            found = [jnp.asarray(arrays[key]).reshape(leaf.shape) for key, leaf in zip(own, leaves, strict=True)]
            states[name] = jax.tree.unflatten(structure, found)
        numbers = description["run"]
        numbers["fall"], numbers["best_score"] = tuple(numbers["fall"]), float(numbers["best_score"])
        return Run(**states, **numbers)
