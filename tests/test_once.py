"""Properties that threads ask for: one computation for each object, and no waiting for other objects."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from thurbo._concurrency import _turns, cached_property

LONG = 30.0  # seconds after which a thread is thought to wait for ever


class Asked:
    def __init__(self, compute: Any) -> None:
        self.compute, self.n_computed = compute, 0

    @cached_property
    def value(self) -> Any:
        """A value."""
        self.n_computed += 1
        return self.compute()


def test_objects_do_not_wait_for_each_other() -> None:
    first_began, second_ended = threading.Event(), threading.Event()

    def slow() -> str:
        first_began.set()
        return "alone" if second_ended.wait(LONG) else "waited"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lambda: Asked(slow).value)
        assert first_began.wait(LONG)
        assert Asked(lambda: 2).value == 2
        second_ended.set()
        assert first.result() == "alone"


def test_threads_that_ask_the_same_object_wait_for_one_computation() -> None:
    every_thread = threading.Barrier(8)
    go = threading.Event()
    asked = Asked(lambda: go.wait(LONG) and object())

    def ask() -> Any:
        every_thread.wait(LONG)
        return asked.value

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(ask) for _ in range(8)]
        threading.Timer(0.05, go.set).start()
        found = {id(each.result()) for each in waiting}
    assert len(found) == 1
    assert asked.n_computed == 1
    assert not _turns


def test_a_computation_that_fails_is_tried_again() -> None:
    answers = iter([ValueError("not yet"), 7])

    def compute() -> int:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    asked = Asked(compute)
    with pytest.raises(ValueError, match="not yet"):
        _ = asked.value
    assert asked.value == asked.value == 7
    assert asked.n_computed == 2
    assert not _turns


def test_a_property_may_need_itself_of_another_object_and_is_documented() -> None:
    inner = Asked(lambda: 3)
    assert Asked(lambda: inner.value + 1).value == 4
    assert Asked.value.__doc__ == "A value."
