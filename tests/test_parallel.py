"""Several devices and several processes give the parameters of one, whatever rows each of them has."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from sklearn.base import clone

import thurbo as tb
from tests import on_devices
from thurbo import parallel, tbm
from thurbo.fit import stream
from thurbo.fit.fitting import Data
from thurbo.latent import packing
from thurbo.table.io import scan as scanning
from thurbo.table.io.frames import as_table
from thurbo.table.io.scan import TableSource

parquet = pytest.importorskip("pyarrow.parquet")
ROUNDING = 1e-4  # of parameters of size one, after a few updates in single precision
COMMAND = [sys.executable, "-m", "tests.on_devices"]


def run(*arguments: object) -> subprocess.Popen:
    return subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen, seconds: float = 240) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def differences(*cases: str) -> dict[str, float]:
    status, out, err = ended(run("devices", *cases))
    assert status == 0, err
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def test_eight_devices_give_the_parameters_of_one() -> None:
    found = differences("large:8")
    assert max(found.values()) < ROUNDING, found


@pytest.mark.slow
def test_chains_lists_and_members_on_several_devices_too() -> None:
    found = differences("mixed:3", "chains:8", "lists:8", "members:8", "uneven:3", "uneven:8", "large members:8")
    assert max(found.values()) < ROUNDING, found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet.write_table(on_devices.table(), tmp_path / "rows.parquet", row_group_size=90)
    return tmp_path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def processes(folder: Path, of: int, end: int = 0) -> list[tuple[int, str, str]]:
    port = free_port()
    every = [run("process", folder, port, number, of, *([end] if number == of - 1 else [])) for number in range(of)]
    return [ended(each) for each in every]


def kept(folder: Path, number: int = 0) -> list[np.ndarray]:
    with np.load(folder / f"fitted-{number}.npz") as held:
        return [held[name] for name in sorted(held)]


def in_one_process(folder: Path) -> list[np.ndarray]:
    assert [status for status, *_ in processes(folder, 1)] == [0]
    return kept(folder)


@pytest.mark.slow
def test_two_processes_give_the_parameters_of_one(folder: Path) -> None:
    wanted = in_one_process(folder)
    (folder / "m0.thurbo").unlink()
    found = processes(folder, 2)
    assert [status for status, *_ in found] == [0, 0], found
    one, other = kept(folder, 0), kept(folder, 1)
    assert on_devices.apart(one, other) == 0
    assert on_devices.apart(one, wanted) < ROUNDING
    assert (folder / "m0.thurbo").exists()
    assert not (folder / "m1.thurbo").exists()  # only the first process writes


@pytest.mark.slow
def test_a_fit_that_lost_a_process_resumes_with_one(folder: Path) -> None:
    (folder / "with-checkpoint").touch()
    wanted = in_one_process(folder)
    for path in folder.glob("state*"):
        path.unlink()
    (status, _, said), (killed, *_) = processes(folder, 2, end=3)
    assert killed < 0
    assert status == 2
    assert said.splitlines()[-1].startswith("another process of this fit has ended")
    assert len(list(folder.glob("state*"))) >= 3  # of two members on the sample, and of all rows
    times = {path.name: path.stat().st_mtime_ns for path in folder.glob("state*")}
    assert on_devices.apart(in_one_process(folder), wanted) < ROUNDING
    unchanged = [name for name, time in times.items() if (folder / name).stat().st_mtime_ns == time]
    assert "state" in unchanged  # the sample was not fitted again


@pytest.mark.slow
def test_a_cell_that_one_process_cannot_read_ends_all(folder: Path, small: None) -> None:
    held, seed = on_devices.table(), int(np.random.RandomState(0).randint(2**31 - 1))
    row = max(set(range(on_devices.N)) - set(tb.scan(folder).draw(120, seed).tolist()))  # the last not in the sample
    trust = held.column("trust").to_pylist()
    bad = held.set_column(1, "trust", [[*trust[:row], 9.0, *trust[row + 1 :]]])
    parquet.write_table(bad, folder / "rows.parquet", row_group_size=90)
    every = processes(folder, 2)
    assert [status for status, *_ in every] == [2, 2]
    place = f'row {row - 270} of row group 3 of ".*", column "trust": '
    assert re.search(f"process 1: {place}", every[0][2])
    assert re.search(f"(?<!: ){place}", every[1][2])


@pytest.mark.slow
def test_the_command_line_fits_in_two_processes(tmp_path: Path) -> None:
    tb.write(on_devices.table(150), tmp_path / "rows.csv")
    command = [sys.executable, "-c", "from thurbo.app.cli import main; main()", "fit", str(tmp_path / "rows.csv")]
    options = ["--hidden", "2", "--epochs", "2", "--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2"]
    every = []
    for number in range(2):
        own = [*options, "--distributed", "--process", str(number), "-o", str(tmp_path / f"m{number}.thurbo")]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        every.append(subprocess.Popen([*command, *own], **pipes))
    (status, out, err), (other, silent, _) = map(ended, every)
    assert (status, other) == (0, 0), err
    assert "rows        150" in out
    assert "rows" not in silent
    assert tb.TBM.load(tmp_path / "m0.thurbo").n_epochs_ == 2
    assert not (tmp_path / "m1.thurbo").exists()


def test_options_of_processes_belong_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from thurbo.app import cli

    with pytest.raises(SystemExit) as stop:
        cli.main(["fit", "rows.csv", "-o", str(tmp_path / "m.thurbo"), "--processes", "2"])
    assert stop.value.code == 2
    assert "give that, too" in capsys.readouterr().err


class Part(parallel.Devices):
    """One of several processes, without the others."""

    def __init__(self, number: int, of: int) -> None:
        super().__init__(jax.devices()[:1])
        self.number, self.of = number, of

    def own_rows(self, n_rows: int) -> tuple[int, int]:
        each = -(-n_rows // self.of)
        return self.number * each, (self.number + 1) * each

    def everywhere(self, tree: Any) -> Any:
        return tree

    def batches(self, tree: Any, n_rows: int) -> Any:
        return tree


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, values in on_devices.SMALL.items():
        for constant, value in values.items():
            monkeypatch.setattr({"tbm": tbm, "table.io.scan": scanning, "fit.stream": stream}[name], constant, value)


def read(part: Any, batch: int) -> tuple[stream.WholeTable, stream.Stream]:
    """All rows, or those of one part, encoded."""
    held = as_table(on_devices.table())
    schema = tb.Schema(on_devices.MIXED).fit(held)
    blocks = schema.compile(held)
    data = Data(schema, blocks, packing.pack(blocks.values(), "marginalize"), np.ones(held.n_rows))
    whole = stream.WholeTable(TableSource(held), np.arange(held.n_rows), devices=part, batch=batch)
    reading = stream.RowReading("given", data)
    for column, codec in reading.codecs.items():
        codec.encode(blocks[column])  # so that patterns have the same numbers in all parts
    whole.read([reading], {})
    return whole, stream.Stream(whole, reading, 0, "marginalize")


@pytest.mark.parametrize("of", [2, 3, 7])
def test_parts_have_the_rows_of_the_whole(of: int, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream.WholeTable, "scale", 1.0)  # the mean over all parts
    whole, one = read(parallel.Devices(), 20)
    parts = [read(Part(number, of), 20) for number in range(of)]
    assert sum(part.content for part, _ in parts) % 2**64 == whole.content
    assert set().union(*(part.seen.tolist() for part, _ in parts)) == set(whole.seen.tolist())
    for pool in range(one.n_pools):
        wanted, n_batches = one._made(pool)
        made = [each._made(pool) for _, each in parts]
        assert [number for _, number in made] == [n_batches] * of
        for name in wanted._fields:
            own = np.concatenate([np.asarray(getattr(coded, name)) for coded, _ in made], axis=1)
            n_rows = wanted.weight.shape[1]
            assert np.array_equal(own[:, :n_rows], np.asarray(getattr(wanted, name)), equal_nan=own.dtype.kind == "f")
        assert not own[:, n_rows:].any()  # padding has no weight


def test_the_sample_of_parts_is_that_of_the_whole(folder: Path, small: None) -> None:
    source = tb.scan(folder)
    for allowed in (None, np.arange(source.n_rows) % 4 > 0):
        index = source.draw(50, 3, allowed)
        ends = source.n_rows * np.arange(4) // 3
        parts = [source.drawn_part(50, 3, allowed, ends[k], ends[k + 1]) for k in range(3)]
        found, rows = source.drawn_of(parts, 50, 3, allowed)
        assert np.array_equal(found, index)
        assert rows.native.equals(source.take(index).native)
        assert np.array_equal(rows.rows, index)


def test_patterns_of_several_processes_get_one_number() -> None:
    schema = tb.Schema({"n": tb.Continuous()}).fit(as_table({"n": np.arange(5.0)}))
    codecs, packed, blocks = [], [], []
    for values in ([1.0, 2.0, 5.0], [5.0, 3.0, 1.0]):
        blocks.append(schema.compile({"n": np.asarray(values)})["n"])
        codecs.append(stream.Codec(blocks[-1]))
        packed.append(codecs[-1].encode(blocks[-1])["code"])
    every = [json.loads(json.dumps(codec.patterns)) for codec in codecs]
    for codec, code, block in zip(codecs, packed, blocks, strict=True):
        codec.agree(every)
        assert codec.patterns == codecs[0].patterns
        assert codec.numbers is not None
        own = codec.block(codec.n_patterns).rows(codec.numbers[code[:, 0]])
        assert np.array_equal(own.lower, np.asarray(block.lower, np.float32))


def test_devices_are_a_setting_like_others(tmp_path: Path) -> None:
    model = tb.TBM({"a": tb.Binary()}, n_hidden=1, max_epochs=0, learning=tb.Prediction(devices=1), random_state=0)
    model.fit({"a": [0, 1, 1]}).save(tmp_path / "m.thurbo")
    for each in (clone(model), tb.TBM.load(tmp_path / "m.thurbo")):
        assert each.get_params()["learning__devices"] == 1
    for wrong in (0, "all", 2.5, True):
        with pytest.raises(tb.ThurboError, match=f"devices={wrong!r} is not a whole number"):
            model.set_params(learning__devices=wrong).fit({"a": [0, 1, 1]})
    most = jax.local_device_count()
    with pytest.raises(
        tb.ThurboError, match=f"devices={most + 1}, and JAX has {most} of kind cpu.*jax_num_cpu_devices"
    ):
        model.set_params(learning__devices=most + 1).fit({"a": [0, 1, 1]})
    assert len(parallel.chosen("auto")) == 0  # on a CPU


def test_one_process_agrees_with_itself() -> None:
    assert parallel.told({"a": 1}) == [{"a": 1}]
    assert parallel.exchanged(b"a") == [b"a"]
    assert parallel.is_first()
    with pytest.raises(tb.SchemaError, match="bad"), parallel.together():
        raise tb.SchemaError("bad")
    with pytest.raises(tb.ThurboError, match=r"cannot join the other processes: .*; call tb\.distributed"):
        tb.distributed.initialize("127.0.0.1:1", 2, 0)  # JAX has computed something
