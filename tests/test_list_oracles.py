"""Lists against enumeration: densities of numbers, leave-one-out predictions of levels, lines beside lists, polars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import thurbo as tb

ITEMS = [f"i{k}" for k in range(6)]
STATES = np.asarray([[0, 0], [0, 1], [1, 0], [1, 1]], float)
PLAIN = tb.ListSettings(item_decay=1.0, presence=False)


def _cells(kind: str, n: int = 40, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for row in range(n):
        own = rng.choice(len(ITEMS), rng.integers(2, 5), replace=False)
        value = (1 if row % 2 else -1) * np.where(own % 2, 1.0, -1.0) + 0.5 * rng.normal(size=len(own))
        scores = value.tolist() if kind == "numbers" else np.clip(np.round(2 + value), 1, 3).astype(int).tolist()
        found.append(dict(zip((ITEMS[k] for k in own), scores, strict=True)))
    return found


def _fit(kind: str, n_epochs: int = 8, **more: Any) -> tuple[tb.TBM, pd.DataFrame]:
    frame = pd.DataFrame({"r": _cells(kind), **more})
    columns = {"r": tb.Ratings(by=kind, settings=PLAIN), **{name: tb.Continuous() for name in more}}
    model = tb.TBM(
        columns, n_hidden=2, n_factors=0, max_epochs=n_epochs, learning_rate=0.05, random_state=0, verbose=False
    )
    return model.fit(frame), frame


def _log_weights(model: tb.TBM, sites: list[int], log_mass: np.ndarray) -> np.ndarray:
    """log P(h, e) up to the normaliser of the row's own sites: [state], and that normaliser."""
    mean = model.site_bias_ + STATES @ model.weights_.T
    prior = STATES @ model.hidden_bias_ + 0.5 * (mean[:, sites] ** 2).sum(axis=1)
    return prior + log_mass - logsumexp(prior)


def test_numbers_of_a_list_have_the_density_of_enumeration() -> None:
    model, frame = _fit("numbers")
    assert model.schema_.listed == ("r",)
    location, scale = model.scales_["r"]
    mean = model.site_bias_ + STATES @ model.weights_.T
    expected = []
    for cell in frame["r"]:
        sites = [model.schema_["r"].labels.index(item) for item in cell]
        x = (np.asarray(list(cell.values())) - location) / scale
        log_mass = (norm.logpdf(x[None, :] - mean[:, sites]) - np.log(scale)).sum(axis=1)
        expected.append(logsumexp(_log_weights(model, sites, log_mass)))
    np.testing.assert_allclose(model.score_samples(frame), expected, rtol=1e-4, atol=1e-4)


def test_each_level_of_a_list_is_predicted_from_the_others() -> None:
    model, frame = _fit("levels")
    few, item = frame.head(6), ITEMS[0]
    chance = model.predict_proba(few, "r", items=[item])[:, 0]
    mean = model.site_bias_ + STATES @ model.weights_.T
    cuts = np.concatenate(
        [np.full((len(ITEMS), 1), -np.inf), model.cuts_["r"], np.full((len(ITEMS), 1), np.inf)], axis=1
    )
    labels = model.schema_["r"].labels
    for row, cell in enumerate(few["r"]):
        others = {labels.index(name): value for name, value in cell.items() if name != item}
        sites, codes = list(others), np.asarray(list(others.values())) - 1
        low, high = cuts[sites, codes], cuts[sites, codes + 1]
        log_mass = np.log(norm.cdf(high - mean[:, sites]) - norm.cdf(low - mean[:, sites])).sum(axis=1)
        joint = _log_weights(model, sites, log_mass)
        weight = np.exp(joint - logsumexp(joint))
        asked = labels.index(item)
        levels = np.diff(norm.cdf(cuts[asked][None, :] - mean[:, [asked]]), axis=1)
        np.testing.assert_allclose(chance[row], weight @ levels, atol=2e-4)


@pytest.mark.slow
def test_a_line_that_holds_anyway_changes_no_probability_beside_lists() -> None:
    rng = np.random.default_rng(3)
    model, frame = _fit("levels", 0, a=rng.normal(size=40), b=rng.normal(size=40))
    wider = tb.Schema({**model.schema_, "said": tb.Inequality()})
    stated = frame.assign(said=[[({"a": 1, "b": -1}, ">=", -50)] if row % 2 else None for row in range(40)])
    other = tb.TBM(wider, n_hidden=2, n_factors=0, max_epochs=0, random_state=0, verbose=False).fit(stated)
    np.testing.assert_allclose(other.score_samples(stated), model.score_samples(frame), atol=1e-3)
    with pytest.raises(tb.SchemaError, match="item of a list"):
        other.score_samples(stated.assign(said=[[({"r.i0": 1, "a": -1}, ">=", 0)]] * 40))


def test_polars_holds_lists_as_structs() -> None:
    model, frame = _fit("levels")
    cells = [[{"item": item, "score": score} for item, score in cell.items()] for cell in frame["r"]]
    table = pl.DataFrame({"r": cells})
    np.testing.assert_array_equal(model.transform(table), model.transform(frame))
    filled = model.impute(table, items=ITEMS[:2])
    for old, new in zip(cells, filled["r"].to_list(), strict=True):
        assert new[: len(old)] == old
        assert {each["item"] for each in new} >= set(ITEMS[:2])
    again = model.predict(table, items=ITEMS[:2])
    assert [each["item"] for each in again["r"][0]] == ITEMS[:2]
