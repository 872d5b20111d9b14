"""Threads on the host: one for small linear algebra, values computed once for all of them, and a task beside others.

Idea: compilation and linear algebra use several threads already; more of them would wait for each other.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar, overload

_known: tuple[int, Any] = -1, None


def one_thread() -> Any:
    """A context in which BLAS and OpenMP use one thread: `threadpool_limits(1)` of threadpoolctl, entered faster.

    Searching for the libraries of a process takes 10 ms, so it is done again only after something was imported.
    """
    global _known
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn

    if _known[0] != len(sys.modules):
        _known = len(sys.modules), ThreadpoolController()
    return _known[1].limit(limits=1)


V = TypeVar("V")


class cached_property(functools.cached_property[V]):  # noqa: N801  (the name of what it replaces)
    """That of functools, but threads wait for each other only if they ask the same object.

    In Python 3.11 they wait for all objects of a class: one question for the programs of another. From 3.12 on they do
    not wait at all, and compute the same value more than once.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> cached_property[V]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> V: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> cached_property[V] | V:
        if instance is None:
            return self
        known, name = instance.__dict__, str(self.attrname)
        if name not in known:
            key = id(instance), name
            turn = _turns.setdefault(key, threading.RLock())
            try:
                with turn:
                    if name not in known:
                        known[name] = self.func(instance)
            finally:
                _turns.pop(key, None)
        found: V = known[name]
        return found


# Of properties that are being computed. Nobody finds the turn of one that ends, but its value.
_turns: dict[tuple[int, str], Any] = {}


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
