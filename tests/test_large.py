"""Large tables: fitted by way of a sample and then to all rows, the same from files as in memory; queries in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import thurbo as tb
from thurbo import parts, tbm
from thurbo.fit import course, stream
from thurbo.table.io import scan as scanning

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
N = 350
SCHEMA = {name: tb.Binary(true=1) for name in ("a", "b", "c")} | {"n": tb.Continuous()}
QUICK: dict[str, Any] = {"random_state": 0, "verbose": False, "max_epochs": 2}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (tbm, "LARGE", 200),
        (tbm, "SAMPLE", 120),
        (scanning, "PIECE", 64),
        (stream, "SHARDS", 4),
        (stream, "POOL", 160),
        (parts, "ROWS", 64),
        (parts, "PIECE", 64),
        (parts, "PART", 128),
    ):
        monkeypatch.setattr(module, name, value)


def table(n: int = N) -> Any:
    rng = np.random.default_rng(0)
    z = rng.normal(size=n)
    columns = {name: (z + rng.normal(size=n) > 0).astype(np.int8) for name in ("a", "b", "c")}
    gone = rng.random(n) < 0.1
    return pa.table({**columns, "n": pa.array((10 + z + rng.normal(size=n)).round(2), mask=gone)})


def scanned(folder: Path, held: Any, rows: int = 90) -> Any:
    parquet.write_table(held, folder / "rows.parquet", row_group_size=rows)
    return tb.scan(folder)


def leaves(model: tb.TBM) -> list[np.ndarray]:
    return [np.asarray(leaf) for member in model.model_.members for leaf in jax.tree.leaves(member.params)]


def assert_same(one: tb.TBM, other: tb.TBM) -> None:
    for own, its in zip(leaves(one), leaves(other), strict=True):
        assert np.array_equal(own, its)


def test_a_scan_gives_the_parameters_of_the_table_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"members": 2, "learning": tb.Prediction(experts="none"), **QUICK}
    held = tb.TBM(SCHEMA, **settings).fit(table())
    monkeypatch.setattr(stream, "MOST_IN_MEMORY", 0)  # the rows are in a file
    again = tb.TBM(SCHEMA, **settings).fit(scanned(tmp_path, table()))
    assert_same(held, again)
    chance = [model.predict_proba(table(), "a") for model in (held, again)]
    assert np.array_equal(*chance)
    assert held._seen_rows.tolist() == again._seen_rows.tolist()
    assert len(again._seen_rows) > 200


@pytest.fixture(scope="module")
def single() -> tb.TBM:
    """A single model of a scan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tbm, "LARGE", 200)
        patch.setattr(stream, "SHARDS", 4)
        return tb.TBM(SCHEMA, n_hidden=2, **QUICK).fit(tb.scan(table()))


def test_all_rows_are_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held = table()
    seen = []
    whole = stream.WholeTable.read

    def read(self: stream.WholeTable, *rest: Any) -> None:
        whole(self, *rest)
        seen.append(self)

    monkeypatch.setattr(stream.WholeTable, "read", read)
    model = tb.TBM(SCHEMA, n_hidden=2, **QUICK).fit(tb.scan(held))
    (rows,) = seen
    pools = stream.Stream(replace(rows, batch=20), stream.RowReading("given", _data(rows, model)), 0, "marginalize")
    assert pools.n_pools > 1
    codes = np.concatenate([_codes(*pools._made(number)) for number in range(pools.n_pools)])
    wanted = np.stack([held.column(name).to_numpy() + 1 for name in ("a", "b", "c")], axis=1)
    assert sorted(map(tuple, codes.tolist())) == sorted(map(tuple, wanted.tolist()))
    assert [record["epoch"] for record in model.history_] == list(range(1, len(model.history_) + 1))


def _data(rows: stream.WholeTable, model: tb.TBM) -> Any:
    from thurbo.fit.fitting import Data
    from thurbo.latent import packing

    blocks = model.schema_.compile(rows.source.take(rows.sample))
    return Data(model.schema_, blocks, packing.pack(blocks.values(), "marginalize"), np.ones(len(rows.sample)))


def _codes(coded: Any, n_batches: int) -> np.ndarray:
    weight, small = np.asarray(coded.weight), np.asarray(coded.small)
    assert (weight[n_batches:] == 0).all()
    return small[weight > 0][:, :3]


