"""Properties that are computed once for each object, also if several threads ask for them."""

from __future__ import annotations

import functools
import threading
from typing import Any, TypeVar, overload

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
