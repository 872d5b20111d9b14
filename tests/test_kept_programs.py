"""Programs that are kept as they were traced: the same numbers without tracing, and only from files of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from thurbo import _runtime
from thurbo.fit.masking import RandomCells
from thurbo.fit.planning import Plan


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_runtime, "own_cache", lambda: tmp_path)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    return tmp_path / "traced"


def make(traced: list[str], factor: float = 2.0) -> _runtime.Program:
    def scaled(key: Any, pair: Pair, plan: Any) -> tuple[Pair, Any]:
        traced.append("traced")
        noise = jax.random.uniform(key, pair.first.shape, jnp.float32)
        return Pair(factor * pair.first, pair.second + noise), pair.first.sum() * float(plan.damping)

    return _runtime.Program(scaled, outputs=lambda key, pair, plan: (pair, 0), static_argnames=("plan",))


def call(program: _runtime.Program, plan: Any = None, n: int = 3, work: float = 1.0) -> tuple[Pair, Any]:
    pair = Pair(np.arange(n, dtype=np.float32), jnp.ones(n, jnp.float32))
    found: tuple[Pair, Any] = program.for_work(work)(jax.random.key(0), pair, Plan() if plan is None else plan)
    return found


def test_a_kept_program_gives_the_same_numbers_without_tracing(directory: Path) -> None:
    traced: list[str] = []
    first, again = call(make(traced)), call(make(traced))
    assert traced == ["traced"]
    assert len(list(directory.iterdir())) == 1
    expected = make([])(jax.random.key(0), Pair(np.arange(3, dtype=np.float32), jnp.ones(3, jnp.float32)), Plan())
    for found in (first, again):
        assert isinstance(found[0], Pair)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)


def test_a_program_is_traced_once_for_each_shape_and_setting(directory: Path) -> None:
    traced: list[str] = []
    program = make(traced)
    for _ in range(2):
        call(program)
        call(program, n=4)
        call(program, Plan(damping=0.25))
    assert len(traced) == 3
    assert program.n_compiled == 3
    assert float(call(program, Plan(damping=0.25))[1]) == 0.75


def test_more_work_is_another_program_of_the_same_trace(directory: Path) -> None:
    traced: list[str] = []
    program = make(traced)
    call(program, work=1.0)
    call(program, work=_runtime.LITTLE_WORK)
    assert (len(traced), program.n_compiled) == (1, 2)
    call(program, work=_runtime.MUCH_WORK)  # compiled as JAX does, and not kept
    assert (len(traced), program.n_compiled) == (2, 3)


@pytest.mark.parametrize("harm", ["writable", "short", "changed", "empty"])
def test_a_file_that_may_be_wrong_is_not_used(directory: Path, harm: str) -> None:
    traced: list[str] = []
    call(make(traced))
    (path,) = directory.iterdir()
    content = path.read_bytes()
    changed = {"short": content[: len(content) // 2], "empty": b""}
    if harm == "writable":
        path.chmod(0o666)
    elif harm == "changed":
        with np.load(path) as kept:
            arrays = dict(kept)
        arrays["module"] = arrays["module"][::-1]
        with path.open("wb") as file:
            np.savez(file, **arrays)
    else:
        path.write_bytes(changed[harm])
    found = call(make(traced))
    assert len(traced) == 2
    np.testing.assert_allclose(found[0].first, [0.0, 2.0, 4.0])


def test_settings_that_are_code_of_others_are_not_kept(directory: Path) -> None:
    @dataclass(frozen=True)
    class Mine(RandomCells):
        """A masking of the user, whose text does not say what it does."""

    traced: list[str] = []
    call(make(traced), Plan(masking=Mine()))
    call(make(traced), Plan(masking=lambda key, evidence: evidence.observed))
    assert len(traced) == 2
    assert not directory.exists()


def test_nothing_is_kept_without_a_folder_of_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_runtime, "own_cache", lambda: None)
    traced: list[str] = []
    call(make(traced))
    call(make(traced))
    assert len(traced) == 2
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_does_not_matter(directory: Path) -> None:
    directory.write_text("a file where the folder should be")
    traced: list[str] = []
    assert float(call(make(traced))[1]) == 1.5
    assert traced


def test_after_clear_cache_the_function_is_traced_again(directory: Path) -> None:
    traced: list[str] = []
    program = make(traced)
    call(program)
    program.clear_cache()
    call(program)
    assert len(traced) == 2


def test_released_programs_are_loaded_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[str] = []
    program = make(traced)
    call(program)
    forget: Callable[[], None] = _runtime.ON_RELEASE[-1]
    forget()
    assert program.n_compiled == 0
    call(program)
    assert (len(traced), program.n_compiled) == (1, 1)
