"""JAX on this machine: right sums, programs kept on disk, and compiled programs released before they fill memory.

Imported by the lowest modules that use JAX, before anything is compiled. The user's own settings have priority.
`prepare` is called at the start of every fit and query.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import jax
import jaxlib
import numpy as np

from thurbo.errors import NumericalWarning

# jaxlib 0.10.2 computes wrong sums on the CPU: float32 sums over the first axis of a product in which one operand is
# broadcast, if the result has more than 32,768 numbers (its fused reductions). Products of matrices are right.
WRONG_SUMS, RIGHT_SUMS = ("0.10.2",), ("0.10.0", "0.10.1")  # versions of jaxlib
FLAG = "--xla_cpu_experimental_ynn_fusion_type"
CURE = f"{FLAG}=dot"  # fuses products of matrices only

MOST_MAPS = 16_000  # mapped pieces of memory, about 2 GB of programs; Linux ends a process at 65,530
SECONDS_BETWEEN = 1.0  # counting the maps takes some milliseconds

# XLA's newer emitters compile every fused loop as a module of its own. The older ones need half the time, for programs
# that are up to a tenth slower. An option that XLA does not know is an error, so only in versions that know it.
_OLD_EMITTERS = {"xla_cpu_use_fusion_emitters": False} if jaxlib.__version__.startswith("0.10.") else {}
RUNS_ONCE = {"xla_backend_optimization_level": 0, **_OLD_EMITTERS}  # takes longer to compile than to run
RUNS_SHORTLY = {"xla_backend_optimization_level": 1, **_OLD_EMITTERS}
LITTLE_WORK, MUCH_WORK = 5e5, 5e7  # cells, each counted once an epoch, from which better code is worth compiling
# On a GPU, XLA tries out several kernels for each product of matrices. Without this, a survey's training step was
# compiled in 9 s instead of 21 s (of processor time, 15 s instead of 78 s), and was as quick.
_NO_TRIALS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False, "xla_backend_optimization_level": 1}
RUNS_ON_GPU = _NO_TRIALS if jaxlib.__version__.startswith(("0.10.", "0.11.")) else None
MUCH_WORK_OF_GPU = 1e10

ON_RELEASE: list[Callable[[], None]] = []  # called when programs are released

_is_checked = False
_own_cache: Path | None = None
_last_count = -SECONDS_BETWEEN


def use_right_sums() -> None:
    """Turn off the fused reductions of a jaxlib that computes them wrongly, unless the user has set this flag.

    It has an effect only if JAX has not computed anything in this process; `prepare` checks that.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if jaxlib.__version__ in WRONG_SUMS and FLAG not in flags:  # other versions may not know the flag, and would abort
        os.environ["XLA_FLAGS"] = f"{flags} {CURE}".strip()


def keep_compiled_programs() -> None:
    """Enable JAX's persistent compilation cache, unless it is already configured or THURBO_CACHE=off."""
    chosen = os.environ.get("THURBO_CACHE", "")
    if chosen.lower() in {"off", "0", "no"} or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(chosen or Path(root) / "thurbo" / f"jax-{jax.__version__}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # without a cache everything works, but compiles again in each run
    global _own_cache
    _own_cache = directory
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def own_cache() -> Path | None:
    """The folder of compiled programs, if this package chose it and it is still in use."""
    chosen = getattr(jax.config, "jax_compilation_cache_dir", None)
    return _own_cache if _own_cache is not None and chosen == str(_own_cache) else None


def prepare() -> None:
    """Check once per process that JAX computes right sums, and release compiled programs if there are many."""
    global _is_checked
    if not _is_checked:
        _is_checked = True
        if jaxlib.__version__ not in RIGHT_SUMS and not sums_are_right():
            warnings.warn(
                f"jaxlib {jaxlib.__version__} computes wrong sums in this process, so results can be wrong; import "
                f"thurbo._runtime before JAX computes anything, or set environment variable XLA_FLAGS={CURE} before "
                "Python starts, or install jaxlib 0.10.1",
                NumericalWarning,
                stacklevel=3,
            )
    release_programs()


def sums_are_right() -> bool:
    """Compute the smallest kind of sum that jaxlib 0.10.2 gets wrong, and compare it with NumPy's."""
    wave = np.sin(np.arange(3 * 2 * 16_400, dtype=np.float64)).astype(np.float32).reshape(3, 2, 16_400)
    factor = wave[:, 1, ::-1].copy()
    found = jax.jit(lambda c, h: (c[:, None] * h).sum(axis=0))(factor, wave)
    return bool(np.allclose(np.asarray(found), (factor[:, None] * wave).sum(axis=0), atol=1e-4))


def n_maps() -> int:
    """Mapped pieces of memory of this process, of which each compiled program needs several; 0 if not on Linux."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps)
    except OSError:
        return 0


def release_programs() -> None:
    """Release all compiled programs of this process if they need more than `MOST_MAPS` maps.

    JAX clears all its caches together, including those of the user's own functions: these are compiled again when they
    are next called, or loaded from disk.
    """
    global _last_count
    now = time.monotonic()
    if now - _last_count < SECONDS_BETWEEN:
        return
    _last_count = now
    if n_maps() > MOST_MAPS:
        for forget in ON_RELEASE:
            forget()
        jax.clear_caches()
        gc.collect()


use_right_sums()
keep_compiled_programs()
