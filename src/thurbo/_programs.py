"""Programs that are compiled for the amount of work they do, and kept on disk as they were traced.

JAX's compilation cache keeps what XLA compiles, but a function is traced and lowered again in every process, which for
a small survey takes as long as its training. `Program` keeps the lowered module beside that cache, under a name made of
all that it depends on. Whatever fails, the function is traced as usual.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
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

from thurbo import _runtime

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


class Program:
    """A function that is compiled for the amount of work that it is going to do.

    `for_work` returns it as compiled for a number of cells, each counted as often as it is visited. When it is called
    without this, XLA's own options are used. Not to be called inside another compiled function.
    With `outputs`, its traces are kept on disk: from the arguments it returns a tree like the function's own output, or
    None for a tuple of arrays.
    """

    def __init__(self, function: Callable[..., Any], outputs: Callable[..., Any] | None = None, **options: Any) -> None:
        efforts: dict[str, Any] = {"long": None, "short": _runtime.RUNS_SHORTLY, "once": _runtime.RUNS_ONCE}
        efforts["gpu"] = _runtime.RUNS_ON_GPU
        self._traced: dict[str, Any] = {
            name: jax.jit(function, compiler_options=each, **options) for name, each in efforts.items()
        }
        self._efforts, self._function, self._outputs = efforts, function, outputs
        names, static = list(signature(function).parameters), options.get("static_argnames", ())
        self._static = [place for place, name in enumerate(names) if name in static]
        self._loaded: dict[tuple[str, str], Any] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._names: dict[Any, str] = {}
        self._lock, self._is_kept = threading.Lock(), outputs is not None
        _runtime.ON_RELEASE.append(self._loaded.clear)

    def for_work(self, cells: float) -> Any:
        """The compiled function that takes the least time to compile and to run together."""
        backend = jax.default_backend()
        if backend == "gpu" and cells < _runtime.MUCH_WORK_OF_GPU:
            return self._traced["gpu"]
        if cells >= _runtime.MUCH_WORK or backend != "cpu":
            return self._traced["long"]
        effort = "once" if cells < _runtime.LITTLE_WORK else "short"
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
        directory = _runtime.own_cache() if self._is_kept and jax.device_count() == 1 else None
        static = [arguments[place] for place in self._static]
        if directory is None or not all(map(_is_ours, static)):
            return self._traced[effort](*arguments)
        leaves, tree = jax.tree.flatten([each for place, each in enumerate(arguments) if place not in self._static])
        name = self._name(tree, leaves, static)
        with self._lock:
            own = self._locks.setdefault((effort, name), threading.Lock())
        with own:  # a program is compiled once, even if several threads need it
            program = self._loaded.get((effort, name))
            if program is None:
                program = self._load(directory / "traced", effort, name, leaves, tree, arguments)
                self._loaded[effort, name] = program
        if program is _FAILED:
            return self._traced[effort](*arguments)
        found, like = program(*leaves), self._outputs(*arguments)  # type: ignore[misc]
        return tuple(found) if like is None else jax.tree.unflatten(jax.tree.structure(like), found)

    def _name(self, tree: Any, leaves: list, static: list) -> str:
        """A hash of all that the traced function depends on."""
        avals = [(np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves]
        known = (tree, tuple(avals), tuple(static))
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

    def _load(self, directory: Path, effort: str, name: str, leaves: list, tree: Any, arguments: tuple) -> Any:
        """The program, as it was traced before or traced now; `_FAILED` where JAX cannot keep it."""

        def flat(*values: Any) -> list:
            given, static = iter(jax.tree.unflatten(tree, values)), iter([arguments[each] for each in self._static])
            every = (next(static if place in self._static else given) for place in range(len(arguments)))
            return jax.tree.leaves(self._function(*every))

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
            return jax.jit(called, compiler_options=self._efforts[effort]).lower(*leaves).compile()
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


_FAILED = object()


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
            n_outputs = len(kept["dtypes"])
            shapes = [tuple(kept[f"shape{place}"].tolist()) for place in range(n_outputs)]
            return kept["module"].tobytes(), list(zip(shapes, kept["dtypes"].tolist(), strict=True))
    except (OSError, ValueError, KeyError):
        return None


def _write(path: Path, module: bytes, outputs: list[tuple[tuple[int, ...], str]]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.npz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shapes: dict[str, Any] = {f"shape{n}": np.array(shape, np.int64) for n, (shape, _) in enumerate(outputs)}
        digest, code = hashlib.sha256(module).hexdigest(), np.frombuffer(module, np.uint8)
        np.savez_compressed(part, module=code, digest=digest, dtypes=[dtype for _, dtype in outputs], **shapes)
        part.chmod(0o600)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
