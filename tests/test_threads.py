"""One thread for small problems, in every library; and garbage, which is not collected while modules are imported."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from thurbo._concurrency import one_thread

np.ones((2, 2)) @ np.ones((2, 2))  # loads BLAS


def n_threads(api: str = "blas") -> list[int]:
    return [each["num_threads"] for each in ThreadpoolController().select(user_api=api).info()]


@pytest.fixture
def two_threads():
    with ThreadpoolController().limit(limits=2):
        yield


def test_the_limit_is_undone_even_after_an_error(two_threads: None) -> None:
    before = n_threads()
    with one_thread():
        assert set(n_threads()) == {1}
        with one_thread():
            assert set(n_threads()) == {1}
        assert set(n_threads()) == {1}
    assert n_threads() == before
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert n_threads() == before


def test_libraries_that_are_loaded_later_are_limited_too() -> None:
    code = """
import sys
from threadpoolctl import ThreadpoolController, threadpool_limits
from thurbo._concurrency import one_thread
with one_thread():
    pass
before = len(ThreadpoolController().info())
import numpy, sklearn.cluster
assert len(ThreadpoolController().info()) > before
with threadpool_limits(2), one_thread():
    assert {each["num_threads"] for each in ThreadpoolController().info()} == {1}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_collected_after_an_import_as_before(is_on: bool) -> None:
    code = f"""
import gc, thurbo
{"" if is_on else "gc.disable()"}
seen = []
gc.callbacks.append(lambda phase, about: seen.append(about["generation"]))
thurbo.Schema, thurbo.TBM
assert not seen, seen
assert gc.isenabled() is {is_on} and gc.get_freeze_count() == 0
class Node: pass
node = Node(); node.own = node
import weakref
gone = weakref.ref(node)
del node
thurbo.TBM, thurbo.metrics
gc.collect()
assert gone() is None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
