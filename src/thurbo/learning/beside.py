"""A task in a thread of its own, beside work on the host that leaves a core free."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Beside(Generic[V]):
    """A task that has begun; it is given a function for `on_epoch` that ends training once `stop` was called."""

    def __init__(self, task: Callable[[Callable[[dict[str, Any]], None]], V]) -> None:
        self._stop, self._pool = threading.Event(), ThreadPoolExecutor(1)
        self._found = self._pool.submit(task, self._told)

    def _told(self, record: dict[str, Any]) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt

    def result(self) -> V:
        """What the task returns, once it has ended."""
        return self._found.result()

    def stop(self) -> None:
        """End the task after its epoch, if it has not ended, and wait for it."""
        self._stop.set()
        self._pool.shutdown()
