"""Whether the objective has settled: on curves that are known, and what a fit says of itself."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.fit.course import LEAST, TOLERANCE, unsettled


def history(values: Any, name: str = "objective") -> list[dict[str, Any]]:
    return [{"epoch": epoch, "objective": -1.0, name: float(value)} for epoch, value in enumerate(values, start=1)]


def curve(n: int, slowness: float, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """An objective that nears −0.9 from −1.1 at a rate that falls to zero in the second half."""
    epoch = np.arange(1, n + 1)
    trained = np.cumsum(np.minimum(1.0, 2 * (1 - epoch / n)))
    return -0.9 - 0.2 * np.exp(-trained / slowness) + noise * np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_curves_that_settle_and_curves_that_rise(noise: float) -> None:
    assert unsettled(history(curve(200, 10, noise)), 100) is None
    why = unsettled(history(curve(200, 100, noise)), 100)
    assert why is not None
    assert "the objective had not settled after 200 epochs: the last doubling of training raised it by 0.0" in why
    assert why.endswith("for example max_epochs=400")


def test_a_fit_that_settles_while_the_rate_falls_has_settled() -> None:
    values = curve(20, 4)
    assert values[9] - values[4] > 0.03  # at the full rate it was still rising
    assert unsettled(history(values), 10) is None


def test_a_last_step_up_at_low_rates_is_usual() -> None:
    """Without the noise of large steps the objective is a little higher; at the full rate it had long settled."""
    values = curve(200, 10)
    assert unsettled(history(values + 0.02 * (np.arange(200) > 150)), 100) is None


def test_noise_alone_is_no_rise() -> None:
    rises = [unsettled(history(curve(40, 1, 0.02, seed)), 20) is not None for seed in range(200)]
    assert np.mean(rises) < 0.05  # the tolerance and two standard errors


def test_a_few_epochs_cannot_tell() -> None:
    for n in (1, 3, 2 * LEAST - 2):
        why = unsettled(history(np.full(n, -1.0)), n // 2)
        assert why is not None
        assert f"{n} epoch" in why
        assert "too few" in why
    assert unsettled(history(np.full(2 * LEAST, -1.0)), LEAST) is None


def test_held_out_scores_count_before_the_training_objective() -> None:
    """Training goes on to rise when the held-out score has long stopped: more epochs would only overfit."""
    train, held = curve(200, 100), curve(200, 10)
    both = [{**a, "held_out": b} for a, b in zip(history(train), held, strict=True)]
    assert unsettled(both, 100) is None
    some = [record if record["epoch"] % 4 == 0 else {**history(train)[i]} for i, record in enumerate(both)]
    assert unsettled(some, 100) is None  # it is not computed in every epoch
    turned = [{**a, "held_out": b} for a, b in zip(history(held), train, strict=True)]
    assert "the held-out score had not settled" in str(unsettled(turned, 100))
    turned[50]["event"] = "the held-out score stopped improving: the learning rate decays from the best epoch"
    assert unsettled(turned, 100) is None
    assert TOLERANCE < 0.02


def table(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cause = rng.random(n) < 0.5
    return pd.DataFrame({name: np.where(rng.random(n) < np.where(cause, 0.85, 0.15), "yes", "no") for name in "abcd"})


SETTINGS: dict[str, Any] = {"n_hidden": 1, "n_factors": 0, "batch_size": 50, "learning_rate": 0.05, "random_state": 0}


def test_a_fit_says_whether_it_has_settled() -> None:
    frame = table()
    with pytest.warns(tb.ConvergenceWarning, match="3 epochs are too few .* max_epochs=16 or above"):
        short = tb.TBM(**SETTINGS, max_epochs=3).fit(frame)
    assert not short.converged_
    assert [record.get("settled") for record in short.history_] == [None, None, False]
    with pytest.warns(tb.ConvergenceWarning, match="had not settled after 24 epochs: .* max_epochs=48"):
        slow = tb.TBM(**SETTINGS | {"learning_rate": 0.01}, max_epochs=24).fit(frame)
    assert not slow.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.ConvergenceWarning)
        long = tb.TBM(**SETTINGS, max_epochs=120).fit(frame)
        none = tb.TBM(**SETTINGS, max_epochs=0).fit(frame)  # no training was asked for
        none.partial_fit(frame)  # and this is never at its end
    assert long.converged_
    assert long.history_[-1]["settled"] is True
    assert none.converged_


@pytest.mark.slow
@pytest.mark.parametrize("name", ["starwars", "flying-etiquette", "comma-survey"])
def test_default_fits_of_real_surveys_settle_and_three_epochs_do_not(name: str) -> None:
    if name == "starwars":
        frame, schema = tb.datasets.load_starwars()
    else:
        root = os.environ.get("THURBO_DATA")
        if root is None:
            pytest.skip("THURBO_DATA does not name the folder of the surveys")
        frame, schema = tb.read(Path(root) / "small-surveys" / f"{name}.csv")
    with pytest.warns(tb.ConvergenceWarning, match="too few"):
        assert not tb.TBM(schema, max_epochs=3, random_state=0).fit(frame).converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.ConvergenceWarning)
        assert tb.TBM(schema, random_state=0).fit(frame).converged_
