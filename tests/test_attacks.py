"""What an attacker found: far numbers, interrupts, forged models, absurd sizes, full disks and formulas."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.test_cli import run
from thurbo.errors import NotTrusted, SchemaError, SchemaWarning, ThurboError
from thurbo.fit import course, trainer
from thurbo.table.columns.cells import Block
from thurbo.table.io import files
from thurbo.table.schema.units import FARTHEST, warn_of_swamped_columns

rng = np.random.default_rng(0)
N = 30
TABLE = {
    "age": rng.normal(40, 10, N).round(1),
    "news": [["radio;TV", "TV", "", "radio"][i % 4] for i in range(N)],
    "trust": [["low", "mid", "high"][i % 3] for i in range(N)],
}
SCHEMA = {"age": tb.Continuous(), "news": tb.MultiSelect(), "trust": tb.Ordinal(["low", "mid", "high"])}


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return tb.TBM(SCHEMA, n_hidden=2, n_factors=0, max_epochs=2, random_state=0).fit(TABLE)


# ---- numbers that overflow single precision


def _row(age: Any) -> dict[str, list[Any]]:
    return {"age": [40.0, age], "news": ["TV", "TV"], "trust": [None, None]}


@pytest.mark.parametrize("age", [1e8, 1e20, -1e20, 1.7e308, tb.between(1e19, 1e20), tb.at_most(-1e30)])
def test_a_far_number_gives_finite_answers_and_a_warning(model: tb.TBM, age: Any) -> None:
    with pytest.warns(SchemaWarning, match='row 1, column "age": the number is more than 1,000 standard deviations'):
        features = model.transform(_row(age))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        chances, scores = model.predict_proba(_row(age), "trust"), model.score_samples(_row(age))
        filled = model.impute(_row(age))
    for found in (features, chances, scores):
        assert np.isfinite(found).all()
    assert np.allclose(chances.sum(axis=1), 1)
    assert filled["age"][1] == age  # the cell itself does not change
    # Posteriors go with the number: they do not fall back to 0.5.
    moved = features[1] - model.transform(_row(None))[1]
    assert (moved * np.sign(model.weights_[0]) * np.sign(_end(age)) > 0).all()


def _end(age: Any) -> float:
    return age if isinstance(age, float) else (age.upper if age.lower is None else age.lower)


def test_a_far_condition_is_warned_about_without_a_row(model: tb.TBM) -> None:
    with pytest.warns(SchemaWarning, match='^column "age": the number is more than'):
        found = model.predict_proba(_row(None), "trust", given="age = 1e20")
    assert np.isfinite(found).all()


def test_several_far_numbers_are_counted(model: tb.TBM) -> None:
    with pytest.warns(SchemaWarning, match=r"the number \(and 2 more in this column\) is"):
        model.schema_.compile({"age": [1e20, 40.0, 1e21, -1e22], "news": [None] * 4, "trust": [None] * 4})


def test_near_numbers_stay_as_they_are() -> None:
    block = Block(("",), np.array([[-np.inf], [999.0], [-5.0]]), np.array([[3.0], [999.0], [1e11]]), *_rest(3))
    same, changed = block.within(FARTHEST)
    assert same is block
    assert not changed.any()


def test_an_end_beyond_all_numbers_is_open() -> None:
    lower, upper = np.array([[-1e20], [1e19], [0.0]]), np.array([[0.0], [1e20], [1e13]])
    near, changed = Block(("",), lower, upper, *_rest(3, points=())).within(FARTHEST)
    assert near.lower[:, 0].tolist() == [-np.inf, FARTHEST, 0.0]
    assert near.upper[:, 0].tolist() == [0.0, np.inf, np.inf]
    assert changed.tolist() == [False, True, False]


def _rest(n: int, points: tuple[int, ...] = (1,)) -> tuple[Any, ...]:
    point = np.zeros((n, 1), bool)
    point[list(points)] = True
    return point, np.full((n, 1), -1, np.int32), 0, np.zeros(n)


def test_one_number_that_hides_all_others_is_named() -> None:
    def warned(numbers: list[float]) -> list[str]:
        table = tb.Schema({"age": tb.Continuous()}).fit({"age": numbers})
        from thurbo.table.io.frames import as_table

        source = as_table({"age": numbers})
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warn_of_swamped_columns(source, table.compile(source), source.rows)
        return [str(each.message) for each in found]

    assert 'row 3, column "age"' in warned([20.0, 30.0, 40.0, 1e20, 50.0])[0]
    assert 'row 3, column "age"' in warned([20.0, 30.0, 40.0, 1e8, 50.0])[0]
    assert warned([20.0, 30.0, 40.0, 1e4, 50.0]) == []
    assert warned([0.0] * 200 + [1.0]) == []  # rare, but nothing is hidden


# ---- interrupts


def _interrupted_after(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    @contextmanager
    def progress(*_: Any) -> Iterator[Callable[[dict[str, Any]], None]]:
        yield lambda record: seen.append(int(record["epoch"]))

    def epoch(*arguments: Any) -> Any:
        if len(seen) == n:
            raise KeyboardInterrupt
        return trainer.epoch(*arguments)

    monkeypatch.setattr(course, "progress", progress)
    monkeypatch.setattr(course, "epoch", epoch)


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    path = tmp_path / "survey.csv"
    pd.DataFrame(TABLE).to_csv(path, index=False)
    return path


def test_an_interrupted_fit_ends_with_130_and_can_be_resumed(
    survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "m.thurbo"
    command = ("fit", str(survey), "-o", str(output), "--hidden", "2", "--epochs", "4", "--quiet")
    with monkeypatch.context() as patch:
        _interrupted_after(2, patch)
        status, out, err = run(*command, capsys=capsys)
    assert (status, out) == (130, "")
    state = tmp_path / "m.thurbo.checkpoint"
    assert err == (
        f"thurbo: interrupted after 2 epochs; {output} was not written. The state of training is in {state}: "
        "give the same command with --resume to continue from it\n"
    )
    assert not output.exists()
    status, *_ = run(*command, "--resume", capsys=capsys)
    assert status == 0
    assert not state.exists()
    resumed = tb.TBM.load(output)
    assert resumed.n_epochs_ == 4
    status, *_ = run(*command, capsys=capsys)  # without a break
    assert status == 0
    np.testing.assert_array_equal(resumed.weights_, tb.TBM.load(output).weights_)


def test_an_interrupt_before_the_first_epoch_leaves_nothing(
    survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _interrupted_after(0, monkeypatch)
    output = tmp_path / "m.thurbo"
    status, _, err = run("fit", str(survey), "-o", str(output), "--hidden", "2", "--quiet", capsys=capsys)
    assert status == 130
    assert "nothing to continue from" in err
    assert sorted(tmp_path.iterdir()) == [survey]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [["--hidden", "2"], []], ids=["one member", "several members"])
def test_a_signal_ends_the_command(survey: Path, tmp_path: Path, chosen: list[str]) -> None:
    code = "from thurbo.app.cli import main; main()"
    state = tmp_path / "state"
    header, *rows = survey.read_text().splitlines()
    survey.write_text("\n".join([header, *rows * (1 + 240 // len(rows))]) + "\n")  # enough for several members
    options = [*chosen, "--epochs", "1000000", "--checkpoint", str(state)]
    command = [sys.executable, "-c", code, "fit", str(survey), "-o", str(tmp_path / "m.thurbo"), *options]
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(1200):
        if state.exists():
            break
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 130
    assert f"The state of training is in {state}: give the same command to continue" in err


# ---- model files


def _forge(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    arrays, description = files.load(path)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays, description)
    files.save(path, arrays, description)  # with a checksum that is right


def _put(name: str, place: Any, value: float) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda arrays, _: arrays[name].__setitem__(place, value)


def _describe(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda _, description: description.__setitem__(name, value)


def _age(setting: str, value: float) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda _, description: description["schema"]["columns"]["age"].__setitem__(setting, value)


FORGED = {
    "NaN weight": (_put("weights", (0, 0), np.nan), "weights has numbers that are not finite"),
    "infinite bias": (_put("hidden_bias", 0, np.inf), "hidden_bias has numbers that are not finite"),
    "NaN cut": (_put("cuts", (-1, 0), np.nan), "cuts has numbers that are not finite"),
    "NaN beyond the cuts": (_put("cuts", (0, 0), np.nan), "do not increase"),
    "decreasing cuts": (_put("cuts", (-1, 1), -50.0), "the cuts between levels do not increase"),
    "scale 0": (_put("scale", 0, 0.0), "a scale is not positive"),
    "negative scale": (_put("scale", 0, -1.0), "a scale is not positive"),
    "probability 2": (_put("hidden_mean", 0, 2.0), "no probabilities"),
    "no schema": (_describe("schema", None), "the schema has no columns"),
    "schema of text": (_describe("schema", "x"), "the schema has no columns"),
    "settings null": (_describe("settings", None), "does not hold a model"),
    "history of text": (_describe("history", "long"), "history is 'long'"),
    "history of numbers": (_describe("history", [1]), "not a list of records"),
    "converged maybe": (_describe("converged", "maybe"), "converged is 'maybe'"),
    "location NaN": (_age("location", float("nan")), "location=nan is not a finite number"),
    "scale infinite": (_age("scale", float("inf")), "scale=inf is not a positive number"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_models_are_refused(model: tb.TBM, tmp_path: Path, case: str) -> None:
    path = tmp_path / "m.thurbo"
    model.save(path)
    change, words = FORGED[case]
    _forge(path, change)
    with pytest.raises(NotTrusted, match=words):
        tb.TBM.load(path)


def test_a_description_that_is_no_json_is_refused(model: tb.TBM, tmp_path: Path, monkeypatch: Any) -> None:
    path, dumps = tmp_path / "m.thurbo", json.dumps
    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", lambda value, **how: "{" if "settings" in value else dumps(value, **how))
        model.save(path)
    with pytest.raises(NotTrusted, match="cannot be read"):
        tb.TBM.load(path)


def test_a_true_model_loads_with_its_cuts(model: tb.TBM, tmp_path: Path) -> None:
    path = tmp_path / "m.thurbo"
    model.save(path)
    same = tb.TBM.load(path)
    assert same.cuts_["news"].shape == (2, 1)  # one for each option
    for name, cuts in model.cuts_.items():
        np.testing.assert_array_equal(same.cuts_[name], cuts)


# ---- sizes


@pytest.mark.parametrize(("name", "value"), [("n_hidden", 99_999_999), ("n_factors", 10**6)])
def test_sizes_that_fill_the_memory_are_refused(name: str, value: int) -> None:
    with pytest.raises(ThurboError, match=rf"{name}={value} is more than .* GB of memory"):
        tb.TBM(SCHEMA, **{name: value}).fit(TABLE)  # type: ignore[arg-type]


def test_the_command_refuses_them_too(survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run("fit", str(survey), "-o", str(tmp_path / "m"), "--hidden", "99999999", "-q", capsys=capsys)
    assert status == 2
    assert "GB of memory" in err


# ---- files


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit of file sizes")
def test_a_full_disk_is_called_that(tmp_path: Path) -> None:
    code = f"""
