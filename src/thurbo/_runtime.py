"""How JAX is started: compiled programs are kept on disk, so a second run starts training at once.

Imported by the modules at the bottom of the JAX side, before anything is compiled. A user's own settings win.
"""

from __future__ import annotations

import os
from pathlib import Path

import jax


def _cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "thurbo" / f"jax-{jax.__version__}"


def keep_compiled_programs() -> None:
    """Turn JAX's persistent compilation cache on, unless it is set up already or THURBO_CACHE=off."""
    chosen = os.environ.get("THURBO_CACHE", "")
    if chosen.lower() in {"off", "0", "no"} or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        directory = Path(chosen or _cache_directory())
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home costs speed, not correctness
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


keep_compiled_programs()
