"""Every test runs with shapes checked, float64 available, and no silent promotion of dtypes or ranks.

Most of the suite's time is compilation, so programs are compiled without optimisation and kept in a folder of their
own: two workers share it, and a second run finds it filled. `THURBO_TEST_OPTIMISED=1` compiles as users do; `make
test-slow` sets it, and holds the numerical tests there too.
"""

import gc
import importlib.util
import mmap
import os
import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / ".pytest_cache" / "programs"
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_use_fusion_emitters=false",
)


def _known_flags() -> list[str]:
    """Those this release of XLA knows: one that it does not would end the process."""
    spec = importlib.util.find_spec("jaxlib")
    library = Path(spec.origin or "").with_name("libjax_common.so") if spec else Path()
    if not library.is_file():
        return list(QUICK_TO_COMPILE[:2])
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [flag for flag in QUICK_TO_COMPILE if content.find(flag[2:].partition("=")[0].encode()) >= 0]


os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers already take all cores
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers, and the processes that tests start, inherit all of this
    if os.environ.get("THURBO_TEST_OPTIMISED", "0") != "1":
        os.environ["XLA_FLAGS"] = " ".join([*os.environ.get("XLA_FLAGS", "").split(), *_known_flags()])
    if "THURBO_CACHE" not in os.environ:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(PROGRAMS))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        if PROGRAMS.is_dir() and sum(file.stat().st_size for file in PROGRAMS.iterdir()) > 2**30:
            shutil.rmtree(PROGRAMS)  # programs of sources long changed


def _of_main_thread(**options: Any) -> Any:
    """`catch_warnings` in the main thread; elsewhere nothing is caught."""
    is_main = threading.current_thread() is threading.main_thread()
    return warnings.catch_warnings(**options) if is_main else nullcontext([])


import jax  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

# Before the hook: what users give is for `fit` to refuse, in its own words.
import thurbo.fit.settings  # noqa: E402, F401

# The same examples each time, so that a failure is due to a change; `make test-slow` draws new ones.
settings.register_profile("repeatable", derandomize=True)
if os.environ.get("THURBO_TEST_OPTIMISED", "0") != "1":
    settings.load_profile("repeatable")

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The JAX side carries shapes in its annotations; here they are promises that are kept, or a test fails.
CHECKED = ["latent", "fit", "predict"]
# `catch_warnings` of several threads at once leaves filters of one of them, by which later warnings are lost. beartype
# enters it whenever it decorates a function, also inside functions that members call in threads.
for _part in ("_wrapargs", "_wrapreturn"):
    _module = importlib.import_module(f"beartype._decor._nontype._wrap.{_part}")
    if hasattr(_module, "catch_warnings"):
        _module.catch_warnings = _of_main_thread  # type: ignore[attr-defined]
install_import_hook([f"thurbo.{name}" for name in CHECKED], "beartype.beartype")

# Files whose precision could depend on the compiler: `make test-slow` runs them at full optimisation as well.
NUMERICAL = {"choices", "gibbs", "given_latent", "invariances", "likelihood", "linear", "meanfield", "mixed", "modes"}
NUMERICAL |= {"order", "permutations", "rbm", "tempering", "truncnorm"}
# The longest first, by which two workers end together; the others follow in the order of their names.
LONGEST = ("every_query", "laws", "order", "estimator", "learning", "agreement", "inequalities", "course", "linear")
LONGEST += ("mixed", "truncnorm", "gibbs", "constraints", "cli_lists", "estimator_orders", "likelihood", "quickstart")
LONGEST += ("runtime", "imputer", "imputed_cells", "evaluate", "lists", "invariances", "demo", "verbatim", "meanfield")
LONGEST += ("attacks",)
# Each compiled program maps a few pieces of memory, of which Linux allows a process 65,530; these take 3 GB.
MANY_MAPS = 10_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    name = lambda item: item.path.stem.removeprefix("test_")  # noqa: E731
    items.sort(key=lambda item: LONGEST.index(name(item)) if name(item) in LONGEST else len(LONGEST))
    for item in items:
        if name(item) in NUMERICAL:
            item.add_marker(pytest.mark.numerical)


def _n_maps() -> int:
    try:
        with open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps)
    except OSError:
        return MANY_MAPS


@pytest.fixture(scope="module", autouse=True)
def _forget_programs() -> Iterator[None]:
    """Compiled programs of one file are little use to the next, and thousands of them fill memory."""
    yield
    if _n_maps() >= MANY_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def few_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that try three numbers of segments at most; test_segments.py tries up to ten."""
    from thurbo.predict import segments

    monkeypatch.setattr(segments, "MOST_SEGMENTS", 3)
