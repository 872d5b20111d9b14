"""A model file gives back the model that was saved, holds no rows of the data, and is refused when in doubt."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save as to_bytes

import thurbo as tb
from thurbo.table.io import files

SECRET = "Rumpelstilzchen lives here"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1)) + rng.normal(size=(400, 4))
    data = pd.DataFrame(
        {
            "height": 170 + 8 * x[:, 0],
            "income": np.exp(10 + x[:, 1]),
            "fan": np.where(x[:, 2] > 0, "Ja", "Nein"),
            "größe": np.digitize(x[:, 3], [-1.0, 0.0, 1.0]).astype(float),
            "note": [f"{SECRET} {i}" for i in range(400)],
        }
    )
    data.loc[::5, "height"] = np.nan
    data.loc[::7, "größe"] = np.nan
    return data


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> tb.TBM:
    """Untrained: what a file has to hold is the same, and nothing is compiled."""
    schema = {
        "height": tb.Continuous(),
        "income": tb.Continuous(transform="rank-normal"),
        "fan": tb.Binary(true="Ja"),
        "größe": tb.Ordinal(),
        "note": tb.Ignore("free text"),
    }
    settings: dict[str, Any] = {"n_hidden": np.int64(3), "max_epochs": 0, "learning_rate": np.float32(0.5)}
    own = tb.TBM(schema, random_state=np.int64(1), **settings).fit(frame)
    own.history_ = [{"epoch": 1, "objective": -1.5, "seconds": 0.1}]
    return own


@pytest.fixture
def file(model: tb.TBM, tmp_path: Path) -> Path:
    path = tmp_path / "model.thurbo"
    model.save(path)
    return path


def test_what_is_loaded_is_what_was_saved(model: tb.TBM, frame: pd.DataFrame, file: Path) -> None:
    for again in (tb.TBM.load(file), tb.TBM.load(str(file))):
        assert np.array_equal(again.transform(frame), model.transform(frame))
        assert np.array_equal(again.score_samples(frame), model.score_samples(frame))
        assert np.array_equal(again.predict_proba(frame, "größe"), model.predict_proba(frame, "größe"))
        pd.testing.assert_frame_equal(again.predict(frame), model.predict(frame))
        pd.testing.assert_frame_equal(again.sample(5, random_state=0), model.sample(5, random_state=0))
        assert again.log_partition() == model.log_partition()
        assert again.schema_ == model.schema_
        assert again.site_names_ == model.site_names_
        assert again.scales_ == model.scales_
        assert {name: cuts.tolist() for name, cuts in again.cuts_.items()} == {
            name: cuts.tolist() for name, cuts in model.cuts_.items()
        }
        assert (again.history_, again.objective_, again.converged_) == (
            model.history_,
            model.objective_,
            model.converged_,
        )
        assert again.n_features_in_ == 5
        assert again.feature_names_in_.tolist() == list(frame.columns)
        settings = again.get_params(deep=False)
        assert {**settings, "schema": None} == {**model.get_params(deep=False), "schema": None}


def test_a_model_gives_the_same_bytes_again(model: tb.TBM, file: Path, tmp_path: Path) -> None:
    first, again = file.read_bytes(), tmp_path / "again.thurbo"
    for own in [model] * 8 + [tb.TBM.load(file)] * 8:
        own.save(again)
        assert again.read_bytes() == first
    length = int.from_bytes(first[:8], "little")
    assert length % 8 == 0


def test_half_a_character_in_labels_is_kept(tmp_path: Path) -> None:
    table = {"broken \udfff": ["a\ud800", "b", "c ü 😀"] * 5, "fan": ["yes", "no", None] * 5}
    own = tb.TBM(n_hidden=0, max_epochs=0, random_state=0).fit(table)
    own.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    assert again.schema_ == own.schema_
    assert set(again.schema_["broken \udfff"].labels) == {"a\ud800", "b", "c ü 😀"}
    assert np.array_equal(again.predict_proba(table, "fan"), own.predict_proba(table, "fan"))


def test_a_model_of_an_array_comes_back(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(30, 3))
    own = tb.TBM(n_hidden=0, max_epochs=0, random_state=np.random.RandomState(0)).fit(array)
    own.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    assert not hasattr(again, "feature_names_in_")
    assert again.random_state is None
    assert np.array_equal(again.score_samples(array), own.score_samples(array))
    assert isinstance(again.sample(2), np.ndarray)


def test_the_file_holds_no_rows_and_no_code(model: tb.TBM, frame: pd.DataFrame, file: Path) -> None:
    content = file.read_bytes()
    assert SECRET.encode() not in content
    assert "Rumpel".encode("utf-16-le") not in content
    # A number of the data, as text or as bytes; a rank-normal column keeps knots, as quantiles do, so not that one. The
    # lowest and the highest are the range of predictions.
    heights = np.sort(frame["height"].dropna().to_numpy())[1:-1]
    assert not any(repr(float(value)).encode() in content or struct.pack("<d", value) in content for value in heights)
    arrays, description = files.load(file)
    params = {"site_bias", "weights", "hidden_bias", "loadings", "hidden_mean", "cuts", "scale"}
    assert set(arrays) == {*params, "seen_rows"}
    seen = arrays.pop("seen_rows")  # a number of 32 bits for each row, by which it is recognised
    assert (seen.dtype, seen.shape) == (np.uint32, (len(frame),))
    assert max(array.shape[0] for array in arrays.values()) == 4
    assert set(description) >= {"settings", "schema", "history"}
    # Of its size, twice the rows add nothing but further digits.
    twice = tb.TBM(**model.get_params(deep=False)).fit(pd.concat([frame, frame]))
    other = file.with_name("twice.thurbo")
    twice.save(other)
    assert abs(len(other.read_bytes()) - len(content)) < 500
    length = struct.unpack("<Q", content[:8])[0]
    assert set(json.loads(content[8 : 8 + length])) == {*arrays, "seen_rows", "__metadata__"}  # safetensors: no pickle


def refused(path: Path) -> str:
    with pytest.raises(tb.NotTrusted) as caught:
        tb.TBM.load(path)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)
    return str(caught.value)


def test_a_truncated_file_is_refused(file: Path) -> None:
    content = file.read_bytes()
    for length in sorted({0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 100, len(content) - 1}):
        file.write_bytes(content[:length])
        refused(file)
    file.write_bytes(content + b"x")
    refused(file)


def test_a_flipped_bit_is_refused(file: Path) -> None:
    """One bit anywhere: length, names, settings, schema, format, checksum, numbers."""
    content = file.read_bytes()
    header = 8 + struct.unpack("<Q", content[:8])[0]
    end = content.rindex(b"}", 0, header) + 1
    places = {0, 3, 7, 8, end - 1, header, len(content) - 1}
    for words in (b"__metadata__", b"thurbo 1", b"sha256", b"description", b"n_hidden", b"Ja", b"weights", b"F32"):
        places |= {content.index(words), content.index(words) + len(words) - 1}
    places |= set(range(9, end, 97)) | set(range(header, len(content), 17))
    for place in sorted(places):
        for bit in (1, 16):
            altered = bytearray(content)
            altered[place] ^= bit
            file.write_bytes(bytes(altered))
            refused(file)


def rewritten(file: Path, change: Callable[[dict[str, np.ndarray], dict[str, Any]], None]) -> None:
    """The file as if `save` had written something else, checksum included."""
    arrays, description = files.load(file)
    arrays = dict(arrays)
    change(arrays, description)
    files.save(file, arrays, description)


CHANGES: dict[str, Callable[[dict[str, np.ndarray], dict[str, Any]], Any]] = {
    "array lacking": lambda arrays, _: arrays.pop("weights"),
    "array too many": lambda arrays, _: arrays.update(extra=np.zeros(3)),
    "array of another shape": lambda arrays, _: arrays.update(weights=np.zeros((2, 3), np.float32)),
    "array without dimensions": lambda arrays, _: arrays.update(site_bias=np.zeros((), np.float32)),
    "hidden units of another number": lambda arrays, _: arrays.update(hidden_bias=np.zeros(9, np.float32)),
    "cuts lacking": lambda arrays, _: arrays.update(cuts=np.zeros((4, 1), np.float32)),
    "no schema": lambda _, description: description.pop("schema"),
    "strange column": lambda _, description: description["schema"]["columns"]["fan"].update(kind="tensor"),
    "strange setting": lambda _, description: description["settings"].update(colour="red"),
    "no list": lambda _, description: description.update(history=None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_save_would_not_write_is_refused(file: Path, change: str) -> None:
    rewritten(file, CHANGES[change])
    refused(file)


def test_foreign_files_are_refused(file: Path) -> None:
    foreign: dict[str, bytes] = {
        "empty": b"",
        "random": np.random.default_rng(0).bytes(5000),
        "text": b"column,value\n1,2\n" * 100,
        "pickle": b"\x80\x05K\x01.",
        "safetensors": to_bytes({"weights": np.zeros((4, 3), np.float32)}),
        "safetensors with metadata": to_bytes({"w": np.zeros(3)}, metadata={"format": "pt"}),
        "stamped only": to_bytes({"w": np.zeros(3)}, metadata={"format": "thurbo 1"}),
    }
    for content in foreign.values():
        file.write_bytes(content)
        refused(file)


def test_a_newer_format_is_refused_by_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, description = files.load(file)
    with monkeypatch.context() as patch:
        patch.setattr(files, "FORMAT", files.FORMAT + 1)
        files.save(file, arrays, description)
    message = refused(file)
    assert f"format {files.FORMAT + 1}" in message
    assert "update thurbo" in message
    for strange in ("thurbo ²", "thurbo x", "thurbo ", "thurbo -1"):
        file.write_bytes(to_bytes(arrays, metadata={"format": strange, "description": "{}", "sha256": ""}))
        refused(file)


def test_a_path_that_holds_no_file_is_refused(tmp_path: Path) -> None:
    assert "no model file" in refused(tmp_path / "nothing.thurbo")
    assert "no model file" in refused(tmp_path)


def test_saving_is_whole_or_not_at_all(
    model: tb.TBM, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(tb.ThurboError, match="directory does not exist"):
        model.save(tmp_path / "nowhere" / "model.thurbo")
    with pytest.raises(tb.ThurboError, match="it is a directory"):
        model.save(tmp_path)
    assert os.listdir(tmp_path) == [file.name]
    before = file.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(tb.ThurboError, match="No space left"):
                model.save(file)
        assert file.read_bytes() == before
        assert os.listdir(tmp_path) == [file.name]
    model.save(file)
    assert np.array_equal(tb.TBM.load(file).weights_, model.weights_)
    assert os.listdir(tmp_path) == [file.name]
