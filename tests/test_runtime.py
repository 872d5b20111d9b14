"""JAX in a process of its own, compiled as users compile: right sums, and programs that do not fill memory.

The suite itself compiles without optimisation, which hides the wrong sums of jaxlib 0.10.2.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest

import thurbo as tb
from tests.conftest import _known_flags
from thurbo import _runtime
from thurbo.errors import NumericalWarning
from thurbo.table.io import frames

# The sum of the report: float32, over the first axis, one operand broadcast.
SUM = """
import jax, numpy as np
rng = np.random.default_rng(0)
c, h = (rng.normal(size=shape).astype(np.float32) for shape in ((24, 8000), (24, 8, 8000)))
found = jax.jit(lambda c, h: (c[:, None] * h).sum(0))(c, h)
print("error", float(np.abs(np.asarray(found) - (c[:, None].astype(float) * h).sum(0)).max()))
"""
HAS_THE_FAULT = jaxlib.__version__ in _runtime.WRONG_SUMS


def _run(code: str, flags: str = "", seconds: int = 120) -> str:
    """What a fresh interpreter prints, with no flags of the suite."""
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _error(output: str) -> float:
    return float(output.partition("error")[2].split()[0])


def test_sums_are_right_once_thurbo_is_loaded() -> None:
    assert _error(_run("import thurbo.latent.rbm" + SUM)) < 1e-4
    assert _error(_run("import jax, thurbo; thurbo.TBM" + SUM)) < 1e-4  # JAX imported first, but not used


@cache
def _is_wrong() -> bool:
    """Whether sums are wrong on this machine without the cure: it depends on the processor, too."""
    error = _error(_run(SUM))
    assert error < 1e-4 or error > 1
    return error > 1


@pytest.mark.skipif(not HAS_THE_FAULT, reason="this jaxlib is not known to be wrong")
def test_the_check_finds_wrong_sums() -> None:
    found = _run("import jax; jax.numpy.ones(3) + 1\nfrom thurbo import _runtime\nprint(_runtime.sums_are_right())")
    assert found.strip() == str(not _is_wrong())


ASK = """
import warnings
from thurbo import _runtime
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    _runtime.prepare(); _runtime.prepare()
import os
print(os.environ["XLA_FLAGS"], "|", len(found), "|", *(str(each.message) for each in found))
"""


@pytest.mark.skipif(not HAS_THE_FAULT, reason="this jaxlib is not known to be wrong")
def test_a_process_in_which_it_is_too_late_is_warned_once() -> None:
    flags, count, message = _run("import jax; jax.numpy.ones(3) + 1" + ASK).split("|")
    assert int(count) == int(_is_wrong())
    if _is_wrong():
        assert jaxlib.__version__ in message
        assert f"XLA_FLAGS={_runtime.CURE}" in message
    flags, count, message = _run(ASK).split("|")
    assert (flags.strip(), int(count)) == (_runtime.CURE, 0)


@pytest.mark.skipif(not HAS_THE_FAULT, reason="this jaxlib is not known to be wrong")
@pytest.mark.parametrize(("value", "n_warnings"), [("", 0), ("dot,reduce", 1)])
def test_the_users_own_flag_is_kept(value: str, n_warnings: int) -> None:
    own = f"{_runtime.FLAG}={value}"
    flags, count, _ = _run(ASK, own).split("|")
    assert (flags.strip(), int(count)) == (own, n_warnings * _is_wrong())


def test_other_versions_get_no_flag_that_they_may_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxlib, "__version__", "0.99.0")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    _runtime.use_right_sums()
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_multi_thread_eigen=false"


@pytest.mark.parametrize(("version", "is_right", "warned"), [("0.99.0", False, True), ("0.99.0", True, False)])
def test_an_unknown_version_is_checked(
    monkeypatch: pytest.MonkeyPatch, version: str, is_right: bool, warned: bool
) -> None:
    monkeypatch.setattr(jaxlib, "__version__", version)
    monkeypatch.setattr(_runtime, "_is_checked", False)
    monkeypatch.setattr(_runtime, "sums_are_right", lambda: is_right)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        _runtime.prepare()
    assert [each.category for each in found] == [NumericalWarning] * warned


def test_a_version_that_is_known_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxlib, "__version__", _runtime.RIGHT_SUMS[0])
    monkeypatch.setattr(_runtime, "_is_checked", False)
    checks = []
    monkeypatch.setattr(_runtime, "sums_are_right", lambda: checks.append(1) or True)
    _runtime.prepare()
    assert checks == []


# ---- memory maps

LOOP = """
import sys, warnings
import numpy as np
import thurbo as tb
from thurbo import _runtime
warnings.simplefilter("ignore")
n_fits, room = int(sys.argv[1]), int(sys.argv[2])
rng, maps = np.random.default_rng(0), []
_runtime.SECONDS_BETWEEN = 0.0
for i in range(n_fits):
    table = {"a": rng.normal(size=20 + i), "b": rng.integers(0, 2, 20 + i)}
    model = tb.TBM({"a": tb.Continuous(), "b": tb.Binary()}, n_hidden=1, n_factors=0, max_epochs=1, random_state=0)
    model.fit(table).transform(table)
    if n_fits > 2:
        model.predict_proba(table, "b"), model.score(table)
    maps.append(_runtime.n_maps())
    _runtime.MOST_MAPS = maps[0] + room
    print(maps[-1], flush=True)
