"""The data type of docs/extending.md works everywhere, from the one file that the page shows."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.app import report
from thurbo.table.columns import Column

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
SOURCE = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)[0]
MOST_LINES = 60


@pytest.fixture(scope="module")
def slider(tmp_path_factory: pytest.TempPathFactory):
    """The page's file, imported from a folder of its own, and forgotten afterwards."""
    path = tmp_path_factory.mktemp("extension") / "slider.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("slider", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["slider"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["slider"], Column.registered["slider"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Three questions about one attitude; some do not know, some answer at an end of the slider."""
    rng = np.random.default_rng(0)
    attitude = rng.normal(size=90)
    use = np.clip(np.round(50 + 45 * attitude + 10 * rng.normal(size=90)), 0, 100).astype(object)
    use[::15], use[7] = "don't know", None
    owner = np.where(attitude + 0.5 * rng.normal(size=90) > 0, "yes", "no").astype(object)
    owner[::10] = None
    trust = np.asarray(["low", "mid", "high"], object)[np.digitize(attitude + 0.5 * rng.normal(size=90), [-0.5, 0.5])]
    return pd.DataFrame({"use": use, "owner": owner, "trust": trust})


@pytest.fixture(scope="module")
def model(slider: ModuleType, frame: pd.DataFrame) -> tb.TBM:
    schema = {"use": slider.Slider(), "owner": tb.Binary(true="yes"), "trust": tb.Ordinal(["low", "mid", "high"])}
    return tb.TBM(schema, n_hidden=2, max_epochs=20, random_state=0, verbose=False).fit(frame)


def test_the_file_is_short() -> None:
    assert len(SOURCE.splitlines()) <= MOST_LINES


def test_gaps_and_unknown_answers_are_imputed_within_the_slider(model: tb.TBM, frame: pd.DataFrame) -> None:
    kept = model.impute(frame)["use"]
    assert (kept[frame["use"] == "don't know"] == "don't know").all()
    filled = model.impute(frame, fill="all")
    asked = pd.to_numeric(frame["use"], errors="coerce")
    numbers = filled["use"].astype(float)
    assert not filled.isna().any().any()
    assert numbers[asked.notna()].tolist() == asked[asked.notna()].tolist()
    ends = model.predict_interval(frame, "use", level=0.99)
    drawn = model.sample(50, random_state=0)["use"].astype(float)
    for values in (numbers, ends, drawn):
        assert np.min(values) >= 0
        assert np.max(values) <= 100
    assert np.max(ends) == 100  # the latent interval goes beyond the end


def test_ends_are_censored_and_statements_are_understood(model: tb.TBM, frame: pd.DataFrame) -> None:
    at_end = int((frame["use"] == 100).to_numpy().argmax())
    assert frame["use"][at_end] == 100
    words = str(model.inequalities(frame, at_end))
    assert "<= use" in words
    assert "use =" not in words
    given = model.predict_proba(frame, "owner", given="use >= 70")[:, 1]
    assert given.mean() > model.predict_proba(frame, "owner", given="use <= 30")[:, 1].mean()


def test_values_off_the_slider_are_refused(model: tb.TBM, slider: ModuleType, frame: pd.DataFrame) -> None:
    for value, words in ((130, "value 130 is more than 100"), (-5, "value -5 is less than 0")):
        wrong = frame.copy()
        wrong.loc[17, "use"] = value
        with pytest.raises(tb.SchemaError, match=f'row 17, column "use": {words}; correct the cell, or use Slider'):
            model.impute(wrong)
        lenient = tb.Schema({"use": slider.Slider(unseen="missing")}).fit(wrong)
        assert not lenient.compile(wrong)["use"].observed[17, 0]


@pytest.mark.usefixtures("few_segments")
def test_it_is_evaluated_and_reported(model: tb.TBM, frame: pd.DataFrame) -> None:
    found = model.evaluate(frame, hide=0.3, random_state=0, logistic=False)
    assert "use" in str(found)
    summary = report.summary(model, frame, title="A slider")
    assert summary["data"]["missing"]["use"] == pytest.approx({"don't know": 6 / 90, "no answer": 1 / 90})
    assert "censored at both ends" in report.render(summary)


def test_schema_and_model_come_back_from_files(model: tb.TBM, frame: pd.DataFrame, tmp_path: Path) -> None:
    model.save(tmp_path / "model.thurbo")
    again = tb.TBM.load(tmp_path / "model.thurbo")
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    model.schema_.to_toml(tmp_path / "schema.toml")
    assert tb.Schema.from_toml(tmp_path / "schema.toml")["use"] == model.schema_["use"]
