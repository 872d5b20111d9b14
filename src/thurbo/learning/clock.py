"""Where the time of a fit goes: reading, compiling and training, in seconds of wall-clock time.

The stages are told apart by the records that `fit` gives to its progress display.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

Told = Callable[[dict[str, Any]], None]


class Clock:
    """The clock of one fit; it starts when it is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._read = self._began
        self._epochs: list[float] = []

    def watch(self, on_epoch: Told) -> Told:
        """The same callback, with the times of its records; reading ends here."""
        self._read = time.perf_counter()

        def told(record: dict[str, Any]) -> None:
            if "epoch" in record or (record.get("stage") == "fitting" and record["done"]):
                self._epochs.append(time.perf_counter())
            on_epoch(record)

        return told

    def spent(self) -> dict[str, float]:
        """Seconds of each stage up to now, and in "total" since the start.

        Compiling is what the first epoch took longer than later epochs do, with the preparation before it.
        """
        now = time.perf_counter()
        found = {"reading": self._read - self._began}
        compiling = 0.0
        if len(self._epochs) > 1:
            usual = float(np.median(np.diff(self._epochs)))
            compiling = max(0.0, self._epochs[0] - self._read - usual)
        return {
            **found,
            "compiling": compiling,
            "training": now - self._read - compiling,
            "total": now - self._began,
        }