def test_rows_of_no_weight_are_not_read(tmp_path: Path) -> None:
    held, weight = table(), np.ones(N)
    bad = held.set_column(0, "a", pa.array([7 if row % 5 == 0 else v for row, v in enumerate(held["a"].to_pylist())]))
    weight[::5] = 0
    schema = {**SCHEMA, "a": tb.Binary(values=(0, 1))}
    given = tb.TBM(schema, n_hidden=2, **QUICK).fit(tb.scan(bad), sample_weight=weight)
    own = bad.append_column("w", pa.array(weight))
    column = tb.TBM({**schema, "w": tb.Weight()}, n_hidden=2, **QUICK).fit(scanned(tmp_path, own))
    for model in (given, column):
        assert np.isfinite(model.weights_).all()
        assert model.schema_["a"].labels == (0, 1)


def test_an_interrupted_fit_is_resumed_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, path = tb.scan(table()), tmp_path / "state"
    whole = tb.TBM(SCHEMA, n_hidden=2, **QUICK).fit(rows)
    told: list[dict[str, Any]] = []

    @contextmanager
    def progress(*_: Any) -> Iterator[Any]:
        def on_epoch(record: dict[str, Any]) -> None:
            told.append(record)
            if record.get("stage") == "fitting to all rows":
                raise KeyboardInterrupt

        yield on_epoch

    with monkeypatch.context() as patch:
        patch.setattr(course, "progress", progress)
        with pytest.warns(tb.ConvergenceWarning, match="interrupted"):
            broken = tb.TBM(SCHEMA, n_hidden=2, checkpoint=path, **QUICK).fit(rows)
    assert np.isfinite(broken.weights_).all()
    assert not broken.converged_
    assert_same(tb.TBM(SCHEMA, n_hidden=2, checkpoint=path, **QUICK).fit(rows), whole)
    assert {"reading all rows", "fitting to all rows"} <= {record.get("stage") for record in told}


def test_learning_goes_on_with_a_scan(single: tb.TBM) -> None:
    rows = tb.scan(table())
    fresh = tb.TBM(SCHEMA, n_hidden=2, **QUICK).partial_fit(rows)
    before = leaves(fresh)
    after = leaves(fresh.partial_fit(rows))
    assert any((own != its).any() for own, its in zip(before, after, strict=True))
    assert all(np.isfinite(leaf[np.isfinite(leaf)]).all() for leaf in after)
    with pytest.raises(tb.ThurboError, match="cannot go on learning from a scan"):
        tb.TBM(SCHEMA, n_hidden=2, objective="likelihood", **QUICK).fit(table(50)).partial_fit(rows)


def test_a_label_that_does_not_fit_names_its_place(tmp_path: Path) -> None:
    held = table().set_column(0, "a", pa.array([5 if row == 340 else row % 2 for row in range(N)]))
    with pytest.raises(tb.SchemaError, match=r'row 70 of row group 3 of ".*rows.parquet", column "a": value 5'):
        tb.TBM({**SCHEMA, "a": tb.Binary(values=(0, 1))}, n_hidden=2, **QUICK).fit(scanned(tmp_path, held))
    kept = {**SCHEMA, "a": tb.Binary(values=(0, 1), unseen="missing")}
    assert tb.TBM(kept, n_hidden=2, **QUICK).fit(scanned(tmp_path, held)).schema_["a"].labels == (0, 1)


def test_small_scans_and_lists_are_read_as_a_whole() -> None:
    few = table(150)
    one, other = (tb.TBM(SCHEMA, n_hidden=2, **QUICK).fit(each) for each in (few, tb.scan(few)))
    assert_same(one, other)


QUERIES = {
    "transform": lambda model, rows, **more: model.transform(rows, **more),
    "proba": lambda model, rows, **more: model.predict_proba(rows, "b", **more),
    "every": lambda model, rows, **more: model.predict_proba(rows, **more),
    "interval": lambda model, rows, **more: model.predict_interval(rows, "n", **more),
    "score": lambda model, rows, **more: model.score_samples(rows, **more),
    "bounds": lambda model, rows, **more: model.score_samples(rows, return_bounds=True, **more),
}


