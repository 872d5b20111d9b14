"""§5: the course of a fit: what is kept, when the rate falls, what happens when it goes wrong, and picking up again."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.small import make_evidence, make_params, n_cuts_of, one_table
from thurbo.errors import NotTrusted, ThurboError
from thurbo.fit import course, trainer
from thurbo.fit.fitting import Checkpoint, fingerprint
from thurbo.fit.objective import RowChains
from thurbo.fit.planning import Plan
from thurbo.fit.trainer import Layout

PLAN = Plan(n_mean_field_steps=2)
LAYOUT = Layout(jnp.asarray(n_cuts_of(6)), jnp.asarray(n_cuts_of(6) == 0))


def started(plan=PLAN, seed=0) -> trainer.TrainState:
    n_cuts = n_cuts_of(6)
    cuts = np.where(np.arange(3)[None] < n_cuts[:, None], np.linspace(-1, 1, 3)[None], np.inf)
    learnable, centre = trainer.initial_coordinates(
        jax.random.key(seed), trainer.initial_values(cuts, np.dtype(np.float32)), 3, 0
    )
    return trainer.initial_state(learnable, centre, jnp.zeros((20, 3), jnp.float32), plan)


def rows(n=60, seed=1) -> course.WeightedRows:
    evidence = make_evidence(make_params(dtype=np.float32), n_rows=n, seed=seed)
    return course.WeightedRows(one_table(evidence), jnp.ones(n, jnp.float32))


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize("case", ["plain", "watched", "in trouble", "interrupted"])
def test_epochs_that_are_started_together_change_nothing(case, monkeypatch):
    plan = Plan(objective="multi-prediction", optimizer="sgd", n_mean_field_steps=2) if case == "in trouble" else PLAN
    length = course.Length(30 * 6, 45, 300.0 if case == "in trouble" else 0.05, patience=4)
    held_out, calls, running = rows(30, seed=2) if case == "watched" else None, [], trainer.epoch

    def on_epoch(record):
        if case == "interrupted" and record["epoch"] == 37:
            raise KeyboardInterrupt

    def fit(resume=None):
        begun, told = started(plan), None if resume else on_epoch
        options = {"held_out": held_out, "on_epoch": told, "resume": resume}
        return course.fit(jax.random.key(0), begun, rows(), LAYOUT, plan, length, **options)

    def plainly(history):
        return [{name: value for name, value in record.items() if name != "seconds"} for record in history]

    def counted(*arguments):
        calls.append(1)
        return running(*arguments)

    monkeypatch.setattr(course, "epoch", counted)
    alone = fit()
    n_alone = len(calls)
    assert n_alone == len(alone.history)
    monkeypatch.setattr(course, "MANY_EPOCHS", 45)
    together = fit()
    assert len(calls) > 2 * n_alone - (case == "plain")  # some were started in vain, unless all goes well
    assert plainly(together.history) == plainly(alone.history)
    assert (together.problem, together.converged) == (alone.problem, alone.converged)
    assert same(together.params, alone.params)
    assert same(together.state, alone.state)
    assert any("event" in record for record in alone.history) == (case in ("watched", "in trouble"))
    if case == "interrupted":
        assert together.unfinished.number == alone.unfinished.number == 36
        assert same(fit(together.unfinished).params, fit(alone.unfinished).params)


def test_the_best_parameters_on_held_out_rows_are_kept():
    length = course.Length(30 * 6, 40, 0.05, patience=4)
    fitted = course.fit(jax.random.key(0), started(), rows(), LAYOUT, PLAN, length, held_out=rows(30, seed=2))
    scores = [record["held_out"] for record in fitted.history]
    key = jax.random.fold_in(jax.random.key(0), 2**30)
    kept = float(course.held_out_score(key, fitted.params, rows(30, seed=2), PLAN))
    assert kept == pytest.approx(max(scores), abs=1e-6)
    assert kept > scores[0]
    # Sixty rows are soon learned by heart: the rate begins to fall from the best epoch, and training ends early.
    events = [record for record in fitted.history if "event" in record]
    assert len(events) == 1
    assert "stopped improving" in events[0]["event"]
    assert len(fitted.history) < 40
    assert fitted.converged


def test_training_that_breaks_goes_back_and_on_with_more_care():
    """A rate that breaks the first epochs but not those at a third of it: the fit recovers by itself and says so."""
    plan = replace(PLAN, objective="likelihood", optimizer="sgd", n_negative_steps=2)
    length = course.Length(30 * 6, 12, 4000.0)
    off, none = jnp.zeros((60, 3), bool), jnp.zeros((60, 0), jnp.float32)
    state = started(plan)._replace(rows=RowChains(off, none, none, off[:, :0]))
    fitted = course.fit(jax.random.key(0), state, rows(), LAYOUT, plan, length)
    events = [record["event"] for record in fitted.history if "event" in record]
    assert 1 <= len(events) <= course.MOST_RECOVERIES
    assert all("0.3 times the rate" in event for event in events)
    assert all(np.isfinite(leaf).all() for leaf in (fitted.params.weights, fitted.params.hidden_bias))


@pytest.mark.parametrize("moment", [np.inf, np.nan])
def test_training_goes_on_after_moments_of_the_optimiser_that_are_not_finite(moment):
    """A huge gradient leaves the parameters finite and its square infinite: no later step would move them."""
    length = course.Length(30 * 6, 20, 0.05)
    state = started()
    broken = jax.tree.map(lambda leaf: leaf + jnp.asarray(moment if leaf.ndim else 0, leaf.dtype), state.optimiser)
    state = state._replace(optimiser=broken)
    fitted = course.fit(jax.random.key(0), state, rows(), LAYOUT, PLAN, length)
    assert ["event" in record for record in fitted.history] == [True] + [False] * 19
    assert fitted.history[0]["event"].startswith("parameters or objective are not finite: returned")
    assert fitted.history[-1]["objective"] > fitted.history[1]["objective"] + 0.01
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fitted.state))


def test_a_checkpoint_holds_the_whole_run(tmp_path):
    length = course.Length(30 * 6, 8, 0.02)
    everything = {"held_out": rows(30, seed=2)}
    whole = course.fit(jax.random.key(0), started(), rows(), LAYOUT, PLAN, length, **everything)
    mark = fingerprint(rows(), started(), PLAN, length)
    file = Checkpoint(tmp_path / "run", mark, seconds_between=0.0)
    assert file.load(started()) is None

    def stop_after_three(run):
        file.save(run)
        if run.number == 3:
            raise KeyboardInterrupt

    part = course.fit(jax.random.key(0), started(), rows(), LAYOUT, PLAN, length, **everything, on_run=stop_after_three)
    assert not part.converged
    resumed = course.fit(
        jax.random.key(0), started(), rows(), LAYOUT, PLAN, length, **everything, resume=file.load(started())
    )
    assert same(resumed.params, whole.params)
    assert same(resumed.state, whole.state)
    drop = lambda history: [{k: v for k, v in record.items() if k != "seconds"} for record in history]  # noqa: E731
    assert drop(resumed.history) == drop(whole.history)


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    path = tmp_path / "run"
    run = course.Run(started(), started(), (1.0, 2.0), 0.1)
    Checkpoint(path, fingerprint(rows(), PLAN)).write(run)
    other = Checkpoint(path, fingerprint(rows(seed=5), PLAN))
    with pytest.raises(NotTrusted, match="the data, the settings or the seed differ"):
        other.load(started())
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(NotTrusted, match="not a complete thurbo model file"):
        Checkpoint(path, fingerprint(rows(), PLAN)).load(started())


def table(n=400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cause = rng.random(n) < 0.5
    noisy = lambda: np.where(rng.random(n) < 0.85, cause, ~cause)  # noqa: E731
    return pd.DataFrame({name: np.where(noisy(), "yes", "no") for name in "abcd"})


SCRIPT = """
import sys
import thurbo as tb
from thurbo.fit import fitting
from tests.test_course import table
fitting.SECONDS_BETWEEN = 0.0
fitting.Checkpoint.__init__.__defaults__ = (0.0,)
settings = dict(n_hidden=3, objective="multi-prediction", max_epochs=120, batch_size=50, random_state=0)
for name in sys.argv[1:]:
    tb.TBM(**settings, checkpoint=name + ".checkpoint").fit(table()).save(name + ".thurbo")
