"""Draws and intervals of a model that is known: frequencies against enumeration, coverage against its level."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binomtest, chisquare, norm

import thurbo as tb
from tests.known import PARTIES, SCALE, SCHEMA, TRUST, Oracle, empty_rows, known_model
from thurbo.predict import draws, joint
from thurbo.table.columns.forms.form import central_levels

CHANCE = 2e-5
SAID = {"member": "no", "issues": "tax > health"}
ENDS = np.array([-np.inf, 165.0, 176.0, np.inf])  # heights in three classes


@pytest.fixture(scope="module")
def model() -> tb.TBM:
    return known_model()


@pytest.fixture(scope="module")
def sampled(model: tb.TBM) -> pd.DataFrame:
    return model.sample(1024, random_state=1)


def with_gaps(frame: pd.DataFrame, n_rows: int = 90) -> pd.DataFrame:
    gone = np.random.default_rng(0).random((n_rows, frame.shape[1])) < 0.3
    gone[0] = False
    return frame.head(n_rows).copy().mask(gone)


def joint_chances(oracle: Oracle) -> np.ndarray:
    """P(height class, trust, party | what is said), [class, trust, party]."""
    weight = oracle.posterior(SAID)
    x = (ENDS - 170.0) / 8.0 / SCALE["height"]
    height = np.diff(norm.cdf(x[None, :] - oracle.mean[:, [0]]), axis=1)
    trust = np.stack([oracle.chance("trust", level) for level in TRUST], axis=1)
    party = np.stack([oracle.chance("party", each) for each in PARTIES], axis=1)
    return np.einsum("s,sa,sb,sc->abc", weight, height, trust, party)


@pytest.mark.parametrize(
    ("method", "unobserved"),
    [
        ("exact", "marginalize"),
        pytest.param("gibbs", "exclude", marks=pytest.mark.slow),
        pytest.param("gibbs", "marginalize", marks=pytest.mark.slow),
        pytest.param("exact", "exclude", marks=pytest.mark.slow),
    ],
)
def test_missing_cells_are_drawn_jointly(method: str, unobserved: str) -> None:
    """Three missing cells of a row together follow the enumeration, and are not independent."""
    own = known_model(unobserved)
    completed = own.impute_draws(empty_rows(1024, **SAID), n=3, random_state=5, method=method)
    drawn = pd.concat(completed)
    assert (drawn["member"] == "no").all()
    table = np.zeros((3, 3, 3))
    classes = np.digitize(drawn["height"], ENDS[1:-1])
    codes = drawn["trust"].map(TRUST.index), drawn["party"].map(PARTIES.index)
    np.add.at(table, (classes, *codes), 1)
    expected = joint_chances(Oracle(unobserved))
    np.testing.assert_allclose(expected.sum(), 1.0, rtol=1e-6)
    assert chisquare(table.ravel(), len(drawn) * expected.ravel() / expected.sum()).pvalue > CHANCE
    apart = np.einsum("a,b,c->abc", expected.sum((1, 2)), expected.sum((0, 2)), expected.sum((0, 1)))
    assert chisquare(table.ravel(), len(drawn) * apart.ravel() / apart.sum()).pvalue < CHANCE


def test_draws_of_several_columns_of_one_row_agree_with_the_model(model: tb.TBM) -> None:
    """Options and rankings too: frequencies of whole answers, given nothing at all."""
    drawn = pd.concat(model.impute_draws(empty_rows(1024), n=3, random_state=2))
    oracle = Oracle()
    weight = oracle.posterior({})
    lists = [[], ["tv"], ["net"], ["tv", "net"]]
    orders = ["tax > health", "health > tax"]
    found = [
        ((drawn["media"].map(tuple) == tuple(a)) & (drawn["issues"] == b)).sum()
        for a, b in itertools.product(lists, orders)
    ]
    expected = [
        weight @ (oracle.chance("media", a) * oracle.chance("issues", b)) for a, b in itertools.product(lists, orders)
    ]
    assert sum(found) == len(drawn)
    assert chisquare(found, len(drawn) * np.asarray(expected) / np.sum(expected)).pvalue > CHANCE


def listed(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("list")


MAKERS = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.DataFrame(listed(frame)),
    "pyarrow": lambda frame: pa.table(listed(frame)),
    "dict": listed,
    "numpy": lambda frame: frame.to_numpy(object),
}


def as_frame(native: Any, library: str) -> pd.DataFrame:
    if library == "numpy":
        return pd.DataFrame(native, columns=list(SCHEMA))
    if library == "polars":
        return pd.DataFrame(native.to_dict(as_series=False))
    return pd.DataFrame(native.to_pydict() if library == "pyarrow" else native)


@pytest.mark.parametrize("library", MAKERS)
def test_answers_stay_and_gaps_are_filled(model: tb.TBM, sampled: pd.DataFrame, library: str) -> None:
    frame = with_gaps(sampled)
    native = MAKERS[library](frame)
    completed = model.impute_draws(native, n=2, random_state=np.random.RandomState(0))
    assert len(completed) == 2
    texts = []
    for each in completed:
        assert type(each) is type(native)
        full = as_frame(each, library)
        assert full.notna().all(axis=None)
        for name in frame:
            there = frame[name].notna().to_numpy()
            assert full[name][there].tolist() == frame[name][there].tolist()
        texts.append(str(full.to_dict("list")))
    assert texts[0] != texts[1]
    model.schema_.compile(full)  # every cell is one that the schema understands


def test_the_seed_decides_and_dtypes_stay(model: tb.TBM, sampled: pd.DataFrame) -> None:
    frame = with_gaps(sampled).astype({"party": pd.CategoricalDtype(PARTIES)})
    frame.index = pd.Index([f"p{i}" for i in range(len(frame))])
    once, again = (model.impute_draws(frame, n=2, random_state=4) for _ in range(2))
    for a, b in zip(once, again, strict=True):
        pd.testing.assert_frame_equal(a, b)
        assert a.index.equals(frame.index)
        assert a.dtypes.equals(frame.dtypes)
    other = model.impute_draws(frame, n=2, random_state=5)[0]
    assert not other["height"].equals(once[0]["height"])
    whole = frame.iloc[:1]
    for each in model.impute_draws(whole, n=2):
        pd.testing.assert_frame_equal(each, whole)


def test_draws_are_shared_evenly_among_refits() -> None:
    parts = draws.shares(7, 3, 50, np.random.RandomState(0))
    assert [part.n for part in parts] == [3, 2, 2]
    assert len({part.seed for part in parts}) == 3
    for part in parts:
        assert part.weight is not None
        assert part.weight.sum() == 50
        assert len(np.unique(part.weight)) > 2
    (alone,) = draws.shares(4, 0, 50, np.random.RandomState(0))
    assert (alone.n, alone.weight) == (4, None)


def test_refits_differ_by_what_the_rows_leave_open(sampled: pd.DataFrame) -> None:
    """Two refits to few rows have other medians of a row that says nothing than one model has: their draws spread."""
    frame = sampled[["height", "trust"]].head(12).copy()
    frame.loc[len(frame)] = [None, None]
    frame = pd.concat([frame] + [frame.tail(1)] * 200, ignore_index=True)
    frame["height"] = frame["height"].astype(float)
    columns = {name: SCHEMA[name] for name in frame}
    own = tb.TBM(columns, n_hidden=0, max_epochs=30, learning_rate=0.1, random_state=0, verbose=False).fit(frame)
    silent = slice(12, None)
    same = [each["height"][silent].mean() for each in own.impute_draws(frame, n=8, random_state=0)]
    refitted = own.impute_draws(frame, n=8, refits=4, random_state=0)
    assert len(refitted) == 8
    means = np.array([each["height"][silent].mean() for each in refitted]).reshape(4, 2)
    # Draws of one model agree but for the noise of 201 numbers; models of other rows do not.
    assert np.std(means.mean(axis=1)) > 2 * np.std(same)
    assert all(each["trust"].isin(TRUST).all() for each in refitted)


def test_a_missing_answer_that_is_confined_is_drawn_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something else than its own cell confines an answer, chains are used, and enumeration is refused."""
    own, frame = known_model(), empty_rows(600, **SAID)
    monkeypatch.setattr(draws, "_confined", lambda *_: (3, "trust"))
    with pytest.raises(tb.SchemaError, match=r'row 3, column "trust".*gibbs'):
        own.impute_draws(frame, n=1, method="exact")
    seen: list[bool] = []
    nothing = joint.Drawn(np.zeros((600, 11)), np.zeros((600, 2)), np.zeros((600, 0)))
    monkeypatch.setattr(joint, "latent_given_rows", lambda key, params, rows, exact: seen.append(exact) or nothing)
    own.impute_draws(frame, n=1)
    assert seen == [False]


