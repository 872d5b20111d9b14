"""The benchmark of epochs beside other libraries: what goes between the processes, and what one update computes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import epochs

from thurbo.fit import trainer

N_ROWS, N_COLUMNS, N_HIDDEN, BATCH = 21, 6, 5, 8
GIVEN = {"n_hidden": N_HIDDEN, "batch": BATCH, "threads": 1}


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """thurbo's own script, as a module."""
    monkeypatch.syspath_prepend(str(epochs.SCRIPTS))
    yield import_module("epochs_thurbo")
    for name in ("epochs_thurbo", "epochs_worker"):
        sys.modules.pop(name, None)


@pytest.fixture
def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.random((N_ROWS, N_COLUMNS)) < rng.uniform(0.2, 0.8, N_COLUMNS)


def _method(folder: Path, text: str) -> epochs.Method:
    script = folder / "script.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(epochs.SCRIPTS)!r})\n{text}")
    return epochs.Method(str(script), "update", 1)


def test_a_worker_runs_an_epoch_for_every_line_and_what_it_prints_is_no_answer(tmp_path: Path, table: np.ndarray):
    method = _method(
        tmp_path,
        "from epochs_worker import claim_output, read, serve\n"
        "answers, task = claim_output(), read()\n"
        "assert task.table.sum() and (task.n_hidden, task.batch, task.threads, task.how) == (5, 8, 1, 'update')\n"
        "serve(answers, lambda: print('chatter'), {'library': '1.0'})\n",
    )
    np.save(tmp_path / "table.npy", table)
    worker = epochs.Worker(method, tmp_path / "table.npy", GIVEN, tmp_path)
    found = epochs.alternate({"thurbo": worker}, 2)
    worker.close()
    assert worker.versions == {"library": "1.0"}
    assert worker.process.returncode == 0
    assert {unit: len(values) for unit, values in found["thurbo"].items()} == {"wall": 2, "cpu": 2}
    assert all(value >= 0 for values in found["thurbo"].values() for value in values)


def test_a_library_that_fails_is_no_silent_gap(tmp_path: Path):
    method = _method(tmp_path, "raise ValueError('no such thing')")
    with pytest.raises(RuntimeError, match="no such thing"):
        epochs.Worker(method, tmp_path / "table.npy", GIVEN, tmp_path)


def test_scikit_learn_runs_and_absent_libraries_are_left_out(tmp_path: Path, table: np.ndarray):
    methods = {name: epochs.EQUAL[name] for name in ("BernoulliRBM", "learnergy", "rbms")}
    case = epochs.Case("tiny", lambda: table, N_HIDDEN, BATCH, 10, methods)
    with epochs.workers(case, 1, tmp_path) as ready:
        times = epochs.alternate(ready, 2)
        assert set(ready["BernoulliRBM"].versions) == {"scikit-learn", "numpy"}
    assert set(times) == {"BernoulliRBM"}
    assert ready["BernoulliRBM"].process.returncode == 0


def test_ratios_are_those_of_the_same_round():
    times = {"thurbo": {"wall": [1.0, 2.0, 4.0]}, "other": {"wall": [3.0, 2.0, 8.0]}}
    found = epochs.summary(times, {"thurbo": 9.0, "other": 5.0})
    assert found["other"]["wall_over_thurbo"] == [2.0, 1.0, 3.0]  # median, least, most
    assert found["other"]["wall"] == [3.0, 2.0, 8.0]
    assert found["thurbo"]["first_wall"] == 9.0


def test_report_names_every_method(capsys: pytest.CaptureFixture[str], table: np.ndarray):
    case = epochs.Case("tiny", lambda: table, N_HIDDEN, BATCH, 10, epochs.EQUAL)
    times = {name: {"wall": [1.0, 2.0], "cpu": [0.5, 0.5]} for name in epochs.EQUAL}
    epochs.report(case, epochs.summary(times, dict.fromkeys(times, 1.0)))
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(epochs.EQUAL)
    assert [int(line.split()[-1]) for line in lines] == [6, 5, 7, 6]


