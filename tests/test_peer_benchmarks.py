"""The measures of the benchmarks with peers, and what goes between us and them; no peer is needed."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from benchmarks import censored, impute_gss

PEERS = Path(impute_gss.__file__).parent / "peers"


@pytest.fixture(scope="module")
def cells() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cells", PEERS / "cells.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FRAME = pd.DataFrame({"a": [1.0, 2.0, 2.0, 5.0, np.nan], "b": [0.0, 0.0, 1.0, 1.0, 1.0]})


def test_only_answered_cells_are_hidden_and_each_seed_hides_its_own():
    frame = pd.DataFrame(np.where(np.arange(2000).reshape(500, 4) % 7 == 0, np.nan, 1.0))
    first, second = (impute_gss.hidden_cells(frame, seed) for seed in (0, 1))
    assert not (first & frame.isna().to_numpy()).any()
    assert (first != second).any()
    assert first.sum() == pytest.approx(0.2 * frame.notna().to_numpy().sum(), rel=0.15)


def test_score_is_one_for_the_median_and_counts_exact_cells():
    hidden = np.array([[1, 0], [0, 0], [0, 1], [1, 0], [0, 1]], bool)
    shown = FRAME.mask(hidden)
    plain = impute_gss.marginal(shown)
    assert impute_gss.score(FRAME, hidden, plain).smae == pytest.approx(1.0)
    truth = FRAME.to_numpy()
    # Column a is off by 1 and 0 where its median, 2, is off by 1 and 3; column b is exact.
    guess = truth + np.array([[1.0, 0.0], [0, 0], [0, 0], [0, 0], [0, 0]])
    found = impute_gss.score(FRAME, hidden, impute_gss.Filled(guess, guess, 0.0))
    assert found.smae == pytest.approx((0.25 + 0.0) / 2)
    assert found.hit == pytest.approx(3 / 4)


def test_an_absent_peer_is_none(tmp_path: Path):
    assert impute_gss.theirs(FRAME, impute_gss.PEERS["lace"], tmp_path) is None
    assert censored.theirs([], [], tmp_path) is None


def test_a_peer_that_fails_is_no_silent_gap(tmp_path: Path):
    peer = impute_gss.Peer("no_such_script.py")
    with pytest.raises(RuntimeError, match=r"no_such_script\.py failed"):
        impute_gss.theirs(FRAME, peer, tmp_path)


def test_filled_in_numbers_move_to_answers_that_occur(cells: ModuleType):
    table = np.array([[1.0, 10.0], [4.0, np.nan], [np.nan, 20.0]])
    filled = np.array([[1.0, 10.0], [4.0, 16.0], [2.2, 20.0]])
    np.testing.assert_array_equal(cells.nearest(table, filled), [[1, 10], [4, 20], [1, 20]])


def test_median_and_mode_of_draws(cells: ModuleType):
    table = np.array([[1.0], [2.0], [5.0], [np.nan]])
    draws = np.stack([np.array([[1.0], [2.0], [5.0], [last]]) for last in (1.0, 1.0, 2.0, 5.0, 5.0, 5.0, 2.0)])
    median, mode = cells.of_draws(table, draws)
    assert (median[3, 0], mode[3, 0]) == (2.0, 5.0)


def test_share_of_the_most_frequent_answer(cells: ModuleType):
    assert cells.most_frequent(np.array([1.0, 1.0, 2.0, np.nan, 3.0])) == 0.5


def test_likelihood_of_points_and_intervals():
    data = censored.Data(np.array([1.0, -np.inf, 0.5]), np.array([1.0, 1.0, 2.0]), np.array(["x", "y", "x"]))
    fitted = censored.DISTRIBUTIONS["log-normal"](mu_=0.0, sigma_=1.0)
    # At 1 the density is φ(0), half of the mass lies below; the rest is P(−log 2 < z < log 2).
    expected = np.log([1 / np.sqrt(2 * np.pi), 0.5, math.erf(math.log(2) / math.sqrt(2))])
    np.testing.assert_allclose(censored.log_likelihood(fitted, data), expected, rtol=1e-6)


def test_folds_hold_every_row_out_once():
    cut = censored.splits(23, 5)
    np.testing.assert_array_equal(np.sort(np.concatenate([held for _, held in cut])), np.arange(23))
    assert all(not set(learned) & set(held) and len(learned) + len(held) == 23 for learned, held in cut)


def test_lifelines_hears_of_open_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / "echo.py"
    script.write_text(
        "import json, sys\n"
        "folds = json.load(open(sys.argv[1]))\n"
        "assert folds == [{'lower': [None, 2.0], 'upper': [1.0, 2.0]}], folds\n"
        "json.dump([{'normal': {'mu_': 1.0, 'sigma_': 1.0}}], open(sys.argv[2], 'w'))\n"
    )
    monkeypatch.setattr(censored, "LIFELINES", censored.Peer(str(script)))
    data = censored.Data(np.array([-np.inf, 2.0]), np.array([1.0, 2.0]), np.array(["x", "y"]))
    (found,) = censored.theirs([data], [data], tmp_path) or [{}]
    np.testing.assert_allclose(found["lifelines, normal"], [np.log(0.5), -0.5 - 0.5 * np.log(2 * np.pi)], rtol=1e-6)


def test_report_ends_in_json(capsys: pytest.CaptureFixture[str]):
    scores = {"thurbo": [impute_gss.Score(0.8, 0.5)], "lace": [impute_gss.Score(0.9, 0.4)]}
    impute_gss.report(scores, {"thurbo": [1.0], "lace": [2.0]})
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == {"smae": 0.8, "hit": 0.5, "peers": {"lace": {"smae": 0.9, "hit": 0.4}}}
    assert sys.executable == str(impute_gss.interpreter(impute_gss.PEERS["IterativeImputer, ridge"], Path("nowhere")))