import resource, signal
import numpy as np, pandas as pd, thurbo as tb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
frame = pd.DataFrame({{"a": np.random.default_rng(0).normal(size=20_000)}})
tb.write(frame.head(), {str(tmp_path / "small.sav")!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for kind in ("sav", "zsav", "dta"):
    try:
        tb.write(frame, {str(tmp_path)!r} + "/a." + kind)
    except tb.ThurboError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the disk is full") == 3
    assert "rename" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["small.sav"]


def test_formulas_are_escaped_if_asked_for(tmp_path: Path) -> None:
    texts = ["=1+1", "+x", "-x", "@x", "\tx", "-5", "+3.5", "-1,000", "x=1", "", None]
    frame = pd.DataFrame({"=a": texts, "n": np.arange(-5, 6), "c": pd.Categorical([f"={i}" for i in range(11)])})
    frame["list"] = [["=a", "b"]] * 11
    path = tmp_path / "t.csv"
    tb.write(frame, path)
    kept = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert kept["=a"].tolist()[:10] == texts[:10]  # off by default: nothing changes
    tb.write(frame, path, formulas="escape")
    found = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert found["'=a"].tolist()[:10] == ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "-5", "+3.5", "-1,000", "x=1", ""]
    assert found["n"].tolist() == [str(i) for i in range(-5, 6)]
    assert found["c"].tolist() == [f"'={i}" for i in range(11)]
    assert found["list"][0] == "'=a; b"
    tb.write(frame.drop(columns="list"), tmp_path / "t.parquet", formulas="escape")
    assert pd.read_parquet(tmp_path / "t.parquet")["=a"][0] == "=1+1"
    with pytest.raises(ThurboError, match="formulas='all' is not one of"):
        tb.write(frame, path, formulas="all")  # type: ignore[arg-type]


def test_the_command_line_escapes(model: tb.TBM, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({**TABLE, "trust": [None] * N, "comment": ["=cmd()"] * N})
    model.save(tmp_path / "m")
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ("impute", str(tmp_path / "m"), str(tmp_path / "t.csv"), "-o", str(tmp_path / "o.csv"), "-q")
    assert run(*command, capsys=capsys)[0] == 0
    assert pd.read_csv(tmp_path / "o.csv")["comment"][0] == "=cmd()"
    assert run(*command, "--escape-formulas", capsys=capsys)[0] == 0
    assert pd.read_csv(tmp_path / "o.csv")["comment"][0] == "'=cmd()"


# ---- conditions


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("trust == low", "the condition \"trust == low\" has two signs =; use one: 'trust = low'"),
        ("trust = hihg", 'did you mean "high"? use one of "low", "mid", "high"'),
        ("news = web", 'use one of "TV", "radio"'),
        ("age = old", "give a number"),
        ({"trust": 7}, 'use one of "low", "mid", "high"'),
    ],
)
def test_a_wrong_condition_says_what_is_right(model: tb.TBM, given: Any, words: str) -> None:
    with pytest.raises(SchemaError) as refused:
        model.inequalities(_row(None), 0, given=given)
    assert words in str(refused.value)
    assert "correct the cell" not in str(refused.value)


