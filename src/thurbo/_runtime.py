"""JAX's compilation cache: compiled functions are stored on disk, so that a second run starts quickly.

Imported by the lowest modules that use JAX, before anything is compiled. The user's own settings have priority.
"""

from __future__ import annotations

import os
from pathlib import Path

import jax


def _cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "thurbo" / f"jax-{jax.__version__}"


def keep_compiled_programs() -> None:
    """Enable JAX's persistent compilation cache, unless it is already configured or THURBO_CACHE=off."""
    chosen = os.environ.get("THURBO_CACHE", "")
    if chosen.lower() in {"off", "0", "no"} or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        directory = Path(chosen or _cache_directory())
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # without a cache everything works, but compiles again in each run
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


keep_compiled_programs()
