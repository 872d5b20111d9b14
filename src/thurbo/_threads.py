"""One thread for small problems of linear algebra, whose threads would wait for each other longer than they work."""

from __future__ import annotations

import sys
from typing import Any

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