# ---- lists of items

LONG = pd.DataFrame(
    [(user, film, 1 + (user * film) % 5) for user in range(12) for film in range(6) if (user + film) % 3],
    columns=["user", "film", "stars"],
)


@pytest.fixture(scope="module")
def lists() -> tb.TBM:
    rare = pd.concat([LONG, pd.DataFrame({"user": [0, 1], "film": [77, 77], "stars": [5, 5]})])
    table = tb.from_long(rare, "user", "film", "stars")
    return tb.TBM(n_hidden=2, n_factors=0, max_epochs=2, random_state=0).fit(table)


def test_one_item_twice_is_refused_where_the_table_is_made() -> None:
    twice = pd.concat([LONG, LONG.iloc[[4]]], ignore_index=True)
    user, film = LONG.iloc[4][["user", "film"]]
    with pytest.raises(SchemaError) as refused:
        tb.from_long(twice, "user", "film", "stars")
    place = f'row {len(LONG)}, column "film"'
    assert f"{place}: item {film} of user {user} occurs twice, also in row 4" in str(refused.value)
    assert "keep one line for each user and film" in str(refused.value)


def test_unknown_items_are_left_out_of_a_ranking(lists: tb.TBM) -> None:
    table = tb.from_long(LONG, "user", "film", "stars")
    with pytest.warns(SchemaWarning, match=r'column "film": 2 items are not in .* left out: 99, "x"'):
        found = lists.rank(table, items=[1, 2, 99, "x"], exclude_seen=False)
    pd.testing.assert_frame_equal(found, lists.rank(table, items=[1, 2], exclude_seen=False))
    pairs = pd.DataFrame({"user": [1, 2, 2], "film": [1, 2, 99]})
    with pytest.warns(SchemaWarning, match="1 item is not in"):
        assert len(lists.rank(table, items=pairs)) == 2
    with pytest.raises(SchemaError, match="there is no item 99"):
        lists.rank(table, items=[99, 98])


