"""Pictures for notebooks: each draws the figures that the report shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thurbo as tb
from tests.test_report import FakeModel, fake, two_segments  # noqa: F401  (for every test of this file)
from thurbo import plot
from thurbo.errors import SchemaError, ThurboError
from thurbo.predict.evaluation import Evaluation

mpl = pytest.importorskip("matplotlib")
mpl.use("agg")


@pytest.fixture(autouse=True)
def closed() -> Any:
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def case() -> tuple[FakeModel, dict[str, list[Any]]]:
    return fake()


def test_the_map_has_every_row_once(case: tuple[FakeModel, dict[str, list[Any]]]) -> None:
    model, table = case
    assert len(tb.plot.__all__) == 7
    drawn = plot.map(model, table)
    assert sum(len(each.get_offsets()) for each in drawn.collections) == 200
    labels = [text.get_text() for text in drawn.get_legend().get_texts()]
    assert len(labels) == 2
    by_answer = plot.map(model, table, "fan")
    yes = next(each for each in by_answer.collections if each.get_label() == "Yes")
    assert len(yes.get_offsets()) == table["fan"].count("Yes")
    by_number = plot.map(model, table, "age", ax=by_answer)
    assert by_number is by_answer
    with pytest.raises(SchemaError, match="mood"):
        plot.map(model, table, "mood")


def test_segments_show_shares_of_the_table(case: tuple[FakeModel, dict[str, list[Any]]]) -> None:
    model, table = case
    found = model.segments(table, 2)
    drawn = plot.segments(found, model.schema_)
    dots = [line.get_xdata()[0] for line in drawn.lines if line.get_marker() == "o"]
    values = [each["value"] for own in found.profiles for side in ("over", "under") for each in own[side]]
    assert dots
    assert all(np.isclose(dot, values).any() for dot in dots)
    assert len(drawn.get_yticklabels()) == len(dots)
    assert plot.segments(found).get_title(loc="left") == "Segments"


def test_units_show_shares_on_and_off(case: tuple[FakeModel, dict[str, list[Any]]]) -> None:
    model, table = case
    drawn = plot.units(model, table, 2)
    assert drawn.get_title(loc="left").startswith("Trait 2, on for ")
    assert {text.get_text() for text in drawn.get_legend().get_texts()} == {"on", "off"}
    with pytest.raises(ThurboError, match="numbered from 1"):
        plot.units(model, table, 9)


def test_history_calibration_dependence_and_missing(case: tuple[FakeModel, dict[str, list[Any]]]) -> None:
    model, table = case
    (curve,) = plot.history(model).lines
    assert curve.get_ydata().tolist() == [each["objective"] for each in model.history_]
    bins = [{"n": 5, "predicted": 0.3, "observed": 0.4}, {"n": 9, "predicted": 0.9, "observed": 0.8}]
    found = Evaluation([], {"n_cells": 14, "share": 0.1}, calibration=bins)
    points = plot.calibration(found).collections[0].get_offsets()
    np.testing.assert_allclose(points, [[0.3, 0.4], [0.9, 0.8]])
    related = model.dependence(table)
    image = plot.dependence(related, most=4).images[0].get_array()
    assert image.shape == (4, 4)
    assert np.nanmax(image.filled(np.nan)) == pytest.approx(np.nanmax(related.share))
    bars = plot.missing(model.schema_, table).patches
    gone = [np.mean([cell is None for cell in cells]) for cells in table.values()]
    assert [bar.get_width() for bar in bars] == pytest.approx([share for share in gone if share])


def test_everything_shows_itself_in_a_notebook() -> None:
    table = {"<a>": [0, 1, 1, 0] * 8, "b": ["x", "y", "y", None] * 8}
    schema = tb.Schema({"<a>": tb.Binary(), "b": tb.Categorical()})
    model = tb.TBM(schema, n_hidden=1, n_factors=0, max_epochs=1, random_state=0, verbose=False)
    assert "<a>" not in schema._repr_html_()
    unfitted = model._repr_mimebundle_()
    assert "text/html" in unfitted
    shown = model.fit(table)._repr_mimebundle_()["text/html"]
    assert "2 questions" in shown
    assert "1 hidden unit" in shown
    assert "<a>" not in shown
    assert model._repr_html_() == shown
