"""JAX on this machine: right sums; programs compiled for their work, kept on disk, released before they fill memory.

Imported by the lowest modules that use JAX, before anything is compiled. The user's own settings have priority.
`prepare` is called at the start of every fit and query. JAX's compilation cache keeps what XLA compiles, but a function
is traced and lowered again in every process, which for a small survey takes as long as its training: a `Program` keeps
the lowered module beside that cache, under a name made of all that it depends on.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import stat
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
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
_EFFORTS: dict[str, Any] = {"long": None, "short": RUNS_SHORTLY, "once": RUNS_ONCE, "gpu": RUNS_ON_GPU}

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


# Settings of JAX that change what is traced.
_TRACED_WITH = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_disable_jit",
)
_tracing = threading.Lock()
_PLAIN = (str, int, float, bool, type(None))
_FAILED = object()  # in place of a program that JAX cannot keep


class Program:
    """A function that is compiled for the amount of work that it is going to do.

    `for_work` returns it as compiled for a number of cells, each counted as often as it is visited. When it is called
    without this, XLA's own options are used. Not to be called inside another compiled function.
    With `outputs`, its traces are kept on disk: from the arguments it returns a tree like the function's own output, or
    None for a tuple of arrays.
    """

    def __init__(self, function: Callable[..., Any], outputs: Callable[..., Any] | None = None, **options: Any) -> None:
        self._traced: dict[str, Any] = {
            name: jax.jit(function, compiler_options=each, **options) for name, each in _EFFORTS.items()
        }
        self._function, self._outputs = function, outputs
        self._parameters, self._static = list(signature(function).parameters), options.get("static_argnames", ())
        self._loaded: dict[tuple[str, str], Any] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._names: dict[Any, str] = {}
        self._is_kept = outputs is not None
        ON_RELEASE.append(self._loaded.clear)

    def for_work(self, cells: float) -> Any:
        """The compiled function that takes the least time to compile and to run together."""
        backend = jax.default_backend()
        if backend == "gpu" and cells < MUCH_WORK_OF_GPU:
            return self._traced["gpu"]
        if cells >= MUCH_WORK or backend != "cpu":
            return self._traced["long"]
        effort = "once" if cells < LITTLE_WORK else "short"
        return lambda *arguments: self._call(effort, arguments)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._traced["long"](*arguments, **named)

    @property
    def n_compiled(self) -> int:
        """Number of compiled programs."""
        found: int = sum(each._cache_size() for each in self._traced.values())
        return found + len(self._loaded)

    def clear_cache(self) -> None:
        """Release all compiled programs of this function, and trace it again when it is called."""
        self._is_kept = False
        self._loaded.clear()
        for each in self._traced.values():
            each.clear_cache()

    def _call(self, effort: str, arguments: tuple) -> Any:
        directory = own_cache() if self._is_kept and jax.device_count() == 1 else None
        given = dict(zip(self._parameters, arguments, strict=False))
        static = {name: given.pop(name) for name in self._static if name in given}
        if directory is None or not all(map(_is_ours, static.values())):
            return self._traced[effort](*arguments)
        leaves, tree = jax.tree.flatten(given)
        name = self._name(tree, leaves, static)
        # A program is compiled once, even if several threads need it.
        with self._locks.setdefault((effort, name), threading.Lock()):
            program = self._loaded.get((effort, name))
            if program is None:
                program = self._load(directory / "traced", effort, name, leaves, tree, static)
                self._loaded[effort, name] = program
        if program is _FAILED:
            return self._traced[effort](*arguments)
        found, like = program(*leaves), self._outputs(*arguments)  # type: ignore[misc]
        return tuple(found) if like is None else jax.tree.unflatten(jax.tree.structure(like), found)

    def _name(self, tree: Any, leaves: list, static: dict[str, Any]) -> str:
        """A hash of all that the traced function depends on."""
        avals = [(np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves]
        known = (tree, tuple(avals), tuple(static.items()))
        if known not in self._names:
            about = [
                f"{self._function.__module__}.{self._function.__qualname__}",
                str((tree, [(shape, str(dtype)) for shape, dtype in avals], static)),
                str([getattr(jax.config, name, None) for name in _TRACED_WITH]),
                jax.__version__,
                jaxlib.__version__,
                _sources(),
            ]
            self._names[known] = hashlib.sha256("\n".join(about).encode()).hexdigest()
        return self._names[known]

    def _load(self, directory: Path, effort: str, name: str, leaves: list, tree: Any, static: dict[str, Any]) -> Any:
        """The program, as it was traced before or traced now; `_FAILED` where JAX cannot keep it."""

        def flat(*values: Any) -> list:
            return jax.tree.leaves(self._function(**jax.tree.unflatten(tree, values), **static))

        title = self._function.__name__
        path = directory / f"{title}-{name}"
        try:
            kept = _read(path)
            if kept is None:
                found = _exported(title, flat, leaves)
                _write(path, found.mlir_module_serialized, [(each.shape, str(each.dtype)) for each in found.out_avals])
            else:
                module, outputs = kept
                empty = lambda *_: [jnp.zeros(shape, dtype) for shape, dtype in outputs]  # noqa: E731
                found = replace(_exported(title, empty, leaves), mlir_module_serialized=module)
            called = _named(title, lambda *values: found.call(*values))
            return jax.jit(called, compiler_options=_EFFORTS[effort]).lower(*leaves).compile()
        except Exception:
            return _FAILED


def _exported(title: str, function: Callable[..., Any], leaves: list) -> jax.export.Exported:
    """A function in JAX's portable form. All arguments are kept, so that it has the same form for any function.

    One at a time: two threads would need as long for both, and the first program can be compiled meanwhile.
    """
    with _tracing:
        return jax.export.export(jax.jit(_named(title, function), keep_unused=True))(*leaves)


def _named(title: str, function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = title
    return function


def _is_ours(value: Any) -> bool:
    """Whether a static argument is a plain value, or a class of this package: its text then says all about it."""
    if isinstance(value, _PLAIN):
        return True
    is_own = is_dataclass(value) and type(value).__module__.startswith("thurbo.")
    return is_own and all(_is_ours(getattr(value, each.name)) for each in fields(value))


@cache
def _sources() -> str:
    """A hash of the code of this package."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _read(path: Path) -> tuple[bytes, list[tuple[tuple[int, ...], str]]] | None:
    """A module and the shapes of its outputs; None if there is none, or if others may have written it."""
    try:
        about = path.stat()
        is_own = not hasattr(os, "getuid") or about.st_uid == os.getuid()
        if not is_own or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None
        with np.load(path, allow_pickle=False) as kept:
            if hashlib.sha256(kept["module"].tobytes()).hexdigest() != str(kept["digest"]):
                return None
            return kept["module"].tobytes(), json.loads(str(kept["outputs"]))
    except (OSError, ValueError, KeyError):
        return None


def _write(path: Path, module: bytes, outputs: list[tuple[tuple[int, ...], str]]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.npz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        digest, code = hashlib.sha256(module).hexdigest(), np.frombuffer(module, np.uint8)
        np.savez_compressed(part, module=code, digest=digest, outputs=json.dumps(outputs))
        part.chmod(0o600)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)


use_right_sums()
keep_compiled_programs()