def test_text_in_place_of_a_number_is_said(lists: tb.TBM) -> None:
    table = tb.from_long(LONG, "user", "film", "stars")
    words = 'did you mean the number 1 instead of the text "1"'
    with pytest.raises(SchemaError, match=words):
        lists.rank(table, items=["1", "2"])
    with pytest.raises(SchemaError, match=words):
        lists.prefers(table, "1", 2)
    with pytest.raises(SchemaError, match="did you mean the number"):
        lists.transform(tb.from_long(LONG.astype({"film": str}), "user", "film", "stars"))


@pytest.mark.parametrize("given", [2.5, set(), {"age >= 45"}, [2.5], [None], object()])
def test_conditions_that_are_no_conditions_are_said(lists: tb.TBM, given: object) -> None:
    table = tb.from_long(LONG, "user", "film", "stars")
    with pytest.raises(SchemaError, match=r'given=.* give a dict such as .* or text such as "age >= 45"'):
        lists.predict_proba(table, given=given)
    with pytest.raises(SchemaError, match="given="):
        lists.sample(2, given=given)


def test_a_list_of_columns_in_place_of_one_is_said(lists: tb.TBM) -> None:
    table = tb.from_long(LONG, "user", "film", "stars")
    for ask in (
        lambda: lists.prefers(table, 1, 2, column=["film"]),
        lambda: lists.predict_proba(table, ["film"], given={"film": None}),
        lambda: lists.predict_interval(table, {"film"}, given={"film": None}),
        lambda: lists.similar_items(1, column=["film"]),
        lambda: lists.schema_[["film"]],
    ):
        with pytest.raises(SchemaError, match="give the name of one column; the schema has user, film"):
            ask()
    assert ["film"] not in lists.schema_


