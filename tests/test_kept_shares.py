"""Rows that are drawn cell by cell keep the shares of labels of the training table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from benchmarks import agreement
from scipy.stats import norm
from thurbo.queries.kept_shares import Offsets

import thurbo as tb
from thurbo.queries import kept_shares


def test_cuts_give_the_shares_on_average_over_rows() -> None:
    rng = np.random.default_rng(0)
    mean, deviation, share = rng.normal(size=300), rng.uniform(0.5, 2, 300), np.asarray([0.1, 0.55, 0.05, 0.3])
    found = kept_shares.cuts_for(share, mean, deviation)
    below = norm.cdf((found[None, :] - mean[:, None]) / deviation[:, None]).mean(axis=0)
    np.testing.assert_allclose(below, [0.1, 0.65, 0.7], atol=1e-9)


def test_shifts_give_the_shares() -> None:
    x = np.random.default_rng(0).normal([0.0, 1.0, -1.0, 0.5], size=(4000, 4))
    share = np.asarray([0.4, 0.2, 0.3, 0.1])
    shift = kept_shares.shifts_for(share, x, np.zeros(4))
    np.testing.assert_allclose(np.bincount((x + shift).argmax(axis=1)) / 4000, share, atol=0.01)


def test_moved_values_decode_to_the_moved_label() -> None:
    own = np.asarray([[-1.0, 0.0, 2.0, np.inf]])  # three cuts
    offsets = Offsets(cuts={5: np.asarray([-1.5, 0.5, 2.0])}, shifts={7: np.asarray([1.0, 0.0])})
    x = np.asarray([[-1.2], [-3.0], [0.2], [0.7], [5.0]])
    full, none = (offsets.moved(5, x, own, np.full(5, strength)) for strength in (1.0, 0.0))
    np.testing.assert_array_equal((full > own).sum(axis=1), [1, 0, 1, 2, 3])
    np.testing.assert_array_equal(none, x)
    np.testing.assert_array_equal(full[[1, 3, 4]], x[[1, 3, 4]])  # the label is the same
    two = np.asarray([[0.0, 0.5]])
    np.testing.assert_allclose(offsets.moved(7, two, own, np.ones(1)), [[1.0, 0.5]])
    np.testing.assert_array_equal(offsets.moved(9, two, own, np.ones(1)), two)


@pytest.mark.slow
def test_queries_agree_with_the_bundled_survey() -> None:
    """Issue of default fits: shares of levels in the data and by every query, within 0.03."""
    frame, schema = tb.datasets.load_starwars()
    model = tb.TBM(schema, random_state=0, verbose=False).fit(frame)
    data = agreement.shares(model, frame)
    queries = {
        "sample": agreement.shares(model, model.sample(4000, random_state=0)),
        "impute_draws": agreement.shares(model, model.impute_draws(agreement.empty(model, 4000), 1, random_state=0)[0]),
        "predict_proba": {name: model.predict_proba(agreement.empty(model, 1), name)[0] for name in data},
    }
    for query, own in queries.items():
        for name, share in data.items():
            assert np.abs(own[name] - share).max() < 0.03, (query, name)


def test_a_row_without_answers_has_the_shares_of_the_table() -> None:
    rng = np.random.default_rng(0)
    h = rng.random(300) < 0.5
    frame = pd.DataFrame(
        {
            "a": np.where(rng.random(300) < np.where(h, 0.9, 0.3), "yes", "no"),
            "b": np.where(h, "x", rng.choice(["x", "y", "z"], 300)),
        }
    )
    schema = {"a": tb.Binary(true="yes"), "b": tb.Categorical(["x", "y", "z"])}
    model = tb.TBM(schema, members=2, max_epochs=40, learning_rate=0.05, random_state=0, verbose=False).fit(frame)
    empty = pd.DataFrame({"a": [None], "b": [None]})
    np.testing.assert_allclose(model.predict_proba(empty, "a")[0, 1], (frame["a"] == "yes").mean(), atol=0.005)
    shares = [(frame["b"] == label).mean() for label in "xyz"]
    np.testing.assert_allclose(model.predict_proba(empty, "b")[0], shares, atol=0.01)
    drawn = model.sample(3000, random_state=1)
    np.testing.assert_allclose([(drawn["b"] == label).mean() for label in "xyz"], shares, atol=0.04)
    together = pd.crosstab(drawn["a"], drawn["b"], normalize="index").to_numpy()
    expected = pd.crosstab(frame["a"], frame["b"], normalize="index").to_numpy()
    np.testing.assert_allclose(together, expected, atol=0.15)