@pytest.mark.parametrize("name", list(QUERIES))
def test_queries_in_pieces_answer_as_the_whole(
    name: str, single: tb.TBM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = QUERIES[name]
    rows = scanned(tmp_path, table())
    monkeypatch.setattr(parts, "ROWS", N)
    whole = np.atleast_2d(np.asarray(ask(single, table())))
    monkeypatch.setattr(parts, "ROWS", 64)
    in_pieces = np.atleast_2d(np.asarray(ask(single, table())))
    axis = 0 if name not in ("score", "bounds") else 1
    streamed = np.concatenate([np.atleast_2d(np.asarray(each)) for each in ask(single, rows)], axis=axis)
    assert np.abs(in_pieces - whole).max() < 1e-4
    assert np.array_equal(in_pieces, streamed)
    out = tmp_path / "out"
    assert ask(single, rows, out=out) == out
    assert sorted(path.name for path in out.iterdir()) == [f"part-{number:05d}.parquet" for number in range(3)]
    written = parquet.read_table(out)
    values = np.stack([column.to_numpy() for column in written.columns])
    assert np.array_equal(values, streamed.T if axis == 0 else streamed)
    one = ask(single, table(), out=tmp_path / "one.parquet")
    assert parquet.read_table(one).num_rows == N


def test_finished_parts_are_kept(single: tb.TBM, tmp_path: Path) -> None:
    rows, out = scanned(tmp_path, table()), tmp_path / "out"
    single.transform(rows, out=out)
    times = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    (out / "part-00001.parquet").unlink()
    single.transform(rows, out=out)
    kept = {path.name for path in out.iterdir() if path.stat().st_mtime_ns == times[path.name]}
    assert kept == {"part-00000.parquet", "part-00002.parquet"}
    with pytest.raises(tb.ThurboError, match="of another model, question or table"):
        single.transform(rows, "log_odds", out=out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(tb.ThurboError, match=r"notes\.txt"):
        single.transform(rows, out=out)
    with pytest.raises(tb.ThurboError, match="it is a file"):
        single.transform(rows, out=out / "notes.txt")


def test_imputing_in_pieces_fills_as_the_whole(single: tb.TBM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scanned(tmp_path, table())
    in_pieces = single.impute(table(), flag=True)
    monkeypatch.setattr(parts, "ROWS", N)
    whole = single.impute(table(), flag=True)
    assert in_pieces.drop_columns(["n", "n_margin"]).equals(whole.drop_columns(["n", "n_margin"]))
    assert np.allclose(in_pieces["n"].to_numpy(), whole["n"].to_numpy(), atol=0.011)
    written = parquet.read_table(single.impute(rows, out=tmp_path / "out"))
    assert written.equals(in_pieces.select(written.column_names))
    means = parquet.read_table(single.predict(rows, statistic="mean", out=tmp_path / "means.parquet"))
    assert str(means.schema.field("n").type) == "double"


def test_a_bad_cell_of_a_query_names_its_place(single: tb.TBM, tmp_path: Path) -> None:
    held = table().set_column(0, "a", pa.array([5 if row == 340 else 1 for row in range(N)]))
    with pytest.raises(tb.SchemaError, match=r"row 70 of row group 3"):
        single.transform(scanned(tmp_path, held), out=tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["part-00000.parquet", "part-00001.parquet"]


def test_accuracy_of_a_scan_is_that_of_random_rows(single: tb.TBM) -> None:
    assert single.evaluate(tb.scan(table()), random_state=0, logistic=False).overall["n_cells"] > 0
    with pytest.raises(tb.ThurboError, match="Weight column"):
        single.evaluate(tb.scan(table()), sample_weight=np.ones(N))
    with pytest.raises(tb.SchemaError, match="fit in memory"):
        single.segments(tb.scan(table()))


def test_commands_read_folders_and_write_parts(
    single: tb.TBM, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from thurbo.app import cli

    def run(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main([str(each) for each in arguments])
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, captured.out + captured.err

    model, data, out = (tmp_path / name for name in ("m.thurbo", "data", "out"))
    out.mkdir()
    data.mkdir()
    single.save(model)
    rows = scanned(data, table())
    for command, more in (("transform", ()), ("score", ()), ("impute", ("--flag",)), ("predict", ("--column", "a"))):
        assert run(command, model, data, *more, "-o", out / command)[0] == 0
        assert parquet.read_table(out / command).num_rows == N
    hidden = parquet.read_table(out / "transform")
    assert np.array_equal(hidden["hidden0"].to_numpy(), np.concatenate(list(single.transform(rows)))[:, 0])
    assert run("predict", model, data, "--column", "n", "-o", tmp_path / "n.parquet")[0] == 0
    assert parquet.read_table(tmp_path / "n.parquet").column_names == ["n", "n lower", "n upper"]
    status, said = run("transform", model, data, "-o", tmp_path / "out.csv")
    assert status == 2
    assert "-o results/" in said
    status, said = run("check", data)
    assert status == 0
    assert "of 350; checked: all of them" in said
    assert run("fit", data, "--hidden", 2, "--epochs", 1, "-o", model)[0] == 0
    bad = table().set_column(0, "a", pa.array([5 if row == 340 else 1 for row in range(N)]))
    scanned(data, bad)
    status, said = run("transform", model, data, "-o", tmp_path / "bad")
    assert status == 2
    assert "row 70 of row group 3" in said
