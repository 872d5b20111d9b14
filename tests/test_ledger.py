"""The ledger on a made benchmark: intervals, verdicts, what is recorded, what is said of failures, and the docs."""

from __future__ import annotations

import json
import os

import pytest
from benchmarks import ledger
from benchmarks.ledger_figures import FIGURES, RUNS, Figure, Run

ERROR = Figure("made.error", "made", "error", "Made", "% wrong", False, 2)
SCORE = Figure("made.score", "made", "deep.score", "Made", "nats", True, 3)
BROKEN = Figure("broken.error", "broken", "error", "Broken", "% wrong", False, 2)
MADE = """
import json, os, sys
seed = int(sys.argv[sys.argv.index("--seed") + 1])
assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
if "--fail" in sys.argv and seed == 1:
    sys.exit("the made benchmark stops here")
print("a table for people")
print(json.dumps({"error": 2.0 + 0.1 * seed, "deep": {"score": -1.0}}))
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Two runs of a made benchmark, one of which fails, with a ledger and a page of their own."""
    (tmp_path / "made_benchmark.py").write_text(MADE)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(ledger, "RUNS", {"made": Run("made_benchmark"), "broken": Run("made_benchmark --fail")})
    monkeypatch.setattr(ledger, "FIGURES", (ERROR, SCORE, BROKEN))
    monkeypatch.setattr(ledger, "LEDGER", tmp_path / "ledger.json")
    monkeypatch.setattr(ledger, "DOCS", tmp_path / "page.md")
    ledger.DOCS.write_text(f"before\n{ledger.BEGIN}\n{ledger.END}\nafter\n")
    return tmp_path


def measured(*values):
    return ledger.Measured(sum(values) / len(values), ledger.interval_of(values), (0, 1, 2), values, 1.0)


def test_interval_is_students_over_seeds():
    low, high = ledger.interval_of([1.0, 2.0, 3.0])
    assert low == pytest.approx(2.0 - 4.302652730 / 3**0.5)
    assert high == pytest.approx(2.0 + 4.302652730 / 3**0.5)
    assert ledger.interval_of([1.5]) == (1.5, 1.5)


@pytest.mark.parametrize(
    ("values", "error", "score"),
    [
        ((1.90, 1.91, 1.92), "equal", "equal"),
        ((1.95, 1.96, 1.97), "equal", "equal"),  # the intervals overlap
        ((2.04, 2.05, 2.06), "worse", "better"),
        ((1.74, 1.75, 1.76), "better", "worse"),
    ],
)
def test_verdict_goes_by_intervals_and_by_which_way_is_better(values, error, score):
    was = measured(1.88, 1.91, 1.94)
    recorded = {"value": was.value, "interval": list(was.interval)}
    assert ledger.verdict(ERROR, measured(*values), recorded) == error
    assert ledger.verdict(SCORE, measured(*values), recorded) == score
    assert ledger.verdict(ERROR, measured(*values), None) == "new"


def test_what_differs_by_less_than_the_digits_printed_is_equal():
    recorded = {"value": 1.91, "interval": [1.91, 1.91]}
    assert ledger.verdict(ERROR, measured(1.914, 1.914, 1.914), recorded) == "equal"
    assert ledger.verdict(ERROR, measured(1.916, 1.916, 1.916), recorded) == "worse"


def test_measures_records_and_compares(made, capsys):
    assert ledger.main(["--only", "made", "--record", "--write-docs", "--jobs", "2"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["new"] == 2
    own = json.loads(ledger.LEDGER.read_text())["figures"]["made.error"]
    assert own["value"] == pytest.approx(2.1)
    assert own["values"] == pytest.approx([2.0, 2.1, 2.2])
    assert own["seeds"] == [0, 1, 2]
    assert own["interval"] == pytest.approx(list(ledger.interval_of([2.0, 2.1, 2.2])))
    assert own["larger_is_better"] is False
    assert {"machine", "versions", "date", "seconds"} <= set(own)
    assert {"python", "jax", "thurbo"} == set(own["versions"])
    page = ledger.DOCS.read_text()
    assert "| Made (`made.error`) | % wrong, less is better | 2.10 | 1.85 to 2.35 | 3 |" in page
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    out = made / "result.json"
    assert ledger.main(["--only", "made", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["better"], found["equal"], found["worse"]) == (0, 2, 0)
    assert found["figures"]["made.error"]["recorded"]["value"] == pytest.approx(2.1)
    assert json.loads(out.read_text())["figures"] == found["figures"]


def test_recording_leaves_other_figures_alone(made):
    kept = {"value": 1.0, "interval": [0.9, 1.1], "note": "as it was"}
    old = {"value": 9.0, "interval": [9.0, 9.0]}
    ledger.LEDGER.write_text(json.dumps({"figures": {"other": kept, "made.error": old}}))
    assert ledger.main(["--only", "made.error", "--record", "--seeds", "2"]) == 0
    figures = json.loads(ledger.LEDGER.read_text())["figures"]
    assert figures["other"] == kept
    assert figures["made.error"]["values"] == pytest.approx([2.0, 2.1])
    assert "made.score" not in figures


def test_a_worse_figure_and_a_failed_run_are_told_and_stop_nothing(made, capsys):
    ledger.LEDGER.write_text(json.dumps({"figures": {"made.error": {"value": 1.0, "interval": [0.9, 1.1]}}}))
    assert ledger.main(["--record"]) == 1
    said = capsys.readouterr().out
    found = json.loads(said.splitlines()[-1])
    assert "the made benchmark stops here" in said
    assert found["figures"]["made.error"]["verdict"] == "worse"
    assert found["figures"]["made.score"]["verdict"] == "new"
    assert found["figures"]["broken.error"]["verdict"] == "failed"
    assert "1 of 3 runs failed" in found["figures"]["broken.error"]["why"]
    assert (found["worse"], found["failed"]) == (1, 1)
    assert "broken.error" not in json.loads(ledger.LEDGER.read_text())["figures"]


def test_a_figure_that_the_json_lacks_is_a_failure():
    done = [ledger.Done("made", 0, 1.0, {"error": None, "deep": 3})]
    assert "not a finite number" in ledger.measure(ERROR, done)
    assert "no deep.score" in ledger.measure(SCORE, done)


def test_unknown_names_are_refused(made):
    with pytest.raises(SystemExit):
        ledger.main(["--only", "nothing"])


def test_every_figure_has_its_run_and_a_name_of_its_own():
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)
    assert {figure.run for figure in FIGURES} == set(RUNS)
    assert all(figure.name.startswith(ledger.QUICK) == figure.run.startswith(ledger.QUICK) for figure in FIGURES)
    assert [f.name for f in ledger.selected(["mnist"], quick=True)] == ["quick/mnist.error"]
    assert len(ledger.selected(["sushi", "survey.country"], quick=False)) == 3


def test_the_page_shows_what_is_recorded():
    page = ledger.DOCS.read_text(encoding="utf-8")
    assert ledger.block(page).strip() == ledger.render(ledger.read(ledger.LEDGER))