def test_a_movie_is_liked_from_four_stars():
    long = np.array([[0, 1, 4], [0, 0, 3], [2, 2, 5]])
    np.testing.assert_array_equal(epochs.liked(long), [[0, 1, 0], [0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("how", ["update", "default"])
def test_our_epochs_learn(ours: ModuleType, table: np.ndarray, how: str, tmp_path: Path):
    epoch = ours.of_table(ours.Task(table, N_HIDDEN, BATCH, 1, how, tmp_path))
    before = np.asarray(epoch.state.learnable.weights)
    epoch()
    after = np.asarray(epoch.state.learnable.weights)
    assert np.isfinite(after).all()
    assert (before != after).any(axis=0).all()
    assert int(epoch.state.step) == -(-N_ROWS // (BATCH if how == "update" else N_ROWS))


def test_our_lists_run(ours: ModuleType, tmp_path: Path):
    rng = np.random.default_rng(1)
    long = np.array([[user, item, rng.integers(1, 6)] for user in range(8) for item in rng.permutation(5)[:3]])
    epoch = ours.of_lists(ours.Task(long, 0, 0, 1, "lists", tmp_path))
    epoch()
    assert np.isfinite(np.asarray(epoch.state.learnable.loadings)).all()
    assert int(epoch.state.step) >= 1


@pytest.mark.parametrize(("how", "name"), [("update", "thurbo")])
def test_products_of_an_update(ours: ModuleType, table: np.ndarray, how: str, name: str, tmp_path: Path):
    """Products of [row, column], [row, unit] and [column, unit] arrays, without those that complete rows skip."""
    own = ours.of_table(ours.Task(table, N_HIDDEN, BATCH, 1, how, tmp_path))
    batch, weight = own.data.evidence.buckets[0].rows(np.arange(BATCH)), own.weight[:BATCH]
    update = jax.jit(partial(trainer.update, plan=own.plan))
    chains = own.state.rows.at(jnp.arange(BATCH))
    program = update.lower(
        jax.random.key(0), own.state, batch, weight, own.layout, own.rate, own.rate, rows=chains
    ).compile()
    skipped = "/cond/branch_1_fun"  # where a cell is missing
    assert _products(program.as_text(), skipped) == (epochs.EQUAL | epochs.MORE)[name].products


def _products(program: str, skipped: str) -> float:
    """Multiplications of a compiled program's products, over those of rows × columns × units; without vectors."""
    shapes = dict(re.findall(r"%(\S+) = f32\[(\d+,\d+)\]", program))
    shapes |= dict(re.findall(r"(param\S*): f32\[(\d+,\d+)\]", program))
    found, whole = 0.0, BATCH * N_COLUMNS * N_HIDDEN
    for line in program.splitlines():
        parts = re.search(r"= f32\[(\d+),(\d+)\]\S* dot\(%([^,]+), .*lhs_contracting_dims=\{(\d)\}", line)
        if parts is None or re.search(skipped, line):
            continue
        inner = int(shapes[parts[3]].split(",")[int(parts[4])])
        size = int(parts[1]) * int(parts[2]) * inner
        found += size / whole if min(int(parts[1]), int(parts[2]), inner) > 1 else 0.0
    return found


def test_the_last_line_is_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: np.ndarray):
    case = epochs.Case("tiny", lambda: table, N_HIDDEN, BATCH, 10, {"thurbo": epochs.EQUAL["BernoulliRBM"]})
    monkeypatch.setattr(epochs, "CASES", {"tiny": case})
    monkeypatch.setattr(sys, "argv", ["epochs", "--quick", "--only", "tiny", "--repeats", "2", "--threads", "1"])
    monkeypatch.setattr(epochs, "use_cores", lambda threads: threads)
    epochs.main()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["cases"]["tiny"]["methods"]["thurbo"]["wall_over_thurbo"] == [1.0, 1.0, 1.0]
    assert last["cases"]["tiny"]["absent"] == []