"""


def test_a_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    """As below, but within one process and interrupted between two epochs."""
    settings = {"n_hidden": 2, "objective": "multi-prediction", "max_epochs": 6, "batch_size": 25, "random_state": 0}
    frame, path, epoch, seen = table(50), tmp_path / "run.checkpoint", trainer.epoch, []
    whole = tb.TBM(**settings).fit(frame)

    def interrupted(*arguments):
        seen.append(1)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return epoch(*arguments)

    monkeypatch.setattr(course, "epoch", interrupted)
    with pytest.warns(tb.ConvergenceWarning, match="interrupted after 3 of 6 epochs"):
        part = tb.TBM(**settings, checkpoint=path).fit(frame)
    assert not same(part.params_, whole.params_)
    resumed = tb.TBM(**settings, checkpoint=path).fit(frame)
    assert same(resumed.params_, whole.params_)
    assert len(seen) == 4 + 3  # what was done is not done again


@pytest.mark.slow
def test_kill_at_any_moment_and_resume_to_the_same_parameters(tmp_path):
    """SIGKILL in the middle of training; the next process ends where an undisturbed one does, bit for bit."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-c", SCRIPT]
    environment = {**os.environ, "JAX_ENABLE_X64": "0"}
    # All programs are compiled and stored by the first fit, so that the second is not killed while it stores one.
    process = subprocess.Popen([*command, str(whole), str(killed)], env=environment, cwd=os.getcwd())
    path, deadline = killed.with_suffix(".checkpoint"), time.monotonic() + 120
    while time.monotonic() < deadline and not path.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.exists()
    assert not killed.with_suffix(".thurbo").exists()
    subprocess.run([*command, str(killed)], check=True, capture_output=True, env=environment)
    resumed, undisturbed = (tb.TBM.load(name.with_suffix(".thurbo")) for name in (killed, whole))
    assert same(resumed.params_, undisturbed.params_)
    assert 120 >= undisturbed.n_epochs_ == resumed.n_epochs_


@pytest.mark.slow
def test_partial_fit_learns_from_rows_as_they_come():
    frame = table(600)
    model = tb.TBM(n_hidden=2, objective="multi-prediction", batch_size=50, learning_rate=0.03, random_state=0)
    for _ in range(12):
        for begin in range(0, 600, 200):
            model.partial_fit(frame[begin : begin + 200])
    assert model.n_epochs_ == 36
    assert model.max_epochs == "auto"
    independent = tb.TBM(n_hidden=0, max_epochs=30, random_state=0).fit(frame)
    assert model.score(frame) > independent.score(frame) + 0.1


def test_a_loaded_model_does_not_go_on(tmp_path):
    frame = table(50)
    model = tb.TBM(n_hidden=1, max_epochs=1, random_state=0).fit(frame)
    model.save(tmp_path / "m")
    with pytest.raises(ThurboError, match="cannot go on learning"):
        tb.TBM.load(tmp_path / "m").partial_fit(frame)


@pytest.mark.parametrize("share", [-0.1, 1, "some"])
def test_shares_that_make_no_sense_are_refused(share):
    with pytest.raises(ThurboError, match="validation_fraction"):
        tb.TBM(learning=tb.Learning(validation_fraction=share)).fit(table(20))
