"""§5: how much of what members say beyond the shares of labels is kept: by quadrature, by hand, and in files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, log_expit

import thurbo as tb
from thurbo import model_file
from thurbo.fit import population
from thurbo.predict.correction import Anchor
from thurbo.predict.evaluation import ColumnTrial
from thurbo.predict.member import MemberAnswers as Asked
from thurbo.predict.member import MemberQuery
from thurbo.predict.predictive import Predictive

HALF = np.asarray([0.5, 0.5])


def expected_scores(slope: float, n: int, kept: bool) -> float:
    """E of the log score gained over shares by a logistic regression with a true slope, fitted to n answers.

    By quadrature over the feature z ~ N(0, 1) and the estimate ~ N(slope, 4 / n), which is its large-sample
    distribution for a label that half of the rows have. With `kept`, only the credible part of its log-odds counts.
    """
    (z, of_z), (noise, of_noise) = hermegauss(60), hermegauss(61)
    of_z, of_noise = of_z / of_z.sum(), of_noise / of_noise.sum()
    total, true = 0.0, expit(slope * z)
    for estimate, weight in zip(slope + noise * (4 / n) ** 0.5, of_noise, strict=True):
        odds = estimate * z
        if kept:
            chance = np.stack([expit(-odds), expit(odds)], axis=1)
            information = (of_z * (chance * np.log(chance / HALF)).sum(axis=1)).sum()
            odds = odds * information / (information + 1 / n)
        total += weight * (of_z * (true * log_expit(odds) + (1 - true) * log_expit(-odds))).sum()
    return float(total - np.log(0.5))


@pytest.mark.parametrize("n", [400, 2000])
def test_what_is_kept_predicts_better_where_little_can_be_known_and_as_well_elsewhere(n: int) -> None:
    """A slope of s standard errors: the credible part of a regression against all of it, in units of 1 / n."""
    gains = {
        s: n * (expected_scores(s * 2 / n**0.5, n, True) - expected_scores(s * 2 / n**0.5, n, False)) for s in range(9)
    }
    assert n * expected_scores(0.0, n, False) == pytest.approx(-0.5, abs=0.02), "what one useless parameter costs"
    assert gains[0] > 0.25, "half of that cost is saved, or more"
    assert gains[1] > 0.05
    assert min(gains.values()) > -0.35, "a third of a parameter is the most that can be lost"
    assert abs(gains[8]) < 0.15


def test_the_part_that_is_kept() -> None:
    chance = np.asarray([[0.75, 0.25], [0.25, 0.75]])
    information = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    assert population.credible_part(chance, HALF, 1, 100.0) == pytest.approx(information / (information + 0.01))
    assert population.credible_part(chance, HALF, 3, 100.0) == pytest.approx(information / (information + 0.03))
    assert population.credible_part(np.stack([HALF] * 4), HALF, 1, 100.0) == 0
    parts = [population.credible_part(chance, HALF, 1, n) for n in (0.0, 1.0, 10.0, 100.0, 1e9)]
    assert parts == sorted(parts)
    assert parts[-1] == pytest.approx(1)


def test_answers_with_unequal_weights_are_fewer() -> None:
    assert population.effective_answers(np.full(40, 0.3)) == pytest.approx(12)  # a weight is a number of answers
    assert population.effective_answers(np.asarray([1.5, 0.5] * 20)) == pytest.approx(32)
    assert population.effective_answers(np.asarray([1.0, 1.0, 0.0, 0.0])) == pytest.approx(2)
    assert population.effective_answers(np.zeros(0)) == 0


class Told(Asked):
    """What one member says about some lines: probabilities of labels, [line, label], for each site."""

    is_utility = False
    lines: Any = None

    def __init__(self, *chance: Any):  # without a model
        self.chance = [np.asarray(each, float) for each in chance]

    def levels(self, n_levels: int, site: int = 0) -> np.ndarray:
        return self.chance[site]

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        return self.chance[0], self.chance[0]


def bare(cls: type, **parts: Any) -> Any:
    """An object with only these parts."""
    found = object.__new__(cls)
    found.__dict__.update(parts)
    return found


def test_every_question_has_its_own() -> None:
    """From the weighted mean of the members, with a parameter for each free utility of a category."""
    schema = tb.Schema({
        "fan": tb.Binary(),
        "party": tb.Categorical(["a", "b", "c"]),
        "seen": tb.MultiSelect(["x", "y"]),
        "new": tb.Binary(),
        "films": tb.Ranking(["A", "B", "C"]),
        "age": tb.Continuous(),
    }).fit(pd.DataFrame({"fan": [True, False], "party": ["a", "c"], "seen": [["x"], ["y"]], "new": [True, False],
                         "films": ["A > B > C", None], "age": [30.0, 40.0]}))  # fmt: skip
    third, rest = np.full((1, 3), 1 / 3), bare(MemberQuery, schema=schema)

    def anchor(shares: Any) -> Anchor:
        found = np.atleast_2d(shares)
        return Anchor(found, np.zeros_like(found), np.ones(len(found)))

    shares = {"fan": anchor(HALF), "party": anchor(third), "seen": anchor([HALF, HALF]), "new": anchor(HALF)}
    shares |= {"films": anchor(third), "age": None}
    sure, unsure, party = [[0.9, 0.1]], [[0.5, 0.5]], [[0.6, 0.3, 0.1]]
    told = {
        "fan": [[sure], [unsure]],
        "party": [[party], [party]],
        "seen": [[sure, unsure]] * 2,
        "films": [[party]] * 2,
    }
    trials: list[Any] = [
        {name: bare(ColumnTrial, ask=Told(*own[member]), rest=rest) for name, own in told.items()} for member in (0, 1)
    ]
    weights = dict.fromkeys(shares, np.asarray([0.5, 0.5]))
    found = population.credible_anchors(trials, weights, shares, dict.fromkeys(shares, 50.0))
    mean = np.asarray([[0.7, 0.3]])
    expected = {
        "fan": [population.credible_part(mean, HALF, 1, 50.0)],
        "party": [population.credible_part(np.asarray(party), third[0], 2, 50.0)],
        "seen": [population.credible_part(np.asarray(sure), HALF, 1, 50.0), 0.0],
        "films": [1.0],
    }
    expected["new"] = [float(np.mean(expected["fan"] + expected["party"] + expected["seen"]))]
    for name, own in expected.items():
        each = found[name]
        assert each is not None
        np.testing.assert_allclose(each.credibility, own, atol=1e-12)
        np.testing.assert_array_equal(each.shares, shares[name].shares)  # type: ignore[union-attr]
    assert found["age"] is None


def test_the_credible_part_of_predictions_is_used() -> None:
    """Nothing of it leaves the shares, all of it the members' mean, and between them odds are raised to a power."""
    shares, chance = np.asarray([[0.2, 0.8]]), [[0.6, 0.4]]
    odds = []
    for part in (0.0, 0.5, 1.0):
        own: Any = [Told(chance)]
        ask = Predictive(tb.Binary(), own, np.ones(1), anchor=Anchor(shares, np.zeros((1, 2)), np.asarray([part])))
        found = ask.levels(2)
        np.testing.assert_array_equal(ask.labels("levels")[0], found)
        odds.append(float(np.log(found[0, 0] / found[0, 1])))
    assert odds[0] == pytest.approx(np.log(0.25))
    assert odds[2] == pytest.approx(np.log(1.5))
    assert odds[1] == pytest.approx((odds[0] + odds[2]) / 2)


