"""Rubin's rules against a published example and against their promise, which is coverage; the long form for R."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binomtest, norm, t

import thurbo as tb
from thurbo.errors import ThurboError

CHANCE = 2e-5
# Mean oxygen uptake of 31 runners in five completed tables, with standard errors: SAS/STAT's example of MIANALYZE.
OXYGEN = [47.0120, 47.2407, 47.4995, 47.1485, 47.0042]
ERRORS = np.asarray([0.95984, 0.93540, 1.00766, 0.95439, 0.96528])


def test_a_published_example() -> None:
    found = tb.pool(OXYGEN, ERRORS**2, n=31)
    assert found.estimate == pytest.approx(47.180993, abs=1e-4)
    assert found.between == pytest.approx(0.041478, abs=1e-4)
    assert found.within == pytest.approx(0.930853, abs=1e-5)
    assert found.variance == pytest.approx(0.980626, abs=1e-4)
    assert found.df == pytest.approx(26.298, abs=1e-2)
    assert found.interval == pytest.approx((45.1466, 49.2154), abs=2e-3)


def test_the_rules_by_hand() -> None:
    """Estimates 1, 2, 3 with variance 1/2: B = 1, T = 1/2 + 4/3, and so on."""
    found = tb.pool([1, 2, 3], [0.5, 0.5, 0.5])
    total, share = 0.5 + 4 / 3, (4 / 3) / (0.5 + 4 / 3)
    assert (found.estimate, found.within, found.between) == (2, 0.5, 1)
    assert found.variance == pytest.approx(total)
    assert found.standard_error == pytest.approx(np.sqrt(total))
    assert found.df == pytest.approx(2 / share**2)
    increase = (4 / 3) / 0.5
    assert found.missing_information == pytest.approx((increase + 2 / (found.df + 3)) / (increase + 1))
    half = t.ppf(0.975, found.df) * np.sqrt(total)
    assert found.interval == pytest.approx((2 - half, 2 + half))
    complete = 40 - 3
    observed = (complete + 1) / (complete + 3) * complete * (1 - share)
    assert tb.pool([1, 2, 3], [0.5] * 3, n=40, n_parameters=3).df == pytest.approx(1 / (1 / found.df + 1 / observed))


def test_without_gaps_nothing_is_added() -> None:
    found = tb.pool([2.0, 2.0, 2.0], [0.25, 0.25, 0.25])
    assert found.variance == 0.25
    assert found.missing_information == 0
    assert found.df == np.inf
    assert found.interval == pytest.approx((2 - 0.5 * norm.ppf(0.975), 2 + 0.5 * norm.ppf(0.975)))
    assert tb.pool([2.0, 2.0], [0.25, 0.25], n=21).df == pytest.approx(20 * 21 / 23)  # Barnard and Rubin's
    assert tb.pool([2.0, 2.0], [0.0, 0.0]).interval == (2.0, 2.0)


def test_several_quantities_are_pooled_one_by_one() -> None:
    estimates = np.random.default_rng(0).normal(size=(5, 3))
    variances = np.full((5, 3), 0.1)
    found = tb.pool(estimates, variances, n=50, level=0.8)
    for place in range(3):
        alone = tb.pool(estimates[:, place], variances[:, place], n=50, level=0.8)
        for name in ("estimate", "variance", "within", "between", "df", "missing_information"):
            assert getattr(found, name)[place] == pytest.approx(getattr(alone, name))
        assert [end[place] for end in found.interval] == pytest.approx(list(alone.interval))
    assert len(str(found).splitlines()) == 4
    assert "80%" in str(found)


def test_intervals_cover_as_often_as_they_say() -> None:
    """A normal mean of 25 numbers of which 10 are missing, imputed from its posterior: 90 of 100 intervals hold it."""
    rng, n, gone, m, hits, n_trials = np.random.default_rng(5), 25, 10, 5, 0, 1500
    naive = 0
    for _ in range(n_trials):
        seen = rng.normal(size=n - gone)
        scale = np.sqrt(seen.var(ddof=1) * (len(seen) - 1) / rng.chisquare(len(seen) - 1, m))
        mean = seen.mean() + scale / np.sqrt(len(seen)) * rng.normal(size=m)
        tables = np.concatenate([np.tile(seen, (m, 1)), mean[:, None] + scale[:, None] * rng.normal(size=(m, gone))], 1)
        variances = tables.var(axis=1, ddof=1) / n
        lower, upper = tb.pool(tables.mean(axis=1), variances, n=n, level=0.9).interval
        hits += lower <= 0 <= upper
        naive += abs(tables[0].mean()) <= t.ppf(0.95, n - 1) * np.sqrt(variances[0])
    assert binomtest(hits, n_trials, 0.9).pvalue > CHANCE
    assert binomtest(naive, n_trials, 0.9).pvalue < CHANCE  # one completed table alone would not


def table_with_gaps() -> dict[str, list[Any]]:
    return {"age": [30, None, 9, 41], "name": ["a", "b", None, "d"], "whole": [1, 2, 3, 4]}


def completed(number: int) -> dict[str, list[Any]]:
    """The 9 stands for no answer, so that draws fill it as well."""
    return {"age": [30, 20 + number, 50 + number, 41], "name": ["a", "b", "c", "d"], "whole": [1, 2, 3, 4]}


LIBRARIES: dict[str, Callable[[Any], Any]] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_long_form_is_what_mice_reads(library: str) -> None:
    make = LIBRARIES[library]
    long = tb.stack([make(completed(1)), make(completed(2))], make(table_with_gaps()))
    assert type(long) is type(make(completed(1)))
    frame = long if library == "pandas" else long.to_pandas()
    assert list(frame.columns) == [".imp", ".id", "age", "name", "whole"]
    assert frame[".imp"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert frame[".id"].tolist() == [1, 2, 3, 4] * 3
    # As as.mids does: cells that are NA where .imp is 0 are imputed, all others are the same in every part.
    original = frame[frame[".imp"] == 0].drop(columns=[".imp", ".id"]).reset_index(drop=True)
    gaps = original.isna()
    assert gaps["age"].tolist() == [False, True, True, False]
    assert gaps["name"].tolist() == [False, False, True, False]
    for number in (1, 2):
        part = frame[frame[".imp"] == number].drop(columns=[".imp", ".id"]).reset_index(drop=True)
        assert not part.isna().any().any()
        assert part["age"].tolist() == completed(number)["age"]
        for name in original:
            assert part[name][~gaps[name]].tolist() == original[name][~gaps[name]].tolist()
    assert pd.api.types.is_integer_dtype(frame["whole"])


def test_the_long_form_keeps_categories_and_lists() -> None:
    levels = pd.CategoricalDtype(["low", "high"], ordered=True)
    order = [[["a"], ["b"]], [["b"], ["a"]]]
    draw = pd.DataFrame({"trust": pd.Categorical(["low", "high"], dtype=levels), "order": order}, index=[7, 8])
    with_gap = draw.mask(pd.Series([False, True], index=[7, 8]), None).astype({"trust": levels})
    long = tb.stack([draw], with_gap)
    assert long["trust"].dtype == levels
    assert long["trust"].isna().tolist() == [False, True, False, False]
    stacked = [order[0], None, *order]
    assert long["order"].tolist() == stacked
    frames = [pl.DataFrame({"order": cells}) for cells in (order, [order[0], None])]
    assert tb.stack(frames[:1], frames[1])["order"].to_list() == stacked


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tb.pool([1.0], [1.0]), "give at least 2"),
        (lambda: tb.pool([1.0, 2.0], [1.0]), "shapes"),
        (lambda: tb.pool([1.0, 2.0], [1.0, -1.0]), "table 1: a variance is negative"),
        (lambda: tb.pool([1.0, np.nan], [1.0, 1.0]), "table 1: one of the estimates is not finite"),
        (lambda: tb.pool(["a", "b"], [1.0, 1.0]), "not all numbers"),
        (lambda: tb.pool([1.0, 2.0], [1.0, 1.0], n=1), "n=1 is not larger"),
        (lambda: tb.pool([1.0, 2.0], [1.0, 1.0], level=95), "level=95"),
        (lambda: tb.stack([], {"a": [1]}), "no completed table"),
        (lambda: tb.stack([{"a": [1, 2]}], {"a": [1]}), "draw 1 has 2 rows"),
        (lambda: tb.stack([{"b": [1]}], {"a": [1]}), "or the names differ"),
        (lambda: tb.stack([{".id": [1]}], {".id": [None]}), "already has this column"),
    ],
)
def test_what_cannot_be_pooled_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ThurboError, match=words):
        call()