@pytest.mark.parametrize("columns", [set(), 3, None, "age", [("age", tb.Continuous())]])
def test_a_schema_of_anything_but_a_mapping_is_refused(columns: object) -> None:
    with pytest.raises(SchemaError, match="is not a mapping from names to columns; give a dict"):
        tb.Schema(columns)
    with pytest.raises(SchemaError, match="is not a mapping from names to columns; give a dict"):
        tb.Schema({}) | columns


@pytest.mark.parametrize("kind", [list, tuple, set, np.asarray])
def test_cells_that_hold_lists_need_no_schema(kind: Any) -> None:
    cells = [kind(["bus", "car", "bike"][: 1 + place % 3]) for place in range(30)]
    table = {"fan": ["yes", "no"] * 15, "owns": cells}
    fitted = tb.TBM(n_hidden=0, max_epochs=0, random_state=0).fit(table)
    assert type(fitted.schema_["owns"]).__name__ == "MultiSelect"
    assert set(fitted.schema_["owns"].labels) == {"bus", "car", "bike"}


def test_similar_items_have_enough_ratings(lists: tb.TBM, tmp_path: Path) -> None:
    assert lists.n_ratings_["film"].tolist() == [8] * 6 + [2]
    assert 77 not in lists.similar_items(1)["item"].tolist()
    assert 77 in lists.similar_items(1, min_ratings=2)["item"].tolist()
    assert len(lists.similar_items(77)) == 6  # it may be asked about
    assert len(lists.similar_items(1, min_ratings=9)) == 0
    with pytest.raises(ThurboError, match="min_ratings=-1"):
        lists.similar_items(1, min_ratings=-1)
    lists.save(tmp_path / "m")
    same = tb.TBM.load(tmp_path / "m")
    pd.testing.assert_frame_equal(same.similar_items(1), lists.similar_items(1))
    _forge(tmp_path / "m", lambda _, description: description.pop("n_ratings"))  # as older versions wrote it
    assert len(tb.TBM.load(tmp_path / "m").similar_items(1)) == 6
    _forge(tmp_path / "m", _describe("n_ratings", {"film": [1, 2]}))
    with pytest.raises(NotTrusted, match="n_ratings does not fit"):
        tb.TBM.load(tmp_path / "m")


def test_a_long_table_without_a_schema_is_noticed() -> None:
    own = tb.TBM(n_hidden=1, n_factors=0, max_epochs=0, random_state=0)
    with pytest.warns(SchemaWarning, match=r"use from_long\(X, 'user', 'film', score\)") as caught:
        own.fit(LONG)
    assert caught[0].filename == __file__