def test_files_hold_it_and_older_files_have_none() -> None:
    own = {"shares": [[0.25, 0.75], [0.5, 0.5]], "tilt": [[0.0, 0.0], [0.0, 0.0]]}
    np.testing.assert_array_equal(model_file._anchors({"q": own})["q"].credibility, [1, 1])
    np.testing.assert_array_equal(
        model_file._anchors({"q": {**own, "credibility": [0.5, 1]}})["q"].credibility, [0.5, 1]
    )
    for wrong in ([0.5], [0.5, float("nan")], 0.5, [0.5, -1]):
        with pytest.raises(ValueError, match="credibility"):
            model_file._anchors({"q": {**own, "credibility": wrong}})


def test_files_hold_what_corrects_the_only_member_that_was_kept(tmp_path: Any) -> None:
    table = {"q": ["a", "b", "b", "b"], "r": ["x", "y", "y", None]}
    schema = {"q": tb.Categorical(["a", "b"]), "r": tb.Binary(true="y")}
    model = tb.TBM(schema, n_hidden=1, max_epochs=0, random_state=0).fit(table)
    anchor = Anchor(np.asarray([[0.25, 0.75]]), np.zeros((1, 2)), np.asarray([0.5]))
    correction = replace(model.model_.correction, exponents={"utility": 0.5}, anchors={"q": anchor})
    before = model.predict_proba(table, "q")
    model.model_ = replace(model.model_, correction=correction)
    corrected = model.predict_proba(table, "q")
    assert np.abs(corrected - before).max() > 1e-3
    model.save(tmp_path / "m.thurbo")
    again = tb.TBM.load(tmp_path / "m.thurbo")
    np.testing.assert_array_equal(again.predict_proba(table, "q"), corrected)
    assert again.model_.is_single
    assert again.members_ == []
