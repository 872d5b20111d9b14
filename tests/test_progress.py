"""A.2.4 What a fit tells while it runs: a bar on a terminal, plain lines elsewhere, nothing where nobody asked."""

import io
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

import thurbo as tb
from tests.known import SCHEMA, known_model
from thurbo.app.report.wording import time_words
from thurbo.fit import course
from thurbo.fit.course import Standing

EPOCH = {"epoch": 1, "objective": -0.5, "seconds": 1.0}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until it is told the time."""
    now = [100.0]
    monkeypatch.setattr(course, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_line_says_what_is_done_and_how_long_the_rest_may_take(clock: list[float]) -> None:
    standing = Standing(of=54)
    assert standing.line() == "0:00:00 fitting 0/54 starting"
    clock[0] += 40.0  # of which most went into the compiler: the first epoch says nothing about the others
    assert not standing.take({"epoch": 1, "objective": -1.25})
    assert standing.line() == "0:00:40 fitting 1/54 mean log-likelihood per answer (nats): -1.2500"
    clock[0] += 20.0
    standing.take({"epoch": 3, "objective": -1.125, "held_out": -1.5})
    assert (
        standing.line()
        == "0:01:00 fitting 3/54 mean log-likelihood per answer (nats): -1.1250, held out: -1.5000, about 8 min left"
    )
    clock[0] += 5.0  # in the midst of an epoch; the last score that was taken stays
    standing.take({"epoch": 52, "objective": -1.0})
    assert standing.line().endswith(
        "fitting 52/54 mean log-likelihood per answer (nats): -1.0000, held out: -1.5000, about 1 s left"
    )
    standing.take({"epoch": 54, "objective": -1.0})
    assert "left" not in standing.line()


def test_a_new_stage_begins_a_new_count(clock: list[float]) -> None:
    standing = Standing(of=54)
    assert standing.take({"stage": "predicting", "done": 0, "of": 17, "figure": "9 of them, compiling"})
    assert standing.line() == "0:00:00 predicting 0/17 9 of them, compiling"
    for done in (1, 2):
        clock[0] += 10.0
        assert not standing.take({"stage": "predicting", "done": done, "of": 17, "figure": "2 hidden units"})
    assert standing.line() == "0:00:20 predicting 2/17 2 hidden units, about 2 min left"
    assert standing.take({"stage": "fitting", "done": 0, "of": 54, "figure": "compiling"})
    clock[0] += 50.0
    assert not standing.take(EPOCH)
    assert standing.line() == "0:01:10 fitting 1/54 mean log-likelihood per answer (nats): -0.5000"


def test_a_log_file_gets_lines_while_nothing_happens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(course, "EVERY", 0.02)
    with course.progress(2, True) as told:
        assert capsys.readouterr().err == "0:00:00 fitting 0/2 starting\n"  # at once
        time.sleep(0.3)
        assert len(capsys.readouterr().err.splitlines()) >= 2
        told(EPOCH)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "0:00:00 fitting 1/2 mean log-likelihood per answer (nats): -0.5000"
    time.sleep(0.1)
    assert capsys.readouterr().err == ""  # the teller has gone


@pytest.mark.parametrize("verbose", [False, "auto"])
def test_nobody_is_told_who_did_not_ask(capsys: pytest.CaptureFixture[str], verbose: bool | str) -> None:
    with course.progress(2, verbose) as told:
        told(EPOCH)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_of_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with course.progress(2, "auto") as told:
        told({"stage": "predicting", "done": 3, "of": 17, "figure": "4 hidden units"})
        time.sleep(0.15)  # bars are drawn ten times a second
        told({"stage": "fitting", "done": 0, "of": 2, "figure": "compiling"})
        told(EPOCH)
    seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    for words in ("predicting", "3/17", "fitting", "1/2", "mean log-likelihood per answer (nats): -0.5000"):
        assert words in seen


def test_predictions_of_several_columns_show_progress(capsys: pytest.CaptureFixture[str]) -> None:
    model = known_model()
    frame = model.sample(5, random_state=0)
    names = list(SCHEMA.modelled)
    model.verbose = "auto"  # no terminal here
    quiet = model.predict(frame)
    assert capsys.readouterr().err == ""
    model.verbose = True
    assert model.predict(frame).equals(quiet)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(f" predicting 0/{len(names)} starting")
    assert lines[-1].endswith(f" predicting {len(names)}/{len(names)} {names[-1]}")
    model.predict(frame, names[0])
    assert capsys.readouterr().err == ""  # one column is soon done


def test_the_whole_time_is_told_by_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(course, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    seen: list[dict[str, Any]] = []
    timer = course.Clock()
    now[0] = 3.0  # the table was read
    told = timer.watch(seen.append)
    told({"stage": "fitting", "done": 0, "of": 3, "figure": "compiling"})
    for epoch, at in enumerate((20.0, 21.0, 22.0), start=1):  # a usual epoch takes one second
        now[0] = at
        told({"epoch": epoch, "objective": -1.0})
    now[0] = 23.0
    spent = timer.spent()
    assert spent == {"reading": 3.0, "compiling": 16.0, "training": 4.0, "total": 23.0}
    assert len(seen) == 4
    words = "23.0 s (reading 3.0, compiling 16.0, training 4.0)"
    assert time_words(spent) == words
    assert time_words({"total": 2.0}) == "2.0 s"


def test_a_fit_and_its_file_hold_the_time_that_was_spent(tmp_path: Any) -> None:
    began = time.perf_counter()
    model = tb.TBM(n_hidden=1, n_factors=0, max_epochs=2, random_state=0).fit({"a": [0, 1] * 15, "b": [1, 0, 1] * 10})
    wall = time.perf_counter() - began
    spent = model.time_spent_
    assert list(spent) == ["reading", "compiling", "training", "total"]  # no sizes had to be chosen
    assert sum(spent.values()) - spent["total"] == pytest.approx(spent["total"])
    assert model.history_[-1]["seconds"] <= spent["total"] <= wall
    model.save(tmp_path / "m.thurbo")
    assert tb.TBM.load(tmp_path / "m.thurbo").time_spent_ == spent