@pytest.mark.slow
def test_draws_keep_to_inequalities_between_columns() -> None:
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=40), "b": np.random.default_rng(1).normal(size=40)})
    frame.loc[:19, "b"] = np.nan
    frame["more"] = pd.Series([[({"b": 1, "a": -1}, ">=", 0.5)]] * 20 + [None] * 20, dtype=object)
    columns = {"a": tb.Continuous(), "b": tb.Continuous(), "more": tb.Inequality()}
    own = tb.TBM(columns, n_hidden=1, max_epochs=0, random_state=0, verbose=False).fit(frame)
    for each in own.impute_draws(frame, n=3, random_state=0):
        assert ((each["b"] - each["a"])[:20] >= 0.5 - 1e-5).all()
    with pytest.raises(tb.SchemaError, match=r'row 0, column "b".*gibbs'):
        own.impute_draws(frame, n=1, method="exact")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no draws": ({"n": 0}, "n=0"),
    "no number": ({"n": 2.5}, "n=2.5"),
    "negative refits": ({"refits": -1}, "refits=-1"),
    "more refits than draws": ({"n": 2, "refits": 3}, "use n of at least refits"),
    "unknown method": ({"method": "mean-field"}, "auto, exact, gibbs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_draws_refuse_in_one_sentence(model: tb.TBM, case: str) -> None:
    settings, words = REFUSED[case]
    with pytest.raises(tb.ThurboError, match=words) as caught:
        model.impute_draws(empty_rows(600, **SAID), **settings)
    assert "\n" not in str(caught.value)


# Intervals


@pytest.mark.parametrize("name", ["height", "income"])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_numbers_cover_as_often_as_they_say(
    model: tb.TBM, sampled: pd.DataFrame, name: str, level: float
) -> None:
    ends = model.predict_interval(sampled, name, level)
    assert ends.shape == (len(sampled), 2)
    assert (ends[:, 0] < ends[:, 1]).all()
    truth = sampled[name].to_numpy()
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert binomtest(int(inside.sum()), len(truth), level).pvalue > CHANCE
    below = truth < ends[:, 0]  # equal tails
    assert binomtest(int(below.sum()), len(truth), (1 - level) / 2).pvalue > CHANCE


def test_intervals_of_numbers_hold_exactly_what_they_say(model: tb.TBM, sampled: pd.DataFrame) -> None:
    """Each tail of each row against the mixture over hidden states."""
    oracle, level = Oracle(), 0.9
    ends = model.predict_interval(sampled, "height", level)
    x = (ends - 170.0) / 8.0 / SCALE["height"]
    for row in range(20):
        cells = sampled.iloc[row].drop("height").to_dict()
        below = norm.cdf(x[row][None, :] - oracle.mean[:, [0]])
        np.testing.assert_allclose(oracle.posterior(cells) @ below, [0.05, 0.95], atol=2e-4)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_levels_hold_what_they_say(model: tb.TBM, sampled: pd.DataFrame, level: float) -> None:
    ends = model.predict_interval(sampled, "trust", level)
    low, high = (np.array([TRUST.index(label) for label in side]) for side in ends.T)
    chance = model.predict_proba(sampled, "trust")
    codes = np.arange(3)
    held = np.where((low[:, None] <= codes) & (codes <= high[:, None]), chance, 0.0).sum(axis=1)
    assert (held >= level - 1e-6).all()
    assert (held < 1 - 1e-6).any()
    truth = sampled["trust"].map(TRUST.index).to_numpy()
    inside = (low <= truth) & (truth <= high)
    # Each row covers with its own probability: a sum of unequal coins, nearly normal.
    distance = (inside.sum() - held.sum()) / np.sqrt((held * (1 - held)).sum())
    assert 2 * norm.sf(abs(distance)) > CHANCE


def test_runs_of_levels_are_the_smallest_central_ones() -> None:
    """Against every cut that changes a run, tried one by one."""
    rng = np.random.default_rng(0)
    chances = np.concatenate([rng.dirichlet(np.full(5, 0.5), 200), [[0.9, 0.05, 0.05, 0, 0], [0, 0, 1, 0, 0]]])
    for level in (0.3, 0.8, 0.9, 0.99):
        low, high = central_levels(chances, level)
        for row, (first, last) in zip(chances, zip(low, high, strict=True), strict=True):
            runs = []
            for cut in [0.0, *np.cumsum(row)[:-1], *np.cumsum(row[::-1])[:-1]]:
                left = [code for code in range(5) if row[: code + 1].sum() > cut + 1e-9]
                right = [code for code in range(5) if row[code:].sum() > cut + 1e-9]
                if cut < 0.5 and row[left[0] : right[-1] + 1].sum() >= level - 1e-9:
                    runs.append((right[-1] - left[0], left[0], right[-1]))
            assert (last - first, first, last) == min(runs)
    assert central_levels(chances[-2:], 0.9)[1].tolist() == [0, 2]


def test_intervals_take_conditions_and_refuse_in_one_sentence(model: tb.TBM, sampled: pd.DataFrame) -> None:
    some = sampled.head(200)
    plain = model.predict_interval(some, "height")
    given = model.predict_interval(some, "height", given={"trust": "a lot"})
    assert not np.allclose(plain, given)
    assert (model.predict_interval(some, "height", level=0.99)[:, 1] > plain[:, 1]).all()
    for column in ("member", "party", "issues", "media"):
        with pytest.raises(tb.ThurboError, match=f'column "{column}".*predict_proba'):
            model.predict_interval(some, column)
    for level in (0, 1, 1.5, True, "wide"):
        with pytest.raises(tb.ThurboError, match="level="):
            model.predict_interval(some, "height", level)
    with pytest.raises(tb.ThurboError, match="no such column"):
        model.predict_interval(some, "heigth")