"""


def _maps(n_fits: int, room: int, flags: str, seconds: int) -> list[int]:
    """Maps of a process after each of several fits, with a bound of `room` maps more than after the first."""
    command = [sys.executable, "-c", LOOP, str(n_fits), str(room)]
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return list(map(int, done.stdout.split()))


on_linux = pytest.mark.skipif(not _runtime.n_maps(), reason="the system does not list memory maps")


@on_linux
def test_compiled_programs_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime, "SECONDS_BETWEEN", 0.0)
    programs = [jax.jit(lambda x, n=n: jnp.cumsum(x) * n) for n in range(20)]
    for program in programs:
        program(jnp.ones(50 + len(programs)))
    before = _runtime.n_maps()
    _runtime.release_programs()  # far from the bound: nothing happens
    assert _runtime.n_maps() >= before
    monkeypatch.setattr(_runtime, "MOST_MAPS", before - 1)
    _runtime.release_programs()
    assert _runtime.n_maps() < before - len(programs)


@on_linux
@pytest.mark.slow
def test_compiled_programs_are_released_between_fits() -> None:
    before, after = _maps(2, 20, os.environ.get("XLA_FLAGS", ""), 300)
    assert after < before  # without the release, maps only grow


@on_linux
@pytest.mark.slow
def test_three_hundred_different_fits_end() -> None:
    maps = _maps(300, 3000, " ".join(_known_flags()), 3600)
    assert len(maps) == 300
    assert max(maps) <= maps[0] + 3000 + 1000  # one fit may pass the bound


def test_maps_are_counted_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    monkeypatch.setattr(_runtime, "n_maps", lambda: counted.append(1) or 0)
    monkeypatch.setattr(_runtime, "_last_count", -1e9)
    _runtime.release_programs()
    _runtime.release_programs()
    assert len(counted) == 1


PREPARED: dict[str, Callable[[tb.TBM, Any], Any]] = {
    "transform": lambda model, X: model.transform(X),
    "predict_proba": lambda model, X: model.predict_proba(X, "a"),
    "predict_interval": lambda model, X: model.predict_interval(X, "n"),
    "predict": lambda model, X: model.predict(X),
    "impute": lambda model, X: model.impute(X),
    "impute_draws": lambda model, X: model.impute_draws(X, 1, random_state=0),
    "sample": lambda model, X: model.sample(1, random_state=0),
    "inequalities": lambda model, X: model.inequalities(X, 0),
    "score_samples": lambda model, X: model.score_samples(X),
    "score": lambda model, X: model.score(X),
    "evaluate": lambda model, X: model.evaluate(X, hide=0.6, random_state=0, logistic=False),
    "segments": lambda model, X: model.segments(X, 2),
    "dependence": lambda model, X: model.dependence(X),
    "log_partition": lambda model, X: model.log_partition(),
    "check_method": lambda model, X: model.check_method(X),
    "rank": lambda model, X: model.rank(X, 1, exclude_seen=False),
    "prefers": lambda model, X: model.prefers(X, "x", "y"),
    "scan": lambda model, X: list(model.transform(tb.scan(X))),
    "out": lambda model, X: model.transform(X, out=Path(tempfile.mkdtemp()) / "rows.parquet"),
}


@pytest.fixture(scope="module")
def asked() -> tuple[tb.TBM, dict[str, list[Any]]]:
    orders = ["x > y", "y > x", "x > y", "y > x", None]
    table = {"a": [0, 1, 1, 0, None], "n": [1.5, 2.5, None, 0.5, 3.5], "order": orders}
    schema = {"a": tb.Binary(), "n": tb.Continuous(), "order": tb.Ranking(["x", "y"])}
    return tb.TBM(schema, n_hidden=1, max_epochs=0, random_state=0).fit(table), table


@pytest.mark.parametrize("name", PREPARED)
def test_a_query_is_prepared_once(name: str, asked: tuple[tb.TBM, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(_runtime, "prepare", lambda: calls.append(1))
    PREPARED[name](*asked)
    assert len(calls) == 1


def test_a_query_reads_each_column_of_an_array_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tb.TBM(n_hidden=1, max_epochs=0, random_state=0).fit(np.arange(12.0).reshape(6, 2))
    read = frames.read_array
    columns: list[int] = []
    monkeypatch.setattr(frames, "read_array", lambda array: columns.append(1) or read(array))
    for ask in (model.transform, model.predict_proba, model.impute, model.score_samples, model.score, model.segments):
        columns.clear()
        ask(np.arange(12.0).reshape(6, 2))
        assert len(columns) == 2, ask.__name__


def test_fits_and_loaded_models_are_prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []
    monkeypatch.setattr(_runtime, "prepare", lambda: calls.append(1))
    model = tb.TBM({"a": tb.Binary()}, n_hidden=1, max_epochs=0, random_state=0).fit({"a": [0, 1, 1]})
    assert len(calls) == 1
    model.save(tmp_path / "m.thurbo")
    tb.TBM.load(tmp_path / "m.thurbo")
    assert len(calls) == 2
